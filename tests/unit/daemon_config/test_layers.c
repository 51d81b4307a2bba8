/* SPDX-License-Identifier: Apache-2.0
 *
 * Which layer wins, how objects merge, variables and their two prefixes, where folders are. */
#include "load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define JSON "A13N_ENVD_CONFIG_JSON="

static void file_json_variable_flag_in_this_order(void **state)
{
    loaded l;
    const char *file = put_text_file(
        "order.json", "{\"name\":\"file\",\"description\":\"file\",\"device_id\":\"file\","
                      "\"idle_timeout_ms\":40001,\"limits\":{\"max_sessions\":1}}");
    words args = {{"--config", file, "--name", "flag"}};
    words vars = {{JSON "{\"name\":\"json\",\"description\":\"json\",\"device_id\":\"json\","
                        "\"limits\":{\"max_processes\":2}}",
                   "A13N_ENVD_NAME=variable", "A13N_ENVD_DESCRIPTION=variable"}};
    (void)state;
    load(&l, "a13n-envd", &args, &vars);
    assert_int_equal(l.rc, 0);
    assert_text(l.config.name, "flag");
    assert_text(l.config.description, "variable");
    assert_text(l.config.device_id, "json");
    assert_int_equal(l.config.idle_timeout_ms, 40001);
    assert_int_equal(l.config.limits.max_sessions, 1);
    assert_int_equal(l.config.limits.max_processes, 2);
    unload(&l);
}

static void lists_and_scalars_replace(void **state)
{
    loaded l;
    const char *file = put_text_file(
        "lists.json", "{\"trusted_executable_roots\":[\"/\",\"/tmp\"],\"monitoring\":{}}");
    words args = {{"--config", file}};
    words vars = {{JSON "{\"trusted_executable_roots\":[\"/\"],\"monitoring\":null}"}};
    (void)state;
    load(&l, "a13n-envd", &args, &vars);
    assert_int_equal(l.rc, 0);
    assert_int_equal(l.config.nroots, 1);
    assert_text(l.config.roots[0], "/");
    assert_false(l.config.has_monitoring);
    unload(&l);
}

/* Each layer is checked by itself, and so is what they make together. */
static void layers_are_checked_alone_and_together(void **state)
{
    (void)state;
    const char *bad = put_text_file("bad.json", "{\"limits\":{\"max_sessions\":\"1\"}}");
    const char *grants =
        put_text_file("grants.json", "{\"sandbox\":{\"mode\":\"restricted\",\"grants\":[]}}");
    const verdict rows[] = {
        {{{"--config", bad}},
         {{JSON "{\"limits\":{\"max_sessions\":1}}"}},
         "invalid configuration file|limits.max_sessions"},
        {{{NULL}}, {{JSON "{\"sandbox\":{\"grants\":[]}}"}}, "sandbox.mode: the field is required"},
        {{{"--config", grants}},
         {{JSON "{\"sandbox\":{\"mode\":\"disabled\"}}"}},
         "invalid merged configuration|sandbox.grants"},
        {{{NULL}},
         {{"A13N_ENVD_EXECUTION_UID=4294967296", "A13N_ENVD_EXECUTION_GID=0"}},
         "invalid merged configuration|execution.uid"},
    };
    check_verdicts(rows, TCI_ARRAY_LEN(rows));
}

static void the_file_is_regular_absolute_and_no_link(void **state)
{
    (void)state;
    const char *good = put_text_file("good.json", "{}");
    const char *link = path_of("link.json"), *folder = path_of("."),
               *missing = path_of("missing.json");
    const char *empty = put_text_file("empty.json", "");
    assert_int_equal(symlink(good, link), 0);
    const verdict rows[] = {
        {{{"--config", good}}, {{NULL}}, NULL},
        {{{"--config", link}}, {{NULL}}, "--config must be a regular file, not a symlink"},
        {{{"--config", folder}}, {{NULL}}, "--config must be a regular file, not a symlink"},
        {{{"--config", "/dev/null"}}, {{NULL}}, "--config must be a regular file, not a symlink"},
        {{{"--config", missing}}, {{NULL}}, "cannot read --config"},
        {{{"--config", "good.json"}}, {{NULL}}, "--config must be an absolute path"},
        {{{"--config", ""}}, {{NULL}}, "--config must be an absolute path"},
        {{{"--config", empty}}, {{NULL}}, "invalid configuration file"},
    };
    check_verdicts(rows, TCI_ARRAY_LEN(rows));
}

