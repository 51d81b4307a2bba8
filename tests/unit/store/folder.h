/* SPDX-License-Identifier: Apache-2.0
 *
 * Session folders as values: read into memory, changed there, written out again. And a story of
 * commits to fill one with. */
#ifndef TEST_STORE_FOLDER_H
#define TEST_STORE_FOLDER_H

#include "store/store.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

enum { FOLDER_FILES_MAX = 24, FOLDER_PATH_MAX = 400 };

typedef struct folder_file {
    char name[64];
    char *bytes;
    size_t len;
} folder_file;
typedef struct folder {
    folder_file files[FOLDER_FILES_MAX]; /* by name */
    size_t nfiles;
} folder;

/* A path below the test's own folder. */
const char *test_path(const char *name, char out[FOLDER_PATH_MAX]);
folder folder_read(const char *path);
void folder_write(const char *path, const folder *f); /* whatever was there is gone */
void folder_remove(const char *path);
folder folder_copy(const folder *f);
void folder_done(folder *f);
folder_file *folder_file_of(folder *f, const char *name); /* NULL: it has none */
void folder_drop(folder *f, const char *name);            /* nothing when there is none */
folder_file *folder_put(folder *f, const char *name, const void *bytes, size_t len);
/* Replace the first occurrence of a text in a file; both must exist. */
void folder_edit(folder *f, const char *name, const char *from, const char *to);

tci_store *open_session(const char *path, tci_durability durability);
/* Opening must fail with the code; the message is in *err. */
void refuse_session(const char *path, int code, tc_err *err);
void close_session(tci_store *s);
/* What dump_store says, NUL-terminated; the caller tci_free()s it. */
char *dump_of(tci_store *s);
/* The same of a folder that is opened for it. */
char *dump_at(const char *path);

/* The k-th commit of a session in which everything happens: entries, a task from beginning to
 * end, submissions, documents with bases, deltas, copies and retirement. Ids are fixed, so that a story can
 * be told on. 0 or the code of the commit. */
enum { STORY_COMMITS = 9 };
int tell(tci_store *s, int k, tci_commit_how how, tc_err *err) TC_CHECKED;
/* One more commit, whose entry has this id. */
int tell_entry(tci_store *s, uint64_t id, tc_err *err) TC_CHECKED;

#endif
