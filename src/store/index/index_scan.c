/* SPDX-License-Identifier: Apache-2.0
 *
 * Scans: pages of records that have something in common. A page is first a list of ids, then
 * their records. Runs on the store's thread. Invariant: pages of one order join without a gap
 * and without a repeat, whatever was committed between them. */
#include "store/index/index_int.h"

/* Does the record with this id belong to the page? */
typedef bool (*match_fn)(const tci_index *ix, uint64_t id, const void *query);

/* A page being filled. */
typedef struct pager {
    const tci_page *page;
    uint64_t *ids;
    size_t count, cap;
    bool has_more;
    tci_arena *a;
} pager;

static int pager_error(const pager *p, tc_err *err)
{
    return tci_arena_error(p->a, err);
}

/* False when the page is full or memory is out (ids is NULL then). */
static bool pager_add(pager *p, uint64_t id)
{
    if (p->count == p->page->limit) {
        p->has_more = true;
        return false;
    }
    if (p->count == p->cap) {
        size_t cap = p->cap == 0 ? 16 : p->cap * 2;
        p->ids = tci_arena_grow(p->a, p->ids, p->cap * sizeof *p->ids, cap * sizeof *p->ids);
        if (p->ids == NULL)
            return false;
        p->cap = cap;
    }
    p->ids[p->count++] = id;
    return true;
}

static void pager_next(const pager *p, tci_cursor *ret_next)
{
    ret_next->after = p->has_more ? p->ids[p->count - 1] : 0;
}

/* The part of a view that is within bounds (inclusive) and behind the page's cursor. */
typedef struct span {
    tci_id_view view;
    size_t from, to; /* to is exclusive */
} span;

static span span_of(tci_id_view view, uint64_t min, uint64_t max, const tci_page *page)
{
    span s = {view, 0, view.count};
    bool is_up = page->order == TCI_ORDER_ASCENDING;
    uint64_t after = page->cursor.after;
    if (after != 0 && is_up && after + 1 > min)
        min = after + 1;
    if (after != 0 && !is_up && after - 1 < max)
        max = after - 1;
    if (min > 0)
        s.from = tci_id_find(&view, min);
    if (max < UINT64_MAX)
        s.to = tci_id_find(&view, max + 1);
    if (s.to < s.from)
        s.to = s.from;
    return s;
}

static bool span_take(span *s, bool is_up, uint64_t *ret_id)
{
    if (s->from == s->to)
        return false;
    *ret_id = tci_id_at(&s->view, is_up ? s->from++ : --s->to);
    return true;
}

static int collect(const tci_index *ix, tci_id_view view, match_fn match, const void *query,
                   pager *p, tc_err *err)
{
    bool is_up = p->page->order == TCI_ORDER_ASCENDING;
    span s = span_of(view, 0, UINT64_MAX, p->page);
    uint64_t id;
    while (span_take(&s, is_up, &id)) {
        if ((match == NULL || match(ix, id, query)) && !pager_add(p, id))
            return p->has_more ? 0 : pager_error(p, err);
    }
    return 0;
}

/* The shorter of two views; an absent list counts as empty. */
static tci_id_view shorter(tci_id_view a, tci_id_view b)
{
    return b.count < a.count ? b : a;
}

static tci_id_view list(const tci_index *ix, unsigned what, uint64_t key)
{
    return tci_ids_view(tci_postings_get(&ix->lists, what, key));
}

static int direction_of(const tci_page *page)
{
    return page->order == TCI_ORDER_ASCENDING ? 1 : -1;
}

/* ---- conversations ---- */

typedef struct owners {
    uint64_t conversation_id, task_id;
} owners;

static bool match_conversation(const tci_index *ix, uint64_t id, const void *query)
{
    const owners *q = query;
    const tci_ix_conversation *c = tci_table_find(&ix->conversations, id);
    return (q->conversation_id == 0 || c->owner_conversation_id == q->conversation_id) &&
           (q->task_id == 0 || c->owner_task_id == q->task_id);
}

int tci_index_scan_conversations(tci_index *ix, uint64_t owner_conversation_id,
                                 uint64_t owner_task_id, const tci_page *page, tci_arena *a,
                                 tci_conversation **ret, size_t *ret_count, tci_cursor *ret_next,
                                 tc_err *err)
{
    owners q = {owner_conversation_id, owner_task_id};
    pager p = {.page = page, .a = a};
    tci_id_view view = tci_table_view(&ix->conversations);
    if (owner_conversation_id != 0)
        view = shorter(view, list(ix, TCI_LIST_OWNED_BY, owner_conversation_id));
    if (owner_task_id != 0)
        view = shorter(view, list(ix, TCI_LIST_OWNED_BY_TASK, owner_task_id));
    int rc = collect(ix, view, match_conversation, &q, &p, err);
    tci_conversation *out = rc == 0 ? tci_arena_items(a, tci_conversation, p.count) : NULL;
    if (out == NULL)
        return rc < 0 ? rc : pager_error(&p, err);
    for (size_t i = 0; rc == 0 && i < p.count; i++)
        rc = tci_index_conversation(ix, p.ids[i], a, &out[i], err);
    if (rc < 0)
        return rc;
    *ret = out;
    *ret_count = p.count;
    pager_next(&p, ret_next);
    return 0;
}

