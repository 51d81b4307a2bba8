/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests of running commands. Started with an argument it is one of the programs the tests need. */
#include "fixture.h"

#include <signal.h>
#include <string.h>

int main(int argc, char **argv)
{
    (void)signal(SIGPIPE, SIG_IGN);
    if (argc > 1 && strcmp(argv[1], "pid1") == 0)
        return as_pid1(false);
    if (argc > 1 && strcmp(argv[1], "pid1-marks") == 0)
        return as_pid1(true);
    if (argc > 1 && strcmp(argv[1], "terminal") == 0)
        return as_terminal_program();
    int nfailed = run_exec_tests();
    nfailed += run_exec_io_tests();
    nfailed += run_exec_tree_tests();
    return nfailed != 0;
}
