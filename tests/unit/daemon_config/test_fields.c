/* SPDX-License-Identifier: Apache-2.0
 *
 * Each field of a configuration: its type, its range, and the path in the message. */
#include "load.h"

#include "plat/file.h"

#include <stdio.h>
#include <string.h>

static void json_must_be_one_object_of_known_fields(void **state)
{
    (void)state;
    static const json_verdict rows[] = {
        {"{}", NULL},
        {" {} ", NULL},
        {"", "invalid A13N_ENVD_CONFIG_JSON"},
        {"{", "invalid A13N_ENVD_CONFIG_JSON"},
        {"{} x", "invalid A13N_ENVD_CONFIG_JSON"},
        {"\xef\xbb\xbf{}", "invalid A13N_ENVD_CONFIG_JSON"},
        {"[]", "must be an object"},
        {"null", "must be an object"},
        {"1", "must be an object"},
        {"{\"x\":1}", "invalid A13N_ENVD_CONFIG_JSON|x: there is no such field"},
        {"{\"name\":\"a\",\"name\":\"b\"}", "name"},
        {"{\"name\":\"\\ud800\"}", "invalid A13N_ENVD_CONFIG_JSON"},
        {"{\"a\\nb\":1}", "a?b: there is no such field"},
    };
    check_json(rows, TCI_ARRAY_LEN(rows));
}

static void device_fields(void **state)
{
    (void)state;
    static const json_verdict rows[] = {
        {"{\"name\":1}", "name: must be a string"},
        {"{\"name\":null}", NULL},
        {"{\"name\":\"\"}", NULL},
        {"{\"name\":\"a\\nb\"}", "name must be"},
        {"{\"name\":\"a\\u0085b\"}", "name must be"},
        {"{\"description\":\" x \"}", NULL},
        {"{\"description\":\"a\\tb\"}", "description must be"},
        {"{\"device_id\":\"\"}", "device_id must be"},
        {"{\"device_id\":\" a\"}", "device_id must be"},
        {"{\"device_id\":\"a\\u3000\"}", "device_id must be"},
        {"{\"device_id\":\"a\\u0001\"}", "device_id must be"},
        {"{\"device_id\":7}", "device_id: must be a string"},
        {"{\"device_id\":null}", NULL},
        {"{\"device_id\":\"a b\"}", NULL},
        {"{\"default_working_directory\":\"rel\"}",
         "default_working_directory must be an absolute path"},
        {"{\"default_working_directory\":\"\"}",
         "default_working_directory must be an absolute path"},
        {"{\"default_working_directory\":3}", "default_working_directory: must be a path"},
        {"{\"default_working_directory\":\"/a\\u0000b\"}",
         "default_working_directory: must be a path"},
        {"{\"default_working_directory\":\"/nowhere/at/all\"}", NULL},
        {"{\"default_working_directory\":\"/nowhere/../x\"}", "default_working_directory"},
        {"{\"installation_state_directory\":\"rel\"}",
         "installation_state_directory must be an absolute path"},
        {"{\"directory_discovery\":1}", "directory_discovery: must be true or false"},
        {"{\"directory_discovery\":null}", NULL},
        {"{\"full_control\":\"yes\"}", "full_control: must be true or false"},
        {"{\"full_control\":null}", NULL},
        {"{\"idle_timeout_ms\":0}", "idle_timeout_ms"},
        {"{\"idle_timeout_ms\":30000}",
         "disconnect_grace_ms must be positive and less than idle_timeout_ms"},
        {"{\"idle_timeout_ms\":30001}", NULL},
        {"{\"idle_timeout_ms\":18446744073709551615}", "idle_timeout_ms must be at most"},
        {"{\"disconnect_grace_ms\":0}", "disconnect_grace_ms must be positive"},
        {"{\"idle_timeout_ms\":1.0}", "idle_timeout_ms: must be an unsigned integer"},
        {"{\"computer_use_permission_timeout_ms\":0}",
         "computer_use_permission_timeout_ms must be positive"},
        {"{\"computer_use_permission_timeout_ms\":\"1\"}",
         "computer_use_permission_timeout_ms: must be"},
    };
    check_json(rows, TCI_ARRAY_LEN(rows));
}

