/* SPDX-License-Identifier: Apache-2.0
 *
 * Tool rounds of a generation: starting the calls of an answer, one after another where they must, and
 * what happens when all have ended. Leaves running a call to the tool task. On the task's thread.
 * Invariant: every call of the answer has exactly one slot, and at most one task. */
#include "base/json.h"
#include "harness/generation/generation.h"
#include "harness/generation/live.h"
#include "harness/generation/prompt.h"
#include "harness/calls/tool_int.h"
#include <stdio.h>

typedef struct one_call {
    tc_str id, name;
    bool is_offered;
    uint64_t task;
} one_call;

static bool is_call(const tci_json *item)
{
    tc_str type;
    return tci_json_as_str(tci_json_get(item, TC_STR("type")), &type) &&
           tci_str_eq(type, TC_STR("toolCall"));
}

static const tci_json *content_of(const tci_json *message)
{
    const tci_json *content = tci_json_get(message, TC_STR("content"));
    return content != NULL && content->kind == TCI_JSON_ARRAY ? content : NULL;
}

const tci_json *tci_find_call(const tci_json *message, tc_str call_id)
{
    const tci_json *content = content_of(message);
    for (uint32_t i = 0; content != NULL && i < content->count; i++) {
        tc_str id;
        if (is_call(&content->u.items[i]) &&
            tci_json_as_str(tci_json_get(&content->u.items[i], TC_STR("id")), &id) &&
            tci_str_eq(id, call_id))
            return &content->u.items[i];
    }
    return NULL;
}

static int create_task(tci_generation *g, tc_tx *tx, uint64_t assistant, tc_str call_id,
                       uint64_t *ret_task, tc_err *err)
{
    const tc_task_def *def = tci_snapshot_task(tci_task_snapshot(g->t), TC_STR("pi.tool"), NULL);
    tc_task_options options = TC_TASK_OPTIONS;
    tci_buf b;
    bool first = true;
    options.owner_task_id = g->id;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_buf_append_byte(&b, '{');
    tci_put_str_member(&b, &first, TC_STR("kind"), TC_STR("model"));
    tci_put_u64_member(&b, &first, TC_STR("assistant"), assistant);
    tci_put_str_member(&b, &first, TC_STR("callId"), call_id);
    tci_buf_append_byte(&b, '}');
    int rc = tci_buf_error(&b, err);
    if (rc == 0)
        rc = tc_tx_create_task_of(tx, def != NULL ? def : &tci_tool_task, tci_buf_str(&b), &options,
                                  ret_task, err);
    tci_buf_done(&b);
    return rc;
}

/* {"phase":"tools","assistant":..,"tools":[..],"pending":[..]} */
static int put_checkpoint(tci_generation *g, uint64_t assistant, const uint64_t *tasks,
                          size_t ntasks, const tc_str *pending, size_t npending, tc_str *ret,
                          tc_err *err)
{
    tci_buf b;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_buf_printf(&b, "{\"phase\":\"tools\",\"assistant\":%llu,\"tools\":[",
                   (unsigned long long)assistant);
    for (size_t i = 0; i < ntasks; i++)
        tci_buf_printf(&b, "%s%llu", i > 0 ? "," : "", (unsigned long long)tasks[i]);
    tci_buf_append_str(&b, TC_STR("],\"pending\":["));
    for (size_t i = 0; i < npending; i++) {
        if (i > 0)
            tci_buf_append_byte(&b, ',');
        tci_json_put_str(&b, pending[i]);
    }
    tci_buf_append_str(&b, TC_STR("]}"));
    return tci_result_take(g->r, &b, ret, err);
}

/* ---- the start ---- */

typedef struct starting {
    tci_generation *g;
    tc_str message;
    one_call *calls;
    size_t ncalls;
    bool is_sequential;
    uint64_t *tasks;
    tc_str *pending;
    size_t ntasks, npending;
} starting;

