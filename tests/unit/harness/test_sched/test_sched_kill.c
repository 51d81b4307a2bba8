/* SPDX-License-Identifier: Apache-2.0
 *
 * A process that dies after any commit: a copy of the files is made after each one while a shop checks
 * out, and every copy is opened and goes on, some of them dying once more on the way. Effects are
 * booked by the other side, which no crash takes back: nothing is charged twice, nothing that was
 * acknowledged is done again. */
#include "sched_world.h"

#include <stdio.h>
#include <string.h>

static world *the_world;
static const char *the_suffix;

enum { PAYMENTS = 4, CUTS_MAX = 400 };

/* The other side. */
static struct ledger {
    atomic_uint charged[PAYMENTS], attempts[PAYMENTS];
    atomic_uint shipped, reminded, refunded;
} ledger;

/* ---- the tasks ---- */

static int number_of(tc_task *t, uint64_t *ret, tc_err *err)
{
    const tc_json *v;
    if (tc_json_parse(tc_task_result(t), tc_task_current(t)->input, &v, err) < 0)
        return err->code;
    return tc_json_as_u64(v, ret) ? 0 : tc_err_set(err, TC_E_INVALID, "no number");
}

static int pay_start(tc_task *t, tc_err *err)
{
    tc_str key;
    char text[32];
    (void)snprintf(text, sizeof(text), "\"key-%llu\"", (unsigned long long)tc_task_current(t)->id);
    if (tc_task_memo(t, TC_STR("key"), lit(text), &key, err) < 0)
        return err->code;
    return next_phase(t, "{\"phase\":\"charge\"}", err);
}
static int pay_charge(tc_task *t, tc_err *err)
{
    uint64_t n;
    tc_str key;
    bool is_known;
    if (number_of(t, &n, err) < 0 || tc_task_get_memo(t, TC_STR("key"), &is_known, &key, err) < 0)
        return err->code;
    if (!is_known)
        return tc_err_set(err, TC_E_INVALID, "the key is lost");
    atomic_fetch_add(&ledger.attempts[n], 1);
    atomic_store(&ledger.charged[n], 1); /* by its key: once, however often it is asked */
    return next_done(t, "\"paid\"", err);
}
DEF(pay, "t.pay", 1, {"start", pay_start}, {"charge", pay_charge});

static int courier_start(tc_task *t, tc_err *err)
{
    return tc_task_sleep_until(t, tc_task_now(t) + 2, TC_STR("{\"phase\":\"ship\"}"), err);
}
static int courier_ship(tc_task *t, tc_err *err)
{
    atomic_fetch_add(&ledger.shipped, 1);
    return next_done(t, "1", err);
}
DEF(courier, "t.courier", 1, {"start", courier_start}, {"ship", courier_ship});

/* Never ends by itself. */
static int waiter_start(tc_task *t, tc_err *err)
{
    return tc_task_sleep_until(t, INT64_C(9000000000000000),
                               TC_STR("{\"phase\":\"start\",\"n\":1}"), err);
}
static int waiter_abort(tc_task *t, tc_err *err)
{
    atomic_fetch_add(&ledger.refunded, 1);
    return abort_plain(t, err);
}
static const tc_task_phase waiter_phases[] = {{"start", waiter_start}};
static tc_task_def waiter = {.size = sizeof(tc_task_def),
                             .name = "t.waiter",
                             .version = 1,
                             .initial = initial_start,
                             .phases = waiter_phases,
                             .nphases = 1,
                             .abort = waiter_abort};

static int refuse_start(tc_task *t, tc_err *err)
{
    return tc_task_next(t, &(tc_next){.kind = TC_NEXT_FAILED, .message = TC_STR("refused")}, err);
}
DEF(refuse, "t.refuse", 1, {"start", refuse_start});

/* Two that are given up as soon as the third fails. */
static int race_start(tc_task *t, tc_err *err)
{
    tc_tx *tx;
    uint64_t ids[3];
    tc_task_options options = TC_TASK_OPTIONS;
    options.owner_task_id = tc_task_current(t)->id;
    if (tc_task_begin(t, &tx, NULL, err) < 0)
        return err->code;
    for (size_t i = 0; i < 3; i++)
        if (tc_tx_create_task_of(tx, i < 2 ? &waiter : &refuse, TC_STR("1"), &options, &ids[i],
                                 err) < 0) {
            tc_tx_rollback(tx);
            return err->code;
        }
    return tc_task_commit(t, tx,
                          &(tc_next){.kind = TC_NEXT_WAITING,
                                     .checkpoint = TC_STR("{\"phase\":\"over\"}"),
                                     .on = ids,
                                     .non = 3,
                                     .policy = TC_WAIT_FAIL_FAST},
                          err);
}
static int race_over(tc_task *t, tc_err *err)
{
    return next_done(t, "1", err);
}
DEF(race, "t.race", 1, {"start", race_start}, {"over", race_over});

