/* SPDX-License-Identifier: Apache-2.0
 *
 * The staged writer and its journal: kills, full disks, broken disks, and people who rename things
 * at the wrong moment. */
#include "files_help.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static tc_err err;
static tci_file_info info;
static tci_stage stage;

static int fresh(void **state)
{
    (void)state;
    world_new();
    return 0;
}

/* A child that does not outlive a failed test. */
static pid_t start_child(void)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0 && prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
        _exit(97);
    return pid;
}

static int open_stage(const char *name, tci_write_mode mode, tci_stage_journal *journal)
{
    tci_stage_options o = {
        .path = path(name), .mode = mode, .hash = true, .max_bytes = WORLD_BIG, .journal = journal};
    return tci_stage_open(&stage, &o, NULL, &err);
}

static tci_stage_journal *open_journal(tci_stage_replay *replay)
{
    tci_stage_journal *journal = NULL;
    if (!exists("run"))
        make_folder("run");
    assert_int_equal(tci_stage_journal_open(path("run"), &journal, replay, &err), 0);
    return journal;
}

/* ---- the ordinary way ---- */

static void the_candidate_is_visible_and_private_until_it_is_published(void **state)
{
    (void)state;
    mode_t old = umask(0);
    assert_int_equal(open_stage("f", TCI_WRITE_UPSERT, NULL), 0);
    (void)umask(old);
    assert_int_equal(count_stages(""), 1);
    assert_int_equal(mode_of(stage.stage_name), 0600);
    assert_true(tci_stage_is_stage_name(tci_str(stage.stage_name)));
    assert_int_equal(tci_stage_write(&stage, "he", 2, &err), 0);
    assert_int_equal(tci_stage_write(&stage, "llo", 3, &err), 0);
    assert_false(exists("f"));
    assert_int_equal(tci_stage_publish(&stage, &info, &err), TC_E_NOT_READY);
    uint8_t sha[TCI_SHA256_BYTES], expected[TCI_SHA256_BYTES];
    assert_int_equal(tci_stage_seal(&stage, sha, &err), 0);
    tci_sha256_of(TC_STR("hello"), expected);
    assert_memory_equal(sha, expected, sizeof sha);
    assert_int_equal(tci_stage_write(&stage, "x", 1, &err), TC_E_NOT_READY);
    assert_int_equal(tci_stage_publish(&stage, &info, &err), 0);
    assert_true(same("f", "hello"));
    assert_int_equal(info.size, 5);
    assert_int_equal(info.ino, stat_of("f").st_ino);
    assert_int_equal(info.changed.nsec, stat_of("f").st_ctim.tv_nsec);
    assert_int_equal(count_stages(""), 0);
    assert_int_equal(tci_stage_publish(&stage, &info, &err), TC_E_NOT_READY);
    tci_stage_abort(&stage);
    assert_int_equal(stage.state, TCI_STAGE_PUBLISHED);
}

/* Whoever says that nothing is there may be wrong by then. */
static void what_appears_unexpectedly_is_replaced_by_the_rules(void **state)
{
    (void)state;
    tci_stage_options o = {.path = tci_str(at("f")),
                           .mode = TCI_WRITE_UPSERT,
                           .max_bytes = WORLD_BIG,
                           .plain_mode = true,
                           .expects_none = true};
    for (int i = 0; i < 3; i++) {
        if (i == 1) {
            assert_int_equal(chmod(at("f"), 0640), 0);
        } else if (i == 2) {
            assert_int_equal(unlink(at("f")), 0);
            assert_int_equal(symlink("elsewhere", at("f")), 0);
        }
        o.path = tci_str(at("f"));
        mode_t old = umask(022);
        assert_int_equal(tci_stage_open(&stage, &o, NULL, &err), 0);
        (void)umask(old);
        assert_int_equal(tci_stage_write(&stage, i == 0 ? "one" : "two", 3, &err), 0);
        assert_int_equal(tci_stage_seal(&stage, NULL, &err), 0);
        assert_int_equal(tci_stage_publish(&stage, &info, &err), i < 2 ? 0 : TC_E_DENIED);
        assert_int_equal(count_stages(""), 0);
        if (i < 2) {
            assert_true(same("f", i == 0 ? "one" : "two"));
            assert_int_equal(mode_of("f"), i == 0 ? 0644 : 0640);
        }
    }
    assert_false(exists("elsewhere"));
}

