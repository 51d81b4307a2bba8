/* SPDX-License-Identifier: Apache-2.0
 *
 * Inodes that matter, the watches on them, and what a notice touches. Leaves looking to the scans.
 * Owner of the set. Invariants: a place lives as long as it has users; a watch is on the inode its
 * place is named after, because it is set by descriptor; a notice about a number that no place has
 * (any more) means nothing. */
#include "ops/watch/watch_int.h"

static tc_str place_key(const tci_wplace *p)
{
    return tci_str_of(p->id, sizeof p->id);
}

static tc_str number_key(const int32_t *number)
{
    return tci_str_of(number, sizeof *number);
}

static int place_get(tci_wset *s, uint64_t dev, uint64_t ino, tci_wplace **ret, tc_err *err)
{
    const uint64_t id[2] = {dev, ino};
    tci_wplace *p = tci_map_get(&s->places, tci_str_of(id, sizeof id));
    if (p == NULL) {
        p = tci_new(tci_wplace);
        if (p == NULL)
            return tci_err_no_memory(err);
        p->id[0] = dev;
        p->id[1] = ino;
        p->number = -1;
        tci_list_init(&p->users);
        int rc = tci_map_put(&s->places, place_key(p), p, err);
        if (rc < 0) {
            tci_free(p);
            return rc;
        }
    }
    *ret = p;
    return 0;
}

/* The watch has ended, or was taken away. */
static void forget_number(tci_wset *s, tci_wplace *p)
{
    if (p->number >= 0)
        (void)tci_map_remove(&s->numbers, number_key(&p->number));
    p->number = -1;
}

static void drop_if_unused(tci_wset *s, tci_wplace *p)
{
    if (!tci_list_is_empty(&p->users))
        return;
    if (p->number >= 0)
        tci_notifier_remove(&s->notifier, p->number);
    forget_number(s, p);
    (void)tci_map_remove(&s->places, place_key(p));
    tci_free(p);
}

/* Two names of one inode, which some file systems have: all its users get its notices. */
static void absorb(tci_wset *s, tci_wplace *p, tci_wplace *other)
{
    TCI_LIST_EACH (&other->users, k) {
        tci_link_remove(k);
        tci_list_push_back(&p->users, k);
        TCI_CONTAINER(k, tci_wuser, link)->place = p;
    }
    if (p->ndirs != 0 && other->ndirs != 0)
        s->ndirectories--;
    p->ndirs += other->ndirs;
    (void)tci_map_remove(&s->places, place_key(other));
    tci_free(other);
}

/* Put a watch on it. 0 also when that made the native mode fail. */
static int place_watch(tci_wset *s, tci_wplace *p, const tci_dir *at, const char *path, tc_err *err)
{
    int32_t number;
    int rc = tci_notifier_add(&s->notifier, at, path, &number, err);
    if (rc == TC_E_DENIED || rc == TC_E_NOT_FOUND || rc == TC_E_NO_MEMORY)
        return rc;
    if (rc == 0) { /* NO_MEMORY is the only way to fail from here on */
        s->nadded++;
        tci_wplace *other = tci_map_remove(&s->numbers, number_key(&number));
        if (other != NULL)
            absorb(s, p, other);
        p->number = number;
        rc = tci_map_put(&s->numbers, number_key(&p->number), p, err);
        if (rc < 0) {
            tci_notifier_remove(&s->notifier, number);
            p->number = -1;
        }
        return rc;
    }
    tci_wset_native_failed(s, err);
    return 0;
}

static void join(tci_wset *s, tci_wuser *u, tci_wplace *p)
{
    if (u->place == p)
        return;
    tci_list_push_back(&p->users, &u->link);
    u->place = p;
    if (u->use == TCI_WUSE_DIR && p->ndirs++ == 0)
        s->ndirectories++;
}

