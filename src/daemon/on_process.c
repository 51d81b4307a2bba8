/* SPDX-License-Identifier: Apache-2.0
 *
 * Handlers of commands and processes. All on the loop thread; those that wait are ended by the process's
 * events, by cancellation or by their deadline, whichever comes first.
 *
 * Invariant: a pending request that started a process is that process's starter until it is answered. */
#include "daemon/device.h"
#include "daemon/gen/handlers.h"
#include "daemon/process.h"
#include "daemon/req.h"

static int stop_code(const tci_req *r)
{
    return atomic_load(&r->cancel.is_cancelled) ? TC_E_CANCELLED : TC_E_TIMEOUT;
}

static int stopped(const tci_req *r, tc_err *err)
{
    if (stop_code(r) == TC_E_CANCELLED)
        return tc_err_set(err, TC_E_CANCELLED, "cancelled");
    return tc_err_set(err, TC_E_TIMEOUT, "the deadline has passed");
}

/* Evidence of a command for an error. What cannot be read is left out. */
static void add_process(tci_req *r, const tci_process *p)
{
    tc_err err;
    r->error.has_process =
        p->handle.len > 0 && tci_process_put_info(p, &r->arena, &r->error.process, &err) == 0;
}

static void add_output(tci_req *r, const tci_process *p)
{
    tc_err err;
    r->error.has_process_status = true;
    r->error.process_status = tci_process_status(p);
    r->error.has_output = tci_process_put_output(p, &r->arena, &r->error.output, &err) == 0;
    r->error.has_produced_bytes = r->error.has_output;
    r->error.produced_bytes =
        r->error.output.stdout.produced_bytes + r->error.output.stderr.produced_bytes;
}

/* ---- shell.exec ---- */

static tci_eip_receipt_outcome outcome_of(tci_eip_process_phase phase)
{
    switch (phase) {
    case TCI_EIP_PROCESS_PHASE_TIMED_OUT:
        return TCI_EIP_RECEIPT_OUTCOME_TIMED_OUT;
    case TCI_EIP_PROCESS_PHASE_CANCELLED:
        return TCI_EIP_RECEIPT_OUTCOME_CANCELLED;
    case TCI_EIP_PROCESS_PHASE_FAILED:
        return TCI_EIP_RECEIPT_OUTCOME_FAILED;
    case TCI_EIP_PROCESS_PHASE_STARTING:
    case TCI_EIP_PROCESS_PHASE_RUNNING:
    case TCI_EIP_PROCESS_PHASE_EXITED:
    case TCI_EIP_PROCESS_PHASE_SIGNALED:
        break;
    }
    return TCI_EIP_RECEIPT_OUTCOME_SUCCEEDED;
}

static int exec_failure(tci_req *r, const tci_process *p, tc_err *err)
{
    tci_exec_reason reason = tci_exec_status_of(p->exec).reason;
    if (reason == TCI_EXEC_REASON_OUTPUT_LIMIT) {
        add_output(r, p);
        return tc_err_set(err, TC_E_OUTPUT_LIMIT, "the command's output is over its limit");
    }
    if (reason == TCI_EXEC_REASON_BACKEND_LOST) {
        add_output(r, p);
        tc_str why = tci_exec_failure(p->exec);
        return tc_err_set(err, TC_E_UNKNOWN_OUTCOME, "%.*s", TC_STR_ARG(why));
    }
    return 0;
}

static void exec_started(tci_process *p, int rc, const tc_err *err)
{
    TCI_UNUSED(p); /* shell.exec answers with the whole truth at the end */
    TCI_UNUSED(rc);
    TCI_UNUSED(err);
}

static void exec_done(tci_process *p)
{
    tc_err err;
    tci_req *r = p->starter;
    tci_eip_shell_exec_result *res = r->result;
    int rc = exec_failure(r, p, &err);
    res->status = tci_process_status(p);
    if (rc == 0)
        rc = tci_process_put_output(p, &r->arena, &res->output, &err);
    if (rc == 0)
        tci_req_receipt(r, TCI_EIP_RECEIPT_STAGE_COMPLETED, outcome_of(res->status.phase),
                        &res->receipt);
    tci_process_forget(p);
    tci_req_finish(r, rc, &err);
}

static void exec_stop(tci_req *r)
{
    tci_process *p = r->state;
    if (stop_code(r) == TC_E_CANCELLED)
        tci_exec_cancel(p->exec);
    else
        tci_exec_time_out(p->exec);
}

int tci_on_shell_exec(tci_req *r, tc_err *err)
{
    const tci_eip_shell_exec_params *params = r->params;
    tci_command cmd;
    tci_process *p;
    if (tci_command_prepare(r, &params->request, &cmd, err) < 0)
        return err->code;
    if (tci_process_start(r->session, &cmd, false, r->record, r, exec_started, exec_done, &p, err) <
        0)
        return err->code;
    r->state = p;
    r->on_stop = exec_stop;
    return 0;
}

/* ---- process.start ---- */

