/* SPDX-License-Identifier: Apache-2.0
 *
 * The carrier of the pi-env server: frames in and out over one stream, pings, and the end. Leaves
 * requests to pienv_dispatch.c and what frames hold to pienv_reply.c. Loop thread.
 *
 * Reading: small frames are taken in place out of one buffer; a large one is gathered in a block that
 * then belongs to its request. Writing: what a turn queues leaves in one writev at its end, control
 * first, always.
 *
 * Invariant: a frame whose first byte was written is finished before any other begins, and every way out
 * goes through begin_end, which kills first. */
#include "daemon/pienv/pienv_core_int.h"

#include "daemon/pienv/pienv.h"

#include <stdarg.h>
#include <stdio.h>

enum {
    IN_BYTES = 128 * 1024,
    LARGE_FRAME = 32 * 1024, /* gets a block of its own when it is not all there */
    PING_MS = 5000,
    SILENCE_MS = 30000,
    SECOND_LOOK_MS = 50, /* before silence is taken for death */
    END_MS = 1000,
    READS_PER_TURN = 16,
    WRITE_BYTES_MAX = 1024 * 1024
};

static void update_want(tci_pi_server *s);

/* ---- the end ---- */

static bool has_output(const tci_pi_server *s)
{
    return !tci_list_is_empty(&s->control) || !tci_list_is_empty(&s->bulk);
}

static void drop_output(tci_pi_server *s)
{
    for (tci_link *k; (k = tci_list_first(&s->control)) != NULL;)
        tci_pi_frame_drop(s, TCI_CONTAINER(k, tci_pi_frame, link), false);
    for (tci_link *k; (k = tci_list_first(&s->bulk)) != NULL;)
        tci_pi_frame_drop(s, TCI_CONTAINER(k, tci_pi_frame, link), false);
}

static void free_spares(tci_pi_server *s, unsigned n)
{
    while (n-- > 0)
        tci_free(s->spares[--s->nspares]);
    s->least_spares = s->nspares;
}

static bool is_block(size_t size)
{
    return size > TCI_PI_BLOCK_MIN && size <= TCI_PI_BLOCK_BYTES;
}

char *tci_pi_block_new(tci_pi_server *s, size_t size)
{
    if (!is_block(size))
        return tci_mem_resize(NULL, size);
    if (s->nspares == 0)
        return tci_mem_resize(NULL, TCI_PI_BLOCK_BYTES);
    char *block = s->spares[--s->nspares];
    if (s->nspares < s->least_spares)
        s->least_spares = s->nspares;
    return block;
}

void tci_pi_block_free(tci_pi_server *s, char *block, size_t size)
{
    if (block != NULL && is_block(size) && s->nspares < TCI_PI_SPARES && !s->is_ending)
        s->spares[s->nspares++] = block;
    else
        tci_free(block);
}

static void server_free(tci_pi_server *s)
{
    free_spares(s, s->nspares);
    for (tci_link *k; (k = tci_list_pop_front(&s->free_requests)) != NULL;) {
        tci_pi_req *r = TCI_CONTAINER(k, tci_pi_req, link);
        tci_arena_done(&r->arena);
        tci_free(r);
    }
    drop_output(s);
    tci_pi_exec_free(s);
    tci_timer_stop(&s->tick);
    tci_timer_stop(&s->limit);
    tci_later_cancel(&s->flush);
    tci_mounts_done(&s->mounts);
    tci_free(s->tmpdir);
    tci_free(s->in);
    tci_free(s->body);
    tci_free(s);
}

static bool is_idle(const tci_pi_server *s)
{
    return s->nrequests == 0 && s->nclosing == 0 && s->stuck.nthreads == 0 && s->tunnel == NULL &&
           tci_pi_exec_is_idle(s);
}

static void tell_end(tci_pi_server *s)
{
    tci_pi_options o = s->options;
    char message[TC_ERR_MSG_MAX];
    memcpy(message, s->message, sizeof message);
    s->is_ended = true;
    tci_pi_end how = s->how;
    bool is_clean = is_idle(s) && !s->is_spoiled;
    tci_timer_stop(&s->tick);
    tci_timer_stop(&s->limit);
    tci_later_cancel(&s->flush);
    drop_output(s);
    tci_stream_close(s->stream);
    s->stream = NULL;
    if (is_clean)
        server_free(s);
    o.on_end(o.user, how, is_clean, tci_str(message));
}

