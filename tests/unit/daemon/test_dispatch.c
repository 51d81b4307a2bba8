/* SPDX-License-Identifier: Apache-2.0
 *
 * Admission, identity, replay, evidence, expiry: what every method has in common. */
#include "fixture.h"

#include <stdio.h>
#include <string.h>

#define WRITE                                                         \
    "{\"context\":{\"operation_id\":\"%s\"},\"path\":{\"path\":\"%s/" \
    "%s\"},\"mode\":\"%s\",\"text\":\"%s\"}"
#define EXEC                                                                               \
    "{\"context\":{\"operation_id\":\"%s\"},\"request\":{\"command\":{\"kind\":\"shell\"," \
    "\"profile_id\":\"default\",\"script\":\"%s\"}}}"

static void test_order_of_checks(void **state)
{
    fixture f;
    TCI_UNUSED(state);
    fixture_prepare(&f);
    fixture_start(&f);
    assert_error(answer(&f, ask_in(&f, NULL, "no.such", "{}")), "method_not_found");
    assert_error(answer(&f, ask_in(&f, "s", "device.describe", "{}")), "invalid_request");
    assert_error(answer(&f, ask_in(&f, NULL, "file.stat", "{}")), "invalid_request");
    assert_error(answer(&f, ask_in(&f, "session-x-1", "file.stat", "{}")), "not_initialized");
    assert_error(
        answer(&f, ask_in(&f, NULL, "device.metrics",
                          "{\"expected_device_id\":\"device-1\",\"expected_generation\":1}")),
        "unsupported");
    fixture_open_session(&f);
    assert_error(answer(&f, ask(&f, "computer.describe", "{\"context\":{\"operation_id\":\"c\"}}")),
                 "unsupported");
    assert_error(answer(&f, ask(&f, "egress.update", "{\"expected_revision\":1}")), "unsupported");
    assert_error(
        answer(&f, ask(&f, "file.stat",
                       "{\"context\":{\"operation_id\":\"a\"},\"path\":{\"path\":\"x\"}}")),
        "invalid_params");
    fixture_stop(&f);
}

static void test_same_operation_is_answered_from_its_record(void **state)
{
    fixture f;
    TCI_UNUSED(state);
    fixture_prepare(&f);
    fixture_start(&f);
    fixture_open_session(&f);
    const tci_json *first =
        answer(&f, ask(&f, "file.write_text", WRITE, "w", f.folder, "a", "create", "one"));
    assert_ok(first);
    const tci_json *again =
        answer(&f, ask(&f, "file.write_text", WRITE, "w", f.folder, "a", "create", "one"));
    assert_ok(again); /* a second create would be a conflict */
    assert_true(tci_str_eq(text_at(first, "result", "receipt", "observed_at"),
                           text_at(again, "result", "receipt", "observed_at")));
    assert_error(answer(&f, ask(&f, "file.write_text", WRITE, "w", f.folder, "a", "create", "two")),
                 "conflict");
    assert_error(
        answer(&f, ask(&f, "file.mkdir",
                       "{\"context\":{\"operation_id\":\"w\"},\"path\":{\"path\":\"%s/d\"}}",
                       f.folder)),
        "conflict");
    /* failures are evidence too */
    const tci_json *failed =
        answer(&f, ask(&f, "file.write_text", WRITE, "x", f.folder, "a", "create", "one"));
    assert_error(failed, "conflict");
    const tci_json *failed_again =
        answer(&f, ask(&f, "file.write_text", WRITE, "x", f.folder, "a", "create", "one"));
    assert_true(tci_str_eq(
        text_at(at(failed, "error", "data", NULL), "receipt", "observed_at", NULL),
        text_at(at(failed_again, "error", "data", NULL), "receipt", "observed_at", NULL)));
    fixture_stop(&f);
}

static void test_receipts(void **state)
{
    fixture f;
    TCI_UNUSED(state);
    fixture_prepare(&f);
    fixture_start(&f);
    fixture_open_session(&f);
    assert_ok(answer(&f, ask(&f, "file.write_text", WRITE, "w", f.folder, "a", "create", "one")));
    const tci_json *r =
        answer(&f, ask(&f, "receipt.get",
                       "{\"context\":{\"operation_id\":\"g\"},\"operation_id\":\"w\"}"));
    assert_str(text_at(r, "result", "receipt", "outcome"), "succeeded");
    assert_str(text_at(r, "result", "receipt", "method"), "file.write_text");
    assert_int_equal(text_at(r, "result", "receipt", "request_digest").len, 64);
    assert_error(
        answer(&f, ask(&f, "receipt.get",
                       "{\"context\":{\"operation_id\":\"g\"},\"operation_id\":\"never\"}")),
        "not_found_or_denied");
    /* a read leaves no receipt, and its id is free again */
    assert_ok(answer(&f, ask(&f, "file.stat",
                             "{\"context\":{\"operation_id\":\"s\"},\"path\":{\"path\":\"/\"}}")));
    assert_ok(
        answer(&f, ask(&f, "file.stat",
                       "{\"context\":{\"operation_id\":\"s\"},\"path\":{\"path\":\"/tmp\"}}")));
    fixture_stop(&f);
}

