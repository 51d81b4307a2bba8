/* SPDX-License-Identifier: Apache-2.0
 *
 * A line typed at a terminal, with the keys people expect: left, right, home, end, delete, backspace, up
 * and down through what was typed before, Ctrl-A E B F D H K U W L P N, and paste. Without a terminal
 * lines are read as they come. The main thread. */
#ifndef TCI_CLI_LINE_EDIT_H
#define TCI_CLI_LINE_EDIT_H

#include "cli.h"

enum { LINE_HISTORY_MAX = 1000 };

typedef struct line_edit {
    cli *c;
    bool is_terminal;
    tci_buf text; /* UTF-8, newlines where they were pasted */
    size_t pos;   /* of the cursor, a byte offset */
    const char *prompt;
    tc_str history[LINE_HISTORY_MAX]; /* oldest first; in the command's arena */
    size_t nhistory, at;              /* at: shown now; nhistory: the new line */
    tc_str draft;                     /* the new line, while an old one is shown */
} line_edit;

/* Standard input is opened for reading. 0, or c->err. */
int line_edit_init(line_edit *e, cli *c) TC_CHECKED;
void line_edit_done(line_edit *e);
/* One line without its end; valid until the next. END: no more (Ctrl-D, end of input). CANCELLED: a
 * signal. In c->err. */
int line_edit_read(line_edit *e, const char *prompt, tc_str *ret) TC_CHECKED;
/* Remember a line for the up key; the oldest are forgotten. Empty lines and repeats are not kept. */
int line_edit_remember(line_edit *e, tc_str line) TC_CHECKED;

#endif
