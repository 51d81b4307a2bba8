/* SPDX-License-Identifier: Apache-2.0
 *
 * Conformance of a storage: documents, their revisions, addresses and copies. */
#include "fixture.h"
#include <stdio.h>

#define ROOT "{\"id\":1}"

static void test_C16_rewindable_values(void **state)
{
    rig *r = *state;
    conversation(r, ROOT);
    uint64_t before = commit(r);
    create(r, doc_record(r, 2, 1, "d", "rewindable"), 1, "{\"n\":1,\"l\":[\"a\"],\"t\":\"x\"}");
    uint64_t made = commit(r);
    delta(
        r, 2, 1,
        "[[\"s\",[\"n\"],2],[\"a\",[\"t\"],\"yz\"],[\"p\",[\"l\"],1,0,[\"b\",\"c\"]],"
        "[\"m\",[\"l\"],[2,0,1]],[\"t\",[\"t\"],1],[\"s\",[\"k\"],{\"o\":{}}],[\"d\",[\"l\",0]]]");
    uint64_t changed = commit(r);
    base(r, 2, 2, "{\"v\":2}");
    uint64_t rebased = commit(r);
    delta(r, 2, 2, "[[\"s\",[\"gone\"],1],[\"r\",{\"whole\":true}]]");
    uint64_t replaced = commit(r);
    same_value(r, 2, made, 1, 0, "{\"n\":1,\"l\":[\"a\"],\"t\":\"x\"}");
    same_value(r, 2, changed, 1, 1, "{\"n\":2,\"l\":[\"a\",\"b\"],\"t\":\"yz\",\"k\":{\"o\":{}}}");
    same_value(r, 2, rebased, 2, 0, "{\"v\":2}");
    same_value(r, 2, replaced, 2, 1, "{\"whole\":true}");
    same_value(r, 2, 0, 2, 1, "{\"whole\":true}");
    no_document(r, 2, before);
    no_document(r, 99, 0);
}

static void test_C16_rewindable_record(void **state)
{
    rig *r = *state;
    conversation(r, ROOT);
    create(r,
           "{\"id\":2,\"kind\":\"d\",\"scope\":{\"kind\":\"conversation\",\"conversationId\":1},"
           "\"key\":\"k\",\"history\":\"rewindable\",\"fork\":\"asOf\",\"extra\":[1]}",
           3, "{}");
    uint64_t seq = commit(r);
    char expected[256];
    tci_document_state d;
    snprintf(expected, sizeof expected,
             "{\"id\":2,\"kind\":\"d\",\"scope\":{\"kind\":\"conversation\",\"conversationId\":1},"
             "\"key\":\"k\",\"history\":\"rewindable\",\"fork\":\"asOf\",\"extra\":[1],"
             "\"createdAt\":%llu}",
             (unsigned long long)seq);
    assert_int_equal(tci_store_document(r->store, 2, 0, &r->arena, &d, NULL, &r->err), 0);
    same_json(r, d.record.json, expected);
    assert_int_equal(d.record.created_at, seq);
    assert_true(d.record.has_key && tci_str_eq(d.record.key, TC_STR("k")));
    assert_int_equal(d.record.history, TCI_HISTORY_REWINDABLE);
    assert_int_equal(d.record.fork, TCI_FORK_AS_OF);
    assert_int_equal(d.version, 3);
}

static void test_C16_rewindable_successor(void **state)
{
    rig *r = *state;
    conversation(r, ROOT);
    create(r, doc_record(r, 2, 1, "d", "rewindable"), 1, "{\"n\":1}");
    uint64_t made = commit(r);
    create(r, doc_record(r, 3, 1, "d", "rewindable"), 1, "{\"n\":3}");
    retire(r, 2);
    delta(r, 2, 1, "[[\"s\",[\"n\"],2]]");
    uint64_t retired = commit(r);
    assert_int_equal(find(r, "d", TCI_SCOPE_CONVERSATION, 1, NULL, 0), 3);
    assert_int_equal(find(r, "d", TCI_SCOPE_CONVERSATION, 1, NULL, retired), 3);
    assert_int_equal(find(r, "d", TCI_SCOPE_CONVERSATION, 1, NULL, made), 2);
    assert_string_equal(documents(r, TCI_SCOPE_CONVERSATION, 1, "", 0, 9, NULL), "3");
    assert_string_equal(documents(r, TCI_SCOPE_CONVERSATION, 1, "", retired, 9, NULL), "3");
    assert_string_equal(documents(r, TCI_SCOPE_CONVERSATION, 1, "", made, 9, NULL), "2");
    assert_string_equal(documents(r, -1, 0, "", 0, 9, NULL), "2 3");
    same_value(r, 2, made, 1, 0, "{\"n\":1}");
    no_document(r, 2, retired);
    no_document(r, 2, retired + 1);
    no_document(r, 2, 0);
    same_value(r, 3, 0, 1, 0, "{\"n\":3}");
    base(r, 2, 1, "{}");
    refuse(r, "retired");
}

