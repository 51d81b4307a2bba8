/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of `telechir devices`. c->args[1] is what is meant. Each gives 0, or c->err. The main thread. */
#ifndef TCI_CLI_DEVICES_H
#define TCI_CLI_DEVICES_H

#include "host.h"

/* What became of one: "revoked: work (device-1)", or the device with --json. */
int devices_say(cli *c, const char *what, const tci_json *device) TC_CHECKED;
/* The id of the one that is meant: by id, by name or by identity. NOT_FOUND, CONFLICT (more than one). */
int devices_find(cli *c, const host_at *at, const char *named, tc_str *ret_id) TC_CHECKED;

/* Ask the Host for the action ("/revoke", "/remove") on the device that is meant, and say what became of it. On one
 * of the other kind the hint names the other command. */
int devices_end(cli *c, const host_at *at, const char *action, const char *other,
                const char *said) TC_CHECKED;

/* ---- devices_external.c ---- */

int devices_add_http(cli *c, const host_at *at) TC_CHECKED;
int devices_remove(cli *c, const host_at *at) TC_CHECKED;

#endif
