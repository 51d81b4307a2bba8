/* SPDX-License-Identifier: Apache-2.0
 *
 * Content-Length frames: every rule with its text, and the same answer however the input is cut. */
#include "wire/frames.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

enum { MAX_CONTROL = 1000, MAX_DATA = 2000, INPUT_MAX = 20000, NOTE_MAX = 8192 };

/* What came out, as text: "C3:abc" or "D3:..." for each frame, then "eof" or the error. */
typedef struct notes {
    char text[NOTE_MAX];
    size_t len;
} notes;

static void note(notes *n, const char *head, tc_str body)
{
    int len = snprintf(n->text + n->len, sizeof n->text - n->len, "%s%zu:%.*s;", head, body.len,
                       (int)(body.len < 40 ? body.len : 40), body.len > 0 ? body.ptr : "");
    assert_true(len > 0 && (size_t)len < sizeof n->text - n->len);
    n->len += (size_t)len;
}

static void note_frame(notes *n, const tci_frame *frame)
{
    note(n, frame->kind == TCI_FRAME_DATA ? "D" : "C", frame->body);
}

/* The reader's user: keeps unused bytes of a body in front of what comes next, as a daemon with one
 * buffer does, or (gathers) collects each cut body on its own. */
typedef struct feeder {
    tci_frames *frames;
    char kept[INPUT_MAX];
    size_t nkept, gathered;
    bool gathers, failed;
    notes out;
} feeder;

static void feed(feeder *f, tc_str piece)
{
    tc_err err;
    if (f->failed)
        return;
    if (f->gathers && f->frames->has_head) {
        size_t n = f->frames->body_len - f->gathered;
        n = n < piece.len ? n : piece.len;
        memcpy(f->kept + f->gathered, piece.ptr, n);
        f->gathered += n;
        piece = tci_str_sub(piece, n, piece.len);
        if (f->gathered < f->frames->body_len)
            return;
        tci_frame frame;
        if (tci_frames_body(f->frames, tci_str_of(f->kept, f->gathered), &frame, &err) < 0) {
            f->failed = true;
            note(&f->out, "!", tci_str(err.msg));
            return;
        }
        note_frame(&f->out, &frame);
        f->gathered = 0;
    }
    /* An exact copy, so that a sanitizer sees reads beyond it. */
    size_t len = f->nkept + piece.len;
    char *in = malloc(len > 0 ? len : 1);
    assert_non_null(in);
    memcpy(in, f->kept, f->nkept);
    if (piece.len > 0)
        memcpy(in + f->nkept, piece.ptr, piece.len);
    tc_str rest = tci_str_of(in, len);
    f->nkept = 0;
    for (;;) {
        size_t used = 0;
        tci_frames_event event = TCI_FRAMES_MORE;
        tci_frame frame;
        if (tci_frames_next(f->frames, rest, &used, &event, &frame, &err) < 0) {
            assert_int_equal(err.code, TC_E_PROTOCOL);
            f->failed = true;
            note(&f->out, "!", tci_str(err.msg));
            break;
        }
        assert_true(used <= rest.len);
        rest = tci_str_sub(rest, used, rest.len);
        if (event == TCI_FRAMES_FRAME) {
            note_frame(&f->out, &frame);
            continue;
        }
        if (event == TCI_FRAMES_MORE) {
            assert_int_equal(rest.len, 0);
            break;
        }
        assert_true(rest.len < f->frames->body_len);
        memcpy(f->kept, rest.ptr, rest.len);
        if (f->gathers)
            f->gathered = rest.len;
        else
            f->nkept = rest.len;
        break;
    }
    free(in);
}

static void feed_end(feeder *f)
{
    tc_err err;
    if (f->failed)
        return;
    if (tci_frames_eof(f->frames, &err) < 0)
        note(&f->out, "!", tci_str(err.msg));
    else
        note(&f->out, "eof", TC_STR(""));
}

static feeder *feeder_new(bool gathers)
{
    feeder *f = calloc(1, sizeof *f);
    assert_non_null(f);
    f->frames = malloc(sizeof *f->frames);
    assert_non_null(f->frames);
    memset(f->frames, 0x5a, sizeof *f->frames);
    tci_frames_init(f->frames, MAX_CONTROL, MAX_DATA);
    f->gathers = gathers;
    return f;
}

