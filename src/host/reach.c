/* SPDX-License-Identifier: Apache-2.0
 *
 * From a device in the records to one that can be asked. Leaves links to the registry of connections, and targets
 * that the Host connects to itself to outside.c. Any thread but the loop, and never inside the queue of work on the records: it may wait for the device. Invariant: a device
 * that is not approved is not reached, linked or not. */
#include "host/host_int.h"

static int check_state(const tci_host_device *d, tc_err *err)
{
    switch (d->state) {
    case TCI_HOST_APPROVED:
        return 0;
    case TCI_HOST_REVOKED:
        return tc_err_set(err, TC_E_DENIED, "the connection of '%.*s' was revoked",
                          TC_STR_ARG(d->name));
    case TCI_HOST_PENDING:
        break;
    }
    return tc_err_set(err, TC_E_DENIED, "'%.*s' waits for approval", TC_STR_ARG(d->name));
}

int tci_host_reach(tci_host *h, const tci_host_device *d, tc_ctx *ctx, tc_device **ret_device,
                   tc_err *err)
{
    int rc = check_state(d, err);
    if (rc < 0)
        return rc;
    if (d->kind == TCI_HOST_EXTERNAL)
        return tci_outside_reach(h->outside, d->id, ctx, ret_device, err);
    rc = tc_connections_wait(h->connections, ctx, d->device_id, 0, ret_device, err);
    if (rc == TC_E_TIMEOUT)
        return tc_err_set(err, TC_E_NOT_READY, "'%.*s' is offline", TC_STR_ARG(d->name));
    return rc;
}
