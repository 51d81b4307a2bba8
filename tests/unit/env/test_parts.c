/* SPDX-License-Identifier: Apache-2.0
 *
 * Paths of other machines by name, the scan of a file's lines, and live input's queue. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "env/methods_int.h"
#include "env/scan.h"
#include <string.h>

/* ---- paths ---- */

static tci_arena arena;

static int set_up(void **state)
{
    TCI_UNUSED(state);
    tci_arena_init(&arena, 0);
    return 0;
}

static int tear_down(void **state)
{
    TCI_UNUSED(state);
    tci_arena_done(&arena);
    return 0;
}

static void assert_resolved(const tci_env_place *place, const char *cwd, const char *path,
                            const char *expected)
{
    tc_err err;
    tc_str out;
    int rc = tci_env_resolve_at(place, tci_str(cwd), tci_str(path), &arena, &out, &err);
    if (rc != 0 || !tci_str_eq(out, tci_str(expected)))
        fail_msg("'%s' in '%s' is '%.*s' instead of '%s'", path, cwd, rc == 0 ? (int)out.len : 0,
                 rc == 0 ? out.ptr : "", expected);
}

static void posix_paths(void **state)
{
    static const char *const table[][2] = {
        {"", "/work"},
        {".", "/work"},
        {"~", "/home/me"},
        {"~/", "/home/me"},
        {"~/a/b", "/home/me/a/b"},
        {"~/../..", "/"},
        {"~x", "/work/~x"},
        {"~\\a", "/work/~\\a"},
        {"a//b/", "/work/a/b"},
        {"../x", "/x"},
        {"../../../x", "/x"},
        {"/abs/../y", "/y"},
        {"file:///tmp/a%20b", "/tmp/a b"},
        {"FILE:///tmp", "/tmp"},
        {"file:///tmp/a?q#f", "/tmp/a"},
        {"file://LocalHost/etc", "/etc"},
        {"file://host/x", "/work/file:/host/x"},
        {"file:///a%2Fb", "/work/file:/a%2Fb"},
        {"file:///a%2", "/work/file:/a%2"},
        {"file:relative", "/work/file:relative"},
    };
    tci_env_place place = {.home = TC_STR("/home/me")};
    TCI_UNUSED(state);
    for (size_t i = 0; i < TCI_ARRAY_LEN(table); i++)
        assert_resolved(&place, "/work", table[i][0], table[i][1]);
}

static void windows_paths(void **state)
{
    static const char *const table[][2] = {
        {"", "C:\\work"},
        {"a/b\\c\\", "C:\\work\\a\\b\\c"},
        {"..\\..\\..", "C:\\"},
        {"\\x", "C:\\x"},
        {"/x/../y", "C:\\y"},
        {"D:\\a\\..\\b", "D:\\b"},
        {"d:/a", "d:\\a"},
        {"c:x", "c:\\work\\x"},
        {"D:rel", "D:\\data\\rel"},
        {"E:rel", "E:\\rel"},
        {"~", "C:\\Users\\me"},
        {"~\\a", "C:\\Users\\me\\a"},
        {"~/a", "C:\\Users\\me\\a"},
        {"\\\\server\\share\\a\\..\\..\\b", "\\\\server\\share\\b"},
        {"file:///C:/a%20b", "C:\\a b"},
        {"~x", "C:\\work\\~x"},
    };
    tci_env_place place = {
        .is_windows = true, .home = TC_STR("C:\\Users\\me"), .first_cwd = TC_STR("D:\\data")};
    TCI_UNUSED(state);
    for (size_t i = 0; i < TCI_ARRAY_LEN(table); i++)
        assert_resolved(&place, "C:\\work", table[i][0], table[i][1]);
    assert_true(tci_win_is_absolute(TC_STR("C:/x")));
    assert_true(tci_win_is_absolute(TC_STR("\\\\s\\h")));
    assert_false(tci_win_is_absolute(TC_STR("C:x")));
    assert_false(tci_win_is_absolute(TC_STR("\\x")));
}

static void windows_paths_are_joined(void **state)
{
    tc_err err;
    tc_str out;
    tc_str one[] = {TC_STR("C:\\tmp"), TC_STR("..\\x"), TC_STR("y/")};
    tc_str two[] = {TC_STR("a"), TC_STR("..\\..\\b")};
    TCI_UNUSED(state);
    assert_int_equal(tci_env_join(true, one, 3, &arena, &out, &err), 0);
    assert_true(tci_str_eq(out, TC_STR("C:\\x\\y\\")));
    assert_int_equal(tci_env_join(true, two, 2, &arena, &out, &err), 0);
    assert_true(tci_str_eq(out, TC_STR("..\\b")));
    assert_int_equal(tci_env_join(true, two, 0, &arena, &out, &err), 0);
    assert_true(tci_str_eq(out, TC_STR(".")));
}

static void a_path_needs_a_base_and_no_nul(void **state)
{
    tci_env_place place = {.is_windows = false};
    tc_err err;
    tc_str out;
    TCI_UNUSED(state);
    assert_int_equal(tci_env_resolve_at(&place, (tc_str){0}, TC_STR("x"), &arena, &out, &err),
                     TC_E_NOT_READY);
    assert_int_equal(tci_env_resolve_at(&place, TC_STR("/"), TC_STR("a\0b"), &arena, &out, &err),
                     TC_E_INVALID);
    assert_int_equal(tci_env_resolve_at(&place, TC_STR("/"), TC_STR("~"), &arena, &out, &err),
                     TC_E_NOT_FOUND);
}

/* ---- the scan ---- */

typedef struct scan_case {
    uint64_t start_line, end_line;
    tc_line_scan found;
} scan_case;

