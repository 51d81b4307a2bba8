/* SPDX-License-Identifier: Apache-2.0
 *
 * Documents: values that are defined, changed in commits, read, and retired.
 *
 *     session_documents PATH */
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

/* Store the whole value now and then, not at every change. */
static bool now_and_then(void *user, const tc_doc_change *change)
{
    (void)user;
    return change->deltas_since_base >= 16;
}

static const tc_doc_def TO_DO = {sizeof(tc_doc_def),
                                 "demo.todo",
                                 1,
                                 TC_SCOPE_SESSION,
                                 TC_HISTORY_LATEST,
                                 TC_FORK_INITIAL,
                                 true, /* one per name */
                                 "{\"items\":[],\"log\":\"\"}",
                                 NULL,
                                 NULL,
                                 now_and_then,
                                 NULL};

static int change(tc_durable *s, tc_err *err)
{
    tc_tx *tx;
    tc_doc *doc;
    int rc = tc_durable_begin(s, NULL, &tx, err);
    if (rc < 0)
        return rc;
    rc = tc_tx_doc(tx, &TO_DO, 0, TC_STR("kitchen"), TC_STR(""), &doc, err);
    if (rc == 0)
        rc = tc_doc_set(doc, TC_STR("/items/-"), TC_STR("{\"what\":\"wash up\"}"), err);
    if (rc == 0)
        rc = tc_doc_set(doc, TC_STR("/items/-"), TC_STR("{\"what\":\"sweep\",\"done\":true}"), err);
    if (rc == 0)
        rc = tc_doc_append(doc, TC_STR("/log"), TC_STR("two things. "), err);
    /* what was changed is what this transaction sees */
    if (rc == 0)
        printf("items so far: %zu\n", tc_json_count(tc_json_find(tc_doc_value(doc), "/items")));
    if (rc == 0)
        rc = tc_doc_splice(doc, TC_STR("/items"), 0, 1, TC_STR("[]"), err);
    if (rc == 0)
        rc = tc_doc_append(doc, TC_STR("/log"), TC_STR("one of them is off the list."), err);
    if (rc < 0) {
        tc_tx_rollback(tx);
        return rc;
    }
    return tc_tx_commit(tx, err);
}

static int retire(tc_durable *s, tc_err *err)
{
    tc_tx *tx;
    int rc = tc_durable_begin(s, NULL, &tx, err);
    if (rc < 0)
        return rc;
    rc = tc_tx_retire_doc(tx, &TO_DO, 0, TC_STR("kitchen"), err);
    if (rc < 0) {
        tc_tx_rollback(tx);
        return rc;
    }
    return tc_tx_commit(tx, err);
}

static int print(tc_durable *s, tc_result *r, tc_err *err)
{
    tc_doc_addr kitchen = {&TO_DO, 0, {"kitchen", 7}};
    tc_str json;
    int rc = tc_durable_snapshot(s, &kitchen, r, &json, err);
    if (rc < 0)
        return rc;
    if (json.len > 0)
        printf("kitchen %.*s\n", TC_STR_ARG(json));
    else
        printf("no kitchen\n");
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
    if (print(session, result, &err) < 0 || change(session, &err) < 0 ||
        print(session, result, &err) < 0 || retire(session, &err) < 0 ||
        print(session, result, &err) < 0)
        return fail("session", &err);
    tc_durable_free(session);
    tc_result_free(result);
    return 0;
}
