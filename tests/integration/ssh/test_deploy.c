/* SPDX-License-Identifier: Apache-2.0
 *
 * Putting the daemon there, and checking it before each start. */
#include "fixture.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/hash.h"
#include "plat/fd.h"
#include "plat/thread.h"

static struct stat stat_of(const char *path)
{
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    return st;
}

/* Where the stand-in of the fixture is put. */
static const char *deployed_file(void)
{
    static char path[4400];
    uint8_t digest[TCI_SHA256_BYTES];
    char hex[2 * TCI_SHA256_BYTES];
    tci_sha256_of(tci_str(tc_test_read(fix.daemon)), digest);
    tci_hex(digest, sizeof digest, hex);
    snprintf(path, sizeof path, "%s/telechird-%.32s", deployed_folder(), hex);
    return path;
}

static void the_daemon_is_put_there_whole_and_private(void **state)
{
    TCI_UNUSED(state);
    char old[4400], in_use[4400], stale[4400], daemon[8192];
    snprintf(old, sizeof old, "%s/telechird-0123456789abcdef0123456789abcdef", deployed_folder());
    snprintf(in_use, sizeof in_use, "%s/telechird-sleeping", deployed_folder());
    snprintf(stale, sizeof stale, "%s/unrelated", deployed_folder());
    tc_test_write(old, "#!/bin/sh\n", 0700);
    tc_test_write(stale, "x", 0600);
    /* A version that another connection runs right now. */
    char command[9000];
    snprintf(command, sizeof command, "cp \"$(command -v sleep)\" '%s'", in_use);
    assert_int_equal(run_command(command), 0);
    int runs[2];
    char nothing;
    fflush(NULL);
    assert_int_equal(pipe(runs), 0);
    pid_t sleeper = fork();
    if (sleeper == 0) {
        fcntl(runs[1], F_SETFD, FD_CLOEXEC);
        execl(in_use, "sleep", "300", (char *)NULL);
        _exit(127);
    }
    close(runs[1]);
    assert_int_equal(read(runs[0], &nothing, 1), 0); /* its end is gone: it is being run */
    close(runs[0]);
    assert_null(fopen(in_use, "a")); /* and cannot be written to */
    const char *facts = start_and_end();
    assert_string_equal(fact(facts, "home"), fix.sshd.home);
    assert_string_equal(fact(facts, "pwd"), fix.sshd.home);
    assert_string_equal(fact(facts, "argv"), "serve --token " TOKEN);
    assert_string_equal(fact(facts, "self"), deployed_file());
    assert_string_equal(fact(facts, "umask"), "0022");
    snprintf(daemon, sizeof daemon, "%s", tc_test_read(fix.daemon));
    assert_string_equal(tc_test_read(deployed_file()), daemon);
    assert_int_equal(stat_of(deployed_file()).st_mode & 07777, 0700);
    assert_int_equal(stat_of(deployed_folder()).st_mode & 07777, 0700);
    assert_null(tc_test_read(old));
    assert_non_null(tc_test_read(in_use));
    assert_non_null(tc_test_read(stale));
    assert_int_equal(count_names(deployed_folder(), ".new-", NULL), 0);
    assert_int_equal(nlogins(), 2);
    kill(sleeper, SIGKILL);
    waitpid(sleeper, NULL, 0);
}

static void a_second_start_is_one_connection_and_touches_nothing(void **state)
{
    TCI_UNUSED(state);
    start_and_end();
    struct stat before = stat_of(deployed_file());
    mark_logins();
    start_and_end();
    struct stat after = stat_of(deployed_file());
    assert_int_equal(nlogins(), 1);
    assert_int_equal(before.st_ino, after.st_ino);
    assert_int_equal(before.st_mtim.tv_sec, after.st_mtim.tv_sec);
    assert_int_equal(before.st_mtim.tv_nsec, after.st_mtim.tv_nsec);
}

static void a_tampered_daemon_is_replaced_before_it_runs(void **state)
{
    TCI_UNUSED(state);
    char evil[8192];
    start_and_end();
    snprintf(evil, sizeof evil, "#!/bin/sh\ntouch '%s'\n", path_of("evil-ran"));
    tc_test_write(deployed_file(), evil, 0700);
    start_and_end();
    assert_null(tc_test_read(path_of("evil-ran")));
    assert_string_not_equal(tc_test_read(deployed_file()), evil);
    assert_int_equal(count_names(deployed_folder(), "telechird-", NULL), 1);
}

