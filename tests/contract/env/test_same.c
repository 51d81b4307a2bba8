/* SPDX-License-Identifier: Apache-2.0
 *
 * An environment and this machine's file system do the same: random sequences of operations give
 * equal results, over pi-env with equal words for failures, over EIP with failures where there are
 * failures. */
#include "reference.h"

#include "base/arena.h"
#include "client/client.h"
#include "plat/file.h"

enum { SEEDS = 60, STEPS = 25, CONTENTS = 6 };

typedef struct content {
    tci_buf bufs[CONTENTS];
} content;

static void contents_init(content *c)
{
    for (int i = 0; i < CONTENTS; i++)
        tci_buf_init(&c->bufs[i], TCI_BUF_MAX);
    tci_buf_append_str(&c->bufs[1], TC_STR("hello\n"));
    tci_buf_append_str(&c->bufs[2], TC_STR("\xEF\xBB\xBFmark\r\nand lines\r\n"));
    tci_buf_append_str(&c->bufs[3], TC_STR("\xE2\x82\n\xFF\xEF\xBB\xBF"));
    for (int i = 0; i < 70000; i++)
        tci_buf_append_byte(&c->bufs[4], 'x');
    for (int i = 0; i < 300001; i++)
        tci_buf_append_str(&c->bufs[5], TC_STR("\xC3\xA9"));
}

static void contents_done(content *c)
{
    for (int i = 0; i < CONTENTS; i++)
        tci_buf_done(&c->bufs[i]);
}

/* ---- the environment's side ---- */

static int env_read(bench *b, const same_step *s, tc_str path, tci_buf *out)
{
    tc_str got = {0};
    tc_strs lines = {0};
    int rc;
    if (s->op == SAME_READ_LINES) {
        rc = tc_env_read_text_lines(b->env, &b->call, path, &s->a, &lines, &b->f->err);
        for (size_t i = 0; rc == 0 && i < lines.count; i++)
            same_text(out, lines.items[i]);
        return rc;
    }
    rc = s->op == SAME_READ_TEXT
             ? tc_env_read_text_file(b->env, &b->call, path, &got, &b->f->err)
             : tc_env_read_binary_file(b->env, &b->call, path, &got, &b->f->err);
    if (rc == 0)
        same_text(out, got);
    return rc;
}

static int env_look(bench *b, const same_step *s, tc_str path, tci_buf *out)
{
    tc_env_file file;
    tc_env_files files = {0};
    bool exists;
    int rc;
    if (s->op == SAME_EXISTS) {
        rc = tc_env_path_exists(b->env, &b->call, path, &exists, &b->f->err);
        if (rc == 0)
            tci_buf_printf(out, "%s\n", exists ? "there" : "not there");
    } else if (s->op == SAME_INFO) {
        rc = tc_env_file_info(b->env, &b->call, path, &file, &b->f->err);
        if (rc == 0)
            same_file(out, file.name, file.kind, file.size);
    } else {
        rc = tc_env_list_dir(b->env, &b->call, path, &files, &b->f->err);
        for (size_t i = 0; rc == 0 && i < files.count; i++)
            same_file(out, files.entries[i].name, files.entries[i].kind, files.entries[i].size);
    }
    return rc;
}

static int by_name(const void *left, const void *right)
{
    return tci_str_cmp(((const tc_env_file *)left)->name, ((const tc_env_file *)right)->name);
}

/* Pages of two, put together. */
static int env_pages(bench *b, tc_str path, tci_buf *out)
{
    enum { MAX = 256 };
    tc_env_file all[MAX];
    tc_env_files page = {0};
    tc_dir_reader *r = NULL;
    size_t n = 0;
    int rc = tc_env_open_dir_reader(b->env, &b->call, path, &r, &b->f->err);
    while (rc == 0 && !page.is_done) {
        rc = tc_dir_reader_next(r, &b->call, 2, &page, &b->f->err);
        for (size_t i = 0; rc == 0 && i < page.count && n < MAX; i++)
            all[n++] = page.entries[i];
    }
    qsort(all, n, sizeof all[0], by_name);
    for (size_t i = 0; rc == 0 && i < n; i++)
        same_file(out, all[i].name, all[i].kind, all[i].size);
    tc_dir_reader_free(r);
    return rc;
}

