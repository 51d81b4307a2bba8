/* SPDX-License-Identifier: Apache-2.0
 *
 * The command line of `connect`, and which settings of the daemon count beside it. */
#include "load.h"

#include "daemon/connect/connect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HOST "https://host.example"

static void load_connect(loaded *l, const words *args, const words *vars)
{
    words more = {{"HOME=/home/me"}};
    for (size_t i = 0; vars != NULL && i + 2 < WORDS_MAX && vars->items[i] != NULL; i++)
        more.items[i + 1] = vars->items[i];
    load_bare(l, "a13n-envd", args, &more);
}

static void defaults(void **state)
{
    loaded l;
    words args = {{"connect", HOST}};
    (void)state;
    load_connect(&l, &args, NULL);
    assert_int_equal(l.rc, 0);
    assert_int_equal(l.action, TCI_CONFIG_CONNECT);
    const tci_connect_plan *plan = l.config.connect;
    assert_text(plan->url, "https://host.example/");
    assert_text(plan->instance, "default");
    assert_text(plan->state_dir, "/home/me/.a13n-envd");
    assert_int_equal(plan->alias.len, 5 + 16);
    assert_false(plan->has_state_dir);
    assert_int_equal(plan->ca_file.len, 0);
    assert_true(l.config.has_monitoring);
    assert_int_equal(l.config.sample_interval_ms, 10000);
    assert_false(l.config.has_commands);
    assert_int_equal(l.config.name.len, 0);
    unload(&l);
}

static void everything_said(void **state)
{
    loaded l;
    words args = {{"connect", "--instance", "i", "--state-dir", "/s/", "work", "--name", "Lab",
                   "--ca-file", "/ca.pem"}};
    (void)state;
    load_connect(&l, &args, NULL);
    assert_int_equal(l.rc, 0);
    const tci_connect_plan *plan = l.config.connect;
    assert_int_equal(plan->url.len, 0);
    assert_text(plan->alias, "work");
    assert_text(plan->instance, "i");
    assert_text(plan->state_dir, "/s");
    assert_true(plan->has_state_dir);
    assert_text(plan->ca_file, "/ca.pem");
    assert_text(l.config.name, "Lab");
    unload(&l);
}

static void relative_paths_count_from_here(void **state)
{
    loaded l;
    char here[2048], want[4096];
    words args = {{"connect", HOST, "--state-dir", "s", "--ca-file", "ca.pem",
                   "--default-working-directory", "work"}};
    (void)state;
    assert_non_null(getcwd(here, sizeof here));
    load_connect(&l, &args, NULL);
    assert_int_equal(l.rc, 0);
    (void)snprintf(want, sizeof want, "%s/s", here);
    assert_text(l.config.connect->state_dir, want);
    (void)snprintf(want, sizeof want, "%s/ca.pem", here);
    assert_text(l.config.connect->ca_file, want);
    (void)snprintf(want, sizeof want, "%s/work", here);
    assert_text(l.config.default_working_directory, want);
    unload(&l);
}

static void where_state_is(void **state)
{
    loaded l;
    words args = {{"connect", HOST}}, option = {{"connect", HOST, "--state-dir", "/opt"}};
    words variable = {{"A13N_ENVD_STATE_DIR=/var/s"}};
    words own = {{"HOME=/home/me"}}, xdg = {{"HOME=/home/me", "XDG_STATE_HOME=/x"}};
    words none = {{"LANG=C"}};
    (void)state;
    load_connect(&l, &args, &variable);
    assert_text(l.config.connect->state_dir, "/var/s");
    assert_false(l.config.connect->has_state_dir);
    unload(&l);
    load_connect(&l, &option, &variable);
    assert_text(l.config.connect->state_dir, "/opt");
    unload(&l);
    load_bare(&l, "telechird", &args, &own);
    assert_text(l.config.connect->state_dir, "/home/me/.local/state/telechir");
    unload(&l);
    load_bare(&l, "telechird", &args, &xdg);
    assert_text(l.config.connect->state_dir, "/x/telechir");
    unload(&l);
    load_bare(&l, "a13n-envd", &args, &none);
    assert_int_equal(l.rc, TC_E_INVALID);
    assert_has(l.err.msg, "--state-dir");
    unload(&l);
}

typedef struct refusal {
    words args;
    const char *says;
} refusal;

