/* SPDX-License-Identifier: Apache-2.0
 *
 * The scripted daemon: frames in and out over blocking descriptors. */
#include "peer.h"

#include "plat/fd.h"
#include "plat/socket.h"

#define SESSION "session-t-1"
#define DIGEST "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

bool peer_fail(peer *p, const char *what)
{
    if (p->why[0] == 0)
        snprintf(p->why, sizeof p->why, "%s", what);
    peer_cut(p);
    return false;
}

static void run(void *arg)
{
    peer *p = arg;
    p->play(p);
    peer_cut(p);
}

void peer_open(peer *p, void (*play)(peer *p), void *arg)
{
    int fds[2];
    tc_err err;
    unsigned max_concurrent = p->max_concurrent, idle = p->idle_timeout_ms;
    const char *extra = p->descriptor_extra, *egress = p->egress;
    memset(p, 0, sizeof *p);
    p->max_concurrent = max_concurrent > 0 ? max_concurrent : 16;
    p->idle_timeout_ms = idle > 0 ? idle : 1800000;
    p->descriptor_extra = extra;
    p->egress = egress;
    assert_int_equal(tci_socket_pair(fds, &err), 0);
    p->fd = fds[0];
    p->client_fd = fds[1];
    assert_int_equal(tci_fd_set_nonblocking(p->fd, false, NULL, &err), 0);
    p->play = play;
    p->arg = arg;
    tci_frames_init(&p->frames, 1 << 26, 1 << 24);
    tci_buf_init(&p->in, 1 << 27);
    tci_buf_init(&p->held, 1 << 20);
    tci_arena_init(&p->arena, 0);
    assert_int_equal(tci_thread_new(run, p, 0, &p->thread, &err), 0);
}

void peer_forget(peer *p)
{
    tci_buf_done(&p->in);
    tci_buf_done(&p->held);
    tci_arena_done(&p->arena);
}

void peer_close(peer *p)
{
    tci_thread_join(p->thread);
    peer_forget(p);
    if (p->why[0] != 0)
        fail_msg("the script: %s", p->why);
}

void peer_cut(peer *p)
{
    p->is_cut = true;
    tci_fd_close(&p->fd);
}

/* ---- out ---- */

void peer_raw(peer *p, const void *bytes, size_t len)
{
    if (p->is_holding) {
        tci_buf_append(&p->held, bytes, len);
        return;
    }
    if (p->cut_at > 0 && len >= p->cut_at) {
        len = p->cut_at - 1;
        p->cut_at = 0;
        p->is_cut = true;
    }
    const char *at = bytes;
    while (len > 0 && p->fd >= 0) {
        tci_fd_part part = {(void *)(uintptr_t)at, len};
        size_t n = 0;
        tc_err err;
        if (tci_socket_send(p->fd, &part, 1, &n, &err) < 0)
            break;
        at += n;
        len -= n;
    }
    if (p->is_cut)
        peer_cut(p);
}

void peer_hold(peer *p)
{
    p->is_holding = true;
}

void peer_flush(peer *p)
{
    p->is_holding = false;
    peer_raw(p, p->held.ptr, p->held.len);
    tci_buf_clear(&p->held);
}

static void frame(peer *p, tci_frame_kind kind, tc_str body)
{
    tci_buf b;
    tci_buf_init(&b, 1 << 27);
    char head[TCI_FRAMES_PUT_MAX];
    size_t n = tci_frames_put_head(head, kind, body.len);
    tci_buf_append(&b, head, n);
    tci_buf_append_str(&b, body);
    peer_raw(p, b.ptr, b.len);
    tci_buf_done(&b);
}

void peer_result_as(peer *p, uint64_t id, const char *session, const char *result_json)
{
    tci_buf b;
    tci_buf_init(&b, 1 << 27);
    tci_buf_append_byte(&b, '{');
    if (session != NULL)
        tci_buf_printf(&b, "\"eip_session\":\"%s\",", session);
    tci_buf_printf(&b, "\"id\":%llu,\"jsonrpc\":\"2.0\",\"result\":", (unsigned long long)id);
    tci_buf_append_str(&b, tci_str(result_json));
    tci_buf_append_byte(&b, '}');
    frame(p, TCI_FRAME_CONTROL, tci_buf_str(&b));
    tci_buf_done(&b);
}

