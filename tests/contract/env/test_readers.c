/* SPDX-License-Identifier: Apache-2.0
 *
 * Readers of lines, bytes and directories over every provider. What EIP cannot do (one open file
 * over time, pipes and devices, the directory as it is between two pages) is left out there, as
 * docs/env-mapping.md says. */
#include "tool.h"

#include "plat/file.h"

/* ---- bytes ---- */

static tc_binary_reader *open_bytes(bench *b, const char *path)
{
    tc_binary_reader *r = NULL;
    assert_ok(b->f, tc_env_open_binary_reader(b->env, &b->call, text(path), false, &r, &b->f->err));
    return r;
}

static tc_str read_at(bench *b, tc_binary_reader *r, int64_t offset, int64_t length)
{
    tc_str got;
    assert_ok(b->f, tc_binary_reader_read(r, &b->call, offset, length, &got, &b->f->err));
    return got;
}

static void any_part_of_a_file_is_read(void **state)
{
    bench b;
    tc_env_file info;
    tc_str got;
    bench_open(&b, *state, "parts");
    put_file(&b, "data.txt", text("hello world"));
    tc_binary_reader *r = open_bytes(&b, "data.txt");
    assert_ok(b.f, tc_binary_reader_info(r, &b.call, &info, &b.f->err));
    assert_text(info.name, "data.txt");
    assert_int_equal(info.kind, TC_FILE_REGULAR);
    assert_int_equal(info.size, 11);
    assert_text(read_at(&b, r, 0, 5), "hello");
    assert_text(read_at(&b, r, 6, 100), "world");
    assert_text(read_at(&b, r, 11, 4), "");
    assert_text(read_at(&b, r, 50, 1), "");
    assert_text(read_at(&b, r, 3, 0), "");
    assert_text(read_at(&b, r, 6, TC_SAFE_INTEGER_MAX), "world");
    assert_word(&b, TC_ENV_INVALID, tc_binary_reader_read(r, &b.call, -1, 1, &got, &b.f->err));
    assert_word(&b, TC_ENV_INVALID,
                tc_binary_reader_read(r, &b.call, 0, TC_SAFE_INTEGER_MAX + 1, &got, &b.f->err));
    assert_word(&b, TC_ENV_ABORTED, tc_binary_reader_read(r, &b.dead, 0, 1, &got, &b.f->err));
    tc_binary_reader_close(r);
    tc_binary_reader_close(r);
    assert_word(&b, TC_ENV_INVALID, tc_binary_reader_read(r, &b.call, 0, 1, &got, &b.f->err));
    assert_word(&b, TC_ENV_INVALID, tc_binary_reader_info(r, &b.call, &info, &b.f->err));
    /* Aborted comes first, then closed, then what was asked for. */
    assert_word(&b, TC_ENV_ABORTED, tc_binary_reader_read(r, &b.dead, -1, 1, &got, &b.f->err));
    tc_binary_reader_free(r);
    bench_close(&b);
}

/* What the scan of a file must say, by decoding all of it. */
static void lines_of(tc_str file, tc_str *lines, size_t *n)
{
    tc_str line;
    *n = 0;
    while (tci_str_split(&file, '\n', &line))
        lines[(*n)++] = line;
}

static size_t decoded_len(tc_str line, bool has_mark)
{
    /* The bad sequences of the file are the two bytes E2 82, cut short. */
    size_t len = line.len;
    if (tci_str_find(line, TC_STR("\xE2\x82")) < line.len)
        len += 1;
    return has_mark ? len - 3 : len;
}

