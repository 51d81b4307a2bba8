/* SPDX-License-Identifier: Apache-2.0
 *
 * Turns commits of a conversation into what its agent does. Leaves delivery to view.c. On the line.
 * Invariant: an event follows the commit that makes it true; the order within a commit is fixed:
 * progress, ends, entries, ends of runs, records and documents, beginnings. */
#include "harness/events.h"
#include "base/json.h"
#include <stdlib.h>

/* ---- small things ---- */

uint64_t tci_event_id(const tci_json *v, const char *key)
{
    uint64_t id = 0;
    return tci_json_as_u64(tci_json_get(v, tci_str(key)), &id) ? id : 0;
}

size_t tci_event_count(const tci_json *list)
{
    return list != NULL && list->kind == TCI_JSON_ARRAY ? list->count : 0;
}

bool tci_event_is(const tci_json *v, const char *key, const char *text)
{
    tc_str s;
    return tci_json_as_str(tci_json_get(v, tci_str(key)), &s) && tci_str_eq(s, tci_str(text));
}

bool tci_event_begin(tci_events *e, const char *type)
{
    tci_buf_append_byte(e->out, e->out->len == 0 ? '[' : ',');
    tci_buf_printf(e->out, "{\"type\":\"%s\"", type);
    return false; /* `first` for the members that follow */
}

void tci_event_end(tci_events *e)
{
    tci_buf_append_byte(e->out, '}');
}

void tci_event_value(tci_events *e, const char *key, const tci_json *v)
{
    bool first = false;
    tci_json_put_key(e->out, &first, tci_str(key));
    tci_json_put(e->out, v, TCI_JSON_AS_IS);
}

static const tci_json *live_member(const tci_events *e, const char *name)
{
    return tci_json_get(e->live, tci_str(name));
}

/* ---- retries and polls ---- */

static void put_attempts(tci_events *e)
{
    const tci_json *generation = live_member(e, "generation");
    const tci_json *retry = tci_json_get(generation, TC_STR("retry"));
    bool first;
    if (retry != NULL && !e->was->has_retry) {
        first = tci_event_begin(e, "auto_retry_start");
        tci_put_u64_member(e->out, &first, TC_STR("attempt"), tci_event_id(generation, "attempt"));
        tci_put_u64_member(e->out, &first, TC_STR("at"), tci_event_id(retry, "at"));
        if (tci_json_get(retry, TC_STR("error")) != NULL)
            tci_event_value(e, "errorMessage", tci_json_get(retry, TC_STR("error")));
        tci_event_end(e);
    }
    if (retry == NULL && e->was->has_retry) {
        first = tci_event_begin(e, "auto_retry_end");
        tci_put_u64_member(e->out, &first, TC_STR("attempt"), e->was->attempt);
        tci_event_end(e);
    }
    uint64_t poll_at = tci_event_id(tci_json_get(generation, TC_STR("deferred")), "pollAt");
    if (poll_at != 0 && (int64_t)poll_at != e->was->poll_at) {
        first = tci_event_begin(e, "deferred_poll");
        tci_put_u64_member(e->out, &first, TC_STR("pollAt"), poll_at);
        tci_event_end(e);
    }
}

/* ---- entries ---- */

/* The first message of an entry; NULL: none. */
static int first_message(tci_events *e, const tci_entry *entry, const tci_json **ret, tc_err *err)
{
    const tci_json *v;
    *ret = NULL;
    if (!entry->has_model)
        return 0;
    if (tci_parse(e->r, entry->json, &v, err) < 0)
        return err->code;
    const tci_json *model = tci_json_get(v, TC_STR("model"));
    *ret = tci_event_count(model) > 0 ? &model->u.items[0] : NULL;
    return 0;
}

