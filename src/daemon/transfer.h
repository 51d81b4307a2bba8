/* SPDX-License-Identifier: Apache-2.0
 *
 * Readers and writers of file content: their states, deadlines and evidence, without a wire. A front
 * end (data frames in transfer_frames.c, bodies in carrier_http.c) attaches, is told what happens
 * through its vtable, and passes on what its peer does. Content moves on the pool's bulk lane, one
 * block ahead of the wire. Loop thread. */
#ifndef TCI_DAEMON_TRANSFER_H
#define TCI_DAEMON_TRANSFER_H

#include "daemon/session.h"
#include "ops/stage.h"
#include "wire/eipd.h"

typedef enum tci_transfer_state {
    TCI_TRANSFER_OPEN,       /* no front end yet */
    TCI_TRANSFER_ACTIVE,     /* attached, content moves */
    TCI_TRANSFER_ENDED,      /* reader: all was sent; writer: sealed */
    TCI_TRANSFER_COMMITTING, /* writer: commit runs; also after an unknown outcome */
    TCI_TRANSFER_COMMITTED,
    TCI_TRANSFER_RESET /* ended early, by either side */
} tci_transfer_state;

enum { TCI_TRANSFER_WINDOW = 8, TCI_BLOCK_PAYLOAD_MAX = 256 * 1024, TCI_BLOCKS_AHEAD = 3 };

/* One block of a reader: a frame whose payload is filled by a worker. */
typedef struct tci_block {
    tci_out_frame frame;
    char *base; /* start of the allocation's bytes */
    char *payload;
    size_t len;      /* payload bytes filled */
    uint64_t offset; /* position in the stream */
} tci_block;

/* One piece of a writer's input: the payload inside a heap block that goes with it. */
typedef struct tci_chunk {
    tci_link link;
    char *base;
    size_t base_cap;
    tc_str payload;
    uint64_t end; /* stream position after it */
} tci_chunk;

typedef struct tci_transfer tci_transfer;

/* Called once, when the file or stage of a transfer is gone; the caller's memory until then. */
typedef struct tci_release_wait {
    tci_link link;
    void (*on_released)(struct tci_release_wait *w, tci_transfer *t);
} tci_release_wait;

typedef struct tci_front {
    /* Reader: a filled block; give it back with tci_reader_sent. */
    void (*on_block)(tci_transfer *t, tci_block *b);
    /* Reader: the end, after every block was credited. */
    void (*on_end)(tci_transfer *t);
    /* Writer: everything up to t->received is written. Called once per chunk, in order. */
    void (*on_consumed)(tci_transfer *t, tci_chunk *chunk);
    /* Writer: sealed and synced. */
    void (*on_sealed)(tci_transfer *t);
    /* The transfer ended early by our side (status and offset say how). Not called when the front
     * end itself asked for it. */
    void (*on_reset)(tci_transfer *t, tci_eipd_status status, uint64_t offset);
} tci_front;

struct tci_transfer {
    tci_link lru; /* terminal ones, in the session's list */
    tci_session *session;
    tc_str handle;
    char handle_text[TCI_HANDLE_TEXT_MAX];
    char *path; /* writer: the destination as requested */
    bool is_writer;
    bool is_closed; /* reader: its evidence was asked for; it stays as it is */
    bool is_live;   /* counts as active */
    tci_transfer_state state;
    const tci_front *front; /* NULL: none attached */
    void *front_state;
    tci_eipd_status reset_status;
    tci_timer expiry;
    int64_t expires_ns, progress_ns, touched_ms;

    tci_job job; /* at most one runs */
    bool is_working;
    bool wants_release; /* close file or stage as soon as no job runs */
    tci_list release_waits;
    int rc;
    tc_err err;

    /* reader */
    tci_file file;
    uint64_t file_offset, remaining, produced;
    tci_sha256 sha;
    uint8_t digest[TCI_SHA256_BYTES];
    uint64_t credits[TCI_TRANSFER_WINDOW]; /* ends of blocks not credited, oldest first */
    unsigned ncredits;
    unsigned nunsent;   /* blocks with the front end */
    tci_block *filling; /* with the worker */
    tci_list free_blocks;
    size_t payload_max;

    /* writer */
    tci_stage stage;
    tci_list queue;   /* chunks waiting for a job */
    tci_list working; /* chunks in the job */
    size_t nqueued_bytes;
    uint64_t received;  /* written to the stage */
    uint64_t announced; /* accepted from the peer */
    uint64_t max_bytes;
    bool is_end_seen;
    uint8_t staged_digest[TCI_SHA256_BYTES];
    tci_file_info published;
    void (*on_committed)(tci_transfer *t); /* t->rc, t->err, t->published */
    void *commit_user;
};

/* The new transfer takes file or stage over, on failure too. */
int tci_reader_open(tci_session *s, tci_file *file, uint64_t offset, uint64_t length,
                    uint64_t timeout_ms, tci_transfer **ret, tc_err *err) TC_CHECKED;
int tci_writer_open(tci_session *s, tc_str path, tci_stage *stage, uint64_t max_bytes,
                    uint64_t timeout_ms, tci_transfer **ret, tc_err *err) TC_CHECKED;
tci_transfer *tci_transfer_find(const tci_session *s, tc_str handle); /* NULL: none */
tci_instant tci_transfer_expires_at(const tci_transfer *t);

/* Attach: content starts to move. CONFLICT when it is not OPEN. */
int tci_transfer_attach(tci_transfer *t, const tci_front *front, void *front_state,
                        tc_err *err) TC_CHECKED;
/* Reader: the front end is done with a block. */
void tci_reader_sent(tci_transfer *t, tci_block *b);
/* Reader: the peer has everything up to `end`. PROTOCOL when that is no outstanding block's end. */
int tci_reader_credit(tci_transfer *t, uint64_t end, tc_err *err) TC_CHECKED;
/* Writer: one chunk, taken over in any case. PROTOCOL: gap or wrong state; QUOTA. */
int tci_writer_push_own(tci_transfer *t, uint64_t offset, tci_chunk *chunk, tc_err *err) TC_CHECKED;
/* Writer: no more. PROTOCOL when total is not what was announced. */
int tci_writer_end(tci_transfer *t, uint64_t total, tc_err *err) TC_CHECKED;
/* End it now; false when it had ended before. tell_front: call on_reset. */
bool tci_transfer_reset(tci_transfer *t, tci_eipd_status status, uint64_t offset, bool tell_front);
/* Writer, ENDED: compare and publish; on_committed is called later with t->rc. BAD_HANDLE: wrong
 * state. */
int tci_writer_commit(tci_transfer *t, uint64_t nbytes, const uint8_t digest[TCI_SHA256_BYTES],
                      void (*on_committed)(tci_transfer *t), void *user, tc_err *err) TC_CHECKED;
/* A transfer that was reset while a job runs has its stage file until the job ends. */
bool tci_transfer_is_releasing(const tci_transfer *t);
/* Call back when it is gone. Only while it is releasing. */
void tci_transfer_when_released(tci_transfer *t, tci_release_wait *w);
static inline uint64_t tci_transfer_progress(const tci_transfer *t)
{
    return t->is_writer ? t->received : t->produced;
}

/* For the session. */
void tci_transfer_end_all(tci_session *s); /* resets what is not committing */
void tci_transfer_forget_all(tci_session *s);
void tci_transfer_expire(tci_session *s, int64_t before_ms);
bool tci_transfer_evict(tci_session *s);
void tci_transfer_touch(tci_transfer *t);

void tci_chunk_free(tci_chunk *c);

#endif
