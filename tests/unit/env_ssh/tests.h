/* SPDX-License-Identifier: Apache-2.0
 *
 * What the groups of this program share. */
#ifndef TC_TEST_ENV_SSH_H
#define TC_TEST_ENV_SSH_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "env/ssh/ssh_int.h"
#include "plat/file.h"

extern const struct CMUnitTest target_tests[], keys_tests[], boot_tests[], daemon_tests[];
extern const size_t ntarget_tests, nkeys_tests, nboot_tests, ndaemon_tests;

/* A runtime with this environment ("NAME=value", NULL at the end). */
static inline tc_runtime *open_runtime(const char *const *environment)
{
    tc_runtime *rt = NULL;
    tc_err err;
    tc_runtime_options o = {.size = sizeof o, .environment = environment};
    assert_int_equal(tc_runtime_open(&o, &rt, &err), 0);
    return rt;
}

#define assert_str(s, cstr)                                  \
    do {                                                     \
        tc_str s_ = (s);                                     \
        char buf_[8192];                                     \
        snprintf(buf_, sizeof buf_, "%.*s", TC_STR_ARG(s_)); \
        assert_string_equal(buf_, (cstr));                   \
    } while (0)

/* A path in the test's own folder; static storage, a few at a time. */
static inline tc_str in_folder(const char *name)
{
    static char paths[8][4096];
    static int next;
    char *p = paths[next++ % 8];
    snprintf(p, sizeof paths[0], "%s/%s", getenv("TC_TEST_DIR"), name);
    return tci_str(p);
}

#endif
