/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads and locks over POSIX threads. Leaves waiting to the system's own file. Any thread. Invariant: a
 * thread of ours never takes a signal of the program. */
#include "plat/thread.h"

#include "base/mem.h"
#include <errno.h>
#include <pthread.h>
#include <signal.h>

struct tci_thread {
    pthread_t id;
    void (*run)(void *arg);
    void *arg;
};

static void *start(void *arg)
{
    tci_thread *t = arg;
    t->run(t->arg);
    return NULL;
}

int tci_thread_new(void (*run)(void *arg), void *arg, size_t stack_bytes, tci_thread **ret_thread,
                   tc_err *err)
{
    tci_thread *t = tci_new(tci_thread);
    if (t == NULL)
        return tci_err_no_memory(err);
    t->run = run;
    t->arg = arg;
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    if (stack_bytes != 0)
        (void)pthread_attr_setstacksize(&attr, stack_bytes); /* too small: the default stays */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(&t->id, &attr, start, t);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    if (rc != 0) {
        tci_free(t);
        return tc_err_set_os(err, rc == ENOMEM ? TC_E_NO_MEMORY : TC_E_BUSY, rc,
                             "cannot start a thread");
    }
    *ret_thread = t;
    return 0;
}

void tci_thread_join(tci_thread *t)
{
    if (t == NULL)
        return;
    pthread_join(t->id, NULL);
    tci_free(t);
}

_Static_assert(sizeof(pthread_mutex_t) <= sizeof(tci_mutex), "tci_mutex is too small");

static pthread_mutex_t *native(tci_mutex *m)
{
    return (pthread_mutex_t *)(void *)m;
}

void tci_mutex_init(tci_mutex *m)
{
    int rc = pthread_mutex_init(native(m), NULL);
    TC_ASSERT(rc == 0);
}

void tci_mutex_done(tci_mutex *m)
{
    pthread_mutex_destroy(native(m));
}

void tci_mutex_lock(tci_mutex *m)
{
    int rc = pthread_mutex_lock(native(m));
    TC_ASSERT(rc == 0);
}

void tci_mutex_unlock(tci_mutex *m)
{
    int rc = pthread_mutex_unlock(native(m));
    TC_ASSERT(rc == 0);
}
