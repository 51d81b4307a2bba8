/* SPDX-License-Identifier: Apache-2.0
 *
 * Watches: changes of one thing, queued by the thread that commits and taken by the watcher, on its own
 * thread or on one of the watch's. Leaves what is watched to who pushes. Invariant: frames are pushed
 * on the line and taken off it; the value belongs to who takes them and has seen exactly the frames
 * taken; a watch that has a reason to be ended hands out nothing more. */
#include "session/session_int.h"

enum { FRAMES_MAX = 100, THREAD_STACK = 256 * 1024 };

typedef struct frame {
    struct frame *next;
    bool is_last; /* the thing is gone */
    size_t len;
    char text[];
} frame;

struct tc_watch {
    tc_durable *s;
    /* on the line */
    tci_link in_session, in_doc;
    tci_loaded *doc; /* NULL: not of a document, or not any more */
    uint64_t version;
    bool has_source, is_event_stream;
    tci_watch_source source;
    /* under m */
    tci_mutex m;
    frame *first, *last;
    size_t nframes;
    bool is_retired; /* the last frame is pushed */
    tc_watch_end reason;
    tc_err error;
    tci_wake *waiter, own;         /* who waits for a frame */
    tci_wake *end_waiter, own_end; /* who waits for the end */
    /* of who takes the frames */
    tci_tree value;
    bool is_gone;
    tci_arena scratch;
    frame *taken;
    tci_thread *thread;
    tc_ctx *ctx;
    tc_watch_fn fn;
    void *user;
};

const char *tc_watch_end_name(tc_watch_end end)
{
    switch (end) {
    case TC_WATCH_OPEN:
        return "open";
    case TC_WATCH_STOPPED:
        return "stopped";
    case TC_WATCH_CANCELLED:
        return "cancelled";
    case TC_WATCH_SESSION_CLOSED:
        return "session_closed";
    case TC_WATCH_SESSION_FAILED:
        return "session_failed";
    case TC_WATCH_RETIRED:
        return "retired";
    case TC_WATCH_LISTENER_ERROR:
        return "listener_error";
    }
    return "open";
}

/* ---- making one ---- */

/* On the line. */
static int new_watch(tc_durable *s, tc_watch **ret_watch, tc_err *err)
{
    tc_watch *w = tci_new(tc_watch);
    if (w == NULL)
        return tci_err_no_memory(err);
    w->s = s;
    tci_mutex_init(&w->m);
    tci_arena_init(&w->scratch, 0);
    tci_durable_ref(s);
    tci_list_push_back(&s->watches, &w->in_session);
    *ret_watch = w;
    return 0;
}

static void free_watch(tc_watch *w)
{
    tc_durable *s = w->s;
    tci_tree_done(&w->value);
    tci_arena_done(&w->scratch);
    tci_mutex_done(&w->m);
    tci_free(w->taken);
    tci_free(w);
    tci_durable_unref(s);
}

static int watch_doc(tc_durable *s, const tc_doc_addr *addr, tc_watch **ret_watch, tc_err *err)
{
    tci_address address;
    tci_address_key key;
    tci_loaded *l = NULL;
    tc_watch *w = NULL;
    tci_tree value = TCI_TREE_NONE;
    int rc = tci_address_of(addr->def, addr->owner, addr->key, &address, err);
    if (rc == 0)
        rc = tci_address_key_of(&address, &s->arena, &key, err);
    if (rc == 0)
        rc = tci_doc_load(s, addr->def, &address, key.text, &l, err);
    if (rc == 0 && l != NULL)
        rc = tci_tree_of(&l->value.root, &value, err);
    if (rc == 0 && l != NULL)
        rc = new_watch(s, &w, err);
    if (rc < 0) {
        tci_tree_done(&value);
        return rc;
    }
    if (w != NULL) {
        w->value = value;
        w->doc = l;
        w->version = addr->def->version;
        tci_list_push_back(&l->watches, &w->in_doc);
        tci_loaded_touch(s, l);
    }
    *ret_watch = w;
    return 0;
}

