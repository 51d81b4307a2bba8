/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls of tools in a harness: what is stored before and after, what models are told, and what a restart
 * makes of a call that was cut off. */
#include "tool_run.h"

/* ---- tools ---- */

typedef struct bench {
    run r;
    signal began, go;
    atomic_uint nruns;
    char seen[400]; /* arguments of the last run */
    const char *decision_block, *decision_arguments;
    tc_tool tools[8];
    const tc_tool *list[8];
    tc_extension extension;
    tc_hooks hooks;
} bench;

static int echo(void *user, tc_str arguments, tc_tool_api *api, tc_ctx *ctx, tc_tool_result *ret,
                tc_err *err)
{
    bench *b = user;
    (void)ctx;
    atomic_fetch_add(&b->nruns, 1);
    snprintf(b->seen, sizeof b->seen, "%.*s", TC_STR_ARG(arguments));
    ret->details = TC_STR("{\"n\":1}");
    return tc_tool_output(api, TC_STR("hello world\n"), NULL, err);
}

/* Reports, then waits to be let go (or for its end). */
static int slow(void *user, tc_str arguments, tc_tool_api *api, tc_ctx *ctx, tc_tool_result *ret,
                tc_err *err)
{
    bench *b = user;
    (void)arguments;
    (void)ret;
    atomic_fetch_add(&b->nruns, 1);
    if (tc_tool_output(api, TC_STR("half\n"), NULL, err) < 0 ||
        tc_tool_details(api, TC_STR("{\"at\":50}"), err) < 0 ||
        tc_tool_diagnostic(api, TC_SEVERITY_WARN, TC_STR("slow"), TC_STR("takes long"), err) < 0 ||
        tc_tool_flush(api, ctx, err) < 0)
        return err->code;
    signal_set(&b->began);
    if (!signal_wait(&b->go, 1, ctx))
        return tc_tool_fail(api, err, "never let go");
    return 0;
}

static int breaks(void *user, tc_str arguments, tc_tool_api *api, tc_ctx *ctx, tc_tool_result *ret,
                  tc_err *err)
{
    (void)user;
    (void)arguments;
    (void)ctx;
    (void)ret;
    if (tc_tool_output(api, TC_STR("before"), NULL, err) < 0)
        return err->code;
    return tc_tool_fail(api, err, "it broke");
}

static int loses_its_link(void *user, tc_str arguments, tc_tool_api *api, tc_ctx *ctx,
                          tc_tool_result *ret, tc_err *err)
{
    (void)user;
    (void)arguments;
    (void)api;
    (void)ctx;
    (void)ret;
    return tc_err_set(err, TC_E_UNKNOWN_OUTCOME, "the link went away");
}

static int not_json(void *user, tc_str arguments, tc_tool_api *api, tc_ctx *ctx,
                    tc_tool_result *ret, tc_err *err)
{
    (void)user;
    (void)arguments;
    (void)api;
    (void)ctx;
    (void)err;
    ret->details = TC_STR("{oops");
    return 0;
}

