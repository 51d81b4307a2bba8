/* SPDX-License-Identifier: Apache-2.0
 *
 * Views of conversations, and the watches that follow them. Leaves what events are to events.c, queues
 * and waiting to the session's watches. On the line. Invariant: the operations of all frames, applied to
 * the first value, give the view as it is committed. */
#include "harness/view.h"
#include "base/json.h"
#include "harness/generation/context_scan.h"
#include "harness/events.h"

enum { PAGE = 1000 };

/* ---- the whole view ---- */

const tc_json *tci_view_doc(tci_run *run, const tc_doc_def *def, uint64_t conversation,
                            uint64_t *ret_id)
{
    const tc_doc_addr addr = {def, conversation, {NULL, 0}};
    const tc_json *value = NULL;
    tc_err err;
    *ret_id = 0;
    if (tci_durable_doc(run->s, &addr, &value, ret_id, &err) < 0) {
        *ret_id = 0;
        return NULL; /* of a newer version: as if it were not there */
    }
    return value;
}

int tci_view_each_entry(tci_run *run, uint64_t conversation,
                        int (*fn)(void *user, const tci_entry *entry, tc_err *err), void *user,
                        tc_err *err)
{
    tci_arena a;
    tci_entry head, *items;
    size_t count;
    tc_page page = {.order = TC_ORDER_ASCENDING, .limit = PAGE};
    tci_arena_init(&a, 0);
    int rc = tci_durable_head_marker(run->s, conversation, 0, &a, &head, err);
    uint64_t from = rc == 0 && head.id != 0 ? head.head : 0;
    bool has_head = from != 0;
    if (rc == 0 && has_head)
        rc = fn(user, &head, err);
    do {
        tci_arena_clear(&a);
        if (rc == 0)
            rc = tci_durable_scan_entries(run->s, conversation, from, 0, &page, &a, &items, &count,
                                          &page.cursor, err);
        for (size_t i = 0; rc == 0 && i < count; i++) {
            if (!has_head || items[i].head == 0)
                rc = fn(user, &items[i], err);
        }
    } while (rc == 0 && page.cursor.after != 0);
    tci_arena_done(&a);
    return rc;
}

typedef struct putting {
    tci_buf *b;
    bool first;
} putting;

static int put_entry(void *user, const tci_entry *entry, tc_err *err)
{
    putting *p = user;
    TCI_UNUSED(err);
    if (!p->first)
        tci_buf_append_byte(p->b, ',');
    p->first = false;
    tci_buf_append_str(p->b, entry->json);
    return 0;
}

static int put_record(tci_run *run, uint64_t conversation, tci_buf *b, tc_err *err)
{
    tci_arena a;
    tci_conversation c;
    tci_arena_init(&a, 0);
    int rc = tci_durable_conversation(run->s, conversation, &a, &c, err);
    if (rc == 0 && c.id == 0)
        rc = tc_err_set(err, TC_E_NOT_FOUND, "no conversation %llu",
                        (unsigned long long)conversation);
    if (rc == 0)
        tci_buf_append_str(b, c.json);
    tci_arena_done(&a);
    return rc;
}

int tci_view_put(tci_run *run, uint64_t conversation, tci_buf *b, tc_err *err)
{
    putting p = {b, true};
    bool first = true;
    tci_buf_append_str(b, TC_STR("{\"conversation\":"));
    if (put_record(run, conversation, b, err) < 0)
        return err->code;
    tci_buf_append_str(b, TC_STR(",\"entries\":["));
    if (tci_view_each_entry(run, conversation, put_entry, &p, err) < 0)
        return err->code;
    tci_buf_append_str(b, TC_STR("],\"docs\":{"));
    for (size_t i = 0; i < TCI_BUILT_IN_DOCS; i++) {
        uint64_t id;
        const tc_json *value = tci_view_doc(run, tci_built_in_docs[i], conversation, &id);
        if (value == NULL)
            continue;
        tci_json_put_key(b, &first, tci_str(tci_built_in_docs[i]->kind));
        tci_json_put(b, value, TCI_JSON_AS_IS);
    }
    tci_buf_append_str(b, TC_STR("}}"));
    return tci_buf_error(b, err);
}

int tc_conversation_view(struct tc_harness *h, const tc_call *call, uint64_t id, tc_str *ret_view,
                         tc_err *err)
{
    tci_run *run = tci_run_of(h);
    tci_buf b;
    if (tci_ctx_check(call->ctx, err) < 0 || tci_durable_enter(run->s, err) < 0)
        return err->code;
    tci_buf_init(&b, TCI_BUF_MAX);
    int rc = tci_view_put(run, id, &b, err);
    tci_durable_leave(run->s);
    if (rc < 0) {
        tci_buf_done(&b);
        return rc;
    }
    return tci_result_take(call->result, &b, ret_view, err);
}

