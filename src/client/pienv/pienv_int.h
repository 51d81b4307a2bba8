/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside of the pi-env connection. For the files pienv*.c only.
 *
 *   pienv.c         the connection: starting sessions, who waits for them, closing
 *   pienv_call.c    a call from its caller's side
 *   pienv_sess.c    a session on the loop: its life from hello to the end of its process
 *   pienv_table.c   calls in flight on the loop: started, answered, cancelled, ended
 *   pienv_in.c      frames in          pienv_out.c      frames out
 *   pienv_text.c    what people are told when a start fails
 *   pienv_tunnel.c  the EIP device behind it      pienv_command.c  a launcher for local programs
 *
 * Fields are the loop thread's unless they are said to be under the lock (tci_pi.lock). */
#ifndef TCI_CLIENT_PIENV_INT_H
#define TCI_CLIENT_PIENV_INT_H

#include "client/client_int.h"
#include "client/pienv/pienv.h"
#include "wire/pienv.h"

typedef struct tci_pi_sess tci_pi_sess;
typedef struct tci_pi_tunnel tci_pi_tunnel;
typedef struct tci_pi_pending tci_pi_pending;

/* ---- frames ---- */

/* One frame that came. Lies at the front of held's text; freed with it. */
typedef struct tci_pi_in {
    tci_link link;
    tci_held *held;
    tci_pienv_head head;
    bool is_output, is_stderr; /* an event with nothing but output; json is not filled in then */
    tci_json json;
    char *text; /* JSON, then the payload unless it went elsewhere */
} tci_pi_in;

void tci_pi_in_free(tci_pi_in *in);
void tci_pi_in_free_all(tci_list *list);

/* One frame on its way out. done is called once: written, or dropped with the session. */
typedef struct tci_pi_out {
    tci_link link;
    tci_iovec parts[TCI_PI_PARTS_MAX + 2];
    unsigned nparts;
    size_t nbytes, nsent;
    bool is_bulk;
    void (*done)(struct tci_pi_out *out, bool is_written);
} tci_pi_out;

void tci_pi_out_init(tci_pi_sess *s);
void tci_pi_put(tci_pi_sess *s, tci_pi_out *out);
/* The frame will not be waited for any more, and its parts are about to go: taken back when nothing
 * of it was sent (true), else its rest is copied. Fine when it is not queued. done is not called. */
bool tci_pi_out_forget(tci_pi_sess *s, tci_pi_out *out);
/* A small frame of its own. Failure ends the session. */
void tci_pi_put_small(tci_pi_sess *s, tci_pienv_type type, uint32_t id, tc_str json);
void tci_pi_out_drop_all(tci_pi_sess *s);
void tci_pi_write_out(tci_pi_sess *s);
/* Tell the stream what to report: writing when there is output, reading unless it is paused. */
void tci_pi_update_want(tci_pi_sess *s);

/* ---- calls in flight ---- */

enum { TCI_PI_NOTES_HIGH = 4 << 20, TCI_PI_NOTES_LOW = 2 << 20, TCI_PI_NOTES_MAX = 256 << 20 };

typedef enum tci_pi_cancel_kind { TCI_PI_NO_CANCEL, TCI_PI_ABORT, TCI_PI_KILL } tci_pi_cancel_kind;

struct tci_pi_pending {
    tci_link link; /* a bucket of the session */
    tci_post start, cancel, stop, resume;
    tci_pi *pi;
    uint64_t session;
    uint32_t id;
    int op;
    tci_pi_sess *sess; /* NULL: not in a table */
    tci_buf json;
    char head[TCI_PIENV_HEAD_BYTES];
    tci_pi_out out;
    bool is_written;
    bool is_over; /* has too many notes */
    tci_pi_cancel_kind cancel_sent;
    void *dst; /* NULL: none, or given back */
    size_t dst_cap;
    tc_err stop_err;
    /* under the lock */
    unsigned refs;   /* the caller, the table, each post under way */
    tci_wake *wake;  /* NULL: the caller has left */
    bool is_awaited; /* somebody may be asleep on it: until then there is nobody to wake */
    bool has_notes_wanted;
    bool is_cancel_posted, is_stop_posted, is_resume_posted;
    tci_pi_cancel_kind cancel_wanted;
    tci_list notes; /* of tci_pi_in */
    size_t notes_bytes;
    bool is_done, is_lost, is_unsent, is_in_dst;
    int code;
    tc_err err;
    tci_pi_in *answer;
};

