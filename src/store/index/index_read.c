/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading single records and documents. Scans are in index_scan.c. Runs on the store's thread.
 * Invariant: nothing that is handed out lies in the index. */
#include "store/delta.h"
#include "store/index/index_int.h"

/* ---- records ---- */

int tci_index_conversation(tci_index *ix, uint64_t id, tci_arena *a, tci_conversation *ret,
                           tc_err *err)
{
    const tci_ix_conversation *r = tci_table_find(&ix->conversations, id);
    if (r == NULL) {
        *ret = (tci_conversation){0};
        return 0;
    }
    tc_str text;
    int rc = tci_index_text(ix, &r->place, 0, 0, a, &text, err);
    return rc < 0 ? rc : tci_conversation_parse(text, a, ret, err);
}

int tci_index_read_task(tci_index *ix, uint64_t id, tci_arena *a, tci_task *ret, tc_err *err)
{
    const tci_ix_task *r = tci_table_find(&ix->tasks, id);
    if (r == NULL) {
        *ret = (tci_task){0};
        return 0;
    }
    tc_str text;
    int rc = tci_index_text(ix, &r->place, 0, 0, a, &text, err);
    return rc < 0 ? rc : tci_task_parse(text, a, NULL, ret, err);
}

int tci_index_submission(tci_index *ix, uint64_t id, tci_arena *a, tci_submission *ret, tc_err *err)
{
    const tci_ix_submission *r = tci_table_find(&ix->submissions, id);
    if (r == NULL) {
        *ret = (tci_submission){0};
        return 0;
    }
    tc_str text;
    int rc = tci_index_text(ix, &r->place, 0, 0, a, &text, err);
    return rc < 0 ? rc : tci_submission_parse(text, a, ret, err);
}

int tci_index_by_request(tci_index *ix, uint64_t conversation_id, tc_str request_id, tci_arena *a,
                         tci_submission *ret, tc_err *err)
{
    uint64_t hash = tci_request_hash(conversation_id, request_id);
    const tci_ids *ids = tci_postings_get(&ix->lists, TCI_LIST_REQUEST, hash);
    for (size_t i = 0; ids != NULL && i < ids->count; i++) {
        tci_submission s;
        int rc = tci_index_submission(ix, ids->at[i], a, &s, err);
        if (rc < 0)
            return rc;
        if (s.conversation_id == conversation_id && s.has_request_id &&
            tci_str_eq(s.request_id, request_id)) {
            *ret = s;
            return 0;
        }
    }
    *ret = (tci_submission){0};
    return 0;
}

/* ---- entries ---- */

static int read_entry(tci_index *ix, const tci_ix_entry *r, tci_arena *a, tci_entry *ret,
                      tc_err *err)
{
    tc_str text;
    int rc = tci_index_text(ix, &r->place, 0, 0, a, &text, err);
    return rc < 0 ? rc : tci_entry_parse(text, a, NULL, ret, err);
}

int tci_segments_of(const tci_index *ix, uint64_t conversation_id, tci_segments *ret, tc_err *err)
{
    const tci_ix_conversation *c = tci_table_find(&ix->conversations, conversation_id);
    if (c == NULL)
        return tc_err_set(err, TC_E_NOT_FOUND, "Unknown conversation %llu",
                          (unsigned long long)conversation_id);
    *ret = (tci_segments){.ix = ix, .c = c, .cap = UINT64_MAX, .left = ix->conversations.count};
    return 0;
}

bool tci_segments_next(tci_segments *s, uint64_t *ret_conversation, uint64_t *ret_cap)
{
    if (s->c == NULL || s->left == 0)
        return false;
    *ret_conversation = s->c->id;
    *ret_cap = s->cap;
    s->left--; /* a chain that bites its tail ends, too */
    if (s->c->parent_at < s->cap)
        s->cap = s->c->parent_at;
    s->c = s->c->parent_id != 0 ? tci_table_find(&s->ix->conversations, s->c->parent_id) : NULL;
    return true;
}

int tci_index_entry(tci_index *ix, uint64_t conversation_id, uint64_t id, tci_arena *a,
                    tci_entry *ret, uint64_t *ret_seq, tc_err *err)
{
    const tci_ix_entry *r = tci_table_find(&ix->entries, id);
    bool is_visible = r != NULL && conversation_id == 0;
    if (conversation_id != 0) {
        tci_segments chain;
        uint64_t conversation, cap;
        int rc = tci_segments_of(ix, conversation_id, &chain, err);
        if (rc < 0)
            return rc;
        while (r != NULL && !is_visible && tci_segments_next(&chain, &conversation, &cap))
            is_visible = conversation == r->conversation_id && id <= cap;
    }
    if (!is_visible) {
        *ret = (tci_entry){0};
        *ret_seq = 0;
        return 0;
    }
    int rc = read_entry(ix, r, a, ret, err);
    if (rc == 0)
        *ret_seq = r->seq;
    return rc;
}

int tci_index_head_marker(tci_index *ix, uint64_t conversation_id, uint64_t cutoff, tci_arena *a,
                          tci_entry *ret, tc_err *err)
{
    tci_segments chain;
    uint64_t conversation, cap, best = 0;
    int rc = tci_segments_of(ix, conversation_id, &chain, err);
    if (rc < 0)
        return rc;
    while (tci_segments_next(&chain, &conversation, &cap)) {
        if (cutoff != 0 && cutoff < cap)
            cap = cutoff;
        tci_id_view heads =
            tci_ids_view(tci_postings_get(&ix->lists, TCI_LIST_HEADS, conversation));
        size_t end = cap == UINT64_MAX ? heads.count : tci_id_find(&heads, cap + 1);
        if (end > 0 && tci_id_at(&heads, end - 1) > best)
            best = tci_id_at(&heads, end - 1);
    }
    if (best == 0) {
        *ret = (tci_entry){0};
        return 0;
    }
    return read_entry(ix, tci_table_find(&ix->entries, best), a, ret, err);
}

