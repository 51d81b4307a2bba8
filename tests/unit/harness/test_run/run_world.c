/* SPDX-License-Identifier: Apache-2.0
 *
 * See run_world.h. */
#include "run_world.h"

#include "base/json.h"
#include "plat/clock.h"
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

/* ---- tools ---- */

static world *world_of(void *user)
{
    return user;
}

static int echo(void *user, tc_str arguments, tc_tool_api *api, tc_ctx *ctx, tc_tool_result *ret,
                tc_err *err)
{
    world *w = world_of(user);
    tc_result *r = tc_tool_result_memory(api);
    const tc_json *v;
    tc_str text = {NULL, 0};
    char line[256];
    atomic_fetch_add(&w->nexecuted, 1);
    if (tc_json_parse(r, arguments, &v, err) < 0)
        return err->code;
    (void)tc_json_as_str(tc_json_get(v, TC_STR("text")), &text);
    int n = snprintf(line, sizeof line, "hello %.*s\n", TC_STR_ARG(text));
    if (tc_tool_output(api, tci_str_of(line, (size_t)n), NULL, err) < 0 ||
        tc_tool_flush(api, ctx, err) < 0)
        return err->code;
    ret->details = TC_STR("{\"n\":1}");
    return 0;
}

static int held(void *user, tc_str arguments, tc_tool_api *api, tc_ctx *ctx, tc_tool_result *ret,
                tc_err *err)
{
    world *w = world_of(user);
    (void)arguments;
    (void)ret;
    atomic_fetch_add(&w->nexecuted, 1);
    if (tc_tool_output(api, TC_STR("half\n"), NULL, err) < 0 || tc_tool_flush(api, ctx, err) < 0)
        return err->code;
    atomic_fetch_add(&w->nholding, 1);
    tci_wake_all(&w->held_wake);
    for (;;) {
        unsigned seen = tci_wake_count(&w->held_wake);
        if (atomic_load(&w->nlet) > 0) {
            atomic_fetch_sub(&w->nlet, 1);
            return 0;
        }
        if (tci_ctx_check(ctx, err) < 0)
            return err->code;
        tci_wake_wait(&w->held_wake, seen,
                      tci_clock_mono_ns() + 5000000); /* ctx has another word */
    }
}

static int boom(void *user, tc_str arguments, tc_tool_api *api, tc_ctx *ctx, tc_tool_result *ret,
                tc_err *err)
{
    (void)user;
    (void)arguments;
    (void)api;
    (void)ctx;
    (void)ret;
    return tc_err_set(err, TC_E_INVALID, "boom");
}

static int control(void *user, tc_str arguments, tc_tool_api *api, tc_ctx *ctx, tc_tool_result *ret,
                   tc_err *err)
{
    (void)user;
    (void)ctx;
    return tc_result_dup(tc_tool_result_memory(api), arguments, &ret->control, err);
}

#define TEXT_SCHEMA                                                                                \
    "{\"type\":\"object\",\"properties\":{\"text\":{\"type\":\"string\"}},\"required\":[\"text\"]" \
    "}"

typedef struct tools {
    tc_tool echo, safe, held, held_safe, boom, control;
    const tc_tool *all[6];
    tc_extension extension;
    tc_section preamble;
} tools;

static int preamble(void *user, const tc_prompt *prompt, tc_result *r, tc_str *ret, tc_err *err)
{
    (void)user;
    (void)prompt;
    (void)r;
    (void)err;
    *ret = TC_STR("You are terse.");
    return 0;
}

