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

enum { ROUNDS = 25, LARGE = 16 * 1024 * 1024 };

typedef struct input {
    const char *name;
    tci_buf text;
    int repeats; /* in one round; more than one: report ns for one, not MB/s */
} input;

/* One input with all that the passes over it need, made once, so that only passes are measured. */
typedef struct bench {
    tc_str text;
    tci_arena arena;
    tci_json tree;
    tci_arena tree_arena;
    tci_buf out;
    tc_str base64;
    char *bytes; /* room for base64 decoded */
} bench;

static void fail(const char *what)
{
    (void)fprintf(stderr, "json_bench: %s\n", what);
    exit(1);
}

static void parse(bench *b)
{
    tci_json v;
    tc_err err;
    if (tci_json_parse(b->text, 0, &b->arena, &v, &err) != 0)
        fail(err.msg);
    tci_arena_clear(&b->arena);
}

/* As the first request of a connection: with an arena that owns nothing yet. */
static void parse_fresh(bench *b)
{
    tci_arena a;
    tci_json v;
    tc_err err;
    tci_arena_init(&a, 0);
    if (tci_json_parse(b->text, 0, &a, &v, &err) != 0)
        fail(err.msg);
    tci_arena_done(&a);
}

static void emit(bench *b)
{
    tci_buf_clear(&b->out);
    tci_json_put(&b->out, &b->tree, TCI_JSON_AS_IS);
}

#ifdef BENCH_YYJSON
static void parse_yyjson_with(bench *b, yyjson_read_flag flags)
{
    yyjson_doc *doc = yyjson_read(b->text.ptr, b->text.len, flags);
    if (doc == NULL)
        fail("yyjson refuses");
    yyjson_doc_free(doc);
}

static void parse_yyjson(bench *b)
{
    parse_yyjson_with(b, YYJSON_READ_NOFLAG);
}
static void parse_yyjson_raw(bench *b)
{
    parse_yyjson_with(b, YYJSON_READ_NUMBER_AS_RAW);
}
#endif

static void utf8(bench *b)
{
    if (!tci_utf8_is_valid(b->text))
        fail("not UTF-8");
}

static void base64_encode(bench *b)
{
    tci_buf_clear(&b->out);
    tci_base64_append(&b->out, b->text);
}

static void base64_decode(bench *b)
{
    size_t len;
    tc_err err;
    if (tci_base64_decode(b->base64, b->bytes, &len, &err) != 0)
        fail(err.msg);
}

static void sha256(bench *b)
{
    uint8_t digest[TCI_SHA256_BYTES];
    tci_sha256_of(b->text, digest);
}

/* The best of some rounds: what the machine can do when nobody disturbs it. */
static void measure(const char *what, void (*run)(bench *), bench *b, const input *in)
{
    int64_t best = INT64_MAX;
    for (int r = 0; r < ROUNDS; r++) {
        int64_t start = tci_clock_mono_ns();
        for (int i = 0; i < in->repeats; i++)
            run(b);
        int64_t took = tci_clock_mono_ns() - start;
        best = took < best ? took : best;
    }
    if (in->repeats > 1)
        (void)printf("%-20s %-16s %8zu B %8.0f ns\n", what, in->name, b->text.len,
                     (double)best / in->repeats);
    else
        (void)printf("%-20s %-16s %8zu B %8.0f MB/s\n", what, in->name, b->text.len,
                     (double)b->text.len * 1000 / (double)best);
}

static void measure_all(const input *in)
{
    tci_buf encoded;
    bench b = {.text = tci_buf_str(&in->text)};
    tc_err err;
    tci_arena_init(&b.arena, (size_t)1 << 30);
    tci_arena_init(&b.tree_arena, (size_t)1 << 30);
    tci_buf_init(&b.out, TCI_BUF_MAX);
    tci_buf_init(&encoded, TCI_BUF_MAX);
    tci_base64_append(&encoded, b.text);
    b.base64 = tci_buf_str(&encoded);
    b.bytes = tci_mem_alloc(tci_base64_decoded_max(encoded.len));
    if (tci_json_parse(b.text, 0, &b.tree_arena, &b.tree, &err) != 0 || b.bytes == NULL)
        fail("cannot prepare");

    measure("parse", parse, &b, in);
    if (in->repeats > 1)
        measure("parse, fresh arena", parse_fresh, &b, in);
#ifdef BENCH_YYJSON
    measure("yyjson parse", parse_yyjson, &b, in);
    measure("yyjson, raw numbers", parse_yyjson_raw, &b, in);
#endif
    measure("emit", emit, &b, in);
    if (in->repeats == 1) {
        measure("utf8", utf8, &b, in);
        measure("base64 encode", base64_encode, &b, in);
        measure("base64 decode", base64_decode, &b, in);
        measure("sha256", sha256, &b, in);
    }
    tci_mem_free(b.bytes);
    tci_buf_done(&encoded);
    tci_buf_done(&b.out);
    tci_arena_done(&b.tree_arena);
    tci_arena_done(&b.arena);
}

static void repeat(tci_buf *b, const char *piece)
{
    while (b->len < LARGE)
        tci_buf_append_str(b, tci_str(piece));
}

/* A document with one long text in it, as file.write_text carries. */
static void text_input(input *in, const char *name, const char *piece)
{
    *in = (input){.name = name, .repeats = 1};
    tci_buf_init(&in->text, TCI_BUF_MAX);
    tci_buf_append_str(&in->text, TC_STR("{\"text\":\""));
    repeat(&in->text, piece);
    tci_buf_append_str(&in->text, TC_STR("\"}"));
}

int main(void)
{
    input in[6];
    in[0] = (input){.name = "request", .repeats = 2000};
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
    in[4] = (input){.name = "records", .repeats = 1};
    tci_buf_init(&in[4].text, TCI_BUF_MAX);
    tci_buf_append_byte(&in[4].text, '[');
    for (int i = 0; in[4].text.len < LARGE; i++)
        tci_buf_printf(&in[4].text,
                       "%s{\"path\":\"/src/file%d.c\",\"kind\":\"file\",\"size\":%d,"
                       "\"modified_at\":\"2026-11-29T16:11:02.341955887Z\",\"executable\":false}",
                       i > 0 ? "," : "", i, i * 7919 % 1000003);
    tci_buf_append_byte(&in[4].text, ']');
    in[5] = (input){.name = "100,000 keys", .repeats = 1};
    tci_buf_init(&in[5].text, TCI_BUF_MAX);
    for (int i = 0; i < 100000; i++)
        tci_buf_printf(&in[5].text, "%c\"key%d\":%d", i > 0 ? ',' : '{', i, i);
    tci_buf_append_byte(&in[5].text, '}');

    for (size_t i = 0; i < TCI_ARRAY_LEN(in); i++)
        measure_all(&in[i]);
    for (size_t i = 0; i < TCI_ARRAY_LEN(in); i++)
        tci_buf_done(&in[i].text);
    return 0;
}
