/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests and replies: what is taken, what is refused, and whose id a refusal carries. */
#include "proto_tests.h"

static int request(fixture *f, const char *text, tci_eip_request *ret)
{
    return tci_eip_request_decode(tci_str(text), &f->arena, ret, &f->err);
}

static void assert_id(fixture *f, const tci_eip_request *r, const char *want)
{
    tci_buf_clear(&f->out);
    tci_json_put(&f->out, &r->id, TCI_JSON_AS_IS);
    tci_buf_append_byte(&f->out, '\0');
    assert_string_equal(f->out.ptr, want);
}

static void test_request(void **state)
{
    fixture *f = *state;
    tci_eip_request r;
    assert_int_equal(request(f,
                             "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"file.stat\","
                             "\"params\":{\"a\":1},\"eip_session\":\"s-1\",\"other\":[1]}",
                             &r),
                     0);
    assert_id(f, &r, "7");
    assert_true(tci_str_eq(r.method, TC_STR("file.stat")));
    assert_true(r.has_session);
    assert_true(tci_str_eq(r.session, TC_STR("s-1")));
    assert_non_null(tci_json_get(r.params, TC_STR("a")));
    assert_false(r.wants_extensions);
}

static void test_request_extensions(void **state)
{
    static const struct {
        const char *value;
        bool wants;
    } cases[] = {{"1", true}, {"0", false}, {"2", false}, {"true", false}, {"\"1\"", false}};
    for (size_t i = 0; i < TCI_ARRAY_LEN(cases); i++) {
        tci_eip_request r;
        char text[160];
        (void)snprintf(
            text, sizeof text,
            "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\",\"params\":{},\"tc_ext\":%s}",
            cases[i].value);
        assert_int_equal(request(*state, text, &r), 0);
        assert_int_equal(r.wants_extensions, cases[i].wants);
        assert_false(r.has_session);
    }
}

static void test_request_ids(void **state)
{
    fixture *f = *state;
    static const struct {
        const char *id;
        bool is_usable;
    } cases[] = {{"0", true},
                 {"-9223372036854775808", true},
                 {"9223372036854775807", true},
                 {"\"a\"", true},
                 {"9223372036854775808", false},
                 {"1.0", false},
                 {"1e2", false},
                 {"\"\"", false},
                 {"null", false},
                 {"true", false},
                 {"[1]", false},
                 {"{}", false}};
    for (size_t i = 0; i < TCI_ARRAY_LEN(cases); i++) {
        tci_eip_request r;
        char text[160];
        (void)snprintf(text, sizeof text,
                       "{\"jsonrpc\":\"2.0\",\"id\":%s,\"method\":\"m\",\"params\":{}}",
                       cases[i].id);
        assert_int_equal(request(f, text, &r), cases[i].is_usable ? 0 : TC_E_INVALID);
        assert_id(f, &r, cases[i].is_usable ? cases[i].id : "null");
    }
    for (int n = 128; n <= 129; n++) {
        tci_eip_request r;
        char text[300];
        char id[160];
        memset(id, 'x', sizeof id);
        (void)snprintf(text, sizeof text,
                       "{\"jsonrpc\":\"2.0\",\"id\":\"%.*s\",\"method\":\"m\",\"params\":{}}", n,
                       id);
        assert_int_equal(request(f, text, &r), n == 128 ? 0 : TC_E_INVALID);
    }
}

static void test_refused_requests_keep_the_id(void **state)
{
    fixture *f = *state;
    static const char *const texts[] = {
        "{\"id\":5,\"method\":\"m\",\"params\":{}}",
        "{\"jsonrpc\":\"1.0\",\"id\":5,\"method\":\"m\",\"params\":{}}",
        "{\"jsonrpc\":2.0,\"id\":5,\"method\":\"m\",\"params\":{}}",
        "{\"jsonrpc\":\"2.0\",\"id\":5,\"params\":{}}",
        "{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":7,\"params\":{}}",
        "{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"m\"}",
        "{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"m\",\"params\":[]}",
        "{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"m\",\"params\":null}",
        "{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"m\",\"params\":{},\"eip_session\":1}",
        "{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"m\",\"params\":{},\"eip_x\":1}",
        "{\"jsonrpc\":\"2.0\",\"method\":\"m\",\"params\":{\"a\":1,\"a\":2},\"id\":5}",
        "{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"m\",\"method\":\"m\",\"params\":{}}",
    };
    for (size_t i = 0; i < TCI_ARRAY_LEN(texts); i++) {
        tci_eip_request r;
        if (request(f, texts[i], &r) != TC_E_INVALID)
            fail_msg("accepted: %s", texts[i]);
        assert_id(f, &r, "5");
        assert_false(r.has_session);
        assert_null(r.params);
    }
}

