/* SPDX-License-Identifier: Apache-2.0
 *
 * Conversations as the code of a task uses them: what is bound to an invocation ends with it, and what
 * would wait for itself is refused. */
#include "run_world.h"

#include "base/json.h"
#include "plat/clock.h"
#include <stdio.h>

typedef struct play play;
typedef int (*act_fn)(play *p, tc_tool_api *api, tc_ctx *ctx, tc_result *r, tc_err *err);

/* The tool "act" does what the test says; the tool "act2" the same one level below. */
struct play {
    world w;
    tc_tool tools[2];
    const tc_tool *all[2];
    tc_extension extension;
    act_fn acts[2];
    tc_task_def def; /* of the task "side" */
    tc_task_phase phase;
    const tc_task_def *defs[1];
    tc_bound bound; /* what a call left behind */
    uint64_t child, submission;
    int rc[4];
    atomic_uint ncalls, at;
    tci_wake word; /* counted with at */
};

static void reach(play *p, unsigned at)
{
    atomic_store(&p->at, at);
    tci_wake_all(&p->word);
}

static void wait_for(play *p, unsigned at)
{
    for (;;) {
        unsigned seen = tci_wake_count(&p->word);
        if (atomic_load(&p->at) >= at)
            return;
        tci_wake_wait(&p->word, seen, 0);
    }
}

static int act(play *p, size_t which, tc_tool_api *api, tc_ctx *ctx, tc_tool_result *ret,
               tc_err *err)
{
    tc_result *r = tc_tool_result_memory(api);
    tc_str text = {NULL, 0};
    atomic_fetch_add(&p->ncalls, 1);
    if (p->acts[which](p, api, ctx, r, err) < 0)
        return err->code;
    ret->output = text;
    return 0;
}

static int act_one(void *user, tc_str arguments, tc_tool_api *api, tc_ctx *ctx, tc_tool_result *ret,
                   tc_err *err)
{
    (void)arguments;
    return act(user, 0, api, ctx, ret, err);
}

static int act_two(void *user, tc_str arguments, tc_tool_api *api, tc_ctx *ctx, tc_tool_result *ret,
                   tc_err *err)
{
    (void)arguments;
    return act(user, 1, api, ctx, ret, err);
}

static int first_phase(void *user, tc_str input, tc_result *r, tc_str *ret, tc_err *err)
{
    (void)user;
    (void)input;
    (void)r;
    (void)err;
    *ret = TC_STR("{\"phase\":\"go\"}");
    return 0;
}

static int end_aborted(tc_task *t, tc_err *err)
{
    return tc_task_next(t, &(tc_next){.kind = TC_NEXT_ABORTED}, err);
}

static void play_init(play *p)
{
    memset(p, 0, sizeof *p);
    world_init(&p->w);
    const tc_tool base = {.size = sizeof(tc_tool), .user = p, .replay = TC_REPLAY_SAFE};
    p->tools[0] = p->tools[1] = base;
    p->tools[0].name = TC_STR("act");
    p->tools[0].execute = act_one;
    p->tools[1].name = TC_STR("act2");
    p->tools[1].execute = act_two;
    p->all[0] = &p->tools[0];
    p->all[1] = &p->tools[1];
    p->def = (tc_task_def){.size = sizeof p->def,
                           .name = "side",
                           .version = 1,
                           .initial = first_phase,
                           .phases = &p->phase,
                           .nphases = 1,
                           .abort = end_aborted,
                           .user = p};
    p->phase.name = "go";
    p->defs[0] = &p->def;
    p->extension = (tc_extension){.size = sizeof(tc_extension),
                                  .name = TC_STR("play"),
                                  .tools = p->all,
                                  .ntools = 2,
                                  .tasks = p->defs,
                                  .ntasks = 1,
                                  .user = p};
    OK(tc_registry_install(p->w.registry, &p->extension, err));
}

static void play_open(play *p)
{
    play_init(p);
    world_open(&p->w);
}

static void play_done(play *p)
{
    if (p->w.h != NULL)
        world_close(&p->w);
    world_done(&p->w);
}

/* ---- a child ---- */

