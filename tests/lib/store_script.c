/* SPDX-License-Identifier: Apache-2.0
 *
 * Commits as JSON, and a whole session as text. */
#include "store_script.h"

enum { PAGE_ITEMS = 100 };

static int member_str(const tci_json *v, const char *key, tc_str *ret, tc_err *err)
{
    if (!tci_json_as_str(tci_json_get(v, tci_str(key)), ret))
        return tc_err_set(err, TC_E_PARSE, "the script lacks '%s'", key);
    return 0;
}

/* The text of a part of the script, in a. */
static int text_of(const tci_json *v, tci_arena *a, tc_str *ret, tc_err *err)
{
    if (v == NULL)
        return tc_err_set(err, TC_E_PARSE, "the script lacks a value");
    tci_buf b;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_json_put(&b, v, TCI_JSON_AS_IS);
    int rc = tci_buf_error(&b, err);
    if (rc == 0)
        rc = tci_arena_dup(a, tci_buf_str(&b), ret, err);
    tci_buf_done(&b);
    return rc;
}

static int content_of(const tci_json *v, tci_arena *a, tci_content *ret, tc_err *err)
{
    tc_str kind;
    int rc = member_str(v, "kind", &kind, err);
    if (rc < 0)
        return rc;
    ret->is_delta = tci_str_eq(kind, TC_STR("delta"));
    if (!tci_json_as_u64(tci_json_get(v, TC_STR("version")), &ret->version))
        return tc_err_set(err, TC_E_PARSE, "the script lacks a version");
    return text_of(tci_json_get(v, ret->is_delta ? TC_STR("ops") : TC_STR("value")), a, &ret->json,
                   err);
}

static int document_write_of(const tci_json *v, tc_str type, tci_arena *a, tci_write *ret,
                             tc_err *err)
{
    const tci_json *record = tci_json_get(v, TC_STR("record"));
    const tci_json *source = tci_json_get(v, TC_STR("source"));
    int rc = 0;
    tc_str text;
    if (tci_str_eq(type, TC_STR("document.create")) || tci_str_eq(type, TC_STR("document.copy"))) {
        rc = text_of(record, a, &text, err);
        if (rc == 0)
            rc = tci_document_of(record, text, &ret->u.document, err);
        ret->type = source != NULL ? TCI_WRITE_DOC_COPY : TCI_WRITE_DOC_CREATE;
        if (source != NULL) {
            (void)tci_json_as_u64(tci_json_get(source, TC_STR("id")), &ret->source_id);
            (void)tci_json_as_u64(tci_json_get(source, TC_STR("at")), &ret->source_at);
        }
    } else {
        bool is_change = tci_str_eq(type, TC_STR("document.change"));
        ret->type = is_change ? TCI_WRITE_DOC_CHANGE : TCI_WRITE_DOC_RETIRE;
        if (!tci_json_as_u64(tci_json_get(v, TC_STR("id")), &ret->u.document.id))
            rc = tc_err_set(err, TC_E_PARSE, "the script lacks an id");
    }
    if (rc == 0 && (ret->type == TCI_WRITE_DOC_CREATE || ret->type == TCI_WRITE_DOC_CHANGE))
        rc = content_of(tci_json_get(v, TC_STR("content")), a, &ret->content, err);
    return rc;
}

static int write_of(const tci_json *v, tci_arena *a, tci_write *ret, tc_err *err)
{
    tc_str type, text;
    const tci_json *value = tci_json_get(v, TC_STR("value"));
    int rc = member_str(v, "type", &type, err);
    if (rc < 0)
        return rc;
    if (tci_str_starts(type, TC_STR("document.")))
        return document_write_of(v, type, a, ret, err);
    rc = text_of(value, a, &text, err);
    if (rc < 0)
        return rc;
    if (tci_str_eq(type, TC_STR("conversation"))) {
        ret->type = TCI_WRITE_CONVERSATION;
        return tci_conversation_of(value, text, &ret->u.conversation, err);
    }
    if (tci_str_eq(type, TC_STR("entry"))) {
        ret->type = TCI_WRITE_ENTRY;
        return tci_entry_of(value, text, &ret->u.entry, err);
    }
    if (tci_str_eq(type, TC_STR("task"))) {
        ret->type = TCI_WRITE_TASK;
        return tci_task_of(value, text, &ret->u.task, err);
    }
    ret->type = TCI_WRITE_SUBMISSION;
    return tci_submission_of(value, text, &ret->u.submission, err);
}

int script_commit(tci_store *store, tc_str writes, tci_commit_how how, uint64_t *ret_seq,
                  tc_err *err)
{
    tci_arena a;
    tci_json v;
    tci_write *items = NULL;
    tci_arena_init(&a, 0);
    int rc = tci_json_parse(writes, TCI_JSON_KEEP_SURROGATES, &a, &v, err);
    if (rc == 0 && v.kind != TCI_JSON_ARRAY)
        rc = tc_err_set(err, TC_E_PARSE, "the script is no array of writes");
    if (rc == 0 && (items = tci_arena_items(&a, tci_write, v.count + 1)) == NULL)
        rc = tci_arena_error(&a, err);
    for (uint32_t i = 0; rc == 0 && i < v.count; i++)
        rc = write_of(&v.u.items[i], &a, &items[i], err);
    if (rc == 0)
        rc = tci_store_commit(store, items, v.count, how, ret_seq, err);
    tci_arena_done(&a);
    return rc;
}

