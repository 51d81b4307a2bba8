/* SPDX-License-Identifier: Apache-2.0
 *
 * Documents in a transaction: acquired, made, looked at, retired. Leaves changes of their values to
 * draft.c, and what is written of them to commit.c. The thread that has the line. Invariant: the
 * newest document listed for an address is the one the transaction means by it. */
#include "session/session_int.h"

tc_doc *tci_tx_find_doc(const tc_tx *tx, tc_str address_key)
{
    tc_doc *newest = NULL;
    for (tc_doc *d = tx->docs; d != NULL; d = d->next)
        if (tci_str_eq(d->address_key, address_key))
            newest = d;
    return newest;
}

static int copy_address(tc_tx *tx, const tci_address *address, tci_address *ret, tc_err *err)
{
    *ret = *address;
    int rc = tci_arena_dup(&tx->arena, address->kind, &ret->kind, err);
    return rc < 0 ? rc : tci_arena_dup(&tx->arena, address->key, &ret->key, err);
}

tc_doc *tci_tx_add_doc(tc_tx *tx, const tci_address *address, tc_str key, const tc_doc_def *def,
                       tc_err *err)
{
    tc_doc *d = tci_arena_new(&tx->arena, tc_doc);
    if (d == NULL) {
        (void)tci_arena_error(&tx->arena, err);
        return NULL;
    }
    if (copy_address(tx, address, &d->address, err) < 0 ||
        tci_arena_dup(&tx->arena, key, &d->address_key, err) < 0)
        return NULL;
    d->tx = tx;
    d->def = def;
    tci_buf_init(&d->ops, TCI_BUF_MAX);
    tci_buf_init(&d->text, TCI_BUF_MAX);
    if (tx->last_doc == NULL)
        tx->docs = d;
    else
        tx->last_doc->next = d;
    tx->last_doc = d;
    return d;
}

void tci_doc_rollback(tc_doc *d)
{
    if (d->target == TCI_TARGET_LOADED)
        tci_tree_undo(&d->loaded->value, &d->undo);
}

void tci_doc_release(tc_doc *d)
{
    tci_undo_done(&d->undo);
    tci_buf_done(&d->ops);
    tci_buf_done(&d->text);
    if (d->loaded == NULL)
        return;
    if (d->loaded->draft == d)
        d->loaded->draft = NULL;
    tci_loaded_unref(d->loaded); /* from here on d may not be looked at */
}

/* A committed document, to be changed. Kept alive by the draft. */
static void draft_loaded(tc_doc *d, tci_loaded *l)
{
    d->target = TCI_TARGET_LOADED;
    d->loaded = l;
    l->refs++;
    l->draft = d;
}

/* ---- making one ---- */

static int check_owner(tc_tx *tx, const tci_address *address, tc_err *err)
{
    switch (address->scope) {
    case TCI_SCOPE_SESSION:
        return 0;
    case TCI_SCOPE_CONVERSATION:
        return tci_tx_require_conversation(tx, address->owner_id, err);
    case TCI_SCOPE_TASK:
        break;
    }
    tci_task task = {0};
    int rc = tci_tx_task_now(tx, address->owner_id, &task, err);
    if (rc < 0)
        return rc;
    if (task.id == 0)
        return tc_err_set(err, TC_E_NOT_FOUND, "task %llu does not exist",
                          (unsigned long long)address->owner_id);
    if (task.status == TCI_TASK_TERMINAL)
        return tc_err_set(err, TC_E_CONFLICT, "task %llu is terminal",
                          (unsigned long long)address->owner_id);
    return 0;
}

static int put_record(tc_tx *tx, tci_document *record, tc_err *err)
{
    tci_document_put(&tx->buf, record);
    return tci_tx_text(tx, &record->json, err);
}

/* A value that is new in this transaction, for d. */
static int hold_created(tc_doc *d, const tci_document *record, tci_tree *value, tc_err *err)
{
    tci_loaded *l = NULL;
    int rc = tci_loaded_new(record, d->address_key, value, &l, err);
    if (rc < 0)
        return rc;
    l->stored_version = l->value_version = d->def->version;
    l->draft = d;
    d->loaded = l;
    d->target = TCI_TARGET_CREATED;
    return 0;
}

