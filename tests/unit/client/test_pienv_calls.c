/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls over a pi-env connection that works: what goes over the wire, answers, errors, events,
 * cancelling and giving up. */
#include "pi_peer.h"

#include <poll.h>

enum { SOON_MS = 20 }; /* when time runs out, after the daemon has the request */

static void answer_lstat(pi_peer *p)
{
    pi_result(p, "{\"name\":\"a\",\"kind\":\"file\",\"size\":3,\"mtimeSec\":1760000000,"
                 "\"mtimeNsec\":123456789,\"dev\":66306,\"ino\":131,\"unheard\":{}}");
}

/* Answers every lstat until the link ends. */
static void serve_lstat(pi_peer *p)
{
    while (pi_next(p)) {
        if (!tci_str_eq(pi_text(p, "op"), TC_STR("lstat"))) {
            (void)pi_fail(p, "a request for '%.*s'", TC_STR_ARG(pi_text(p, "op")));
            return;
        }
        answer_lstat(p);
    }
}

/* ---- one request ---- */

static void play_lstat(pi_peer *p)
{
    pi_raw(p, "motd\r\n% ", 8);
    if (!pi_greet(p, true) || !pi_expect(p, "lstat"))
        return;
    if (p->json.count != 2 || !tci_str_eq(pi_text(p, "path"), TC_STR("/x y")) || p->head.id != 2 ||
        p->payload.len != 0)
        (void)pi_fail(p, "the request is not as it should be");
    answer_lstat(p);
    serve_lstat(p);
}

static void test_request_and_result(void **state)
{
    TCI_UNUSED(state);
    pi_rig g = {.nlaunches = 0};
    tci_pi_info info;
    tci_pi_facts f;
    pi_rig_open(&g, play_lstat, NULL);
    assert_int_equal(tci_pi_session(g.pi), 0);
    assert_ok(&g, pi_lstat(&g, NULL, "/x y", &info));
    assert_str(info.name, "a");
    assert_int_equal(info.kind, TCI_PI_KIND_FILE);
    assert_true(info.size == 3 && info.mtime_sec == 1760000000 && info.mtime_nsec == 123456789 &&
                info.dev == 66306 && info.ino == 131 && !info.has_mode);
    assert_outcome(&g, TC_OUTCOME_NONE);
    assert_ok(&g, tci_pi_get_facts(g.pi, NULL, g.r, &f, NULL, &g.err));
    assert_true(f.session == 1 && f.pid == 4711 && f.has_ext);
    assert_str(f.version, "1.1.0");
    assert_str(f.home, "/home/me");
    assert_str(f.separator, "/");
    assert_str(f.tmpdir, "/tmp");
    assert_str(f.cwd, "/w");
    assert_int_equal(tci_pi_session(g.pi), 1);
    assert_ok(&g, pi_lstat(&g, NULL, "/y", NULL));
    assert_memory_equal(pi_log(&g, &g.noise), "motd\r\n% ", 8);
    pi_rig_close(&g);
}

static void play_plain(pi_peer *p)
{
    if (pi_greet(p, false))
        serve_lstat(p);
}

static void test_foreign_peer_gets_no_extension(void **state)
{
    TCI_UNUSED(state);
    pi_rig g = {.nlaunches = 0};
    tci_pi_lstat_params lstat = {.path = TC_STR("/x"), .follow = true};
    tci_pi_syncfs_params sync = {.path = TC_STR("/x")};
    tc_device *d = NULL;
    pi_rig_open(&g, play_plain, NULL);
    tci_pi_call call = pi_call(&g, TCI_PI_LSTAT, &lstat, NULL);
    call.needs_ext = true;
    assert_code(&g, TC_E_UNSUPPORTED, tci_pi_do(g.pi, NULL, &call, &g.err));
    assert_str(call.fault.error.code, "not_supported");
    call = pi_call(&g, TCI_PI_SYNCFS, &sync, NULL);
    assert_code(&g, TC_E_UNSUPPORTED, tci_pi_do(g.pi, NULL, &call, &g.err));
    assert_code(&g, TC_E_UNSUPPORTED, tci_pi_device(g.pi, NULL, NULL, &d, &g.err));
    assert_ok(&g, pi_lstat(&g, NULL, "/x", NULL));
    pi_rig_close(&g);
}

/* ---- payloads ---- */

enum { BIG = 5 * 1000 * 1000, PIECE = 512 * 1024, NPIECES = 8 };

