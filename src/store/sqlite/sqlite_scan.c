/* SPDX-License-Identifier: Apache-2.0
 *
 * Pages of records. A scan has as many forms as it has filters; each form is one statement, built
 * and prepared at its first use. Thread: the session's line. Invariant: one filter at most is left
 * to the choice of an index, the one that is known to select least. */
#include "store/sqlite/sqlite_int.h"

enum {
    /* Slots in tci_sqlite.scans. */
    SCAN_TASKS = 0,           /* 5 filters, 2 orders, 4 indexes to go by: 256 */
    SCAN_CONVERSATIONS = 256, /* 2 filters, 2 orders: 8 */
    SCAN_SUBMISSIONS = 264,   /* 2 filters, 2 orders, 2 indexes to go by: 16 */
    SCAN_DOCUMENTS = 280,     /* with scope, with kind, as of: 8 */
    SCAN_END = 288,
    FIRST_PAGE_ITEMS = 16,
    LONG_PAGE = 250, /* items; and ids: from here on a scan is a long one */
    LONG_RANGE = 2000
};
_Static_assert((int)SCAN_END <= (int)TCI_SQLITE_SCANS, "slots");

static tci_sqlite *of(tci_store *store)
{
    return TCI_CONTAINER(store, tci_sqlite, store);
}

/* ---- collecting a page ---- */

typedef int (*decode_fn)(tci_sqlite *s, tc_str text, tci_arena *a, void *ret_item, tc_err *err);

static int decode_conversation(tci_sqlite *s, tc_str text, tci_arena *a, void *item, tc_err *err)
{
    return tci_sqlite_conversation_of(s, text, a, item, err);
}
static int decode_entry(tci_sqlite *s, tc_str text, tci_arena *a, void *item, tc_err *err)
{
    return tci_sqlite_entry_of(s, text, a, item, err);
}
static int decode_task(tci_sqlite *s, tc_str text, tci_arena *a, void *item, tc_err *err)
{
    return tci_sqlite_task_of(s, text, a, item, err);
}
static int decode_submission(tci_sqlite *s, tc_str text, tci_arena *a, void *item, tc_err *err)
{
    return tci_sqlite_submission_of(s, text, a, item, err);
}
static int decode_document(tci_sqlite *s, tc_str text, tci_arena *a, void *item, tc_err *err)
{
    return tci_sqlite_document_of(s, text, a, item, err);
}

/* Items of one type, found one after another, up to a limit. */
typedef struct gathering {
    tci_sqlite *s;
    tci_arena *a, *texts; /* of the items, and of what is in them */
    decode_fn decode;
    size_t item_size, limit;
    char *items;
    size_t count, cap;
    bool has_more;
} gathering;

static int gather_one(gathering *g, tc_str text, tc_err *err)
{
    if (g->count == g->cap) {
        size_t cap = g->cap != 0 ? 2 * g->cap : FIRST_PAGE_ITEMS;
        cap = cap < g->limit ? cap : g->limit;
        char *items = tci_arena_array(g->a, cap, g->item_size);
        if (items == NULL)
            return tci_arena_error(g->a, err);
        if (g->count != 0)
            memcpy(items, g->items, g->count * g->item_size);
        g->items = items;
        g->cap = cap;
    }
    int rc = g->decode(g->s, text, g->texts, g->items + g->count * g->item_size, err);
    if (rc == 0)
        g->count++;
    return rc;
}

/* Rows of a bound statement whose first column is the record. It asks for one row more than the
 * limit leaves room for. */
static int gather(gathering *g, sqlite3_stmt *stmt, tc_err *err)
{
    int rc;
    while ((rc = tci_sqlite_step(g->s, stmt, err)) == 1) {
        g->has_more = g->count == g->limit;
        if (!g->has_more)
            rc = gather_one(g, tci_sqlite_text(stmt, 0), err);
        if (g->has_more || rc < 0) {
            (void)sqlite3_reset(stmt);
            return rc < 0 ? rc : 0;
        }
    }
    return rc;
}

static uint64_t rows_wanted(const gathering *g)
{
    return (uint64_t)(g->limit - g->count) + 1;
}

