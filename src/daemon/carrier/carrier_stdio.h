/* SPDX-License-Identifier: Apache-2.0
 *
 * The stdio carrier: Content-Length frames over one stream. Ends the daemon when the stream ends. */
#ifndef TCI_DAEMON_CARRIER_STDIO_H
#define TCI_DAEMON_CARRIER_STDIO_H

#include "daemon/device.h"
#include "net/stream.h"

typedef struct tci_stdio tci_stdio;

/* Serve the stream until its end. on_end is called once: status 0 for an orderly end, otherwise 1
 * and message is the last word. The carrier is gone after it. */
int tci_stdio_serve(tci_device *device, tci_stream *stream,
                    void (*on_end)(void *user, int status, tc_str message), void *user,
                    tci_stdio **ret, tc_err *err) TC_CHECKED;
/* Drain as at the end of input (a signal asks for it). Idempotent. */
void tci_stdio_drain(tci_stdio *s);

#endif