/* ---- dumping ---- */

typedef struct dump {
    tci_store *store;
    tci_buf *out;
    tci_json_order order;
    tci_arena a, parse;
} dump;

static int put_text(dump *d, tc_str json, tc_err *err)
{
    tci_json v;
    tci_arena_clear(&d->parse);
    int rc = tci_json_parse(json, TCI_JSON_KEEP_SURROGATES, &d->parse, &v, err);
    if (rc == 0)
        tci_json_put(d->out, &v, d->order);
    return rc;
}

static int put_line(dump *d, const char *table, tc_str json, uint64_t seq, tc_err *err)
{
    tci_buf_printf(d->out, "{\"table\":\"%s\"", table);
    if (seq != 0)
        tci_buf_printf(d->out, ",\"seq\":%llu", (unsigned long long)seq);
    tci_buf_append_str(d->out, TC_STR(",\"record\":"));
    int rc = put_text(d, json, err);
    tci_buf_append_str(d->out, TC_STR("}\n"));
    return rc;
}

static int dump_conversations(dump *d, tci_page *page, tc_err *err)
{
    tci_conversation *items;
    size_t count;
    int rc = tci_store_scan_conversations(d->store, 0, 0, page, &d->a, &items, &count,
                                          &page->cursor, err);
    for (size_t i = 0; rc == 0 && i < count; i++)
        rc = put_line(d, "conversation", items[i].json, 0, err);
    return rc;
}

static int dump_entries(dump *d, tci_page *page, tc_err *err)
{
    tci_entry *items, entry;
    size_t count;
    int rc =
        tci_store_scan_entries(d->store, 0, 0, 0, page, &d->a, &items, &count, &page->cursor, err);
    for (size_t i = 0; rc == 0 && i < count; i++) {
        uint64_t seq = 0;
        rc = tci_store_entry(d->store, 0, items[i].id, &d->a, &entry, &seq, err);
        if (rc == 0)
            rc = put_line(d, "entry", items[i].json, seq, err);
    }
    return rc;
}

static int dump_tasks(dump *d, tci_page *page, tc_err *err)
{
    tci_task *items;
    size_t count;
    tci_task_query query = TCI_TASK_QUERY_ALL;
    int rc =
        tci_store_scan_tasks(d->store, &query, page, &d->a, &items, &count, &page->cursor, err);
    for (size_t i = 0; rc == 0 && i < count; i++)
        rc = put_line(d, "task", items[i].json, 0, err);
    return rc;
}

static int dump_submissions(dump *d, tci_page *page, tc_err *err)
{
    tci_submission *items;
    size_t count;
    int rc = tci_store_scan_submissions(d->store, 0, -1, page, &d->a, &items, &count, &page->cursor,
                                        err);
    for (size_t i = 0; rc == 0 && i < count; i++)
        rc = put_line(d, "submission", items[i].json, 0, err);
    return rc;
}

static int put_document(dump *d, const tci_document *record, tc_err *err)
{
    tci_document_state state;
    tci_tree value = TCI_TREE_NONE;
    int rc = put_line(d, "document", record->json, 0, err);
    if (rc == 0)
        rc = tci_store_document(d->store, record->id, 0, &d->a, &state, &value, err);
    if (rc < 0 || state.record.id == 0)
        return rc;
    tci_buf_printf(d->out, "{\"table\":\"value\",\"id\":%llu,\"version\":%llu,\"deltas\":%llu,",
                   (unsigned long long)record->id, (unsigned long long)state.version,
                   (unsigned long long)state.deltas_since_base);
    tci_buf_append_str(d->out, TC_STR("\"value\":"));
    tci_json_put(d->out, &value.root, d->order);
    tci_buf_append_str(d->out, TC_STR("}\n"));
    tci_tree_done(&value);
    return 0;
}

static int dump_documents(dump *d, tci_page *page, tc_err *err)
{
    tci_document *items;
    size_t count;
    int rc = tci_store_scan_documents(d->store, -1, 0, (tc_str){NULL, 0}, 0, page, &d->a, &items,
                                      &count, &page->cursor, err);
    for (size_t i = 0; rc == 0 && i < count; i++)
        rc = put_document(d, &items[i], err);
    return rc;
}

int script_dump(tci_store *store, bool is_sorted, tci_buf *out, tc_err *err)
{
    static int (*const tables[])(dump * d, tci_page * page, tc_err * err) = {
        dump_conversations, dump_entries, dump_tasks, dump_submissions, dump_documents};
    dump d = {.store = store, .out = out, .order = is_sorted ? TCI_JSON_SORTED : TCI_JSON_AS_IS};
    tci_arena_init(&d.a, 0);
    tci_arena_init(&d.parse, 0);
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < TCI_ARRAY_LEN(tables); i++) {
        tci_page page = {.order = TCI_ORDER_ASCENDING, .limit = PAGE_ITEMS};
        do {
            tci_arena_clear(&d.a);
            rc = tables[i](&d, &page, err);
        } while (rc == 0 && page.cursor.after != 0);
    }
    tci_arena_done(&d.a);
    tci_arena_done(&d.parse);
    return rc < 0 ? rc : tci_buf_error(out, err);
}
