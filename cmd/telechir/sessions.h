/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of `telechir sessions` that print a session. c->args[1] is its path. Each gives 0, or c->err. */
#ifndef TCI_CLI_SESSIONS_H
#define TCI_CLI_SESSIONS_H

#include "cli.h"

/* Every committed record as canonical JSON lines (sessions_dump.c). */
int sessions_dump(cli *c) TC_CHECKED;
/* The conversation, for people (sessions_show.c); the same as Markdown, or its entries as JSON. */
int sessions_show(cli *c) TC_CHECKED;
int sessions_export(cli *c) TC_CHECKED;
/* The session at path as `sessions show --brief` prints it. */
int sessions_brief(cli *c, const char *path) TC_CHECKED;

#endif
