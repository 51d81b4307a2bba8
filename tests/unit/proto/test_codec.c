/* SPDX-License-Identifier: Apache-2.0
 *
 * Records, unions, lists, maps, defaults and absence, each way; and what digests are made of. */
#include "proto_tests.h"
#include "base/hash.h"

#define STAT &tci_eip_file_stat_params_type
#define CTX "{\"context\":{\"operation_id\":\"o\"},"
#define START &tci_eip_process_start_params_type
#define COMMAND(c) CTX "\"request\":{\"command\":" c "}}"
#define SHELL "{\"kind\":\"shell\",\"profile_id\":\"p\",\"script\":\"s\"}"

static void test_defaults_fill_what_is_absent(void **state)
{
    const tci_eip_file_search_params *p =
        decode(*state, &tci_eip_file_search_params_type,
               CTX "\"root\":{\"path\":\"/\"},\"query\":\"q\",\"mode\":\"regex\","
                   "\"max_line_length\":7}");
    assert_non_null(p);
    assert_true(p->case_sensitive);
    assert_false(p->include_hidden);
    assert_int_equal(p->mode, TCI_EIP_SEARCH_MODE_REGEX);
    assert_int_equal(p->max_results, 100);
    assert_int_equal(p->max_file_bytes, 67108864);
    assert_int_equal(p->max_line_length, 7);
    assert_true(tci_str_eq(p->include_pattern, TC_STR("**/*")));
    assert_false(p->has_max_files);
    assert_int_equal(p->max_files, 0);
    assert_false(p->context.has_timeout_ms);
}

static void test_defaults_are_left_out(void **state)
{
    assert_encodes(*state, STAT, CTX "\"path\":{\"path\":\"/a\"},\"follow_symlinks\":true}",
                   CTX "\"path\":{\"path\":\"/a\"}}");
    assert_encodes(*state, STAT, CTX "\"path\":{\"path\":\"/a\"},\"follow_symlinks\":false}",
                   CTX "\"follow_symlinks\":false,\"path\":{\"path\":\"/a\"}}");
    assert_encodes(*state, START,
                   CTX "\"request\":{\"limits\":{},\"environment\":{\"set\":{},\"unset\":[]},"
                       "\"keep_stdin_open\":false,\"command\":" SHELL "}}",
                   COMMAND(SHELL));
}

static void test_optional_without_default_stays(void **state)
{
    const tci_type *type = &tci_eip_file_write_text_params_type;
    assert_encodes(*state, type,
                   CTX "\"executable\":false,\"mode\":\"create\",\"path\":{\"path\":\"/a\"},"
                       "\"text\":\"\"}",
                   CTX "\"executable\":false,\"mode\":\"create\",\"path\":{\"path\":\"/a\"},"
                       "\"text\":\"\"}");
    assert_encodes(*state, &tci_eip_file_open_reader_params_type,
                   CTX "\"byte_range\":{\"offset\":0},\"path\":{\"path\":\"/a\"}}",
                   "{\"byte_range\":{},\"context\":{\"operation_id\":\"o\"},"
                   "\"path\":{\"path\":\"/a\"}}");
}

static void test_null(void **state)
{
    assert_encodes(*state, STAT,
                   "{\"context\":{\"operation_id\":\"o\",\"timeout_ms\":null},"
                   "\"path\":{\"path\":\"/a\"}}",
                   CTX "\"path\":{\"path\":\"/a\"}}");
    assert_refused(*state, STAT, CTX "\"path\":{\"path\":\"/a\"},\"follow_symlinks\":null}",
                   "follow_symlinks: ");
    assert_refused(*state, STAT, CTX "\"path\":null}", "path: not an object");
    assert_refused(*state, STAT, CTX "\"path\":{\"path\":null}}", "path.path: not a string");
    assert_refused(*state, START, CTX "\"request\":{\"command\":" SHELL ",\"limits\":null}}",
                   "request.limits: ");
    assert_refused(*state, START,
                   CTX "\"request\":{\"command\":" SHELL ",\"environment\":{\"set\":null}}}",
                   "request.environment.set: not an object");
    assert_refused(*state, START,
                   CTX "\"request\":{\"command\":" SHELL ",\"environment\":{\"unset\":null}}}",
                   "request.environment.unset: not a list");
}

