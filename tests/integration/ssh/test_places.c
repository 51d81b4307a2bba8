/* SPDX-License-Identifier: Apache-2.0
 *
 * Homes that cannot hold the daemon: not executable, read-only, full, somebody else's. The mounts are
 * in a namespace of the server's own; where none can be made, the group is skipped. */
#include "fixture.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

/* Everything is below the server's folder, but the system's temporary folders, which are replaced. */
static const char prepare[] =
    "#!/bin/sh\n"
    "set -eu\n"
    /* No temporary folder there will do. When the test's own folder is in it, that is kept. */
    "top=$(dirname \"$1\")\n"
    "case $1 in /tmp/*) mount --bind \"$top\" /mnt;; esac\n"
    "mount -t tmpfs -o noexec,mode=1777 tmpfs /tmp\n"
    "case $1 in /tmp/*)\n"
    "  mkdir -p \"$top\"\n"
    "  mount --bind /mnt \"$top\"\n"
    "  umount /mnt;;\n"
    "esac\n"
    "cd \"$1\"\n"
    "mkdir -p noexec readonly full\n"
    "mount -t tmpfs -o noexec,mode=755 tmpfs noexec\n"
    "mkdir noexec/home\n"
    "mount -t tmpfs -o mode=755 tmpfs readonly\n"
    "mkdir readonly/home\n"
    "mount -o remount,ro readonly\n"
    "mount -t tmpfs -o size=64k,mode=755 tmpfs full\n"
    "mkdir full/home\n"
    "mount -t tmpfs -o mode=1777 tmpfs /var/tmp\n"
    ": >/var/tmp/of-the-tests\n";

const char *places_prepare(void)
{
    static char path[4096];
    snprintf(path, sizeof path, "%s/prepare", getenv("TC_TEST_DIR"));
    tc_test_write(path, prepare, 0755);
    return path;
}

/* Log in there. Inside of the namespace: the test does not see these mounts. */
static void use_home(const char *name, const char *before)
{
    char path[4400], text[8192];
    snprintf(path, sizeof path, "%s/login.home", fix.sshd.dir);
    snprintf(text, sizeof text, "%s/%s\n", fix.sshd.dir, name);
    tc_test_write(path, text, 0644);
    /* The temporary folders are the namespace's own. */
    snprintf(text, sizeof text, "unset TELECHIR_TMPDIR\n%s", before != NULL ? before : "");
    tc_sshd_before(&fix.sshd, text);
}

static bool runs_from(const char *facts, const char *folder)
{
    char prefix[4400];
    snprintf(prefix, sizeof prefix, "%s/telechird-", folder);
    return strncmp(fact(facts, "self"), prefix, strlen(prefix)) == 0;
}

static const char *var_tmp(void)
{
    static char path[64];
    snprintf(path, sizeof path, "/var/tmp/telechir-%u", (unsigned)getuid());
    return path;
}

/* Only ever in the namespace, whose own temporary folder is marked. */
#define CLEAR                                                                              \
    "[ -f /var/tmp/of-the-tests ] || exit 9\nrm -rf /var/tmp/telechir-* /var/tmp/theirs\n" \
    "chmod 1777 /var/tmp\n"

static void case_91_a_home_that_is_not_executable(void **state)
{
    TCI_UNUSED(state);
    use_home("noexec/home", CLEAR);
    assert_true(runs_from(start_and_end(), var_tmp()));
    use_home("noexec/home", NULL);
    mark_logins();
    assert_true(runs_from(start_and_end(), var_tmp()));
    assert_int_equal(nlogins(), 1);
}

static void case_91_a_home_that_is_read_only(void **state)
{
    TCI_UNUSED(state);
    use_home("readonly/home", CLEAR);
    assert_true(runs_from(start_and_end(), var_tmp()));
}

static void case_91_a_home_that_is_full(void **state)
{
    TCI_UNUSED(state);
    /* There is room for a small file, not for the daemon. */
    char big[200 * 1024 + 64];
    int n = snprintf(big, 8192, "%s#", tc_test_read(fix.daemon));
    memset(big + n, 'x', sizeof big - 1 - (size_t)n);
    big[sizeof big - 1] = '\0';
    int fd = open(fix.daemon, O_WRONLY | O_TRUNC);
    assert_int_equal(write(fd, big, sizeof big - 1), sizeof big - 1);
    close(fd);
    use_home("full/home", CLEAR);
    assert_true(runs_from(start_and_end(), var_tmp()));
    use_home("full/home", "head -c 200000 /dev/zero >\"$HOME/fill\" 2>/dev/null\n" CLEAR);
    assert_true(runs_from(start_and_end(), var_tmp())); /* not even for a small one */
}