void peer_result(peer *p, const char *result_json)
{
    peer_result_as(p, p->id, p->session[0] != 0 ? p->session : NULL, result_json);
}

void peer_error(peer *p, int code, const char *type, const char *stage)
{
    tci_buf b;
    tci_buf_init(&b, 1 << 20);
    tci_buf_append_byte(&b, '{');
    if (p->session[0] != 0)
        tci_buf_printf(&b, "\"eip_session\":\"%s\",", p->session);
    tci_buf_printf(
        &b,
        "\"error\":{\"code\":%d,\"data\":{\"dispatch_stage\":\"%s\",\"error_type\":\"%s\","
        "\"retry_hint\":\"never\"},\"message\":\"no\"},\"id\":%llu,\"jsonrpc\":\"2.0\"}",
        code, stage, type, (unsigned long long)p->id);
    frame(p, TCI_FRAME_CONTROL, tci_buf_str(&b));
    tci_buf_done(&b);
}

void peer_data_to(peer *p, const char *session, const char *handle, tci_eipd_kind kind,
                  uint64_t offset, const void *payload, size_t len)
{
    tci_eipd d = {.kind = kind,
                  .status = kind == TCI_EIPD_RESET ? (tci_eipd_status)len : TCI_EIPD_STATUS_NONE,
                  .offset = offset,
                  .session = tci_str(session),
                  .handle = tci_str(handle)};
    if (kind != TCI_EIPD_RESET)
        d.payload = tci_str_of(payload, len);
    tci_buf b;
    tci_buf_init(&b, 1 << 24);
    char *head = tci_buf_reserve(&b, tci_eipd_head_len(&d));
    tci_buf_commit(&b, tci_eipd_put_head(&d, head));
    tci_buf_append_str(&b, d.payload);
    frame(p, TCI_FRAME_DATA, tci_buf_str(&b));
    tci_buf_done(&b);
}

void peer_data(peer *p, tci_eipd_kind kind, tci_eipd_status status, uint64_t offset,
               const void *payload, size_t len)
{
    peer_data_to(p, SESSION, "handle-1", kind, offset, payload,
                 kind == TCI_EIPD_RESET ? (size_t)status : len);
}

/* ---- in ---- */

static bool take_request(peer *p, tc_str body)
{
    tc_err err;
    tci_json tree;
    tc_str copy, text;
    if (tci_arena_dup(&p->arena, body, &copy, &err) < 0 ||
        tci_json_parse(copy, 0, &p->arena, &tree, &err) < 0)
        return peer_fail(p, "a request that is not JSON");
    p->session[0] = 0;
    if (!tci_json_as_u64(tci_json_get(&tree, TC_STR("id")), &p->id) ||
        !tci_json_as_str(tci_json_get(&tree, TC_STR("method")), &text))
        return peer_fail(p, "a request without id or method");
    snprintf(p->method, sizeof p->method, "%.*s", TC_STR_ARG(text));
    if (tci_json_as_str(tci_json_get(&tree, TC_STR("eip_session")), &text))
        snprintf(p->session, sizeof p->session, "%.*s", TC_STR_ARG(text));
    p->params = *tci_json_get(&tree, TC_STR("params"));
    return true;
}

