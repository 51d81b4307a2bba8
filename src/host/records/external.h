/* SPDX-License-Identifier: Apache-2.0
 *
 * Targets that the Host connects to itself: daemons that run behind HTTP(S) already, by address, identity and the
 * file with the credential. Connecting is all that is done: nothing is started, extended or stopped there. Rows
 * first, then what is known of them while the Host runs. */
#ifndef TCI_HOST_EXTERNAL_H
#define TCI_HOST_EXTERNAL_H

#include "host/records/devices.h"
#include <telechir/client.h>

/* ---- external.c: rows. Blocks (disk); any thread, one at a time ---- */

enum { TCI_EXTERNALS_MAX = 256 };

typedef struct tci_external_ask {
    tc_str name, url, device_id;
    tc_str credential_file, ca_file; /* absolute, where the Host runs; the latter may be empty */
    bool is_plaintext_allowed;
} tci_external_ask;

/* Nothing is asked of it yet, and no file read. The name must be nobody else's that can be asked.
 * Errors: CONFLICT (the name), QUOTA (TCI_EXTERNALS_MAX). */
int tci_external_add(tci_host_db *db, int64_t now_ms, const tci_external_ask *ask, tci_arena *a,
                     tci_host_device *ret, tc_err *err) TC_CHECKED;
int tci_external_remove(tci_host_db *db, tc_str id, tc_err *err) TC_CHECKED;
/* By id or by name. 1: found, 0: not. */
int tci_external_find(tci_host_db *db, tc_str named, tci_arena *a, tci_host_device *ret,
                      tc_err *err) TC_CHECKED;
/* After those that are in *list, which grows in a. */
int tci_external_list(tci_host_db *db, tci_arena *a, tci_host_device **list, size_t *count,
                      tc_err *err) TC_CHECKED;
int tci_external_seen(tci_host_db *db, tc_str id, int64_t at_ms, tc_err *err) TC_CHECKED;

/* ---- outside.c: the connections to them, and whether they answer ---- */

/* One connection to each, shared by all who work there. Every now and then each is asked whether it is still there,
 * on threads of its own and a few at a time, so that who looks at the list never waits for a slow one. */
typedef struct tci_outside tci_outside;

enum {
    TCI_OUTSIDE_EVERY_MS = 30000, /* from one question to the next */
    TCI_OUTSIDE_FRESH_MS =
        5000, /* who looks at the list hastens it, but for answers as new as this */
    TCI_OUTSIDE_LIMIT_MS = 5000 /* for an answer */
};

int tci_outside_new(tc_runtime *rt, tci_outside **ret, tc_err *err) TC_CHECKED;
/* Ends what is being asked, and waits for who is reaching one. Before the runtime is closed. NULL is fine. */
void tci_outside_free(tci_outside *o);
/* From here on it is asked. */
int tci_outside_add(tci_outside *o, const tci_host_device *d, tc_err *err) TC_CHECKED;
/* Its connection is given back, and nobody gets one again. */
void tci_outside_remove(tci_outside *o, tc_str id);
/* Ask those again soon whose answers are not fresh. */
void tci_outside_hasten(tci_outside *o);
/* is_online, asked_ms, trouble and (when it is later) seen_ms of a row, the text in a. Never waits. */
int tci_outside_mark(tci_outside *o, tci_host_device *d, tci_arena *a, tc_err *err) TC_CHECKED;
/* Its connection if there is one, without asking; a reference, or NULL. */
tc_device *tci_outside_peek(tci_outside *o, tc_str id);
/* Its connection, once it has answered: made now when there is none, or when the one there is does not lead to the
 * daemon any more that it was made to. A reference. Blocks.
 * Errors: NOT_FOUND (removed), CANCELLED, CLOSED, NO_MEMORY, else NOT_READY with the reason, whose kind is the cause:
 * NOT_FOUND (no credential file), UNTRUSTED (others may read it; or the certificate), PARSE (it holds no
 * credential), AUTH (refused), INCOMPATIBLE (another device), CONNECT, TIMEOUT, ... */
int tci_outside_reach(tci_outside *o, tc_str id, tc_ctx *ctx, tc_device **ret_device,
                      tc_err *err) TC_CHECKED;

#endif
