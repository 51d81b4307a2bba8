/* SPDX-License-Identifier: Apache-2.0
 *
 * What may be in a target, and what ssh is told. */
#include "tests.h"

#include "plat/system.h"

static int check(tc_ssh_target t)
{
    tc_err err = {0};
    t.size = sizeof t;
    int rc = tc_ssh_target_check(&t, &err);
    if (rc < 0) {
        assert_int_equal(rc, TC_E_INVALID);
        assert_non_null(strstr(err.msg, "invalid "));
    }
    return rc;
}

static void fields_that_are_refused(void **state)
{
    TCI_UNUSED(state);
    static const char *const words[] = {"",
                                        "-oProxyCommand=x",
                                        "a b",
                                        "a\tb",
                                        "a\nb",
                                        "a\x7f",
                                        "a\x01",
                                        "a\xc2\xa0"
                                        "b",
                                        "a\xe2\x80\x89",
                                        "a\xe3\x80\x80",
                                        "a\xff",
                                        "a\xe2\x80\xa8"};
    for (size_t i = 0; i < TCI_ARRAY_LEN(words); i++) {
        tc_str w = tci_str(words[i]);
        assert_int_equal(check((tc_ssh_target){.host = w}), TC_E_INVALID);
        if (w.len == 0)
            continue;
        assert_int_equal(check((tc_ssh_target){.host = TC_STR("h"), .user = w}), TC_E_INVALID);
        assert_int_equal(check((tc_ssh_target){.host = TC_STR("h"), .host_key_alias = w}),
                         TC_E_INVALID);
    }
    /* What a ProxyCommand's shell, ssh itself or the file of keys would take for something else. */
    static const char *const hosts[] = {"a;b", "a$(b)", "a|b", "u@h", "ssh://h", "a`b`", "a'b"};
    for (size_t i = 0; i < TCI_ARRAY_LEN(hosts); i++)
        assert_int_equal(check((tc_ssh_target){.host = tci_str(hosts[i])}), TC_E_INVALID);
    static const char *const aliases[] = {"a*", "a,b", "!a", "|1|x", "@cert-authority", "#a", "a?"};
    for (size_t i = 0; i < TCI_ARRAY_LEN(aliases); i++)
        assert_int_equal(
            check((tc_ssh_target){.host = TC_STR("h"), .host_key_alias = tci_str(aliases[i])}),
            TC_E_INVALID);
    assert_int_equal(check((tc_ssh_target){.host = TC_STR("h"), .port = 65536}), TC_E_INVALID);
    static const char *const paths[] = {"/a\"b", "/a\nb", "/a\x7f", "/a\\b", "/${HOME}/x"};
    for (size_t i = 0; i < TCI_ARRAY_LEN(paths); i++) {
        tc_str p = tci_str(paths[i]);
        assert_int_equal(check((tc_ssh_target){.host = TC_STR("h"), .identity_file = p}),
                         TC_E_INVALID);
        assert_int_equal(check((tc_ssh_target){.host = TC_STR("h"), .known_hosts_file = p}),
                         TC_E_INVALID);
        assert_int_equal(check((tc_ssh_target){.host = TC_STR("h"), .config_file = p}),
                         TC_E_INVALID);
    }
    assert_int_equal(
        check((tc_ssh_target){.host = TC_STR("h"), .known_hosts_file = TC_STR("relative")}),
        TC_E_INVALID);
}

static void fields_that_are_fine(void **state)
{
    TCI_UNUSED(state);
    assert_int_equal(check((tc_ssh_target){.host = TC_STR("gpu-box.example.org"),
                                           .user = TC_STR("me"),
                                           .port = 65535,
                                           .identity_file = TC_STR("~/my keys/id%d"),
                                           .known_hosts_file = TC_STR("/x y/known_hosts"),
                                           .host_key_alias = TC_STR("[box]:2222")}),
                     0);
    assert_int_equal(check((tc_ssh_target){.host = TC_STR("2001:db8::1%eth0")}), 0);
    assert_int_equal(check((tc_ssh_target){.host = TC_STR("b\xc3\xbc"
                                                          "cher")}),
                     0);
}