static tools *make_tools(world *w)
{
    tools *t = tci_new(tools);
    assert_non_null(t);
    const tc_tool base = {.size = sizeof(tc_tool), .user = w};
    t->echo = t->safe = t->held = t->held_safe = t->boom = t->control = base;
    t->echo.name = TC_STR("echo");
    t->echo.description = TC_STR("Echo text");
    t->echo.parameters = TC_STR(TEXT_SCHEMA);
    t->echo.execute = echo;
    t->safe = t->echo;
    t->safe.name = TC_STR("safe");
    t->safe.replay = TC_REPLAY_SAFE;
    t->held.name = TC_STR("held");
    t->held.execute = held;
    t->held_safe = t->held;
    t->held_safe.name = TC_STR("held-safe");
    t->held_safe.replay = TC_REPLAY_SAFE;
    t->boom.name = TC_STR("boom");
    t->boom.execute = boom;
    t->control.name = TC_STR("control");
    t->control.execute = control;
    t->all[0] = &t->echo;
    t->all[1] = &t->safe;
    t->all[2] = &t->held;
    t->all[3] = &t->held_safe;
    t->all[4] = &t->boom;
    t->all[5] = &t->control;
    t->preamble = (tc_section){.key = TC_STR("preamble"), .render = preamble};
    t->extension = (tc_extension){.size = sizeof(tc_extension),
                                  .name = TC_STR("test"),
                                  .tools = t->all,
                                  .ntools = 6,
                                  .sections = &t->preamble,
                                  .nsections = 1,
                                  .hooks = &w->hooks,
                                  .user = w};
    return t;
}

/* ---- the world ---- */

static int64_t now(void *user)
{
    world *w = user;
    return atomic_fetch_add(&w->clock, 1);
}

static void on_report(void *user, const tc_report *report)
{
    world *w = user;
    tci_mutex_lock(&w->lock);
    if (w->nreports < RUN_REPORTS_MAX)
        (void)snprintf(w->reports[w->nreports++], sizeof w->reports[0], "%s %.*s %.*s",
                       tc_report_type_name(report->type), TC_STR_ARG(report->extension),
                       TC_STR_ARG(report->message));
    tci_mutex_unlock(&w->lock);
    tci_wake_all(&w->wake);
}

static tools *shared_tools; /* of the one world of a test */

void world_init(world *w)
{
    const char *dir = getenv("TC_TEST_DIR");
    static unsigned nworlds;
    memset(w, 0, sizeof *w);
    (void)snprintf(w->path, sizeof w->path, "%s/session-%u", dir != NULL ? dir : "/tmp/test_run",
                   nworlds++);
    tci_mutex_init(&w->lock);
    run_model_init(&w->model);
    atomic_store(&w->clock, 1700000000000);
    OK(tc_result_new(&w->r, err));
    OK(tc_registry_new(&w->registry, err));
    shared_tools = make_tools(w);
    OK(tc_registry_install(w->registry, &shared_tools->extension, err));
    tc_settings_init(&w->settings);
    w->settings.partial_interval_ms = 0;
    w->settings.output_interval_ms = 0;
    w->options = (tc_harness_options){.size = sizeof w->options,
                                      .registry = w->registry,
                                      .models = &w->model.models,
                                      .settings = &w->settings,
                                      .on_report = on_report,
                                      .user = w};
}

void world_limit_tools(world *w, size_t n)
{
    (void)w;
    shared_tools->extension.ntools = n;
}

void world_open(world *w)
{
    static const tc_conversation_options root = {
        .size = sizeof root,
        .agent = {"{\"model\":{\"provider\":\"faux\",\"modelId\":\"faux-1\"}}", 48}};
    tc_durable *s;
    const tc_durable_options options = {
        .size = sizeof options, .durability = TC_DURABILITY_NORMAL, .now_ms = now, .now_user = w};
    OK(tc_durable_open(tci_str(w->path), &options, &s, err));
    OK(tc_harness_open(s, &w->options, NULL, &w->h, err));
    OK(tc_harness_root(w->h, NULL, &root, &w->root, err));
}

void world_close(world *w)
{
    OK(tc_harness_close(w->h, err));
    tc_harness_free(w->h);
    w->h = NULL;
}

static void copy_file(const char *from, const char *to)
{
    char room[65536];
    FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
    size_t n;
    assert_true(in != NULL && out != NULL);
    while ((n = fread(room, 1, sizeof room, in)) > 0)
        assert_int_equal(fwrite(room, 1, n, out), n);
    assert_int_equal(fclose(out), 0);
    (void)fclose(in);
}

