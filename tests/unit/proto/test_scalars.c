/* SPDX-License-Identifier: Apache-2.0
 *
 * Every kind of value, at and past its bounds. */
#include "proto_tests.h"

/* The form with the value where it says %s. */
static const char *with(char *text, size_t size, const char *form, const char *value)
{
    const char *gap = strstr(form, "%s");
    assert_non_null(gap);
    int n = snprintf(text, size, "%.*s%s%s", (int)(gap - form), form, value, gap + 2);
    assert_in_range(n, 1, size - 1);
    return text;
}

static void assert_values(fixture *f, const tci_type *type, const char *form,
                          const char *const *good, const char *const *bad)
{
    char text[1024];
    for (; *good != NULL; good++)
        if (decode(f, type, with(text, sizeof text, form, *good)) == NULL)
            fail_msg("%s: %s", f->err.msg, text);
    for (; *bad != NULL; bad++)
        assert_refused(f, type, with(text, sizeof text, form, *bad), ": ");
}

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void test_paths(void **state)
{
    assert_values(*state, &tci_eip_path_type, "{\"path\":%s}",
                  WORDS("\"/\"", "\"/a\"", "\"/a/b.c\"", "\"/...\"", "\"/.a\"", "\"/a..\"",
                        "\"/C:/\"", "\"/c:/x\"", "\"/C:\"", "\"/UNC/s/h/\"", "\"/UNC/s\"",
                        "\"/UNC/s/h/x\"", "\"/\\u00fc/ \"", "\"/a\\\\b\""),
                  WORDS("\"\"", "\"a\"", "\"a/b\"", "\"/a/\"", "\"//\"", "\"/a//b\"", "\"/.\"",
                        "\"/..\"", "\"/a/./b\"", "\"/a/..\"", "\"/a\\u0000b\"", "\"/1:/\"",
                        "\"/C:/x/\"", "\"/UNC/s/\"", "\"/UNC/s/h/x/\"", "\"/UNC//h/\"",
                        "\"/UNC/../h/\"", "\"/UNC/s//\"", "1", "null", "[\"/\"]"));
}

static void test_base64(void **state)
{
    const char *form = "{\"encoding\":\"base64\",\"data\":%s}";
    assert_values(*state, &tci_eip_encoded_bytes_type, form,
                  WORDS("\"\"", "\"YQ\"", "\"aGk\"", "\"AP8Q\"", "\"+/+/\""),
                  WORDS("\"YQ==\"", "\"aGk=\"", "\"YR\"", "\"aGl\"", "\"Y\"", "\"-_\"", "\"Y Q\"",
                        "\"YQ\\n\"", "7", "null"));
    const tci_eip_encoded_bytes *b =
        decode(*state, &tci_eip_encoded_bytes_type, "{\"encoding\":\"base64\",\"data\":\"AP8Q\"}");
    assert_non_null(b);
    assert_int_equal(b->data.len, 3);
    assert_memory_equal(b->data.ptr, "\x00\xff\x10", 3);
}

static void test_constants(void **state)
{
    assert_values(*state, &tci_eip_encoded_bytes_type, "{\"encoding\":%s,\"data\":\"\"}",
                  WORDS("\"base64\""), WORDS("\"hex\"", "\"Base64\"", "\"\"", "null", "64"));
    assert_refused(*state, &tci_eip_encoded_bytes_type, "{\"data\":\"\"}", "encoding: missing");
}

static void test_sha256(void **state)
{
    const char *form = "{\"algorithm\":\"sha256\",\"value\":\"%s\"}";
#define HEX60 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789ab"
    assert_values(*state, &tci_eip_content_digest_type, form, WORDS(HEX60 "cdef"),
                  WORDS("", HEX60, HEX60 "cde", HEX60 "cdef0", HEX60 "cdeF", HEX60 "cdeg"));
}

static void test_whole_numbers(void **state)
{
    assert_values(*state, &tci_eip_file_byte_range_type, "{\"offset\":%s}",
                  WORDS("0", "1", "18446744073709551615", "9007199254740993"),
                  WORDS("-1", "18446744073709551616", "1.0", "1e2", "\"1\"", "null", "true"));
    assert_values(*state, &tci_eip_context_type, "{\"operation_id\":\"o\",\"timeout_ms\":%s}",
                  WORDS("1", "18446744073709551615", "null"), WORDS("0", "1.5", "\"5\""));
    assert_values(*state, &tci_eip_port_target_type,
                  "{\"protocol\":\"tcp\",\"address\":\"any\",\"port\":%s}", WORDS("1", "65535"),
                  WORDS("0", "65536", "4294967297"));
    assert_values(*state, &tci_eip_process_status_type,
                  "{\"cleanup\":\"pending\",\"phase\":\"exited\",\"exit_code\":%s}",
                  WORDS("-2147483648", "2147483647", "0", "null"),
                  WORDS("2147483648", "-2147483649", "0.0", "\"0\""));
}

static void test_numbers_keep_their_width(void **state)
{
    const tci_eip_process_status *s =
        decode(*state, &tci_eip_process_status_type,
               "{\"cleanup\":\"failed\",\"phase\":\"failed\",\"exit_code\":-1}");
    assert_non_null(s);
    assert_int_equal(s->exit_code, -1);
    assert_int_equal(s->cleanup, TCI_EIP_CLEANUP_OUTCOME_FAILED);
    assert_encodes(*state, &tci_eip_file_byte_range_type, "{\"offset\":18446744073709551615}",
                   "{\"offset\":18446744073709551615}");
}

