/* SPDX-License-Identifier: Apache-2.0
 *
 * Starting a pi-env daemon: when it happens, who waits for it, and what is said when it fails. */
#include "pi_peer.h"

static void expect_failure(pi_rig *g, const char *script, tc_code code, const char *message)
{
    tci_pi_fault fault;
    tci_pi_facts facts;
    pi_rig_open_script(g, script, NULL);
    assert_code(g, code, tci_pi_get_facts(g->pi, NULL, g->r, &facts, &fault, &g->err));
    assert_str(fault.error.message, message);
    assert_true(fault.is_lost);
    tci_pi_release(g->pi);
    g->pi = NULL;
}

/* Statements 40 and 41. */
static void test_exit_before_ready(void **state)
{
    TCI_UNUSED(state);
    pi_rig g = {.nlaunches = 0};
    expect_failure(&g, "echo 'ssh: no route' >&2; echo 'give up' >&2; exit 255", TC_E_CONNECT,
                   "pi-env exited with code 255 before it was ready\nremote stderr:\n"
                   "ssh: no route\ngive up");
    assert_non_null(strstr(g.err.msg, "exited with code 255 before it was ready: give up"));
    expect_failure(&g, "exit 3", TC_E_CONNECT, "pi-env exited with code 3 before it was ready");
    expect_failure(&g, "printf ' \\n\\033[0m\\n\\n' >&2; exit 3", TC_E_CONNECT,
                   "pi-env exited with code 3 before it was ready");
    expect_failure(&g, "kill -9 $$", TC_E_CONNECT,
                   "pi-env was ended by signal 9 before it was ready");
    pi_rig_close(&g);
}

/* Statements 42 and 44. */
static void test_stderr_is_cleaned_for_people_only(void **state)
{
    TCI_UNUSED(state);
    pi_rig g = {.nlaunches = 0};
    expect_failure(
        &g,
        "printf 'a\\033[1;31mred\\033[0m \\t\\r\\n\\n  \\n\\302\\233mb\\303\\251\\tc\\001\\177"
        "\\302\\205d\\033]0;title\\007e\\n\\377f\\n' >&2; exit 1",
        TC_E_CONNECT,
        "pi-env exited with code 1 before it was ready\nremote stderr:\n"
        "ared\nb\303\251\tcde\n\357\277\275f");
    assert_string_equal(pi_log(&g, &g.log),
                        "a\033[1;31mred\033[0m \t\r\n\n  \n\302\233mb\303\251\tc"
                        "\001\177\302\205d\033]0;title\007e\n\377f\n");
    pi_rig_close(&g);
}

/* Statement 43. */
static void test_last_lines_of_last_characters(void **state)
{
    TCI_UNUSED(state);
    tci_buf raw, out;
    tci_buf_init(&raw, 1 << 20);
    tci_buf_init(&out, 1 << 20);
    for (int i = 1; i <= 30; i++)
        tci_buf_printf(&raw, "line %d\n", i);
    tci_pi_clean(tci_buf_str(&raw), false, &out);
    tc_str shown = tci_buf_str(&out);
    assert_true(tci_str_starts(shown, TC_STR("line 11\n")) &&
                tci_str_ends(shown, TC_STR("\nline 30")));
    tci_buf_clear(&raw);
    tci_buf_clear(&out);
    for (int i = 0; i < 3000; i++)
        tci_buf_append_str(&raw, TC_STR("\303\251"));
    tci_pi_clean(tci_buf_str(&raw), false, &out);
    assert_int_equal(out.len, 4000);
    tci_buf_clear(&out);
    tci_pi_clean(tci_buf_str(&raw), true, &out);
    assert_int_equal(out.len, 4000);
    tci_buf_done(&raw);
    tci_buf_done(&out);
}

