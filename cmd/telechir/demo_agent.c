/* SPDX-License-Identifier: Apache-2.0
 *
 * `telechir demo`: an agent that survives. A model that follows a script writes a program on a daemon of
 * its own and runs it there; the process that drives the agent is killed while the program runs; a new
 * process goes on with the session and finishes. Leaves the daemon to demo_daemon.c and drawing the
 * conversation to sessions_show.c. The main thread. Invariant: every process that was started is reaped, and
 * all files are removed, also after Ctrl-C. */
#include "demo.h"

#include "plat/clock.h"
#include "plat/env.h"
#include "plat/fd.h"
#include "plat/file.h"
#include "plat/self.h"
#include "sessions.h"
#include <telechir/json.h>

enum { ARGS_MAX = 20, PIECE = 16 * 1024, LOOK_MS = 100, PRIVATE_FILE = 0600, LIMIT_MS = 60000 };

static const char prompt[] = "Write a program that prints squares, and run it.";
static const char slow[] = "sh squares.sh 60", quick[] = "sh squares.sh 0";

/* The program notes that it was started, so that nobody has to believe how often it was. */
static const char script[] =
    "{\"turns\":[\n"
    " {\"text\":\"I write it as "
    "squares.sh.\",\"tool_calls\":[{\"id\":\"call-1\",\"name\":\"write\","
    "\"arguments\":{\"path\":\"squares.sh\",\"content\":\"echo started >>runs.log\\n"
    "for i in 1 2 3 4 5; do\\n  echo \\\"$i squared is $((i * i))\\\"\\n  sleep "
    "$1\\ndone\\n\"}}]},\n"
    " {\"text\":\"Now I run it, slowly.\",\"tool_calls\":[{\"id\":\"call-2\",\"name\":\"bash\","
    "\"arguments\":{\"command\":\"sh squares.sh 60\"}}]},\n"
    " {\"text\":\"That run was cut off. I look at what it did before I do anything again.\","
    "\"tool_calls\":[{\"id\":\"call-3\",\"name\":\"bash\",\"arguments\":{\"command\":\"cat "
    "runs.log\"}}]},\n"
    " {\"text\":\"It had only begun, and running it twice does no harm: once more, quickly.\","
    "\"tool_calls\":[{\"id\":\"call-4\",\"name\":\"bash\",\"arguments\":{\"command\":"
    "\"sh squares.sh 0\"}}]},\n"
    " {\"text\":\"squares.sh works: the squares of 1 to 5 are 1, 4, 9, 16 and 25.\"}\n"
    "]}\n";

/* A process that drives the agent, and what it says. */
typedef struct harness {
    tci_child child;
    int pid; /* also when it has ended */
    int out; /* its standard output */
    tci_buf said;
} harness;

typedef struct demo {
    cli *c;
    demo_daemon d;
    tc_str program; /* this one */
    tc_str session, script_file, log;
    harness first, second;
    uint64_t nstarts;
} demo;

/* ---- files ---- */

static int make_files(demo *m)
{
    cli *c = m->c;
    char buf[TCI_PATH_MAX];
    tc_str self;
    TCI_FILE_AUTO f = TCI_FILE_NONE;
    tci_arena *a = &c->arena;
    tc_err *err = &c->err;
    if (tci_self_program(buf, &self, err) < 0 || tci_arena_dup(a, self, &m->program, err) < 0 ||
        tci_arena_printf(a, &m->session, err, "%.*s/session.sqlite", TC_STR_ARG(m->d.base)) < 0 ||
        tci_arena_printf(a, &m->script_file, err, "%.*s/script.json", TC_STR_ARG(m->d.base)) < 0 ||
        tci_arena_printf(a, &m->log, err, "%.*s/agent.log", TC_STR_ARG(m->d.base)) < 0 ||
        tci_file_open(m->script_file, TCI_OPEN_WRITE | TCI_OPEN_CREATE | TCI_OPEN_EXCL,
                      PRIVATE_FILE, &f, err) < 0)
        return err->code;
    return tci_file_write_all(f, script, sizeof script - 1, err);
}

/* How often the program was started, as the machine it ran on knows. */
static int count_starts(demo *m)
{
    char *text;
    size_t len;
    tc_str path, rest, line;
    tc_err *err = &m->c->err;
    if (tci_arena_printf(&m->c->arena, &path, err, "%.*s/runs.log", TC_STR_ARG(m->d.workspace)) <
            0 ||
        tci_file_read_whole(TCI_FILE_CWD, path, PIECE, &text, &len, err) < 0)
        return err->code;
    rest = tci_str_of(text, len);
    while (tci_str_split(&rest, '\n', &line))
        m->nstarts += tci_str_eq(line, TC_STR("started")) ? 1 : 0;
    tci_free(text);
    return 0;
}

/* ---- processes ---- */

static int add_arg(demo *m, const char **argv, size_t *n, tc_str text)
{
    char *arg;
    if (tci_arena_cstr(&m->c->arena, text, &arg, &m->c->err) < 0)
        return m->c->err.code;
    argv[(*n)++] = arg;
    return 0;
}

