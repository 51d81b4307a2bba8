/* SPDX-License-Identifier: Apache-2.0
 *
 * Watching over every provider: each change is told of, at its path or above, or by an overflow,
 * soon. What is waited for is an event; only what must not be told of is given a moment to come. */
#include "tool.h"

#include "base/arena.h"
#include "client/client.h"
#include "plat/clock.h"
#include "plat/file.h"

enum { COVER_MS = 60000, POLL_MS = 100, MOMENT_MS = 300 };

/* What a watcher has told of. */
typedef struct heard {
    bench *b;
    tci_mutex lock;
    tci_wake wake;
    tci_arena arena;
    tc_str paths[4096];
    size_t n;
    bool has_overflow, has_failed;
    tc_watcher *w;
} heard;

static void hear(void *user, const tc_watch_event *event)
{
    heard *h = user;
    tc_err err;
    tci_mutex_lock(&h->lock);
    h->has_overflow |= event->kind == TC_WATCH_OVERFLOW;
    h->has_failed |= event->kind == TC_WATCH_FAILED;
    for (size_t i = 0; i < event->paths.count && h->n < TCI_ARRAY_LEN(h->paths); i++)
        if (tci_arena_dup(&h->arena, event->paths.items[i], &h->paths[h->n], &err) == 0)
            h->n++;
    tci_mutex_unlock(&h->lock);
    tci_wake_all(&h->wake);
}

static heard *start(bench *b, const tc_watch_target *targets, size_t n, tc_watch_mode mode)
{
    heard *h = calloc(1, sizeof *h);
    h->b = b;
    tci_mutex_init(&h->lock);
    tci_arena_init(&h->arena, 0);
    tc_watch_options o = {.size = sizeof o, .mode = mode, .poll_interval_ms = POLL_MS};
    assert_ok(b->f, tc_env_watch(b->env, &b->call, targets, n, &o, hear, h, &h->w, &b->f->err));
    return h;
}

static void stop(heard *h)
{
    assert_false(h->has_failed);
    tc_watcher_free(h->w);
    tci_mutex_done(&h->lock);
    tci_arena_done(&h->arena);
    free(h);
}

static bool is_at_or_below(tc_str path, tc_str above)
{
    return tci_str_eq(path, above) || (tci_str_starts(path, above) && path.ptr[above.len] == '/');
}

/* Was a change of path told of since the last forget? */
static bool is_covered(heard *h, tc_str path)
{
    tci_mutex_lock(&h->lock);
    bool is = h->has_overflow;
    for (size_t i = 0; !is && i < h->n; i++)
        is = is_at_or_below(path, h->paths[i]);
    tci_mutex_unlock(&h->lock);
    return is;
}

static void forget(heard *h)
{
    tci_mutex_lock(&h->lock);
    h->n = 0;
    h->has_overflow = false;
    tci_mutex_unlock(&h->lock);
}

static void assert_covered(heard *h, const char *name)
{
    tc_str path = below(h->b, name);
    int64_t until = tci_clock_mono_ns() + (int64_t)COVER_MS * 1000000;
    for (;;) {
        unsigned seen = tci_wake_count(&h->wake);
        if (is_covered(h, path))
            break;
        if (tci_clock_mono_ns() > until)
            fail_msg("nothing was told of %s", name);
        tci_wake_wait(&h->wake, seen, until);
    }
    forget(h);
}

/* Something else is changed and told of afterwards: what was to be told of before has been. */
static void assert_not_told(heard *h, const char *part)
{
    tci_mutex_lock(&h->lock);
    for (size_t i = 0; i < h->n; i++)
        if (tci_str_find(h->paths[i], text(part)) < h->paths[i].len)
            fail_msg("'%.*s' was told of", TC_STR_ARG(h->paths[i]));
    tci_mutex_unlock(&h->lock);
}

static void move(bench *b, const char *from, const char *to)
{
    assert_ok(b->f, tci_file_rename(TCI_FILE_CWD, below(b, from), TCI_FILE_CWD, below(b, to),
                                    TCI_RENAME_REPLACE, &b->f->err));
}

static void discard(bench *b, const char *name)
{
    assert_ok(b->f, tci_file_unlink(TCI_FILE_CWD, below(b, name), &b->f->err));
}

static tc_watch_target target(const char *path, bool is_recursive)
{
    return (tc_watch_target){.path = text(path), .is_recursive = is_recursive};
}

/* ---- one file ---- */

