/* SPDX-License-Identifier: Apache-2.0
 *
 * Making a damaged SQLite session open again: a new file gets every sound record and takes the old one's
 * name; the old one is kept beside it. Thread: the caller's, which holds the owner lock. Invariant: at
 * every moment the old bytes are all there, under the old name or the new. */
#include "store/sqlite/sqlite_int.h"

#include "plat/clock.h"
#include "plat/file.h"

/* "<path>-damaged-<time>" and "<path>-repaired-<time>": the names of the old file and of the new one
 * while it is made. */
static int name_beside(tc_str path, const char *what, tci_arena *a, tc_str *ret, tc_err *err)
{
    tci_instant now = tci_clock_now();
    return tci_arena_printf(a, ret, err, "%.*s-%s-%lld%06d", TC_STR_ARG(path), what,
                            (long long)now.sec, (int)now.nsec / 1000);
}

static int with_suffix(tc_str path, const char *suffix, tci_arena *a, tc_str *ret, tc_err *err)
{
    return tci_arena_printf(a, ret, err, "%.*s%s", TC_STR_ARG(path), suffix);
}

static int open_new(tc_str path, tci_sqlite **ret, tc_err *err)
{
    const tci_store_options options = {.durability = TCI_DURABILITY_FULL, .is_fresh = true};
    tci_sqlite *s = tci_sqlite_new(&options);
    if (s == NULL)
        return tci_err_no_memory(err);
    int rc = tci_sqlite_connect(s, path, &options, err);
    if (rc == 0)
        rc = tci_sqlite_migrate(s, &options, err);
    if (rc < 0) {
        tci_sqlite_release(s);
        return rc;
    }
    *ret = s;
    return 0;
}

/* All of it in one transaction, then into the file and onto the disk. */
static int copy_sound(tci_sqlite_walk *w, tc_err *err)
{
    int rc = tci_sqlite_do(w->to, TCI_SQL_BEGIN_IMMEDIATE, err);
    if (rc == 0)
        rc = tci_sqlite_walk_all(w, err);
    if (rc == 0)
        rc = tci_sqlite_set_metadata(w->to, w->max_id + 1, w->max_seq + 1, err);
    if (rc == 0)
        rc = tci_sqlite_do(w->to, TCI_SQL_COMMIT, err);
    if (rc < 0)
        return rc;
    int got = sqlite3_wal_checkpoint_v2(w->to->db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
    return got == SQLITE_OK ? 0 : tci_sqlite_fail(w->to->db, got, "write the new file", err);
}

/* The log first: beside the new file it would be taken for its own. */
static int swap(tc_str path, tc_str made, tc_str aside, tci_arena *a, tc_err *err)
{
    tc_str log, log_aside, index;
    tc_err ignored;
    int rc = with_suffix(path, "-wal", a, &log, err);
    if (rc == 0)
        rc = with_suffix(aside, "-wal", a, &log_aside, err);
    if (rc == 0)
        rc = with_suffix(path, "-shm", a, &index, err);
    if (rc == 0)
        rc = tci_file_link(TCI_FILE_CWD, path, TCI_FILE_CWD, aside, err);
    if (rc < 0)
        return rc;
    tci_file_stat st;
    if (tci_file_stat_at(TCI_FILE_CWD, log, false, &st, &ignored) == 0)
        rc = tci_file_rename(TCI_FILE_CWD, log, TCI_FILE_CWD, log_aside, TCI_RENAME_REPLACE, err);
    if (rc == 0)
        tci_file_discard(TCI_FILE_CWD, index);
    return rc < 0
               ? rc
               : tci_file_rename(TCI_FILE_CWD, made, TCI_FILE_CWD, path, TCI_RENAME_REPLACE, err);
}

static void discard_made(tc_str made, tci_arena *a)
{
    static const char *const suffixes[] = {"", "-wal", "-shm"};
    for (size_t i = 0; i < TCI_ARRAY_LEN(suffixes); i++) {
        tc_str name;
        tc_err ignored;
        if (with_suffix(made, suffixes[i], a, &name, &ignored) == 0)
            tci_file_discard(TCI_FILE_CWD, name);
    }
}

int tci_sqlite_repair(tc_str path, tci_damage_fn on_damage, void *user, tci_arena *a,
                      tc_str *ret_aside, tci_check_report *ret, tc_err *err)
{
    tci_sqlite_walk w = {.on_damage = on_damage, .user = user};
    tc_str made = {NULL, 0}, aside = {NULL, 0};
    int rc = tci_sqlite_open_for_walk(path, &w.from, err);
    if (rc == TC_E_PARSE) {
        (void)tc_err_wrap(err, "nothing of session '%.*s' can be read", TC_STR_ARG(path));
        (void)tc_err_hint(err, "restore the file from a copy");
    }
    if (rc < 0)
        return rc;
    rc = name_beside(path, "repaired", a, &made, err);
    if (rc == 0)
        rc = name_beside(path, "damaged", a, &aside, err);
    if (rc == 0)
        rc = open_new(made, &w.to, err);
    if (rc == 0)
        rc = copy_sound(&w, err);
    tci_sqlite_release(w.from);
    if (w.to != NULL)
        tci_sqlite_release(w.to);
    bool is_needed = rc == 0 && w.report.ndamaged != 0;
    if (is_needed)
        rc = swap(path, made, aside, a, err);
    if (rc < 0 || !is_needed)
        discard_made(made, a);
    if (rc < 0)
        return rc;
    *ret = w.report;
    *ret_aside = is_needed ? aside : (tc_str){NULL, 0};
    return 0;
}
