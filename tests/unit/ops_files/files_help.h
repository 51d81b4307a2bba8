/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of file operations share: a world in the test's own folder, and short ways to look
 * at it that do not use the code under test. */
#ifndef TC_TEST_FILES_HELP_H
#define TC_TEST_FILES_HELP_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/arena.h"
#include "ops/file.h"
#include "ops/stage.h"
#include <sys/stat.h>

enum { WORLD_BIG = 1 << 30 };

/* Start again with an empty folder "w" below the test's own; every path below is relative to it. */
void world_new(void);
/* "w/name" as an absolute path; static storage, eight at a time. */
const char *at(const char *name);
tc_str path(const char *name);

void put(const char *name, const char *bytes, size_t len, unsigned mode);
void put_text(const char *name, const char *text);
/* The whole file; fails the test when it cannot be read. The caller frees nothing: static storage,
 * one at a time, NUL after the end. */
const char *get(const char *name, size_t *ret_len);
bool same(const char *name, const char *text);
bool exists(const char *name);
unsigned mode_of(const char *name);
struct stat stat_of(const char *name);
/* Names in w/name that begin with the prefix of staged files. */
unsigned count_stages(const char *name);
void make_folder(const char *name);
void make_link(const char *target, const char *name);

int write_text(const char *name, tci_write_mode mode, const char *text, tc_err *err);
int patch_text(const char *name, const char *patch, tc_err *err);

#endif
