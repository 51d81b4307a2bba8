/* SPDX-License-Identifier: Apache-2.0
 *
 * The JSON lines backend, opened and closed: finding the files, reading them, and only when all of
 * it makes sense cutting what a crash has left over. Leaves reading to jsonl_replay.c and committing to
 * jsonl_commit.c. Runs on the store's thread. Invariant: a session that does not open was not changed. */
#include "plat/clock.h"
#include "plat/dir.h"
#include "store/jsonl/jsonl_int.h"
#include "store/jsonl/jsonl_salvage.h"
#include "store/lock.h"

enum { TRIES = 8, RECENT_S = 600 };

static tci_jsonl *of(tci_store *store)
{
    return (tci_jsonl *)(void *)store;
}

/* ---- closing ---- */

void tci_jsonl_release(tci_jsonl *j)
{
    tci_jsonl_files_done(j);
    tci_jsonl_journal_done(&j->journal);
    tci_file_close(&j->main);
    tci_file_close(&j->folder);
    tci_index_done(&j->base.ix);
    tci_arena_done(&j->arena);
    tci_buf_done(&j->marker);
    tci_buf_done(&j->lines);
    tci_free(j->window);
    tci_free(j);
}

int tci_jsonl_sync_all(tci_jsonl *j, tc_err *err)
{
    int rc = tci_jsonl_sync_sidecars(j, err);
    if (rc == 0 && j->is_main_dirty)
        rc = tci_file_sync_data(j->main, err);
    if (rc == 0)
        j->is_main_dirty = false;
    return rc;
}

static int jsonl_close(tci_store *store, tc_err *err)
{
    tci_jsonl *j = of(store);
    int rc = 0;
    if (!j->base.is_poisoned && !j->is_read_only) {
        if (j->is_full)
            rc = tci_jsonl_sync_all(j, err);
        if (rc == 0) {
            tci_jsonl_journal_drop(j);
            tci_jsonl_reclaim(j, TCI_RECLAIM_ALL);
        }
    }
    tci_jsonl_release(j);
    return rc;
}

static const tci_store_ops jsonl_ops = {
    .close = jsonl_close,
    .commit = tci_jsonl_commit,
    TCI_INDEXED_OPS,
};

/* ---- opening ---- */

tci_jsonl *tci_jsonl_new(const tci_store_options *options)
{
    tci_jsonl *j = tci_new(tci_jsonl);
    if (j == NULL)
        return NULL;
    j->base.store.ops = &jsonl_ops;
    j->folder = j->main = TCI_FILE_NONE;
    j->is_full = options->durability == TCI_DURABILITY_FULL;
    j->is_read_only = options->is_read_only;
    tci_index_init(&j->base.ix, tci_jsonl_load, j);
    tci_arena_init(&j->arena, 0);
    tci_buf_init(&j->marker, TCI_JSONL_LINE_MAX);
    tci_buf_init(&j->lines, TCI_JSONL_LINE_MAX);
    tci_jsonl_journal_init(&j->journal);
    tci_list_init(&j->open);
    tci_list_init(&j->dirty);
    tci_list_init(&j->reclaim);
    return j;
}

static bool is_reclaim_name(tc_str name)
{
    tc_str suffix = TC_STR(TCI_JSONL_RECLAIM);
    bool is_task;
    uint64_t id;
    return tci_str_ends(name, suffix) &&
           tci_jsonl_parse_name(tci_str_sub(name, 0, name.len - suffix.len), &is_task, &id);
}

/* What the folder holds: sidecars into the map, leftovers away. */
static int list_folder(tci_jsonl *j, tc_err *err)
{
    tci_dir dir = {j->folder.fd + 1};
    tci_dir_reader reader;
    tci_dir_entry entry;
    bool is_task;
    uint64_t id;
    char *buf = tci_mem_alloc(TCI_DIR_READ_BYTES);
    if (buf == NULL)
        return tci_err_no_memory(err);
    int rc = tci_dir_read_start(&reader, &dir, buf, err);
    while (rc == 0 && (rc = tci_dir_read_next(&reader, &entry, err)) > 0) {
        rc = 0;
        if (tci_jsonl_parse_name(entry.name, &is_task, &id)) {
            tci_jsonl_file *f = tci_jsonl_file_put(j, is_task, id, err);
            if (f == NULL)
                rc = err->code;
            else
                f->is_there = true;
        } else if (!j->is_read_only && is_reclaim_name(entry.name)) {
            tci_file_discard(j->folder, entry.name);
        }
    }
    tci_free(buf);
    return rc;
}

