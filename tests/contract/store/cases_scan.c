/* SPDX-License-Identifier: Apache-2.0
 *
 * Conformance of a storage: scans, pages, forks and orders. */
#include "fixture.h"

#define ROOT "{\"id\":1}"
#define UP TCI_ORDER_ASCENDING
#define DOWN TCI_ORDER_DESCENDING
#define AS_IT_IS TCI_ORDER_DEFAULT

static void test_C5_unordered_ids(void **state)
{
    rig *r = *state;
    conversation(r, ROOT);
    plain_entry(r, 30, 1, 0);
    plain_entry(r, 10, 1, 0);
    plain_entry(r, 20, 1, 10);
    commit(r);
    assert_string_equal(entries(r, 1, 0, 0, 9, AS_IT_IS, NULL), "30 20 10");
    assert_int_equal(head_marker(r, 1, 0), 20);
    assert_string_equal(entries(r, 0, 0, 0, 9, UP, NULL), "10 20 30");
}

static void test_C6_entry_cursor(void **state)
{
    rig *r = *state;
    tci_cursor c = {0};
    conversation(r, ROOT);
    plain_entry(r, 2, 1, 0);
    plain_entry(r, 3, 1, 0);
    plain_entry(r, 4, 1, 0);
    commit(r);
    assert_string_equal(entries(r, 1, 0, 0, 2, AS_IT_IS, &c), "4 3+");
    plain_entry(r, 5, 1, 0);
    commit(r);
    assert_string_equal(entries(r, 1, 0, 0, 2, AS_IT_IS, &c), "2");
}

static void test_C7_conversation_pages(void **state)
{
    rig *r = *state;
    tci_cursor c = {0};
    conversation(r, "{\"id\":5}");
    conversation(r, ROOT);
    commit(r);
    conversation(r, "{\"id\":3}");
    commit(r);
    assert_string_equal(conversations(r, 0, 0, 2, AS_IT_IS, &c), "1 3+");
    assert_int_equal(c.after, 3);
    assert_int_equal(c.order, UP);
    c = (tci_cursor){3, UP}; /* as it comes back from somewhere */
    assert_string_equal(conversations(r, 0, 0, 2, AS_IT_IS, &c), "5");
    assert_int_equal(c.after, 0);
}

static void test_C8_owner_filters(void **state)
{
    rig *r = *state;
    tci_cursor c = {0};
    conversation(r, ROOT);
    conversation(r, "{\"id\":2,\"owner\":{\"conversationId\":1,\"taskId\":10}}");
    conversation(r, "{\"id\":3,\"owner\":{\"conversationId\":1,\"taskId\":11}}");
    conversation(r, "{\"id\":4,\"owner\":{\"conversationId\":2,\"taskId\":10}}");
    conversation(r, "{\"id\":5,\"owner\":{\"conversationId\":1,\"taskId\":10}}");
    commit(r);
    assert_string_equal(conversations(r, 1, 0, 2, AS_IT_IS, &c), "2 3+");
    assert_string_equal(conversations(r, 1, 0, 2, AS_IT_IS, &c), "5");
    assert_string_equal(conversations(r, 0, 10, 9, AS_IT_IS, NULL), "2 4 5");
    assert_string_equal(conversations(r, 1, 10, 9, AS_IT_IS, NULL), "2 5");
    assert_string_equal(conversations(r, 3, 10, 9, AS_IT_IS, NULL), "");
}

/* Root 1: entries 2, 3 (head 2), then 8. Child 4 forks at 3: entries 5, 6. Grandchild 7 forks at 5:
 * entries 9 (head 9), 10. */
