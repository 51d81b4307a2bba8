/* SPDX-License-Identifier: Apache-2.0
 *
 * A text seen in another form, and the way back: which bytes of the source a part of the view stands
 * for. An edit is found in the view and made in the source, so that nothing else changes. Any thread. */
#ifndef TCI_HARNESS_TOOLS_TEXT_VIEW_H
#define TCI_HARNESS_TOOLS_TEXT_VIEW_H

#include "base/buf.h"

/* A place where view and source differ: nview bytes at view stand for nsource bytes at source. */
typedef struct tci_view_unit {
    size_t view, nview, source, nsource;
} tci_view_unit;

typedef struct tci_text_view {
    tci_buf text; /* UTF-8 */
    tci_view_unit *units;
    size_t nunits, cap;
    tc_code failed;
} tci_text_view;

/* bytes of a file: lines end with "\n" only, a mark at the start is left out, what is no UTF-8 is
 * U+FFFD. */
void tci_view_lines(tci_text_view *v, tc_str bytes);
/* A text whose lines end with "\n", as people compare it: NFKC, no blanks at ends of lines, plain quotes,
 * dashes and spaces. */
void tci_view_loosely(tci_text_view *v, tc_str text);
void tci_view_done(tci_text_view *v);
int tci_view_error(const tci_text_view *v, tc_err *err) TC_CHECKED;

/* What the part [start, end) of the view stands for. A unit that is only partly in it is in the range
 * whole: the parts of it that stay are before and after, as the view shows them. */
typedef struct tci_view_range {
    size_t start, end;
    tc_str before, after;
} tci_view_range;
void tci_view_back(const tci_text_view *v, size_t start, size_t end, tci_view_range *ret_range);

#endif
