/* SPDX-License-Identifier: Apache-2.0 */
#include "fixture.h"

/* ---- records ---- */

static void an_entry_is_read_back_after_reopening(void **state)
{
    fixture *f = *state;
    make_root(f);
    uint64_t id = say(f, 1, "hello");
    fixture_reopen(f);
    tc_str json = {0};
    ok(tc_durable_entry(f->s, 1, id, f->r, &json, &f->err));
    assert_text(json, "{\"id\":2,\"conversationId\":1,\"kind\":\"pi.user\",\"model\":[{\"role\":"
                      "\"user\",\"content\":\"hello\"}]}");
    ok(tc_durable_conversation(f->s, 1, f->r, &json, &f->err));
    assert_text(json, "{\"id\":1}");
    ok(tc_durable_entry(f->s, 0, 99, f->r, &json, &f->err));
    assert_int_equal(json.len, 0);
}

static void an_empty_commit_writes_nothing(void **state)
{
    fixture *f = *state;
    make_root(f);
    uint64_t before = tc_durable_seq(f->s), seq = 7;
    tc_tx *tx = begin(f);
    ok(tci_tx_commit(tx, TCI_TX_SYNCED, &seq, &f->err));
    assert_int_equal(seq, 0);
    assert_int_equal(tc_durable_seq(f->s), before);
    say(f, 1, "next");
    assert_int_equal(tc_durable_seq(f->s), before + 1);
}

static void a_rollback_leaves_no_trace(void **state)
{
    fixture *f = *state;
    make_root(f);
    tc_tx *tx = begin(f);
    uint64_t id = 0, other = 0;
    ok(tc_tx_append_entry(tx, 1, S("{\"kind\":\"a\"}"), &id, &f->err));
    ok(tc_tx_create_conversation(tx, 0, &other, &f->err));
    tc_tx_rollback(tx);
    tc_str json = {0};
    ok(tc_durable_entry(f->s, 0, id, f->r, &json, &f->err));
    assert_int_equal(json.len, 0);
    ok(tc_durable_conversation(f->s, other, f->r, &json, &f->err));
    assert_int_equal(json.len, 0);
    assert_int_equal(tc_durable_seq(f->s), 1);
}

static void reads_come_before_the_first_table_write(void **state)
{
    fixture *f = *state;
    make_root(f);
    uint64_t id = say(f, 1, "one");
    tc_tx *tx = begin(f);
    tc_str json = {0};
    tc_records records;
    ok(tc_tx_entry(tx, id, f->r, &json, &f->err));
    assert_true(json.len > 0);
    ok(tc_tx_scan_entries(tx, 1, 0, 0, NULL, f->r, &records, &f->err));
    assert_int_equal(records.count, 1);
    ok(tc_tx_append_entry(tx, 1, S("{\"kind\":\"a\"}"), &id, &f->err));
    fails(TC_E_CONFLICT, tc_tx_entry(tx, id, f->r, &json, &f->err));
    assert_says(f, "read after write");
    fails(TC_E_CONFLICT, tc_tx_conversation(tx, 1, f->r, &json, &f->err));
    fails(TC_E_CONFLICT, tc_tx_task(tx, 1, f->r, &json, &f->err));
    fails(TC_E_CONFLICT, tc_tx_submission(tx, 1, f->r, &json, &f->err));
    fails(TC_E_CONFLICT, tc_tx_submission_by_request(tx, 1, S("r"), f->r, &json, &f->err));
    fails(TC_E_CONFLICT, tc_tx_head_marker(tx, 1, f->r, &json, &f->err));
    fails(TC_E_CONFLICT, tc_tx_scan_entries(tx, 1, 0, 0, NULL, f->r, &records, &f->err));
    fails(TC_E_CONFLICT, tc_tx_scan_conversations(tx, 0, 0, NULL, f->r, &records, &f->err));
    fails(TC_E_CONFLICT, tc_tx_scan_tasks(tx, NULL, NULL, f->r, &records, &f->err));
    commit(f, tx);
}

static void a_thread_begins_one_transaction_at_a_time(void **state)
{
    fixture *f = *state;
    tc_tx *tx = begin(f), *second = NULL;
    fails(TC_E_CONFLICT, tc_durable_begin(f->s, NULL, &second, &f->err));
    fails(TC_E_CONFLICT, tc_durable_close(f->s, &f->err));
    tc_tx_rollback(tx);
    tx = begin(f);
    tc_tx_rollback(tx);
}

