/* SPDX-License-Identifier: Apache-2.0
 *
 * Transfers against a scripted daemon: the window, digests, gaps, resets, loss. */
#include "tests.h"

#include "base/hash.h"

#define FILE_INFO(size) \
    "\"info\":{\"kind\":\"file\",\"path\":{\"path\":\"/w/f\"},\"size_bytes\":" size "}"
#define EXPIRES "\"expires_at\":\"2026-01-02T03:04:05Z\""

enum { CHUNK = 10, SIZE = 120 };
static const char content[SIZE + 1] =
    "0123456789abcdefghijABCDEFGHIJ!@#$%^&*()0123456789abcdefghij"
    "ABCDEFGHIJ!@#$%^&*()0123456789abcdefghijABCDEFGHIJ!@#$%^&*()";

static const char *hex_of(peer *p, const void *bytes, size_t len)
{
    uint8_t digest[TCI_SHA256_BYTES];
    char hex[TCI_SHA256_HEX + 1];
    tci_sha256_of(tci_str_of(bytes, len), digest);
    tci_hex(digest, sizeof digest, hex);
    hex[TCI_SHA256_HEX] = 0;
    return peer_format(p, "%s", hex);
}

/* ---- reading ---- */

static bool begin_read(peer *p)
{
    if (!peer_session(p) || !peer_expect(p, "file.open_reader"))
        return false;
    peer_result(p, "{" EXPIRES "," FILE_INFO("120") ",\"reader\":\"handle-1\"}");
    return peer_expect_data(p, TCI_EIPD_ATTACH, 0);
}

static void attached(peer *p)
{
    peer_data(p, TCI_EIPD_ATTACHED, TCI_EIPD_STATUS_NONE, 0, NULL, 0);
}

static void chunk(peer *p, size_t offset)
{
    peer_data(p, TCI_EIPD_CHUNK, TCI_EIPD_STATUS_NONE, offset, content + offset % SIZE, CHUNK);
}

/* Send all of it, as credit allows. */
static bool send_all(peer *p)
{
    size_t sent = 0, credited = 0;
    attached(p);
    while (credited < SIZE) {
        while (sent < SIZE && sent - credited < 8 * CHUNK) {
            chunk(p, sent);
            sent += CHUNK;
        }
        if (!peer_expect_data(p, TCI_EIPD_CREDIT, credited + CHUNK))
            return false;
        credited += CHUNK;
    }
    peer_data(p, TCI_EIPD_END, TCI_EIPD_STATUS_NONE, SIZE, NULL, 0);
    return peer_expect(p, "file.close_reader");
}

static void completion(peer *p, unsigned long long nbytes, const char *hex)
{
    peer_result(p, peer_format(p,
                               "{\"completion\":{\"digest\":{\"algorithm\":\"sha256\",\"value\":"
                               "\"%s\"},\"produced_bytes\":%llu}}",
                               hex, nbytes));
}

static void answer(peer *p)
{
    if (strcmp(p->method, "file.stat") == 0)
        peer_result(p, "{" FILE_INFO("120") "}");
    else if (strcmp(p->method, "session.close") == 0)
        peer_result(p, "{\"closed\":true}");
    else if (strcmp(p->method, "file.abort_writer") == 0)
        peer_result(p, "{\"status\":\"already_aborted\"}");
}

/* Serve what comes until the link ends. */
static void serve(peer *p)
{
    bool is_data;
    while (peer_next(p, &is_data))
        if (!is_data)
            answer(p);
}

/* Serve what comes until a reset: a Host may hear of it after the next request. */
static void serve_until_reset(peer *p)
{
    bool is_data;
    while (peer_next(p, &is_data)) {
        if (!is_data)
            answer(p);
        else if (p->data.kind == TCI_EIPD_RESET)
            return;
    }
}

static void play_good_read(peer *p)
{
    if (begin_read(p) && send_all(p)) {
        completion(p, SIZE, hex_of(p, content, SIZE));
        serve(p);
    }
}

