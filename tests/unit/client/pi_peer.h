/* SPDX-License-Identifier: Apache-2.0
 *
 * A pi-env daemon by script, at the other end of a socket pair. Each launch runs the script once, on a
 * thread of its own; what it is disappointed by fails the test when the rig is closed. */
#ifndef TC_TEST_PI_PEER_H
#define TC_TEST_PI_PEER_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/num.h"
#include "client/pienv/pienv_int.h"
#include "plat/clock.h"
#include "plat/fd.h"
#include "plat/socket.h"
#include "wire/pienv.h"
#include <stdio.h>
#include <stdlib.h>

typedef struct pi_rig pi_rig;

typedef struct pi_peer {
    tci_link link;
    pi_rig *rig;
    tci_thread *thread;
    int fd;
    unsigned launch; /* from 1 */
    char token[40];
    /* the last frame */
    tci_pienv_head head;
    tci_arena arena;
    tci_json json;
    tc_str payload;
    char *body;
    size_t cut_after; /* so many bytes are said, then the link ends; 0: no cut */
    size_t nsaid;
} pi_peer;

struct pi_rig {
    tc_runtime *rt;
    tci_pi *pi;
    tc_result *r;
    tc_err err;
    void (*play)(pi_peer *p);
    void *arg;
    int (*hook)(pi_rig *g, tc_ctx *ctx, tc_err *err); /* before each launch; may fail it */
    atomic_uint nheard; /* requests that the scripts have read, hello too */
    tci_wake news;
    tci_mutex lock;
    unsigned nlaunches;
    tci_list peers;
    char why[512];
    tci_buf log, noise;
    size_t cut_after;
};

/* ---- in scripts ---- */

bool pi_fail(pi_peer *p, const char *fmt, ...) TC_PRINTF(2, 3);
void pi_raw(pi_peer *p, const void *bytes, size_t len);
void pi_cut(pi_peer *p);
void pi_sync(pi_peer *p);
/* The next frame that is no ping. false: the link ended. */
bool pi_next(pi_peer *p);
/* The next frame must be a request for op. */
bool pi_expect(pi_peer *p, const char *op);
/* The next frame must be a cancel of id; kill or not. */
bool pi_expect_cancel(pi_peer *p, uint32_t id, bool is_kill);
void pi_frame(pi_peer *p, unsigned type, uint32_t id, const char *json, const void *payload,
              size_t len);
void pi_result(pi_peer *p, const char *json);
void pi_error(pi_peer *p, const char *code, const char *message, const char *extra);
/* Sync line, hello and its answer, with or without the extensions. */
bool pi_greet(pi_peer *p, bool has_ext);
tc_str pi_text(const pi_peer *p, const char *member);
uint64_t pi_number(const pi_peer *p, const char *member);
/* Read until the other end closes. */
void pi_drain(pi_peer *p);
/* Count one for pi_await, as each request that is read does. */
void pi_heard(pi_peer *p);

/* ---- in tests ---- */

void pi_rig_open(pi_rig *g, void (*play)(pi_peer *p), const tci_pi_options *options);
void pi_rig_open_with(pi_rig *g, const tci_pi_launcher *launcher, const tci_pi_options *options);
/* A connection to `sh -c script serve --token <token>`: the token is $2. GREETING in front of the
 * script makes a command of it that says the sync line and answers hello. */
void pi_rig_open_script(pi_rig *g, const char *script, const tci_pi_options *options);
#define GREETING                                                                            \
    "greet() { printf 'PI-ENV %s\\n' \"$2\";"                                               \
    " j='{\"protocol\":1,\"version\":\"1\",\"os\":\"linux\",\"arch\":\"x\",\"home\":\"/\"," \
    "\"separator\":\"/\",\"tmpdir\":\"/tmp\",\"driveCwds\":{},\"pid\":1}';"                 \
    " printf '\\000\\000\\000\\177\\002\\000\\000\\000\\001\\000\\000\\000\\166%s' \"$j\"; }; "
void pi_rig_close(pi_rig *g);
/* The connection is closed and its scripts are over, the rest stays. */
void pi_rig_end_peers(pi_rig *g);

/* A call of op with params. */
tci_pi_call pi_call(pi_rig *g, int op, const void *params, void *reply);
int pi_lstat(pi_rig *g, tc_ctx *ctx, const char *path, tci_pi_info *ret_info);
const char *pi_log(pi_rig *g, tci_buf *which);
/* Wait until n requests have been heard. */
void pi_await(pi_rig *g, unsigned n);

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
#define assert_str(s, text)                                                           \
    do {                                                                              \
        tc_str assert_s = (s);                                                        \
        if (!tci_str_eq(assert_s, tci_str(text)))                                     \
            fail_msg("%s: '%.*s' instead of '%s'", #s, TC_STR_ARG(assert_s), (text)); \
    } while (0)

extern const struct CMUnitTest pi_call_tests[], pi_start_tests[], pi_end_tests[], pi_tunnel_tests[],
    pi_live_tests[];
extern const size_t npi_call_tests, npi_start_tests, npi_end_tests, npi_tunnel_tests,
    npi_live_tests;

#endif
