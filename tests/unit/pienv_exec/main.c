/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests of commands behind the pi-env server. */
#include "collect.h"

#include <signal.h>

int main(void)
{
    (void)signal(SIGPIPE, SIG_IGN);
    int nfailed = run_exec_tests();
    nfailed += run_output_tests();
    nfailed += run_input_tests();
    nfailed += run_end_tests();
    return nfailed != 0;
}
