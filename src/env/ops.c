/* SPDX-License-Identifier: Apache-2.0
 *
 * The public operations: may the adapter be used, are the options whole, which absolute paths are
 * meant; then the provider. The caller's thread. Invariant: no operation reaches a provider whose
 * adapter is not ready, and none is served from anywhere else. */
#include "env/env_int.h"

enum { READ_MAX = 64 * 1024 * 1024, REMOVE_MAX = 10000 };

int tci_env_options_check(const void *options, size_t size, tc_err *err)
{
    size_t given = 0;
    if (options == NULL)
        return 0;
    memcpy(&given, options, sizeof given);
    return given >= size ? 0 : tc_err_set(err, TC_E_INVALID, "options without their size");
}

/* Begin a call that changes something or not: NOT_STARTED is what is known of one refused here. */
static int enter(tc_env *env, const tc_call *call, bool is_change, tc_err *err)
{
    if (call == NULL || call->size < sizeof *call || call->result == NULL)
        return tc_err_set(err, TC_E_INVALID, "a call needs its size and a result");
    tci_result_reset_evidence(call->result, is_change ? TC_OUTCOME_NOT_STARTED : TC_OUTCOME_NONE);
    return tci_env_enter(env, err);
}

static int absolute(tc_env *env, const tc_call *call, tc_str *path, tc_err *err)
{
    return tci_env_absolute(env, call, *path, path, err);
}

/* Enter, with one path made absolute. On failure nothing is entered. */
static int enter_path(tc_env *env, const tc_call *call, bool is_change, tc_str *path, tc_err *err)
{
    int rc = enter(env, call, is_change, err);
    if (rc < 0)
        return rc;
    rc = absolute(env, call, path, err);
    if (rc < 0)
        tci_env_leave(env);
    return rc;
}

/* The options first: what is wrong with them is told before the path is looked at. */
static int enter_with(tc_env *env, const tc_call *call, bool is_change, tc_str *path,
                      const void *options, size_t options_size, tc_err *err)
{
    int rc = tci_env_options_check(options, options_size, err);
    return rc < 0 ? rc : enter_path(env, call, is_change, path, err);
}

static int leave(tc_env *env, int rc)
{
    tci_env_leave(env);
    return rc;
}

/* ---- facts ---- */

int tc_env_stat(tc_env *env, const tc_call *call, tc_str path, bool follow_symlink,
                tc_file_info *ret_info, tc_err *err)
{
    int rc = enter_path(env, call, false, &path, err);
    return rc < 0 ? rc : leave(env, env->v->stat(env, call, path, follow_symlink, ret_info, err));
}

int tc_env_exists(tc_env *env, const tc_call *call, tc_str path, bool *ret_exists, tc_err *err)
{
    tc_file_info info;
    int rc = tc_env_stat(env, call, path, false, &info, err);
    if (rc == 0 || rc == TC_E_NOT_FOUND) {
        *ret_exists = rc == 0;
        return 0;
    }
    return rc;
}

/* ---- reading ---- */

int tc_env_list(tc_env *env, const tc_call *call, tc_str path, const tc_list_options *options,
                tc_file_page *ret_page, tc_err *err)
{
    tc_list_options none = {.size = sizeof none};
    int rc = enter_with(env, call, false, &path, options, sizeof none, err);
    if (rc < 0)
        return rc;
    return leave(env,
                 env->v->list(env, call, path, options != NULL ? options : &none, ret_page, err));
}

int tc_env_find(tc_env *env, const tc_call *call, tc_str root, tc_str pattern,
                const tc_find_options *options, tc_file_page *ret_page, tc_err *err)
{
    tc_find_options none = {.size = sizeof none};
    int rc = enter_with(env, call, false, &root, options, sizeof none, err);
    if (rc < 0)
        return rc;
    return leave(env, env->v->find(env, call, root, pattern, options != NULL ? options : &none,
                                   ret_page, err));
}