static void scalar_variables(void **state)
{
    (void)state;
    static const verdict rows[] = {
        {{{NULL}},
         {{"A13N_ENVD_DIRECTORY_DISCOVERY=TRUE"}},
         "A13N_ENVD_DIRECTORY_DISCOVERY must be true, false, 1 or 0"},
        {{{NULL}},
         {{"A13N_ENVD_DIRECTORY_DISCOVERY="}},
         "A13N_ENVD_DIRECTORY_DISCOVERY must be true, false, 1 or 0"},
        {{{NULL}}, {{"A13N_ENVD_FULL_CONTROL=yes"}}, "A13N_ENVD_FULL_CONTROL must be"},
        {{{NULL}}, {{"A13N_ENVD_COMPUTER_USE=x"}}, "A13N_ENVD_COMPUTER_USE must be"},
        {{{NULL}}, {{"A13N_ENVD_COMPUTER_USE=1"}}, "--computer-use"},
        {{{NULL}}, {{"A13N_ENVD_ALLOW_SUDO=x"}}, "A13N_ENVD_ALLOW_SUDO must be"},
        {{{NULL}}, {{"A13N_ENVD_ALLOW_SUDO=0"}}, "allow_sudo"},
        {{{NULL}}, {{"A13N_ENVD_ALLOW_SUDO=1"}}, NULL},
        {{{NULL}},
         {{"A13N_ENVD_IDLE_TIMEOUT_MS=x"}},
         "A13N_ENVD_IDLE_TIMEOUT_MS must be an unsigned integer"},
        {{{NULL}},
         {{"A13N_ENVD_IDLE_TIMEOUT_MS=-1"}},
         "A13N_ENVD_IDLE_TIMEOUT_MS must be an unsigned integer"},
        {{{NULL}},
         {{"A13N_ENVD_IDLE_TIMEOUT_MS="}},
         "A13N_ENVD_IDLE_TIMEOUT_MS must be an unsigned integer"},
        {{{NULL}}, {{"A13N_ENVD_IDLE_TIMEOUT_MS=0"}}, "idle_timeout_ms"},
        {{{NULL}}, {{"A13N_ENVD_IDLE_TIMEOUT_MS=040000"}}, NULL},
        {{{NULL}},
         {{"A13N_ENVD_EGRESS_MODE=x"}},
         "A13N_ENVD_EGRESS_MODE|inherit, deny or controlled"},
        {{{NULL}}, {{"A13N_ENVD_EGRESS_MODE="}}, "A13N_ENVD_EGRESS_MODE"},
        {{{NULL}}, {{"A13N_ENVD_EGRESS_MODE=inherit"}}, NULL},
        {{{NULL}}, {{"A13N_ENVD_EGRESS_MODE=deny"}}, "egress mode"},
        {{{NULL}}, {{"A13N_ENVD_EXECUTION_UID=0"}}, "belong together"},
        {{{NULL}},
         {{"A13N_ENVD_STATE_DIR=rel"}},
         "installation_state_directory must be an absolute path"},
        {{{NULL}}, {{"A13N_ENVD_DEVICE_ID="}}, "device_id must be"},
        {{{NULL}}, {{"A13N_ENVD_NAME="}}, NULL},
        {{{NULL}}, {{"A13N_ENVD_NAME=a\xff"}}, "A13N_ENVD_NAME must be valid UTF-8"},
        {{{NULL}}, {{"A13N_ENVD_RUNTIME_DIR="}}, "A13N_ENVD_RUNTIME_DIR must be an absolute path"},
        {{{NULL}},
         {{"A13N_ENVD_RUNTIME_DIR=rel"}},
         "A13N_ENVD_RUNTIME_DIR must be an absolute path"},
    };
    check_verdicts(rows, TCI_ARRAY_LEN(rows));
}