static int env_canonical(bench *b, tc_str path, tci_buf *out)
{
    tc_str got, root;
    int rc = tc_env_canonical_path(b->env, &b->call, path, &got, &b->f->err);
    if (rc < 0)
        return rc;
    rc = tc_env_canonical_path(b->env, &b->call, text("."), &root, &b->f->err);
    if (rc == 0)
        same_text(out, tci_str_sub(got, root.len, SIZE_MAX));
    return rc;
}

static int env_reader(bench *b, const same_step *s, tc_str path, tci_buf *out)
{
    tc_binary_reader *r = NULL;
    tc_line_scan scan;
    tc_str got;
    int rc = tc_env_open_binary_reader(b->env, &b->call, path, s->flag, &r, &b->f->err);
    if (rc == 0)
        rc = tc_binary_reader_read(r, &b->call, s->a, s->b, &got, &b->f->err);
    if (rc == 0)
        same_text(out, got);
    if (rc == 0)
        rc = tc_binary_reader_scan_lines(r, &b->call, 0, NULL, &scan, &b->f->err);
    if (rc == 0)
        tci_buf_printf(
            out, "scan %llu %llu %llu %llu %llu\n", (unsigned long long)scan.newlines,
            (unsigned long long)scan.last_line_start, (unsigned long long)scan.first_line_end,
            (unsigned long long)scan.selected_bytes, (unsigned long long)scan.first_line_bytes);
    tc_binary_reader_free(r);
    return rc;
}

static int env_change(bench *b, const same_step *s, tc_str path, const char **ret_word)
{
    tc_err *err = &b->f->err;
    *ret_word = "done";
    switch (s->op) {
    case SAME_WRITE:
        *ret_word = "written";
        return tc_env_write_file(b->env, &b->call, path, s->bytes, err);
    case SAME_APPEND:
        *ret_word = "written";
        return tc_env_append_file(b->env, &b->call, path, s->bytes, err);
    case SAME_REMOVE:
        *ret_word = "removed";
        return tc_env_remove_path(b->env, &b->call, path, s->flag, s->force, err);
    case SAME_CREATE_DIR:
        return tc_env_create_dir(b->env, &b->call, path, s->flag, err);
    case SAME_RENAME:
        return tc_env_rename_file(b->env, &b->call, path, text(s->to), err);
    case SAME_TRUNCATE:
        return tc_env_truncate_file(b->env, &b->call, path, s->a, err);
    case SAME_FLUSH:
        return tc_env_flush_file(b->env, &b->call, path, err);
    case SAME_READ_TEXT:
    case SAME_READ_BYTES:
    case SAME_READ_LINES:
    case SAME_INFO:
    case SAME_EXISTS:
    case SAME_LIST:
    case SAME_PAGES:
    case SAME_CANONICAL:
    case SAME_READER:
    case SAME_COUNT:
        break;
    }
    fail_msg("no change: %d", (int)s->op);
    return 0;
}

static void env_step(bench *b, const same_step *s, tci_buf *out)
{
    tc_str path = text(s->path);
    const char *word = NULL;
    int rc;
    if (s->op == SAME_READ_TEXT || s->op == SAME_READ_BYTES || s->op == SAME_READ_LINES)
        rc = env_read(b, s, path, out);
    else if (s->op == SAME_INFO || s->op == SAME_EXISTS || s->op == SAME_LIST)
        rc = env_look(b, s, path, out);
    else if (s->op == SAME_PAGES)
        rc = env_pages(b, path, out);
    else if (s->op == SAME_CANONICAL)
        rc = env_canonical(b, path, out);
    else if (s->op == SAME_READER)
        rc = env_reader(b, s, path, out);
    else
        rc = env_change(b, s, path, &word);
    if (rc < 0) {
        tci_buf_clear(out);
        same_fail(out, tc_result_evidence(b->f->r)->env_error);
    } else if (word != NULL) {
        tci_buf_printf(out, "%s\n", word);
    }
}

/* ---- sequences ---- */

static uint32_t next_random(uint32_t *x)
{
    *x = *x * 1664525 + 1013904223;
    return *x >> 16;
}

