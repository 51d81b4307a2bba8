/* SPDX-License-Identifier: Apache-2.0
 *
 * Changes "pi.live". Leaves what a tool call shows of itself to the tool task, and streamed answers
 * to the generation. On the line. Invariant: "run" is there exactly while somebody answers; nested
 * slots ascend by task id. */
#include "harness/generation/live.h"
#include "base/json.h"
#include <stdio.h>

tci_spot tci_spot_member(const tci_spot *spot, const char *name)
{
    tci_spot m;
    /* names and spots are ours and short: cut would be a mistake of this file */
    int n = snprintf(m.text, sizeof m.text, "%s/%s", spot->text, name);
    TC_ASSERT(n > 0 && (size_t)n < sizeof m.text);
    return m;
}

static tci_spot spot_at(const char *list, size_t index)
{
    tci_spot s;
    int n = snprintf(s.text, sizeof s.text, "/%s/%zu", list, index);
    TC_ASSERT(n > 0 && (size_t)n < sizeof s.text);
    return s;
}

static uint64_t id_of(const tci_json *v, const char *key)
{
    uint64_t id = 0;
    return tci_json_as_u64(tci_json_get(v, tci_str(key)), &id) ? id : 0;
}

static const tci_json *array_of(const tci_json *live, const char *name)
{
    const tci_json *list = tci_json_get(live, tci_str(name));
    return list != NULL && list->kind == TCI_JSON_ARRAY ? list : NULL;
}

/* ---- runs ---- */

bool tci_live_run(const tc_json *live, uint64_t *ret_task)
{
    const tci_json *run = tci_json_get(live, TC_STR("run"));
    *ret_task = run != NULL ? id_of(run, "taskId") : 0;
    return run != NULL;
}

int tci_live_start_run(tc_harness *h, tc_tx *tx, tc_doc *live, uint64_t conversation,
                       const uint64_t *inputs, size_t ninputs, tc_err *err)
{
    tci_snapshot *snapshot = tci_harness_snapshot(h);
    const tc_task_def *def = tci_snapshot_task(snapshot, TC_STR("pi.generation"), NULL);
    tc_task_options options = TC_TASK_OPTIONS;
    options.conversation_id = conversation;
    uint64_t task = 0;
    int rc = def == NULL ? tc_err_set(err, TC_E_INTERNAL, "registry lacks the pi.generation task")
                         : tc_tx_create_task_of(tx, def, TC_STR("{}"), &options, &task, err);
    tci_snapshot_unref(snapshot);
    if (rc < 0)
        return rc;
    tci_buf b;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_buf_printf(&b, "{\"taskId\":%llu,\"inputs\":[", (unsigned long long)task);
    for (size_t i = 0; i < ninputs; i++)
        tci_buf_printf(&b, "%s%llu", i > 0 ? "," : "", (unsigned long long)inputs[i]);
    tci_buf_append_str(&b, TC_STR("]}"));
    rc = tci_buf_error(&b, err);
    if (rc == 0)
        rc = tc_doc_set(live, TC_STR("/run"), tci_buf_str(&b), err);
    tci_buf_done(&b);
    return rc;
}

int tci_live_join_run(tc_doc *live, uint64_t task, const uint64_t *inputs, size_t ninputs,
                      tc_err *err)
{
    uint64_t running;
    if (ninputs == 0 || !tci_live_run(tc_doc_value(live), &running) || running != task)
        return 0;
    const tci_json *had = array_of(tci_json_get(tc_doc_value(live), TC_STR("run")), "inputs");
    tci_buf b;
    tci_buf_init(&b, TCI_BUF_MAX);
    for (size_t i = 0; i < ninputs; i++)
        tci_buf_printf(&b, "%c%llu", i > 0 ? ',' : '[', (unsigned long long)inputs[i]);
    tci_buf_append_byte(&b, ']');
    int rc = tci_buf_error(&b, err);
    if (rc == 0 && had != NULL)
        rc = tc_doc_splice(live, TC_STR("/run/inputs"), had->count, 0, tci_buf_str(&b), err);
    else if (rc == 0)
        rc = tc_doc_set(live, TC_STR("/run/inputs"), tci_buf_str(&b), err);
    tci_buf_done(&b);
    return rc;
}