static void what_is_refused(void **state)
{
    static const char names[] =
        "instance and Host names use 1..64 letters, digits, dot, dash or underscore";
    static const char form[] = "Host URL must be HTTP(S), without credentials, query or fragment";
    static const char one[] = "connect requires a Host URL or saved Host name";
    static const char remote[] = "remote Hosts require HTTPS; HTTP is supported only on loopback";
    const refusal rows[] = {
        {{{"connect"}}, one},
        {{{"connect", ""}}, one},
        {{{"connect", "--host", "a"}}, one},
        {{{"connect", "a", "b"}}, "connect accepts exactly one Host"},
        {{{"connect", HOST, "--host"}}, "connect option requires a value"},
        {{{"connect", "-h"}}, "connect option requires a value"},
        {{{"connect", HOST, "--host", "a", "--host", "b"}}, "duplicate connect option"},
        {{{"connect", HOST, "--device-id", "a"}}, "unknown connect option; use connect --help"},
        {{{"connect", HOST, "--host=a", "b"}}, "unknown connect option; use connect --help"},
        {{{"connect", HOST, "--host", "a/b"}}, names},
        {{{"connect", HOST, "--host", ""}}, names},
        {{{"connect", HOST, "--instance", ".."}}, names},
        {{{"connect", "a/b"}}, names},
        {{{"connect", "a/b", "--host", "c"}}, names},
        {{{"connect", "http://host.example"}}, remote},
        {{{"connect", "https://u:p@host.example"}}, form},
        {{{"connect", "ftp://host.example"}}, form},
        {{{"connect", "https://"}}, "Host must be an HTTP(S) URL or saved name"},
        {{{"connect", HOST, "--state-dir", ""}}, "--state-dir must name a path"},
        {{{"connect", HOST, "--ca-file", ""}}, "--ca-file must name a path"},
        {{{"connect", HOST, "--name", "a\xff"}}, "--name must be valid UTF-8"},
        {{{"connect", HOST, "--allow-sudo", "x"}}, "--allow-sudo must be true, false, 1 or 0"},
        {{{"connect", HOST, "--config", "/nowhere"}}, "cannot read --config"},
        {{{"connect", HOST, "--egress-mode", "deny"}}, "not available in this build"},
    };
    (void)state;
    for (size_t i = 0; i < TCI_ARRAY_LEN(rows); i++) {
        loaded l;
        load_connect(&l, &rows[i].args, NULL);
        if (l.rc == 0)
            fail_msg("row %zu: accepted", i);
        assert_has(l.err.msg, rows[i].says);
        unload(&l);
    }
}

/* connect decides where it listens, who it is and where it keeps things; all else counts. */
static void settings_of_the_daemon(void **state)
{
    loaded l;
    words args = {{"connect", HOST}};
    words ignored = {{"A13N_ENVD_TRANSPORT=bogus", "A13N_ENVD_RUNTIME_DIR=rel",
                      "A13N_ENVD_HTTP_BIND=x", "A13N_ENVD_REVERSE_WS_URL=x",
                      "A13N_ENVD_DEVICE_ID= x "}};
    words heeded = {{"A13N_ENVD_NAME=Env", "A13N_ENVD_FULL_CONTROL=1",
                     "A13N_ENVD_CONFIG_JSON={\"monitoring\":null,\"description\":\"d\"}"}};
    words unknown = {{"A13N_ENVD_BOGUS=1"}};
    (void)state;
    load_connect(&l, &args, &ignored);
    assert_int_equal(l.rc, 0);
    unload(&l);
    load_connect(&l, &args, &heeded);
    assert_int_equal(l.rc, 0);
    assert_text(l.config.name, "Env");
    assert_text(l.config.description, "d");
    assert_true(l.config.full_control && l.config.has_commands);
    assert_false(l.config.has_monitoring);
    unload(&l);
    load_connect(&l, &args, &unknown);
    assert_int_equal(l.rc, TC_E_INVALID);
    unload(&l);
}

static void an_option_wins_over_a_variable(void **state)
{
    loaded l;
    words args = {{"connect", HOST, "--name", "Option"}};
    words vars = {{"A13N_ENVD_NAME=Env"}};
    (void)state;
    load_connect(&l, &args, &vars);
    assert_text(l.config.name, "Option");
    unload(&l);
}

static void help_of_connect(void **state)
{
    static const char *const parts[] = {"--host",       "--instance",   "--name",
                                        "--state-dir",  "--ca-file",    "--config",
                                        "--allow-sudo", "FULL_CONTROL", "localhost"};
    loaded l;
    char text[8192];
    words ask = {{"connect", "--help"}};
    (void)state;
    load_bare(&l, "telechird", &ask, NULL);
    assert_int_equal(l.action, TCI_CONFIG_HELP);
    assert_int_equal(tci_cstr(l.text, text, sizeof text, &l.err), 0);
    for (size_t i = 0; i < TCI_ARRAY_LEN(parts); i++)
        assert_has(text, parts[i]);
    unload(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults),
        cmocka_unit_test(everything_said),
        cmocka_unit_test(relative_paths_count_from_here),
        cmocka_unit_test(where_state_is),
        cmocka_unit_test(what_is_refused),
        cmocka_unit_test(settings_of_the_daemon),
        cmocka_unit_test(an_option_wins_over_a_variable),
        cmocka_unit_test(help_of_connect),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
