/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"
#include "base/utf8.h"
#include "check.h"
#include <errno.h>

static struct {
    int count;
    tci_log_level level;
    char line[4096];
} seen;

static void sink(tci_log_level level, const char *line)
{
    seen.count++;
    seen.level = level;
    assert_true(strlen(line) < sizeof seen.line);
    memcpy(seen.line, line, strlen(line) + 1);
    errno = EINVAL; /* whatever a sink does, the caller's errno stays */
}

static void levels_above_the_maximum_are_silent(void **state)
{
    TCI_UNUSED(state);
    tci_log_setup(TCI_LOG_WARN, sink);
    seen.count = 0;
    tci_log(TCI_LOG_INFO, "not shown");
    tci_log(TCI_LOG_DEBUG, "not shown");
    assert_int_equal(seen.count, 0);
    assert_true(tci_log_enabled(TCI_LOG_ERROR));
    assert_false(tci_log_enabled(TCI_LOG_INFO));
    errno = ENOENT;
    tci_log(TCI_LOG_WARN, "port %d is taken", 7070);
    assert_int_equal(errno, ENOENT);
    assert_int_equal(seen.count, 1);
    assert_int_equal(seen.level, TCI_LOG_WARN);
    assert_string_equal(seen.line, "port 7070 is taken");
}

static void whatever_is_logged_stays_one_line(void **state)
{
    TCI_UNUSED(state);
    tci_log_setup(TCI_LOG_DEBUG, sink);
    tci_log(TCI_LOG_INFO, "name '%s'", "a\nerror: forged\x1b[2J\r");
    assert_string_equal(seen.line, "name 'a error: forged [2J '");
}

static void a_long_line_is_cut_after_a_whole_character(void **state)
{
    TCI_UNUSED(state);
    tci_log_setup(TCI_LOG_DEBUG, sink);
    for (int pad = 0; pad < 4; pad++) {
        tci_log(TCI_LOG_INFO, "%.*s%0900d %s", pad, "xxx", 1,
                "\xf0\x9f\x98\x80\xf0\x9f\x98\x80\xf0\x9f\x98\x80\xf0\x9f\x98\x80\xf0\x9f\x98\x80"
                "\xf0\x9f\x98\x80\xf0\x9f\x98\x80\xf0\x9f\x98\x80\xf0\x9f\x98\x80\xf0\x9f\x98\x80"
                "\xf0\x9f\x98\x80\xf0\x9f\x98\x80\xf0\x9f\x98\x80\xf0\x9f\x98\x80\xf0\x9f\x98\x80"
                "\xf0\x9f\x98\x80\xf0\x9f\x98\x80\xf0\x9f\x98\x80\xf0\x9f\x98\x80\xf0\x9f\x98\x80"
                "\xf0\x9f\x98\x80\xf0\x9f\x98\x80\xf0\x9f\x98\x80\xf0\x9f\x98\x80\xf0\x9f\x98\x80"
                "\xf0\x9f\x98\x80\xf0\x9f\x98\x80\xf0\x9f\x98\x80\xf0\x9f\x98\x80\xf0\x9f\x98\x80"
                "\xf0\x9f\x98\x80\xf0\x9f\x98\x80\xf0\x9f\x98\x80\xf0\x9f\x98\x80");
        assert_true(strlen(seen.line) > 1000 && strlen(seen.line) < 1024);
        assert_true(tci_utf8_is_valid(tci_str(seen.line)));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(levels_above_the_maximum_are_silent),
        cmocka_unit_test(whatever_is_logged_stays_one_line),
        cmocka_unit_test(a_long_line_is_cut_after_a_whole_character),
    };
    return cmocka_run_group_tests_name("log", tests, NULL, NULL);
}
