/* SPDX-License-Identifier: Apache-2.0 */
#include "base/utf8_stream.h"
#include "check.h"

#define REPLACED "\xef\xbf\xbd"
#define MARK "\xef\xbb\xbf"

/* Slow and by the definition: the decoder of the Encoding Standard, a byte at a time. */
typedef struct reference {
    uint32_t point;
    unsigned seen, needed;
    unsigned char low, high;
    bool has_begun;
} reference;

static void put_point(reference *r, uint32_t point, tci_buf *out)
{
    char text[4];
    bool is_mark = !r->has_begun && point == 0xfeff;
    r->has_begun = true;
    if (is_mark)
        return;
    if (point < 0x80) {
        tci_buf_append_byte(out, (char)point);
        return;
    }
    size_t n = 0;
    if (point < 0x800) {
        text[n++] = (char)(0xc0 | point >> 6);
    } else if (point < 0x10000) {
        text[n++] = (char)(0xe0 | point >> 12);
        text[n++] = (char)(0x80 | (point >> 6 & 0x3f));
    } else {
        text[n++] = (char)(0xf0 | point >> 18);
        text[n++] = (char)(0x80 | (point >> 12 & 0x3f));
        text[n++] = (char)(0x80 | (point >> 6 & 0x3f));
    }
    text[n++] = (char)(0x80 | (point & 0x3f));
    tci_buf_append(out, text, n);
}

static void put_byte(reference *r, unsigned char c, tci_buf *out)
{
    if (r->needed == 0) {
        r->low = c == 0xe0 ? 0xa0 : c == 0xf0 ? 0x90 : 0x80;
        r->high = c == 0xed ? 0x9f : c == 0xf4 ? 0x8f : 0xbf;
        r->seen = 0;
        if (c <= 0x7f) {
            put_point(r, c, out);
        } else if (c >= 0xc2 && c <= 0xdf) {
            r->needed = 1;
            r->point = c & 0x1f;
        } else if (c >= 0xe0 && c <= 0xef) {
            r->needed = 2;
            r->point = c & 0x0f;
        } else if (c >= 0xf0 && c <= 0xf4) {
            r->needed = 3;
            r->point = c & 0x07;
        } else {
            put_point(r, 0xfffd, out);
        }
        return;
    }
    if (c < r->low || c > r->high) {
        r->needed = 0;
        put_point(r, 0xfffd, out);
        put_byte(r, c, out); /* once more, from the start */
        return;
    }
    r->low = 0x80;
    r->high = 0xbf;
    r->point = r->point << 6 | (c & 0x3fu);
    if (++r->seen == r->needed) {
        r->needed = 0;
        put_point(r, r->point, out);
    }
}

static void decode_by_definition(tc_str bytes, tci_buf *out)
{
    reference r = {0};
    tci_buf_clear(out);
    for (size_t i = 0; i < bytes.len; i++)
        put_byte(&r, (unsigned char)bytes.ptr[i], out);
    if (r.needed > 0)
        put_point(&r, 0xfffd, out);
}

typedef struct fixture {
    tci_buf text, expected, scratch;
} fixture;

static int setup(void **state)
{
    static fixture f;
    tci_buf_init(&f.text, TCI_BUF_MAX);
    tci_buf_init(&f.expected, TCI_BUF_MAX);
    tci_buf_init(&f.scratch, TCI_BUF_MAX);
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    tci_buf_done(&f->text);
    tci_buf_done(&f->expected);
    tci_buf_done(&f->scratch);
    return 0;
}

static void feed(fixture *f, tci_utf8_stream *s, tc_str piece)
{
    char *copy = exact_copy(piece);
    tci_buf_append_str(&f->text, tci_utf8_stream_feed(s, tci_str_of(copy, piece.len), &f->scratch));
    tci_mem_free(copy);
}

static void end(fixture *f, tci_utf8_stream *s)
{
    tci_buf_append_str(&f->text, tci_utf8_stream_end(s));
    assert_bytes(tci_buf_str(&f->text), tci_buf_str(&f->expected));
    tci_buf_clear(&f->text);
}

/* Whole, a byte at a time, and in every two and three pieces. */
static void check_all_splits(fixture *f, tc_str bytes)
{
    tci_utf8_stream s = {0};
    decode_by_definition(bytes, &f->expected);
    for (size_t i = 0; i < bytes.len; i++)
        feed(f, &s, tci_str_sub(bytes, i, 1));
    end(f, &s);
    for (size_t i = 0; i <= bytes.len; i++) {
        for (size_t k = i; k <= bytes.len; k++) {
            feed(f, &s, tci_str_sub(bytes, 0, i));
            feed(f, &s, tci_str_sub(bytes, i, k - i));
            feed(f, &s, tci_str_sub(bytes, k, bytes.len));
            end(f, &s);
        }
    }
}

