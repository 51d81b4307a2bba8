/* SPDX-License-Identifier: Apache-2.0
 *
 * A transport attachment as the rest of the daemon sees it: where answers and data frames go. Owned
 * by its transport; counted, because requests in flight outlive a lost link. Loop thread. */
#ifndef TCI_DAEMON_CARRIER_H
#define TCI_DAEMON_CARRIER_H

#include "base/buf.h"
#include "base/list.h"
#include "base/str.h"

struct tci_device;
struct tci_out_frame;

typedef struct tci_carrier tci_carrier;

typedef struct tci_carrier_vtable {
    /* Send one control answer to where tci_dispatch was told. Takes the contents of body; body NULL: it
     * could not be made. is_refused: no lane was free. Called once per request. */
    void (*reply)(tci_carrier *c, void *reply_to, bool is_refused, tci_buf *body);
    /* Queue one data frame; it is freed (or its on_sent called) when written or dropped.
     * NULL: this carrier moves content in another way (HTTP). */
    void (*send_frame)(tci_carrier *c, struct tci_out_frame *frame);
    /* The last reference is gone. */
    void (*free)(tci_carrier *c);
} tci_carrier_vtable;

struct tci_carrier {
    const tci_carrier_vtable *v;
    struct tci_device *device;
    tci_link link; /* device's carriers */
    unsigned refs;
    bool is_initialized; /* initialize was answered */
    bool is_stateless;   /* HTTP: initialize may be repeated and is not needed */
    bool is_closed;      /* link gone or draining: nothing is admitted, answers are dropped */
    /* Take the block of a data frame back that has been written, to use it again; NULL: it is freed. */
    void (*keep)(tci_carrier *c, char *block, size_t size);
};

static inline tci_carrier *tci_carrier_ref(tci_carrier *c)
{
    c->refs++;
    return c;
}
static inline void tci_carrier_unref(tci_carrier *c)
{
    if (c != NULL && --c->refs == 0)
        c->v->free(c);
}

/* One outbound data frame: 24 bytes of header, the two names, the payload, in one block with
 * room in front for the carrier's own header. */
enum { TCI_FRAME_HEADROOM = 128 };
typedef struct tci_out_frame {
    tci_link link;
    /* Called exactly once, when the bytes have left or were dropped (was_sent false). NULL: free. */
    void (*on_sent)(struct tci_out_frame *f, bool was_sent);
    void *owner;
    char *bytes; /* the EIPD frame starts here; TCI_FRAME_HEADROOM writable bytes before it */
    size_t len;
    size_t head_len; /* used by the carrier: its own header in front of bytes */
} tci_out_frame;

/* Is more of the peer's content waiting for the disk than a carrier should read? */
bool tci_carrier_is_behind(const tci_carrier *c);
/* One message that holds a data frame. own: the heap block that body lies in, taken over in any case;
 * NULL: in place. Errors: PROTOCOL (no valid frame), NO_MEMORY. */
int tci_carrier_take_data(tci_carrier *c, tc_str body, char *own, tc_err *err) TC_CHECKED;

#endif