/* ---- building a scan's statement ---- */

/* The conditions of a scan, in the order of their parameters; parameter 1 is where to go on, the last
 * one the limit. */
typedef struct filter {
    const char *text; /* "conversation_id=?" with the number to follow */
    bool is_asked;
    bool is_indexed; /* leave this one to the indexes */
} filter;

static int scan_stmt(tci_sqlite *s, size_t slot, const char *table, const filter *filters,
                     size_t nfilters, tci_order order, sqlite3_stmt **ret, tc_err *err)
{
    if (s->scans[slot] == NULL) {
        tci_buf sql;
        tci_buf_init(&sql, 4096);
        tci_buf_printf(&sql, "SELECT record FROM @%s WHERE id%s?1", table,
                       order == TCI_ORDER_ASCENDING ? ">" : "<");
        for (size_t i = 0; i < nfilters; i++)
            if (filters[i].is_asked)
                tci_buf_printf(&sql, " AND %s%s%zu", filters[i].is_indexed ? "" : "+",
                               filters[i].text, i + 2);
        tci_buf_printf(&sql, " ORDER BY id%s LIMIT ?%zu",
                       order == TCI_ORDER_ASCENDING ? "" : " DESC", nfilters + 2);
        tci_buf_append_byte(&sql, 0);
        int rc = tci_buf_error(&sql, err);
        if (rc == 0)
            rc = tci_sqlite_prepare(s, sql.ptr, &s->scans[slot], err);
        tci_buf_done(&sql);
        if (rc < 0)
            return rc;
    }
    *ret = s->scans[slot];
    return 0;
}

/* Filters and order as a number. */
static size_t form_of(const filter *filters, size_t nfilters, tci_order order)
{
    size_t form = order == TCI_ORDER_DESCENDING ? 1 : 0;
    for (size_t i = 0; i < nfilters; i++)
        form = form * 2 + (filters[i].is_asked ? 1 : 0);
    return form;
}

static void bind_start(sqlite3_stmt *stmt, const tci_page *page)
{
    uint64_t after = page->cursor.after;
    if (page->order == TCI_ORDER_DESCENDING && after == 0)
        after = TCI_ID_MAX + 1;
    tci_sqlite_bind_u64(stmt, 1, after);
}

/* The page as the caller wants it; last_id is the id of the last item. */
static void finish(const gathering *g, uint64_t last_id, size_t *ret_count, tci_cursor *ret_next)
{
    *ret_count = g->count;
    ret_next->after = g->has_more ? last_id : 0;
}

static gathering start(tci_sqlite *s, const tci_page *page, tci_arena *a, decode_fn decode,
                       size_t item_size)
{
    return (gathering){
        .s = s, .a = a, .texts = a, .decode = decode, .item_size = item_size, .limit = page->limit};
}

/* ---- the scans ---- */

int tci_sqlite_scan_conversations(tci_store *store, uint64_t owner_conversation_id,
                                  uint64_t owner_task_id, const tci_page *page, tci_arena *a,
                                  tci_conversation **ret, size_t *ret_count, tci_cursor *ret_next,
                                  tc_err *err)
{
    tci_sqlite *s = of(store);
    gathering g = start(s, page, a, decode_conversation, sizeof(tci_conversation));
    const filter filters[] = {
        {"owner_conversation_id=?", owner_conversation_id != 0, owner_task_id == 0},
        {"owner_task_id=?", owner_task_id != 0, true},
    };
    sqlite3_stmt *stmt;
    int rc = scan_stmt(s, SCAN_CONVERSATIONS + form_of(filters, 2, page->order), "conversations",
                       filters, 2, page->order, &stmt, err);
    if (rc < 0)
        return rc;
    bind_start(stmt, page);
    if (owner_conversation_id != 0)
        tci_sqlite_bind_u64(stmt, 2, owner_conversation_id);
    if (owner_task_id != 0)
        tci_sqlite_bind_u64(stmt, 3, owner_task_id);
    tci_sqlite_bind_u64(stmt, 4, rows_wanted(&g));
    rc = gather(&g, stmt, err);
    if (rc < 0)
        return rc;
    *ret = (tci_conversation *)(void *)g.items;
    finish(&g, g.count != 0 ? (*ret)[g.count - 1].id : 0, ret_count, ret_next);
    return 0;
}

