/* SPDX-License-Identifier: Apache-2.0
 *
 * What a handler may do: commits of its task, memos, children, waits, its environment. Leaves the
 * meaning of states to sched_state.c. Threads of the task; transactions take turns on the line.
 * Invariant: nothing is committed for a task whose invocation has ended, that is not running, or, in a
 * phase, is marked. */
#include "harness/sched/sched_int.h"

#include "base/num.h"
#include "plat/clock.h"
#include <stdlib.h>

const tc_task_info *tc_task_current(const tc_task *t)
{
    return &t->info;
}

void *tc_task_user(const tc_task *t)
{
    return t->def->user;
}

tc_harness *tc_task_harness(const tc_task *t)
{
    return t->h;
}

tc_ctx *tc_task_ctx(tc_task *t)
{
    return &t->ctx;
}

tc_result *tc_task_result(tc_task *t)
{
    return t->result;
}

int64_t tc_task_now(tc_task *t)
{
    return tci_durable_now_ms(t->h->session);
}

tci_snapshot *tci_task_snapshot(tc_task *t)
{
    return t->snapshot;
}

void **tci_task_slot(tc_task *t, void (*free_value)(void *value))
{
    t->free_slot = free_value;
    return &t->slot;
}

bool tci_task_is_abort(const tc_task *t)
{
    return t->mode == TCI_MODE_ABORT;
}

tc_str tci_task_extension(const tc_task *t)
{
    return t->extension;
}

/* ---- commits ---- */

/* May the task commit now? On the line. */
static int check_running(tc_task *t, tc_err *err)
{
    tc_harness *h = t->h;
    unsigned long long id = t->id;
    int rc = 0;
    tci_mutex_lock(&h->lock);
    if (h->is_closing)
        rc = tc_err_set(err, TC_E_CANCELLED, "the harness closes; task %llu goes on later", id);
    else if (t->is_ended || t->live == NULL)
        rc = tc_err_set(err, TC_E_CLOSED, "the invocation of task %llu has ended", id);
    else if (t->live->task.status != TCI_TASK_RUNNING)
        rc = tc_err_set(err, TC_E_CLOSED, "task %llu is not running any more", id);
    else if (t->mode != TCI_MODE_ABORT && t->live->task.is_abort_requested)
        rc = tc_err_set(err, TC_E_CANCELLED, "task %llu is to be aborted", id);
    tci_mutex_unlock(&h->lock);
    return rc;
}

int tc_task_begin(tc_task *t, tc_tx **ret_tx, tc_str *ret_record, tc_err *err)
{
    tc_tx *tx;
    if (tc_durable_begin(t->h->session, NULL, &tx, err) < 0) {
        if (err->code == TC_E_CLOSED && tci_harness_is_closing(t->h))
            return tc_err_recode(err, TC_E_CANCELLED);
        return err->code;
    }
    if (check_running(t, err) < 0) {
        tc_tx_rollback(tx);
        return err->code;
    }
    tci_tx_set_author(tx, t->id, t->conversation_id);
    if (ret_record != NULL)
        *ret_record = t->live->task.json;
    *ret_tx = tx;
    return 0;
}

/* The record as it stands in the transaction: staged, or else the committed one. */
static int current_record(tc_task *t, tc_tx *tx, tci_task *ret, tc_err *err)
{
    const tci_task *staged;
    size_t n;
    if (tci_tx_staged_tasks(tx, &staged, &n, err) < 0)
        return err->code;
    *ret = t->live->task;
    for (size_t i = 0; i < n; i++)
        if (staged[i].id == t->id)
            *ret = staged[i];
    return 0;
}

static int stage(tc_task *t, tc_tx *tx, const tc_next *next, tc_err *err)
{
    tci_task current;
    if (next == NULL || next->kind == TC_NEXT_STAY)
        return 0;
    if (current_record(t, tx, &current, err) < 0)
        return err->code;
    return tci_tx_stage_next(t, tx, &current, next, err);
}

