/* SPDX-License-Identifier: Apache-2.0
 *
 * The operation watch as a client sees it: events, the end, and changes too large for a frame. */
#include "pienv_peer.h"

#include "plat/clock.h"
#include "plat/watch.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct fix {
    pi_peer peer;
    char root[256];
} fix;

static int setup(void **state)
{
    static fix f;
    const char *base = getenv("TC_TEST_DIR");
    if (base == NULL)
        return -1;
    memset(&f, 0, sizeof f);
    (void)snprintf(f.root, sizeof f.root, "%s/XXXXXX", base);
    if (mkdtemp(f.root) == NULL)
        return -1;
    pi_peer_open(&f.peer, false, NULL);
    *state = &f;
    return 0;
}

static int discard_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st;
    (void)flag;
    (void)ftw;
    return remove(path);
}

static int teardown(void **state)
{
    fix *f = *state;
    tci_notifier_test_limit(UINT32_MAX);
    pi_peer_close(&f->peer);
    return nftw(f->root, discard_one, 16, FTW_DEPTH | FTW_PHYS);
}

static const char *at(const fix *f, const char *name)
{
    static char path[4][4096];
    static unsigned next;
    char *to = path[next++ % 4];
    (void)snprintf(to, sizeof path[0], "%s/%s", f->root, name);
    return to;
}

static void put(const fix *f, const char *name, const char *text)
{
    FILE *out = fopen(at(f, name), "w");
    assert_non_null(out);
    assert_true(fputs(text, out) >= 0);
    assert_int_equal(fclose(out), 0);
}

static void make_dir(const fix *f, const char *name)
{
    assert_int_equal(mkdir(at(f, name), 0777), 0);
}

static bool is_kind(const pi_frame *e, const char *kind)
{
    return tci_str_eq(pi_frame_str(e, "kind"), tci_str(kind));
}

static bool is_overflow(const pi_frame *e)
{
    return pi_frame_get(e, "overflow") != NULL;
}

static bool has_path(const pi_frame *e, const char *path)
{
    const tci_json *paths = pi_frame_get(e, "paths");
    for (size_t i = 0; paths != NULL && i < paths->count; i++)
        if (tci_str_eq(paths->u.items[i].u.text, tci_str(path)))
            return true;
    return false;
}

/* Start, and take the first event. */
static uint32_t open_watch(fix *f, const char *name, const char *more, const char *mode)
{
    uint32_t id = pi_peer_send(&f->peer,
                               "{\"op\":\"watch\",\"targets\":[{\"path\":\"%s\",\"recursive\":true,"
                               "\"exclude\":{\"hidden\":true,\"names\":[\"node_modules\"]}}]%s}",
                               at(f, name), more);
    pi_frame *e = pi_peer_next(&f->peer, id);
    assert_int_equal(e->type, TCI_PIENV_EVENT);
    assert_true(is_kind(e, "ready"));
    assert_true(tci_str_eq(pi_frame_str(e, "mode"), tci_str(mode)));
    pi_frame_free(e);
    return id;
}

/* Wait for a change of path; an overflow counts when may_overflow is set. */
static void expect(fix *f, uint32_t id, const char *name, bool may_overflow)
{
    for (bool is_there = false; !is_there;) {
        pi_frame *e = pi_peer_next(&f->peer, id);
        assert_int_equal(e->type, TCI_PIENV_EVENT);
        assert_true(is_kind(e, "change"));
        is_there = has_path(e, at(f, name)) || (may_overflow && is_overflow(e));
        pi_frame_free(e);
    }
}

static void finish(fix *f, uint32_t id)
{
    pi_peer_cancel(&f->peer, id, false);
    pi_frame *r = pi_peer_answer(&f->peer, id);
    assert_int_equal(r->type, TCI_PIENV_RESULT);
    assert_string_equal(r->json, "{}");
    pi_frame_free(r);
}

static const char *const polling = ",\"mode\":\"polling\",\"pollIntervalMs\":100";
static const char *const native = ",\"mode\":\"native\"";