static void watch_one_file(bench *b, tc_watch_mode mode)
{
    tc_watch_target t = target("f", false);
    heard *h = start(b, &t, 1, mode);
    assert_true(tc_watcher_mode(h->w) != TC_WATCH_AUTO);
    put_file(b, "f", text("one"));
    assert_covered(h, "f");
    put_file(b, "f", text("more"));
    assert_covered(h, "f");
    put_file(b, "new", text("replaced"));
    move(b, "new", "f");
    assert_covered(h, "f");
    put_file(b, "f", text("after it was replaced"));
    assert_covered(h, "f");
    discard(b, "f");
    assert_covered(h, "f");
    stop(h);
}

static void a_file_that_is_missing_at_first(void **state)
{
    bench b;
    bench_open(&b, *state, "onefile");
    watch_one_file(&b, TC_WATCH_AUTO);
    watch_one_file(&b, TC_WATCH_POLLING);
    bench_close(&b);
}

static void a_file_whose_folders_are_missing(void **state)
{
    bench b;
    bench_open(&b, *state, "deep");
    tc_watch_target t = target("a/b/c/AGENTS.md", false);
    heard *h = start(&b, &t, 1, TC_WATCH_AUTO);
    put_dir(&b, "a");
    put_dir(&b, "a/b");
    put_dir(&b, "a/b/c");
    put_file(&b, "a/b/c/AGENTS.md", text("x"));
    assert_covered(h, "a/b/c/AGENTS.md");
    stop(h);
    bench_close(&b);
}

static void the_file_behind_a_link(void **state)
{
    bench b;
    bench_open(&b, *state, "behind");
    put_dir(&b, "else");
    put_dir(&b, "here");
    put_file(&b, "else/f", text("one"));
    put_link(&b, "../else/f", "here/link");
    tc_watch_target t = target("here/link", false);
    heard *h = start(&b, &t, 1, TC_WATCH_AUTO);
    put_file(&b, "else/f", text("rewritten"));
    assert_covered(h, "here/link");
    stop(h);
    bench_close(&b);
}

/* ---- directories ---- */

static void a_tree_that_grows(void **state)
{
    bench b;
    bench_open(&b, *state, "grows");
    tc_watch_target t = target(".", true);
    heard *h = start(&b, &t, 1, TC_WATCH_AUTO);
    put_dir(&b, "a");
    put_dir(&b, "a/b");
    put_file(&b, "a/b/f", text("x"));
    assert_covered(h, "a/b/f");
    put_file(&b, "a/b/f", text("rewritten"));
    assert_covered(h, "a/b/f");
    put_dir(&b, "a/b/c");
    put_file(&b, "a/b/c/g", text("x"));
    assert_covered(h, "a/b/c/g");
    stop(h);
    bench_close(&b);
}

static void a_folder_that_goes_away_and_comes_back(void **state)
{
    bench b;
    bench_open(&b, *state, "comesback");
    put_dir(&b, "proj");
    put_dir(&b, "proj/.pi");
    put_dir(&b, "proj/.pi/skills");
    tc_watch_target t = target("proj/.pi/skills", true);
    heard *h = start(&b, &t, 1, TC_WATCH_AUTO);
    move(&b, "proj/.pi", "proj/away");
    assert_covered(h, "proj/.pi/skills");
    put_dir(&b, "proj/.pi");
    put_dir(&b, "proj/.pi/skills");
    assert_covered(h, "proj/.pi/skills");
    put_file(&b, "proj/.pi/skills/s.md", text("x"));
    assert_covered(h, "proj/.pi/skills/s.md");
    put_file(&b, "proj/.pi/skills/s.md", text("rewritten"));
    assert_covered(h, "proj/.pi/skills/s.md");
    stop(h);
    bench_close(&b);
}

static void what_is_excluded_is_not_told_of(void **state)
{
    bench b;
    tc_str names = TC_STR("node_modules");
    bench_open(&b, *state, "excludes");
    put_dir(&b, "node_modules");
    put_file(&b, ".hidden", text("x"));
    tc_watch_target t = target(".", true);
    t.exclude_hidden = true;
    t.exclude_names = (tc_strs){&names, 1};
    heard *h = start(&b, &t, 1, TC_WATCH_AUTO);
    put_file(&b, "node_modules/i.js", text("x"));
    put_file(&b, ".hidden", text("rewritten"));
    put_file(&b, "visible", text("x"));
    tc_str path = below(&b, "visible");
    while (!is_covered(h, path))
        tci_wake_wait(&h->wake, tci_wake_count(&h->wake),
                      tci_clock_mono_ns() + (int64_t)POLL_MS * 1000000);
    assert_not_told(h, "/node_modules/");
    assert_not_told(h, "/.hidden");
    forget(h);
    move(&b, ".hidden", "shown");
    assert_covered(h, "shown");
    stop(h);
    bench_close(&b);
}