static int create(tc_tx *tx, const tc_doc_def *def, const tci_address *address, tc_str key,
                  tc_str seed, tc_doc **ret_doc, tc_err *err)
{
    int rc = check_owner(tx, address, err);
    if (rc < 0)
        return rc;
    tci_document record = {.kind = address->kind,
                           .scope = address->scope,
                           .owner_id = address->owner_id,
                           .has_key = address->has_key,
                           .key = address->key,
                           .history = tci_history_of(def),
                           .fork = tci_fork_of(def)};
    tci_tree value = TCI_TREE_NONE;
    rc = tci_doc_initial(tx->s, def, seed, &value, err);
    if (rc < 0)
        return rc;
    rc = tci_session_mint(tx->s, &record.id, err);
    if (rc == 0)
        rc = put_record(tx, &record, err);
    tc_doc *d = rc == 0 ? tci_tx_add_doc(tx, address, key, def, err) : NULL;
    if (d != NULL)
        rc = hold_created(d, &record, &value, err);
    if (d == NULL || rc < 0) {
        tci_tree_done(&value);
        return err->code;
    }
    *ret_doc = d;
    return 0;
}

/* ---- a fork's copy that is looked into ---- */

static int check_source(const tc_doc *d, const tci_document *source, tc_err *err)
{
    const char *what = NULL;
    if (source->id == 0)
        what = "cannot be read";
    else if (source->scope != TCI_SCOPE_CONVERSATION || !tci_str_eq(source->kind, d->record.kind) ||
             source->has_key != d->record.has_key || !tci_str_eq(source->key, d->record.key) ||
             source->history != d->record.history || source->fork != d->record.fork)
        what = "does not match the copied record";
    if (what == NULL)
        return 0;
    return tc_err_set(err, TC_E_CONFLICT, "fork source document %llu %s",
                      (unsigned long long)d->source_id, what);
}

static int open_copy(tc_tx *tx, tc_doc *d, const tc_doc_def *def, tc_err *err)
{
    tci_document_state state = {0};
    tci_tree value = TCI_TREE_NONE;
    int rc = tci_store_document(tx->s->store, d->source_id, d->source_at, &tx->arena, &state,
                                &value, err);
    rc = tci_session_after_read(tx->s, rc, err);
    if (rc < 0)
        return rc;
    rc = check_source(d, &state.record, err);
    if (rc == 0)
        rc = tci_doc_check_record(def, &d->record, err);
    if (rc == 0)
        rc = tci_doc_check_version(def, &d->record, state.version, err);
    if (rc == 0)
        rc = tci_doc_migrate(tx->s, def, state.version, &value, err);
    if (rc == 0) {
        d->def = def;
        rc = hold_created(d, &d->record, &value, err);
    }
    if (rc < 0)
        tci_tree_done(&value);
    return rc;
}

/* ---- acquiring ---- */

static int check_task_open(tc_tx *tx, const tci_address *address, tc_err *err)
{
    if (address->scope != TCI_SCOPE_TASK)
        return 0;
    const tci_staged_task *t = tci_tx_staged(tx, address->owner_id);
    if (t == NULL || !t->has_write || t->write.status != TCI_TASK_TERMINAL)
        return 0;
    return tc_err_set(err, TC_E_CONFLICT, "task %llu is terminal", (unsigned long long)t->id);
}

static int acquire(tc_tx *tx, const tc_doc_def *def, const tci_address *address, tc_str key,
                   tc_str seed, bool is_retired_here, tc_doc **ret_doc, tc_err *err)
{
    tci_loaded *l = NULL;
    if (!is_retired_here) {
        int rc = tci_doc_load(tx->s, def, address, key, &l, err);
        if (rc < 0)
            return rc;
    }
    if (l == NULL)
        return create(tx, def, address, key, seed, ret_doc, err);
    int rc = tci_doc_check_version(def, &l->record, l->stored_version, err);
    if (rc < 0)
        return rc;
    tc_doc *d = tci_tx_add_doc(tx, address, key, def, err);
    if (d == NULL)
        return err->code;
    draft_loaded(d, l);
    *ret_doc = d;
    return 0;
}

