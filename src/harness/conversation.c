/* SPDX-License-Identifier: Apache-2.0
 *
 * Conversations of a harness: making them, asking about them, and what the harness keeps in memory
 * for them. Leaves submissions to submit.c, contexts to context.c, watching to view.c. Any thread.
 * Invariant: every commit that creates a conversation creates its built-in documents too. */
#include "harness/conversation.h"
#include "base/json.h"
#include "base/num.h"
#include "harness/agent.h"
#include "harness/generation/compact.h"
#include "harness/inbox.h"
#include "harness/generation/live.h"
#include "harness/generation/usage.h"
#include "plat/clock.h"

enum { PAGE = 200 };

/* ---- parts of a harness ---- */

static bool is_settled(const tci_submission *s)
{
    return s->status == TCI_SUBMISSION_DONE || s->status == TCI_SUBMISSION_UNANSWERED;
}

static void wake_waiters(tci_run *run, uint64_t submission) /* 0: all */
{
    tci_mutex_lock(&run->lock);
    for (tci_answer_waiter *w = run->waiters; w != NULL; w = w->next) {
        if (submission == 0 || w->submission == submission)
            tci_wake_all(w->wake);
    }
    tci_mutex_unlock(&run->lock);
}

/* ---- what is kept in memory for a while ---- */

/* INT64_MAX: for ever. */
static int64_t context_retention_ns(tc_harness *h)
{
    tc_result *r;
    tc_err err;
    tc_settings settings;
    if (tc_result_new(&r, &err) < 0)
        return INT64_MAX;
    tci_harness_settings(h, r, &settings);
    tc_result_free(r);
    return settings.context_retention_ms < INT64_MAX / 1000000
               ? settings.context_retention_ms * 1000000
               : INT64_MAX;
}

static int64_t earlier(int64_t a, int64_t b) /* 0: never */
{
    return a == 0 || (b != 0 && b < a) ? b : a;
}

/* Contexts kept since before are freed; when the next ones are to be. */
static int64_t sweep_contexts(tci_run *run, int64_t retention_ns)
{
    tci_context *expired = NULL;
    int64_t next = 0, now = tci_clock_mono_ns();
    if (retention_ns == INT64_MAX)
        return 0;
    tci_mutex_lock(&run->lock);
    for (tci_context **at = &run->contexts; *at != NULL;) {
        tci_context *c = *at;
        int64_t until = tci_add_ns(c->kept_ns, retention_ns);
        if (until > now) {
            next = earlier(next, until);
            at = &c->next;
            continue;
        }
        *at = c->next;
        c->next = expired;
        expired = c;
    }
    tci_mutex_unlock(&run->lock);
    while (expired != NULL) {
        tci_context *c = expired;
        expired = c->next;
        tci_context_free(c);
    }
    return next;
}

/* Do contexts expire at all? What is not kept does not. */
static bool do_expire(int64_t retention_ns)
{
    return retention_ns > 0 && retention_ns < INT64_MAX;
}

static int64_t sweep(tc_harness *h, void *state)
{
    tci_run *run = state;
    int64_t retention_ns = context_retention_ns(h);
    atomic_store(&run->is_contexts_due, false); /* before looking: what comes now is not missed */
    atomic_store(&run->is_docs_due, false);
    int64_t contexts_ns = sweep_contexts(run, retention_ns), docs_ns = tci_durable_sweep(run->s);
    if (contexts_ns != 0 || !do_expire(retention_ns))
        atomic_store(&run->is_contexts_due, true);
    if (docs_ns != 0)
        atomic_store(&run->is_docs_due, true);
    return earlier(contexts_ns, docs_ns);
}

static void keep_contexts(tci_run *run)
{
    if (atomic_load_explicit(&run->is_contexts_due, memory_order_relaxed) ||
        atomic_exchange(&run->is_contexts_due, true))
        return;
    int64_t retention_ns = context_retention_ns(run->h);
    if (do_expire(retention_ns))
        tci_harness_keep(run->h, tci_add_ns(tci_clock_mono_ns(), retention_ns));
}