/* The conversation that this call owns: made once, found again after a restart. */
static int child_of(play *p, tc_tool_api *api, tc_ctx *ctx, tc_result *r, tc_bound *ret,
                    tc_err *err)
{
    tc_harness *h = tc_tool_harness(api);
    tc_records found;
    const tc_json *v;
    uint64_t id = 0;
    if (tc_durable_conversations(tc_harness_session(h), tc_tool_conversation_id(api),
                                 tc_tool_task_id(api), NULL, r, &found, err) < 0)
        return err->code;
    if (found.count > 0) {
        if (tc_json_parse(r, found.items[0], &v, err) < 0)
            return err->code;
        assert_true(tci_json_as_u64(tc_json_get(v, TC_STR("id")), &id));
    } else {
        const tc_conversation_options options = {.size = sizeof options,
                                                 .owner_task = tc_tool_task_id(api)};
        if (tc_conversation_create(h, ctx, &options, &id, err) < 0)
            return err->code;
    }
    p->child = id;
    return tc_tool_conversation(api, id, ret, err);
}

static int ask_child(play *p, tc_tool_api *api, tc_ctx *ctx, tc_result *r, tc_bound *ret,
                     tc_err *err)
{
    const tc_user_input input = {
        .size = sizeof input, .text = TC_STR("dig"), .request_id = TC_STR("once")};
    if (child_of(p, api, ctx, r, ret, err) < 0)
        return err->code;
    return tc_bound_submit(ret, ctx, &input, &p->submission, err);
}

static int delegate(play *p, tc_tool_api *api, tc_ctx *ctx, tc_result *r, tc_err *err)
{
    tc_submission s;
    if (ask_child(p, api, ctx, r, &p->bound, err) < 0)
        return err->code;
    reach(p, 1);
    p->rc[0] = tc_bound_wait(&p->bound, &TC_CALL(ctx, r), p->submission, &s, err);
    reach(p, 2);
    if (p->rc[0] < 0)
        return p->rc[0];
    assert_int_equal(s.status, TC_SUBMISSION_DONE);
    p->rc[1] = tc_bound_wait_idle(&p->bound, ctx, err);
    return p->rc[1];
}

static void tool_asks_its_own_conversation(void **state)
{
    play p;
    tc_submission s;
    (void)state;
    play_open(&p);
    p.acts[0] = delegate;
    run_model_say(&p.w.model, run_call("c1", "act", "{}"));
    run_model_say(&p.w.model, run_text("found it"));
    run_model_say(&p.w.model, run_text("fine"));
    assert_string_equal(world_answer(&p.w, world_say(&p.w, "go")), "fine");
    assert_int_equal(p.rc[0], 0);
    assert_int_equal(p.rc[1], 0);
    OK(tc_submission_get(p.w.h, &TC_CALL(NULL, p.w.r), p.submission, &s, err));
    assert_int_equal(s.conversation, p.child);
    /* the call is over, and what it was given with it */
    world_idle(&p.w);
    const tc_user_input input = {.size = sizeof input, .text = TC_STR("more")};
    FAILS(TC_E_CLOSED, tc_bound_submit(&p.bound, NULL, &input, &p.submission, err));
    FAILS(TC_E_CLOSED, tc_bound_wait(&p.bound, &TC_CALL(NULL, p.w.r), p.submission, &s, err));
    FAILS(TC_E_CLOSED, tc_bound_wait_idle(&p.bound, NULL, err));
    FAILS(TC_E_CLOSED, tc_bound_abort(&p.bound, NULL, false, err));
    tc_abort_answer answer;
    FAILS(TC_E_CLOSED, tc_bound_withdraw(&p.bound, NULL, p.submission, &answer, err));
    play_done(&p);
}

/* Everything waits for a thread, and there is only one: who waits lends it. */
static void tool_that_waits_lends_its_thread(void **state)
{
    play p;
    (void)state;
    play_init(&p);
    p.w.options.max_running = 1;
    world_open(&p.w);
    p.acts[0] = delegate;
    run_model_say(&p.w.model, run_call("c1", "act", "{}"));
    run_model_say(&p.w.model, run_text("found it"));
    run_model_say(&p.w.model, run_text("fine"));
    assert_string_equal(world_answer(&p.w, world_say(&p.w, "go")), "fine");
    play_done(&p);
}

