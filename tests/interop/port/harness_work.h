/* SPDX-License-Identifier: Apache-2.0
 *
 * The extension "work" of harness_tool, the same as the one of harness_work.py: tools that call other tools,
 * and one that has somebody else do it.
 *     both {"commands":[a,b]}    bash twice, as nested calls "first" and "second"; may run again
 *     both-once                  the same, may not run again
 *     wrap {"commands":[a,b]}    both, as the nested call "in"
 *     delegate {"script","text"} asks a conversation of its own, whose model plays that script; may run again */
#ifndef HARNESS_WORK_H
#define HARNESS_WORK_H

#include <telechir/agent.h>
#include <telechir/harness.h>
#include <telechir/tool.h>

enum { WORK_TOOLS = 4 };

typedef struct work {
    tc_tool tools[WORK_TOOLS];
    const tc_tool *all[WORK_TOOLS];
    tc_extension extension;
} work;

void work_init(work *w);

#endif
