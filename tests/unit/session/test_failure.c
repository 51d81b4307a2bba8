/* SPDX-License-Identifier: Apache-2.0 */
#include "faulty_store.h"
#include "fixture.h"

#include <stdio.h>

static const tc_doc_def notes = {.size = sizeof(tc_doc_def),
                                 .kind = "test.notes",
                                 .version = 1,
                                 .scope = TC_SCOPE_CONVERSATION,
                                 .initial_json = "{\"text\":\"\"}",
                                 .checkpoint_when = tc_checkpoint_never};
static const tc_doc_addr addr = {&notes, 1, {NULL, 0}};

/* The fixture's session again, behind a storage that fails when told to. */
static void put_fault_in_front(fixture *f, faulty *what)
{
    memset(what, 0, sizeof *what);
    ok(tc_durable_close(f->s, &f->err));
    tc_durable_free(f->s);
    f->s = NULL;
    tci_store *inner = NULL;
    ok(tci_store_open(tci_str(f->path), NULL, &inner, &f->err));
    ok(tci_durable_open_store(faulty_store(inner, what), NULL, &f->s, &f->err));
}

typedef struct end {
    unsigned ncalls;
    tc_err failure;
    bool had_failure, had_line;
    tc_durable *s;
} end;

static void on_close(void *user, const tc_err *failure)
{
    end *e = user;
    e->ncalls++;
    e->had_failure = failure != NULL;
    e->had_line = tci_durable_has_line(e->s);
    if (failure != NULL)
        e->failure = *failure;
}

static void on_commit(void *user, const tc_commit *commit)
{
    *(uint64_t *)user = commit->seq;
}

static void is_over(fixture *f)
{
    tc_tx *tx = NULL;
    tc_str json = {0};
    tc_state *st = NULL;
    tc_watch *w = NULL;
    tc_listener *l = NULL;
    tc_err cause;
    assert_true(tc_durable_failure(f->s, &cause));
    assert_int_equal(cause.code, TC_E_IO);
    assert_true(tc_durable_is_closed(f->s));
    fails(TC_E_CLOSED, tc_durable_begin(f->s, NULL, &tx, &f->err));
    assert_says(f, "the session failed");
    assert_says(f, "the disk is gone");
    assert_int_equal(f->err.cause, TC_E_IO);
    fails(TC_E_CLOSED, tc_durable_conversation(f->s, 1, f->r, &json, &f->err));
    fails(TC_E_CLOSED, tc_durable_snapshot(f->s, &addr, f->r, &json, &f->err));
    fails(TC_E_CLOSED, tc_durable_state(f->s, &addr, &st, &f->err));
    fails(TC_E_CLOSED, tc_durable_watch(f->s, &addr, &w, &f->err));
    fails(TC_E_CLOSED, tc_durable_on_close(f->s, on_close, NULL, &l, &f->err));
    fails(TC_E_CLOSED, tci_durable_enter(f->s, &f->err));
    assert_false(tci_durable_has_line(f->s));
}