static void abort_ends_the_wait_and_what_is_below(void **state)
{
    play p;
    tc_submission s;
    (void)state;
    play_open(&p);
    p.acts[0] = delegate;
    run_model_say(&p.w.model, run_call("c1", "act", "{}"));
    run_model_hold(&p.w.model, run_text("never"), -1);
    uint64_t id = world_say(&p.w, "go");
    run_model_wait_held(&p.w.model, 1);
    OK(tc_conversation_abort(p.w.h, NULL, p.w.root, false, err));
    world_wait(&p.w, id, &s);
    assert_true(tci_str_eq(s.reason, TC_STR("aborted")));
    assert_int_equal(p.rc[0], TC_E_CANCELLED);
    OK(tc_submission_get(p.w.h, &TC_CALL(NULL, p.w.r), p.submission, &s, err));
    assert_true(tci_str_eq(s.reason, TC_STR("aborted")));
    play_done(&p);
}

static void after_a_restart_the_same_child_is_found(void **state)
{
    for (int is_kill = 0; is_kill < 2; is_kill++) {
        play p;
        tc_records all;
        (void)state;
        play_open(&p);
        p.acts[0] = delegate;
        run_model_say(&p.w.model, run_call("c1", "act", "{}"));
        run_model_hold(&p.w.model, run_text("lost"), -1);
        uint64_t id = world_say(&p.w, "go");
        run_model_wait_held(&p.w.model, 1);
        if (is_kill)
            world_kill(&p.w);
        else
            world_close(&p.w);
        assert_int_equal(p.rc[0], TC_E_CANCELLED);
        uint64_t child = p.child, submission = p.submission; /* the thread of the call is over */
        p.child = p.submission = 0;
        run_model_say(&p.w.model, run_text("found it"));
        run_model_say(&p.w.model, run_text("fine"));
        world_open(&p.w);
        assert_string_equal(world_answer(&p.w, id), "fine");
        assert_int_equal(p.child, child);
        assert_int_equal(p.submission, submission);
        OK(tc_durable_conversations(tc_harness_session(p.w.h), 0, 0, NULL, p.w.r, &all, err));
        assert_int_equal(all.count, 2);
        assert_int_equal(atomic_load(&p.ncalls), 2);
        play_done(&p);
    }
}

/* ---- waiting for oneself ---- */

static int ask_own(play *p, tc_tool_api *api, tc_ctx *ctx, tc_result *r, tc_err *e)
{
    const tc_user_input input = {.size = sizeof input, .text = TC_STR("later")};
    tc_submission s;
    tc_abort_answer answer;
    OK(tc_tool_conversation(api, tc_tool_conversation_id(api), &p->bound, err));
    p->rc[0] = tc_bound_wait_idle(&p->bound, ctx, e);
    OK(tc_bound_submit(&p->bound, ctx, &input, &p->submission, err));
    p->rc[1] = tc_bound_wait(&p->bound, &TC_CALL(ctx, r), p->submission, &s, e);
    assert_true(has_text(tci_str(e->msg), "would wait"));
    OK(tc_bound_withdraw(&p->bound, ctx, p->submission, &answer, err));
    p->rc[2] = answer;
    /* one that is settled is waited for by nobody */
    p->rc[3] = tc_bound_wait(&p->bound, &TC_CALL(ctx, r), p->submission, &s, e);
    return p->rc[3];
}

static void run_that_waits_for_the_call_is_not_waited_for(void **state)
{
    play p;
    (void)state;
    play_open(&p);
    p.acts[0] = ask_own;
    run_model_say(&p.w.model, run_call("c1", "act", "{}"));
    run_model_say(&p.w.model, run_text("fine"));
    assert_string_equal(world_answer(&p.w, world_say(&p.w, "go")), "fine");
    assert_int_equal(p.rc[0], TC_E_CONFLICT);
    assert_int_equal(p.rc[1], TC_E_CONFLICT);
    assert_int_equal(p.rc[2], TC_ABORT_ABORTED);
    assert_int_equal(p.rc[3], 0);
    play_done(&p);
}