/* ---- documents ---- */

bool tci_doc_is_alive(const tci_doc *doc, uint64_t at)
{
    const tci_document *d = &doc->record;
    if (at == 0)
        return d->retired_at == 0;
    return d->created_at <= at && (d->retired_at == 0 || at < d->retired_at);
}

bool tci_doc_range(const tci_doc *doc, uint64_t at, size_t *ret_base, size_t *ret_end)
{
    size_t end = doc->nrevisions;
    while (end > 0 && at != 0 && doc->revisions[end - 1].seq > at)
        end--;
    size_t base = end;
    while (base > 0 && doc->revisions[base - 1].is_delta)
        base--;
    if (base == 0)
        return false;
    *ret_base = base - 1;
    *ret_end = end;
    return true;
}

int tci_doc_check_point(const tci_doc *doc, uint64_t at, tc_err *err)
{
    if (at == 0 || !tci_document_is_current_only(&doc->record))
        return 0;
    return tc_err_set(err, TC_E_UNSUPPORTED, "document %llu does not retain historical content",
                      (unsigned long long)doc->record.id);
}

int tci_doc_value(tci_index *ix, const tci_doc *doc, size_t base, size_t end, tci_tree *ret,
                  tc_err *err)
{
    tci_arena a;
    tci_arena_init(&a, 0);
    tci_tree tree = TCI_TREE_NONE;
    tc_str text;
    int rc = tci_index_text(ix, &doc->revisions[base].place, doc->record.id, 0, &a, &text, err);
    if (rc == 0)
        rc = tci_tree_parse(text, TCI_JSON_DURABLE, &tree, err);
    for (size_t i = base + 1; rc == 0 && i < end; i++) {
        tci_arena_clear(&a);
        rc = tci_index_text(ix, &doc->revisions[i].place, doc->record.id, 1, &a, &text, err);
        if (rc == 0)
            rc = tci_delta_apply(&tree, text, &ix->scratch, err);
    }
    tci_arena_done(&a);
    if (rc == 0) {
        *ret = tree;
        return 0;
    }
    tci_tree_done(&tree);
    if (rc == TC_E_INVALID)
        rc = tc_err_recode(err, TC_E_PARSE);
    (void)tc_err_wrap(err, "document %llu", (unsigned long long)doc->record.id);
    return rc;
}

int tci_doc_record(const tci_doc *doc, tci_arena *a, tci_document *ret, tc_err *err)
{
    const tci_document *d = &doc->record;
    size_t body = d->json.len;
    while (body > 0 && d->json.ptr[body - 1] != '}')
        body--;
    tci_buf b;
    tci_buf_init(&b, TCI_RECORD_MAX);
    tci_buf_append(&b, d->json.ptr, body > 0 ? body - 1 : 0);
    tci_buf_append_str(&b, TC_STR(",\"createdAt\":"));
    tci_buf_append_u64(&b, d->created_at);
    if (d->retired_at != 0) {
        tci_buf_append_str(&b, TC_STR(",\"retiredAt\":"));
        tci_buf_append_u64(&b, d->retired_at);
    }
    tci_buf_append_byte(&b, '}');
    tci_document copy = *d;
    int rc = tci_buf_error(&b, err);
    if (rc == 0)
        rc = tci_arena_dup(a, tci_buf_str(&b), &copy.json, err);
    if (rc == 0)
        rc = tci_arena_dup(a, d->kind, &copy.kind, err);
    if (rc == 0)
        rc = tci_arena_dup(a, d->key, &copy.key, err);
    tci_buf_done(&b);
    if (rc == 0)
        *ret = copy;
    return rc;
}

int tci_index_find_document(tci_index *ix, const tci_address *address, uint64_t at, tci_arena *a,
                            tci_document *ret, tc_err *err)
{
    tci_document wanted = {.kind = address->kind,
                           .scope = address->scope,
                           .owner_id = address->owner_id,
                           .has_key = address->has_key,
                           .key = address->key};
    const tci_ids *ids = tci_postings_get(&ix->lists, TCI_LIST_ADDRESS, tci_address_hash(&wanted));
    for (size_t i = ids != NULL ? ids->count : 0; i > 0; i--) {
        const tci_doc *doc = tci_index_doc(ix, ids->at[i - 1]);
        if (tci_doc_is_alive(doc, at) && tci_address_equal(&doc->record, &wanted))
            return tci_doc_record(doc, a, ret, err);
    }
    *ret = (tci_document){0};
    return 0;
}

int tci_index_document(tci_index *ix, uint64_t id, uint64_t at, tci_arena *a,
                       tci_document_state *ret, tci_tree *ret_value, tc_err *err)
{
    const tci_doc *doc = tci_index_doc(ix, id);
    size_t base, end;
    int rc = doc != NULL ? tci_doc_check_point(doc, at, err) : 0;
    if (rc < 0)
        return rc;
    if (doc == NULL || !tci_doc_is_alive(doc, at) || !tci_doc_range(doc, at, &base, &end)) {
        *ret = (tci_document_state){0};
        if (ret_value != NULL)
            *ret_value = TCI_TREE_NONE;
        return 0;
    }
    tci_document_state state = {.version = doc->revisions[end - 1].version,
                                .deltas_since_base = end - 1 - base};
    rc = tci_doc_record(doc, a, &state.record, err);
    if (rc == 0 && ret_value != NULL)
        rc = tci_doc_value(ix, doc, base, end, ret_value, err);
    if (rc == 0)
        *ret = state;
    return rc;
}
