/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests against a scripted daemon: connecting, what is known of a change after a lost link, answers that
 * break the protocol, giving up, lanes, keeping alive. */
#include "peer.h"

#include "client/client_int.h"
#include "plat/clock.h"
#include "tests.h"

enum { GIVE_UP_MS = 1000 }; /* the request has long left by then */

#define INFO "\"info\":{\"kind\":\"file\",\"path\":{\"path\":\"/w/f\"},\"size_bytes\":1}"

static int write_one(rig *g, tc_ctx *ctx)
{
    tc_call call = TC_CALL(ctx, g->r);
    return tc_session_write_text(g->session, &call, TC_STR("/w/f"), TC_STR("x"), NULL, NULL,
                                 &g->err);
}

static int stat_one(rig *g, tc_ctx *ctx)
{
    tc_call call = TC_CALL(ctx, g->r);
    tc_file_info info;
    return tc_session_stat(g->session, &call, TC_STR("/w/f"), true, &info, &g->err);
}

static void answer_write(peer *p)
{
    peer_result(p, peer_format(p, "{\"bytes_written\":1," INFO ",\"receipt\":%s}",
                               peer_receipt(p, "completed", "succeeded")));
}

/* ---- connecting ---- */

static void play_session_and_end(peer *p)
{
    bool is_data;
    if (peer_session(p))
        while (peer_next(p, &is_data))
            continue;
}

static void connects_and_knows_the_device(void **state)
{
    TCI_UNUSED(state);
    rig g = {0};
    rig_open(&g, play_session_and_end, NULL);
    assert_true(tc_device_get_info(g.device)->generation == UINT64_MAX);
    assert_true(tc_session_has_method(g.session, TC_STR("file.stat")));
    assert_true(tci_str_eq(tc_session_get_info(g.session)->working_directory, TC_STR("/w")));
    rig_close(&g);
}

static void play_initialize_with(peer *p)
{
    bool is_data;
    if (!peer_expect(p, "initialize"))
        return;
    peer_result(p, p->arg);
    while (peer_next(p, &is_data))
        continue;
}

#define DESCRIPTOR(methods, extra)                                                               \
    "\"descriptor\":{\"available_methods\":[" methods "],\"boundary\":{\"backend\":\"native\","  \
    "\"egress\":\"inherit\",\"policy_digest\":"                                                  \
    "\"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\","                      \
    "\"privilege_gain_blocked\":false,\"sandbox\":{\"mode\":\"disabled\"}},"                     \
    "\"default_working_directory\":\"/w\",\"device_id\":\"dev-1\",\"directory_discovery\":true," \
    "\"generation\":5,\"lifecycle\":{\"disconnect_grace_ms\":10,\"idle_timeout_ms\":1000},"      \
    "\"limits\":{\"max_concurrent_file_transfers\":1,\"max_concurrent_operations\":1,"           \
    "\"max_file_bytes\":1,\"max_file_transfer_bytes\":1,\"max_operation_duration_ms\":1,"        \
    "\"max_output_bytes_per_stream\":1,\"max_output_preview_bytes\":1,\"max_processes\":1,"      \
    "\"max_request_bytes\":1000,\"max_response_bytes\":1000,\"max_transfer_frame_bytes\":100},"  \
    "\"path_style\":\"posix\"" extra "}"
#define SERVER(name) ",\"server\":{\"name\":\"" name "\",\"version\":\"1\"}}"

static void refuses_what_is_not_such_a_daemon(void **state)
{
    TCI_UNUSED(state);
    static const struct {
        const char *result;
        int code;
    } cases[] = {
        {"{" DESCRIPTOR("", "") ",\"protocol_version\":\"0.3\"" SERVER("other"), TC_E_INCOMPATIBLE},
        {"{" DESCRIPTOR("", "") ",\"protocol_version\":\"0.2\"" SERVER("a13n-envd"),
         TC_E_INCOMPATIBLE},
        {"{" DESCRIPTOR("\"file.stat\",\"file.stat\"",
                        "") ",\"protocol_version\":\"0.3\"" SERVER("a13n-envd"),
         TC_E_PROTOCOL},
        {"{" DESCRIPTOR("\"file.shred\"", "") ",\"protocol_version\":\"0.3\"" SERVER("a13n-envd"),
         TC_E_PROTOCOL},
        {"{" DESCRIPTOR("", ",\"mood\":1") ",\"protocol_version\":\"0.3\"" SERVER("a13n-envd"),
         TC_E_PROTOCOL},
        {"{}", TC_E_PROTOCOL},
    };
    for (size_t i = 0; i < TCI_ARRAY_LEN(cases); i++) {
        rig g = {0};
        void *text = (void *)(uintptr_t)cases[i].result; /* only read */
        assert_code(&g, cases[i].code, rig_connect(&g, play_initialize_with, text));
        rig_close(&g);
    }
}

