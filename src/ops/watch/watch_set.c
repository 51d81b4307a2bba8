/* SPDX-License-Identifier: Apache-2.0
 *
 * A watcher's knowledge as a whole: made from the options, opened, scanned in rounds, and moved from
 * notices to polling when those cannot be had. Leaves when to scan to watch.c. Owner of the set;
 * open and scan block.
 *
 * Invariant: after a scan without error, what is not marked dirty has been looked at since the last
 * notice about it was read. */
#include "ops/watch/watch_int.h"

enum {
    DRAIN_MAX = 100 * 1000,
    DRAIN_EVERY = 32, /* directories; so that the system's queue does not run over during a scan */
    SCRATCH_KEEP = 4096
};

/* ---- making and freeing ---- */

static int copy_text(tc_str s, char **ret, tc_err *err)
{
    if (s.len != 0 && memchr(s.ptr, '\0', s.len) != NULL)
        return tc_err_set(err, TC_E_INVALID, "a path to watch has a NUL byte");
    *ret = tci_mem_cstr(s);
    return *ret != NULL ? 0 : tci_err_no_memory(err);
}

static int copy_names(tci_wtarget *t, const tci_ops_watch_target *from, tc_err *err)
{
    size_t total = 0;
    for (size_t i = 0; i < from->nnames; i++)
        total += from->names[i].len;
    t->names = tci_mem_array(from->nnames, sizeof *t->names);
    t->names_text = tci_mem_alloc(total);
    if (t->names == NULL || t->names_text == NULL)
        return tci_err_no_memory(err);
    char *to = t->names_text;
    for (size_t i = 0; i < from->nnames; i++) {
        tc_str name = from->names[i];
        if (name.len != 0)
            memcpy(to, name.ptr, name.len);
        t->names[t->nnames++] = tci_str_of(to, name.len);
        to += name.len;
    }
    return 0;
}

static int target_init(tci_wset *s, tci_wtarget *t, const tci_ops_watch_target *from, tc_err *err)
{
    t->set = s;
    t->file.use = TCI_WUSE_FILE;
    tci_list_init(&t->steps);
    tci_buf_init(&t->real, TCI_BUF_MAX);
    t->is_recursive = from->is_recursive;
    t->exclude_hidden = from->exclude_hidden;
    if (from->path.len == 0)
        return tc_err_set(err, TC_E_INVALID, "a path to watch is empty");
    int rc = copy_text(from->path, &t->path, err);
    t->path_len = from->path.len;
    if (rc == 0)
        rc = copy_names(t, from, err);
    return rc;
}

int tci_wset_new(const tci_ops_watch_options *options, tci_wset **ret, tc_err *err)
{
    if (options->ntargets == 0)
        return tc_err_set(err, TC_E_INVALID, "nothing to watch");
    tci_wset *s = tci_new(tci_wset);
    if (s == NULL)
        return tci_err_no_memory(err);
    s->mode = options->mode;
    s->max_directories = options->max_directories;
    tci_random_bytes(&s->seed, sizeof s->seed);
    tci_map_init(&s->places, s->seed);
    tci_map_init(&s->numbers, s->seed);
    tci_list_init(&s->dirs);
    tci_list_init(&s->dirty_dirs);
    tci_list_init(&s->dirty_targets);
    tci_list_init(&s->gone);
    tci_buf *const bufs[] = {&s->path, &s->content, &s->report};
    for (size_t i = 0; i < TCI_ARRAY_LEN(bufs); i++)
        tci_buf_init(bufs[i], TCI_BUF_MAX);
    s->targets = tci_mem_array(options->ntargets, sizeof *s->targets);
    int rc = s->targets != NULL ? 0 : tci_err_no_memory(err);
    for (size_t i = 0; i < options->ntargets && rc == 0; i++)
        rc = target_init(s, &s->targets[s->ntargets++], &options->targets[i], err);
    if (rc < 0) {
        tci_wset_free(s);
        return rc;
    }
    *ret = s;
    return 0;
}

void tci_wset_free(tci_wset *s)
{
    if (s == NULL)
        return;
    tci_wset_unwatch(s); /* first, so that no watch is taken away singly */
    tci_notifier_close(&s->notifier);
    for (size_t i = 0; i < s->ntargets; i++)
        tci_wtarget_done(&s->targets[i]);
    tci_free(s->targets);
    tci_map_done(&s->places);
    tci_map_done(&s->numbers);
    tci_wreport_clear(s);
    tci_buf_done(&s->path);
    tci_buf_done(&s->content);
    tci_buf_done(&s->report);
    tci_free(s->read_buf);
    tci_free(s);
}

/* ---- what to do ---- */

bool tci_wset_is_dirty(const tci_wset *s)
{
    return s->is_all || s->is_failed || !tci_list_is_empty(&s->dirty_dirs) ||
           !tci_list_is_empty(&s->dirty_targets);
}