static void case_91_the_users_own_temporary_folders_come_first(void **state)
{
    TCI_UNUSED(state);
    char before[8192], folder[4096];
    snprintf(folder, sizeof folder, "%s/telechir", path_of("run time"));
    snprintf(before, sizeof before,
             CLEAR "mkdir -p -m 700 '%s'\nXDG_RUNTIME_DIR='%s'\nexport XDG_RUNTIME_DIR\n",
             path_of("run time"), path_of("run time"));
    use_home("noexec/home", before);
    assert_true(runs_from(start_and_end(), folder));
    snprintf(folder, sizeof folder, "%s/telechir-%u", path_of("tmp dir"), (unsigned)getuid());
    snprintf(before, sizeof before, CLEAR "mkdir -p -m 700 '%s'\nTMPDIR='%s'\nexport TMPDIR\n",
             path_of("tmp dir"), path_of("tmp dir"));
    use_home("noexec/home", before);
    assert_true(runs_from(start_and_end(), folder));
}

/* What somebody else put in a temporary folder of all is not ours. */
static void case_91_a_folder_of_somebody_elses_is_not_used(void **state)
{
    TCI_UNUSED(state);
    started s;
    char before[8192];
    if (getuid() != 0) {
        print_message("skipped: needs root to be somebody else\n");
        skip();
    }
    static const char *const traps[] = {
        "mkdir -m 777 /var/tmp/telechir-0; chown 12345 /var/tmp/telechir-0\n",
        "mkdir -m 700 /var/tmp/theirs; ln -s /var/tmp/theirs /var/tmp/telechir-0; "
        "chown -h 12345 /var/tmp/telechir-0\n",
        ": >/var/tmp/telechir-0; chown 12345 /var/tmp/telechir-0\n",
        "chmod 777 /var/tmp\n", /* no sticky bit: anybody could put theirs in its place */
    };
    for (size_t i = 0; i < TCI_ARRAY_LEN(traps); i++) {
        snprintf(before, sizeof before, CLEAR "%s", traps[i]);
        use_home("noexec/home", before);
        assert_int_equal(start(&s), TC_E_DENIED);
        assert_non_null(strstr(fix.err.msg, "noexec/home/.cache/telechir"));
        assert_non_null(strstr(fix.err.msg, "/var/tmp/telechir-0"));
    }
}

static void case_91_nowhere_at_all(void **state)
{
    TCI_UNUSED(state);
    started s;
    use_home("readonly/home", CLEAR "mkdir /var/tmp/telechir-$(id -u)\n"
                                    "mount -t tmpfs -o ro tmpfs /var/tmp/telechir-$(id -u)\n");
    int rc = start(&s);
    use_home("readonly/home", "while umount /var/tmp/telechir-$(id -u); do :; done 2>/dev/null\n");
    assert_int_equal(rc, TC_E_DENIED);
    assert_non_null(strstr(fix.err.msg, "readonly/home/.cache/telechir: "));
    assert_non_null(strstr(fix.err.msg, "Read-only file system"));
    assert_non_null(strstr(fix.err.msg, "/var/tmp/telechir-"));
    assert_true(fix.err.hint[0] != '\0');
    start_and_end();
}

static void a_folder_of_ones_choice_is_the_only_one(void **state)
{
    TCI_UNUSED(state);
    started s;
    static char folder[4096];
    snprintf(folder, sizeof folder, "%s", path_of("chosen place/daemons"));
    use_home("noexec/home", CLEAR);
    fix.options.folder = tci_str(folder);
    assert_true(runs_from(start_and_end(), folder));
    snprintf(folder, sizeof folder, "%s/noexec/x", fix.sshd.dir);
    fix.options.folder = tci_str(folder);
    assert_int_equal(start(&s), TC_E_DENIED);
    assert_null(strstr(fix.err.msg, "/var/tmp"));
    fix.options.folder = TC_STR("not/absolute");
    assert_int_equal(start(&s), TC_E_INVALID);
}

const struct CMUnitTest places_tests[] = {
    TEST(case_91_a_home_that_is_not_executable),
    TEST(case_91_a_home_that_is_read_only),
    TEST(case_91_a_home_that_is_full),
    TEST(case_91_the_users_own_temporary_folders_come_first),
    TEST(case_91_a_folder_of_somebody_elses_is_not_used),
    TEST(case_91_nowhere_at_all),
    TEST(a_folder_of_ones_choice_is_the_only_one),
};
const size_t nplaces_tests = TCI_ARRAY_LEN(places_tests);
