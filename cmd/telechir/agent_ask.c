/* SPDX-License-Identifier: Apache-2.0
 *
 * Asking a person before tools run. A thread looks at what waits for a yes whenever the session changes,
 * and asks on the terminal; without one it ends the watching once nothing but questions is left, and the
 * questions stay in the session. The main thread starts and ends it. Invariant: an answer is given for
 * exactly the arguments that were shown, and no answer is no. */
#include "agent.h"

#include "plat/fd.h"

enum { FD_IN = 0, FD_ERR = 2, ANSWER_MAX = 64 };

static void on_commit(void *user, const tc_commit *commit)
{
    agent_asker *k = user;
    bool concerns = false;
    for (size_t i = 0; i < commit->nrecords; i++)
        concerns = concerns || commit->records[i].type == TC_RECORD_TASK;
    for (size_t i = 0; i < commit->ndocs; i++)
        concerns = concerns || tci_str_eq(commit->docs[i].kind, TC_STR("tc.approval"));
    if (concerns)
        tci_wake_all(&k->wake);
}

/* ---- on a terminal ---- */

static void show_question(const agent_asker *k, const tc_approval *q)
{
    tci_buf b;
    tc_err ignored; /* then nobody sees it, and nobody answers */
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_buf_append_str(&b, TC_STR("\nMay "));
    cli_put_name(&b, q->tool);
    tci_buf_printf(&b, " run on %.*s with\n  ", TC_STR_ARG(k->a->on));
    cli_put_name(&b, q->arguments);
    tci_buf_append_str(&b, TC_STR("\n(y)es or (n)o? "));
    if (tci_buf_ok(&b) && cli_write_stderr(tci_buf_str(&b), &ignored) < 0)
        cli_detail(k->a->c, "asking: %s", ignored.msg);
    tci_buf_done(&b);
}

/* A line without its end; too long a one is cut. CANCELLED, END, IO. */
static int read_line(agent_asker *k, char line[ANSWER_MAX], size_t *ret_len, tc_err *err)
{
    cli_input *in = k->a->c->input;
    size_t len = 0;
    if (in == NULL && cli_input_open(k->a->c, &in, err) < 0)
        return err->code;
    while (true) {
        char ch;
        size_t n;
        if (cli_input_read(in, k->ctx, &ch, 1, &n, err) < 0)
            return err->code;
        if (n == 0)
            return tc_err_set(err, TC_E_END, "nobody answers");
        if (ch == '\n')
            break;
        if (len < ANSWER_MAX)
            line[len++] = ch;
    }
    *ret_len = len;
    return 0;
}

static int ask(agent_asker *k, const tc_approval *q, tc_err *err)
{
    while (true) {
        char line[ANSWER_MAX];
        size_t len;
        show_question(k, q);
        if (read_line(k, line, &len, err) < 0)
            return err->code;
        tc_str answer = tci_str_trim(tci_str_of(line, len));
        bool is_yes = tci_str_eq(answer, TC_STR("y")) || tci_str_eq(answer, TC_STR("yes"));
        bool is_no = tci_str_eq(answer, TC_STR("n")) || tci_str_eq(answer, TC_STR("no"));
        if (!is_yes && !is_no)
            continue;
        int rc = tc_approval_answer(k->a->harness, k->ctx, q->request_id, q->digest, is_yes,
                                    (tc_str){NULL, 0}, err);
        return rc == TC_E_NOT_FOUND ? 0 : rc; /* the call has ended meanwhile */
    }
}

/* ---- what waits ---- */

/* Calls that run or are about to; those that wait for an answer too. */
static int count_calls(agent_asker *k, size_t *ret, tc_err *err)
{
    static const tc_str statuses[] = {{"running", 7}, {"pending", 7}};
    *ret = 0;
    for (size_t i = 0; i < TCI_ARRAY_LEN(statuses); i++) {
        enum { MORE_THAN_RUN = 1000 };
        tc_task_query query = TC_TASK_QUERY_ALL;
        tc_page page = {.limit = MORE_THAN_RUN};
        tc_records found;
        query.kind = TC_STR("pi.tool");
        query.status = statuses[i];
        if (tc_durable_tasks(tc_harness_session(k->a->harness), &query, &page, k->result, &found,
                             err) < 0)
            return err->code;
        *ret += found.count;
    }
    return 0;
}

