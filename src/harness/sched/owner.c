/* SPDX-License-Identifier: Apache-2.0
 *
 * Who belongs to whom: live tasks, and above them the conversations and ended tasks that lead to
 * their roots. Leaves it to others what follows from that. Changed on the line with the harness's lock
 * held. Invariant: a node is there exactly as long as it is a live task or has a child, so that memory
 * follows what is alive, not what ever was. */
#include "harness/sched/sched_int.h"

/* ---- nodes ---- */

tci_node *tci_node_of(const tc_harness *h, uint64_t id)
{
    return tci_by_id_get(&h->nodes, id);
}

tci_live *tci_live_of(const tc_harness *h, uint64_t id)
{
    tci_node *node = tci_node_of(h, id);
    return node != NULL ? node->live : NULL;
}

static void hang(tc_harness *h, tci_node *node, tci_node *parent)
{
    node->parent = parent;
    tci_list_push_back(parent != NULL ? &parent->children : &h->roots, &node->sibling);
}

/* Take node away if nothing holds it any more, and so on upwards. */
static void drop_unneeded(tc_harness *h, tci_node *node)
{
    while (node != NULL && node->live == NULL && tci_list_is_empty(&node->children)) {
        tci_node *parent = node->parent;
        tci_link_remove(&node->sibling);
        tci_by_id_remove(&h->nodes, node->id);
        tci_free(node);
        node = parent;
    }
}

static int add_node(tc_harness *h, uint64_t id, bool is_conversation, bool is_background,
                    tci_node *parent, tci_node **ret, tc_err *err)
{
    tci_node *node = tci_new(tci_node);
    if (node == NULL)
        return tci_err_no_memory(err);
    node->id = id;
    node->is_conversation = is_conversation;
    node->is_background = is_background;
    tci_list_init(&node->children);
    if (tci_by_id_put(&h->nodes, id, node, err) < 0) {
        tci_free(node);
        return err->code;
    }
    hang(h, node, parent);
    *ret = node;
    return 0;
}

enum { UP_MAX = 100000 }; /* owners above each other; more is a circle in damaged records */

/* What is above a conversation or an ended task, as committed. *ret_id 0: nothing. */
typedef struct tci_step_up {
    uint64_t id;
    bool is_conversation;
} step_up;

static int read_up(tc_harness *h, uint64_t id, bool is_conversation, tci_arena *a, step_up *ret,
                   bool *ret_is_background, tc_err *err)
{
    *ret_is_background = false;
    if (is_conversation) {
        tci_conversation c;
        int rc = tci_durable_conversation(h->session, id, a, &c, err);
        if (rc == 0)
            *ret = (step_up){c.id != 0 ? c.owner_task_id : 0, false};
        return rc;
    }
    tci_task t;
    int rc = tci_durable_task(h->session, id, a, &t, err);
    if (rc < 0)
        return rc;
    if (t.id == 0)
        return tc_err_set(err, TC_E_INTERNAL, "owner task %llu does not exist",
                          (unsigned long long)id);
    *ret_is_background = t.is_background;
    *ret = t.owner != 0 ? (step_up){t.owner, false} : (step_up){t.conversation_id, true};
    return 0;
}

/* The node of a conversation or task, and all above it. Nodes made on the way that turn out not to be
 * needed are dropped by the caller's failure path through drop_unneeded. */
static int ensure_node(tc_harness *h, step_up at, tci_node **ret, tc_err *err)
{
    tci_node *bottom = NULL, *child = NULL;
    tci_arena a;
    tci_arena_init(&a, 0);
    int rc = 0;
    for (size_t n = 0; rc == 0 && at.id != 0; n++) {
        tci_node *node = tci_node_of(h, at.id);
        bool is_known = node != NULL, is_background = false;
        step_up above = {0, false};
        if (!is_known) {
            rc = n > UP_MAX
                     ? tc_err_set(err, TC_E_INTERNAL, "owners form a circle")
                     : read_up(h, at.id, at.is_conversation, &a, &above, &is_background, err);
            if (rc == 0)
                rc = add_node(h, at.id, at.is_conversation, is_background, NULL, &node, err);
            if (rc < 0)
                break;
        }
        if (child != NULL) {
            tci_link_remove(&child->sibling);
            hang(h, child, node);
        }
        if (bottom == NULL)
            bottom = node;
        child = node;
        if (is_known)
            break;
        at = above;
    }
    tci_arena_done(&a);
    if (rc < 0) {
        drop_unneeded(h, bottom);
        return rc;
    }
    *ret = bottom;
    return 0;
}

