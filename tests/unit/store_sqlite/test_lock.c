/* SPDX-License-Identifier: Apache-2.0
 *
 * One owner per session: who is refused, who is named, and who takes over after a death. */
#include "store/lock.h"
#include "store/store.h"

#include "plat/file.h"
#include "plat/proc.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static const char *const paths[] = {"one.sqlite", "one-folder"};

static bool exists(const char *path)
{
    tc_err ignored;
    tci_file_stat st;
    return tci_file_stat_at(TCI_FILE_CWD, tci_str(path), false, &st, &ignored) == 0;
}

static tci_store *must_open(const char *path)
{
    tc_err err;
    tci_store *store = NULL;
    if (tci_store_open(tci_str(path), NULL, &store, &err) < 0)
        fail_msg("open %s: %s", path, err.msg);
    return store;
}

static void must_close(tci_store *store)
{
    tc_err err;
    if (tci_store_close(store, &err) < 0)
        fail_msg("close: %s", err.msg);
}

static void check_refused(const char *path, int pid)
{
    tc_err err;
    char owner[64];
    tci_store *store = NULL;
    assert_int_equal(tci_store_open(tci_str(path), NULL, &store, &err), TC_E_BUSY);
    (void)snprintf(owner, sizeof owner, "owned by process %d (", pid);
    if (strstr(err.msg, owner) == NULL || strstr(err.msg, ") on host '") == NULL ||
        strstr(err.msg, "', since 2") == NULL || strstr(err.msg, path) == NULL)
        fail_msg("%s", err.msg);
    assert_string_not_equal(err.hint, "");
}

/* A process that owns the session until its end is closed. */
typedef struct holder {
    pid_t pid;
    int end;
} holder;

static holder hold(const char *path)
{
    int up[2], down[2];
    char ready = 0;
    assert_int_equal(pipe(up), 0);
    assert_int_equal(pipe(down), 0);
    holder h = {.pid = fork()};
    assert_true(h.pid >= 0);
    if (h.pid == 0) {
        tc_err err;
        tci_store *store;
        (void)close(down[1]);
        char answer = tci_store_open(tci_str(path), NULL, &store, &err) == 0 ? 'y' : 'n';
        if (write(up[1], &answer, 1) == 1)
            while (read(down[0], &answer, 1) > 0)
                continue;
        _exit(0); /* without closing anything */
    }
    (void)close(up[1]);
    (void)close(down[0]);
    assert_int_equal(read(up[0], &ready, 1), 1);
    assert_int_equal(ready, 'y');
    (void)close(up[0]);
    h.end = down[1];
    return h;
}

static void kill_holder(holder h)
{
    int status;
    assert_int_equal(kill(h.pid, SIGKILL), 0);
    assert_int_equal(waitpid(h.pid, &status, 0), h.pid);
    assert_true(WIFSIGNALED(status));
    (void)close(h.end);
}

static void case_75_second_process_is_refused_and_told_the_owner(void **state)
{
    TCI_UNUSED(state);
    for (size_t i = 0; i < TCI_ARRAY_LEN(paths); i++) {
        holder h = hold(paths[i]);
        check_refused(paths[i], h.pid);
        check_refused(paths[i], h.pid); /* asking does not take it away */
        kill_holder(h);
        must_close(must_open(paths[i])); /* at once */
    }
}

static void case_75_second_opening_in_one_process_is_refused(void **state)
{
    TCI_UNUSED(state);
    for (size_t i = 0; i < TCI_ARRAY_LEN(paths); i++) {
        tci_store *store = must_open(paths[i]);
        check_refused(paths[i], tci_proc_self());
        must_close(store);
        must_close(must_open(paths[i]));
    }
}

static void write_file(const char *path, const char *text)
{
    tc_err err;
    tci_file f;
    if (tci_file_openat(TCI_FILE_CWD, tci_str(path),
                        TCI_OPEN_WRITE | TCI_OPEN_CREATE | TCI_OPEN_TRUNCATE, 0600, &f, &err) < 0 ||
        tci_file_write_all(f, text, strlen(text), &err) < 0)
        fail_msg("%s", err.msg);
    tci_file_close(&f);
}

