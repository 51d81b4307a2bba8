/* SPDX-License-Identifier: Apache-2.0
 *
 * The output window, against a log of everything that was put into it. */
#include "tests_run.h"

#include "base/utf8.h"
#include "ops/window.h"

enum { MS = 1000000, RANDOM_ROUNDS = 400, RANDOM_PUTS = 60 };

/* All text in the order it came, with the stream of each byte. */
typedef struct log {
    tci_window w;
    tci_window_opts opts;
    tci_buf all, streams;
    size_t at; /* of all: told to the reader, as text or as skipped */
    uint64_t nevents, nskips, delivered, skipped, newlines, skipped_newlines;
    tci_buf tail; /* what a reader keeps who starts anew at an omission */
    int64_t now_ns;
} log;

static void log_init(log *l, uint64_t max_bytes, uint64_t max_lines, double interval_ms,
                     double rate)
{
    *l = (log){.opts = {.max_bytes = max_bytes,
                        .max_lines = max_lines,
                        .min_interval_ms = interval_ms,
                        .bytes_per_second = rate}};
    tci_window_init(&l->w, &l->opts);
    tci_buf_init(&l->all, TCI_BUF_MAX);
    tci_buf_init(&l->streams, TCI_BUF_MAX);
    tci_buf_init(&l->tail, TCI_BUF_MAX);
}

static void put(log *l, unsigned stream, tc_str text)
{
    tc_err err;
    assert_int_equal(tci_window_put(&l->w, stream, text, &err), 0);
    tci_buf_append_str(&l->all, text);
    for (size_t i = 0; i < text.len; i++)
        tci_buf_append_byte(&l->streams, (char)stream);
}

static bool is_over_window(const log *l, tc_str text)
{
    return text.len > l->opts.max_bytes || tci_str_count_byte(text, '\n') > l->opts.max_lines;
}

static void check_skip(log *l, const tci_window_event *e)
{
    tc_str skipped = tci_str_sub(tci_buf_str(&l->all), l->at, (size_t)e->skipped_bytes);
    assert_int_equal(skipped.len, e->skipped_bytes);
    assert_true(skipped.len > 0);
    assert_int_equal(e->skipped_newlines, tci_str_count_byte(skipped, '\n'));
    assert_int_equal(e->skipped_ends_with_newline, skipped.ptr[skipped.len - 1] == '\n');
    assert_true(is_over_window(l, tci_buf_str(&e->text)));
    assert_true(e->is_last);
    assert_int_equal(l->at + skipped.len + e->text.len, l->all.len); /* all since, up to now */
    l->at += skipped.len;
    l->nskips++;
    l->skipped += e->skipped_bytes;
    l->skipped_newlines += e->skipped_newlines;
    tci_buf_clear(&l->tail);
}

static void check_event(log *l, tci_window_event *e, int last_stream)
{
    tc_str text = tci_buf_str(&e->text);
    assert_true(text.len > 0);
    if (e->has_skipped)
        check_skip(l, e);
    assert_memory_equal(text.ptr, l->all.ptr + l->at, text.len);
    assert_int_equal(l->streams.ptr[l->at + text.len - 1], e->stream);
    for (size_t i = 0; i < text.len && !e->has_skipped; i++)
        assert_int_equal(l->streams.ptr[l->at + i], e->stream);
    assert_int_not_equal(last_stream, (int)e->stream); /* one event for each stretch */
    l->at += text.len;
    l->delivered += text.len;
    l->newlines += tci_str_count_byte(text, '\n');
    l->nevents++;
    tci_buf_append_str(&l->tail, text);
    tci_buf_done(&e->text);
}

/* Take a whole delivery, due or not. */
static void take(log *l)
{
    tc_err err;
    tci_window_event e;
    bool has_one, was_last = true;
    int stream = -1;
    for (;;) {
        assert_int_equal(tci_window_take(&l->w, l->now_ns, &e, &has_one, &err), 0);
        if (!has_one)
            break;
        bool is_last = e.is_last;
        check_event(l, &e, stream);
        stream = (int)e.stream;
        was_last = is_last;
    }
    assert_true(was_last);
    assert_int_equal(l->at, l->all.len);
}