static void lines_of_a_file_are_found(void **state)
{
    static const int64_t table[][2] = {{0, -1}, {0, 1}, {1, 3}, {2, 3}, {3, -1}, {4, 9}};
    bench b;
    tc_str lines[16], got;
    size_t n;
    tc_line_scan scan;
    tc_str file = TC_STR("\xEF\xBB\xBF"
                         "a\n\xE2\x82\n\n\xEF\xBB\xBF"
                         "b\n\xC3\xA9");
    bench_open(&b, *state, "scans");
    put_file(&b, "f", file);
    lines_of(file, lines, &n);
    assert_int_equal(n, 5);
    tc_binary_reader *r = open_bytes(&b, "f");
    for (size_t i = 0; i < TCI_ARRAY_LEN(table); i++) {
        int64_t from = table[i][0], to = table[i][1];
        assert_ok(b.f, tc_binary_reader_scan_lines(r, &b.call, from, to < 0 ? NULL : &to, &scan,
                                                   &b.f->err));
        size_t last = to < 0 || to > (int64_t)n ? n : (size_t)to, bytes = 0;
        for (size_t k = (size_t)from; k < last; k++)
            bytes += decoded_len(lines[k], k == 0) + (k > (size_t)from ? 1 : 0);
        assert_int_equal(scan.newlines, 4);
        assert_int_equal(scan.selected_bytes, bytes);
        assert_int_equal(scan.first_line_bytes, decoded_len(lines[from], from == 0));
        assert_ptr_equal(file.ptr + scan.start, lines[from].ptr);
        assert_int_equal(scan.first_line_end - scan.start, lines[from].len);
        assert_ptr_equal(file.ptr + scan.last_line_start, lines[last - 1].ptr);
        assert_int_equal(scan.end, (size_t)(lines[last - 1].ptr - file.ptr) + lines[last - 1].len);
    }
    assert_ok(b.f, tc_binary_reader_scan_lines(r, &b.call, 9, NULL, &scan, &b.f->err));
    assert_true(scan.start == file.len && scan.end == file.len && scan.selected_bytes == 0);
    int64_t end = 2;
    assert_word(&b, TC_ENV_INVALID,
                tc_binary_reader_scan_lines(r, &b.call, 2, &end, &scan, &b.f->err));
    assert_word(&b, TC_ENV_INVALID,
                tc_binary_reader_scan_lines(r, &b.call, -1, NULL, &scan, &b.f->err));
    assert_word(&b, TC_ENV_ABORTED,
                tc_binary_reader_scan_lines(r, &b.dead, 0, NULL, &scan, &b.f->err));
    got = read_at(&b, r, 0, 100);
    assert_true(tci_str_eq(got, file));
    tc_binary_reader_free(r);
    bench_close(&b);
}

static void an_open_file_stays_the_one_it_was(void **state)
{
    bench b;
    only_if((fixture *)*state, is_pi);
    bench_open(&b, *state, "stays");
    put_file(&b, "a", text("old"));
    tc_binary_reader *r = open_bytes(&b, "a");
    assert_ok(b.f, tc_env_rename_file(b.env, &b.call, text("a"), text("b"), &b.f->err));
    put_file(&b, "a", text("new content"));
    assert_text(read_at(&b, r, 0, 100), "old");
    tc_binary_reader_free(r);
    bench_close(&b);
}

static void only_regular_files_are_opened_for_bytes(void **state)
{
    bench b;
    tc_binary_reader *r = NULL;
    bench_open(&b, *state, "regular");
    put_dir(&b, "dir");
    put_file(&b, "dir/f", text("content"));
    put_link(&b, "dir/f", "link");
    put_link(&b, "dir", "dirlink");
    assert_word(&b, TC_ENV_IS_DIRECTORY,
                tc_env_open_binary_reader(b.env, &b.call, text("dir"), false, &r, &b.f->err));
    assert_word(&b, TC_ENV_NOT_FOUND,
                tc_env_open_binary_reader(b.env, &b.call, text("no"), false, &r, &b.f->err));
    assert_word(&b, TC_ENV_INVALID,
                tc_env_open_binary_reader(b.env, &b.call, text("/dev/null"), false, &r, &b.f->err));
    assert_word(&b, TC_ENV_INVALID,
                tc_env_open_binary_reader(b.env, &b.call, text("link"), true, &r, &b.f->err));
    r = open_bytes(&b, "link");
    assert_text(read_at(&b, r, 0, 9), "content");
    tc_binary_reader_free(r);
    assert_ok(b.f,
              tc_env_open_binary_reader(b.env, &b.call, text("dirlink/f"), true, &r, &b.f->err));
    assert_text(read_at(&b, r, 0, 9), "content");
    tc_binary_reader_free(r);
    bench_close(&b);
}

