/* SPDX-License-Identifier: Apache-2.0
 *
 * The ExecutionEnv interface but for readers, watchers and commands, over every provider: paths,
 * whole files, changes, trees, temporary names, aborted calls. */
#include "tool.h"

#include "client/client.h"

/* ---- paths ---- */

static tc_str resolved(bench *b, const char *path)
{
    tc_str out;
    assert_ok(b->f, tc_env_resolve_path(b->env, &b->call, text(path), &out, &b->f->err));
    return out;
}

static tc_str joined(bench *b, const tc_str *parts, size_t n)
{
    tc_str out;
    assert_ok(b->f, tc_env_join_path(b->env, &b->call, parts, n, &out, &b->f->err));
    return out;
}

static void paths_are_resolved_by_name_only(void **state)
{
    bench b;
    bench_open(&b, *state, "paths");
    tc_str home = resolved(&b, "~");
    assert_true(home.len > 1 && home.ptr[0] == '/');
    assert_true(tci_str_eq(resolved(&b, "~/"), home));
    assert_true(tci_str_eq(resolved(&b, ""), b.dir));
    assert_true(tci_str_eq(resolved(&b, "."), b.dir));
    assert_ok(b.f, tc_env_set_cwd(b.env, TC_STR("/work/"), &b.f->err));
    static const char *const table[][2] = {
        {"", "/work"},
        {"~x", "/work/~x"},
        {"~\\a", "/work/~\\a"},
        {"a//b/", "/work/a/b"},
        {"../x", "/x"},
        {"/abs/../y", "/y"},
        {"file:///tmp/a%20b", "/tmp/a b"},
        {"file:///tmp/%E2%82%AC", "/tmp/\xE2\x82\xAC"},
        {"file://localhost/etc/hosts", "/etc/hosts"},
        {"file://host/x", "/work/file:/host/x"},
        {"file:///a%2Fb", "/work/file:/a%2Fb"},
        {"file:relative", "/work/file:relative"},
        {"file:///%ff", "/work/file:/%ff"},
        {"~/../..", NULL},
    };
    for (size_t i = 0; i < TCI_ARRAY_LEN(table) - 1; i++)
        assert_text(resolved(&b, table[i][0]), table[i][1]);
    tc_str up = resolved(&b, "~/x/..");
    assert_true(tci_str_eq(up, home));
    assert_text(tc_env_cwd(b.env), "/work");
    assert_code(b.f, TC_E_INVALID, tc_env_set_cwd(b.env, TC_STR("work"), &b.f->err));
    bench_close(&b);
}

static void parts_are_joined(void **state)
{
    bench b;
    bench_open(&b, *state, "joins");
    tc_str one[] = {TC_STR("a"), TC_STR(""), TC_STR("../b"), TC_STR("c")};
    assert_text(joined(&b, one, 4), "b/c");
    tc_str two[] = {TC_STR("/x/"), TC_STR("../../y")};
    assert_text(joined(&b, two, 2), "/y");
    tc_str three[] = {TC_STR(".."), TC_STR("a"), TC_STR("../../b")};
    assert_text(joined(&b, three, 3), "../../b");
    assert_text(joined(&b, one, 0), ".");
    tc_str four[] = {TC_STR("a"), TC_STR("..")};
    assert_text(joined(&b, four, 2), ".");
    bench_close(&b);
}

static void ids_name_the_files_not_the_folder(void **state)
{
    bench b;
    tc_env *other = NULL;
    bench_open(&b, *state, "ids");
    tc_env_options o = env_options(text("/"));
    assert_ok(b.f, make_env_with(b.f, &o, &other));
    assert_ok(b.f, tc_env_ready(other, NULL, &b.f->err));
    assert_true(tc_env_files_id(other).len > 0);
    assert_true(tci_str_eq(tc_env_files_id(other), tc_env_files_id(b.env)));
    tc_env_release(other);
    o.files_id = TC_STR("pi-env:gpu");
    assert_ok(b.f, make_env_with(b.f, &o, &other));
    assert_text(tc_env_files_id(other), "pi-env:gpu");
    tc_env_release(other);
    bench_close(&b);
}

/* ---- whole files ---- */

