/* SPDX-License-Identifier: Apache-2.0
 *
 * The way to a target: component by component from the root, through every link on it, with a watch
 * on each directory before the next name is looked up in it. So whatever is renamed, replaced or
 * made on that way is noticed, also behind links and when nothing of the target exists yet. Leaves
 * listings to watch_dir.c. Owner of the set; scans may block.
 *
 * Invariant: the steps of a target are those of its last complete walk. */
#include "ops/watch/watch_int.h"

#include "plat/file.h"

#include <errno.h>

enum { LINKS_MAX = 40 }; /* as path_resolution(7) */

/* A walk that goes on.
 *   real     where cur is, "" for the root
 *   rest     what is still to be resolved
 *   end      what the target is, when the walk is over */
typedef struct walk {
    tci_wtarget *t;
    tci_dir cur;
    tci_buf real, rest;
    tci_list steps;
    unsigned nlinks;
    bool is_probe, is_blind, misses, is_over;
    tci_wfacts end;
    tci_file file; /* what it is, when it is no directory: a handle */
} walk;

void tci_wtarget_touch(tci_wtarget *t, bool is_told)
{
    t->is_told |= is_told;
    if (!tci_link_is_in(&t->dirty))
        tci_list_push_back(&t->set->dirty_targets, &t->dirty);
}

static void free_steps(tci_wset *s, tci_list *steps)
{
    for (tci_link *k = tci_list_pop_front(steps); k != NULL; k = tci_list_pop_front(steps)) {
        tci_wstep *step = TCI_CONTAINER(k, tci_wstep, link);
        tci_wplace_leave(s, &step->user);
        tci_free(step);
    }
}

void tci_wtarget_done(tci_wtarget *t)
{
    if (t->root != NULL)
        tci_wdir_drop(t->root, true);
    free_steps(t->set, &t->steps);
    tci_wplace_leave(t->set, &t->file);
    tci_link_remove(&t->dirty);
    tci_buf_done(&t->real);
    tci_free(t->path);
    tci_free(t->names);
    tci_free(t->names_text);
}

static int move_to(walk *w, const tci_dir *at, const char *name, unsigned flags, tc_err *err)
{
    tci_dir next = {0};
    int rc = tci_dir_open(at, name, flags | TCI_DIR_BARE, &next, err);
    if (rc < 0)
        return rc;
    tci_dir_close(&w->cur);
    w->cur = next;
    return 0;
}

static int start(walk *w, tc_err *err)
{
    bool is_absolute = w->rest.len != 0 && w->rest.ptr[0] == '/';
    tci_buf_clear(&w->real);
    int rc = move_to(w, NULL, is_absolute ? "/" : ".", 0, err);
    if (rc == 0 && !is_absolute)
        rc = tci_dir_real_path(&w->cur, &w->real, err);
    if (rc == 0 && w->real.len == 1) /* "/" */
        tci_buf_clear(&w->real);
    return rc;
}

/* Take the next component off rest, NUL-terminated: false at the end. */
static bool next_name(walk *w, char name[TCI_NAME_MAX + 1], size_t *ret_len, bool *ret_too_long)
{
    size_t from = 0;
    tc_str rest = tci_buf_str(&w->rest);
    for (;;) {
        while (from < rest.len && rest.ptr[from] == '/')
            from++;
        tc_str tail = tci_str_sub(rest, from, rest.len);
        size_t len = tci_str_find_byte(tail, '/');
        *ret_too_long = len > TCI_NAME_MAX;
        *ret_len = *ret_too_long ? TCI_NAME_MAX : len;
        memcpy(name, tail.ptr != NULL ? tail.ptr : "", *ret_len);
        name[*ret_len] = '\0';
        from += len;
        if (len == 1 && name[0] == '.')
            continue;
        tci_buf_consume(&w->rest, from);
        return len != 0;
    }
}

static bool is_last(const walk *w)
{
    for (size_t i = 0; i < w->rest.len; i++)
        if (w->rest.ptr[i] != '/')
            return false;
    return true;
}

static void path_of_cur(const walk *w, tci_buf *out)
{
    tci_buf_clear(out);
    if (w->real.len == 0)
        tci_buf_append_byte(out, '/');
    tci_buf_append_str(out, tci_buf_str(&w->real));
    tci_buf_append_byte(out, '\0');
}