/* ---- following commits ---- */

static int add_active(tci_view *v, uint64_t id, bool is_head, tc_err *err)
{
    if (v->nactive == v->active_cap) {
        size_t cap = v->active_cap == 0 ? 64 : v->active_cap * 2;
        tci_active *grown = tci_mem_resize(v->active, cap * sizeof *grown);
        if (grown == NULL)
            return tci_err_no_memory(err);
        v->active = grown;
        v->active_cap = cap;
    }
    v->active[v->nactive++] = (tci_active){id, is_head};
    return 0;
}

static int note_entry(void *user, const tci_entry *entry, tc_err *err)
{
    return add_active(user, entry->id, entry->head != 0, err);
}

static void begin_op(tci_buf *b)
{
    tci_buf_append_byte(b, b->len == 0 ? '[' : ',');
}

/* A new entry at the end, or a head marker in place of all before what it keeps. */
static int put_entry_op(tci_view *v, const tci_entry *e, tci_buf *b, tc_err *err)
{
    size_t at = v->nactive, removed = 0;
    if (e->head != 0) {
        while (removed < v->nactive &&
               (v->active[removed].is_head || v->active[removed].id < e->head))
            removed++;
        at = 0;
    }
    begin_op(b);
    tci_buf_printf(b, "[\"p\",[\"entries\"],%zu,%zu,[", at, removed);
    tci_buf_append_str(b, e->json);
    tci_buf_append_str(b, TC_STR("]]"));
    if (e->head == 0)
        return add_active(v, e->id, false, err);
    memmove(v->active, v->active + removed, (v->nactive - removed) * sizeof *v->active);
    v->nactive -= removed;
    if (add_active(v, 0, false, err) < 0)
        return err->code;
    memmove(v->active + 1, v->active, (v->nactive - 1) * sizeof *v->active);
    v->active[0] = (tci_active){e->id, true};
    return 0;
}

static size_t index_of(tc_str kind)
{
    for (size_t i = 0; i < TCI_BUILT_IN_DOCS; i++) {
        if (tci_str_eq(kind, tci_str(tci_built_in_docs[i]->kind)))
            return i;
    }
    return TCI_BUILT_IN_DOCS;
}

/* Operations on the document become operations on ["docs", kind]. */
static void put_prefixed(tci_buf *b, tc_str ops, const char *kind)
{
    tci_parts list, parts;
    tc_str op, verb, path, rest;
    if (!tci_part_array(ops, &list))
        return;
    while (tci_part_item(&list, &op)) {
        if (!tci_part_array(op, &parts) || !tci_part_item(&parts, &verb) ||
            !tci_part_item(&parts, &path))
            continue;
        begin_op(b);
        if (tci_part_is_str(verb,
                            TC_STR("r"))) { /* what stands in place of the path is the value */
            tci_buf_printf(b, "[\"s\",[\"docs\",\"%s\"],", kind);
            tci_buf_append_str(b, path);
            tci_buf_append_byte(b, ']');
            continue;
        }
        tci_buf_append_byte(b, '[');
        tci_buf_append_str(b, verb);
        tci_buf_printf(b, ",[\"docs\",\"%s\"", kind);
        if (path.len > 2)
            tci_buf_append_byte(b, ',');
        tci_buf_append_str(b, tci_str_sub(path, 1, path.len - 1));
        while (tci_part_item(&parts, &rest)) {
            tci_buf_append_byte(b, ',');
            tci_buf_append_str(b, rest);
        }
        tci_buf_append_byte(b, ']');
    }
}

static void put_doc_ops(tci_view *v, const tci_commit_doc *doc, tci_buf *b)
{
    size_t i = index_of(doc->record->kind);
    if (i == TCI_BUILT_IN_DOCS || doc->record->has_key)
        return;
    const char *kind = tci_built_in_docs[i]->kind;
    if (doc->is_retired || doc->value == NULL) {
        if (v->docs[i] != doc->record->id)
            return;
        v->docs[i] = 0;
        begin_op(b);
        tci_buf_printf(b, "[\"d\",[\"docs\",\"%s\"]]", kind);
    } else if (v->docs[i] == doc->record->id) {
        put_prefixed(b, doc->ops, kind);
    } else {
        v->docs[i] = doc->record->id;
        begin_op(b);
        tci_buf_printf(b, "[\"s\",[\"docs\",\"%s\"],", kind);
        tci_json_put(b, doc->value, TCI_JSON_AS_IS);
        tci_buf_append_byte(b, ']');
    }
}

