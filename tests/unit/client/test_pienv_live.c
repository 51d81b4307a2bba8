/* SPDX-License-Identifier: Apache-2.0
 *
 * The pi-env connection to the daemon of this tree: what only two real ends can show. */
#include "pi_peer.h"

#ifdef TC_TELECHIRD

static void open_daemon(pi_rig *g)
{
    tc_spawn_options spawn = {.size = sizeof spawn, .program = TC_STR(TC_TELECHIRD)};
    tci_pi_launcher launcher;
    pi_rig_open_with(g, &(tci_pi_launcher){.launch = NULL}, NULL);
    tci_pi_release(g->pi);
    assert_ok(g, tci_pi_launch_command(g->rt, &spawn, &launcher, &g->err));
    pi_rig_open_with(g, &launcher, NULL);
}

static const char *here(pi_rig *g, const char *name)
{
    tc_str path;
    tc_err err;
    const char *dir = getenv("TC_TEST_DIR");
    if (tci_arena_printf(tci_result_arena(g->r), &path, &err, "%s/%s", dir != NULL ? dir : "/tmp",
                         name) < 0)
        return "/nowhere";
    return path.ptr;
}

static void test_greeting(void **state)
{
    TCI_UNUSED(state);
    pi_rig g = {.nlaunches = 0};
    tci_pi_facts f;
    open_daemon(&g);
    assert_ok(&g, tci_pi_get_facts(g.pi, NULL, g.r, &f, NULL, &g.err));
    assert_true(f.has_ext && f.pid > 0);
    assert_str(f.separator, "/");
    assert_code(&g, TC_E_NOT_FOUND, pi_lstat(&g, NULL, "/no/such", NULL));
    assert_str(tc_result_evidence(g.r)->error_type, "ENOENT");
    pi_rig_close(&g);
}

enum { CHUNK = 512 * 1024, TOTAL = 3500017, WINDOW = 8 };

static tc_str chunk_of(const char *all, size_t at)
{
    return tci_str_of(all + at, tci_min_size(CHUNK, TOTAL - at));
}

/* Write through a handle with eight chunks on their way. */
static void write_in_chunks(pi_rig *g, const char *path, const char *all, bool append)
{
    tci_pi_write_params params = {
        .path = tci_str(path), .append = append, .parents = true, .keep = true};
    tci_pi_write_result res;
    tci_pi_call call = pi_call(g, TCI_PI_WRITE, &params, &res);
    tc_str first = chunk_of(all, 0);
    call.parts[0] = (tci_iovec){first.ptr, first.len};
    call.nparts = 1;
    assert_ok(g, tci_pi_do(g->pi, NULL, &call, &g->err));
    tci_pi_call calls[WINDOW];
    tci_pi_write_chunk_params chunk = {.handle = res.handle};
    size_t nbegun = 0, nended = 0;
    for (size_t at = first.len; at < TOTAL || nended < nbegun;) {
        if (at == TOTAL || nbegun - nended == WINDOW) {
            assert_ok(g, tci_pi_wait(&calls[nended++ % WINDOW], &g->err));
            continue;
        }
        tci_pi_call *c = &calls[nbegun++ % WINDOW];
        tc_str bytes = chunk_of(all, at);
        *c = pi_call(g, TCI_PI_WRITE_CHUNK, &chunk, NULL);
        c->session = call.ran_in;
        c->parts[0] = (tci_iovec){bytes.ptr, bytes.len};
        c->nparts = 1;
        assert_ok(g, tci_pi_begin(g->pi, NULL, c, &g->err));
        at += bytes.len;
    }
    tci_pi_close_params close = {.handle = res.handle};
    call = pi_call(g, TCI_PI_CLOSE, &close, NULL);
    assert_ok(g, tci_pi_do(g->pi, NULL, &call, &g->err));
}

/* Statement 38. */
static void test_large_file_there_and_back(void **state)
{
    TCI_UNUSED(state);
    pi_rig g = {.nlaunches = 0};
    char *all = malloc(TOTAL), *back = calloc(2, TOTAL);
    assert_true(all != NULL && back != NULL);
    for (size_t i = 0; i < TOTAL; i++)
        all[i] = (char)(i * 7 + (i >> 9));
    open_daemon(&g);
    const char *path = here(&g, "new/folder/large");
    write_in_chunks(&g, path, all, false);
    write_in_chunks(&g, path, all, true);
    tci_pi_open_params open = {.path = tci_str(path)};
    tci_pi_open_result opened;
    tci_pi_call call = pi_call(&g, TCI_PI_OPEN, &open, &opened);
    assert_ok(&g, tci_pi_do(g.pi, NULL, &call, &g.err));
    assert_int_equal(opened.info.size, 2 * TOTAL);
    tci_pi_call calls[2 * WINDOW];
    for (size_t i = 0; i < 2 * WINDOW; i++) {
        tci_pi_pread_params pread = {
            .handle = opened.handle, .length = CHUNK, .has_offset = true, .offset = i * CHUNK};
        calls[i] = pi_call(&g, TCI_PI_PREAD, &pread, NULL);
        calls[i].session = call.ran_in;
        calls[i].dst = i * CHUNK < 2 * TOTAL ? back + i * CHUNK : NULL;
        calls[i].dst_cap = calls[i].dst != NULL ? tci_min_size(CHUNK, 2 * TOTAL - i * CHUNK) : 0;
        assert_ok(&g, tci_pi_begin(g.pi, NULL, &calls[i], &g.err));
    }
    size_t total = 0;
    for (size_t i = 0; i < 2 * WINDOW; i++) {
        assert_ok(&g, tci_pi_wait(&calls[i], &g.err));
        total += calls[i].payload.len;
    }
    assert_int_equal(total, 2 * TOTAL);
    assert_memory_equal(back, all, TOTAL);
    assert_memory_equal(back + TOTAL, all, TOTAL);
    free(all);
    free(back);
    pi_rig_close(&g);
}

