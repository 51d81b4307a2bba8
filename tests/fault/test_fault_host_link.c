/* SPDX-License-Identifier: Apache-2.0
 *
 * The link between a daemon that dialled and its Host, cut after so many bytes of one direction, wherever that is: in
 * the upgrade, in the head of a frame or the middle of it, in a request, an answer, a data frame, a ping or a pong.
 * Whoever waited is told, the daemon dials again by itself, and the same work is done then; a file is the old one or
 * the new one. Every byte with TC_FULL=1, otherwise with gaps that no message escapes. */
#include "../integration/link/ends.h"

#include "plat/clock.h"
#include "plat/thread.h"

#include <arpa/inet.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CONTENT = 5000, BLOCK = 16 * 1024, PINGS_MS = 3, PATIENT_MS = 20000 };

/* ---- what cuts ---- */

typedef enum direction { TO_HOST, TO_DAEMON } direction;

/* One connection at a time: a daemon has one link. */
typedef struct cutter {
    uint16_t port, target;
    int listener;
    tci_thread *thread;
    atomic_bool is_over;
    atomic_int way;   /* of the cut: direction */
    atomic_long left; /* bytes of that direction until then; negative: never */
    atomic_uint ncut, naccepted;
    atomic_size_t passed[2]; /* on the connection of now */
} cutter;

static void check(bool is_fine)
{
    if (!is_fine)
        abort();
}

static struct sockaddr_in loopback(uint16_t port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port)};
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return a;
}

/* As much as may go; false: it is over. */
static bool pass(cutter *c, int from, int to, direction way)
{
    char bytes[BLOCK];
    size_t most = sizeof bytes;
    long left = atomic_load(&c->way) == (int)way ? atomic_load(&c->left) : -1;
    if (left >= 0 && (size_t)left < most)
        most = (size_t)left;
    if (left == 0) {
        atomic_store(&c->left, -1);
        atomic_fetch_add(&c->ncut, 1);
        return false;
    }
    ssize_t n = recv(from, bytes, most, 0);
    if (n <= 0)
        return false;
    atomic_fetch_add(&c->passed[way], (size_t)n);
    if (left > 0)
        atomic_store(&c->left, left - n);
    for (ssize_t at = 0; at < n;) {
        ssize_t sent = send(to, bytes + at, (size_t)(n - at), MSG_NOSIGNAL);
        if (sent <= 0)
            return false;
        at += sent;
    }
    /* At its end now, not with the next byte: there may be none. */
    return left < 0 || left > n || pass(c, from, to, way);
}

static void serve(cutter *c, int daemon)
{
    struct sockaddr_in to = loopback(c->target);
    int host = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool goes_on = host >= 0 && connect(host, (const struct sockaddr *)&to, sizeof to) == 0;
    atomic_store(&c->passed[TO_HOST], 0);
    atomic_store(&c->passed[TO_DAEMON], 0);
    atomic_fetch_add(&c->naccepted, 1);
    while (goes_on && !atomic_load(&c->is_over)) {
        struct pollfd fds[] = {{.fd = daemon, .events = POLLIN}, {.fd = host, .events = POLLIN}};
        if (poll(fds, 2, 20) <= 0)
            continue;
        if (fds[0].revents != 0)
            goes_on = pass(c, daemon, host, TO_HOST);
        if (goes_on && fds[1].revents != 0)
            goes_on = pass(c, host, daemon, TO_DAEMON);
    }
    close(daemon);
    close(host);
}

static void run(void *arg)
{
    cutter *c = arg;
    while (!atomic_load(&c->is_over)) {
        struct pollfd fd = {.fd = c->listener, .events = POLLIN};
        if (poll(&fd, 1, 20) <= 0)
            continue;
        int daemon = accept(c->listener, NULL, NULL);
        if (daemon >= 0)
            serve(c, daemon);
    }
}

static void cutter_open(cutter *c, uint16_t target)
{
    tc_err err;
    struct sockaddr_in at = loopback(0);
    socklen_t len = sizeof at;
    memset(c, 0, sizeof *c);
    c->target = target;
    c->left = -1;
    c->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    check(c->listener >= 0 && bind(c->listener, (const struct sockaddr *)&at, sizeof at) == 0);
    check(listen(c->listener, 16) == 0);
    check(getsockname(c->listener, (struct sockaddr *)&at, &len) == 0);
    c->port = ntohs(at.sin_port);
    check(tci_thread_new(run, c, 0, &c->thread, &err) == 0);
}

static void cutter_close(cutter *c)
{
    atomic_store(&c->is_over, true);
    tci_thread_join(c->thread);
    close(c->listener);
}

/* ---- the work ---- */

typedef struct work {
    ends e;
    cutter c;
    char path[700];
    char old[CONTENT], new[CONTENT];
} work;

/* Each call comes back with an answer or an error; 0: all of it was done. */
static int do_all(work *w, tc_session *session)
{
    ends *e = &w->e;
    tc_call call = TC_CALL(NULL, e->r);
    tc_write_options replace = {.size = sizeof replace, .mode = TC_WRITE_REPLACE};
    tc_str bytes;
    tc_result_clear(e->r);
    int rc = tc_session_upload_bytes(session, &call, tci_str(w->path), &replace,
                                     tci_str_of(w->new, CONTENT), NULL, &e->err);
    if (rc == 0)
        rc = tc_session_download_bytes(session, &call, tci_str(w->path), NULL, CONTENT, &bytes,
                                       &e->err);
    if (rc == 0 && !tci_str_eq(bytes, tci_str_of(w->new, CONTENT)))
        fail_msg("other bytes came back");
    return rc;
}

