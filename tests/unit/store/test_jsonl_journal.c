/* SPDX-License-Identifier: Apache-2.0
 *
 * Power cuts under durability full: of what was written since the last checkpoint only the journal is certain
 * to be there. Every other file may be as it was at any time, cut, with a hole, missing, or not removed yet.
 * What opens is what was acknowledged. */
#include "folder.h"
#include "plat/file.h"
#include "store/jsonl/jsonl_journal.h"
#include <stdio.h>
#include <stdlib.h>

enum { TRIES = 10, MANY = 350, MANY_TEXT = 3000 };

static uint64_t random_state;

/* Below n; the same numbers in every run. */
static size_t pick(size_t n)
{
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (size_t)(random_state >> 33) % n;
}

/* The story, with the folder and the dump after each commit. */
typedef struct history {
    folder folders[STORY_COMMITS + 1];
    char *dumps[STORY_COMMITS + 1];
} history;

/* lazy: which commits are not synced, a bit each. */
static void make_history(history *h, unsigned lazy)
{
    char path[FOLDER_PATH_MAX];
    tc_err err;
    folder_remove(test_path("history", path));
    tci_store *s = open_session(path, TCI_DURABILITY_FULL);
    for (int k = 0; k <= STORY_COMMITS; k++) {
        tci_commit_how how = (lazy >> k & 1) != 0 ? TCI_COMMIT_LAZY : TCI_COMMIT_SYNCED;
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

/* What may have become of a file's newest bytes: a cut at any byte, and zeros for some of what is left. */
static void spoil(folder_file *f)
{
    if (f->len == 0 || pick(3) == 0)
        return;
    f->len = pick(f->len + 1);
    if (f->len > 0 && pick(2) == 0) {
        size_t from = pick(f->len);
        memset(f->bytes + from, 0, f->len - from);
    }
}

/* A folder as commits 0 to k may have left it, all of it or nothing on the disk but the journal. */
static folder cut_power(history *h, int k)
{
    folder made = {.nfiles = 0};
    for (int i = 0; i <= k; i++) {
        for (size_t n = 0; n < h->folders[i].nfiles; n++) {
            const folder_file *f = &h->folders[i].files[n];
            if (folder_file_of(&made, f->name) == NULL || pick(2) == 0)
                folder_put(&made, f->name, f->bytes, f->len); /* as it was at some time */
        }
    }
    for (size_t n = made.nfiles; n > 0; n--) {
        if (pick(4) == 0)
            folder_drop(&made, made.files[n - 1].name);
        else
            spoil(&made.files[n - 1]);
    }
    const folder_file *journal = folder_file_of(&h->folders[k], TCI_JSONL_JOURNAL);
    folder_drop(&made, TCI_JSONL_JOURNAL);
    if (journal != NULL)
        folder_put(&made, TCI_JSONL_JOURNAL, journal->bytes, journal->len);
    return made;
}

/* It opens to one of the dumps from to to, takes one more commit, and opens to that. */
static void opens_to(const folder *f, history *h, int from, int to, const char *what)
{
    char path[FOLDER_PATH_MAX];
    tc_err err;
    tci_store_options options = {.durability = TCI_DURABILITY_FULL};
    tci_store *s = NULL;
    folder_write(test_path("cut", path), f);
    if (tci_store_open_jsonl(tci_str(path), &options, &s, &err) < 0)
        fail_msg("%s, commit %d: %s", what, to, err.msg);
    char *found = dump_of(s);
    bool is_one = false;
    for (int k = from; k <= to; k++)
        is_one = is_one || strcmp(found, h->dumps[k]) == 0;
    if (!is_one)
        fail_msg("%s, commit %d:\n%s\ninstead of\n%s", what, to, found, h->dumps[to]);
    tci_free(found);
    if (tell_entry(s, 1000, &err) < 0)
        fail_msg("%s, commit %d, next commit: %s", what, to, err.msg);
    char *more = dump_of(s);
    close_session(s);
    char *again = dump_at(path);
    assert_string_equal(more, again);
    tci_free(more);
    tci_free(again);
    folder now = folder_read(path);
    assert_null(folder_file_of(&now, TCI_JSONL_JOURNAL));
    folder_done(&now);
}

static void test_case_77_power_cut(void **state)
{
    TCI_UNUSED(state);
    history h;
    make_history(&h, 0);
    for (int k = 1; k <= STORY_COMMITS; k++) {
        for (int i = 0; i < TRIES; i++) {
            folder f = cut_power(&h, k);
            opens_to(&f, &h, k, k, "power cut");
            folder_done(&f);
        }
        folder only = {.nfiles = 0};
        folder_file *journal = folder_file_of(&h.folders[k], TCI_JSONL_JOURNAL);
        folder_put(&only, TCI_JSONL_JOURNAL, journal->bytes, journal->len);
        opens_to(&only, &h, k, k, "nothing but the journal");
        folder_done(&only);
    }
    history_done(&h);
}

/* Where what the journal holds after commit k ends. */
static size_t journal_end(history *h, int k)
{
    const folder_file *f = folder_file_of(&h->folders[k], TCI_JSONL_JOURNAL);
    size_t len = f != NULL ? f->len : 0;
    while (len > 0 && f->bytes[len - 1] == 0)
        len--;
    return len;
}

/* Between two commits: the journal's new record cut anywhere, while the files are as before. */
static void test_case_77_record_is_cut(void **state)
{
    TCI_UNUSED(state);
    history h;
    make_history(&h, 0);
    for (int k = 1; k < STORY_COMMITS; k++) {
        const folder_file *next = folder_file_of(&h.folders[k + 1], TCI_JSONL_JOURNAL);
        size_t end = journal_end(&h, k + 1);
        for (size_t at = journal_end(&h, k); at <= end;
             at = at < end && end - at < 60 ? end : at + 1 + pick(60)) {
            folder f = pick(2) == 0 ? folder_copy(&h.folders[k]) : cut_power(&h, k);
            folder_file *journal = folder_put(&f, TCI_JSONL_JOURNAL, next->bytes, next->len);
            memset(journal->bytes + at, 0, journal->len - at);
            opens_to(&f, &h, at == end ? k + 1 : k, at == end ? k + 1 : k, "record");
            folder_done(&f);
        }
    }
    history_done(&h);
}

/* The process is killed anywhere in what it appends once the record is there: it is taken up. */
static void test_killed_while_appending(void **state)
{
    TCI_UNUSED(state);
    history h;
    make_history(&h, 0);
    for (int k = 1; k < STORY_COMMITS; k++) {
        folder f = folder_copy(&h.folders[k]);
        folder *next = &h.folders[k + 1];
        const folder_file *journal = folder_file_of(next, TCI_JSONL_JOURNAL);
        folder_put(&f, TCI_JSONL_JOURNAL, journal->bytes, journal->len);
        for (size_t i = 0; i < next->nfiles; i++) {
            const folder_file *file = &next->files[i],
                              *old = folder_file_of(&h.folders[k], file->name);
            if (strcmp(file->name, TCI_JSONL_JOURNAL) == 0)
                continue;
            for (size_t len = old != NULL ? old->len : 0; len <= file->len; len += 1 + pick(60)) {
                folder_put(&f, file->name, file->bytes, len);
                opens_to(&f, &h, k + 1, k + 1, file->name);
            }
            folder_put(&f, file->name, file->bytes, file->len);
        }
        folder_done(&f);
    }
    history_done(&h);
}

/* Commits that were not synced may be lost, from the end; what was synced behind them takes them along. */
static void test_power_cut_with_lazy_commits(void **state)
{
    TCI_UNUSED(state);
    static const unsigned patterns[] = {0x1fe, 0xb6, 0x155, 0x0d8, 0x100};
    for (size_t p = 0; p < TCI_ARRAY_LEN(patterns); p++) {
        history h;
        make_history(&h, patterns[p]);
        int synced = 0;
        for (int k = 1; k <= STORY_COMMITS; k++) {
            if ((patterns[p] >> (k - 1) & 1) == 0)
                synced = k;
            for (int i = 0; synced > 0 && i < TRIES / 2; i++) {
                folder f = cut_power(&h, synced);
                for (int later = synced + 1; later <= k;
                     later++) { /* of those any file as it was then */
                    for (size_t n = 0; n < h.folders[later].nfiles; n++) {
                        const folder_file *file = &h.folders[later].files[n];
                        if (strcmp(file->name, TCI_JSONL_JOURNAL) != 0 && pick(2) == 0)
                            folder_put(&f, file->name, file->bytes, file->len);
                    }
                }
                opens_to(&f, &h, synced, k, "lazy");
                folder_done(&f);
            }
        }
        history_done(&h);
    }
}

/* After the end of the process nothing is missing: opening leaves the files as they are. */
static void test_nothing_is_missing(void **state)
{
    TCI_UNUSED(state);
    history h;
    char path[FOLDER_PATH_MAX];
    make_history(&h, 0);
    for (int k = 1; k <= STORY_COMMITS; k++) {
        folder_write(test_path("killed", path), &h.folders[k]);
        tci_free(dump_at(path));
        folder now = folder_read(path);
        assert_int_equal(now.nfiles + 1, h.folders[k].nfiles);
        for (size_t i = 0; i < now.nfiles; i++) {
            folder_file *was = folder_file_of(&h.folders[k], now.files[i].name);
            assert_non_null(was);
            if (strcmp(was->name, "main.jsonl") == 0) {
                assert_int_equal(now.files[i].len, was->len);
                assert_memory_equal(now.files[i].bytes, was->bytes, was->len);
            }
        }
        folder_done(&now);
    }
    history_done(&h);
}

/* Somebody who does not know the journal has gone on: it is not put over what is there now. */
static void test_others_have_written(void **state)
{
    TCI_UNUSED(state);
    history h;
    char path[FOLDER_PATH_MAX];
    tc_err err;
    make_history(&h, 0);
    for (int k = 1; k <= STORY_COMMITS; k++) {
        for (int j = k; j >= 1; j--) { /* with what a power cut has left of the session */
            folder f = folder_copy(&h.folders[j]);
            folder_drop(&f, TCI_JSONL_JOURNAL);
            folder_write(test_path("others", path), &f);
            folder_done(&f);
            tci_store *s = open_session(path, TCI_DURABILITY_NORMAL);
            for (uint64_t id = 500; id < 503; id++)
                assert_int_equal(tell_entry(s, id, &err), 0);
            close_session(s); /* which writes some files anew */
            char *wanted = dump_at(path);
            f = folder_read(path);
            folder_file *journal = folder_file_of(&h.folders[k], TCI_JSONL_JOURNAL);
            folder_put(&f, TCI_JSONL_JOURNAL, journal->bytes, journal->len);
            folder_write(path, &f);
            char *found = dump_at(path);
            assert_string_equal(found, wanted);
            folder_done(&f);
            tci_free(found);
            tci_free(wanted);
        }
    }
    history_done(&h);
}

/* Reading only: what is missing is put back by who may, before anything is shown. */
static void test_reading_after_a_power_cut(void **state)
{
    TCI_UNUSED(state);
    history h;
    char path[FOLDER_PATH_MAX];
    tc_err err;
    tci_check_report report;
    make_history(&h, 0);
    for (int k = 1; k <= STORY_COMMITS; k++) {
        for (int i = 0; i < 4; i++) {
            folder f = cut_power(&h, k);
            folder_write(test_path("reading", path), &f);
            folder_done(&f);
            if (i % 2 == 0) {
                assert_int_equal(tci_store_check(tci_str(path), NULL, NULL, &report, &err), 0);
                assert_int_equal(report.nlost, 0);
            }
            tci_store_options options = {.is_read_only = true};
            tci_store *s = NULL;
            if (tci_store_open(tci_str(path), &options, &s, &err) < 0)
                fail_msg("reading commit %d: %s", k, err.msg);
            char *found = dump_of(s);
            assert_string_equal(found, h.dumps[k]);
            tci_free(found);
            close_session(s);
        }
    }
    history_done(&h);
}

/* ---- more than the journal holds ---- */

static uint64_t generation_of(folder *f)
{
    uint64_t value;
    const folder_file *journal = folder_file_of(f, TCI_JSONL_JOURNAL);
    memcpy(&value, journal->bytes + 8, sizeof value);
    return value;
}

static int tell_much(tci_store *s, uint64_t id, size_t len, tc_err *err)
{
    tci_write w[2] = {{.type = TCI_WRITE_ENTRY}, {.type = TCI_WRITE_DOC_CHANGE}};
    tci_arena a;
    tc_str json;
    uint64_t seq;
    char *text = tci_mem_alloc(len + 1);
    memset(text, 'x', len);
    text[len] = '\0';
    tci_arena_init(&a, 0);
    int rc = tci_arena_printf(
        &a, &json, err, "{\"id\":%llu,\"conversationId\":1,\"kind\":\"pi.user\",\"data\":\"%s\"}",
        (unsigned long long)id, text);
    if (rc == 0)
        rc = tci_entry_parse(json, &a, NULL, &w[0].u.entry, err);
    w[1].u.document.id = 2;
    if (rc == 0)
        rc = tci_arena_printf(&a, &w[1].content.json, err, "{\"n\":%llu,\"text\":\"%s\"}",
                              (unsigned long long)id, text);
    w[1].content.version = 1;
    if (rc == 0)
        rc = tci_store_commit(s, w, 2, TCI_COMMIT_SYNCED, &seq, err);
    tci_arena_done(&a);
    tci_free(text);
    return rc;
}

/* Many commits, with checkpoints between, files written anew, and some commits that are too large for the
 * journal; the power is cut after some of them. */
static void test_checkpoints(void **state)
{
    TCI_UNUSED(state);
    char path[FOLDER_PATH_MAX], cut[FOLDER_PATH_MAX];
    tc_err err;
    folder_remove(test_path("many", path));
    test_path("many-cut", cut);
    tci_store *s = open_session(path, TCI_DURABILITY_FULL);
    assert_int_equal(tell(s, 0, TCI_COMMIT_SYNCED, &err), 0);
    folder durable = {.nfiles = 0};
    uint64_t generation = 1;
    unsigned nrounds = 0, ncuts = 0;
    for (uint64_t id = 100; id < 100 + MANY; id++) {
        bool is_large = id % 97 == 0;
        bool looks = id % 31 == 0 || is_large || id % 97 == 1;
        folder before = folder_read(path);
        if (tell_much(s, id, is_large ? TCI_JOURNAL_RECORD_MAX : MANY_TEXT, &err) < 0)
            fail_msg("entry %llu: %s", (unsigned long long)id, err.msg);
        folder now = folder_read(path);
        if (generation_of(&now) != generation ||
            is_large) { /* all of before is on the disk, or of now */
            generation = generation_of(&now);
            nrounds++;
            folder_done(&durable);
            durable = folder_copy(is_large ? &now : &before);
        }
        if (looks) {
            folder f = folder_copy(&durable);
            for (size_t i = 0; i < now.nfiles; i++) {
                const folder_file *file = &now.files[i], *old = folder_file_of(&f, file->name);
                size_t least = old != NULL && old->len <= file->len &&
                                       memcmp(old->bytes, file->bytes, old->len) == 0
                                   ? old->len
                                   : SIZE_MAX;
                if (least == SIZE_MAX && old != NULL)
                    continue; /* written anew: synced before it got its name */
                least = old != NULL ? least : 0;
                folder_put(&f, file->name, file->bytes, least + pick(file->len - least + 1));
            }
            folder_file *journal = folder_file_of(&now, TCI_JSONL_JOURNAL);
            folder_put(&f, TCI_JSONL_JOURNAL, journal->bytes, journal->len);
            const folder_file *doc = folder_file_of(&now, "doc-2.jsonl");
            const folder_file *was = folder_file_of(&durable, "doc-2.jsonl");
            if (was != NULL &&
                (was->len > doc->len || memcmp(was->bytes, doc->bytes, was->len) != 0))
                folder_put(&f, "doc-2.jsonl", doc->bytes, doc->len);
            folder_write(cut, &f);
            char *wanted = dump_of(s), *found = dump_at(cut);
            assert_string_equal(found, wanted);
            tci_free(wanted);
            tci_free(found);
            folder_done(&f);
            ncuts++;
        }
        folder_done(&before);
        folder_done(&now);
    }
    assert_true(nrounds > 5 && ncuts > 15);
    folder_done(&durable);
    close_session(s);
    folder last = folder_read(path);
    assert_null(folder_file_of(&last, TCI_JSONL_JOURNAL));
    folder_done(&last);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_case_77_power_cut),
        cmocka_unit_test(test_case_77_record_is_cut),
        cmocka_unit_test(test_killed_while_appending),
        cmocka_unit_test(test_power_cut_with_lazy_commits),
        cmocka_unit_test(test_nothing_is_missing),
        cmocka_unit_test(test_others_have_written),
        cmocka_unit_test(test_reading_after_a_power_cut),
        cmocka_unit_test(test_checkpoints),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