static void play_initialize_and_end(peer *p)
{
    bool is_data;
    if (peer_initialize(p))
        while (peer_next(p, &is_data))
            continue;
}

static void refuses_another_device(void **state)
{
    TCI_UNUSED(state);
    rig g = {0};
    assert_ok(&g, tc_runtime_open(NULL, &g.rt, &g.err));
    assert_ok(&g, tc_result_new(&g.r, &g.err));
    peer_open(&g.peer, play_initialize_and_end, NULL);
    tc_device_options o = {.size = sizeof o, .expected_device_id = TC_STR("dev-2")};
    int fd = g.peer.client_fd;
    assert_code(&g, TC_E_INCOMPATIBLE,
                tc_device_adopt_own(g.rt, NULL, fd, fd, &o, &g.device, &g.err));
    rig_close(&g);
}

/* ---- a lost link: case 65 ---- */

typedef struct cut {
    size_t at; /* byte of the answer that is the last */
    bool is_whole;
} cut;

static void play_cut_answer(peer *p)
{
    cut *c = p->arg;
    bool is_data;
    if (!peer_session(p) || !peer_expect(p, "file.write_text"))
        return;
    p->cut_at = c->at;
    answer_write(p);
    c->is_whole = !p->is_cut;
    while (!p->is_cut && peer_next(p, &is_data))
        continue;
}

static void case_65_lost_at_every_byte_of_the_answer_is_unknown(void **state)
{
    TCI_UNUSED(state);
    cut c = {.at = 1};
    for (; !c.is_whole; c.at += 7) {
        rig g = {0};
        rig_open(&g, play_cut_answer, &c);
        int rc = write_one(&g, NULL);
        bool is_known = rc == 0;
        if (!is_known) {
            assert_int_equal(rc, TC_E_UNKNOWN_OUTCOME);
            assert_int_equal(g.err.cause, TC_E_CLOSED);
            assert_outcome(&g, TC_OUTCOME_UNKNOWN);
            assert_false(tc_session_is_alive(g.session));
            /* The next one never leaves. */
            assert_code(&g, TC_E_CLOSED, write_one(&g, NULL));
            assert_outcome(&g, TC_OUTCOME_NOT_STARTED);
        } else {
            assert_outcome(&g, TC_OUTCOME_DONE);
        }
        rig_close(&g);
        assert_true(is_known == c.is_whole);
    }
    assert_true(c.at > 200);
}

static void play_deaf(peer *p)
{
    if (peer_session(p))
        peer_cut(p); /* without reading what comes */
}

static void case_65_a_request_that_did_not_leave_whole_is_not_started(void **state)
{
    TCI_UNUSED(state);
    rig g = {0};
    rig_open(&g, play_deaf, NULL);
    size_t len = 8 * 1024 * 1024; /* more than any socket takes */
    char *big = malloc(len);
    memset(big, 'x', len);
    tc_call call = rig_call(&g);
    assert_code(&g, TC_E_CLOSED,
                tc_session_write_text(g.session, &call, TC_STR("/w/f"), tci_str_of(big, len), NULL,
                                      NULL, &g.err));
    assert_outcome(&g, TC_OUTCOME_NOT_STARTED);
    free(big);
    rig_close(&g);
}

static void play_cut_on_write(peer *p)
{
    if (peer_session(p) && peer_expect(p, "file.write_text"))
        peer_cut(p);
}

typedef struct second {
    rig *g;
    tc_result *r;
    tc_err err;
    int rc;
    size_t nwaiting; /* calls of the connection that wait in some lane */
} second;

static void write_second(void *arg)
{
    second *s = arg;
    tc_call call = TC_CALL(NULL, s->r);
    s->rc = tc_session_write_text(s->g->session, &call, TC_STR("/w/f"), TC_STR("x"), NULL, NULL,
                                  &s->err);
}