int tci_wplace_use(tci_wset *s, tci_wuser *u, uint64_t dev, uint64_t ino, const tci_dir *at,
                   const char *path, tc_err *err)
{
    tci_wplace *p;
    if (u->place != NULL && (u->place->id[0] != dev || u->place->id[1] != ino))
        tci_wplace_leave(s, u);
    int rc = place_get(s, dev, ino, &p, err);
    if (rc < 0)
        return rc;
    join(s, u, p);
    if (s->ndirectories > s->max_directories)
        return tc_err_set(err, TC_E_INVALID, "watched paths exceed %llu directories",
                          (unsigned long long)s->max_directories);
    if (s->mode == TCI_OPS_WATCH_POLLING || s->is_failed || p->number >= 0)
        return 0;
    return place_watch(s, p, at, path, err);
}

void tci_wplace_leave(tci_wset *s, tci_wuser *u)
{
    tci_wplace *p = u->place;
    if (p == NULL)
        return;
    tci_link_remove(&u->link);
    u->place = NULL;
    if (u->use == TCI_WUSE_DIR && --p->ndirs == 0)
        s->ndirectories--;
    drop_if_unused(s, p);
}

void tci_wset_unwatch(tci_wset *s)
{
    size_t at = 0;
    for (tci_wplace *p = tci_map_next(&s->places, &at); p != NULL;
         p = tci_map_next(&s->places, &at))
        forget_number(s, p);
}

/* ---- notices ---- */

static void touch_dir(tci_wdir *d, const tci_notice *n)
{
    if (n->flags & TCI_NOTICE_GONE)
        tci_wdir_touch(d); /* if it is still there, it needs a new watch */
    if (n->name.len != 0) {
        if (!tci_wtarget_excludes(d->target, n->name))
            tci_wdir_touch_name(d, n->name,
                                (n->flags & (TCI_NOTICE_ENTRY | TCI_NOTICE_CONTENT)) != 0);
    } else if (d->parent == NULL && (n->flags & ~(unsigned)TCI_NOTICE_CLOSED) != 0) {
        tci_wtarget_touch(d->target, (n->flags & TCI_NOTICE_CONTENT) != 0);
        tci_wdir_visit(d); /* its rights may be others now */
    }
}

static void touch_step(tci_wstep *step, const tci_notice *n)
{
    bool is_own = n->name.len == 0 && (n->flags & (TCI_NOTICE_MOVED | TCI_NOTICE_GONE)) != 0;
    bool is_name = n->name.len == step->name_len &&
                   memcmp(n->name.ptr, step->name, step->name_len) == 0 && n->name.len != 0;
    if (is_name)
        tci_wtarget_touch(step->target, (n->flags & ~(unsigned)TCI_NOTICE_CLOSED) != 0);
    else if (is_own)
        tci_wtarget_touch(step->target, false);
}

static void touch_users(tci_wplace *p, const tci_notice *n)
{
    TCI_LIST_EACH (&p->users, k) {
        tci_wuser *u = TCI_CONTAINER(k, tci_wuser, link);
        switch (u->use) {
        case TCI_WUSE_DIR:
            touch_dir(TCI_CONTAINER(u, tci_wdir, user), n);
            break;
        case TCI_WUSE_STEP:
            touch_step(TCI_CONTAINER(u, tci_wstep, user), n);
            break;
        case TCI_WUSE_FILE:
            tci_wtarget_touch(TCI_CONTAINER(u, tci_wtarget, file),
                              (n->flags & TCI_NOTICE_CONTENT) != 0);
            break;
        }
    }
}

void tci_wset_drain(tci_wset *s, size_t max)
{
    tci_notice n;
    tc_err err;
    int rc = 0;
    if (s->mode == TCI_OPS_WATCH_POLLING || s->notifier.fd_plus_1 == 0)
        return;
    for (size_t i = 0; i < max; i++) {
        rc = tci_notifier_next(&s->notifier, &n, &err);
        if (rc <= 0)
            break;
        if (n.flags & TCI_NOTICE_LOST) {
            s->is_all = s->is_overflow = true;
            continue;
        }
        tci_wplace *p = tci_map_get(&s->numbers, number_key(&n.number));
        if (p == NULL)
            continue;
        if (n.flags & TCI_NOTICE_GONE)
            forget_number(s, p);
        touch_users(p, &n);
    }
    if (rc < 0)
        tci_wset_native_failed(s, &err);
}