static void files_go_there_and_back(void **state)
{
    bench b;
    tc_str got;
    tc_strs lines;
    tc_env_file file;
    tc_env_files files;
    bool exists = true;
    bench_open(&b, *state, "round");
    tc_env *env = b.env;
    assert_ok(b.f, tc_env_path_exists(env, &b.call, text("a/b.txt"), &exists, &b.f->err));
    assert_false(exists);
    assert_ok(b.f, tc_env_create_dir(env, &b.call, text("a/deep/er"), true, &b.f->err));
    assert_ok(b.f, tc_env_create_dir(env, &b.call, text("a/deep/er"), true, &b.f->err));
    assert_ok(b.f, tc_env_write_file(env, &b.call, text("a/b.txt"), text("one\ntwo"), &b.f->err));
    assert_ok(b.f, tc_env_append_file(env, &b.call, text("a/b.txt"), text("\nthree"), &b.f->err));
    assert_ok(b.f, tc_env_read_text_file(env, &b.call, text("a/b.txt"), &got, &b.f->err));
    assert_text(got, "one\ntwo\nthree");
    int64_t max = 2;
    assert_ok(b.f, tc_env_read_text_lines(env, &b.call, text("a/b.txt"), &max, &lines, &b.f->err));
    assert_int_equal(lines.count, 2);
    assert_text(lines.items[1], "two");
    max = 0;
    assert_ok(b.f, tc_env_read_text_lines(env, &b.call, text("none"), &max, &lines, &b.f->err));
    assert_int_equal(lines.count, 0);
    assert_ok(b.f, tc_env_file_info(env, &b.call, text("./a/b.txt"), &file, &b.f->err));
    assert_text(file.name, "b.txt");
    assert_true(tci_str_eq(file.path, below(&b, "a/b.txt")));
    assert_int_equal(file.kind, TC_FILE_REGULAR);
    assert_int_equal(file.size, 13);
    assert_true(file.mtime_ms > 1e12);
    assert_ok(b.f, tc_env_list_dir(env, &b.call, text("a"), &files, &b.f->err));
    assert_int_equal(files.count, 2);
    assert_text(files.entries[0].name, "b.txt");
    assert_text(files.entries[1].name, "deep");
    assert_int_equal(files.entries[1].kind, TC_FILE_DIRECTORY);
    assert_true(tci_str_eq(files.entries[1].path, below(&b, "a/deep")));
    assert_word(&b, TC_ENV_UNKNOWN,
                tc_env_remove_path(env, &b.call, text("a"), false, false, &b.f->err));
    assert_ok(b.f, tc_env_remove_path(env, &b.call, text("a"), true, false, &b.f->err));
    assert_false(is_there(&b, "a"));
    bench_close(&b);
}

static void text_is_decoded_and_bytes_are_not(void **state)
{
    bench b;
    tc_str got;
    tc_str raw = TC_STR("\xEF\xBB\xBF"
                        "a\xE2\x82\n\xFF"
                        "b\0c");
    bench_open(&b, *state, "decode");
    put_file(&b, "f", raw);
    assert_ok(b.f, tc_env_read_text_file(b.env, &b.call, text("f"), &got, &b.f->err));
    assert_true(tci_str_eq(got, TC_STR("\xEF\xBB\xBF"
                                       "a\xEF\xBF\xBD\n\xEF\xBF\xBD"
                                       "b\0c")));
    assert_ok(b.f, tc_env_read_binary_file(b.env, &b.call, text("f"), &got, &b.f->err));
    assert_true(tci_str_eq(got, raw));
    bench_close(&b);
}

