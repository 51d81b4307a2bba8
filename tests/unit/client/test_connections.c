/* SPDX-License-Identifier: Apache-2.0
 *
 * Daemons that dial in, by sockets that the program accepted: who gets in, who waits, what is shared, what
 * a lost link means, and how it all ends. */
#include "plug.h"
#include "tests.h"

#include "client/connections/connections.h"
#include "plat/clock.h"

enum { WITHIN_MS = 1000 }; /* for what goes on at once, and then stops */

/* One set of connections, and scripted daemons that are attached to it. */
typedef struct host {
    tc_runtime *rt;
    tc_connections *connections;
    tc_result *r;
    tc_err err;
} host;

static void host_open(host *h, const tc_connections_options *options)
{
    memset(h, 0, sizeof *h);
    assert_ok(h, tc_runtime_open(NULL, &h->rt, &h->err));
    assert_ok(h, tc_connections_open(h->rt, options, &h->connections, &h->err));
    assert_ok(h, tc_result_new(&h->r, &h->err));
}

static void host_close(host *h)
{
    tc_connections_close(h->connections);
    tc_result_free(h->r);
    tc_runtime_close(h->rt);
}

static tc_device *wait_for(host *h, const char *device_id)
{
    tc_device *d = NULL;
    assert_ok(h, tc_connections_wait(h->connections, NULL, tci_str(device_id), -1, &d, &h->err));
    return d;
}

static int look_for(host *h, const char *device_id)
{
    tc_device *d = NULL;
    int rc = tc_connections_wait(h->connections, NULL, tci_str(device_id), 0, &d, &h->err);
    tc_device_close(d);
    return rc;
}

static void wait_dead(const tc_device *d)
{
    tci_wake never = {0};
    while (tc_device_is_alive(d))
        tci_wake_wait(&never, 0, tci_clock_mono_ns() + 1000000); /* between two looks */
}

/* ---- scripts ---- */

static void stay(peer *p)
{
    bool is_data;
    while (peer_next(p, &is_data))
        peer_fail(p, p->method); /* nothing more is wanted of it */
}

static void play_initialize(peer *p)
{
    if (peer_initialize(p))
        stay(p);
}

static void play_nothing(peer *p)
{
    stay(p);
}

static void play_silent(peer *p)
{
    if (peer_expect(p, "initialize"))
        stay(p);
}

/* ---- getting in ---- */

static void play_directories(peer *p)
{
    if (!peer_initialize(p) || !peer_expect(p, "directory.list"))
        return;
    peer_result(p, "{\"entries\":[{\"name\":\"src\",\"path\":\"/w/src\"}],\"next_offset\":1,"
                   "\"parent_path\":\"/\",\"path\":\"/w\"}");
    stay(p);
}

static void is_initialized_at_once_and_asked_without_a_session(void **state)
{
    TCI_UNUSED(state);
    host h;
    peer p = {0};
    attached a = {0};
    host_open(&h, NULL);
    peer_open(&p, play_directories, NULL);
    attach_start(&a, h.connections, "dev-1", &p); /* nobody waits */
    tc_device *d = wait_for(&h, "dev-1");
    tc_device *same = wait_for(&h, "dev-1");
    assert_ptr_equal(d, same);
    tc_strs ids = {0};
    assert_ok(&h, tc_connections_list(h.connections, h.r, &ids, &h.err));
    assert_int_equal(ids.count, 1);
    assert_true(tci_str_eq(ids.items[0], TC_STR("dev-1")));
    tc_call call = TC_CALL(NULL, h.r);
    tc_directory_page page;
    assert_ok(&h, tc_device_list_directory(d, &call, TC_STR("/w"), 0, 1, &page, &h.err));
    assert_true(page.count == 1 && page.has_more);
    assert_true(tci_str_eq(page.entries[0].path, TC_STR("/w/src")));
    tc_device_close(same);
    tc_device_close(d);
    assert_false(attach_is_over(&a)); /* nobody holds it, and it stays */
    assert_code(&h, 0, look_for(&h, "dev-1"));
    host_close(&h);
    assert_code(&h, TC_E_CLOSED, attach_end(&a));
    assert_int_equal(a.plug.close_code, 1001);
    peer_close(&p);
}

