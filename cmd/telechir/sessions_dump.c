/* SPDX-License-Identifier: Apache-2.0
 *
 * `telechir sessions dump`: every committed record as one canonical JSON line (compact, keys sorted),
 * conversations, entries, tasks, submissions, documents, by id within a kind. Reads the storage itself,
 * without owning it, a page at a time: memory does not grow with the session. The main thread. */
#include "sessions.h"

#include "store/store.h"

enum { PAGE = 500, FLUSH = 256 * 1024 };

typedef struct dump {
    cli *c;
    tci_store *store;
    tci_arena arena; /* of one page */
    tci_buf out;
} dump;

static int flush(dump *d, size_t more_than)
{
    if (tci_buf_error(&d->out, &d->c->err) < 0)
        return d->c->err.code;
    if (d->out.len <= more_than)
        return 0;
    bool ok = cli_out_lines(d->c, tci_buf_str(&d->out));
    tci_buf_clear(&d->out);
    return ok ? 0 : d->c->err.code;
}

/* {"entry":{...}}, its keys sorted; more: members that are not in the record, each `"key":value`. */
static int put_record(dump *d, tci_record_type type, tc_str json, tci_json_change *more,
                      size_t nmore)
{
    tci_json v, whole;
    tci_buf edited;
    tc_err *err = &d->c->err;
    unsigned flags = TCI_JSON_DURABLE;
    tci_buf_init(&edited, TCI_BUF_MAX);
    int rc = tci_json_parse(json, flags, &d->arena, &v, err);
    whole = v;
    if (rc == 0 && nmore > 0) {
        tci_json_edit(&edited, &v, more, nmore);
        rc = tci_buf_error(&edited, err);
        if (rc == 0)
            rc = tci_json_parse(tci_buf_str(&edited), flags, &d->arena, &whole, err);
    }
    if (rc == 0) {
        tci_buf_printf(&d->out, "{\"%s\":", tci_record_type_name(type));
        tci_json_put(&d->out, &whole, TCI_JSON_SORTED);
        tci_buf_append_str(&d->out, TC_STR("}\n"));
        rc = flush(d, FLUSH);
    }
    tci_buf_done(&edited);
    return rc;
}

/* ---- pages of each kind: how many records, and where to go on ---- */

static int page_of_conversations(dump *d, const tci_page *page, tci_cursor *ret_next)
{
    tci_conversation *items;
    size_t n;
    int rc = tci_store_scan_conversations(d->store, 0, 0, page, &d->arena, &items, &n, ret_next,
                                          &d->c->err);
    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = put_record(d, TCI_RECORD_CONVERSATION, items[i].json, NULL, 0);
    return rc;
}

static int page_of_entries(dump *d, const tci_page *page, tci_cursor *ret_next)
{
    tci_entry *items;
    size_t n;
    int rc = tci_store_scan_entries(d->store, 0, 0, 0, page, &d->arena, &items, &n, ret_next,
                                    &d->c->err);
    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = put_record(d, TCI_RECORD_ENTRY, items[i].json, NULL, 0);
    return rc;
}

static int page_of_tasks(dump *d, const tci_page *page, tci_cursor *ret_next)
{
    tci_task *items;
    size_t n;
    tci_task_query all = TCI_TASK_QUERY_ALL;
    int rc =
        tci_store_scan_tasks(d->store, &all, page, &d->arena, &items, &n, ret_next, &d->c->err);
    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = put_record(d, TCI_RECORD_TASK, items[i].json, NULL, 0);
    return rc;
}

static int page_of_submissions(dump *d, const tci_page *page, tci_cursor *ret_next)
{
    tci_submission *items;
    size_t n;
    int rc = tci_store_scan_submissions(d->store, 0, -1, page, &d->arena, &items, &n, ret_next,
                                        &d->c->err);
    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = put_record(d, TCI_RECORD_SUBMISSION, items[i].json, NULL, 0);
    return rc;
}

/* A document with its version and whole value as they are now; retired ones may have none left. */
static int put_document(dump *d, const tci_document *record)
{
    tci_document_state state = {.version = 0};
    tci_tree value = TCI_TREE_NONE;
    tci_buf version, text;
    tc_err *err = &d->c->err;
    tci_buf_init(&version, 64);
    tci_buf_init(&text, TCI_BUF_MAX);
    int rc = 0;
    if (record->retired_at == 0)
        rc = tci_store_document(d->store, record->id, 0, &d->arena, &state, &value, err);
    bool has_value = rc == 0 && record->retired_at == 0 && state.record.id != 0;
    if (has_value) {
        tci_buf_append_u64(&version, state.version);
        tci_json_put(&text, &value.root, TCI_JSON_AS_IS);
        rc = tci_buf_error(&text, err);
    }
    tci_json_change more[] = {{TC_STR("version"), tci_buf_str(&version)},
                              {TC_STR("value"), tci_buf_str(&text)}};
    if (rc == 0)
        rc = put_record(d, TCI_RECORD_DOCUMENT, record->json, more, has_value ? 2 : 0);
    tci_tree_done(&value);
    tci_buf_done(&version);
    tci_buf_done(&text);
    return rc;
}

static int page_of_documents(dump *d, const tci_page *page, tci_cursor *ret_next)
{
    tci_document *items;
    size_t n;
    tc_str any = {NULL, 0};
    int rc = tci_store_scan_documents(d->store, -1, 0, any, 0, page, &d->arena, &items, &n,
                                      ret_next, &d->c->err);
    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = put_document(d, &items[i]);
    return rc;
}

static int dump_kind(dump *d, int (*page_of)(dump *d, const tci_page *page, tci_cursor *ret_next))
{
    tci_page page = {.order = TCI_ORDER_ASCENDING, .limit = PAGE};
    do {
        tci_cursor next = {0};
        tci_arena_clear(&d->arena);
        if (tc_ctx_is_cancelled(d->c->ctx))
            return tc_err_set(&d->c->err, TC_E_CANCELLED, "interrupted");
        if (page_of(d, &page, &next) < 0)
            return d->c->err.code;
        page.cursor = next;
    } while (page.cursor.after != 0);
    return 0;
}

int sessions_dump(cli *c)
{
    static int (*const kinds[])(dump * d, const tci_page *page, tci_cursor *ret_next) = {
        page_of_conversations, page_of_entries, page_of_tasks, page_of_submissions,
        page_of_documents};
    dump d = {.c = c};
    tci_store_options options = {.is_read_only = true, .must_exist = true};
    if (tci_store_open(tci_str(c->args[1]), &options, &d.store, &c->err) < 0)
        return c->err.code;
    tci_arena_init(&d.arena, 0);
    tci_buf_init(&d.out, TCI_BUF_MAX);
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < TCI_ARRAY_LEN(kinds); i++)
        rc = dump_kind(&d, kinds[i]);
    if (rc == 0)
        rc = flush(&d, 0);
    tci_buf_done(&d.out);
    tci_arena_done(&d.arena);
    tc_err ignored; /* it was only read */
    if (tci_store_close(d.store, &ignored) < 0)
        cli_detail(c, "closing: %s", ignored.msg);
    return rc;
}
