/* SPDX-License-Identifier: Apache-2.0 */
#include "fixture.h"

#include <stdio.h>

enum { NTHREADS = 8, NROUNDS = 60 };

static const tc_doc_def notes = {.size = sizeof(tc_doc_def),
                                 .kind = "test.notes",
                                 .version = 1,
                                 .scope = TC_SCOPE_CONVERSATION,
                                 .initial_json = "{\"text\":\"\",\"n\":0}",
                                 .checkpoint_when = tc_checkpoint_never};
static const tc_doc_addr addr = {&notes, 1, {NULL, 0}};

typedef struct team {
    fixture *f;
    atomic_uint nfailed;
    unsigned ncommits; /* on the line */
    uint64_t seq;
    tci_wake enough; /* 100 commits were made */
    tci_thread *threads[NTHREADS];
} team;

static void one_change(team *t, unsigned round)
{
    tc_err err;
    tc_tx *tx = NULL;
    tc_doc *doc = NULL;
    uint64_t n = 0, id = 0;
    if (tc_durable_begin(t->f->s, NULL, &tx, &err) < 0 ||
        tc_tx_doc(tx, &notes, 1, S(""), S(""), &doc, &err) < 0 ||
        !tc_json_as_u64(tc_json_get(tc_doc_value(doc), S("n")), &n)) {
        atomic_fetch_add(&t->nfailed, 1);
        return;
    }
    char next[32];
    snprintf(next, sizeof next, "%llu", (unsigned long long)n + 1);
    int rc = tc_doc_set(doc, S("/n"), tci_str(next), &err);
    if (rc == 0)
        rc = tc_doc_append(doc, S("/text"), S("x"), &err);
    if (rc == 0)
        rc = tc_tx_append_entry(tx, 1, S("{\"kind\":\"a\"}"), &id, &err);
    if (rc == 0 && round % 5 == 4)
        tc_tx_rollback(tx);
    else if (rc == 0)
        rc = tc_tx_commit(tx, &err);
    else
        tc_tx_rollback(tx);
    if (rc < 0)
        atomic_fetch_add(&t->nfailed, 1);
}

static void work(void *arg)
{
    team *t = arg;
    tc_err err;
    tc_result *r = NULL;
    if (tc_result_new(&r, &err) < 0)
        return;
    for (unsigned i = 0; i < NROUNDS; i++) {
        one_change(t, i);
        tc_str json;
        tc_records records;
        if (tc_durable_snapshot(t->f->s, &addr, r, &json, &err) < 0 ||
            tc_durable_entries(t->f->s, 1, 0, 0, &(tc_page){.limit = 2}, r, &records, &err) < 0)
            atomic_fetch_add(&t->nfailed, 1);
        tc_result_clear(r);
    }
    tc_result_free(r);
}

static void count(void *user, const tc_commit *commit)
{
    team *t = user;
    t->ncommits++;
    if (commit->seq <= t->seq)
        atomic_fetch_add(&t->nfailed, 1);
    t->seq = commit->seq;
    if (t->ncommits == 100)
        tci_wake_all(&t->enough);
}

static void start(team *t, void (*run)(void *arg))
{
    fixture *f = t->f;
    for (size_t i = 0; i < NTHREADS; i++)
        ok(tci_thread_new(run, t, 0, &t->threads[i], &f->err));
}

static void join(team *t)
{
    for (size_t i = 0; i < NTHREADS; i++)
        tci_thread_join(t->threads[i]);
}

static void threads_commit_one_after_another(void **state)
{
    fixture *f = *state;
    team t = {.f = f};
    make_root(f);
    set_doc(f, &notes, 1, "/n", "0");
    set_doc(f, &notes, 1, "/first", "1");
    tc_listener *l = NULL;
    tc_watch *w = NULL;
    ok(tc_durable_on_commit(f->s, count, &t, &l, &f->err));
    ok(tc_durable_watch(f->s, &addr, &w, &f->err));
    start(&t, work);
    unsigned nframes = 0;
    const unsigned want = NTHREADS * NROUNDS * 4 / 5;
    uint64_t n = 0;
    while (n < want) { /* the watcher keeps up, or is told the whole value */
        tc_frame frame;
        ok(tc_watch_next(w, NULL, &frame, &f->err));
        assert_true(tc_json_as_u64(tc_json_get(frame.value, S("n")), &n));
        nframes++;
    }
    join(&t);
    assert_true(nframes > 0);
    assert_int_equal(atomic_load(&t.nfailed), 0);
    assert_int_equal(t.ncommits, want);
    tc_watch_free(w);
    tc_listener_remove(l);
    fixture_reopen(f);
    tc_str json = snapshot(f, &notes, 1, "");
    const tc_json *v = NULL;
    tc_str text = {0};
    ok(tc_json_parse(f->r, json, &v, &f->err));
    assert_true(tc_json_as_u64(tc_json_get(v, S("n")), &n));
    assert_int_equal(n, want);
    assert_true(tc_json_as_str(tc_json_get(v, S("text")), &text));
    assert_int_equal(text.len, want);
}

