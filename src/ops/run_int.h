/* SPDX-License-Identifier: Apache-2.0
 *
 * What run.c (the life of a command) leaves to run_shell.c (what to execute) and run_spill.c (all
 * output in a file). */
#ifndef TCI_RUN_INT_H
#define TCI_RUN_INT_H

#include "base/buf.h"
#include "ops/run.h"
#include "plat/file.h"

/* ---- run_shell.c ---- */

/* What to execute. Lives in the arena. */
typedef struct run_plan {
    const char *const *argv; /* NULL-terminated */
    const char *const *envp; /* NULL-terminated */
    const char *cwd;         /* absolute */
    const char *file;        /* a path, relative to cwd or absolute; or a name to look for */
    tc_str search;           /* the list of folders to look for a name in */
} run_plan;

/* Errors as tci_run_start. */
int tci_run_plan(const tci_run_opts *opts, tci_arena *a, run_plan *ret, tc_err *err) TC_CHECKED;
/* The i-th place where the program may be, from 0: an absolute path in buf. false: no more. */
bool tci_run_candidate(const run_plan *plan, size_t i, char buf[TCI_PATH_MAX]);

/* ---- run_spill.c ---- */

typedef struct run_spill {
    bool is_wanted;
    uint64_t after_bytes, after_lines;
    uint64_t nbytes, nnewlines;
    tci_buf held; /* all there was, until there is a file */
    tci_file file;
    char *tmp_dir; /* heap */
    char *path;    /* heap; NULL until there is a file */
    bool has_failed;
} run_spill;

int tci_run_spill_init(run_spill *s, const tci_run_opts *opts, tc_err *err) TC_CHECKED;
void tci_run_spill_done(run_spill *s); /* the file stays */
/* The next raw bytes. An error is told once; then nothing is kept any more. */
int tci_run_spill_put(run_spill *s, tc_str bytes, tc_err *err) TC_CHECKED;

#endif