int tc_durable_watch(tc_durable *s, const tc_doc_addr *addr, tc_watch **ret_watch, tc_err *err)
{
    int rc = tci_session_read(s, err);
    if (rc < 0)
        return rc;
    rc = watch_doc(s, addr, ret_watch, err);
    tci_session_leave(s);
    return rc;
}

int tci_watch_new(tc_durable *s, tc_str value, const tci_watch_source *source, tc_watch **ret_watch,
                  tc_err *err)
{
    TC_ASSERT(tci_line_is_mine(&s->line));
    tci_tree tree = TCI_TREE_NONE;
    int rc = 0;
    if (value.len > 0)
        rc = tci_tree_parse(value, TCI_JSON_DURABLE, &tree, err);
    if (rc < 0)
        return rc;
    tc_watch *w = NULL;
    rc = new_watch(s, &w, err);
    if (rc < 0) {
        tci_tree_done(&tree);
        return rc;
    }
    w->value = tree;
    w->is_event_stream = value.len == 0;
    w->has_source = true;
    w->source = *source;
    *ret_watch = w;
    return 0;
}

/* ---- pushing, on the line ---- */

static void drop_frames(tc_watch *w)
{
    while (w->first != NULL) {
        frame *f = w->first;
        w->first = f->next;
        tci_free(f);
    }
    w->last = NULL;
    w->nframes = 0;
}

static void wake_waiter(tc_watch *w)
{
    if (w->waiter != NULL)
        tci_wake_all(w->waiter);
}

/* With m. */
static int queue(tc_watch *w, tc_str text, bool is_last, tc_err *err)
{
    frame *f = tci_mem_alloc(sizeof *f + text.len);
    if (f == NULL)
        return tci_err_no_memory(err);
    f->is_last = is_last;
    f->len = text.len;
    memcpy(f->text, text.ptr, text.len);
    if (w->last == NULL)
        w->first = f;
    else
        w->last->next = f;
    w->last = f;
    w->nframes++;
    w->is_retired = is_last;
    return 0;
}

static int collapsed(tc_watch *w, tci_buf *out, tc_err *err)
{
    if (w->has_source) {
        int rc = w->source.collapse(w->source.user, out, err);
        if (rc < 0)
            return rc;
    } else
        tci_put_replacement(out, &w->doc->value.root);
    return tci_buf_error(out, err);
}

/* With m. One frame for all that wait and the one that does not fit. */
static int queue_collapsed(tc_watch *w, tc_err *err)
{
    tci_buf out;
    tci_buf_init(&out, TCI_BUF_MAX);
    int rc = collapsed(w, &out, err);
    if (rc == 0) {
        drop_frames(w);
        rc = queue(w, tci_buf_str(&out), false, err);
    }
    tci_buf_done(&out);
    return rc;
}

static int push(tc_watch *w, tc_str ops, bool is_last, tc_err *err)
{
    int rc = 0;
    tci_wake *waiter = NULL;
    tci_mutex_lock(&w->m);
    if (w->reason == TC_WATCH_OPEN && !w->is_retired) {
        waiter = w->waiter;
        if (w->nframes < FRAMES_MAX)
            rc = queue(w, ops, is_last, err);
        else if (is_last) {
            drop_frames(w);
            rc = queue(w, ops, true, err);
        } else
            rc = queue_collapsed(w, err);
    }
    if (waiter != NULL)
        tci_wake_count_one(waiter);
    tci_mutex_unlock(&w->m);
    if (waiter != NULL)
        tci_wake_send(waiter,
                      UINT32_MAX); /* not into a lock that is held; the address alone is used */
    return rc;
}

int tci_watch_push(tc_watch *w, tc_str ops, tc_err *err)
{
    return push(w, ops, false, err);
}

static void leave_doc(tc_watch *w)
{
    tci_loaded *l = w->doc;
    if (l == NULL)
        return;
    w->doc = NULL;
    tci_link_remove(&w->in_doc);
    tci_loaded_touch(w->s, l);
}

