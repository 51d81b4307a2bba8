/* SPDX-License-Identifier: Apache-2.0
 *
 * Environments over a pi-env connection, inside. For the files pi_*.c only.
 *
 *   pi_env.c     life, facts, closing handles     pi_ops.c      operations on paths, directories
 *   pi_read.c    open files, reading              pi_write.c    writing
 *   pi_exec.c    commands of the interface        pi_run.c      tc_env_run, and its input
 *   pi_watch.c   watching                         pi_tunnel.c   what only EIP has
 *   pi_many.c    small files, many in flight (many.h) */
#ifndef TCI_ENV_PI_INT_H
#define TCI_ENV_PI_INT_H

#include "env/methods_int.h"
#include "env/pi/pi_env.h"

enum { TCI_PI_FLIGHT = 16, TCI_PI_READER_CHUNK = 256 * 1024, TCI_PI_CHUNK = 128 * 1024 };

typedef struct tci_penv {
    tc_env base;
    tci_pi *pi;
    void (*on_free)(void *user);
    void *user;
    /* under base.lock */
    tci_list running; /* of tci_penv_running */
    tci_list closing; /* of pi_closing: handles whose close is under way */
    bool is_closing;
    tc_env *eip; /* what only EIP has; NULL: not opened, or lost */
} tci_penv;

extern const tci_env_vtable tci_penv_env_vtable;
extern const tci_env_methods tci_penv_methods;

static inline tci_penv *tci_penv_of(tc_env *env)
{
    return TCI_CONTAINER(env, tci_penv, base);
}

/* ---- one request ---- */

/* Say in the evidence how a request failed. about: its path, when the daemon names none. Returns rc. */
int tci_penv_blame(const tc_call *call, const tci_pi_call *request, int rc, tc_str about);
/* One request and its answer, with what a failure is about. */
int tci_penv_ask(tc_env *env, const tc_call *call, int op, const void *params, void *reply,
                 tc_str about, tc_err *err) TC_CHECKED;
/* The same for one tied to a session. */
int tci_penv_ask_in(tc_env *env, const tc_call *call, uint64_t session, int op, const void *params,
                    void *reply, tc_str about, tc_err *err) TC_CHECKED;
/* Close a handle without waiting. */
void tci_penv_close_later(tci_penv *e, uint64_t session, uint64_t handle);
/* The same, and wait for it, for a while. */
void tci_penv_close_now(tci_penv *e, uint64_t session, uint64_t handle);

/* ---- commands that can be ended from outside ---- */

typedef enum tci_penv_wish { TCI_PI_GO_ON, TCI_PI_KILL_IT, TCI_PI_ABORT_IT } tci_penv_wish;
typedef struct tci_penv_running {
    tci_link link;
    tci_wake *wake;
    tci_wake own_wake;
    tci_penv_wish wish; /* under base.lock */
} tci_penv_running;

/* Fill in request->wake, begin, and wait to the end; cleanup, close and tci_penv_end reach it
 * meanwhile. started is called in between (may be NULL). run: zeroed storage of the caller's. */
int tci_penv_attend(tci_penv *e, const tc_call *call, tci_pi_call *request, tci_penv_running *run,
                    int (*started)(void *user, tc_err *err), void *user, tc_err *err) TC_CHECKED;
/* Abort it, from another thread, while run exists. */
void tci_penv_end(tci_penv *e, tci_penv_running *run);

/* ---- reading ---- */

/* Up to len bytes of an open file from offset on, several requests in flight. Either into buf, which
 * has room for all; or, with buf NULL, to sink in order. *ret_len < len at the end of the file. */
typedef struct tci_penv_pull {
    uint64_t session, handle, offset, len;
    size_t chunk;
    tc_str path;
    char *buf;
    tc_sink sink;
    void *user;
} tci_penv_pull;
int tci_penv_pull_all(tc_env *env, const tc_call *call, const tci_penv_pull *pull,
                      uint64_t *ret_len, tc_err *err) TC_CHECKED;

/* ---- writing ---- */

/* Whole or not at all, all in one request. */
void tci_penv_write_params(tc_str path, const tc_write_options *o, tci_pi_write_params *ret);

/* ---- facts ---- */

void tci_penv_to_file(const tci_pi_info *info, tc_env_file *ret_file);
void tci_penv_to_file_info(const tci_pi_info *info, tc_str path, tc_file_info *ret_info);

/* ---- the table's functions, by file ---- */

int tci_penv_stat(tc_env *env, const tc_call *call, tc_str path, bool follow_symlink,
                  tc_file_info *ret_info, tc_err *err);
int tci_penv_read_stream(tc_env *env, const tc_call *call, tc_str path, const tc_range *range,
                         tc_sink sink, void *user, tc_transfer *ret_transfer, tc_err *err);
int tci_penv_read_file(tc_env *env, const tc_call *call, tc_str path, tc_sink sink, void *user,
                       tc_file_info *ret_info, tc_err *err);
int tci_penv_write_text(tc_env *env, const tc_call *call, tc_str path, tc_str text,
                        const tc_write_options *options, tc_file_info *ret_info, tc_err *err);