/* ---- entries ---- */

/* Several spans as one, in order of ids. They seldom overlap: a child's entries come behind those of its
 * parent that it sees. */
static int collect_spans(span *spans, size_t nspans, pager *p, tc_err *err)
{
    bool is_up = p->page->order == TCI_ORDER_ASCENDING;
    for (;;) {
        size_t best = nspans;
        uint64_t best_id = 0;
        for (size_t k = 0; k < nspans; k++) {
            if (spans[k].from == spans[k].to)
                continue;
            uint64_t id = tci_id_at(&spans[k].view, is_up ? spans[k].from : spans[k].to - 1);
            if (best == nspans || (is_up ? id < best_id : id > best_id)) {
                best = k;
                best_id = id;
            }
        }
        if (best == nspans)
            return 0;
        (void)span_take(&spans[best], is_up, &best_id); /* it has one */
        if (!pager_add(p, best_id))
            return p->has_more ? 0 : pager_error(p, err);
    }
}

/* Spans that do not overlap, newest first: one after the other. */
static int collect_chain(span *spans, size_t nspans, pager *p, tc_err *err)
{
    bool is_up = p->page->order == TCI_ORDER_ASCENDING;
    for (size_t k = 0; k < nspans; k++) {
        span *s = &spans[is_up ? nspans - 1 - k : k];
        uint64_t id;
        while (span_take(s, is_up, &id)) {
            if (!pager_add(p, id))
                return p->has_more ? 0 : pager_error(p, err);
        }
    }
    return 0;
}

static int collect_visible(tci_index *ix, uint64_t conversation_id, uint64_t min, uint64_t max,
                           pager *p, tc_err *err)
{
    tci_segments chain;
    uint64_t conversation, cap, lowest = UINT64_MAX;
    size_t nspans = 0, room = 0;
    span *spans = NULL;
    bool is_chain = true;
    int rc = tci_segments_of(ix, conversation_id, &chain, err);
    if (rc < 0)
        return rc;
    while (tci_segments_next(&chain, &conversation, &cap)) {
        if (cap < min)
            break; /* and so are all that follow */
        span s =
            span_of(list(ix, TCI_LIST_ENTRIES, conversation), min, cap < max ? cap : max, p->page);
        if (s.from == s.to)
            continue;
        if (nspans == room) {
            spans =
                tci_arena_grow(p->a, spans, room * sizeof *spans, (room * 2 + 4) * sizeof *spans);
            if (spans == NULL)
                return pager_error(p, err);
            room = room * 2 + 4;
        }
        is_chain = is_chain && tci_id_at(&s.view, s.to - 1) < lowest;
        lowest = tci_id_at(&s.view, s.from);
        spans[nspans++] = s;
    }
    return is_chain ? collect_chain(spans, nspans, p, err) : collect_spans(spans, nspans, p, err);
}

static bool is_within(tc_str part, tc_str text)
{
    return (uintptr_t)part.ptr >= (uintptr_t)text.ptr &&
           (uintptr_t)part.ptr + part.len <= (uintptr_t)text.ptr + text.len;
}

int tci_index_scan_entries(tci_index *ix, uint64_t conversation_id, uint64_t min, uint64_t max,
                           const tci_page *page, tci_arena *a, tci_arena *texts, tci_entry **ret,
                           size_t *ret_count, tci_cursor *ret_next, tc_err *err)
{
    pager p = {.page = page, .a = a};
    if (max == 0)
        max = UINT64_MAX;
    int rc;
    if (conversation_id != 0) {
        rc = collect_visible(ix, conversation_id, min, max, &p, err);
    } else {
        span all = span_of(tci_table_view(&ix->entries), min, max, page);
        rc = collect_chain(&all, 1, &p, err);
    }
    tci_entry *out = rc == 0 ? tci_arena_items(a, tci_entry, p.count) : NULL;
    if (out == NULL)
        return rc < 0 ? rc : pager_error(&p, err);
    for (size_t i = 0; rc == 0 && i < p.count; i++) {
        const tci_ix_entry *r = tci_table_find(&ix->entries, p.ids[i]);
        tc_str text;
        rc = tci_index_text(ix, &r->place, 0, direction_of(page), texts, &text, err);
        if (rc == 0)
            rc = tci_entry_parse(text, a, NULL, &out[i], err);
        if (rc == 0 && texts != a && !is_within(out[i].kind, text))
            rc = tci_arena_dup(texts, out[i].kind, &out[i].kind, err);
    }
    if (rc < 0)
        return rc;
    *ret = out;
    *ret_count = p.count;
    pager_next(&p, ret_next);
    return 0;
}

/* ---- tasks ---- */

typedef struct task_query {
    const tci_task_query *q;
    uint32_t kind;
} task_query;

