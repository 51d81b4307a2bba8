/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs that were cut off: by a death of the process after every single commit, in the middle of an
 * answer, of a tool, of a wait, and by a clean close. */
#include "run_world.h"

#include "base/json.h"
#include "plat/clock.h"
#include <dirent.h>
#include <stdio.h>
#include <sys/stat.h>

static const char *last_request(world *w)
{
    return w->model.requests[run_model_asked(&w->model) - 1];
}

/* ---- after every commit ---- */

enum { COPIES_MAX = 64 };

typedef struct copier {
    world *w;
    unsigned n;
    char paths[COPIES_MAX][600];
    unsigned executed[COPIES_MAX]; /* how often the tool had run by then */
} copier;

static void copy_now(void *user, const tc_commit *commit)
{
    copier *c = user;
    char from[1024], to[1024], room[65536];
    DIR *d = opendir(c->w->path);
    (void)commit;
    assert_true(d != NULL && c->n < COPIES_MAX);
    (void)snprintf(c->paths[c->n], sizeof c->paths[0], "%.480s-at%u", c->w->path, c->n);
    assert_int_equal(mkdir(c->paths[c->n], 0700), 0);
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        if (strstr(e->d_name, ".jsonl") == NULL)
            continue;
        (void)snprintf(from, sizeof from, "%.480s/%.200s", c->w->path, e->d_name);
        (void)snprintf(to, sizeof to, "%.500s/%.200s", c->paths[c->n], e->d_name);
        FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
        assert_true(in != NULL && out != NULL);
        for (size_t n; (n = fread(room, 1, sizeof room, in)) > 0;)
            assert_int_equal(fwrite(room, 1, n, out), n);
        (void)fclose(in);
        assert_int_equal(fclose(out), 0);
    }
    (void)closedir(d);
    c->executed[c->n++] = atomic_load(&c->w->nexecuted);
}

/* The tool's call first, then, once there is a result, the answer. */
static const char *call_then_answer(void *user, tc_str messages)
{
    (void)user;
    return has_text(messages, "\"role\":\"toolResult\"")
               ? run_text("Done.")
               : run_call("c1", "echo", "{\"text\":\"x\"}");
}

static void check_resumed(copier *c, unsigned i)
{
    world w;
    tc_submission s;
    tc_records page;
    world_init(&w);
    memcpy(w.path, c->paths[i], sizeof w.path);
    w.model.decide = call_then_answer;
    world_open(&w);
    OK(tc_durable_submissions(tc_harness_session(w.h), w.root, TC_STR(""), NULL, w.r, &page, err));
    if (page.count == 0) { /* it was never admitted */
        world_done(&w);
        return;
    }
    world_wait(&w, 8, &s);
    assert_int_equal(s.status, TC_SUBMISSION_DONE);
    world_idle(&w);
    unsigned total = c->executed[i] + atomic_load(&w.nexecuted);
    if (total > 1)
        fail_msg("after commit %u the tool ran %u times", i + 1, total);
    CHECK_JSON(world_doc(&w, &tci_live_doc), "{}");
    tc_context_view view;
    OK(tc_conversation_context(w.h, &TC_CALL(NULL, w.r), w.root, 0, &view, err));
    size_t nresults = 0;
    for (size_t k = 0; k < view.nmessages; k++)
        nresults += has_text(view.messages[k], "\"role\":\"toolResult\"");
    assert_int_equal(nresults, 1);
    world_done(&w);
}

static void death_after_every_commit(void **state)
{
    world w;
    static copier c;
    tc_listener *listener;
    (void)state;
    world_init(&w);
    c.w = &w;
    w.model.decide = call_then_answer;
    world_open(&w);
    OK(tc_durable_on_commit(tc_harness_session(w.h), copy_now, &c, &listener, err));
    assert_string_equal(world_answer(&w, world_say(&w, "go")), "Done.");
    world_idle(&w);
    tc_listener_remove(listener);
    world_done(&w);
    assert_true(c.n >= 15);
    for (unsigned i = 0; i < c.n; i++)
        check_resumed(&c, i);
}

/* ---- in the middle ---- */

