/* SPDX-License-Identifier: Apache-2.0
 *
 * Changes on a device that keeps receipts: what a restarted program can say of a call that was cut off. */
#include "op_device.h"
#include "tool_run.h"

static op_device *device; /* of all tests: it outlives what uses it */

typedef struct bench {
    run r;
    op_device *device;
    signal began, go;
    bool does_write;
    tc_str operation_id;
    tc_tool tool;
    const tc_tool *list[1];
    tc_extension extension;
} bench;

static int on_device(void *user, const tc_env_target *target, tc_ctx *ctx, tc_env **ret_env,
                     tc_err *err)
{
    bench *b = user;
    (void)target;
    (void)ctx;
    (void)err;
    *ret_env = op_device_env(b->device);
    return 0;
}

/* Notes a change, makes it or not, and hangs. */
static int change(void *user, tc_str arguments, tc_tool_api *api, tc_ctx *ctx, tc_tool_result *ret,
                  tc_err *err)
{
    bench *b = user;
    tc_result *r = tc_tool_result_memory(api);
    tc_call call = TC_CALL(ctx, r);
    (void)arguments;
    (void)ret;
    if (tc_tool_operation(api, ctx, TC_STR("write note.txt"), r, &call.operation_id, err) < 0)
        return err->code;
    b->operation_id = call.operation_id;
    if (b->does_write &&
        tc_env_write_file(tc_tool_env(api), &call, TC_STR("note.txt"), TC_STR("noted"), err) < 0)
        return err->code;
    signal_set(&b->began);
    signal_wait(&b->go, 1, ctx);
    return 0;
}

static void cut_off(void **state, const char *name, const char *copy, bool does_write,
                    const char *words)
{
    bench *b = calloc(1, sizeof *b);
    run_init(&b->r, *state, name);
    b->device = device;
    signal_init(&b->began);
    signal_init(&b->go);
    b->does_write = does_write;
    b->tool =
        (tc_tool){.size = sizeof b->tool, .name = TC_STR("change"), .execute = change, .user = b};
    b->list[0] = &b->tool;
    b->extension = (tc_extension){
        .size = sizeof b->extension, .name = TC_STR("x"), .tools = b->list, .ntools = 1, .user = b};
    b->r.extensions[b->r.nextensions++] = &b->extension;
    b->r.env = on_device;
    b->r.user = b;
    b->r.turns[b->r.nturns++] =
        "[{\"type\":\"toolCall\",\"id\":\"c1\",\"name\":\"change\",\"arguments\":{}}]";
    run_open(&b->r);
    uint64_t id = run_submit(&b->r, "go");
    assert_true(signal_wait(&b->began, 1, NULL));
    run_crash_and_leave(&b->r, copy);
    run_open(&b->r);
    tc_submission s;
    tc_call call = TC_CALL(NULL, b->r.w->r);
    assert_ok(b->r.w, tc_submission_wait(b->r.h, &call, id, &s, &b->r.w->err));
    assert_has(run_result_text(&b->r, 0), words);
    assert_has(run_result_text(&b->r, 0), "Tool change was interrupted and may have partially run");
    signal_set(&b->go);
    run_close_left(&b->r);
    run_done(&b->r);
    free(b);
}

static void receipt_says_that_it_was_done_case_65(void **state)
{
    cut_off(state, "done", "done2", true,
            "[info] write note.txt: was done on the device before the interruption");
}

static void without_receipt_it_is_unknown_case_65(void **state)
{
    cut_off(state, "unknown", "unknown2", false,
            "[warn] write note.txt: the device has no record of it, so it may or may not have been "
            "done");
}

static int open_all(void **state)
{
    device = op_device_open();
    return device != NULL ? world_open(state) : -1;
}

static int close_all(void **state)
{
    int rc = world_close(state);
    op_device_close(device);
    return rc;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(receipt_says_that_it_was_done_case_65),
        cmocka_unit_test(without_receipt_it_is_unknown_case_65),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
