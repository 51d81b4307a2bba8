/* SPDX-License-Identifier: Apache-2.0
 *
 * Whom is trusted, and what a user's ssh configuration cannot change about it. */
#include "fixture.h"

#include <string.h>

#define OTHER "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIZqFq6YrEhvAOqJV75Z5YrmJ7TakPypj0YUczq8XNht"
#define OTHER_PRINT "SHA256:G1aWlTrFL80JQvTsDkev94euIAfiqG4LEvvmM6R6wuo"

static void fingerprint(char out[64])
{
    tci_arena a;
    tc_ssh_key key;
    char line[600];
    tci_arena_init(&a, 0);
    snprintf(line, sizeof line, "box %s", fix.sshd.host_key);
    assert_int_equal(tci_ssh_key_read(tci_str(line), &a, &key, &fix.err), 0);
    snprintf(out, 64, "%.*s", TC_STR_ARG(key.fingerprint));
    tci_arena_done(&a);
}

static void use_config(const char *text)
{
    static char path[4096];
    snprintf(path, sizeof path, "%s", path_of("ssh_config"));
    tc_test_write(path, text, 0600);
    fix.options.target.config_file = tci_str(path);
}

static void trust_another_key(void)
{
    tc_test_write(fix.known_hosts, "box " OTHER "\n", 0600);
}

static void case_90_an_unknown_key_is_typed_and_shown(void **state)
{
    TCI_UNUSED(state);
    started s;
    char print[64];
    tc_ssh_keys keys;
    tc_ssh_status_info status;
    fingerprint(print);
    unlink(fix.known_hosts);
    assert_int_equal(start(&s), TC_E_UNTRUSTED);
    assert_int_equal(fix.err.cause, TC_E_UNTRUSTED);
    assert_non_null(strstr(fix.err.msg, "not trusted yet"));
    assert_non_null(strstr(fix.err.hint, print));
    assert_null(tc_test_read(fix.known_hosts)); /* nothing was learnt */
    assert_int_equal(count_names(fix.sshd.home, "", NULL), 0);
    assert_int_equal(nlogins(), 0);
    assert_int_equal(tc_ssh_status(fix.rt, NULL, fix.r, &fix.options.target, &status, &fix.err), 0);
    assert_int_equal(status.trust, TC_SSH_UNKNOWN);
    assert_int_equal(tc_ssh_scan(fix.rt, NULL, fix.r, &fix.options.target, &keys, &fix.err), 0);
    assert_int_equal(keys.count, 1);
    assert_true(tci_str_eq(keys.items[0].fingerprint, tci_str(print)));
    assert_int_equal(nlogins(), 0);
    assert_int_equal(
        tc_ssh_accept(fix.rt, &fix.options.target, (tc_strs){&keys.items[0].line, 1}, &fix.err), 0);
    assert_int_equal(tc_ssh_status(fix.rt, NULL, fix.r, &fix.options.target, &status, &fix.err), 0);
    assert_int_equal(status.trust, TC_SSH_TRUSTED);
    start_and_end();
}

static void case_90_a_changed_key_stops_everything(void **state)
{
    TCI_UNUSED(state);
    started s;
    char print[64];
    uint64_t n = 0;
    tc_ssh_keys keys;
    tc_ssh_status_info status;
    fingerprint(print);
    trust_another_key();
    for (int i = 0; i < 2; i++) { /* and does not wear off */
        assert_int_equal(start(&s), TC_E_UNTRUSTED);
        assert_int_equal(fix.err.cause, TC_E_INTEGRITY);
        assert_non_null(strstr(fix.err.msg, "has changed"));
        assert_non_null(strstr(fix.err.hint, print));
        assert_non_null(strstr(fix.err.hint, OTHER_PRINT));
    }
    assert_string_equal(tc_test_read(fix.known_hosts), "box " OTHER "\n");
    assert_int_equal(nlogins(), 0);
    assert_int_equal(tc_ssh_status(fix.rt, NULL, fix.r, &fix.options.target, &status, &fix.err), 0);
    assert_int_equal(status.trust, TC_SSH_CHANGED);
    assert_int_equal(status.trusted.count, 1);
    assert_int_equal(status.offered.count, 1);
    assert_true(tci_str_eq(status.trusted.items[0].fingerprint, TC_STR(OTHER_PRINT)));
    keys = status.offered;
    assert_int_equal(
        tc_ssh_accept(fix.rt, &fix.options.target, (tc_strs){&keys.items[0].line, 1}, &fix.err),
        TC_E_UNTRUSTED);
    assert_int_equal(tc_ssh_forget(fix.rt, &fix.options.target, &n, &fix.err), 0);
    assert_int_equal(n, 1);
    assert_int_equal(
        tc_ssh_accept(fix.rt, &fix.options.target, (tc_strs){&keys.items[0].line, 1}, &fix.err), 0);
    start_and_end();
}

