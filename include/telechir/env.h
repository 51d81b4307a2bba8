/* SPDX-License-Identifier: Apache-2.0
 *
 * An execution environment: the file system and shell that an agent's tools act on, wherever it
 * is. One interface, several providers.
 *
 * Life of an adapter: create (checks only, nothing is contacted) -> ready (connects and opens a
 * session of its own) -> operations -> close (ends only that session). The device connection and
 * the runtime belong to the program and outlive adapters. After a failed ready the adapter is dead:
 * make a new one. An operation on an adapter that is not ready, or whose link is lost, fails;
 * nothing ever runs on the local machine instead.
 *
 * A lazy adapter (ssh, and local when asked for) needs no ready: its first operation connects. A
 * failure to connect is that operation's, and the next one tries again; so does one after a lost
 * link. What depends on the lost session (readers, handles of processes) stays lost.
 *
 * The methods of the ExecutionEnv interface are in telechir/execution_env.h; here is how
 * environments are made, and what they do beyond that interface. Paths are as tc_env_absolute_path
 * takes them. */
#ifndef TELECHIR_ENV_H
#define TELECHIR_ENV_H

#include <telechir/client.h>
#include <telechir/connections.h>
#include <telechir/execution_env.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- what a program asks for ---- */

/* A reference to a secret; never the secret. kind "environment": a variable of the program's
 * environment, or whatever the runtime's resolver makes of it. It is resolved anew for every session,
 * right before that is opened; ready fails (NOT_FOUND) when its source is missing or empty. What is
 * kept, saved and described has the reference only.
 *   inject_hosts   host names it may go to; with an allowlist, among its hosts */
typedef struct tc_secret_ref {
    tc_str env; /* the variable commands see its placeholder in */
    tc_str kind, name;
    tc_strs inject_hosts;
} tc_secret_ref;

typedef struct tc_egress_recipe {
    tc_destinations destinations;
    const tc_secret_ref *secrets;
    size_t nsecrets;
} tc_egress_recipe;

/* What the device's boundary must be: it demands, it does not change. Grants are compared exactly. */
typedef struct tc_expected_boundary {
    bool is_restricted;
    bool full_disk_read;
    const tc_grant *grants; /* canonical paths */
    size_t ngrants;
    tc_egress_mode egress;
    bool check_privilege_gain, privilege_gain_blocked;
    bool check_identity;
    uint32_t uid, gid;
} tc_expected_boundary;

/* The recipe of an environment. Copied by create.
 *   environment_id      the program's own name for it, not the device's; required
 *   working_directory   absolute; empty: the device's default
 *   egress, expected_boundary   NULL: none
 *   state               an envelope from tc_env_state, JSON; what the provider needs to find its
 *                       device again; required for http_envd and websocket_envd
 *   allow_create        may the provider make a machine? Providers for existing devices refuse true
 *                       with UNSUPPORTED before anything else happens
 *   required_methods    in addition to what files need
 *   files_id            the namespace of its files (tc_env_files_id); empty: the provider's own
 *   shell_path          of scripts given to tc_env_exec; empty: bash where there is one, else sh
 *   shell_env           variables of every tc_env_exec that inherits, below its own */
typedef struct tc_env_options {
    size_t size;
    tc_str environment_id;
    tc_str working_directory;
    const tc_egress_recipe *egress;
    const tc_expected_boundary *expected_boundary;
    tc_str state;
    bool allow_create;
    tc_strs required_methods;
    tc_str files_id;
    tc_str shell_path;
    const tc_pair *shell_env;
    size_t nshell_env;
} tc_env_options;

