/* SPDX-License-Identifier: Apache-2.0
 *
 * `telechir run`: one durable run. Puts the prompt into the session, lets it work, and shows what happens
 * until nothing is left to do. Leaves opening to agent.c and showing to run_show.c. The main thread; one
 * more waits for the end. Invariant: what was asked is in the session before anything is done about it,
 * and Ctrl-C ends the run in the session, not only in this process. */
#include "agent.h"

enum { PROMPT_MAX = 16 * 1024 * 1024, ABORT_MS = 20000 };

/* ---- the prompt ---- */

/* All arguments, joined by blanks; "-": standard input. Empty: go on with what is unfinished. */
static int read_prompt(cli *c, tci_buf *prompt)
{
    tci_buf_init(prompt, PROMPT_MAX);
    if (c->nargs == 1 && strcmp(c->args[0], "-") == 0)
        return cli_input_all(c, prompt);
    for (size_t i = 0; i < c->nargs; i++) {
        if (cli_check_text(c, c->args[i]) < 0)
            return c->err.code;
        if (i > 0)
            tci_buf_append_byte(prompt, ' ');
        tci_buf_append_str(prompt, tci_str(c->args[i]));
    }
    return tci_buf_error(prompt, &c->err);
}

/* ---- waiting for the end ---- */

/* A thread that ends the watching when the conversation is idle. */
typedef struct waiter {
    agent *a;
    tc_ctx *ctx;
    tci_thread *thread;
    int rc;
    tc_err err;
} waiter;

static void wait_idle(void *user)
{
    waiter *w = user;
    w->rc = tc_conversation_wait_idle(w->a->harness, w->ctx, w->a->conversation, &w->err);
    tc_ctx_cancel(w->a->c->watch_ctx);
}

/* Everything that happens until it is idle. */
static int follow(agent *a, show *s, tc_watch *watch, uint64_t max_turns)
{
    cli *c = a->c;
    while (true) {
        tc_frame frame;
        int rc = tc_watch_next(watch, c->watch_ctx, &frame, &c->err);
        /* Enough was waited, and what had happened until then was shown: frames come first. */
        if (rc == TC_E_END || (rc == TC_E_CANCELLED && !tc_ctx_is_cancelled(c->ctx)))
            return 0;
        if (rc < 0)
            return rc;
        if (show_frame(s, frame.ops) < 0)
            return c->err.code;
        if (max_turns > 0 && s->nturns > max_turns)
            return tc_err_set(&c->err, TC_E_QUOTA, "stopped after %llu turns",
                              (unsigned long long)max_turns);
    }
}

/* End the run in the session, whatever time our own context has left. */
static void abort_run(agent *a)
{
    tc_ctx *ctx = NULL;
    tc_err err;
    if (tc_ctx_new(ABORT_MS, &ctx, &err) < 0 ||
        tc_conversation_abort(a->harness, ctx, a->conversation, false, &err) < 0)
        cli_warn(a->c,
                 "the run could not be ended: %s; `telechir run --session %.*s` goes on with it",
                 err.msg, TC_STR_ARG(a->path));
    else
        cli_say(a->c, "the run was ended; what its tools did so far stays done");
    tc_ctx_free(ctx);
}

static int watch_run(agent *a, show *s, tc_watch *watch, uint64_t max_turns)
{
    cli *c = a->c;
    waiter w = {.a = a};
    agent_asker asker;
    int rc = agent_ask_start(&asker, a);
    if (rc == 0)
        rc = tc_ctx_new(-1, &w.ctx, &c->err);
    if (rc == 0)
        rc = tci_thread_new(wait_idle, &w, 0, &w.thread, &c->err);
    if (rc == 0)
        rc = follow(a, s, watch, max_turns);
    tc_err why = c->err;
    if (w.thread != NULL && (rc == TC_E_CANCELLED || rc == TC_E_QUOTA))
        abort_run(a);
    agent_ask_end(&asker);
    c->err = why;
    if (rc == 0 && asker.is_unanswered)
        rc = agent_ask_refer(a);
    if (rc < 0 && w.ctx != NULL)
        tc_ctx_cancel(w.ctx);
    if (w.thread != NULL)
        tci_thread_join(w.thread);
    tc_ctx_free(w.ctx);
    if (rc == 0 && w.rc < 0) {
        c->err = w.err;
        rc = w.rc;
    }
    return rc;
}

/* ---- what came of it ---- */

/* The last line with --json, of every run that had a session. */
static int put_end(agent *a, const tc_submission *sub, const tc_err *failure)
{
    cli *c = a->c;
    tci_buf b;
    bool first = true;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_buf_append_byte(&b, '{');
    cli_json_str(&b, &first, "type", TC_STR("end"));
    cli_json_str(&b, &first, "session", a->path);
    if (sub != NULL) {
        tci_json_put_key(&b, &first, TC_STR("submission"));
        tci_buf_append_str(&b, sub->record);
    }
    if (failure != NULL)
        cli_json_error(&b, &first, c, failure);
    tci_buf_append_byte(&b, '}');
    bool ok = cli_out_json(c, &b);
    a->has_ended = true;
    tci_buf_done(&b);
    return ok ? 0 : c->err.code;
}

/* An answer is success; everything else says why there is none. *sub: what came of it, its id 0: nothing
 * was asked. */
