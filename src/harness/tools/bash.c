/* SPDX-License-Identifier: Apache-2.0
 *
 * The tools "bash" and "powershell": a command in the environment's shell, its output as it comes. The
 * thread of the call. */
#include "harness/tools/tool_common.h"

#include "base/num.h"
#include <math.h>

static const char bash_schema[] =
    "{\"type\":\"object\",\"properties\":{"
    "\"command\":{\"type\":\"string\",\"description\":\"Bash command to run\"},"
    "\"timeout\":{\"type\":\"number\",\"description\":\"Seconds after which it is killed; without "
    "it "
    "there is no limit\"}},\"required\":[\"command\"]}";
static const char powershell_schema[] =
    "{\"type\":\"object\",\"properties\":{"
    "\"command\":{\"type\":\"string\",\"description\":\"PowerShell command to run\"},"
    "\"timeout\":{\"type\":\"number\",\"description\":\"Seconds after which it is killed; without "
    "it "
    "there is no limit\"}},\"required\":[\"command\"]}";
static const char output_schema[] =
    "{\"type\":\"object\",\"properties\":{"
    "\"output\":{\"type\":\"string\",\"description\":\"The end of its output, as far as it was "
    "kept\"},"
    "\"truncated\":{\"type\":\"boolean\",\"description\":\"Earlier output was dropped\"},"
    "\"fullOutputPath\":{\"type\":\"string\",\"description\":\"File with all of it, if there is "
    "one\"},"
    "\"exitCode\":{\"type\":\"number\"}},\"required\":[\"output\",\"truncated\",\"exitCode\"]}";

typedef struct job {
    tci_work w;
    const tc_bash_options *o;
    tc_bash_command command;
    bool has_timeout;
    double timeout_s;
    tc_str timeout_text;
    tc_exec_outcome outcome;
} job;

static int read_timeout(job *j)
{
    const tci_json *v = tci_json_get(j->w.arguments, TC_STR("timeout"));
    j->has_timeout = tci_work_number(&j->w, TC_STR("timeout"), &j->timeout_s);
    if (!j->has_timeout)
        return 0;
    j->timeout_text = v->u.text;
    if (!isfinite(j->timeout_s) || j->timeout_s <= 0)
        return tc_tool_fail(j->w.api, j->w.err,
                            "Invalid timeout: must be a finite number of seconds");
    if (j->timeout_s > 2147483.647)
        return tc_tool_fail(j->w.api, j->w.err, "Invalid timeout: maximum is 2147483.647 seconds");
    return 0;
}

static int prepare_command(job *j)
{
    tc_str command = {0};
    (void)tci_work_text(&j->w, TC_STR("command"), &command); /* the schema demands it */
    j->command = (tc_bash_command){.command = command, .cwd = tc_env_cwd(j->w.env)};
    if (j->o == NULL)
        return 0;
    if (j->o->command_prefix.len > 0) {
        tci_buf b;
        tci_buf_init(&b, TCI_BUF_MAX);
        tci_buf_append_str(&b, j->o->command_prefix);
        tci_buf_append_byte(&b, '\n');
        tci_buf_append_str(&b, command);
        if (tci_result_take(j->w.r, &b, &j->command.command, j->w.err) < 0)
            return j->w.err->code;
    }
    return j->o->prepare != NULL ? j->o->prepare(j->o->user, j->w.r, &j->command, j->w.err) : 0;
}

static int on_output(void *user, tc_stream_kind stream, tc_str text, const tc_skipped *skipped,
                     tc_err *err)
{
    tc_tool_api *api = user;
    TCI_UNUSED(stream); /* both in the order they arrive */
    return tc_tool_output(api, text, skipped, err);
}

