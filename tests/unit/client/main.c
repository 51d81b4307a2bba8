/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs one group of the client's tests, named by the argument, in the way that a second one names; with a third
 * one only those whose names match it. */
#ifdef TC_TEST_HOSTED
#include "hosted.h"
#endif
#include "plug.h"
#include "tests.h"

enum { TESTS_MAX = 64 };

/* What is another thing through a Host: the link that breaks, and the daemon that breaks the protocol, are between it
 * and the device there (tests/unit/host/test_host_eip.c). */
static const char *const not_hosted[] = {
    "case_65_lost_at_every_byte_of_the_answer_is_unknown",
    "case_65_a_request_that_did_not_leave_whole_is_not_started",
    "broken_answers_end_the_session_or_the_connection",
    "broken_reads_end_the_session_or_the_connection",
    "a_daemon_may_not_overrun_the_window",
    "a_reset_is_an_error_and_the_session_goes_on",
    "a_lost_read_ends",
    "broken_writes_end_the_session",
};

static bool is_hosted;

static bool is_left_out(const char *name)
{
    for (size_t i = 0; is_hosted && i < TCI_ARRAY_LEN(not_hosted); i++)
        if (strcmp(not_hosted[i], name) == 0)
            return true;
    return false;
}

/* cmocka's macro wants an array's size; this is what it expands to. */
static int run(const char *name, const struct CMUnitTest *tests, size_t n)
{
    struct CMUnitTest some[TESTS_MAX];
    size_t nsome = 0;
    for (size_t i = 0; i < n && nsome < TESTS_MAX; i++)
        if (!is_left_out(tests[i].name))
            some[nsome++] = tests[i];
    return _cmocka_run_group_tests(name, some, nsome, NULL, NULL);
}

int main(int argc, char **argv)
{
    const char *group = argc > 1 ? argv[1] : "calls";
    if (argc > 2 && strcmp(argv[2], "plugged") == 0) {
        rig_use_plugs();
        /* What a socket of somebody else's has taken may have left it. */
        cmocka_set_skip_filter("case_65_a_request_that_did_not_leave_whole_is_not_started");
    }
#ifdef TC_TEST_HOSTED
    if (argc > 2 && strcmp(argv[2], "hosted") == 0) {
        rig_use_host();
        is_hosted = true;
    }
#endif
    if (argc > 3)
        cmocka_set_test_filter(argv[3]);
    if (strcmp(group, "calls") == 0)
        return run(group, call_tests, ncall_tests);
    if (strcmp(group, "xfers") == 0)
        return run(group, xfer_tests, nxfer_tests);
    if (strcmp(group, "output") == 0)
        return run(group, output_tests, noutput_tests);
    if (strcmp(group, "connections") == 0)
        return run(group, connections_tests, nconnections_tests);
    if (strcmp(group, "http") == 0)
        return run(group, http_tests, nhttp_tests);
    return 2;
}
