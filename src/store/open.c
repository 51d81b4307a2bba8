/* SPDX-License-Identifier: Apache-2.0
 *
 * Which backend a path means, and the owner lock around it. What a session consists of is the
 * backends' business. Thread: the caller's. Invariant: nothing of a session is written before
 * its lock is held, except the folders the lock file lies in. */
#include "store/lock.h"
#include "store/store_int.h"

#include "plat/file.h"

static const tci_store_options defaults = {.durability = TCI_DURABILITY_FULL};

/* What is there must be of the right kind: opening a pipe would wait for its other end. must_exist
 * false: nothing being there is fine. */
static int check_path(tc_str path, bool must_exist, tc_err *err)
{
    tci_file_stat st;
    tc_err missing;
    bool is_sqlite = tci_store_path_is_sqlite(path);
    if (path.len == 0)
        return tc_err_set(err, TC_E_INVALID, "the path of the session is empty");
    if (tci_file_stat_at(TCI_FILE_CWD, path, true, &st, &missing) == 0) {
        tci_file_kind want = is_sqlite ? TCI_FILE_KIND_REGULAR : TCI_FILE_KIND_DIRECTORY;
        if (st.kind == want)
            return 0;
        (void)tc_err_set(err, TC_E_INVALID, "'%.*s' is no %s", TC_STR_ARG(path),
                         is_sqlite ? "file" : "folder");
        return tc_err_hint(err, "a session is a file named *.sqlite, or a folder");
    }
    if (!must_exist)
        return 0;
    int rc = tc_err_set(err, TC_E_NOT_FOUND, "there is no session at '%.*s'", TC_STR_ARG(path));
    return tc_err_hint(err, "check the path, or start a new session there"), rc;
}

static int open_backend(tc_str path, const tci_store_options *options, tci_store **ret_store,
                        tc_err *err)
{
    return tci_store_path_is_sqlite(path) ? tci_store_open_sqlite(path, options, ret_store, err)
                                          : tci_store_open_jsonl(path, options, ret_store, err);
}

/* Before a session is looked at: has a power cut left it so that its owner would have to put something back?
 * Then that is done, as an owner. */
static int settle(tc_str path, bool has_lock, tc_err *err)
{
    tci_store_options options = {.durability = TCI_DURABILITY_FULL, .without_lock = has_lock};
    tci_store *store = NULL;
    bool is_needed = false;
    tc_err ignored;
    if (tci_store_path_is_sqlite(path) || tci_jsonl_is_cut(path, &is_needed, &ignored) < 0 ||
        !is_needed)
        return 0; /* whoever looks is told what is wrong with it */
    int rc = tci_store_open(path, &options, &store, err);
    if (rc == 0)
        rc = tci_store_close(store, err);
    if (rc == 0 || rc == TC_E_BUSY || rc == TC_E_PARSE) /* its owner sees to it; other damage */
        return 0;
    rc = tc_err_wrap(err, "putting back what a power cut has taken from '%.*s'", TC_STR_ARG(path));
    return tc_err_hint(err, "copy the session to where it can be written to, with all its files"),
           rc;
}

int tci_store_open(tc_str path, const tci_store_options *options, tci_store **ret_store,
                   tc_err *err)
{
    if (options == NULL)
        options = &defaults;
    if (tci_str_eq(path, TC_STR(":memory:")))
        return tci_store_open_memory(ret_store, err);
    int rc = check_path(path, options->must_exist || options->is_read_only, err);
    if (rc < 0)
        return rc;
    if (options->is_read_only)
        rc = settle(path, false, err);
    if (rc < 0)
        return rc;
    if (options->is_read_only || options->without_lock)
        return open_backend(path, options, ret_store, err);

    tci_lock *lock = NULL;
    tci_store *store = NULL;
    rc = tci_store_make_folders(path, !tci_store_path_is_sqlite(path), err);
    if (rc == 0)
        rc = tci_lock_take(path, &lock, err);
    if (rc == 0)
        rc = open_backend(path, options, &store, err);
    if (rc == 0)
        rc = tci_lock_bind(lock, err);
    if (rc < 0) {
        tc_err ignored; /* nothing was written */
        (void)!tci_store_close(store, &ignored);
        tci_lock_release(lock);
        return rc;
    }
    store->lock = lock;
    *ret_store = store;
    return 0;
}

/* A folder with nothing of a session in it. */
static int check_any(tc_str path, const tci_check_report *report, tc_err *err)
{
    if (report->nrecords > 0 || report->ndamaged > 0 || report->ncommits > 0)
        return 0;
    (void)tc_err_set(err, TC_E_NOT_FOUND, "there is no session in '%.*s'", TC_STR_ARG(path));
    return tc_err_hint(err, "a session is a folder with a 'main.jsonl', or a file named *.sqlite: "
                            "check the path");
}

int tci_store_check(tc_str path, tci_damage_fn on_damage, void *user, tci_check_report *ret,
                    tc_err *err)
{
    int rc = check_path(path, true, err);
    if (rc < 0)
        return rc;
    if (tci_store_path_is_sqlite(path))
        return tci_sqlite_check(path, on_damage, user, ret, err);
    rc = settle(path, false, err);
    if (rc == 0)
        rc = tci_jsonl_check(path, on_damage, user, ret, err);
    return rc < 0 ? rc : check_any(path, ret, err);
}

int tci_store_repair(tc_str path, tci_damage_fn on_damage, void *user, tci_arena *a,
                     tc_str *ret_aside, tci_check_report *ret, tc_err *err)
{
    tci_lock *lock = NULL;
    int rc = check_path(path, true, err);
    if (rc == 0)
        rc = tci_lock_take(path, &lock, err);
    if (rc < 0)
        return rc;
    rc = settle(path, true, err);
    if (rc == 0)
        rc = tci_store_path_is_sqlite(path)
                 ? tci_sqlite_repair(path, on_damage, user, a, ret_aside, ret, err)
                 : tci_jsonl_repair(path, on_damage, user, a, ret_aside, ret, err);
    if (rc == 0 && !tci_store_path_is_sqlite(path))
        rc = check_any(path, ret, err);
    tci_lock_release(lock);
    return rc;
}