static void the_message_shows_the_value(void **state)
{
    TCI_UNUSED(state);
    tc_err err;
    tc_ssh_target t = {.size = sizeof t, .host = TC_STR("a b")};
    assert_int_equal(tc_ssh_target_check(&t, &err), TC_E_INVALID);
    assert_string_equal(err.msg, "invalid host: \"a b\"");
    t.host = TC_STR("h");
    t.user = TC_STR("-x\n");
    assert_int_equal(tc_ssh_target_check(&t, &err), TC_E_INVALID);
    assert_string_equal(err.msg, "invalid user: \"-x\\n\"");
}

static void targets_in_one_word(void **state)
{
    TCI_UNUSED(state);
    static const struct {
        const char *text, *user, *host;
        uint32_t port;
    } good[] = {{"box", "", "box", 0},
                {"ssh:box", "", "box", 0},
                {"me@box", "me", "box", 0},
                {"ssh:me@box:2222", "me", "box", 2222},
                {"me@corp@box", "me@corp", "box", 0},
                {"[2001:db8::1]:22", "", "2001:db8::1", 22},
                {"2001:db8::1", "", "2001:db8::1", 0},
                {"ssh:me@[::1]", "me", "::1", 0}};
    tc_err err;
    for (size_t i = 0; i < TCI_ARRAY_LEN(good); i++) {
        tc_ssh_target t = {.size = sizeof t, .identity_file = TC_STR("kept")};
        assert_int_equal(tc_ssh_target_parse(tci_str(good[i].text), &t, &err), 0);
        assert_str(t.user, good[i].user);
        assert_str(t.host, good[i].host);
        assert_int_equal(t.port, good[i].port);
        assert_str(t.identity_file, "kept");
    }
    static const char *const bad[] = {"",     "ssh:",     "@box",    "box:",   "box:0", "box:65536",
                                      "b:x",  "[::1]22",  "me@",     "-box",   "a b",   "box:022",
                                      "[::1", "me@-x:22", "ssh://h", "u@h;id", "[]:22"};
    for (size_t i = 0; i < TCI_ARRAY_LEN(bad); i++) {
        tc_ssh_target t = {.size = sizeof t, .host = TC_STR("before")};
        assert_int_equal(tc_ssh_target_parse(tci_str(bad[i]), &t, &err), TC_E_INVALID);
        assert_str(t.host, "before");
    }
}

static void defaults(void **state)
{
    TCI_UNUSED(state);
    static const char *const with_home[] = {"HOME=/home/me", NULL};
    static const char *const with_config[] = {"HOME=/home/me", "XDG_CONFIG_HOME=/c", NULL};
    static const char *const with_nothing[] = {"PATH=/bin", NULL};
    tci_arena a;
    tc_err err;
    tci_ssh_to to;
    tci_arena_init(&a, 0);
    tc_ssh_target t = {.size = sizeof t, .host = TC_STR("Box.Example"), .port = 2222};
    tc_runtime *rt = open_runtime(with_home);
    assert_int_equal(tci_ssh_to_make(rt, &t, &a, &to, &err), 0);
    assert_str(to.target.known_hosts_file, "/home/me/.config/telechir/known_hosts");
    assert_str(to.target.host_key_alias, "[box.example]:2222");
    assert_str(to.target.program, "ssh");
    tc_runtime_close(rt);
    rt = open_runtime(with_config);
    t.port = 22;
    assert_int_equal(tci_ssh_to_make(rt, &t, &a, &to, &err), 0);
    assert_str(to.target.known_hosts_file, "/c/telechir/known_hosts");
    assert_str(to.target.host_key_alias, "box.example");
    t.host_key_alias = TC_STR("My-GPU");
    assert_int_equal(tci_ssh_to_make(rt, &t, &a, &to, &err), 0);
    assert_str(to.target.host_key_alias, "my-gpu");
    tc_runtime_close(rt);
    rt = open_runtime(with_nothing);
    assert_int_equal(tci_ssh_to_make(rt, &t, &a, &to, &err), TC_E_INVALID);
    tc_runtime_close(rt);
    tci_arena_done(&a);
}

