/* SPDX-License-Identifier: Apache-2.0
 *
 * See pienv_peer.h. */
#include "pienv_peer.h"

#include "net/fd.h"
#include "plat/clock.h"
#include "plat/fd.h"
#include "plat/socket.h"
#include "plat/system.h"

#include <stdio.h>

enum { WAIT_MS = 60000, READ_BYTES = 64 * 1024, PING_MS = 5000 };
static const char token[] = "0123456789abcdef0123456789abcdef";

static void must(int rc, const tc_err *err)
{
    if (rc < 0)
        fail_msg("%s", err->msg);
}

/* ---- beginning ---- */

static void on_end(void *user, tci_pi_end how, bool is_clean, tc_str message)
{
    pi_peer *p = user;
    assert_false(p->has_ended);
    p->has_ended = true;
    p->was_clean = is_clean;
    p->how = how;
    p->server = NULL;
    (void)snprintf(p->message, sizeof p->message, "%.*s", TC_STR_ARG(message));
}

static void init(pi_peer *p)
{
    tc_err err;
    memset(p, 0, sizeof *p);
    p->fd_in = p->fd_out = -1;
    p->ping_ns = tci_clock_mono_ns() + (int64_t)PING_MS * 1000000;
    p->child = TCI_CHILD_NONE;
    tci_buf_init(&p->in, TCI_BUF_MAX);
    must(tci_pienv_sync_init(&p->sync, tci_str(token), &err), &err);
    tci_system_ignore_sigpipe();
}

void pi_peer_open_bare(pi_peer *p, const tci_pi_options *options)
{
    tc_err err;
    int fds[2];
    tci_stream *stream;
    tci_pi_options o = options != NULL ? *options : (tci_pi_options){0};
    init(p);
    must(tci_loop_new(&p->loop, &err), &err);
    must(tci_socket_pair(fds, &err), &err);
    must(tci_fd_stream_new(p->loop, fds[1], fds[1], true, &stream, &err), &err);
    must(tci_fd_set_nonblocking(fds[0], true, NULL, &err), &err);
    p->fd_in = p->fd_out = fds[0];
    o.token = tci_str(token);
    o.on_end = on_end;
    o.user = p;
    must(tci_pi_serve(p->loop, stream, &o, &p->server, &err), &err);
}

static void hello(pi_peer *p, bool ext)
{
    pi_frame *f =
        pi_peer_call(p, "{\"op\":\"hello\",\"protocol\":1%s}", ext ? ",\"tc_ext\":1" : "");
    assert_int_equal(pi_frame_u64(f, "protocol"), 1);
    pi_frame_free(f);
}

void pi_peer_open(pi_peer *p, bool ext, const tci_pi_options *options)
{
    pi_peer_open_bare(p, options);
    hello(p, ext);
}

void pi_peer_spawn(pi_peer *p, const char *program, bool ext)
{
    tc_err err;
    tci_arena a;
    const char *const *envp;
    size_t nenv;
    int in[2], out[2];
    const char *argv[] = {program, "serve", "--token", token, NULL};
    tci_spawn_opts o = TCI_SPAWN_OPTS_NONE;
    init(p);
    tci_arena_init(&a, 0);
    must(tci_environ_snapshot(&a, &envp, &nenv, &err), &err);
    must(tci_fd_pipe(in, &err), &err);
    must(tci_fd_pipe(out, &err), &err);
    int stderr_fd;
    must(tci_fd_dup(2, &stderr_fd, &err), &err);
    o.program = program;
    o.argv = argv;
    o.envp = envp;
    o.stdio[0] = in[0];
    o.stdio[1] = out[1];
    o.stdio[2] = stderr_fd;
    must(tci_spawn(&o, &p->child, &err), &err);
    tci_fd_close(&in[0]);
    tci_fd_close(&out[1]);
    tci_fd_close(&stderr_fd);
    tci_arena_done(&a);
    p->fd_in = out[0];
    p->fd_out = in[1];
    must(tci_fd_set_nonblocking(p->fd_in, true, NULL, &err), &err);
    must(tci_fd_set_nonblocking(p->fd_out, true, NULL, &err), &err);
    hello(p, ext);
}