static void test_events(void **state)
{
    fix *f = *state;
    make_dir(f, "w");
    uint32_t one = open_watch(f, "w", native, "native");
    uint32_t two = open_watch(f, "w", polling, "polling");
    put(f, "w/.hidden", "x");
    put(f, "w/a.txt", "x");
    expect(f, one, "w/a.txt", false);
    expect(f, two, "w/a.txt", false);
    finish(f, one);
    put(f, "w/a.txt", "xx");
    expect(f, two, "w/a.txt", false);
    assert_false(pi_peer_has(&f->peer, one));
    finish(f, two);
    pi_peer_cancel(&f->peer, two, false); /* unknown by now */
    pi_frame_free(pi_peer_call(&f->peer, "{\"op\":\"lstat\",\"path\":\"%s\"}", at(f, "w")));
}

static void test_cancel_right_behind(void **state)
{
    fix *f = *state;
    for (int i = 0; i < 50; i++) {
        uint32_t id =
            pi_peer_send(&f->peer, "{\"op\":\"watch\",\"targets\":[{\"path\":\"%s\"}]}", f->root);
        pi_peer_cancel(&f->peer, id, i % 2 != 0);
        pi_frame *r = pi_peer_answer(&f->peer, id);
        assert_int_equal(r->type, TCI_PIENV_RESULT);
        pi_frame_free(r);
    }
}

static void test_end_with_watchers(void **state)
{
    fix *f = *state;
    make_dir(f, "w");
    (void)open_watch(f, "w", native, "native");
    (void)open_watch(f, "w", polling, "polling");
    (void)pi_peer_send(&f->peer, "{\"op\":\"watch\",\"targets\":[{\"path\":\"%s\"}]}", f->root);
    put(f, "w/a.txt", "x");
    assert_int_equal(pi_peer_finish(&f->peer), TCI_PI_END_EOF);
}

static void test_refusals(void **state)
{
    fix *f = *state;
    pi_peer *p = &f->peer;
    pi_peer_call_fails(p, "EINVAL", "{\"op\":\"watch\"}");
    pi_peer_call_fails(p, "EINVAL", "{\"op\":\"watch\",\"targets\":[{}]}");
    pi_peer_call_fails(p, "EINVAL", "{\"op\":\"watch\",\"targets\":[{\"path\":7}]}");
    make_dir(f, "w");
    make_dir(f, "w/a");
    make_dir(f, "w/b");
    uint32_t id = pi_peer_send(p,
                               "{\"op\":\"watch\",\"maxDirectories\":2,\"targets\":[{\"path\":\"%"
                               "s\",\"recursive\":true}]}",
                               at(f, "w"));
    pi_frame *e = pi_peer_next(p, id);
    pi_frame_is_error(e, "EINVAL");
    assert_true(
        tci_str_eq(pi_frame_str(e, "message"), TC_STR("watched paths exceed 2 directories")));
    pi_frame_free(e);
}

static void test_limit_reached_later(void **state)
{
    fix *f = *state;
    make_dir(f, "w");
    uint32_t id = open_watch(f, "w", ",\"mode\":\"native\",\"maxDirectories\":2", "native");
    make_dir(f, "w/a");
    make_dir(f, "w/b");
    make_dir(f, "w/c");
    for (bool is_error = false; !is_error;) {
        pi_frame *e = pi_peer_next(&f->peer, id);
        assert_int_equal(e->type, TCI_PIENV_EVENT);
        is_error = is_kind(e, "error");
        if (is_error)
            assert_true(tci_str_eq(pi_frame_str(e, "code"), TC_STR("invalid")));
        pi_frame_free(e);
    }
    pi_frame *r = pi_peer_next(&f->peer, id);
    assert_int_equal(r->type, TCI_PIENV_RESULT);
    pi_frame_free(r);
}

