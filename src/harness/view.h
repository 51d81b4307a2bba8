/* SPDX-License-Identifier: Apache-2.0
 *
 * What somebody watches of a conversation: its view, or what its agent does. On the line. */
#ifndef TCI_HARNESS_VIEW_H
#define TCI_HARNESS_VIEW_H

#include "harness/conversation.h"

/* A call as it was shown before a commit. Texts are the facts' own. */
typedef struct tci_shown_call {
    tc_str id, name, parent_id;
    uint64_t task, parent_task;
    bool is_running, is_done;
} tci_shown_call;

typedef struct tci_shown_compaction {
    uint64_t task;
    tc_str reason;
} tci_shown_compaction;

/* What is remembered of "pi.live" from one commit to the next, so that events can tell what changed. */
typedef struct tci_facts {
    tci_arena arena;
    bool has_message, has_retry, has_run;
    uint64_t attempt;
    int64_t poll_at; /* 0: none */
    uint64_t run_task;
    const uint64_t *inputs;
    size_t ninputs;
    const tci_shown_call *calls, *nested;
    size_t ncalls, nnested;
    const tci_shown_compaction *compactions;
    size_t ncompactions;
} tci_facts;

typedef struct tci_active {
    uint64_t id;
    bool is_head;
} tci_active;

typedef struct tci_view {
    struct tci_view *next;
    tci_run *run;
    uint64_t conversation;
    tc_watch *watch; /* or */
    tc_state *state;
    bool is_behind; /* the state missed something: it is made anew with the next commit */
    /* a view */
    tci_active *active; /* entries of the transcript, in order */
    size_t nactive, active_cap;
    uint64_t docs[TCI_BUILT_IN_DOCS]; /* incarnations shown; 0: none */
    /* events */
    bool is_events;
    tci_facts *facts;
    uint64_t *held; /* generations whose end is decided and not written */
    size_t nheld, held_cap;
} tci_view;

/* The whole view as text. */
int tci_view_put(tci_run *run, uint64_t conversation, tci_buf *b, tc_err *err) TC_CHECKED;
/* The active transcript: records of the head marker and of the entries after it, to fn. */
int tci_view_each_entry(tci_run *run, uint64_t conversation,
                        int (*fn)(void *user, const tci_entry *entry, tc_err *err), void *user,
                        tc_err *err) TC_CHECKED;
/* The committed value of a built-in document; NULL: there is none. */
const tc_json *tci_view_doc(tci_run *run, const tc_doc_def *def, uint64_t conversation,
                            uint64_t *ret_id);

/* events.c: the snapshot event; the events of a commit, a JSON array, nothing when there are none. */
int tci_events_snapshot(tci_run *run, uint64_t conversation, tci_buf *b, tc_err *err) TC_CHECKED;
int tci_events_of(tci_view *view, const tci_commit *commit, tci_buf *b, tc_err *err) TC_CHECKED;
/* Facts of a value of "pi.live", which may be NULL. */
int tci_facts_of(const tc_json *live, tci_facts **ret, tc_err *err) TC_CHECKED;
void tci_facts_free(tci_facts *f);

#endif
