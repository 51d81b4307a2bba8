/* SPDX-License-Identifier: Apache-2.0
 *
 * Conformance of a storage: single records, ids and their life. */
#include "fixture.h"

#define ROOT "{\"id\":1}"
#define PENDING "{\"status\":\"pending\",\"checkpoint\":{\"phase\":\"a\"}}"

static void test_C1_root_id(void **state)
{
    rig *r = *state;
    assert_int_equal(mint(r), 2);
    conversation(r, ROOT);
    commit(r);
    tci_conversation c;
    assert_int_equal(tci_store_conversation(r->store, 1, &r->arena, &c, &r->err), 0);
    assert_int_equal(c.id, 1);
    same_json(r, c.json, ROOT);
    conversation(r, ROOT);
    refuse(r, "ID 1 already belongs to conversation");
    assert_int_equal(tci_store_conversation(r->store, 4711, &r->arena, &c, &r->err), 0);
    assert_int_equal(c.id, 0);
}

#define SUBMITTED \
    "{\"id\":4,\"conversationId\":1,\"type\":\"input\",\"status\":\"queued\",\"requestId\":\"r\"}"

static void test_C2_atomic_mix(void **state)
{
    rig *r = *state;
    const char *said = "{\"id\":2,\"conversationId\":1,\"kind\":\"t\",\"data\":{\"n\":1.50,"
                       "\"big\":9007199254740993,\"z\":-0}}";
    conversation(r, ROOT);
    commit(r);
    entry(r, said);
    plain_task(r, 3, 1, "k", PENDING);
    submission(r, SUBMITTED);
    uint64_t seq = commit(r), entry_seq;
    tci_entry e = read_entry(r, 0, 2, &entry_seq);
    assert_int_equal(entry_seq, seq);
    assert_true(tci_str_eq(e.json, tci_str(said))); /* numbers keep their bytes */
    assert_int_equal(read_task(r, 3).status, TCI_TASK_PENDING);
    same_json(r, read_submission(r, 4).json, SUBMITTED);

    plain_task(r, 3, 1, "k", "{\"status\":\"running\",\"checkpoint\":{}}");
    submission(r, "{\"id\":4,\"conversationId\":1,\"type\":\"input\",\"status\":\"placed\","
                  "\"entry\":5}");
    plain_entry(r, 5, 1, 0);
    conversation(r, ROOT);
    refuse(r, "already belongs to conversation");
    assert_int_equal(read_task(r, 3).status, TCI_TASK_PENDING);
    same_json(r, read_submission(r, 4).json, SUBMITTED);
    assert_int_equal(read_entry(r, 0, 5, NULL).id, 0);

    plain_entry(r, 5, 1, 0);
    assert_true(commit(r) > seq);
    assert_true(commit(r) > seq + 1); /* an empty batch is a commit too */
}

static void test_C3_detached(void **state)
{
    rig *r = *state;
    char text[] = "{\"id\":2,\"conversationId\":1,\"kind\":\"t\",\"data\":{\"a\":1}}";
    char state_text[] = "{\"status\":\"pending\",\"checkpoint\":{\"a\":1}}";
    conversation(r, ROOT);
    entry(r, text);
    plain_task(r, 3, 1, "k", state_text);
    create(r, doc_record(r, 4, 1, "d", "rewindable"), 1, "{\"a\":1}");
    tci_write *writes = r->writes;
    char *said = (char *)(uintptr_t)writes[1].u.entry.json.ptr;
    char *made = (char *)(uintptr_t)writes[3].content.json.ptr;
    commit(r);
    memset(said, 'x', strlen(text));
    memset(made, 'x', 7);
    tci_entry e = read_entry(r, 0, 2, NULL);
    same_json(r, e.json, text);
    memset((char *)(uintptr_t)e.json.ptr, 'y', e.json.len);
    same_json(r, read_entry(r, 0, 2, NULL).json, text);
    tci_task t = read_task(r, 3);
    memset((char *)(uintptr_t)t.json.ptr, 'y', t.json.len);
    assert_int_equal(read_task(r, 3).status, TCI_TASK_PENDING);
    same_value(r, 4, 0, 1, 0, "{\"a\":1}");
}

static void test_C4_odd_keys(void **state)
{
    rig *r = *state;
    const char *odd =
        "{\"id\":2,\"conversationId\":1,\"kind\":\"t\",\"data\":{\"__proto__\":{\"x\":1},"
        "\"constructor\":[],\"toString\":null,\"\":0}}";
    conversation(r, ROOT);
    entry(r, odd);
    create(r, doc_record(r, 3, 1, "d", "rewindable"), 1, "{\"__proto__\":1,\"constructor\":2}");
    commit(r);
    same_json(r, read_entry(r, 0, 2, NULL).json, odd);
    same_value(r, 3, 0, 1, 0, "{\"__proto__\":1,\"constructor\":2}");
}