/* ---- receiving ---- */

static int64_t deadline(void)
{
    return tci_clock_mono_ns() + (int64_t)WAIT_MS * 1000000;
}

static void keep_frame(pi_peer *p, const tci_pienv_head *h, const char *bytes)
{
    tc_err err;
    pi_frame *f = tci_new(pi_frame), **at = &p->frames;
    assert_non_null(f);
    tci_arena_init(&f->arena, 0);
    f->type = h->type;
    f->id = h->id;
    must(tci_arena_cstr(&f->arena, tci_str_of(bytes, h->json_len), &f->json, &err), &err);
    must(tci_arena_dup(&f->arena, tci_str_of(bytes + h->json_len, h->payload_len), &f->payload,
                       &err),
         &err);
    must(tci_json_parse(tci_str(f->json), 0, &f->arena, &f->value, &err), &err);
    assert_int_equal(f->value.kind, TCI_JSON_OBJECT);
    while (*at != NULL)
        at = &(*at)->next;
    *at = f;
}

static void take_frames(pi_peer *p)
{
    tc_err err;
    tci_pienv_head h;
    size_t at = 0;
    if (!p->sync.is_found) {
        size_t n = tci_pienv_sync_feed(&p->sync, tci_buf_str(&p->in));
        tci_buf_consume(&p->in, n);
    }
    while (p->sync.is_found && p->in.len - at >= TCI_PIENV_HEAD_BYTES) {
        must(tci_pienv_head_read(p->in.ptr + at, &h, &err), &err);
        size_t len = (size_t)h.json_len + h.payload_len;
        if (p->in.len - at - TCI_PIENV_HEAD_BYTES < len)
            break;
        keep_frame(p, &h, p->in.ptr + at + TCI_PIENV_HEAD_BYTES);
        at += TCI_PIENV_HEAD_BYTES + len;
    }
    tci_buf_consume(&p->in, at);
}

static void receive(pi_peer *p)
{
    tc_err err;
    size_t n = 1;
    while (n > 0 && p->fd_in >= 0 && !p->saw_end) {
        char *to = tci_buf_reserve(&p->in, READ_BYTES);
        assert_non_null(to);
        int rc = tci_fd_read(p->fd_in, to, READ_BYTES, &n, &err);
        if (rc < 0) {
            p->saw_end = true;
            break;
        }
        tci_buf_commit(&p->in, n);
    }
    take_frames(p);
}

/* Wait a little for something to happen. */
static void wait_some(pi_peer *p, bool to_write, int ms)
{
    tc_err err;
    if (p->loop != NULL) {
        tci_loop_turn(p->loop, to_write ? 0 : ms > 5 ? 5 : ms);
    } else {
        tci_fd_event e[2] = {{.fd = p->saw_end ? -1 : p->fd_in, .want_read = true},
                             {.fd = to_write ? p->fd_out : -1, .want_write = true}};
        must(tci_fd_wait(e, 2, ms, &err), &err);
    }
    receive(p);
}

void pi_peer_turn(pi_peer *p, int64_t max_wait_ms)
{
    tci_loop_turn(p->loop, max_wait_ms);
    receive(p);
}

typedef struct wanted {
    bool by_type;
    uint8_t type;
    uint32_t id;
} wanted;

static pi_frame *take(pi_peer *p, const wanted *w)
{
    for (pi_frame **at = &p->frames; *at != NULL; at = &(*at)->next) {
        pi_frame *f = *at;
        bool is_it = w->by_type ? f->type == w->type
                                : f->id == w->id && f->type >= TCI_PIENV_RESULT &&
                                      f->type <= TCI_PIENV_EVENT;
        if (is_it) {
            *at = f->next;
            return f;
        }
    }
    return NULL;
}