static void an_ended_transaction_refuses_everything(void **state)
{
    fixture *f = *state;
    make_root(f);
    uint64_t id = 0;
    tc_str json = {0};
    tc_settlement late = {.reason = S("late")};
    tc_tx *tx = begin(f);
    tc_tx_rollback(tx);
    tc_tx_rollback(tx);
    fails(TC_E_CONFLICT, tc_tx_commit(tx, &f->err));
    fails(TC_E_CONFLICT, tc_tx_append_entry(tx, 1, S("{\"kind\":\"a\"}"), &id, &f->err));
    fails(TC_E_CONFLICT, tc_tx_create_conversation(tx, 0, &id, &f->err));
    fails(TC_E_CONFLICT, tc_tx_fork_conversation(tx, 1, 2, 0, &id, &f->err));
    fails(TC_E_CONFLICT, tc_tx_create_root_conversation(tx, &f->err));
    fails(TC_E_CONFLICT, tc_tx_place_submission(tx, 1, 1, &f->err));
    fails(TC_E_CONFLICT, tc_tx_settle_submission(tx, 1, &late, &f->err));
    fails(TC_E_CONFLICT, tc_tx_entry(tx, 1, f->r, &json, &f->err));
    fails(TC_E_CONFLICT, tci_tx_set_task(tx, S("{}"), &f->err));
    assert_int_equal(tc_durable_seq(f->s), 1);
}

static void a_cancelled_context_begins_nothing(void **state)
{
    fixture *f = *state;
    tc_ctx *ctx = NULL;
    tc_tx *tx = NULL;
    ok(tc_ctx_new(-1, &ctx, &f->err));
    tc_ctx_cancel(ctx);
    fails(TC_E_CANCELLED, tc_durable_begin(f->s, ctx, &tx, &f->err));
    tc_ctx_reset(ctx, 0);
    fails(TC_E_TIMEOUT, tc_durable_begin(f->s, ctx, &tx, &f->err));
    tc_ctx_free(ctx);
    tc_tx_rollback(begin(f));
}

/* ---- drafts of entries ---- */

static void an_entry_draft_is_strict(void **state)
{
    fixture *f = *state;
    make_root(f);
    static const char *const bad[] = {
        "[]",
        "{",
        "{\"kind\":\"\"}",
        "{\"kind\":1}",
        "{}",
        "{\"kind\":\"a\",\"other\":1}",
        "{\"kind\":\"a\",\"model\":{}}",
        "{\"kind\":\"a\",\"model\":[{}]}",
        "{\"kind\":\"a\",\"model\":[{\"role\":\"\"}]}",
        "{\"kind\":\"a\",\"head\":null}",
        "{\"kind\":\"a\",\"head\":0}",
        "{\"kind\":\"a\",\"head\":\"other\"}",
        "{\"kind\":\"a\",\"edits\":{}}",
        "{\"kind\":\"a\",\"edits\":[{\"target\":1,\"action\":\"omit\",\"messages\":[]}]}",
        "{\"kind\":\"a\",\"edits\":[{\"target\":1,\"action\":\"replace\"}]}",
        "{\"kind\":\"a\",\"edits\":[{\"target\":1,\"action\":\"drop\"}]}",
        "{\"kind\":\"a\",\"edits\":[{\"target\":1,\"action\":\"omit\",\"more\":1}]}",
        "{\"kind\":\"a\",\"edits\":[{\"target\":\"1\",\"action\":\"omit\"}]}",
    };
    uint64_t id = 0;
    tc_tx *tx = begin(f);
    for (size_t i = 0; i < TCI_ARRAY_LEN(bad); i++)
        fails(TC_E_INVALID, tc_tx_append_entry(tx, 1, S(bad[i]), &id, &f->err));
    fails(TC_E_NOT_FOUND, tc_tx_append_entry(tx, 77, S("{\"kind\":\"a\"}"), &id, &f->err));
    ok(tc_tx_append_entry(
        tx, 1,
        S("{\"edits\":[{\"target\":9,\"action\":\"replace\",\"messages\":[{\"role\":\"user\"}]},"
          "{\"target\":8,\"action\":\"omit\"}],\n \"kind\":\"a\", \"head\":\"self\","
          "\"data\":[9007199254740993,-0,1e400,\"\\ud800\"]}"),
        &id, &f->err));
    commit(f, tx);
    fixture_reopen(f);
    tc_str json = {0};
    ok(tc_durable_entry(f->s, 1, id, f->r, &json, &f->err));
    assert_text(json, "{\"id\":2,\"conversationId\":1,\"kind\":\"a\",\"data\":[9007199254740993,-0,"
                      "1e400,\"\\ud800\"],\"edits\":[{\"target\":9,\"action\":\"replace\","
                      "\"messages\":[{\"role\":\"user\"}]},{\"target\":8,\"action\":\"omit\"}],"
                      "\"head\":2}");
    tx = begin(f);
    ok(tc_tx_head_marker(tx, 1, f->r, &json, &f->err));
    assert_true(tci_str_starts(json, S("{\"id\":2,")));
    tc_tx_rollback(tx);
}

