/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of this folder share: comparing text, and running something with every
 * allocation failing in turn. */
#ifndef TEST_BASE_CHECK_H
#define TEST_BASE_CHECK_H

#include "base/mem.h"
#include "base/str.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#define assert_text(actual, expected) check_text((actual), tci_str(expected), __FILE__, __LINE__)
#define assert_bytes(actual, expected) check_text((actual), (expected), __FILE__, __LINE__)

static inline void check_text(tc_str actual, tc_str expected, const char *file, int line)
{
    if (!tci_str_eq(actual, expected)) {
        print_error("got '%.*s', expected '%.*s'\n", TC_STR_ARG(actual), TC_STR_ARG(expected));
        _fail(file, line);
    }
}

/* A copy without a byte to spare, so that a sanitizer sees a read past the end. */
static inline char *exact_copy(tc_str s)
{
    char *copy = tci_mem_resize(NULL, s.len);
    assert_non_null(copy);
    if (s.len > 0)
        memcpy(copy, s.ptr, s.len);
    return copy;
}

/* Runs attempt with the n-th allocation failing, for every n until one attempt meets no failure. It
 * returns 0 or the code, which must then be NO_MEMORY. Returns how many allocations it can lose. */
static inline size_t each_allocation_fails(int (*attempt)(void *), void *arg)
{
    for (size_t n = 1;; n++) {
        tci_mem_fail_at(n);
        int rc = attempt(arg);
        bool was_reached = tci_mem_count() >= n;
        tci_mem_fail_at(0);
        if (!was_reached) {
            assert_int_equal(rc, 0);
            return n - 1;
        }
        assert_int_equal(rc, TC_E_NO_MEMORY);
    }
}

#endif
