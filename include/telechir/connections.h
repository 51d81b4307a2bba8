/* SPDX-License-Identifier: Apache-2.0
 *
 * Daemons that dial in: for machines that this program cannot reach, but that can reach it. The
 * program has the listener: it accepts a WebSocket, checks who it is, and knows from its own records
 * which device belongs there. It then gives the accepted socket to attach, and stays in that call for
 * as long as the link lasts. EIP still runs the usual way round: we ask, the daemon answers.
 *
 * A device has one connection here, which any number of adapters and sessions share
 * (tc_env_create_websocket, or tc_connections_wait and the calls of telechir/client.h). Closing or
 * cancelling one of them leaves the connection alone. A lost link does not come back: the daemon
 * dials again, and is a new device connection. What was under way reports through its evidence what
 * is known of it, and nothing is sent again. A session of the same generation can be taken up again
 * on the new connection within the device's grace time (tc_session_attach).
 *
 * Everything here lives in this process: connections are not passed between processes. */
#ifndef TELECHIR_CONNECTIONS_H
#define TELECHIR_CONNECTIONS_H

#include <telechir/client.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum tc_message_kind { TC_MESSAGE_TEXT = 1, TC_MESSAGE_BINARY } tc_message_kind;

/* A WebSocket that the program has accepted, over whatever library it uses. EIP alone reads and writes
 * it from attach on. Calls come from other threads than attach's, too, but never two of the same
 * function at a time.
 *
 *   subprotocol  what was negotiated; must be TC_WEBSOCKET_SUBPROTOCOL
 *   receive      block until one whole message is there; text and binary are different things. The
 *                bytes stay valid until the next call. CLOSED once the socket is closed, from either
 *                side, or was lost; other codes for other failures. All of them end the link
 *   send         one message, of the kind given, made of nparts parts; when it returns the parts may
 *                be gone. May block, but not for ever; CLOSED as above
 *   close        begin to close with this code and reason (which may be empty). Called once, while
 *                receive and send may be under way: both must then return soon. Must not block for
 *                long
 *   wait         block until the socket has ended, which close makes certain; it is not used after
 *                that, and receive has returned before
 *
 * A socket that answers pings, and limits the length of messages and of what it queues, does that by
 * itself. */
typedef struct tc_socket {
    size_t size;
    void *user;
    tc_str (*subprotocol)(void *user);
    int (*receive)(void *user, tc_message_kind *ret_kind, tc_str *ret_bytes, tc_err *err);
    int (*send)(void *user, tc_message_kind kind, const tc_str *parts, size_t nparts, tc_err *err);
    void (*close)(void *user, unsigned code, tc_str reason);
    void (*wait)(void *user);
} tc_socket;

#define TC_WEBSOCKET_SUBPROTOCOL "eip.v1"
enum { TC_SOCKET_PARTS_MAX = 3 };

typedef struct tc_connections tc_connections;

/*   max_devices   connections at a time: 64
 *   device        time limits and ceilings of each; expected_device_id is not looked at. NULL: the
 *                 defaults */
typedef struct tc_connections_options {
    size_t size;
    size_t max_devices;
    const tc_device_options *device;
} tc_connections_options;

/* options may be NULL. */
TC_API int tc_connections_open(tc_runtime *rt, const tc_connections_options *options,
                               tc_connections **ret_connections, tc_err *err) TC_CHECKED;
/* End every link (close code 1001), wait until every attach is done with its socket, and free the
 * handle. Sessions that are open stay on their devices for the grace time, and can be attached by a later
 * connection; to end them, close them or their adapters before this. Waits on it end with CLOSED, adapters that hold it get CLOSED from then on. Before the
 * runtime is closed or after, but not from one of the five functions. NULL is fine. */
TC_API void tc_connections_close(tc_connections *c);

/* Serve an accepted socket until its link ends. Initializes the device at once, whether anybody waits
 * for it or not, opens no session, and gives the device to whoever waits for it.
 *
 *   ctx        ends the link when it is cancelled or its time is over; NULL: nothing but the link
 *   device_id  who it is, by the program's own records: not what the daemon says. 1..256 bytes
 *   socket     copied; it is closed, and has ended, when this returns
 *
 * Returns 0 when the daemon, or the network, ended a link that had become usable. Errors:
 *   INVALID        not a socket, or not a device id
 *   INCOMPATIBLE   another subprotocol, another device than expected, not such a daemon
 *   CONFLICT       this device has a live connection already, which stays
 *   BUSY           max_devices are connected
 *   CONNECT        the link ended before the device was initialized
 *   TIMEOUT        the device did not initialize in time, send took more than 10 s and another second for
 *                  each 16 KB of the message, or ctx
 *   PROTOCOL, TOO_BIG   the daemon broke the protocol, or one of our ceilings
 *   CANCELLED      ctx
 *   CLOSED         tc_connections_close, or the runtime was closed
 * Thread: a thread of the program's, for the whole time; one more is used meanwhile. */
TC_API int tc_connections_attach(tc_connections *c, tc_ctx *ctx, tc_str device_id,
                                 const tc_socket *socket, tc_err *err) TC_CHECKED;

/* A reference to the device's live connection (tc_device_close drops it), waiting for the daemon to
 * dial in when there is none. What needs no session can be asked with it right away: information
 * (tc_device_get_info, tc_device_describe), directories (tc_device_list_directory), metrics.
 *
 *   timeout_ms  0: do not wait; negative: as long as ctx allows
 *
 * Errors: TIMEOUT, CANCELLED, CLOSED, INVALID. */
TC_API int tc_connections_wait(tc_connections *c, tc_ctx *ctx, tc_str device_id, int64_t timeout_ms,
                               tc_device **ret_device, tc_err *err) TC_CHECKED;

/* The ids of the devices that are connected and initialized now, in the order they came. */
TC_API int tc_connections_list(tc_connections *c, tc_result *r, tc_strs *ret_device_ids,
                               tc_err *err) TC_CHECKED;

#ifdef __cplusplus
}
#endif
#endif
