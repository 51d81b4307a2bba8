/* SPDX-License-Identifier: Apache-2.0
 *
 * The pi-env connection: a daemon that serves one machine's files and commands over the input and
 * output of a process (a local child, ssh). It is started by the first request that needs it and again
 * by the next one after it was lost; each start is a session with a number of its own.
 *
 * Callers block, any thread; the runtime's loop thread owns the link. A call is storage of its
 * caller's, from begin until wait or drop, and belongs to one thread; several may be in flight from
 * one thread. Nothing is ever sent twice. */
#ifndef TCI_CLIENT_PIENV_H
#define TCI_CLIENT_PIENV_H

#include "base/list.h"
#include "client/client.h"
#include "net/stream.h"
#include "plat/proc.h"
#include "plat/thread.h"
#include "proto/gen/pi_env.h"

/* ---- launching ---- */

/* A daemon that was started. Everything in it goes to the connection.
 *   child     its process, or that of ssh; TCI_CHILD_NONE when there is none of ours
 *   in_fd, out_fd   its standard input and output, from our side; may be the same (a socket)
 *   err_fd    its standard error; -1: none
 *   early     what was read from out_fd already, from tci_mem_alloc; NULL: nothing */
typedef struct tci_pi_child {
    tci_child child;
    int in_fd, out_fd, err_fd;
    char *early;
    size_t early_len;
} tci_pi_child;
#define TCI_PI_CHILD_NONE \
    ((tci_pi_child){.child = {.pid = 0, .pidfd = -1}, .in_fd = -1, .out_fd = -1, .err_fd = -1})

/* How to start one.
 *   launch   start "<daemon> serve --token <token>", wherever it is. May block and take its time
 *            (deploy, ask ssh): it runs on a thread of its own, once at a time. ctx has no deadline; it
 *            is cancelled when nobody waits for the start any more, or at close, and launch then has to
 *            return soon: close waits for it. The 60 s until the daemon must have answered hello begin
 *            when launch returns. Its failure is what all callers that wait get: the code and text of
 *            *err, with the word "spawn_error"
 *   free     of user, once, after the last launch; may be NULL */
typedef struct tci_pi_launcher {
    int (*launch)(void *user, tc_ctx *ctx, tc_str token, tci_pi_child *ret_child, tc_err *err);
    void (*free)(void *user);
    void *user;
} tci_pi_launcher;

typedef enum tci_pi_log_kind {
    TCI_PI_LOG_STDERR, /* the daemon's (and ssh's) standard error, as it is */
    TCI_PI_LOG_NOISE   /* what came before the daemon's first words, unless it was blank */
} tci_pi_log_kind;

/*   on_log      on the loop thread: do not block, do not call the connection. NULL: nothing
 *   start_ms, ping_ms, dead_ms   60 s, 5 s, 30 s; for tests */
typedef struct tci_pi_options {
    void (*on_log)(void *user, tci_pi_log_kind kind, const void *bytes, size_t len);
    void *log_user;
    int64_t start_ms, ping_ms, dead_ms;
    const char *start_hint; /* static: what to do when it ends before it is ready; NULL: nothing */
} tci_pi_options;

typedef struct tci_pi tci_pi;

/* The launcher is taken over, also on failure. Nothing is started. options may be NULL. */
int tci_pi_new_own(tc_runtime *rt, const tci_pi_launcher *launcher, const tci_pi_options *options,
                   tci_pi **ret_pi, tc_err *err) TC_CHECKED;
tci_pi *tci_pi_retain(tci_pi *pi);
/* The last one closes and frees. NULL is fine. No call may be under way with the last one. */
void tci_pi_release(tci_pi *pi);
/* End it for good: calls under way and later ones fail with CLOSED ("connection closed", not lost),
 * the daemon gets the end of its input, a second later SIGTERM, two later SIGKILL; waits until it is
 * gone. Idempotent; not on the loop thread. */
void tci_pi_close(tci_pi *pi);

/* The runtime's one connection for key: the one there is, else what make gives (called without any
 * lock; it only makes it, as tci_pi_new_own does). ret_pi is a reference of the caller's; the
 * runtime holds its own until it closes. */
typedef int (*tci_pi_make_fn)(void *arg, tci_pi **ret_pi, tc_err *err);
int tci_runtime_shared_pi(tc_runtime *rt, tc_str key, tci_pi_make_fn make, void *arg,
                          tci_pi **ret_pi, tc_err *err) TC_CHECKED;

