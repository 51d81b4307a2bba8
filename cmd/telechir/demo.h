/* SPDX-License-Identifier: Apache-2.0
 *
 * A temporary daemon for the demo: a folder of its own, a credential of its own, commands disabled.
 * The main thread. */
#ifndef TCI_CLI_DEMO_H
#define TCI_CLI_DEMO_H

#include "cli.h"
#include "plat/proc.h"

typedef struct demo_daemon {
    tc_str program, device_id, version; /* version: what it calls itself */
    tc_str base;                        /* everything is below it, and goes with it */
    tc_str workspace, runtime, credential_file, log;
    bool is_http;
    tc_str endpoint;   /* of http */
    tc_device *device; /* of stdio: the connection that outlives the adapters */
    tci_child child;   /* of http */
} demo_daemon;

/* Find the program, make the folders, start it, and wait until it answers. On failure
 * demo_daemon_stop still has to be called. */
int demo_daemon_start(cli *c, bool is_http, demo_daemon *d) TC_CHECKED;
bool demo_daemon_is_alive(const demo_daemon *d);
/* Another adapter, ready, of a session of its own. */
int demo_daemon_adapter(cli *c, const demo_daemon *d, tc_env **ret_env) TC_CHECKED;
/* End it and remove its folder, whatever happened before. */
void demo_daemon_stop(cli *c, demo_daemon *d);

#endif
