/* SPDX-License-Identifier: Apache-2.0
 *
 * Frames in and out: what is no frame, what is no request, cut input, pings, and who goes first. */
#include "pienv_peer.h"

#include "base/num.h"
#include "plat/proc.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void the_sync_line_comes_first_and_hello_tells_who_is_there(void **state)
{
    pi_peer p;
    (void)state;
    assert_int_equal(setenv("TMP", "/var/tmp/", 1), 0);
    const char *before = getenv("TMPDIR");
    assert_int_equal(unsetenv("TMPDIR"), 0);
    pi_peer_open_bare(&p, NULL);
    pi_frame *f = pi_peer_call(&p, "{\"op\":\"hello\",\"protocol\":1}");
    assert_int_equal(pi_frame_u64(f, "protocol"), 1);
    assert_int_equal(pi_frame_u64(f, "pid"), (uint64_t)getpid());
    assert_true(tci_str_eq(pi_frame_str(f, "os"), TC_STR("linux")));
    assert_true(tci_str_eq(pi_frame_str(f, "separator"), TC_STR("/")));
    assert_true(tci_str_eq(pi_frame_str(f, "tmpdir"), TC_STR("/var/tmp")));
    assert_true(tci_str_eq(pi_frame_str(f, "home"), tci_str(getenv("HOME"))));
    assert_non_null(pi_frame_get(f, "driveCwds"));
    char here[4096];
    assert_non_null(getcwd(here, sizeof here));
    assert_true(tci_str_eq(pi_frame_str(f, "cwd"), tci_str(here)));
    assert_null(pi_frame_get(f, "tc_ext")); /* it was not asked for */
    pi_frame_free(f);
    assert_int_equal(pi_peer_finish(&p), TCI_PI_END_EOF);
    assert_true(p.was_clean);
    pi_peer_close(&p);
    if (before != NULL)
        assert_int_equal(setenv("TMPDIR", before, 1), 0);
}

static void the_extensions_are_there_only_when_asked_for(void **state)
{
    pi_peer p;
    (void)state;
    pi_peer_open(&p, false, NULL);
    pi_peer_call_fails(&p, "EINVAL", "{\"op\":\"syncfs\",\"path\":\"/\"}");
    pi_frame *f = pi_peer_call(&p, "{\"op\":\"lstat\",\"path\":\"/\",\"follow\":true}");
    assert_null(pi_frame_get(f, "mode"));
    pi_frame_free(f);
    pi_peer_close(&p);
    pi_peer_open(&p, true, NULL);
    f = pi_peer_call(&p, "{\"op\":\"lstat\",\"path\":\"/\",\"follow\":true}");
    assert_non_null(pi_frame_get(f, "mode"));
    pi_frame_free(f);
    pi_peer_close(&p);
}

/* ---- what is no frame ---- */

static void ends_with(const char *bytes, size_t len, tci_pi_end how, bool at_eof)
{
    pi_peer p;
    pi_peer_open(&p, false, NULL);
    pi_peer_send_raw(&p, bytes, len);
    int is = at_eof ? pi_peer_finish(&p) : pi_peer_wait_end(&p);
    assert_int_equal(is, how);
    assert_true(p.was_clean);
    pi_peer_close(&p);
}

static void what_is_no_frame_ends_the_connection(void **state)
{
    (void)state;
    ends_with("\0\0\0\x08", 4, TCI_PI_END_BROKEN, false);   /* too short */
    ends_with("\x01\0\0\x01", 4, TCI_PI_END_BROKEN, false); /* too long */
    ends_with("\xff\xff\xff\xff\x01\0\0\0\1\0\0\0\0", 13, TCI_PI_END_BROKEN, false);
    ends_with("\0\0\0\x0b\x01\0\0\0\1\0\0\0\x03{}", 15, TCI_PI_END_BROKEN, false); /* JSON longer */
}

