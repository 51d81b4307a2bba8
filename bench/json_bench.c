/* SPDX-License-Identifier: Apache-2.0
 *
 * How long the JSON codec and its helpers take: a small request, large texts, many keys. With
 * -DBENCH_YYJSON and yyjson's source folder on the include path, yyjson parses the same inputs for
 * comparison. Leaves judging to docs/decisions/0001-json-codec.md. One thread.
 *
 *   cc -O2 -std=c17 -D_GNU_SOURCE -Isrc -Iinclude bench/json_bench.c src/base/[!gi]*.c \
 *     src/plat/posix/clock.c -lcrypto -lm -o /tmp/json_bench && /tmp/json_bench */
#include "base/base64.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/utf8.h"
#include "plat/clock.h"
#include <stdio.h>
#include <stdlib.h>
#ifdef BENCH_YYJSON
#include "yyjson.h"
#endif

enum { ROUNDS = 9, LARGE = 16 * 1024 * 1024 };

typedef struct input {
    const char *name;
    tci_buf text;
    int repeats;   /* in one round */
    bool is_small; /* report ns for one, not MB/s */
} input;

static void fail(const char *what)
{
    (void)fprintf(stderr, "json_bench: %s\n", what);
    exit(1);
}

static void parse_ours(const input *in)
{
    tci_arena a;
    tci_json v;
    tc_err err;
    tci_arena_init(&a, 1024 * 1024 * 1024);
    for (int i = 0; i < in->repeats; i++) {
        if (tci_json_parse(tci_buf_str(&in->text), 0, &a, &v, &err) != 0)
            fail(err.msg);
        tci_arena_clear(&a);
    }
    tci_arena_done(&a);
}

/* As a request arrives first: with an arena that owns nothing yet. */
static void parse_ours_cold(const input *in)
{
    tci_json v;
    tc_err err;
    for (int i = 0; i < in->repeats; i++) {
        tci_arena a;
        tci_arena_init(&a, 0);
        if (tci_json_parse(tci_buf_str(&in->text), 0, &a, &v, &err) != 0)
            fail(err.msg);
        tci_arena_done(&a);
    }
}

static void emit_ours(const input *in)
{
    tci_arena a;
    tci_json v;
    tci_buf out;
    tc_err err;
    tci_arena_init(&a, 1024 * 1024 * 1024);
    tci_buf_init(&out, TCI_BUF_MAX);
    if (tci_json_parse(tci_buf_str(&in->text), 0, &a, &v, &err) != 0)
        fail(err.msg);
    for (int i = 0; i < in->repeats; i++) {
        tci_buf_clear(&out);
        tci_json_put(&out, &v, TCI_JSON_AS_IS);
    }
    tci_buf_done(&out);
    tci_arena_done(&a);
}

#ifdef BENCH_YYJSON
static void parse_yyjson(const input *in)
{
    for (int i = 0; i < in->repeats; i++) {
        yyjson_doc *doc = yyjson_read(in->text.ptr, in->text.len, YYJSON_READ_NOFLAG);
        if (doc == NULL)
            fail("yyjson refuses");
        yyjson_doc_free(doc);
    }
}

static void parse_yyjson_raw(const input *in)
{
    for (int i = 0; i < in->repeats; i++) {
        yyjson_doc *doc = yyjson_read(in->text.ptr, in->text.len, YYJSON_READ_NUMBER_AS_RAW);
        if (doc == NULL)
            fail("yyjson refuses");
        yyjson_doc_free(doc);
    }
}
#endif

static void utf8_check(const input *in)
{
    for (int i = 0; i < in->repeats; i++) {
        if (!tci_utf8_is_valid(tci_buf_str(&in->text)))
            fail("not UTF-8");
    }
}

static void base64_both(const input *in, bool is_decoding)
{
    size_t len = tci_base64_encoded_len(in->text.len), back;
    char *text = tci_mem_alloc(len), *bytes = tci_mem_alloc(tci_base64_decoded_max(len));
    tc_err err;
    if (text == NULL || bytes == NULL)
        fail("out of memory");
    tci_base64_encode(tci_buf_str(&in->text), text);
    for (int i = 0; i < in->repeats; i++) {
        if (!is_decoding)
            tci_base64_encode(tci_buf_str(&in->text), text);
        else if (tci_base64_decode(tci_str_of(text, len), bytes, &back, &err) != 0)
            fail(err.msg);
    }
    tci_mem_free(text);
    tci_mem_free(bytes);
}

