/* SPDX-License-Identifier: Apache-2.0
 *
 * exec and input: commands of a pi-env connection. Leaves running them to ops/run.c and what may be
 * left out of their output to ops/window.c; decides here when output becomes frames. Loop thread.
 * Invariant: a command is in the server's list from its start until its request is answered or
 * closed; a command whose request was closed is only waited for.
 *
 * Output of one turn of the loop is gathered and sent at its end, so that many small writes make one
 * frame. A command without a window is not read while too much is unsent. */
#include "daemon/pienv/pienv_core_int.h"

#include "base/num.h"
#include "ops/run.h"
#include "ops/window.h"

#include <errno.h>
#include <stdio.h>

enum {
    EVENT_BYTES = 64 * 1024,      /* gathered until then */
    INPUT_MAX = 16 * 1024 * 1024, /* waiting for one command */
    SKIPPED_JSON_MAX = 160,
    SURVIVORS_TEXT_MAX = 200
};

#define CLOCK_MS_MAX 9e12 /* more does not fit the clock */

/* What all commands of a server share. */
typedef struct exec_host {
    tci_ptree_host *trees;
    tci_exec_host *execs;
    tci_list commands; /* that can still be killed */
    size_t nabandoned; /* dying, without a request */
} exec_host;

typedef struct command {
    tci_link link;
    exec_host *host;
    tci_pi_req *req;
    tci_run *run;
    bool is_muted; /* aborted behind a full queue: nobody waits for the rest */
    bool is_paused, has_stdin;
    size_t input_bytes; /* waiting */
    tci_later flush;

    /* without a window: text of one stream, not sent yet */
    tci_buf gathered;
    tci_exec_stream gathered_stream;
    tci_pi_room room;

    bool has_window;
    tci_window window;
    tci_timer due;
    tci_pi_delivery delivery;
} command;

/* ---- the host ---- */

static exec_host *host_of(const tci_pi_server *s)
{
    return *tci_pi_exec_slot((tci_pi_server *)(uintptr_t)s);
}

static int host_new(tci_pi_server *s, exec_host **ret, tc_err *err)
{
    tci_ptree_opts opts = {.is_program = true};
    exec_host *h = tci_new(exec_host);
    if (h == NULL)
        return tci_err_no_memory(err);
    tci_list_init(&h->commands);
    int rc = tci_ptree_host_new(tci_pi_loop(s), &opts, &h->trees, err);
    if (rc == 0)
        rc = tci_exec_host_new(tci_pi_loop(s), h->trees, &h->execs, err);
    if (rc < 0) {
        tci_ptree_host_free(h->trees);
        tci_free(h);
        return rc;
    }
    *ret = h;
    return 0;
}

static int host_get(tci_pi_server *s, exec_host **ret, tc_err *err)
{
    void **slot = tci_pi_exec_slot(s);
    exec_host *h = *slot;
    if (h == NULL && host_new(s, &h, err) < 0)
        return err->code;
    *slot = *ret = h;
    return 0;
}

int tci_pi_exec_trees(tci_pi_server *s, struct tci_ptree_host **ret, tc_err *err)
{
    exec_host *h;
    if (host_get(s, &h, err) < 0)
        return err->code;
    *ret = h->trees;
    return 0;
}

bool tci_pi_exec_is_idle(const tci_pi_server *s)
{
    const exec_host *h = host_of(s);
    return h == NULL || tci_exec_host_count(h->execs) == 0;
}

void tci_pi_exec_free(tci_pi_server *s)
{
    exec_host *h = host_of(s);
    if (h == NULL)
        return;
    TC_ASSERT(tci_list_is_empty(&h->commands) && h->nabandoned == 0);
    tci_exec_host_free(h->execs);
    tci_ptree_host_free(h->trees);
    tci_free(h);
    *tci_pi_exec_slot(s) = NULL;
}

void tci_pi_kill_all(tci_pi_server *s)
{
    exec_host *h = host_of(s);
    if (h == NULL)
        return;
    TCI_LIST_EACH (&h->commands, k)
        tci_run_kill(TCI_CONTAINER(k, command, link)->run);
}

