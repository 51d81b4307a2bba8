/* SPDX-License-Identifier: Apache-2.0
 *
 * See sched_world.h. */
#include "sched_world.h"

#include "base/num.h"
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define OK(call)                                                          \
    do {                                                                  \
        tc_err e_;                                                        \
        memset(&e_, 0, sizeof(e_));                                       \
        tc_err *err = &e_;                                                \
        if ((call) < 0)                                                   \
            fail_msg("%s:%d: %s: %s", __FILE__, __LINE__, #call, e_.msg); \
    } while (0)

tc_str lit(const char *s)
{
    return tci_str(s);
}

static int64_t deadline_ns(void)
{
    return tci_add_ns(tci_clock_mono_ns(), tci_ms_to_ns(WORLD_WAIT_MS));
}

/* ---- the world ---- */

static int64_t clock_ms(void *user)
{
    world *w = user;
    long long now = atomic_load(&w->now);
    if (now != 0)
        return now;
    tci_instant t = tci_clock_now();
    return t.sec * 1000 + t.nsec / 1000000;
}

static void add_note(world *w, note *notes, size_t *n, const char *fmt, va_list args)
{
    tci_mutex_lock(&w->lock);
    if (*n < NOTES_MAX) {
        (void)vsnprintf(notes[*n].text, sizeof(notes[*n].text), fmt, args);
        (*n)++;
    }
    tci_mutex_unlock(&w->lock);
    tci_wake_all(&w->wake);
}

void world_effect(world *w, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    add_note(w, w->effects, &w->neffects, fmt, args);
    va_end(args);
}

static void add_report(world *w, const char *fmt, ...) TC_PRINTF(2, 3);
static void add_report(world *w, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    add_note(w, w->reports, &w->nreports, fmt, args);
    va_end(args);
}

static void on_report(void *user, const tc_report *r)
{
    add_report(user, "%s%s%.*s%s%.*s", tc_report_type_name(r->type), r->reason.len > 0 ? " " : "",
               TC_STR_ARG(r->reason), r->kind.len > 0 ? " " : "", TC_STR_ARG(r->kind));
}

void world_init(world *w, const char *path)
{
    memset(w, 0, sizeof(*w));
    tci_mutex_init(&w->lock);
    (void)snprintf(w->path, sizeof(w->path), "%s", path);
    OK(tci_registry_new_empty(&w->registry, err));
    OK(tc_result_new(&w->r, err));
    w->options = (tc_harness_options){
        .size = sizeof(w->options), .registry = w->registry, .on_report = on_report, .user = w};
}

void world_open(world *w)
{
    tc_durable *s;
    tc_durable_options options = {.size = sizeof(options),
                                  .durability = TC_DURABILITY_NORMAL,
                                  .now_ms = clock_ms,
                                  .now_user = w};
    OK(tc_durable_open(w->path[0] != 0 ? lit(w->path) : TC_STR(":memory:"), &options, &s, err));
    OK(tci_harness_open_with(s, &w->options, &w->parts, NULL, &w->h, err));
    tc_str record;
    OK(tc_durable_conversation(s, TCI_ROOT_ID, w->r, &record, err));
    if (record.len == 0) {
        tc_tx *tx;
        OK(tc_durable_begin(s, NULL, &tx, err));
        OK(tc_tx_create_root_conversation(tx, err));
        OK(tc_tx_commit(tx, err));
    }
    w->root = TCI_ROOT_ID;
}

void world_close(world *w)
{
    OK(tc_harness_close(w->h, err));
    tc_harness_free(w->h);
    w->h = NULL;
}

static void copy_file(const char *from, const char *to)
{
    char block[65536];
    size_t n;
    FILE *in = fopen(from, "rb");
    if (in == NULL)
        return; /* a log that is not there */
    FILE *out = fopen(to, "wb");
    assert_non_null(out);
    while ((n = fread(block, 1, sizeof(block), in)) > 0)
        assert_int_equal(fwrite(block, 1, n, out), n);
    assert_int_equal(fclose(out), 0);
    (void)fclose(in);
}

/* A folder of files, or a file and its log. */
void world_copy(const char *from, const char *to)
{
    char a[1100], b[1100];
    if (strstr(from, ".sqlite") != NULL) {
        copy_file(from, to);
        (void)snprintf(a, sizeof(a), "%s-wal", from);
        (void)snprintf(b, sizeof(b), "%s-wal", to);
        copy_file(a, b);
        return;
    }
    DIR *dir = opendir(from);
    assert_non_null(dir);
    assert_int_equal(mkdir(to, 0700), 0);
    for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        if (entry->d_name[0] == '.')
            continue;
        (void)snprintf(a, sizeof(a), "%s/%s", from, entry->d_name);
        (void)snprintf(b, sizeof(b), "%s/%s", to, entry->d_name);
        struct stat st;
        assert_int_equal(stat(a, &st), 0);
        if (S_ISDIR(st.st_mode))
            world_copy(a, b);
        else
            copy_file(a, b);
    }
    (void)closedir(dir);
}

