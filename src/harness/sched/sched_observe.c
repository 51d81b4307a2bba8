/* SPDX-License-Identifier: Apache-2.0
 *
 * What every commit means for the scheduler: the graph follows the records, and whatever may run, is
 * to be cancelled, may be ended, or has been waited for is put on its list. Leaves acting on the lists
 * to the passes. Runs on the committing thread with the line held. Invariant: after a commit was
 * observed, each task that could run is on the list of runnable ones or has an invocation. */
#include "harness/sched/sched_int.h"

void tci_sched_push_runnable(tc_harness *h, tci_live *live)
{
    if (!tci_link_is_in(&live->runnable) && live->invocation == NULL)
        tci_list_push_back(&h->runnable, &live->runnable);
}

/* ---- sleeping tasks, the earliest first ---- */

static void sift_up(tci_sleep *heap, size_t at)
{
    while (at > 0 && heap[(at - 1) / 2].until_ms > heap[at].until_ms) {
        tci_sleep swap = heap[at];
        heap[at] = heap[(at - 1) / 2];
        heap[(at - 1) / 2] = swap;
        at = (at - 1) / 2;
    }
}

static void sift_down(tci_sleep *heap, size_t n, size_t at)
{
    for (;;) {
        size_t least = at, left = 2 * at + 1, right = left + 1;
        if (left < n && heap[left].until_ms < heap[least].until_ms)
            least = left;
        if (right < n && heap[right].until_ms < heap[least].until_ms)
            least = right;
        if (least == at)
            return;
        tci_sleep swap = heap[at];
        heap[at] = heap[least];
        heap[least] = swap;
        at = least;
    }
}

int tci_sched_track_sleep(tc_harness *h, tci_live *live, tc_err *err)
{
    if (h->nsleeps == h->sleeps_cap) {
        size_t cap = h->sleeps_cap == 0 ? 16 : h->sleeps_cap * 2;
        tci_sleep *more = tci_mem_resize(h->sleeps, cap * sizeof(*more));
        if (more == NULL)
            return tci_err_no_memory(err);
        h->sleeps = more;
        h->sleeps_cap = cap;
    }
    h->sleeps[h->nsleeps] = (tci_sleep){live->until_ms, live->task.id};
    sift_up(h->sleeps, h->nsleeps++);
    return 0;
}

static void pop_sleep(tc_harness *h)
{
    h->sleeps[0] = h->sleeps[--h->nsleeps];
    sift_down(h->sleeps, h->nsleeps, 0);
}

/* The task of the earliest entry; entries that do not hold any more are dropped on the way. */
static tci_live *first_sleeper(tc_harness *h)
{
    while (h->nsleeps > 0) {
        tci_live *live = tci_live_of(h, h->sleeps[0].id);
        if (live != NULL && live->task.status == TCI_TASK_SLEEPING &&
            !live->task.is_abort_requested && live->until_ms == h->sleeps[0].until_ms)
            return live;
        pop_sleep(h);
    }
    return NULL;
}

bool tci_sched_wake_due(tc_harness *h, int64_t now_ms)
{
    tci_live *live;
    bool is_any = false;
    while ((live = first_sleeper(h)) != NULL && live->until_ms <= now_ms) {
        tci_sched_push_runnable(h, live);
        pop_sleep(h);
        is_any = true;
    }
    return is_any;
}

int64_t tci_sched_earliest_sleep(tc_harness *h, int64_t now_ms)
{
    if (tci_sched_wake_due(h, now_ms))
        tci_sched_kick_locked(h);
    tci_live *live = first_sleeper(h);
    return live != NULL ? live->until_ms : 0;
}

/* ---- one record ---- */

/* A member of failFast waits failed: those who wait are to be looked at. */
static void failed(tc_harness *h, tci_live *live)
{
    TCI_LIST_EACH (&live->awaited_by, k) {
        tci_live *waiter = TCI_CONTAINER(k, tci_await, link)->waiter;
        if (waiter->is_fail_fast && !tci_link_is_in(&waiter->fail_check))
            tci_list_push_back(&h->fail_checks, &waiter->fail_check);
    }
}

