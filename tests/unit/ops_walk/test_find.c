/* SPDX-License-Identifier: Apache-2.0
 *
 * Listing and finding: order, pages, filters, names, limits; agreement with find(1), fd and git. */
#include "walk_help.h"

#include "ops/dirlist.h"
#include "plat/clock.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static fix *fix_of(void **state)
{
    return *state;
}

static tci_ops_find_request everything(void)
{
    return (tci_ops_find_request){.pattern = TC_STR("**"), .is_recursive = true};
}

/* Names around the slash: '-' and '.' sort before it, digits behind. */
static void order_is_by_whole_path(void **state)
{
    fix *f = fix_of(state);
    static const char *const files[] = {"d/x", "d-a", "d.b", "d0", "d/a/z", "d/a-", "e", "D"};
    static const char want[] = "D\nd\nd-a\nd.b\nd/a\nd/a-\nd/a/z\nd/x\nd0\ne\n";
    for (size_t i = 0; i < TCI_ARRAY_LEN(files); i++)
        put(f, files[i], "");
    for (uint64_t page = 1; page <= 11; page++) {
        tci_buf out;
        find_all(f, everything(), page, &out);
        assert_text(&out, want);
        tci_buf_done(&out);
    }
    tci_buf out;
    tci_walk_cache *cache = f->cache;
    f->cache = NULL; /* the long way finds the same */
    find_all(f, everything(), 3, &out);
    assert_text(&out, want);
    f->cache = cache;
    tci_buf_done(&out);
}

static void filters(void **state)
{
    fix *f = fix_of(state);
    tci_buf out;
    put(f, "a.c", "");
    put(f, ".h/b.c", "");
    put(f, "d/.c", "");
    put(f, "d/e.c", "");
    assert_int_equal(shell(f, "ln -s d ln; ln -s nowhere dang; mkfifo fifo", NULL), 0);
    tci_ops_find_request req = everything();
    req.pattern = TC_STR("*.c");
    find_all(f, req, 10, &out);
    assert_text(&out, "a.c\nd/e.c\n");
    tci_buf_done(&out);
    req.include_hidden = true;
    find_all(f, req, 10, &out);
    assert_text(&out, ".h/b.c\na.c\nd/.c\nd/e.c\n");
    tci_buf_done(&out);
    req = everything();
    req.kinds = 1u << TCI_DIR_KIND_SYMLINK | 1u << TCI_DIR_KIND_OTHER;
    find_all(f, req, 10, &out);
    assert_text(&out, "dang\nfifo\nln\n");
    tci_buf_done(&out);
    req = everything();
    req.is_recursive = false;
    req.pattern = TC_STR("d/e.c");
    find_all(f, req, 10, &out);
    assert_text(&out, "");
    tci_buf_done(&out);
}

static void facts_of_entries(void **state)
{
    fix *f = fix_of(state);
    tci_ops_entries e;
    put(f, "run", "#!");
    put(f, "sub/x", "");
    assert_int_equal(
        shell(f, "chmod 750 run; touch -d 2026-01-02T03:04:05Z run; ln -s sub ln", NULL), 0);
    tci_ops_list_request req = {.path = tci_str(f->root), .max_results = 10};
    assert_int_equal(tci_ops_list(&req, NULL, NULL, &f->arena, &e, &f->err), 0);
    assert_int_equal(e.count, 3);
    assert_int_equal(e.items[0].kind, TCI_DIR_KIND_SYMLINK);
    assert_false(e.items[0].has_size);
    const tci_walk_info *run = &e.items[1];
    assert_true(run->kind == TCI_DIR_KIND_FILE && run->has_size && run->size_bytes == 2);
    assert_true(run->has_executable && run->is_executable && run->has_modified_at);
    assert_int_equal(run->modified_at.sec, 1767323045);
    assert_true(tci_str_starts(run->path, tci_str(f->root)));
    assert_true(tci_str_eq(run->relative_path, TC_STR("run")));
    char want[1024]; /* the size is that of the text on the wire */
    int len = snprintf(want, sizeof want,
                       "{\"info\":{\"executable\":true,\"kind\":\"file\",\"modified_at\":"
                       "\"2026-01-02T03:04:05Z\",\"path\":{\"path\":\"%s/run\"},\"size_bytes\":2},"
                       "\"relative_path\":\"run\"}",
                       f->root);
    assert_int_equal(tci_walk_json_entry_size(run), len);
    assert_int_equal(tci_walk_json_str_size(TC_STR("a\"\n\x01\xc3\xa9")), 2 + 1 + 2 + 2 + 6 + 2);
    req.budget_bytes = tci_walk_json_entry_size(&e.items[0]) + 1 + (uint64_t)len;
    assert_int_equal(tci_ops_list(&req, NULL, NULL, &f->arena, &e, &f->err), 0);
    assert_true(e.count == 2 && e.has_more);
    req.budget_bytes--;
    assert_int_equal(tci_ops_list(&req, NULL, NULL, &f->arena, &e, &f->err), 0);
    assert_true(e.count == 1 && e.has_more);
    req.budget_bytes = 20;
    assert_int_equal(tci_ops_list(&req, NULL, NULL, &f->arena, &e, &f->err), TC_E_OUTPUT_LIMIT);
}

