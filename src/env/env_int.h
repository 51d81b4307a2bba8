/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside of env: entering and leaving an adapter, and the providers over EIP. */
#ifndef TCI_ENV_INT_H
#define TCI_ENV_INT_H

#include "env/env.h"

/* Count a call that uses a ready adapter. */
int tci_env_enter(tc_env *env, tc_err *err) TC_CHECKED;
void tci_env_leave(tc_env *env);

/* NULL, or a struct that begins with a size of at least size bytes. */
int tci_env_options_check(const void *options, size_t size, tc_err *err) TC_CHECKED;

/* ---- providers over EIP ---- */

typedef struct tci_eip_env tci_eip_env;

/* A command that this adapter started and that may still run. */
typedef struct tci_eip_run {
    tci_link link;
    size_t len;
    bool is_process; /* a process handle; else the operation id of a running shell.exec */
    char text[];
} tci_eip_run;

struct tci_eip_env {
    tc_env base;
    tc_device *device;
    tc_session *session;
    /* How to get a device: http_envd and local_envd differ in this. A reference is returned. */
    int (*connect)(tci_eip_env *e, tc_ctx *ctx, tc_device **ret_device, tc_err *err);
    void (*forget)(tci_eip_env *e); /* release the provider's own part; may be NULL */
    void *own;
    bool has_egress, has_expected;
    tc_egress_recipe egress;
    tc_expected_boundary expected;
    tc_strs required_methods;
    tci_list runs; /* of tci_eip_run, under base.lock */
    atomic_uint ncleanups;
};

/* Everything that create checks alike. provider: whose state the envelope must be. */
int tci_eip_env_new(tc_runtime *rt, const tci_env_vtable *v, const tc_env_options *options,
                    bool needs_state, tci_eip_env **ret_env, tc_err *err) TC_CHECKED;
/* What an egress recipe may not be: INVALID (egress_recipe.c). */
int tci_egress_check(const tc_egress_recipe *e, tc_err *err) TC_CHECKED;
/* The operations of an adapter over EIP; a provider copies this and sets its name. */
#define TCI_EIP_ENV_VTABLE(name)                                                            \
    {                                                                                       \
        .provider = {name, sizeof(name) - 1}, .ready = tci_eip_ready, .end = tci_eip_end,   \
        .free = tci_eip_free, .cleanup = tci_eip_cleanup, .can_exec = tci_eip_can_exec,     \
        .methods = &tci_eip_env_methods, .sync = tci_eip_sync, .stat = tci_eip_stat,        \
        .list = tci_eip_list, .find = tci_eip_find, .search = tci_eip_search,               \
        .read_text = tci_eip_read_text, .read_stream = tci_eip_read_stream,                 \
        .write_text = tci_eip_write_text, .write_stream = tci_eip_write_stream,             \
        .patch = tci_eip_patch, .mkdir = tci_eip_mkdir, .copy = tci_eip_copy,               \
        .move = tci_eip_move, .remove = tci_eip_remove, .run = tci_eip_run_command,         \
        .process_start = tci_eip_process_start, .process_inspect = tci_eip_process_inspect, \
        .process_wait = tci_eip_process_wait, .process_write = tci_eip_process_write,       \
        .process_signal = tci_eip_process_signal, .process_kill = tci_eip_process_kill,     \
        .process_release = tci_eip_process_release, .output_read = tci_eip_output_read,     \
        .port_inspect = tci_eip_port_inspect, .port_wait = tci_eip_port_wait,               \
        .reconcile = tci_eip_reconcile,                                                     \
    }

extern const tci_env_methods tci_eip_env_methods;
int tci_eip_sync(tc_env *env, const tc_call *call, tc_str path, tc_err *err);
/* Provider methods (eip_env.c, eip_ops.c, eip_run.c): see tci_env_vtable. */
int tci_eip_ready(tc_env *env, tc_ctx *ctx, tc_err *err);
int tci_eip_end(tc_env *env, tc_ctx *ctx, tc_err *err);
void tci_eip_free(tc_env *env);
int tci_eip_cleanup(tc_env *env, tc_ctx *ctx, tc_err *err);
bool tci_eip_can_exec(const tc_env *env);
int tci_eip_stat(tc_env *env, const tc_call *call, tc_str path, bool follow_symlink,
                 tc_file_info *ret_info, tc_err *err);
int tci_eip_list(tc_env *env, const tc_call *call, tc_str path, const tc_list_options *options,
                 tc_file_page *ret_page, tc_err *err);