/* What a commit of this task set in motion: this thread makes the passes when the task has no more to
 * do, so that nobody has to be woken for them first; now, or (is_prompt) when the handler returns. */
static void follow_up(tc_task *t)
{
    tc_harness *h = t->h;
    tci_mutex_lock(&h->lock);
    if (h->committer == t)
        h->committer = NULL; /* nothing was observed */
    bool is_over = t->live == NULL || t->live->task.status != TCI_TASK_RUNNING;
    bool is_due = h->is_dirty && !h->is_passing && !h->is_stopping;
    if (is_due && !is_over) {
        h->is_dirty = false;
        tci_sched_kick_locked(h);
    }
    tci_mutex_unlock(&h->lock);
    if (is_due && is_over && !t->def->is_prompt)
        tci_sched_passes(h, NULL);
}

int tc_task_commit(tc_task *t, tc_tx *tx, const tc_next *next, tc_err *err)
{
    tc_harness *h = t->h;
    if (stage(t, tx, next, err) < 0) {
        tc_tx_rollback(tx);
        return err->code;
    }
    tci_mutex_lock(&h->lock);
    h->committer = t; /* until the commit was observed, or came to nothing: on the line */
    tci_mutex_unlock(&h->lock);
    int rc = tc_tx_commit(tx, err);
    follow_up(t);
    return rc;
}

int tci_task_commit_lazy(tc_task *t, tc_tx *tx, tc_err *err)
{
    (void)t;
    return tci_tx_commit(tx, TCI_TX_LAZY, NULL, err);
}

int tc_task_next(tc_task *t, const tc_next *next, tc_err *err)
{
    tc_tx *tx;
    if (tc_task_begin(t, &tx, NULL, err) < 0)
        return err->code;
    return tc_task_commit(t, tx, next, err);
}

int tc_task_sleep_until(tc_task *t, int64_t until_ms, tc_str checkpoint, tc_err *err)
{
    return tc_task_next(
        t, &(tc_next){.kind = TC_NEXT_SLEEPING, .checkpoint = checkpoint, .until_ms = until_ms},
        err);
}

/* ---- memos ---- */

/* The stored one as text in r. On the line. */
static int read_memo(tc_task *t, tc_str name, tc_result *r, bool *ret_is_known, tc_str *ret_value,
                     tc_err *err)
{
    const tci_json *memos = tci_json_get(t->live->tree, TC_STR("memos"));
    const tci_json *value = memos != NULL ? tci_json_get(memos, name) : NULL;
    *ret_is_known = value != NULL;
    if (value == NULL)
        return 0;
    tci_buf b;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_json_put(&b, value, TCI_JSON_AS_IS);
    int rc = tci_buf_error(&b, err);
    if (rc == 0)
        rc = tc_result_dup(r, tci_buf_str(&b), ret_value, err);
    tci_buf_done(&b);
    return rc;
}

static int stage_memo(tc_task *t, tc_tx *tx, tc_str name, tc_str value, tc_err *err)
{
    static const tci_json none = {.kind = TCI_JSON_OBJECT};
    tci_json tree;
    tci_arena a;
    tci_buf b;
    tci_arena_init(&a, 0);
    tci_buf_init(&b, TCI_BUF_MAX);
    int rc = tci_json_parse(value, TCI_JSON_DURABLE, &a, &tree, err);
    if (rc < 0)
        rc = tc_err_recode(err, TC_E_INVALID);
    const tci_json *memos = tci_json_get(t->live->tree, TC_STR("memos"));
    if (rc == 0) {
        tci_json_edit(&b, memos != NULL ? memos : &none, &(tci_json_change){name, value}, 1);
        rc = tci_buf_error(&b, err);
    }
    if (rc == 0)
        rc = tci_tx_change_task(tx, &t->live->task,
                                &(tci_json_change){TC_STR("memos"), tci_buf_str(&b)}, 1, err);
    tci_buf_done(&b);
    tci_arena_done(&a);
    return rc;
}