int tci_jsonl_open_folder(tci_jsonl *j, tc_str path, const tci_store_options *options, tc_err *err)
{
    int rc = 0;
    if (!options->must_exist && !options->is_read_only)
        rc = tci_store_make_folders(path, true, err);
    if (rc == 0)
        rc = tci_file_openat(TCI_FILE_CWD, path, TCI_OPEN_READ | TCI_OPEN_DIRECTORY, 0, &j->folder,
                             err);
    if (rc < 0)
        return rc;
    unsigned flags = TCI_OPEN_READ | (j->is_read_only ? 0 : TCI_OPEN_WRITE | TCI_OPEN_APPEND);
    rc = tci_file_openat(j->folder, TC_STR(TCI_JSONL_MAIN), flags, 0, &j->main, err);
    if (rc == TC_E_NOT_FOUND)
        rc = 0;
    if (rc == 0)
        rc = list_folder(j, err);
    bool was_needed;
    if (rc == 0 && !j->is_read_only)
        rc = tci_jsonl_journal_replay(j, &was_needed, err);
    if (rc == 0 && options->must_exist && !tci_file_is_open(j->main))
        rc = tc_err_set(err, TC_E_NOT_FOUND,
                        "there is no '" TCI_JSONL_MAIN "', and so no session, in it");
    if (rc == 0 && options->is_fresh && tci_file_is_open(j->main))
        rc = tc_err_set(err, TC_E_CONFLICT, "there is a session already");
    return rc < 0 ? tc_err_wrap(err, "session '%.*s'", TC_STR_ARG(path)) : 0;
}

int tci_jsonl_is_cut(tc_str path, bool *ret, tc_err *err)
{
    tci_store_options options = {.is_read_only = true};
    tci_jsonl *j = tci_jsonl_new(&options);
    if (j == NULL)
        return tci_err_no_memory(err);
    int rc = tci_jsonl_open_folder(j, path, &options, err);
    if (rc == 0)
        rc = tci_jsonl_journal_replay(j, ret, err);
    tci_jsonl_release(j);
    return rc;
}

bool tci_jsonl_has_lost_main(const tci_jsonl *j, const tci_jsonl_opening *o)
{
    for (size_t i = 0; !tci_file_is_open(j->main) && i < o->nsidecars; i++) {
        const tci_jsonl_sidecar *s = &o->sidecars[i];
        for (size_t k = 0; k < s->nrecs; k++) {
            if (s->recs[k].seq > 1) /* of the first commit: it did not happen */
                return true;
        }
    }
    return false;
}

static int read_all(tci_jsonl *j, tci_jsonl_opening *o, tc_err *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < j->files.cap; i++) {
        tci_jsonl_file *f = (tci_jsonl_file *)j->files.slots[i].value;
        if (j->files.slots[i].id != 0)
            rc = tci_jsonl_read_sidecar(o, f, err);
    }
    if (rc == 0 && tci_jsonl_has_lost_main(j, o)) {
        (void)tc_err_set(err, TC_E_PARSE,
                         "'" TCI_JSONL_MAIN "' is missing, and files that it refers "
                         "to are there");
        return tc_err_hint(err, "put '" TCI_JSONL_MAIN "' back, from a copy");
    }
    return rc < 0 ? rc : tci_jsonl_replay(o, err);
}

/* Read it, again without the end of it while lazy commits have lost their records. */
static int read_session(tci_jsonl *j, tci_jsonl_opening *ret, tc_err *err)
{
    tci_file_stat st = {.size = 0};
    int rc = tci_file_is_open(j->main) ? tci_file_stat_of(j->main, &st, err) : 0;
    uint64_t limit = st.size;
    j->main_size = st.size;
    while (rc == 0) {
        tci_jsonl_opening o = {.j = j, .main_limit = limit};
        rc = read_all(j, &o, err);
        if (rc == 0 && !o.is_cut) {
            *ret = o;
            return 0;
        }
        limit = o.main_limit;
        tci_jsonl_opening_done(&o);
        tci_index_done(&j->base.ix);
        tci_index_init(&j->base.ix, tci_jsonl_load, j);
    }
    return rc;
}