static void names_are_counted_in_characters(void **state)
{
    char json[4096] = "{\"name\":\"";
    (void)state;
    size_t start = strlen(json);
    for (int i = 0; i < 256; i++)
        memcpy(json + start + 2 * (size_t)i, "\xc3\xa9", 2);
    memcpy(json + start + 512, "\"}", 3);
    check_json(&(json_verdict){json, NULL}, 1);
    memcpy(json + start + 512, "x\"}", 4);
    check_json(&(json_verdict){json, "name must be at most 256 characters"}, 1);
}

static void boundary_fields(void **state)
{
    (void)state;
    static const json_verdict rows[] = {
        {"{\"execution\":null}", "execution: must be an object"},
        {"{\"execution\":{\"uid\":0}}", "execution.uid and execution.gid belong together"},
        {"{\"execution\":{\"gid\":0}}", "execution.uid and execution.gid belong together"},
        {"{\"execution\":{\"uid\":null,\"gid\":null}}", NULL},
        {"{\"execution\":{\"uid\":4294967296,\"gid\":0}}",
         "execution.uid: must be an unsigned 32-bit"},
        {"{\"execution\":{\"uid\":4294967295,\"gid\":0}}",
         "execution.uid and execution.gid must be ids"},
        {"{\"execution\":{\"x\":0}}", "execution.x: there is no such field"},
        {"{\"execution\":{\"allow_sudo\":1}}", "execution.allow_sudo: must be true or false"},
        {"{\"execution\":{\"allow_sudo\":true}}", NULL},
        {"{\"egress\":\"inherit\"}", "egress: must be an object"},
        {"{\"egress\":{}}", "egress.mode: the field is required"},
        {"{\"egress\":{\"mode\":\"foo\"}}", "egress.mode: must be inherit, deny or controlled"},
        {"{\"egress\":{\"mode\":\"inherit\",\"x\":1}}", "egress.x: there is no such field"},
        {"{\"egress\":{\"mode\":\"inherit\"}}", NULL},
        {"{\"sandbox\":{}}", "sandbox.mode: the field is required"},
        {"{\"sandbox\":{\"mode\":\"disabled\"}}", NULL},
        {"{\"sandbox\":{\"mode\":\"disabled\",\"grants\":[]}}",
         "sandbox.grants: there is no such field"},
        {"{\"sandbox\":{\"mode\":\"x\"}}", "sandbox.mode: must be disabled or restricted"},
        {"{\"sandbox\":{\"mode\":\"restricted\"}}", "sandbox.grants: the field is required"},
        {"{\"sandbox\":{\"mode\":\"restricted\",\"grants\":[{\"path\":\"/tmp\"}]}}",
         "sandbox.grants[0].access: the field is required"},
        {"{\"sandbox\":{\"mode\":\"restricted\",\"grants\":[{\"path\":\"/"
         "tmp\",\"access\":\"all\"}]}}",
         "sandbox.grants[0].access: must be read_only or read_write"},
        {"{\"sandbox\":{\"mode\":\"restricted\",\"grants\":[{\"path\":\"tmp\",\"access\":\"read_"
         "only\"}]}}",
         "sandbox.grants[0].path must be an existing absolute folder"},
    };
    check_json(rows, TCI_ARRAY_LEN(rows));
}

