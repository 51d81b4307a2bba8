/* SPDX-License-Identifier: Apache-2.0
 *
 * Standard input of a command. */
#include "collect.h"

#include <string.h>

enum { CHUNK = 512 * 1024, NCHUNKS = 8 };

static uint32_t send_input(pi_peer *p, uint32_t exec, tc_str bytes, bool is_last)
{
    return pi_peer_send_with(p, bytes, "{\"op\":\"input\",\"exec\":%u%s}", exec,
                             is_last ? ",\"end\":true" : "");
}

static void input_reaches_the_command(void **state)
{
    pi_peer *p = *state;
    output o = {0};
    uint32_t id = start(p, "\"command\":\"cat\",\"stdin\":true");
    pi_frame *f = pi_peer_answer(p, send_input(p, id, TC_STR("one\n"), false));
    assert_int_equal(f->type, TCI_PIENV_RESULT);
    pi_frame_free(f);
    f = pi_peer_next(p, id);
    assert_true(tci_str_eq(f->payload, TC_STR("one\n"))); /* before there is more */
    pi_frame_free(f);
    uint32_t two = send_input(p, id, TC_STR("two\n"), false);
    uint32_t three = send_input(p, id, TC_STR("three\n"), true);
    uint32_t late = send_input(p, id, TC_STR("late\n"), false);
    pi_frame_free(pi_peer_answer(p, two));
    pi_frame_free(pi_peer_answer(p, three));
    f = pi_peer_answer(p, late);
    pi_frame_is_error(f, "EBADF");
    pi_frame_free(f);
    collect(p, id, &o);
    assert_out(&o, "two\nthree\n");
    assert_exit(&o, 0);
    output_done(&o);
    pi_peer_call_fails(p, "EBADF", "{\"op\":\"input\",\"exec\":%u}", id);
}

static void no_input_where_none_is_taken(void **state)
{
    pi_peer *p = *state;
    output o = {0};
    pi_peer_call_fails(p, "EBADF", "{\"op\":\"input\",\"exec\":99}");
    pi_peer_call_fails(p, "EBADF", "{\"op\":\"input\",\"exec\":99999999999}");
    pi_peer_call_fails(p, "EINVAL", "{\"op\":\"input\"}");
    uint32_t id = start(p, "\"command\":\"sleep 300\"");
    pi_peer_call_fails(p, "EBADF", "{\"op\":\"input\",\"exec\":%u}", id);
    pi_peer_cancel(p, id, false);
    collect(p, id, &o);
    output_done(&o);
}

static void much_input_to_a_slow_reader(void **state)
{
    pi_peer *p = *state;
    output o = {0};
    static char bytes[CHUNK];
    uint32_t ids[NCHUNKS];
    memset(bytes, 'x', sizeof bytes);
    uint32_t id = start(p, "\"command\":\"sleep 0.3; wc -c\",\"stdin\":true");
    for (int i = 0; i < NCHUNKS; i++)
        ids[i] = send_input(p, id, tci_str_of(bytes, sizeof bytes), i == NCHUNKS - 1);
    for (int i = 0; i < NCHUNKS; i++) {
        pi_frame *f = pi_peer_answer(p, ids[i]);
        assert_int_equal(f->type, TCI_PIENV_RESULT);
        pi_frame_free(f);
    }
    collect(p, id, &o);
    assert_out(&o, "4194304\n");
    output_done(&o);
}

static void case_11_a_command_that_does_not_read(void **state)
{
    pi_peer *p = *state;
    output o = {0};
    static char bytes[CHUNK];
    uint32_t ids[NCHUNKS];
    uint32_t id = start(p, "\"command\":\"exit 3\",\"stdin\":true");
    for (int i = 0; i < NCHUNKS; i++)
        ids[i] = send_input(p, id, tci_str_of(bytes, sizeof bytes), false);
    for (int i = 0; i < NCHUNKS; i++) {
        pi_frame *f = pi_peer_answer(p, ids[i]);
        if (i > 0) /* more than a pipe holds */
            pi_frame_is_error(f, "EBADF");
        pi_frame_free(f);
    }
    collect(p, id, &o);
    assert_exit(&o, 3);
    output_done(&o);
}

static void a_full_pipe_does_not_outlive_its_command(void **state)
{
    pi_peer *p = *state;
    output o = {0};
    static char bytes[CHUNK];
    uint32_t id = start(p, "\"command\":\"sleep 300\",\"stdin\":true");
    uint32_t in = send_input(p, id, tci_str_of(bytes, sizeof bytes), true);
    pi_peer_cancel(p, in, false); /* no effect */
    pi_peer_cancel(p, id, true);
    pi_frame *f = pi_peer_answer(p, in);
    pi_frame_is_error(f, "EBADF");
    pi_frame_free(f);
    collect(p, id, &o);
    assert_exit(&o, 137);
    output_done(&o);
}

/* More than anybody should have on its way is refused; the connection goes on. */
static void far_too_much_input(void **state)
{
    pi_peer *p = *state;
    enum { MANY = 40 };
    output o = {0};
    static char bytes[CHUNK];
    uint32_t ids[MANY];
    uint32_t id = start(p, "\"command\":\"sleep 300\",\"stdin\":true");
    for (int i = 0; i < MANY; i++)
        ids[i] = send_input(p, id, tci_str_of(bytes, sizeof bytes), false);
    pi_frame *f = pi_peer_answer(p, ids[MANY - 1]);
    pi_frame_is_error(f, "EAGAIN");
    pi_frame_free(f);
    pi_peer_cancel(p, id, false);
    for (int i = 0; i < MANY - 1; i++) {
        f = pi_peer_answer(p, ids[i]);
        assert_int_equal(f->type, TCI_PIENV_ERROR);
        pi_frame_free(f);
    }
    collect(p, id, &o);
    assert_code(&o, "aborted");
    output_done(&o);
}

static void the_connection_may_end_in_the_middle(void **state)
{
    pi_peer *p = *state;
    static char bytes[CHUNK];
    uint32_t id = start(p, "\"command\":\"sleep 300\",\"stdin\":true");
    for (int i = 0; i < 3; i++)
        (void)send_input(p, id, tci_str_of(bytes, sizeof bytes), false);
    for (int i = 0; i < 5; i++)
        pi_peer_turn(p, 1);
    assert_int_equal(pi_peer_finish(p), TCI_PI_END_EOF);
    assert_true(p->was_clean);
}

int run_input_tests(void)
{
    const struct CMUnitTest tests[] = {
        WITH_OURS(input_reaches_the_command),
        WITH_OURS(no_input_where_none_is_taken),
        WITH_OURS(much_input_to_a_slow_reader),
        WITH_OURS(case_11_a_command_that_does_not_read),
        WITH_OURS(a_full_pipe_does_not_outlive_its_command),
        WITH_OURS(far_too_much_input),
        WITH_OURS(the_connection_may_end_in_the_middle),
    };
    return cmocka_run_group_tests_name("input", tests, NULL, NULL);
}
