/* SPDX-License-Identifier: Apache-2.0
 *
 * Tasks in a transaction: created, replaced, looked at as they will be. Leaves the rules that hold at
 * the commit to commit.c, and what states mean to the scheduler. The thread that has the line. Invariant:
 * a task is listed from the first time it is touched, and that is the order they are written in. */
#include "session/session_int.h"

static tc_str id_bytes(const uint64_t *id)
{
    return tci_str_of(id, sizeof *id);
}

tci_staged_task *tci_tx_staged(const tc_tx *tx, uint64_t id)
{
    return tx->by_id.nitems == 0 ? NULL : tci_map_get(&tx->by_id, id_bytes(&id));
}

static int touch(tc_tx *tx, uint64_t id, tci_staged_task **ret, tc_err *err)
{
    *ret = tci_tx_staged(tx, id);
    if (*ret != NULL)
        return 0;
    int rc = TCI_VEC_ROOM(&tx->arena, &tx->tasks, err);
    if (rc < 0)
        return rc;
    tci_staged_task *t = tci_arena_new(&tx->arena, tci_staged_task);
    if (t == NULL)
        return tci_arena_error(&tx->arena, err);
    t->id = id;
    rc = tci_map_put(&tx->by_id, id_bytes(&t->id), t, err);
    if (rc < 0)
        return rc;
    tx->tasks.items[tx->tasks.count++] = t;
    *ret = t;
    return 0;
}

int tci_tx_task_of(tc_tx *tx, uint64_t id, tci_staged_task **ret, tc_err *err)
{
    tci_staged_task *t = NULL;
    int rc = touch(tx, id, &t, err);
    if (rc < 0)
        return rc;
    if (!t->has_committed) {
        rc = tci_durable_task(tx->s, id, &tx->arena, &t->committed, err);
        if (rc < 0)
            return rc;
        t->has_committed = true;
    }
    *ret = t;
    return 0;
}

int tci_tx_task_now(tc_tx *tx, uint64_t id, tci_task *ret, tc_err *err)
{
    tci_staged_task *t = tci_tx_staged(tx, id);
    if (t == NULL || !t->has_write) {
        int rc = tci_tx_task_of(tx, id, &t, err);
        if (rc < 0)
            return rc;
    }
    *ret = t->has_write ? t->write : t->committed;
    return 0;
}

int tci_tx_current_task(tc_tx *tx, uint64_t id, tci_arena *a, tci_task *ret, tc_err *err)
{
    const tci_staged_task *t = tci_tx_staged(tx, id);
    if (t == NULL || !t->has_write)
        return tci_durable_task(tx->s, id, a, ret, err);
    *ret = t->write;
    return 0;
}

/* ---- creating ---- */

static int place_of(tc_tx *tx, const tci_task_new *task, uint64_t *ret_conversation, tc_err *err)
{
    uint64_t conversation = task->conversation;
    if (task->owner != 0) {
        tci_task owner = {0};
        int rc = tci_tx_task_now(tx, task->owner, &owner, err);
        if (rc < 0)
            return rc;
        if (owner.id == 0)
            return tc_err_set(err, TC_E_NOT_FOUND, "task owner %llu does not exist",
                              (unsigned long long)task->owner);
        if (task->is_background)
            return tc_err_set(err, TC_E_INVALID, "a child task cannot be background");
        if (conversation != 0 && conversation != owner.conversation_id)
            return tc_err_set(err, TC_E_INVALID,
                              "a child task lives in its owner's conversation %llu",
                              (unsigned long long)owner.conversation_id);
        conversation = owner.conversation_id;
    }
    if (conversation == 0)
        conversation = tx->author_conversation;
    if (conversation == 0)
        return tc_err_set(err, TC_E_INVALID, "a new task needs a conversation");
    *ret_conversation = conversation;
    return tci_tx_require_conversation(tx, conversation, err);
}

static void put_bool(tci_buf *b, const char *name, bool v)
{
    tci_buf_append_str(b, tci_str(name));
    tci_json_put_bool(b, v);
}

