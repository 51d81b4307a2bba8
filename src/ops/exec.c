/* SPDX-License-Identifier: Apache-2.0
 *
 * A command's life: start, status, the reasons to kill it, and when it is over. Leaves processes to
 * tree.c, output to exec_out.c and stdin to exec_in.c. Loop thread. Invariant: the user is told
 * only from tell(), started before exit before done, so no callback comes from inside a call; and
 * done comes only when the tree is settled and both streams have ended. */
#include "ops/exec_int.h"

#include "plat/clock.h"
#include "plat/fd.h"
#include "plat/file.h"

#include <stdio.h>

/* ---- host ---- */

int tci_exec_host_new(tci_loop *loop, tci_ptree_host *trees, tci_exec_host **ret_host, tc_err *err)
{
    tci_exec_host *host = tci_new(tci_exec_host);
    if (host == NULL)
        return tci_err_no_memory(err);
    tci_file null_file = TCI_FILE_NONE;
    int rc = tci_file_open(TC_STR("/dev/null"), TCI_OPEN_READ | TCI_OPEN_WRITE, 0, &null_file, err);
    if (rc < 0) {
        tci_free(host);
        return rc;
    }
    host->null_fd = null_file.fd;
    host->loop = loop;
    host->trees = trees;
    tci_list_init(&host->execs);
    *ret_host = host;
    return 0;
}

void tci_exec_host_free(tci_exec_host *host)
{
    if (host == NULL)
        return;
    TC_ASSERT(host->nexecs == 0);
    tci_fd_close(&host->null_fd);
    tci_mem_free(host->buf);
    tci_free(host);
}

size_t tci_exec_host_count(const tci_exec_host *host)
{
    return host->nexecs;
}

static void leave_host(tci_exec *exec)
{
    tci_exec_host *host = exec->host;
    tci_link_remove(&exec->link);
    host->nexecs--;
    if (host->nexecs == 0 && host->is_buf_dirty) {
        tci_mem_free(host->buf);
        host->buf = NULL;
        host->is_buf_dirty = false;
    }
}

/* ---- telling ---- */

static void tell_started(tci_exec *exec)
{
    tc_err err = {0};
    if (exec->started_rc < 0)
        (void)tc_err_set(&err, exec->started_rc, "the command did not take all of its input");
    exec->tell_started = false;
    if (exec->on_started != NULL)
        exec->on_started(exec, exec->started_rc, &err);
}

/* The user may abandon in any callback, and free in the last one. */
static void tell(tci_later *later)
{
    tci_exec *exec = TCI_CONTAINER(later, tci_exec, later);
    if (exec->tell_started)
        tell_started(exec);
    tci_exec_in_tell(exec);
    if (exec->tell_exit) {
        exec->tell_exit = false;
        if (exec->on_exit != NULL)
            exec->on_exit(exec);
    }
    if (!exec->tell_done)
        return;
    exec->tell_done = false;
    exec->is_done = true;
    leave_host(exec);
    if (!exec->is_abandoned) {
        if (exec->on_done != NULL)
            exec->on_done(exec);
        return;
    }
    void (*ended)(void *user) = exec->ended;
    void *user = exec->ended_user;
    tci_exec_free(exec);
    if (ended != NULL)
        ended(user);
}

static void tell_later(tci_exec *exec)
{
    tci_loop_later(exec_loop(exec), &exec->later);
}

void tci_exec_started(tci_exec *exec, int rc)
{
    if (exec->has_told_started)
        return;
    exec->has_told_started = exec->tell_started = true;
    exec->started_rc = rc;
    if (exec->status.phase == TCI_EXEC_STARTING)
        exec->status.phase = TCI_EXEC_RUNNING;
    tell_later(exec);
    if (rc < 0)
        tci_exec_end_by(exec, TCI_EXEC_REASON_SIGNAL, NULL);
}

/* ---- ending ---- */