static void unknown_variables_are_refused(void **state)
{
    (void)state;
    static const verdict rows[] = {
        {{{NULL}}, {{"A13N_ENVD_FOO=1"}}, "A13N_ENVD_FOO"},
        {{{NULL}}, {{"A13N_ENVD_FOO="}}, "A13N_ENVD_FOO"},
        {{{NULL}}, {{"A13N_ENVD_=1"}}, "A13N_ENVD_"},
        {{{NULL}}, {{"TELECHIRD_FOO=1"}}, "TELECHIRD_FOO"},
        {{{NULL}}, {{"A13N_ENVD_REVERSE_WS_FOO=1"}}, "A13N_ENVD_REVERSE_WS_FOO"},
        {{{NULL}}, {{"A13N_ENVDX=1", "TELECHIR_X=1", "PATH=/bin"}}, NULL},
        /* before everything else */
        {{{"--bad"}}, {{"A13N_ENVD_FOO=1", JSON "{"}}, "A13N_ENVD_FOO"},
    };
    check_verdicts(rows, TCI_ARRAY_LEN(rows));
}

static void both_prefixes_name_the_same_setting(void **state)
{
    loaded l;
    words own = {{"TELECHIRD_NAME=n", "TELECHIRD_RUNTIME_DIR=/run/t"}};
    words same = {{"TELECHIRD_NAME=n", "A13N_ENVD_NAME=n"}};
    words differ = {{"TELECHIRD_NAME=n", "A13N_ENVD_NAME=m"}};
    words bad = {{"TELECHIRD_FULL_CONTROL=x"}};
    (void)state;
    load(&l, "telechird", NULL, &own);
    assert_int_equal(l.rc, 0);
    assert_text(l.config.name, "n");
    assert_text(l.config.runtime_dir, "/run/t");
    assert_text(l.config.state_dir, "/run/t.state");
    unload(&l);
    load(&l, "telechird", NULL, &same);
    assert_int_equal(l.rc, 0);
    unload(&l);
    load(&l, "telechird", NULL, &differ);
    assert_int_equal(l.rc, TC_E_CONFLICT);
    assert_has(l.err.msg, "TELECHIRD_NAME");
    assert_has(l.err.msg, "A13N_ENVD_NAME");
    unload(&l);
    load(&l, "telechird", NULL, &bad);
    assert_has(l.err.msg, "TELECHIRD_FULL_CONTROL must be");
    unload(&l);
}

static void check_folders(const char *program, words vars, const char *runtime,
                          const char *state_dir)
{
    loaded l;
    load_bare(&l, program, NULL, &vars);
    assert_int_equal(l.rc, 0);
    assert_text(l.config.runtime_dir, runtime);
    assert_text(l.config.state_dir, state_dir);
    unload(&l);
}

static void default_folders(void **state)
{
    loaded l;
    words home = {{"HOME=/home/me"}};
    words empty = {{NULL}};
    (void)state;
    check_folders("telechird", home, "/home/me/.local/state/telechir/runtime",
                  "/home/me/.local/state/telechir");
    check_folders("bin/telechird", (words){{"HOME=/home/me", "XDG_STATE_HOME=/state"}},
                  "/state/telechir/runtime", "/state/telechir");
    check_folders("telechird", (words){{"HOME=/home/me", "XDG_STATE_HOME=relative"}},
                  "/home/me/.local/state/telechir/runtime", "/home/me/.local/state/telechir");
    check_folders("telechird", (words){{"HOME=/home/me", "TELECHIRD_STATE_DIR=/mine"}},
                  "/home/me/.local/state/telechir/runtime", "/mine");
    check_folders("a13n-envd", (words){{"A13N_ENVD_RUNTIME_DIR=/.hidden"}}, "/.hidden",
                  "/.hidden.state");
    check_folders("a13n-envd", (words){{"A13N_ENVD_RUNTIME_DIR=/a/b.c.d//"}}, "/a/b.c.d",
                  "/a/b.c.state");
    load_bare(&l, "a13n-envd", NULL, &home); /* the reference has no default */
    assert_int_equal(l.rc, TC_E_INVALID);
    assert_has(l.err.msg, "A13N_ENVD_RUNTIME_DIR is required");
    assert_text(l.config.program, "a13n-envd");
    unload(&l);
    load_bare(&l, "telechird", NULL, &empty);
    assert_has(l.err.msg, "TELECHIRD_RUNTIME_DIR is required");
    unload(&l);
}