/* By which index to look for tasks. Nearly all tasks of an old session are terminal, and hardly any is
 * in the background or to be aborted: those few are found through an index of their own. */
typedef enum by_index { BY_REST, BY_STATUS, BY_ABORT, BY_BACKGROUND } by_index;

static by_index best_index(const tci_task_query *query)
{
    if (query->status >= 0 && query->status != TCI_TASK_TERMINAL)
        return BY_STATUS;
    if (query->is_abort_requested == 1)
        return BY_ABORT;
    return query->is_background == 1 ? BY_BACKGROUND : BY_REST;
}

static int tasks_stmt(tci_sqlite *s, const tci_task_query *query, tci_order order,
                      sqlite3_stmt **ret, tc_err *err)
{
    enum { NFILTERS = 5 };
    by_index by = best_index(query);
    bool has_conversation = query->conversation_id != 0, has_kind = query->kind.len != 0;
    bool has_status = query->status >= 0;
    bool is_last = by == BY_REST && !has_conversation && !has_kind; /* then any of them will do */
    const filter filters[NFILTERS] = {
        {"conversation_id=?", has_conversation, by == BY_REST},
        {"kind=?", has_kind, by == BY_REST && !has_conversation},
        {"status=?", has_status, by == BY_STATUS || is_last},
        {"abort_requested=?", query->is_abort_requested >= 0, by == BY_ABORT || is_last},
        {"background=?", query->is_background >= 0, by == BY_BACKGROUND || is_last},
    };
    size_t form = form_of(filters, NFILTERS, order) * 4 + (size_t)by;
    return scan_stmt(s, SCAN_TASKS + form, "tasks", filters, NFILTERS, order, ret, err);
}

int tci_sqlite_scan_tasks(tci_store *store, const tci_task_query *query, const tci_page *page,
                          tci_arena *a, tci_task **ret, size_t *ret_count, tci_cursor *ret_next,
                          tc_err *err)
{
    tci_sqlite *s = of(store);
    gathering g = start(s, page, a, decode_task, sizeof(tci_task));
    sqlite3_stmt *stmt;
    int rc = tasks_stmt(s, query, page->order, &stmt, err);
    if (rc < 0)
        return rc;
    bind_start(stmt, page);
    tci_sqlite_bind_u64(stmt, 2, query->conversation_id);
    rc = tci_sqlite_bind_identity(stmt, 3, &s->kind, query->kind, err);
    if (rc < 0)
        return rc;
    if (query->status >= 0)
        tci_sqlite_bind_name(stmt, 4, tci_task_status_name((tci_task_status)query->status));
    tci_sqlite_bind_u64(stmt, 5, query->is_abort_requested > 0);
    tci_sqlite_bind_u64(stmt, 6, query->is_background > 0);
    tci_sqlite_bind_u64(stmt, 7, rows_wanted(&g));
    rc = gather(&g, stmt, err);
    if (rc < 0)
        return rc;
    *ret = (tci_task *)(void *)g.items;
    finish(&g, g.count != 0 ? (*ret)[g.count - 1].id : 0, ret_count, ret_next);
    return 0;
}

