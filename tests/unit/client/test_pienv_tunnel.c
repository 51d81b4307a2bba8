/* SPDX-License-Identifier: Apache-2.0
 *
 * The EIP device behind a pi-env connection: a scripted EIP daemon at the far end of the tunnel, and,
 * where it is built, the real one. */
#include "pi_peer.h"

#include "peer.h"
#include <poll.h>

/* ---- the far end: tunnel frames to a socket and back, with credit ---- */

enum { PUMP_BYTES = 100 * 1000 };

typedef struct far_end {
    peer eip;
    void (*play)(peer *p);
    uint64_t may_send, owed, nin, nout;
    atomic_uint nopens;
    bool close_at_once, cut_at_open, over_credit;
} far_end;

static void send_credit(pi_peer *p, far_end *f, size_t n)
{
    char json[64];
    f->owed += n;
    if (f->owed < TCI_PIENV_TUNNEL_WINDOW / 2)
        return;
    snprintf(json, sizeof json, "{\"credit\":%llu}", (unsigned long long)f->owed);
    f->owed = 0;
    pi_frame(p, TCI_PIENV_TUNNEL, 0, json, NULL, 0);
}

static bool write_all(int fd, tc_str bytes)
{
    while (bytes.len > 0) {
        tci_fd_part part = {(void *)(uintptr_t)bytes.ptr, bytes.len};
        size_t n = 0;
        tc_err err;
        if (tci_socket_send(fd, &part, 1, &n, &err) < 0)
            return false;
        if (n == 0) {
            struct pollfd pf = {.fd = fd, .events = POLLOUT};
            (void)poll(&pf, 1, 1000);
        }
        bytes = tci_str_sub(bytes, n, SIZE_MAX);
    }
    return true;
}

/* From the client. false: over. */
static bool take_frame(pi_peer *p, far_end *f, int fd)
{
    if (!pi_next(p))
        return false;
    if (p->head.type != TCI_PIENV_TUNNEL) {
        pi_result(p, "{\"name\":\"a\",\"kind\":\"file\",\"size\":3,\"mtimeSec\":1,\"mtimeNsec\":1,"
                     "\"dev\":1,\"ino\":1}");
        return true;
    }
    uint64_t credit = pi_number(p, "credit");
    if (credit != UINT64_MAX)
        f->may_send += credit;
    f->nin += p->payload.len;
    if (f->nin - f->owed > UINT64_MAX / 2)
        return pi_fail(p, "more credit than bytes");
    if (!write_all(fd, p->payload))
        return false;
    send_credit(p, f, p->payload.len);
    return tci_json_get(&p->json, TC_STR("close")) == NULL;
}

/* To the client. */
static bool give_bytes(pi_peer *p, far_end *f, int fd)
{
    static char buf[PUMP_BYTES];
    size_t n = 0;
    tc_err err;
    if (tci_fd_read(fd, buf, (size_t)tci_min_u64(sizeof buf, f->may_send), &n, &err) < 0)
        return false;
    f->may_send -= n;
    f->nout += n;
    if (n > 0)
        pi_frame(p, TCI_PIENV_TUNNEL, 0, "{}", buf, n);
    return true;
}

static void pump(pi_peer *p, far_end *f, int fd)
{
    for (bool is_on = true; is_on && p->fd >= 0;) {
        struct pollfd pf[2] = {
            {.fd = p->fd, .events = POLLIN},
            {.fd = fd, .events = (short)(f->may_send > 0 ? POLLIN : 0)},
        };
        if (poll(pf, 2, -1) < 0)
            continue;
        if (pf[0].revents != 0)
            is_on = take_frame(p, f, fd);
        if (is_on && pf[1].revents != 0)
            is_on = give_bytes(p, f, fd);
    }
}

