/* SPDX-License-Identifier: Apache-2.0
 *
 * See run.h. Leaves processes and pipes to exec.c; decides here what a command's end means, turns
 * bytes into text and feeds the file. Loop thread. Invariant: why it was killed is noted before the
 * kill, and decides the result however the process took it. */
#include "ops/run_int.h"

#include "base/num.h"
#include "base/utf8_stream.h"
#include "ops/exec_int.h"

#include <stdio.h>

enum {
    SIGNAL_BASE = 128,
    SCRATCH_KEEP = 1024 * 1024,
    CANDIDATES_MAX = 65536 /* more folders than any PATH names */
};

struct tci_run {
    tci_exec *exec;
    bool is_raw;
    bool is_timed_out, is_aborted, has_failed;
    tci_timer timeout;
    tci_utf8_stream decoders[TCI_EXEC_STREAMS];
    tci_buf scratch;
    run_spill spill;
    char message[TC_ERR_MSG_MAX]; /* of the failure */

    void *user;
    int (*on_output)(tci_run *run, tci_exec_stream stream, tc_str text, tc_err *err);
    void (*on_done)(tci_run *run, const tci_run_result *result);
    void (*ended)(void *user);
    void *ended_user;
};

/* ---- output ---- */

static void note_failure(tci_run *run, const char *what)
{
    if (!run->has_failed)
        (void)snprintf(run->message, sizeof run->message, "%s", what); /* fits */
    run->has_failed = true;
}

static int give(tci_run *run, tci_exec_stream stream, tc_str text, tc_err *err)
{
    return text.len == 0 || run->on_output == NULL ? 0 : run->on_output(run, stream, text, err);
}

static int take_output(tci_run *run, tci_exec_stream stream, tc_str bytes, tc_err *err)
{
    if (run->is_raw)
        return give(run, stream, bytes, err);
    tc_str text = tci_utf8_stream_feed(&run->decoders[stream], bytes, &run->scratch);
    int rc = tci_buf_error(&run->scratch, err);
    if (rc == 0)
        rc = give(run, stream, text, err);
    tci_buf_clear(&run->scratch);
    tci_buf_trim(&run->scratch, SCRATCH_KEEP);
    return rc;
}

static int on_output(tci_exec *exec, tci_exec_stream stream, tc_str bytes, tc_err *err)
{
    tci_run *run = tci_exec_user(exec);
    tc_err later;
    int rc = tci_run_spill_put(&run->spill, bytes, err);
    if (rc < 0)
        note_failure(run, err->msg);
    /* What cannot be kept can still be seen. */
    if (take_output(run, stream, bytes, rc < 0 ? &later : err) < 0 && rc == 0) {
        rc = err->code;
        note_failure(run, err->msg);
    }
    return rc;
}

/* A character that never came to its end. */
static void end_text(tci_run *run)
{
    for (int i = 0; i < TCI_EXEC_STREAMS && !run->is_raw; i++) {
        tc_err err;
        if (give(run, (tci_exec_stream)i, tci_utf8_stream_end(&run->decoders[i]), &err) < 0)
            note_failure(run, err.msg);
    }
}

/* ---- the end ---- */

static tci_run_end how_it_ended(const tci_run *run)
{
    if (run->is_timed_out)
        return TCI_RUN_TIMED_OUT;
    if (run->is_aborted)
        return TCI_RUN_ABORTED;
    if (run->has_failed)
        return TCI_RUN_SPILL_FAILED;
    const tci_ptree *tree = &run->exec->tree;
    if (!tree->has_exited || tree->was_lost)
        return TCI_RUN_LOST;
    return TCI_RUN_EXITED;
}

static void on_done(tci_exec *exec)
{
    tci_run *run = tci_exec_user(exec);
    const tci_ptree *tree = &exec->tree;
    tci_run_result result = {0};
    end_text(run);
    tci_timer_stop(&run->timeout);
    result.end = how_it_ended(run);
    if (result.end == TCI_RUN_EXITED) {
        result.signum = tree->exit.is_signal ? tree->exit.signum : 0;
        result.exit_code = tree->exit.is_signal ? SIGNAL_BASE + tree->exit.signum : tree->exit.code;
    }
    result.spill_path = tci_str(run->spill.path);
    result.message = tci_str(run->message);
    if (result.end == TCI_RUN_LOST)
        result.message = tci_exec_failure(exec);
    (void)tci_exec_survivors(exec, &result.survivors, &result.nsurvivors);
    run->on_done(run, &result);
}

static void on_timeout(tci_timer *timer)
{
    tci_run *run = TCI_CONTAINER(timer, tci_run, timeout);
    run->is_timed_out = true;
    tci_exec_kill(run->exec);
}

/* ---- life ---- */

static void free_parts(tci_run *run)
{
    tci_timer_stop(&run->timeout);
    tci_buf_done(&run->scratch);
    tci_run_spill_done(&run->spill);
    tci_free(run);
}

