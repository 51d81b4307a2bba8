/* SPDX-License-Identifier: Apache-2.0
 *
 * Results, errors and events as frames in one of the two queues. Leaves writing them to pienv.c. Loop
 * thread.
 *
 * Small frames of the control queue are made in place, many in one buffer. A frame of the bulk queue
 * has a buffer of its own, since a control frame may go between any two of them.
 *
 * Invariant: what is queued is whole frames within the limit of the protocol. */
#include "daemon/pienv/pienv_path_int.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

enum { BATCH_BYTES = 64 * 1024 };

typedef struct draft {
    tci_pi_server *server;
    tci_pi_frame *frame;
    size_t at; /* where the head lies */
} draft;

/* ---- frames ---- */

static void no_memory(tci_pi_server *s)
{
    tci_pi_end_with(s, TCI_PI_END_BROKEN, "out of memory"); /* an unanswered request would hang */
}

static tci_pi_frame *new_frame(tci_pi_server *s, bool is_bulk)
{
    tci_pi_frame *f = tci_new(tci_pi_frame);
    if (f == NULL)
        return NULL;
    f->is_bulk = is_bulk;
    tci_buf_init(&f->bytes, TCI_BUF_MAX);
    tci_buf_init(&f->payload, TCI_BUF_MAX);
    tci_list_push_back(is_bulk ? &s->bulk : &s->control, &f->link);
    return f;
}

void tci_pi_frame_drop(tci_pi_server *s, tci_pi_frame *f, bool was_sent)
{
    tci_pi_delivery *d = f->delivery;
    tci_link_remove(&f->link);
    s->out_bytes -= f->bytes.len + f->payload.len;
    if (f->is_bulk)
        s->bulk_payload -= f->payload.len;
    tci_buf_done(&f->bytes);
    if (f->payload.cap == TCI_PI_BLOCK_BYTES)
        tci_pi_block_free(s, f->payload.ptr, f->payload.cap);
    else
        tci_buf_done(&f->payload);
    tci_free(f);
    if (d == NULL)
        return;
    d->frame = NULL;
    d->on_written(d, was_sent);
}

static tci_pi_frame *open_batch(tci_pi_server *s)
{
    if (!tci_list_is_empty(&s->control)) {
        tci_pi_frame *last = TCI_CONTAINER(s->control.head.prev, tci_pi_frame, link);
        if (!last->is_sealed && last->bytes.len < BATCH_BYTES)
            return last;
    }
    return new_frame(s, false);
}

/* Begin a frame: room for its head. Then its JSON is appended to what is returned. */
static tci_buf *begin(tci_pi_server *s, tci_pi_queue queue, draft *d)
{
    tci_pi_frame *f = queue == TCI_PI_BULK ? new_frame(s, true) : open_batch(s);
    if (f == NULL)
        return NULL;
    *d = (draft){.server = s, .frame = f, .at = f->bytes.len};
    if (tci_buf_reserve(&f->bytes, TCI_PIENV_HEAD_BYTES) != NULL)
        tci_buf_commit(&f->bytes, TCI_PIENV_HEAD_BYTES);
    return &f->bytes;
}

/* Nothing of it was begun. */
static void cancel(draft *d)
{
    tci_buf *b = &d->frame->bytes;
    tci_buf_truncate(b, d->at <= b->len ? d->at : b->len);
    b->failed = TC_OK;
    if (d->at == 0) {
        tci_link_remove(&d->frame->link);
        tci_buf_done(b);
        tci_free(d->frame);
    }
}

/* Put the head in front and take the payload over. A payload that is small goes along with the rest. */
static int finish(draft *d, tci_pienv_type type, uint32_t id, tci_buf *payload, tc_err *err)
{
    tci_pi_frame *f = d->frame;
    tci_buf *b = &f->bytes;
    size_t len = payload != NULL ? payload->len : 0;
    if (len > 0 && len <= TCI_PI_INLINE_PAYLOAD && !f->is_bulk)
        tci_buf_append(b, payload->ptr, len);
    if (!tci_buf_ok(b)) {
        cancel(d);
        return tci_err_no_memory(err);
    }
    size_t copied = len <= TCI_PI_INLINE_PAYLOAD && !f->is_bulk ? len : 0;
    size_t json_len = b->len - d->at - TCI_PIENV_HEAD_BYTES - copied;
    tci_pienv_head head = {.type = (uint8_t)type, .id = id};
    int rc = 0;
    if (json_len > TCI_PIENV_LENGTH_MAX || len > TCI_PIENV_LENGTH_MAX)
        rc = tc_err_set(err, TC_E_TOO_BIG, "a frame of more than %d bytes", TCI_PIENV_LENGTH_MAX);
    head.json_len = (uint32_t)json_len;
    head.payload_len = (uint32_t)len;
    if (rc == 0)
        rc = tci_pienv_head_put(&head, b->ptr + d->at, err);
    if (rc < 0) {
        cancel(d);
        return rc;
    }
    d->server->out_bytes += b->len - d->at;
    if (len > copied) {
        f->payload = *payload;
        f->is_sealed = true;
        tci_buf_init(payload, payload->max);
        d->server->out_bytes += len;
        d->server->bulk_payload += f->is_bulk ? len : 0;
    }
    tci_pi_want_flush(d->server);
    return 0;
}

/* ---- frames of no request ---- */

void tci_pi_send_plain(tci_pi_server *s, tc_str bytes)
{
    tci_pi_frame *f = open_batch(s);
    if (f != NULL)
        tci_buf_append_str(&f->bytes, bytes);
    if (f == NULL || !tci_buf_ok(&f->bytes)) {
        no_memory(s);
        return;
    }
    s->out_bytes += bytes.len;
    tci_pi_want_flush(s);
}

