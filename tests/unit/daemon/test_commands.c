/* SPDX-License-Identifier: Apache-2.0
 *
 * Commands as sessions see them: what a stop, a close and a wait in the same moment do, what is kept of a
 * command and for how long. */
#include "fixture.h"

#include <stdio.h>
#include <string.h>

#define EXEC                                                                               \
    "{\"context\":{\"operation_id\":\"%s\"},\"request\":{\"command\":{\"kind\":\"shell\"," \
    "\"profile_id\":"                                                                      \
    "\"default\",\"script\":\"%s\"}}}"
#define ON "{\"context\":{\"operation_id\":\"%s\"},\"handle\":\"%.*s\"%s}"

static void begin(fixture *f)
{
    fixture_prepare(f);
    fixture_start(f);
    fixture_open_session(f);
}

static tc_str start(fixture *f, const char *op, const char *script)
{
    const tci_json *r = answer(f, ask(f, "process.start", EXEC, op, script));
    assert_ok(r);
    return text_at(r, "result", "process", "handle");
}

/* The start is stopped by the close that comes with it; both are answered, nothing is freed twice. */
static void test_start_and_close_in_one_moment(void **state)
{
    fixture f;
    TCI_UNUSED(state);
    begin(&f);
    uint64_t started = ask(&f, "process.start", EXEC, "p", "sleep 60");
    uint64_t closed = ask(&f, "session.close", "{}");
    assert_error(answer(&f, started), "cancelled");
    assert_ok(answer(&f, closed));
    assert_int_equal(f.device->nprocesses, 0);
    assert_int_equal(f.device->nprocess_records, 0);
    fixture_stop(&f);
}

/* A start that is cancelled while it delivers input was cancelled, not lost. */
static void test_cancel_while_input_is_delivered(void **state)
{
    fixture f;
    TCI_UNUSED(state);
    begin(&f);
    tci_buf big;
    tci_buf_init(&big, TCI_BUF_MAX);
    for (int i = 0; i < 400000; i++)
        tci_buf_append(&big, "QUFB", 4); /* more than any pipe takes */
    tci_buf_append_byte(&big, '\0');
    uint64_t id = ask(&f, "process.start",
                      "{\"context\":{\"operation_id\":\"p\"},\"request\":{\"command\":{\"kind\":"
                      "\"shell\",\"profile_id\":"
                      "\"default\",\"script\":\"sleep "
                      "60\"},\"initial_stdin\":{\"encoding\":\"base64\",\"data\":\"%s\"}}}",
                      big.ptr);
    tci_buf_done(&big);
    tci_loop_turn(f.loop, 50);
    assert_false(is_answered(&f, id));
    assert_ok(
        answer(&f, ask(&f, "operation.cancel",
                       "{\"context\":{\"operation_id\":\"c\"},\"target_operation_id\":\"p\"}")));
    const tci_json *r = answer(&f, id);
    assert_error(r, "cancelled");
    assert_str(text_at(at(r, "error", "data", NULL), "receipt", "outcome", NULL), "cancelled");
    assert_int_equal(f.device->nprocess_records, 0);
    fixture_stop(&f);
}

static void test_waits_end_together_and_one_by_one(void **state)
{
    fixture f;
    TCI_UNUSED(state);
    begin(&f);
    tc_str p = start(&f, "p", "sleep 60");
    uint64_t a =
        ask(&f, "process.wait", ON, "a", TC_STR_ARG(p), ",\"condition\":\"initial_terminal\"");
    uint64_t b = ask(&f, "process.wait", ON, "b", TC_STR_ARG(p), ",\"condition\":\"tree_cleaned\"");
    uint64_t c = ask(&f, "process.wait", ON, "c", TC_STR_ARG(p), ",\"condition\":\"tree_cleaned\"");
    assert_ok(
        answer(&f, ask(&f, "operation.cancel",
                       "{\"context\":{\"operation_id\":\"x\"},\"target_operation_id\":\"b\"}")));
    assert_error(answer(&f, b), "cancelled");
    assert_error(answer(&f, ask(&f, "process.release", ON, "early", TC_STR_ARG(p), "")),
                 "conflict");
    const tci_json *killed = answer(&f, ask(&f, "process.kill", ON, "k", TC_STR_ARG(p), ""));
    assert_str(text_at(at(killed, "result", "process", NULL), "status", "signal", NULL), "kill");
    assert_ok(answer(&f, a));
    assert_ok(answer(&f, c));
    assert_ok(answer(&f, ask(&f, "process.release", ON, "r", TC_STR_ARG(p), "")));
    assert_error(answer(&f, ask(&f, "process.inspect", ON, "i", TC_STR_ARG(p), "")),
                 "not_found_or_denied");
    fixture_stop(&f);
}

