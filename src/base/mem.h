/* SPDX-License-Identifier: Apache-2.0
 *
 * The one door to the heap. Everything long-lived comes from here, so that tests can make the
 * n-th allocation fail (tci_mem_fail_at, only in builds with TCI_TESTING). */
#ifndef TCI_MEM_H
#define TCI_MEM_H

#include "base/compiler.h"
#include <telechir/error.h>

/* Zeroed storage, or NULL. size 0 is served as 1. Thread: any. */
void *tci_mem_alloc(size_t size) TC_CHECKED;
/* Zeroed array; NULL on overflow too. */
void *tci_mem_array(size_t nitems, size_t item_size) TC_CHECKED;
/* As realloc(3); the added bytes are not zeroed; the old block stays on failure. Buffers for reading and writing
 * come from here (ptr NULL), not from tci_mem_alloc: of 64 KiB and more they lie where the kernel copies fast. */
void *tci_mem_resize(void *ptr, size_t size) TC_CHECKED;
void tci_mem_free(void *ptr);
/* NUL-terminated copy on the heap, or NULL. */
char *tci_mem_cstr(tc_str s) TC_CHECKED;
/* Overwrite in a way the compiler keeps (secrets). */
void tci_mem_wipe(void *ptr, size_t size);

#define tci_new(type) ((type *)tci_mem_alloc(sizeof(type)))
#define tci_free(ptr) tci_mem_free(ptr)

/* Shorthand for the one error every allocation can have. */
#define tci_err_no_memory(err) tc_err_set((err), TC_E_NO_MEMORY, "out of memory")

#ifdef TCI_TESTING
/* The n-th allocation from now (1-based) and all after it fail; 0 switches off.
 * tci_mem_count: allocations since the last tci_mem_fail_at. */
void tci_mem_fail_at(size_t n);
size_t tci_mem_count(void);
#endif

#endif