#define NOBODY TCI_TASK_QUERY_ALL

static void test_C11_task_replacement(void **state)
{
    rig *r = *state;
    conversation(r, ROOT);
    task(r,
         "{\"id\":2,\"conversationId\":1,\"kind\":\"k\",\"version\":1,\"input\":{},\"background\":"
         "false,\"abortRequested\":false,\"memos\":{\"m\":1},\"state\":" PENDING "}");
    plain_task(r, 3, 1, "other", PENDING);
    plain_task(r, 4, 1, "k", PENDING);
    commit(r);
    task(r,
         "{\"id\":2,\"conversationId\":1,\"kind\":\"k\",\"version\":1,\"input\":{},\"background\":"
         "true,\"abortRequested\":true,\"state\":{\"status\":\"running\",\"checkpoint\":{}}}");
    commit(r);
    tci_task t = read_task(r, 2);
    assert_true(t.is_background && t.is_abort_requested);
    assert_int_equal(tci_str_find(t.json, TC_STR("memos")), t.json.len);

    tci_task_query q = NOBODY;
    q.status = TCI_TASK_PENDING;
    tci_cursor c = {0};
    assert_string_equal(tasks(r, &q, 1, TCI_ORDER_DEFAULT, &c), "3+");
    assert_string_equal(tasks(r, &q, 1, TCI_ORDER_DEFAULT, &c), "4");
    q.kind = TC_STR("k");
    assert_string_equal(tasks(r, &q, 9, TCI_ORDER_DEFAULT, NULL), "4");
    q = NOBODY;
    q.is_abort_requested = 1;
    assert_string_equal(tasks(r, &q, 9, TCI_ORDER_DEFAULT, NULL), "2");
    q.is_abort_requested = 0;
    assert_string_equal(tasks(r, &q, 9, TCI_ORDER_DEFAULT, NULL), "3 4");
    q = NOBODY;
    q.is_background = 0;
    assert_string_equal(tasks(r, &q, 9, TCI_ORDER_DEFAULT, NULL), "3 4");
    q.is_background = 1;
    q.is_abort_requested = 1;
    q.status = TCI_TASK_RUNNING;
    q.conversation_id = 1;
    assert_string_equal(tasks(r, &q, 9, TCI_ORDER_DEFAULT, NULL), "2");
    q.conversation_id = 99;
    assert_string_equal(tasks(r, &q, 9, TCI_ORDER_DEFAULT, NULL), "");
    q = NOBODY;
    q.kind = TC_STR("nobody");
    assert_string_equal(tasks(r, &q, 9, TCI_ORDER_DEFAULT, NULL), "");
}

static const char *by_status(rig *r, tci_task_status status)
{
    tci_task_query q = NOBODY;
    q.status = (int)status;
    return tasks(r, &q, 9, TCI_ORDER_DEFAULT, NULL);
}

static void test_C12_owners_and_states(void **state)
{
    rig *r = *state;
    const char *waiting =
        "{\"id\":3,\"conversationId\":1,\"kind\":\"k\",\"version\":2,\"input\":[1],\"owner\":2,"
        "\"background\":false,\"abortRequested\":false,\"memos\":{\"a\":null},\"state\":{"
        "\"status\":"
        "\"waiting\",\"checkpoint\":7,\"on\":[4],\"policy\":\"failFast\"}}";
    const char *completing =
        "{\"id\":3,\"conversationId\":1,\"kind\":\"k\",\"version\":2,\"input\":[1],\"owner\":2,"
        "\"background\":false,\"abortRequested\":false,\"state\":{\"status\":\"completing\","
        "\"outcome\":{\"status\":\"completed\",\"result\":{}}}}";
    const char *terminal =
        "{\"id\":3,\"conversationId\":1,\"kind\":\"k\",\"version\":2,\"input\":[1],\"owner\":2,"
        "\"background\":false,\"abortRequested\":false,\"endedAt\":5,\"state\":{\"status\":"
        "\"terminal\",\"outcome\":{\"status\":\"completed\",\"result\":{}}}}";
    conversation(r, ROOT);
    plain_task(r, 2, 1, "k", PENDING);
    task(r, waiting);
    commit(r);
    same_json(r, read_task(r, 3).json, waiting);
    assert_string_equal(by_status(r, TCI_TASK_WAITING), "3");
    task(r, completing);
    commit(r);
    same_json(r, read_task(r, 3).json, completing);
    assert_string_equal(by_status(r, TCI_TASK_WAITING), "");
    assert_string_equal(by_status(r, TCI_TASK_COMPLETING), "3");
    assert_string_equal(by_status(r, TCI_TASK_PENDING), "2");
    task(r, terminal);
    commit(r);
    same_json(r, read_task(r, 3).json, terminal);
    assert_string_equal(by_status(r, TCI_TASK_COMPLETING), "");
    assert_string_equal(by_status(r, TCI_TASK_TERMINAL), "3");
}

