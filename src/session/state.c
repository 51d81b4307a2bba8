/* SPDX-License-Identifier: Apache-2.0
 *
 * States: a value that follows its commits, read at any time, told on the line. Leaves exact changes and
 * waiting to the watches. What is told is told by the thread that commits. Invariant: a state of a
 * document keeps it in memory; after the session has ended a state keeps the last value. */
#include "session/session_int.h"

struct tc_state {
    tc_durable *s;
    tci_link in_session; /* while the session lives */
    tci_link in_doc;     /* while its document does */
    tci_doomed doomed;
    bool is_freed;
    tci_loaded *doc; /* a reference; NULL: retired, or not of a document */
    uint64_t version, sequence;
    bool has_source;
    tci_state_source source;
    tci_tree kept; /* without a source.value: the value; else what it was when the source went */
    tci_list listeners;
};

static const tci_json *value_of(const tc_state *st)
{
    if (st->doc != NULL)
        return &st->doc->value.root;
    if (st->has_source && st->source.value != NULL)
        return st->source.value(st->source.user);
    return st->kept.root.kind != TCI_JSON_NULL ? &st->kept.root : NULL;
}

static int new_state(tc_durable *s, tc_state **ret_state, tc_err *err)
{
    tc_state *st = tci_new(tc_state);
    if (st == NULL)
        return tci_err_no_memory(err);
    st->s = s;
    tci_list_init(&st->listeners);
    tci_durable_ref(s);
    tci_list_push_back(&s->states, &st->in_session);
    *ret_state = st;
    return 0;
}

static int state_of(tc_durable *s, const tc_doc_addr *addr, tc_state **ret_state, tc_err *err)
{
    tci_address address;
    tci_address_key key;
    tci_loaded *l = NULL;
    tc_state *st = NULL;
    int rc = tci_address_of(addr->def, addr->owner, addr->key, &address, err);
    if (rc == 0)
        rc = tci_address_key_of(&address, &s->arena, &key, err);
    if (rc == 0)
        rc = tci_doc_load(s, addr->def, &address, key.text, &l, err);
    if (rc == 0 && l != NULL)
        rc = new_state(s, &st, err);
    if (rc < 0)
        return rc;
    if (st != NULL) {
        st->doc = l;
        st->version = addr->def->version;
        l->refs++;
        tci_list_push_back(&l->states, &st->in_doc);
        tci_loaded_touch(s, l);
    }
    *ret_state = st;
    return 0;
}

int tc_durable_state(tc_durable *s, const tc_doc_addr *addr, tc_state **ret_state, tc_err *err)
{
    int rc = tci_session_read(s, err);
    if (rc < 0)
        return rc;
    rc = state_of(s, addr, ret_state, err);
    tci_session_leave(s);
    return rc;
}

int tci_state_new(tc_durable *s, const tci_state_source *source, tc_state **ret_state, tc_err *err)
{
    TC_ASSERT(tci_line_is_mine(&s->line));
    tc_state *st = NULL;
    int rc = new_state(s, &st, err);
    if (rc < 0)
        return rc;
    st->has_source = true;
    st->source = *source;
    *ret_state = st;
    return 0;
}

int tci_state_new_kept(tc_durable *s, tc_str value, const tci_state_source *source,
                       tc_state **ret_state, tc_err *err)
{
    tci_tree kept;
    if (tci_tree_parse(value, TCI_JSON_DURABLE, &kept, err) < 0)
        return err->code;
    const tci_state_source told = {.user = source->user, .gone = source->gone};
    if (tci_state_new(s, &told, ret_state, err) < 0) {
        tci_tree_done(&kept);
        return err->code;
    }
    (*ret_state)->kept = kept;
    return 0;
}

int tc_state_value(tc_state *st, tc_result *r, tc_str *ret_json, tc_err *err)
{
    bool is_taken = tci_session_observe(st->s);
    const tci_json *v = value_of(st);
    tc_str text = {0};
    int rc = v != NULL ? tc_json_text(v, r, &text, err) : 0;
    if (is_taken)
        tci_session_leave(st->s);
    if (rc == 0)
        *ret_json = text;
    return rc;
}

