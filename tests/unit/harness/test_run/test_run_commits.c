/* SPDX-License-Identifier: Apache-2.0
 *
 * One prompt with one tool call, commit by commit, as the durable formats show it. */
#include "run_world.h"

#include "base/json.h"
#include <stdio.h>
#include <stdlib.h>

enum { COMMITS_MAX = 64 };

/* What each commit wrote: records and committed document values, one a line. */
typedef struct log {
    tci_buf commits[COMMITS_MAX];
    size_t n;
} log;

static void on_commit(void *user, const tc_commit *commit)
{
    static const char *const types[] = {"conversation", "entry", "task", "submission", "document"};
    log *l = user;
    assert_true(l->n < COMMITS_MAX);
    tci_buf *b = &l->commits[l->n++];
    tci_buf_init(b, TCI_BUF_MAX);
    for (size_t i = 0; i < commit->nrecords; i++) {
        if (commit->records[i].type == TC_RECORD_DOCUMENT)
            continue;
        tci_buf_printf(b, "%s %.*s\n", types[commit->records[i].type],
                       TC_STR_ARG(commit->records[i].json));
    }
    for (size_t i = 0; i < commit->ndocs; i++) {
        tci_buf_printf(b, "%.*s ", TC_STR_ARG(commit->docs[i].kind));
        if (commit->docs[i].value != NULL)
            tci_json_put(b, commit->docs[i].value, TCI_JSON_AS_IS);
        tci_buf_append_byte(b, '\n');
    }
}

static void check_commit(const log *l, size_t seq, const char *const *lines, size_t nlines)
{
    tc_str rest = tci_buf_str(&l->commits[seq - 1]), line;
    size_t n = 0;
    while (tci_str_split(&rest, '\n', &line)) {
        if (line.len == 0)
            continue;
        if (n >= nlines)
            fail_msg("commit %zu writes more: %.*s", seq, TC_STR_ARG(line));
        size_t blank = tci_str_find_byte(line, ' ');
        tc_str name = tci_str_sub(line, 0, blank), json = tci_str_sub(line, blank + 1, line.len);
        const char *expected = strchr(lines[n], ' ');
        if (!tci_str_eq(name, tci_str_of(lines[n], (size_t)(expected - lines[n]))))
            fail_msg("commit %zu line %zu is %.*s", seq, n, TC_STR_ARG(line));
        if (strcmp(expected + 1, "*") != 0)
            CHECK_JSON(json, expected + 1);
        n++;
    }
    if (n != nlines)
        fail_msg("commit %zu writes less: %s is missing", seq, lines[n]);
}
#define CHECK_COMMIT(l, seq, ...)                                           \
    do {                                                                    \
        static const char *const lines_[] = {__VA_ARGS__};                  \
        check_commit((l), (seq), lines_, sizeof lines_ / sizeof lines_[0]); \
    } while (0)

#define U                                                                                       \
    "{\"input\":10,\"output\":5,\"cacheRead\":0,\"cacheWrite\":0,\"totalTokens\":15,\"cost\":{" \
    "\"input\":0.0,"                                                                            \
    "\"output\":0.0,\"cacheRead\":0.0,\"cacheWrite\":0.0,\"total\":0.0}}"
#define U2                                                                                       \
    "{\"input\":20,\"output\":10,\"cacheRead\":0,\"cacheWrite\":0,\"totalTokens\":30,\"cost\":{" \
    "\"input\":0.0,"                                                                             \
    "\"output\":0.0,\"cacheRead\":0.0,\"cacheWrite\":0.0,\"total\":0.0}}"
#define TASK9(rest)                                                                              \
    "task {\"id\":9,\"conversationId\":1,\"kind\":\"pi.generation\",\"version\":1,\"input\":{}," \
    "\"background\":false,\"abortRequested\":false," rest "}"
#define TASK12(rest)                                                                               \
    "task "                                                                                        \
    "{\"id\":12,\"conversationId\":1,\"kind\":\"pi.tool\",\"version\":2,\"input\":{\"kind\":"      \
    "\"model\","                                                                                   \
    "\"assistant\":11,\"callId\":\"c1\"},\"background\":false,\"abortRequested\":false,\"owner\":" \
    "9," rest "}"
#define TASK14(rest)                                                                              \
    "task {\"id\":14,\"conversationId\":1,\"kind\":\"pi.generation\",\"version\":1,\"input\":{}," \
    "\"background\":false,\"abortRequested\":false," rest "}"
#define STARTED ",\"startedAt\":1700000000026"
#define ENDED STARTED ",\"endedAt\":1700000000026"
#define MODEL "\"model\":{\"provider\":\"faux\",\"modelId\":\"faux-1\"}"

