/* SPDX-License-Identifier: Apache-2.0
 *
 * Commands of the ExecutionEnv interface over pi-env: one request, whose events are the output. The
 * caller's thread. Invariant: a command whose call has returned is not left running. */
#include "env/pi/pi_int.h"

/* Variables as the request wants them: those of every command, then this one's; none twice. */
static int merge_env(const tc_env *env, const tc_exec_options *o, tci_arena *a,
                     tci_pi_exec_params *params, tc_err *err)
{
    size_t nshell = o->without_inherited_env ? 0 : env->nshell_env, n = 0;
    tci_proto_pair *pairs = tci_arena_items(a, tci_proto_pair, nshell + o->nset_env);
    if (pairs == NULL && nshell + o->nset_env > 0)
        return tci_arena_error(a, err);
    for (size_t i = 0; i < nshell + o->nset_env; i++) {
        const tc_pair *p = i < nshell ? &env->shell_env[i] : &o->set_env[i - nshell];
        size_t at = 0;
        while (at < n && !tci_str_eq(pairs[at].key, p->key))
            at++;
        pairs[at] = (tci_proto_pair){p->key, p->value};
        n = at == n ? n + 1 : n;
    }
    params->env.items = pairs;
    params->env.count = n;
    return 0;
}

static int fill_params(const tc_env *env, const tc_exec_options *o, tc_str cwd, tci_arena *a,
                       tci_pi_exec_params *params, tc_err *err)
{
    *params = (tci_pi_exec_params){
        .has_command = !o->is_argv,
        .command = o->script,
        .has_cwd = true,
        .cwd = cwd,
        .inherit_env = !o->without_inherited_env,
        .has_shell_path = !o->is_argv && env->shell_path.len > 0,
        .shell_path = env->shell_path,
        .has_timeout_ms = o->has_timeout,
        .timeout_ms = o->timeout_s * 1000,
        .has_spill = o->has_spill,
        .spill = {.after_bytes = o->spill_after_bytes, .after_lines = o->spill_after_lines},
        .has_window = o->has_window,
        .window = {.max_bytes = o->window_max_bytes,
                   .max_lines = o->window_max_lines,
                   .min_interval_ms = (double)o->window_min_interval_ms,
                   .bytes_per_second = (double)o->window_bytes_per_second},
    };
    if (o->is_argv) {
        params->argv.items = tci_arena_copy(a, o->argv.items, o->argv.count * sizeof(tc_str));
        params->argv.count = o->argv.count;
        if (params->argv.items == NULL)
            return tci_arena_error(a, err);
    }
    return merge_env(env, o, a, params, err);
}

static int on_note(void *user, const tci_pi_note *note, tc_err *err)
{
    const tc_exec_options *o = user;
    if (!note->is_output)
        return 0;
    tc_skipped skipped = {.nbytes = note->skipped.bytes,
                          .nnewlines = note->skipped.newlines,
                          .ends_with_newline = note->skipped.ends_with_newline};
    int rc = o->on_output(o->user, note->is_stderr ? TC_STDERR : TC_STDOUT, note->payload,
                          note->has_skipped ? &skipped : NULL, err);
    return rc > 0 ? -rc : rc; /* a failure is negative to who calls us */
}

static int failed(const tc_call *call, const tci_pi_call *request, const tc_exec_options *o, int rc,
                  tc_err *err)
{
    static const struct {
        const char *code;
        tc_env_error word;
    } table[] = {
        {"timeout", TC_ENV_TIMEOUT},
        {"aborted", TC_ENV_ABORTED},
        {"shell_unavailable", TC_ENV_SHELL_UNAVAILABLE},
        {"spawn_error", TC_ENV_SPAWN_ERROR},
    };
    tc_str code = request->fault.error.code;
    tc_env_error word = TC_ENV_UNKNOWN;
    for (size_t i = 0; i < TCI_ARRAY_LEN(table); i++)
        if (tci_str_eq(tci_str(table[i].code), code))
            word = table[i].word;
    if (code.len == 0 && !request->fault.is_lost &&
        (tci_env_word_of(rc) == TC_ENV_ABORTED || rc == TC_E_UNKNOWN_OUTCOME))
        word = TC_ENV_ABORTED;
    if (word == TC_ENV_TIMEOUT) {
        char seconds[TCI_NUM_TEXT_MAX];
        size_t n = tci_num_double_text(o->timeout_s, seconds);
        rc = tc_err_set(err, TC_E_TIMEOUT, "timeout:%.*s", (int)n, seconds);
    }
    tc_str spill_path = request->fault.error.spill_path;
    tci_env_blame(call, word, (tc_str){0});
    tci_env_evidence(call)->spill_path = spill_path;
    return rc;
}

int tci_penv_exec(tc_env *env, const tc_call *call, const tc_exec_options *options, tc_str cwd,
                  tc_exec_outcome *ret_outcome, tc_err *err)
{
    tci_pi_exec_params params;
    tci_pi_exec_result reply = {.exit_code = 0};
    int rc = fill_params(env, options, cwd, tci_result_arena(call->result), &params, err);
    if (rc < 0)
        return rc;
    tci_pi_call request = {
        .op = TCI_PI_EXEC,
        .params = &params,
        .reply = &reply,
        .result = call->result,
        .on_note = options->on_output != NULL ? on_note : NULL,
        .user = (void *)(uintptr_t)options, /* only read */
    };
    tci_penv_running run = {.wish = TCI_PI_GO_ON};
    rc = tci_penv_attend(tci_penv_of(env), call, &request, &run, NULL, NULL, err);
    if (rc < 0)
        return failed(call, &request, options, rc, err);
    *ret_outcome = (tc_exec_outcome){.exit_code = reply.exit_code, .spill_path = reply.spill_path};
    return 0;
}
