/* SPDX-License-Identifier: Apache-2.0
 *
 * A sandbox for each conversation: which folder (in a product: which container or machine) a conversation
 * works in is a document of its own, written in the commit that creates it. The environment is asked for
 * by every call, so opening the session again needs nothing more; a conversation without a sandbox has no
 * environment, and its tools fail without touching anything.
 *
 *     tool_sandbox DAEMON SCRIPT SESSION FOLDER FOLDER */
#include <stdio.h>
#include <string.h>
#include <telechir/agent.h>
#include <telechir/harness.h>
#include <telechir/model.h>
#include <telechir/tool.h>

/* A fork has no sandbox until it is given one of its own. */
static const tc_doc_def sandbox_doc = {.size = sizeof(tc_doc_def),
                                       .kind = "app.sandbox",
                                       .version = 1,
                                       .scope = TC_SCOPE_CONVERSATION,
                                       .history = TC_HISTORY_LATEST,
                                       .fork = TC_FORK_INITIAL};

typedef struct app {
    tc_runtime *rt;
    tc_str daemon;
    tc_models *models;
    struct tc_extension *coding;
    tc_registry *registry;
    tc_harness *harness;
    tc_result *r;
    tc_err err;
} app;

static tc_str text(const char *cstr)
{
    tc_str s = {cstr, strlen(cstr)};
    return s;
}

static int env_at(app *a, tc_str path, tc_env **ret_env, tc_err *err)
{
    tc_env_options options = {
        .size = sizeof options, .environment_id = TC_STR("sandbox"), .working_directory = path};
    tc_local_pi_options local = {.size = sizeof local, .executable = a->daemon, .is_lazy = true};
    return tc_env_create_local_pi(a->rt, &options, &local, ret_env, err);
}

static int env(void *user, const tc_env_target *target, tc_ctx *ctx, tc_env **ret_env, tc_err *err)
{
    app *a = user;
    tc_doc_addr addr = {&sandbox_doc, target->conversation_id, {NULL, 0}};
    tc_result *r;
    tc_str value, path;
    const tc_json *v = NULL;
    (void)ctx;
    *ret_env = NULL;
    int rc = tc_result_new(&r, err);
    if (rc < 0)
        return rc;
    rc = tc_durable_snapshot(tc_harness_session(target->harness), &addr, r, &value, err);
    if (rc == 0 && value.len > 0)
        rc = tc_json_parse(r, value, &v, err);
    if (rc == 0 && tc_json_as_str(tc_json_get(v, TC_STR("path")), &path))
        rc = env_at(a, path, ret_env, err);
    tc_result_free(r);
    return rc;
}

static void release_env(void *user, tc_env *e)
{
    (void)user;
    tc_env_release(e);
}

/* In the commit that creates the conversation. */
static int give_sandbox(void *user, tc_tx *tx, uint64_t conversation, tc_err *err)
{
    const char *path = user;
    tc_doc *doc;
    char json[1024];
    int rc =
        tc_tx_doc(tx, &sandbox_doc, conversation, (tc_str){NULL, 0}, (tc_str){NULL, 0}, &doc, err);
    if (rc < 0 || path == NULL)
        return rc;
    snprintf(json, sizeof json, "\"%s\"", path); /* the caller gave a plain path */
    return tc_doc_set(doc, TC_STR("/path"), text(json), err);
}

static int open_harness(app *a, const char *session)
{
    tc_durable *durable;
    tc_harness_options options = {.size = sizeof options,
                                  .registry = a->registry,
                                  .models = a->models,
                                  .env = env,
                                  .env_release = release_env,
                                  .user = a};
    if (tc_durable_open(text(session), NULL, &durable, &a->err) < 0)
        return a->err.code;
    return tc_harness_open(durable, &options, NULL, &a->harness, &a->err);
}

static int prepare(app *a)
{
    if (tc_runtime_open(NULL, &a->rt, &a->err) < 0 || tc_result_new(&a->r, &a->err) < 0 ||
        tc_models_open(NULL, &a->models, &a->err) < 0 ||
        tc_registry_new(&a->registry, &a->err) < 0 ||
        tc_coding_tools_new(NULL, NULL, &a->coding, &a->err) < 0)
        return a->err.code;
    return tc_registry_install(a->registry, a->coding, &a->err);
}

static int create(app *a, const char *script, char *path, uint64_t *ret_id)
{
    char agent[512];
    snprintf(agent, sizeof agent, "{\"model\":{\"provider\":\"scripted\",\"modelId\":\"%s\"}}",
             script);
    tc_conversation_options options = {
        .size = sizeof options, .agent = text(agent), .init = give_sandbox, .user = path};
    return tc_conversation_create(a->harness, NULL, &options, ret_id, &a->err);
}

/* Ask, and print what the tool said. */
static int ask(app *a, const char *who, uint64_t conversation)
{
    tc_user_input input = {.size = sizeof input, .text = TC_STR("leave a note")};
    tc_call call = TC_CALL(NULL, a->r);
    tc_page newest = {.limit = 4};
    tc_records entries;
    tc_submission done;
    uint64_t submission;
    if (tc_conversation_submit(a->harness, NULL, conversation, &input, &submission, &a->err) < 0 ||
        tc_submission_wait(a->harness, &call, submission, &done, &a->err) < 0 ||
        tc_durable_entries(tc_harness_session(a->harness), conversation, 0, 0, &newest, a->r,
                           &entries, &a->err) < 0)
        return a->err.code;
    for (size_t i = 0; i < entries.count; i++) {
        const tc_json *v;
        tc_str role = {0}, said = {0};
        if (tc_json_parse(a->r, entries.items[i], &v, &a->err) < 0)
            return a->err.code;
        (void)tc_json_as_str(tc_json_find(v, "/model/0/role"), &role);
        (void)tc_json_as_str(tc_json_find(v, "/model/0/content/0/text"), &said);
        if (role.len == 10 && memcmp(role.ptr, "toolResult", 10) == 0) {
            printf("%s: %.*s\n", who, TC_STR_ARG(said));
            break;
        }
    }
    return 0;
}

int main(int argc, char **argv)
{
    app a = {0};
    uint64_t first, second, third;
    if (argc != 6) {
        fprintf(stderr, "usage: tool_sandbox DAEMON SCRIPT SESSION FOLDER FOLDER\n");
        return 2;
    }
    a.daemon = text(argv[1]);
    int rc = prepare(&a);
    if (rc == 0)
        rc = open_harness(&a, argv[3]);
    if (rc == 0)
        rc = create(&a, argv[2], argv[4], &first);
    if (rc == 0)
        rc = create(&a, argv[2], argv[5], &second);
    if (rc == 0)
        rc = create(&a, argv[2], NULL, &third);
    if (rc == 0)
        rc = ask(&a, "first", first);
    /* The mapping is in the session, not in this program. */
    if (rc == 0) {
        tc_harness_free(a.harness);
        a.harness = NULL;
        rc = open_harness(&a, argv[3]);
    }
    if (rc == 0)
        rc = ask(&a, "second", second);
    if (rc == 0)
        rc = ask(&a, "third", third);
    if (rc < 0)
        fprintf(stderr, "tool_sandbox: %s\n", a.err.msg);
    tc_harness_free(a.harness);
    tc_registry_free(a.registry);
    tc_tools_free(a.coding);
    tc_models_close(a.models);
    tc_result_free(a.r);
    tc_runtime_close(a.rt);
    return rc < 0 ? tc_code_exit_status(rc) : 0;
}