/* What is needed of a sidecar. */
static void judge_file(tci_jsonl *j, const tci_jsonl_sidecar *s)
{
    tci_jsonl_file *f = s->file;
    f->size = s->end;
    if (f->is_task) {
        const tci_ix_task *t = tci_index_task(&j->base.ix, f->id);
        f->is_obsolete = t == NULL || t->status == TCI_TASK_TERMINAL;
    } else {
        const tci_doc *doc = tci_index_doc(&j->base.ix, f->id);
        bool is_current_only = doc != NULL && tci_document_is_current_only(&doc->record);
        f->is_obsolete = doc == NULL || (is_current_only && doc->record.retired_at != 0);
        for (size_t k = s->nrecs; is_current_only && k > 0; k--) {
            if (!s->recs[k - 1].is_confirmed || s->recs[k - 1].is_delta)
                continue;
            f->live_from = s->recs[k - 1].line_at;
            break;
        }
    }
    if (f->is_obsolete)
        tci_jsonl_obsolete(j, f);
}

static int cut_sidecar(tci_jsonl *j, const tci_jsonl_sidecar *s, tc_err *err)
{
    if (s->end == s->size || s->file->is_obsolete)
        return 0;
    int rc = tci_jsonl_file_open(j, s->file, err);
    if (rc == 0)
        rc = tci_file_truncate(s->file->f, s->end, err);
    if (rc == 0 && j->is_full && !tci_link_is_in(&s->file->dirty))
        tci_list_push_back(&j->dirty, &s->file->dirty);
    return rc;
}

bool tci_jsonl_is_recent(const tci_file_stat *st)
{
    return tci_clock_now().sec - st->modified.sec < RECENT_S;
}

/* Whoever wrote a file not long ago may have died before it was synced. */
static int sync_recent(tci_jsonl *j, const tci_jsonl_opening *o, tc_err *err)
{
    tci_file_stat st;
    for (size_t i = 0; i < o->nsidecars; i++) {
        tci_jsonl_file *f = o->sidecars[i].file;
        if (o->sidecars[i].is_recent && !tci_link_is_in(&f->dirty))
            tci_list_push_back(&j->dirty, &f->dirty);
    }
    if (!tci_file_is_open(j->main))
        return 0;
    int rc = tci_file_stat_of(j->main, &st, err);
    if (rc < 0)
        return rc;
    j->is_main_dirty = j->is_main_dirty || tci_jsonl_is_recent(&st);
    j->is_folder_dirty = j->is_main_dirty || !tci_list_is_empty(&j->dirty);
    return tci_jsonl_sync_all(j, err);
}

/* Cut the rests of commits that did not happen, and make sure that what is there stays. */
static int settle(tci_jsonl *j, const tci_jsonl_opening *o, tc_err *err)
{
    int rc = 0;
    for (size_t i = 0; i < o->nsidecars; i++)
        judge_file(j, &o->sidecars[i]);
    if (j->is_read_only) {
        j->main_size = o->main_end;
        return 0;
    }
    if (o->main_end < j->main_size) {
        rc = tci_file_truncate(j->main, o->main_end, err);
        j->main_size = o->main_end;
        j->is_main_dirty = true;
    }
    for (size_t i = 0; rc == 0 && i < o->nsidecars; i++)
        rc = cut_sidecar(j, &o->sidecars[i], err);
    if (rc == 0 && j->is_full)
        rc = sync_recent(j, o, err);
    if (rc == 0)
        tci_jsonl_reclaim(j, TCI_RECLAIM_ALL);
    return rc;
}

static int open_once(tc_str path, const tci_store_options *options, tci_jsonl **ret, tc_err *err)
{
    tci_jsonl *j = tci_jsonl_new(options);
    if (j == NULL)
        return tci_err_no_memory(err);
    tci_jsonl_opening o = {.j = j};
    int rc = tci_jsonl_open_folder(j, path, options, err);
    if (rc == 0)
        rc = read_session(j, &o, err);
    if (rc == 0)
        rc = settle(j, &o, err);
    tci_jsonl_opening_done(&o);
    tci_arena_clear(&j->arena);
    if (rc == 0)
        *ret = j;
    else
        tci_jsonl_release(j);
    return rc;
}

int tci_store_open_jsonl(tc_str path, const tci_store_options *options, tci_store **ret_store,
                         tc_err *err)
{
    static const tci_store_options defaults = {.durability = TCI_DURABILITY_FULL};
    if (options == NULL)
        options = &defaults;
    tci_jsonl *j = NULL;
    int rc = open_once(path, options, &j, err);
    /* A reader may find files of before and after what the owner is doing at that moment. */
    for (int i = 1; rc < 0 && options->is_read_only && i < TRIES &&
                    (rc == TC_E_PARSE || rc == TC_E_IO || rc == TC_E_NOT_FOUND);
         i++)
        rc = open_once(path, options, &j, err);
    if (rc == 0)
        *ret_store = &j->base.store;
    return rc;
}
