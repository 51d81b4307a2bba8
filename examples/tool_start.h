/* SPDX-License-Identifier: Apache-2.0
 *
 * What the examples of coding agents share besides agent_start.h: the coding tools, and an environment
 * on this machine that follows the working directory of the conversation that asks. */
#ifndef TOOL_START_H
#define TOOL_START_H

#include "agent_start.h"
#include <telechir/env.h>
#include <telechir/tool.h>

typedef struct tool_world {
    agent_world w; /* first: agent_submit, agent_answer take it */
    tc_runtime *rt;
    tc_str daemon, folder;
    tc_extension *coding;
} tool_world;

/* Asked for by every call, and before every request for the prompt: so a change of cwd holds from the
 * next one on. Making one costs nothing: those of one runtime share a daemon. */
static inline int tool_env(void *user, const tc_env_target *target, tc_ctx *ctx, tc_env **ret_env,
                           tc_err *err)
{
    tool_world *t = user;
    tc_env_options options = {.size = sizeof options,
                              .environment_id = TC_STR("here"),
                              .working_directory = target->cwd.len > 0 ? target->cwd : t->folder};
    tc_local_pi_options local = {.size = sizeof local, .executable = t->daemon, .is_lazy = true};
    (void)ctx;
    return tc_env_create_local_pi(t->rt, &options, &local, ret_env, err);
}

static inline void tool_env_release(void *user, tc_env *env)
{
    (void)user;
    tc_env_release(env);
}

/* The registry has the coding tools and extension. get_settings may be NULL; it gets the world. */
static inline void tool_start(tool_world *t, const char *session, const tc_extension *extension,
                              int (*get_settings)(void *user, tc_result *r, tc_settings *settings,
                                                  tc_err *err))
{
    tc_err err;
    tc_durable *durable;
    need(tc_runtime_open(NULL, &t->rt, &err), &err, "runtime");
    need(tc_result_new(&t->w.r, &err), &err, "result");
    need(tc_models_open(NULL, &t->w.models, &err), &err, "models");
    need(tc_registry_new(&t->w.registry, &err), &err, "registry");
    need(tc_coding_tools_new(NULL, NULL, &t->coding, &err), &err, "coding tools");
    need(tc_registry_install(t->w.registry, t->coding, &err), &err, "coding tools");
    need(tc_registry_install(t->w.registry, extension, &err), &err, "extension");
    need(tc_durable_open(text(session), NULL, &durable, &err), &err, "session");
    tc_harness_options options = {.size = sizeof options,
                                  .registry = t->w.registry,
                                  .models = t->w.models,
                                  .get_settings = get_settings,
                                  .env = tool_env,
                                  .env_release = tool_env_release,
                                  .user = t};
    need(tc_harness_open(durable, &options, NULL, &t->w.harness, &err), &err, "harness");
}

static inline void tool_stop(tool_world *t)
{
    agent_stop(&t->w);
    tc_tools_free(t->coding);
    tc_runtime_close(t->rt);
}

/* Put a value and its name into an object being written. */
static inline void tool_put(tc_json_out *o, const char *name, tc_str value)
{
    tc_json_out_key(o, text(name));
    tc_json_out_str(o, value);
}

#endif
