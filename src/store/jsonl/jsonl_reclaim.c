/* SPDX-License-Identifier: Apache-2.0
 *
 * Clearing away what is obsolete: sidecars of tasks that have ended and of retired documents, and
 * what lies before the newest base of a document without history. A rewrite costs a file and a
 * rename, so it waits until there is enough to win; readers take any mix of bases and deltas. Runs on the
 * store's thread. Invariant: whatever fails here, and wherever the process dies, the session is
 * what it was: nothing is removed before the commit that made it obsolete is as safe as it is going to be. */
#include "store/jsonl/jsonl_int.h"

void tci_jsonl_obsolete(tci_jsonl *j, tci_jsonl_file *f)
{
    if (!tci_link_is_in(&f->reclaim))
        tci_list_push_back(&j->reclaim, &f->reclaim);
}

static void forget(tci_jsonl *j, tci_jsonl_file *f)
{
    tci_jsonl_file_shut(j, f);
    tci_link_remove(&f->dirty);
    tci_link_remove(&f->reclaim);
    tci_id_map_remove(&j->files, tci_jsonl_key(f->is_task, f->id));
    tci_free(f);
}

static void remove_file(tci_jsonl *j, tci_jsonl_file *f)
{
    char name[TCI_JSONL_NAME_MAX];
    if (f->is_there)
        tci_jsonl_journal_note_removal(j, f);
    if (f->is_there)
        tci_file_discard(j->folder, tci_jsonl_file_name(f->is_task, f->id, name));
    forget(j, f);
}

static bool is_worth_it(const tci_jsonl_file *f)
{
    uint64_t live = f->size - f->live_from;
    return f->live_from > TCI_JSONL_OBSOLETE_MIN && f->live_from / TCI_JSONL_OBSOLETE_TIMES > live;
}

/* What is needed of the file, in a new one under the name with .reclaim behind it. */
static int write_aside(tci_jsonl *j, tci_jsonl_file *f, tc_str path, tci_file *ret, tc_err *err)
{
    tci_file to;
    uint64_t len = f->size - f->live_from, copied = 0;
    int rc = tci_jsonl_file_open(j, f, err);
    if (rc < 0)
        return rc;
    rc = tci_file_openat(j->folder, path,
                         TCI_OPEN_READ | TCI_OPEN_WRITE | TCI_OPEN_CREATE | TCI_OPEN_TRUNCATE, 0666,
                         &to, err);
    if (rc < 0)
        return rc;
    rc = tci_file_copy_range(f->f, f->live_from, to, len, &copied, err);
    if (rc == 0 && copied != len)
        rc = tc_err_set(err, TC_E_IO, "the file is shorter than it was");
    if (rc == 0 && j->is_full)
        rc = tci_file_sync(to, err);
    if (rc == 0)
        *ret = to;
    else
        tci_file_close(&to);
    return rc;
}

static void move_revisions(tci_jsonl *j, uint64_t id, uint64_t by)
{
    tci_doc *doc = tci_index_doc(&j->base.ix, id);
    for (size_t i = 0; doc != NULL && i < doc->nrevisions; i++) {
        if (!doc->revisions[i].place.is_heap)
            doc->revisions[i].place.u.offset -= by;
    }
}

static void rewrite(tci_jsonl *j, tci_jsonl_file *f)
{
    char name[TCI_JSONL_NAME_MAX], aside[TCI_JSONL_NAME_MAX + sizeof TCI_JSONL_RECLAIM];
    tc_str path = tci_jsonl_file_name(f->is_task, f->id, name);
    tc_str suffix = TC_STR(TCI_JSONL_RECLAIM);
    tci_file to = TCI_FILE_NONE;
    tc_err err;
    memcpy(aside, path.ptr, path.len);
    memcpy(aside + path.len, suffix.ptr, suffix.len);
    tc_str aside_path = tci_str_of(aside, path.len + suffix.len);
    if (write_aside(j, f, aside_path, &to, &err) < 0 ||
        tci_file_rename(j->folder, aside_path, j->folder, path, TCI_RENAME_REPLACE, &err) < 0) {
        tci_file_close(&to);
        tci_file_discard(j->folder, aside_path);
        return;
    }
    tci_file_close(&to); /* it is opened again for appending when it is needed */
    tci_jsonl_file_shut(j, f);
    tci_link_remove(&f->dirty);
    /* What is appended from now on is found by the new name only. */
    j->is_folder_dirty = j->must_sync_folder = true;
    move_revisions(j, f->id, f->live_from);
    f->size -= f->live_from;
    f->live_from = 0;
}

/* Those that were not worth it before. */
static void note_all(tci_jsonl *j)
{
    for (size_t i = 0; i < j->files.cap; i++) {
        tci_jsonl_file *f = (tci_jsonl_file *)j->files.slots[i].value;
        if (j->files.slots[i].id != 0 && f->live_from > 0)
            tci_jsonl_obsolete(j, f);
    }
}

void tci_jsonl_reclaim(tci_jsonl *j, tci_reclaim_how how)
{
    if (j->journal.has_commits) /* they are not safe yet */
        return;
    if (how == TCI_RECLAIM_ALL)
        note_all(j);
    TCI_LIST_EACH (&j->reclaim, k) {
        tci_jsonl_file *f = TCI_CONTAINER(k, tci_jsonl_file, reclaim);
        tci_link_remove(k); /* a file that is not worth it is noted again with its next base */
        if (f->is_obsolete)
            remove_file(j, f);
        else if (f->live_from > 0 && (how == TCI_RECLAIM_ALL || is_worth_it(f)))
            rewrite(j, f);
    }
}
