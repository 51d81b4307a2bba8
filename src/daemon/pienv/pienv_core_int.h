/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the pi-env server itself share: the server's fields, its frames, its open files.
 * exec and watch need only pienv_int.h. Loop thread, but for what is said to run on a worker. */
#ifndef TCI_DAEMON_PIENV_CORE_INT_H
#define TCI_DAEMON_PIENV_CORE_INT_H

#include "daemon/pienv/pienv_int.h"

#include "ops/stage.h"
#include "plat/dir.h"
#include "plat/file.h"
#include "plat/mounts.h"

enum {
    TCI_PI_SLOTS = 1024,                 /* of the tables by number */
    TCI_PI_LIVE_MAX = 65536,             /* requests at a time */
    TCI_PI_INLINE_PAYLOAD = 4096,        /* copied into the batch of small frames */
    TCI_PI_CONTROL_PAYLOAD = 64 * 1024,  /* results with more go behind the bulk queue */
    TCI_PI_QUEUED_MAX = 64 * 1024 * 1024 /* of either direction: stop reading */
};

/* ---- frames on their way out (pienv_reply.c fills, pienv.c writes) ---- */

/* One frame, or in the control queue several small ones; the payload follows bytes. */
typedef struct tci_pi_frame {
    tci_link link;
    tci_buf bytes, payload;
    size_t done; /* bytes written */
    bool is_bulk;
    bool is_sealed; /* nothing may be added */
    tci_pi_delivery *delivery;
} tci_pi_frame;

/* ---- blocks for pieces of files (pienv.c) ---- */

/* A piece of a large file is 128 KiB, and sixteen of them are under way; blocks of that size are kept
 * while they are in use again and again, since fresh memory costs as much as copying it. */
enum { TCI_PI_BLOCK_MIN = 64 * 1024, TCI_PI_BLOCK_BYTES = 144 * 1024, TCI_PI_SPARES = 20 };
/* Room for size bytes; NULL without memory. Loop thread. */
char *tci_pi_block_new(tci_pi_server *s, size_t size);
/* Give it back; size as it was asked for. */
void tci_pi_block_free(tci_pi_server *s, char *block, size_t size);

/* ---- threads for what may wait for ever (pienv_stuck.c) ---- */

typedef struct tci_pi_stuck {
    tci_loop *loop;
    tci_list idle;    /* threads */
    tci_list waiting; /* tasks */
    unsigned nthreads;
    bool is_closed;
    tci_timer trim;
    void (*on_empty)(struct tci_pi_stuck *stuck); /* after close: the last thread has come back */
} tci_pi_stuck;

void tci_pi_stuck_init(tci_pi_stuck *p, tci_loop *loop, void (*on_empty)(tci_pi_stuck *stuck));
/* Run it soon. Without a thread to be had it waits for one; with none at all it runs at once. */
void tci_pi_stuck_submit(tci_pi_stuck *p, tci_pi_task *task);
/* Let idle threads go; those that hang are left alone, and their tasks' done is still called when they
 * come back. Tasks that wait are done without having been run. */
void tci_pi_stuck_close(tci_pi_stuck *p);

/* ---- open files and folders (pienv_handle.c) ---- */

typedef enum tci_pi_handle_kind {
    TCI_PI_HANDLE_READ,
    TCI_PI_HANDLE_WRITE,
    TCI_PI_HANDLE_ATOMIC,
    TCI_PI_HANDLE_DIR
} tci_pi_handle_kind;

typedef struct tci_pi_handle {
    struct tci_pi_handle *next_same; /* of the same slot of the table */
    tci_pi_server *server;
    uint64_t number;
    unsigned refs; /* the table's and those of requests */
    bool in_table;
    bool is_busy;    /* a request has its turn */
    bool is_damaged; /* a chunk failed: nothing more is written, so that there are no gaps */
    bool may_hang;   /* work goes to threads of its own */
    bool in_memory;  /* small work may be done at once */
    tci_pi_handle_kind kind;
    tci_list turns; /* requests that wait */
    tci_file file;
    tci_dir dir;
    tci_dir_reader reader;
    char *reader_buf; /* NULL: not read yet */
    tci_stage stage;
    tci_file_stat stat; /* when it was opened */
    tci_pi_task closing;
    char *path; /* as it was given, NUL-terminated */
    size_t path_len;
} tci_pi_handle;

/* A new handle, not yet in the table but counted. NULL with *ret_os set: EMFILE, ENOMEM. */
tci_pi_handle *tci_pi_handle_new(tci_pi_server *s, tci_pi_handle_kind kind, tc_str path,
                                 int *ret_os);
/* Give it its number; the caller keeps its reference. */
uint64_t tci_pi_handle_enter(tci_pi_handle *h);
void tci_pi_handle_unref(tci_pi_handle *h); /* NULL is fine */
/* Out of the table, as close does; fine when it is out already. */
void tci_pi_handle_leave(tci_pi_handle *h);
/* r->handle becomes the one of that number. false: there is none of these kinds (bits), and r has
 * failed with EBADF. */
bool tci_pi_take_handle(tci_pi_req *r, uint64_t number, unsigned kinds, const char *syscall);
/* Run start when all earlier requests for a turn at r->handle are over. It ends with tci_pi_end_turn,
 * which answers as tci_pi_finish does. */
void tci_pi_take_turn(tci_pi_req *r, tci_pi_handler start);
void tci_pi_end_turn(tci_pi_req *r);
/* Begin with requests for pieces as long as nothing of the bulk queue is left to be written: the one block
 * they then go through stays in the processor's cache, where sixteen take twice the time. */
