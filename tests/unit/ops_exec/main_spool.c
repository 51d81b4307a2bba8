/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests of kept output, of starting processes and of looking at ports. */
#include "tests_spool.h"

int main(void)
{
    int nfailed = run_spool_tests();
    nfailed += run_spawn_tests();
    nfailed += run_ports_tests();
    return nfailed != 0;
}
