/* SPDX-License-Identifier: Apache-2.0
 *
 * The task graph: every live task, what it waits for, and the conversations it owns, without its
 * payloads; as a value, and as a watch that follows commits. Leaves what blocks a task to
 * reservation. On the line. Invariant: a watch's value changes only by commits and by what is
 * installed, and its frames lead from one value to the next. */
#include "harness/sched/sched_int.h"

#include <stdlib.h>

/* ---- one node ---- */

static void put_ids(tci_buf *b, const uint64_t *ids, size_t n)
{
    tci_buf_append_byte(b, '[');
    for (size_t i = 0; i < n; i++) {
        if (i > 0)
            tci_buf_append_byte(b, ',');
        tci_buf_append_u64(b, ids[i]);
    }
    tci_buf_append_byte(b, ']');
}

static void put_state(tci_buf *b, const tci_live *live)
{
    tci_buf_printf(b, "{\"status\":\"%s\"", tci_task_status_name(live->task.status));
    if (live->task.status == TCI_TASK_COMPLETING) {
        tc_str status = TC_STR("");
        (void)tci_json_as_str(
            tci_json_get(tci_json_get(live->state, TC_STR("outcome")), TC_STR("status")), &status);
        tci_buf_append_str(b, TC_STR(",\"outcome\":"));
        tci_json_put_str(b, status);
    } else {
        tci_buf_append_str(b, TC_STR(",\"phase\":"));
        tci_json_put_str(b, live->phase);
    }
    if (live->task.status == TCI_TASK_WAITING) {
        tci_buf_append_str(b, TC_STR(",\"on\":"));
        tci_json_put(b, tci_json_get(live->state, TC_STR("on")), TCI_JSON_AS_IS);
        tci_buf_printf(b, ",\"policy\":\"%s\"", live->is_fail_fast ? "failFast" : "allSettled");
    }
    if (live->task.status == TCI_TASK_SLEEPING) {
        tci_buf_append_str(b, TC_STR(",\"until\":"));
        tci_json_put(b, tci_json_get(live->state, TC_STR("until")), TCI_JSON_AS_IS);
    }
    tci_buf_append_byte(b, '}');
}

static void put_node(tci_buf *b, const tci_live *live, const uint64_t *conversations, size_t n,
                     const char *blocked)
{
    const tci_task *t = &live->task;
    tci_buf_append_str(b, TC_STR("{\"id\":"));
    tci_buf_append_u64(b, t->id);
    tci_buf_append_str(b, TC_STR(",\"kind\":"));
    tci_json_put_str(b, t->kind);
    tci_buf_append_str(b, TC_STR(",\"conversationId\":"));
    tci_buf_append_u64(b, t->conversation_id);
    if (t->owner != 0) {
        tci_buf_append_str(b, TC_STR(",\"owner\":"));
        tci_buf_append_u64(b, t->owner);
    }
    tci_buf_printf(b, ",\"background\":%s,\"abortRequested\":%s,\"state\":",
                   t->is_background ? "true" : "false", t->is_abort_requested ? "true" : "false");
    put_state(b, live);
    if (blocked != NULL)
        tci_buf_printf(b, ",\"blocked\":\"%s\"", blocked);
    tci_buf_append_str(b, TC_STR(",\"conversations\":"));
    put_ids(b, conversations, n);
    tci_buf_append_byte(b, '}');
}

/* Ids of the conversations a task owns, in arena a. */
static int owned_conversations(tc_harness *h, const tci_live *live, tci_arena *a, uint64_t **ret,
                               size_t *ret_n, tc_err *err)
{
    tc_page page = {.order = TC_ORDER_ASCENDING, .limit = 256};
    uint64_t *ids = NULL;
    size_t total = 0;
    do {
        tci_conversation *found;
        size_t n;
        if (tci_durable_scan_conversations(h->session, live->task.conversation_id, live->task.id,
                                           &page, a, &found, &n, &page.cursor, err) < 0)
            return err->code;
        ids = tci_arena_grow(a, ids, total * sizeof(*ids), (total + n + 1) * sizeof(*ids));
        if (ids == NULL)
            return tci_arena_error(a, err);
        for (size_t i = 0; i < n; i++)
            ids[total++] = found[i].id;
    } while (page.cursor.after != 0);
    *ret = ids;
    *ret_n = total;
    return 0;
}

static int put_live(tc_harness *h, const tci_live *live, const tci_snapshot *s, uint64_t limit,
                    tci_buf *b, tc_err *err)
{
    tci_arena a;
    uint64_t *ids;
    size_t n;
    tci_arena_init(&a, 0);
    int rc = owned_conversations(h, live, &a, &ids, &n, err);
    if (rc == 0)
        put_node(b, live, ids, n, tci_sched_blocked_reason(live, s, limit));
    tci_arena_done(&a);
    return rc;
}

