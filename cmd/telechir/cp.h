/* SPDX-License-Identifier: Apache-2.0
 *
 * Copying: a plan of files (cp.c, cp_walk.c), and threads that carry it out (cp_run.c), each file by
 * one of the ways in cp_file.c. */
#ifndef TCI_CLI_CP_H
#define TCI_CLI_CP_H

#include "cli.h"
#include "plat/file.h"
#include "plat/thread.h"

/* Where files come from or go to: a folder. Everything is named relative to it. */
typedef struct cp_end {
    tc_env *env;  /* NULL: here */
    tc_str path;  /* as messages and the target know it */
    tci_file dir; /* here: the open folder */
} cp_end;

/* One source argument. */
typedef struct cp_root {
    cp_end from, to;
} cp_root;

typedef struct cp_item {
    const cp_root *root;
    tc_str from, to; /* relative to the root's ends */
    uint64_t size;
    bool is_executable;
} cp_item;

typedef struct cp_list {
    cp_item *items;
    size_t count, cap;
} cp_list;

typedef struct cp_counts {
    uint64_t files, folders, bytes, equal, skipped, failed;
    uint64_t unknown; /* of failed: may have been written */
} cp_counts;

typedef struct cp_job {
    cli *c;
    bool is_checksum, is_recursive;
    uint64_t nthreads;
    cp_list files, folders; /* folders: parents first */
    cp_list failed_folders; /* of those: nothing below them is written */
    tci_mutex lock;         /* guards the rest, and output */
    const cp_list *taken_from;
    size_t next, until; /* the next of it to take, and where to stop */
    bool *is_failed;    /* of folders, while they are made */
    int stopped_by;     /* a failure that the other files would share; 0: none */
    cp_counts counts;
    cli_progress progress;
} cp_job;

/* Add to a list; the texts are copied. Main thread. */
int cp_list_add(cp_job *job, cp_list *list, const cp_item *item) TC_CHECKED;
/* Everything below the root's source folder into the lists; links and other things are reported.
 * Main thread. */
int cp_walk(cp_job *job, const cp_root *root) TC_CHECKED;
/* Make the folders, copy the files, put them on the targets' disks. Failures of single files are reported and counted. Negative:
 * the failure that ended it all, in job->c->err. Main thread. */
int cp_run(cp_job *job, const cp_root *roots, size_t nroots) TC_CHECKED;

/* Report and count one that failed, or one left out. Any thread. */
void cp_failed(cp_job *job, tc_str path, const tc_err *err);
void cp_skipped(cp_job *job, tc_str path, const char *why);

/* One file. r is the calling thread's. *ret_is_equal: it was left alone. Any thread. */
int cp_file(cp_job *job, const cp_item *item, tc_result *r, bool *ret_is_equal,
            tc_err *err) TC_CHECKED;
/* "path/rel", NUL after the end; the buffer is cleared first. */
tc_str cp_join(tci_buf *b, tc_str path, tc_str rel);
/* The folder of a relative path here, opened link by link without following any; *ret_name is the
 * last part. The caller closes *ret_dir. */
int cp_open_parent(tci_file root, tc_str rel, tci_file *ret_dir, tc_str *ret_name,
                   tc_err *err) TC_CHECKED;

#endif