/* Statement 45. */
static void test_only_the_failing_attempts_words(void **state)
{
    TCI_UNUSED(state);
    pi_rig g = {.nlaunches = 0};
    tci_pi_fault fault;
    tci_pi_facts facts;
    pi_rig_open_script(
        &g, "n=$(cat n 2>/dev/null || echo 1); echo $((n+1)) >n; echo attempt $n >&2; exit $n",
        NULL);
    assert_code(&g, TC_E_CONNECT, tci_pi_get_facts(g.pi, NULL, g.r, &facts, &fault, &g.err));
    assert_str(fault.error.message, "pi-env exited with code 1 before it was ready\n"
                                    "remote stderr:\nattempt 1");
    assert_code(&g, TC_E_CONNECT, tci_pi_get_facts(g.pi, NULL, g.r, &facts, &fault, &g.err));
    assert_str(fault.error.message, "pi-env exited with code 2 before it was ready\n"
                                    "remote stderr:\nattempt 2");
    pi_rig_close(&g);
}

/* Statement 47. */
static void test_program_that_cannot_be_started(void **state)
{
    TCI_UNUSED(state);
    pi_rig g = {.nlaunches = 0};
    tc_spawn_options spawn = {.size = sizeof spawn, .program = TC_STR("/nowhere/telechird")};
    tci_pi_launcher launcher;
    pi_rig_open_with(&g, &(tci_pi_launcher){.launch = NULL}, NULL);
    tci_pi_release(g.pi);
    assert_ok(&g, tci_pi_launch_command(g.rt, &spawn, &launcher, &g.err));
    pi_rig_open_with(&g, &launcher, NULL);
    assert_code(&g, TC_E_START_FAILED, pi_lstat(&g, NULL, "/x", NULL));
    assert_str(tc_result_evidence(g.r)->error_type, "spawn_error");
    assert_true(tc_result_evidence(g.r)->is_lost);
    assert_non_null(strstr(g.err.msg, "/nowhere/telechird"));
    pi_rig_close(&g);
}

/* A daemon that ended, while something keeps its pipes open: known soon all the same. */
static void test_exit_with_pipes_kept_open(void **state)
{
    TCI_UNUSED(state);
    pi_rig g = {.nlaunches = 0};
    expect_failure(&g, "echo words >&2; sleep 20 & exit 4", TC_E_CONNECT,
                   "pi-env exited with code 4 before it was ready\nremote stderr:\nwords");
    pi_rig_close(&g);
}

static void test_silent_program(void **state)
{
    TCI_UNUSED(state);
    pi_rig g = {.nlaunches = 0};
    tci_pi_options o = {.start_ms = 2500}; /* the shell has had its say by then */
    pi_rig_open_script(&g, "echo busy >&2; exec sleep 20", &o);
    assert_code(&g, TC_E_CONNECT, pi_lstat(&g, NULL, "/x", NULL));
    assert_string_equal(g.err.msg, "pi-env did not answer within 3 s: busy");
    pi_rig_close(&g);
}

static void test_output_closed_before_ready(void **state)
{
    TCI_UNUSED(state);
    pi_rig g = {.nlaunches = 0};
    pi_rig_open_script(&g, "exec >&-; exec sleep 20", NULL);
    assert_code(&g, TC_E_CONNECT, pi_lstat(&g, NULL, "/x", NULL));
    assert_non_null(strstr(g.err.msg, "pi-env closed its output before it was ready"));
    pi_rig_close(&g);
}

/* ---- what a start-up file prints ---- */

static void test_case_88_start_file_before_the_sync_line(void **state)
{
    TCI_UNUSED(state);
    pi_rig g = {.nlaunches = 0};
    tci_pi_facts facts;
    pi_rig_open_script(&g,
                       GREETING "echo one; echo two; printf '\\033[31mthree\\033[0m\\n';"
                                "dd if=/dev/zero bs=70000 count=1 2>/dev/null | tr '\\000' z;"
                                "greet \"$@\"; exec cat 3>&1 >/dev/null",
                       NULL);
    assert_ok(&g, tci_pi_get_facts(g.pi, NULL, g.r, &facts, NULL, &g.err));
    assert_true(strstr(pi_log(&g, &g.noise), "two\n\033[31mthree") != NULL);
    assert_true(g.noise.len > 70000);
    pi_rig_close(&g);
}

