/* SPDX-License-Identifier: Apache-2.0
 *
 * The storage that ends with its process: the index, with every text on the heap. For sessions nobody
 * wants to keep and as the measure of the others. Runs on the store's thread. Invariant: a batch
 * that was refused has changed nothing; memory that runs out while one is taken over ends it all. */
#include "store/index/indexed.h"

typedef struct memory {
    tci_indexed base;
    tci_arena arena; /* of the commit at hand */
} memory;

static memory *of(tci_store *store)
{
    return (memory *)(void *)store;
}

static int memory_close(tci_store *store, tc_err *err)
{
    TCI_UNUSED(err);
    memory *m = of(store);
    tci_index_done(&m->base.ix);
    tci_arena_done(&m->arena);
    tci_free(m);
    return 0;
}

static int place_all(const tci_batch *b, tci_placed *placed, tc_err *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < b->nwrites; i++) {
        bool is_document = b->writes[i].type >= TCI_WRITE_DOC_CREATE;
        if (!is_document)
            rc = tci_place_dup(b->records[i], &placed[i].record, err);
        if (rc == 0 && b->contents[i].json.ptr != NULL)
            rc = tci_place_dup(b->contents[i].json, &placed[i].content, err);
    }
    for (size_t i = 0; rc < 0 && i < b->nwrites; i++) {
        tci_place_done(&placed[i].record);
        tci_place_done(&placed[i].content);
    }
    return rc;
}

static int memory_commit(tci_store *store, const tci_write *writes, size_t nwrites,
                         tci_commit_how how, uint64_t *ret_seq, tc_err *err)
{
    TCI_UNUSED(how);
    memory *m = of(store);
    int rc = tci_indexed_usable(&m->base, err);
    if (rc < 0)
        return rc;
    tci_batch batch;
    tci_placed *placed = NULL;
    tci_arena_clear(&m->arena);
    rc = tci_index_check(&m->base.ix, writes, nwrites, TCI_CHECK_TEXTS, &m->arena, &batch, err);
    if (rc == 0) {
        placed = tci_arena_items(&m->arena, tci_placed, nwrites);
        rc = placed != NULL ? place_all(&batch, placed, err) : tci_arena_error(&m->arena, err);
    }
    if (rc < 0)
        return rc;
    uint64_t seq = m->base.ix.next_seq;
    rc = tci_index_apply(&m->base.ix, &batch, seq, placed, err);
    if (rc < 0)
        return tci_indexed_poison(&m->base, err);
    *ret_seq = seq;
    return 0;
}

static const tci_store_ops memory_ops = {
    .close = memory_close,
    .commit = memory_commit,
    TCI_INDEXED_OPS,
};

int tci_store_open_memory(tci_store **ret_store, tc_err *err)
{
    memory *m = tci_new(memory);
    if (m == NULL)
        return tci_err_no_memory(err);
    m->base.store.ops = &memory_ops;
    tci_index_init(&m->base.ix, NULL, NULL);
    tci_arena_init(&m->arena, 0);
    *ret_store = &m->base.store;
    return 0;
}
