/* SPDX-License-Identifier: Apache-2.0
 *
 * Copying: a plan of files (cp.c, cp_walk.c), and threads that carry it out (cp_run.c), each file by
 * one of the ways in cp_file.c, small ones many at a time (cp_many.c). */
#ifndef TCI_CLI_CP_H
#define TCI_CLI_CP_H

#include "cli.h"
#include "plat/file.h"
#include "plat/thread.h"

enum { CP_THREADS_MAX = 64 };

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
    bool is_private; /* of folders: nobody but its owner may enter it */
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
    uint64_t nflight;       /* small files under way at a time, over all threads; 0: one a thread */
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
/* The next file, NULL when there is none (left); and what became of it. Any thread. */
const cp_item *cp_take(cp_job *job);
void cp_file_done(cp_job *job, const cp_item *item, int rc, bool is_equal, const tc_err *err);
/* The whole of one file, taken and done. */
void cp_one_file(cp_job *job, const cp_item *item, tc_result *r);
/* Is it in a folder that could not be made? */
bool cp_is_below_failed(const cp_job *job, const cp_item *item);

/* Threads for the files of the plan when small ones go many at a time; 0: they do not. */
unsigned cp_many_threads(const cp_job *job);
/* What such a thread does: files until there are none left. r is its own. Any thread. */
void cp_many(cp_job *job, tc_result *r);

/* The folder here that the last file was in, held open for the next one. Zeroed but for dir: NONE. */
typedef struct cp_near {
    tci_file dir;
    const cp_root *root;
    tc_str folder; /* of root, borrowed from an item */
} cp_near;
/* The whole content of a small file here, up to cap bytes. *ret_fits false: it has to go another way. */
int cp_load(const cp_item *item, cp_near *near, char *buf, size_t cap, size_t *ret_len,
            bool *ret_is_private, bool *ret_fits, tc_err *err) TC_CHECKED;
/* The content of a file from a target into its place here; info: of the source. */
int cp_store(cp_job *job, const cp_item *item, cp_near *near, const tc_file_info *info,
             tc_str bytes, tc_err *err) TC_CHECKED;
/* Bytes that are copied, for the progress. */
void cp_count(cp_job *job, size_t nbytes);

/* Nobody but its owner may see it: its copy is made the same. */
bool cp_is_private_mode(unsigned mode);
/* Make a folder on a target its owner's alone, if the target can do that. r is the calling thread's. */
int cp_make_private(cp_job *job, tc_env *env, tc_str path, tc_result *r, tc_err *err) TC_CHECKED;
/* "path/rel", NUL after the end; the buffer is cleared first. */
tc_str cp_join(tci_buf *b, tc_str path, tc_str rel);
/* The folder of a relative path here, opened link by link without following any; *ret_name is the
 * last part. The caller closes *ret_dir. */
int cp_open_parent(tci_file root, tc_str rel, tci_file *ret_dir, tc_str *ret_name,
                   tc_err *err) TC_CHECKED;

#endif