static int start(demo *m, harness *h, bool is_first)
{
    cli *c = m->c;
    const char *argv[ARGS_MAX] = {NULL};
    size_t n = 0;
    int fds[2] = {-1, -1};
    tc_str model;
    TCI_FILE_AUTO log = TCI_FILE_NONE;
    if (tci_arena_printf(&c->arena, &model, &c->err, "scripted/%.*s", TC_STR_ARG(m->script_file)) <
        0)
        return c->err.code;
    const tc_str args[] = {m->program,
                           TC_STR("run"),
                           TC_STR("--json"),
                           TC_STR("--session"),
                           m->session,
                           TC_STR("--model"),
                           model,
                           TC_STR("--on"),
                           m->d.endpoint,
                           TC_STR("--device-id"),
                           m->d.device_id,
                           TC_STR("--credential-file"),
                           m->d.credential_file,
                           tci_str(prompt)};
    size_t nargs = is_first ? TCI_ARRAY_LEN(args) : 5; /* the session remembers the rest */
    for (size_t i = 0; i < nargs; i++) {
        if (add_arg(m, argv, &n, args[i]) < 0)
            return c->err.code;
    }
    unsigned how = TCI_OPEN_WRITE | TCI_OPEN_CREATE | TCI_OPEN_TRUNCATE;
    int rc = tci_file_open(m->log, how, PRIVATE_FILE, &log, &c->err);
    if (rc == 0)
        rc = tci_fd_pipe(fds, &c->err);
    if (rc < 0)
        return rc;
    tci_spawn_opts opts = TCI_SPAWN_OPTS_NONE;
    opts.program = argv[0];
    opts.argv = argv;
    opts.envp = (const char *const *)tci_env_list();
    opts.stdio[1] = fds[1];
    opts.stdio[2] = log.fd;
    opts.flags = TCI_SPAWN_SESSION | TCI_SPAWN_DIE_WITH_PARENT;
    rc = tci_spawn(&opts, &h->child, &c->err);
    tci_fd_close(&fds[1]);
    h->out = fds[0];
    h->pid = h->child.pid;
    return rc < 0 ? tc_err_wrap(&c->err, "cannot start the agent") : 0;
}

/* The next line of what it says; valid until the next. 1: it says no more. */
static int next_line(demo *m, harness *h, int64_t until_ns, tc_str *ret)
{
    cli *c = m->c;
    while (true) {
        size_t n = 0, end = tci_str_find_byte(tci_buf_str(&h->said), '\n');
        if (end < h->said.len) {
            tc_str line = tci_str_sub(tci_buf_str(&h->said), 0, end);
            if (tc_result_dup(c->result, line, ret, &c->err) < 0)
                return c->err.code;
            tci_buf_consume(&h->said, end + 1);
            return 0;
        }
        tci_fd_event event = {.fd = h->out, .want_read = true};
        int rc = tci_fd_wait(&event, 1, LOOK_MS, &c->err);
        if (rc == 0 && tc_ctx_is_cancelled(c->ctx))
            rc = tc_err_set(&c->err, TC_E_CANCELLED, "interrupted");
        if (rc == 0 && tci_clock_mono_ns() > until_ns)
            rc = tc_err_set(&c->err, TC_E_TIMEOUT, "the agent says nothing more");
        char *at = rc == 0 && event.can_read ? tci_buf_reserve(&h->said, PIECE) : NULL;
        if (rc == 0 && event.can_read && at == NULL)
            rc = tci_buf_error(&h->said, &c->err);
        if (at != NULL)
            rc = tci_fd_read(h->out, at, PIECE, &n, &c->err);
        if (rc == TC_E_END)
            return 1;
        if (rc < 0)
            return rc;
        tci_buf_commit(&h->said, n);
    }
}

static bool has_text(const tc_json *v, const char *key, const char *text)
{
    tc_str s;
    return tc_json_as_str(tc_json_get(v, tci_str(key)), &s) && tci_str_eq(s, tci_str(text));
}

/* Until the program has said something. Then the process is killed, as the system does it when memory is
 * short: nothing of it gets to say goodbye. */
static int kill_in_call(demo *m)
{
    cli *c = m->c;
    int64_t until = tci_clock_mono_ns() + (int64_t)LIMIT_MS * 1000000;
    for (;;) {
        tc_str line;
        const tc_json *event;
        tc_result_clear(c->result);
        int rc = next_line(m, &m->first, until, &line);
        if (rc == 1)
            return demo_ended_early(c, m->log, "the agent");
        if (rc < 0 || tc_json_parse(c->result, line, &event, &c->err) < 0)
            return c->err.code;
        if (!has_text(event, "type", "tool_execution_update") ||
            !has_text(event, "toolName", "bash"))
            continue;
        if (!tci_child_signal(&m->first.child, TCI_SIG_KILL))
            return demo_ended_early(c, m->log, "the agent");
        demo_reap(&m->first.child);
        return 0;
    }
}

