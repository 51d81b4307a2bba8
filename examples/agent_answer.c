/* SPDX-License-Identifier: Apache-2.0
 *
 * One question and its answer. Run again on the same session, it asks nothing twice: a request id names
 * the question.
 *
 *     agent_answer SCRIPT SESSION */
#include "agent_start.h"

int main(int argc, char **argv)
{
    agent_world w;
    tc_err err;
    uint64_t question;
    tc_str usage;
    if (argc != 3) {
        fprintf(stderr, "usage: agent_answer SCRIPT SESSION\n");
        return 2;
    }
    agent_start(&w, argv[1], argv[2], NULL);
    tc_user_input input = {.size = sizeof input,
                           .text = TC_STR("What is the capital of Assyria?"),
                           .request_id = TC_STR("question-1")};
    need(tc_conversation_submit(w.harness, NULL, w.root, &input, &question, &err), &err, "submit");
    agent_answer(&w, "agent", question);
    tc_call call = TC_CALL(NULL, w.r);
    tc_page page = {.limit = 10};
    tc_records entries;
    need(
        tc_durable_entries(tc_harness_session(w.harness), w.root, 0, 0, &page, w.r, &entries, &err),
        &err, "entries");
    printf("%zu entries\n", entries.count);
    need(tc_conversation_usage(w.harness, &call, w.root, &usage, &err), &err, "usage");
    printf("usage %s\n", usage.len > strlen("{\"models\":{},\"tools\":{}}") ? "counted" : "none");
    agent_stop(&w);
    return 0;
}
