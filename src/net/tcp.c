/* SPDX-License-Identifier: Apache-2.0
 *
 * TCP connections: accepting and making them. Leaves system calls to plat/socket.h and bytes to
 * net/fd.c. Loop thread; name lookup is a job. Invariant: a lookup cannot be stopped, so it is an
 * object of its own that survives a cancelled connect and shares nothing with it. */
#include "net/tcp.h"
#include "base/num.h"

#include "base/mem.h"
#include "base/str.h"
#include "net/fd.h"
#include "net/url.h"
#include <stdio.h>

/* ---- listening ---- */

enum { ACCEPTS_PER_TURN = 16, RETRY_MS = 100, DEFAULT_BACKLOG = 128 };

struct tci_tcp_listener {
    tci_loop *loop;
    tci_watch watch;
    tci_timer retry; /* armed: out of descriptors, waiting for some to come back */
    int fd;
    tci_addr addr;
    tci_tcp_on_accept on_accept;
    void *user;
    bool is_paused;
    bool *is_gone; /* of the accept loop that is running */
};

static void apply_watch(tci_tcp_listener *l)
{
    tc_err err;
    bool takes = !l->is_paused && !tci_timer_is_armed(&l->retry);
    int rc = tci_watch_set(&l->watch, takes ? TCI_WATCH_READ : 0, &err);
    TC_ASSERT(rc == 0); /* only for a watch that is not open */
}

static void on_retry(tci_timer *t)
{
    apply_watch(TCI_CONTAINER(t, tci_tcp_listener, retry));
}

/* Hand one connection on. false: there is none, or the listener is to rest or gone. */
static bool accept_next(tci_tcp_listener *l)
{
    tc_err err;
    int fd = -1;
    tci_addr peer = {.family = TCI_ADDR_NONE};
    tci_stream *stream = NULL;
    int rc = tci_socket_accept(l->fd, &fd, &peer, &err);
    if (rc == 0 && fd < 0)
        return false;
    if (rc == 0) {
        rc = tci_fd_stream_new(l->loop, fd, fd, true, &stream, &err);
        if (rc < 0)
            tci_fd_close(&fd);
    }
    if (rc < 0) {
        rc = tci_timer_start(&l->retry, RETRY_MS, &err);
        if (rc == 0) /* without memory for a timer the next turn tries again */
            apply_watch(l);
        return false;
    }
    bool is_gone = false;
    l->is_gone = &is_gone;
    l->on_accept(l->user, stream, &peer);
    if (is_gone)
        return false;
    l->is_gone = NULL;
    return !l->is_paused;
}

static void on_connection(tci_watch *w, unsigned events)
{
    TCI_UNUSED(events);
    tci_tcp_listener *l = TCI_CONTAINER(w, tci_tcp_listener, watch);
    for (int i = 0; i < ACCEPTS_PER_TURN && accept_next(l); i++)
        continue;
}

int tci_tcp_listener_open(tci_loop *loop, const tci_addr *at, int backlog,
                          tci_tcp_on_accept on_accept, void *user, tci_tcp_listener **ret_listener,
                          tc_err *err)
{
    tci_tcp_listener *l = tci_new(tci_tcp_listener);
    if (l == NULL)
        return tci_err_no_memory(err);
    l->loop = loop;
    l->fd = -1;
    l->on_accept = on_accept;
    l->user = user;
    tci_timer_init(&l->retry, loop, on_retry);
    int rc = tci_socket_listen(at, backlog > 0 ? backlog : DEFAULT_BACKLOG, &l->fd, err);
    if (rc == 0)
        rc = tci_socket_local_addr(l->fd, &l->addr, err);
    if (rc == 0)
        rc = tci_watch_open(&l->watch, loop, l->fd, on_connection, err);
    if (rc == 0)
        rc = tci_watch_set(&l->watch, TCI_WATCH_READ, err);
    if (rc < 0) {
        tci_tcp_listener_close(l);
        return rc;
    }
    *ret_listener = l;
    return 0;
}

tci_addr tci_tcp_listener_addr(const tci_tcp_listener *l)
{
    return l->addr;
}

void tci_tcp_listener_pause(tci_tcp_listener *l)
{
    l->is_paused = true;
    apply_watch(l);
}

void tci_tcp_listener_resume(tci_tcp_listener *l)
{
    l->is_paused = false;
    apply_watch(l);
}

