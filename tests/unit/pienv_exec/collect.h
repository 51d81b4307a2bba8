/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of this folder share: everything one exec has to tell, gathered and checked. */
#ifndef PIENV_EXEC_COLLECT_H
#define PIENV_EXEC_COLLECT_H

#include "pienv_peer.h"

typedef struct output {
    tci_buf out, err, all;
    tci_buf tail; /* since the last omission */
    size_t nevents, nskips;
    uint64_t skipped_bytes, skipped_newlines;
    uint64_t most_bytes, most_lines; /* the window, for checks; 0, 0: there must be no omission */
    pi_frame *answer;                /* result or error */
} output;

/* Gather events until the answer. */
void collect(pi_peer *p, uint32_t id, output *ret);
/* The same for a command of these fields: "\"command\":\"true\"" and what else there is; cwd is set. */
void run(pi_peer *p, output *ret, const char *fmt, ...) TC_PRINTF(3, 4);
uint32_t start(pi_peer *p, const char *fmt, ...) TC_PRINTF(2, 3);
void output_done(output *o);

/* The answer is a result with that code. */
void assert_exit(const output *o, uint64_t exit_code);
/* Or an error. */
void assert_code(const output *o, const char *code);
void assert_text(const tci_buf *b, tc_str expected);
#define assert_out(o, text) assert_text(&(o)->out, TC_STR(text))
#define assert_err(o, text) assert_text(&(o)->err, TC_STR(text))

/* The number in a file that a command writes; waits for it. */
int pid_from(pi_peer *p, const char *name);
bool is_running(int pid);
bool is_file(const char *name);
/* Until the process is gone. */
void wait_gone(pi_peer *p, int pid);

int run_exec_tests(void);
int run_output_tests(void);
int run_input_tests(void);
int run_end_tests(void);

/* Every test has a server of its own: *state is the peer. */
int open_ours(void **state);    /* hello agreed on the extensions */
int open_foreign(void **state); /* without them */
int close_peer(void **state);
#define WITH_OURS(test) cmocka_unit_test_setup_teardown(test, open_ours, close_peer)
#define WITH_FOREIGN(test) cmocka_unit_test_setup_teardown(test, open_foreign, close_peer)

#endif
