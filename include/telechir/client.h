/* SPDX-License-Identifier: Apache-2.0
 *
 * The EIP client: a connection to a device (a running daemon), and sessions on it.
 *
 * A device is checked when it is connected (its name, protocol 0.3, its identity) and stays what it
 * was then: an answer that contradicts it, or breaks the protocol in any way, ends the session or
 * the connection with PROTOCOL. Nothing is sent twice: after a lost link each change reports
 * through its evidence whether it was done, provably not started, or may have happened. */
#ifndef TELECHIR_CLIENT_H
#define TELECHIR_CLIENT_H

#include <telechir/hand.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- the device ---- */

typedef struct tc_device tc_device;

/* For every way to connect. Zero is the default everywhere.
 *   expected_device_id   empty: any; otherwise another device is INCOMPATIBLE
 *   initialize_timeout_ms   10 s
 *   response_grace_ms    how long an answer may be late after the other side's own deadline: 30 s
 *   max_request_bytes, max_response_bytes, max_frame_bytes   our ceilings, narrowed to the
 *                        device's limits: 16 MiB, 64 MiB, 4 MiB */
typedef struct tc_device_options {
    size_t size;
    tc_str expected_device_id;
    int64_t initialize_timeout_ms, response_grace_ms;
    uint64_t max_request_bytes, max_response_bytes, max_frame_bytes;
} tc_device_options;

/* A daemon child that speaks on its standard input and output.
 *   program, args   what to run; without the program itself in args
 *   set_env         added to the runtime's environment, which the child inherits unless
 *                   is_env_clear
 *   unset_env       variables the child must not see
 *   cwd             empty: ours
 *   runtime_dir     set as A13N_ENVD_RUNTIME_DIR; empty: not set
 *   on_stderr       gets the child's standard error, on the loop thread, do not block; NULL: the
 *                   last 4 KiB are kept for error messages only
 *   drain_ms        how long the child may take to end by itself when closed, before it is
 *                   killed: 11 s */
typedef struct tc_spawn_options {
    size_t size;
    tc_str program;
    const tc_str *args;
    size_t nargs;
    bool is_env_clear;
    const tc_pair *set_env;
    size_t nset_env;
    const tc_str *unset_env;
    size_t nunset_env;
    tc_str cwd, runtime_dir;
    void (*on_stderr)(void *user, const void *bytes, size_t len);
    void *stderr_user;
    int64_t drain_ms;
} tc_spawn_options;

/* Start a daemon and initialize. It ends with the device handle.
 * Errors: START_FAILED, CONNECT (ended early; the message has its last words), INCOMPATIBLE,
 * TIMEOUT, PROTOCOL. */
TC_API int tc_device_spawn(tc_runtime *rt, tc_ctx *ctx, const tc_spawn_options *spawn,
                           const tc_device_options *options, tc_device **ret_device,
                           tc_err *err) TC_CHECKED;

/* A daemon at the other end of two descriptors (which may be one and the same). They are taken
 * over, also on failure. */
TC_API int tc_device_adopt_own(tc_runtime *rt, tc_ctx *ctx, int read_fd, int write_fd,
                               const tc_device_options *options, tc_device **ret_device,
                               tc_err *err) TC_CHECKED;

/* A daemon behind HTTP(S).
 *   endpoint    an origin, "https://host[:port]": no path, query or user. http only for loopback
 *               addresses, or with allow_plaintext_private_link
 *   path        below which path of the endpoint EIP is served, for a daemon behind something else:
 *               "/api/devices/work/" for one behind a Host. Empty: "/"
 *   credential, credential_file   exactly one; from the file one newline at the end is dropped
 *   ca_file     PEM, instead of the system's authorities
 *   insecure_no_verify   do not check the certificate; so does A13N_OUTBOUND_TLS_VERIFY=false
 *   tls_setup   called with the SSL_CTX of the TLS library before it is first used, for client
 *               certificates and the like; 0 or an error code
 * https goes through the proxies of the environment; http never does. */