static void many_deltas(rig *r, int from, int n)
{
    for (int i = from; i < from + n; i++) {
        char ops[96];
        snprintf(ops, sizeof ops, "[[\"s\",[\"rows\",%d],{\"i\":%d}],[\"a\",[\"t\"],\"%d,\"]]",
                 i * 7, i, i);
        delta(r, 2, 1, ops);
        commit(r);
    }
}

/* The value behind so many deltas of many_deltas. */
static const char *rows_value(rig *r, int from, int n, const char *text)
{
    tci_buf b;
    char *out;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_buf_append_str(&b, TC_STR("{\"rows\":["));
    for (int i = 0; i < 512; i++) {
        tci_buf_append_str(&b, i > 0 ? TC_STR(",") : TC_STR(""));
        if (i % 7 == 0 && i / 7 >= from && i / 7 < from + n)
            tci_buf_printf(&b, "{\"i\":%d}", i / 7);
        else
            tci_buf_printf(&b, "%d", i);
    }
    tci_buf_printf(&b, "],\"t\":\"%s", text);
    for (int i = from; i < from + n; i++)
        tci_buf_printf(&b, "%d,", i);
    tci_buf_append_str(&b, TC_STR("\"}"));
    assert_int_equal(tci_arena_cstr(&r->arena, tci_buf_str(&b), &out, &r->err), 0);
    tci_buf_done(&b);
    return out;
}

static void test_C17_long_tails(void **state)
{
    rig *r = *state;
    conversation(r, ROOT);
    create(r, doc_record(r, 2, 1, "d", "rewindable"), 1, rows_value(r, 0, 0, ""));
    uint64_t seq = commit(r);
    many_deltas(r, 0, 24);
    const char *whole = rows_value(r, 0, 0, "again:");
    tci_buf ops;
    tci_buf_init(&ops, TCI_BUF_MAX);
    tci_buf_printf(&ops, "[[\"r\",%s]]", whole);
    tci_buf_append_byte(&ops, 0);
    delta(r, 2, 1, ops.ptr);
    tci_buf_done(&ops);
    uint64_t replaced = commit(r);
    many_deltas(r, 30, 24);
    same_value(r, 2, seq + 24, 1, 24, rows_value(r, 0, 24, ""));
    same_value(r, 2, seq + 5, 1, 5, rows_value(r, 0, 5, ""));
    same_value(r, 2, replaced, 1, 25, whole);
    same_value(r, 2, 0, 1, 49, rows_value(r, 30, 24, "again:"));
    same_value(r, 2, replaced + 24, 1, 49, rows_value(r, 30, 24, "again:"));
}

static void test_C18_copies(void **state)
{
    rig *r = *state;
    conversation(r, ROOT);
    conversation(r, "{\"id\":2}");
    create(r, doc_record(r, 3, 1, "d", "rewindable"), 4, "{\"n\":1}");
    create(r, doc_record(r, 4, 1, "l", "latest"), 5, "{\"m\":1}");
    uint64_t made = commit(r);
    delta(r, 3, 4, "[[\"s\",[\"n\"],2]]");
    delta(r, 4, 5, "[[\"s\",[\"m\"],2]]");
    commit(r);
    copy(r, doc_record(r, 5, 2, "d", "rewindable"), 3, made);
    copy(r, doc_record(r, 6, 2, "l", "latest"), 4, 0);
    commit(r);
    conversation(r, "{\"id\":7}");
    copy(r, doc_record(r, 8, 7, "d", "rewindable"), 3, 0);
    commit(r);
    same_value(r, 5, 0, 4, 0, "{\"n\":1}");
    same_value(r, 6, 0, 5, 0, "{\"m\":2}");
    same_value(r, 8, 0, 4, 0, "{\"n\":2}");

    conversation(r, "{\"id\":9}");
    copy(r, doc_record(r, 10, 9, "d", "rewindable"), 3, 0);
    retire(r, 10);
    uint64_t both = commit(r);
    no_document(r, 10, 0);
    no_document(r, 10, both);

    base(r, 3, 4, "{\"n\":\"later\"}");
    base(r, 4, 5, "{\"m\":\"later\"}");
    commit(r);
    retire(r, 3);
    retire(r, 4);
    commit(r);
    same_value(r, 5, 0, 4, 0, "{\"n\":1}");
    same_value(r, 6, 0, 5, 0, "{\"m\":2}");
    same_value(r, 8, 0, 4, 0, "{\"n\":2}");
}

