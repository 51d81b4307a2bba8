/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages by somebody's blocking socket: what its threads (connections_attach.c) and the loop
 * (connections_socket.c) share. Inside of accepted connections. */
#ifndef TCI_CLIENT_CONNECTIONS_SOCKET_H
#define TCI_CLIENT_CONNECTIONS_SOCKET_H

#include "client/connections/connections_int.h"

/* What attach waits for; on its stack. */
typedef struct tci_attach_call {
    tc_ctx *ctx;
    tci_wake *wake;
    tci_wake own_wake;
    /* under the registry's lock */
    bool is_over;
    int code;
    tc_err err;
} tci_attach_call;

typedef struct tci_incoming {
    tci_link link;
    tci_held *control;
    tci_block *data; /* its payload is the whole message */
    size_t len;
} tci_incoming;

typedef struct tci_socket_link {
    tci_arrival arrival;
    tc_socket socket;
    tci_attach_call *call;
    tci_thread *reader;
    tci_mutex lock;               /* guards these */
    tci_list control, data, sent; /* of tci_out */
    tci_out *current;
    int64_t current_since_ns, current_limit_ns;
    unsigned ncontrol_in_a_row;
    tci_list incoming;
    size_t nincoming, incoming_bytes;
    bool is_halted; /* nothing more is sent */
    bool is_ending;
    bool is_closed;  /* close has returned */
    bool has_failed; /* err: what the link ends with, once what came before was handled */
    tc_err err;
    bool is_stopped_by_ctx;
    bool is_news_posted;
    tci_wake room;
    /* loop */
    tci_post news, gone;
    tci_timer look;
    tci_job close;
} tci_socket_link;

/* Take a place and begin, on the loop; link is the arrival's memory from here on. Not on the loop thread.
 * CONFLICT, BUSY, CLOSED, INVALID. */
int tci_socket_link_open(tc_connections *c, tc_str device_id, const tc_socket *socket,
                         tci_attach_call *call, tci_socket_link **ret_link, tc_err *err) TC_CHECKED;

#endif