/* ---- directories ---- */

static tc_dir_reader *open_dir(bench *b, const char *path)
{
    tc_dir_reader *r = NULL;
    assert_ok(b->f, tc_env_open_dir_reader(b->env, &b->call, text(path), &r, &b->f->err));
    return r;
}

static void a_directory_comes_in_pages(void **state)
{
    bench b;
    tc_env_files page;
    unsigned seen = 0;
    char name[] = "d/0";
    bench_open(&b, *state, "pages");
    put_dir(&b, "d");
    for (char c = '1'; c <= '5'; c++) {
        name[2] = c;
        put_file(&b, name, tci_str_of("xxxxx", (size_t)(c - '0')));
    }
    put_dir(&b, "d/6");
    tc_dir_reader *r = open_dir(&b, "d");
    do {
        assert_ok(b.f, tc_dir_reader_next(r, &b.call, 2, &page, &b.f->err));
        assert_true(page.count <= 2 && (page.count == 2 || page.is_done));
        for (size_t i = 0; i < page.count; i++) {
            const tc_env_file *e = &page.entries[i];
            unsigned number = (unsigned)(e->name.ptr[0] - '0');
            assert_int_equal(seen & (1U << number), 0);
            seen |= 1U << number;
            assert_int_equal(e->kind, number == 6 ? TC_FILE_DIRECTORY : TC_FILE_REGULAR);
            if (number < 6)
                assert_int_equal(e->size, number);
        }
    } while (!page.is_done);
    assert_int_equal(seen, 0x7e);
    tc_dir_reader_free(r);
    bench_close(&b);
}

static void readers_of_directories_have_their_ends_and_words(void **state)
{
    bench b;
    tc_env_files page;
    tc_dir_reader *r;
    bench_open(&b, *state, "dirwords");
    put_dir(&b, "empty");
    put_file(&b, "f", text("x"));
    r = open_dir(&b, "empty");
    for (int i = 0; i < 2; i++) {
        assert_ok(b.f, tc_dir_reader_next(r, &b.call, 5, &page, &b.f->err));
        assert_true(page.is_done && page.count == 0);
    }
    assert_word(&b, TC_ENV_INVALID, tc_dir_reader_next(r, &b.call, 0, &page, &b.f->err));
    assert_word(&b, TC_ENV_ABORTED, tc_dir_reader_next(r, &b.dead, 1, &page, &b.f->err));
    tc_dir_reader_close(r);
    tc_dir_reader_close(r);
    assert_word(&b, TC_ENV_INVALID, tc_dir_reader_next(r, &b.call, 1, &page, &b.f->err));
    tc_dir_reader_free(r);
    assert_word(&b, TC_ENV_NOT_FOUND,
                tc_env_open_dir_reader(b.env, &b.call, text("no"), &r, &b.f->err));
    assert_word(&b, TC_ENV_NOT_DIRECTORY,
                tc_env_open_dir_reader(b.env, &b.call, text("f"), &r, &b.f->err));
    bench_close(&b);
}

static void entries_that_went_away_are_not_reported(void **state)
{
    bench b;
    tc_env_files page;
    bench_open(&b, *state, "gone");
    put_file(&b, "a", text("x"));
    put_file(&b, "b", text("x"));
    tc_dir_reader *r = open_dir(&b, ".");
    assert_ok(b.f, tc_env_remove_path(b.env, &b.call, text("a"), false, false, &b.f->err));
    assert_ok(b.f, tc_dir_reader_next(r, &b.call, 10, &page, &b.f->err));
    assert_int_equal(page.count, 1);
    assert_text(page.entries[0].name, "b");
    tc_dir_reader_free(r);
    bench_close(&b);
}