static void command_free(command *c)
{
    tci_link_remove(&c->link);
    tci_later_cancel(&c->flush);
    tci_pi_bulk_forget(&c->room);
    tci_pi_delivery_forget(&c->delivery);
    tci_timer_stop(&c->due);
    tci_buf_done(&c->gathered);
    if (c->has_window)
        tci_window_done(&c->window);
    c->req->state = NULL;
    tci_free(c);
}

/* ---- output ---- */

static const char *const plain_events[] = {
    [TCI_EXEC_OUT] = "{\"kind\":\"output\",\"stream\":\"stdout\"}",
    [TCI_EXEC_ERR] = "{\"kind\":\"output\",\"stream\":\"stderr\"}",
};

static void pause(command *c, bool is_paused)
{
    if (c->is_paused == is_paused)
        return;
    c->is_paused = is_paused;
    tci_run_pause_output(c->run, is_paused);
}

static void on_room(tci_pi_room *room)
{
    command *c = TCI_CONTAINER(room, command, room);
    pause(c, false);
}

/* Do not read on while too much is unsent. */
static void respect_queue(command *c)
{
    if (c->has_window || !tci_pi_bulk_is_full(c->req->server))
        return;
    pause(c, true);
    tci_pi_bulk_wait(c->req->server, &c->room);
}

static int send_gathered(command *c, tc_err *err)
{
    if (c->gathered.len == 0)
        return 0;
    tci_buf payload = c->gathered;
    tci_buf_init(&c->gathered, TCI_BUF_MAX);
    int rc = tci_pi_event(c->req, TCI_PI_BULK, tci_str(plain_events[c->gathered_stream]), &payload,
                          NULL, err);
    if (rc == 0)
        respect_queue(c);
    return rc;
}

static int gather(command *c, tci_exec_stream stream, tc_str text, tc_err *err)
{
    bool is_other = c->gathered.len > 0 && c->gathered_stream != stream;
    if (is_other && send_gathered(c, err) < 0)
        return err->code;
    c->gathered_stream = stream;
    tci_buf_append_str(&c->gathered, text);
    if (tci_buf_error(&c->gathered, err) < 0)
        return err->code;
    if (c->gathered.len >= EVENT_BYTES)
        return send_gathered(c, err);
    tci_loop_later(tci_pi_loop(c->req->server), &c->flush);
    return 0;
}

static int send_window_event(command *c, tci_window_event *e, tci_pi_delivery *delivery,
                             tc_err *err)
{
    char json[SKIPPED_JSON_MAX];
    const char *plain = plain_events[e->stream];
    tc_str text = tci_str(plain);
    if (e->has_skipped) {
        int len =
            snprintf(json, sizeof json,
                     "{\"kind\":\"output\",\"stream\":\"%s\",\"skipped\":{\"bytes\":%llu,"
                     "\"newlines\":%llu,\"endsWithNewline\":%s}}",
                     e->stream == TCI_EXEC_OUT ? "stdout" : "stderr",
                     (unsigned long long)e->skipped_bytes, (unsigned long long)e->skipped_newlines,
                     e->skipped_ends_with_newline ? "true" : "false");
        text = tci_str_of(json, (size_t)len);
    }
    return tci_pi_event(c->req, TCI_PI_BULK, text, &e->text, e->is_last ? delivery : NULL, err);
}

