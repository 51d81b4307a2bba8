/* SPDX-License-Identifier: Apache-2.0
 *
 * A call from its caller's side: encoding, handing over, handing out events, waiting, reading the
 * answer, and saying what is known of a change. Leaves the wire to the loop. The caller's thread.
 * Invariant: the evidence is set before any return, and NOT_STARTED is claimed only where it is
 * proved. */
#include "client/pienv/pienv_int.h"

enum { GRACE_MS = 100, EXEC_GRACE_MS = 2000 };

/* ---- words ---- */

tc_code tci_pi_code_of(tc_str word)
{
    static const struct {
        const char *word;
        tc_code code;
    } table[] = {
        {"ENOENT", TC_E_NOT_FOUND},
        {"EACCES", TC_E_DENIED},
        {"EPERM", TC_E_DENIED},
        {"EROFS", TC_E_DENIED},
        {"EINVAL", TC_E_INVALID},
        {"SYMLINK", TC_E_INVALID},
        {"NOT_REGULAR", TC_E_INVALID},
        {"ENAMETOOLONG", TC_E_INVALID},
        {"ELOOP", TC_E_INVALID},
        {"ENOTDIR", TC_E_CONFLICT},
        {"EISDIR", TC_E_CONFLICT},
        {"ERR_FS_EISDIR", TC_E_CONFLICT},
        {"EEXIST", TC_E_CONFLICT},
        {"ENOTEMPTY", TC_E_CONFLICT},
        {"EXDEV", TC_E_CONFLICT},
        {"ETXTBSY", TC_E_CONFLICT},
        {"EBADF", TC_E_BAD_HANDLE},
        {"EBUSY", TC_E_BUSY},
        {"EAGAIN", TC_E_BUSY},
        {"EMFILE", TC_E_BUSY},
        {"ENFILE", TC_E_BUSY},
        {"ENOMEM", TC_E_BUSY},
        {"EFBIG", TC_E_TOO_BIG},
        {"ENOSPC", TC_E_NO_SPACE},
        {"ENOSYS", TC_E_UNSUPPORTED},
        {"ENOTSUP", TC_E_UNSUPPORTED},
        {"not_supported", TC_E_UNSUPPORTED},
        {"aborted", TC_E_CANCELLED},
        {"timeout", TC_E_TIMEOUT},
        {"shell_unavailable", TC_E_START_FAILED},
        {"spawn_error", TC_E_START_FAILED},
    };
    for (size_t i = 0; i < TCI_ARRAY_LEN(table); i++)
        if (tci_str_eq(tci_str(table[i].word), word))
            return table[i].code;
    return TC_E_IO;
}

/* ---- evidence ---- */

static void tell_evidence(tci_pi_call *call, tc_outcome outcome)
{
    tc_evidence *e = &call->result->evidence;
    const tci_pi_error *w = &call->fault.error;
    bool is_change = tci_pi_trait_of(call->op)->is_change;
    tci_result_reset_evidence(call->result, is_change ? outcome : TC_OUTCOME_NONE);
    e->error_type = w->code;
    e->detail = w->syscall;
    e->path = w->path;
    e->spill_path = w->spill_path;
    e->is_lost = call->fault.is_lost;
}

/* Our own words. */
static void set_fault(tci_pi_call *call, const char *word, const tc_err *err, bool is_lost)
{
    tc_str message = {0};
    tc_err ignored;
    if (tc_result_dup(call->result, tci_str(err->msg), &message, &ignored) < 0)
        message = TC_STR(""); /* the error itself has it, too */
    call->fault =
        (tci_pi_fault){.error = {.code = tci_str(word), .message = message}, .is_lost = is_lost};
}

/* ---- beginning ---- */

static int check(const tci_pi_call *call, tc_err *err)
{
    if (call->op <= TCI_PI_HELLO || call->op >= TCI_PI_OP_COUNT || call->result == NULL ||
        call->nparts > TCI_PI_PARTS_MAX)
        return tc_err_set(err, TC_E_INVALID, "a call needs an operation and a result");
    return 0;
}