static int read_file(rig *g, tc_str *ret)
{
    tc_call call = rig_call(g);
    return tc_session_download_bytes(g->session, &call, TC_STR("/w/f"), NULL, 1000, ret, &g->err);
}

static void a_read_is_credited_and_compared(void **state)
{
    TCI_UNUSED(state);
    rig g = {0};
    tc_str got;
    rig_open(&g, play_good_read, NULL);
    assert_ok(&g, read_file(&g, &got));
    assert_int_equal(got.len, SIZE);
    assert_memory_equal(got.ptr, content, SIZE);
    rig_close(&g);
}

static void play_wrong_digest(peer *p)
{
    if (begin_read(p) && send_all(p)) {
        completion(p, SIZE, hex_of(p, content, SIZE - 1));
        serve(p);
    }
}

static void play_wrong_count(peer *p)
{
    if (begin_read(p) && send_all(p)) {
        completion(p, SIZE + 1, hex_of(p, content, SIZE));
        serve(p);
    }
}

static void a_wrong_digest_or_count_is_told_and_ends_the_session(void **state)
{
    TCI_UNUSED(state);
    void (*const plays[])(peer *) = {play_wrong_digest, play_wrong_count};
    for (size_t i = 0; i < TCI_ARRAY_LEN(plays); i++) {
        rig g = {0};
        tc_str got;
        rig_open(&g, plays[i], NULL);
        assert_code(&g, TC_E_INTEGRITY, read_file(&g, &got));
        assert_false(tc_session_is_alive(g.session));
        rig_close(&g);
    }
}

/* ---- what a daemon may not do while we read ---- */

static void gap(peer *p)
{
    chunk(p, 0);
    chunk(p, 2 * CHUNK);
}
static void overlap(peer *p)
{
    chunk(p, 0);
    chunk(p, 0);
}
static void too_much(peer *p)
{
    size_t credited = 0;
    for (size_t at = 0; at < SIZE; at += CHUNK) {
        chunk(p, at);
        if (!peer_expect_data(p, TCI_EIPD_CREDIT, credited += CHUNK))
            return;
    }
    chunk(p, SIZE);
}
static void early_end(peer *p)
{
    peer_hold(p); /* so that no credit can come in between */
    chunk(p, 0);
    peer_data(p, TCI_EIPD_END, TCI_EIPD_STATUS_NONE, CHUNK, NULL, 0);
    peer_flush(p);
}
static void wrong_end(peer *p)
{
    peer_data(p, TCI_EIPD_END, TCI_EIPD_STATUS_NONE, 7, NULL, 0);
}
static void attached_twice(peer *p)
{
    attached(p);
}
static void credit_to_reader(peer *p)
{
    peer_data(p, TCI_EIPD_CREDIT, TCI_EIPD_STATUS_NONE, 0, NULL, 0);
}
static void clients_frame(peer *p)
{
    peer_data(p, TCI_EIPD_ATTACH, TCI_EIPD_STATUS_NONE, 0, NULL, 0);
}
static void unknown_handle(peer *p)
{
    peer_data_to(p, "session-t-1", "handle-9", TCI_EIPD_CHUNK, 0, "x", 1);
}
static void unknown_session(peer *p)
{
    peer_data_to(p, "session-t-9", "handle-1", TCI_EIPD_CHUNK, 0, "x", 1);
}
static void not_a_data_frame(peer *p)
{
    static const char raw[] = "Content-Length: 24\r\n"
                              "Content-Type: application/vnd.a13n.eip-data\r\n\r\n"
                              "EIPX....................";
    peer_raw(p, raw, sizeof raw - 1);
}

typedef struct bad_read {
    const char *name;
    void (*act)(peer *p);
    bool ends_connection;
} bad_read;