typedef struct tc_http_options {
    size_t size;
    tc_str endpoint;
    tc_str credential, credential_file;
    tc_str ca_file;
    bool insecure_no_verify, allow_plaintext_private_link;
    int (*tls_setup)(void *user, void *ssl_ctx, tc_err *err);
    void *tls_user;
    tc_str path;
} tc_http_options;

/* INVALID for options that break a rule above, without any I/O but reading the files. */
TC_API int tc_device_connect_http(tc_runtime *rt, tc_ctx *ctx, const tc_http_options *http,
                                  const tc_device_options *options, tc_device **ret_device,
                                  tc_err *err) TC_CHECKED;
/* The checks of tc_device_connect_http alone. */
TC_API int tc_http_options_check(const tc_http_options *http, tc_err *err) TC_CHECKED;

/* Another reference to the same connection; each is closed once. */
TC_API tc_device *tc_device_retain(tc_device *d);
/* Drop a reference; the last one ends the connection (a spawned daemon closes its sessions and
 * ends). Sessions that are still open stop with CLOSED. NULL is fine. */
TC_API void tc_device_close(tc_device *d);
/* False once the link is lost or broken; the device then never comes back. */
TC_API bool tc_device_is_alive(const tc_device *d);

typedef struct tc_limits {
    uint64_t max_request_bytes, max_response_bytes;
    uint64_t max_concurrent_operations, max_processes, max_operation_duration_ms;
    uint64_t max_output_preview_bytes, max_output_bytes_per_stream;
    uint64_t max_transfer_frame_bytes, max_concurrent_file_transfers;
    uint64_t max_file_transfer_bytes, max_file_bytes;
} tc_limits;

typedef struct tc_system_info {
    tc_str os, os_version, kernel_version, architecture, cpu_model;
} tc_system_info;

typedef struct tc_device_info {
    tc_str device_id;
    uint64_t generation;
    tc_str display_name, description;
    bool is_windows; /* path style */
    tc_str default_working_directory;
    bool can_list_directories;
    tc_strs available_methods;
    tc_limits limits;
    uint64_t idle_timeout_ms, disconnect_grace_ms;
    tc_boundary boundary;
    tc_system_info system;
} tc_device_info;

/* As it was when connected; lives as long as the device. */
TC_API const tc_device_info *tc_device_get_info(const tc_device *d);
/* Whether the device offers a method: "shell.exec". */
TC_API bool tc_device_has_method(const tc_device *d, tc_str method);

/* Ask again; only limits and methods may differ from before. */
TC_API int tc_device_describe(tc_device *d, const tc_call *call, tc_device_info *ret_info,
                              tc_err *err) TC_CHECKED;

typedef struct tc_directory_entry {
    tc_str name, path;
} tc_directory_entry;

typedef struct tc_directory_page {
    tc_str path;        /* canonical */
    tc_str parent_path; /* empty at the root */
    const tc_directory_entry *entries;
    size_t count;
    bool has_more;
    uint64_t next_offset;
} tc_directory_page;

/* The directories in a directory, without a session. limit 0: 100. */
TC_API int tc_device_list_directory(tc_device *d, const tc_call *call, tc_str path, uint64_t offset,
                                    uint64_t limit, tc_directory_page *ret_page,
                                    tc_err *err) TC_CHECKED;

typedef struct tc_device_metrics_info {
    uint64_t sample_interval_ms;
    bool has_sample;
    uint64_t sequence, sample_age_ms;
    tc_time sampled_at;
    tc_str sample_json; /* the whole sample, canonical JSON */
} tc_device_metrics_info;

TC_API int tc_device_metrics(tc_device *d, const tc_call *call, tc_device_metrics_info *ret_metrics,
                             tc_err *err) TC_CHECKED;

/* ---- sessions ---- */

typedef struct tc_session tc_session;

/*   working_directory   empty: the device's default
 *   required_methods    refused as UNSUPPORTED when one is missing
 *   egress              needed on a device with controlled egress, forbidden on others
 *   without_keepalive   do not keep an idle session alive */
