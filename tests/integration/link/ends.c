/* SPDX-License-Identifier: Apache-2.0
 *
 * See ends.h. */
#include "ends.h"

#include "../../unit/daemon/fixture.h"
#include "daemon/carrier/carrier_ws.h"
#include "net/httpd.h"
#include "net/tcp.h"
#include "plat/thread.h"

#include <stdio.h>

#define DEVICE TC_STR("device-1")

/* ---- the Host ---- */

static void on_head(tci_httpd_req *req)
{
    tc_err err;
    const ends *e = tci_httpd_user(tci_httpd_of(req));
    (void)!tci_connections_upgrade(e->connections, req, DEVICE, NULL, NULL, &err);
}

static const tci_httpd_handler handler = {.on_head = on_head};

static void on_accept(void *user, tci_stream *stream, const tci_addr *from)
{
    const ends *e = user;
    TCI_UNUSED(from);
    tci_httpd_accept_own(e->httpd, stream);
}

static void listen_on_loop(void *arg)
{
    ends *e = arg;
    tci_addr at;
    tci_loop *loop = tci_runtime_loop(e->rt);
    tci_httpd_options o = {.handler = &handler, .user = e};
    e->code = tci_addr_parse(TC_STR("127.0.0.1:0"), &at, &e->err);
    if (e->code == 0)
        e->code = tci_httpd_new(loop, &o, &e->httpd, &e->err);
    if (e->code == 0)
        e->code = tci_tcp_listener_open(loop, &at, 0, on_accept, e, &e->listener, &e->err);
    if (e->code == 0)
        e->port = tci_tcp_listener_addr(e->listener).port;
}

static void close_on_loop(void *arg)
{
    ends *e = arg;
    tci_tcp_listener_close(e->listener);
    tci_httpd_free(e->httpd);
}

void ends_open(ends *e, const tci_link_times *times)
{
    memset(e, 0, sizeof *e);
    ends_ok(e, tc_runtime_open(NULL, &e->rt, &e->err));
    ends_ok(e, tc_connections_open(e->rt, NULL, &e->connections, &e->err));
    ends_ok(e, tc_result_new(&e->r, &e->err));
    tci_connections_set_times(e->connections, times);
    assert_true(tci_runtime_run(e->rt, listen_on_loop, e));
    assert_int_equal(e->code, 0);
}

tc_device *ends_device(ends *e, const tc_device *old)
{
    tci_wake never = {0};
    for (;;) {
        tc_device *d = NULL;
        ends_ok(e, tc_connections_wait(e->connections, NULL, DEVICE, -1, &d, &e->err));
        if (d != old)
            return d;
        tc_device_close(d);                                      /* its end is not noticed yet */
        tci_wake_wait(&never, 0, tci_clock_mono_ns() + 5000000); /* between two looks */
    }
}

/* ---- the daemon ---- */

typedef struct device_end {
    fixture f;
    tci_ws_carrier_options options;
    tci_ws_carrier *carrier;
    tci_thread *thread;
    tci_post drain;
    bool has_ended;
} device_end;

/* As soon as may be. */
static uint64_t no_delay(void *arg, uint64_t max)
{
    TCI_UNUSED(arg);
    return max < 20 ? max : 20;
}

static void on_carrier_end(void *user, int status, tc_str message)
{
    device_end *d = user;
    TCI_UNUSED(message);
    TC_ASSERT(status == 0);
    d->has_ended = true;
    tci_loop_stop(d->f.loop);
}

static void on_drain(tci_post *post)
{
    device_end *d = TCI_CONTAINER(post, device_end, drain);
    tci_ws_carrier_drain(d->carrier);
}

static bool is_busy(const fixture *f)
{
    return f->device->ninflight > 0 || f->device->nsessions > 0 ||
           tci_loop_pending_jobs(f->loop) > 0;
}

static void run(void *arg)
{
    device_end *d = arg;
    while (!d->has_ended)
        tci_loop_run(d->f.loop);
    while (is_busy(&d->f))
        tci_loop_turn(d->f.loop, 10);
    tci_device_free(d->f.device);
    tci_loop_free(d->f.loop);
}

static void put_credential(device_end *d)
{
    tc_err err;
    char path[600];
    (void)snprintf(path, sizeof path, "%s/credential", d->f.folder);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs("secret\n", file) >= 0);
    assert_int_equal(fclose(file), 0);
    d->f.config.ws_credential_name = TC_STR("A13N_ENVD_REVERSE_WS_CREDENTIAL_FILE");
    assert_int_equal(
        tci_arena_printf(&d->f.config.arena, &d->f.config.ws_credential_file, &err, "%s", path), 0);
}

void ends_dial(ends *e, uint16_t port, const daemon_times *times)
{
    tc_err err;
    device_end *d = tci_new(device_end);
    assert_non_null(d);
    e->device = d;
    fixture_prepare(&d->f);
    (void)snprintf(e->folder, sizeof e->folder, "%s", d->f.folder);
    put_credential(d);
    if (times->disconnect_grace_ms > 0)
        d->f.config.disconnect_grace_ms = times->disconnect_grace_ms;
    assert_int_equal(tci_arena_printf(&d->f.config.arena, &d->f.config.ws_url, &err,
                                      "ws://127.0.0.1:%u/eip", (unsigned)port),
                     0);
    d->options = (tci_ws_carrier_options){.ping_interval_ms = times->ping_interval_ms,
                                          .pong_timeout_ms = times->pong_timeout_ms,
                                          .send_timeout_ms = times->send_timeout_ms,
                                          .random_upto = no_delay};
    d->drain.cb = on_drain;
    assert_int_equal(tci_loop_new(&d->f.loop, &err), 0);
    assert_int_equal(tci_device_new(d->f.loop, &d->f.config, &d->f.device, &err), 0);
    assert_int_equal(
        tci_ws_carrier_open(d->f.device, &d->options, on_carrier_end, d, &d->carrier, &err), 0);
    assert_int_equal(tci_thread_new(run, d, 0, &d->thread, &err), 0);
}

void ends_close(ends *e)
{
    device_end *d = e->device;
    tci_loop_post(d->f.loop, &d->drain);
    tci_thread_join(d->thread);
    tci_arena_done(&d->f.config.arena);
    tci_arena_done(&d->f.arena);
    tci_free(d);
    assert_true(tci_runtime_run(e->rt, close_on_loop, e));
    tc_connections_close(e->connections);
    tc_result_free(e->r);
    tc_runtime_close(e->rt);
}
