/* SPDX-License-Identifier: Apache-2.0
 *
 * Pages of the main file, read many at a time and lent to SQLite where they lie. A long table is read in
 * blocks, and its pages are neither copied nor put into SQLite's cache. What is in hand counts for one
 * transaction, whose pages nobody changes in the main file. A short transaction finds its pages in the
 * cache and is not to pay for blocks: the first one is read when several pages of it were missing there,
 * the next ones when it goes on beside them. Blocks are read, not mapped: a file that shrinks or a disk
 * that fails is an error then and not a signal. Thread: the session's line. Invariant: a block with a page
 * that is lent stays where and as it is. */
#include "store/sqlite/sqlite_int.h"

enum {
    BLOCK = 64 * 1024, /* not less than a page */
    SLACK = 256,       /* behind it: SQLite may look beyond a damaged page, as far as this */
    MISSES = 8,        /* in a block, until it is read */
    LONG = 4           /* blocks that make a transaction one that may be gone on with in the next */
};

static void discard(tci_sqlite_block *b)
{
    tci_mem_free(b->bytes);
    *b = (tci_sqlite_block){.number = -1};
}

void tci_sqlite_ahead_init(tci_sqlite_ahead *a, sqlite3_file *file)
{
    *a = (tci_sqlite_ahead){.file = file, .size = -1, .resume = -1};
    for (size_t i = 0; i < TCI_SQLITE_BLOCKS; i++)
        a->blocks[i].number = -1;
}

void tci_sqlite_ahead_done(tci_sqlite_ahead *a)
{
    for (size_t i = 0; i < TCI_SQLITE_BLOCKS; i++)
        discard(&a->blocks[i]);
}

void tci_sqlite_ahead_forget(tci_sqlite_ahead *a)
{
    if (!a->is_begun)
        return;
    a->is_begun = false;
    a->size = -1;
    a->resume = a->nread >= LONG ? a->newest : -1;
    a->nread = 0;
    memset(a->misses, 0, sizeof a->misses);
    for (size_t i = 0; i < TCI_SQLITE_BLOCKS; i++) {
        tci_sqlite_block *b = &a->blocks[i];
        b->number = -1;
        if (b->nlent == 0 && !b->was_used)
            discard(b);
        b->was_used = false;
        a->is_begun = a->is_begun || b->bytes != NULL; /* to be given back the next time */
    }
}

/* The block in hand; NULL: it is not. */
static tci_sqlite_block *find(tci_sqlite_ahead *a, sqlite3_int64 number)
{
    for (size_t i = 0; i < TCI_SQLITE_BLOCKS; i++) {
        tci_sqlite_block *b = &a->blocks[(a->last + i) % TCI_SQLITE_BLOCKS];
        if (b->number == number) {
            a->last = (a->last + i) % TCI_SQLITE_BLOCKS;
            return b;
        }
    }
    return NULL;
}

/* Does the transaction go on with what it has read already? */
static bool is_beside(const tci_sqlite_ahead *a, sqlite3_int64 number)
{
    if (a->resume >= 0 && number >= a->resume - 1 && number <= a->resume + 1)
        return true;
    for (size_t i = 0; i < TCI_SQLITE_BLOCKS; i++) {
        sqlite3_int64 other = a->blocks[i].number;
        if (other >= 0 && (other == number - 1 || other == number + 1))
            return true;
    }
    return false;
}

/* One more page of the block was missing in the cache: were there enough? */
static bool is_missed(tci_sqlite_ahead *a, sqlite3_int64 number)
{
    tci_sqlite_misses *least = &a->misses[0];
    for (size_t i = 0; i < TCI_SQLITE_BLOCKS; i++) {
        tci_sqlite_misses *m = &a->misses[i];
        if (m->n > 0 && m->number == number)
            return ++m->n >= MISSES;
        least = m->n < least->n ? m : least;
    }
    a->is_begun = true;
    *least = (tci_sqlite_misses){number, 1};
    return false;
}

/* Where a block can be put: the one not used for longest. NULL: all have pages that are lent. */
static tci_sqlite_block *room(tci_sqlite_ahead *a)
{
    tci_sqlite_block *oldest = NULL;
    for (size_t i = 0; i < TCI_SQLITE_BLOCKS; i++) {
        tci_sqlite_block *b = &a->blocks[i];
        if (b->nlent == 0 && (oldest == NULL || b->used_at < oldest->used_at))
            oldest = b;
    }
    return oldest;
}

static tci_sqlite_block *load(tci_sqlite_ahead *a, sqlite3_int64 number)
{
    tci_sqlite_block *b = room(a);
    sqlite3_int64 from = number * BLOCK;
    if (b == NULL ||
        (a->size < 0 && a->file->pMethods->xFileSize(a->file, &a->size) != SQLITE_OK) ||
        a->size <= from)
        return NULL;
    if (b->bytes == NULL) {
        b->bytes = tci_mem_resize(NULL, BLOCK + SLACK);
        if (b->bytes == NULL)
            return NULL;
        memset(b->bytes + BLOCK, 0, SLACK);
    }
    a->is_begun = true;
    b->number = -1;
    b->len = a->size - from < BLOCK ? (int)(a->size - from) : BLOCK;
    if (a->file->pMethods->xRead(a->file, b->bytes, b->len, from) != SQLITE_OK)
        return NULL; /* the page alone will tell what is wrong */
    b->number = number;
    a->newest = number;
    a->nread++;
    return b;
}

/* The page in hand or got there; NULL: read it alone. */
static const char *page_at(tci_sqlite_ahead *a, int len, sqlite3_int64 offset, bool is_missing,
                           tci_sqlite_block **ret)
{
    sqlite3_int64 number = offset / BLOCK, in = offset % BLOCK;
    tci_sqlite_block *b = find(a, number);
    if (b == NULL && (is_beside(a, number) || (is_missing && is_missed(a, number))))
        b = load(a, number);
    if (b == NULL || in + len > b->len)
        return NULL;
    b->used_at = ++a->clock;
    b->was_used = true;
    *ret = b;
    return b->bytes + in;
}

bool tci_sqlite_ahead_read(tci_sqlite_ahead *a, void *bytes, int len, sqlite3_int64 offset)
{
    tci_sqlite_block *b;
    const char *page = page_at(a, len, offset, true, &b);
    if (page != NULL)
        memcpy(bytes, page, (size_t)len);
    return page != NULL;
}

void *tci_sqlite_ahead_lend(tci_sqlite_ahead *a, int len, sqlite3_int64 offset)
{
    tci_sqlite_block *b;
    const char *page = page_at(a, len, offset, false, &b);
    if (page == NULL)
        return NULL;
    b->nlent++;
    return b->bytes + (page - b->bytes);
}

void tci_sqlite_ahead_take_back(tci_sqlite_ahead *a, const void *page)
{
    for (size_t i = 0; i < TCI_SQLITE_BLOCKS; i++) {
        tci_sqlite_block *b = &a->blocks[i];
        uintptr_t from = (uintptr_t)b->bytes, at = (uintptr_t)page;
        if (b->bytes != NULL && at >= from && at < from + BLOCK) {
            b->nlent--;
            return;
        }
    }
}
