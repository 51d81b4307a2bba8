/* SPDX-License-Identifier: Apache-2.0
 *
 * A commit: what a transaction staged is checked, put together in the order it is written, and given to
 * the storage. Leaves what comes after that to adopt.c. The thread that has the line, until the commit has
 * ended. Invariant: before the storage has answered nothing outside the transaction has
 * changed but the trees of drafted documents, which can be taken back; after it, nothing here can
 * fail any more. */
#include "session/session_int.h"

enum { SCAN_PAGE = 256 };

typedef struct batch {
    tci_write *writes;
    size_t count, cap;
} batch;

/* ---- what must hold ---- */

static int check_owner(tc_tx *tx, const char *what, uint64_t task_id, tc_err *err)
{
    tci_task task = {0};
    int rc = tci_tx_task_now(tx, task_id, &task, err);
    if (rc < 0)
        return rc;
    const char *why = NULL;
    if (task.id == 0)
        why = "does not exist";
    else if (task.status == TCI_TASK_TERMINAL)
        why = "is terminal";
    else if (task.status == TCI_TASK_COMPLETING)
        why = "is completing";
    else if (task.is_abort_requested)
        why = "is abort-marked";
    if (why == NULL)
        return 0;
    return tc_err_set(err, task.id == 0 ? TC_E_NOT_FOUND : TC_E_CONFLICT, "%s %llu %s", what,
                      (unsigned long long)task_id, why);
}

static int check_owners(tc_tx *tx, tc_err *err)
{
    for (size_t i = 0; i < tx->conversations.count; i++) {
        uint64_t owner = tx->conversations.items[i].owner_task_id;
        int rc = owner != 0 ? check_owner(tx, "conversation owner task", owner, err) : 0;
        if (rc < 0)
            return rc;
    }
    for (size_t i = 0; i < tx->tasks.count; i++) {
        const tci_staged_task *t = tx->tasks.items[i];
        if (!t->is_new || t->write.owner == 0)
            continue;
        int rc = check_owner(tx, "task owner", t->write.owner, err);
        if (rc < 0)
            return rc;
    }
    return 0;
}

static int check_replaced(tc_tx *tx, tci_staged_task *t, tc_err *err)
{
    int rc = tci_tx_task_of(tx, t->id, &t, err);
    if (rc < 0)
        return rc;
    unsigned long long id = (unsigned long long)t->id;
    if (t->committed.id == 0)
        return tc_err_set(err, TC_E_NOT_FOUND, "task %llu does not exist", id);
    if (t->committed.status == TCI_TASK_TERMINAL)
        return tc_err_set(err, TC_E_CONFLICT, "task %llu is already terminal", id);
    if (t->committed.conversation_id != t->write.conversation_id)
        return tc_err_set(err, TC_E_CONFLICT, "task %llu cannot change conversations", id);
    return 0;
}

static int check_tasks(tc_tx *tx, tc_err *err)
{
    for (size_t i = 0; i < tx->tasks.count; i++) {
        tci_staged_task *t = tx->tasks.items[i];
        int rc = t->has_write && !t->is_new ? check_replaced(tx, t, err) : 0;
        if (rc < 0)
            return rc;
    }
    return 0;
}

static bool is_among(uint64_t id, const uint64_t *ids, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (ids[i] == id)
            return true;
    return false;
}

/* What a fork copies must not change in the transaction that forks. */
static int check_fork_sources(const tc_tx *tx, tc_err *err)
{
    if (tx->fork_parents.count == 0)
        return 0;
    for (const tc_doc *d = tx->docs; d != NULL; d = d->next) {
        if (d->target == TCI_TARGET_NONE || (!d->has_content && !d->is_retired))
            continue;
        const tci_document *record = tci_doc_record(d);
        if (is_among(record->id, tx->fork_sources.items, tx->fork_sources.count))
            return tc_err_set(err, TC_E_CONFLICT,
                              "cannot change fork source document %llu in the fork transaction",
                              (unsigned long long)record->id);
        if (record->scope == TCI_SCOPE_CONVERSATION && record->fork == TCI_FORK_CURRENT &&
            is_among(record->owner_id, tx->fork_parents.items, tx->fork_parents.count))
            return tc_err_set(err, TC_E_CONFLICT,
                              "cannot fork conversation %llu while changing its documents that "
                              "forks copy",
                              (unsigned long long)record->owner_id);
    }
    return 0;
}

/* ---- documents ---- */

/* The operations as a finished text. */
static void close_ops(tc_doc *d)
{
    if (d->is_whole) {
        tci_put_replacement(&d->ops, &d->loaded->value.root);
        d->nops = 1;
    } else if (d->nops > 0)
        tci_buf_append_byte(&d->ops, ']');
}

