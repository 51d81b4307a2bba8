/* SPDX-License-Identifier: Apache-2.0
 *
 * Bytes that a tool brings back: byte 0 says what is kept, byte 1 how they are cut into pieces, the rest is
 * the output. Pieces keep what the whole keeps, within the limits, and nothing is lost count of; and what
 * kind of file it is, and which words, can be asked of anything. */
#include "base/utf8.h"
#include "harness/calls/output.h"
#include "harness/calls/search.h"
#include "harness/tools/tool_common.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void push(tci_output *o, tc_str bytes, size_t npiece)
{
    tc_err err;
    bool accepted;
    for (size_t at = 0; at < bytes.len; at += npiece)
        TC_ASSERT(tci_output_push(o, tci_str_sub(bytes, at, npiece), NULL, &accepted, &err) == 0);
    tci_output_end(o);
}

static void check_pieces(tc_str bytes, const tci_output_limits *limits, size_t npiece)
{
    tci_output whole, pieces;
    tci_output_view a, b;
    tci_output_init(&whole, limits);
    tci_output_init(&pieces, limits);
    push(&whole, bytes, bytes.len + 1);
    push(&pieces, bytes, npiece);
    tci_output_look(&whole, &a);
    tci_output_look(&pieces, &b);
    TC_ASSERT(tci_str_eq(a.text, b.text) && a.at == b.at);
    TC_ASSERT(a.dropped_bytes == b.dropped_bytes && a.dropped_lines == b.dropped_lines);
    TC_ASSERT(a.text.len <= limits->max_bytes && tci_utf8_is_valid(a.text));
    TC_ASSERT(a.dropped_bytes + a.text.len == whole.total_bytes);
    tci_output_done(&whole);
    tci_output_done(&pieces);
}

static void check_slice(tc_str bytes, const tci_output_limits *limits)
{
    tci_output_slice s;
    tci_head h;
    tci_output_bound(bytes, limits, &s);
    TC_ASSERT(s.start <= s.end && s.end <= bytes.len);
    TC_ASSERT(s.end - s.start <= limits->max_bytes);
    TC_ASSERT(s.dropped_bytes + (s.end - s.start) == bytes.len);
    TC_ASSERT(s.dropped_lines <= tci_output_count_lines(bytes));
    TC_ASSERT(tci_output_count_lines(tci_str_sub(bytes, s.start, s.end - s.start)) <=
              limits->max_lines);
    tci_head_of(bytes, tci_output_count_lines(bytes), bytes.len, &h);
    TC_ASSERT(h.len <= bytes.len && h.nlines <= h.total_lines);
}

static void check_kind(tc_str bytes)
{
    static const char *const types[] = {"image/png", "image/gif", "image/webp", "image/jpeg"};
    uint32_t width, height;
    for (size_t i = 0; i < TCI_ARRAY_LEN(types); i++)
        (void)tci_image_size(bytes, tci_str(types[i]), &width, &height); /* any answer will do */
    tc_str kind = tci_binary_kind(bytes, false), cut = tci_binary_kind(bytes, true);
    TC_ASSERT(tci_utf8_is_valid(kind) && tci_utf8_is_valid(cut));
    if (tci_str_starts(bytes, TC_STR("\x89PNG")))
        return; /* it would read on */
    tc_str type;
    tc_err err;
    TC_ASSERT(tci_image_type(NULL, NULL, bytes, bytes.len, &type, &err) == 0);
}

static void check_words(tc_str bytes)
{
    tci_arena a;
    size_t *found, n;
    tc_err err;
    tc_str texts[3] = {tci_str_sub(bytes, 0, bytes.len / 2),
                       tci_str_sub(bytes, bytes.len / 2, bytes.len), bytes};
    tci_arena_init(&a, 0);
    TC_ASSERT(tci_search_rank(bytes, texts, TCI_ARRAY_LEN(texts), 2, &a, &found, &n, &err) == 0);
    TC_ASSERT(n <= 2);
    for (size_t i = 0; i < n; i++)
        TC_ASSERT(found[i] < TCI_ARRAY_LEN(texts) && (i == 0 || found[i] != found[0]));
    tci_arena_done(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    tci_output_limits limits = {.max_bytes = 4 + (data[0] & 0x3f),
                                .max_lines = 1 + (data[0] >> 6),
                                .retain = data[1] & 0x80 ? TC_RETAIN_HEAD : TC_RETAIN_TAIL};
    tc_str bytes = tci_str_of(data + 2, size - 2);
    tci_buf clean;
    check_pieces(bytes, &limits, 1 + (data[1] & 0x1f));
    check_slice(bytes, &limits);
    check_kind(bytes);
    check_words(bytes);
    tci_buf_init(&clean, TCI_BUF_MAX);
    tci_output_clean(&clean, bytes);
    TC_ASSERT(tci_buf_ok(&clean) && clean.len <= bytes.len);
    tci_buf_done(&clean);
    return 0;
}
