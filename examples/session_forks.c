/* SPDX-License-Identifier: Apache-2.0
 *
 * Forks: a conversation that starts in the middle of another, with the documents of it that its
 * definitions hand on; and a conversation that belongs to another and is found by its owner.
 *
 *     session_forks PATH */
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

/* Three ways to be handed on: as it was at the entry, as it is now, not at all. */
static const tc_doc_def THEN = {sizeof(tc_doc_def),
                                "demo.then",
                                1,
                                TC_SCOPE_CONVERSATION,
                                TC_HISTORY_REWINDABLE,
                                TC_FORK_AS_OF,
                                false,
                                NULL,
                                NULL,
                                NULL,
                                NULL,
                                NULL};
static const tc_doc_def NOW = {sizeof(tc_doc_def),
                               "demo.now",
                               1,
                               TC_SCOPE_CONVERSATION,
                               TC_HISTORY_LATEST,
                               TC_FORK_CURRENT,
                               false,
                               NULL,
                               NULL,
                               NULL,
                               NULL,
                               NULL};
static const tc_doc_def OWN = {sizeof(tc_doc_def),
                               "demo.own",
                               1,
                               TC_SCOPE_CONVERSATION,
                               TC_HISTORY_LATEST,
                               TC_FORK_INITIAL,
                               false,
                               NULL,
                               NULL,
                               NULL,
                               NULL,
                               NULL};
static const tc_doc_def *const DOCS[] = {&THEN, &NOW, &OWN};

/* An entry, and the step in every document, in one commit. *conversation 0: a new one. */
static int step(tc_durable *s, uint64_t *conversation, const char *n, uint64_t *ret_entry,
                tc_err *err)
{
    tc_tx *tx;
    tc_doc *doc;
    int rc = tc_durable_begin(s, NULL, &tx, err);
    if (rc < 0)
        return rc;
    if (*conversation == 0)
        rc = tc_tx_create_conversation(tx, 0, conversation, err);
    if (rc == 0)
        rc = tc_tx_append_entry(tx, *conversation, TC_STR("{\"kind\":\"demo.step\"}"), ret_entry,
                                err);
    for (size_t i = 0; rc == 0 && i < sizeof DOCS / sizeof *DOCS; i++) {
        rc = tc_tx_doc(tx, DOCS[i], *conversation, TC_STR(""), TC_STR(""), &doc, err);
        if (rc == 0)
            rc = tc_doc_set(doc, TC_STR("/step"), text(n), err);
    }
    if (rc < 0) {
        tc_tx_rollback(tx);
        return rc;
    }
    return tc_tx_commit(tx, err);
}

static int fork_at(tc_durable *s, uint64_t parent, uint64_t entry, uint64_t *ret_child, tc_err *err)
{
    tc_tx *tx;
    int rc = tc_durable_begin(s, NULL, &tx, err);
    if (rc < 0)
        return rc;
    rc = tc_tx_fork_conversation(tx, parent, entry, 0, ret_child, err);
    if (rc < 0) {
        tc_tx_rollback(tx);
        return rc;
    }
    return tc_tx_commit(tx, err);
}

static int print(tc_durable *s, const char *name, uint64_t conversation, tc_result *r, tc_err *err)
{
    tc_records entries;
    int rc = tc_durable_entries(s, conversation, 0, 0, NULL, r, &entries, err);
    if (rc < 0)
        return rc;
    printf("%s: %zu entries", name, entries.count);
    for (size_t i = 0; i < sizeof DOCS / sizeof *DOCS; i++) {
        tc_doc_addr addr = {DOCS[i], conversation, {NULL, 0}};
        tc_str json;
        rc = tc_durable_snapshot(s, &addr, r, &json, err);
        if (rc < 0)
            return rc;
        printf(", %s %.*s", DOCS[i]->kind, TC_STR_ARG(json.len > 0 ? json : text("none")));
    }
    printf("\n");
    return 0;
}

static int run(tc_durable *s, tc_result *r, tc_err *err)
{
    uint64_t conversation = 0, first, second, child;
    if (step(s, &conversation, "1", &first, err) < 0 ||
        step(s, &conversation, "2", &second, err) < 0 ||
        fork_at(s, conversation, first, &child, err) < 0 ||
        step(s, &conversation, "3", &second, err) < 0)
        return err->code;
    if (print(s, "parent", conversation, r, err) < 0 || print(s, "child", child, r, err) < 0)
        return err->code;
    tc_doc_addr then = {&THEN, conversation, {NULL, 0}};
    tc_str json;
    if (tc_durable_snapshot_as_of(s, &then, first, r, &json, err) < 0)
        return err->code;
    printf("as of the first step: %.*s\n", TC_STR_ARG(json));
    return 0;
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: %s PATH\n", argv[0]);
        return 2;
    }
    tc_err err;
    tc_result *result;
    tc_durable *session;
    if (tc_result_new(&result, &err) < 0 ||
        tc_durable_open(text(argv[1]), NULL, &session, &err) < 0)
        return fail("open", &err);
    if (run(session, result, &err) < 0)
        return fail("session", &err);
    tc_durable_free(session);
    tc_result_free(result);
    return 0;
}