static void errors(void **state)
{
    fix *f = fix_of(state);
    tci_ops_entries e;
    tci_walk_warn warn = {0};
    char path[600];
    put(f, "file", "");
    tci_ops_find_request req = everything();
    req.max_results = 10;
    (void)snprintf(path, sizeof path, "%s/none", f->root);
    req.root = tci_str(path);
    assert_int_equal(tci_ops_find(&req, warn, NULL, NULL, &f->arena, &e, &f->detail, &f->err),
                     TC_E_NOT_FOUND);
    (void)snprintf(path, sizeof path, "%s/file", f->root);
    req.root = tci_str(path);
    assert_int_equal(tci_ops_find(&req, warn, NULL, NULL, &f->arena, &e, &f->detail, &f->err),
                     TC_E_DENIED);
    req.root = tci_str(f->root);
    req.pattern = TC_STR("a**b");
    assert_int_equal(tci_ops_find(&req, warn, NULL, NULL, &f->arena, &e, &f->detail, &f->err),
                     TC_E_INVALID);
    assert_string_equal(f->detail, "invalid_glob");
    tci_cancel cancel = {.deadline_ns = 1};
    req.pattern = TC_STR("**");
    assert_int_equal(tci_ops_find(&req, warn, &cancel, NULL, &f->arena, &e, &f->detail, &f->err),
                     TC_E_TIMEOUT);
}

/* A page that follows another goes on behind its last entry whatever happened before it. */
static void pages_hold_while_the_tree_changes(void **state)
{
    fix *f = fix_of(state);
    tci_ops_entries e;
    tci_walk_warn warn = {0};
    for (char c = 'a'; c <= 'j'; c++) {
        char name[] = {c, '/', 'x', '\0'};
        put(f, name, "");
    }
    tci_ops_find_request req = everything();
    req.pattern = TC_STR("x");
    req.root = tci_str(f->root);
    req.max_results = 4;
    assert_int_equal(tci_ops_find(&req, warn, NULL, f->cache, &f->arena, &e, NULL, &f->err), 0);
    assert_true(e.count == 4 && tci_str_eq(e.items[3].relative_path, TC_STR("d/x")));
    assert_int_equal(shell(f, "rm -r a b", NULL), 0);
    put(f, "c/0/x", "");
    req.offset = 4;
    assert_int_equal(tci_ops_find(&req, warn, NULL, f->cache, &f->arena, &e, NULL, &f->err), 0);
    assert_true(e.count == 4 && tci_str_eq(e.items[0].relative_path, TC_STR("e/x")));
    tci_ops_list_request list = {.path = tci_str(f->root), .max_results = 3};
    assert_int_equal(tci_ops_list(&list, NULL, f->cache, &f->arena, &e, &f->err), 0);
    assert_true(tci_str_eq(e.items[2].relative_path, TC_STR("e")));
    put(f, "a/new", "");
    list.offset = 3;
    assert_int_equal(tci_ops_list(&list, NULL, f->cache, &f->arena, &e, &f->err), 0);
    assert_true(tci_str_eq(e.items[0].relative_path, TC_STR("f")));
}