int tci_eip_find(tc_env *env, const tc_call *call, tc_str root, tc_str pattern,
                 const tc_find_options *options, tc_file_page *ret_page, tc_err *err);
int tci_eip_search(tc_env *env, const tc_call *call, tc_str root, tc_str query,
                   const tc_search_options *options, tc_search_page *ret_page, tc_err *err);
int tci_eip_read_text(tc_env *env, const tc_call *call, tc_str path,
                      const tc_read_text_options *options, tc_text_page *ret_page, tc_err *err);
int tci_eip_read_stream(tc_env *env, const tc_call *call, tc_str path, const tc_range *range,
                        tc_sink sink, void *user, tc_transfer *ret_transfer, tc_err *err);
int tci_eip_write_text(tc_env *env, const tc_call *call, tc_str path, tc_str text,
                       const tc_write_options *options, tc_file_info *ret_info, tc_err *err);
int tci_eip_write_stream(tc_env *env, const tc_call *call, tc_str path,
                         const tc_write_options *options, tc_source source, void *user,
                         tc_transfer *ret_transfer, tc_err *err);
int tci_eip_patch(tc_env *env, const tc_call *call, tc_str path, tc_str patch, uint64_t *ret_nhunks,
                  tc_file_info *ret_info, tc_err *err);
int tci_eip_mkdir(tc_env *env, const tc_call *call, tc_str path, bool with_parents, bool exist_ok,
                  tc_err *err);
int tci_eip_copy(tc_env *env, const tc_call *call, tc_str source, tc_str destination, bool replace,
                 tc_file_info *ret_info, tc_err *err);
int tci_eip_move(tc_env *env, const tc_call *call, tc_str source, tc_str destination, bool replace,
                 tc_file_info *ret_info, tc_err *err);
int tci_eip_remove(tc_env *env, const tc_call *call, tc_str path, tc_file_kind kind,
                   bool is_recursive, uint64_t max_entries, uint64_t *ret_nremoved, tc_err *err);
int tci_eip_run_command(tc_env *env, const tc_call *call, const tc_command *command,
                        const tc_run_options *options, tc_run_result *ret_result, tc_err *err);
int tci_eip_process_start(tc_env *env, const tc_call *call, const tc_command *command,
                          tc_process *ret_process, tc_err *err);
int tci_eip_process_inspect(tc_env *env, const tc_call *call, tc_str handle,
                            tc_process *ret_process, tc_err *err);
int tci_eip_process_wait(tc_env *env, const tc_call *call, tc_str handle, bool tree_cleaned,
                         tc_process *ret_process, tc_err *err);
int tci_eip_process_write(tc_env *env, const tc_call *call, tc_str handle, tc_str data,
                          bool close_after, uint64_t *ret_naccepted, tc_err *err);
int tci_eip_process_signal(tc_env *env, const tc_call *call, tc_str handle, tc_signal sig,
                           bool *ret_accepted, tc_err *err);
int tci_eip_process_kill(tc_env *env, const tc_call *call, tc_str handle, tc_process *ret_process,
                         tc_err *err);
int tci_eip_process_release(tc_env *env, const tc_call *call, tc_str handle, tc_err *err);
int tci_eip_output_read(tc_env *env, const tc_call *call, tc_str reference, uint64_t start_offset,
                        uint64_t wait_ms, tc_output_page *ret_page, tc_err *err);
int tci_eip_port_inspect(tc_env *env, const tc_call *call, uint16_t port, tc_port_address address,
                         tc_port *ret_port, tc_err *err);
int tci_eip_port_wait(tc_env *env, const tc_call *call, uint16_t port, tc_port_address address,
                      tc_port_status desired, tc_port *ret_port, tc_err *err);
int tci_eip_reconcile(tc_env *env, const tc_call *call, tc_str operation_id,
                      tc_outcome *ret_outcome, tc_receipt *ret_receipt, tc_err *err);

/* Remember and forget what runs. NULL: no memory. */
tci_eip_run *tci_eip_track(tci_eip_env *e, tc_str text, bool is_process);
void tci_eip_untrack(tci_eip_env *e, tci_eip_run *run);
void tci_eip_untrack_handle(tci_eip_env *e, tc_str handle);
/* A process that was started while a cleanup may have gone by: started is what ncleanups was before.
 * Remembered, and killed when the cleanup missed it. */
void tci_eip_track_process(tci_eip_env *e, tc_str handle, unsigned started);

#endif