static void test_case_41_out_of_watches(void **state)
{
    fix *f = *state;
    char name[32];
    make_dir(f, "w");
    for (int i = 0; i < 200; i++) {
        (void)snprintf(name, sizeof name, "w/%d", i);
        make_dir(f, name);
    }
    tci_notifier_test_limit(100);
    uint32_t id = pi_peer_send(&f->peer,
                               "{\"op\":\"watch\",\"pollIntervalMs\":100,\"mode\":\"native\","
                               "\"targets\":[{\"path\":\"%s\",\"recursive\":true}]}",
                               at(f, "w"));
    pi_frame *e = pi_peer_next(&f->peer, id);
    assert_true(is_kind(e, "change"));
    assert_true(is_overflow(e));
    assert_true(tci_str_eq(pi_frame_str(e, "mode"), TC_STR("polling")));
    pi_frame_free(e);
    e = pi_peer_next(&f->peer, id);
    assert_true(is_kind(e, "ready"));
    assert_true(tci_str_eq(pi_frame_str(e, "mode"), TC_STR("polling")));
    pi_frame_free(e);
    put(f, "w/150/x", "x");
    expect(f, id, "w/150/x", false);
    finish(f, id);
}

/* Say that we live, and let the server hear it. */
static void keep_alive(fix *f)
{
    pi_peer_send_frame(&f->peer, TCI_PIENV_PING, 0, TC_STR("{}"), TC_STR(""));
    tci_loop_turn(f->peer.loop, 0);
}

/* More than fits a frame: a byte of these names has six of JSON, and the folders are many. */
static void change_too_large(void **state, const char *more, const char *mode)
{
    enum { DEPTH = 13, NAME = 250, FILES = 1000 };
    fix *f = *state;
    char name[4096] = "next";
    size_t len = strlen(name);
    make_dir(f, "w");
    make_dir(f, "next");
    uint32_t id = open_watch(f, "w", more, mode);
    for (int i = 0; i < DEPTH; i++) {
        name[len++] = '/';
        memset(name + len, '\1', NAME);
        len += NAME;
        name[len] = '\0';
        make_dir(f, name);
    }
    for (int i = 0; i < FILES; i++) {
        (void)snprintf(name + len, sizeof name - len, "/%05d", i);
        put(f, name, "");
        if (i % 100 == 0)
            keep_alive(f);
    }
    assert_int_equal(rename(at(f, "next"), at(f, "w/sub")), 0);
    for (bool is_there = false; !is_there;) {
        pi_frame *e = pi_peer_next(&f->peer, id);
        assert_int_equal(e->type, TCI_PIENV_EVENT);
        assert_true(is_kind(e, "change"));
        is_there = is_overflow(e);
        if (is_there) {
            assert_null(pi_frame_get(e, "mode")); /* it goes on as before */
            assert_null(pi_frame_get(e, "paths"));
        }
        pi_frame_free(e);
    }
    put(f, "w/sub/after.txt", "x");
    expect(f, id, "w/sub/after.txt", false);
    put(f, "w/sub/after.txt", "xx");
    expect(f, id, "w/sub/after.txt", false);
    finish(f, id);
    pi_frame_free(pi_peer_call(&f->peer, "{\"op\":\"lstat\",\"path\":\"%s\"}", at(f, "w")));
}

static void test_change_too_large_for_a_frame(void **state)
{
    change_too_large(state, native, "native");
}

static void test_change_too_large_when_polling(void **state)
{
    change_too_large(state, polling, "polling");
}

/* A peer that does not read for a while gets everything afterwards, at once. */
static void test_peer_that_does_not_read(void **state)
{
    fix *f = *state;
    char name[300], text[16];
    make_dir(f, "w");
    uint32_t id = open_watch(f, "w", native, "native");
    memset(name, 'n', sizeof name);
    memcpy(name, "w/", 2);
    for (int round = 0; round < 12; round++) {
        (void)snprintf(text, sizeof text, "%*s", round % 8, "x");
        for (int i = 0; i < 300; i++) {
            (void)snprintf(name + 200, sizeof name - 200, "%03d", i);
            put(f, name, text);
        }
        keep_alive(f);
        for (int i = 0; i < 8; i++)
            tci_loop_turn(f->peer.loop, 10);
    }
    put(f, "w/last", "x");
    expect(f, id, "w/last", false);
    finish(f, id);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_events),
        TEST(test_cancel_right_behind),
        TEST(test_end_with_watchers),
        TEST(test_refusals),
        TEST(test_limit_reached_later),
        TEST(test_case_41_out_of_watches),
        TEST(test_change_too_large_for_a_frame),
        TEST(test_change_too_large_when_polling),
        TEST(test_peer_that_does_not_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