/* On the line. */
static void keep_docs(tci_run *run)
{
    if (atomic_load_explicit(&run->is_docs_due, memory_order_relaxed))
        return;
    int64_t due_ns = tci_durable_sweep_due(run->s);
    if (due_ns == 0)
        return;
    atomic_store(&run->is_docs_due, true);
    tci_harness_keep(run->h, due_ns);
}

static int on_commit(void *user, const tci_commit *commit, tc_err *err)
{
    tci_run *run = user;
    keep_contexts(run);
    keep_docs(run);
    for (size_t i = 0; i < commit->nsubmissions; i++) {
        if (is_settled(&commit->submissions[i]))
            wake_waiters(run, commit->submissions[i].id);
    }
    return tci_views_advance(run, commit, err);
}

static void on_close(void *user, const tc_err *failure)
{
    tci_run *run = user;
    TCI_UNUSED(failure);
    atomic_store(&run->is_over, true);
    wake_waiters(run, 0);
}

static void detach(tc_harness *h, void *state)
{
    tci_run *run = state;
    TCI_UNUSED(h);
    if (run == NULL)
        return;
    tc_listener_remove(run->commits);
    tc_listener_remove(run->closing);
    while (run->contexts != NULL) {
        tci_context *next = run->contexts->next;
        tci_context_free(run->contexts);
        run->contexts = next;
    }
    tci_turns_free(run->turns);
    tci_mutex_done(&run->lock);
    tci_free(run);
}

static int attach(tc_harness *h, void **ret_state, tc_err *err)
{
    tci_run *run = tci_new(tci_run);
    if (run == NULL)
        return tci_err_no_memory(err);
    run->h = h;
    run->s = tci_harness_session(h);
    tci_mutex_init(&run->lock);
    run->turns = tci_turns_new();
    if (run->turns == NULL) {
        detach(h, run);
        return tci_err_no_memory(err);
    }
    if (tci_durable_listen(run->s, on_commit, run, &run->commits, err) < 0 ||
        tc_durable_on_close(run->s, on_close, run, &run->closing, err) < 0) {
        detach(h, run);
        return err->code;
    }
    *ret_state = run;
    return 0;
}

/* A conversation of a task starts with the agent of the conversation the task belongs to. */
static int copy_owners_agent(tc_tx *tx, const tci_conversation *c, tc_doc *agent, tc_err *err)
{
    const tc_json *owners;
    if (tc_tx_doc_value(tx, &tci_agent_doc, c->owner_conversation_id, (tc_str){NULL, 0}, &owners,
                        err) < 0)
        return err->code;
    if (owners == NULL || owners->count == 0)
        return 0;
    tci_buf b;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_json_put(&b, owners, TCI_JSON_AS_IS);
    int rc = tci_buf_error(&b, err);
    if (rc == 0)
        rc = tc_doc_replace(agent, tci_buf_str(&b), err);
    tci_buf_done(&b);
    return rc;
}

static int conversation_created(tc_harness *h, tc_tx *tx, const tci_conversation *c, tc_err *err)
{
    const tc_harness_options *options = tci_harness_options(h);
    tc_doc *doc = NULL;
    for (size_t i = 0; i < TCI_BUILT_IN_DOCS; i++) {
        if (tci_doc_of(tx, tci_built_in_docs[i], c->id, &doc, err) < 0)
            return err->code;
    }
    if (c->owner_conversation_id != 0 && c->parent_id == 0 &&
        copy_owners_agent(tx, c, doc, err) < 0)
        return err->code;
    return options->conversation_created != NULL
               ? options->conversation_created(options->user, tx, c->id, err)
               : 0;
}

static int withdraw_inputs(tc_harness *h, tc_tx *tx, uint64_t conversation_id, tc_str reason,
                           tc_err *err)
{
    TCI_UNUSED(h);
    return tci_inbox_withdraw(tx, conversation_id, reason, err);
}