static int address_in_tx(tc_tx *tx, const tc_doc_def *def, uint64_t owner, tc_str key,
                         tci_address *ret_address, tci_address_key *ret_key, tc_err *err)
{
    int rc = tci_tx_check(tx, err);
    if (rc == 0 && atomic_load(&tx->s->failed))
        rc = tci_durable_check(tx->s, err);
    if (rc == 0)
        rc = tci_address_of(def, owner, key, ret_address, err);
    return rc < 0 ? rc : tci_address_key_of(ret_address, &tx->arena, ret_key, err);
}

int tc_tx_doc(tc_tx *tx, const tc_doc_def *def, uint64_t owner, tc_str key, tc_str seed,
              tc_doc **ret_doc, tc_err *err)
{
    tci_address address;
    tci_address_key k;
    int rc = address_in_tx(tx, def, owner, key, &address, &k, err);
    if (rc == 0)
        rc = check_task_open(tx, &address, err);
    if (rc < 0)
        return rc;
    tc_doc *d = tci_tx_find_doc(tx, k.text);
    bool is_retired_here = d != NULL && d->is_retired;
    if (d == NULL || is_retired_here || d->target == TCI_TARGET_NONE)
        return acquire(tx, def, &address, k.text, seed, is_retired_here, ret_doc, err);
    if (d->target == TCI_TARGET_COPY) {
        rc = open_copy(tx, d, def, err);
        if (rc < 0)
            return rc;
    }
    *ret_doc = d;
    return 0;
}

static const tci_json *seen_value(const tc_doc *d)
{
    return d->is_retired || d->loaded == NULL ? NULL : &d->loaded->value.root;
}

int tc_tx_doc_value(tc_tx *tx, const tc_doc_def *def, uint64_t owner, tc_str key,
                    const tci_json **ret_value, tc_err *err)
{
    tci_address address;
    tci_address_key k;
    int rc = address_in_tx(tx, def, owner, key, &address, &k, err);
    if (rc < 0)
        return rc;
    tc_doc *d = tci_tx_find_doc(tx, k.text);
    if (d != NULL && d->target == TCI_TARGET_COPY && !d->is_retired) {
        rc = open_copy(tx, d, def, err);
        if (rc < 0)
            return rc;
    }
    if (d != NULL && (d->is_retired || d->target != TCI_TARGET_NONE)) {
        *ret_value = seen_value(d);
        return 0;
    }
    tci_loaded *l = NULL;
    rc = tci_doc_load(tx->s, def, &address, k.text, &l, err);
    if (rc == 0)
        *ret_value = l != NULL ? &l->value.root : NULL;
    return rc;
}

/* ---- retiring ---- */

static int retire_committed(tc_tx *tx, const tc_doc_def *def, const tci_address *address,
                            tc_str key, tc_err *err)
{
    tci_document found = {0};
    const tci_loaded *l = tci_map_get(&tx->s->docs, key);
    int rc = 0;
    if (l != NULL) {
        found = l->record;
        /* the record in memory may go before the transaction does */
        rc = tci_arena_dup(&tx->arena, l->record.json, &found.json, err);
        if (rc == 0)
            rc = tci_arena_dup(&tx->arena, l->record.kind, &found.kind, err);
        if (rc == 0)
            rc = tci_arena_dup(&tx->arena, l->record.key, &found.key, err);
    } else {
        rc = tci_store_find_document(tx->s->store, address, 0, &tx->arena, &found, err);
        rc = tci_session_after_read(tx->s, rc, err);
    }
    if (rc < 0 || found.id == 0)
        return rc;
    rc = tci_doc_check_record(def, &found, err);
    if (rc < 0)
        return rc;
    tc_doc *d = tci_tx_add_doc(tx, address, key, def, err);
    if (d == NULL)
        return err->code;
    d->target = TCI_TARGET_RETIRE;
    d->record = found;
    d->is_retired = true;
    return 0;
}

int tc_tx_retire_doc(tc_tx *tx, const tc_doc_def *def, uint64_t owner, tc_str key, tc_err *err)
{
    tci_address address;
    tci_address_key k;
    int rc = address_in_tx(tx, def, owner, key, &address, &k, err);
    if (rc < 0)
        return rc;
    tc_doc *d = tci_tx_find_doc(tx, k.text);
    if (d != NULL) {
        d->is_retired = true;
        return 0;
    }
    return retire_committed(tx, def, &address, k.text, err);
}
