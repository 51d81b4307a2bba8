/* SPDX-License-Identifier: Apache-2.0
 *
 * The end of a pi-env session, of every kind and at every moment: nobody is left waiting, and what is
 * said of a change is true. */
#include "pi_peer.h"

#include <signal.h>

#define INFO                                                                                 \
    "{\"name\":\"a\",\"kind\":\"file\",\"size\":3,\"mtimeSec\":1,\"mtimeNsec\":1,\"dev\":1," \
    "\"ino\":1}"
#define OUT "{\"kind\":\"output\",\"stream\":\"stdout\"}"

static void serve(pi_peer *p)
{
    while (pi_next(p))
        pi_result(p, INFO);
}

static tci_pi_call mkdir_call(pi_rig *g, const tci_pi_mkdir_params *params)
{
    return pi_call(g, TCI_PI_MKDIR, params, NULL);
}

/* ---- what is no frame ---- */

typedef struct bad {
    const char *bytes;
    size_t len;
} bad;

#define BAD(text)                 \
    {                             \
        "" text, sizeof(text) - 1 \
    }

static void play_bad(pi_peer *p)
{
    const bad *b = p->rig->arg;
    if (!pi_greet(p, true))
        return;
    if (p->launch > 1) {
        serve(p);
        return;
    }
    if (pi_expect(p, "mkdir") && pi_expect(p, "lstat"))
        pi_raw(p, b->bytes, b->len);
    pi_drain(p);
}

static void test_frames_that_end_the_session(void **state)
{
    TCI_UNUSED(state);
    static const bad all[] = {
        BAD("\0\0\0\10\2\0\0\0\2\0\0\0\0"),     /* too short */
        BAD("\1\0\0\1\2\0\0\0\2\0\0\0\2{}"),    /* too long */
        BAD("\0\0\0\14\2\0\0\0\2\0\0\0\4{}  "), /* more JSON than frame */
        BAD("\0\0\0\11\2\0\0\0\2\0\0\0\0"),     /* no JSON at all */
        BAD("\0\0\0\12\2\0\0\0\2\0\0\0\1{"),    /* JSON that does not end */
        BAD("\0\0\0\13\2\0\0\0\2\0\0\0\2[]"),   /* no object */
        BAD("\0\0\0\15\2\0\0\0\2\0\0\0\4null"), /* the same */
        BAD("\0\0\0\11\6\0\0\0\0\0\0\0\0"),     /* a ping without JSON */
        BAD("\0\0\0\13\2\0\0\0\143\0\0\0\2{]"), /* of nobody, but no JSON */
    };
    for (size_t i = 0; i < TCI_ARRAY_LEN(all); i++) {
        pi_rig g = {.arg = (void *)(uintptr_t)&all[i]};
        tci_pi_mkdir_params mkdir = {.path = TC_STR("/d")};
        tci_pi_lstat_params lstat = {.path = TC_STR("/d")};
        pi_rig_open(&g, play_bad, NULL);
        tci_pi_call change = mkdir_call(&g, &mkdir);
        tci_pi_call look = pi_call(&g, TCI_PI_LSTAT, &lstat, NULL);
        assert_ok(&g, tci_pi_begin(g.pi, NULL, &change, &g.err));
        assert_ok(&g, tci_pi_begin(g.pi, NULL, &look, &g.err));
        assert_code(&g, TC_E_PROTOCOL, tci_pi_wait(&look, &g.err));
        assert_non_null(strstr(g.err.msg, "Corrupt frame from pi-env"));
        assert_true(look.fault.is_lost);
        assert_code(&g, TC_E_PROTOCOL, tci_pi_wait(&change, &g.err));
        assert_outcome(&g, TC_OUTCOME_UNKNOWN);
        assert_ok(&g, pi_lstat(&g, NULL, "/x", NULL)); /* in another session */
        assert_int_equal(tci_pi_session(g.pi), 2);
        pi_rig_close(&g);
    }
}

/* ---- a lost link ---- */

static void play_lost(pi_peer *p)
{
    if (!pi_greet(p, true))
        return;
    if (p->launch > 1)
        serve(p);
    else if (pi_expect(p, "open")) {
        pi_result(p, "{\"handle\":1,\"info\":" INFO "}");
        if (pi_expect(p, "mkdir"))
            pi_cut(p);
    }
}

