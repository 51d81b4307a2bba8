/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests of commands as pi-env runs them. */
#include "tests_run.h"

#include <signal.h>

int main(void)
{
    (void)signal(SIGPIPE, SIG_IGN);
    int nfailed = run_window_tests();
    nfailed += run_plan_tests();
    nfailed += run_run_tests();
    return nfailed != 0;
}