/* The names of a large folder are remembered, but never longer than they are true. */
static void large_folders_are_never_stale(void **state)
{
    fix *f = fix_of(state);
    tci_buf out;
    assert_int_equal(shell(f, "mkdir d && cd d && seq -f f%05.0f 1 800 | xargs touch", NULL), 0);
    assert_int_equal(shell(f, "touch -d '1 hour ago' d", NULL), 0);
    for (int round = 0; round < 3; round++) {
        char name[32], path[600];
        (void)snprintf(name, sizeof name, "d/new%d", round);
        put(f, name, "");
        (void)snprintf(path, sizeof path, "%s/d", f->root);
        list_all(f, (tci_ops_list_request){.path = tci_str(path)}, 150, &out);
        size_t nlines = 0;
        for (size_t i = 0; i < out.len; i++)
            nlines += out.ptr[i] == '\n';
        assert_int_equal(nlines, 801 + round);
        assert_true(tci_str_find(tci_buf_str(&out), tci_str(name + 2)) < out.len);
        tci_buf_done(&out);
    }
}

static void case_37_names_that_are_not_text(void **state)
{
    fix *f = fix_of(state);
    tci_ops_entries e;
    put(f, "\xff", "1");
    put(f, "\xfe", "2");
    put(f, "\xef\xbf\xbd", "3");
    put(f, "d/\xff", "4");
    tci_ops_list_request req = {.path = tci_str(f->root), .max_results = 10};
    assert_int_equal(tci_ops_list(&req, NULL, f->cache, &f->arena, &e, &f->err), 0);
    assert_int_equal(e.count, 2);
    assert_int_equal(e.omitted_unrepresentable, 2);
    req.keep_raw_names = true; /* where the caller can say bytes, all three are there, apart */
    assert_int_equal(tci_ops_list(&req, NULL, f->cache, &f->arena, &e, &f->err), 0);
    assert_int_equal(e.count, 4);
    assert_int_equal(e.omitted_unrepresentable, 0);
    for (size_t i = 1; i < 4; i++) {
        char path[1024];
        tci_dir_stat st;
        assert_int_equal(tci_cstr(e.items[i].path, path, sizeof path, &f->err), 0);
        assert_int_equal(tci_dir_stat_path(path, false, &st, &f->err), 0);
        assert_int_equal(st.size_bytes, 1);
    }
    tci_ops_find_request find = everything();
    find.root = tci_str(f->root);
    find.max_results = 1; /* counted to the end although the page is full at once */
    tci_walk_warn warn = {0};
    assert_int_equal(tci_ops_find(&find, warn, NULL, f->cache, &f->arena, &e, NULL, &f->err), 0);
    assert_true(e.has_more && e.omitted_unrepresentable == 3);
    find.offset = 1;
    assert_int_equal(tci_ops_find(&find, warn, NULL, f->cache, &f->arena, &e, NULL, &f->err), 0);
    assert_int_equal(e.omitted_unrepresentable, 3);
}

static void case_42_huge_directories(void **state)
{
    fix *f = fix_of(state);
    bool is_full = getenv("TC_FULL") != NULL;
    unsigned count = is_full ? 200000 : 20000;
    char script[128], path[600], last[16] = "";
    (void)snprintf(script, sizeof script, "mkdir d && cd d && seq -f f%%06.0f 1 %u | xargs touch",
                   count);
    assert_int_equal(shell(f, script, NULL), 0);
    (void)snprintf(path, sizeof path, "%s/d", f->root);
    tci_ops_list_request req = {.path = tci_str(path), .max_results = 1000};
    tci_ops_entries e = {.has_more = true};
    uint64_t total = 0;
    for (; e.has_more; req.offset += e.count, total += e.count) {
        tci_arena_clear(&f->arena);
        assert_int_equal(tci_ops_list(&req, NULL, f->cache, &f->arena, &e, &f->err), 0);
        for (size_t i = 0; i < e.count; i++) {
            char name[16];
            assert_int_equal(tci_cstr(e.items[i].relative_path, name, sizeof name, &f->err), 0);
            assert_true(strcmp(last, name) < 0);
            memcpy(last, name, sizeof last);
        }
    }
    assert_int_equal(total, count);
    tci_cancel cancel = {0};
    atomic_store(&cancel.is_cancelled, true);
    req.offset = 1000;
    assert_int_equal(tci_ops_list(&req, &cancel, f->cache, &f->arena, &e, &f->err), TC_E_CANCELLED);
}