static void encode(const tci_pi_op *op, const void *params, tci_buf *out)
{
    tci_buf_append_str(out, TC_STR("{\"op\":\""));
    tci_buf_append_str(out, op->name);
    tci_buf_append_byte(out, '"');
    size_t at = out->len;
    tci_proto_encode(op->params, params, out, 0);
    if (!tci_buf_ok(out))
        return;
    if (out->len > at + 2) { /* its fields go on where ours stop */
        out->ptr[at] = ',';
    } else {
        tci_buf_truncate(out, at);
        tci_buf_append_byte(out, '}');
    }
}

static int build(tci_pi_pending *p, const tci_pi_call *call, tc_err *err)
{
    uint64_t payload = 0;
    encode(&tci_pi_ops[call->op], call->params, &p->json);
    int rc = tci_buf_error(&p->json, err);
    if (rc < 0)
        return rc;
    p->out.nparts = 2;
    for (unsigned i = 0; i < call->nparts; i++) {
        if (call->parts[i].len > 0)
            p->out.parts[p->out.nparts++] = call->parts[i];
        payload = tci_min_u64(UINT32_MAX, payload + call->parts[i].len);
    }
    tci_pienv_head head = {.type = TCI_PIENV_REQUEST,
                           .id = p->id,
                           .json_len = (uint32_t)p->json.len,
                           .payload_len = (uint32_t)payload};
    p->out.parts[0] = (tci_iovec){p->head, sizeof p->head};
    p->out.parts[1] = (tci_iovec){p->json.ptr, p->json.len};
    return tci_pienv_head_put(&head, p->head, err);
}

static tci_pi_pending *new_pending(tci_pi *pi, tc_ctx *ctx, tci_pi_call *call)
{
    tci_pi_pending *p = tci_new(tci_pi_pending);
    if (p == NULL)
        return NULL;
    p->pi = pi;
    p->op = call->op;
    p->dst = call->dst_cap > 0 ? call->dst : NULL;
    p->dst_cap = call->dst_cap;
    p->has_notes_wanted = call->on_note != NULL;
    p->refs = 2;                        /* the caller's, and the table's */
    p->is_awaited = call->wake != NULL; /* by whatever else is said with it */
    p->wake = call->wake != NULL ? call->wake : ctx != NULL ? &ctx->wake : &call->in.wake;
    p->start.cb = tci_pi_pending_start;
    p->cancel.cb = tci_pi_pending_cancel;
    p->stop.cb = tci_pi_pending_stop;
    p->resume.cb = tci_pi_pending_resume;
    tci_list_init(&p->notes);
    tci_buf_init(&p->json, TCI_PIENV_LENGTH_MAX);
    return p;
}

/* The session the request goes to, and its number. */
static int choose(tci_pi *pi, tc_ctx *ctx, tci_pi_call *call, tci_pi_pending *p, tc_err *err)
{
    tci_pi_failure *failure = NULL;
    tci_mutex_lock(&pi->lock);
    int rc = 0;
    if (pi->is_closed || pi->state != TCI_PI_LIVE ||
        (call->session != 0 && call->session != pi->facts.session)) {
        tci_mutex_unlock(&pi->lock);
        rc = tci_pi_want_session(pi, ctx, call->session, &failure, err);
        tci_mutex_lock(&pi->lock);
    }
    bool has_ext = pi->facts.has_ext, is_closed = pi->is_closed;
    p->session = pi->facts.session;
    if (++pi->last_id == 0)
        pi->last_id = 1;
    p->id = pi->last_id;
    tci_mutex_unlock(&pi->lock);
    if (failure != NULL) {
        rc = tci_pi_tell_failure(failure, call->result, &call->fault, err);
        tci_pi_failure_release(failure);
    } else if (rc == TC_E_CLOSED) {
        set_fault(call, "unknown", err, call->session != 0 && !is_closed);
    } else if (rc == 0 && !has_ext && (call->needs_ext || tci_pi_ops[call->op].is_ext)) {
        rc = tc_err_set(err, TC_E_UNSUPPORTED, "the daemon over there cannot do that");
        set_fault(call, "not_supported", err, false);
    }
    return rc;
}

static int begin(tci_pi *pi, tc_ctx *ctx, tci_pi_call *call, tci_pi_pending *p, tc_err *err)
{
    int rc = choose(pi, ctx, call, p, err);
    if (rc == 0)
        rc = build(p, call, err);
    if (rc < 0)
        return rc;
    call->id = p->id;
    call->ran_in = p->session;
    if (!tci_runtime_post(pi->rt, &p->start)) {
        rc = tc_err_set(err, TC_E_CLOSED, "the runtime is closed");
        set_fault(call, "unknown", err, false);
    }
    return rc;
}

