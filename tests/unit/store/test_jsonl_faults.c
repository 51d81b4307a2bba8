/* SPDX-License-Identifier: Apache-2.0
 *
 * Commits that do not come to their end: cut files, writes that fall short, disks that are full, syncs
 * that fail. What is there afterwards is exactly the commits whose marker was complete. */
#include "folder.h"
#include "plat/file.h"
#include "store/jsonl/jsonl_journal.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* Folder and dump after each commit of the story. */
typedef struct history {
    folder folders[STORY_COMMITS + 1];
    char *dumps[STORY_COMMITS + 1];
} history;

static void make_history(history *h, tci_commit_how how, tci_durability durability)
{
    char path[FOLDER_PATH_MAX];
    tc_err err;
    folder_remove(test_path("history", path));
    tci_store *s = open_session(path, durability);
    for (int k = 0; k <= STORY_COMMITS; k++) {
        h->folders[k] = folder_read(path);
        h->dumps[k] = dump_of(s);
        if (k < STORY_COMMITS && tell(s, k, how, &err) < 0)
            fail_msg("commit %d: %s", k, err.msg);
    }
    close_session(s);
}

static void history_done(history *h)
{
    for (int k = 0; k <= STORY_COMMITS; k++) {
        folder_done(&h->folders[k]);
        tci_free(h->dumps[k]);
    }
}

/* The folder opens to this dump, takes one more commit, and opens to both. */
static void opens_to(const folder *f, const char *dump, const char *what, size_t cut)
{
    char path[FOLDER_PATH_MAX];
    tc_err err;
    folder_write(test_path("cut", path), f);
    tci_store *s = open_session(path, TCI_DURABILITY_NORMAL);
    char *found = dump_of(s);
    if (strcmp(found, dump) != 0)
        fail_msg("%s cut at %zu:\n%s\ninstead of\n%s", what, cut, found, dump);
    tci_free(found);
    if (tell_entry(s, 1000, &err) < 0)
        fail_msg("%s cut at %zu, next commit: %s", what, cut, err.msg);
    char *more = dump_of(s);
    close_session(s);
    char *again = dump_at(path);
    assert_string_equal(more, again);
    tci_free(more);
    tci_free(again);
}

/* How much of the file is as it was before. */
static size_t kept(folder *before, const folder_file *now)
{
    const folder_file *old = folder_file_of(before, now->name);
    size_t len = old != NULL ? old->len : 0;
    assert_true(len <= now->len && (len == 0 || memcmp(old->bytes, now->bytes, len) == 0));
    return len;
}

/* Between commit k and the one before: the file cut at every byte of what was appended, with the sidecars
 * before it whole and those behind it (and the marker) not begun. */
static void cut_commit(history *h, int k)
{
    folder made = folder_copy(&h->folders[k - 1]);
    folder *now = &h->folders[k];
    for (int pass = 0; pass < 2; pass++) { /* sidecars, then the marker */
        for (size_t i = 0; i < now->nfiles; i++) {
            const folder_file *file = &now->files[i];
            bool is_main = strcmp(file->name, "main.jsonl") == 0;
            if (is_main != (pass == 1))
                continue;
            for (size_t len = kept(&h->folders[k - 1], file); len < file->len; len++) {
                folder_put(&made, file->name, file->bytes, len);
                opens_to(&made, h->dumps[k - 1], file->name, len);
            }
            folder_put(&made, file->name, file->bytes, file->len);
            opens_to(&made, h->dumps[is_main ? k : k - 1], file->name, file->len);
        }
    }
    folder_done(&made);
}

static void test_case_72_cut_at_every_byte(void **state)
{
    TCI_UNUSED(state);
    history h;
    make_history(&h, TCI_COMMIT_SYNCED, TCI_DURABILITY_NORMAL);
    for (int k = 1; k <= STORY_COMMITS; k++)
        cut_commit(&h, k);
    history_done(&h);
}