static tci_run *new_run(const tci_exec_host *host, const tci_run_opts *opts, tc_err *err)
{
    tci_run *run = tci_new(tci_run);
    if (run == NULL) {
        (void)tci_err_no_memory(err);
        return NULL;
    }
    run->is_raw = opts->is_raw;
    run->user = opts->user;
    run->on_output = opts->on_output;
    run->on_done = opts->on_done;
    tci_buf_init(&run->scratch, TCI_BUF_MAX);
    tci_timer_init(&run->timeout, host->loop, on_timeout);
    if (tci_run_spill_init(&run->spill, opts, err) < 0) {
        free_parts(run);
        return NULL;
    }
    return run;
}

/* As execvp(3): a place where it cannot be is passed over; one where it may not be executed, too,
 * but that is what is told in the end. */
static int start_somewhere(tci_exec_host *host, const run_plan *plan, tci_exec_opts *exec,
                           tci_exec **ret, tc_err *err)
{
    char path[TCI_PATH_MAX];
    bool is_name = strchr(plan->file, '/') == NULL;
    tc_err denied;
    bool was_denied = false;
    for (size_t i = 0; i < CANDIDATES_MAX && tci_run_candidate(plan, i, path); i++) {
        tci_file_stat st;
        if (path[0] == '\0' ||
            (is_name && tci_file_stat_at(TCI_FILE_CWD, tci_str(path), true, &st, err) < 0))
            continue;
        exec->program = path;
        int rc = tci_exec_start(host, exec, ret, err);
        if (rc == 0 || rc == TC_E_NO_MEMORY || !is_name)
            return rc;
        if (rc == TC_E_DENIED && !was_denied) {
            denied = *err;
            was_denied = true;
        }
        if (rc != TC_E_DENIED && rc != TC_E_NOT_FOUND)
            return rc;
    }
    if (!was_denied)
        return tc_err_set(err, TC_E_START_FAILED, "cannot find program '%s'", plan->file);
    *err = denied;
    return err->code;
}

static int start(tci_run *run, tci_exec_host *host, const tci_run_opts *opts, tci_arena *a,
                 tc_err *err)
{
    run_plan plan;
    if (tci_run_plan(opts, a, &plan, err) < 0)
        return err->code;
    tci_exec_opts exec = TCI_EXEC_OPTS_NONE;
    exec.argv = plan.argv;
    exec.envp = plan.envp;
    exec.cwd = plan.cwd;
    exec.keep_stdin_open = opts->has_stdin;
    exec.stdin_may_wait = true;
    exec.leave_others = true;
    exec.user = run;
    exec.on_output = on_output;
    exec.on_done = on_done;
    int rc = start_somewhere(host, &plan, &exec, &run->exec, err);
    if (rc < 0)
        return rc == TC_E_NO_MEMORY ? rc : tc_err_recode(err, TC_E_START_FAILED);
    tc_err no_timer; /* it runs already: without a limit it may not */
    if (opts->timeout_ns >= 0 &&
        tci_timer_start_at(&run->timeout, tci_add_ns(tci_loop_now_ns(host->loop), opts->timeout_ns),
                           &no_timer) < 0) {
        note_failure(run, no_timer.msg);
        tci_exec_kill(run->exec);
    }
    return 0;
}

int tci_run_start(tci_exec_host *host, const tci_run_opts *opts, tci_arena *a, tci_run **ret_run,
                  tc_err *err)
{
    tci_loop_assert(host->loop);
    tci_run *run = new_run(host, opts, err);
    if (run == NULL)
        return err->code;
    int rc = start(run, host, opts, a, err);
    if (rc < 0) {
        free_parts(run);
        return rc;
    }
    *ret_run = run;
    return 0;
}

void tci_run_free(tci_run *run)
{
    if (run == NULL)
        return;
    tci_exec_free(run->exec);
    free_parts(run);
}

static void on_abandoned(void *user)
{
    tci_run *run = user;
    void (*ended)(void *user) = run->ended;
    void *ended_user = run->ended_user;
    free_parts(run);
    if (ended != NULL)
        ended(ended_user);
}

void tci_run_abandon(tci_run *run, void (*ended)(void *user), void *user)
{
    tci_timer_stop(&run->timeout);
    run->on_output = NULL;
    run->on_done = NULL;
    run->ended = ended;
    run->ended_user = user;
    tci_exec_abandon(run->exec, on_abandoned, run);
}

/* ---- asking and telling it things ---- */

void *tci_run_user(const tci_run *run)
{
    return run->user;
}

void tci_run_abort(tci_run *run)
{
    run->is_aborted = true;
    tci_exec_kill(run->exec);
}

void tci_run_kill(tci_run *run)
{
    tci_exec_kill(run->exec);
}

void tci_run_fail(tci_run *run, const char *why)
{
    note_failure(run, why);
    tci_exec_kill(run->exec);
}

void tci_run_pause_output(tci_run *run, bool is_paused)
{
    tci_exec_pause_output(run->exec, is_paused);
}

int tci_run_write_stdin(tci_run *run, tci_exec_write *write, tc_err *err)
{
    return tci_exec_write_stdin(run->exec, write, err);
}

void tci_run_close_stdin(tci_run *run)
{
    tci_exec_close_stdin(run->exec);
}
