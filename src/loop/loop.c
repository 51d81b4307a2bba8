/* SPDX-License-Identifier: Apache-2.0
 *
 * The loop's turn: posts from other threads, the "later" list, the clock of the turn, start and
 * end. Leaves timers to timer.c, descriptors and signals to watch.c, threads to pool.c. Loop
 * thread, but tci_loop_post. Invariant: what the loop still has to do before it may wait is settled
 * in before_wait, in this order: later callbacks, changed watches, the timer; nothing else wakes
 * it. */
#include "loop/loop_int.h"

#include "base/mem.h"
#include "plat/clock.h"

static void on_spin(uv_idle_t *idle)
{
    TCI_UNUSED(idle);
}
/* Due already in the pass of timers before the poll: the poll must not wait then. */
static void on_limit(uv_timer_t *limit)
{
    uv_stop(limit->loop);
}

static void run_posts(tci_loop *loop)
{
    tci_list batch;
    uv_mutex_lock(&loop->posts_lock);
    tci_list_take(&loop->posts, &batch);
    uv_mutex_unlock(&loop->posts_lock);
    for (tci_link *k = tci_list_pop_front(&batch); k != NULL; k = tci_list_pop_front(&batch)) {
        tci_post *post = TCI_CONTAINER(k, tci_post, link);
        post->cb(post);
    }
}

static void on_async(uv_async_t *async)
{
    tci_loop *loop = TCI_CONTAINER(async, tci_loop, async);
    run_posts(loop);
    tci_pool_deliver(&loop->pool);
}

/* Each later callback once; what they ask for anew comes after the next look at descriptors. */
static bool run_laters(tci_loop *loop)
{
    if (tci_list_is_empty(&loop->laters))
        return false;
    tci_list batch;
    tci_list_take(&loop->laters, &batch);
    for (tci_link *k = tci_list_pop_front(&batch); k != NULL; k = tci_list_pop_front(&batch)) {
        tci_later *later = TCI_CONTAINER(k, tci_later, link);
        later->cb(later);
    }
    return true;
}

static void before_wait(uv_prepare_t *prepare)
{
    tci_loop *loop = TCI_CONTAINER(prepare, tci_loop, prepare);
    bool did_something = run_laters(loop);
    tci_watches_apply(loop);
    tci_timers_arm(loop);
    if (!tci_list_is_empty(&loop->laters) || (did_something && loop->is_turn))
        (void)uv_idle_start(&loop->spin, on_spin); /* fails only without a callback */
    else
        (void)uv_idle_stop(&loop->spin); /* cannot fail */
    loop->now_ns = 0;
}

static int init_handles(tci_loop *loop)
{
    int rc = uv_async_init(&loop->uv, &loop->async, on_async);
    if (rc == 0)
        rc = uv_prepare_init(&loop->uv, &loop->prepare);
    if (rc == 0)
        rc = uv_prepare_start(&loop->prepare, before_wait);
    if (rc == 0)
        rc = uv_idle_init(&loop->uv, &loop->spin);
    if (rc == 0)
        rc = uv_timer_init(&loop->uv, &loop->tick);
    if (rc == 0)
        rc = uv_timer_init(&loop->uv, &loop->limit);
    return rc;
}

static void close_left(uv_handle_t *h, void *unused)
{
    TCI_UNUSED(unused);
    if (uv_is_closing(h))
        return;
    if (h->type == UV_POLL)
        uv_close(h, tci_watch_handle_gone);
    else if (h->type == UV_SIGNAL)
        uv_close(h, tci_signal_handle_gone);
    else
        uv_close(h, NULL);
}

static void close_uv(tci_loop *loop)
{
    uv_walk(&loop->uv, close_left, NULL);
    while (uv_loop_close(&loop->uv) == UV_EBUSY)
        (void)uv_run(&loop->uv, UV_RUN_NOWAIT); /* whether handles are left: the loop asks */
}