/* Commit k with its n-th write (or sync) failing: false when it had none. */
static bool fail_commit(history *h, int k, unsigned n, bool is_sync, tci_durability durability)
{
    char path[FOLDER_PATH_MAX];
    tc_err err, later;
    tci_arena a;
    tci_entry e;
    folder_write(test_path("fail", path), &h->folders[k - 1]);
    tci_store *s = open_session(path, durability);
    if (is_sync)
        tci_file_fail_sync_at(n, EIO);
    else
        tci_file_fail_write_at(n, EIO);
    int rc = tell(s, k - 1, TCI_COMMIT_SYNCED, &err);
    tci_file_fail_sync_at(0, 0);
    tci_file_fail_write_at(0, 0);
    if (rc == 0) {
        close_session(s);
        return false;
    }
    assert_int_equal(rc, tci_errno_code(EIO));
    assert_non_null(strstr(err.msg, "poisoned"));
    tci_arena_init(&a, 0);
    assert_int_equal(tci_store_entry(s, 0, 4, &a, &e, NULL, &later), TC_E_NOT_READY);
    assert_non_null(strstr(later.msg, "poisoned"));
    assert_int_equal(tell_entry(s, 999, &later), TC_E_NOT_READY);
    tci_arena_done(&a);
    close_session(s);
    char *found = dump_at(path);
    bool is_there = strcmp(found, h->dumps[k]) == 0;
    assert_true(is_there || strcmp(found, h->dumps[k - 1]) == 0);
    folder now = folder_read(path);
    const folder_file *main_file = folder_file_of(&now, "main.jsonl");
    folder_file *whole = folder_file_of(&h->folders[k], "main.jsonl");
    assert_int_equal(is_there, main_file != NULL && main_file->len == whole->len);
    folder_done(&now);
    tci_free(found);
    s = open_session(path, TCI_DURABILITY_NORMAL);
    assert_int_equal(tell_entry(s, 1000, &err), 0);
    close_session(s);
    return true;
}

static void test_case_72_each_write_falls_short(void **state)
{
    TCI_UNUSED(state);
    history h;
    make_history(&h, TCI_COMMIT_SYNCED, TCI_DURABILITY_NORMAL);
    for (int k = 1; k <= STORY_COMMITS; k++) {
        unsigned n = 1;
        while (fail_commit(&h, k, n, false, TCI_DURABILITY_NORMAL))
            n++;
        assert_true(n > 1);
        for (n = 1; fail_commit(&h, k, n, false, TCI_DURABILITY_FULL); n++)
            ;
        assert_true(n > 2); /* the journal too */
    }
    history_done(&h);
}

static void test_each_sync_fails(void **state)
{
    TCI_UNUSED(state);
    history h;
    make_history(&h, TCI_COMMIT_SYNCED, TCI_DURABILITY_FULL);
    for (int k = 1; k <= STORY_COMMITS; k++) {
        unsigned n = 1;
        while (fail_commit(&h, k, n, true, TCI_DURABILITY_FULL))
            n++;
        assert_true(n > 1);
    }
    history_done(&h);
}

/* The disk is full in mid-run and has room again later: what was acknowledged is there, what was not is
 * not, and the session goes on after being opened again. */
static void test_case_77_disk_full(void **state)
{
    TCI_UNUSED(state);
    history h;
    make_history(&h, TCI_COMMIT_SYNCED, TCI_DURABILITY_FULL);
    char path[FOLDER_PATH_MAX];
    tc_err err;
    folder_remove(test_path("full", path));
    tci_store *s = open_session(path, TCI_DURABILITY_FULL);
    for (int k = 0; k < STORY_COMMITS; k++) {
        tci_file_fail_write_at(1, ENOSPC);
        assert_int_equal(tell(s, k, TCI_COMMIT_SYNCED, &err), TC_E_NO_SPACE);
        assert_non_null(strstr(err.msg, "poisoned"));
        close_session(s);
        tci_file_fail_write_at(0, 0);
        s = open_session(path, TCI_DURABILITY_FULL);
        char *found = dump_of(s);
        assert_string_equal(found, h.dumps[k]);
        tci_free(found);
        assert_int_equal(tell(s, k, TCI_COMMIT_SYNCED, &err), 0);
    }
    char *found = dump_of(s);
    assert_string_equal(found, h.dumps[STORY_COMMITS]);
    tci_free(found);
    close_session(s);
    history_done(&h);
}

