/* SPDX-License-Identifier: Apache-2.0
 *
 * harness_tool SESSION FOLDER DAEMON STEP...: a host of our harness that does what it is told, for tests
 * that set it beside another implementation or kill it at a commit. Steps, done in order:
 *     die-at=SEQ            killed in the commit of that number, or a later one
 *     die-on=TEXT           killed in the first commit with TEXT in a record or in the operations of a document
 *     root=AGENT            the first conversation, made with this agent when it is not there
 *     ask=ID,TEXT           a prompt
 *     steer=ID,TEXT         one that joins a run
 *     until=TEXT            wait for a commit that has TEXT, as die-on; one since the last such step
 *     fork=ID,ENTRY         prints the new conversation
 *     compact=ID
 *     abort=ID
 *     retry=TASK            one that was parked
 *     idle=ID               wait for the conversation, 0: for all
 *     context=ID            print what the model would be told, one message a line */
#include "harness_work.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <telechir/agent.h>
#include <telechir/harness.h>
#include <telechir/model.h>
#include <telechir/tool.h>

typedef struct host {
    tc_str daemon, folder;
    tc_runtime *rt;
    tc_result *r;
    tc_models *models;
    struct tc_extension *coding;
    work work;
    tc_registry *registry;
    tc_settings settings;
    tc_harness *harness;
    tc_listener *listener;
    uint64_t die_at;
    const char *die_on;
    pthread_mutex_t lock;
    pthread_cond_t seen_one;
    char *seen; /* texts of the commits since the last until= */
    size_t seen_len;
} host;

static tc_str text(const char *cstr)
{
    return (tc_str){cstr, strlen(cstr)};
}

static void need(int rc, const tc_err *err, const char *what)
{
    if (rc >= 0)
        return;
    fprintf(stderr, "%s: %s\n", what, err->msg);
    exit(1);
}

/* The number that text begins with; *ret_rest (may be NULL): behind it and one comma. */
static uint64_t number(const char *digits, const char **ret_rest)
{
    uint64_t n = 0;
    for (; *digits >= '0' && *digits <= '9'; digits++)
        n = n * 10 + (uint64_t)(*digits - '0');
    if (ret_rest != NULL)
        *ret_rest = *digits == ',' ? digits + 1 : digits;
    return n;
}

/* ---- commits ---- */

static void note(host *h, tc_str s)
{
    char *grown = realloc(h->seen, h->seen_len + s.len + 2);
    if (grown == NULL)
        abort();
    memcpy(grown + h->seen_len, s.ptr, s.len);
    h->seen_len += s.len;
    grown[h->seen_len++] = '\n';
    grown[h->seen_len] = '\0';
    h->seen = grown;
}

static void die(void)
{
    (void)raise(SIGKILL);
}

static void on_commit(void *user, const tc_commit *commit)
{
    host *h = user;
    (void)pthread_mutex_lock(&h->lock);
    size_t from = h->seen_len;
    for (size_t i = 0; i < commit->nrecords; i++)
        note(h, commit->records[i].json);
    for (size_t i = 0; i < commit->ndocs; i++)
        note(h, commit->docs[i].ops);
    if (h->die_at != 0 && commit->seq >= h->die_at)
        die();
    if (h->die_on != NULL && h->seen_len > from && strstr(h->seen + from, h->die_on) != NULL)
        die();
    (void)pthread_cond_broadcast(&h->seen_one);
    (void)pthread_mutex_unlock(&h->lock);
}

static void wait_until(host *h, const char *what)
{
    (void)pthread_mutex_lock(&h->lock);
    while (h->seen == NULL || strstr(h->seen, what) == NULL)
        (void)pthread_cond_wait(&h->seen_one, &h->lock);
    h->seen_len = 0;
    h->seen[0] = '\0';
    (void)pthread_mutex_unlock(&h->lock);
}

/* ---- opening ---- */

static int env(void *user, const tc_env_target *target, tc_ctx *ctx, tc_env **ret_env, tc_err *err)
{
    host *h = user;
    (void)ctx;
    tc_env_options options = {.size = sizeof options,
                              .environment_id = TC_STR("test"),
                              .working_directory = target->cwd.len > 0 ? target->cwd : h->folder};
    tc_local_pi_options local = {.size = sizeof local, .executable = h->daemon, .is_lazy = true};
    return tc_env_create_local_pi(h->rt, &options, &local, ret_env, err);
}

static void release_env(void *user, tc_env *e)
{
    (void)user;
    tc_env_release(e);
}

