/* SPDX-License-Identifier: Apache-2.0
 *
 * tc_env_run over pi-env: a command with its output as raw bytes, and input while it runs. What the
 * request cannot say (variables taken away, another shell profile) goes over EIP. The caller's
 * thread, and one more for live input. Invariant: that thread has ended when the run returns, and
 * the command has, or it is said that this is not known. */
#include "env/pi/pi_int.h"

/* Pieces that small do not change places with the command itself on their way. */
enum { COLLECT_DEFAULT = 1024 * 1024, INPUT_PIECE = 64 * 1024 };

typedef struct running {
    tc_env *env;
    const tc_call *call;
    const tc_command *command;
    const tc_run_options *options;
    tci_buf bufs[2];
    uint64_t produced[2];
    uint64_t max;
    tci_pi_call request;
    tci_penv_running attended;
    /* input */
    tc_result *input_result;
    tci_pi_call first_input; /* command->input, sent at once */
    bool has_first_input;
    tci_thread *feeder;
    tc_ctx *input_ctx;
    int input_rc; /* why the command did not get its input; it was aborted then */
    tc_err input_err;
} running;

/* ---- output ---- */

static int on_note(void *user, const tci_pi_note *note, tc_err *err)
{
    running *run = user;
    if (!note->is_output)
        return 0;
    tci_buf *b = &run->bufs[note->is_stderr];
    uint64_t room = run->max - b->len;
    run->produced[note->is_stderr] += note->payload.len;
    tci_buf_append(b, note->payload.ptr, (size_t)tci_min_u64(room, note->payload.len));
    int rc = tci_buf_error(b, err);
    if (rc == 0 && run->options->on_output != NULL)
        rc = run->options->on_output(run->options->user, note->is_stderr ? TC_STDERR : TC_STDOUT,
                                     note->payload.ptr, note->payload.len, err);
    return rc;
}

/* ---- input ---- */

static int send_input(running *run, tci_pi_call *request, tc_result *r, tc_str bytes, bool is_end,
                      tc_err *err)
{
    tci_pi_input_params params = {.exec = run->request.id, .end = is_end};
    *request = (tci_pi_call){.op = TCI_PI_INPUT,
                             .params = &params,
                             .result = r,
                             .parts = {{bytes.ptr, bytes.len}},
                             .nparts = bytes.len > 0 ? 1 : 0,
                             .session = run->request.ran_in,
                             .needs_ext = true};
    return tci_pi_begin(tci_penv_of(run->env)->pi, run->input_ctx, request, err);
}

/* Pieces of text, then of the live input: each is taken before the next is sent. */
static int feed(running *run, tc_result *r, char *buf, tc_err *err)
{
    tc_str text = run->command->input;
    tc_input *in = run->options->input;
    for (;;) {
        tci_pi_call request;
        tc_str piece = tci_str_sub(text, 0, INPUT_PIECE);
        text = tci_str_sub(text, piece.len, SIZE_MAX);
        bool is_end = text.len == 0 && in == NULL;
        if (piece.len == 0 && in != NULL) {
            size_t n = 0;
            int rc = tci_input_take(in, buf, INPUT_PIECE, &n, err);
            if (rc < 0)
                return rc;
            piece = tci_str_of(buf, n);
            is_end = n == 0;
        }
        tc_result_clear(r);
        int rc = send_input(run, &request, r, piece, is_end, err);
        if (rc == 0)
            rc = tci_pi_wait(&request, err);
        if (rc < 0 || is_end)
            return rc;
    }
}

static void feeder(void *arg)
{
    running *run = arg;
    tc_err *err = &run->input_err;
    char *buf = tci_mem_alloc(INPUT_PIECE);
    int rc = buf != NULL ? feed(run, run->input_result, buf, err) : tci_err_no_memory(err);
    tci_free(buf);
    if (run->options->input != NULL)
        tci_input_over(run->options->input);
    /* A command may take no more of it, or have ended, and then ends as it likes. */
    if (rc == 0 || rc == TC_E_BAD_HANDLE || rc == TC_E_CLOSED ||
        tc_ctx_is_cancelled(run->input_ctx))
        return;
    run->input_rc = tc_err_wrap(err, "the command did not get its input");
    tci_penv_end(tci_penv_of(run->env), &run->attended);
}

