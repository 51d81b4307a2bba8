/* SPDX-License-Identifier: Apache-2.0
 *
 * A session from its first commit to its next opening: a conversation, entries that happen together, a
 * commit that is refused as a whole, and reading it all again.
 *
 *     session_conversation PATH */
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

/* Two entries in one commit: both are there afterwards, or neither. */
static int ask_and_answer(tc_durable *s, uint64_t *ret_conversation, tc_err *err)
{
    tc_tx *tx;
    uint64_t conversation, entry;
    int rc = tc_durable_begin(s, NULL, &tx, err);
    if (rc < 0)
        return rc;
    rc = tc_tx_create_conversation(tx, 0, &conversation, err);
    if (rc == 0)
        rc = tc_tx_append_entry(
            tx, conversation,
            TC_STR("{\"kind\":\"demo.question\",\"model\":[{\"role\":\"user\",\"content\":\"How "
                   "far does a hand reach?\"}]}"),
            &entry, err);
    if (rc == 0)
        rc = tc_tx_append_entry(tx, conversation,
                                TC_STR("{\"kind\":\"demo.answer\",\"data\":{\"metres\":1e7}}"),
                                &entry, err);
    if (rc < 0) {
        tc_tx_rollback(tx);
        return rc;
    }
    *ret_conversation = conversation;
    return tc_tx_commit(tx, err);
}

/* Settling what was never placed is refused, and the entry of the same commit with it. */
static int try_too_much(tc_durable *s, uint64_t conversation, tc_err *err)
{
    tc_tx *tx;
    uint64_t entry, submission;
    int rc = tc_durable_begin(s, NULL, &tx, err);
    if (rc < 0)
        return rc;
    rc = tc_tx_append_entry(tx, conversation, TC_STR("{\"kind\":\"demo.lost\"}"), &entry, err);
    if (rc == 0)
        rc = tc_tx_create_submission(tx, conversation,
                                     TC_STR("{\"type\":\"input\",\"status\":\"queued\"}"),
                                     &submission, err);
    tc_settlement done = {0};
    done.answer = entry;
    if (rc == 0)
        rc = tc_tx_settle_submission(tx, submission, &done, err);
    if (rc < 0) {
        tc_tx_rollback(tx);
        return rc;
    }
    tc_err refused;
    if (tc_tx_commit(tx, &refused) == 0)
        return tc_err_set(err, TC_E_INTERNAL, "the commit was not refused");
    printf("refused: %s\n", tc_code_name((int)refused.code));
    return 0;
}

static int print_entries(tc_durable *s, uint64_t conversation, tc_result *r, tc_err *err)
{
    tc_page page = {TC_ORDER_ASCENDING, 1, {0, TC_ORDER_DEFAULT}};
    tc_records records;
    do {
        int rc = tc_durable_entries(s, conversation, 0, 0, &page, r, &records, err);
        if (rc < 0)
            return rc;
        for (size_t i = 0; i < records.count; i++)
            printf("entry %.*s\n", TC_STR_ARG(records.items[i]));
        page.cursor = records.next;
    } while (records.has_more);
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
    uint64_t conversation;
    if (tc_result_new(&result, &err) < 0 ||
        tc_durable_open(text(argv[1]), NULL, &session, &err) < 0)
        return fail("open", &err);
    if (ask_and_answer(session, &conversation, &err) < 0 ||
        try_too_much(session, conversation, &err) < 0)
        return fail("commit", &err);
    printf("commits: %llu\n", (unsigned long long)tc_durable_seq(session));
    tc_durable_free(session);

    tc_durable_options options;
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.must_exist = true;
    if (tc_durable_open(text(argv[1]), &options, &session, &err) < 0)
        return fail("open again", &err);
    if (print_entries(session, conversation, result, &err) < 0)
        return fail("read", &err);
    tc_durable_free(session);
    tc_result_free(result);
    return 0;
}
