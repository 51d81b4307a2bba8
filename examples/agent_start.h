/* SPDX-License-Identifier: Apache-2.0
 *
 * What the agent examples share: a session, a model that plays a script, and how to say something and
 * print the answer. */
#ifndef AGENT_START_H
#define AGENT_START_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <telechir/agent.h>
#include <telechir/harness.h>
#include <telechir/model.h>

typedef struct agent_world {
    tc_result *r;
    tc_models *models;
    tc_registry *registry;
    tc_settings settings;
    tc_harness *harness;
    uint64_t root;
    char model[600]; /* a change of an agent that chooses the script as its model */
} agent_world;

static inline tc_str text(const char *cstr)
{
    tc_str s = {cstr, strlen(cstr)};
    return s;
}

/* Stop here, and say why, when rc is an error. */
static inline void need(int rc, const tc_err *err, const char *what)
{
    if (rc >= 0)
        return;
    fprintf(stderr, "%s: %s\n", what, err->msg);
    exit(tc_code_exit_status(err->code));
}

/* Stop here when something is not as the example says it is. */
static inline void agent_check(bool is_so, const char *what)
{
    if (is_so)
        return;
    fprintf(stderr, "not so: %s\n", what);
    exit(1);
}

static inline bool agent_is(tc_str s, const char *words)
{
    return s.len == strlen(words) && (s.len == 0 || memcmp(s.ptr, words, s.len) == 0);
}

/* models and extension may be NULL. */
static inline void agent_start_with(agent_world *w, const char *provider, const char *model,
                                    const tc_models_options *models, const char *session,
                                    const tc_extension *extension)
{
    tc_err err;
    tc_durable *durable;
    int len = snprintf(w->model, sizeof w->model,
                       "{\"model\":{\"provider\":\"%s\",\"modelId\":\"%s\"}}", provider, model);
    agent_check(len > 0 && (size_t)len < sizeof w->model, "the name of the model is short");
    tc_settings_init(&w->settings);
    need(tc_result_new(&w->r, &err), &err, "result");
    need(tc_models_open(models, &w->models, &err), &err, "models");
    need(tc_registry_new(&w->registry, &err), &err, "registry");
    if (extension != NULL)
        need(tc_registry_install(w->registry, extension, &err), &err, "extension");
    need(tc_durable_open(text(session), NULL, &durable, &err), &err, "session");
    tc_harness_options options = {.size = sizeof options,
                                  .registry = w->registry,
                                  .models = w->models,
                                  .settings = &w->settings};
    need(tc_harness_open(durable, &options, NULL, &w->harness, &err), &err, "harness");
    tc_conversation_options root = {.size = sizeof root, .agent = text(w->model)};
    need(tc_harness_root(w->harness, NULL, &root, &w->root, &err), &err, "root");
}

static inline void agent_start(agent_world *w, const char *script, const char *session,
                               const tc_extension *extension)
{
    agent_start_with(w, "scripted", script, NULL, session, extension);
}

static inline uint64_t agent_submit(agent_world *w, uint64_t conversation, const char *words,
                                    tc_when_busy when)
{
    tc_err err;
    uint64_t id;
    tc_user_input input = {.size = sizeof input, .text = text(words), .when_busy = when};
    need(tc_conversation_submit(w->harness, NULL, conversation, &input, &id, &err), &err, words);
    return id;
}

/* Wait for the answer and print it: "WHO: ANSWER", or "WHO: (REASON)". */
static inline void agent_answer(agent_world *w, const char *who, uint64_t submission)
{
    tc_err err;
    tc_submission s;
    tc_str entry, answer = {NULL, 0};
    const tc_json *v;
    tc_call call = TC_CALL(NULL, w->r);
    need(tc_submission_wait(w->harness, &call, submission, &s, &err), &err, "wait");
    if (s.answer == 0) {
        printf("%s: (%.*s)\n", who, TC_STR_ARG(s.reason));
        return;
    }
    need(tc_durable_entry(tc_harness_session(w->harness), 0, s.answer, w->r, &entry, &err), &err,
         "entry");
    need(tc_json_parse(w->r, entry, &v, &err), &err, "entry");
    (void)tc_json_as_str(tc_json_find(v, "/model/0/content/0/text"),
                         &answer); /* else it has no text */
    printf("%s: %.*s\n", who, TC_STR_ARG(answer));
}

/* What the newest call of a tool gave to the model, in w->r; empty: there was none. */
static inline tc_str agent_tool_result(agent_world *w)
{
    tc_err err;
    tc_records entries;
    tc_str result = {NULL, 0};
    tc_page newest = {.order = TC_ORDER_DESCENDING, .limit = 10};
    need(tc_durable_entries(tc_harness_session(w->harness), w->root, 0, 0, &newest, w->r, &entries,
                            &err),
         &err, "entries");
    for (size_t i = 0; result.len == 0 && i < entries.count; i++) {
        const tc_json *v;
        need(tc_json_parse(w->r, entries.items[i], &v, &err), &err, "entry");
        if (tc_json_find(v, "/model/0/toolName") != NULL)
            (void)tc_json_as_str(tc_json_find(v, "/model/0/content/0/text"), &result); /* or none */
    }
    return result;
}

static inline void agent_stop(agent_world *w)
{
    tc_err err;
    need(tc_harness_close(w->harness, &err), &err, "close");
    tc_harness_free(w->harness);
    tc_registry_free(w->registry);
    tc_models_close(w->models);
    tc_result_free(w->r);
}

#endif
