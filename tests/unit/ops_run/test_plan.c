/* SPDX-License-Identifier: Apache-2.0
 *
 * What is executed, where, and with which environment. */
#include "run_fixture.h"

#include "plat/env.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void write_file(const char *name, const char *text, unsigned mode)
{
    (void)unlink(name);
    FILE *out = fopen(name, "w");
    assert_non_null(out);
    assert_true(fputs(text, out) >= 0);
    assert_int_equal(fclose(out), 0);
    assert_int_equal(chmod(name, mode), 0);
}

static void make_dir(const char *name)
{
    if (mkdir(name, 0755) < 0)
        assert_true(access(name, F_OK) == 0);
}

static void run_argv(task *t, world *w, const tc_str *argv, size_t nargv, tci_run_opts opts)
{
    opts.argv = argv;
    opts.nargv = nargv;
    task_start(t, w, opts);
    (void)task_wait(t);
}

static void the_usual_shell(void **state)
{
    task t;
    task_script(&t, *state, "printf %s \"$0\"", task_opts());
    (void)task_wait(&t);
    if (is_file("/bin/bash"))
        assert_out(&t, "/bin/bash");
    assert_int_equal(t.exit_code, 0);
    task_done(&t);
}

static void another_shell(void **state)
{
    task t;
    tci_run_opts opts = task_opts();
    write_file("shell.real", "#!/bin/sh\nprintf '%s|' \"$@\"\n", 0755);
    (void)unlink("shell");
    assert_int_equal(symlink("shell.real", "shell"), 0); /* links are followed */
    opts.shell_path = TC_STR("./shell");
    task_script(&t, *state, "a  b", opts);
    (void)task_wait(&t);
    assert_out(&t, "-c|a  b|");
    task_done(&t);
}

static void a_shell_that_will_not_do(void **state)
{
    world *w = *state;
    tc_err err;
    tci_run_opts opts = task_opts();
    opts.command = TC_STR("true");
    opts.shell_path = TC_STR("/nowhere/sh");
    assert_int_equal(task_refused(w, opts, &err), TC_E_NOT_FOUND);
    opts.cwd = TC_STR("/nowhere"); /* the shell is looked at first */
    assert_int_equal(task_refused(w, opts, &err), TC_E_NOT_FOUND);
    opts.cwd = TC_STR(".");
    write_file("no_program", "#!/bin/sh\n", 0644);
    opts.shell_path = TC_STR("./no_program");
    assert_int_equal(task_refused(w, opts, &err), TC_E_START_FAILED);
    opts.shell_path = TC_STR("/tmp");
    assert_int_equal(task_refused(w, opts, &err), TC_E_START_FAILED);
}

static void a_folder_that_will_not_do(void **state)
{
    world *w = *state;
    tc_err err;
    tci_run_opts opts = task_opts();
    opts.command = TC_STR("true");
    opts.cwd = TC_STR("/nowhere/at/all");
    assert_int_equal(task_refused(w, opts, &err), TC_E_START_FAILED);
    assert_non_null(strstr(err.msg, "Working directory does not exist: '/nowhere/at/all'"));
    opts.cwd = TC_STR("");
    assert_int_equal(task_refused(w, opts, &err), TC_E_START_FAILED);
    opts.cwd = TC_STR("a\0b");
    assert_int_equal(task_refused(w, opts, &err), TC_E_START_FAILED);
    write_file("a_file", "", 0644);
    opts.cwd = TC_STR("a_file");
    assert_int_equal(task_refused(w, opts, &err), TC_E_START_FAILED);
    assert_non_null(strstr(err.msg, "not a directory"));
}

static void arguments_arrive_unparsed(void **state)
{
    task t;
    static const tc_str argv[] = {
        {"printf", 6},       {"%s\\n", 4}, {"a 'b\" c", 7},     {"$(touch bad)", 12},
        {"`touch bad`", 11}, {"*", 1},     {"; touch bad", 11}, {"", 0},
        {"\xc3\xa9", 2},
    };
    run_argv(&t, *state, argv, TCI_ARRAY_LEN(argv), task_opts());
    assert_out(&t, "a 'b\" c\n$(touch bad)\n`touch bad`\n*\n; touch bad\n\n\xc3\xa9\n");
    assert_false(is_file("bad"));
    task_done(&t);
}

static void a_program_in_its_folder(void **state)
{
    task t;
    tci_run_opts opts = task_opts();
    make_dir("sub");
    write_file("sub/prog", "#!/bin/sh\nbasename \"$PWD\"\necho \"$0\"\nexit 3\n", 0755);
    opts.cwd = TC_STR("sub");
    static const tc_str argv[] = {{"./prog", 6}};
    run_argv(&t, *state, argv, 1, opts);
    assert_true(tci_str_starts(tci_buf_str(&t.out[0]), TC_STR("sub\n")));
    assert_int_equal(t.end, TCI_RUN_EXITED);
    assert_int_equal(t.exit_code, 3);
    task_done(&t);
}

static void programs_that_are_not_there(void **state)
{
    world *w = *state;
    tc_err err;
    tci_run_opts opts = task_opts();
    static const tc_str missing[] = {{"no-such-program-here", 20}}, unnamed[] = {{"", 0}},
                        with_nul[] = {{"tr\0ue", 5}}, bad_argument[] = {{"true", 4}, {"\0", 1}},
                        missing_path[] = {{"./nothing", 9}};
    const tc_str *lists[] = {missing, unnamed, with_nul, bad_argument, missing_path};
    for (size_t i = 0; i < TCI_ARRAY_LEN(lists); i++) {
        opts.argv = lists[i];
        opts.nargv = lists[i] == bad_argument ? 2 : 1;
        assert_int_equal(task_refused(w, opts, &err), TC_E_START_FAILED);
    }
    opts.nargv = 0;
    assert_int_equal(task_refused(w, opts, &err), TC_E_START_FAILED);
}