static int read_calls(starting *s, const tci_json *v, tc_err *err)
{
    const tci_json *content = content_of(v);
    tci_arena *a = tci_result_arena(s->g->r);
    s->calls = tci_arena_items(a, one_call, content->count);
    s->tasks = tci_arena_items(a, uint64_t, content->count);
    s->pending = tci_arena_items(a, tc_str, content->count);
    if (s->calls == NULL || s->tasks == NULL || s->pending == NULL)
        return tci_arena_error(a, err);
    for (uint32_t i = 0; i < content->count; i++) {
        const tci_json *item = &content->u.items[i];
        one_call *c = &s->calls[s->ncalls];
        if (!is_call(item))
            continue;
        (void)tci_json_as_str(tci_json_get(item, TC_STR("id")), &c->id); /* else empty */
        (void)tci_json_as_str(tci_json_get(item, TC_STR("name")), &c->name);
        s->ncalls++;
    }
    return 0;
}

/* Which calls name a tool that the request offered, and whether they must follow each other. */
static int check_calls(starting *s, tc_err *err)
{
    const tci_agent *agent;
    tci_context *c;
    const tci_shown *shown;
    if (tci_task_agent(s->g->t, &agent, err) < 0 ||
        tci_context_read(s->g->h, s->g->conversation, s->g->cutoff, &c, err) < 0)
        return err->code;
    int rc = tci_prompt_replay(c, &shown, err);
    s->is_sequential = s->g->settings.tool_execution == TC_TOOLS_SEQUENTIAL;
    for (size_t i = 0; rc == 0 && i < s->ncalls; i++) {
        const tc_tool *tool = tci_tools_find(&agent->tools, s->calls[i].name);
        s->calls[i].is_offered = tci_prompt_offers(shown, s->calls[i].name);
        if (s->calls[i].is_offered && tool != NULL && tool->is_sequential)
            s->is_sequential = true;
    }
    tci_context_release(s->g->h, c);
    return rc;
}

static int append_unavailable(starting *s, tc_tx *tx, const one_call *c, uint64_t *ret_entry,
                              tc_err *err)
{
    tc_result *r = s->g->r;
    tc_tool_result result;
    tc_str message;
    if (tci_result_printf(r, &message, err, "Tool %.*s is not available", TC_STR_ARG(c->name)) <
            0 ||
        tci_tool_error_result(r, TC_STR("tool_unavailable"), message, &result, err) < 0)
        return err->code;
    return tci_tool_append_result(tx, s->g->conversation, c->id, c->name, &result,
                                  tc_task_now(s->g->t), -1, ret_entry, err);
}

/* Start one call, or leave it for later, and write its slot. */
static int start_call(starting *s, tc_tx *tx, uint64_t assistant, one_call *c, tci_buf *slots,
                      tc_err *err)
{
    bool first = true;
    uint64_t entry = 0;
    if (!c->is_offered) {
        if (append_unavailable(s, tx, c, &entry, err) < 0)
            return err->code;
    } else if (s->is_sequential && s->ntasks > 0) {
        s->pending[s->npending++] = c->id;
    } else {
        if (create_task(s->g, tx, assistant, c->id, &c->task, err) < 0)
            return err->code;
        s->tasks[s->ntasks++] = c->task;
    }
    tci_buf_append_byte(slots, slots->len == 0 ? '[' : ',');
    tci_buf_append_byte(slots, '{');
    tci_put_str_member(slots, &first, TC_STR("callId"), c->id);
    tci_put_str_member(slots, &first, TC_STR("name"), c->name);
    if (c->task != 0)
        tci_put_u64_member(slots, &first, TC_STR("taskId"), c->task);
    tci_put_str_member(slots, &first, TC_STR("status"),
                       c->is_offered ? TC_STR("pending") : TC_STR("done"));
    if (entry != 0)
        tci_put_u64_member(slots, &first, TC_STR("entry"), entry);
    tci_buf_append_byte(slots, '}');
    return 0;
}