static int outer(void *user, tc_str arguments, tc_tool_api *api, tc_ctx *ctx, tc_tool_result *ret,
                 tc_err *err)
{
    tc_nested_result one, again, other;
    tc_nested_options named = {.size = sizeof named, .key = TC_STR("k")};
    tc_result *r = tc_tool_result_memory(api);
    tc_err clash;
    (void)user;
    (void)arguments;
    if (tc_tool_execute_tool(api, ctx, TC_STR("echo"), TC_STR("{\"text\":\"in\"}"), &named, r, &one,
                             err) < 0 ||
        tc_tool_execute_tool(api, ctx, TC_STR("echo"), TC_STR("{\"text\":\"in\"}"), &named, r,
                             &again, err) < 0 ||
        tc_tool_execute_tool(api, ctx, TC_STR("fail"), TC_STR("{}"), NULL, r, &other, err) < 0)
        return err->code;
    if (one.task_id != again.task_id || one.is_error || !other.is_error)
        return tc_tool_fail(api, err, "nested calls are wrong");
    if (tc_tool_execute_tool(api, ctx, TC_STR("echo"), TC_STR("{\"text\":\"x\"}"), &named, r,
                             &again, &clash) != TC_E_CONFLICT)
        return tc_tool_fail(api, err, "a key was used twice");
    named.key = TC_STR("7");
    if (tc_tool_execute_tool(api, ctx, TC_STR("echo"), TC_STR("{}"), &named, r, &again, &clash) !=
        TC_E_INVALID)
        return tc_tool_fail(api, err, "a key like ours was taken");
    tci_buf b;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_buf_printf(&b, "[{\"type\":\"text\",\"text\":");
    tc_str parts[] = {one.structured_output, TC_STR(" / "), other.diagnostics};
    tci_buf all;
    tci_buf_init(&all, TCI_BUF_MAX);
    for (size_t i = 0; i < 3; i++)
        tci_buf_append_str(&all, parts[i]);
    tci_json_put_str(&b, tci_buf_str(&all));
    tci_buf_done(&all);
    tci_buf_append_str(&b, TC_STR("}]"));
    return tci_result_take(r, &b, &ret->output, err);
}

/* Calls another and never waits for it to end by itself. */
static int leaver(void *user, tc_str arguments, tc_tool_api *api, tc_ctx *ctx, tc_tool_result *ret,
                  tc_err *err)
{
    bench *b = user;
    tc_nested_result n;
    (void)arguments;
    (void)ret;
    (void)b;
    return tc_tool_execute_tool(api, ctx, TC_STR("slow"), TC_STR("{}"), NULL,
                                tc_tool_result_memory(api), &n, err);
}

static int before_tool(void *user, tc_hook *hook, tc_str call, tc_result *r, tc_tool_decision *ret,
                       tc_err *err)
{
    bench *b = user;
    (void)hook;
    (void)call;
    (void)r;
    (void)err;
    if (b->decision_block != NULL)
        ret->block = tci_str(b->decision_block);
    if (b->decision_arguments != NULL)
        ret->arguments = tci_str(b->decision_arguments);
    return 0;
}

static const char text_schema[] =
    "{\"type\":\"object\",\"properties\":{\"text\":{\"type\":\"string\"}},"
    "\"required\":[\"text\"]}";

static void add_tool(bench *b, const char *name, tc_tool_execute execute, const char *schema)
{
    tc_tool *t = &b->tools[b->extension.ntools];
    *t = (tc_tool){.size = sizeof *t,
                   .name = tci_str(name),
                   .parameters = tci_str(schema),
                   .execute = execute,
                   .user = b};
    b->list[b->extension.ntools++] = t;
}

static bench *make(void **state, const char *name)
{
    bench *b = calloc(1, sizeof *b);
    run_init(&b->r, *state, name);
    signal_init(&b->began);
    signal_init(&b->go);
    b->hooks = (tc_hooks){.size = sizeof b->hooks, .before_tool = before_tool};
    b->extension = (tc_extension){.size = sizeof b->extension,
                                  .name = TC_STR("bench"),
                                  .tools = b->list,
                                  .hooks = &b->hooks,
                                  .user = b};
    add_tool(b, "echo", echo, text_schema);
    add_tool(b, "slow", slow, "");
    add_tool(b, "fail", breaks, "");
    add_tool(b, "not_json", not_json, "");
    add_tool(b, "lost", loses_its_link, "");
    add_tool(b, "outer", outer, "");
    add_tool(b, "leaver", leaver, "");
    b->r.extensions[b->r.nextensions++] = &b->extension;
    return b;
}

static void drop(bench *b)
{
    run_done(&b->r);
    free(b);
}

#define CALL(id, name, arguments) \
    "{\"type\":\"toolCall\",\"id\":\"" id "\",\"name\":\"" name "\",\"arguments\":" arguments "}"

static void turn(bench *b, const char *content)
{
    b->r.turns[b->r.nturns++] = content;
}

/* ---- a call and its result ---- */

