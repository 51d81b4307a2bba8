/* SPDX-License-Identifier: Apache-2.0
 *
 * A session: from a launched daemon over sync line and hello to the end of its process. Leaves frames
 * to pienv_in.c and pienv_out.c, calls to pienv_table.c. Loop thread. Invariant: the session ends once;
 * it is freed when its process is reaped. */
#include "client/pienv/pienv_int.h"

#include "net/fd.h"
#include "plat/fd.h"

enum {
    EXIT_NOTICE_MS = 50, /* for its last frames, after a live daemon ended */
    LAST_WORDS_MS = 500, /* for its last words, after one that was starting ended */
    EXIT_CODE_MS = 1000, /* for its exit status, after its output ended */
    TERM_MS = 1000,      /* for ending by itself */
    KILL_MS = 2000,
    SECOND_LOOK_MS = 50, /* before silence is taken for death */
    STDERR_READS = 64
};

/* ---- the end of it all ---- */

static void gone(tci_pi_sess *s)
{
    tci_pi *pi = s->pi;
    tc_runtime *rt = pi->rt;
    tci_watch_close(&s->err_watch);
    tci_fd_close(&s->err_fd);
    tci_timer_stop(&s->end_timer);
    tci_link_remove(&s->link);
    tci_free(s->buf);
    tci_free(s->tail);
    tci_free(s);
    rt->nbusy--;
    tci_mutex_lock(&pi->lock);
    pi->nopen--;
    tci_pi_wake_all(pi); /* from here on the connection may be freed */
    tci_mutex_unlock(&pi->lock);
    tci_runtime_check_end(rt);
}

/* ---- standard error ---- */

static void keep_tail(tci_pi_sess *s, const char *bytes, size_t len)
{
    size_t keep = tci_min_size(s->tail_len, TCI_PI_TAIL_BYTES - len);
    memmove(s->tail, s->tail + s->tail_len - keep, keep);
    memcpy(s->tail + keep, bytes, len);
    s->tail_len = keep + len;
}

static void read_stderr(tci_pi_sess *s)
{
    char buf[4096];
    const tci_pi_options *o = &s->pi->options;
    for (int i = 0; i < STDERR_READS && s->err_fd >= 0; i++) {
        size_t n = 0;
        tc_err err;
        if (tci_fd_read(s->err_fd, buf, sizeof buf, &n, &err) < 0) {
            tci_watch_close(&s->err_watch);
            tci_fd_close(&s->err_fd);
            return;
        }
        if (n == 0)
            return;
        if (s->phase < TCI_PI_READY)
            keep_tail(s, buf, n);
        if (o->on_log != NULL)
            o->on_log(o->log_user, TCI_PI_LOG_STDERR, buf, n);
    }
}

static void check_last_words(tci_pi_sess *s);

static void on_stderr_ready(tci_watch *w, unsigned events)
{
    TCI_UNUSED(events);
    tci_pi_sess *s = TCI_CONTAINER(w, tci_pi_sess, err_watch);
    read_stderr(s);
    check_last_words(s);
}

/* ---- ending ---- */

static void stop_links(tci_pi_sess *s)
{
    tci_later_cancel(&s->flush);
    tci_later_cancel(&s->end);
    tci_timer_stop(&s->tick);
    tci_timer_stop(&s->start_timer);
    tci_timer_stop(&s->end_timer);
    tci_pi_tunnel_lost(s);
    tci_pi_out_drop_all(s);
    tci_stream_close(s->stream);
    s->stream = NULL;
    tci_pi_in_free(s->part);
    tci_pi_in_free(s->refusal);
    s->part = s->refusal = NULL;
}

static void start_end_timer(tci_pi_sess *s, int64_t ms)
{
    tc_err err;
    if (tci_timer_start(&s->end_timer, ms, &err) == 0)
        return;
    if (s->phase == TCI_PI_ENDING)
        (void)tci_child_signal(&s->child, TCI_SIG_KILL); /* no timer to be had */
    else
        tci_pi_sess_end_with(s, &err);
}

/* Its input has ended with the stream; give it a moment, then a push. */
static void end_process(tci_pi_sess *s)
{
    if (!s->has_child || s->has_ended) {
        read_stderr(s);
        gone(s);
        return;
    }
    start_end_timer(s, TERM_MS);
}