static void test_unknown_and_missing_fields(void **state)
{
    assert_refused(*state, STAT, CTX "\"path\":{\"path\":\"/a\"},\"x\":1}", "x: unknown field");
    assert_refused(*state, STAT, CTX "\"path\":{\"path\":\"/a\",\"x\":1}}",
                   "path.x: unknown field");
    assert_refused(*state, STAT, CTX "\"path\":{\"path\":\"/a\"},\"\":1}", ": unknown field");
    assert_refused(*state, STAT, "{\"path\":{\"path\":\"/a\"}}", "context: missing");
    assert_refused(*state, STAT, CTX "\"path\":{}}", "path.path: missing");
    assert_refused(*state, STAT, "[]", "not an object");
    assert_refused(*state, &tci_eip_device_describe_params_type, "{\"context\":{}}",
                   "context: unknown field");
    assert_encodes(*state, &tci_eip_device_describe_params_type, "{}", "{}");
}

static void test_repeated_field(void **state)
{
    fixture *f = *state;
    tci_json v;
    assert_int_equal(
        tci_json_parse(TC_STR("{\"path\":\"/a\",\"path\":\"/b\"}"), 0, &f->arena, &v, &f->err),
        TC_E_CONFLICT);
    /* A tree by another way: the decoder does not rely on the parser for it. */
    const tci_json_member members[] = {
        {TC_STR("path"), {.kind = TCI_JSON_STRING, .u.text = {"/a", 2}}},
        {TC_STR("path"), {.kind = TCI_JSON_STRING, .u.text = {"/b", 2}}},
    };
    tci_eip_path p;
    v = (tci_json){.kind = TCI_JSON_OBJECT, .count = 2, .u.members = members};
    assert_int_equal(tci_proto_decode(&tci_eip_path_type, &v, &f->arena, &p, &f->err),
                     TC_E_INVALID);
    assert_non_null(strstr(f->err.msg, "path: repeated"));
}

static void test_any_order_of_fields(void **state)
{
    assert_encodes(*state, STAT,
                   "{\"follow_symlinks\":false,\"path\":{\"path\":\"/a\"},"
                   "\"context\":{\"timeout_ms\":5,\"operation_id\":\"o\"}}",
                   "{\"context\":{\"operation_id\":\"o\",\"timeout_ms\":5},"
                   "\"follow_symlinks\":false,\"path\":{\"path\":\"/a\"}}");
}

static void test_unions(void **state)
{
    const tci_eip_process_start_params *p =
        decode(*state, START,
               COMMAND("{\"kind\":\"argv\",\"executable_spec\":{\"kind\":\"path\","
                       "\"path\":{\"path\":\"/bin/true\"}},\"arguments\":[\"a\",\"\"]}"));
    assert_non_null(p);
    const tci_eip_command_spec *c = &p->request.command;
    assert_int_equal(c->kind, TCI_EIP_COMMAND_SPEC_ARGV);
    assert_int_equal(c->u.argv.executable_spec.kind, TCI_EIP_EXECUTABLE_SPEC_PATH);
    assert_true(tci_str_eq(c->u.argv.executable_spec.u.path.path.path, TC_STR("/bin/true")));
    assert_int_equal(c->u.argv.arguments.count, 2);
    assert_true(tci_str_eq(c->u.argv.arguments.items[0], TC_STR("a")));

    assert_refused(*state, START, COMMAND("{\"profile_id\":\"p\",\"script\":\"s\"}"),
                   "request.command.kind: missing");
    assert_refused(*state, START, COMMAND("{\"kind\":\"x\"}"), "request.command.kind: not one");
    assert_refused(*state, START, COMMAND("{\"kind\":1}"), "request.command.kind: not a string");
    assert_refused(*state, START, COMMAND("[]"), "request.command: not an object");
    assert_refused(*state, START,
                   COMMAND("{\"kind\":\"shell\",\"profile_id\":\"p\",\"script\":\"s\","
                           "\"arguments\":[]}"),
                   "request.command.arguments: unknown field");
    assert_refused(*state, START, COMMAND("{\"kind\":\"shell\",\"script\":\"s\"}"),
                   "request.command.profile_id: missing");
    assert_encodes(*state, &tci_eip_egress_destinations_type, "{\"mode\":\"public\"}",
                   "{\"mode\":\"public\"}");
    assert_refused(*state, &tci_eip_egress_destinations_type, "{\"mode\":\"public\",\"hosts\":[]}",
                   "hosts: unknown field");
}