static void test_refused_without_an_id(void **state)
{
    fixture *f = *state;
    static const struct {
        const char *text;
        int code;
    } cases[] = {{"", TC_E_PARSE},
                 {"oops", TC_E_PARSE},
                 {"{\"id\":5", TC_E_PARSE},
                 {"{\"id\":5} x", TC_E_PARSE},
                 {"\xef\xbb\xbf{}", TC_E_PARSE},
                 {"[1,2]", TC_E_INVALID},
                 {"\"x\"", TC_E_INVALID},
                 {"{}", TC_E_INVALID}};
    for (size_t i = 0; i < TCI_ARRAY_LEN(cases); i++) {
        tci_eip_request r;
        assert_int_equal(request(f, cases[i].text, &r), cases[i].code);
        assert_id(f, &r, "null");
    }
}

static void test_no_session_by_null(void **state)
{
    tci_eip_request r;
    assert_int_equal(request(*state,
                             "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\",\"params\":{},"
                             "\"eip_session\":null}",
                             &r),
                     0);
    assert_false(r.has_session);
    assert_int_equal(request(*state,
                             "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\",\"params\":{},"
                             "\"eip_session\":\"\"}",
                             &r),
                     0);
    assert_true(r.has_session);
}

static void test_depth(void **state)
{
    fixture *f = *state;
    for (int depth = 125; depth <= 126; depth++) { /* envelope and params make two more */
        tci_eip_request r;
        tci_buf_clear(&f->out);
        tci_buf_append_str(&f->out, TC_STR("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\","
                                           "\"params\":{\"a\":"));
        for (int i = 0; i < depth; i++)
            tci_buf_append_byte(&f->out, '[');
        for (int i = 0; i < depth; i++)
            tci_buf_append_byte(&f->out, ']');
        tci_buf_append_str(&f->out, TC_STR("}}"));
        int rc = tci_eip_request_decode(tci_buf_str(&f->out), &f->arena, &r, &f->err);
        assert_int_equal(rc, depth == 125 ? 0 : TC_E_PARSE);
    }
}

static void assert_out(fixture *f, const char *want)
{
    assert_true(tci_buf_ok(&f->out));
    tci_buf_append_byte(&f->out, '\0');
    assert_string_equal(f->out.ptr, want);
    tci_buf_clear(&f->out);
}

static void test_put_result(void **state)
{
    fixture *f = *state;
    const tci_eip_session_keepalive_result alive = {.alive = true};
    const tc_str session = TC_STR("s-1"), ready = TC_STR("{\"x\":1}");
    const tci_json *id = parse(f, "9007199254740993"), *name = parse(f, "\"a\\\"b\"");
    tci_eip_put_result(&f->out, id, &session, &tci_eip_session_keepalive_result_type, &alive);
    assert_out(f, "{\"eip_session\":\"s-1\",\"id\":9007199254740993,\"jsonrpc\":\"2.0\","
                  "\"result\":{\"alive\":true}}");
    tci_eip_put_result(&f->out, name, NULL, NULL, &ready);
    assert_out(f, "{\"id\":\"a\\\"b\",\"jsonrpc\":\"2.0\",\"result\":{\"x\":1}}");
}

static void test_put_error(void **state)
{
    fixture *f = *state;
    const tc_str session = TC_STR("s-1");
    tci_eip_put_error(&f->out, parse(f, "1"), &session, -32602, TC_STR("m"),
                      TC_STR("{\"error_type\":\"invalid_params\"}"));
    assert_out(f, "{\"eip_session\":\"s-1\",\"error\":{\"code\":-32602,"
                  "\"data\":{\"error_type\":\"invalid_params\"},\"message\":\"m\"},\"id\":1,"
                  "\"jsonrpc\":\"2.0\"}");
    tci_eip_put_error(&f->out, NULL, NULL, -32700, TC_STR("invalid JSON payload"), TC_STR("{}"));
    assert_out(f, "{\"error\":{\"code\":-32700,\"data\":{},\"message\":\"invalid JSON payload\"},"
                  "\"id\":null,\"jsonrpc\":\"2.0\"}");
}

static void test_put_in_pieces(void **state)
{
    fixture *f = *state;
    const tc_str session = TC_STR("s");
    tci_eip_begin_result(&f->out, parse(f, "1"), &session);
    tci_buf_append(&f->out, "{}", 2);
    tci_eip_end_result(&f->out);
    assert_out(f, "{\"eip_session\":\"s\",\"id\":1,\"jsonrpc\":\"2.0\",\"result\":{}}");
    tci_eip_put_error_text(&f->out, parse(f, "1"), NULL, TC_STR("{\"code\":1}"));
    assert_out(f, "{\"error\":{\"code\":1},\"id\":1,\"jsonrpc\":\"2.0\"}");
    const tci_eip_error_data data = {.error_type = TCI_EIP_ERROR_TYPE_BUSY,
                                     .retry_hint = TCI_EIP_RETRY_HINT_AFTER_CAPACITY};
    tci_eip_put_error_object(&f->out, -32030, TC_STR("m"), &data);
    assert_out(f, "{\"code\":-32030,\"data\":{\"dispatch_stage\":\"pre_dispatch\","
                  "\"error_type\":\"busy\",\"retry_hint\":\"after_capacity\"},\"message\":\"m\"}");
}

