/* SPDX-License-Identifier: Apache-2.0
 *
 * What pages make of text of others, words of a shell, and tags. */
#include "host/page/page_html.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static void check(tci_buf *b, const char *want)
{
    assert_true(tci_buf_ok(b));
    if (!tci_str_eq(tci_buf_str(b), tci_str(want)))
        fail_msg("'%.*s' is not '%s'", TC_STR_ARG(tci_buf_str(b)), want);
    tci_buf_done(b);
}

static void check_text(const char *text, const char *want)
{
    tci_buf b;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_html_text(&b, tci_str(text));
    check(&b, want);
}

static void check_word(const char *text, const char *want)
{
    tci_buf b;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_shell_word(&b, tci_str(text));
    check(&b, want);
}

#define ESC(hex) "<span class=\"esc\">\\u{" hex "}</span>"

static void test_nothing_of_others_is_markup(void **state)
{
    TCI_UNUSED(state);
    check_text("", "");
    check_text("plain", "plain");
    check_text("<b>\"a\" & 'b'</b>", "&lt;b&gt;&quot;a&quot; &amp; &#39;b&#39;&lt;/b&gt;");
    check_text("&lt;", "&amp;lt;");
}

static void test_what_is_hidden_is_shown(void **state)
{
    TCI_UNUSED(state);
    check_text("a\x1b[2Jb\n", "a" ESC("1b") "[2Jb" ESC("a"));
    check_text("gpj\u202eexe", "gpj" ESC("202e") "exe"); /* turned around */
    check_text("\u2066x\u2069", ESC("2066") "x" ESC("2069"));
    check_text("wo\u200brk", "wo" ESC("200b") "rk"); /* of no width */
    check_text("wo\u200drk", "wo" ESC("200d") "rk"); /* joins nothing */
    check_text("\ufeffx\u00ad", ESC("feff") "x" ESC("ad"));
    check_text("x\U000E0041", "x" ESC("e0041")); /* a tag */
    check_text("\u3164", ESC("3164"));           /* a letter that is blank */
}

/* Joiners are parts of words and pictures. */
static void test_scripts_stay_as_they_are(void **state)
{
    static const char *const texts[] = {
        "\u05e9\u05dc\u05d5\u05dd", "\u0646\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
        "\U0001F469\u200D\U0001F467", "\u2764\uFE0F", "\u4e2d\u6587"};
    TCI_UNUSED(state);
    for (size_t i = 0; i < TCI_ARRAY_LEN(texts); i++) {
        check_text(texts[i], texts[i]);
        assert_false(tci_html_is_odd(tci_str(texts[i])));
    }
}

static void test_what_is_no_text(void **state)
{
    TCI_UNUSED(state);
    check_text("a\xff\xfe"
               "b",
               "a\uFFFD\uFFFDb");
    check_text("cut\xe2\x82", "cut\uFFFD\uFFFD");
    assert_true(tci_html_is_odd(TC_STR("\xff")));
}

/* What programs read back means the same. */
static void test_attributes(void **state)
{
    tci_buf b;
    TCI_UNUSED(state);
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_html_value(&b, TC_STR("\"><x>\u202e"));
    check(&b, "&quot;&gt;&lt;x&gt;\u202e");
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_html_name(&b, TC_STR("<x"));
    check(&b, "<bdi>&lt;x</bdi>");
}

static void check_info(const tc_device_info *info, const char *const *want, size_t count)
{
    tci_buf b;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_host_put_info(&b, info);
    assert_true(tci_buf_ok(&b));
    for (size_t i = 0; i < count; i++)
        if (tci_str_find(tci_buf_str(&b), tci_str(want[i])) == b.len)
            fail_msg("no '%s' in '%.*s'", want[i], TC_STR_ARG(tci_buf_str(&b)));
    tci_buf_done(&b);
}