static void test_a_running_operation_is_in_progress(void **state)
{
    fixture f;
    TCI_UNUSED(state);
    fixture_prepare(&f);
    fixture_start(&f);
    fixture_open_session(&f);
    uint64_t id = ask(&f, "shell.exec", EXEC, "long", "sleep 60");
    assert_error(answer(&f, ask(&f, "shell.exec", EXEC, "long", "sleep 60")),
                 "operation_in_progress");
    assert_error(answer(&f, ask(&f, "shell.exec", EXEC, "long", "sleep 61")), "conflict");
    const tci_json *c =
        answer(&f, ask(&f, "operation.cancel",
                       "{\"context\":{\"operation_id\":\"c\"},\"target_operation_id\":\"long\"}"));
    assert_str(text_at(c, "result", "status", NULL), "cancellation_requested");
    const tci_json *r = answer(&f, id);
    assert_str(text_at(r, "result", "status", "phase"), "cancelled");
    assert_str(text_at(r, "result", "receipt", "outcome"), "cancelled");
    c = answer(&f, ask(&f, "operation.cancel",
                       "{\"context\":{\"operation_id\":\"c2\"},\"target_operation_id\":\"long\"}"));
    assert_str(text_at(c, "result", "status", NULL), "already_terminal");
    c = answer(&f, ask(&f, "operation.cancel",
                       "{\"context\":{\"operation_id\":\"c3\"},\"target_operation_id\":\"none\"}"));
    assert_str(text_at(c, "result", "status", NULL), "not_found");
    fixture_stop(&f);
}

static void test_full_lanes_refuse_at_once_and_leave_room_to_clean_up(void **state)
{
    fixture f;
    TCI_UNUSED(state);
    fixture_prepare(&f);
    f.config.limits.max_concurrent_operations = 2;
    fixture_start(&f);
    fixture_open_session(&f);
    uint64_t a = ask(&f, "shell.exec", EXEC, "a", "sleep 60");
    uint64_t b = ask(&f, "shell.exec", EXEC, "b", "sleep 60");
    assert_error(
        answer(&f, ask(&f, "file.stat",
                       "{\"context\":{\"operation_id\":\"s\"},\"path\":{\"path\":\"/\"}}")),
        "busy");
    assert_int_equal(f.nrefused, 1);
    assert_ok(answer(&f, ask(&f, "session.keepalive", "{}")));
    assert_ok(
        answer(&f, ask(&f, "operation.cancel",
                       "{\"context\":{\"operation_id\":\"c\"},\"target_operation_id\":\"a\"}")));
    assert_ok(answer(&f, a));
    assert_ok(answer(&f, ask(&f, "file.stat",
                             "{\"context\":{\"operation_id\":\"s\"},\"path\":{\"path\":\"/\"}}")));
    assert_false(is_answered(&f, b));
    fixture_stop(&f);
}

/* The records of a session are bounded: the least recently used goes, unless a live process pins it. */
static void test_ledger_pressure(void **state)
{
    fixture f;
    char id[32];
    TCI_UNUSED(state);
    fixture_prepare(&f);
    f.config.limits.max_operation_records = 4;
    fixture_start(&f);
    fixture_open_session(&f);
    const tci_json *p = answer(&f, ask(&f, "process.start", EXEC, "proc", "true"));
    assert_ok(p);
    for (int i = 0; i < 10; i++) {
        (void)snprintf(id, sizeof id, "m%d", i);
        assert_ok(answer(&f, ask(&f, "file.write_text", WRITE, id, f.folder, "a", "upsert", "x")));
    }
#define RECEIPT(of)                   \
    answer(&f, ask(&f, "receipt.get", \
                   "{\"context\":{\"operation_id\":\"g\"},\"operation_id\":\"%s\"}", (of)))
    assert_error(RECEIPT("m0"), "not_found_or_denied");
    assert_ok(RECEIPT("m9"));
    assert_ok(RECEIPT("proc")); /* pinned by its process */
    assert_true(f.device->nrecords <= 4);
    fixture_stop(&f);
}

static void test_records_expire(void **state)
{
    fixture f;
    TCI_UNUSED(state);
    fixture_prepare(&f);
    f.config.limits.operation_record_ttl_ms = 50;
    fixture_start(&f);
    fixture_open_session(&f);
    assert_ok(answer(&f, ask(&f, "file.write_text", WRITE, "w", f.folder, "a", "create", "x")));
    wait_until(&f, f.device->nrecords == 0);
    assert_error(RECEIPT("w"), "not_found_or_denied");
    fixture_stop(&f);
}