int tci_task_memo(tc_task *t, tc_str name, tc_str value, tc_result *r, tc_str *ret_value,
                  tc_err *err)
{
    tc_tx *tx;
    bool is_known = false;
    if (tc_task_begin(t, &tx, NULL, err) < 0)
        return err->code;
    int rc = read_memo(t, name, r, &is_known, ret_value, err);
    if (rc < 0 || is_known) {
        tc_tx_rollback(tx);
        return rc;
    }
    if (stage_memo(t, tx, name, value, err) < 0) {
        tc_tx_rollback(tx);
        return err->code;
    }
    if (tc_tx_commit(tx, err) < 0)
        return err->code;
    return tc_result_dup(r, value, ret_value, err);
}

static int get_memo(tc_task *t, tc_str name, tc_result *r, bool *ret_is_known, tc_str *ret_value,
                    tc_err *err)
{
    if (tci_durable_enter(t->h->session, err) < 0)
        return err->code;
    int rc = t->live != NULL
                 ? read_memo(t, name, r, ret_is_known, ret_value, err)
                 : tc_err_set(err, TC_E_CLOSED, "task %llu has ended", (unsigned long long)t->id);
    tci_durable_leave(t->h->session);
    return rc;
}

int tci_task_get_memo(tc_task *t, tc_str name, tc_result *r, tc_str *ret_value, tc_err *err)
{
    bool is_known;
    tc_str value = {NULL, 0};
    if (get_memo(t, name, r, &is_known, &value, err) < 0)
        return err->code;
    *ret_value = value;
    return 0;
}

int tc_task_memo(tc_task *t, tc_str name, tc_str value, tc_str *ret_value, tc_err *err)
{
    return tci_task_memo(t, name, value, t->result, ret_value, err);
}

int tc_task_get_memo(tc_task *t, tc_str name, bool *ret_is_known, tc_str *ret_value, tc_err *err)
{
    return get_memo(t, name, t->result, ret_is_known, ret_value, err);
}

/* ---- other tasks ---- */

int tc_tx_create_task_of(tc_tx *tx, const tc_task_def *def, tc_str input,
                         const tc_task_options *options, uint64_t *ret_id, tc_err *err)
{
    tc_result *r;
    tc_str checkpoint = {NULL, 0}, phase;
    if (tc_result_new(&r, err) < 0)
        return err->code;
    int rc = def->initial(def->user, input, r, &checkpoint, err);
    tci_json tree;
    if (rc == 0)
        rc = tci_json_parse(checkpoint, TCI_JSON_KEEP_SURROGATES, tci_result_arena(r), &tree, err);
    if (rc == 0 && !tci_json_as_str(tci_json_get(&tree, TC_STR("phase")), &phase))
        rc = tc_err_set(err, TC_E_INVALID, "the first checkpoint of task '%s' has no phase",
                        def->name);
    if (rc == 0)
        rc = tci_tx_create_task(
            tx,
            &(tci_task_new){.kind = tci_str(def->name),
                            .version = def->version,
                            .input = input,
                            .checkpoint = checkpoint,
                            .owner = options->owner_task_id,
                            .conversation = options->conversation_id,
                            .is_background = options->is_background,
                            .is_abandoned_on_restart = options->abandon_on_restart},
            ret_id, err);
    tc_result_free(r);
    return rc;
}

int tc_task_create(tc_task *t, const tc_task_def *def, tc_str input, bool abandon_on_restart,
                   uint64_t *ret_id, tc_err *err)
{
    tc_tx *tx;
    tc_task_options options = TC_TASK_OPTIONS;
    options.owner_task_id = t->id;
    options.abandon_on_restart = abandon_on_restart;
    uint64_t id;
    if (tc_task_begin(t, &tx, NULL, err) < 0)
        return err->code;
    if (tc_tx_create_task_of(tx, def, input, &options, &id, err) < 0) {
        tc_tx_rollback(tx);
        return err->code;
    }
    if (tc_tx_commit(tx, err) < 0)
        return err->code;
    *ret_id = id;
    return 0;
}

