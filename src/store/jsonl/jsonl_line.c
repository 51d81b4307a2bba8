/* SPDX-License-Identifier: Apache-2.0
 *
 * Lines of the JSON lines backend, read: markers and records, and the few fields of a record that
 * the index needs. Nothing is built that is not needed, so that opening costs little more than
 * reading. Leaves what lines mean together to jsonl_replay.c. Any thread. Invariant: a line that passes
 * is sound JSON throughout, in UTF-8. */
#include "base/utf8.h"
#include "store/jsonl/jsonl_int.h"
#include "store/jsonl/jsonl_scan.h"

static int bad(tc_err *err, const char *what)
{
    return tc_err_set(err, TC_E_PARSE, "%s", what);
}

/* ---- fields ---- */

/* The raw values of the members somebody asks for; an empty one is absent. */
typedef enum field {
    F_ID,
    F_CONVERSATION,
    F_KIND,
    F_PARENT,
    F_OWNER,
    F_HEAD,
    F_AT,
    F_TASK,
    F_STATE,
    F_STATUS,
    F_ABORT,
    F_BACKGROUND,
    F_REQUEST,
    F_SCOPE,
    F_KEY,
    F_HISTORY,
    F_FORK,
    F_TYPE,
    F_FORMAT,
    F_SEQ,
    F_ORDINAL,
    F_PAYLOAD,
    F_VALUE,
    F_CONTENT,
    F_VERSION,
    F_OPS,
    F_RECORD,
    FIELDS
} field;

static const tc_str names[FIELDS] = {
    [F_ID] = {"id", 2},
    [F_CONVERSATION] = {"conversationId", 14},
    [F_KIND] = {"kind", 4},
    [F_PARENT] = {"parent", 6},
    [F_OWNER] = {"owner", 5},
    [F_HEAD] = {"head", 4},
    [F_AT] = {"at", 2},
    [F_TASK] = {"taskId", 6},
    [F_STATE] = {"state", 5},
    [F_STATUS] = {"status", 6},
    [F_ABORT] = {"abortRequested", 14},
    [F_BACKGROUND] = {"background", 10},
    [F_REQUEST] = {"requestId", 9},
    [F_SCOPE] = {"scope", 5},
    [F_KEY] = {"key", 3},
    [F_HISTORY] = {"history", 7},
    [F_FORK] = {"fork", 4},
    [F_TYPE] = {"type", 4},
    [F_FORMAT] = {"format", 6},
    [F_SEQ] = {"seq", 3},
    [F_ORDINAL] = {"ordinal", 7},
    [F_PAYLOAD] = {"payload", 7},
    [F_VALUE] = {"value", 5},
    [F_CONTENT] = {"content", 7},
    [F_VERSION] = {"version", 7},
    [F_OPS] = {"ops", 3},
    [F_RECORD] = {"record", 6},
};

typedef struct fields {
    tc_str raw[FIELDS];
} fields;

static field field_of(tc_str key)
{
    for (int i = 0; i < FIELDS; i++) {
        if (names[i].len == key.len && memcmp(names[i].ptr, key.ptr, key.len) == 0)
            return (field)i;
    }
    return FIELDS;
}

/* The members of an object, in passing. */
static bool scan_fields(tci_scan *s, tci_arena *a, fields *f)
{
    bool first = true;
    tc_str key, raw;
    if (!tci_scan_object(s))
        return false;
    while (tci_scan_member(s, &first, a, &key)) {
        field i = field_of(key);
        if (!tci_scan_value(s, &raw))
            return false;
        if (i != FIELDS)
            f->raw[i] = raw;
    }
    return tci_scan_ok(s);
}

/* The same of a value that was stepped over before. */
static bool fields_of(tc_str raw, tci_arena *a, fields *ret)
{
    tci_scan s = tci_scan_of(raw);
    *ret = (fields){0};
    return scan_fields(&s, a, ret);
}

static bool has(const fields *f, field i)
{
    return f->raw[i].len > 0;
}

static bool get_id(const fields *f, field i, uint64_t *ret)
{
    return tci_raw_id(f->raw[i], ret);
}

