/* SPDX-License-Identifier: Apache-2.0
 *
 * A transaction: its memory, conversations and entries in it, and how it is given up. Leaves tasks,
 * submissions and documents to their files, and the commit to commit.c. The thread that has the line.
 * Invariant: a call that failed has staged nothing, or the transaction is broken. */
#include "session/session_int.h"

int tci_vec_grow(tci_arena *a, void **items, size_t count, size_t *cap, size_t item_size,
                 tc_err *err)
{
    size_t room = *cap > 0 ? *cap * 2 : 8;
    void *grown = tci_arena_array(a, room, item_size);
    if (grown == NULL)
        return tci_arena_error(a, err);
    if (count > 0)
        memcpy(grown, *items, count * item_size);
    *items = grown;
    *cap = room;
    return 0;
}

int tci_tx_new(tc_durable *s, tc_tx **ret_tx, tc_err *err)
{
    tc_tx *tx = tci_new(tc_tx);
    if (tx == NULL)
        return tci_err_no_memory(err);
    tx->s = s;
    tci_arena_init(&tx->arena, 0);
    tci_buf_init(&tx->buf, TCI_BUF_MAX);
    tci_map_init(&tx->by_id, s->docs.seed);
    *ret_tx = tx;
    return 0;
}

void tci_tx_free(tc_tx *tx)
{
    if (tx == NULL)
        return;
    tci_map_done(&tx->by_id);
    tci_buf_done(&tx->buf);
    tci_arena_done(&tx->arena);
    tci_free(tx);
}

enum { KEEP_BYTES = 64 * 1024, KEEP_SLOTS = 64 };

/* Empty again; what it holds outside its arena is released already. */
static void reset(tc_tx *tx)
{
    tc_durable *s = tx->s;
    uint64_t seed = tx->by_id.seed;
    tci_buf buf = tx->buf;
    tci_map by_id = tx->by_id;
    tci_arena arena = tx->arena;
    if (by_id.nused > 0) {
        tci_map_done(&by_id);
        tci_map_init(&by_id, seed);
    }
    tci_buf_clear(&buf);
    tci_buf_trim(&buf, KEEP_BYTES);
    tci_arena_clear(&arena);
    *tx = (tc_tx){.s = s, .buf = buf, .by_id = by_id, .arena = arena};
}

void tci_tx_end(tc_tx *tx)
{
    tc_durable *s = tx->s;
    for (tc_doc *d = tx->docs, *next; d != NULL; d = next) {
        next = d->next;
        tci_doc_release(d);
    }
    s->is_tx_open = false;
    reset(tx);
    tci_session_leave(s);
}

void tc_tx_rollback(tc_tx *tx)
{
    if (tx == NULL || !tci_tx_is_open(tx))
        return;
    for (tc_doc *d = tx->docs; d != NULL; d = d->next)
        tci_doc_rollback(d);
    tci_tx_end(tx);
}

tc_durable *tci_tx_durable(const tc_tx *tx)
{
    return tx->s;
}

tci_arena *tci_tx_arena(tc_tx *tx)
{
    return &tx->arena;
}

void tci_tx_set_author(tc_tx *tx, uint64_t task_id, uint64_t conversation_id)
{
    tx->author_task = task_id;
    tx->author_conversation = conversation_id;
}

int tci_tx_text(tc_tx *tx, tc_str *ret_text, tc_err *err)
{
    int rc = tci_buf_error(&tx->buf, err);
    if (rc == 0)
        rc = tci_arena_dup(&tx->arena, tci_buf_str(&tx->buf), ret_text, err);
    tci_buf_clear(&tx->buf);
    return rc;
}

int tci_tx_check(const tc_tx *tx, tc_err *err)
{
    if (TCI_LIKELY(tci_tx_is_open(tx)))
        return 0;
    return tc_err_set(err, TC_E_CONFLICT, "the transaction has ended, or is another thread's");
}

int tci_tx_write(tc_tx *tx, tc_err *err)
{
    int rc = tci_tx_check(tx, err);
    if (rc == 0)
        tx->has_table_write = true;
    return rc;
}

int tci_tx_check_read(const tc_tx *tx, const char *what, tc_err *err)
{
    int rc = tci_tx_check(tx, err);
    if (rc < 0)
        return rc;
    if (!tx->has_table_write)
        return 0;
    return tc_err_set(err, TC_E_CONFLICT,
                      "read after write: a transaction reads (%s) before its first table write",
                      what);
}