static void play_tunnel(pi_peer *p)
{
    far_end *f = p->rig->arg;
    if (!pi_greet(p, true))
        return;
    while (pi_next(p)) {
        if (p->head.type != TCI_PIENV_TUNNEL || tci_json_get(&p->json, TC_STR("open")) == NULL) {
            (void)pi_fail(p, "a frame of type %u instead of open", p->head.type);
            return;
        }
        atomic_fetch_add(&f->nopens, 1);
        if (f->cut_at_open && p->launch == 1)
            return;
        if (f->over_credit) {
            char *b = calloc(1, TCI_PIENV_TUNNEL_WINDOW + 1);
            pi_frame(p, TCI_PIENV_TUNNEL, 0, "{}", b, TCI_PIENV_TUNNEL_WINDOW + 1);
            free(b);
            pi_drain(p);
            return;
        }
        if (f->close_at_once) {
            f->close_at_once = false;
            pi_frame(p, TCI_PIENV_TUNNEL, 0, "{\"close\":true}", NULL, 0);
            while (pi_next(p) && tci_json_get(&p->json, TC_STR("close")) == NULL)
                ;
            continue;
        }
        f->may_send = TCI_PIENV_TUNNEL_WINDOW;
        f->owed = 0;
        peer_open(&f->eip, f->play, f);
        pump(p, f, f->eip.client_fd);
        tci_fd_close(&f->eip.client_fd);
        tci_thread_join(f->eip.thread);
        if (f->eip.why[0] != 0)
            (void)pi_fail(p, "the far end: %s", f->eip.why);
        tci_buf_done(&f->eip.in);
        tci_buf_done(&f->eip.held);
        tci_arena_done(&f->eip.arena);
        pi_frame(p, TCI_PIENV_TUNNEL, 0, "{\"close\":true}", NULL, 0);
    }
}

/* ---- what is said through it ---- */

static void play_describe(peer *p)
{
    if (!peer_initialize(p))
        return;
    bool is_data;
    while (peer_next(p, &is_data))
        peer_error(p, -32030, "busy", "pre_dispatch");
}

static void test_device_through_the_tunnel(void **state)
{
    TCI_UNUSED(state);
    far_end f = {.play = play_describe};
    pi_rig g = {.arg = &f};
    tc_device *d = NULL, *same = NULL;
    tc_device_info info;
    pi_rig_open(&g, play_tunnel, NULL);
    assert_ok(&g, tci_pi_device(g.pi, NULL, NULL, &d, &g.err));
    assert_ok(&g, tci_pi_device(g.pi, NULL, NULL, &same, &g.err));
    assert_ptr_equal(d, same);
    tc_device_close(same);
    tc_call call = TC_CALL(NULL, g.r);
    assert_code(&g, TC_E_BUSY, tc_device_describe(d, &call, &info, &g.err));
    assert_true(tc_device_is_alive(d));
    assert_int_equal(atomic_load(&f.nopens), 1);
    tc_device_close(d);
    pi_rig_close(&g);
}

static void test_foreign_calls_beside_it(void **state)
{
    TCI_UNUSED(state);
    far_end f = {.play = play_describe};
    pi_rig g = {.arg = &f};
    tc_device *d = NULL;
    pi_rig_open(&g, play_tunnel, NULL);
    assert_ok(&g, tci_pi_device(g.pi, NULL, NULL, &d, &g.err));
    for (int i = 0; i < 20; i++)
        assert_ok(&g, pi_lstat(&g, NULL, "/x", NULL));
    tc_device_close(d);
    pi_rig_close(&g);
}

static void test_tunnel_that_is_refused_once(void **state)
{
    TCI_UNUSED(state);
    far_end f = {.play = play_describe, .close_at_once = true};
    pi_rig g = {.arg = &f};
    tc_device *d = NULL;
    pi_rig_open(&g, play_tunnel, NULL);
    assert_code(&g, TC_E_CLOSED, tci_pi_device(g.pi, NULL, NULL, &d, &g.err));
    assert_ok(&g, tci_pi_device(g.pi, NULL, NULL, &d, &g.err));
    assert_int_equal(atomic_load(&f.nopens), 2);
    assert_int_equal(tci_pi_session(g.pi), 1);
    tc_device_close(d);
    pi_rig_close(&g);
}

