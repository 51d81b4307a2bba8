/* SPDX-License-Identifier: Apache-2.0
 *
 * Environments behind ssh, with the real daemon: lazy, shared, lost and made again. */
#include "fixture.h"

#include <signal.h>
#include <string.h>
#include <sys/stat.h>

#include "plat/thread.h"

static tc_env *open_env(void)
{
    tc_env *env = NULL;
    tc_env_options o = {.size = sizeof o,
                        .environment_id = TC_STR("box"),
                        .working_directory = tci_str(fix.sshd.home)};
    if (access(TC_DEFAULT_DAEMON, X_OK) != 0) {
        print_message("skipped: no daemon at %s\n", TC_DEFAULT_DAEMON);
        skip();
    }
    fix.options.daemon = TC_STR(TC_DEFAULT_DAEMON);
    int rc = tc_env_create_ssh(fix.rt, &o, &fix.options, &env, &fix.err);
    if (rc < 0)
        print_message("%s\n", fix.err.msg);
    assert_int_equal(rc, 0);
    return env;
}

static tc_call call_of(tc_ctx *ctx)
{
    return (tc_call){.size = sizeof(tc_call), .ctx = ctx, .result = fix.r};
}

static int keep_output(void *user, tc_stream_kind stream, tc_str text, const tc_skipped *skipped,
                       tc_err *err)
{
    TCI_UNUSED(stream);
    TCI_UNUSED(skipped);
    TCI_UNUSED(err);
    tci_buf_append_str(user, text);
    return 0;
}

/* Run a script; its standard output, NUL-terminated, in static storage. */
static int exec(tc_env *env, const char *script, const char **ret_out)
{
    static char out[65536];
    tci_buf text;
    tc_exec_outcome outcome;
    tc_call call = call_of(NULL);
    tci_buf_init(&text, sizeof out - 1);
    tc_exec_options o = {
        .size = sizeof o, .script = tci_str(script), .on_output = keep_output, .user = &text};
    int rc = tc_env_exec(env, &call, &o, &outcome, &fix.err);
    if (text.len > 0)
        memcpy(out, text.ptr, text.len);
    out[text.len] = '\0';
    tci_buf_done(&text);
    if (ret_out != NULL)
        *ret_out = out;
    return rc;
}

static int pid_of_ssh(void)
{
    int pids[64], found = 0;
    long n = tci_proc_children(getpid(), pids, TCI_ARRAY_LEN(pids));
    for (long i = 0; i < n && i < (long)TCI_ARRAY_LEN(pids); i++) {
        tci_proc_stat st;
        if (tci_proc_stat_read(pids[i], &st) && strcmp(st.name, "ssh") == 0 && st.state != 'Z')
            found = pids[i];
    }
    return found;
}

static int daemon_pid(tc_env *env)
{
    const char *out = NULL;
    int pid = 0;
    assert_int_equal(exec(env, "echo $PPID", &out), 0);
    assert_int_equal(sscanf(out, "%d", &pid), 1);
    return pid;
}

/* ---- */

static void it_works_once_it_is_ready(void **state)
{
    TCI_UNUSED(state);
    tc_env *env = open_env();
    tc_call call = call_of(NULL);
    tc_str bytes;
    const char *out = NULL;
    char path[4400];
    assert_int_equal(pid_of_ssh(), 0); /* lazy */
    assert_false(tc_env_is_ready(env));
    int rc = tc_env_ready(env, NULL, &fix.err);
    if (rc < 0)
        print_message("%s (%s)\n", fix.err.msg, fix.err.hint);
    assert_int_equal(rc, 0);
    assert_true(tci_str_eq(tc_env_provider(env), TC_STR("ssh")));
    snprintf(path, sizeof path, "%s/sub/note.txt", fix.sshd.home);
    assert_int_equal(tc_env_write_file(env, &call, tci_str(path), TC_STR("over there"), &fix.err),
                     0);
    assert_string_equal(tc_test_read(path), "over there");
    assert_int_equal(tc_env_read(env, &call, TC_STR("~/sub/note.txt"), NULL, 0, &bytes, &fix.err),
                     0);
    assert_true(tci_str_eq(bytes, TC_STR("over there")));
    assert_int_equal(exec(env, "printf %s \"$HOME\"; cat sub/note.txt", &out), 0);
    snprintf(path, sizeof path, "%sover there", fix.sshd.home);
    assert_string_equal(out, path);
    assert_int_equal(nlogins(), 2); /* bringing it, and no more */
    tc_env_release(env);
}

static void lazy_operations_fail_and_succeed_as_the_host_is_trusted(void **state)
{
    TCI_UNUSED(state);
    unlink(fix.known_hosts);
    tc_env *env = open_env();
    tc_call call = call_of(NULL);
    bool is_there = true;
    tc_ssh_keys keys;
    assert_int_equal(tc_env_exists(env, &call, TC_STR("/"), &is_there, &fix.err), TC_E_UNTRUSTED);
    assert_non_null(strstr(fix.err.msg, "not trusted"));
    assert_non_null(strstr(fix.err.hint, "SHA256:"));
    assert_int_equal(exec(env, "true", NULL), TC_E_UNTRUSTED);
    assert_int_equal(tc_result_evidence(fix.r)->env_error, TC_ENV_SPAWN_ERROR);
    assert_int_equal(tc_ssh_scan(fix.rt, NULL, fix.r, &fix.options.target, &keys, &fix.err), 0);
    assert_int_equal(
        tc_ssh_accept(fix.rt, &fix.options.target, (tc_strs){&keys.items[0].line, 1}, &fix.err), 0);
    assert_int_equal(tc_env_exists(env, &call, TC_STR("/"), &is_there, &fix.err), 0);
    assert_true(is_there);
    tc_env_release(env);
}