static const bad_read bad_reads[] = {
    {"gap", gap, false},
    {"overlap", overlap, false},
    {"too much", too_much, false},
    {"early end", early_end, false},
    {"wrong end", wrong_end, false},
    {"attached twice", attached_twice, false},
    {"credit to a reader", credit_to_reader, false},
    {"a client's frame", clients_frame, false},
    {"unknown handle", unknown_handle, false},
    {"unknown session", unknown_session, true},
    {"not a data frame", not_a_data_frame, true},
};

static void play_bad_read(peer *p)
{
    const bad_read *c = p->arg;
    if (!begin_read(p))
        return;
    attached(p);
    c->act(p);
    serve(p);
}

static void broken_reads_end_the_session_or_the_connection(void **state)
{
    TCI_UNUSED(state);
    for (size_t i = 0; i < TCI_ARRAY_LEN(bad_reads); i++) {
        rig g = {0};
        tc_str got;
        rig_open(&g, play_bad_read, (void *)(uintptr_t)&bad_reads[i]); /* only read */
        int rc = read_file(&g, &got);
        if (rc != TC_E_PROTOCOL)
            fail_msg("%s: %s", bad_reads[i].name, tc_code_name(rc));
        assert_false(tc_session_is_alive(g.session));
        assert_int_equal(tc_device_is_alive(g.device), !bad_reads[i].ends_connection);
        rig_close(&g);
    }
}

/* More than the window, to a caller that takes nothing meanwhile. */
typedef struct slow {
    tci_wake wake;
    atomic_bool go;
} slow;

static int slow_sink(void *user, const void *bytes, size_t len, tc_err *err)
{
    TCI_UNUSED(bytes);
    TCI_UNUSED(len);
    TCI_UNUSED(err);
    slow *s = user;
    while (!atomic_load(&s->go))
        tci_wake_wait(&s->wake, 0, 0);
    return 0;
}

static void play_over_the_window(peer *p)
{
    slow *s = p->arg;
    if (!begin_read(p))
        return;
    attached(p);
    for (size_t i = 0; i < 9; i++)
        chunk(p, i * CHUNK);
    /* The session is told to be over before anything was credited. */
    bool is_told = peer_expect(p, "session.close");
    if (is_told)
        peer_result(p, "{\"closed\":true}");
    atomic_store(&s->go, true);
    tci_wake_all(&s->wake);
    if (is_told)
        serve(p);
}

static void a_daemon_may_not_overrun_the_window(void **state)
{
    TCI_UNUSED(state);
    rig g = {0};
    slow s = {.go = false};
    rig_open(&g, play_over_the_window, &s);
    tc_call call = rig_call(&g);
    assert_code(
        &g, TC_E_PROTOCOL,
        tc_session_download(g.session, &call, TC_STR("/w/f"), NULL, slow_sink, &s, NULL, &g.err));
    rig_close(&g);
}

/* ---- resets ---- */

static const struct {
    tci_eipd_status status;
    int code;
} resets[] = {
    {TCI_EIPD_STATUS_PROTOCOL, TC_E_PROTOCOL}, {TCI_EIPD_STATUS_DENIED, TC_E_DENIED},
    {TCI_EIPD_STATUS_EXPIRED, TC_E_TIMEOUT},   {TCI_EIPD_STATUS_SOURCE, TC_E_IO},
    {TCI_EIPD_STATUS_LIMIT, TC_E_QUOTA},       {TCI_EIPD_STATUS_CANCELLED, TC_E_CANCELLED},
    {TCI_EIPD_STATUS_INTERNAL, TC_E_INTERNAL},
};

static void play_resets(peer *p)
{
    if (!peer_session(p))
        return;
    for (size_t i = 0; i < TCI_ARRAY_LEN(resets); i++) {
        if (!peer_expect(p, "file.open_reader"))
            return;
        peer_result(p, "{" EXPIRES "," FILE_INFO("120") ",\"reader\":\"handle-1\"}");
        if (!peer_expect_data(p, TCI_EIPD_ATTACH, 0))
            return;
        attached(p);
        if (i % 2 == 0) {
            chunk(p, 0);
            if (!peer_expect_data(p, TCI_EIPD_CREDIT, CHUNK))
                return;
        }
        peer_data(p, TCI_EIPD_RESET, resets[i].status, CHUNK, NULL, 0);
    }
    serve(p);
}

