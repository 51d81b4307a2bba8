/* SPDX-License-Identifier: Apache-2.0
 *
 * Listed directories: what is in them, looked at again as a whole or only the names that notices
 * told, and what differs. Leaves the way to a target's own directory to watch_target.c. Owner of the
 * set; scans may block.
 *
 * Invariants: the watch is set before the listing is read, so what happens after is noticed; a
 * listing is only ever replaced after the new one has been read completely; a directory is read only
 * when it is the inode that its entry is about. */
#include "ops/watch/watch_int.h"

#include "base/hash.h"
#include "plat/file.h"

#include <errno.h>
#include <stdlib.h>

enum {
    FEW_NAMES =
        64, /* with this many (and one in eight of the entries) names are looked at singly */
    CANCEL_EVERY = 256,
    NAMES_SLACK = 4096
};

/* ---- facts ---- */

bool tci_wfacts_same_thing(const tci_wfacts *a, const tci_wfacts *b)
{
    return a->exists == b->exists && a->kind == b->kind && a->dev == b->dev && a->ino == b->ino;
}

static bool same_size_and_time(const tci_wfacts *a, const tci_wfacts *b)
{
    return a->size == b->size && a->modified.sec == b->modified.sec &&
           a->modified.nsec == b->modified.nsec;
}

bool tci_wfacts_same(const tci_wfacts *a, const tci_wfacts *b)
{
    return tci_wfacts_same_thing(a, b) && same_size_and_time(a, b) &&
           !(a->has_hash && b->has_hash && a->hash != b->hash);
}

static bool is_recent(const tci_wset *s, tci_instant t)
{
    int64_t age = s->now.sec - t.sec;
    return age <= TCI_WATCH_HASH_SECONDS && age >= -60;
}

static void take_hash(tci_wset *s, const tci_dir *at, const char *name, tci_wfacts *f)
{
    tc_err err;
    if (tci_dir_read_file(at, name, false, TCI_WATCH_HASH_BYTES, &s->content, &err) < 0)
        return; /* size and time have to do */
    f->hash = tci_hash64(s->content.ptr, s->content.len, s->seed);
    f->has_hash = true;
}

int tci_wfacts_look(tci_wset *s, const tci_dir *at, const char *name, const tci_wfacts *was,
                    tci_wfacts *ret, tc_err *err)
{
    tci_dir_stat st;
    int rc = tci_dir_stat_at(at, name, false, &st, err);
    if (rc < 0)
        return rc;
    tci_wfacts f = {.exists = true, .kind = st.kind, .dev = st.dev, .ino = st.ino};
    if (st.kind != TCI_DIR_KIND_DIRECTORY) {
        f.size = st.size_bytes;
        f.modified = st.modified_at;
    }
    if (s->mode == TCI_OPS_WATCH_POLLING && st.kind == TCI_DIR_KIND_FILE && st.size_bytes != 0 &&
        st.size_bytes <= TCI_WATCH_HASH_BYTES) {
        f.is_fresh = is_recent(s, st.modified_at);
        if (f.is_fresh || (was != NULL && was->is_fresh && same_size_and_time(was, &f)))
            take_hash(s, at, name, &f);
    }
    *ret = f;
    return 0;
}

/* ---- directories ---- */

bool tci_wtarget_excludes(const tci_wtarget *t, tc_str name)
{
    if (t->exclude_hidden && name.len != 0 && name.ptr[0] == '.')
        return true;
    for (size_t i = 0; i < t->nnames; i++)
        if (tci_str_eq(t->names[i], name))
            return true;
    return false;
}

void tci_wdir_visit(tci_wdir *d)
{
    if (!tci_link_is_in(&d->dirty))
        tci_list_push_back(&d->target->set->dirty_dirs, &d->dirty);
}

void tci_wdir_touch(tci_wdir *d)
{
    d->is_whole = true;
    tci_wdir_visit(d);
}

static void forget_touched(tci_wdir *d)
{
    d->target->set->touched_bytes -= d->touched.len;
    tci_buf_clear(&d->touched);
    tci_buf_trim(&d->touched, 0);
    d->ntouched = d->touched_last = 0;
}

