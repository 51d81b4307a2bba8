/* SPDX-License-Identifier: Apache-2.0
 *
 * Events of tool calls, called by the model or by other tools: what their slots in "pi.live" say. On
 * the line. Invariant: a call ends once: when its slot becomes done, or when it vanishes unfinished. */
#include "base/json.h"
#include "harness/generation/context_scan.h"
#include "harness/events.h"

static const tci_json *slots_of(const tci_events *e, bool is_nested)
{
    return tci_json_get(e->live, is_nested ? TC_STR("nestedTools") : TC_STR("tools"));
}

static bool is_call(const tci_json *slot, tc_str id)
{
    tc_str text;
    return tci_json_as_str(tci_json_get(slot, TC_STR("callId")), &text) && tci_str_eq(text, id);
}

/* What was shown of this slot's call; NULL: nothing. */
static const tci_shown_call *was_shown(const tci_events *e, const tci_json *slot, bool is_nested)
{
    const tci_shown_call *calls = is_nested ? e->was->nested : e->was->calls;
    size_t n = is_nested ? e->was->nnested : e->was->ncalls;
    uint64_t task = tci_event_id(slot, "taskId");
    for (size_t i = 0; i < n; i++) {
        if (is_nested ? calls[i].task == task : is_call(slot, calls[i].id))
            return &calls[i];
    }
    return NULL;
}

static const tci_json *shown_now(const tci_events *e, const tci_shown_call *call, bool is_nested)
{
    const tci_json *slots = slots_of(e, is_nested);
    for (size_t i = 0; i < tci_event_count(slots); i++) {
        const tci_json *slot = &slots->u.items[i];
        if (is_nested ? tci_event_id(slot, "taskId") == call->task : is_call(slot, call->id))
            return slot;
    }
    return NULL;
}

/* The members that say which call it is. */
static void put_slot_call(tci_events *e, const tci_json *slot)
{
    static const char *const from[] = {"callId", "name", "taskId", "parentCallId", "parentTaskId"};
    static const char *const to[] = {"toolCallId", "toolName", "taskId", "parentToolCallId",
                                     "parentTaskId"};
    for (size_t i = 0; i < sizeof from / sizeof from[0]; i++) {
        const tci_json *v = tci_json_get(slot, tci_str(from[i]));
        if (v != NULL)
            tci_event_value(e, to[i], v);
    }
}

static void put_shown_call(tci_events *e, const tci_shown_call *c)
{
    bool first = false;
    tci_put_str_member(e->out, &first, TC_STR("toolCallId"), c->id);
    tci_put_str_member(e->out, &first, TC_STR("toolName"), c->name);
    if (c->task != 0)
        tci_put_u64_member(e->out, &first, TC_STR("taskId"), c->task);
    if (c->parent_task != 0) {
        tci_put_str_member(e->out, &first, TC_STR("parentToolCallId"), c->parent_id);
        tci_put_u64_member(e->out, &first, TC_STR("parentTaskId"), c->parent_task);
    }
}

/* ---- beginnings ---- */

/* The arguments in the checkpoint that the commit gave the task. */
static tc_str arguments_of(const tci_events *e, uint64_t task)
{
    for (size_t i = 0; i < e->commit->ntasks; i++) {
        if (e->commit->tasks[i].id != task)
            continue;
        tc_str state = tci_part_get(e->commit->tasks[i].json, TC_STR("state"));
        tc_str found = tci_part_get(tci_part_get(state, TC_STR("checkpoint")), TC_STR("arguments"));
        if (found.len > 0)
            return found;
    }
    return TC_STR("{}");
}

static void put_starts(tci_events *e, bool is_nested)
{
    const tci_json *slots = slots_of(e, is_nested);
    for (size_t i = 0; i < tci_event_count(slots); i++) {
        const tci_json *slot = &slots->u.items[i];
        const tci_shown_call *was = was_shown(e, slot, is_nested);
        const tci_json *arguments = is_nested ? tci_json_get(slot, TC_STR("arguments")) : NULL;
        if (!tci_event_is(slot, "status", "running") || (was != NULL && was->is_running))
            continue;
        bool first = tci_event_begin(e, "tool_execution_start");
        put_slot_call(e, slot);
        if (arguments != NULL)
            tci_event_value(e, "args", arguments);
        else
            tci_put_raw_member(e->out, &first, TC_STR("args"),
                               arguments_of(e, is_nested ? 0 : tci_event_id(slot, "taskId")));
        tci_event_end(e);
    }
}

void tci_events_put_tool_starts(tci_events *e)
{
    put_starts(e, false);
    put_starts(e, true);
}

/* ---- progress ---- */

