/* SPDX-License-Identifier: Apache-2.0
 *
 * The provider over a daemon that dials in: a listener of the tests', on the runtime's loop. */
#ifndef TC_TEST_ENV_FIXTURE_WEBSOCKET_H
#define TC_TEST_ENV_FIXTURE_WEBSOCKET_H

#include "fixture.h"

/* The connections that the daemon dials in to. */
tc_connections *websocket_connections(fixture *f);
/* End the device's link; the daemon lives, and dials again. */
void websocket_cut(fixture *f);
/* Another daemon in the place of the one that is there. */
void websocket_restart(fixture *f);
/* The device's connection, when there is one other than old (NULL: any). */
tc_device *websocket_device(fixture *f, const tc_device *old);

#endif
