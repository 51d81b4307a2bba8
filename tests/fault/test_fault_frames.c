/* SPDX-License-Identifier: Apache-2.0
 *
 * What was recorded between a daemon and its clients, cut at every byte and with single bytes changed: the
 * daemon ends in order, says why when it must, and never sends half a frame. */
#include "recorded.h"

#include "net/fd.h"
#include "plat/clock.h"
#include "plat/fd.h"
#include "plat/socket.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_full_run(void)
{
    return getenv("TC_FULL") != NULL;
}

static uint32_t next_random(uint32_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 17;
    *seed ^= *seed << 5;
    return *seed;
}

static void on_end(void *user, int status, tc_str message)
{
    rig *r = user;
    r->has_ended = true;
    r->status = status;
    (void)snprintf(r->message, sizeof r->message, "%.*s", TC_STR_ARG(message));
}

/* A new link to the same device, which forgets that it was drained. */
static void new_link(rig *r)
{
    tc_err err;
    int fds[2];
    tci_stream *stream;
    if (r->fd >= 0)
        tci_fd_close(&r->fd);
    r->device->is_draining = false;
    recorded_identity(r->device);
    r->has_ended = false;
    r->in_at = r->in_len = 0;
    tci_frames_init(&r->frames, UINT64_C(1) << 30, UINT64_C(1) << 30);
    assert_int_equal(tci_socket_pair(fds, &err), 0);
    assert_int_equal(tci_fd_stream_new(r->loop, fds[0], fds[0], true, &stream, &err), 0);
    assert_int_equal(tci_stdio_serve(r->device, stream, on_end, r, &r->stdio, &err), 0);
    r->fd = fds[1];
}

static void to_the_end(rig *r)
{
    tc_err err;
    int rc = r->fd < 0 ? 0 : tci_socket_shutdown_write(r->fd, &err);
    TCI_UNUSED(rc); /* the daemon may have closed already */
    rig_wait(r, r->has_ended && r->device->nsessions == 0 && r->device->ninflight == 0);
    r->stdio = NULL;
    rig_nothing_is_torn(r);
    rig_counters_are_zero(r);
}

static void start(rig *r)
{
    rig_prepare(r);
    r->config.has_commands = r->config.full_control = false; /* a changed script must not run */
    rig_start(r);
    tci_fd_close(&r->fd);
    rig_wait(r, r->has_ended);
}

#define INITIALIZE \
    "{\"supported_protocol_versions\":[\"0.3\"],\"client\":{\"name\":\"t\",\"version\":\"1\"}}"

static void test_a_stream_that_ends_inside_a_frame_is_an_error_that_says_so(void **state)
{
    rig r;
    recording all;
    char first[1024];
    TCI_UNUSED(state);
    start(&r);
    recording_load(&all, r.folder);
    size_t first_len = rig_request(&r, false, "initialize", INITIALIZE, first, sizeof first);
    for (size_t i = 0; i < all.nframes; i++) {
        const recorded *f = &all.frames[i];
        if (!f->to_daemon && !f->is_data)
            continue;
        /* Bytes of a body are all alike to a reader of frames; the long run takes each one. */
        size_t step = is_full_run() ? 1 : 1 + f->len / 64;
        for (size_t n = 0; n < f->len;
             n += n < f->head_len + 8 || n + step + 2 >= f->len ? 1 : step) {
            new_link(&r);
            if (!f->is_initialize)
                assert_true(rig_send(&r, first, first_len));
            (void)rig_send(&r, f->bytes, n); /* refused early, if it is one of the wrong ones */
            to_the_end(&r);
            assert_int_equal(r.status, n > 0);
            assert_int_equal(r.message[0] != '\0', n > 0);
        }
    }
    recording_free(&all);
    rig_stop(&r);
}

static void test_a_changed_byte_is_answered_or_ends_the_link_in_order(void **state)
{
    rig r;
    recording all;
    uint32_t seed = 20250101;
    TCI_UNUSED(state);
    start(&r);
    recording_load(&all, r.folder);
    for (size_t i = 0; i < all.nframes; i++) {
        recorded *f = &all.frames[i];
        for (int flips = is_full_run() ? 200 : 8; flips > 0; flips--) {
            size_t at = next_random(&seed) % (flips % 2 == 0 ? f->len : f->head_len);
            char kept = f->bytes[at];
            new_link(&r);
            if (!f->is_initialize) {
                r.next_id = 0;
                rig_open_session(&r);
            }
            f->bytes[at] ^= (char)(1U << next_random(&seed) % 8);
            (void)rig_send(&r, f->bytes, f->len); /* may be refused before its end */
            to_the_end(&r);
            f->bytes[at] = kept;
            assert_int_equal(r.message[0] != '\0', r.status != 0);
        }
    }
    recording_free(&all);
    rig_stop(&r);
}

/* All frames of all conversations one after the other, in pieces of every size: the same daemon. */
static void test_frames_arrive_in_any_pieces(void **state)
{
    rig r;
    recording all;
    TCI_UNUSED(state);
    start(&r);
    recording_load(&all, r.folder);
    for (size_t piece = 1; piece < 2000; piece = piece * 3 + 1) {
        new_link(&r);
        r.next_id = 0;
        rig_open_session(&r);
        for (size_t i = 0; i < all.nframes; i++) {
            const recorded *f = &all.frames[i];
            if (!f->to_daemon || f->is_initialize || f->len == f->head_len ||
                memmem(f->bytes, f->len, "session.close", 13) != NULL)
                continue;
            for (size_t at = 0; at < f->len; at += piece) {
                assert_true(rig_send(&r, f->bytes + at, f->len - at < piece ? f->len - at : piece));
                if (f->len < 4 * piece || at % 64 == 0)
                    rig_turn(&r, 0);
            }
        }
        to_the_end(&r);
        assert_string_equal(r.message, "");
    }
    recording_free(&all);
    rig_stop(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_stream_that_ends_inside_a_frame_is_an_error_that_says_so),
        cmocka_unit_test(test_a_changed_byte_is_answered_or_ends_the_link_in_order),
        cmocka_unit_test(test_frames_arrive_in_any_pieces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