typedef struct progress {
    bool is_output_set, has_details, has_diagnostics;
    uint64_t trimmed;
    tci_buf appended; /* JSON strings' insides are joined decoded */
} progress;

/* What one operation does to the slot at list[index]. */
static void look_at(progress *p, const tci_json *op, const char *list, size_t index)
{
    const char *const slot[] = {list, NULL};
    tc_str verb, member = {NULL, 0}, text;
    uint64_t n;
    if (tci_event_count(op) < 2 || !tci_json_as_str(&op->u.items[0], &verb))
        return;
    const tci_json *path = &op->u.items[1];
    bool is_root = tci_str_eq(verb, TC_STR("r"));
    if (!is_root && !tci_event_path_is(path, slot, &index, 2))
        return;
    if (is_root || path->count < 3) { /* the slot was replaced */
        p->is_output_set = p->has_details = p->has_diagnostics = true;
        return;
    }
    (void)tci_json_as_str(&path->u.items[2], &member); /* else none of these */
    p->has_details = p->has_details || tci_str_eq(member, TC_STR("details"));
    p->has_diagnostics = p->has_diagnostics || tci_str_eq(member, TC_STR("diagnostics"));
    if (!tci_str_eq(member, TC_STR("output")))
        return;
    if (tci_str_eq(verb, TC_STR("t")) && op->count == 3 && tci_json_as_u64(&op->u.items[2], &n))
        p->trimmed += n;
    else if (tci_str_eq(verb, TC_STR("a")) && op->count == 3 &&
             tci_json_as_str(&op->u.items[2], &text))
        tci_buf_append_str(&p->appended, text);
    else
        p->is_output_set = true;
}

static void put_progress(tci_events *e, const tci_json *slot, const progress *p)
{
    bool has_output = p->is_output_set || p->trimmed > 0 || p->appended.len > 0;
    const tci_json *details = tci_json_get(slot, TC_STR("details"));
    const tci_json *diagnostics = tci_json_get(slot, TC_STR("diagnostics"));
    const tci_json *output = tci_json_get(slot, TC_STR("output"));
    if (!has_output && !p->has_details && !p->has_diagnostics)
        return;
    bool first = tci_event_begin(e, "tool_execution_update"), first_change = true;
    put_slot_call(e, slot);
    if (has_output) {
        tci_json_put_key(e->out, &first, TC_STR("output"));
        tci_buf_append_byte(e->out, '{');
        if (p->is_output_set) {
            tci_buf_append_str(e->out, TC_STR("\"set\":"));
            if (output != NULL)
                tci_json_put(e->out, output, TCI_JSON_AS_IS);
            else
                tci_buf_append_str(e->out, TC_STR("\"\""));
        } else {
            if (p->trimmed > 0)
                tci_put_u64_member(e->out, &first_change, TC_STR("trimStart"), p->trimmed);
            if (p->appended.len > 0)
                tci_put_str_member(e->out, &first_change, TC_STR("append"),
                                   tci_buf_str(&p->appended));
        }
        tci_buf_append_byte(e->out, '}');
    }
    if (p->has_details && details != NULL)
        tci_event_value(e, "details", details);
    else if (p->has_details)
        tci_put_raw_member(e->out, &first, TC_STR("details"), TC_STR("null"));
    if (p->has_diagnostics && diagnostics != NULL)
        tci_event_value(e, "diagnostics", diagnostics);
    else if (p->has_diagnostics)
        tci_put_raw_member(e->out, &first, TC_STR("diagnostics"), TC_STR("[]"));
    tci_event_end(e);
}

static int put_updates(tci_events *e, bool is_nested, tc_err *err)
{
    const tci_json *slots = slots_of(e, is_nested);
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < tci_event_count(slots); i++) {
        const tci_json *slot = &slots->u.items[i];
        const tci_shown_call *was = was_shown(e, slot, is_nested);
        progress p = {.trimmed = 0};
        if (!tci_event_is(slot, "status", "running") || was == NULL || !was->is_running)
            continue;
        tci_buf_init(&p.appended, TCI_BUF_MAX);
        for (size_t k = 0; k < tci_event_count(e->ops); k++)
            look_at(&p, &e->ops->u.items[k], is_nested ? "nestedTools" : "tools", i);
        rc = tci_buf_error(&p.appended, err);
        if (rc == 0)
            put_progress(e, slot, &p);
        tci_buf_done(&p.appended);
    }
    return rc;
}

int tci_events_put_tool_updates(tci_events *e, tc_err *err)
{
    int rc = put_updates(e, false, err);
    return rc < 0 ? rc : put_updates(e, true, err);
}

/* ---- ends of calls made by tools ---- */

