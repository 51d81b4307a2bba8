/* SPDX-License-Identifier: Apache-2.0
 *
 * HTTP/1.1 messages (RFC 9112): bytes in, events out, and the emitters. Strict: what two readers
 * could understand differently is refused (both Content-Length and Transfer-Encoding, bare CR or
 * LF, folded lines, blanks before a colon, odd chunk sizes). Body bytes are handed out where they
 * lie. No descriptor, no clock. Any thread, one at a time. */
#ifndef TCI_WIRE_HTTP1_H
#define TCI_WIRE_HTTP1_H

#include "base/buf.h"

enum {
    TCI_HTTP1_HEAD_MAX = 64 * 1024,   /* start line and header fields, final empty line included */
    TCI_HTTP1_HEADERS_MAX = 128,      /* header fields of one message */
    TCI_HTTP1_CHUNK_META_MAX = 16384, /* chunk extensions of one message, all together */
    TCI_HTTP1_TRAILER_MAX = 8192,     /* trailer fields of a response; in a request none */
    TCI_HTTP1_CHUNK_HEAD_MAX = 18     /* 16 hex digits, CR, LF */
};

typedef struct tci_http_header {
    tc_str name;
    tc_str value; /* without blanks around it */
} tci_http_header;

/* A request or response head. All text is borrowed from the reader and valid until the first
 * tci_http1_next after END, or until the reader is done. */
typedef struct tci_http_head {
    tc_str method;                  /* request: as written, in capitals */
    tc_str target;                  /* request: as written, not decoded */
    unsigned status;                /* response: 100..599 */
    tc_str reason;                  /* response; may be empty */
    unsigned minor;                 /* HTTP/1.minor: 0 or 1 */
    const tci_http_header *headers; /* in the order written */
    size_t nheaders;
    bool has_body;       /* body bytes or an empty chunked body will follow */
    bool is_chunked;     /* has_body and chunked */
    bool has_length;     /* a Content-Length was given */
    bool keeps_alive;    /* another message may follow on this connection */
    bool wants_continue; /* request: Expect: 100-continue */
    bool is_upgrade; /* with TCI_HTTP1_UPGRADE only: a request for a WebSocket (without a body) or
                        CONNECT; the answer 101, or success after CONNECT. Nothing is parsed
                        after it */
    uint64_t content_length; /* while has_length */
} tci_http_head;

typedef enum tci_http1_type { TCI_HTTP1_REQUEST, TCI_HTTP1_RESPONSE } tci_http1_type;

typedef enum tci_http1_event {
    TCI_HTTP1_MORE,    /* all input is consumed; come back with what follows */
    TCI_HTTP1_HEAD,    /* tci_http1_head is valid */
    TCI_HTTP1_BODY,    /* *ret_body: body bytes, borrowed from the input */
    TCI_HTTP1_END,     /* the message is complete */
    TCI_HTTP1_UPGRADED /* TCI_HTTP1_UPGRADE was set and the head asks for it: what follows in the
                          input is another protocol's; comes after HEAD (and END of nothing) */
} tci_http1_event;

typedef enum tci_http1_flags {
    TCI_HTTP1_UPGRADE = 1 << 0, /* stop at an upgrade; without it such a request is an ordinary one
                                   and a 101 answer is an error */
    TCI_HTTP1_NO_BODY = 1 << 1, /* response: to a HEAD request */
    TCI_HTTP1_TO_CONNECT = 1 << 2 /* response: to a CONNECT request; needs TCI_HTTP1_UPGRADE */
} tci_http1_flags;

typedef struct tci_http1 tci_http1;

int tci_http1_new(tci_http1_type type, tci_http1 **ret_reader, tc_err *err) TC_CHECKED;
void tci_http1_free(tci_http1 *h);

/* Flags for the next message; call between messages. Default none. */
void tci_http1_set_flags(tci_http1 *h, unsigned flags);

/* Take the next event from the front of in.
 *
 *   ret_used  bytes of in that are done with; with BODY the body lies within them
 *   ret_body  set with BODY only
 *
 * An END may come with *ret_used 0. After END the next call starts the next message, unless the
 * head said that the connection does not go on: then PROTOCOL for any further byte.
 * Informational answers (100..199 but 101) are messages of their own: HEAD, END.
 *
 * Errors: TOO_BIG (head, header count, target, extensions), PARSE (malformed), UNSUPPORTED (a
 * version that is not HTTP/1.0 or 1.1; a transfer coding other than chunked). The connection is
 * then lost. */
int tci_http1_next(tci_http1 *h, tc_str in, size_t *ret_used, tci_http1_event *ret_event,
                   tc_str *ret_body, tc_err *err) TC_CHECKED;

/* The input ended. *ret_is_end: a response body that lasts to the end of the connection is now
 * complete (its END). 0 between messages too; PROTOCOL inside a message. */
int tci_http1_eof(tci_http1 *h, bool *ret_is_end, tc_err *err) TC_CHECKED;

/* Valid between HEAD and the call after END. */
const tci_http_head *tci_http1_head(const tci_http1 *h);
/* No byte of a further message has been seen. */
bool tci_http1_is_between(const tci_http1 *h);

/* The value of the field with this name (any case); false when there is none. *ret_count, which may
 * be NULL, gets how often it is there: the first value is returned. */
bool tci_http_head_get(const tci_http_head *head, tc_str name, tc_str *ret_value,
                       size_t *ret_count);

/* Emitters. put_header refuses (INVALID) a name that is no token and a value with control
 * characters other than tab. The caller writes exactly one put_request or put_status, headers,
 * put_end. */
void tci_http1_put_request(tci_buf *b, tc_str method, tc_str target);
void tci_http1_put_status(tci_buf *b, unsigned status); /* HTTP/1.1 and the usual reason */
int tci_http1_put_header(tci_buf *b, tc_str name, tc_str value, tc_err *err) TC_CHECKED;
void tci_http1_put_end(tci_buf *b);
/* A request target may hold: printable ASCII without blanks, at least one character. */
bool tci_http1_target_is_valid(tc_str target);
bool tci_http1_is_token(tc_str s);
/* "Not Found"; "" when unknown. Static. */
tc_str tci_http1_reason(unsigned status);

/* A chunk is this head, len (over 0) bytes, and TCI_HTTP1_CHUNK_TAIL. Returns its length. */
size_t tci_http1_put_chunk_head(char out[TCI_HTTP1_CHUNK_HEAD_MAX], uint64_t len);
#define TCI_HTTP1_CHUNK_TAIL TC_STR("\r\n")
#define TCI_HTTP1_LAST_CHUNK TC_STR("0\r\n\r\n")

#endif
