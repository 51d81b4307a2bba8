/* SPDX-License-Identifier: Apache-2.0
 *
 * Targets: what a word like "local", "https://host" or a saved name means, and the file the saved
 * ones are in. The main thread; texts live as long as the command. */
#ifndef TCI_CLI_TARGET_H
#define TCI_CLI_TARGET_H

#include "cli.h"

typedef enum cli_target_kind { CLI_TARGET_LOCAL, CLI_TARGET_HTTP } cli_target_kind;

typedef struct cli_target {
    cli_target_kind kind;
    tc_str form; /* "local", "https://host" */
    tc_str device_id, credential_file, ca_file, executable;
    bool is_insecure, is_plaintext_allowed;
} cli_target;

/* A full form, or a saved name; then what the options of the command line say. INVALID (not a
 * target, a credential in the URL, something missing), UNSUPPORTED (ssh:, host:), NOT_FOUND. */
int cli_target_resolve(cli *c, tc_str text, cli_target *ret, tc_err *err) TC_CHECKED;
/* The same without looking at saved names. */
int cli_target_of_form(cli *c, tc_str form, cli_target *ret, tc_err *err) TC_CHECKED;
/* How the EIP client is to connect. */
tc_http_options cli_target_http(const cli_target *t);
/* The working folder of this process, absolute; in the command's arena. */
int cli_here(cli *c, tc_str *ret, tc_err *err) TC_CHECKED;

/* ---- the file (target_store.c) ---- */

/* {"version":1,"targets":{NAME:{"form":...}}}; members that this version does not know are kept. */
typedef struct cli_targets {
    const tci_json_member *members; /* the targets, in the order they were added */
    size_t count;
} cli_targets;

/* An empty list when there is no file. PARSE, INCOMPATIBLE, IO. */
int cli_targets_load(cli *c, cli_targets *ret, tc_err *err) TC_CHECKED;
/* NULL when there is none of that name. */
const tci_json *cli_targets_get(const cli_targets *t, tc_str name);
/* From its JSON object. PARSE. */
int cli_target_of_json(const tci_json *v, cli_target *ret, tc_err *err) TC_CHECKED;
/* "form":...,... as members. */
void cli_target_put(tci_buf *b, bool *first, const cli_target *t);

/* Change the file under its lock: t NULL removes. CONFLICT when it is there and replace is false,
 * NOT_FOUND when there is nothing to remove, BUSY when the lock stays taken, IO. */
int cli_targets_change(cli *c, tc_str name, const cli_target *t, bool replace,
                       tc_err *err) TC_CHECKED;

#endif
