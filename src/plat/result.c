/* SPDX-License-Identifier: Apache-2.0
 *
 * Results: an arena, the answers whose bytes it lends, and the evidence of the last call. The
 * caller's thread. Invariant: what was handed out stays until clear or free. */
#include "plat/call.h"

#include "base/num.h"

tci_held *tci_held_new(size_t len)
{
    size_t size;
    if (!tci_add_size(sizeof(tci_held), len, &size))
        return NULL;
    tci_held *h = tci_mem_alloc(size);
    if (h == NULL)
        return NULL;
    h->len = len;
    tci_arena_init(&h->arena, 0);
    return h;
}

void tci_held_free(tci_held *h)
{
    if (h == NULL)
        return;
    if (h->release != NULL)
        h->release(h->what);
    tci_arena_done(&h->arena);
    tci_free(h);
}

int tc_result_new(tc_result **ret_result, tc_err *err)
{
    tc_result *r = tci_new(tc_result);
    if (r == NULL)
        return tci_err_no_memory(err);
    tci_arena_init(&r->arena, 0);
    *ret_result = r;
    return 0;
}

void tc_result_clear(tc_result *r)
{
    while (r->held != NULL) {
        tci_held *h = r->held;
        r->held = h->next;
        tci_held_free(h);
    }
    tci_arena_clear(&r->arena);
    tci_result_reset_evidence(r, TC_OUTCOME_NONE);
}

void tc_result_free(tc_result *r)
{
    if (r == NULL)
        return;
    tc_result_clear(r);
    tci_arena_done(&r->arena);
    tci_free(r);
}

int tc_result_dup(tc_result *r, tc_str s, tc_str *ret, tc_err *err)
{
    char *copy = tci_arena_bytes(&r->arena, s.len + 1);
    if (copy == NULL)
        return tci_arena_error(&r->arena, err);
    if (s.len > 0)
        memcpy(copy, s.ptr, s.len);
    copy[s.len] = 0;
    *ret = tci_str_of(copy, s.len);
    return 0;
}

int tc_result_alloc(tc_result *r, size_t size, void **ret_room, tc_err *err)
{
    void *room = tci_arena_alloc(&r->arena, size);
    if (room == NULL)
        return tci_arena_error(&r->arena, err);
    *ret_room = room;
    return 0;
}

const tc_evidence *tc_result_evidence(const tc_result *r)
{
    return &r->evidence;
}

void tci_result_reset_evidence(tc_result *r, tc_outcome outcome)
{
    r->evidence = (tc_evidence){.outcome = outcome};
}

tci_arena *tci_result_arena(tc_result *r)
{
    return &r->arena;
}

enum { LARGE = 64 * 1024 };

char *tci_result_bytes(tc_result *r, size_t len)
{
    if (len < LARGE)
        return tci_arena_bytes(&r->arena, len);
    tci_held *h = tci_held_new(len);
    if (h == NULL)
        return NULL;
    tci_result_keep_own(r, h);
    return h->text;
}

void tci_result_keep_own(tc_result *r, tci_held *h)
{
    h->next = r->held;
    r->held = h;
}

int tci_result_refer(tc_result *r, void *what, void (*release)(void *what), tc_err *err)
{
    tci_held *h = tci_held_new(0);
    if (h == NULL)
        return tci_err_no_memory(err);
    h->release = release;
    h->what = what;
    tci_result_keep_own(r, h);
    return 0;
}

const char *tc_outcome_name(tc_outcome outcome)
{
    switch (outcome) {
    case TC_OUTCOME_NONE:
        return "none";
    case TC_OUTCOME_DONE:
        return "done";
    case TC_OUTCOME_NOT_STARTED:
        return "not_started";
    case TC_OUTCOME_UNKNOWN:
        return "unknown";
    }
    return "unknown";
}