static void adapters_for_one_place_share_a_connection(void **state)
{
    TCI_UNUSED(state);
    tc_env *one = open_env(), *two = open_env();
    int pid = daemon_pid(one);
    assert_int_equal(daemon_pid(two), pid);
    assert_int_equal(nlogins(), 2);
    assert_true(tci_str_eq(tc_env_files_id(one), tc_env_files_id(two)));
    assert_int_equal(tc_env_close(one, NULL, &fix.err), 0);
    tc_env_release(one);
    assert_int_equal(daemon_pid(two), pid);
    tc_env_release(two);
}

static int kill_the_link(void *user, tc_stream_kind stream, tc_str text, const tc_skipped *skipped,
                         tc_err *err)
{
    TCI_UNUSED(user);
    TCI_UNUSED(stream);
    TCI_UNUSED(text);
    TCI_UNUSED(skipped);
    TCI_UNUSED(err);
    kill(pid_of_ssh(), SIGKILL);
    return 0;
}

static void a_killed_link_is_a_lost_operation_and_the_next_one_connects_again(void **state)
{
    TCI_UNUSED(state);
    tc_env *env = open_env();
    int first = daemon_pid(env);
    tc_exec_outcome outcome;
    tc_call call = call_of(NULL);
    tc_exec_options o = {
        .size = sizeof o, .script = TC_STR("echo up; exec sleep 300"), .on_output = kill_the_link};
    assert_true(tc_env_exec(env, &call, &o, &outcome, &fix.err) < 0);
    assert_true(tc_result_evidence(fix.r)->is_lost);
    assert_int_equal(tc_result_evidence(fix.r)->outcome, TC_OUTCOME_UNKNOWN);
    mark_logins();
    assert_true(daemon_pid(env) != first);
    assert_int_equal(nlogins(), 1);
    tc_env_release(env);
}

static void a_daemon_killed_and_tampered_with_is_brought_again(void **state)
{
    TCI_UNUSED(state);
    tc_env *env = open_env();
    char name[256], path[4800];
    int first = daemon_pid(env);
    assert_int_equal(count_names(deployed_folder(), "telechird-", name), 1);
    snprintf(path, sizeof path, "%s/%s", deployed_folder(), name);
    tc_exec_outcome outcome;
    tc_call call = call_of(NULL);
    char script[64];
    snprintf(script, sizeof script, "kill -9 %d; sleep 300", first);
    tc_exec_options o = {.size = sizeof o, .script = tci_str(script)};
    assert_true(tc_env_exec(env, &call, &o, &outcome, &fix.err) < 0);
    assert_true(tc_result_evidence(fix.r)->is_lost);
    tc_test_write(path, "#!/bin/sh\ntouch \"$HOME/evil-ran\"\n", 0700);
    assert_true(daemon_pid(env) != first);
    snprintf(path, sizeof path, "%s/evil-ran", fix.sshd.home);
    assert_null(tc_test_read(path));
    tc_env_release(env);
}

static void case_92_a_variable_arrives_byte_for_byte(void **state)
{
    TCI_UNUSED(state);
    static const char *const programs[] = {"/bin/sh", "/bin/bash", "/usr/bin/tcsh",
                                           "/usr/bin/fish"};
    static const char value[] = "one=two\nthree 'four' \"five\" $six `seven` \\ eight\t!";
    for (size_t i = 0; i < 2 * TCI_ARRAY_LEN(programs); i++) {
        if (access(programs[i / 2], X_OK) != 0)
            continue;
        tc_sshd_login(&fix.sshd, NULL, programs[i / 2]);
        fix.options.login_shell = i % 2 != 0;
        fix.options.log_user = (void *)programs[i / 2]; /* a connection of its own */
        tc_env *env = open_env();
        tci_buf text;
        tc_exec_outcome outcome;
        tc_call call = call_of(NULL);
        tc_pair pair = {TC_STR("MY_VALUE"), {value, sizeof value - 1}};
        tci_buf_init(&text, 4096);
        tc_exec_options o = {.size = sizeof o,
                             .script = TC_STR("printf %s \"$MY_VALUE\""),
                             .set_env = &pair,
                             .nset_env = 1,
                             .on_output = keep_output,
                             .user = &text};
        int rc = tc_env_exec(env, &call, &o, &outcome, &fix.err);
        if (rc < 0)
            print_message("%s: %s\n", programs[i / 2], fix.err.msg);
        assert_int_equal(rc, 0);
        assert_int_equal(text.len, sizeof value - 1);
        assert_memory_equal(text.ptr, value, text.len);
        tci_buf_done(&text);
        tc_env_release(env);
    }
}

const struct CMUnitTest links_tests[] = {
    TEST(it_works_once_it_is_ready),
    TEST(lazy_operations_fail_and_succeed_as_the_host_is_trusted),
    TEST(adapters_for_one_place_share_a_connection),
    TEST(a_killed_link_is_a_lost_operation_and_the_next_one_connects_again),
    TEST(a_daemon_killed_and_tampered_with_is_brought_again),
    TEST(case_92_a_variable_arrives_byte_for_byte),
};
const size_t nlinks_tests = TCI_ARRAY_LEN(links_tests);