/* On the connection of now, with a session of its own. */
static int once(work *w, tc_device **device)
{
    ends *e = &w->e;
    tc_session *session;
    tc_device *old = *device;
    if (old == NULL || !tc_device_is_alive(old)) {
        *device = ends_device(e, old);
        tc_device_close(old);
    }
    int rc = tc_session_open(*device, NULL, NULL, &session, &e->err);
    if (rc < 0)
        return rc;
    rc = do_all(w, session);
    if (tc_session_close(session, NULL, &e->err) < 0)
        rc = e->err.code;
    return rc;
}

static void fill(char *bytes, unsigned seed)
{
    for (size_t i = 0; i < CONTENT; i++)
        bytes[i] = (char)('a' + (seed + i * i) % 26);
}

static void file_is_old_or_new(const work *w)
{
    char now[CONTENT + 1];
    FILE *f = fopen(w->path, "rb");
    assert_non_null(f);
    size_t n = fread(now, 1, sizeof now, f);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(n, CONTENT);
    assert_true(memcmp(now, w->old, CONTENT) == 0 || memcmp(now, w->new, CONTENT) == 0);
}

static void again_until_done(work *w, tc_device **device)
{
    int64_t until_ns = tci_clock_mono_ns() + PATIENT_MS * INT64_C(1000000);
    while (once(w, device) < 0)
        if (tc_device_is_alive(*device) || tci_clock_mono_ns() > until_ns)
            fail_msg("%s", w->e.err.msg);
}

/* A connection that was not there before, and is cut after so many bytes. The one before is ended for that. */
static bool cut_after(work *w, direction way, long nbytes, tc_device **device)
{
    unsigned ncut = atomic_load(&w->c.ncut), naccepted = atomic_load(&w->c.naccepted);
    tci_wake never = {0};
    memcpy(w->old, w->new, CONTENT);
    fill(w->new, (unsigned)nbytes + (way == TO_HOST ? 7 : 0));
    atomic_store(&w->c.way, (int)way);
    atomic_store(&w->c.left, 0); /* now; and on the next one: */
    while (atomic_load(&w->c.left) == 0)
        tci_wake_wait(&never, 0, tci_clock_mono_ns() + 1000000); /* pings come all the time */
    atomic_store(&w->c.left, nbytes);
    while (atomic_load(&w->c.naccepted) == naccepted)
        tci_wake_wait(&never, 0, tci_clock_mono_ns() + 1000000); /* between two looks */
    while (atomic_load(&w->c.ncut) < ncut + 2) {
        if (once(w, device) == 0) {
            bool is_cut = atomic_load(&w->c.ncut) >= ncut + 2;
            atomic_store(&w->c.left, -1);
            return is_cut;
        }
        file_is_old_or_new(w);
    }
    return true;
}

static void link_cut_anywhere(direction way)
{
    static const tci_link_times host_times = {.ping_interval_ms = PINGS_MS,
                                              .pong_timeout_ms = PATIENT_MS,
                                              .send_timeout_ms = PATIENT_MS,
                                              .probe_ms = 100};
    static const daemon_times times = {.ping_interval_ms = PINGS_MS,
                                       .pong_timeout_ms = PATIENT_MS,
                                       .send_timeout_ms = PATIENT_MS,
                                       .disconnect_grace_ms = 1};
    const char *full = getenv("TC_FULL");
    bool is_full = full != NULL && full[0] == '1';
    work *w = calloc(1, sizeof *w);
    tc_device *device = NULL;
    assert_non_null(w);
    ends_open(&w->e, &host_times);
    cutter_open(&w->c, w->e.port);
    ends_dial(&w->e, w->c.port, &times);
    (void)snprintf(w->path, sizeof w->path, "%s/file", w->e.folder); /* fits */
    fill(w->new, 0);
    FILE *f = fopen(w->path, "wb"); /* there is one to replace */
    assert_non_null(f);
    assert_int_equal(fwrite(w->new, 1, CONTENT, f), CONTENT);
    assert_int_equal(fclose(f), 0);
    again_until_done(w, &device);
    size_t most = atomic_load(&w->c.passed[way]);
    unsigned ncut = 0;
    for (size_t at = 1; at < most; at += is_full ? 1 : 1 + at % 97) {
        ncut += cut_after(w, way, (long)at, &device);
        again_until_done(w, &device);
        file_is_old_or_new(w);
    }
    assert_true(ncut > most / 97 / 2); /* pings come and go: not every cut is reached */
    tc_device_close(device);
    ends_close(&w->e);
    cutter_close(&w->c);
    free(w);
}

static void link_cut_towards_the_host_case_65(void **state)
{
    TCI_UNUSED(state);
    link_cut_anywhere(TO_HOST);
}

static void link_cut_towards_the_daemon_case_65(void **state)
{
    TCI_UNUSED(state);
    link_cut_anywhere(TO_DAEMON);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(link_cut_towards_the_host_case_65),
        cmocka_unit_test(link_cut_towards_the_daemon_case_65),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