/* A trusted key of another type is no excuse either: ssh asks for that type first. */
static void case_90_a_key_of_another_type_is_a_changed_one(void **state)
{
    TCI_UNUSED(state);
    started s;
    tc_test_write(fix.known_hosts,
                  "box ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBF"
                  "HK8T4nClq6Wm6QplmWAtP8rYvJItuIUidfuyxmprGw/fyBiqxVSYQORLhLpUQHBR0jAybZtKnG7y"
                  "Z6GY52P/8=\n",
                  0600);
    assert_int_equal(start(&s), TC_E_UNTRUSTED);
    assert_int_equal(fix.err.cause, TC_E_INTEGRITY);
    assert_non_null(strstr(fix.err.hint, "SHA256:SD0aS2/pHY/LVw32DmPXMeZQXLYNDBY9r5VlXy32V0A"));
}

static int run_ssh(const char *arguments)
{
    char command[17000];
    snprintf(command, sizeof command, "exec ssh %s </dev/null >/dev/null 2>&1", arguments);
    return run_command(command);
}

static void case_90_a_live_shared_connection_does_not_hide_it(void **state)
{
    TCI_UNUSED(state);
    started s;
    char config[8192], arguments[16384], socket_dir[] = "/tmp/tcsshXXXXXX";
    assert_non_null(mkdtemp(socket_dir)); /* a socket's name is short */
    snprintf(config, sizeof config,
             "Host box\n  HostName 127.0.0.1\n  Port %u\n  User %s\n  IdentityFile \"%s\"\n"
             "  StrictHostKeyChecking no\n  UserKnownHostsFile /dev/null\n"
             "  ControlMaster auto\n  ControlPath %s/s\n  ControlPersist 60\n",
             fix.sshd.port, fix.sshd.user, fix.sshd.id, socket_dir);
    use_config(config);
    fix.options.target.host = TC_STR("box");
    fix.options.target.port = 0;
    snprintf(arguments, sizeof arguments, "-F '%s' -o BatchMode=yes box true",
             path_of("ssh_config"));
    assert_int_equal(run_ssh(arguments), 0);
    assert_int_equal(count_names(socket_dir, "s", NULL), 1); /* the shared connection lives */
    trust_another_key();
    assert_int_equal(start(&s), TC_E_UNTRUSTED);
    assert_int_equal(fix.err.cause, TC_E_INTEGRITY);
    tc_sshd_trust(&fix.sshd, fix.known_hosts, "box");
    mark_logins();
    start_and_end();
    assert_int_equal(nlogins(), 2); /* connections of its own */
    snprintf(arguments, sizeof arguments, "-F '%s' -O exit box", path_of("ssh_config"));
    assert_int_equal(run_ssh(arguments), 0);
    run_cleanup(socket_dir);
}

static void no_configuration_lets_a_key_through(void **state)
{
    TCI_UNUSED(state);
    started s;
    char config[8192];
    snprintf(config, sizeof config,
             "Host *\n  StrictHostKeyChecking no\n  UserKnownHostsFile \"%s\"\n"
             "  GlobalKnownHostsFile \"%s\"\n  KnownHostsCommand /bin/echo box %s\n"
             "  NoHostAuthenticationForLocalhost yes\n  VerifyHostKeyDNS yes\n"
             "  HostKeyAlias other\n  CheckHostIP yes\n  UpdateHostKeys yes\n",
             path_of("other_hosts"), path_of("other_hosts"), fix.sshd.host_key);
    use_config(config);
    tc_sshd_trust(&fix.sshd, path_of("other_hosts"), "box,other");
    unlink(fix.known_hosts);
    assert_int_equal(start(&s), TC_E_UNTRUSTED);
    assert_int_equal(fix.err.cause, TC_E_UNTRUSTED);
    trust_another_key();
    assert_int_equal(start(&s), TC_E_UNTRUSTED);
    assert_int_equal(fix.err.cause, TC_E_INTEGRITY);
    tc_sshd_trust(&fix.sshd, fix.known_hosts, "box");
    start_and_end();
}

/* ---- case 89: the session is ours ---- */