static void a_reset_is_an_error_and_the_session_goes_on(void **state)
{
    TCI_UNUSED(state);
    rig g = {0};
    tc_str got;
    tc_file_info info;
    rig_open(&g, play_resets, NULL);
    for (size_t i = 0; i < TCI_ARRAY_LEN(resets); i++)
        assert_code(&g, resets[i].code, read_file(&g, &got));
    tc_call call = rig_call(&g);
    assert_ok(&g, tc_session_stat(g.session, &call, TC_STR("/w/f"), true, &info, &g.err));
    rig_close(&g);
}

static int refusing_sink(void *user, const void *bytes, size_t len, tc_err *err)
{
    TCI_UNUSED(user);
    TCI_UNUSED(bytes);
    TCI_UNUSED(len);
    return tc_err_set(err, TC_E_NO_SPACE, "full");
}

static void play_our_reset(peer *p)
{
    if (!begin_read(p))
        return;
    attached(p);
    chunk(p, 0);
    serve_until_reset(p);
    if (p->data.status != TCI_EIPD_STATUS_CANCELLED)
        peer_fail(p, "another status than cancelled");
    chunk(p, CHUNK); /* was under way: harmless */
    peer_data(p, TCI_EIPD_RESET, TCI_EIPD_STATUS_CANCELLED, 2 * CHUNK, NULL, 0);
    chunk(p, 2 * CHUNK); /* hardly right, but the transfer is over: no harm either */
    serve(p);
}

static void our_reset_is_echoed_and_the_session_goes_on(void **state)
{
    TCI_UNUSED(state);
    rig g = {0};
    tc_file_info info;
    rig_open(&g, play_our_reset, NULL);
    tc_call call = rig_call(&g);
    assert_code(&g, TC_E_NO_SPACE,
                tc_session_download(g.session, &call, TC_STR("/w/f"), NULL, refusing_sink, NULL,
                                    NULL, &g.err));
    assert_ok(&g, tc_session_stat(g.session, &call, TC_STR("/w/f"), true, &info, &g.err));
    rig_close(&g);
}

static void play_lost_read(peer *p)
{
    if (!begin_read(p))
        return;
    attached(p);
    chunk(p, 0);
    peer_cut(p);
}

static void a_lost_read_ends(void **state)
{
    TCI_UNUSED(state);
    rig g = {0};
    tc_str got;
    rig_open(&g, play_lost_read, NULL);
    assert_code(&g, TC_E_CLOSED, read_file(&g, &got));
    rig_close(&g);
}

/* ---- writing ---- */

enum { UPLOAD = 1000000 }; /* in frames of at most 65536 bytes */

static bool begin_write(peer *p)
{
    if (!peer_session(p) || !peer_expect(p, "file.open_writer"))
        return false;
    peer_result(p, "{" EXPIRES ",\"max_transfer_bytes\":2000000,\"writer\":\"handle-1\"}");
    if (!peer_expect_data(p, TCI_EIPD_ATTACH, 0))
        return false;
    attached(p);
    return true;
}

static void credit(peer *p, uint64_t end)
{
    peer_data(p, TCI_EIPD_CREDIT, TCI_EIPD_STATUS_NONE, end, NULL, 0);
}

/* Take everything, crediting only when a full window is out or the content is all there. */
static bool receive_all(peer *p, tci_sha256 *hash)
{
    uint64_t got = 0, ends[8];
    unsigned n = 0;
    while (got < UPLOAD) {
        if (!peer_expect_data(p, TCI_EIPD_CHUNK, got))
            return false;
        tci_sha256_update(hash, p->data.payload.ptr, p->data.payload.len);
        got += p->data.payload.len;
        ends[n++] = got;
        if (n < 8 && got < UPLOAD)
            continue;
        /* A ninth chunk without credit would be here by now, or come first after it. */
        for (unsigned i = 0; i < n; i++)
            credit(p, ends[i]);
        n = 0;
    }
    if (!peer_expect_data(p, TCI_EIPD_END, UPLOAD))
        return false;
    peer_data(p, TCI_EIPD_END_ACK, TCI_EIPD_STATUS_NONE, UPLOAD, NULL, 0);
    return peer_expect(p, "file.commit_writer");
}