/* What this build cannot enforce is refused with the name of it, never passed over. */
static void boundary_that_is_not_built_is_refused(void **state)
{
    (void)state;
    static const json_verdict rows[] = {
        {"{\"sandbox\":{\"mode\":\"restricted\",\"grants\":[]}}",
         "sandbox mode restricted|not available"},
        {"{\"egress\":{\"mode\":\"deny\"}}", "egress mode deny|not available"},
        {"{\"egress\":{\"mode\":\"controlled\"}}", "controlled|not available"},
        {"{\"execution\":{\"allow_sudo\":false}}", "allow_sudo|not available"},
        {"{\"execution\":{\"uid\":4294967294,\"gid\":4294967294}}", "execution.uid|not available"},
        {"{\"computer_use\":true}", "--computer-use|not available"},
        {"{\"computer_use\":true,\"egress\":{\"mode\":\"deny\"}}", "--computer-use needs"},
        {"{\"computer_use\":false}", NULL},
    };
    check_json(rows, TCI_ARRAY_LEN(rows));
    for (size_t i = 0; i < 6; i++) {
        char var[256];
        loaded l;
        words vars = {{var}};
        (void)snprintf(var, sizeof var, "A13N_ENVD_CONFIG_JSON=%s", rows[i].json);
        load(&l, "telechird", NULL, &vars);
        assert_int_equal(l.rc, TC_E_UNSUPPORTED);
        assert_true(l.err.hint[0] != '\0');
        unload(&l);
    }
}

static void our_own_account_is_no_other_account(void **state)
{
    char json[128];
    (void)state;
    (void)snprintf(json, sizeof json, "{\"execution\":{\"uid\":%u,\"gid\":%u}}", tci_file_euid(),
                   tci_file_egid());
    check_json(&(json_verdict){json, NULL}, 1);
}

static void monitoring_fields(void **state)
{
    (void)state;
    static const json_verdict rows[] = {
        {"{\"monitoring\":null}", NULL},
        {"{\"monitoring\":{}}", NULL},
        {"{\"monitoring\":[]}", "monitoring: must be an object"},
        {"{\"monitoring\":true}", "monitoring: must be an object"},
        {"{\"monitoring\":{\"x\":1}}", "monitoring.x: there is no such field"},
        {"{\"monitoring\":{\"sample_interval_ms\":999}}",
         "monitoring.sample_interval_ms must be between 1000"},
        {"{\"monitoring\":{\"sample_interval_ms\":60001}}",
         "monitoring.sample_interval_ms must be between 1000"},
        {"{\"monitoring\":{\"sample_interval_ms\":null}}",
         "monitoring.sample_interval_ms: must be"},
        {"{\"monitoring\":{\"filesystems\":[]}}", "monitoring.filesystems: must be an object"},
        {"{\"monitoring\":{\"filesystems\":{\"\":\"/\"}}}", "monitoring.filesystems"},
        {"{\"monitoring\":{\"filesystems\":{\"a.b\":\"/\"}}}", "monitoring.filesystems"},
        {"{\"monitoring\":{\"filesystems\":{\"a\":1}}}",
         "monitoring.filesystems.a: must be a path"},
        {"{\"monitoring\":{\"filesystems\":{\"a\":\"rel\"}}}",
         "monitoring.filesystems.a must be an absolute path"},
        {"{\"monitoring\":{\"filesystems\":{\"a\":\"/x/../y\"}}}",
         "monitoring.filesystems.a must be"},
        {"{\"monitoring\":{\"filesystems\":{\"a\":\"/nowhere\"}}}", NULL},
        {"{\"monitoring\":{\"filesystems\":{\"1\":\"/\",\"2\":\"/\",\"3\":\"/\",\"4\":\"/"
         "\",\"5\":\"/\",\"6\":\"/\","
         "\"7\":\"/\",\"8\":\"/\",\"9\":\"/\",\"10\":\"/\",\"11\":\"/\",\"12\":\"/\",\"13\":\"/"
         "\",\"14\":\"/\","
         "\"15\":\"/\",\"16\":\"/\",\"17\":\"/\"}}}",
         "monitoring.filesystems must name at most 16"},
        {"{\"monitoring\":{\"cgroup_v2_directory\":\"rel\"}}",
         "monitoring.cgroup_v2_directory must be an absolute"},
        {"{\"monitoring\":{\"cgroup_v2_directory\":\"/a/../b\"}}",
         "monitoring.cgroup_v2_directory must be"},
        {"{\"monitoring\":{\"cgroup_v2_directory\":null}}", NULL},
    };
    check_json(rows, TCI_ARRAY_LEN(rows));
}