/* The PATH that counts is the command's. */
static void the_search_for_a_program(void **state)
{
    world *w = *state;
    task t;
    tc_err err;
    tci_run_opts opts = task_opts();
    make_dir("one");
    make_dir("two");
    make_dir("three");
    make_dir("one/tool"); /* a folder is no program */
    write_file("two/tool", "#!/bin/sh\necho two\n", 0644);
    write_file("three/tool", "echo three $1\n", 0755); /* no "#!": for sh */
    static const tc_str argv[] = {{"tool", 4}, {"x", 1}}, usual[] = {{"true", 4}};
    tci_run_var path = {TC_STR("PATH"), TC_STR("/nowhere:one:two:three:/bin:/usr/bin")};
    opts.vars = &path;
    opts.nvars = 1;
    run_argv(&t, w, argv, 2, opts);
    assert_out(&t, "three x\n");
    task_done(&t);

    path.value = TC_STR("one:two"); /* there, but not to be executed */
    opts.argv = argv;
    opts.nargv = 2;
    assert_int_equal(task_refused(w, opts, &err), TC_E_START_FAILED);
    path.value = TC_STR("/nowhere");
    opts.argv = usual;
    opts.nargv = 1;
    assert_int_equal(task_refused(w, opts, &err), TC_E_START_FAILED);
    opts.cwd = TC_STR("three"); /* an empty part is the working folder */
    path.value = TC_STR("/nowhere:");
    run_argv(&t, w, argv, 1, opts);
    assert_out(&t, "three\n");
    task_done(&t);

    opts = task_opts(); /* no PATH at all: the system's own */
    opts.inherit_env = false;
    run_argv(&t, w, usual, 1, opts);
    assert_int_equal(t.exit_code, 0);
    task_done(&t);
}

static void variables(void **state)
{
    world *w = *state;
    task t;
    tci_run_opts opts = task_opts();
    assert_int_equal(setenv("RUN_TEST_KEPT", "kept", 1), 0);
    assert_int_equal(setenv("RUN_TEST_CHANGED", "old", 1), 0);
    const tci_run_var vars[] = {{TC_STR("RUN_TEST_CHANGED"), TC_STR("")},
                                {TC_STR("RUN_TEST_NEW"), TC_STR("first")},
                                {TC_STR("RUN_TEST_NEW"), TC_STR("last")}};
    opts.vars = vars;
    opts.nvars = TCI_ARRAY_LEN(vars);
    static const char script[] = "echo \"$RUN_TEST_KEPT,${RUN_TEST_CHANGED-unset},$RUN_TEST_NEW\"";
    task_script(&t, w, script, opts);
    (void)task_wait(&t);
    assert_out(&t, "kept,,last\n");
    task_done(&t);

    opts.inherit_env = false;
    static const tc_str argv[] = {{"env", 3}};
    run_argv(&t, w, argv, 1, opts);
    assert_out(&t, "RUN_TEST_CHANGED=\nRUN_TEST_NEW=last\n");
    task_done(&t);
}

static void case_92_newline_and_equals_in_a_value(void **state)
{
    task t;
    tci_run_opts opts = task_opts();
    const tci_run_var var = {TC_STR("RUN_TEST_ODD"), TC_STR("a=b\nc=\n\xff=")};
    opts.vars = &var;
    opts.nvars = 1;
    opts.is_raw = true;
    task_script(&t, *state, "printf '<%s>' \"$RUN_TEST_ODD\"", opts);
    (void)task_wait(&t);
    assert_out(&t, "<a=b\nc=\n\xff=>");
    task_done(&t);
}

static void a_login_shell(void **state)
{
    task t;
    tci_run_opts opts = task_opts();
    char home[4096];
    assert_non_null(getcwd(home, sizeof home));
    write_file(".profile", "SEEN_AT_LOGIN=yes\n", 0644);
    const tci_run_var var = {TC_STR("HOME"), tci_str(home)};
    opts.vars = &var;
    opts.nvars = 1;
    opts.shell_path = TC_STR("/bin/sh");
    task_script(&t, *state, "printf '%s,%s' \"$SEEN_AT_LOGIN\" \"$0\"", opts);
    (void)task_wait(&t);
    assert_out(&t, ",/bin/sh");
    task_done(&t);
    opts.is_login = true;
    task_script(&t, *state, "printf '%s,%s' \"$SEEN_AT_LOGIN\" \"$0\"", opts);
    (void)task_wait(&t);
    assert_out(&t, "yes,-sh");
    task_done(&t);
    opts.shell_path = tci_str_of(NULL, 0); /* the account's, whichever that is */
    task_script(&t, *state, "echo here", opts);
    (void)task_wait(&t);
    assert_int_equal(t.exit_code, 0);
    assert_true(tci_str_ends(tci_buf_str(&t.out[0]), TC_STR("here\n")));
    task_done(&t);
}

int run_plan_tests(void)
{
    const struct CMUnitTest tests[] = {
        IN_MARK(the_usual_shell),
        IN_MARK(another_shell),
        IN_MARK(a_shell_that_will_not_do),
        IN_MARK(a_folder_that_will_not_do),
        IN_MARK(arguments_arrive_unparsed),
        IN_MARK(a_program_in_its_folder),
        IN_MARK(programs_that_are_not_there),
        IN_MARK(the_search_for_a_program),
        IN_MARK(variables),
        IN_MARK(case_92_newline_and_equals_in_a_value),
        IN_MARK(a_login_shell),
    };
    return cmocka_run_group_tests_name("plan", tests, NULL, NULL);
}
