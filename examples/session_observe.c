/* SPDX-License-Identifier: Apache-2.0
 *
 * Two ways to follow a document: a state, which has the newest value and calls within the commit, and a
 * watch, which gives every exact change to a watcher that may be slow.
 *
 *     session_observe PATH */
#include <stdio.h>
#include <string.h>
#include <telechir/session.h>

static int fail(const char *what, const tc_err *err)
{
    fprintf(stderr, "%s: %s\n", what, err->msg);
    if (err->hint[0] != 0)
        fprintf(stderr, "  %s\n", err->hint);
    return tc_code_exit_status(err->code);
}

static tc_str text(const char *cstr)
{
    tc_str s = {cstr, strlen(cstr)};
    return s;
}

static const tc_doc_def ANSWER = {sizeof(tc_doc_def),
                                  "demo.answer",
                                  1,
                                  TC_SCOPE_SESSION,
                                  TC_HISTORY_LATEST,
                                  TC_FORK_INITIAL,
                                  false,
                                  "{\"text\":\"\"}",
                                  NULL,
                                  NULL,
                                  tc_checkpoint_never,
                                  NULL};
static const tc_doc_addr THE_ANSWER = {&ANSWER, 0, {NULL, 0}};

static int add(tc_durable *s, const char *more, tc_err *err)
{
    tc_tx *tx;
    tc_doc *doc;
    int rc = tc_durable_begin(s, NULL, &tx, err);
    if (rc < 0)
        return rc;
    rc = tc_tx_doc(tx, &ANSWER, 0, TC_STR(""), TC_STR(""), &doc, err);
    if (rc == 0)
        rc = tc_doc_append(doc, TC_STR("/text"), text(more), err);
    if (rc < 0) {
        tc_tx_rollback(tx);
        return rc;
    }
    return tc_tx_commit(tx, err);
}

/* Within the commit, with the session's line held: be quick. */
static void on_value(void *user, uint64_t sequence, const tc_json *value)
{
    tc_str now = {NULL, 0};
    (void)user;
    if (tc_json_as_str(tc_json_get(value, TC_STR("text")), &now))
        printf("state %llu: %.*s\n", (unsigned long long)sequence, TC_STR_ARG(now));
}

static int take(tc_watch *w, const char *what, tc_err *err)
{
    tc_frame frame;
    int rc = tc_watch_next(w, NULL, &frame, err);
    if (rc == 0)
        printf("%s: %.*s\n", what, TC_STR_ARG(frame.ops));
    return rc;
}

static int run(tc_durable *s, tc_err *err)
{
    tc_state *state;
    tc_watch *watch;
    tc_listener *listener;
    if (add(s, "far", err) < 0 || tc_durable_state(s, &THE_ANSWER, &state, err) < 0 ||
        tc_state_subscribe(state, on_value, NULL, &listener, err) < 0 ||
        tc_durable_watch(s, &THE_ANSWER, &watch, err) < 0)
        return err->code;
    if (add(s, " and", err) < 0 || add(s, " wide", err) < 0)
        return err->code;
    tc_listener_remove(listener);
    if (take(watch, "watch", err) < 0 || take(watch, "watch", err) < 0)
        return err->code;
    /* nobody takes what comes now: from the 101st on one frame stands for all before it */
    for (int i = 0; i < 101; i++)
        if (add(s, ".", err) < 0)
            return err->code;
    tc_frame frame;
    if (tc_watch_next(watch, NULL, &frame, err) < 0)
        return err->code;
    printf("a replacement: %s\n", memcmp(frame.ops.ptr, "[[\"r\",", 6) == 0 ? "yes" : "no");

    tc_err closing;
    if (tc_durable_close(s, &closing) < 0)
        return fail("close", &closing);
    printf("the watch ended: %s\n", tc_watch_end_name(tc_watch_reason(watch, NULL)));
    tc_watch_free(watch);
    tc_state_free(state);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: %s PATH\n", argv[0]);
        return 2;
    }
    tc_err err;
    tc_durable *session;
    if (tc_durable_open(text(argv[1]), NULL, &session, &err) < 0)
        return fail("open", &err);
    if (run(session, &err) < 0)
        return fail("session", &err);
    tc_durable_free(session);
    return 0;
}