static same_step random_step(uint32_t *x, const content *c)
{
    static const char *const names[] = {
        "a.txt", "b", "dir", "dir/c.txt", "dir/sub", "dir/sub/d.bin", "missing", "a.txt/x"};
    same_step s = {.op = (same_op)(next_random(x) % SAME_COUNT)};
    s.path = names[next_random(x) % TCI_ARRAY_LEN(names)];
    s.to = names[next_random(x) % TCI_ARRAY_LEN(names)];
    s.a = next_random(x) % (s.op == SAME_TRUNCATE ? 10 : s.op == SAME_READ_LINES ? 4 : 8);
    s.b = next_random(x) % 8;
    s.flag = next_random(x) % 2 != 0;
    s.force = next_random(x) % 2 != 0;
    s.bytes = tci_buf_str(&c->bufs[next_random(x) % CONTENTS]);
    return s;
}

static bool is_same_result(bench *b, const tci_buf *got, const tci_buf *wanted)
{
    tc_str g = tci_buf_str(got), w = tci_buf_str(wanted);
    if (tci_str_eq(g, w))
        return true;
    return !b->f->p->is_pi && tci_str_starts(g, TC_STR("fails: ")) &&
           tci_str_starts(w, TC_STR("fails: "));
}

static void run_seed(bench *b, uint32_t seed, tc_str reference_root, const content *c)
{
    tci_buf got, wanted;
    uint32_t x = seed * 7919 + 1;
    tci_buf_init(&got, TCI_BUF_MAX);
    tci_buf_init(&wanted, TCI_BUF_MAX);
    for (int i = 0; i < STEPS; i++) {
        same_step s = random_step(&x, c);
        tci_buf_clear(&got);
        tci_buf_clear(&wanted);
        env_step(b, &s, &got);
        reference_step(&s, reference_root, &wanted);
        if (!is_same_result(b, &got, &wanted))
            fail_msg(
                "seed %u, step %d: operation %d on %s (%s, %lld, %d, %d) gives '%.60s' instead "
                "of '%.60s': %s",
                seed, i, (int)s.op, s.path, s.to, (long long)s.a, s.flag, s.force,
                got.len > 0 ? got.ptr : "", wanted.len > 0 ? wanted.ptr : "", b->f->err.msg);
    }
    tci_buf_done(&got);
    tci_buf_done(&wanted);
}

static void random_sequences_give_equal_results(void **state)
{
    bench b;
    content c;
    bench_open(&b, *state, "same");
    contents_init(&c);
    for (uint32_t seed = 0; seed < SEEDS; seed++) {
        char name[64];
        tc_result_clear(b.f->r);
        snprintf(name, sizeof name, "same-env-%u", seed);
        tc_str root = folder(b.f, name);
        assert_ok(b.f, tc_env_set_cwd(b.env, root, &b.f->err));
        snprintf(name, sizeof name, "same-ref-%u", seed);
        run_seed(&b, seed, folder(b.f, name), &c);
    }
    contents_done(&c);
    bench_close(&b);
}

static void names_that_are_no_text_are_told_as_they_can_be(void **state)
{
    static const char *const names[] = {"b", "a\xFF", "\xC3\xA9", "a\xFEz", "z"};
    bench b;
    tc_env_files files;
    only_if((fixture *)*state, is_pi);
    bench_open(&b, *state, "notext");
    tc_dir_reader *r = NULL;
    for (size_t i = 0; i < TCI_ARRAY_LEN(names); i++)
        put_file(&b, names[i], text("x"));
    /* Looking at an entry by its decoded name finds none: the listing fails, pages leave it out. */
    assert_word(&b, TC_ENV_NOT_FOUND,
                tc_env_list_dir(b.env, &b.call, text("."), &files, &b.f->err));
    assert_ok(b.f, tc_env_open_dir_reader(b.env, &b.call, text("."), &r, &b.f->err));
    size_t n = 0;
    for (files.is_done = false; !files.is_done;) {
        assert_ok(b.f, tc_dir_reader_next(r, &b.call, 2, &files, &b.f->err));
        n += files.count;
    }
    assert_int_equal(n, 3);
    tc_dir_reader_free(r);
    bench_close(&b);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(random_sequences_give_equal_results),
    cmocka_unit_test(names_that_are_no_text_are_told_as_they_can_be),
};

int main(int argc, char **argv)
{
    return RUN_SUITE(argc, argv, tests);
}