static void test_boundary_of_a_device(void **state)
{
    const tc_grant grants[] = {{TC_STR("/srv/<a>"), true}, {TC_STR("/etc\u202e"), false}};
    const tc_str methods[] = {TC_STR("file.stat"), TC_STR("process.start")};
    static const char *const open[] = {"<dt>Commands</dt><dd>None: files only</dd>",
                                       "<dt>Sandbox</dt><dd>None: whatever its account may touch",
                                       "not said"};
    static const char *const closed[] = {
        "<dd><strong>Runs commands</strong></dd>",
        "<dt>Sandbox</dt><dd>Only <code><bdi>/srv/&lt;a&gt;</bdi></code> read and write, "
        "<code><bdi>/etc" ESC("202e") "</bdi></code> read only</dd>",
        "<dt>Network of commands</dt><dd>Only where each session is allowed to</dd>",
        "<bdi>linux · &quot;x&quot;</bdi>"};
    static const char *const read_only[] = {"Reads the whole disk, writes nowhere"};
    tc_device_info info = {.default_working_directory = TC_STR("/")};
    TCI_UNUSED(state);
    check_info(&info, open, TCI_ARRAY_LEN(open));
    info.boundary = (tc_boundary){
        .is_restricted = true, .grants = grants, .ngrants = 2, .egress = TC_EGRESS_CONTROLLED};
    info.available_methods = (tc_strs){methods, 2};
    info.system = (tc_system_info){.os = TC_STR("linux"), .architecture = TC_STR("\"x\"")};
    check_info(&info, closed, TCI_ARRAY_LEN(closed));
    info.boundary = (tc_boundary){.is_restricted = true, .full_disk_read = true};
    check_info(&info, read_only, TCI_ARRAY_LEN(read_only));
}

static void test_words_of_a_shell(void **state)
{
    TCI_UNUSED(state);
    check_word("/srv/data-1_2.x", "/srv/data-1_2.x");
    check_word("", "''");
    check_word("two words", "'two words'");
    check_word("$(id) `id` \"x\" \\", "'$(id) `id` \"x\" \\'");
    check_word("it's", "'it'\\''s'");
    check_word("~", "'~'"); /* not somebody's home */
    check_word("/\u00e9", "'/\u00e9'");
    check_word("a\nb'c\\d", "$'a\\012b\\'c\\\\d'"); /* pasted, it is one line */
    check_word("x\u202ey", "$'x\\342\\200\\256y'");
}

static void test_tags_are_of_the_bytes(void **state)
{
    char one[TCI_HOST_TAG_LEN], two[TCI_HOST_TAG_LEN];
    TCI_UNUSED(state);
    tci_host_tag_of(TC_STR("abc"), one);
    assert_memory_equal(one, "\"ba7816bf8f01cfea414140de5dae2223\"", sizeof one);
    tci_host_tag_of(TC_STR("abd"), two);
    assert_memory_not_equal(one, two, sizeof one);
    const tci_host_file *const files[] = {&tci_host_css, &tci_host_js, &tci_host_icon};
    for (size_t i = 0; i < TCI_ARRAY_LEN(files); i++) {
        assert_true(files[i]->len > 0);
        tci_host_tag_of(tci_str_of(files[i]->bytes, files[i]->len), one);
        assert_memory_equal(one, files[i]->tag, sizeof one);
    }
}

static void test_queries(void **state)
{
    TCI_UNUSED(state);
    assert_true(tci_host_query_is_fine(TC_STR("")));
    assert_true(tci_host_query_is_fine(TC_STR("path=%2Fa+b&limit=3")));
    assert_false(tci_host_query_is_fine(TC_STR("path=%zz")));
    assert_false(tci_host_query_is_fine(TC_STR("path=%2")));
    assert_false(tci_host_query_is_fine(TC_STR("%")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_of_others_is_markup),
        cmocka_unit_test(test_what_is_hidden_is_shown),
        cmocka_unit_test(test_scripts_stay_as_they_are),
        cmocka_unit_test(test_what_is_no_text),
        cmocka_unit_test(test_attributes),
        cmocka_unit_test(test_boundary_of_a_device),
        cmocka_unit_test(test_words_of_a_shell),
        cmocka_unit_test(test_tags_are_of_the_bytes),
        cmocka_unit_test(test_queries),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