/* A process that is killed meanwhile cannot leave what has no name. */
static void a_candidate_without_a_name_leaves_nothing_until_it_is_published(void **state)
{
    (void)state;
    static const tci_write_mode modes[] = {TCI_WRITE_UPSERT, TCI_WRITE_REPLACE, TCI_WRITE_APPEND};
    for (size_t i = 0; i < TCI_ARRAY_LEN(modes); i++) {
        tci_stage_options o = {.path = tci_str(at("f")),
                               .mode = modes[i],
                               .max_bytes = WORLD_BIG,
                               .plain_mode = true,
                               .unnamed = true};
        mode_t old = umask(022);
        assert_int_equal(tci_stage_open(&stage, &o, NULL, &err), 0);
        (void)umask(old);
        if (!stage.is_unnamed) {
            tci_stage_abort(&stage);
            print_message("skipped: this file system has no files without a name\n");
            skip();
        }
        assert_int_equal(tci_stage_write(&stage, "new", 3, &err), 0);
        assert_int_equal(count_stages(""), 0);
        assert_int_equal(exists("f"), i > 0);
        assert_int_equal(tci_stage_seal(&stage, NULL, &err), 0);
        assert_int_equal(tci_stage_publish(&stage, &info, &err), 0);
        assert_true(same("f", i < 2 ? "new" : "newnew"));
        assert_int_equal(mode_of("f"), i == 0 ? 0644 : 0640);
        assert_int_equal(count_stages(""), 0);
        assert_int_equal(chmod(at("f"), 0640), 0);
    }
    tci_stage_options o = {.path = tci_str(at("g")),
                           .mode = TCI_WRITE_UPSERT,
                           .max_bytes = WORLD_BIG,
                           .unnamed = true};
    assert_int_equal(tci_stage_open(&stage, &o, NULL, &err), 0);
    tci_stage_abort(&stage);
    assert_false(exists("g"));
}

static void an_append_hashes_only_what_is_new(void **state)
{
    (void)state;
    put("f", "old", 3, 0644);
    assert_int_equal(open_stage("f", TCI_WRITE_APPEND, NULL), 0);
    assert_int_equal(tci_stage_room(&stage), WORLD_BIG - 3);
    assert_int_equal(tci_stage_write(&stage, "new", 3, &err), 0);
    uint8_t sha[TCI_SHA256_BYTES], expected[TCI_SHA256_BYTES];
    assert_int_equal(tci_stage_seal(&stage, sha, &err), 0);
    tci_sha256_of(TC_STR("new"), expected);
    assert_memory_equal(sha, expected, sizeof sha);
    assert_int_equal(tci_stage_publish(&stage, &info, &err), 0);
    assert_true(same("f", "oldnew"));
    assert_int_equal(mode_of("f"), 0644);
}

static void an_abort_leaves_nothing(void **state)
{
    (void)state;
    put_text("f", "old");
    tci_stage never = {0};
    tci_stage_abort(&never); /* not opened: touches no descriptor */
    assert_int_equal(fcntl(0, F_GETFD) < 0 && errno != EBADF, 0);
    assert_int_equal(open_stage("f", TCI_WRITE_REPLACE, NULL), 0);
    assert_int_equal(tci_stage_write(&stage, "x", 1, &err), 0);
    tci_stage_abort(&stage);
    tci_stage_abort(&stage);
    assert_int_equal(stage.state, TCI_STAGE_ABORTED);
    assert_int_equal(tci_stage_seal(&stage, NULL, &err), TC_E_NOT_READY);
    assert_int_equal(count_stages(""), 0);
    assert_true(same("f", "old"));
}

/* ---- the destination changes between open and publish ---- */

static int seal_new(const char *name, tci_write_mode mode)
{
    assert_int_equal(open_stage(name, mode, NULL), 0);
    assert_int_equal(tci_stage_write(&stage, "new", 3, &err), 0);
    return tci_stage_seal(&stage, NULL, &err);
}