static int collect(void *user, const tci_pi_note *note, tc_err *err)
{
    TCI_UNUSED(err);
    tci_buf_append_str(user, note->payload);
    return 0;
}

static void test_command_with_input(void **state)
{
    TCI_UNUSED(state);
    pi_rig g = {.nlaunches = 0};
    tci_buf out;
    tci_buf_init(&out, 1 << 20);
    tci_pi_exec_params params = {.has_command = true,
                                 .command = TC_STR("tr a-z A-Z; exit 7"),
                                 .has_cwd = true,
                                 .cwd = TC_STR("/"),
                                 .inherit_env = true,
                                 .raw = true,
                                 .has_input = true};
    tci_pi_exec_result res;
    open_daemon(&g);
    tci_pi_call call = pi_call(&g, TCI_PI_EXEC, &params, &res);
    call.needs_ext = true;
    call.on_note = collect;
    call.user = &out;
    assert_ok(&g, tci_pi_begin(g.pi, NULL, &call, &g.err));
    tci_pi_input_params input = {.exec = call.id};
    for (int i = 0; i < 2; i++) {
        input.end = i == 1;
        tci_pi_call in = pi_call(&g, TCI_PI_INPUT, &input, NULL);
        in.session = call.ran_in;
        in.parts[0] = (tci_iovec){"word ", 5};
        in.nparts = 1;
        assert_ok(&g, tci_pi_do(g.pi, NULL, &in, &g.err));
    }
    assert_ok(&g, tci_pi_wait(&call, &g.err));
    assert_int_equal(res.exit_code, 7);
    assert_str(tci_buf_str(&out), "WORD WORD ");
    tci_buf_done(&out);
    pi_rig_close(&g);
}

/* Statement 34. */
static void test_twenty_commands_aborted(void **state)
{
    TCI_UNUSED(state);
    pi_rig g = {.nlaunches = 0};
    tci_pi_call calls[20];
    tci_pi_exec_params params = {.has_command = true,
                                 .command = TC_STR("sleep 600"),
                                 .has_cwd = true,
                                 .cwd = TC_STR("/"),
                                 .inherit_env = true};
    open_daemon(&g);
    int64_t before = tci_clock_mono_ns();
    for (size_t i = 0; i < TCI_ARRAY_LEN(calls); i++) {
        calls[i] = pi_call(&g, TCI_PI_EXEC, &params, NULL);
        assert_ok(&g, tci_pi_begin(g.pi, NULL, &calls[i], &g.err));
        tci_wake nobody = {0};
        tci_wake_wait(&nobody, 0, tci_clock_mono_ns() + (int64_t)(i % 5) * 1000000);
        tci_pi_cancel(&calls[i], false);
    }
    for (size_t i = 0; i < TCI_ARRAY_LEN(calls); i++) {
        assert_code(&g, TC_E_CANCELLED, tci_pi_wait(&calls[i], &g.err));
        assert_str(calls[i].fault.error.code, "aborted");
    }
    assert_true(tci_clock_mono_ns() - before < (int64_t)100000 * 1000000);
    pi_rig_close(&g);
}

/* Statement 36, and calls in flight when the daemon is killed. */
static void test_killed_daemon(void **state)
{
    TCI_UNUSED(state);
    pi_rig g = {.nlaunches = 0};
    tci_pi_facts first, second;
    tci_pi_exec_params params = {.has_command = true,
                                 .command = TC_STR("kill -9 $PPID; sleep 30"),
                                 .has_cwd = true,
                                 .cwd = TC_STR("/"),
                                 .inherit_env = true};
    open_daemon(&g);
    assert_ok(&g, tci_pi_get_facts(g.pi, NULL, g.r, &first, NULL, &g.err));
    tci_pi_open_params open = {.path = TC_STR("/dev/null"), .mode = TC_STR("read")};
    tci_pi_open_result opened;
    tci_pi_call call = pi_call(&g, TCI_PI_OPEN, &open, &opened);
    assert_ok(&g, tci_pi_do(g.pi, NULL, &call, &g.err));
    call = pi_call(&g, TCI_PI_EXEC, &params, NULL);
    assert_code(&g, TC_E_UNKNOWN_OUTCOME, tci_pi_do(g.pi, NULL, &call, &g.err));
    assert_true(call.fault.is_lost);
    tci_pi_pread_params pread = {.handle = opened.handle, .length = 1};
    call = pi_call(&g, TCI_PI_PREAD, &pread, NULL);
    call.session = first.session;
    assert_code(&g, TC_E_CLOSED, tci_pi_do(g.pi, NULL, &call, &g.err));
    assert_true(call.fault.is_lost);
    assert_ok(&g, tci_pi_get_facts(g.pi, NULL, g.r, &second, NULL, &g.err));
    assert_true(second.pid != first.pid && second.session == first.session + 1);
    pi_rig_close(&g);
}

