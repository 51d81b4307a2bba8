/* SPDX-License-Identifier: Apache-2.0
 *
 * Environments on another machine, over the installed ssh program. The daemon is put there, checked
 * by its SHA-256 before every start, and started by one ssh connection.
 *
 * Whom we trust is ours to say: host keys count only when they are in a file of the application's
 * own, under a fixed name. A key is never learnt on the way: a program scans it, shows it to a
 * person, and accepts it. A changed key stops everything until it was forgotten.
 *
 * The user's ssh configuration is honoured for where a host is and how to get in (HostName, Port,
 * User, ProxyJump, ProxyCommand, IdentityFile and the like), and for nothing that weakens these
 * rules or changes the session; see tc_ssh_ignored. Keys of jump hosts are checked by ssh against
 * the user's own known_hosts. ssh never prompts: it has no terminal. */
#ifndef TELECHIR_SSH_H
#define TELECHIR_SSH_H

#include <telechir/env.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Where to go. host, user, host_key_alias: no leading '-', no blanks, no control characters; the
 * alias also without "*?!,|@#", which mean something in the key file. Paths: no '"', no control
 * characters.
 *
 *   host              name, address, or a Host of the ssh configuration; required
 *   user              empty: as ssh decides
 *   port              0: as ssh decides
 *   identity_file     the key to offer, and of the agent none; empty: as ssh decides, with the
 *                     user's agent. An IdentityFile of the configuration for this host still counts
 *   no_agent          not even without an identity file
 *   known_hosts_file  the application's own; empty: $XDG_CONFIG_HOME/telechir/known_hosts, or
 *                     $HOME/.config/telechir/known_hosts
 *   host_key_alias    the name keys are kept under, whatever host, port and route; empty: the host
 *                     in lower case, "[host]:port" when a port other than 22 is given
 *   config_file       instead of the user's ssh configuration
 *   program           the ssh to run, a name or an absolute path; empty: "ssh" */
typedef struct tc_ssh_target {
    size_t size;
    tc_str host, user;
    uint32_t port;
    tc_str identity_file;
    bool no_agent;
    tc_str known_hosts_file, host_key_alias;
    tc_str config_file;
    tc_str program;
} tc_ssh_target;

/* Is it a target? Nothing is contacted. INVALID, with the field's name and value in the message. */
TC_API int tc_ssh_target_check(const tc_ssh_target *target, tc_err *err) TC_CHECKED;
/* "[ssh:][user@]host[:port]" ("[ssh:][user@][address]:port" for an IPv6 address) into the fields
 * host, user and port; the others stay as they are. Borrows from text. INVALID. */
TC_API int tc_ssh_target_parse(tc_str text, tc_ssh_target *target, tc_err *err) TC_CHECKED;

/* ---- whom we trust ---- */

/*   alias        the name it is kept under
 *   type         "ssh-ed25519", "ecdsa-sha2-nistp256", ...
 *   fingerprint  "SHA256:...", as ssh shows it
 *   line         "alias type base64", what tc_ssh_accept takes */
typedef struct tc_ssh_key {
    tc_str alias, type, fingerprint, line;
} tc_ssh_key;

typedef struct tc_ssh_keys {
    const tc_ssh_key *items;
    size_t count;
} tc_ssh_keys;

/* Connect once, by the same route as real connections, to see which key the host shows. Nothing is
 * accepted and no login is tried. Showing a fingerprint proves nothing: its owner compares it with what
 * he knows. Errors: CONNECT, TIMEOUT, CANCELLED, START_FAILED (no ssh program), INVALID. */
TC_API int tc_ssh_scan(tc_runtime *rt, tc_ctx *ctx, tc_result *r, const tc_ssh_target *target,
                       tc_ssh_keys *ret_keys, tc_err *err) TC_CHECKED;

/* Trust these lines of a scan from now on. All of them, or an error and nothing is written. A key
 * that is trusted already is no change; one of another type is added. Every line is
 * "alias type base64 [comment]" with the target's alias and nothing of the file's finer points.
 * The file is replaced atomically, mode 0600 in a folder of mode 0700 when it is made here; changes
 * exclude each other, also between processes.
 * Errors: INVALID (not such a line), UNTRUSTED with INTEGRITY as cause (another key of this type is
 * trusted: forget it first), DENIED, IO, NO_SPACE, BUSY (the file's lock stays taken). */
TC_API int tc_ssh_accept(tc_runtime *rt, const tc_ssh_target *target, tc_strs lines,
                         tc_err *err) TC_CHECKED;

/* Drop every key of the target's alias; *ret_nremoved may be 0. Errors as accept. */
TC_API int tc_ssh_forget(tc_runtime *rt, const tc_ssh_target *target, uint64_t *ret_nremoved,
                         tc_err *err) TC_CHECKED;