static bool match_task(const tci_index *ix, uint64_t id, const void *query)
{
    const task_query *t = query;
    const tci_task_query *q = t->q;
    const tci_ix_task *r = tci_table_find(&ix->tasks, id);
    return (q->conversation_id == 0 || r->conversation_id == q->conversation_id) &&
           (q->kind.len == 0 || r->kind == t->kind) && (q->status < 0 || r->status == q->status) &&
           (q->is_abort_requested < 0 || r->is_abort_requested == (q->is_abort_requested != 0)) &&
           (q->is_background < 0 || r->is_background == (q->is_background != 0));
}

int tci_index_scan_tasks(tci_index *ix, const tci_task_query *query, const tci_page *page,
                         tci_arena *a, tci_task **ret, size_t *ret_count, tci_cursor *ret_next,
                         tc_err *err)
{
    task_query q = {query, tci_index_kind(ix, query->kind)};
    pager p = {.page = page, .a = a};
    tci_id_view view = tci_table_view(&ix->tasks);
    if (query->conversation_id != 0)
        view = shorter(view, list(ix, TCI_LIST_TASKS, query->conversation_id));
    if (query->status >= 0)
        view = shorter(view, list(ix, TCI_LIST_TASK_STATUS, (uint64_t)query->status));
    if (query->is_abort_requested > 0)
        view = shorter(view, list(ix, TCI_LIST_TASK_ABORT, 0));
    int rc = collect(ix, view, match_task, &q, &p, err);
    tci_task *out = rc == 0 ? tci_arena_items(a, tci_task, p.count) : NULL;
    if (out == NULL)
        return rc < 0 ? rc : pager_error(&p, err);
    for (size_t i = 0; rc == 0 && i < p.count; i++)
        rc = tci_index_read_task(ix, p.ids[i], a, &out[i], err);
    if (rc < 0)
        return rc;
    *ret = out;
    *ret_count = p.count;
    pager_next(&p, ret_next);
    return 0;
}

/* ---- submissions ---- */

typedef struct submission_query {
    uint64_t conversation_id;
    int status;
} submission_query;

static bool match_submission(const tci_index *ix, uint64_t id, const void *query)
{
    const submission_query *q = query;
    const tci_ix_submission *r = tci_table_find(&ix->submissions, id);
    return (q->conversation_id == 0 || r->conversation_id == q->conversation_id) &&
           (q->status < 0 || r->status == q->status);
}

int tci_index_scan_submissions(tci_index *ix, uint64_t conversation_id, int status,
                               const tci_page *page, tci_arena *a, tci_submission **ret,
                               size_t *ret_count, tci_cursor *ret_next, tc_err *err)
{
    submission_query q = {conversation_id, status};
    pager p = {.page = page, .a = a};
    tci_id_view view = tci_table_view(&ix->submissions);
    if (conversation_id != 0)
        view = shorter(view, list(ix, TCI_LIST_SUBMISSIONS, conversation_id));
    if (status >= 0)
        view = shorter(view, list(ix, TCI_LIST_SUB_STATUS, (uint64_t)status));
    int rc = collect(ix, view, match_submission, &q, &p, err);
    tci_submission *out = rc == 0 ? tci_arena_items(a, tci_submission, p.count) : NULL;
    if (out == NULL)
        return rc < 0 ? rc : pager_error(&p, err);
    for (size_t i = 0; rc == 0 && i < p.count; i++)
        rc = tci_index_submission(ix, p.ids[i], a, &out[i], err);
    if (rc < 0)
        return rc;
    *ret = out;
    *ret_count = p.count;
    pager_next(&p, ret_next);
    return 0;
}

/* ---- documents ---- */

typedef struct document_query {
    tc_str kind;
    uint64_t at;
    bool is_any; /* retired ones too */
} document_query;

static bool match_document(const tci_index *ix, uint64_t id, const void *query)
{
    const document_query *q = query;
    const tci_doc *doc = tci_index_doc(ix, id);
    return (q->is_any || tci_doc_is_alive(doc, q->at)) &&
           (q->kind.len == 0 || tci_str_eq(q->kind, doc->record.kind));
}

int tci_index_scan_documents(tci_index *ix, int scope, uint64_t owner_id, tc_str kind, uint64_t at,
                             const tci_page *page, tci_arena *a, tci_document **ret,
                             size_t *ret_count, tci_cursor *ret_next, tc_err *err)
{
    document_query q = {kind, at, scope < 0};
    pager p = {.page = page, .a = a};
    tci_id_view view = tci_table_view(&ix->documents);
    if (scope >= 0)
        view = list(ix, TCI_LIST_SCOPE + (unsigned)scope, owner_id);
    int rc = collect(ix, view, match_document, &q, &p, err);
    tci_document *out = rc == 0 ? tci_arena_items(a, tci_document, p.count) : NULL;
    if (out == NULL)
        return rc < 0 ? rc : pager_error(&p, err);
    for (size_t i = 0; rc == 0 && i < p.count; i++)
        rc = tci_doc_record(tci_index_doc(ix, p.ids[i]), a, &out[i], err);
    if (rc < 0)
        return rc;
    *ret = out;
    *ret_count = p.count;
    pager_next(&p, ret_next);
    return 0;
}
