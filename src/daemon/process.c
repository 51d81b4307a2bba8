/* SPDX-License-Identifier: Apache-2.0
 *
 * See process.h. Leaves spawning and killing to ops/exec, the bytes to ops/spool.
 *
 * Invariant: nprocesses of the session and the device count exactly the processes that are live; a live
 * process holds its session. An output is in output_lru exactly while it is detached. */
#include "daemon/process.h"

#include "daemon/device.h"
#include "daemon/totals.h"

enum { SPOOL_LEAST_BYTES = 64 * 1024 };

/* ---- outputs ---- */

static void pin(tci_record **slot, tci_record *record)
{
    *slot = record;
    if (record != NULL)
        tci_record_pin(record);
}

static void unpin(tci_session *s, tci_record **slot)
{
    if (*slot != NULL)
        tci_record_unpin(&s->ledger, *slot);
    *slot = NULL;
}

static int output_new(tci_session *s, tci_record *record, tci_output **ret, tc_err *err)
{
    tci_device *d = s->device;
    tci_output *o = tci_new(tci_output);
    if (o == NULL)
        return tci_err_no_memory(err);
    o->reference =
        tci_str_of(o->reference_text, tci_device_handle(d, TCI_HANDLE_OUTPUT, o->reference_text));
    int rc =
        tci_spool_new(&d->commands->spool_dir, o->reference,
                      d->config->limits.max_output_bytes_per_stream, &s->spool, &o->spool, err);
    if (rc == 0)
        rc = tci_map_put(&s->outputs, o->reference, o, err);
    if (rc < 0) {
        tci_spool_free(o->spool);
        tci_free(o);
        return rc;
    }
    o->session = s;
    o->is_attached = true;
    pin(&o->pinned, record);
    *ret = o;
    return 0;
}

static void output_drop(tci_output *o)
{
    tci_session *s = o->session;
    (void)tci_map_remove(&s->outputs, o->reference);
    tci_link_remove(&o->lru);
    unpin(s, &o->pinned);
    tci_spool_free(o->spool);
    tci_free(o);
}

static void output_touch(tci_output *o)
{
    o->touched_ms = tci_loop_now_ms(o->session->device->loop);
    if (o->is_attached)
        return;
    tci_link_remove(&o->lru);
    tci_list_push_back(&o->session->output_lru, &o->lru);
}

static void output_detach(tci_output *o)
{
    o->is_attached = false;
    output_touch(o);
}

tci_output *tci_output_find(tci_session *s, tc_str reference)
{
    tci_output *o = tci_map_get(&s->outputs, reference);
    if (o != NULL)
        output_touch(o);
    return o;
}

int tci_output_forget(tci_output *o, tc_err *err)
{
    if (tci_spool_release(o->spool, err) < 0) {
        o->session->device->output_cleanup_failures++;
        return tc_err_recode(err, TC_E_CLEANUP_FAILED);
    }
    o->spool = NULL;
    output_drop(o);
    return 0;
}

int tci_output_put_info(const tci_output *o, tci_arena *a, tci_eip_output_info *ret, tc_err *err)
{
    tci_spool_info i = tci_spool_info_of(o->spool);
    uint64_t max = o->session->device->config->limits.max_output_preview_bytes;
    size_t len = (size_t)tci_min_u64(max, i.retained_bytes);
    char *preview = tci_arena_bytes(a, len);
    if (preview == NULL)
        return tci_arena_error(a, err);
    if (tci_spool_read(o->spool, 0, preview, len, &len, err) < 0)
        return err->code;
    *ret = (tci_eip_output_info){.reference = o->reference,
                                 .producer_complete = i.producer_complete,
                                 .content_complete = i.content_complete,
                                 .produced_bytes = i.produced_bytes,
                                 .retained_bytes = i.retained_bytes,
                                 .preview = {.data = tci_str_of(preview, len)}};
    return 0;
}

/* ---- records of the wire ---- */