/* Statement 36, as far as it is the client's. */
static void test_lost_link(void **state)
{
    TCI_UNUSED(state);
    pi_rig g = {.nlaunches = 0};
    tci_pi_open_params open = {.path = TC_STR("/f")};
    tci_pi_open_result opened;
    tci_pi_mkdir_params mkdir = {.path = TC_STR("/d")};
    pi_rig_open(&g, play_lost, NULL);
    tci_pi_call call = pi_call(&g, TCI_PI_OPEN, &open, &opened);
    assert_ok(&g, tci_pi_do(g.pi, NULL, &call, &g.err));
    assert_int_equal(call.ran_in, 1);
    call = mkdir_call(&g, &mkdir);
    assert_code(&g, TC_E_UNKNOWN_OUTCOME, tci_pi_do(g.pi, NULL, &call, &g.err));
    assert_non_null(strstr(g.err.msg, "pi-env connection lost"));
    assert_str(call.fault.error.code, "unknown");
    assert_outcome(&g, TC_OUTCOME_UNKNOWN);
    assert_true(tc_result_evidence(g.r)->is_lost);
    /* A handle's call never starts a daemon, and never reaches another one. */
    tci_pi_fstat_params fstat = {.handle = opened.handle};
    for (int i = 0; i < 2; i++) {
        call = pi_call(&g, TCI_PI_FSTAT, &fstat, NULL);
        call.session = 1;
        assert_code(&g, TC_E_CLOSED, tci_pi_do(g.pi, NULL, &call, &g.err));
        assert_true(call.fault.is_lost);
        assert_int_equal(g.nlaunches, i + 1);
        assert_ok(&g, pi_lstat(&g, NULL, "/x", NULL));
    }
    assert_int_equal(tci_pi_session(g.pi), 2);
    pi_rig_close(&g);
}

/* ---- cut at each byte ---- */

static void play_cut(pi_peer *p)
{
    if (!pi_greet(p, true) || !pi_expect(p, "exec"))
        return;
    uint32_t id = p->head.id;
    pi_frame(p, TCI_PIENV_EVENT, id, OUT, "some output", 11);
    pi_frame(p, TCI_PIENV_PING, 0, "{}", NULL, 0);
    pi_frame(p, TCI_PIENV_RESULT, id, "{\"exitCode\":0}", NULL, 0);
    p->rig->arg = p; /* all of it was said */
    pi_drain(p);
}

static void quiet_play_cut(pi_peer *p)
{
    play_cut(p);
    tci_mutex_lock(&p->rig->lock);
    p->rig->why[0] = 0; /* it was cut off, of course */
    tci_mutex_unlock(&p->rig->lock);
}

static int count_bytes(void *user, const tci_pi_note *note, tc_err *err)
{
    TCI_UNUSED(err);
    *(size_t *)user += note->payload.len;
    return 0;
}

static bool run_cut(size_t at)
{
    pi_rig g = {.cut_after = at};
    size_t n = 0;
    tci_pi_exec_result res = {.exit_code = 77};
    tci_pi_exec_params params = {.has_command = true,
                                 .command = TC_STR("x"),
                                 .has_cwd = true,
                                 .cwd = TC_STR("/"),
                                 .inherit_env = true};
    pi_rig_open(&g, quiet_play_cut, NULL);
    tci_pi_call call = pi_call(&g, TCI_PI_EXEC, &params, &res);
    call.on_note = count_bytes;
    call.user = &n;
    int rc = tci_pi_do(g.pi, NULL, &call, &g.err);
    tc_outcome outcome = tc_result_evidence(g.r)->outcome;
    if (rc == 0) {
        assert_true(outcome == TC_OUTCOME_DONE && n == 11 && res.exit_code == 0);
    } else if (rc == TC_E_UNKNOWN_OUTCOME) {
        assert_true(outcome == TC_OUTCOME_UNKNOWN && call.fault.is_lost && (n == 0 || n == 11));
    } else {
        assert_true(rc == TC_E_CONNECT || rc == TC_E_CLOSED);
        assert_true(outcome == TC_OUTCOME_NOT_STARTED && call.fault.is_lost && n == 0);
    }
    assert_int_equal(g.nlaunches, 1);
    pi_rig_close(&g);
    return rc != 0;
}

static void test_output_cut_at_each_byte(void **state)
{
    TCI_UNUSED(state);
    size_t at = 1;
    while (at < 2000 && run_cut(at))
        at++;
    assert_in_range(at, 300, 1000); /* the whole conversation */
}

