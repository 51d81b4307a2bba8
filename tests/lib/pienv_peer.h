/* SPDX-License-Identifier: Apache-2.0
 *
 * The other end of a pi-env server in tests: either a server in this process on a socket pair, whose
 * loop is turned while the peer waits, or a program on two pipes. Whatever goes wrong, or takes more than
 * twenty seconds, fails the test. One thread. */
#ifndef PIENV_PEER_H
#define PIENV_PEER_H

#include "daemon/pienv/pienv.h"
#include "plat/proc.h"
#include "wire/pienv.h"

#include "base/buf.h"
#include "base/json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

typedef struct pi_frame {
    uint8_t type;
    uint32_t id;
    char *json; /* NUL-terminated */
    tc_str payload;
    tci_json value; /* json, parsed */
    struct pi_frame *next;
    tci_arena arena; /* holds all of it */
} pi_frame;

typedef struct pi_peer {
    int fd_in, fd_out; /* what the peer reads and writes; equal in process; -1: closed */
    tci_buf in;
    tci_pienv_sync sync;
    pi_frame *frames; /* received, not yet asked for, oldest first */
    uint32_t last_id;
    int64_t ping_ns; /* when to say next that we live */
    bool saw_end;    /* of what the server sends */
    /* in process */
    tci_loop *loop;
    tci_pi_server *server;
    bool has_ended, was_clean;
    tci_pi_end how;
    char message[TC_ERR_MSG_MAX];
    /* a program */
    tci_child child;
} pi_peer;

/* Begin, and say hello (tc_ext 1 when ext is set). options may be NULL; token, on_end and user of it
 * are set here. */
void pi_peer_open(pi_peer *p, bool ext, const tci_pi_options *options);
/* Without hello. */
void pi_peer_open_bare(pi_peer *p, const tci_pi_options *options);
/* `program serve --token ...` as a child, with hello. */
void pi_peer_spawn(pi_peer *p, const char *program, bool ext);

/* Send a request, return its number. The text is a JSON object (printf). */
uint32_t pi_peer_send(pi_peer *p, const char *fmt, ...) TC_PRINTF(2, 3);
uint32_t pi_peer_send_with(pi_peer *p, tc_str payload, const char *fmt, ...) TC_PRINTF(3, 4);
void pi_peer_cancel(pi_peer *p, uint32_t id, bool is_kill);
void pi_peer_send_frame(pi_peer *p, uint8_t type, uint32_t id, tc_str json, tc_str payload);
void pi_peer_send_raw(pi_peer *p, const void *bytes, size_t len);

/* The next frame of that request, of any type. The caller frees it. */
pi_frame *pi_peer_next(pi_peer *p, uint32_t id);
/* The next frame of that type (tunnel, ping). */
pi_frame *pi_peer_next_of(pi_peer *p, uint8_t type);
/* The answer of that request; events before it are dropped. */
pi_frame *pi_peer_answer(pi_peer *p, uint32_t id);
/* Is there a frame of that request already? Turns the loop once, waits for nothing. */
bool pi_peer_has(pi_peer *p, uint32_t id);
void pi_frame_free(pi_frame *f); /* NULL is fine */

/* Send and wait: the result, whose value is returned; an error fails the test. */
pi_frame *pi_peer_call(pi_peer *p, const char *fmt, ...) TC_PRINTF(2, 3);
/* Send and wait: an error of that code. */
void pi_peer_call_fails(pi_peer *p, const char *code, const char *fmt, ...) TC_PRINTF(3, 4);
void pi_frame_is_error(const pi_frame *f, const char *code);

/* Members of a frame's JSON; missing ones fail the test. */
tc_str pi_frame_str(const pi_frame *f, const char *key);
uint64_t pi_frame_u64(const pi_frame *f, const char *key);
bool pi_frame_bool(const pi_frame *f, const char *key);
const tci_json *pi_frame_get(const pi_frame *f, const char *key); /* NULL when missing */

/* Let the server do what it has to do for one turn (in process). */
void pi_peer_turn(pi_peer *p, int64_t max_wait_ms);
/* Close the sending side and wait for the end. Returns how it ended, or the exit status of a program
 * (128 and the signal when it was killed). */
int pi_peer_finish(pi_peer *p);
/* Wait for an end that came from elsewhere. */
int pi_peer_wait_end(pi_peer *p);
/* Give everything back, finishing first if needed. */
void pi_peer_close(pi_peer *p);

#endif