static void test_C13_sleeping(void **state)
{
    rig *r = *state;
    const char *asleep = "{\"id\":2,\"conversationId\":1,\"kind\":\"k\",\"version\":1,\"input\":{},"
                         "\"background\":false,\"abortRequested\":false,\"state\":{\"status\":"
                         "\"sleeping\",\"checkpoint\":{},\"until\":1700000000000}}";
    conversation(r, ROOT);
    task(r, asleep);
    commit(r);
    same_json(r, read_task(r, 2).json, asleep);
    assert_string_equal(by_status(r, TCI_TASK_SLEEPING), "2");
    assert_string_equal(by_status(r, TCI_TASK_PENDING), "");
    plain_task(r, 2, 1, "k", "{\"status\":\"running\",\"checkpoint\":{}}");
    commit(r);
    assert_string_equal(by_status(r, TCI_TASK_SLEEPING), "");
    assert_string_equal(by_status(r, TCI_TASK_RUNNING), "2");
}

static tci_submission by_request(rig *r, uint64_t conversation_id, const char *request)
{
    tci_submission s;
    assert_int_equal(tci_store_submission_by_request(r->store, conversation_id, tci_str(request),
                                                     &r->arena, &s, &r->err),
                     0);
    return s;
}

static void test_C14_request_ids(void **state)
{
    rig *r = *state;
    conversation(r, ROOT);
    conversation(r, "{\"id\":2}");
    submission(r,
               "{\"id\":3,\"conversationId\":1,\"requestId\":\"a\",\"type\":\"input\",\"status\":"
               "\"queued\"}");
    submission(r,
               "{\"id\":4,\"conversationId\":2,\"requestId\":\"a\",\"type\":\"input\",\"status\":"
               "\"queued\"}");
    submission(r, "{\"id\":5,\"conversationId\":1,\"type\":\"input\",\"status\":\"queued\"}");
    submission(r, "{\"id\":6,\"conversationId\":1,\"requestId\":\"\",\"type\":\"input\",\"status\":"
                  "\"queued\"}");
    commit(r);
    assert_int_equal(by_request(r, 1, "a").id, 3);
    assert_int_equal(by_request(r, 2, "a").id, 4);
    assert_int_equal(by_request(r, 1, "").id, 6);
    assert_int_equal(by_request(r, 2, "b").id, 0);
    submission(r,
               "{\"id\":3,\"conversationId\":1,\"requestId\":\"a\",\"type\":\"input\",\"status\":"
               "\"placed\",\"entry\":9}");
    commit(r);
    assert_int_equal(by_request(r, 1, "a").entry, 9);
    assert_string_equal(submissions(r, 1, -1, 9, TCI_ORDER_DEFAULT, NULL), "3 5 6");
    assert_string_equal(submissions(r, 0, TCI_SUBMISSION_PLACED, 9, TCI_ORDER_DEFAULT, NULL), "3");
    tci_cursor c = {0};
    assert_string_equal(submissions(r, 1, TCI_SUBMISSION_QUEUED, 1, TCI_ORDER_DEFAULT, &c), "5+");
    assert_string_equal(submissions(r, 1, TCI_SUBMISSION_QUEUED, 1, TCI_ORDER_DEFAULT, &c), "6");
    assert_string_equal(submissions(r, 0, TCI_SUBMISSION_QUEUED, 9, TCI_ORDER_DESCENDING, NULL),
                        "6 5 4");
}

static void test_C15_writes(void **state)
{
    rig *r = *state;
    conversation(r, ROOT);
    submission(r,
               "{\"id\":2,\"conversationId\":1,\"requestId\":\"a\",\"type\":\"write\",\"status\":"
               "\"queued\"}");
    submission(r,
               "{\"id\":3,\"conversationId\":1,\"requestId\":\"b\",\"type\":\"write\",\"status\":"
               "\"queued\"}");
    commit(r);
    const char *done = "{\"id\":2,\"conversationId\":1,\"requestId\":\"a\",\"type\":\"write\","
                       "\"status\":\"done\",\"entry\":4}";
    const char *unanswered =
        "{\"id\":3,\"conversationId\":1,\"requestId\":\"b\",\"type\":\"write\","
        "\"status\":\"unanswered\",\"reason\":\"stale\",\"detail\":{\"x\":[]}}";
    plain_entry(r, 4, 1, 0);
    submission(r, done);
    commit(r);
    submission(r, unanswered);
    commit(r);
    same_json(r, by_request(r, 1, "a").json, done);
    same_json(r, by_request(r, 1, "b").json, unanswered);
}