void tci_pi_check_end(tci_pi_server *s)
{
    if (s->is_ending)
        tci_loop_later(s->loop, &s->flush);
}

/* What is waited for: the flush and work of the pool, for a while; the tunnel's sessions, as long as they
 * need; what hangs, never. s may be gone afterwards. */
static void check_end(tci_pi_server *s)
{
    if (!s->is_ending)
        return;
    bool is_waiting = s->nparked > 0 || s->nclosing > 0 || has_output(s) || !tci_pi_exec_is_idle(s);
    if (s->tunnel == NULL && (!is_waiting || s->is_late))
        tell_end(s);
}

static void on_limit(tci_timer *t)
{
    tci_pi_server *s = TCI_CONTAINER(t, tci_pi_server, limit);
    s->is_late = true;
    tci_pi_check_end(s);
}

static void begin_end(tci_pi_server *s)
{
    tc_err err;
    if (s->is_ending)
        return;
    s->is_ending = true;
    tci_pi_kill_all(s);
    tci_timer_stop(&s->tick);
    tci_pi_requests_close(s);
    tci_pi_handles_clear(s);
    tci_pi_stuck_close(&s->stuck);
    if (s->is_write_broken || s->how == TCI_PI_END_SILENCE)
        drop_output(s);
    if (tci_timer_start(&s->limit, END_MS, &err) < 0)
        s->is_late = true;
    tci_pi_tunnel_stop(s);
    update_want(s);
}

void tci_pi_end_with(tci_pi_server *s, tci_pi_end how, const char *fmt, ...)
{
    va_list args;
    if (s->must_end || s->is_ending)
        return;
    s->must_end = true;
    s->how = how;
    va_start(args, fmt);
    (void)vsnprintf(s->message, sizeof s->message, fmt, args);
    va_end(args);
    tci_loop_later(s->loop, &s->flush);
}

void tci_pi_stop(tci_pi_server *s)
{
    tci_pi_end_with(s, TCI_PI_END_SIGNAL, "stopped");
}

static bool is_stopping(const tci_pi_server *s)
{
    return s->must_end || s->is_ending;
}

/* ---- writing ---- */

void tci_pi_want_flush(tci_pi_server *s)
{
    if (!s->is_ended)
        tci_loop_later(s->loop, &s->flush);
}

static bool add_parts(const tci_pi_frame *f, tci_iovec *v, size_t *nv, size_t *total)
{
    size_t done = f->done;
    if (*nv > TCI_IOVEC_MAX - 2 || *total >= WRITE_BYTES_MAX)
        return false;
    if (done < f->bytes.len) {
        v[(*nv)++] = (tci_iovec){f->bytes.ptr + done, f->bytes.len - done};
        *total += f->bytes.len - done;
        done = f->bytes.len;
    }
    size_t at = done - f->bytes.len;
    if (at < f->payload.len) {
        v[(*nv)++] = (tci_iovec){f->payload.ptr + at, f->payload.len - at};
        *total += f->payload.len - at;
    }
    return true;
}

static tci_pi_frame *first_of(const tci_list *l)
{
    tci_link *k = tci_list_first(l);
    return k != NULL ? TCI_CONTAINER(k, tci_pi_frame, link) : NULL;
}

static bool is_begun(const tci_pi_frame *f)
{
    return f != NULL && f->done > 0;
}

static size_t gather(const tci_pi_server *s, tci_iovec v[TCI_IOVEC_MAX], size_t *total)
{
    size_t nv = 0;
    tci_pi_frame *bulk = first_of(&s->bulk);
    bool fits = true;
    *total = 0;
    if (is_begun(bulk))
        fits = add_parts(bulk, v, &nv, total);
    TCI_LIST_EACH (&s->control, k) {
        if (!fits)
            break;
        fits = add_parts(TCI_CONTAINER(k, tci_pi_frame, link), v, &nv, total);
    }
    TCI_LIST_EACH (&s->bulk, k) {
        tci_pi_frame *f = TCI_CONTAINER(k, tci_pi_frame, link);
        if (!fits)
            break;
        if (f != bulk || !is_begun(bulk))
            fits = add_parts(f, v, &nv, total);
    }
    return nv;
}