static int checkout_start(tc_task *t, tc_err *err)
{
    tc_tx *tx;
    uint64_t ids[PAYMENTS];
    tc_task_options options = TC_TASK_OPTIONS;
    options.owner_task_id = tc_task_current(t)->id;
    if (tc_task_begin(t, &tx, NULL, err) < 0)
        return err->code;
    for (size_t i = 0; i < PAYMENTS; i++) {
        char n[8];
        (void)snprintf(n, sizeof(n), "%zu", i);
        if (tc_tx_create_task_of(tx, &pay, lit(n), &options, &ids[i], err) < 0) {
            tc_tx_rollback(tx);
            return err->code;
        }
    }
    return tc_task_commit(t, tx,
                          &(tc_next){.kind = TC_NEXT_WAITING,
                                     .checkpoint = TC_STR("{\"phase\":\"ship\"}"),
                                     .on = ids,
                                     .non = PAYMENTS,
                                     .policy = TC_WAIT_FAIL_FAST},
                          err);
}
/* Has the goods sent from a conversation of its own, and is completing until they are. */
static int checkout_ship(tc_task *t, tc_err *err)
{
    tc_tx *tx;
    uint64_t conversation, id;
    tc_task_options options = TC_TASK_OPTIONS;
    if (tc_task_begin(t, &tx, NULL, err) < 0)
        return err->code;
    if (tc_tx_create_conversation(tx, tc_task_current(t)->id, &conversation, err) < 0 ||
        (options.conversation_id = conversation,
         tc_tx_create_task_of(tx, &courier, TC_STR("1"), &options, &id, err)) < 0) {
        tc_tx_rollback(tx);
        return err->code;
    }
    return tc_task_commit(
        t, tx, &(tc_next){.kind = TC_NEXT_RUNNING, .checkpoint = TC_STR("{\"phase\":\"end\"}")},
        err);
}
static int checkout_end(tc_task *t, tc_err *err)
{
    return next_done(t, "\"sold\"", err);
}
DEF(checkout, "t.checkout", 1, {"start", checkout_start}, {"ship", checkout_ship},
    {"end", checkout_end});

/* ---- copies ---- */

typedef struct cut {
    char path[128];
    unsigned charged[PAYMENTS], attempts[PAYMENTS]; /* when it was made */
} cut;

typedef struct cutter {
    const char *from;
    const char *to;
    size_t ncuts, only; /* only: the number of the one to make; SIZE_MAX: all */
    size_t ncommits;
    cut cuts[CUTS_MAX];
} cutter;

static void cut_here(void *user, const tc_commit *commit)
{
    cutter *c = user;
    (void)commit;
    size_t n = c->ncommits++;
    if ((c->only != SIZE_MAX && n != c->only) || c->ncuts == CUTS_MAX)
        return;
    cut *x = &c->cuts[c->ncuts++];
    (void)snprintf(x->path, sizeof(x->path), "%s-%zu%s", c->to, n, the_suffix);
    world_copy(c->from, x->path);
    for (size_t i = 0; i < PAYMENTS; i++) {
        x->charged[i] = atomic_load(&ledger.charged[i]);
        x->attempts[i] = atomic_load(&ledger.attempts[i]);
    }
}

static void install_all(world *w)
{
    const tc_task_def *const defs[] = {&pay, &courier, &waiter, &refuse, &race, &checkout};
    world_install(w, "shop", defs, sizeof(defs) / sizeof(defs[0]));
}

static tc_listener *watch_commits(world *w, cutter *c)
{
    tc_listener *l;
    tc_err err;
    assert_int_equal(tc_durable_on_commit(tc_harness_session(w->h), cut_here, c, &l, &err), 0);
    return l;
}

static bool has_record(world *w, uint64_t id)
{
    tc_str record;
    tc_err err;
    return tc_harness_get_task(w->h, NULL, id, w->r, &record, &err) == 0;
}

/* Wait for the first two tasks, which are created by one commit. */
static void check_end(world *w, uint64_t sale, uint64_t race_id)
{
    world_wait_task(w, sale);
    world_wait_task(w, race_id);
    world_wait_idle(w, 0);
    assert_string_equal(world_get(w, sale, "/state/outcome"),
                        "{\"status\":\"completed\",\"result\":\"sold\"}");
    assert_string_equal(world_get(w, race_id, "/state/outcome/status"), "\"completed\"");
    tc_inspection all;
    tc_err err;
    assert_int_equal(tc_harness_inspect(w->h, NULL, w->r, &all, &err), 0);
    assert_int_equal(all.ntasks, 0);
    assert_int_equal(w->nreports, 0);
}

