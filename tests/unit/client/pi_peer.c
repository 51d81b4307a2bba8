/* SPDX-License-Identifier: Apache-2.0
 *
 * The scripted pi-env daemon: frames over a blocking socket. */
#include "pi_peer.h"

bool pi_fail(pi_peer *p, const char *fmt, ...)
{
    pi_rig *g = p->rig;
    va_list ap;
    va_start(ap, fmt);
    tci_mutex_lock(&g->lock);
    if (g->why[0] == 0)
        vsnprintf(g->why, sizeof g->why, fmt, ap);
    tci_mutex_unlock(&g->lock);
    va_end(ap);
    pi_cut(p);
    return false;
}

void pi_cut(pi_peer *p)
{
    tci_fd_close(&p->fd);
}

/* ---- out ---- */

void pi_raw(pi_peer *p, const void *bytes, size_t len)
{
    const char *at = bytes;
    bool is_cut = p->cut_after > 0 && p->nsaid + len >= p->cut_after;
    if (is_cut)
        len = p->cut_after - 1 - p->nsaid;
    while (len > 0 && p->fd >= 0) {
        tci_fd_part part = {(void *)(uintptr_t)at, len};
        size_t n = 0;
        tc_err err;
        if (tci_socket_send(p->fd, &part, 1, &n, &err) < 0)
            break;
        at += n;
        len -= n;
        p->nsaid += n;
    }
    if (is_cut)
        pi_cut(p);
}

void pi_sync(pi_peer *p)
{
    char line[80];
    int n = snprintf(line, sizeof line, "PI-ENV %s\n", p->token);
    pi_raw(p, line, (size_t)n);
}

void pi_frame(pi_peer *p, unsigned type, uint32_t id, const char *json, const void *payload,
              size_t len)
{
    tc_err err;
    tci_buf b;
    tci_pienv_head head = {.type = (uint8_t)type,
                           .id = id,
                           .json_len = (uint32_t)strlen(json),
                           .payload_len = (uint32_t)len};
    char bytes[TCI_PIENV_HEAD_BYTES];
    if (tci_pienv_head_put(&head, bytes, &err) < 0) {
        (void)pi_fail(p, "%s", err.msg);
        return;
    }
    tci_buf_init(&b, 1 << 26);
    tci_buf_append(&b, bytes, sizeof bytes);
    tci_buf_append_str(&b, tci_str(json));
    if (len > 0)
        tci_buf_append(&b, payload, len);
    pi_raw(p, b.ptr, b.len);
    tci_buf_done(&b);
}

void pi_result(pi_peer *p, const char *json)
{
    pi_frame(p, TCI_PIENV_RESULT, p->head.id, json, NULL, 0);
}

void pi_error(pi_peer *p, const char *code, const char *message, const char *extra)
{
    char json[512];
    snprintf(json, sizeof json, "{\"code\":\"%s\",\"message\":\"%s\"%s}", code, message, extra);
    pi_frame(p, TCI_PIENV_ERROR, p->head.id, json, NULL, 0);
}

/* ---- in ---- */

void pi_heard(pi_peer *p)
{
    atomic_fetch_add(&p->rig->nheard, 1);
    tci_wake_all(&p->rig->news);
}

static bool read_all(pi_peer *p, void *buf, size_t len)
{
    char *at = buf;
    while (len > 0 && p->fd >= 0) {
        size_t n = 0;
        tc_err err;
        if (tci_fd_read(p->fd, at, len, &n, &err) < 0)
            return false;
        at += n;
        len -= n;
    }
    return len == 0;
}

static bool next_frame(pi_peer *p)
{
    char bytes[TCI_PIENV_HEAD_BYTES];
    tc_err err;
    if (!read_all(p, bytes, sizeof bytes))
        return false;
    if (tci_pienv_head_read(bytes, &p->head, &err) < 0)
        return pi_fail(p, "a bad head: %s", err.msg);
    size_t len = (size_t)p->head.json_len + p->head.payload_len;
    free(p->body);
    p->body = malloc(len + 1);
    if (p->body == NULL || !read_all(p, p->body, len))
        return false;
    tci_arena_clear(&p->arena);
    if (tci_json_parse(tci_str_of(p->body, p->head.json_len), 0, &p->arena, &p->json, &err) < 0)
        return pi_fail(p, "bad JSON: %s", err.msg);
    p->payload = tci_str_of(p->body + p->head.json_len, p->head.payload_len);
    if (p->head.type == TCI_PIENV_REQUEST)
        pi_heard(p);
    return true;
}

