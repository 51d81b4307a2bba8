/* SPDX-License-Identifier: Apache-2.0
 *
 * Daemon children: starting one, its standard error, its end. Leaves the conversation to framed.c.
 * Starting on the caller's thread, the rest on the loop. Invariant: a child we started is reaped,
 * killed when it does not end in time. */
#include "client/framed.h"

#include "plat/fd.h"
#include "plat/file.h"

enum { DRAIN_MS = 11000, EXIT_NOTICE_MS = 1000, MODE_ANY_X = 0111 };

/* ---- finding programs ---- */

bool tci_is_program(tc_str path)
{
    tci_file_stat st;
    tc_err err;
    return tci_file_stat_at(TCI_FILE_CWD, path, true, &st, &err) == 0 &&
           st.kind == TCI_FILE_KIND_REGULAR && (st.mode & MODE_ANY_X) != 0;
}

int tci_find_program(const tc_runtime *rt, tc_str name, tci_arena *a, tc_str *ret_path, tc_err *err)
{
    if (name.len > 0 && name.ptr[0] == '/') {
        if (!tci_is_program(name))
            return tc_err_set(err, TC_E_NOT_FOUND, "'%.*s' is not a program", TC_STR_ARG(name));
        return tci_arena_dup(a, name, ret_path, err);
    }
    tc_str rest = tci_str(tci_runtime_getenv(rt, "PATH"));
    tc_str dir;
    bool is_plain = name.len > 0 && tci_str_find_byte(name, '/') == name.len;
    while (is_plain && tci_str_split(&rest, ':', &dir)) {
        if (dir.len == 0 || dir.ptr[0] != '/')
            continue; /* never from the current folder */
        tc_str path;
        int rc = tci_arena_printf(a, &path, err, "%.*s/%.*s", TC_STR_ARG(dir), TC_STR_ARG(name));
        if (rc < 0)
            return rc;
        if (tci_is_program(path)) {
            *ret_path = path;
            return 0;
        }
    }
    if (!is_plain)
        return tc_err_set(err, TC_E_NOT_FOUND, "'%.*s' is neither an absolute path nor a name",
                          TC_STR_ARG(name));
    return tc_err_set(err, TC_E_NOT_FOUND, "no program '%.*s' on PATH", TC_STR_ARG(name));
}

/* ---- the environment and arguments of the child ---- */

static bool is_named(const char *entry, tc_str name)
{
    return strncmp(entry, name.ptr, name.len) == 0 && entry[name.len] == '=';
}

static bool is_kept(const char *entry, const tc_spawn_options *o)
{
    for (size_t i = 0; i < o->nunset_env; i++)
        if (is_named(entry, o->unset_env[i]))
            return false;
    for (size_t i = 0; i < o->nset_env; i++)
        if (is_named(entry, o->set_env[i].key))
            return false;
    return o->runtime_dir.len == 0 || !is_named(entry, TC_STR("A13N_ENVD_RUNTIME_DIR"));
}

static int add_variable(tci_arena *a, const char **list, size_t *n, tc_str key, tc_str value,
                        tc_err *err)
{
    tc_str entry;
    char *text;
    if (key.len == 0 || tci_str_find_byte(key, '=') < key.len)
        return tc_err_set(err, TC_E_INVALID, "'%.*s' cannot name a variable", TC_STR_ARG(key));
    int rc = tci_arena_printf(a, &entry, err, "%.*s=%.*s", TC_STR_ARG(key), TC_STR_ARG(value));
    if (rc == 0)
        rc = tci_arena_cstr(a, entry, &text, err);
    if (rc == 0)
        list[(*n)++] = text;
    return rc;
}