static void pages_go_on_where_they_stopped(void **state)
{
    fixture *f = *state;
    make_root(f);
    uint64_t ids[5];
    for (size_t i = 0; i < 5; i++)
        ids[i] = say(f, 1, "text");
    tc_page page = {.limit = 2};
    tc_records records;
    ok(tc_durable_entries(f->s, 1, 0, 0, &page, f->r, &records, &f->err));
    assert_int_equal(records.count, 2);
    assert_true(records.has_more);
    tci_buf want;
    tci_buf_init(&want, TCI_BUF_MAX);
    tci_buf_printf(&want, "{\"id\":%llu,", (unsigned long long)ids[4]);
    assert_true(tci_str_starts(records.items[0], tci_buf_str(&want)));
    tci_buf_done(&want);
    page.cursor = records.next;
    ok(tc_durable_entries(f->s, 1, 0, 0, &page, f->r, &records, &f->err));
    page.cursor = records.next;
    ok(tc_durable_entries(f->s, 1, 0, 0, &page, f->r, &records, &f->err));
    assert_int_equal(records.count, 1);
    assert_false(records.has_more);
    page = (tc_page){.limit = 10, .order = TC_ORDER_ASCENDING};
    ok(tc_durable_entries(f->s, 1, ids[1], ids[3], &page, f->r, &records, &f->err));
    assert_int_equal(records.count, 3);
    page.cursor = (tc_cursor){ids[0], TC_ORDER_DESCENDING};
    fails(TC_E_INVALID, tc_durable_entries(f->s, 1, 0, 0, &page, f->r, &records, &f->err));
    fails(TC_E_NOT_FOUND, tc_durable_entries(f->s, 55, 0, 0, NULL, f->r, &records, &f->err));
    assert_false(tc_durable_failure(f->s, NULL));
}

/* ---- submissions ---- */

static void submissions_move_as_they_may(void **state)
{
    fixture *f = *state;
    make_root(f);
    tc_tx *tx = begin(f);
    uint64_t entry = 0, input = 0, write = 0, answer = 0;
    ok(tc_tx_create_submission(tx, 1,
                               S("{\"requestId\":\"r1\",\"type\":\"input\",\"status\":\"queued\"}"),
                               &input, &f->err));
    ok(tc_tx_create_submission(tx, 1, S("{\"type\":\"write\",\"status\":\"queued\"}"), &write,
                               &f->err));
    commit(f, tx);

    tx = begin(f);
    ok(tc_tx_append_entry(tx, 1, S("{\"kind\":\"a\"}"), &entry, &f->err));
    ok(tc_tx_place_submission(tx, input, entry, &f->err));
    ok(tc_tx_place_submission(tx, write, entry, &f->err));
    tci_submission now = {0};
    ok(tci_tx_current_submission(tx, input, tci_tx_arena(tx), &now, &f->err));
    assert_int_equal(now.status, TCI_SUBMISSION_PLACED);
    commit(f, tx);
    fixture_reopen(f);

    tc_str json = {0};
    ok(tc_durable_submission_by_request(f->s, 1, S("r1"), f->r, &json, &f->err));
    assert_text(json, "{\"conversationId\":1,\"requestId\":\"r1\",\"type\":\"input\",\"status\":"
                      "\"placed\",\"id\":2,\"entry\":4}");
    ok(tc_durable_submission(f->s, write, f->r, &json, &f->err));
    assert_text(
        json, "{\"conversationId\":1,\"type\":\"write\",\"status\":\"done\",\"id\":3,\"entry\":4}");

    tx = begin(f);
    ok(tc_tx_append_entry(tx, 1, S("{\"kind\":\"b\"}"), &answer, &f->err));
    tc_settlement done = {.answer = answer}, late = {.reason = S("late"), .detail = S("[ 1 ]")};
    ok(tc_tx_settle_submission(tx, input, &done, &f->err));
    ok(tc_tx_settle_submission(tx, input, &late, &f->err)); /* settled: nothing happens */
    commit(f, tx);
    ok(tc_durable_submission(f->s, input, f->r, &json, &f->err));
    assert_text(json, "{\"conversationId\":1,\"requestId\":\"r1\",\"type\":\"input\",\"status\":"
                      "\"done\",\"id\":2,\"entry\":4,\"answer\":5}");

    tc_records records;
    ok(tc_durable_submissions(f->s, 1, S("done"), NULL, f->r, &records, &f->err));
    assert_int_equal(records.count, 2);
    fails(TC_E_INVALID, tc_durable_submissions(f->s, 1, S("lost"), NULL, f->r, &records, &f->err));
}