static void make_forks(rig *r)
{
    conversation(r, ROOT);
    plain_entry(r, 2, 1, 0);
    plain_entry(r, 3, 1, 2);
    commit(r);
    conversation(r, "{\"id\":4,\"parent\":{\"conversationId\":1,\"at\":3}}");
    plain_entry(r, 5, 4, 0);
    plain_entry(r, 6, 4, 0);
    commit(r);
    conversation(r, "{\"id\":7,\"parent\":{\"conversationId\":4,\"at\":5}}");
    plain_entry(r, 8, 1, 8);
    plain_entry(r, 9, 7, 9);
    plain_entry(r, 10, 7, 0);
    commit(r);
}

static void test_C9_forks_pages(void **state)
{
    rig *r = *state;
    tci_cursor c = {0};
    make_forks(r);
    assert_string_equal(entries(r, 7, 0, 0, 2, AS_IT_IS, &c), "10 9+");
    assert_string_equal(entries(r, 7, 0, 0, 2, AS_IT_IS, &c), "5 3+");
    assert_string_equal(entries(r, 7, 0, 0, 2, AS_IT_IS, &c), "2");
    c = (tci_cursor){0};
    assert_string_equal(entries(r, 7, 0, 0, 2, UP, &c), "2 3+");
    assert_string_equal(entries(r, 7, 0, 0, 2, AS_IT_IS, &c), "5 9+");
    assert_string_equal(entries(r, 7, 0, 0, 2, AS_IT_IS, &c), "10");
    assert_string_equal(entries(r, 7, 3, 9, 9, AS_IT_IS, NULL), "9 5 3");
    assert_string_equal(entries(r, 7, 3, 9, 9, UP, NULL), "3 5 9");
    assert_string_equal(entries(r, 7, 4, 4, 9, UP, NULL), "");
    assert_string_equal(entries(r, 4, 0, 0, 9, UP, NULL), "2 3 5 6");
    assert_string_equal(entries(r, 1, 0, 0, 9, UP, NULL), "2 3 8");
    assert_string_equal(entries(r, 0, 0, 0, 9, UP, NULL), "2 3 5 6 8 9 10");
}

static void test_C9_forks_orders(void **state)
{
    rig *r = *state;
    make_forks(r);
    tci_page page = {DOWN, {5, UP}, 2};
    tci_entry *items;
    size_t count;
    tci_cursor after;
    assert_int_equal(tci_store_scan_entries(r->store, 7, 0, 0, &page, &r->arena, &items, &count,
                                            &after, &r->err),
                     TC_E_INVALID);
    assert_non_null(strstr(r->err.msg, "cursor"));
    page = (tci_page){AS_IT_IS, {0}, 2};
    assert_int_equal(tci_store_scan_entries(r->store, 99, 0, 0, &page, &r->arena, &items, &count,
                                            &after, &r->err),
                     TC_E_NOT_FOUND);
    assert_non_null(strstr(r->err.msg, "Unknown conversation"));
}

static void test_C9_forks_head_markers(void **state)
{
    rig *r = *state;
    tci_cursor c = {0};
    make_forks(r);
    assert_int_equal(head_marker(r, 7, 0), 9);
    assert_int_equal(head_marker(r, 7, 5), 3);
    assert_int_equal(head_marker(r, 7, 2), 0);
    assert_int_equal(head_marker(r, 4, 0), 3);
    assert_int_equal(head_marker(r, 1, 0), 8);
    assert_int_equal(head_marker(r, 1, 7), 3);
    assert_string_equal(entries(r, 4, 2, 0, 2, AS_IT_IS, &c), "6 5+");
    assert_string_equal(entries(r, 4, 2, 0, 2, AS_IT_IS, &c), "3 2");
    tci_entry e;
    assert_int_equal(tci_store_head_marker(r->store, 99, 0, &r->arena, &e, &r->err),
                     TC_E_NOT_FOUND);
}

