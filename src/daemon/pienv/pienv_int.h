/* SPDX-License-Identifier: Apache-2.0
 *
 * The inside of the pi-env server: one connection, its live requests, and how they are answered. For
 * the files pienv*.c only. Loop thread, but for what is said to run on a worker. Source:
 * protocol/pi_env/ops.json.
 *
 *   pienv.c          the carrier: frames in and out, liveness, the end
 *   pienv_dispatch.c requests by id, the table of operations, cancels
 *   pienv_reply.c    results, errors and events as frames
 *   pienv_file.c     path operations        pienv_handle.c   operations on open files
 *   pienv_exec.c     exec, input            pienv_watch.c    watch
 *   pienv_tunnel.c   an EIP device behind the same connection */
#ifndef TCI_DAEMON_PIENV_INT_H
#define TCI_DAEMON_PIENV_INT_H

#include "base/arena.h"
#include "base/list.h"
#include "daemon/pienv/pienv.h"
#include "loop/loop.h"
#include "plat/clock.h"
#include "proto/gen/pi_env.h"
#include "wire/pienv.h"

typedef struct tci_pi_server tci_pi_server;
typedef struct tci_pi_req tci_pi_req;

/* ---- a request ---- */

/* Why a request failed. Zeroed but for what is known; the strings are borrowed for the call, and
 * need not be UTF-8. */
typedef struct tci_pi_failure {
    int os;              /* errno: gives the code when code is NULL */
    const char *code;    /* "timeout", "NOT_REGULAR", ...; NULL: from os */
    const char *syscall; /* NULL: none */
    tc_str path;         /* ptr NULL: none */
    tc_str dest;         /* of calls with two paths; only in the message */
    tc_str message; /* empty: made of the above: "ENOENT: no such file or directory, open '/x'" */
    tc_str spill_path; /* empty: none */
} tci_pi_failure;

/* One piece of work for a thread of its own, see pienv_stuck.c. run on that thread, done on the loop. */
typedef struct tci_pi_task {
    tci_link link;
    void (*run)(struct tci_pi_task *task);
    void (*done)(struct tci_pi_task *task);
} tci_pi_task;

/* A handler starts on the loop thread and sees to it that exactly one of tci_pi_reply and
 * tci_pi_fail is called, at once or later. The request is gone after that. A request is registered
 * before its handler runs, so a cancel that comes right behind it finds it. */
typedef void (*tci_pi_handler)(tci_pi_req *r);

struct tci_pi_req {
    tci_link link;         /* the server's live requests, oldest first */
    tci_pi_req *next_same; /* of the same slot in the table by id */
    tci_pi_server *server;
    uint32_t id;
    bool is_bulk;     /* its answer goes behind the bulk queue (exec) */
    bool is_parked;   /* its work is on another thread: freed when that is done */
    bool is_closed;   /* the connection is over: not to be answered */
    tci_arena arena;  /* gone with the request */
    char *own;        /* the frame, when it has a heap block to itself; NULL: copied to the arena */
    size_t own_len;   /* of own */
    size_t own_bytes; /* counted as inbound while the request lives */
    const void *params; /* tci_pi_<op>_params */
    tc_str payload;     /* valid as long as the request */
    void *state;        /* the handler's own */
    tci_cancel cancel;  /* for work on another thread; set by whoever's on_cancel wants it */

    /* A cancel came: {} or {"mode":"kill"}. May be called several times. NULL: no effect. */
    void (*on_cancel)(tci_pi_req *r, bool is_kill);
    /* The connection is over and nothing may be sent any more (a reply is dropped): give back all
     * that is held. Called once, after tci_pi_kill_all; the request is freed by the server after it.
     * NULL: there is nothing to give back. */
    void (*on_close)(tci_pi_req *r);

    /* Work on another thread, see tci_pi_work. */
    tci_job job;
    struct tci_pi_task task;
    void (*work)(tci_pi_req *r);
    tci_pi_handler after;
    tci_pi_failure failure; /* code or os set: the work failed; strings live in the arena */
    const tci_type *result_type;
    void *result;
    tci_buf out; /* the payload of the result */

    struct tci_pi_handle *handle; /* counted; of operations on open files */
    tci_link turn;        /* waits for its turn at the handle, or for the output (a piece) */
    tci_pi_handler start; /* what to do when it comes */
};

/* Answer with a record and finish. type NULL: "{}". payload: contents are taken over, also when the
 * answer cannot be sent; NULL: none. An answer that would be longer than a frame may be becomes an
 * error. */
void tci_pi_reply(tci_pi_req *r, const tci_type *type, const void *result, tci_buf *payload);
/* Answer with an error and finish. */
void tci_pi_fail(tci_pi_req *r, const tci_pi_failure *f);
void tci_pi_fail_os(tci_pi_req *r, int os, const char *syscall, tc_str path);
/* With a code that is no errno and a text. */
void tci_pi_fail_code(tci_pi_req *r, const char *code, const char *fmt, ...) TC_PRINTF(3, 4);
/* What the table of errors makes of an errno: "ENOENT", "UNKNOWN". */
const char *tci_pi_errno_name(int os);
/* Its text, in lower case: "no such file or directory"; NULL when the table has none. */
const char *tci_pi_errno_text(int os);
/* What a failed call of plat or ops is: by the system's number, else by the code. syscall and path are
 * kept, not copied; a message is made in a where the table has none. Any thread. */
