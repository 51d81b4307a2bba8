/* SPDX-License-Identifier: Apache-2.0
 *
 * The SQLite backend: opening, closing, and the table of calls. The owner lock is the caller's
 * (store/open.c). Thread: the session's line. Invariant: after a failure that may have left the file in
 * doubt nothing is read or written any more; opening again shows what is there. */
#include "store/sqlite/sqlite_int.h"

#include "store/lock.h"

static tci_sqlite *of(tci_store *store)
{
    return TCI_CONTAINER(store, tci_sqlite, store);
}

void tci_sqlite_release(tci_sqlite *s)
{
    tci_sqlite_finalize(s);
    (void)sqlite3_close(s->db); /* every statement is gone: cannot fail */
    tci_sqlite_vfs_free(s->vfs);
    tci_buf_done(&s->kind);
    tci_buf_done(&s->key);
    tci_arena_done(&s->scratch);
    tci_arena_done(&s->batch);
    tci_id_map_done(&s->seen);
    tci_id_map_done(&s->touched);
    tci_free(s);
}

/* The log as it is. */
static int sync_log(tci_sqlite *s, tc_err *err)
{
    sqlite3_file *log = NULL;
    if (sqlite3_file_control(s->db, "main", SQLITE_FCNTL_JOURNAL_POINTER, &log) != SQLITE_OK ||
        log == NULL || log->pMethods == NULL)
        return 0; /* there is none */
    int got = log->pMethods->xSync(log, SQLITE_SYNC_NORMAL);
    return got != SQLITE_OK ? tci_sqlite_fail(s->db, got, "sync the log of the session", err) : 0;
}