static int start(tc_task *t, tc_tx *tx, void *arg, tc_next *next, tc_err *err)
{
    starting *s = arg;
    tci_generation *g = s->g;
    tc_doc *live;
    uint64_t assistant;
    tci_buf slots;
    TCI_UNUSED(t);
    if (tci_doc_of(tx, &tci_live_doc, g->conversation, &live, err) < 0 ||
        tci_append_assistant(tx, g->conversation, s->message, &assistant, err) < 0)
        return err->code;
    tci_buf_init(&slots, TCI_BUF_MAX);
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < s->ncalls; i++)
        rc = start_call(s, tx, assistant, &s->calls[i], &slots, err);
    tci_buf_append_byte(&slots, ']');
    if (rc == 0)
        rc = tci_buf_error(&slots, err);
    if (rc == 0)
        rc = tc_doc_delete(live, TC_STR("/generation"), err);
    if (rc == 0)
        rc = tc_doc_set(live, TC_STR("/tools"), tci_buf_str(&slots), err);
    tci_buf_done(&slots);
    if (rc < 0)
        return rc;
    *next = (tc_next){.kind = TC_NEXT_WAITING, .on = s->tasks, .non = s->ntasks};
    return put_checkpoint(g, assistant, s->tasks, s->ntasks, s->pending, s->npending,
                          &next->checkpoint, err);
}

int tci_generation_start_tools(tci_generation *g, tc_str message, const tci_json *v, tc_err *err)
{
    starting s = {.g = g, .message = message};
    if (read_calls(&s, v, err) < 0 || check_calls(&s, err) < 0)
        return err->code;
    return tci_task_change(g->t, start, &s, err);
}

/* ---- the next call of a sequential round ---- */

typedef struct round_state {
    tci_generation g;
    uint64_t assistant;
    uint64_t *tasks; /* room for one more */
    size_t ntasks;
    tc_str *pending;
    size_t npending;
} round_state;

static int start_next(tc_task *t, tc_tx *tx, void *arg, tc_next *next, tc_err *err)
{
    round_state *s = arg;
    tc_doc *live;
    uint64_t task;
    char id[24];
    TCI_UNUSED(t);
    if (tci_doc_of(tx, &tci_live_doc, s->g.conversation, &live, err) < 0 ||
        create_task(&s->g, tx, s->assistant, s->pending[0], &task, err) < 0)
        return err->code;
    tci_spot slot = tci_live_slot_without_task(tc_doc_value(live), s->pending[0]);
    if (slot.text[0] != '\0') {
        tci_spot at = tci_spot_member(&slot, "taskId");
        (void)snprintf(id, sizeof id, "%llu", (unsigned long long)task); /* 20 digits at most */
        if (tc_doc_set(live, tci_spot_str(&at), tci_str(id), err) < 0)
            return err->code;
    }
    s->tasks[s->ntasks] = task;
    *next = (tc_next){.kind = TC_NEXT_WAITING, .on = &s->tasks[s->ntasks], .non = 1};
    return put_checkpoint(&s->g, s->assistant, s->tasks, s->ntasks + 1, s->pending + 1,
                          s->npending - 1, &next->checkpoint, err);
}

/* ---- the end ---- */

typedef struct ending {
    round_state *s;
    uint64_t *results;
    size_t nresults;
    tc_str *added;
    size_t nadded, added_cap;
    bool has_handoff, is_terminated;
    tc_str handoff;
} ending;

/* The control a tool ended with; NULL: none. */
static int control_of(round_state *s, uint64_t task, const tci_json **ret, tc_err *err)
{
    tc_str outcome, text;
    const tci_json *v;
    *ret = NULL;
    if (tc_task_outcome(s->g.t, task, &outcome, err) < 0 || tci_parse(s->g.r, outcome, &v, err) < 0)
        return err->code;
    const tci_json *result = tci_json_get(v, TC_STR("result"));
    if (!tci_json_as_str(tci_json_get(v, TC_STR("status")), &text) ||
        !tci_str_eq(text, TC_STR("completed")) ||
        (tci_json_as_str(tci_json_get(result, TC_STR("kind")), &text) &&
         tci_str_eq(text, TC_STR("nested"))))
        return 0;
    *ret = tci_json_get(result, TC_STR("control"));
    return 0;
}

static int add_names(ending *e, const tci_json *names, tc_err *err)
{
    tci_arena *a = tci_result_arena(e->s->g.r);
    for (uint32_t i = 0; names != NULL && names->kind == TCI_JSON_ARRAY && i < names->count; i++) {
        tc_str name;
        if (!tci_json_as_str(&names->u.items[i], &name))
            continue;
        if (e->nadded == e->added_cap) {
            size_t cap = e->added_cap == 0 ? 16 : e->added_cap * 2;
            tc_str *grown =
                tci_arena_grow(a, e->added, e->nadded * sizeof *grown, cap * sizeof *grown);
            if (grown == NULL)
                return tci_arena_error(a, err);
            e->added = grown;
            e->added_cap = cap;
        }
        e->added[e->nadded++] = name;
    }
    return 0;
}