static int run(job *j, const tc_strs *argv)
{
    const tc_output_window *window = tc_tool_output_window(j->w.api);
    tc_call call = tci_work_call(&j->w);
    tc_exec_options o = {.size = sizeof o,
                         .script = j->command.command,
                         .cwd = j->command.cwd,
                         .set_env = j->command.set_env,
                         .nset_env = j->command.nset_env,
                         .without_inherited_env = j->command.without_inherited_env,
                         .has_timeout = j->has_timeout,
                         .timeout_s = j->timeout_s,
                         .on_output = on_output,
                         .user = j->w.api,
                         .has_spill = true,
                         .spill_after_bytes = TCI_OUTPUT_MAX_BYTES,
                         .spill_after_lines = TCI_OUTPUT_MAX_LINES};
    if (argv != NULL) {
        o.is_argv = true;
        o.argv = *argv;
    }
    if (window != NULL) {
        o.has_window = true;
        o.window_max_bytes = window->max_bytes;
        o.window_max_lines = window->max_lines;
        o.window_min_interval_ms = window->min_interval_ms;
        o.window_bytes_per_second = window->bytes_per_second;
    }
    if (tc_tool_operation(j->w.api, j->w.ctx, TC_STR("the command"), j->w.r, &call.operation_id,
                          j->w.err) < 0)
        return j->w.err->code;
    return tc_env_exec(j->w.env, &call, &o, &j->outcome, j->w.err);
}

/* Not started at all: another program may be. */
static bool is_not_started(const job *j)
{
    return tc_result_evidence(j->w.r)->env_error == TC_ENV_SPAWN_ERROR;
}

static int tell_spill(job *j, tc_str path)
{
    return path.len == 0 ? 0
                         : tci_work_remark(&j->w, NULL, TC_SEVERITY_INFO, "full_output",
                                           "Full output: %.*s", TC_STR_ARG(path));
}

static int tell_failure(job *j)
{
    const tc_evidence *e = tc_result_evidence(j->w.r);
    tc_env_error why = e->env_error;
    tc_err problem = *j->w.err;
    if (tell_spill(j, e->spill_path) < 0)
        return j->w.err->code;
    if (why == TC_ENV_TIMEOUT)
        return tc_tool_fail(j->w.api, j->w.err, "Command timed out after %.*s seconds",
                            TC_STR_ARG(j->timeout_text));
    if (why == TC_ENV_ABORTED && (j->w.ctx == NULL || !tc_ctx_is_cancelled(j->w.ctx)))
        return tc_tool_fail(j->w.api, j->w.err, "Command aborted");
    *j->w.err = problem;
    /* The link went away while it ran: it may go on over there. */
    if (problem.code == TC_E_CLOSED && e->outcome != TC_OUTCOME_NOT_STARTED)
        return tc_err_recode(j->w.err, TC_E_UNKNOWN_OUTCOME);
    return problem.code;
}

static int tell(job *j, tc_tool_result *ret)
{
    tci_buf text, b;
    bool is_cut, first = true;
    if (tell_spill(j, j->outcome.spill_path) < 0)
        return j->w.err->code;
    tci_buf_init(&text, TCI_BUF_MAX);
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_reported_text(&j->w.api->reported, &text, &is_cut);
    tci_buf_append_byte(&b, '{');
    tci_put_str_member(&b, &first, TC_STR("output"), tci_buf_str(&text));
    tci_put_bool_member(&b, &first, TC_STR("truncated"), is_cut);
    tci_put_i64_member(&b, &first, TC_STR("exitCode"), j->outcome.exit_code);
    if (j->outcome.spill_path.len > 0)
        tci_put_str_member(&b, &first, TC_STR("fullOutputPath"), j->outcome.spill_path);
    tci_buf_append_byte(&b, '}');
    int rc = tci_buf_error(&text, j->w.err);
    tci_buf_done(&text);
    if (rc < 0) {
        tci_buf_done(&b);
        return rc;
    }
    if (tci_result_take(j->w.r, &b, &ret->structured_output, j->w.err) < 0)
        return j->w.err->code;
    if (j->outcome.exit_code == 0)
        return 0;
    ret->is_error = true;
    return tci_result_printf(
        j->w.r, &ret->diagnostics, j->w.err,
        "[{\"severity\":\"error\",\"code\":\"exit_code\",\"message\":\"Command "
        "exited with code %lld\"}]",
        (long long)j->outcome.exit_code);
}

