/* SPDX-License-Identifier: Apache-2.0
 *
 * The Host carries EIP between its clients and its devices: what its files share.
 *   eip_text.c      what a client sends, read and checked before anything of it goes on (pure)
 *   eip_remote.c    devices as they are asked: found by name, linked, connected to, waited for
 *   eip.c           requests: one in, one out; the door of both resources
 *   eip_transfer.c  content, a window of it at a time
 * The runtime's loop, but for eip_text.c (any thread). */
#ifndef TCI_HOST_EIP_H
#define TCI_HOST_EIP_H

#include "client/relay.h"
#include "host/host_int.h"
#include "proto/gen/errors.h"

enum {
    TCI_EIP_EXCHANGES_MAX = 1024,           /* requests of all devices at once */
    TCI_EIP_BODIES_MAX = 256 * 1024 * 1024, /* bytes of requests being read, of all devices */
    TCI_EIP_BACK_MS = 5000 /* how long a request waits for a device that was just there */
};

/* ---- eip_text.c ---- */

/* A control request as it came: strictly what a daemon takes, so that none of what a client sends can make the
 * device doubt the link. Texts lie in text or in the arena. */
typedef struct tci_eip_text {
    tci_eip_request request;
    const tci_method *method; /* NULL: not one of ours; the device may know it */
    size_t id_at, id_len;     /* where the id is in text, quotes and all */
} tci_eip_text;

/* PARSE, INVALID: as tci_eip_request_decode, which also says what is left of *ret; and PARSE for numbers that no
 * floating point number can hold. */
int tci_eip_text_read(tc_str text, tci_arena *a, tci_eip_text *ret, tc_err *err) TC_CHECKED;
/* Append the error that a daemon answers for a failure of tci_eip_text_read with this code. */
void tci_eip_text_put_refusal(tci_buf *b, const tci_eip_text *t, int code);
void tci_eip_text_put_error(tci_buf *b, const tci_eip_text *t, tci_eip_cause cause);
/* initialize, answered for a device: 0, or the cause to refuse it with in *ret_cause and INVALID. */
int tci_eip_text_check_initialize(const tci_eip_text *t, tc_str device_id, tci_arena *a,
                                  tci_eip_cause *ret_cause, tc_err *err) TC_CHECKED;

/* ---- eip_remote.c ---- */

/* A device that was asked for. Lives until the Host ends. */
typedef struct tci_eip_remote {
    tci_link link; /* eip->remotes */
    tci_host *host;
    tci_relay relay;
    tci_arena strings;
    tci_host_device row;
    int64_t lost_ms; /* when its link ended; 0: it never had one, or has one */
    uint64_t max_request_bytes, grace_ms;
    tci_list waiting; /* of tci_eip_exchange */
    tci_timer patience;
    /* An external one that is being connected to. */
    tci_thread *connecting; /* NULL: it is not */
    tc_ctx *ctx;
    tci_post connected;
    tc_device *device;
    int rc;
    tc_err err;
} tci_eip_remote;

/* Who may ask what, as the records said it last; forgotten when they change. */
typedef struct tci_eip_known {
    tci_digest token;
    char name[TCI_PAIR_NAME_MAX + 1];
    size_t name_len;
    tci_eip_remote *remote; /* NULL: free */
    int64_t until_ms;
} tci_eip_known;

enum { TCI_EIP_KNOWN_MAX = 64 };

typedef struct tci_host_eip {
    tci_host *host;
    tci_list remotes;
    size_t nexchanges, nbody_bytes;
    tci_eip_known known[TCI_EIP_KNOWN_MAX];
    size_t next_known;
    bool is_ending;
} tci_host_eip;

/* What the records know of the request's token and name; NULL: ask them. */
tci_eip_remote *tci_eip_remote_known(tci_host_req *r);
/* The records have said who it is (r->device) and that the token is good. NULL: no memory. */
tci_eip_remote *tci_eip_remote_of(tci_host_req *r);
/* 0: it can be asked now. 1: it will be told (tci_eip_exchange_go_on, or _give_up) when it can. Or why not:
 * NOT_READY (offline), NO_MEMORY, BUSY, CLOSED. */
typedef struct tci_eip_exchange tci_eip_exchange;
int tci_eip_remote_want(tci_eip_remote *m, tci_eip_exchange *x, tc_err *err) TC_CHECKED;
/* Is it still the daemon that the connection was made to? Nothing but asking tells, of one that does not dial in. As
 * above: 0, 1, or why not. */
int tci_eip_remote_verify(tci_eip_remote *m, tci_eip_exchange *x, tc_err *err) TC_CHECKED;
/* Not linked, but it was until just now, and somebody's sessions are there: it is worth waiting for. */
bool tci_eip_remote_is_expected(const tci_eip_remote *m);
/* Wait for it: as tci_eip_remote_want gives 1. */
int tci_eip_remote_wait(tci_eip_remote *m, tci_eip_exchange *x, tc_err *err) TC_CHECKED;

/* ---- eip.c ---- */

typedef enum tci_eip_kind {
    TCI_EIP_CONTROL,
    TCI_EIP_READ,
    TCI_EIP_WRITE,
    TCI_EIP_RESET
} tci_eip_kind;

/* One request of a client: beside its tci_host_req, in whose arena it lives. */
struct tci_eip_exchange {
    tci_host_req *r;
    tci_eip_kind kind;
    tci_eip_remote *remote;
    tci_link wait_link; /* remote->waiting */
    bool is_counted, is_paused, is_open, is_whole, has_body, is_verified;
    /* control */
    size_t nreserved;
    tci_relay_ask ask;
    tc_str id; /* the client's, as it wrote it */
    tci_held *held;
    bool is_asking;
    /* content */
    tc_str session, handle;
    tci_relay_xfer *rx;
    tci_relay_reset reset;
    bool is_resetting;
    tci_block *block; /* with HTTP, or being filled */
    tc_str rest;      /* of what HTTP has read, while it is paused */
    bool is_read, is_block_out, is_started, is_finished, is_answered;
};

/* Loop thread: the device is there; or it is not, and why. */
void tci_eip_exchange_go_on(tci_eip_exchange *x);
void tci_eip_exchange_give_up(tci_eip_exchange *x, const tc_err *err);

/* Answers. */
void tci_eip_refuse(tci_eip_exchange *x, unsigned status, const char *code, tc_str message);
/* Why a device cannot be asked, or has not answered: was anything of the request with it? */
void tci_eip_answer_failure(tci_eip_exchange *x, const tc_err *err, bool is_unsent);
void tci_eip_answer_empty(tci_eip_exchange *x, unsigned status);
void tci_eip_pause(tci_eip_exchange *x);
void tci_eip_resume(tci_eip_exchange *x);

/* ---- eip_transfer.c ---- */

/* false: refused. */
bool tci_eip_transfer_head(tci_eip_exchange *x, const tci_http_head *head);
/* The device is there: begin an upload. */
void tci_eip_upload_start(tci_eip_exchange *x);
void tci_eip_upload_body(tci_eip_exchange *x, tc_str bytes);
void tci_eip_upload_end(tci_eip_exchange *x);
void tci_eip_download_start(tci_eip_exchange *x);
void tci_eip_reset_start(tci_eip_exchange *x);
void tci_eip_transfer_writable(tci_eip_exchange *x);
void tci_eip_transfer_gone(tci_eip_exchange *x);

#endif