static void missing_files_and_wrong_kinds_have_their_words(void **state)
{
    bench b;
    tc_str got;
    tc_env_file file;
    tc_env_files files;
    bool exists;
    bench_open(&b, *state, "words");
    tc_env *env = b.env;
    put_file(&b, "file", text("x"));
    put_dir(&b, "dir");
    assert_word(&b, TC_ENV_NOT_FOUND,
                tc_env_read_text_file(env, &b.call, text("no"), &got, &b.f->err));
    assert_about(&b, below(&b, "no"));
    assert_word(&b, TC_ENV_NOT_FOUND, tc_env_file_info(env, &b.call, text("no"), &file, &b.f->err));
    assert_about(&b, below(&b, "no"));
    assert_word(&b, TC_ENV_NOT_DIRECTORY,
                tc_env_list_dir(env, &b.call, text("file"), &files, &b.f->err));
    assert_word(&b, TC_ENV_NOT_FOUND, tc_env_list_dir(env, &b.call, text("no"), &files, &b.f->err));
    assert_word(&b, TC_ENV_IS_DIRECTORY,
                tc_env_read_binary_file(env, &b.call, text("dir"), &got, &b.f->err));
    assert_word(&b, TC_ENV_NOT_DIRECTORY,
                tc_env_path_exists(env, &b.call, text("file/x"), &exists, &b.f->err));
    assert_word(&b, TC_ENV_IS_DIRECTORY,
                tc_env_write_file(env, &b.call, text("dir"), text("x"), &b.f->err));
    assert_word(&b, TC_ENV_NOT_FOUND,
                tc_env_create_dir(env, &b.call, text("no/such"), false, &b.f->err));
    assert_word(&b, TC_ENV_UNKNOWN, tc_env_create_dir(env, &b.call, text("dir"), false, &b.f->err));
    assert_word(&b, TC_ENV_NOT_FOUND,
                tc_env_remove_path(env, &b.call, text("no"), true, false, &b.f->err));
    assert_ok(b.f, tc_env_remove_path(env, &b.call, text("no"), true, true, &b.f->err));
    assert_word(&b, TC_ENV_NOT_DIRECTORY,
                tc_env_remove_path(env, &b.call, text("file/x"), true, true, &b.f->err));
    assert_word(&b, TC_ENV_INVALID,
                tc_env_file_info(env, &b.call, text("/dev/null"), &file, &b.f->err));
    bench_close(&b);
}

static void links_are_reported_as_links_and_written_through(void **state)
{
    bench b;
    tc_env_file file;
    tc_env_files files;
    tc_str path, real;
    bool exists = false;
    bench_open(&b, *state, "links");
    put_file(&b, "target", text("x"));
    put_link(&b, "target", "link");
    put_link(&b, "nowhere", "dangling");
    put_dir(&b, "dir");
    put_link(&b, "dir", "dirlink");
    assert_ok(b.f, tc_env_file_info(b.env, &b.call, text("link"), &file, &b.f->err));
    assert_int_equal(file.kind, TC_FILE_SYMLINK);
    assert_ok(b.f, tc_env_list_dir(b.env, &b.call, text("."), &files, &b.f->err));
    assert_int_equal(files.count, 5);
    assert_int_equal(files.entries[0].kind, TC_FILE_SYMLINK);
    assert_ok(b.f, tc_env_canonical_path(b.env, &b.call, text("."), &real, &b.f->err));
    assert_ok(b.f,
              tc_env_canonical_path(b.env, &b.call, text("dirlink/../link"), &path, &b.f->err));
    assert_true(tci_str_starts(path, real) && tci_str_ends(path, TC_STR("/target")));
    assert_ok(b.f, tc_env_canonical_path(b.env, &b.call, text("dirlink"), &path, &b.f->err));
    assert_true(tci_str_ends(path, TC_STR("/dir")));
    assert_word(&b, TC_ENV_NOT_FOUND,
                tc_env_canonical_path(b.env, &b.call, text("dangling"), &path, &b.f->err));
    assert_ok(b.f, tc_env_path_exists(b.env, &b.call, text("dangling"), &exists, &b.f->err));
    assert_true(exists);
    assert_ok(b.f, tc_env_write_file(b.env, &b.call, text("link"), text("new"), &b.f->err));
    assert_text(get_file(&b, "target"), "new");
    assert_ok(b.f, tc_env_file_info(b.env, &b.call, text("link"), &file, &b.f->err));
    assert_int_equal(file.kind, TC_FILE_SYMLINK);
    assert_ok(b.f, tc_env_remove_path(b.env, &b.call, text("dirlink"), true, false, &b.f->err));
    assert_true(is_there(&b, "dir"));
    bench_close(&b);
}

static void append_makes_parents_and_rename_replaces(void **state)
{
    bench b;
    bench_open(&b, *state, "renames");
    assert_ok(b.f, tc_env_append_file(b.env, &b.call, text("p/q/f"), text("1"), &b.f->err));
    assert_ok(b.f, tc_env_append_file(b.env, &b.call, text("p/q/f"), text("2"), &b.f->err));
    assert_text(get_file(&b, "p/q/f"), "12");
    put_file(&b, "other", text("old"));
    assert_ok(b.f, tc_env_rename_file(b.env, &b.call, text("p/q/f"), text("other"), &b.f->err));
    assert_text(get_file(&b, "other"), "12");
    assert_word(&b, TC_ENV_NOT_FOUND,
                tc_env_rename_file(b.env, &b.call, text("gone"), text("other"), &b.f->err));
    assert_about(&b, below(&b, "gone"));
    assert_text(get_file(&b, "other"), "12");
    bench_close(&b);
}

