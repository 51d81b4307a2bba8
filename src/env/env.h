/* SPDX-License-Identifier: Apache-2.0
 *
 * What a provider of execution environments implements. The public functions (env.c) check that the
 * adapter may be used, make paths absolute, and come here. The caller's thread; several at once. */
#ifndef TCI_ENV_H
#define TCI_ENV_H

#include "base/buf.h"
#include "base/list.h"
#include "base/num.h"
#include "client/client.h"
#include "plat/thread.h"
#include <telechir/env.h>

/* The ExecutionEnv interface of a provider: methods_int.h. */
typedef struct tci_env_methods tci_env_methods;

/* What is known of where an environment is. */
typedef struct tci_env_place {
    bool is_windows;  /* paths follow win32 rules: "C:\x" (EIP's "/C:/x" does not) */
    tc_str home;      /* empty: there is none */
    tc_str tmpdir;    /* for temporary files */
    tc_str first_cwd; /* the daemon's own, or empty; Windows needs it for drives */
} tci_env_place;

/* All paths are absolute and normal. Options are checked for size and never NULL; ret_ pointers may
 * be NULL only where the public function says so. */
typedef struct tci_env_vtable {
    tc_str provider;
    /* Once. On failure the adapter is dead; what was opened is closed by end. */
    int (*ready)(tc_env *env, tc_ctx *ctx, tc_err *err);
    /* End the session: calls under way return. Then nothing but free is called. */
    int (*end)(tc_env *env, tc_ctx *ctx, tc_err *err);
    void (*free)(tc_env *env);
    int (*cleanup)(tc_env *env, tc_ctx *ctx, tc_err *err);
    bool (*can_exec)(const tc_env *env);
    const tci_env_methods *methods;

    int (*stat)(tc_env *env, const tc_call *call, tc_str path, bool follow_symlink,
                tc_file_info *ret_info, tc_err *err);
    int (*list)(tc_env *env, const tc_call *call, tc_str path, const tc_list_options *options,
                tc_file_page *ret_page, tc_err *err);
    int (*find)(tc_env *env, const tc_call *call, tc_str root, tc_str pattern,
                const tc_find_options *options, tc_file_page *ret_page, tc_err *err);
    int (*search)(tc_env *env, const tc_call *call, tc_str root, tc_str query,
                  const tc_search_options *options, tc_search_page *ret_page, tc_err *err);
    int (*read_text)(tc_env *env, const tc_call *call, tc_str path,
                     const tc_read_text_options *options, tc_text_page *ret_page, tc_err *err);
    int (*read_stream)(tc_env *env, const tc_call *call, tc_str path, const tc_range *range,
                       tc_sink sink, void *user, tc_transfer *ret_transfer, tc_err *err);
    /* The same for a whole file, with its facts before the first byte; NULL: there are none. */
    int (*read_file)(tc_env *env, const tc_call *call, tc_str path, tc_sink sink, void *user,
                     tc_file_info *ret_info, tc_err *err);
    int (*write_text)(tc_env *env, const tc_call *call, tc_str path, tc_str text,
                      const tc_write_options *options, tc_file_info *ret_info, tc_err *err);
    int (*write_stream)(tc_env *env, const tc_call *call, tc_str path,
                        const tc_write_options *options, tc_source source, void *user,
                        tc_transfer *ret_transfer, tc_err *err);
    int (*sync)(tc_env *env, const tc_call *call, tc_str path, tc_err *err);
    int (*patch)(tc_env *env, const tc_call *call, tc_str path, tc_str patch, uint64_t *ret_nhunks,
                 tc_file_info *ret_info, tc_err *err);
    int (*mkdir)(tc_env *env, const tc_call *call, tc_str path, bool with_parents, bool exist_ok,
                 tc_err *err);
    int (*copy)(tc_env *env, const tc_call *call, tc_str source, tc_str destination, bool replace,
                tc_file_info *ret_info, tc_err *err);
    int (*move)(tc_env *env, const tc_call *call, tc_str source, tc_str destination, bool replace,
                tc_file_info *ret_info, tc_err *err);
    int (*remove)(tc_env *env, const tc_call *call, tc_str path, tc_file_kind kind,
                  bool is_recursive, uint64_t max_entries, uint64_t *ret_nremoved, tc_err *err);

    /* command->cwd is absolute or empty. */
    int (*run)(tc_env *env, const tc_call *call, const tc_command *command,
               const tc_run_options *options, tc_run_result *ret_result, tc_err *err);
    int (*process_start)(tc_env *env, const tc_call *call, const tc_command *command,
                         tc_process *ret_process, tc_err *err);
    int (*process_inspect)(tc_env *env, const tc_call *call, tc_str handle, tc_process *ret_process,
                           tc_err *err);
    int (*process_wait)(tc_env *env, const tc_call *call, tc_str handle, bool tree_cleaned,
                        tc_process *ret_process, tc_err *err);
    int (*process_write)(tc_env *env, const tc_call *call, tc_str handle, tc_str data,
                         bool close_after, uint64_t *ret_naccepted, tc_err *err);
    int (*process_signal)(tc_env *env, const tc_call *call, tc_str handle, tc_signal sig,
                          bool *ret_accepted, tc_err *err);
    int (*process_kill)(tc_env *env, const tc_call *call, tc_str handle, tc_process *ret_process,
                        tc_err *err);
    int (*process_release)(tc_env *env, const tc_call *call, tc_str handle, tc_err *err);
    int (*output_read)(tc_env *env, const tc_call *call, tc_str reference, uint64_t start_offset,
                       uint64_t wait_ms, tc_output_page *ret_page, tc_err *err);
    int (*port_inspect)(tc_env *env, const tc_call *call, uint16_t port, tc_port_address address,
                        tc_port *ret_port, tc_err *err);
    int (*port_wait)(tc_env *env, const tc_call *call, uint16_t port, tc_port_address address,
                     tc_port_status desired, tc_port *ret_port, tc_err *err);
    int (*reconcile)(tc_env *env, const tc_call *call, tc_str operation_id, tc_outcome *ret_outcome,
                     tc_receipt *ret_receipt, tc_err *err);
} tci_env_vtable;

