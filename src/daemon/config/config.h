/* SPDX-License-Identifier: Apache-2.0
 *
 * What a daemon was told to be: file, variables and command line merged, checked and complete.
 * config.c reads; everything else only looks. Source: the configuration chapter of docs/protocol.md. */
#ifndef TCI_DAEMON_CONFIG_H
#define TCI_DAEMON_CONFIG_H

#include "base/arena.h"
#include "base/secret.h"

/* Every limit with its default; the order is the order of the reference page.
 * X(name, default) */
#define TCI_LIMITS(X)                                      \
    X(max_sessions, 128)                                   \
    X(max_file_bytes, UINT64_C(8589934592))                \
    X(max_request_bytes, 16777216)                         \
    X(max_response_bytes, 16777216)                        \
    X(max_concurrent_operations, 128)                      \
    X(max_device_concurrent_operations, 256)               \
    X(max_operation_duration_ms, 86400000)                 \
    X(max_processes, 128)                                  \
    X(max_device_processes, 512)                           \
    X(max_process_records, 1024)                           \
    X(max_device_process_records, 4096)                    \
    X(max_operation_records, 16384)                        \
    X(max_device_operation_records, 65536)                 \
    X(operation_record_ttl_ms, 86400000)                   \
    X(max_output_preview_bytes, 2097152)                   \
    X(max_output_bytes_per_stream, 268435456)              \
    X(max_spool_bytes, UINT64_C(1073741824))               \
    X(max_device_spool_bytes, UINT64_C(4294967296))        \
    X(max_spool_objects, 16384)                            \
    X(max_device_spool_objects, 65536)                     \
    X(max_transfer_frame_bytes, 4194304)                   \
    X(max_concurrent_file_transfers, 64)                   \
    X(max_device_file_transfers, 128)                      \
    X(max_file_transfer_records, 512)                      \
    X(max_device_file_transfer_records, 2048)              \
    X(file_transfer_record_ttl_ms, 86400000)               \
    X(file_transfer_idle_ttl_ms, 600000)                   \
    X(max_file_transfer_duration_ms, 7200000)              \
    X(max_staged_file_bytes, UINT64_C(8589934592))         \
    X(max_device_staged_file_bytes, UINT64_C(34359738368)) \
    X(max_staged_file_objects, 512)                        \
    X(max_device_staged_file_objects, 2048)

typedef struct tci_limits {
#define X(name, value) uint64_t name;
    TCI_LIMITS(X)
#undef X
} tci_limits;

typedef enum tci_transport {
    TCI_TRANSPORT_STDIO,
    TCI_TRANSPORT_HTTP,
    TCI_TRANSPORT_REVERSE_WEBSOCKET
} tci_transport;

typedef struct tci_env_pair {
    tc_str name, value;
} tci_env_pair;

/* A way to run scripts. Sorted by id in the configuration. */
typedef struct tci_shell_profile {
    tc_str id, display_name;
    tc_str executable; /* canonical, absolute */
    tc_str *fixed_arguments;
    size_t nfixed_arguments;
    tci_env_pair *environment; /* safe_base_environment */
    size_t nenvironment;
    tc_str *roots; /* executable_search_roots: become PATH; none: leave PATH alone */
    size_t nroots;
    uint64_t max_script_bytes;
    bool allows_login;
} tci_shell_profile;

typedef struct tci_monitored_fs {
    tc_str name, path;
} tci_monitored_fs;

struct tci_connect_plan;
struct tci_runtime_dir;

typedef struct tci_config {
    tci_arena arena; /* owns every string below */
    bool is_drop_in; /* started under the name a13n-envd */
    tc_str program;  /* "telechird" or "a13n-envd", for messages */

    tc_str device_id;                 /* empty: the persisted one */
    tc_str name;                      /* empty: none */
    tc_str description;               /* empty: none */
    tc_str default_working_directory; /* canonical, absolute */
    tc_str state_dir;                 /* absolute; holds device-id */
    tc_str runtime_dir;               /* absolute */
    bool directory_discovery;
    bool full_control;
    tc_str *roots; /* trusted_executable_roots; with full control the directories of PATH */
    size_t nroots;
    tci_shell_profile *profiles;
    size_t nprofiles;
    bool has_commands; /* full control, roots or profiles */
    uint64_t idle_timeout_ms, disconnect_grace_ms;
    tci_limits limits;

    bool has_monitoring;
    uint64_t sample_interval_ms;
    tci_monitored_fs *filesystems;
    size_t nfilesystems;
    tc_str cgroup_v2_directory; /* empty: none */

    tci_transport transport;
    tc_str http_bind; /* numeric ip:port */
    tci_secret http_credential;
    tc_str http_tls_cert_file, http_tls_key_file; /* both or neither */
    tc_str ws_url;                                /* of the Host, for reverse_websocket */
    tc_str ws_credential_file;                    /* read before every attempt */
    tc_str ws_credential_name;                    /* what said so, for messages */
    tc_str ws_ca_file;                            /* empty: only the system's roots */
    struct tci_connect_plan *connect; /* with TCI_CONFIG_CONNECT: see daemon/connect.h */
    /* Taken already, for the device to take over; NULL: it takes runtime_dir itself. */
    struct tci_runtime_dir *runtime;
    /* Names of variables that must not reach commands (exporter variables that are set). */
    tc_str *hidden_variables;
    size_t nhidden_variables;
} tci_config;

typedef enum tci_config_action {
    TCI_CONFIG_SERVE,
    TCI_CONFIG_HELP,    /* print text to standard output, exit 0 */
    TCI_CONFIG_VERSION, /* likewise */
    TCI_CONFIG_UPDATE,  /* text is what update prints on standard output, exit 0 */
    TCI_CONFIG_CONNECT  /* tci_connect, then serve */
} tci_config_action;

/* Read everything: argv, the environment, the file, the credential. Checks every rule, so that a
 * configuration that is returned can be served; a boundary that is not built is UNSUPPORTED with a
 * hint. argv and envp are the program's. ret_text (in the arena of ret) goes with actions that print.
 * The message of err is what follows "a13n-envd failed: ". */
/* On failure program and is_drop_in are set all the same, and tci_config_done may be called. */
int tci_config_load(int argc, char *const *argv, char *const *envp, tci_config *ret,
                    tci_config_action *ret_action, tc_str *ret_text, tc_err *err) TC_CHECKED;
void tci_config_done(tci_config *config);

/* What a credential file holds, checked: a regular file, no link, 1 to 8192 bytes without white space
 * or control characters, but for one line end. where names the setting in messages. Any thread.
 * Errors: INVALID (what it holds), and what reading says. */
int tci_config_read_credential(tc_str where, tc_str path, tci_secret *ret, tc_err *err) TC_CHECKED;

#endif