/* ---- ending while others work ---- */

static void work_until_closed(void *arg)
{
    team *t = arg;
    for (;;) {
        tc_err err;
        tc_tx *tx = NULL;
        uint64_t id = 0;
        int rc = tc_durable_begin(t->f->s, NULL, &tx, &err);
        if (rc == TC_E_CLOSED)
            return;
        if (rc < 0 || tc_tx_append_entry(tx, 1, S("{\"kind\":\"a\"}"), &id, &err) < 0 ||
            tc_tx_commit(tx, &err) < 0)
            atomic_fetch_add(&t->nfailed, 1);
    }
}

static int ignore_frame(void *user, const tc_frame *frame, tc_err *err)
{
    TCI_UNUSED(user);
    TCI_UNUSED(frame);
    TCI_UNUSED(err);
    return 0;
}

static void closing_waits_for_the_transaction_at_hand(void **state)
{
    fixture *f = *state;
    team t = {.f = f};
    make_root(f);
    set_doc(f, &notes, 1, "/n", "0");
    tc_watch *w = NULL;
    ok(tc_durable_watch(f->s, &addr, &w, &f->err));
    ok(tc_watch_start(w, NULL, ignore_frame, NULL, &f->err));
    tc_listener *l = NULL;
    ok(tc_durable_on_commit(f->s, count, &t, &l, &f->err));
    start(&t, work_until_closed);
    while (tci_wake_count(&t.enough) == 0)
        tci_wake_wait(&t.enough, 0, 0);
    ok(tc_durable_close(f->s, &f->err));
    join(&t);
    assert_int_equal(atomic_load(&t.nfailed), 0);
    assert_int_equal(tc_watch_reason(w, NULL), TC_WATCH_SESSION_CLOSED);
    tc_watch_free(w);
    tc_listener_remove(l);
}

static void work_until_failed(void *arg)
{
    team *t = arg;
    for (;;) {
        tc_err err;
        tc_tx *tx = NULL;
        uint64_t id = 0;
        if (tc_durable_begin(t->f->s, NULL, &tx, &err) < 0)
            return;
        if (tc_tx_append_entry(tx, 1, S("{\"kind\":\"a\"}"), &id, &err) < 0)
            tc_tx_rollback(tx);
        else if (tc_tx_commit(tx, &err) < 0)
            return;
    }
}

static void a_failure_reaches_every_thread(void **state)
{
    fixture *f = *state;
    team t = {.f = f};
    make_root(f);
    start(&t, work_until_failed);
    tc_err cause;
    (void)tc_err_set(&cause, TC_E_INTERNAL, "enough");
    tci_durable_fail(f->s, &cause);
    join(&t);
    assert_true(tc_durable_failure(f->s, &cause));
    assert_string_equal(cause.msg, "enough");
}

typedef struct waiter {
    fixture *f;
    tc_ctx *ctx;
    int rc;
    tci_wake started;
} waiter;

static void wait_for_line(void *arg)
{
    waiter *w = arg;
    tc_tx *tx = NULL;
    tc_err err;
    tci_wake_all(&w->started);
    w->rc = tc_durable_begin(w->f->s, w->ctx, &tx, &err);
    if (w->rc == 0)
        tc_tx_rollback(tx);
}

static void waiting_for_the_line_can_be_given_up(void **state)
{
    fixture *f = *state;
    waiter w = {.f = f}, late = {.f = f};
    tci_thread *t = NULL, *u = NULL;
    ok(tc_ctx_new(-1, &w.ctx, &f->err));
    ok(tc_ctx_new(1, &late.ctx, &f->err));
    tc_tx *tx = begin(f);
    ok(tci_thread_new(wait_for_line, &w, 0, &t, &f->err));
    ok(tci_thread_new(wait_for_line, &late, 0, &u, &f->err));
    tci_thread_join(u);
    assert_int_equal(late.rc, TC_E_TIMEOUT);
    if (tci_wake_count(&w.started) == 0)
        tci_wake_wait(&w.started, 0, 0);
    tc_ctx_cancel(w.ctx);
    tci_thread_join(t);
    assert_int_equal(w.rc, TC_E_CANCELLED);
    tc_tx_rollback(tx);
    tc_ctx_free(w.ctx);
    tc_ctx_free(late.ctx);
    tc_tx_rollback(begin(f));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        EACH_BACKEND(threads_commit_one_after_another),
        EACH_BACKEND(closing_waits_for_the_transaction_at_hand),
        IN_MEMORY(a_failure_reaches_every_thread),
        IN_MEMORY(waiting_for_the_line_can_be_given_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
