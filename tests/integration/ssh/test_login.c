/* SPDX-License-Identifier: Apache-2.0
 *
 * Login shells and login files of every kind. */
#include "fixture.h"

#include <string.h>
#include <sys/stat.h>

static const struct {
    const char *name, *places[4];
    const char *rc, *profile; /* read at every login of this kind, and as a login shell */
    const char *set;          /* how the latter sets X */
} shells[] = {
    {"sh", {"/bin/sh"}, NULL, ".profile", "X=from-login; export X\n"},
    {"dash", {"/usr/bin/dash", "/bin/dash"}, NULL, ".profile", "X=from-login; export X\n"},
    {"bash", {"/bin/bash", "/usr/bin/bash"}, ".bashrc", ".bash_profile", "export X=from-login\n"},
    {"zsh", {"/bin/zsh", "/usr/bin/zsh"}, ".zshenv", ".zprofile", "export X=from-login\n"},
    {"tcsh", {"/bin/tcsh", "/usr/bin/tcsh"}, ".tcshrc", ".login", "setenv X from-login\n"},
    {"fish",
     {"/usr/bin/fish", "/bin/fish"},
     ".config/fish/config.fish",
     ".config/fish/conf.d/login.fish",
     "status is-login; and set -x X from-login\n"},
};

static const char *program_of(size_t i)
{
    for (size_t j = 0; j < TCI_ARRAY_LEN(shells[i].places) && shells[i].places[j] != NULL; j++)
        if (access(shells[i].places[j], X_OK) == 0)
            return shells[i].places[j];
    print_message("not installed here, so not tried: %s\n", shells[i].name);
    return NULL;
}

static void write_home(const char *name, const char *text)
{
    char path[4400];
    snprintf(path, sizeof path, "%s/%s", fix.sshd.home, name);
    tc_test_write(path, text, 0644);
}

static void case_89_every_login_shell_starts_it(void **state)
{
    TCI_UNUSED(state);
    for (size_t i = 0; i < TCI_ARRAY_LEN(shells); i++) {
        const char *program = program_of(i);
        if (program == NULL)
            continue;
        char home[64];
        snprintf(home, sizeof home, "it's a home \"%zu\"", i);
        tc_sshd_login(&fix.sshd, path_of(home), program);
        const char *facts = start_and_end(); /* deploys */
        assert_string_equal(fact(facts, "home"), fix.sshd.home);
        assert_string_equal(fact(facts, "argv"), "serve --token " TOKEN);
        mark_logins();
        start_and_end();
        assert_int_equal(nlogins(), 1);
    }
}

static void case_92_login_variables_are_seen_only_as_a_login_shell(void **state)
{
    TCI_UNUSED(state);
    for (size_t i = 0; i < TCI_ARRAY_LEN(shells); i++) {
        const char *program = program_of(i);
        if (program == NULL)
            continue;
        char home[64];
        snprintf(home, sizeof home, "login' %zu", i);
        tc_sshd_login(&fix.sshd, path_of(home), program);
        write_home(shells[i].profile, shells[i].set);
        fix.options.login_shell = false;
        assert_string_equal(fact(start_and_end(), "X"), "");
        fix.options.login_shell = true;
        const char *facts = start_and_end();
        assert_string_equal(fact(facts, "X"), "from-login");
        assert_string_equal(fact(facts, "home"), fix.sshd.home);
        assert_string_equal(fact(facts, "pwd"), fix.sshd.home);
        assert_string_equal(fact(facts, "argv"), "serve --token " TOKEN);
    }
}

/* The stand-in repeats its input: what is sent must get there, whatever the shell is. */
static void the_stream_belongs_to_the_daemon(void **state)
{
    TCI_UNUSED(state);
    static char folder[4096];
    snprintf(folder, sizeof folder, "%s", path_of("stream folder"));
    fix.options.folder = tci_str(folder); /* one for all homes */
    for (size_t i = 0; i < 2 * TCI_ARRAY_LEN(shells); i++) {
        const char *program = program_of(i / 2);
        if (program == NULL)
            continue;
        started s;
        char home[64], got[64] = "";
        snprintf(home, sizeof home, "stream %zu", i);
        tc_sshd_login(&fix.sshd, path_of(home), program);
        fix.options.login_shell = i % 2 != 0;
        assert_int_equal(start(&s), 0);
        static const char sent[] = "\0bytes \xff\r\n\x03 and\x1a more\n";
        size_t n = 0, len = 0;
        assert_int_equal(tci_fd_write(s.child.in_fd, sent, sizeof sent - 1, &n, &fix.err), 0);
        while (len < sizeof sent - 1) {
            tci_fd_event ev = {.fd = s.child.out_fd, .want_read = true};
            assert_int_equal(tci_fd_wait(&ev, 1, 20000, &fix.err), 0);
            assert_int_equal(tci_fd_read(s.child.out_fd, got + len, sizeof got - len, &n, &fix.err),
                             0);
            len += n;
        }
        assert_int_equal(len, sizeof sent - 1);
        assert_memory_equal(got, sent, len);
        end(&s);
    }
}