static void check_first_turn(const log *l)
{
    CHECK_COMMIT(
        l, 2,
        "entry {\"id\":7,\"conversationId\":1,\"kind\":\"pi.user\",\"model\":[{\"role\":\"user\","
        "\"content\":\"Say hello\",\"timestamp\":1}]}",
        "submission {\"conversationId\":1,\"requestId\":\"r1\",\"type\":\"input\",\"status\":"
        "\"placed\",\"entry\":7,\"id\":8}",
        TASK9("\"state\":{\"status\":\"pending\",\"checkpoint\":{\"phase\":\"prepare\",\"attempt\":"
              "1}}"),
        "pi.live {\"run\":{\"taskId\":9,\"inputs\":[8]}}");
    CHECK_COMMIT(l, 3,
                 TASK9("\"state\":{\"status\":\"running\",\"checkpoint\":{\"phase\":\"prepare\","
                       "\"attempt\":1}}" STARTED));
    CHECK_COMMIT(
        l, 4,
        "entry "
        "{\"id\":10,\"conversationId\":1,\"kind\":\"pi.system\",\"model\":[{\"role\":\"system\","
        "\"content\":\"\",\"sections\":{\"preamble\":\"<preamble>\\nYou are "
        "terse.\\n</preamble>\"},"
        "\"toolsAdded\":[{\"name\":\"echo\",\"description\":\"Echo text\",\"parameters\":{\"type\":"
        "\"object\",\"properties\":{\"text\":{\"type\":\"string\"}},\"required\":[\"text\"]}}],"
        "\"timestamp\":1}],\"byTaskId\":9}",
        TASK9("\"state\":{\"status\":\"running\",\"checkpoint\":{\"phase\":\"request\",\"attempt\":"
              "1," MODEL
              ",\"thinkingLevel\":\"off\",\"streamOptions\":{},\"cutoff\":10}}" STARTED));
    CHECK_COMMIT(l, 5,
                 "pi.live {\"run\":{\"taskId\":9,\"inputs\":[8]},\"generation\":{\"attempt\":1}}");
    CHECK_COMMIT(
        l, 6,
        "entry "
        "{\"id\":11,\"conversationId\":1,\"kind\":\"pi.assistant\",\"model\":[{\"role\":"
        "\"assistant\","
        "\"content\":[{\"type\":\"toolCall\",\"id\":\"c1\",\"name\":\"echo\",\"arguments\":{"
        "\"text\":"
        "\"world\"}}],\"api\":\"faux\",\"provider\":\"faux\",\"model\":\"faux-1\",\"usage\":" U
        ",\"stopReason\":\"toolUse\",\"timestamp\":1000}],\"byTaskId\":9}",
        TASK9("\"state\":{\"status\":\"waiting\",\"checkpoint\":{\"phase\":\"tools\",\"assistant\":"
              "11,"
              "\"tools\":[12],\"pending\":[]},\"on\":[12],\"policy\":\"allSettled\"}" STARTED),
        TASK12("\"state\":{\"status\":\"pending\",\"checkpoint\":{\"phase\":\"call\"}}"),
        "pi.live "
        "{\"run\":{\"taskId\":9,\"inputs\":[8]},\"tools\":[{\"callId\":\"c1\",\"name\":\"echo\","
        "\"taskId\":12,\"status\":\"pending\"}]}",
        "pi.usage {\"models\":{\"faux/faux-1\":" U "},\"tools\":{}}");
}

static void check_tool(const log *l)
{
    CHECK_COMMIT(
        l, 7,
        TASK12("\"state\":{\"status\":\"running\",\"checkpoint\":{\"phase\":\"call\"}}" STARTED));
    CHECK_COMMIT(
        l, 8,
        TASK12(
            "\"state\":{\"status\":\"running\",\"checkpoint\":{\"phase\":\"execute\",\"arguments\":"
            "{\"text\":\"world\"},\"replay\":\"unsafe\"}}" STARTED),
        "pi.live "
        "{\"run\":{\"taskId\":9,\"inputs\":[8]},\"tools\":[{\"callId\":\"c1\",\"name\":\"echo\","
        "\"taskId\":12,\"status\":\"running\"}]}");
    CHECK_COMMIT(
        l, 9,
        "pi.live "
        "{\"run\":{\"taskId\":9,\"inputs\":[8]},\"tools\":[{\"callId\":\"c1\",\"name\":\"echo\","
        "\"taskId\":12,\"status\":\"running\",\"output\":\"hello world\\n\"}]}");
    CHECK_COMMIT(
        l, 10,
        "entry {\"id\":13,\"conversationId\":1,\"kind\":\"pi.tool-result\",\"model\":[{\"role\":"
        "\"toolResult\",\"toolCallId\":\"c1\",\"toolName\":\"echo\",\"content\":[{\"type\":"
        "\"text\","
        "\"text\":\"hello world\\n\"}],\"isError\":false,\"timestamp\":1,\"details\":{\"n\":1},"
        "\"durationMs\":0}],\"data\":{\"diagnostics\":[]},\"byTaskId\":12}",
        TASK12(
            "\"state\":{\"status\":\"terminal\",\"outcome\":{\"status\":\"completed\",\"result\":"
            "{\"kind\":\"model\",\"entryId\":13}}}" ENDED),
        "pi.live "
        "{\"run\":{\"taskId\":9,\"inputs\":[8]},\"tools\":[{\"callId\":\"c1\",\"name\":\"echo\","
        "\"taskId\":12,\"status\":\"done\",\"entry\":13}]}");
}

