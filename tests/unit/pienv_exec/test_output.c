/* SPDX-License-Identifier: Apache-2.0
 *
 * Output on its way: text, windows, the file, and a reader who does not keep up. */
#include "collect.h"

#include "plat/clock.h"
#include "plat/file.h"

#include <stdio.h>
#include <unistd.h>

static void case_22_a_character_in_two_writes(void **state)
{
    pi_peer *p = *state;
    output o;
    run(p, &o,
        "\"command\":\"printf '\\\\344'; printf '\\\\303' >&2; sleep 0.3; printf "
        "'\\\\270\\\\255\\\\344'; printf '\\\\251' >&2\"");
    assert_out(&o, "\xe4\xb8\xad\xef\xbf\xbd");
    assert_err(&o, "\xc3\xa9");
    output_done(&o);
}

static void raw_bytes_for_our_own_end(void **state)
{
    pi_peer *p = *state;
    output o;
    run(p, &o, "\"command\":\"printf '\\\\357\\\\273\\\\277\\\\377\\\\000x'\",\"raw\":true");
    assert_text(&o.out, TC_STR("\xef\xbb\xbf\xff\0x"));
    output_done(&o);
    run(p, &o, "\"command\":\"printf '\\\\357\\\\273\\\\277\\\\377\\\\000x'\"");
    assert_text(&o.out, TC_STR("\xef\xbf\xbd\0x"));
    output_done(&o);
}

static void small_writes_share_events(void **state)
{
    pi_peer *p = *state;
    output o;
    run(p, &o, "\"command\":\"seq 1 200000\"");
    assert_int_equal(tci_str_count_byte(tci_buf_str(&o.out), '\n'), 200000);
    assert_true(tci_str_ends(tci_buf_str(&o.out), TC_STR("\n199999\n200000\n")));
    assert_true(o.nevents < 1500); /* 1.3 MB */
    output_done(&o);
}

/* ---- windows ---- */

static void run_windowed(pi_peer *p, output *o, const char *command, uint64_t most_bytes,
                         uint64_t most_lines, const char *pace)
{
    *o = (output){.most_bytes = most_bytes, .most_lines = most_lines};
    uint32_t id =
        start(p, "\"command\":\"%s\",\"window\":{\"maxBytes\":%llu,\"maxLines\":%llu,%s}", command,
              (unsigned long long)most_bytes, (unsigned long long)most_lines, pace);
    collect(p, id, o);
    assert_exit(o, 0);
}

static void check_total(const output *o, uint64_t nbytes, uint64_t nlines)
{
    assert_int_equal(o->all.len + o->skipped_bytes, nbytes);
    assert_int_equal(tci_str_count_byte(tci_buf_str(&o->all), '\n') + o->skipped_newlines, nlines);
}

static void two_thousand_lines_through_a_window(void **state)
{
    output o;
    run_windowed(*state, &o, "i=0; while [ $i -lt 2000 ]; do echo line $i; i=$((i+1)); done", 200,
                 5, "\"minIntervalMs\":0,\"bytesPerSecond\":1000000000");
    check_total(&o, 10 * 7 + 90 * 8 + 900 * 9 + 1000 * 10, 2000);
    assert_true(tci_str_ends(tci_buf_str(&o.tail),
                             TC_STR("line 1995\nline 1996\nline 1997\nline 1998\nline 1999\n")));
    output_done(&o);
}

static void five_megabytes_through_a_window(void **state)
{
    output o;
    run_windowed(*state, &o, "yes 0123456789abcdef | head -c 5000000", 1000, 20,
                 "\"minIntervalMs\":200,\"bytesPerSecond\":1000000");
    check_total(&o, 5000000, 5000000 / 17);
    assert_true(o.nskips > 0);
    assert_true(o.all.len < 500000);
    assert_true(o.tail.len > 1000 || tci_str_count_byte(tci_buf_str(&o.tail), '\n') > 20);
    for (size_t i = 0; i < o.tail.len; i++) /* the true tail */
        assert_int_equal(o.tail.ptr[o.tail.len - 1 - i],
                         "0123456789abcdef\n"[(5000000 - 1 - i) % 17]);
    output_done(&o);
}