static void test_case_88_start_file_that_never_ends(void **state)
{
    TCI_UNUSED(state);
    pi_rig g = {.nlaunches = 0};
    tci_pi_fault fault;
    tci_pi_facts facts;
    pi_rig_open_script(&g,
                       "printf 'Welcome to \\033[1mthe box\\033[0m\\r\\n'; i=0;"
                       "while [ $i -lt 40 ]; do echo \"notice $i\"; i=$((i+1)); done;"
                       "dd if=/dev/zero bs=65536 count=40 2>/dev/null | tr '\\000' z; exit 1",
                       NULL);
    assert_code(&g, TC_E_CONNECT, tci_pi_get_facts(g.pi, NULL, g.r, &facts, &fault, &g.err));
    const char *text = fault.error.message.ptr;
    assert_non_null(
        strstr(text, "before the daemon's first word came:\nWelcome to the box\nnotice 0\n"));
    assert_true(fault.error.message.len < 2500);
    assert_non_null(strstr(g.err.hint, "~/.bashrc"));
    pi_rig_close(&g);
}

static void test_case_88_start_file_after_the_sync_line(void **state)
{
    TCI_UNUSED(state);
    pi_rig g = {.nlaunches = 0};
    tci_pi_fault fault;
    tci_pi_facts facts;
    pi_rig_open_script(
        &g, "printf 'PI-ENV %s\\nYou have mail in the box\\n' \"$2\"; exec cat 3>&1 >/dev/null",
        NULL);
    assert_code(&g, TC_E_PROTOCOL, tci_pi_get_facts(g.pi, NULL, g.r, &facts, &fault, &g.err));
    assert_non_null(strstr(fault.error.message.ptr, "instead of a frame came:\nYou have mail"));
    assert_non_null(strstr(g.err.hint, "~/.bashrc"));
    pi_rig_close(&g);
}

/* ---- hello ---- */

static void play_refused_once(pi_peer *p)
{
    if (p->launch > 1) {
        if (pi_greet(p, true))
            pi_drain(p);
        return;
    }
    pi_sync(p);
    if (!pi_expect(p, "hello"))
        return;
    pi_error(p, "EACCES", "not today", ",\"path\":\"/lock\",\"syscall\":\"flock\"");
    pi_drain(p);
}

/* Statement 46. */
static void test_refused_hello(void **state)
{
    TCI_UNUSED(state);
    pi_rig g = {.nlaunches = 0};
    tci_pi_fault fault;
    tci_pi_facts facts;
    pi_rig_open(&g, play_refused_once, NULL);
    assert_code(&g, TC_E_DENIED, tci_pi_get_facts(g.pi, NULL, g.r, &facts, &fault, &g.err));
    assert_str(fault.error.code, "EACCES");
    assert_str(fault.error.message, "not today");
    assert_str(fault.error.path, "/lock");
    assert_str(fault.error.syscall, "flock");
    assert_false(fault.is_lost);
    assert_ok(&g, tci_pi_get_facts(g.pi, NULL, g.r, &facts, &fault, &g.err));
    assert_int_equal(g.nlaunches, 2);
    pi_rig_close(&g);
}

static void play_hello(pi_peer *p)
{
    pi_sync(p);
    if (!pi_expect(p, "hello"))
        return;
    pi_result(p, p->rig->arg);
    pi_drain(p);
}