static void start_started(tci_process *p, int rc, const tc_err *started_err)
{
    tc_err err;
    tci_req *r = p->starter;
    if (r == NULL || p->is_doomed) /* stopped meanwhile: the end answers */
        return;
    tci_eip_process_start_result *res = r->result;
    if (rc < 0) {
        err = *started_err;
        add_process(r, p);
        p->is_doomed = true;
    } else {
        rc = tci_process_put_info(p, &r->arena, &res->process, &err);
        tci_req_receipt(r, TCI_EIP_RECEIPT_STAGE_EXEC_CONFIRMED, TCI_EIP_RECEIPT_OUTCOME_SUCCEEDED,
                        &res->receipt);
    }
    p->starter = NULL;
    r->on_stop = NULL;
    tci_req_finish(r, rc, &err);
}

/* The request is answered last: its answer may be what the session was waiting for to be gone. */
static void start_done(tci_process *p)
{
    tc_err err;
    tci_req *r = p->starter;
    int rc = r != NULL ? stopped(r, &err) : 0;
    p->starter = NULL;
    if (p->is_doomed)
        tci_process_forget(p);
    if (r != NULL) {
        r->on_stop = NULL;
        tci_req_finish(r, rc, &err);
    }
}

static void start_stop(tci_req *r)
{
    tci_process *p = r->state;
    p->is_doomed = true;
    tci_exec_cancel(p->exec);
}

int tci_on_process_start(tci_req *r, tc_err *err)
{
    const tci_eip_process_start_params *params = r->params;
    tci_command cmd;
    tci_process *p;
    if (tci_command_prepare(r, &params->request, &cmd, err) < 0)
        return err->code;
    if (tci_process_start(r->session, &cmd, true, r->record, r, start_started, start_done, &p,
                          err) < 0)
        return err->code;
    r->state = p;
    r->on_stop = start_stop;
    return 0;
}

/* ---- looking and waiting ---- */

static int find(tci_req *r, tc_str handle, tci_process **ret, tc_err *err)
{
    *ret = tci_process_find(r->session, handle);
    if (*ret == NULL)
        return tc_err_set(err, TC_E_NOT_FOUND, "no process '%.*s'", TC_STR_ARG(handle));
    return 0;
}

int tci_on_process_inspect(tci_req *r, tc_err *err)
{
    const tci_eip_process_inspect_params *params = r->params;
    tci_process *p;
    if (find(r, params->handle, &p, err) < 0)
        return err->code;
    return tci_process_put_info(p, &r->arena,
                                &((tci_eip_process_inspect_result *)r->result)->process, err);
}

/* A request that waits for a process; at the end it either has what it asked for, or was stopped. */
typedef struct waiter {
    tci_process_wait wait;
    tci_req *req;
    int (*finish)(tci_req *r, tci_process *p, tc_err *err);
} waiter;

static void waiter_done(tci_process_wait *w)
{
    tc_err err;
    waiter *me = TCI_CONTAINER(w, waiter, wait);
    tci_req *r = me->req;
    r->on_stop = NULL;
    int rc = me->finish(r, w->process, &err);
    tci_req_finish(r, rc, &err);
}

static int wait_for(tci_req *r, tci_process *p, bool for_cleanup,
                    int (*finish_with)(tci_req *r, tci_process *p, tc_err *err),
                    void (*on_stop)(tci_req *r), tc_err *err)
{
    bool is_there = for_cleanup ? !p->is_live : tci_process_is_terminal(p);
    if (is_there) {
        int rc = finish_with(r, p, err);
        if (rc == 0)
            tci_req_finish(r, 0, err);
        return rc;
    }
    waiter *w = tci_arena_new(&r->arena, waiter);
    if (w == NULL)
        return tci_arena_error(&r->arena, err);
    w->req = r;
    w->finish = finish_with;
    w->wait.for_cleanup = for_cleanup;
    r->state = w;
    r->on_stop = on_stop;
    tci_process_add_wait(p, &w->wait, waiter_done);
    return 0;
}

static int wait_finish(tci_req *r, tci_process *p, tc_err *err)
{
    return tci_process_put_info(p, &r->arena, &((tci_eip_process_wait_result *)r->result)->process,
                                err);
}

static void wait_stop(tci_req *r)
{
    tc_err err;
    waiter *w = r->state;
    tci_link_remove(&w->wait.link);
    int rc = stopped(r, &err);
    tci_req_finish(r, rc, &err);
}

int tci_on_process_wait(tci_req *r, tc_err *err)
{
    const tci_eip_process_wait_params *params = r->params;
    tci_process *p;
    if (find(r, params->handle, &p, err) < 0)
        return err->code;
    return wait_for(r, p, params->condition == TCI_EIP_WAIT_CONDITION_TREE_CLEANED, wait_finish,
                    wait_stop, err);
}

/* ---- acting ---- */

