/* SPDX-License-Identifier: Apache-2.0
 *
 * The coding tools in one run: a model (here a script) writes a file, edits it, runs it and answers, and
 * all of it is in a session of JSON lines that can be looked at afterwards.
 *
 *     tool_coding DAEMON SCRIPT FOLDER SESSION */
#include <stdio.h>
#include <string.h>
#include <telechir/agent.h>
#include <telechir/harness.h>
#include <telechir/model.h>
#include <telechir/tool.h>

typedef struct app {
    tc_runtime *rt;
    tc_str daemon, folder;
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

/* Asked for every call: here always the same folder of this machine. */
static int env(void *user, const tc_env_target *target, tc_ctx *ctx, tc_env **ret_env, tc_err *err)
{
    app *a = user;
    tc_env_options options = {.size = sizeof options,
                              .environment_id = TC_STR("example"),
                              .working_directory = target->cwd.len > 0 ? target->cwd : a->folder};
    tc_local_pi_options local = {.size = sizeof local, .executable = a->daemon, .is_lazy = true};
    (void)ctx;
    return tc_env_create_local_pi(a->rt, &options, &local, ret_env, err);
}

static void release_env(void *user, tc_env *e)
{
    (void)user;
    tc_env_release(e);
}

static int open_all(app *a, const char *session)
{
    tc_durable *durable;
    if (tc_runtime_open(NULL, &a->rt, &a->err) < 0 || tc_result_new(&a->r, &a->err) < 0 ||
        tc_models_open(NULL, &a->models, &a->err) < 0 ||
        tc_registry_new(&a->registry, &a->err) < 0 ||
        tc_coding_tools_new(NULL, NULL, &a->coding, &a->err) < 0 ||
        tc_registry_install(a->registry, a->coding, &a->err) < 0 ||
        tc_durable_open(text(session), NULL, &durable, &a->err) < 0)
        return a->err.code;
    tc_harness_options options = {.size = sizeof options,
                                  .registry = a->registry,
                                  .models = a->models,
                                  .env = env,
                                  .env_release = release_env,
                                  .user = a};
    return tc_harness_open(durable, &options, NULL, &a->harness, &a->err);
}

static void close_all(app *a)
{
    tc_harness_free(a->harness);
    tc_registry_free(a->registry);
    tc_tools_free(a->coding);
    tc_models_close(a->models);
    tc_result_free(a->r);
    tc_runtime_close(a->rt);
}

static void show_entry(app *a, tc_str entry)
{
    const tc_json *v;
    tc_str kind = {0}, name = {0}, said = {0};
    if (tc_json_parse(a->r, entry, &v, &a->err) < 0)
        return;
    (void)tc_json_as_str(tc_json_get(v, TC_STR("kind")), &kind);
    (void)tc_json_as_str(tc_json_find(v, "/model/0/toolName"), &name);
    (void)tc_json_as_str(tc_json_find(v, "/model/0/content/0/text"), &said);
    printf("%.*s %.*s: %.*s\n", TC_STR_ARG(kind), TC_STR_ARG(name), TC_STR_ARG(said));
}

static int run(app *a, const char *script)
{
    tc_conversation_options root = {.size = sizeof root};
    tc_user_input input = {.size = sizeof input, .text = TC_STR("make it say hello")};
    tc_call call = TC_CALL(NULL, a->r);
    tc_page all = {.order = TC_ORDER_ASCENDING, .limit = 100};
    tc_records entries;
    tc_submission done;
    uint64_t conversation, submission;
    char agent[512];
    snprintf(agent, sizeof agent, "{\"model\":{\"provider\":\"scripted\",\"modelId\":\"%s\"}}",
             script);
    root.agent = text(agent);
    if (tc_harness_root(a->harness, NULL, &root, &conversation, &a->err) < 0 ||
        tc_conversation_submit(a->harness, NULL, conversation, &input, &submission, &a->err) < 0 ||
        tc_submission_wait(a->harness, &call, submission, &done, &a->err) < 0 ||
        tc_durable_entries(tc_harness_session(a->harness), conversation, 0, 0, &all, a->r, &entries,
                           &a->err) < 0)
        return a->err.code;
    for (size_t i = 0; i < entries.count; i++)
        show_entry(a, entries.items[i]);
    return 0;
}

int main(int argc, char **argv)
{
    app a = {0};
    if (argc != 5) {
        fprintf(stderr, "usage: tool_coding DAEMON SCRIPT FOLDER SESSION\n");
        return 2;
    }
    a.daemon = text(argv[1]);
    a.folder = text(argv[3]);
    int rc = open_all(&a, argv[4]);
    if (rc == 0)
        rc = run(&a, argv[2]);
    if (rc < 0)
        fprintf(stderr, "tool_coding: %s\n", a.err.msg);
    close_all(&a);
    return rc < 0 ? tc_code_exit_status(rc) : 0;
}
