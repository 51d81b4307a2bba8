/* SPDX-License-Identifier: Apache-2.0
 *
 * The rules for a batch, all of them before anything is changed. Leaves storing to the backend and taking
 * over to index_apply.c. Runs on the store's thread. Invariant: a batch that passes can be applied,
 * whatever order its writes are read in. */
#include "store/delta.h"
#include "store/index/index_int.h"
#include "store/jsonl/jsonl_scan.h"

/* What one check needs at hand. */
typedef struct check {
    tci_index *ix;
    tci_batch *batch;
    tci_arena *a;
    bool looks_at_texts;
    tc_err *err;
} check;

enum { TYPE_BITS = 3, TYPE_MASK = (1 << TYPE_BITS) - 1 };

#define BATCH_ID "ID %llu "
#define ID_ARG(id) (unsigned long long)(id)

static tci_record_type type_of(const tci_write *w)
{
    switch (w->type) {
    case TCI_WRITE_CONVERSATION:
        return TCI_RECORD_CONVERSATION;
    case TCI_WRITE_ENTRY:
        return TCI_RECORD_ENTRY;
    case TCI_WRITE_TASK:
        return TCI_RECORD_TASK;
    case TCI_WRITE_SUBMISSION:
        return TCI_RECORD_SUBMISSION;
    case TCI_WRITE_DOC_CREATE:
    case TCI_WRITE_DOC_COPY:
    case TCI_WRITE_DOC_CHANGE:
    case TCI_WRITE_DOC_RETIRE:
        return TCI_RECORD_DOCUMENT;
    }
    return TCI_RECORD_DOCUMENT;
}

static uint64_t id_of(const tci_write *w)
{
    switch (type_of(w)) {
    case TCI_RECORD_CONVERSATION:
        return w->u.conversation.id;
    case TCI_RECORD_ENTRY:
        return w->u.entry.id;
    case TCI_RECORD_TASK:
        return w->u.task.id;
    case TCI_RECORD_SUBMISSION:
        return w->u.submission.id;
    case TCI_RECORD_DOCUMENT:
        break;
    }
    return w->u.document.id;
}

static bool makes_document(const tci_write *w)
{
    return w->type == TCI_WRITE_DOC_CREATE || w->type == TCI_WRITE_DOC_COPY;
}

/* ---- ids ---- */

/* The type of record that has the id; false when none has. */
static bool stored_type(const tci_index *ix, uint64_t id, tci_record_type *ret)
{
    const tci_table *const tables[] = {
        [TCI_RECORD_CONVERSATION] = &ix->conversations,
        [TCI_RECORD_ENTRY] = &ix->entries,
        [TCI_RECORD_TASK] = &ix->tasks,
        [TCI_RECORD_SUBMISSION] = &ix->submissions,
        [TCI_RECORD_DOCUMENT] = &ix->documents,
    };
    if (id >= ix->next_id)
        return false;
    for (int t = 0; t < TCI_RECORD_TYPES; t++) {
        if (tci_table_find(tables[t], id) != NULL) {
            *ret = (tci_record_type)t;
            return true;
        }
    }
    return false;
}

static int check_stored(check *c, const tci_write *w, uint64_t id, tci_record_type type)
{
    tci_record_type stored;
    if (!stored_type(c->ix, id, &stored))
        return 0;
    bool is_create = type == TCI_RECORD_CONVERSATION || type == TCI_RECORD_ENTRY ||
                     (type == TCI_RECORD_DOCUMENT && makes_document(w));
    if (stored == type && !is_create)
        return 0;
    if (type == TCI_RECORD_DOCUMENT && !makes_document(w))
        return tc_err_set(c->err, TC_E_CONFLICT, "Unknown document %llu", ID_ARG(id));
    return tc_err_set(c->err, TC_E_CONFLICT, BATCH_ID "already belongs to %s", ID_ARG(id),
                      tci_record_type_name(stored));
}

/* The step of the document, made when this is the first write to it. */
static tci_doc_step *step_of(check *c, uint64_t id, uintptr_t *seen)
{
    tci_batch *b = c->batch;
    if (*seen >> TYPE_BITS != 0)
        return &b->docs[(*seen >> TYPE_BITS) - 1];
    tci_doc_step *step = &b->docs[b->ndocs++];
    step->id = id;
    step->doc = tci_index_doc(c->ix, id);
    *seen |= (uintptr_t)b->ndocs << TYPE_BITS;
    return step;
}