/* ---- live tasks ---- */

static void unlink_awaits(tci_live *live)
{
    for (size_t i = 0; i < live->nawaits; i++)
        tci_link_remove(&live->awaits[i].link);
    tci_free(live->awaits);
    live->awaits = NULL;
    live->nawaits = live->nopen = 0;
}

static void free_live(tci_live *live)
{
    unlink_awaits(live);
    tci_arena_done(&live->arena);
    tci_free(live->migration_error);
    tci_free(live->conversations);
    tci_free(live);
}

bool tci_outcome_is_failed(const tci_json *state)
{
    const tci_json *outcome = tci_json_get(state, TC_STR("outcome"));
    tc_str status;
    return outcome != NULL && tci_json_as_str(tci_json_get(outcome, TC_STR("status")), &status) &&
           !tci_str_eq(status, TC_STR("completed"));
}

static int bad_record(const tci_task *record, const char *what, tc_err *err)
{
    return tc_err_set(err, TC_E_PARSE, "task %llu: %s", (unsigned long long)record->id, what);
}

/* The state's fields, from the tree. */
static int read_state(tci_live *live, tc_err *err)
{
    const tci_json *state = tci_json_get(live->tree, TC_STR("state"));
    if (state == NULL || state->kind != TCI_JSON_OBJECT)
        return bad_record(&live->task, "no state", err);
    live->state = state;
    live->phase = (tc_str){NULL, 0};
    live->is_fail_fast = live->is_outcome_failed = false;
    live->until_ms = 0;
    tci_task_status status = live->task.status;
    if (status == TCI_TASK_COMPLETING || status == TCI_TASK_TERMINAL) {
        live->is_outcome_failed = tci_outcome_is_failed(state);
        return 0;
    }
    const tci_json *checkpoint = tci_json_get(state, TC_STR("checkpoint"));
    if (checkpoint == NULL || checkpoint->kind != TCI_JSON_OBJECT ||
        !tci_json_as_str(tci_json_get(checkpoint, TC_STR("phase")), &live->phase))
        return bad_record(&live->task, "its checkpoint has no phase", err);
    if (status == TCI_TASK_WAITING) {
        tc_str policy;
        live->is_fail_fast = tci_json_as_str(tci_json_get(state, TC_STR("policy")), &policy) &&
                             tci_str_eq(policy, TC_STR("failFast"));
    }
    if (status == TCI_TASK_SLEEPING) {
        const tci_json *until = tci_json_get(state, TC_STR("until"));
        double ms; /* the originals may keep a fraction */
        if (until == NULL || !tci_json_as_double(until, &ms) || ms < 0)
            return bad_record(&live->task, "it sleeps without a time", err);
        if (!tci_json_as_i64(until, &live->until_ms))
            live->until_ms = ms >= 9e15 ? INT64_C(9007199254740991) : (int64_t)ms + 1;
    }
    return 0;
}

/* The record's own memory; replaces what there was only when all went well. */
static int load_record(tci_live *live, const tci_task *record, tc_err *err)
{
    tci_live fresh = {0};
    tci_arena_init(&fresh.arena, 0);
    tc_str text;
    int rc = tci_arena_dup(&fresh.arena, record->json, &text, err);
    if (rc == 0)
        rc = tci_task_parse(text, &fresh.arena, &fresh.tree, &fresh.task, err);
    if (rc == 0)
        rc = read_state(&fresh, err);
    if (rc < 0) {
        tci_arena_done(&fresh.arena);
        return rc;
    }
    tci_arena_done(&live->arena);
    live->arena = fresh.arena;
    live->task = fresh.task;
    live->tree = fresh.tree;
    live->state = fresh.state;
    live->phase = fresh.phase;
    live->is_fail_fast = fresh.is_fail_fast;
    live->is_outcome_failed = fresh.is_outcome_failed;
    live->until_ms = fresh.until_ms;
    return 0;
}

