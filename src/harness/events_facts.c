/* SPDX-License-Identifier: Apache-2.0
 *
 * What is remembered of "pi.live" between two commits. Leaves comparing to events.c. On the line. */
#include "base/json.h"
#include "harness/view.h"

static uint64_t id_of(const tci_json *v, const char *key)
{
    uint64_t id = 0;
    return tci_json_as_u64(tci_json_get(v, tci_str(key)), &id) ? id : 0;
}

static int text_of(tci_facts *f, const tci_json *v, const char *key, tc_str *ret, tc_err *err)
{
    tc_str text;
    *ret = (tc_str){NULL, 0};
    return tci_json_as_str(tci_json_get(v, tci_str(key)), &text)
               ? tci_arena_dup(&f->arena, text, ret, err)
               : 0;
}

static size_t count_of(const tci_json *list)
{
    return list != NULL && list->kind == TCI_JSON_ARRAY ? list->count : 0;
}

static int calls_of(tci_facts *f, const tci_json *slots, const tci_shown_call **ret, size_t *ret_n,
                    tc_err *err)
{
    size_t n = count_of(slots);
    tci_shown_call *calls = tci_arena_items(&f->arena, tci_shown_call, n + 1);
    if (calls == NULL)
        return tci_arena_error(&f->arena, err);
    for (size_t i = 0; i < n; i++) {
        const tci_json *slot = &slots->u.items[i];
        tc_str status = {NULL, 0};
        (void)tci_json_as_str(tci_json_get(slot, TC_STR("status")), &status); /* else neither */
        calls[i] = (tci_shown_call){.task = id_of(slot, "taskId"),
                                    .parent_task = id_of(slot, "parentTaskId"),
                                    .is_running = tci_str_eq(status, TC_STR("running")),
                                    .is_done = tci_str_eq(status, TC_STR("done"))};
        if (text_of(f, slot, "callId", &calls[i].id, err) < 0 ||
            text_of(f, slot, "name", &calls[i].name, err) < 0 ||
            text_of(f, slot, "parentCallId", &calls[i].parent_id, err) < 0)
            return err->code;
    }
    *ret = calls;
    *ret_n = n;
    return 0;
}

static int inputs_of(tci_facts *f, const tci_json *run, tc_err *err)
{
    const tci_json *list = tci_json_get(run, TC_STR("inputs"));
    size_t n = count_of(list);
    uint64_t *inputs = tci_arena_items(&f->arena, uint64_t, n + 1);
    if (inputs == NULL)
        return tci_arena_error(&f->arena, err);
    for (size_t i = 0; i < n; i++) {
        if (tci_json_as_u64(&list->u.items[i], &inputs[f->ninputs]))
            f->ninputs++;
    }
    f->inputs = inputs;
    return 0;
}

static int compactions_of(tci_facts *f, const tci_json *list, tc_err *err)
{
    size_t n = count_of(list);
    tci_shown_compaction *all = tci_arena_items(&f->arena, tci_shown_compaction, n + 1);
    if (all == NULL)
        return tci_arena_error(&f->arena, err);
    for (size_t i = 0; i < n; i++) {
        all[i].task = id_of(&list->u.items[i], "taskId");
        if (text_of(f, &list->u.items[i], "reason", &all[i].reason, err) < 0)
            return err->code;
    }
    f->compactions = all;
    f->ncompactions = n;
    return 0;
}

static int fill(tci_facts *f, const tc_json *live, tc_err *err)
{
    const tci_json *generation = tci_json_get(live, TC_STR("generation"));
    const tci_json *run = tci_json_get(live, TC_STR("run"));
    f->has_message = tci_json_get(generation, TC_STR("message")) != NULL;
    f->has_retry = tci_json_get(generation, TC_STR("retry")) != NULL;
    f->attempt = id_of(generation, "attempt");
    f->poll_at = (int64_t)id_of(tci_json_get(generation, TC_STR("deferred")), "pollAt");
    f->has_run = run != NULL;
    f->run_task = id_of(run, "taskId");
    if (inputs_of(f, run, err) < 0 ||
        calls_of(f, tci_json_get(live, TC_STR("tools")), &f->calls, &f->ncalls, err) < 0 ||
        calls_of(f, tci_json_get(live, TC_STR("nestedTools")), &f->nested, &f->nnested, err) < 0)
        return err->code;
    return compactions_of(f, tci_json_get(live, TC_STR("compactions")), err);
}

int tci_facts_of(const tc_json *live, tci_facts **ret, tc_err *err)
{
    tci_facts *f = tci_new(tci_facts);
    if (f == NULL)
        return tci_err_no_memory(err);
    tci_arena_init(&f->arena, 0);
    if (fill(f, live, err) < 0) {
        tci_facts_free(f);
        return err->code;
    }
    *ret = f;
    return 0;
}

void tci_facts_free(tci_facts *f)
{
    if (f == NULL)
        return;
    tci_arena_done(&f->arena);
    tci_free(f);
}