void tci_pi_failure_of(const tc_err *err, const char *syscall, tc_str path, tci_arena *a,
                       tci_pi_failure *ret);
/* The error object of f, as in an error frame or in a directory entry. */
void tci_pi_put_failure(tci_buf *out, const tci_pi_failure *f);
/* A JSON string of bytes that may not be UTF-8: bad sequences become U+FFFD. */
void tci_pi_put_text(tci_buf *out, tc_str bytes);
/* The same text without quotes. */
void tci_pi_put_lossy(tci_buf *out, tc_str bytes);

/* ---- events ---- */

typedef enum tci_pi_queue {
    TCI_PI_CONTROL, /* goes first, always */
    TCI_PI_BULK
} tci_pi_queue;

/* Told when a frame has left: zeroed storage of the caller with on_written set; it must stay until
 * then, or until tci_pi_delivery_forget. */
typedef struct tci_pi_delivery {
    /* The last byte of it was handed to the system, or (was_sent false) it was dropped. */
    void (*on_written)(struct tci_pi_delivery *d, bool was_sent);
    struct tci_pi_frame *frame; /* not NULL: still unsent */
} tci_pi_delivery;

static inline bool tci_pi_delivery_is_unsent(const tci_pi_delivery *d)
{
    return d->frame != NULL;
}
void tci_pi_delivery_forget(tci_pi_delivery *d); /* fine when nothing is unsent */

/* Send an event of a live request.
 *
 *   json      the whole object, borrowed
 *   payload   contents are taken over; NULL: none
 *   delivery  NULL: nobody wants to know
 *
 * Errors: TOO_BIG when the frame would be too long (the caller says so in its own way), NO_MEMORY:
 * nothing was queued then and on_written is not called. */
int tci_pi_event(tci_pi_req *r, tci_pi_queue queue, tc_str json, tci_buf *payload,
                 tci_pi_delivery *delivery, tc_err *err) TC_CHECKED;

/* ---- back-pressure of commands without a window ---- */

enum { TCI_PI_BULK_MAX = 4 * 1024 * 1024 };

/* More than TCI_PI_BULK_MAX bytes of bulk payload are unsent: do not read from pipes. */
bool tci_pi_bulk_is_full(const tci_pi_server *s);
/* Called once, when there is room again. Zeroed storage with cb set. */
typedef struct tci_pi_room {
    tci_link link;
    void (*cb)(struct tci_pi_room *room);
} tci_pi_room;
void tci_pi_bulk_wait(tci_pi_server *s, tci_pi_room *room); /* idempotent */
void tci_pi_bulk_forget(tci_pi_room *room);                 /* fine when not waiting */

/* ---- work on other threads ---- */

/* Where work goes. QUICK and BULK are the loop's pool, for what a local disk does; STUCK are threads
 * of their own (at most TCI_PI_STUCK_MAX at a time, further ones wait), for what may wait for ever:
 * FIFOs, devices, other machines' file systems. */
typedef enum tci_pi_lane { TCI_PI_QUICK, TCI_PI_BULKY, TCI_PI_STUCK } tci_pi_lane;
enum { TCI_PI_STUCK_MAX = 256 };

/* Run work there, then after on the loop (NULL: tci_pi_finish). work may touch params, payload, arena, state, cancel, failure, result and out of its request
 * and nothing of the server. Skipped is only after, when the connection is over. */
void tci_pi_work(tci_pi_req *r, tci_pi_lane lane, void (*work)(tci_pi_req *r),
                 tci_pi_handler after);
/* Answer from failure, or from result_type, result and out. */
void tci_pi_finish(tci_pi_req *r);
/* on_cancel of requests whose work looks at cancel: an aborting cancel sets it, a kill does not. */
void tci_pi_abort_work(tci_pi_req *r, bool is_kill);

/* ---- the server, as the other files may use it ---- */

tci_loop *tci_pi_loop(const tci_pi_server *s);
/* The other end is ours too: hello agreed on the extensions. */
bool tci_pi_has_ext(const tci_pi_server *s);
/* $TMPDIR and its fallbacks, as hello says it; valid as long as the server. */
tc_str tci_pi_tmpdir(const tci_pi_server *s);
/* A live request, or NULL. */
tci_pi_req *tci_pi_req_find(const tci_pi_server *s, uint32_t id);
/* A slot for what exec keeps per server; NULL at the start. */
void **tci_pi_exec_slot(tci_pi_server *s);

/* ---- by others ---- */

/* pienv_exec.c */
void tci_pi_on_exec(tci_pi_req *r);
void tci_pi_on_input(tci_pi_req *r);
/* SIGKILL to the group of every command that has not settled. On every way out, before anything
 * else; may be called again. Does not wait, frees nothing. */
void tci_pi_kill_all(tci_pi_server *s);
/* Nothing of a command is left to be waited for (after on_close a killed one may still be dying;
 * tci_pi_check_end is called when the last is gone). */
bool tci_pi_exec_is_idle(const tci_pi_server *s);
/* Give back what exec keeps per server, with the server itself; it must be idle. */
void tci_pi_exec_free(tci_pi_server *s);
struct tci_ptree_host;
/* What holds the trees of all commands of this process; made when first asked for. A device behind the
 * tunnel must share it (tci_device.trees): two would reap each other's children. */
int tci_pi_exec_trees(tci_pi_server *s, struct tci_ptree_host **ret, tc_err *err) TC_CHECKED;
/* pienv_watch.c */
void tci_pi_on_watch(tci_pi_req *r);

#endif