static void a_scan_does_not_see_the_pieces(void **state)
{
    static const char file[] = "\xEF\xBB\xBF"
                               "a\n\xE2\x82\n\n\xEF\xBB\xBF"
                               "b\n\xC3\xA9";
    static const scan_case cases[] = {
        {0, UINT64_MAX, {4, 0, 16, 4, 14, 14, 1}},
        {1, 3, {4, 5, 8, 7, 8, 4, 3}},
        {9, UINT64_MAX, {4, 16, 16, 16, 16, 0, 0}},
    };
    TCI_UNUSED(state);
    for (size_t i = 0; i < TCI_ARRAY_LEN(cases); i++)
        for (size_t piece = 1; piece <= sizeof file; piece++) {
            tci_scan s = {.start_line = cases[i].start_line, .end_line = cases[i].end_line};
            tc_str rest = {file, sizeof file - 1};
            for (; rest.len > 0; rest = tci_str_sub(rest, piece, SIZE_MAX))
                tci_scan_feed(&s, tci_str_sub(rest, 0, piece));
            tc_line_scan found = tci_scan_end(&s);
            const tc_line_scan *want = &cases[i].found;
            assert_int_equal(found.newlines, want->newlines);
            assert_int_equal(found.start, want->start);
            assert_int_equal(found.end, want->end);
            assert_int_equal(found.first_line_end, want->first_line_end);
            assert_int_equal(found.last_line_start, want->last_line_start);
            assert_int_equal(found.selected_bytes, want->selected_bytes);
            assert_int_equal(found.first_line_bytes, want->first_line_bytes);
            tci_scan_done(&s);
        }
}

static void an_empty_file_has_one_empty_line(void **state)
{
    tci_scan s = {.start_line = 0, .end_line = UINT64_MAX};
    TCI_UNUSED(state);
    tc_line_scan found = tci_scan_end(&s);
    assert_int_equal(found.newlines + found.start + found.end + found.selected_bytes, 0);
    tci_scan_done(&s);
}

/* ---- live input ---- */

static void input_is_taken_as_it_was_written(void **state)
{
    tc_input *in;
    tc_err err;
    char buf[8];
    size_t n = 0;
    TCI_UNUSED(state);
    assert_int_equal(tc_input_new(&in, &err), 0);
    assert_int_equal(tc_input_write(in, NULL, "0123456789", 10, &err), 0);
    assert_int_equal(tci_input_take(in, buf, sizeof buf, &n, &err), 0);
    assert_int_equal(n, 8);
    assert_memory_equal(buf, "01234567", 8);
    tc_input_close(in);
    tc_input_close(in);
    assert_int_equal(tc_input_write(in, NULL, "x", 1, &err), TC_E_CLOSED);
    assert_int_equal(tci_input_take(in, buf, sizeof buf, &n, &err), 0);
    assert_int_equal(n, 2);
    assert_int_equal(tci_input_take(in, buf, sizeof buf, &n, &err), 0);
    assert_int_equal(n, 0);
    tc_input_free(in);
}

typedef struct writer {
    tc_input *in;
    tc_ctx *ctx;
    int rc;
} writer;

static void write_much(void *arg)
{
    writer *w = arg;
    tc_err err;
    char piece[4096];
    memset(piece, 'x', sizeof piece);
    for (int i = 0; i < 1000 && w->rc == 0; i++)
        w->rc = tc_input_write(w->in, w->ctx, piece, sizeof piece, &err);
}

/* A writer that waits for room is let go when the command is over, and when its own time is. */
static void a_waiting_writer_is_let_go(void **state)
{
    tc_err err;
    tci_thread *thread;
    TCI_UNUSED(state);
    for (int by_ctx = 0; by_ctx < 2; by_ctx++) {
        writer w = {.rc = 0};
        char buf[16];
        size_t n;
        assert_int_equal(tc_input_new(&w.in, &err), 0);
        assert_int_equal(tc_ctx_new(-1, &w.ctx, &err), 0);
        assert_int_equal(tci_thread_new(write_much, &w, 0, &thread, &err), 0);
        assert_int_equal(tci_input_take(w.in, buf, sizeof buf, &n, &err), 0);
        if (by_ctx)
            tc_ctx_cancel(w.ctx);
        else
            tci_input_over(w.in);
        tci_thread_join(thread);
        assert_int_equal(w.rc, by_ctx ? TC_E_CANCELLED : TC_E_CLOSED);
        if (!by_ctx)
            assert_int_equal(tci_input_take(w.in, buf, sizeof buf, &n, &err), TC_E_CLOSED);
        tc_ctx_free(w.ctx);
        tc_input_free(w.in);
    }
}

/* ---- words ---- */

static void every_word_has_its_name(void **state)
{
    TCI_UNUSED(state);
    assert_string_equal(tc_env_error_name(TC_ENV_OK), "");
    assert_string_equal(tc_env_error_name(TC_ENV_NOT_FOUND), "not_found");
    assert_string_equal(tc_env_error_name(TC_ENV_CALLBACK_ERROR), "callback_error");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(posix_paths, set_up, tear_down),
        cmocka_unit_test_setup_teardown(windows_paths, set_up, tear_down),
        cmocka_unit_test_setup_teardown(windows_paths_are_joined, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_path_needs_a_base_and_no_nul, set_up, tear_down),
        cmocka_unit_test(a_scan_does_not_see_the_pieces),
        cmocka_unit_test(an_empty_file_has_one_empty_line),
        cmocka_unit_test(input_is_taken_as_it_was_written),
        cmocka_unit_test(a_waiting_writer_is_let_go),
        cmocka_unit_test(every_word_has_its_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