static void a_failed_commit_ends_the_session(void **state)
{
    fixture *f = *state;
    faulty what;
    make_root(f);
    set_doc(f, &notes, 1, "/text", "\"kept\"");
    put_fault_in_front(f, &what);
    if (!fixture_lasts(f)) { /* memory is empty again */
        make_root(f);
        set_doc(f, &notes, 1, "/text", "\"kept\"");
    }
    end e = {.s = f->s};
    uint64_t seen = 0;
    tc_listener *close = NULL, *commits = NULL;
    tc_state *st = NULL;
    tc_watch *w = NULL;
    ok(tc_durable_on_close(f->s, on_close, &e, &close, &f->err));
    ok(tc_durable_on_commit(f->s, on_commit, &seen, &commits, &f->err));
    ok(tc_durable_state(f->s, &addr, &st, &f->err));
    ok(tc_durable_watch(f->s, &addr, &w, &f->err));

    tc_doc *doc = NULL;
    uint64_t entry = 0;
    tc_tx *tx = begin(f);
    ok(tc_tx_append_entry(tx, 1, S("{\"kind\":\"a\"}"), &entry, &f->err));
    ok(tc_tx_doc(tx, &notes, 1, S(""), S(""), &doc, &f->err));
    ok(tc_doc_append(doc, S("/text"), S(" and lost"), &f->err));
    what.fail_commit = true;
    fails(TC_E_IO, tc_tx_commit(tx, &f->err));

    is_over(f);
    assert_int_equal(what.ncloses, 1);
    assert_int_equal(e.ncalls, 1);
    assert_true(e.had_failure);
    assert_false(e.had_line);
    assert_string_equal(e.failure.msg, "the disk is gone");
    assert_int_equal(seen, 0);
    tc_str json = {0};
    ok(tc_state_value(st, f->r, &json, &f->err));
    assert_text(json, "{\"text\":\"kept\"}");
    tc_err why;
    assert_int_equal(tc_watch_reason(w, &why), TC_WATCH_SESSION_FAILED);
    assert_string_equal(why.msg, "the disk is gone");
    ok(tc_durable_close(f->s, &f->err));
    assert_int_equal(what.ncloses, 1);
    assert_int_equal(e.ncalls, 1);
    tc_listener_remove(close);
    tc_listener_remove(commits);
    tc_state_free(st);
    tc_watch_free(w);
    if (!fixture_lasts(f))
        return;
    put_fault_in_front(f, &what); /* and on it goes */
    ok(tc_durable_entry(f->s, 0, entry, f->r, &json, &f->err));
    assert_int_equal(json.len, 0);
    assert_text(snapshot(f, &notes, 1, ""), "{\"text\":\"kept\"}");
    set_doc(f, &notes, 1, "/text", "\"again\"");
    assert_text(snapshot(f, &notes, 1, ""), "{\"text\":\"again\"}");
}

static void a_failed_mint_ends_the_session(void **state)
{
    fixture *f = *state;
    faulty what;
    put_fault_in_front(f, &what);
    make_root(f);
    uint64_t id = 0;
    tc_tx *tx = begin(f);
    what.fail_mint = true;
    fails(TC_E_IO, tc_tx_append_entry(tx, 1, S("{\"kind\":\"a\"}"), &id, &f->err));
    what.fail_mint = false;
    fails(TC_E_CLOSED, tc_tx_append_entry(tx, 1, S("{\"kind\":\"a\"}"), &id, &f->err));
    fails(TC_E_CLOSED, tc_tx_commit(tx, &f->err));
    is_over(f);
    assert_int_equal(what.ncloses, 1);
}

static void a_failed_read_ends_the_session(void **state)
{
    fixture *f = *state;
    faulty what;
    put_fault_in_front(f, &what);
    make_root(f);
    tc_str json = {0};
    tc_tx *tx = begin(f);
    what.fail_read = true;
    fails(TC_E_IO, tc_tx_entry(tx, 2, f->r, &json, &f->err));
    tc_tx_rollback(tx);
    is_over(f);
}

static void a_request_that_cannot_be_served_ends_nothing(void **state)
{
    fixture *f = *state;
    make_root(f);
    tc_records records;
    tc_str json = {0};
    tc_page page = {.order = TC_ORDER_ASCENDING, .cursor = {1, TC_ORDER_DESCENDING}};
    fails(TC_E_INVALID, tc_durable_entries(f->s, 1, 0, 0, &page, f->r, &records, &f->err));
    fails(TC_E_NOT_FOUND, tc_durable_entry(f->s, 9, 1, f->r, &json, &f->err));
    assert_false(tc_durable_failure(f->s, NULL));
    say(f, 1, "still here");
}

static int refuse(void *user, const tci_commit *commit, tc_err *err)
{
    TCI_UNUSED(user);
    TCI_UNUSED(commit);
    return tc_err_set(err, TC_E_IO, "the disk is gone from my books");
}

static void an_internal_listener_can_end_the_session(void **state)
{
    fixture *f = *state;
    faulty what;
    put_fault_in_front(f, &what);
    make_root(f);
    end e = {.s = f->s};
    tc_listener *l = NULL, *close = NULL;
    uint64_t id = 0;
    ok(tci_durable_listen(f->s, refuse, NULL, &l, &f->err));
    ok(tc_durable_on_close(f->s, on_close, &e, &close, &f->err));
    tc_tx *tx = begin(f);
    ok(tc_tx_append_entry(tx, 1, S("{\"kind\":\"a\"}"), &id, &f->err));
    ok(tc_tx_commit(tx, &f->err)); /* it is stored */
    assert_int_equal(e.ncalls, 1);
    is_over(f);
    tc_listener_remove(l);
    tc_listener_remove(close);
    if (!fixture_lasts(f))
        return;
    put_fault_in_front(f, &what);
    tc_str json = {0};
    ok(tc_durable_entry(f->s, 0, id, f->r, &json, &f->err));
    assert_true(json.len > 0);
}

