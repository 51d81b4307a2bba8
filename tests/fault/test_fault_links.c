/* SPDX-License-Identifier: Apache-2.0
 *
 * Clients that do not read, that go away, and that ask while a download fills the pipe: the daemon's memory
 * stays bounded, it goes on when they do, control overtakes data, and a drain ends in time. */
#include "rig.h"

#include "base/hash.h"
#include "plat/clock.h"
#include "plat/fd.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TEXT_MAX = 8 * 1024, MIB = 1024 * 1024 };

#define OP "{\"context\":{\"operation_id\":\"%o\"}"
#define INITIALIZE \
    "{\"supported_protocol_versions\":[\"0.3\"],\"client\":{\"name\":\"t\",\"version\":\"1\"}}"

static char answer[TEXT_MAX];

static size_t resident_bytes(void)
{
    unsigned long all, resident;
    FILE *f = fopen("/proc/self/statm", "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%lu %lu", &all, &resident), 2);
    assert_int_equal(fclose(f), 0);
    return resident * (size_t)sysconf(_SC_PAGESIZE);
}

/* The carrier's limit is 64 MiB of answers. */
static void assert_bounded(size_t before)
{
    size_t after = resident_bytes();
#if defined(__SANITIZE_THREAD__)
    before = after; /* most of it is the sanitizer's own */
#endif
    if (after > before && after - before > 192 * (size_t)MIB)
        fail_msg("%zu MiB are kept for a client that does not read", (after - before) / MIB);
}

/* Nothing happens any more. */
static void until_quiet(rig *r)
{
    for (int quiet = 0; quiet < 20; quiet++) {
        if (tci_loop_pending_jobs(r->loop) > 0)
            quiet = 0;
        rig_turn(r, 1);
    }
}

static void open_readers(rig *r, char handles[][HANDLE_MAX], size_t n)
{
    for (size_t i = 0; i < n; i++) {
        rig_do(r, true, "file.open_reader", OP ",\"path\":{\"path\":\"%d/big\"}}", answer,
               sizeof answer);
        assert_true(rig_text(answer, "reader", handles[i], HANDLE_MAX));
    }
}

static void test_answers_to_a_client_that_does_not_read_are_bounded_and_come_later(void **state)
{
    enum { REQUESTS = 400, OUTPUT = 512 * 1024, SIZE = 3 * MIB };
    rig r;
    seen s;
    char reader[1][HANDLE_MAX];
    static char requests[REQUESTS * 256]; /* arrive in one piece */
    size_t len = 0;
    TCI_UNUSED(state);
    rig_prepare(&r);
    rig_start(&r);
    rig_open_session(&r);
    rig_write_file(&r, "big", SIZE);
    rig_do(&r, true, "process.start",
           OP ",\"request\":{\"command\":{\"kind\":\"shell\",\"profile_id\":\"default\",\"script\":"
              "\"head -c 524288 "
              "/dev/zero\"}}}",
           answer, sizeof answer);
    assert_true(rig_text(answer, "handle", r.handle, sizeof r.handle));
    rig_do(&r, true, "process.wait", OP ",\"handle\":\"%h\",\"condition\":\"tree_cleaned\"}", NULL,
           0);
    open_readers(&r, reader, 1);
    until_quiet(&r);
    size_t before = resident_bytes();

    r.is_reading_off = true;
    assert_true(rig_data(&r, TCI_EIPD_ATTACH, 0, reader[0], 0, NULL, 0));
    for (int i = 0; i < REQUESTS; i++)
        len += rig_request(&r, true, "process.inspect", OP ",\"handle\":\"%h\"}", requests + len,
                           sizeof requests - len);
    assert_true(rig_send(&r, requests, len));
    until_quiet(&r);
    assert_bounded(before);

    r.is_reading_off = false;
    unsigned nanswers = 0;
    uint64_t got = 0;
    bool is_over = false;
    int64_t until = tci_clock_mono_ns() + RIG_PATIENCE_NS;
    while (nanswers < REQUESTS || !is_over) {
        assert_true(tci_clock_mono_ns() < until);
        assert_false(r.has_ended);
        if (!rig_take(&r, &s)) {
            rig_turn(&r, 10);
            continue;
        }
        if (!s.is_data) {
            nanswers++;
            assert_true(s.body.len > OUTPUT);
            assert_int_equal(s.body.ptr[s.body.len - 1], '}');
        } else if (s.data.kind == TCI_EIPD_CHUNK) {
            assert_int_equal(s.data.offset, got);
            got += s.data.payload.len;
            assert_true(rig_data(&r, TCI_EIPD_CREDIT, 0, reader[0], got, NULL, 0));
        } else
            is_over = s.data.kind == TCI_EIPD_END;
    }
    assert_int_equal(got, SIZE);
    rig_stop(&r);
}