/* ---- arguments ---- */

static const char *const some_environment[] = {"HOME=/home/me",
                                               "USER=me",
                                               "LOGNAME=me",
                                               "PATH=/bin",
                                               "SSH_AUTH_SOCK=/a",
                                               "TERM=xterm",
                                               "LANG=de_DE",
                                               "LC_ALL=C",
                                               "SECRET=x",
                                               "DISPLAY=:0",
                                               "SSH_ASKPASS=x",
                                               "OPENAI_API_KEY=sk-something",
                                               NULL};

static void join(const char *const *argv, tci_buf *out)
{
    tci_buf_clear(out);
    for (size_t i = 0; argv[i] != NULL; i++)
        tci_buf_printf(out, "%s%s", i > 0 ? "\n" : "", argv[i]);
    tci_buf_append_byte(out, '\0');
}

#define RULES                                                                                  \
    "-T\n-a\n-x\n-o\nBatchMode=yes\n-o\nClearAllForwardings=yes\n-o\nForwardAgent=no\n-o\n"    \
    "ForwardX11=no\n-o\nTunnel=no\n-o\nGSSAPIDelegateCredentials=no\n-o\nAddKeysToAgent=no\n"  \
    "-o\nControlMaster=no\n-o\nControlPath=none\n-o\nRemoteCommand=none\n-o\n"                 \
    "PermitLocalCommand=no\n-o\nSessionType=default\n-o\nStdinNull=no\n-o\n"                   \
    "ForkAfterAuthentication=no\n-o\nSendEnv=-*\n-o\nConnectTimeout=30\n-o\n"                  \
    "ServerAliveInterval=15\n-o\nServerAliveCountMax=3\n-o\nLogLevel=INFO\n-o\n"               \
    "UpdateHostKeys=no\n-o\nVerifyHostKeyDNS=no\n-o\nKnownHostsCommand=none\n-o\n"             \
    "NoHostAuthenticationForLocalhost=no\n-o\nCheckHostIP=no\n-o\nGlobalKnownHostsFile=none\n" \
    "-o\nHashKnownHosts=no\n-o\n"

