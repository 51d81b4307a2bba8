/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages by somebody's blocking socket, the loop's side: what the threads bring (connections_attach.c),
 * what they are to send, and the end. Closing is a job, since it may take a moment. Leaves the
 * connection itself to connections_arrival.c. Loop thread. Invariant: nothing of the program's is called
 * from here but in that job. */
#include "client/connections/connections_socket.h"

enum { LOOK_MS = 500 }; /* how often a send that does not return is looked at, at least */

static tci_socket_link *link_of(tci_messages *m)
{
    return TCI_CONTAINER(tci_arrival_of(m), tci_socket_link, arrival);
}

/* ---- the loop: news ---- */

static void free_incoming(tci_incoming *in)
{
    tci_held_free(in->control);
    tci_free(in->data);
    tci_free(in);
}

static void handle(tci_socket_link *l, tci_incoming *in)
{
    tci_messages *m = &l->arrival.messages;
    tci_held *control = in->control;
    tci_block *data = in->data;
    size_t len = in->len;
    tc_err err;
    int rc;
    if (m->base.is_dead) {
        free_incoming(in);
        return;
    }
    tci_free(in);
    if (control != NULL)
        rc = tci_messages_control_own(m, control, &err);
    else
        rc = tci_messages_data_own(m, tci_str_of(data->bytes, len), data, &err);
    if (rc < 0)
        tci_messages_fail(m, &err);
}

/* What was sent is done before what came after it is looked at. */
static void tell_sent(tci_socket_link *l)
{
    for (;;) {
        tci_mutex_lock(&l->lock);
        tci_link *link = tci_list_pop_front(&l->sent);
        tci_mutex_unlock(&l->lock);
        if (link == NULL)
            return;
        tci_out *out = TCI_CONTAINER(link, tci_out, link);
        out->done(out, true);
    }
}

static tci_incoming *next_incoming(tci_socket_link *l)
{
    tci_mutex_lock(&l->lock);
    tci_link *link = tci_list_pop_front(&l->incoming);
    tci_incoming *in = link != NULL ? TCI_CONTAINER(link, tci_incoming, link) : NULL;
    if (in != NULL) {
        l->nincoming--;
        l->incoming_bytes -= in->len;
        tci_wake_all(&l->room);
    }
    tci_mutex_unlock(&l->lock);
    return in;
}

/* The link ended by itself; or the program wants its end. */
static void check_end(tci_socket_link *l)
{
    tci_mutex_lock(&l->lock);
    bool has_failed = l->has_failed, is_stopped = l->is_stopped_by_ctx;
    tc_err err = l->err;
    tci_mutex_unlock(&l->lock);
    if (is_stopped) {
        tc_err why;
        if (tci_ctx_check(l->call->ctx, &why) < 0)
            tci_conn_fail(&l->arrival.messages.base, &why);
    }
    if (!has_failed || l->arrival.messages.base.is_dead)
        return;
    if (err.code != TC_E_PROTOCOL && err.code != TC_E_NO_MEMORY && err.code != TC_E_INVALID)
        tc_err_recode(&err, TC_E_CLOSED);
    if (err.code == TC_E_CLOSED)
        tci_arrival_lost(&l->arrival, &err);
    else
        tci_conn_fail(&l->arrival.messages.base, &err);
}

static void on_news(tci_post *post)
{
    tci_socket_link *l = TCI_CONTAINER(post, tci_socket_link, news);
    tci_mutex_lock(&l->lock);
    l->is_news_posted = false;
    tci_mutex_unlock(&l->lock);
    tell_sent(l);
    for (tci_incoming *in; (in = next_incoming(l)) != NULL;) {
        tell_sent(l);
        handle(l, in);
    }
    tell_sent(l);
    check_end(l);
}

/* ---- the loop: the link ---- */

static int64_t look_ms(const tci_socket_link *l)
{
    int64_t send_ms = l->arrival.registry->times.send_timeout_ms;
    return send_ms < 4 * LOOK_MS ? send_ms / 4 + 1 : LOOK_MS;
}

static void socket_put(tci_messages *m, tci_out *out)
{
    tci_socket_link *l = link_of(m);
    tc_err err;
    if (m->base.is_dead) {
        out->done(out, false);
        return;
    }
    tci_mutex_lock(&l->lock);
    tci_list_push_back(out->is_control ? &l->control : &l->data, &out->link);
    tci_mutex_unlock(&l->lock);
    tci_wake_all(l->call->wake);
    /* Without memory for a timer a send that hangs is noticed later. */
    if (!tci_timer_is_armed(&l->look) && tci_timer_start(&l->look, look_ms(l), &err) < 0)
        return;
}

/* Is a send not returning, or the context over while one is under way? */
static void on_look(tci_timer *t)
{
    tci_socket_link *l = TCI_CONTAINER(t, tci_socket_link, look);
    tc_err err;
    tci_mutex_lock(&l->lock);
    bool is_sending = l->current != NULL;
    bool has_more = !tci_list_is_empty(&l->control) || !tci_list_is_empty(&l->data);
    int64_t since_ns = l->current_since_ns, limit_ns = l->current_limit_ns;
    tci_mutex_unlock(&l->lock);
    int rc = tci_ctx_check(l->call->ctx, &err);
    if (rc == 0 && is_sending && tci_clock_mono_ns() - since_ns >= limit_ns)
        rc = tc_err_set(&err, TC_E_TIMEOUT, "the daemon takes no messages");
    if (rc == 0 && (is_sending || has_more))
        rc = tci_timer_start(t, look_ms(l), &err);
    if (rc < 0)
        tci_conn_fail(&l->arrival.messages.base, &err);
}

