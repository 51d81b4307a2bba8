/* SPDX-License-Identifier: Apache-2.0
 *
 * Listeners: of commits and of the end of a session. Leaves states and watches to their files. Commit
 * listeners are called by the thread that commits, on the line; close listeners by the thread that ends
 * the session, off it. Invariant: a listener that was removed is not called again, and none is freed
 * while any is being called on the line. */
#include "session/session_int.h"

/* ---- what listeners do while they are called ---- */

void tci_session_calling(tc_durable *s)
{
    s->npublishing++;
}

void tci_session_called(tc_durable *s)
{
    if (--s->npublishing > 0)
        return;
    tci_link *k;
    while ((k = tci_list_pop_front(&s->removed)) != NULL) {
        tci_doomed *d = TCI_CONTAINER(k, tci_doomed, link);
        d->release(d);
    }
}

void tci_session_doom(tc_durable *s, tci_doomed *d, void (*release)(tci_doomed *d))
{
    d->release = release;
    if (s->npublishing > 0)
        tci_list_push_back(&s->removed, &d->link);
    else
        release(d);
}

bool tci_session_observe(tc_durable *s)
{
    if (tci_line_is_mine(&s->line))
        return false;
    tci_line_lock_always(&s->line);
    s->depth = 1;
    return true;
}

/* ---- commits ---- */

bool tci_session_has_listeners(const tc_durable *s)
{
    return !tci_list_is_empty(&s->internal_listeners) || !tci_list_is_empty(&s->commit_listeners);
}

static void tell_internal(tc_durable *s, const tci_commit *commit)
{
    TCI_LIST_EACH (&s->internal_listeners, k) {
        const tc_listener *l = TCI_CONTAINER(k, tc_listener, link);
        tc_err err;
        if (!l->is_removed && l->after < commit->seq && l->internal(l->user, commit, &err) < 0)
            tci_durable_fail(s, &err);
    }
}

static tc_commit_record *put_row(const tc_tx *tx, tci_row row, tc_commit_record *to)
{
    if (row.is_entry) {
        const tci_entry *e = &tx->entries.items[row.index];
        *to = (tc_commit_record){TC_RECORD_ENTRY, e->id, e->conversation_id, e->json};
    } else {
        const tci_conversation *c = &tx->conversations.items[row.index];
        *to = (tc_commit_record){TC_RECORD_CONVERSATION, c->id, c->id, c->json};
    }
    return to + 1;
}

static tc_commit_record *records_of(tc_durable *s, const tci_commit *commit, size_t *ret_n)
{
    const tc_tx *tx = s->tx;
    size_t n = tx->rows.count + commit->nsubmissions + commit->ntasks;
    tc_commit_record *records = tci_arena_items(&s->arena, tc_commit_record, n + 1), *to = records;
    if (records == NULL)
        return NULL;
    for (size_t i = 0; i < tx->rows.count; i++)
        to = put_row(tx, tx->rows.items[i], to);
    for (size_t i = 0; i < commit->nsubmissions; i++) {
        const tci_submission *m = &commit->submissions[i];
        *to++ = (tc_commit_record){TC_RECORD_SUBMISSION, m->id, m->conversation_id, m->json};
    }
    for (size_t i = 0; i < commit->ntasks; i++) {
        const tci_task *t = &commit->tasks[i];
        *to++ = (tc_commit_record){TC_RECORD_TASK, t->id, t->conversation_id, t->json};
    }
    *ret_n = n;
    return records;
}

static tc_commit_doc doc_of(const tci_commit_doc *d)
{
    const tci_document *r = d->record;
    return (tc_commit_doc){.record = r->json,
                           .id = r->id,
                           .kind = r->kind,
                           .key = r->key,
                           .scope = (tc_scope)r->scope,
                           .owner = r->owner_id,
                           .conversation = d->conversation_id,
                           .is_new = d->is_new,
                           .is_retired = d->is_retired,
                           .ops = d->ops,
                           .value = d->value};
}

_Static_assert((int)TC_SCOPE_CONVERSATION == (int)TCI_SCOPE_CONVERSATION &&
                   (int)TC_SCOPE_TASK == (int)TCI_SCOPE_TASK,
               "scopes are converted by value");

/* False: no memory. */
static bool translate(tc_durable *s, const tci_commit *commit, tc_commit *ret)
{
    tc_commit_doc *docs = tci_arena_items(&s->arena, tc_commit_doc, commit->ndocs + 1);
    *ret = (tc_commit){.seq = commit->seq, .ndocs = commit->ndocs, .docs = docs};
    ret->records = records_of(s, commit, &ret->nrecords);
    if (docs == NULL || ret->records == NULL)
        return false;
    for (size_t i = 0; i < commit->ndocs; i++)
        docs[i] = doc_of(&commit->docs[i]);
    return true;
}

static void tell_hosts(tc_durable *s, const tci_commit *commit)
{
    if (tci_list_is_empty(&s->commit_listeners))
        return;
    tc_commit told;
    tc_err err;
    if (!translate(s, commit, &told)) {
        (void)tci_err_no_memory(&err);
        tci_durable_fail(s, &err);
        return;
    }
    TCI_LIST_EACH (&s->commit_listeners, k) {
        const tc_listener *l = TCI_CONTAINER(k, tc_listener, link);
        if (!l->is_removed && l->after < commit->seq)
            l->commit(l->user, &told);
    }
}