typedef struct waiting {
    host *h;
    tc_ctx *ctx;
    int64_t timeout_ms;
    tc_device *device;
    int code;
    tc_err err;
    tci_thread *thread;
} waiting;

static void wait_main(void *arg)
{
    waiting *w = arg;
    w->code = tc_connections_wait(w->h->connections, w->ctx, TC_STR("dev-1"), w->timeout_ms,
                                  &w->device, &w->err);
}

/* For a device that does not come. */
static void wait_other_main(void *arg)
{
    waiting *w = arg;
    w->code = tc_connections_wait(w->h->connections, w->ctx, TC_STR("dev-none"), w->timeout_ms,
                                  &w->device, &w->err);
}

static void wait_other_start(waiting *w)
{
    tc_err err;
    assert_int_equal(tci_thread_new(wait_other_main, w, 0, &w->thread, &err), 0);
}

static void wait_start(waiting *w)
{
    tc_err err;
    assert_int_equal(tci_thread_new(wait_main, w, 0, &w->thread, &err), 0);
}

static int wait_end(waiting *w)
{
    tci_thread_join(w->thread);
    return w->code;
}

static void who_waits_gets_the_device_when_it_comes(void **state)
{
    TCI_UNUSED(state);
    host h;
    peer p = {0};
    attached a = {0};
    waiting w[3] = {{0}};
    host_open(&h, NULL);
    for (size_t i = 0; i < TCI_ARRAY_LEN(w); i++) {
        w[i].h = &h;
        w[i].timeout_ms = -1;
        wait_start(&w[i]);
    }
    peer_open(&p, play_initialize, NULL);
    attach_start(&a, h.connections, "dev-1", &p);
    for (size_t i = 0; i < TCI_ARRAY_LEN(w); i++) {
        assert_code(&h, 0, wait_end(&w[i]));
        assert_ptr_equal(w[i].device, w[0].device);
    }
    for (size_t i = 0; i < TCI_ARRAY_LEN(w); i++)
        tc_device_close(w[i].device);
    host_close(&h);
    assert_code(&h, TC_E_CLOSED, attach_end(&a));
    peer_close(&p);
}

static void waiting_ends_by_time_context_and_close(void **state)
{
    TCI_UNUSED(state);
    host h;
    host_open(&h, NULL);
    assert_code(&h, TC_E_TIMEOUT, look_for(&h, "dev-1"));
    assert_non_null(strstr(h.err.msg, "'dev-1' is not connected"));
    assert_code(&h, TC_E_INVALID, look_for(&h, ""));

    waiting timed = {.h = &h, .timeout_ms = 20};
    wait_start(&timed);
    assert_int_equal(wait_end(&timed), TC_E_TIMEOUT);

    tc_ctx *ctx = NULL;
    assert_ok(&h, tc_ctx_new(20, &ctx, &h.err));
    waiting over = {.h = &h, .ctx = ctx, .timeout_ms = -1};
    wait_start(&over);
    assert_int_equal(wait_end(&over), TC_E_TIMEOUT);
    tc_ctx_reset(ctx, -1);
    waiting cancelled = {.h = &h, .ctx = ctx, .timeout_ms = -1};
    wait_start(&cancelled);
    tc_ctx_cancel(ctx);
    assert_int_equal(wait_end(&cancelled), TC_E_CANCELLED);

    tc_ctx_reset(ctx, -1);
    tc_ctx_free(ctx);
    host_close(&h);
}

static void close_main(void *arg)
{
    tc_connections_close(arg);
}

static void who_waits_when_it_is_closed_is_told(void **state)
{
    TCI_UNUSED(state);
    host h;
    waiting w[2] = {{.h = &h, .timeout_ms = -1}, {.h = &h, .timeout_ms = 600000}};
    tci_thread *closing;
    host_open(&h, NULL);
    for (size_t i = 0; i < TCI_ARRAY_LEN(w); i++)
        wait_start(&w[i]);
    tc_connections *c = tci_connections_retain(h.connections); /* as an adapter does */
    assert_int_equal(tci_thread_new(close_main, h.connections, 0, &closing, &h.err), 0);
    for (size_t i = 0; i < TCI_ARRAY_LEN(w); i++)
        assert_int_equal(wait_end(&w[i]), TC_E_CLOSED);
    tci_thread_join(closing);
    assert_code(&h, TC_E_CLOSED, look_for(&h, "dev-1"));
    tci_connections_release(c);
    tc_result_free(h.r);
    tc_runtime_close(h.rt);
}

