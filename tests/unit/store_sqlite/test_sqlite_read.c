/* SPDX-License-Identifier: Apache-2.0
 *
 * Long tables of an SQLite session, which are read many pages at a time: with pages of every size, while
 * commits go on and the log is written back, and on a disk that does not read. */
#include "store_script.h"

#include "plat/file.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <sqlite3.h>

#include <cmocka.h>

enum { FIRST = 10, ENTRIES = 4000, PAGE = 500, PAD = 600 };

/* ---- a layer under ours that counts what is read, and can refuse to ---- */

static int (*real_read)(sqlite3_file *f, void *bytes, int len, sqlite3_int64 offset);
static sqlite3_io_methods methods;
static sqlite3_vfs layer, *real;
static int largest = INT32_MAX; /* what is longer cannot be read; neither can what lies behind: */
static sqlite3_int64 readable = INT64_MAX;
static unsigned nreads, nrefused;

static int layer_read(sqlite3_file *f, void *bytes, int len, sqlite3_int64 offset)
{
    nreads++;
    if (len > largest || offset > readable) {
        nrefused++;
        errno = EIO;
        return SQLITE_IOERR_READ;
    }
    return real_read(f, bytes, len, offset);
}

static int layer_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *f, int flags,
                      int *ret_flags)
{
    TCI_UNUSED(vfs);
    int rc = real->xOpen(real, name, f, flags, ret_flags);
    if (f->pMethods != NULL && (flags & SQLITE_OPEN_MAIN_DB) != 0) {
        methods = *f->pMethods;
        real_read = methods.xRead;
        methods.xRead = layer_read;
        f->pMethods = &methods;
    }
    return rc;
}

static int install(void **state)
{
    TCI_UNUSED(state);
    real = sqlite3_vfs_find(NULL);
    layer = *real;
    layer.zName = "counting";
    layer.pNext = NULL;
    layer.xOpen = layer_open;
    return sqlite3_vfs_register(&layer, 1);
}

static int uninstall(void **state)
{
    TCI_UNUSED(state);
    return sqlite3_vfs_unregister(&layer);
}

/* ---- a session ---- */

static void start_anew(void)
{
    static const char *const names[] = {"a.sqlite", "a.sqlite-wal", "a.sqlite-shm",
                                        "a.sqlite-owner.lock"};
    for (size_t i = 0; i < TCI_ARRAY_LEN(names); i++)
        tci_file_discard(TCI_FILE_CWD, tci_str(names[i]));
    largest = INT32_MAX;
    readable = INT64_MAX;
}

static tci_store *must_open(const tci_store_options *options)
{
    tc_err err;
    tci_store *store = NULL;
    if (tci_store_open(TC_STR("a.sqlite"), options, &store, &err) < 0)
        fail_msg("open: %s", err.msg);
    return store;
}

static void must_close(tci_store *store)
{
    tc_err err;
    if (tci_store_close(store, &err) < 0)
        fail_msg("close: %s", err.msg);
}

static void commit(tci_store *store, tci_buf *b, tci_commit_how how)
{
    tc_err err;
    uint64_t seq;
    assert_true(tci_buf_ok(b));
    if (script_commit(store, tci_buf_str(b), how, &seq, &err) < 0)
        fail_msg("commit: %s", err.msg);
}

static void put_entry(tci_buf *b, uint64_t id)
{
    tci_buf_printf(b, "{\"id\":%llu,\"conversationId\":1,\"kind\":\"k\",\"data\":\"%0*llu\"}",
                   (unsigned long long)id, PAD + (int)(id % 900), (unsigned long long)id * 7919);
}

/* Entries have every third id, tasks lie between them. */
static uint64_t id_of(uint64_t i)
{
    return FIRST + 3 * i;
}

static void add(tci_store *store, tci_buf *b, uint64_t i, tci_commit_how how)
{
    tci_buf_clear(b);
    tci_buf_append_str(b, TC_STR("[{\"type\":\"entry\",\"value\":"));
    put_entry(b, id_of(i));
    tci_buf_append_str(b, TC_STR("}]"));
    commit(store, b, how);
}