bool pi_next(pi_peer *p)
{
    do {
        if (!next_frame(p))
            return false;
    } while (p->head.type == TCI_PIENV_PING);
    return true;
}

tc_str pi_text(const pi_peer *p, const char *member)
{
    tc_str s = {0};
    (void)tci_json_as_str(tci_json_get(&p->json, tci_str(member)), &s);
    return s;
}

uint64_t pi_number(const pi_peer *p, const char *member)
{
    uint64_t n = UINT64_MAX;
    (void)tci_json_as_u64(tci_json_get(&p->json, tci_str(member)), &n);
    return n;
}

bool pi_expect(pi_peer *p, const char *op)
{
    if (!pi_next(p))
        return pi_fail(p, "the link ended instead of %s", op);
    if (p->head.type != TCI_PIENV_REQUEST || !tci_str_eq(pi_text(p, "op"), tci_str(op)))
        return pi_fail(p, "a frame of type %u (%.*s) instead of %s", p->head.type,
                       TC_STR_ARG(pi_text(p, "op")), op);
    return true;
}

bool pi_expect_cancel(pi_peer *p, uint32_t id, bool is_kill)
{
    if (!pi_next(p))
        return pi_fail(p, "the link ended instead of a cancel");
    if (p->head.type != TCI_PIENV_CANCEL || p->head.id != id ||
        tci_str_eq(pi_text(p, "mode"), TC_STR("kill")) != is_kill)
        return pi_fail(p, "a frame of type %u instead of a cancel", p->head.type);
    return true;
}

bool pi_greet(pi_peer *p, bool has_ext)
{
    char json[400];
    pi_sync(p);
    if (!pi_expect(p, "hello"))
        return false;
    if (pi_number(p, "protocol") != 1 || pi_number(p, "tc_ext") != 1)
        return pi_fail(p, "hello without its protocol");
    snprintf(json, sizeof json,
             "{\"protocol\":1,\"version\":\"1.1.0\",\"os\":\"linux\",\"arch\":\"x86_64\","
             "\"home\":\"/home/me\",\"separator\":\"/\",\"tmpdir\":\"/tmp\",\"cwd\":\"/w\","
             "\"driveCwds\":{},\"pid\":%u%s,\"more\":[1]}",
             4710 + p->launch, has_ext ? ",\"tc_ext\":1" : "");
    pi_result(p, json);
    return p->fd >= 0;
}

void pi_drain(pi_peer *p)
{
    char buf[4096];
    size_t n = 0;
    tc_err err;
    while (p->fd >= 0 && tci_fd_read(p->fd, buf, sizeof buf, &n, &err) == 0)
        ;
}

/* ---- the rig ---- */

static void run(void *arg)
{
    pi_peer *p = arg;
    p->rig->play(p);
    pi_cut(p);
}

static int launch(void *user, tc_ctx *ctx, tc_str token, tci_pi_child *ret_child, tc_err *err)
{
    pi_rig *g = user;
    int fds[2];
    int rc = g->hook != NULL ? g->hook(g, ctx, err) : 0;
    tci_mutex_lock(&g->lock);
    unsigned nth = ++g->nlaunches;
    tci_mutex_unlock(&g->lock);
    if (rc < 0)
        return rc;
    if (tci_socket_pair(fds, err) < 0 || tci_fd_set_nonblocking(fds[0], false, NULL, err) < 0)
        return err->code;
    pi_peer *p = calloc(1, sizeof *p);
    assert_non_null(p);
    p->rig = g;
    p->fd = fds[0];
    p->launch = nth;
    p->cut_after = g->cut_after;
    memcpy(p->token, token.ptr, tci_min_size(token.len, sizeof p->token - 1));
    tci_arena_init(&p->arena, 0);
    rc = tci_thread_new(run, p, 0, &p->thread, err);
    assert_int_equal(rc, 0);
    tci_mutex_lock(&g->lock);
    tci_list_push_back(&g->peers, &p->link);
    tci_mutex_unlock(&g->lock);
    *ret_child = TCI_PI_CHILD_NONE;
    ret_child->in_fd = ret_child->out_fd = fds[1];
    return 0;
}

