/* SPDX-License-Identifier: Apache-2.0
 *
 * In place of carrier_ws.c and config_ws.c in a build without TLS, which is made to be small. */
#include "daemon/carrier/carrier_ws.h"
#include "daemon/config/config_int.h"

static int unsupported(tc_err *err)
{
    (void)tc_err_set(err, TC_E_UNSUPPORTED,
                     "transport reverse_websocket is not available in this build");
    return tc_err_hint(err, "use a daemon that is built with TLS");
}

int tci_cfg_decode_reverse(tci_cfg *c, tc_err *err)
{
    TCI_UNUSED(c);
    return unsupported(err);
}

int tci_ws_carrier_open(tci_device *device, const tci_ws_carrier_options *options,
                        void (*on_end)(void *user, int status, tc_str message), void *user,
                        tci_ws_carrier **ret, tc_err *err)
{
    TCI_UNUSED(device);
    TCI_UNUSED(options);
    TCI_UNUSED(on_end);
    TCI_UNUSED(user);
    TCI_UNUSED(ret);
    return unsupported(err);
}

void tci_ws_carrier_drain(tci_ws_carrier *s)
{
    TCI_UNUSED(s); /* there is none */
}