/* ---- being turned away ---- */

static void another_subprotocol_is_not_spoken(void **state)
{
    TCI_UNUSED(state);
    host h;
    peer p = {0};
    attached a = {.plug.subprotocol = "chat"};
    host_open(&h, NULL);
    peer_open(&p, play_nothing, NULL);
    attach_start(&a, h.connections, "dev-1", &p);
    assert_code(&h, TC_E_INCOMPATIBLE, attach_end(&a));
    assert_non_null(strstr(a.err.msg, "eip.v1"));
    assert_int_equal(atomic_load(&a.plug.nsending), 0);
    peer_close(&p);
    host_close(&h);
}

static void another_device_than_expected_is_turned_away(void **state)
{
    TCI_UNUSED(state);
    host h;
    peer p = {0};
    attached a = {0};
    host_open(&h, NULL);
    peer_open(&p, play_initialize, NULL); /* it says dev-1 */
    attach_start(&a, h.connections, "dev-2", &p);
    assert_code(&h, TC_E_INCOMPATIBLE, attach_end(&a));
    assert_int_equal(a.plug.close_code, 1008);
    assert_code(&h, TC_E_TIMEOUT, look_for(&h, "dev-1"));
    assert_code(&h, TC_E_TIMEOUT, look_for(&h, "dev-2"));
    peer_close(&p);
    host_close(&h);
}

static void a_second_connection_of_a_device_is_refused_and_the_first_stays(void **state)
{
    TCI_UNUSED(state);
    host h;
    peer first = {0}, second = {0};
    attached a = {0}, b = {0};
    host_open(&h, NULL);
    peer_open(&first, play_initialize, NULL);
    attach_start(&a, h.connections, "dev-1", &first);
    tc_device *d = wait_for(&h, "dev-1");
    peer_open(&second, play_nothing, NULL);
    attach_start(&b, h.connections, "dev-1", &second);
    assert_code(&h, TC_E_CONFLICT, attach_end(&b));
    assert_int_equal(b.plug.close_code, 1008);
    peer_close(&second);
    assert_true(tc_device_is_alive(d));
    assert_false(attach_is_over(&a));
    tc_device_close(d);
    host_close(&h);
    (void)attach_end(&a);
    peer_close(&first);
}

static void no_more_devices_than_there_is_room_for(void **state)
{
    TCI_UNUSED(state);
    host h;
    peer p[3] = {{0}};
    attached a[3] = {{.code = 0}};
    static const char *const ids[] = {"dev-1", "dev-a", "dev-b"};
    tc_connections_options o = {.size = sizeof o, .max_devices = 2};
    host_open(&h, &o);
    peer_open(&p[0], play_initialize, NULL);
    attach_start(&a[0], h.connections, ids[0], &p[0]);
    tc_device_close(wait_for(&h, "dev-1"));
    /* One that is being initialized counts, too. */
    peer_open(&p[1], play_silent, NULL);
    attach_start(&a[1], h.connections, ids[1], &p[1]);
    while (atomic_load(&a[1].plug.nsending) == 0)
        tci_wake_wait(&a[1].plug.changed, 0, 0);
    peer_open(&p[2], play_nothing, NULL);
    attach_start(&a[2], h.connections, ids[2], &p[2]);
    assert_code(&h, TC_E_BUSY, attach_end(&a[2]));
    assert_int_equal(a[2].plug.close_code, 1013);
    peer_close(&p[2]);
    /* It is not had before it is initialized. */
    assert_code(&h, TC_E_TIMEOUT, look_for(&h, "dev-a"));
    host_close(&h);
    for (size_t i = 0; i < 2; i++) {
        assert_code(&h, TC_E_CLOSED, attach_end(&a[i]));
        peer_close(&p[i]);
    }
}