static int send_window(command *c, tci_pi_delivery *delivery, tc_err *err)
{
    tci_window_event e;
    int64_t now_ns = tci_loop_now_ns(tci_pi_loop(c->req->server));
    for (bool has_one = true; has_one;) {
        int rc = tci_window_take(&c->window, now_ns, &e, &has_one, err);
        if (rc == 0 && has_one)
            rc = send_window_event(c, &e, delivery, err);
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* Deliver what is due, or see to it that this is called when it is. */
static int deliver(command *c, tc_err *err)
{
    tci_loop *loop = tci_pi_loop(c->req->server);
    int64_t due_ns = tci_window_due_ns(&c->window);
    int rc = 0;
    if (due_ns <= tci_loop_now_ns(loop)) {
        tci_timer_stop(&c->due);
        rc = send_window(c, &c->delivery, err);
    } else if (due_ns != INT64_MAX && (!tci_timer_is_armed(&c->due) || c->due.due_ns != due_ns)) {
        rc = tci_timer_start_at(&c->due, due_ns, err);
    }
    pause(c, tci_window_is_full(&c->window));
    return rc;
}

/* Nobody can be told of a failure here but by the end of the command. */
static void deliver_or_kill(command *c)
{
    tc_err err;
    if (deliver(c, &err) < 0)
        tci_run_fail(c->run, err.msg);
}

static void on_written(tci_pi_delivery *d, bool was_sent)
{
    command *c = TCI_CONTAINER(d, command, delivery);
    if (!was_sent)
        return; /* the connection is over */
    tci_window_written(&c->window);
    tci_loop_later(tci_pi_loop(c->req->server), &c->flush);
}

static void on_due(tci_timer *timer)
{
    deliver_or_kill(TCI_CONTAINER(timer, command, due));
}

static void on_flush(tci_later *later)
{
    command *c = TCI_CONTAINER(later, command, flush);
    tc_err err;
    if (c->has_window)
        deliver_or_kill(c);
    else if (send_gathered(c, &err) < 0)
        tci_run_fail(c->run, err.msg);
}

static int on_output(tci_run *run, tci_exec_stream stream, tc_str text, tc_err *err)
{
    command *c = tci_run_user(run);
    if (c->is_muted)
        return 0;
    if (!c->has_window)
        return gather(c, stream, text, err);
    if (tci_window_put(&c->window, stream, text, err) < 0)
        return err->code;
    if (tci_window_is_full(&c->window))
        pause(c, true);
    tci_loop_later(tci_pi_loop(c->req->server), &c->flush);
    return 0;
}

/* All that is left, whether it is due or not. */
static int send_rest(command *c, tc_err *err)
{
    if (!c->has_window)
        return send_gathered(c, err);
    tci_pi_delivery_forget(&c->delivery);
    return send_window(c, NULL, err);
}

/* ---- the end ---- */

static void put_survivors(const tci_run_result *result, char out[SURVIVORS_TEXT_MAX])
{
    tci_buf text;
    tci_buf_init(&text, SURVIVORS_TEXT_MAX - 1);
    out[0] = '\0';
    for (size_t i = 0; i < result->nsurvivors; i++)
        tci_buf_printf(&text, "%s %d", i == 0 ? "; still alive:" : ",", result->survivors[i].pid);
    tc_err err;
    if (!tci_buf_ok(&text) || tci_cstr(tci_buf_str(&text), out, SURVIVORS_TEXT_MAX, &err) < 0)
        out[0] = '\0';
    tci_buf_done(&text);
}

static void answer_failure(tci_pi_req *r, const tci_run_result *result)
{
    static const char *const codes[] = {[TCI_RUN_TIMED_OUT] = "timeout",
                                        [TCI_RUN_ABORTED] = "aborted",
                                        [TCI_RUN_SPILL_FAILED] = "unknown",
                                        [TCI_RUN_LOST] = "spawn_error"};
    static const char *const texts[] = {
        [TCI_RUN_TIMED_OUT] = "the command took too long and was killed",
        [TCI_RUN_ABORTED] = "the command was aborted",
        [TCI_RUN_SPILL_FAILED] = "Failed to preserve complete shell output: ",
        [TCI_RUN_LOST] = "cannot tell how the command ended: "};
    char message[TC_ERR_MSG_MAX + SURVIVORS_TEXT_MAX], survivors[SURVIVORS_TEXT_MAX];
    put_survivors(result, survivors);
    int len = snprintf(message, sizeof message, "%s%.*s%s", texts[result->end],
                       TC_STR_ARG(result->message), survivors);
    tci_pi_failure f = {.code = codes[result->end]};
    f.message = tci_str_of(message, tci_min_size((size_t)len, sizeof message - 1));
    if (result->end == TCI_RUN_TIMED_OUT || result->end == TCI_RUN_ABORTED)
        f.spill_path = result->spill_path;
    tci_pi_fail(r, &f);
}

static void answer_result(tci_pi_req *r, const tci_run_result *result)
{
    tci_pi_exec_result out = {.exit_code = result->exit_code};
    out.has_spill_path = result->spill_path.len > 0;
    out.spill_path = result->spill_path;
    uint64_t pids[TCI_TREE_NAMED_MAX];
    if (tci_pi_has_ext(r->server)) {
        out.has_signal = result->signum != 0;
        out.signal = (uint32_t)result->signum;
        out.survivors.items = pids;
        out.survivors.count = tci_min_size(result->nsurvivors, TCI_TREE_NAMED_MAX);
        for (size_t i = 0; i < out.survivors.count; i++)
            pids[i] = (uint64_t)result->survivors[i].pid;
    }
    tci_pi_reply(r, &tci_pi_exec_result_type, &out, NULL);
}

static void on_done(tci_run *run, const tci_run_result *result)
{
    command *c = tci_run_user(run);
    tci_pi_req *r = c->req;
    tci_run_result told = *result;
    tc_err err;
    if (send_rest(c, &err) < 0 && told.end == TCI_RUN_EXITED) {
        told.end = TCI_RUN_SPILL_FAILED;
        told.message = tci_str(err.msg);
    }
    command_free(c);
    if (told.end == TCI_RUN_EXITED)
        answer_result(r, &told);
    else
        answer_failure(r, &told);
    tci_run_free(run);
}

static void on_cancel(tci_pi_req *r, bool is_kill)
{
    command *c = r->state;
    if (c == NULL)
        return;
    if (is_kill) {
        tci_run_kill(c->run);
        return;
    }
    tci_run_abort(c->run);
    if (!c->is_paused)
        return;
    /* Its pipes are full and so is the queue: the answer need not wait for both. */
    c->is_muted = true;
    tci_pi_bulk_forget(&c->room);
    pause(c, false);
}

static void on_abandoned(void *user)
{
    tci_pi_server *s = user;
    host_of(s)->nabandoned--;
    tci_pi_check_end(s);
}

static void on_close(tci_pi_req *r)
{
    command *c = r->state;
    if (c == NULL)
        return;
    tci_run *run = c->run;
    c->host->nabandoned++;
    command_free(c);
    tci_run_abandon(run, on_abandoned, r->server);
}

/* ---- exec ---- */

/* NULL, or what is wrong. */
static const char *check(const tci_pi_exec_params *p)
{
    if (!p->has_command && p->argv.items == NULL)
        return "exec needs command or argv";
    if (!p->has_cwd)
        return "exec needs cwd";
    if (p->has_timeout_ms && (p->timeout_ms < 0 || p->timeout_ms > CLOCK_MS_MAX))
        return "timeoutMs is out of range";
    return NULL;
}

static int take_vars(tci_pi_req *r, const tci_pi_exec_params *p, tci_run_opts *opts, tc_err *err)
{
    tci_run_var *vars = tci_arena_items(&r->arena, tci_run_var, p->env.count);
    if (vars == NULL)
        return tci_arena_error(&r->arena, err);
    for (size_t i = 0; i < p->env.count; i++)
        vars[i] = (tci_run_var){p->env.items[i].key, p->env.items[i].value};
    opts->vars = vars;
    opts->nvars = p->env.count;
    return 0;
}

static int take_options(tci_pi_req *r, tci_run_opts *opts, tc_err *err)
{
    const tci_pi_exec_params *p = r->params;
    bool has_ext = tci_pi_has_ext(r->server);
    static const char nothing[] = "";
    if (p->has_command)
        opts->command = p->command.ptr != NULL ? p->command : tci_str(nothing);
    opts->argv = p->argv.items;
    opts->nargv = p->argv.count;
    opts->cwd = p->cwd;
    opts->inherit_env = p->inherit_env;
    if (p->has_shell_path)
        opts->shell_path = p->shell_path.ptr != NULL ? p->shell_path : tci_str(nothing);
    opts->is_login = has_ext && p->login;
    if (p->has_timeout_ms)
        opts->timeout_ns = (int64_t)(p->timeout_ms * 1e6);
    opts->has_spill = p->has_spill;
    opts->spill_after_bytes = p->spill.after_bytes;
    opts->spill_after_lines = p->spill.after_lines;
    opts->tmp_dir = tci_pi_tmpdir(r->server);
    opts->is_raw = has_ext && p->raw;
    opts->has_stdin = has_ext && p->has_input;
    opts->on_output = on_output;
    opts->on_done = on_done;
    return take_vars(r, p, opts, err);
}

static command *command_new(tci_pi_req *r, exec_host *h)
{
    const tci_pi_exec_params *p = r->params;
    command *c = tci_new(command);
    if (c == NULL)
        return NULL;
    c->host = h;
    c->req = r;
    c->flush.cb = on_flush;
    c->room.cb = on_room;
    c->delivery.on_written = on_written;
    tci_buf_init(&c->gathered, TCI_BUF_MAX);
    tci_timer_init(&c->due, tci_pi_loop(r->server), on_due);
    c->has_window = p->has_window;
    if (c->has_window)
        tci_window_init(&c->window,
                        &(tci_window_opts){.max_bytes = p->window.max_bytes,
                                           .max_lines = p->window.max_lines,
                                           .min_interval_ms = p->window.min_interval_ms,
                                           .bytes_per_second = p->window.bytes_per_second});
    return c;
}

static int start(tci_pi_req *r, tc_err *err)
{
    exec_host *h;
    tci_run_opts opts = TCI_RUN_OPTS_NONE;
    if (host_get(r->server, &h, err) < 0 || take_options(r, &opts, err) < 0)
        return err->code;
    command *c = command_new(r, h);
    if (c == NULL)
        return tci_err_no_memory(err);
    opts.user = c;
    int rc = tci_run_start(h->execs, &opts, &r->arena, &c->run, err);
    if (rc < 0) {
        command_free(c);
        return rc;
    }
    c->has_stdin = opts.has_stdin;
    tci_list_push_back(&h->commands, &c->link);
    r->state = c;
    r->on_cancel = on_cancel;
    r->on_close = on_close;
    return 0;
}

void tci_pi_on_exec(tci_pi_req *r)
{
    tc_err err;
    const char *fault = check(r->params);
    r->is_bulk = true;
    if (fault != NULL) {
        tci_pi_fail_code(r, "EINVAL", "%s", fault);
        return;
    }
    int rc = start(r, &err);
    if (rc < 0)
        tci_pi_fail_code(r, rc == TC_E_NOT_FOUND ? "shell_unavailable" : "spawn_error", "%s",
                         err.msg);
    else
        respect_queue(r->state);
}

/* ---- input ---- */

/* Outlives its request when the connection ends first. */
typedef struct input {
    tci_exec_write write;
    tci_pi_req *req; /* NULL: closed */
    command *command;
} input;

static void on_input_close(tci_pi_req *r)
{
    input *in = r->state;
    in->req = NULL; /* commands were closed before: its callback comes */
}

static void on_input_written(tci_exec_write *write, int rc, const tc_err *err)
{
    input *in = TCI_CONTAINER(write, input, write);
    tci_pi_req *r = in->req;
    TCI_UNUSED(err);
    if (r != NULL) {
        in->command->input_bytes -= write->data.len;
        r->on_close = NULL;
        if (rc == 0 && write->accepted == write->data.len)
            tci_pi_reply(r, NULL, NULL, NULL);
        else
            tci_pi_fail_os(r, EBADF, "write", tci_str_of(NULL, 0)); /* nobody reads any more */
    }
    tci_free(in);
}

static command *find_command(const tci_pi_req *r)
{
    const tci_pi_input_params *p = r->params;
    tci_pi_req *exec = p->exec <= UINT32_MAX ? tci_pi_req_find(r->server, (uint32_t)p->exec) : NULL;
    bool is_exec = exec != NULL && exec->on_cancel == on_cancel;
    command *c = is_exec ? exec->state : NULL;
    return c != NULL && c->has_stdin ? c : NULL;
}

void tci_pi_on_input(tci_pi_req *r)
{
    tc_err err;
    const tci_pi_input_params *p = r->params;
    command *c = find_command(r);
    if (c == NULL) {
        tci_pi_fail_os(r, EBADF, "write", tci_str_of(NULL, 0));
        return;
    }
    if (c->input_bytes > INPUT_MAX) {
        tci_pi_fail_os(r, EAGAIN, "write", tci_str_of(NULL, 0));
        return;
    }
    input *in = tci_new(input);
    if (in == NULL) {
        tci_pi_fail_os(r, ENOMEM, "write", tci_str_of(NULL, 0));
        return;
    }
    in->write = (tci_exec_write){.data = r->payload, .close_after = p->end, .cb = on_input_written};
    in->req = r;
    in->command = c;
    if (tci_run_write_stdin(c->run, &in->write, &err) < 0) {
        tci_free(in);
        tci_pi_fail_os(r, EBADF, "write", tci_str_of(NULL, 0));
        return;
    }
    c->input_bytes += r->payload.len;
    r->state = in;
    r->on_close = on_input_close;
}
