/* SPDX-License-Identifier: Apache-2.0
 *
 * The groups of this program. */
#ifndef TESTS_SPOOL_H
#define TESTS_SPOOL_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

int run_spool_tests(void);
int run_spawn_tests(void);
int run_ports_tests(void);

#endif
