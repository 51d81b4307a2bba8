/* SPDX-License-Identifier: Apache-2.0
 *
 * Daemons that dial in, when their link is lost: what is told, what can be taken up again, what cannot. */
#include "fixture_websocket.h"

#include "plat/clock.h"
#include "tool.h"

enum { WAIT_MS = 1000 };

static void a_session_is_taken_up_on_the_next_connection(void **state)
{
    fixture *f = *state;
    tc_device *old = websocket_device(f, NULL);
    tc_session *s = NULL, *again = NULL;
    tc_call call = plain_call(f);
    tc_process process, now;
    tc_command command = {.size = sizeof command,
                          .script =
                              TC_STR("echo before; while read line; do echo \"got $line\"; done")};
    tc_session_options o = {.size = sizeof o, .working_directory = text(f->root)};
    command.keep_stdin_open = true;
    assert_ok(f, tc_session_open(old, NULL, &o, &s, &f->err));
    assert_ok(f, tc_session_process_start(s, &call, &command, &process, &f->err));
    websocket_cut(f);
    tc_device *fresh = websocket_device(f, old);
    assert_false(tc_session_is_alive(s));
    assert_code(f, TC_E_CLOSED,
                tc_session_process_inspect(s, &call, process.handle, &now, &f->err));
    const tc_session_info *info = tc_session_get_info(s);
    assert_ok(f,
              tc_session_attach(fresh, NULL, info->session_id, info->generation, &again, &f->err));
    /* Its command has run on, once. */
    uint64_t n;
    assert_ok(f, tc_session_process_inspect(again, &call, process.handle, &now, &f->err));
    assert_true(now.status.phase == TC_PROCESS_RUNNING);
    assert_ok(f, tc_session_process_write(again, &call, process.handle, TC_STR("on\n"), false, &n,
                                          &f->err));
    tc_output_page page;
    uint64_t at = sizeof "before\n" - 1;
    do
        assert_ok(f, tc_session_output_read(again, &call, now.out.reference, at, WAIT_MS, &page,
                                            &f->err));
    while (page.data.len == 0);
    assert_text(page.data, "got on\n");
    tc_session_detach(s);
    assert_ok(f, tc_session_close(again, NULL, &f->err));
    tc_device_close(old);
    tc_device_close(fresh);
}

static void what_was_under_way_is_unknown_until_it_is_asked_about(void **state)
{
    fixture *f = *state;
    tc_device *old = websocket_device(f, NULL);
    tc_session *s = NULL, *again = NULL;
    tc_call call = plain_call(f);
    tc_session_options o = {.size = sizeof o, .working_directory = text(f->root)};
    char path[2300];
    snprintf(path, sizeof path, "%s/kept.txt", f->root);
    tc_str file = text(path);
    tc_outcome outcome;
    tc_receipt receipt;
    assert_ok(f, tc_session_open(old, NULL, &o, &s, &f->err));
    call.operation_id = TC_STR("op-before-the-cut");
    assert_ok(f, tc_session_write_text(s, &call, file, TC_STR("kept"), NULL, NULL, &f->err));
    websocket_cut(f);
    tc_device *fresh = websocket_device(f, old);
    call.operation_id = TC_STR("op-after-the-cut");
    assert_code(f, TC_E_CLOSED,
                tc_session_write_text(s, &call, file, TC_STR("no"), NULL, NULL, &f->err));
    assert_true(tc_result_evidence(f->r)->outcome == TC_OUTCOME_NOT_STARTED);
    const tc_session_info *info = tc_session_get_info(s);
    assert_ok(f,
              tc_session_attach(fresh, NULL, info->session_id, info->generation, &again, &f->err));
    call.operation_id = (tc_str){0};
    assert_ok(f, tc_session_reconcile(again, &call, TC_STR("op-before-the-cut"), &outcome, &receipt,
                                      &f->err));
    assert_true(outcome == TC_OUTCOME_DONE && receipt.outcome == TC_RECEIPT_SUCCEEDED);
    assert_ok(
        f, tc_session_reconcile(again, &call, TC_STR("op-after-the-cut"), &outcome, NULL, &f->err));
    assert_true(outcome == TC_OUTCOME_UNKNOWN); /* nobody has heard of it */
    tc_session_detach(s);
    assert_ok(f, tc_session_close(again, NULL, &f->err));
    tc_device_close(old);
    tc_device_close(fresh);
}

static void a_new_adapter_has_a_new_session_and_the_same_files(void **state)
{
    fixture *f = *state;
    tc_str dir = folder(f, "again");
    tc_call call = plain_call(f);
    tc_text_page page;
    tc_env *one = make_env(f, dir);
    tc_device *old = websocket_device(f, NULL);
    assert_ok(f,
              tc_env_write_text(one, &call, TC_STR("note"), TC_STR("kept"), NULL, NULL, &f->err));
    websocket_cut(f);
    tc_device_close(websocket_device(f, old));
    assert_code(f, TC_E_CLOSED, tc_env_read_text(one, &call, TC_STR("note"), NULL, &page, &f->err));
    tc_env *two = make_env(f, dir);
    assert_true(tc_env_generation(one) == tc_env_generation(two));
    assert_false(tci_str_eq(tc_env_session_id(one), tc_env_session_id(two)));
    assert_ok(f, tc_env_read_text(two, &call, TC_STR("note"), NULL, &page, &f->err));
    assert_text(page.text, "kept");
    tc_env_release(one);
    tc_env_release(two);
    tc_device_close(old);
}

static void another_generation_has_no_session_of_before(void **state)
{
    fixture *f = *state;
    tc_device *old = websocket_device(f, NULL);
    tc_session *s = NULL, *again = NULL;
    tc_session_options o = {.size = sizeof o, .working_directory = text(f->root)};
    assert_ok(f, tc_session_open(old, NULL, &o, &s, &f->err));
    websocket_restart(f);
    tc_device *fresh = websocket_device(f, old);
    const tc_session_info *info = tc_session_get_info(s);
    uint64_t generation = tc_device_get_info(fresh)->generation;
    assert_true(generation != info->generation);
    assert_code(
        f, TC_E_INCOMPATIBLE,
        tc_session_attach(fresh, NULL, info->session_id, info->generation, &again, &f->err));
    assert_code(f, TC_E_NOT_READY,
                tc_session_attach(fresh, NULL, info->session_id, generation, &again, &f->err));
    assert_true(tc_device_is_alive(fresh));
    tc_session_detach(s);
    tc_device_close(old);
    tc_device_close(fresh);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_session_is_taken_up_on_the_next_connection),
        cmocka_unit_test(what_was_under_way_is_unknown_until_it_is_asked_about),
        cmocka_unit_test(a_new_adapter_has_a_new_session_and_the_same_files),
        cmocka_unit_test(another_generation_has_no_session_of_before),
    };
    return RUN_SUITE(argc, argv, tests);
}