static void values_arrive(void **state)
{
    loaded l;
    words vars = {
        {"A13N_ENVD_CONFIG_JSON={\"device_id\":\"d\",\"name\":\"n\",\"description\":\"e\","
         "\"default_working_directory\":\"/nowhere/x/\",\"installation_state_directory\":\"/"
         "state\","
         "\"directory_discovery\":false,\"idle_timeout_ms\":5000,\"disconnect_grace_ms\":400,"
         "\"monitoring\":{\"sample_interval_ms\":1000,\"filesystems\":{\"root\":\"/\"},"
         "\"cgroup_v2_directory\":\"/group\"}}",
         "A13N_ENVD_RUNTIME_DIR=/run/x.y/z.tar/"}};
    (void)state;
    load(&l, "a13n-envd", NULL, &vars);
    assert_int_equal(l.rc, 0);
    assert_int_equal(l.action, TCI_CONFIG_SERVE);
    assert_text(l.config.device_id, "d");
    assert_text(l.config.name, "n");
    assert_text(l.config.description, "e");
    assert_text(l.config.default_working_directory, "/nowhere/x");
    assert_text(l.config.state_dir, "/state");
    assert_text(l.config.runtime_dir, "/run/x.y/z.tar");
    assert_false(l.config.directory_discovery);
    assert_int_equal(l.config.idle_timeout_ms, 5000);
    assert_int_equal(l.config.disconnect_grace_ms, 400);
    assert_true(l.config.has_monitoring);
    assert_int_equal(l.config.sample_interval_ms, 1000);
    assert_int_equal(l.config.nfilesystems, 1);
    assert_text(l.config.filesystems[0].name, "root");
    assert_int_equal(l.config.filesystems[0].path.ptr[1], '\0'); /* opened as a C string */
    assert_text(l.config.cgroup_v2_directory, "/group");
    unload(&l);
}

static void defaults(void **state)
{
    loaded l;
    words vars = {{"A13N_ENVD_RUNTIME_DIR=/run/envd"}};
    char here[TCI_PATH_MAX];
    tc_str cwd;
    tc_err err;
    (void)state;
    assert_int_equal(tci_file_realpath(TC_STR("."), here, &cwd, &err), 0);
    load(&l, "/opt/a13n-envd", NULL, &vars);
    assert_int_equal(l.rc, 0);
    assert_true(l.config.is_drop_in);
    assert_text(l.config.program, "a13n-envd");
    assert_int_equal(l.config.device_id.len, 0);
    assert_int_equal(l.config.name.len, 0);
    assert_true(tci_str_eq(l.config.default_working_directory, cwd));
    assert_text(l.config.runtime_dir, "/run/envd");
    assert_text(l.config.state_dir, "/run/envd.state");
    assert_true(l.config.directory_discovery);
    assert_false(l.config.full_control);
    assert_false(l.config.has_commands);
    assert_false(l.config.has_monitoring);
    assert_int_equal(l.config.idle_timeout_ms, 1800000);
    assert_int_equal(l.config.disconnect_grace_ms, 30000);
    assert_int_equal(l.config.transport, TCI_TRANSPORT_STDIO);
    assert_int_equal(l.config.nhidden_variables, 0);
    unload(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_must_be_one_object_of_known_fields),
        cmocka_unit_test(device_fields),
        cmocka_unit_test(names_are_counted_in_characters),
        cmocka_unit_test(boundary_fields),
        cmocka_unit_test(boundary_that_is_not_built_is_refused),
        cmocka_unit_test(our_own_account_is_no_other_account),
        cmocka_unit_test(monitoring_fields),
        cmocka_unit_test(values_arrive),
        cmocka_unit_test(defaults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