static int finish(demo *m)
{
    cli *c = m->c;
    int64_t until = tci_clock_mono_ns() + (int64_t)LIMIT_MS * 1000000;
    tci_exit ended;
    bool was_lost;
    int rc;
    tc_str line;
    do {
        tc_result_clear(c->result);
        rc = next_line(m, &m->second, until, &line);
    } while (rc == 0);
    if (rc < 0)
        return rc;
    tci_child_reap_wait(&m->second.child, &ended, &was_lost);
    m->second.child = TCI_CHILD_NONE;
    return ended.is_signal || ended.code != 0 ? demo_ended_early(c, m->log, "the second agent") : 0;
}

static void end_harness(harness *h)
{
    if (h->child.pid != 0) {
        (void)tci_child_signal(&h->child, TCI_SIG_KILL); /* reaped right below */
        demo_reap(&h->child);
    }
    tci_fd_close(&h->out);
    tci_buf_done(&h->said);
}

/* ---- the story ---- */

static bool may_talk(const demo *m)
{
    return !m->c->is_json && !m->c->is_quiet;
}

static bool show_start(const demo *m)
{
    return !may_talk(m) ||
           (cli_outf(m->c, "hands: %.*s at %.*s\n       in %.*s (temporary, commands allowed)\n",
                     TC_STR_ARG(m->d.program), TC_STR_ARG(m->d.endpoint),
                     TC_STR_ARG(m->d.workspace)) &&
            cli_outf(m->c, "memory: %.*s\n", TC_STR_ARG(m->session)));
}

static int show_json(const demo *m)
{
    tci_buf j;
    bool first = true;
    tci_buf_init(&j, TCI_BUF_MAX);
    tci_buf_append_byte(&j, '{');
    cli_json_str(&j, &first, "daemon", m->d.program);
    cli_json_str(&j, &first, "endpoint", m->d.endpoint);
    cli_json_str(&j, &first, "killed_during", tci_str(slow));
    cli_json_u64(&j, &first, "first_process", (uint64_t)m->first.pid);
    cli_json_u64(&j, &first, "second_process", (uint64_t)m->second.pid);
    cli_json_u64(&j, &first, "program_starts", m->nstarts);
    cli_json_bool(&j, &first, "answered", true);
    tci_buf_append_byte(&j, '}');
    bool is_fine = cli_out_json(m->c, &j);
    tci_buf_done(&j);
    return is_fine ? 0 : m->c->err.code;
}

static int show_end(const demo *m)
{
    cli *c = m->c;
    char *session;
    enum { ASKED_FOR = 2 };
    if (m->nstarts != ASKED_FOR)
        return tc_err_set(&c->err, TC_E_INTEGRITY, "the program was started %llu times, not %d",
                          (unsigned long long)m->nstarts, ASKED_FOR);
    if (c->is_json)
        return show_json(m);
    if (may_talk(m) && !cli_outf(c, "\nthe session's own record:\n\n"))
        return c->err.code;
    if (tci_arena_cstr(&c->arena, m->session, &session, &c->err) < 0 ||
        sessions_brief(c, session) < 0)
        return c->err.code;
    bool is_fine =
        cli_outf(c,
                 "\nprogram starts: %llu, one for each call that asked for it ('%s', '%s')\n"
                 "interrupted call was told as such and was not repeated\n"
                 "second process finished the run of the first\n",
                 (unsigned long long)m->nstarts, slow, quick);
    return is_fine ? 0 : c->err.code;
}

static int show(demo *m)
{
    cli *c = m->c;
    if (make_files(m) < 0 || !show_start(m) || start(m, &m->first, true) < 0)
        return c->err.code;
    if (may_talk(m) && !cli_outf(c, "agent process %d: works on '%s'\n", m->first.pid, prompt))
        return c->err.code;
    if (kill_in_call(m) < 0)
        return c->err.code;
    if (may_talk(m) &&
        !cli_outf(c, "agent process %d: killed (SIGKILL) while '%s' ran\n", m->first.pid, slow))
        return c->err.code;
    if (start(m, &m->second, false) < 0 || finish(m) < 0)
        return c->err.code;
    if (may_talk(m) &&
        !cli_outf(c, "agent process %d: went on with the session and finished\n", m->second.pid))
        return c->err.code;
    return count_starts(m) < 0 ? c->err.code : show_end(m);
}

int demo_agent(cli *c)
{
    demo m = {.c = c,
              .first = {.child = TCI_CHILD_NONE, .out = -1},
              .second = {.child = TCI_CHILD_NONE, .out = -1}};
    tci_buf_init(&m.first.said, TCI_BUF_MAX);
    tci_buf_init(&m.second.said, TCI_BUF_MAX);
    int rc = demo_daemon_start(c, DEMO_HTTP_FULL_CONTROL, &m.d);
    if (rc == 0)
        rc = show(&m);
    int status = rc == 0 ? CLI_OK : cli_fail(c);
    end_harness(&m.first);
    end_harness(&m.second);
    demo_daemon_stop(c, &m.d);
    if (rc == 0 && !c->is_json)
        cli_say(c, "stopped the daemon and removed its files");
    return status;
}