static void leave_connection(tci_pi_sess *s, tci_pi_phase was, tci_pi_failure *failure)
{
    tci_pi *pi = s->pi;
    pi->sess = NULL;
    if (was != TCI_PI_READY) {
        tci_pi_start_failed_own(pi, failure);
        return;
    }
    tci_mutex_lock(&pi->lock);
    pi->state = TCI_PI_IDLE;
    tci_pi_wake_all(pi);
    tci_mutex_unlock(&pi->lock);
}

void tci_pi_sess_end(tci_pi_sess *s, const tc_err *err, bool is_lost)
{
    if (s->phase == TCI_PI_ENDING)
        return;
    tci_pi_phase was = s->phase;
    tci_pi_failure *failure = NULL;
    if (was != TCI_PI_READY) {
        read_stderr(s);
        failure = is_lost ? tci_pi_failure_of_start(s, err)
                          : tci_pi_failure_new(err, TC_STR("unknown"), false);
    }
    s->phase = TCI_PI_ENDING;
    stop_links(s);
    leave_connection(s, was, failure);
    tci_pi_end_all(s, err, is_lost);
    end_process(s);
}

static void on_end(tci_later *later)
{
    tci_pi_sess *s = TCI_CONTAINER(later, tci_pi_sess, end);
    tci_pi_sess_end(s, &s->end_err, true);
}

void tci_pi_sess_end_with(tci_pi_sess *s, const tc_err *err)
{
    if (s->phase == TCI_PI_ENDING || s->end_err.code != TC_OK)
        return;
    s->end_err = *err;
    tci_loop_later(s->pi->rt->loop, &s->end);
}

static void lost(tci_pi_sess *s)
{
    tc_err err;
    if (s->phase == TCI_PI_READY)
        tc_err_set(&err, TC_E_CLOSED, "pi-env connection lost");
    else if (!s->has_child)
        tc_err_set(&err, TC_E_CONNECT, "pi-env ended before it was ready");
    else if (!s->has_ended)
        tc_err_set(&err, TC_E_CONNECT, "pi-env closed its output before it was ready");
    else if (s->exit.is_signal)
        tc_err_set(&err, TC_E_CONNECT, "pi-env was ended by signal %d before it was ready",
                   s->exit.signum);
    else
        tc_err_set(&err, TC_E_CONNECT, "pi-env exited with code %d before it was ready",
                   s->exit.code);
    if (s->phase != TCI_PI_READY && s->pi->options.start_hint != NULL)
        (void)tc_err_hint(&err, "%s", s->pi->options.start_hint);
    tci_pi_sess_end_with(s, &err);
}

/* A daemon that ended while starting: once its pipes are at their end all is known. */
static void check_last_words(tci_pi_sess *s)
{
    if (s->phase < TCI_PI_READY && s->has_ended && s->is_eof && s->err_fd < 0)
        lost(s);
}

void tci_pi_sess_on_eof(tci_pi_sess *s)
{
    tc_err err;
    s->is_eof = true;
    if (tci_stream_want(s->stream, 0, &err) < 0) {
        tci_pi_sess_end_with(s, &err);
        return;
    }
    if (s->phase == TCI_PI_READY || !s->has_child)
        lost(s);
    else if (!s->has_ended)
        start_end_timer(s, EXIT_CODE_MS);
    check_last_words(s);
}

/* The other end does not read any more. What it said before may still be on its way in: an answer
 * that made it is worth more than an early end. */
void tci_pi_sess_on_unwritable(tci_pi_sess *s)
{
    s->is_write_broken = true;
    if (!s->is_eof && !tci_timer_is_armed(&s->end_timer))
        start_end_timer(s, EXIT_CODE_MS);
}

static void on_exit_ready(tci_watch *w, unsigned events)
{
    TCI_UNUSED(events);
    tci_pi_sess *s = TCI_CONTAINER(w, tci_pi_sess, exit_watch);
    bool was_lost;
    tci_child probe = s->child;
    if (!tci_child_peek(&probe, &s->exit, &was_lost))
        return;
    tci_watch_close(&s->exit_watch);
    (void)tci_child_reap(&s->child, &s->exit, &was_lost); /* it has ended: peek said so */
    s->has_ended = true;
    switch (s->phase) {
    case TCI_PI_ENDING:
        read_stderr(s);
        gone(s);
        break;
    case TCI_PI_READY:
        start_end_timer(s, EXIT_NOTICE_MS);
        break;
    case TCI_PI_SYNC:
    case TCI_PI_GREETING:
        start_end_timer(s, LAST_WORDS_MS);
        read_stderr(s);
        check_last_words(s);
        break;
    }
}