static void copy_folder(const char *from, const char *to)
{
    DIR *d = opendir(from);
    assert_non_null(d);
    assert_int_equal(mkdir(to, 0700), 0);
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        char a[1024], b[1024];
        if (strstr(e->d_name, ".jsonl") == NULL)
            continue;
        (void)snprintf(a, sizeof a, "%s/%s", from, e->d_name);
        (void)snprintf(b, sizeof b, "%s/%s", to, e->d_name);
        copy_file(a, b);
    }
    (void)closedir(d);
}

void world_kill(world *w)
{
    char copy[512];
    tc_durable *s = tc_harness_session(w->h);
    (void)snprintf(copy, sizeof copy, "%.480s-k%u", w->path, ++w->nkills);
    OK(tci_durable_enter(s, err)); /* nobody commits while it is copied */
    copy_folder(w->path, copy);
    tci_durable_leave(s);
    world_close(w);
    memcpy(w->path, copy, sizeof copy);
}

void world_done(world *w)
{
    if (w->h != NULL)
        world_close(w);
    tc_registry_free(w->registry);
    tci_free(shared_tools);
    run_model_done(&w->model);
    tc_result_free(w->r);
    tci_mutex_done(&w->lock);
}

/* ---- submissions ---- */

uint64_t world_say_when(world *w, const char *text, tc_when_busy when)
{
    const tc_user_input input = {.size = sizeof input, .text = tci_str(text), .when_busy = when};
    uint64_t id;
    OK(tc_conversation_submit(w->h, NULL, w->root, &input, &id, err));
    return id;
}

uint64_t world_say(world *w, const char *text)
{
    return world_say_when(w, text, TC_WHEN_BUSY_FOLLOW_UP);
}

void world_wait(world *w, uint64_t submission, tc_submission *ret)
{
    tc_ctx *ctx;
    OK(tc_ctx_new(60000, &ctx, err));
    OK(tc_submission_wait(w->h, &TC_CALL(ctx, w->r), submission, ret, err));
    tc_ctx_free(ctx);
}

const char *world_answer(world *w, uint64_t submission)
{
    tc_submission s;
    tc_str entry, text;
    const tc_json *v;
    world_wait(w, submission, &s);
    if (s.answer == 0)
        return "";
    OK(tc_durable_entry(tc_harness_session(w->h), 0, s.answer, w->r, &entry, err));
    OK(tc_json_parse(w->r, entry, &v, err));
    if (!tc_json_as_str(tc_json_find(v, "/model/0/content/0/text"), &text))
        return "";
    OK(tc_result_dup(w->r, text, &text, err));
    return text.ptr;
}

void world_idle(world *w)
{
    tc_ctx *ctx;
    OK(tc_ctx_new(60000, &ctx, err));
    OK(tc_conversation_wait_idle(w->h, ctx, w->root, err));
    tc_ctx_free(ctx);
}

tc_str world_doc(world *w, const tc_doc_def *def)
{
    const tc_doc_addr addr = {def, w->root, {NULL, 0}};
    tc_str text;
    OK(tc_durable_snapshot(tc_harness_session(w->h), &addr, w->r, &text, err));
    return text;
}

static void all_entries(world *w, tc_records *ret)
{
    const tc_page page = {.order = TC_ORDER_ASCENDING, .limit = 1000};
    OK(tc_durable_entries(tc_harness_session(w->h), w->root, 0, 0, &page, w->r, ret, err));
}