/* Facts of operations that only a client needs. */
typedef struct tci_pi_trait {
    bool is_change;
    bool can_cancel;
    bool is_bulk;  /* kept in order behind others of its kind, and behind small requests */
    bool is_watch; /* lasts; nothing is held up for it */
} tci_pi_trait;
const tci_pi_trait *tci_pi_trait_of(int op);

void tci_pi_pending_release(tci_pi_pending *p); /* any thread, without the lock */
void tci_pi_pending_start(tci_post *post);
void tci_pi_pending_cancel(tci_post *post);
void tci_pi_pending_stop(tci_post *post);
void tci_pi_pending_resume(tci_post *post);
tci_pi_pending *tci_pi_pending_find(tci_pi_sess *s, uint32_t id);
/* It ended with an answer (taken over), or with err. */
void tci_pi_answer_own(tci_pi_pending *p, tci_pi_in *in, bool is_in_dst);
void tci_pi_end(tci_pi_pending *p, const tc_err *err, bool is_lost, bool is_unsent);
void tci_pi_note_own(tci_pi_pending *p, tci_pi_in *in);
void tci_pi_end_all(tci_pi_sess *s, const tc_err *err, bool is_lost);
/* Everybody who waits for this link has been given too much already. */
bool tci_pi_is_paused(const tci_pi_sess *s);

/* ---- why a start failed ---- */

/* Counted; handed to all who wait. Strings are its own. */
typedef struct tci_pi_failure {
    atomic_uint refs;
    tci_arena arena;
    tc_err err;
    tci_pi_fault fault;
} tci_pi_failure;

void tci_pi_failure_release(tci_pi_failure *f); /* NULL is fine */

/* Text for people: valid UTF-8 without escape sequences and control characters but newline, without
 * blanks at the end of lines and blank lines; the last 20 lines of the last 2000 characters, or
 * (is_head) the first. */
void tci_pi_clean(tc_str raw, bool is_head, tci_buf *out);
/* What is known after err stopped the start of s: the last words of its standard error, and what
 * it said before the sync line, or what it refused hello with. NULL: no memory. */
tci_pi_failure *tci_pi_failure_of_start(tci_pi_sess *s, const tc_err *err);
/* The launcher failed, or an error of ours. */
tci_pi_failure *tci_pi_failure_new(const tc_err *err, tc_str word, bool is_lost);

/* ---- sessions ---- */

enum {
    TCI_PI_BUCKETS = 64,
    TCI_PI_READ_BYTES = 64 * 1024,
    TCI_PI_TAIL_BYTES = 16 * 1024,
    TCI_PI_SAMPLE_BYTES = 4 * 1024
};

typedef enum tci_pi_phase {
    TCI_PI_SYNC,
    TCI_PI_GREETING,
    TCI_PI_READY,
    TCI_PI_ENDING
} tci_pi_phase;

struct tci_pi_sess {
    tci_pi *pi;
    tci_link link; /* pi->sessions */
    uint64_t number;
    tci_pi_phase phase;
    tci_stream *stream; /* NULL: closed */
    bool is_eof, is_write_broken;
    /* the process */
    tci_child child;
    bool has_child, has_ended;
    tci_exit exit;
    tci_watch exit_watch;
    int err_fd;
    tci_watch err_watch;
    tci_timer end_timer; /* of the process, and of waiting for its last words */
    bool is_term_sent;
    /* in */
    tci_pienv_sync sync;
    size_t nnoise;
    bool has_noise; /* some of it was not blank */
    char *buf;      /* unread input: [at, len) */
    size_t at, len;
    bool is_in_body;
    tci_pienv_head head; /* of the frame whose body is being read */
    tci_pi_in *part;     /* NULL: the frame is skipped */
    size_t part_got;
    char *payload_to; /* NULL: skipped */
    tci_pi_pending *dst_owner;
    int64_t last_byte_ns;
    bool is_suspect; /* it was silent for too long when last looked at */
    bool is_paused;
    /* out */
    tci_list control, bulk; /* of tci_pi_out */
    tci_pi_out *current;    /* partly written */
    unsigned ncontrol_in_a_row;
    tci_later flush;
    tci_later end; /* the failure found while reading or writing */
    tc_err end_err;
    /* calls */
    tci_list buckets[TCI_PI_BUCKETS];
    size_t npending, nover;
    tci_timer tick, start_timer;
    uint32_t hello_id;
    tci_pi_in *refusal; /* what hello was answered with */
    bool is_ping_unsent;
    tci_pi_out ping;
    char ping_bytes[TCI_PIENV_HEAD_BYTES + 2];
    tci_pi_tunnel *tunnel;
    bool is_tunnel_closing; /* we closed it, and wait for the other end to */
    /* for people */
    char *tail; /* the last of standard error, tail_len bytes */
    size_t tail_len;
    char sample[TCI_PI_SAMPLE_BYTES]; /* the first of the noise, or of what is no frame */
    size_t sample_len;
    bool is_sample_corrupt; /* it is what came instead of a frame */
};