static void the_wider_of_two_targets_counts(void **state)
{
    bench b;
    bench_open(&b, *state, "wider");
    put_dir(&b, "d");
    put_dir(&b, "d/sub");
    tc_watch_target t[] = {target("d", false), target("d", true)};
    heard *h = start(&b, t, 2, TC_WATCH_AUTO);
    put_file(&b, "d/sub/f", text("x"));
    assert_covered(h, "d/sub/f");
    stop(h);
    bench_close(&b);
}

static void a_folder_replaced_by_another(void **state)
{
    bench b;
    bench_open(&b, *state, "another");
    put_dir(&b, "d");
    put_dir(&b, "other");
    if (!b.f->p->is_pi) /* two empty ones of one moment cannot be told apart over EIP */
        put_file(&b, "other/inside", text("x"));
    tc_watch_target t = target("d", true);
    heard *h = start(&b, &t, 1, TC_WATCH_AUTO);
    move(&b, "d", "old");
    move(&b, "other", "d");
    assert_covered(h, b.f->p->is_pi ? "d" : "d/inside");
    put_file(&b, "d/f", text("x"));
    assert_covered(h, "d/f");
    put_file(&b, "d/f", text("rewritten"));
    assert_covered(h, "d/f");
    stop(h);
    bench_close(&b);
}

/* ---- ends ---- */

static void nothing_is_told_after_close(void **state)
{
    bench b;
    bench_open(&b, *state, "closed");
    tc_watch_target t = target(".", true);
    heard *h = start(&b, &t, 1, TC_WATCH_AUTO);
    tc_watcher_close(h->w);
    tc_watcher_close(h->w);
    forget(h);
    put_file(&b, "late", text("x"));
    tci_wake_wait(&h->wake, tci_wake_count(&h->wake),
                  tci_clock_mono_ns() + (int64_t)MOMENT_MS * 1000000);
    assert_int_equal(h->n, 0);
    stop(h);
    bench_close(&b);
}

static void a_watcher_outlives_the_context_that_opened_it(void **state)
{
    bench b;
    tc_ctx *ctx;
    tc_watcher *w;
    bench_open(&b, *state, "outlives");
    assert_ok(b.f, tc_ctx_new(30000, &ctx, &b.f->err));
    tc_call call = TC_CALL(ctx, b.f->r);
    heard *h = calloc(1, sizeof *h);
    h->b = &b;
    tci_mutex_init(&h->lock);
    tci_arena_init(&h->arena, 0);
    tc_watch_target t = target("f", false);
    tc_watch_options o = {.size = sizeof o, .poll_interval_ms = POLL_MS};
    assert_ok(b.f, tc_env_watch(b.env, &call, &t, 1, &o, hear, h, &w, &b.f->err));
    tc_ctx_cancel(ctx);
    tc_ctx_free(ctx);
    h->w = w;
    put_file(&b, "f", text("x"));
    assert_covered(h, "f");
    stop(h);
    bench_close(&b);
}

static void too_many_directories_are_refused(void **state)
{
    bench b;
    tc_watcher *w = NULL;
    bench_open(&b, *state, "toomany");
    put_dir(&b, "1");
    put_dir(&b, "2");
    tc_watch_target t = target(".", true);
    tc_watch_options o = {.size = sizeof o, .max_directories = 2};
    assert_word(&b, TC_ENV_INVALID,
                tc_env_watch(b.env, &b.call, &t, 1, &o, hear, NULL, &w, &b.f->err));
    bench_close(&b);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_file_that_is_missing_at_first),
    cmocka_unit_test(a_file_whose_folders_are_missing),
    cmocka_unit_test(the_file_behind_a_link),
    cmocka_unit_test(a_tree_that_grows),
    cmocka_unit_test(a_folder_that_goes_away_and_comes_back),
    cmocka_unit_test(what_is_excluded_is_not_told_of),
    cmocka_unit_test(the_wider_of_two_targets_counts),
    cmocka_unit_test(a_folder_replaced_by_another),
    cmocka_unit_test(nothing_is_told_after_close),
    cmocka_unit_test(a_watcher_outlives_the_context_that_opened_it),
    cmocka_unit_test(too_many_directories_are_refused),
};

int main(int argc, char **argv)
{
    return RUN_SUITE(argc, argv, tests);
}