static tci_progress socket_progress(tci_messages *m, const tci_out *out)
{
    tci_socket_link *l = link_of(m);
    tci_mutex_lock(&l->lock);
    bool is_taken = out->nsent > 0;
    tci_mutex_unlock(&l->lock);
    return is_taken ? TCI_PROGRESS_ALL : TCI_PROGRESS_NONE;
}

static bool socket_take_back(tci_messages *m, tci_out *out)
{
    tci_socket_link *l = link_of(m);
    tci_mutex_lock(&l->lock);
    bool is_taken = out->nsent > 0;
    if (!is_taken)
        tci_link_remove(&out->link);
    tci_mutex_unlock(&l->lock);
    if (!is_taken)
        out->done(out, false);
    return !is_taken;
}

static void socket_halt(tci_messages *m)
{
    tci_socket_link *l = link_of(m);
    tci_mutex_lock(&l->lock);
    l->is_halted = true;
    tci_mutex_unlock(&l->lock);
}

static void drop(tci_list *list)
{
    for (tci_link *link; (link = tci_list_pop_front(list)) != NULL;) {
        tci_out *out = TCI_CONTAINER(link, tci_out, link);
        out->done(out, false);
    }
}

static void close_work(tci_job *job)
{
    tci_socket_link *l = TCI_CONTAINER(job, tci_socket_link, close);
    tc_err *why = &l->arrival.messages.base.fail; /* does not change any more */
    bool is_plain = l->arrival.is_peer_end;
    l->socket.close(l->socket.user, tci_arrival_close_code(&l->arrival),
                    is_plain ? TC_STR("") : tci_str(why->msg));
    tci_mutex_lock(&l->lock);
    l->is_closed = true;
    tci_mutex_unlock(&l->lock);
    tci_wake_all(l->call->wake);
}

static void close_done(tci_job *job)
{
    tci_socket_link *l = TCI_CONTAINER(job, tci_socket_link, close);
    tci_arrival_part_done(&l->arrival);
}

static void socket_stop(tci_messages *m)
{
    tci_socket_link *l = link_of(m);
    if (!tci_arrival_stopping(&l->arrival))
        return;
    tci_timer_stop(&l->look);
    drop(&l->control); /* the sender has halted */
    drop(&l->data);
    tci_mutex_lock(&l->lock);
    l->is_ending = true;
    tci_mutex_unlock(&l->lock);
    tci_wake_all(l->call->wake);
    tci_wake_all(&l->room);
    l->arrival.nparts++;
    l->close = (tci_job){.work = close_work, .done = close_done};
    tci_job_submit(m->base.rt->loop, TCI_JOB_BULK, &l->close);
}

static void socket_free(tci_messages *m)
{
    tci_socket_link *l = link_of(m);
    tci_arrival_free_parts(&l->arrival);
    tci_mutex_done(&l->lock);
    tci_free(l);
}

static const tci_message_link socket_messages = {
    .put = socket_put,
    .progress = socket_progress,
    .take_back = socket_take_back,
    .halt = socket_halt,
    .stop = socket_stop,
    .free = socket_free,
};

/* ---- the loop: the end ---- */

static void on_gone(tci_post *post)
{
    tci_socket_link *l = TCI_CONTAINER(post, tci_socket_link, gone);
    tell_sent(l);
    for (tci_incoming *in; (in = next_incoming(l)) != NULL;)
        free_incoming(in);
    tci_arrival_part_done(&l->arrival);
}

static void socket_over(tci_arrival *a)
{
    tci_socket_link *l = TCI_CONTAINER(a, tci_socket_link, arrival);
    tci_attach_call *call = l->call;
    tci_wake *wake = call->wake;
    tci_mutex_lock(&a->registry->lock);
    call->code = tci_arrival_result(a, &call->err);
    call->is_over = true;
    tci_wake_count_one(wake);
    tci_mutex_unlock(&a->registry->lock); /* the call may be gone from here on */
    tci_wake_send(wake, UINT32_MAX);
}

/* ---- opening: the thread of attach ---- */

static void begin_on_loop(void *arg)
{
    tci_socket_link *l = arg;
    tci_timer_init(&l->look, l->arrival.messages.base.rt->loop, on_look);
    tci_arrival_begin(&l->arrival);
}

int tci_socket_link_open(tc_connections *c, tc_str device_id, const tc_socket *socket,
                         tci_attach_call *call, tci_socket_link **ret_link, tc_err *err)
{
    tci_socket_link *l = tci_new(tci_socket_link);
    if (l == NULL)
        return tci_err_no_memory(err);
    tci_mutex_init(&l->lock);
    tci_list_init(&l->control);
    tci_list_init(&l->data);
    tci_list_init(&l->sent);
    tci_list_init(&l->incoming);
    l->socket = *socket;
    l->call = call;
    l->news.cb = on_news;
    l->gone.cb = on_gone;
    int rc = tci_arrival_init_own(&l->arrival, &socket_messages, c, device_id, socket_over, err);
    if (rc < 0)
        return rc;
    rc = tci_arrival_reserve(&l->arrival, c, err);
    if (rc == 0 && !tci_runtime_run(c->rt, begin_on_loop, l))
        rc = tc_err_set(err, TC_E_CLOSED, "the runtime is closed");
    if (rc < 0) {
        tci_arrival_cancel(&l->arrival);
        return rc;
    }
    *ret_link = l;
    return 0;
}
