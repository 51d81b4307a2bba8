/* SPDX-License-Identifier: Apache-2.0
 *
 * Devices and their requests to be let in. A device is one identity with one credential, of which only the
 * digest is kept; approval and revocation are for good. now_ms is the wall clock, in milliseconds since 1970.
 * Blocks (disk); any thread, one at a time. What is returned lives in the arena given. */
#ifndef TCI_HOST_DEVICES_H
#define TCI_HOST_DEVICES_H

#include "host/records/db.h"
#include "host/records/secrets.h"

enum {
    TCI_CHALLENGE_MS = 10 * 60 * 1000, /* how long a code can be approved */
    TCI_PENDING_MAX = 64,              /* requests that wait for a decision at a time */
    TCI_CHALLENGE_ID_LEN = 32
};

typedef enum tci_host_state {
    TCI_HOST_PENDING,
    TCI_HOST_APPROVED,
    TCI_HOST_REVOKED
} tci_host_state;
/* "pending", "approved", "revoked"; static storage. */
const char *tci_host_state_name(tci_host_state state);

/* It dials in; or the Host connects to it (external.h). */
typedef enum tci_host_kind { TCI_HOST_LINKED, TCI_HOST_EXTERNAL } tci_host_kind;

/* Times are 0 when it has not happened. */
typedef struct tci_host_device {
    tci_host_kind kind;
    tc_str id;        /* ours, in paths */
    tc_str device_id; /* its own identity */
    tc_str name;      /* as it calls itself; need not be unique */
    tc_str address;   /* where it first asked from */
    tci_host_state state;
    int64_t created_ms, approved_ms, revoked_ms, seen_ms;
    /* Asked to be let in under this identity with another credential, and was refused: */
    int64_t clashes, clash_ms;
    tc_str clash_address;
    /* While it waits for a decision: */
    tc_str challenge_id, code; /* empty: it does not */
    int64_t expires_ms;
    bool is_rejected;
    bool is_online; /* not from the records: for who knows of links */
    /* Nor are these: it is linked, and another one with the same credential was told to wait. */
    int64_t second_links, second_ms;
    tc_str second_address;
    /* Of an external one. Not from the records: when it was last asked whether it is there, and (empty: it is) why
     * it is not, with the code of that. */
    tc_str url, credential_file, ca_file;
    bool is_plaintext_allowed;
    int64_t asked_ms;
    tc_str trouble;
    tc_code trouble_code;
} tci_host_device;

/* ---- what a device asks ---- */

typedef struct tci_pair_ask {
    tc_str device_id, name;
    tci_digest digest; /* of the credential */
    tc_str address;
    bool may_begin; /* a new request is fine; otherwise only what is there already is answered */
} tci_pair_ask;

typedef enum tci_pair_status {
    TCI_PAIR_PENDING,  /* id, code, challenge_id, expires_ms */
    TCI_PAIR_APPROVED, /* id */
    TCI_PAIR_REVOKED,
    TCI_PAIR_REJECTED,
    TCI_PAIR_CLASH, /* the identity is known with another credential, or the credential with another identity */
    TCI_PAIR_FULL /* TCI_PENDING_MAX requests wait */
} tci_pair_status;

typedef struct tci_pair_answer {
    tci_pair_status status;
    bool has_begun; /* a new request was made */
    tc_str id, challenge_id, code;
    int64_t expires_ms;
} tci_pair_answer;

/* The same identity with the same credential gets the same answer until something is decided or its time is
 * over; then a request that was never approved begins anew, with a new code. */
int tci_host_pair(tci_host_db *db, int64_t now_ms, const tci_pair_ask *ask, tci_arena *a,
                  tci_pair_answer *ret, tc_err *err) TC_CHECKED;

/* May the device with this id and credential be linked?
 * Errors: AUTH (no such device, not approved, or another credential), DENIED (revoked). */
int tci_host_admit(tci_host_db *db, tc_str id, const tci_digest *digest, tci_arena *a,
                   tci_host_device *ret, tc_err *err) TC_CHECKED;
/* It was linked at that time. */
int tci_host_seen(tci_host_db *db, tc_str id, int64_t at_ms, tc_err *err) TC_CHECKED;

/* ---- what an owner decides ---- */

/* One request, by its code, its id, or (code and id given) by both.
 * Errors: NOT_FOUND, TIMEOUT (it is too late), CONFLICT (rejected before). */
typedef struct tci_challenge_ref {
    tc_str id, code;
} tci_challenge_ref;
int tci_host_approve(tci_host_db *db, int64_t now_ms, const tci_challenge_ref *which, tci_arena *a,
                     tci_host_device *ret, tc_err *err) TC_CHECKED;
int tci_host_reject(tci_host_db *db, int64_t now_ms, const tci_challenge_ref *which, tci_arena *a,
                    tci_host_device *ret, tc_err *err) TC_CHECKED;
/* Its credential is refused from now on, for good. Again: nothing changes. named as below; CONFLICT for an external
 * one, too, which is removed instead. */
int tci_host_revoke(tci_host_db *db, int64_t now_ms, tc_str named, tci_arena *a,
                    tci_host_device *ret, tc_err *err) TC_CHECKED;

/* The one that is meant by a text: its id; or its name, when only one that is approved (or external) has it; when
 * none has, the one that waits, and else the one revoked last.
 * Errors: NOT_FOUND, CONFLICT (more than one). */
int tci_host_device_get(tci_host_db *db, int64_t now_ms, tc_str named, tci_arena *a,
                        tci_host_device *ret, tc_err *err) TC_CHECKED;
/* The device that a request belongs to, also when it is too late. NOT_FOUND. */
int tci_host_device_of(tci_host_db *db, int64_t now_ms, const tci_challenge_ref *which,
                       tci_arena *a, tci_host_device *ret, tc_err *err) TC_CHECKED;
/* All of them but requests whose time is over: those that wait first, then by age; external ones last. */
int tci_host_devices(tci_host_db *db, int64_t now_ms, tci_arena *a, tci_host_device **ret,
                     size_t *ret_count, tc_err *err) TC_CHECKED;

#endif
