/* SPDX-License-Identifier: Apache-2.0
 *
 * Taking over a batch that was checked and stored: records into tables and lists. Runs on the store's
 * thread. Invariant: only memory can be missing here, and then the index is no longer used. */
#include "store/index/index_int.h"

/* Move a place into its record. */
static tci_place take(tci_place *from)
{
    tci_place p = *from;
    *from = (tci_place){0};
    return p;
}

static int apply_conversation(tci_index *ix, const tci_conversation *c, tci_place *place,
                              tc_err *err)
{
    tci_ix_conversation *r = tci_table_put(&ix->conversations, c->id);
    if (r == NULL)
        return tci_err_no_memory(err);
    r->parent_id = c->parent_id;
    r->parent_at = c->parent_at;
    r->owner_conversation_id = c->owner_conversation_id;
    r->owner_task_id = c->owner_task_id;
    r->place = take(place);
    int rc = 0;
    if (c->owner_conversation_id != 0)
        rc = tci_postings_add(&ix->lists, TCI_LIST_OWNED_BY, c->owner_conversation_id, c->id, err);
    if (rc == 0 && c->owner_task_id != 0)
        rc = tci_postings_add(&ix->lists, TCI_LIST_OWNED_BY_TASK, c->owner_task_id, c->id, err);
    return rc;
}

static int apply_entry(tci_index *ix, const tci_entry *e, uint64_t seq, tci_place *place,
                       tc_err *err)
{
    tci_ix_entry *r = tci_table_put(&ix->entries, e->id);
    if (r == NULL)
        return tci_err_no_memory(err);
    r->conversation_id = e->conversation_id;
    r->head = e->head;
    r->seq = seq;
    r->place = take(place);
    int rc = tci_postings_add(&ix->lists, TCI_LIST_ENTRIES, e->conversation_id, e->id, err);
    if (rc == 0 && e->head != 0)
        rc = tci_postings_add(&ix->lists, TCI_LIST_HEADS, e->conversation_id, e->id, err);
    return rc;
}

/* Out of one list and into another, unless they are the same. */
static int move(tci_index *ix, tci_list_of what, bool is_old, uint64_t old_key, uint64_t key,
                uint64_t id, tc_err *err)
{
    if (is_old && old_key == key)
        return 0;
    if (is_old)
        tci_postings_remove(&ix->lists, what, old_key, id);
    return tci_postings_add(&ix->lists, what, key, id, err);
}

static int apply_task(tci_index *ix, const tci_task *t, tci_place *place, tc_err *err)
{
    tci_ix_task *r = tci_table_put(&ix->tasks, t->id);
    uint32_t kind = tci_index_add_kind(ix, t->kind, err);
    if (kind == 0)
        return err->code;
    if (r == NULL)
        return tci_err_no_memory(err);
    bool is_old = r->conversation_id != 0;
    tci_ix_task old = *r;
    tci_place_done(&r->place);
    r->conversation_id = t->conversation_id;
    r->kind = kind;
    r->status = (uint8_t)t->status;
    r->is_abort_requested = t->is_abort_requested;
    r->is_background = t->is_background;
    r->place = take(place);
    int rc = move(ix, TCI_LIST_TASKS, is_old, old.conversation_id, t->conversation_id, t->id, err);
    if (rc == 0)
        rc = move(ix, TCI_LIST_TASK_STATUS, is_old, old.status, t->status, t->id, err);
    if (old.is_abort_requested && !t->is_abort_requested)
        tci_postings_remove(&ix->lists, TCI_LIST_TASK_ABORT, 0, t->id);
    if (rc == 0 && t->is_abort_requested)
        rc = tci_postings_add(&ix->lists, TCI_LIST_TASK_ABORT, 0, t->id, err);
    return rc;
}

static int apply_submission(tci_index *ix, const tci_submission *s, tci_place *place, tc_err *err)
{
    tci_ix_submission *r = tci_table_put(&ix->submissions, s->id);
    if (r == NULL)
        return tci_err_no_memory(err);
    bool is_old = r->conversation_id != 0;
    tci_ix_submission old = *r;
    tci_place_done(&r->place);
    r->conversation_id = s->conversation_id;
    r->status = (uint8_t)s->status;
    r->has_request_id = s->has_request_id;
    r->request_hash = 0;
    r->place = take(place);
    if (s->has_request_id)
        r->request_hash = tci_request_hash(s->conversation_id, s->request_id);
    uint64_t hash = r->request_hash;
    int rc =
        move(ix, TCI_LIST_SUBMISSIONS, is_old, old.conversation_id, s->conversation_id, s->id, err);
    if (rc == 0)
        rc = move(ix, TCI_LIST_SUB_STATUS, is_old, old.status, s->status, s->id, err);
    if (old.has_request_id && (!s->has_request_id || old.request_hash != hash))
        tci_postings_remove(&ix->lists, TCI_LIST_REQUEST, old.request_hash, s->id);
    if (rc == 0 && s->has_request_id)
        rc = tci_postings_add(&ix->lists, TCI_LIST_REQUEST, hash, s->id, err);
    return rc;
}

/* ---- documents ---- */

