/* SPDX-License-Identifier: Apache-2.0
 *
 * A temporary daemon for the demo: a folder of its own, a credential of its own, commands disabled.
 * The main thread. */
#ifndef TCI_CLI_DEMO_H
#define TCI_CLI_DEMO_H

#include "gate.h"
#include "plat/proc.h"

typedef enum demo_kind { DEMO_STDIO, DEMO_HTTP, DEMO_HTTP_FULL_CONTROL, DEMO_WEBSOCKET } demo_kind;

typedef struct demo_daemon {
    demo_kind kind;
    tc_str program, device_id, version; /* version: what it calls itself */
    tc_str base;                        /* everything is below it, and goes with it */
    tc_str workspace, runtime, credential_file, log;
    tc_str endpoint;   /* of http, and of websocket ours */
    tc_device *device; /* of stdio: the connection that outlives the adapters */
    gate *gate;        /* of websocket: where it dials in */
    tci_child child;   /* but of stdio */
} demo_daemon;

/* The daemon's program: --executable, else beside this one, else what the environment names. In the
 * command's arena. */
int demo_find_daemon(cli *c, tc_str *ret) TC_CHECKED;
/* A port of the loopback that nobody listens on just now. */
int demo_pick_port(uint16_t *ret_port, tc_err *err) TC_CHECKED;
/* A moment between two looks, which Ctrl-C ends. */
void demo_look_later(const cli *c);
/* Of a child that ended before it answered: c->err with the last line of its log. */
int demo_ended_early(cli *c, tc_str log, const char *what);
/* SIGTERM, and SIGKILL when that does not end it in time; nothing when there is none. */
void demo_end_child(tci_child *child);
void demo_reap(tci_child *child);

/* The whole of --transport ssh (demo_ssh.c); gives the exit status. */
int demo_over_ssh(cli *c);

/* The whole of the demo without --transport (demo_agent.c); gives the exit status. */
int demo_agent(cli *c);

/* Find the program, make the folders, start it, and wait until it answers. Commands are disabled but
 * with Full Control. On failure demo_daemon_stop still has to be called. */
int demo_daemon_start(cli *c, demo_kind kind, demo_daemon *d) TC_CHECKED;
bool demo_daemon_is_alive(const demo_daemon *d);
/* Another adapter, ready, of a session of its own. */
int demo_daemon_adapter(cli *c, const demo_daemon *d, tc_env **ret_env) TC_CHECKED;
/* End it and remove its folder, whatever happened before. */
void demo_daemon_stop(cli *c, demo_daemon *d);

#endif
