/* SPDX-License-Identifier: Apache-2.0
 *
 * Finding an operation of pi-env by name. Any thread. */
#include "proto/gen/pi_env.h"

const tci_pi_op *tci_pi_op_find(tc_str name)
{
    for (size_t i = 0; i < TCI_PI_OP_COUNT; i++)
        if (tci_str_eq(tci_pi_ops[i].name, name))
            return &tci_pi_ops[i];
    return NULL;
}