static void case_65_a_request_that_waits_its_turn_is_not_started(void **state)
{
    TCI_UNUSED(state);
    rig g = {.peer = {.max_concurrent = 1}};
    second s = {.g = &g};
    tci_thread *thread;
    rig_open(&g, play_cut_on_write, NULL);
    assert_ok(&g, tc_result_new(&s.r, &g.err));
    assert_ok(&g, tci_thread_new(write_second, &s, 0, &thread, &g.err));
    int rc = write_one(&g, NULL);
    tci_thread_join(thread);
    /* One was sent, the other was not; whichever it is, both know. */
    tc_outcome a = tc_result_evidence(g.r)->outcome, b = tc_result_evidence(s.r)->outcome;
    assert_true((a == TC_OUTCOME_UNKNOWN && b == TC_OUTCOME_NOT_STARTED) ||
                (b == TC_OUTCOME_UNKNOWN && a == TC_OUTCOME_NOT_STARTED));
    assert_true(rc < 0 && s.rc < 0);
    tc_result_free(s.r);
    rig_close(&g);
}

static void play_cut_on_stat(peer *p)
{
    if (peer_session(p) && peer_expect(p, "file.stat"))
        peer_cut(p);
}

static void a_lost_read_is_just_closed(void **state)
{
    TCI_UNUSED(state);
    rig g = {0};
    rig_open(&g, play_cut_on_stat, NULL);
    assert_code(&g, TC_E_CLOSED, stat_one(&g, NULL));
    assert_outcome(&g, TC_OUTCOME_NONE);
    rig_close(&g);
}

/* ---- what errors say of a change ---- */

typedef struct error_case {
    int wire;
    const char *type, *stage;
    int code;
    tc_outcome outcome;
} error_case;

static const error_case errors[] = {
    {-32010, "denied", "pre_dispatch", TC_E_DENIED, TC_OUTCOME_NOT_STARTED},
    {-32060, "conflict", "completed", TC_E_CONFLICT, TC_OUTCOME_DONE},
    {-32050, "provider_unavailable", "unknown", TC_E_IO, TC_OUTCOME_UNKNOWN},
    {-32042, "unknown_outcome", "completed", TC_E_UNKNOWN_OUTCOME, TC_OUTCOME_UNKNOWN},
    {-32043, "operation_in_progress", "pre_dispatch", TC_E_IN_PROGRESS, TC_OUTCOME_UNKNOWN},
    {-32001, "not_initialized", "pre_dispatch", TC_E_NOT_READY, TC_OUTCOME_NOT_STARTED},
    {-32030, "busy", "pre_dispatch", TC_E_BUSY, TC_OUTCOME_NOT_STARTED},
};

static void play_errors(peer *p)
{
    if (!peer_session(p))
        return;
    for (size_t i = 0; i < TCI_ARRAY_LEN(errors); i++) {
        if (!peer_expect(p, "file.write_text"))
            return;
        peer_error(p, errors[i].wire, errors[i].type, errors[i].stage);
    }
}

static void errors_tell_what_became_of_a_change(void **state)
{
    TCI_UNUSED(state);
    rig g = {0};
    rig_open(&g, play_errors, NULL);
    for (size_t i = 0; i < TCI_ARRAY_LEN(errors); i++) {
        assert_code(&g, errors[i].code, write_one(&g, NULL));
        assert_outcome(&g, errors[i].outcome);
        assert_true(tci_str_eq(tc_result_evidence(g.r)->error_type, tci_str(errors[i].type)));
    }
    rig_close(&g);
}

/* ---- answers that break the protocol ---- */

typedef struct bad_case {
    const char *name;
    void (*answer)(peer *p);
    bool ends_connection;
} bad_case;