/* Byte by byte, it is the same conversation. */
static void play_bytes(pi_peer *p)
{
    pi_sync(p);
    if (!pi_expect(p, "hello"))
        return;
    const char *json =
        "{\"protocol\":1,\"version\":\"1\",\"os\":\"linux\",\"arch\":\"x\",\"home\":\"/\","
        "\"separator\":\"/\",\"tmpdir\":\"/tmp\",\"driveCwds\":{},\"pid\":1}";
    tci_pienv_head head = {
        .type = TCI_PIENV_RESULT, .id = p->head.id, .json_len = (uint32_t)strlen(json)};
    char bytes[TCI_PIENV_HEAD_BYTES];
    tc_err err;
    if (tci_pienv_head_put(&head, bytes, &err) < 0)
        return;
    for (size_t i = 0; i < sizeof bytes; i++)
        pi_raw(p, bytes + i, 1);
    for (size_t i = 0; json[i] != 0; i++)
        pi_raw(p, json + i, 1);
    serve(p);
}

static void test_byte_by_byte(void **state)
{
    TCI_UNUSED(state);
    pi_rig g = {.nlaunches = 0};
    pi_rig_open(&g, play_bytes, NULL);
    assert_ok(&g, pi_lstat(&g, NULL, "/x", NULL));
    pi_rig_close(&g);
}

/* ---- at any moment, with much in flight ---- */

enum { NTHREADS = 4, NCALLS = 150, NALL = NTHREADS * NCALLS };

typedef struct storm {
    pi_rig *rig;
    atomic_bool was_seen[NALL];
    atomic_uint seed;
} storm;

static unsigned next_random(storm *s)
{
    unsigned x = atomic_fetch_add(&s->seed, 0x9e3779b9u);
    x ^= x >> 16;
    x *= 0x85ebca6bu;
    x ^= x >> 13;
    return x;
}

static void play_storm(pi_peer *p)
{
    storm *s = p->rig->arg;
    unsigned left = next_random(s) % 40;
    if (next_random(s) % 8 == 0)
        p->cut_after = 1 + next_random(s) % 500; /* perhaps while starting */
    pi_sync(p);
    bool is_greeted = false;
    while (left-- > 0 && pi_next(p)) {
        if (!is_greeted) {
            pi_result(
                p, "{\"protocol\":1,\"version\":\"1\",\"os\":\"linux\",\"arch\":\"x\",\"home\":\"/"
                   "\",\"separator\":\"/\",\"tmpdir\":\"/tmp\",\"driveCwds\":{},\"pid\":1}");
            is_greeted = true;
            continue;
        }
        tc_str path = pi_text(p, "path");
        uint64_t n = 0;
        tc_err err;
        if (tci_num_u64(tci_str_sub(path, 1, SIZE_MAX), &n, &err) == 0 && n < NALL)
            atomic_store(&s->was_seen[n], true);
        if (left == 0 && next_random(s) % 2 == 0)
            p->cut_after = p->nsaid + 1 + next_random(s) % 20; /* in the middle of an answer */
        if (next_random(s) % 4 != 0)
            pi_result(p, "{}");
    }
}

typedef struct stormer {
    storm *s;
    unsigned nth;
    tci_thread *thread;
    const char *wrong;
} stormer;

static void one_of_many(stormer *t, tc_result *r, unsigned n)
{
    char path[32];
    tc_err err;
    static const char junk[100000];
    snprintf(path, sizeof path, "/%u", n);
    tci_pi_mkdir_params mkdir = {.path = tci_str(path)};
    tci_pi_write_params write = {.path = tci_str(path), .parents = true};
    tci_pi_call call = {.op = TCI_PI_MKDIR, .params = &mkdir, .result = r};
    if (n % 3 == 0) {
        call.op = TCI_PI_WRITE;
        call.params = &write;
        call.parts[0] = (tci_iovec){junk, sizeof junk};
        call.nparts = 1;
    }
    tc_ctx *ctx = NULL;
    call.grace_ms = 1;
    if (tc_ctx_new(n % 5 == 0 ? n % 7 : 30, &ctx, &err) < 0)
        t->wrong = "no context";
    int rc = tci_pi_do(t->s->rig->pi, ctx, &call, &err);
    tc_ctx_free(ctx);
    tc_outcome outcome = tc_result_evidence(r)->outcome;
    bool was_seen = atomic_load(&t->s->was_seen[n]);
    if ((rc == 0) != (outcome == TC_OUTCOME_DONE))
        t->wrong = "not done, or done and failed";
    if (outcome == TC_OUTCOME_DONE && !was_seen)
        t->wrong = "done, and was never seen";
    if (outcome == TC_OUTCOME_NOT_STARTED && was_seen)
        t->wrong = "not started, and was seen";
    if (outcome == TC_OUTCOME_NONE)
        t->wrong = "no outcome";
}