/* What a reader sees last is what it would have seen last without omissions. */
static void check_and_free(log *l)
{
    take(l);
    assert_int_equal(l->delivered + l->skipped, l->all.len);
    assert_int_equal(l->newlines + l->skipped_newlines,
                     tci_str_count_byte(tci_buf_str(&l->all), '\n'));
    if (l->nskips > 0)
        assert_true(is_over_window(l, tci_buf_str(&l->tail)));
    assert_true(tci_str_ends(tci_buf_str(&l->all), tci_buf_str(&l->tail)));
    tci_window_done(&l->w);
    tci_buf_done(&l->all);
    tci_buf_done(&l->streams);
    tci_buf_done(&l->tail);
}

static void little_output_is_left_as_it_is(void **state)
{
    TCI_UNUSED(state);
    log l;
    log_init(&l, 1000, 20, 0, 1e9);
    put(&l, 0, TC_STR("one\n"));
    put(&l, 1, TC_STR("two"));
    put(&l, 1, TC_STR("\n"));
    put(&l, 0, TC_STR("three\n"));
    take(&l);
    assert_int_equal(l.nevents, 3);
    assert_int_equal(l.nskips, 0);
    check_and_free(&l);
}

static void many_lines_on_two_streams(void **state)
{
    TCI_UNUSED(state);
    log l;
    log_init(&l, 10, 2, 0, 1e9);
    for (unsigned i = 0; i < 500; i++) {
        char line[64];
        int len = snprintf(line, sizeof line, "%u \xe4\xb8\xad \xf0\x9f\x98\x80 \xc3\xa9\n", i);
        put(&l, i % 2, tci_str_of(line, (size_t)len));
        if (i % 100 == 99)
            take(&l);
    }
    assert_true(l.nskips >= 4);
    check_and_free(&l);
}

static void lines_alone_may_overflow_it(void **state)
{
    TCI_UNUSED(state);
    log l;
    log_init(&l, 1000000, 3, 0, 1e9);
    for (unsigned i = 0; i < 100; i++)
        put(&l, 0, TC_STR("a line\n"));
    take(&l);
    assert_int_equal(l.nskips, 1);
    assert_true(l.delivered <= (4 * (3 + 1) + 1) * 7);
    check_and_free(&l);
}

/* 5 MB at once, as fast as memory: all but the window's multiple is only counted. */
static void one_large_text(void **state)
{
    TCI_UNUSED(state);
    log l;
    tci_buf text;
    log_init(&l, 1000, 20, 20, 1e6);
    tci_buf_init(&text, TCI_BUF_MAX);
    while (text.len < 5000000)
        tci_buf_append_str(&text, TC_STR("0123456789abcdef\n"));
    put(&l, 0, TC_STR("before\n"));
    put(&l, 1, tci_buf_str(&text));
    take(&l);
    assert_int_equal(l.nskips, 1);
    assert_true(l.delivered < 10000);
    tci_buf_done(&text);
    check_and_free(&l);
}

static uint32_t next_random(uint32_t *seed)
{
    *seed = *seed * 1664525 + 1013904223;
    return *seed >> 8;
}

static void put_random(log *l, uint32_t *seed)
{
    static const char *const parts[] = {"\n",       "a",      "\xe4\xb8\xad", "\xf0\x9f\x98\x80",
                                        "\xc3\xa9", "\n\n\n", "some words "};
    char text[600];
    size_t len = 0, want = next_random(seed) % 40;
    if (next_random(seed) % 8 == 0)
        want *= 14;
    while (len < want) {
        const char *part = parts[next_random(seed) % TCI_ARRAY_LEN(parts)];
        size_t n = strlen(part);
        memcpy(text + len, part, n);
        len += n;
    }
    put(l, next_random(seed) % 2, tci_str_of(text, len));
}

static void random_texts_and_windows(void **state)
{
    TCI_UNUSED(state);
    uint32_t seed = 20240229;
    for (int round = 0; round < RANDOM_ROUNDS; round++) {
        log l;
        log_init(&l, next_random(&seed) % 50, next_random(&seed) % 8, 0, 1e9);
        for (int i = 0; i < RANDOM_PUTS; i++) {
            put_random(&l, &seed);
            if (next_random(&seed) % 6 == 0)
                take(&l);
        }
        check_and_free(&l);
    }
}

