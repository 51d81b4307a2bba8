/* SPDX-License-Identifier: Apache-2.0
 *
 * What a harness keeps in memory for its conversations: contexts that may be grown, views that
 * somebody watches, and who waits for a submission. */
#ifndef TCI_HARNESS_CONVERSATION_H
#define TCI_HARNESS_CONVERSATION_H

#include "harness/generation/context.h"
#include "harness/documents.h"
#include "harness/calls/tool_turn.h"

struct tci_view;

/* Somebody who waits for a submission to settle. */
typedef struct tci_answer_waiter {
    struct tci_answer_waiter *next;
    uint64_t submission;
    tci_wake *wake;
} tci_answer_waiter;

typedef struct tci_run {
    tc_harness *h;
    tc_durable *s;
    tc_listener *commits, *closing;
    tci_mutex lock;        /* contexts, waiters */
    tci_context *contexts; /* newest first */
    tci_answer_waiter *waiters;
    atomic_bool is_over;
    atomic_bool is_contexts_due, is_docs_due; /* what is kept of them will be looked at */
    struct tci_view *views;                   /* on the line */
    bool
        is_telling_views; /* on the line: those that go meanwhile stay on the list until it is over */
    tci_turns *turns;     /* of its tools, over files; never changes */
} tci_run;

static inline tci_run *tci_run_of(const tc_harness *h)
{
    return tci_harness_run(h);
}

/* view.c: a commit, on the line; and the end, without it. */
int tci_views_advance(tci_run *run, const tci_commit *commit, tc_err *err) TC_CHECKED;

#endif