/* Remember that name matters in cur, and watch cur. */
static int add_step(walk *w, const char *name, size_t len, tci_wstep **ret, tc_err *err)
{
    tci_wset *s = w->t->set;
    tci_dir_stat st;
    int rc = tci_dir_stat_at(&w->cur, NULL, false, &st, err);
    if (rc < 0)
        return rc;
    tci_wstep *step = tci_mem_alloc(sizeof *step + len + 1);
    if (step == NULL)
        return tci_err_no_memory(err);
    step->user.use = TCI_WUSE_STEP;
    step->target = w->t;
    step->dir_dev = st.dev;
    step->dir_ino = st.ino;
    step->name_len = len;
    memcpy(step->name, name, len);
    tci_list_push_back(&w->steps, &step->link);
    *ret = step;
    if (w->is_probe || s->mode == TCI_OPS_WATCH_POLLING)
        return 0;
    path_of_cur(w, &s->path);
    rc = tci_buf_error(&s->path, err);
    if (rc == 0)
        rc = tci_wplace_use(s, &step->user, st.dev, st.ino, &w->cur, s->path.ptr, err);
    if (rc == TC_E_DENIED) { /* may be passed through but not read */
        w->is_blind = true;
        rc = 0;
    }
    return rc == TC_E_NOT_FOUND ? 0 : rc; /* the directory above tells when it is made anew */
}

/* Go where the link leads. */
static int follow(walk *w, const char *name, tc_err *err)
{
    tci_buf text;
    if (++w->nlinks > LINKS_MAX)
        return tc_err_set_os(err, TC_E_DENIED, ELOOP, "too many links");
    tci_buf_init(&text, TCI_BUF_MAX);
    int rc = tci_dir_read_link(&w->cur, name, &text, err);
    if (rc == 0) {
        tci_buf_append_byte(&text, '/');
        tci_buf_append_str(&text, tci_buf_str(&w->rest));
        rc = tci_buf_error(&text, err);
    }
    if (rc < 0) {
        tci_buf_done(&text);
        return rc;
    }
    tci_buf_done(&w->rest);
    w->rest = text;
    return text.ptr[0] == '/' ? start(w, err) : 0;
}

static int go_up(walk *w, tc_err *err)
{
    int rc = move_to(w, &w->cur, "..", 0, err);
    size_t slash = tci_str_rfind_byte(tci_buf_str(&w->real), '/');
    if (rc == 0 && slash < w->real.len)
        tci_buf_truncate(&w->real, slash);
    return rc;
}

static void append_name(walk *w, const char *name, size_t len)
{
    tci_buf_append_byte(&w->real, '/');
    tci_buf_append(&w->real, name, len);
}

static int arrive(walk *w, const char *name, size_t len, const tci_wfacts *facts, tc_err *err)
{
    w->is_over = true;
    w->end = *facts;
    append_name(w, name, len);
    if (facts->kind == TCI_DIR_KIND_DIRECTORY)
        return w->is_probe ? move_to(w, &w->cur, name, TCI_DIR_NO_FOLLOW, err) : 0;
    if (w->is_probe || (w->nlinks == 0 && !w->is_blind))
        return 0;
    return tci_file_openat((tci_file){w->cur.fd_plus_1 - 1}, tci_str_of(name, len),
                           TCI_OPEN_PATH | TCI_OPEN_NOFOLLOW, 0, &w->file, err);
}

/* One component. NOT_FOUND and others: there is nothing there. */
static int advance(walk *w, tc_err *err)
{
    char name[TCI_NAME_MAX + 1];
    size_t len;
    bool is_too_long;
    tci_wstep *step;
    if (!next_name(w, name, &len, &is_too_long)) {
        w->is_over = true;
        return tci_wfacts_look(w->t->set, &w->cur, NULL, NULL, &w->end, err);
    }
    if (is_too_long)
        return tc_err_set_os(err, TC_E_INVALID, ENAMETOOLONG, "name too long");
    if (len == 2 && memcmp(name, "..", 2) == 0)
        return go_up(w, err);
    int rc = add_step(w, name, len, &step, err);
    if (rc == 0)
        rc = tci_wfacts_look(w->t->set, &w->cur, name, &w->t->own, &step->found, err);
    if (rc < 0)
        return rc;
    if (step->found.kind == TCI_DIR_KIND_SYMLINK)
        return follow(w, name, err);
    if (is_last(w))
        return arrive(w, name, len, &step->found, err);
    if (step->found.kind != TCI_DIR_KIND_DIRECTORY)
        return tc_err_set_os(err, TC_E_DENIED, ENOTDIR, "'%s' is no directory", name);
    rc = move_to(w, &w->cur, name, TCI_DIR_NO_FOLLOW, err);
    if (rc == 0)
        append_name(w, name, len);
    return rc;
}

/* Does the failure mean that there is no target (yet)? */
static bool means_missing(int rc, const tc_err *err)
{
    if (rc == TC_E_BUSY || rc == TC_E_NO_MEMORY)
        return false;
    return err->os != 0 && err->os != EACCES && err->os != EPERM;
}