static void publish_looks_at_the_destination_again(void **state)
{
    (void)state;
    assert_int_equal(seal_new("f", TCI_WRITE_CREATE), 0);
    put_text("f", "theirs");
    assert_int_equal(tci_stage_publish(&stage, &info, &err), TC_E_CONFLICT);
    assert_true(same("f", "theirs"));

    assert_int_equal(seal_new("f", TCI_WRITE_REPLACE), 0);
    assert_int_equal(unlink(at("f")), 0);
    assert_int_equal(tci_stage_publish(&stage, &info, &err), TC_E_CONFLICT);
    assert_false(exists("f"));

    assert_int_equal(seal_new("f", TCI_WRITE_UPSERT), 0); /* missing then, there now */
    put("f", "theirs", 6, 0640);
    assert_int_equal(tci_stage_publish(&stage, &info, &err), 0);
    assert_true(same("f", "new"));
    assert_int_equal(mode_of("f"), 0640);
    assert_int_equal(info.mode, 0640);

    assert_int_equal(seal_new("f", TCI_WRITE_UPSERT), 0); /* there then, missing now */
    assert_int_equal(unlink(at("f")), 0);
    assert_int_equal(tci_stage_publish(&stage, &info, &err), 0);
    assert_true(same("f", "new"));

    assert_int_equal(seal_new("f", TCI_WRITE_UPSERT), 0); /* a change of mode is not lost */
    assert_int_equal(chmod(at("f"), 0711), 0);
    assert_int_equal(tci_stage_publish(&stage, &info, &err), 0);
    assert_int_equal(mode_of("f"), 0711);

    put_text("other", "other");
    for (int mode = TCI_WRITE_REPLACE; mode <= TCI_WRITE_APPEND; mode++) {
        assert_int_equal(seal_new("f", (tci_write_mode)mode), 0);
        assert_int_equal(unlink(at("f")), 0);
        make_link("other", "f");
        int rc = tci_stage_publish(&stage, &info, &err);
        assert_true(rc == TC_E_DENIED || (mode == TCI_WRITE_APPEND && rc == TC_E_CONFLICT));
        assert_true(S_ISLNK(stat_of("f").st_mode) && same("other", "other"));
        assert_int_equal(unlink(at("f")), 0);
        put_text("f", "old");
    }

    assert_int_equal(seal_new("f", TCI_WRITE_APPEND), 0); /* its first part would be out of date */
    put_text("f", "changed");
    assert_int_equal(tci_stage_publish(&stage, &info, &err), TC_E_CONFLICT);
    assert_true(same("f", "changed"));
    assert_int_equal(count_stages(""), 0);
}

static void a_candidate_touched_by_others_is_not_published(void **state)
{
    (void)state;
    put_text("f", "old");
    assert_int_equal(seal_new("f", TCI_WRITE_REPLACE), 0);
    assert_int_equal(link(at(stage.stage_name), at("second")), 0);
    assert_int_equal(tci_stage_publish(&stage, &info, &err), TC_E_INTEGRITY);
    assert_int_equal(seal_new("f", TCI_WRITE_REPLACE), 0);
    assert_int_equal(truncate(at(stage.stage_name), 1), 0);
    assert_int_equal(tci_stage_publish(&stage, &info, &err), TC_E_INTEGRITY);
    assert_int_equal(seal_new("f", TCI_WRITE_REPLACE), 0);
    assert_int_equal(rename(at(stage.stage_name), at("elsewhere")), 0);
    put_text(stage.stage_name, "new");
    assert_int_equal(tci_stage_publish(&stage, &info, &err), TC_E_INTEGRITY);
    assert_int_equal(seal_new("f", TCI_WRITE_REPLACE), 0);
    assert_int_equal(unlink(at(stage.stage_name)), 0);
    assert_int_equal(tci_stage_publish(&stage, &info, &err), TC_E_INTEGRITY);
    assert_true(same("f", "old"));
}

static void case_43_a_parent_swapped_for_a_link_does_not_redirect(void **state)
{
    (void)state;
    make_folder("in");
    make_folder("out");
    put_text("in/f", "old");
    put_text("out/f", "precious");
    assert_int_equal(open_stage("in/f", TCI_WRITE_REPLACE, NULL), 0);
    assert_int_equal(rename(at("in"), at("moved")), 0);
    make_link("out", "in");
    assert_int_equal(tci_stage_write(&stage, "new", 3, &err), 0);
    assert_int_equal(tci_stage_seal(&stage, NULL, &err), 0);
    assert_int_equal(tci_stage_publish(&stage, &info, &err), 0);
    assert_true(same("out/f", "precious"));
    assert_true(same("moved/f", "new"));
    assert_int_equal(count_stages("out") + count_stages("moved"), 0);
}

