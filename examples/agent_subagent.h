/* SPDX-License-Identifier: Apache-2.0
 *
 * An agent in the background, as a task: what agent_subagents.c spawns. Its input is {"name":...}. It
 * owns a conversation with the script of that name and takes what it is told from its mailbox, one at a
 * time; each answer is reported to the conversation it was spawned in. It ends when there is nothing
 * left to answer. */
#ifndef AGENT_SUBAGENT_H
#define AGENT_SUBAGENT_H

#include "agent_start.h"
#include <inttypes.h>

/* Set by main: where the scripts are, and whether to die between a report and noting that it was made. */
static const char *folder;
static bool is_to_crash;

static tc_str member(const tc_json *v, const char *pointer)
{
    tc_str s = {NULL, 0};
    (void)tc_json_as_str(tc_json_find(v, pointer), &s); /* empty when it is not there */
    return s;
}

static uint64_t number(const tc_json *v, const char *pointer)
{
    uint64_t n = 0;
    (void)tc_json_as_u64(tc_json_find(v, pointer), &n); /* 0 when it is not there */
    return n;
}

/* {"words":[text, ...]}: what it was told and has not looked at. It ends with the task. */
static const tc_doc_def mailbox = {.size = sizeof(tc_doc_def),
                                   .kind = "demo.mailbox",
                                   .version = 1,
                                   .scope = TC_SCOPE_TASK,
                                   .initial_json = "{\"words\":[]}"};

static int begin(void *user, tc_str input, tc_result *r, tc_str *ret_checkpoint, tc_err *err)
{
    (void)user;
    (void)input;
    return tc_result_dup(r, TC_STR("{\"phase\":\"settle\"}"), ret_checkpoint, err);
}

static int go_on(tc_task *t, tc_tx *tx, tc_str checkpoint, tc_err *err)
{
    tc_next next = {.kind = TC_NEXT_RUNNING, .checkpoint = checkpoint};
    return tx == NULL ? tc_task_next(t, &next, err) : tc_task_commit(t, tx, &next, err);
}

/* It works in a conversation it owns. An attempt that was cut off may have made it already. */
static int settle(tc_task *t, tc_err *err)
{
    const tc_task_info *me = tc_task_current(t);
    tc_result *r = tc_task_result(t);
    tc_harness *h = tc_task_harness(t);
    const tc_json *v;
    tc_records owned;
    uint64_t conversation = 0;
    char agent[700], checkpoint[80];
    if (tc_json_parse(r, me->input, &v, err) < 0 ||
        tc_durable_conversations(tc_harness_session(h), 0, me->id, NULL, r, &owned, err) < 0)
        return err->code;
    snprintf(agent, sizeof agent,
             "{\"model\":{\"provider\":\"scripted\",\"modelId\":\"%s/%.*s.json\"},"
             "\"tools\":[\"walk\"]}",
             folder, TC_STR_ARG(member(v, "/name")));
    tc_conversation_options options = {
        .size = sizeof options, .owner_task = me->id, .agent = text(agent)};
    if (owned.count > 0) {
        if (tc_json_parse(r, owned.items[0], &v, err) < 0)
            return err->code;
        conversation = number(v, "/id");
    } else if (tc_conversation_create(h, tc_task_ctx(t), &options, &conversation, err) < 0) {
        return err->code;
    }
    snprintf(checkpoint, sizeof checkpoint,
             "{\"phase\":\"look\",\"conversation\":%" PRIu64 ",\"asked\":0}", conversation);
    return go_on(t, NULL, text(checkpoint), err);
}

/* Take the first message out of the mailbox, or end: the same commit looks and ends, so none is lost. */
static int look(tc_task *t, tc_err *err)
{
    tc_result *r = tc_task_result(t);
    const tc_json *was, *mail, *first = NULL;
    tc_str words;
    tc_tx *tx;
    tc_doc *doc;
    char checkpoint[2000];
    if (tc_json_parse(r, tc_task_current(t)->checkpoint, &was, err) < 0 ||
        tc_task_begin(t, &tx, NULL, err) < 0)
        return err->code;
    int rc = tc_tx_doc_value(tx, &mailbox, tc_task_current(t)->id, TC_STR(""), &mail, err);
    if (rc == 0)
        first = tc_json_find(mail, "/words/0");
    if (rc == 0 && first == NULL) {
        tc_next end = {.kind = TC_NEXT_COMPLETED, .result = TC_STR("\"all answered\"")};
        return tc_task_commit(t, tx, &end, err);
    }
    if (rc == 0)
        rc = tc_json_text(first, r, &words, err);
    if (rc == 0)
        rc = tc_tx_doc(tx, &mailbox, tc_task_current(t)->id, TC_STR(""), TC_STR(""), &doc, err);
    if (rc == 0)
        rc = tc_doc_splice(doc, TC_STR("/words"), 0, 1, TC_STR("[]"), err);
    if (rc < 0) {
        tc_tx_rollback(tx);
        return rc;
    }
    snprintf(checkpoint, sizeof checkpoint,
             "{\"phase\":\"ask\",\"conversation\":%" PRIu64 ",\"asked\":%" PRIu64
             ",\"words\":%.*s}",
             number(was, "/conversation"), number(was, "/asked") + 1, TC_STR_ARG(words));
    return go_on(t, tx, text(checkpoint), err);
}