static bool is_failure(tci_exec_reason reason)
{
    return reason == TCI_EXEC_REASON_OUTPUT_LIMIT || reason == TCI_EXEC_REASON_BACKEND_LOST;
}

static void fail(tci_exec *exec, tci_exec_reason reason, const char *text)
{
    if (text != NULL && exec->failure[0] == '\0')
        (void)snprintf(exec->failure, sizeof exec->failure, "%s", text); /* may be cut */
    exec->status.phase = TCI_EXEC_FAILED;
    exec->status.reason = reason;
    exec->status.has_exit_code = false;
    exec->status.exit_code = 0;
    exec->status.signal = TCI_EXEC_SIGNAL_NONE;
}

void tci_exec_end_by(tci_exec *exec, tci_exec_reason reason, const char *text)
{
    bool is_over = tci_exec_phase_is_terminal(exec->status.phase);
    /* Output that could not be kept spoils the result whenever it is noticed. */
    if (is_failure(reason) && !is_failure(exec->asked)) {
        if (text != NULL)
            (void)snprintf(exec->failure, sizeof exec->failure, "%s", text); /* may be cut */
        exec->asked = reason;
        if (is_over)
            fail(exec, reason, NULL);
    }
    if (is_over && !(exec->leave_others && !tci_exec_out_is_ended(exec)))
        return;
    if (exec->asked == TCI_EXEC_REASON_NONE)
        exec->asked = reason;
    tci_ptree_kill(&exec->tree);
}

static tci_exec_signal name_signal(int signum)
{
    if (signum == TCI_SIG_INT)
        return TCI_EXEC_SIGNAL_INTERRUPT;
    if (signum == TCI_SIG_TERM)
        return TCI_EXEC_SIGNAL_TERMINATE;
    return signum == TCI_SIG_KILL ? TCI_EXEC_SIGNAL_KILL : TCI_EXEC_SIGNAL_NONE;
}

/* What really happened: a reason to kill counts only when the kill is what ended it. */
static void set_outcome(tci_exec *exec)
{
    tci_exec_status *st = &exec->status;
    tci_exit how = exec->tree.exit;
    st->signum = how.is_signal ? how.signum : 0;
    if (exec->tree.was_lost) {
        fail(exec, TCI_EXEC_REASON_BACKEND_LOST, "its exit status was taken by somebody else");
    } else if (is_failure(exec->asked)) {
        fail(exec, exec->asked, NULL);
    } else if (!how.is_signal) {
        st->phase = TCI_EXEC_EXITED;
        st->reason = TCI_EXEC_REASON_EXIT;
        st->has_exit_code = true;
        st->exit_code = how.code;
    } else if (exec->asked == TCI_EXEC_REASON_TIMEOUT && how.signum == TCI_SIG_KILL) {
        st->phase = TCI_EXEC_TIMED_OUT;
        st->reason = exec->asked;
    } else if (exec->asked == TCI_EXEC_REASON_CANCELLED && how.signum == TCI_SIG_KILL) {
        st->phase = TCI_EXEC_CANCELLED;
        st->reason = exec->asked;
    } else {
        st->phase = TCI_EXEC_SIGNALED;
        st->reason = TCI_EXEC_REASON_SIGNAL;
        st->signal = name_signal(how.signum);
    }
}

static void set_ended(tci_exec *exec)
{
    exec->status.has_ended = true;
    exec->status.ended_at = tci_clock_now();
    exec->tell_exit = true;
    tell_later(exec);
}

static void wait_for_streams(tci_exec *exec)
{
    tc_err err;
    int64_t limit_ms = exec->leave_others && exec->asked == TCI_EXEC_REASON_NONE
                           ? (int64_t)TCI_EXEC_QUIET_MS
                           : (int64_t)TCI_EXEC_PIPES_MS;
    if (tci_timer_start(&exec->pipes, limit_ms, &err) < 0)
        tci_exec_out_cut(exec); /* no memory to wait with */
}