/* Each gets a RESET that carries its long names back. */
static void test_a_flood_of_frames_for_nobody_is_bounded(void **state)
{
    enum { NAME = 60000, FRAMES = 6000 };
    rig r;
    seen s;
    TCI_UNUSED(state);
    rig_prepare(&r);
    rig_start(&r);
    rig_open_session(&r);
    char *name = malloc(NAME + 1), *frame = malloc(2 * NAME + 1000);
    assert_true(name != NULL && frame != NULL);
    memset(name, 'x', NAME);
    name[NAME] = '\0';
    tci_eipd e = {.kind = TCI_EIPD_ATTACH, .session = tci_str(name), .handle = tci_str(name)};
    size_t len = tci_frames_put_head(frame, TCI_FRAME_DATA, tci_eipd_frame_len(&e));
    len += tci_eipd_put_head(&e, frame + len);
    size_t before = resident_bytes(), sent = 0, at = 0;
    r.is_reading_off = true;
    int idle = 0;
    while (sent < FRAMES && idle < 50) {
        size_t n = rig_send_some(&r, frame + at, len - at);
        idle = n == 0 ? idle + 1 : 0;
        at += n;
        if (at == len) {
            at = 0;
            sent++;
        }
        rig_turn(&r, n == 0 ? 1 : 0);
    }
    assert_bounded(before);
    assert_in_range(sent, 1, FRAMES - 1); /* it was stopped */
    r.is_reading_off = false;
    assert_true(rig_send(&r, frame + at, len - at));
    sent++;
    for (size_t nresets = 0; nresets < sent;) {
        assert_false(r.has_ended);
        if (!rig_take(&r, &s)) {
            rig_turn(&r, 10);
            continue;
        }
        assert_true(s.is_data && s.data.kind == TCI_EIPD_RESET);
        nresets++;
    }
    free(name);
    free(frame);
    rig_stop(&r);
}

static void test_a_drain_with_blocked_output_ends_and_says_so(void **state)
{
    rig r;
    char readers[8][HANDLE_MAX];
    TCI_UNUSED(state);
    rig_prepare(&r);
    rig_start(&r);
    rig_open_session(&r);
    rig_write_file(&r, "big", 3 * MIB);
    open_readers(&r, readers, 8);
    r.is_reading_off = true;
    for (size_t i = 0; i < 8; i++)
        assert_true(rig_data(&r, TCI_EIPD_ATTACH, 0, readers[i], 0, NULL, 0));
    until_quiet(&r);
    int64_t began = tci_clock_mono_ns();
    tci_stdio_drain(r.stdio);
    rig_wait(&r, r.has_ended);
    assert_true(tci_clock_mono_ns() - began < INT64_C(15000000000)); /* after one second */
    assert_int_equal(r.status, 1);
    assert_string_equal(r.message, "response drain timed out");
    rig_stop(&r);
}