const tci_run_parts tci_conversation_parts = {.attach = attach,
                                              .detach = detach,
                                              .sweep = sweep,
                                              .conversation_created = conversation_created,
                                              .withdraw_inputs = withdraw_inputs};

/* ---- making ---- */

typedef int (*maker)(tc_tx *tx, const void *arg, const tc_conversation_options *options,
                     uint64_t *ret_id, tc_err *err);

static int make_root(tc_tx *tx, const void *arg, const tc_conversation_options *options,
                     uint64_t *ret_id, tc_err *err)
{
    TCI_UNUSED(arg);
    TCI_UNUSED(options);
    *ret_id = TCI_ROOT_ID;
    return tc_tx_create_root_conversation(tx, err);
}

static int make_new(tc_tx *tx, const void *arg, const tc_conversation_options *options,
                    uint64_t *ret_id, tc_err *err)
{
    TCI_UNUSED(arg);
    return tc_tx_create_conversation(tx, options->owner_task, ret_id, err);
}

typedef struct fork_point {
    uint64_t parent, at;
} fork_point;

static int make_fork(tc_tx *tx, const void *arg, const tc_conversation_options *options,
                     uint64_t *ret_id, tc_err *err)
{
    const fork_point *p = arg;
    return tc_tx_fork_conversation(tx, p->parent, p->at, options->owner_task, ret_id, err);
}

/* In the open transaction; the caller ends it. */
static int make(tc_tx *tx, maker fn, const void *arg, const tc_conversation_options *options,
                uint64_t *ret_id, tc_err *err)
{
    if (fn(tx, arg, options, ret_id, err) < 0)
        return err->code;
    if (options->agent.len > 0 && tci_agent_configure(tx, *ret_id, options->agent, err) < 0)
        return err->code;
    return options->init != NULL ? options->init(options->user, tx, *ret_id, err) : 0;
}

static int end(tc_tx *tx, int rc, tc_err *err)
{
    if (rc == 0)
        return tc_tx_commit(tx, err);
    tc_tx_rollback(tx);
    return rc;
}

static int create(tc_harness *h, tc_ctx *ctx, maker fn, const void *arg,
                  const tc_conversation_options *options, uint64_t *ret_id, tc_err *err)
{
    static const tc_conversation_options none = {.size = sizeof none};
    tc_tx *tx;
    uint64_t id = 0;
    if (tc_durable_begin(tci_harness_session(h), ctx, &tx, err) < 0)
        return err->code;
    int rc = make(tx, fn, arg, options != NULL ? options : &none, &id, err);
    if (end(tx, rc, err) < 0)
        return err->code;
    *ret_id = id;
    return 0;
}

int tc_harness_root(struct tc_harness *h, tc_ctx *ctx, const tc_conversation_options *options,
                    uint64_t *ret_id, tc_err *err)
{
    static const tc_conversation_options none = {.size = sizeof none};
    tc_tx *tx;
    tc_result *r;
    tc_str record;
    uint64_t id = TCI_ROOT_ID;
    if (tc_result_new(&r, err) < 0)
        return err->code;
    int rc = tc_durable_conversation(tci_harness_session(h), TCI_ROOT_ID, r, &record, err);
    if (rc == 0 && record.len == 0) {
        rc = tc_durable_begin(tci_harness_session(h), ctx, &tx, err);
        if (rc == 0) {
            rc = tc_tx_conversation(tx, TCI_ROOT_ID, r, &record, err);
            if (rc == 0 && record.len == 0)
                rc = make(tx, make_root, NULL, options != NULL ? options : &none, &id, err);
            rc = end(tx, rc, err);
        }
    }
    tc_result_free(r);
    if (rc == 0)
        *ret_id = id;
    return rc;
}

int tc_conversation_create(struct tc_harness *h, tc_ctx *ctx,
                           const tc_conversation_options *options, uint64_t *ret_id, tc_err *err)
{
    return create(h, ctx, make_new, NULL, options, ret_id, err);
}

int tc_conversation_fork(struct tc_harness *h, tc_ctx *ctx, uint64_t id, uint64_t at,
                         const tc_conversation_options *options, uint64_t *ret_id, tc_err *err)
{
    const fork_point point = {id, at};
    return create(h, ctx, make_fork, &point, options, ret_id, err);
}