static int read_controls(ending *e, size_t nslots, tc_err *err)
{
    round_state *s = e->s;
    size_t nterminating = 0;
    for (size_t i = 0; i < s->ntasks; i++) {
        const tci_json *control;
        bool is_terminating = false;
        if (control_of(s, s->tasks[i], &control, err) < 0 ||
            add_names(e, tci_json_get(control, TC_STR("addTools")), err) < 0)
            return err->code;
        if (tci_json_as_bool(tci_json_get(control, TC_STR("terminate")), &is_terminating) &&
            is_terminating)
            nterminating++;
        if (tci_json_as_str(tci_json_get(control, TC_STR("handoff")), &e->handoff))
            e->has_handoff = true; /* of several, the last in call order */
    }
    e->is_terminated = nslots > 0 && nterminating == nslots;
    return 0;
}

/* The entries that the round's calls ended with, and how many calls there were. */
static int read_results(ending *e, size_t *ret_nslots, tc_err *err)
{
    tci_generation *g = &e->s->g;
    const tc_doc_addr addr = {&tci_live_doc, g->conversation, {NULL, 0}};
    tc_str text;
    const tci_json *live;
    *ret_nslots = 0;
    if (tc_durable_snapshot(tci_harness_session(g->h), &addr, g->r, &text, err) < 0)
        return err->code;
    if (text.len == 0)
        return 0;
    if (tci_parse(g->r, text, &live, err) < 0)
        return err->code;
    const tci_json *slots = tci_json_get(live, TC_STR("tools"));
    if (slots == NULL || slots->kind != TCI_JSON_ARRAY)
        return 0;
    e->results = tci_arena_items(tci_result_arena(g->r), uint64_t, slots->count + 1);
    if (e->results == NULL)
        return tci_arena_error(tci_result_arena(g->r), err);
    for (uint32_t i = 0; i < slots->count; i++) {
        uint64_t entry;
        if (tci_json_as_u64(tci_json_get(&slots->u.items[i], TC_STR("entry")), &entry))
            e->results[e->nresults++] = entry;
    }
    *ret_nslots = slots->count;
    return 0;
}

static int after_tools(ending *e, tc_err *err)
{
    tci_generation *g = &e->s->g;
    const tci_agent *agent;
    tc_hook hook = {g->t};
    if (tci_task_agent(g->t, &agent, err) < 0)
        return err->code;
    for (size_t i = 0; i < agent->nextensions; i++) {
        const tc_extension *x = agent->extensions[i];
        tc_err failure;
        if (x->hooks == NULL || x->hooks->after_tools == NULL)
            continue;
        if (x->hooks->after_tools(x->user, &hook, e->s->assistant, e->results, e->nresults,
                                  &failure) < 0) {
            if (tci_ctx_check(tc_task_ctx(g->t), err) < 0)
                return err->code;
            tci_hook_failed(g->t, x, &failure);
        }
    }
    return 0;
}

static int append_handoff(ending *e, tc_tx *tx, tci_boundary *boundary, int64_t now_ms, tc_err *err)
{
    tci_buf b;
    uint64_t entry;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_buf_append_str(&b, TC_STR("{\"kind\":\"pi.reset\",\"head\":\"self\",\"model\":[{\"role\":"
                                  "\"user\",\"content\":"));
    tci_json_put_str(&b, e->handoff);
    tci_buf_printf(&b, ",\"timestamp\":%lld}]}", (long long)now_ms);
    int rc = tci_buf_error(&b, err);
    if (rc == 0)
        rc = tc_tx_append_entry(tx, e->s->g.conversation, tci_buf_str(&b), &entry, err);
    tci_buf_done(&b);
    if (rc == 0)
        boundary->head = entry;
    return rc;
}