static void call_is_stored_and_answered(void **state)
{
    bench *b = make(state, "one");
    turn(b, "[" CALL("c1", "echo", "{\"text\":5}") "]");
    run_open(&b->r);
    tc_submission s = run_prompt(&b->r, "go");
    assert_int_equal(s.status, TC_SUBMISSION_DONE);
    assert_text(tci_str(b->seen), "{\"text\":\"5\"}");
    tc_str entry = run_entry(&b->r, "pi.tool-result", 0);
    assert_has(entry, "\"role\":\"toolResult\",\"toolCallId\":\"c1\",\"toolName\":\"echo\","
                      "\"content\":[{\"type\":"
                      "\"text\",\"text\":\"hello world\\n\"}],\"isError\":false");
    assert_has(entry, "\"details\":{\"n\":1},\"durationMs\":");
    assert_has(entry, "\"data\":{\"diagnostics\":[]}");
    assert_text(run_live(&b->r), "{}");
    assert_has(b->r.last_messages, "\"toolCallId\":\"c1\"");
    drop(b);
}

static void an_unknown_outcome_is_told_to_the_model_case_78(void **state)
{
    bench *b = make(state, "unknown");
    turn(b, "[" CALL("c1", "lost", "{}") "]");
    run_open(&b->r);
    run_prompt(&b->r, "go");
    assert_text(run_result_text(&b->r, 0),
                "<harness>\n[error] the link went away. Tool lost may have partially run\n"
                "</harness>");
    drop(b);
}

static void refusals_are_told_to_the_model_case_83(void **state)
{
    bench *b = make(state, "refuse");
    turn(b, "[" CALL("c1", "echo", "{}") "," CALL(
                "c2", "nope", "{}") ","
                                    "{\"type\":\"toolCall\",\"id\":\"c3\",\"name\":\"echo\","
                                    "\"arguments\":{\"text\":\"cut o\"},"
                                    "\"argumentsError\":\"the answer was cut off\"}," CALL(
                                        "c4", "fail", "{}") "]");
    run_open(&b->r);
    run_prompt(&b->r, "go");
    assert_int_equal(atomic_load(&b->nruns), 0);
    bool has_missing = false, has_cut = false, has_failed = false, has_unknown = false;
    for (size_t i = 0; i < 4; i++) {
        tc_str text = run_result_text(&b->r, i);
        has_missing |=
            tci_str_find(text,
                         TC_STR("Validation failed for tool \"echo\":\n  - text: Expected required "
                                "property")) < text.len;
        has_cut |=
            tci_str_find(text,
                         TC_STR("Invalid arguments for tool \"echo\": the answer was cut off")) <
            text.len;
        has_failed |= tci_str_eq(text, TC_STR("before|<harness>\n[error] it broke\n</harness>"));
        has_unknown |= tci_str_find(text, TC_STR("Tool nope is not available")) < text.len;
    }
    assert_true(has_missing && has_cut && has_failed && has_unknown);
    drop(b);
}

static void hooks_block_and_change_calls(void **state)
{
    bench *b = make(state, "hooks");
    turn(b, "[" CALL("c1", "echo", "{\"text\":\"a\"}") "]");
    turn(b, "[" CALL("c2", "echo", "{\"text\":\"a\"}") "]");
    b->decision_arguments = "{\"text\":\"changed\"}";
    run_open(&b->r);
    run_prompt(&b->r, "go");
    assert_text(tci_str(b->seen), "{\"text\":\"changed\"}");
    b->decision_block = "not today";
    b->r.turns[2] = b->r.turns[3] = b->r.turns[0];
    b->r.nturns = 4;
    unsigned before = atomic_load(&b->nruns);
    run_prompt(&b->r, "again");
    assert_int_equal(atomic_load(&b->nruns), before);
    assert_text(run_result_text(&b->r, 2),
                "<harness>\n[error] Tool call blocked: not today\n</harness>");
    drop(b);
}