static char pattern(size_t at)
{
    return (char)(at * 131 + (at >> 11));
}

static char *patterned(size_t len)
{
    char *b = malloc(len);
    assert_non_null(b);
    for (size_t i = 0; i < len; i++)
        b[i] = pattern(i);
    return b;
}

static bool is_pattern(const char *b, size_t from, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (b[i] != pattern(from + i))
            return false;
    return true;
}

static void play_write(pi_peer *p)
{
    if (!pi_greet(p, true) || !pi_expect(p, "write"))
        return;
    if (p->payload.len != BIG || !is_pattern(p->payload.ptr, 0, BIG))
        (void)pi_fail(p, "the payload is not what was given");
    pi_result(p, "{\"handle\":7}");
    pi_drain(p);
}

static void test_write_payload_in_parts(void **state)
{
    TCI_UNUSED(state);
    pi_rig g = {.nlaunches = 0};
    char *b = patterned(BIG);
    tci_pi_write_params params = {.path = TC_STR("/f"), .parents = true, .keep = true};
    tci_pi_write_result res;
    pi_rig_open(&g, play_write, NULL);
    tci_pi_call call = pi_call(&g, TCI_PI_WRITE, &params, &res);
    call.parts[0] = (tci_iovec){b, 1};
    call.parts[1] = (tci_iovec){b + 1, 0};
    call.parts[2] = (tci_iovec){b + 1, BIG - 1};
    call.nparts = 3;
    assert_ok(&g, tci_pi_do(g.pi, NULL, &call, &g.err));
    assert_true(res.has_handle && res.handle == 7);
    assert_outcome(&g, TC_OUTCOME_DONE);
    free(b);
    pi_rig_close(&g);
}

static void play_preads(pi_peer *p)
{
    uint32_t ids[NPIECES];
    uint64_t offsets[NPIECES];
    if (!pi_greet(p, true))
        return;
    for (size_t i = 0; i < NPIECES; i++) {
        if (!pi_expect(p, "pread"))
            return;
        ids[i] = p->head.id;
        offsets[i] = pi_number(p, "offset");
    }
    for (size_t i = NPIECES; i-- > 0;) {
        char *b = malloc(PIECE);
        if (b == NULL)
            return;
        for (size_t k = 0; k < PIECE; k++)
            b[k] = pattern(offsets[i] + k);
        pi_frame(p, TCI_PIENV_RESULT, ids[i], "{}", b, i == NPIECES - 1 ? 1000 : PIECE);
        free(b);
    }
    pi_drain(p);
}

static void test_preads_in_flight(void **state)
{
    TCI_UNUSED(state);
    pi_rig g = {.nlaunches = 0};
    tci_pi_call calls[NPIECES];
    char *all = malloc((size_t)PIECE * NPIECES);
    pi_rig_open(&g, play_preads, NULL);
    for (size_t i = 0; i < NPIECES; i++) {
        tci_pi_pread_params params = {
            .handle = 1, .length = PIECE, .has_offset = true, .offset = i * PIECE};
        calls[i] = pi_call(&g, TCI_PI_PREAD, &params, NULL);
        if (i % 2 == 0) { /* the others into memory of the result */
            calls[i].dst = all + i * PIECE;
            calls[i].dst_cap = PIECE;
        }
        assert_ok(&g, tci_pi_begin(g.pi, NULL, &calls[i], &g.err));
    }
    for (size_t i = 0; i < NPIECES; i++) {
        size_t want = i == NPIECES - 1 ? 1000 : PIECE;
        assert_ok(&g, tci_pi_wait(&calls[i], &g.err));
        assert_int_equal(calls[i].payload.len, want);
        assert_true(i % 2 != 0 || calls[i].payload.ptr == all + i * PIECE);
        assert_true(is_pattern(calls[i].payload.ptr, i * PIECE, want));
    }
    free(all);
    pi_rig_close(&g);
}

static void play_one_pread(pi_peer *p)
{
    if (!pi_greet(p, true) || !pi_expect(p, "pread"))
        return;
    pi_frame(p, TCI_PIENV_RESULT, p->head.id, "{}", "more than asked for", 19);
    pi_drain(p);
}

