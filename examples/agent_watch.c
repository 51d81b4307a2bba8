/* SPDX-License-Identifier: Apache-2.0
 *
 * Joining late: a watcher that comes while the agent is at work gets what is to be seen, and then
 * everything that happens, until it saw the end of the run.
 *
 *     agent_watch SCRIPT SESSION */
#include "agent_start.h"
#include <telechir/tool.h>

static agent_world w;
static tc_watch *events;

static int work(void *user, tc_str arguments, tc_tool_api *api, tc_ctx *ctx,
                tc_tool_result *ret_result, tc_err *err)
{
    (void)user;
    (void)arguments;
    (void)ctx;
    (void)ret_result;
    int rc = tc_conversation_watch_events(w.harness, NULL, w.root, &events, err);
    return rc < 0 ? rc : tc_tool_output(api, TC_STR("halfway\n"), NULL, err);
}

/* Print the types of one frame's events; true when the run ended in it. */
static bool print_frame(const tc_frame *frame)
{
    tc_err err;
    const tc_json *v;
    bool is_over = false;
    need(tc_json_parse(w.r, frame->ops, &v, &err), &err, "events");
    for (size_t i = 0; i < tc_json_count(v); i++) {
        tc_str type;
        if (!tc_json_as_str(tc_json_get(tc_json_item(v, i), TC_STR("type")), &type))
            continue;
        printf("%s%.*s", i > 0 ? " " : "", TC_STR_ARG(type));
        is_over = is_over || (type.len == 7 && memcmp(type.ptr, "run_end", 7) == 0);
    }
    printf("\n");
    return is_over;
}

int main(int argc, char **argv)
{
    static const tc_tool tool = {.size = sizeof tool, .name = {"work", 4}, .execute = work};
    static const tc_tool *const tools[] = {&tool};
    static const tc_extension extension = {
        .size = sizeof extension, .name = {"work", 4}, .tools = tools, .ntools = 1};
    tc_err err;
    tc_frame frame;
    bool is_over = false;
    if (argc != 3) {
        fprintf(stderr, "usage: agent_watch SCRIPT SESSION\n");
        return 2;
    }
    agent_start(&w, argv[1], argv[2], &extension);
    agent_answer(&w, "agent", agent_submit(&w, w.root, "work", TC_WHEN_BUSY_FOLLOW_UP));
    while (!is_over) {
        need(tc_watch_next(events, NULL, &frame, &err), &err, "watch");
        is_over = print_frame(&frame);
    }
    tc_watch_free(events);
    agent_stop(&w);
    return 0;
}