void world_kill(world *w)
{
    char next[512];
    static atomic_uint serial;
    tc_err last;
    unsigned n = atomic_fetch_add(&serial, 1);
    if (strstr(w->path, ".sqlite") != NULL)
        (void)snprintf(next, sizeof(next), "killed-%u.sqlite", n);
    else
        (void)snprintf(next, sizeof(next), "killed-%u", n);
    OK(tci_durable_enter(tc_harness_session(w->h), err)); /* no commit is half done */
    world_copy(w->path, next);
    tci_durable_leave(tc_harness_session(w->h));
    (void)tc_harness_close(w->h, &last);
    tc_harness_free(w->h);
    w->h = NULL;
    (void)snprintf(w->path, sizeof(w->path), "%s", next);
}

void world_done(world *w)
{
    tc_harness_free(w->h);
    tc_registry_free(w->registry);
    tc_result_free(w->r);
    tci_mutex_done(&w->lock);
}

void world_install(world *w, const char *extension, const tc_task_def *const *defs, size_t n)
{
    OK(tc_registry_install_tasks(w->registry, lit(extension), defs, n, err));
}

uint64_t world_conversation(world *w, uint64_t owner_task)
{
    tc_tx *tx;
    uint64_t id = 0;
    OK(tc_durable_begin(tc_harness_session(w->h), NULL, &tx, err));
    OK(tc_tx_create_conversation(tx, owner_task, &id, err));
    OK(tc_tx_commit(tx, err));
    return id;
}

uint64_t world_task_with(world *w, const tc_task_def *def, const char *input,
                         const tc_task_options *options)
{
    tc_tx *tx;
    uint64_t id = 0;
    OK(tc_durable_begin(tc_harness_session(w->h), NULL, &tx, err));
    OK(tc_tx_create_task_of(tx, def, lit(input), options, &id, err));
    OK(tc_tx_commit(tx, err));
    return id;
}

uint64_t world_task(world *w, const tc_task_def *def, const char *input)
{
    tc_task_options options = TC_TASK_OPTIONS;
    options.conversation_id = w->root;
    return world_task_with(w, def, input, &options);
}

void world_resume(world *w)
{
    OK(tc_harness_resume(w->h, err));
}

const char *world_get(world *w, uint64_t id, const char *pointer)
{
    tc_str record, text = {NULL, 0};
    const tc_json *v;
    tc_result_clear(w->r);
    OK(tc_harness_get_task(w->h, NULL, id, w->r, &record, err));
    OK(tc_json_parse(w->r, record, &v, err));
    v = tc_json_find(v, pointer);
    if (v == NULL)
        return "";
    OK(tc_json_text(v, w->r, &text, err));
    OK(tc_result_dup(w->r, text, &text, err)); /* with a NUL after the end */
    return text.ptr;
}

void world_wait_task(world *w, uint64_t id)
{
    tc_ctx *ctx;
    tc_str record;
    OK(tc_ctx_new(WORLD_WAIT_MS, &ctx, err));
    OK(tc_harness_wait_task(w->h, ctx, id, w->r, &record, err));
    tc_ctx_free(ctx);
}

void world_wait_idle(world *w, uint64_t conversation)
{
    tc_ctx *ctx;
    OK(tc_ctx_new(WORLD_WAIT_MS, &ctx, err));
    OK(tc_harness_wait_idle(w->h, ctx, conversation, err));
    tc_ctx_free(ctx);
}

const char *world_state(world *w, uint64_t id)
{
    tc_inspection all;
    tc_str text = TC_STR("none");
    tc_result_clear(w->r);
    OK(tc_harness_inspect(w->h, NULL, w->r, &all, err));
    for (size_t i = 0; i < all.ntasks; i++) {
        const tc_task_inspection *t = &all.tasks[i];
        if (t->id != id)
            continue;
        char line[128];
        (void)snprintf(line, sizeof(line), "%s%s%.*s%s", tc_task_state_name(t->state),
                       t->reason.len > 0 ? " " : "", TC_STR_ARG(t->reason),
                       t->migrates ? " migrates" : "");
        text = lit(line);
        OK(tc_result_dup(w->r, text, &text, err));
        break;
    }
    return text.ptr;
}