static void feeder_free(feeder *f)
{
    free(f->frames);
    free(f);
}

static void expect_pieces(tc_str input, size_t first, size_t each, bool gathers,
                          const char *expected)
{
    feeder *f = feeder_new(gathers);
    feed(f, tci_str_sub(input, 0, first));
    for (size_t at = first; at < input.len; at += each)
        feed(f, tci_str_sub(input, at, each));
    feed_end(f);
    assert_string_equal(f->out.text, expected);
    feeder_free(f);
}

/* Whole, in every split in two (or around the ends for long inputs), byte by byte. */
static void expect(tc_str input, const char *expected)
{
    for (int gathers = 0; gathers < 2; gathers++) {
        expect_pieces(input, input.len, 1, gathers != 0, expected);
        size_t step = input.len > 600 ? input.len / 97 : 1;
        for (size_t at = 0; at <= input.len; at += step)
            expect_pieces(input, at, input.len, gathers != 0, expected);
        expect_pieces(input, 0, 1, gathers != 0, expected);
    }
}

static void expect_error(const char *head_lines, const char *text)
{
    char input[INPUT_MAX], expected[256];
    int n = snprintf(input, sizeof input, "%s\r\n\r\n", head_lines);
    assert_true(n > 0 && (size_t)n < sizeof input);
    (void)snprintf(expected, sizeof expected, "!%zu:%.40s;", strlen(text), text); /* fits */
    expect(tci_str(input), expected);
}

static void test_frames_of_both_kinds(void **state)
{
    TCI_UNUSED(state);
    expect(TC_STR(""), "eof0:;");
    expect(TC_STR("Content-Length: 2\r\n\r\n{}"), "C2:{};eof0:;");
    expect(TC_STR("Content-Length: 0\r\n\r\nContent-Length:\t1 \t\r\nX-Other: a b\r\n\r\n7"),
           "C0:;C1:7;eof0:;");
    expect(TC_STR("content-length: 3\r\nCONTENT-TYPE: Application/JSON\r\n\r\nabc"
                  "Content-Type: application/vnd.a13n.EIP-data\r\nContent-Length: 2\r\n\r\n\xff\xfe"
                  "Content-Length: 1\r\nContent-Type: application/json  ;  charset=UTF-8\r\n\r\nz"),
           "C3:abc;D2:\xff\xfe;C1:z;eof0:;");
    expect(TC_STR("Content-Length: 6\r\nEIP: 1\r\n\r\n\r\n\r\n\r\n"), "C6:\r\n\r\n\r\n;eof0:;");
}

static void test_end_of_input_inside_a_frame(void **state)
{
    TCI_UNUSED(state);
    tc_str whole = TC_STR("Content-Length: 4\r\n\r\nabcd");
    for (size_t cut = 1; cut < whole.len; cut++)
        expect(tci_str_sub(whole, 0, cut),
               cut < 21 ? "!29:EOF inside stdio frame header;" : "!9:early eof;");
    expect(TC_STR("Content-Length: 5\n\n[1,2]"), "!29:EOF inside stdio frame header;");
    expect(TC_STR("\r\n"), "!29:EOF inside stdio frame header;");
}