/* What the commit stored as the result of a nested call; NULL: nothing. */
static const tci_json *nested_result(const tci_events *e, uint64_t task)
{
    for (size_t i = 0; i < e->commit->ndocs; i++) {
        const tci_commit_doc *doc = &e->commit->docs[i];
        if (doc->value != NULL && doc->conversation_id == e->view->conversation &&
            tci_str_eq(doc->record->kind, TC_STR("pi.tool.nested-call")) &&
            tci_event_id(doc->value, "taskId") == task &&
            tci_json_get(doc->value, TC_STR("result")) != NULL)
            return tci_json_get(doc->value, TC_STR("result"));
    }
    return NULL;
}

static void put_nested_result(tci_events *e, uint64_t task)
{
    const tci_json *result = nested_result(e, task);
    if (result != NULL)
        tci_event_value(e, "result", result);
    tci_event_end(e);
}

/* Those that were called last end first: callers stand before what they called. */
void tci_events_put_nested_ends(tci_events *e)
{
    const tci_json *slots = slots_of(e, true);
    for (size_t i = e->was->nnested; i-- > 0;) {
        const tci_shown_call *call = &e->was->nested[i];
        const tci_json *slot = shown_now(e, call, true);
        if (call->is_done || (slot != NULL && !tci_event_is(slot, "status", "done")))
            continue;
        tci_event_begin(e, "tool_execution_end");
        put_shown_call(e, call);
        put_nested_result(e, call->task);
    }
    for (size_t i = tci_event_count(slots); i-- > 0;) {
        const tci_json *slot = &slots->u.items[i];
        if (!tci_event_is(slot, "status", "done") || was_shown(e, slot, true) != NULL)
            continue;
        tci_event_begin(e, "tool_execution_end");
        put_slot_call(e, slot);
        put_nested_result(e, tci_event_id(slot, "taskId"));
    }
}

/* ---- ends of the model's calls ---- */

/* The entry of this commit that is the result of the call; NULL: none. */
static const tci_entry *result_entry(const tci_events *e, tc_str call_id)
{
    for (size_t i = 0; i < e->commit->nentries; i++) {
        const tci_entry *entry = &e->commit->entries[i];
        tci_parts messages;
        tc_str message;
        if (entry->conversation_id == e->view->conversation &&
            tci_part_array(tci_part_get(entry->json, TC_STR("model")), &messages) &&
            tci_part_item(&messages, &message) &&
            tci_part_is_str(tci_part_get(message, TC_STR("role")), TC_STR("toolResult")) &&
            tci_part_is_str(tci_part_get(message, TC_STR("toolCallId")), call_id))
            return entry;
    }
    return NULL;
}

static const tci_entry *entry_of(const tci_events *e, uint64_t id)
{
    for (size_t i = 0; id != 0 && i < e->commit->nentries; i++) {
        if (e->commit->entries[i].id == id &&
            e->commit->entries[i].conversation_id == e->view->conversation)
            return &e->commit->entries[i];
    }
    return NULL;
}

/* Write the ends whose result entry is this one; NULL: those without one. */
static void put_ends(tci_events *e, const tci_entry *wanted)
{
    const tci_json *slots = slots_of(e, false);
    bool first = false;
    for (size_t i = 0; i < e->was->ncalls; i++) {
        const tci_shown_call *call = &e->was->calls[i];
        const tci_json *slot = shown_now(e, call, false);
        if (call->is_done || (slot != NULL && !tci_event_is(slot, "status", "done")))
            continue;
        const tci_entry *entry =
            slot != NULL ? entry_of(e, tci_event_id(slot, "entry")) : result_entry(e, call->id);
        if (entry != wanted)
            continue;
        tci_event_begin(e, "tool_execution_end");
        put_shown_call(e, call);
        if (entry != NULL)
            tci_put_raw_member(e->out, &first, TC_STR("entry"), entry->json);
        tci_event_end(e);
    }
    for (size_t i = 0; i < tci_event_count(slots); i++) {
        const tci_json *slot = &slots->u.items[i];
        const tci_entry *entry = entry_of(e, tci_event_id(slot, "entry"));
        if (!tci_event_is(slot, "status", "done") || was_shown(e, slot, false) != NULL ||
            entry != wanted)
            continue;
        tci_event_begin(e, "tool_execution_end");
        put_slot_call(e, slot);
        if (entry != NULL)
            tci_put_raw_member(e->out, &first, TC_STR("entry"), entry->json);
        tci_event_end(e);
    }
}

void tci_events_put_ends_with(tci_events *e, const tci_entry *entry)
{
    put_ends(e, entry);
}

void tci_events_put_other_ends(tci_events *e)
{
    put_ends(e, NULL);
}