static void a_folder_that_others_could_write_to_is_made_private_again(void **state)
{
    TCI_UNUSED(state);
    start_and_end();
    assert_int_equal(chmod(deployed_folder(), 0777), 0);
    mark_logins();
    start_and_end();
    assert_int_equal(nlogins(), 2); /* what is in it does not count */
    assert_int_equal(stat_of(deployed_folder()).st_mode & 07777, 0700);
}

static void another_version_takes_its_place(void **state)
{
    TCI_UNUSED(state);
    start_and_end();
    char first[4400];
    snprintf(first, sizeof first, "%s", deployed_file());
    write_daemon("X=second");
    assert_string_equal(fact(start_and_end(), "X"), "second");
    assert_null(tc_test_read(first));
    assert_int_equal(count_names(deployed_folder(), "", NULL), 1);
}

/* Put programs of our own in front of, or instead of, those of the other side. */
static void use_path(const char *name, const char *program, bool is_all)
{
    char text[8192], path[4400];
    snprintf(path, sizeof path, "%s/%s", path_of("path"), name);
    run_cleanup(path_of("path"));
    tc_test_write(path, program, 0755);
    snprintf(text, sizeof text, "PATH='%s'%s\nexport PATH\n", path_of("path"),
             is_all ? "" : ":$PATH");
    tc_sshd_before(&fix.sshd, text);
}

static void what_arrives_damaged_is_not_run_and_not_kept(void **state)
{
    TCI_UNUSED(state);
    started s;
    use_path("head", "#!/bin/sh\nPATH=/usr/bin:/bin head \"$@\" | tr s S\n", false);
    assert_int_equal(start(&s), TC_E_INTEGRITY);
    assert_int_equal(count_names(deployed_folder(), "", NULL), 0);
}

static void a_machine_that_cannot_verify_is_refused(void **state)
{
    TCI_UNUSED(state);
    started s;
    char command[9000], text[8192];
    use_path("nothing", "#!/bin/sh\n", true);
    static const char *const kept[] = {"sh",   "id", "uname", "ls",   "mkdir", "chmod",
                                       "head", "mv", "rm",    "find", "env",   "cat"};
    for (size_t i = 0; i < TCI_ARRAY_LEN(kept); i++) {
        snprintf(command, sizeof command, "ln -s \"$(command -v %s)\" '%s/'", kept[i],
                 path_of("path"));
        assert_int_equal(run_command(command), 0);
    }
    assert_int_equal(start(&s), TC_E_UNSUPPORTED);
    assert_non_null(strstr(fix.err.msg, "sha256sum, shasum or openssl"));
    assert_int_equal(count_names(fix.sshd.home, "", NULL), 0);
    /* Any of the three will do. */
    snprintf(text, sizeof text,
             "#!/bin/sh\n[ \"$1 $2\" = '-a 256' ] || exit 1\nPATH=/usr/bin:/bin exec sha256sum\n");
    tc_test_write(path_of("path/shasum"), text, 0755);
    start_and_end();
    unlink(path_of("path/shasum"));
    snprintf(text, sizeof text,
             "#!/bin/sh\n[ \"$*\" = 'dgst -sha256' ] || exit 1\n"
             "PATH=/usr/bin:/bin\nset -- $(sha256sum)\necho \"SHA2-256(stdin)= $1\"\n");
    tc_test_write(path_of("path/openssl"), text, 0755);
    mark_logins();
    start_and_end();
    assert_int_equal(nlogins(), 1);
}

static void a_daemon_that_does_not_run_there_is_not_kept(void **state)
{
    TCI_UNUSED(state);
    started s;
    write_daemon("echo 'libfoo.so.7: not found' >&2; exit 127");
    assert_int_equal(start(&s), TC_E_START_FAILED);
    assert_non_null(strstr(fix.err.msg, "libfoo.so.7: not found"));
    assert_int_equal(count_names(deployed_folder(), "", NULL), 0);
}

static void machines_without_a_daemon_are_told(void **state)
{
    TCI_UNUSED(state);
    started s;
    use_path("uname", "#!/bin/sh\necho Darwin arm64\n", false);
    assert_int_equal(start(&s), TC_E_UNSUPPORTED);
    assert_non_null(strstr(fix.err.msg, "Darwin"));
    assert_non_null(strstr(fix.err.hint, "macOS"));
    use_path("uname", "#!/bin/sh\ncase $1 in -o) echo Android;; *) echo Linux aarch64;; esac\n",
             false);
    assert_int_equal(start(&s), TC_E_UNSUPPORTED);
    assert_non_null(strstr(fix.err.hint, "Termux"));
    use_path("uname", "#!/bin/sh\ncase $1 in -o) echo Msys;; *) echo MINGW64_NT-10 x86_64;; esac\n",
             false);
    assert_int_equal(start(&s), TC_E_UNSUPPORTED);
    assert_non_null(strstr(fix.err.hint, "Windows"));
    tc_sshd_before(&fix.sshd, "echo \"'exec' is not recognized as an internal or external "
                              "command,\" >&2; exit 1");
    assert_int_equal(start(&s), TC_E_UNSUPPORTED);
    assert_non_null(strstr(fix.err.msg, "Windows"));
    assert_int_equal(count_names(fix.sshd.home, "", NULL), 0);
}