/* An id that may be absent. */
static bool get_id_or_none(const fields *f, field i, uint64_t *ret)
{
    *ret = 0;
    return !has(f, i) || tci_raw_id(f->raw[i], ret);
}

static bool get_str(const fields *f, field i, tci_arena *a, tc_str *ret)
{
    return tci_raw_string(f->raw[i], a, ret);
}

/* The name of a raw value among some; -1 when it is none of them. */
static int name_of(tc_str raw, const char *const *known, int n)
{
    for (int i = 0; i < n; i++) {
        if (raw.len == strlen(known[i]) + 2 && memcmp(raw.ptr + 1, known[i], raw.len - 2) == 0)
            return i;
    }
    return -1;
}

/* ---- records ---- */

static bool read_conversation(const fields *f, tci_arena *a, tci_conversation *c)
{
    fields part;
    if (!get_id(f, F_ID, &c->id))
        return false;
    if (has(f, F_PARENT) &&
        (!fields_of(f->raw[F_PARENT], a, &part) || !get_id(&part, F_CONVERSATION, &c->parent_id) ||
         !get_id(&part, F_AT, &c->parent_at)))
        return false;
    return !has(f, F_OWNER) || (fields_of(f->raw[F_OWNER], a, &part) &&
                                get_id(&part, F_CONVERSATION, &c->owner_conversation_id) &&
                                get_id(&part, F_TASK, &c->owner_task_id));
}

static bool read_entry(const fields *f, tci_arena *a, tci_entry *e)
{
    return get_id(f, F_ID, &e->id) && get_id(f, F_CONVERSATION, &e->conversation_id) &&
           get_id_or_none(f, F_HEAD, &e->head) && get_str(f, F_KIND, a, &e->kind) &&
           e->kind.len > 0;
}

static bool read_task(const fields *f, tci_arena *a, tci_task *t)
{
    fields state;
    tc_str status;
    if (has(f, F_ABORT) && !tci_raw_bool(f->raw[F_ABORT], &t->is_abort_requested))
        return false;
    if (has(f, F_BACKGROUND) && !tci_raw_bool(f->raw[F_BACKGROUND], &t->is_background))
        return false;
    return get_id(f, F_ID, &t->id) && get_id(f, F_CONVERSATION, &t->conversation_id) &&
           get_str(f, F_KIND, a, &t->kind) && fields_of(f->raw[F_STATE], a, &state) &&
           get_str(&state, F_STATUS, a, &status) && tci_task_status_of(status, &t->status);
}

static bool read_submission(const fields *f, tci_arena *a, tci_submission *s)
{
    tc_str status;
    s->has_request_id = has(f, F_REQUEST);
    if (s->has_request_id && !get_str(f, F_REQUEST, a, &s->request_id))
        return false;
    return get_id(f, F_ID, &s->id) && get_id(f, F_CONVERSATION, &s->conversation_id) &&
           get_str(f, F_STATUS, a, &status) && tci_submission_status_of(status, &s->status);
}

static bool read_scope(const fields *f, tci_arena *a, tci_document *d)
{
    static const char *const scopes[] = {"session", "conversation", "task"};
    fields scope;
    if (!fields_of(f->raw[F_SCOPE], a, &scope))
        return false;
    switch (name_of(scope.raw[F_KIND], scopes, 3)) {
    case 0:
        d->scope = TCI_SCOPE_SESSION;
        return true;
    case 1:
        d->scope = TCI_SCOPE_CONVERSATION;
        return get_id(&scope, F_CONVERSATION, &d->owner_id);
    case 2:
        d->scope = TCI_SCOPE_TASK;
        return get_id(&scope, F_TASK, &d->owner_id);
    default:
        return false;
    }
}