/* Bind a waiting task to those of its list that are alive. */
static int link_awaits(tc_harness *h, tci_live *live, tc_err *err)
{
    unlink_awaits(live);
    if (live->task.status != TCI_TASK_WAITING)
        return 0;
    const tci_json *on = tci_json_get(live->state, TC_STR("on"));
    size_t n = on != NULL && on->kind == TCI_JSON_ARRAY ? on->count : 0;
    if (n == 0)
        return 0;
    live->awaits = tci_mem_array(n, sizeof(*live->awaits));
    if (live->awaits == NULL)
        return tci_err_no_memory(err);
    live->nawaits = n;
    for (size_t i = 0; i < n; i++) {
        uint64_t id;
        tci_live *other;
        live->awaits[i].waiter = live;
        if (!tci_json_as_u64(&on->u.items[i], &id) || (other = tci_live_of(h, id)) == NULL)
            continue;
        tci_list_push_back(&other->awaited_by, &live->awaits[i].link);
        live->nopen++;
    }
    return 0;
}

int tci_live_link(tc_harness *h, tci_live *live, tc_err *err)
{
    return link_awaits(h, live, err);
}

/* The node of a new live task: one that stayed for what is below it, or a new one. */
static int node_for(tc_harness *h, const tci_task *record, tci_node **ret, tc_err *err)
{
    tci_node *parent;
    step_up above = record->owner != 0 ? (step_up){record->owner, false}
                                       : (step_up){record->conversation_id, true};
    *ret = tci_node_of(h, record->id);
    if (*ret != NULL)
        return 0;
    if (ensure_node(h, above, &parent, err) < 0)
        return err->code;
    if (add_node(h, record->id, false, record->is_background, parent, ret, err) < 0) {
        drop_unneeded(h, parent);
        return err->code;
    }
    return 0;
}

static int add_live(tc_harness *h, const tci_task *record, tci_live **ret, tc_err *err)
{
    tci_live *live = tci_new(tci_live);
    if (live == NULL)
        return tci_err_no_memory(err);
    tci_arena_init(&live->arena, 0);
    tci_list_init(&live->awaited_by);
    tci_list_init(&live->waiters);
    int rc = load_record(live, record, err);
    if (rc == 0)
        rc = node_for(h, record, &live->node, err);
    if (rc < 0) {
        free_live(live);
        return rc;
    }
    live->node->live = live;
    tci_list_push_back(&h->lives, &live->all);
    h->nlives++;
    *ret = live;
    return 0;
}

int tci_live_put(tc_harness *h, const tci_task *record, tci_live **ret, bool *ret_was_new,
                 tc_err *err)
{
    tci_live *live = tci_live_of(h, record->id);
    *ret_was_new = live == NULL;
    int rc = live != NULL ? load_record(live, record, err) : add_live(h, record, &live, err);
    if (rc == 0)
        *ret = live;
    return rc;
}

void tci_live_remove(tc_harness *h, tci_live *live)
{
    tci_node *node = live->node;
    tci_link_remove(&live->all);
    tci_link_remove(&live->runnable);
    tci_link_remove(&live->intent);
    tci_link_remove(&live->check);
    tci_link_remove(&live->fail_check);
    TCI_LIST_EACH (&live->awaited_by, k) {
        tci_link_remove(k);
    }
    if (live->invocation != NULL)
        live->invocation->live = NULL;
    node->live = NULL;
    h->nlives--;
    free_live(live);
    drop_unneeded(h, node);
}