/* Begun: give it its input. Little of it goes at once, without a thread. */
static int start_input(void *user, tc_err *err)
{
    running *run = user;
    tc_str text = run->command->input;
    if (text.len == 0 && run->options->input == NULL)
        return 0;
    if (run->options->input == NULL && text.len <= INPUT_PIECE) {
        int rc = send_input(run, &run->first_input, run->input_result, text, true, err);
        run->has_first_input = rc == 0;
        return rc;
    }
    return tci_thread_new(feeder, run, 0, &run->feeder, err);
}

static void end_input(running *run)
{
    if (run->options->input != NULL)
        tci_input_over(run->options->input);
    if (run->input_ctx != NULL)
        tc_ctx_cancel(run->input_ctx);
    tci_thread_join(run->feeder);
    if (run->has_first_input)
        tci_pi_drop(&run->first_input);
}

/* ---- the end ---- */

static tc_signal signal_of(uint32_t number)
{
    enum { INT = 2, KILL = 9, TERM = 15 };
    switch (number) {
    case INT:
        return TC_SIGNAL_INTERRUPT;
    case KILL:
        return TC_SIGNAL_KILL;
    case TERM:
        return TC_SIGNAL_TERMINATE;
    default:
        return TC_SIGNAL_NONE;
    }
}

static void fill_status(const tci_pi_exec_result *reply, bool is_timed_out,
                        tc_process_status *status)
{
    bool is_signal = reply->has_signal;
    *status = (tc_process_status){
        .phase = is_timed_out ? TC_PROCESS_TIMED_OUT
                 : is_signal  ? TC_PROCESS_SIGNALED
                              : TC_PROCESS_EXITED,
        .termination = is_timed_out ? TC_TERMINATION_TIMEOUT
                       : is_signal  ? TC_TERMINATION_SIGNAL
                                    : TC_TERMINATION_EXIT,
        .has_exit_code = !is_timed_out && !is_signal,
        .exit_code = is_timed_out ? 0 : (int32_t)reply->exit_code, /* 128+n after signal n */
        .signal = is_signal ? signal_of(reply->signal) : TC_SIGNAL_NONE,
        .cleanup = reply->survivors.count > 0 ? TC_CLEANUP_FAILED : TC_CLEANUP_COMPLETE,
    };
}

static int give(const running *run, const tci_pi_exec_result *reply, bool is_timed_out,
                tc_run_result *ret, tc_err *err)
{
    tc_run_result res = {
        .is_timed_out = is_timed_out,
        .out_nbytes = run->produced[0],
        .err_nbytes = run->produced[1],
        .is_out_cut = run->produced[0] > run->bufs[0].len,
        .is_err_cut = run->produced[1] > run->bufs[1].len,
    };
    fill_status(reply, is_timed_out, &res.status);
    int rc = tc_result_dup(run->call->result, tci_buf_str(&run->bufs[0]), &res.out, err);
    if (rc == 0)
        rc = tc_result_dup(run->call->result, tci_buf_str(&run->bufs[1]), &res.err, err);
    if (rc == 0)
        *ret = res;
    return rc;
}

/* ---- running ---- */

static int fill_params(const running *run, tci_pi_exec_params *params, tc_err *err)
{
    const tc_command *c = run->command;
    tci_arena *a = tci_result_arena(run->call->result);
    uint64_t limit_ms = run->options->timeout_ms > 0 ? run->options->timeout_ms : c->wall_time_ms;
    *params = (tci_pi_exec_params){
        .has_command = c->program.len == 0,
        .command = c->script,
        .has_cwd = true,
        .cwd = c->cwd.len > 0 ? c->cwd : tci_env_cwd_now(run->env),
        .inherit_env = true,
        .has_timeout_ms = limit_ms > 0,
        .timeout_ms = (double)limit_ms,
        .raw = true,
        .has_input = c->input.len > 0 || run->options->input != NULL,
        .login = c->is_login,
    };
    tci_proto_pair *pairs = tci_arena_items(a, tci_proto_pair, c->nset_env);
    tc_str *argv = tci_arena_items(a, tc_str, c->nargs + 1);
    if ((pairs == NULL && c->nset_env > 0) || argv == NULL)
        return tci_arena_error(a, err);
    for (size_t i = 0; i < c->nset_env; i++)
        pairs[i] = (tci_proto_pair){c->set_env[i].key, c->set_env[i].value};
    argv[0] = c->program;
    for (size_t i = 0; i < c->nargs; i++)
        argv[i + 1] = c->args[i];
    params->env.items = pairs;
    params->env.count = c->nset_env;
    if (c->program.len > 0) {
        params->argv.items = argv;
        params->argv.count = c->nargs + 1;
    }
    return 0;
}

