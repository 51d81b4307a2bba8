/* SPDX-License-Identifier: Apache-2.0
 *
 * See rig.h. */
#include "rig.h"

#include "net/fd.h"
#include "plat/clock.h"
#include "plat/fd.h"
#include "plat/file.h"
#include "plat/proc.h"
#include "plat/socket.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

enum { READ_BYTES = 64 * 1024 };

static tc_str text_in(rig *r, const char *fmt)
{
    tc_err err;
    tc_str s;
    assert_int_equal(tci_arena_printf(&r->config.arena, &s, &err, "%s%s", r->folder, fmt), 0);
    return s;
}

static void full_control(tci_config *c)
{
    c->full_control = c->has_commands = true;
    c->roots = tci_arena_items(&c->arena, tc_str, 2);
    c->roots[0] = TC_STR("/usr/bin");
    c->roots[1] = TC_STR("/bin");
    c->nroots = 2;
    c->profiles = tci_arena_items(&c->arena, tci_shell_profile, 1);
    c->nprofiles = 1;
    tc_str *arg = tci_arena_items(&c->arena, tc_str, 1);
    *arg = TC_STR("-c");
    c->profiles[0] = (tci_shell_profile){.id = TC_STR("default"),
                                         .display_name = TC_STR("POSIX shell"),
                                         .executable = TC_STR("/bin/sh"),
                                         .fixed_arguments = arg,
                                         .nfixed_arguments = 1,
                                         .max_script_bytes = 1 << 20};
}

void rig_prepare(rig *r)
{
    static unsigned runs;
    tc_err err;
    memset(r, 0, sizeof *r);
    const char *base = getenv("TC_TEST_DIR");
    assert_non_null(base);
    (void)snprintf(r->folder, sizeof r->folder, "%s/rig%u", base, ++runs);
    assert_int_equal(tci_file_mkdir(TCI_FILE_CWD, tci_str(r->folder), 0700, &err), 0);
    tci_arena_init(&r->config.arena, 0);
#define X(name, value) r->config.limits.name = value;
    TCI_LIMITS(X)
#undef X
    r->config.idle_timeout_ms = 1800000;
    r->config.disconnect_grace_ms = 30000;
    r->config.directory_discovery = true;
    r->config.device_id = TC_STR("device-1");
    r->config.default_working_directory = text_in(r, "");
    r->config.state_dir = text_in(r, "/state");
    r->config.runtime_dir = text_in(r, "/runtime");
    full_control(&r->config);
}

static void on_end(void *user, int status, tc_str message)
{
    rig *r = user;
    assert_false(r->has_ended);
    r->has_ended = true;
    r->stdio = NULL;
    r->status = status;
    (void)snprintf(r->message, sizeof r->message, "%.*s", TC_STR_ARG(message));
}

void rig_start(rig *r)
{
    tc_err err;
    int fds[2];
    tci_stream *stream;
    assert_int_equal(tci_loop_new(&r->loop, &err), 0);
    if (tci_device_new(r->loop, &r->config, &r->device, &err) < 0)
        fail_msg("%s", err.msg);
    assert_int_equal(tci_socket_pair(fds, &err), 0);
    assert_int_equal(tci_fd_stream_new(r->loop, fds[0], fds[0], true, &stream, &err), 0);
    assert_int_equal(tci_stdio_serve(r->device, stream, on_end, r, &r->stdio, &err), 0);
    r->fd = fds[1];
    r->in_at = r->in_len = 0;
    r->has_ended = false;
    tci_frames_init(&r->frames, UINT64_C(1) << 30, UINT64_C(1) << 30);
}

void rig_counters_are_zero(const rig *r)
{
    const tci_device *d = r->device;
    assert_int_equal(d->nsessions, 0);
    assert_int_equal(d->nrequests, 0);
    assert_int_equal(d->ninflight, 0);
    assert_int_equal(d->nrecords, 0);
    assert_int_equal(d->nprocesses, 0);
    assert_int_equal(d->nprocess_records, 0);
    assert_int_equal(d->ntransfers, 0);
    assert_int_equal(d->ntransfer_records, 0);
    assert_int_equal(d->staged_bytes, 0);
    assert_int_equal(d->staged_objects, 0);
    assert_int_equal(d->spool.used_bytes, 0);
    assert_int_equal(d->spool.used_objects, 0);
}

void rig_stop(rig *r)
{
    if (r->fd >= 0)
        tci_fd_close(&r->fd);
    rig_wait(r, r->has_ended && r->device->ninflight == 0 && r->device->nsessions == 0 &&
                    tci_loop_pending_jobs(r->loop) == 0);
    rig_counters_are_zero(r);
    tci_device_free(r->device);
    tci_loop_free(r->loop);
    tci_arena_done(&r->config.arena);
    free(r->in);
    r->in = NULL;
}