void tci_wdir_touch_name(tci_wdir *d, tc_str name, bool is_told)
{
    tci_wset *s = d->target->set;
    tci_buf *b = &d->touched;
    tci_wdir_visit(d);
    if (d->is_whole && (d->is_told || !is_told))
        return;
    if (d->ntouched != 0 && tci_str_eq(tci_str(b->ptr + d->touched_last + 1), name)) {
        b->ptr[d->touched_last] |= (char)is_told;
        return;
    }
    size_t was = b->len;
    tci_buf_append_byte(b, (char)is_told);
    tci_buf_append_str(b, name);
    tci_buf_append_byte(b, '\0');
    s->touched_bytes += b->len - was;
    d->touched_last = was;
    d->ntouched++;
    if (tci_buf_ok(b) && s->touched_bytes <= TCI_WATCH_NAME_BYTES)
        return;
    /* Too many to remember: then it is this directory that changed. */
    forget_touched(d);
    d->is_whole = d->is_told = true;
}

int tci_wdir_new(tci_wtarget *t, tci_wdir *parent, tc_str name, uint64_t dev, uint64_t ino,
                 tci_wdir **ret, tc_err *err)
{
    tci_wdir *d = tci_mem_alloc(sizeof *d + name.len + 1);
    if (d == NULL)
        return tci_err_no_memory(err);
    d->user.use = TCI_WUSE_DIR;
    d->target = t;
    d->parent = parent;
    d->dev = dev;
    d->ino = ino;
    tci_buf_init(&d->names, TCI_BUF_MAX);
    tci_buf_init(&d->touched, TCI_BUF_MAX);
    d->name_len = name.len;
    memcpy(d->name, name.ptr != NULL ? name.ptr : "", name.len);
    tci_list_push_back(&t->set->dirs, &d->all);
    tci_wdir_touch(d);
    *ret = d;
    return 0;
}

static tc_str entry_name(const tci_wdir *d, const tci_wentry *e)
{
    return tci_str_of(d->names.ptr + e->name_at, e->name_len);
}

static void free_dir(tci_wdir *d)
{
    forget_touched(d);
    tci_buf_done(&d->touched);
    tci_buf_done(&d->names);
    tci_free(d->entries);
    tci_free(d);
}

void tci_wdir_drop(tci_wdir *top, bool is_silent)
{
    /* The list grows while it is walked; nothing is freed before the end, because paths are put
     * together from parents. */
    tci_list *gone = &top->target->set->gone;
    tci_link_remove(&top->all);
    tci_list_push_back(gone, &top->all);
    for (tci_link *k = tci_list_first(gone); k != NULL; k = tci_list_next(gone, k)) {
        tci_wdir *d = TCI_CONTAINER(k, tci_wdir, all);
        tci_link_remove(&d->dirty);
        tci_wplace_leave(d->target->set, &d->user);
        for (size_t i = 0; i < d->nentries; i++) {
            tci_wdir *below = d->entries[i].dir;
            if (!is_silent)
                tci_wreport(d->target, d, entry_name(d, &d->entries[i]));
            if (below == NULL)
                continue;
            tci_link_remove(&below->all);
            tci_list_push_back(gone, &below->all);
        }
    }
    for (tci_link *k = tci_list_pop_front(gone); k != NULL; k = tci_list_pop_front(gone))
        free_dir(TCI_CONTAINER(k, tci_wdir, all));
}

/* ---- differences ---- */

/* It has gone from d. */
static void entry_lost(tci_wdir *d, tci_wentry *e)
{
    tci_wreport(d->target, d, entry_name(d, e));
    if (e->dir != NULL)
        tci_wdir_drop(e->dir, false);
    e->dir = NULL;
}

/* e is what there is now, already in d; was is what there was. */
static int entry_found(tci_wdir *d, tci_wentry *e, tci_wentry *was, tc_err *err)
{
    tci_wtarget *t = d->target;
    if (was == NULL || !tci_wfacts_same(&was->facts, &e->facts))
        tci_wreport(t, d, entry_name(d, e));
    e->dir = was != NULL ? was->dir : NULL;
    if (e->dir != NULL && !tci_wfacts_same_thing(&was->facts, &e->facts)) {
        tci_wdir_drop(e->dir, false);
        e->dir = NULL;
    }
    if (e->dir != NULL && (e->dir->is_stale || e->dir->is_unreadable))
        tci_wdir_touch(e->dir);
    if (e->dir != NULL || !t->is_recursive || e->facts.kind != TCI_DIR_KIND_DIRECTORY)
        return 0;
    return tci_wdir_new(t, d, entry_name(d, e), e->facts.dev, e->facts.ino, &e->dir, err);
}

