/* SPDX-License-Identifier: Apache-2.0
 *
 * Loading a configuration from words given in the test, and what the tables of these tests look like. */
#ifndef TC_TEST_CONFIG_LOAD_H
#define TC_TEST_CONFIG_LOAD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "daemon/config/config.h"

enum { WORDS_MAX = 12 };

/* NULL-terminated lists. */
typedef struct words {
    const char *items[WORDS_MAX];
} words;

typedef struct loaded {
    int rc;
    tc_err err;
    tci_config config;
    tci_config_action action;
    tc_str text;
} loaded;

/* Load as program (argv[0]) with these arguments and variables; a runtime folder is added unless one is
 * among the variables or without_runtime. */
void load(loaded *l, const char *program, const words *args, const words *vars);
void load_bare(loaded *l, const char *program, const words *args, const words *vars);
void unload(loaded *l);

/* One configuration that is accepted (says NULL) or refused with a message that has each of the words
 * separated by '|'. */
typedef struct verdict {
    words args, vars;
    const char *says;
} verdict;
void check_verdicts(const verdict *items, size_t nitems);
/* The same for one JSON layer: the path of the field belongs to the words. */
typedef struct json_verdict {
    const char *json, *says;
} json_verdict;
void check_json(const json_verdict *items, size_t nitems);

#define assert_has(text, part) assert_has_at((text), (part), __FILE__, __LINE__)
void assert_has_at(const char *text, const char *part, const char *file, int line);
#define assert_text(got, want) assert_text_at((got), (want), __FILE__, __LINE__)
void assert_text_at(tc_str got, const char *want, const char *file, int line);

/* A file in the test's folder; its absolute path, static storage, 64 at a time. */
const char *put_file(const char *name, const char *text, size_t len);
const char *put_text_file(const char *name, const char *text);
const char *path_of(const char *name);
/* "NAME=" and the path of name; static storage likewise. */
const char *var_path(const char *variable, const char *name);

#endif
