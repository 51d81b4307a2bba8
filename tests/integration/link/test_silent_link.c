/* SPDX-License-Identifier: Apache-2.0
 *
 * A link that nobody closes and that passes nothing on: each end notices by itself, the daemon dials again, its
 * session is taken up, and the output of a command that ran on is read on from where it was. And a peer that
 * takes no byte told apart from one that takes a few. Times are short ones; the documented ones are measured
 * by the benchmark of the link. */
#include "ends.h"
#include "proxy.h"

#include "plat/clock.h"

#include <stdio.h>

enum {
    NEVER_MS = 600000,
    READ_MS = 200,
    LINES = 25, /* between two events */
    LINE = sizeof "1000000",
    MANY = 600000, /* lines in one answer: no system buffers it */
    FEW = 100000,  /* the system takes it all at once */
    SLOW_BYTES = 4 * 1024
};

/* Both ends look often. */
static const tci_link_times host_alert = {.ping_interval_ms = 100,
                                          .pong_timeout_ms = 400,
                                          .send_timeout_ms = NEVER_MS,
                                          .probe_ms = NEVER_MS};
static const daemon_times daemon_alert = {
    .ping_interval_ms = 100, .pong_timeout_ms = 400, .send_timeout_ms = NEVER_MS};

/* One only asks when the daemon dials again. */
static const tci_link_times host_patient = {.ping_interval_ms = NEVER_MS,
                                            .pong_timeout_ms = NEVER_MS,
                                            .send_timeout_ms = NEVER_MS,
                                            .probe_ms = 200};

/* A command that prints numbered lines, and how far it was read. */
typedef struct reading {
    ends *e;
    tc_device *device;
    tc_session *session;
    char id[128], reference[128];
    uint64_t generation;
    uint64_t at;       /* bytes read */
    unsigned nlines;   /* whole lines */
    char expected[32]; /* the current line */
    size_t expected_at;
    unsigned nattached;
} reading;

static void next_line(reading *g)
{
    (void)snprintf(g->expected, sizeof g->expected, "line %u\n", g->nlines);
    g->expected_at = 0;
}

static void keep(char *to, size_t size, tc_str s)
{
    assert_true(s.len < size);
    memcpy(to, s.ptr, s.len);
    to[s.len] = '\0';
}

static void reading_start(reading *g, ends *e)
{
    memset(g, 0, sizeof *g);
    g->e = e;
    g->device = ends_device(e, NULL);
    tc_call call = TC_CALL(NULL, e->r);
    tc_process process;
    tc_command command = {
        .size = sizeof command,
        .script = TC_STR("i=0; while :; do echo line $i; i=$((i+1)); sleep 0.01; done")};
    ends_ok(e, tc_session_open(g->device, NULL, NULL, &g->session, &e->err));
    ends_ok(e, tc_session_process_start(g->session, &call, &command, &process, &e->err));
    const tc_session_info *info = tc_session_get_info(g->session);
    keep(g->id, sizeof g->id, info->session_id);
    keep(g->reference, sizeof g->reference, process.out.reference);
    g->generation = info->generation;
    next_line(g);
}

/* On the next connection: the same session, of the same generation. */
static void take_up(reading *g)
{
    ends *e = g->e;
    tc_device *old = g->device;
    for (;;) {
        tc_session *again = NULL;
        g->device = ends_device(e, old);
        tc_device_close(old);
        int rc = tc_session_attach(g->device, NULL, tci_str(g->id), g->generation, &again, &e->err);
        if (rc < 0 && tc_device_is_alive(g->device))
            fail_msg("attach: %s", e->err.msg);
        if (rc == 0) {
            tc_session_detach(g->session);
            g->session = again;
            g->nattached++;
            return;
        }
        old = g->device; /* lost again in between */
    }
}

static void take(reading *g, tc_str bytes)
{
    for (size_t i = 0; i < bytes.len; i++) {
        if (bytes.ptr[i] != g->expected[g->expected_at])
            fail_msg("byte %llu of the output is not what it should be, in '%s'",
                     (unsigned long long)(g->at + i), g->expected);
        if (g->expected[++g->expected_at] == '\0') {
            g->nlines++;
            next_line(g);
        }
    }
    g->at += bytes.len;
}