/* ---- lines ---- */

static tc_line_reader *open_lines(bench *b, const char *path)
{
    tc_line_reader *r = NULL;
    assert_ok(b->f, tc_env_open_line_reader(b->env, &b->call, text(path), &r, &b->f->err));
    return r;
}

static void assert_line(bench *b, tc_line_reader *r, tc_str expected, bool is_terminated)
{
    tc_line line;
    assert_ok(b->f, tc_line_reader_next(r, &b->call, &line, &b->f->err));
    assert_false(line.is_end);
    assert_true(tci_str_eq(line.text, expected));
    assert_int_equal(line.is_terminated, is_terminated);
}

static void assert_no_line(bench *b, tc_line_reader *r)
{
    tc_line line;
    assert_ok(b->f, tc_line_reader_next(r, &b->call, &line, &b->f->err));
    assert_true(line.is_end);
}

static void lines_end_at_newlines_only(void **state)
{
    bench b;
    tc_line line;
    bench_open(&b, *state, "lines");
    put_file(&b, "f", text("one\r\n\ntwo\npartial"));
    tc_line_reader *r = open_lines(&b, "f");
    assert_word(&b, TC_ENV_ABORTED, tc_line_reader_next(r, &b.dead, &line, &b.f->err));
    assert_line(&b, r, text("one\r"), true);
    assert_line(&b, r, text(""), true);
    assert_word(&b, TC_ENV_ABORTED, tc_line_reader_next(r, &b.dead, &line, &b.f->err));
    assert_line(&b, r, text("two"), true);
    assert_line(&b, r, text("partial"), false);
    assert_no_line(&b, r);
    assert_no_line(&b, r);
    tc_line_reader_close(r);
    tc_line_reader_close(r);
    assert_word(&b, TC_ENV_INVALID, tc_line_reader_next(r, &b.call, &line, &b.f->err));
    tc_line_reader_free(r);
    put_file(&b, "empty", text(""));
    r = open_lines(&b, "empty");
    assert_no_line(&b, r);
    tc_line_reader_free(r);
    put_file(&b, "newline", text("\n"));
    r = open_lines(&b, "newline");
    assert_line(&b, r, text(""), true);
    assert_no_line(&b, r);
    tc_line_reader_free(r);
    bench_close(&b);
}

static void lines_survive_the_pieces_they_come_in(void **state)
{
    enum { EDGE = 64 * 1024, LONG = 200 * 1000 };
    bench b;
    tci_buf file;
    bench_open(&b, *state, "pieces");
    tci_buf_init(&file, TCI_BUF_MAX);
    tci_buf_append_str(&file, TC_STR("\xEF\xBB\xBF"));
    while (file.len < EDGE - 2)
        tci_buf_append_byte(&file, 'x');
    tci_buf_append_str(&file, TC_STR("\xF0\x9F\x98\x80\n")); /* across the edge of a piece */
    size_t first = file.len - 1;
    while (file.len < first + 1 + LONG)
        tci_buf_append_byte(&file, 'y');
    tci_buf_append_str(&file, TC_STR("\nbad \xFF\xE2\x82"));
    put_file(&b, "f", tci_buf_str(&file));
    tc_line_reader *r = open_lines(&b, "f");
    assert_line(&b, r, tci_str_sub(tci_buf_str(&file), 3, first - 3), true);
    assert_line(&b, r, tci_str_sub(tci_buf_str(&file), first + 1, LONG), true);
    assert_line(&b, r, TC_STR("bad \xEF\xBF\xBD\xEF\xBF\xBD"), false);
    assert_no_line(&b, r);
    tc_line_reader_free(r);
    tci_buf_done(&file);
    bench_close(&b);
}

