/* SPDX-License-Identifier: Apache-2.0
 *
 * One control request from admission to its answer, and what a handler may do with it.
 *
 * A handler gets checked params and fills result; it returns 0 or an error and never writes JSON.
 *   LOOP     runs at once on the loop thread; the return value is the answer.
 *   WORKER   runs on a pool thread; it may look at params, device->config and session->cwd, at nothing else
 *            of the device or session; the return value is the answer.
 *   ASYNC    starts on the loop thread; 0 means "will finish", and tci_req_finish is called once later
 *            (or before returning); an error is the answer. Cancellation and deadline arrive through
 *            on_stop, on the loop thread, at most once.
 */
#ifndef TCI_DAEMON_REQ_H
#define TCI_DAEMON_REQ_H

#include "base/num.h"
#include "daemon/carrier/carrier.h"
#include "loop/loop.h"
#include "plat/clock.h"
#include "proto/envelope.h"
#include "proto/gen/errors.h"

struct tci_device;
struct tci_session;
struct tci_record;

typedef struct tci_req tci_req;
struct tci_req {
    tci_job job;
    tci_link link; /* the device's requests in flight */
    tci_arena arena;
    struct tci_device *device;
    tci_carrier *carrier;
    void *reply_to; /* the carrier's own: which connection */
    char *text;     /* body on the heap when it was handed over; else NULL */
    tci_eip_request env;
    const tci_method *method;
    tci_where where;             /* the method's, or what suits the file system it is about */
    struct tci_session *session; /* NULL for device methods */
    const void *params;
    void *result;
    struct tci_record *record; /* NULL: not in the ledger */
    tc_str operation_id;       /* empty for methods outside the ledger */

    tci_cancel cancel;
    tci_timer deadline; /* armed only for ASYNC */
    void (*on_stop)(tci_req *r);
    void *state; /* the handler's own while ASYNC is pending */
    /* WORKER: runs on the loop thread after the work succeeded, to enter what it made into tables. */
    int (*after)(tci_req *r, tc_err *err);

    tci_buf body; /* the answer, once encoded */
    size_t result_at, result_len;
    bool is_encoded;

    bool in_lane; /* holds a share of its admission lane */
    bool in_device_lane;
    bool is_closing; /* waits for its own session to close */
    bool is_done;
    int rc;
    tc_err err;
    const tci_eip_error_row *cause; /* instead of the row of family and code */
    bool has_error_hint;
    tci_eip_retry_hint error_hint; /* replaces the row's */
    bool is_lane_full;             /* refused for want of a lane: HTTP answers 429 */
    bool is_undispatched;     /* a mutation that failed before anything was started: pre_dispatch */
    tci_eip_error_data error; /* extras a handler adds: field, safe_detail, process, ... */
};

/* Finish an ASYNC request: rc 0 or the code in err. Frees r. */
void tci_req_finish(tci_req *r, int rc, const tc_err *err);

/* Fail with a cause that has a text of its own; returns code, for `return`. */
int tci_req_fail(tci_req *r, tc_err *err, tc_code code, tci_eip_cause cause);

/* Encode the result now, on a worker, so that the loop need not. The result must be complete. */
int tci_req_encode(tci_req *r, tc_err *err) TC_CHECKED;

/* Cancel from operation.cancel or a closing session: sets the flag, and for ASYNC calls on_stop. */
void tci_req_cancel(tci_req *r);

/* Fill the receipt of a terminal-evidence operation. Any thread (reads immutable parts of r). */
void tci_req_receipt(const tci_req *r, tci_eip_receipt_stage stage, tci_eip_receipt_outcome outcome,
                     tci_eip_operation_receipt *ret);

/* The context member that every operation's params begin with, for methods that have one. */
const tci_eip_context *tci_req_context(const tci_req *r);

/* Entry: decode, check, admit and run one control body. text is borrowed for the call when own is
 * NULL; otherwise text points into own, a heap block that the request frees. */
void tci_dispatch(tci_carrier *c, void *reply_to, tc_str text, char *own);

#endif