void tci_pi_send_frame(tci_pi_server *s, tci_pi_queue queue, tci_pienv_type type, tc_str json,
                       tci_buf *payload)
{
    tc_err err;
    draft d;
    tci_buf *b = s->is_ended ? NULL : begin(s, queue, &d);
    int rc = b == NULL ? (int)TC_E_NO_MEMORY : 0;
    if (b != NULL) {
        tci_buf_append_str(b, json);
        rc = finish(&d, type, 0, payload, &err);
    }
    if (rc < 0 && !s->is_ended)
        no_memory(s);
    if (payload != NULL)
        tci_buf_done(payload);
}

/* ---- answers ---- */

static void answer_failure(tci_pi_req *r, const tci_pi_failure *f)
{
    tc_err err;
    draft d;
    tci_pi_server *s = r->server;
    tci_buf *b = begin(s, r->is_bulk ? TCI_PI_BULK : TCI_PI_CONTROL, &d);
    if (b == NULL) {
        no_memory(s);
        return;
    }
    tci_pi_put_failure(b, f);
    int rc = finish(&d, TCI_PIENV_ERROR, r->id, NULL, &err);
    if (rc == TC_E_TOO_BIG) { /* of a path of many megabytes: the code alone */
        tci_pi_failure brief = {
            .os = f->os, .code = f->code, .message = TC_STR("too long to tell")};
        answer_failure(r, &brief);
    } else if (rc < 0) {
        no_memory(s);
    }
}

static int answer(tci_pi_req *r, const tci_type *type, const void *result, tci_buf *payload,
                  tc_err *err)
{
    draft d;
    bool is_large = payload != NULL && payload->len > TCI_PI_CONTROL_PAYLOAD;
    tci_pi_queue queue = r->is_bulk || is_large ? TCI_PI_BULK : TCI_PI_CONTROL;
    tci_buf *b = begin(r->server, queue, &d);
    if (b == NULL)
        return tci_err_no_memory(err);
    if (type != NULL)
        tci_proto_encode(type, result, b, 0);
    else
        tci_buf_append_str(b, TC_STR("{}"));
    return finish(&d, TCI_PIENV_RESULT, r->id, payload, err);
}

/* A closed request is freed by whoever closed it. */
static void done_with(tci_pi_req *r)
{
    if (!r->is_closed)
        tci_pi_req_free(r);
}

void tci_pi_reply(tci_pi_req *r, const tci_type *type, const void *result, tci_buf *payload)
{
    tc_err err;
    TC_ASSERT(!r->is_parked);
    if (!r->is_closed) {
        int rc = answer(r, type, result, payload, &err);
        if (rc == TC_E_TOO_BIG) {
            tci_pi_failure f = {.os = EFBIG, .message = TC_STR("EFBIG: the answer is too large")};
            answer_failure(r, &f);
        } else if (rc < 0) {
            no_memory(r->server);
        }
    }
    if (payload != NULL)
        tci_buf_done(payload);
    done_with(r);
}

void tci_pi_fail(tci_pi_req *r, const tci_pi_failure *f)
{
    TC_ASSERT(!r->is_parked);
    if (!r->is_closed)
        answer_failure(r, f);
    done_with(r);
}

void tci_pi_fail_os(tci_pi_req *r, int os, const char *syscall, tc_str path)
{
    tci_pi_fail(r, &(tci_pi_failure){.os = os, .syscall = syscall, .path = path});
}

void tci_pi_fail_code(tci_pi_req *r, const char *code, const char *fmt, ...)
{
    char text[TC_ERR_MSG_MAX];
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    tc_str message = n < 0 ? tci_str(code) : tci_str(text);
    tci_pi_fail(r, &(tci_pi_failure){.code = code, .message = message});
}

void tci_pi_finish(tci_pi_req *r)
{
    if (tci_pi_has_failed(r))
        tci_pi_fail(r, &r->failure);
    else
        tci_pi_reply(r, r->result_type, r->result, &r->out);
}

/* ---- events ---- */

int tci_pi_event(tci_pi_req *r, tci_pi_queue queue, tc_str json, tci_buf *payload,
                 tci_pi_delivery *delivery, tc_err *err)
{
    draft d;
    int rc = 0;
    if (!r->is_closed) {
        tci_buf *b = begin(r->server, queue, &d);
        if (b != NULL)
            tci_buf_append_str(b, json);
        rc = b != NULL ? finish(&d, TCI_PIENV_EVENT, r->id, payload, err) : tci_err_no_memory(err);
        if (rc == 0 && delivery != NULL) {
            d.frame->is_sealed = true; /* its end is the end of what was waited for */
            d.frame->delivery = delivery;
            delivery->frame = d.frame;
        }
    } else {
        rc = tc_err_set(err, TC_E_CLOSED, "the connection is over");
    }
    if (payload != NULL)
        tci_buf_done(payload);
    return rc;
}

void tci_pi_delivery_forget(tci_pi_delivery *d)
{
    if (d->frame != NULL)
        d->frame->delivery = NULL;
    d->frame = NULL;
}

/* ---- back-pressure ---- */

bool tci_pi_bulk_is_full(const tci_pi_server *s)
{
    return s->bulk_payload > TCI_PI_BULK_MAX;
}

void tci_pi_bulk_wait(tci_pi_server *s, tci_pi_room *room)
{
    if (!tci_link_is_in(&room->link))
        tci_list_push_back(&s->rooms, &room->link);
}

void tci_pi_bulk_forget(tci_pi_room *room)
{
    tci_link_remove(&room->link);
}