void tci_pi_read_pieces(tci_pi_server *s);
/* At the end: all leave the table. */
void tci_pi_handles_clear(tci_pi_server *s);

/* ---- facts (pienv_file.c) ---- */

tc_str tci_pi_last_name(tc_str path);
/* Six letters and digits. */
enum { TCI_PI_TEMP_LETTERS = 6 };
#define TCI_PI_TUNNEL_PREFIX "telechird-" /* of its runtime folder; random letters follow */
/* Remove what tunnels of killed daemons left in the folder for temporary files. */
void tci_pi_sweep(tc_str tmpdir);
void tci_pi_random_letters(char out[TCI_PI_TEMP_LETTERS]);
void tci_pi_info_of(const tci_file_stat *st, tc_str name, bool has_ext, tci_pi_info *ret);

/* ---- the tunnel (pienv_tunnel.c) ---- */

void tci_pi_tunnel_frame(tci_pi_server *s, tc_str json, tc_str payload);
/* Close its sessions and everything they started. tci_pi_check_end is called when all is gone. */
void tci_pi_tunnel_stop(tci_pi_server *s);

/* ---- the server ---- */

struct tci_pi_server {
    tci_loop *loop;
    tci_stream *stream; /* NULL after the end */
    tci_pi_options options;

    /* reading */
    char *in;
    size_t in_at, in_len;
    tci_pienv_head head;
    char *body; /* of a large frame, being gathered; NULL: none */
    size_t body_len, body_have;
    uint64_t inbound_bytes; /* of frames whose requests live, but for those that hang */
    int64_t last_byte_ns, last_written_ns;
    bool is_suspect; /* nothing was heard for long, and once more is looked */
    tci_timer tick;

    /* writing */
    tci_list control, bulk; /* frames */
    uint64_t out_bytes, bulk_payload;
    tci_list rooms;
    tci_list pieces; /* requests for pieces of files, not begun */
    tci_later flush;

    char *spares[TCI_PI_SPARES];
    unsigned nspares, least_spares; /* unused since the last tick */

    /* requests */
    tci_list requests, free_requests;
    size_t nrequests, nfree, nparked, njobs; /* parked: on any thread; jobs: on the pool */
    tci_pi_req *by_id[TCI_PI_SLOTS];
    bool has_ext;
    void *exec;
    char *tmpdir;
    tci_mounts mounts;
    tci_pi_stuck stuck;

    tci_pi_handle *by_handle[TCI_PI_SLOTS];
    uint64_t last_handle;
    size_t nhandles, nclosing;

    struct tci_pi_tunnel *tunnel; /* NULL: none */

    /* the end */
    tci_timer limit;
    bool must_end; /* at the end of this turn: whoever calls may be walking through lists */
    bool is_ending, is_ended, is_late, is_write_broken;
    bool is_spoiled; /* something was left to the end of the process */
    tci_pi_end how;
    char message[TC_ERR_MSG_MAX];
};

/* pienv.c: end soon, for the first reason given. */
void tci_pi_end_with(tci_pi_server *s, tci_pi_end how, const char *fmt, ...) TC_PRINTF(3, 4);
/* Is everything gone that the end waits for? Then it ends, and s may be gone. */
void tci_pi_check_end(tci_pi_server *s);
/* Something was queued. */
void tci_pi_want_flush(tci_pi_server *s);

/* pienv_reply.c: frames of no request. Without memory the connection ends. */
void tci_pi_send_plain(tci_pi_server *s, tc_str bytes);
void tci_pi_send_frame(tci_pi_server *s, tci_pi_queue queue, tci_pienv_type type, tc_str json,
                       tci_buf *payload);
void tci_pi_frame_drop(tci_pi_server *s, tci_pi_frame *f, bool was_sent);

/* pienv_dispatch.c: one request or cancel. own: the heap block that json and payload lie in, taken
 * over; NULL: they are borrowed. */
void tci_pi_on_request(tci_pi_server *s, uint32_t id, tc_str json, tc_str payload, char *own);
void tci_pi_on_cancel(tci_pi_server *s, uint32_t id, tc_str json);
void tci_pi_req_free(tci_pi_req *r);
/* Close all requests but those whose work is under way. */
void tci_pi_requests_close(tci_pi_server *s);
/* Every path is on a file system of this machine. */
bool tci_pi_all_local(tci_pi_server *s);

/* handlers */
void tci_pi_on_hello(tci_pi_req *r);
void tci_pi_on_lstat(tci_pi_req *r);
void tci_pi_on_realpath(tci_pi_req *r);
void tci_pi_on_write(tci_pi_req *r);
void tci_pi_on_write_chunk(tci_pi_req *r);
void tci_pi_on_commit(tci_pi_req *r);
void tci_pi_on_truncate(tci_pi_req *r);
void tci_pi_on_fsync(tci_pi_req *r);
void tci_pi_on_syncfs(tci_pi_req *r);
void tci_pi_on_rename(tci_pi_req *r);
void tci_pi_on_mkdir(tci_pi_req *r);
void tci_pi_on_rm(tci_pi_req *r);
void tci_pi_on_mkdtemp(tci_pi_req *r);
void tci_pi_on_open(tci_pi_req *r);
void tci_pi_on_pread(tci_pi_req *r);
void tci_pi_on_fstat(tci_pi_req *r);
void tci_pi_on_scan_lines(tci_pi_req *r);
void tci_pi_on_opendir(tci_pi_req *r);
void tci_pi_on_readdir(tci_pi_req *r);
void tci_pi_on_close(tci_pi_req *r);
void tci_pi_on_list_files(tci_pi_req *r);

#endif