static int put_entry(tci_events *e, const tci_entry *entry, bool *has_answer, tc_err *err)
{
    const tci_json *message;
    bool first;
    if (first_message(e, entry, &message, err) < 0)
        return err->code;
    tci_events_put_ends_with(e, entry);
    if (message == NULL) {
        first = tci_event_begin(e, "entry_appended");
        tci_put_raw_member(e->out, &first, TC_STR("entry"), entry->json);
        tci_event_end(e);
        return 0;
    }
    bool is_answer = tci_event_is(message, "role", "assistant");
    /* One that was streamed began with its first part. */
    if (!is_answer || !e->was->has_message || *has_answer) {
        tci_event_begin(e, "message_start");
        tci_event_value(e, "message", message);
        tci_event_end(e);
    }
    *has_answer = *has_answer || is_answer;
    first = tci_event_begin(e, "message_end");
    tci_put_raw_member(e->out, &first, TC_STR("entry"), entry->json);
    tci_event_end(e);
    return 0;
}

static int put_entries(tci_events *e, tc_err *err)
{
    bool has_answer = false;
    for (size_t i = 0; i < e->commit->nentries; i++) {
        if (e->commit->entries[i].conversation_id == e->view->conversation &&
            put_entry(e, &e->commit->entries[i], &has_answer, err) < 0)
            return err->code;
    }
    return 0;
}

/* ---- ends ---- */

static void put_compaction_ends(tci_events *e)
{
    const tci_json *now = live_member(e, "compactions");
    const tci_json *failure = live_member(e, "compactionFailure");
    for (size_t i = 0; i < e->was->ncompactions; i++) {
        const tci_shown_compaction *c = &e->was->compactions[i];
        bool is_there = false, first;
        for (size_t k = 0; k < tci_event_count(now) && !is_there; k++)
            is_there = tci_event_id(&now->u.items[k], "taskId") == c->task;
        if (is_there)
            continue;
        first = tci_event_begin(e, "compaction_end");
        tci_put_u64_member(e->out, &first, TC_STR("taskId"), c->task);
        tci_put_str_member(e->out, &first, TC_STR("reason"), c->reason);
        if (failure != NULL && tci_event_id(failure, "taskId") == c->task &&
            tci_json_get(failure, TC_STR("error")) != NULL)
            tci_event_value(e, "error", tci_json_get(failure, TC_STR("error")));
        tci_event_end(e);
    }
}

static bool release_held(tci_view *v, uint64_t task)
{
    for (size_t i = 0; i < v->nheld; i++) {
        if (v->held[i] == task) {
            v->held[i] = v->held[--v->nheld];
            return true;
        }
    }
    return false;
}

static bool is_held(const tci_view *v, uint64_t task)
{
    for (size_t i = 0; i < v->nheld; i++) {
        if (v->held[i] == task)
            return true;
    }
    return false;
}

static int put_task_failure(tci_events *e, const tci_task *task, tc_err *err)
{
    const tci_json *v;
    if (tci_parse(e->r, task->json, &v, err) < 0)
        return err->code;
    const tci_json *outcome = tci_json_get(tci_json_get(v, TC_STR("state")), TC_STR("outcome"));
    bool is_faulted = tci_event_is(outcome, "status", "faulted");
    if (!is_faulted && !tci_event_is(outcome, "status", "orphaned"))
        return 0;
    const tci_json *text =
        is_faulted ? tci_json_get(tci_json_get(outcome, TC_STR("error")), TC_STR("message"))
                   : tci_json_get(outcome, TC_STR("reason"));
    bool first = tci_event_begin(e, "task_failed");
    tci_put_u64_member(e->out, &first, TC_STR("taskId"), task->id);
    tci_put_str_member(e->out, &first, TC_STR("kind"), task->kind);
    if (text != NULL)
        tci_event_value(e, "message", text);
    tci_event_end(e);
    return 0;
}

/* A turn is over when its outcome is decided, also when the task still waits for others to end. */
static int put_task_ends(tci_events *e, bool *ret_turn_ended, tc_err *err)
{
    tci_view *v = e->view;
    *ret_turn_ended = false;
    for (size_t i = 0; i < e->commit->ntasks; i++) {
        const tci_task *task = &e->commit->tasks[i];
        bool is_turn = tci_str_eq(task->kind, TC_STR("pi.generation"));
        if (task->conversation_id != v->conversation)
            continue;
        if (is_turn && task->status == TCI_TASK_COMPLETING && !is_held(v, task->id)) {
            if (tci_view_hold(v, task->id, err) < 0)
                return err->code;
            *ret_turn_ended = true;
        }
        if (task->status != TCI_TASK_TERMINAL)
            continue;
        if (is_turn && !release_held(v, task->id))
            *ret_turn_ended = true;
        if (put_task_failure(e, task, err) < 0)
            return err->code;
    }
    return 0;
}

