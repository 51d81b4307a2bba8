/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside of the client. A caller's thread builds a request and waits; the loop thread owns the
 * connection, its sessions and all that is in flight. Between them go posts (towards the loop) and
 * fields guarded by the runtime's lock (towards the caller). */
#ifndef TCI_CLIENT_INT_H
#define TCI_CLIENT_INT_H

#include "base/buf.h"
#include "base/list.h"
#include "base/map.h"
#include "base/num.h"
#include "client/client.h"
#include "net/stream.h"
#include "plat/clock.h"
#include "plat/thread.h"
#include "proto/envelope.h"
#include "proto/gen/eip.h"
#include "wire/eipd.h"
#include "wire/frames.h"

/* ---- the runtime ---- */

typedef struct tci_shared {
    tci_link link;
    char *key;
    size_t key_len;
    tc_device *device; /* NULL while connecting */
    bool is_connecting;
} tci_shared;

/* Something of the loop that ends with the runtime but is no tci_conn. Loop thread: end is called
 * once, when the runtime closes; until nothing of it is left on the loop it counts in nbusy. */
typedef struct tci_ender {
    tci_link link; /* rt->enders */
    void (*end)(struct tci_ender *ender);
} tci_ender;

struct tc_runtime {
    atomic_uint refs;
    tci_mutex lock; /* guards is_closed, shared, and what calls and transfers hand to callers */
    bool is_closed;
    tci_loop *loop;
    tci_thread *thread;
    tci_list conns;  /* loop thread, as the next three */
    tci_list enders; /* of tci_ender */
    unsigned nbusy;  /* connections that are still ending */
    bool is_ending;
    tci_post close_post;
    tci_list shared;
    tci_list shared_waiters;
    tci_list shared_pis; /* of tci_shared_pi (pienv_shared.c), under the lock */
    tci_arena strings;
    const char *const *environ;
    tc_str client_name, client_version;
    tc_secret_resolver resolve_secret;
    void *resolve_user;
};

/* Post unless the loop is gone. */
bool tci_runtime_post(tc_runtime *rt, tci_post *post);

/* Loop thread: stop the loop once everything has ended. */
void tci_runtime_check_end(tc_runtime *rt);
/* Before the runtime closes: let go of its pi-env connections. */
void tci_runtime_release_pis(tc_runtime *rt);

/* ---- connections: loop thread ---- */

typedef struct tci_conn tci_conn;
typedef struct tci_sess tci_sess;
typedef struct tci_call tci_call;
typedef struct tci_pending tci_pending;
typedef struct tci_xfer tci_xfer;
typedef struct tci_block tci_block;

/* How many requests of a kind may be under way; the rest waits its turn. */
typedef struct tci_lane_queue {
    unsigned in_flight, max;
    tci_list waiting; /* of tci_call.lane_link */
} tci_lane_queue;

/* A carrier. All on the loop thread. */
typedef struct tci_conn_vtable {
    /* Take the request over to the wire. A failure that concerns more than this request is reported
     * by tci_conn_fail, not here. */
    void (*send)(tci_conn *c, tci_pending *p);
    /* Nobody waits for the answer any more. p may be gone after this. True: it was taken back
     * before any of it reached the peer, and has no effect. */
    bool (*abandon)(tci_conn *c, tci_pending *p);
    /* Not one byte has been written yet. */
    bool (*is_untouched)(const tci_pending *p);
    /* The link is broken: provably the peer never got all of it. */
    bool (*is_unsent)(const tci_pending *p);
    void (*xfer_start)(tci_xfer *x);
    void (*xfer_give)(tci_xfer *x, tci_block *b); /* reader: consumed; writer: to be sent */
    void (*xfer_end)(tci_xfer *x);
    void (*xfer_reset)(tci_xfer *x, tci_eipd_status status);
    void (*xfer_forget)(tci_xfer *x); /* drop every pointer to it */
    /* The connection failed: nothing more is handed to the wire from now on. May be NULL. */
    void (*halt)(tci_conn *c);
    /* After that: stop reading and writing, let go of every pending
     * request's bytes, and call tci_conn_stopped once nothing is left on the loop. */
    void (*stop)(tci_conn *c);
    void (*free)(tci_conn *c);
} tci_conn_vtable;

