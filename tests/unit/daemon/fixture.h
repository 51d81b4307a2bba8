/* SPDX-License-Identifier: Apache-2.0
 *
 * A device on a loop of its own with a carrier that keeps what it is told: requests go in as text, answers
 * come out as parsed JSON, data frames as decoded frames. */
#ifndef TEST_DAEMON_FIXTURE_H
#define TEST_DAEMON_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "daemon/device.h"
#include "daemon/transfer.h"
#include "daemon/transfer_frames.h"

enum { REPLIES_MAX = 1024, FRAMES_MAX = 256 };

typedef struct fixture {
    tci_loop *loop;
    tci_config config;
    tci_device *device;
    tci_carrier carrier;
    tci_arena arena;
    char folder[512];
    char session[64];
    tci_json replies[REPLIES_MAX];
    size_t nreplies;
    size_t nrefused;
    tci_eipd frames[FRAMES_MAX];
    size_t nframes;
    uint64_t next_id;
} fixture;

/* Limits may be changed in f->config.limits between prepare and start. */
void fixture_prepare(fixture *f);
void fixture_start(fixture *f);
void fixture_open_session(fixture *f); /* f->session, ready */
void fixture_stop(fixture *f);

/* Send a request whose params are the printf text; returns its id. */
uint64_t ask(fixture *f, const char *method, const char *params, ...) TC_PRINTF(3, 4);
uint64_t ask_in(fixture *f, const char *session, const char *method, const char *params, ...)
    TC_PRINTF(4, 5);
/* Wait for the answer to id. */
const tci_json *answer(fixture *f, uint64_t id);
bool is_answered(const fixture *f, uint64_t id);
/* Walk: at(v, "result", "receipt", NULL); NULL when it is not there. */
const tci_json *at(const tci_json *v, ...);
tc_str text_at(const tci_json *v, const char *a, const char *b, const char *c);
uint64_t number_at(const tci_json *v, const char *a, const char *b, const char *c);
/* "conflict"; empty for a success. */
tc_str error_type(const tci_json *reply);
#define assert_error(reply, type) assert_str(error_type(reply), type)
#define assert_ok(reply) assert_str(error_type(reply), "")
void assert_str_at(tc_str got, const char *want, const char *file, int line);
#define assert_str(got, want) assert_str_at((got), (want), __FILE__, __LINE__)

/* Turn the loop until cond is true, at most half a minute. */
#define wait_until(f, cond)                                            \
    do {                                                               \
        int64_t until_ns = tci_clock_mono_ns() + INT64_C(30000000000); \
        while (!(cond)) {                                              \
            assert_true(tci_clock_mono_ns() < until_ns);               \
            tci_loop_turn((f)->loop, 100);                             \
        }                                                              \
    } while (0)

void send_data(fixture *f, tci_eipd_kind kind, tci_eipd_status status, tc_str handle,
               uint64_t offset, tc_str payload);

#endif
