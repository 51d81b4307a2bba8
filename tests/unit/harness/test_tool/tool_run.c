/* SPDX-License-Identifier: Apache-2.0
 *
 * A harness for tests of tool calls. */
#include "tool_run.h"

#include "plat/clock.h"

static int get_model(void *user, tc_str provider, tc_str id, tc_result *r, tc_model *ret,
                     tc_err *err)
{
    (void)user;
    (void)r;
    (void)err;
    *ret =
        (tc_model){.provider = provider, .id = id, .context_window = 1000000, .takes_images = true};
    return 0;
}

static size_t count_answers(const tc_model_request *request)
{
    size_t n = 0;
    for (size_t i = 0; i < request->nmessages; i++)
        n += request->messages[i].role == TC_ROLE_ASSISTANT;
    return n;
}

static int ask(void *user, tc_ctx *ctx, const tc_model_request *request, const tc_model_sink *sink,
               tc_result *r, tc_str *ret_message, tc_err *err)
{
    run *me = user;
    size_t turn = count_answers(request);
    const char *content =
        turn < me->nturns ? me->turns[turn] : "[{\"type\":\"text\",\"text\":\"Done.\"}]";
    (void)ctx;
    (void)sink;
    tci_mutex_lock(&me->lock);
    tc_result_clear(me->last_result);
    int rc = tc_messages_text(request->messages, request->nmessages, me->last_result,
                              &me->last_messages, err);
    tci_mutex_unlock(&me->lock);
    if (rc < 0)
        return rc;
    return tci_result_printf(r, ret_message, err,
                             "{\"role\":\"assistant\",\"content\":%s,\"api\":\"faux\",\"provider\":"
                             "\"faux\",\"model\":\"faux-1\","
                             "\"usage\":{\"input\":1,\"output\":1,\"cacheRead\":0,\"cacheWrite\":0,"
                             "\"totalTokens\":2,\"cost\":{"
                             "\"input\":0,\"output\":0,\"cacheRead\":0,\"cacheWrite\":0,\"total\":"
                             "0}},\"stopReason\":\"%s\","
                             "\"timestamp\":1000}",
                             content, strstr(content, "toolCall") != NULL ? "toolUse" : "stop");
}

static void on_report(void *user, const tc_report *report)
{
    run *me = user;
    tci_mutex_lock(&me->lock);
    if (me->nreports < REPORTS_MAX)
        snprintf(me->reports[me->nreports++], sizeof me->reports[0], "%s: %.*s",
                 tc_report_type_name(report->type), TC_STR_ARG(report->message));
    tci_mutex_unlock(&me->lock);
    tci_wake_all(&me->news);
}

static bool was_reported(run *r, const char *words)
{
    bool was = false;
    tci_mutex_lock(&r->lock);
    for (size_t i = 0; i < r->nreports; i++)
        was |= strstr(r->reports[i], words) != NULL;
    tci_mutex_unlock(&r->lock);
    return was;
}

void run_wait_report(run *r, const char *words)
{
    for (;;) {
        unsigned seen = tci_wake_count(&r->news);
        if (was_reported(r, words))
            return;
        tci_wake_wait(&r->news, seen, 0);
    }
}

void run_init(run *r, world *w, const char *name)
{
    *r = (run){.w = w};
    /* Both kinds of storage get their share. */
    r->suffix = name[0] < 'n' ? ".sqlite" : "";
    snprintf(r->path, sizeof r->path, "%s/%s%s", w->root, name, r->suffix);
    r->models =
        (tc_models){.size = sizeof r->models, .user = r, .get_model = get_model, .ask = ask};
    tci_mutex_init(&r->lock);
    assert_ok(w, tc_result_new(&r->last_result, &w->err));
}

static int env_of(void *user, const tc_env_target *target, tc_ctx *ctx, tc_env **ret_env,
                  tc_err *err)
{
    run *r = user;
    if (r->env != NULL)
        return r->env(r->user, target, ctx, ret_env, err);
    *ret_env = tc_env_retain(r->w->env);
    return 0;
}

static void release_env(void *user, tc_env *env)
{
    (void)user;
    tc_env_release(env);
}

void run_open(run *r)
{
    world *w = r->w;
    tc_settings_init(&r->settings);
    if (r->restart_limit > 0)
        r->settings.restart_limit = r->restart_limit;
    tc_harness_options o = {.size = sizeof o,
                            .models = &r->models,
                            .settings = &r->settings,
                            .env = env_of,
                            .env_release = release_env,
                            .on_report = on_report,
                            .user = r};
    assert_ok(w, tc_registry_new(&r->registry, &w->err));
    for (size_t i = 0; i < r->nextensions; i++)
        assert_ok(w, tc_registry_install(r->registry, r->extensions[i], &w->err));
    o.registry = r->registry;
    assert_ok(w, tc_durable_open(tci_str(r->path), NULL, &r->durable, &w->err));
    assert_ok(w, tc_harness_open(r->durable, &o, NULL, &r->h, &w->err));
    tc_conversation_options c = {
        .size = sizeof c,
        .agent = TC_STR("{\"model\":{\"provider\":\"faux\",\"modelId\":\"faux-1\"}}")};
    assert_ok(w, tc_harness_root(r->h, NULL, &c, &r->conversation, &w->err));
}