static void twice(peer *p)
{
    answer_write(p);
    answer_write(p);
}
static void unknown_id(peer *p)
{
    peer_result_as(p, p->id + 100, p->session, "{}");
}
static void other_session(peer *p)
{
    peer_result_as(p, p->id, "session-x", "{}");
}
static void no_session(peer *p)
{
    peer_result_as(p, p->id, NULL, "{}");
}
static void not_json(peer *p)
{
    peer_raw(p, "Content-Length: 3\r\n\r\n{]}", 24);
}
static void not_a_frame(peer *p)
{
    peer_raw(p, "hello\r\n\r\n", 9);
}
static void too_big(peer *p)
{
    peer_raw(p, "Content-Length: 99999999999\r\n\r\n{", 32);
}
static void unknown_field(peer *p)
{
    peer_result(p, peer_format(p, "{\"bytes_written\":1,\"colour\":1," INFO ",\"receipt\":%s}",
                               peer_receipt(p, "completed", "succeeded")));
}
static void wrong_count(peer *p)
{
    peer_result(p, peer_format(p, "{\"bytes_written\":2," INFO ",\"receipt\":%s}",
                               peer_receipt(p, "completed", "succeeded")));
}
static void foreign_receipt(peer *p)
{
    snprintf(p->method, sizeof p->method, "file.copy");
    answer_write(p);
}
static void unknown_error(peer *p)
{
    peer_error(p, -32000, "tired", "completed");
}
static void other_code(peer *p)
{
    peer_error(p, -32011, "denied", "completed");
}

static const bad_case bad_cases[] = {
    {"twice", twice, true},
    {"unknown id", unknown_id, true},
    {"other session", other_session, true},
    {"no session", no_session, true},
    {"not json", not_json, true},
    {"not a frame", not_a_frame, true},
    {"too big", too_big, true},
    {"unknown field", unknown_field, false},
    {"wrong count", wrong_count, false},
    {"foreign receipt", foreign_receipt, false},
    {"unknown error", unknown_error, false},
    {"other code", other_code, false},
};

static void play_bad(peer *p)
{
    const bad_case *c = p->arg;
    bool is_data;
    if (!peer_session(p) || !peer_expect(p, "file.write_text"))
        return;
    c->answer(p);
    /* Only the session is over: it is told, and the device answers on. */
    while (peer_next(p, &is_data))
        if (!is_data && strcmp(p->method, "session.close") == 0)
            peer_result(p, "{\"closed\":true}");
}

static void broken_answers_end_the_session_or_the_connection(void **state)
{
    TCI_UNUSED(state);
    for (size_t i = 0; i < TCI_ARRAY_LEN(bad_cases); i++) {
        const bad_case *c = &bad_cases[i];
        rig g = {0};
        rig_open(&g, play_bad, (void *)(uintptr_t)c); /* only read */
        int rc = write_one(&g, NULL);
        if (c->answer == twice) {
            /* The first answer counts; the second ends the connection. */
            assert_int_equal(rc, 0);
            while (tc_device_is_alive(g.device))
                (void)stat_one(&g, NULL);
        } else {
            if (rc != TC_E_PROTOCOL)
                fail_msg("%s: %s", c->name, tc_code_name(rc));
            assert_outcome(&g, TC_OUTCOME_UNKNOWN);
        }
        assert_int_equal(tc_device_is_alive(g.device), !c->ends_connection);
        assert_false(tc_session_is_alive(g.session));
        assert_true(stat_one(&g, NULL) < 0);
        rig_close(&g);
    }
}

/* ---- giving up ---- */

static void play_never_answers(peer *p)
{
    bool is_data;
    if (!peer_session(p) || !peer_expect(p, "file.write_text"))
        return;
    uint64_t id = p->id;
    tc_str op = peer_text(p, "context.operation_id");
    const char *late = peer_format(p, "{\"bytes_written\":1," INFO ",\"receipt\":%s}",
                                   peer_receipt(p, "completed", "succeeded"));
    if (!peer_expect(p, "operation.cancel"))
        return;
    if (!tci_str_eq(peer_text(p, "target_operation_id"), op))
        peer_fail(p, "another operation is cancelled");
    /* Everything else is answered; the late answer comes in between and disturbs nobody. */
    if (!peer_next(p, &is_data) || strcmp(p->method, "file.stat") != 0) {
        peer_fail(p, "no stat");
        return;
    }
    uint64_t stat_id = p->id;
    peer_result_as(p, id, p->session, late);
    peer_result_as(p, stat_id, p->session, "{" INFO "}");
    while (peer_next(p, &is_data))
        continue;
}

static void a_change_given_up_on_is_unknown_and_its_late_answer_harmless(void **state)
{
    TCI_UNUSED(state);
    rig g = {0};
    tc_ctx *ctx;
    rig_open(&g, play_never_answers, NULL);
    assert_ok(&g, tc_ctx_new(GIVE_UP_MS, &ctx, &g.err));
    assert_code(&g, TC_E_UNKNOWN_OUTCOME, write_one(&g, ctx));
    assert_int_equal(g.err.cause, TC_E_TIMEOUT);
    assert_outcome(&g, TC_OUTCOME_UNKNOWN);
    assert_ok(&g, stat_one(&g, NULL));
    tc_ctx_free(ctx);
    rig_close(&g);
}