/* 1: nothing more is to be done here. */
static int look(agent_asker *k, tc_err *err)
{
    tc_approvals waiting;
    size_t ncalls;
    tc_result_clear(k->result);
    if (tc_approval_list(k->a->harness, k->ctx, 0, k->result, &waiting, err) < 0)
        return err->code;
    if (waiting.count == 0)
        return 0;
    if (k->is_interactive)
        return ask(k, &waiting.items[0], err);
    if (count_calls(k, &ncalls, err) < 0)
        return err->code;
    return ncalls > waiting.count ? 0 : 1;
}

static void ask_on(void *user)
{
    agent_asker *k = user;
    while (!tc_ctx_is_cancelled(k->ctx)) {
        tc_err err;
        unsigned seen = tci_wake_count(&k->wake);
        int rc = look(k, &err);
        if (rc == TC_E_CANCELLED || rc == TC_E_CLOSED)
            return;
        if (rc < 0 && rc != TC_E_END)
            cli_warn(k->a->c, "asking failed: %s", err.msg);
        if (rc != 0) {
            k->is_unanswered = true; /* read after the thread has ended */
            tc_ctx_cancel(k->a->c->watch_ctx);
            return;
        }
        tci_wake_wait(&k->wake, seen, 0); /* an answer is a change, too */
    }
}

int agent_ask_start(agent_asker *k, agent *a)
{
    tc_err *err = &a->c->err;
    *k = (agent_asker){.a = a};
    if (!a->is_asking)
        return 0;
    k->is_interactive = !a->c->is_json && tci_fd_is_terminal(FD_IN) && tci_fd_is_terminal(FD_ERR);
    if (tc_ctx_new(-1, &k->ctx, err) < 0 || tc_result_new(&k->result, err) < 0 ||
        tc_durable_on_commit(tc_harness_session(a->harness), on_commit, k, &k->listener, err) < 0)
        return err->code;
    return tci_thread_new(ask_on, k, 0, &k->thread, err);
}

void agent_ask_end(agent_asker *k)
{
    if (k->ctx == NULL)
        return;
    tc_listener_remove(k->listener);
    tc_ctx_cancel(k->ctx);
    tci_wake_all(&k->wake);
    if (k->thread != NULL)
        tci_thread_join(k->thread);
    tc_ctx_free(k->ctx);
    tc_result_free(k->result);
    k->ctx = NULL;
}

/* ---- without a terminal ---- */

static int put_waiting(cli *c, const tc_approval *q)
{
    tci_buf b;
    bool first = true;
    if (!c->is_json) {
        cli_say(c, "%.*s waits for a yes: %.*s", TC_STR_ARG(q->tool), TC_STR_ARG(q->arguments));
        return 0;
    }
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_buf_append_byte(&b, '{');
    cli_json_str(&b, &first, "type", TC_STR("approval"));
    cli_json_str(&b, &first, "requestId", q->request_id);
    cli_json_u64(&b, &first, "taskId", q->task_id);
    cli_json_str(&b, &first, "toolCallId", q->call_id);
    cli_json_str(&b, &first, "toolName", q->tool);
    tci_json_put_key(&b, &first, TC_STR("args"));
    tci_buf_append_str(&b, q->arguments);
    cli_json_str(&b, &first, "digest", q->digest);
    tci_buf_append_byte(&b, '}');
    bool ok = cli_out_json(c, &b);
    tci_buf_done(&b);
    return ok ? 0 : c->err.code;
}

int agent_ask_refer(agent *a)
{
    cli *c = a->c;
    tc_approvals waiting;
    if (tc_approval_list(a->harness, c->ctx, 0, c->result, &waiting, &c->err) < 0)
        return c->err.code;
    for (size_t i = 0; i < waiting.count; i++) {
        if (put_waiting(c, &waiting.items[i]) < 0)
            return c->err.code;
    }
    (void)tc_err_set(&c->err, TC_E_DENIED, "%zu call%s for a yes", waiting.count,
                     waiting.count == 1 ? " waits" : "s wait");
    return tc_err_hint(
        &c->err,
        "`telechir run --session %.*s` on a terminal asks again; with --yes what waits "
        "and all that follows is allowed",
        TC_STR_ARG(a->path));
}

int agent_ask_grant(agent *a)
{
    cli *c = a->c;
    tc_approvals waiting;
    tc_str none = {NULL, 0};
    if (tc_approval_list(a->harness, c->ctx, 0, c->result, &waiting, &c->err) < 0)
        return c->err.code;
    for (size_t i = 0; i < waiting.count; i++) {
        if (tc_approval_answer(a->harness, c->ctx, waiting.items[i].request_id,
                               waiting.items[i].digest, true, none, &c->err) < 0)
            return c->err.code;
    }
    return 0;
}
