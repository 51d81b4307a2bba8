/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of this folder share. */
#ifndef TESTS_RUN_H
#define TESTS_RUN_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

int run_window_tests(void);
int run_run_tests(void);
int run_plan_tests(void);

#endif
