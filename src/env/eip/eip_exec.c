/* SPDX-License-Identifier: Apache-2.0
 *
 * Commands of the ExecutionEnv interface over EIP: the same shell, decoding and settlement here that
 * pi-env has over there. What differs is in docs/env-mapping.md. The caller's thread. Invariant: the
 * raw bytes of a spill are complete before its path is told. */
#include "env/eip/eip_int.h"

#include "base/utf8_stream.h"
#include "plat/file.h"
#include <math.h>

enum { SIGNAL_BASE = 128, ARGS_EXTRA = 4 };

/* ---- what comes out ---- */

typedef struct spill {
    bool is_wanted, is_due;
    tci_file file; /* of this machine, without a name */
    uint64_t nbytes, nnewlines;
    bool ends_with_newline;
} spill;

typedef struct following {
    const tc_exec_options *o;
    tci_utf8_stream decoders[2];
    tci_buf scratch;
    spill spill;
} following;

static int give(following *f, tc_stream_kind stream, tc_str text, tc_err *err)
{
    if (text.len == 0 || f->o->on_output == NULL)
        return 0;
    return f->o->on_output(f->o->user, stream, text, NULL, err);
}

static int keep(following *f, const char *bytes, size_t len, tc_err *err)
{
    spill *s = &f->spill;
    if (!s->is_wanted || len == 0)
        return 0;
    s->nbytes += len;
    for (size_t i = 0; i < len; i++)
        s->nnewlines += bytes[i] == '\n';
    uint64_t nlines = s->nnewlines + (bytes[len - 1] != '\n' ? 1 : 0);
    s->is_due |= s->nbytes > f->o->spill_after_bytes || nlines > f->o->spill_after_lines;
    return tci_file_write_all(s->file, bytes, len, err);
}

static int on_bytes(void *user, tc_stream_kind stream, const void *bytes, size_t len, tc_err *err)
{
    following *f = user;
    int rc = keep(f, bytes, len, err);
    if (rc < 0)
        return rc;
    tc_str text = tci_utf8_stream_feed(&f->decoders[stream], tci_str_of(bytes, len), &f->scratch);
    rc = tci_buf_error(&f->scratch, err);
    return rc == 0 ? give(f, stream, text, err) : rc;
}

static int give_rest(following *f, tc_err *err)
{
    int rc = give(f, TC_STDOUT, tci_utf8_stream_end(&f->decoders[TC_STDOUT]), err);
    return rc == 0 ? give(f, TC_STDERR, tci_utf8_stream_end(&f->decoders[TC_STDERR]), err) : rc;
}

/* ---- the spill file ---- */

static int open_spill(tc_env *env, spill *s, tc_err *err)
{
    tc_str folder = tci_str(tci_runtime_getenv(env->rt, "TMPDIR"));
    if (folder.len == 0 || folder.ptr[0] != '/')
        folder = TC_STR("/tmp");
    s->file = TCI_FILE_NONE;
    return tci_file_open(folder, TCI_OPEN_READ | TCI_OPEN_WRITE | TCI_OPEN_UNNAMED, 0600, &s->file,
                         err);
}

/* Put what was kept where it can be found over there. */
static int upload_spill(tc_env *env, const tc_call *call, spill *s, tc_str *ret_path, tc_err *err)
{
    tc_str path;
    tc_call own = TC_CALL(NULL, NULL); /* also when the call itself was aborted */
    int rc = tc_result_new(&own.result, err);
    if (rc == 0)
        rc = tc_env_create_temp_file(env, &own, TC_STR("pi-output-"), TC_STR(".log"), &path, err);
    if (rc == 0)
        rc = tci_file_seek(s->file, 0, err);
    tc_write_options o = {.size = sizeof o, .mode = TC_WRITE_REPLACE};
    if (rc == 0)
        rc = tc_session_upload_fd(TCI_CONTAINER(env, tci_eip_env, base)->session, &own, path, &o,
                                  s->file.fd, NULL, err);
    if (rc == 0)
        rc = tc_result_dup(call->result, path, ret_path, err);
    tc_result_free(own.result);
    return rc;
}

/* ---- the command ---- */

typedef struct preparing {
    tci_arena *a;
    tc_command command;
    tc_str *args;
} preparing;

/* A program's arguments, after those that program itself needs first. */
static int set_program(preparing *p, const tc_str *first, size_t nfirst, const tc_str *rest,
                       size_t nrest, tc_err *err)
{
    tc_str *args = tci_arena_items(p->a, tc_str, nfirst + nrest);
    if (args == NULL)
        return tci_arena_error(p->a, err);
    for (size_t i = 0; i < nfirst + nrest; i++)
        args[i] = i < nfirst ? first[i] : rest[i - nfirst];
    p->command.program = args[0];
    p->command.args = args + 1;
    p->command.nargs = nfirst + nrest - 1;
    return 0;
}

