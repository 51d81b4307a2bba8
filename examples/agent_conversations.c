/* SPDX-License-Identifier: Apache-2.0
 *
 * Several conversations in one session: the root, one made with a document of the program's own in the
 * commit that creates it, and a fork that goes another way; an agent for each; paging through entries.
 *
 *     agent_conversations SCRIPT SESSION */
#include "agent_start.h"

static const tc_doc_def topic = {.size = sizeof(tc_doc_def),
                                 .kind = "app.topic",
                                 .version = 1,
                                 .scope = TC_SCOPE_CONVERSATION,
                                 .fork = TC_FORK_CURRENT,
                                 .initial_json = "{}"};

static int name_topic(void *user, tc_tx *tx, uint64_t conversation, tc_err *err)
{
    tc_doc *doc;
    (void)user;
    int rc = tc_tx_doc(tx, &topic, conversation, TC_STR(""), TC_STR(""), &doc, err);
    return rc < 0 ? rc : tc_doc_set(doc, TC_STR("/name"), TC_STR("\"gardens\""), err);
}

static void print_agent(agent_world *w, const char *who, uint64_t conversation)
{
    tc_err err;
    tc_str agent, level = TC_STR("?"), instructions = TC_STR("-");
    const tc_json *v;
    tc_call call = TC_CALL(NULL, w->r);
    need(tc_conversation_agent(w->harness, &call, conversation, &agent, &err), &err, "agent");
    need(tc_json_parse(w->r, agent, &v, &err), &err, "agent");
    (void)tc_json_as_str(tc_json_get(v, TC_STR("thinkingLevel")), &level);       /* as set above */
    (void)tc_json_as_str(tc_json_get(v, TC_STR("instructions")), &instructions); /* likewise */
    printf("%s thinks %.*s, instructions %.*s\n", who, TC_STR_ARG(level), TC_STR_ARG(instructions));
}

int main(int argc, char **argv)
{
    agent_world w;
    tc_err err;
    uint64_t garden, fork;
    tc_submission first;
    if (argc != 3) {
        fprintf(stderr, "usage: agent_conversations SCRIPT SESSION\n");
        return 2;
    }
    agent_start(&w, argv[1], argv[2], NULL);
    tc_call call = TC_CALL(NULL, w.r);

    tc_conversation_options options = {
        .size = sizeof options, .agent = text(w.model), .init = name_topic};
    need(tc_conversation_create(w.harness, NULL, &options, &garden, &err), &err, "create");
    need(tc_conversation_configure(w.harness, NULL, garden, TC_STR("{\"thinkingLevel\":\"low\"}"),
                                   &err),
         &err, "configure");
    uint64_t question = agent_submit(&w, garden, "Which tree?", TC_WHEN_BUSY_FOLLOW_UP);
    agent_answer(&w, "garden", question);
    need(tc_submission_get(w.harness, &call, question, &first, &err), &err, "submission");

    tc_conversation_options kinder = {.size = sizeof kinder,
                                      .agent = TC_STR("{\"instructions\":\"Prefer small ones.\"}")};
    need(tc_conversation_fork(w.harness, NULL, garden, first.entry, &kinder, &fork, &err), &err,
         "fork");
    agent_answer(&w, "fork", agent_submit(&w, fork, "Smaller!", TC_WHEN_BUSY_FOLLOW_UP));
    print_agent(&w, "garden", garden);
    print_agent(&w, "fork", fork);

    tc_str name;
    tc_doc_addr addr = {&topic, fork, {NULL, 0}};
    need(tc_durable_snapshot(tc_harness_session(w.harness), &addr, w.r, &name, &err), &err,
         "topic");
    printf("fork is about %.*s\n", TC_STR_ARG(name));

    size_t pages = 0, entries = 0;
    tc_page page = {.order = TC_ORDER_ASCENDING, .limit = 2};
    tc_records records;
    do {
        need(tc_durable_entries(tc_harness_session(w.harness), fork, 0, 0, &page, w.r, &records,
                                &err),
             &err, "entries");
        pages++;
        entries += records.count;
        page.cursor = records.next;
    } while (records.has_more);
    printf("%zu entries on %zu pages\n", entries, pages);
    agent_stop(&w);
    return 0;
}
