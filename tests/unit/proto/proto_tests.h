/* SPDX-License-Identifier: Apache-2.0
 *
 * What the test files of the module share: one fixture, and checks on text going in and out. */
#ifndef TEST_PROTO_H
#define TEST_PROTO_H

#include "proto/envelope.h"
#include "proto/gen/errors.h"
#include <setjmp.h>
#include <stdio.h>

#include <cmocka.h>

typedef struct fixture {
    tci_arena arena;
    tci_buf out;
    tc_err err;
} fixture;

int proto_setup(void **state);
int proto_teardown(void **state);

/* A tree of this text, in the fixture's arena. */
const tci_json *parse(fixture *f, const char *text);
/* The text decoded as type, in the fixture's arena; NULL after a refusal (f->err is set). */
void *decode(fixture *f, const tci_type *type, const char *text);
/* The text is decoded, and encoded gives want. */
void assert_encodes(fixture *f, const tci_type *type, const char *text, const char *want);
/* The text is refused as INVALID, with a message that has part in it. */
void assert_refused(fixture *f, const tci_type *type, const char *text, const char *part);

#define PROTO_TEST(name) cmocka_unit_test_setup_teardown(name, proto_setup, proto_teardown)

int run_codec_tests(void);
int run_scalar_tests(void);
int run_envelope_tests(void);
int run_table_tests(void);
int run_lenient_tests(void);

#endif