/* ---- conversations ---- */

static const tci_conversation *staged_conversation(const tc_tx *tx, uint64_t id)
{
    for (size_t i = 0; i < tx->conversations.count; i++)
        if (tx->conversations.items[i].id == id)
            return &tx->conversations.items[i];
    return NULL;
}

int tci_tx_current_conversation(tc_tx *tx, uint64_t id, tci_arena *a, tci_conversation *ret,
                                tc_err *err)
{
    const tci_conversation *staged = staged_conversation(tx, id);
    if (staged == NULL)
        return tci_durable_conversation(tx->s, id, a, ret, err);
    *ret = *staged;
    return 0;
}

int tci_tx_require_conversation(tc_tx *tx, uint64_t id, tc_err *err)
{
    uint64_t *known = &tx->s->known[id % TCI_KNOWN_CONVERSATIONS];
    if (id != 0 && *known == id)
        return 0;
    tci_conversation c = {0};
    int rc = tci_tx_current_conversation(tx, id, &tx->arena, &c, err);
    if (rc == 0 && c.id != 0 && staged_conversation(tx, id) == NULL)
        *known = id;
    if (rc == 0 && c.id == 0)
        return tc_err_set(err, TC_E_NOT_FOUND, "conversation %llu does not exist",
                          (unsigned long long)id);
    return rc;
}

static int owner_of(tc_tx *tx, uint64_t owner_task, tci_conversation *c, tc_err *err)
{
    if (owner_task == 0)
        return 0;
    tci_task task = {0};
    int rc = tci_tx_task_now(tx, owner_task, &task, err);
    if (rc < 0)
        return rc;
    if (task.id == 0)
        return tc_err_set(err, TC_E_NOT_FOUND, "conversation owner task %llu does not exist",
                          (unsigned long long)owner_task);
    c->owner_task_id = owner_task;
    c->owner_conversation_id = task.conversation_id;
    return 0;
}

static int add_row(tc_tx *tx, bool is_entry, size_t index, tc_err *err)
{
    int rc = TCI_VEC_ROOM(&tx->arena, &tx->rows, err);
    if (rc == 0)
        tx->rows.items[tx->rows.count++] = (tci_row){is_entry, index};
    return rc;
}

/* id is set: the reserved one, or a minted one. */
static int stage_conversation(tc_tx *tx, tci_conversation *c, tc_err *err)
{
    int rc = TCI_VEC_ROOM(&tx->arena, &tx->conversations, err);
    if (rc == 0)
        rc = TCI_VEC_ROOM(&tx->arena, &tx->fork_parents, err);
    if (rc < 0)
        return rc;
    tci_conversation_put(&tx->buf, c);
    rc = tci_tx_text(tx, &c->json, err);
    if (rc == 0)
        rc = add_row(tx, false, tx->conversations.count, err);
    if (rc < 0)
        return rc;
    tx->conversations.items[tx->conversations.count++] = *c;
    if (c->parent_id != 0)
        tx->fork_parents.items[tx->fork_parents.count++] = c->parent_id;
    return 0;
}

static int created(tc_tx *tx, const tci_conversation *c, tc_err *err)
{
    const tci_durable_hooks *hooks = &tx->s->hooks;
    return hooks->conversation_created == NULL
               ? 0
               : hooks->conversation_created(hooks->user, tx, c, err);
}

static int create_conversation(tc_tx *tx, uint64_t reserved_id, uint64_t owner_task,
                               uint64_t *ret_id, tc_err *err)
{
    tci_conversation c = {.id = reserved_id};
    int rc = tci_tx_write(tx, err);
    if (rc < 0)
        return rc;
    if (reserved_id == 0)
        rc = tci_session_mint(tx->s, &c.id, err);
    if (rc == 0)
        rc = owner_of(tx, owner_task, &c, err);
    if (rc == 0)
        rc = stage_conversation(tx, &c, err);
    if (rc == 0)
        rc = created(tx, &c, err);
    if (rc == 0)
        *ret_id = c.id;
    else
        tx->is_broken = true;
    return rc;
}

int tc_tx_create_conversation(tc_tx *tx, uint64_t owner_task, uint64_t *ret_id, tc_err *err)
{
    return create_conversation(tx, 0, owner_task, ret_id, err);
}