static void little_output_passes_a_window_unchanged(void **state)
{
    output o;
    run_windowed(*state, &o, "echo a; sleep 0.1; echo b >&2; sleep 0.1; echo c", 1000, 20,
                 "\"minIntervalMs\":1,\"bytesPerSecond\":1000000000");
    assert_out(&o, "a\nc\n");
    assert_err(&o, "b\n");
    assert_int_equal(o.nskips, 0);
    output_done(&o);
}

/* The rest comes at the end, however long the next delivery would have to wait. */
static void a_slow_window_does_not_hold_up_the_end(void **state)
{
    output o;
    int64_t begun_ns = tci_clock_mono_ns();
    run_windowed(*state, &o, "seq 1 20000", 100000, 100000,
                 "\"minIntervalMs\":600000,\"bytesPerSecond\":-1");
    assert_true(tci_clock_mono_ns() - begun_ns < INT64_C(60000000000));
    check_total(&o, 108894, 20000);
    assert_int_equal(o.nskips, 0);
    output_done(&o);
}

/* Too large to leave anything out: as without a window. */
static void a_window_larger_than_a_frame(void **state)
{
    output o;
    run_windowed(*state, &o, "head -c 40000000 /dev/zero | tr '\\\\0' x", 100000000, 100000000,
                 "\"minIntervalMs\":0,\"bytesPerSecond\":1000000000");
    check_total(&o, 40000000, 0);
    assert_int_equal(o.nskips, 0);
    output_done(&o);
}

/* ---- a reader who does not keep up ---- */

static void turn_for(pi_peer *p, int64_t for_ms)
{
    int64_t end_ns = tci_clock_mono_ns() + for_ms * 1000000;
    while (tci_clock_mono_ns() < end_ns)
        tci_loop_turn(p->loop, 10); /* the server works, the peer does not read */
}

static void a_command_waits_for_its_reader(void **state)
{
    pi_peer *p = *state;
    output o = {0};
    uint32_t id =
        start(p, "\"command\":\"head -c 20000000 /dev/zero | tr '\\\\0' x; touch all_out\"");
    turn_for(p, 300);
    assert_false(is_file("all_out"));
    uint32_t quick = pi_peer_send(p, "{\"op\":\"lstat\",\"path\":\"/\"}");
    for (int i = 0; i < 20; i++)
        tci_loop_turn(p->loop, 10);
    while (tci_loop_pending_jobs(p->loop) > 0)
        tci_loop_turn(p->loop, 10);
    size_t before = 0; /* output that came before the small answer */
    while (!pi_peer_has(p, quick)) {
        pi_frame *f = pi_peer_next(p, id);
        before += f->payload.len;
        pi_frame_free(f);
    }
    assert_true(before < 3 * 1024 * 1024);
    pi_frame_free(pi_peer_answer(p, quick));
    collect(p, id, &o);
    assert_exit(&o, 0);
    assert_int_equal(before + o.out.len, 20000000);
    assert_true(is_file("all_out"));
    (void)unlink("all_out");
    output_done(&o);
}

static void an_abort_ends_a_command_that_waits_for_its_reader(void **state)
{
    pi_peer *p = *state;
    output o = {0};
    uint32_t id = start(p, "\"command\":\"yes\"");
    turn_for(p, 200);
    pi_peer_cancel(p, id, false);
    collect(p, id, &o);
    assert_code(&o, "aborted");
    assert_true(o.out.len < 16 * 1024 * 1024);
    output_done(&o);
}

/* ---- the file ---- */