static int note_document(check *c, size_t i, uint64_t id, uintptr_t *seen)
{
    const tci_write *w = &c->batch->writes[i];
    tci_doc_step *step = step_of(c, id, seen);
    bool is_retire = w->type == TCI_WRITE_DOC_RETIRE;
    size_t *place = is_retire ? &step->retire : &step->content;
    if (*place == 0) {
        *place = i + 1;
        return 0;
    }
    if (makes_document(w) && makes_document(&c->batch->writes[*place - 1]))
        return tc_err_set(c->err, TC_E_CONFLICT, BATCH_ID "is written more than once", ID_ARG(id));
    return tc_err_set(c->err, TC_E_CONFLICT, "document %llu has more than one %s in the batch",
                      ID_ARG(id), is_retire ? "retirement" : "content");
}

static int check_id(check *c, size_t i)
{
    const tci_write *w = &c->batch->writes[i];
    uint64_t id = id_of(w);
    tci_record_type type = type_of(w);
    if (id == 0 || id > TCI_ID_MAX)
        return tc_err_set(c->err, TC_E_INVALID, "write %zu has no id", i);
    int rc = check_stored(c, w, id, type);
    if (rc < 0)
        return rc;
    uintptr_t *seen = tci_id_map_put(&c->ix->batch, id);
    if (seen == NULL)
        return tci_err_no_memory(c->err);
    if (*seen != 0 && (*seen & TYPE_MASK) != (uintptr_t)type + 1)
        return tc_err_set(c->err, TC_E_CONFLICT, BATCH_ID "is written as two record types",
                          ID_ARG(id));
    if (*seen != 0 && (type == TCI_RECORD_CONVERSATION || type == TCI_RECORD_ENTRY))
        return tc_err_set(c->err, TC_E_CONFLICT, BATCH_ID "is written more than once", ID_ARG(id));
    *seen |= (uintptr_t)type + 1;
    return type == TCI_RECORD_DOCUMENT ? note_document(c, i, id, seen) : 0;
}

/* ---- texts ---- */

/* The text of a record that is all in its struct. */
static int written_out(check *c, const tci_write *w, tc_str *ret)
{
    tci_buf b;
    tci_buf_init(&b, TCI_RECORD_MAX);
    if (type_of(w) == TCI_RECORD_CONVERSATION)
        tci_conversation_put(&b, &w->u.conversation);
    else
        tci_document_put(&b, &w->u.document);
    int rc = tci_buf_error(&b, c->err);
    if (rc == 0)
        rc = tci_arena_dup(c->a, tci_buf_str(&b), ret, c->err);
    tci_buf_done(&b);
    return rc;
}

static int check_text(check *c, tc_str text, bool is_object)
{
    if (text.len > TCI_RECORD_MAX)
        return tc_err_set(c->err, TC_E_TOO_BIG, "over %d bytes", TCI_RECORD_MAX);
    if (!c->looks_at_texts)
        return 0;
    if (!tci_json_is_line(text) || (is_object && text.ptr[0] != '{'))
        return tc_err_set(c->err, TC_E_INVALID, "it is not the JSON text it must be");
    return 0;
}

static int check_record(check *c, size_t i)
{
    const tci_write *w = &c->batch->writes[i];
    tc_str *text = &c->batch->records[i];
    int rc = 0;
    switch (w->type) {
    case TCI_WRITE_CONVERSATION:
        *text = w->u.conversation.json;
        rc = text->len == 0 ? written_out(c, w, text) : 0;
        break;
    case TCI_WRITE_ENTRY:
        *text = w->u.entry.json;
        break;
    case TCI_WRITE_TASK:
        *text = w->u.task.json;
        break;
    case TCI_WRITE_SUBMISSION:
        *text = w->u.submission.json;
        break;
    case TCI_WRITE_DOC_CREATE:
    case TCI_WRITE_DOC_COPY:
        if (w->u.document.created_at != 0 || w->u.document.retired_at != 0)
            return tc_err_set(c->err, TC_E_INVALID, "a new document has no createdAt");
        *text = w->u.document.json;
        rc = text->len == 0 ? written_out(c, w, text) : 0;
        break;
    case TCI_WRITE_DOC_CHANGE:
    case TCI_WRITE_DOC_RETIRE:
        return 0;
    }
    if (rc == 0)
        rc = check_text(c, *text, true);
    return rc < 0
               ? tc_err_wrap(c->err, "%s %llu", tci_record_type_name(type_of(w)), ID_ARG(id_of(w)))
               : 0;
}