int tci_penv_write_stream(tc_env *env, const tc_call *call, tc_str path,
                          const tc_write_options *options, tc_source source, void *user,
                          tc_transfer *ret_transfer, tc_err *err);
int tci_penv_sync(tc_env *env, const tc_call *call, tc_str path, tc_err *err);
int tci_penv_run(tc_env *env, const tc_call *call, const tc_command *command,
                 const tc_run_options *options, tc_run_result *ret_result, tc_err *err);
/* The EIP environment behind the connection, entered; give it back with tci_penv_eip_leave. */
int tci_penv_eip_enter(tc_env *env, const tc_call *call, tc_env **ret_eip, tc_err *err) TC_CHECKED;
void tci_penv_eip_leave(tc_env *eip);

/* pi_tunnel.c */
int tci_penv_list(tc_env *env, const tc_call *call, tc_str path, const tc_list_options *options,
                  tc_file_page *ret_page, tc_err *err);
int tci_penv_find_files(tc_env *env, const tc_call *call, tc_str root, tc_str pattern,
                        const tc_find_options *options, tc_file_page *ret_page, tc_err *err);
int tci_penv_search(tc_env *env, const tc_call *call, tc_str root, tc_str query,
                    const tc_search_options *options, tc_search_page *ret_page, tc_err *err);
int tci_penv_read_text(tc_env *env, const tc_call *call, tc_str path,
                       const tc_read_text_options *options, tc_text_page *ret_page, tc_err *err);
int tci_penv_patch(tc_env *env, const tc_call *call, tc_str path, tc_str patch,
                   uint64_t *ret_nhunks, tc_file_info *ret_info, tc_err *err);
int tci_penv_mkdir(tc_env *env, const tc_call *call, tc_str path, bool with_parents, bool exist_ok,
                   tc_err *err);
int tci_penv_copy(tc_env *env, const tc_call *call, tc_str source, tc_str destination, bool replace,
                  tc_file_info *ret_info, tc_err *err);
int tci_penv_move(tc_env *env, const tc_call *call, tc_str source, tc_str destination, bool replace,
                  tc_file_info *ret_info, tc_err *err);
int tci_penv_remove(tc_env *env, const tc_call *call, tc_str path, tc_file_kind kind,
                    bool is_recursive, uint64_t max_entries, uint64_t *ret_nremoved, tc_err *err);
int tci_penv_process_start(tc_env *env, const tc_call *call, const tc_command *command,
                           tc_process *ret_process, tc_err *err);
int tci_penv_process_inspect(tc_env *env, const tc_call *call, tc_str handle,
                             tc_process *ret_process, tc_err *err);
int tci_penv_process_wait(tc_env *env, const tc_call *call, tc_str handle, bool tree_cleaned,
                          tc_process *ret_process, tc_err *err);
int tci_penv_process_write(tc_env *env, const tc_call *call, tc_str handle, tc_str data,
                           bool close_after, uint64_t *ret_naccepted, tc_err *err);
int tci_penv_process_signal(tc_env *env, const tc_call *call, tc_str handle, tc_signal sig,
                            bool *ret_accepted, tc_err *err);
int tci_penv_process_kill(tc_env *env, const tc_call *call, tc_str handle, tc_process *ret_process,
                          tc_err *err);
int tci_penv_process_release(tc_env *env, const tc_call *call, tc_str handle, tc_err *err);
int tci_penv_output_read(tc_env *env, const tc_call *call, tc_str reference, uint64_t start_offset,
                         uint64_t wait_ms, tc_output_page *ret_page, tc_err *err);
int tci_penv_port_inspect(tc_env *env, const tc_call *call, uint16_t port, tc_port_address address,
                          tc_port *ret_port, tc_err *err);
int tci_penv_port_wait(tc_env *env, const tc_call *call, uint16_t port, tc_port_address address,
                       tc_port_status desired, tc_port *ret_port, tc_err *err);
int tci_penv_reconcile(tc_env *env, const tc_call *call, tc_str operation_id,
                       tc_outcome *ret_outcome, tc_receipt *ret_receipt, tc_err *err);

/* methods */
int tci_penv_know(tc_env *env, const tc_call *call, bool needs_home, tc_err *err);
int tci_penv_read(tc_env *env, const tc_call *call, tc_str path, tc_str *ret_bytes, tc_err *err);
int tci_penv_write(tc_env *env, const tc_call *call, tc_str path, tc_str bytes, unsigned how,
                   tc_err *err);
int tci_penv_open_file(tc_env *env, const tc_call *call, tc_str path, unsigned how,
                       tci_open_file **ret_file, tc_err *err);
int tci_penv_exec(tc_env *env, const tc_call *call, const tc_exec_options *options, tc_str cwd,
                  tc_exec_outcome *ret_outcome, tc_err *err);
int tci_penv_watch(tc_env *env, const tci_watch_view *view, tc_call *call, bool *ret_is_lost,
                   tc_err *err);

#endif