static void on_end_timer(tci_timer *t)
{
    tci_pi_sess *s = TCI_CONTAINER(t, tci_pi_sess, end_timer);
    if (s->phase != TCI_PI_ENDING) {
        lost(s);
        return;
    }
    if (s->is_term_sent) {
        (void)tci_child_signal(&s->child, TCI_SIG_KILL); /* false: it is ending by itself */
        return;
    }
    s->is_term_sent = true;
    (void)tci_child_signal(&s->child, TCI_SIG_TERM);
    start_end_timer(s, KILL_MS);
}

/* ---- life ---- */

static void ping_done(tci_pi_out *out, bool is_written)
{
    TCI_UNUSED(is_written);
    TCI_CONTAINER(out, tci_pi_sess, ping)->is_ping_unsent = false;
}

static void send_ping(tci_pi_sess *s)
{
    tc_err err;
    tci_pienv_head head = {.type = TCI_PIENV_PING, .json_len = 2};
    if (s->is_ping_unsent || tci_pienv_head_put(&head, s->ping_bytes, &err) < 0)
        return;
    memcpy(s->ping_bytes + TCI_PIENV_HEAD_BYTES, "{}", 2);
    s->ping = (tci_pi_out){
        .parts = {{s->ping_bytes, sizeof s->ping_bytes}}, .nparts = 1, .done = ping_done};
    s->is_ping_unsent = true;
    tci_pi_put(s, &s->ping);
}

static void on_tick(tci_timer *t)
{
    tci_pi_sess *s = TCI_CONTAINER(t, tci_pi_sess, tick);
    const tci_pi_options *o = &s->pi->options;
    tc_err err;
    int64_t now = tci_loop_now_ns(s->pi->rt->loop);
    if (s->is_paused)
        s->last_byte_ns = now; /* we do not look */
    bool is_silent = now - s->last_byte_ns > tci_ms_to_ns((uint64_t)o->dead_ms);
    if (is_silent && s->is_suspect) {
        tc_err_set(&err, TC_E_CLOSED, "pi-env connection timed out");
        tci_pi_sess_end(s, &err, true);
        return;
    }
    /* When it is we who were held up, what came meanwhile is yet to be read. */
    s->is_suspect = is_silent;
    send_ping(s);
    if (tci_timer_start(&s->tick, is_silent ? SECOND_LOOK_MS : o->ping_ms, &err) < 0)
        tci_pi_sess_end_with(s, &err);
}

static void on_start_timer(tci_timer *t)
{
    tci_pi_sess *s = TCI_CONTAINER(t, tci_pi_sess, start_timer);
    tc_err err;
    tc_err_set(&err, TC_E_CONNECT, "pi-env did not answer within %lld s",
               (long long)((s->pi->options.start_ms + 999) / 1000));
    tci_pi_sess_end(s, &err, true);
}

/* ---- before hello ---- */

void tci_pi_sess_noise(tci_pi_sess *s, tc_str bytes)
{
    const tci_pi_options *o = &s->pi->options;
    size_t keep = tci_min_size(bytes.len, sizeof s->sample - s->sample_len);
    if (keep > 0)
        memcpy(s->sample + s->sample_len, bytes.ptr, keep);
    s->sample_len += keep;
    s->nnoise += bytes.len;
    for (size_t i = 0; i < bytes.len && !s->has_noise; i++)
        s->has_noise = (unsigned char)bytes.ptr[i] > ' ';
    if (s->has_noise && o->on_log != NULL && bytes.len > 0)
        o->on_log(o->log_user, TCI_PI_LOG_NOISE, bytes.ptr, bytes.len);
}

static void hello_done(tci_pi_out *out, bool is_written)
{
    TCI_UNUSED(is_written);
    tci_free(out);
}

typedef struct hello_frame {
    tci_pi_out out;
    char head[TCI_PIENV_HEAD_BYTES];
} hello_frame;