static int child_environment(const tc_runtime *rt, const tc_spawn_options *o, tci_arena *a,
                             const char ***ret, tc_err *err)
{
    size_t inherited = 0, n = 0;
    while (!o->is_env_clear && rt->environ[inherited] != NULL)
        inherited++;
    const char **list = tci_arena_items(a, const char *, inherited + o->nset_env + 2);
    if (list == NULL)
        return tci_arena_error(a, err);
    for (size_t i = 0; i < inherited; i++)
        if (is_kept(rt->environ[i], o))
            list[n++] = rt->environ[i];
    for (size_t i = 0; i < o->nset_env; i++)
        if (add_variable(a, list, &n, o->set_env[i].key, o->set_env[i].value, err) < 0)
            return err->code;
    if (o->runtime_dir.len > 0 &&
        add_variable(a, list, &n, TC_STR("A13N_ENVD_RUNTIME_DIR"), o->runtime_dir, err) < 0)
        return err->code;
    *ret = list;
    return 0;
}

static int child_arguments(const char *program, const tc_spawn_options *o, tci_arena *a,
                           const char ***ret, tc_err *err)
{
    const char **argv = tci_arena_items(a, const char *, o->nargs + 2);
    if (argv == NULL)
        return tci_arena_error(a, err);
    argv[0] = program;
    for (size_t i = 0; i < o->nargs; i++) {
        char *text;
        int rc = tci_arena_cstr(a, o->args[i], &text, err);
        if (rc < 0)
            return rc;
        argv[i + 1] = text;
    }
    *ret = argv;
    return 0;
}

/* ---- starting ---- */

typedef struct pipes {
    int in[2], out[2], err[2];
} pipes;

static void close_pipes(pipes *p)
{
    for (int i = 0; i < 2; i++) {
        tci_fd_close(&p->in[i]);
        tci_fd_close(&p->out[i]);
        tci_fd_close(&p->err[i]);
    }
}

static int start_child(const tc_runtime *rt, const tc_spawn_options *o, tci_arena *a, pipes *p,
                       tci_child *ret_child, tc_err *err)
{
    tc_str program;
    char *cprogram = NULL, *cwd = NULL;
    const char **argv = NULL, **envp = NULL;
    int rc = tci_find_program(rt, o->program, a, &program, err);
    if (rc == 0)
        rc = tci_arena_cstr(a, program, &cprogram, err);
    if (rc == 0 && o->cwd.len > 0)
        rc = tci_arena_cstr(a, o->cwd, &cwd, err);
    if (rc == 0)
        rc = child_arguments(cprogram, o, a, &argv, err);
    if (rc == 0)
        rc = child_environment(rt, o, a, &envp, err);
    if (rc < 0)
        return rc;
    if (tci_fd_pipe(p->in, err) < 0 || tci_fd_pipe(p->out, err) < 0 || tci_fd_pipe(p->err, err) < 0)
        return err->code;
    tci_spawn_opts opts = TCI_SPAWN_OPTS_NONE;
    opts.program = cprogram;
    opts.argv = argv;
    opts.envp = envp;
    opts.cwd = cwd;
    opts.stdio[0] = p->in[0];
    opts.stdio[1] = p->out[1];
    opts.stdio[2] = p->err[1];
    /* Its own session: an interrupt typed at our terminal is ours, not the daemon's. */
    opts.flags = TCI_SPAWN_SESSION;
    rc = tci_spawn(&opts, ret_child, err);
    if (rc < 0) {
        tc_err_wrap(err, "cannot start the daemon '%s'", cprogram);
        return tc_err_recode(err, TC_E_START_FAILED);
    }
    tci_fd_close(&p->in[0]);
    tci_fd_close(&p->out[1]);
    tci_fd_close(&p->err[1]);
    return 0;
}

int tci_spawn_piped(const tc_runtime *rt, const tc_spawn_options *o, tci_arena *a, int ret_fds[3],
                    tci_child *ret_child, tc_err *err)
{
    pipes p = {{-1, -1}, {-1, -1}, {-1, -1}};
    if (start_child(rt, o, a, &p, ret_child, err) < 0) {
        close_pipes(&p);
        return err->code;
    }
    ret_fds[0] = p.in[1];
    ret_fds[1] = p.out[0];
    ret_fds[2] = p.err[0];
    return 0;
}

/* ---- standard error ---- */