static void test_C18_copies_refused(void **state)
{
    rig *r = *state;
    conversation(r, ROOT);
    conversation(r, "{\"id\":2}");
    create(r, doc_record(r, 3, 1, "d", "rewindable"), 1, "{\"n\":1}");
    create(r, doc_record(r, 4, 1, "l", "latest"), 1, "{}");
    create(r, "{\"id\":20,\"kind\":\"s\",\"scope\":{\"kind\":\"session\"}}", 1, "{}");
    uint64_t made = commit(r);
    delta(r, 3, 1, "[[\"s\",[\"n\"],2]]");
    copy(r, doc_record(r, 5, 2, "d", "rewindable"), 3, 0);
    refuse(r, "source");
    copy(r, doc_record(r, 5, 2, "d", "rewindable"), 3, 0);
    retire(r, 3);
    refuse(r, "source");
    copy(r, doc_record(r, 5, 2, "other", "rewindable"), 3, 0);
    refuse(r, "source");
    copy(r, doc_record(r, 5, 2, "d", "latest"), 3, 0);
    refuse(r, "source");
    copy(r, doc_record(r, 5, 2, "l", "latest"), 4, made);
    refuse(r, "does not retain historical content");
    copy(r, doc_record(r, 5, 2, "d", "rewindable"), 99, 0);
    refuse(r, "");
    copy(r, "{\"id\":5,\"kind\":\"s\",\"scope\":{\"kind\":\"session\"}}", 20, 0);
    refuse(r, "");
    same_value(r, 3, 0, 1, 0, "{\"n\":1}");
    assert_int_equal(find(r, "d", TCI_SCOPE_CONVERSATION, 2, NULL, 0), 0);
    copy(r, doc_record(r, 5, 2, "d", "rewindable"), 3, 0); /* the id is still free */
    commit(r);
    same_value(r, 5, 0, 1, 0, "{\"n\":1}");
}

static void test_C19_versions(void **state)
{
    rig *r = *state;
    tci_document_state d;
    conversation(r, ROOT);
    create(r, "{\"id\":2,\"kind\":\"s\",\"scope\":{\"kind\":\"session\"}}", 1, "{\"a\":1}");
    uint64_t made = commit(r);
    base(r, 2, 3, "{\"a\":2}");
    commit(r);
    same_value(r, 2, 0, 3, 0, "{\"a\":2}");
    assert_int_equal(tci_store_document(r->store, 2, made, &r->arena, &d, NULL, &r->err),
                     TC_E_UNSUPPORTED);
    assert_non_null(strstr(r->err.msg, "does not retain historical content"));
    delta(r, 2, 4, "[[\"s\",[\"a\"],3]]");
    refuse(r, "version transition requires a base");
    same_value(r, 2, 0, 3, 0, "{\"a\":2}");
    delta(r, 2, 3, "[[\"s\",[\"a\"],3]]");
    commit(r);
    same_value(r, 2, 0, 3, 1, "{\"a\":3}");
    retire(r, 2);
    commit(r);
    no_document(r, 2, 0);
    base(r, 2, 3, "{}");
    refuse(r, "retired");
    retire(r, 2);
    refuse(r, "retired");
    base(r, 99, 1, "{}");
    refuse(r, "nknown document");
}