static void test_answer_too_long_for_its_place(void **state)
{
    TCI_UNUSED(state);
    pi_rig g = {.nlaunches = 0};
    char place[4] = "abc";
    tci_pi_pread_params params = {.handle = 1, .length = 4};
    pi_rig_open(&g, play_one_pread, NULL);
    tci_pi_call call = pi_call(&g, TCI_PI_PREAD, &params, NULL);
    call.dst = place;
    call.dst_cap = sizeof place;
    assert_ok(&g, tci_pi_do(g.pi, NULL, &call, &g.err));
    assert_str(call.payload, "more than asked for");
    assert_string_equal(place, "abc");
    pi_rig_close(&g);
}

/* The order of chunks is the order they were begun in, small requests in between or not. */
static void play_chunks(pi_peer *p)
{
    uint32_t ids[NPIECES];
    size_t n = 0;
    if (!pi_greet(p, true))
        return;
    while (n < NPIECES && pi_next(p)) {
        if (tci_str_eq(pi_text(p, "op"), TC_STR("lstat"))) {
            answer_lstat(p);
            continue;
        }
        if (p->payload.len != (n + 1 < NPIECES ? PIECE : 10) || p->payload.ptr[0] != (char)n)
            (void)pi_fail(p, "chunk %zu is another one", n);
        ids[n++] = p->head.id;
    }
    for (size_t i = 0; i < n; i++)
        pi_frame(p, TCI_PIENV_RESULT, ids[i], "{}", NULL, 0);
    pi_drain(p);
}

static void test_chunks_in_order(void **state)
{
    TCI_UNUSED(state);
    pi_rig g = {.nlaunches = 0};
    tci_pi_call calls[NPIECES];
    char *b = calloc(NPIECES, PIECE);
    tci_pi_write_chunk_params params = {.handle = 1};
    pi_rig_open(&g, play_chunks, NULL);
    for (size_t i = 0; i < NPIECES; i++) {
        b[i * PIECE] = (char)i;
        calls[i] = pi_call(&g, TCI_PI_WRITE_CHUNK, &params, NULL);
        calls[i].parts[0] = (tci_iovec){b + i * PIECE, i + 1 < NPIECES ? PIECE : 10};
        calls[i].nparts = 1;
        assert_ok(&g, tci_pi_begin(g.pi, NULL, &calls[i], &g.err));
        if (i == 2)
            assert_ok(&g, pi_lstat(&g, NULL, "/x", NULL));
    }
    for (size_t i = 0; i < NPIECES; i++)
        assert_ok(&g, tci_pi_wait(&calls[i], &g.err));
    free(b);
    pi_rig_close(&g);
}

static void test_request_too_long_for_a_frame(void **state)
{
    TCI_UNUSED(state);
    pi_rig g = {.nlaunches = 0};
    tci_pi_write_params params = {.path = TC_STR("/f"), .parents = true};
    char *b = calloc(1, TCI_PIENV_LENGTH_MAX);
    pi_rig_open(&g, play_plain, NULL);
    tci_pi_call call = pi_call(&g, TCI_PI_WRITE, &params, NULL);
    call.parts[0] = (tci_iovec){b, TCI_PIENV_LENGTH_MAX};
    call.nparts = 1;
    assert_code(&g, TC_E_TOO_BIG, tci_pi_do(g.pi, NULL, &call, &g.err));
    assert_outcome(&g, TC_OUTCOME_NOT_STARTED);
    assert_ok(&g, pi_lstat(&g, NULL, "/x", NULL));
    free(b);
    pi_rig_close(&g);
}

/* ---- errors ---- */

static void play_errors(pi_peer *p)
{
    if (!pi_greet(p, true) || !pi_expect(p, "lstat"))
        return;
    pi_error(p, "ENOENT", "ENOENT: no such file or directory, lstat '/x'",
             ",\"syscall\":\"lstat\",\"path\":\"/x\",\"extra\":[1]");
    if (!pi_expect(p, "mkdir"))
        return;
    pi_error(p, "ENOTDIR", "ENOTDIR: not a directory, mkdir '/f/x'", ",\"path\":7");
    if (!pi_expect(p, "lstat"))
        return;
    pi_frame(p, TCI_PIENV_ERROR, p->head.id, "{}", NULL, 0);
    if (!pi_expect(p, "lstat"))
        return;
    pi_result(p, "{\"name\":\"a\"}"); /* no info */
    serve_lstat(p);
}