static void case_75_lock_of_the_dead_names_a_living_process(void **state)
{
    TCI_UNUSED(state);
    static const char *const locks[] = {"one.sqlite-owner.lock", "one-folder/owner.lock"};
    for (size_t i = 0; i < TCI_ARRAY_LEN(paths); i++) {
        char number_is_taken[64];
        (void)snprintf(number_is_taken, sizeof number_is_taken, "{\"pid\":%d,\"startTicks\":1}",
                       tci_proc_self());
        const char *const left[] = {number_is_taken, "", "{\"pid\":-1", "\xff\xff"};
        must_close(must_open(paths[i]));
        for (size_t k = 0; k < TCI_ARRAY_LEN(left); k++) {
            write_file(locks[i], left[k]);
            must_close(must_open(paths[i]));
        }
    }
}

static void case_75_not_taken_over_while_the_owner_lives(void **state)
{
    TCI_UNUSED(state);
    /* The lock file says somebody who is long gone: what counts is that it is locked. */
    tci_store *store = must_open("one.sqlite");
    tc_err err;
    tci_store *second = NULL;
    write_file("one.sqlite-owner.lock", "{\"pid\":1999999999,\"program\":\"gone\"}");
    assert_int_equal(tci_store_open(TC_STR("one.sqlite"), NULL, &second, &err), TC_E_BUSY);
    must_close(store);
}

static void a_link_leads_to_the_same_lock(void **state)
{
    TCI_UNUSED(state);
    tc_err err;
    must_close(must_open("one.sqlite"));
    must_close(must_open("one-folder"));
    tci_file_discard(TCI_FILE_CWD, TC_STR("other.sqlite"));
    tci_file_discard(TCI_FILE_CWD, TC_STR("other-folder"));
    if (tci_file_symlink(TC_STR("one.sqlite"), TCI_FILE_CWD, TC_STR("other.sqlite"), &err) < 0 ||
        tci_file_symlink(TC_STR("one-folder"), TCI_FILE_CWD, TC_STR("other-folder"), &err) < 0)
        fail_msg("%s", err.msg);
    static const char *const others[] = {"other.sqlite", "other-folder"};
    for (size_t i = 0; i < TCI_ARRAY_LEN(paths); i++) {
        tci_store *store = must_open(others[i]), *second = NULL;
        assert_int_equal(tci_store_open(tci_str(paths[i]), NULL, &second, &err), TC_E_BUSY);
        must_close(store);
    }
}

/* The same file under another name: a file of SQLite, or the first of a folder. */
static const char *const hard_links[][2] = {{"one.sqlite", "hard.sqlite"},
                                            {"one-folder/main.jsonl", "hard-folder/main.jsonl"}};
static const char *const hard_paths[] = {"hard.sqlite", "hard-folder"};

static void make_hard_link(size_t i)
{
    tc_err err;
    tci_file_discard(TCI_FILE_CWD, tci_str(hard_links[i][1]));
    (void)!tci_file_mkdir(TCI_FILE_CWD, TC_STR("hard-folder"), 0700, &err); /* or it is there */
    if (tci_file_link(TCI_FILE_CWD, tci_str(hard_links[i][0]), TCI_FILE_CWD,
                      tci_str(hard_links[i][1]), &err) < 0)
        fail_msg("%s", err.msg);
}

static void commit_nothing(tci_store *store)
{
    tc_err err;
    uint64_t seq;
    if (tci_store_commit(store, NULL, 0, TCI_COMMIT_SYNCED, &seq, &err) < 0)
        fail_msg("%s", err.msg);
}

static void case_75_hard_link_leads_to_the_same_owner(void **state)
{
    TCI_UNUSED(state);
    for (size_t i = 0; i < TCI_ARRAY_LEN(paths); i++) {
        tc_err err;
        char owner[64];
        tci_store *store = must_open(paths[i]), *second = NULL;
        commit_nothing(store);
        make_hard_link(i);
        /* In one process, also when the file was made by the commit just now. */
        assert_int_equal(tci_store_open(tci_str(hard_paths[i]), NULL, &second, &err), TC_E_BUSY);
        must_close(store);
        holder h = hold(paths[i]);
        for (size_t k = 0; k < 2; k++) {
            assert_int_equal(tci_store_open(tci_str(hard_paths[i]), NULL, &second, &err),
                             TC_E_BUSY);
            (void)snprintf(owner, sizeof owner, "owned by process %d (", (int)h.pid);
            if (strstr(err.msg, owner) == NULL || strstr(err.msg, hard_paths[i]) == NULL)
                fail_msg("%s", err.msg);
        }
        check_refused(paths[i], h.pid);
        kill_holder(h);
        must_close(must_open(hard_paths[i]));
        must_close(must_open(paths[i]));
        assert_false(exists("hard.sqlite-owner.lock"));
        assert_false(exists("hard-folder/owner.lock"));
    }
}

