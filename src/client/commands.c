/* SPDX-License-Identifier: Apache-2.0
 *
 * Session methods for commands and ports. Output is in output.c. The caller's thread. Invariant:
 * how a command ended is a result; only what prevents knowing it is an error. */
#include "client/session_int.h"

/* ---- the request ---- */

static int compare_pairs(const tci_proto_pair *a, const tci_proto_pair *b)
{
    return tci_str_cmp(a->key, b->key);
}

/* The wire wants the map by key; a variable given twice is a mistake. */
static int put_environment(tci_arena *a, const tc_command *in, tci_eip_command_request *out,
                           tc_err *err)
{
    tci_proto_pair *set = tci_arena_items(a, tci_proto_pair, in->nset_env);
    if (set == NULL)
        return tci_arena_error(a, err);
    for (size_t i = 0; i < in->nset_env; i++) {
        tci_proto_pair pair = {in->set_env[i].key, in->set_env[i].value};
        size_t at = i;
        for (; at > 0 && compare_pairs(&set[at - 1], &pair) > 0; at--)
            set[at] = set[at - 1];
        set[at] = pair;
    }
    for (size_t i = 1; i < in->nset_env; i++)
        if (tci_str_eq(set[i - 1].key, set[i].key))
            return tc_err_set(err, TC_E_INVALID, "variable '%.*s' is set twice",
                              TC_STR_ARG(set[i].key));
    out->environment.set.items = set;
    out->environment.set.count = in->nset_env;
    out->environment.unset.items = (tc_str *)(uintptr_t)in->unset_env; /* only read */
    out->environment.unset.count = in->nunset_env;
    return 0;
}

static void put_spec(const tc_command *in, tci_eip_command_spec *out)
{
    if (in->program.len == 0) {
        out->kind = TCI_EIP_COMMAND_SPEC_SHELL;
        out->u.shell.profile_id = in->profile_id.len > 0 ? in->profile_id : TC_STR("default");
        out->u.shell.script = in->script;
        out->u.shell.login = in->is_login;
        return;
    }
    tci_eip_command_spec_argv *argv = &out->u.argv;
    out->kind = TCI_EIP_COMMAND_SPEC_ARGV;
    if (tci_str_find_byte(in->program, '/') < in->program.len) {
        argv->executable_spec.kind = TCI_EIP_EXECUTABLE_SPEC_PATH;
        argv->executable_spec.u.path.path.path = in->program;
    } else {
        argv->executable_spec.kind = TCI_EIP_EXECUTABLE_SPEC_NAME;
        argv->executable_spec.u.name.name = in->program;
    }
    argv->arguments.items = (tc_str *)(uintptr_t)in->args; /* only read */
    argv->arguments.count = in->nargs;
}

int tci_put_command(tci_arena *a, const tc_command *in, tci_eip_command_request *out, tc_err *err)
{
    if (in == NULL || in->size < sizeof *in)
        return tc_err_set(err, TC_E_INVALID, "a command without its size");
    if (in->program.len == 0 && in->nargs > 0)
        return tc_err_set(err, TC_E_INVALID, "arguments without a program");
    put_spec(in, &out->command);
    out->has_cwd = in->cwd.len > 0;
    out->cwd.path = in->cwd;
    out->has_initial_stdin = in->input.len > 0;
    out->initial_stdin.data = in->input;
    out->keep_stdin_open = in->keep_stdin_open;
    out->limits.has_wall_time_ms = in->wall_time_ms > 0;
    out->limits.wall_time_ms = in->wall_time_ms;
    return put_environment(a, in, out, err);
}

/* ---- commands ---- */

int tc_session_exec(tc_session *s, const tc_call *call, const tc_command *command,
                    tc_exec_result *ret_result, tc_err *err)
{
    tci_eip_shell_exec_params params = {0};
    tci_eip_shell_exec_result res = {0};
    int rc = tci_call_check(call, err);
    if (rc == 0)
        rc = tci_put_command(&call->result->arena, command, &params.request, err);
    if (rc == 0)
        rc = tci_session_ask(s, call, TCI_EIP_SHELL_EXEC, &params, &res, err);
    if (rc < 0)
        return rc;
    tci_to_status(&res.status, &ret_result->status);
    tci_to_output(&res.output.stdout, &ret_result->out);
    tci_to_output(&res.output.stderr, &ret_result->err);
    return 0;
}

