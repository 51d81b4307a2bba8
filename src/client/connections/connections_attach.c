/* SPDX-License-Identifier: Apache-2.0
 *
 * The threads of an accepted socket: the one that calls attach sends, and waits for the end; one of ours
 * receives. Leaves the connection to the loop (connections_socket.c), with queues under a lock between
 * them.
 *
 * Invariant: as long as one of the threads may come to the loop, the arrival counts as busy, so that the
 * loop lives; the last that they do is to post `gone`. A message counts as out from the moment the
 * sender took it. */
#include "client/connections/connections_socket.h"

#include "base/utf8.h"

enum {
    READER_STACK_BYTES = 512 * 1024,
    CONTROL_RUN_MAX = 8,
    SLOW_BYTES_PER_MS = 16,
    INCOMING_MAX = 64,
    INCOMING_BYTES_MAX = 8 * 1024 * 1024
};

/* ---- towards the loop: any thread, with the lock held ---- */

static void post_news(tci_socket_link *l)
{
    if (l->is_news_posted)
        return;
    l->is_news_posted = true;
    tci_loop_post(l->arrival.messages.base.rt->loop, &l->news);
}

static void fail_locked(tci_socket_link *l, const tc_err *err)
{
    if (l->has_failed)
        return;
    l->has_failed = true;
    l->err = *err;
    post_news(l);
}

/* ---- receiving: the reader's thread ---- */

static int take_message(tci_socket_link *l, tc_message_kind kind, tc_str bytes, tci_incoming **ret,
                        tc_err *err)
{
    tci_conn *c = &l->arrival.messages.base;
    bool is_text = kind == TC_MESSAGE_TEXT;
    uint64_t max = atomic_load(is_text ? &c->max_response_bytes : &c->max_frame_bytes);
    if (!is_text && kind != TC_MESSAGE_BINARY)
        return tc_err_set(err, TC_E_INVALID, "the socket received a message that is of no kind");
    if (bytes.len > max)
        return tc_err_set(err, TC_E_PROTOCOL,
                          "the daemon broke the protocol: a message over the limit of %llu bytes",
                          (unsigned long long)max);
    if (is_text && !tci_utf8_is_valid(bytes))
        return tc_err_set(err, TC_E_PROTOCOL,
                          "the daemon broke the protocol: a text message that is not UTF-8");
    tci_incoming *in = tci_new(tci_incoming);
    if (in == NULL)
        return tci_err_no_memory(err);
    in->len = bytes.len;
    if (is_text)
        in->control = tci_held_of(bytes);
    else
        in->data = tci_block_new(bytes.len, 0);
    if (in->control == NULL && in->data == NULL) {
        tci_free(in);
        return tci_err_no_memory(err);
    }
    if (in->data != NULL && bytes.len > 0)
        memcpy(in->data->bytes, bytes.ptr, bytes.len);
    *ret = in;
    return 0;
}

/* Hand it to the loop, when that has taken enough of what came before. */
static void give_message(tci_socket_link *l, tci_incoming *in)
{
    for (;;) {
        unsigned seen = tci_wake_count(&l->room);
        tci_mutex_lock(&l->lock);
        bool has_room =
            l->is_ending || l->nincoming == 0 ||
            (l->nincoming < INCOMING_MAX && l->incoming_bytes + in->len <= INCOMING_BYTES_MAX);
        if (has_room) {
            l->nincoming++;
            l->incoming_bytes += in->len;
            tci_list_push_back(&l->incoming, &in->link);
            post_news(l);
        }
        tci_mutex_unlock(&l->lock);
        if (has_room)
            return;
        tci_wake_wait(&l->room, seen, 0);
    }
}

static void reader_main(void *arg)
{
    tci_socket_link *l = arg;
    tc_err err;
    for (;;) {
        tc_message_kind kind = TC_MESSAGE_TEXT;
        tc_str bytes = {0};
        tci_incoming *in = NULL;
        int rc = l->socket.receive(l->socket.user, &kind, &bytes, &err);
        if (rc == 0)
            rc = take_message(l, kind, bytes, &in, &err);
        if (rc < 0)
            break;
        give_message(l, in);
    }
    tci_mutex_lock(&l->lock);
    fail_locked(l, &err);
    tci_mutex_unlock(&l->lock);
}

/* ---- sending: the thread of attach ---- */

/* How long a send may take. The socket does not tell how far it has got, so a long message gets the time that
 * a slow link needs for it. */
static int64_t limit_of(const tci_socket_link *l, const tci_out *out)
{
    uint64_t ms = (uint64_t)l->arrival.registry->times.send_timeout_ms;
    for (unsigned i = 0; i < out->nparts; i++)
        ms += out->parts[i].len / SLOW_BYTES_PER_MS;
    return tci_ms_to_ns(ms);
}

/* The next to go: control first, but data gets its turn. With the lock held. */
static tci_out *pick(tci_socket_link *l)
{
    tci_list *from = &l->control;
    if (l->is_halted)
        return NULL;
    if (tci_list_is_empty(&l->control) ||
        (l->ncontrol_in_a_row >= CONTROL_RUN_MAX && !tci_list_is_empty(&l->data)))
        from = &l->data;
    tci_link *first = tci_list_pop_front(from);
    if (first == NULL)
        return NULL;
    l->ncontrol_in_a_row = from == &l->control ? l->ncontrol_in_a_row + 1 : 0;
    tci_out *out = TCI_CONTAINER(first, tci_out, link);
    out->nsent = 1;
    l->current = out;
    l->current_since_ns = tci_clock_mono_ns();
    l->current_limit_ns = limit_of(l, out);
    return out;
}