static void truncation_is_exact_and_never_creates(void **state)
{
    bench b;
    bench_open(&b, *state, "cuts");
    put_file(&b, "f", text("0123456789"));
    assert_ok(b.f, tc_env_truncate_file(b.env, &b.call, text("f"), 4, &b.f->err));
    assert_text(get_file(&b, "f"), "0123");
    assert_ok(b.f, tc_env_truncate_file(b.env, &b.call, text("f"), 6, &b.f->err));
    assert_true(tci_str_eq(get_file(&b, "f"), TC_STR("0123\0\0")));
    static const int64_t wrong[] = {-1, TC_SAFE_INTEGER_MAX + 1, INT64_MIN};
    for (size_t i = 0; i < TCI_ARRAY_LEN(wrong); i++) {
        assert_word(&b, TC_ENV_INVALID,
                    tc_env_truncate_file(b.env, &b.call, text("f"), wrong[i], &b.f->err));
        assert_about(&b, below(&b, "f"));
    }
    assert_int_equal(get_file(&b, "f").len, 6);
    assert_word(&b, TC_ENV_NOT_FOUND,
                tc_env_truncate_file(b.env, &b.call, text("no"), 0, &b.f->err));
    assert_false(is_there(&b, "no"));
    bench_close(&b);
}

static void flushing_keeps_content(void **state)
{
    bench b;
    bench_open(&b, *state, "flush");
    put_file(&b, "f", text("kept"));
    put_dir(&b, "dir");
    assert_ok(b.f, tc_env_flush_file(b.env, &b.call, text("f"), &b.f->err));
    assert_text(get_file(&b, "f"), "kept");
    assert_word(&b, TC_ENV_NOT_FOUND, tc_env_flush_file(b.env, &b.call, text("no"), &b.f->err));
    assert_word(&b, TC_ENV_IS_DIRECTORY, tc_env_flush_file(b.env, &b.call, text("dir"), &b.f->err));
    bench_close(&b);
}

static void temporary_names_are_new_and_private(void **state)
{
    bench b;
    tc_str one, two, file;
    tc_env_file info;
    bench_open(&b, *state, "temp");
    assert_ok(b.f, tc_env_create_temp_dir(b.env, &b.call, (tc_str){0}, &one, &b.f->err));
    assert_ok(b.f, tc_env_create_temp_dir(b.env, &b.call, (tc_str){0}, &two, &b.f->err));
    assert_false(tci_str_eq(one, two));
    assert_true(tci_str_find(one, TC_STR("/tmp-")) < one.len);
    assert_ok(b.f, tc_env_file_info(b.env, &b.call, one, &info, &b.f->err));
    assert_int_equal(info.kind, TC_FILE_DIRECTORY);
    assert_ok(b.f, tc_env_create_temp_file(b.env, &b.call, TC_STR("pre-"), TC_STR(".txt"), &file,
                                           &b.f->err));
    assert_true(tci_str_ends(file, TC_STR(".txt")));
    assert_true(tci_str_find(file, TC_STR("/pre-")) < file.len);
    assert_ok(b.f, tc_env_file_info(b.env, &b.call, file, &info, &b.f->err));
    assert_int_equal(info.size, 0);
    tc_str dirs[] = {one, two, tci_str_sub(file, 0, tci_str_rfind_byte(file, '/'))};
    for (size_t i = 0; i < TCI_ARRAY_LEN(dirs); i++)
        assert_ok(b.f, tc_env_remove_path(b.env, &b.call, dirs[i], true, false, &b.f->err));
    assert_word(&b, TC_ENV_NOT_FOUND,
                tc_env_create_temp_dir(b.env, &b.call, TC_STR("no-such-dir/x"), &one, &b.f->err));
    bench_close(&b);
}