static void test_errors_keep_their_words(void **state)
{
    TCI_UNUSED(state);
    pi_rig g = {.nlaunches = 0};
    tci_pi_info info;
    pi_rig_open(&g, play_errors, NULL);
    assert_code(&g, TC_E_NOT_FOUND, pi_lstat(&g, NULL, "/x", &info));
    assert_string_equal(g.err.msg, "ENOENT: no such file or directory, lstat '/x'");
    const tc_evidence *e = tc_result_evidence(g.r);
    assert_str(e->error_type, "ENOENT");
    assert_str(e->detail, "lstat");
    assert_str(e->path, "/x");
    assert_true(!e->is_lost && e->outcome == TC_OUTCOME_NONE);
    tci_pi_mkdir_params mkdir = {.path = TC_STR("/f/x")};
    tci_pi_call call = pi_call(&g, TCI_PI_MKDIR, &mkdir, NULL);
    assert_code(&g, TC_E_CONFLICT, tci_pi_do(g.pi, NULL, &call, &g.err));
    assert_str(call.fault.error.code, "ENOTDIR");
    assert_false(call.fault.error.has_path);
    assert_outcome(&g, TC_OUTCOME_DONE);
    assert_code(&g, TC_E_IO, pi_lstat(&g, NULL, "/x", &info));
    assert_str(tc_result_evidence(g.r)->error_type, "unknown");
    assert_code(&g, TC_E_PROTOCOL, pi_lstat(&g, NULL, "/x", &info));
    assert_ok(&g, pi_lstat(&g, NULL, "/x", &info));
    pi_rig_close(&g);
}

/* ---- events ---- */

typedef struct heard {
    pi_rig *rig;
    tci_buf text;
    unsigned nskips, nothers, fail_at, n;
    tc_ctx *cancel;
} heard;

static int hear(void *user, const tci_pi_note *note, tc_err *err)
{
    heard *h = user;
    if (++h->n == h->fail_at)
        return tc_err_set(err, TC_E_NO_SPACE, "no more, please");
    if (h->cancel != NULL)
        tc_ctx_cancel(h->cancel);
    if (!note->is_output) {
        h->nothers++;
        tci_json_put(&h->text, note->json, TCI_JSON_AS_IS);
        return 0;
    }
    if (note->has_skipped) {
        h->nskips++;
        tci_buf_printf(&h->text, "[%llu,%llu,%d]", (unsigned long long)note->skipped.bytes,
                       (unsigned long long)note->skipped.newlines, note->skipped.ends_with_newline);
    }
    tci_buf_printf(&h->text, "%s", note->is_stderr ? "!" : "");
    tci_buf_append_str(&h->text, note->payload);
    return 0;
}

#define OUT "{\"kind\":\"output\",\"stream\":\"stdout\"}"
#define ERR "{\"stream\":\"stderr\",\"kind\":\"output\"}"
#define SKIP                                                                                \
    "{\"kind\":\"output\",\"stream\":\"stderr\",\"skipped\":{\"bytes\":104,\"newlines\":3," \
    "\"endsWithNewline\":true}}"

static void play_exec(pi_peer *p)
{
    if (!pi_greet(p, true) || !pi_expect(p, "exec"))
        return;
    if (!tci_str_eq(pi_text(p, "command"), TC_STR("make")) ||
        pi_number(p, "timeoutMs") != UINT64_MAX)
        (void)pi_fail(p, "exec is not as it should be");
    uint32_t id = p->head.id;
    char *junk = calloc(1, 300000);
    pi_frame(p, TCI_PIENV_EVENT, id, OUT, "one ", 4);
    pi_frame(p, TCI_PIENV_PING, 0, "{}", NULL, 0);
    pi_frame(p, TCI_PIENV_EVENT, id + 100, OUT, junk, 300000); /* of nobody */
    pi_frame(p, TCI_PIENV_RESULT, id + 100, "{}", junk, 300000);
    pi_frame(p, 77, id, "no JSON", junk, 300000); /* of an unknown type */
    pi_frame(p, 99, id, "", NULL, 0);
    pi_frame(p, TCI_PIENV_EVENT, id, ERR, "two ", 4);
    pi_frame(p, TCI_PIENV_EVENT, id, SKIP, "three ", 6);
    pi_frame(p, TCI_PIENV_EVENT, id, "{\"kind\":\"new\"}", NULL, 0);
    pi_frame(p, TCI_PIENV_EVENT, id, OUT, "four", 4);
    free(junk);
    pi_frame(p, TCI_PIENV_RESULT, id, "{\"exitCode\":3,\"spillPath\":\"/s\"}", NULL, 0);
    serve_lstat(p);
}