int tci_live_hand_over(tc_doc *live, uint64_t from_task, uint64_t to_task, tc_err *err)
{
    uint64_t running;
    char id[24];
    if (!tci_live_run(tc_doc_value(live), &running) || running != from_task)
        return 0;
    (void)snprintf(id, sizeof id, "%llu", (unsigned long long)to_task); /* 20 digits at most */
    return tc_doc_set(live, TC_STR("/run/taskId"), tci_str(id), err);
}

int tci_live_end_run(tc_tx *tx, tc_doc *live, uint64_t task, const tc_settlement *settlement,
                     tc_err *err)
{
    static const char *const shown[] = {"/generation", "/tools", "/nestedTools"};
    uint64_t running;
    if (tci_live_run(tc_doc_value(live), &running) && running == task) {
        const tci_json *inputs =
            array_of(tci_json_get(tc_doc_value(live), TC_STR("run")), "inputs");
        for (uint32_t i = 0; inputs != NULL && i < inputs->count; i++) {
            uint64_t id;
            if (tci_json_as_u64(&inputs->u.items[i], &id) &&
                tc_tx_settle_submission(tx, id, settlement, err) < 0)
                return err->code;
        }
        if (tc_doc_delete(live, TC_STR("/run"), err) < 0)
            return err->code;
    }
    for (size_t i = 0; i < sizeof shown / sizeof shown[0]; i++) {
        if (tci_json_get(tc_doc_value(live), tci_str(shown[i] + 1)) != NULL &&
            tc_doc_delete(live, tci_str(shown[i]), err) < 0)
            return err->code;
    }
    return 0;
}

/* ---- tool calls ---- */

tci_spot tci_live_slot(const tc_json *live, uint64_t task)
{
    const tci_json *slots = array_of(live, "tools");
    for (uint32_t i = 0; slots != NULL && i < slots->count; i++) {
        if (id_of(&slots->u.items[i], "taskId") == task)
            return spot_at("tools", i);
    }
    const tci_json *nested = array_of(live, "nestedTools");
    size_t low = 0, high = nested != NULL ? nested->count : 0;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        uint64_t id = id_of(&nested->u.items[middle], "taskId");
        if (id == task)
            return spot_at("nestedTools", middle);
        if (id < task)
            low = middle + 1;
        else
            high = middle;
    }
    return (tci_spot){""};
}

tci_spot tci_live_slot_without_task(const tc_json *live, tc_str call_id)
{
    const tci_json *slots = array_of(live, "tools");
    for (uint32_t i = 0; slots != NULL && i < slots->count; i++) {
        const tci_json *slot = &slots->u.items[i];
        tc_str id, status;
        if (tci_json_as_str(tci_json_get(slot, TC_STR("callId")), &id) && tci_str_eq(id, call_id) &&
            id_of(slot, "taskId") == 0 &&
            tci_json_as_str(tci_json_get(slot, TC_STR("status")), &status) &&
            tci_str_eq(status, TC_STR("pending")))
            return spot_at("tools", i);
    }
    return (tci_spot){""};
}

int tci_live_clear_progress(tc_doc *live, const tci_spot *slot, tc_err *err)
{
    static const char *const progress[] = {"output", "droppedBytes", "droppedLines", "details",
                                           "diagnostics"};
    for (size_t i = 0; i < sizeof progress / sizeof progress[0]; i++) {
        tci_spot at = tci_spot_member(slot, progress[i]);
        if (tc_doc_delete(live, tci_spot_str(&at), err) < 0)
            return err->code;
    }
    return 0;
}

int tci_live_finish_slot(tc_doc *live, const tci_spot *slot, tc_err *err)
{
    tci_spot status = tci_spot_member(slot, "status");
    if (tc_doc_set(live, tci_spot_str(&status), TC_STR("\"done\""), err) < 0)
        return err->code;
    return tci_live_clear_progress(live, slot, err);
}

