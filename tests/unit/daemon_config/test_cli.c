/* SPDX-License-Identifier: Apache-2.0
 *
 * The command line: what is printed, which flags there are, and what the program calls itself. */
#include "load.h"

#include <string.h>

static void version_stands_alone(void **state)
{
    loaded l;
    words alone = {{"--version"}}, more = {{"--version", "x"}};
    words bad = {{"A13N_ENVD_FOO=1"}};
    (void)state;
    load_bare(&l, "/usr/bin/a13n-envd", &alone, &bad); /* the variables do not matter to it */
    assert_int_equal(l.rc, 0);
    assert_int_equal(l.action, TCI_CONFIG_VERSION);
    assert_text(l.text, "a13n-envd 0.5.1\n");
    unload(&l);
    load_bare(&l, "telechird", &alone, NULL);
    assert_text(l.text, "telechird " TC_VERSION "\n");
    unload(&l);
    load_bare(&l, "a13n-envd", &more, NULL);
    assert_int_equal(l.rc, TC_E_INVALID);
    assert_string_equal(l.err.msg, "--version cannot be combined with other arguments");
    assert_true(l.config.is_drop_in);
    unload(&l);
}

static void any_other_name_is_our_own(void **state)
{
    static const char *const names[] = {"telechird", "envd", "a13n-envd-old", "", "/a13n-envd/x"};
    words alone = {{"--version"}};
    (void)state;
    for (size_t i = 0; i < TCI_ARRAY_LEN(names); i++) {
        loaded l;
        load_bare(&l, names[i], &alone, NULL);
        assert_false(l.config.is_drop_in);
        assert_text(l.text, "telechird " TC_VERSION "\n");
        unload(&l);
    }
}

static void help_names_every_flag(void **state)
{
    static const char *const flags[] = {"--config",        "--default-working-directory",
                                        "--device-id",     "--name",
                                        "--description",   "--allow-sudo",
                                        "--execution-uid", "--execution-gid",
                                        "--egress-mode",   "--computer-use",
                                        "connect",         "update"};
    loaded l;
    char text[8192];
    words ask = {{"--help"}};
    (void)state;
    load_bare(&l, "a13n-envd", &ask, NULL);
    assert_int_equal(l.rc, 0);
    assert_int_equal(l.action, TCI_CONFIG_HELP);
    assert_int_equal(tci_cstr(l.text, text, sizeof text, &l.err), 0);
    for (size_t i = 0; i < TCI_ARRAY_LEN(flags); i++)
        assert_has(text, flags[i]);
    assert_has(text, "A13N_ENVD_");
    assert_null(strstr(text, "telechird"));
    unload(&l);
}

static void help_under_our_own_name(void **state)
{
    loaded l;
    char text[8192];
    words ask = {{"--help"}};
    (void)state;
    load_bare(&l, "telechird", &ask, NULL);
    assert_int_equal(tci_cstr(l.text, text, sizeof text, &l.err), 0);
    assert_has(text, "usage: telechird");
    assert_has(text, "TELECHIRD_");
    unload(&l);
}

static void flags(void **state)
{
    (void)state;
    static const verdict rows[] = {
        {{{"x"}}, {{NULL}}, "unknown argument: x"},
        {{{""}}, {{NULL}}, "unknown argument: "},
        {{{"serve"}}, {{NULL}}, "unknown argument: serve"},
        {{{"-h"}}, {{NULL}}, "unknown argument: -h"},
        {{{"--help", "x"}}, {{NULL}}, "unknown argument: --help"},
        {{{"--name", "a", "--version"}}, {{NULL}}, "unknown argument: --version"},
        {{{"--name=a"}}, {{NULL}}, "unknown argument: --name=a"},
        {{{"--nam", "a"}}, {{NULL}}, "unknown argument: --nam"},
        {{{"--name"}}, {{NULL}}, "--name requires a value"},
        {{{"--name", "a", "--name", "b"}}, {{NULL}}, "duplicate argument: --name"},
        {{{"--name", "--version"}}, {{NULL}}, NULL},
        {{{"--name", ""}}, {{NULL}}, NULL},
        {{{"--name", "a\xff"}}, {{NULL}}, "--name must be valid UTF-8"},
        {{{"--device-id", ""}}, {{NULL}}, "device_id must be"},
        {{{"--default-working-directory", "rel"}},
         {{NULL}},
         "--default-working-directory must be an absolute path"},
        {{{"--allow-sudo", "TRUE"}}, {{NULL}}, "--allow-sudo must be true, false, 1 or 0"},
        {{{"--allow-sudo", "1"}}, {{NULL}}, NULL},
        {{{"--allow-sudo", "false"}}, {{NULL}}, "--allow-sudo false"},
        {{{"--execution-uid", "x"}},
         {{NULL}},
         "--execution-uid must be an unsigned 32-bit integer"},
        {{{"--execution-uid", "4294967296"}},
         {{NULL}},
         "--execution-uid must be an unsigned 32-bit integer"},
        {{{"--execution-uid", "0"}}, {{NULL}}, "belong together"},
        {{{"--egress-mode", "x"}}, {{NULL}}, "--egress-mode|inherit, deny or controlled"},
        {{{"--egress-mode", "inherit"}}, {{NULL}}, NULL},
        {{{"--computer-use", "x"}}, {{NULL}}, "--computer-use must be true, false, 1 or 0"},
        {{{"--computer-use"}}, {{NULL}}, "--computer-use requires a value"},
        {{{"--computer-use", "true"}}, {{NULL}}, "--computer-use|not available"},
        {{{"--computer-use", "false"}}, {{NULL}}, NULL},
    };
    check_verdicts(rows, TCI_ARRAY_LEN(rows));
}

/* The command line is looked at before the file and the variables are. */
static void order_of_complaints(void **state)
{
    (void)state;
    static const verdict rows[] = {
        {{{"--config", "rel"}}, {{"A13N_ENVD_CONFIG_JSON={"}}, "--config"},
        {{{NULL}},
         {{"A13N_ENVD_CONFIG_JSON={", "A13N_ENVD_TRANSPORT=x"}},
         "invalid A13N_ENVD_CONFIG_JSON"},
        {{{NULL}}, {{"A13N_ENVD_TRANSPORT=x", "A13N_ENVD_ALLOW_SUDO=x"}}, "A13N_ENVD_ALLOW_SUDO"},
        {{{NULL}}, {{"A13N_ENVD_TRANSPORT=x", "A13N_ENVD_RUNTIME_DIR=rel"}}, "A13N_ENVD_TRANSPORT"},
        {{{NULL}}, {{"A13N_ENVD_TRANSPORT=x", "OTEL_METRICS_EXPORTER=x"}}, "OTEL_METRICS_EXPORTER"},
        {{{NULL}}, {{"A13N_ENVD_NAME=a\nb", "A13N_ENVD_EGRESS_MODE=deny"}}, "name must be"},
    };
    check_verdicts(rows, TCI_ARRAY_LEN(rows));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(version_stands_alone),
        cmocka_unit_test(any_other_name_is_our_own),
        cmocka_unit_test(help_names_every_flag),
        cmocka_unit_test(help_under_our_own_name),
        cmocka_unit_test(flags),
        cmocka_unit_test(order_of_complaints),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
