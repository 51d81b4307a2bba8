/* SPDX-License-Identifier: Apache-2.0
 *
 * The storage under test and the shorthand of the cases. */
#include "fixture.h"
#include "base/num.h"
#include <stdio.h>
#include <stdlib.h>

/* ---- backends ---- */

static int open_memory(tc_str path, tci_store **ret, tc_err *err)
{
    TCI_UNUSED(path);
    return tci_store_open_memory(ret, err);
}

static int open_jsonl(tc_str path, tci_store **ret, tc_err *err)
{
    return tci_store_open_jsonl(path, NULL, ret, err);
}

static int open_jsonl_normal(tc_str path, tci_store **ret, tc_err *err)
{
    tci_store_options options = {.durability = TCI_DURABILITY_NORMAL};
    return tci_store_open_jsonl(path, &options, ret, err);
}

static int open_sqlite(tc_str path, tci_store **ret, tc_err *err)
{
    return tci_store_open_sqlite(path, NULL, ret, err);
}

static int open_sqlite_prefix(tc_str path, tci_store **ret, tc_err *err)
{
    tci_store_options options = {.durability = TCI_DURABILITY_NORMAL, .prefix = TC_STR("agent_")};
    return tci_store_open_sqlite(path, &options, ret, err);
}

static const struct backend {
    const char *name;
    int (*open)(tc_str path, tci_store **ret, tc_err *err);
    bool is_kept; /* after the close */
} backends[] = {
    {"memory", open_memory, false},
    {"jsonl", open_jsonl, true},
    {"jsonl_normal", open_jsonl_normal, true},
    {"sqlite", open_sqlite, true},
    {"sqlite_prefix", open_sqlite_prefix, true},
};

static const struct backend *backend;
static bool reopens;
static unsigned ncases;

int contract_start(int argc, char **argv)
{
    for (size_t i = 0; argc > 1 && i < TCI_ARRAY_LEN(backends); i++) {
        if (strcmp(argv[1], backends[i].name) == 0)
            backend = &backends[i];
    }
    reopens = argc > 2 && strcmp(argv[2], "reopen") == 0;
    if (backend != NULL && (backend->is_kept || !reopens))
        return 0;
    fprintf(stderr, "usage: test_contract_store BACKEND [reopen]\n");
    return 2;
}

bool contract_reopens(void)
{
    return reopens;
}

int rig_setup(void **state)
{
    rig *r = tci_new(rig);
    const char *folder = getenv("TC_TEST_DIR");
    snprintf(r->path, sizeof r->path, "%s/case-%u%s", folder != NULL ? folder : ".", ++ncases,
             strncmp(backend->name, "sqlite", 6) == 0 ? ".sqlite" : "");
    tci_arena_init(&r->arena, 0);
    *state = r;
    if (backend->open(tci_str(r->path), &r->store, &r->err) < 0) {
        print_error("%s\n", r->err.msg);
        return -1;
    }
    return 0;
}

int rig_teardown(void **state)
{
    rig *r = *state;
    int rc = tci_store_close(r->store, &r->err);
    tci_arena_done(&r->arena);
    tci_free(r);
    return rc;
}

void rig_reopen(rig *r)
{
    if (!backend->is_kept)
        return;
    assert_int_equal(tci_store_close(r->store, &r->err), 0);
    r->store = NULL;
    if (backend->open(tci_str(r->path), &r->store, &r->err) < 0)
        fail_msg("opening again: %s", r->err.msg);
}

/* ---- batches ---- */

static tci_write *next(rig *r, tci_write_type type)
{
    assert_true(r->nwrites < WRITES_MAX);
    tci_write *w = &r->writes[r->nwrites++];
    *w = (tci_write){.type = type};
    return w;
}

/* Texts of a batch in memory of their own, so that the case can see whether they were copied. */
static tc_str text_of(rig *r, const char *json)
{
    tc_str s;
    assert_int_equal(tci_arena_dup(&r->arena, tci_str(json), &s, &r->err), 0);
    return s;
}

#define CHECK(r, call)                    \
    do {                                  \
        if ((call) < 0)                   \
            fail_msg("%s", (r)->err.msg); \
    } while (0)

