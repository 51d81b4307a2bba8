/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside of what every public call is given: a context (telechir/runtime.h: when to stop waiting)
 * and a result (where answers live). */
#ifndef TCI_PLAT_CALL_H
#define TCI_PLAT_CALL_H

#include "base/arena.h"
#include "plat/thread.h"
#include <telechir/runtime.h>

struct tc_ctx {
    atomic_bool is_cancelled;
    int64_t deadline_ns; /* 0: none */
    tci_wake wake;
    atomic_int notify; /* 1 + a descriptor that is written to; 0: none */
    atomic_uint nnotifying;
};

/* Monotonic; 0: none. ctx may be NULL in these three. */
int64_t tci_ctx_deadline_ns(const tc_ctx *ctx);
/* 0, or CANCELLED, or TIMEOUT. */
int tci_ctx_check(const tc_ctx *ctx, tc_err *err) TC_CHECKED;
/* Counts when the context is cancelled; NULL without a context. */
tci_wake *tci_ctx_wake(tc_ctx *ctx);

/* For who waits for descriptors: fd, which must not block, is written one byte to when the context is
 * cancelled. One at a time: false when there is one already (look at the context now and then). */
bool tci_ctx_notify(tc_ctx *ctx, int fd);
/* No more of it; fd may be closed after this. Only after tci_ctx_notify answered true. */
void tci_ctx_unnotify(tc_ctx *ctx);

/* One answer as it came: its text, and the tree read from it. Owned by a result once delivered. Or what
 * somebody else counts: what and release, and no text. */
typedef struct tci_held {
    struct tci_held *next;
    tci_arena arena;
    void (*release)(void *what); /* NULL: nothing to release */
    void *what;
    size_t len;
    char text[];
} tci_held;

tci_held *tci_held_new(size_t len); /* NULL: no memory */
void tci_held_free(tci_held *h);

struct tc_result {
    tci_arena arena;
    tci_held *held;
    tc_evidence evidence;
};

void tci_result_keep_own(tc_result *r, tci_held *h);
/* r refers to what until it is cleared or freed: then release(what) is called, once. After a failure it
 * is not. */
int tci_result_refer(tc_result *r, void *what, void (*release)(void *what), tc_err *err) TC_CHECKED;

/* The storage behind a result. */
tci_arena *tci_result_arena(tc_result *r);
/* A fresh evidence, and the same with an outcome; for calls that end before the wire. */
void tci_result_reset_evidence(tc_result *r, tc_outcome outcome);
/* len bytes, not zeroed, that live as long as the rest of r; large ones outside its arena. NULL: no
 * memory. */
char *tci_result_bytes(tc_result *r, size_t len) TC_CHECKED;

#endif