static void test_C20_addresses(void **state)
{
    rig *r = *state;
    conversation(r, ROOT);
    uint64_t before = commit(r);
    create(r, "{\"id\":2,\"kind\":\"k\",\"scope\":{\"kind\":\"session\"}}", 1, "{}");
    create(r, "{\"id\":3,\"kind\":\"k\",\"scope\":{\"kind\":\"session\"},\"key\":\"\"}", 1, "{}");
    create(r, "{\"id\":4,\"kind\":\"k\",\"scope\":{\"kind\":\"session\"},\"key\":\"__proto__\"}", 1,
           "{}");
    create(r, "{\"id\":5,\"kind\":\"k\",\"scope\":{\"kind\":\"session\"},\"key\":\"constructor\"}",
           1, "{}");
    create(r, "{\"id\":6,\"kind\":\"k\",\"scope\":{\"kind\":\"task\",\"taskId\":1}}", 1, "{}");
    create(r, doc_record(r, 7, 1, "k", "latest"), 1, "{}");
    create(r, doc_record(r, 8, 1, "other", "latest"), 1, "{}");
    uint64_t seq = commit(r);
    assert_int_equal(find(r, "k", TCI_SCOPE_SESSION, 0, NULL, 0), 2);
    assert_int_equal(find(r, "k", TCI_SCOPE_SESSION, 0, "", 0), 3);
    assert_int_equal(find(r, "k", TCI_SCOPE_SESSION, 0, "__proto__", 0), 4);
    assert_int_equal(find(r, "k", TCI_SCOPE_SESSION, 0, "constructor", 0), 5);
    assert_int_equal(find(r, "k", TCI_SCOPE_SESSION, 0, "toString", 0), 0);
    assert_int_equal(find(r, "k", TCI_SCOPE_TASK, 1, NULL, 0), 6);
    assert_int_equal(find(r, "k", TCI_SCOPE_CONVERSATION, 1, NULL, seq), 7);
    tci_cursor c = {0};
    assert_string_equal(documents(r, TCI_SCOPE_SESSION, 0, "", 0, 3, &c), "2 3 4+");
    assert_string_equal(documents(r, TCI_SCOPE_SESSION, 0, "", 0, 3, &c), "5");
    assert_string_equal(documents(r, TCI_SCOPE_CONVERSATION, 1, "other", 0, 3, NULL), "8");
    assert_string_equal(documents(r, TCI_SCOPE_CONVERSATION, 1, "", before, 3, NULL), "");
    tci_document_state d;
    assert_int_equal(tci_store_document(r->store, 6, seq, &r->arena, &d, NULL, &r->err),
                     TC_E_UNSUPPORTED);
}

static void test_C21_lifetimes(void **state)
{
    rig *r = *state;
    conversation(r, ROOT);
    create(r, doc_record(r, 2, 1, "k", "rewindable"), 1, "{\"n\":2}");
    commit(r);
    create(r, doc_record(r, 3, 1, "k", "rewindable"), 1, "{}");
    refuse(r, "Document address already has a current incarnation");
    create(r, doc_record(r, 3, 1, "new", "rewindable"), 1, "{}");
    create(r, doc_record(r, 4, 1, "new", "rewindable"), 1, "{}");
    refuse(r, "Document address already has a current incarnation");
    same_value(r, 2, 0, 1, 0, "{\"n\":2}");
    no_document(r, 3, 0);
    create(r, doc_record(r, 5, 1, "brief", "rewindable"), 1, "{}");
    retire(r, 5);
    create(r, doc_record(r, 6, 1, "briefer", "latest"), 1, "{}");
    retire(r, 6);
    uint64_t seq = commit(r);
    no_document(r, 5, 0);
    no_document(r, 5, seq);
    no_document(r, 6, 0);
    assert_int_equal(find(r, "brief", TCI_SCOPE_CONVERSATION, 1, NULL, seq), 0);
    assert_string_equal(documents(r, TCI_SCOPE_CONVERSATION, 1, "", seq, 9, NULL), "2");
    create(r, doc_record(r, 7, 1, "brief", "rewindable"), 1, "{}"); /* the address is free again */
    commit(r);
}

