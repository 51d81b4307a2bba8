/* SPDX-License-Identifier: Apache-2.0
 *
 * Storage that goes at once: chunks that double from 4 KiB to 1 MiB, and blocks over a quarter of
 * that in a chunk of their own, kept behind the current one so that its room is still used.
 * Leaves owning longer than the arena to mem. One thread at a time.
 * Invariant: at and end lie in a->chunk, or are NULL when that chunk is a block of its own. */
#include "base/arena.h"
#include "base/num.h"
#include <stdio.h>
#include <string.h>

enum {
    CHUNK_FIRST = 4 * 1024,
    CHUNK_LAST = 1024 * 1024,
    OWN_CHUNK = CHUNK_LAST / 4, /* blocks from this size on do not share */
    KEPT = 64 * 1024,           /* largest chunk that clear keeps */
    ALIGN = 16
};

typedef struct tci_arena_chunk {
    struct tci_arena_chunk *older;
    size_t room;   /* bytes after the header */
    bool is_owned; /* one big block and nothing else */
} chunk;

enum { HEADER = (sizeof(chunk) + ALIGN - 1) / ALIGN * ALIGN };
_Static_assert(_Alignof(max_align_t) <= ALIGN, "blocks are aligned for any object");

static char *chunk_room(chunk *c)
{
    return (char *)c + HEADER;
}

void tci_arena_init(tci_arena *a, size_t limit)
{
    *a = (tci_arena){.limit = limit != 0 ? limit : TCI_ARENA_LIMIT_DEFAULT};
}

/* Frees all chunks but keep (may be NULL), which becomes the only one. */
static void release(tci_arena *a, chunk *keep)
{
    for (chunk *c = a->chunk, *older; c != NULL; c = older) {
        older = c->older;
        if (c != keep)
            tci_mem_free(c);
    }
    a->chunk = keep;
    a->at = a->end = NULL;
    a->used = 0;
    a->failed = TC_OK;
    if (keep != NULL) {
        keep->older = NULL;
        a->at = chunk_room(keep);
        a->end = a->at + keep->room;
        a->used = keep->room;
    }
}

void tci_arena_done(tci_arena *a)
{
    release(a, NULL);
}

void tci_arena_clear(tci_arena *a)
{
    chunk *keep = a->chunk;
    while (keep != NULL && (keep->is_owned || keep->room > KEPT))
        keep = keep->older;
    release(a, keep);
}

/* A new chunk with that much room, counted but not linked; zeroed only when asked. */
static chunk *chunk_new(tci_arena *a, size_t room, bool is_zeroed)
{
    size_t size;
    if (room > a->limit - a->used || !tci_add_size(room, HEADER, &size)) {
        a->failed = TC_E_TOO_BIG;
        return NULL;
    }
    chunk *c = is_zeroed ? tci_mem_alloc(size) : tci_mem_resize(NULL, size);
    if (c == NULL) {
        a->failed = TC_E_NO_MEMORY;
        return NULL;
    }
    *c = (chunk){.room = room};
    a->used += room;
    return c;
}

static char *own_chunk(tci_arena *a, size_t size, bool is_zeroed)
{
    chunk *c = chunk_new(a, size, is_zeroed);
    if (c == NULL)
        return NULL;
    c->is_owned = true;
    if (a->chunk == NULL) {
        a->chunk = c;
    } else {
        c->older = a->chunk->older;
        a->chunk->older = c;
    }
    return chunk_room(c);
}

/* Makes room for size bytes, aligned, at a->at. */
static bool next_chunk(tci_arena *a, size_t size)
{
    size_t room = CHUNK_FIRST - HEADER;
    if (a->chunk != NULL && !a->chunk->is_owned)
        room = tci_min_size((a->chunk->room + HEADER) * 2, CHUNK_LAST) - HEADER;
    if (room < size)
        room = size;
    if (room > a->limit - a->used && size <= a->limit - a->used)
        room = a->limit - a->used; /* the last chunk is cut to what the limit leaves */
    chunk *c = chunk_new(a, room, false);
    if (c == NULL)
        return false;
    c->older = a->chunk;
    a->chunk = c;
    a->at = chunk_room(c);
    a->end = a->at + room;
    return true;
}

/* Room for size bytes at the next multiple of align; not zeroed unless in a chunk of its own. */
static char *take(tci_arena *a, size_t size, size_t align, bool *ret_is_zeroed)
{
    size_t pad = (size_t)(-(uintptr_t)a->at & (align - 1));
    size_t left = (size_t)(a->end - a->at);
    if (TCI_UNLIKELY(a->at == NULL || left < pad || size > left - pad)) {
        if (size >= OWN_CHUNK)
            return own_chunk(a, size, *ret_is_zeroed);
        if (!next_chunk(a, size))
            return NULL;
        pad = 0;
    }
    char *block = a->at + pad;
    a->at = block + size;
    *ret_is_zeroed = false;
    return block;
}

