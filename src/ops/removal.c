/* SPDX-License-Identifier: Apache-2.0
 *
 * See removal.h. Any thread.
 *
 * A folder is read once: files go at once, names of folders are noted and entered one after the other.
 * Only one folder is open at a time; the way back up is "..", which must be the folder we came from.
 *
 * Invariant: levels[n - 1] is the open folder, and every entry removed is one of it. */
#include "ops/removal.h"

#include "base/buf.h"
#include "plat/dir.h"
#include "plat/file.h"

#include <errno.h>
#include <stdlib.h>

enum { PASSES_MAX = 8 };

typedef struct level {
    uint64_t dev, ino;
    tci_buf folders; /* names still to be entered, each with its NUL; the last is taken first */
    unsigned passes;
} level;

typedef struct removal {
    tci_dir dir;
    char *buf; /* of the reader */
    level *levels;
    size_t n, cap;
    const char *syscall;
} removal;

static int failed(removal *m, const char *syscall, tc_err *err)
{
    m->syscall = syscall;
    return err->code;
}

static int unlink_one(removal *m, tc_str name, tc_err *err)
{
    tci_file root = {.fd = m->dir.fd_plus_1 - 1};
    int rc = tci_file_unlink(root, name, err);
    return rc < 0 && err->os != ENOENT ? failed(m, "unlink", err) : 0;
}

/* Is it a folder? DT_UNKNOWN has to be asked for. */
static bool is_folder(const removal *m, const tci_dir_entry *e)
{
    tc_err ignored;
    tci_dir_stat st;
    if (e->kind != TCI_DIR_KIND_UNKNOWN)
        return e->kind == TCI_DIR_KIND_DIRECTORY;
    return tci_dir_stat_at(&m->dir, e->name.ptr, false, &st, &ignored) == 0 &&
           st.kind == TCI_DIR_KIND_DIRECTORY;
}

static int empty_folder(removal *m, tc_err *err)
{
    tci_dir_entry e;
    tci_dir_reader reader;
    level *top = &m->levels[m->n - 1];
    int rc = tci_dir_read_start(&reader, &m->dir, m->buf, err);
    if (rc < 0)
        return failed(m, "scandir", err);
    while ((rc = tci_dir_read_next(&reader, &e, err)) > 0) {
        if (is_folder(m, &e))
            tci_buf_append(&top->folders, e.name.ptr, e.name.len + 1);
        else if (unlink_one(m, e.name, err) < 0)
            return err->code;
    }
    if (rc == 0)
        rc = tci_buf_error(&top->folders, err);
    return rc < 0 ? failed(m, "scandir", err) : 0;
}

/* Enter a folder by name, relative to the one that is open (or, at the start, by path). */
static int push(removal *m, const char *name, tc_err *err)
{
    tci_dir dir;
    tci_dir_stat st;
    if (m->n == m->cap) {
        size_t cap = m->cap > 0 ? m->cap * 2 : 16;
        level *grown = tci_mem_resize(m->levels, cap * sizeof *grown);
        if (grown == NULL)
            return tci_err_no_memory(err);
        m->levels = grown;
        m->cap = cap;
    }
    if (tci_dir_open(m->n > 0 ? &m->dir : NULL, name, TCI_DIR_NO_FOLLOW, &dir, err) < 0)
        return failed(m, "scandir", err);
    if (tci_dir_stat_at(&dir, NULL, false, &st, err) < 0) {
        tci_dir_close(&dir);
        return failed(m, "scandir", err);
    }
    tci_dir_close(&m->dir);
    m->dir = dir;
    m->levels[m->n] = (level){.dev = st.dev, .ino = st.ino};
    tci_buf_init(&m->levels[m->n].folders, TCI_BUF_MAX);
    m->n++;
    return empty_folder(m, err);
}

