/* SPDX-License-Identifier: Apache-2.0
 *
 * Limits: types, range, and what must not be larger than what. */
#include "load.h"

static void each_is_a_positive_integer(void **state)
{
    (void)state;
    static const json_verdict rows[] = {
        {"{\"limits\":null}", "limits: must be an object"},
        {"{\"limits\":{}}", NULL},
        {"{\"limits\":{\"x\":1}}", "limits.x: there is no such field"},
        {"{\"limits\":{\"max_sessions\":0}}",
         "limits.max_sessions must be between 1 and 2305843009213693951"},
        {"{\"limits\":{\"max_sessions\":-1}}", "limits.max_sessions: must be an unsigned integer"},
        {"{\"limits\":{\"max_sessions\":\"1\"}}",
         "limits.max_sessions: must be an unsigned integer"},
        {"{\"limits\":{\"max_sessions\":1e2}}", "limits.max_sessions: must be an unsigned integer"},
        {"{\"limits\":{\"max_sessions\":null}}",
         "limits.max_sessions: must be an unsigned integer"},
        {"{\"limits\":{\"max_sessions\":2305843009213693951}}", NULL},
        {"{\"limits\":{\"max_sessions\":2305843009213693952}}",
         "limits.max_sessions must be between"},
        {"{\"limits\":{\"max_sessions\":18446744073709551616}}", "limits.max_sessions: must be"},
        {"{\"limits\":{\"max_request_bytes\":1}}", NULL},
        {"{\"limits\":{\"max_transfer_frame_bytes\":1}}", NULL},
    };
    check_json(rows, TCI_ARRAY_LEN(rows));
}

static void a_session_never_has_more_than_the_device(void **state)
{
    (void)state;
    static const json_verdict rows[] = {
        {"{\"limits\":{\"max_concurrent_operations\":257}}",
         "max_concurrent_operations|max_device_concurrent"},
        {"{\"limits\":{\"max_processes\":513}}",
         "limits.max_processes|limits.max_device_processes"},
        {"{\"limits\":{\"max_device_processes\":127}}",
         "limits.max_processes|limits.max_device_processes"},
        {"{\"limits\":{\"max_process_records\":4097}}",
         "max_process_records|max_device_process_records"},
        {"{\"limits\":{\"max_operation_records\":65537}}",
         "max_operation_records|max_device_operation"},
        {"{\"limits\":{\"max_spool_bytes\":4294967297}}", "max_spool_bytes|max_device_spool_bytes"},
        {"{\"limits\":{\"max_spool_objects\":65537}}",
         "max_spool_objects|max_device_spool_objects"},
        {"{\"limits\":{\"max_concurrent_file_transfers\":129}}",
         "max_concurrent_file_transfers|max_device_file"},
        {"{\"limits\":{\"max_file_transfer_records\":2049}}",
         "max_file_transfer_records|max_device_file"},
        {"{\"limits\":{\"max_staged_file_bytes\":34359738369}}",
         "max_staged_file_bytes|max_device_staged"},
        {"{\"limits\":{\"max_staged_file_objects\":2049}}",
         "max_staged_file_objects|max_device_staged"},
        {"{\"limits\":{\"max_device_processes\":5000}}", NULL},
    };
    check_json(rows, TCI_ARRAY_LEN(rows));
}

static void what_covers_what(void **state)
{
    (void)state;
    static const json_verdict rows[] = {
        {"{\"limits\":{\"max_process_records\":127}}",
         "limits.max_processes|limits.max_process_records"},
        {"{\"limits\":{\"max_process_records\":128}}", NULL},
        {"{\"limits\":{\"max_file_transfer_records\":63}}",
         "max_concurrent_file_transfers|max_file_transfer"},
        {"{\"limits\":{\"max_output_preview_bytes\":268435457}}",
         "max_output_preview_bytes|per_stream"},
        {"{\"limits\":{\"max_output_preview_bytes\":268435456}}", NULL},
        {"{\"limits\":{\"max_spool_bytes\":536870911}}",
         "max_output_bytes_per_stream|half of|max_spool_bytes"},
        {"{\"limits\":{\"max_spool_bytes\":536870912}}", NULL},
        {"{\"limits\":{\"max_spool_objects\":1}}", NULL},
    };
    check_json(rows, TCI_ARRAY_LEN(rows));
}

static void all_of_them_arrive(void **state)
{
    loaded l;
    words vars = {{"A13N_ENVD_CONFIG_JSON={\"limits\":{\"max_sessions\":3,\"max_device_staged_file_"
                   "objects\":777}}"}};
    (void)state;
    load(&l, "a13n-envd", NULL, &vars);
    assert_int_equal(l.rc, 0);
    tci_limits want = {
#define X(name, value) .name = value,
        TCI_LIMITS(X)
#undef X
    };
    want.max_sessions = 3;
    want.max_device_staged_file_objects = 777;
#define X(name, value) assert_int_equal(l.config.limits.name, want.name);
    TCI_LIMITS(X)
#undef X
    unload(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_is_a_positive_integer),
        cmocka_unit_test(a_session_never_has_more_than_the_device),
        cmocka_unit_test(what_covers_what),
        cmocka_unit_test(all_of_them_arrive),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