static int give_process(tc_session *s, tc_result *r, tc_str handle, const tci_eip_process_info *in,
                        tc_process *ret_process, tc_err *err)
{
    const tc_session_info *info = &s->info;
    if ((handle.len > 0 && !tci_str_eq(in->handle, handle)) ||
        !tci_str_eq(in->device_id, info->device_id) || in->generation != info->generation ||
        !tci_str_eq(in->session_id, info->session_id))
        return tci_session_violation(s, r, err, "another process than asked for");
    if (ret_process != NULL)
        tci_to_process(in, ret_process);
    return 0;
}

int tc_session_process_start(tc_session *s, const tc_call *call, const tc_command *command,
                             tc_process *ret_process, tc_err *err)
{
    tci_eip_process_start_params params = {0};
    tci_eip_process_start_result res = {0};
    int rc = tci_call_check(call, err);
    if (rc == 0)
        rc = tci_put_command(&call->result->arena, command, &params.request, err);
    if (rc == 0)
        rc = tci_session_ask(s, call, TCI_EIP_PROCESS_START, &params, &res, err);
    if (rc < 0)
        return rc;
    return give_process(s, call->result, (tc_str){0}, &res.process, ret_process, err);
}

int tc_session_process_inspect(tc_session *s, const tc_call *call, tc_str handle,
                               tc_process *ret_process, tc_err *err)
{
    tci_eip_process_inspect_params params = {.handle = handle};
    tci_eip_process_inspect_result res = {0};
    int rc = tci_session_ask(s, call, TCI_EIP_PROCESS_INSPECT, &params, &res, err);
    return rc < 0 ? rc : give_process(s, call->result, handle, &res.process, ret_process, err);
}

int tc_session_process_wait(tc_session *s, const tc_call *call, tc_str handle, bool tree_cleaned,
                            tc_process *ret_process, tc_err *err)
{
    tci_eip_process_wait_params params = {
        .handle = handle,
        .condition = tree_cleaned ? TCI_EIP_WAIT_CONDITION_TREE_CLEANED
                                  : TCI_EIP_WAIT_CONDITION_INITIAL_TERMINAL,
    };
    tci_eip_process_wait_result res = {0};
    int rc = tci_session_ask(s, call, TCI_EIP_PROCESS_WAIT, &params, &res, err);
    return rc < 0 ? rc : give_process(s, call->result, handle, &res.process, ret_process, err);
}

int tc_session_process_write(tc_session *s, const tc_call *call, tc_str handle, tc_str data,
                             bool close_after, uint64_t *ret_naccepted, tc_err *err)
{
    tci_eip_process_write_stdin_params params = {
        .handle = handle,
        .data = {data},
        .close_after_write = close_after,
    };
    tci_eip_process_write_stdin_result res = {0};
    int rc = tci_session_ask(s, call, TCI_EIP_PROCESS_WRITE_STDIN, &params, &res, err);
    if (rc < 0)
        return rc;
    if (res.accepted_bytes > data.len)
        return tci_session_violation(s, call->result, err, "more input accepted than was sent");
    if (ret_naccepted != NULL)
        *ret_naccepted = res.accepted_bytes;
    return 0;
}

int tc_session_process_close_stdin(tc_session *s, const tc_call *call, tc_str handle, tc_err *err)
{
    tci_eip_process_close_stdin_params params = {.handle = handle};
    tci_eip_process_close_stdin_result res = {0};
    return tci_session_ask(s, call, TCI_EIP_PROCESS_CLOSE_STDIN, &params, &res, err);
}