/* Statement 49. */
static void test_other_protocols(void **state)
{
    TCI_UNUSED(state);
    static const char *const answers[][2] = {
        {"{\"version\":\"1\"}", "Unsupported protocol undefined"},
        {"{\"protocol\":2,\"version\":\"1\"}", "Unsupported protocol 2"},
        {"{\"protocol\":\"1\"}", "Unsupported protocol 1"},
        {"{\"protocol\":[1]}", "Unsupported protocol of another kind"},
    };
    for (size_t i = 0; i < TCI_ARRAY_LEN(answers); i++) {
        pi_rig g = {.arg = (void *)(uintptr_t)answers[i][0]};
        pi_rig_open(&g, play_hello, NULL);
        assert_code(&g, TC_E_INCOMPATIBLE, pi_lstat(&g, NULL, "/x", NULL));
        assert_string_equal(g.err.msg, answers[i][1]);
        assert_true(tc_result_evidence(g.r)->is_lost);
        pi_rig_close(&g);
    }
    pi_rig g = {.arg = (void *)(uintptr_t) "{\"protocol\":1}"};
    pi_rig_open(&g, play_hello, NULL);
    assert_code(&g, TC_E_PROTOCOL, pi_lstat(&g, NULL, "/x", NULL));
    pi_rig_close(&g);
}

/* ---- the launcher ---- */

static void play_good(pi_peer *p)
{
    if (!pi_greet(p, true))
        return;
    while (pi_next(p))
        pi_result(p, "{\"name\":\"a\",\"kind\":\"file\",\"size\":3,\"mtimeSec\":1,\"mtimeNsec\":1,"
                     "\"dev\":1,\"ino\":1}");
}

static int fail_first(pi_rig *g, tc_ctx *ctx, tc_err *err)
{
    TCI_UNUSED(ctx);
    tci_mutex_lock(&g->lock);
    unsigned n = g->nlaunches;
    tci_mutex_unlock(&g->lock);
    return n == 0 ? tc_err_set(err, TC_E_UNTRUSTED, "the key has changed") : 0;
}

/* Statement 37. */
static void test_failing_launch_is_not_remembered(void **state)
{
    TCI_UNUSED(state);
    pi_rig g = {.hook = fail_first};
    tci_pi_mkdir_params params = {.path = TC_STR("/d")};
    pi_rig_open(&g, play_good, NULL);
    tci_pi_call call = pi_call(&g, TCI_PI_MKDIR, &params, NULL);
    assert_code(&g, TC_E_UNTRUSTED, tci_pi_do(g.pi, NULL, &call, &g.err));
    assert_string_equal(g.err.msg, "the key has changed");
    assert_str(call.fault.error.code, "spawn_error");
    assert_str(call.fault.error.message, "the key has changed");
    assert_true(call.fault.is_lost);
    assert_outcome(&g, TC_OUTCOME_NOT_STARTED);
    assert_ok(&g, tci_pi_do(g.pi, NULL, &call, &g.err));
    assert_int_equal(g.nlaunches, 2);
    pi_rig_close(&g);
}

typedef struct caller {
    pi_rig *rig;
    tc_ctx *ctx;
    tc_result *r;
    tc_err err;
    int rc;
    tci_thread *thread;
} caller;

static void call_lstat(void *arg)
{
    caller *c = arg;
    tci_pi_lstat_params params = {.path = TC_STR("/x")};
    tci_pi_call call = {.op = TCI_PI_LSTAT, .params = &params, .result = c->r};
    c->rc = tci_pi_do(c->rig->pi, c->ctx, &call, &c->err);
}

static void caller_start(caller *c, pi_rig *g, int64_t timeout_ms)
{
    c->rig = g;
    assert_ok(g, tc_ctx_new(timeout_ms, &c->ctx, &g->err));
    assert_ok(g, tc_result_new(&c->r, &g->err));
    assert_ok(g, tci_thread_new(call_lstat, c, 0, &c->thread, &g->err));
}

static void caller_end(caller *c)
{
    tci_thread_join(c->thread);
    tc_ctx_free(c->ctx);
    tc_result_free(c->r);
}

/* Launches that wait until they are let go, or cancelled. */
typedef struct gate {
    tci_wake wake;
    atomic_bool is_open;
    atomic_uint nwaiting, ncancelled;
} gate;