static void play_good_write(peer *p)
{
    tci_sha256 hash;
    uint8_t digest[TCI_SHA256_BYTES];
    char hex[TCI_SHA256_HEX + 1] = {0};
    tci_sha256_init(&hash);
    if (!begin_write(p) || !receive_all(p, &hash))
        return;
    tci_sha256_final(&hash, digest);
    tci_hex(digest, sizeof digest, hex);
    if (!tci_str_eq(peer_text(p, "transfer_digest.value"), tci_str(hex))) {
        peer_fail(p, "another digest");
        return;
    }
    const char *said = p->arg != NULL ? p->arg : hex;
    peer_result(p,
                peer_format(p,
                            "{" FILE_INFO("1000000") ",\"receipt\":%s,\"transfer_digest\":{"
                                                     "\"algorithm\":\"sha256\",\"value\":\"%s\"},"
                                                     "\"transferred_bytes\":1000000}",
                            peer_receipt(p, "completed", "succeeded"), said));
    serve(p);
}

static int write_file(rig *g)
{
    char *bytes = malloc(UPLOAD);
    for (size_t i = 0; i < UPLOAD; i++)
        bytes[i] = (char)(i * 7 + i / 251);
    tc_call call = rig_call(g);
    int rc = tc_session_upload_bytes(g->session, &call, TC_STR("/w/f"), NULL,
                                     tci_str_of(bytes, UPLOAD), NULL, &g->err);
    free(bytes);
    return rc;
}

static void a_write_keeps_the_window_and_is_compared(void **state)
{
    TCI_UNUSED(state);
    rig g = {0};
    rig_open(&g, play_good_write, NULL);
    assert_ok(&g, write_file(&g));
    assert_outcome(&g, TC_OUTCOME_DONE);
    rig_close(&g);
}

