/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory that ends at the n-th allocation, for every n: calls fail, or the session does, and what was
 * waited for ends; nothing hangs. */
#include "sched_world.h"

#include <stdio.h>
#include <string.h>

static int leaf_start(tc_task *t, tc_err *err)
{
    tc_str value;
    if (tc_task_memo(t, TC_STR("m"), TC_STR("1"), &value, err) < 0)
        return err->code;
    return next_done(t, "1", err);
}
DEF(leaf, "t.leaf", 1, {"start", leaf_start});

static int top_start(tc_task *t, tc_err *err)
{
    uint64_t ids[2];
    if (tc_task_create(t, &leaf, TC_STR("1"), false, &ids[0], err) < 0 ||
        tc_task_create(t, &leaf, TC_STR("2"), false, &ids[1], err) < 0)
        return err->code;
    return next_wait(t, "{\"phase\":\"over\"}", ids, 2, TC_WAIT_FAIL_FAST, err);
}
static int top_over(tc_task *t, tc_err *err)
{
    return next_done(t, "1", err);
}
DEF(top, "t.top", 1, {"start", top_start}, {"over", top_over});

/* A session in memory with its root. */
static tc_durable *open_session(void)
{
    tc_durable *s;
    tc_tx *tx;
    tc_err err;
    assert_int_equal(tc_durable_open(TC_STR(":memory:"), NULL, &s, &err), 0);
    assert_int_equal(tc_durable_begin(s, NULL, &tx, &err), 0);
    assert_int_equal(tc_tx_create_root_conversation(tx, &err), 0);
    assert_int_equal(tc_tx_commit(tx, &err), 0);
    return s;
}

/* One task, as far as it gets. True: memory lasted. */
static bool try_once(world *w, tc_durable *s, size_t n)
{
    tc_err err;
    tc_tx *tx;
    tc_harness *h = NULL;
    tc_ctx *ctx;
    tc_result *r;
    uint64_t id;
    tc_str record;
    tc_task_options options = TC_TASK_OPTIONS;
    options.conversation_id = TCI_ROOT_ID;
    assert_int_equal(tc_ctx_new(WORLD_WAIT_MS, &ctx, &err), 0);
    assert_int_equal(tc_result_new(&r, &err), 0);
    tci_mem_fail_at(n);
    int rc = tci_harness_open_with(s, &w->options, &w->parts, NULL, &h, &err);
    if (rc == 0)
        rc = tc_durable_begin(tc_harness_session(h), NULL, &tx, &err);
    if (rc == 0) {
        rc = tc_tx_create_task_of(tx, &top, TC_STR("{}"), &options, &id, &err);
        if (rc < 0)
            tc_tx_rollback(tx);
        else
            rc = tc_tx_commit(tx, &err);
    }
    if (rc == 0)
        rc = tc_harness_wait_task(h, ctx, id, r, &record, &err);
    assert_int_not_equal(rc, TC_E_TIMEOUT);
    bool is_done = rc == 0;
    tci_mem_fail_at(0);
    tc_harness_free(h);
    tc_ctx_free(ctx);
    tc_result_free(r);
    return is_done;
}

static void memory_may_end_anywhere(void **state)
{
    (void)state;
    world w;
    const tc_task_def *const defs[] = {&top, &leaf};
    world_init(&w, "");
    world_install(&w, "test", defs, 2);
    size_t n = 1;
    unsigned nlasted = 0;
    /* Threads take turns differently each time: go on until it has lasted a few times in a row. */
    for (; nlasted < 3 && n < 5000; n++)
        nlasted = try_once(&w, open_session(), n) ? nlasted + 1 : 0;
    assert_true(n < 5000);
    world_done(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(memory_may_end_anywhere)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
