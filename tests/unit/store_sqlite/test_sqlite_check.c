/* SPDX-License-Identifier: Apache-2.0
 *
 * Damage in an SQLite session: what is said of it, and what a repair keeps. */
#include "store_script.h"

#include "plat/file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <sqlite3.h>

#include <cmocka.h>

enum { PAGE = 512, ENTRIES = 300, LINES_MAX = 64 * 1024 };

static const char path[] = "session.sqlite";

static void remove_session(void)
{
    static const char *const suffixes[] = {"", "-wal", "-shm"};
    for (size_t i = 0; i < TCI_ARRAY_LEN(suffixes); i++) {
        char name[64];
        (void)snprintf(name, sizeof name, "%s%s", path, suffixes[i]);
        tci_file_discard(TCI_FILE_CWD, tci_str(name));
    }
}

static tci_store *must_open(void)
{
    tc_err err;
    tci_store *store = NULL;
    if (tci_store_open(tci_str(path), NULL, &store, &err) < 0)
        fail_msg("open: %s", err.msg);
    return store;
}

static void must_close(tci_store *store)
{
    tc_err err;
    assert_int_equal(tci_store_close(store, &err), 0);
}

static void must_commit(tci_store *store, const char *writes)
{
    tc_err err;
    uint64_t seq;
    if (script_commit(store, tci_str(writes), TCI_COMMIT_SYNCED, &seq, &err) < 0)
        fail_msg("%.200s: %s", writes, err.msg);
}

/* A conversation, two documents with a history, a task, a submission, and entries enough for many
 * pages. */
static void make_session(void)
{
    remove_session();
    tci_store *store = must_open();
    must_commit(
        store,
        "[{\"type\":\"conversation\",\"value\":{\"id\":1}},"
        "{\"type\":\"document.create\",\"record\":{\"id\":2,\"kind\":\"live\",\"scope\":{\"kind\":"
        "\"session\"}},\"content\":{\"version\":1,\"kind\":\"base\",\"value\":{\"n\":0}}},"
        "{\"type\":\"document.create\",\"record\":{\"id\":3,\"kind\":\"agent\",\"scope\":{\"kind\":"
        "\"conversation\",\"conversationId\":1},\"history\":\"rewindable\",\"fork\":\"asOf\"},"
        "\"content\":{\"version\":1,\"kind\":\"base\",\"value\":{\"n\":0}}},"
        "{\"type\":\"task\",\"value\":{\"id\":4,\"conversationId\":1,\"kind\":\"k\",\"version\":1,"
        "\"input\":null,\"background\":false,\"abortRequested\":false,\"state\":{\"status\":"
        "\"pending\",\"checkpoint\":{}}}},"
        "{\"type\":\"submission\",\"value\":{\"id\":5,\"conversationId\":1,\"requestId\":\"r\","
        "\"type\":\"input\",\"status\":\"queued\"}}]");
    for (int i = 1; i <= 4; i++) {
        char writes[512];
        (void)snprintf(
            writes, sizeof writes,
            "[{\"type\":\"document.change\",\"id\":2,\"content\":{\"version\":1,\"kind\":"
            "\"delta\",\"ops\":[[\"s\",[\"n\"],%d]]}},{\"type\":\"document.change\",\"id\":3,"
            "\"content\":{\"version\":1,\"kind\":\"base\",\"value\":{\"n\":%d}}}]",
            i, i);
        must_commit(store, writes);
    }
    tci_buf entries;
    tci_buf_init(&entries, 1 << 20);
    for (int i = 0; i < ENTRIES; i++)
        tci_buf_printf(
            &entries,
            "%s{\"type\":\"entry\",\"value\":{\"id\":%d,\"conversationId\":1,\"kind\":\"k\","
            "\"data\":\"some text so that a page is full after a few of them\"}}",
            i == 0 ? "[" : ",", 100 + i);
    tci_buf_append(&entries, "]", 2);
    must_commit(store, entries.ptr);
    tci_buf_done(&entries);
    must_close(store);
}