static void the_arguments_are_exactly_these(void **state)
{
    TCI_UNUSED(state);
    tc_runtime *rt = open_runtime(some_environment);
    tci_arena a;
    tci_buf text;
    tc_err err;
    tci_ssh_to to;
    const char *const *argv;
    tci_arena_init(&a, 0);
    tci_buf_init(&text, TCI_BUF_MAX);
    tc_ssh_target t = {.size = sizeof t, .host = TC_STR("box")};
    tci_ssh_want want = {.command = TC_STR("exit 0")};
    assert_int_equal(tci_ssh_to_make(rt, &t, &a, &to, &err), 0);
    assert_int_equal(tci_ssh_args(&to, &want, &a, &argv, &err), 0);
    join(argv, &text);
    assert_string_equal(text.ptr, "ssh\n" RULES "StrictHostKeyChecking=yes\n-o\n"
                                  "UserKnownHostsFile=\"/home/me/.config/telechir/known_hosts\"\n"
                                  "-o\nHostKeyAlias=box\n--\nbox\nexit 0");
    t = (tc_ssh_target){.size = sizeof t,
                        .host = TC_STR("box"),
                        .user = TC_STR("me"),
                        .port = 2222,
                        .identity_file = TC_STR("/k e y/%d"),
                        .known_hosts_file = TC_STR("/known 100%"),
                        .host_key_alias = TC_STR("gpu"),
                        .config_file = TC_STR("/my config"),
                        .program = TC_STR("/opt/ssh")};
    assert_int_equal(tci_ssh_to_make(rt, &t, &a, &to, &err), 0);
    assert_int_equal(tci_ssh_args(&to, &want, &a, &argv, &err), 0);
    join(argv, &text);
    assert_string_equal(text.ptr,
                        "/opt/ssh\n-F\n/my config\n" RULES "StrictHostKeyChecking=yes\n-o\n"
                        "UserKnownHostsFile=\"/known 100%%\"\n-o\nHostKeyAlias=gpu\n-l\nme\n"
                        "-p\n2222\n-o\nIdentityFile=\"/k e y/%%d\"\n-o\nIdentitiesOnly=yes\n"
                        "--\nbox\nexit 0");
    want.is_scan = true;
    want.known_hosts = TC_STR("/tmp/x/known_hosts");
    assert_int_equal(tci_ssh_args(&to, &want, &a, &argv, &err), 0);
    join(argv, &text);
    assert_string_equal(text.ptr,
                        "/opt/ssh\n-F\n/my config\n" RULES "StrictHostKeyChecking=accept-new\n-o\n"
                        "UserKnownHostsFile=\"/tmp/x/known_hosts\"\n-o\nHostKeyAlias=gpu\n-o\n"
                        "PreferredAuthentications=none\n-l\nme\n"
                        "-p\n2222\n-o\nIdentityFile=\"/k e y/%%d\"\n-o\nIdentitiesOnly=yes\n"
                        "--\nbox\nexit 0");
    tci_buf_done(&text);
    tci_arena_done(&a);
    tc_runtime_close(rt);
}

static void ssh_sees_only_what_it_needs_of_our_environment(void **state)
{
    TCI_UNUSED(state);
    tc_runtime *rt = open_runtime(some_environment);
    tci_arena a;
    tci_buf text;
    tc_err err;
    tci_ssh_to to;
    const char *const *envp;
    tci_arena_init(&a, 0);
    tci_buf_init(&text, TCI_BUF_MAX);
    tc_ssh_target t = {.size = sizeof t, .host = TC_STR("box")};
    assert_int_equal(tci_ssh_to_make(rt, &t, &a, &to, &err), 0);
    assert_int_equal(tci_ssh_environ(&to, &a, &envp, &err), 0);
    join(envp, &text);
    assert_string_equal(text.ptr,
                        "HOME=/home/me\nUSER=me\nLOGNAME=me\nPATH=/bin\nSSH_AUTH_SOCK=/a");
    t.no_agent = true;
    assert_int_equal(tci_ssh_to_make(rt, &t, &a, &to, &err), 0);
    assert_int_equal(tci_ssh_environ(&to, &a, &envp, &err), 0);
    join(envp, &text);
    assert_null(strstr(text.ptr, "SSH_AUTH_SOCK"));
    t.no_agent = false;
    t.identity_file = TC_STR("/id");
    assert_int_equal(tci_ssh_to_make(rt, &t, &a, &to, &err), 0);
    assert_int_equal(tci_ssh_environ(&to, &a, &envp, &err), 0);
    join(envp, &text);
    assert_null(strstr(text.ptr, "SSH_AUTH_SOCK"));
    tci_buf_done(&text);
    tci_arena_done(&a);
    tc_runtime_close(rt);
}

