/* SPDX-License-Identifier: Apache-2.0
 *
 * The index of a session: its tables, names and texts. Leaves the rules for a batch and taking
 * it over to index_commit.c, reading to index_read.c. Runs on the store's thread. Invariant: every
 * record of a table is in the lists that its facts put it in, and in no other. */
#include "store/index/index.h"
#include "base/hash.h"
#include "store/index/index_int.h"

/* A name of a kind and its number. */
typedef struct kind_name {
    uint32_t number;
    tc_str name;
} kind_name;

/* ---- places ---- */

int tci_place_dup(tc_str text, tci_place *ret, tc_err *err)
{
    if (text.len > TCI_RECORD_MAX)
        return tc_err_set(err, TC_E_TOO_BIG, "a record of more than %d bytes", TCI_RECORD_MAX);
    char *copy = tci_mem_resize(NULL, text.len > 0 ? text.len : 1);
    if (copy == NULL)
        return tci_err_no_memory(err);
    if (text.len > 0)
        memcpy(copy, text.ptr, text.len);
    *ret = (tci_place){.u.text = copy, .len = (uint32_t)text.len, .is_heap = true};
    return 0;
}

void tci_place_done(tci_place *p)
{
    if (p->is_heap)
        tci_free(p->u.text);
    *p = (tci_place){0};
}

int tci_index_text(tci_index *ix, const tci_place *place, uint64_t document_id, int direction,
                   tci_arena *a, tc_str *ret, tc_err *err)
{
    char *text = tci_arena_bytes(a, place->len);
    if (text == NULL)
        return tci_arena_error(a, err);
    int rc = 0;
    if (place->is_heap)
        memcpy(text, place->u.text, place->len);
    else
        rc = ix->load(ix->user, document_id, place->u.offset, place->len, direction, text, err);
    if (rc == 0)
        *ret = tci_str_of(text, place->len);
    return rc;
}

/* ---- tables ---- */

void *tci_table_find(const tci_table *t, uint64_t id)
{
    tci_id_view view = tci_table_view(t);
    size_t i = tci_id_find(&view, id);
    return i < t->count && tci_id_at(&view, i) == id ? t->base + i * t->stride : NULL;
}

void *tci_table_put(tci_table *t, uint64_t id)
{
    tci_id_view view = tci_table_view(t);
    size_t i = tci_id_find(&view, id);
    if (i < t->count && tci_id_at(&view, i) == id)
        return t->base + i * t->stride;
    if (t->count == t->cap) {
        size_t cap = t->cap < 8 ? 8 : t->cap + t->cap / 2;
        char *grown = tci_mem_resize(t->base, cap * t->stride);
        if (grown == NULL)
            return NULL;
        t->base = grown;
        t->cap = cap;
    }
    char *at = t->base + i * t->stride;
    memmove(at + t->stride, at, (t->count - i) * t->stride);
    memset(at, 0, t->stride);
    memcpy(at, &id, sizeof id);
    t->count++;
    return at;
}

/* ---- names and hashes ---- */

enum { SEED = 0x7c1 }; /* these hashes never leave the process, and collisions are looked through */

uint64_t tci_request_hash(uint64_t conversation_id, tc_str request_id)
{
    return tci_hash64(request_id.ptr, request_id.len, SEED + conversation_id);
}

uint64_t tci_address_hash(const tci_document *d)
{
    uint64_t hash = tci_hash64(d->kind.ptr, d->kind.len, SEED);
    hash = hash * 31 + (uint64_t)d->scope;
    hash = hash * 31 + d->owner_id;
    return d->has_key ? tci_hash64(d->key.ptr, d->key.len, hash + 1) : hash;
}

bool tci_address_equal(const tci_document *a, const tci_document *b)
{
    return a->scope == b->scope && a->owner_id == b->owner_id && a->has_key == b->has_key &&
           tci_str_eq(a->kind, b->kind) && (!a->has_key || tci_str_eq(a->key, b->key));
}