static void on_tree_exit(tci_ptree *tree)
{
    tci_exec *exec = TCI_CONTAINER(tree, tci_exec, tree);
    if (!exec->is_paused)
        tci_exec_out_drain(exec); /* what was written before the end decides about limits */
    tci_exec_in_end(exec);
    set_outcome(exec);
    set_ended(exec);
    if (!exec->leave_others)
        tci_timer_stop(&exec->wall);
    if (!tci_exec_out_is_ended(exec))
        wait_for_streams(exec);
    else if (exec->leave_others)
        tci_exec_settle(exec);
}

static void on_tree_end(tci_ptree *tree)
{
    tci_exec *exec = TCI_CONTAINER(tree, tci_exec, tree);
    bool is_gone = tree->state == TCI_TREE_GONE;
    exec->status.cleanup = is_gone ? TCI_EXEC_CLEANUP_COMPLETE : TCI_EXEC_CLEANUP_FAILED;
    if (!tree->has_exited) {
        tci_exec_in_end(exec);
        fail(exec, TCI_EXEC_REASON_BACKEND_LOST, "the command outlives its kill");
        set_ended(exec);
        wait_for_streams(exec);
    }
    if (!exec->is_paused)
        tci_exec_out_drain(exec); /* the last writer may have gone: saves a turn */
    tci_exec_settle(exec);
}

void tci_exec_settle(tci_exec *exec)
{
    if (!tci_exec_out_is_ended(exec) || exec->tell_done || exec->is_done)
        return;
    if (exec->tree.state == TCI_TREE_ALIVE) {
        /* Its own end is not seen yet, or it left others behind that may live on. */
        if (exec->tree.has_exited && exec->leave_others)
            tci_ptree_let_go(&exec->tree);
        return;
    }
    if (exec->tree.state == TCI_TREE_ENDING)
        return;
    tci_timer_stop(&exec->pipes);
    tci_timer_stop(&exec->wall);
    exec->tell_done = true;
    tell_later(exec);
}

/* On a busy machine it may be us who were quiet: what was written meanwhile lies in the pipes. */
static bool has_more_output(tci_exec *exec)
{
    uint64_t before = exec->streams[0].nseen + exec->streams[1].nseen;
    tci_exec_out_drain(exec);
    return exec->streams[0].nseen + exec->streams[1].nseen != before;
}

static void on_pipes_limit(tci_timer *timer)
{
    tci_exec *exec = TCI_CONTAINER(timer, tci_exec, pipes);
    bool is_quiet_enough = exec->leave_others && exec->asked == TCI_EXEC_REASON_NONE;
    if (exec->is_paused ||
        (has_more_output(exec) && is_quiet_enough && !tci_exec_out_is_ended(exec))) {
        wait_for_streams(exec);
        return;
    }
    if (!is_quiet_enough && !tci_exec_out_is_ended(exec) && exec->status.phase != TCI_EXEC_FAILED)
        fail(exec, TCI_EXEC_REASON_BACKEND_LOST, "its output was still held open after its end");
    tci_exec_out_cut(exec);
    tci_exec_settle(exec);
}

static void on_wall(tci_timer *timer)
{
    tci_exec *exec = TCI_CONTAINER(timer, tci_exec, wall);
    tci_exec_time_out(exec);
}

/* ---- starting ---- */

static int make_pipes(tci_exec *exec, const tci_exec_opts *opts, int ours[3], int theirs[3],
                      tc_err *err)
{
    for (int i = 0; i < 3; i++)
        ours[i] = theirs[i] = -1;
    int pair[2], rc;
    for (int i = 1; i < 3; i++) {
        rc = tci_fd_pipe(pair, err);
        if (rc < 0)
            return rc;
        ours[i] = pair[0];
        theirs[i] = pair[1];
    }
    /* Nothing to read is /dev/null, not an empty pipe: programs that look read their input
     * otherwise. */
    if (opts->initial_stdin.len == 0 && !opts->keep_stdin_open) {
        theirs[0] = exec->host->null_fd;
        return 0;
    }
    rc = tci_fd_pipe(pair, err);
    if (rc < 0)
        return rc;
    ours[0] = pair[1];
    theirs[0] = pair[0];
    return 0;
}

