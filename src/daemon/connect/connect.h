/* SPDX-License-Identifier: Apache-2.0
 *
 * `connect`: a daemon and a Host get to know each other once, by a code that a person compares, and find
 * each other again by what is saved then. Source: docs/connect.md. */
#ifndef TCI_DAEMON_CONNECT_H
#define TCI_DAEMON_CONNECT_H

#include "daemon/config/config.h"

/* What the command line asked for; in tci_config, made by tci_config_load. Texts are NUL-terminated. */
typedef struct tci_connect_plan {
    tc_str url;         /* of the Host, normalised; empty: whatever is saved under alias */
    tc_str alias;       /* the Host's name here */
    tc_str instance;    /* the installation's name */
    tc_str state_dir;   /* absolute; "instances" lies in it */
    bool has_state_dir; /* given on the command line: belongs to the command that connects again */
    tc_str ca_file;     /* absolute; empty: the saved one */
} tci_connect_plan;

/* Times in milliseconds, for tests. A zero takes the documented value. */
typedef struct tci_connect_options {
    int64_t request_ms; /* 10 s: one request, from the lookup of the name to the last byte */
    int64_t limit_ms;   /* 10 min: until somebody has approved */
    int64_t second_ms;  /* 1 s: what the Host calls a second */
    /* A line for the person at the terminal, without a line end. */
    void (*say)(void *user, tc_str line);
    void *user;
} tci_connect_options;

/* Take the state folder, pair with the Host unless that was done before, and complete config so that
 * tci_serve serves it. config->connect is set; the folder is held from here on by config->runtime, also
 * when it returns an error later on: tci_config_done gives it back unless a device took it over. Blocks
 * for as long as pairing takes; SIGINT and SIGTERM end it.
 *
 * Errors: CONFLICT (another daemon has the state, the alias is another Host's), INVALID (what is saved is
 * malformed), NOT_FOUND (no such saved Host), AUTH (the Host refused), TIMEOUT, CANCELLED, and what the way
 * to the Host says; UNSUPPORTED in a build without TLS. */
int tci_connect(tci_config *config, const tci_connect_options *options, tc_err *err) TC_CHECKED;
/* Add what to do to the error that tci_serve ended with after tci_connect. */
void tci_connect_explain(tc_err *err);

#endif