int tc_tx_create_root_conversation(tc_tx *tx, tc_err *err)
{
    tci_conversation before = {0};
    int rc = tci_tx_check(tx, err);
    if (rc == 0)
        rc = tci_tx_current_conversation(tx, TCI_ROOT_ID, &tx->arena, &before, err);
    if (rc < 0)
        return rc;
    if (before.id != 0)
        return tc_err_set(err, TC_E_CONFLICT, "the root conversation exists");
    uint64_t id;
    return create_conversation(tx, TCI_ROOT_ID, 0, &id, err);
}

int tc_tx_fork_conversation(tc_tx *tx, uint64_t parent, uint64_t at, uint64_t owner_task,
                            uint64_t *ret_id, tc_err *err)
{
    tci_conversation c = {.parent_id = parent, .parent_at = at};
    int rc = tci_tx_write(tx, err);
    if (rc < 0)
        return rc;
    rc = tci_session_mint(tx->s, &c.id, err);
    if (rc == 0)
        rc = owner_of(tx, owner_task, &c, err);
    if (rc == 0)
        rc = tci_tx_stage_copies(tx, parent, at, c.id, err);
    if (rc == 0)
        rc = stage_conversation(tx, &c, err);
    if (rc == 0)
        rc = created(tx, &c, err);
    if (rc == 0)
        *ret_id = c.id;
    else
        tx->is_broken = true;
    return rc;
}

/* ---- entries ---- */

static int bad_draft(tc_err *err, const char *what)
{
    return tc_err_set(err, TC_E_INVALID, "entry draft: %s", what);
}

static bool is_text(const tci_json *v)
{
    return v != NULL && v->kind == TCI_JSON_STRING && v->u.text.len > 0;
}

static bool are_messages(const tci_json *v)
{
    if (v->kind != TCI_JSON_ARRAY)
        return false;
    for (uint32_t i = 0; i < v->count; i++)
        if (!is_text(tci_json_get(&v->u.items[i], TC_STR("role"))))
            return false;
    return true;
}

static int check_edit(const tci_json *v, tc_err *err)
{
    uint64_t target;
    tc_str action = {0};
    const tci_json *messages = tci_json_get(v, TC_STR("messages"));
    if (v->kind != TCI_JSON_OBJECT || !tci_json_as_id(tci_json_get(v, TC_STR("target")), &target) ||
        !tci_json_as_str(tci_json_get(v, TC_STR("action")), &action))
        return bad_draft(err, "an edit has no target or no action");
    bool is_replacement = tci_str_eq(action, TC_STR("replace"));
    if (!is_replacement && !tci_str_eq(action, TC_STR("omit")))
        return bad_draft(err, "the action of an edit is 'omit' or 'replace'");
    if (is_replacement != (messages != NULL) || v->count != (is_replacement ? 3U : 2U))
        return bad_draft(err, "an edit has 'messages' exactly when it replaces, and nothing else");
    if (messages != NULL && !are_messages(messages))
        return bad_draft(err, "the messages of an edit are objects with a role");
    return 0;
}

static int check_edits(const tci_json *v, tc_err *err)
{
    if (v->kind != TCI_JSON_ARRAY)
        return bad_draft(err, "'edits' is no array");
    for (uint32_t i = 0; i < v->count; i++) {
        int rc = check_edit(&v->u.items[i], err);
        if (rc < 0)
            return rc;
    }
    return 0;
}

typedef struct draft {
    const tci_json *kind, *model, *data, *head, *edits;
} draft;

static int read_draft(const tci_json *v, draft *ret, tc_err *err)
{
    if (v->kind != TCI_JSON_OBJECT)
        return bad_draft(err, "it is no object");
    *ret = (draft){tci_json_get(v, TC_STR("kind")), tci_json_get(v, TC_STR("model")),
                   tci_json_get(v, TC_STR("data")), tci_json_get(v, TC_STR("head")),
                   tci_json_get(v, TC_STR("edits"))};
    const tci_json *known[] = {ret->kind, ret->model, ret->data, ret->head, ret->edits};
    uint32_t nknown = 0;
    for (size_t i = 0; i < TCI_ARRAY_LEN(known); i++)
        nknown += known[i] != NULL;
    if (v->count != nknown)
        return bad_draft(err, "it has a field that entries do not have");
    if (!is_text(ret->kind))
        return bad_draft(err, "'kind' is no text or empty");
    if (ret->model != NULL && !are_messages(ret->model))
        return bad_draft(err, "'model' is no array of messages with a role");
    uint64_t id;
    tc_str self;
    if (ret->head != NULL && !tci_json_as_id(ret->head, &id) &&
        !(tci_json_as_str(ret->head, &self) && tci_str_eq(self, TC_STR("self"))))
        return bad_draft(err, "'head' is no id and not \"self\"");
    return ret->edits != NULL ? check_edits(ret->edits, err) : 0;
}