static void storm_on(void *arg)
{
    stormer *t = arg;
    tc_result *r = NULL;
    tc_err err;
    if (tc_result_new(&r, &err) < 0)
        return;
    for (unsigned i = 0; i < NCALLS; i++) {
        tc_result_clear(r);
        one_of_many(t, r, t->nth * NCALLS + i);
    }
    tc_result_free(r);
}

static void test_links_that_end_at_any_moment(void **state)
{
    TCI_UNUSED(state);
    storm *s = calloc(1, sizeof *s);
    pi_rig g = {.arg = s};
    stormer t[NTHREADS];
    memset(t, 0, sizeof t);
    s->rig = &g;
    unsigned seed;
    tci_random_bytes(&seed, sizeof seed);
    atomic_store(&s->seed, seed);
    pi_rig_open(&g, play_storm, NULL);
    for (unsigned i = 0; i < NTHREADS; i++) {
        t[i].s = s;
        t[i].nth = i;
        assert_ok(&g, tci_thread_new(storm_on, &t[i], 0, &t[i].thread, &g.err));
    }
    for (unsigned i = 0; i < NTHREADS; i++)
        tci_thread_join(t[i].thread);
    for (unsigned i = 0; i < NTHREADS; i++)
        if (t[i].wrong != NULL)
            fail_msg("seed %u: %s", seed, t[i].wrong);
    pi_rig_close(&g);
    free(s);
}

/* ---- life ---- */

static void play_silent(pi_peer *p)
{
    if (pi_greet(p, true))
        pi_drain(p);
}

static void test_silence_is_death(void **state)
{
    TCI_UNUSED(state);
    pi_rig g = {.nlaunches = 0};
    tci_pi_options o = {.ping_ms = 20, .dead_ms = 1000};
    tci_pi_mkdir_params params = {.path = TC_STR("/d")};
    pi_rig_open(&g, play_silent, &o);
    tci_pi_call call = mkdir_call(&g, &params);
    assert_code(&g, TC_E_UNKNOWN_OUTCOME, tci_pi_do(g.pi, NULL, &call, &g.err));
    assert_non_null(strstr(g.err.msg, "pi-env connection timed out"));
    assert_true(call.fault.is_lost);
    pi_rig_close(&g);
}

/* One byte at a time, for longer than the limit, then the rest. Counts the pings meanwhile. */
static void play_dribble(pi_peer *p)
{
    if (!pi_greet(p, true) || !pi_expect(p, "lstat"))
        return;
    const char *json = INFO;
    tci_pienv_head head = {.type = TCI_PIENV_RESULT,
                           .id = p->head.id,
                           .json_len = (uint32_t)strlen(json),
                           .payload_len = 45};
    char bytes[TCI_PIENV_HEAD_BYTES], zeros[45] = {0};
    tc_err err;
    if (tci_pienv_head_put(&head, bytes, &err) < 0)
        return;
    pi_raw(p, bytes, sizeof bytes);
    pi_raw(p, json, strlen(json));
    for (size_t i = 0; i < sizeof zeros; i++) {
        tci_wake nobody = {0};
        tci_wake_wait(&nobody, 0, tci_clock_mono_ns() + 100 * 1000000);
        pi_raw(p, zeros + i, 1);
    }
    pi_drain(p);
}

/* Statement 50. */
static void test_part_of_a_frame_is_life(void **state)
{
    TCI_UNUSED(state);
    pi_rig g = {.nlaunches = 0};
    tci_pi_options o = {.ping_ms = 50, .dead_ms = 3000};
    pi_rig_open(&g, play_dribble, &o);
    assert_ok(&g, pi_lstat(&g, NULL, "/x", NULL));
    pi_rig_close(&g);
}

/* ---- processes ---- */

static bool is_gone(int pid)
{
    tci_proc_stat st;
    return !tci_proc_stat_read(pid, &st);
}

static int pid_in(pi_rig *g)
{
    uint64_t pid = 0;
    tc_str text = tci_str(pi_log(g, &g->log));
    assert_ok(g, tci_num_u64(tci_str_sub(text, 0, tci_str_find_byte(text, '\n')), &pid, &g->err));
    return (int)pid;
}