/* working_directory, egress and expected_boundary of a recipe from the JSON that a configuration holds:
 *   {"working_directory":"/w",
 *    "egress":{"destinations":{"mode":"public"}  or  {"mode":"allowlist","hosts":["api.example.com"]},
 *              "secrets":[{"env":"TOKEN","source":{"kind":"environment","name":"HOST_TOKEN"},
 *                          "inject_hosts":["api.example.com"]}]},
 *    "expected_boundary":{"sandbox":{"mode":"disabled"}  or  {"mode":"restricted","grants":[
 *                           {"path":"/w","access":"read_write"}],"full_disk_read":false},
 *                         "egress":"inherit"|"deny"|"controlled",
 *                         "identity":{"uid":1,"gid":1},"privilege_gain_blocked":true}}
 * Members may be left out, but for the ones of destinations, source, sandbox and the modes; others, a
 * secret's value among them, are refused. What it makes lives in r; the rest of options stays.
 * Errors: PARSE, INVALID, TOO_BIG. */
TC_API int tc_env_recipe_parse(tc_str json, tc_result *r, tc_env_options *options,
                               tc_err *err) TC_CHECKED;

/* How a local daemon is launched.
 *   executable     empty: the program "telechird" beside the running one, then
 *                  TELECHIRD_EXECUTABLE, A13N_ENVD_EXECUTABLE, then "telechird" and "a13n-envd" on
 *                  PATH
 *   runtime_dir    empty: a fresh private folder, removed afterwards
 *   config_json    more configuration for the daemon, a JSON object (A13N_ENVD_CONFIG_JSON)
 *   device_id      empty: the daemon's own
 *   full_control   commands without restriction; without it a local daemon serves files only */
typedef struct tc_local_envd_options {
    size_t size;
    tc_str executable, runtime_dir, config_json, device_id;
    bool full_control;
} tc_local_envd_options;

/* Check a recipe for a local daemon child. Adapters of one runtime with equal launch options share
 * one daemon. Variables that egress secrets refer to are kept out of the daemon's environment.
 * Errors: INVALID, UNSUPPORTED, TOO_BIG. */
TC_API int tc_env_create_local(tc_runtime *rt, const tc_env_options *options,
                               const tc_local_envd_options *local, tc_env **ret_env,
                               tc_err *err) TC_CHECKED;

/* A daemon child of this program that speaks pi-env: provider "local".
 *   executable    as above
 *   is_lazy       started by the first operation instead of ready */
typedef struct tc_local_pi_options {
    size_t size;
    tc_str executable;
    bool is_lazy;
} tc_local_pi_options;

/* Check a recipe for this machine as this user, without any boundary: everything of the ExecutionEnv
 * interface natively. Its files_id is "local" unless the recipe says otherwise. Adapters of one
 * runtime for the same program share one daemon; when that dies, the next operation starts another. tc_env_create_local is the
 * other local provider, "local_envd", which speaks EIP and can have a boundary.
 * Errors: INVALID, UNSUPPORTED (egress, a restricted boundary, a state), NOT_FOUND (no program). */
TC_API int tc_env_create_local_pi(tc_runtime *rt, const tc_env_options *options,
                                  const tc_local_pi_options *local, tc_env **ret_env,
                                  tc_err *err) TC_CHECKED;

/* Check a recipe for a daemon that is already running behind HTTP(S). Nothing is contacted, and the
 * credential file is not read, before ready. Adapters of one runtime for the same endpoint, device
 * and way of connecting share one connection. */
TC_API int tc_env_create_http(tc_runtime *rt, const tc_env_options *options,
                              const tc_http_options *http, tc_env **ret_env,
                              tc_err *err) TC_CHECKED;

/* Where a daemon that dials in is to be found.
 *   connections             those the program's listener attaches to, of the same runtime; they may be
 *                           closed before the adapter. NULL: an adapter that never becomes ready, and
 *                           says so
 *   connection_timeout_ms   how long ready waits for the daemon to dial in: 30 s */
typedef struct tc_websocket_options {
    size_t size;
    tc_connections *connections;
    int64_t connection_timeout_ms;
} tc_websocket_options;

/* Check a recipe for a daemon that dials in. Nothing is looked for before ready, which waits for the
 * daemon's connection and opens a session of its own on it. Adapters share the connection; closing one
 * ends its session only. websocket may be NULL. */
