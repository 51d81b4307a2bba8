/* SPDX-License-Identifier: Apache-2.0
 *
 * Talking to an agent that is busy: a word that steers it after its tools, one that waits for its turn,
 * a note, and one that is taken back.
 *
 *     agent_inbox SCRIPT SESSION */
#include "agent_start.h"
#include <telechir/tool.h>

static agent_world w;
static uint64_t steer, later, regretted, note;

/* While this tool runs the run is under way, so what is said here has to wait. */
static int work(void *user, tc_str arguments, tc_tool_api *api, tc_ctx *ctx,
                tc_tool_result *ret_result, tc_err *err)
{
    (void)user;
    (void)arguments;
    (void)ctx;
    (void)ret_result;
    tc_abort_answer answer;
    later = agent_submit(&w, w.root, "then sweep", TC_WHEN_BUSY_FOLLOW_UP);
    regretted = agent_submit(&w, w.root, "then burn it down", TC_WHEN_BUSY_FOLLOW_UP);
    steer = agent_submit(&w, w.root, "the left one!", TC_WHEN_BUSY_STEER);
    int rc = tc_conversation_write(
        w.harness, NULL, w.root,
        TC_STR("{\"kind\":\"app.note\",\"model\":[{\"role\":\"user\",\"content\":\"a note\"}]}"),
        TC_STR(""), &note, err);
    if (rc == 0)
        rc = tc_submission_abort(w.harness, NULL, regretted, &answer, err);
    if (rc == 0)
        printf("taken back: %s\n", answer == TC_ABORT_ABORTED ? "yes" : "no");
    return rc < 0 ? rc : tc_tool_output(api, TC_STR("worked\n"), NULL, err);
}

int main(int argc, char **argv)
{
    static const tc_tool tool = {.size = sizeof tool, .name = {"work", 4}, .execute = work};
    static const tc_tool *const tools[] = {&tool};
    static const tc_extension extension = {
        .size = sizeof extension, .name = {"work", 4}, .tools = tools, .ntools = 1};
    tc_err err;
    tc_submission s;
    if (argc != 3) {
        fprintf(stderr, "usage: agent_inbox SCRIPT SESSION\n");
        return 2;
    }
    agent_start(&w, argv[1], argv[2], &extension);
    uint64_t first = agent_submit(&w, w.root, "paint the door", TC_WHEN_BUSY_FOLLOW_UP);
    agent_answer(&w, "first", first);
    agent_answer(&w, "steer", steer);
    agent_answer(&w, "later", later);
    agent_answer(&w, "regretted", regretted);
    tc_call call = TC_CALL(NULL, w.r);
    need(tc_submission_wait(w.harness, &call, note, &s, &err), &err, "note");
    printf("note: %s\n", s.status == TC_SUBMISSION_DONE ? "placed" : "lost");
    agent_stop(&w);
    return 0;
}
