/* SPDX-License-Identifier: Apache-2.0
 *
 * Monitoring of a running device: when samples come, and what device.metrics answers. */
#include "fixture.h"

#include "daemon/metrics.h"
#include "plat/clock.h"

#include <string.h>

static void start_monitored(fixture *f)
{
    fixture_prepare(f);
    f->config.has_monitoring = true;
    f->config.sample_interval_ms = 1000;
    fixture_start(f);
    assert_non_null(f->device->metrics);
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
    fixture_prepare(&f);
    f.config.has_monitoring = true;
    f.config.sample_interval_ms = 60000;
    fixture_start(&f);
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
    start_monitored(&f);
    tci_eip_metrics_sample first = wait_for(&f, 1);
    tci_eip_metrics_sample second = wait_for(&f, 2);
    assert_int_equal(second.sequence, 2);
    int64_t apart_ms = (second.sampled_at.sec - first.sampled_at.sec) * 1000 +
                       (second.sampled_at.nsec - first.sampled_at.nsec) / 1000000;
    assert_true(apart_ms >= 900);
    fixture_stop(&f);
}

static void the_answer_is_the_last_sample(void **state)
{
    fixture f;
    (void)state;
    start_monitored(&f);
    (void)wait_for(&f, 1);
    const tci_json *r = ask_metrics(&f);
    assert_ok(r);
    assert_int_equal(number_at(r, "result", "sample_interval_ms", NULL), 1000);
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
    tci_eip_metrics_sample s = wait_for(&f, 2);
    assert_true(was_asked);
    assert_int_equal(s.daemon.sessions, 1);
    assert_int_equal(s.daemon.connections, 7);
    tci_metrics_count_connections(f.device->metrics, NULL, NULL);
    s = wait_for(&f, 3);
    assert_int_equal(s.daemon.connections, 1);
    fixture_stop(&f);
}

static void the_text_goes_with_the_sample(void **state)
{
    fixture f;
    tci_buf text;
    (void)state;
    start_monitored(&f);
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
