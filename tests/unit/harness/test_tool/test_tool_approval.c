/* SPDX-License-Identifier: Apache-2.0
 *
 * Asking before tools run: what is asked survives, and an answer counts once, for what was asked. */
#include "tool_run.h"

typedef struct bench {
    run r;
    atomic_uint nruns;
    char seen[200];
    const char *changes; /* arguments a hook behind the gate puts in */
    tc_tool tool, free_tool;
    const tc_tool *list[2];
    tc_hooks hooks;
    tc_extension tools, behind;
    struct tc_extension *gate;
} bench;

static int work(void *user, tc_str arguments, tc_tool_api *api, tc_ctx *ctx, tc_tool_result *ret,
                tc_err *err)
{
    bench *b = user;
    (void)ctx;
    (void)ret;
    atomic_fetch_add(&b->nruns, 1);
    snprintf(b->seen, sizeof b->seen, "%.*s", TC_STR_ARG(arguments));
    return tc_tool_output(api, TC_STR("worked"), NULL, err);
}

static int change(void *user, tc_hook *hook, tc_str call, tc_result *r, tc_tool_decision *ret,
                  tc_err *err)
{
    bench *b = user;
    (void)hook;
    (void)call;
    (void)r;
    (void)err;
    if (b->changes != NULL)
        ret->arguments = tci_str(b->changes);
    return 0;
}

static bench *make(void **state, const char *name)
{
    static const tc_str free_names[] = {{"look", 4}};
    bench *b = calloc(1, sizeof *b);
    run_init(&b->r, *state, name);
    b->tool = (tc_tool){.size = sizeof b->tool, .name = TC_STR("work"), .execute = work, .user = b};
    b->free_tool = b->tool;
    b->free_tool.name = TC_STR("look");
    b->list[0] = &b->tool;
    b->list[1] = &b->free_tool;
    b->tools = (tc_extension){
        .size = sizeof b->tools, .name = TC_STR("tools"), .tools = b->list, .ntools = 2, .user = b};
    b->hooks = (tc_hooks){.size = sizeof b->hooks, .before_tool = change};
    b->behind = (tc_extension){
        .size = sizeof b->behind, .name = TC_STR("behind"), .hooks = &b->hooks, .user = b};
    assert_ok(b->r.w, tc_approval_gate_new((tc_strs){free_names, 1}, &b->gate, &b->r.w->err));
    b->r.extensions[0] = &b->tools;
    b->r.extensions[1] = b->gate;
    b->r.extensions[2] = &b->behind;
    b->r.nextensions = 3;
    b->r.turns[b->r.nturns++] = "[{\"type\":\"toolCall\",\"id\":\"c1\",\"name\":\"work\","
                                "\"arguments\":{\"n\":9007199254740993}}]";
    return b;
}

static void drop(bench *b)
{
    run_done(&b->r);
    tc_tools_free(b->gate);
    free(b);
}

static void count_commit(void *user, const tc_commit *commit)
{
    for (size_t i = 0; i < commit->ndocs; i++)
        if (tci_str_eq(commit->docs[i].kind, TC_STR("tc.approval")))
            signal_set(user);
}

/* What waits, once something does. */
static tc_approval await_request(bench *b)
{
    tc_approvals all;
    tc_listener *listener;
    signal changed;
    signal_init(&changed);
    world *w = b->r.w;
    assert_ok(w, tc_durable_on_commit(tc_harness_session(b->r.h), count_commit, &changed, &listener,
                                      &w->err));
    assert_ok(w, tc_harness_resume(b->r.h, &w->err));
    assert_ok(w, tc_approval_list(b->r.h, NULL, 0, w->r, &all, &w->err));
    if (all.count == 0) {
        assert_true(signal_wait(&changed, 1, NULL));
        assert_ok(w, tc_approval_list(b->r.h, NULL, b->r.conversation, w->r, &all, &w->err));
    }
    tc_listener_remove(listener);
    assert_int_equal(all.count, 1);
    return all.items[0];
}

static tc_submission finish(bench *b, uint64_t id)
{
    tc_submission s;
    tc_call call = TC_CALL(NULL, b->r.w->r);
    assert_ok(b->r.w, tc_submission_wait(b->r.h, &call, id, &s, &b->r.w->err));
    return s;
}

static int answer(bench *b, const tc_approval *a, tc_str digest, bool yes, const char *reason)
{
    return tc_approval_answer(b->r.h, NULL, a->request_id, digest, yes, tci_str(reason),
                              &b->r.w->err);
}