static int check_content(check *c, size_t i)
{
    const tci_content *content = &c->batch->writes[i].content;
    if (content->version == 0 || content->version > TCI_ID_MAX)
        return tc_err_set(c->err, TC_E_INVALID, "a content has no version");
    int rc = check_text(c, content->json, !content->is_delta);
    if (rc == 0 && c->looks_at_texts && content->is_delta)
        rc = tci_delta_check(content->json, &c->ix->scratch, c->err);
    if (rc == 0)
        c->batch->contents[i] = *content;
    return rc == TC_E_PARSE ? tc_err_recode(c->err, TC_E_INVALID) : rc;
}

/* ---- documents ---- */

static int check_change(check *c, const tci_doc_step *step)
{
    const tci_doc *doc = step->doc;
    const tci_content *content = &c->batch->writes[step->content - 1].content;
    if (!content->is_delta)
        return 0;
    if (doc->nrevisions == 0)
        return tc_err_set(c->err, TC_E_CONFLICT, "a delta needs a base");
    if (doc->revisions[doc->nrevisions - 1].version != content->version)
        return tc_err_set(c->err, TC_E_CONFLICT, "a version transition requires a base");
    return 0;
}

/* The value of a source, as the content of its copy. */
static int copy_value(check *c, const tci_doc *source, uint64_t at, tci_content *ret)
{
    size_t base, end;
    if (!tci_doc_is_alive(source, at) || !tci_doc_range(source, at, &base, &end))
        return tc_err_set(c->err, TC_E_CONFLICT, "the source of the copy is not readable there");
    ret->is_delta = false;
    ret->version = source->revisions[end - 1].version;
    if (end == base + 1)
        return tci_index_text(c->ix, &source->revisions[base].place, source->record.id, 0, c->a,
                              &ret->json, c->err);
    tci_tree tree = TCI_TREE_NONE;
    int rc = tci_doc_value(c->ix, source, base, end, &tree, c->err);
    if (rc < 0)
        return rc;
    tci_buf b;
    tci_buf_init(&b, TCI_RECORD_MAX);
    tci_json_put(&b, &tree.root, TCI_JSON_AS_IS);
    rc = tci_buf_error(&b, c->err);
    if (rc == 0)
        rc = tci_arena_dup(c->a, tci_buf_str(&b), &ret->json, c->err);
    tci_buf_done(&b);
    tci_tree_done(&tree);
    return rc;
}

static int check_copy(check *c, const tci_doc_step *step)
{
    size_t i = step->content - 1;
    const tci_write *w = &c->batch->writes[i];
    const tci_document *d = &w->u.document;
    const tci_doc *source = tci_index_doc(c->ix, w->source_id);
    if (tci_id_map_get(&c->ix->batch, w->source_id) != NULL)
        return tc_err_set(c->err, TC_E_CONFLICT, "the source of the copy changes in the batch");
    if (source == NULL)
        return tc_err_set(c->err, TC_E_CONFLICT, "Unknown document %llu", ID_ARG(w->source_id));
    const tci_document *s = &source->record;
    if (s->scope != TCI_SCOPE_CONVERSATION || d->scope != s->scope || d->history != s->history ||
        d->fork != s->fork || d->has_key != s->has_key || !tci_str_eq(d->kind, s->kind) ||
        !tci_str_eq(d->key, s->key))
        return tc_err_set(c->err, TC_E_CONFLICT, "the copy is of another kind than its source");
    if (tci_doc_check_point(source, w->source_at, c->err) < 0)
        return tc_err_recode(c->err, TC_E_CONFLICT);
    return copy_value(c, source, w->source_at, &c->batch->contents[i]);
}