static void put_id(tci_buf *b, const char *name, uint64_t v)
{
    tci_buf_append_str(b, tci_str(name));
    tci_buf_append_u64(b, v);
}

static void put_task(tci_buf *b, const tci_task_new *n, uint64_t id, uint64_t conversation)
{
    put_id(b, "{\"id\":", id);
    put_id(b, ",\"conversationId\":", conversation);
    tci_buf_append_str(b, TC_STR(",\"kind\":"));
    tci_json_put_str(b, n->kind);
    put_id(b, ",\"version\":", n->version);
    tci_buf_append_str(b, TC_STR(",\"input\":"));
    tci_buf_append_str(b, n->input);
    put_bool(b, ",\"background\":", n->is_background);
    put_bool(b, ",\"abortRequested\":", false);
    tci_buf_append_str(b, TC_STR(",\"state\":{\"status\":\"pending\",\"checkpoint\":"));
    tci_buf_append_str(b, n->checkpoint);
    tci_buf_append_byte(b, '}');
    if (n->owner != 0)
        put_id(b, ",\"owner\":", n->owner);
    if (n->is_abandoned_on_restart)
        put_bool(b, ",\"abandonOnRestart\":", true);
    tci_buf_append_byte(b, '}');
}

/* A record from outside: parsed, and written anew when it would not fit on one line. */
static int read_record(tc_tx *tx, tc_str json, const tci_json **ret_tree, tci_task *ret,
                       tc_err *err)
{
    tc_str text = {0};
    int rc = tci_arena_dup(&tx->arena, json, &text, err);
    if (rc < 0)
        return rc;
    rc = tci_task_parse(text, &tx->arena, ret_tree, ret, err);
    if (rc < 0) {
        tc_err_wrap(err, "task record");
        return tc_err_recode(err, rc == TC_E_PARSE ? TC_E_INVALID : (tc_code)rc);
    }
    if (tci_str_find_byte(text, '\n') == text.len && tci_str_find_byte(text, '\r') == text.len)
        return 0;
    tci_json_put(&tx->buf, *ret_tree, TCI_JSON_AS_IS);
    return tci_tx_text(tx, &ret->json, err);
}

static int is_one_value(tc_tx *tx, tc_str json, const char *what, tc_err *err)
{
    tci_json v;
    int rc = tci_json_parse(json, TCI_JSON_DURABLE, &tx->arena, &v, err);
    if (rc == 0)
        return 0;
    tc_err_wrap(err, "%s of a new task", what);
    return tc_err_recode(err, rc == TC_E_PARSE ? TC_E_INVALID : (tc_code)rc);
}

int tci_tx_create_task(tc_tx *tx, const tci_task_new *task, uint64_t *ret_id, tc_err *err)
{
    uint64_t conversation = 0, id = 0;
    int rc = tci_tx_write(tx, err);
    if (rc == 0)
        rc = place_of(tx, task, &conversation, err);
    if (rc == 0)
        rc = is_one_value(tx, task->input, "the input", err);
    if (rc == 0)
        rc = is_one_value(tx, task->checkpoint, "the checkpoint", err);
    if (rc == 0)
        rc = tci_session_mint(tx->s, &id, err);
    if (rc < 0)
        return rc;
    tci_task record;
    const tci_json *tree = NULL;
    tc_str text = {0};
    put_task(&tx->buf, task, id, conversation);
    rc = tci_tx_text(tx, &text, err);
    if (rc == 0)
        rc = read_record(tx, text, &tree, &record, err);
    tci_staged_task *t = NULL;
    if (rc == 0)
        rc = touch(tx, id, &t, err);
    if (rc < 0)
        return rc;
    t->has_committed = true; /* it was minted just now */
    t->has_write = t->is_new = true;
    t->write = record;
    *ret_id = id;
    return 0;
}

/* ---- replacing ---- */

static int64_t first_set(int64_t a, int64_t b)
{
    return a != 0 ? a : b;
}

enum { TIME_TEXT_MAX = 24 };

