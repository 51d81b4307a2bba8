/* SPDX-License-Identifier: Apache-2.0
 *
 * Server-sent events (WHATWG HTML, section 9.2, "Parsing an event stream"): bytes in, events out. Lines
 * end with LF, CR or CRLF, anywhere in the pieces; fields other than event and data are passed over. */
#ifndef TCI_WIRE_SSE_H
#define TCI_WIRE_SSE_H

#include "base/buf.h"

/* One event. name: empty when the stream gives none. Borrowed for the call. 0 to go on; another code
 * ends the feeding with it. */
typedef int (*tci_sse_fn)(void *user, tc_str name, tc_str data, tc_err *err);

typedef struct tci_sse {
    tci_buf line, data, name;
    bool has_data, after_cr, has_begun;
    tci_sse_fn on_event;
    void *user;
} tci_sse;

enum { TCI_SSE_EVENT_MAX = 16 * 1024 * 1024 };

void tci_sse_init(tci_sse *s, tci_sse_fn on_event, void *user);
void tci_sse_done(tci_sse *s);
/* TOO_BIG: an event over TCI_SSE_EVENT_MAX. NO_MEMORY; what on_event returned. An event that is cut by the
 * end of the stream is never given out. */
int tci_sse_feed(tci_sse *s, tc_str bytes, tc_err *err) TC_CHECKED;

#endif