int tc_session_process_signal(tc_session *s, const tc_call *call, tc_str handle, tc_signal sig,
                              bool *ret_accepted, tc_process *ret_process, tc_err *err)
{
    if (sig != TC_SIGNAL_INTERRUPT && sig != TC_SIGNAL_TERMINATE)
        return tc_err_set(err, TC_E_INVALID, "only interrupt and terminate can be sent");
    tci_eip_process_signal_params params = {
        .handle = handle,
        .signal = sig == TC_SIGNAL_INTERRUPT ? TCI_EIP_REQUESTED_SIGNAL_INTERRUPT
                                             : TCI_EIP_REQUESTED_SIGNAL_TERMINATE,
    };
    tci_eip_process_signal_result res = {0};
    int rc = tci_session_ask(s, call, TCI_EIP_PROCESS_SIGNAL, &params, &res, err);
    if (rc < 0)
        return rc;
    if (ret_accepted != NULL)
        *ret_accepted = res.accepted;
    return give_process(s, call->result, handle, &res.process, ret_process, err);
}

int tc_session_process_kill(tc_session *s, const tc_call *call, tc_str handle,
                            tc_process *ret_process, tc_err *err)
{
    tci_eip_process_kill_params params = {.handle = handle};
    tci_eip_process_kill_result res = {0};
    int rc = tci_session_ask(s, call, TCI_EIP_PROCESS_KILL, &params, &res, err);
    return rc < 0 ? rc : give_process(s, call->result, handle, &res.process, ret_process, err);
}

int tc_session_process_release(tc_session *s, const tc_call *call, tc_str handle, tc_err *err)
{
    tci_eip_process_release_params params = {.handle = handle};
    tci_eip_process_release_result res = {0};
    return tci_session_ask(s, call, TCI_EIP_PROCESS_RELEASE, &params, &res, err);
}

/* ---- ports ---- */

static tci_eip_port_target put_port(uint16_t port, tc_port_address address)
{
    return (tci_eip_port_target){
        .address =
            address == TC_PORT_ANY ? TCI_EIP_PORT_ADDRESS_ANY : TCI_EIP_PORT_ADDRESS_LOOPBACK,
        .port = port,
    };
}

static int give_port(tc_session *s, const tci_eip_port_target *asked,
                     const tci_eip_port_observation *in, tc_port *ret_port, tc_err *err)
{
    if (in->target.port != asked->port || in->target.address != asked->address)
        return tci_session_violation(s, NULL, err, "another port than asked for");
    tci_to_port(in, ret_port);
    return 0;
}

int tc_session_port_inspect(tc_session *s, const tc_call *call, uint16_t port,
                            tc_port_address address, tc_port *ret_port, tc_err *err)
{
    tci_eip_port_inspect_params params = {.target = put_port(port, address)};
    tci_eip_port_inspect_result res = {0};
    int rc = tci_session_ask(s, call, TCI_EIP_PORT_INSPECT, &params, &res, err);
    return rc < 0 ? rc : give_port(s, &params.target, &res.observation, ret_port, err);
}

int tc_session_port_wait(tc_session *s, const tc_call *call, uint16_t port, tc_port_address address,
                         tc_port_status desired, tc_port *ret_port, tc_err *err)
{
    int rc = tci_call_check(call, err);
    if (rc < 0)
        return rc;
    if (desired == TC_PORT_UNKNOWN)
        return tc_err_set(err, TC_E_INVALID, "wait for listening or not listening");
    if (call->timeout_ms == 0 && tci_ctx_deadline_ns(call->ctx) == 0)
        return tc_err_set(err, TC_E_INVALID, "waiting for a port needs a deadline");
    tci_eip_port_wait_params params = {
        .target = put_port(port, address),
        .desired_status = desired == TC_PORT_LISTENING ? TCI_EIP_DESIRED_PORT_STATUS_LISTENING
                                                       : TCI_EIP_DESIRED_PORT_STATUS_NOT_LISTENING,
    };
    tci_eip_port_wait_result res = {0};
    rc = tci_session_ask(s, call, TCI_EIP_PORT_WAIT, &params, &res, err);
    return rc < 0 ? rc : give_port(s, &params.target, &res.observation, ret_port, err);
}