static void the_end_of_input_is_clean_only_between_frames(void **state)
{
    static const char frame[] = "\0\0\0\x0b\x06\0\0\0\0\0\0\0\x02{}";
    (void)state;
    for (size_t n = 0; n < 4; n++)
        ends_with(frame, n, TCI_PI_END_EOF, true);
    for (size_t n = 4; n < sizeof frame - 1; n++)
        ends_with(frame, n, TCI_PI_END_BROKEN, true);
    ends_with(frame, sizeof frame - 1, TCI_PI_END_EOF, true);
    /* in the middle of one that is gathered in a block of its own */
    static char large[100000] = "\0\x0f\xff\xff\x01\0\0\0\1\0\0\0\x02{}";
    ends_with(large, sizeof large, TCI_PI_END_BROKEN, true);
}

/* ---- what is no request ---- */

static void answers(pi_peer *p, const char *json, const char *code, const char *message)
{
    uint32_t id = ++p->last_id;
    pi_peer_send_frame(p, TCI_PIENV_REQUEST, id, tci_str(json), TC_STR(""));
    pi_frame *f = pi_peer_answer(p, id);
    pi_frame_is_error(f, code);
    tc_str text = pi_frame_str(f, "message");
    if (tci_str_find(text, tci_str(message)) == text.len && message[0] != '\0')
        fail_msg("%s: %s", json, f->json);
    pi_frame_free(f);
}

static void odd_requests_are_answered_and_the_connection_goes_on(void **state)
{
    pi_peer p;
    (void)state;
    pi_peer_open(&p, false, NULL);
    answers(&p, "", "EINVAL", "unknown operation");
    answers(&p, "{\"op\":", "EINVAL", "invalid JSON");
    answers(&p, "{\"op\":\"\xff\"}", "EINVAL", "invalid JSON");
    answers(&p, "null", "EINVAL", "invalid JSON");
    answers(&p, "[]", "EINVAL", "unknown operation");
    answers(&p, "7", "EINVAL", "unknown operation");
    answers(&p, "\"lstat\"", "EINVAL", "unknown operation");
    answers(&p, "{}", "EINVAL", "unknown operation");
    answers(&p, "{\"op\":7}", "EINVAL", "unknown operation");
    answers(&p, "{\"op\":\"fly\"}", "EINVAL", "unknown operation fly");
    answers(&p, "{\"op\":\"lstat\"}", "EINVAL", "path");
    answers(&p, "{\"op\":\"lstat\",\"path\":5}", "EINVAL", "path");
    answers(&p, "{\"op\":\"truncate\",\"path\":\"/x\",\"size\":-1}", "EINVAL", "size");
    answers(&p, "{\"op\":\"truncate\",\"path\":\"/x\",\"size\":1.5}", "EINVAL", "size");
    answers(&p, "{\"op\":\"pread\",\"handle\":\"1\",\"length\":1}", "EINVAL", "handle");
    pi_frame_free(
        pi_peer_call(&p, "{\"op\":\"lstat\",\"path\":\"/\",\"more\":[1,{}],\"follow\":5}"));
    /* frames of other types, and cancels of nothing */
    pi_peer_send_frame(&p, 0, 1, TC_STR("{}"), TC_STR(""));
    pi_peer_send_frame(&p, 7, 1, TC_STR("no JSON"), TC_STR("x"));
    pi_peer_send_frame(&p, 64, 0, TC_STR("{\"open\":true}"), TC_STR("x"));
    pi_peer_send_frame(&p, 255, 1, TC_STR(""), TC_STR(""));
    pi_peer_send_frame(&p, TCI_PIENV_RESULT, 1, TC_STR("{}"), TC_STR(""));
    pi_peer_send_frame(&p, TCI_PIENV_PING, 0, TC_STR("{}"), TC_STR(""));
    pi_peer_cancel(&p, 4711, false);
    pi_peer_cancel(&p, 4711, true);
    pi_frame_free(pi_peer_call(&p, "{\"op\":\"lstat\",\"path\":\"/\"}"));
    assert_int_equal(pi_peer_finish(&p), TCI_PI_END_EOF);
    pi_peer_close(&p);
}

