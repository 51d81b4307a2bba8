/* SPDX-License-Identifier: Apache-2.0
 *
 * Trees to walk, and other programs to compare with. */
#ifndef WALK_HELP_H
#define WALK_HELP_H

#include "base/buf.h"
#include "ops/find.h"
#include "ops/list.h"
#include "ops/search.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

/* What one test works with: an arena, a cache and a folder of its own, whose absolute path is root.
 */
typedef struct fix {
    tci_arena arena;
    tci_walk_cache *cache;
    char root[512];
    tc_err err;
    const char *detail;
} fix;

int fix_setup(void **state);
int fix_teardown(void **state);

/* Below root; folders on the way are made. */
void put_bytes(const fix *f, const char *path, const void *bytes, size_t len);
void put(const fix *f, const char *path, const char *text);
/* "sh -c script" in root: its exit status; what it printed goes to out (may be NULL). */
int shell(const fix *f, const char *script, tci_buf *out);
bool has_program(const fix *f, const char *name);

/* All pages put together, one relative path a line. page: entries per page. */
void find_all(fix *f, tci_ops_find_request req, uint64_t page, tci_buf *out);
void list_all(fix *f, tci_ops_list_request req, uint64_t page, tci_buf *out);
/* "path:line:preview" a line; path relative to root. */
void search_all(fix *f, tci_ops_search_request req, uint64_t page, tci_buf *out);

/* Deterministic numbers below n. */
unsigned pick(uint64_t *seed, unsigned n);

void assert_text(const tci_buf *got, const char *want);

#endif