static void deliveries_keep_their_distance(void **state)
{
    TCI_UNUSED(state);
    log l;
    log_init(&l, 1000, 100, 20, 10000);
    assert_true(tci_window_due_ns(&l.w) == INT64_MAX); /* there is nothing */
    put(&l, 0, TC_STR("x"));
    assert_true(tci_window_due_ns(&l.w) <= 0); /* the first is due at once */
    l.now_ns = 5 * MS;
    take(&l);
    put(&l, 0, TC_STR("y"));
    assert_true(tci_window_due_ns(&l.w) == INT64_MAX); /* the last one is not written */
    tci_window_written(&l.w);
    assert_int_equal(tci_window_due_ns(&l.w), 25 * MS);
    for (int i = 0; i < 499; i++)
        put(&l, 0, TC_STR("z"));
    l.now_ns = 30 * MS;
    take(&l);
    tci_window_written(&l.w);
    put(&l, 0, TC_STR("y"));
    assert_int_equal(tci_window_due_ns(&l.w), 80 * MS); /* 500 bytes at 10,000 a second */
    for (int i = 0; i < 3000; i++)
        put(&l, 0, TC_STR("z"));
    l.now_ns = 100 * MS;
    take(&l);
    tci_window_written(&l.w);
    put(&l, 0, TC_STR("y"));
    assert_int_equal(tci_window_due_ns(&l.w), 200 * MS); /* of which 1,000 count */
    check_and_free(&l);
}

static void numbers_beyond_reason(void **state)
{
    TCI_UNUSED(state);
    log l;
    log_init(&l, UINT64_MAX, UINT64_MAX, 1e300, -5);
    put(&l, 0, TC_STR("a\n"));
    take(&l);
    tci_window_written(&l.w);
    put(&l, 0, TC_STR("b\n"));
    assert_true(tci_window_due_ns(&l.w) > INT64_MAX / 2);
    check_and_free(&l);
    log_init(&l, 0, 0, -1, 1e300);
    put(&l, 0, TC_STR("abcdefgh"));
    put(&l, 1, TC_STR("\n"));
    check_and_free(&l);
}

/* A window too large to leave anything out says when it has enough. */
static void a_large_window_gets_full(void **state)
{
    TCI_UNUSED(state);
    log l;
    static char block[65536];
    memset(block, 'b', sizeof block);
    log_init(&l, 64 * 1024 * 1024, UINT64_MAX, 0, 1e9);
    size_t n = 0;
    while (!tci_window_is_full(&l.w)) {
        put(&l, 0, tci_str_of(block, sizeof block));
        n += sizeof block;
    }
    assert_true(n > TCI_WINDOW_HOLD_MAX && n < 2 * TCI_WINDOW_HOLD_MAX);
    take(&l);
    assert_int_equal(l.nskips, 0);
    assert_false(tci_window_is_full(&l.w));
    check_and_free(&l);
}

static void text_survives_failing_memory(void **state)
{
    TCI_UNUSED(state);
    for (size_t n = 1;; n++) {
        tc_err err;
        tci_window w;
        tci_window_event e;
        tci_window_opts opts = {.max_bytes = 1000, .max_lines = 1000, .bytes_per_second = 1e9};
        tci_window_init(&w, &opts);
        tci_mem_fail_at(n);
        int rc = tci_window_put(&w, 0, TC_STR("out"), &err);
        if (rc == 0)
            rc = tci_window_put(&w, 1, TC_STR("err"), &err);
        bool has_one = rc == 0;
        size_t got = 0;
        while (rc == 0 && has_one) {
            rc = tci_window_take(&w, 0, &e, &has_one, &err);
            if (rc == 0 && has_one) {
                got += e.text.len;
                tci_buf_done(&e.text);
            }
        }
        bool was_reached = tci_mem_count() >= n;
        tci_mem_fail_at(0);
        assert_int_equal(rc, was_reached ? TC_E_NO_MEMORY : 0);
        for (has_one = true; has_one;) { /* what was put is still there */
            assert_int_equal(tci_window_take(&w, 0, &e, &has_one, &err), 0);
            if (has_one) {
                got += e.text.len;
                tci_buf_done(&e.text);
            }
        }
        assert_true(got == 6 || (was_reached && got % 3 == 0));
        tci_window_done(&w);
        if (!was_reached)
            break;
    }
}

int run_window_tests(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(little_output_is_left_as_it_is),
        cmocka_unit_test(many_lines_on_two_streams),
        cmocka_unit_test(lines_alone_may_overflow_it),
        cmocka_unit_test(one_large_text),
        cmocka_unit_test(random_texts_and_windows),
        cmocka_unit_test(deliveries_keep_their_distance),
        cmocka_unit_test(numbers_beyond_reason),
        cmocka_unit_test(a_large_window_gets_full),
        cmocka_unit_test(text_survives_failing_memory),
    };
    return cmocka_run_group_tests_name("window", tests, NULL, NULL);
}
