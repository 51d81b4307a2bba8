/* SPDX-License-Identifier: Apache-2.0
 *
 * What the model is told: entries of the program's own, an edit that takes one back, and a reset that
 * begins anew.
 *
 *     agent_context SCRIPT SESSION */
#include "agent_start.h"

static void print_context(agent_world *w, const char *when)
{
    tc_err err;
    tc_context_view view;
    tc_call call = TC_CALL(NULL, w->r);
    need(tc_conversation_context(w->harness, &call, w->root, 0, &view, &err), &err, "context");
    printf("%s:", when);
    for (size_t i = 0; i < view.nmessages; i++) {
        const tc_json *v;
        tc_str role, words;
        need(tc_json_parse(w->r, view.messages[i], &v, &err), &err, "message");
        if (tc_json_as_str(tc_json_get(v, TC_STR("role")), &role) &&
            (tc_json_as_str(tc_json_get(v, TC_STR("content")), &words) ||
             tc_json_as_str(tc_json_find(v, "/content/0/text"), &words)))
            printf(" [%.*s] %.*s", TC_STR_ARG(role), TC_STR_ARG(words));
    }
    printf("\n");
}

static uint64_t write_entry(agent_world *w, const char *draft)
{
    tc_err err;
    uint64_t id;
    tc_submission s;
    tc_call call = TC_CALL(NULL, w->r);
    need(tc_conversation_write(w->harness, NULL, w->root, text(draft), TC_STR(""), &id, &err), &err,
         draft);
    need(tc_submission_get(w->harness, &call, id, &s, &err), &err, "submission");
    return s.entry;
}

int main(int argc, char **argv)
{
    agent_world w;
    tc_err err;
    char draft[200];
    uint64_t reset;
    if (argc != 3) {
        fprintf(stderr, "usage: agent_context SCRIPT SESSION\n");
        return 2;
    }
    agent_start(&w, argv[1], argv[2], NULL);
    uint64_t rumour = write_entry(
        &w,
        "{\"kind\":\"app.news\",\"model\":[{\"role\":\"user\",\"content\":\"It rains frogs.\"}]}");
    write_entry(&w, "{\"kind\":\"app.mark\",\"data\":{\"seen\":true}}"); /* for people only */
    print_context(&w, "rumour");
    snprintf(draft, sizeof draft,
             "{\"kind\":\"app.correction\",\"edits\":[{\"target\":%llu,\"action\":\"replace\","
             "\"messages\":[{"
             "\"role\":\"user\",\"content\":\"It rains.\"}]}]}",
             (unsigned long long)rumour);
    write_entry(&w, draft);
    print_context(&w, "corrected");
    agent_answer(&w, "agent", agent_submit(&w, w.root, "An umbrella?", TC_WHEN_BUSY_FOLLOW_UP));
    print_context(&w, "asked");
    need(tc_conversation_reset(w.harness, NULL, w.root, TC_STR("The weather is settled."), &reset,
                               &err),
         &err, "reset");
    print_context(&w, "reset");
    agent_stop(&w);
    return 0;
}