TC_API int tc_env_create_websocket(tc_runtime *rt, const tc_env_options *options,
                                   const tc_websocket_options *websocket, tc_env **ret_env,
                                   tc_err *err) TC_CHECKED;

/* An environment on a connection the program already holds (the device is retained). */
TC_API int tc_env_create_on_device(tc_device *d, const tc_env_options *options, tc_env **ret_env,
                                   tc_err *err) TC_CHECKED;

/* {"provider_key":"http_envd","state":{"device_id":"..."},"state_version":"1"}: all that needs
 * saving. It holds no secret, endpoint, session or generation. PARSE, INVALID, INCOMPATIBLE
 * (another provider or version). */
TC_API int tc_env_state_make(tc_str provider_key, tc_str device_id, tc_result *r, tc_str *ret_json,
                             tc_err *err) TC_CHECKED;
TC_API int tc_env_state_check(tc_str json, tc_str provider_key, tc_result *r, tc_str *ret_device_id,
                              tc_err *err) TC_CHECKED;

/* ---- life ---- */

/* Connect, check device and boundary, open a session. Once; a second call on a ready adapter is 0.
 * After a failure every call answers NOT_READY; but a lazy adapter may be tried again. */
TC_API int tc_env_ready(tc_env *env, tc_ctx *ctx, tc_err *err) TC_CHECKED;
/* Of a lazy adapter: it has been connected. */
TC_API bool tc_env_is_ready(const tc_env *env);

/* Counted references: each holder releases once, the last release closes. */
TC_API tc_env *tc_env_retain(tc_env *env);
/* Close: end the session and free what it held; other holders then get CLOSED. Idempotent. */
TC_API int tc_env_close(tc_env *env, tc_ctx *ctx, tc_err *err);
TC_API void tc_env_release(tc_env *env); /* NULL is fine */
/* Kill every command that this adapter started and that still runs. */
TC_API int tc_env_cleanup(tc_env *env, tc_ctx *ctx, tc_err *err) TC_CHECKED;

/* Facts; texts live as long as the env. */
TC_API tc_str tc_env_id(const tc_env *env);       /* the program's environment_id */
TC_API tc_str tc_env_provider(const tc_env *env); /* "local", "local_envd", ... */
/* The namespace of its files, the "id" of the ExecutionEnv interface: equal for adapters that see the
 * same files at equal paths. Changes to one file are to be made one after another within it. */
TC_API tc_str tc_env_files_id(const tc_env *env);
TC_API tc_str tc_env_cwd(const tc_env *env); /* empty before ready unless asked for */
/* Assign it: the base of relative paths and the folder of commands from now on. Absolute; it need
 * not exist. */
TC_API int tc_env_set_cwd(tc_env *env, tc_str cwd, tc_err *err) TC_CHECKED;
TC_API tc_str tc_env_device_id(const tc_env *env);    /* empty before ready unless given */
TC_API uint64_t tc_env_generation(const tc_env *env); /* 0 before ready */
TC_API tc_str tc_env_session_id(const tc_env *env);   /* empty before ready */
TC_API bool tc_env_can_exec(const tc_env *env);       /* commands are offered */
/* The boundary it runs in; NULL before ready. */
TC_API const tc_boundary *tc_env_boundary(const tc_env *env);
/* The state envelope to save. NOT_READY while the device is not known. */
TC_API int tc_env_state(const tc_env *env, tc_result *r, tc_str *ret_json, tc_err *err) TC_CHECKED;

/* ---- paths and files ---- */

TC_API int tc_env_stat(tc_env *env, const tc_call *call, tc_str path, bool follow_symlink,
                       tc_file_info *ret_info, tc_err *err) TC_CHECKED;
/* false when it is not there. */
TC_API int tc_env_exists(tc_env *env, const tc_call *call, tc_str path, bool *ret_exists,
                         tc_err *err) TC_CHECKED;