static void keep_tail(tci_hatch *h, const char *bytes, size_t len)
{
    if (len >= TCI_STDERR_TAIL) {
        memcpy(h->tail, bytes + len - TCI_STDERR_TAIL, TCI_STDERR_TAIL);
        h->tail_len = TCI_STDERR_TAIL;
        return;
    }
    size_t keep = tci_min_size(h->tail_len, TCI_STDERR_TAIL - len);
    memmove(h->tail, h->tail + h->tail_len - keep, keep);
    memcpy(h->tail + keep, bytes, len);
    h->tail_len = keep + len;
}

static void read_stderr(tci_hatch *h)
{
    char buf[4096];
    for (int i = 0; i < 64 && h->stderr_fd >= 0; i++) {
        size_t n = 0;
        tc_err err;
        if (tci_fd_read(h->stderr_fd, buf, sizeof buf, &n, &err) < 0) {
            tci_watch_close(&h->stderr_watch);
            tci_fd_close(&h->stderr_fd);
            return;
        }
        if (n == 0)
            return;
        keep_tail(h, buf, n);
        if (h->on_stderr != NULL)
            h->on_stderr(h->stderr_user, buf, n);
    }
}

static void on_stderr_ready(tci_watch *w, unsigned events)
{
    TCI_UNUSED(events);
    read_stderr(TCI_CONTAINER(w, tci_hatch, stderr_watch));
}

static tc_str last_line(const tci_hatch *h)
{
    tc_str text = tci_str_of(h->tail, h->tail_len);
    while (text.len > 0 && (text.ptr[text.len - 1] == '\n' || text.ptr[text.len - 1] == '\r'))
        text.len--;
    size_t at = tci_str_rfind_byte(text, '\n');
    return at < text.len ? tci_str_sub(text, at + 1, SIZE_MAX) : text;
}

void tci_hatch_explain(tci_framed *f, tc_err *err)
{
    if (!f->has_hatch || err->code != TC_E_CLOSED)
        return;
    read_stderr(&f->hatch);
    tc_str line = last_line(&f->hatch);
    if (line.len > 0)
        tc_err_hint(err, "its last words: %.*s", TC_STR_ARG(line));
}

/* ---- the end ---- */

static void hatch_gone(tci_framed *f)
{
    tci_hatch *h = &f->hatch;
    read_stderr(h);
    tci_watch_close(&h->stderr_watch);
    tci_fd_close(&h->stderr_fd);
    tci_timer_stop(&h->kill_timer);
    if (!f->base.is_dead) { /* its output ends too, unless somebody else holds it */
        tc_err err;
        if (tci_timer_start(&h->kill_timer, EXIT_NOTICE_MS, &err) < 0)
            tci_conn_fail(&f->base, &err);
        return;
    }
    if (h->is_awaited) {
        h->is_awaited = false;
        f->base.rt->nbusy--;
        tci_conn_stopped(&f->base);
        tci_runtime_check_end(f->base.rt);
    }
}

static void on_exit_ready(tci_watch *w, unsigned events)
{
    TCI_UNUSED(events);
    tci_hatch *h = TCI_CONTAINER(w, tci_hatch, exit_watch);
    bool was_lost;
    tci_child probe = h->child;
    if (!tci_child_peek(&probe, &h->exit, &was_lost))
        return;
    tci_watch_close(&h->exit_watch);
    (void)tci_child_reap(&h->child, &h->exit, &was_lost); /* it has ended: peek said so */
    h->has_ended = true;
    hatch_gone(TCI_CONTAINER(h, tci_framed, hatch));
}

static void on_kill_timer(tci_timer *t)
{
    tci_hatch *h = TCI_CONTAINER(t, tci_hatch, kill_timer);
    tci_framed *f = TCI_CONTAINER(h, tci_framed, hatch);
    if (!h->has_ended) {
        (void)tci_child_signal(&h->child, TCI_SIG_KILL); /* false: it is ending by itself */
        return;
    }
    tc_err err;
    tc_err_set(&err, TC_E_CLOSED, "the daemon ended");
    tci_hatch_explain(f, &err);
    tci_conn_fail(&f->base, &err);
}