/* A launcher for a program of this machine: options as of tc_device_spawn (copied; runtime_dir,
 * drain_ms and on_stderr have no meaning here), to which "serve --token <token>" is added. The
 * program is looked for when it is started: a missing one is a failed start (START_FAILED). */
int tci_pi_launch_command(tc_runtime *rt, const tc_spawn_options *spawn,
                          tci_pi_launcher *ret_launcher, tc_err *err) TC_CHECKED;

/* ---- sessions ---- */

/* What the daemon said about itself. cwd is empty from one that does not say. separator is one byte
 * at least.
 *   session    number of this session, from 1; never 0
 *   has_ext    the other end is one of ours: the extensions may be used */
typedef struct tci_pi_facts {
    uint64_t session;
    tc_str version, os, arch, home, separator, tmpdir, cwd;
    uint64_t pid;
    bool has_ext;
} tci_pi_facts;

/* The facts of the live session, copied to r; starts one when there is none. ctx ending leaves at once.
 * Errors: CANCELLED, TIMEOUT, CLOSED; those of the start (error, when not NULL, then has its words
 * and whole text, in r):
 *   the launcher's own                       word spawn_error
 *   CONNECT       it ended, or said nothing, before it was ready
 *   INCOMPATIBLE  it speaks another protocol
 *   PROTOCOL      what it says makes no sense
 *   others        hello was refused; the daemon's word, and not is_lost */
typedef struct tci_pi_fault tci_pi_fault;
int tci_pi_get_facts(tci_pi *pi, tc_ctx *ctx, tc_result *r, tci_pi_facts *ret_facts,
                     tci_pi_fault *ret_fault, tc_err *err) TC_CHECKED;
/* Number of the live session, 0 when there is none right now. */
uint64_t tci_pi_session(tci_pi *pi);

/* How a call failed, in the daemon's words or ours; lives in the call's result.
 *   error.code     "ENOENT", "timeout", "spawn_error", ...; empty when it did not fail, and when the
 *                  failure is ours alone (cancelled before it was sent, out of memory)
 *   error.message  whole; what is in a tc_err may be cut
 *   is_lost        the link was lost, or the daemon could not be started */
struct tci_pi_fault {
    tci_pi_error error;
    bool is_lost;
};

/* The code we make of a word: ENOENT NOT_FOUND, EACCES EPERM DENIED, EINVAL INVALID, ... */
tc_code tci_pi_code_of(tc_str word);

/* ---- calls ---- */

/* Something that came while a call is under way, in order.
 *   is_output     exec: payload is output of the stream (never empty)
 *   skipped       with has_skipped: output left out before it
 *   json          the event itself; NULL for output without skipped
 * Lives during the callback only. */
typedef struct tci_pi_note {
    bool is_output, is_stderr;
    bool has_skipped;
    tci_pi_skipped skipped;
    const tci_json *json;
    tc_str payload;
} tci_pi_note;

enum { TCI_PI_PARTS_MAX = 4 };

/* One request. Zeroed but for what the first part says.
 *
 *   op         index of tci_pi_ops; not HELLO
 *   params     tci_pi_<op>_params, borrowed until begin returns
 *   reply      tci_pi_<op>_result to be filled in, or NULL; its strings live in result
 *   result     not NULL: memory of what is handed out, and the evidence (see below). One result may
 *              serve several calls in flight of one thread; its evidence is then that of the call
 *              that was waited for last
 *   parts      payload, not copied: the bytes must stay until wait or drop
 *   session    0: any; otherwise that one, and LOST when it is not the live one (handles: always)
 *   needs_ext  UNSUPPORTED (word "not_supported"), nothing sent, when the other end has no extensions
 *   dst        where the payload of the answer goes, without a further copy, when it is not longer than
 *              dst_cap; NULL: into memory of result. Must stay until wait or drop
 *   on_note    called by wait and poll, on their thread, for each event; a negative code ends the
 *              call (exec is aborted) and is what wait returns. NULL: events are dropped
 *   wake       what is woken when something came; NULL: that of ctx, else an own one. A wait on another
 *              one does not notice that ctx is cancelled before something comes
 *   grace_ms   how long wait waits for the answer to a cancel after ctx ended; 0: 2 s for exec, else 100 ms
 *
 * What bounds the memory of events not yet taken by on_note: at 4 MiB of one call the link is not read
 * until they are below 2 MiB again, which makes the daemon hold back the command; not, however, while
 * anything else waits for the link (another call that is not itself over 4 MiB, watches apart; the
 * tunnel): then they grow, and at 256 MiB the call fails with OUTPUT_LIMIT and its command is
 * aborted. */