static void submissions_refuse_what_they_may_not(void **state)
{
    fixture *f = *state;
    make_root(f);
    uint64_t id = 0, entry = say(f, 1, "x");
    tc_settlement done = {.answer = entry}, not = {.reason = S("aborted"), .detail = S("[ 1 ]")};
    tc_tx *tx = begin(f);
    ok(tc_tx_create_submission(tx, 1, S("{\"type\":\"input\",\"status\":\"queued\"}"), &id,
                               &f->err));
    ok(tc_tx_settle_submission(tx, id, &done, &f->err));
    fails(TC_E_CONFLICT, tc_tx_commit(tx, &f->err));
    tx = begin(f);
    ok(tc_tx_settle_submission(tx, 999, &not, &f->err));
    fails(TC_E_NOT_FOUND, tc_tx_commit(tx, &f->err));
    tx = begin(f);
    ok(tc_tx_create_submission(tx, 1, S("{\"type\":\"input\",\"status\":\"placed\",\"entry\":2}"),
                               &id, &f->err));
    ok(tc_tx_place_submission(tx, id, entry, &f->err));
    fails(TC_E_CONFLICT, tc_tx_commit(tx, &f->err));
    assert_says(f, "not queued");
    tx = begin(f);
    fails(TC_E_NOT_FOUND, tc_tx_create_submission(tx, 66, S("{\"type\":\"input\"}"), &id, &f->err));
    fails(TC_E_INVALID, tc_tx_create_submission(tx, 1, S("{\"type\":\"input\"}"), &id, &f->err));
    fails(TC_E_INVALID, tc_tx_create_submission(
                            tx, 1, S("{\"type\":\"input\",\"status\":\"done\"}"), &id, &f->err));
    ok(tc_tx_create_submission(tx, 1, S("{\"type\":\"input\",\"status\":\"queued\"}"), &id,
                               &f->err));
    ok(tc_tx_settle_submission(tx, id, &not, &f->err));
    commit(f, tx);
    tc_str json = {0};
    ok(tc_durable_submission(f->s, id, f->r, &json, &f->err));
    assert_true(tci_str_find(json, S("\"status\":\"unanswered\"")) < json.len);
    assert_true(tci_str_ends(json, S("\"reason\":\"aborted\",\"detail\":[1]}")));
}

/* ---- tasks ---- */

static void task_times_are_stamped_once(void **state)
{
    fixture *f = *state;
    make_root(f);
    uint64_t id = make_task(f, 1);
    tc_tx *tx = begin(f);
    put_task_state(f, tx, id, "{\"status\":\"running\",\"checkpoint\":{\"phase\":\"first\"}}");
    commit(f, tx);
    tx = begin(f);
    put_task_state(f, tx, id, "{\"status\":\"running\",\"checkpoint\":{\"phase\":\"second\"}}");
    commit(f, tx);
    tx = begin(f);
    put_task_state(
        f, tx, id,
        "{\"status\":\"terminal\",\"outcome\":{\"status\":\"completed\",\"result\":{}}}");
    commit(f, tx);
    fixture_reopen(f);
    tc_str json = {0};
    ok(tc_durable_task(f->s, id, f->r, &json, &f->err));
    assert_text(json,
                "{\"id\":2,\"conversationId\":1,\"kind\":\"test.task\",\"version\":1,\"input\":{},"
                "\"background\":false,\"abortRequested\":false,\"state\":{\"status\":\"terminal\","
                "\"outcome\":{\"status\":\"completed\",\"result\":{}}},\"startedAt\":1700000000000,"
                "\"endedAt\":1700000000001}");
}