/* ---- bytes ---- */

static void receive(rig *r)
{
    while (r->fd >= 0 && !r->is_reading_off) {
        if (r->in_at == r->in_len)
            r->in_at = r->in_len = 0;
        if (r->in_len + READ_BYTES > r->in_cap) {
            r->in_cap = 2 * r->in_cap + READ_BYTES;
            r->in = realloc(r->in, r->in_cap);
            assert_non_null(r->in);
        }
        ssize_t n = recv(r->fd, r->in + r->in_len, r->in_cap - r->in_len, MSG_DONTWAIT);
        if (n <= 0)
            return;
        r->in_len += (size_t)n;
    }
}

void rig_turn(rig *r, int64_t max_wait_ms)
{
    receive(r);
    tci_loop_turn(r->loop, max_wait_ms);
    receive(r);
}

size_t rig_send_some(rig *r, const void *bytes, size_t len)
{
    ssize_t n = r->fd < 0 ? -1 : send(r->fd, bytes, len, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && r->fd >= 0 && errno != EAGAIN && errno != EWOULDBLOCK) {
        receive(r);
        tci_fd_close(&r->fd);
    }
    return n < 0 ? 0 : (size_t)n;
}

bool rig_send(rig *r, const void *bytes, size_t len)
{
    int64_t until = tci_clock_mono_ns() + RIG_PATIENCE_NS;
    for (size_t done = 0; done < len;) {
        if (r->fd < 0 || r->has_ended)
            return false;
        assert_true(tci_clock_mono_ns() < until);
        size_t n = rig_send_some(r, (const char *)bytes + done, len - done);
        done += n;
        if (n == 0)
            rig_turn(r, 10);
    }
    return true;
}

bool rig_take(rig *r, seen *ret)
{
    tc_err err;
    tci_frame f;
    tci_frames_event event;
    size_t used;
    if (r->in_at == r->in_len)
        return false;
    tc_str in = tci_str_of(r->in + r->in_at, r->in_len - r->in_at);
    if (tci_frames_next(&r->frames, in, &used, &event, &f, &err) < 0)
        fail_msg("the daemon sent what is no frame: %s", err.msg);
    r->in_at += used;
    if (event != TCI_FRAMES_FRAME)
        return false;
    ret->is_data = f.kind == TCI_FRAME_DATA;
    ret->body = f.body;
    if (ret->is_data && tci_eipd_decode(f.body, &ret->data, &err) < 0)
        fail_msg("the daemon sent a bad data frame: %s", err.msg);
    return true;
}

void rig_nothing_is_torn(rig *r)
{
    tc_err err;
    seen s;
    receive(r);
    while (rig_take(r, &s))
        if (!s.is_data && (s.body.len == 0 || s.body.ptr[s.body.len - 1] != '}'))
            fail_msg("half an answer: %.*s", TC_STR_ARG(s.body));
    assert_int_equal(r->in_at, r->in_len);
    assert_int_equal(tci_frames_eof(&r->frames, &err), 0);
}

/* ---- requests ---- */

static size_t expand(const rig *r, const char *template, char *out, size_t cap)
{
    static unsigned operations;
    size_t n = 0;
    for (const char *p = template; *p != '\0'; p++) {
        char number[32];
        const char *put = number;
        (void)snprintf(number, sizeof number, "%c", *p);
        if (*p == '%') {
            p++;
            if (*p == 'd')
                put = r->folder;
            else if (*p == 'h')
                put = r->handle;
            else if (*p == 'r')
                put = r->out;
            else if (*p == 'g')
                (void)snprintf(number, sizeof number, "%llu",
                               (unsigned long long)r->device->generation);
            else
                (void)snprintf(number, sizeof number, "op-%u", ++operations);
        }
        size_t len = strlen(put);
        assert_true(n + len < cap);
        memcpy(out + n, put, len);
        n += len;
    }
    out[n] = '\0';
    return n;
}

size_t rig_request(rig *r, bool session, const char *method, const char *params, char *out,
                   size_t cap)
{
    static char body[128 * 1024], expanded[100 * 1024];
    (void)expand(r, params, expanded, sizeof expanded);
    int n = snprintf(body, sizeof body,
                     "{\"jsonrpc\":\"2.0\",\"id\":%u,\"method\":\"%s\",\"params\":%s%s%s%s}",
                     ++r->next_id, method, expanded, session ? ",\"eip_session\":\"" : "",
                     session ? r->session : "", session ? "\"" : "");
    char head[TCI_FRAMES_PUT_MAX];
    size_t head_len = tci_frames_put_head(head, TCI_FRAME_CONTROL, (uint64_t)n);
    assert_true(head_len + (size_t)n <= cap);
    memcpy(out, head, head_len);
    memcpy(out + head_len, body, (size_t)n);
    return head_len + (size_t)n;
}