/* Tell the conversation it was spawned in. Busy, that hears it after its tools; idle, it wakes up. */
static int report(tc_task *t, uint64_t asked, tc_str answer, tc_err *err)
{
    const tc_task_info *me = tc_task_current(t);
    tc_result *r = tc_task_result(t);
    const tc_json *v;
    uint64_t submission;
    char words[600], id[64], data[64];
    if (tc_json_parse(r, me->input, &v, err) < 0)
        return err->code;
    snprintf(words, sizeof words, "%.*s reports: %.*s", TC_STR_ARG(member(v, "/name")),
             TC_STR_ARG(answer));
    snprintf(id, sizeof id, "report-%" PRIu64 "-%" PRIu64, me->id, asked);
    snprintf(data, sizeof data, "{\"task\":%" PRIu64 "}", me->id);
    tc_user_input input = {.size = sizeof input,
                           .text = text(words),
                           .request_id = text(id),
                           .entry_kind = TC_STR("demo.report"),
                           .entry_data = text(data),
                           .when_busy = TC_WHEN_BUSY_STEER};
    return tc_conversation_submit(tc_task_harness(t), tc_task_ctx(t), me->conversation_id, &input,
                                  &submission, err);
}

/* Every step of it may be done twice and counts once: both submissions have request ids. */
static int ask(tc_task *t, tc_err *err)
{
    tc_result *r = tc_task_result(t);
    tc_harness *h = tc_task_harness(t);
    tc_call call = TC_CALL(tc_task_ctx(t), r);
    const tc_json *v, *entry;
    tc_submission done;
    tc_str record, answer = TC_STR("no answer");
    uint64_t submission;
    char id[32], checkpoint[80];
    if (tc_json_parse(r, tc_task_current(t)->checkpoint, &v, err) < 0)
        return err->code;
    uint64_t conversation = number(v, "/conversation"), asked = number(v, "/asked");
    snprintf(id, sizeof id, "message-%" PRIu64, asked);
    tc_user_input input = {
        .size = sizeof input, .text = member(v, "/words"), .request_id = text(id)};
    if (tc_conversation_submit(h, call.ctx, conversation, &input, &submission, err) < 0 ||
        tc_submission_wait(h, &call, submission, &done, err) < 0)
        return err->code;
    if (done.answer != 0) {
        if (tc_durable_entry(tc_harness_session(h), 0, done.answer, r, &record, err) < 0 ||
            tc_json_parse(r, record, &entry, err) < 0)
            return err->code;
        answer = member(entry, "/model/0/content/0/text");
    }
    if (report(t, asked, answer, err) < 0)
        return err->code;
    if (is_to_crash)
        _Exit(3);
    snprintf(checkpoint, sizeof checkpoint,
             "{\"phase\":\"look\",\"conversation\":%" PRIu64 ",\"asked\":%" PRIu64 "}",
             conversation, asked);
    return go_on(t, NULL, text(checkpoint), err);
}

/* What runs in its conversation was ended before. */
static int stop(tc_task *t, tc_err *err)
{
    tc_next next = {.kind = TC_NEXT_ABORTED, .reason = TC_STR("stopped")};
    return tc_task_next(t, &next, err);
}

static const tc_task_phase phases[] = {{"settle", settle}, {"look", look}, {"ask", ask}};
static const tc_task_def subagent = {.size = sizeof(tc_task_def),
                                     .name = "demo.subagent",
                                     .version = 1,
                                     .initial = begin,
                                     .phases = phases,
                                     .nphases = 3,
                                     .abort = stop};
static const tc_task_def *const tasks[] = {&subagent};

#endif