static void large_files_are_whole_and_in_order(void **state)
{
    enum { SIZE = 3500017, RANGE = 2000000, FROM = 1234567 };
    bench b;
    tc_str got;
    tc_binary_reader *reader;
    char *bytes = malloc(SIZE);
    for (size_t i = 0; i < SIZE; i++)
        bytes[i] = (char)((i * 2654435761u) >> 13);
    bench_open(&b, *state, "large");
    tc_str all = tci_str_of(bytes, SIZE);
    assert_ok(b.f, tc_env_write_file(b.env, &b.call, text("big"), all, &b.f->err));
    assert_ok(b.f, tc_env_append_file(b.env, &b.call, text("big"), all, &b.f->err));
    assert_ok(b.f, tc_env_read_binary_file(b.env, &b.call, text("big"), &got, &b.f->err));
    assert_int_equal(got.len, 2 * SIZE);
    assert_true(tci_str_eq(tci_str_sub(got, 0, SIZE), all));
    assert_true(tci_str_eq(tci_str_sub(got, SIZE, SIZE), all));
    assert_ok(b.f,
              tc_env_open_binary_reader(b.env, &b.call, text("big"), false, &reader, &b.f->err));
    assert_ok(b.f, tc_binary_reader_read(reader, &b.call, SIZE + FROM, RANGE, &got, &b.f->err));
    assert_true(tci_str_eq(got, tci_str_sub(all, FROM, RANGE)));
    tc_binary_reader_free(reader);
    free(bytes);
    bench_close(&b);
}

/* ---- aborted ---- */

static void aborted_calls_do_nothing(void **state)
{
    bench b;
    tc_str got;
    tc_strs lines;
    tc_env_file file;
    tc_env_files files;
    tc_tree tree;
    tc_line_reader *lr;
    tc_binary_reader *br;
    tc_dir_reader *dr;
    tc_watcher *w;
    tc_exec_outcome out;
    bool exists;
    bench_open(&b, *state, "aborted");
    tc_env *env = b.env;
    const tc_call *dead = &b.dead;
    tc_err *err = &b.f->err;
    put_file(&b, "f", text("kept"));
    tc_exec_options exec = {.size = sizeof exec, .script = TC_STR("touch ran")};
    tc_watch_target target = {.path = TC_STR(".")};
#define ABORTED(expr) assert_word(&b, TC_ENV_ABORTED, expr)
    ABORTED(tc_env_read_text_file(env, dead, text("f"), &got, err));
    ABORTED(tc_env_read_text_lines(env, dead, text("f"), NULL, &lines, err));
    ABORTED(tc_env_open_line_reader(env, dead, text("f"), &lr, err));
    ABORTED(tc_env_read_binary_file(env, dead, text("f"), &got, err));
    ABORTED(tc_env_open_binary_reader(env, dead, text("f"), false, &br, err));
    ABORTED(tc_env_write_file(env, dead, text("f"), text("x"), err));
    ABORTED(tc_env_append_file(env, dead, text("f"), text("x"), err));
    ABORTED(tc_env_truncate_file(env, dead, text("f"), 0, err));
    ABORTED(tc_env_flush_file(env, dead, text("f"), err));
    ABORTED(tc_env_rename_file(env, dead, text("f"), text("g"), err));
    ABORTED(tc_env_file_info(env, dead, text("f"), &file, err));
    ABORTED(tc_env_list_dir(env, dead, text("."), &files, err));
    ABORTED(tc_env_open_dir_reader(env, dead, text("."), &dr, err));
    ABORTED(tc_env_list_files(env, dead, text("."), NULL, &tree, err));
    ABORTED(tc_env_watch(env, dead, &target, 1, NULL, NULL, NULL, &w, err));
    ABORTED(tc_env_canonical_path(env, dead, text("f"), &got, err));
    ABORTED(tc_env_path_exists(env, dead, text("f"), &exists, err));
    ABORTED(tc_env_create_dir(env, dead, text("made"), true, err));
    ABORTED(tc_env_remove_path(env, dead, text("f"), false, false, err));
    ABORTED(tc_env_create_temp_dir(env, dead, (tc_str){0}, &got, err));
    ABORTED(tc_env_create_temp_file(env, dead, (tc_str){0}, (tc_str){0}, &got, err));
    ABORTED(tc_env_exec(env, dead, &exec, &out, err));
#undef ABORTED
    assert_text(get_file(&b, "f"), "kept");
    assert_false(is_there(&b, "g") || is_there(&b, "made") || is_there(&b, "ran"));
    assert_ok(b.f, tc_env_resolve_path(env, dead, text("f"), &got, err));
    bench_close(&b);
}

