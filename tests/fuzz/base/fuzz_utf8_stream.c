/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as a stream of text: however they are cut into pieces the text is the same, valid, and
 * no longer than it can be. The first byte says where to cut. */
#include "base/utf8.h"
#include "base/utf8_stream.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Pieces of 1..step bytes, of changing size. step 0: one piece. */
static void decode(tc_str bytes, unsigned step, tci_buf *out)
{
    tci_utf8_stream s = {0};
    tci_buf scratch;
    tci_buf_init(&scratch, TCI_BUF_MAX);
    for (size_t at = 0, n = 0; at < bytes.len; at += n) {
        n = step == 0 ? bytes.len : 1 + (at * 7 + step) % step;
        tc_str piece = tci_str_sub(bytes, at, n);
        char *copy = tci_mem_resize(NULL, piece.len); /* no byte to spare */
        TC_ASSERT(copy != NULL);
        memcpy(copy, piece.ptr, piece.len);
        tc_str text = tci_utf8_stream_feed(&s, tci_str_of(copy, piece.len), &scratch);
        TC_ASSERT(tci_utf8_is_valid(text));
        tci_buf_append_str(out, text);
        tci_mem_free(copy);
    }
    tci_buf_append_str(out, tci_utf8_stream_end(&s));
    TC_ASSERT(tci_buf_ok(&scratch) && tci_buf_ok(out));
    tci_buf_done(&scratch);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    tc_str bytes = tci_str_of(data + 1, size - 1);
    tci_buf whole, pieces, bytewise;
    tci_buf_init(&whole, TCI_BUF_MAX);
    tci_buf_init(&pieces, TCI_BUF_MAX);
    tci_buf_init(&bytewise, TCI_BUF_MAX);
    decode(bytes, 0, &whole);
    decode(bytes, 1 + data[0] % 32U, &pieces);
    decode(bytes, 1, &bytewise);
    TC_ASSERT(tci_str_eq(tci_buf_str(&whole), tci_buf_str(&pieces)));
    TC_ASSERT(tci_str_eq(tci_buf_str(&whole), tci_buf_str(&bytewise)));
    TC_ASSERT(whole.len <= 3 * bytes.len);
    bool has_mark = tci_str_starts(bytes, TC_STR("\xef\xbb\xbf"));
    if (tci_utf8_is_valid(bytes)) /* nothing is changed */
        TC_ASSERT(tci_str_eq(tci_buf_str(&whole), tci_str_sub(bytes, has_mark ? 3 : 0, bytes.len)));
    tci_buf_done(&whole);
    tci_buf_done(&pieces);
    tci_buf_done(&bytewise);
    return 0;
}