static void the_right_one_of_several_is_taken(void **state)
{
    TCI_UNUSED(state);
    started s;
    char manifest[8192], hex[2 * TCI_SHA256_BYTES + 1] = "";
    uint8_t digest[TCI_SHA256_BYTES];
    const char *program = tc_test_read(fix.daemon);
    size_t size = strlen(program);
    tci_sha256_of(tci_str(program), digest);
    tci_hex(digest, sizeof digest, hex);
    tc_test_write(path_of("daemons/mine"), program, 0755);
    static const char entry[] =
        "{\"name\":\"%s\",\"os\":\"linux\",\"arch\":\"%s\",\"kind\":\"telechird\","
        "\"tls\":false,\"sha256\":\"%s\",\"size\":%zu}";
    char arm[1024], intel[1024];
    snprintf(arm, sizeof arm, entry, "mine", "aarch64", hex, size);
    snprintf(intel, sizeof intel, entry, "mine", "x86_64", hex, size);
    static char folder[4096];
    snprintf(folder, sizeof folder, "%s", path_of("daemons"));
    fix.options.daemon = tci_str(folder);
    snprintf(manifest, sizeof manifest, "{\"files\":[%s]}", arm);
    tc_test_write(path_of("daemons/MANIFEST.json"), manifest, 0644);
    use_path("uname", "#!/bin/sh\ncase $1 in -o) echo GNU/Linux;; *) echo Linux x86_64;; esac\n",
             false);
    assert_int_equal(start(&s), TC_E_NOT_FOUND);
    assert_non_null(strstr(fix.err.msg, "linux-x86_64"));
    snprintf(manifest, sizeof manifest, "{\"files\":[%s,%s]}", arm, intel);
    tc_test_write(path_of("daemons/MANIFEST.json"), manifest, 0644);
    start_and_end();
    use_path("uname", "#!/bin/sh\ncase $1 in -o) echo GNU/Linux;; *) echo Linux riscv64;; esac\n",
             false);
    assert_int_equal(start(&s), TC_E_UNSUPPORTED);
    assert_non_null(strstr(fix.err.msg, "riscv64"));
}

static void a_large_daemon_arrives_whole(void **state)
{
    TCI_UNUSED(state);
    enum { SIZE = 3 * 1000 * 1000 };
    char *text = malloc(SIZE + 64);
    int n = snprintf(text, 4096, "%s", tc_test_read(fix.daemon));
    text[n++] = '#';
    for (int i = n; i < SIZE; i++)
        text[i] = (char)('a' + i % 26);
    text[SIZE] = '\0';
    tc_test_write(fix.daemon, text, 0755);
    free(text);
    tc_test_write(path_of("unused"), "", 0600);
    started s;
    /* deployed_file cannot read that much: look at the size. */
    int rc = start(&s);
    assert_int_equal(rc, 0);
    end(&s);
    char name[256], path[4800];
    assert_int_equal(count_names(deployed_folder(), "telechird-", name), 1);
    snprintf(path, sizeof path, "%s/%s", deployed_folder(), name);
    assert_int_equal(stat_of(path).st_size, SIZE);
}

/* ---- at the same time ---- */

typedef struct racer {
    tci_thread *thread;
    tc_runtime *rt;
    tci_pi_child child;
    char token[40];
    int rc;
    tc_err err;
} racer;

static void race(void *arg)
{
    racer *r = arg;
    tci_pi_launcher launcher;
    r->rc = tci_ssh_launcher_new(r->rt, &fix.options, 0, &launcher, &r->err);
    if (r->rc < 0)
        return;
    r->rc = launcher.launch(launcher.user, NULL, tci_str(r->token), &r->child, &r->err);
    launcher.free(launcher.user);
}

