/* SPDX-License-Identifier: Apache-2.0
 *
 * In place of the other connect*.c in a build without TLS, which is made to be small. */
#include "daemon/config/config_int.h"
#include "daemon/connect/connect.h"

static int unsupported(tc_err *err)
{
    (void)tc_err_set(err, TC_E_UNSUPPORTED, "connect is not available in this build");
    return tc_err_hint(err, "use a daemon that is built with TLS");
}

int tci_cfg_connect_help(tci_cfg *c, tc_str *ret_text, tc_err *err)
{
    return tci_cfg_help(c, ret_text, err);
}

int tci_cfg_load_connect(tci_cfg *c, tci_cfg_args args, tc_err *err)
{
    TCI_UNUSED(c);
    TCI_UNUSED(args);
    return unsupported(err);
}

int tci_connect(tci_config *config, const tci_connect_options *options, tc_err *err)
{
    TCI_UNUSED(config);
    TCI_UNUSED(options);
    return unsupported(err);
}

void tci_connect_explain(tc_err *err)
{
    TCI_UNUSED(err);
}