/* Every key in the target's file, of its alias only when is_only_target; a missing file has none.
 * Only known_hosts_file of the target counts without is_only_target. */
TC_API int tc_ssh_list(tc_runtime *rt, tc_result *r, const tc_ssh_target *target,
                       bool is_only_target, tc_ssh_keys *ret_keys, tc_err *err) TC_CHECKED;

typedef enum tc_ssh_trust {
    TC_SSH_UNKNOWN = 0, /* nothing is trusted under this alias */
    TC_SSH_TRUSTED,     /* the host shows a key that is trusted */
    TC_SSH_CHANGED      /* the host shows a key that is not among those that are */
} tc_ssh_trust;

typedef struct tc_ssh_status_info {
    tc_ssh_trust trust;
    tc_ssh_keys trusted, offered;
} tc_ssh_status_info;

/* What is trusted, against a fresh scan. Errors as scan and list. */
TC_API int tc_ssh_status(tc_runtime *rt, tc_ctx *ctx, tc_result *r, const tc_ssh_target *target,
                         tc_ssh_status_info *ret_status, tc_err *err) TC_CHECKED;

/* What the user's ssh configuration says for this host and our rules overrule: "option value", in
 * the words of `ssh -G`. For people who wonder. Errors: START_FAILED, INVALID (ssh does not take the
 * configuration), TIMEOUT, CANCELLED. */
TC_API int tc_ssh_ignored(tc_runtime *rt, tc_ctx *ctx, tc_result *r, const tc_ssh_target *target,
                          tc_strs *ret_lines, tc_err *err) TC_CHECKED;

/* ---- the environment ---- */

/* Something a person may want to see: a step, a warning, or text that ssh, the login files over
 * there or the daemon printed beside the protocol (as it came, any bytes). On a thread of the
 * runtime's own: do not block, and do not call the library. */
typedef void (*tc_ssh_log)(void *user, tc_str text);

/*   daemon       a daemon program to put there, or a folder of them as a release makes it
 *                (MANIFEST.json); empty: the folder TELECHIR_DAEMONS of the environment, "daemons"
 *                beside the running program, ../lib/telechir/daemons from there, or the program
 *                "telechird" that a local environment would start
 *   login_shell  start the daemon from the account's login shell, so that commands see what its
 *                login files set
 *   folder       absolute, on the other machine: where the daemon is kept; empty: the first that
 *                will do of $XDG_CACHE_HOME/telechir or $HOME/.cache/telechir,
 *                $XDG_RUNTIME_DIR/telechir, $TMPDIR/telechir-UID, /var/tmp/telechir-UID,
 *                /tmp/telechir-UID
 *   log          NULL: none */
typedef struct tc_ssh_options {
    size_t size;
    tc_ssh_target target;
    tc_str daemon;
    bool login_shell;
    tc_str folder;
    tc_ssh_log log;
    void *log_user;
} tc_ssh_options;

/* One daemon program that may be put on other machines.
 *   platform, arch   "linux", "x86_64"; empty: said nowhere, it is a single program
 *   sha256           64 hex digits */
typedef struct tc_ssh_daemon {
    tc_str platform, arch, file, sha256;
} tc_ssh_daemon;
typedef struct tc_ssh_daemons {
    const tc_ssh_daemon *items;
    size_t count;
} tc_ssh_daemons;

/* What would be put there: from is tc_ssh_options.daemon. Errors: NOT_FOUND (none anywhere), DENIED,
 * PARSE (the manifest), IO. */
TC_API int tc_ssh_daemons_list(tc_runtime *rt, tc_result *r, tc_str from,
                               tc_ssh_daemons *ret_daemons, tc_err *err) TC_CHECKED;

/* Check a recipe for a machine behind ssh. Nothing is started before the first operation, or
 * tc_env_ready, which connects now. Adapters of one runtime with equal options share one
 * connection. A lost connection fails what was under way; the next operation connects again.
 *
 * Errors of connecting, by any operation: UNTRUSTED (no key of the host is accepted: the hint shows
 * the fingerprint; cause INTEGRITY: another key than the accepted one, the hint shows both), AUTH
 * (login refused), CONNECT (name, route, refused, timed out), START_FAILED (no ssh program here, or the
 * daemon does not run there), NOT_FOUND (no daemon for that machine), UNSUPPORTED (the machine is
 * of a kind we have no daemon for), DENIED (no folder there will do: the message lists what was
 * tried), INTEGRITY (what arrived there is not what was sent), PROTOCOL (the login shell says
 * something else), TIMEOUT, CANCELLED. */
TC_API int tc_env_create_ssh(tc_runtime *rt, const tc_env_options *options,
                             const tc_ssh_options *ssh, tc_env **ret_env, tc_err *err) TC_CHECKED;

#ifdef __cplusplus
}
#endif
#endif