static void deep_trees_end_at_the_limit(void **state)
{
    fix *f = fix_of(state);
    tci_buf out;
    char path[400] = "";
    for (size_t i = 0; i < 279; i++) /* 140 folders, the last one a file */
        path[i] = i % 2 == 0 ? 'd' : '/';
    put(f, path, "");
    find_all(f, everything(), 7, &out);
    size_t nlines = 0;
    for (size_t i = 0; i < out.len; i++)
        nlines += out.ptr[i] == '\n';
    assert_int_equal(nlines, TCI_WALK_MAX_DEPTH);
    tci_buf_done(&out);
}

/* ---- against other programs ---- */

static void random_tree(const fix *f, uint64_t *seed, unsigned nfiles)
{
    static const char *const names[] = {"a",       "b",   "foo", "bar.o", "x.o", "y.c",
                                        "build",   "A",   "a b", "#h",    "!n",  "t ",
                                        "foo.bar", "d-e", "[q]", ".hid",  "d.e"};
    for (unsigned i = 0; i < nfiles; i++) {
        char path[256] = "";
        unsigned depth = 1 + pick(seed, 5);
        for (unsigned d = 0; d < depth; d++) {
            size_t n = strlen(path);
            (void)snprintf(path + n, sizeof path - n, "%s%s%s", d > 0 ? "/" : "",
                           names[pick(seed, TCI_ARRAY_LEN(names))], d + 1 < depth ? "+" : "");
        }
        put(f, path, "x\n");
    }
}

static void agrees_with_find(void **state)
{
    fix *f = fix_of(state);
    uint64_t seed = 7;
    tci_buf ours, theirs;
    if (!has_program(f, "find"))
        skip();
    random_tree(f, &seed, 400);
    tci_ops_find_request req = everything();
    req.include_hidden = true;
    find_all(f, req, 37, &ours);
    tci_buf_init(&theirs, TCI_BUF_MAX);
    assert_int_equal(shell(f, "find . -mindepth 1 | sed 's,^\\./,,' | LC_ALL=C sort", &theirs), 0);
    tci_buf_append_byte(&theirs, '\0');
    assert_text(&ours, theirs.ptr);
    tci_buf_done(&ours);
    tci_buf_done(&theirs);
}

/* Globs that look at the last name, as fd reads them. */
static void agrees_with_fd(void **state)
{
    static const char *const patterns[] = {
        "*",    "*.o",    "b*",  "?",    "[ab]*",      "[!a]*", "*+", "*.{c,o}", "d?e",
        "[[]*", "*[a-c]", "a b", "foo*", "{foo,bar}*", ".*",    "!*", "#?",      "nothing"};
    fix *f = fix_of(state);
    uint64_t seed = 11;
    if (!has_program(f, "fdfind"))
        skip();
    random_tree(f, &seed, 400);
    for (size_t i = 0; i < TCI_ARRAY_LEN(patterns); i++) {
        char pattern[64], command[256];
        tci_buf ours, theirs;
        tci_ops_find_request req = everything();
        req.include_hidden = true;
        (void)snprintf(pattern, sizeof pattern, "**/%s", patterns[i]);
        req.pattern = tci_str(pattern);
        find_all(f, req, 37, &ours);
        (void)snprintf(
            command, sizeof command,
            "fdfind --unrestricted --case-sensitive --glob '%s' . | sed 's,^\\./,,; s,/$,,' | "
            "LC_ALL=C sort",
            patterns[i]);
        tci_buf_init(&theirs, TCI_BUF_MAX);
        assert_int_equal(shell(f, command, &theirs), 0);
        tci_buf_append_byte(&theirs, '\0');
        assert_text(&ours, theirs.ptr);
        tci_buf_done(&ours);
        tci_buf_done(&theirs);
    }
}

