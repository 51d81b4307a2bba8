/* SPDX-License-Identifier: Apache-2.0
 *
 * How a generation ends: answers appended, runs settled, handed over or failed, and what the scheduler's
 * own verdict leaves to be done. Leaves deciding to the phases. On the line, in one transaction of the
 * task. Invariant: whoever ends a run settles all its inputs in the same commit. */
#include "base/json.h"
#include "harness/generation/generation.h"
#include "harness/generation/live.h"
#include "harness/generation/usage.h"
#include <stdio.h>

/* ---- answers ---- */

static int append_parsed(tc_tx *tx, uint64_t conversation, tc_str message, const tci_json *v,
                         uint64_t *ret_entry, tc_err *err)
{
    tc_str provider = {NULL, 0}, model = {NULL, 0};
    tci_buf key, usage, draft;
    tci_buf_init(&key, TCI_BUF_MAX);
    tci_buf_init(&usage, TCI_BUF_MAX);
    tci_buf_init(&draft, TCI_BUF_MAX);
    (void)tci_json_as_str(tci_json_get(v, TC_STR("provider")), &provider); /* else empty */
    (void)tci_json_as_str(tci_json_get(v, TC_STR("model")), &model);
    tci_buf_append_str(&key, provider);
    tci_buf_append_byte(&key, '/');
    tci_buf_append_str(&key, model);
    if (tci_json_get(v, TC_STR("usage")) != NULL)
        tci_json_put(&usage, tci_json_get(v, TC_STR("usage")), TCI_JSON_AS_IS);
    tci_buf_append_str(&draft, TC_STR("{\"kind\":\"pi.assistant\",\"model\":["));
    tci_buf_append_str(&draft, message);
    tci_buf_append_str(&draft, TC_STR("]}"));
    int rc = tci_buf_error(&key, err);
    if (rc == 0)
        rc = tci_buf_error(&usage, err);
    if (rc == 0)
        rc = tci_buf_error(&draft, err);
    if (rc == 0)
        rc = tci_usage_record(tx, conversation, TC_STR("models"), tci_buf_str(&key),
                              tci_buf_str(&usage), err);
    if (rc == 0)
        rc = tc_tx_append_entry(tx, conversation, tci_buf_str(&draft), ret_entry, err);
    tci_buf_done(&key);
    tci_buf_done(&usage);
    tci_buf_done(&draft);
    return rc;
}

int tci_append_assistant(tc_tx *tx, uint64_t conversation, tc_str message, uint64_t *ret_entry,
                         tc_err *err)
{
    tci_json v;
    if (tci_json_parse(message, TCI_JSON_DURABLE, tci_tx_arena(tx), &v, err) < 0)
        return err->code;
    return append_parsed(tx, conversation, message, &v, ret_entry, err);
}

int tci_convert_partial(tc_tx *tx, tc_doc *live, uint64_t conversation, tc_err *err)
{
    static const tci_json_change aborted = {{"stopReason", 10}, {"\"aborted\"", 9}};
    const tci_json *partial =
        tci_json_get(tci_json_get(tc_doc_value(live), TC_STR("generation")), TC_STR("message"));
    uint64_t entry;
    tci_buf b;
    if (partial == NULL || partial->kind != TCI_JSON_OBJECT)
        return 0;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_json_edit(&b, partial, &aborted, 1);
    int rc = tci_buf_error(&b, err);
    if (rc == 0)
        rc = tci_append_assistant(tx, conversation, tci_buf_str(&b), &entry, err);
    tci_buf_done(&b);
    return rc;
}

/* ---- runs ---- */

int tci_hand_over(tci_generation *g, tc_tx *tx, tc_doc *live, tc_err *err)
{
    const tc_task_def *def =
        tci_snapshot_task(tci_task_snapshot(g->t), TC_STR("pi.generation"), NULL);
    tc_task_options options = TC_TASK_OPTIONS;
    uint64_t successor;
    options.conversation_id = g->conversation;
    if (tc_tx_create_task_of(tx, def != NULL ? def : &tci_generation_task, TC_STR("{}"), &options,
                             &successor, err) < 0)
        return err->code;
    return tci_live_hand_over(live, g->id, successor, err);
}

int tci_end_and_start(tci_generation *g, tc_tx *tx, tc_doc *live, const tc_settlement *settlement,
                      const tci_placed *placed, tc_err *err)
{
    if (tci_live_end_run(tx, live, g->id, settlement, err) < 0)
        return err->code;
    return placed == NULL || placed->nusers == 0
               ? 0
               : tci_live_start_run(g->h, tx, live, g->conversation, placed->users, placed->nusers,
                                    err);
}

/* ---- failure ---- */

typedef struct failing {
    tci_generation *g;
    const tci_failure *failure;
    tc_str detail_text, detail; /* of the submissions, of the task: JSON */
} failing;

