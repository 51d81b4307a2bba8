/* SPDX-License-Identifier: Apache-2.0
 *
 * Monitoring of a running device: when samples come, and what device.metrics answers. */
#include "fixture.h"

#include "daemon/metrics.h"
#include "plat/clock.h"

#include <string.h>

static void start_monitored_every(fixture *f, uint64_t interval_ms)
{
    fixture_prepare(f);
    f->config.has_monitoring = true;
    f->config.sample_interval_ms = interval_ms;
    fixture_start(f);
    assert_non_null(f->device->metrics);
}

static void start_monitored(fixture *f)
{
    start_monitored_every(f, 1000);
}

/* Turn the loop until the sample with this number is there. */
static tci_eip_metrics_sample wait_for(fixture *f, uint64_t sequence)
{
    tci_eip_metrics_sample s = {0};
    int64_t give_up = tci_clock_mono_ns() + INT64_C(20000000000);
    while (!tci_metrics_sample(f->device->metrics, &s) || s.sequence < sequence) {
        assert_true(tci_clock_mono_ns() < give_up);
        tci_loop_turn(f->loop, 100);
    }
    return s;
}

/* One that was begun from here on: that under way may have been begun before. */
static tci_eip_metrics_sample wait_for_fresh(fixture *f)
{
    return wait_for(f, wait_for(f, 1).sequence + 2);
}

static const tci_json *ask_metrics(fixture *f)
{
    return answer(f, ask_in(f, NULL, "device.metrics",
                            "{\"expected_device_id\":\"device-1\",\"expected_generation\":%llu}",
                            (unsigned long long)f->device->generation));
}

static void the_first_sample_does_not_wait_for_the_interval(void **state)
{
    fixture f;
    (void)state;
    start_monitored_every(&f, 60000);
    tci_eip_metrics_sample s = wait_for(&f, 1);
    assert_int_equal(s.sequence, 1);
    assert_false(s.system.has_cpu_busy_percent);
    assert_int_equal(tci_metrics_interval_ms(f.device->metrics), 60000);
    fixture_stop(&f);
}

static void samples_come_every_interval(void **state)
{
    fixture f;
    (void)state;
    tci_instant began = tci_clock_now();
    start_monitored(&f);
    for (uint64_t i = 1; i <= 3; i++) {
        tci_eip_metrics_sample s = wait_for(&f, i);
        int64_t since_ms =
            (s.sampled_at.sec - began.sec) * 1000 + (s.sampled_at.nsec - began.nsec) / 1000000;
        assert_int_equal(s.sequence, i);
        assert_true(since_ms >= (int64_t)(i - 1) * 1000 - 100);
    }
    fixture_stop(&f);
}

static void the_answer_is_the_last_sample(void **state)
{
    fixture f;
    (void)state;
    start_monitored_every(&f, 60000);
    (void)wait_for(&f, 1);
    const tci_json *r = ask_metrics(&f);
    assert_ok(r);
    assert_int_equal(number_at(r, "result", "sample_interval_ms", NULL), 60000);
    assert_int_equal(number_at(r, "result", "sample", "sequence"), 1);
    const tci_json *daemon = at(r, "result", "sample", "daemon", NULL);
    assert_non_null(daemon);
    assert_int_equal(number_at(daemon, "sessions", NULL, NULL), 0);
    assert_int_equal(number_at(daemon, "processes", NULL, NULL), 0);
    assert_non_null(at(r, "result", "sample", "system", "memory_total_bytes", NULL));
    assert_non_null(at(r, "result", "sample", "network", NULL));
    fixture_stop(&f);
}

static size_t count_seven(void *user)
{
    *(bool *)user = true;
    return 7;
}

static void sessions_and_connections_are_counted(void **state)
{
    fixture f;
    bool was_asked = false;
    (void)state;
    start_monitored(&f);
    fixture_open_session(&f);
    tci_metrics_count_connections(f.device->metrics, count_seven, &was_asked);
    tci_eip_metrics_sample s = wait_for_fresh(&f);
    assert_true(was_asked);
    assert_int_equal(s.daemon.sessions, 1);
    assert_int_equal(s.daemon.connections, 7);
    tci_metrics_count_connections(f.device->metrics, NULL, NULL);
    s = wait_for_fresh(&f);
    assert_int_equal(s.daemon.connections, 1);
    fixture_stop(&f);
}

static void the_text_goes_with_the_sample(void **state)
{
    fixture f;
    tci_buf text;
    (void)state;
    start_monitored_every(&f, 60000); /* it does not grow old meanwhile */
    (void)wait_for(&f, 1);
    tci_buf_init(&text, TCI_BUF_MAX);
    tci_metrics_put_prometheus(f.device->metrics, &text);
    assert_true(tci_buf_ok(&text));
    tc_str all = tci_buf_str(&text);
    assert_true(tci_str_find(all, TC_STR("envd_sample_sequence{device_id=\"device-1\"")) < all.len);
    assert_true(tci_str_find(all, TC_STR("envd_system_memory_total_bytes{")) < all.len);
    tci_buf_done(&text);
    fixture_stop(&f);
}

static void without_monitoring_there_is_nothing(void **state)
{
    fixture f;
    (void)state;
    fixture_prepare(&f);
    fixture_start(&f);
    assert_null(f.device->metrics);
    assert_error(ask_metrics(&f), "unsupported");
    tci_metrics_free(NULL);
    fixture_stop(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_sample_does_not_wait_for_the_interval),
        cmocka_unit_test(samples_come_every_interval),
        cmocka_unit_test(the_answer_is_the_last_sample),
        cmocka_unit_test(sessions_and_connections_are_counted),
        cmocka_unit_test(the_text_goes_with_the_sample),
        cmocka_unit_test(without_monitoring_there_is_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
