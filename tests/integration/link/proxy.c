/* SPDX-License-Identifier: Apache-2.0
 *
 * See proxy.h. One thread, poll, and a block of bytes for each direction; sockets are plain ones, since what the
 * tests are about is not to be tested with itself. */
#include "proxy.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/compiler.h"

enum { PAIRS_MAX = 64, BLOCK = 64 * 1024, DAEMON_BUFFER = 32 * 1024 };

typedef struct way {
    int from, to;
    char bytes[BLOCK];
    size_t at, len;
    bool is_ended;
} way;

typedef struct pair {
    unsigned number; /* from 1 */
    way to_host, to_daemon;
} pair;

typedef struct state {
    proxy *p;
    pair *pairs[PAIRS_MAX];
    size_t npairs;
} state;

static struct sockaddr_in loopback(uint16_t port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port)};
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return a;
}

static void check(bool is_fine)
{
    if (!is_fine)
        abort();
}

static void count(proxy *p, atomic_uint *number)
{
    atomic_fetch_add(number, 1);
    tci_wake_all(&p->changed);
}

static void take_newcomer(state *s)
{
    int small = DAEMON_BUFFER;
    struct sockaddr_in to = loopback(s->p->target);
    int from = accept(s->p->listener, NULL, NULL);
    if (from < 0)
        return;
    if (atomic_load(&s->p->is_refusing)) {
        close(from);
        count(s->p, &s->p->nrefused);
        return;
    }
    int host = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    check(host >= 0 && s->npairs < PAIRS_MAX);
    check(connect(host, (const struct sockaddr *)&to, sizeof to) == 0);
    check(setsockopt(from, SOL_SOCKET, SO_RCVBUF, &small, sizeof small) == 0);
    pair *n = calloc(1, sizeof *n);
    check(n != NULL);
    n->number = atomic_load(&s->p->naccepted) + 1;
    n->to_host.from = n->to_daemon.to = from;
    n->to_host.to = n->to_daemon.from = host;
    s->pairs[s->npairs++] = n;
    count(s->p, &s->p->naccepted);
}

/* One step of one direction. */
static void pass(way *w, size_t most, bool is_dropped)
{
    if (w->at == w->len) {
        ssize_t n = recv(w->from, w->bytes, most < BLOCK ? most : BLOCK, MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN)) {
            w->is_ended = true;
            if (!is_dropped)
                (void)shutdown(w->to, SHUT_WR);
        }
        w->at = 0;
        w->len = n > 0 && !is_dropped ? (size_t)n : 0;
    }
    if (w->at < w->len) {
        ssize_t n = send(w->to, w->bytes + w->at, w->len - w->at, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n > 0)
            w->at += (size_t)n;
        else if (n < 0 && errno != EAGAIN)
            w->is_ended = true;
    }
}

static bool step(state *s, pair *n)
{
    const proxy *p = s->p;
    bool is_silent = n->number <= atomic_load(&p->nsilent);
    bool is_deaf = is_silent && atomic_load(&p->how) == PROXY_DEAF;
    size_t slow = atomic_load(&p->slow_bytes);
    if (!n->to_host.is_ended && !is_deaf && n->number > atomic_load(&p->nhalf))
        pass(&n->to_host, slow > 0 ? slow : BLOCK, is_silent);
    if (!n->to_daemon.is_ended && !is_deaf)
        pass(&n->to_daemon, BLOCK, is_silent);
    return !n->to_host.is_ended || !n->to_daemon.is_ended;
}

static void drop(state *s, size_t i)
{
    pair *n = s->pairs[i];
    close(n->to_host.from);
    close(n->to_host.to);
    free(n);
    s->pairs[i] = s->pairs[--s->npairs];
}

static void run(void *arg)
{
    state s = {.p = arg};
    while (!atomic_load(&s.p->is_over)) {
        struct pollfd fd = {.fd = s.p->listener, .events = POLLIN};
        if (poll(&fd, 1, PROXY_STEP_MS) > 0)
            take_newcomer(&s);
        for (size_t i = 0; i < s.npairs;)
            if (step(&s, s.pairs[i]))
                i++;
            else
                drop(&s, i);
    }
    while (s.npairs > 0)
        drop(&s, 0);
}

void proxy_open(proxy *p, uint16_t target)
{
    tc_err err;
    struct sockaddr_in at = loopback(0);
    socklen_t len = sizeof at;
    memset(p, 0, sizeof *p);
    p->target = target;
    p->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    check(p->listener >= 0 && bind(p->listener, (const struct sockaddr *)&at, sizeof at) == 0);
    check(listen(p->listener, 16) == 0);
    check(getsockname(p->listener, (struct sockaddr *)&at, &len) == 0);
    p->port = ntohs(at.sin_port);
    check(tci_thread_new(run, p, 0, &p->thread, &err) == 0);
}

void proxy_close(proxy *p)
{
    atomic_store(&p->is_over, true);
    tci_thread_join(p->thread);
    close(p->listener);
}

void proxy_silence_all(proxy *p, proxy_silence how)
{
    atomic_store(&p->how, (int)how);
    atomic_store(&p->nsilent, atomic_load(&p->naccepted));
}

void proxy_block_daemon(proxy *p)
{
    atomic_store(&p->nhalf, atomic_load(&p->naccepted));
}

void proxy_refuse(proxy *p, bool is_refusing)
{
    atomic_store(&p->is_refusing, is_refusing);
}

void proxy_wait(proxy *p, const atomic_uint *number, unsigned least)
{
    for (;;) {
        unsigned seen = tci_wake_count(&p->changed);
        if (atomic_load(number) >= least)
            return;
        tci_wake_wait(&p->changed, seen, 0);
    }
}
