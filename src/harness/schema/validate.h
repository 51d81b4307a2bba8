/* SPDX-License-Identifier: Apache-2.0
 *
 * Values against JSON Schemas: the arguments of a call, repaired where a model's slip is plain, and
 * the structured output of a tool. Numbers keep the characters they were written with. Any thread. */
#ifndef TCI_HARNESS_VALIDATE_H
#define TCI_HARNESS_VALIDATE_H

#include "base/json.h"

/* Check the arguments of a call of tool `name`. Optional members that are null where null does not
 * fit go; values of another primitive type are converted where that loses nothing. *ret_text: the
 * arguments to run with, when *ret_is_valid; else why they are refused, for the model. In arena a.
 * schema: JSON, empty: any object. Errors: PARSE (of the schema), NO_MEMORY, TOO_BIG. */
int tci_validate_arguments(tc_str name, tc_str schema, const tci_json *arguments, tci_arena *a,
                           bool *ret_is_valid, tc_str *ret_text, tc_err *err) TC_CHECKED;

/* Does structured output keep its tool's promise? output NULL: there is none. *ret_problem empty: it
 * does. In arena a. */
int tci_validate_output(tc_str name, tc_str schema, const tci_json *output, bool is_error,
                        tci_arena *a, tc_str *ret_problem, tc_err *err) TC_CHECKED;

/* ---- the pieces ---- */

/* What does not fit, in order: validate_check.c. */
typedef struct tci_flaw {
    tc_str path;    /* "edits.0.oldText"; "root" */
    tc_str message; /* "Expected string" */
    struct tci_flaw *next;
} tci_flaw;
typedef struct tci_checker {
    tci_arena *a;
    const tci_json *root; /* the schema that "#/..." points into; NULL: $ref is not followed */
    tci_flaw *first, **last;
    bool has_failed;  /* memory */
    unsigned *nsteps; /* shared with the checkers it makes for parts */
    unsigned own_nsteps;
} tci_checker;
/* Not to be moved afterwards. */
void tci_checker_init(tci_checker *c, tci_arena *a, const tci_json *root);
/* Flaws of v are added to c. path: as in a flaw, empty for the root. */
void tci_check(tci_checker *c, const tci_json *v, const tci_json *schema, tc_str path);
/* Without telling why not. */
bool tci_fits(tci_arena *a, const tci_json *root, const tci_json *v, const tci_json *schema);

typedef enum tci_schema_type {
    TCI_TYPE_NUMBER = 1 << 0,
    TCI_TYPE_INTEGER = 1 << 1,
    TCI_TYPE_BOOLEAN = 1 << 2,
    TCI_TYPE_STRING = 1 << 3,
    TCI_TYPE_NULL = 1 << 4,
    TCI_TYPE_ARRAY = 1 << 5,
    TCI_TYPE_OBJECT = 1 << 6
} tci_schema_type;
/* The "type" of a schema, in the order written: at most 7. */
size_t tci_schema_types(const tci_json *schema, tci_schema_type types[7]);
bool tci_is_of_type(const tci_json *v, tci_schema_type type);
/* A number token without a fraction: "1", "1.0", "2e3". */
bool tci_is_whole_number(tc_str token);
/* A number token as a double; infinite when it is too large for one. */
double tci_number_of(tc_str token);

/* v made to fit the schema as far as that is plain; parts that change live in a: validate_coerce.c.
 * NULL: no memory. */
const tci_json *tci_coerce(tci_arena *a, const tci_json *v, const tci_json *schema);
/* v without optional members that are null where null does not fit. */
const tci_json *tci_drop_nulls(tci_arena *a, const tci_json *v, const tci_json *schema);

#endif
