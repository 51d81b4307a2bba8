/* SPDX-License-Identifier: Apache-2.0
 *
 * What the carriers of frames have in common: how a data frame that has arrived goes on, and how much may
 * wait. Leaves the frames to transfer_frames.c. Loop thread. */
#include "daemon/carrier/carrier.h"

#include "daemon/device.h"
#include "daemon/transfer_frames.h"

enum { INBOUND_BYTES_MAX = 64 * 1024 * 1024 };

bool tci_carrier_is_behind(const tci_carrier *c)
{
    return c->device->inbound_bytes > INBOUND_BYTES_MAX;
}

int tci_carrier_take_data(tci_carrier *c, tc_str body, char *own, tc_err *err)
{
    tci_eipd e;
    if (tci_eipd_decode(body, &e, err) < 0) {
        tci_free(own);
        return err->code;
    }
    size_t own_size = own != NULL ? body.len : e.payload.len;
    if (e.payload.len > 0 && own == NULL) {
        own = tci_mem_resize(NULL, e.payload.len);
        if (own == NULL)
            return tci_err_no_memory(err);
        memcpy(own, e.payload.ptr, e.payload.len);
        e.payload.ptr = own;
    }
    tci_frames_receive(c, &e, own, own_size);
    return 0;
}