static void test_put_request(void **state)
{
    fixture *f = *state;
    const tc_str session = TC_STR("s-1");
    const tci_eip_file_stat_params p = {
        .context = {.operation_id = TC_STR("o")}, .path = {TC_STR("/a")}, .follow_symlinks = true};
    tci_eip_put_request(&f->out, 3, &session, TC_STR("file.stat"), &tci_eip_file_stat_params_type,
                        &p, true);
    tci_buf_append_byte(&f->out, '\0');
    tci_eip_request r;
    assert_int_equal(request(f, f->out.ptr, &r), 0);
    assert_true(r.wants_extensions);
    f->out.len--;
    assert_out(f, "{\"eip_session\":\"s-1\",\"id\":3,\"jsonrpc\":\"2.0\",\"method\":\"file.stat\","
                  "\"params\":{\"context\":{\"operation_id\":\"o\"},\"path\":{\"path\":\"/a\"}},"
                  "\"tc_ext\":1}");
}

static void test_reply(void **state)
{
    fixture *f = *state;
    tci_eip_reply r;
    assert_int_equal(
        tci_eip_reply_decode(TC_STR("{\"eip_session\":\"s\",\"id\":18446744073709551615,"
                                    "\"jsonrpc\":\"2.0\",\"result\":{\"a\":1}}"),
                             &f->arena, &r, &f->err),
        0);
    assert_true(r.has_id && r.has_session && r.id == UINT64_MAX);
    assert_non_null(tci_json_get(r.result, TC_STR("a")));
    assert_int_equal(tci_eip_reply_decode(TC_STR("{\"error\":{\"code\":-32700,\"message\":\"m\","
                                                 "\"data\":{}},\"id\":null,\"jsonrpc\":\"2.0\"}"),
                                          &f->arena, &r, &f->err),
                     0);
    assert_false(r.has_id || r.has_session);
    assert_null(r.result);
    assert_non_null(r.data);
    assert_int_equal(r.code, -32700);
}

static void test_refused_replies(void **state)
{
    fixture *f = *state;
    static const char *const texts[] = {
        "",
        "[]",
        "{\"id\":1,\"jsonrpc\":\"2.0\"}",
        "{\"id\":1,\"result\":{}}",
        "{\"jsonrpc\":\"2.0\",\"result\":{}}",
        "{\"id\":1,\"jsonrpc\":\"2.0\",\"result\":[]}",
        "{\"id\":\"1\",\"jsonrpc\":\"2.0\",\"result\":{}}",
        "{\"id\":-1,\"jsonrpc\":\"2.0\",\"result\":{}}",
        "{\"id\":1,\"jsonrpc\":\"2.0\",\"result\":{},\"error\":{\"code\":1,\"message\":\"\"}}",
        "{\"id\":1,\"jsonrpc\":\"2.0\",\"error\":{\"code\":1}}",
        "{\"id\":1,\"jsonrpc\":\"2.0\",\"error\":{\"code\":1.5,\"message\":\"\"}}",
        "{\"id\":1,\"jsonrpc\":\"2.0\",\"error\":{\"code\":4294967296,\"message\":\"\"}}",
        "{\"id\":1,\"jsonrpc\":\"2.0\",\"error\":{\"code\":1,\"message\":\"\",\"x\":1}}",
        "{\"id\":1,\"jsonrpc\":\"2.0\",\"result\":{},\"x\":1}",
        "{\"id\":1,\"jsonrpc\":\"2.0\",\"result\":{},\"eip_session\":1}",
        "{\"id\":1,\"id\":1,\"jsonrpc\":\"2.0\",\"result\":{}}",
    };
    for (size_t i = 0; i < TCI_ARRAY_LEN(texts); i++) {
        tci_eip_reply r;
        if (tci_eip_reply_decode(tci_str(texts[i]), &f->arena, &r, &f->err) != TC_E_PROTOCOL)
            fail_msg("accepted: %s", texts[i]);
    }
}

int run_envelope_tests(void)
{
    const struct CMUnitTest tests[] = {
        PROTO_TEST(test_request),
        PROTO_TEST(test_request_extensions),
        PROTO_TEST(test_request_ids),
        PROTO_TEST(test_refused_requests_keep_the_id),
        PROTO_TEST(test_refused_without_an_id),
        PROTO_TEST(test_no_session_by_null),
        PROTO_TEST(test_depth),
        PROTO_TEST(test_put_result),
        PROTO_TEST(test_put_error),
        PROTO_TEST(test_put_in_pieces),
        PROTO_TEST(test_put_request),
        PROTO_TEST(test_reply),
        PROTO_TEST(test_refused_replies),
    };
    return cmocka_run_group_tests_name("proto envelope", tests, NULL, NULL);
}