uint32_t tci_index_kind(const tci_index *ix, tc_str kind)
{
    const kind_name *k = tci_map_get(&ix->kinds, kind);
    return k != NULL ? k->number : 0;
}

/* ---- life ---- */

void tci_index_init(tci_index *ix, tci_load_fn load, void *user)
{
    *ix = (tci_index){.next_id = TCI_ROOT_ID + 1, .next_seq = 1, .load = load, .user = user};
    ix->conversations.stride = sizeof(tci_ix_conversation);
    ix->entries.stride = sizeof(tci_ix_entry);
    ix->tasks.stride = sizeof(tci_ix_task);
    ix->submissions.stride = sizeof(tci_ix_submission);
    ix->documents.stride = sizeof(tci_ix_document);
    tci_map_init(&ix->kinds, SEED);
    tci_arena_init(&ix->scratch, 0);
}

static void table_done(tci_table *t, size_t place_offset)
{
    for (size_t i = 0; i < t->count; i++)
        tci_place_done((tci_place *)(void *)(t->base + i * t->stride + place_offset));
    tci_free(t->base);
    *t = (tci_table){.stride = t->stride};
}

static void documents_done(tci_index *ix)
{
    for (size_t i = 0; i < ix->documents.count; i++) {
        tci_doc *doc = ((tci_ix_document *)(void *)ix->documents.base)[i].doc;
        if (doc == NULL)
            continue;
        for (size_t k = 0; k < doc->nrevisions; k++)
            tci_place_done(&doc->revisions[k].place);
        tci_free(doc->revisions);
        tci_free((void *)(uintptr_t)doc->record.json.ptr);
        tci_free(doc);
    }
    tci_free(ix->documents.base);
    ix->documents = (tci_table){.stride = sizeof(tci_ix_document)};
}

void tci_index_done(tci_index *ix)
{
    table_done(&ix->conversations, offsetof(tci_ix_conversation, place));
    table_done(&ix->entries, offsetof(tci_ix_entry, place));
    table_done(&ix->tasks, offsetof(tci_ix_task, place));
    table_done(&ix->submissions, offsetof(tci_ix_submission, place));
    documents_done(ix);
    tci_postings_done(&ix->lists);
    tci_id_map_done(&ix->batch);
    tci_id_map_done(&ix->hashes);
    tci_arena_done(&ix->scratch);
    size_t at = 0;
    for (kind_name *k; (k = tci_map_next(&ix->kinds, &at)) != NULL;)
        tci_free(k);
    tci_map_done(&ix->kinds);
}

int tci_index_mint(tci_index *ix, uint64_t *ret_id, tc_err *err)
{
    if (ix->next_id > TCI_ID_MAX)
        return tc_err_set(err, TC_E_QUOTA, "ID space is exhausted");
    *ret_id = ix->next_id++;
    return 0;
}

tci_doc *tci_index_doc(const tci_index *ix, uint64_t id)
{
    const tci_ix_document *d = tci_table_find(&ix->documents, id);
    return d != NULL ? d->doc : NULL;
}

const tci_ix_task *tci_index_task(const tci_index *ix, uint64_t id)
{
    return tci_table_find(&ix->tasks, id);
}

uint32_t tci_index_add_kind(tci_index *ix, tc_str kind, tc_err *err)
{
    uint32_t known = tci_index_kind(ix, kind);
    if (known != 0)
        return known;
    kind_name *k = tci_mem_alloc(sizeof *k + kind.len);
    if (k == NULL) {
        (void)tci_err_no_memory(err);
        return 0;
    }
    char *name = (char *)(k + 1);
    if (kind.len > 0)
        memcpy(name, kind.ptr, kind.len);
    k->name = tci_str_of(name, kind.len);
    k->number = ix->nkinds + 1;
    if (tci_map_put(&ix->kinds, k->name, k, err) < 0) {
        tci_free(k);
        return 0;
    }
    return ++ix->nkinds;
}
