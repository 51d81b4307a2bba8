/* SPDX-License-Identifier: Apache-2.0
 *
 * A temporary SSH server for the demo, on a port of this machine's loopback, with keys of its own and
 * everything in one folder. The main thread. */
#ifndef TCI_CLI_DEMO_SSHD_H
#define TCI_CLI_DEMO_SSHD_H

#include "cli.h"
#include "plat/proc.h"
#include <telechir/ssh.h>

typedef struct demo_sshd {
    tc_str program, keygen;
    tc_str base; /* everything is below it, and goes with it */
    tc_str host_key, user_key, authorized, config, client_config, known_hosts, log;
    tc_str workspace, daemons; /* the far side's: where files go, where the daemon is put */
    tc_str fingerprint;        /* of the host key, as the owner of the server sees it */
    uint16_t port;
    tci_child child;
} demo_sshd;

/* Make keys and folder, start it, and wait until it listens. On failure demo_sshd_stop still has to
 * be called. NOT_FOUND: no sshd program is installed. */
int demo_sshd_start(cli *c, demo_sshd *s) TC_CHECKED;
/* How to reach it. */
tc_ssh_target demo_sshd_target(const demo_sshd *s);
/* End its connections, not the server: as a network that goes away does. How many processes. */
size_t demo_sshd_cut(const demo_sshd *s);
void demo_sshd_stop(cli *c, demo_sshd *s);

#endif