static void a_daemon_that_does_not_initialize_in_time_is_left(void **state)
{
    TCI_UNUSED(state);
    host h;
    peer p = {0};
    attached a = {0};
    tc_device_options device = {.size = sizeof device, .initialize_timeout_ms = WITHIN_MS};
    tc_connections_options o = {.size = sizeof o, .device = &device};
    host_open(&h, &o);
    peer_open(&p, play_silent, NULL);
    attach_start(&a, h.connections, "dev-1", &p);
    assert_code(&h, TC_E_TIMEOUT, attach_end(&a));
    peer_close(&p);
    host_close(&h);
}

static void play_away(peer *p)
{
    peer_expect(p, "initialize");
}

static void a_link_that_ends_before_it_is_usable_says_so(void **state)
{
    TCI_UNUSED(state);
    host h;
    peer p = {0};
    attached a = {0};
    host_open(&h, NULL);
    peer_open(&p, play_away, NULL);
    attach_start(&a, h.connections, "dev-1", &p);
    assert_code(&h, TC_E_CONNECT, attach_end(&a));
    peer_close(&p);
    host_close(&h);
}

static void what_is_no_socket_or_device_id_is_invalid(void **state)
{
    TCI_UNUSED(state);
    host h;
    peer p = {0};
    attached a = {0};
    host_open(&h, NULL);
    tc_socket none = {.size = sizeof none};
    assert_code(&h, TC_E_INVALID,
                tc_connections_attach(h.connections, NULL, TC_STR("dev-1"), &none, &h.err));
    peer_open(&p, play_nothing, NULL);
    attach_start(&a, h.connections, "bad\nid", &p);
    assert_code(&h, TC_E_INVALID, attach_end(&a));
    peer_close(&p);
    host_close(&h);
}

/* ---- sharing ---- */

#define READY(session)                                                             \
    "{\"device_id\":\"dev-1\",\"generation\":18446744073709551615,\"ready\":true," \
    "\"session_id\":\"" session "\"}"

static void play_two_sessions(peer *p)
{
    bool is_data;
    if (!peer_session(p))
        return;
    if (!peer_expect(p, "session.close"))
        return;
    peer_result(p, "{\"closed\":true}");
    if (!peer_expect(p, "session.open"))
        return;
    peer_give_session(p);
    if (!peer_expect(p, "environment.readiness"))
        return;
    peer_result(p, READY("session-t-1"));
    /* One that is never answered, and taken back. */
    if (!peer_expect(p, "file.stat"))
        return;
    while (peer_next(p, &is_data))
        if (strcmp(p->method, "operation.cancel") == 0)
            peer_result(p, "{\"status\":\"cancel_requested\"}");
        else if (strcmp(p->method, "session.close") == 0)
            peer_result(p, "{\"closed\":true}");
}

static void ending_a_session_or_a_call_leaves_the_link(void **state)
{
    TCI_UNUSED(state);
    host h;
    peer p = {0};
    attached a = {0};
    host_open(&h, NULL);
    peer_open(&p, play_two_sessions, NULL);
    attach_start(&a, h.connections, "dev-1", &p);
    for (int i = 0; i < 2; i++) {
        tc_device *d = wait_for(&h, "dev-1");
        tc_session *s = NULL;
        assert_ok(&h, tc_session_open(d, NULL, NULL, &s, &h.err));
        if (i == 1) {
            tc_ctx *ctx = NULL;
            tc_file_info info;
            assert_ok(&h, tc_ctx_new(WITHIN_MS, &ctx, &h.err));
            tc_call call = TC_CALL(ctx, h.r);
            assert_code(&h, TC_E_TIMEOUT,
                        tc_session_stat(s, &call, TC_STR("/w/f"), true, &info, &h.err));
            tc_ctx_free(ctx);
        }
        assert_ok(&h, tc_session_close(s, NULL, &h.err));
        assert_true(tc_device_is_alive(d));
        tc_device_close(d);
    }
    assert_code(&h, 0, look_for(&h, "dev-1"));
    assert_false(attach_is_over(&a));
    host_close(&h);
    assert_code(&h, TC_E_CLOSED, attach_end(&a));
    peer_close(&p);
}

