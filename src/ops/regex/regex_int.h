/* SPDX-License-Identifier: Apache-2.0
 *
 * The two halves of the expression parser: sequences (regex_syntax.c) and characters
 * (regex_class.c). Private to ops. */
#ifndef TCI_OPS_REGEX_INT_H
#define TCI_OPS_REGEX_INT_H

#include "ops/regex/regex.h"

typedef enum tci_regex_flags {
    TCI_REGEX_I = 1 << 0,
    TCI_REGEX_M = 1 << 1,
    TCI_REGEX_S = 1 << 2,
    TCI_REGEX_SWAP = 1 << 3, /* U: greed the other way round */
    TCI_REGEX_U = 1 << 4,
    TCI_REGEX_X = 1 << 5,
    TCI_REGEX_R = 1 << 6
} tci_regex_flags;

typedef struct tci_regex_parser {
    tc_str p;
    size_t at;
    tci_buf *out;
    tci_regex_facts *facts;
    tc_err *err;
    unsigned flags;
    unsigned depth;
    unsigned nchoices;
    bool has_alternatives; /* at the top */
    tci_buf names;         /* of groups, each followed by '>' */
    /* The literal being gathered; pending: its newest character, which a repeat may take back. */
    char run[TCI_REGEX_LITERAL_MAX];
    size_t nrun;
    bool is_run_caseless;
    char pending[4];
    size_t npending;
    bool is_pending_repeated; /* the run ends behind it */
} tci_regex_parser;

bool tci_regex_peek(const tci_regex_parser *ps, tc_str text);
void tci_regex_put(tci_regex_parser *ps, const char *text);
/* c as an atom of its own. */
void tci_regex_put_char(tci_regex_parser *ps, uint32_t c);
/* The next character of the pattern (which is valid UTF-8). */
uint32_t tci_regex_take_char(tci_regex_parser *ps);
/* White space or a comment in x mode: true when there was some. */
bool tci_regex_skip_space(tci_regex_parser *ps);
/* At a backslash: the character it stands for. */
int tci_regex_take_char_escape(tci_regex_parser *ps, uint32_t *ret) TC_CHECKED;
/* At a backslash: \d \s \w \p and their opposites written out as an atom: 1; 0: not one of them. */
int tci_regex_take_class_escape(tci_regex_parser *ps) TC_CHECKED;
/* At '[': the whole class written out as an atom. */
int tci_regex_take_class(tci_regex_parser *ps) TC_CHECKED;
/* Is this the body of a property PCRE2 knows ("L", "sc:Greek")? */
bool tci_regex_has_property(const char *name);

#endif