void tci_tcp_listener_close(tci_tcp_listener *l)
{
    if (l == NULL)
        return;
    if (l->is_gone != NULL)
        *l->is_gone = true;
    tci_timer_stop(&l->retry);
    tci_watch_close(&l->watch);
    tci_fd_close(&l->fd);
    tci_free(l);
}

/* ---- connecting ---- */

enum { MAX_ADDRS = 16, DEFAULT_TIMEOUT_MS = 10000 };

typedef struct lookup {
    tci_job job;
    tci_tcp_connect *connect; /* NULL: nobody waits any more */
    uint16_t port;
    int result;
    size_t naddrs;
    tci_addr addrs[MAX_ADDRS];
    tc_err err;
    char host[TCI_URL_HOST_MAX + 1];
} lookup;

struct tci_tcp_connect {
    tci_loop *loop;
    tci_tcp_on_connect on_done;
    void *user;
    lookup *lookup; /* running */
    tci_later later;
    tci_timer timer; /* of the address being tried, or of the lookup */
    int64_t deadline_ns;
    tci_watch watch;
    int fd;
    size_t next, naddrs;
    tci_addr addrs[MAX_ADDRS];
    tc_err last_err; /* why the address before failed */
    uint16_t port;
    char host[TCI_URL_HOST_MAX + 1];
};

/* Let go of everything but the memory. */
static void stop(tci_tcp_connect *c)
{
    if (c->lookup != NULL)
        c->lookup->connect = NULL;
    c->lookup = NULL;
    tci_later_cancel(&c->later);
    tci_timer_stop(&c->timer);
    tci_watch_close(&c->watch);
    tci_fd_close(&c->fd);
}

static void finish(tci_tcp_connect *c, tci_stream *stream, tc_err *err)
{
    tci_tcp_on_connect on_done = c->on_done;
    void *user = c->user;
    if (stream == NULL)
        (void)tc_err_wrap(err, strchr(c->host, ':') != NULL ? "[%s]:%u" : "%s:%u", c->host,
                          (unsigned)c->port);
    stop(c);
    tci_free(c);
    on_done(user, stream, err);
}

static void finish_connected(tci_tcp_connect *c)
{
    tc_err err;
    tci_stream *stream = NULL;
    tci_watch_close(&c->watch);
    int rc = tci_fd_stream_new(c->loop, c->fd, c->fd, true, &stream, &err);
    if (rc == 0)
        c->fd = -1; /* the stream's */
    finish(c, stream, &err);
}

static void on_connect_ready(tci_watch *w, unsigned events);

/* Begin with one address. A failure is kept in last_err. */
static int try_address(tci_tcp_connect *c, const tci_addr *to, bool *ret_is_connected)
{
    tc_err *err = &c->last_err;
    int64_t now_ns = tci_loop_now_ns(c->loop), left_ns = c->deadline_ns - now_ns;
    int64_t share_ns = left_ns / (int64_t)(c->naddrs - c->next + 1);
    int rc = tci_socket_connect(to, &c->fd, ret_is_connected, err);
    if (rc < 0 || *ret_is_connected)
        return rc;
    rc = tci_watch_open(&c->watch, c->loop, c->fd, on_connect_ready, err);
    if (rc == 0)
        rc = tci_watch_set(&c->watch, TCI_WATCH_WRITE, err);
    if (rc == 0)
        rc = tci_timer_start_at(&c->timer, now_ns + share_ns, err);
    return rc;
}

static void try_next(tci_tcp_connect *c)
{
    while (c->next < c->naddrs) {
        tci_watch_close(&c->watch);
        tci_fd_close(&c->fd);
        const tci_addr *to = &c->addrs[c->next++];
        bool is_connected = false;
        int rc = try_address(c, to, &is_connected);
        if (rc == 0 && !is_connected)
            return;
        if (rc == 0) {
            finish_connected(c);
            return;
        }
    }
    tc_err err = c->last_err;
    finish(c, NULL, &err);
}

static void on_connect_ready(tci_watch *w, unsigned events)
{
    TCI_UNUSED(events);
    tci_tcp_connect *c = TCI_CONTAINER(w, tci_tcp_connect, watch);
    if (tci_socket_connect_result(c->fd, &c->last_err) == 0)
        finish_connected(c);
    else
        try_next(c);
}