bool peer_next(peer *p, bool *ret_is_data)
{
    for (;;) {
        size_t used = 0;
        tci_frames_event event = TCI_FRAMES_MORE;
        tci_frame got;
        tc_err err;
        if (p->in.len > 0 &&
            tci_frames_next(&p->frames, tci_buf_str(&p->in), &used, &event, &got, &err) < 0)
            return peer_fail(p, "a malformed frame");
        if (event == TCI_FRAMES_FRAME) {
            bool is_good = true;
            *ret_is_data = got.kind == TCI_FRAME_DATA;
            tc_str copy;
            if (*ret_is_data)
                is_good = tci_arena_dup(&p->arena, got.body, &copy, &err) == 0 &&
                          tci_eipd_decode(copy, &p->data, &err) == 0;
            else
                is_good = take_request(p, got.body);
            tci_buf_consume(&p->in, used);
            return is_good ? true : peer_fail(p, "a malformed data frame");
        }
        tci_buf_consume(&p->in, used);
        if (p->fd < 0)
            return false;
        char *room = tci_buf_reserve(&p->in, 65536);
        size_t n = 0;
        if (tci_fd_read(p->fd, room, 65536, &n, &err) < 0)
            return false;
        tci_buf_commit(&p->in, n);
    }
}

bool peer_expect(peer *p, const char *method)
{
    bool is_data;
    char what[256];
    if (!peer_next(p, &is_data)) {
        snprintf(what, sizeof what, "the link ended before %s", method);
        return peer_fail(p, what);
    }
    if (is_data || strcmp(p->method, method) != 0) {
        snprintf(what, sizeof what, "%s instead of %s", is_data ? "data" : p->method, method);
        return peer_fail(p, what);
    }
    return true;
}

bool peer_expect_data(peer *p, tci_eipd_kind kind, uint64_t offset)
{
    bool is_data;
    char what[256];
    if (!peer_next(p, &is_data))
        return peer_fail(p, "the link ended before a data frame");
    if (!is_data || p->data.kind != kind || p->data.offset != offset) {
        snprintf(what, sizeof what, "%s at %llu instead of %s at %llu",
                 is_data ? tci_eipd_kind_name(p->data.kind) : p->method,
                 (unsigned long long)p->data.offset, tci_eipd_kind_name(kind),
                 (unsigned long long)offset);
        return peer_fail(p, what);
    }
    return true;
}

/* ---- what a daemon says of itself ---- */

const char *peer_format(peer *p, const char *fmt, ...)
{
    char text[8192];
    tc_str copy;
    tc_err err;
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    char *out = NULL;
    if (n < 0 || (size_t)n >= sizeof text ||
        tci_arena_dup(&p->arena, tci_str_of(text, (size_t)n), &copy, &err) < 0 ||
        tci_arena_cstr(&p->arena, copy, &out, &err) < 0)
        abort();
    return out;
}

const char *peer_boundary(peer *p)
{
    return peer_format(
        p,
        "{\"backend\":\"native\",\"egress\":\"%s\",\"identity\":{\"gid\":0,\"uid\":0},"
        "\"policy_digest\":\"" DIGEST "\",\"privilege_gain_blocked\":false,"
        "\"sandbox\":{\"mode\":\"disabled\"}}",
        p->egress != NULL ? p->egress : "inherit");
}

const char *peer_limits(peer *p)
{
    return peer_format(
        p,
        "{\"max_concurrent_file_transfers\":64,\"max_concurrent_operations\":%u,"
        "\"max_file_bytes\":100000000,\"max_file_transfer_bytes\":100000000,"
        "\"max_operation_duration_ms\":86400000,\"max_output_bytes_per_stream\":1000000,"
        "\"max_output_preview_bytes\":1000,\"max_processes\":8,\"max_request_bytes\":16777216,"
        "\"max_response_bytes\":16777216,\"max_transfer_frame_bytes\":65536}",
        p->max_concurrent);
}

bool peer_initialize(peer *p)
{
    if (!peer_expect(p, "initialize"))
        return false;
    peer_result(p, peer_format(p,
                               "{\"descriptor\":{\"available_methods\":[\"device.describe\","
                               "\"session.open\",\"file.stat\"],\"boundary\":%s,"
                               "\"default_working_directory\":\"/w\",\"device_id\":\"dev-1\","
                               "\"directory_discovery\":true,\"generation\":18446744073709551615,"
                               "\"lifecycle\":{\"disconnect_grace_ms\":10,\"idle_timeout_ms\":%u},"
                               "\"limits\":%s,\"path_style\":\"posix\"},"
                               "\"protocol_version\":\"0.3\","
                               "\"server\":{\"name\":\"a13n-envd\",\"version\":\"0.5.1\"}}",
                               peer_boundary(p), p->idle_timeout_ms, peer_limits(p)));
    return true;
}

