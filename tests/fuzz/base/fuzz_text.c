/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as UTF-8, as base64, as a hexadecimal text, as a number and as an instant: what is
 * accepted is canonical, so writing it again gives the same bytes, or at least the same value. */
#include "base/arena.h"
#include "base/base64.h"
#include "base/hash.h"
#include "base/num.h"
#include "base/rfc3339.h"
#include "base/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void utf8(tc_str s)
{
    size_t whole = 0, count = 0, len = 0;
    for (int32_t c; (c = tci_utf8_decode(tci_str_sub(s, whole, s.len), &len)) >= 0; count++) {
        char text[4];
        TC_ASSERT(tci_utf8_encode((uint32_t)c, text) == len);
        TC_ASSERT(memcmp(text, s.ptr + whole, len) == 0);
        whole += len;
    }
    TC_ASSERT(tci_utf8_valid_prefix(s) == whole);
    tc_str valid = tci_str_sub(s, 0, whole);
    TC_ASSERT(tci_utf8_count(valid) == count);
    TC_ASSERT(tci_utf8_prefix_bytes(valid, count) == whole);
    size_t half = tci_utf8_prefix_bytes(valid, count / 2);
    TC_ASSERT(tci_utf8_count(tci_str_sub(valid, 0, half)) == count / 2);
    size_t tail = tci_utf8_cut_tail(s);
    TC_ASSERT(tail <= 3 && tail <= s.len);
    if (tail > 0 && s.len - whole <= 3)
        TC_ASSERT(s.len - whole >= tail);
}

static void base64(tc_str s, tci_arena *a)
{
    size_t len = 0;
    tc_err err;
    char *bytes = tci_arena_bytes(a, tci_base64_decoded_max(s.len));
    char *text = tci_arena_bytes(a, tci_base64_encoded_len(s.len));
    TC_ASSERT(bytes != NULL && text != NULL);
    if (tci_base64_decode(s, bytes, &len, &err) == 0) { /* there is one text for these bytes */
        TC_ASSERT(tci_base64_encoded_len(len) == s.len);
        tci_base64_encode(tci_str_of(bytes, len), text);
        TC_ASSERT(s.len == 0 || memcmp(text, s.ptr, s.len) == 0);
    }
    size_t text_len = tci_base64_encoded_len(s.len);
    char *back = tci_arena_bytes(a, tci_base64_decoded_max(text_len));
    TC_ASSERT(back != NULL);
    tci_base64_encode(s, text);
    TC_ASSERT(tci_base64_decode(tci_str_of(text, text_len), back, &len, &err) == 0);
    TC_ASSERT(tci_str_eq(tci_str_of(back, len), s));
}

static void small_texts(tc_str s)
{
    tc_err err;
    uint8_t bytes[16];
    char text[64];
    tci_instant t, again;
    uint64_t u;
    int64_t i;
    double d;
    if (tci_unhex(s, bytes, sizeof bytes, &err) == 0) {
        tci_hex(bytes, sizeof bytes, text);
        TC_ASSERT(tci_str_eq(tci_str_of(text, 32), s));
    }
    if (tci_rfc3339_parse(s, &t, &err) == 0) {
        tc_str written = tci_str_of(text, tci_rfc3339_text(t, text));
        TC_ASSERT(tci_rfc3339_parse(written, &again, &err) == 0);
        TC_ASSERT(t.sec == again.sec && t.nsec == again.nsec);
    }
    tci_buf b;
    tci_buf_init(&b, TCI_BUF_MAX);
    if (tci_num_u64(s, &u, &err) == 0) {
        tci_buf_append_u64(&b, u);
        TC_ASSERT(tci_str_eq(tci_buf_str(&b), s));
    } else if (tci_num_i64(s, &i, &err) == 0) {
        tci_buf_append_i64(&b, i);
        TC_ASSERT(tci_str_eq(tci_buf_str(&b), s));
    }
    if (tci_num_double(s, &d, &err) == 0) {
        double back;
        tc_str written = tci_str_of(text, tci_num_double_text(d, text));
        TC_ASSERT(tci_num_double(written, &back, &err) == 0 && memcmp(&d, &back, sizeof d) == 0);
    }
    tci_buf_done(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tc_str s = tci_str_of(data, size);
    tci_arena a;
    tci_arena_init(&a, 0);
    utf8(s);
    base64(s, &a);
    small_texts(s);
    tci_arena_done(&a);
    return 0;
}