static void check_second_turn(const log *l)
{
    CHECK_COMMIT(l, 11,
                 TASK9("\"state\":{\"status\":\"running\",\"checkpoint\":{\"phase\":\"tools\","
                       "\"assistant\":11,"
                       "\"tools\":[12],\"pending\":[]}}" STARTED));
    CHECK_COMMIT(
        l, 12,
        TASK14("\"state\":{\"status\":\"pending\",\"checkpoint\":{\"phase\":\"prepare\","
               "\"attempt\":1}}"),
        TASK9("\"state\":{\"status\":\"terminal\",\"outcome\":{\"status\":\"completed\",\"result\":"
              "{\"entryId\":11}}}" ENDED),
        "pi.live {\"run\":{\"taskId\":14,\"inputs\":[8]}}");
    CHECK_COMMIT(l, 13,
                 TASK14("\"state\":{\"status\":\"running\",\"checkpoint\":{\"phase\":\"prepare\","
                        "\"attempt\":1}}" STARTED));
    CHECK_COMMIT(l, 14,
                 TASK14("\"state\":{\"status\":\"running\",\"checkpoint\":{\"phase\":\"request\","
                        "\"attempt\":1," MODEL
                        ",\"thinkingLevel\":\"off\",\"streamOptions\":{},\"cutoff\":13}}" STARTED));
    CHECK_COMMIT(l, 15,
                 "pi.live {\"run\":{\"taskId\":14,\"inputs\":[8]},\"generation\":{\"attempt\":1}}");
    CHECK_COMMIT(
        l, 16,
        "entry "
        "{\"id\":15,\"conversationId\":1,\"kind\":\"pi.assistant\",\"model\":[{\"role\":"
        "\"assistant\","
        "\"content\":[{\"type\":\"text\",\"text\":\"Done.\"}],\"api\":\"faux\",\"provider\":"
        "\"faux\","
        "\"model\":\"faux-1\",\"usage\":" U
        ",\"stopReason\":\"stop\",\"timestamp\":1000}],\"byTaskId\":14}",
        "submission "
        "{\"conversationId\":1,\"requestId\":\"r1\",\"type\":\"input\",\"status\":\"done\","
        "\"entry\":7,\"id\":8,\"answer\":15}",
        TASK14(
            "\"state\":{\"status\":\"terminal\",\"outcome\":{\"status\":\"completed\",\"result\":"
            "{\"entryId\":15}}}" ENDED),
        "pi.live {}", "pi.usage {\"models\":{\"faux/faux-1\":" U2 "},\"tools\":{}}");
}

static void open_logged(world *w, log *l, tc_listener **ret_listener)
{
    static const tc_conversation_options root = {
        .size = sizeof root,
        .agent = {"{\"model\":{\"provider\":\"faux\",\"modelId\":\"faux-1\"}}", 48}};
    tc_durable *s;
    const tc_durable_options options = {.size = sizeof options, .durability = TC_DURABILITY_NORMAL};
    OK(tc_durable_open(tci_str(w->path), &options, &s, err));
    OK(tc_harness_open(s, &w->options, NULL, &w->h, err));
    OK(tc_durable_on_commit(s, on_commit, l, ret_listener, err));
    OK(tc_harness_root(w->h, NULL, &root, &w->root, err));
}

static void one_prompt_with_one_tool_call_is_stored_as_documented(void **state)
{
    world w;
    static log l;
    tc_listener *listener;
    const tc_user_input input = {
        .size = sizeof input, .text = TC_STR("Say hello"), .request_id = TC_STR("r1")};
    uint64_t id, again;
    (void)state;
    world_init(&w);
    world_limit_tools(&w, 1);
    w.settings.partial_interval_ms = 1000000; /* nothing streamed in between */
    open_logged(&w, &l, &listener);
    run_model_say(&w.model, run_call("c1", "echo", "{\"text\":\"world\"}"));
    run_model_say(&w.model, run_text("Done."));
    CHECK_COMMIT(&l, 1, "conversation {\"id\":1}", "pi.live {}", "pi.inbox {\"items\":[]}",
                 "pi.usage {\"models\":{},\"tools\":{}}", "pi.provider *", "pi.agent {" MODEL "}");
    OK(tc_conversation_submit(w.h, NULL, w.root, &input, &id, err));
    assert_int_equal(id, 8);
    assert_string_equal(world_answer(&w, id), "Done.");
    world_idle(&w);
    assert_int_equal(l.n, 16);
    check_first_turn(&l);
    check_tool(&l);
    check_second_turn(&l);
    /* The same request again is the same submission, and writes nothing. */
    OK(tc_conversation_submit(w.h, NULL, w.root, &input, &again, err));
    assert_int_equal(again, id);
    assert_int_equal(l.n, 16);
    tc_listener_remove(listener);
    for (size_t i = 0; i < l.n; i++)
        tci_buf_done(&l.commits[i]);
    world_done(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_prompt_with_one_tool_call_is_stored_as_documented),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