/* ---- a lost link ---- */

static void play_cut_on_write(peer *p)
{
    if (peer_session(p))
        peer_expect(p, "file.write_text"); /* and no answer */
}

static int write_one(tc_session *s, tc_result *r, tc_err *err)
{
    tc_call call = TC_CALL(NULL, r);
    return tc_session_write_text(s, &call, TC_STR("/w/f"), TC_STR("x"), NULL, NULL, err);
}

static void play_attach(peer *p)
{
    if (!peer_initialize(p) || !peer_expect(p, "session.attach"))
        return;
    if (strcmp(p->session, "session-t-1") != 0)
        peer_fail(p, "another session");
    peer_give_session(p);
    if (!peer_expect(p, "environment.readiness"))
        return;
    peer_result(p, READY("session-t-1"));
    stay(p); /* nothing is sent again */
}

static void a_lost_link_is_told_and_the_session_taken_up_on_the_next(void **state)
{
    TCI_UNUSED(state);
    host h;
    peer p = {0}, next = {0};
    attached a = {0}, b = {0};
    tc_session *s = NULL;
    host_open(&h, NULL);
    peer_open(&p, play_cut_on_write, NULL);
    attach_start(&a, h.connections, "dev-1", &p);
    tc_device *d = wait_for(&h, "dev-1");
    assert_ok(&h, tc_session_open(d, NULL, NULL, &s, &h.err));
    assert_code(&h, TC_E_UNKNOWN_OUTCOME, write_one(s, h.r, &h.err));
    assert_outcome(&h, TC_OUTCOME_UNKNOWN);
    assert_code(&h, 0, attach_end(&a)); /* usable, and then gone */
    peer_close(&p);
    assert_false(tc_device_is_alive(d));
    assert_code(&h, TC_E_TIMEOUT, look_for(&h, "dev-1"));
    /* What comes after that has not begun. */
    assert_code(&h, TC_E_CLOSED, write_one(s, h.r, &h.err));
    assert_outcome(&h, TC_OUTCOME_NOT_STARTED);

    peer_open(&next, play_attach, NULL);
    attach_start(&b, h.connections, "dev-1", &next);
    tc_device *fresh = wait_for(&h, "dev-1");
    tc_session *again = NULL;
    assert_ptr_not_equal(fresh, d);
    assert_code(&h, TC_E_INCOMPATIBLE,
                tc_session_attach(fresh, NULL, TC_STR("session-t-1"), 5, &again, &h.err));
    assert_ok(&h, tc_session_attach(fresh, NULL, TC_STR("session-t-1"),
                                    tc_session_get_info(s)->generation, &again, &h.err));
    assert_true(tc_session_is_alive(again));
    tc_session_detach(s);
    tc_session_detach(again);
    tc_device_close(d);
    tc_device_close(fresh);
    host_close(&h);
    (void)attach_end(&b);
    peer_close(&next);
}

typedef struct writing {
    tc_session *session;
    tc_result *r;
    int code;
    tc_err err;
    tci_thread *thread;
} writing;

static void write_main(void *arg)
{
    writing *w = arg;
    w->code = write_one(w->session, w->r, &w->err);
}

static void play_session(peer *p)
{
    bool is_data;
    if (peer_session(p))
        while (peer_next(p, &is_data))
            continue;
}