static int advance(tc_watch *w, const tci_loaded *l, uint64_t version, tc_str ops, size_t nops,
                   bool is_retired, tc_err *err)
{
    if (is_retired)
        return push(w, TC_STR("[[\"r\",null]]"), true, err);
    if (version == w->version)
        return nops > 0 ? push(w, ops, false, err) : 0;
    w->version = version;
    tci_buf whole;
    tci_buf_init(&whole, TCI_BUF_MAX);
    tci_put_replacement(&whole, &l->value.root);
    int rc = tci_buf_error(&whole, err);
    if (rc == 0)
        rc = push(w, tci_buf_str(&whole), false, err);
    tci_buf_done(&whole);
    return rc;
}

void tci_watches_advance(tci_loaded *l, uint64_t version, tc_str ops, size_t nops, bool is_retired)
{
    TCI_LIST_EACH (&l->watches, k) {
        tc_watch *w = TCI_CONTAINER(k, tc_watch, in_doc);
        tc_err err;
        if (advance(w, l, version, ops, nops, is_retired, &err) < 0)
            tci_watch_end(w, TC_WATCH_LISTENER_ERROR,
                          &err); /* it missed a change: it is of no use */
        else if (is_retired)
            leave_doc(w);
    }
}

/* ---- ending ---- */

static bool set_reason(tc_watch *w, tc_watch_end reason, const tc_err *err)
{
    tci_mutex_lock(&w->m);
    bool is_first = w->reason == TC_WATCH_OPEN;
    if (is_first) {
        w->reason = reason;
        if (err != NULL)
            w->error = *err;
        drop_frames(w);
        wake_waiter(w);
        if (w->end_waiter != NULL)
            tci_wake_all(w->end_waiter);
    }
    tci_mutex_unlock(&w->m);
    return is_first;
}

/* On the line. */
static void detach(tc_watch *w)
{
    tci_link_remove(&w->in_session);
    leave_doc(w);
    if (!w->has_source)
        return;
    w->has_source = false;
    if (w->source.gone != NULL)
        w->source.gone(w->source.user);
}

static void detach_anywhere(tc_watch *w)
{
    bool is_taken = tci_session_observe(w->s);
    detach(w);
    if (is_taken)
        tci_session_leave(w->s);
}

void tci_watch_end(tc_watch *w, tc_watch_end reason, const tc_err *err)
{
    tc_err failed;
    if (reason == TC_WATCH_RETIRED) {
        if (push(w, TC_STR("[[\"r\",null]]"), true, &failed) == 0)
            return;
        err = &failed;
    }
    if (set_reason(w, reason, err))
        detach_anywhere(w);
}

void tci_watches_end(tc_durable *s, const tc_err *failure)
{
    tci_link *k;
    while ((k = tci_list_first(&s->watches)) != NULL) {
        tc_watch *w = TCI_CONTAINER(k, tc_watch, in_session);
        (void)set_reason(w, failure != NULL ? TC_WATCH_SESSION_FAILED : TC_WATCH_SESSION_CLOSED,
                         failure); /* it may have ended, and be about to leave */
        detach(w);
    }
}

tc_watch_end tc_watch_reason(tc_watch *w, tc_err *ret_error)
{
    tci_mutex_lock(&w->m);
    tc_watch_end reason = w->reason;
    if (ret_error != NULL)
        *ret_error = w->error;
    tci_mutex_unlock(&w->m);
    return reason;
}

void tc_watch_stop(tc_watch *w)
{
    tci_watch_end(w, TC_WATCH_STOPPED, NULL);
}

int tc_watch_wait(tc_watch *w, tc_ctx *ctx, tc_watch_end *ret_reason, tc_err *err)
{
    int rc = 0;
    tci_mutex_lock(&w->m);
    tci_wake *word = ctx != NULL ? tci_ctx_wake(ctx) : &w->own_end;
    while (rc == 0 && w->reason == TC_WATCH_OPEN) {
        rc = tci_ctx_check(ctx, err);
        if (rc < 0)
            break;
        w->end_waiter = word;
        unsigned seen = tci_wake_count(word);
        tci_mutex_unlock(&w->m);
        tci_wake_wait(word, seen, tci_ctx_deadline_ns(ctx));
        tci_mutex_lock(&w->m);
        w->end_waiter = NULL;
    }
    if (rc == 0 && ret_reason != NULL)
        *ret_reason = w->reason;
    tci_mutex_unlock(&w->m);
    return rc;
}