static void put_field(tci_buf *b, const char *name, const tci_json *v)
{
    if (v == NULL)
        return;
    tci_buf_append_byte(b, ',');
    tci_json_put_str(b, tci_str(name));
    tci_buf_append_byte(b, ':');
    tci_json_put(b, v, TCI_JSON_AS_IS);
}

static void put_entry(tci_buf *b, const draft *d, const tci_entry *e)
{
    tci_buf_append_str(b, TC_STR("{\"id\":"));
    tci_buf_append_u64(b, e->id);
    tci_buf_append_str(b, TC_STR(",\"conversationId\":"));
    tci_buf_append_u64(b, e->conversation_id);
    put_field(b, "kind", d->kind);
    put_field(b, "model", d->model);
    put_field(b, "data", d->data);
    put_field(b, "edits", d->edits);
    if (e->head != 0) {
        tci_buf_append_str(b, TC_STR(",\"head\":"));
        tci_buf_append_u64(b, e->head);
    }
    if (e->by_task_id != 0) {
        tci_buf_append_str(b, TC_STR(",\"byTaskId\":"));
        tci_buf_append_u64(b, e->by_task_id);
    }
    tci_buf_append_byte(b, '}');
}

static int stage_entry(tc_tx *tx, const draft *d, tci_entry *e, tc_err *err)
{
    int rc = TCI_VEC_ROOM(&tx->arena, &tx->entries, err);
    if (rc == 0)
        rc = tci_session_mint(tx->s, &e->id, err);
    if (rc < 0)
        return rc;
    e->kind = d->kind->u.text;
    if (d->head != NULL && !tci_json_as_id(d->head, &e->head))
        e->head = e->id;
    put_entry(&tx->buf, d, e);
    rc = tci_tx_text(tx, &e->json, err);
    /* the parsed kind may point into the caller's text */
    if (rc == 0)
        rc = tci_arena_dup(&tx->arena, e->kind, &e->kind, err);
    if (rc == 0)
        rc = add_row(tx, true, tx->entries.count, err);
    if (rc == 0)
        tx->entries.items[tx->entries.count++] = *e;
    return rc;
}

int tc_tx_append_entry(tc_tx *tx, uint64_t conversation, tc_str text, uint64_t *ret_id, tc_err *err)
{
    int rc = tci_tx_write(tx, err);
    if (rc == 0)
        rc = tci_tx_require_conversation(tx, conversation, err);
    if (rc < 0)
        return rc;
    tci_json v;
    rc = tci_json_parse(text, TCI_JSON_DURABLE, &tx->arena, &v, err);
    if (rc < 0) {
        tc_err_wrap(err, "entry draft");
        return tc_err_recode(err, rc == TC_E_PARSE ? TC_E_INVALID : (tc_code)rc);
    }
    draft d;
    rc = read_draft(&v, &d, err);
    if (rc < 0)
        return rc;
    tci_entry e = {.conversation_id = conversation,
                   .by_task_id = tx->author_task,
                   .has_model = d.model != NULL,
                   .has_edits = d.edits != NULL};
    rc = stage_entry(tx, &d, &e, err);
    if (rc == 0)
        *ret_id = e.id;
    return rc;
}

int tci_tx_current_entry(tc_tx *tx, uint64_t id, tci_arena *a, tci_entry *ret, tc_err *err)
{
    for (size_t i = tx->entries.count; i-- > 0;)
        if (tx->entries.items[i].id == id) {
            *ret = tx->entries.items[i];
            return 0;
        }
    return tci_durable_entry(tx->s, 0, id, a, ret, NULL, err);
}

int tci_tx_staged_conversations(tc_tx *tx, const tci_conversation **ret, size_t *ret_count,
                                tc_err *err)
{
    TCI_UNUSED(err);
    *ret = tx->conversations.items;
    *ret_count = tx->conversations.count;
    return 0;
}

int tci_tx_staged_entries(tc_tx *tx, const tci_entry **ret, size_t *ret_count, tc_err *err)
{
    TCI_UNUSED(err);
    *ret = tx->entries.items;
    *ret_count = tx->entries.count;
    return 0;
}
