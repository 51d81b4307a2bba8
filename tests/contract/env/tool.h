/* SPDX-License-Identifier: Apache-2.0
 *
 * Shorthands of the ExecutionEnv suites: one environment in a folder of its own for each test, the
 * interface's words compared, files made and looked at from outside. */
#ifndef TC_TEST_ENV_TOOL_H
#define TC_TEST_ENV_TOOL_H

#include "fixture.h"

/* What a test works with. */
typedef struct bench {
    fixture *f;
    tc_env *env;
    tc_str dir;
    bool is_out;
    tc_ctx *aborted;    /* cancelled from the start */
    tc_call call, dead; /* dead: with that context */
} bench;

void bench_open(bench *b, fixture *f, const char *name);
/* The same with options of the test's own; working_directory is filled in. */
void bench_open_with(bench *b, fixture *f, const char *name, tc_env_options *options);
/* From now on in a new folder outside of any work tree. */
void bench_move_out(bench *b);
void bench_close(bench *b);

/* An absolute path below the bench's folder, in the fixture's result. */
tc_str below(const bench *b, const char *name);
/* From outside of the environment: this machine's file system is the other side's. */
void put_file(const bench *b, const char *name, tc_str bytes);
tc_str get_file(const bench *b, const char *name);
bool is_there(const bench *b, const char *name);
void put_dir(const bench *b, const char *name);
void put_link(const bench *b, const char *target, const char *name);
void put_fifo(const bench *b, const char *name);

/* The call fails with this word. */
#define assert_word(b, word, expr)                                                   \
    do {                                                                             \
        int word_rc = (expr);                                                        \
        tc_env_error got_word = tc_result_evidence((b)->f->r)->env_error;            \
        if (word_rc >= 0)                                                            \
            fail_msg("%s: success instead of %s", #expr, tc_env_error_name(word));   \
        if (got_word != (word))                                                      \
            fail_msg("%s: %s instead of %s: %s", #expr, tc_env_error_name(got_word), \
                     tc_env_error_name(word), (b)->f->err.msg);                      \
    } while (0)
/* The path that the last failure was about. */
#define assert_about(b, wanted_path)                                                           \
    do {                                                                                       \
        tc_str about = tc_result_evidence((b)->f->r)->path, wanted = (wanted_path);            \
        if (!tci_str_eq(about, wanted))                                                        \
            fail_msg("about '%.*s' instead of '%.*s'", TC_STR_ARG(about), TC_STR_ARG(wanted)); \
    } while (0)

int run_suite(int argc, char **argv, const struct CMUnitTest *tests, size_t ntests);
#define RUN_SUITE(argc, argv, tests) \
    run_suite((argc), (argv), (tests), sizeof(tests) / sizeof((tests)[0]))

#endif