static void case_43_no_write_lands_outside_while_the_parent_flickers(void **state)
{
    (void)state;
    make_folder("real");
    make_folder("out");
    put_text("out/f", "precious");
    make_folder("root");
    /* The other side never gives us a link whose end we should not write: it changes a plain file
     * name between a file and a link that leads out. */
    pid_t pid = start_child();
    if (pid == 0) {
        for (;;) {
            (void)unlink(at("root/f"));
            (void)!symlink("../out/f", at("root/f"));
            (void)unlink(at("root/f"));
            (void)close(open(at("root/f"), O_CREAT | O_WRONLY, 0600));
        }
    }
    for (int i = 0; i < 400; i++) {
        int rc = write_text("root/f", TCI_WRITE_UPSERT, "mine", &err);
        if (rc != 0 && rc != TC_E_DENIED && rc != TC_E_CONFLICT)
            fail_msg("%s", err.msg);
        if (i % 2 == 0)
            (void)patch_text("root/none", "@@ -1 +1 @@\n-x\n+y\n", &err);
    }
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_true(same("out/f", "precious"));
    assert_int_equal(count_stages("root") + count_stages("out"), 0);
}

/* ---- kills ---- */

enum { BIG = 64 * 1024 * 1024 };

static char *big_text(char fill)
{
    char *text = malloc(BIG);
    assert_non_null(text);
    memset(text, fill, BIG);
    return text;
}

/* Overwrite f, over and over, until killed. */
static void write_until_killed(char first, int ready_fd)
{
    tci_stage_journal *journal = NULL;
    if (tci_stage_journal_open(path("run"), &journal, NULL, &err) < 0)
        _exit(1);
    char *text[2] = {big_text(first), big_text((char)(first + 1))};
    if (write(ready_fd, "r", 1) != 1)
        _exit(1);
    for (unsigned i = 0;; i++) {
        tci_write_text in = {.path = path("f"),
                             .mode = TCI_WRITE_UPSERT,
                             .text = tci_str_of(text[i % 2], BIG),
                             .max_bytes = WORLD_BIG,
                             .journal = journal};
        if (tci_ops_write_text(&in, NULL, &info, NULL, &err) < 0)
            _exit(2);
    }
}

static void check_whole(void)
{
    size_t len;
    const char *text = get("f", &len);
    assert_int_equal(len, BIG);
    for (size_t i = 0; i < len; i += 4096)
        assert_int_equal(text[i], text[0]);
    assert_int_equal(text[len - 1], text[0]);
}

static void case_32_a_killed_writer_leaves_the_old_file_or_the_new(void **state)
{
    (void)state;
    make_folder("run");
    char *text = big_text('0');
    put("f", text, BIG, 0644);
    free(text);
    uint32_t random = 12345;
    unsigned removed = 0;
    for (int round = 0; round < 30; round++) {
        int ready[2];
        assert_int_equal(pipe(ready), 0);
        pid_t pid = start_child();
        if (pid == 0)
            write_until_killed((char)('A' + 2 * (round % 10)), ready[1]);
        char r;
        assert_int_equal(read(ready[0], &r, 1), 1); /* it writes from now on */
        random = random * 1103515245U + 12345U;
        struct timespec moment = {.tv_nsec = (long)(random / 65536 % 60000) * 2500};
        (void)nanosleep(&moment, NULL); /* the moment of the kill, which may be any */
        assert_int_equal(kill(pid, SIGKILL), 0);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
        (void)close(ready[0]);
        (void)close(ready[1]);
        check_whole();
        assert_true(count_stages("") <= 1);
        tci_stage_replay replay;
        tci_stage_journal *journal = open_journal(&replay);
        removed += replay.removed;
        assert_int_equal(replay.journals, 1);
        assert_int_equal(replay.left, 0);
        assert_int_equal(count_stages(""), 0);
        tci_stage_journal_close(journal);
    }
    print_message("%u of 30 kills left a candidate to remove\n", removed);
    assert_int_equal(mode_of("f"), 0644);
}