static void request_survives_a_crash_and_runs_once_case_79(void **state)
{
    bench *b = make(state, "ask");
    run_open(&b->r);
    uint64_t id = run_submit(&b->r, "go");
    tc_approval first = await_request(b);
    assert_text(first.tool, "work");
    assert_text(first.arguments, "{\"n\":9007199254740993}");
    assert_int_equal(first.digest.len, 64);
    assert_int_equal(atomic_load(&b->nruns), 0);
    run_crash(&b->r, "ask2");
    run_open(&b->r);
    tc_approval again = await_request(b);
    assert_true(tci_str_eq(first.request_id, again.request_id));
    assert_true(tci_str_eq(first.digest, again.digest));
    char other[65];
    snprintf(other, sizeof other, "%.*s", TC_STR_ARG(again.digest));
    other[0] = other[0] == '0' ? '1' : '0';
    assert_int_equal(answer(b, &again, tci_str(other), true, ""), TC_E_CONFLICT);
    assert_ok(b->r.w, answer(b, &again, again.digest, true, ""));
    int twice = answer(b, &again, again.digest, true, "");
    assert_true(twice == 0 || twice == TC_E_NOT_FOUND); /* the call may have ended meanwhile */
    assert_int_equal(finish(b, id).status, TC_SUBMISSION_DONE);
    assert_int_equal(atomic_load(&b->nruns), 1);
    assert_text(tci_str(b->seen), "{\"n\":9007199254740993}");
    assert_text(run_result_text(&b->r, 0), "worked");
    assert_int_equal(answer(b, &again, again.digest, true, ""), TC_E_NOT_FOUND);
    tc_approvals none;
    assert_ok(b->r.w, tc_approval_list(b->r.h, NULL, 0, b->r.w->r, &none, &b->r.w->err));
    assert_int_equal(none.count, 0);
    drop(b);
}

static void refusal_is_told_and_final_case_79(void **state)
{
    bench *b = make(state, "no");
    run_open(&b->r);
    uint64_t id = run_submit(&b->r, "go");
    tc_approval a = await_request(b);
    assert_ok(b->r.w, answer(b, &a, a.digest, false, "too risky"));
    int other = answer(b, &a, a.digest, true, "");
    assert_true(other == TC_E_CONFLICT || other == TC_E_NOT_FOUND);
    finish(b, id);
    assert_int_equal(atomic_load(&b->nruns), 0);
    assert_text(
        run_result_text(&b->r, 0),
        "<harness>\n[error] Tool call blocked: approval was refused: too risky\n</harness>");
    drop(b);
}

static void arguments_changed_behind_the_gate_are_refused_case_79(void **state)
{
    bench *b = make(state, "swap");
    b->changes = "{\"n\":1}";
    run_open(&b->r);
    uint64_t id = run_submit(&b->r, "go");
    tc_approval a = await_request(b);
    assert_ok(b->r.w, answer(b, &a, a.digest, true, ""));
    finish(b, id);
    assert_int_equal(atomic_load(&b->nruns), 0);
    assert_has(run_result_text(&b->r, 0), "the arguments are not those that were approved");
    drop(b);
}

static void answered_before_the_crash_is_not_asked_again_case_79(void **state)
{
    bench *b = make(state, "early");
    run_open(&b->r);
    uint64_t id = run_submit(&b->r, "go");
    tc_approval a = await_request(b);
    run_crash(&b->r, "early2");
    run_open(&b->r); /* nothing runs yet: the answer comes first */
    assert_ok(b->r.w, answer(b, &a, a.digest, true, ""));
    run_crash(&b->r, "early3");
    run_open(&b->r);
    assert_int_equal(finish(b, id).status, TC_SUBMISSION_DONE);
    assert_int_equal(atomic_load(&b->nruns), 1);
    drop(b);
}

static void free_tools_and_aborted_calls_do_not_wait(void **state)
{
    bench *b = make(state, "free");
    b->r.turns[0] = "[{\"type\":\"toolCall\",\"id\":\"c1\",\"name\":\"look\",\"arguments\":{}}]";
    b->r.turns[1] = "[{\"type\":\"text\",\"text\":\"ok\"}]";
    b->r.turns[2] = "[{\"type\":\"toolCall\",\"id\":\"c2\",\"name\":\"work\",\"arguments\":{}}]";
    b->r.nturns = 3;
    run_open(&b->r);
    run_prompt(&b->r, "go");
    assert_int_equal(atomic_load(&b->nruns), 1);
    run_submit(&b->r, "again");
    (void)await_request(b);
    assert_ok(b->r.w, tc_conversation_abort(b->r.h, NULL, b->r.conversation, false, &b->r.w->err));
    assert_has(run_result_text(&b->r, 1), "Tool work was aborted");
    assert_int_equal(atomic_load(&b->nruns), 1);
    drop(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(request_survives_a_crash_and_runs_once_case_79),
        cmocka_unit_test(refusal_is_told_and_final_case_79),
        cmocka_unit_test(arguments_changed_behind_the_gate_are_refused_case_79),
        cmocka_unit_test(answered_before_the_crash_is_not_asked_again_case_79),
        cmocka_unit_test(free_tools_and_aborted_calls_do_not_wait),
    };
    return cmocka_run_group_tests(tests, world_open, world_close);
}