static void random_ignore_file(uint64_t *seed, unsigned npatterns, tci_buf *out)
{
    static const char *const parts[] = {
        "a",    "b",     "foo",         "*",   "**",  "/",    "*.o",   "?",
        "[ab]", "[!a]",  "build+",      "/**", "**/", "\\#h", "\\!n",  "bar",
        ".",    "[a-f]", "[[:alpha:]]", "\\*", "x",   "o",    "[^b]*", "t\\ ",
        "!",    "[]]",   "\\[q\\]",     "[a-", "+",   "*+",   "d-e"};
    static const char *const ends[] = {"\n", "\n", "\n", "/\n", " \n", "\r\n", "\\ \n", "\n\n"};
    for (unsigned i = 0; i < npatterns; i++) {
        if (pick(seed, 4) == 0)
            tci_buf_append_byte(out, '!');
        if (pick(seed, 4) == 0)
            tci_buf_append_byte(out, '/');
        for (unsigned k = 1 + pick(seed, 4); k > 0; k--)
            tci_buf_append_str(out, tci_str(parts[pick(seed, TCI_ARRAY_LEN(parts))]));
        tci_buf_append_str(out, tci_str(ends[pick(seed, TCI_ARRAY_LEN(ends))]));
    }
}

/* 14 trees with 24 patterns each in nested ignore files, every path asked of git too. */
static void case_39_ignore_rules_are_those_of_git(void **state)
{
    fix *f = fix_of(state);
    uint64_t seed = 2026;
    if (!has_program(f, "git"))
        skip();
    for (unsigned tree = 0; tree < 14; tree++) {
        tci_buf text, ours, theirs;
        assert_int_equal(shell(f, "rm -rf ./* ./.[!.]* && git init -q --template= .", NULL), 0);
        random_tree(f, &seed, 60);
        tci_buf_init(&text, TCI_BUF_MAX);
        tci_buf_init(&theirs, TCI_BUF_MAX);
        static const char *const folders[] = {"", "a+/", "foo+/", "build+/", "a+/b+/", "d-e+/"};
        for (size_t i = 0; i < TCI_ARRAY_LEN(folders); i++) {
            char path[64];
            tci_buf_clear(&text);
            random_ignore_file(&seed, 4, &text);
            (void)snprintf(path, sizeof path, "%s.gitignore", folders[i]);
            put_bytes(f, path, text.ptr, text.len);
        }
        tci_ops_find_request req = everything();
        req.include_hidden = req.respect_git_ignore = true;
        find_all(f, req, 1000, &ours);
        /* All paths, then those git ignores; what is left occurs once. */
        assert_true(
            shell(f,
                  "export HOME=/nonexistent GIT_CONFIG_NOSYSTEM=1; "
                  "find . -mindepth 1 -name .git -prune -o -mindepth 1 -print | sed 's,^\\./,,' "
                  ">.git/all; tr '\\n' '\\0' <.git/all | "
                  "git -c core.excludesFile=/dev/null check-ignore -z --stdin --no-index | "
                  "tr '\\0' '\\n' >.git/ignored; "
                  "LC_ALL=C sort .git/all .git/ignored | LC_ALL=C uniq -u",
                  &theirs) == 0);
        tci_buf_append_byte(&theirs, '\0');
        assert_text(&ours, theirs.ptr);
        tci_buf_done(&text);
        tci_buf_done(&ours);
        tci_buf_done(&theirs);
    }
}

static void count_warning(void *ctx, const char *message)
{
    unsigned *count = ctx;
    assert_non_null(strstr(message, ".gitignore"));
    ++*count;
}