void conversation(rig *r, const char *json)
{
    tci_write *w = next(r, TCI_WRITE_CONVERSATION);
    CHECK(r, tci_conversation_parse(text_of(r, json), &r->arena, &w->u.conversation, &r->err));
}

void entry(rig *r, const char *json)
{
    tci_write *w = next(r, TCI_WRITE_ENTRY);
    CHECK(r, tci_entry_parse(text_of(r, json), &r->arena, NULL, &w->u.entry, &r->err));
}

void task(rig *r, const char *json)
{
    tci_write *w = next(r, TCI_WRITE_TASK);
    CHECK(r, tci_task_parse(text_of(r, json), &r->arena, NULL, &w->u.task, &r->err));
}

void submission(rig *r, const char *json)
{
    tci_write *w = next(r, TCI_WRITE_SUBMISSION);
    CHECK(r, tci_submission_parse(text_of(r, json), &r->arena, &w->u.submission, &r->err));
}

void create(rig *r, const char *record, uint64_t version, const char *value)
{
    tci_write *w = next(r, TCI_WRITE_DOC_CREATE);
    CHECK(r, tci_document_parse(text_of(r, record), &r->arena, &w->u.document, &r->err));
    w->content = (tci_content){false, version, text_of(r, value)};
}

void copy(rig *r, const char *record, uint64_t source, uint64_t at)
{
    tci_write *w = next(r, TCI_WRITE_DOC_COPY);
    CHECK(r, tci_document_parse(text_of(r, record), &r->arena, &w->u.document, &r->err));
    w->source_id = source;
    w->source_at = at;
}

static void change(rig *r, uint64_t id, bool is_delta, uint64_t version, const char *json)
{
    tci_write *w = next(r, TCI_WRITE_DOC_CHANGE);
    w->u.document.id = id;
    w->content = (tci_content){is_delta, version, text_of(r, json)};
}

void base(rig *r, uint64_t id, uint64_t version, const char *value)
{
    change(r, id, false, version, value);
}

void delta(rig *r, uint64_t id, uint64_t version, const char *ops)
{
    change(r, id, true, version, ops);
}

void retire(rig *r, uint64_t id)
{
    next(r, TCI_WRITE_DOC_RETIRE)->u.document.id = id;
}

uint64_t commit_at(rig *r, const char *file, int line)
{
    uint64_t seq = 0;
    if (tci_store_commit(r->store, r->writes, r->nwrites, TCI_COMMIT_SYNCED, &seq, &r->err) < 0) {
        print_error("commit: %s\n", r->err.msg);
        _fail(file, line);
    }
    r->nwrites = 0;
    if (reopens)
        rig_reopen(r);
    return seq;
}

void refuse_at(rig *r, const char *text, const char *file, int line)
{
    uint64_t seq = 0;
    int rc = tci_store_commit(r->store, r->writes, r->nwrites, TCI_COMMIT_SYNCED, &seq, &r->err);
    r->nwrites = 0;
    if (rc != TC_E_CONFLICT && rc != TC_E_INVALID && rc != TC_E_TOO_BIG) {
        print_error("the batch was not refused: %d %s\n", rc, rc < 0 ? r->err.msg : "");
        _fail(file, line);
    }
    if (strstr(r->err.msg, text) == NULL) {
        print_error("refused with '%s', not '%s'\n", r->err.msg, text);
        _fail(file, line);
    }
    if (reopens)
        rig_reopen(r);
}