static void test_idle_sessions_expire_and_keepalive_prevents_it(void **state)
{
    enum { IDLE_MS = 1500 };
    fixture f;
    TCI_UNUSED(state);
    fixture_prepare(&f);
    f.config.idle_timeout_ms = IDLE_MS;
    fixture_start(&f);
    fixture_open_session(&f);
    int64_t start = tci_loop_now_ms(f.loop);
    while (tci_loop_now_ms(f.loop) < start + 2 * IDLE_MS) {
        assert_ok(answer(&f, ask(&f, "session.keepalive", "{}")));
        tci_loop_turn(f.loop, 20);
    }
    wait_until(&f, f.device->nsessions == 0);
    assert_error(answer(&f, ask(&f, "session.keepalive", "{}")), "not_initialized");
    fixture_stop(&f);
}

/* What a command printed does not stay in memory because its answer must be repeatable. */
static void test_large_evidence_is_kept_on_disk_and_repeated_exactly(void **state)
{
    fixture f;
    TCI_UNUSED(state);
    fixture_prepare(&f);
    fixture_start(&f);
    fixture_open_session(&f);
    const char *script = "head -c 300000 /dev/zero | tr '\\\\0' x";
    const tci_json *first = answer(&f, ask(&f, "shell.exec", EXEC, "big", script));
    assert_ok(first);
    assert_int_equal(
        number_at(at(first, "result", "output", NULL), "stdout", "produced_bytes", NULL), 300000);
    const tci_json *again = answer(&f, ask(&f, "shell.exec", EXEC, "big", script));
    tc_str a = text_at(at(first, "result", "output", NULL), "stdout", "preview", "data");
    tc_str b = text_at(at(again, "result", "output", NULL), "stdout", "preview", "data");
    assert_int_equal(a.len, 400000);
    assert_true(tci_str_eq(a, b));
    assert_true(tci_str_eq(text_at(first, "result", "receipt", "observed_at"),
                           text_at(again, "result", "receipt", "observed_at")));
    fixture_stop(&f);
}

static void test_sessions_are_independent(void **state)
{
    fixture f;
    char first[64];
    TCI_UNUSED(state);
    fixture_prepare(&f);
    fixture_start(&f);
    fixture_open_session(&f);
    memcpy(first, f.session, sizeof first);
    assert_ok(answer(&f, ask(&f, "file.write_text", WRITE, "w", f.folder, "a", "create", "x")));
    const tci_json *p = answer(&f, ask(&f, "process.start", EXEC, "p", "sleep 60"));
    assert_ok(p);
    fixture_open_session(&f);
    assert_string_not_equal(first, f.session);
    assert_error(RECEIPT("w"), "not_found_or_denied");
    tc_str handle = text_at(p, "result", "process", "handle");
    assert_error(answer(&f, ask(&f, "process.inspect",
                                "{\"context\":{\"operation_id\":\"i\"},\"handle\":\"%.*s\"}",
                                TC_STR_ARG(handle))),
                 "not_found_or_denied");
    assert_ok(answer(&f, ask(&f, "session.close", "{}")));
    const tci_json *i =
        answer(&f, ask_in(&f, first, "process.inspect",
                          "{\"context\":{\"operation_id\":\"i\"},\"handle\":\"%.*s\"}",
                          TC_STR_ARG(handle)));
    assert_str(text_at(at(i, "result", "process", NULL), "status", "phase", NULL), "running");
    assert_ok(answer(&f, ask_in(&f, first, "session.close", "{}")));
    assert_int_equal(f.device->nprocesses, 0);
    fixture_stop(&f);
}

static void test_session_capacity(void **state)
{
    fixture f;
    TCI_UNUSED(state);
    fixture_prepare(&f);
    f.config.limits.max_sessions = 1;
    fixture_start(&f);
    fixture_open_session(&f);
    assert_error(answer(&f, ask_in(&f, NULL, "session.open",
                                   "{\"expected_device_id\":\"device-1\",\"expected_generation\":%"
                                   "llu,\"protocol_version\":\"0.3\"}",
                                   (unsigned long long)f.device->generation)),
                 "busy");
    assert_ok(answer(&f, ask(&f, "session.close", "{}")));
    fixture_open_session(&f);
    fixture_stop(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order_of_checks),
        cmocka_unit_test(test_same_operation_is_answered_from_its_record),
        cmocka_unit_test(test_receipts),
        cmocka_unit_test(test_a_running_operation_is_in_progress),
        cmocka_unit_test(test_full_lanes_refuse_at_once_and_leave_room_to_clean_up),
        cmocka_unit_test(test_ledger_pressure),
        cmocka_unit_test(test_records_expire),
        cmocka_unit_test(test_idle_sessions_expire_and_keepalive_prevents_it),
        cmocka_unit_test(test_large_evidence_is_kept_on_disk_and_repeated_exactly),
        cmocka_unit_test(test_sessions_are_independent),
        cmocka_unit_test(test_session_capacity),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