static void test_control_overtakes_data_and_data_is_not_starved(void **state)
{
    enum { READERS = 12, ASKED = 40, PER_DATA = 8 };
    rig r;
    seen s;
    char readers[READERS][HANDLE_MAX];
    static char requests[ASKED * 256];
    size_t len = 0;
    TCI_UNUSED(state);
    rig_prepare(&r);
    rig_start(&r);
    rig_open_session(&r);
    rig_write_file(&r, "big", 3 * MIB);
    open_readers(&r, readers, READERS);
    r.is_reading_off = true;
    for (size_t i = 0; i < READERS; i++)
        assert_true(rig_data(&r, TCI_EIPD_ATTACH, 0, readers[i], 0, NULL, 0));
    until_quiet(&r); /* two blocks of each are made; the pipe is full */
    for (int i = 0; i < ASKED; i++)
        len +=
            rig_request(&r, true, "session.keepalive", "{}", requests + len, sizeof requests - len);
    assert_true(rig_send(&r, requests, len));
    until_quiet(&r);
    r.is_reading_off = false;
    size_t nanswers = 0, bytes_before = 0, run = 0;
    bool was_data = false;
    while (nanswers < ASKED) {
        assert_false(r.has_ended);
        if (!rig_take(&r, &s)) {
            rig_turn(&r, 10);
            continue;
        }
        if (s.is_data && nanswers == 0) {
            bytes_before += s.data.payload.len;
            continue;
        }
        if (s.is_data) {
            assert_false(was_data); /* one at a time */
            run = 0;
        } else {
            nanswers++;
            assert_in_range(++run, 1, PER_DATA);
        }
        was_data = s.is_data;
    }
    /* What was on its way already, and no more: of six megabytes that were ready. */
    assert_in_range(bytes_before, 0, 3 * MIB);
    rig_stop(&r);
}

static void test_a_client_that_goes_away_with_its_answer_unread(void **state)
{
    TCI_UNUSED(state);
    for (int turns = 0; turns < 3; turns++) {
        rig r;
        char text[TEXT_MAX];
        rig_prepare(&r);
        rig_start(&r);
        size_t len = rig_request(&r, false, "initialize", INITIALIZE, text, sizeof text);
        len += rig_request(&r, false, "device.describe", "{}", text + len, sizeof text - len);
        assert_true(rig_send(&r, text, len));
        r.is_reading_off = true;
        for (int i = 0; i < turns; i++)
            rig_turn(&r, 0);
        tci_fd_close(&r.fd);
        rig_stop(&r);
    }
}

/* The budget of a close is over, and what holds the session has not let go: a drain must still end. */
static void test_a_drain_after_an_unclean_close_is_bounded(void **state)
{
    rig r;
    tc_err err;
    TCI_UNUSED(state);
    rig_prepare(&r);
    rig_start(&r);
    rig_open_session(&r);
    tci_session *s = tci_session_find(r.device, tci_str(r.session));
    assert_non_null(s);
    s->ntransfers++; /* stands for work that does not end */
    unsigned id = rig_ask(&r, true, "session.close", "{}");
    rig_wait(&r, s->state == TCI_SESSION_CLOSING);
    assert_int_equal(tci_timer_start(&s->close_limit, 1, &err), 0);
    assert_true(rig_answer(&r, id, answer, sizeof answer));
    assert_non_null(strstr(answer, "\"error\""));
    tci_stdio_drain(r.stdio);
    assert_true(tci_timer_is_armed(&s->close_limit));
    assert_int_equal(tci_timer_start(&s->close_limit, 1, &err), 0);
    rig_wait(&r, r.has_ended);
    assert_int_equal(r.status, 1);
    assert_string_equal(r.message, "Device cleanup incomplete");
    s->ntransfers--;
    tci_session_check_closed(s);
    rig_stop(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers_to_a_client_that_does_not_read_are_bounded_and_come_later),
        cmocka_unit_test(test_a_flood_of_frames_for_nobody_is_bounded),
        cmocka_unit_test(test_a_drain_with_blocked_output_ends_and_says_so),
        cmocka_unit_test(test_control_overtakes_data_and_data_is_not_starved),
        cmocka_unit_test(test_a_client_that_goes_away_with_its_answer_unread),
        cmocka_unit_test(test_a_drain_after_an_unclean_close_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