static void the_journal_of_a_living_process_is_left_alone(void **state)
{
    (void)state;
    tci_stage_replay replay;
    tci_stage_journal *first = open_journal(&replay);
    assert_int_equal(replay.journals, 0);
    assert_int_equal(open_stage("f", TCI_WRITE_CREATE, first), 0);
    tci_stage_journal *second = open_journal(&replay);
    assert_int_equal(replay.journals + replay.removed, 0);
    assert_int_equal(count_stages(""), 1);
    tci_stage_journal_close(second);
    tci_stage_abort(&stage);
    tci_stage_journal_close(first);
    assert_int_equal(rmdir(at("run")), 0); /* nothing is kept there */
}

static void a_replay_removes_only_candidates(void **state)
{
    (void)state;
    make_folder("run");
    make_folder("d");
    put_text("precious", "x");
    pid_t pid = start_child();
    if (pid == 0) {
        tci_stage_journal *j = NULL;
        if (tci_stage_journal_open(path("run"), &j, NULL, &err) < 0)
            _exit(1);
        char name[TCI_STAGE_NAME_LEN + 1];
        (void)tci_stage_journal_note(j, path(""), TC_STR("precious"));
        tci_stage_journal_name(j, name);
        (void)tci_stage_journal_note(j, path(""), tci_str(name));
        put_text(name, "left");
        tci_stage_journal_name(j, name);
        (void)tci_stage_journal_note(j, path("d"), tci_str(name));
        if (mkdir(at(name), 0755) < 0 || symlink("../precious", at("d/x")) < 0)
            _exit(1);
        tci_stage_journal_name(j, name);
        (void)tci_stage_journal_note(j, path("gone"), tci_str(name));
        _exit(0); /* as a kill does: nothing is taken back */
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    tci_stage_replay replay;
    tci_stage_journal *journal = open_journal(&replay);
    assert_int_equal(replay.journals, 1);
    assert_int_equal(replay.left, 0);
    assert_true(same("precious", "x"));
    tci_stage_journal_close(journal);
    assert_int_equal(rmdir(at("run")), 0);
}

static void damaged_journals_do_no_harm(void **state)
{
    (void)state;
    make_folder("run");
    put_text("run/stage-0123456789abcdef", "short");
    put_text("run/other", "not ours");
    put_text("run/stage-x", "not ours");
    static char noise[256 * 4096];
    for (size_t i = 0; i < sizeof noise; i++)
        noise[i] = (char)(i * 2654435761U >> 24);
    for (size_t i = 0; i < sizeof noise; i += 4096)
        memcpy(noise + i, "\2\0\0\0", 4); /* in use, with a length that is nonsense */
    put("run/stage-00000000000000aa", noise, sizeof noise, 0600);
    tci_stage_replay replay;
    tci_stage_journal *journal = open_journal(&replay);
    assert_int_equal(replay.journals, 2);
    tci_stage_journal_close(journal);
    assert_true(exists("run/other") && exists("run/stage-x"));
    assert_false(exists("run/stage-0123456789abcdef") || exists("run/stage-00000000000000aa"));
}

static void more_stages_than_slots_still_work(void **state)
{
    (void)state;
    tci_stage_journal *journal = open_journal(NULL);
    int first = -1;
    for (int i = 0; i < 256; i++) {
        int slot = tci_stage_journal_note(journal, path(""), TC_STR("x"));
        assert_true(slot >= 0);
        first = i == 0 ? slot : first;
    }
    assert_int_equal(tci_stage_journal_note(journal, path(""), TC_STR("x")), -1);
    assert_int_equal(open_stage("f", TCI_WRITE_CREATE, journal), 0);
    assert_int_equal(tci_stage_seal(&stage, NULL, &err), 0);
    assert_int_equal(tci_stage_publish(&stage, NULL, &err), 0);
    tci_stage_journal_forget(journal, first);
    assert_int_equal(tci_stage_journal_note(journal, path(""), TC_STR("x")), first);
    for (int i = 0; i < 256; i++)
        tci_stage_journal_forget(journal, i);
    tci_stage_journal_close(journal);
}

static void locks_exclude_and_end_with_their_file(void **state)
{
    (void)state;
    tci_stage_journal *journal = open_journal(NULL);
    tci_file a = TCI_FILE_NONE, b = TCI_FILE_NONE;
    assert_int_equal(tci_stage_journal_lock(journal, 400, NULL, 0, &a, &err), 0);
    assert_int_equal(tci_stage_journal_lock(journal, 400, NULL, 0, &b, &err), TC_E_BUSY);
    tci_cancel cancel = {0};
    atomic_store(&cancel.is_cancelled, true);
    assert_int_equal(tci_stage_journal_lock(journal, 400, &cancel, 60000, &b, &err),
                     TC_E_CANCELLED);
    assert_int_equal(tci_stage_journal_lock(journal, 800, NULL, 0, &b, &err), 0);
    tci_file_close(&b);
    tci_file_close(&a);
    assert_int_equal(tci_stage_journal_lock(journal, 400, NULL, 0, &b, &err), 0);
    tci_file_close(&b);
    tci_stage_journal_close(journal);
}

/* ---- disks that are full or break ---- */

/* In a child with mounts of its own; its answer is the number of the check that failed. */
static int on_a_full_disk(void)
{
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("tmpfs", at("disk"), "tmpfs", 0, "size=64k") < 0)
        return 99;
    static char fill[65536];
    memset(fill, 'x', sizeof fill);
    put("disk/f", fill, 1024, 0644);
    /* Fill it, then leave one page. */
    int fd = open(at("disk/fill"), O_CREAT | O_WRONLY, 0600);
    ssize_t n, sum = 0;
    while ((n = write(fd, fill, 4096)) > 0)
        sum += n;
    if (fd < 0 || ftruncate(fd, sum - 4096) < 0 || close(fd) < 0)
        return 98;
    fill[8192] = '\0';
    if (write_text("disk/f", TCI_WRITE_REPLACE, fill, &err) != TC_E_NO_SPACE)
        return 1;
    if (write_text("disk/f", TCI_WRITE_APPEND, fill, &err) != TC_E_NO_SPACE)
        return 2;
    if (write_text("disk/new", TCI_WRITE_CREATE, fill, &err) != TC_E_NO_SPACE)
        return 3;
    tci_copy_file in = {
        .source = path("disk/fill"), .destination = path("disk/g"), .max_bytes = WORLD_BIG};
    uint64_t copied;
    if (tci_ops_copy(&in, NULL, &info, &copied, &err) != TC_E_NO_SPACE)
        return 4;
    if (stat_of("disk/f").st_size != 1024 || exists("disk/new") || exists("disk/g"))
        return 5;
    if (count_stages("disk") != 0)
        return 6;
    fill[2048] = '\0'; /* what fits still works */
    return write_text("disk/f", TCI_WRITE_REPLACE, fill, &err) == 0 ? 0 : 7;
}