static int wait_at_gate(pi_rig *g, tc_ctx *ctx, tc_err *err)
{
    gate *w = g->arg;
    atomic_fetch_add(&w->nwaiting, 1);
    tci_wake_all(&w->wake);
    while (!atomic_load(&w->is_open)) {
        unsigned seen = tci_wake_count(&ctx->wake);
        if (tci_ctx_check(ctx, err) < 0) {
            atomic_fetch_add(&w->ncancelled, 1);
            return err->code;
        }
        if (!atomic_load(&w->is_open))
            tci_wake_wait(&ctx->wake, seen, tci_clock_mono_ns() + 10 * 1000000);
    }
    return 0;
}

static void wait_for(gate *w, atomic_uint *what, unsigned n)
{
    for (;;) {
        unsigned seen = tci_wake_count(&w->wake);
        if (atomic_load(what) >= n)
            return;
        tci_wake_wait(&w->wake, seen, tci_clock_mono_ns() + 10 * 1000000);
    }
}

/* Until n calls wait for the start. */
static void wait_for_callers(pi_rig *g, size_t n)
{
    tci_wake never = {0};
    for (;;) {
        size_t have = 0;
        tci_mutex_lock(&g->pi->lock);
        TCI_LIST_EACH (&g->pi->waiters, link) {
            TCI_UNUSED(link);
            have++;
        }
        tci_mutex_unlock(&g->pi->lock);
        if (have >= n)
            return;
        tci_wake_wait(&never, 0, tci_clock_mono_ns() + 1000000); /* between two looks */
    }
}

static void test_many_wait_for_one_start(void **state)
{
    TCI_UNUSED(state);
    gate w = {.is_open = false};
    pi_rig g = {.hook = wait_at_gate, .arg = &w};
    caller c[6];
    memset(c, 0, sizeof c);
    pi_rig_open(&g, play_good, NULL);
    for (size_t i = 0; i < TCI_ARRAY_LEN(c); i++)
        caller_start(&c[i], &g, -1);
    wait_for(&w, &w.nwaiting, 1);
    wait_for_callers(&g, TCI_ARRAY_LEN(c));
    tc_ctx_cancel(c[0].ctx); /* one leaves; the start goes on for the others */
    tci_thread_join(c[0].thread);
    c[0].thread = NULL;
    assert_int_equal(c[0].rc, TC_E_CANCELLED);
    atomic_store(&w.is_open, true);
    for (size_t i = 0; i < TCI_ARRAY_LEN(c); i++) {
        caller_end(&c[i]);
        assert_true(i == 0 || c[i].rc == 0);
    }
    assert_int_equal(g.nlaunches, 1);
    assert_int_equal(atomic_load(&w.ncancelled), 0);
    pi_rig_close(&g);
}

static void test_start_ends_when_nobody_waits(void **state)
{
    TCI_UNUSED(state);
    gate w = {.is_open = false};
    pi_rig g = {.hook = wait_at_gate, .arg = &w};
    caller c = {.rc = 0};
    pi_rig_open(&g, play_good, NULL);
    caller_start(&c, &g, -1);
    wait_for(&w, &w.nwaiting, 1);
    tc_ctx_cancel(c.ctx);
    caller_end(&c);
    assert_int_equal(c.rc, TC_E_CANCELLED);
    wait_for(&w, &w.ncancelled, 1);
    atomic_store(&w.is_open, true);
    assert_ok(&g, pi_lstat(&g, NULL, "/x", NULL));
    assert_int_equal(g.nlaunches, 2);
    pi_rig_close(&g);
}