/* A document of its own: texts and all in two blocks. */
static tci_doc *doc_new(const tci_document *d, tc_str json, uint64_t seq)
{
    tci_doc *doc = tci_new(tci_doc);
    size_t len = json.len + d->kind.len + d->key.len;
    char *text = tci_mem_resize(NULL, len > 0 ? len : 1);
    if (doc == NULL || text == NULL) {
        tci_free(doc);
        tci_free(text);
        return NULL;
    }
    doc->record = *d;
    doc->record.created_at = seq;
    tc_str *parts[] = {&doc->record.json, &doc->record.kind, &doc->record.key};
    doc->record.json = json;
    for (size_t i = 0; i < TCI_ARRAY_LEN(parts); i++) {
        if (parts[i]->len > 0)
            memcpy(text, parts[i]->ptr, parts[i]->len);
        parts[i]->ptr = text;
        text += parts[i]->len;
    }
    doc->address_hash = tci_address_hash(d);
    return doc;
}

static int make_document(tci_index *ix, const tci_document *d, tc_str json, uint64_t seq,
                         tci_doc **ret, tc_err *err)
{
    tci_ix_document *r = tci_table_put(&ix->documents, d->id);
    if (r == NULL)
        return tci_err_no_memory(err);
    tci_doc *doc = r->doc = doc_new(d, json, seq);
    if (doc == NULL)
        return tci_err_no_memory(err);
    *ret = doc;
    int rc = tci_postings_add(&ix->lists, TCI_LIST_ADDRESS, doc->address_hash, d->id, err);
    if (rc == 0)
        rc = tci_postings_add(&ix->lists, TCI_LIST_SCOPE + (unsigned)d->scope, d->owner_id, d->id,
                              err);
    return rc;
}

static void drop_revisions(tci_doc *doc)
{
    for (size_t i = 0; i < doc->nrevisions; i++)
        tci_place_done(&doc->revisions[i].place);
    doc->nrevisions = 0;
}

static int add_revision(tci_doc *doc, const tci_content *content, uint64_t seq, tci_place *place,
                        tc_err *err)
{
    if (!content->is_delta && tci_document_is_current_only(&doc->record))
        drop_revisions(doc);
    if (doc->nrevisions == doc->cap) {
        size_t cap = doc->cap == 0 ? 2 : doc->cap * 2;
        tci_revision *grown = tci_mem_resize(doc->revisions, cap * sizeof *grown);
        if (grown == NULL)
            return tci_err_no_memory(err);
        doc->revisions = grown;
        doc->cap = cap;
    }
    doc->revisions[doc->nrevisions++] = (tci_revision){.seq = seq,
                                                       .version = content->version,
                                                       .is_delta = content->is_delta,
                                                       .place = take(place)};
    return 0;
}

static int apply_document(tci_index *ix, const tci_batch *b, const tci_doc_step *step, uint64_t seq,
                          tci_placed *placed, tc_err *err)
{
    tci_doc *doc = step->doc;
    size_t i = step->content - 1; /* counts only when there is one */
    int rc = 0;
    if (doc == NULL)
        rc = make_document(ix, &b->writes[i].u.document, b->records[i], seq, &doc, err);
    if (rc == 0 && step->content > 0)
        rc = add_revision(doc, &b->contents[i], seq, &placed[i].content, err);
    if (rc < 0 || step->retire == 0)
        return rc;
    doc->record.retired_at = seq;
    if (tci_document_is_current_only(&doc->record)) {
        drop_revisions(doc);
        tci_free(doc->revisions);
        doc->revisions = NULL;
        doc->cap = 0;
    }
    return 0;
}

/* ---- all ---- */

static void see_id(tci_index *ix, uint64_t id)
{
    if (id >= ix->next_id)
        ix->next_id = id + 1;
}

static int apply_record(tci_index *ix, const tci_write *w, uint64_t seq, tci_place *place,
                        tc_err *err)
{
    switch (w->type) {
    case TCI_WRITE_CONVERSATION:
        see_id(ix, w->u.conversation.id);
        return apply_conversation(ix, &w->u.conversation, place, err);
    case TCI_WRITE_ENTRY:
        see_id(ix, w->u.entry.id);
        return apply_entry(ix, &w->u.entry, seq, place, err);
    case TCI_WRITE_TASK:
        see_id(ix, w->u.task.id);
        return apply_task(ix, &w->u.task, place, err);
    case TCI_WRITE_SUBMISSION:
        see_id(ix, w->u.submission.id);
        return apply_submission(ix, &w->u.submission, place, err);
    case TCI_WRITE_DOC_CREATE:
    case TCI_WRITE_DOC_COPY:
        see_id(ix, w->u.document.id);
        break;
    case TCI_WRITE_DOC_CHANGE:
    case TCI_WRITE_DOC_RETIRE:
        break;
    }
    return 0;
}

int tci_index_apply(tci_index *ix, const tci_batch *batch, uint64_t seq, tci_placed *placed,
                    tc_err *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < batch->nwrites; i++)
        rc = apply_record(ix, &batch->writes[i], seq, &placed[i].record, err);
    for (size_t k = 0; rc == 0 && k < batch->ndocs; k++)
        rc = apply_document(ix, batch, &batch->docs[k], seq, placed, err);
    for (size_t i = 0; i < batch->nwrites; i++) { /* what nobody took */
        tci_place_done(&placed[i].record);
        tci_place_done(&placed[i].content);
    }
    ix->next_seq = seq + 1;
    return rc;
}