static void case_89_the_configuration_says_where_and_our_rules_hold(void **state)
{
    TCI_UNUSED(state);
    char config[8192];
    snprintf(
        config, sizeof config,
        "Host my-box\n  HostName 127.0.0.1\n  Port %u\n  User %s\n  IdentityFile \"%s\"\n"
        "  RemoteCommand tmux attach\n  RequestTTY force\n  SessionType none\n  StdinNull yes\n"
        "  ForkAfterAuthentication yes\n  PermitLocalCommand yes\n"
        "  LocalCommand touch \"%s\"\n  SendEnv *\n  ForwardAgent yes\n  ForwardX11 yes\n"
        "  ControlMaster auto\n  ControlPath \"%s\"\n  LogLevel QUIET\n"
        "  LocalForward 127.0.0.1:1 127.0.0.1:1\n  RemoteForward 1 127.0.0.1:1\n"
        "  ExitOnForwardFailure yes\n  ServerAliveInterval 1\n",
        fix.sshd.port, fix.sshd.user, fix.sshd.id, path_of("local-command-ran"), path_of("shared"));
    use_config(config);
    fix.options.target.host = TC_STR("my-box");
    fix.options.target.port = 0;
    fix.options.target.user = (tc_str){0};
    fix.options.target.identity_file = (tc_str){0};
    fix.options.target.no_agent = true;
    setenv("MY_SECRET", "x", 1);
    setenv("LC_ALL", "C.UTF-8", 1);
    const char *facts = start_and_end();
    unsetenv("MY_SECRET");
    unsetenv("LC_ALL");
    assert_null(tc_test_read(path_of("local-command-ran")));
    assert_null(tc_test_read(path_of("shared")));
    /* The server would take any variable. */
    assert_null(strstr(fact(facts, "env"), "MY_SECRET"));
    assert_null(strstr(fact(facts, "env"), "LC_ALL"));
    assert_null(strstr(fact(facts, "env"), "TERM"));
    /* And a person can be told what did not count. */
    tc_strs lines;
    tci_buf all;
    assert_int_equal(tc_ssh_ignored(fix.rt, NULL, fix.r, &fix.options.target, &lines, &fix.err), 0);
    tci_buf_init(&all, TCI_BUF_MAX);
    for (size_t i = 0; i < lines.count; i++)
        tci_buf_printf(&all, "%.*s\n", TC_STR_ARG(lines.items[i]));
    tci_buf_append_byte(&all, '\0');
    static const char *const expected[] = {"remotecommand tmux attach\n", "requesttty force\n",
                                           "sessiontype none\n",          "stdinnull yes\n",
                                           "permitlocalcommand yes\n",    "forwardagent yes\n",
                                           "controlmaster auto\n",        "loglevel "};
    for (size_t i = 0; i < TCI_ARRAY_LEN(expected); i++)
        assert_non_null(strstr(all.ptr, expected[i]));
    assert_null(strstr(all.ptr, "hostname"));
    assert_null(strstr(all.ptr, "identityfile"));
    assert_null(strstr(all.ptr, "port "));
    tci_buf_done(&all);
}

static void case_89_a_jump_host_is_a_way_there(void **state)
{
    TCI_UNUSED(state);
    started s;
    char config[8192];
    snprintf(config, sizeof config,
             "Host my-box\n  HostName 127.0.0.1\n  Port %u\n  ProxyJump jump\n"
             "Host jump\n  HostName 127.0.0.1\n  Port %u\n"
             "Host *\n  User %s\n  IdentityFile \"%s\"\n  UserKnownHostsFile \"%s\"\n",
             fix.sshd.port, fix.sshd.port, fix.sshd.user, fix.sshd.id, path_of("users_own"));
    use_config(config);
    fix.options.target.host = TC_STR("my-box");
    fix.options.target.port = 0;
    unlink(path_of("users_own"));
    assert_int_equal(start(&s), TC_E_UNTRUSTED); /* the jump host is the user's to trust */
    assert_non_null(strstr(fix.err.msg, "on the way"));
    char name[64];
    snprintf(name, sizeof name, "[127.0.0.1]:%u", fix.sshd.port);
    tc_sshd_trust(&fix.sshd, path_of("users_own"), name);
    start_and_end();
}

static void case_89_a_configuration_ssh_refuses_is_named(void **state)
{
    TCI_UNUSED(state);
    started s;
    use_config("Host *\n  NoSuchOption yes\n");
    assert_int_equal(start(&s), TC_E_INVALID);
    assert_non_null(strstr(fix.err.msg, "configuration"));
    assert_non_null(strstr(fix.err.msg, "nosuchoption"));
}

/* ---- other ways not to get in ---- */

