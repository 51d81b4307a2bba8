/* SPDX-License-Identifier: Apache-2.0
 *
 * How the parts of the configuration work together: config_env.c and config_cli.c find what was said,
 * config_json.c checks and merges it as one tree, config_decode.c and config_http.c make a tci_config of
 * it. Before the loop runs; everything lives in the arena of the configuration. */
#ifndef TCI_DAEMON_CONFIG_INT_H
#define TCI_DAEMON_CONFIG_INT_H

#include "base/json.h"
#include "daemon/config/config.h"

/* The version under the name a13n-envd. */
#define TCI_CFG_WIRE_VERSION "0.5.1"

/* ---- variables: A13N_ENVD_<name>, or TELECHIRD_<name> ---- */

/* How a scalar is written and checked. */
typedef enum tci_cfg_scalar {
    TCI_CFG_NONE, /* not part of the tree */
    TCI_CFG_TEXT,
    TCI_CFG_PATH, /* on the command line it must be absolute */
    TCI_CFG_BOOL, /* true, false, 1, 0 */
    TCI_CFG_U64,
    TCI_CFG_U32,
    TCI_CFG_EGRESS /* one of the modes */
} tci_cfg_scalar;

/* X(suffix, place in the tree, how it is written, transports that may have it: s, h, w) */
#define TCI_CFG_VARS(X)                                                                     \
    X(RUNTIME_DIR, "", NONE, "shw")                                                         \
    X(CONFIG_JSON, "", NONE, "shw")                                                         \
    X(DEVICE_ID, "device_id", TEXT, "shw")                                                  \
    X(NAME, "name", TEXT, "shw")                                                            \
    X(DESCRIPTION, "description", TEXT, "shw")                                              \
    X(STATE_DIR, "installation_state_directory", PATH, "shw")                               \
    X(DEFAULT_WORKING_DIRECTORY, "default_working_directory", PATH, "shw")                  \
    X(ALLOW_SUDO, "execution.allow_sudo", BOOL, "shw")                                      \
    X(DIRECTORY_DISCOVERY, "directory_discovery", BOOL, "shw")                              \
    X(FULL_CONTROL, "full_control", BOOL, "shw")                                            \
    X(COMPUTER_USE, "computer_use", BOOL, "shw")                                            \
    X(EXECUTION_UID, "execution.uid", U64, "shw")                                           \
    X(EXECUTION_GID, "execution.gid", U64, "shw")                                           \
    X(IDLE_TIMEOUT_MS, "idle_timeout_ms", U64, "shw")                                       \
    X(DISCONNECT_GRACE_MS, "disconnect_grace_ms", U64, "shw")                               \
    X(COMPUTER_USE_PERMISSION_TIMEOUT_MS, "computer_use_permission_timeout_ms", U64, "shw") \
    X(EGRESS_MODE, "egress.mode", EGRESS, "shw")                                            \
    X(TRANSPORT, "", NONE, "shw")                                                           \
    X(HTTP_BIND, "", NONE, "h")                                                             \
    X(HTTP_CREDENTIAL_FILE, "", NONE, "h")                                                  \
    X(HTTP_TLS_CERT_FILE, "", NONE, "h")                                                    \
    X(HTTP_TLS_KEY_FILE, "", NONE, "h")                                                     \
    X(HTTP_PLAINTEXT_SCOPE, "", NONE, "h")                                                  \
    X(REVERSE_WS_URL, "", NONE, "w")                                                        \
    X(REVERSE_WS_CREDENTIAL_FILE, "", NONE, "w")                                            \
    X(REVERSE_WS_CA_FILE, "", NONE, "w")

typedef enum tci_cfg_var {
#define X(suffix, place, scalar, transports) TCI_CFG_VAR_##suffix,
    TCI_CFG_VARS(X)
#undef X
        TCI_CFG_VAR_COUNT
} tci_cfg_var;

typedef struct tci_cfg_setting {
    bool is_set;
    tc_str name; /* as it was written, for messages; when unset the name to recommend */
    tc_str value;
} tci_cfg_setting;

/* What is being put together. */
typedef struct tci_cfg {
    tci_config *config;
    tci_arena *arena; /* the configuration's */
    char *const *envp;
    const char *argv0; /* may be NULL */
    tci_cfg_setting vars[TCI_CFG_VAR_COUNT];
    tci_json tree; /* what has been merged so far */
} tci_cfg;

/* Take the variables out of envp. INVALID for one that is not known, PARSE for one that is no UTF-8,
 * CONFLICT for two names of one setting with different values. */
int tci_cfg_read_vars(tci_cfg *c, tc_err *err) TC_CHECKED;
/* Lay the scalar ones over the tree. */
int tci_cfg_apply_vars(tci_cfg *c, tc_err *err) TC_CHECKED;
/* INVALID when a variable of another transport is set. */
int tci_cfg_check_transport_vars(const tci_cfg *c, tci_transport transport, tc_err *err) TC_CHECKED;
/* Value of any variable of the environment; empty and false when unset. */
bool tci_cfg_getenv(const tci_cfg *c, const char *name, tc_str *ret);
/* Export of metrics: hides the exporter's variables; UNSUPPORTED when export is asked for. is_off:
 * monitoring is off by configuration. */