/* Files above the root apply; the folder .git is never there. */
static void ignore_files_further_up(void **state)
{
    fix *f = fix_of(state);
    tci_ops_entries e;
    char path[600];
    unsigned nwarnings = 0;
    put(f, ".gitignore", "*.o\n/sub/top\nbad[\n");
    put(f, "sub/.git/config", "");
    put(f, "sub/top", "");
    put(f, "sub/in/top", "");
    put(f, "sub/x.o", "");
    put(f, "sub/keep/.gitignore", "!*.o\n");
    put(f, "sub/keep/y.o", "");
    (void)snprintf(path, sizeof path, "%s/sub", f->root);
    tci_ops_find_request req = everything();
    req.root = tci_str(path);
    req.respect_git_ignore = req.include_hidden = true;
    req.max_results = 100;
    tci_walk_warn warn = {count_warning, &nwarnings};
    assert_int_equal(tci_ops_find(&req, warn, NULL, NULL, &f->arena, &e, NULL, &f->err), 0);
    static const char *const want[] = {"in", "in/top", "keep", "keep/.gitignore", "keep/y.o"};
    assert_int_equal(e.count, TCI_ARRAY_LEN(want));
    for (size_t i = 0; i < e.count; i++)
        assert_true(tci_str_eq(e.items[i].relative_path, tci_str(want[i])));
    assert_int_equal(nwarnings, 1);
}

/* ---- directory.list ---- */

static void folders_to_pick_from(void **state)
{
    fix *f = fix_of(state);
    tci_ops_dirlist_result r;
    put(f, "b/x", "");
    put(f, ".h/x", "");
    put(f, "file", "");
    put(f, "z\xff/x", "");
    assert_int_equal(shell(f, "ln -s b a; ln -s file c; ln -s nowhere d", NULL), 0);
    tci_ops_dirlist_request req = {.path = tci_str(f->root), .limit = 2};
    assert_int_equal(tci_ops_dirlist(&req, NULL, &f->arena, &r, &f->err), 0);
    assert_true(r.count == 2 && r.has_next && r.next_offset == 2 && r.has_parent);
    assert_true(tci_str_eq(r.items[0].name, TC_STR(".h")) &&
                tci_str_eq(r.items[1].name, TC_STR("a")));
    assert_true(tci_str_starts(r.items[1].path, r.path));
    req.offset = 2;
    assert_int_equal(tci_ops_dirlist(&req, NULL, &f->arena, &r, &f->err), 0);
    assert_true(r.count == 1 && !r.has_next && tci_str_eq(r.items[0].name, TC_STR("b")));
    req.limit = 9999;
    assert_int_equal(tci_ops_dirlist(&req, NULL, &f->arena, &r, &f->err), TC_E_QUOTA);
    req = (tci_ops_dirlist_request){.path = TC_STR("/"), .limit = 10};
    assert_int_equal(tci_ops_dirlist(&req, NULL, &f->arena, &r, &f->err), 0);
    assert_true(!r.has_parent && tci_str_eq(r.path, TC_STR("/")) && r.items[0].path.ptr[0] == '/' &&
                r.items[0].path.ptr[1] != '/');
    req.path = TC_STR("/no such folder");
    assert_int_equal(tci_ops_dirlist(&req, NULL, &f->arena, &r, &f->err), TC_E_NOT_FOUND);
    char path[600];
    (void)snprintf(path, sizeof path, "%s/file", f->root);
    req.path = tci_str(path);
    assert_int_equal(tci_ops_dirlist(&req, NULL, &f->arena, &r, &f->err), TC_E_DENIED);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fix_setup, fix_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(order_is_by_whole_path),
        TEST(filters),
        TEST(facts_of_entries),
        TEST(errors),
        TEST(pages_hold_while_the_tree_changes),
        TEST(large_folders_are_never_stale),
        TEST(case_37_names_that_are_not_text),
        TEST(case_42_huge_directories),
        TEST(deep_trees_end_at_the_limit),
        TEST(agrees_with_find),
        TEST(agrees_with_fd),
        TEST(case_39_ignore_rules_are_those_of_git),
        TEST(ignore_files_further_up),
        TEST(folders_to_pick_from),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