static void test_tunnel_dies_with_its_session(void **state)
{
    TCI_UNUSED(state);
    far_end f = {.play = play_describe, .cut_at_open = true};
    pi_rig g = {.arg = &f};
    tc_device *d = NULL, *next = NULL;
    pi_rig_open(&g, play_tunnel, NULL);
    assert_code(&g, TC_E_CLOSED, tci_pi_device(g.pi, NULL, NULL, &d, &g.err));
    assert_ok(&g, tci_pi_device(g.pi, NULL, NULL, &d, &g.err));
    assert_int_equal(g.nlaunches, 2);
    tci_pi_close(g.pi);
    assert_false(tc_device_is_alive(d));
    assert_code(&g, TC_E_CLOSED, tci_pi_device(g.pi, NULL, NULL, &next, &g.err));
    tc_device_close(d);
    pi_rig_close(&g);
}

static void test_more_than_its_credit(void **state)
{
    TCI_UNUSED(state);
    far_end f = {.over_credit = true};
    pi_rig g = {.arg = &f};
    tc_device *d = NULL;
    pi_rig_open(&g, play_tunnel, NULL);
    assert_code(&g, TC_E_CLOSED, tci_pi_device(g.pi, NULL, NULL, &d, &g.err));
    pi_rig_close(&g);
}

/* Answers of 900 KB, more of them than the window, and requests of the same size. */
enum { NBIG = 12, BIG_TEXT = 900 * 1000 };

static void play_big(peer *p)
{
    if (!peer_initialize(p))
        return;
    bool is_data;
    while (peer_next(p, &is_data)) {
        tc_str path = peer_text(p, "path");
        if (path.len != BIG_TEXT) {
            (void)peer_fail(p, "the request was not whole");
            return;
        }
        tci_buf b;
        tci_buf_init(&b, 1 << 22);
        tci_buf_append_str(&b, TC_STR("{\"path\":\""));
        tci_buf_append_str(&b, path);
        tci_buf_append_str(&b, TC_STR("\",\"entries\":[]}"));
        tci_buf_append_byte(&b, 0);
        peer_result(p, b.ptr);
        tci_buf_done(&b);
    }
}

static void test_more_than_the_window_both_ways(void **state)
{
    TCI_UNUSED(state);
    far_end f = {.play = play_big};
    pi_rig g = {.arg = &f};
    tc_device *d = NULL;
    char *path = malloc(BIG_TEXT);
    assert_non_null(path);
    path[0] = '/';
    for (size_t i = 1; i < BIG_TEXT; i++)
        path[i] = (char)('a' + i % 26);
    pi_rig_open(&g, play_tunnel, NULL);
    assert_ok(&g, tci_pi_device(g.pi, NULL, NULL, &d, &g.err));
    for (int i = 0; i < NBIG; i++) {
        tc_directory_page page = {.count = 0};
        tc_call call = TC_CALL(NULL, g.r);
        tc_result_clear(g.r);
        int rc =
            tc_device_list_directory(d, &call, tci_str_of(path, BIG_TEXT), 0, 0, &page, &g.err);
        if (rc == TC_E_INVALID || rc == TC_E_PROTOCOL) /* too long a path for its type */
            break;
        assert_ok(&g, rc);
        assert_true(tci_str_eq(page.path, tci_str_of(path, BIG_TEXT)));
    }
    tc_device_close(d);
    pi_rig_close(&g);
    assert_true(f.nin > (uint64_t)NBIG * BIG_TEXT && f.nout > (uint64_t)NBIG * BIG_TEXT);
    free(path);
}

const struct CMUnitTest pi_tunnel_tests[] = {
    cmocka_unit_test(test_device_through_the_tunnel),
    cmocka_unit_test(test_foreign_calls_beside_it),
    cmocka_unit_test(test_tunnel_that_is_refused_once),
    cmocka_unit_test(test_tunnel_dies_with_its_session),
    cmocka_unit_test(test_more_than_its_credit),
    cmocka_unit_test(test_more_than_the_window_both_ways),
};
const size_t npi_tunnel_tests = TCI_ARRAY_LEN(pi_tunnel_tests);
