/* SPDX-License-Identifier: Apache-2.0
 *
 * Names and trees: making folders, moving entries, removing them with all that is below. Leaves the
 * content of files to file.c. Thread: worker.
 *
 * Invariant: a removal touches only entries that its plan counted, each by name in the open folder
 * in which it was found, and never goes through a link. */
#include "ops/file.h"

#include "base/buf.h"
#include "base/mem.h"
#include "ops/file_int.h"
#include "plat/dir.h"
#include <errno.h>

/* ---- folders ---- */

/* The longest part of path that exists, opened; *ret_len its length. */
static int open_deepest(tc_str path, tci_file *ret, size_t *ret_len, tc_err *err)
{
    tc_str part = path;
    for (;;) {
        int rc = tci_file_open(part, TCI_OPEN_PATH | TCI_OPEN_DIRECTORY, 0, ret, err);
        if (rc == 0)
            *ret_len = part.len;
        if (rc != TC_E_NOT_FOUND || part.len <= 1)
            return rc;
        tc_str name;
        tci_path_split(part, &part, &name);
    }
}

/* Make what is missing of path's parents. *created counts. */
static int make_parents(tc_str parent, const tci_cancel *cancel, uint64_t *created, tc_err *err)
{
    TCI_FILE_AUTO at = TCI_FILE_NONE;
    size_t done = 0;
    int rc = open_deepest(parent, &at, &done, err);
    while (rc == 0 && done < parent.len) {
        if (parent.ptr[done] == '/') {
            done++;
            continue;
        }
        tc_str rest = tci_str_sub(parent, done, parent.len);
        tc_str name = tci_str_sub(rest, 0, tci_str_find_byte(rest, '/'));
        rc = tci_cancel_check(cancel, err);
        if (rc == 0)
            rc = tci_file_mkdir(at, name, 0777, err);
        *created += rc == 0;
        bool was_there = rc == TC_E_CONFLICT;
        if (was_there)
            rc = 0; /* somebody else made it, or it is no folder: opening tells */
        TCI_FILE_AUTO next = TCI_FILE_NONE;
        if (rc == 0)
            rc = tci_file_openat(at, name, TCI_OPEN_PATH | TCI_OPEN_DIRECTORY, 0, &next, err);
        if (rc == TC_E_NOT_FOUND && was_there)
            rc = tc_err_set(err, TC_E_CONFLICT, "'%.*s' is a link that leads nowhere",
                            TC_STR_ARG(name));
        if (rc == 0) {
            tci_file_close(&at);
            at = tci_file_take(&next);
        }
        done += name.len;
    }
    return rc;
}

int tci_ops_mkdir(tc_str path, bool parents, bool exist_ok, const tci_cancel *cancel,
                  tci_file_info *ret_info, uint64_t *ret_created, tc_err *err)
{
    *ret_created = 0;
    int rc = tci_cancel_check(cancel, err);
    if (rc == 0)
        rc = tci_file_mkdir(TCI_FILE_CWD, path, 0777, err);
    if (rc == TC_E_NOT_FOUND && parents) {
        tc_str parent, name;
        tci_path_split(path, &parent, &name);
        rc = make_parents(parent, cancel, ret_created, err);
        if (rc == 0)
            rc = tci_file_mkdir(TCI_FILE_CWD, path, 0777, err);
    }
    *ret_created += rc == 0;
    if (rc < 0 && !(rc == TC_E_CONFLICT && exist_ok))
        return tci_ops_code(err);
    bool is_old = rc < 0;
    tci_file_info info;
    rc = tci_ops_stat(path, true, &info, err);
    if (rc == TC_E_IO)
        return rc;
    if (rc < 0 || info.kind != TCI_FILE_KIND_DIRECTORY)
        return is_old ? tc_err_set(err, TC_E_CONFLICT, "'%.*s' exists and is no folder",
                                   TC_STR_ARG(path))
                      : tc_err_set(err, TC_E_CONFLICT, "'%.*s' was replaced at once",
                                   TC_STR_ARG(path));
    *ret_info = info;
    return 0;
}

/* ---- a plan of a tree ---- */

typedef struct plan_node {
    size_t name_at, name_len; /* in names */
    bool is_folder;
    uint64_t dev, ino;   /* of a folder */
    size_t first, count; /* its entries, in nodes */
} plan_node;

typedef struct plan {
    plan_node *nodes;
    size_t nnodes, cap;
    uint64_t max_entries;
    tci_buf names;
    char *read_buf;
    const tci_cancel *cancel;
} plan;

static void plan_init(plan *p, uint64_t max_entries, const tci_cancel *cancel)
{
    *p = (plan){.max_entries = max_entries, .cancel = cancel};
    tci_buf_init(&p->names, TCI_BUF_MAX);
}