static void a_task_cannot_come_back_or_move(void **state)
{
    fixture *f = *state;
    make_root(f);
    uint64_t id = make_task(f, 1);
    static const char *const over =
        "{\"status\":\"terminal\",\"outcome\":{\"status\":\"completed\",\"result\":{}}}";
    static const char *const pending = "{\"status\":\"pending\",\"checkpoint\":{}}";
    tci_task task = {0};
    tc_tx *tx = begin(f);
    put_task_state(f, tx, id, over);
    ok(tci_tx_current_task(tx, id, tci_result_arena(f->r), &task, &f->err));
    ok(tc_result_dup(f->r, task.json, &task.json, &f->err)); /* it outlives the transaction */
    tci_json_change change = {S("state"), S(pending)};
    fails(TC_E_CONFLICT, tci_tx_change_task(tx, &task, &change, 1, &f->err));
    commit(f, tx);

    tx = begin(f);
    ok(tci_tx_change_task(tx, &task, &change, 1, &f->err));
    fails(TC_E_CONFLICT, tc_tx_commit(tx, &f->err));
    assert_says(f, "already terminal");

    uint64_t other = make_task(f, 1), place = 0;
    tx = begin(f);
    ok(tc_tx_create_conversation(tx, 0, &place, &f->err));
    ok(tci_tx_current_task(tx, other, tci_tx_arena(tx), &task, &f->err));
    tci_json_change move = {S("conversationId"), S("5")};
    ok(tci_tx_change_task(tx, &task, &move, 1, &f->err));
    fails(TC_E_CONFLICT, tc_tx_commit(tx, &f->err));
    assert_says(f, "cannot change conversations");

    tx = begin(f);
    ok(tci_tx_set_task(
        tx,
        S("{\"id\":88,\"conversationId\":1,\"kind\":\"k\",\"version\":1,\"input\":{},"
          "\"background\":false,\"abortRequested\":false,\"state\":{\"status\":"
          "\"pending\",\"checkpoint\":{}}}"),
        &f->err));
    fails(TC_E_NOT_FOUND, tc_tx_commit(tx, &f->err));
    tx = begin(f);
    fails(TC_E_INVALID, tci_tx_set_task(tx, S("{\"id\":88}"), &f->err));
    tc_tx_rollback(tx);
}

static int create_owned(fixture *f, tc_tx *tx, uint64_t owner, uint64_t *ret)
{
    tci_task_new task = {
        .kind = S("child"), .version = 1, .input = S("{}"), .checkpoint = S("{}"), .owner = owner};
    return tci_tx_create_task(tx, &task, ret, &f->err);
}

static void owners_must_be_alive_and_unmarked(void **state)
{
    fixture *f = *state;
    make_root(f);
    uint64_t owner = make_task(f, 1), child = 0, conversation = 0;
    tc_tx *tx = begin(f);
    ok(create_owned(f, tx, owner, &child));
    ok(tc_tx_create_conversation(tx, owner, &conversation, &f->err));
    commit(f, tx);
    tc_str json = {0};
    ok(tc_durable_conversation(f->s, conversation, f->r, &json, &f->err));
    assert_text(json, "{\"id\":4,\"owner\":{\"conversationId\":1,\"taskId\":2}}");
    tc_records records;
    ok(tc_durable_conversations(f->s, 1, owner, NULL, f->r, &records, &f->err));
    assert_int_equal(records.count, 1);

    tx = begin(f);
    fails(TC_E_NOT_FOUND, create_owned(f, tx, 777, &child));
    fails(TC_E_NOT_FOUND, tc_tx_create_conversation(tx, 777, &conversation, &f->err));
    tc_tx_rollback(tx);

    tci_task_new background = {.kind = S("k"),
                               .version = 1,
                               .input = S("{}"),
                               .checkpoint = S("{}"),
                               .owner = owner,
                               .is_background = true};
    tx = begin(f);
    fails(TC_E_INVALID, tci_tx_create_task(tx, &background, &child, &f->err));
    background.is_background = false;
    background.conversation = conversation;
    fails(TC_E_INVALID, tci_tx_create_task(tx, &background, &child, &f->err));
    tc_tx_rollback(tx);

    tci_task task = {0};
    tx = begin(f); /* marked in the same transaction */
    ok(create_owned(f, tx, owner, &child));
    ok(tci_tx_current_task(tx, owner, tci_tx_arena(tx), &task, &f->err));
    tci_json_change mark = {S("abortRequested"), S("true")};
    ok(tci_tx_change_task(tx, &task, &mark, 1, &f->err));
    fails(TC_E_CONFLICT, tc_tx_commit(tx, &f->err));
    assert_says(f, "abort-marked");

    tx = begin(f);
    put_task_state(
        f, tx, owner,
        "{\"status\":\"completing\",\"outcome\":{\"status\":\"completed\",\"result\":1}}");
    commit(f, tx);
    tx = begin(f);
    ok(tc_tx_create_conversation(tx, owner, &conversation, &f->err));
    fails(TC_E_CONFLICT, tc_tx_commit(tx, &f->err));
    assert_says(f, "is completing");
}