static tci_pi_call exec_call(pi_rig *g, heard *h, tci_pi_exec_result *res)
{
    static const tci_pi_exec_params params = {
        .has_command = true,
        .command = {"make", 4},
        .has_cwd = true,
        .cwd = {"/w", 2},
        .inherit_env = true,
    };
    tci_pi_call call = pi_call(g, TCI_PI_EXEC, &params, res);
    tci_buf_init(&h->text, 1 << 24);
    h->rig = g;
    call.on_note = hear;
    call.user = h;
    return call;
}

static void test_events_in_order(void **state)
{
    TCI_UNUSED(state);
    pi_rig g = {.nlaunches = 0};
    heard h = {.n = 0};
    tci_pi_exec_result res;
    pi_rig_open(&g, play_exec, NULL);
    tci_pi_call call = exec_call(&g, &h, &res);
    assert_ok(&g, tci_pi_do(g.pi, NULL, &call, &g.err));
    assert_true(res.exit_code == 3 && res.has_spill_path && !res.has_signal);
    assert_str(tci_buf_str(&h.text), "one !two [104,3,1]!three {\"kind\":\"new\"}four");
    assert_outcome(&g, TC_OUTCOME_DONE);
    assert_ok(&g, pi_lstat(&g, NULL, "/x", NULL));
    tci_buf_done(&h.text);
    pi_rig_close(&g);
}

/* ---- cancelling ---- */

static void play_aborted(pi_peer *p)
{
    if (!pi_greet(p, true) || !pi_expect(p, "exec"))
        return;
    uint32_t id = p->head.id;
    pi_frame(p, TCI_PIENV_EVENT, id, OUT, "one", 3);
    pi_frame(p, TCI_PIENV_EVENT, id, OUT, "two", 3);
    if (!pi_expect_cancel(p, id, false))
        return;
    p->head.id = id;
    pi_frame(p, TCI_PIENV_EVENT, id, OUT, "last", 4);
    pi_error(p, "aborted", "aborted", ",\"spillPath\":\"/spill\"");
    serve_lstat(p);
}

static void test_cancel_by_context(void **state)
{
    TCI_UNUSED(state);
    pi_rig g = {.nlaunches = 0};
    heard h = {.n = 0};
    tc_ctx *ctx = NULL;
    tci_pi_exec_result res;
    pi_rig_open(&g, play_aborted, NULL);
    assert_ok(&g, tc_ctx_new(-1, &ctx, &g.err));
    h.cancel = ctx; /* with the first output */
    tci_pi_call call = exec_call(&g, &h, &res);
    assert_code(&g, TC_E_CANCELLED, tci_pi_do(g.pi, ctx, &call, &g.err));
    assert_str(tci_buf_str(&h.text), "onetwolast");
    assert_str(call.fault.error.code, "aborted");
    assert_str(tc_result_evidence(g.r)->spill_path, "/spill");
    assert_outcome(&g, TC_OUTCOME_DONE);
    assert_ok(&g, pi_lstat(&g, NULL, "/x", NULL));
    tc_ctx_free(ctx);
    tci_buf_done(&h.text);
    pi_rig_close(&g);
}

static void test_time_runs_out(void **state)
{
    TCI_UNUSED(state);
    pi_rig g = {.nlaunches = 0};
    heard h = {.n = 0};
    tc_ctx *ctx = NULL;
    pi_rig_open(&g, play_aborted, NULL);
    assert_ok(&g, tci_pi_get_facts(g.pi, NULL, g.r, &(tci_pi_facts){.session = 0}, NULL, &g.err));
    assert_ok(&g, tc_ctx_new(-1, &ctx, &g.err));
    tci_pi_call call = exec_call(&g, &h, NULL);
    call.grace_ms = 60000;
    assert_ok(&g, tci_pi_begin(g.pi, ctx, &call, &g.err));
    pi_await(&g, 2);
    tc_ctx_reset(ctx, SOON_MS);
    assert_code(&g, TC_E_TIMEOUT, tci_pi_wait(&call, &g.err));
    assert_str(tci_buf_str(&h.text), "onetwolast");
    tc_ctx_free(ctx);
    tci_buf_done(&h.text);
    pi_rig_close(&g);
}