static void test_C22_rollback(void **state)
{
    rig *r = *state;
    tci_task_query running = TCI_TASK_QUERY_ALL;
    running.status = TCI_TASK_RUNNING;
    conversation(r, ROOT);
    create(r, doc_record(r, 2, 1, "k", "latest"), 1, "{\"n\":1}");
    plain_task(r, 3, 1, "k", "{\"status\":\"pending\",\"checkpoint\":{}}");
    submission(r,
               "{\"id\":4,\"conversationId\":1,\"requestId\":\"a\",\"type\":\"input\",\"status\":"
               "\"queued\"}");
    uint64_t seq = commit(r);
    conversation(r, "{\"id\":5,\"owner\":{\"conversationId\":1,\"taskId\":3}}");
    plain_entry(r, 6, 1, 6);
    plain_task(r, 3, 1, "k", "{\"status\":\"running\",\"checkpoint\":{}}");
    submission(r,
               "{\"id\":4,\"conversationId\":1,\"requestId\":\"b\",\"type\":\"input\",\"status\":"
               "\"placed\",\"entry\":6}");
    base(r, 2, 1, "{\"n\":2}");
    base(r, 2, 1, "{\"n\":3}");
    refuse(r, "");
    assert_string_equal(conversations(r, 1, 0, 9, TCI_ORDER_DEFAULT, NULL), "");
    assert_string_equal(entries(r, 1, 0, 0, 9, TCI_ORDER_DEFAULT, NULL), "");
    assert_int_equal(head_marker(r, 1, 0), 0);
    assert_string_equal(tasks(r, &running, 9, TCI_ORDER_DEFAULT, NULL), "");
    assert_string_equal(submissions(r, 1, TCI_SUBMISSION_QUEUED, 9, TCI_ORDER_DEFAULT, NULL), "4");
    tci_submission s;
    assert_int_equal(
        tci_store_submission_by_request(r->store, 1, TC_STR("b"), &r->arena, &s, &r->err), 0);
    assert_int_equal(s.id, 0);
    same_value(r, 2, 0, 1, 0, "{\"n\":1}");
    plain_entry(r, 6, 1, 0);
    assert_true(commit(r) > seq);
}

/* A current-only document changes for a long time: bases, deltas, bases of growing and shrinking
 * size. What is read is always the newest. */
static void test_bases_and_deltas_mixed(void **state)
{
    rig *r = *state;
    char json[64];
    conversation(r, ROOT);
    create(r, doc_record(r, 2, 1, "k", "latest"), 1, "{\"n\":0}");
    commit(r);
    for (int i = 1; i <= 60; i++) {
        snprintf(json, sizeof json, i % 3 == 0 ? "{\"n\":%d}" : "[[\"s\",[\"n\"],%d]]", i);
        if (i % 3 == 0)
            base(r, 2, 1, json);
        else
            delta(r, 2, 1, json);
        commit(r);
        snprintf(json, sizeof json, "{\"n\":%d}", i);
        same_value(r, 2, 0, 1, (uint64_t)(i % 3), json);
    }
}

static void test_bad_texts_are_refused(void **state)
{
    rig *r = *state;
    static const char *const values[] = {"[]", "{", "{\"a\":1}x", "nul", "{\"a\":\"\xff\"}", ""};
    static const char *const ops[] = {"{}", "[[\"s\",[],1]]", "[[\"q\"]]", "[",
                                      "[[\"d\",[\"__proto__\"]]]"};
    conversation(r, ROOT);
    create(r, doc_record(r, 2, 1, "k", "latest"), 1, "{\"n\":0}");
    commit(r);
    for (size_t i = 0; i < TCI_ARRAY_LEN(values); i++) {
        base(r, 2, 1, values[i]);
        refuse(r, "");
    }
    for (size_t i = 0; i < TCI_ARRAY_LEN(ops); i++) {
        delta(r, 2, 1, ops[i]);
        refuse(r, "");
    }
    same_value(r, 2, 0, 1, 0, "{\"n\":0}");
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, rig_setup, rig_teardown)
const struct CMUnitTest document_cases[] = {
    CASE(test_C16_rewindable_values),
    CASE(test_C16_rewindable_record),
    CASE(test_C16_rewindable_successor),
    CASE(test_C17_long_tails),
    CASE(test_C18_copies),
    CASE(test_C18_copies_refused),
    CASE(test_C19_versions),
    CASE(test_C20_addresses),
    CASE(test_C21_lifetimes),
    CASE(test_C22_rollback),
    CASE(test_bases_and_deltas_mixed),
    CASE(test_bad_texts_are_refused),
};
const size_t ndocument_cases = TCI_ARRAY_LEN(document_cases);