static int start_tree(tci_exec *exec, const tci_exec_opts *opts, const int theirs[3], tc_err *err)
{
    tci_spawn_opts spawn = TCI_SPAWN_OPTS_NONE;
    spawn.program = opts->program;
    spawn.argv = opts->argv;
    spawn.envp = opts->envp;
    spawn.cwd = opts->cwd;
    spawn.cwd_fd = opts->cwd_fd;
    spawn.more_fds = opts->more_fds;
    spawn.nmore_fds = opts->nmore_fds;
    for (int i = 0; i < 3; i++)
        spawn.stdio[i] = theirs[i];
    return tci_ptree_start(&exec->tree, &spawn, opts->leave_others, err);
}

/* The command runs already: whatever fails now ends it, and its owner learns so in the usual way.
 */
static void begin(tci_exec *exec, const tci_exec_opts *opts, int ours[3])
{
    tc_err err;
    exec->pid = exec->tree.child.pid;
    exec->status.phase = TCI_EXEC_STARTING;
    exec->status.started_at = tci_clock_now();
    if (tci_exec_out_open(exec, ours + 1, &err) < 0 ||
        (opts->wall_time_ms > 0 && tci_timer_start(&exec->wall, opts->wall_time_ms, &err) < 0))
        tci_exec_end_by(exec, TCI_EXEC_REASON_BACKEND_LOST, err.msg);
    tci_exec_in_open(exec, &ours[0]);
    if (exec->in.initial == NULL || !opts->must_take_stdin)
        tci_exec_started(exec, 0);
}

static tci_exec *new_exec(tci_exec_host *host, const tci_exec_opts *opts)
{
    tci_exec *exec = tci_new(tci_exec);
    if (exec == NULL)
        return NULL;
    exec->host = host;
    exec->leave_others = opts->leave_others;
    exec->user = opts->user;
    exec->on_output = opts->on_output;
    exec->on_started = opts->on_started;
    exec->on_exit = opts->on_exit;
    exec->on_done = opts->on_done;
    exec->later.cb = tell;
    exec->in.fd = -1;
    tci_list_init(&exec->in.writes);
    tci_list_init(&exec->in.answered);
    tci_spool *spools[] = {opts->out, opts->err};
    for (int i = 0; i < TCI_EXEC_STREAMS; i++) {
        exec->streams[i] =
            (exec_stream){.exec = exec, .which = (tci_exec_stream)i, .fd = -1, .spool = spools[i]};
    }
    tci_timer_init(&exec->wall, host->loop, on_wall);
    tci_timer_init(&exec->pipes, host->loop, on_pipes_limit);
    tci_ptree_init(&exec->tree, host->trees, on_tree_exit, on_tree_end);
    return exec;
}

int tci_exec_start(tci_exec_host *host, const tci_exec_opts *opts, tci_exec **ret_exec, tc_err *err)
{
    tci_loop_assert(host->loop);
    if (opts->stdin_max_bytes != 0 && opts->initial_stdin.len > opts->stdin_max_bytes)
        return tc_err_set(err, TC_E_OUTPUT_LIMIT, "stdin is over its limit of %llu bytes",
                          (unsigned long long)opts->stdin_max_bytes);
    tci_exec *exec = new_exec(host, opts);
    if (exec == NULL)
        return tci_err_no_memory(err);
    int ours[3], theirs[3];
    int rc = make_pipes(exec, opts, ours, theirs, err);
    if (rc == 0)
        rc = tci_exec_in_fill(exec, ours[0], opts, err);
    if (rc == 0)
        rc = start_tree(exec, opts, theirs, err);
    for (int i = 0; i < 3; i++)
        if (theirs[i] != host->null_fd)
            tci_fd_close(&theirs[i]);
    if (rc < 0) {
        for (int i = 0; i < 3; i++)
            tci_fd_close(&ours[i]);
        tci_exec_in_done(exec);
        tci_ptree_done(&exec->tree);
        tci_free(exec);
        return rc;
    }
    tci_list_push_back(&host->execs, &exec->link);
    host->nexecs++;
    begin(exec, opts, ours);
    *ret_exec = exec;
    return 0;
}