int tci_pi_begin(tci_pi *pi, tc_ctx *ctx, tci_pi_call *call, tc_err *err)
{
    call->in = (struct tci_pi_inside){.pi = pi, .ctx = ctx};
    call->fault = (tci_pi_fault){.is_lost = false};
    call->payload = (tc_str){0};
    int rc = check(call, err);
    if (rc < 0)
        return rc;
    rc = tci_ctx_check(ctx, err);
    tci_pi_pending *p = rc == 0 ? new_pending(pi, ctx, call) : NULL;
    if (rc == 0 && p == NULL)
        rc = tci_err_no_memory(err);
    if (rc == 0)
        rc = begin(pi, ctx, call, p, err);
    if (rc < 0) {
        if (p != NULL) {
            tci_buf_done(&p->json);
            tci_free(p);
        }
        tell_evidence(call, TC_OUTCOME_NOT_STARTED);
        return rc;
    }
    call->in.pending = p;
    return 0;
}

/* ---- events ---- */

static int read_note(const tci_pi_in *in, tci_pi_note *note, tc_err *err)
{
    *note = (tci_pi_note){
        .is_output = in->is_output,
        .is_stderr = in->is_stderr,
        .payload = tci_str_of(in->text + in->head.json_len, in->head.payload_len),
    };
    if (in->is_output)
        return 0;
    tc_str kind = {0};
    note->json = &in->json;
    if (!tci_json_as_str(tci_json_get(&in->json, TC_STR("kind")), &kind) ||
        !tci_str_eq(kind, TC_STR("output")))
        return 0;
    tci_pi_output_event event = {0};
    if (tci_proto_decode_lenient(&tci_pi_output_event_type, &in->json, &in->held->arena, &event,
                                 err) < 0)
        return err->code;
    note->is_output = true;
    note->is_stderr = event.stream == TCI_PI_STREAM_STDERR;
    note->has_skipped = event.has_skipped;
    note->skipped = event.skipped;
    return 0;
}

static void hand_out(tci_pi_call *call, const tci_pi_in *in)
{
    tci_pi_note note;
    if (call->on_note == NULL || call->in.is_note_failed)
        return;
    int rc = read_note(in, &note, &call->in.note_err);
    if (rc == 0)
        rc = call->on_note(call->user, &note, &call->in.note_err);
    if (rc >= 0)
        return;
    call->in.note_err.code = (tc_code)rc;
    call->in.is_note_failed = true;
    tci_pi_cancel(call, false);
}

/* The lock is held. */
static bool must_resume(tci_pi_pending *p)
{
    if (p->notes_bytes > TCI_PI_NOTES_LOW || p->is_resume_posted || p->is_done)
        return false;
    p->is_resume_posted = true;
    p->refs++;
    return true;
}

/* One event off the queue; false: there is none, and *ret_is_done says whether there will be. */
static bool next_note(tci_pi_pending *p, tci_list *batch, bool *ret_is_done)
{
    tci_pi *pi = p->pi;
    size_t taken = 0;
    tci_mutex_lock(&pi->lock);
    bool was_high = p->notes_bytes > TCI_PI_NOTES_LOW;
    for (tci_link *link;
         taken < TCI_PI_NOTES_LOW / 8 && (link = tci_list_pop_front(&p->notes)) != NULL;) {
        const tci_pi_in *in = TCI_CONTAINER(link, tci_pi_in, link);
        taken += sizeof *in + in->head.json_len + in->head.payload_len;
        tci_list_push_back(batch, link);
    }
    p->notes_bytes -= taken;
    *ret_is_done = p->is_done && tci_list_is_empty(&p->notes);
    bool is_resuming = was_high && must_resume(p);
    tci_mutex_unlock(&pi->lock);
    if (is_resuming && !tci_runtime_post(pi->rt, &p->resume))
        tci_pi_pending_release(p); /* the end of the runtime ends the call, too */
    return taken > 0;
}

