/* SPDX-License-Identifier: Apache-2.0
 *
 * The operation ledger of a session: who is running, and what finished mutations answered. All costs
 * are constant per operation: a hash table, and one list ordered by last access, so expiry looks
 * only at the head. Small evidence stays in memory as the text of the answer; large evidence lies in
 * the spool folder. Loop thread. */
#ifndef TCI_DAEMON_LEDGER_H
#define TCI_DAEMON_LEDGER_H

#include "base/hash.h"
#include "base/list.h"
#include "base/map.h"
#include "daemon/req.h"

struct tci_device;

typedef struct tci_record {
    tci_link lru;        /* terminal ones, oldest access first */
    tci_link kept;       /* those with evidence, oldest access first */
    tc_str operation_id; /* behind this struct */
    const tci_method *method;
    uint8_t digest[TCI_SHA256_BYTES]; /* of terminal-evidence methods */
    tci_req *req;                     /* NULL: finished */
    char *evidence;                   /* {"result":...} or {"error":...} member text, heap */
    size_t evidence_len;
    uint64_t evidence_file; /* number of the spool file that holds it; 0: in memory */
    bool is_error;
    tci_eip_receipt_stage stage;
    tci_eip_receipt_outcome outcome;
    tci_instant observed_at;
    int64_t touched_ms;
    unsigned npins;   /* a live process or output came out of it */
    bool is_reserved; /* sits in the session's reconciliation slot */
} tci_record;

typedef struct tci_ledger {
    struct tci_device *device;
    tci_map records;
    tci_list lru, kept;
    uint64_t evidence_bytes;
    size_t nrecords;
    bool reserved_in_use;
} tci_ledger;

void tci_ledger_init(tci_ledger *l, struct tci_device *device);
void tci_ledger_done(tci_ledger *l); /* frees all; nothing may be running */

tci_record *tci_ledger_find(const tci_ledger *l, tc_str operation_id);
/* A running record for r. BUSY when the ledger is full of what may not be evicted. */
int tci_ledger_admit(tci_ledger *l, tci_req *r, tci_record **ret, tc_err *err) TC_CHECKED;
/* The running record becomes evidence. body is the answer's member text; copied. When it cannot be
 * stored the record stays without evidence. */
void tci_ledger_settle(tci_ledger *l, tci_record *rec, bool is_error, tc_str body,
                       tci_eip_receipt_stage stage, tci_eip_receipt_outcome outcome,
                       tci_instant observed_at);
/* The record goes: an active-only operation was answered, or a mutation was refused. */
void tci_ledger_drop(tci_ledger *l, tci_record *rec);
void tci_ledger_touch(tci_ledger *l, tci_record *rec);
/* Evidence text into out. IO when the file cannot be read. CONFLICT when there is none. */
int tci_ledger_evidence(const tci_ledger *l, const tci_record *rec, tci_buf *out,
                        tc_err *err) TC_CHECKED;
/* Remove the oldest record that may go; false when there is none. */
bool tci_ledger_evict(tci_ledger *l);
/* Remove what was not touched since before_ms; returns when the next one is due, or -1. */
int64_t tci_ledger_expire(tci_ledger *l, int64_t before_ms);
void tci_record_pin(tci_record *rec);
void tci_record_unpin(tci_ledger *l, tci_record *rec);

#endif