/* Where name is, or would be. */
static size_t find_entry(const tci_wdir *d, tc_str name, bool *ret_is_there)
{
    size_t low = 0, high = d->nentries;
    *ret_is_there = false;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        int order = tci_str_cmp(entry_name(d, &d->entries[mid]), name);
        if (order == 0) {
            *ret_is_there = true;
            return mid;
        }
        if (order < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* ---- the whole listing ---- */

typedef struct listing {
    tci_buf names; /* a byte with the kind, the name, NUL */
    tc_str *order;
    size_t count;
    tci_wentry *entries;
} listing;

static int compare_names(const void *a, const void *b)
{
    return tci_str_cmp(*(const tc_str *)a, *(const tc_str *)b);
}

static int read_names(tci_wdir *d, const tci_dir *dir, listing *l, tc_err *err)
{
    tci_dir_reader r;
    tci_dir_entry e;
    int rc = tci_dir_read_start(&r, dir, d->target->set->read_buf, err);
    while (rc >= 0 && (rc = tci_dir_read_next(&r, &e, err)) > 0) {
        if (tci_wtarget_excludes(d->target, e.name))
            continue;
        tci_buf_append_byte(&l->names, (char)e.kind);
        tci_buf_append(&l->names, e.name.ptr, e.name.len + 1);
        l->count++;
    }
    return rc < 0 ? rc : tci_buf_error(&l->names, err);
}

static int sort_names(listing *l, tc_err *err)
{
    size_t at = 0;
    l->order = tci_mem_array(l->count, sizeof *l->order);
    l->entries = tci_mem_array(l->count, sizeof *l->entries);
    if (l->order == NULL || l->entries == NULL)
        return tci_err_no_memory(err);
    for (size_t i = 0; i < l->count; i++) {
        l->order[i] = tci_str(l->names.ptr + at + 1);
        at += l->order[i].len + 2;
    }
    qsort(l->order, l->count, sizeof *l->order, compare_names);
    return 0;
}

/* The facts of all of them. Those that have gone meanwhile are left out. */
static int look_at_all(tci_wdir *d, const tci_dir *dir, listing *l, const tci_cancel *cancel,
                       tc_err *err)
{
    tci_wset *s = d->target->set;
    size_t n = 0, old = 0;
    for (size_t i = 0; i < l->count; i++) {
        tc_str name = l->order[i];
        tci_wentry *e = &l->entries[n];
        int rc = i % CANCEL_EVERY == 0 ? tci_cancel_check(cancel, err) : 0;
        if (rc < 0)
            return rc;
        while (old < d->nentries && tci_str_cmp(entry_name(d, &d->entries[old]), name) < 0)
            old++;
        bool is_known = old < d->nentries && tci_str_eq(entry_name(d, &d->entries[old]), name);
        rc = tci_wfacts_look(s, dir, name.ptr, is_known ? &d->entries[old].facts : NULL, &e->facts,
                             err);
        if (rc == TC_E_NOT_FOUND)
            continue;
        if (rc < 0) /* no right to look: that it is there is all there is to know */
            e->facts = (tci_wfacts){.exists = true, .kind = TCI_DIR_KIND_UNKNOWN};
        e->name_at = (size_t)(name.ptr - l->names.ptr);
        e->name_len = name.len;
        n++;
    }
    l->count = n;
    return 0;
}

/* Make it d's. */
static int install(tci_wdir *d, listing *l, tc_err *err)
{
    tci_wentry *was = d->entries;
    size_t nwas = d->nentries, at = 0;
    tci_buf was_names = d->names;
    int rc = 0;
    tc_err first;
    for (size_t i = 0; i < l->count || at < nwas;) {
        int order = i == l->count ? 1 : -1;
        if (i < l->count && at < nwas)
            order = tci_str_cmp(
                tci_str_of(l->names.ptr + l->entries[i].name_at, l->entries[i].name_len),
                tci_str_of(was_names.ptr + was[at].name_at, was[at].name_len));
        if (order > 0) {
            entry_lost(d, &was[at++]); /* still in d, by the old names */
            continue;
        }
        d->names = l->names;
        int one = entry_found(d, &l->entries[i++], order == 0 ? &was[at++] : NULL, &first);
        d->names = was_names;
        if (one < 0 && rc == 0) {
            rc = one;
            *err = first;
        }
    }
    tci_free(was);
    tci_buf_done(&was_names);
    d->names = l->names;
    d->entries = l->entries;
    d->nentries = d->cap = l->count;
    l->entries = NULL;
    tci_buf_init(&l->names, 0);
    return rc;
}

static int list_all(tci_wdir *d, const tci_dir *dir, const tci_cancel *cancel, tc_err *err)
{
    listing l = {.count = 0};
    tci_buf_init(&l.names, TCI_BUF_MAX);
    int rc = read_names(d, dir, &l, err);
    if (rc == 0)
        rc = sort_names(&l, err);
    if (rc == 0)
        rc = look_at_all(d, dir, &l, cancel, err);
    if (rc == 0)
        rc = install(d, &l, err);
    tci_free(l.order);
    tci_free(l.entries);
    tci_buf_done(&l.names);
    return rc;
}

/* ---- single names ---- */

static int insert(tci_wdir *d, size_t at, tc_str name, const tci_wfacts *facts, tc_err *err)
{
    if (d->nentries == d->cap) {
        size_t cap = d->cap + d->cap / 2 + 8;
        tci_wentry *grown = tci_mem_resize(d->entries, cap * sizeof *grown);
        if (grown == NULL)
            return tci_err_no_memory(err);
        d->entries = grown;
        d->cap = cap;
    }
    size_t name_at = d->names.len + 1;
    tci_buf_append_byte(&d->names, (char)facts->kind);
    tci_buf_append_str(&d->names, name);
    tci_buf_append_byte(&d->names, '\0');
    int rc = tci_buf_error(&d->names, err);
    if (rc < 0)
        return rc;
    tci_wentry *e = &d->entries[at];
    memmove(e + 1, e, (d->nentries - at) * sizeof *e);
    *e = (tci_wentry){.facts = *facts, .name_at = name_at, .name_len = name.len};
    d->nentries++;
    return 0;
}

static int look_at_name(tci_wdir *d, const tci_dir *dir, tc_str name, tc_err *err)
{
    tci_wset *s = d->target->set;
    tci_wfacts facts;
    bool is_there;
    size_t at = find_entry(d, name, &is_there);
    tci_wentry was = is_there ? d->entries[at] : (tci_wentry){.dir = NULL};
    int rc = tci_wfacts_look(s, dir, name.ptr, is_there ? &was.facts : NULL, &facts, err);
    if (rc == TC_E_NOT_FOUND) {
        if (!is_there)
            return 0;
        entry_lost(d, &d->entries[at]);
        d->nentries--;
        memmove(&d->entries[at], &d->entries[at + 1], (d->nentries - at) * sizeof *d->entries);
        return 0;
    }
    if (rc < 0)
        facts = (tci_wfacts){.exists = true, .kind = TCI_DIR_KIND_UNKNOWN};
    rc = is_there ? 0 : insert(d, at, name, &facts, err);
    if (rc < 0)
        return rc;
    d->entries[at].facts = facts;
    return entry_found(d, &d->entries[at], is_there ? &was : NULL, err);
}

static int look_at_touched(tci_wdir *d, const tci_dir *dir, tc_err *err)
{
    int rc = 0;
    for (size_t at = 0; at < d->touched.len && rc == 0;) {
        tc_str name = tci_str(d->touched.ptr + at + 1);
        rc = look_at_name(d, dir, name, err);
        at += name.len + 2;
    }
    if (d->names.len > NAMES_SLACK + d->nentries * (TCI_NAME_MAX + 2))
        tci_wdir_touch(d); /* mostly names of entries that are no more: make it anew */
    return rc;
}

/* ---- one scan of one directory ---- */

/* It is not where it was. Whoever has its entry looks again. */
static void is_gone(tci_wdir *d)
{
    d->is_stale = true;
    if (d->parent != NULL)
        tci_wdir_touch_name(d->parent, tci_str_of(d->name, d->name_len), false);
    else
        tci_wtarget_touch(d->target, false);
}

static void forget_entries(tci_wdir *d)
{
    for (size_t i = 0; i < d->nentries; i++)
        entry_lost(d, &d->entries[i]);
    d->nentries = 0;
    tci_buf_clear(&d->names);
    forget_touched(d);
    d->is_whole = d->is_told = false;
}

/* It cannot be read: of a target that is an error; below it is left out until its entry changes. */
static int is_closed(tci_wdir *d, int rc)
{
    if (d->parent == NULL)
        return rc;
    if (!d->is_unreadable)
        tci_wreport(d->target, d, TC_STR(""));
    forget_entries(d);
    d->is_unreadable = true;
    return 0;
}

static int failed(tci_wdir *d, int rc, const tc_err *err)
{
    bool is_gone_os = err->os == ENOENT || err->os == ENOTDIR || err->os == ELOOP;
    if (rc == TC_E_BUSY || rc == TC_E_NO_MEMORY || rc == TC_E_CANCELLED || rc == TC_E_INVALID)
        return err->os == ENAMETOOLONG ? is_closed(d, rc) : rc;
    if (!is_gone_os)
        return is_closed(d, rc);
    if (!d->is_stale) {
        is_gone(d);
        return 0;
    }
    /* Found there and gone again: leave it until the next notice, or the next round of polling. */
    forget_entries(d);
    d->is_unreadable = true;
    return 0;
}

/* Open it and see that it is itself, and watched. */
static int open_it(tci_wdir *d, tci_dir *ret, tc_err *err)
{
    tci_wset *s = d->target->set;
    tci_dir_stat st;
    tci_buf_clear(&s->path);
    tci_buf_append(&s->path, d->target->real.ptr, d->target->real.len - 1);
    if (d->parent != NULL) {
        tci_buf_append_byte(&s->path, '/');
        tci_wreport_rel(d, &s->path);
    }
    tci_buf_append_byte(&s->path, '\0');
    int rc = tci_buf_error(&s->path, err);
    if (rc == 0)
        rc = tci_dir_open(NULL, s->path.ptr, TCI_DIR_NO_FOLLOW, ret, err);
    if (rc < 0)
        return rc;
    rc = tci_dir_stat_at(ret, NULL, false, &st, err);
    if (rc == 0 && (st.dev != d->dev || st.ino != d->ino))
        rc = tc_err_set_os(err, TC_E_NOT_FOUND, ENOENT, "'%s' was replaced", s->path.ptr);
    if (rc == 0)
        rc = tci_wplace_use(s, &d->user, st.dev, st.ino, ret, s->path.ptr, err);
    if (rc < 0)
        tci_dir_close(ret);
    return rc;
}

static void tell_touched(tci_wdir *d)
{
    if (d->is_told)
        tci_wreport(d->target, d, TC_STR(""));
    for (size_t at = 0; at < d->touched.len;) {
        tc_str name = tci_str(d->touched.ptr + at + 1);
        if (d->touched.ptr[at] != 0)
            tci_wreport(d->target, d, name);
        at += name.len + 2;
    }
}

int tci_wdir_scan(tci_wdir *d, const tci_cancel *cancel, tc_err *err)
{
    tci_dir dir = {0};
    tell_touched(d);
    int rc = open_it(d, &dir, err);
    if (rc < 0)
        return failed(d, rc, err);
    bool is_whole = d->is_whole || d->ntouched > FEW_NAMES + d->nentries / 8;
    d->is_whole = false;
    rc = is_whole ? list_all(d, &dir, cancel, err) : look_at_touched(d, &dir, err);
    tci_dir_close(&dir);
    if (rc < 0) {
        d->is_whole = true;
        return failed(d, rc, err);
    }
    d->is_told = d->is_stale = d->is_unreadable = false;
    forget_touched(d);
    return 0;
}