static int ask_above(play *p, tc_tool_api *api, tc_ctx *ctx, tc_result *r, tc_err *e)
{
    const tc_user_input input = {.size = sizeof input, .text = TC_STR("later")};
    tc_bound root;
    tc_submission s;
    uint64_t id;
    OK(tc_tool_conversation(api, p->w.root, &root, err));
    p->rc[2] = tc_bound_wait_idle(&root, ctx, e);
    OK(tc_bound_submit(&root, ctx, &input, &id, err));
    p->rc[3] = tc_bound_wait(&root, &TC_CALL(ctx, r), id, &s, e);
    return 0;
}

static void nor_is_one_further_up(void **state)
{
    play p;
    (void)state;
    play_open(&p);
    p.acts[0] = delegate;
    p.acts[1] = ask_above;
    run_model_say(&p.w.model, run_call("c1", "act", "{}"));
    run_model_say(&p.w.model, run_call("c2", "act2", "{}")); /* the child */
    run_model_say(&p.w.model, run_text("found it"));
    run_model_say(&p.w.model, run_text("fine"));
    run_model_say(&p.w.model, run_text("and later"));
    assert_string_equal(world_answer(&p.w, world_say(&p.w, "go")), "fine");
    assert_int_equal(p.rc[2], TC_E_CONFLICT);
    assert_int_equal(p.rc[3], TC_E_CONFLICT);
    world_idle(&p.w);
    play_done(&p);
}

static int side(tc_task *t, tc_err *e)
{
    play *p = tc_task_user(t);
    const tc_user_input input = {.size = sizeof input, .text = TC_STR("from the side")};
    tc_bound root, other;
    tc_submission s;
    OK(tc_task_conversation(t, p->w.root, &root, err));
    FAILS(TC_E_NOT_FOUND, tc_task_conversation(t, 4711, &other, err));
    OK(tc_bound_submit(&root, NULL, &input, &p->submission, err));
    p->rc[0] = tc_bound_wait(&root, &TC_CALL(NULL, tc_task_result(t)), p->submission, &s, e);
    p->rc[1] = tc_bound_wait_idle(&root, NULL, e);
    p->bound = root;
    return tc_task_next(t, &(tc_next){.kind = TC_NEXT_COMPLETED, .result = TC_STR("1")}, e);
}

static uint64_t start_side(play *p, bool is_background)
{
    tc_task_options options = TC_TASK_OPTIONS;
    tc_tx *tx;
    uint64_t id;
    options.conversation_id = p->w.root;
    options.is_background = is_background;
    OK(tc_durable_begin(tc_harness_session(p->w.h), NULL, &tx, err));
    OK(tc_tx_create_task_of(tx, &p->def, TC_STR("{}"), &options, &id, err));
    OK(tc_tx_commit(tx, err));
    return id;
}

static void background_work_waits_for_its_conversation(void **state)
{
    play p;
    tc_str record;
    (void)state;
    play_open(&p);
    p.phase.run = side;
    run_model_say(&p.w.model, run_text("fine"));
    uint64_t id = start_side(&p, true);
    OK(tc_harness_wait_task(p.w.h, NULL, id, p.w.r, &record, err));
    assert_int_equal(p.rc[0], 0);
    assert_int_equal(p.rc[1], 0); /* it is idle all the same */
    play_done(&p);
}

static void other_work_waits_for_answers_only(void **state)
{
    play p;
    tc_str record;
    (void)state;
    play_open(&p);
    p.phase.run = side;
    run_model_say(&p.w.model, run_text("fine"));
    uint64_t id = start_side(&p, false);
    OK(tc_harness_wait_task(p.w.h, NULL, id, p.w.r, &record, err));
    assert_int_equal(p.rc[0], 0); /* the run does not wait for it */
    assert_int_equal(p.rc[1], TC_E_CONFLICT);
    play_done(&p);
}

/* ---- other answers ---- */