static int begin(job *j, const tc_bash_options *o, tc_tool_api *api, tc_ctx *ctx, tc_str arguments,
                 tc_err *err)
{
    *j = (job){.o = o};
    if (tci_work_begin(&j->w, api, ctx, arguments, err) < 0 || read_timeout(j) < 0)
        return err->code;
    return prepare_command(j);
}

static int execute_bash(void *user, tc_str arguments, tc_tool_api *api, tc_ctx *ctx,
                        tc_tool_result *ret, tc_err *err)
{
    job j;
    if (begin(&j, user, api, ctx, arguments, err) < 0)
        return err->code;
    return run(&j, NULL) < 0 ? tell_failure(&j) : tell(&j, ret);
}

static int execute_powershell(void *user, tc_str arguments, tc_tool_api *api, tc_ctx *ctx,
                              tc_tool_result *ret, tc_err *err)
{
    static const tc_str usual[] = {{"pwsh", 4}, {"powershell", 10}};
    static const char utf8[] = "[Console]::OutputEncoding=[System.Text.Encoding]::UTF8\n";
    job j;
    tci_buf b;
    tc_str script;
    if (begin(&j, user, api, ctx, arguments, err) < 0)
        return err->code;
    tc_strs programs = {usual, TCI_ARRAY_LEN(usual)};
    if (j.o != NULL && j.o->powershell_programs.count > 0)
        programs = j.o->powershell_programs;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_buf_append_str(&b, tci_str(utf8));
    tci_buf_append_str(&b, j.command.command);
    if (tci_result_take(j.w.r, &b, &script, err) < 0)
        return err->code;
    int rc = 0;
    for (size_t i = 0; i < programs.count; i++) {
        tc_str argv[] = {programs.items[i],
                         TC_STR("-NoProfile"),
                         TC_STR("-NonInteractive"),
                         TC_STR("-ExecutionPolicy"),
                         TC_STR("Bypass"),
                         TC_STR("-Command"),
                         script};
        tc_strs all = {argv, TCI_ARRAY_LEN(argv)};
        rc = run(&j, &all);
        if (rc == 0 || !is_not_started(&j))
            break;
    }
    return rc < 0 ? tell_failure(&j) : tell(&j, ret);
}

static void *options_of(const tc_bash_options *options)
{
    union { /* the tool keeps it for its own function, which only reads it */
        const tc_bash_options *given;
        void *kept;
    } u = {.given = options};
    return u.kept;
}

void tc_tool_bash(const tc_bash_options *options, tc_tool *ret_tool)
{
    *ret_tool = (tc_tool){
        .size = sizeof *ret_tool,
        .name = TC_STR("bash"),
        .description = TC_STR(
            "Run a bash command in the working directory. Gives standard output and standard error "
            "together, of long output the last 2000 lines or 50KB; all of it is kept in a file "
            "then. "
            "timeout, in seconds, is optional."),
        .parameters = {bash_schema, sizeof bash_schema - 1},
        .structured_output_schema = {output_schema, sizeof output_schema - 1},
        .retain = TC_RETAIN_TAIL,
        .execute = execute_bash,
        .user = options_of(options)};
}

void tc_tool_powershell(const tc_bash_options *options, tc_tool *ret_tool)
{
    tc_tool_bash(options, ret_tool);
    ret_tool->name = TC_STR("powershell");
    ret_tool->description = TC_STR(
        "Run a PowerShell command in the working directory. Gives its output, of long output the "
        "last "
        "2000 lines or 50KB; all of it is kept in a file then. timeout, in seconds, is optional.");
    ret_tool->parameters = (tc_str){powershell_schema, sizeof powershell_schema - 1};
    ret_tool->execute = execute_powershell;
}
