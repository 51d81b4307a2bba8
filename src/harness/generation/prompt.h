/* SPDX-License-Identifier: Apache-2.0
 *
 * The system prompt: what a model was told of it so far, what it should be told, and the "pi.system"
 * entries that lead from one to the other. Off the line. */
#ifndef TCI_HARNESS_PROMPT_H
#define TCI_HARNESS_PROMPT_H

#include "harness/agent.h"
#include "harness/generation/context.h"

typedef struct tci_section_text {
    tc_str key, text;
} tci_section_text;

/* A tool as models see it: {"name","description","parameters","constrainedSampling"?}. */
typedef struct tci_declaration {
    tc_str name, text;
    const tci_json *json;
} tci_declaration;

/* What the system messages of a request add up to, in order. */
typedef struct tci_shown {
    tci_section_text *sections;
    size_t nsections, sections_cap;
    tci_declaration *tools;
    size_t ntools, tools_cap;
} tci_shown;

/* Kept with the context, which the caller has; only what is new since the last time is read. Valid until
 * the context is given back or asked again. */
int tci_prompt_replay(tci_context *c, const tci_shown **ret, tc_err *err) TC_CHECKED;
bool tci_prompt_offers(const tci_shown *shown, tc_str tool);

/* The agent's sections and instructions as they should be shown now. A section that fails is reported
 * and stays as it is shown. CANCELLED: the task is to end. */
int tci_prompt_render(tc_task *t, const tci_agent *agent, struct tc_env *env,
                      const tci_shown *shown, tc_result *r, tci_section_text **ret, size_t *ret_n,
                      tc_err *err) TC_CHECKED;

/* Entry drafts to append, in order, and the message of each. */
typedef struct tci_prompt_plan {
    const tc_str *drafts, *messages;
    size_t count;
} tci_prompt_plan;
int tci_prompt_plan_entries(const tci_context *c, const tci_shown *shown,
                            const tci_section_text *desired, size_t ndesired,
                            const tci_tools *tools, int64_t now_ms, tc_result *r,
                            tci_prompt_plan *ret, tc_err *err) TC_CHECKED;

#endif