enum { TCI_CONN_BUCKETS = 256, TCI_WINDOW = 8 };

struct tci_conn {
    const tci_conn_vtable *v;
    tc_runtime *rt;
    tci_link link; /* rt->conns */
    bool is_dead;
    atomic_bool is_alive; /* the same for other threads */
    tc_err fail;
    atomic_uint_fast64_t next_id;
    tci_list buckets[TCI_CONN_BUCKETS]; /* tci_pending by id */
    tci_list sessions;
    tci_lane_queue device_lane;
    unsigned nordinary, max_ordinary;
    size_t nwaiting; /* calls that wait in some lane */
    bool is_stopped; /* under the lock: nothing of it is left on the loop */
    tci_wake stopped;
    /* Narrowed once, after initialize. */
    atomic_uint_fast64_t max_request_bytes, max_response_bytes, max_frame_bytes;
};

void tci_conn_init(tci_conn *c, const tci_conn_vtable *v, tc_runtime *rt);
/* Begin: loop thread. */
void tci_conn_add(tci_conn *c);
/* Everything under way ends with code; the connection never comes back. Idempotent. */
void tci_conn_fail(tci_conn *c, const tc_err *err);
/* The same from any thread. */
void tci_conn_break(tci_conn *c, const tc_err *err);
/* Any thread; blocks: fail it as CLOSED unless it failed before, then free it. */
void tci_conn_close(tci_conn *c);

/* An answer arrived; h is taken over. expected: the request it must belong to (HTTP), or NULL. */
void tci_conn_reply_own(tci_conn *c, tci_held *h, tci_pending *expected);
/* A data frame arrived. b holds its payload (NULL without one) and is taken over. */
void tci_conn_data_own(tci_conn *c, const tci_eipd *frame, tci_block *b);
/* p ended without an answer: is_unsent says what is known of it. It is unlinked and freed. */
void tci_conn_end_pending(tci_conn *c, tci_pending *p, const tc_err *err, bool is_unsent);
/* Send a request nobody waits for. Takes the contents of request. */
void tci_conn_tell(tci_conn *c, tci_sess *s, int method, tci_buf *request, uint64_t id);
/* End what waits for answers of one session; forget it for good. */
void tci_conn_fail_session(tci_conn *c, tci_sess *s, const tc_err *err);
void tci_conn_forget_session(tci_conn *c, tci_sess *s);
void tci_conn_lane_fail(tci_conn *c, tci_lane_queue *lane, const tc_err *err);
/* For carriers. */
void tci_conn_stopped(tci_conn *c);
void tci_pending_release(tci_pending *p);

/* ---- sessions: loop thread, but for is_alive ---- */

enum { TCI_ENDED_RING = 64, TCI_OPERATION_ID_LEN = 15 };

struct tci_sess {
    tci_conn *conn;
    tci_link link; /* conn->sessions */
    char *id_text;
    tc_str id;
    bool is_dead;
    bool is_left_open; /* ended with the connection only */
    bool is_relayed;   /* somebody else's: not closed when the connection ends */
    atomic_bool is_alive;
    tc_err fail;
    tci_lane_queue ordinary, cleanup, keepalive;
    tci_list xfers;
    uint64_t ended[TCI_ENDED_RING]; /* hashes of handles whose transfer is over */
    unsigned nended;
    tci_timer timer;
    int64_t keepalive_ms; /* 0: none */
    int64_t last_sent_ms;
    char op_text[TCI_OPERATION_ID_LEN + 1];
};

void tci_operation_id(char out[TCI_OPERATION_ID_LEN + 1]);
/* For requests of our own; valid until the next one. */
tc_str tci_sess_operation_id(tci_sess *s);
void tci_sess_tell_close(tci_sess *s); /* loop thread; nobody waits for it */

tci_sess *tci_sess_new(tci_conn *c, tc_str id, uint64_t max_concurrent, int64_t keepalive_ms);
void tci_sess_add(tci_sess *s);    /* loop thread */
void tci_sess_remove(tci_sess *s); /* loop thread; also when never added */
void tci_sess_free(tci_sess *s);
void tci_sess_fail(tci_sess *s, const tc_err *err); /* loop thread */
/* Any thread: what tci_sess_fail does, and a session.close for good measure. */
void tci_sess_break(tci_sess *s, const tc_err *err);

