/* SPDX-License-Identifier: Apache-2.0
 *
 * The ssh provider, as far as it goes without a server. */
#include "tests.h"

/* cmocka's macro wants an array's size; this is what it expands to. */
static int run(const char *name, const struct CMUnitTest *tests, size_t n)
{
    return _cmocka_run_group_tests(name, tests, n, NULL, NULL);
}

int main(void)
{
    return run("target", target_tests, ntarget_tests) + run("keys", keys_tests, nkeys_tests) +
           run("boot", boot_tests, nboot_tests) + run("daemon", daemon_tests, ndaemon_tests);
}