static void plan_done(plan *p)
{
    tci_mem_free(p->nodes);
    tci_mem_free(p->read_buf);
    tci_buf_done(&p->names);
}

static tc_str node_name(const plan *p, size_t i)
{
    return tci_str_of(p->names.ptr + p->nodes[i].name_at, p->nodes[i].name_len);
}

static int plan_add(plan *p, tc_str name, bool is_folder, tc_err *err)
{
    if (p->nnodes >= p->max_entries)
        return tc_err_set(err, TC_E_QUOTA, "more than %llu entries",
                          (unsigned long long)p->max_entries);
    if (p->nnodes == p->cap) {
        size_t cap = p->cap == 0 ? 64 : p->cap * 2;
        plan_node *grown = tci_mem_resize(p->nodes, cap * sizeof *grown);
        if (grown == NULL)
            return tci_err_no_memory(err);
        p->nodes = grown;
        p->cap = cap;
    }
    p->nodes[p->nnodes++] =
        (plan_node){.name_at = p->names.len, .name_len = name.len, .is_folder = is_folder};
    tci_buf_append_str(&p->names, name);
    return tci_buf_error(&p->names, err);
}

/* The entries of one folder, all of them, before anything below. */
static int plan_entries(plan *p, tci_file folder, tc_err *err)
{
    if (p->read_buf == NULL && (p->read_buf = tci_mem_alloc(TCI_DIR_READ_BYTES)) == NULL)
        return tci_err_no_memory(err);
    tci_dir dir = {.fd_plus_1 = folder.fd + 1}; /* borrowed */
    tci_dir_reader reader;
    tci_dir_entry entry;
    int rc = tci_dir_read_start(&reader, &dir, p->read_buf, err);
    if (rc < 0)
        return rc;
    while ((rc = tci_dir_read_next(&reader, &entry, err)) > 0) {
        bool is_folder = entry.kind == TCI_DIR_KIND_DIRECTORY;
        if (entry.kind == TCI_DIR_KIND_UNKNOWN) {
            tci_file_stat st;
            rc = tci_file_stat_at(folder, entry.name, false, &st, err);
            if (rc < 0)
                return rc;
            is_folder = st.kind == TCI_FILE_KIND_DIRECTORY;
        }
        rc = plan_add(p, entry.name, is_folder, err);
        if (rc < 0)
            return rc;
    }
    return rc;
}

static int open_folder(const plan *p, tci_file at, size_t i, tci_file *ret, tci_file_stat *ret_stat,
                       tc_err *err)
{
    int rc = tci_file_openat(at, node_name(p, i),
                             TCI_OPEN_READ | TCI_OPEN_DIRECTORY | TCI_OPEN_NOFOLLOW, 0, ret, err);
    return rc < 0 ? rc : tci_file_stat_of(*ret, ret_stat, err);
}

/* Node i is a folder in `at`; everything below it joins the plan. As deep as the tree is, at most
 * TCI_REMOVE_DEPTH_MAX calls and open folders. */
static int plan_folder(plan *p, tci_file at, size_t i, unsigned depth, tc_err *err)
{
    TCI_FILE_AUTO folder = TCI_FILE_NONE;
    tci_file_stat st;
    int rc = tci_cancel_check(p->cancel, err);
    if (rc == 0)
        rc = open_folder(p, at, i, &folder, &st, err);
    if (rc < 0)
        return rc;
    size_t first = p->nnodes;
    rc = plan_entries(p, folder, err);
    if (rc < 0)
        return rc;
    size_t end = p->nnodes;
    p->nodes[i].dev = st.dev;
    p->nodes[i].ino = st.ino;
    p->nodes[i].first = first;
    p->nodes[i].count = end - first;
    if (end > first && depth + 1 > TCI_REMOVE_DEPTH_MAX)
        return tc_err_set(err, TC_E_QUOTA, "more than %d folders deep", TCI_REMOVE_DEPTH_MAX);
    for (size_t k = first; k < end && rc == 0; k++)
        if (p->nodes[k].is_folder)
            rc = plan_folder(p, folder, k, depth + 1, err);
    return rc;
}