static int compare_lives(const void *a, const void *b)
{
    uint64_t x = (*(tci_live *const *)a)->task.id, y = (*(tci_live *const *)b)->task.id;
    return x < y ? -1 : x > y;
}

/* All of it, ascending by id. On the line. */
static int put_graph(tc_harness *h, tci_buf *b, tc_err *err)
{
    tci_live **lives = tci_mem_array(h->nlives + 1, sizeof(tci_live *));
    if (lives == NULL)
        return tci_err_no_memory(err);
    size_t n = 0;
    TCI_LIST_EACH (&h->lives, k) {
        lives[n++] = TCI_CONTAINER(k, tci_live, all);
    }
    qsort(lives, n, sizeof(tci_live *), compare_lives);
    uint64_t limit = tci_sched_restart_limit(h);
    tci_snapshot *s = tci_harness_snapshot(h);
    int rc = 0;
    tci_buf_append_str(b, TC_STR("{\"tasks\":{"));
    for (size_t i = 0; i < n && rc == 0; i++) {
        tci_buf_printf(b, "%s\"%llu\":", i > 0 ? "," : "", (unsigned long long)lives[i]->task.id);
        rc = put_live(h, lives[i], s, limit, b, err);
    }
    tci_buf_append_str(b, TC_STR("}}"));
    tci_snapshot_unref(s);
    tci_mem_free(lives);
    return rc < 0 ? rc : tci_buf_error(b, err);
}

int tc_harness_task_graph(tc_harness *h, tc_ctx *ctx, tc_result *r, tc_str *ret_graph, tc_err *err)
{
    if (tci_ctx_check(ctx, err) < 0 || tci_durable_enter(h->session, err) < 0)
        return err->code;
    tci_buf b;
    tci_buf_init(&b, TCI_BUF_MAX);
    int rc = put_graph(h, &b, err);
    tci_durable_leave(h->session);
    if (rc == 0)
        rc = tc_result_dup(r, tci_buf_str(&b), ret_graph, err);
    tci_buf_done(&b);
    return rc;
}

/* ---- watches ---- */

/* What a watcher was told of one task. */
typedef struct shown {
    char *text;
    size_t len;
} shown;

struct tci_graph_watch {
    tci_link link; /* in harness.graph_watches */
    tc_harness *h;
    tc_watch *watch;
    tci_by_id shown; /* id -> shown */
};

static void free_shown(shown *x)
{
    if (x == NULL)
        return;
    tci_mem_free(x->text);
    tci_free(x);
}

/* On the line, or when nothing of the harness is left. */
static void gone(void *user)
{
    tci_graph_watch *g = user;
    tci_mutex_lock(&g->h->lock);
    tci_link_remove(&g->link);
    tci_mutex_unlock(&g->h->lock);
    for (size_t i = 0; i < g->shown.cap; i++)
        if (g->shown.slots[i].id != 0)
            free_shown(g->shown.slots[i].value);
    tci_by_id_done(&g->shown);
    tci_free(g);
}

static int collapse(void *user, tci_buf *out, tc_err *err)
{
    tci_graph_watch *g = user;
    tci_buf_append_str(out, TC_STR("[[\"r\","));
    int rc = put_graph(g->h, out, err);
    tci_buf_append_str(out, TC_STR("]]"));
    return rc;
}

/* Remember text as what was told of a task. */
static int show(tci_graph_watch *g, uint64_t id, tc_str text, tc_err *err)
{
    shown *x = tci_new(shown);
    if (x == NULL || (x->text = tci_mem_cstr(text)) == NULL) {
        tci_free(x);
        return tci_err_no_memory(err);
    }
    x->len = text.len;
    free_shown(tci_by_id_get(&g->shown, id));
    tci_by_id_remove(&g->shown, id);
    if (tci_by_id_put(&g->shown, id, x, err) < 0) {
        free_shown(x);
        return err->code;
    }
    return 0;
}

/* Append the operation that tells of a task as it is now, if it is not what was told. */
static int put_change(tci_graph_watch *g, uint64_t id, const tci_snapshot *s, uint64_t limit,
                      tci_buf *ops, tc_err *err)
{
    const tci_live *live = tci_live_of(g->h, id);
    shown *before = tci_by_id_get(&g->shown, id);
    if (live == NULL) {
        if (before == NULL)
            return 0;
        tci_buf_printf(ops, "%s[\"d\",[\"tasks\",\"%llu\"]]", ops->len > 1 ? "," : "",
                       (unsigned long long)id);
        free_shown(before);
        tci_by_id_remove(&g->shown, id);
        return 0;
    }
    tci_buf b;
    tci_buf_init(&b, TCI_BUF_MAX);
    int rc = put_live(g->h, live, s, limit, &b, err);
    if (rc == 0)
        rc = tci_buf_error(&b, err);
    tc_str text = tci_buf_str(&b);
    if (rc == 0 && (before == NULL || !tci_str_eq(text, tci_str_of(before->text, before->len)))) {
        tci_buf_printf(ops, "%s[\"s\",[\"tasks\",\"%llu\"],", ops->len > 1 ? "," : "",
                       (unsigned long long)id);
        tci_buf_append_str(ops, text);
        tci_buf_append_byte(ops, ']');
        rc = show(g, id, text, err);
    }
    tci_buf_done(&b);
    return rc;
}