static int walk_all(walk *w, tc_err *err)
{
    tci_buf_append(&w->rest, w->t->path, w->t->path_len);
    int rc = tci_buf_error(&w->rest, err);
    if (rc == 0)
        rc = start(w, err);
    while (rc == 0 && !w->is_over)
        rc = advance(w, err);
    if (rc < 0 && means_missing(rc, err)) {
        w->end = (tci_wfacts){.exists = false};
        rc = 0;
    }
    w->misses = w->is_probe && tci_dir_is_open(&w->cur) && tci_notifier_misses(&w->cur);
    if (rc == 0)
        rc = tci_buf_error(&w->real, err);
    return rc < 0 ? tc_err_wrap(err, "cannot watch '%.*s'", (int)w->t->path_len, w->t->path) : 0;
}

static void walk_init(walk *w, tci_wtarget *t)
{
    *w = (walk){.t = t, .file = TCI_FILE_NONE};
    tci_buf_init(&w->real, TCI_BUF_MAX);
    tci_buf_init(&w->rest, TCI_BUF_MAX);
    tci_list_init(&w->steps);
}

static void walk_done(walk *w)
{
    free_steps(w->t->set, &w->steps);
    tci_dir_close(&w->cur);
    tci_file_close(&w->file);
    tci_buf_done(&w->real);
    tci_buf_done(&w->rest);
}

int tci_wtarget_misses(tci_wtarget *t, bool *ret_misses, tc_err *err)
{
    walk w;
    walk_init(&w, t);
    w.is_probe = true;
    int rc = walk_all(&w, err);
    if (rc == 0)
        *ret_misses = w.misses;
    walk_done(&w);
    return rc;
}

/* ---- taking it in ---- */

static bool same_steps(const tci_list *a, const tci_list *b)
{
    tci_link *i = tci_list_first(a), *j = tci_list_first(b);
    for (; i != NULL && j != NULL; i = tci_list_next(a, i), j = tci_list_next(b, j)) {
        const tci_wstep *x = TCI_CONTAINER(i, tci_wstep, link);
        const tci_wstep *y = TCI_CONTAINER(j, tci_wstep, link);
        if (x->dir_dev != y->dir_dev || x->dir_ino != y->dir_ino ||
            !tci_wfacts_same_thing(&x->found, &y->found) || x->name_len != y->name_len ||
            memcmp(x->name, y->name, x->name_len) != 0)
            return false;
    }
    return i == NULL && j == NULL;
}

static void take_steps(tci_wtarget *t, tci_list *steps)
{
    tci_list was;
    tci_list_init(&was);
    for (tci_link *k = tci_list_pop_front(&t->steps); k != NULL; k = tci_list_pop_front(&t->steps))
        tci_list_push_back(&was, k);
    for (tci_link *k = tci_list_pop_front(steps); k != NULL; k = tci_list_pop_front(steps))
        tci_list_push_back(&t->steps, k);
    free_steps(t->set, &was); /* last, so that watches that stay needed stay */
}

static int take_root(tci_wtarget *t, const walk *w, tc_err *err)
{
    bool is_dir = w->end.exists && w->end.kind == TCI_DIR_KIND_DIRECTORY;
    tci_wdir *root = t->root;
    if (root != NULL && (!is_dir || root->dev != w->end.dev || root->ino != w->end.ino)) {
        t->root = NULL;
        tci_wdir_drop(root, false);
    }
    if (!is_dir)
        return 0;
    path_of_cur(w, &t->real); /* real of the walk is that of the end by now */
    if (!tci_buf_ok(&t->real))
        return tci_err_no_memory(err);
    if (t->root == NULL)
        return tci_wdir_new(t, NULL, TC_STR(""), w->end.dev, w->end.ino, &t->root, err);
    if (t->root->is_stale || t->root->is_unreadable)
        tci_wdir_touch(t->root);
    return 0;
}

/* A file that is reached by a link or in a directory that cannot be watched is watched itself. */
static int take_file(tci_wtarget *t, const walk *w, tc_err *err)
{
    if (!tci_file_is_open(w->file) || t->set->mode == TCI_OPS_WATCH_POLLING) {
        tci_wplace_leave(t->set, &t->file);
        return 0;
    }
    const tci_dir at = {w->file.fd + 1};
    int rc = tci_wplace_use(t->set, &t->file, w->end.dev, w->end.ino, &at, t->path, err);
    return rc == TC_E_DENIED || rc == TC_E_NOT_FOUND ? 0 : rc; /* its directory has to do */
}

int tci_wtarget_scan(tci_wtarget *t, tc_err *err)
{
    walk w;
    walk_init(&w, t);
    int rc = walk_all(&w, err);
    if (rc == 0) {
        if (t->is_told || !same_steps(&t->steps, &w.steps) || !tci_wfacts_same(&t->own, &w.end))
            tci_wreport(t, NULL, TC_STR(""));
        t->is_told = false;
        t->is_blind = w.is_blind;
        take_steps(t, &w.steps);
        rc = take_root(t, &w, err);
        if (rc == 0)
            rc = take_file(t, &w, err);
        t->own = w.end;
    }
    walk_done(&w);
    return rc;
}