/* ---- requests ---- */

/* A message on its way to the peer (messages.h). done comes once: is_written says whether all of it
 * left, or may have. */
typedef struct tci_out {
    tci_link link;
    void *carried; /* the link's own */
    tci_iovec parts[3];
    unsigned nparts;
    size_t nbytes, nsent;
    bool is_control;
    void (*done)(struct tci_out *out, bool is_written);
} tci_out;

/* A request that was handed to the carrier; lives until its answer, also when nobody waits. */
struct tci_pending {
    tci_link link; /* a bucket of the connection */
    uint64_t id;
    const tci_method *method;
    tci_call *call; /* NULL: nobody waits */
    tci_sess *sess; /* NULL: device method, or the session is gone */
    bool is_session;
    tci_lane_queue *lane; /* NULL: holds none */
    bool is_ordinary;
    tci_buf request;
    /* messages */
    tci_out out;
    char head[TCI_FRAMES_PUT_MAX];
    bool is_written;
    bool is_busy;   /* the carrier still needs it */
    bool is_orphan; /* over, and freed when the carrier is done with it */
    tci_conn *conn;
    /* http */
    struct tci_http_call *http;
    tci_held *held; /* an answer whose length is known */
    size_t held_len;
    tci_buf body;    /* one whose length is not */
    bool is_refused; /* http_err says why */
    bool refused_unsent;
    bool *unsent; /* told when the call ends, to who takes it back */
    tc_err http_err;
};

/* A caller's request; on its stack. */
struct tci_call {
    tci_post start, stop;
    tci_conn *conn;
    tci_sess *sess; /* NULL: device method */
    const tci_method *method;
    uint64_t id;
    tci_buf request;
    tc_str operation_id; /* for operation.cancel; empty: cannot be cancelled */
    tci_wake *wake;
    tci_wake own_wake;
    tci_post *done;  /* posted when it is over, for who does not wait; NULL: none */
    tc_err stop_err; /* why the caller gives up */
    /* loop */
    tci_link lane_link;
    tci_lane_queue *lane;
    tci_pending *pending;
    tci_timer grace;
    /* written on the loop under the lock, with is_done last */
    bool is_done, is_unsent, is_stop_seen;
    bool is_stopping, is_stop_posted; /* caller's */
    int code;
    tc_err err;
    tci_held *held;
    tci_eip_reply reply;
};

/* Loop thread. */
void tci_call_start(tci_call *call);
void tci_call_stop(tci_call *call);
/* Nobody waits for it any more, and nothing is told to the daemon: it ends now, for the reason in stop_err. */
void tci_call_abandon(tci_call *call);
/* Not one byte of it has been written yet. */
bool tci_call_is_untouched(const tci_call *call);
void tci_call_finish(tci_call *call, int code, const tc_err *err, bool is_unsent);

/* ---- the caller's side of a request ---- */

/* One call of a method by its index in tci_eip_methods. */
typedef struct tci_ask {
    tc_device *device;
    tc_session *session; /* NULL for device methods */
    const tc_call *opts;
    int method;
    void *params;                    /* its context, if it has one, is filled in */
    void *result;                    /* decoded into, borrowing from opts->result */
    int64_t limit_ms;                /* our own patience without any deadline; 0: none */
    tci_post *done;                  /* see tci_call; NULL: somebody waits */
    tc_str operation_id;             /* filled in: that of the context */
    bool is_reply;                   /* filled in: an answer came */
    const tci_eip_error_data *error; /* filled in when the answer was an error */
    tc_str text, id_text; /* filled in: the whole answer, and the id in it; in the result */
} tci_ask;

/* Check opts and start afresh: evidence is reset. */
int tci_call_check(const tc_call *opts, tc_err *err) TC_CHECKED;
/* Send, wait, decode strictly, check the receipt. Evidence is filled in either way. */
int tci_ask_do(tci_ask *ask, tc_err *err) TC_CHECKED;
/* The same in pieces, for several at once: begin; wait until one of them is done; end each. wake is
 * what all of them are waited for with. A begin that failed needs no end. */