int tci_live_remove_nested(tc_doc *live, uint64_t task, tc_err *err)
{
    const tci_json *nested = array_of(tc_doc_value(live), "nestedTools");
    if (nested == NULL)
        return 0;
    size_t n = nested->count, nremoved = 1;
    uint64_t *removed = tci_mem_array(n + 1, sizeof *removed);
    bool *is_gone = tci_mem_array(n, sizeof *is_gone);
    int rc = removed == NULL || is_gone == NULL ? tci_err_no_memory(err) : 0;
    if (rc == 0)
        removed[0] = task;
    for (size_t i = 0; rc == 0 && i < n; i++) { /* callers stand before what they called */
        uint64_t parent = id_of(&nested->u.items[i], "parentTaskId");
        for (size_t k = 0; k < nremoved && !is_gone[i]; k++)
            is_gone[i] = removed[k] == parent;
        if (is_gone[i])
            removed[nremoved++] = id_of(&nested->u.items[i], "taskId");
    }
    if (rc == 0 && nremoved == n + 1)
        rc = tc_doc_delete(live, TC_STR("/nestedTools"), err);
    for (size_t i = n; rc == 0 && nremoved <= n && i-- > 0;) {
        if (is_gone[i])
            rc = tc_doc_splice(live, TC_STR("/nestedTools"), i, 1, TC_STR("[]"), err);
    }
    tci_mem_free(removed);
    tci_mem_free(is_gone);
    return rc;
}

/* ---- compactions ---- */

int tci_live_add_compaction(tc_doc *live, uint64_t task, tc_str reason, bool is_blocking,
                            tc_err *err)
{
    const tci_json *had = array_of(tc_doc_value(live), "compactions");
    tci_buf b;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_buf_printf(&b, "[{\"taskId\":%llu,\"reason\":\"%.*s\",\"blocking\":%s,\"attempt\":1}]",
                   (unsigned long long)task, TC_STR_ARG(reason), is_blocking ? "true" : "false");
    int rc = tci_buf_error(&b, err);
    if (rc == 0 && had == NULL)
        rc = tc_doc_set(live, TC_STR("/compactions"), tci_buf_str(&b), err);
    else if (rc == 0)
        rc = tc_doc_splice(live, TC_STR("/compactions"), had->count, 0, tci_buf_str(&b), err);
    tci_buf_done(&b);
    return rc;
}

tci_spot tci_live_compaction(const tc_json *live, uint64_t task)
{
    const tci_json *list = array_of(live, "compactions");
    for (uint32_t i = 0; list != NULL && i < list->count; i++) {
        if (id_of(&list->u.items[i], "taskId") == task)
            return spot_at("compactions", i);
    }
    return (tci_spot){""};
}

int tci_live_remove_compaction(tc_doc *live, uint64_t task, tc_err *err)
{
    const tci_json *list = array_of(tc_doc_value(live), "compactions");
    for (uint32_t i = 0; list != NULL && i < list->count; i++) {
        if (id_of(&list->u.items[i], "taskId") != task)
            continue;
        if (list->count == 1)
            break;
        return tc_doc_splice(live, TC_STR("/compactions"), i, 1, TC_STR("[]"), err);
    }
    tci_spot spot = tci_live_compaction(tc_doc_value(live), task);
    if (list != NULL && (list->count == 0 || spot.text[0] != '\0'))
        return tc_doc_delete(live, TC_STR("/compactions"), err);
    return 0;
}

int tci_live_fail_compaction(tc_doc *live, uint64_t task, tc_str error, tc_err *err)
{
    tci_spot spot = tci_live_compaction(tc_doc_value(live), task);
    if (spot.text[0] != '\0') {
        const tci_json *list = array_of(tc_doc_value(live), "compactions");
        tc_str reason = {NULL, 0};
        for (uint32_t i = 0; i < list->count; i++) {
            if (id_of(&list->u.items[i], "taskId") == task &&
                !tci_json_as_str(tci_json_get(&list->u.items[i], TC_STR("reason")), &reason))
                reason = TC_STR("manual");
        }
        tci_buf b;
        tci_buf_init(&b, TCI_BUF_MAX);
        bool first = true;
        tci_buf_append_byte(&b, '{');
        tci_put_u64_member(&b, &first, TC_STR("taskId"), task);
        tci_put_str_member(&b, &first, TC_STR("reason"), reason);
        tci_put_str_member(&b, &first, TC_STR("error"), error);
        tci_buf_append_byte(&b, '}');
        int rc = tci_buf_error(&b, err);
        if (rc == 0)
            rc = tc_doc_set(live, TC_STR("/compactionFailure"), tci_buf_str(&b), err);
        tci_buf_done(&b);
        if (rc < 0)
            return rc;
    }
    return tci_live_remove_compaction(live, task, err);
}