static void run_sql(const char *sql)
{
    sqlite3 *db = NULL;
    char *message = NULL;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    if (sqlite3_exec(db, sql, NULL, NULL, &message) != SQLITE_OK)
        fail_msg("%s: %s", sql, message);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

/* ---- damage as lines ---- */

static void add_line(void *user, const tci_damage *d)
{
    tci_buf *b = user;
    tci_buf_printf(b, "%s %.*s: %.*s\n", d->is_lost ? "lost" : "wrong", TC_STR_ARG(d->where),
                   TC_STR_ARG(d->what));
}

static tci_check_report check(tci_buf *lines)
{
    tc_err err;
    tci_check_report report = {.nrecords = 0};
    tci_buf_clear(lines);
    if (tci_store_check(tci_str(path), add_line, lines, &report, &err) < 0)
        fail_msg("check: %s", err.msg);
    tci_buf_append_byte(lines, 0);
    return report;
}

/* Repairs, and checks that nothing is wrong afterwards. */
static tci_check_report repair(tci_buf *lines)
{
    tc_err err;
    tci_arena a;
    tc_str aside = {NULL, 0};
    tci_file_stat st;
    tci_check_report report = {.nrecords = 0};
    tci_arena_init(&a, 0);
    tci_buf_clear(lines);
    if (tci_store_repair(tci_str(path), add_line, lines, &a, &aside, &report, &err) < 0)
        fail_msg("repair: %s", err.msg);
    tci_buf_append_byte(lines, 0);
    assert_true(report.ndamaged > 0);
    assert_int_equal(tci_file_stat_at(TCI_FILE_CWD, aside, true, &st, &err), 0);
    tci_file_discard(TCI_FILE_CWD, aside);
    tci_arena_done(&a);
    tci_buf again;
    tci_buf_init(&again, LINES_MAX);
    tci_check_report after = check(&again);
    if (after.ndamaged != 0)
        fail_msg("after a repair:\n%s", again.ptr);
    assert_int_equal(after.nrecords, report.nrecords);
    tci_buf_done(&again);
    return report;
}

static void assert_says(const tci_buf *lines, const char *words)
{
    if (strstr(lines->ptr, words) == NULL)
        fail_msg("'%s' is not in:\n%s", words, lines->ptr);
}

/* ---- tests ---- */

enum { RECORDS = 5 + ENTRIES, COMMITS = 5 + 1 };

static void nothing_is_wrong_with_a_sound_session(void **state)
{
    TCI_UNUSED(state);
    tc_err err;
    tci_arena a;
    tc_str aside = TC_STR("?");
    tci_buf lines;
    tci_buf_init(&lines, LINES_MAX);
    make_session();
    tci_check_report report = check(&lines);
    assert_string_equal(lines.ptr, "");
    assert_int_equal(report.nrecords, RECORDS);
    assert_int_equal(report.ndamaged, 0);
    assert_int_equal(report.ncommits, COMMITS);
    tci_arena_init(&a, 0);
    assert_int_equal(tci_store_repair(tci_str(path), NULL, NULL, &a, &aside, &report, &err), 0);
    assert_int_equal(aside.len, 0); /* nothing was moved */
    tci_arena_done(&a);
    tci_buf_done(&lines);
}

static void each_kind_of_damage_is_named_and_the_rest_kept(void **state)
{
    TCI_UNUSED(state);
    static const struct {
        const char *sql, *words;
        unsigned nlost; /* records */
    } rows[] = {
        {"UPDATE entries SET record='{\"id\":100}' WHERE id=100",
         "lost table entries, row 100: ", 1},
        {"UPDATE entries SET record='{\"id\":7,\"conversationId\":1,\"kind\":\"k\"}' WHERE id=101",
         "lost table entries, row 101: its record has another id", 1},
        {"UPDATE tasks SET status='running'",
         "wrong table tasks, row 4: its columns differ from its record", 0},
        {"UPDATE tasks SET kind='k'", "wrong table tasks, row 4: its columns differ", 0},
        {"UPDATE submissions SET request_id=NULL", "wrong table submissions, row 5: its columns",
         0},
        {"UPDATE documents SET owner_id=9 WHERE id=3", "wrong table documents, row 3: its columns",
         0},
        {"DELETE FROM record_ids WHERE id=4",
         "wrong table tasks, row 4: its id is not in record_ids", 0},
        {"UPDATE record_ids SET record_type='task' WHERE id=100",
         "wrong table entries, row 100: its id is of another type", 0},
        {"DELETE FROM submissions", "lost table record_ids, row 5: its record is missing", 1},
        {"UPDATE document_revisions SET content='[[\"s\",[\"a\",\"b\"],1]]' WHERE document_id=2 "
         "AND "
         "seq=3",
         "lost table document_revisions, row 2: 2 more revisions build on the damaged one", 0},
        {"DELETE FROM document_revisions WHERE document_id=2 AND kind='base'",
         "lost table documents, row 2: there is no content to it", 1},
        {"UPDATE document_revisions SET content='{' || '}' WHERE document_id=3 AND seq=1", "", 0},
        {"UPDATE document_revisions SET content='[]' WHERE document_id=3 AND seq=1",
         "lost table document_revisions, row 3: its revision of commit 1: a base that is no object",
         0},
        {"DELETE FROM documents WHERE id=3",
         "lost table document_revisions, row 3: revisions of a document that is not there", 1},
        {"UPDATE durable_metadata SET next_id='50'",
         "wrong table durable_metadata, row 1: its next id is taken already", 0},
        {"UPDATE durable_metadata SET next_seq=3",
         "wrong table durable_metadata, row 1: its next sequence number is taken already", 0},
    };
    tci_buf lines;
    tci_buf_init(&lines, LINES_MAX);
    for (size_t i = 0; i < TCI_ARRAY_LEN(rows); i++) {
        make_session();
        run_sql(rows[i].sql);
        tci_check_report report = check(&lines);
        if (rows[i].words[0] == 0) {
            assert_int_equal(report.ndamaged, 0);
            continue;
        }
        assert_says(&lines, rows[i].words);
        assert_int_equal(report.nrecords, RECORDS - rows[i].nlost);
        report = repair(&lines);
        assert_says(&lines, rows[i].words);
        assert_int_equal(report.nrecords, RECORDS - rows[i].nlost);
        tci_store *store = must_open(); /* and it goes on, with ids that nobody has */
        tc_err err;
        uint64_t id = 0;
        assert_int_equal(tci_store_mint(store, &id, &err), 0);
        assert_true(id >= 100 + ENTRIES);
        must_commit(store, "[{\"type\":\"document.create\",\"record\":{\"id\":900,\"kind\":\"new\","
                           "\"scope\":{\"kind\":\"session\"}},\"content\":{\"version\":1,\"kind\":"
                           "\"base\",\"value\":{}}}]");
        must_close(store);
    }
    tci_buf_done(&lines);
}

static void a_document_keeps_what_came_before_the_damage(void **state)
{
    TCI_UNUSED(state);
    tc_err err;
    tci_arena a;
    tci_tree value;
    tci_document_state found;
    tci_buf lines;
    uint64_t n = 0;
    tci_buf_init(&lines, LINES_MAX);
    make_session();
    run_sql("UPDATE document_revisions SET version=2 WHERE document_id=2 AND seq=4");
    (void)repair(&lines);
    tci_arena_init(&a, 0);
    tci_store *store = must_open();
    assert_int_equal(tci_store_document(store, 2, 0, &a, &found, &value, &err), 0);
    assert_true(tci_json_as_u64(tci_json_get(&value.root, TC_STR("n")), &n));
    assert_int_equal(n, 2);
    tci_tree_done(&value);
    assert_int_equal(tci_store_document(store, 3, 2, &a, &found, &value, &err), 0);
    assert_true(tci_json_as_u64(tci_json_get(&value.root, TC_STR("n")), &n));
    assert_int_equal(n, 1); /* history of the other is as it was */
    tci_tree_done(&value);
    must_close(store);
    tci_arena_done(&a);
    tci_buf_done(&lines);
}

/* One page after another overwritten: the session may be beyond repair only when the tables
 * themselves cannot be found. */
static void any_page_may_be_gone(void **state)
{
    TCI_UNUSED(state);
    tc_err err;
    tci_file_stat st;
    tci_buf lines;
    tci_buf_init(&lines, 1 << 20);
    make_session();
    assert_int_equal(tci_file_stat_at(TCI_FILE_CWD, tci_str(path), true, &st, &err), 0);
    char *whole, junk[PAGE];
    size_t len, nrepaired = 0;
    memset(junk, 0xff, sizeof junk);
    assert_int_equal(
        tci_file_read_whole(TCI_FILE_CWD, tci_str(path), (size_t)st.size, &whole, &len, &err), 0);
    size_t npages = len / PAGE;
    for (size_t page = 1; page < npages; page += 5) {
        tci_file f;
        remove_session();
        assert_int_equal(tci_file_openat(TCI_FILE_CWD, tci_str(path),
                                         TCI_OPEN_WRITE | TCI_OPEN_CREATE, 0600, &f, &err),
                         0);
        assert_int_equal(tci_file_write_all(f, whole, len, &err), 0);
        assert_int_equal(tci_file_pwrite_all(f, junk, PAGE, page * PAGE, &err), 0);
        tci_file_close(&f);
        tci_check_report found = check(&lines);
        assert_true(found.ndamaged > 0);
        tci_arena a;
        tc_str aside;
        tci_check_report report;
        tci_arena_init(&a, 0);
        int rc = tci_store_repair(tci_str(path), NULL, NULL, &a, &aside, &report, &err);
        if (rc == 0) {
            nrepaired++;
            assert_int_equal(check(&lines).ndamaged, 0);
            assert_true(report.nrecords + 40 >= RECORDS || report.nrecords < 20);
            tci_file_discard(TCI_FILE_CWD, aside);
        } else {
            assert_int_equal(rc, TC_E_PARSE);
        }
        tci_arena_done(&a);
    }
    assert_true(nrepaired * 10 >= npages / 5 * 7);
    tci_free(whole);
    tci_buf_done(&lines);
}

static void what_is_no_database_is_left_alone(void **state)
{
    TCI_UNUSED(state);
    tc_err err;
    tci_arena a;
    tc_str aside;
    tci_buf lines;
    tci_check_report report = {.nrecords = 0};
    tci_file f;
    char text[2 * PAGE];
    memset(text, 'x', sizeof text);
    tci_buf_init(&lines, LINES_MAX);
    tci_arena_init(&a, 0);
    remove_session();
    assert_int_equal(tci_file_openat(TCI_FILE_CWD, tci_str(path), TCI_OPEN_WRITE | TCI_OPEN_CREATE,
                                     0600, &f, &err),
                     0);
    assert_int_equal(tci_file_write_all(f, text, sizeof text, &err), 0);
    tci_file_close(&f);
    report = check(&lines);
    assert_int_equal(report.ndamaged, 1);
    assert_int_equal(report.nrecords, 0);
    assert_int_equal(tci_store_repair(tci_str(path), NULL, NULL, &a, &aside, &report, &err),
                     TC_E_PARSE);
    tci_file_stat st;
    assert_int_equal(tci_file_stat_at(TCI_FILE_CWD, tci_str(path), true, &st, &err), 0);
    assert_int_equal(st.size, sizeof text);
    tci_arena_done(&a);
    tci_buf_done(&lines);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_wrong_with_a_sound_session),
        cmocka_unit_test(each_kind_of_damage_is_named_and_the_rest_kept),
        cmocka_unit_test(a_document_keeps_what_came_before_the_damage),
        cmocka_unit_test(any_page_may_be_gone),
        cmocka_unit_test(what_is_no_database_is_left_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