/* What a failed run does with the inputs queued behind it. */
static int end_failed(failing *f, tc_tx *tx, tc_doc *live, tci_boundary *boundary, tc_err *err)
{
    tci_generation *g = f->g;
    const tc_settlement settlement = {.reason = f->failure->reason, .detail = f->detail_text};
    tci_placed placed;
    if (tci_live_end_run(tx, live, g->id, &settlement, err) < 0)
        return err->code;
    switch (g->settings.after_failed_run) {
    case TC_FAILED_RUN_KEEP:
        return 0;
    case TC_FAILED_RUN_WITHDRAW:
        return tci_inbox_withdraw(tx, g->conversation, TC_STR("run_failed"), err);
    case TC_FAILED_RUN_CONTINUE:
        break;
    }
    if (tci_boundary_apply(tx, boundary, true, tc_task_now(g->t), &placed, err) < 0)
        return err->code;
    return placed.nusers == 0 ? 0
                              : tci_live_start_run(g->h, tx, live, g->conversation, placed.users,
                                                   placed.nusers, err);
}

static int fail(tc_task *t, tc_tx *tx, void *arg, tc_next *next, tc_err *err)
{
    failing *f = arg;
    tci_generation *g = f->g;
    tci_boundary boundary;
    tc_doc *live;
    uint64_t entry;
    TCI_UNUSED(t);
    if (g->settings.after_failed_run == TC_FAILED_RUN_CONTINUE &&
        tci_boundary_prepare(g->h, tx, g->conversation, &boundary, err) < 0)
        return err->code;
    if (tci_doc_of(tx, &tci_live_doc, g->conversation, &live, err) < 0)
        return err->code;
    if (f->failure->message.len > 0 &&
        tci_append_assistant(tx, g->conversation, f->failure->message, &entry, err) < 0)
        return err->code;
    if (f->failure->gain >= 0 && tci_gain_write(tx, g->conversation, (uint64_t)f->failure->gain,
                                                f->failure->gain_at, err) < 0)
        return err->code;
    if (end_failed(f, tx, live, &boundary, err) < 0)
        return err->code;
    next->kind = TC_NEXT_FAILED;
    next->message = f->failure->text;
    next->detail = f->detail;
    return 0;
}

int tci_generation_fail(tci_generation *g, const tci_failure *failure, tc_err *err)
{
    failing f = {.g = g, .failure = failure};
    tci_buf b;
    if (tci_result_printf(g->r, &f.detail, err, "{\"reason\":\"%.*s\"}",
                          TC_STR_ARG(failure->reason)) < 0)
        return err->code;
    if (tci_str_eq(failure->reason, TC_STR("model_error"))) {
        tci_buf_init(&b, TCI_BUF_MAX);
        tci_json_put_str(&b, failure->text);
        if (tci_result_take(g->r, &b, &f.detail_text, err) < 0)
            return err->code;
    }
    return tci_task_change(g->t, fail, &f, err);
}

/* ---- compactions without gain ---- */

const tc_doc_def tci_gain_doc = {.size = sizeof(tc_doc_def),
                                 .kind = "tc.compaction",
                                 .version = 1,
                                 .scope = TC_SCOPE_CONVERSATION,
                                 .history = TC_HISTORY_LATEST,
                                 .fork = TC_FORK_INITIAL,
                                 .initial_json = "{}"};

int tci_gain_read(tc_harness *h, uint64_t conversation, uint64_t *ret_count, uint64_t *ret_at,
                  tc_err *err)
{
    const tc_doc_addr addr = {&tci_gain_doc, conversation, {NULL, 0}};
    tc_result *r;
    tc_str text;
    const tci_json *v;
    *ret_count = *ret_at = 0;
    if (tc_result_new(&r, err) < 0)
        return err->code;
    int rc = tc_durable_snapshot(tci_harness_session(h), &addr, r, &text, err);
    if (rc == 0 && text.len > 0) {
        rc = tci_parse(r, text, &v, err);
        if (rc == 0) {
            (void)tci_json_as_u64(tci_json_get(v, TC_STR("withoutGain")), ret_count); /* else 0 */
            (void)tci_json_as_u64(tci_json_get(v, TC_STR("at")), ret_at);
        }
    }
    tc_result_free(r);
    return rc;
}

int tci_gain_write(tc_tx *tx, uint64_t conversation, uint64_t count, uint64_t at, tc_err *err)
{
    const tc_json *had;
    tc_doc *doc;
    char text[80];
    if (tc_tx_doc_value(tx, &tci_gain_doc, conversation, (tc_str){NULL, 0}, &had, err) < 0)
        return err->code;
    if (had == NULL && count == 0)
        return 0;
    if (tci_doc_of(tx, &tci_gain_doc, conversation, &doc, err) < 0)
        return err->code;
    int n = snprintf(text, sizeof text, "{\"withoutGain\":%llu,\"at\":%llu}",
                     (unsigned long long)count, (unsigned long long)at);
    TC_ASSERT(n > 0 && (size_t)n < sizeof text);
    return tc_doc_replace(doc, tci_str(text), err);
}
