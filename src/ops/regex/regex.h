/* SPDX-License-Identifier: Apache-2.0
 *
 * Regular expressions for lines of text, in the dialect of linear-time engines: no look-around, no
 * back-references, no recursion. A pattern is checked and rewritten for PCRE2 here; what PCRE2
 * would take but the dialect does not know is refused, what both know but mean differently is
 * written out.
 *
 * Known: . [..] with nested classes, && -- ~~ and [:posix:] names, (..) (?:..) (?<name>..)
 * (?P<name>..) (?flags) (?flags:..) with i m s U u x R, * + ? {n} {n,} {n,m} (stacked too, lazy
 * or not: only whether a line matches counts), | ^ $ \A \z \b \B \< \> \b{start} \b{end}
 * \b{start-half} \b{end-half} \d \s \w \p{..} and their opposites, \a \f \t \n \r \v \xHH \x{..}
 * \uHHHH \u{..} \UHHHHHHHH, escaped punctuation. Unicode throughout; (?-u) makes \d \s \w \b and
 * the posix names ASCII and refuses what could match half a character.
 *
 * What differs from a Rust regex: \b and \< \> take marks and connectors other than '_' for
 * non-word characters; (?i-u) still folds beyond ASCII; \p{age=..} and break properties are not
 * known; a count over 65535, nesting over 100 and patterns that grow too large are refused. */
#ifndef TCI_OPS_REGEX_H
#define TCI_OPS_REGEX_H

#include "base/buf.h"
#include "plat/clock.h"

enum { TCI_REGEX_DEPTH_MAX = 100, TCI_REGEX_LITERAL_MAX = 256 };

/* What is known about a pattern without running it. */
typedef struct tci_regex_facts {
    /* Text that every matching line contains; nliteral 0: none known. is_literal_caseless: in any
     * case, then it holds only ASCII that folds within ASCII. */
    char literal[TCI_REGEX_LITERAL_MAX];
    size_t nliteral;
    bool is_literal_caseless;
    bool is_only_literal; /* and nothing more is needed to match */
    unsigned nrepeats;    /* loops that can run long */
    bool is_nested;       /* a loop in a loop, or many choices: backtracking may explode */
} tci_regex_facts;

/* Check pattern and append its PCRE2 form (UTF, UCP, MULTILINE, ALT_CIRCUMFLEX; no atom of it
 * matches an LF) to out. INVALID with the reason. */
int tci_regex_translate(tc_str pattern, bool is_caseless, tci_buf *out, tci_regex_facts *ret_facts,
                        tc_err *err) TC_CHECKED;

typedef struct tci_regex tci_regex;

/* is_text: pattern is plain text. INVALID; memory. One thread at a time. */
int tci_regex_new(tc_str pattern, bool is_text, bool is_caseless, tci_regex **ret_regex,
                  tc_err *err) TC_CHECKED;
void tci_regex_free(tci_regex *re); /* NULL is fine */

/* Begin with another text: whole lines, the last one with or without its LF; borrowed while it is
 * searched. */
void tci_regex_start(tci_regex *re, tc_str text);
/* The first line that matches, from the line start `from` on, which never goes back but to the line
 * last found. 1: *ret_at lies in that line; 0: none; negative: CANCELLED, TIMEOUT, memory. With
 * is_valid false, the text may hold anything, and 1 means only that it is worth validating from
 * there on: call again with is_valid true. */
int tci_regex_find(tci_regex *re, size_t from, bool is_valid, const tci_cancel *cancel,
                   size_t *ret_at, tc_err *err) TC_CHECKED;

#endif