static void rules_an_old_ssh_does_not_know_are_left_out(void **state)
{
    TCI_UNUSED(state);
    tc_runtime *rt = open_runtime(some_environment);
    tci_arena a;
    tci_buf text;
    tc_err err;
    tci_ssh_to to;
    const char *const *argv;
    tci_arena_init(&a, 0);
    tci_buf_init(&text, TCI_BUF_MAX);
    tc_ssh_target t = {.size = sizeof t, .host = TC_STR("box")};
    tci_ssh_want want = {.command = TC_STR("exit 0")};
    assert_int_equal(tci_ssh_to_make(rt, &t, &a, &to, &err), 0);
    assert_true(tci_ssh_learn(&to, TC_STR("command-line: line 0: Bad configuration option: "
                                          "sessiontype\r\n")));
    assert_false(tci_ssh_learn(&to, TC_STR("command-line: line 0: Bad configuration option: "
                                           "sessiontype\r\n")));
    /* A file of the user's, and what we cannot do without. */
    assert_false(tci_ssh_learn(&to, TC_STR("/home/me/.ssh/config: line 3: Bad configuration "
                                           "option: stdinnull\n")));
    assert_false(tci_ssh_learn(&to, TC_STR("command-line: line 0: Bad configuration option: "
                                           "batchmode\n")));
    assert_int_equal(tci_ssh_args(&to, &want, &a, &argv, &err), 0);
    join(argv, &text);
    assert_null(strstr(text.ptr, "SessionType"));
    assert_non_null(strstr(text.ptr, "StdinNull=no"));
    assert_non_null(strstr(text.ptr, "BatchMode=yes"));
    tci_buf_done(&text);
    tci_arena_done(&a);
    tc_runtime_close(rt);
}

/* ---- ciphers ---- */

static void fast_ciphers_come_first_and_nothing_else_changes(void **state)
{
    TCI_UNUSED(state);
    static const char *const cases[][2] = {
        {"user me\nciphers chacha20-poly1305@openssh.com,aes128-ctr,aes192-ctr,aes256-ctr,"
         "aes128-gcm@openssh.com,aes256-gcm@openssh.com\nport 22\n",
         "aes128-gcm@openssh.com,aes256-gcm@openssh.com,chacha20-poly1305@openssh.com,"
         "aes128-ctr,aes192-ctr,aes256-ctr"},
        {"ciphers aes256-ctr,aes256-gcm@openssh.com", "aes256-gcm@openssh.com,aes256-ctr"},
        /* What the configuration leaves out stays out. */
        {"ciphers chacha20-poly1305@openssh.com,aes256-ctr\n", ""},
        {"ciphers aes128-ctr\n", ""},
        /* In that order already. */
        {"ciphers aes128-gcm@openssh.com,aes256-gcm@openssh.com,aes128-ctr\n", ""},
        {"ciphersuites aes128-gcm@openssh.com\nmacs aes128-gcm@openssh.com,x\n", ""},
        {"", ""},
    };
    static const char *const bad[] = {"ciphers a b,aes128-gcm@openssh.com\n",
                                      "ciphers -x,aes128-gcm@openssh.com\n",
                                      "ciphers a\t,aes128-gcm@openssh.com\n",
                                      "ciphers a,,aes128-gcm@openssh.com\n", "ciphers \n"};
    tci_arena a;
    tc_err err;
    tci_arena_init(&a, 0);
    for (size_t i = 0; i < TCI_ARRAY_LEN(cases); i++) {
        tc_str said = TC_STR("untouched");
        assert_int_equal(tci_ssh_fast_first(tci_str(cases[i][0]), &a, &said, &err), 0);
        assert_str(said, cases[i][1]);
    }
    for (size_t i = 0; i < TCI_ARRAY_LEN(bad); i++) {
        tc_str said = TC_STR("untouched");
        assert_int_equal(tci_ssh_fast_first(tci_str(bad[i]), &a, &said, &err), TC_E_PARSE);
        assert_str(said, "untouched");
    }
    tci_arena_done(&a);
}