static int look_around(play *p, tc_tool_api *api, tc_ctx *ctx, tc_result *r, tc_err *e)
{
    tc_bound own, other;
    tc_submission s;
    tc_abort_answer answer;
    FAILS(TC_E_NOT_FOUND, tc_tool_conversation(api, 4711, &other, err));
    OK(child_of(p, api, ctx, r, &other, err));
    OK(tc_tool_conversation(api, tc_tool_conversation_id(api), &own, err));
    /* of the root, not of the child */
    FAILS(TC_E_NOT_FOUND, tc_bound_wait(&other, &TC_CALL(ctx, r), p->submission, &s, err));
    OK(tc_bound_withdraw(&other, ctx, p->submission, &answer, err));
    assert_int_equal(answer, TC_ABORT_NOT_FOUND);
    OK(tc_bound_withdraw(&own, ctx, p->submission, &answer, err));
    assert_int_equal(answer, TC_ABORT_ALREADY_PLACED);
    FAILS(TC_E_NOT_FOUND, tc_bound_wait(&own, &TC_CALL(ctx, r), 4711, &s, err));
    /* a limit of its own */
    const tc_user_input input = {.size = sizeof input, .text = TC_STR("dig")};
    tc_ctx *soon;
    OK(tc_bound_submit(&other, ctx, &input, &p->submission, err));
    run_model_wait_held(&p->w.model, 2); /* the child's question */
    OK(tc_ctx_new(1, &soon, err));
    FAILS(TC_E_TIMEOUT, tc_bound_wait(&other, &TC_CALL(soon, r), p->submission, &s, err));
    FAILS(TC_E_TIMEOUT, tc_bound_wait_idle(&other, soon, err));
    tc_ctx_free(soon);
    OK(tc_bound_abort(&other, ctx, false, err));
    OK(tc_bound_wait(&other, &TC_CALL(ctx, r), p->submission, &s, err));
    assert_true(tci_str_eq(s.reason, TC_STR("aborted")));
    (void)e;
    return 0;
}

static void calls_say_what_is_not_there(void **state)
{
    play p;
    (void)state;
    play_open(&p);
    p.acts[0] = look_around;
    run_model_hold(&p.w.model, run_call("c1", "act", "{}"), -1);
    run_model_hold(&p.w.model, run_text("never"), -1);
    run_model_say(&p.w.model, run_text("fine"));
    p.submission = world_say(&p.w, "go");
    uint64_t id = p.submission;
    run_model_wait_held(&p.w.model, 1);
    run_model_release(&p.w.model);
    assert_string_equal(world_answer(&p.w, id), "fine");
    play_done(&p);
}

static int abort_own(play *p, tc_tool_api *api, tc_ctx *ctx, tc_result *r, tc_err *e)
{
    (void)r;
    OK(tc_tool_conversation(api, tc_tool_conversation_id(api), &p->bound, err));
    p->rc[0] = tc_bound_abort(&p->bound, ctx, true, e);
    const tc_user_input input = {.size = sizeof input, .text = TC_STR("more")};
    tc_err other;
    p->rc[1] = tc_bound_submit(&p->bound, ctx, &input, &p->submission, &other);
    return p->rc[0];
}

static void who_aborts_itself_ends(void **state)
{
    play p;
    tc_submission s;
    (void)state;
    play_open(&p);
    p.acts[0] = abort_own;
    run_model_say(&p.w.model, run_call("c1", "act", "{}"));
    world_wait(&p.w, world_say(&p.w, "go"), &s);
    assert_true(tci_str_eq(s.reason, TC_STR("aborted")));
    assert_int_equal(p.rc[0], TC_E_CANCELLED);
    assert_int_equal(p.rc[1], TC_E_CANCELLED);
    world_idle(&p.w);
    play_done(&p);
}

static int wait_long(tc_task *t, tc_err *err)
{
    play *p = tc_task_user(t);
    reach(p, 1);
    return tc_task_pause(t, 3600000, err);
}

/* What an abort handler may do: tell somebody else, and not wait for its own conversation. */
static int tell_and_end(tc_task *t, tc_err *e)
{
    play *p = tc_task_user(t);
    const tc_user_input input = {.size = sizeof input, .text = TC_STR("it was stopped")};
    tc_bound root;
    OK(tc_task_conversation(t, p->w.root, &root, err));
    p->rc[0] = tc_bound_submit(&root, NULL, &input, &p->submission, e);
    p->rc[1] = tc_bound_wait_idle(&root, NULL, e);
    return end_aborted(t, e);
}