static void a_commit_of_other_content_is_a_violation(void **state)
{
    TCI_UNUSED(state);
    static char other[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    rig g = {0};
    rig_open(&g, play_good_write, other);
    assert_code(&g, TC_E_PROTOCOL, write_file(&g));
    assert_false(tc_session_is_alive(g.session));
    rig_close(&g);
}

static void credit_between(peer *p)
{
    if (peer_expect_data(p, TCI_EIPD_CHUNK, 0))
        credit(p, p->data.payload.len - 1);
}
static void credit_for_nothing(peer *p)
{
    credit(p, 77);
}
static void early_ack(peer *p)
{
    peer_data(p, TCI_EIPD_END_ACK, TCI_EIPD_STATUS_NONE, UPLOAD, NULL, 0);
}
static void chunk_to_writer(peer *p)
{
    chunk(p, 0);
}

static const bad_read bad_writes[] = {
    {"credit between ends", credit_between, false},
    {"credit for nothing", credit_for_nothing, false},
    {"early ack", early_ack, false},
    {"a chunk to a writer", chunk_to_writer, false},
};

static void play_bad_write(peer *p)
{
    const bad_read *c = p->arg;
    if (!begin_write(p))
        return;
    c->act(p);
    serve(p);
}

static void broken_writes_end_the_session(void **state)
{
    TCI_UNUSED(state);
    for (size_t i = 0; i < TCI_ARRAY_LEN(bad_writes); i++) {
        rig g = {0};
        rig_open(&g, play_bad_write, (void *)(uintptr_t)&bad_writes[i]); /* only read */
        int rc = write_file(&g);
        if (rc != TC_E_PROTOCOL)
            fail_msg("%s: %s", bad_writes[i].name, tc_code_name(rc));
        assert_outcome(&g, TC_OUTCOME_NOT_STARTED);
        assert_false(tc_session_is_alive(g.session));
        rig_close(&g);
    }
}

static void play_reset_write(peer *p)
{
    bool is_data;
    if (!begin_write(p) || !peer_expect_data(p, TCI_EIPD_CHUNK, 0))
        return;
    peer_data(p, TCI_EIPD_RESET, TCI_EIPD_STATUS_LIMIT, 0, NULL, 0);
    do {
        if (!peer_next(p, &is_data))
            return;
    } while (is_data); /* chunks that were under way */
    if (strcmp(p->method, "file.abort_writer") != 0) {
        peer_fail(p, "the writer is not aborted");
        return;
    }
    peer_result(p, "{\"status\":\"already_aborted\"}");
    serve(p);
}

static void a_reset_write_did_not_start(void **state)
{
    TCI_UNUSED(state);
    rig g = {0};
    rig_open(&g, play_reset_write, NULL);
    assert_code(&g, TC_E_QUOTA, write_file(&g));
    assert_outcome(&g, TC_OUTCOME_NOT_STARTED);
    assert_true(tc_session_is_alive(g.session));
    rig_close(&g);
}

enum { AT_COMMIT = UPLOAD + 1 };

/* Loses the link when so many bytes have come, or the commit. */
static void play_lost_write(peer *p)
{
    const size_t *at = p->arg;
    bool is_data = true;
    if (!begin_write(p))
        return;
    for (size_t got = 0; *at == AT_COMMIT ? is_data : got < *at;) {
        if (!peer_next(p, &is_data))
            return;
        if (is_data && p->data.kind == TCI_EIPD_CHUNK) {
            got = p->data.offset + p->data.payload.len;
            credit(p, got);
        }
        if (is_data && p->data.kind == TCI_EIPD_END)
            peer_data(p, TCI_EIPD_END_ACK, TCI_EIPD_STATUS_NONE, p->data.offset, NULL, 0);
    }
    peer_cut(p);
}

static void case_65_a_write_lost_before_its_commit_did_not_start(void **state)
{
    TCI_UNUSED(state);
    const size_t cuts[] = {0, 1, UPLOAD / 2, UPLOAD, AT_COMMIT};
    for (size_t i = 0; i < TCI_ARRAY_LEN(cuts); i++) {
        size_t at = cuts[i];
        rig g = {0};
        rig_open(&g, play_lost_write, &at);
        int rc = write_file(&g);
        assert_true(rc < 0);
        if (at == AT_COMMIT) {
            assert_int_equal(rc, TC_E_UNKNOWN_OUTCOME);
            assert_outcome(&g, TC_OUTCOME_UNKNOWN);
        } else {
            assert_outcome(&g, TC_OUTCOME_NOT_STARTED);
        }
        rig_close(&g);
    }
}

const struct CMUnitTest xfer_tests[] = {
    cmocka_unit_test(a_read_is_credited_and_compared),
    cmocka_unit_test(a_wrong_digest_or_count_is_told_and_ends_the_session),
    cmocka_unit_test(broken_reads_end_the_session_or_the_connection),
    cmocka_unit_test(a_daemon_may_not_overrun_the_window),
    cmocka_unit_test(a_reset_is_an_error_and_the_session_goes_on),
    cmocka_unit_test(our_reset_is_echoed_and_the_session_goes_on),
    cmocka_unit_test(a_lost_read_ends),
    cmocka_unit_test(a_write_keeps_the_window_and_is_compared),
    cmocka_unit_test(a_commit_of_other_content_is_a_violation),
    cmocka_unit_test(broken_writes_end_the_session),
    cmocka_unit_test(a_reset_write_did_not_start),
    cmocka_unit_test(case_65_a_write_lost_before_its_commit_did_not_start),
};
const size_t nxfer_tests = TCI_ARRAY_LEN(xfer_tests);
