/* SPDX-License-Identifier: Apache-2.0
 *
 * What the parts of the HTTP/1 reader share. Private to wire. */
#ifndef TCI_WIRE_HTTP1_INT_H
#define TCI_WIRE_HTTP1_INT_H

#include "wire/http1.h"

/* llhttp's own, seen by the two source files only. */
struct llhttp__internal_s;
struct llhttp_settings_s;

typedef enum tci_http1_state {
    TCI_HTTP1_S_BETWEEN,
    TCI_HTTP1_S_HEAD,
    TCI_HTTP1_S_BODY, /* from the head's event to the end's, with or without a body */
    TCI_HTTP1_S_END,
    TCI_HTTP1_S_UPGRADED,
    TCI_HTTP1_S_CLOSED, /* complete, and the connection does not go on */
    TCI_HTTP1_S_FAILED
} tci_http1_state;

struct tci_http1 {
    struct llhttp__internal_s *parser; /* stored behind this struct */
    tci_http1_type type;
    tci_http1_state state;
    unsigned flags;
    bool is_head_parsed, is_complete, is_over, skips_body;
    bool in_trailer;                       /* behind the last chunk */
    bool trailer_has_cr, trailer_has_name; /* of the line being read */
    size_t trailer_line_len;
    tci_buf raw;                      /* the head as it came */
    size_t line_at, nlines, nskipped; /* while gathering it */
    size_t chunk_meta, trailer_bytes; /* of this message */
    size_t meta_run;                  /* bytes since the last body byte that were not body */
    tc_str body;
    tci_http_head head;
    tci_http_header headers[TCI_HTTP1_HEADERS_MAX];
};

/* h->raw is a whole head: check it, fill h->head, run the parser over it. */
int tci_http1_parse_head(tci_http1 *h, const struct llhttp_settings_s *settings,
                         tc_err *err) TC_CHECKED;

#endif
