/* SPDX-License-Identifier: Apache-2.0
 *
 * Durable records: what the originals write is read, what they refuse is refused with the field's path, and
 * what is written here is what they write. */
#include "proto/durable.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

static tci_arena arena;

static int set_up(void **state)
{
    (void)state;
    tci_arena_init(&arena, 0);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    tci_arena_done(&arena);
    return 0;
}

static void a_task_of_the_port_is_read(void **state)
{
    (void)state;
    static const char text[] = "{\"id\":12,\"conversationId\":1,\"kind\":\"pi.tool\",\"version\":2,"
                               "\"input\":{\"kind\":\"model\","
                               "\"assistant\":11,\"callId\":\"c1\"},\"background\":false,"
                               "\"abortRequested\":true,\"abortReason\":"
                               "\"restart\",\"state\":{\"status\":\"running\",\"checkpoint\":{"
                               "\"phase\":\"call\"}},\"owner\":9,"
                               "\"startedAt\":1700000000059,\"restarts\":2,\"future\":1e400}";
    tci_task t;
    tc_err err;
    assert_int_equal(tci_task_parse(tci_str(text), &arena, NULL, &t, &err), 0);
    assert_true(t.id == 12 && t.conversation_id == 1 && t.version == 2 && t.owner == 9);
    assert_true(t.status == TCI_TASK_RUNNING && t.is_abort_requested && t.is_abort_by_restart);
    assert_true(!t.is_background && t.restarts == 2 && t.started_at == 1700000000059);
    assert_true(tci_str_eq(t.json, tci_str(text)));
}

static void what_is_wrong_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"[]", "task record: record: not an object"},
        {"{\"conversationId\":1}", "task record: id: missing"},
        {"{\"id\":1.0}", "task record: id: not an integer from 1 to 9007199254740991"},
        {"{\"id\":9007199254740992}", "task record: id: not an integer from 1 to 9007199254740991"},
        {"{\"id\":1,\"conversationId\":1,\"kind\":\"k\",\"version\":1,\"input\":{},\"background\":"
         "false,"
         "\"abortRequested\":false,\"state\":{\"status\":\"resting\"}}",
         "task record: state.status: none of the known words"},
        {"{\"id\":1,\"conversationId\":1,\"kind\":\"k\",\"version\":1,\"input\":{},\"background\":"
         "false,"
         "\"abortRequested\":false,\"state\":{\"status\":\"sleeping\",\"checkpoint\":{}}}",
         "task record: state.until: missing"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tci_task t;
        tc_err err;
        assert_int_equal(tci_task_parse(tci_str(cases[i].text), &arena, NULL, &t, &err),
                         TC_E_PARSE);
        assert_string_equal(err.msg, cases[i].message);
    }
}

static void a_submission_has_what_its_status_needs(void **state)
{
    (void)state;
    static const struct {
        const char *rest;
        bool is_fine;
    } cases[] = {
        {"\"type\":\"input\",\"status\":\"queued\"", true},
        {"\"type\":\"input\",\"status\":\"placed\"", false},
        {"\"type\":\"input\",\"status\":\"done\",\"entry\":3,\"answer\":4", true},
        {"\"type\":\"input\",\"status\":\"done\",\"entry\":3", false},
        {"\"type\":\"write\",\"status\":\"done\",\"entry\":3", true},
        {"\"type\":\"write\",\"status\":\"placed\",\"entry\":3", false},
        {"\"type\":\"input\",\"status\":\"unanswered\",\"reason\":\"aborted\"", true},
        {"\"type\":\"input\",\"status\":\"unanswered\"", false},
        {"\"type\":\"other\",\"status\":\"queued\"", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[256];
        tci_submission s;
        tc_err err;
        (void)snprintf(text, sizeof text, "{\"id\":2,\"conversationId\":1,%s}", cases[i].rest);
        int rc = tci_submission_parse(tci_str(text), &arena, &s, &err);
        assert_int_equal(rc, cases[i].is_fine ? 0 : TC_E_PARSE);
    }
}

static void documents_and_conversations_are_written_as_the_port_does(void **state)
{
    (void)state;
    static const char *const documents[] = {
        "{\"id\":2,\"kind\":\"pi.live\",\"scope\":{\"kind\":\"conversation\",\"conversationId\":1},"
        "\"history\":\"latest\",\"fork\":\"initial\",\"createdAt\":1}",
        "{\"id\":3,\"kind\":\"k\",\"scope\":{\"kind\":\"task\",\"taskId\":7},\"key\":\"\","
        "\"createdAt\":1,"
        "\"retiredAt\":4}",
        "{\"id\":4,\"kind\":\"k\",\"scope\":{\"kind\":\"session\"}}",
    };
    tci_buf b;
    tc_err err;
    tci_buf_init(&b, TCI_BUF_MAX);
    for (size_t i = 0; i < sizeof documents / sizeof documents[0]; i++) {
        tci_document d;
        assert_int_equal(tci_document_parse(tci_str(documents[i]), &arena, &d, &err), 0);
        tci_buf_clear(&b);
        tci_document_put(&b, &d);
        assert_true(tci_str_eq(tci_buf_str(&b), tci_str(documents[i])));
    }
    static const char fork[] = "{\"id\":5,\"parent\":{\"conversationId\":1,\"at\":7},\"owner\":{"
                               "\"conversationId\":1,\"taskId\":3}}";
    tci_conversation c;
    assert_int_equal(tci_conversation_parse(tci_str(fork), &arena, &c, &err), 0);
    tci_buf_clear(&b);
    tci_conversation_put(&b, &c);
    assert_true(tci_str_eq(tci_buf_str(&b), tci_str(fork)));
    tci_buf_done(&b);
}

static void a_conversation_document_says_how_it_is_kept(void **state)
{
    (void)state;
    tci_document d;
    tc_err err;
    assert_int_equal(
        tci_document_parse(TC_STR("{\"id\":2,\"kind\":\"k\",\"scope\":{\"kind\":\"conversation\","
                                  "\"conversationId\":1},\"fork\":\"asOf\"}"),
                           &arena, &d, &err),
        TC_E_PARSE);
    assert_string_equal(err.msg, "document record: history: missing");
}

static void a_head_marker_is_an_entry_with_a_head(void **state)
{
    (void)state;
    tci_entry e;
    tc_err err;
    assert_int_equal(tci_entry_parse(TC_STR("{\"id\":21,\"conversationId\":1,\"kind\":\"pi.reset\","
                                            "\"head\":21,\"model\":[]}"),
                                     &arena, NULL, &e, &err),
                     0);
    assert_true(e.head == 21 && e.has_model && !e.has_edits);
    assert_int_equal(
        tci_entry_parse(TC_STR("{\"id\":21,\"conversationId\":1,\"kind\":\"k\",\"head\":null}"),
                        &arena, NULL, &e, &err),
        TC_E_PARSE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_task_of_the_port_is_read, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_wrong_is_named, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_submission_has_what_its_status_needs, set_up, tear_down),
        cmocka_unit_test_setup_teardown(documents_and_conversations_are_written_as_the_port_does,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_conversation_document_says_how_it_is_kept, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_head_marker_is_an_entry_with_a_head, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