static int kill_finish(tci_req *r, tci_process *p, tc_err *err)
{
    tci_eip_process_kill_result *res = r->result;
    if (tci_exec_status_of(p->exec).cleanup != TCI_EXEC_CLEANUP_COMPLETE) {
        add_process(r, p);
        return tc_err_set(err, TC_E_CLEANUP_FAILED, "processes of the command are left");
    }
    if (tci_process_put_info(p, &r->arena, &res->process, err) < 0)
        return err->code;
    tci_req_receipt(r, TCI_EIP_RECEIPT_STAGE_COMPLETED, TCI_EIP_RECEIPT_OUTCOME_SUCCEEDED,
                    &res->receipt);
    return 0;
}

static void kill_stop(tci_req *r)
{
    tc_err err;
    waiter *w = r->state;
    tci_link_remove(&w->wait.link);
    add_process(r, w->wait.process);
    int rc = tc_err_set(&err, TC_E_UNKNOWN_OUTCOME, "the end was not observed in time");
    tci_req_finish(r, rc, &err);
}

int tci_on_process_kill(tci_req *r, tc_err *err)
{
    const tci_eip_process_kill_params *params = r->params;
    tci_process *p;
    if (find(r, params->handle, &p, err) < 0)
        return err->code;
    if (p->is_live)
        tci_exec_kill(p->exec);
    return wait_for(r, p, true, kill_finish, kill_stop, err);
}

int tci_on_process_signal(tci_req *r, tc_err *err)
{
    const tci_eip_process_signal_params *params = r->params;
    tci_eip_process_signal_result *res = r->result;
    tci_process *p;
    if (find(r, params->handle, &p, err) < 0)
        return err->code;
    tci_exec_signal signal = params->signal == TCI_EIP_REQUESTED_SIGNAL_INTERRUPT
                                 ? TCI_EXEC_SIGNAL_INTERRUPT
                                 : TCI_EXEC_SIGNAL_TERMINATE;
    res->accepted = !tci_process_is_terminal(p) && tci_exec_send_signal(p->exec, signal);
    if (tci_process_put_info(p, &r->arena, &res->process, err) < 0)
        return err->code;
    tci_req_receipt(r, TCI_EIP_RECEIPT_STAGE_DISPATCHED, TCI_EIP_RECEIPT_OUTCOME_SUCCEEDED,
                    &res->receipt);
    return 0;
}

int tci_on_process_release(tci_req *r, tc_err *err)
{
    const tci_eip_process_release_params *params = r->params;
    tci_eip_process_release_result *res = r->result;
    tci_process *p;
    if (find(r, params->handle, &p, err) < 0)
        return err->code;
    if (p->is_live || tci_exec_status_of(p->exec).cleanup != TCI_EXEC_CLEANUP_COMPLETE)
        return tc_err_set(err, TC_E_CONFLICT, "the process has not ended");
    tci_process_forget(p);
    res->released = true;
    tci_req_receipt(r, TCI_EIP_RECEIPT_STAGE_COMPLETED, TCI_EIP_RECEIPT_OUTCOME_SUCCEEDED,
                    &res->receipt);
    return 0;
}

/* ---- stdin ---- */

typedef struct stdin_write {
    tci_exec_write write;
    tci_req *req;
} stdin_write;

static void write_done(tci_exec_write *write, int rc, const tc_err *err)
{
    stdin_write *w = TCI_CONTAINER(write, stdin_write, write);
    tci_req *r = w->req;
    tci_eip_process_write_stdin_result *res = r->result;
    const tci_eip_process_write_stdin_params *params = r->params;
    tci_process *p = tci_process_find(r->session, params->handle);
    res->accepted_bytes = write->accepted;
    res->stdin_open = p != NULL && tci_exec_is_stdin_open(p->exec);
    tci_req_receipt(r, TCI_EIP_RECEIPT_STAGE_COMPLETED, TCI_EIP_RECEIPT_OUTCOME_SUCCEEDED,
                    &res->receipt);
    tci_req_finish(r, rc, err);
}

int tci_on_process_write_stdin(tci_req *r, tc_err *err)
{
    const tci_eip_process_write_stdin_params *params = r->params;
    tci_process *p;
    if (find(r, params->handle, &p, err) < 0)
        return err->code;
    stdin_write *w = tci_arena_new(&r->arena, stdin_write);
    if (w == NULL)
        return tci_arena_error(&r->arena, err);
    w->req = r;
    w->write = (tci_exec_write){
        .data = params->data.data, .close_after = params->close_after_write, .cb = write_done};
    /* A write that began cannot be taken back; it ends by itself within its own limit. */
    return tci_exec_write_stdin(p->exec, &w->write, err);
}

int tci_on_process_close_stdin(tci_req *r, tc_err *err)
{
    const tci_eip_process_close_stdin_params *params = r->params;
    tci_eip_process_close_stdin_result *res = r->result;
    tci_process *p;
    if (find(r, params->handle, &p, err) < 0)
        return err->code;
    tci_exec_close_stdin(p->exec);
    res->stdin_open = false;
    tci_req_receipt(r, TCI_EIP_RECEIPT_STAGE_COMPLETED, TCI_EIP_RECEIPT_OUTCOME_SUCCEEDED,
                    &res->receipt);
    tci_req_finish(r, 0, err);
    return 0;
}