void tci_exec_free(tci_exec *exec)
{
    if (exec == NULL)
        return;
    TC_ASSERT(exec->is_done);
    tci_later_cancel(&exec->later);
    tci_exec_in_done(exec);
    tci_ptree_done(&exec->tree);
    tci_free(exec);
}

void tci_exec_abandon(tci_exec *exec, void (*ended)(void *user), void *user)
{
    exec->on_output = NULL;
    exec->on_started = NULL;
    exec->on_exit = NULL;
    exec->on_done = NULL;
    if (exec->is_done) {
        tci_exec_free(exec);
        if (ended != NULL)
            ended(user);
        return;
    }
    exec->is_abandoned = true;
    exec->ended = ended;
    exec->ended_user = user;
    tci_exec_in_abandon(exec);
    if (exec->is_paused)
        tci_exec_pause_output(exec, false);
    tci_exec_end_by(exec, TCI_EXEC_REASON_SIGNAL, NULL);
}

/* ---- asking and telling it things ---- */

void tci_exec_kill(tci_exec *exec)
{
    tci_exec_end_by(exec, TCI_EXEC_REASON_SIGNAL, NULL);
}

void tci_exec_cancel(tci_exec *exec)
{
    tci_exec_end_by(exec, TCI_EXEC_REASON_CANCELLED, NULL);
}

void tci_exec_time_out(tci_exec *exec)
{
    bool was_over = tci_exec_phase_is_terminal(exec->status.phase);
    tci_exec_end_by(exec, TCI_EXEC_REASON_TIMEOUT, NULL);
    if (was_over &&
        exec->asked == TCI_EXEC_REASON_TIMEOUT) { /* its streams were still waited for */
        exec->status.phase = TCI_EXEC_TIMED_OUT;
        exec->status.reason = TCI_EXEC_REASON_TIMEOUT;
        exec->status.has_exit_code = false;
        exec->status.signal = TCI_EXEC_SIGNAL_NONE;
    }
}

bool tci_exec_send_signal(tci_exec *exec, tci_exec_signal signal)
{
    static const int numbers[] = {
        [TCI_EXEC_SIGNAL_INTERRUPT] = TCI_SIG_INT,
        [TCI_EXEC_SIGNAL_TERMINATE] = TCI_SIG_TERM,
        [TCI_EXEC_SIGNAL_KILL] = TCI_SIG_KILL,
    };
    TC_ASSERT(signal != TCI_EXEC_SIGNAL_NONE);
    return tci_ptree_signal(&exec->tree, numbers[signal]);
}

void *tci_exec_user(const tci_exec *exec)
{
    return exec->user;
}

tci_exec_status tci_exec_status_of(const tci_exec *exec)
{
    return exec->status;
}

bool tci_exec_is_done(const tci_exec *exec)
{
    return exec->is_done;
}

int tci_exec_pid(const tci_exec *exec)
{
    return exec->pid;
}

tc_str tci_exec_failure(const tci_exec *exec)
{
    return tci_str(exec->failure);
}

size_t tci_exec_left(const tci_exec *exec, const tci_ptree_proc **ret_procs, size_t *ret_nprocs)
{
    return tci_ptree_left(&exec->tree, ret_procs, ret_nprocs);
}

size_t tci_exec_survivors(const tci_exec *exec, const tci_ptree_proc **ret_procs,
                          size_t *ret_nprocs)
{
    return tci_ptree_survivors(&exec->tree, ret_procs, ret_nprocs);
}
