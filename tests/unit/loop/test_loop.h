/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the loop's test share. */
#ifndef TEST_LOOP_H
#define TEST_LOOP_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/compiler.h"
#include "loop/loop.h"

extern const struct CMUnitTest watch_tests[], pool_tests[];
extern const size_t nwatch_tests, npool_tests;

static inline tci_loop *new_loop(void)
{
    tc_err err;
    tci_loop *loop = NULL;
    assert_int_equal(tci_loop_new(&loop, &err), 0);
    return loop;
}

/* Turn until the condition holds; the test's own time limit ends what never comes true. */
#define TURN_UNTIL(loop, cond)         \
    do {                               \
        while (!(cond))                \
            tci_loop_turn((loop), -1); \
    } while (0)

#endif