static void failures_have_their_own_words(void **state)
{
    TCI_UNUSED(state);
    started s;
    tc_ssh_keys keys;
    uint32_t port = fix.sshd.port;
    fix.options.target.port = 1;
    assert_int_equal(start(&s), TC_E_CONNECT);
    assert_non_null(strstr(fix.err.msg, "nothing listens there"));
    assert_true(fix.err.hint[0] != '\0');
    assert_int_equal(tc_ssh_scan(fix.rt, NULL, fix.r, &fix.options.target, &keys, &fix.err),
                     TC_E_CONNECT);
    fix.options.target.port = port;
    fix.options.target.host = TC_STR("no-such-host.invalid");
    assert_int_equal(start(&s), TC_E_CONNECT);
    assert_non_null(strstr(fix.err.msg, "no host of that name"));
    fix.options.target.host = TC_STR("127.0.0.1");
    tc_str id = fix.options.target.identity_file;
    fix.options.target.identity_file = TC_STR("/nonexistent/key");
    assert_int_equal(start(&s), TC_E_AUTH);
    assert_non_null(strstr(fix.err.msg, "login was refused"));
    fix.options.target.identity_file = id;
    fix.options.target.program = TC_STR("no-such-ssh");
    assert_int_equal(start(&s), TC_E_START_FAILED);
    assert_int_equal(tc_ssh_scan(fix.rt, NULL, fix.r, &fix.options.target, &keys, &fix.err),
                     TC_E_START_FAILED);
    fix.options.target.program = (tc_str){0};
    fix.options.daemon = TC_STR("/nonexistent/daemon");
    assert_int_equal(start(&s), TC_E_NOT_FOUND);
}

/* An ssh that does not know a newer rule complains and ends; the rule is left out. */
static void an_older_ssh_works_too(void **state)
{
    TCI_UNUSED(state);
    static char path[4096];
    snprintf(path, sizeof path, "%s", path_of("old-ssh"));
    tc_test_write(path,
                  "#!/bin/sh\n"
                  "for o in SessionType StdinNull KnownHostsCommand; do\n"
                  "  case \" $* \" in *\" $o=\"*)\n"
                  "    printf 'command-line: line 0: Bad configuration option: %s\\r\\n' $o >&2\n"
                  "    exit 255;;\n  esac\ndone\n"
                  "exec ssh \"$@\"\n",
                  0755);
    fix.options.target.program = tci_str(path);
    start_and_end();
    tc_ssh_status_info status;
    assert_int_equal(tc_ssh_status(fix.rt, NULL, fix.r, &fix.options.target, &status, &fix.err), 0);
    assert_int_equal(status.trust, TC_SSH_TRUSTED);
}

static void a_cancelled_start_ends_soon(void **state)
{
    TCI_UNUSED(state);
    tci_pi_launcher launcher;
    tci_pi_child child;
    tc_ctx *ctx;
    tc_ssh_keys keys;
    static char path[4096];
    snprintf(path, sizeof path, "%s", path_of("slow-ssh"));
    tc_test_write(path, "#!/bin/sh\nexec sleep 300\n", 0755);
    fix.options.target.program = tci_str(path);
    assert_int_equal(tci_ssh_launcher_new(fix.rt, &fix.options, 0, &launcher, &fix.err), 0);
    assert_int_equal(tc_ctx_new(200, &ctx, &fix.err), 0);
    assert_int_equal(launcher.launch(launcher.user, ctx, TC_STR(TOKEN), &child, &fix.err),
                     TC_E_TIMEOUT);
    tc_ctx_reset(ctx, -1);
    tc_ctx_cancel(ctx);
    assert_int_equal(launcher.launch(launcher.user, ctx, TC_STR(TOKEN), &child, &fix.err),
                     TC_E_CANCELLED);
    assert_int_equal(tc_ssh_scan(fix.rt, ctx, fix.r, &fix.options.target, &keys, &fix.err),
                     TC_E_CANCELLED);
    launcher.free(launcher.user);
    tc_ctx_free(ctx);
}

const struct CMUnitTest trust_tests[] = {
    TEST(case_90_an_unknown_key_is_typed_and_shown),
    TEST(case_90_a_changed_key_stops_everything),
    TEST(case_90_a_key_of_another_type_is_a_changed_one),
    TEST(case_90_a_live_shared_connection_does_not_hide_it),
    TEST(no_configuration_lets_a_key_through),
    TEST(case_89_the_configuration_says_where_and_our_rules_hold),
    TEST(case_89_a_jump_host_is_a_way_there),
    TEST(case_89_a_configuration_ssh_refuses_is_named),
    TEST(failures_have_their_own_words),
    TEST(an_older_ssh_works_too),
    TEST(a_cancelled_start_ends_soon),
};
const size_t ntrust_tests = TCI_ARRAY_LEN(trust_tests);
