/* SPDX-License-Identifier: Apache-2.0
 *
 * Storage that goes at once. One per request, or per step of an agent. Not thread-safe: it moves
 * with its request. Everything handed out is zeroed and aligned for any object. */
#ifndef TCI_ARENA_H
#define TCI_ARENA_H

#include "base/mem.h"
#include <stdarg.h>

struct tci_arena_chunk;

typedef struct tci_arena {
    struct tci_arena_chunk *chunk; /* newest first */
    char *at, *end;
    size_t used;    /* bytes handed out and reserved, without chunk headers */
    size_t limit;   /* 0: none */
    tc_code failed; /* why the last request was refused; TC_OK: none was */
} tci_arena;

enum { TCI_ARENA_LIMIT_DEFAULT = 256 * 1024 * 1024 };

/* No allocation happens before first use. limit in bytes; 0 takes the default. */
void tci_arena_init(tci_arena *a, size_t limit);
void tci_arena_done(tci_arena *a);
/* Forget all contents; keeps one small chunk for reuse. */
void tci_arena_clear(tci_arena *a);

/* NULL when memory or the limit is exhausted (report it as TC_E_TOO_BIG or TC_E_NO_MEMORY with
 * tci_arena_error). */
void *tci_arena_alloc(tci_arena *a, size_t size) TC_CHECKED;
void *tci_arena_array(tci_arena *a, size_t nitems, size_t item_size) TC_CHECKED;
/* Not zeroed, any alignment: for text. */
char *tci_arena_bytes(tci_arena *a, size_t size) TC_CHECKED;
/* A copy of size bytes, aligned for any object. */
void *tci_arena_copy(tci_arena *a, const void *bytes, size_t size) TC_CHECKED;
/* Grow the newest block in place when it is last, else copy. */
void *tci_arena_grow(tci_arena *a, void *ptr, size_t old_size, size_t new_size) TC_CHECKED;
int tci_arena_error(const tci_arena *a, tc_err *err);

#define tci_arena_new(a, type) ((type *)tci_arena_alloc((a), sizeof(type)))
#define tci_arena_items(a, type, n) ((type *)tci_arena_array((a), (n), sizeof(type)))

/* Copies of text. _dup: bytes; _cstr: with a NUL; _printf: formatted, NUL after the end.
 * On failure ret is untouched. */
int tci_arena_dup(tci_arena *a, tc_str s, tc_str *ret, tc_err *err) TC_CHECKED;
int tci_arena_cstr(tci_arena *a, tc_str s, char **ret, tc_err *err) TC_CHECKED; /* INVALID: NUL */
int tci_arena_printf(tci_arena *a, tc_str *ret, tc_err *err, const char *fmt, ...) TC_CHECKED
    TC_PRINTF(4, 5);

#endif