static void a_cancel_that_is_no_json_is_a_plain_one(void **state)
{
    pi_peer p;
    (void)state;
    pi_peer_open(&p, false, NULL);
    uint32_t id = pi_peer_send(&p, "{\"op\":\"exec\",\"command\":\"sleep 60\",\"cwd\":\"/\"}");
    pi_peer_send_frame(&p, TCI_PIENV_CANCEL, id, TC_STR("{\"mode\":"), TC_STR(""));
    pi_frame *f = pi_peer_answer(&p, id);
    pi_frame_is_error(f, "aborted");
    pi_frame_free(f);
    pi_peer_close(&p);
}

/* ---- input in pieces ---- */

static size_t put_request(tci_buf *b, uint32_t id, const char *json, tc_str payload)
{
    tc_err err;
    char head[TCI_PIENV_HEAD_BYTES];
    tci_pienv_head h = {.type = TCI_PIENV_REQUEST,
                        .id = id,
                        .json_len = (uint32_t)strlen(json),
                        .payload_len = (uint32_t)payload.len};
    assert_int_equal(tci_pienv_head_put(&h, head, &err), 0);
    tci_buf_append(b, head, sizeof head);
    tci_buf_append(b, json, strlen(json));
    tci_buf_append_str(b, payload);
    return b->len;
}

static void input_may_be_cut_anywhere(void **state)
{
    pi_peer p;
    tci_buf b;
    (void)state;
    tci_buf_init(&b, TCI_BUF_MAX);
    put_request(&b, 1000001, "{\"op\":\"write\",\"path\":\"cut\"}", TC_STR("some bytes"));
    put_request(&b, 1000002, "{\"op\":\"lstat\",\"path\":\"nothing here\"}", TC_STR(""));
    put_request(&b, 1000003, "{\"op\":\"realpath\",\"path\":\"/\"}", TC_STR(""));
    pi_peer_open(&p, false, NULL);
    for (size_t cut = 1; cut < b.len; cut++) {
        pi_peer_send_raw(&p, b.ptr, cut);
        pi_peer_turn(&p, 0);
        pi_peer_turn(&p, 0);
        pi_peer_send_raw(&p, b.ptr + cut, b.len - cut);
        pi_frame *one = pi_peer_answer(&p, 1000001), *two = pi_peer_answer(&p, 1000002),
                 *three = pi_peer_answer(&p, 1000003);
        assert_int_equal(one->type, TCI_PIENV_RESULT);
        pi_frame_is_error(two, "ENOENT");
        assert_true(tci_str_eq(pi_frame_str(three, "path"), TC_STR("/")));
        pi_frame_free(one);
        pi_frame_free(two);
        pi_frame_free(three);
    }
    pi_peer_close(&p);
    tci_buf_done(&b);
}

/* ---- life ---- */

static void pings_come_and_silence_ends_and_kills(void **state)
{
    pi_peer p;
    tci_pi_options o = {.ping_ms = 10, .silence_ms = 2000};
    (void)state;
    pi_peer_open(&p, false, &o);
    uint32_t id =
        pi_peer_send(&p, "{\"op\":\"exec\",\"command\":\"echo $$; exec sleep 600\",\"cwd\":\"/\"}");
    while (!pi_peer_has(&p, id)) { /* not silent until it runs */
        pi_peer_send_frame(&p, TCI_PIENV_PING, 0, TC_STR("{}"), TC_STR(""));
        pi_peer_turn(&p, 5);
    }
    pi_frame *f = pi_peer_next(&p, id);
    uint64_t pid;
    tc_str text = f->payload;
    assert_true(text.len > 1);
    tc_err err;
    assert_int_equal(tci_num_u64(tci_str_sub(text, 0, text.len - 1), &pid, &err), 0);
    pi_frame_free(f);
    f = pi_peer_next_of(&p, TCI_PIENV_PING);
    assert_int_equal(f->id, 0);
    assert_string_equal(f->json, "{}");
    pi_frame_free(f);
    assert_int_equal(pi_peer_wait_end(&p), TCI_PI_END_SILENCE);
    tci_proc_stat st;
    assert_false(tci_proc_stat_read((int)pid, &st) && st.state != 'Z');
    pi_peer_close(&p);
}