/* The first is with the socket, which may have passed it on; the others have not left. */
static void of_calls_under_way_only_what_the_socket_took_is_unknown(void **state)
{
    TCI_UNUSED(state);
    host h;
    peer p = {0};
    attached a = {0};
    tc_session *s = NULL;
    writing w[4] = {{0}};
    host_open(&h, NULL);
    peer_open(&p, play_session, NULL);
    attach_start(&a, h.connections, "dev-1", &p);
    tc_device *d = wait_for(&h, "dev-1");
    assert_ok(&h, tc_session_open(d, NULL, NULL, &s, &h.err));
    atomic_store(&a.plug.is_send_held, true);
    int before = atomic_load(&a.plug.nsending);
    for (size_t i = 0; i < TCI_ARRAY_LEN(w); i++) {
        w[i].session = s;
        assert_ok(&h, tc_result_new(&w[i].r, &h.err));
        assert_int_equal(tci_thread_new(write_main, &w[i], 0, &w[i].thread, &h.err), 0);
    }
    for (;;) {
        unsigned seen = tci_wake_count(&a.plug.changed);
        if (atomic_load(&a.plug.nsending) > before)
            break;
        tci_wake_wait(&a.plug.changed, seen, 0);
    }
    tc_connections_close(h.connections);
    unsigned nunknown = 0;
    for (size_t i = 0; i < TCI_ARRAY_LEN(w); i++) {
        tci_thread_join(w[i].thread);
        tc_outcome outcome = tc_result_evidence(w[i].r)->outcome;
        assert_true(outcome == TC_OUTCOME_UNKNOWN || outcome == TC_OUTCOME_NOT_STARTED);
        assert_int_equal(w[i].code,
                         outcome == TC_OUTCOME_UNKNOWN ? TC_E_UNKNOWN_OUTCOME : TC_E_CLOSED);
        nunknown += outcome == TC_OUTCOME_UNKNOWN;
        tc_result_free(w[i].r);
    }
    assert_int_equal(nunknown, 1);
    assert_code(&h, TC_E_CLOSED, attach_end(&a));
    tc_session_detach(s);
    tc_device_close(d);
    peer_close(&p);
    tc_result_free(h.r);
    tc_runtime_close(h.rt);
}

/* ---- what the daemon may not do ---- */

static void play_data_garbage(peer *p)
{
    static const char garbage[] = "Content-Length: 3\r\n"
                                  "Content-Type: application/vnd.a13n.eip-data\r\n\r\nabc";
    bool is_data;
    if (!peer_initialize(p))
        return;
    peer_raw(p, garbage, sizeof garbage - 1);
    while (peer_next(p, &is_data))
        continue;
}

static void play_too_long(peer *p)
{
    bool is_data;
    char *text = calloc(1, 9000);
    if (peer_initialize(p) && text != NULL) {
        memset(text, ' ', 8999);
        peer_result_as(p, 7, NULL, text);
    }
    free(text);
    while (peer_next(p, &is_data))
        continue;
}

static void play_not_text(peer *p)
{
    static const char bytes[] = "Content-Length: 2\r\n\r\n\xff\xfe";
    bool is_data;
    if (peer_initialize(p))
        peer_raw(p, bytes, sizeof bytes - 1);
    while (peer_next(p, &is_data))
        continue;
}

static void broken_messages_end_the_link(void **state)
{
    TCI_UNUSED(state);
    static void (*const plays[])(peer * p) = {play_data_garbage, play_too_long, play_not_text};
    for (size_t i = 0; i < TCI_ARRAY_LEN(plays); i++) {
        host h;
        peer p = {0};
        attached a = {0};
        tc_device_options device = {.size = sizeof device, .max_response_bytes = 8000};
        tc_connections_options o = {.size = sizeof o, .device = &device};
        host_open(&h, &o);
        peer_open(&p, plays[i], NULL);
        attach_start(&a, h.connections, "dev-1", &p);
        assert_code(&h, TC_E_PROTOCOL, attach_end(&a));
        assert_int_equal(a.plug.close_code, 1002);
        peer_close(&p);
        host_close(&h);
    }
}

/* ---- the end ---- */