static void make_session(tci_buf *b)
{
    start_anew();
    tci_store *store = must_open(NULL);
    tci_buf_clear(b);
    tci_buf_append_str(b, TC_STR("[{\"type\":\"conversation\",\"value\":{\"id\":1}}"));
    for (uint64_t i = 0; i < ENTRIES; i++) {
        tci_buf_append_str(b, TC_STR(",{\"type\":\"entry\",\"value\":"));
        put_entry(b, id_of(i));
        tci_buf_printf(b,
                       "},{\"type\":\"task\",\"value\":{\"id\":%llu,\"conversationId\":1,\"kind\":"
                       "\"k\",\"version\":1,\"input\":\"%0200d\",\"background\":false,"
                       "\"abortRequested\":false,\"state\":{\"status\":\"terminal\",\"outcome\":{"
                       "\"status\":\"completed\",\"result\":{}}}}}",
                       (unsigned long long)id_of(i) + 1, (int)i);
        if (i % 50 == 49) {
            tci_buf_append_byte(b, ']');
            commit(store, b, TCI_COMMIT_SYNCED);
            tci_buf_clear(b);
            tci_buf_append_str(b, TC_STR("[{\"type\":\"conversation\",\"value\":{\"id\":"));
            tci_buf_printf(b, "%llu}}", (unsigned long long)id_of(i) + 2);
        }
    }
    must_close(store);
}