static void test_C23_lossless_identities(void **state)
{
    rig *r = *state;
    conversation(r, ROOT);
    plain_task(r, 2, 1, "\\ud800", PENDING);
    plain_task(r, 3, 1, "\\ud801", PENDING);
    submission(r, "{\"id\":4,\"conversationId\":1,\"requestId\":\"\\udc00\",\"type\":\"input\","
                  "\"status\":\"queued\"}");
    submission(r, "{\"id\":5,\"conversationId\":1,\"requestId\":\"\\udc01\",\"type\":\"input\","
                  "\"status\":\"queued\"}");
    create(r,
           "{\"id\":6,\"kind\":\"\\ud800\",\"scope\":{\"kind\":\"session\"},\"key\":\"\\ud800\"}",
           1, "{\"a\":6}");
    create(r,
           "{\"id\":7,\"kind\":\"\\ud800\",\"scope\":{\"kind\":\"session\"},\"key\":\"\\ud801\"}",
           1, "{\"a\":7}");
    create(r, "{\"id\":8,\"kind\":\"\\u00e9\\ud83d\\ude00\",\"scope\":{\"kind\":\"session\"}}", 1,
           "{\"a\":8}");
    commit(r);
    tci_task_query q = NOBODY;
    q.kind = TC_STR("\xed\xa0\x80");
    assert_string_equal(tasks(r, &q, 9, TCI_ORDER_DEFAULT, NULL), "2");
    q.kind = TC_STR("\xed\xa0\x81");
    assert_string_equal(tasks(r, &q, 9, TCI_ORDER_DEFAULT, NULL), "3");
    assert_int_equal(by_request(r, 1, "\xed\xb0\x80").id, 4);
    assert_int_equal(by_request(r, 1, "\xed\xb0\x81").id, 5);
    assert_int_equal(find(r, "\xed\xa0\x80", TCI_SCOPE_SESSION, 0, "\xed\xa0\x80", 0), 6);
    assert_int_equal(find(r, "\xed\xa0\x80", TCI_SCOPE_SESSION, 0, "\xed\xa0\x81", 0), 7);
    assert_int_equal(find(r, "\xed\xa0\x80", TCI_SCOPE_SESSION, 0, NULL, 0), 0);
    assert_int_equal(find(r, "\xc3\xa9\xf0\x9f\x98\x80", TCI_SCOPE_SESSION, 0, NULL, 0), 8);
    assert_string_equal(documents(r, TCI_SCOPE_SESSION, 0, "\xed\xa0\x80", 0, 9, NULL), "6 7");
}

static void test_C24_id_space(void **state)
{
    rig *r = *state;
    uint64_t id;
    conversation(r, ROOT);
    plain_entry(r, 100, 1, 0);
    commit(r);
    assert_int_equal(mint(r), 101);
    plain_task(r, 100, 1, "k", PENDING);
    refuse(r, "already belongs to entry");
    plain_entry(r, 103, 1, 0);
    plain_task(r, 103, 1, "k", PENDING);
    refuse(r, "is written as two record types");
    plain_entry(r, 103, 1, 0);
    plain_entry(r, 103, 1, 0);
    refuse(r, "is written more than once");
    plain_entry(r, TCI_ID_MAX, 1, 0);
    commit(r);
    for (int i = 0; i < 2; i++) {
        assert_true(tci_store_mint(r->store, &id, &r->err) < 0);
        assert_non_null(strstr(r->err.msg, "ID space is exhausted"));
    }
    plain_entry(r, 104, 1, 0);
    commit(r);
    assert_int_equal(read_entry(r, 1, 104, NULL).id, 104);
}

/* Here a closed storage is gone, and with it whoever could ask. What is left to see: closing lets go of
 * everything, and what is kept goes on where it was. */
static void test_C25_closed(void **state)
{
    rig *r = *state;
    conversation(r, ROOT);
    plain_entry(r, 7, 1, 0);
    uint64_t seq = commit(r);
    tci_entry before = read_entry(r, 1, 7, NULL);
    rig_reopen(r);
    tci_entry e = read_entry(r, 1, 7, NULL);
    assert_true(tci_str_eq(e.json, before.json));
    assert_int_equal(mint(r), 8);
    assert_int_equal(commit(r), seq + 1);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, rig_setup, rig_teardown)
const struct CMUnitTest record_cases[] = {
    CASE(test_C1_root_id),           CASE(test_C2_atomic_mix),
    CASE(test_C3_detached),          CASE(test_C4_odd_keys),
    CASE(test_C11_task_replacement), CASE(test_C12_owners_and_states),
    CASE(test_C13_sleeping),         CASE(test_C14_request_ids),
    CASE(test_C15_writes),           CASE(test_C23_lossless_identities),
    CASE(test_C24_id_space),         CASE(test_C25_closed),
};
const size_t nrecord_cases = TCI_ARRAY_LEN(record_cases);