/* Read on until there are so many lines more, over whatever connection there is. */
static void read_on(reading *g, unsigned nlines)
{
    ends *e = g->e;
    unsigned least = g->nlines + nlines;
    while (g->nlines < least) {
        tc_call call = TC_CALL(NULL, e->r);
        tc_output_page page;
        tc_result_clear(e->r);
        int rc = tc_session_output_read(g->session, &call, tci_str(g->reference), g->at, READ_MS,
                                        &page, &e->err);
        if (rc == 0) {
            assert_int_equal(page.start_offset, g->at);
            take(g, page.data);
        } else if (tc_session_is_alive(g->session)) {
            fail_msg("read: %s", e->err.msg);
        } else {
            take_up(g);
        }
    }
}

static void reading_end(reading *g)
{
    ends *e = g->e;
    (void)tc_session_close(g->session, NULL, &e->err); /* it is gone, one way or the other */
    tc_device_close(g->device);
}

static void wait_dead(const tc_device *d)
{
    tci_wake never = {0};
    while (tc_device_is_alive(d))
        tci_wake_wait(&never, 0, tci_clock_mono_ns() + 1000000); /* between two looks */
}

/* ---- silence ---- */

/* Nobody is let in until both have noticed: neither can have learned of it from the other. */
static void case_63_both_ends_notice_by_themselves(void **state)
{
    TCI_UNUSED(state);
    for (int how = PROXY_DEAF; how <= PROXY_SWALLOWS; how++) {
        ends e;
        proxy p;
        reading g;
        ends_open(&e, &host_alert);
        proxy_open(&p, e.port);
        ends_dial(&e, p.port, &daemon_alert);
        reading_start(&g, &e);
        for (int i = 0; i < 2; i++) {
            read_on(&g, LINES);
            unsigned nrefused = atomic_load(&p.nrefused);
            proxy_refuse(&p, true);
            proxy_silence_all(&p, (proxy_silence)how);
            proxy_wait(&p, &p.nrefused, nrefused + 1); /* the daemon */
            wait_dead(g.device);                       /* the Host */
            proxy_refuse(&p, false);
            read_on(&g, LINES);
            assert_true(g.nattached > (unsigned)i);
        }
        reading_end(&g);
        ends_close(&e);
        proxy_close(&p);
    }
}

/* The Host would not notice for long. The daemon dials, is told to come later, and that makes the Host ask. */
static void a_daemon_that_noticed_first_is_let_in(void **state)
{
    TCI_UNUSED(state);
    for (int how = PROXY_DEAF; how <= PROXY_SWALLOWS; how++) {
        ends e;
        proxy p;
        reading g;
        ends_open(&e, &host_patient);
        proxy_open(&p, e.port);
        ends_dial(&e, p.port, &daemon_alert);
        reading_start(&g, &e);
        read_on(&g, LINES);
        proxy_silence_all(&p, (proxy_silence)how);
        read_on(&g, LINES);
        assert_true(g.nattached > 0);
        assert_true(atomic_load(&p.naccepted) >
                    2); /* the first, one that came too early, the next */
        reading_end(&g);
        ends_close(&e);
        proxy_close(&p);
    }
}

/* ---- sending ---- */

/* A command whose output is read in one answer. */
static void print_numbers(reading *g, unsigned count, char *reference, size_t size)
{
    char script[64];
    ends *e = g->e;
    tc_call call = TC_CALL(NULL, e->r);
    tc_process process;
    tc_command command = {.size = sizeof command};
    (void)snprintf(script, sizeof script, "exec seq 1000000 %u", 1000000 + count - 1);
    command.script = tci_str(script);
    ends_ok(e, tc_session_process_start(g->session, &call, &command, &process, &e->err));
    ends_ok(e, tc_session_process_wait(g->session, &call, process.handle, true, &process, &e->err));
    keep(reference, size, process.out.reference);
}