static void a_directory_opens_and_fails_on_its_first_line(void **state)
{
    bench b;
    tc_line line;
    tc_strs lines;
    bench_open(&b, *state, "dirlines");
    put_dir(&b, "dir");
    tc_line_reader *r = open_lines(&b, "dir");
    assert_word(&b, TC_ENV_IS_DIRECTORY, tc_line_reader_next(r, &b.call, &line, &b.f->err));
    tc_line_reader_free(r);
    assert_word(&b, TC_ENV_IS_DIRECTORY,
                tc_env_read_text_lines(b.env, &b.call, text("dir"), NULL, &lines, &b.f->err));
    bench_close(&b);
}

/* ---- what is no regular file ---- */

static void write_to_fifo(void *arg)
{
    tc_err err;
    tci_file file = TCI_FILE_NONE;
    if (tci_file_open(*(tc_str *)arg, TCI_OPEN_WRITE, 0, &file, &err) < 0)
        return;
    int rc = tci_file_write_all(file, "through the pipe", 16, &err);
    TCI_UNUSED(rc); /* its reader may have given up before it read */
    tci_file_close(&file);
}

static void devices_and_pipes_are_read_as_they_come(void **state)
{
    bench b;
    tc_str got;
    tc_strs lines;
    tci_thread *writer;
    only_if((fixture *)*state, is_pi);
    bench_open(&b, *state, "devices");
    assert_ok(b.f, tc_env_read_text_file(b.env, &b.call, text("/dev/null"), &got, &b.f->err));
    assert_int_equal(got.len, 0);
    assert_ok(b.f, tc_env_read_binary_file(b.env, &b.call, text("/dev/null"), &got, &b.f->err));
    assert_int_equal(got.len, 0);
    assert_ok(b.f,
              tc_env_read_text_lines(b.env, &b.call, text("/dev/null"), NULL, &lines, &b.f->err));
    assert_int_equal(lines.count, 0);
    assert_ok(b.f, tc_env_read_text_file(b.env, &b.call, text("/proc/self/stat"), &got, &b.f->err));
    assert_true(got.len > 0);
    /* One for each: when exactly a reader has gone is the daemon's business. */
    static const char *const names[] = {"as-bytes", "as-text", "as-lines"};
    for (int i = 0; i < 3; i++) {
        tc_str name = text(names[i]);
        put_fifo(&b, names[i]);
        tc_str path = below(&b, names[i]);
        assert_ok(b.f, tci_thread_new(write_to_fifo, &path, 0, &writer, &b.f->err));
        if (i == 0)
            assert_ok(b.f, tc_env_read_binary_file(b.env, &b.call, name, &got, &b.f->err));
        else if (i == 1)
            assert_ok(b.f, tc_env_read_text_file(b.env, &b.call, name, &got, &b.f->err));
        else
            assert_word(&b, TC_ENV_UNKNOWN,
                        tc_env_read_text_lines(b.env, &b.call, name, NULL, &lines, &b.f->err));
        tci_thread_join(writer);
        if (i < 2)
            assert_text(got, "through the pipe");
    }
    bench_close(&b);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(any_part_of_a_file_is_read),
    cmocka_unit_test(lines_of_a_file_are_found),
    cmocka_unit_test(an_open_file_stays_the_one_it_was),
    cmocka_unit_test(only_regular_files_are_opened_for_bytes),
    cmocka_unit_test(a_directory_comes_in_pages),
    cmocka_unit_test(readers_of_directories_have_their_ends_and_words),
    cmocka_unit_test(entries_that_went_away_are_not_reported),
    cmocka_unit_test(lines_end_at_newlines_only),
    cmocka_unit_test(lines_survive_the_pieces_they_come_in),
    cmocka_unit_test(a_directory_opens_and_fails_on_its_first_line),
    cmocka_unit_test(devices_and_pipes_are_read_as_they_come),
};

int main(int argc, char **argv)
{
    return RUN_SUITE(argc, argv, tests);
}