/* Whether the change is stored as a base is asked later, when the rest of the batch is sound. */
static int prepare_doc(tc_doc *d, tc_err *err)
{
    switch (d->target) {
    case TCI_TARGET_NONE:
    case TCI_TARGET_RETIRE:
        return 0;
    case TCI_TARGET_COPY:
        d->has_content = true;
        return 0;
    case TCI_TARGET_CREATED:
        d->has_content = d->is_base = true;
        return 0;
    case TCI_TARGET_LOADED:
        break;
    }
    close_ops(d);
    d->is_base = d->loaded->stored_version < d->def->version;
    d->has_content = d->is_base || d->nops > 0;
    return tci_buf_error(&d->ops, err);
}

static int choose_content(tc_doc *d, tc_err *err)
{
    if (!d->has_content || d->target == TCI_TARGET_COPY)
        return 0;
    if (!d->is_base) {
        tc_doc_change change = {.value = &d->loaded->value.root,
                                .ops = tci_buf_str(&d->ops),
                                .nops = d->nops,
                                .deltas_since_base = d->loaded->deltas_since_base};
        d->is_base =
            d->def->checkpoint_when == NULL || d->def->checkpoint_when(d->def->user, &change);
    }
    if (!d->is_base)
        return 0;
    tci_json_put(&d->text, &d->loaded->value.root, TCI_JSON_AS_IS);
    return tci_buf_error(&d->text, err);
}

static bool is_planned(const tc_tx *tx, uint64_t id)
{
    for (const tc_doc *d = tx->docs; d != NULL; d = d->next)
        if (d->target != TCI_TARGET_NONE && tci_doc_record(d)->id == id)
            return true;
    return false;
}

static int retire_found(tc_tx *tx, const tci_document *record, tc_err *err)
{
    tci_address address = {.kind = record->kind,
                           .scope = record->scope,
                           .owner_id = record->owner_id,
                           .has_key = record->has_key,
                           .key = record->key};
    tci_address_key key;
    int rc = tci_address_key_of(&address, &tx->arena, &key, err);
    if (rc < 0)
        return rc;
    tc_doc *d = tci_tx_add_doc(tx, &address, key.text, NULL, err);
    if (d == NULL)
        return err->code;
    d->target = TCI_TARGET_RETIRE;
    d->record = *record;
    d->is_retired = true;
    return 0;
}

static int retire_documents_of(tc_tx *tx, const tci_staged_task *t, tc_err *err)
{
    for (tc_doc *d = tx->docs; d != NULL; d = d->next) {
        if (d->target != TCI_TARGET_NONE && tci_doc_record(d)->scope == TCI_SCOPE_TASK &&
            tci_doc_record(d)->owner_id == t->id)
            d->is_retired = true;
    }
    tci_page page = {.order = TCI_ORDER_ASCENDING, .limit = SCAN_PAGE};
    while (!t->is_new) {
        tci_document *found = NULL;
        size_t n = 0;
        tci_cursor next = {0};
        int rc = tci_store_scan_documents(tx->s->store, TCI_SCOPE_TASK, t->id, TC_STR(""), 0, &page,
                                          &tx->arena, &found, &n, &next, err);
        rc = tci_session_after_read(tx->s, rc, err);
        for (size_t i = 0; rc == 0 && i < n; i++)
            if (!is_planned(tx, found[i].id))
                rc = retire_found(tx, &found[i], err);
        if (rc < 0)
            return rc;
        page.cursor = next;
        if (next.after == 0)
            break;
    }
    return 0;
}