void tci_graph_done(tc_harness *h)
{
    tci_link *k;
    while ((k = tci_list_first(&h->lives)) != NULL)
        tci_live_remove(h, TCI_CONTAINER(k, tci_live, all));
    tci_by_id_done(&h->nodes);
}

/* ---- walks ---- */

bool tci_live_is_cancelling(const tci_live *live)
{
    return live->task.is_abort_requested ||
           (live->task.status == TCI_TASK_COMPLETING && live->is_outcome_failed);
}

tci_live *tci_live_above(const tci_node *node)
{
    for (node = node->parent; node != NULL; node = node->parent)
        if (node->live != NULL)
            return node->live;
    return NULL;
}

bool tci_node_is_below_cancelled(const tci_node *node)
{
    if (node == NULL)
        return false;
    for (node = node->parent; node != NULL; node = node->parent) {
        if (node->live != NULL && tci_live_is_cancelling(node->live))
            return true;
        if (!node->is_conversation && node->is_background)
            return false;
    }
    return false;
}

/* The next node after at in a walk down from top, depth first; is_closed: not into at itself. */
static const tci_node *walk_next(const tci_node *top, const tci_node *at, bool is_closed)
{
    tci_link *k = is_closed ? NULL : tci_list_first(&at->children);
    if (k != NULL)
        return TCI_CONTAINER(k, tci_node, sibling);
    while (at != top) {
        k = tci_list_next(&at->parent->children, &at->sibling);
        if (k != NULL)
            return TCI_CONTAINER(k, tci_node, sibling);
        at = at->parent;
    }
    return NULL;
}

static bool is_closed(const tci_node *node)
{
    return !node->is_conversation && node->is_background;
}

tci_live *tci_node_first_below(const tci_node *top)
{
    const tci_node *at = walk_next(top, top, false);
    while (at != NULL) {
        if (at->live != NULL && !at->is_background)
            return at->live;
        at = walk_next(top, at, is_closed(at));
    }
    return NULL;
}

int tci_node_all_below(const tci_node *top, bool with_background, tci_arena *a, tci_live ***ret,
                       size_t *ret_n, tc_err *err)
{
    size_t n = 0, cap = 0;
    tci_live **found = NULL;
    const tci_node *at = walk_next(top, top, false);
    while (at != NULL) {
        if (at->live != NULL && (with_background || !at->is_background)) {
            if (n == cap) {
                size_t more = cap == 0 ? 16 : cap * 2;
                found = tci_arena_grow(a, found, cap * sizeof(*found), more * sizeof(*found));
                if (found == NULL)
                    return tci_arena_error(a, err);
                cap = more;
            }
            found[n++] = at->live;
        }
        at = walk_next(top, at, !with_background && is_closed(at));
    }
    *ret = found;
    *ret_n = n;
    return 0;
}

bool tci_harness_is_idle(const tc_harness *h, uint64_t conversation_id)
{
    if (conversation_id != 0) {
        tci_node *node = tci_node_of(h, conversation_id);
        return node == NULL || tci_node_first_below(node) == NULL;
    }
    TCI_LIST_EACH (&h->roots, k) {
        if (tci_node_first_below(TCI_CONTAINER(k, tci_node, sibling)) != NULL)
            return false;
    }
    return true;
}

/* ---- as a transaction will leave it ---- */

/* The record as staged; id 0: not staged. */
static tci_task staged_task(const tci_task *staged, size_t n, uint64_t id)
{
    for (size_t i = 0; i < n; i++)
        if (staged[i].id == id)
            return staged[i];
    return (tci_task){0};
}