/* The task leaves: who waited for it may go on. */
static void ended(tc_harness *h, tci_live *live, const tci_task *record, bool is_failed)
{
    if (is_failed && !live->is_outcome_failed)
        failed(h, live);
    TCI_LIST_EACH (&live->awaited_by, k) {
        tci_live *waiter = TCI_CONTAINER(k, tci_await, link)->waiter;
        if (--waiter->nopen == 0)
            tci_sched_push_runnable(h, waiter);
    }
    tci_link *k;
    while ((k = tci_list_first(&live->waiters)) != NULL) {
        tci_waiter *w = TCI_CONTAINER(k, tci_waiter, link);
        tc_err err = {0};
        bool is_kept =
            w->result == NULL || tc_result_dup(w->result, record->json, &w->record, &err) == 0;
        tci_waiter_answer(w, is_kept ? 0 : err.code, err.code);
    }
    tci_live *above = tci_live_above(live->node);
    if (above != NULL && above->task.is_abort_requested)
        tci_sched_push_runnable(h, above);
    if (above != NULL && above->task.status == TCI_TASK_COMPLETING &&
        !tci_link_is_in(&above->check))
        tci_list_push_back(&h->finalize_checks, &above->check);
    h->is_idle_check_due = true;
    tci_live_remove(h, live);
}

typedef struct before {
    tci_task_status status;
    bool is_abort, is_restart, is_failed;
} before;

static void note_marks(tc_harness *h, tci_live *live, const before *was)
{
    if (live->task.is_abort_requested && !was->is_abort) {
        h->is_cascade_pending = true;
        if (live->invocation != NULL && live->invocation->mode != TCI_MODE_ABORT)
            tci_task_cancel(live->invocation);
        tci_sched_push_runnable(h, live);
    }
    if (was->is_restart && !live->task.is_abort_by_restart) {
        h->is_cascade_pending = true;
        tci_sched_push_runnable(h, live);
    }
}

static int note_status(tc_harness *h, tci_live *live, const before *was, tc_err *err)
{
    switch (live->task.status) {
    case TCI_TASK_PENDING:
    case TCI_TASK_RUNNING:
        tci_sched_push_runnable(h, live);
        break;
    case TCI_TASK_WAITING:
        if (live->nopen == 0)
            tci_sched_push_runnable(h, live);
        if (live->is_fail_fast && was->status != TCI_TASK_WAITING &&
            !tci_link_is_in(&live->fail_check))
            tci_list_push_back(&h->fail_checks, &live->fail_check);
        break;
    case TCI_TASK_SLEEPING:
        if (tci_sched_track_sleep(h, live, err) < 0)
            return err->code;
        if (h->sleeps[0].id == live->task.id)
            tci_sched_call_locked(h); /* earlier than all others */
        break;
    case TCI_TASK_COMPLETING:
        if (was->status != TCI_TASK_COMPLETING) {
            if (live->is_outcome_failed)
                h->is_cascade_pending = true;
            if (!tci_link_is_in(&live->check))
                tci_list_push_back(&h->finalize_checks, &live->check);
        }
        tci_link_remove(&live->runnable);
        break;
    case TCI_TASK_TERMINAL:
        break;
    }
    return 0;
}

/* Follow one live record. After all records of the commit were put and linked. */
static int follow(tc_harness *h, tci_live *live, const before *was, tc_err *err)
{
    note_marks(h, live, was);
    if (live->is_outcome_failed && !was->is_failed)
        failed(h, live);
    bool is_cancelling = tci_live_is_cancelling(live);
    if (is_cancelling && !tci_link_is_in(&live->intent))
        tci_list_push_back(&h->intents, &live->intent);
    return note_status(h, live, was, err);
}

static before before_of(const tci_live *live)
{
    return (before){live->task.status, live->task.is_abort_requested,
                    live->task.is_abort_by_restart, live->is_outcome_failed};
}

/* Put every live record first, so that those that lead up or wait find each other; ended ones last, so
 * that what they leave behind keeps its way up. The same task may be in a commit twice. */