static void nothing_is_left_of_a_lock(void **state)
{
    TCI_UNUSED(state);
    for (size_t i = 0; i < TCI_ARRAY_LEN(paths); i++)
        must_close(must_open(paths[i]));
    assert_false(exists("one.sqlite-owner.lock"));
    assert_false(exists("one-folder/owner.lock"));
}

static void readers_need_no_lock_and_see_the_owner(void **state)
{
    TCI_UNUSED(state);
    for (size_t i = 0; i < TCI_ARRAY_LEN(paths); i++) {
        tc_err err;
        tci_arena a;
        tc_str owner = TC_STR("?");
        char text[64];
        tci_arena_init(&a, 0);
        must_close(must_open(paths[i]));
        assert_int_equal(tci_lock_owner(tci_str(paths[i]), &a, &owner, &err), 0);
        assert_int_equal(owner.len, 0);

        holder h = hold(paths[i]);
        tci_store *reader = NULL;
        const tci_store_options options = {.is_read_only = true};
        if (tci_store_open(tci_str(paths[i]), &options, &reader, &err) < 0)
            fail_msg("%s", err.msg);
        must_close(reader);
        assert_int_equal(tci_lock_owner(tci_str(paths[i]), &a, &owner, &err), 0);
        (void)snprintf(text, sizeof text, "process %d (", (int)h.pid);
        assert_true(tci_str_starts(owner, tci_str(text)));
        check_refused(paths[i], h.pid);
        kill_holder(h);
        assert_int_equal(tci_lock_owner(tci_str(paths[i]), &a, &owner, &err), 0);
        assert_int_equal(owner.len, 0); /* what it left does not count */
        tci_arena_done(&a);
    }
}

static void repairing_needs_the_lock(void **state)
{
    TCI_UNUSED(state);
    for (size_t i = 0; i < TCI_ARRAY_LEN(paths); i++) {
        tc_err err;
        tci_arena a;
        tc_str aside;
        tci_check_report report;
        tci_arena_init(&a, 0);
        tci_store *store = must_open(paths[i]);
        assert_int_equal(tci_store_repair(tci_str(paths[i]), NULL, NULL, &a, &aside, &report, &err),
                         TC_E_BUSY);
        must_close(store);
        if (tci_store_repair(tci_str(paths[i]), NULL, NULL, &a, &aside, &report, &err) < 0)
            fail_msg("%s", err.msg);
        assert_int_equal(aside.len, 0);
        tci_arena_done(&a);
    }
}

static void a_failed_opening_leaves_no_lock(void **state)
{
    TCI_UNUSED(state);
    tc_err err;
    tci_store *store = NULL;
    const tci_store_options missing = {.must_exist = true};
    assert_int_equal(tci_store_open(TC_STR("none.sqlite"), &missing, &store, &err), TC_E_NOT_FOUND);
    assert_false(exists("none.sqlite-owner.lock"));
    assert_int_equal(tci_store_open(TC_STR("none-folder"), &missing, &store, &err), TC_E_NOT_FOUND);
    assert_false(exists("none-folder"));
    write_file("text.sqlite", "this is a text, and it is long enough to be looked at by all means; "
                              "but no session, nor any other database that could be opened");
    assert_int_equal(tci_store_open(TC_STR("text.sqlite"), NULL, &store, &err), TC_E_PARSE);
    assert_false(exists("text.sqlite-owner.lock"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(case_75_second_process_is_refused_and_told_the_owner),
        cmocka_unit_test(case_75_second_opening_in_one_process_is_refused),
        cmocka_unit_test(case_75_lock_of_the_dead_names_a_living_process),
        cmocka_unit_test(case_75_not_taken_over_while_the_owner_lives),
        cmocka_unit_test(a_link_leads_to_the_same_lock),
        cmocka_unit_test(case_75_hard_link_leads_to_the_same_owner),
        cmocka_unit_test(nothing_is_left_of_a_lock),
        cmocka_unit_test(readers_need_no_lock_and_see_the_owner),
        cmocka_unit_test(repairing_needs_the_lock),
        cmocka_unit_test(a_failed_opening_leaves_no_lock),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