int tci_sqlite_scan_submissions(tci_store *store, uint64_t conversation_id, int status,
                                const tci_page *page, tci_arena *a, tci_submission **ret,
                                size_t *ret_count, tci_cursor *ret_next, tc_err *err)
{
    tci_sqlite *s = of(store);
    gathering g = start(s, page, a, decode_submission, sizeof(tci_submission));
    /* Those that are not settled yet are few. */
    bool by_status = status == TCI_SUBMISSION_QUEUED || status == TCI_SUBMISSION_PLACED;
    const filter filters[] = {
        {"conversation_id=?", conversation_id != 0, !by_status},
        {"status=?", status >= 0, by_status || conversation_id == 0},
    };
    size_t form = form_of(filters, 2, page->order) * 2 + (by_status ? 1 : 0);
    sqlite3_stmt *stmt;
    int rc =
        scan_stmt(s, SCAN_SUBMISSIONS + form, "submissions", filters, 2, page->order, &stmt, err);
    if (rc < 0)
        return rc;
    bind_start(stmt, page);
    tci_sqlite_bind_u64(stmt, 2, conversation_id);
    if (status >= 0)
        tci_sqlite_bind_name(stmt, 3, tci_submission_status_name((tci_submission_status)status));
    tci_sqlite_bind_u64(stmt, 4, rows_wanted(&g));
    rc = gather(&g, stmt, err);
    if (rc < 0)
        return rc;
    *ret = (tci_submission *)(void *)g.items;
    finish(&g, g.count != 0 ? (*ret)[g.count - 1].id : 0, ret_count, ret_next);
    return 0;
}

int tci_sqlite_scan_documents(tci_store *store, int scope, uint64_t owner_id, tc_str kind,
                              uint64_t at, const tci_page *page, tci_arena *a, tci_document **ret,
                              size_t *ret_count, tci_cursor *ret_next, tc_err *err)
{
    tci_sqlite *s = of(store);
    gathering g = start(s, page, a, decode_document, sizeof(tci_document));
    bool has_scope = scope >= 0, has_kind = kind.len != 0;
    const filter filters[] = {
        {"scope_kind=?", has_scope, true},
        {"owner_id=?", has_scope, true},
        {"kind=?", has_kind, true},
        {"created_at<=?", has_scope && at != 0, true},
        {"coalesce(retired_at>?5,1)=?", has_scope && at != 0, true},
        {"retired_at IS NULL AND ?", has_scope && at == 0, true},
    };
    size_t form = (has_scope ? 1U : 0U) + (has_kind ? 2U : 0U) + (at != 0 ? 4U : 0U);
    sqlite3_stmt *stmt;
    int rc = scan_stmt(s, SCAN_DOCUMENTS + form, "documents", filters, TCI_ARRAY_LEN(filters),
                       TCI_ORDER_ASCENDING, &stmt, err);
    if (rc == 0)
        rc = tci_sqlite_bind_identity(stmt, 4, &s->kind, kind, err);
    if (rc < 0)
        return rc;
    tci_sqlite_bind_u64(stmt, 1, page->cursor.after);
    if (has_scope)
        tci_sqlite_bind_name(stmt, 2, tci_scope_name((tci_scope)scope));
    tci_sqlite_bind_u64(stmt, 3, scope == TCI_SCOPE_SESSION ? 0 : owner_id);
    tci_sqlite_bind_u64(stmt, 5, at);
    tci_sqlite_bind_u64(stmt, 6, 1);
    tci_sqlite_bind_u64(stmt, 7, 1);
    tci_sqlite_bind_u64(stmt, 8, rows_wanted(&g));
    rc = gather(&g, stmt, err);
    if (rc < 0)
        return rc;
    *ret = (tci_document *)(void *)g.items;
    finish(&g, g.count != 0 ? (*ret)[g.count - 1].id : 0, ret_count, ret_next);
    return 0;
}

/* ---- entries: the segments of the fork chain, one after another ---- */

typedef struct segment_list {
    tci_sqlite_segment *items; /* the conversation asked for first, its root last */
    uint64_t *upper;           /* the highest id to be seen in each */
    size_t count, cap;
} segment_list;

static int push_segment(segment_list *l, tci_arena *a, tci_sqlite_segment item, uint64_t upper,
                        tc_err *err)
{
    if (l->count == l->cap) {
        size_t cap = l->cap != 0 ? 2 * l->cap : 4;
        tci_sqlite_segment *items = tci_arena_items(a, tci_sqlite_segment, cap);
        uint64_t *uppers = tci_arena_items(a, uint64_t, cap);
        if (items == NULL || uppers == NULL)
            return tci_arena_error(a, err);
        if (l->count != 0) {
            memcpy(items, l->items, l->count * sizeof *items);
            memcpy(uppers, l->upper, l->count * sizeof *uppers);
        }
        *l = (segment_list){items, uppers, l->count, cap};
    }
    l->items[l->count] = item;
    l->upper[l->count++] = upper;
    return 0;
}