static void base64_encode(const input *in)
{
    base64_both(in, false);
}
static void base64_decode(const input *in)
{
    base64_both(in, true);
}

static void sha256(const input *in)
{
    uint8_t digest[TCI_SHA256_BYTES];
    for (int i = 0; i < in->repeats; i++)
        tci_sha256_of(tci_buf_str(&in->text), digest);
}

/* The best of some rounds: what the machine can do when nobody disturbs it. */
static void measure(const char *what, void (*run)(const input *), const input *in)
{
    int64_t best = INT64_MAX;
    for (int r = 0; r < ROUNDS; r++) {
        int64_t start = tci_clock_mono_ns();
        run(in);
        int64_t took = tci_clock_mono_ns() - start;
        best = took < best ? took : best;
    }
    double each = (double)best / in->repeats;
    if (in->is_small)
        (void)printf("%-22s %-24s %8zu B %10.0f ns\n", what, in->name, in->text.len, each);
    else
        (void)printf("%-22s %-24s %8zu B %10.0f MB/s\n", what, in->name, in->text.len,
                     (double)in->text.len * 1000 / each);
}

static void repeat(tci_buf *b, const char *piece)
{
    while (b->len < LARGE)
        tci_buf_append_str(b, tci_str(piece));
}

/* A document with one long text in it, as file.write_text carries. */
static void text_input(input *in, const char *name, const char *piece)
{
    *in = (input){.name = name, .repeats = 2};
    tci_buf_init(&in->text, TCI_BUF_MAX);
    tci_buf_append_str(&in->text, TC_STR("{\"text\":\""));
    repeat(&in->text, piece);
    tci_buf_append_str(&in->text, TC_STR("\"}"));
}

int main(void)
{
    input in[6];
    in[0] = (input){.name = "request", .repeats = 50000, .is_small = true};
    tci_buf_init(&in[0].text, TCI_BUF_MAX);
    tci_buf_append_str(
        &in[0].text,
        TC_STR("{\"eip_session\":\"session-20nb3ssgt0ge-1\",\"id\":5,\"jsonrpc\":\"2.0\","
               "\"method\":\"file.stat\",\"params\":{\"follow_symlinks\":true,\"path\":"
               "{\"path\":\"/home/someone/project/src/main.c\"}}}"));
    text_input(&in[1], "ASCII text", "The quick brown fox jumps over the lazy dog. ");
    text_input(&in[2], "source, escapes",
               "    if (name.len == 0)\\n        return tc_err_set(err, \\\"no name\\\");\\n");
    text_input(&in[3], "Chinese text", "\xe4\xb8\xad\xe6\x96\x87\xe6\x96\x87\xe6\x9c\xac");
    in[4] = (input){.name = "records", .repeats = 2};
    tci_buf_init(&in[4].text, TCI_BUF_MAX);
    tci_buf_append_byte(&in[4].text, '[');
    for (int i = 0; in[4].text.len < LARGE; i++)
        tci_buf_printf(&in[4].text,
                       "%s{\"path\":\"/src/file%d.c\",\"kind\":\"file\",\"size\":%d,"
                       "\"modified_at\":\"2026-11-29T16:11:02.341955887Z\",\"executable\":false}",
                       i > 0 ? "," : "", i, i * 7919 % 1000003);
    tci_buf_append_byte(&in[4].text, ']');
    in[5] = (input){.name = "100,000 keys", .repeats = 5};
    tci_buf_init(&in[5].text, TCI_BUF_MAX);
    for (int i = 0; i < 100000; i++)
        tci_buf_printf(&in[5].text, "%c\"key%d\":%d", i > 0 ? ',' : '{', i, i);
    tci_buf_append_byte(&in[5].text, '}');

    for (size_t i = 0; i < TCI_ARRAY_LEN(in); i++) {
        measure("parse", parse_ours, &in[i]);
        if (in[i].is_small)
            measure("parse, fresh arena", parse_ours_cold, &in[i]);
#ifdef BENCH_YYJSON
        measure("yyjson parse", parse_yyjson, &in[i]);
        measure("yyjson raw numbers", parse_yyjson_raw, &in[i]);
#endif
        measure("emit", emit_ours, &in[i]);
    }
    measure("utf8", utf8_check, &in[1]);
    measure("utf8", utf8_check, &in[3]);
    measure("base64 encode", base64_encode, &in[1]);
    measure("base64 decode", base64_decode, &in[1]);
    measure("sha256", sha256, &in[1]);
    for (size_t i = 0; i < TCI_ARRAY_LEN(in); i++)
        tci_buf_done(&in[i].text);
    return 0;
}