/* ---- runs ---- */

static uint64_t first_input_now(const tci_events *e)
{
    const tci_json *inputs = tci_json_get(live_member(e, "run"), TC_STR("inputs"));
    uint64_t id = 0;
    return tci_event_count(inputs) > 0 && tci_json_as_u64(&inputs->u.items[0], &id) ? id : 0;
}

static bool run_changed(const tci_events *e)
{
    return first_input_now(e) != (e->was->ninputs > 0 ? e->was->inputs[0] : 0);
}

static void put_run_end(tci_events *e)
{
    if (!e->was->has_run || !run_changed(e))
        return;
    tci_event_begin(e, "run_end");
    tci_buf_append_str(e->out, TC_STR(",\"inputs\":["));
    for (size_t i = 0; i < e->was->ninputs; i++)
        tci_buf_printf(e->out, "%s%llu", i > 0 ? "," : "", (unsigned long long)e->was->inputs[i]);
    tci_buf_append_byte(e->out, ']');
    tci_event_end(e);
}

static bool is_generation_of_commit(const tci_events *e, uint64_t task)
{
    for (size_t i = 0; i < e->commit->ntasks; i++) {
        if (e->commit->tasks[i].id == task)
            return tci_str_eq(e->commit->tasks[i].kind, TC_STR("pi.generation"));
    }
    return false;
}

static void put_run_start(tci_events *e)
{
    const tci_json *run = live_member(e, "run");
    if (run == NULL)
        return;
    if (run_changed(e) && tci_json_get(run, TC_STR("inputs")) != NULL) {
        tci_event_begin(e, "run_start");
        tci_event_value(e, "inputs", tci_json_get(run, TC_STR("inputs")));
        tci_event_end(e);
    }
    uint64_t task = tci_event_id(run, "taskId");
    if (task != e->was->run_task && is_generation_of_commit(e, task)) {
        tci_event_begin(e, "turn_start");
        tci_event_end(e);
    }
}

/* ---- records and documents ---- */

static int compare_submissions(const void *a, const void *b)
{
    const tci_submission *const *x = a, *const *y = b;
    return (*x)->id < (*y)->id ? -1 : (*x)->id > (*y)->id;
}

static int put_submissions(tci_events *e, tc_err *err)
{
    size_t n = 0;
    tci_arena *a = tci_result_arena(e->r);
    const tci_submission **all =
        (const tci_submission **)tci_arena_array(a, e->commit->nsubmissions + 1, sizeof *all);
    if (all == NULL)
        return tci_arena_error(a, err);
    for (size_t i = 0; i < e->commit->nsubmissions; i++) {
        if (e->commit->submissions[i].conversation_id == e->view->conversation)
            all[n++] = &e->commit->submissions[i];
    }
    if (n > 1)
        qsort(all, n, sizeof *all, compare_submissions);
    for (size_t i = 0; i < n; i++) {
        bool first = tci_event_begin(e, "submission");
        tci_put_raw_member(e->out, &first, TC_STR("record"), all[i]->json);
        tci_event_end(e);
    }
    return 0;
}

void tci_events_put_inbox(tci_buf *b, const tci_json *inbox)
{
    const tci_json *items = tci_json_get(inbox, TC_STR("items"));
    tci_buf_append_byte(b, '[');
    for (size_t i = 0; i < tci_event_count(items); i++) {
        const tci_json *mode = tci_json_get(&items->u.items[i], TC_STR("mode"));
        tci_buf_printf(b, "%s{\"id\":%llu,\"mode\":", i > 0 ? "," : "",
                       (unsigned long long)tci_event_id(&items->u.items[i], "id"));
        if (mode != NULL)
            tci_json_put(b, mode, TCI_JSON_AS_IS);
        else
            tci_buf_append_str(b, TC_STR("\"write\""));
        tci_buf_append_byte(b, '}');
    }
    tci_buf_append_byte(b, ']');
}