static void test_C9_forks_lookup(void **state)
{
    rig *r = *state;
    uint64_t seq;
    make_forks(r);
    assert_int_equal(read_entry(r, 0, 6, &seq).conversation_id, 4);
    assert_true(seq > 0);
    assert_int_equal(read_entry(r, 0, 99, NULL).id, 0);
    assert_int_equal(read_entry(r, 7, 3, NULL).id, 3);
    assert_int_equal(read_entry(r, 7, 5, NULL).id, 5);
    assert_int_equal(read_entry(r, 7, 6, NULL).id, 0); /* beyond the cap */
    assert_int_equal(read_entry(r, 7, 8, NULL).id, 0); /* of an ancestor, later */
    assert_int_equal(read_entry(r, 4, 9, NULL).id, 0); /* of a descendant */
    tci_entry e;
    assert_int_equal(tci_store_entry(r->store, 99, 3, &r->arena, &e, &seq, &r->err),
                     TC_E_NOT_FOUND);
    assert_non_null(strstr(r->err.msg, "Unknown conversation"));
}

static void refuse_order(rig *r, int rc)
{
    assert_int_equal(rc, TC_E_INVALID);
    assert_non_null(strstr(r->err.msg, "cursor"));
}

static void test_C10_orders(void **state)
{
    rig *r = *state;
    tci_task_query all = TCI_TASK_QUERY_ALL;
    conversation(r, ROOT);
    conversation(r, "{\"id\":2}");
    conversation(r, "{\"id\":3}");
    for (uint64_t id = 4; id < 7; id++)
        plain_task(r, id, 1, "k", "{\"status\":\"pending\",\"checkpoint\":{}}");
    submission(r, "{\"id\":7,\"conversationId\":1,\"type\":\"input\",\"status\":\"queued\"}");
    submission(r, "{\"id\":8,\"conversationId\":1,\"type\":\"input\",\"status\":\"queued\"}");
    commit(r);
    tci_cursor c = {0};
    assert_string_equal(conversations(r, 0, 0, 9, AS_IT_IS, NULL), "1 2 3");
    assert_string_equal(conversations(r, 0, 0, 2, DOWN, &c), "3 2+");
    assert_int_equal(c.order, DOWN);
    assert_string_equal(conversations(r, 0, 0, 2, AS_IT_IS, &c), "1");
    assert_string_equal(tasks(r, &all, 9, AS_IT_IS, NULL), "4 5 6");
    c = (tci_cursor){0};
    assert_string_equal(tasks(r, &all, 2, DOWN, &c), "6 5+");
    assert_string_equal(tasks(r, &all, 2, DOWN, &c), "4");
    assert_string_equal(submissions(r, 1, -1, 9, AS_IT_IS, NULL), "7 8");
    assert_string_equal(submissions(r, 1, -1, 9, DOWN, NULL), "8 7");
    c = (tci_cursor){7, AS_IT_IS}; /* without an order: the scan's own */
    assert_string_equal(submissions(r, 1, -1, 9, UP, &c), "8");

    tci_page page = {UP, {5, DOWN}, 2};
    tci_conversation *cs;
    tci_task *ts;
    tci_submission *ss;
    size_t n;
    refuse_order(
        r, tci_store_scan_conversations(r->store, 0, 0, &page, &r->arena, &cs, &n, &c, &r->err));
    refuse_order(r, tci_store_scan_tasks(r->store, &all, &page, &r->arena, &ts, &n, &c, &r->err));
    refuse_order(
        r, tci_store_scan_submissions(r->store, 1, -1, &page, &r->arena, &ss, &n, &c, &r->err));
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, rig_setup, rig_teardown)
const struct CMUnitTest scan_cases[] = {
    CASE(test_C5_unordered_ids),      CASE(test_C6_entry_cursor), CASE(test_C7_conversation_pages),
    CASE(test_C8_owner_filters),      CASE(test_C9_forks_pages),  CASE(test_C9_forks_orders),
    CASE(test_C9_forks_head_markers), CASE(test_C9_forks_lookup), CASE(test_C10_orders),
};
const size_t nscan_cases = TCI_ARRAY_LEN(scan_cases);
