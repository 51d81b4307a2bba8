/* SPDX-License-Identifier: Apache-2.0
 *
 * A device served over one end of a socket pair by the real stdio carrier; the test is the client at the
 * other end, on the same thread. The client side takes no memory of the project's, so that allocations can
 * be made to fail while it works. */
#ifndef TEST_FAULT_RIG_H
#define TEST_FAULT_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "daemon/carrier/carrier_stdio.h"
#include "wire/eipd.h"
#include "wire/frames.h"

enum { HANDLE_MAX = 96 };

/* Ends what hopeless waits there are. */
#define RIG_PATIENCE_NS INT64_C(180000000000)

typedef struct rig {
    tci_loop *loop;
    tci_config config;
    tci_device *device;
    tci_stdio *stdio; /* NULL once ended */
    int fd;           /* the client's end; -1: closed */
    bool has_ended, is_reading_off;
    int status;
    char message[TC_ERR_MSG_MAX];
    char folder[512];
    char session[HANDLE_MAX];
    char handle[HANDLE_MAX], out[HANDLE_MAX];
    char *in; /* received, not yet taken */
    size_t in_at, in_len, in_cap;
    tci_frames frames;
    unsigned next_id;
    /* Told of answers that rig_answer was not waiting for; may be NULL. */
    void (*on_other)(struct rig *r, tc_str body);
    void *user;
} rig;

/* One received frame; borrowed until the next call. */
typedef struct seen {
    bool is_data;
    tc_str body; /* control */
    tci_eipd data;
} seen;

/* Limits may be changed between prepare and start. */
void rig_prepare(rig *r);
void rig_start(rig *r); /* serving, nothing sent yet */
/* Close the client's end, wait for the carrier's, free all; every counter of the device must be zero. */
void rig_stop(rig *r);
void rig_counters_are_zero(const rig *r);
void rig_open_session(rig *r); /* initialize, open, readiness */

/* One turn of the loop, then what has arrived is taken in. */
void rig_turn(rig *r, int64_t max_wait_ms);
/* Send as much as goes; false: the link is gone. Turns the loop while the pipe is full. */
bool rig_send(rig *r, const void *bytes, size_t len);
/* Send what fits now; returns how much. */
size_t rig_send_some(rig *r, const void *bytes, size_t len);
/* The next frame that has arrived, if a whole one has. Fails the test when the daemon broke a frame. */
bool rig_take(rig *r, seen *ret);
/* Half of a frame must not be left when the link has ended. */
void rig_nothing_is_torn(rig *r);

/* Request whose params come from a template: %o a fresh operation id, %d the folder, %h %r the handles, %g the
 * generation. session: with the selector. Returns the id, 0 when the link is gone. */
unsigned rig_ask(rig *r, bool session, const char *method, const char *params);
/* Text of a request as rig_ask sends it, with its frame header. Returns its length. */
size_t rig_request(rig *r, bool session, const char *method, const char *params, char *out,
                   size_t cap);
/* Wait for the answer to id: copied to text. False: the carrier ended first. Data frames go to on_data. */
bool rig_answer(rig *r, unsigned id, char *text, size_t cap);
/* ask and answer, which must be a success. */
void rig_do(rig *r, bool session, const char *method, const char *params, char *text, size_t cap);
bool rig_data(rig *r, tci_eipd_kind kind, tci_eipd_status status, const char *handle,
              uint64_t offset, const void *payload, size_t len);
/* The value of the first "key":"..." in a JSON text. */
bool rig_text(const char *json, const char *key, char *out, size_t cap);

#define rig_wait(r, cond)                                             \
    do {                                                              \
        int64_t rig_until_ns = tci_clock_mono_ns() + RIG_PATIENCE_NS; \
        while (!(cond)) {                                             \
            assert_true(tci_clock_mono_ns() < rig_until_ns);          \
            rig_turn((r), 50);                                        \
        }                                                             \
    } while (0)

/* Write a file of size bytes into the folder. */
void rig_write_file(rig *r, const char *name, size_t size);

#endif