static bool wire_reason(tci_exec_reason reason, tci_eip_termination_reason *ret)
{
    static const tci_eip_termination_reason reasons[] = {
        [TCI_EXEC_REASON_EXIT] = TCI_EIP_TERMINATION_REASON_EXIT,
        [TCI_EXEC_REASON_SIGNAL] = TCI_EIP_TERMINATION_REASON_SIGNAL,
        [TCI_EXEC_REASON_TIMEOUT] = TCI_EIP_TERMINATION_REASON_TIMEOUT,
        [TCI_EXEC_REASON_CANCELLED] = TCI_EIP_TERMINATION_REASON_CANCELLED,
        [TCI_EXEC_REASON_OUTPUT_LIMIT] = TCI_EIP_TERMINATION_REASON_OUTPUT_LIMIT,
        [TCI_EXEC_REASON_BACKEND_LOST] = TCI_EIP_TERMINATION_REASON_BACKEND_LOST,
    };
    if (reason == TCI_EXEC_REASON_NONE)
        return false;
    *ret = reasons[reason];
    return true;
}

static tci_eip_process_phase wire_phase(tci_exec_phase phase)
{
    static const tci_eip_process_phase phases[] = {
        [TCI_EXEC_STARTING] = TCI_EIP_PROCESS_PHASE_STARTING,
        [TCI_EXEC_RUNNING] = TCI_EIP_PROCESS_PHASE_RUNNING,
        [TCI_EXEC_EXITED] = TCI_EIP_PROCESS_PHASE_EXITED,
        [TCI_EXEC_SIGNALED] = TCI_EIP_PROCESS_PHASE_SIGNALED,
        [TCI_EXEC_TIMED_OUT] = TCI_EIP_PROCESS_PHASE_TIMED_OUT,
        [TCI_EXEC_CANCELLED] = TCI_EIP_PROCESS_PHASE_CANCELLED,
        [TCI_EXEC_FAILED] = TCI_EIP_PROCESS_PHASE_FAILED,
    };
    return phases[phase];
}

static bool wire_signal(tci_exec_signal signal, tci_eip_process_signal *ret)
{
    static const tci_eip_process_signal signals[] = {
        [TCI_EXEC_SIGNAL_INTERRUPT] = TCI_EIP_PROCESS_SIGNAL_INTERRUPT,
        [TCI_EXEC_SIGNAL_TERMINATE] = TCI_EIP_PROCESS_SIGNAL_TERMINATE,
        [TCI_EXEC_SIGNAL_KILL] = TCI_EIP_PROCESS_SIGNAL_KILL,
    };
    if (signal == TCI_EXEC_SIGNAL_NONE)
        return false;
    *ret = signals[signal];
    return true;
}

tci_eip_process_status tci_process_status(const tci_process *p)
{
    static const tci_eip_cleanup_outcome cleanups[] = {
        [TCI_EXEC_CLEANUP_PENDING] = TCI_EIP_CLEANUP_OUTCOME_PENDING,
        [TCI_EXEC_CLEANUP_COMPLETE] = TCI_EIP_CLEANUP_OUTCOME_COMPLETE,
        [TCI_EXEC_CLEANUP_FAILED] = TCI_EIP_CLEANUP_OUTCOME_FAILED,
    };
    tci_exec_status st = tci_exec_status_of(p->exec);
    tci_eip_process_status w = {.phase = wire_phase(st.phase),
                                .has_exit_code = st.has_exit_code,
                                .exit_code = st.exit_code,
                                .has_started_at = true,
                                .started_at = st.started_at,
                                .has_ended_at = st.has_ended,
                                .ended_at = st.ended_at,
                                .cleanup = cleanups[st.cleanup]};
    w.has_termination_reason = wire_reason(st.reason, &w.termination_reason);
    w.has_signal = wire_signal(st.signal, &w.signal);
    return w;
}

bool tci_process_is_terminal(const tci_process *p)
{
    return tci_exec_phase_is_terminal(tci_exec_status_of(p->exec).phase);
}

int tci_process_put_output(const tci_process *p, tci_arena *a, tci_eip_process_output *ret,
                           tc_err *err)
{
    if (tci_output_put_info(p->out, a, &ret->stdout, err) < 0 ||
        tci_output_put_info(p->err, a, &ret->stderr, err) < 0)
        return err->code;
    return 0;
}

int tci_process_put_info(const tci_process *p, tci_arena *a, tci_eip_process_info *ret, tc_err *err)
{
    ret->handle = p->handle;
    ret->device_id = p->session->device->id;
    ret->session_id = p->session->id;
    ret->generation = p->session->device->generation;
    ret->status = tci_process_status(p);
    ret->stdin_open = tci_exec_is_stdin_open(p->exec);
    return tci_process_put_output(p, a, &ret->output, err);
}

/* ---- life of a process ---- */