TC_API int tc_env_list(tc_env *env, const tc_call *call, tc_str path,
                       const tc_list_options *options, tc_file_page *ret_page,
                       tc_err *err) TC_CHECKED;
TC_API int tc_env_find(tc_env *env, const tc_call *call, tc_str root, tc_str pattern,
                       const tc_find_options *options, tc_file_page *ret_page,
                       tc_err *err) TC_CHECKED;
TC_API int tc_env_search(tc_env *env, const tc_call *call, tc_str root, tc_str query,
                         const tc_search_options *options, tc_search_page *ret_page,
                         tc_err *err) TC_CHECKED;
TC_API int tc_env_read_text(tc_env *env, const tc_call *call, tc_str path,
                            const tc_read_text_options *options, tc_text_page *ret_page,
                            tc_err *err) TC_CHECKED;
/* The whole file as tc_env_read_stream, without a digest. ret_info: what is known of it when it is
 * opened, before the first byte comes; over EIP only its path. */
TC_API int tc_env_read_file(tc_env *env, const tc_call *call, tc_str path, tc_sink sink, void *user,
                            tc_file_info *ret_info, tc_err *err) TC_CHECKED;
/* Whole content, or a range of it, into the result; TOO_BIG over max_bytes (0: 64 MiB). */
TC_API int tc_env_read(tc_env *env, const tc_call *call, tc_str path, const tc_range *range,
                       uint64_t max_bytes, tc_str *ret_bytes, tc_err *err) TC_CHECKED;
TC_API int tc_env_read_stream(tc_env *env, const tc_call *call, tc_str path, const tc_range *range,
                              tc_sink sink, void *user, tc_transfer *ret_transfer,
                              tc_err *err) TC_CHECKED;
TC_API int tc_env_write_text(tc_env *env, const tc_call *call, tc_str path, tc_str text,
                             const tc_write_options *options, tc_file_info *ret_info,
                             tc_err *err) TC_CHECKED;
TC_API int tc_env_write(tc_env *env, const tc_call *call, tc_str path, tc_str bytes,
                        const tc_write_options *options, tc_transfer *ret_transfer,
                        tc_err *err) TC_CHECKED;
TC_API int tc_env_write_stream(tc_env *env, const tc_call *call, tc_str path,
                               const tc_write_options *options, tc_source source, void *user,
                               tc_transfer *ret_transfer, tc_err *err) TC_CHECKED;
/* After writes with no_sync: everything of the file system that path is on, on stable storage.
 * Providers whose every write is synced have nothing left to do. */
TC_API int tc_env_sync(tc_env *env, const tc_call *call, tc_str path, tc_err *err) TC_CHECKED;
TC_API int tc_env_patch(tc_env *env, const tc_call *call, tc_str path, tc_str patch,
                        uint64_t *ret_nhunks, tc_file_info *ret_info, tc_err *err) TC_CHECKED;
TC_API int tc_env_mkdir(tc_env *env, const tc_call *call, tc_str path, bool with_parents,
                        bool exist_ok, tc_err *err) TC_CHECKED;
TC_API int tc_env_copy(tc_env *env, const tc_call *call, tc_str source, tc_str destination,
                       bool replace, tc_file_info *ret_info, tc_err *err) TC_CHECKED;
TC_API int tc_env_move(tc_env *env, const tc_call *call, tc_str source, tc_str destination,
                       bool replace, tc_file_info *ret_info, tc_err *err) TC_CHECKED;
/* max_entries as in tc_session_remove; 0: 1, or 10000 when recursive. */
TC_API int tc_env_remove(tc_env *env, const tc_call *call, tc_str path, tc_file_kind kind,
                         bool is_recursive, uint64_t max_entries, uint64_t *ret_nremoved,
                         tc_err *err) TC_CHECKED;

/* ---- commands ---- */

/* Output as it arrives, on the calling thread; each stream in order. Return as tc_sink does; a
 * failure kills the command. */