/* On a busy machine an answer may take longer than the server bears silence: we say that we live. */
static pi_frame *await(pi_peer *p, const wanted *w)
{
    int64_t until = deadline();
    for (;;) {
        pi_frame *f = take(p, w);
        if (f != NULL)
            return f;
        if (p->saw_end)
            fail_msg("the server ended: %s", p->message);
        if (tci_clock_mono_ns() > until)
            fail_msg("no frame for request %u (type %u)", w->id, w->type);
        if (tci_clock_mono_ns() > p->ping_ns) {
            p->ping_ns = tci_clock_mono_ns() + (int64_t)PING_MS * 1000000;
            pi_peer_send_frame(p, TCI_PIENV_PING, 0, TC_STR("{}"), TC_STR(""));
        }
        wait_some(p, false, 100);
    }
}

pi_frame *pi_peer_next(pi_peer *p, uint32_t id)
{
    return await(p, &(wanted){.id = id});
}

pi_frame *pi_peer_next_of(pi_peer *p, uint8_t type)
{
    return await(p, &(wanted){.by_type = true, .type = type});
}

pi_frame *pi_peer_answer(pi_peer *p, uint32_t id)
{
    for (;;) {
        pi_frame *f = pi_peer_next(p, id);
        if (f->type != TCI_PIENV_EVENT)
            return f;
        pi_frame_free(f);
    }
}

bool pi_peer_has(pi_peer *p, uint32_t id)
{
    wait_some(p, false, 0);
    for (const pi_frame *f = p->frames; f != NULL; f = f->next)
        if (f->id == id && f->type != TCI_PIENV_PING)
            return true;
    return false;
}

void pi_frame_free(pi_frame *f)
{
    if (f == NULL)
        return;
    tci_arena arena = f->arena;
    tci_free(f);
    tci_arena_done(&arena);
}

/* ---- sending ---- */

void pi_peer_send_raw(pi_peer *p, const void *bytes, size_t len)
{
    tc_err err;
    int64_t until = deadline();
    const char *at = bytes;
    while (len > 0) {
        size_t n = 0;
        if (p->fd_out < 0 || tci_fd_write(p->fd_out, at, len, &n, &err) < 0)
            return; /* the server is gone, which its end tells */
        at += n;
        len -= n;
        if (len > 0)
            wait_some(p, true, 100);
        if (tci_clock_mono_ns() > until)
            fail_msg("the server does not read");
    }
}

void pi_peer_send_frame(pi_peer *p, uint8_t type, uint32_t id, tc_str json, tc_str payload)
{
    tc_err err;
    tci_buf b;
    char head[TCI_PIENV_HEAD_BYTES];
    tci_pienv_head h = {.type = type,
                        .id = id,
                        .json_len = (uint32_t)json.len,
                        .payload_len = (uint32_t)payload.len};
    must(tci_pienv_head_put(&h, head, &err), &err);
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_buf_append(&b, head, sizeof head);
    tci_buf_append_str(&b, json);
    tci_buf_append_str(&b, payload);
    assert_true(tci_buf_ok(&b));
    pi_peer_send_raw(p, b.ptr, b.len);
    tci_buf_done(&b);
}

static uint32_t send_text(pi_peer *p, tc_str payload, const char *fmt, va_list args)
{
    tci_buf b;
    tci_buf_init(&b, TCI_BUF_MAX);
    va_list again;
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, fmt, args);
    assert_true(n >= 0);
    char *to = tci_buf_reserve(&b, (size_t)n + 1);
    assert_non_null(to);
    (void)vsnprintf(to, (size_t)n + 1, fmt, again);
    va_end(again);
    tci_buf_commit(&b, (size_t)n);
    uint32_t id = ++p->last_id;
    pi_peer_send_frame(p, TCI_PIENV_REQUEST, id, tci_buf_str(&b), payload);
    tci_buf_done(&b);
    return id;
}

uint32_t pi_peer_send(pi_peer *p, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    uint32_t id = send_text(p, TC_STR(""), fmt, args);
    va_end(args);
    return id;
}

uint32_t pi_peer_send_with(pi_peer *p, tc_str payload, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    uint32_t id = send_text(p, payload, fmt, args);
    va_end(args);
    return id;
}

void pi_peer_cancel(pi_peer *p, uint32_t id, bool is_kill)
{
    pi_peer_send_frame(p, TCI_PIENV_CANCEL, id,
                       is_kill ? TC_STR("{\"mode\":\"kill\"}") : TC_STR("{}"), TC_STR(""));
}

