/* SPDX-License-Identifier: Apache-2.0
 *
 * An agent as it is at one moment: what "pi.agent" says, resolved against what is installed and the
 * settings. Made once for a task's phase; does not change. */
#ifndef TCI_HARNESS_AGENT_H
#define TCI_HARNESS_AGENT_H

#include "harness/documents.h"
#include <telechir/tool.h>

typedef struct tci_tools {
    const tc_tool *const *items;
    size_t count;
} tci_tools;

/* All texts live as long as the agent.
 *   model      {"provider","modelId"} as stored, empty: none; provider, model_id: the same decoded
 *   tools      what the model is offered; callable: what other tools may call; deferred: what the
 *              model could be offered once loaded
 *   sections   in order; the instructions are not among them */
typedef struct tci_agent {
    tc_str model, provider, model_id;
    tc_str thinking_level;
    const tc_extension *const *extensions;
    size_t nextensions;
    tci_tools tools, callable, deferred;
    const tc_section *const *sections;
    size_t nsections;
    bool has_instructions, has_cwd;
    tc_str instructions, cwd;
} tci_agent;

/* state: JSON of "pi.agent", empty: none. The snapshot is borrowed for the life of the agent. A
 * wrapper that fails is reported as extension_error of the conversation. */
int tci_agent_resolve(tc_harness *h, tci_snapshot *snapshot, uint64_t conversation, tc_str state,
                      tci_agent **ret_agent, tc_err *err) TC_CHECKED;
void tci_agent_free(tci_agent *agent); /* NULL is fine */
/* The agent of the task's conversation, resolved once per phase and freed with it. Off the line. */
int tci_task_agent(tc_task *t, const tci_agent **ret_agent, tc_err *err) TC_CHECKED;

/* NULL when it is not among them. */
const tc_tool *tci_tools_find(const tci_tools *tools, tc_str name);
/* Whose code a tool or section runs: the last of the agent's extensions that gives or wraps it; empty
 * when nobody's. */
tc_str tci_agent_tool_extension(const tci_agent *agent, tc_str name);
tc_str tci_agent_section_extension(const tci_agent *agent, tc_str key);
/* As tc_conversation_agent tells it. */
void tci_agent_put(tci_buf *b, const tci_agent *agent);

/* Change "pi.agent" as tc_conversation_configure says. On the line. INVALID. */
int tci_agent_configure(tc_tx *tx, uint64_t conversation, tc_str change, tc_err *err) TC_CHECKED;
/* What "addTools" of a tool round asks for. On the line. */
int tci_agent_add_tools(tc_tx *tx, uint64_t conversation, const tc_str *names, size_t nnames,
                        tc_err *err) TC_CHECKED;

/* ---- hooks ---- */

/* What a hook is given. For every extension of the agent, in order:
 *     if (ext->hooks != NULL && ext->hooks->before_tool != NULL &&
 *         ext->hooks->before_tool(ext->user, &hook, ...) < 0)
 *         tci_hook_failed(t, ext, &hook_err); */
struct tc_hook {
    tc_task *task;
};
/* Report what an extension's code of this task failed with (extension_error). */
void tci_hook_failed(tc_task *t, const tc_extension *extension, const tc_err *error);
void tci_task_extension_failed(tc_task *t, tc_str extension, const tc_err *error);

#endif