int tc_env_search(tc_env *env, const tc_call *call, tc_str root, tc_str query,
                  const tc_search_options *options, tc_search_page *ret_page, tc_err *err)
{
    tc_search_options none = {.size = sizeof none};
    int rc = enter_with(env, call, false, &root, options, sizeof none, err);
    if (rc < 0)
        return rc;
    return leave(env, env->v->search(env, call, root, query, options != NULL ? options : &none,
                                     ret_page, err));
}

int tc_env_read_text(tc_env *env, const tc_call *call, tc_str path,
                     const tc_read_text_options *options, tc_text_page *ret_page, tc_err *err)
{
    tc_read_text_options none = {.size = sizeof none};
    int rc = enter_with(env, call, false, &path, options, sizeof none, err);
    if (rc < 0)
        return rc;
    return leave(
        env, env->v->read_text(env, call, path, options != NULL ? options : &none, ret_page, err));
}

int tc_env_read_stream(tc_env *env, const tc_call *call, tc_str path, const tc_range *range,
                       tc_sink sink, void *user, tc_transfer *ret_transfer, tc_err *err)
{
    int rc = enter_path(env, call, false, &path, err);
    if (rc < 0)
        return rc;
    return leave(env, env->v->read_stream(env, call, path, range, sink, user, ret_transfer, err));
}

int tc_env_read_file(tc_env *env, const tc_call *call, tc_str path, tc_sink sink, void *user,
                     tc_file_info *ret_info, tc_err *err)
{
    int rc = enter_path(env, call, false, &path, err);
    if (rc < 0)
        return rc;
    *ret_info = (tc_file_info){.path = path, .kind = TC_FILE_REGULAR};
    if (env->v->read_file == NULL)
        return leave(env, env->v->read_stream(env, call, path, NULL, sink, user, NULL, err));
    return leave(env, env->v->read_file(env, call, path, sink, user, ret_info, err));
}

static int into_buffer(void *user, const void *bytes, size_t len, tc_err *err)
{
    tci_buf *b = user;
    tci_buf_append(b, bytes, len);
    return tci_buf_error(b, err);
}

int tc_env_read(tc_env *env, const tc_call *call, tc_str path, const tc_range *range,
                uint64_t max_bytes, tc_str *ret_bytes, tc_err *err)
{
    tci_buf b;
    uint64_t max = max_bytes > 0 ? max_bytes : READ_MAX;
    tci_buf_init(&b, (size_t)tci_min_u64(max, TCI_BUF_MAX));
    int rc = tc_env_read_stream(env, call, path, range, into_buffer, &b, NULL, err);
    if (rc == 0)
        rc = tc_result_dup(call->result, tci_buf_str(&b), ret_bytes, err);
    tci_buf_done(&b);
    return rc;
}

/* ---- changing ---- */

int tc_env_write_text(tc_env *env, const tc_call *call, tc_str path, tc_str text,
                      const tc_write_options *options, tc_file_info *ret_info, tc_err *err)
{
    tc_write_options none = {.size = sizeof none};
    int rc = enter_with(env, call, true, &path, options, sizeof none, err);
    if (rc < 0)
        return rc;
    return leave(env, env->v->write_text(env, call, path, text, options != NULL ? options : &none,
                                         ret_info, err));
}

int tc_env_write_stream(tc_env *env, const tc_call *call, tc_str path,
                        const tc_write_options *options, tc_source source, void *user,
                        tc_transfer *ret_transfer, tc_err *err)
{
    tc_write_options none = {.size = sizeof none};
    int rc = enter_with(env, call, true, &path, options, sizeof none, err);
    if (rc < 0)
        return rc;
    return leave(env, env->v->write_stream(env, call, path, options != NULL ? options : &none,
                                           source, user, ret_transfer, err));
}

static int from_text(void *user, void *buf, size_t cap, size_t *ret_len, tc_err *err)
{
    TCI_UNUSED(err);
    tc_str *rest = user;
    *ret_len = tci_min_size(cap, rest->len);
    if (*ret_len == 0)
        return 0;
    memcpy(buf, rest->ptr, *ret_len);
    *rest = tci_str_sub(*rest, *ret_len, SIZE_MAX);
    return 0;
}