static void streamed_part_becomes_an_aborted_answer(void **state)
{
    world w;
    (void)state;
    world_init(&w);
    world_open(&w);
    run_model_hold(&w.model, run_text("half an answer"), 4);
    uint64_t id = world_say(&w, "go");
    run_model_wait_held(&w.model, 1);
    world_kill(&w);
    run_model_hold(&w.model, run_text("whole"), -1);
    world_open(&w);
    OK(tc_harness_resume(w.h, err));
    run_model_wait_held(&w.model, 2);
    assert_string_equal(world_kinds(&w), "pi.user pi.system pi.assistant:aborted");
    assert_true(has_text(world_entry(&w, 2), "half"));
    assert_true(has_text(world_doc(&w, &tci_live_doc), "\"attempt\":1"));
    run_model_release(&w.model);
    run_model_release(&w.model);
    assert_string_equal(world_answer(&w, id), "whole");
    assert_false(has_text(tci_str(last_request(&w)), "half"));
    world_done(&w);
}

static void safe_tool_runs_again_and_its_output_replaces_the_old(void **state)
{
    world w;
    (void)state;
    world_init(&w);
    world_open(&w);
    run_model_say(&w.model, run_call("c1", "held-safe", "{}"));
    run_model_say(&w.model, run_text("fine"));
    uint64_t id = world_say(&w, "go");
    world_wait_holding(&w, 1);
    world_kill(&w);
    world_open(&w);
    world_let(&w);
    assert_string_equal(world_answer(&w, id), "fine");
    assert_int_equal(atomic_load(&w.nexecuted), 2);
    assert_int_equal(count_text(tci_str(last_request(&w)), "half"), 1);
    assert_false(has_text(tci_str(last_request(&w)), "interrupted"));
    world_done(&w);
}

static void tool_no_longer_chosen_counts_as_unsafe(void **state)
{
    world w;
    (void)state;
    world_init(&w);
    world_open(&w);
    run_model_say(&w.model, run_call("c1", "held-safe", "{}"));
    run_model_say(&w.model, run_text("fine"));
    uint64_t id = world_say(&w, "go");
    world_wait_holding(&w, 1);
    OK(tc_conversation_configure(w.h, NULL, w.root,
                                 TC_STR("{\"tools\":{\"remove\":[\"held-safe\"]}}"), err));
    world_kill(&w);
    world_open(&w);
    assert_string_equal(world_answer(&w, id), "fine");
    assert_int_equal(atomic_load(&w.nexecuted), 1);
    assert_true(has_text(tci_str(last_request(&w)), "interrupted"));
    world_done(&w);
}

static void clean_close_in_a_tool_ends_the_same(void **state)
{
    world w;
    (void)state;
    world_init(&w);
    world_open(&w);
    run_model_say(&w.model, run_call("c1", "held", "{}"));
    run_model_say(&w.model, run_text("fine"));
    uint64_t id = world_say(&w, "go");
    world_wait_holding(&w, 1);
    world_close(&w);
    world_open(&w);
    assert_string_equal(world_answer(&w, id), "fine");
    assert_int_equal(atomic_load(&w.nexecuted), 1);
    assert_true(has_text(tci_str(last_request(&w)), "half"));
    assert_true(has_text(tci_str(last_request(&w)), "may have partially run"));
    world_done(&w);
}

static void aborted_tool_answers_and_the_run_goes_on(void **state)
{
    world w;
    bool was_over;
    (void)state;
    world_init(&w);
    world_open(&w);
    run_model_say(&w.model, run_call("c1", "held", "{}"));
    run_model_say(&w.model, run_text("fine"));
    uint64_t id = world_say(&w, "go");
    world_wait_holding(&w, 1);
    tc_task_query query = TC_TASK_QUERY_ALL;
    tc_records tasks;
    const tc_json *v;
    uint64_t task;
    query.kind = TC_STR("pi.tool");
    OK(tc_durable_tasks(tc_harness_session(w.h), &query, NULL, w.r, &tasks, err));
    OK(tc_json_parse(w.r, tasks.items[0], &v, err));
    assert_true(tc_json_as_u64(tc_json_get(v, TC_STR("id")), &task));
    OK(tc_harness_abort_task(w.h, NULL, task, &was_over, err));
    assert_string_equal(world_answer(&w, id), "fine");
    assert_true(has_text(tci_str(last_request(&w)), "half"));
    assert_true(has_text(tci_str(last_request(&w)), "Tool held was aborted"));
    world_done(&w);
}

/* ---- hooks that run again ---- */

static atomic_uint nbefore, nafter;