/* All segments that may hold an entry from lower to upper. */
static int list_segments(tci_sqlite *s, uint64_t conversation_id, uint64_t lower, uint64_t upper,
                         tci_arena *a, segment_list *ret, tc_err *err)
{
    tci_sqlite_segment at;
    bool is_found;
    int rc = tci_sqlite_segment_of(s, conversation_id, &at, &is_found, err);
    if (rc == 0 && !is_found)
        return tc_err_set(err, TC_E_NOT_FOUND, "Unknown conversation: %llu",
                          (unsigned long long)conversation_id);
    while (rc == 0 && is_found) {
        rc = push_segment(ret, a, at, upper, err);
        if (rc < 0 || at.parent_id == 0 || at.parent_id >= at.id)
            break;
        upper = at.parent_at < upper ? at.parent_at : upper;
        if (upper < lower)
            break;
        rc = tci_sqlite_segment_of(s, at.parent_id, &at, &is_found, err);
    }
    return rc;
}

static int gather_entries(gathering *g, uint64_t conversation_id, uint64_t lower, uint64_t upper,
                          tci_order order, tc_err *err)
{
    static const tci_sql which[2][2] = {
        {TCI_SQL_ALL_ENTRIES_UP, TCI_SQL_ALL_ENTRIES_DOWN},
        {TCI_SQL_ENTRIES_UP, TCI_SQL_ENTRIES_DOWN},
    };
    sqlite3_stmt *stmt;
    int rc = tci_sqlite_stmt(g->s, which[conversation_id != 0][order == TCI_ORDER_DESCENDING],
                             &stmt, err);
    if (rc < 0)
        return rc;
    if (conversation_id != 0)
        tci_sqlite_bind_u64(stmt, 1, conversation_id);
    tci_sqlite_bind_u64(stmt, 2, lower);
    tci_sqlite_bind_u64(stmt, 3, upper);
    tci_sqlite_bind_u64(stmt, 4, rows_wanted(g));
    return gather(g, stmt, err);
}

int tci_sqlite_scan_entries(tci_store *store, uint64_t conversation_id, uint64_t min, uint64_t max,
                            const tci_page *page, tci_arena *a, tci_arena *texts, tci_entry **ret,
                            size_t *ret_count, tci_cursor *ret_next, tc_err *err)
{
    tci_sqlite *s = of(store);
    gathering g = start(s, page, a, decode_entry, sizeof(tci_entry));
    g.texts = texts;
    bool is_up = page->order == TCI_ORDER_ASCENDING;
    uint64_t lower = min, upper = max != 0 ? max : TCI_ID_MAX, after = page->cursor.after;
    if (after != 0 && is_up && after >= lower)
        lower = after + 1;
    else if (after != 0 && !is_up && after <= upper)
        upper = after - 1;

    bool is_long = !s->is_read_only && page->limit >= LONG_PAGE && lower < s->next_id &&
                   tci_min_u64(upper, s->next_id) - lower >= LONG_RANGE;
    segment_list list = {.count = 0};
    int rc = conversation_id != 0
                 ? list_segments(s, conversation_id, lower, upper, a, &list, err)
                 : push_segment(&list, a, (tci_sqlite_segment){.id = 0}, upper, err);
    if (is_long)
        tci_sqlite_fetch_pages(s, true);
    for (size_t i = 0; rc == 0 && i < list.count && !g.has_more; i++) {
        size_t at = is_up ? list.count - 1 - i : i;
        rc = gather_entries(&g, list.items[at].id, lower, list.upper[at], page->order, err);
    }
    if (is_long)
        tci_sqlite_fetch_pages(s, false);
    if (rc < 0)
        return rc;
    *ret = (tci_entry *)(void *)g.items;
    finish(&g, g.count != 0 ? (*ret)[g.count - 1].id : 0, ret_count, ret_next);
    return 0;
}