static void the_harness_can_end_the_session(void **state)
{
    fixture *f = *state;
    tc_err mine;
    (void)tc_err_set(&mine, TC_E_IO, "the disk is gone, says the harness");
    make_root(f);
    tci_durable_fail(f->s, &mine);
    (void)tc_err_set(&mine, TC_E_INTERNAL, "a later one");
    tci_durable_fail(f->s, &mine);
    is_over(f);
}

/* Every allocation of a commit fails once: no effect, or an end, never half of it. */
static void memory_that_runs_out_leaves_all_or_nothing(void **state)
{
    fixture *f = *state;
    make_root(f);
    set_doc(f, &notes, 1, "/text", "\"a\"");
    size_t len = 1;
    for (size_t n = 1; n < 400; n++) {
        tc_doc *doc = NULL;
        uint64_t id = 0;
        tc_tx *tx = begin(f);
        tci_mem_fail_at(n);
        int rc = tc_tx_doc(tx, &notes, 1, S(""), S(""), &doc, &f->err);
        if (rc == 0)
            rc = tc_doc_append(doc, S("/text"), S("b"), &f->err);
        if (rc == 0)
            rc = tc_tx_append_entry(tx, 1, S("{\"kind\":\"a\",\"data\":[1,2,3]}"), &id, &f->err);
        if (rc == 0)
            rc = tc_tx_commit(tx, &f->err);
        else
            tc_tx_rollback(tx);
        bool is_done = tci_mem_count() < n;
        tci_mem_fail_at(0);
        if (rc < 0 && tc_durable_failure(f->s, NULL)) {
            if (!fixture_lasts(f))
                return;
            tc_durable_free(f->s);
            ok(tc_durable_open(tci_str(f->path), NULL, &f->s, &f->err));
        }
        tc_doc_addr a = addr;
        tc_str json = {0}, entry = {0};
        ok(tc_durable_snapshot(f->s, &a, f->r, &json, &f->err));
        if (id != 0 && rc < 0) {
            ok(tc_durable_entry(f->s, 0, id, f->r, &entry, &f->err));
            assert_int_equal(entry.len > 0, json.len == strlen("{\"text\":\"\"}") + len + 1);
        }
        len = json.len - strlen("{\"text\":\"\"}");
        if (is_done)
            return;
    }
    fail_msg("the commit never had enough memory");
}

static void case_75_a_session_has_one_owner(void **state)
{
    fixture *f = *state;
    if (!fixture_lasts(f))
        return;
    make_root(f);
    tc_durable *second = NULL;
    tc_durable_options read_only = {.size = sizeof read_only, .is_read_only = true};
    fails(TC_E_BUSY, tc_durable_open(tci_str(f->path), NULL, &second, &f->err));
    ok(tc_durable_open(tci_str(f->path), &read_only, &second, &f->err));
    tc_str json = {0};
    ok(tc_durable_conversation(second, 1, f->r, &json, &f->err));
    assert_text(json, "{\"id\":1}");
    tc_durable_free(second);
    tc_durable_options fresh = {.size = sizeof fresh, .is_fresh = true};
    fixture_reopen(f);
    tc_durable_free(f->s);
    f->s = NULL;
    fails(TC_E_CONFLICT, tc_durable_open(tci_str(f->path), &fresh, &f->s, &f->err));
    ok(tc_durable_open(tci_str(f->path), NULL, &f->s, &f->err));
    tc_durable_options existing = {.size = sizeof existing, .must_exist = true};
    fails(TC_E_NOT_FOUND, tc_durable_open(S("./nowhere"), &existing, &second, &f->err));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        EACH_BACKEND(a_failed_commit_ends_the_session),
        EACH_BACKEND(a_failed_mint_ends_the_session),
        EACH_BACKEND(a_failed_read_ends_the_session),
        EACH_BACKEND(a_request_that_cannot_be_served_ends_nothing),
        EACH_BACKEND(an_internal_listener_can_end_the_session),
        EACH_BACKEND(the_harness_can_end_the_session),
        EACH_BACKEND(case_75_a_session_has_one_owner),
        EACH_BACKEND(memory_that_runs_out_leaves_all_or_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
