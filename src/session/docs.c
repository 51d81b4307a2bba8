/* SPDX-License-Identifier: Apache-2.0
 *
 * Documents in memory: their addresses, what a definition demands of a stored one, loading, and how
 * long an unobserved one stays. Leaves changes to the drafts. On the line. Invariant: what is in the
 * map is the committed value of the incarnation alive at its address, but for what the open
 * transaction's draft has changed in it. */
#include "session/session_int.h"

#include "base/num.h"
#include "plat/clock.h"

/* ---- addresses ---- */

tci_scope tci_scope_of(tc_scope scope)
{
    switch (scope) {
    case TC_SCOPE_SESSION:
        return TCI_SCOPE_SESSION;
    case TC_SCOPE_CONVERSATION:
        return TCI_SCOPE_CONVERSATION;
    case TC_SCOPE_TASK:
        return TCI_SCOPE_TASK;
    }
    return TCI_SCOPE_SESSION;
}

tci_history tci_history_of(const tc_doc_def *def)
{
    if (def->scope != TC_SCOPE_CONVERSATION)
        return TCI_HISTORY_NONE;
    return def->history == TC_HISTORY_REWINDABLE ? TCI_HISTORY_REWINDABLE : TCI_HISTORY_LATEST;
}

tci_fork tci_fork_of(const tc_doc_def *def)
{
    if (def->scope != TC_SCOPE_CONVERSATION)
        return TCI_FORK_NONE;
    switch (def->fork) {
    case TC_FORK_INITIAL:
        return TCI_FORK_INITIAL;
    case TC_FORK_CURRENT:
        return TCI_FORK_CURRENT;
    case TC_FORK_AS_OF:
        return TCI_FORK_AS_OF;
    }
    return TCI_FORK_INITIAL;
}

static int check_definition(const tc_doc_def *def, tc_err *err)
{
    const char *what = NULL;
    if (def->size < sizeof *def)
        return tc_err_set(err, TC_E_INVALID, "a document definition without its size");
    if (def->kind == NULL || def->kind[0] == 0)
        what = "has no kind";
    else if (def->version < 1 || def->version > TCI_ID_MAX)
        what = "has no version";
    else if (def->scope != TC_SCOPE_CONVERSATION &&
             (def->history != TC_HISTORY_LATEST || def->fork != TC_FORK_INITIAL))
        what = "has a history or fork policy, and its scope is no conversation";
    else if (def->fork == TC_FORK_AS_OF && def->history != TC_HISTORY_REWINDABLE)
        what = "forks as of an entry, and keeps no history";
    if (what == NULL)
        return 0;
    return tc_err_set(err, TC_E_INVALID, "the document definition '%s' %s",
                      def->kind != NULL ? def->kind : "", what);
}

int tci_address_of(const tc_doc_def *def, uint64_t owner, tc_str key, tci_address *ret, tc_err *err)
{
    int rc = check_definition(def, err);
    if (rc < 0)
        return rc;
    bool wants_owner = def->scope != TC_SCOPE_SESSION;
    if (wants_owner != (owner != 0) || owner > TCI_ID_MAX)
        return tc_err_set(err, TC_E_INVALID, "document '%s' %s", def->kind,
                          wants_owner ? "needs the id of its owner" : "belongs to the session");
    *ret = (tci_address){.kind = tci_str(def->kind),
                         .scope = tci_scope_of(def->scope),
                         .owner_id = owner,
                         .has_key = def->is_family};
    if (def->is_family)
        ret->key = key;
    return 0;
}

bool tci_address_is(const tci_address *address, const tci_document *record)
{
    return address->scope == record->scope && address->owner_id == record->owner_id &&
           address->has_key == record->has_key && tci_str_eq(address->kind, record->kind) &&
           tci_str_eq(address->key, record->key);
}

int tci_address_key_of(const tci_address *address, tci_arena *a, tci_address_key *ret, tc_err *err)
{
    uint64_t kind_len = address->kind.len;
    size_t fixed = 2 + 2 * sizeof(uint64_t);
    size_t len = fixed + address->kind.len + address->key.len;
    char *to = ret->room;
    if (len > sizeof ret->room) {
        to = tci_arena_bytes(a, len);
        if (to == NULL)
            return tci_arena_error(a, err);
    }
    ret->text = tci_str_of(to, len);
    to[0] = (char)('0' + (int)address->scope);
    to[1] = (char)('0' + (int)address->has_key);
    memcpy(to + 2, &address->owner_id, sizeof(uint64_t));
    memcpy(to + 2 + sizeof(uint64_t), &kind_len, sizeof kind_len);
    memcpy(to + fixed, address->kind.ptr, address->kind.len);
    if (address->key.len > 0)
        memcpy(to + fixed + address->kind.len, address->key.ptr, address->key.len);
    return 0;
}

/* ---- what a definition demands ---- */

int tci_doc_check_record(const tc_doc_def *def, const tci_document *record, tc_err *err)
{
    if (record->scope == tci_scope_of(def->scope) && record->history == tci_history_of(def) &&
        record->fork == tci_fork_of(def))
        return 0;
    return tc_err_set(err, TC_E_INVALID,
                      "document %llu ('%s') does not match the definition's scope, history or fork",
                      (unsigned long long)record->id, def->kind);
}