/* A rename that fails only means that nothing was cleared away. */
static void test_reclaiming_may_fail(void **state)
{
    TCI_UNUSED(state);
    char path[FOLDER_PATH_MAX];
    tc_err err;
    folder_remove(test_path("reclaim", path));
    tci_store *s = open_session(path, TCI_DURABILITY_NORMAL);
    for (int k = 0; k < STORY_COMMITS; k++)
        assert_int_equal(tell(s, k, TCI_COMMIT_SYNCED, &err), 0);
    char *before = dump_of(s);
    tci_file_fail_rename_at(1, EIO);
    close_session(s);
    tci_file_fail_rename_at(0, 0);
    char *after = dump_at(path);
    assert_string_equal(before, after);
    tci_free(before);
    tci_free(after);
}

/* ---- power cuts: lazy markers may be on the disk without their sidecars ---- */

static void test_lazy_commits_lose_their_records(void **state)
{
    TCI_UNUSED(state);
    history h;
    char path[FOLDER_PATH_MAX];
    make_history(&h, TCI_COMMIT_LAZY, TCI_DURABILITY_FULL);
    /* commits 4 and 5 (numbers from 1) change document 2: it has lost the second, then both */
    folder lost = folder_copy(&h.folders[5]);
    folder_file *old = folder_file_of(&h.folders[4], "doc-2.jsonl");
    folder_put(&lost, "doc-2.jsonl", old->bytes, old->len);
    opens_to(&lost, h.dumps[4], "doc-2.jsonl", old->len);
    old = folder_file_of(&h.folders[3], "doc-2.jsonl");
    folder_put(&lost, "doc-2.jsonl", old->bytes, old->len);
    opens_to(&lost, h.dumps[3], "doc-2.jsonl", old->len);
    /* all the sidecars are gone: nothing has happened */
    folder bare = folder_copy(&h.folders[5]);
    for (size_t i = 0; i < bare.nfiles; i++) {
        if (strcmp(bare.files[i].name, "main.jsonl") != 0)
            bare.files[i].len = 0;
    }
    opens_to(&bare, h.dumps[0], "all sidecars", 0);
    folder_done(&bare);
    folder_done(&lost);
    history_done(&h);

    /* the same of commits that were synced is damage */
    tc_err err;
    make_history(&h, TCI_COMMIT_SYNCED, TCI_DURABILITY_FULL);
    lost = folder_copy(&h.folders[5]);
    old = folder_file_of(&h.folders[4], "doc-2.jsonl");
    folder_put(&lost, "doc-2.jsonl", old->bytes, old->len);
    folder_drop(&lost, TCI_JSONL_JOURNAL);
    folder_write(test_path("damaged", path), &lost);
    refuse_session(path, TC_E_PARSE, &err);
    assert_non_null(strstr(err.msg, "missing"));
    folder_done(&lost);
    history_done(&h);
}

/* A synced commit takes the lazy ones before it along. */
static void test_lazy_commits_are_synced_by_the_next(void **state)
{
    TCI_UNUSED(state);
    char path[FOLDER_PATH_MAX];
    tc_err err;
    folder_remove(test_path("lazy", path));
    tci_store *s = open_session(path, TCI_DURABILITY_FULL);
    assert_int_equal(tell(s, 0, TCI_COMMIT_SYNCED, &err), 0);
    tci_file_fail_sync_at(1, EIO); /* nothing is synced */
    for (int k = 1; k < 5; k++)
        assert_int_equal(tell(s, k, TCI_COMMIT_LAZY, &err), 0);
    folder before = folder_read(path);
    tci_file_fail_sync_at(2, EIO); /* the journal has all of them with one sync */
    assert_int_equal(tell_entry(s, 900, &err), 0);
    folder after = folder_read(path);
    const folder_file *now = folder_file_of(&after, TCI_JSONL_JOURNAL);
    for (size_t i = 0; i < before.nfiles; i++) {
        const folder_file *f = &before.files[i];
        tc_str text = tci_str_of(f->bytes, f->len);
        if (strcmp(f->name, TCI_JSONL_JOURNAL) == 0)
            continue;
        tc_str line = tci_str_sub(
            text, tci_str_rfind_byte(tci_str_sub(text, 0, text.len - 1), '\n') + 1, text.len);
        assert_true(tci_str_find(tci_str_of(now->bytes, now->len), line) < now->len);
    }
    folder_done(&before);
    folder_done(&after);
    tci_file_fail_sync_at(0, 0);
    close_session(s);
}