/* Open what is at path and let it end. *ret_nattempts: of each payment, after opening. */
static void go_on(const char *path, uint64_t sale, uint64_t race_id, cutter *again,
                  const bool *was_paid)
{
    world w;
    world_init(&w, path);
    the_world = &w;
    install_all(&w);
    world_open(&w);
    if (!has_record(&w, sale)) { /* it died before there was anything to do */
        world_done(&w);
        return;
    }
    for (size_t i = 0; i < PAYMENTS; i++)
        atomic_store(&ledger.attempts[i], 0);
    tc_listener *l = again != NULL ? watch_commits(&w, again) : NULL;
    check_end(&w, sale, race_id);
    tc_listener_remove(l);
    for (size_t i = 0; i < PAYMENTS; i++) {
        assert_int_equal(atomic_load(&ledger.charged[i]), 1);
        assert_true(atomic_load(&ledger.attempts[i]) <= 1);
        if (was_paid != NULL && was_paid[i])
            assert_int_equal(atomic_load(&ledger.attempts[i]), 0);
    }
    world_done(&w);
}

/* Which payments had their receipt stored in the copy. */
static void read_paid(const char *path, uint64_t sale, bool paid[PAYMENTS])
{
    tc_durable *s;
    tc_result *r;
    tc_err err;
    tc_durable_options options = {.size = sizeof(options), .is_read_only = true};
    assert_int_equal(tc_result_new(&r, &err), 0);
    assert_int_equal(tc_durable_open(lit(path), &options, &s, &err), 0);
    memset(paid, 0, PAYMENTS * sizeof(*paid));
    tc_task_query query = TC_TASK_QUERY_ALL;
    tc_records tasks;
    query.kind = TC_STR("t.pay");
    query.status = TC_STR("terminal");
    assert_int_equal(tc_durable_tasks(s, &query, NULL, r, &tasks, &err), 0);
    for (size_t i = 0; i < tasks.count; i++) {
        const tc_json *v;
        uint64_t n, owner;
        assert_int_equal(tc_json_parse(r, tasks.items[i], &v, &err), 0);
        if (tc_json_as_u64(tc_json_get(v, TC_STR("owner")), &owner) && owner == sale &&
            tc_json_as_u64(tc_json_get(v, TC_STR("input")), &n))
            paid[n] = true;
    }
    tc_durable_free(s);
    tc_result_free(r);
}

static void every_state_that_a_crash_can_leave_goes_on(void **state)
{
    (void)state;
    static cutter first, second;
    world w;
    char path[32], to[32];
    (void)snprintf(path, sizeof(path), "shop%s", the_suffix);
    (void)snprintf(to, sizeof(to), "cut%s", the_suffix[0] != 0 ? "-q" : "-l");
    memset(&ledger, 0, sizeof(ledger));
    world_init(&w, path);
    the_world = &w;
    install_all(&w);
    world_open(&w);
    memset(&first, 0, sizeof(first));
    first.from = path;
    first.to = to;
    first.only = SIZE_MAX;
    tc_listener *l = watch_commits(&w, &first);
    tc_tx *tx;
    tc_err err;
    uint64_t sale, race_id;
    tc_task_options options = TC_TASK_OPTIONS;
    options.conversation_id = w.root;
    assert_int_equal(tc_durable_begin(tc_harness_session(w.h), NULL, &tx, &err), 0);
    assert_int_equal(tc_tx_create_task_of(tx, &checkout, TC_STR("1"), &options, &sale, &err), 0);
    assert_int_equal(tc_tx_create_task_of(tx, &race, TC_STR("1"), &options, &race_id, &err), 0);
    assert_int_equal(tc_tx_commit(tx, &err), 0);
    check_end(&w, sale, race_id);
    tc_listener_remove(l);
    world_done(&w);
    assert_true(first.ncuts >= 20);
    for (size_t i = 0; i < first.ncuts; i++) {
        bool paid[PAYMENTS];
        char again[96];
        read_paid(first.cuts[i].path, sale, paid);
        /* The copy dies once more, some commits after it was opened. */
        (void)snprintf(again, sizeof(again), "again%s-%zu", to, i);
        memset(&second, 0, sizeof(second));
        second.from = first.cuts[i].path;
        second.to = again;
        second.only = i % 5;
        for (size_t k = 0; k < PAYMENTS; k++)
            atomic_store(&ledger.charged[k], first.cuts[i].charged[k]);
        go_on(first.cuts[i].path, sale, race_id, &second, paid);
        if (second.ncuts == 1) {
            read_paid(second.cuts[0].path, sale, paid);
            for (size_t k = 0; k < PAYMENTS; k++)
                atomic_store(&ledger.charged[k], second.cuts[0].charged[k]);
            go_on(second.cuts[0].path, sale, race_id, NULL, paid);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_state_that_a_crash_can_leave_goes_on),
    };
    the_suffix = ".sqlite";
    int nfailed = cmocka_run_group_tests_name("sqlite", tests, NULL, NULL);
    the_suffix = "";
    return nfailed + cmocka_run_group_tests_name("jsonl", tests, NULL, NULL);
}