static tc_str time_text(int64_t ms, tci_buf *b, char room[TIME_TEXT_MAX])
{
    tci_buf_clear(b);
    tci_buf_append_i64(b, ms);
    size_t len = b->len < TIME_TEXT_MAX ? b->len : 0;
    if (len > 0)
        memcpy(room, b->ptr, len);
    return tci_str_of(room, len);
}

/* startedAt the first time it runs, endedAt when it ends; what a staged record had stays. */
static int stamp(tc_tx *tx, const tci_task *before, const tci_json *tree, tci_task *task,
                 tc_err *err)
{
    int64_t started = first_set(before != NULL ? before->started_at : 0, task->started_at);
    int64_t ended = first_set(before != NULL ? before->ended_at : 0, task->ended_at);
    if (started == 0 && task->status == TCI_TASK_RUNNING)
        started = tci_durable_now_ms(tx->s);
    if (ended == 0 && task->status == TCI_TASK_TERMINAL)
        ended = tci_durable_now_ms(tx->s);
    if (started == task->started_at && ended == task->ended_at)
        return 0;
    char started_room[TIME_TEXT_MAX], ended_room[TIME_TEXT_MAX];
    tci_json_change changes[2];
    size_t n = 0;
    if (started != task->started_at)
        changes[n++] =
            (tci_json_change){TC_STR("startedAt"), time_text(started, &tx->buf, started_room)};
    if (ended != task->ended_at)
        changes[n++] = (tci_json_change){TC_STR("endedAt"), time_text(ended, &tx->buf, ended_room)};
    tci_buf_clear(&tx->buf);
    tci_json_edit(&tx->buf, tree, changes, n);
    task->started_at = started;
    task->ended_at = ended;
    return tci_tx_text(tx, &task->json, err);
}

static int set_task(tc_tx *tx, const tci_json *tree, tci_task *record, tc_err *err)
{
    tci_staged_task *t = NULL;
    int rc = touch(tx, record->id, &t, err);
    if (rc < 0)
        return rc;
    const tci_task *before = t->has_write ? &t->write : NULL;
    if (before != NULL && before->status == TCI_TASK_TERMINAL)
        return tc_err_set(err, TC_E_CONFLICT, "task %llu is terminal in this transaction already",
                          (unsigned long long)record->id);
    if (before != NULL && before->conversation_id != record->conversation_id)
        return tc_err_set(err, TC_E_CONFLICT, "task %llu cannot change conversations",
                          (unsigned long long)record->id);
    rc = stamp(tx, before, tree, record, err);
    if (rc < 0)
        return rc;
    t->write = *record;
    t->has_write = true;
    return 0;
}

int tci_tx_set_task(tc_tx *tx, tc_str json, tc_err *err)
{
    tci_task record;
    const tci_json *tree = NULL;
    int rc = tci_tx_write(tx, err);
    if (rc == 0)
        rc = read_record(tx, json, &tree, &record, err);
    return rc < 0 ? rc : set_task(tx, tree, &record, err);
}

int tci_tx_change_task(tc_tx *tx, const tci_task *record, const tci_json_change *changes,
                       size_t nchanges, tc_err *err)
{
    tci_json v;
    int rc = tci_tx_check(tx, err);
    if (rc < 0)
        return rc;
    rc = tci_json_parse(record->json, TCI_JSON_DURABLE, &tx->arena, &v, err);
    if (rc < 0)
        return tc_err_wrap(err, "task record");
    tc_str text = {0};
    tci_json_edit(&tx->buf, &v, changes, nchanges);
    rc = tci_tx_text(tx, &text, err);
    return rc < 0 ? rc : tci_tx_set_task(tx, text, err);
}

int tci_tx_staged_tasks(tc_tx *tx, const tci_task **ret, size_t *ret_count, tc_err *err)
{
    size_t n = 0;
    tci_task *tasks = tci_arena_items(&tx->arena, tci_task, tx->tasks.count);
    if (tasks == NULL && tx->tasks.count > 0)
        return tci_arena_error(&tx->arena, err);
    for (size_t i = 0; i < tx->tasks.count; i++)
        if (tx->tasks.items[i]->has_write)
            tasks[n++] = tx->tasks.items[i]->write;
    *ret = tasks;
    *ret_count = n;
    return 0;
}
