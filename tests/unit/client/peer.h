/* SPDX-License-Identifier: Apache-2.0
 *
 * A daemon by script, at the other end of a socket pair: a test says what it reads and answers. It
 * runs on a thread of its own and fails the test when it did not get what it wanted. */
#ifndef TC_TEST_PEER_H
#define TC_TEST_PEER_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/json.h"
#include "base/num.h"
#include "plat/thread.h"
#include "wire/eipd.h"
#include "wire/frames.h"
#include <stdio.h>
#include <stdlib.h>
#include <telechir/client.h>

typedef struct peer {
    int fd;
    int client_fd; /* for the client; -1 once handed over */
    tci_thread *thread;
    void (*play)(struct peer *p);
    void *arg;
    const char *descriptor_extra; /* members put into the session descriptor */
    unsigned max_concurrent;
    unsigned idle_timeout_ms;
    const char *egress; /* mode; NULL: inherit */
    tci_frames frames;
    tci_buf in;
    tci_arena arena;
    size_t cut_at; /* the n-th byte of the next answer is the last one; 0: no cut */
    bool is_cut;
    tci_buf held; /* while is_holding: what is to go out in one piece */
    bool is_holding;
    /* the last request */
    uint64_t id;
    char method[64];
    char session[64];
    tci_json params;
    tci_eipd data; /* the last data frame */
    char why[512]; /* what went wrong, empty: nothing */
} peer;

/* Starts the script. */
void peer_open(peer *p, void (*play)(peer *p), void *arg);
/* Waits for its end; fails the test when the script was disappointed. */
void peer_close(peer *p);

/* The rest of it, once its thread was joined; whatever the script thought. */
void peer_forget(peer *p);

/* ---- in scripts ---- */

/* Something is not as it should be; remembered, and the link is cut. Returns false. */
bool peer_fail(peer *p, const char *what);
/* The next frame. false: the link ended. */
bool peer_next(peer *p, bool *ret_is_data);
/* The next frame must be this request. */
bool peer_expect(peer *p, const char *method);
/* The next frame must be this data frame. */
bool peer_expect_data(peer *p, tci_eipd_kind kind, uint64_t offset);
void peer_result(peer *p, const char *result_json);
/* With everything chosen. session NULL: none. */
void peer_result_as(peer *p, uint64_t id, const char *session, const char *result_json);
void peer_error(peer *p, int code, const char *type, const char *stage);
void peer_data(peer *p, tci_eipd_kind kind, tci_eipd_status status, uint64_t offset,
               const void *payload, size_t len);
void peer_data_to(peer *p, const char *session, const char *handle, tci_eipd_kind kind,
                  uint64_t offset, const void *payload, size_t len);
void peer_raw(peer *p, const void *bytes, size_t len);
void peer_cut(peer *p);
/* Gather what is sent from hold on, so that flush sends it in one piece. */
void peer_hold(peer *p);
void peer_flush(peer *p);
/* Answer initialize; session.open and readiness too. */
bool peer_initialize(peer *p);
bool peer_session(peer *p);
/* Answer session.open or session.attach with the session's descriptor. */
void peer_give_session(peer *p);
/* The text of a member of the last request's params: "context.operation_id". */
tc_str peer_text(peer *p, const char *path);
/* A receipt of the last request, as JSON, in the arena. */
const char *peer_receipt(peer *p, const char *stage, const char *outcome);
/* Text by format, in the arena. */
const char *peer_format(peer *p, const char *fmt, ...) TC_PRINTF(2, 3);
const char *peer_boundary(peer *p);
const char *peer_limits(peer *p);

/* ---- in tests ---- */

typedef struct rig {
    tc_runtime *rt;
    tc_result *r;
    tc_device *device;
    tc_session *session;
    peer peer;
    void *plug; /* see plug.h */
    tc_err err;
} rig;

/* Another way than descriptors; NULL: those. */
extern int (*rig_connect_otherwise)(rig *g);
extern void (*rig_close_otherwise)(rig *g);

/* A connected device, and a session unless the script has none. */
int rig_connect(rig *g, void (*play)(peer *p), void *arg);
void rig_open(rig *g, void (*play)(peer *p), void *arg);
void rig_close(rig *g);
tc_call rig_call(rig *g);

#define assert_ok(g, expr)                                                         \
    do {                                                                           \
        int assert_rc = (expr);                                                    \
        if (assert_rc != 0)                                                        \
            fail_msg("%s: %s (%s)", #expr, (g)->err.msg, tc_code_name(assert_rc)); \
    } while (0)
#define assert_code(g, code, expr)                                               \
    do {                                                                         \
        int assert_rc = (expr);                                                  \
        if (assert_rc != (code))                                                 \
            fail_msg("%s: %s instead of %s: %s", #expr, tc_code_name(assert_rc), \
                     tc_code_name(code), assert_rc != 0 ? (g)->err.msg : "");    \
    } while (0)
#define assert_outcome(g, expected)                                           \
    assert_string_equal(tc_outcome_name(tc_result_evidence((g)->r)->outcome), \
                        tc_outcome_name(expected))

#endif