void tci_session_publish(tc_durable *s, const tci_commit *commit)
{
    tci_session_calling(s);
    tell_internal(s, commit);
    tell_hosts(s, commit);
    tci_session_called(s);
}

/* ---- adding and removing ---- */

int tci_listener_new(tc_durable *s, tci_listener_kind kind, void *user, tc_listener **ret_listener,
                     tc_err *err)
{
    tc_listener *l = tci_new(tc_listener);
    if (l == NULL)
        return tci_err_no_memory(err);
    l->kind = kind;
    l->s = s;
    l->user = user;
    tci_durable_ref(s);
    *ret_listener = l;
    return 0;
}

static void free_listener(tc_listener *l)
{
    tc_durable *s = l->s;
    tci_free(l);
    tci_durable_unref(s);
}

static int listen(tc_durable *s, tc_listener *l, tci_list *list, tc_err *err)
{
    int rc = tci_session_read(s, err);
    if (rc < 0) {
        free_listener(l);
        return rc;
    }
    l->after = atomic_load(&s->seq);
    tci_list_push_back(list, &l->link);
    tci_session_leave(s);
    return 0;
}

int tci_durable_listen(tc_durable *s, tci_commit_fn fn, void *user, tc_listener **ret_listener,
                       tc_err *err)
{
    tc_listener *l = NULL;
    int rc = tci_listener_new(s, TCI_LISTEN_INTERNAL, user, &l, err);
    if (rc < 0)
        return rc;
    l->internal = fn;
    rc = listen(s, l, &s->internal_listeners, err);
    if (rc == 0)
        *ret_listener = l;
    return rc;
}

int tc_durable_on_commit(tc_durable *s, tc_commit_fn fn, void *user, tc_listener **ret_listener,
                         tc_err *err)
{
    tc_listener *l = NULL;
    int rc = tci_listener_new(s, TCI_LISTEN_COMMIT, user, &l, err);
    if (rc < 0)
        return rc;
    l->commit = fn;
    rc = listen(s, l, &s->commit_listeners, err);
    if (rc == 0)
        *ret_listener = l;
    return rc;
}

static void free_doomed(tci_doomed *d)
{
    tc_listener *l = TCI_CONTAINER(d, tc_listener, doomed);
    tci_link_remove(&l->link);
    tci_free(l);
}

static void remove_on_line(tc_listener *l)
{
    tc_durable *s = l->s;
    bool is_taken = tci_session_observe(s);
    l->is_removed = true;
    tci_session_doom(s, &l->doomed, free_doomed);
    if (is_taken)
        tci_session_leave(s);
    tci_durable_unref(s);
}

/* ---- the end of a session ---- */

void tci_session_end_observers(tc_durable *s, const tc_err *failure)
{
    tci_watches_end(s, failure);
    tci_states_end(s);
}

int tc_durable_on_close(tc_durable *s, tc_close_fn fn, void *user, tc_listener **ret_listener,
                        tc_err *err)
{
    tc_listener *l = NULL;
    int rc = tci_listener_new(s, TCI_LISTEN_CLOSE, user, &l, err);
    if (rc < 0)
        return rc;
    l->close = fn;
    tci_mutex_lock(&s->m);
    bool is_late = s->is_told || atomic_load(&s->phase) != TCI_PHASE_OPEN;
    if (!is_late)
        tci_list_push_back(&s->close_listeners, &l->link);
    tci_mutex_unlock(&s->m);
    if (!is_late) {
        *ret_listener = l;
        return 0;
    }
    free_listener(l);
    rc = tci_durable_check(s, err);
    return rc < 0 ? rc : tc_err_set(err, TC_E_CLOSED, "the session is closed");
}

static void remove_close(tc_listener *l)
{
    tc_durable *s = l->s;
    tci_mutex_lock(&s->m);
    tci_link_remove(&l->link);
    while (s->telling == l && s->telling_mark != tci_thread_mark()) {
        unsigned seen = tci_wake_count(&s->changed);
        tci_mutex_unlock(&s->m);
        tci_wake_wait(&s->changed, seen, 0);
        tci_mutex_lock(&s->m);
    }
    if (s->telling == l)
        s->telling = NULL; /* from inside its own call */
    tci_mutex_unlock(&s->m);
    free_listener(l);
}

void tc_listener_remove(tc_listener *listener)
{
    if (listener == NULL)
        return;
    if (listener->kind == TCI_LISTEN_CLOSE)
        remove_close(listener);
    else
        remove_on_line(listener);
}

void tci_session_tell_close(tc_durable *s)
{
    tc_err cause;
    tci_mutex_lock(&s->m);
    if (s->is_told) {
        tci_mutex_unlock(&s->m);
        return;
    }
    s->is_told = true;
    bool failed = atomic_load(&s->failed);
    if (failed)
        cause = s->cause;
    s->telling_mark = tci_thread_mark();
    tci_link *k;
    while ((k = tci_list_pop_front(&s->close_listeners)) != NULL) {
        tc_listener *l = TCI_CONTAINER(k, tc_listener, link);
        tc_close_fn fn = l->close;
        void *user = l->user;
        s->telling = l;
        tci_mutex_unlock(&s->m);
        fn(user, failed ? &cause : NULL);
        tci_mutex_lock(&s->m);
        s->telling = NULL;
        tci_wake_all(&s->changed);
    }
    tci_mutex_unlock(&s->m);
}
