/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads contexts from a session, and keeps the last one of each conversation for the next reader.
 * Leaves what a context is to context.c. Any thread, not on the line but for the bounds. Invariant:
 * a context in the cache belongs to nobody else; entries never change, so it is only ever too short. */
#include "harness/conversation.h"
#include "plat/clock.h"

enum { PAGE = 1000, KEPT_MAX = 64 };

typedef struct bounds {
    uint64_t head_id, from; /* from: the head of the marker; 0: the beginning */
    uint64_t tail;          /* 0: no entries */
} bounds;

/* What the range is, looked up at one moment. */
static int read_bounds(tci_run *run, uint64_t conversation, uint64_t at, bounds *ret, tc_err *err)
{
    tci_arena a;
    tci_arena_init(&a, 0);
    tci_entry entry, *newest;
    tci_conversation c;
    size_t n = 0;
    tc_page page = {.limit = 1};
    bounds b = {0, 0, at};
    if (tci_durable_enter(run->s, err) < 0)
        return err->code;
    int rc = tci_durable_conversation(run->s, conversation, &a, &c, err);
    if (rc == 0 && c.id == 0)
        rc = tc_err_set(err, TC_E_NOT_FOUND, "no conversation %llu",
                        (unsigned long long)conversation);
    if (rc == 0 && at != 0) {
        rc = tci_durable_entry(run->s, conversation, at, &a, &entry, NULL, err);
        if (rc == 0 && entry.id == 0)
            rc = tc_err_set(err, TC_E_NOT_FOUND, "entry %llu is not visible from conversation %llu",
                            (unsigned long long)at, (unsigned long long)conversation);
    } else if (rc == 0) {
        rc =
            tci_durable_scan_entries(run->s, conversation, 0, 0, &page, &a, &newest, &n, NULL, err);
        b.tail = rc == 0 && n > 0 ? newest[0].id : 0;
    }
    if (rc == 0 && b.tail != 0) {
        rc = tci_durable_head_marker(run->s, conversation, b.tail, &a, &entry, err);
        if (rc == 0 && entry.id != 0) {
            b.head_id = entry.id;
            b.from = entry.head;
        }
    }
    tci_durable_leave(run->s);
    tci_arena_done(&a);
    if (rc == 0)
        *ret = b;
    return rc;
}

/* Entries [min, max] into the context. What the storage needs besides their texts is dropped page by
 * page. */
static int scan(tci_run *run, uint64_t min, uint64_t max, tci_context *c, tc_err *err)
{
    tc_page page = {.order = TC_ORDER_ASCENDING, .limit = PAGE};
    tci_arena scratch;
    int rc;
    tci_arena_init(&scratch, 0);
    do {
        tci_entry *items;
        size_t count = 0;
        tci_arena_clear(&scratch);
        rc = tci_durable_read_entries(run->s, c->conversation, min, max, &page, &scratch,
                                      &c->texts->arena, &items, &count, &page.cursor, err);
        if (rc == 0)
            rc = tci_context_add(c, items, count, err);
    } while (rc == 0 && page.cursor.after != 0);
    tci_arena_done(&scratch);
    return rc < 0 ? rc : tci_context_settle(c, err);
}

/* ---- the cache ---- */

static tci_context *unlink_context(tci_run *run, uint64_t conversation)
{
    for (tci_context **at = &run->contexts; *at != NULL; at = &(*at)->next) {
        tci_context *c = *at;
        if (c->conversation == conversation) {
            *at = c->next;
            return c;
        }
    }
    return NULL;
}

static tci_context *take_cached(tci_run *run, uint64_t conversation)
{
    tci_mutex_lock(&run->lock);
    tci_context *c = unlink_context(run, conversation);
    tci_mutex_unlock(&run->lock);
    return c;
}

/* Those kept too long, and the oldest of too many, unlinked. */
static tci_context *take_expired(tci_run *run, int64_t before_ns)
{
    tci_context *expired = NULL;
    size_t n = 0;
    for (tci_context **at = &run->contexts; *at != NULL;) {
        tci_context *c = *at;
        if (c->kept_ns < before_ns || ++n > KEPT_MAX) {
            *at = c->next;
            c->next = expired;
            expired = c;
        } else {
            at = &c->next;
        }
    }
    return expired;
}

static void free_list(tci_context *c)
{
    while (c != NULL) {
        tci_context *next = c->next;
        tci_context_free(c);
        c = next;
    }
}

void tci_context_release(tc_harness *h, tci_context *c)
{
    if (c == NULL)
        return;
    tci_run *run = tci_run_of(h);
    tc_result *r;
    tc_err err;
    int64_t retention = 0;
    if (tc_result_new(&r, &err) == 0) {
        tc_settings settings;
        tci_harness_settings(h, r, &settings);
        retention = settings.context_retention_ms;
        tc_result_free(r);
    }
    int64_t now = tci_clock_mono_ns(), before = INT64_MIN;
    if (retention < INT64_MAX / 1000000)
        before = now - retention * 1000000;
    tci_mutex_lock(&run->lock);
    tci_context *other = unlink_context(run, c->conversation);
    tci_context *expired = take_expired(run, before);
    tci_context *loser = c;
    if (retention > 0 && (other == NULL || other->tail <= c->tail)) {
        c->kept_ns = now;
        c->next = run->contexts;
        run->contexts = c;
        loser = other;
    } else if (retention > 0 && other != NULL) {
        other->next = run->contexts;
        run->contexts = other;
    } else if (other != NULL) {
        other->next = expired;
        expired = other;
    }
    tci_mutex_unlock(&run->lock);
    tci_context_free(loser);
    free_list(expired);
}

/* ---- reading ---- */

static int read_new(tci_run *run, uint64_t conversation, const bounds *b, tci_context **ret,
                    tc_err *err)
{
    tci_context *c;
    if (tci_context_of(conversation, b->head_id, NULL, 0, &c, err) < 0)
        return err->code;
    if (b->tail != 0 && scan(run, b->from, b->tail, c, err) < 0) {
        tci_context_free(c);
        return err->code;
    }
    *ret = c;
    return 0;
}

int tci_context_read(tc_harness *h, uint64_t conversation, uint64_t at, tci_context **ret_context,
                     tc_err *err)
{
    tci_run *run = tci_run_of(h);
    bounds b;
    if (read_bounds(run, conversation, at, &b, err) < 0)
        return err->code;
    tci_context *c = take_cached(run, conversation);
    if (c == NULL || c->head_id != b.head_id || c->tail > b.tail || c->tail == 0) {
        tci_context_release(h, c);
        return read_new(run, conversation, &b, ret_context, err);
    }
    if (c->tail < b.tail && scan(run, c->tail + 1, b.tail, c, err) < 0) {
        tci_context_free(c);
        return err->code;
    }
    *ret_context = c;
    return 0;
}