int tc_env_write(tc_env *env, const tc_call *call, tc_str path, tc_str bytes,
                 const tc_write_options *options, tc_transfer *ret_transfer, tc_err *err)
{
    tc_str rest = bytes;
    return tc_env_write_stream(env, call, path, options, from_text, &rest, ret_transfer, err);
}

int tc_env_sync(tc_env *env, const tc_call *call, tc_str path, tc_err *err)
{
    int rc = enter_path(env, call, true, &path, err);
    return rc < 0 ? rc : leave(env, env->v->sync(env, call, path, err));
}

int tc_env_patch(tc_env *env, const tc_call *call, tc_str path, tc_str patch, uint64_t *ret_nhunks,
                 tc_file_info *ret_info, tc_err *err)
{
    int rc = enter_path(env, call, true, &path, err);
    if (rc < 0)
        return rc;
    return leave(env, env->v->patch(env, call, path, patch, ret_nhunks, ret_info, err));
}

int tc_env_mkdir(tc_env *env, const tc_call *call, tc_str path, bool with_parents, bool exist_ok,
                 tc_err *err)
{
    int rc = enter_path(env, call, true, &path, err);
    return rc < 0 ? rc : leave(env, env->v->mkdir(env, call, path, with_parents, exist_ok, err));
}

/* Enter, with two paths made absolute. */
static int enter_paths(tc_env *env, const tc_call *call, tc_str *from, tc_str *to, tc_err *err)
{
    int rc = enter_path(env, call, true, from, err);
    if (rc < 0)
        return rc;
    rc = absolute(env, call, to, err);
    if (rc < 0)
        tci_env_leave(env);
    return rc;
}

int tc_env_copy(tc_env *env, const tc_call *call, tc_str source, tc_str destination, bool replace,
                tc_file_info *ret_info, tc_err *err)
{
    int rc = enter_paths(env, call, &source, &destination, err);
    if (rc < 0)
        return rc;
    return leave(env, env->v->copy(env, call, source, destination, replace, ret_info, err));
}

int tc_env_move(tc_env *env, const tc_call *call, tc_str source, tc_str destination, bool replace,
                tc_file_info *ret_info, tc_err *err)
{
    int rc = enter_paths(env, call, &source, &destination, err);
    if (rc < 0)
        return rc;
    return leave(env, env->v->move(env, call, source, destination, replace, ret_info, err));
}

int tc_env_remove(tc_env *env, const tc_call *call, tc_str path, tc_file_kind kind,
                  bool is_recursive, uint64_t max_entries, uint64_t *ret_nremoved, tc_err *err)
{
    int rc = enter_path(env, call, true, &path, err);
    if (rc < 0)
        return rc;
    if (max_entries == 0)
        max_entries = is_recursive ? REMOVE_MAX : 1;
    return leave(
        env, env->v->remove(env, call, path, kind, is_recursive, max_entries, ret_nremoved, err));
}

/* ---- commands ---- */

/* Enter, with a copy of the command whose folder is absolute. */
static int enter_command(tc_env *env, const tc_call *call, const tc_command *command,
                         tc_command *ret_command, tc_err *err)
{
    if (command == NULL || command->size < sizeof *command)
        return tc_err_set(err, TC_E_INVALID, "a command without its size");
    *ret_command = *command;
    int rc = enter(env, call, true, err);
    if (rc < 0 || command->cwd.len == 0)
        return rc;
    rc = absolute(env, call, &ret_command->cwd, err);
    if (rc < 0)
        tci_env_leave(env);
    return rc;
}

int tc_env_run(tc_env *env, const tc_call *call, const tc_command *command,
               const tc_run_options *options, tc_run_result *ret_result, tc_err *err)
{
    tc_run_options none = {.size = sizeof none};
    tc_command c;
    int rc = tci_env_options_check(options, sizeof none, err);
    if (rc == 0)
        rc = enter_command(env, call, command, &c, err);
    if (rc < 0)
        return rc;
    return leave(env,
                 env->v->run(env, call, &c, options != NULL ? options : &none, ret_result, err));
}

