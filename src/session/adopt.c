/* SPDX-License-Identifier: Apache-2.0
 *
 * What comes after the storage has taken a commit: documents in memory become the committed ones, those
 * who observe them are told, and the commit is described for its listeners. Leaves calling the
 * listeners to publish.c. The thread that has the line. Invariant: nothing here undoes a commit; what
 * cannot be told of for want of memory ends the session. */
#include "session/session_int.h"

void tci_put_replacement(tci_buf *b, const tci_json *value)
{
    tci_buf_append_str(b, TC_STR("[[\"r\","));
    if (value != NULL)
        tci_json_put(b, value, TCI_JSON_AS_IS);
    else
        tci_buf_append_str(b, TC_STR("null"));
    tci_buf_append_str(b, TC_STR("]]"));
}

/* ---- adopting ---- */

static void adopt_created(tc_durable *s, tc_doc *d, uint64_t seq)
{
    tci_loaded *l = d->loaded;
    l->record.created_at = seq;
    l->draft = NULL;
    if (!d->is_retired)
        (void)tci_loaded_install(s, l); /* else it is loaded when it is wanted */
}

static void adopt_loaded(tc_durable *s, tc_doc *d)
{
    tci_loaded *l = d->loaded;
    l->draft = NULL;
    tci_undo_done(&d->undo);
    if (d->has_content) {
        l->stored_version = l->value_version = d->def->version;
        l->deltas_since_base = d->is_base ? 0 : l->deltas_since_base + 1;
    }
    if (d->is_retired)
        tci_loaded_evict(s, l); /* the draft keeps it until it is told of */
    else
        tci_loaded_touch(s, l);
}

/* A retired one that was not drafted: who observes it has it in memory. */
static void adopt_retired(tc_durable *s, tc_doc *d)
{
    tci_loaded *l = tci_map_get(&s->docs, d->address_key);
    if (l == NULL || l->record.id != d->record.id)
        return;
    l->refs++;
    d->loaded = l;
    tci_loaded_evict(s, l);
}

void tci_tx_adopt(tc_tx *tx, uint64_t seq)
{
    tc_durable *s = tx->s;
    atomic_store(&s->seq, seq);
    for (size_t i = 0; i < tx->conversations.count; i++) {
        uint64_t id = tx->conversations.items[i].id;
        s->known[id % TCI_KNOWN_CONVERSATIONS] = id;
    }
    for (tc_doc *d = tx->docs; d != NULL; d = d->next) {
        switch (d->target) {
        case TCI_TARGET_NONE:
        case TCI_TARGET_COPY:
            break;
        case TCI_TARGET_RETIRE:
            adopt_retired(s, d);
            break;
        case TCI_TARGET_CREATED:
            adopt_created(s, d, seq);
            break;
        case TCI_TARGET_LOADED:
            adopt_loaded(s, d);
            break;
        }
    }
}

/* ---- publishing ---- */

static void tell_observers(tc_tx *tx)
{
    for (tc_doc *d = tx->docs; d != NULL; d = d->next) {
        tci_loaded *l = d->loaded;
        if (l == NULL || (tci_list_is_empty(&l->states) && tci_list_is_empty(&l->watches)))
            continue;
        if (!d->has_content && !d->is_retired)
            continue;
        uint64_t version = d->def != NULL ? d->def->version : l->value_version;
        tci_states_advance(l, version, d->nops, d->is_retired);
        tci_watches_advance(l, version, tci_buf_str(&d->ops), d->nops, d->is_retired);
    }
}

static tc_str told_ops(tc_doc *d)
{
    if (d->is_retired)
        return TC_STR("[[\"r\",null]]");
    if (d->target == TCI_TARGET_LOADED)
        return d->nops > 0 ? tci_buf_str(&d->ops) : TC_STR("[]");
    if (d->target != TCI_TARGET_CREATED)
        return TC_STR("[]");
    tci_buf_clear(&d->ops);
    tci_put_replacement(&d->ops, &d->loaded->value.root);
    return tci_buf_str(&d->ops);
}

static int describe_doc(tc_tx *tx, tc_doc *d, uint64_t seq, tci_commit_doc *ret, tc_err *err)
{
    tci_document *record = tci_arena_copy(&tx->arena, tci_doc_record(d), sizeof *record);
    if (record == NULL)
        return tci_arena_error(&tx->arena, err);
    if (record->created_at == 0)
        record->created_at = seq;
    if (d->is_retired)
        record->retired_at = seq;
    tci_document_put(&tx->buf, record);
    int rc = tci_tx_text(tx, &record->json, err);
    if (rc < 0)
        return rc;
    *ret = (tci_commit_doc){
        .record = record,
        .def = d->def,
        .conversation_id = d->conversation_id,
        .is_new = d->target == TCI_TARGET_CREATED || d->target == TCI_TARGET_COPY,
        .is_copy = d->target == TCI_TARGET_COPY,
        .is_retired = d->is_retired,
        .ops = told_ops(d),
        .nops = d->is_retired || d->target == TCI_TARGET_CREATED ? 1 : d->nops,
        .value = d->is_retired || d->loaded == NULL ? NULL : &d->loaded->value.root};
    return tci_buf_error(&d->ops, err);
}

static int describe_docs(tc_tx *tx, tci_commit *commit, tc_err *err)
{
    size_t n = 0;
    for (const tc_doc *d = tx->docs; d != NULL; d = d->next)
        n++;
    tci_commit_doc *docs = tci_arena_items(&tx->arena, tci_commit_doc, n);
    if (docs == NULL && n > 0)
        return tci_arena_error(&tx->arena, err);
    for (tc_doc *d = tx->docs; d != NULL; d = d->next) {
        if (d->target == TCI_TARGET_NONE || (!d->has_content && !d->is_retired))
            continue;
        int rc = describe_doc(tx, d, commit->seq, &docs[commit->ndocs], err);
        if (rc < 0)
            return rc;
        commit->ndocs++;
    }
    commit->docs = docs;
    return 0;
}

static int describe(tc_tx *tx, uint64_t seq, bool is_lazy, tci_commit *commit, tc_err *err)
{
    *commit = (tci_commit){.seq = seq,
                           .is_lazy = is_lazy,
                           .conversations = tx->conversations.items,
                           .nconversations = tx->conversations.count,
                           .entries = tx->entries.items,
                           .nentries = tx->entries.count,
                           .submissions = tx->submissions.items,
                           .nsubmissions = tx->submissions.count};
    int rc = tci_tx_staged_tasks(tx, &commit->tasks, &commit->ntasks, err);
    return rc < 0 ? rc : describe_docs(tx, commit, err);
}

void tci_tx_publish(tc_tx *tx, uint64_t seq, bool is_lazy)
{
    tc_durable *s = tx->s;
    s->is_tx_open = false; /* readers see what is committed */
    tci_session_calling(s);
    tell_observers(tx);
    tci_session_called(s);
    if (!tci_session_has_listeners(s))
        return;
    tci_commit commit;
    tc_err err;
    if (describe(tx, seq, is_lazy, &commit, &err) < 0) {
        tc_err_wrap(&err, "commit %llu cannot be told of", (unsigned long long)seq);
        tci_durable_fail(s, &err);
        return;
    }
    tci_session_publish(s, &commit);
}