static void a_context_that_is_over_sends_nothing(void **state)
{
    TCI_UNUSED(state);
    rig g = {0};
    tc_ctx *ctx;
    rig_open(&g, play_session_and_end, NULL);
    assert_ok(&g, tc_ctx_new(-1, &ctx, &g.err));
    tc_ctx_cancel(ctx);
    assert_code(&g, TC_E_CANCELLED, write_one(&g, ctx));
    assert_outcome(&g, TC_OUTCOME_NOT_STARTED);
    tc_ctx_reset(ctx, 0);
    assert_code(&g, TC_E_TIMEOUT, write_one(&g, ctx));
    assert_outcome(&g, TC_OUTCOME_NOT_STARTED);
    tc_ctx_free(ctx);
    rig_close(&g);
}

static void play_late_session(peer *p)
{
    bool is_data;
    if (!peer_initialize(p) || !peer_expect(p, "session.open"))
        return;
    uint64_t id = p->id;
    /* The client has given up by now: this is its next request. */
    if (!peer_expect(p, "device.describe"))
        return;
    uint64_t next_id = p->id;
    peer_result_as(p, id, NULL, "{\"descriptor\":{\"session_id\":\"session-late\"}}");
    if (!peer_expect(p, "session.close"))
        return;
    if (strcmp(p->session, "session-late") != 0)
        peer_fail(p, "another session is closed");
    p->id = next_id;
    p->session[0] = 0;
    peer_error(p, -32030, "busy", "pre_dispatch");
    while (peer_next(p, &is_data))
        continue;
}

static void a_session_that_opens_too_late_is_closed_again(void **state)
{
    TCI_UNUSED(state);
    rig g = {0};
    tc_ctx *ctx;
    tc_device_info info;
    assert_ok(&g, rig_connect(&g, play_late_session, NULL));
    assert_ok(&g, tc_ctx_new(GIVE_UP_MS, &ctx, &g.err));
    assert_code(&g, TC_E_TIMEOUT, tc_session_open(g.device, ctx, NULL, &g.session, &g.err));
    assert_null(g.session);
    tc_call call = TC_CALL(NULL, g.r);
    assert_code(&g, TC_E_BUSY, tc_device_describe(g.device, &call, &info, &g.err));
    assert_true(tc_device_is_alive(g.device));
    tc_ctx_free(ctx);
    rig_close(&g);
}

/* ---- lanes, keeping alive ---- */

static void play_one_at_a_time(peer *p)
{
    bool is_data;
    unsigned *answered = p->arg;
    if (!peer_session(p))
        return;
    while (peer_next(p, &is_data)) {
        /* Nothing else may be there before this one is answered. */
        if (p->in.len > 0) {
            peer_fail(p, "two requests at once");
            return;
        }
        (*answered)++;
        peer_result(p, "{" INFO "}");
    }
}

static void stat_many(void *arg)
{
    second *s = arg;
    for (int i = 0; i < 50 && s->rc == 0; i++) {
        tc_call call = TC_CALL(NULL, s->r);
        tc_file_info info;
        s->rc = tc_session_stat(s->g->session, &call, TC_STR("/w/f"), true, &info, &s->err);
        tc_result_clear(s->r);
    }
}

static void no_more_requests_than_the_device_takes(void **state)
{
    TCI_UNUSED(state);
    enum { THREADS = 4 };
    rig g = {.peer = {.max_concurrent = 1}};
    second s[THREADS];
    tci_thread *threads[THREADS];
    unsigned answered = 0;
    memset(s, 0, sizeof s);
    rig_open(&g, play_one_at_a_time, &answered);
    for (int i = 0; i < THREADS; i++) {
        s[i].g = &g;
        assert_ok(&g, tc_result_new(&s[i].r, &g.err));
        assert_ok(&g, tci_thread_new(stat_many, &s[i], 0, &threads[i], &g.err));
    }
    for (int i = 0; i < THREADS; i++) {
        tci_thread_join(threads[i]);
        assert_int_equal(s[i].rc, 0);
        tc_result_free(s[i].r);
    }
    rig_close(&g);
    assert_int_equal(answered, THREADS * 50);
}