/* Three lines, escape codes, 70 KB in one line, and a line after the login. */
static void write_noise(const char *file, bool is_csh)
{
    char text[2048];
    snprintf(text, sizeof text,
             "echo Welcome to this machine\nprintf '\\033[1;31mred\\033[0m\\n'\necho third line\n"
             "head -c 70000 /dev/zero | tr '\\0' x\n%s",
             is_csh ? "(sh -c 'sleep 0.05; echo late line' &)\n"
                    : "sh -c 'sleep 0.05; echo late line' &\n");
    write_home(file, text);
}

static void case_88_noisy_login_files_do_not_matter(void **state)
{
    TCI_UNUSED(state);
    for (size_t i = 0; i < TCI_ARRAY_LEN(shells); i++) {
        const char *program = shells[i].rc != NULL ? program_of(i) : NULL;
        if (program == NULL)
            continue;
        char home[64];
        snprintf(home, sizeof home, "noisy %zu", i);
        tc_sshd_login(&fix.sshd, path_of(home), program);
        write_noise(shells[i].rc, strcmp(shells[i].name, "tcsh") == 0);
        fix.log_len = 0;
        start_and_end();
        start_and_end();
        /* A person who wonders can see it. */
        fix.log[tci_min_size(fix.log_len, sizeof fix.log - 1)] = '\0';
        assert_non_null(strstr(fix.log, "Welcome to this machine"));
    }
}

static void use_bash(const char *bashrc)
{
    if (access("/bin/bash", X_OK) != 0)
        skip();
    tc_sshd_login(&fix.sshd, NULL, "/bin/bash");
    write_home(".bashrc", bashrc);
}

static void case_88_a_login_file_that_ends_the_shell_is_shown(void **state)
{
    TCI_UNUSED(state);
    started s;
    use_bash("echo 'Maintenance today,'\nprintf '\\033[1mplease\\033[0m come back\\n'\nexit 3\n");
    assert_int_equal(start(&s), TC_E_PROTOCOL);
    assert_non_null(strstr(fix.err.msg, "status 3"));
    assert_non_null(strstr(fix.err.msg, "Maintenance today, | please come back"));
    assert_non_null(strstr(fix.err.hint, "~/.bashrc"));
    tc_sshd_login(&fix.sshd, NULL, "/bin/false");
    assert_int_equal(start(&s), TC_E_PROTOCOL);
    assert_non_null(strstr(fix.err.msg, "status 1"));
}

static void case_88_a_login_file_that_never_ends_is_shown(void **state)
{
    TCI_UNUSED(state);
    started s;
    use_bash("echo 'Press RETURN to go on'\nread answer\n");
    fix.start_ms = 8000; /* enough to log in on a busy machine */
    assert_int_equal(start(&s), TC_E_TIMEOUT);
    assert_non_null(strstr(fix.err.msg, "no answer within 8 s"));
    assert_non_null(strstr(fix.err.msg, "Press RETURN to go on"));
    assert_non_null(strstr(fix.err.hint, "waits for input"));
    use_bash("exec cat\n"); /* as a terminal multiplexer would */
    fix.start_ms = 1500;
    assert_int_equal(start(&s), TC_E_TIMEOUT);
    use_bash("while :; do echo yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy; "
             "done | cat\n");
    fix.start_ms = 0;
    assert_int_equal(start(&s), TC_E_PROTOCOL);
    assert_non_null(strstr(fix.err.msg, "prints without end"));
    assert_non_null(strstr(fix.err.msg, "yyyyyyyyyy"));
}

static void a_forced_command_is_shown(void **state)
{
    TCI_UNUSED(state);
    started s;
    tc_sshd_before(&fix.sshd, "echo 'only backups here'; exit 0\n");
    assert_int_equal(start(&s), TC_E_PROTOCOL);
    assert_non_null(strstr(fix.err.msg, "only backups here"));
    assert_non_null(strstr(fix.err.hint, "forced command"));
}

/* A login file that prints the command it is given prints our words, too. */
static void a_login_file_that_prints_the_command_does_not_confuse(void **state)
{
    TCI_UNUSED(state);
    use_bash("echo \"running: $BASH_EXECUTION_STRING\"\necho \"$SSH_ORIGINAL_COMMAND\"\nset -x\n");
    start_and_end();
    start_and_end();
}

/* Login files of a login shell get no input: it is the daemon's. */
static void a_login_file_that_reads_does_not_take_the_daemons_input(void **state)
{
    TCI_UNUSED(state);
    tc_sshd_login(&fix.sshd, NULL, "/bin/sh");
    write_home(".profile", "read answer\nX=\"got<$answer>\"; export X\n");
    fix.options.login_shell = true;
    assert_string_equal(fact(start_and_end(), "X"), "got<>");
}

const struct CMUnitTest login_tests[] = {
    TEST(case_89_every_login_shell_starts_it),
    TEST(case_92_login_variables_are_seen_only_as_a_login_shell),
    TEST(the_stream_belongs_to_the_daemon),
    TEST(case_88_noisy_login_files_do_not_matter),
    TEST(case_88_a_login_file_that_ends_the_shell_is_shown),
    TEST(case_88_a_login_file_that_never_ends_is_shown),
    TEST(a_forced_command_is_shown),
    TEST(a_login_file_that_prints_the_command_does_not_confuse),
    TEST(a_login_file_that_reads_does_not_take_the_daemons_input),
};
const size_t nlogin_tests = TCI_ARRAY_LEN(login_tests);