static void test_each_header_rule(void **state)
{
    static const struct {
        const char *lines, *text;
    } cases[] = {
        {"Content-Length: 007", "Content-Length must be canonical decimal"},
        {"Content-Length: +7", "Content-Length must be canonical decimal"},
        {"Content-Length: -1", "Content-Length must be canonical decimal"},
        {"Content-Length: 0x1", "Content-Length must be canonical decimal"},
        {"Content-Length: 1 2", "Content-Length must be canonical decimal"},
        {"Content-Length: 18446744073709551616", "Content-Length does not fit this platform"},
        {"Content-Length: 18446744073709551615",
         "stdio frame body exceeds its applicable byte limit"},
        {"Content-Length: 1001", "stdio frame body exceeds its applicable byte limit"},
        {"Content-Length: 2001\r\nContent-Type: application/vnd.a13n.eip-data",
         "stdio frame body exceeds its applicable byte limit"},
        {"X-A: 1", "Content-Length header is required"},
        {"", "malformed stdio frame header"},
        {"\r\nContent-Length: 1", "malformed stdio frame header"},
        {"Content-Length", "malformed stdio frame header"},
        {": x", "malformed stdio frame header name"},
        {"X_Y: x", "malformed stdio frame header name"},
        {"X : x", "malformed stdio frame header name"},
        {" X: x", "malformed stdio frame header name"},
        {"\nX: x", "malformed stdio frame header name"},
        {"X:  \t", "malformed stdio frame header value"},
        {"X: a\tb", "malformed stdio frame header value"},
        {"X: a\x7f", "malformed stdio frame header value"},
        {"X: a\nY: b", "malformed stdio frame header value"},
        {"X: a\rY: b", "malformed stdio frame header value"},
        {"X_Y: 1\r\nX: \xc3\xa9", "stdio frame header must be ASCII"},
        {"Content-Length: 1\r\ncontent-length: 1", "duplicate stdio frame header"},
        {"X: 1\r\nx: ", "duplicate stdio frame header"},
        {"Content-Type: text/plain", "unsupported stdio Content-Type"},
        {"Content-Type: application/json;", "unsupported stdio Content-Type"},
        {"Content-Type: application/json; charset=latin1", "unsupported stdio Content-Type"},
        {"Content-Type: application/json; charset=\"utf-8\"", "unsupported stdio Content-Type"},
        {"Content-Type: application/json; charset= utf-8", "unsupported stdio Content-Type"},
        {"Content-Type: application/json; charset=utf-8; a=b", "unsupported stdio Content-Type"},
        {"Content-Type: application/vnd.a13n.eip-data; a=b", "unsupported stdio Content-Type"},
        {"Authorization: x", "security-sensitive stdio header is forbidden"},
        {"Content-Encoding: x", "security-sensitive stdio header is forbidden"},
        {"transfer-encoding: chunked", "security-sensitive stdio header is forbidden"},
        {"EIP-Session: x", "security-sensitive stdio header is forbidden"},
        {"eip-foo: x", "reserved stdio header is forbidden"},
        {"EIP-: x", "reserved stdio header is forbidden"},
        /* the first broken line decides */
        {"Content-Length: 07\r\nEIP-A: 1", "Content-Length must be canonical decimal"},
        {"EIP-A: 1\r\nContent-Length: 07", "reserved stdio header is forbidden"},
        {"Content-Length: 9999\r\nContent-Type: x/y", "unsupported stdio Content-Type"},
    };
    TCI_UNUSED(state);
    for (size_t i = 0; i < TCI_ARRAY_LEN(cases); i++)
        expect_error(cases[i].lines, cases[i].text);
}

/* "Content-Length: 1", then X lines of the given whole lengths (line ends included), then the rest.
 */
static tc_str lines_of(char *out, const size_t *lens, size_t nlens, const char *rest)
{
    size_t at = (size_t)snprintf(out, INPUT_MAX, "Content-Length: 1\r\n");
    for (size_t i = 0; i < nlens; i++) {
        memset(out + at, 'v', lens[i]);
        int n = snprintf(out + at, 8, "X%zu:", i);
        out[at + (size_t)n] = 'v';
        memcpy(out + at + lens[i] - 2, "\r\n", 2);
        at += lens[i];
    }
    memcpy(out + at, rest, strlen(rest));
    return tci_str_of(out, at + strlen(rest));
}