typedef int (*tc_output_sink)(void *user, tc_stream_kind stream, const void *bytes, size_t len,
                              tc_err *err);

/*   on_output     NULL: output is only collected
 *   max_collect   bytes kept of each stream in the answer; 0: 1 MiB when on_output is NULL, else none
 *   timeout_ms    the command is killed after that, and is_timed_out says so; 0: none of its own
 *   input         live standard input, fed from another thread while this one runs the command;
 *                 NULL: the command's own input and no more. Both: the command's input comes first */
typedef struct tc_run_options {
    size_t size;
    tc_output_sink on_output;
    void *user;
    uint64_t max_collect;
    uint64_t timeout_ms;
    tc_input *input;
} tc_run_options;

typedef struct tc_run_result {
    tc_process_status status;
    bool is_timed_out;
    tc_str out, err;                 /* the first max_collect bytes */
    uint64_t out_nbytes, err_nbytes; /* all that was produced */
    bool is_out_cut, is_err_cut;     /* more was produced than is in out, err */
} tc_run_result;

/* Run to the end, and say how it ended: exit code or signal; failing commands are results. A
 * cancelled or timed out call kills the command. timeout_ms overrules command.wall_time_ms. */
TC_API int tc_env_run(tc_env *env, const tc_call *call, const tc_command *command,
                      const tc_run_options *options, tc_run_result *ret_result,
                      tc_err *err) TC_CHECKED;

/* Commands that outlive the call. Handles belong to this adapter's session. */
TC_API int tc_env_process_start(tc_env *env, const tc_call *call, const tc_command *command,
                                tc_process *ret_process, tc_err *err) TC_CHECKED;
TC_API int tc_env_process_inspect(tc_env *env, const tc_call *call, tc_str handle,
                                  tc_process *ret_process, tc_err *err) TC_CHECKED;
TC_API int tc_env_process_wait(tc_env *env, const tc_call *call, tc_str handle, bool tree_cleaned,
                               tc_process *ret_process, tc_err *err) TC_CHECKED;
TC_API int tc_env_process_write(tc_env *env, const tc_call *call, tc_str handle, tc_str data,
                                bool close_after, uint64_t *ret_naccepted, tc_err *err) TC_CHECKED;
TC_API int tc_env_process_signal(tc_env *env, const tc_call *call, tc_str handle, tc_signal sig,
                                 bool *ret_accepted, tc_err *err) TC_CHECKED;
TC_API int tc_env_process_kill(tc_env *env, const tc_call *call, tc_str handle,
                               tc_process *ret_process, tc_err *err) TC_CHECKED;
/* Forget an ended process and its output. */
TC_API int tc_env_process_release(tc_env *env, const tc_call *call, tc_str handle,
                                  tc_err *err) TC_CHECKED;
TC_API int tc_env_output_read(tc_env *env, const tc_call *call, tc_str reference,
                              uint64_t start_offset, uint64_t wait_ms, tc_output_page *ret_page,
                              tc_err *err) TC_CHECKED;

/* ---- ports ---- */

TC_API int tc_env_port_inspect(tc_env *env, const tc_call *call, uint16_t port,
                               tc_port_address address, tc_port *ret_port, tc_err *err) TC_CHECKED;
/* The call must have a deadline. */
TC_API int tc_env_port_wait(tc_env *env, const tc_call *call, uint16_t port,
                            tc_port_address address, tc_port_status desired, tc_port *ret_port,
                            tc_err *err) TC_CHECKED;

/* ---- changes ---- */

/* What became of a change made through this adapter, by operation id; see tc_session_reconcile. */
TC_API int tc_env_reconcile(tc_env *env, const tc_call *call, tc_str operation_id,
                            tc_outcome *ret_outcome, tc_receipt *ret_receipt,
                            tc_err *err) TC_CHECKED;

#ifdef __cplusplus
}
#endif
#endif