/* ---- the agent ---- */

static int must_exist(tc_tx *tx, uint64_t id, tc_err *err)
{
    tci_conversation c;
    if (tci_tx_current_conversation(tx, id, tci_tx_arena(tx), &c, err) < 0)
        return err->code;
    return c.id != 0
               ? 0
               : tc_err_set(err, TC_E_NOT_FOUND, "no conversation %llu", (unsigned long long)id);
}

int tc_conversation_configure(struct tc_harness *h, tc_ctx *ctx, uint64_t id, tc_str change,
                              tc_err *err)
{
    tc_tx *tx;
    if (tc_durable_begin(tci_harness_session(h), ctx, &tx, err) < 0)
        return err->code;
    int rc = must_exist(tx, id, err);
    if (rc == 0)
        rc = tci_agent_configure(tx, id, change, err);
    return end(tx, rc, err);
}

int tc_conversation_agent(struct tc_harness *h, const tc_call *call, uint64_t id, tc_str *ret_agent,
                          tc_err *err)
{
    const tc_doc_addr addr = {&tci_agent_doc, id, {NULL, 0}};
    tc_str record, state;
    tci_agent *agent;
    if (tc_durable_conversation(tci_harness_session(h), id, call->result, &record, err) < 0)
        return err->code;
    if (record.len == 0)
        return tc_err_set(err, TC_E_NOT_FOUND, "no conversation %llu", (unsigned long long)id);
    if (tc_durable_snapshot(tci_harness_session(h), &addr, call->result, &state, err) < 0)
        return err->code;
    tci_snapshot *snapshot = tci_harness_snapshot(h);
    int rc = tci_agent_resolve(h, snapshot, id, state, &agent, err);
    if (rc == 0) {
        tci_buf b;
        tci_buf_init(&b, TCI_BUF_MAX);
        tci_agent_put(&b, agent);
        rc = tci_result_take(call->result, &b, ret_agent, err);
        tci_agent_free(agent);
    }
    tci_snapshot_unref(snapshot);
    return rc;
}

/* ---- the context ---- */

int tc_conversation_context(struct tc_harness *h, const tc_call *call, uint64_t id, uint64_t at,
                            tc_context_view *ret_view, tc_err *err)
{
    tci_context *c;
    if (tci_context_read(h, id, at, &c, err) < 0)
        return err->code;
    int rc = tci_context_view(c, call->result, ret_view, err);
    tci_context_release(h, c);
    keep_contexts(tci_run_of(h));
    return rc;
}

/* ---- work ---- */

int tc_conversation_compact(struct tc_harness *h, tc_ctx *ctx, uint64_t id, tc_str instructions,
                            uint64_t *ret_task, tc_err *err)
{
    tc_tx *tx;
    tc_doc *live;
    uint64_t task = 0;
    if (tci_harness_enable(h, err) < 0 ||
        tc_durable_begin(tci_harness_session(h), ctx, &tx, err) < 0)
        return err->code;
    int rc = must_exist(tx, id, err);
    if (rc == 0)
        rc = tci_doc_of(tx, &tci_live_doc, id, &live, err);
    if (rc == 0)
        rc = tci_compaction_create(tx, live, id, 0, TC_STR("manual"), instructions, &task, err);
    if (end(tx, rc, err) < 0)
        return err->code;
    *ret_task = task;
    return 0;
}

int tc_conversation_abort(struct tc_harness *h, tc_ctx *ctx, uint64_t id, bool is_background,
                          tc_err *err)
{
    return tci_harness_abort_below(h, NULL, ctx, id, is_background, err);
}

int tc_conversation_wait_idle(struct tc_harness *h, tc_ctx *ctx, uint64_t id, tc_err *err)
{
    return tci_harness_wait_idle(h, NULL, ctx, id, err);
}

