/* SPDX-License-Identifier: Apache-2.0
 *
 * Plan mode as an extension: while a conversation plans, its agent may look and propose but change
 * nothing. The mode and the plan are a document of the extension's own, which its hook, its prompt
 * section and its tools read. So it is per conversation, survives a restart, and a fork gets the plan as
 * it was at that point; the harness itself knows nothing of plans.
 *
 *     agent_plan SCRIPT SESSION */
#include "agent_start.h"
#include <inttypes.h>
#include <telechir/tool.h>

/* {"mode":"plan"|"work","steps":[{"what":...,"done":bool}]} */
static const tc_doc_def plan_doc = {.size = sizeof(tc_doc_def),
                                    .kind = "demo.plan",
                                    .version = 1,
                                    .scope = TC_SCOPE_CONVERSATION,
                                    .history = TC_HISTORY_REWINDABLE,
                                    .fork = TC_FORK_AS_OF,
                                    .initial_json = "{\"mode\":\"work\",\"steps\":[]}"};

/* The committed plan of a conversation; *ret_plan NULL: it has none. */
static int read_plan(tc_harness *h, uint64_t conversation, tc_result *r, const tc_json **ret_plan,
                     tc_err *err)
{
    const tc_doc_addr addr = {&plan_doc, conversation, {NULL, 0}};
    tc_str json;
    *ret_plan = NULL;
    int rc = tc_durable_snapshot(tc_harness_session(h), &addr, r, &json, err);
    return rc < 0 || json.len == 0 ? rc : tc_json_parse(r, json, ret_plan, err);
}

static bool is_planning(const tc_json *plan)
{
    tc_str mode;
    return tc_json_as_str(tc_json_get(plan, TC_STR("mode")), &mode) && agent_is(mode, "plan");
}

/* ---- the extension ---- */

/* Which tools are free while planning: all others wait for the plan's approval. */
static const char *const free_tools[] = {"look", "propose_plan"};

static int guard(void *user, tc_hook *hook, tc_str call, tc_result *r,
                 tc_tool_decision *ret_decision, tc_err *err)
{
    const tc_json *v, *plan;
    tc_str name = {NULL, 0};
    (void)user;
    if (read_plan(tc_hook_harness(hook), tc_hook_conversation(hook), r, &plan, err) < 0 ||
        tc_json_parse(r, call, &v, err) < 0)
        return err->code;
    (void)tc_json_as_str(tc_json_get(v, TC_STR("name")), &name); /* a call has one */
    for (size_t i = 0; i < sizeof free_tools / sizeof free_tools[0]; i++)
        if (agent_is(name, free_tools[i]))
            return 0;
    if (is_planning(plan))
        ret_decision->block = TC_STR("nothing is changed before the plan is approved");
    return 0;
}

/* What the model is told: patched in its prompt whenever the document changed. */
static int render_plan(void *user, const tc_prompt *prompt, tc_result *r, tc_str *ret_text,
                       tc_err *err)
{
    const tc_json *plan, *steps;
    char lines[600];
    (void)user;
    if (read_plan(tc_hook_harness(prompt->hook), prompt->conversation, r, &plan, err) < 0)
        return err->code;
    steps = tc_json_get(plan, TC_STR("steps"));
    if (!is_planning(plan) && tc_json_count(steps) == 0)
        return 0; /* not there */
    size_t len = (size_t)snprintf(lines, sizeof lines, "%s",
                                  is_planning(plan) ? "Plan, change nothing." : "Follow the plan.");
    for (size_t i = 0; i < tc_json_count(steps) && len < 500; i++) {
        tc_str what = {NULL, 0};
        bool is_done = false;
        (void)tc_json_as_str(tc_json_get(tc_json_item(steps, i), TC_STR("what")), &what);
        (void)tc_json_as_bool(tc_json_get(tc_json_item(steps, i), TC_STR("done")), &is_done);
        len += (size_t)snprintf(lines + len, sizeof lines - len, " [%s] %.*s.", is_done ? "x" : " ",
                                what.len < 60 ? (int)what.len : 60, what.ptr);
    }
    return tc_result_dup(r, text(lines), ret_text, err);
}

typedef struct plan_change {
    tc_tool_api *api;
    const tc_json *arguments;
} plan_change;