int tci_ask_begin(tci_ask *ask, tci_wake *wake, tci_call **ret_call, tc_err *err) TC_CHECKED;
bool tci_ask_is_done(tci_call *call);
/* Give up on it as its context says, and soon; it still has to be waited for and ended. */
void tci_ask_stop(tci_call *call, const tc_err *why);
int tci_ask_end(tci_ask *ask, tci_call *call, tc_err *err) TC_CHECKED;
/* A well-formed answer that says something impossible: ends the session (or connection). */
int tci_ask_violation(const tci_ask *ask, tc_err *err, const char *what);
/* The same after a call: r, when not NULL, no longer says that a change was done. Returns PROTOCOL. */
int tci_session_violation(tc_session *s, tc_result *r, tc_err *err, const char *what);

/* ---- transfers ---- */

/* A piece of content with room for its frame header in front. */
struct tci_block {
    tci_link link;
    tci_post post;
    tci_xfer *xfer;
    tci_out out;
    uint64_t offset;
    size_t len, cap; /* payload */
    char *payload;
    size_t head_cap;
    bool is_out;  /* writer: the carrier still writes it */
    char bytes[]; /* head_cap, then payload */
};

tci_block *tci_block_new(size_t head_cap, size_t cap);

typedef enum tci_xfer_state {
    TCI_XFER_NEW,
    TCI_XFER_ATTACHING,
    TCI_XFER_OPEN,
    TCI_XFER_ENDING, /* writer: END sent */
    TCI_XFER_ENDED,
    TCI_XFER_RESETTING,
    TCI_XFER_FAILED
} tci_xfer_state;

/* One transfer; on the caller's stack from start until tci_xfer_done. */
struct tci_xfer {
    tci_conn *conn;
    tci_sess *sess;
    tc_str handle;
    bool is_read;
    uint64_t max_bytes; /* reader: more is a violation */
    size_t chunk_bytes; /* writer: payload of a block */
    size_t head_cap;
    /* loop thread */
    tci_link link; /* sess->xfers */
    bool is_linked;
    tci_xfer_state state;
    uint64_t moved;    /* received or sent */
    uint64_t credited; /* acknowledged */
    uint64_t ends[TCI_WINDOW];
    unsigned nends;
    tci_list sent;       /* writer: blocks without credit yet */
    uint64_t credit_due; /* writer: credit of a block whose sending has not returned yet; 0: none */
    tci_post start, end, reset;
    tci_eipd_status reset_status; /* to be sent; then what the peer said */
    struct tci_http_call *http;
    struct tci_http_call *http_reset;
    tc_err http_err;
    tci_list queue; /* http writer: blocks to be sent */
    tci_block *writing;
    bool is_end_asked, is_paused, is_writable;
    /* under the lock */
    tci_list ready;   /* reader: blocks to consume; writer: blocks to fill again */
    unsigned nblocks; /* writer: blocks in existence */
    bool is_attached, is_ended, is_reset, is_failed;
    int code;
    tc_err err;
    tci_wake *wake;
    tci_wake own_wake;
    /* For an owner on the loop, which does not wait: there is something new. May be NULL */
    void (*news)(tci_xfer *x);
};

/* Caller's thread. */
void tci_xfer_init(tci_xfer *x, tci_conn *c, tci_sess *s, tc_str handle, bool is_read, tc_ctx *ctx);
int tci_xfer_attach(tci_xfer *x, tc_ctx *ctx, tc_err *err) TC_CHECKED;
/* Reader: the next block, to be given back with tci_xfer_credit; NULL at the end. */
int tci_xfer_next(tci_xfer *x, tc_ctx *ctx, tci_block **ret_block, tc_err *err) TC_CHECKED;
void tci_xfer_give(tci_xfer *x, tci_block *b);
/* Writer: an empty block. */
int tci_xfer_blank(tci_xfer *x, tc_ctx *ctx, tci_block **ret_block, tc_err *err) TC_CHECKED;
int tci_xfer_finish(tci_xfer *x, tc_ctx *ctx, tc_err *err) TC_CHECKED;
/* Give up: RESET, and wait for its echo. When that does not come the session is failed. */
void tci_xfer_abort(tci_xfer *x, tci_eipd_status status);
void tci_xfer_done(tci_xfer *x);
/* Loop thread: tell the caller. */
void tci_xfer_fail(tci_xfer *x, const tc_err *err);
void tci_xfer_tell(tci_xfer *x, bool *flag);
void tci_xfer_deliver(tci_xfer *x, tci_block *b);
/* A data frame of this transfer; b is taken over. */
void tci_xfer_frame_own(tci_xfer *x, const tci_eipd *frame, tci_block *b);
void tci_xfer_link(tci_xfer *x);
void tci_xfer_unlink(tci_xfer *x); /* and remember the handle as ended */
bool tci_sess_has_ended_handle(const tci_sess *s, tc_str handle);
/* The error a RESET stands for. */
int tci_xfer_reset_error(tci_eipd_status status, tc_err *err);