int tc_bound_abort(const tc_bound *c, tc_ctx *ctx, bool is_background, tc_err *err)
{
    return tci_harness_abort_below(c->harness, c, ctx, c->conversation, is_background, err);
}

int tc_bound_wait_idle(const tc_bound *c, tc_ctx *ctx, tc_err *err)
{
    return tci_harness_wait_idle(c->harness, c, ctx, c->conversation, err);
}

/* ---- usage ---- */

/* Sums of usage objects by key, in a tree {"models":{},"tools":{}}. */
static int add_bucket(tci_tree *sum, tc_str bucket, const tci_json *state, tc_err *err)
{
    const tci_json *from = tci_json_get(state, bucket);
    tci_arena a;
    tci_buf b;
    int rc = 0;
    if (from == NULL || from->kind != TCI_JSON_OBJECT)
        return 0;
    tci_arena_init(&a, 0);
    tci_buf_init(&b, TCI_BUF_MAX);
    for (uint32_t i = 0; rc == 0 && i < from->count; i++) {
        const tci_json_member *m = &from->u.members[i];
        const tci_step path[2] = {{.key = bucket}, {.key = m->key}};
        const tci_json *had = tci_json_at(&sum->root, path, 2);
        tci_json total;
        if (had == NULL) {
            rc = tci_tree_set(sum, path, 2, &m->value, NULL, err);
            continue;
        }
        tci_buf_clear(&b);
        tci_usage_put_sum(&b, had, &m->value);
        rc = tci_buf_error(&b, err);
        if (rc == 0)
            rc = tci_json_parse(tci_buf_str(&b), TCI_JSON_KEEP_SURROGATES, &a, &total, err);
        if (rc == 0)
            rc = tci_tree_set(sum, path, 2, &total, NULL, err);
    }
    tci_buf_done(&b);
    tci_arena_done(&a);
    return rc;
}

static int add_usage(tc_harness *h, tci_tree *sum, uint64_t conversation, tc_err *err)
{
    const tc_doc_addr addr = {&tci_usage_doc, conversation, {NULL, 0}};
    tc_result *r;
    tc_str text;
    const tci_json *state;
    if (tc_result_new(&r, err) < 0)
        return err->code;
    int rc = tc_durable_snapshot(tci_harness_session(h), &addr, r, &text, err);
    if (rc == 0 && text.len > 0) {
        rc = tci_parse(r, text, &state, err);
        if (rc == 0)
            rc = add_bucket(sum, TC_STR("models"), state, err);
        if (rc == 0)
            rc = add_bucket(sum, TC_STR("tools"), state, err);
    }
    tc_result_free(r);
    return rc;
}

static int add_all_usage(tc_harness *h, tci_tree *sum, tc_err *err)
{
    tc_page page = {.order = TC_ORDER_ASCENDING, .limit = PAGE};
    tci_arena a;
    int rc;
    tci_arena_init(&a, 0);
    do {
        tci_conversation *items;
        size_t count;
        rc = tci_durable_scan_conversations(tci_harness_session(h), 0, 0, &page, &a, &items, &count,
                                            &page.cursor, err);
        for (size_t i = 0; rc == 0 && i < count; i++)
            rc = add_usage(h, sum, items[i].id, err);
        tci_arena_clear(&a);
    } while (rc == 0 && page.cursor.after != 0);
    tci_arena_done(&a);
    return rc;
}

int tc_conversation_usage(struct tc_harness *h, const tc_call *call, uint64_t id, tc_str *ret_usage,
                          tc_err *err)
{
    tci_tree sum;
    if (tci_tree_parse(TC_STR("{\"models\":{},\"tools\":{}}"), 0, &sum, err) < 0)
        return err->code;
    int rc = id != 0 ? add_usage(h, &sum, id, err) : add_all_usage(h, &sum, err);
    if (rc == 0) {
        tci_buf b;
        tci_buf_init(&b, TCI_BUF_MAX);
        tci_json_put(&b, &sum.root, TCI_JSON_AS_IS);
        rc = tci_result_take(call->result, &b, ret_usage, err);
    }
    tci_tree_done(&sum);
    return rc;
}
