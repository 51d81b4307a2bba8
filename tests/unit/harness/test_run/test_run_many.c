/* SPDX-License-Identifier: Apache-2.0
 *
 * Two hundred conversations that talk, call tools and are watched at once, with callers from several threads:
 * what a thread sanitizer should look at. */
#include "run_world.h"

#include <string.h>

enum { CONVERSATIONS = 200, CALLERS = 4 };

#define USAGE                                                                                 \
    "\"usage\":{\"input\":1,\"output\":1,\"cacheRead\":0,\"cacheWrite\":0,\"totalTokens\":2," \
    "\"cost\":{\"input\":0,\"output\":0,\"cacheRead\":0,\"cacheWrite\":0,\"total\":0}}"
#define MESSAGE(content, stop)                                                                 \
    "{\"role\":\"assistant\",\"content\":[" content "],\"api\":\"faux\",\"provider\":\"faux\"" \
    ",\"model\":\"faux-1\"," USAGE ",\"stopReason\":\"" stop "\",\"timestamp\":1000}"
#define CALL(id, name)                                                                        \
    "{\"type\":\"toolCall\",\"id\":\"" id "\",\"name\":\"" name "\",\"arguments\":{\"text\":" \
    "\"x\"}}"
#define TEXT(text) "{\"type\":\"text\",\"text\":\"" text "\"}"

static const char calls[] = MESSAGE(CALL("a", "echo") "," CALL("b", "safe"), "toolUse");
static const char answer[] = MESSAGE(TEXT("done"), "stop");

static int tell(const tc_model_sink *sink, tc_model_event_type type, tc_str json, tc_str text,
                tc_err *err)
{
    const tc_model_event e = {type, 0, json, text};
    if (sink == NULL)
        return 0;
    int rc = sink->on_event(sink->user, &e, err);
    if (rc == 0 && sink->on_tick != NULL)
        (void)sink->on_tick(sink->user);
    return rc;
}

/* Two calls, then the answer, which is streamed. */
static int ask(void *user, tc_ctx *ctx, const tc_model_request *q, const tc_model_sink *sink,
               tc_result *r, tc_str *ret_message, tc_err *err)
{
    TCI_UNUSED(user);
    const tc_str none = {NULL, 0};
    bool is_second = q->nmessages > 0 && q->messages[q->nmessages - 1].role == TC_ROLE_TOOL_RESULT;
    int rc = tci_ctx_check(ctx, err);
    if (rc == 0 && is_second)
        rc = tell(sink, TC_MODEL_START, TC_STR(MESSAGE("", "pending")), none, err);
    if (rc == 0 && is_second)
        rc = tell(sink, TC_MODEL_BLOCK, TC_STR(TEXT("")), none, err);
    for (unsigned i = 0; rc == 0 && is_second && i < 4; i++)
        rc = tell(sink, TC_MODEL_TEXT, none, tci_str_of("done" + i, 1), err);
    if (rc < 0)
        return tc_result_dup(r, TC_STR(MESSAGE("", "aborted")), ret_message, err);
    return tc_result_dup(r, tci_str(is_second ? answer : calls), ret_message, err);
}

typedef struct caller {
    world *w;
    unsigned index;
    unsigned ndone, naborted, nframes, nwrong;
} caller;

static void follow(caller *c, uint64_t conversation, uint64_t submission, tc_result *r)
{
    tc_watch *watch;
    tc_frame frame;
    tc_submission s;
    tc_err err;
    if (tc_conversation_watch_events(c->w->h, NULL, conversation, &watch, &err) < 0) {
        c->nwrong++;
        return;
    }
    do {
        tc_result_clear(r);
        if (tc_watch_next(watch, NULL, &frame, &err) < 0 ||
            tc_submission_get(c->w->h, &TC_CALL(NULL, r), submission, &s, &err) < 0) {
            c->nwrong++;
            break;
        }
        c->nframes++;
    } while (s.status == TC_SUBMISSION_QUEUED || s.status == TC_SUBMISSION_PLACED);
    tc_watch_free(watch);
}

/* One conversation from its making to its end. */
static void talk(caller *c, unsigned i, tc_result *r)
{
    static const tc_conversation_options options = {
        .size = sizeof options,
        .agent = {"{\"model\":{\"provider\":\"faux\",\"modelId\":\"faux-1\"}}", 48}};
    uint64_t id, one, two;
    tc_submission s;
    tc_err err;
    tc_user_input input = {.size = sizeof input, .text = TC_STR("go")};
    c->nwrong += tc_conversation_create(c->w->h, NULL, &options, &id, &err) < 0;
    c->nwrong += tc_conversation_submit(c->w->h, NULL, id, &input, &one, &err) < 0;
    input.when_busy = TC_WHEN_BUSY_STEER;
    c->nwrong += tc_conversation_submit(c->w->h, NULL, id, &input, &two, &err) < 0;
    if (i % 5 == 1)
        follow(c, id, one, r);
    if (i % 7 == 2)
        c->nwrong += tc_conversation_abort(c->w->h, NULL, id, true, &err) < 0;
    const uint64_t both[] = {one, two};
    for (size_t k = 0; k < TCI_ARRAY_LEN(both); k++) {
        tc_result_clear(r);
        c->nwrong += tc_submission_wait(c->w->h, &TC_CALL(NULL, r), both[k], &s, &err) < 0;
        c->ndone += s.status == TC_SUBMISSION_DONE;
        c->naborted += s.status == TC_SUBMISSION_UNANSWERED && i % 7 == 2;
    }
}

static void talk_around(void *arg)
{
    caller *c = arg;
    tc_result *r;
    tc_err err;
    if (tc_result_new(&r, &err) < 0) {
        c->nwrong++;
        return;
    }
    for (unsigned i = c->index; i < CONVERSATIONS; i += CALLERS)
        talk(c, i, r);
    tc_result_free(r);
}

static void two_hundred_conversations_are_all_answered(void **state)
{
    (void)state;
    world w;
    tc_models models;
    caller callers[CALLERS];
    tci_thread *threads[CALLERS];
    unsigned ndone = 0, naborted = 0;
    world_init(&w);
    models = w.model.models;
    models.user = &w.model;
    models.ask = ask;
    w.options.models = &models;
    world_open(&w);
    for (unsigned i = 0; i < CALLERS; i++) {
        callers[i] = (caller){.w = &w, .index = i};
        OK(tci_thread_new(talk_around, &callers[i], 0, &threads[i], err));
    }
    for (unsigned i = 0; i < CALLERS; i++) {
        tci_thread_join(threads[i]);
        assert_int_equal(callers[i].nwrong, 0);
        ndone += callers[i].ndone;
        naborted += callers[i].naborted;
        assert_true(callers[i].nframes > 0);
    }
    OK(tc_harness_wait_idle(w.h, NULL, 0, err));
    assert_int_equal(ndone + naborted, 2 * CONVERSATIONS);
    assert_true(atomic_load(&w.nexecuted) >= ndone);
    assert_int_equal(w.nreports, 0);
    world_done(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_hundred_conversations_are_all_answered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
