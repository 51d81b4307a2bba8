/* SPDX-License-Identifier: Apache-2.0
 *
 * A device behind HTTP that outlives the programs that use it. */
#ifndef TC_TEST_OP_DEVICE_H
#define TC_TEST_OP_DEVICE_H

#include <telechir/env.h>

typedef struct op_device op_device;

/* NULL: there is none to be had here. */
op_device *op_device_open(void);
void op_device_close(op_device *d);
/* A ready environment in its folder, with a session of its own. */
tc_env *op_device_env(op_device *d);

#endif
