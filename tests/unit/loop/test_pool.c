/* SPDX-License-Identifier: Apache-2.0
 *
 * Jobs: lanes, order of events, threads that leave. */
#include "test_loop.h"

#include "base/mem.h"
#include "plat/thread.h"
#include <threads.h>

typedef struct gate {
    tci_wake wake;
    atomic_uint ninside, most_inside, is_open;
} gate;

typedef struct gated_job {
    tci_job job;
    gate *gate;
    thrd_t thread;
    unsigned ndone;
} gated_job;

static void wait_at_gate(tci_job *j)
{
    gated_job *g = TCI_CONTAINER(j, gated_job, job);
    g->thread = thrd_current();
    unsigned ninside = atomic_fetch_add(&g->gate->ninside, 1) + 1;
    unsigned most = atomic_load(&g->gate->most_inside);
    while (ninside > most && !atomic_compare_exchange_weak(&g->gate->most_inside, &most, ninside))
        continue;
    tci_wake_all(&g->gate->wake);
    for (;;) {
        unsigned seen = tci_wake_count(&g->gate->wake);
        if (atomic_load(&g->gate->is_open))
            break;
        tci_wake_wait(&g->gate->wake, seen, 0);
    }
    atomic_fetch_sub(&g->gate->ninside, 1);
}

static void count_done(tci_job *j)
{
    gated_job *g = TCI_CONTAINER(j, gated_job, job);
    tci_loop_assert(j->loop);
    g->ndone++;
}

static void wait_for_inside(gate *g, unsigned n)
{
    for (;;) {
        unsigned seen = tci_wake_count(&g->wake);
        if (atomic_load(&g->ninside) == n)
            return;
        tci_wake_wait(&g->wake, seen, 0);
    }
}

static void open_gate(gate *g)
{
    atomic_store(&g->is_open, 1);
    tci_wake_all(&g->wake);
}

static void slow_lane_does_not_starve_the_quick_one(void **state)
{
    TCI_UNUSED(state);
    tci_loop *loop = new_loop();
    tci_loop_pool_size(loop, 2, 3);
    gate slow_gate = {0}, quick_gate = {.is_open = 1};
    gated_job slow[20] = {0}, quick[20] = {0};
    for (size_t i = 0; i < 20; i++) {
        slow[i] =
            (gated_job){.job = {.work = wait_at_gate, .done = count_done}, .gate = &slow_gate};
        tci_job_submit(loop, TCI_JOB_BULK, &slow[i].job);
    }
    wait_for_inside(&slow_gate, 3); /* the lane is full and stuck */
    for (size_t i = 0; i < 20; i++) {
        quick[i] =
            (gated_job){.job = {.work = wait_at_gate, .done = count_done}, .gate = &quick_gate};
        tci_job_submit(loop, TCI_JOB_QUICK, &quick[i].job);
    }
    TURN_UNTIL(loop, tci_loop_pending_jobs(loop) == 20);
    for (size_t i = 0; i < 20; i++) {
        assert_int_equal(quick[i].ndone, 1);
        assert_int_equal(slow[i].ndone, 0);
    }
    assert_true(atomic_load(&quick_gate.most_inside) <= 2);
    open_gate(&slow_gate);
    TURN_UNTIL(loop, tci_loop_pending_jobs(loop) == 0);
    assert_int_equal(atomic_load(&slow_gate.most_inside), 3);
    for (size_t i = 0; i < 20; i++)
        assert_int_equal(slow[i].ndone, 1);
    tci_loop_free(loop);
}

/* A thread's end is an event: a thread-specific value is released then. */
typedef struct leaving {
    tss_t key;
    tci_loop *loop;
} leaving;

typedef struct leave_job {
    tci_job job;
    tss_t key;
    struct leave_note *note;
} leave_job;

typedef struct leave_note {
    tci_post post;
    tci_loop *loop;
    unsigned *nleft;
} leave_note;

static void on_left(tci_post *p)
{
    leave_note *n = TCI_CONTAINER(p, leave_note, post);
    ++*n->nleft;
}

static void thread_ends(void *value)
{
    leave_note *n = value;
    tci_loop_post(n->loop, &n->post);
}

static void leave_work(tci_job *j)
{
    leave_job *l = TCI_CONTAINER(j, leave_job, job);
    assert_int_equal(tss_set(l->key, l->note), thrd_success);
}

static void leave_done(tci_job *j)
{
    TCI_UNUSED(j);
}

static void idle_thread_leaves_and_the_next_job_starts_another(void **state)
{
    TCI_UNUSED(state);
    tci_loop *loop = new_loop();
    unsigned nleft = 0;
    tss_t key;
    assert_int_equal(tss_create(&key, thread_ends), thrd_success);
    leave_note notes[2];
    for (unsigned i = 0; i < 2; i++) {
        notes[i] = (leave_note){.post.cb = on_left, .loop = loop, .nleft = &nleft};
        leave_job l = {
            .job = {.work = leave_work, .done = leave_done}, .key = key, .note = &notes[i]};
        tci_job_submit(loop, TCI_JOB_QUICK, &l.job);
        TURN_UNTIL(loop, tci_loop_pending_jobs(loop) == 0);
        assert_int_equal(nleft, i);
        TURN_UNTIL(loop, nleft == i + 1); /* about two seconds later */
    }
    tci_loop_free(loop);
    tss_delete(key);
}

static void freeing_the_loop_finishes_all_jobs(void **state)
{
    TCI_UNUSED(state);
    tci_loop *loop = new_loop();
    tci_loop_pool_size(loop, 1, 1);
    gate g = {.is_open = 1};
    gated_job jobs[50];
    for (size_t i = 0; i < 50; i++) {
        jobs[i] = (gated_job){.job = {.work = wait_at_gate, .done = count_done}, .gate = &g};
        tci_job_submit(loop, i % 2 ? TCI_JOB_QUICK : TCI_JOB_BULK, &jobs[i].job);
    }
    tci_loop_free(loop);
    for (size_t i = 0; i < 50; i++)
        assert_int_equal(jobs[i].ndone, 1);
}

static void without_threads_the_caller_does_the_work(void **state)
{
    TCI_UNUSED(state);
    tci_loop *loop = new_loop();
    gate g = {.is_open = 1};
    gated_job j = {.job = {.work = wait_at_gate, .done = count_done}, .gate = &g};
    tci_mem_fail_at(1);
    tci_job_submit(loop, TCI_JOB_QUICK, &j.job);
    tci_mem_fail_at(0);
    assert_true(thrd_equal(j.thread, thrd_current()));
    assert_int_equal(j.ndone, 0); /* done is never called from inside submit */
    TURN_UNTIL(loop, j.ndone == 1);
    assert_int_equal(tci_loop_pending_jobs(loop), 0);
    tci_loop_free(loop);
}

const struct CMUnitTest pool_tests[] = {
    cmocka_unit_test(slow_lane_does_not_starve_the_quick_one),
    cmocka_unit_test(idle_thread_leaves_and_the_next_job_starts_another),
    cmocka_unit_test(freeing_the_loop_finishes_all_jobs),
    cmocka_unit_test(without_threads_the_caller_does_the_work),
};
const size_t npool_tests = TCI_ARRAY_LEN(pool_tests);