bool tci_pi_poll(tci_pi_call *call)
{
    tci_pi_pending *p = call->in.pending;
    bool is_done = false;
    tci_list batch;
    tci_list_init(&batch);
    while (next_note(p, &batch, &is_done))
        for (tci_link *link; (link = tci_list_pop_front(&batch)) != NULL;) {
            tci_pi_in *in = TCI_CONTAINER(link, tci_pi_in, link);
            hand_out(call, in);
            tci_pi_in_free(in);
        }
    return is_done;
}

/* ---- giving up ---- */

/* Post one of the call's posts, which holds a reference until it has run. */
static void post(tci_pi_pending *p, tci_post *what, bool *is_posted)
{
    tci_mutex_lock(&p->pi->lock);
    bool is_needed = !*is_posted && !p->is_done;
    if (is_needed) {
        *is_posted = true;
        p->refs++;
    }
    tci_mutex_unlock(&p->pi->lock);
    if (!is_needed || tci_runtime_post(p->pi->rt, what))
        return;
    tci_mutex_lock(&p->pi->lock);
    *is_posted = false; /* the runtime is closing, which ends the call */
    tci_mutex_unlock(&p->pi->lock);
    tci_pi_pending_release(p);
}

void tci_pi_cancel(tci_pi_call *call, bool is_kill)
{
    tci_pi_pending *p = call->in.pending;
    tci_pi_cancel_kind kind = is_kill ? TCI_PI_KILL : TCI_PI_ABORT;
    tci_mutex_lock(&p->pi->lock);
    bool is_more = kind > p->cancel_wanted;
    if (is_more)
        p->cancel_wanted = kind;
    tci_mutex_unlock(&p->pi->lock);
    if (is_more)
        post(p, &p->cancel, &p->is_cancel_posted);
}

static void stop(tci_pi_call *call, const tc_err *why)
{
    tci_pi_pending *p = call->in.pending;
    if (call->in.is_stopped)
        return;
    call->in.is_stopped = true;
    p->stop_err = *why;
    post(p, &p->stop, &p->is_stop_posted);
}

/* ---- waiting ---- */

static int64_t grace_of(const tci_pi_call *call)
{
    return call->grace_ms > 0 ? call->grace_ms : call->op == TCI_PI_EXEC ? EXEC_GRACE_MS : GRACE_MS;
}

/* Why nobody wants to wait any longer, if so. */
static bool is_wanted_no_more(const tci_pi_call *call, tc_err *ret_why)
{
    if (call->in.is_note_failed) {
        *ret_why = call->in.note_err;
        return true;
    }
    return tci_ctx_check(call->in.ctx, ret_why) < 0;
}

/* false: it ended meanwhile. Otherwise whatever comes from here on wakes. */
static bool go_to_sleep(tci_pi_pending *p)
{
    tci_mutex_lock(&p->pi->lock);
    p->is_awaited = true;
    bool is_over = p->is_done && tci_list_is_empty(&p->notes);
    tci_mutex_unlock(&p->pi->lock);
    return !is_over;
}

/* Until the loop has ended the call. */
static void wait_call(tci_pi_call *call, tc_err *ret_why)
{
    tci_pi_pending *p = call->in.pending;
    int64_t deadline = tci_ctx_deadline_ns(call->in.ctx);
    bool is_ending = call->in.is_stopped;
    for (;;) {
        unsigned seen = tci_wake_count(p->wake);
        if (tci_pi_poll(call) || !go_to_sleep(p))
            return;
        if (!is_ending && is_wanted_no_more(call, ret_why)) {
            is_ending = true;
            tci_pi_cancel(call, false);
            deadline = tci_add_ns(tci_clock_mono_ns(), tci_ms_to_ns((uint64_t)grace_of(call)));
        } else if (is_ending && tci_clock_mono_ns() >= deadline) {
            stop(call, ret_why);
            deadline = 0;
        }
        tci_wake_wait_bits(p->wake, seen, tci_wake_bit(p->id), deadline);
    }
}

/* ---- what came ---- */