static void several_at_once_do_not_disturb_each_other(void **state)
{
    TCI_UNUSED(state);
    enum { RACERS = 4 };
    racer racers[RACERS];
    fix.options.log = NULL;
    for (int i = 0; i < RACERS; i++) {
        racers[i] = (racer){.child = TCI_PI_CHILD_NONE};
        snprintf(racers[i].token, sizeof racers[i].token, "%016d%016d", i, i);
        assert_int_equal(tc_runtime_open(NULL, &racers[i].rt, &fix.err), 0);
        assert_int_equal(tci_thread_new(race, &racers[i], 0, &racers[i].thread, &fix.err), 0);
    }
    for (int i = 0; i < RACERS; i++) {
        tci_thread_join(racers[i].thread);
        if (racers[i].rc < 0)
            print_message("%s\n", racers[i].err.msg);
        assert_int_equal(racers[i].rc, 0);
        started s = {.child = racers[i].child};
        end(&s);
        tc_runtime_close(racers[i].rt);
    }
    assert_int_equal(count_names(deployed_folder(), "", NULL), 1);
    assert_string_equal(tc_test_read(deployed_file()) != NULL ? "there" : "missing", "there");
}

/* Killed in the middle of an upload, or right after a start: nothing half-written is left, or run. */
static void a_link_that_breaks_while_sending_leaves_nothing(void **state)
{
    TCI_UNUSED(state);
    started s;
    static char path[4096];
    snprintf(path, sizeof path, "%s", path_of("short-ssh"));
    /* Passes the first 100 bytes of what is sent on, then the link is gone. */
    tc_test_write(path, "#!/bin/sh\nhead -c 100 | ssh \"$@\"\nexit 255\n", 0755);
    fix.options.target.program = tci_str(path);
    assert_true(start(&s) < 0);
    assert_int_equal(count_names(deployed_folder(), "telechird-", NULL), 0);
    assert_int_equal(count_names(deployed_folder(), ".new-", NULL), 0);
}

static void a_limit_of_file_sizes_is_named(void **state)
{
    TCI_UNUSED(state);
    started s;
    /* Not even a small file can be written; then a small one, but not the daemon. */
    char big[64 * 1024];
    memset(big, '#', sizeof big - 1);
    big[sizeof big - 1] = '\0';
    write_daemon(big);
    static const char *const limits[] = {"ulimit -f 0\n", "ulimit -f 8\n"};
    for (size_t i = 0; i < TCI_ARRAY_LEN(limits); i++) {
        tc_sshd_before(&fix.sshd, limits[i]);
        assert_int_equal(start(&s), TC_E_DENIED);
        assert_non_null(strstr(fix.err.msg, ".cache/telechir: "));
        assert_non_null(strstr(fix.err.msg, "ulimit -f is "));
        assert_null(strstr(fix.err.msg, ": ;"));
    }
    assert_int_equal(count_names(deployed_folder(), ".new-", NULL), 0);
}

static void a_home_that_is_not_there_is_not_made(void **state)
{
    TCI_UNUSED(state);
    char path[4400], before[8192], folder[4400];
    snprintf(path, sizeof path, "%s/gone/home", fix.sshd.dir);
    snprintf(before, sizeof before, "HOME=%s\nexport HOME\n", path);
    tc_sshd_before(&fix.sshd, before);
    const char *facts = start_and_end();
    snprintf(folder, sizeof folder, "%s/tmp/telechir-%u/", fix.sshd.dir, (unsigned)getuid());
    assert_int_equal(strncmp(fact(facts, "self"), folder, strlen(folder)), 0);
    assert_string_equal(fact(facts, "pwd"), "/");
    *strrchr(path, '/') = '\0';
    assert_int_equal(access(path, F_OK), -1);
    run_cleanup(folder);
}

const struct CMUnitTest deploy_tests[] = {
    TEST(the_daemon_is_put_there_whole_and_private),
    TEST(a_second_start_is_one_connection_and_touches_nothing),
    TEST(a_tampered_daemon_is_replaced_before_it_runs),
    TEST(a_folder_that_others_could_write_to_is_made_private_again),
    TEST(another_version_takes_its_place),
    TEST(what_arrives_damaged_is_not_run_and_not_kept),
    TEST(a_machine_that_cannot_verify_is_refused),
    TEST(a_daemon_that_does_not_run_there_is_not_kept),
    TEST(machines_without_a_daemon_are_told),
    TEST(the_right_one_of_several_is_taken),
    TEST(a_large_daemon_arrives_whole),
    TEST(several_at_once_do_not_disturb_each_other),
    TEST(a_link_that_breaks_while_sending_leaves_nothing),
    TEST(a_limit_of_file_sizes_is_named),
    TEST(a_home_that_is_not_there_is_not_made),
};
const size_t ndeploy_tests = TCI_ARRAY_LEN(deploy_tests);