/* Remove what the plan has below node i of `at`, then node i itself. */
static int remove_planned(const plan *p, tci_file at, size_t i, uint64_t *removed, tc_err *err)
{
    const plan_node *node = &p->nodes[i];
    int rc = tci_cancel_check(p->cancel, err);
    if (rc < 0)
        return rc;
    if (!node->is_folder) {
        rc = tci_file_unlink(at, node_name(p, i), err);
        *removed += rc == 0;
        return rc;
    }
    TCI_FILE_AUTO folder = TCI_FILE_NONE;
    tci_file_stat st;
    rc = open_folder(p, at, i, &folder, &st, err);
    if (rc == 0 && (st.dev != node->dev || st.ino != node->ino))
        rc = tc_err_set(err, TC_E_CONFLICT, "a folder was replaced while its entries were counted");
    for (size_t k = node->first; rc == 0 && k < node->first + node->count; k++)
        rc = remove_planned(p, folder, k, removed, err);
    if (rc == 0)
        rc = tci_file_rmdir(at, node_name(p, i), err);
    *removed += rc == 0;
    return rc;
}

/* A folder that still has entries is a failure of the system to those who ask ops. */
static int not_empty_is_io(tc_err *err)
{
    if (err->os == ENOTEMPTY || err->os == EEXIST)
        return tc_err_recode(err, TC_E_IO);
    return tci_ops_code(err);
}

static int remove_tree(tci_file parent, tc_str name, uint64_t max_entries, const tci_cancel *cancel,
                       uint64_t *removed, tc_err *err)
{
    plan p;
    plan_init(&p, max_entries, cancel);
    int rc = plan_add(&p, name, true, err);
    if (rc == 0)
        rc = plan_folder(&p, parent, 0, 0, err);
    if (rc == 0)
        rc = remove_planned(&p, parent, 0, removed, err);
    plan_done(&p);
    return rc;
}

static const char *kind_name(tci_file_kind kind)
{
    switch (kind) {
    case TCI_FILE_KIND_REGULAR:
        return "a file";
    case TCI_FILE_KIND_DIRECTORY:
        return "a folder";
    case TCI_FILE_KIND_SYMLINK:
        return "a link";
    case TCI_FILE_KIND_OTHER:
        break;
    }
    return "a special file";
}

int tci_ops_remove(const tci_remove *in, const tci_cancel *cancel, uint64_t *ret_removed,
                   tc_err *err)
{
    *ret_removed = 0;
    tc_str parent_path, name;
    tci_path_split(in->path, &parent_path, &name);
    if (name.len == 0 || in->max_entries == 0)
        return tc_err_set(err, TC_E_DENIED, "'%.*s' may not be removed", TC_STR_ARG(in->path));
    TCI_FILE_AUTO parent = TCI_FILE_NONE;
    tci_file_stat st;
    int rc = tci_cancel_check(cancel, err);
    if (rc == 0)
        rc = tci_file_open(parent_path, TCI_OPEN_PATH | TCI_OPEN_DIRECTORY, 0, &parent, err);
    if (rc == 0)
        rc = tci_file_stat_at(parent, name, false, &st, err);
    if (rc < 0)
        return tci_ops_code(err);
    if (st.kind != in->expected_kind)
        return tc_err_set(err, TC_E_CONFLICT, "'%.*s' is %s", TC_STR_ARG(in->path),
                          kind_name(st.kind));
    if (st.kind == TCI_FILE_KIND_DIRECTORY && in->recursive)
        rc = remove_tree(parent, name, tci_min_u64(in->max_entries, TCI_REMOVE_ENTRIES_MAX), cancel,
                         ret_removed, err);
    else {
        rc = st.kind == TCI_FILE_KIND_DIRECTORY ? tci_file_rmdir(parent, name, err)
                                                : tci_file_unlink(parent, name, err);
        *ret_removed = rc == 0;
    }
    return rc < 0 ? not_empty_is_io(err) : 0;
}

/* ---- moving ---- */

typedef struct move {
    tci_file from_dir, to_dir; /* opened for reading when that is allowed: can be synced */
    bool can_sync;
    tc_str from, to;
    const tci_cancel *cancel;
} move;

static int open_parent(tc_str path, tci_file *ret, tc_str *ret_name, bool *can_sync, tc_err *err)
{
    tc_str parent;
    tci_path_split(path, &parent, ret_name);
    if (ret_name->len == 0)
        return tc_err_set(err, TC_E_DENIED, "'%.*s' is the root folder", TC_STR_ARG(path));
    int rc = tci_file_open(parent, TCI_OPEN_READ | TCI_OPEN_DIRECTORY, 0, ret, err);
    if (rc < 0 && err->os == EACCES) {
        *can_sync = false;
        rc = tci_file_open(parent, TCI_OPEN_PATH | TCI_OPEN_DIRECTORY, 0, ret, err);
    }
    return rc;
}

