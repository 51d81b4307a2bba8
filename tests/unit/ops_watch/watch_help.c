/* SPDX-License-Identifier: Apache-2.0 */
#include "watch_help.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NOBODY = 65534 };

tci_ops_watch_mode help_native = TCI_OPS_WATCH_NATIVE, help_polling = TCI_OPS_WATCH_POLLING;

int fix_setup(void **state)
{
    tc_err err;
    fix *f = tci_new(fix);
    const char *base = getenv("TC_TEST_DIR");
    if (f == NULL || base == NULL)
        return -1;
    f->mode = *(const tci_ops_watch_mode *)*state;
    (void)snprintf(f->root, sizeof f->root, "%s/XXXXXX", base);
    *state = f;
    (void)umask(0);
    if (mkdtemp(f->root) == NULL || chmod(f->root, 0777) < 0)
        return -1;
    return tci_loop_new(&f->loop, &err);
}

int fix_teardown(void **state)
{
    fix *f = *state;
    be_nobody(false);
    tci_notifier_test_limit(UINT32_MAX);
    tci_notifier_test_refuse(false);
    while (tci_loop_pending_jobs(f->loop) > 0)
        tci_loop_turn(f->loop, 50);
    tci_loop_free(f->loop);
    discard(f, ".");
    tci_free(f);
    return 0;
}

const char *at(const fix *f, const char *path)
{
    static char full[4][4096];
    static unsigned next;
    char *to = full[next++ % 4];
    int n = strcmp(path, ".") == 0 ? snprintf(to, sizeof full[0], "%s", f->root)
                                   : snprintf(to, sizeof full[0], "%s/%s", f->root, path);
    assert_true(n > 0 && (size_t)n < sizeof full[0]);
    return to;
}

static void make_all(char *full, size_t from)
{
    for (char *p = full + from; (p = strchr(p, '/')) != NULL; p++) {
        *p = '\0';
        if (mkdir(full, 0777) < 0)
            assert_int_equal(errno, EEXIST);
        *p = '/';
    }
}

void put(const fix *f, const char *path, const char *text)
{
    char full[4096];
    (void)snprintf(full, sizeof full, "%s", at(f, path));
    make_all(full, strlen(f->root) + 1);
    int fd = open(full, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    assert_int_equal(close(fd), 0);
}

void make_dir(const fix *f, const char *path)
{
    char full[4096];
    (void)snprintf(full, sizeof full, "%s/", at(f, path));
    make_all(full, strlen(f->root) + 1);
}

void make_link(const fix *f, const char *text, const char *path)
{
    assert_int_equal(symlink(text, at(f, path)), 0);
}

void move(const fix *f, const char *from, const char *to)
{
    assert_int_equal(rename(at(f, from), at(f, to)), 0);
}

static int discard_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st;
    (void)flag;
    (void)ftw;
    return remove(path);
}

void discard(const fix *f, const char *path)
{
    assert_int_equal(nftw(at(f, path), discard_one, 16, FTW_DEPTH | FTW_PHYS), 0);
}

void set_mode(const fix *f, const char *path, unsigned mode)
{
    assert_int_equal(chmod(at(f, path), mode), 0);
}

void set_modified(const fix *f, const char *path, tci_instant t)
{
    const struct timespec times[] = {{t.sec, t.nsec}, {t.sec, t.nsec}};
    assert_int_equal(utimensat(AT_FDCWD, at(f, path), times, 0), 0);
}

void be_nobody(bool is_nobody)
{
    if (getuid() == 0) /* in every thread of the process: setxid is so with libc */
        assert_int_equal(seteuid(is_nobody ? NOBODY : 0), 0);
}

/* ---- watchers ---- */

tci_ops_watch_target target(const fix *f, const char *path, bool is_recursive)
{
    return (tci_ops_watch_target){.path = tci_str(at(f, path)), .is_recursive = is_recursive};
}

tci_ops_watch_options options(const fix *f, const tci_ops_watch_target *targets, size_t n)
{
    return (tci_ops_watch_options){.targets = targets,
                                   .ntargets = n,
                                   .mode = f->mode,
                                   .poll_interval_ms = HELP_POLL_MS,
                                   .max_directories = TCI_OPS_WATCH_DIRECTORIES};
}