static bool read_document(const fields *f, tci_arena *a, tci_document *d)
{
    static const char *const histories[] = {"latest", "rewindable"};
    static const char *const forks[] = {"asOf", "current", "initial"};
    if (!get_id(f, F_ID, &d->id) || !get_str(f, F_KIND, a, &d->kind) || !read_scope(f, a, d))
        return false;
    d->has_key = has(f, F_KEY);
    if (d->has_key && !get_str(f, F_KEY, a, &d->key))
        return false;
    int history = name_of(f->raw[F_HISTORY], histories, 2);
    int fork = name_of(f->raw[F_FORK], forks, 3);
    if (d->scope == TCI_SCOPE_CONVERSATION && (history < 0 || fork < 0))
        return false;
    d->history = (tci_history)(history + 1);
    d->fork = (tci_fork)(fork + 1);
    return true;
}

int tci_jsonl_parse_task(tc_str text, tci_arena *a, tci_task *ret, tc_err *err)
{
    fields f;
    tci_task t = {.json = text};
    if (!fields_of(text, a, &f) || !read_task(&f, a, &t))
        return bad(err, "a task record lacks a field or has a wrong one");
    *ret = t;
    return 0;
}

/* ---- markers ---- */

/* The kinds of writes in a marker, and where their fields are. */
static const struct {
    const char *name;
    tci_write_type type;
    field record; /* FIELDS: the write is all */
    bool has_sidecar;
} kinds[] = {
    {"entry", TCI_WRITE_ENTRY, F_VALUE, false},
    {"task.sidecar", TCI_WRITE_TASK, FIELDS, true},
    {"document.change", TCI_WRITE_DOC_CHANGE, FIELDS, true},
    {"task", TCI_WRITE_TASK, F_VALUE, false},
    {"submission", TCI_WRITE_SUBMISSION, F_VALUE, false},
    {"conversation", TCI_WRITE_CONVERSATION, F_VALUE, false},
    {"document.create", TCI_WRITE_DOC_CREATE, F_RECORD, true},
    {"document.retire", TCI_WRITE_DOC_RETIRE, FIELDS, false},
};

/* A write as it was scanned: its own members, and those of its value or record. */
typedef struct scanned {
    fields write, record;
} scanned;

/* The members of a write. Those of the record in it are taken in passing, too: it is most of the line and
 * looked at only once. */
static bool scan_write(tci_scan *s, tci_arena *a, scanned *w)
{
    bool first = true;
    tc_str key;
    *w = (scanned){0};
    if (!tci_scan_object(s))
        return false;
    while (tci_scan_member(s, &first, a, &key)) {
        field i = field_of(key);
        tc_str raw = {NULL, 0};
        bool is_record = i == F_VALUE || i == F_RECORD;
        const char *from = s->at;
        if (is_record && from < s->end && *from == '{') {
            w->record = (fields){0};
            if (!scan_fields(s, a, &w->record))
                return false;
            raw = tci_str_of(from, (size_t)(s->at - from));
        } else if (!tci_scan_value(s, &raw) ||
                   (is_record && tci_raw_is_object(raw) && !fields_of(raw, a, &w->record))) {
            return false;
        }
        if (i != FIELDS)
            w->write.raw[i] = raw;
    }
    return tci_scan_ok(s);
}

static bool read_record(const fields *f, tci_arena *a, bool has_sidecar, tci_write *w)
{
    switch (w->type) {
    case TCI_WRITE_CONVERSATION:
        return read_conversation(f, a, &w->u.conversation);
    case TCI_WRITE_ENTRY:
        return read_entry(f, a, &w->u.entry);
    case TCI_WRITE_TASK:
        if (has_sidecar)
            return get_id(f, F_ID, &w->u.task.id);
        return read_task(f, a, &w->u.task) && w->u.task.status == TCI_TASK_TERMINAL;
    case TCI_WRITE_SUBMISSION:
        return read_submission(f, a, &w->u.submission);
    case TCI_WRITE_DOC_CREATE:
    case TCI_WRITE_DOC_COPY:
        return read_document(f, a, &w->u.document);
    case TCI_WRITE_DOC_CHANGE:
    case TCI_WRITE_DOC_RETIRE:
        return get_id(f, F_ID, &w->u.document.id);
    }
    return false;
}