int tci_doc_check_version(const tc_doc_def *def, const tci_document *record, uint64_t version,
                          tc_err *err)
{
    const char *what = NULL;
    if (version > def->version)
        what = "newer than the definition's";
    else if (version < def->version && def->migrate == NULL)
        what = "older, and the definition cannot migrate it to";
    if (what == NULL)
        return 0;
    return tc_err_set(err, TC_E_INCOMPATIBLE, "document %llu ('%s') has version %llu, %s %llu",
                      (unsigned long long)record->id, def->kind, (unsigned long long)version, what,
                      (unsigned long long)def->version);
}

static int parse_object(const tc_doc_def *def, tc_str text, const char *whose, tci_tree *ret,
                        tc_err *err)
{
    tci_tree tree = TCI_TREE_NONE;
    int rc = tci_tree_parse(text, TCI_JSON_DURABLE, &tree, err);
    if (rc < 0) {
        tc_err_wrap(err, "%s of document '%s'", whose, def->kind);
        return tc_err_recode(err, TC_E_INVALID);
    }
    if (tree.root.kind != TCI_JSON_OBJECT) {
        tci_tree_done(&tree);
        return tc_err_set(err, TC_E_INVALID, "%s of document '%s' is no object", whose, def->kind);
    }
    *ret = tree;
    return 0;
}

int tci_doc_migrate(tc_durable *s, const tc_doc_def *def, uint64_t version, tci_tree *value,
                    tc_err *err)
{
    if (version == def->version)
        return 0;
    tc_str text = {0};
    tci_tree migrated = TCI_TREE_NONE;
    int rc = def->migrate(def->user, &value->root, version, s->scratch, &text, err);
    if (rc == 0)
        rc = parse_object(def, text, "the migrated value", &migrated, err);
    tc_result_clear(s->scratch);
    if (rc < 0)
        return rc;
    tci_tree_done(value);
    *value = migrated;
    return 0;
}

int tci_doc_initial(tc_durable *s, const tc_doc_def *def, tc_str seed, tci_tree *ret_value,
                    tc_err *err)
{
    tc_str text = def->initial_json != NULL ? tci_str(def->initial_json) : TC_STR("{}");
    int rc = 0;
    if (def->initial != NULL)
        rc = def->initial(def->user, seed, s->scratch, &text, err);
    if (rc == 0)
        rc = parse_object(def, text, "the initial value", ret_value, err);
    tc_result_clear(s->scratch);
    return rc;
}

bool tc_checkpoint_never(void *user, const tc_doc_change *change)
{
    TCI_UNUSED(user);
    TCI_UNUSED(change);
    return false;
}

/* ---- documents in memory ---- */

static tc_str put_text(char **at, tc_str s)
{
    tc_str copy = tci_str_of(*at, s.len);
    if (s.len > 0)
        memcpy(*at, s.ptr, s.len);
    *at += s.len;
    return copy;
}

int tci_loaded_new(const tci_document *record, tc_str address_key, tci_tree *value,
                   tci_loaded **ret_loaded, tc_err *err)
{
    size_t ntext = address_key.len + record->json.len + record->kind.len + record->key.len;
    tci_loaded *l = tci_mem_alloc(sizeof *l + ntext);
    if (l == NULL)
        return tci_err_no_memory(err);
    char *at = (char *)(l + 1);
    l->refs = 1;
    l->address_key = put_text(&at, address_key);
    l->record = *record;
    l->record.json = put_text(&at, record->json);
    l->record.kind = put_text(&at, record->kind);
    l->record.key = put_text(&at, record->key);
    l->value = *value;
    *value = TCI_TREE_NONE;
    tci_list_init(&l->states);
    tci_list_init(&l->watches);
    *ret_loaded = l;
    return 0;
}

void tci_loaded_unref(tci_loaded *l)
{
    if (l == NULL || --l->refs > 0)
        return;
    tci_tree_done(&l->value);
    tci_free(l);
}

static bool is_observed(const tci_loaded *l)
{
    return !tci_list_is_empty(&l->states) || !tci_list_is_empty(&l->watches);
}

void tci_loaded_touch(tc_durable *s, tci_loaded *l)
{
    if (!l->is_installed)
        return;
    tci_link_remove(&l->in_idle);
    if (is_observed(l))
        return;
    if (s->retention_ns != INT64_MAX)
        l->used_ns = tci_clock_mono_ns();
    tci_list_push_back(&s->idle, &l->in_idle);
}

bool tci_loaded_install(tc_durable *s, tci_loaded *l)
{
    tci_loaded *before = tci_map_get(&s->docs, l->address_key);
    if (before != NULL)
        tci_loaded_evict(s, before);
    tc_err ignored; /* it is a cache: the document is loaded when it is wanted */
    if (tci_map_put(&s->docs, l->address_key, l, &ignored) < 0)
        return false;
    l->refs++;
    l->is_installed = true;
    tci_loaded_touch(s, l);
    return true;
}