static bool is_file_there(tc_env *env, const tc_call *call, tc_str path)
{
    tc_call aside;
    tc_file_info info;
    tc_err ignored;
    if (tci_eip_aside(call, &aside, &ignored) < 0)
        return false;
    bool is_there = tci_eip_stat(env, &aside, path, true, &info, &ignored) == 0;
    tci_eip_aside_done(&aside);
    return is_there;
}

static int set_shell(tc_env *env, const tc_call *call, preparing *p, tc_str script, tc_err *err)
{
    tc_str shell = env->shell_path.len > 0 ? env->shell_path : TC_STR("/bin/bash");
    bool is_there = is_file_there(env, call, shell);
    if (!is_there && env->shell_path.len > 0)
        return tci_env_fail(call, TC_ENV_SHELL_UNAVAILABLE, (tc_str){0}, err, TC_E_START_FAILED,
                            "there is no shell at '%.*s'", TC_STR_ARG(shell));
    tc_str argv[] = {is_there ? shell : TC_STR("/bin/sh"), TC_STR("-c"), script};
    return set_program(p, argv, TCI_ARRAY_LEN(argv), NULL, 0, err);
}

static int set_argv(preparing *p, tc_strs argv, tc_str cwd, tc_err *err)
{
    tc_str program = argv.items[0];
    bool is_relative = tci_str_find_byte(program, '/') < program.len && program.ptr[0] != '/';
    if (is_relative) {
        int rc = tci_env_resolve(cwd, program, p->a, &program, err);
        if (rc < 0)
            return rc;
    }
    return set_program(p, &program, 1, argv.items + 1, argv.count - 1, err);
}

/* Only set_env, and nothing of the daemon's: by the program that does that. */
static int clear_env(preparing *p, const tc_exec_options *o, tc_err *err)
{
    tc_str *first = tci_arena_items(p->a, tc_str, o->nset_env + ARGS_EXTRA);
    size_t n = 0;
    if (first == NULL)
        return tci_arena_error(p->a, err);
    first[n++] = TC_STR("env");
    first[n++] = TC_STR("-i");
    for (size_t i = 0; i < o->nset_env; i++) {
        int rc = tci_arena_printf(p->a, &first[n++], err, "%.*s=%.*s",
                                  TC_STR_ARG(o->set_env[i].key), TC_STR_ARG(o->set_env[i].value));
        if (rc < 0)
            return rc;
    }
    first[n++] = p->command.program;
    return set_program(p, first, n, p->command.args, p->command.nargs, err);
}

static int keep_env(tc_env *env, preparing *p, const tc_exec_options *o, tc_err *err)
{
    size_t n = 0, total = env->nshell_env + o->nset_env;
    tc_pair *pairs = tci_arena_items(p->a, tc_pair, total);
    if (pairs == NULL && total > 0)
        return tci_arena_error(p->a, err);
    for (size_t i = 0; i < total; i++) {
        const tc_pair *pair =
            i < env->nshell_env ? &env->shell_env[i] : &o->set_env[i - env->nshell_env];
        size_t at = 0;
        while (at < n && !tci_str_eq(pairs[at].key, pair->key))
            at++;
        pairs[at] = *pair;
        n = at == n ? n + 1 : n;
    }
    p->command.set_env = pairs;
    p->command.nset_env = n;
    return 0;
}

static int prepare(tc_env *env, const tc_call *call, const tc_exec_options *o, tc_str cwd,
                   preparing *p, tc_err *err)
{
    *p = (preparing){.a = tci_result_arena(call->result),
                     .command = {.size = sizeof p->command, .cwd = cwd}};
    int rc = o->is_argv ? set_argv(p, o->argv, cwd, err) : set_shell(env, call, p, o->script, err);
    if (rc == 0)
        rc = o->without_inherited_env ? clear_env(p, o, err) : keep_env(env, p, o, err);
    const tc_session *session = TCI_CONTAINER(env, tci_eip_env, base)->session;
    uint64_t max_ms = tc_session_get_info(session)->limits.max_operation_duration_ms;
    if (rc == 0 && o->has_timeout)
        p->command.wall_time_ms = tci_min_u64(max_ms, (uint64_t)ceil(o->timeout_s * 1000));
    return rc;
}

/* ---- how it ended ---- */