/* Take n written bytes off the queues. What is finished is told afterwards, since that may queue more. */
static void written(tci_pi_server *s, size_t n)
{
    tci_list finished;
    tci_list_init(&finished);
    while (n > 0) {
        tci_pi_frame *f = first_of(&s->bulk);
        if (!is_begun(f) && !tci_list_is_empty(&s->control))
            f = first_of(&s->control);
        size_t left = f->bytes.len + f->payload.len - f->done;
        if (n < left) {
            f->done += n;
            break;
        }
        n -= left;
        tci_link_remove(&f->link);
        tci_list_push_back(&finished, &f->link);
    }
    for (tci_pi_frame *f; (f = first_of(&finished)) != NULL;)
        tci_pi_frame_drop(s, f, true);
}

static void wake_rooms(tci_pi_server *s)
{
    tci_list batch;
    tci_list_init(&batch);
    if (s->bulk_payload > TCI_PI_BULK_MAX)
        return;
    for (tci_link *k; (k = tci_list_pop_front(&s->rooms)) != NULL;)
        tci_list_push_back(&batch, k);
    for (tci_link *k; (k = tci_list_pop_front(&batch)) != NULL;) {
        tci_pi_room *room = TCI_CONTAINER(k, tci_pi_room, link);
        room->cb(room);
    }
}

static void write_failed(tci_pi_server *s)
{
    s->is_write_broken = true;
    tci_pi_end_with(s, TCI_PI_END_BROKEN, "standard output is closed");
    drop_output(s);
}

static void flush(tci_pi_server *s)
{
    tc_err err;
    tci_iovec v[TCI_IOVEC_MAX];
    for (tci_pi_read_pieces(s); !s->is_ended && has_output(s); tci_pi_read_pieces(s)) {
        size_t n = 0, total, nv = gather(s, v, &total);
        if (tci_stream_writev(s->stream, v, nv, &n, &err) < 0) {
            write_failed(s);
            break;
        }
        if (n > 0)
            s->last_written_ns = tci_loop_now_ns(s->loop);
        written(s, n);
        if (n < total)
            break;
    }
    if (!s->is_ending)
        wake_rooms(s);
}

static void on_readable(tci_pi_server *s);
static bool is_full(const tci_pi_server *s);

static void go_on(tci_pi_server *s)
{
    if (s->must_end)
        begin_end(s);
    if (!is_stopping(s) && !is_full(s) && s->in_at < s->in_len)
        on_readable(s); /* no event tells of what was read before */
    if (s->must_end)
        begin_end(s);
    update_want(s);
    check_end(s);
}

static void on_flush(tci_later *later)
{
    tci_pi_server *s = TCI_CONTAINER(later, tci_pi_server, flush);
    if (s->is_ended) {
        if (is_idle(s))
            server_free(s); /* the last that hung has come back */
        return;
    }
    if (s->must_end)
        begin_end(s);
    flush(s);
    go_on(s);
}

/* ---- reading ---- */

static bool is_full(const tci_pi_server *s)
{
    return s->out_bytes > TCI_PI_QUEUED_MAX || s->inbound_bytes > TCI_PI_QUEUED_MAX;
}

static void update_want(tci_pi_server *s)
{
    tc_err err;
    unsigned events = 0;
    if (s->is_ended || s->stream == NULL)
        return;
    if (!is_stopping(s) && !is_full(s))
        events |= TCI_WATCH_READ;
    if (has_output(s))
        events |= TCI_WATCH_WRITE;
    if (tci_stream_want(s->stream, events, &err) < 0)
        tci_pi_end_with(s, TCI_PI_END_BROKEN, "%s", err.msg);
}

/* own: as for tci_pi_on_request. */
static void take_frame(tci_pi_server *s, const tci_pienv_head *h, const char *bytes, char *own)
{
    tc_str json = tci_str_of(bytes, h->json_len);
    tc_str payload = tci_str_of(bytes + h->json_len, h->payload_len);
    if (h->type == TCI_PIENV_REQUEST) {
        tci_pi_on_request(s, h->id, json, payload, own);
        return;
    }
    if (h->type == TCI_PIENV_CANCEL)
        tci_pi_on_cancel(s, h->id, json);
    else if (h->type == TCI_PIENV_TUNNEL && s->has_ext)
        tci_pi_tunnel_frame(s, json, payload);
    tci_pi_block_free(s, own,
                      (size_t)h->json_len + h->payload_len); /* or a type of later versions */
}