static void a_byte_of_a_frame_is_a_sign_of_life(void **state)
{
    pi_peer p;
    tci_pi_options o = {.ping_ms = 100, .silence_ms = 2000};
    (void)state;
    tci_buf b;
    tci_buf_init(&b, TCI_BUF_MAX);
    put_request(&b, 1000000, "{\"op\":\"lstat\",\"path\":\"/\"}", TC_STR(""));
    pi_peer_open(&p, false, &o);
    for (size_t i = 0; i < b.len; i++) {
        pi_frame_free(pi_peer_next_of(&p, TCI_PIENV_PING)); /* much later than 2 s in all */
        pi_peer_send_raw(&p, b.ptr + i, 1);
    }
    pi_frame *f = pi_peer_answer(&p, 1000000);
    assert_int_equal(f->type, TCI_PIENV_RESULT);
    pi_frame_free(f);
    pi_peer_close(&p);
    tci_buf_done(&b);
}

/* The server does nothing for longer than the peer may be silent; what was said meanwhile is read first. */
static void who_was_held_up_looks_before_it_judges(void **state)
{
    pi_peer p;
    tci_pi_options o = {.ping_ms = 10, .silence_ms = 2000};
    (void)state;
    pi_peer_open(&p, false, &o);
    uint32_t id = pi_peer_send(&p, "{\"op\":\"lstat\",\"path\":\"/\"}");
    assert_int_equal(poll(NULL, 0, 2500), 0); /* its loop is ours */
    pi_frame *f = pi_peer_answer(&p, id);
    assert_int_equal(f->type, TCI_PIENV_RESULT);
    pi_frame_free(f);
    pi_peer_close(&p);
}

/* ---- who goes first ---- */

static void small_answers_do_not_wait_behind_output(void **state)
{
    pi_peer p;
    uint64_t before = 0, after = 0;
    (void)state;
    pi_peer_open(&p, false, NULL);
    uint32_t id = pi_peer_send(
        &p,
        "{\"op\":\"exec\",\"command\":\"head -c 8000000 /dev/zero | tr '\\\\0' x\",\"cwd\":\"/\"}");
    int fd = p.fd_in;
    p.fd_in = -1; /* nobody reads until the output has filled everything */
    for (int i = 0; i < 400; i++)
        tci_loop_turn(p.loop, 5);
    uint32_t small = pi_peer_send(&p, "{\"op\":\"lstat\",\"path\":\"/\"}");
    for (int i = 0; i < 20; i++)
        tci_loop_turn(p.loop, 5);
    while (tci_loop_pending_jobs(p.loop) > 0)
        tci_loop_turn(p.loop, 5);
    p.fd_in = fd;
    bool has_small = false;
    for (;;) {
        if (!has_small && pi_peer_has(&p, small)) {
            has_small = true;
            for (const pi_frame *f = p.frames; f != NULL && f->id != small; f = f->next)
                before += f->payload.len;
        }
        pi_frame *f = pi_peer_next(&p, id);
        after += f->payload.len;
        bool is_end = f->type != TCI_PIENV_EVENT;
        pi_frame_free(f);
        if (is_end)
            break;
    }
    assert_int_equal(after, 8000000);
    assert_true(has_small);
    assert_true(before < 2000000); /* what was in the socket, and one frame */
    pi_frame_free(pi_peer_answer(&p, small));
    pi_peer_close(&p);
}

static void many_requests_at_once_are_all_answered(void **state)
{
    enum { N = 3000 };
    pi_peer p;
    uint32_t ids[N];
    (void)state;
    pi_peer_open(&p, false, NULL);
    for (int i = 0; i < N; i++)
        ids[i] =
            i % 3 == 0 ? pi_peer_send(&p, "{\"op\":\"lstat\",\"path\":\"/\"}")
            : i % 3 == 1
                ? pi_peer_send(&p, "{\"op\":\"write\",\"path\":\"many-%d\",\"parents\":false}", i)
                : pi_peer_send(&p, "{\"op\":\"open\",\"path\":\"/missing-%d\"}", i);
    for (int i = 0; i < N; i++) {
        pi_frame *f = pi_peer_answer(&p, ids[i]);
        assert_int_equal(f->type, i % 3 == 2 ? TCI_PIENV_ERROR : TCI_PIENV_RESULT);
        pi_frame_free(f);
    }
    pi_peer_close(&p);
}

