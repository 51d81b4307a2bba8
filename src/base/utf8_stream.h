/* SPDX-License-Identifier: Apache-2.0
 *
 * Bytes that come in pieces, made text as the Encoding Standard's UTF-8 decoder does it: a bad
 * sequence becomes one U+FFFD for each of its maximal subparts, a sequence cut by the end of a
 * piece is held back, and a byte order mark at the very start is dropped (nowhere else). Any
 * thread, one at a time for each stream. */
#ifndef TCI_UTF8_STREAM_H
#define TCI_UTF8_STREAM_H

#include "base/buf.h"

/* Zeroed: at the start. */
typedef struct tci_utf8_stream {
    char held[4]; /* the beginning of a sequence */
    uint8_t nheld;
    bool has_begun; /* the place for a mark is behind us */
} tci_utf8_stream;

/* The text of the next piece. It is bytes itself (or a part of it) when there is nothing to
 * replace, so clean text is not copied; otherwise it is made in scratch, which is cleared first.
 * Borrowed until either changes. Without memory (tci_buf_ok(scratch) tells) some of it is lost. */
tc_str tci_utf8_stream_feed(tci_utf8_stream *s, tc_str bytes, tci_buf *scratch);
/* Nothing more comes: what was held back is one U+FFFD. Static storage. The stream is at the start
 * again. */
tc_str tci_utf8_stream_end(tci_utf8_stream *s);

#endif