static void test_lists(void **state)
{
    const tci_type *init = &tci_eip_initialize_params_type;
    const char *client = "\"client\":{\"name\":\"\",\"version\":\"\"}";
    char text[256];
    (void)snprintf(text, sizeof text, "{%s}", client);
    assert_refused(*state, init, text, "supported_protocol_versions: missing");
    (void)snprintf(text, sizeof text, "{%s,\"supported_protocol_versions\":[]}", client);
    assert_refused(*state, init, text, "supported_protocol_versions: too few");
    (void)snprintf(text, sizeof text, "{%s,\"supported_protocol_versions\":{}}", client);
    assert_refused(*state, init, text, "supported_protocol_versions: not a list");
    (void)snprintf(text, sizeof text, "{%s,\"supported_protocol_versions\":[\"a\",2]}", client);
    assert_refused(*state, init, text, "supported_protocol_versions[1]: not a string");

    const tci_eip_file_find_params *p =
        decode(*state, &tci_eip_file_find_params_type,
               CTX "\"root\":{\"path\":\"/\"},\"pattern\":\"*\",\"kinds\":[\"symlink\",\"file\"]}");
    assert_non_null(p);
    assert_int_equal(p->kinds.count, 2);
    assert_int_equal(p->kinds.items[0], TCI_EIP_ENTRY_KIND_SYMLINK);
    assert_int_equal(p->kinds.items[1], TCI_EIP_ENTRY_KIND_FILE);
    assert_refused(*state, &tci_eip_file_find_params_type,
                   CTX "\"root\":{\"path\":\"/\"},\"pattern\":\"*\",\"kinds\":[\"link\"]}",
                   "kinds[0]: not one of the words allowed");
}

static void test_too_many_items(void **state)
{
    fixture *f = *state;
    tci_buf text;
    tci_buf_init(&text, 1 << 16);
    for (int n = 256; n <= 257; n++) {
        tci_buf_clear(&text);
        tci_buf_append_str(&text, TC_STR("{\"mode\":\"allowlist\",\"hosts\":[\"h\""));
        for (int i = 1; i < n; i++)
            tci_buf_append_str(&text, TC_STR(",\"h\""));
        tci_buf_append(&text, "]}", 3);
        if (n == 256)
            assert_non_null(decode(f, &tci_eip_egress_destinations_type, text.ptr));
        else
            assert_refused(f, &tci_eip_egress_destinations_type, text.ptr, "hosts: too many");
    }
    tci_buf_done(&text);
}

static void test_maps_come_out_sorted(void **state)
{
    fixture *f = *state;
    const tci_type *type = &tci_eip_command_environment_type;
    const tci_eip_command_environment *e =
        decode(f, type, "{\"set\":{\"b\":\"2\",\"a\":\"1\",\"B\":\"\"},\"unset\":[]}");
    assert_non_null(e);
    assert_int_equal(e->set.count, 3);
    assert_true(tci_str_eq(e->set.items[0].key, TC_STR("B")));
    assert_true(tci_str_eq(e->set.items[2].value, TC_STR("2")));
    assert_refused(f, type, "{\"set\":{\"a\":1}}", "set.a: not a string");

    /* Built by hand, in any order. */
    tci_proto_pair pairs[] = {
        {TC_STR("z"), TC_STR("1")}, {TC_STR("aa"), TC_STR("2")}, {TC_STR("a"), TC_STR("3")}};
    const tci_eip_command_environment mine = {.set = {pairs, 3}};
    tci_buf_clear(&f->out);
    tci_proto_encode(type, &mine, &f->out, 0);
    assert_true(tci_str_eq(tci_buf_str(&f->out),
                           TC_STR("{\"set\":{\"a\":\"3\",\"aa\":\"2\",\"z\":\"1\"}}")));
}