static int take_error(tci_pi_call *call, const tci_pi_in *in, const tc_err *why, tc_err *err)
{
    tci_pi_error *w = &call->fault.error;
    tc_err ignored;
    if (tci_proto_decode_lenient(&tci_pi_error_type, &in->json, &in->held->arena, w, &ignored) < 0)
        *w = (tci_pi_error){.code = TC_STR("unknown")};
    tell_evidence(call, TC_OUTCOME_DONE);
    bool is_ours = why->code != TC_OK && tci_str_eq(w->code, TC_STR("aborted"));
    tc_code code = is_ours ? why->code : tci_pi_code_of(w->code);
    return tc_err_set(err, code, "%.*s", TC_STR_ARG(w->message.len > 0 ? w->message : w->code));
}

static int take_result(tci_pi_call *call, const tci_pi_in *in, bool is_in_dst, tc_err *err)
{
    const tci_pi_op *op = &tci_pi_ops[call->op];
    const char *payload = is_in_dst ? call->dst : in->text + in->head.json_len;
    call->payload = tci_str_of(payload, in->head.payload_len);
    tell_evidence(call, TC_OUTCOME_DONE);
    if (call->reply == NULL ||
        tci_proto_decode_lenient(op->result, &in->json, &in->held->arena, call->reply, err) == 0)
        return 0;
    if (err->code == TC_E_NO_MEMORY || err->code == TC_E_TOO_BIG)
        return err->code;
    tc_err_wrap(err, "the daemon's answer to %.*s makes no sense", TC_STR_ARG(op->name));
    tc_err_recode(err, TC_E_PROTOCOL);
    set_fault(call, "unknown", err, false);
    tell_evidence(call, TC_OUTCOME_UNKNOWN);
    return TC_E_PROTOCOL;
}

static int no_answer(tci_pi_call *call, const tci_pi_pending *p, tc_err *err)
{
    bool is_change = tci_pi_trait_of(call->op)->is_change;
    *err = p->err;
    if (p->is_lost || err->code == TC_E_CLOSED)
        set_fault(call, "unknown", err, p->is_lost);
    else if (err->code == TC_E_CANCELLED || err->code == TC_E_TIMEOUT)
        set_fault(call, "aborted", err, false);
    tell_evidence(call, p->is_unsent ? TC_OUTCOME_NOT_STARTED : TC_OUTCOME_UNKNOWN);
    if (!is_change || p->is_unsent || err->code == TC_E_PROTOCOL || err->code == TC_E_OUTPUT_LIMIT)
        return err->code;
    return tc_err_recode(err, TC_E_UNKNOWN_OUTCOME);
}

static int take_answer(tci_pi_call *call, tci_pi_pending *p, const tc_err *why, tc_err *err)
{
    tci_pi_in *in = p->answer;
    if (in == NULL)
        return no_answer(call, p, err);
    p->answer = NULL;
    tci_result_keep_own(call->result, in->held);
    return in->head.type == TCI_PIENV_ERROR ? take_error(call, in, why, err)
                                            : take_result(call, in, p->is_in_dst, err);
}

static int end(tci_pi_call *call, const tc_err *why, tc_err *err)
{
    tci_pi_pending *p = call->in.pending;
    /* Cancelled before it was sent, on account of ctx: say which way it ended. */
    if (p->answer == NULL && p->err.code == TC_E_CANCELLED && why->code != TC_OK)
        p->err = *why;
    int rc = take_answer(call, p, why, err);
    if (call->in.is_note_failed) {
        *err = call->in.note_err;
        rc = err->code;
    }
    call->in.pending = NULL;
    tci_mutex_lock(&p->pi->lock);
    p->wake = NULL;
    tci_mutex_unlock(&p->pi->lock);
    tci_pi_pending_release(p);
    return rc;
}

int tci_pi_wait(tci_pi_call *call, tc_err *err)
{
    tc_err why = {.code = TC_OK};
    wait_call(call, &why);
    return end(call, &why, err);
}

void tci_pi_drop(tci_pi_call *call)
{
    tc_err why, err;
    tc_err_set(&why, TC_E_CANCELLED, "given up");
    call->in.is_note_failed = true; /* no more events */
    call->in.note_err = why;
    stop(call, &why);
    wait_call(call, &why);
    (void)end(call, &why, &err); /* nobody wants to know; the evidence is set */
}

int tci_pi_do(tci_pi *pi, tc_ctx *ctx, tci_pi_call *call, tc_err *err)
{
    int rc = tci_pi_begin(pi, ctx, call, err);
    return rc < 0 ? rc : tci_pi_wait(call, err);
}
