/* SPDX-License-Identifier: Apache-2.0
 *
 * What is particular to a session in an SQLite file: the tables and their versions, prefixes, the
 * columns beside the records, how little is kept and written. The rest is in tests/contract/store. */
#include "store_script.h"

#include "plat/file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <sqlite3.h>

#include <cmocka.h>

#define ROOT "{\"type\":\"conversation\",\"value\":{\"id\":1}}"

static void start_anew(const char *path)
{
    static const char *const suffixes[] = {"", "-wal", "-shm", "-owner.lock"};
    for (size_t i = 0; i < TCI_ARRAY_LEN(suffixes); i++) {
        char name[64];
        (void)snprintf(name, sizeof name, "%s%s", path, suffixes[i]);
        tci_file_discard(TCI_FILE_CWD, tci_str(name));
    }
}

static bool exists(const char *path)
{
    tc_err ignored;
    tci_file_stat st;
    return tci_file_stat_at(TCI_FILE_CWD, tci_str(path), false, &st, &ignored) == 0;
}

static tci_store *must_open_with(const char *path, const tci_store_options *options)
{
    tc_err err;
    tci_store *store = NULL;
    if (tci_store_open(tci_str(path), options, &store, &err) < 0)
        fail_msg("open: %s", err.msg);
    return store;
}

static tci_store *must_open(const char *path)
{
    return must_open_with(path, NULL);
}

static void must_close(tci_store *store)
{
    tc_err err;
    if (tci_store_close(store, &err) < 0)
        fail_msg("close: %s", err.msg);
}

static uint64_t must_commit(tci_store *store, const char *writes)
{
    tc_err err;
    uint64_t seq = 0;
    if (script_commit(store, tci_str(writes), TCI_COMMIT_SYNCED, &seq, &err) < 0)
        fail_msg("%.200s: %s", writes, err.msg);
    return seq;
}

/* ---- the file as others see it ---- */

static int first_text(void *user, int ncolumns, char **values, char **names)
{
    TCI_UNUSED(names);
    char *text = user;
    if (ncolumns == 1 && text[0] == 0)
        (void)snprintf(text, 4096, "%s", values[0] != NULL ? values[0] : "NULL");
    return 0;
}

