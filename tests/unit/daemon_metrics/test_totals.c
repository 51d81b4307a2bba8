/* SPDX-License-Identifier: Apache-2.0
 *
 * The line of totals on standard error: what is in it, when it comes, and that nobody has to read it. */
#include "fixture.h"

#include "daemon/totals.h"
#include "plat/fd.h"
#include "plat/self.h"

#include <string.h>
#include <unistd.h>

/* Standard error is a pipe meanwhile. */
typedef struct capture {
    int saved, fds[2];
} capture;

static void capture_begin(capture *c)
{
    tc_err err;
    assert_int_equal(tci_fd_pipe(c->fds, &err), 0);
    assert_int_equal(tci_fd_set_nonblocking(c->fds[0], true, NULL, &err), 0);
    c->saved = dup(2);
    assert_true(c->saved >= 0 && dup2(c->fds[1], 2) == 2);
}

static void capture_end(capture *c)
{
    assert_int_equal(dup2(c->saved, 2), 2);
    (void)close(c->saved);
    tci_fd_close(&c->fds[0]);
    tci_fd_close(&c->fds[1]);
}

static tc_str said(const capture *c)
{
    static char text[16384];
    size_t n = 0;
    tc_err err;
    assert_int_equal(tci_fd_read(c->fds[0], text, sizeof text, &n, &err), 0);
    return tci_str_of(text, n);
}

static void the_line(void **state)
{
    fixture f;
    tci_buf line;
    (void)state;
    fixture_prepare(&f);
    f.config.program = TC_STR("a13n-envd");
    fixture_start(&f);
    fixture_open_session(&f);
    tci_buf_init(&line, TCI_BUF_MAX);
    tci_totals_put(f.device, &line);
    tc_str text = tci_buf_str(&line);
    assert_true(tci_str_starts(text, TC_STR("{\"closing_sessions\":0,\"event\":\"a13n-envd."
                                            "resource_totals\",\"level\":\"info\",")));
    assert_true(tci_str_find(text, TC_STR("\"sessions\":1,")) < text.len);
    assert_true(tci_str_ends(text, TC_STR("\"transfer_records\":0,\"transfers\":0}\n")));
    tci_buf_done(&line);
    fixture_stop(&f);
}

static void once_at_start_and_then_not_too_often(void **state)
{
    fixture f;
    capture c;
    tci_totals *t;
    tc_err err;
    (void)state;
    fixture_prepare(&f);
    f.config.program = TC_STR("telechird");
    fixture_start(&f);
    capture_begin(&c);
    assert_int_equal(tci_totals_new(f.device, &t, &err), 0);
    tci_loop_turn(f.loop, 1000);
    tc_str first = said(&c);
    bool is_line = tci_str_ends(first, TC_STR("}\n")) &&
                   tci_str_find(first, TC_STR("telechird.resource_totals")) < first.len;
    fixture_open_session(&f);
    tci_totals_touch(t);
    tci_loop_turn(f.loop, 0);
    tc_str second = said(&c);
    tci_totals_free(t);
    capture_end(&c);
    assert_true(is_line);
    assert_int_equal(second.len, 0); /* its time has not come */
    fixture_stop(&f);
    tci_totals_touch(NULL);
    tci_totals_free(NULL);
}

/* Somebody who does not read standard error must not stop the daemon. */
static void a_full_pipe_is_no_obstacle(void **state)
{
    capture c;
    char text[TCI_SELF_SAY_MAX];
    size_t n = 0;
    (void)state;
    memset(text, 'x', sizeof text);
    capture_begin(&c);
    while (n < 100000 && tci_self_say(tci_str_of(text, sizeof text)))
        n++;
    bool is_small_refused = !tci_self_say(TC_STR("y"));
    bool is_large_refused = !tci_self_say(tci_str_of(text, sizeof text + 1));
    capture_end(&c);
    assert_true(n > 0 && n < 100000);
    assert_true(is_small_refused && is_large_refused);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_line),
        cmocka_unit_test(once_at_start_and_then_not_too_often),
        cmocka_unit_test(a_full_pipe_is_no_obstacle),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