static void one_id_for_two_calls_case_87(void **state)
{
    bench *b = make(state, "same");
    turn(b, "[" CALL("x", "echo", "{\"text\":\"one\"}") "," CALL("x", "fail", "{}") "]");
    run_open(&b->r);
    run_prompt(&b->r, "go");
    tc_str first = run_result_text(&b->r, 0), second = run_result_text(&b->r, 1);
    assert_true(tci_str_find(first, TC_STR("hello world")) < first.len ||
                tci_str_find(second, TC_STR("hello world")) < second.len);
    assert_true(tci_str_find(first, TC_STR("it broke")) < first.len ||
                tci_str_find(second, TC_STR("it broke")) < second.len);
    assert_int_equal(atomic_load(&b->nruns), 1);
    drop(b);
}

static void result_that_is_no_json_faults(void **state)
{
    bench *b = make(state, "fault");
    turn(b, "[" CALL("c1", "not_json", "{}") "]");
    run_open(&b->r);
    tc_submission s = run_prompt(&b->r, "go");
    assert_int_equal(s.status, TC_SUBMISSION_DONE);
    assert_int_equal(run_entry(&b->r, "pi.tool-result", 0).len, 0);
    assert_has(b->r.last_messages, "missing_result");
    run_wait_report(&b->r, "task_faulted");
    drop(b);
}

/* ---- environments ---- */

typedef struct env_probe {
    bench *b;
    int mode; /* 0: fails, 1: none */
    bool saw_intent;
} env_probe;

static int probe_env(void *user, const tc_env_target *target, tc_ctx *ctx, tc_env **ret_env,
                     tc_err *err)
{
    env_probe *p = user;
    tc_task_query q = TC_TASK_QUERY_ALL;
    tc_records tasks;
    tc_result *r;
    (void)ctx;
    q.kind = TC_STR("pi.tool");
    q.status = TC_STR("running");
    if (tc_result_new(&r, err) < 0)
        return err->code;
    if (tc_durable_tasks(tc_harness_session(target->harness), &q, NULL, r, &tasks, err) == 0 &&
        tasks.count > 0)
        p->saw_intent =
            tci_str_find(tasks.items[0], TC_STR("\"phase\":\"execute\"")) < tasks.items[0].len;
    tc_result_free(r);
    *ret_env = NULL;
    return p->mode == 0 ? tc_err_set(err, TC_E_CONNECT, "the sandbox is gone") : 0;
}

static void environment_is_asked_for_after_the_intent_case_71(void **state)
{
    struct tc_extension *coding;
    bench *b = make(state, "env");
    env_probe p = {.b = b};
    assert_ok(b->r.w, tc_coding_tools_new(NULL, NULL, &coding, &b->r.w->err));
    b->r.extensions[b->r.nextensions++] = coding;
    b->r.env = probe_env;
    b->r.user = &p;
    turn(b, "[" CALL("c1", "write", "{\"path\":\"here.txt\",\"content\":\"x\"}") "]");
    turn(b, "[{\"type\":\"text\",\"text\":\"ok\"}]");
    turn(b, "[" CALL("c2", "bash", "{\"command\":\"touch here.txt\"}") "]");
    run_open(&b->r);
    tc_submission s = run_prompt(&b->r, "go");
    assert_int_equal(s.status, TC_SUBMISSION_DONE);
    assert_true(p.saw_intent);
    assert_text(run_result_text(&b->r, 0), "<harness>\n[error] the sandbox is gone\n</harness>");
    assert_has(run_entry(&b->r, "pi.tool-result", 0), "\"code\":\"tool_error\"");
    p.mode = 1;
    run_prompt(&b->r, "again");
    assert_text(run_result_text(&b->r, 1),
                "<harness>\n[error] No execution environment is configured\n</harness>");
    assert_false(has_file(b->r.w, "here.txt"));
    drop(b);
    tc_tools_free(coding);
}