int tc_state_subscribe(tc_state *st, tc_state_fn fn, void *user, tc_listener **ret_listener,
                       tc_err *err)
{
    tc_listener *l = NULL;
    int rc = tci_listener_new(st->s, TCI_LISTEN_STATE, user, &l, err);
    if (rc < 0)
        return rc;
    l->state = fn;
    bool is_taken = tci_session_observe(st->s);
    l->after = st->sequence;
    tci_list_push_back(&st->listeners, &l->link);
    *ret_listener = l;
    tci_session_calling(st->s);
    fn(user, st->sequence, value_of(st));
    tci_session_called(st->s);
    if (is_taken)
        tci_session_leave(st->s);
    return 0;
}

/* ---- later values ---- */

static void tell(tc_state *st)
{
    const tci_json *v = value_of(st);
    st->sequence++;
    TCI_LIST_EACH (&st->listeners, k) {
        const tc_listener *l = TCI_CONTAINER(k, tc_listener, link);
        if (!l->is_removed && !st->is_freed && l->after < st->sequence)
            l->state(l->user, st->sequence, v);
    }
}

void tci_state_advance(tc_state *st)
{
    tci_session_calling(st->s);
    tell(st);
    tci_session_called(st->s);
}

int tci_state_push(tc_state *st, tc_str ops, tc_err *err)
{
    tci_arena scratch;
    tci_arena_init(&scratch, 0);
    int rc = tci_delta_apply(&st->kept, ops, &scratch, err);
    tci_arena_done(&scratch);
    if (rc == 0)
        tci_state_advance(st);
    return rc;
}

/* It looks at nothing any more. */
static void leave_doc(tc_state *st)
{
    tci_loaded *l = st->doc;
    if (l == NULL)
        return;
    tci_link_remove(&st->in_doc);
    st->doc = NULL;
    tci_loaded_touch(st->s, l);
    tci_loaded_unref(l);
}

void tci_states_advance(tci_loaded *l, uint64_t version, size_t nops, bool is_retired)
{
    TCI_LIST_EACH (&l->states, k) {
        tc_state *st = TCI_CONTAINER(k, tc_state, in_doc);
        if (st->is_freed || (!is_retired && nops == 0 && version == st->version))
            continue; /* stored anew, and the same to who looks with this version */
        st->version = version;
        if (is_retired)
            leave_doc(st);
        tell(st);
    }
}

/* ---- ending ---- */

static void let_go_of_source(tc_state *st)
{
    if (!st->has_source)
        return;
    const tci_json *v = st->is_freed || st->source.value == NULL ? NULL : value_of(st);
    tc_err ignored; /* no memory: then it keeps nothing */
    if (v != NULL && tci_tree_of(v, &st->kept, &ignored) < 0)
        st->kept = TCI_TREE_NONE;
    st->has_source = false;
    if (st->source.gone != NULL)
        st->source.gone(st->source.user);
}

static void drop_listeners(tc_state *st)
{
    while (tci_list_pop_front(&st->listeners) != NULL) {
        /* they belong to who subscribed */
    }
}

void tci_states_end(tc_durable *s)
{
    tci_link *k;
    while ((k = tci_list_pop_front(&s->states)) != NULL) {
        tc_state *st = TCI_CONTAINER(k, tc_state, in_session);
        drop_listeners(st);
        tci_link_remove(&st->in_doc); /* the reference, and so the value, stays */
        let_go_of_source(st);
    }
}

static void free_state(tci_doomed *d)
{
    tc_state *st = TCI_CONTAINER(d, tc_state, doomed);
    tci_link_remove(&st->in_session);
    drop_listeners(st);
    leave_doc(st);
    let_go_of_source(st);
    tci_tree_done(&st->kept);
    tci_free(st);
}

void tc_state_free(tc_state *st)
{
    if (st == NULL)
        return;
    tc_durable *s = st->s;
    bool is_taken = tci_session_observe(s);
    st->is_freed = true;
    tci_session_doom(s, &st->doomed, free_state);
    if (is_taken)
        tci_session_leave(s);
    tci_durable_unref(s);
}
