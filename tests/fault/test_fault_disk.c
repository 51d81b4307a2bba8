/* SPDX-License-Identifier: Apache-2.0
 *
 * The disk below the spool folder is full: the command that writes there ends and says why, an answer whose
 * evidence cannot be stored is sent all the same, and nobody else notices. The disk is a small one of the
 * test's own, seen by nobody else. */
#include "rig.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TEXT_MAX = 256 * 1024 };

#define OP "{\"context\":{\"operation_id\":\"%o\"}"
#define SCRIPT(text)                                                                              \
    ",\"request\":{\"command\":{\"kind\":\"shell\",\"profile_id\":\"default\",\"script\":\"" text \
    "\"}}}"

static char answer[TEXT_MAX];

static bool has_own_mounts;

/* Called before the first thread. */
static void own_mounts(void)
{
    has_own_mounts =
        unshare(CLONE_NEWNS) == 0 && mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
    if (!has_own_mounts)
        print_message("no mounts of our own: %s\n", strerror(errno));
}

static void start_on_small_disk(rig *r, char path[700])
{
    if (!has_own_mounts) {
        print_message("skipped: a full disk takes the right to mount one\n");
        skip();
    }
    rig_prepare(r);
    r->config.limits.max_output_preview_bytes = 16384;
    (void)snprintf(path, 700, "%s/runtime", r->folder);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(mount("none", path, "tmpfs", 0, "size=16m,mode=0700"), 0);
    rig_start(r);
    rig_open_session(r);
}

static void stop_and_unmount(rig *r, const char *path)
{
    rig_stop(r);
    assert_int_equal(umount(path), 0);
}

static void fill(rig *r, char filler[700])
{
    static char zeros[4096];
    (void)snprintf(filler, 700, "%.*s/filler",
                   TC_STR_ARG(tci_runtime_dir_spool(r->device->runtime)));
    int fd = open(filler, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    while (write(fd, zeros, sizeof zeros) > 0)
        ;
    assert_int_equal(errno, ENOSPC);
    assert_int_equal(close(fd), 0);
}

static void test_a_command_that_fills_the_disk_fails_and_others_go_on(void **state)
{
    rig r;
    char disk[700], other[HANDLE_MAX], command[HANDLE_MAX];
    TCI_UNUSED(state);
    start_on_small_disk(&r, disk);
    memcpy(other, r.session, sizeof other);
    rig_do(&r, true, "process.start",
           OP ",\"request\":{\"command\":{\"kind\":\"shell\",\"profile_id\":\"default\",\"script\":"
              "\"read x; echo alive "
              "$x\"},\"keep_stdin_open\":true}}",
           answer, sizeof answer);
    assert_true(rig_text(answer, "handle", command, sizeof command));
    rig_open_session(&r); /* the one that will suffer */
    rig_do(&r, true, "process.start", OP SCRIPT("head -c 40000000 /dev/zero; sleep 60"), answer,
           sizeof answer);
    assert_true(rig_text(answer, "handle", r.handle, sizeof r.handle));
    rig_do(&r, true, "process.wait", OP ",\"handle\":\"%h\",\"condition\":\"tree_cleaned\"}",
           answer, sizeof answer);
    if (strstr(answer, "\"phase\":\"failed\"") == NULL ||
        strstr(answer, "\"termination_reason\":\"backend_lost\"") == NULL)
        fail_msg("%s", answer);
    /* a command that waits for its end is told that the outcome is not known */
    unsigned id = rig_ask(&r, true, "shell.exec", OP SCRIPT("head -c 40000000 /dev/zero"));
    assert_true(rig_answer(&r, id, answer, sizeof answer));
    assert_non_null(strstr(answer, "\"error_type\":\"unknown_outcome\""));
    /* the other session */
    memcpy(r.session, other, sizeof other);
    memcpy(r.handle, command, sizeof command);
    rig_do(&r, true, "process.write_stdin",
           OP ",\"handle\":\"%h\",\"data\":{\"encoding\":\"base64\",\"data\":\"b25lCg\"}}", NULL,
           0);
    rig_do(&r, true, "process.wait", OP ",\"handle\":\"%h\",\"condition\":\"tree_cleaned\"}",
           answer, sizeof answer);
    assert_non_null(strstr(answer, "\"exit_code\":0"));
    rig_do(&r, true, "shell.exec", OP SCRIPT("echo small"), answer, sizeof answer);
    assert_non_null(strstr(answer, "c21hbGwK"));
    stop_and_unmount(&r, disk);
}

/* More than is kept in memory as evidence, once it is base64. */
#define SAME "{\"context\":{\"operation_id\":\"same\"}" SCRIPT("head -c 12288 /dev/zero; exit 4")

static void test_an_answer_is_sent_when_its_evidence_cannot_be_stored(void **state)
{
    rig r;
    char disk[700], filler[700];
    struct stat st;
    TCI_UNUSED(state);
    start_on_small_disk(&r, disk);
    rig_do(&r, true, "shell.exec", OP SCRIPT("exit 0"), NULL, 0);
    fill(&r, filler);
    assert_int_equal(stat(filler, &st), 0);
    assert_int_equal(truncate(filler, st.st_size / 4096 * 4096 - 12288),
                     0); /* room for the output alone */
    rig_do(&r, true, "shell.exec", SAME, answer, sizeof answer);
    assert_non_null(strstr(answer, "\"exit_code\":4"));
    /* Asked again it says that it cannot say; what happened is still known. */
    unsigned id = rig_ask(&r, true, "shell.exec", SAME);
    assert_true(rig_answer(&r, id, answer, sizeof answer));
    assert_non_null(strstr(answer, "\"error_type\":\"conflict\""));
    rig_do(&r, true, "receipt.get", OP ",\"operation_id\":\"same\"}", answer, sizeof answer);
    assert_non_null(strstr(answer, "\"outcome\":\"succeeded\""));
    stop_and_unmount(&r, disk);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_command_that_fills_the_disk_fails_and_others_go_on),
        cmocka_unit_test(test_an_answer_is_sent_when_its_evidence_cannot_be_stored),
    };
    own_mounts();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