const char *world_kinds(world *w)
{
    tc_records all;
    tci_buf b;
    tc_str text;
    tci_buf_init(&b, TCI_BUF_MAX);
    all_entries(w, &all);
    for (size_t i = 0; i < all.count; i++) {
        const tc_json *v;
        tc_str kind, stop;
        OK(tc_json_parse(w->r, all.items[i], &v, err));
        assert_true(tc_json_as_str(tc_json_get(v, TC_STR("kind")), &kind));
        tci_buf_printf(&b, "%s%.*s", i > 0 ? " " : "", TC_STR_ARG(kind));
        if (tc_json_as_str(tc_json_find(v, "/model/0/stopReason"), &stop))
            tci_buf_printf(&b, ":%.*s", TC_STR_ARG(stop));
    }
    OK(tci_result_take(w->r, &b, &text, err));
    return text.ptr;
}

size_t world_nentries(world *w)
{
    tc_records all;
    all_entries(w, &all);
    return all.count;
}

tc_str world_entry(world *w, size_t index)
{
    tc_records all;
    all_entries(w, &all);
    assert_true(index < all.count);
    return all.items[index];
}

void world_wait_holding(world *w, unsigned n)
{
    for (;;) {
        unsigned seen = tci_wake_count(&w->held_wake);
        if (atomic_load(&w->nholding) >= n)
            return;
        tci_wake_wait(&w->held_wake, seen, 0);
    }
}

void world_let(world *w)
{
    atomic_fetch_add(&w->nlet, 1);
    tci_wake_all(&w->held_wake);
}

size_t world_count_reports(world *w, const char *prefix)
{
    size_t n = 0;
    tci_mutex_lock(&w->lock);
    for (size_t i = 0; i < w->nreports; i++)
        n += strncmp(w->reports[i], prefix, strlen(prefix)) == 0;
    tci_mutex_unlock(&w->lock);
    return n;
}

void world_wait_report(world *w, const char *prefix)
{
    for (;;) {
        unsigned seen = tci_wake_count(&w->wake);
        if (world_count_reports(w, prefix) > 0)
            return;
        tci_wake_wait(&w->wake, seen, 0);
    }
}

/* ---- comparing ---- */

static bool is_time(tc_str key)
{
    static const char *const times[] = {"timestamp", "startedAt",  "endedAt", "at",
                                        "until",     "durationMs", "pollAt"};
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
        if (tci_str_eq(key, tci_str(times[i])))
            return true;
    }
    return false;
}

static bool same(const tci_json *a, const tci_json *b)
{
    if (a->kind != b->kind || (a->kind >= TCI_JSON_ARRAY && a->count != b->count))
        return false;
    if (a->kind == TCI_JSON_ARRAY) {
        for (uint32_t i = 0; i < a->count; i++) {
            if (!same(&a->u.items[i], &b->u.items[i]))
                return false;
        }
        return true;
    }
    if (a->kind != TCI_JSON_OBJECT)
        return tci_json_equal(a, b);
    for (uint32_t i = 0; i < a->count; i++) {
        const tci_json *other = tci_json_get(b, a->u.members[i].key);
        if (other == NULL)
            return false;
        if (is_time(a->u.members[i].key) && other->kind == TCI_JSON_NUMBER)
            continue;
        if (!same(&a->u.members[i].value, other))
            return false;
    }
    return true;
}

void check_json(tc_str actual, const char *expected, const char *file, int line)
{
    tci_arena a;
    tci_json x, y;
    tci_arena_init(&a, 0);
    OK(tci_json_parse(actual, TCI_JSON_KEEP_SURROGATES, &a, &x, err));
    OK(tci_json_parse(tci_str(expected), TCI_JSON_KEEP_SURROGATES, &a, &y, err));
    bool is_same = same(&x, &y);
    tci_arena_done(&a);
    if (!is_same)
        fail_msg("%s:%d:\nactual   %.*s\nexpected %s", file, line, TC_STR_ARG(actual), expected);
}

size_t count_text(tc_str haystack, const char *needle)
{
    size_t n = 0;
    tc_str wanted = tci_str(needle);
    for (size_t at; (at = tci_str_find(haystack, wanted)) < haystack.len; n++)
        haystack = tci_str_sub(haystack, at + wanted.len, haystack.len);
    return n;
}

bool has_text(tc_str haystack, const char *needle)
{
    return count_text(haystack, needle) > 0;
}