typedef struct tc_session_options {
    size_t size;
    tc_str working_directory;
    tc_strs required_methods;
    const tc_egress_policy *egress;
    bool without_keepalive;
} tc_session_options;

/* Open a session of our own and make it ready. */
TC_API int tc_session_open(tc_device *d, tc_ctx *ctx, const tc_session_options *options,
                           tc_session **ret_session, tc_err *err) TC_CHECKED;
/* Take up a session of the same generation again, by its id. Nothing is replayed. */
TC_API int tc_session_attach(tc_device *d, tc_ctx *ctx, tc_str session_id, uint64_t generation,
                             tc_session **ret_session, tc_err *err) TC_CHECKED;
/* End it on the other side (commands killed, output deleted) and free the handle, in any case.
 * 0 also when it had ended before; CLEANUP_FAILED or a link's error when the end could not be
 * confirmed. ctx NULL: at most 5 s. NULL is fine. */
TC_API int tc_session_close(tc_session *s, tc_ctx *ctx, tc_err *err);
/* Free the handle and leave the session on the other side, for somebody to attach. */
TC_API void tc_session_detach(tc_session *s);
TC_API bool tc_session_is_alive(const tc_session *s);
TC_API tc_device *tc_session_device(const tc_session *s);

typedef struct tc_shell_profile {
    tc_str profile_id, display_name;
    bool supports_login;
    uint64_t max_script_bytes;
} tc_shell_profile;

typedef struct tc_session_info {
    tc_str device_id, session_id;
    uint64_t generation;
    tc_str working_directory;
    tc_strs available_methods;
    tc_limits limits;
    const tc_shell_profile *profiles;
    size_t nprofiles;
    bool can_interrupt, can_terminate;
    uint64_t idle_timeout_ms, disconnect_grace_ms;
    bool has_egress;
    tc_egress_status egress;
    tc_boundary boundary;
} tc_session_info;

/* As it was when opened; lives as long as the session. */
TC_API const tc_session_info *tc_session_get_info(const tc_session *s);
TC_API bool tc_session_has_method(const tc_session *s, tc_str method);

/* environment.describe: methods and limits may have shrunk, egress is live. */
TC_API int tc_session_describe(tc_session *s, const tc_call *call, tc_session_info *ret_info,
                               tc_err *err) TC_CHECKED;
TC_API int tc_session_is_ready(tc_session *s, const tc_call *call, bool *ret_is_ready,
                               tc_err *err) TC_CHECKED;
TC_API int tc_session_keepalive(tc_session *s, tc_ctx *ctx, tc_err *err) TC_CHECKED;

typedef enum tc_cancel_status {
    TC_CANCEL_NOT_FOUND = 0,
    TC_CANCEL_ALREADY_ENDED,
    TC_CANCEL_REQUESTED,
    TC_CANCEL_NOT_POSSIBLE
} tc_cancel_status;
TC_API int tc_session_cancel(tc_session *s, const tc_call *call, tc_str target_operation_id,
                             tc_cancel_status *ret_status, tc_err *err) TC_CHECKED;

/* Ask what became of a change of this session, by its operation id. Never repeats it.
 *   DONE         there is a receipt (in *ret_receipt; its outcome says how it ended)
 *   UNKNOWN      there is none: never arrived, still running, or its record is gone
 * A failing call returns its error, and nothing is learned. ret_receipt may be NULL. */
TC_API int tc_session_reconcile(tc_session *s, const tc_call *call, tc_str operation_id,
                                tc_outcome *ret_outcome, tc_receipt *ret_receipt,
                                tc_err *err) TC_CHECKED;

TC_API int tc_session_update_egress(tc_session *s, const tc_call *call,
                                    const tc_egress_update *update, tc_egress_status *ret_status,
                                    tc_err *err) TC_CHECKED;

/* ---- files ---- */

TC_API int tc_session_stat(tc_session *s, const tc_call *call, tc_str path, bool follow_symlink,
                           tc_file_info *ret_info, tc_err *err) TC_CHECKED;