/* Both names are one entry: on a file system that folds case, or composes characters. */
static bool is_same_entry(const move *m)
{
    tci_file_stat a, b, da, db;
    tc_err ignored; /* then it is not known to be the same */
    return tci_file_stat_at(m->from_dir, m->from, false, &a, &ignored) == 0 &&
           tci_file_stat_at(m->to_dir, m->to, false, &b, &ignored) == 0 &&
           tci_file_stat_of(m->from_dir, &da, &ignored) == 0 &&
           tci_file_stat_of(m->to_dir, &db, &ignored) == 0 && tci_file_stat_same(&a, &b) &&
           tci_file_stat_same(&da, &db) && !tci_str_eq(m->from, m->to) &&
           (a.nlink == 1 || a.kind == TCI_FILE_KIND_DIRECTORY);
}

static int rename_as(const move *m, tci_rename_how how, tc_err *err)
{
    return tci_file_rename(m->from_dir, m->from, m->to_dir, m->to, how, err);
}

/* A folder onto one that is not empty: exchange them, then remove the old one, which now has the
 * source's name. The plan comes first, so that a tree that cannot be removed changes nothing. */
static int replace_folder(const move *m, tc_err *err)
{
    plan p;
    plan_init(&p, UINT64_MAX, m->cancel);
    uint64_t removed = 0;
    int rc = plan_add(&p, m->to, true, err);
    if (rc == 0)
        rc = plan_folder(&p, m->to_dir, 0, 0, err);
    if (rc == 0)
        rc = rename_as(m, TCI_RENAME_EXCHANGE, err);
    if (rc == 0) {
        p.cancel = NULL; /* begun: to the end */
        p.nodes[0].name_at = p.names.len;
        p.nodes[0].name_len = m->from.len;
        tci_buf_append_str(&p.names, m->from);
        rc = tci_buf_error(&p.names, err);
        if (rc == 0)
            rc = remove_planned(&p, m->from_dir, 0, &removed, err);
        if (rc < 0)
            rc = tc_err_recode(err, TC_E_UNKNOWN_OUTCOME);
    }
    plan_done(&p);
    return rc;
}

static int move_entry(const move *m, bool replace, tc_err *err)
{
    int rc = rename_as(m, replace ? TCI_RENAME_REPLACE : TCI_RENAME_NOREPLACE, err);
    if (rc == 0)
        return 0;
    if (!replace)
        return rc == TC_E_CONFLICT && is_same_entry(m) ? rename_as(m, TCI_RENAME_REPLACE, err) : rc;
    if (err->os == ENOTEMPTY || err->os == EEXIST)
        return replace_folder(m, err);
    if (err->os == EINVAL) /* a folder into itself */
        return tc_err_recode(err, TC_E_UNSUPPORTED);
    return err->os == EXDEV ? tc_err_recode(err, TC_E_IO) : rc;
}

/* The rename refuses it as well, but what is there is told before what the source lacks. */
static int refuse_existing(tc_str source, tc_str destination, tc_err *err)
{
    tci_file_stat from, to;
    tc_err ignored;
    if (tci_file_stat_at(TCI_FILE_CWD, destination, false, &to, &ignored) < 0)
        return 0;
    if (tci_file_stat_at(TCI_FILE_CWD, source, false, &from, &ignored) == 0 &&
        tci_file_stat_same(&from, &to))
        return 0; /* perhaps the same entry in another spelling */
    return tc_err_set(err, TC_E_CONFLICT, "'%.*s' exists", TC_STR_ARG(destination));
}

int tci_ops_move(tc_str source, tc_str destination, bool replace, const tci_cancel *cancel,
                 tci_file_info *ret_info, tc_err *err)
{
    TCI_FILE_AUTO from_dir = TCI_FILE_NONE;
    TCI_FILE_AUTO to_dir = TCI_FILE_NONE;
    move m = {.can_sync = true, .cancel = cancel};
    tci_file_stat st;
    int rc = tci_cancel_check(cancel, err);
    if (rc == 0 && !replace)
        rc = refuse_existing(source, destination, err);
    if (rc == 0)
        rc = open_parent(source, &from_dir, &m.from, &m.can_sync, err);
    if (rc == 0)
        rc = open_parent(destination, &to_dir, &m.to, &m.can_sync, err);
    m.from_dir = from_dir;
    m.to_dir = to_dir;
    if (rc == 0)
        rc = move_entry(&m, replace, err);
    if (rc < 0)
        return tci_ops_code(err);
    /* Moved. What fails now does not undo it. */
    if (m.can_sync)
        rc = tci_file_sync(m.to_dir, err);
    if (rc == 0 && m.can_sync)
        rc = tci_file_sync(m.from_dir, err);
    if (rc == 0)
        rc = tci_file_stat_at(m.to_dir, m.to, false, &st, err);
    if (rc < 0)
        return tc_err_recode(err, TC_E_UNKNOWN_OUTCOME);
    *ret_info = tci_file_info_of(&st);
    return 0;
}