/* hello is the first request of each session, and has a number like the rest. */
static int say_hello(tci_pi_sess *s, tc_err *err)
{
    static const char json[] = "{\"op\":\"hello\",\"protocol\":1,\"tc_ext\":1}";
    hello_frame *f = tci_new(hello_frame);
    if (f == NULL)
        return tci_err_no_memory(err);
    tci_mutex_lock(&s->pi->lock);
    if (++s->pi->last_id == 0)
        s->pi->last_id = 1;
    s->hello_id = s->pi->last_id;
    tci_mutex_unlock(&s->pi->lock);
    tci_pienv_head head = {
        .type = TCI_PIENV_REQUEST, .id = s->hello_id, .json_len = sizeof json - 1};
    if (tci_pienv_head_put(&head, f->head, err) < 0) {
        tci_free(f);
        return err->code;
    }
    f->out = (tci_pi_out){.parts = {{f->head, sizeof f->head}, {json, sizeof json - 1}},
                          .nparts = 2,
                          .done = hello_done};
    tci_pi_put(s, &f->out);
    return 0;
}

static int check_protocol(const tci_json *result, tc_err *err)
{
    const tci_json *v = tci_json_get(result, TC_STR("protocol"));
    uint64_t n = 0;
    if (v != NULL && tci_json_as_u64(v, &n) && n == TCI_PI_PROTOCOL)
        return 0;
    tc_str text = v == NULL ? TC_STR("undefined")
                  : v->kind == TCI_JSON_NUMBER || v->kind == TCI_JSON_STRING
                      ? tci_str_sub(v->u.text, 0, 64)
                      : TC_STR("of another kind");
    return tc_err_set(err, TC_E_INCOMPATIBLE, "Unsupported protocol %.*s", TC_STR_ARG(text));
}

static int copy_str(tci_arena *a, tc_str *s, tc_err *err)
{
    tc_str copy = {0};
    if (tci_arena_dup(a, *s, &copy, err) < 0)
        return err->code;
    *s = copy;
    return 0;
}

/* The lock is held. */
static int take_facts(tci_pi *pi, uint64_t number, const tci_pi_hello_result *h, tc_err *err)
{
    tci_pi_facts f = {
        .session = number,
        .version = h->version,
        .os = h->os,
        .arch = h->arch,
        .home = h->home,
        .separator = h->separator.len > 0 ? h->separator : TC_STR("/"),
        .tmpdir = h->tmpdir,
        .cwd = h->has_cwd ? h->cwd : TC_STR(""),
        .pid = h->pid,
        .has_ext = h->tc_ext == 1,
    };
    tc_str *strings[] = {&f.version, &f.os, &f.arch, &f.home, &f.separator, &f.tmpdir, &f.cwd};
    tci_arena_clear(&pi->facts_arena);
    for (size_t i = 0; i < TCI_ARRAY_LEN(strings); i++)
        if (copy_str(&pi->facts_arena, strings[i], err) < 0)
            return err->code;
    pi->facts = f;
    pi->state = TCI_PI_LIVE;
    tci_pi_wake_all(pi);
    return 0;
}

static int greeted(tci_pi_sess *s, tci_pi_in *in, tc_err *err)
{
    tci_pi_hello_result hello = {0};
    tci_pi *pi = s->pi;
    int rc = check_protocol(&in->json, err);
    if (rc == 0 && tci_proto_decode_lenient(&tci_pi_hello_result_type, &in->json, &in->held->arena,
                                            &hello, err) < 0) {
        tc_err_wrap(err, "what pi-env answers to hello makes no sense");
        rc = tc_err_recode(err, TC_E_PROTOCOL);
    }
    if (rc == 0)
        rc = tci_timer_start(&s->tick, pi->options.ping_ms, err);
    if (rc < 0)
        return rc;
    tci_mutex_lock(&pi->lock);
    rc = take_facts(pi, s->number, &hello, err);
    tci_mutex_unlock(&pi->lock);
    if (rc < 0)
        return rc;
    s->phase = TCI_PI_READY;
    tci_free(s->tail); /* for a failed start only */
    s->tail = NULL;
    return 0;
}