TC_API int tc_session_read_text(tc_session *s, const tc_call *call, tc_str path,
                                const tc_read_text_options *options, tc_text_page *ret_page,
                                tc_err *err) TC_CHECKED;
TC_API int tc_session_list(tc_session *s, const tc_call *call, tc_str path,
                           const tc_list_options *options, tc_file_page *ret_page,
                           tc_err *err) TC_CHECKED;
TC_API int tc_session_find(tc_session *s, const tc_call *call, tc_str root, tc_str pattern,
                           const tc_find_options *options, tc_file_page *ret_page,
                           tc_err *err) TC_CHECKED;
TC_API int tc_session_search(tc_session *s, const tc_call *call, tc_str root, tc_str query,
                             const tc_search_options *options, tc_search_page *ret_page,
                             tc_err *err) TC_CHECKED;

/* Changes. ret_ pointers may be NULL where the answer does not matter. */
TC_API int tc_session_write_text(tc_session *s, const tc_call *call, tc_str path, tc_str text,
                                 const tc_write_options *options, tc_file_info *ret_info,
                                 tc_err *err) TC_CHECKED;
/* A unified diff; matches exactly or not at all (CONFLICT). */
TC_API int tc_session_patch_text(tc_session *s, const tc_call *call, tc_str path, tc_str patch,
                                 uint64_t *ret_nhunks, tc_file_info *ret_info,
                                 tc_err *err) TC_CHECKED;
TC_API int tc_session_mkdir(tc_session *s, const tc_call *call, tc_str path, bool with_parents,
                            bool exist_ok, uint64_t *ret_ncreated, tc_file_info *ret_info,
                            tc_err *err) TC_CHECKED;
TC_API int tc_session_copy(tc_session *s, const tc_call *call, tc_str source, tc_str destination,
                           bool replace, uint64_t *ret_nbytes, tc_file_info *ret_info,
                           tc_err *err) TC_CHECKED;
TC_API int tc_session_move(tc_session *s, const tc_call *call, tc_str source, tc_str destination,
                           bool replace, tc_file_info *ret_info, tc_err *err) TC_CHECKED;
/* max_entries: a recursive removal of more is QUOTA and removes nothing; 0: 1. */
TC_API int tc_session_remove(tc_session *s, const tc_call *call, tc_str path, tc_file_kind kind,
                             bool is_recursive, uint64_t max_entries, uint64_t *ret_nremoved,
                             tc_err *err) TC_CHECKED;

/* Stream a file to sink, with bounded memory. Count and digest are compared with the other side's:
 * INTEGRITY when they differ (the sink has seen the bytes by then). range NULL: all of it.
 * ret_transfer may be NULL. */
TC_API int tc_session_download(tc_session *s, const tc_call *call, tc_str path,
                               const tc_range *range, tc_sink sink, void *user,
                               tc_transfer *ret_transfer, tc_err *err) TC_CHECKED;
/* The same into memory of the result; TOO_BIG over max_bytes. */
TC_API int tc_session_download_bytes(tc_session *s, const tc_call *call, tc_str path,
                                     const tc_range *range, uint64_t max_bytes, tc_str *ret_bytes,
                                     tc_err *err) TC_CHECKED;
/* The same into a descriptor, from its current position on. */
TC_API int tc_session_download_fd(tc_session *s, const tc_call *call, tc_str path,
                                  const tc_range *range, int fd, tc_transfer *ret_transfer,
                                  tc_err *err) TC_CHECKED;
/* Stream a file from source; it appears at path whole or not at all. The operation id of the call
 * is that of the commit. */
TC_API int tc_session_upload(tc_session *s, const tc_call *call, tc_str path,
                             const tc_write_options *options, tc_source source, void *user,
                             tc_transfer *ret_transfer, tc_err *err) TC_CHECKED;
TC_API int tc_session_upload_bytes(tc_session *s, const tc_call *call, tc_str path,
                                   const tc_write_options *options, tc_str bytes,
                                   tc_transfer *ret_transfer, tc_err *err) TC_CHECKED;
