/* SPDX-License-Identifier: Apache-2.0
 *
 * A storage as text. */
#include "dump.h"

enum { PAGE = 3 }; /* small: pages take part in the test */

static void put(tci_buf *out, const char *what, tc_str json)
{
    tci_buf_printf(out, "%s ", what);
    tci_buf_append_str(out, json);
    tci_buf_append_byte(out, '\n');
}

static int put_documents(tci_store *s, tci_buf *out, const tci_document *d, size_t n, tci_arena *a,
                         tc_err *err)
{
    for (size_t i = 0; i < n; i++) {
        tci_document_state state;
        tci_tree value;
        put(out, "document", d[i].json);
        int rc = tci_store_document(s, d[i].id, 0, a, &state, &value, err);
        if (rc < 0)
            return rc;
        if (state.record.id == 0)
            continue;
        tci_buf_printf(out, "  %llu ", (unsigned long long)state.version);
        tci_json_put(out, &value.root, TCI_JSON_AS_IS);
        tci_buf_append_byte(out, '\n');
        tci_tree_done(&value);
    }
    return 0;
}

typedef enum what { CONVERSATIONS, ENTRIES, TASKS, SUBMISSIONS, DOCUMENTS, ALL } what;

static int put_page(tci_store *s, what w, const tci_page *page, tci_buf *out, tci_arena *a,
                    tci_cursor *next, tc_err *err)
{
    static const tci_task_query every_task = {0, {NULL, 0}, -1, -1, -1};
    union {
        tci_conversation *c;
        tci_entry *e;
        tci_task *t;
        tci_submission *s;
        tci_document *d;
    } u;
    size_t n = 0;
    int rc = 0;
    switch (w) {
    case CONVERSATIONS:
        rc = tci_store_scan_conversations(s, 0, 0, page, a, &u.c, &n, next, err);
        for (size_t i = 0; rc == 0 && i < n; i++)
            put(out, "conversation", u.c[i].json);
        break;
    case ENTRIES:
        rc = tci_store_scan_entries(s, 0, 0, 0, page, a, &u.e, &n, next, err);
        for (size_t i = 0; rc == 0 && i < n; i++)
            put(out, "entry", u.e[i].json);
        break;
    case TASKS:
        rc = tci_store_scan_tasks(s, &every_task, page, a, &u.t, &n, next, err);
        for (size_t i = 0; rc == 0 && i < n; i++)
            put(out, "task", u.t[i].json);
        break;
    case SUBMISSIONS:
        rc = tci_store_scan_submissions(s, 0, -1, page, a, &u.s, &n, next, err);
        for (size_t i = 0; rc == 0 && i < n; i++)
            put(out, "submission", u.s[i].json);
        break;
    case DOCUMENTS:
        rc = tci_store_scan_documents(s, -1, 0, TC_STR(""), 0, page, a, &u.d, &n, next, err);
        if (rc == 0)
            rc = put_documents(s, out, u.d, n, a, err);
        break;
    case ALL:
        break;
    }
    return rc;
}

int dump_store(tci_store *store, tci_buf *out, tc_err *err)
{
    tci_arena a;
    tci_arena_init(&a, 0);
    int rc = 0;
    for (int w = CONVERSATIONS; rc == 0 && w < ALL; w++) {
        tci_cursor cursor = {0};
        do {
            tci_page page = {TCI_ORDER_ASCENDING, cursor, PAGE};
            tci_arena_clear(&a);
            rc = put_page(store, (what)w, &page, out, &a, &cursor, err);
        } while (rc == 0 && cursor.after != 0);
    }
    tci_arena_done(&a);
    return rc < 0 ? rc : tci_buf_error(out, err);
}