static int before_tool(void *user, tc_hook *hook, tc_str call, tc_result *r, tc_tool_decision *ret,
                       tc_err *err)
{
    world *w = user;
    char decision[32];
    tc_str stored;
    (void)call;
    (void)ret;
    int n = snprintf(decision, sizeof decision, "%u", atomic_fetch_add(&nbefore, 1) + 1);
    if (tc_hook_memo(hook, TC_STR("decision"), tci_str_of(decision, (size_t)n), r, &stored, err) <
        0)
        return err->code;
    assert_true(tci_str_eq(stored, TC_STR("1")));
    if (atomic_load(&nbefore) > 1)
        return 0;
    atomic_fetch_add(&w->nholding, 1);
    tci_wake_all(&w->held_wake);
    while (!tc_ctx_is_cancelled(tc_hook_ctx(hook)))
        tci_wake_wait(&w->held_wake, tci_wake_count(&w->held_wake), tci_clock_mono_ns() + 5000000);
    return tc_err_set(err, TC_E_CANCELLED, "cancelled");
}

static void before_tool_runs_again_and_its_memo_stays(void **state)
{
    world w;
    (void)state;
    atomic_store(&nbefore, 0);
    world_init(&w);
    w.hooks = (tc_hooks){.size = sizeof(tc_hooks), .before_tool = before_tool};
    world_open(&w);
    run_model_say(&w.model, run_call("c1", "echo", "{\"text\":\"x\"}"));
    run_model_say(&w.model, run_text("fine"));
    uint64_t id = world_say(&w, "go");
    world_wait_holding(&w, 1);
    world_kill(&w);
    world_open(&w);
    assert_string_equal(world_answer(&w, id), "fine");
    assert_int_equal(atomic_load(&nbefore), 2);
    assert_int_equal(atomic_load(&w.nexecuted), 1);
    world_done(&w);
}

static int after_tools(void *user, tc_hook *hook, uint64_t assistant, const uint64_t *results,
                       size_t nresults, tc_err *err)
{
    world *w = user;
    assert_true(assistant != 0 && nresults == 1 && results[0] != 0);
    if (atomic_fetch_add(&nafter, 1) > 0)
        return 0;
    atomic_fetch_add(&w->nholding, 1);
    tci_wake_all(&w->held_wake);
    while (!tc_ctx_is_cancelled(tc_hook_ctx(hook)))
        tci_wake_wait(&w->held_wake, tci_wake_count(&w->held_wake), tci_clock_mono_ns() + 5000000);
    return tc_err_set(err, TC_E_CANCELLED, "cancelled");
}

static void after_tools_runs_again_entries_do_not(void **state)
{
    world w;
    (void)state;
    atomic_store(&nafter, 0);
    world_init(&w);
    w.hooks = (tc_hooks){.size = sizeof(tc_hooks), .after_tools = after_tools};
    world_open(&w);
    run_model_say(&w.model, run_call("c1", "echo", "{\"text\":\"x\"}"));
    run_model_say(&w.model, run_text("fine"));
    uint64_t id = world_say(&w, "go");
    world_wait_holding(&w, 1);
    world_kill(&w);
    world_open(&w);
    assert_string_equal(world_answer(&w, id), "fine");
    assert_int_equal(atomic_load(&nafter), 2);
    assert_string_equal(world_kinds(&w),
                        "pi.user pi.system pi.assistant:toolUse pi.tool-result pi.assistant:stop");
    world_done(&w);
}

/* ---- waits ---- */

static void retry_that_sleeps_survives(void **state)
{
    world w;
    tc_submission s;
    (void)state;
    world_init(&w);
    w.settings.retry.base_delay_ms = 3600000;
    w.settings.retry.max_delay_ms = 3600000;
    world_open(&w);
    run_model_say(&w.model, run_error("503 overloaded"));
    run_model_say(&w.model, run_text("fine"));
    uint64_t id = world_say(&w, "go");
    while (!has_text(world_doc(&w, &tci_live_doc), "\"retry\""))
        tci_wake_wait(&w.wake, tci_wake_count(&w.wake), tci_clock_mono_ns() + 2000000);
    world_kill(&w);
    world_open(&w);
    OK(tc_harness_resume(w.h, err));
    OK(tc_submission_get(w.h, &TC_CALL(NULL, w.r), id, &s, err));
    assert_int_equal(s.status, TC_SUBMISSION_PLACED);
    assert_int_equal(run_model_asked(&w.model), 1);
    world_close(&w);
    atomic_fetch_add(&w.clock, 4000000);
    world_open(&w);
    assert_string_equal(world_answer(&w, id), "fine");
    assert_string_equal(world_kinds(&w), "pi.user pi.system pi.assistant:error pi.assistant:stop");
    world_done(&w);
}