/* Outputs outlive their process, are released once, and then their references mean nothing. */
static void test_outputs_outlive_their_process(void **state)
{
    fixture f;
    TCI_UNUSED(state);
    begin(&f);
    const tci_json *s = answer(&f, ask(&f, "process.start", EXEC, "p", "echo kept"));
    tc_str p = text_at(s, "result", "process", "handle");
    tc_str out = text_at(at(s, "result", "process", "output", NULL), "stdout", "reference", NULL);
    assert_ok(answer(
        &f, ask(&f, "process.wait", ON, "w", TC_STR_ARG(p), ",\"condition\":\"tree_cleaned\"")));
#define REF "{\"context\":{\"operation_id\":\"%s\"},\"reference\":\"%.*s\"%s}"
    assert_error(answer(&f, ask(&f, "output.release", REF, "o1", TC_STR_ARG(out), "")),
                 "conflict"); /* attached */
    assert_ok(answer(&f, ask(&f, "process.release", ON, "r", TC_STR_ARG(p), "")));
    const tci_json *page =
        answer(&f, ask(&f, "output.read", REF, "o2", TC_STR_ARG(out), ",\"start_offset\":0"));
    assert_str(text_at(page, "result", "data", "data"), "a2VwdAo");
    assert_error(
        answer(&f, ask(&f, "output.read", REF, "o3", TC_STR_ARG(out), ",\"start_offset\":99")),
        "invalid_params");
    assert_ok(answer(&f, ask(&f, "output.release", REF, "o4", TC_STR_ARG(out), "")));
    assert_error(
        answer(&f, ask(&f, "output.read", REF, "o5", TC_STR_ARG(out), ",\"start_offset\":0")),
        "invalid_handle");
    fixture_stop(&f);
}

/* A reader of output that waits is told when the output is gone with its session, and gets what came when the
 * wait runs out. */
static void test_waiting_for_output(void **state)
{
    fixture f;
    TCI_UNUSED(state);
    begin(&f);
    const tci_json *s = answer(&f, ask(&f, "process.start", EXEC, "p", "sleep 60"));
    tc_str out = text_at(at(s, "result", "process", "output", NULL), "stdout", "reference", NULL);
    const tci_json *empty = answer(&f, ask(&f, "output.read", REF, "o1", TC_STR_ARG(out),
                                           ",\"start_offset\":0,\"wait_ms\":30"));
    assert_int_equal(number_at(empty, "result", "next_offset", NULL), 0);
    uint64_t waiting =
        ask(&f, "output.read", REF, "o2", TC_STR_ARG(out), ",\"start_offset\":0,\"wait_ms\":60000");
    uint64_t closed = ask(&f, "session.close", "{}");
    assert_error(answer(&f, waiting), "cancelled");
    assert_ok(answer(&f, closed));
    fixture_stop(&f);
}

/* Commands come and go; what is kept of them stays within the limits. */
static void test_finished_processes_make_room(void **state)
{
    fixture f;
    char op[32];
    TCI_UNUSED(state);
    fixture_prepare(&f);
    f.config.limits.max_process_records = 4;
    f.config.limits.max_processes = 4;
    fixture_start(&f);
    fixture_open_session(&f);
    for (int i = 0; i < 12; i++) {
        (void)snprintf(op, sizeof op, "p%d", i);
        tc_str p = start(&f, op, "true");
        (void)snprintf(op, sizeof op, "w%d", i);
        assert_ok(answer(
            &f, ask(&f, "process.wait", ON, op, TC_STR_ARG(p), ",\"condition\":\"tree_cleaned\"")));
    }
    assert_true(f.device->nprocess_records <= 4);
    for (int i = 0; i < 4; i++) {
        (void)snprintf(op, sizeof op, "live%d", i);
        (void)start(&f, op, "sleep 60");
    }
    assert_error(answer(&f, ask(&f, "process.start", EXEC, "many", "sleep 60")), "busy");
    fixture_stop(&f);
}