/* ---- trees ---- */

static void assert_tree(bench *b, const char *path, const tc_list_files_options *o,
                        const char *expected, bool is_truncated)
{
    tc_tree tree;
    tci_buf got;
    tci_buf_init(&got, TCI_BUF_MAX);
    assert_ok(b->f, tc_env_list_files(b->env, &b->call, text(path), o, &tree, &b->f->err));
    for (size_t i = 0; i < tree.count; i++)
        tci_buf_printf(&got, "%s%.*s%s", i > 0 ? " " : "", TC_STR_ARG(tree.entries[i].path),
                       tree.entries[i].kind == TC_FILE_DIRECTORY ? "/"
                       : tree.entries[i].kind == TC_FILE_SYMLINK ? "@"
                                                                 : "");
    assert_text(tci_buf_str(&got), expected);
    assert_int_equal(tree.is_truncated, is_truncated);
    tci_buf_done(&got);
}

static void write_files(bench *b, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        assert_ok(b->f, tc_env_write_file(b->env, &b->call, text(names[i]), text("x"), &b->f->err));
}

/* The listing is a later addition of the protocol, which another daemon may not have. */
static bool has_trees(bench *b)
{
    tc_tree tree;
    int rc = tc_env_list_files(b->env, &b->call, text("."), NULL, &tree, &b->f->err);
    bool is_missing = rc < 0 && tc_result_evidence(b->f->r)->env_error == TC_ENV_NOT_SUPPORTED;
    if (!b->f->p->has_ext && is_missing)
        print_message("this daemon cannot list trees\n");
    return b->f->p->has_ext || !is_missing;
}

static void trees_are_listed_depth_first(void **state)
{
    static const char *const names[] = {"t/b.txt", "t/a/z.txt", "t/a/b/c.txt", "t/.hidden/x",
                                        "t/A.txt"};
    bench b;
    bench_open(&b, *state, "trees");
    bench_move_out(&b);
    if (!has_trees(&b)) {
        bench_close(&b);
        skip();
    }
    write_files(&b, names, TCI_ARRAY_LEN(names));
    put_dir(&b, "t/empty");
    assert_tree(&b, "t", NULL, ".hidden/ .hidden/x A.txt a/ a/b/ a/b/c.txt a/z.txt b.txt empty/",
                false);
    tc_list_files_options o = {.size = sizeof o, .without_hidden = true};
    assert_tree(&b, "t", &o, "A.txt a/ a/b/ a/b/c.txt a/z.txt b.txt empty/", false);
    assert_tree(&b, "t/a", NULL, "b/ b/c.txt z.txt", false);
    tc_str absolute = below(&b, "t/a");
    char cpath[4096];
    assert_ok(b.f, tci_cstr(absolute, cpath, sizeof cpath, &b.f->err));
    assert_tree(&b, cpath, NULL, "b/ b/c.txt z.txt", false);
    assert_tree(&b, "t/empty", NULL, "", false);
    bench_close(&b);
}

static void trees_heed_ignore_files_inside_a_work_tree_only(void **state)
{
    static const char *const names[] = {"w/out/x.js", "w/node_modules/m/i.js", "w/a.log",
                                        "w/keep.txt", "w/sub/keep.txt",        "w/sub/b.log"};
    bench b;
    bench_open(&b, *state, "ignores");
    bench_move_out(&b);
    if (!has_trees(&b)) {
        bench_close(&b);
        skip();
    }
    write_files(&b, names, TCI_ARRAY_LEN(names));
    put_file(&b, "w/.gitignore", text("out/\n*.log\r\n"));
    put_file(&b, "w/sub/.gitignore", text("!keep.txt\n"));
    tc_str skipped = TC_STR("node_modules");
    tc_list_files_options o = {.size = sizeof o, .exclude = {&skipped, 1}};
    assert_tree(&b, "w", &o,
                ".gitignore a.log keep.txt out/ out/x.js sub/ sub/.gitignore sub/b.log "
                "sub/keep.txt",
                false);
    put_dir(&b, "w/.git");
    put_dir(&b, "w/.git/info");
    put_file(&b, "w/.git/HEAD", text("ref"));
    put_file(&b, "w/.git/info/exclude", text("keep.txt\n"));
    assert_tree(&b, "w", &o, ".gitignore sub/ sub/.gitignore sub/keep.txt", false);
    assert_tree(&b, "w/sub", &o, ".gitignore keep.txt", false);
    o = (tc_list_files_options){.size = sizeof o, .without_gitignore = true};
    assert_tree(&b, "w", &o,
                ".gitignore a.log keep.txt node_modules/ node_modules/m/ node_modules/m/i.js out/ "
                "out/x.js sub/ sub/.gitignore sub/b.log sub/keep.txt",
                false);
    bench_close(&b);
}