void seen_event(void *user, const tci_ops_watch_event *e)
{
    seen *s = user;
    assert_false(s->has_failed);
    s->mode = e->mode;
    switch (e->kind) {
    case TCI_OPS_WATCH_READY:
        s->nready++;
        break;
    case TCI_OPS_WATCH_FAILED:
        s->has_failed = true;
        s->error = *e->error;
        break;
    case TCI_OPS_WATCH_CHANGE:
        s->nchanges++;
        s->noverflows += e->is_overflow;
        s->nswitches += e->has_switched;
        if (e->has_switched)
            s->why = *e->why;
        assert_true(e->is_overflow == (e->npaths == 0));
        for (size_t i = 0; i < e->npaths; i++) {
            if (i > 0 && tci_str_cmp(e->paths[i - 1], e->paths[i]) >= 0)
                s->was_sorted = false; /* bytes; tests with other orders look themselves */
            tci_buf_append_str(&s->paths, e->paths[i]);
            tci_buf_append_byte(&s->paths, '\0');
            s->npaths++;
        }
        break;
    }
    if (s->closes_in_event)
        seen_close(s);
}

void seen_prepare(seen *s, fix *f)
{
    *s = (seen){.f = f, .was_sorted = true};
    tci_buf_init(&s->paths, (size_t)1 << 30);
}

void seen_start(seen *s, fix *f, const tci_ops_watch_options *o)
{
    tc_err err;
    seen_prepare(s, f);
    if (tci_ops_watch_open(f->loop, o, seen_event, s, &s->watch, &err) < 0)
        fail_msg("open: %s", err.msg);
}

void seen_open(seen *s, fix *f, const tci_ops_watch_options *o)
{
    seen_start(s, f, o);
    WAIT_FOR(f, s->nready == 1 || s->has_failed);
    if (s->has_failed)
        fail_msg("open: %s", s->error.msg);
}

void seen_target(seen *s, fix *f, const char *path, bool is_recursive)
{
    tci_ops_watch_target t = target(f, path, is_recursive);
    tci_ops_watch_options o = options(f, &t, 1);
    seen_open(s, f, &o);
}

void seen_close(seen *s)
{
    tci_ops_watch_close(s->watch);
    s->watch = NULL;
    if (!s->closes_in_event)
        tci_buf_done(&s->paths);
}

void seen_forget(seen *s)
{
    tci_buf_clear(&s->paths);
    s->npaths = s->nchanges = s->noverflows = 0;
}

static bool is_below(tc_str path, tc_str top)
{
    return tci_str_starts(path, top) && (path.len == top.len || path.ptr[top.len] == '/');
}

bool seen_covers(const seen *s, const char *path)
{
    if (s->noverflows > 0)
        return true;
    for (size_t i = 0, from = 0; i < s->npaths; i++) {
        tc_str one = tci_str(s->paths.ptr + from);
        if (is_below(tci_str(path), one))
            return true;
        from += one.len + 1;
    }
    return false;
}

bool seen_has(const seen *s, const char *path)
{
    for (size_t i = 0, from = 0; i < s->npaths; i++) {
        tc_str one = tci_str(s->paths.ptr + from);
        if (tci_str_eq(one, tci_str(path)))
            return true;
        from += one.len + 1;
    }
    return false;
}

bool seen_mentions(const seen *s, const char *text)
{
    tc_str all = tci_buf_str(&s->paths);
    return tci_str_find(all, tci_str(text)) < all.len;
}

void seen_expect(seen *s, const char *path)
{
    char full[4096];
    (void)snprintf(full, sizeof full, "%s", at(s->f, path));
    int64_t limit = tci_clock_mono_ns() + (int64_t)HELP_LIMIT_MS * 1000 * 1000;
    while (!seen_covers(s, full)) {
        if (s->has_failed)
            fail_msg("the watcher failed: %s", s->error.msg);
        if (tci_clock_mono_ns() > limit)
            fail_msg("'%s' was not told", path);
        tci_loop_turn(s->f->loop, 50);
    }
    seen_forget(s);
}