/* ---- damage that no crash makes ---- */

typedef struct damage {
    const char *file, *from, *to, *says;
} damage;

static void test_damage_is_refused(void **state)
{
    TCI_UNUSED(state);
    static const damage damages[] = {
        {"main.jsonl", "\"seq\":2,", "\"seq\":1,", "does not increase"},
        {"main.jsonl", "\"seq\":3,\"writes\":[", "\"seq\":3,\"writes\":[[", "malformed"},
        {"main.jsonl", "\"type\":\"commit\"", "\"type\":\"commits\"", "marker"},
        {"main.jsonl", "\"format\":1", "\"format\":2", "marker"},
        {"main.jsonl", "{\"type\":\"entry\"", "{\"type\":\"entries\"", "unknown type"},
        {"main.jsonl", "\"id\":4,\"conversationId\":1", "\"id\":4.0,\"conversationId\":1", "field"},
        {"main.jsonl", "\"id\":4,\"conversationId\":1", "\"id\":1,\"conversationId\":1",
         "already belongs"},
        {"main.jsonl", "\"id\":2,\"ordinal\":1", "\"id\":2,\"ordinal\":7", "missing"},
        {"main.jsonl", "Say ", "Say \xff", "UTF-8"},
        {"doc-2.jsonl", "\"seq\":4", "\"seq\":3", "missing"},
        {"doc-2.jsonl", "\"seq\":4", "\"seq\":1", "out of order"},
        {"doc-2.jsonl", "\"kind\":\"delta\"", "\"kind\":\"gamma\"", "neither"},
        {"doc-2.jsonl", "\"id\":2", "\"id\":3", "something else"},
        {"doc-2.jsonl", "\"version\":1", "\"version\":0", "field"},
        {"doc-2.jsonl", "{\"format\"", "{format\"", "malformed"},
        {"doc-3.jsonl", "\"kind\":\"base\",\"value\":{\"model\":\"\xc3\xa9\xe2\x80\xa8\"}",
         "\"kind\":\"delta\",\"ops\":[]", "begins with a delta"},
        {"task-5.jsonl", "\"status\":\"pending\"", "\"status\":\"terminal\"", "ended"},
        {"task-5.jsonl", "\"status\":\"pending\"", "\"status\":\"asleep\"", "field"},
    };
    history h;
    char path[FOLDER_PATH_MAX];
    tc_err err;
    make_history(&h, TCI_COMMIT_SYNCED, TCI_DURABILITY_NORMAL);
    test_path("damaged", path);
    for (size_t i = 0; i < TCI_ARRAY_LEN(damages); i++) {
        folder f = folder_copy(&h.folders[5]);
        folder_edit(&f, damages[i].file, damages[i].from, damages[i].to);
        folder_write(path, &f);
        refuse_session(path, TC_E_PARSE, &err);
        if (strstr(err.msg, damages[i].says) == NULL || strstr(err.msg, "byte") == NULL)
            fail_msg("%zu: '%s' does not say '%s'", i, err.msg, damages[i].says);
        folder now = folder_read(path); /* what does not open is not touched */
        assert_int_equal(now.nfiles, f.nfiles);
        for (size_t k = 0; k < f.nfiles; k++) {
            assert_int_equal(folder_file_of(&now, f.files[k].name)->len, f.files[k].len);
        }
        folder_done(&now);
        folder_done(&f);
    }
    history_done(&h);
}