/* Statement 48. */
static void test_daemon_that_exits_with_its_pipes_open(void **state)
{
    TCI_UNUSED(state);
    pi_rig g = {.nlaunches = 0};
    pi_rig_open_script(
        &g, GREETING "sleep 60 & echo $! >&2; greet \"$@\"; head -c 70 >/dev/null; exit 0", NULL);
    assert_code(&g, TC_E_CLOSED, pi_lstat(&g, NULL, "/x", NULL));
    assert_string_equal(g.err.msg, "pi-env connection lost");
    assert_true(tc_result_evidence(g.r)->is_lost);
    int holder = pid_in(&g);
    assert_false(is_gone(holder)); /* and its pipes are open */
    assert_int_equal(kill(holder, SIGKILL), 0);
    pi_rig_close(&g);
}

static void test_close_ends_the_process(void **state)
{
    TCI_UNUSED(state);
    static const char *const scripts[] = {
        GREETING "echo $$ >&2; greet \"$@\"; exec cat 3>&1 >/dev/null", /* ends by itself */
        GREETING "echo $$ >&2; greet \"$@\"; exec sleep 50",            /* told to */
        GREETING "trap '' TERM; echo $$ >&2; greet \"$@\"; exec sleep 50",
    };
    for (size_t i = 0; i < TCI_ARRAY_LEN(scripts); i++) {
        pi_rig g = {.nlaunches = 0};
        tci_pi_facts facts;
        pi_rig_open_script(&g, scripts[i], NULL);
        assert_ok(&g, tci_pi_get_facts(g.pi, NULL, g.r, &facts, NULL, &g.err));
        tci_pi_close(g.pi);
        assert_true(is_gone(pid_in(&g)));
        pi_rig_close(&g);
    }
}

static void test_closed_runtime_ends_the_process(void **state)
{
    TCI_UNUSED(state);
    pi_rig g = {.nlaunches = 0};
    tci_pi_facts facts;
    pi_rig_open_script(&g, GREETING "echo $$ >&2; greet \"$@\"; exec cat 3>&1 >/dev/null", NULL);
    assert_ok(&g, tci_pi_get_facts(g.pi, NULL, g.r, &facts, NULL, &g.err));
    tci_pi_mkdir_params params = {.path = TC_STR("/d")};
    tci_pi_call call = mkdir_call(&g, &params);
    assert_ok(&g, tci_pi_begin(g.pi, NULL, &call, &g.err));
    tc_runtime_close(g.rt);
    assert_true(is_gone(pid_in(&g)));
    int rc = tci_pi_wait(&call, &g.err);
    assert_true(rc == TC_E_UNKNOWN_OUTCOME || rc == TC_E_CLOSED);
    assert_false(call.fault.is_lost);
    assert_code(&g, TC_E_CLOSED, pi_lstat(&g, NULL, "/x", NULL));
    tci_pi_release(g.pi);
    tc_result_free(g.r);
    tci_buf_done(&g.log);
    tci_buf_done(&g.noise);
    tci_mutex_done(&g.lock);
}

static void test_close_with_calls_in_flight(void **state)
{
    TCI_UNUSED(state);
    pi_rig g = {.nlaunches = 0};
    tci_pi_facts facts;
    tci_pi_lstat_params params = {.path = TC_STR("/d")};
    pi_rig_open(&g, play_silent, NULL);
    assert_ok(&g, tci_pi_get_facts(g.pi, NULL, g.r, &facts, NULL, &g.err));
    tci_pi_call call = pi_call(&g, TCI_PI_LSTAT, &params, NULL);
    assert_ok(&g, tci_pi_begin(g.pi, NULL, &call, &g.err));
    tci_pi_close(g.pi);
    assert_code(&g, TC_E_CLOSED, tci_pi_wait(&call, &g.err));
    assert_string_equal(g.err.msg, "connection closed");
    assert_str(call.fault.error.code, "unknown");
    assert_false(call.fault.is_lost);
    tci_pi_close(g.pi);
    pi_rig_close(&g);
}

const struct CMUnitTest pi_end_tests[] = {
    cmocka_unit_test(test_frames_that_end_the_session),
    cmocka_unit_test(test_lost_link),
    cmocka_unit_test(test_output_cut_at_each_byte),
    cmocka_unit_test(test_byte_by_byte),
    cmocka_unit_test(test_links_that_end_at_any_moment),
    cmocka_unit_test(test_silence_is_death),
    cmocka_unit_test(test_part_of_a_frame_is_life),
    cmocka_unit_test(test_daemon_that_exits_with_its_pipes_open),
    cmocka_unit_test(test_close_ends_the_process),
    cmocka_unit_test(test_closed_runtime_ends_the_process),
    cmocka_unit_test(test_close_with_calls_in_flight),
};
const size_t npi_end_tests = TCI_ARRAY_LEN(pi_end_tests);
