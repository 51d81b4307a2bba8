/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs one group of the tests of the pi-env connection, named by the argument; with
 * a second one only those whose names match it. */
#include "pi_peer.h"

/* cmocka's macro wants an array's size; this is what it expands to. */
static int run(const char *name, const struct CMUnitTest *tests, size_t n)
{
    return _cmocka_run_group_tests(name, tests, n, NULL, NULL);
}

int main(int argc, char **argv)
{
    const char *group = argc > 1 ? argv[1] : "calls";
    if (argc > 2)
        cmocka_set_test_filter(argv[2]);
    if (strcmp(group, "calls") == 0)
        return run(group, pi_call_tests, npi_call_tests);
    if (strcmp(group, "start") == 0)
        return run(group, pi_start_tests, npi_start_tests);
    if (strcmp(group, "end") == 0)
        return run(group, pi_end_tests, npi_end_tests);
    if (strcmp(group, "tunnel") == 0)
        return run(group, pi_tunnel_tests, npi_tunnel_tests);
    if (strcmp(group, "live") == 0)
        return run(group, pi_live_tests, npi_live_tests);
    return 2;
}
