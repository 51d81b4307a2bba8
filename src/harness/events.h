/* SPDX-License-Identifier: Apache-2.0
 *
 * One commit being turned into agent events. On the line. */
#ifndef TCI_HARNESS_EVENTS_H
#define TCI_HARNESS_EVENTS_H

#include "harness/view.h"

/*   out    the array so far, with its opening bracket once there is an event
 *   live   "pi.live" as committed, NULL: none; ops: what the commit changed of it, NULL: nothing
 *   was    what it was before */
typedef struct tci_events {
    tci_view *view;
    const tci_commit *commit;
    tci_buf *out;
    tc_result *r;
    const tci_facts *was;
    const tc_json *live;
    const tci_json *ops;
} tci_events;

/* {"type":..., and the members put after it, up to the end. Returns false, as `first` of the next. */
bool tci_event_begin(tci_events *e, const char *type);
void tci_event_end(tci_events *e);
void tci_event_value(tci_events *e, const char *key, const tci_json *v);

uint64_t tci_event_id(const tci_json *v, const char *key); /* 0: none */
size_t tci_event_count(const tci_json *list);
bool tci_event_is(const tci_json *v, const char *key, const char *text);
void tci_events_put_inbox(tci_buf *b, const tci_json *inbox);
int tci_view_hold(tci_view *v, uint64_t task, tc_err *err) TC_CHECKED; /* view.c */

/* events_message.c: what came of a streamed message */
int tci_events_put_partial(tci_events *e, tc_err *err) TC_CHECKED;

/* events_tools.c: calls that begin, go on, end. _with: those that this entry is the result of. */
void tci_events_put_tool_starts(tci_events *e);
int tci_events_put_tool_updates(tci_events *e, tc_err *err) TC_CHECKED;
void tci_events_put_nested_ends(tci_events *e);
void tci_events_put_ends_with(tci_events *e, const tci_entry *entry);
void tci_events_put_other_ends(tci_events *e);

/* Whether the path of an operation and these steps are the same as far as both go. A step is a key, or
 * NULL: the index. */
bool tci_event_path_is(const tci_json *path, const char *const *keys, const size_t *index,
                       size_t nsteps);

#endif