int tci_loop_new(tci_loop **ret_loop, tc_err *err)
{
    tci_loop *loop = tci_new(tci_loop);
    if (loop == NULL)
        return tci_err_no_memory(err);
    tci_list_init(&loop->laters);
    tci_list_init(&loop->dirty);
    tci_list_init(&loop->posts);
    loop->owner = uv_thread_self();
    int rc = uv_loop_init(&loop->uv);
    if (rc != 0) {
        tci_free(loop);
        return tc_err_set_os(err, TC_E_BUSY, -rc, "cannot make an event loop");
    }
    rc = init_handles(loop);
    if (rc == 0)
        rc = uv_mutex_init(&loop->posts_lock);
    if (rc != 0) {
        rc = tc_err_set_os(err, TC_E_BUSY, -rc, "cannot make an event loop");
    } else {
        rc = tci_pool_init(&loop->pool, loop, err);
        if (rc < 0)
            uv_mutex_destroy(&loop->posts_lock);
    }
    if (rc < 0) {
        close_uv(loop);
        tci_free(loop);
        return rc;
    }
    *ret_loop = loop;
    return 0;
}

void tci_loop_free(tci_loop *loop)
{
    if (loop == NULL)
        return;
    tci_loop_assert(loop);
    TC_ASSERT(!loop->is_running);
    tci_pool_done(&loop->pool);
    run_posts(loop);
    for (tci_link *k = tci_list_pop_front(&loop->laters); k != NULL;)
        k = tci_list_pop_front(&loop->laters);
    while (loop->ntimers > 0)
        tci_timer_stop(loop->heap[0]);
    close_uv(loop);
    uv_mutex_destroy(&loop->posts_lock);
    tci_mem_free(loop->heap);
    tci_free(loop);
}

static void enter(tci_loop *loop)
{
    if (!loop->has_run) {
        loop->has_run = true;
        loop->owner = uv_thread_self();
    }
    tci_loop_assert(loop);
    TC_ASSERT(!loop->is_running);
    loop->is_running = true;
    loop->now_ns = 0;
}

void tci_loop_run(tci_loop *loop)
{
    enter(loop);
    (void)uv_run(&loop->uv, UV_RUN_DEFAULT); /* our own handles keep it alive: ended by stop */
    loop->is_running = false;
}

void tci_loop_turn(tci_loop *loop, int64_t max_wait_ms)
{
    enter(loop);
    loop->is_turn = true;
    bool did_something = tci_timers_run(loop);
    if (max_wait_ms > 0)
        (void)uv_timer_start(&loop->limit, on_limit, (uint64_t)max_wait_ms, 0); /* has a callback */
    bool may_wait = max_wait_ms != 0 && !did_something;
    (void)uv_run(&loop->uv, may_wait ? UV_RUN_ONCE : UV_RUN_NOWAIT); /* as above */
    (void)uv_timer_stop(&loop->limit);                               /* cannot fail */
    loop->is_turn = false;
    loop->is_running = false;
}

void tci_loop_stop(tci_loop *loop)
{
    tci_loop_assert(loop);
    uv_stop(&loop->uv);
}

void tci_loop_assert(const tci_loop *loop)
{
    uv_thread_t self = uv_thread_self();
    TC_ASSERT(uv_thread_equal(&self, &loop->owner));
}

int64_t tci_loop_now_ns(const tci_loop *loop)
{
    if (!loop->is_running)
        return tci_clock_mono_ns();
    if (loop->now_ns == 0)
        ((tci_loop *)(uintptr_t)loop)->now_ns = tci_clock_mono_ns(); /* a cache */
    return loop->now_ns;
}

void tci_loop_post(tci_loop *loop, tci_post *post)
{
    uv_mutex_lock(&loop->posts_lock);
    bool was_empty = tci_list_is_empty(&loop->posts);
    tci_list_push_back(&loop->posts, &post->link);
    uv_mutex_unlock(&loop->posts_lock);
    if (was_empty)
        (void)uv_async_send(&loop->async); /* fails only on what is not an async handle */
}

void tci_loop_later(tci_loop *loop, tci_later *later)
{
    if (!tci_link_is_in(&later->link))
        tci_list_push_back(&loop->laters, &later->link);
}

void tci_later_cancel(tci_later *later)
{
    tci_link_remove(&later->link);
}