static int check_step(check *c, const tci_doc_step *step)
{
    const tci_write *content = step->content > 0 ? &c->batch->writes[step->content - 1] : NULL;
    bool is_made = content != NULL && makes_document(content);
    if (!is_made && step->doc == NULL)
        return tc_err_set(c->err, TC_E_CONFLICT, "Unknown document %llu", ID_ARG(step->id));
    if (!is_made && step->doc->record.retired_at != 0)
        return tc_err_set(c->err, TC_E_CONFLICT, "Document %llu is retired", ID_ARG(step->id));
    if (content == NULL)
        return 0;
    if (content->type == TCI_WRITE_DOC_COPY)
        return check_copy(c, step);
    int rc = check_content(c, step->content - 1);
    if (rc == 0 && content->type == TCI_WRITE_DOC_CREATE && content->content.is_delta)
        rc = tc_err_set(c->err, TC_E_INVALID, "a document begins with a base");
    else if (rc == 0 && content->type == TCI_WRITE_DOC_CHANGE)
        rc = check_change(c, step);
    return rc < 0 ? tc_err_wrap(c->err, "document %llu", ID_ARG(step->id)) : 0;
}

static const tci_document *made_by(const check *c, const tci_doc_step *step)
{
    return &c->batch->writes[step->content - 1].u.document;
}

static int taken(check *c)
{
    return tc_err_set(c->err, TC_E_CONFLICT, "Document address already has a current incarnation");
}

/* Is another document alive at the address of this new one behind the batch? */
static int check_address(check *c, tci_doc_step *step)
{
    const tci_document *d = made_by(c, step);
    step->address_hash = tci_address_hash(d);
    if (step->retire > 0)
        return 0;
    const tci_ids *old = tci_postings_get(&c->ix->lists, TCI_LIST_ADDRESS, step->address_hash);
    for (size_t k = 0; old != NULL && k < old->count; k++) {
        const tci_doc *doc = tci_index_doc(c->ix, old->at[k]);
        if (doc->record.retired_at != 0 || !tci_address_equal(&doc->record, d))
            continue;
        const uintptr_t *seen = tci_id_map_get(&c->ix->batch, old->at[k]);
        if (seen == NULL || c->batch->docs[(*seen >> TYPE_BITS) - 1].retire == 0)
            return taken(c);
    }
    uintptr_t *last = tci_id_map_put(&c->ix->hashes, step->address_hash | 1);
    if (last == NULL)
        return tci_err_no_memory(c->err);
    for (size_t k = *last; k > 0; k = c->batch->docs[k - 1].same_hash) {
        if (tci_address_equal(made_by(c, &c->batch->docs[k - 1]), d))
            return taken(c);
    }
    step->same_hash = *last;
    *last = (uintptr_t)(step - c->batch->docs) + 1;
    return 0;
}

/* ---- all ---- */

static int check_writes(check *c)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < c->batch->nwrites; i++) {
        rc = check_id(c, i);
        if (rc == 0)
            rc = check_record(c, i);
    }
    for (size_t k = 0; rc == 0 && k < c->batch->ndocs; k++) {
        tci_doc_step *step = &c->batch->docs[k];
        rc = check_step(c, step);
        if (rc == 0 && step->doc == NULL)
            rc = check_address(c, step);
    }
    return rc;
}

int tci_index_check(tci_index *ix, const tci_write *writes, size_t nwrites, tci_check_how how,
                    tci_arena *a, tci_batch *ret, tc_err *err)
{
    tci_batch b = {.writes = writes, .nwrites = nwrites};
    if (nwrites > 0) {
        b.records = tci_arena_items(a, tc_str, nwrites);
        b.contents = tci_arena_items(a, tci_content, nwrites);
        b.docs = tci_arena_items(a, tci_doc_step, nwrites);
        if (b.records == NULL || b.contents == NULL || b.docs == NULL)
            return tci_arena_error(a, err);
    }
    check c = {ix, &b, a, how == TCI_CHECK_TEXTS, err};
    int rc = check_writes(&c);
    tci_id_map_clear(&ix->batch);
    tci_id_map_clear(&ix->hashes);
    if (rc == 0)
        *ret = b;
    return rc;
}
