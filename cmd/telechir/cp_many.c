/* SPDX-License-Identifier: Apache-2.0
 *
 * Small files between here and a target, many under way at a time from one thread: the link is never idle
 * between them, and nobody is woken for each. Whatever is not plain and small goes through cp_file. Any
 * thread. Invariant: every file taken is done exactly once, in the order taken but for those that had to
 * go the other way. */
#include "cp.h"

#include "env/many.h"

enum {
    SMALL_BYTES = 64 * 1024,
    THREADS = 3, /* one waits for the link while another works on files */
    GROUPS = 3,
    GROUP_MAX = 32,
    FLIGHT_MIN = 4 * GROUPS /* for one thread; with less it is not worth it */
};

/* One file under way. */
typedef struct slot {
    const cp_item *item;
    tc_result *r;
    char *buf;
    size_t cap, len;
    tci_buf path;
    tc_file_info info;
    tci_env_put put;
    tci_env_get get;
} slot;

typedef struct group {
    slot slots[GROUP_MAX];
    size_t count; /* that were begun */
} group;

/* One group is being filled, one waits for files to be open, one for content or for answers. */
typedef struct window {
    cp_job *job;
    tc_result *r; /* for cp_file */
    cp_near near;
    size_t size; /* of a group */
    uint64_t turn;
    group groups[GROUPS];
} window;

/* ---- what goes this way ---- */

static bool is_upload(const cp_item *item)
{
    return item->root->from.env == NULL;
}

static const tc_env *env_of(const cp_root *root)
{
    if ((root->from.env == NULL) == (root->to.env == NULL))
        return NULL;
    return root->from.env != NULL ? root->from.env : root->to.env;
}

static bool fits(const cp_job *job, const cp_item *item)
{
    const tc_env *env = env_of(item->root);
    return env != NULL && tci_env_has_many(env) && item->size > 0 && item->size <= SMALL_BYTES &&
           !job->is_checksum && !cp_is_below_failed(job, item);
}

unsigned cp_many_threads(const cp_job *job)
{
    const cp_item *first = job->files.count > 0 ? &job->files.items[0] : NULL;
    if (first == NULL || job->is_checksum || job->nflight == 0 || env_of(first->root) == NULL ||
        !tci_env_has_many(env_of(first->root)))
        return 0;
    return (unsigned)tci_min_u64(THREADS, job->nflight / FLIGHT_MIN);
}

static bool make_room(slot *s, size_t size, tc_err *err)
{
    if (s->cap >= size)
        return true;
    char *bigger = tci_mem_resize(s->buf, size);
    if (bigger == NULL) {
        (void)tci_err_no_memory(err);
        return false;
    }
    s->buf = bigger;
    s->cap = size;
    return true;
}

/* ---- up ---- */

/* 1: under way; 0: it has to go the other way. */
static int begin_put(window *w, slot *s, tc_err *err)
{
    const cp_item *item = s->item;
    tc_call call = TC_CALL(w->job->c->ctx, s->r);
    tc_write_options o = {.size = sizeof o, .no_sync = true};
    bool is_small = false;
    o.executable = item->is_executable ? TC_YES : TC_KEEP;
    if (!make_room(s, (size_t)item->size, err))
        return err->code;
    int rc = cp_load(item, &w->near, s->buf, s->cap, &s->len, &o.is_private, &is_small, err);
    if (rc < 0 || !is_small)
        return rc;
    tc_str to = cp_join(&s->path, item->root->to.path, item->to);
    rc = tci_buf_error(&s->path, err);
    if (rc == 0)
        rc = tci_env_put_begin(&s->put, item->root->to.env, &call, to, tci_str_of(s->buf, s->len),
                               &o, err);
    return rc < 0 ? rc : 1;
}

static int end_put(window *w, slot *s, tc_err *err)
{
    int rc = tci_env_put_end(&s->put, err);
    if (rc < 0)
        return rc;
    cp_count(w->job, s->len);
    return 1;
}

/* ---- down ---- */

static int begin_get(window *w, slot *s, tc_err *err)
{
    const cp_item *item = s->item;
    tc_call call = TC_CALL(w->job->c->ctx, s->r);
    tc_str from = cp_join(&s->path, item->root->from.path, item->from);
    int rc = tci_buf_error(&s->path, err);
    if (rc == 0)
        rc = tci_env_get_begin(&s->get, item->root->from.env, &call, from, err);
    return rc < 0 ? rc : 1;
}

/* As begin_put. */
static int read_get(slot *s, tc_err *err)
{
    int rc = tci_env_get_info(&s->get, &s->info, err);
    if (rc < 0)
        return rc;
    if (!s->info.has_size || s->info.size_bytes == 0 || s->info.size_bytes > SMALL_BYTES) {
        tci_env_get_drop(&s->get);
        return 0;
    }
    if (!make_room(s, (size_t)s->info.size_bytes, err)) {
        tci_env_get_drop(&s->get);
        return err->code;
    }
    rc = tci_env_get_read(&s->get, s->buf, (size_t)s->info.size_bytes, err);
    return rc < 0 ? rc : 1;
}