static void touch(tci_process *p)
{
    p->touched_ms = tci_loop_now_ms(p->session->device->loop);
    if (p->is_live || p->handle.len == 0)
        return;
    tci_link_remove(&p->lru);
    tci_list_push_back(&p->session->process_lru, &p->lru);
}

/* A callback may answer a request, and so end other waits: each is taken off before it is told. */
static void tell_waits(tci_process *p, bool cleaned)
{
    tci_list due;
    tci_list_init(&due);
    TCI_LIST_EACH (&p->waits, k) {
        if (TCI_CONTAINER(k, tci_process_wait, link)->for_cleanup && !cleaned)
            continue;
        tci_link_remove(k);
        tci_list_push_back(&due, k);
    }
    for (tci_link *k; (k = tci_list_pop_front(&due)) != NULL;) {
        tci_process_wait *w = TCI_CONTAINER(k, tci_process_wait, link);
        w->cb(w);
    }
}

static void on_exec_started(tci_exec *exec, int rc, const tc_err *err)
{
    tci_process *p = tci_exec_user(exec);
    p->on_started(p, rc, err);
}

static void on_exec_exit(tci_exec *exec)
{
    tell_waits(tci_exec_user(exec), false);
}

/* The session counts the process as live until all are told, so that it cannot be closed, and p freed,
 * by one of the answers. */
static void on_exec_done(tci_exec *exec)
{
    tci_process *p = tci_exec_user(exec);
    tci_session *s = p->session;
    p->is_live = false;
    touch(p);
    tell_waits(p, true);
    p->on_done(p); /* p may be gone after it */
    s->nprocesses--;
    s->device->nprocesses--;
    tci_totals_touch(s->device->totals);
    tci_session_check_closed(s);
    tci_session_unref(s); /* the process's own reference */
}

static int check_capacity(const tci_session *s, tc_err *err)
{
    const tci_limits *l = &s->device->config->limits;
    if (s->nprocesses >= l->max_processes || s->device->nprocesses >= l->max_device_processes ||
        s->processes.nitems >= l->max_process_records ||
        s->device->nprocess_records >= l->max_device_process_records)
        return tc_err_set(err, TC_E_BUSY, "process capacity is unavailable");
    /* Nothing is reserved, but a start that is sure to die of a full spool is refused while it is safe to
     * ask again. */
    uint64_t least = tci_min_u64(2 * l->max_output_bytes_per_stream, SPOOL_LEAST_BYTES);
    if (tci_spool_quota_free_bytes(&s->spool) < (s->nprocesses + 1) * least)
        return tc_err_set(err, TC_E_BUSY, "spool capacity is unavailable");
    return 0;
}

static int make_outputs(tci_process *p, tci_record *record, tc_err *err)
{
    if (output_new(p->session, record, &p->out, err) < 0)
        return err->code;
    return output_new(p->session, record, &p->err, err);
}

static void process_free(tci_process *p)
{
    tci_exec_free(p->exec);
    if (p->handle.len > 0) {
        (void)tci_map_remove(&p->session->processes, p->handle);
        p->session->device->nprocess_records--;
    }
    tci_link_remove(&p->lru);
    unpin(p->session, &p->pinned);
    tci_free(p);
}

static int launch(tci_process *p, const tci_command *cmd, bool must_take_stdin, tc_err *err)
{
    tci_exec_opts o = TCI_EXEC_OPTS_NONE;
    o.program = cmd->program;
    o.argv = cmd->argv;
    o.envp = cmd->envp;
    o.cwd = cmd->cwd;
    o.initial_stdin = cmd->initial_stdin;
    o.keep_stdin_open = cmd->keep_stdin_open;
    o.must_take_stdin = must_take_stdin;
    o.stdin_max_bytes = cmd->stdin_max_bytes;
    o.wall_time_ms = cmd->wall_time_ms;
    o.out = p->out->spool;
    o.err = p->err->spool;
    o.user = p;
    o.on_started = on_exec_started;
    o.on_exit = on_exec_exit;
    o.on_done = on_exec_done;
    return tci_exec_start(p->session->device->commands->execs, &o, &p->exec, err);
}

static int enter(tci_process *p, tc_err *err)
{
    tci_device *d = p->session->device;
    p->handle =
        tci_str_of(p->handle_text, tci_device_handle(d, TCI_HANDLE_PROCESS, p->handle_text));
    if (tci_map_put(&p->session->processes, p->handle, p, err) < 0) {
        p->handle.len = 0;
        return err->code;
    }
    d->nprocess_records++;
    return 0;
}