static int put_steps(void *user, tc_tx *tx, tc_err *err)
{
    const plan_change *c = user;
    const tc_json *steps = tc_json_get(c->arguments, TC_STR("steps"));
    tc_result *r = tc_tool_result_memory(c->api);
    tc_json_out *o;
    tc_str json, what;
    tc_doc *doc;
    if (tc_json_out_new(&o, err) < 0)
        return err->code;
    tc_json_out_array(o);
    for (size_t i = 0; i < tc_json_count(steps); i++) {
        if (!tc_json_as_str(tc_json_item(steps, i), &what))
            continue; /* the schema says strings */
        tc_json_out_object(o);
        tc_json_out_key(o, TC_STR("what"));
        tc_json_out_str(o, what);
        tc_json_out_key(o, TC_STR("done"));
        tc_json_out_bool(o, false);
        tc_json_out_end(o);
    }
    tc_json_out_end(o);
    int rc = tc_json_out_take(o, r, &json, err);
    tc_json_out_free(o);
    if (rc == 0)
        rc = tc_tx_doc(tx, &plan_doc, tc_tool_conversation_id(c->api), TC_STR(""), TC_STR(""), &doc,
                       err);
    return rc < 0 ? rc : tc_doc_set(doc, TC_STR("/steps"), json, err);
}

/* INVALID when the plan has no such step. */
static int tick(void *user, tc_tx *tx, tc_err *err)
{
    const plan_change *c = user;
    uint64_t step = 0;
    char at[60];
    tc_doc *doc;
    (void)tc_json_as_u64(tc_json_get(c->arguments, TC_STR("step")), &step); /* the schema says so */
    snprintf(at, sizeof at, "/steps/%" PRIu64 "/done", step - 1);
    int rc = tc_tx_doc(tx, &plan_doc, tc_tool_conversation_id(c->api), TC_STR(""), TC_STR(""), &doc,
                       err);
    return rc < 0 ? rc : tc_doc_set(doc, text(at), TC_STR("true"), err);
}

/* Both tools that write the plan do so in one commit. */
static int change_plan(tc_tool_change change, tc_str arguments, tc_tool_api *api, tc_ctx *ctx,
                       tc_err *err)
{
    plan_change c = {.api = api};
    int rc = tc_json_parse(tc_tool_result_memory(api), arguments, &c.arguments, err);
    if (rc == 0)
        rc = tc_tool_commit(api, ctx, change, &c, err);
    return rc < 0 ? rc : tc_tool_output(api, TC_STR("noted"), NULL, err);
}

static int propose_plan(void *user, tc_str arguments, tc_tool_api *api, tc_ctx *ctx,
                        tc_tool_result *ret_result, tc_err *err)
{
    (void)user;
    (void)ret_result;
    return change_plan(put_steps, arguments, api, ctx, err);
}

static int tick_step(void *user, tc_str arguments, tc_tool_api *api, tc_ctx *ctx,
                     tc_tool_result *ret_result, tc_err *err)
{
    (void)user;
    (void)ret_result;
    return change_plan(tick, arguments, api, ctx, err);
}

static const char steps_schema[] =
    "{\"type\":\"object\",\"properties\":{\"steps\":{\"type\":\"array\",\"items\":{\"type\":"
    "\"string\"}}},\"required\":[\"steps\"]}";
static const char step_schema[] =
    "{\"type\":\"object\",\"properties\":{\"step\":{\"type\":\"integer\",\"minimum\":1}},"
    "\"required\":[\"step\"]}";
static const tc_tool propose = {.size = sizeof(tc_tool),
                                .name = {"propose_plan", 12},
                                .parameters = {steps_schema, sizeof steps_schema - 1},
                                .execute = propose_plan,
                                .replay = TC_REPLAY_SAFE};
static const tc_tool done = {.size = sizeof(tc_tool),
                             .name = {"tick_step", 9},
                             .parameters = {step_schema, sizeof step_schema - 1},
                             .execute = tick_step,
                             .replay = TC_REPLAY_SAFE};
static const tc_tool *const plan_tools[] = {&propose, &done};
static const tc_section plan_sections[] = {{.key = {"plan", 4}, .render = render_plan}};
static const tc_hooks plan_hooks = {.size = sizeof(tc_hooks), .before_tool = guard};

/* ---- the tools it watches over: they are of another extension ---- */

static int look(void *user, tc_str arguments, tc_tool_api *api, tc_ctx *ctx,
                tc_tool_result *ret_result, tc_err *err)
{
    const int *ncoats = user;
    (void)arguments;
    (void)ctx;
    (void)ret_result;
    return tc_tool_output(api, *ncoats == 0 ? TC_STR("a grey house") : TC_STR("a red house"), NULL,
                          err);
}

static int paint(void *user, tc_str arguments, tc_tool_api *api, tc_ctx *ctx,
                 tc_tool_result *ret_result, tc_err *err)
{
    int *ncoats = user;
    (void)arguments;
    (void)ctx;
    (void)ret_result;
    *ncoats += 1;
    return tc_tool_output(api, TC_STR("painted"), NULL, err);
}

/* ---- the program ---- */