/* case_27: ten at once at default limits. case_01: input ends at once when none was given. */
static void test_case_01_27_many_small_commands_at_once(void **state)
{
    fixture f;
    char op[32];
    uint64_t ids[10];
    TCI_UNUSED(state);
    begin(&f);
    for (int i = 0; i < 10; i++) {
        (void)snprintf(op, sizeof op, "e%d", i);
        ids[i] = ask(&f, "shell.exec", EXEC, op, "cat; echo hi");
    }
    for (int i = 0; i < 10; i++) {
        const tci_json *r = answer(&f, ids[i]);
        assert_ok(r);
        assert_str(text_at(at(r, "result", "output", "stdout", NULL), "preview", "data", NULL),
                   "aGkK");
    }
    fixture_stop(&f);
}

/* One session's old evidence does not keep another from working when the device's ledger is full. */
static void test_a_full_device_ledger_serves_all(void **state)
{
    fixture f;
    char op[32];
    TCI_UNUSED(state);
    fixture_prepare(&f);
    f.config.limits.max_operation_records = 6;
    f.config.limits.max_device_operation_records = 6;
    fixture_start(&f);
    fixture_open_session(&f);
    for (int i = 0; i < 6; i++) {
        (void)snprintf(op, sizeof op, "a%d", i);
        assert_ok(answer(&f, ask(&f, "shell.exec", EXEC, op, "true")));
        tc_str out = text_at(at(answer(&f, f.next_id), "result", "output", "stdout", NULL),
                             "reference", NULL, NULL);
        tc_str err = text_at(at(answer(&f, f.next_id), "result", "output", "stderr", NULL),
                             "reference", NULL, NULL);
        (void)snprintf(op, sizeof op, "ro%d", i);
        assert_ok(answer(&f, ask(&f, "output.release", REF, op, TC_STR_ARG(out), "")));
        (void)snprintf(op, sizeof op, "re%d", i);
        assert_ok(answer(&f, ask(&f, "output.release", REF, op, TC_STR_ARG(err), "")));
    }
    fixture_open_session(&f);
    assert_ok(answer(&f, ask(&f, "shell.exec", EXEC, "b", "true")));
    fixture_stop(&f);
}

/* Large answers that must be repeatable have a budget; over it the oldest say that their answer is gone. */
static void test_evidence_has_a_budget(void **state)
{
    fixture f;
    char op[32];
    const char *script = "head -c 2000000 /dev/zero | tee /dev/stderr";
    TCI_UNUSED(state);
    begin(&f);
    for (int i = 0; i < 14; i++) {
        (void)snprintf(op, sizeof op, "big%d", i);
        assert_ok(answer(&f, ask(&f, "shell.exec", EXEC, op, script)));
    }
    assert_true(f.device->evidence_bytes <= (UINT64_C(64) << 20));
    assert_ok(answer(&f, ask(&f, "shell.exec", EXEC, "big13", script)));
    assert_error(answer(&f, ask(&f, "shell.exec", EXEC, "big0", script)), "conflict");
    assert_ok(answer(&f, ask(&f, "receipt.get",
                             "{\"context\":{\"operation_id\":\"g\"},\"operation_id\":\"big0\"}")));
    fixture_stop(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_start_and_close_in_one_moment),
        cmocka_unit_test(test_cancel_while_input_is_delivered),
        cmocka_unit_test(test_waits_end_together_and_one_by_one),
        cmocka_unit_test(test_outputs_outlive_their_process),
        cmocka_unit_test(test_waiting_for_output),
        cmocka_unit_test(test_finished_processes_make_room),
        cmocka_unit_test(test_case_01_27_many_small_commands_at_once),
        cmocka_unit_test(test_a_full_device_ledger_serves_all),
        cmocka_unit_test(test_evidence_has_a_budget),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