static void test_maps_of_records_and_numbers(void **state)
{
    const tci_eip_connection_metrics *c =
        decode(*state, &tci_eip_connection_metrics_type,
               "{\"tcp_states\":{\"listen\":2,\"established\":18446744073709551615}}");
    assert_non_null(c);
    assert_int_equal(c->tcp_states.count, 2);
    assert_true(tci_str_eq(c->tcp_states.items[0].key, TC_STR("established")));
    assert_true(c->tcp_states.items[0].value == UINT64_MAX);
    assert_refused(*state, &tci_eip_network_metrics_type,
                   "{\"interfaces\":{\"lo\":{\"identity\":1}},\"truncated\":false}",
                   "interfaces.lo.identity: not a string");
}

#define OUTPUT_INFO(complete, produced, retained)                                    \
    "{\"reference\":\"r\",\"producer_complete\":true,\"content_complete\":" complete \
    ",\"produced_bytes\":" produced ",\"retained_bytes\":" retained                  \
    ",\"preview\":{\"encoding\":\"base64\",\"data\":\"\"}}"

static void test_rules_between_fields(void **state)
{
    const tci_type *type = &tci_eip_output_info_type;
    assert_non_null(decode(*state, type, OUTPUT_INFO("false", "3", "2")));
    assert_non_null(decode(*state, type, OUTPUT_INFO("true", "3", "3")));
    assert_refused(*state, type, OUTPUT_INFO("false", "2", "3"), "retained_bytes is over");
    assert_refused(*state, type, OUTPUT_INFO("true", "3", "2"), "not all is retained");
}

static void test_deep_path_in_message(void **state)
{
    assert_refused(*state, &tci_eip_egress_policy_type,
                   "{\"destinations\":{\"mode\":\"public\"},\"secrets\":[{\"env\":\"A\","
                   "\"value\":\"v\",\"inject_hosts\":[\"h\"]},{\"env\":\"B\",\"value\":\"v\","
                   "\"inject_hosts\":[\"h\",7]}]}",
                   "secrets[1].inject_hosts[1]: not a string");
}

static void assert_digest(fixture *f, const char *method, const char *params, const char *want)
{
    const tci_method *m = tci_method_find(tci_str(method));
    assert_non_null(m);
    const void *value = decode(f, m->params, params);
    if (value == NULL)
        fail_msg("%s", f->err.msg);
    tci_buf_clear(&f->out);
    tci_buf_append(&f->out, TCI_EIP_PROTOCOL_VERSION, sizeof TCI_EIP_PROTOCOL_VERSION);
    tci_buf_append_str(&f->out, m->name);
    tci_buf_append_byte(&f->out, '\0');
    tci_proto_encode(m->params, value, &f->out, TCI_PROTO_FOR_DIGEST);
    uint8_t digest[TCI_SHA256_BYTES];
    char hex[TCI_SHA256_HEX + 1] = "";
    tci_sha256_of(tci_buf_str(&f->out), digest);
    tci_hex(digest, sizeof digest, hex);
    assert_string_equal(hex, want);
}