static void sql(const char *text)
{
    sqlite3 *db = NULL;
    char *message = NULL;
    assert_int_equal(sqlite3_open("a.sqlite", &db), SQLITE_OK);
    if (sqlite3_exec(db, text, NULL, NULL, &message) != SQLITE_OK)
        fail_msg("%s: %s", text, message);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

typedef struct reading {
    tci_store *store;
    tci_buf expected;
    tci_arena a, texts;
    tci_page page;
    uint64_t next, n; /* the number of the entry that must come, and how many have come */
    const char *first;
} reading;

static void begin(reading *r, tci_store *store, tci_order order, uint64_t from)
{
    *r = (reading){.store = store, .page = {.order = order, .limit = PAGE}, .next = from};
    tci_buf_init(&r->expected, TCI_BUF_MAX);
    tci_arena_init(&r->a, 0);
    tci_arena_init(&r->texts, 0);
}

/* One page; true when there is another one. */
static bool go_on(reading *r, tc_err *err)
{
    tci_entry *entries;
    size_t count;
    tci_arena_clear(&r->a);
    if (tci_store_read_entries(r->store, 1, 0, 0, &r->page, &r->a, &r->texts, &entries, &count,
                               &r->page.cursor, err) < 0)
        return false;
    for (size_t i = 0; i < count; i++) {
        tci_buf_clear(&r->expected);
        put_entry(&r->expected, id_of(r->next));
        assert_int_equal(entries[i].id, id_of(r->next));
        if (!tci_str_eq(entries[i].json, tci_buf_str(&r->expected)))
            fail_msg("entry %llu is %.*s", (unsigned long long)entries[i].id,
                     TC_STR_ARG(entries[i].json));
        if (r->n++ == 0)
            r->first = entries[i].json.ptr;
        r->next += r->page.order == TCI_ORDER_ASCENDING ? 1 : UINT64_MAX;
    }
    err->code = TC_OK;
    return r->page.cursor.after != 0;
}

static void end(reading *r)
{
    tci_buf_done(&r->expected);
    tci_arena_done(&r->a);
    tci_arena_done(&r->texts);
}

static void read_all(tci_store *store, tci_order order, uint64_t n)
{
    reading r;
    tc_err err;
    char first[16];
    begin(&r, store, order, order == TCI_ORDER_ASCENDING ? 0 : n - 1);
    while (go_on(&r, &err))
        continue;
    if (err.code != TC_OK)
        fail_msg("%s", err.msg);
    assert_int_equal(r.n, n);
    /* The texts outlive the pages they came with. */
    (void)snprintf(first, sizeof first, "{\"id\":%llu,",
                   (unsigned long long)id_of(order == TCI_ORDER_ASCENDING ? 0 : n - 1));
    assert_memory_equal(r.first, first, strlen(first));
    end(&r);
}

/* ---- tests ---- */

static void pages_of_every_size(void **state)
{
    TCI_UNUSED(state);
    static const char *const sizes[] = {
        "PRAGMA journal_mode=DELETE;PRAGMA page_size=512;VACUUM",
        "PRAGMA journal_mode=DELETE;PRAGMA page_size=1024;VACUUM",
        "PRAGMA journal_mode=DELETE;PRAGMA page_size=4096;VACUUM",
        "PRAGMA journal_mode=DELETE;PRAGMA page_size=65536;VACUUM",
    };
    tci_buf b;
    tci_buf_init(&b, TCI_BUF_MAX);
    make_session(&b);
    for (size_t i = 0; i <= TCI_ARRAY_LEN(sizes); i++) { /* at first as we wrote it */
        if (i > 0)
            sql(sizes[i - 1]);
        tci_store *store = must_open(NULL);
        nreads = 0;
        read_all(store, TCI_ORDER_ASCENDING, ENTRIES);
        assert_in_range(nreads, 1, 1000);
        read_all(store, TCI_ORDER_DESCENDING, ENTRIES);
        must_close(store);
    }
    tci_buf_done(&b);
}

/* What is read ahead must not outlive the moment: commits change the pages and the log goes into the file,
 * through us and through somebody else, between the pages of one reader and of another. */
static void commits_between_the_pages(void **state)
{
    TCI_UNUSED(state);
    static const tci_commit_how hows[] = {TCI_COMMIT_SYNCED, TCI_COMMIT_DEFERRED, TCI_COMMIT_LAZY};
    static const tci_store_options few = {.wal_pages = 20};
    tci_buf b;
    tc_err err;
    tci_buf_init(&b, TCI_BUF_MAX);
    make_session(&b);
    tci_store *store = must_open(&few);
    uint64_t n = ENTRIES;
    for (int round = 0; round < 6; round++) {
        reading up, down;
        bool is_up = true, is_down = true;
        begin(&up, store, TCI_ORDER_ASCENDING, 0);
        begin(&down, store, TCI_ORDER_DESCENDING, n - 1);
        uint64_t at_first = n;
        while (is_up || is_down) {
            is_down = is_down && go_on(&down, &err);
            assert_int_equal(err.code, TC_OK);
            for (int i = 0; i <= round; i++, n++)
                add(store, &b, n, hows[n % TCI_ARRAY_LEN(hows)]);
            is_up = is_up && go_on(&up, &err);
            assert_int_equal(err.code, TC_OK);
            if (round % 2 == 1)
                sql("PRAGMA wal_checkpoint(PASSIVE)");
        }
        assert_int_equal(down.n, at_first);
        assert_in_range(up.n, at_first, n);
        end(&up);
        end(&down);
    }
    read_all(store, TCI_ORDER_ASCENDING, n);
    must_close(store);
    store = must_open(NULL);
    read_all(store, TCI_ORDER_DESCENDING, n);
    must_close(store);
    tci_buf_done(&b);
}

static void what_cannot_be_read_at_once_is_read_alone(void **state)
{
    TCI_UNUSED(state);
    tci_buf b;
    tci_buf_init(&b, TCI_BUF_MAX);
    make_session(&b);
    tci_store *store = must_open(NULL);
    largest = 8 * 1024;
    nrefused = 0;
    read_all(store, TCI_ORDER_ASCENDING, ENTRIES);
    assert_true(nrefused > 0);
    must_close(store);
    tci_buf_done(&b);
}

static void a_place_that_cannot_be_read_is_an_error(void **state)
{
    TCI_UNUSED(state);
    tci_buf b;
    tc_err err;
    reading r;
    tci_buf_init(&b, TCI_BUF_MAX);
    make_session(&b);
    for (int is_cut = 0; is_cut < 2; is_cut++) {
        tci_file f;
        tci_store *store = must_open(NULL);
        begin(&r, store, TCI_ORDER_ASCENDING, 0);
        assert_true(go_on(&r, &err));
        if (is_cut == 0) {
            readable = 2 * 1024 * 1024;
        } else { /* somebody shortens the file under us */
            assert_int_equal(
                tci_file_openat(TCI_FILE_CWD, TC_STR("a.sqlite"), TCI_OPEN_WRITE, 0600, &f, &err),
                0);
            assert_int_equal(tci_file_truncate(f, 2 * 1024 * 1024, &err), 0);
            tci_file_close(&f);
        }
        while (go_on(&r, &err))
            continue;
        if (err.code != TC_E_IO && err.code != TC_E_PARSE)
            fail_msg("%d: %s", is_cut, err.code != TC_OK ? err.msg : "all was read");
        assert_in_range(r.n, PAGE, ENTRIES - 1);
        end(&r);
        (void)tci_store_close(store, &err); /* of a damaged session */
        readable = INT64_MAX;
    }
    tci_buf_done(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pages_of_every_size),
        cmocka_unit_test(commits_between_the_pages),
        cmocka_unit_test(what_cannot_be_read_at_once_is_read_alone),
        cmocka_unit_test(a_place_that_cannot_be_read_is_an_error),
    };
    return cmocka_run_group_tests(tests, install, uninstall);
}