static uint32_t length_of(const char *p)
{
    const unsigned char *b = (const unsigned char *)p;
    return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

/* Less than a head is there: what is wrong with it is told as soon as it is seen. */
static int check_length(const char *p, size_t have, tc_err *err)
{
    if (have < 4)
        return 0;
    uint32_t length = length_of(p);
    if (length < TCI_PIENV_LENGTH_MIN || length > TCI_PIENV_LENGTH_MAX)
        return tc_err_set(err, TC_E_PROTOCOL, "a frame of %lu bytes", (unsigned long)length);
    return 0;
}

/* Begin to gather a large frame of which only a part is here. */
static int begin_body(tci_pi_server *s, size_t len, tc_err *err)
{
    size_t have = s->in_len - s->in_at;
    s->body = tci_pi_block_new(s, len);
    if (s->body == NULL)
        return tci_err_no_memory(err);
    memcpy(s->body, s->in + s->in_at, have);
    s->body_len = len;
    s->body_have = have;
    s->in_at = s->in_len = 0;
    return 0;
}

/* Take all whole frames out of the buffer; what there is no room for stays. */
static int parse(tci_pi_server *s, tc_err *err)
{
    while (s->in_at < s->in_len && !is_stopping(s) && !is_full(s)) {
        const char *p = s->in + s->in_at;
        size_t have = s->in_len - s->in_at;
        if (have < TCI_PIENV_HEAD_BYTES)
            return check_length(p, have, err);
        if (tci_pienv_head_read(p, &s->head, err) < 0)
            return err->code;
        size_t len = (size_t)s->head.json_len + s->head.payload_len;
        if (have - TCI_PIENV_HEAD_BYTES < len) {
            if (len <= LARGE_FRAME)
                return 0;
            s->in_at += TCI_PIENV_HEAD_BYTES;
            return begin_body(s, len, err);
        }
        s->in_at += TCI_PIENV_HEAD_BYTES + len;
        take_frame(s, &s->head, p + TCI_PIENV_HEAD_BYTES, NULL);
    }
    return 0;
}

static void move_to_front(tci_pi_server *s)
{
    if (s->in_at == 0)
        return;
    s->in_len -= s->in_at;
    memmove(s->in, s->in + s->in_at, s->in_len);
    s->in_at = 0;
}

static void body_is_complete(tci_pi_server *s)
{
    char *own = s->body;
    s->body = NULL;
    take_frame(s, &s->head, own, own);
}

/* One read. ret_more: there may be more right away. */
static int read_some(tci_pi_server *s, bool *ret_more, tc_err *err)
{
    size_t n = 0;
    move_to_front(s);
    char *to = s->body != NULL ? s->body + s->body_have : s->in + s->in_len;
    size_t cap = s->body != NULL ? s->body_len - s->body_have : IN_BYTES - s->in_len;
    int rc = tci_stream_read(s->stream, to, cap, &n, err);
    *ret_more = n == cap;
    if (rc < 0 || n == 0)
        return rc;
    s->last_byte_ns = tci_loop_now_ns(s->loop);
    if (s->body == NULL) {
        s->in_len += n;
        return parse(s, err);
    }
    s->body_have += n;
    if (s->body_have == s->body_len)
        body_is_complete(s);
    return 0;
}

static void at_eof(tci_pi_server *s)
{
    if (s->body != NULL || s->in_len - s->in_at >= 4)
        tci_pi_end_with(s, TCI_PI_END_BROKEN, "end of input inside a frame");
    else
        tci_pi_end_with(s, TCI_PI_END_EOF, "end of input");
}

static void on_readable(tci_pi_server *s)
{
    tc_err err;
    bool more = true;
    int rc = 0;
    if (s->in_at < s->in_len)
        rc = parse(s, &err);
    for (int i = 0; more && rc == 0 && i < READS_PER_TURN && !is_stopping(s) && !is_full(s); i++)
        rc = read_some(s, &more, &err);
    if (rc == TC_E_END)
        at_eof(s);
    else if (rc < 0)
        tci_pi_end_with(s, TCI_PI_END_BROKEN, "%s", err.msg);
}

static void on_ready(tci_stream *stream, unsigned events)
{
    tci_pi_server *s = stream->user;
    if ((events & TCI_WATCH_READ) != 0 && !is_stopping(s))
        on_readable(s);
    if ((events & TCI_WATCH_WRITE) != 0)
        flush(s);
    go_on(s);
}

/* ---- liveness ---- */

static int64_t or_default(int64_t value, int64_t otherwise)
{
    return value > 0 ? value : otherwise;
}

/* While there is no room to read into, the peer lives as long as it takes what we write. */
static void on_tick(tci_timer *t)
{
    tc_err err;
    tci_pi_server *s = TCI_CONTAINER(t, tci_pi_server, tick);
    int64_t seen_ns = s->last_byte_ns;
    if (is_full(s) && s->last_written_ns > seen_ns)
        seen_ns = s->last_written_ns;
    int64_t silent_ms = (tci_loop_now_ns(s->loop) - seen_ns) / 1000000;
    bool is_silent = silent_ms > or_default(s->options.silence_ms, SILENCE_MS);
    if (is_silent && s->is_suspect) {
        tci_pi_end_with(s, TCI_PI_END_SILENCE, "nothing was heard for %lld ms",
                        (long long)silent_ms);
        return;
    }
    /* When it is we who were held up, what came meanwhile is yet to be read. */
    s->is_suspect = is_silent;
    free_spares(s, s->least_spares);
    tci_pi_send_frame(s, TCI_PI_CONTROL, TCI_PIENV_PING, TC_STR("{}"), NULL);
    int64_t next_ms = is_silent ? SECOND_LOOK_MS : or_default(s->options.ping_ms, PING_MS);
    if (tci_timer_start(t, next_ms, &err) < 0)
        tci_pi_end_with(s, TCI_PI_END_BROKEN, "%s", err.msg);
}

/* ---- the beginning ---- */

static void on_stuck_empty(tci_pi_stuck *stuck)
{
    tci_pi_check_end(TCI_CONTAINER(stuck, tci_pi_server, stuck));
}

static int send_sync(tci_pi_server *s, tc_str token, tc_err *err)
{
    tci_buf line;
    tci_buf_init(&line, TCI_BUF_MAX);
    tci_buf_printf(&line, "PI-ENV %.*s\n", TC_STR_ARG(token));
    int rc = tci_buf_error(&line, err);
    if (rc == 0)
        tci_pi_send_plain(s, tci_buf_str(&line));
    tci_buf_done(&line);
    return rc;
}

int tci_pi_serve(tci_loop *loop, tci_stream *stream, const tci_pi_options *options,
                 tci_pi_server **ret, tc_err *err)
{
    tci_pi_server *s = tci_new(tci_pi_server);
    char *in = tci_mem_resize(NULL, IN_BYTES);
    if (s == NULL || in == NULL) {
        tci_free(s);
        tci_free(in);
        return tci_err_no_memory(err);
    }
    s->loop = loop;
    s->stream = stream;
    s->options = *options;
    s->in = in;
    tci_list_init(&s->control);
    tci_list_init(&s->bulk);
    tci_list_init(&s->rooms);
    tci_list_init(&s->pieces);
    tci_list_init(&s->requests);
    tci_list_init(&s->free_requests);
    s->flush.cb = on_flush;
    tci_timer_init(&s->tick, loop, on_tick);
    tci_timer_init(&s->limit, loop, on_limit);
    tci_pi_stuck_init(&s->stuck, loop, on_stuck_empty);
    s->last_byte_ns = s->last_written_ns = tci_loop_now_ns(loop);
    int rc = send_sync(s, options->token, err);
    if (rc == 0)
        rc = tci_timer_start(&s->tick, or_default(options->ping_ms, PING_MS), err);
    if (rc == 0) {
        stream->user = s;
        stream->on_ready = on_ready;
        rc = tci_stream_want(stream, TCI_WATCH_READ, err);
    }
    if (rc < 0) {
        server_free(s);
        return rc;
    }
    *ret = s;
    return 0;
}

/* ---- for the other files ---- */

tci_loop *tci_pi_loop(const tci_pi_server *s)
{
    return s->loop;
}

bool tci_pi_has_ext(const tci_pi_server *s)
{
    return s->has_ext;
}

void **tci_pi_exec_slot(tci_pi_server *s)
{
    return &s->exec;
}