static void tools_work_in_the_environment(void **state)
{
    struct tc_extension *coding, *more;
    bench *b = make(state, "work");
    assert_ok(b->r.w, tc_coding_tools_new(NULL, NULL, &coding, &b->r.w->err));
    assert_ok(b->r.w, tc_telechir_tools_new(&more, &b->r.w->err));
    b->r.extensions[b->r.nextensions++] = coding;
    b->r.extensions[b->r.nextensions++] = more;
    turn(b, "[" CALL("c1", "write", "{\"path\":\"proj/a.txt\",\"content\":\"one\\ntwo\\n\"}") "]");
    turn(b, "[" CALL("c2", "edit",
                     "{\"path\":\"proj/a.txt\",\"oldText\":\"two\",\"newText\":\"zwei\"}") "]");
    turn(b, "[" CALL("c3", "bash", "{\"command\":\"cat proj/a.txt; exit 4\"}") "]");
    turn(b, "[" CALL("c4", "grep", "{\"pattern\":\"zw\",\"path\":\"proj\"}") "," CALL(
                "c5", "read", "{\"path\":\"proj/a.txt\"}") "]");
    run_open(&b->r);
    assert_int_equal(run_prompt(&b->r, "go").status, TC_SUBMISSION_DONE);
    assert_text(run_result_text(&b->r, 2),
                "one\nzwei\n|<harness>\n[error] Command exited with code 4\n</harness>");
    tc_str x = run_result_text(&b->r, 3), y = run_result_text(&b->r, 4);
    assert_true(tci_str_eq(x, TC_STR("proj/a.txt:2: zwei\n")) ||
                tci_str_eq(y, TC_STR("proj/a.txt:2: zwei\n")));
    assert_true(tci_str_eq(x, TC_STR("one\nzwei\n")) || tci_str_eq(y, TC_STR("one\nzwei\n")));
    drop(b);
    tc_tools_free(coding);
    tc_tools_free(more);
}

/* ---- progress, abort, restart ---- */

static void progress_is_seen_while_it_runs(void **state)
{
    bench *b = make(state, "progress");
    turn(b, "[" CALL("c1", "slow", "{}") "]");
    run_open(&b->r);
    run_submit(&b->r, "go");
    assert_true(signal_wait(&b->began, 1, NULL));
    tc_str live = run_live(&b->r);
    assert_has(live, "\"status\":\"running\"");
    assert_has(live, "\"output\":\"half\\n\"");
    assert_has(live, "\"details\":{\"at\":50}");
    assert_has(
        live,
        "\"diagnostics\":[{\"severity\":\"warn\",\"code\":\"slow\",\"message\":\"takes long\"}]");
    signal_set(&b->go);
    assert_ok(b->r.w, tc_conversation_wait_idle(b->r.h, NULL, b->r.conversation, &b->r.w->err));
    assert_text(run_result_text(&b->r, 0), "half\n|<harness>\n[warn] takes long\n</harness>");
    drop(b);
}

static void aborted_tool_answers_with_what_it_had(void **state)
{
    bench *b = make(state, "abort");
    turn(b, "[" CALL("c1", "slow", "{}") "]");
    run_open(&b->r);
    uint64_t id = run_submit(&b->r, "go");
    assert_true(signal_wait(&b->began, 1, NULL));
    assert_ok(b->r.w, tc_conversation_abort(b->r.h, NULL, b->r.conversation, false, &b->r.w->err));
    assert_text(run_result_text(&b->r, 0),
                "half\n|<harness>\n[warn] takes long\n[error] Tool slow was aborted\n</harness>");
    tc_submission s;
    tc_call call = TC_CALL(NULL, b->r.w->r);
    assert_ok(b->r.w, tc_submission_get(b->r.h, &call, id, &s, &b->r.w->err));
    assert_text(s.reason, "aborted");
    drop(b);
}