int tc_task_get(tc_task *t, uint64_t id, tc_str *ret_record, tc_err *err)
{
    return tc_harness_get_task(t->h, NULL, id, t->result, ret_record, err);
}

int tc_task_wait(tc_task *t, uint64_t id, tc_str *ret_record, tc_err *err)
{
    return tci_task_wait(t, NULL, id, t->result, ret_record, err);
}

/* Stage a mark for one that has not ended. *ret_is_live. */
static int mark_other(tc_task *t, uint64_t id, bool must_own, bool *ret_is_live, tc_err *err)
{
    tc_tx *tx;
    tci_arena a;
    tci_task other;
    if (tc_durable_begin(t->h->session, NULL, &tx, err) < 0)
        return err->code;
    tci_arena_init(&a, 0);
    int rc = tci_durable_task(t->h->session, id, &a, &other, err);
    if (rc == 0 && (other.id == 0 || (must_own && other.owner != t->id)))
        rc = tc_err_set(err, TC_E_INVALID, "task %llu is not owned by task %llu",
                        (unsigned long long)id, (unsigned long long)t->id);
    if (rc == 0)
        *ret_is_live = other.status != TCI_TASK_TERMINAL;
    if (rc == 0 && *ret_is_live)
        rc = tci_tx_mark_task(t->h, tx, id, true, err);
    if (rc < 0)
        tc_tx_rollback(tx);
    else
        rc = tc_tx_commit(tx, err);
    tci_arena_done(&a);
    return rc;
}

static int abort_other(tc_task *t, uint64_t id, bool must_own, tc_err *err)
{
    bool is_live;
    tc_str record;
    if (mark_other(t, id, must_own, &is_live, err) < 0)
        return err->code;
    return is_live ? tci_task_wait(t, NULL, id, NULL, &record, err) : 0;
}

int tc_task_abort_owned(tc_task *t, uint64_t id, tc_err *err)
{
    return abort_other(t, id, true, err);
}

int tci_task_abort_other(tc_task *t, uint64_t id, tc_err *err)
{
    return abort_other(t, id, false, err);
}