static void test_floats(void **state)
{
    const char *form = "{\"avg10_percent\":%s,\"avg60_percent\":0,\"avg300_percent\":0.0,"
                       "\"total_usec\":0}";
    assert_values(*state, &tci_eip_pressure_level_type, form,
                  WORDS("0", "100", "12.5", "1e1", "0.0"),
                  WORDS("-0.1", "100.1", "1e999", "\"1\"", "null", "true"));
}

static void test_flags(void **state)
{
    assert_values(*state, &tci_eip_session_keepalive_result_type, "{\"alive\":%s}", WORDS("true"),
                  WORDS("false", "1", "null", "\"true\""));
    assert_values(*state, &tci_eip_disk_metrics_type, "{\"truncated\":%s}", WORDS("true", "false"),
                  WORDS("0", "null"));
}

static void test_lengths_count_characters(void **state)
{
    fixture *f = *state;
    for (int n = 127; n <= 129; n++) {
        char text[512] = "{\"operation_id\":\"";
        size_t at = strlen(text);
        for (int i = 0; i < n; i++) {
            text[at++] = '\xc3';
            text[at++] = '\xbc';
        }
        memcpy(text + at, "\"}", 3);
        if (n <= 128)
            assert_non_null(decode(f, &tci_eip_context_type, text));
        else
            assert_refused(f, &tci_eip_context_type, text, "operation_id: too long");
    }
    assert_refused(f, &tci_eip_context_type, "{\"operation_id\":\"\"}", "operation_id: empty");
    assert_refused(f, &tci_eip_process_inspect_params_type,
                   "{\"context\":{\"operation_id\":\"o\"},\"handle\":\"\"}", "handle: empty");
}

static void test_words(void **state)
{
    assert_values(*state, &tci_eip_file_info_type, "{\"path\":{\"path\":\"/\"},\"kind\":%s}",
                  WORDS("\"file\"", "\"directory\"", "\"symlink\"", "\"other\""),
                  WORDS("\"File\"", "\"fil\"", "\"files\"", "\"\"", "null", "0"));
}

static void test_versions(void **state)
{
    const char *form = "{\"expected_device_id\":\"d\",\"expected_generation\":1,"
                       "\"protocol_version\":\"%s\"}";
    assert_values(
        *state, &tci_eip_session_open_params_type, form,
        WORDS("0.3", "0.1", "1.0", "12.34", "0.10", "0.03"),
        WORDS("", "0", "0.0", "00.3", "01.0", ".3", "3.", "0.3.1", "0.x", "v0.3", "0.-1", " 0.3"));
}

static void test_times(void **state)
{
    const char *form = "{\"path\":{\"path\":\"/\"},\"kind\":\"other\",\"modified_at\":%s}";
    assert_values(*state, &tci_eip_file_info_type, form,
                  WORDS("\"2026-11-29T16:11:02Z\"", "\"2026-11-29T16:11:02.341955887Z\"", "null"),
                  WORDS("\"2026-11-29T16:11:02\"", "\"2026-11-29T16:11:02+01:00\"",
                        "\"2026-13-29T16:11:02Z\"", "\"\"", "1790000000"));
    const char *prefix = "{\"kind\":\"other\",\"modified_at\":\"2026-11-29T16:11:02";
    static const char *const fractions[][2] = {
        {"Z", "Z"},          {".000000000Z", "Z"},     {".120Z", ".120Z"},
        {".1200Z", ".120Z"}, {".123456Z", ".123456Z"}, {".123456001Z", ".123456001Z"}};
    for (size_t i = 0; i < TCI_ARRAY_LEN(fractions); i++) {
        char in[256], out[256];
        (void)snprintf(in, sizeof in, "%s%s\",\"path\":{\"path\":\"/\"}}", prefix, fractions[i][0]);
        (void)snprintf(out, sizeof out, "%s%s\",\"path\":{\"path\":\"/\"}}", prefix,
                       fractions[i][1]);
        assert_encodes(*state, &tci_eip_file_info_type, in, out);
    }
}

static void test_text_is_escaped_canonically(void **state)
{
    assert_encodes(*state, &tci_eip_directory_entry_type,
                   "{\"name\":\"\\u0041\\/\\\"\\\\\\b\\f\\n\\r\\t\\u0001\\u007f\\u00fc\","
                   "\"path\":\"/\"}",
                   "{\"name\":\"A/\\\"\\\\\\b\\f\\n\\r\\t\\u0001\x7f\xc3\xbc\",\"path\":\"/\"}");
}

int run_scalar_tests(void)
{
    const struct CMUnitTest tests[] = {
        PROTO_TEST(test_paths),
        PROTO_TEST(test_base64),
        PROTO_TEST(test_constants),
        PROTO_TEST(test_sha256),
        PROTO_TEST(test_whole_numbers),
        PROTO_TEST(test_numbers_keep_their_width),
        PROTO_TEST(test_floats),
        PROTO_TEST(test_flags),
        PROTO_TEST(test_lengths_count_characters),
        PROTO_TEST(test_words),
        PROTO_TEST(test_versions),
        PROTO_TEST(test_times),
        PROTO_TEST(test_text_is_escaped_canonically),
    };
    return cmocka_run_group_tests_name("proto scalars", tests, NULL, NULL);
}