static int settle(const tc_call *call, const tc_exec_options *o, const tc_process_status *status,
                  tc_exec_outcome *ret, tc_err *err)
{
    char seconds[TCI_NUM_TEXT_MAX];
    switch (status->phase) {
    case TC_PROCESS_EXITED:
        ret->exit_code = status->exit_code;
        return 0;
    case TC_PROCESS_SIGNALED:
        ret->exit_code = SIGNAL_BASE + tci_signal_number(status->signal);
        return 0;
    case TC_PROCESS_TIMED_OUT:
        return tci_env_fail(call, TC_ENV_TIMEOUT, (tc_str){0}, err, TC_E_TIMEOUT, "timeout:%.*s",
                            (int)tci_num_double_text(o->timeout_s, seconds), seconds);
    case TC_PROCESS_CANCELLED:
        return tci_env_fail(call, TC_ENV_ABORTED, (tc_str){0}, err, TC_E_CANCELLED,
                            "the command was aborted");
    case TC_PROCESS_STARTING:
    case TC_PROCESS_RUNNING:
    case TC_PROCESS_FAILED:
        break;
    }
    return tci_env_fail(call, TC_ENV_UNKNOWN, (tc_str){0}, err, TC_E_IO,
                        "the device lost sight of the command, or its output was too much");
}

/* A failure to start is the command's own; what came later is not. */
static int blame_start(const tc_call *call, int rc)
{
    const tc_evidence *e = tc_result_evidence(call->result);
    bool is_start = rc == TC_E_START_FAILED || rc == TC_E_DENIED || rc == TC_E_NOT_FOUND;
    if (e->env_error == TC_ENV_OK && is_start)
        tci_env_blame(call, TC_ENV_SPAWN_ERROR, (tc_str){0});
    else if (e->env_error == TC_ENV_OK && tci_env_word_of(rc) != TC_ENV_ABORTED)
        tci_env_blame(call, TC_ENV_UNKNOWN, (tc_str){0});
    return rc;
}

static int run(tc_env *env, const tc_call *call, const tc_command *command, following *f,
               tc_exec_outcome *ret, tc_err *err)
{
    tc_run_result res = {.is_timed_out = false};
    tc_run_options options = {.size = sizeof options, .on_output = on_bytes, .user = f};
    if (f->spill.is_wanted && open_spill(env, &f->spill, err) < 0)
        return tci_env_fail(call, TC_ENV_UNKNOWN, (tc_str){0}, err, TC_E_IO,
                            "Failed to preserve complete shell output: no temporary file here");
    int rc = tci_eip_run_command(env, call, command, &options, &res, err);
    if (rc < 0)
        rc = blame_start(call, rc);
    if (rc == 0)
        rc = give_rest(f, err);
    if (rc == 0)
        rc = settle(call, f->o, &res.status, ret, err);
    return rc;
}

/* The word and outcome of the run stay, whatever happens to its spill. */
static int add_spill(tc_env *env, const tc_call *call, following *f, int rc, tc_exec_outcome *ret,
                     tc_err *err)
{
    tc_str path = {0};
    tc_err why;
    bool is_told = rc == 0 || rc == TC_E_TIMEOUT || rc == TC_E_CANCELLED;
    if (!f->spill.is_due || !is_told)
        return rc;
    if (upload_spill(env, call, &f->spill, &path, &why) == 0) {
        ret->spill_path = path;
        tci_env_evidence(call)->spill_path = path;
        return rc;
    }
    if (rc < 0)
        return rc;
    return tci_env_fail(call, TC_ENV_UNKNOWN, (tc_str){0}, err, TC_E_IO,
                        "Failed to preserve complete shell output: %s", why.msg);
}

int tci_eip_exec(tc_env *env, const tc_call *call, const tc_exec_options *options, tc_str cwd,
                 tc_exec_outcome *ret_outcome, tc_err *err)
{
    preparing p;
    tc_exec_outcome outcome = {.exit_code = 0};
    if (!env->v->can_exec(env))
        return tci_env_fail(call, TC_ENV_UNKNOWN, (tc_str){0}, err, TC_E_UNSUPPORTED,
                            "the device offers no commands");
    int rc = prepare(env, call, options, cwd, &p, err);
    if (rc < 0)
        return rc;
    following f = {.o = options, .spill = {.is_wanted = options->has_spill}};
    f.spill.file = TCI_FILE_NONE;
    tci_buf_init(&f.scratch, TCI_BUF_MAX);
    rc = run(env, call, &p.command, &f, &outcome, err);
    rc = add_spill(env, call, &f, rc, &outcome, err);
    tci_file_close(&f.spill.file);
    tci_buf_done(&f.scratch);
    if (rc == 0)
        *ret_outcome = outcome;
    return rc;
}