static int by_id(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

int tci_task_owned(tc_task *t, tci_arena *a, uint64_t **ret_ids, size_t *ret_n, tc_err *err)
{
    size_t n = 0, room = 0;
    const tci_node *node = tci_node_of(t->h, t->id);
    if (node != NULL)
        TCI_LIST_EACH (&node->children, k) {
            room++;
        }
    uint64_t *ids = tci_arena_items(a, uint64_t, room + 1);
    if (ids == NULL)
        return tci_arena_error(a, err);
    if (node != NULL)
        TCI_LIST_EACH (&node->children, k) {
            const tci_node *child = TCI_CONTAINER(k, tci_node, sibling);
            if (child->live != NULL)
                ids[n++] = child->id;
        }
    qsort(ids, n, sizeof(*ids), by_id);
    *ret_ids = ids;
    *ret_n = n;
    return 0;
}

int tc_task_owned(tc_task *t, const uint64_t **ret_ids, size_t *ret_n, tc_err *err)
{
    uint64_t *ids;
    if (tci_durable_enter(t->h->session, err) < 0)
        return err->code;
    int rc = tci_task_owned(t, tci_result_arena(t->result), &ids, ret_n, err);
    tci_durable_leave(t->h->session);
    if (rc == 0)
        *ret_ids = ids;
    return rc;
}

int tc_task_outcome(tc_task *t, uint64_t id, tc_str *ret_outcome, tc_err *err)
{
    tci_arena *a = tci_result_arena(t->result);
    tci_task task, decoded;
    const tci_json *tree = NULL;
    if (tci_durable_task(t->h->session, id, a, &task, err) < 0)
        return err->code;
    if (task.id == 0)
        return tc_err_set(err, TC_E_NOT_FOUND, "task %llu does not exist", (unsigned long long)id);
    if (task.status != TCI_TASK_TERMINAL)
        return tc_err_set(err, TC_E_CONFLICT, "task %llu is not terminal", (unsigned long long)id);
    if (tci_task_parse(task.json, a, &tree, &decoded, err) < 0)
        return err->code;
    return tc_json_text(tci_json_get(tci_json_get(tree, TC_STR("state")), TC_STR("outcome")),
                        t->result, ret_outcome, err);
}

/* ---- time, environment, reports ---- */

void tci_task_park(tc_task *t)
{
    tc_harness *h = t->h;
    tci_mutex_lock(&h->lock);
    if (t->nparked++ == 0) {
        h->nrunning--;
        if (!tci_list_is_empty(&h->runnable))
            tci_sched_kick_locked(h);
    }
    tci_mutex_unlock(&h->lock);
}

void tci_task_unpark(tc_task *t)
{
    tci_mutex_lock(&t->h->lock);
    if (--t->nparked == 0)
        t->h->nrunning++;
    tci_mutex_unlock(&t->h->lock);
}

/* Its address tells threads apart. */
static _Thread_local const char thread_mark;

uintptr_t tci_task_thread_mark(void)
{
    return (uintptr_t)(const void *)&thread_mark;
}

tc_task *tci_harness_park_here(tc_harness *h)
{
    tc_task *found = NULL;
    uintptr_t here = tci_task_thread_mark();
    tci_mutex_lock(&h->lock);
    TCI_LIST_EACH (&h->invocations, k) {
        tc_task *t = TCI_CONTAINER(k, tc_task, link);
        if (t->thread == here)
            found = t;
    }
    tci_mutex_unlock(&h->lock);
    if (found != NULL)
        tci_task_park(found); /* it cannot go: its handler is here */
    return found;
}

void tci_harness_unpark_here(tc_task *parked)
{
    if (parked != NULL)
        tci_task_unpark(parked);
}

typedef struct pausing {
    tci_later later;
    tci_wake *word;
    atomic_bool is_over;
} pausing;

static void end_pause(void *arg)
{
    pausing *p = arg;
    atomic_store(&p->is_over, true);
    tci_wake_all(p->word);
}

/* The timers of the program say when it is over; without any the thread waits for the time itself. */
int tc_task_pause(tc_task *t, int64_t ms, tc_err *err)
{
    int64_t until = tci_add_ns(tci_clock_mono_ns(), tci_ms_to_ns(ms > 0 ? (uint64_t)ms : 0));
    bool is_told = t->h->options.set_timer != NULL && ms > 0;
    pausing p = {.word = &t->ctx.wake};
    tci_task_park(t);
    if (is_told)
        tci_later_set(t->h, &p.later, until, end_pause, &p);
    int rc = 0;
    for (;;) {
        unsigned seen = tci_wake_count(&t->ctx.wake);
        rc = tci_ctx_check(&t->ctx, err);
        if (rc < 0 || (is_told ? atomic_load(&p.is_over) : tci_clock_mono_ns() >= until))
            break;
        tci_wake_wait(&t->ctx.wake, seen, is_told ? 0 : until);
    }
    tci_later_drop(&p.later);
    tci_task_unpark(t);
    return rc;
}

int tc_task_env(tc_task *t, tc_env **ret_env, tc_err *err)
{
    return tci_harness_env(t->h, t->conversation_id, &t->ctx, ret_env, err);
}

void tc_task_env_release(tc_task *t, tc_env *env)
{
    tci_harness_env_release(t->h, env);
}

void tc_task_report(tc_task *t, const tc_err *error)
{
    tci_harness_report_task(t->h, TC_REPORT_TASK_ERROR, &t->info, t->extension, (tc_str){NULL, 0},
                            error);
}