static void test_limits_of_lines_and_header(void **state)
{
    char in[INPUT_MAX];
    size_t fits[] = {4096}, over[] = {4097};
    size_t total[] = {4000, 4000, 8192 - 8000 - 19 - 2},
           total_over[] = {4000, 4000, 8193 - 8000 - 19 - 2};
    TCI_UNUSED(state);
    expect(lines_of(in, fits, 1, "\r\nx"), "C1:x;eof0:;");
    expect(lines_of(in, over, 1, "\r\nx"), "!46:stdio frame header line exceeds its byte;");
    expect(lines_of(in, total, 3, "\r\nx"), "C1:x;eof0:;");
    expect(lines_of(in, total_over, 3, "\r\nx"), "!41:stdio frame header exceeds its byte limi;");
    /* without an end in sight: the byte that passes the limit decides, not the next line end */
    memset(in, 'x', sizeof in);
    expect(tci_str_of(in, 4096), "!29:EOF inside stdio frame header;");
    expect(tci_str_of(in, 4097), "!46:stdio frame header line exceeds its byte;");
    tc_str s = lines_of(in, total, 2, "");
    memset(in + s.len, 'y', 1000);
    expect(tci_str_of(in, 8192), "!29:EOF inside stdio frame header;");
    expect(tci_str_of(in, 8193), "!41:stdio frame header exceeds its byte limi;");
}

static void test_count_of_lines(void **state)
{
    char in[INPUT_MAX];
    size_t lens[32];
    TCI_UNUSED(state);
    for (size_t i = 0; i < 32; i++)
        lens[i] = 10;
    expect(lines_of(in, lens, 31, "\r\nx"), "C1:x;eof0:;");
    expect(lines_of(in, lens, 31, ""), "!29:EOF inside stdio frame header;");
    expect(lines_of(in, lens, 32, ""), "!42:stdio frame header count exceeds its lim;");
}

static void test_control_bodies_are_utf8_and_data_bodies_anything(void **state)
{
    TCI_UNUSED(state);
    expect(TC_STR("Content-Length: 4\r\n\r\n\"\xff\xfe\""), "!21:control must be UTF-8;");
    expect(TC_STR("Content-Length: 2\r\n\r\n\xed\xa0"), "!21:control must be UTF-8;");
    expect(TC_STR("Content-Length: 5\r\n\r\n\xef\xbb\xbf{}"), "C5:\xef\xbb\xbf{};eof0:;");
}

static void test_body_lies_in_the_input(void **state)
{
    tci_frames f;
    tc_err err;
    size_t used = 0;
    tci_frames_event event;
    tci_frame frame;
    TCI_UNUSED(state);
    tc_str in = TC_STR("Content-Length: 3\r\n\r\nabcContent-L");
    tci_frames_init(&f, 10, 10);
    assert_int_equal(tci_frames_next(&f, in, &used, &event, &frame, &err), 0);
    assert_int_equal(event, TCI_FRAMES_FRAME);
    assert_ptr_equal(frame.body.ptr, in.ptr + 21);
    assert_int_equal(used, 24);
}

static void test_heads_are_the_reference_bytes(void **state)
{
    char out[TCI_FRAMES_PUT_MAX];
    TCI_UNUSED(state);
    size_t n = tci_frames_put_head(out, TCI_FRAME_CONTROL, 87);
    tc_str control =
        TC_STR("Content-Length: 87\r\nContent-Type: application/json; charset=utf-8\r\n\r\n");
    assert_true(tci_str_eq(tci_str_of(out, n), control));
    n = tci_frames_put_head(out, TCI_FRAME_DATA, 0);
    tc_str data =
        TC_STR("Content-Length: 0\r\nContent-Type: application/vnd.a13n.eip-data\r\n\r\n");
    assert_true(tci_str_eq(tci_str_of(out, n), data));
    n = tci_frames_put_head(out, TCI_FRAME_CONTROL, UINT64_MAX);
    assert_true(n <= sizeof out);
    assert_true(
        tci_str_starts(tci_str_of(out, n), TC_STR("Content-Length: 18446744073709551615\r")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_frames_of_both_kinds),
        cmocka_unit_test(test_end_of_input_inside_a_frame),
        cmocka_unit_test(test_each_header_rule),
        cmocka_unit_test(test_limits_of_lines_and_header),
        cmocka_unit_test(test_count_of_lines),
        cmocka_unit_test(test_control_bodies_are_utf8_and_data_bodies_anything),
        cmocka_unit_test(test_body_lies_in_the_input),
        cmocka_unit_test(test_heads_are_the_reference_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