typedef struct tci_pi_call {
    int op;
    const void *params;
    void *reply;
    tc_result *result;
    tci_iovec parts[TCI_PI_PARTS_MAX];
    unsigned nparts;
    uint64_t session;
    bool needs_ext;
    void *dst;
    size_t dst_cap;
    int (*on_note)(void *user, const tci_pi_note *note, tc_err *err);
    void *user;
    tci_wake *wake;
    int64_t grace_ms;
    /* Filled in by begin: the session it runs in, its number on the wire (for input). */
    uint64_t ran_in;
    uint32_t id;
    /* Filled in by wait. payload: of the answer, in dst or in result. */
    tc_str payload;
    tci_pi_fault fault;

    /* The connection's own from here on. */
    struct tci_pi_inside {
        tci_pi *pi;
        tc_ctx *ctx;
        tci_wake wake;
        struct tci_pi_pending *pending;
        tc_err note_err;
        bool is_note_failed, is_stopped;
    } in;
} tci_pi_call;

/* Start a session when there is none, and hand the request over. On failure there is nothing to wait
 * for; fault and the evidence (NOT_STARTED for a change) are filled in. ctx (NULL: none) is also that
 * of the later wait. Errors: those of tci_pi_get_facts; CLOSED (is_lost) when the session it is tied to
 * is over; UNSUPPORTED; TOO_BIG for a frame over 16 MiB; INVALID. */
int tci_pi_begin(tci_pi *pi, tc_ctx *ctx, tci_pi_call *call, tc_err *err) TC_CHECKED;

/* Hand out the events that are here, without waiting. True: it is over, and wait will not block. */
bool tci_pi_poll(tci_pi_call *call);

/* Until it is over; the storage is the caller's again afterwards. When ctx ends, what can be
 * cancelled is (exec, scanLines, listFiles, watch), a request of which nothing was sent is taken back,
 * and of others the answer is awaited for grace_ms.
 *
 * Returns 0 with *reply and payload, or
 *   the code of the daemon's word (fault says which);
 *   CANCELLED, TIMEOUT: ctx ended, and the call had no effect or is a reading one, or its command
 *   was aborted (fault then has the word "aborted");
 *   UNKNOWN_OUTCOME: a change that was sent and not answered: link lost (is_lost), or ctx ended;
 *   CLOSED: link lost (is_lost) or connection closed, and nothing was changed;
 *   PROTOCOL: the answer makes no sense;
 *   what on_note returned; OUTPUT_LIMIT.
 * Evidence of a change: DONE when an answer came, whatever it says; NOT_STARTED when provably not all
 * of the request was written (a daemon runs none that it has not got whole); else UNKNOWN. Of others:
 * NONE. error_type is the word, detail the syscall, path and spill_path are as the daemon says. */
int tci_pi_wait(tci_pi_call *call, tc_err *err) TC_CHECKED;

/* Cancel as the daemon does: abort, or (exec, is_kill) kill it and let it answer as a result. The call still
 * has to be waited for. The caller's thread, or another one that knows it is not over yet. */
void tci_pi_cancel(tci_pi_call *call, bool is_kill);

/* Give up: cancel what can be cancelled, forget the rest. Evidence as after a wait that ended with
 * ctx, without a grace. */
void tci_pi_drop(tci_pi_call *call);

/* begin and wait. */
int tci_pi_do(tci_pi *pi, tc_ctx *ctx, tci_pi_call *call, tc_err *err) TC_CHECKED;

/* ---- the tunnel ---- */

/* The EIP device behind the live session, which is started when there is none: one for all callers of
 * a session, and it dies with it. *ret_device is a reference of the caller's. options may be NULL; they
 * are the first caller's.
 * Errors: as tci_pi_get_facts; UNSUPPORTED when the other end has no extensions; those of
 * tc_device_spawn. */
int tci_pi_device(tci_pi *pi, tc_ctx *ctx, const tc_device_options *options, tc_device **ret_device,
                  tc_err *err) TC_CHECKED;

#endif
