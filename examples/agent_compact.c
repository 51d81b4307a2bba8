/* SPDX-License-Identifier: Apache-2.0
 *
 * Keeping a conversation within the model's window: by hand, and with a summary of the program's own
 * instead of asking the model.
 *
 *     agent_compact SCRIPT SESSION */
#include "agent_start.h"

static bool has_own_words;

static int before_compact(void *user, tc_hook *hook, tc_str compaction, tc_result *r,
                          tc_compact_decision *ret_decision, tc_err *err)
{
    (void)user;
    (void)hook;
    (void)compaction;
    (void)r;
    (void)err;
    if (has_own_words)
        ret_decision->summary = TC_STR("They like oaks.");
    return 0;
}

static void compact(agent_world *w)
{
    tc_err err;
    uint64_t task;
    tc_str record, status = TC_STR("?");
    const tc_json *v;
    need(tc_conversation_compact(w->harness, NULL, w->root, TC_STR(""), &task, &err), &err,
         "compact");
    need(tc_harness_wait_task(w->harness, NULL, task, w->r, &record, &err), &err, "wait");
    need(tc_json_parse(w->r, record, &v, &err), &err, "task");
    (void)tc_json_as_str(tc_json_find(v, "/state/outcome/status"), &status); /* it has ended */
    printf("compaction %.*s\n", TC_STR_ARG(status));
}

static void print_first(agent_world *w)
{
    tc_err err;
    tc_context_view view;
    tc_str words = TC_STR("?");
    const tc_json *v;
    tc_call call = TC_CALL(NULL, w->r);
    need(tc_conversation_context(w->harness, &call, w->root, 0, &view, &err), &err, "context");
    need(tc_json_parse(w->r, view.messages[0], &v, &err), &err, "message");
    if (!tc_json_as_str(tc_json_get(v, TC_STR("content")), &words))
        (void)tc_json_as_str(tc_json_find(v, "/content/0/text"), &words); /* one of the two */
    printf("%zu messages, first: %.*s\n", view.nmessages, TC_STR_ARG(words));
}

int main(int argc, char **argv)
{
    static const tc_hooks hooks = {.size = sizeof hooks, .before_compact = before_compact};
    static const tc_extension extension = {
        .size = sizeof extension, .name = {"memory", 6}, .hooks = &hooks};
    agent_world w;
    if (argc != 3) {
        fprintf(stderr, "usage: agent_compact SCRIPT SESSION\n");
        return 2;
    }
    agent_start(&w, argv[1], argv[2], &extension);
    w.settings.compaction.keep_recent_tokens = 1;
    agent_answer(&w, "agent", agent_submit(&w, w.root, "Which tree?", TC_WHEN_BUSY_FOLLOW_UP));
    agent_answer(&w, "agent", agent_submit(&w, w.root, "Another?", TC_WHEN_BUSY_FOLLOW_UP));
    compact(&w); /* the model's next turn is the summary */
    print_first(&w);
    has_own_words = true;
    agent_answer(&w, "agent", agent_submit(&w, w.root, "A third?", TC_WHEN_BUSY_FOLLOW_UP));
    compact(&w);
    print_first(&w);
    agent_stop(&w);
    return 0;
}