static void abort_handler_may_still_speak(void **state)
{
    play p;
    bool is_terminal;
    (void)state;
    play_open(&p);
    p.phase.run = wait_long;
    p.def.abort = tell_and_end;
    run_model_say(&p.w.model, run_text("noted"));
    OK(tc_harness_resume(p.w.h, err));
    uint64_t id = start_side(&p, false);
    wait_for(&p, 1);
    OK(tc_harness_abort_task(p.w.h, NULL, id, &is_terminal, err));
    world_idle(&p.w);
    assert_int_equal(p.rc[0], 0);
    assert_int_equal(p.rc[1], TC_E_CONFLICT);
    assert_string_equal(world_answer(&p.w, p.submission), "noted");
    play_done(&p);
}

/* ---- a session that fails ---- */

static void *fail_session(void *arg)
{
    play *p = arg;
    tc_err cause;
    wait_for(p, 1);
    (void)tc_err_set(&cause, TC_E_IO, "the disk is gone");
    tci_durable_fail(tc_harness_session(p->w.h), &cause);
    return NULL;
}

static void fail_thread(void *arg)
{
    (void)fail_session(arg);
}

static void who_waits_is_told_what_the_session_failed_of(void **state)
{
    play p;
    tci_thread *thread;
    tc_submission s;
    tc_err e;
    (void)state;
    play_open(&p);
    run_model_hold(&p.w.model, run_text("never"), -1);
    uint64_t id = world_say(&p.w, "go");
    run_model_wait_held(&p.w.model, 1);
    OK(tci_thread_new(fail_thread, &p, 1024 * 1024, &thread, err));
    reach(&p, 1); /* it fails before or while we wait */
    assert_int_equal(tc_submission_wait(p.w.h, &TC_CALL(NULL, p.w.r), id, &s, &e), TC_E_IO);
    assert_string_equal(e.msg, "the disk is gone");
    tci_thread_join(thread);
    assert_int_equal(tc_submission_wait(p.w.h, &TC_CALL(NULL, p.w.r), id, &s, &e), TC_E_IO);
    assert_string_equal(e.msg, "the disk is gone");
    assert_int_equal(tc_conversation_wait_idle(p.w.h, NULL, p.w.root, &e), TC_E_IO);
    (void)tc_harness_close(p.w.h, &e);
    tc_harness_free(p.w.h);
    p.w.h = NULL;
    play_done(&p);
}

typedef struct waiting {
    play *p;
    uint64_t id;
    int rc;
    tc_err err;
} waiting;

static void wait_thread(void *arg)
{
    waiting *x = arg;
    tc_result *r;
    tc_submission s;
    OK(tc_result_new(&r, err));
    reach(x->p, 1);
    x->rc = tc_submission_wait(x->p->w.h, &TC_CALL(NULL, r), x->id, &s, &x->err);
    tc_result_free(r);
}

static void who_waits_is_told_that_the_harness_was_closed(void **state)
{
    play p;
    tci_thread *thread;
    waiting x = {.p = &p};
    (void)state;
    play_open(&p);
    run_model_hold(&p.w.model, run_text("never"), -1);
    x.id = world_say(&p.w, "go");
    run_model_wait_held(&p.w.model, 1);
    OK(tci_thread_new(wait_thread, &x, 1024 * 1024, &thread, err));
    wait_for(&p, 1);
    OK(tc_harness_close(p.w.h, err));
    tci_thread_join(thread);
    assert_int_equal(x.rc, TC_E_CLOSED);
    play_done(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tool_asks_its_own_conversation),
        cmocka_unit_test(tool_that_waits_lends_its_thread),
        cmocka_unit_test(abort_ends_the_wait_and_what_is_below),
        cmocka_unit_test(after_a_restart_the_same_child_is_found),
        cmocka_unit_test(run_that_waits_for_the_call_is_not_waited_for),
        cmocka_unit_test(nor_is_one_further_up),
        cmocka_unit_test(background_work_waits_for_its_conversation),
        cmocka_unit_test(other_work_waits_for_answers_only),
        cmocka_unit_test(calls_say_what_is_not_there),
        cmocka_unit_test(who_aborts_itself_ends),
        cmocka_unit_test(abort_handler_may_still_speak),
        cmocka_unit_test(who_waits_is_told_what_the_session_failed_of),
        cmocka_unit_test(who_waits_is_told_that_the_harness_was_closed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
