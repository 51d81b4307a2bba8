/* SPDX-License-Identifier: Apache-2.0
 *
 * What `host` and `devices` share: Hosts that somebody signed in to, and asking them. The main thread. */
#ifndef TCI_CLI_HOST_H
#define TCI_CLI_HOST_H

#include "cli.h"

/* A Host, and how to ask it. */
typedef struct host_at {
    tc_str url;     /* with a slash at its end */
    tc_str token;   /* empty: not signed in */
    tc_str ca_file; /* empty: the system's */
    bool is_insecure;
} host_at;

/* ---- host_saved.c: the file of Hosts that somebody signed in to ---- */

/* http(s)://HOST[:PORT][/PATH], in its usual form, in the arena; http only to this machine. */
int host_url_of(cli *c, const char *text, tc_str *ret, tc_err *err) TC_CHECKED;
/* The one with that URL; NULL: the one signed in to last. AUTH: not signed in. */
int host_saved_find(cli *c, const char *named, host_at *ret, tc_err *err) TC_CHECKED;
/* Keep it, as the one signed in to last; the file is its owner's alone. */
int host_saved_put(cli *c, const host_at *at, tc_err *err) TC_CHECKED;
/* Forget it; fine when it is not there. */
int host_saved_remove(cli *c, tc_str url, tc_err *err) TC_CHECKED;

/* ---- host_call.c ---- */

enum { HOST_CALL_TIMEOUT_MS = 30000 };

/* Ask and wait; path is below the URL, body JSON (empty: none). The answer is a JSON object, in the arena.
 * Errors: those of dialling and of TLS; AUTH, DENIED, NOT_FOUND, CONFLICT, TIMEOUT, INVALID, BUSY as the Host
 * says, with its words; PROTOCOL (it is no Host). */
int host_call(cli *c, const host_at *at, const char *method, tc_str path, tc_str body,
              tci_json *ret, tc_err *err) TC_CHECKED;
/* "api/devices/NAME" and what follows, in the arena; the name as a URL may have it. */
int host_device_path(cli *c, tc_str name, const char *follows, tc_str *ret, tc_err *err) TC_CHECKED;

/* ---- host_serve.c ---- */

int host_serve(cli *c);

#endif
