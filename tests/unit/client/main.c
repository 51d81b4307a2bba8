/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs one group of the client's tests, named by the argument. */
#include "plug.h"
#include "tests.h"

/* cmocka's macro wants an array's size; this is what it expands to. */
static int run(const char *name, const struct CMUnitTest *tests, size_t n)
{
    return _cmocka_run_group_tests(name, tests, n, NULL, NULL);
}

int main(int argc, char **argv)
{
    const char *group = argc > 1 ? argv[1] : "calls";
    if (argc > 2 && strcmp(argv[2], "plugged") == 0) {
        rig_use_plugs();
        /* What a socket of somebody else's has taken may have left it. */
        cmocka_set_skip_filter("case_65_a_request_that_did_not_leave_whole_is_not_started");
    }
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