static int retire_with_tasks(tc_tx *tx, tc_err *err)
{
    for (size_t i = 0; i < tx->tasks.count; i++) {
        const tci_staged_task *t = tx->tasks.items[i];
        if (!t->has_write || t->write.status != TCI_TASK_TERMINAL)
            continue;
        int rc = retire_documents_of(tx, t, err);
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* To whom a document's change is told: the conversation of its task. */
static int find_conversation(tc_tx *tx, tc_doc *d, tc_err *err)
{
    const tci_document *record = tci_doc_record(d);
    if (record->scope == TCI_SCOPE_CONVERSATION)
        d->conversation_id = record->owner_id;
    if (record->scope != TCI_SCOPE_TASK || !tci_session_has_listeners(tx->s))
        return 0;
    tci_task task = {0};
    int rc = tci_tx_task_now(tx, record->owner_id, &task, err);
    d->conversation_id = task.conversation_id;
    return rc;
}

/* ---- the batch ---- */

static int room_for(tc_tx *tx, batch *b, tc_err *err)
{
    size_t ndocs = 0;
    for (const tc_doc *d = tx->docs; d != NULL; d = d->next)
        ndocs++;
    b->cap = tx->rows.count + tx->submissions.count + tx->tasks.count + 2 * ndocs;
    if (b->cap == 0)
        return 0;
    b->writes = tci_arena_items(&tx->arena, tci_write, b->cap);
    return b->writes != NULL ? 0 : tci_arena_error(&tx->arena, err);
}

static tci_write *add(batch *b, tci_write_type type)
{
    TC_ASSERT(b->count < b->cap);
    tci_write *w = &b->writes[b->count++];
    w->type = type;
    return w;
}

static void add_rows(const tc_tx *tx, batch *b)
{
    for (size_t i = 0; i < tx->rows.count; i++) {
        tci_row row = tx->rows.items[i];
        if (row.is_entry)
            add(b, TCI_WRITE_ENTRY)->u.entry = tx->entries.items[row.index];
        else
            add(b, TCI_WRITE_CONVERSATION)->u.conversation = tx->conversations.items[row.index];
    }
    for (size_t i = 0; i < tx->submissions.count; i++)
        add(b, TCI_WRITE_SUBMISSION)->u.submission = tx->submissions.items[i];
    for (size_t i = 0; i < tx->tasks.count; i++)
        if (tx->tasks.items[i]->has_write)
            add(b, TCI_WRITE_TASK)->u.task = tx->tasks.items[i]->write;
}

static tci_content content_of(const tc_doc *d)
{
    return (tci_content){.is_delta = !d->is_base,
                         .version = d->def->version,
                         .json = tci_buf_str(d->is_base ? &d->text : &d->ops)};
}

static void add_content(const tc_doc *d, batch *b)
{
    if (d->target == TCI_TARGET_COPY) {
        tci_write *w = add(b, TCI_WRITE_DOC_COPY);
        w->u.document = d->record;
        w->source_id = d->source_id;
        w->source_at = d->source_at;
        return;
    }
    tci_write *w =
        add(b, d->target == TCI_TARGET_CREATED ? TCI_WRITE_DOC_CREATE : TCI_WRITE_DOC_CHANGE);
    w->u.document = *tci_doc_record(d);
    w->content = content_of(d);
}

static void add_docs(const tc_tx *tx, batch *b)
{
    for (const tc_doc *d = tx->docs; d != NULL; d = d->next) {
        if (d->target == TCI_TARGET_NONE)
            continue;
        if (d->has_content)
            add_content(d, b);
        if (d->is_retired)
            add(b, TCI_WRITE_DOC_RETIRE)->u.document = *tci_doc_record(d);
    }
}

static int check_usable(const tc_tx *tx, tc_err *err)
{
    if (atomic_load(&tx->s->failed))
        return tci_durable_check(tx->s, err);
    if (tx->is_broken)
        return tc_err_set(err, TC_E_CONFLICT,
                          "an earlier change of the transaction failed half way");
    return 0;
}

static int assemble(tc_tx *tx, batch *b, tc_err *err)
{
    int rc = check_usable(tx, err);
    for (tc_doc *d = tx->docs; rc == 0 && d != NULL; d = d->next)
        rc = prepare_doc(d, err);
    if (rc == 0)
        rc = check_fork_sources(tx, err);
    if (rc == 0)
        rc = check_owners(tx, err);
    if (rc == 0)
        rc = check_tasks(tx, err);
    if (rc == 0)
        rc = retire_with_tasks(tx, err);
    for (tc_doc *d = tx->docs; rc == 0 && d != NULL; d = d->next)
        if (d->target != TCI_TARGET_NONE)
            rc = find_conversation(tx, d, err);
    if (rc == 0)
        rc = tci_tx_settle_changes(tx, err);
    for (tc_doc *d = tx->docs; rc == 0 && d != NULL; d = d->next)
        rc = choose_content(d, err);
    if (rc == 0)
        rc = room_for(tx, b, err);
    if (rc < 0)
        return rc;
    add_rows(tx, b);
    add_docs(tx, b);
    return 0;
}

/* ---- the commit ---- */

static int store(tc_tx *tx, const batch *b, tci_tx_how how, uint64_t *ret_seq, tc_err *err)
{
    static const tci_commit_how kept[] = {[TCI_TX_SYNCED] = TCI_COMMIT_SYNCED,
                                          [TCI_TX_LAZY] = TCI_COMMIT_LAZY,
                                          [TCI_TX_DEFERRED] = TCI_COMMIT_DEFERRED};
    int rc = tci_store_commit(tx->s->store, b->writes, b->count, kept[how], ret_seq, err);
    return tci_session_after_write(tx->s, rc, err);
}

int tci_tx_commit(tc_tx *tx, tci_tx_how how, uint64_t *ret_seq, tc_err *err)
{
    batch b = {0};
    uint64_t seq = 0;
    int rc = tci_tx_check(tx, err);
    if (rc < 0)
        return rc;
    rc = assemble(tx, &b, err);
    if (rc == 0 && b.count > 0)
        rc = store(tx, &b, how, &seq, err);
    if (rc < 0) {
        tc_tx_rollback(tx);
        return rc;
    }
    if (ret_seq != NULL)
        *ret_seq = seq;
    if (b.count == 0) {
        tc_tx_rollback(tx); /* made of nothing that is to stay */
        return 0;
    }
    tci_tx_adopt(tx, seq);
    if (!tx->at_close)
        tci_tx_publish(tx, seq, how != TCI_TX_SYNCED);
    tci_tx_end(tx);
    return 0;
}

void tci_tx_set_how(tc_tx *tx, tci_tx_how how)
{
    tx->how = how;
}

int tc_tx_commit(tc_tx *tx, tc_err *err)
{
    return tci_tx_commit(tx, tx->how, NULL, err);
}