/* Each allocation of opening and of a commit fails in turn. */
static bool memory_fails(history *h, int k, size_t n)
{
    char path[FOLDER_PATH_MAX];
    tc_err err;
    tci_store *s = NULL;
    tci_store_options options = {.durability = TCI_DURABILITY_NORMAL};
    folder_write(test_path("memory", path), &h->folders[k - 1]);
    tci_mem_fail_at(n);
    int rc = tci_store_open_jsonl(tci_str(path), &options, &s, &err);
    int told = rc == 0 ? tell(s, k - 1, TCI_COMMIT_SYNCED, &err) : rc;
    bool was_reached = tci_mem_count() >= n;
    tci_mem_fail_at(0);
    if (told != 0 || !was_reached) /* what only saves time does without */
        assert_int_equal(told, was_reached ? TC_E_NO_MEMORY : 0);
    if (rc == 0)
        close_session(s);
    char *found = dump_at(path);
    bool is_before = strcmp(found, h->dumps[k - 1]) == 0;
    assert_true(is_before || strcmp(found, h->dumps[k]) == 0);
    assert_true(told < 0 || !is_before);
    tci_free(found);
    return was_reached;
}

static void test_memory_runs_out(void **state)
{
    TCI_UNUSED(state);
    history h;
    make_history(&h, TCI_COMMIT_SYNCED, TCI_DURABILITY_NORMAL);
    for (int k = 1; k <= STORY_COMMITS; k++) {
        for (size_t n = 1; memory_fails(&h, k, n); n++)
            ;
    }
    history_done(&h);
}

/* Whole lines that no marker refers to, behind those that count. */
static void test_unconfirmed_records_are_removed(void **state)
{
    TCI_UNUSED(state);
    history h;
    make_history(&h, TCI_COMMIT_SYNCED, TCI_DURABILITY_NORMAL);
    folder f = folder_copy(&h.folders[7]); /* task 5 has ended, document 8 is retired */
    folder_file *old = folder_file_of(&h.folders[5], "task-5.jsonl");
    folder_put(&f, "task-5.jsonl", old->bytes, old->len); /* not removed, and with a rest */
    folder_edit(&f, "task-5.jsonl", "\"seq\":5,\"ordinal\":1", "\"seq\":9,\"ordinal\":1");
    opens_to(&f, h.dumps[7], "task-5.jsonl", 0);
    old = folder_file_of(&h.folders[5], "doc-2.jsonl");
    folder_put(&f, "doc-77.jsonl", old->bytes, old->len);
    folder_put(&f, "doc-2.jsonl.reclaim", "x", 1);
    folder_put(&f, "notes.txt", "mine", 4);
    opens_to(&f, h.dumps[7], "doc-77.jsonl", 0);
    char path[FOLDER_PATH_MAX];
    folder now = folder_read(test_path("cut", path));
    assert_null(folder_file_of(&now, "doc-2.jsonl.reclaim"));
    assert_null(folder_file_of(&now, "task-5.jsonl"));
    assert_null(folder_file_of(&now, "doc-8.jsonl"));
    assert_non_null(folder_file_of(&now, "notes.txt"));
    folder_done(&now);
    folder_done(&f);
    history_done(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_case_72_cut_at_every_byte),
        cmocka_unit_test(test_case_72_each_write_falls_short),
        cmocka_unit_test(test_each_sync_fails),
        cmocka_unit_test(test_case_77_disk_full),
        cmocka_unit_test(test_reclaiming_may_fail),
        cmocka_unit_test(test_lazy_commits_lose_their_records),
        cmocka_unit_test(test_lazy_commits_are_synced_by_the_next),
        cmocka_unit_test(test_damage_is_refused),
        cmocka_unit_test(test_memory_runs_out),
        cmocka_unit_test(test_unconfirmed_records_are_removed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