static void test_request_digests(void **state)
{
    const char *release = "bfb7dfd374b42e5c792528005794d140a9baa30edccb1f74fe1ac4d2c52b97b4";
    const char *exec = "ed6b7350faf83ca3c81e1cc3c62a1e2cb6bd0a75518b51d23ecfe800fdf118e8";
    assert_digest(*state, "process.release", CTX "\"handle\":\"process-9z6ipeopth63-11\"}",
                  release);
    assert_digest(*state, "process.release",
                  "{\"handle\":\"process-9z6ipeopth63-11\",\"context\":{\"timeout_ms\":9,"
                  "\"operation_id\":\"another\"}}",
                  release);
    assert_digest(*state, "shell.exec",
                  COMMAND("{\"arguments\":[\"a\"],\"executable_spec\":{\"kind\":\"name\","
                          "\"name\":\"echo\"},\"kind\":\"argv\"}"),
                  exec);
    assert_digest(*state, "shell.exec",
                  CTX "\"request\":{\"keep_stdin_open\":false,\"environment\":{},\"cwd\":null,"
                      "\"command\":{\"kind\":\"argv\",\"arguments\":[\"a\"],"
                      "\"executable_spec\":{\"name\":\"echo\",\"kind\":\"name\"}}}}",
                  exec);
}

static void test_boundary_digest(void **state)
{
    fixture *f = *state;
    const tci_eip_boundary_content b = {
        .has_identity = true,
        .backend = TCI_EIP_EXECUTION_BACKEND_NATIVE,
        .egress = TCI_EIP_EGRESS_MODE_INHERIT,
        .sandbox = {.mode = TCI_EIP_SANDBOX_POLICY_DISABLED},
    };
    tci_buf_clear(&f->out);
    tci_proto_encode(&tci_eip_boundary_content_type, &b, &f->out, 0);
    uint8_t digest[TCI_SHA256_BYTES];
    char hex[TCI_SHA256_HEX + 1] = "";
    tci_sha256_of(tci_buf_str(&f->out), digest);
    tci_hex(digest, sizeof digest, hex);
    assert_string_equal(hex, "b4c353a867bd4831bb56b43f7f255aeeb34cecf8296ae7fcf4e850eb50b3297a");
}

static void test_memory_running_out(void **state)
{
    fixture *f = *state;
    const tci_json *v = parse(f, "{\"set\":{\"b\":\"2\",\"a\":\"1\"},\"unset\":[\"x\"]}");
    for (size_t n = 1;; n++) {
        tci_arena a;
        tci_eip_command_environment e;
        tci_arena_init(&a, 0);
        tci_mem_fail_at(n);
        int rc = tci_proto_decode(&tci_eip_command_environment_type, v, &a, &e, &f->err);
        bool has_failed = tci_mem_count() >= n;
        tci_mem_fail_at(0);
        tci_arena_done(&a);
        assert_int_equal(rc, has_failed ? TC_E_NO_MEMORY : 0);
        if (!has_failed)
            break;
    }
    tci_buf small;
    tci_buf_init(&small, 10);
    const tci_eip_command_environment *e =
        decode(f, &tci_eip_command_environment_type, "{\"set\":{\"a\":\"1\"}}");
    tci_proto_encode(&tci_eip_command_environment_type, e, &small, 0);
    assert_int_equal(small.failed, TC_E_TOO_BIG);
    tci_buf_done(&small);
}

int run_codec_tests(void)
{
    const struct CMUnitTest tests[] = {
        PROTO_TEST(test_defaults_fill_what_is_absent),
        PROTO_TEST(test_defaults_are_left_out),
        PROTO_TEST(test_optional_without_default_stays),
        PROTO_TEST(test_null),
        PROTO_TEST(test_unknown_and_missing_fields),
        PROTO_TEST(test_repeated_field),
        PROTO_TEST(test_any_order_of_fields),
        PROTO_TEST(test_unions),
        PROTO_TEST(test_lists),
        PROTO_TEST(test_too_many_items),
        PROTO_TEST(test_maps_come_out_sorted),
        PROTO_TEST(test_maps_of_records_and_numbers),
        PROTO_TEST(test_rules_between_fields),
        PROTO_TEST(test_deep_path_in_message),
        PROTO_TEST(test_request_digests),
        PROTO_TEST(test_boundary_digest),
        PROTO_TEST(test_memory_running_out),
    };
    return cmocka_run_group_tests_name("proto codec", tests, NULL, NULL);
}