/* Take over a launched daemon (on failure it is still the caller's): sends hello. */
int tci_pi_sess_open(tci_pi *pi, const tci_pi_child *child, tc_str token, tc_err *err) TC_CHECKED;
/* End at the end of the turn, from inside of reading and writing. */
void tci_pi_sess_end_with(tci_pi_sess *s, const tc_err *err);
/* End now: everything under way fails. */
void tci_pi_sess_end(tci_pi_sess *s, const tc_err *err, bool is_lost);
/* The answer to hello; taken over. */
void tci_pi_sess_greeted_own(tci_pi_sess *s, tci_pi_in *in);
void tci_pi_sess_on_eof(tci_pi_sess *s);
void tci_pi_sess_on_unwritable(tci_pi_sess *s);
void tci_pi_sess_noise(tci_pi_sess *s, tc_str bytes);
/* The stream's callback. */
void tci_pi_on_ready(tci_stream *stream, unsigned events);
/* Bytes that were read before the stream was ours. */
int tci_pi_feed(tci_pi_sess *s, tc_str bytes, tc_err *err) TC_CHECKED;

/* ---- the tunnel, from the session's side ---- */

void tci_pi_tunnel_frame_own(tci_pi_sess *s, tci_pi_in *in);
void tci_pi_tunnel_lost(tci_pi_sess *s);
bool tci_pi_tunnel_is_busy(const tci_pi_sess *s);

/* ---- the connection ---- */

typedef enum tci_pi_state { TCI_PI_IDLE, TCI_PI_STARTING, TCI_PI_LIVE } tci_pi_state;

struct tci_pi {
    atomic_uint refs;
    tc_runtime *rt;
    tci_pi_launcher launcher;
    tci_pi_options options;
    tci_ender ender;
    tci_mutex lock;
    /* under the lock */
    tci_pi_state state;
    bool is_closed;
    uint64_t nsessions; /* made so far */
    tci_pi_facts facts; /* LIVE; strings in facts_arena */
    tci_arena facts_arena;
    uint32_t last_id;
    unsigned nopen; /* sessions that are not gone yet */
    tci_list waiters;
    uint64_t attempt;
    bool is_launching, is_start_cancelled;
    tc_ctx *start_ctx;   /* of the launcher; lives as long as starter */
    tci_thread *starter; /* the last one, running or not joined yet */
    tc_device *device;
    uint64_t device_session;
    bool is_device_starting;
    /* loop */
    tci_pi_sess *sess; /* the one that is starting or live */
    tci_list sessions; /* all that are not gone */
};

/* The live session, started when there is none. session 0: any; else that one or CLOSED. ret_failure:
 * set when the start failed, the caller's to release. */
int tci_pi_want_session(tci_pi *pi, tc_ctx *ctx, uint64_t session, tci_pi_failure **ret_failure,
                        tc_err *err) TC_CHECKED;
/* Wait for a change of anything under the lock, which is held, let go, and held again. */
int tci_pi_await(tci_pi *pi, tc_ctx *ctx, tc_err *err) TC_CHECKED;
void tci_pi_wake_all(tci_pi *pi); /* the lock is held */
/* The start that is under way failed: tell those who wait. Takes a reference to f (NULL: no
 * memory). */
void tci_pi_start_failed_own(tci_pi *pi, tci_pi_failure *f);
/* Fill in fault (may be NULL) and err from a failed start. */
int tci_pi_tell_failure(tci_pi_failure *f, tc_result *r, tci_pi_fault *fault, tc_err *err);

#endif