static void test_close_while_starting(void **state)
{
    TCI_UNUSED(state);
    gate w = {.is_open = false};
    pi_rig g = {.hook = wait_at_gate, .arg = &w};
    caller c = {.rc = 0};
    pi_rig_open(&g, play_good, NULL);
    caller_start(&c, &g, -1);
    wait_for(&w, &w.nwaiting, 1);
    tci_pi_close(g.pi);
    caller_end(&c);
    assert_int_equal(c.rc, TC_E_CLOSED);
    assert_code(&g, TC_E_CLOSED, pi_lstat(&g, NULL, "/x", NULL));
    assert_string_equal(g.err.msg, "connection closed");
    assert_false(tc_result_evidence(g.r)->is_lost);
    pi_rig_close(&g);
}

/* Bytes a launcher has read already count, however they are cut. */
static int launch_early(void *user, tc_ctx *ctx, tc_str token, tci_pi_child *ret_child, tc_err *err)
{
    TCI_UNUSED(ctx);
    pi_rig *g = user;
    int fds[2];
    if (tci_socket_pair(fds, err) < 0)
        return err->code;
    tci_buf b;
    tci_buf_init(&b, 1 << 22);
    for (int i = 0; i < 30000; i++)
        tci_buf_printf(&b, "noise %d\n", i);
    tci_buf_printf(&b, "PI-ENV %.*s\n", TC_STR_ARG(token));
    const char *json =
        "{\"protocol\":1,\"version\":\"1\",\"os\":\"linux\",\"arch\":\"x\",\"home\":\"/\","
        "\"separator\":\"/\",\"tmpdir\":\"/tmp\",\"pid\":1,\"driveCwds\":{}}";
    tci_pienv_head head = {.type = TCI_PIENV_RESULT, .id = 1, .json_len = (uint32_t)strlen(json)};
    char bytes[TCI_PIENV_HEAD_BYTES];
    int rc = tci_pienv_head_put(&head, bytes, err);
    tci_buf_append(&b, bytes, sizeof bytes);
    tci_buf_append_str(&b, tci_str(json));
    *(int *)g->arg = fds[0];
    *ret_child = TCI_PI_CHILD_NONE;
    ret_child->in_fd = ret_child->out_fd = fds[1];
    ret_child->early = b.ptr;
    ret_child->early_len = b.len;
    return rc;
}

static void test_early_bytes(void **state)
{
    TCI_UNUSED(state);
    int fd = -1;
    pi_rig g = {.arg = &fd};
    tci_pi_facts facts;
    tci_pi_launcher launcher = {.launch = launch_early, .user = &g};
    pi_rig_open_with(&g, &launcher, NULL);
    assert_ok(&g, tci_pi_get_facts(g.pi, NULL, g.r, &facts, NULL, &g.err));
    assert_true(facts.session == 1 && !facts.has_ext);
    assert_str(facts.cwd, "");
    tci_fd_close(&fd);
    pi_rig_close(&g);
}

const struct CMUnitTest pi_start_tests[] = {
    cmocka_unit_test(test_exit_before_ready),
    cmocka_unit_test(test_stderr_is_cleaned_for_people_only),
    cmocka_unit_test(test_last_lines_of_last_characters),
    cmocka_unit_test(test_only_the_failing_attempts_words),
    cmocka_unit_test(test_program_that_cannot_be_started),
    cmocka_unit_test(test_exit_with_pipes_kept_open),
    cmocka_unit_test(test_silent_program),
    cmocka_unit_test(test_output_closed_before_ready),
    cmocka_unit_test(test_case_88_start_file_before_the_sync_line),
    cmocka_unit_test(test_case_88_start_file_that_never_ends),
    cmocka_unit_test(test_case_88_start_file_after_the_sync_line),
    cmocka_unit_test(test_refused_hello),
    cmocka_unit_test(test_other_protocols),
    cmocka_unit_test(test_failing_launch_is_not_remembered),
    cmocka_unit_test(test_many_wait_for_one_start),
    cmocka_unit_test(test_start_ends_when_nobody_waits),
    cmocka_unit_test(test_close_while_starting),
    cmocka_unit_test(test_early_bytes),
};
const size_t npi_start_tests = TCI_ARRAY_LEN(pi_start_tests);