static void test_callback_that_fails(void **state)
{
    TCI_UNUSED(state);
    pi_rig g = {.nlaunches = 0};
    heard h = {.fail_at = 2};
    pi_rig_open(&g, play_aborted, NULL);
    tci_pi_call call = exec_call(&g, &h, NULL);
    call.grace_ms = 60000;
    assert_code(&g, TC_E_NO_SPACE, tci_pi_do(g.pi, NULL, &call, &g.err));
    assert_string_equal(g.err.msg, "no more, please");
    assert_str(tci_buf_str(&h.text), "one");
    assert_ok(&g, pi_lstat(&g, NULL, "/x", NULL));
    tci_buf_done(&h.text);
    pi_rig_close(&g);
}

static void play_killed(pi_peer *p)
{
    if (!pi_greet(p, true) || !pi_expect(p, "exec"))
        return;
    uint32_t id = p->head.id;
    if (!pi_expect_cancel(p, id, true))
        return;
    p->head.id = id;
    pi_result(p, "{\"exitCode\":137,\"signal\":9}");
    serve_lstat(p);
}

static void test_kill_answers_as_a_result(void **state)
{
    TCI_UNUSED(state);
    pi_rig g = {.nlaunches = 0};
    heard h = {.n = 0};
    tci_pi_exec_result res;
    pi_rig_open(&g, play_killed, NULL);
    tci_pi_call call = exec_call(&g, &h, &res);
    assert_ok(&g, tci_pi_begin(g.pi, NULL, &call, &g.err));
    tci_pi_cancel(&call, true);
    assert_ok(&g, tci_pi_wait(&call, &g.err));
    assert_true(res.exit_code == 137 && res.has_signal && res.signal == 9);
    pi_rig_close(&g);
}

/* Does not answer the first request of its kind before it is asked for something else. */
static void play_slow(pi_peer *p)
{
    if (!pi_greet(p, true) || !pi_next(p))
        return;
    uint32_t id = p->head.id;
    if (!pi_expect(p, "lstat"))
        return;
    pi_frame(p, TCI_PIENV_RESULT, id, "{}", "late", 4);
    answer_lstat(p);
    serve_lstat(p);
}

static void test_leaving_a_reading_call(void **state)
{
    TCI_UNUSED(state);
    pi_rig g = {.nlaunches = 0};
    tc_ctx *ctx = NULL;
    char place[16] = "untouched";
    tci_pi_pread_params params = {.handle = 1, .length = 16};
    pi_rig_open(&g, play_slow, NULL);
    assert_ok(&g, tci_pi_get_facts(g.pi, NULL, g.r, &(tci_pi_facts){.session = 0}, NULL, &g.err));
    assert_ok(&g, tc_ctx_new(-1, &ctx, &g.err));
    tci_pi_call call = pi_call(&g, TCI_PI_PREAD, &params, NULL);
    call.dst = place;
    call.dst_cap = sizeof place;
    assert_ok(&g, tci_pi_begin(g.pi, ctx, &call, &g.err));
    pi_await(&g, 2);
    tc_ctx_reset(ctx, SOON_MS);
    assert_code(&g, TC_E_TIMEOUT, tci_pi_wait(&call, &g.err));
    assert_outcome(&g, TC_OUTCOME_NONE);
    assert_ok(&g, pi_lstat(&g, NULL, "/x", NULL));
    assert_string_equal(place, "untouched");
    tc_ctx_free(ctx);
    pi_rig_close(&g);
}

static void test_leaving_a_change(void **state)
{
    TCI_UNUSED(state);
    pi_rig g = {.nlaunches = 0};
    tc_ctx *ctx = NULL;
    tci_pi_rename_params params = {.path = TC_STR("/a"), .to = TC_STR("/b")};
    pi_rig_open(&g, play_slow, NULL);
    assert_ok(&g, tci_pi_get_facts(g.pi, NULL, g.r, &(tci_pi_facts){.session = 0}, NULL, &g.err));
    assert_ok(&g, tc_ctx_new(-1, &ctx, &g.err));
    tci_pi_call call = pi_call(&g, TCI_PI_RENAME, &params, NULL);
    assert_ok(&g, tci_pi_begin(g.pi, ctx, &call, &g.err));
    pi_await(&g, 2);
    tc_ctx_reset(ctx, SOON_MS);
    assert_code(&g, TC_E_UNKNOWN_OUTCOME, tci_pi_wait(&call, &g.err));
    assert_outcome(&g, TC_OUTCOME_UNKNOWN);
    assert_int_equal(g.err.cause, TC_E_TIMEOUT);
    tci_pi_call again = pi_call(&g, TCI_PI_RENAME, &params, NULL);
    assert_code(&g, TC_E_TIMEOUT, tci_pi_begin(g.pi, ctx, &again, &g.err));
    assert_outcome(&g, TC_OUTCOME_NOT_STARTED);
    assert_ok(&g, pi_lstat(&g, NULL, "/x", NULL));
    tc_ctx_free(ctx);
    pi_rig_close(&g);
}