static void its_context_ends_an_attach(void **state)
{
    TCI_UNUSED(state);
    for (int is_held = 0; is_held < 2; is_held++) {
        host h;
        peer p = {0};
        attached a = {0};
        writing w = {0};
        host_open(&h, NULL);
        assert_ok(&h, tc_ctx_new(-1, &a.ctx, &h.err));
        peer_open(&p, play_session, NULL);
        attach_start(&a, h.connections, "dev-1", &p);
        tc_device *d = wait_for(&h, "dev-1");
        assert_ok(&h, tc_session_open(d, NULL, NULL, &w.session, &h.err));
        assert_ok(&h, tc_result_new(&w.r, &h.err));
        if (is_held) { /* also while a send does not return */
            int before = atomic_load(&a.plug.nsending);
            atomic_store(&a.plug.is_send_held, true);
            assert_int_equal(tci_thread_new(write_main, &w, 0, &w.thread, &h.err), 0);
            for (;;) {
                unsigned seen = tci_wake_count(&a.plug.changed);
                if (atomic_load(&a.plug.nsending) > before)
                    break;
                tci_wake_wait(&a.plug.changed, seen, 0);
            }
        }
        tc_ctx_cancel(a.ctx);
        assert_code(&h, TC_E_CANCELLED, attach_end(&a));
        wait_dead(d);
        if (is_held) {
            tci_thread_join(w.thread);
            assert_int_equal(w.code, TC_E_UNKNOWN_OUTCOME);
        }
        tc_session_detach(w.session);
        tc_device_close(d);
        tc_result_free(w.r);
        tc_ctx_free(a.ctx);
        peer_close(&p);
        host_close(&h);
    }
}

static void the_end_of_the_runtime_ends_an_attach(void **state)
{
    TCI_UNUSED(state);
    host h;
    peer p = {0};
    attached a = {0};
    host_open(&h, NULL);
    peer_open(&p, play_initialize, NULL);
    attach_start(&a, h.connections, "dev-1", &p);
    tc_device_close(wait_for(&h, "dev-1"));
    waiting w = {.h = &h, .timeout_ms = -1};
    tc_device *gone = NULL;
    wait_other_start(&w);
    tc_runtime_close(h.rt);
    assert_code(&h, TC_E_CLOSED, wait_end(&w)); /* so does waiting */
    assert_code(&h, TC_E_CLOSED,
                tc_connections_wait(h.connections, NULL, TC_STR("dev-1"), -1, &gone, &h.err));
    assert_code(&h, TC_E_CLOSED, attach_end(&a));
    peer_close(&p);
    attached late = {0};
    peer_open(&p, play_nothing, NULL);
    attach_start(&late, h.connections, "dev-1", &p);
    assert_code(&h, TC_E_CLOSED, attach_end(&late));
    peer_close(&p);
    tc_connections_close(h.connections);
    tc_result_free(h.r);
}

static void play_session_until_away(peer *p)
{
    bool is_data;
    if (!peer_session(p))
        return;
    while (peer_next(p, &is_data))
        if (strcmp(p->method, "session.close") == 0)
            peer_fail(p, "a session was closed that nobody closed");
}

/* The program may be back within the grace time, and take them up. */
static void closing_the_connections_leaves_sessions_to_their_devices(void **state)
{
    TCI_UNUSED(state);
    host h;
    peer p = {0};
    attached a = {0};
    tc_session *s = NULL;
    host_open(&h, NULL);
    peer_open(&p, play_session_until_away, NULL);
    attach_start(&a, h.connections, "dev-1", &p);
    tc_device *d = wait_for(&h, "dev-1");
    assert_ok(&h, tc_session_open(d, NULL, NULL, &s, &h.err));
    tc_connections_close(h.connections);
    assert_code(&h, TC_E_CLOSED, attach_end(&a));
    assert_int_equal(a.plug.close_code, 1001);
    assert_false(tc_session_is_alive(s));
    assert_code(&h, TC_E_CLOSED, tc_session_close(s, NULL, &h.err)); /* too late for that */
    tc_device_close(d);
    peer_close(&p);
    tc_result_free(h.r);
    tc_runtime_close(h.rt);
}

/* A send that does not return ends the link; one of a long message has the time that it needs. */
static void a_send_that_hangs_ends_the_link(void **state)
{
    static const tci_link_times hasty = {.send_timeout_ms = WITHIN_MS};
    TCI_UNUSED(state);
    host h;
    peer p = {0};
    attached a = {0};
    writing w = {0};
    host_open(&h, NULL);
    tci_connections_set_times(h.connections, &hasty);
    peer_open(&p, play_session, NULL);
    attach_start(&a, h.connections, "dev-1", &p);
    tc_device *d = wait_for(&h, "dev-1");
    assert_ok(&h, tc_session_open(d, NULL, NULL, &w.session, &h.err));
    assert_ok(&h, tc_result_new(&w.r, &h.err));
    atomic_store(&a.plug.is_send_held, true);
    write_main(&w);
    assert_int_equal(w.code, TC_E_UNKNOWN_OUTCOME);
    assert_code(&h, TC_E_TIMEOUT, attach_end(&a));
    tc_session_detach(w.session);
    tc_device_close(d);
    tc_result_free(w.r);
    peer_close(&p);
    host_close(&h);
}