static int put_view_ops(tci_view *v, const tci_commit *commit, tci_buf *b, tc_err *err)
{
    for (size_t i = 0; i < commit->ndocs; i++) {
        const tci_commit_doc *doc = &commit->docs[i];
        if (doc->record->scope == TCI_SCOPE_CONVERSATION &&
            doc->record->owner_id == v->conversation)
            put_doc_ops(v, doc, b);
    }
    for (size_t i = 0; i < commit->nentries; i++) {
        if (commit->entries[i].conversation_id == v->conversation &&
            put_entry_op(v, &commit->entries[i], b, err) < 0)
            return err->code;
    }
    if (b->len > 0)
        tci_buf_append_byte(b, ']');
    return tci_buf_error(b, err);
}

/* The whole of it, and nothing remembered of before. */
static int begin_again(tci_view *v, tci_buf *b, tc_err *err)
{
    v->nactive = 0;
    memset(v->docs, 0, sizeof v->docs);
    for (size_t i = 0; i < TCI_BUILT_IN_DOCS; i++)
        (void)tci_view_doc(v->run, tci_built_in_docs[i], v->conversation, &v->docs[i]); /* ids */
    if (tci_view_each_entry(v->run, v->conversation, note_entry, v, err) < 0)
        return err->code;
    return tci_view_put(v->run, v->conversation, b, err);
}

static int advance_state(tci_view *v, const tci_commit *commit, tci_buf *b, tc_err *err)
{
    int rc = 0;
    if (v->is_behind) {
        tci_buf_append_str(b, TC_STR("[[\"r\","));
        rc = begin_again(v, b, err);
        tci_buf_append_str(b, TC_STR("]]"));
    } else {
        rc = put_view_ops(v, commit, b, err);
    }
    if (rc == 0)
        rc = tci_buf_error(b, err);
    if (rc == 0 && b->len > 0)
        rc = tci_state_push(v->state, tci_buf_str(b), err);
    v->is_behind = rc < 0;
    return rc;
}

static int advance_watch(tci_view *v, const tci_commit *commit, tci_buf *b, tc_err *err)
{
    int rc = v->is_events ? tci_events_of(v, commit, b, err) : put_view_ops(v, commit, b, err);
    return rc < 0 || b->len == 0 ? rc : tci_watch_push(v->watch, tci_buf_str(b), err);
}

/* What missed something: a watch ends, a state is made anew. */
static void report(tci_view *v, const tc_err *failure)
{
    if (v->watch != NULL) {
        tci_watch_end(v->watch, TC_WATCH_LISTENER_ERROR, failure);
        return;
    }
    tci_harness_report(v->run->h, &(tc_report){.type = TC_REPORT_LISTENER_ERROR,
                                               .message = tci_str(failure->msg),
                                               .conversation_id = v->conversation});
}

static void advance(tci_view *v, const tci_commit *commit, tci_buf *b)
{
    tc_err failure;
    int rc = 0;
    tci_buf_clear(b);
    if (v->watch != NULL)
        rc = advance_watch(v, commit, b, &failure);
    else if (v->state != NULL)
        rc = advance_state(v, commit, b, &failure);
    if (rc < 0)
        report(v, &failure);
}

static void free_view(tci_view *v)
{
    tci_mem_free(v->active);
    tci_mem_free(v->held);
    tci_facts_free(v->facts);
    tci_free(v);
}

static void free_gone(tci_run *run)
{
    for (tci_view **at = &run->views; *at != NULL;) {
        tci_view *v = *at;
        if (v->watch == NULL && v->state == NULL) {
            *at = v->next;
            free_view(v);
        } else {
            at = &v->next;
        }
    }
}

int tci_views_advance(tci_run *run, const tci_commit *commit, tc_err *err)
{
    tci_buf b;
    TCI_UNUSED(err);
    if (run->views == NULL)
        return 0;
    tci_buf_init(&b, TCI_BUF_MAX);
    run->is_telling_views = true; /* who is told of a state may end any of them */
    for (tci_view *v = run->views; v != NULL; v = v->next)
        advance(v, commit, &b);
    run->is_telling_views = false;
    free_gone(run);
    tci_buf_done(&b);
    return 0;
}

/* ---- watches ---- */

static int collapse(void *user, tci_buf *out, tc_err *err)
{
    tci_view *v = user;
    tci_buf_append_str(out, v->is_events ? TC_STR("[") : TC_STR("[[\"r\","));
    int rc = v->is_events ? tci_events_snapshot(v->run, v->conversation, out, err)
                          : tci_view_put(v->run, v->conversation, out, err);
    tci_buf_append_str(out, v->is_events ? TC_STR("]") : TC_STR("]]"));
    return rc;
}

static void gone(void *user)
{
    tci_view *v = user;
    v->watch = NULL;
    v->state = NULL;
    if (!v->run->is_telling_views)
        free_gone(v->run);
}