static int run_it(running *run, tc_run_result *ret, tc_err *err)
{
    tci_pi_exec_params params;
    tci_pi_exec_result reply = {.exit_code = 0};
    int rc = fill_params(run, &params, err);
    if (rc == 0 && params.has_input)
        rc = tc_result_new(&run->input_result, err);
    if (rc == 0 && params.has_input)
        rc = tc_ctx_new(-1, &run->input_ctx, err);
    if (rc < 0)
        return rc;
    run->request = (tci_pi_call){.op = TCI_PI_EXEC,
                                 .params = &params,
                                 .reply = &reply,
                                 .result = run->call->result,
                                 .needs_ext = true,
                                 .on_note = on_note,
                                 .user = run};
    rc = tci_penv_attend(tci_penv_of(run->env), run->call, &run->request, &run->attended,
                         start_input, run, err);
    end_input(run);
    if (run->input_rc < 0 && (rc == 0 || rc == TC_E_CANCELLED)) {
        *err = run->input_err;
        return err->code;
    }
    bool is_timed_out = rc < 0 && tci_str_eq(run->request.fault.error.code, TC_STR("timeout"));
    if (rc < 0 && !is_timed_out)
        return tci_penv_blame(run->call, &run->request, rc, (tc_str){0});
    return give(run, &reply, is_timed_out, ret, err);
}

/* Can the request say it all? */
static bool is_plain(const tc_command *c)
{
    bool is_default = c->profile_id.len == 0 || tci_str_eq(c->profile_id, TC_STR("default"));
    return c->nunset_env == 0 && is_default;
}

static int run_over_eip(tc_env *env, const tc_call *call, const tc_command *command,
                        const tc_run_options *options, tc_run_result *ret, tc_err *err)
{
    tc_env *eip;
    tc_command c = *command;
    int rc = tci_penv_eip_enter(env, call, &eip, err);
    if (rc < 0)
        return rc;
    if (c.cwd.len == 0)
        c.cwd = tci_env_cwd_now(env);
    rc = eip->v->run(eip, call, &c, options, ret, err);
    tci_penv_eip_leave(eip);
    return rc;
}

int tci_penv_run(tc_env *env, const tc_call *call, const tc_command *command,
                 const tc_run_options *options, tc_run_result *ret_result, tc_err *err)
{
    if (command->keep_stdin_open)
        return tc_err_set(err, TC_E_INVALID, "a command that runs to its end gets all its input");
    if (!is_plain(command))
        return run_over_eip(env, call, command, options, ret_result, err);
    int rc = tci_env_cwd_now(env).len > 0 || command->cwd.len > 0
                 ? 0
                 : tci_penv_know(env, call, false, err);
    if (rc < 0)
        return rc;
    running run = {.env = env, .call = call, .command = command, .options = options};
    run.max = options->max_collect;
    if (run.max == 0 && options->on_output == NULL)
        run.max = COLLECT_DEFAULT;
    tci_buf_init(&run.bufs[0], TCI_BUF_MAX);
    tci_buf_init(&run.bufs[1], TCI_BUF_MAX);
    rc = run_it(&run, ret_result, err);
    tci_buf_done(&run.bufs[0]);
    tci_buf_done(&run.bufs[1]);
    tc_ctx_free(run.input_ctx);
    tc_result_free(run.input_result);
    return rc;
}
