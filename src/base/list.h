/* SPDX-License-Identifier: Apache-2.0
 *
 * Intrusive doubly linked list. A zeroed link is unlinked; a head must be initialised. */
#ifndef TCI_LIST_H
#define TCI_LIST_H

#include "base/compiler.h"

typedef struct tci_link {
    struct tci_link *prev, *next;
} tci_link;

typedef struct tci_list {
    tci_link head;
} tci_list;

static inline void tci_list_init(tci_list *l)
{
    l->head.prev = l->head.next = &l->head;
}
static inline bool tci_list_is_empty(const tci_list *l)
{
    return l->head.next == &l->head;
}
static inline bool tci_link_is_in(const tci_link *k)
{
    return k->next != NULL;
}

static inline void tci_link_remove(tci_link *k) /* fine when not linked */
{
    if (k->next == NULL)
        return;
    k->prev->next = k->next;
    k->next->prev = k->prev;
    k->prev = k->next = NULL;
}

static inline void tci_link_insert_before(tci_link *at, tci_link *k)
{
    k->prev = at->prev;
    k->next = at;
    at->prev->next = k;
    at->prev = k;
}

static inline void tci_list_push_back(tci_list *l, tci_link *k)
{
    tci_link_insert_before(&l->head, k);
}
static inline void tci_list_push_front(tci_list *l, tci_link *k)
{
    tci_link_insert_before(l->head.next, k);
}
static inline tci_link *tci_list_first(const tci_list *l) /* NULL when empty */
{
    return l->head.next == &l->head ? NULL : l->head.next;
}
static inline tci_link *tci_list_next(const tci_list *l, const tci_link *k)
{
    return k->next == &l->head ? NULL : k->next;
}
static inline tci_link *tci_list_pop_front(tci_list *l)
{
    tci_link *k = tci_list_first(l);
    if (k != NULL)
        tci_link_remove(k);
    return k;
}

/* k may be removed in the body. */
#define TCI_LIST_EACH(list, k)                                                     \
    for (tci_link *k = (list)->head.next, *k##_next = k->next; k != &(list)->head; \
         k = k##_next, k##_next = k->next)

#endif