static void test_device_behind_it(void **state)
{
    TCI_UNUSED(state);
    pi_rig g = {.nlaunches = 0};
    tc_device *d = NULL;
    tc_session *s = NULL;
    char *all = malloc(TOTAL);
    assert_non_null(all);
    for (size_t i = 0; i < TOTAL; i++)
        all[i] = (char)(i * 7 + (i >> 9));
    open_daemon(&g);
    for (int round = 0; round < 2; round++) {
        const char *path = here(&g, "tunnelled");
        tc_transfer t;
        tc_str back;
        tc_call call = TC_CALL(NULL, g.r);
        assert_ok(&g, tci_pi_device(g.pi, NULL, NULL, &d, &g.err));
        assert_ok(&g, tc_session_open(d, NULL, NULL, &s, &g.err));
        tc_write_options o = {.size = sizeof o};
        assert_ok(&g, tc_session_upload_bytes(s, &call, tci_str(path), &o,
                                              tci_str_of(all, TOTAL - (size_t)round), &t, &g.err));
        assert_ok(&g,
                  tc_session_download_bytes(s, &call, tci_str(path), NULL, TOTAL, &back, &g.err));
        assert_true(tci_str_eq(back, tci_str_of(all, TOTAL - (size_t)round)));
        assert_ok(&g, pi_lstat(&g, NULL, path, NULL)); /* the same files, beside it */
        assert_ok(&g, tc_session_close(s, NULL, &g.err));
        tc_device_close(d);
    }
    free(all);
    pi_rig_close(&g);
}

/* Start, one call with an event, one without. */
static int small_day(pi_rig *g)
{
    tc_spawn_options spawn = {.size = sizeof spawn, .program = TC_STR(TC_TELECHIRD)};
    tci_pi_launcher launcher;
    tci_pi_exec_params params = {.has_command = true,
                                 .command = TC_STR("echo hello"),
                                 .has_cwd = true,
                                 .cwd = TC_STR("/"),
                                 .inherit_env = true};
    tci_pi_exec_result res;
    tci_buf out;
    if (tci_pi_launch_command(g->rt, &spawn, &launcher, &g->err) < 0 ||
        tci_pi_new_own(g->rt, &launcher, NULL, &g->pi, &g->err) < 0)
        return g->err.code;
    tci_buf_init(&out, 1 << 20);
    tci_pi_call call = pi_call(g, TCI_PI_EXEC, &params, &res);
    call.on_note = collect;
    call.user = &out;
    int rc = tci_pi_do(g->pi, NULL, &call, &g->err);
    if (rc == 0)
        rc = tci_buf_error(&out, &g->err);
    if (rc == 0)
        assert_str(tci_buf_str(&out), "hello\n");
    tci_buf_done(&out);
    return rc == 0 ? pi_lstat(g, NULL, "/", NULL) : rc;
}

static void test_no_memory_at_any_moment(void **state)
{
    TCI_UNUSED(state);
    pi_rig g = {.nlaunches = 0};
    pi_rig_open_with(&g, &(tci_pi_launcher){.launch = NULL}, NULL);
    tci_pi_release(g.pi);
    for (size_t n = 1;; n++) {
        g.pi = NULL;
        tci_mem_fail_at(n);
        int rc = small_day(&g);
        size_t count = tci_mem_count();
        tci_mem_fail_at(0);
        if (g.pi != NULL) /* nothing of it is remembered */
            assert_ok(&g, pi_lstat(&g, NULL, "/", NULL));
        tci_pi_release(g.pi);
        tc_result_clear(g.r);
        if (rc == 0 && count < n)
            break;
        assert_in_range(n, 1, 2000);
    }
    g.pi = NULL;
    pi_rig_close(&g);
}

const struct CMUnitTest pi_live_tests[] = {
    cmocka_unit_test(test_greeting),
    cmocka_unit_test(test_no_memory_at_any_moment),
    cmocka_unit_test(test_large_file_there_and_back),
    cmocka_unit_test(test_command_with_input),
    cmocka_unit_test(test_twenty_commands_aborted),
    cmocka_unit_test(test_killed_daemon),
    cmocka_unit_test(test_device_behind_it),
};
const size_t npi_live_tests = TCI_ARRAY_LEN(pi_live_tests);

#else

static void test_no_daemon(void **state)
{
    TCI_UNUSED(state);
    print_message("telechird is not built with these tests\n");
    skip();
}

const struct CMUnitTest pi_live_tests[] = {cmocka_unit_test(test_no_daemon)};
const size_t npi_live_tests = TCI_ARRAY_LEN(pi_live_tests);

#endif