typedef enum tci_env_state {
    TCI_ENV_CREATED,
    TCI_ENV_MAKING_READY,
    TCI_ENV_READY,
    TCI_ENV_DEAD,
    TCI_ENV_CLOSED
} tci_env_state;

/* The part all providers share; first member of theirs. */
struct tc_env {
    const tci_env_vtable *v;
    atomic_uint refs;
    tc_runtime *rt;
    tc_str provider;       /* of the table, unless the maker says otherwise */
    bool is_lazy;          /* usable before ready */
    bool is_without_state; /* there is nothing to save of it */
    tc_str shell_path;
    const tc_pair *shell_env;
    size_t nshell_env;
    tc_result *held; /* owns the texts; used under the lock once others may */
    tc_str id, device_id, files_id, session_id;
    uint64_t generation;
    bool is_windows; /* path style of EIP */
    tc_boundary boundary;
    tci_mutex lock; /* guards the rest */
    tc_str cwd;
    tci_env_place place;
    bool has_place, has_home; /* which of it is known; home and tmpdir come later over EIP */
    tci_env_state state;
    tci_list watchers; /* of tc_watcher */
    unsigned nusers;   /* calls under way */
    tci_wake changed;
    tc_err why_dead;
};

/* Set up the shared part. id and options->working_directory are checked and copied. */
int tci_env_init(tc_env *env, const tci_env_vtable *v, tc_runtime *rt,
                 const tc_env_options *options, tc_err *err) TC_CHECKED;
/* Release it; for the provider's free, which then frees env itself. */
void tci_env_done(tc_env *env);

/* path, or path under cwd, without ".", ".." and doubled slashes; in the arena. No "~", no URLs. */
int tci_env_resolve(tc_str cwd, tc_str path, tci_arena *a, tc_str *ret_path,
                    tc_err *err) TC_CHECKED;
/* The whole of what tc_env_absolute_path says, by the rules of the place. INVALID for a NUL byte,
 * NOT_READY when cwd is needed and empty. */
int tci_env_resolve_at(const tci_env_place *place, tc_str cwd, tc_str path, tci_arena *a,
                       tc_str *ret_path, tc_err *err) TC_CHECKED;
/* As tc_env_join_path. */
int tci_env_join(bool is_windows, const tc_str *parts, size_t nparts, tci_arena *a,
                 tc_str *ret_path, tc_err *err) TC_CHECKED;
/* The same by win32 rules (paths_win.c). */
int tci_win_resolve(const tci_env_place *place, tc_str cwd, tc_str path, tci_arena *a,
                    tc_str *ret_path, tc_err *err) TC_CHECKED;
int tci_win_join(const tc_str *parts, size_t nparts, tci_arena *a, tc_str *ret_path,
                 tc_err *err) TC_CHECKED;
bool tci_win_is_absolute(tc_str path);
/* Does a path begin with the home folder's sign? */
bool tci_env_is_home_path(bool is_windows, tc_str path);
/* What is meant by path in env, which may have to connect to know: in the call's result. */
int tci_env_absolute(tc_env *env, const tc_call *call, tc_str path, tc_str *ret_path,
                     tc_err *err) TC_CHECKED;
/* The working directory as it is now; lives as long as the env. */
tc_str tci_env_cwd_now(const tc_env *env);
/* The last component of an absolute path. */
tc_str tci_env_base_name(bool is_windows, tc_str path);
/* Is it an absolute path on a device? "/x", "/C:/x". */
bool tci_env_is_absolute(tc_str path);

/* Every watcher of env stops. */
void tci_watchers_stop(tc_env *env);

/* A change that was noted before it was made, perhaps by a program that is gone (eip_receipt.c). */
typedef struct tci_env_operation {
    tc_str device_id, session_id, operation_id;
    uint64_t generation;
} tci_env_operation;
/* Changes made through env leave receipts that outlive this program. */
bool tci_env_has_receipts(const tc_env *env);
/* DONE when the device that env is on has a receipt of it, in the same generation; else UNKNOWN. Fails
 * when the device cannot be asked (its session is gone). */
int tci_env_ask_operation(tc_env *env, const tc_call *call, const tci_env_operation *operation,
                          tc_outcome *ret_outcome, tc_receipt *ret_receipt, tc_err *err) TC_CHECKED;

/* A private folder for a daemon child's state. The returned path lives in a. */
int tci_env_temp_folder(tc_runtime *rt, tci_arena *a, tc_str *ret_path, tc_err *err) TC_CHECKED;
/* Remove a folder and all below it, as far as possible. */
void tci_env_remove_folder(tc_str path);

#endif