void run_close(run *r)
{
    if (r->h != NULL)
        tc_harness_free(r->h);
    tc_registry_free(r->registry);
    r->h = NULL;
    r->registry = NULL;
}

void run_done(run *r)
{
    run_close(r);
    tc_result_free(r->last_result);
    tci_mutex_done(&r->lock);
}

static void copy_session(run *r, const char *name)
{
    char command[9000];
    snprintf(command, sizeof command,
             "for f in '' -wal -shm; do [ ! -e %s$f ] || cp -r %s$f %s/%s%s$f; done", r->path,
             r->path, r->w->root, name, r->suffix);
    tc_call call = TC_CALL(NULL, r->w->r);
    tc_exec_options o = {.size = sizeof o, .script = tci_str(command)};
    tc_exec_outcome out;
    assert_ok(r->w, tc_env_exec(r->w->env, &call, &o, &out, &r->w->err));
    assert_int_equal(out.exit_code, 0);
    snprintf(r->path, sizeof r->path, "%s/%s%s", r->w->root, name, r->suffix);
}

void run_crash(run *r, const char *name)
{
    copy_session(r, name);
    run_close(r);
}

void run_crash_and_leave(run *r, const char *name)
{
    copy_session(r, name);
    r->left_h = r->h;
    r->left_registry = r->registry;
    r->h = NULL;
    r->registry = NULL;
}

void run_close_left(run *r)
{
    tc_harness_free(r->left_h);
    tc_registry_free(r->left_registry);
}

uint64_t run_submit(run *r, const char *text)
{
    uint64_t id;
    tc_user_input m = {.size = sizeof m, .text = tci_str(text)};
    assert_ok(r->w, tc_conversation_submit(r->h, NULL, r->conversation, &m, &id, &r->w->err));
    return id;
}

tc_submission run_prompt(run *r, const char *text)
{
    tc_submission s;
    tc_ctx *ctx;
    uint64_t id = run_submit(r, text);
    assert_ok(r->w, tc_ctx_new(30000, &ctx, &r->w->err));
    tc_call call = TC_CALL(ctx, r->w->r);
    assert_ok(r->w, tc_submission_wait(r->h, &call, id, &s, &r->w->err));
    assert_ok(r->w, tc_conversation_wait_idle(r->h, ctx, r->conversation, &r->w->err));
    tc_ctx_free(ctx);
    return s;
}

tc_str run_entry(run *r, const char *kind, size_t nth)
{
    tc_page all = {.order = TC_ORDER_ASCENDING, .limit = 1000};
    tc_records page;
    char member[80];
    snprintf(member, sizeof member, "\"kind\":\"%s\"", kind);
    assert_ok(r->w, tc_durable_entries(tc_harness_session(r->h), r->conversation, 0, 0, &all,
                                       r->w->r, &page, &r->w->err));
    for (size_t i = 0; i < page.count; i++)
        if (tci_str_find(page.items[i], tci_str(member)) < page.items[i].len && nth-- == 0)
            return page.items[i];
    return (tc_str){0};
}

tc_str run_result_text(run *r, size_t nth)
{
    tc_str entry = run_entry(r, "pi.tool-result", nth), text, out;
    const tc_json *v;
    tci_buf b;
    if (entry.len == 0)
        return entry;
    assert_ok(r->w, tc_json_parse(r->w->r, entry, &v, &r->w->err));
    const tc_json *content = tc_json_find(v, "/model/0/content");
    tci_buf_init(&b, TCI_BUF_MAX);
    for (size_t i = 0; i < tc_json_count(content); i++)
        if (tc_json_as_str(tc_json_get(tc_json_item(content, i), TC_STR("text")), &text)) {
            tci_buf_append_str(&b, i > 0 ? TC_STR("|") : TC_STR(""));
            tci_buf_append_str(&b, text);
        }
    assert_ok(r->w, tci_result_take(r->w->r, &b, &out, &r->w->err));
    return out;
}

tc_str run_live(run *r)
{
    tc_doc_addr addr = {&tci_live_doc, r->conversation, {NULL, 0}};
    tc_str text;
    assert_ok(r->w,
              tc_durable_snapshot(tc_harness_session(r->h), &addr, r->w->r, &text, &r->w->err));
    return text;
}

void signal_init(signal *s)
{
    *s = (signal){0};
    tci_mutex_init(&s->lock);
}

void signal_set(signal *s)
{
    tci_mutex_lock(&s->lock);
    s->count++;
    tci_mutex_unlock(&s->lock);
    tci_wake_all(&s->wake);
}

bool signal_wait(signal *s, unsigned n, tc_ctx *ctx)
{
    int64_t until = tci_clock_mono_ns() + INT64_C(30000000000);
    for (;;) {
        unsigned seen = tci_wake_count(&s->wake);
        tci_mutex_lock(&s->lock);
        bool is_set = s->count >= n;
        tci_mutex_unlock(&s->lock);
        if (is_set)
            return true;
        if ((ctx != NULL && tc_ctx_is_cancelled(ctx)) || tci_clock_mono_ns() > until)
            return false;
        tci_wake_wait(&s->wake, seen, tci_clock_mono_ns() + (ctx != NULL ? 5000000 : 1000000000));
    }
}