unsigned rig_ask(rig *r, bool session, const char *method, const char *params)
{
    static char text[130 * 1024];
    size_t len = rig_request(r, session, method, params, text, sizeof text);
    return rig_send(r, text, len) ? r->next_id : 0;
}

static bool is_answer_to(tc_str body, unsigned id)
{
    char key[32];
    (void)snprintf(key, sizeof key, "\"id\":%u,", id);
    return memmem(body.ptr, body.len, key, strlen(key)) != NULL;
}

bool rig_answer(rig *r, unsigned id, char *text, size_t cap)
{
    seen s;
    int64_t until = tci_clock_mono_ns() + RIG_PATIENCE_NS;
    for (;;) {
        while (rig_take(r, &s)) {
            if (s.is_data || !is_answer_to(s.body, id)) {
                if (!s.is_data && r->on_other != NULL)
                    r->on_other(r, s.body);
                continue;
            }
            size_t n = s.body.len < cap - 1 ? s.body.len : cap - 1;
            memcpy(text, s.body.ptr, n);
            text[n] = '\0';
            if (s.body.ptr[s.body.len - 1] != '}')
                fail_msg("half an answer: %s", text);
            return true;
        }
        if (r->has_ended)
            return false;
        if (tci_clock_mono_ns() >= until)
            fail_msg("request %u got no answer", id);
        rig_turn(r, 20);
    }
}

void rig_do(rig *r, bool session, const char *method, const char *params, char *text, size_t cap)
{
    static char own[64 * 1024];
    if (text == NULL) {
        text = own;
        cap = sizeof own;
    }
    unsigned id = rig_ask(r, session, method, params);
    if (id == 0 || !rig_answer(r, id, text, cap))
        fail_msg("%s: the link ended: %s", method, r->message);
    if (strstr(text, "\"result\":") == NULL)
        fail_msg("%s: %s", method, text);
}

bool rig_data(rig *r, tci_eipd_kind kind, tci_eipd_status status, const char *handle,
              uint64_t offset, const void *payload, size_t len)
{
    static char frame[512 * 1024];
    tci_eipd e = {.kind = kind,
                  .status = status,
                  .offset = offset,
                  .session = tci_str(r->session),
                  .handle = tci_str(handle),
                  .payload = tci_str_of(payload, len)};
    assert_true(tci_eipd_frame_len(&e) + TCI_FRAMES_PUT_MAX <= sizeof frame);
    size_t n = tci_frames_put_head(frame, TCI_FRAME_DATA, tci_eipd_frame_len(&e));
    n += tci_eipd_put_head(&e, frame + n);
    if (len > 0)
        memcpy(frame + n, payload, len);
    return rig_send(r, frame, n + len);
}

bool rig_text(const char *json, const char *key, char *out, size_t cap)
{
    char quoted[64];
    (void)snprintf(quoted, sizeof quoted, "\"%s\":\"", key);
    const char *at = strstr(json, quoted);
    if (at == NULL)
        return false;
    at += strlen(quoted);
    size_t n = strcspn(at, "\"");
    assert_true(n < cap);
    memcpy(out, at, n);
    out[n] = '\0';
    return true;
}

void rig_open_session(rig *r)
{
    char text[16 * 1024];
    if (r->next_id == 0)
        rig_do(r, false, "initialize",
               "{\"supported_protocol_versions\":[\"0.3\"],\"client\":{\"name\":\"t\",\"version\":"
               "\"1\"}}",
               NULL, 0);
    rig_do(r, false, "session.open",
           "{\"expected_device_id\":\"device-1\",\"expected_generation\":%g,\"protocol_version\":"
           "\"0.3\"}",
           text, sizeof text);
    assert_true(rig_text(text, "session_id", r->session, sizeof r->session));
    rig_do(r, true, "environment.readiness", "{\"context\":{\"operation_id\":\"%o\"}}", NULL, 0);
}

void rig_write_file(rig *r, const char *name, size_t size)
{
    char path[700];
    (void)snprintf(path, sizeof path, "%s/%s", r->folder, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    for (size_t i = 0; i < size; i++)
        assert_true(fputc((int)(i * 31 & 0x7F), file) != EOF);
    assert_int_equal(fclose(file), 0);
}