static const tci_commit_doc *changed_doc(const tci_events *e, const tc_doc_def *def)
{
    for (size_t i = 0; i < e->commit->ndocs; i++) {
        const tci_commit_doc *doc = &e->commit->docs[i];
        if (doc->record->scope == TCI_SCOPE_CONVERSATION &&
            doc->record->owner_id == e->view->conversation && !doc->record->has_key &&
            tci_str_eq(doc->record->kind, tci_str(def->kind)))
            return doc;
    }
    return NULL;
}

static void put_doc(tci_events *e, const tc_doc_def *def, const char *type, const char *key)
{
    const tci_commit_doc *doc = changed_doc(e, def);
    bool first = false;
    if (doc == NULL)
        return;
    tci_event_begin(e, type);
    if (doc->value != NULL)
        tci_event_value(e, key, doc->value);
    else
        tci_put_raw_member(e->out, &first, tci_str(key), tci_str(def->initial_json));
    tci_event_end(e);
}

static void put_docs(tci_events *e)
{
    const tci_commit_doc *inbox = changed_doc(e, &tci_inbox_doc);
    if (inbox != NULL) {
        tci_event_begin(e, "inbox_update");
        tci_buf_append_str(e->out, TC_STR(",\"items\":"));
        tci_events_put_inbox(e->out, inbox->value);
        tci_event_end(e);
    }
    put_doc(e, &tci_agent_doc, "agent_changed", "agent");
    put_doc(e, &tci_usage_doc, "usage_changed", "usage");
}

static void put_compaction_starts(tci_events *e)
{
    const tci_json *now = live_member(e, "compactions");
    for (size_t i = 0; i < tci_event_count(now); i++) {
        const tci_json *c = &now->u.items[i];
        uint64_t task = tci_event_id(c, "taskId");
        bool was_there = false, is_blocking = false;
        for (size_t k = 0; k < e->was->ncompactions && !was_there; k++)
            was_there = e->was->compactions[k].task == task;
        if (was_there)
            continue;
        (void)tci_json_as_bool(tci_json_get(c, TC_STR("blocking")), &is_blocking); /* else not */
        bool first = tci_event_begin(e, "compaction_start");
        tci_put_u64_member(e->out, &first, TC_STR("taskId"), task);
        if (tci_json_get(c, TC_STR("reason")) != NULL)
            tci_event_value(e, "reason", tci_json_get(c, TC_STR("reason")));
        tci_put_bool_member(e->out, &first, TC_STR("blocking"), is_blocking);
        tci_event_end(e);
    }
}

/* ---- one commit ---- */

static bool concerns(const tci_view *v, const tci_commit *c)
{
    bool is = false;
    for (size_t i = 0; i < c->nentries && !is; i++)
        is = c->entries[i].conversation_id == v->conversation;
    for (size_t i = 0; i < c->ntasks && !is; i++)
        is = c->tasks[i].conversation_id == v->conversation;
    for (size_t i = 0; i < c->nsubmissions && !is; i++)
        is = c->submissions[i].conversation_id == v->conversation;
    for (size_t i = 0; i < c->ndocs && !is; i++)
        is = c->docs[i].conversation_id == v->conversation;
    return is;
}

static int put_all(tci_events *e, tc_err *err)
{
    bool turn_ended;
    tci_events_put_tool_starts(e);
    if (tci_events_put_partial(e, err) < 0 || tci_events_put_tool_updates(e, err) < 0)
        return err->code;
    put_attempts(e);
    tci_events_put_nested_ends(e);
    if (put_entries(e, err) < 0)
        return err->code;
    tci_events_put_other_ends(e);
    put_compaction_ends(e);
    if (put_task_ends(e, &turn_ended, err) < 0)
        return err->code;
    if (turn_ended) {
        tci_event_begin(e, "turn_end");
        tci_event_end(e);
    }
    put_run_end(e);
    if (put_submissions(e, err) < 0)
        return err->code;
    put_docs(e);
    put_compaction_starts(e);
    put_run_start(e);
    return 0;
}