static void start(host *h, const char *path)
{
    tc_err err;
    tc_durable *session;
    tc_settings_init(&h->settings);
    h->settings.compaction.keep_recent_tokens = 10;
    h->settings.retry.base_delay_ms = 700;
    need(tc_runtime_open(NULL, &h->rt, &err), &err, "runtime");
    need(tc_result_new(&h->r, &err), &err, "result");
    need(tc_models_open(NULL, &h->models, &err), &err, "models");
    need(tc_registry_new(&h->registry, &err), &err, "registry");
    need(tc_coding_tools_new(NULL, NULL, &h->coding, &err), &err, "tools");
    need(tc_registry_install(h->registry, h->coding, &err), &err, "tools");
    work_init(&h->work);
    need(tc_registry_install(h->registry, &h->work.extension, &err), &err, "work");
    need(tc_durable_open(text(path), NULL, &session, &err), &err, "session");
    tc_harness_options options = {.size = sizeof options,
                                  .registry = h->registry,
                                  .models = h->models,
                                  .settings = &h->settings,
                                  .env = env,
                                  .env_release = release_env,
                                  .user = h};
    need(tc_harness_open(session, &options, NULL, &h->harness, &err), &err, "harness");
    need(tc_durable_on_commit(tc_harness_session(h->harness), on_commit, h, &h->listener, &err),
         &err, "listener");
}

static void stop(host *h)
{
    tc_err err;
    tc_listener_remove(h->listener);
    need(tc_harness_close(h->harness, &err), &err, "close");
    tc_harness_free(h->harness);
    tc_registry_free(h->registry);
    tc_tools_free(h->coding);
    tc_models_close(h->models);
    tc_result_free(h->r);
    tc_runtime_close(h->rt);
    free(h->seen);
}

/* ---- steps ---- */

static void step_root(host *h, const char *agent)
{
    tc_err err;
    uint64_t id;
    tc_conversation_options options = {.size = sizeof options, .agent = text(agent)};
    need(tc_harness_root(h->harness, NULL, &options, &id, &err), &err, "root");
}

static void submit(host *h, const char *value, tc_when_busy when)
{
    tc_err err;
    const char *words;
    uint64_t submission, id = number(value, &words);
    tc_user_input input = {.size = sizeof input, .text = text(words), .when_busy = when};
    need(tc_conversation_submit(h->harness, NULL, id, &input, &submission, &err), &err, value);
}

static void step_ask(host *h, const char *value)
{
    submit(h, value, TC_WHEN_BUSY_FOLLOW_UP);
}

static void step_steer(host *h, const char *value)
{
    submit(h, value, TC_WHEN_BUSY_STEER);
}

static void step_fork(host *h, const char *value)
{
    tc_err err;
    const char *at;
    uint64_t fork, id = number(value, &at);
    tc_conversation_options options = {.size = sizeof options};
    need(tc_conversation_fork(h->harness, NULL, id, number(at, NULL), &options, &fork, &err), &err,
         value);
    printf("%llu\n", (unsigned long long)fork);
}

static void step_compact(host *h, const char *value)
{
    tc_err err;
    uint64_t task;
    need(tc_conversation_compact(h->harness, NULL, number(value, NULL), TC_STR(""), &task, &err),
         &err, "compact");
}

static void step_abort(host *h, const char *value)
{
    tc_err err;
    need(tc_conversation_abort(h->harness, NULL, number(value, NULL), false, &err), &err, "abort");
}

static void step_retry(host *h, const char *value)
{
    tc_err err;
    need(tc_harness_retry_task(h->harness, NULL, number(value, NULL), &err), &err, "retry");
}

static void step_idle(host *h, const char *value)
{
    tc_err err;
    need(tc_harness_wait_idle(h->harness, NULL, number(value, NULL), &err), &err, "idle");
}

static void step_context(host *h, const char *value)
{
    tc_err err;
    tc_context_view view;
    tc_call call = TC_CALL(NULL, h->r);
    need(tc_conversation_context(h->harness, &call, number(value, NULL), 0, &view, &err), &err,
         "context");
    for (size_t i = 0; i < view.nmessages; i++)
        printf("%.*s\n", TC_STR_ARG(view.messages[i]));
}

static void step_die_at(host *h, const char *value)
{
    h->die_at = number(value, NULL);
}

static void step_die_on(host *h, const char *value)
{
    h->die_on = value;
}

static void do_step(host *h, const char *step)
{
    static const struct {
        const char *name;
        void (*run)(host *h, const char *value);
    } steps[] = {{"die-at=", step_die_at}, {"die-on=", step_die_on},   {"root=", step_root},
                 {"ask=", step_ask},       {"steer=", step_steer},     {"until=", wait_until},
                 {"fork=", step_fork},     {"compact=", step_compact}, {"abort=", step_abort},
                 {"retry=", step_retry},   {"idle=", step_idle},       {"context=", step_context}};
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        size_t len = strlen(steps[i].name);
        if (strncmp(step, steps[i].name, len) == 0) {
            steps[i].run(h, step + len);
            return;
        }
    }
    fprintf(stderr, "no step %s\n", step);
    exit(2);
}

int main(int argc, char **argv)
{
    host h = {.lock = PTHREAD_MUTEX_INITIALIZER, .seen_one = PTHREAD_COND_INITIALIZER};
    if (argc < 4) {
        fprintf(stderr, "usage: harness_tool SESSION FOLDER DAEMON STEP...\n");
        return 2;
    }
    h.folder = text(argv[2]);
    h.daemon = text(argv[3]);
    start(&h, argv[1]);
    for (int i = 4; i < argc; i++)
        do_step(&h, argv[i]);
    stop(&h);
    return 0;
}