void peer_give_session(peer *p)
{
    peer_result(p, peer_format(p,
                               "{\"descriptor\":{%s\"available_methods\":[\"file.stat\","
                               "\"environment.readiness\",%s\"file.write_text\"],\"boundary\":%s,"
                               "\"device_id\":\"dev-1\",\"execution_features\":{"
                               "\"cpu_time_limit\":false,\"memory_bytes_limit\":false,"
                               "\"process_count_limit\":false,\"signal_interrupt\":false,"
                               "\"signal_terminate\":false},\"generation\":18446744073709551615,"
                               "\"lifecycle\":{\"disconnect_grace_ms\":10,\"idle_timeout_ms\":%u},"
                               "\"limits\":%s,\"session_id\":\"" SESSION "\",\"shell_profiles\":[],"
                               "\"working_directory\":\"/w\"}}",
                               p->descriptor_extra != NULL ? p->descriptor_extra : "",
                               p->egress != NULL ? "\"egress.update\"," : "", peer_boundary(p),
                               p->idle_timeout_ms, peer_limits(p)));
}

bool peer_session(peer *p)
{
    if (!peer_initialize(p) || !peer_expect(p, "session.open"))
        return false;
    peer_give_session(p);
    if (!peer_expect(p, "environment.readiness"))
        return false;
    peer_result(p, "{\"device_id\":\"dev-1\",\"generation\":18446744073709551615,\"ready\":true,"
                   "\"session_id\":\"" SESSION "\"}");
    return true;
}

tc_str peer_text(peer *p, const char *path)
{
    const tci_json *at = &p->params;
    tc_str rest = tci_str(path), part, text = {0};
    while (at != NULL && tci_str_split(&rest, '.', &part))
        at = tci_json_get(at, part);
    if (at == NULL || !tci_json_as_str(at, &text))
        peer_fail(p, path);
    return text;
}

const char *peer_receipt(peer *p, const char *stage, const char *outcome)
{
    tc_str op = peer_text(p, "context.operation_id");
    return peer_format(p,
                       "{\"device_id\":\"dev-1\",\"generation\":18446744073709551615,"
                       "\"method\":\"%s\",\"observed_at\":\"2026-01-02T03:04:05Z\","
                       "\"operation_id\":\"%.*s\",\"outcome\":\"%s\",\"request_digest\":\"" DIGEST
                       "\",\"session_id\":\"" SESSION "\",\"stage\":\"%s\"}",
                       p->method, TC_STR_ARG(op), outcome, stage);
}

/* ---- the client's end ---- */

int (*rig_connect_otherwise)(rig *g);
void (*rig_close_otherwise)(rig *g);

int rig_connect(rig *g, void (*play)(peer *p), void *arg)
{
    assert_int_equal(tc_runtime_open(NULL, &g->rt, &g->err), 0);
    assert_int_equal(tc_result_new(&g->r, &g->err), 0);
    peer_open(&g->peer, play, arg);
    tc_device_options o = {.size = sizeof o};
    if (rig_connect_otherwise != NULL)
        return rig_connect_otherwise(g);
    int fd = g->peer.client_fd;
    return tc_device_adopt_own(g->rt, NULL, fd, fd, &o, &g->device, &g->err);
}

void rig_open(rig *g, void (*play)(peer *p), void *arg)
{
    assert_ok(g, rig_connect(g, play, arg));
    assert_ok(g, tc_session_open(g->device, NULL, NULL, &g->session, &g->err));
}

void rig_close(rig *g)
{
    tc_session_detach(g->session);
    tc_device_close(g->device);
    if (rig_close_otherwise != NULL)
        rig_close_otherwise(g);
    peer_close(&g->peer);
    tc_result_free(g->r);
    tc_runtime_close(g->rt);
    memset(g, 0, sizeof *g);
}

tc_call rig_call(rig *g)
{
    return TC_CALL(NULL, g->r);
}