static int end_get(window *w, slot *s, tc_err *err)
{
    int rc = tci_env_get_end(&s->get, &s->len, err);
    if (rc == 0 && s->len < s->info.size_bytes) /* shorter now, or a daemon that answers in parts */
        return 0;
    if (rc == 0)
        rc = cp_store(w->job, s->item, &w->near, &s->info, tci_str_of(s->buf, s->len), err);
    return rc < 0 ? rc : 1;
}

/* ---- groups ---- */

/* It goes no further here: it failed (negative), was copied (1), or goes the other way (0). */
static void settle(window *w, slot *s, int rc, const tc_err *err)
{
    const cp_item *item = s->item;
    s->item = NULL;
    if (rc == 0)
        cp_one_file(w->job, item, w->r);
    else
        cp_file_done(w->job, item, rc < 0 ? rc : 0, false, err);
}

/* Those of a group that are still under way: the last one first, so that there is one wait for all of
 * them and not one for each. */
static void advance(window *w, group *g, int (*step)(window *w, slot *s, tc_err *err), bool is_last)
{
    for (size_t i = g->count; i-- > 0;) {
        slot *s = &g->slots[i];
        tc_err err;
        if (s->item == NULL)
            continue;
        int rc = step(w, s, &err);
        if (rc != 1 || is_last)
            settle(w, s, rc, &err);
    }
}

static int begin(window *w, slot *s, tc_err *err)
{
    return is_upload(s->item) ? begin_put(w, s, err) : begin_get(w, s, err);
}

static int read_open(window *w, slot *s, tc_err *err)
{
    TCI_UNUSED(w);
    return is_upload(s->item) ? 1 : read_get(s, err);
}

static int end(window *w, slot *s, tc_err *err)
{
    return is_upload(s->item) ? end_put(w, s, err) : end_get(w, s, err);
}

/* A group is begun, the one before it is read, the one before that is ended. */
static void turn(window *w)
{
    group *middle = &w->groups[(w->turn + 2) % GROUPS];
    group *oldest = &w->groups[(w->turn + 1) % GROUPS];
    advance(w, middle, read_open, false);
    advance(w, oldest, end, true);
    oldest->count = 0;
    w->turn++;
}

static void drain(window *w)
{
    for (int i = 0; i < GROUPS; i++)
        turn(w);
}

static void begin_next(window *w, const cp_item *item)
{
    group *g = &w->groups[w->turn % GROUPS];
    slot *s = &g->slots[g->count];
    tc_err err;
    tci_env_get_drop(&s->get);
    tc_result_clear(s->r);
    s->item = item;
    int rc = begin(w, s, &err);
    if (rc != 1) {
        settle(w, s, rc, &err);
        return;
    }
    if (++g->count == w->size)
        turn(w);
}

static window *open_window(cp_job *job, tc_result *r)
{
    tc_err ignored; /* then the files go one by one */
    window *w = tci_new(window);
    if (w == NULL)
        return NULL;
    w->job = job;
    w->r = r;
    w->near.dir = TCI_FILE_NONE;
    w->size = (size_t)tci_min_u64(job->nflight / cp_many_threads(job) / GROUPS, GROUP_MAX);
    for (size_t i = 0; i < GROUPS * w->size; i++) {
        slot *s = &w->groups[i / w->size].slots[i % w->size];
        if (tc_result_new(&s->r, &ignored) < 0) {
            w->size = 0;
            break;
        }
        tci_buf_init(&s->path, TCI_BUF_MAX);
    }
    return w;
}

static void close_window(window *w)
{
    for (size_t i = 0; i < GROUPS * (size_t)GROUP_MAX; i++) {
        slot *s = &w->groups[i / GROUP_MAX].slots[i % GROUP_MAX];
        if (s->r == NULL)
            continue;
        tci_env_get_drop(&s->get);
        tc_result_free(s->r);
        tci_buf_done(&s->path);
        tci_free(s->buf);
    }
    tci_file_close(&w->near.dir);
    tci_free(w);
}

void cp_many(cp_job *job, tc_result *r)
{
    window *w = open_window(job, r);
    const cp_item *item;
    if (w == NULL)
        return;
    while (w->size > 0 && (item = cp_take(job)) != NULL) {
        if (fits(job, item)) {
            begin_next(w, item);
            continue;
        }
        drain(w); /* what is under way does not wait for a long one */
        cp_one_file(job, item, r);
    }
    drain(w);
    close_window(w);
}
