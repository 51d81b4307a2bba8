/* SPDX-License-Identifier: Apache-2.0
 *
 * Looking at TCP ports by connecting to them, without waiting in the loop. Leaves sockets to plat.
 * Loop thread. Invariant: while active exactly one of these is going on: a connection attempt
 * (watch and limit), a pause before the next, or an answer about to be given by the timer. */
#include "ops/ports.h"

#include "plat/clock.h"
#include "plat/socket.h"

#include <errno.h>

static void stop(tci_port_check *check)
{
    check->is_active = false;
    tci_timer_stop(&check->timer);
    tci_timer_stop(&check->deadline);
    tci_watch_close(&check->watch);
    tci_fd_close(&check->fd);
}

static void finish(tci_port_check *check, int rc, const tc_err *err)
{
    stop(check);
    check->cb(check, rc, err);
}

static void look(tci_port_check *check);

static void on_pause_over(tci_timer *timer)
{
    look(TCI_CONTAINER(timer, tci_port_check, timer));
}

static void on_deadline(tci_timer *timer)
{
    tci_port_check *check = TCI_CONTAINER(timer, tci_port_check, deadline);
    tc_err err;
    int rc = tc_err_set(&err, TC_E_TIMEOUT, "port %u did not change in time", check->port);
    finish(check, rc, &err);
}

static void answer(tci_port_check *check, tci_port_status status)
{
    tc_err err = {0};
    tci_watch_close(&check->watch);
    tci_timer_stop(&check->timer);
    tci_fd_close(&check->fd);
    check->status = status;
    check->observed_at = tci_clock_now();
    if (!check->is_wait || status == check->desired) {
        finish(check, 0, &err);
        return;
    }
    tci_timer_init(&check->timer, check->loop, on_pause_over);
    int rc = tci_timer_start(&check->timer, TCI_PORT_POLL_MS, &err);
    if (rc < 0)
        finish(check, rc, &err);
}

static tci_port_status status_of(int rc, const tc_err *err)
{
    if (rc == 0)
        return TCI_PORT_LISTENING;
    return err->os == ECONNREFUSED ? TCI_PORT_NOT_LISTENING : TCI_PORT_UNKNOWN;
}

static void on_connect_limit(tci_timer *timer)
{
    answer(TCI_CONTAINER(timer, tci_port_check, timer), TCI_PORT_UNKNOWN);
}

static void on_connected(tci_watch *watch, unsigned events)
{
    TCI_UNUSED(events);
    tci_port_check *check = TCI_CONTAINER(watch, tci_port_check, watch);
    tc_err err;
    int rc = tci_socket_connect_result(check->fd, &err);
    answer(check, status_of(rc, &err));
}

static void look(tci_port_check *check)
{
    tci_addr to = {.family = TCI_ADDR_IPV4, .port = check->port};
    if (check->address == TCI_PORT_LOOPBACK) {
        to.ip[0] = 127;
        to.ip[3] = 1;
    }
    tc_err err;
    bool is_connected = false;
    int rc = tci_socket_connect(&to, &check->fd, &is_connected, &err);
    if (rc < 0 || is_connected) {
        answer(check, status_of(rc, &err));
        return;
    }
    rc = tci_watch_open(&check->watch, check->loop, check->fd, on_connected, &err);
    if (rc == 0)
        rc = tci_watch_set(&check->watch, TCI_WATCH_WRITE, &err);
    if (rc == 0) {
        tci_timer_init(&check->timer, check->loop, on_connect_limit);
        rc = tci_timer_start(&check->timer, TCI_PORT_CONNECT_MS, &err);
    }
    if (rc < 0)
        finish(check, rc, &err);
}

static int begin(tci_port_check *check, tci_loop *loop, tci_port_address address, uint16_t port,
                 void (*cb)(tci_port_check *check, int rc, const tc_err *err), tc_err *err)
{
    tci_loop_assert(loop);
    if (port == 0)
        return tc_err_set(err, TC_E_INVALID, "port 0 cannot be looked at");
    *check = (tci_port_check){
        .loop = loop, .address = address, .port = port, .fd = -1, .is_active = true, .cb = cb};
    tci_timer_init(&check->timer, loop, on_pause_over);
    tci_timer_init(&check->deadline, loop, on_deadline);
    return tci_timer_start(&check->timer, 0, err); /* the first look, from the loop */
}

int tci_port_inspect(tci_port_check *check, tci_loop *loop, tci_port_address address, uint16_t port,
                     void (*cb)(tci_port_check *check, int rc, const tc_err *err), tc_err *err)
{
    return begin(check, loop, address, port, cb, err);
}

int tci_port_wait(tci_port_check *check, tci_loop *loop, tci_port_address address, uint16_t port,
                  tci_port_status desired, int64_t deadline_ns,
                  void (*cb)(tci_port_check *check, int rc, const tc_err *err), tc_err *err)
{
    int rc = begin(check, loop, address, port, cb, err);
    if (rc < 0)
        return rc;
    check->is_wait = true;
    check->desired = desired;
    rc = tci_timer_start_at(&check->deadline, deadline_ns, err);
    if (rc < 0)
        stop(check);
    return rc;
}

void tci_port_cancel(tci_port_check *check)
{
    if (check->is_active)
        stop(check);
}