void *tci_arena_alloc(tci_arena *a, size_t size)
{
    bool is_zeroed = true;
    char *block = take(a, size, ALIGN, &is_zeroed);
    if (block != NULL && !is_zeroed)
        memset(block, 0, size);
    return block;
}

void *tci_arena_array(tci_arena *a, size_t nitems, size_t item_size)
{
    size_t size;
    if (!tci_mul_size(nitems, item_size, &size)) {
        a->failed = TC_E_TOO_BIG;
        return NULL;
    }
    return tci_arena_alloc(a, size);
}

char *tci_arena_bytes(tci_arena *a, size_t size)
{
    bool is_zeroed = false;
    return take(a, size, 1, &is_zeroed);
}

void *tci_arena_copy(tci_arena *a, const void *bytes, size_t size)
{
    bool is_zeroed = false;
    char *block = take(a, size, ALIGN, &is_zeroed);
    if (block != NULL && size > 0)
        memcpy(block, bytes, size);
    return block;
}

/* Resizes the chunk that holds only ptr, when ptr is the latest such block. NULL when it is not, or
 * on failure (then a->failed says so). */
static char *grow_own_chunk(tci_arena *a, void *ptr, size_t old_size, size_t new_size)
{
    if (a->chunk == NULL)
        return NULL;
    chunk **link = a->chunk->is_owned ? &a->chunk : &a->chunk->older;
    chunk *c = *link;
    size_t size;
    if (c == NULL || !c->is_owned || chunk_room(c) != (char *)ptr || c->room != old_size)
        return NULL;
    if (new_size - old_size > a->limit - a->used || !tci_add_size(new_size, HEADER, &size)) {
        a->failed = TC_E_TOO_BIG;
        return NULL;
    }
    c = tci_mem_resize(c, size);
    if (c == NULL) {
        a->failed = TC_E_NO_MEMORY;
        return NULL;
    }
    c->room = new_size;
    a->used += new_size - old_size;
    *link = c;
    return chunk_room(c);
}

void *tci_arena_grow(tci_arena *a, void *ptr, size_t old_size, size_t new_size)
{
    if (ptr == NULL)
        return tci_arena_alloc(a, new_size);
    char *block = ptr;
    bool is_last = a->at != NULL && block + old_size == a->at;
    if (new_size <= old_size) {
        if (is_last)
            a->at = block + new_size;
        return ptr;
    }
    if (is_last && new_size - old_size <= (size_t)(a->end - a->at)) {
        a->at = block + new_size;
        memset(block + old_size, 0, new_size - old_size);
        return ptr;
    }
    tc_code before = a->failed;
    a->failed = TC_OK;
    char *grown = grow_own_chunk(a, ptr, old_size, new_size);
    if (grown == NULL && a->failed == TC_OK) {
        a->failed = before;
        bool is_zeroed = false;
        grown = take(a, new_size, ALIGN, &is_zeroed);
        if (grown != NULL && old_size > 0)
            memcpy(grown, ptr, old_size);
    }
    if (grown != NULL)
        memset(grown + old_size, 0, new_size - old_size);
    return grown;
}

int tci_arena_error(const tci_arena *a, tc_err *err)
{
    if (a->failed == TC_E_TOO_BIG)
        return tc_err_set(err, TC_E_TOO_BIG, "more than %zu bytes of working memory needed",
                          a->limit);
    return tci_err_no_memory(err);
}

int tci_arena_dup(tci_arena *a, tc_str s, tc_str *ret, tc_err *err)
{
    char *copy = tci_arena_bytes(a, s.len);
    if (copy == NULL)
        return tci_arena_error(a, err);
    if (s.len > 0)
        memcpy(copy, s.ptr, s.len);
    *ret = tci_str_of(copy, s.len);
    return 0;
}

int tci_arena_cstr(tci_arena *a, tc_str s, char **ret, tc_err *err)
{
    if (tci_str_find_byte(s, '\0') != s.len)
        return tc_err_set(err, TC_E_INVALID, "text contains a zero byte");
    char *copy = s.len < SIZE_MAX ? tci_arena_bytes(a, s.len + 1) : NULL;
    if (copy == NULL)
        return tci_arena_error(a, err);
    if (s.len > 0)
        memcpy(copy, s.ptr, s.len);
    copy[s.len] = '\0';
    *ret = copy;
    return 0;
}

int tci_arena_printf(tci_arena *a, tc_str *ret, tc_err *err, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int len = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    if (len < 0)
        return tc_err_set(err, TC_E_INTERNAL, "cannot format text");
    char *text = tci_arena_bytes(a, (size_t)len + 1);
    if (text == NULL)
        return tci_arena_error(a, err);
    va_start(args, fmt);
    (void)vsnprintf(text, (size_t)len + 1, fmt, args); /* measured above */
    va_end(args);
    *ret = tci_str_of(text, (size_t)len);
    return 0;
}