/* ---- a link that takes nothing ---- */

/* Reads on only when it is told to. */
static void play_stuck(pi_peer *p)
{
    tci_wake *go = p->rig->arg;
    if (!pi_greet(p, true))
        return;
    struct pollfd pf = {.fd = p->fd, .events = POLLIN};
    (void)poll(&pf, 1, -1);
    pi_heard(p); /* that it begins */
    while (tci_wake_count(go) == 0)
        tci_wake_wait(go, 0, 0);
    if (!pi_expect(p, "write"))
        return;
    if (p->payload.len != BIG || !is_pattern(p->payload.ptr, 0, BIG))
        (void)pi_fail(p, "the payload changed after its caller had left");
    pi_result(p, "{}");
    serve_lstat(p); /* fails when it sees the request that was taken back */
}

static void test_giving_up_while_nothing_is_taken(void **state)
{
    TCI_UNUSED(state);
    tci_wake go = {0};
    pi_rig g = {.arg = &go};
    char *b = patterned(BIG);
    tc_ctx *ctx = NULL;
    tci_pi_write_params write = {.path = TC_STR("/f"), .parents = true};
    tci_pi_write_chunk_params chunk = {.handle = 1};
    pi_rig_open(&g, play_stuck, NULL);
    assert_ok(&g, tci_pi_get_facts(g.pi, NULL, g.r, &(tci_pi_facts){.session = 0}, NULL, &g.err));
    assert_ok(&g, tc_ctx_new(-1, &ctx, &g.err));
    tci_pi_call stuck = pi_call(&g, TCI_PI_WRITE, &write, NULL);
    stuck.parts[0] = (tci_iovec){b, BIG};
    stuck.nparts = 1;
    assert_ok(&g, tci_pi_begin(g.pi, ctx, &stuck, &g.err));
    tci_pi_call behind = pi_call(&g, TCI_PI_WRITE_CHUNK, &chunk, NULL);
    assert_ok(&g, tci_pi_begin(g.pi, ctx, &behind, &g.err));
    pi_await(&g, 2);
    tc_ctx_reset(ctx, SOON_MS);
    assert_code(&g, TC_E_TIMEOUT, tci_pi_wait(&behind, &g.err));
    assert_outcome(&g, TC_OUTCOME_NOT_STARTED);
    assert_code(&g, TC_E_UNKNOWN_OUTCOME, tci_pi_wait(&stuck, &g.err));
    assert_outcome(&g, TC_OUTCOME_UNKNOWN);
    memset(b, 0xff, BIG); /* it is the caller's again */
    tci_wake_all(&go);
    assert_ok(&g, pi_lstat(&g, NULL, "/x", NULL));
    tc_ctx_free(ctx);
    free(b);
    pi_rig_close(&g);
}

static void test_dropping_calls(void **state)
{
    TCI_UNUSED(state);
    pi_rig g = {.nlaunches = 0};
    tci_pi_rename_params params = {.path = TC_STR("/a"), .to = TC_STR("/b")};
    pi_rig_open(&g, play_slow, NULL);
    tci_pi_call call = pi_call(&g, TCI_PI_RENAME, &params, NULL);
    assert_ok(&g, tci_pi_get_facts(g.pi, NULL, g.r, &(tci_pi_facts){.session = 0}, NULL, &g.err));
    assert_ok(&g, tci_pi_begin(g.pi, NULL, &call, &g.err));
    tci_pi_drop(&call);
    const tc_evidence *e = tc_result_evidence(g.r);
    assert_true(e->outcome == TC_OUTCOME_UNKNOWN || e->outcome == TC_OUTCOME_NOT_STARTED);
    if (e->outcome == TC_OUTCOME_NOT_STARTED) { /* it had not left yet: the script wants another */
        assert_ok(&g, tci_pi_begin(g.pi, NULL, &call, &g.err));
        assert_ok(&g, pi_lstat(&g, NULL, "/x", NULL));
        tci_pi_drop(&call);
    } else {
        assert_ok(&g, pi_lstat(&g, NULL, "/x", NULL));
    }
    pi_rig_close(&g);
}