/* ---- metrics export ---- */

static void export_is_refused_or_off(void **state)
{
    (void)state;
    static const verdict rows[] = {
        {{{NULL}}, {{"OTEL_METRICS_EXPORTER=otlp"}}, "OTLP|OTEL_METRICS_EXPORTER"},
        {{{NULL}}, {{"OTEL_EXPORTER_OTLP_ENDPOINT=http://h"}}, "OTLP|OTEL_METRICS_EXPORTER"},
        {{{NULL}},
         {{"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT=http://h"}},
         "OTLP|OTEL_METRICS_EXPORTER"},
        {{{NULL}},
         {{"OTEL_METRICS_EXPORTER=prometheus"}},
         "OTEL_METRICS_EXPORTER must be otlp or none"},
        {{{NULL}}, {{"OTEL_METRICS_EXPORTER=none", "OTEL_EXPORTER_OTLP_ENDPOINT=http://h"}}, NULL},
        {{{NULL}}, {{"OTEL_METRICS_EXPORTER=", "OTEL_EXPORTER_OTLP_ENDPOINT="}}, NULL},
        {{{NULL}}, {{"OTEL_METRICS_EXPORTER=otlp", "OTEL_SDK_DISABLED=TRUE"}}, NULL},
        {{{NULL}}, {{"OTEL_METRICS_EXPORTER=otlp", "OTEL_SDK_DISABLED=no"}}, "OTLP"},
        {{{NULL}}, {{"OTEL_METRICS_EXPORTER=otlp", JSON "{\"monitoring\":null}"}}, NULL},
    };
    check_verdicts(rows, TCI_ARRAY_LEN(rows));
}

static bool hides(const tci_config *c, const char *name)
{
    for (size_t i = 0; i < c->nhidden_variables; i++) {
        if (tci_str_eq(c->hidden_variables[i], tci_str(name)))
            return true;
    }
    return false;
}

static void exporter_variables_are_hidden(void **state)
{
    loaded l;
    words vars = {{"OTEL_METRICS_EXPORTER=none", "OTEL_EXPORTER_OTLP_HEADERS=secret",
                   "OTEL_SERVICE_NAME=x", "OTEL_EXPORTER_OTLP_METRICS_CLIENT_KEY=/k",
                   "OTEL_TRACES_EXPORTER=otlp", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://h"}};
    (void)state;
    load(&l, "a13n-envd", NULL, &vars);
    assert_int_equal(l.rc, 0);
    assert_int_equal(l.config.nhidden_variables, 4);
    assert_true(hides(&l.config, "OTEL_METRICS_EXPORTER"));
    assert_true(hides(&l.config, "OTEL_EXPORTER_OTLP_HEADERS"));
    assert_true(hides(&l.config, "OTEL_EXPORTER_OTLP_METRICS_CLIENT_KEY"));
    assert_true(hides(&l.config, "OTEL_SERVICE_NAME"));
    unload(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(file_json_variable_flag_in_this_order),
        cmocka_unit_test(lists_and_scalars_replace),
        cmocka_unit_test(layers_are_checked_alone_and_together),
        cmocka_unit_test(the_file_is_regular_absolute_and_no_link),
        cmocka_unit_test(scalar_variables),
        cmocka_unit_test(unknown_variables_are_refused),
        cmocka_unit_test(both_prefixes_name_the_same_setting),
        cmocka_unit_test(default_folders),
        cmocka_unit_test(export_is_refused_or_off),
        cmocka_unit_test(exporter_variables_are_hidden),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