int tci_process_start(tci_session *s, const tci_command *cmd, bool with_handle, tci_record *record,
                      void *starter, void (*on_started)(tci_process *p, int rc, const tc_err *err),
                      void (*on_done)(tci_process *p), tci_process **ret, tc_err *err)
{
    tci_session_relieve(s->device);
    if (check_capacity(s, err) < 0)
        return err->code;
    tci_process *p = tci_new(tci_process);
    if (p == NULL)
        return tci_err_no_memory(err);
    p->session = s;
    p->starter = starter;
    p->on_started = on_started;
    p->on_done = on_done;
    tci_list_init(&p->waits);
    int rc = make_outputs(p, record, err);
    if (rc == TC_E_QUOTA)
        rc = tc_err_recode(err, TC_E_BUSY);
    if (rc == 0 && with_handle) {
        rc = enter(p, err);
        pin(&p->pinned, record);
    }
    if (rc == 0)
        rc = launch(p, cmd, with_handle, err);
    if (rc < 0) {
        if (p->out != NULL)
            output_drop(p->out);
        if (p->err != NULL)
            output_drop(p->err);
        process_free(p);
        return rc;
    }
    p->is_live = true;
    tci_totals_touch(s->device->totals);
    s->nprocesses++;
    s->device->nprocesses++;
    tci_session_ref(s);
    *ret = p;
    return 0;
}

tci_process *tci_process_find(tci_session *s, tc_str handle)
{
    tci_process *p = tci_map_get(&s->processes, handle);
    if (p != NULL)
        touch(p);
    return p;
}

void tci_process_add_wait(tci_process *p, tci_process_wait *w, void (*cb)(tci_process_wait *w))
{
    w->cb = cb;
    w->process = p;
    tci_list_push_back(&p->waits, &w->link);
}

void tci_process_forget(tci_process *p)
{
    TC_ASSERT(!p->is_live);
    output_detach(p->out);
    output_detach(p->err);
    process_free(p);
}

/* ---- for the session ---- */

void tci_process_end_all(tci_session *s)
{
    size_t at = 0;
    for (tci_process *p; (p = tci_map_next(&s->processes, &at)) != NULL;) {
        if (p->is_live)
            tci_exec_kill(p->exec);
    }
}

void tci_process_forget_all(tci_session *s)
{
    size_t at = 0;
    for (tci_process *p; (p = tci_map_next(&s->processes, &at)) != NULL;)
        tci_process_forget(p);
}

void tci_output_forget_all(tci_session *s)
{
    size_t at = 0;
    for (tci_output *o; (o = tci_map_next(&s->outputs, &at)) != NULL;)
        output_drop(o);
}

int64_t tci_process_expire(tci_session *s, int64_t before_ms)
{
    for (tci_link *k; (k = tci_list_first(&s->process_lru)) != NULL;) {
        tci_process *p = TCI_CONTAINER(k, tci_process, lru);
        if (p->touched_ms >= before_ms)
            return p->touched_ms;
        tci_process_forget(p);
    }
    return -1;
}

int64_t tci_output_expire(tci_session *s, int64_t before_ms)
{
    for (tci_link *k; (k = tci_list_first(&s->output_lru)) != NULL;) {
        tci_output *o = TCI_CONTAINER(k, tci_output, lru);
        if (o->touched_ms >= before_ms)
            return o->touched_ms;
        s->device->outputs_reclaimed++;
        output_drop(o);
    }
    return -1;
}

/* Finished and proved clean; its outputs go with it: that is what makes room. */
bool tci_process_evict(tci_session *s)
{
    TCI_LIST_EACH (&s->process_lru, k) {
        tci_process *p = TCI_CONTAINER(k, tci_process, lru);
        if (tci_exec_status_of(p->exec).cleanup != TCI_EXEC_CLEANUP_COMPLETE)
            continue;
        tci_output *out = p->out, *err = p->err;
        process_free(p);
        output_drop(out);
        output_drop(err);
        s->device->outputs_reclaimed += 2;
        return true;
    }
    return false;
}

bool tci_output_evict(tci_session *s)
{
    TCI_LIST_EACH (&s->output_lru, k) {
        tci_output *o = TCI_CONTAINER(k, tci_output, lru);
        if (!tci_spool_info_of(o->spool).producer_complete)
            continue;
        output_drop(o);
        s->device->outputs_reclaimed++;
        return true;
    }
    return false;
}