/* What a person does: "/plan", and later "approved". One commit, whether the agent is busy or not. */
static void set_mode(agent_world *w, uint64_t conversation, const char *json)
{
    tc_err err;
    tc_tx *tx;
    tc_doc *doc;
    need(tc_durable_begin(tc_harness_session(w->harness), NULL, &tx, &err), &err, "begin");
    need(tc_tx_doc(tx, &plan_doc, conversation, TC_STR(""), TC_STR(""), &doc, &err), &err, "plan");
    need(tc_doc_set(doc, TC_STR("/mode"), text(json), &err), &err, "mode");
    need(tc_tx_commit(tx, &err), &err, "commit");
}

static void print_plan(agent_world *w, const char *who, uint64_t conversation)
{
    tc_err err;
    const tc_json *plan;
    tc_str json;
    need(read_plan(w->harness, conversation, w->r, &plan, &err), &err, "plan");
    need(tc_json_text(plan, w->r, &json, &err), &err, "plan");
    printf("%s %.*s\n", who, TC_STR_ARG(json));
}

/* What the agent heard about its plan, and from its tools. */
static void print_told(agent_world *w, uint64_t conversation)
{
    tc_err err;
    tc_page page = {.order = TC_ORDER_ASCENDING, .limit = 100};
    tc_records entries;
    need(tc_durable_entries(tc_harness_session(w->harness), conversation, 0, 0, &page, w->r,
                            &entries, &err),
         &err, "entries");
    for (size_t i = 0; i < entries.count; i++) {
        const tc_json *v;
        tc_str words;
        need(tc_json_parse(w->r, entries.items[i], &v, &err), &err, "entry");
        if (tc_json_as_str(tc_json_find(v, "/model/0/sections/plan"), &words) ||
            (tc_json_find(v, "/model/0/toolName") != NULL &&
             tc_json_as_str(tc_json_find(v, "/model/0/content/0/text"), &words)))
            printf("told: %.*s\n", TC_STR_ARG(words));
    }
}

int main(int argc, char **argv)
{
    int ncoats = 0;
    const tc_tool see = {
        .size = sizeof see, .name = TC_STR("look"), .execute = look, .user = &ncoats};
    const tc_tool brush = {
        .size = sizeof brush, .name = TC_STR("paint"), .execute = paint, .user = &ncoats};
    const tc_tool *const tools[] = {&see, &brush};
    const tc_extension house = {
        .size = sizeof house, .name = TC_STR("house"), .tools = tools, .ntools = 2};
    const tc_extension plan_mode = {.size = sizeof plan_mode,
                                    .name = TC_STR("plan-mode"),
                                    .tools = plan_tools,
                                    .ntools = 2,
                                    .sections = plan_sections,
                                    .nsections = 1,
                                    .hooks = &plan_hooks};
    agent_world w;
    tc_err err;
    tc_submission s;
    uint64_t question, planned, fork;
    if (argc != 3) {
        fprintf(stderr, "usage: agent_plan SCRIPT SESSION\n");
        return 2;
    }
    agent_start(&w, argv[1], argv[2], &house);
    need(tc_registry_install(w.registry, &plan_mode, &err), &err, "plan mode");
    set_mode(&w, w.root, "\"plan\"");
    question = agent_submit(&w, w.root, "Make the house red.", TC_WHEN_BUSY_FOLLOW_UP);
    agent_answer(&w, "agent", question);
    agent_check(ncoats == 0, "nothing was changed while planning");
    tc_call call = TC_CALL(NULL, w.r);
    need(tc_submission_get(w.harness, &call, question, &s, &err), &err, "question");
    planned = s.answer;
    agent_stop(&w);

    /* The mode is in the session: a restart does not let the brush go. */
    agent_start(&w, argv[1], argv[2], &house);
    need(tc_registry_install(w.registry, &plan_mode, &err), &err, "plan mode");
    print_plan(&w, "proposed", w.root);
    set_mode(&w, w.root, "\"work\"");
    agent_answer(&w, "agent", agent_submit(&w, w.root, "Approved.", TC_WHEN_BUSY_FOLLOW_UP));
    agent_check(ncoats == 1, "an approved plan is carried out");
    print_plan(&w, "carried out", w.root);
    print_told(&w, w.root);

    /* From there on again: the fork still plans, whatever was approved here. */
    need(tc_conversation_fork(w.harness, NULL, w.root, planned, NULL, &fork, &err), &err, "fork");
    print_plan(&w, "forked", fork);
    agent_answer(&w, "fork", agent_submit(&w, fork, "Go on.", TC_WHEN_BUSY_FOLLOW_UP));
    agent_check(ncoats == 1, "the fork is not free to change anything");
    agent_stop(&w);
    return 0;
}