void tci_loaded_evict(tc_durable *s, tci_loaded *l)
{
    if (!l->is_installed)
        return;
    (void)tci_map_remove(&s->docs, l->address_key); /* it is l */
    tci_link_remove(&l->in_idle);
    l->is_installed = false;
    tci_loaded_unref(l);
}

void tci_session_sweep_docs(tc_durable *s)
{
    if (s->retention_ns == INT64_MAX || tci_list_is_empty(&s->idle))
        return;
    int64_t limit = s->retention_ns > 0 ? tci_clock_mono_ns() - s->retention_ns : INT64_MAX;
    tci_link *k;
    while ((k = tci_list_first(&s->idle)) != NULL) {
        tci_loaded *l = TCI_CONTAINER(k, tci_loaded, in_idle);
        if (l->used_ns > limit)
            return;
        tci_loaded_evict(s, l);
    }
}

int64_t tci_durable_sweep_due(const tc_durable *s)
{
    const tci_link *k = tci_list_first(&s->idle);
    return k != NULL && s->retention_ns != INT64_MAX
               ? tci_add_ns(TCI_CONTAINER(k, const tci_loaded, in_idle)->used_ns, s->retention_ns)
               : 0;
}

int64_t tci_durable_sweep(tc_durable *s)
{
    tc_err ended;
    if (tci_durable_enter(s, &ended) < 0)
        return 0;
    tci_session_sweep_docs(s);
    int64_t due = tci_durable_sweep_due(s);
    tci_durable_leave(s);
    return due;
}

void tci_session_drop_docs(tc_durable *s)
{
    size_t at = 0;
    tci_loaded *l;
    while ((l = tci_map_next(&s->docs, &at)) != NULL)
        tci_loaded_evict(s, l);
}

/* ---- loading ---- */

static int load_stored(tc_durable *s, const tc_doc_def *def, const tci_address *address,
                       tci_document_state *ret, tci_tree *ret_value, tc_err *err)
{
    tci_document found = {0};
    int rc = tci_store_find_document(s->store, address, 0, &s->arena, &found, err);
    if (rc == 0 && found.id == 0) {
        ret->record.id = 0;
        return 0;
    }
    if (rc == 0)
        rc = tci_store_document(s->store, found.id, 0, &s->arena, ret, ret_value, err);
    rc = tci_session_after_read(s, rc, err);
    if (rc == 0 && ret->record.id == 0)
        return tc_err_set(err, TC_E_PARSE, "document %llu ('%s') cannot be read",
                          (unsigned long long)found.id, def->kind);
    if (rc < 0)
        return rc;
    rc = tci_doc_check_record(def, &ret->record, err);
    if (rc == 0)
        rc = tci_doc_check_version(def, &ret->record, ret->version, err);
    if (rc == 0)
        rc = tci_doc_migrate(s, def, ret->version, ret_value, err);
    if (rc < 0)
        tci_tree_done(ret_value);
    return rc;
}

/* In memory, but under another version of the definition. */
static void swap_value(tci_loaded *l, const tc_doc_def *def, const tci_document_state *state,
                       tci_tree *value)
{
    tci_tree_done(&l->value);
    l->value = *value;
    l->stored_version = state->version;
    l->value_version = def->version;
    l->deltas_since_base = state->deltas_since_base;
}

static int load(tc_durable *s, const tc_doc_def *def, const tci_address *address, tc_str key,
                tci_loaded *before, tci_loaded **ret_loaded, tc_err *err)
{
    tci_document_state state = {0};
    tci_tree value = TCI_TREE_NONE;
    int rc = load_stored(s, def, address, &state, &value, err);
    if (rc < 0)
        return rc;
    if (state.record.id == 0) {
        *ret_loaded = NULL;
        return 0;
    }
    if (before != NULL && before->record.id == state.record.id) {
        swap_value(before, def, &state, &value);
        tci_loaded_touch(s, before);
        *ret_loaded = before;
        return 0;
    }
    tci_loaded *l = NULL;
    rc = tci_loaded_new(&state.record, key, &value, &l, err);
    if (rc < 0) {
        tci_tree_done(&value);
        return rc;
    }
    l->stored_version = state.version;
    l->value_version = def->version;
    l->deltas_since_base = state.deltas_since_base;
    bool is_kept = tci_loaded_install(s, l);
    tci_loaded_unref(l);
    if (!is_kept)
        return tci_err_no_memory(err);
    *ret_loaded = l;
    return 0;
}

int tci_doc_load(tc_durable *s, const tc_doc_def *def, const tci_address *address, tc_str key,
                 tci_loaded **ret_loaded, tc_err *err)
{
    tci_loaded *l = tci_map_get(&s->docs, key);
    if (l != NULL && (l->value_version == def->version || l->draft != NULL)) {
        int rc = tci_doc_check_record(def, &l->record, err);
        if (rc < 0)
            return rc;
        tci_loaded_touch(s, l);
        *ret_loaded = l;
        return 0;
    }
    return load(s, def, address, key, l, ret_loaded, err);
}