static void ciphers_are_for_connections_that_carry_something(void **state)
{
    TCI_UNUSED(state);
    tc_runtime *rt = open_runtime(some_environment);
    tci_arena a;
    tci_buf text;
    tc_err err;
    tci_ssh_to to;
    const char *const *argv;
    tci_arena_init(&a, 0);
    tci_buf_init(&text, TCI_BUF_MAX);
    tc_ssh_target t = {.size = sizeof t, .host = TC_STR("box")};
    const tci_ssh_want wants[] = {{.command = TC_STR("exit 0")},
                                  {.command = TC_STR("exit 0"), .is_scan = true},
                                  {.command = TC_STR("exit 0"), .is_query = true}};
    assert_int_equal(tci_ssh_to_make(rt, &t, &a, &to, &err), 0);
    to.ciphers = TC_STR("aes128-gcm@openssh.com,aes128-ctr");
    for (size_t i = 0; i < TCI_ARRAY_LEN(wants); i++) {
        assert_int_equal(tci_ssh_args(&to, &wants[i], &a, &argv, &err), 0);
        join(argv, &text);
        const char *at = strstr(text.ptr, "-o\nCiphers=aes128-gcm@openssh.com,aes128-ctr\n");
        assert_true((at != NULL) == (i == 0));
    }
    tci_buf_done(&text);
    tci_arena_done(&a);
    tc_runtime_close(rt);
}

/* A program in place of ssh: what it answers, and what becomes of it. */
static void choose_with(const char *script, tci_arena *a, tc_str *ret)
{
    tc_err err;
    tci_ssh_to to;
    tci_file f = TCI_FILE_NONE;
    tc_str path = in_folder("ssh-stand-in");
    tci_file_discard(TCI_FILE_CWD, path); /* of the case before */
    assert_int_equal(tci_file_open(path, TCI_OPEN_WRITE | TCI_OPEN_CREATE, 0700, &f, &err), 0);
    assert_int_equal(tci_file_write_all(f, script, strlen(script), &err), 0);
    tci_file_close(&f);
    tc_runtime *rt = open_runtime(some_environment);
    tc_ssh_target t = {.size = sizeof t, .host = TC_STR("box"), .program = path};
    assert_int_equal(tci_ssh_to_make(rt, &t, a, &to, &err), 0);
    to.ciphers = TC_STR("of before");
    tci_ssh_choose_ciphers(&to, NULL, a);
    *ret = to.ciphers;
    tc_runtime_close(rt);
}

static void what_ssh_would_offer_is_asked_for(void **state)
{
    TCI_UNUSED(state);
    tci_arena a;
    tc_str ciphers = {0};
    tci_arena_init(&a, 0);
    choose_with("#!/bin/sh\ncase \"$*\" in *-G*) ;; *) exit 1 ;; esac\n"
                "echo ciphers aes128-ctr,aes128-gcm@openssh.com\n",
                &a, &ciphers);
    assert_str(ciphers, tci_system_has_aes() ? "aes128-gcm@openssh.com,aes128-ctr" : "");
    /* It cannot tell: the connection is made all the same. */
    choose_with("#!/bin/sh\necho 'unknown option -- G' >&2\nexit 255\n", &a, &ciphers);
    assert_str(ciphers, "");
    choose_with("#!/bin/sh\nexit 0\n", &a, &ciphers);
    assert_str(ciphers, "");
    tci_arena_done(&a);
}

const struct CMUnitTest target_tests[] = {
    cmocka_unit_test(fields_that_are_refused),
    cmocka_unit_test(fields_that_are_fine),
    cmocka_unit_test(the_message_shows_the_value),
    cmocka_unit_test(targets_in_one_word),
    cmocka_unit_test(defaults),
    cmocka_unit_test(the_arguments_are_exactly_these),
    cmocka_unit_test(ssh_sees_only_what_it_needs_of_our_environment),
    cmocka_unit_test(rules_an_old_ssh_does_not_know_are_left_out),
    cmocka_unit_test(fast_ciphers_come_first_and_nothing_else_changes),
    cmocka_unit_test(ciphers_are_for_connections_that_carry_something),
    cmocka_unit_test(what_ssh_would_offer_is_asked_for),
};
const size_t ntarget_tests = TCI_ARRAY_LEN(target_tests);