void tci_pi_sess_greeted_own(tci_pi_sess *s, tci_pi_in *in)
{
    tc_err err;
    tci_timer_stop(&s->start_timer);
    if (in->head.type == TCI_PIENV_ERROR) {
        s->refusal = in; /* for the end of this turn */
        tc_err_set(&err, TC_E_CONNECT, "hello was refused");
        tci_pi_sess_end_with(s, &err);
        return;
    }
    if (greeted(s, in, &err) < 0)
        tci_pi_sess_end_with(s, &err);
    tci_pi_in_free(in);
}

/* ---- opening ---- */

static void init_sess(tci_pi_sess *s, tci_pi *pi, const tci_pi_child *c)
{
    tci_loop *loop = pi->rt->loop;
    s->pi = pi;
    s->child = c->child;
    s->has_child = c->child.pid > 0;
    s->err_fd = -1;
    s->last_byte_ns = tci_loop_now_ns(loop);
    tci_list_init(&s->control);
    tci_list_init(&s->bulk);
    for (size_t i = 0; i < TCI_PI_BUCKETS; i++)
        tci_list_init(&s->buckets[i]);
    tci_timer_init(&s->tick, loop, on_tick);
    tci_timer_init(&s->start_timer, loop, on_start_timer);
    tci_timer_init(&s->end_timer, loop, on_end_timer);
    s->end.cb = on_end;
    tci_pi_out_init(s);
}

static int open_watches(tci_pi_sess *s, const tci_pi_child *c, tc_err *err)
{
    tci_loop *loop = s->pi->rt->loop;
    if (s->has_child &&
        (tci_watch_open(&s->exit_watch, loop, c->child.pidfd, on_exit_ready, err) < 0 ||
         tci_watch_set(&s->exit_watch, TCI_WATCH_READ, err) < 0))
        return err->code;
    if (c->err_fd >= 0 &&
        (tci_watch_open(&s->err_watch, loop, c->err_fd, on_stderr_ready, err) < 0 ||
         tci_watch_set(&s->err_watch, TCI_WATCH_READ, err) < 0))
        return err->code;
    return tci_timer_start(&s->start_timer, s->pi->options.start_ms, err);
}

/* From here on nothing can fail but by ending the session. */
static void begin(tci_pi_sess *s, const tci_pi_child *c)
{
    tci_pi *pi = s->pi;
    tc_err err;
    s->err_fd = c->err_fd;
    s->stream->on_ready = tci_pi_on_ready;
    s->stream->user = s;
    pi->sess = s;
    tci_list_push_back(&pi->sessions, &s->link);
    pi->rt->nbusy++;
    tci_mutex_lock(&pi->lock);
    pi->nopen++;
    s->number = ++pi->nsessions;
    tci_mutex_unlock(&pi->lock);
    if (say_hello(s, &err) < 0 || tci_stream_want(s->stream, TCI_WATCH_READ, &err) < 0 ||
        tci_pi_feed(s, tci_str_of(c->early, c->early_len), &err) < 0)
        tci_pi_sess_end_with(s, &err);
}

static int open_sess(tci_pi_sess *s, const tci_pi_child *c, tc_str token, tc_err *err)
{
    s->buf = tci_mem_resize(NULL, TCI_PI_READ_BYTES);
    s->tail = tci_mem_alloc(TCI_PI_TAIL_BYTES);
    if (s->buf == NULL || s->tail == NULL)
        return tci_err_no_memory(err);
    int rc = tci_pienv_sync_init(&s->sync, token, err);
    if (rc == 0)
        rc = open_watches(s, c, err);
    if (rc == 0)
        rc = tci_fd_stream_new(s->pi->rt->loop, c->out_fd, c->in_fd, true, &s->stream, err);
    return rc;
}

int tci_pi_sess_open(tci_pi *pi, const tci_pi_child *child, tc_str token, tc_err *err)
{
    tci_pi_sess *s = tci_new(tci_pi_sess);
    if (s == NULL)
        return tci_err_no_memory(err);
    init_sess(s, pi, child);
    if (open_sess(s, child, token, err) < 0) {
        tci_watch_close(&s->exit_watch);
        tci_watch_close(&s->err_watch);
        tci_timer_stop(&s->start_timer);
        tci_free(s->buf);
        tci_free(s->tail);
        tci_free(s);
        return err->code;
    }
    begin(s, child);
    return 0;
}
