/* SPDX-License-Identifier: Apache-2.0
 *
 * Text that somebody else wrote, made fit to be shown: a terminal obeys control characters, and turns
 * lines around for some others. Text in and out may hold lone surrogates (WTF-8, as base/json.h keeps them) and
 * bytes that are no UTF-8 at all. Any thread. */
#ifndef TCI_PLAIN_H
#define TCI_PLAIN_H

#include "base/buf.h"

/* Does a terminal obey it, or set the text around it in another order? C0, DEL, C1, and the marks of
 * direction and of lines and paragraphs. */
bool tci_plain_is_control(int32_t scalar);

typedef enum tci_plain_form {
    TCI_PLAIN_UTF8, /* valid UTF-8, all else as it is */
    TCI_PLAIN_TEXT, /* also: controls become '?', but for tabs and ends of lines (LF, CR LF) */
    TCI_PLAIN_LINE, /* also: those too */
    TCI_PLAIN_JSON  /* of JSON text: controls are escaped, so that it means the same */
} tci_plain_form;
/* Append s in that form. What is no UTF-8 becomes U+FFFD, one for each byte or lone surrogate; two
 * surrogates that belong together become their character. */
void tci_plain_put(tci_buf *b, tc_str s, tci_plain_form form);

#endif