/* ---- many at once ---- */

enum { NCOMERS = 4, NROUNDS = 12 };

static void play_brief(peer *p)
{
    if (peer_session(p) && peer_expect(p, "session.close"))
        peer_result(p, "{\"closed\":true}");
    /* and away */
}

typedef struct user {
    host *h;
    atomic_int *nserved;
    tci_thread *thread;
    tc_result *r;
} user;

/* Uses whatever is connected, again and again; any of it may fail, as links come and go. */
static void use_main(void *arg)
{
    user *u = arg;
    while (atomic_load(u->nserved) < NROUNDS) {
        tc_device *d = NULL;
        tc_session *s = NULL;
        tc_err err;
        if (tc_connections_wait(u->h->connections, NULL, TC_STR("dev-1"), 5, &d, &err) < 0)
            continue;
        if (tc_session_open(d, NULL, NULL, &s, &err) == 0)
            (void)tc_session_close(s, NULL, &err);
        tc_device_close(d);
    }
}

static void links_come_and_go_under_their_users(void **state)
{
    TCI_UNUSED(state);
    host h;
    user users[NCOMERS];
    atomic_int nserved = 0;
    host_open(&h, NULL);
    for (size_t i = 0; i < NCOMERS; i++) {
        users[i] = (user){.h = &h, .nserved = &nserved};
        assert_int_equal(tci_thread_new(use_main, &users[i], 0, &users[i].thread, &h.err), 0);
    }
    for (int i = 0; i < NROUNDS; i++) {
        peer p = {.max_concurrent = 1};
        attached a = {0};
        peer_open(&p, play_brief, NULL);
        attach_start(&a, h.connections, "dev-1", &p);
        (void)attach_end(&a); /* whichever way it ended */
        tci_thread_join(p.thread);
        peer_forget(&p);
        atomic_fetch_add(&nserved, 1);
    }
    for (size_t i = 0; i < NCOMERS; i++)
        tci_thread_join(users[i].thread);
    host_close(&h);
}

const struct CMUnitTest connections_tests[] = {
    cmocka_unit_test(is_initialized_at_once_and_asked_without_a_session),
    cmocka_unit_test(who_waits_gets_the_device_when_it_comes),
    cmocka_unit_test(waiting_ends_by_time_context_and_close),
    cmocka_unit_test(who_waits_when_it_is_closed_is_told),
    cmocka_unit_test(another_subprotocol_is_not_spoken),
    cmocka_unit_test(another_device_than_expected_is_turned_away),
    cmocka_unit_test(a_second_connection_of_a_device_is_refused_and_the_first_stays),
    cmocka_unit_test(no_more_devices_than_there_is_room_for),
    cmocka_unit_test(a_daemon_that_does_not_initialize_in_time_is_left),
    cmocka_unit_test(a_link_that_ends_before_it_is_usable_says_so),
    cmocka_unit_test(what_is_no_socket_or_device_id_is_invalid),
    cmocka_unit_test(ending_a_session_or_a_call_leaves_the_link),
    cmocka_unit_test(a_lost_link_is_told_and_the_session_taken_up_on_the_next),
    cmocka_unit_test(of_calls_under_way_only_what_the_socket_took_is_unknown),
    cmocka_unit_test(broken_messages_end_the_link),
    cmocka_unit_test(its_context_ends_an_attach),
    cmocka_unit_test(the_end_of_the_runtime_ends_an_attach),
    cmocka_unit_test(closing_the_connections_leaves_sessions_to_their_devices),
    cmocka_unit_test(a_send_that_hangs_ends_the_link),
    cmocka_unit_test(links_come_and_go_under_their_users),
};
const size_t nconnections_tests = TCI_ARRAY_LEN(connections_tests);