/* The run goes on with another request. */
static int go_on(ending *e, tc_tx *tx, tc_doc *live, const tci_placed *placed, tc_err *err)
{
    tci_generation *g = &e->s->g;
    if (tc_doc_delete(live, TC_STR("/tools"), err) < 0 ||
        tc_doc_delete(live, TC_STR("/nestedTools"), err) < 0 ||
        tci_live_join_run(live, g->id, placed->users, placed->nusers, err) < 0)
        return err->code;
    return tci_hand_over(g, tx, live, err);
}

static int finish(tc_task *t, tc_tx *tx, void *arg, tc_next *next, tc_err *err)
{
    ending *e = arg;
    tci_generation *g = &e->s->g;
    const tc_settlement done = {.answer = e->s->assistant}, reset = {.reason = TC_STR("reset")};
    bool is_over = e->is_terminated || e->has_handoff;
    tci_boundary boundary;
    tci_placed placed;
    tc_doc *live;
    int64_t now_ms = tc_task_now(t);
    if (tci_boundary_prepare(g->h, tx, g->conversation, &boundary, err) < 0)
        return err->code;
    bool has_inputs = tci_inbox_count(tc_doc_value(boundary.inbox)) > 0;
    if (tci_agent_add_tools(tx, g->conversation, e->added, e->nadded, err) < 0 ||
        tci_doc_of(tx, &tci_live_doc, g->conversation, &live, err) < 0 ||
        (e->has_handoff && append_handoff(e, tx, &boundary, now_ms, err) < 0) ||
        tci_boundary_apply(tx, &boundary, is_over, now_ms, &placed, err) < 0)
        return err->code;
    int rc = is_over || placed.is_reset
                 ? tci_end_and_start(g, tx, live, is_over ? &done : &reset, &placed, err)
                 : go_on(e, tx, live, &placed, err);
    if (rc < 0)
        return rc;
    if (!is_over && !has_inputs && e->nadded == 0)
        tci_tx_set_how(
            tx,
            TCI_TX_DEFERRED); /* all of it follows from the results; the next request is pinned */
    next->kind = TC_NEXT_COMPLETED;
    return tci_result_printf(g->r, &next->result, err, "{\"entryId\":%llu}",
                             (unsigned long long)e->s->assistant);
}

/* ---- the phase ---- */

static int read_round(round_state *s, tc_err *err)
{
    const tci_json *tasks = tci_json_get(s->g.checkpoint, TC_STR("tools"));
    const tci_json *pending = tci_json_get(s->g.checkpoint, TC_STR("pending"));
    size_t ntasks = tasks != NULL && tasks->kind == TCI_JSON_ARRAY ? tasks->count : 0;
    size_t npending = pending != NULL && pending->kind == TCI_JSON_ARRAY ? pending->count : 0;
    tci_arena *a = tci_result_arena(s->g.r);
    s->tasks = tci_arena_items(a, uint64_t, ntasks + 1);
    s->pending = tci_arena_items(a, tc_str, npending + 1);
    if (s->tasks == NULL || s->pending == NULL)
        return tci_arena_error(a, err);
    bool is_sound =
        tci_json_as_id(tci_json_get(s->g.checkpoint, TC_STR("assistant")), &s->assistant);
    for (size_t i = 0; i < ntasks; i++)
        is_sound = is_sound && tci_json_as_id(&tasks->u.items[i], &s->tasks[s->ntasks++]);
    for (size_t i = 0; i < npending; i++)
        is_sound = is_sound && tci_json_as_str(&pending->u.items[i], &s->pending[s->npending++]);
    return is_sound ? 0 : tc_err_set(err, TC_E_PARSE, "checkpoint of a tool round is damaged");
}

int tci_generation_tools(tc_task *t, tc_err *err)
{
    round_state s = {.ntasks = 0};
    ending e = {.s = &s};
    size_t nslots;
    if (tci_generation_init(&s.g, t, err) < 0 || read_round(&s, err) < 0)
        return err->code;
    if (s.npending > 0)
        return tci_task_change(t, start_next, &s, err);
    if (read_results(&e, &nslots, err) < 0 || read_controls(&e, nslots, err) < 0 ||
        after_tools(&e, err) < 0)
        return err->code;
    return tci_task_change(t, finish, &e, err);
}