static int put_all(tc_harness *h, const tci_commit *commit, before *was, bool *is_new, tc_err *err)
{
    for (size_t i = 0; i < commit->ntasks; i++) {
        const tci_task *record = &commit->tasks[i];
        if (record->status == TCI_TASK_TERMINAL)
            continue;
        tci_live *live = tci_live_of(h, record->id);
        was[i] = live != NULL ? before_of(live) : (before){TCI_TASK_TERMINAL, false, false, false};
        if (tci_live_put(h, record, &live, &is_new[i], err) < 0)
            return err->code;
    }
    for (size_t i = 0; i < commit->ntasks; i++) {
        tci_live *live = tci_live_of(h, commit->tasks[i].id);
        if (live != NULL && commit->tasks[i].status != TCI_TASK_TERMINAL &&
            tci_live_link(h, live, err) < 0)
            return err->code;
    }
    return 0;
}

static int observe_tasks(tc_harness *h, const tci_commit *commit, tci_arena *a, tc_err *err)
{
    before *was = tci_arena_items(a, before, commit->ntasks);
    bool *is_new = tci_arena_items(a, bool, commit->ntasks);
    if (was == NULL || is_new == NULL)
        return tci_arena_error(a, err);
    if (put_all(h, commit, was, is_new, err) < 0)
        return err->code;
    for (size_t i = 0; i < commit->ntasks; i++) {
        tci_live *live = tci_live_of(h, commit->tasks[i].id);
        if (commit->tasks[i].status == TCI_TASK_TERMINAL || live == NULL)
            continue;
        if (follow(h, live, &was[i], err) < 0)
            return err->code;
        if (is_new[i] && !live->node->is_background && !live->task.is_abort_requested &&
            !tci_list_is_empty(&h->intents) && tci_node_is_below_cancelled(live->node))
            h->is_cascade_pending = true;
    }
    for (size_t i = 0; i < commit->ntasks; i++) {
        tci_live *live = tci_live_of(h, commit->tasks[i].id);
        if (commit->tasks[i].status != TCI_TASK_TERMINAL || live == NULL)
            continue;
        const tci_json *tree = NULL; /* only needed when somebody waits for how it ended */
        tci_task record;
        if (!tci_list_is_empty(&live->awaited_by) &&
            tci_task_parse(commit->tasks[i].json, a, &tree, &record, err) < 0)
            return err->code;
        ended(h, live, &commit->tasks[i],
              tree != NULL && tci_outcome_is_failed(tci_json_get(tree, TC_STR("state"))));
    }
    return 0;
}

/* Inputs queued below a cancelled owner are to be withdrawn. */
static void observe_submissions(tc_harness *h, const tci_commit *commit)
{
    if (tci_list_is_empty(&h->intents))
        return;
    for (size_t i = 0; i < commit->nsubmissions; i++) {
        const tci_submission *s = &commit->submissions[i];
        if (s->status != TCI_SUBMISSION_QUEUED || s->type != TCI_SUBMISSION_INPUT)
            continue;
        tci_node *node = tci_node_of(h, s->conversation_id);
        if (node == NULL || tci_node_is_below_cancelled(node))
            h->is_cascade_pending = true;
    }
}

void tci_sched_check_idle(tc_harness *h)
{
    if (!h->is_idle_check_due)
        return;
    h->is_idle_check_due = false;
    TCI_LIST_EACH (&h->idle_waiters, k) {
        tci_waiter *w = TCI_CONTAINER(k, tci_waiter, link);
        if (tci_harness_is_idle(h, w->conversation_id))
            tci_waiter_answer(w, 0, TC_OK);
    }
}

int tci_sched_observe(void *user, const tci_commit *commit, tc_err *err)
{
    tc_harness *h = user;
    if (commit->ntasks == 0 && commit->nsubmissions == 0 && commit->nconversations == 0)
        return 0; /* a committer clears its name itself */
    int rc = 0;
    tci_arena a;
    tci_arena_init(&a, 0);
    tci_mutex_lock(&h->lock);
    if (commit->ntasks > 0)
        rc = observe_tasks(h, commit, &a, err);
    if (rc == 0) {
        observe_submissions(h, commit);
        tci_sched_check_idle(h);
        if (!tci_list_is_empty(&h->runnable) || tci_reconcile_has_work(h))
            tci_sched_kick_locked(h);
        if (h->options.on_wake != NULL)
            tci_sched_call_locked(h);
    }
    h->committer = NULL;
    tci_mutex_unlock(&h->lock);
    tci_arena_done(&a);
    if (rc == 0)
        tci_graph_observe(h, commit);
    return rc;
}