static int conclude(agent *a, uint64_t submission, tc_submission *sub)
{
    cli *c = a->c;
    tc_call call = cli_call(c);
    if (submission == 0)
        return 0;
    if (tc_submission_get(a->harness, &call, submission, sub, &c->err) < 0)
        return c->err.code;
    if (sub->status == TC_SUBMISSION_DONE)
        return 0;
    const tc_json *detail = NULL;
    tc_str why = {NULL, 0};
    if (sub->detail.len > 0 && tc_json_parse(c->result, sub->detail, &detail, &c->err) == 0)
        (void)tc_json_as_str(detail, &why);
    why = cli_plain(&c->arena, why);
    (void)tc_err_set(&c->err, TC_E_IO, "the prompt was not answered: %.*s%s%.*s",
                     TC_STR_ARG(sub->reason), why.len > 0 ? ": " : "", TC_STR_ARG(why));
    return tc_err_hint(&c->err, "the session is whole; `telechir sessions show %.*s` shows it",
                       TC_STR_ARG(a->path));
}

/* What was cut off too often waits for somebody to say so: asking for a run is that. */
static int retry_parked(agent *a)
{
    cli *c = a->c;
    tc_inspection found;
    if (tc_harness_inspect(a->harness, c->ctx, c->result, &found, &c->err) < 0)
        return c->err.code;
    for (size_t i = 0; i < found.ntasks; i++) {
        const tc_task_inspection *t = &found.tasks[i];
        if (t->state != TC_TASK_BLOCKED || !tci_str_eq(t->reason, TC_STR("restart_limit")))
            continue;
        cli_say(c, "task %llu was cut off again and again: trying once more",
                (unsigned long long)t->id);
        if (tc_harness_retry_task(a->harness, c->ctx, t->id, &c->err) < 0)
            return c->err.code;
    }
    return 0;
}

/* A session that can no longer be written has stopped everything: what to do about that. */
static void refer_failed(agent *a, bool is_asked)
{
    tc_err cause;
    if (!tc_durable_failure(agent_session(a), &cause))
        return;
    const char *first = cause.code == TC_E_NO_SPACE ? "free some space, then "
                        : cause.code == TC_E_IO     ? "see to the disk, then "
                                                    : "";
    if (cause.code == TC_E_NO_SPACE)
        (void)tc_err_wrap(&a->c->err, "there is no room left for session '%.*s'",
                          TC_STR_ARG(a->path));
    if (is_asked)
        (void)tc_err_hint(&a->c->err,
                          "%s`telechir run --session %.*s` goes on; what was told is in the "
                          "session, and nothing was begun that is not",
                          first, TC_STR_ARG(a->path));
    else
        (void)tc_err_hint(&a->c->err, "%sask again: the prompt is not in the session", first);
}

int agent_run(agent *a, tc_str prompt, uint64_t max_turns)
{
    cli *c = a->c;
    show s;
    tc_watch *watch;
    uint64_t submission = 0;
    tc_user_input input = {.size = sizeof input, .text = prompt};
    tc_ctx_reset(c->watch_ctx, -1);
    if (tc_ctx_is_cancelled(c->ctx)) /* since before */
        return tc_err_set(&c->err, TC_E_CANCELLED, "interrupted");
    if (cli_has(c, "yes") && agent_ask_grant(a) < 0)
        return c->err.code;
    if (tc_conversation_watch_events(a->harness, c->ctx, a->conversation, &watch, &c->err) < 0)
        return c->err.code;
    int rc = show_init(&s, a);
    if (rc == 0)
        rc = retry_parked(a);
    if (rc == 0 && prompt.len > 0)
        rc = tc_conversation_submit(a->harness, c->ctx, a->conversation, &input, &submission,
                                    &c->err);
    else if (rc == 0)
        rc = tc_harness_resume(a->harness, &c->err);
    if (rc == 0)
        rc = watch_run(a, &s, watch, max_turns);
    if (rc == 0)
        rc = show_end(&s);
    tc_submission sub = {0};
    if (rc < 0)
        refer_failed(a, prompt.len == 0 || submission != 0);
    tc_err why = c->err;
    if (rc == 0) {
        rc = conclude(a, submission != 0 ? submission : s.settled, &sub);
        why = c->err;
        if (rc == 0 && s.failure.len > 0) /* of something that nobody asked for just now */
            cli_say(c, "the model failed: %.*s", TC_STR_ARG(tci_buf_str(&s.failure)));
    }
    if (c->is_json && put_end(a, sub.id != 0 ? &sub : NULL, rc < 0 ? &why : NULL) < 0 && rc == 0)
        rc = c->err.code;
    else
        c->err = why;
    show_done(&s);
    tc_watch_free(watch);
    return rc;
}

int cmd_run(cli *c)
{
    agent a = {0};
    tci_buf prompt;
    uint64_t max_turns;
    int rc = read_prompt(c, &prompt);
    if (rc == 0 && !cli_number(c, "max-turns", 1, 0, &max_turns))
        rc = c->err.code;
    if (rc == 0 && cli_has(c, "ask") && cli_has(c, "yes"))
        rc = tc_err_set(&c->err, TC_E_INVALID, "--ask and --yes exclude each other");
    if (rc == 0 && prompt.len == 0 && !cli_has(c, "session")) {
        (void)tc_err_set(&c->err, TC_E_INVALID, "what is to be done?");
        rc = tc_err_hint(&c->err,
                         "give a prompt, or --session PATH to go on with an unfinished one");
    }
    if (rc == 0) {
        rc = agent_open(&a, c);
        if (rc == 0)
            rc = agent_run(&a, tci_buf_str(&prompt), max_turns);
        tc_err why = c->err;
        agent_close(&a);
        c->err = why;
    }
    tci_buf_done(&prompt);
    return rc < 0 ? (a.has_ended ? cli_fail_said(c) : cli_fail(c)) : CLI_OK;
}