static void send_one(tci_socket_link *l, tci_out *out)
{
    tc_str parts[TC_SOCKET_PARTS_MAX];
    tc_err err;
    for (unsigned i = 0; i < out->nparts; i++)
        parts[i] = tci_str_of(out->parts[i].ptr, out->parts[i].len);
    tc_message_kind kind = out->is_control ? TC_MESSAGE_TEXT : TC_MESSAGE_BINARY;
    int rc = l->socket.send(l->socket.user, kind, parts, out->nparts, &err);
    tci_mutex_lock(&l->lock);
    l->current = NULL;
    tci_list_push_back(&l->sent, &out->link); /* it may have left even when that failed */
    if (rc < 0) {
        l->is_halted = true;
        fail_locked(l, &err);
    }
    post_news(l);
    tci_mutex_unlock(&l->lock);
}

/* Until the loop says that the end has begun. */
static void send_all(tci_socket_link *l, const tci_attach_call *call)
{
    bool is_asked = false;
    for (;;) {
        unsigned seen = tci_wake_count(call->wake);
        tc_err err;
        bool is_over_time = !is_asked && tci_ctx_check(call->ctx, &err) < 0;
        tci_mutex_lock(&l->lock);
        bool is_ending = l->is_ending;
        if (is_over_time && !is_ending) {
            l->is_stopped_by_ctx = is_asked = true;
            post_news(l);
        }
        tci_out *out = is_ending ? NULL : pick(l);
        tci_mutex_unlock(&l->lock);
        if (is_ending)
            return;
        if (out != NULL)
            send_one(l, out);
        else
            tci_wake_wait(call->wake, seen, is_asked ? 0 : tci_ctx_deadline_ns(call->ctx));
    }
}

/* ---- attach ---- */

/* Not taken: it is closed all the same. */
static int refuse(const tc_socket *socket, int code, const tc_err *err)
{
    socket->close(socket->user, tci_close_code_of(code), tci_str(err->msg));
    socket->wait(socket->user);
    return code;
}

static int check_socket(const tc_socket *s, tc_err *err)
{
    if (s == NULL || s->size < sizeof *s || s->subprotocol == NULL || s->receive == NULL ||
        s->send == NULL || s->close == NULL || s->wait == NULL)
        return tc_err_set(err, TC_E_INVALID, "a socket needs its size and five functions");
    return 0;
}

static int check_subprotocol(const tc_socket *s, tc_err *err)
{
    tc_str name = s->subprotocol(s->user);
    if (tci_str_eq(name, TC_STR(TC_WEBSOCKET_SUBPROTOCOL)))
        return 0;
    return tc_err_set(err, TC_E_INCOMPATIBLE,
                      "the socket's subprotocol is '%.*s', not " TC_WEBSOCKET_SUBPROTOCOL,
                      TC_STR_ARG(name));
}

/* The socket is closed, and the reader comes home. */
static void wait_closed(tci_socket_link *l, const tci_attach_call *call)
{
    for (;;) {
        unsigned seen = tci_wake_count(call->wake);
        tci_mutex_lock(&l->lock);
        bool is_closed = l->is_closed;
        tci_mutex_unlock(&l->lock);
        if (is_closed)
            break;
        tci_wake_wait(call->wake, seen, 0);
    }
    tci_thread_join(l->reader);
    l->reader = NULL;
    l->socket.wait(l->socket.user);
}

static int wait_over(tc_connections *c, tci_attach_call *call, tc_err *err)
{
    for (;;) {
        unsigned seen = tci_wake_count(call->wake);
        tci_mutex_lock(&c->lock);
        bool is_over = call->is_over;
        tci_mutex_unlock(&c->lock);
        if (is_over)
            break;
        tci_wake_wait(call->wake, seen, 0);
    }
    if (call->code < 0)
        *err = call->err;
    return call->code;
}

int tc_connections_attach(tc_connections *c, tc_ctx *ctx, tc_str device_id, const tc_socket *socket,
                          tc_err *err)
{
    tci_attach_call call = {.ctx = ctx, .wake = tci_ctx_wake(ctx)};
    tci_socket_link *l = NULL;
    if (call.wake == NULL)
        call.wake = &call.own_wake;
    int rc = check_socket(socket, err);
    if (rc < 0)
        return rc;
    rc = check_subprotocol(socket, err);
    if (rc == 0)
        rc = tci_socket_link_open(c, device_id, socket, &call, &l, err);
    if (rc < 0)
        return refuse(socket, rc, err);
    rc = tci_thread_new(reader_main, l, READER_STACK_BYTES, &l->reader, err);
    if (rc < 0) { /* it ends in good order all the same */
        tci_mutex_lock(&l->lock);
        fail_locked(l, err);
        tci_mutex_unlock(&l->lock);
    }
    tci_connections_retain(c);
    send_all(l, &call);
    wait_closed(l, &call);
    tci_loop_post(c->rt->loop, &l->gone);
    rc = wait_over(c, &call, err);
    tci_connections_release(c);
    return rc;
}