static void read_spilled(const output *o, tci_buf *text)
{
    tc_err err;
    char *bytes;
    size_t len;
    tc_str path = pi_frame_str(o->answer, "spillPath");
    assert_int_equal(tci_file_read_whole(TCI_FILE_CWD, path, 1 << 26, &bytes, &len, &err), 0);
    tci_buf_init(text, TCI_BUF_MAX);
    tci_buf_append(text, bytes, len);
    tci_free(bytes);
    tci_file_discard(TCI_FILE_CWD, path);
    tc_str folder, name;
    tci_path_split(path, &folder, &name);
    int rc = tci_file_rmdir(TCI_FILE_CWD, folder, &err);
    assert_int_equal(rc, 0);
}

static void long_output_goes_to_a_file_too(void **state)
{
    pi_peer *p = *state;
    output o;
    tci_buf text;
    run(p, &o,
        "\"command\":\"seq 1 15000\",\"spill\":{\"afterBytes\":10000000,\"afterLines\":2000}");
    assert_exit(&o, 0);
    read_spilled(&o, &text);
    assert_text(&text, tci_buf_str(&o.out));
    assert_int_equal(tci_str_count_byte(tci_buf_str(&text), '\n'), 15000);
    tci_buf_done(&text);
    output_done(&o);
    run(p, &o, "\"command\":\"seq 1 20\",\"spill\":{\"afterBytes\":51,\"afterLines\":20}");
    assert_null(pi_frame_get(o.answer, "spillPath"));
    output_done(&o);
}

static void the_file_is_whole_although_the_window_is_not(void **state)
{
    pi_peer *p = *state;
    output o = {.most_bytes = 1000, .most_lines = 20};
    tci_buf text;
    uint32_t id =
        start(p, "\"command\":\"seq 1 100000\",\"spill\":{\"afterBytes\":100,\"afterLines\":10},"
                 "\"window\":{\"maxBytes\":1000,\"maxLines\":20,\"minIntervalMs\":20,"
                 "\"bytesPerSecond\":100000}");
    collect(p, id, &o);
    read_spilled(&o, &text);
    assert_int_equal(text.len, 588895);
    check_total(&o, 588895, 100000);
    assert_true(tci_str_ends(tci_buf_str(&text), tci_buf_str(&o.tail)));
    tci_buf_done(&text);
    output_done(&o);
}

static void the_file_is_told_of_after_an_abort(void **state)
{
    pi_peer *p = *state;
    output o = {0};
    tci_buf text;
    uint32_t id = start(p, "\"command\":\"echo some text; sleep 300\",\"spill\":{\"afterBytes\":1,"
                           "\"afterLines\":10}");
    pi_frame_free(pi_peer_next(p, id)); /* the text */
    pi_peer_cancel(p, id, false);
    collect(p, id, &o);
    assert_code(&o, "aborted");
    read_spilled(&o, &text);
    assert_text(&text, TC_STR("some text\n"));
    tci_buf_done(&text);
    output_done(&o);
}

int run_output_tests(void)
{
    const struct CMUnitTest tests[] = {
        WITH_FOREIGN(case_22_a_character_in_two_writes),
        WITH_OURS(raw_bytes_for_our_own_end),
        WITH_FOREIGN(small_writes_share_events),
        WITH_FOREIGN(two_thousand_lines_through_a_window),
        WITH_FOREIGN(five_megabytes_through_a_window),
        WITH_FOREIGN(little_output_passes_a_window_unchanged),
        WITH_FOREIGN(a_slow_window_does_not_hold_up_the_end),
        WITH_FOREIGN(a_window_larger_than_a_frame),
        WITH_FOREIGN(a_command_waits_for_its_reader),
        WITH_FOREIGN(an_abort_ends_a_command_that_waits_for_its_reader),
        WITH_FOREIGN(long_output_goes_to_a_file_too),
        WITH_FOREIGN(the_file_is_whole_although_the_window_is_not),
        WITH_FOREIGN(the_file_is_told_of_after_an_abort),
    };
    return cmocka_run_group_tests_name("output", tests, NULL, NULL);
}