static void set_text(tci_write *w, tc_str text)
{
    tc_str *const places[] = {
        [TCI_WRITE_CONVERSATION] = &w->u.conversation.json,
        [TCI_WRITE_ENTRY] = &w->u.entry.json,
        [TCI_WRITE_TASK] = &w->u.task.json,
        [TCI_WRITE_SUBMISSION] = &w->u.submission.json,
        [TCI_WRITE_DOC_CREATE] = &w->u.document.json,
    };
    *places[w->type] = text;
}

static int read_write(const scanned *s, tci_arena *a, tci_jsonl_write *ret, tc_err *err)
{
    for (size_t k = 0; k < TCI_ARRAY_LEN(kinds); k++) {
        if (name_of(s->write.raw[F_TYPE], &kinds[k].name, 1) < 0)
            continue;
        bool is_all = kinds[k].record == FIELDS;
        ret->w.type = kinds[k].type;
        ret->has_sidecar = kinds[k].has_sidecar;
        if (!is_all) {
            ret->record = s->write.raw[kinds[k].record];
            if (!tci_raw_is_object(ret->record) || ret->record.len > TCI_RECORD_MAX)
                return tc_err_set(err, TC_E_PARSE, "a write of type %s without a record",
                                  kinds[k].name);
        }
        if (!read_record(is_all ? &s->write : &s->record, a, ret->has_sidecar && is_all, &ret->w))
            return tc_err_set(err, TC_E_PARSE,
                              "a write of type %s lacks a field or has a wrong one", kinds[k].name);
        if (!is_all)
            set_text(&ret->w, ret->record);
        if (ret->has_sidecar && !tci_raw_count(s->write.raw[F_ORDINAL], &ret->ordinal))
            return tc_err_set(err, TC_E_PARSE, "a write of type %s without an ordinal",
                              kinds[k].name);
        return 0;
    }
    return bad(err, "a write of an unknown type");
}

static int scan_writes(tci_scan *s, tci_arena *a, bool is_loose, tci_jsonl_marker *m, tc_err *err)
{
    bool first = true;
    size_t cap = 0;
    scanned w;
    if (!tci_scan_array(s))
        return bad(err, "the writes are no array");
    m->nwrites = 0;
    while (tci_scan_item(s, &first)) {
        if (!scan_write(s, a, &w))
            return bad(err, "malformed JSON");
        if (m->nwrites == cap) {
            size_t larger = cap == 0 ? 4 : cap * 2;
            m->writes =
                tci_arena_grow(a, m->writes, cap * sizeof *m->writes, larger * sizeof *m->writes);
            if (m->writes == NULL)
                return tci_arena_error(a, err);
            cap = larger;
        }
        tci_jsonl_write *next = &m->writes[m->nwrites];
        memset(next, 0, sizeof *next);
        int rc = read_write(&w, a, next, err);
        next->is_bad = rc < 0;
        if (rc < 0 && !(is_loose && rc == TC_E_PARSE))
            return rc;
        m->nwrites++;
    }
    return tci_scan_ok(s) ? 0 : bad(err, "malformed JSON");
}

/* Anything but what the format says. */
static bool is_format(const fields *f, const char *type, uint64_t *ret_seq)
{
    uint64_t format;
    return get_id(f, F_FORMAT, &format) && format == 1 && name_of(f->raw[F_TYPE], &type, 1) == 0 &&
           get_id(f, F_SEQ, ret_seq);
}

/* The members of a marker. */
static int scan_marker(tci_scan *s, tci_arena *a, bool is_loose, tci_jsonl_marker *m, fields *f,
                       tc_err *err)
{
    bool first = true, has_writes = false;
    tc_str key, raw;
    if (!tci_scan_object(s))
        return bad(err, "no JSON object");
    while (tci_scan_member(s, &first, a, &key)) {
        if (tci_str_eq(key, TC_STR("writes"))) {
            int rc = scan_writes(s, a, is_loose, m, err);
            if (rc < 0)
                return rc;
            has_writes = true;
            continue;
        }
        field i = field_of(key);
        if (tci_scan_value(s, &raw) && i != FIELDS)
            f->raw[i] = raw;
    }
    if (!tci_jsonl_scan_end(s))
        return bad(err, "malformed JSON");
    return has_writes ? 0 : bad(err, "no commit marker of format 1");
}

