/* SPDX-License-Identifier: Apache-2.0
 *
 * Readiness of descriptors, and signals, on libuv's poll and signal handles. Leaves reading and
 * writing to whoever watches. Loop thread. Invariant: libuv is told what a watch wants only right
 * before the loop waits, so changing one's mind within a turn costs no system call; until then
 * callbacks are filtered by what is wanted now. */
#include "loop/loop_int.h"

#include "base/mem.h"

/* Outlives its watch until libuv has let go of it.
 *   applied    the events libuv watches for
 *   is_always  a regular file or such: epoll has no opinion on it, it never blocks; reported
 *              ready once a turn through the later list */
typedef struct tci_watch_handle {
    uv_poll_t poll;
    tci_watch *owner; /* NULL: closed */
    tci_link dirty;
    unsigned applied;
    bool is_always, is_in_cb;
    tci_later later;
} tci_watch_handle;

void tci_watch_handle_gone(uv_handle_t *h)
{
    tci_free(TCI_CONTAINER(h, tci_watch_handle, poll));
}

static void mark_dirty(tci_watch_handle *h, tci_loop *loop)
{
    if (!tci_link_is_in(&h->dirty))
        tci_list_push_back(&loop->dirty, &h->dirty);
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    tci_watch_handle *h = TCI_CONTAINER(poll, tci_watch_handle, poll);
    tci_watch *w = h->owner;
    if (w == NULL)
        return;
    unsigned ready = 0;
    if (status < 0) { /* an error of the descriptor; libuv has stopped watching it */
        h->applied = 0;
        mark_dirty(h, w->loop);
        ready = TCI_WATCH_READ | TCI_WATCH_WRITE;
    } else {
        if (events & UV_READABLE)
            ready |= TCI_WATCH_READ;
        if (events & UV_WRITABLE)
            ready |= TCI_WATCH_WRITE;
        ready &= w->events;
    }
    if (w->events != 0 && ready != 0)
        w->cb(w, ready);
}

static void on_always(tci_later *later)
{
    tci_watch_handle *h = TCI_CONTAINER(later, tci_watch_handle, later);
    tci_watch *w = h->owner;
    h->is_in_cb = true;
    if (w->events != 0)
        w->cb(w, w->events);
    h->is_in_cb = false;
    if (h->owner == NULL)
        tci_free(h);
    else if (w->events != 0)
        tci_loop_later(w->loop, &h->later);
}

static int poll_error(int rc, int fd, tc_err *err)
{
    if (rc == UV_EEXIST)
        return tc_err_set(err, TC_E_INVALID, "descriptor %d is watched already", fd);
    if (rc == UV_EBADF)
        return tc_err_set_os(err, TC_E_INVALID, -rc, "cannot watch descriptor %d", fd);
    if (rc == UV_ENOMEM)
        return tci_err_no_memory(err);
    return tc_err_set_os(err, TC_E_IO, -rc, "cannot watch descriptor %d", fd);
}

int tci_watch_open(tci_watch *w, tci_loop *loop, int fd, void (*cb)(tci_watch *w, unsigned events),
                   tc_err *err)
{
    tci_loop_assert(loop);
    tci_watch_handle *h = tci_new(tci_watch_handle);
    if (h == NULL)
        return tci_err_no_memory(err);
    int rc = uv_poll_init(&loop->uv, &h->poll, fd);
    if (rc != 0 && rc != UV_EPERM) {
        tci_free(h);
        return poll_error(rc, fd, err);
    }
    h->is_always = rc == UV_EPERM; /* epoll_ctl(2): the file does not support epoll */
    h->later.cb = on_always;
    h->owner = w;
    *w = (tci_watch){.loop = loop, .cb = cb, .handle = h};
    return 0;
}

int tci_watch_set(tci_watch *w, unsigned events, tc_err *err)
{
    tci_watch_handle *h = w->handle;
    if (events == w->events)
        return 0;
    if (h == NULL)
        return tc_err_set(err, TC_E_CLOSED, "watch is not open");
    w->events = events;
    if (!h->is_always)
        mark_dirty(h, w->loop);
    else if (events == 0)
        tci_later_cancel(&h->later);
    else if (!h->is_in_cb)
        tci_loop_later(w->loop, &h->later);
    return 0;
}

void tci_watch_close(tci_watch *w)
{
    tci_watch_handle *h = w->handle;
    if (h == NULL)
        return;
    tci_loop_assert(w->loop);
    w->handle = NULL;
    w->events = 0;
    h->owner = NULL;
    tci_link_remove(&h->dirty);
    tci_later_cancel(&h->later);
    if (!h->is_always)
        uv_close((uv_handle_t *)&h->poll, tci_watch_handle_gone);
    else if (!h->is_in_cb)
        tci_free(h);
}

void tci_watches_apply(tci_loop *loop)
{
    for (tci_link *k = tci_list_pop_front(&loop->dirty); k != NULL;
         k = tci_list_pop_front(&loop->dirty)) {
        tci_watch_handle *h = TCI_CONTAINER(k, tci_watch_handle, dirty);
        unsigned events = h->owner->events;
        if (events == h->applied)
            continue;
        h->applied = events;
        if (events == 0) {
            (void)uv_poll_stop(&h->poll); /* cannot fail */
            continue;
        }
        int mask = (events & TCI_WATCH_READ ? UV_READABLE : 0) |
                   (events & TCI_WATCH_WRITE ? UV_WRITABLE : 0);
        int rc = uv_poll_start(&h->poll, mask, on_poll);
        TC_ASSERT(rc == 0); /* only for a descriptor with two watches, refused when opened */
    }
}

struct tci_signal_handle {
    uv_signal_t signal;
    tci_signal *owner;
};

void tci_signal_handle_gone(uv_handle_t *h)
{
    tci_free(TCI_CONTAINER(h, struct tci_signal_handle, signal));
}

static void on_signal(uv_signal_t *signal, int signum)
{
    struct tci_signal_handle *h = TCI_CONTAINER(signal, struct tci_signal_handle, signal);
    if (h->owner != NULL)
        h->owner->cb(h->owner, signum);
}

int tci_signal_open(tci_signal *s, tci_loop *loop, int signum,
                    void (*cb)(tci_signal *sig, int signum), tc_err *err)
{
    tci_loop_assert(loop);
    struct tci_signal_handle *h = tci_new(struct tci_signal_handle);
    if (h == NULL)
        return tci_err_no_memory(err);
    int rc = uv_signal_init(&loop->uv, &h->signal);
    if (rc != 0) {
        tci_free(h);
        return tc_err_set_os(err, TC_E_BUSY, -rc, "cannot watch signal %d", signum);
    }
    h->owner = s;
    *s = (tci_signal){.cb = cb, .handle = h};
    rc = uv_signal_start(&h->signal, on_signal, signum);
    if (rc != 0) {
        tci_signal_close(s);
        return tc_err_set_os(err, TC_E_INVALID, -rc, "cannot watch signal %d", signum);
    }
    return 0;
}

void tci_signal_close(tci_signal *s)
{
    struct tci_signal_handle *h = s->handle;
    if (h == NULL)
        return;
    s->handle = NULL;
    h->owner = NULL;
    uv_close((uv_handle_t *)&h->signal, tci_signal_handle_gone);
}