/* One step up from a conversation or task, with what is staged. */
static int current_up(tc_harness *h, tc_tx *tx, tci_arena *a, step_up *at, bool *ret_is_background,
                      tc_err *err)
{
    tci_node *node = tci_node_of(h, at->id);
    *ret_is_background = false;
    if (node != NULL) {
        *ret_is_background = node->is_background;
        *at = node->parent != NULL ? (step_up){node->parent->id, node->parent->is_conversation}
                                   : (step_up){0, false};
        return 0;
    }
    if (at->is_conversation) {
        tci_conversation c;
        int rc = tci_tx_current_conversation(tx, at->id, a, &c, err);
        if (rc == 0)
            *at = (step_up){c.id != 0 ? c.owner_task_id : 0, false};
        return rc;
    }
    tci_task t;
    int rc = tci_tx_current_task(tx, at->id, a, &t, err);
    if (rc < 0)
        return rc;
    *ret_is_background = t.is_background;
    *at = t.id == 0      ? (step_up){0, false}
          : t.owner != 0 ? (step_up){t.owner, false}
                         : (step_up){t.conversation_id, true};
    return 0;
}

/* Does the way up from a staged live task lead to the owner, not across background work? */
static int is_staged_below(tc_harness *h, tc_tx *tx, const tci_task *task, uint64_t owner,
                           bool *ret, tc_err *err)
{
    tci_arena a;
    tci_arena_init(&a, 0);
    step_up at =
        task->owner != 0 ? (step_up){task->owner, false} : (step_up){task->conversation_id, true};
    int rc = 0;
    *ret = false;
    for (size_t n = 0; rc == 0 && at.id != 0; n++) {
        bool is_background;
        if (at.id == owner && !at.is_conversation) {
            *ret = true;
            break;
        }
        rc = n > UP_MAX ? tc_err_set(err, TC_E_INTERNAL, "owners form a circle")
                        : current_up(h, tx, &a, &at, &is_background, err);
        if (rc == 0 && is_background)
            break;
    }
    tci_arena_done(&a);
    return rc;
}

int tci_tx_has_owned_live(tc_harness *h, tc_tx *tx, uint64_t id, bool *ret, tc_err *err)
{
    const tci_task *staged;
    size_t n;
    if (tci_tx_staged_tasks(tx, &staged, &n, err) < 0)
        return err->code;
    *ret = false;
    const tci_node *top = tci_node_of(h, id);
    for (const tci_node *at = top != NULL ? walk_next(top, top, false) : NULL; at != NULL;
         at = walk_next(top, at, is_closed(at))) {
        if (at->live == NULL || at->is_background)
            continue;
        tci_task now = staged_task(staged, n, at->id);
        if (now.id == 0 || now.status != TCI_TASK_TERMINAL) {
            *ret = true;
            return 0;
        }
    }
    for (size_t i = 0; i < n && !*ret; i++) {
        if (staged[i].status == TCI_TASK_TERMINAL || staged[i].is_background ||
            staged[i].id == id || tci_live_of(h, staged[i].id) != NULL)
            continue;
        if (is_staged_below(h, tx, &staged[i], id, ret, err) < 0)
            return err->code;
    }
    return 0;
}

int tci_conversation_place(tc_harness *h, uint64_t conversation_id, uint64_t scope,
                           bool cross_background, tci_place *ret, tc_err *err)
{
    tci_arena a;
    tci_arena_init(&a, 0);
    step_up at = {conversation_id, true};
    bool is_shielded = false; /* background work in between */
    int rc = 0;
    *ret = (tci_place){0};
    for (size_t n = 0; rc == 0 && at.id != 0; n++) {
        tci_node *node = tci_node_of(h, at.id);
        bool is_background = false;
        if (at.is_conversation && at.id == scope && (!is_shielded || cross_background))
            ret->is_in_scope = true;
        if (node != NULL && node->live != NULL && !is_shielded &&
            tci_live_is_cancelling(node->live))
            ret->is_below_cancelled = true;
        if (node != NULL) {
            is_background = !node->is_conversation && node->is_background;
            at = node->parent != NULL ? (step_up){node->parent->id, node->parent->is_conversation}
                                      : (step_up){0, false};
        } else {
            rc = n > UP_MAX ? tc_err_set(err, TC_E_INTERNAL, "owners form a circle")
                            : read_up(h, at.id, at.is_conversation, &a, &at, &is_background, err);
        }
        is_shielded = is_shielded || is_background;
    }
    tci_arena_done(&a);
    return rc;
}