/* ---- a sink that is slow ---- */

enum { CHATTER = 64 * 1024, NCHATTER = 800 };

typedef struct flood {
    atomic_size_t nsent;
    pi_rig *rig;
    size_t ntaken;
    bool has_asked;
} flood;

static void play_flood(pi_peer *p)
{
    flood *f = p->rig->arg;
    char *b = calloc(1, CHATTER);
    if (b == NULL || !pi_greet(p, true) || !pi_expect(p, "exec"))
        return;
    uint32_t id = p->head.id;
    for (size_t i = 0; i < NCHATTER; i++) {
        pi_frame(p, TCI_PIENV_EVENT, id, OUT, b, CHATTER);
        atomic_fetch_add(&f->nsent, CHATTER);
    }
    free(b);
    p->head.id = id;
    pi_result(p, "{\"exitCode\":0}");
    serve_lstat(p);
}

/* The producer is held back while the first event is being looked at, and a call made from there is
 * answered all the same. */
static int sip(void *user, const tci_pi_note *note, tc_err *err)
{
    flood *f = user;
    f->ntaken += note->payload.len;
    if (f->has_asked)
        return 0;
    f->has_asked = true;
    size_t before;
    do { /* until it stands still */
        before = atomic_load(&f->nsent);
        tci_wake nobody = {0};
        tci_wake_wait(&nobody, 0, tci_clock_mono_ns() + 200 * 1000000);
    } while (atomic_load(&f->nsent) != before);
    if (before > (size_t)NCHATTER * CHATTER / 2)
        return tc_err_set(err, TC_E_INTERNAL, "%zu bytes were taken in advance", before);
    /* The script answers it after its output only, so all of that has to come in meanwhile. */
    tc_result *r = NULL;
    if (tc_result_new(&r, err) < 0)
        return err->code;
    tci_pi_lstat_params params = {.path = TC_STR("/x")};
    tci_pi_call call = {.op = TCI_PI_LSTAT, .params = &params, .result = r};
    int rc = tci_pi_do(f->rig->pi, NULL, &call, err);
    tc_result_free(r);
    return rc;
}

static void test_slow_sink_holds_back_the_command(void **state)
{
    TCI_UNUSED(state);
    flood f = {.ntaken = 0};
    pi_rig g = {.arg = &f};
    heard h = {.n = 0};
    f.rig = &g;
    tci_pi_exec_result res;
    pi_rig_open(&g, play_flood, NULL);
    tci_pi_call call = exec_call(&g, &h, &res);
    call.on_note = sip;
    call.user = &f;
    assert_ok(&g, tci_pi_do(g.pi, NULL, &call, &g.err));
    assert_int_equal(f.ntaken, (size_t)NCHATTER * CHATTER);
    tci_buf_done(&h.text);
    pi_rig_close(&g);
}

const struct CMUnitTest pi_call_tests[] = {
    cmocka_unit_test(test_request_and_result),
    cmocka_unit_test(test_foreign_peer_gets_no_extension),
    cmocka_unit_test(test_write_payload_in_parts),
    cmocka_unit_test(test_preads_in_flight),
    cmocka_unit_test(test_answer_too_long_for_its_place),
    cmocka_unit_test(test_chunks_in_order),
    cmocka_unit_test(test_request_too_long_for_a_frame),
    cmocka_unit_test(test_errors_keep_their_words),
    cmocka_unit_test(test_events_in_order),
    cmocka_unit_test(test_cancel_by_context),
    cmocka_unit_test(test_time_runs_out),
    cmocka_unit_test(test_callback_that_fails),
    cmocka_unit_test(test_kill_answers_as_a_result),
    cmocka_unit_test(test_leaving_a_reading_call),
    cmocka_unit_test(test_leaving_a_change),
    cmocka_unit_test(test_giving_up_while_nothing_is_taken),
    cmocka_unit_test(test_dropping_calls),
    cmocka_unit_test(test_slow_sink_holds_back_the_command),
};
const size_t npi_call_tests = TCI_ARRAY_LEN(pi_call_tests);
