/* SPDX-License-Identifier: Apache-2.0
 *
 * The update word: what it answers without a network, and what it refuses. */
#include "load.h"

#include "plat/self.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static void ask(loaded *l, const char *program, words args)
{
    load_bare(l, program, &args, NULL);
}

static void check_refused(words args, const char *says)
{
    loaded l;
    ask(&l, "a13n-envd", args);
    assert_true(l.rc < 0);
    assert_has(l.err.msg, says);
    unload(&l);
}

static void help(void **state)
{
    loaded l;
    (void)state;
    ask(&l, "a13n-envd", (words){{"update", "--help"}});
    assert_int_equal(l.rc, 0);
    assert_int_equal(l.action, TCI_CONFIG_UPDATE);
    assert_true(tci_str_find(l.text, TC_STR("--install-dir")) < l.text.len);
    unload(&l);
}

static void arguments(void **state)
{
    (void)state;
    check_refused((words){{"update", "--help", "x"}}, "invalid update argument: --help");
    check_refused((words){{"update", "x"}}, "invalid update argument: x");
    check_refused((words){{"update", "--version=0.5.1"}}, "invalid update argument");
    check_refused((words){{"update", "--check", "--check"}}, "invalid update argument: --check");
    check_refused((words){{"update", "--version", "0.5.1", "--version", "0.5.1"}},
                  "invalid update argument: --version");
    check_refused((words){{"update", "--version"}}, "--version requires a value");
    check_refused((words){{"update", "--version", "0.5.1", "--check", "--force"}},
                  "--check and --force");
    check_refused((words){{"update", "--install-dir", "/tmp"}}, "--install-dir requires --version");
    check_refused((words){{"update", "--install-dir", "rel", "--version", "0.5.1"}},
                  "--install-dir must be absolute");
    check_refused((words){{"update", "--staging-dir", "/nowhere", "--version", "0.5.1"}},
                  "--staging-dir must be");
    check_refused((words){{"update", "--staging-dir", ".", "--version", "0.5.1"}},
                  "--staging-dir must be");
}

static void versions(void **state)
{
    static const char *const bad[] = {
        "x",         "",         "1",       "1.2",    "1.2.3.4",      "01.2.3",      "1.2.3-rc.0",
        "1.2.3-rc.", "1.2.3-rc", "1.2.3+b", "v1.2.3", "1.2.3-beta.1", "1.2.3-rc.01", "1..3"};
    (void)state;
    for (size_t i = 0; i < TCI_ARRAY_LEN(bad); i++)
        check_refused((words){{"update", "--check", "--version", bad[i]}}, "version must be X.Y.Z");
}

static void what_needs_no_network(void **state)
{
    loaded l;
    char self[TCI_PATH_MAX], want[2 * TCI_PATH_MAX];
    tc_str program;
    tc_err err;
    (void)state;
    assert_int_equal(tci_self_program(self, &program, &err), 0);
    (void)snprintf(want, sizeof want,
                   "Destination: %s\nCurrent: 0.5.1; selected: 0.5.1\nAlready up to date.\n", self);
    ask(&l, "a13n-envd", (words){{"update", "--version", "0.5.1"}});
    assert_int_equal(l.rc, 0);
    assert_text(l.text, want);
    unload(&l);
    (void)snprintf(want, sizeof want, "Destination: %s\nCurrent: 0.5.1; selected: 9.9.9-rc.2\n",
                   self);
    ask(&l, "a13n-envd", (words){{"update", "--check", "--version", "9.9.9-rc.2"}});
    assert_int_equal(l.rc, 0);
    assert_text(l.text, want);
    unload(&l);
    ask(&l, "telechird", (words){{"update", "--check", "--version", TC_VERSION}});
    assert_int_equal(l.rc, 0);
    assert_true(tci_str_find(l.text, TC_STR("Current: " TC_VERSION)) < l.text.len);
    unload(&l);
    check_refused((words){{"update"}}, "network is not built in");
    check_refused((words){{"update", "--check"}}, "network is not built in");
    check_refused((words){{"update", "--version", "9.9.9"}}, "network is not built in");
    check_refused((words){{"update", "--version", "0.5.1", "--force"}}, "network is not built in");
}

static void another_folder(void **state)
{
    loaded l;
    char want[4096];
    const char *folder = path_of("install");
    (void)state;
    assert_int_equal(mkdir(folder, 0700), 0);
    (void)snprintf(want, sizeof want,
                   "Destination: %s/a13n-envd\nCurrent: not installed; selected: 0.5.1\n", folder);
    ask(&l, "a13n-envd",
        (words){{"update", "--check", "--version", "0.5.1", "--install-dir", folder}});
    assert_int_equal(l.rc, 0);
    assert_text(l.text, want);
    unload(&l);
    check_refused((words){{"update", "--version", "0.5.1", "--install-dir", folder}},
                  "network is not built in");
    (void)put_text_file("install/a13n-envd", "#!/bin/sh\n");
    ask(&l, "a13n-envd",
        (words){{"update", "--check", "--version", "0.5.1", "--install-dir", folder}});
    assert_int_equal(l.rc, 0);
    assert_true(tci_str_find(l.text, TC_STR("Current: unknown")) < l.text.len);
    unload(&l);
}

static void a_pin_holds(void **state)
{
    loaded l;
    const char *folder = path_of("pinned");
    (void)state;
    assert_int_equal(mkdir(folder, 0700), 0);
    (void)put_text_file("pinned/.a13n-envd-version", "0.5.1\n");
    check_refused((words){{"update", "--version", "9.9.9", "--check", "--install-dir", folder}},
                  "pinned to 0.5.1");
    ask(&l, "a13n-envd",
        (words){{"update", "--version", "0.5.1", "--check", "--install-dir", folder}});
    assert_int_equal(l.rc, 0);
    unload(&l);
    (void)put_text_file("pinned/.a13n-envd-version", "latest");
    check_refused((words){{"update", "--version", "0.5.1", "--check", "--install-dir", folder}},
                  "pinned");
}

/* Started through a link or a path, the pin beside that name counts too. */
static void a_pin_beside_the_name_holds(void **state)
{
    loaded l;
    (void)state;
    assert_int_equal(mkdir(path_of("linked"), 0700), 0);
    (void)put_text_file("linked/.a13n-envd-version", "0.5.1");
    const char *program = path_of("linked/a13n-envd");
    ask(&l, program, (words){{"update", "--version", "9.9.9", "--check"}});
    assert_int_equal(l.rc, TC_E_DENIED);
    assert_has(l.err.msg, "pinned");
    assert_text(l.config.program, "a13n-envd update");
    unload(&l);
    ask(&l, program, (words){{"update"}});
    assert_has(l.err.msg, "pinned");
    unload(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(help),
        cmocka_unit_test(arguments),
        cmocka_unit_test(versions),
        cmocka_unit_test(what_needs_no_network),
        cmocka_unit_test(another_folder),
        cmocka_unit_test(a_pin_holds),
        cmocka_unit_test(a_pin_beside_the_name_holds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
