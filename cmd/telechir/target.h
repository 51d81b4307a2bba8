/* SPDX-License-Identifier: Apache-2.0
 *
 * Targets: what a word like "local", "https://host" or a saved name means, and the file the saved
 * ones are in. The main thread; texts live as long as the command. */
#ifndef TCI_CLI_TARGET_H
#define TCI_CLI_TARGET_H

#include "cli.h"
#include <telechir/ssh.h>

typedef enum cli_target_kind {
    CLI_TARGET_LOCAL,
    CLI_TARGET_HTTP,
    CLI_TARGET_SSH,
    CLI_TARGET_HOST
} cli_target_kind;

/* Paths are absolute. executable: of local the daemon, of ssh what is put there (tc_ssh_options). host: of
 * host:NAME the Host's URL. */
typedef struct cli_target {
    cli_target_kind kind;
    tc_str form; /* "local", "https://host", "ssh:me@host:22", "host:work" */
    tc_str device_id, credential_file, ca_file, executable, host;
    bool is_insecure, is_plaintext_allowed;
    tc_str known_hosts, host_key_alias, identity, ssh_config;
    bool is_login_shell;
} cli_target;

/* A full form, or a saved name; then what the options of the command line say. INVALID (not a
 * target, a credential in the URL, something missing), AUTH (host:, and not signed in), NOT_FOUND. */
int cli_target_resolve(cli *c, tc_str text, cli_target *ret, tc_err *err) TC_CHECKED;
/* The same without looking at saved names. */
int cli_target_of_form(cli *c, tc_str form, cli_target *ret, tc_err *err) TC_CHECKED;
/* Is there a saved target of this name? A file that cannot be read has none. */
bool cli_target_is_saved(cli *c, tc_str name);
/* A machine as `trust` takes it: the name of a saved ssh target, or [ssh:][user@]host[:port]. */
int cli_target_of_host(cli *c, tc_str text, cli_target *ret, tc_err *err) TC_CHECKED;
/* How the EIP client is to connect to an http target. */
tc_http_options cli_target_http(const cli_target *t);
/* The same for a device at a Host, which is asked for it: through the Host, as who is signed in there. Says also
 * which device answers by that name (target_host.c).
 *
 * Errors end the command with status 3: AUTH (not signed in), NOT_READY (unknown, two of the name, not approved,
 * revoked, offline), INCOMPATIBLE (another device has the name now), and those of reaching the Host. Texts are in
 * the command's arena. */
typedef struct cli_link {
    tc_http_options http;
    tc_str device_id;
} cli_link;
int cli_target_link(cli *c, const cli_target *t, cli_link *ret, tc_err *err) TC_CHECKED;
/* What comes after "host:". */
static inline tc_str cli_target_device(const cli_target *t)
{
    return tci_str_sub(t->form, sizeof "host:" - 1, SIZE_MAX);
}
/* How ssh is to connect; INVALID. */
int cli_target_ssh(const cli_target *t, tc_ssh_target *ret, tc_err *err) TC_CHECKED;
/* An environment that is not ready yet (env.c). */
int cli_env_create(cli *c, tc_runtime *rt, const cli_target *t, tc_env **ret_env,
                   tc_err *err) TC_CHECKED;
/* c->err is why it did not become ready: say more where the failure alone does not help (env.c). */
void cli_explain_reach(cli *c, const cli_target *t);
/* The working folder of this process, absolute; in the command's arena. */
int cli_here(cli *c, tc_str *ret, tc_err *err) TC_CHECKED;

/* `telechir target check` (target_check.c). */
int cli_target_look(cli *c);

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