static void on_log(void *user, tci_pi_log_kind kind, const void *bytes, size_t len)
{
    pi_rig *g = user;
    tci_mutex_lock(&g->lock);
    tci_buf_append(kind == TCI_PI_LOG_STDERR ? &g->log : &g->noise, bytes, len);
    tci_mutex_unlock(&g->lock);
}

const char *pi_log(pi_rig *g, tci_buf *which)
{
    tci_mutex_lock(&g->lock);
    tci_buf_append_byte(which, 0);
    tci_buf_truncate(which, which->len - 1);
    tci_mutex_unlock(&g->lock);
    return which->ptr;
}

void pi_await(pi_rig *g, unsigned n)
{
    for (;;) {
        unsigned seen = tci_wake_count(&g->news);
        if (atomic_load(&g->nheard) >= n)
            return;
        tci_wake_wait(&g->news, seen, 0);
    }
}

void pi_rig_open_with(pi_rig *g, const tci_pi_launcher *launcher, const tci_pi_options *options)
{
    tci_pi_options o = options != NULL ? *options : (tci_pi_options){.start_ms = 0};
    o.on_log = on_log;
    o.log_user = g;
    if (g->rt == NULL) {
        tci_mutex_init(&g->lock);
        tci_list_init(&g->peers);
        tci_buf_init(&g->log, 1 << 24);
        tci_buf_init(&g->noise, 1 << 24);
        assert_ok(g, tc_runtime_open(NULL, &g->rt, &g->err));
        assert_ok(g, tc_result_new(&g->r, &g->err));
    }
    assert_ok(g, tci_pi_new_own(g->rt, launcher, &o, &g->pi, &g->err));
}

void pi_rig_open(pi_rig *g, void (*play)(pi_peer *p), const tci_pi_options *options)
{
    tci_pi_launcher launcher = {.launch = launch, .user = g};
    g->play = play;
    pi_rig_open_with(g, &launcher, options);
}

void pi_rig_open_script(pi_rig *g, const char *script, const tci_pi_options *options)
{
    tc_str args[] = {TC_STR("-c"), tci_str(script)};
    tc_spawn_options spawn = {
        .size = sizeof spawn, .program = TC_STR("/bin/sh"), .args = args, .nargs = 2};
    tci_pi_launcher launcher;
    if (g->rt == NULL) { /* the launcher needs it, and the rig makes it */
        pi_rig_open_with(g, &(tci_pi_launcher){.launch = NULL}, options);
        tci_pi_release(g->pi);
    }
    assert_ok(g, tci_pi_launch_command(g->rt, &spawn, &launcher, &g->err));
    pi_rig_open_with(g, &launcher, options);
}

void pi_rig_end_peers(pi_rig *g)
{
    tci_pi_release(g->pi);
    g->pi = NULL;
    for (tci_link *link; (link = tci_list_pop_front(&g->peers)) != NULL;) {
        pi_peer *p = TCI_CONTAINER(link, pi_peer, link);
        tci_thread_join(p->thread);
        tci_arena_done(&p->arena);
        free(p->body);
        free(p);
    }
}

void pi_rig_close(pi_rig *g)
{
    pi_rig_end_peers(g);
    tc_result_free(g->r);
    tc_runtime_close(g->rt);
    tci_buf_done(&g->log);
    tci_buf_done(&g->noise);
    tci_mutex_done(&g->lock);
    if (g->why[0] != 0)
        fail_msg("the script: %s", g->why);
}

tci_pi_call pi_call(pi_rig *g, int op, const void *params, void *reply)
{
    return (tci_pi_call){.op = op, .params = params, .reply = reply, .result = g->r};
}

int pi_lstat(pi_rig *g, tc_ctx *ctx, const char *path, tci_pi_info *ret_info)
{
    tci_pi_lstat_params params = {.path = tci_str(path)};
    tci_pi_call call = pi_call(g, TCI_PI_LSTAT, &params, ret_info);
    return tci_pi_do(g->pi, ctx, &call, &g->err);
}