static void interrupted_tool_is_not_run_again_case_78_81(void **state)
{
    bench *b = make(state, "cut");
    turn(b, "[" CALL("c1", "slow", "{}") "]");
    run_open(&b->r);
    uint64_t id = run_submit(&b->r, "go");
    assert_true(signal_wait(&b->began, 1, NULL));
    run_crash(&b->r, "cut2");
    run_open(&b->r);
    tc_submission s;
    tc_call call = TC_CALL(NULL, b->r.w->r);
    assert_ok(b->r.w, tc_submission_wait(b->r.h, &call, id, &s, &b->r.w->err));
    assert_int_equal(s.status, TC_SUBMISSION_DONE);
    assert_int_equal(atomic_load(&b->nruns), 1);
    assert_text(run_result_text(&b->r, 0),
                "half\n|<harness>\n[warn] takes long\n[error] Tool slow was interrupted and "
                "may have partially run\n</harness>");
    tc_str entry = run_entry(&b->r, "pi.tool-result", 0);
    assert_has(entry, "\"details\":{\"at\":50}");
    assert_has(entry, "\"code\":\"interrupted\"");
    assert_int_equal(run_entry(&b->r, "pi.tool-result", 1).len, 0);
    assert_has(b->r.last_messages, "\"toolCallId\":\"c1\"");
    assert_text(run_live(&b->r), "{}");
    drop(b);
}

static void safe_tool_runs_again_from_scratch_case_78(void **state)
{
    bench *b = make(state, "safe");
    b->tools[1].replay = TC_REPLAY_SAFE;
    turn(b, "[" CALL("c1", "slow", "{\"x\":9007199254740993}") "]");
    run_open(&b->r);
    uint64_t id = run_submit(&b->r, "go");
    assert_true(signal_wait(&b->began, 1, NULL));
    run_crash(&b->r, "safe2");
    signal_set(&b->go);
    run_open(&b->r);
    tc_submission s;
    tc_call call = TC_CALL(NULL, b->r.w->r);
    assert_ok(b->r.w, tc_submission_wait(b->r.h, &call, id, &s, &b->r.w->err));
    assert_int_equal(atomic_load(&b->nruns), 2);
    assert_text(run_result_text(&b->r, 0), "half\n|<harness>\n[warn] takes long\n</harness>");
    drop(b);
    /* declared safe now, but not then */
    b = make(state, "then");
    turn(b, "[" CALL("c1", "slow", "{}") "]");
    run_open(&b->r);
    id = run_submit(&b->r, "go");
    assert_true(signal_wait(&b->began, 1, NULL));
    run_crash(&b->r, "then2");
    b->tools[1].replay = TC_REPLAY_SAFE;
    run_open(&b->r);
    tc_call again = TC_CALL(NULL, b->r.w->r);
    assert_ok(b->r.w, tc_submission_wait(b->r.h, &again, id, &s, &b->r.w->err));
    assert_int_equal(atomic_load(&b->nruns), 1);
    drop(b);
}

static void call_that_is_cut_off_too_often_is_given_up(void **state)
{
    bench *b = make(state, "limit");
    b->tools[1].replay = TC_REPLAY_SAFE;
    b->r.restart_limit = 2;
    turn(b, "[" CALL("c1", "slow", "{}") "]");
    run_open(&b->r);
    uint64_t id = run_submit(&b->r, "go");
    assert_true(signal_wait(&b->began, 1, NULL));
    run_crash(&b->r, "limit2");
    run_open(&b->r);
    assert_ok(b->r.w, tc_harness_resume(b->r.h, &b->r.w->err));
    assert_true(signal_wait(&b->began, 2, NULL));
    run_crash(&b->r, "limit3");
    run_open(&b->r);
    tc_submission s;
    tc_call call = TC_CALL(NULL, b->r.w->r);
    assert_ok(b->r.w, tc_submission_wait(b->r.h, &call, id, &s, &b->r.w->err));
    assert_int_equal(s.status, TC_SUBMISSION_DONE);
    assert_int_equal(atomic_load(&b->nruns), 2);
    assert_has(run_entry(&b->r, "pi.tool-result", 0), "\"code\":\"restart_limit\"");
    drop(b);
}

/* ---- nested calls ---- */

static void tools_call_tools(void **state)
{
    bench *b = make(state, "nested");
    turn(b, "[" CALL("c1", "outer", "{}") "]");
    run_open(&b->r);
    run_prompt(&b->r, "go");
    tc_str text = run_result_text(&b->r, 0);
    assert_has(text, "\"hello world\\n\" / [");
    assert_has(text, "\"code\":\"tool_error\",\"message\":\"it broke\"");
    assert_text(run_live(&b->r), "{}");
    drop(b);
}