static void on_connect_timer(tci_timer *t)
{
    tci_tcp_connect *c = TCI_CONTAINER(t, tci_tcp_connect, timer);
    if (c->lookup != NULL) {
        tc_err err;
        (void)tc_err_set(&err, TC_E_TIMEOUT, "no answer in time to the question for its address");
        finish(c, NULL, &err);
        return;
    }
    (void)tc_err_set(&c->last_err, TC_E_TIMEOUT, "no answer in time");
    try_next(c);
}

static void on_connect_later(tci_later *later)
{
    try_next(TCI_CONTAINER(later, tci_tcp_connect, later));
}

static void lookup_work(tci_job *job)
{
    lookup *k = TCI_CONTAINER(job, lookup, job);
    k->result = tci_resolve(k->host, k->port, k->addrs, MAX_ADDRS, &k->naddrs, &k->err);
}

static void lookup_done(tci_job *job)
{
    lookup *k = TCI_CONTAINER(job, lookup, job);
    tci_tcp_connect *c = k->connect;
    if (c != NULL) {
        c->lookup = NULL;
        tci_timer_stop(&c->timer);
        c->last_err = k->err;
        if (k->result == 0) {
            c->naddrs = k->naddrs;
            memcpy(c->addrs, k->addrs, sizeof k->addrs);
        }
        try_next(c); /* with no address: ends with the lookup's error */
    }
    tci_free(k);
}

static int start_lookup(tci_tcp_connect *c, tc_err *err)
{
    int rc = tci_timer_start_at(&c->timer, c->deadline_ns, err);
    if (rc < 0)
        return rc;
    lookup *k = tci_new(lookup);
    if (k == NULL)
        return tci_err_no_memory(err);
    k->job.work = lookup_work;
    k->job.done = lookup_done;
    k->connect = c;
    k->port = c->port;
    memcpy(k->host, c->host, sizeof c->host);
    c->lookup = k;
    tci_job_submit(c->loop, TCI_JOB_BULK, &k->job);
    return 0;
}

/* Numeric addresses, and localhost, which is this machine whatever a name server says (RFC 6761
 * section 6.3). */
static size_t known_addresses(tc_str host, uint16_t port, tci_addr *addrs)
{
    if (tci_addr_parse_ip(host, &addrs[0])) {
        addrs[0].port = port;
        return 1;
    }
    if (!tci_host_is_loopback(host))
        return 0;
    addrs[0] = (tci_addr){.family = TCI_ADDR_IPV4, .port = port, .ip = {127, [3] = 1}};
    addrs[1] = (tci_addr){.family = TCI_ADDR_IPV6, .port = port, .ip = {[15] = 1}};
    return 2;
}

int tci_tcp_connect_open(tci_loop *loop, tc_str host, uint16_t port, int64_t timeout_ms,
                         tci_tcp_on_connect on_done, void *user, tci_tcp_connect **ret_connect,
                         tc_err *err)
{
    tci_loop_assert(loop);
    if (host.len == 0 || port == 0)
        return tc_err_set(err, TC_E_INVALID, "no host or port to connect to");
    tci_tcp_connect *c = tci_new(tci_tcp_connect);
    if (c == NULL)
        return tci_err_no_memory(err);
    int rc = tci_cstr(host, c->host, sizeof c->host, err);
    if (rc < 0) {
        tci_free(c);
        return tc_err_recode(err, TC_E_INVALID);
    }
    c->loop = loop;
    c->fd = -1;
    c->port = port;
    c->on_done = on_done;
    c->user = user;
    c->later.cb = on_connect_later;
    tci_timer_init(&c->timer, loop, on_connect_timer);
    if (timeout_ms <= 0)
        timeout_ms = DEFAULT_TIMEOUT_MS;
    c->deadline_ns = tci_add_ns(tci_loop_now_ns(loop), tci_ms_to_ns((uint64_t)timeout_ms));
    c->naddrs = known_addresses(host, port, c->addrs);
    if (c->naddrs > 0)
        tci_loop_later(loop, &c->later);
    else
        rc = start_lookup(c, err);
    if (rc < 0) {
        stop(c);
        tci_free(c);
        return rc;
    }
    *ret_connect = c;
    return 0;
}

void tci_tcp_connect_cancel(tci_tcp_connect *c)
{
    if (c == NULL)
        return;
    stop(c);
    tci_free(c);
}
