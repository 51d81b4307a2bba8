/* SPDX-License-Identifier: Apache-2.0
 *
 * A coder and its reviewer: a second conversation with a model, tools and a directory of its own. The
 * coder has a tool that asks for a review; the first call makes the reviewer and writes down, in the same
 * commit, whose it is, so there is one for good: it remembers what it said before, also after a restart.
 * It may only read, and what it reads and thinks does not fill the coder's context.
 *
 *     tool_reviewer DAEMON SCRIPTS SESSION WORK-FOLDER REVIEW-FOLDER
 *
 * SCRIPTS has coder.json and reviewer.json. */
#include "tool_start.h"
#include <inttypes.h>

/* {"conversation":id}, of the coder's conversation. A fork gets a reviewer of its own. */
static const tc_doc_def reviewer_doc = {.size = sizeof(tc_doc_def),
                                        .kind = "demo.reviewer",
                                        .version = 1,
                                        .scope = TC_SCOPE_CONVERSATION,
                                        .fork = TC_FORK_INITIAL};

typedef struct studio {
    tool_world t;
    const char *scripts;
    tc_str review_folder;
} studio;

/* An agent, as a change of an empty one. tools empty: all that are installed. */
static void put_agent(tc_json_out *o, const studio *s, const char *name, tc_str folder,
                      tc_str tools)
{
    char script[500];
    snprintf(script, sizeof script, "%s/%s.json", s->scripts, name);
    tc_json_out_object(o);
    tc_json_out_key(o, TC_STR("model"));
    tc_json_out_object(o);
    tool_put(o, "provider", TC_STR("scripted"));
    tool_put(o, "modelId", text(script));
    tc_json_out_end(o);
    tool_put(o, "cwd", folder);
    tool_put(o, "instructions", text(name));
    if (tools.len > 0) {
        tc_json_out_key(o, TC_STR("tools"));
        tc_json_out_raw(o, tools);
    }
    tc_json_out_end(o);
}

/* ---- the coder's tool ---- */

/* *ret_id 0: it has no reviewer. */
static int find_reviewer(tc_harness *h, uint64_t coder, tc_result *r, uint64_t *ret_id, tc_err *err)
{
    const tc_doc_addr addr = {&reviewer_doc, coder, {NULL, 0}};
    const tc_json *v;
    tc_str json;
    *ret_id = 0;
    int rc = tc_durable_snapshot(tc_harness_session(h), &addr, r, &json, err);
    if (rc < 0 || json.len == 0)
        return rc;
    rc = tc_json_parse(r, json, &v, err);
    if (rc == 0)
        (void)tc_json_as_u64(tc_json_get(v, TC_STR("conversation")), ret_id); /* we wrote it */
    return rc;
}

/* In the commit that makes the reviewer: user is the coder. Two calls at once make one: the later one
 * is refused, and nothing of it happens. */
static int remember(void *user, tc_tx *tx, uint64_t conversation, tc_err *err)
{
    const uint64_t *coder = user;
    char id[24];
    tc_doc *doc;
    int rc = tc_tx_doc(tx, &reviewer_doc, *coder, TC_STR(""), TC_STR(""), &doc, err);
    if (rc < 0)
        return rc;
    if (!tc_doc_is_new(doc))
        return tc_err_set(err, TC_E_CONFLICT, "it has a reviewer");
    snprintf(id, sizeof id, "%" PRIu64, conversation);
    return tc_doc_set(doc, TC_STR("/conversation"), text(id), err);
}

static int need_reviewer(studio *s, tc_tool_api *api, tc_ctx *ctx, uint64_t *ret_id, tc_err *err)
{
    tc_harness *h = tc_tool_harness(api);
    tc_result *r = tc_tool_result_memory(api);
    uint64_t coder = tc_tool_conversation_id(api), made;
    tc_json_out *o;
    int rc = find_reviewer(h, coder, r, ret_id, err);
    if (rc < 0 || *ret_id != 0)
        return rc;
    tc_conversation_options options = {.size = sizeof options, .init = remember, .user = &coder};
    if (tc_json_out_new(&o, err) < 0)
        return err->code;
    put_agent(o, s, "reviewer", s->review_folder, TC_STR("[\"read\"]"));
    rc = tc_json_out_take(o, r, &options.agent, err);
    tc_json_out_free(o);
    if (rc == 0)
        rc = tc_conversation_create(h, ctx, &options, &made, err);
    if (rc == 0 || rc == TC_E_CONFLICT)
        rc = find_reviewer(h, coder, r, ret_id, err);
    return rc;
}

