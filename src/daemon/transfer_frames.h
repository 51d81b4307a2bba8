/* SPDX-License-Identifier: Apache-2.0
 *
 * Transfers over data frames (stdio, later WebSocket): ATTACH, CHUNK, CREDIT, END, RESET as in the
 * reference, section "Data frames and transfers". Loop thread. */
#ifndef TCI_DAEMON_TRANSFER_FRAMES_H
#define TCI_DAEMON_TRANSFER_FRAMES_H

#include "daemon/carrier/carrier.h"
#include "wire/eipd.h"

/* One decoded frame from the peer. own is the heap block the payload lies in and goes with the call
 * (own_cap its size); NULL when there is no payload. Answers go out through the carrier. */
void tci_frames_receive(tci_carrier *c, const tci_eipd *frame, char *own, size_t own_cap);

#endif
