/* SPDX-License-Identifier: Apache-2.0
 *
 * Both ends of a link that dials out, in one process: a device that dials, on a thread of its own, and the
 * connections of a program with a listener. What is between them is for the test. */
#ifndef TEST_LINK_ENDS_H
#define TEST_LINK_ENDS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "client/connections/connections.h"

struct device_end;

typedef struct ends {
    /* the Host's */
    tc_runtime *rt;
    tc_connections *connections;
    struct tci_httpd *httpd;
    struct tci_tcp_listener *listener;
    uint16_t port;
    int code;
    tc_err err;
    tc_result *r;
    /* the daemon's */
    struct device_end *device;
    char folder[600];
} ends;

/* Milliseconds of the daemon's end; a zero is as documented. */
typedef struct daemon_times {
    int64_t ping_interval_ms, pong_timeout_ms, send_timeout_ms;
    uint64_t disconnect_grace_ms;
} daemon_times;

/* The Host listens; its port is known. */
void ends_open(ends *e, const tci_link_times *times);
/* The daemon dials 127.0.0.1:port. */
void ends_dial(ends *e, uint16_t port, const daemon_times *times);
/* Both end, in good order. */
void ends_close(ends *e);
/* The device, once it is there and is another than old (which may be NULL). */
tc_device *ends_device(ends *e, const tc_device *old);

#define ends_ok(e, call)                                                               \
    do {                                                                               \
        if ((call) != 0)                                                               \
            fail_msg("%s: %s (%s)", #call, (e)->err.msg, tc_code_name((e)->err.code)); \
    } while (0)

#endif
