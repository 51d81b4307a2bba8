/* SPDX-License-Identifier: Apache-2.0
 *
 * Event streams: the same events whatever the pieces and line ends; nothing of a cut event. */
#include "wire/sse.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static int record(void *user, tc_str name, tc_str data, tc_err *err)
{
    (void)err;
    tci_buf_printf(user, "[%.*s|%.*s]", TC_STR_ARG(name), TC_STR_ARG(data));
    return 0;
}

static void assert_events(const char *stream, size_t piece, const char *expected)
{
    tci_buf out;
    tci_sse s;
    tc_err err;
    tc_str bytes = tci_str(stream);
    tci_buf_init(&out, TCI_BUF_MAX);
    tci_sse_init(&s, record, &out);
    for (size_t at = 0; at < bytes.len; at += piece)
        assert_int_equal(tci_sse_feed(&s, tci_str_sub(bytes, at, piece), &err), 0);
    assert_true(tci_str_eq(tci_buf_str(&out), tci_str(expected)));
    tci_sse_done(&s);
    tci_buf_done(&out);
}

static void events_are_those_of_the_stream(void **state)
{
    (void)state;
    static const struct {
        const char *stream, *events;
    } cases[] = {
        {"data: a\n\n", "[|a]"},
        {"event: e\r\ndata:a\r\ndata: b\r\n\r\ndata: c\r\n\r\n", "[e|a\nb][|c]"},
        {"data: a\r\rdata: b\r\r", "[|a][|b]"},
        {": remark\nid: 7\nretry: 1\ndata\n\n", "[|]"},
        {"event: none\n\ndata: x\n\n", "[|x]"},
        {"\xef\xbb\xbf"
         "data: marked\n\n",
         "[|marked]"},
        {"data: cut", ""},
        {"data: cut\n", ""},
        {"\n\n\ndata:  two spaces\n\n", "[| two spaces]"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (size_t piece = 1; piece < 8; piece++)
            assert_events(cases[i].stream, piece, cases[i].events);
    }
}

static int stop(void *user, tc_str name, tc_str data, tc_err *err)
{
    (void)user, (void)name, (void)data;
    return tc_err_set(err, TC_E_CANCELLED, "enough");
}

static void what_the_receiver_says_ends_it(void **state)
{
    (void)state;
    tci_sse s;
    tc_err err;
    tci_sse_init(&s, stop, NULL);
    assert_int_equal(tci_sse_feed(&s, TC_STR("data: a\n\ndata: b\n\n"), &err), TC_E_CANCELLED);
    tci_sse_done(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_are_those_of_the_stream),
        cmocka_unit_test(what_the_receiver_says_ends_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