int tci_cfg_check_export(tci_cfg *c, bool is_off, tc_err *err) TC_CHECKED;

/* ---- command line ---- */

/* What argv asks for; args are those after the program's name. *ret_config_path is NULL without
 * --config. For actions that print, *ret_text is set. */
typedef struct tci_cfg_args {
    char *const *items;
    size_t count;
} tci_cfg_args;
int tci_cfg_read_action(tci_cfg *c, tci_cfg_args args, tci_config_action *ret_action,
                        tc_str *ret_text, tc_err *err) TC_CHECKED;
/* Check flags, before anything else is read, and find the file. */
int tci_cfg_check_flags(tci_cfg *c, tci_cfg_args args, const char **ret_config_path,
                        tc_err *err) TC_CHECKED;
/* Lay them over the tree. */
int tci_cfg_apply_flags(tci_cfg *c, tci_cfg_args args, tc_err *err) TC_CHECKED;
/* Lay file, variables and flags over each other in c->tree, the lowest of all being base (JSON). */
int tci_cfg_apply_layers(tci_cfg *c, const char *base, tci_cfg_args args, const char *config_path,
                         tc_err *err) TC_CHECKED;
/* The connect word and all that the daemon it starts is told; UNSUPPORTED in a build without it. */
int tci_cfg_load_connect(tci_cfg *c, tci_cfg_args args, tc_err *err) TC_CHECKED;
int tci_cfg_connect_help(tci_cfg *c, tc_str *ret_text, tc_err *err) TC_CHECKED;
/* The update word: *ret_text is what it prints. */
int tci_cfg_update(tci_cfg *c, tci_cfg_args args, tc_str *ret_text, tc_err *err) TC_CHECKED;
/* The manual that --help prints. */
int tci_cfg_help(tci_cfg *c, tc_str *ret_text, tc_err *err) TC_CHECKED;
int tci_cfg_update_help(tci_cfg *c, tc_str *ret_text, tc_err *err) TC_CHECKED;

/* ---- the tree ---- */

/* Check text strictly and lay it over the tree. source is for messages. */
int tci_cfg_apply_json(tci_cfg *c, const char *source, tc_str text, tc_err *err) TC_CHECKED;
/* Check a whole tree. */
int tci_cfg_check_tree(const char *source, const tci_json *tree, tc_err *err) TC_CHECKED;
/* Lay one scalar over the tree at "field" or "object.field". where names it in messages. */
int tci_cfg_apply_scalar(tci_cfg *c, tc_str where, tc_str place, tci_cfg_scalar scalar,
                         tc_str value, tc_err *err) TC_CHECKED;
/* An absolute regular file that is no link, whole. Heap memory, the caller wipes and frees it. where
 * names it in messages. */
int tci_cfg_read_file(tc_str where, tc_str path, size_t max_bytes, char **ret, size_t *ret_len,
                      tc_err *err) TC_CHECKED;
/* The same checks without reading. */
int tci_cfg_check_file(tc_str where, tc_str path, tc_err *err) TC_CHECKED;

/* ---- from the tree to the configuration ---- */

int tci_cfg_decode_monitoring(tci_cfg *c, tc_err *err) TC_CHECKED;
int tci_cfg_decode_limits(tci_cfg *c, tc_err *err) TC_CHECKED;
int tci_cfg_decode_device(tci_cfg *c, tc_err *err) TC_CHECKED;   /* names, folders, lifecycle */
int tci_cfg_decode_commands(tci_cfg *c, tc_err *err) TC_CHECKED; /* roots, profiles, full control */
int tci_cfg_decode_transport(tci_cfg *c, tc_err *err) TC_CHECKED;
/* The address and files of reverse_websocket; UNSUPPORTED in a build without it. */
int tci_cfg_decode_reverse(tci_cfg *c, tc_err *err) TC_CHECKED;
/* INVALID when it is not set. */
int tci_cfg_need(const tci_cfg_setting *s, tc_err *err) TC_CHECKED;
/* Where a person's programs keep state: $XDG_STATE_HOME/telechir, or empty. */
int tci_cfg_state_home(tci_cfg *c, tc_str *ret, tc_err *err) TC_CHECKED;
/* Identity, sandbox, egress, desktop: what is not built is UNSUPPORTED. */
int tci_cfg_check_boundary(const tci_cfg *c, tc_err *err) TC_CHECKED;

/* No C0, DEL or C1 control character; text is UTF-8. */
bool tci_cfg_is_printable(tc_str text);
/* Neither begins nor ends with white space (Unicode). */
bool tci_cfg_is_trimmed(tc_str text);
static inline bool tci_cfg_is_absolute(tc_str path)
{
    return path.len > 0 && path.ptr[0] == '/' && memchr(path.ptr, '\0', path.len) == NULL;
}

#endif
