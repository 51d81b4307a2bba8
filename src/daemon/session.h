/* SPDX-License-Identifier: Apache-2.0
 *
 * Sessions: independent scopes on a device, each with its own working directory, ledger, processes,
 * outputs and transfers. A session is counted: requests, processes and transfers hold it until they
 * are gone. Loop thread. */
#ifndef TCI_DAEMON_SESSION_H
#define TCI_DAEMON_SESSION_H

#include "daemon/ledger.h"
#include "ops/spool.h"

struct tci_walk_cache;
struct tci_text_cursors;

enum { TCI_HANDLE_TEXT_MAX = 48 };

typedef enum tci_session_state {
    TCI_SESSION_INITIALIZED,
    TCI_SESSION_READY,
    TCI_SESSION_CLOSING,
    TCI_SESSION_CLOSED
} tci_session_state;

typedef struct tci_session {
    tci_link link; /* the device's sessions */
    struct tci_device *device;
    tci_carrier *owner; /* NULL: detached */
    tc_str id;
    char id_text[TCI_HANDLE_TEXT_MAX];
    tc_str cwd; /* canonical; heap; immutable, so workers may read it */
    tci_session_state state;
    unsigned refs;
    unsigned nlane[3]; /* by tci_lane */
    tci_ledger ledger;
    tci_map processes;                              /* handle -> tci_process */
    tci_map outputs;                                /* reference -> tci_output */
    tci_map transfers;                              /* handle -> tci_transfer */
    tci_list process_lru, output_lru, transfer_lru; /* terminal ones, oldest access first */
    tci_list requests;                              /* in flight, by tci_req.link */
    size_t nprocesses, ntransfers;                  /* live ones */
    tci_spool_quota spool;
    uint64_t staged_bytes, staged_objects;
    int64_t used_ms;
    tci_timer idle;                    /* expiry */
    tci_timer grace;                   /* detached: until it closes */
    tci_timer retention;               /* collection of what was not used */
    tci_timer close_limit;             /* budget of closing */
    tci_list closers;                  /* who waits for the end */
    struct tci_walk_cache *walk_cache; /* both lock themselves: workers use them */
    struct tci_text_cursors *text_cursors;
} tci_session;

/* working_directory must be canonical. */
int tci_session_open(struct tci_device *device, tci_carrier *owner, tc_str working_directory,
                     tci_session **ret, tc_err *err) TC_CHECKED;
tci_session *tci_session_find(struct tci_device *device, tc_str id); /* NULL when unknown */
static inline tci_session *tci_session_ref(tci_session *s)
{
    s->refs++;
    return s;
}
void tci_session_unref(tci_session *s);
void tci_session_touch(tci_session *s);
/* The owner's link is lost: transfers end, everything else goes on, and unless somebody attaches within
 * disconnect_grace_ms the session closes. */
void tci_session_detach(tci_session *s);
/* Somebody attaches: a detached session, or its owner once more. */
void tci_session_adopt(tci_session *s, tci_carrier *owner);
/* Begin closing: cancels requests, kills processes, aborts transfers. Idempotent. done (may be
 * NULL) is called when everything is gone (clean true) or the ten-second budget has passed. */
typedef struct tci_session_closer {
    tci_link link;
    void (*done)(struct tci_session_closer *closer, bool is_clean);
} tci_session_closer;
void tci_session_close(tci_session *s, tci_session_closer *closer);
/* Something the session was waiting for has ended. */
void tci_session_check_closed(tci_session *s);
/* Evict from sessions under pressure until one more command, transfer or session fits. */
void tci_session_relieve(struct tci_device *device);

#endif