bool tci_wset_has_blind(const tci_wset *s)
{
    for (size_t i = 0; i < s->ntargets; i++)
        if (s->targets[i].is_blind)
            return true;
    return false;
}

void tci_wset_touch_blind(tci_wset *s)
{
    for (size_t i = 0; i < s->ntargets; i++)
        if (s->targets[i].is_blind)
            tci_wtarget_touch(&s->targets[i], false);
}

void tci_wset_native_failed(tci_wset *s, const tc_err *why)
{
    if (s->is_failed)
        return;
    s->is_failed = true;
    s->why = *why;
}

static void touch_all(tci_wset *s)
{
    s->is_all = false;
    for (size_t i = 0; i < s->ntargets; i++)
        tci_wtarget_touch(&s->targets[i], false);
    TCI_LIST_EACH (&s->dirs, k)
        tci_wdir_touch(TCI_CONTAINER(k, tci_wdir, all));
}

static void switch_to_polling(tci_wset *s)
{
    tci_wset_unwatch(s);
    s->mode = TCI_OPS_WATCH_POLLING;
    s->is_failed = false;
    s->has_switched = s->is_overflow = s->is_all = true;
}

/* ---- scanning ---- */

/* Everything that is dirty, and what becomes so by it. */
static int scan_dirty(tci_wset *s, const tci_cancel *cancel, tc_err *err)
{
    size_t ndone = 0, drains_left = 64 + s->ndirectories / DRAIN_EVERY;
    for (;;) {
        int rc = tci_cancel_check(cancel, err);
        if (rc < 0)
            return rc;
        tci_link *k = tci_list_pop_front(&s->dirty_targets);
        if (k != NULL) {
            rc = tci_wtarget_scan(TCI_CONTAINER(k, tci_wtarget, dirty), err);
        } else {
            k = tci_list_pop_front(&s->dirty_dirs);
            if (k == NULL)
                return 0;
            rc = tci_wdir_scan(TCI_CONTAINER(k, tci_wdir, dirty), cancel, err);
        }
        if (rc < 0)
            return rc;
        if (++ndone % DRAIN_EVERY == 0 && drains_left > 0) {
            drains_left--;
            tci_wset_drain(s, DRAIN_MAX);
        }
    }
}

static int scan_rounds(tci_wset *s, const tci_cancel *cancel, tc_err *err)
{
    for (int i = 0; i < TCI_WATCH_ROUNDS; i++) {
        if (s->is_failed)
            switch_to_polling(s);
        if (s->is_all)
            touch_all(s);
        s->nadded = 0;
        int rc = scan_dirty(s, cancel, err);
        if (rc < 0)
            return rc;
        tci_wset_drain(s, DRAIN_MAX);
        /* With new watches look again at once: the tree is growing. Else it waits for the next
         * scan, so that a file that is written to all the time does not keep us here. */
        if (!s->is_failed && (s->nadded == 0 || !tci_wset_is_dirty(s)))
            return 0;
    }
    return 0;
}

int tci_wset_scan(tci_wset *s, const tci_cancel *cancel, tc_err *err)
{
    s->read_buf = tci_mem_alloc(TCI_DIR_READ_BYTES);
    if (s->read_buf == NULL)
        return tci_err_no_memory(err);
    s->now = tci_clock_now();
    s->is_all |= s->mode == TCI_OPS_WATCH_POLLING;
    tci_wset_drain(s, DRAIN_MAX);
    int rc = scan_rounds(s, cancel, err);
    tci_free(s->read_buf);
    s->read_buf = NULL;
    tci_buf_clear(&s->content);
    tci_buf_trim(&s->content, SCRATCH_KEEP);
    return rc;
}

static int choose_mode(tci_wset *s, const tci_cancel *cancel, tc_err *err)
{
    bool misses = false;
    for (size_t i = 0; i < s->ntargets && !misses; i++) {
        int rc = tci_cancel_check(cancel, err);
        if (rc == 0)
            rc = tci_wtarget_misses(&s->targets[i], &misses, err);
        if (rc < 0)
            return rc;
    }
    s->mode = misses ? TCI_OPS_WATCH_POLLING : TCI_OPS_WATCH_NATIVE;
    return 0;
}

int tci_wset_open(tci_wset *s, const tci_cancel *cancel, tc_err *err)
{
    tc_err why;
    int rc = s->mode == TCI_OPS_WATCH_AUTO ? choose_mode(s, cancel, err) : 0;
    if (rc < 0)
        return rc;
    if (s->mode == TCI_OPS_WATCH_NATIVE && tci_notifier_open(&s->notifier, &why) < 0)
        tci_wset_native_failed(s, &why);
    s->is_quiet = s->is_all = true;
    rc = tci_wset_scan(s, cancel, err);
    s->is_quiet = false;
    return rc;
}