/* Ask, and give the answer back. Cut off and run again it asks nothing twice: the request has the name of
 * this call's task. */
static int request_review(void *user, tc_str arguments, tc_tool_api *api, tc_ctx *ctx,
                          tc_tool_result *ret_result, tc_err *err)
{
    tc_harness *h = tc_tool_harness(api);
    tc_result *r = tc_tool_result_memory(api);
    tc_call call = TC_CALL(ctx, r);
    const tc_json *v;
    tc_env *env;
    tc_str path = {NULL, 0}, entry, answer = {NULL, 0};
    tc_submission done;
    uint64_t reviewer, submission;
    char words[600], id[40];
    (void)ret_result;
    if (tc_json_parse(r, arguments, &v, err) < 0 || tc_tool_require_env(api, &env, err) < 0)
        return err->code;
    (void)tc_json_as_str(tc_json_get(v, TC_STR("path")), &path); /* the schema requires it */
    /* Where the coder stands is not where the reviewer does. */
    if (tc_env_absolute_path(env, path, r, &path, err) < 0 ||
        need_reviewer(user, api, ctx, &reviewer, err) < 0)
        return err->code;
    snprintf(words, sizeof words, "Please review %.*s", TC_STR_ARG(path));
    snprintf(id, sizeof id, "review-%" PRIu64, tc_tool_task_id(api));
    tc_user_input input = {.size = sizeof input, .text = text(words), .request_id = text(id)};
    if (tc_conversation_submit(h, ctx, reviewer, &input, &submission, err) < 0 ||
        tc_submission_wait(h, &call, submission, &done, err) < 0)
        return err->code;
    if (done.answer == 0)
        return tc_tool_fail(api, err, "no review: %.*s", TC_STR_ARG(done.reason));
    if (tc_durable_entry(tc_harness_session(h), 0, done.answer, r, &entry, err) < 0 ||
        tc_json_parse(r, entry, &v, err) < 0)
        return err->code;
    (void)tc_json_as_str(tc_json_find(v, "/model/0/content/0/text"), &answer);
    return tc_tool_output(api, answer, NULL, err);
}

/* ---- the program ---- */

static void print_heard(studio *s, const char *who, uint64_t conversation)
{
    tc_err err;
    tc_page page = {.order = TC_ORDER_ASCENDING, .limit = 100};
    tc_records entries;
    need(tc_durable_entries(tc_harness_session(s->t.w.harness), conversation, 0, 0, &page, s->t.w.r,
                            &entries, &err),
         &err, "entries");
    for (size_t i = 0; i < entries.count; i++) {
        const tc_json *v;
        tc_str tool, words;
        need(tc_json_parse(s->t.w.r, entries.items[i], &v, &err), &err, "entry");
        if (tc_json_as_str(tc_json_find(v, "/model/0/toolName"), &tool) &&
            tc_json_as_str(tc_json_find(v, "/model/0/content/0/text"), &words))
            printf("%s %.*s: %.*s\n", who, TC_STR_ARG(tool), TC_STR_ARG(words));
    }
}

/* How many models a conversation's answers came from (0: all conversations). */
static size_t count_models(studio *s, uint64_t conversation)
{
    tc_err err;
    tc_str usage;
    const tc_json *v;
    tc_call call = TC_CALL(NULL, s->t.w.r);
    need(tc_conversation_usage(s->t.w.harness, &call, conversation, &usage, &err), &err, "usage");
    need(tc_json_parse(s->t.w.r, usage, &v, &err), &err, "usage");
    return tc_json_count(tc_json_get(v, TC_STR("models")));
}