static void case_33_a_full_disk_keeps_the_old_file(void **state)
{
    (void)state;
    make_folder("disk");
    pid_t pid = start_child();
    if (pid == 0)
        _exit(on_a_full_disk());
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 99) {
        print_message("skipped: may not mount a small file system here\n");
        skip();
    }
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void every_write_may_fail(void **state)
{
    (void)state;
    static char text[300000];
    memset(text, 'n', sizeof text - 1);
    static const int errors[] = {ENOSPC, EDQUOT, EIO};
    static const int codes[] = {TC_E_NO_SPACE, TC_E_NO_SPACE, TC_E_IO};
    for (size_t e = 0; e < 3; e++)
        for (unsigned mode = TCI_WRITE_REPLACE; mode <= TCI_WRITE_APPEND; mode++)
            for (unsigned n = 1;; n++) {
                put_text("f", "old");
                tci_file_fail_write_at(n, errors[e]);
                int rc = write_text("f", (tci_write_mode)mode, text, &err);
                tci_file_fail_write_at(0, 0);
                assert_int_equal(count_stages(""), 0);
                if (rc == 0)
                    break; /* n was past the last write */
                assert_int_equal(rc, codes[e]);
                assert_true(same("f", "old"));
                assert_true(n < 50);
            }
    /* A short write alone is no failure. */
    put_text("f", "old");
    tci_file_fail_write_at(1, 0);
    assert_int_equal(write_text("f", TCI_WRITE_APPEND, text, &err), 0);
    tci_file_fail_write_at(0, 0);
    assert_int_equal(stat_of("f").st_size, 3 + strlen(text));
}

