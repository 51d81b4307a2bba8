/* SPDX-License-Identifier: Apache-2.0
 *
 * The pi-env connections that the adapters of a runtime share, by key. Leaves the connections
 * themselves to pienv.c. Any thread. Invariant: one connection for a key, held until the runtime
 * closes. */
#include "client/client_int.h"
#include "client/pienv/pienv.h"

typedef struct tci_shared_pi {
    tci_link link;
    tci_pi *pi;
    size_t key_len;
    char key[];
} tci_shared_pi;

/* Under the lock. */
static tci_pi *find(tc_runtime *rt, tc_str key)
{
    TCI_LIST_EACH (&rt->shared_pis, link) {
        tci_shared_pi *s = TCI_CONTAINER(link, tci_shared_pi, link);
        if (tci_str_eq(tci_str_of(s->key, s->key_len), key))
            return tci_pi_retain(s->pi);
    }
    return NULL;
}

static tci_pi *find_locked(tc_runtime *rt, tc_str key)
{
    tci_mutex_lock(&rt->lock);
    tci_pi *pi = find(rt, key);
    tci_mutex_unlock(&rt->lock);
    return pi;
}

int tci_runtime_shared_pi(tc_runtime *rt, tc_str key, tci_pi_make_fn make, void *arg,
                          tci_pi **ret_pi, tc_err *err)
{
    tci_pi *pi = find_locked(rt, key), *fresh = NULL;
    if (pi != NULL) {
        *ret_pi = pi;
        return 0;
    }
    int rc = make(arg, &fresh, err);
    if (rc < 0)
        return rc;
    tci_shared_pi *s = tci_mem_alloc(sizeof *s + key.len);
    if (s == NULL) {
        tci_pi_release(fresh);
        return tci_err_no_memory(err);
    }
    memcpy(s->key, key.ptr, key.len);
    s->key_len = key.len;
    tci_mutex_lock(&rt->lock);
    pi = find(rt, key); /* another thread may have been quicker */
    if (pi == NULL && !rt->is_closed) {
        s->pi = tci_pi_retain(fresh);
        tci_list_push_back(&rt->shared_pis, &s->link);
        pi = fresh;
        fresh = NULL;
        s = NULL;
    }
    tci_mutex_unlock(&rt->lock);
    tci_free(s);
    tci_pi_release(fresh);
    if (pi == NULL)
        return tc_err_set(err, TC_E_CLOSED, "the runtime is closed");
    *ret_pi = pi;
    return 0;
}

void tci_runtime_release_pis(tc_runtime *rt)
{
    for (;;) {
        tci_mutex_lock(&rt->lock);
        tci_link *link = tci_list_pop_front(&rt->shared_pis);
        tci_mutex_unlock(&rt->lock);
        if (link == NULL)
            return;
        tci_shared_pi *s = TCI_CONTAINER(link, tci_shared_pi, link);
        tci_pi_close(s->pi);
        tci_pi_release(s->pi);
        tci_free(s);
    }
}
