/* SPDX-License-Identifier: Apache-2.0
 *
 * The end of a program that found its own mistake. Leaves errors of input and of the system to
 * tc_err. Any thread. Never returns. */
#include "base/compiler.h"
#include <stdio.h>
#include <stdlib.h>

void tci_assert_failed(const char *file, int line, const char *what)
{
    (void)fprintf(stderr, "%s:%d: assertion failed: %s\n", file, line, what); /* dying anyway */
    abort();
}