static void abort_reaches_nested_calls(void **state)
{
    bench *b = make(state, "nabort");
    turn(b, "[" CALL("c1", "leaver", "{}") "]");
    run_open(&b->r);
    run_submit(&b->r, "go");
    assert_true(signal_wait(&b->began, 1, NULL));
    assert_has(run_live(&b->r), "\"callId\":\"c1/1\",\"parentCallId\":\"c1\"");
    assert_ok(b->r.w, tc_conversation_abort(b->r.h, NULL, b->r.conversation, false, &b->r.w->err));
    assert_has(run_result_text(&b->r, 0), "Tool leaver was aborted");
    assert_text(run_live(&b->r), "{}");
    drop(b);
}

static void nested_call_of_an_unsafe_tool_ends_with_a_restart(void **state)
{
    bench *b = make(state, "ncut");
    turn(b, "[" CALL("c1", "leaver", "{}") "]");
    run_open(&b->r);
    uint64_t id = run_submit(&b->r, "go");
    assert_true(signal_wait(&b->began, 1, NULL));
    run_crash(&b->r, "ncut2");
    run_open(&b->r);
    tc_submission s;
    tc_call call = TC_CALL(NULL, b->r.w->r);
    assert_ok(b->r.w, tc_submission_wait(b->r.h, &call, id, &s, &b->r.w->err));
    assert_int_equal(atomic_load(&b->nruns), 1);
    assert_has(run_result_text(&b->r, 0), "Tool leaver was interrupted and may have partially run");
    drop(b);
}

/* ---- tools that are found by words ---- */

static void deferred_tool_is_found_and_loaded(void **state)
{
    struct tc_extension *finder;
    bench *b = make(state, "search");
    b->tools[0].is_deferred = true;
    b->tools[0].description = TC_STR("Repeats a text\nand more");
    assert_ok(b->r.w, tc_tool_search_new(&finder, &b->r.w->err));
    b->r.extensions[b->r.nextensions++] = finder;
    turn(b, "[" CALL("c1", "echo", "{\"text\":\"x\"}") "]");
    turn(b, "[" CALL("c2", "tool_search", "{\"query\":\"repeating texts\"}") "]");
    turn(b, "[" CALL("c3", "echo", "{\"text\":\"x\"}") "]");
    run_open(&b->r);
    run_prompt(&b->r, "go");
    assert_has(run_result_text(&b->r, 0), "Tool echo is not available");
    assert_text(run_result_text(&b->r, 1),
                "Loaded 1 tool. They are available from your next call:\n- echo: Repeats a text");
    assert_text(run_result_text(&b->r, 2), "hello world\n");
    drop(b);
    tc_tools_free(finder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(call_is_stored_and_answered),
        cmocka_unit_test(an_unknown_outcome_is_told_to_the_model_case_78),
        cmocka_unit_test(refusals_are_told_to_the_model_case_83),
        cmocka_unit_test(hooks_block_and_change_calls),
        cmocka_unit_test(one_id_for_two_calls_case_87),
        cmocka_unit_test(result_that_is_no_json_faults),
        cmocka_unit_test(environment_is_asked_for_after_the_intent_case_71),
        cmocka_unit_test(tools_work_in_the_environment),
        cmocka_unit_test(progress_is_seen_while_it_runs),
        cmocka_unit_test(aborted_tool_answers_with_what_it_had),
        cmocka_unit_test(interrupted_tool_is_not_run_again_case_78_81),
        cmocka_unit_test(safe_tool_runs_again_from_scratch_case_78),
        cmocka_unit_test(call_that_is_cut_off_too_often_is_given_up),
        cmocka_unit_test(tools_call_tools),
        cmocka_unit_test(abort_reaches_nested_calls),
        cmocka_unit_test(nested_call_of_an_unsafe_tool_ends_with_a_restart),
        cmocka_unit_test(deferred_tool_is_found_and_loaded),
    };
    return cmocka_run_group_tests(tests, world_open, world_close);
}