int tci_events_of(tci_view *view, const tci_commit *commit, tci_buf *b, tc_err *err)
{
    if (!concerns(view, commit))
        return 0;
    tci_events e = {.view = view, .commit = commit, .out = b, .was = view->facts};
    const tci_commit_doc *live = changed_doc(&e, &tci_live_doc);
    uint64_t id;
    if (tc_result_new(&e.r, err) < 0)
        return err->code;
    e.live = live != NULL ? live->value
                          : tci_view_doc(view->run, &tci_live_doc, view->conversation, &id);
    int rc = live == NULL
                 ? 0
                 : tci_parse(e.r, live->ops.len > 0 ? live->ops : TC_STR("[]"), &e.ops, err);
    if (rc == 0)
        rc = put_all(&e, err);
    if (rc == 0 && live != NULL) {
        tci_facts *facts;
        rc = tci_facts_of(e.live, &facts, err);
        if (rc == 0) {
            tci_facts_free(view->facts);
            view->facts = facts;
        }
    }
    tc_result_free(e.r);
    if (b->len > 0)
        tci_buf_append_byte(b, ']');
    return rc < 0 ? rc : tci_buf_error(b, err);
}

/* ---- the snapshot ---- */

typedef struct putting {
    tci_buf *b;
    bool first;
} putting;

static int put_record(void *user, const tci_entry *entry, tc_err *err)
{
    putting *p = user;
    TCI_UNUSED(err);
    if (!p->first)
        tci_buf_append_byte(p->b, ',');
    p->first = false;
    tci_buf_append_str(p->b, entry->json);
    return 0;
}

static void put_optional(tci_buf *b, const tci_json *live, const char *key, bool as_list)
{
    bool first = false;
    const tci_json *v = tci_json_get(live, tci_str(key));
    if (v != NULL) {
        tci_json_put_key(b, &first, tci_str(key));
        tci_json_put(b, v, TCI_JSON_AS_IS);
    } else if (as_list) {
        tci_put_raw_member(b, &first, tci_str(key), TC_STR("[]"));
    }
}

int tci_events_snapshot(tci_run *run, uint64_t conversation, tci_buf *b, tc_err *err)
{
    putting p = {b, true};
    uint64_t id;
    bool first = false;
    const tci_json *live = tci_view_doc(run, &tci_live_doc, conversation, &id);
    const tci_json *agent = tci_view_doc(run, &tci_agent_doc, conversation, &id);
    const tci_json *usage = tci_view_doc(run, &tci_usage_doc, conversation, &id);
    const tci_json *inputs = tci_json_get(tci_json_get(live, TC_STR("run")), TC_STR("inputs"));
    tci_buf_append_str(b, TC_STR("{\"type\":\"snapshot\",\"entries\":["));
    if (tci_view_each_entry(run, conversation, put_record, &p, err) < 0)
        return err->code;
    tci_buf_append_byte(b, ']');
    if (inputs != NULL) {
        tci_buf_append_str(b, TC_STR(",\"run\":{\"inputs\":"));
        tci_json_put(b, inputs, TCI_JSON_AS_IS);
        tci_buf_append_byte(b, '}');
    }
    put_optional(b, live, "generation", false);
    put_optional(b, live, "tools", true);
    put_optional(b, live, "nestedTools", true);
    put_optional(b, live, "compactions", true);
    put_optional(b, live, "compactionFailure", false);
    tci_json_put_key(b, &first, TC_STR("inbox"));
    tci_events_put_inbox(b, tci_view_doc(run, &tci_inbox_doc, conversation, &id));
    tci_json_put_key(b, &first, TC_STR("agent"));
    if (agent != NULL)
        tci_json_put(b, agent, TCI_JSON_AS_IS);
    else
        tci_buf_append_str(b, tci_str(tci_agent_doc.initial_json));
    tci_json_put_key(b, &first, TC_STR("usage"));
    if (usage != NULL)
        tci_json_put(b, usage, TCI_JSON_AS_IS);
    else
        tci_buf_append_str(b, tci_str(tci_usage_doc.initial_json));
    tci_buf_append_byte(b, '}');
    return tci_buf_error(b, err);
}
