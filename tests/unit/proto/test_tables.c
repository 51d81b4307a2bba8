/* SPDX-License-Identifier: Apache-2.0
 *
 * The method table and the table of errors. */
#include "proto_tests.h"

static void test_methods_are_found_by_name(void **state)
{
    TCI_UNUSED(state);
    for (int i = 0; i < TCI_EIP_METHOD_COUNT; i++) {
        const tci_method *m = &tci_eip_methods[i];
        assert_ptr_equal(tci_method_find(m->name), m);
        assert_null(tci_method_find(tci_str_sub(m->name, 0, m->name.len - 1)));
        assert_null(tci_method_find(tci_str_sub(m->name, 1, m->name.len)));
    }
    assert_null(tci_method_find(TC_STR("")));
    assert_null(tci_method_find(TC_STR("no.such_method")));
    assert_null(tci_method_find(TC_STR("File.stat")));
    assert_null(tci_method_find(TC_STR("file.stat file.stat file.stat file.stat file.stat")));
    const tc_str with_nul = {"file.stat\0", 10};
    assert_null(tci_method_find(with_nul));
    assert_int_equal(TCI_EIP_METHOD_COUNT, 54);
}

static void test_columns(void **state)
{
    TCI_UNUSED(state);
    const tci_method *m = &tci_eip_methods[TCI_EIP_PROCESS_KILL];
    assert_true(m->is_reconciling);
    assert_int_equal(m->lane, TCI_LANE_CLEANUP);
    assert_int_equal(m->replay, TCI_REPLAY_TERMINAL);
    assert_int_equal(m->feature, TCI_FEATURE_COMMANDS);
    assert_int_equal(tci_eip_methods[TCI_EIP_SESSION_OPEN].scope, TCI_SCOPE_DEVICE);
    assert_int_equal(tci_eip_methods[TCI_EIP_SESSION_ATTACH].scope, TCI_SCOPE_SESSION);
    assert_int_equal(tci_eip_methods[TCI_EIP_SESSION_KEEPALIVE].lane, TCI_LANE_KEEPALIVE);
    assert_int_equal(tci_eip_methods[TCI_EIP_FILE_STAT].where, TCI_WHERE_LOOP);
    assert_true(tci_eip_methods[TCI_EIP_FILE_SEARCH].is_bulk);
    for (int i = 0; i < TCI_EIP_METHOD_COUNT; i++) {
        m = &tci_eip_methods[i];
        assert_true(m->scope == TCI_SCOPE_SESSION || m->replay == TCI_REPLAY_EXTERNAL);
        assert_true(!m->is_bulk || m->where == TCI_WHERE_WORKER);
    }
}

static void assert_row(const tci_eip_error_row *row, int32_t code, const char *type,
                       const char *message, const char *hint)
{
    assert_int_equal(row->code, code);
    assert_true(tci_str_eq(tci_eip_error_type_names[row->type], tci_str(type)));
    assert_true(tci_str_eq(row->message, tci_str(message)));
    assert_true(tci_str_eq(tci_eip_retry_hint_names[row->hint], tci_str(hint)));
}

static void test_errors_by_family(void **state)
{
    TCI_UNUSED(state);
    assert_row(tci_eip_error_row_for(TCI_FAMILY_FILE, TC_E_NOT_FOUND), -32011,
               "not_found_or_denied", "resource was not found or is not visible", "never");
    assert_row(tci_eip_error_row_for(TCI_FAMILY_TRANSFER, TC_E_NOT_FOUND), -32011,
               "not_found_or_denied", "file resource was not found or is denied", "never");
    assert_row(tci_eip_error_row_for(TCI_FAMILY_FILE, TC_E_CONFLICT), -32060, "conflict",
               "resource state conflicts with the requested operation", "reconcile_first");
    assert_row(tci_eip_error_row_for(TCI_FAMILY_TRANSFER, TC_E_CONFLICT), -32060, "conflict",
               "file transfer precondition changed", "after_refresh");
    assert_row(tci_eip_error_row_for(TCI_FAMILY_COMMAND, TC_E_DENIED), -32010, "denied",
               "command execution was denied by configured policy", "after_refresh");
    assert_row(tci_eip_error_row_for(TCI_FAMILY_OUTPUT, TC_E_BAD_HANDLE), -32021, "invalid_handle",
               "output reference was not found", "never");
}

static void test_errors_without_a_row(void **state)
{
    TCI_UNUSED(state);
    assert_row(tci_eip_error_row_for(TCI_FAMILY_PORT, TC_E_NO_METHOD), -32601, "method_not_found",
               "method not found", "never");
    assert_row(tci_eip_error_row_for(TCI_FAMILY_PROCESS, (tc_code)-9999), -32603, "internal_error",
               "process manager failed", "never");
    assert_int_equal(tci_eip_error_row_for((tci_family)77, TC_OK)->code, -32603);
}

static void test_rows_are_consistent(void **state)
{
    TCI_UNUSED(state);
    for (int family = TCI_FAMILY_DEVICE; family <= TCI_FAMILY_COMPUTER; family++) {
        for (int code = 0; code >= -40; code--) {
            const tci_eip_error_row *row = tci_eip_error_row_for((tci_family)family, (tc_code)code);
            assert_int_equal(row->code, tci_eip_error_code(tci_eip_error_type_names[row->type]));
            assert_true(row->message.len > 0);
        }
    }
    for (int i = 0; i < TCI_EIP_CAUSE_COUNT; i++)
        assert_int_equal(
            tci_eip_error_causes[i].code,
            tci_eip_error_code(tci_eip_error_type_names[tci_eip_error_causes[i].type]));
}

static void test_error_types(void **state)
{
    TCI_UNUSED(state);
    assert_int_equal(tci_eip_error_code(TC_STR("busy")), -32030);
    assert_int_equal(tci_eip_error_code(TC_STR("nonsense")), 0);
    assert_int_equal(tci_eip_error_local(TC_STR("not_found_or_denied")), TC_E_NOT_FOUND);
    assert_int_equal(tci_eip_error_local(TC_STR("unknown_outcome")), TC_E_UNKNOWN_OUTCOME);
    assert_int_equal(tci_eip_error_local(TC_STR("nonsense")), TC_E_INTERNAL);
}

static void test_members_by_name(void **state)
{
    TCI_UNUSED(state);
    const tci_eip_file_stat_params p = {.follow_symlinks = true};
    const tci_type *type = &tci_eip_file_stat_params_type;
    assert_ptr_equal(tci_type_member(type, &p, TC_STR("context")), &p.context);
    assert_ptr_equal(tci_type_member(type, &p, TC_STR("follow_symlinks")), &p.follow_symlinks);
    assert_null(tci_type_member(type, &p, TC_STR("contex")));
    const tci_eip_encoded_bytes b = {TC_STR("x")};
    assert_null(tci_type_member(&tci_eip_encoded_bytes_type, &b, TC_STR("encoding")));
}

int run_table_tests(void)
{
    const struct CMUnitTest tests[] = {
        PROTO_TEST(test_methods_are_found_by_name), PROTO_TEST(test_columns),
        PROTO_TEST(test_errors_by_family),          PROTO_TEST(test_errors_without_a_row),
        PROTO_TEST(test_rows_are_consistent),       PROTO_TEST(test_error_types),
        PROTO_TEST(test_members_by_name),
    };
    return cmocka_run_group_tests_name("proto tables", tests, NULL, NULL);
}