static int close_session(tci_store *store, tc_err *err)
{
    tci_sqlite *s = of(store);
    int rc = 0;
    if (!s->is_failed)
        rc = tci_sqlite_flush(s, err);
    if (rc == 0 && !s->is_read_only && !s->is_failed) {
        /* Into the file with it, so that the log is gone. A reader elsewhere may keep us from that: then
         * the log stays, and what is in it is as safe there once it is synced. */
        int got = sqlite3_wal_checkpoint_v2(s->db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
        if ((got & 0xff) == SQLITE_BUSY || (got & 0xff) == SQLITE_LOCKED)
            rc = s->syncs_commits ? sync_log(s, err) : 0;
        else if (got != SQLITE_OK)
            rc = tci_sqlite_fail(s->db, got, "write the log back into the session file", err);
    }
    tci_sqlite_release(s);
    return rc;
}

/* ---- refusing after a failure ---- */

static int check_usable(const tci_sqlite *s, tc_err *err)
{
    if (!s->is_failed)
        return 0;
    (void)tc_err_set(err, TC_E_NOT_READY, "storage is poisoned by an earlier failure");
    (void)tc_err_hint(err, "close the session and open it again");
    return err->code;
}

static int commit(tci_store *store, const tci_write *writes, size_t nwrites, tci_commit_how how,
                  uint64_t *ret_seq, tc_err *err)
{
    int rc = check_usable(of(store), err);
    return rc < 0 ? rc : tci_sqlite_commit(store, writes, nwrites, how, ret_seq, err);
}

static int mint(tci_store *store, uint64_t *ret_id, tc_err *err)
{
    int rc = check_usable(of(store), err);
    return rc < 0 ? rc : tci_sqlite_mint(store, ret_id, err);
}

static int conversation(tci_store *store, uint64_t id, tci_arena *a, tci_conversation *ret,
                        tc_err *err)
{
    int rc = check_usable(of(store), err);
    return rc < 0 ? rc : tci_sqlite_conversation(store, id, a, ret, err);
}

static int task(tci_store *store, uint64_t id, tci_arena *a, tci_task *ret, tc_err *err)
{
    int rc = check_usable(of(store), err);
    return rc < 0 ? rc : tci_sqlite_task(store, id, a, ret, err);
}

static int submission(tci_store *store, uint64_t id, tci_arena *a, tci_submission *ret, tc_err *err)
{
    int rc = check_usable(of(store), err);
    return rc < 0 ? rc : tci_sqlite_submission(store, id, a, ret, err);
}

static int entry(tci_store *store, uint64_t conversation_id, uint64_t id, tci_arena *a,
                 tci_entry *ret, uint64_t *ret_seq, tc_err *err)
{
    int rc = check_usable(of(store), err);
    return rc < 0 ? rc : tci_sqlite_entry(store, conversation_id, id, a, ret, ret_seq, err);
}

static int head_marker(tci_store *store, uint64_t conversation_id, uint64_t cutoff, tci_arena *a,
                       tci_entry *ret, tc_err *err)
{
    int rc = check_usable(of(store), err);
    return rc < 0 ? rc : tci_sqlite_head_marker(store, conversation_id, cutoff, a, ret, err);
}

static int submission_by_request(tci_store *store, uint64_t conversation_id, tc_str request_id,
                                 tci_arena *a, tci_submission *ret, tc_err *err)
{
    int rc = check_usable(of(store), err);
    return rc < 0
               ? rc
               : tci_sqlite_submission_by_request(store, conversation_id, request_id, a, ret, err);
}

static int find_document(tci_store *store, const tci_address *address, uint64_t at, tci_arena *a,
                         tci_document *ret, tc_err *err)
{
    int rc = check_usable(of(store), err);
    return rc < 0 ? rc : tci_sqlite_find_document(store, address, at, a, ret, err);
}

static int document(tci_store *store, uint64_t id, uint64_t at, tci_arena *a,
                    tci_document_state *ret, tci_tree *ret_value, tc_err *err)
{
    int rc = check_usable(of(store), err);
    return rc < 0 ? rc : tci_sqlite_document(store, id, at, a, ret, ret_value, err);
}

static int scan_conversations(tci_store *store, uint64_t owner_conversation_id,
                              uint64_t owner_task_id, const tci_page *page, tci_arena *a,
                              tci_conversation **ret, size_t *ret_count, tci_cursor *ret_next,
                              tc_err *err)
{
    int rc = check_usable(of(store), err);
    return rc < 0 ? rc
                  : tci_sqlite_scan_conversations(store, owner_conversation_id, owner_task_id, page,
                                                  a, ret, ret_count, ret_next, err);
}

static int scan_entries(tci_store *store, uint64_t conversation_id, uint64_t min, uint64_t max,
                        const tci_page *page, tci_arena *a, tci_arena *texts, tci_entry **ret,
                        size_t *ret_count, tci_cursor *ret_next, tc_err *err)
{
    int rc = check_usable(of(store), err);
    return rc < 0 ? rc
                  : tci_sqlite_scan_entries(store, conversation_id, min, max, page, a, texts, ret,
                                            ret_count, ret_next, err);
}

static int scan_tasks(tci_store *store, const tci_task_query *query, const tci_page *page,
                      tci_arena *a, tci_task **ret, size_t *ret_count, tci_cursor *ret_next,
                      tc_err *err)
{
    int rc = check_usable(of(store), err);
    return rc < 0 ? rc
                  : tci_sqlite_scan_tasks(store, query, page, a, ret, ret_count, ret_next, err);
}

static int scan_submissions(tci_store *store, uint64_t conversation_id, int status,
                            const tci_page *page, tci_arena *a, tci_submission **ret,
                            size_t *ret_count, tci_cursor *ret_next, tc_err *err)
{
    int rc = check_usable(of(store), err);
    return rc < 0 ? rc
                  : tci_sqlite_scan_submissions(store, conversation_id, status, page, a, ret,
                                                ret_count, ret_next, err);
}

static int scan_documents(tci_store *store, int scope, uint64_t owner_id, tc_str kind, uint64_t at,
                          const tci_page *page, tci_arena *a, tci_document **ret, size_t *ret_count,
                          tci_cursor *ret_next, tc_err *err)
{
    int rc = check_usable(of(store), err);
    return rc < 0 ? rc
                  : tci_sqlite_scan_documents(store, scope, owner_id, kind, at, page, a, ret,
                                              ret_count, ret_next, err);
}

static const tci_store_ops ops = {
    .close = close_session,
    .commit = commit,
    .mint = mint,
    .conversation = conversation,
    .task = task,
    .submission = submission,
    .entry = entry,
    .head_marker = head_marker,
    .submission_by_request = submission_by_request,
    .find_document = find_document,
    .document = document,
    .scan_conversations = scan_conversations,
    .scan_entries = scan_entries,
    .scan_tasks = scan_tasks,
    .scan_submissions = scan_submissions,
    .scan_documents = scan_documents,
};

/* ---- opening ---- */

tci_sqlite *tci_sqlite_new(const tci_store_options *options)
{
    tci_sqlite *s = tci_new(tci_sqlite);
    if (s == NULL)
        return NULL;
    s->store.ops = &ops;
    s->is_read_only = options->is_read_only;
    if (options->prefix.len != 0)
        memcpy(s->prefix, options->prefix.ptr, options->prefix.len);
    tci_buf_init(&s->kind, TCI_BUF_MAX);
    tci_buf_init(&s->key, TCI_BUF_MAX);
    tci_arena_init(&s->scratch, TCI_SQLITE_ARENA_MAX);
    tci_arena_init(&s->batch, TCI_SQLITE_ARENA_MAX);
    return s;
}

int tci_store_open_sqlite(tc_str path, const tci_store_options *options, tci_store **ret_store,
                          tc_err *err)
{
    static const tci_store_options defaults = {.durability = TCI_DURABILITY_FULL};
    if (options == NULL)
        options = &defaults;
    int rc = tci_sqlite_check_prefix(options->prefix, err);
    if (rc < 0)
        return rc;
    tci_sqlite *s = tci_sqlite_new(options);
    if (s == NULL)
        return tci_err_no_memory(err);
    if (!options->is_read_only && !options->must_exist)
        rc = tci_store_make_folders(path, false, err);
    if (rc == 0)
        rc = tci_sqlite_connect(s, path, options, err);
    if (rc == 0)
        rc = tci_sqlite_migrate(s, options, err);
    if (rc < 0) {
        tci_sqlite_release(s);
        return tc_err_wrap(err, "session '%.*s'", TC_STR_ARG(path));
    }
    *ret_store = &s->store;
    return 0;
}
