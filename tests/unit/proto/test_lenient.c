/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading leniently: what is unknown or does not fit is passed over, what is required is not. */
#include "proto/gen/pi_env.h"
#include "proto_tests.h"

static int lenient(fixture *f, const tci_type *type, const char *text, void *ret)
{
    memset(ret, 0x5a, tci_type_size(type));
    return tci_proto_decode_lenient(type, parse(f, text), &f->arena, ret, &f->err);
}

static void test_unknown_fields_are_passed_over(void **state)
{
    tci_pi_mkdir_params p;
    assert_int_equal(lenient(*state, &tci_pi_mkdir_params_type,
                             "{\"op\":\"mkdir\",\"new\":[{}],\"path\":\"/a\",\"recursive\":true}",
                             &p),
                     0);
    assert_true(p.recursive && tci_str_eq(p.path, TC_STR("/a")));
}

static void test_what_does_not_fit_counts_as_absent(void **state)
{
    tci_pi_write_params w;
    tci_pi_pread_params r;
    tci_pi_exec_params e;
    assert_int_equal(lenient(*state, &tci_pi_write_params_type,
                             "{\"path\":\"/a\",\"parents\":0,\"keep\":\"yes\",\"mode\":99999}", &w),
                     0);
    assert_true(w.parents);
    assert_false(w.keep || w.has_mode || w.has_executable);
    assert_int_equal(w.mode, 0);
    static const char *const offsets[] = {"-1", "1.5", "\"3\"", "null", "1e3", "[]"};
    for (size_t i = 0; i < TCI_ARRAY_LEN(offsets); i++) {
        char text[80];
        (void)snprintf(text, sizeof text, "{\"handle\":1,\"length\":2,\"offset\":%s}", offsets[i]);
        assert_int_equal(lenient(*state, &tci_pi_pread_params_type, text, &r), 0);
        assert_false(r.has_offset);
        assert_int_equal(r.offset, 0);
    }
    assert_int_equal(lenient(*state, &tci_pi_exec_params_type,
                             "{\"argv\":[\"a\",1],\"cwd\":\"/\",\"env\":{\"B\":\"2\",\"A\":1,\"C\":"
                             "null,\"D\":\"4\"},\"spill\":{\"afterBytes\":1},\"timeoutMs\":-0.5}",
                             &e),
                     0);
    assert_int_equal(e.argv.count, 0);
    assert_int_equal(e.env.count, 2);
    assert_true(tci_str_eq(e.env.items[1].key, TC_STR("D")));
    assert_false(e.has_spill || e.has_window || e.has_command);
    assert_true(e.inherit_env && e.has_timeout_ms && e.timeout_ms < 0);
    assert_int_equal(e.spill.after_bytes, 0); /* nothing of it is left behind */
}

static void test_required_fields_are_required(void **state)
{
    fixture *f = *state;
    tci_pi_truncate_params p;
    static const char *const bad[] = {"{\"path\":\"/a\"}", "{\"path\":\"/a\",\"size\":-1}",
                                      "{\"path\":\"/a\",\"size\":1.5}",
                                      "{\"path\":\"/a\",\"size\":\"1\"}"};
    for (size_t i = 0; i < TCI_ARRAY_LEN(bad); i++) {
        assert_int_equal(lenient(f, &tci_pi_truncate_params_type, bad[i], &p), TC_E_INVALID);
        assert_non_null(strstr(f->err.msg, "missing or invalid"));
        assert_non_null(strstr(f->err.msg, "size"));
    }
    assert_int_equal(lenient(f, &tci_pi_truncate_params_type, "[]", &p), TC_E_INVALID);
}

static void test_results_are_written_as_old_clients_need_them(void **state)
{
    fixture *f = *state;
    tci_pi_readdir_result page = {.done = true};
    tci_proto_encode(&tci_pi_readdir_result_type, &page, &f->out, 0);
    assert_true(tci_str_eq(tci_buf_str(&f->out), TC_STR("{\"done\":true,\"entries\":[]}")));
    tci_buf_clear(&f->out);
    tci_pi_info info = {.name = TC_STR("a"), .kind = TCI_PI_KIND_SYMLINK, .mtime_sec = -7};
    tci_proto_encode(&tci_pi_info_type, &info, &f->out, 0);
    assert_true(tci_str_eq(tci_buf_str(&f->out),
                           TC_STR("{\"dev\":0,\"ino\":0,\"kind\":\"symlink\",\"mtimeNsec\":0,"
                                  "\"mtimeSec\":-7,\"name\":\"a\",\"size\":0}")));
    tci_pi_info again;
    assert_int_equal(
        lenient(f, &tci_pi_info_type, (tci_buf_append_byte(&f->out, '\0'), f->out.ptr), &again), 0);
    assert_int_equal(again.mtime_sec, -7);
}

static void test_operations_are_found_by_name(void **state)
{
    (void)state;
    for (size_t i = 0; i < TCI_PI_OP_COUNT; i++)
        assert_ptr_equal(tci_pi_op_find(tci_pi_ops[i].name), &tci_pi_ops[i]);
    assert_null(tci_pi_op_find(TC_STR("")));
    assert_null(tci_pi_op_find(TC_STR("scanlines")));
    assert_true(tci_pi_op_find(TC_STR("commit"))->is_ext);
    assert_false(tci_pi_op_find(TC_STR("listFiles"))->is_ext);
}

int run_lenient_tests(void)
{
    const struct CMUnitTest tests[] = {
        PROTO_TEST(test_unknown_fields_are_passed_over),
        PROTO_TEST(test_what_does_not_fit_counts_as_absent),
        PROTO_TEST(test_required_fields_are_required),
        PROTO_TEST(test_results_are_written_as_old_clients_need_them),
        PROTO_TEST(test_operations_are_found_by_name),
    };
    return cmocka_run_group_tests_name("lenient", tests, NULL, NULL);
}
