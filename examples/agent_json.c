/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON mode: a run, told one JSON a line while it happens, for another program to read. "events" are
 * what the agent does, a snapshot first. "view" is the operations on the conversation's view: whoever
 * applies all of them, the first replaces everything, has the view as it is in the end. The session may
 * be of any kind: a folder, a file ending in .sqlite, ":memory:".
 *
 *     agent_json events|view SCRIPT SESSION PROMPT */
#include "agent_start.h"

typedef struct teller {
    agent_world w;
    bool is_events;
    tc_result *scratch;        /* of one frame */
    uint64_t question, answer; /* as the lines tell */
    size_t nsnapshots;
    bool is_over;
} teller;

/* Nobody answers, and nobody waits to be answered. */
static bool is_idle(const tc_json *run, const tc_json *inbox)
{
    return run == NULL && tc_json_count(inbox) == 0;
}

static void print_line(teller *t, const tc_json *v)
{
    tc_err err;
    tc_str line;
    need(tc_json_text(v, t->scratch, &line, &err), &err, "line");
    printf("%.*s\n", TC_STR_ARG(line));
    agent_check(fflush(stdout) == 0, "the line was written");
}

static void note_event(teller *t, const tc_json *event)
{
    tc_str type = {NULL, 0};
    uint64_t id = 0;
    (void)tc_json_as_str(tc_json_get(event, TC_STR("type")), &type); /* every event has one */
    if (agent_is(type, "snapshot")) {
        /* The first is of before the question. Another stands for more than could wait. */
        t->is_over = t->nsnapshots++ > 0 && is_idle(tc_json_get(event, TC_STR("run")),
                                                    tc_json_get(event, TC_STR("inbox")));
    } else if (agent_is(type, "submission") &&
               tc_json_as_u64(tc_json_find(event, "/record/id"), &id) && id == t->question) {
        tc_str status = {NULL, 0};
        (void)tc_json_as_str(tc_json_find(event, "/record/status"), &status);    /* every record */
        (void)tc_json_as_u64(tc_json_find(event, "/record/answer"), &t->answer); /* if answered */
        t->is_over = agent_is(status, "done") || agent_is(status, "unanswered");
    }
}

/* One commit's worth. */
static void tell(teller *t, const tc_frame *frame)
{
    tc_err err;
    const tc_json *items;
    tc_result_clear(t->scratch);
    need(tc_json_parse(t->scratch, frame->ops, &items, &err), &err, "frame");
    for (size_t i = 0; i < tc_json_count(items); i++) {
        print_line(t, tc_json_item(items, i));
        if (t->is_events)
            note_event(t, tc_json_item(items, i));
    }
    if (!t->is_events)
        t->is_over = is_idle(tc_json_find(frame->value, "/docs/pi.live/run"),
                             tc_json_find(frame->value, "/docs/pi.inbox/items"));
}

/* The line that everything after it builds upon: a view that replaces what there was. */
static void print_first_view(teller *t, const tc_json *view)
{
    tc_err err;
    tc_str value, line;
    const tc_json *v;
    tc_json_out *out;
    need(tc_json_text(view, t->scratch, &value, &err), &err, "view");
    need(tc_json_out_new(&out, &err), &err, "writer");
    tc_json_out_array(out);
    tc_json_out_str(out, TC_STR("r"));
    tc_json_out_raw(out, value);
    tc_json_out_end(out);
    need(tc_json_out_take(out, t->scratch, &line, &err), &err, "line");
    tc_json_out_free(out);
    need(tc_json_parse(t->scratch, line, &v, &err), &err, "line");
    print_line(t, v);
}

/* What the lines lead to is what is stored. */
static void check_view(teller *t, const tc_json *view)
{
    tc_err err;
    tc_str told, stored;
    const tc_json *v;
    tc_call call = TC_CALL(NULL, t->scratch);
    need(tc_json_text(view, t->scratch, &told, &err), &err, "view");
    need(tc_conversation_view(t->w.harness, &call, t->w.root, &stored, &err), &err, "view");
    need(tc_json_parse(t->scratch, stored, &v, &err), &err, "view");
    need(tc_json_text(v, t->scratch, &stored, &err), &err, "view");
    agent_check(told.len == stored.len && memcmp(told.ptr, stored.ptr, told.len) == 0,
                "the operations lead to the view");
}

int main(int argc, char **argv)
{
    teller t = {.is_over = false};
    tc_err err;
    tc_watch *watch;
    tc_frame frame;
    if (argc != 5 || (strcmp(argv[1], "events") != 0 && strcmp(argv[1], "view") != 0)) {
        fprintf(stderr, "usage: agent_json events|view SCRIPT SESSION PROMPT\n");
        return 2;
    }
    t.is_events = strcmp(argv[1], "events") == 0;
    need(tc_result_new(&t.scratch, &err), &err, "result");
    agent_start(&t.w, argv[2], argv[3], NULL);
    t.w.settings.partial_interval_ms = 0; /* every piece of the answer, as it comes */

    /* Attached before the question is, so that nothing of the run is missed. */
    if (t.is_events) {
        need(tc_conversation_watch_events(t.w.harness, NULL, t.w.root, &watch, &err), &err,
             "watch");
    } else {
        need(tc_conversation_watch(t.w.harness, NULL, t.w.root, &watch, &err), &err, "watch");
        print_first_view(&t, tc_watch_value(watch));
    }
    t.question = agent_submit(&t.w, t.w.root, argv[4], TC_WHEN_BUSY_FOLLOW_UP);
    while (!t.is_over) {
        need(tc_watch_next(watch, NULL, &frame, &err), &err, "watch");
        tell(&t, &frame);
    }
    if (!t.is_events)
        check_view(&t, tc_watch_value(watch));
    tc_watch_free(watch);

    tc_submission s;
    tc_call call = TC_CALL(NULL, t.w.r);
    need(tc_submission_wait(t.w.harness, &call, t.question, &s, &err), &err, "wait");
    agent_check(!t.is_events || t.nsnapshots > 1 || t.answer == s.answer,
                "the events told the answer");
    agent_stop(&t.w);
    tc_result_free(t.scratch);
    return s.answer != 0 ? 0 : 1;
}