/* The first row's only column. */
static void ask(const char *path, const char *sql, char text[4096])
{
    sqlite3 *db = NULL;
    char *message = NULL;
    text[0] = 0;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    if (sqlite3_exec(db, sql, first_text, text, &message) != SQLITE_OK)
        fail_msg("%s: %s", sql, message);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static void assert_sql(const char *path, const char *sql, const char *expected)
{
    char text[4096];
    ask(path, sql, text);
    assert_string_equal(text, expected);
}

/* ---- tests ---- */

static void ids_and_sequence_numbers_go_on_after_opening_again(void **state)
{
    TCI_UNUSED(state);
    tc_err err;
    uint64_t id = 0;
    start_anew("a.sqlite");
    tci_store *store = must_open("a.sqlite");
    assert_int_equal(tci_store_mint(store, &id, &err), 0);
    assert_int_equal(id, 2);
    assert_int_equal(tci_store_mint(store, &id, &err), 0);
    assert_int_equal(must_commit(store, "[" ROOT "]"), 1);
    must_close(store);
    assert_sql("a.sqlite",
               "SELECT next_id||' '||typeof(next_id)||' '||next_seq FROM durable_metadata",
               "4 text 2");
    store = must_open("a.sqlite");
    assert_int_equal(tci_store_mint(store, &id, &err), 0);
    assert_int_equal(id, 4); /* 3 was handed out before the commit: it stays a gap */
    assert_int_equal(must_commit(store, "[]"), 2);
    must_close(store);
}

static void closing_leaves_one_file(void **state)
{
    TCI_UNUSED(state);
    start_anew("a.sqlite");
    tci_store *store = must_open("a.sqlite");
    (void)must_commit(store, "[" ROOT "]");
    assert_true(exists("a.sqlite-wal"));
    must_close(store);
    assert_true(exists("a.sqlite"));
    assert_false(exists("a.sqlite-wal"));
    assert_false(exists("a.sqlite-shm"));
}

static void run_sql(const char *path, const char *sql)
{
    char text[4096];
    ask(path, sql, text);
}

/* What a session of version 1 looked like, as far as that matters. */
static const char version_1[] =
    "CREATE TABLE durable_schema(singleton INTEGER PRIMARY KEY CHECK (singleton=1),version INTEGER"
    " NOT NULL CHECK (version>=0)) STRICT;INSERT INTO durable_schema VALUES(1,1);"
    "CREATE TABLE durable_metadata(singleton INTEGER PRIMARY KEY CHECK (singleton=1),"
    "next_id TEXT NOT NULL,next_seq INTEGER NOT NULL) STRICT;"
    "INSERT INTO durable_metadata VALUES(1,'10',5);"
    "CREATE TABLE record_ids(id INTEGER PRIMARY KEY,record_type TEXT NOT NULL) STRICT;"
    "INSERT INTO record_ids VALUES(1,'conversation'),(9,'task');"
    "CREATE TABLE conversations(id INTEGER PRIMARY KEY,owner_conversation_id INTEGER,"
    "owner_task_id INTEGER,record TEXT NOT NULL) STRICT;"
    "INSERT INTO conversations VALUES(1,NULL,NULL,'{\"id\":1}');"
    "CREATE TABLE tasks(id INTEGER PRIMARY KEY,conversation_id INTEGER NOT NULL,kind TEXT NOT NULL,"
    "status TEXT NOT NULL CHECK (status IN"
    " ('pending','running','waiting','completing','terminal')),"
    "abort_requested INTEGER NOT NULL,background INTEGER NOT NULL,record TEXT NOT NULL) STRICT;"
    "CREATE INDEX tasks_by_status ON tasks(status,id);"
    "INSERT INTO tasks VALUES(9,1,'\"k\"','pending',0,0,'{\"id\":9,\"conversationId\":1,\"kind\":"
    "\"k\",\"version\":1,\"input\":null,\"background\":false,\"abortRequested\":false,\"state\":"
    "{\"status\":\"pending\",\"checkpoint\":{}},\"unknown\":1}');";

#define SLEEPING                                                                                \
    "{\"type\":\"task\",\"value\":{\"id\":9,\"conversationId\":1,\"kind\":\"k\",\"version\":1," \
    "\"input\":null,\"background\":false,\"abortRequested\":false,\"state\":{\"status\":"       \
    "\"sleeping\",\"checkpoint\":{},\"until\":5}}}"

static void version_1_gains_sleeping_with_its_rows_intact(void **state)
{
    TCI_UNUSED(state);
    tc_err err;
    tci_arena a;
    tci_task task;
    start_anew("old.sqlite");
    run_sql("old.sqlite", version_1);
    const tci_store_options reading = {.is_read_only = true};
    must_close(must_open_with("old.sqlite", &reading));
    assert_sql("old.sqlite", "SELECT version FROM durable_schema", "1");
    tci_store *store = must_open("old.sqlite");
    tci_arena_init(&a, 0);
    assert_int_equal(tci_store_task(store, 9, &a, &task, &err), 0);
    assert_int_equal(task.id, 9);
    assert_true(tci_str_ends(task.json, TC_STR(",\"unknown\":1}")));
    assert_int_equal(must_commit(store, "[" SLEEPING "]"), 5);
    tci_arena_done(&a);
    must_close(store);
    assert_sql("old.sqlite", "SELECT version FROM durable_schema", "2");
    assert_sql("old.sqlite", "SELECT status FROM tasks", "sleeping");
    assert_sql("old.sqlite",
               "SELECT count(*) FROM sqlite_schema WHERE type='index' AND name LIKE 'tasks_by_%'",
               "5");
}

static void a_migration_that_fails_changes_nothing(void **state)
{
    TCI_UNUSED(state);
    tc_err err;
    tci_store *store = NULL;
    start_anew("old.sqlite");
    run_sql("old.sqlite", version_1);
    run_sql("old.sqlite", "CREATE TABLE tasks_by_background(x)"); /* a name it wants for itself */
    assert_true(tci_store_open(TC_STR("old.sqlite"), NULL, &store, &err) < 0);
    assert_sql("old.sqlite", "SELECT version FROM durable_schema", "1");
    assert_sql("old.sqlite", "SELECT status FROM tasks", "pending");
    assert_sql("old.sqlite", "SELECT count(*) FROM sqlite_schema WHERE name='tasks_v2'", "0");
    run_sql("old.sqlite", "DROP TABLE tasks_by_background");
    must_close(must_open("old.sqlite"));
}

static void a_newer_version_is_left_alone(void **state)
{
    TCI_UNUSED(state);
    tc_err err;
    tci_store *store = NULL;
    start_anew("new.sqlite");
    must_close(must_open("new.sqlite"));
    run_sql("new.sqlite", "UPDATE durable_schema SET version=3");
    assert_int_equal(tci_store_open(TC_STR("new.sqlite"), NULL, &store, &err), TC_E_INCOMPATIBLE);
    assert_non_null(strstr(err.msg, "version 3, which is newer than 2"));
    assert_sql("new.sqlite", "SELECT version FROM durable_schema", "3");
}

static void two_prefixes_are_two_sessions(void **state)
{
    TCI_UNUSED(state);
    start_anew("shared.sqlite");
    const tci_store_options one = {.prefix = TC_STR("one_")}, two = {.prefix = TC_STR("_2")};
    tci_store *store = must_open_with("shared.sqlite", &one);
    (void)must_commit(store, "[" ROOT "]");
    must_close(store);
    const tci_store_options fresh = {.prefix = TC_STR("_2"), .is_fresh = true};
    store = must_open_with("shared.sqlite", &fresh);
    assert_int_equal(must_commit(store, "[" ROOT "]"), 1);
    assert_int_equal(must_commit(store, "[]"), 2);
    must_close(store);
    must_close(must_open_with("shared.sqlite", &two));
    assert_sql("shared.sqlite", "SELECT next_seq FROM one_durable_metadata", "2");
    assert_sql("shared.sqlite", "SELECT next_seq FROM _2durable_metadata", "3");
    assert_sql("shared.sqlite",
               "SELECT count(*) FROM sqlite_schema WHERE name LIKE 'one@_%' ESCAPE '@'", "25");
}

static void bad_prefixes_are_refused_before_opening(void **state)
{
    TCI_UNUSED(state);
    static const char *const bad[] = {"1a", "a-b", "a b", "sqlite_x", "SQLite_", "\xc3\xa4", "a;"};
    for (size_t i = 0; i < TCI_ARRAY_LEN(bad); i++) {
        tc_err err;
        tci_store *store = NULL;
        const tci_store_options options = {.prefix = tci_str(bad[i])};
        start_anew("prefix.sqlite");
        assert_int_equal(tci_store_open(TC_STR("prefix.sqlite"), &options, &store, &err),
                         TC_E_INVALID);
        assert_false(exists("prefix.sqlite"));
    }
}

static void must_exist_and_fresh(void **state)
{
    TCI_UNUSED(state);
    tc_err err;
    tci_store *store = NULL;
    const tci_store_options missing = {.must_exist = true}, fresh = {.is_fresh = true},
                            reading = {.is_read_only = true};
    start_anew("a.sqlite");
    assert_int_equal(tci_store_open(TC_STR("a.sqlite"), &reading, &store, &err), TC_E_NOT_FOUND);
    must_close(must_open_with("a.sqlite", &fresh));
    assert_int_equal(tci_store_open(TC_STR("a.sqlite"), &fresh, &store, &err), TC_E_CONFLICT);
    must_close(must_open_with("a.sqlite", &missing));
    start_anew("b.sqlite");
    run_sql("b.sqlite", "CREATE TABLE somebody_else(x)");
    assert_int_equal(tci_store_open(TC_STR("b.sqlite"), &missing, &store, &err), TC_E_NOT_FOUND);
    assert_int_equal(tci_store_open(TC_STR("b.sqlite"), &reading, &store, &err), TC_E_NOT_FOUND);
    assert_sql("b.sqlite", "SELECT count(*) FROM sqlite_schema", "1");
    must_close(must_open("deep/er/than/that.sqlite")); /* folders are made */
    assert_true(exists("deep/er/than/that.sqlite"));
}

static void reading_only_while_another_writes(void **state)
{
    TCI_UNUSED(state);
    tc_err err;
    tci_arena a;
    tci_conversation c;
    uint64_t seq;
    start_anew("a.sqlite");
    tci_store *owner = must_open("a.sqlite");
    (void)must_commit(owner, "[" ROOT "]");
    const tci_store_options reading = {.is_read_only = true};
    tci_store *reader = must_open_with("a.sqlite", &reading);
    tci_arena_init(&a, 0);
    assert_int_equal(tci_store_conversation(reader, 1, &a, &c, &err), 0);
    assert_int_equal(c.id, 1);
    assert_int_equal(tci_store_conversation(reader, 5, &a, &c, &err), 0);
    assert_int_equal(c.id, 0);
    (void)must_commit(owner, "[{\"type\":\"conversation\",\"value\":{\"id\":5}}]");
    assert_int_equal(tci_store_conversation(reader, 5, &a, &c, &err), 0);
    assert_int_equal(c.id, 5);
    assert_int_equal(script_commit(reader, TC_STR("[]"), TCI_COMMIT_SYNCED, &seq, &err),
                     TC_E_DENIED);
    must_close(reader);
    (void)must_commit(owner, "[]");
    must_close(owner);
    tci_arena_done(&a);
}

/* Whatever is read of a whole document and its entries at once is of one commit. */
static uint64_t look_at_all(tci_store *store, uint64_t *ret_nentries)
{
    enum { PAGE = 500 };
    tc_err err;
    tci_arena a;
    tci_document_state state;
    tci_tree value;
    uint64_t n = 0;
    tci_page page = {.order = TCI_ORDER_ASCENDING, .limit = PAGE};
    tci_arena_init(&a, 0);
    assert_int_equal(tci_store_document(store, 3, 0, &a, &state, &value, &err), 0);
    assert_true(tci_json_as_u64(tci_json_get(&value.root, TC_STR("n")), &n));
    tci_tree_done(&value);
    *ret_nentries = 0;
    do {
        tci_entry *entries;
        size_t count;
        if (tci_store_scan_entries(store, 1, 0, 0, &page, &a, &entries, &count, &page.cursor,
                                   &err) < 0)
            fail_msg("%s", err.msg);
        *ret_nentries += count;
    } while (page.cursor.after != 0);
    tci_arena_done(&a);
    return n;
}

/* Beside readers that stay open, and look between all commits, the log is written back as without them,
 * and neither they nor the owner ever see a page of before. */
static void the_log_stays_small_beside_readers_that_are_never_behind(void **state)
{
    TCI_UNUSED(state);
    enum { COMMITS = 900, PAGES = 80, LOG_MAX = 4 * PAGES * (512 + 24), READERS = 3 };
    static const tci_commit_how hows[] = {TCI_COMMIT_SYNCED, TCI_COMMIT_DEFERRED, TCI_COMMIT_LAZY,
                                          TCI_COMMIT_DEFERRED, TCI_COMMIT_DEFERRED};
    char writes[1024], text[301];
    tc_err err;
    uint64_t seq, given = 0, nentries;
    tci_file_stat st;
    tci_store *readers[READERS];
    start_anew("a.sqlite");
    const tci_store_options options = {.wal_pages = PAGES, .durability = TCI_DURABILITY_NORMAL},
                            reading = {.is_read_only = true};
    tci_store *owner = must_open_with("a.sqlite", &options);
    (void)must_commit(owner, "[" ROOT ",{\"type\":\"document.create\",\"record\":{\"id\":3,"
                             "\"kind\":\"k\",\"scope\":{\"kind\":\"session\"}},\"content\":{"
                             "\"version\":1,\"kind\":\"base\",\"value\":{\"n\":0}}}]");
    for (int i = 0; i < READERS; i++)
        readers[i] = must_open_with("a.sqlite", &reading);
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = 0;
    for (uint64_t n = 1; n <= COMMITS; n++) {
        tci_commit_how how = hows[n % TCI_ARRAY_LEN(hows)];
        (void)snprintf(writes, sizeof writes,
                       "[{\"type\":\"entry\",\"value\":{\"id\":%llu,\"conversationId\":1,\"kind\":"
                       "\"k\",\"data\":\"%s\"}},{\"type\":\"document.change\",\"id\":3,\"content\":"
                       "{\"version\":1,\"kind\":\"base\",\"value\":{\"n\":%llu}}}]",
                       (unsigned long long)n + 9, text, (unsigned long long)n);
        if (script_commit(owner, tci_str(writes), how, &seq, &err) < 0)
            fail_msg("commit %llu: %s", (unsigned long long)n, err.msg);
        given = how == TCI_COMMIT_DEFERRED ? given : n;
        if (n % 7 != 0)
            continue;
        tci_store *reader = readers[n % READERS];
        assert_int_equal(look_at_all(reader, &nentries), given);
        assert_int_equal(nentries, given);
        if (n % 21 != 0)
            continue;
        assert_int_equal(look_at_all(owner, &nentries), n);
        assert_int_equal(nentries, n);
        must_close(reader); /* and another takes its place */
        readers[n % READERS] = must_open_with("a.sqlite", &reading);
        assert_int_equal(tci_file_stat_at(TCI_FILE_CWD, TC_STR("a.sqlite-wal"), true, &st, &err),
                         0);
        assert_in_range(st.size, 0, LOG_MAX);
    }
    must_close(owner);
    for (int i = 0; i < READERS; i++) {
        assert_int_equal(look_at_all(readers[i], &nentries), COMMITS);
        must_close(readers[i]);
    }
}

static void identities_are_stored_as_ascii_json(void **state)
{
    TCI_UNUSED(state);
    start_anew("a.sqlite");
    tci_store *store = must_open("a.sqlite");
    (void)must_commit(
        store,
        "[" ROOT ",{\"type\":\"submission\",\"value\":{\"id\":2,\"conversationId\":1,\"requestId\":"
        "\"\\u00e9\\ud83d\\ude00\\ud800\\u007f/\",\"type\":\"input\",\"status\":\"queued\"}},"
        "{\"type\":\"document.create\",\"record\":{\"id\":3,\"kind\":\"k\xc3\xa9\",\"scope\":{"
        "\"kind\":"
        "\"session\"},\"key\":\"\\udfff\"},\"content\":{\"version\":1,\"kind\":\"base\",\"value\":{"
        "}}}]");
    must_close(store);
    assert_sql("a.sqlite", "SELECT request_id FROM submissions",
               "\"\\u00e9\\ud83d\\ude00\\ud800\\u007f/\"");
    assert_sql("a.sqlite", "SELECT kind||family||key_value||scope_kind||owner_id FROM documents",
               "\"k\\u00e9\"1\"\\udfff\"session0");
    assert_sql(
        "a.sqlite", "SELECT record FROM documents",
        "{\"id\":3,\"kind\":\"k\xc3\xa9\",\"scope\":{\"kind\":\"session\"},\"key\":\"\\udfff\","
        "\"createdAt\":1}");
}

#define BASE(value)                                                                         \
    "[{\"type\":\"document.change\",\"id\":3,\"content\":{\"version\":1,\"kind\":\"base\"," \
    "\"value\":" value "}}]"
#define DELTA                                                                                \
    "[{\"type\":\"document.change\",\"id\":3,\"content\":{\"version\":1,\"kind\":\"delta\"," \
    "\"ops\":[["                                                                             \
    "\"s\",[\"x\"],1]]}}]"

static void only_what_counts_is_kept_of_a_document(void **state)
{
    TCI_UNUSED(state);
    start_anew("a.sqlite");
    tci_store *store = must_open("a.sqlite");
    (void)must_commit(store,
                      "[" ROOT ",{\"type\":\"document.create\",\"record\":{\"id\":3,\"kind\":\"k\","
                      "\"scope\":{\"kind\":\"session\"}},\"content\":{\"version\":1,\"kind\":"
                      "\"base\",\"value\":{}}}]");
    (void)must_commit(store, DELTA);
    (void)must_commit(store, DELTA);
    assert_sql(
        "a.sqlite",
        "SELECT group_concat(x) FROM (SELECT seq||kind x FROM document_revisions ORDER BY seq)",
        "1base,2delta,3delta");
    (void)must_commit(store, BASE("{\"a\":1}"));
    (void)must_commit(store, BASE("{\"a\":2}"));
    assert_sql("a.sqlite", "SELECT group_concat(seq||kind||content) FROM document_revisions",
               "5base{\"a\":2}");
    (void)must_commit(store, DELTA);
    (void)must_commit(store, "[{\"type\":\"document.retire\",\"id\":3}]");
    assert_sql("a.sqlite", "SELECT count(*) FROM document_revisions", "0");
    assert_sql("a.sqlite", "SELECT retired_at||record FROM documents",
               "7{\"id\":3,\"kind\":\"k\",\"scope\":{\"kind\":\"session\"},\"createdAt\":1,"
               "\"retiredAt\":7}");
    must_close(store);
}

/* Storing must not touch a number: bytes in, bytes out, also through a delta and a new base. */
static void case_84_numbers_keep_their_bytes(void **state)
{
    TCI_UNUSED(state);
    tc_err err;
    tci_buf b;
    start_anew("a.sqlite");
    tci_store *store = must_open("a.sqlite");
    (void)must_commit(store,
                      "[" ROOT ",{\"type\":\"document.create\",\"record\":{\"id\":3,\"kind\":\"k\","
                      "\"scope\":{\"kind\":\"session\"}},\"content\":{\"version\":1,\"kind\":"
                      "\"base\",\"value\":{\"n\":[9007199254740993,-0,1e400]}}}]");
    (void)must_commit(store,
                      "[{\"type\":\"document.change\",\"id\":3,\"content\":{\"version\":1,\"kind\":"
                      "\"delta\",\"ops\":[[\"s\",[\"x\"],0.10000000000000000555]]}},{\"type\":"
                      "\"entry\",\"value\":{\"id\":4,\"conversationId\":1,\"kind\":\"k\",\"data\":"
                      "[1.50,1E5,12345678901234567890123]}}]");
    must_close(store);
    store = must_open("a.sqlite");
    tci_buf_init(&b, 1 << 20);
    if (script_dump(store, false, &b, &err) < 0)
        fail_msg("%s", err.msg);
    tci_buf_append_byte(&b, 0);
    assert_non_null(strstr(b.ptr, "[9007199254740993,-0,1e400]"));
    assert_non_null(strstr(b.ptr, "\"x\":0.10000000000000000555"));
    assert_non_null(strstr(b.ptr, "[1.50,1E5,12345678901234567890123]"));
    tci_buf_done(&b);
    must_close(store);
}

/* A turn is some sixteen small commits; what they write decides how long a disk lives. */
static void a_small_commit_writes_few_pages(void **state)
{
    TCI_UNUSED(state);
    enum { STEPS = 50, PAGE = 512 + 24, PAGES_MAX = 7 };
    tc_err err;
    tci_file_stat before, after;
    start_anew("a.sqlite");
    const tci_store_options options = {.wal_pages = 100000};
    tci_store *store = must_open_with("a.sqlite", &options);
    (void)must_commit(store,
                      "[" ROOT ",{\"type\":\"document.create\",\"record\":{\"id\":3,\"kind\":\"k\","
                      "\"scope\":{\"kind\":\"session\"}},\"content\":{\"version\":1,\"kind\":"
                      "\"base\",\"value\":{}}}," SLEEPING "]");
    assert_int_equal(tci_file_stat_at(TCI_FILE_CWD, TC_STR("a.sqlite-wal"), true, &before, &err),
                     0);
    for (int i = 0; i < STEPS; i++)
        (void)must_commit(store,
                          "[{\"type\":\"document.change\",\"id\":3,\"content\":{\"version\":1,"
                          "\"kind\":\"base\",\"value\":{\"step\":true}}}," SLEEPING "]");
    assert_int_equal(tci_file_stat_at(TCI_FILE_CWD, TC_STR("a.sqlite-wal"), true, &after, &err), 0);
    assert_true(after.size > before.size);
    assert_true((after.size - before.size) / STEPS <= (uint64_t)PAGES_MAX * PAGE);
    must_close(store);
}

static void refusals_leave_the_session_usable(void **state)
{
    TCI_UNUSED(state);
    static const struct {
        const char *writes, *words;
    } refused[] = {
        {"[" ROOT "]", "ID 1 already belongs to conversation"},
        {"[{\"type\":\"entry\",\"value\":{\"id\":5,\"conversationId\":1,\"kind\":\"k\"}},{\"type\":"
         "\"entry\","
         "\"value\":{\"id\":5,\"conversationId\":1,\"kind\":\"k\"}}]",
         "ID 5 is written more than once"},
        {"[{\"type\":\"entry\",\"value\":{\"id\":9,\"conversationId\":1,\"kind\":\"k\"}}," SLEEPING
         "]",
         "ID 9 is written as two record types"},
        {"[{\"type\":\"document.retire\",\"id\":7}]", "Unknown document: 7"},
    };
    start_anew("a.sqlite");
    tci_store *store = must_open("a.sqlite");
    (void)must_commit(store, "[" ROOT "]");
    for (size_t i = 0; i < TCI_ARRAY_LEN(refused); i++) {
        tc_err err;
        uint64_t seq;
        assert_int_equal(
            script_commit(store, tci_str(refused[i].writes), TCI_COMMIT_SYNCED, &seq, &err),
            TC_E_CONFLICT);
        assert_non_null(strstr(err.msg, refused[i].words));
    }
    assert_int_equal(must_commit(store, "[]"), 2);
    must_close(store);
}

static void case_74_strange_and_giant_records(void **state)
{
    TCI_UNUSED(state);
    enum { GIANT = 2 * 1024 * 1024 };
    tc_err err;
    tci_buf b, out;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_buf_init(&out, TCI_BUF_MAX);
    tci_buf_append_str(&b, TC_STR("[" ROOT
                                  ",{\"type\":\"entry\",\"value\":{\"id\":2,\"conversationId\":1,"
                                  "\"kind\":\"k\",\"data\":\"\xe2\x80\xa8\xc2\x85\\ud800\\u0000"));
    for (int i = 0; i < GIANT; i++)
        tci_buf_append_byte(&b, (char)('a' + i % 26));
    tci_buf_append_str(&b, TC_STR("\"}}]"));
    tci_buf_append_byte(&b, 0);
    start_anew("a.sqlite");
    tci_store *store = must_open("a.sqlite");
    (void)must_commit(store, b.ptr);
    must_close(store);
    store = must_open("a.sqlite");
    assert_int_equal(script_dump(store, false, &out, &err), 0);
    must_close(store);
    assert_true(out.len > GIANT);
    assert_true(tci_str_find(tci_buf_str(&out), TC_STR("\"\xe2\x80\xa8\xc2\x85\\ud800\\u0000"
                                                       "abc")) != out.len);
    tci_buf_done(&b);
    tci_buf_done(&out);
}

static void copy_file(const char *from, const char *to)
{
    tc_err err;
    char *bytes;
    size_t len;
    tci_file f;
    if (tci_file_read_whole(TCI_FILE_CWD, tci_str(from), 1 << 28, &bytes, &len, &err) < 0 ||
        tci_file_openat(TCI_FILE_CWD, tci_str(to), TCI_OPEN_WRITE | TCI_OPEN_CREATE, 0600, &f,
                        &err) < 0 ||
        tci_file_write_all(f, bytes, len, &err) < 0)
        fail_msg("%s", err.msg);
    tci_file_close(&f);
    tci_free(bytes);
}

/* Pages then go to the log before the commit, are read back and written again. What is in the files when
 * the commit returns must be all of it, and nothing of a batch that was refused at its end. */
static void a_batch_larger_than_the_cache(void **state)
{
    TCI_UNUSED(state);
    enum { MANY = 12000, MORE = 500 };
    tc_err err;
    uint64_t seq;
    tci_check_report report;
    tci_buf b;
    tci_buf_init(&b, TCI_BUF_MAX);
    start_anew("a.sqlite");
    start_anew("image.sqlite");
    const tci_store_options options = {.wal_pages = 1000000};
    tci_store *store = must_open_with("a.sqlite", &options);
    for (int round = 0; round < 3; round++) { /* the second one is refused */
        tci_buf_clear(&b);
        tci_buf_append_str(&b, round == 0 ? TC_STR("[" ROOT) : TC_STR("[" SLEEPING));
        int first = 10 + round * MANY, count = round == 2 ? MORE : MANY;
        for (int i = 0; i < count; i++)
            tci_buf_printf(
                &b,
                ",{\"type\":\"entry\",\"value\":{\"id\":%d,\"conversationId\":1,\"kind\":"
                "\"k\",\"data\":\"%0200d\"}}",
                first + (i * 7919) % count, i);
        if (round == 1)
            tci_buf_append_str(
                &b, TC_STR(",{\"type\":\"document.copy\",\"record\":{\"id\":5,\"kind\":"
                           "\"k\",\"scope\":{\"kind\":\"session\"}},\"source\":{\"id\":6,"
                           "\"at\":\"current\"}}"));
        tci_buf_append_str(&b, TC_STR("]"));
        int rc = script_commit(store, tci_buf_str(&b), TCI_COMMIT_SYNCED, &seq, &err);
        assert_int_equal(rc, round == 1 ? TC_E_CONFLICT : 0);
    }
    copy_file("a.sqlite", "image.sqlite");
    copy_file("a.sqlite-wal", "image.sqlite-wal");
    must_close(store);
    must_close(must_open("image.sqlite"));
    assert_int_equal(tci_store_check(TC_STR("image.sqlite"), NULL, NULL, &report, &err), 0);
    assert_int_equal(report.ndamaged, 0);
    assert_int_equal(report.nrecords, 1 + MANY + MORE + 1);
    assert_int_equal(report.ncommits, 2);
    tci_buf_done(&b);
}

/* Open, write, read, close, with the n-th allocation and all after it failing. */
static tc_code use_without_memory(size_t n)
{
    tc_err err = {.code = TC_OK};
    tci_store *store = NULL;
    tci_buf b;
    uint64_t seq;
    tci_buf_init(&b, 1 << 20);
    tci_mem_fail_at(n);
    int rc = tci_store_open(TC_STR("memory.sqlite"), NULL, &store, &err);
    if (rc == 0)
        rc = script_commit(store,
                           TC_STR("[" ROOT ",{\"type\":\"document.create\",\"record\":{\"id\":3,"
                                  "\"kind\":\"k\",\"scope\":{\"kind\":\"session\"}},\"content\":{"
                                  "\"version\":1,\"kind\":\"base\",\"value\":{}}}," SLEEPING "]"),
                           TCI_COMMIT_SYNCED, &seq, &err);
    if (rc == 0)
        rc = script_commit(store, TC_STR(DELTA), TCI_COMMIT_SYNCED, &seq, &err);
    if (rc == 0)
        rc = script_dump(store, true, &b, &err);
    tci_mem_fail_at(0);
    tc_err ignored;
    assert_int_equal(tci_store_close(store, &ignored), 0);
    tci_buf_done(&b);
    return rc < 0 ? err.code : TC_OK;
}

static void every_allocation_may_fail(void **state)
{
    TCI_UNUSED(state);
    size_t n = 0;
    for (tc_code code = TC_E_NO_MEMORY; code != TC_OK;) {
        start_anew("memory.sqlite");
        code = use_without_memory(++n);
        if (code != TC_OK && code != TC_E_NO_MEMORY)
            fail_msg("allocation %zu: %s", n, tc_code_name(code));
        must_close(must_open("memory.sqlite"));
    }
    assert_true(n > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_and_sequence_numbers_go_on_after_opening_again),
        cmocka_unit_test(closing_leaves_one_file),
        cmocka_unit_test(version_1_gains_sleeping_with_its_rows_intact),
        cmocka_unit_test(a_migration_that_fails_changes_nothing),
        cmocka_unit_test(a_newer_version_is_left_alone),
        cmocka_unit_test(two_prefixes_are_two_sessions),
        cmocka_unit_test(bad_prefixes_are_refused_before_opening),
        cmocka_unit_test(must_exist_and_fresh),
        cmocka_unit_test(reading_only_while_another_writes),
        cmocka_unit_test(the_log_stays_small_beside_readers_that_are_never_behind),
        cmocka_unit_test(identities_are_stored_as_ascii_json),
        cmocka_unit_test(only_what_counts_is_kept_of_a_document),
        cmocka_unit_test(case_84_numbers_keep_their_bytes),
        cmocka_unit_test(a_small_commit_writes_few_pages),
        cmocka_unit_test(refusals_leave_the_session_usable),
        cmocka_unit_test(case_74_strange_and_giant_records),
        cmocka_unit_test(a_batch_larger_than_the_cache),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