static void an_author_signs_entries(void **state)
{
    fixture *f = *state;
    make_root(f);
    uint64_t task = make_task(f, 1), entry = 0, other = 0;
    tc_tx *tx = begin(f);
    tci_tx_set_author(tx, task, 1);
    ok(tc_tx_append_entry(tx, 1, S("{\"kind\":\"a\"}"), &entry, &f->err));
    tci_task_new n = {.kind = S("k"), .version = 1, .input = S("1"), .checkpoint = S("{}")};
    ok(tci_tx_create_task(tx, &n, &other, &f->err));
    commit(f, tx);
    tc_str json = {0};
    ok(tc_durable_entry(f->s, 0, entry, f->r, &json, &f->err));
    assert_text(json, "{\"id\":3,\"conversationId\":1,\"kind\":\"a\",\"byTaskId\":2}");
    ok(tc_durable_task(f->s, other, f->r, &json, &f->err));
    assert_true(tci_str_starts(json, S("{\"id\":4,\"conversationId\":1,")));
}

static void what_is_staged_can_be_seen(void **state)
{
    fixture *f = *state;
    make_root(f);
    uint64_t conversation = 0, entry = 0;
    tc_tx *tx = begin(f);
    ok(tc_tx_create_conversation(tx, 0, &conversation, &f->err));
    ok(tc_tx_append_entry(tx, conversation, S("{\"kind\":\"a\"}"), &entry, &f->err));
    tci_entry e = {0};
    tci_conversation c = {0};
    ok(tci_tx_current_entry(tx, entry, tci_tx_arena(tx), &e, &f->err));
    assert_int_equal(e.conversation_id, conversation);
    ok(tci_tx_current_conversation(tx, conversation, tci_tx_arena(tx), &c, &f->err));
    assert_int_equal(c.id, conversation);
    const tci_entry *entries = NULL;
    const tci_conversation *conversations = NULL;
    size_t n = 0;
    ok(tci_tx_staged_entries(tx, &entries, &n, &f->err));
    assert_int_equal(n, 1);
    ok(tci_tx_staged_conversations(tx, &conversations, &n, &f->err));
    assert_int_equal(n, 1);
    ok(tci_durable_conversation(f->s, conversation, tci_tx_arena(tx), &c, &f->err));
    assert_int_equal(c.id, 0);
    commit(f, tx);
}

static void the_root_is_made_once(void **state)
{
    fixture *f = *state;
    make_root(f);
    tc_tx *tx = begin(f);
    fails(TC_E_CONFLICT, tc_tx_create_root_conversation(tx, &f->err));
    tc_tx_rollback(tx);
    assert_false(tc_durable_failure(f->s, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        EACH_BACKEND(an_entry_is_read_back_after_reopening),
        EACH_BACKEND(an_empty_commit_writes_nothing),
        EACH_BACKEND(a_rollback_leaves_no_trace),
        EACH_BACKEND(reads_come_before_the_first_table_write),
        IN_MEMORY(a_thread_begins_one_transaction_at_a_time),
        IN_MEMORY(an_ended_transaction_refuses_everything),
        IN_MEMORY(a_cancelled_context_begins_nothing),
        EACH_BACKEND(an_entry_draft_is_strict),
        EACH_BACKEND(pages_go_on_where_they_stopped),
        EACH_BACKEND(submissions_move_as_they_may),
        EACH_BACKEND(submissions_refuse_what_they_may_not),
        EACH_BACKEND(task_times_are_stamped_once),
        EACH_BACKEND(a_task_cannot_come_back_or_move),
        EACH_BACKEND(owners_must_be_alive_and_unmarked),
        EACH_BACKEND(an_author_signs_entries),
        EACH_BACKEND(what_is_staged_can_be_seen),
        EACH_BACKEND(the_root_is_made_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