static void expect(fixture *f, tc_str bytes, tc_str text)
{
    decode_by_definition(bytes, &f->expected);
    assert_bytes(tci_buf_str(&f->expected), text);
    check_all_splits(f, bytes);
}

static void known_texts(void **state)
{
    fixture *f = *state;
    expect(f, TC_STR("\xe2\x82" MARK "a"), TC_STR(REPLACED MARK "a"));
    expect(f, TC_STR(MARK "a"), TC_STR("a"));
    expect(f, TC_STR("\xff\xfe\x41\x00"), TC_STR(REPLACED REPLACED "A\0"));
    expect(f, TC_STR("\xe2\x82\x41"), TC_STR(REPLACED "A"));
    expect(f, TC_STR("\xe2\x82"), TC_STR(REPLACED));
    expect(f, TC_STR(""), TC_STR(""));
    expect(f, TC_STR(MARK), TC_STR(""));
    expect(f, TC_STR(MARK MARK "a"), TC_STR(MARK "a"));
    expect(f, TC_STR("a" MARK), TC_STR("a" MARK));
    expect(f, TC_STR("\xef\xbb"), TC_STR(REPLACED));
    expect(f, TC_STR("\xf0\x9f\x98\x80\xf0\x9f\x98"), TC_STR("\xf0\x9f\x98\x80" REPLACED));
    expect(f, TC_STR("\xed\xa0\x80"), TC_STR(REPLACED REPLACED REPLACED)); /* a surrogate */
    expect(f, TC_STR("\xe0\x80\xaf"), TC_STR(REPLACED REPLACED REPLACED)); /* overlong */
    expect(f, TC_STR("\xf4\x90\x80\x80"), TC_STR(REPLACED REPLACED REPLACED REPLACED));
    expect(f, TC_STR("\xc3\xc3\xa9"), TC_STR(REPLACED "\xc3\xa9"));
    expect(f, TC_STR("\xf1\x80\x80\xe1\x80\xc2"), TC_STR(REPLACED REPLACED REPLACED));
}

/* Every sequence of up to four bytes from those at which the rules change. */
static void all_short_sequences(void **state)
{
    fixture *f = *state;
    static const unsigned char edges[] = {0x00, 0x41, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0,
                                          0xbf, 0xc1, 0xc2, 0xdf, 0xe0, 0xe1, 0xed, 0xef,
                                          0xf0, 0xf1, 0xf4, 0xf5, 0xbb, 0xff};
    enum { N = sizeof edges };
    for (unsigned i = 0; i < N * N * N * N; i++) {
        unsigned char s[4] = {edges[i % N], edges[i / N % N], edges[i / N / N % N],
                              edges[i / N / N / N]};
        tci_utf8_stream stream = {0};
        tc_str bytes = tci_str_of(s, sizeof s);
        decode_by_definition(bytes, &f->expected);
        tci_buf_append_str(&f->text, tci_utf8_stream_feed(&stream, bytes, &f->scratch));
        end(f, &stream);
        for (size_t k = 0; k < sizeof s; k++)
            tci_buf_append_str(
                &f->text, tci_utf8_stream_feed(&stream, tci_str_sub(bytes, k, 1), &f->scratch));
        end(f, &stream);
    }
}

static void long_text_with_errors(void **state)
{
    fixture *f = *state;
    char text[64];
    for (size_t at = 0; at < sizeof text; at += 5) {
        memset(text, 'a', sizeof text);
        memcpy(text + 20, "\xe4\xb8\xad\xe6\x96\x87\xf0\x9f\x98\x80", 10);
        text[at] = (char)(unsigned char)0xe4;
        check_all_splits(f, tci_str_of(text, sizeof text));
    }
}

static void clean_text_is_not_copied(void **state)
{
    fixture *f = *state;
    tci_utf8_stream s = {0};
    static const char text[] = MARK "clean \xc3\xa9 and cut \xe4\xb8";
    tc_str got = tci_utf8_stream_feed(&s, tci_str(text), &f->scratch);
    assert_ptr_equal(got.ptr, text + 3);
    assert_int_equal(got.len, sizeof text - 1 - 3 - 2);
    assert_int_equal(f->scratch.len, 0);
    assert_text(tci_utf8_stream_feed(&s, TC_STR("\xad!"), &f->scratch), "\xe4\xb8\xad!");
    assert_text(tci_utf8_stream_end(&s), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(known_texts, setup, teardown),
        cmocka_unit_test_setup_teardown(all_short_sequences, setup, teardown),
        cmocka_unit_test_setup_teardown(long_text_with_errors, setup, teardown),
        cmocka_unit_test_setup_teardown(clean_text_is_not_copied, setup, teardown),
    };
    return cmocka_run_group_tests_name("utf8_stream", tests, NULL, NULL);
}