int tc_env_process_start(tc_env *env, const tc_call *call, const tc_command *command,
                         tc_process *ret_process, tc_err *err)
{
    tc_command c;
    int rc = enter_command(env, call, command, &c, err);
    return rc < 0 ? rc : leave(env, env->v->process_start(env, call, &c, ret_process, err));
}

int tc_env_process_inspect(tc_env *env, const tc_call *call, tc_str handle, tc_process *ret_process,
                           tc_err *err)
{
    int rc = enter(env, call, false, err);
    return rc < 0 ? rc : leave(env, env->v->process_inspect(env, call, handle, ret_process, err));
}

int tc_env_process_wait(tc_env *env, const tc_call *call, tc_str handle, bool tree_cleaned,
                        tc_process *ret_process, tc_err *err)
{
    int rc = enter(env, call, false, err);
    if (rc < 0)
        return rc;
    return leave(env, env->v->process_wait(env, call, handle, tree_cleaned, ret_process, err));
}

int tc_env_process_write(tc_env *env, const tc_call *call, tc_str handle, tc_str data,
                         bool close_after, uint64_t *ret_naccepted, tc_err *err)
{
    int rc = enter(env, call, true, err);
    if (rc < 0)
        return rc;
    return leave(env,
                 env->v->process_write(env, call, handle, data, close_after, ret_naccepted, err));
}

int tc_env_process_signal(tc_env *env, const tc_call *call, tc_str handle, tc_signal sig,
                          bool *ret_accepted, tc_err *err)
{
    int rc = enter(env, call, true, err);
    if (rc < 0)
        return rc;
    return leave(env, env->v->process_signal(env, call, handle, sig, ret_accepted, err));
}

int tc_env_process_kill(tc_env *env, const tc_call *call, tc_str handle, tc_process *ret_process,
                        tc_err *err)
{
    int rc = enter(env, call, true, err);
    return rc < 0 ? rc : leave(env, env->v->process_kill(env, call, handle, ret_process, err));
}

int tc_env_process_release(tc_env *env, const tc_call *call, tc_str handle, tc_err *err)
{
    int rc = enter(env, call, true, err);
    return rc < 0 ? rc : leave(env, env->v->process_release(env, call, handle, err));
}

int tc_env_output_read(tc_env *env, const tc_call *call, tc_str reference, uint64_t start_offset,
                       uint64_t wait_ms, tc_output_page *ret_page, tc_err *err)
{
    int rc = enter(env, call, false, err);
    if (rc < 0)
        return rc;
    return leave(env,
                 env->v->output_read(env, call, reference, start_offset, wait_ms, ret_page, err));
}

/* ---- ports and receipts ---- */

int tc_env_port_inspect(tc_env *env, const tc_call *call, uint16_t port, tc_port_address address,
                        tc_port *ret_port, tc_err *err)
{
    int rc = enter(env, call, false, err);
    return rc < 0 ? rc : leave(env, env->v->port_inspect(env, call, port, address, ret_port, err));
}

int tc_env_port_wait(tc_env *env, const tc_call *call, uint16_t port, tc_port_address address,
                     tc_port_status desired, tc_port *ret_port, tc_err *err)
{
    int rc = enter(env, call, false, err);
    if (rc < 0)
        return rc;
    return leave(env, env->v->port_wait(env, call, port, address, desired, ret_port, err));
}

int tc_env_reconcile(tc_env *env, const tc_call *call, tc_str operation_id, tc_outcome *ret_outcome,
                     tc_receipt *ret_receipt, tc_err *err)
{
    int rc = enter(env, call, false, err);
    if (rc < 0)
        return rc;
    return leave(env, env->v->reconcile(env, call, operation_id, ret_outcome, ret_receipt, err));
}