static void check_reviewer(studio *s, uint64_t reviewer)
{
    tc_err err;
    tc_str agent, tools, folder = {NULL, 0};
    const tc_json *v;
    tc_call call = TC_CALL(NULL, s->t.w.r);
    tc_records all;
    need(tc_conversation_agent(s->t.w.harness, &call, reviewer, &agent, &err), &err, "reviewer");
    need(tc_json_parse(s->t.w.r, agent, &v, &err), &err, "reviewer");
    need(tc_json_text(tc_json_get(v, TC_STR("tools")), s->t.w.r, &tools, &err), &err, "tools");
    (void)tc_json_as_str(tc_json_get(v, TC_STR("cwd")), &folder);
    agent_check(agent_is(tools, "[\"read\"]"), "the reviewer may read and no more");
    agent_check(folder.len == s->review_folder.len &&
                    memcmp(folder.ptr, s->review_folder.ptr, folder.len) == 0,
                "it has a folder of its own");
    agent_check(count_models(s, s->t.w.root) == 1 && count_models(s, reviewer) == 1 &&
                    count_models(s, 0) == 2,
                "each has its own model");
    need(tc_durable_conversations(tc_harness_session(s->t.w.harness), 0, 0, NULL, s->t.w.r, &all,
                                  &err),
         &err, "conversations");
    agent_check(all.count == 2, "there is one reviewer");
}

static void open_studio(studio *s, const char *session, const tc_extension *extension,
                        tc_str work_folder)
{
    tc_err err;
    tc_json_out *o;
    tc_conversation_options root = {.size = sizeof root};
    tool_start(&s->t, session, extension, NULL);
    need(tc_json_out_new(&o, &err), &err, "agent");
    put_agent(o, s, "coder", work_folder, (tc_str){NULL, 0});
    need(tc_json_out_take(o, s->t.w.r, &root.agent, &err), &err, "agent");
    tc_json_out_free(o);
    need(tc_harness_root(s->t.w.harness, NULL, &root, &s->t.w.root, &err), &err, "root");
}

int main(int argc, char **argv)
{
    studio s = {0};
    tc_err err;
    uint64_t reviewer;
    if (argc != 6) {
        fprintf(stderr, "usage: tool_reviewer DAEMON SCRIPTS SESSION WORK-FOLDER REVIEW-FOLDER\n");
        return 2;
    }
    s.t.daemon = text(argv[1]);
    s.scripts = argv[2];
    s.review_folder = text(argv[5]);
    const tc_tool review = {.size = sizeof review,
                            .name = TC_STR("request_review"),
                            .description = TC_STR("Have a file reviewed."),
                            .parameters =
                                TC_STR("{\"type\":\"object\",\"properties\":{\"path\":{\"type\":"
                                       "\"string\"}},\"required\":[\"path\"]}"),
                            .execute = request_review,
                            .user = &s,
                            .replay = TC_REPLAY_SAFE};
    const tc_tool *const tools[] = {&review};
    const tc_extension extension = {
        .size = sizeof extension, .name = TC_STR("review"), .tools = tools, .ntools = 1};
    open_studio(&s, argv[3], &extension, text(argv[4]));
    agent_answer(&s.t.w, "coder",
                 agent_submit(&s.t.w, s.t.w.root, "Say hello.", TC_WHEN_BUSY_FOLLOW_UP));
    tool_stop(&s.t);

    open_studio(&s, argv[3], &extension, text(argv[4]));
    agent_answer(&s.t.w, "coder",
                 agent_submit(&s.t.w, s.t.w.root, "Sure?", TC_WHEN_BUSY_FOLLOW_UP));
    need(find_reviewer(s.t.w.harness, s.t.w.root, s.t.w.r, &reviewer, &err), &err, "reviewer");
    check_reviewer(&s, reviewer);
    print_heard(&s, "coder", s.t.w.root);
    print_heard(&s, "reviewer", reviewer);
    tool_stop(&s.t);
    return 0;
}