int tci_jsonl_parse_marker(tc_str line, tci_arena *a, tci_jsonl_marker *ret, tc_err *err)
{
    tci_jsonl_marker m = {.is_lazy = line.len > 0 && line.ptr[line.len - 1] == ' '};
    fields f = {0};
    if (!tci_utf8_is_valid(line))
        return bad(err, "bytes that are not UTF-8");
    tci_scan s = tci_scan_of(line);
    int rc = scan_marker(&s, a, false, &m, &f, err);
    if (rc == 0 && !is_format(&f, "commit", &m.seq))
        rc = bad(err, "no commit marker of format 1");
    if (rc == 0)
        *ret = m;
    return rc;
}

int tci_jsonl_parse_loosely(tc_str line, tci_arena *a, tci_jsonl_marker *ret, tc_err *err)
{
    tci_jsonl_marker m = {.is_lazy = line.len > 0 && line.ptr[line.len - 1] == ' '};
    fields f = {0};
    tc_str sound = tci_str_sub(line, 0, tci_utf8_valid_prefix(line));
    tci_scan s = tci_scan_of(sound);
    int rc = scan_marker(&s, a, true, &m, &f, err);
    if (rc < 0 && rc != TC_E_PARSE)
        return rc;
    m.is_cut = rc < 0;
    if (!is_format(&f, "commit", &m.seq))
        return bad(err, "no commit marker of format 1");
    if (sound.len < line.len)
        (void)bad(err, "bytes that are not UTF-8"); /* the reason, should somebody tell it */
    *ret = m;
    return 0;
}

/* ---- records of sidecars ---- */

static int read_content(const fields *payload, tci_arena *a, tci_jsonl_record *r, tc_err *err)
{
    static const char *const content_kinds[] = {"base", "delta"};
    fields f;
    if (!get_id(payload, F_ID, &r->id) || !fields_of(payload->raw[F_CONTENT], a, &f) ||
        !get_id(&f, F_VERSION, &r->content.version))
        return bad(err, "the content of a document lacks a field or has a wrong one");
    int kind = name_of(f.raw[F_KIND], content_kinds, 2);
    r->content.is_delta = kind == 1;
    r->value = f.raw[kind == 1 ? F_OPS : F_VALUE];
    if (kind < 0 || !(kind == 0 ? tci_raw_is_object(r->value) : tci_raw_is_array(r->value)))
        return bad(err, "the content of a document is neither a base nor a delta");
    r->content.json = r->value;
    return 0;
}

int tci_jsonl_parse_record(tc_str line, tci_arena *a, tci_jsonl_record *ret, tc_err *err)
{
    tci_jsonl_record r = {0};
    fields f = {0}, payload;
    if (!tci_utf8_is_valid(line))
        return bad(err, "bytes that are not UTF-8");
    tci_scan s = tci_scan_of(line);
    if (!scan_fields(&s, a, &f) || !tci_jsonl_scan_end(&s))
        return bad(err, "malformed JSON");
    if (!is_format(&f, "record", &r.seq) || !tci_raw_count(f.raw[F_ORDINAL], &r.ordinal) ||
        !fields_of(f.raw[F_PAYLOAD], a, &payload))
        return bad(err, "no record of format 1");
    static const char *const types[] = {"task", "document"};
    int rc = 0;
    switch (name_of(payload.raw[F_TYPE], types, 2)) {
    case 0:
        r.is_task = true;
        r.value = payload.raw[F_VALUE];
        rc = tci_jsonl_parse_task(r.value, a, &r.task, err);
        r.id = r.task.id;
        if (rc == 0 && r.task.status == TCI_TASK_TERMINAL)
            rc = bad(err, "a task that has ended in a sidecar");
        break;
    case 1:
        rc = read_content(&payload, a, &r, err);
        break;
    default:
        rc = bad(err, "a record of an unknown type");
    }
    if (rc == 0 && r.value.len > TCI_RECORD_MAX)
        rc = bad(err, "a record that is too long");
    if (rc == 0)
        *ret = r;
    return rc;
}