void tc_watch_free(tc_watch *w)
{
    if (w == NULL)
        return;
    tc_watch_stop(w);
    tci_thread_join(w->thread);
    detach_anywhere(w); /* whoever ended it is done with it after this */
    free_watch(w);
}

/* ---- taking ---- */

const tc_json *tc_watch_value(tc_watch *w)
{
    return w->is_event_stream || w->is_gone ? NULL : &w->value.root;
}

/* The next frame, once there is one. NULL: it ended. With m. */
static int wait_frame(tc_watch *w, tc_ctx *ctx, frame **ret_frame, tc_err *err)
{
    for (;;) {
        frame *f = w->first;
        if (f != NULL) {
            w->first = f->next;
            if (w->first == NULL)
                w->last = NULL;
            w->nframes--;
        }
        *ret_frame = f;
        if (f != NULL || w->is_retired || w->reason != TC_WATCH_OPEN)
            return 0;
        int rc = tci_ctx_check(ctx, err);
        if (rc < 0)
            return rc;
        w->waiter = ctx != NULL ? tci_ctx_wake(ctx) : &w->own;
        unsigned seen = tci_wake_count(w->waiter);
        tci_wake *word = w->waiter;
        tci_mutex_unlock(&w->m);
        tci_wake_wait(word, seen, tci_ctx_deadline_ns(ctx));
        tci_mutex_lock(&w->m);
        w->waiter = NULL;
    }
}

static int take(tc_watch *w, frame *f, tc_frame *ret_frame, tc_err *err)
{
    tci_free(w->taken);
    w->taken = f;
    tc_str text = tci_str_of(f->text, f->len);
    if (f->is_last)
        w->is_gone = true;
    else if (!w->is_event_stream) {
        int rc = tci_delta_apply(&w->value, text, &w->scratch, err);
        if (rc < 0)
            return rc;
    }
    *ret_frame = (tc_frame){.ops = text, .value = tc_watch_value(w)};
    return 0;
}

int tc_watch_next(tc_watch *w, tc_ctx *ctx, tc_frame *ret_frame, tc_err *err)
{
    frame *f = NULL;
    tci_mutex_lock(&w->m);
    int rc = wait_frame(w, ctx, &f, err);
    tci_mutex_unlock(&w->m);
    if (rc < 0)
        return rc;
    if (f != NULL)
        return take(w, f, ret_frame, err);
    if (set_reason(w, TC_WATCH_RETIRED, NULL))
        detach_anywhere(w);
    return tc_err_set(err, TC_E_END, "the watch ended: %s",
                      tc_watch_end_name(tc_watch_reason(w, NULL)));
}

/* ---- a thread of its own ---- */

static void run(void *arg)
{
    tc_watch *w = arg;
    for (;;) {
        tc_frame f;
        tc_err err;
        int rc = tc_watch_next(w, w->ctx, &f, &err);
        if (rc == TC_E_END)
            return;
        if (rc == TC_E_CANCELLED || rc == TC_E_TIMEOUT) {
            tci_watch_end(w, TC_WATCH_CANCELLED, NULL);
            return;
        }
        if (rc == 0)
            rc = w->fn(w->user, &f, &err);
        if (rc != 0) {
            tci_watch_end(w, TC_WATCH_LISTENER_ERROR, &err);
            return;
        }
    }
}

int tc_watch_start(tc_watch *w, tc_ctx *ctx, tc_watch_fn fn, void *user, tc_err *err)
{
    if (w->thread != NULL)
        return tc_err_set(err, TC_E_CONFLICT, "the watch is started already");
    if (tc_watch_reason(w, NULL) != TC_WATCH_OPEN)
        return tc_err_set(err, TC_E_CLOSED, "the watch has ended");
    w->ctx = ctx;
    w->fn = fn;
    w->user = user;
    return tci_thread_new(run, w, THREAD_STACK, &w->thread, err);
}