static const char *format(rig *r, const char *fmt, ...) TC_PRINTF(2, 3);
static const char *format(rig *r, const char *fmt, ...)
{
    char text[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    char *copied;
    assert_int_equal(tci_arena_cstr(&r->arena, tci_str(text), &copied, &r->err), 0);
    return copied;
}

#define ID(id) (unsigned long long)(id)

void plain_entry(rig *r, uint64_t id, uint64_t conversation_id, uint64_t head)
{
    const char *with = head != 0 ? format(r, ",\"head\":%llu", ID(head)) : "";
    entry(r, format(r, "{\"id\":%llu,\"conversationId\":%llu,\"kind\":\"t\"%s}", ID(id),
                    ID(conversation_id), with));
}

void plain_task(rig *r, uint64_t id, uint64_t conversation_id, const char *kind, const char *state)
{
    task(r,
         format(r,
                "{\"id\":%llu,\"conversationId\":%llu,\"kind\":\"%s\",\"version\":1,\"input\":{},"
                "\"background\":false,\"abortRequested\":false,\"state\":%s}",
                ID(id), ID(conversation_id), kind, state));
}

const char *doc_record(rig *r, uint64_t id, uint64_t conversation_id, const char *kind,
                       const char *history)
{
    return format(r,
                  "{\"id\":%llu,\"kind\":\"%s\",\"scope\":{\"kind\":\"conversation\","
                  "\"conversationId\":%llu},\"history\":\"%s\",\"fork\":\"%s\"}",
                  ID(id), kind, ID(conversation_id), history,
                  strcmp(history, "latest") == 0 ? "current" : "asOf");
}

/* ---- looking ---- */

static tci_json parsed(rig *r, tc_str text)
{
    tci_json v;
    CHECK(r, tci_json_parse(text, TCI_JSON_KEEP_SURROGATES, &r->arena, &v, &r->err));
    return v;
}

void same_json_at(rig *r, tc_str actual, const char *expected, const char *file, int line)
{
    tci_json a = parsed(r, actual), b = parsed(r, tci_str(expected));
    if (!tci_json_equal(&a, &b)) {
        print_error("got %.*s, expected %s\n", TC_STR_ARG(actual), expected);
        _fail(file, line);
    }
}

static tci_document_state document_at(rig *r, uint64_t id, uint64_t at, tci_tree *ret_value,
                                      const char *file, int line)
{
    tci_document_state state;
    if (tci_store_document(r->store, id, at, &r->arena, &state, ret_value, &r->err) < 0) {
        print_error("document %llu: %s\n", ID(id), r->err.msg);
        _fail(file, line);
    }
    return state;
}

void same_value_at(rig *r, uint64_t id, uint64_t at, uint64_t version, uint64_t deltas,
                   const char *expected, const char *file, int line)
{
    tci_tree value;
    tci_document_state state = document_at(r, id, at, &value, file, line);
    tci_json wanted = parsed(r, tci_str(expected));
    bool is_same = state.record.id == id && tci_json_equal(&value.root, &wanted);
    if (!is_same || state.version != version || state.deltas_since_base != deltas) {
        tci_buf b;
        tci_buf_init(&b, TCI_BUF_MAX);
        tci_json_put(&b, &value.root, TCI_JSON_AS_IS);
        print_error("document %llu at %llu: id %llu, version %llu, %llu deltas, %.*s\n", ID(id),
                    ID(at), ID(state.record.id), ID(state.version), ID(state.deltas_since_base),
                    TC_STR_ARG(tci_buf_str(&b)));
        tci_buf_done(&b);
        _fail(file, line);
    }
    tci_tree_done(&value);
}

void no_document_at(rig *r, uint64_t id, uint64_t at, const char *file, int line)
{
    if (document_at(r, id, at, NULL, file, line).record.id != 0) {
        print_error("document %llu can be read at %llu\n", ID(id), ID(at));
        _fail(file, line);
    }
}

uint64_t mint(rig *r)
{
    uint64_t id = 0;
    CHECK(r, tci_store_mint(r->store, &id, &r->err));
    return id;
}

tci_task read_task(rig *r, uint64_t id)
{
    tci_task t;
    CHECK(r, tci_store_task(r->store, id, &r->arena, &t, &r->err));
    return t;
}

tci_submission read_submission(rig *r, uint64_t id)
{
    tci_submission s;
    CHECK(r, tci_store_submission(r->store, id, &r->arena, &s, &r->err));
    return s;
}

tci_entry read_entry(rig *r, uint64_t conversation_id, uint64_t id, uint64_t *ret_seq)
{
    tci_entry e;
    uint64_t seq;
    CHECK(r, tci_store_entry(r->store, conversation_id, id, &r->arena, &e, &seq, &r->err));
    if (ret_seq != NULL)
        *ret_seq = seq;
    return e;
}

uint64_t head_marker(rig *r, uint64_t conversation_id, uint64_t cutoff)
{
    tci_entry e;
    CHECK(r, tci_store_head_marker(r->store, conversation_id, cutoff, &r->arena, &e, &r->err));
    assert_true(e.id == 0 || e.head != 0);
    return e.id;
}

uint64_t find(rig *r, const char *kind, tci_scope scope, uint64_t owner, const char *key,
              uint64_t at)
{
    tci_document d;
    tci_address address = {tci_str(kind), scope, owner, key != NULL, tci_str(key)};
    CHECK(r, tci_store_find_document(r->store, &address, at, &r->arena, &d, &r->err));
    return d.id;
}

/* ---- pages ---- */

static void add_id(tci_buf *b, uint64_t id)
{
    if (b->len > 0)
        tci_buf_append_byte(b, ' ');
    tci_buf_append_u64(b, id);
}

static const char *listed(rig *r, tci_buf *b, tci_cursor after, tci_cursor *cursor)
{
    if (after.after != 0)
        tci_buf_append_byte(b, '+');
    if (cursor != NULL)
        *cursor = after;
    char *text;
    CHECK(r, tci_arena_cstr(&r->arena, tci_buf_str(b), &text, &r->err));
    tci_buf_done(b);
    return text;
}

static tci_page page_of(size_t limit, tci_order order, const tci_cursor *cursor)
{
    return (tci_page){order, cursor != NULL ? *cursor : (tci_cursor){0}, limit};
}

#define LIST(r, items, count, after, cursor) \
    tci_buf b;                               \
    tci_buf_init(&b, TCI_BUF_MAX);           \
    for (size_t i = 0; i < (count); i++)     \
        add_id(&b, (items)[i].id);           \
    return listed((r), &b, (after), (cursor))

const char *entries(rig *r, uint64_t conversation_id, uint64_t min, uint64_t max, size_t limit,
                    tci_order order, tci_cursor *cursor)
{
    tci_page page = page_of(limit, order, cursor);
    tci_entry *items;
    size_t count;
    tci_cursor after;
    CHECK(r, tci_store_scan_entries(r->store, conversation_id, min, max, &page, &r->arena, &items,
                                    &count, &after, &r->err));
    LIST(r, items, count, after, cursor);
}

const char *conversations(rig *r, uint64_t owner_conversation, uint64_t owner_task, size_t limit,
                          tci_order order, tci_cursor *cursor)
{
    tci_page page = page_of(limit, order, cursor);
    tci_conversation *items;
    size_t count;
    tci_cursor after;
    CHECK(r, tci_store_scan_conversations(r->store, owner_conversation, owner_task, &page,
                                          &r->arena, &items, &count, &after, &r->err));
    LIST(r, items, count, after, cursor);
}

const char *tasks(rig *r, const tci_task_query *q, size_t limit, tci_order order,
                  tci_cursor *cursor)
{
    tci_page page = page_of(limit, order, cursor);
    tci_task *items;
    size_t count;
    tci_cursor after;
    CHECK(r, tci_store_scan_tasks(r->store, q, &page, &r->arena, &items, &count, &after, &r->err));
    LIST(r, items, count, after, cursor);
}

const char *submissions(rig *r, uint64_t conversation_id, int status, size_t limit, tci_order order,
                        tci_cursor *cursor)
{
    tci_page page = page_of(limit, order, cursor);
    tci_submission *items;
    size_t count;
    tci_cursor after;
    CHECK(r, tci_store_scan_submissions(r->store, conversation_id, status, &page, &r->arena, &items,
                                        &count, &after, &r->err));
    LIST(r, items, count, after, cursor);
}

const char *documents(rig *r, int scope, uint64_t owner, const char *kind, uint64_t at,
                      size_t limit, tci_cursor *cursor)
{
    tci_page page = page_of(limit, TCI_ORDER_DEFAULT, cursor);
    tci_document *items;
    size_t count;
    tci_cursor after;
    CHECK(r, tci_store_scan_documents(r->store, scope, owner, tci_str(kind), at, &page, &r->arena,
                                      &items, &count, &after, &r->err));
    LIST(r, items, count, after, cursor);
}
