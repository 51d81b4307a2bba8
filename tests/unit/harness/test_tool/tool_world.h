/* SPDX-License-Identifier: Apache-2.0
 *
 * What tests of tools run on: a runtime, an environment of this machine in the test's folder, and a way to
 * call one tool without a harness. */
#ifndef TC_TEST_TOOL_WORLD_H
#define TC_TEST_TOOL_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "harness/calls/tool_int.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct world {
    tc_runtime *rt;
    tc_env *env;
    tc_result *r;
    tci_turns *turns;
    char root[2048];
    tc_err err;
} world;

int world_open(void **state);
int world_close(void **state);
/* Another environment of the same machine, in root/name. */
tc_env *world_env(world *w, const char *name);

/* How a call went. Texts live in the world's result. */
typedef struct outcome {
    int rc;
    tc_tool_result result;
    tc_str text;        /* of the first text item; empty: none */
    tc_str failure;     /* what the model would read */
    tc_str diagnostics; /* reported and returned, an array */
    tc_str kept;        /* reported output */
} outcome;
/* arguments as they come from a model: repaired and checked first. env may be NULL. */
outcome call_tool_in(world *w, tc_env *env, tc_ctx *ctx, const tc_tool *tool,
                     const char *arguments);
outcome call_tool(world *w, const tc_tool *tool, const char *arguments);

void put_file(world *w, const char *name, const void *bytes, size_t len);
tc_str get_file(world *w, const char *name);
bool has_file(world *w, const char *name);

#define assert_ok(w, expr)                                                         \
    do {                                                                           \
        int assert_rc = (expr);                                                    \
        if (assert_rc != 0)                                                        \
            fail_msg("%s: %s (%s)", #expr, (w)->err.msg, tc_code_name(assert_rc)); \
    } while (0)
#define assert_text(s, cstr)                                                \
    do {                                                                    \
        tc_str assert_s = (s);                                              \
        if (!tci_str_eq(assert_s, tci_str(cstr)))                           \
            fail_msg("'%.*s' instead of '%s'", TC_STR_ARG(assert_s), cstr); \
    } while (0)
#define assert_has(s, cstr)                                            \
    do {                                                               \
        tc_str assert_s = (s);                                         \
        if (tci_str_find(assert_s, tci_str(cstr)) == assert_s.len)     \
            fail_msg("no '%s' in '%.*s'", cstr, TC_STR_ARG(assert_s)); \
    } while (0)

#endif
