/* SPDX-License-Identifier: Apache-2.0
 *
 * The ExecutionEnv interface over EIP, inside. For the files eip_*.c only.
 *
 *   eip_methods.c   operations on paths, and why they failed     eip_open.c    readers, directories
 *   eip_tree.c      whole trees     eip_exec.c   commands         eip_poll.c    watching by looking */
#ifndef TCI_ENV_EIP_INT_H
#define TCI_ENV_EIP_INT_H

#include "env/methods_int.h"

/* What a method needs a path to be. */
typedef enum tci_eip_need { TCI_EIP_ANY, TCI_EIP_FILE, TCI_EIP_DIRECTORY } tci_eip_need;
/* EIP does not tell a missing file from a forbidden one, nor what is in the way: look again, and say
 * in the evidence why path failed. Returns rc. */
int tci_eip_blame(tc_env *env, const tc_call *call, int rc, tc_str path, tci_eip_need need);
/* A call beside call: with its context, and a result of its own. */
int tci_eip_aside(const tc_call *call, tc_call *ret_aside, tc_err *err) TC_CHECKED;
void tci_eip_aside_done(tc_call *aside);

void tci_eip_to_file(const tc_file_info *info, tc_env_file *ret_file);
/* Run a program of the other side for its output; UNSUPPORTED when commands are not offered, IO when
 * it failed. The output lives in the call's result. */
int tci_eip_program(tc_env *env, const tc_call *call, const tc_str *argv, size_t nargv,
                    tc_str *ret_output, tc_err *err) TC_CHECKED;

int tci_eip_open_file(tc_env *env, const tc_call *call, tc_str path, unsigned how,
                      tci_open_file **ret_file, tc_err *err);
int tci_eip_open_dir(tc_env *env, const tc_call *call, tc_str path, tci_open_dir **ret_dir,
                     tc_err *err);
int tci_eip_list_dir(tc_env *env, const tc_call *call, tc_str path, tci_file_list *list,
                     tc_err *err);
int tci_eip_list_files(tc_env *env, const tc_call *call, tc_str path,
                       const tc_list_files_options *options, tc_tree *ret_tree, tc_err *err);
int tci_eip_exec(tc_env *env, const tc_call *call, const tc_exec_options *options, tc_str cwd,
                 tc_exec_outcome *ret_outcome, tc_err *err);
int tci_eip_watch(tc_env *env, const tci_watch_view *view, tc_call *call, bool *ret_is_lost,
                  tc_err *err);
int tci_eip_make_temp(tc_env *env, const tc_call *call, tc_str prefix, tc_str *ret_path,
                      tc_err *err);

#endif