/* ---- devices and sessions ---- */

struct tc_device {
    atomic_uint refs;
    tc_runtime *rt;
    tci_conn *conn;
    tc_result *held; /* owns what info points to */
    tc_device_info info;
    tc_str initialized, initialized_id; /* the answer to initialize, and the id in it */
    int64_t response_grace_ms;
    tc_str expected_device_id;
    void (*on_end)(void *arg);
    void *on_end_arg;
};

struct tc_session {
    tc_device *device;
    tci_sess *sess;
    tc_result *held;
    tc_session_info info;
};

/* A device around a connection, not initialized yet; one reference, the caller's. The connection is
 * taken over, also on failure. */
int tci_device_new_own(tc_runtime *rt, tci_conn *c, const tc_device_options *options,
                       tc_device **ret_device, tc_err *err) TC_CHECKED;
/* Initialize it without waiting: begin, and end when done was posted (or fails at once). The device
 * may be used after an end that succeeded. A begin that failed needs no end. */
typedef struct tci_device_start tci_device_start;
int tci_device_start_begin(tc_device *d, tci_post *done, tci_device_start **ret_start,
                           tc_err *err) TC_CHECKED;
int tci_device_start_end_own(tci_device_start *s, tc_err *err) TC_CHECKED;
/* How long initializing may take. */
int64_t tci_device_initialize_ms(const tc_device_options *options);
/* Loop thread: drop a reference to a device whose connection has stopped. */
void tci_device_drop(tc_device *d);

/* Take over a new connection (also on failure), initialize, and wrap it. */
int tci_device_start_own(tc_runtime *rt, tci_conn *c, tc_ctx *ctx, const tc_device_options *options,
                         tc_device **ret_device, tc_err *err) TC_CHECKED;
/* Our ceilings. */
void tci_conn_set_limits(tci_conn *c, const tc_device_options *options);

/* Framed carrier over descriptors, which are taken over, also on failure. */
int tci_framed_open_own(tc_runtime *rt, int read_fd, int write_fd, const tc_device_options *options,
                        tci_conn **ret_conn, tc_err *err) TC_CHECKED;
int tci_device_options_check(const tc_device_options *o, tc_err *err) TC_CHECKED;
/* What is wrong with a list of offered methods; NULL: nothing. */
const char *tci_methods_fault(const tc_strs *methods, bool session_only);

/* ---- generated structs to public ones ---- */

void tci_to_file_info(const tci_eip_file_info *in, tc_file_info *out);
void tci_to_status(const tci_eip_process_status *in, tc_process_status *out);
void tci_to_output(const tci_eip_output_info *in, tc_output *out);
void tci_to_process(const tci_eip_process_info *in, tc_process *out);
void tci_to_receipt(const tci_eip_operation_receipt *in, tc_receipt *out);
void tci_to_port(const tci_eip_port_observation *in, tc_port *out);
int tci_to_boundary(tci_arena *a, const tci_eip_execution_boundary *in, tc_boundary *out,
                    tc_err *err) TC_CHECKED;
int tci_to_egress(tci_arena *a, const tci_eip_egress_status *in, tc_egress_status *out,
                  tc_err *err) TC_CHECKED;
int tci_to_device_info(tci_arena *a, const tci_eip_device_descriptor *in, tc_device_info *out,
                       tc_err *err) TC_CHECKED;
int tci_to_session_info(tci_arena *a, const tci_eip_session_descriptor *in, tc_session_info *out,
                        tc_err *err) TC_CHECKED;
void tci_to_limits(const tci_eip_limits *in, tc_limits *out);
bool tci_strs_has(const tc_strs *list, tc_str s);

#endif