static void trees_stop_at_their_bounds(void **state)
{
    static const char *const names[] = {"n/a", "n/b", "n/c"};
    bench b;
    tc_tree tree;
    bench_open(&b, *state, "bounds");
    bench_move_out(&b);
    if (!has_trees(&b)) {
        bench_close(&b);
        skip();
    }
    write_files(&b, names, TCI_ARRAY_LEN(names));
    tc_list_files_options o = {.size = sizeof o, .has_max_entries = true, .max_entries = 2};
    assert_tree(&b, "n", &o, "a b", true);
    o.max_entries = 3;
    assert_tree(&b, "n", &o, "a b c", false);
    o.max_entries = 0;
    assert_tree(&b, "n", &o, "", true);
    o.max_entries = -1;
    assert_word(&b, TC_ENV_INVALID,
                tc_env_list_files(b.env, &b.call, text("n"), &o, &tree, &b.f->err));
    o = (tc_list_files_options){.size = sizeof o, .has_max_bytes = true, .max_bytes = 6};
    assert_tree(&b, "n", &o, "a b", true);
    o.max_bytes = 15900001;
    assert_word(&b, TC_ENV_INVALID,
                tc_env_list_files(b.env, &b.call, text("n"), &o, &tree, &b.f->err));
    o = (tc_list_files_options){.size = sizeof o, .has_timeout_ms = true, .timeout_ms = -1};
    assert_word(&b, TC_ENV_INVALID,
                tc_env_list_files(b.env, &b.call, text("n"), &o, &tree, &b.f->err));
    assert_word(&b, TC_ENV_NOT_FOUND,
                tc_env_list_files(b.env, &b.call, text("no"), NULL, &tree, &b.f->err));
    assert_word(&b, TC_ENV_NOT_DIRECTORY,
                tc_env_list_files(b.env, &b.call, text("n/a"), NULL, &tree, &b.f->err));
    bench_close(&b);
}

static void trees_list_links_and_do_not_enter_them(void **state)
{
    bench b;
    bench_open(&b, *state, "treelinks");
    bench_move_out(&b);
    if (!has_trees(&b)) {
        bench_close(&b);
        skip();
    }
    put_dir(&b, "l");
    put_dir(&b, "real");
    put_file(&b, "real/f", text("x"));
    put_link(&b, "nowhere", "l/dangling");
    put_link(&b, "../real", "l/dir");
    put_link(&b, ".", "l/loop");
    assert_tree(&b, "l", NULL, "dangling@ dir@ loop@", false);
    assert_tree(&b, "l/dir", NULL, "f", false);
    bench_close(&b);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(paths_are_resolved_by_name_only),
    cmocka_unit_test(parts_are_joined),
    cmocka_unit_test(ids_name_the_files_not_the_folder),
    cmocka_unit_test(files_go_there_and_back),
    cmocka_unit_test(text_is_decoded_and_bytes_are_not),
    cmocka_unit_test(missing_files_and_wrong_kinds_have_their_words),
    cmocka_unit_test(links_are_reported_as_links_and_written_through),
    cmocka_unit_test(append_makes_parents_and_rename_replaces),
    cmocka_unit_test(truncation_is_exact_and_never_creates),
    cmocka_unit_test(flushing_keeps_content),
    cmocka_unit_test(temporary_names_are_new_and_private),
    cmocka_unit_test(large_files_are_whole_and_in_order),
    cmocka_unit_test(aborted_calls_do_nothing),
    cmocka_unit_test(trees_are_listed_depth_first),
    cmocka_unit_test(trees_heed_ignore_files_inside_a_work_tree_only),
    cmocka_unit_test(trees_stop_at_their_bounds),
    cmocka_unit_test(trees_list_links_and_do_not_enter_them),
};

int main(int argc, char **argv)
{
    return RUN_SUITE(argc, argv, tests);
}