pi_frame *pi_peer_call(pi_peer *p, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    uint32_t id = send_text(p, TC_STR(""), fmt, args);
    va_end(args);
    pi_frame *f = pi_peer_answer(p, id);
    if (f->type != TCI_PIENV_RESULT)
        fail_msg("an error: %s", f->json);
    return f;
}

void pi_peer_call_fails(pi_peer *p, const char *code, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    uint32_t id = send_text(p, TC_STR(""), fmt, args);
    va_end(args);
    pi_frame *f = pi_peer_answer(p, id);
    pi_frame_is_error(f, code);
    pi_frame_free(f);
}

/* ---- looking ---- */

void pi_frame_is_error(const pi_frame *f, const char *code)
{
    if (f->type != TCI_PIENV_ERROR)
        fail_msg("no error but %s", f->json);
    tc_str is = pi_frame_str(f, "code");
    if (!tci_str_eq(is, tci_str(code)))
        fail_msg("%s instead of %s", f->json, code);
}

const tci_json *pi_frame_get(const pi_frame *f, const char *key)
{
    return tci_json_get(&f->value, tci_str(key));
}

tc_str pi_frame_str(const pi_frame *f, const char *key)
{
    tc_str text = TC_STR("");
    const tci_json *v = pi_frame_get(f, key);
    if (v == NULL || !tci_json_as_str(v, &text))
        fail_msg("no string %s in %s", key, f->json);
    return text;
}

uint64_t pi_frame_u64(const pi_frame *f, const char *key)
{
    uint64_t n = 0;
    const tci_json *v = pi_frame_get(f, key);
    if (v == NULL || !tci_json_as_u64(v, &n))
        fail_msg("no number %s in %s", key, f->json);
    return n;
}

bool pi_frame_bool(const pi_frame *f, const char *key)
{
    bool b = false;
    const tci_json *v = pi_frame_get(f, key);
    if (v == NULL || !tci_json_as_bool(v, &b))
        fail_msg("no boolean %s in %s", key, f->json);
    return b;
}

/* ---- the end ---- */

static int wait_child(pi_peer *p)
{
    tci_exit e;
    bool was_lost;
    int64_t until = deadline();
    while (!tci_child_reap(&p->child, &e, &was_lost)) {
        tc_err err;
        tci_fd_event events[2] = {{.fd = p->saw_end ? -1 : p->fd_in, .want_read = true},
                                  {.fd = p->child.pidfd, .want_read = true}};
        must(tci_fd_wait(events, 2, 100, &err), &err);
        receive(p);
        if (tci_clock_mono_ns() > until) {
            (void)tci_child_signal(&p->child, TCI_SIG_KILL);
            fail_msg("the program does not end");
        }
    }
    p->child = TCI_CHILD_NONE;
    p->has_ended = true;
    return e.is_signal ? 128 + e.signum : e.code;
}

int pi_peer_wait_end(pi_peer *p)
{
    int64_t until = deadline();
    if (p->loop == NULL)
        return wait_child(p);
    while (!p->has_ended) {
        wait_some(p, false, 5);
        if (tci_clock_mono_ns() > until)
            fail_msg("the server does not end");
    }
    receive(p);
    return (int)p->how;
}

int pi_peer_finish(pi_peer *p)
{
    tc_err err;
    if (p->loop != NULL) {
        int rc = tci_socket_shutdown_write(p->fd_out, &err); /* gone already is fine */
        TCI_UNUSED(rc);
    } else {
        tci_fd_close(&p->fd_out);
    }
    return pi_peer_wait_end(p);
}

void pi_peer_close(pi_peer *p)
{
    if (!p->has_ended)
        (void)pi_peer_finish(p);
    if (p->loop == NULL) {
        tci_fd_close(&p->fd_out);
    } else if (!p->was_clean) {
        for (int i = 0; i < 20; i++) /* the test has made what hung come back */
            tci_loop_turn(p->loop, 50);
    }
    tci_loop_free(p->loop);
    tci_fd_close(&p->fd_in);
    for (pi_frame *f; (f = p->frames) != NULL;) {
        p->frames = f->next;
        pi_frame_free(f);
    }
    tci_buf_done(&p->in);
}