static int read_numbers(reading *g, const char *reference, tc_str *ret)
{
    tc_call call = TC_CALL(NULL, g->e->r);
    tc_output_page page;
    tc_result_clear(g->e->r);
    int rc = tc_session_output_read(g->session, &call, tci_str(reference), 0, 0, &page, &g->e->err);
    if (rc == 0)
        *ret = page.data;
    return rc;
}

static void check_numbers(tc_str bytes, unsigned count)
{
    char line[16];
    assert_int_equal(bytes.len, (size_t)count * LINE);
    for (unsigned i = 0; i < count; i++) {
        (void)snprintf(line, sizeof line, "%u\n", 1000000 + i);
        if (memcmp(bytes.ptr + (size_t)i * LINE, line, LINE) != 0)
            fail_msg("line %u is not what it should be", i);
    }
}

/* What the system holds for sending takes far longer to leave than one timeout; but it leaves, bit by bit. */
static void a_slow_peer_is_waited_for(void **state)
{
    static const daemon_times impatient[] = {
        {.ping_interval_ms = NEVER_MS, .pong_timeout_ms = NEVER_MS, .send_timeout_ms = 1500},
        {.ping_interval_ms = 50, .pong_timeout_ms = 1500, .send_timeout_ms = NEVER_MS},
    };
    TCI_UNUSED(state);
    for (size_t i = 0; i < TCI_ARRAY_LEN(impatient); i++) {
        ends e;
        proxy p;
        reading g;
        tc_str numbers = {0};
        char reference[128];
        ends_open(&e, &host_patient);
        proxy_open(&p, e.port);
        ends_dial(&e, p.port, &impatient[i]);
        reading_start(&g, &e);
        print_numbers(&g, MANY, reference, sizeof reference);
        atomic_store(&p.slow_bytes, SLOW_BYTES);
        ends_ok(&e, read_numbers(&g, reference, &numbers));
        check_numbers(numbers, MANY);
        atomic_store(&p.slow_bytes, 0);
        read_on(&g, 1);
        assert_int_equal(g.nattached, 0); /* over one and the same link */
        assert_int_equal(atomic_load(&p.naccepted), 1);
        reading_end(&g);
        ends_close(&e);
        proxy_close(&p);
    }
}

static void a_peer_that_takes_nothing_is_left(void **state)
{
    static const struct {
        daemon_times times;
        unsigned count;
    } impatient[] = {
        {{.ping_interval_ms = NEVER_MS, .pong_timeout_ms = NEVER_MS, .send_timeout_ms = 300}, MANY},
        {{.ping_interval_ms = 50, .pong_timeout_ms = 300, .send_timeout_ms = NEVER_MS}, FEW},
    };
    TCI_UNUSED(state);
    for (size_t i = 0; i < TCI_ARRAY_LEN(impatient); i++) {
        ends e;
        proxy p;
        reading g;
        tc_str numbers = {0};
        char reference[128];
        ends_open(&e, &host_patient);
        proxy_open(&p, e.port);
        ends_dial(&e, p.port, &impatient[i].times);
        reading_start(&g, &e);
        print_numbers(&g, impatient[i].count, reference, sizeof reference);
        proxy_block_daemon(&p);
        assert_true(read_numbers(&g, reference, &numbers) < 0); /* it ends with the link */
        assert_false(tc_session_is_alive(g.session));
        read_on(&g, LINES);
        assert_true(g.nattached > 0);
        while (read_numbers(&g, reference, &numbers) < 0) {
            assert_false(tc_session_is_alive(g.session)); /* an impatient daemon, a slow machine */
            take_up(&g);
        }
        check_numbers(numbers, impatient[i].count);
        reading_end(&g);
        ends_close(&e);
        proxy_close(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(case_63_both_ends_notice_by_themselves),
        cmocka_unit_test(a_daemon_that_noticed_first_is_let_in),
        cmocka_unit_test(a_slow_peer_is_waited_for),
        cmocka_unit_test(a_peer_that_takes_nothing_is_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