int tci_view_hold(tci_view *v, uint64_t task, tc_err *err)
{
    if (v->nheld == v->held_cap) {
        size_t cap = v->held_cap == 0 ? 8 : v->held_cap * 2;
        uint64_t *grown = tci_mem_resize(v->held, cap * sizeof *grown);
        if (grown == NULL)
            return tci_err_no_memory(err);
        v->held = grown;
        v->held_cap = cap;
    }
    v->held[v->nheld++] = task;
    return 0;
}

static int hold_completing(tci_view *v, tc_err *err)
{
    tc_task_query query = TC_TASK_QUERY_ALL;
    tci_arena a;
    tci_task *items;
    size_t count;
    tc_page page = {.order = TC_ORDER_ASCENDING, .limit = PAGE};
    int rc;
    query.conversation = v->conversation;
    query.kind = TC_STR("pi.generation");
    query.status = TC_STR("completing");
    tci_arena_init(&a, 0);
    do {
        rc =
            tci_durable_scan_tasks(v->run->s, &query, &page, &a, &items, &count, &page.cursor, err);
        for (size_t i = 0; rc == 0 && i < count; i++)
            rc = tci_view_hold(v, items[i].id, err);
    } while (rc == 0 && page.cursor.after != 0);
    tci_arena_done(&a);
    return rc;
}

/* What the view knows at its start; its value or first frame in b. */
static int begin(tci_view *v, tci_buf *b, tc_err *err)
{
    uint64_t id;
    if (!v->is_events)
        return begin_again(v, b, err);
    if (hold_completing(v, err) < 0 ||
        tci_facts_of(tci_view_doc(v->run, &tci_live_doc, v->conversation, &id), &v->facts, err) < 0)
        return err->code;
    tci_buf_append_byte(b, '[');
    if (tci_events_snapshot(v->run, v->conversation, b, err) < 0)
        return err->code;
    tci_buf_append_byte(b, ']');
    return tci_buf_error(b, err);
}

/* What is wanted: exactly one of the two. */
typedef struct wanted {
    bool is_events;
    tc_watch **watch;
    tc_state **state;
} wanted;

static int make(tci_view *v, tc_str value, const wanted *want, tc_err *err)
{
    const tci_watch_source watched = {v, collapse, gone};
    const tci_state_source followed = {.user = v, .gone = gone};
    tc_durable *s = v->run->s;
    if (want->state != NULL)
        return tci_state_new_kept(s, value, &followed, &v->state, err);
    return tci_watch_new(s, want->is_events ? (tc_str){NULL, 0} : value, &watched, &v->watch, err);
}

/* On the line. */
static int attach(tci_run *run, uint64_t conversation, const wanted *want, tc_err *err)
{
    tci_buf b;
    tci_view *v = tci_new(tci_view);
    if (v == NULL)
        return tci_err_no_memory(err);
    *v = (tci_view){.run = run, .conversation = conversation, .is_events = want->is_events};
    tci_buf_init(&b, TCI_BUF_MAX);
    int rc = begin(v, &b, err);
    if (rc == 0)
        rc = make(v, tci_buf_str(&b), want, err);
    if (rc < 0) {
        free_view(v);
    } else {
        v->next = run->views;
        run->views = v;
        if (want->is_events && tci_watch_push(v->watch, tci_buf_str(&b), err) < 0) {
            rc = err->code;
            tc_watch_free(v->watch); /* and the view with it */
        }
    }
    tci_buf_done(&b);
    if (rc < 0)
        return rc;
    if (want->state != NULL)
        *want->state = v->state;
    else
        *want->watch = v->watch;
    return 0;
}

static int follow(tc_harness *h, tc_ctx *ctx, uint64_t id, const wanted *want, tc_err *err)
{
    tci_run *run = tci_run_of(h);
    tci_buf record;
    if (tci_ctx_check(ctx, err) < 0 || tci_durable_check(run->s, err) < 0 ||
        tci_durable_enter(run->s, err) < 0)
        return err->code;
    tci_buf_init(&record, TCI_BUF_MAX);
    int rc = put_record(run, id, &record, err);
    tci_buf_done(&record);
    if (rc == 0)
        rc = attach(run, id, want, err);
    tci_durable_leave(run->s);
    return rc;
}

int tc_conversation_view_state(struct tc_harness *h, tc_ctx *ctx, uint64_t id, tc_state **ret_state,
                               tc_err *err)
{
    return follow(h, ctx, id, &(wanted){.state = ret_state}, err);
}

int tc_conversation_watch(struct tc_harness *h, tc_ctx *ctx, uint64_t id, tc_watch **ret_watch,
                          tc_err *err)
{
    return follow(h, ctx, id, &(wanted){.watch = ret_watch}, err);
}

int tc_conversation_watch_events(struct tc_harness *h, tc_ctx *ctx, uint64_t id,
                                 tc_watch **ret_watch, tc_err *err)
{
    return follow(h, ctx, id, &(wanted){.is_events = true, .watch = ret_watch}, err);
}
