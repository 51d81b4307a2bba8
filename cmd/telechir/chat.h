/* SPDX-License-Identifier: Apache-2.0
 *
 * What belongs to `telechir chat` alone. The main thread. */
#ifndef TCI_CLI_CHAT_H
#define TCI_CLI_CHAT_H

#include "line_edit.h"

/* What was typed in earlier chats, from $XDG_STATE_HOME/telechir/chat_history, into e. A chat works without
 * it: what is wrong with the file is said once. *ret_path: where to add lines; empty: nowhere. */
void chat_history_load(line_edit *e, tc_str *ret_path);
/* Add a line, for this chat and later ones. 0, or c->err: no memory. */
int chat_history_add(line_edit *e, tc_str path, tc_str line) TC_CHECKED;

#endif