static const char deferred[] = "{\"role\":\"assistant\",\"content\":[],\"api\":\"faux\","
                               "\"provider\":\"faux\",\"model\":\"faux-1\",\"usage\":{"
                               "\"input\":0,\"output\":0,\"cacheRead\":0,\"cacheWrite\":0,"
                               "\"totalTokens\":0},\"stopReason\":\"deferred\","
                               "\"deferred\":{\"id\":\"d1\",\"pollAfterMs\":1},\"timestamp\":1000}";

static void deferred_answer_is_polled(void **state)
{
    world w;
    (void)state;
    world_init(&w);
    world_open(&w);
    run_model_say(&w.model, deferred);
    run_model_say(&w.model, deferred);
    run_model_say(&w.model, run_text("fine"));
    assert_string_equal(world_answer(&w, world_say(&w, "go")), "fine");
    assert_int_equal(w.model.npolled, 2);
    assert_string_equal(world_kinds(&w), "pi.user pi.system pi.assistant:stop");
    world_done(&w);
}

static void abort_of_a_deferred_answer_cancels_it(void **state)
{
    static const char long_wait[] = "{\"role\":\"assistant\",\"content\":[],\"api\":\"faux\","
                                    "\"provider\":\"faux\",\"model\":\"faux-1\",\"usage\":{"
                                    "\"input\":0,\"output\":0},\"stopReason\":\"deferred\","
                                    "\"deferred\":{\"id\":\"d1\",\"pollAfterMs\":3600000},"
                                    "\"timestamp\":1000}";
    world w;
    tc_submission s;
    (void)state;
    world_init(&w);
    world_open(&w);
    run_model_say(&w.model, long_wait);
    uint64_t id = world_say(&w, "go");
    while (!has_text(world_doc(&w, &tci_live_doc), "\"deferred\""))
        tci_wake_wait(&w.wake, tci_wake_count(&w.wake), tci_clock_mono_ns() + 2000000);
    OK(tc_conversation_abort(w.h, NULL, w.root, false, err));
    world_wait(&w, id, &s);
    assert_true(tci_str_eq(s.reason, TC_STR("aborted")));
    assert_int_equal(w.model.ncancelled, 1);
    world_done(&w);
}

static void errors_are_retried_and_then_told(void **state)
{
    world w;
    tc_submission s;
    (void)state;
    world_init(&w);
    w.settings.retry.base_delay_ms = 1;
    world_open(&w);
    for (unsigned i = 0; i < 4; i++)
        run_model_say(&w.model, run_error("503 overloaded"));
    world_wait(&w, world_say(&w, "go"), &s);
    assert_true(tci_str_eq(s.reason, TC_STR("model_error")));
    assert_true(tci_str_eq(s.detail, TC_STR("\"503 overloaded\"")));
    assert_int_equal(run_model_asked(&w.model), 4);
    run_model_say(&w.model, run_error("400 bad request"));
    world_wait(&w, world_say(&w, "again"), &s);
    assert_int_equal(run_model_asked(&w.model), 5); /* no use in asking again */
    CHECK_JSON(world_doc(&w, &tci_live_doc), "{}");
    world_done(&w);
}

static void model_that_breaks_faults_the_run(void **state)
{
    world w;
    tc_submission s;
    (void)state;
    world_init(&w);
    world_open(&w); /* and no answers: asking fails */
    world_wait(&w, world_say(&w, "go"), &s);
    assert_true(tci_str_eq(s.reason, TC_STR("faulted")));
    assert_true(has_text(s.detail, "not expected"));
    CHECK_JSON(world_doc(&w, &tci_live_doc), "{}");
    world_wait_report(&w, "task_faulted");
    world_done(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(death_after_every_commit),
        cmocka_unit_test(streamed_part_becomes_an_aborted_answer),
        cmocka_unit_test(safe_tool_runs_again_and_its_output_replaces_the_old),
        cmocka_unit_test(tool_no_longer_chosen_counts_as_unsafe),
        cmocka_unit_test(clean_close_in_a_tool_ends_the_same),
        cmocka_unit_test(aborted_tool_answers_and_the_run_goes_on),
        cmocka_unit_test(before_tool_runs_again_and_its_memo_stays),
        cmocka_unit_test(after_tools_runs_again_entries_do_not),
        cmocka_unit_test(retry_that_sleeps_survives),
        cmocka_unit_test(deferred_answer_is_polled),
        cmocka_unit_test(abort_of_a_deferred_answer_cancels_it),
        cmocka_unit_test(errors_are_retried_and_then_told),
        cmocka_unit_test(model_that_breaks_faults_the_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