typedef struct signalled {
    tci_wake wake;
    atomic_bool is_set;
} signalled;

static void signal_it(signalled *s)
{
    atomic_store(&s->is_set, true);
    tci_wake_all(&s->wake);
}

static void wait_signalled(signalled *s)
{
    while (!atomic_load(&s->is_set))
        tci_wake_wait(&s->wake, 0, 0);
}

static void play_keepalive(peer *p)
{
    bool is_data;
    signalled *s = p->arg;
    if (!peer_session(p))
        return;
    for (int i = 0; i < 3; i++) {
        if (!peer_expect(p, "session.keepalive"))
            break;
        peer_result(p, "{\"alive\":true}");
    }
    signal_it(s);
    while (peer_next(p, &is_data))
        peer_result(p, "{\"alive\":true}");
}

static void an_idle_session_is_kept_alive(void **state)
{
    TCI_UNUSED(state);
    rig g = {.peer = {.idle_timeout_ms = 60}};
    signalled s = {.is_set = false};
    rig_open(&g, play_keepalive, &s);
    wait_signalled(&s);
    assert_true(tc_session_is_alive(g.session));
    rig_close(&g);
}

typedef struct keepers {
    second other;
    signalled has_first, may_answer;
} keepers;

static void play_two_keepalives(peer *p)
{
    bool is_data;
    keepers *k = p->arg;
    if (!peer_session(p) || !peer_expect(p, "session.keepalive"))
        return;
    signal_it(&k->has_first);
    wait_signalled(&k->may_answer);
    if (p->in.len > 0) {
        peer_fail(p, "two keepalives at once");
        return;
    }
    peer_result(p, "{\"alive\":true}");
    if (peer_expect(p, "session.keepalive"))
        peer_result(p, "{\"alive\":true}");
    while (peer_next(p, &is_data))
        continue;
}

static void keep_alive(void *arg)
{
    second *s = arg;
    s->rc = tc_session_keepalive(s->g->session, NULL, &s->err);
}

static void count_waiting(void *arg)
{
    second *s = arg;
    s->nwaiting = s->g->device->conn->nwaiting;
}

/* The second goes when the first is answered. */
static void keepalives_wait_for_each_other(void **state)
{
    TCI_UNUSED(state);
    rig g = {0};
    keepers k = {.other = {.g = &g}};
    second first = {.g = &g};
    tci_thread *threads[2];
    rig_open(&g, play_two_keepalives, &k);
    assert_ok(&g, tci_thread_new(keep_alive, &first, 0, &threads[0], &g.err));
    wait_signalled(&k.has_first);
    assert_ok(&g, tci_thread_new(keep_alive, &k.other, 0, &threads[1], &g.err));
    while (k.other.nwaiting == 0)
        assert_true(tci_runtime_run(g.rt, count_waiting, &k.other));
    signal_it(&k.may_answer);
    for (size_t i = 0; i < TCI_ARRAY_LEN(threads); i++)
        tci_thread_join(threads[i]);
    assert_ok(&g, first.rc);
    assert_int_equal(k.other.rc, 0);
    assert_true(tc_session_is_alive(g.session));
    rig_close(&g);
}

const struct CMUnitTest call_tests[] = {
    cmocka_unit_test(connects_and_knows_the_device),
    cmocka_unit_test(refuses_what_is_not_such_a_daemon),
    cmocka_unit_test(refuses_another_device),
    cmocka_unit_test(case_65_lost_at_every_byte_of_the_answer_is_unknown),
    cmocka_unit_test(case_65_a_request_that_did_not_leave_whole_is_not_started),
    cmocka_unit_test(case_65_a_request_that_waits_its_turn_is_not_started),
    cmocka_unit_test(a_lost_read_is_just_closed),
    cmocka_unit_test(errors_tell_what_became_of_a_change),
    cmocka_unit_test(broken_answers_end_the_session_or_the_connection),
    cmocka_unit_test(a_change_given_up_on_is_unknown_and_its_late_answer_harmless),
    cmocka_unit_test(a_context_that_is_over_sends_nothing),
    cmocka_unit_test(a_session_that_opens_too_late_is_closed_again),
    cmocka_unit_test(no_more_requests_than_the_device_takes),
    cmocka_unit_test(an_idle_session_is_kept_alive),
    cmocka_unit_test(keepalives_wait_for_each_other),
};
const size_t ncall_tests = TCI_ARRAY_LEN(call_tests);