/* The answer would not fit into a frame: it is an error, and the server goes on. */
static void no_answer_is_longer_than_a_frame(void **state)
{
    pi_peer p;
    tci_buf path;
    (void)state;
    pi_peer_open(&p, false, NULL);
    tci_buf_init(&path, TCI_BUF_MAX);
    tci_buf_append_str(&path, TC_STR("{\"op\":\"lstat\",\"path\":\""));
    for (int i = 0; i < 9000000; i++)
        tci_buf_append_byte(&path, 'x');
    tci_buf_append_str(&path, TC_STR("\"}"));
    uint32_t id = ++p.last_id;
    pi_peer_send_frame(&p, TCI_PIENV_REQUEST, id, tci_buf_str(&path), TC_STR(""));
    pi_frame *f = pi_peer_answer(&p, id);
    pi_frame_is_error(f, "ENAMETOOLONG");
    pi_frame_free(f);
    tci_buf_done(&path);
    pi_frame_free(pi_peer_call(&p, "{\"op\":\"lstat\",\"path\":\"/\"}"));
    pi_peer_close(&p);
}

/* However little memory there is: the connection ends or goes on, and nothing is lost or used twice. */
static void memory_may_run_out_at_any_time(void **state)
{
    static const char *const requests[] = {
        "{\"op\":\"write\",\"path\":\"mem/f\",\"keep\":true}",
        "{\"op\":\"lstat\",\"path\":\"mem/f\"}",
        "{\"op\":\"open\",\"path\":\"mem/f\"}",
        "{\"op\":\"writeChunk\",\"handle\":1}",
        "{\"op\":\"write\",\"path\":\"mem/g\",\"atomic\":true}",
        "{\"op\":\"opendir\",\"path\":\"mem\"}",
        "{\"op\":\"readdir\",\"handle\":2,\"max\":9}",
        "{\"op\":\"listFiles\",\"path\":\"mem\"}",
        "{\"op\":\"rm\",\"path\":\"mem\",\"recursive\":true}",
        "{\"op\":\"pread\",\"handle\":1,\"offset\":0,\"length\":500000}",
    };
    tci_buf b;
    (void)state;
    tci_buf_init(&b, TCI_BUF_MAX);
    for (size_t i = 0; i < TCI_ARRAY_LEN(requests); i++)
        put_request(&b, 2000000 + (uint32_t)i, requests[i], TC_STR("payload"));
    for (size_t n = 1; n < 150; n++) {
        pi_peer p;
        pi_peer_open(&p, true, NULL);
        tci_mem_fail_at(n);
        pi_peer_send_raw(&p, b.ptr, b.len);
        for (int i = 0; i < 12; i++)
            tci_loop_turn(p.loop, 1);
        tci_mem_fail_at(0);
        pi_peer_close(&p);
    }
    tci_buf_done(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_sync_line_comes_first_and_hello_tells_who_is_there),
        cmocka_unit_test(the_extensions_are_there_only_when_asked_for),
        cmocka_unit_test(what_is_no_frame_ends_the_connection),
        cmocka_unit_test(the_end_of_input_is_clean_only_between_frames),
        cmocka_unit_test(odd_requests_are_answered_and_the_connection_goes_on),
        cmocka_unit_test(a_cancel_that_is_no_json_is_a_plain_one),
        cmocka_unit_test(input_may_be_cut_anywhere),
        cmocka_unit_test(pings_come_and_silence_ends_and_kills),
        cmocka_unit_test(a_byte_of_a_frame_is_a_sign_of_life),
        cmocka_unit_test(who_was_held_up_looks_before_it_judges),
        cmocka_unit_test(small_answers_do_not_wait_behind_output),
        cmocka_unit_test(many_requests_at_once_are_all_answered),
        cmocka_unit_test(no_answer_is_longer_than_a_frame),
        cmocka_unit_test(memory_may_run_out_at_any_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