bool world_abort(world *w, uint64_t id)
{
    bool is_terminal = false;
    tc_ctx *ctx;
    OK(tc_ctx_new(WORLD_WAIT_MS, &ctx, err));
    OK(tc_harness_abort_task(w->h, ctx, id, &is_terminal, err));
    tc_ctx_free(ctx);
    return is_terminal;
}

/* ---- notes ---- */

static size_t count(world *w, const note *notes, const size_t *n, const char *text)
{
    size_t found = 0;
    tci_mutex_lock(&w->lock);
    for (size_t i = 0; i < *n; i++)
        found += strcmp(notes[i].text, text) == 0;
    tci_mutex_unlock(&w->lock);
    return found;
}

static void wait_count(world *w, const note *notes, const size_t *n, const char *text, size_t want)
{
    int64_t deadline = deadline_ns();
    for (;;) {
        unsigned seen = tci_wake_count(&w->wake);
        if (count(w, notes, n, text) >= want)
            return;
        if (tci_clock_mono_ns() >= deadline) {
            for (size_t i = 0; i < *n; i++)
                print_message("note: %s\n", notes[i].text);
            fail_msg("'%s' did not come %zu times", text, want);
        }
        tci_wake_wait(&w->wake, seen, deadline);
    }
}

size_t world_count(world *w, const char *effect)
{
    return count(w, w->effects, &w->neffects, effect);
}

void world_wait_effect(world *w, const char *effect, size_t n)
{
    wait_count(w, w->effects, &w->neffects, effect, n);
}

size_t world_count_reports(world *w, const char *report)
{
    return count(w, w->reports, &w->nreports, report);
}

void world_wait_report(world *w, const char *report)
{
    wait_count(w, w->reports, &w->nreports, report, 1);
}

/* ---- gates ---- */

int gate_pass(gate *g, tc_task *t, tc_err *err)
{
    unsigned mine = atomic_fetch_add(&g->narrived, 1);
    tci_wake_all(&g->wake);
    while (atomic_load(&g->nopen) <= mine) {
        unsigned seen = tci_wake_count(&g->wake);
        if (t != NULL && tc_ctx_is_cancelled(tc_task_ctx(t)))
            return tc_err_set(err, TC_E_CANCELLED, "cancelled at a gate");
        if (atomic_load(&g->nopen) <= mine)
            tci_wake_wait(&g->wake, seen, tci_add_ns(tci_clock_mono_ns(), 20 * 1000 * 1000));
    }
    return 0;
}

void gate_wait(gate *g, unsigned n)
{
    int64_t deadline = deadline_ns();
    while (atomic_load(&g->narrived) < n) {
        unsigned seen = tci_wake_count(&g->wake);
        if (atomic_load(&g->narrived) >= n)
            break;
        if (tci_clock_mono_ns() >= deadline)
            fail_msg("nobody came to the gate");
        tci_wake_wait(&g->wake, seen, deadline);
    }
}

void gate_open(gate *g, unsigned n)
{
    atomic_fetch_add(&g->nopen, n);
    tci_wake_all(&g->wake);
}

/* ---- handlers ---- */

int next_phase(tc_task *t, const char *checkpoint, tc_err *err)
{
    return tc_task_next(t, &(tc_next){.kind = TC_NEXT_RUNNING, .checkpoint = lit(checkpoint)}, err);
}

int next_done(tc_task *t, const char *result, tc_err *err)
{
    return tc_task_next(t, &(tc_next){.kind = TC_NEXT_COMPLETED, .result = lit(result)}, err);
}

int next_wait(tc_task *t, const char *checkpoint, const uint64_t *on, size_t n,
              tc_wait_policy policy, tc_err *err)
{
    return tc_task_next(t,
                        &(tc_next){.kind = TC_NEXT_WAITING,
                                   .checkpoint = lit(checkpoint),
                                   .on = on,
                                   .non = n,
                                   .policy = policy},
                        err);
}

int abort_plain(tc_task *t, tc_err *err)
{
    return tc_task_next(t, &(tc_next){.kind = TC_NEXT_ABORTED}, err);
}

int initial_start(void *user, tc_str input, tc_result *r, tc_str *ret_checkpoint, tc_err *err)
{
    (void)user;
    (void)input;
    return tc_result_dup(r, TC_STR("{\"phase\":\"start\"}"), ret_checkpoint, err);
}
