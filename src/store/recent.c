/* SPDX-License-Identifier: Apache-2.0
 *
 * The tasks that were written last. Runs on the store's thread. Invariant: what is here is what the backend
 * would answer; a task that cannot be kept (too long, no memory) is forgotten. */
#include "store/recent.h"

void tci_recent_init(tci_recent *r)
{
    *r = (tci_recent){.next = 0};
    for (size_t i = 0; i < TCI_RECENT_TASKS; i++)
        tci_buf_init(&r->texts[i], TCI_RECENT_TEXT_MAX);
}

void tci_recent_done(tci_recent *r)
{
    for (size_t i = 0; i < TCI_RECENT_TASKS; i++)
        tci_buf_done(&r->texts[i]);
}

static size_t find(const tci_recent *r, uint64_t id)
{
    size_t i = 0;
    while (i < TCI_RECENT_TASKS && r->tasks[i].id != id)
        i++;
    return i;
}

static void keep(tci_recent *r, const tci_task *t)
{
    size_t i = find(r, t->id);
    if (i == TCI_RECENT_TASKS)
        i = r->next++ % TCI_RECENT_TASKS;
    tci_buf *b = &r->texts[i];
    tci_buf_clear(b);
    tci_buf_append_str(b, t->json);
    tci_buf_append_str(b, t->kind);
    r->tasks[i] = *t;
    if (!tci_buf_ok(b)) {
        r->tasks[i].id = 0;
        return;
    }
    r->tasks[i].json = tci_str_of(b->ptr, t->json.len);
    r->tasks[i].kind = tci_str_of(b->ptr + t->json.len, t->kind.len);
}

void tci_recent_note(tci_recent *r, const tci_write *writes, size_t nwrites)
{
    for (size_t i = 0; i < nwrites; i++) {
        if (writes[i].type == TCI_WRITE_TASK)
            keep(r, &writes[i].u.task);
    }
}

int tci_recent_task(const tci_recent *r, uint64_t id, tci_arena *a, tci_task *ret, tc_err *err)
{
    size_t i = find(r, id);
    if (id == 0 || i == TCI_RECENT_TASKS)
        return 0;
    tci_task t = r->tasks[i];
    int rc = tci_arena_dup(a, t.json, &t.json, err);
    if (rc == 0)
        rc = tci_arena_dup(a, t.kind, &t.kind, err);
    if (rc < 0)
        return rc;
    *ret = t;
    return 1;
}