TC_API int tc_session_upload_fd(tc_session *s, const tc_call *call, tc_str path,
                                const tc_write_options *options, int fd, tc_transfer *ret_transfer,
                                tc_err *err) TC_CHECKED;

/* ---- commands ---- */

/* Run and wait. Exit status, signal, time-out and cancel are results, not errors. */
TC_API int tc_session_exec(tc_session *s, const tc_call *call, const tc_command *command,
                           tc_exec_result *ret_result, tc_err *err) TC_CHECKED;
TC_API int tc_session_process_start(tc_session *s, const tc_call *call, const tc_command *command,
                                    tc_process *ret_process, tc_err *err) TC_CHECKED;
TC_API int tc_session_process_inspect(tc_session *s, const tc_call *call, tc_str handle,
                                      tc_process *ret_process, tc_err *err) TC_CHECKED;
/* Until it ended (and, with tree_cleaned, all it started is gone). TIMEOUT leaves it running. */
TC_API int tc_session_process_wait(tc_session *s, const tc_call *call, tc_str handle,
                                   bool tree_cleaned, tc_process *ret_process,
                                   tc_err *err) TC_CHECKED;
TC_API int tc_session_process_write(tc_session *s, const tc_call *call, tc_str handle, tc_str data,
                                    bool close_after, uint64_t *ret_naccepted,
                                    tc_err *err) TC_CHECKED;
TC_API int tc_session_process_close_stdin(tc_session *s, const tc_call *call, tc_str handle,
                                          tc_err *err) TC_CHECKED;
/* INTERRUPT or TERMINATE. *ret_accepted is false when it had ended already. */
TC_API int tc_session_process_signal(tc_session *s, const tc_call *call, tc_str handle,
                                     tc_signal sig, bool *ret_accepted, tc_process *ret_process,
                                     tc_err *err) TC_CHECKED;
TC_API int tc_session_process_kill(tc_session *s, const tc_call *call, tc_str handle,
                                   tc_process *ret_process, tc_err *err) TC_CHECKED;
TC_API int tc_session_process_release(tc_session *s, const tc_call *call, tc_str handle,
                                      tc_err *err) TC_CHECKED;

/* One page from start_offset on; waits up to wait_ms for more when at the end of a live stream. */
TC_API int tc_session_output_read(tc_session *s, const tc_call *call, tc_str reference,
                                  uint64_t start_offset, uint64_t wait_ms, tc_output_page *ret_page,
                                  tc_err *err) TC_CHECKED;
/* All of it, from start_offset until the producer ended, to sink. *ret_output: as it was at the
 * end. */
TC_API int tc_session_output_follow(tc_session *s, const tc_call *call, tc_str reference,
                                    uint64_t start_offset, tc_sink sink, void *user,
                                    tc_output *ret_output, tc_err *err) TC_CHECKED;
TC_API int tc_session_output_release(tc_session *s, const tc_call *call, tc_str reference,
                                     tc_err *err) TC_CHECKED;

/* ---- ports ---- */

TC_API int tc_session_port_inspect(tc_session *s, const tc_call *call, uint16_t port,
                                   tc_port_address address, tc_port *ret_port,
                                   tc_err *err) TC_CHECKED;
/* Until the port is (or is not) listening. The call must have a deadline. */
TC_API int tc_session_port_wait(tc_session *s, const tc_call *call, uint16_t port,
                                tc_port_address address, tc_port_status desired, tc_port *ret_port,
                                tc_err *err) TC_CHECKED;

/* ---- anything else ---- */

/* Any other session method by name, JSON in and out, checked against the tables like the rest:
 * for what has no function of its own here. params_json is an object without "context", which is
 * put in when the method takes one. UNSUPPORTED when the session does not offer it. */
TC_API int tc_session_call_json(tc_session *s, const tc_call *call, tc_str method,
                                tc_str params_json, tc_str *ret_result_json,
                                tc_err *err) TC_CHECKED;

#ifdef __cplusplus
}
#endif
#endif