static void a_failed_sync_or_rename_changes_nothing_or_says_so(void **state)
{
    (void)state;
    put_text("f", "old");
    tci_file_fail_sync_at(1, EIO); /* of the candidate */
    assert_int_equal(write_text("f", TCI_WRITE_REPLACE, "new", &err), TC_E_IO);
    assert_true(same("f", "old"));
    tci_file_fail_rename_at(1, EIO);
    assert_int_equal(write_text("f", TCI_WRITE_REPLACE, "new", &err), TC_E_IO);
    assert_true(same("f", "old"));
    tci_file_fail_rename_at(1, EPERM); /* say, a file that may not be changed at all */
    assert_int_equal(write_text("f", TCI_WRITE_REPLACE, "new", &err), TC_E_DENIED);
    assert_true(same("f", "old"));
    assert_int_equal(count_stages(""), 0);
    tci_file_fail_sync_at(2, EIO); /* of the folder: the new file is there, perhaps not for good */
    assert_int_equal(write_text("f", TCI_WRITE_REPLACE, "new", &err), TC_E_UNKNOWN_OUTCOME);
    assert_true(same("f", "new"));
    assert_int_equal(count_stages(""), 0);
}

static void a_file_system_without_exclusive_rename_still_never_replaces(void **state)
{
    (void)state;
    tci_file_fail_rename_at(1, EINVAL);
    assert_int_equal(write_text("new", TCI_WRITE_CREATE, "mine", &err), 0);
    assert_true(same("new", "mine"));
    assert_int_equal(stat_of("new").st_nlink, 1);
    assert_int_equal(seal_new("f", TCI_WRITE_CREATE), 0);
    put_text("f", "theirs");
    tci_file_fail_rename_at(1, EINVAL);
    assert_int_equal(tci_stage_publish(&stage, &info, &err), TC_E_CONFLICT);
    assert_true(same("f", "theirs"));
    assert_int_equal(count_stages(""), 0);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    put_text("f", "one\ntwo\n");
    for (size_t n = 1;; n++) {
        tci_mem_fail_at(n);
        int rc = patch_text("f", "@@ -2 +2 @@\n-two\n+2\n", &err);
        tci_mem_fail_at(0);
        assert_int_equal(count_stages(""), 0);
        if (rc == 0)
            break;
        assert_int_equal(rc, TC_E_NO_MEMORY);
        assert_true(same("f", "one\ntwo\n"));
        assert_true(n < 100);
    }
    assert_true(same("f", "one\n2\n"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(the_candidate_is_visible_and_private_until_it_is_published, fresh),
        cmocka_unit_test_setup(a_candidate_without_a_name_leaves_nothing_until_it_is_published,
                               fresh),
        cmocka_unit_test_setup(what_appears_unexpectedly_is_replaced_by_the_rules, fresh),
        cmocka_unit_test_setup(an_append_hashes_only_what_is_new, fresh),
        cmocka_unit_test_setup(an_abort_leaves_nothing, fresh),
        cmocka_unit_test_setup(publish_looks_at_the_destination_again, fresh),
        cmocka_unit_test_setup(a_candidate_touched_by_others_is_not_published, fresh),
        cmocka_unit_test_setup(case_43_a_parent_swapped_for_a_link_does_not_redirect, fresh),
        cmocka_unit_test_setup(case_43_no_write_lands_outside_while_the_parent_flickers, fresh),
        cmocka_unit_test_setup(case_32_a_killed_writer_leaves_the_old_file_or_the_new, fresh),
        cmocka_unit_test_setup(the_journal_of_a_living_process_is_left_alone, fresh),
        cmocka_unit_test_setup(a_replay_removes_only_candidates, fresh),
        cmocka_unit_test_setup(damaged_journals_do_no_harm, fresh),
        cmocka_unit_test_setup(more_stages_than_slots_still_work, fresh),
        cmocka_unit_test_setup(locks_exclude_and_end_with_their_file, fresh),
        cmocka_unit_test_setup(case_33_a_full_disk_keeps_the_old_file, fresh),
        cmocka_unit_test_setup(every_write_may_fail, fresh),
        cmocka_unit_test_setup(a_failed_sync_or_rename_changes_nothing_or_says_so, fresh),
        cmocka_unit_test_setup(a_file_system_without_exclusive_rename_still_never_replaces, fresh),
        cmocka_unit_test_setup(every_allocation_may_fail, fresh),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