/* Tell of some tasks: those of the commit, or (commit NULL) all. */
static void advance(tci_graph_watch *g, const tci_commit *commit)
{
    tc_err err;
    tc_harness *h = g->h;
    uint64_t limit = tci_sched_restart_limit(h);
    tci_snapshot *s = tci_harness_snapshot(h);
    tci_buf ops;
    int rc = 0;
    tci_buf_init(&ops, TCI_BUF_MAX);
    tci_buf_append_byte(&ops, '[');
    for (size_t i = 0; commit != NULL && rc == 0 && i < commit->ntasks; i++)
        rc = put_change(g, commit->tasks[i].id, s, limit, &ops, &err);
    for (size_t i = 0; commit != NULL && rc == 0 && i < commit->nconversations; i++)
        if (commit->conversations[i].owner_task_id != 0)
            rc = put_change(g, commit->conversations[i].owner_task_id, s, limit, &ops, &err);
    if (commit == NULL)
        TCI_LIST_EACH (&h->lives, k) {
            if (rc == 0)
                rc = put_change(g, TCI_CONTAINER(k, tci_live, all)->task.id, s, limit, &ops, &err);
        }
    bool is_any = ops.len > 1;
    tci_buf_append_byte(&ops, ']');
    if (rc == 0)
        rc = tci_buf_error(&ops, &err);
    if (rc == 0 && is_any)
        rc = tci_watch_push(g->watch, tci_buf_str(&ops), &err);
    tci_buf_done(&ops);
    tci_snapshot_unref(s);
    if (rc < 0)
        tci_watch_end(g->watch, TC_WATCH_LISTENER_ERROR, &err);
}

void tci_graph_observe(tc_harness *h, const tci_commit *commit)
{
    if (commit->ntasks == 0 && commit->nconversations == 0)
        return;
    TCI_LIST_EACH (&h->graph_watches, k) {
        advance(TCI_CONTAINER(k, tci_graph_watch, link), commit);
    }
}

void tci_graph_registry_changed(tc_harness *h)
{
    tc_err err;
    if (tci_durable_enter(h->session, &err) < 0)
        return; /* it has ended, and its watches with it */
    TCI_LIST_EACH (&h->graph_watches, k) {
        advance(TCI_CONTAINER(k, tci_graph_watch, link), NULL);
    }
    tci_durable_leave(h->session);
}

/* What is in the graph now counts as told. */
static int show_all(tci_graph_watch *g, tc_err *err)
{
    uint64_t limit = tci_sched_restart_limit(g->h);
    tci_snapshot *s = tci_harness_snapshot(g->h);
    int rc = 0;
    TCI_LIST_EACH (&g->h->lives, k) {
        const tci_live *live = TCI_CONTAINER(k, tci_live, all);
        tci_buf b;
        tci_buf_init(&b, TCI_BUF_MAX);
        if (rc == 0)
            rc = put_live(g->h, live, s, limit, &b, err);
        if (rc == 0)
            rc = tci_buf_error(&b, err);
        if (rc == 0)
            rc = show(g, live->task.id, tci_buf_str(&b), err);
        tci_buf_done(&b);
    }
    tci_snapshot_unref(s);
    return rc;
}

static int watch_on_line(tc_harness *h, tc_watch **ret_watch, tc_err *err)
{
    tci_graph_watch *g = tci_new(tci_graph_watch);
    if (g == NULL)
        return tci_err_no_memory(err);
    g->h = h;
    const tci_watch_source source = {.user = g, .collapse = collapse, .gone = gone};
    tci_buf b;
    tci_buf_init(&b, TCI_BUF_MAX);
    int rc = show_all(g, err);
    if (rc == 0)
        rc = put_graph(h, &b, err);
    if (rc == 0)
        rc = tci_watch_new(h->session, tci_buf_str(&b), &source, &g->watch, err);
    tci_buf_done(&b);
    if (rc < 0) {
        gone(g);
        return rc;
    }
    tci_mutex_lock(&h->lock);
    tci_list_push_back(&h->graph_watches, &g->link);
    tci_mutex_unlock(&h->lock);
    *ret_watch = g->watch;
    return 0;
}

int tc_harness_watch_task_graph(tc_harness *h, tc_ctx *ctx, tc_watch **ret_watch, tc_err *err)
{
    if (tci_ctx_check(ctx, err) < 0 || tci_durable_enter(h->session, err) < 0)
        return err->code;
    int rc = watch_on_line(h, ret_watch, err);
    tci_durable_leave(h->session);
    return rc;
}