static int pop(removal *m, tc_err *err)
{
    tci_dir up;
    tci_dir_stat st;
    tci_buf_done(&m->levels[--m->n].folders);
    if (m->n == 0)
        return 0;
    if (tci_dir_open(&m->dir, "..", 0, &up, err) < 0)
        return failed(m, "scandir", err);
    tci_dir_close(&m->dir);
    m->dir = up;
    const level *top = &m->levels[m->n - 1];
    if (tci_dir_stat_at(&up, NULL, false, &st, err) < 0)
        return failed(m, "scandir", err);
    if (st.dev != top->dev || st.ino != top->ino) {
        m->syscall = "scandir";
        return tc_err_set_os(err, TC_E_CONFLICT, ENOENT, "a folder was moved while it was removed");
    }
    return 0;
}

static int rmdir_one(removal *m, tc_str name, tc_err *err)
{
    tci_file root = {.fd = m->dir.fd_plus_1 - 1};
    int rc = tci_file_rmdir(root, name, err);
    return rc < 0 && err->os == ENOENT ? 0 : rc;
}

static bool is_not_empty(const tc_err *err)
{
    return err->os == ENOTEMPTY || err->os == EEXIST;
}

static tc_str last_folder(const level *l)
{
    size_t end = l->folders.len - 1, at = end;
    while (at > 0 && l->folders.ptr[at - 1] != '\0')
        at--;
    return tci_str_of(l->folders.ptr + at, end - at);
}

/* Take the next noted folder of the open one: gone at once when it is empty, otherwise entered. */
static int next_folder(removal *m, tc_err *err)
{
    char name[TCI_NAME_MAX + 1];
    level *top = &m->levels[m->n - 1];
    tc_str last = last_folder(top);
    int rc = tci_cstr(last, name, sizeof name, err);
    if (rc == 0)
        rc = rmdir_one(m, last, err);
    if (rc < 0 && is_not_empty(err)) {
        top->passes++;
        return push(m, name, err);
    }
    if (rc < 0)
        return failed(m, "rmdir", err);
    tci_buf_truncate(&top->folders, top->folders.len - last.len - 1);
    top->passes = 0;
    return 0;
}

static int run(removal *m, const char *path, tc_err *err)
{
    int rc = push(m, path, err);
    while (rc == 0 && m->n > 0) {
        level *top = &m->levels[m->n - 1];
        if (top->folders.len == 0)
            rc = pop(m, err);
        else if (top->passes > PASSES_MAX) /* somebody fills it as fast as we empty it */
            rc = tc_err_set_os(err, TC_E_CONFLICT, ENOTEMPTY, "a folder does not get empty");
        else
            rc = next_folder(m, err);
    }
    return rc;
}

/* The folder itself, at last; again when somebody put something into it meanwhile. */
static int remove_all(removal *m, tc_str path, const char *cpath, tc_err *err)
{
    int rc = -1;
    for (int i = 0; i < PASSES_MAX; i++) {
        rc = tci_file_rmdir(TCI_FILE_CWD, path, err);
        if (rc == 0 || !is_not_empty(err))
            return rc < 0 ? failed(m, "rmdir", err) : 0;
        if (run(m, cpath, err) < 0)
            return err->code;
    }
    return failed(m, "rmdir", err);
}

int tci_ops_remove_tree(tc_str path, const char **ret_syscall, tc_err *err)
{
    removal m = {.syscall = "rmdir"};
    char cpath[TCI_PATH_MAX];
    tc_str bare = path;
    while (bare.len > 1 && bare.ptr[bare.len - 1] == '/')
        bare.len--;
    int rc = tci_cstr(path, cpath, sizeof cpath, err);
    if (rc == 0 && tci_str_eq(bare, TC_STR("/")))
        rc = tc_err_set_os(err, TC_E_BUSY, EBUSY, "the root folder is not removed");
    m.buf = tci_mem_resize(NULL, TCI_DIR_READ_BYTES);
    if (rc == 0 && m.buf == NULL)
        rc = tci_err_no_memory(err);
    if (rc == 0)
        rc = remove_all(&m, path, cpath, err);
    while (m.n > 0)
        tci_buf_done(&m.levels[--m.n].folders);
    tci_dir_close(&m.dir);
    tci_free(m.levels);
    tci_free(m.buf);
    if (rc < 0 && ret_syscall != NULL)
        *ret_syscall = m.syscall;
    return rc;
}