void tci_hatch_stop(tci_framed *f)
{
    tci_hatch *h = &f->hatch;
    if (h->has_ended) {
        tci_timer_stop(&h->kill_timer);
        tci_conn_stopped(&f->base);
        return;
    }
    h->is_awaited = true;
    f->base.rt->nbusy++;
    tc_err err;
    if (tci_timer_start(&h->kill_timer, h->drain_ms, &err) < 0)
        (void)tci_child_signal(&h->child, TCI_SIG_KILL); /* no timer to be had */
}

/* ---- on the loop ---- */

typedef struct spawn_job {
    tci_framed *framed;
    pipes *pipes;
    int code;
    tc_err *err;
} spawn_job;

static int take_over(spawn_job *job)
{
    tci_framed *f = job->framed;
    tci_loop *loop = f->base.rt->loop;
    tci_hatch *h = &f->hatch;
    tci_timer_init(&h->kill_timer, loop, on_kill_timer);
    f->has_hatch = true;
    h->stderr_fd = job->pipes->err[0];
    job->pipes->err[0] = -1;
    if (tci_watch_open(&h->exit_watch, loop, h->child.pidfd, on_exit_ready, job->err) < 0 ||
        tci_watch_set(&h->exit_watch, TCI_WATCH_READ, job->err) < 0 ||
        tci_watch_open(&h->stderr_watch, loop, h->stderr_fd, on_stderr_ready, job->err) < 0 ||
        tci_watch_set(&h->stderr_watch, TCI_WATCH_READ, job->err) < 0)
        return job->err->code;
    tci_stream *stream = NULL;
    int rc =
        tci_fd_stream_new(loop, job->pipes->out[0], job->pipes->in[1], true, &stream, job->err);
    if (rc < 0)
        return rc;
    job->pipes->out[0] = job->pipes->in[1] = -1;
    return tci_framed_start_own(f, stream, job->err);
}

static void take_over_on_loop(void *arg)
{
    spawn_job *job = arg;
    job->code = take_over(job);
}

static int spawn_framed(tc_runtime *rt, const tc_spawn_options *o, const tc_device_options *options,
                        tci_conn **ret_conn, tc_err *err)
{
    tci_framed *f = NULL;
    int rc = tci_framed_new(rt, options, &f, err);
    if (rc < 0)
        return rc;
    tci_arena a;
    tci_arena_init(&a, 0);
    pipes p = {{-1, -1}, {-1, -1}, {-1, -1}};
    tci_hatch *h = &f->hatch;
    h->on_stderr = o->on_stderr;
    h->stderr_user = o->stderr_user;
    h->drain_ms = o->drain_ms > 0 ? o->drain_ms : DRAIN_MS;
    rc = start_child(rt, o, &a, &p, &h->child, err);
    spawn_job job = {.framed = f, .pipes = &p, .code = rc, .err = err};
    if (rc == 0 && !tci_runtime_run(rt, take_over_on_loop, &job)) {
        job.code = tc_err_set(err, TC_E_CLOSED, "the runtime is closed");
        bool was_lost;
        (void)tci_child_signal(&h->child, TCI_SIG_KILL); /* reaped right below */
        tci_child_reap_wait(&h->child, &h->exit, &was_lost);
    }
    close_pipes(&p);
    tci_arena_done(&a);
    if (job.code < 0) {
        tci_conn_close(&f->base);
        return job.code;
    }
    *ret_conn = &f->base;
    return 0;
}

int tc_device_spawn(tc_runtime *rt, tc_ctx *ctx, const tc_spawn_options *spawn,
                    const tc_device_options *options, tc_device **ret_device, tc_err *err)
{
    tc_device_options none = {.size = sizeof none};
    const tc_device_options *o = options != NULL ? options : &none;
    if (spawn == NULL || spawn->size < sizeof *spawn)
        return tc_err_set(err, TC_E_INVALID, "options without their size");
    tci_conn *c = NULL;
    int rc = tci_device_options_check(o, err);
    if (rc == 0)
        rc = spawn_framed(rt, spawn, o, &c, err);
    if (rc == 0)
        rc = tci_device_start_own(rt, c, ctx, o, ret_device, err);
    if (rc == TC_E_CLOSED)
        return tc_err_recode(err, TC_E_CONNECT);
    return rc;
}
