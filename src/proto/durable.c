/* SPDX-License-Identifier: Apache-2.0
 *
 * Decoding and writing durable records. A record is looked at field by field and never rewritten
 * here; what a kind of entry or task means is its owner's business. Any thread. Invariant: ret is
 * filled only when every known field is as it must be. */
#include "proto/durable.h"

#include "base/num.h"

/* ---- names ---- */

static const char *const record_names[TCI_RECORD_TYPES] = {"conversation", "entry", "task",
                                                           "submission", "document"};
static const char *const task_names[TCI_TASK_STATUSES] = {"pending",  "running",    "waiting",
                                                          "sleeping", "completing", "terminal"};
static const char *const submission_names[TCI_SUBMISSION_STATUSES] = {"queued", "placed", "done",
                                                                      "unanswered"};
static const char *const scope_names[] = {"session", "conversation", "task"};
static const char *const history_names[] = {"", "latest", "rewindable"};
static const char *const fork_names[] = {"", "asOf", "current", "initial"};
static const char *const type_names[] = {"input", "write"};

#define COUNT_OF(array) (sizeof(array) / sizeof(array)[0])

const char *tci_record_type_name(tci_record_type type)
{
    return record_names[type];
}

const char *tci_task_status_name(tci_task_status status)
{
    return task_names[status];
}

const char *tci_submission_status_name(tci_submission_status status)
{
    return submission_names[status];
}

const char *tci_scope_name(tci_scope scope)
{
    return scope_names[scope];
}

/* The index of a name; n when it is none of them. */
static size_t name_index(tc_str name, const char *const *names, size_t n)
{
    size_t i = 0;
    while (i < n && !tci_str_eq(name, tci_str(names[i])))
        i++;
    return i;
}

bool tci_task_status_of(tc_str name, tci_task_status *ret)
{
    size_t i = name_index(name, task_names, TCI_TASK_STATUSES);
    if (i == TCI_TASK_STATUSES)
        return false;
    *ret = (tci_task_status)i;
    return true;
}

bool tci_submission_status_of(tc_str name, tci_submission_status *ret)
{
    size_t i = name_index(name, submission_names, TCI_SUBMISSION_STATUSES);
    if (i == TCI_SUBMISSION_STATUSES)
        return false;
    *ret = (tci_submission_status)i;
    return true;
}

/* ---- fields ---- */

bool tci_json_as_id(const tci_json *v, uint64_t *ret)
{
    uint64_t id;
    if (!tci_json_as_u64(v, &id) || id < 1 || id > TCI_ID_MAX)
        return false;
    *ret = id;
    return true;
}

/* A record being read: which one, and the first thing that was wrong. */
typedef struct reader {
    const char *record;
    tc_err *err;
    bool failed;
} reader;

typedef enum presence { OPTIONAL, REQUIRED } presence;

static void wrong(reader *r, const char *path, const char *what)
{
    if (!r->failed)
        (void)tc_err_set(r->err, TC_E_PARSE, "%s record: %s: %s", r->record, path, what);
    r->failed = true;
}

/* NULL when absent, which is wrong when it is required. */
static const tci_json *field(reader *r, const tci_json *v, const char *name, const char *path,
                             presence need)
{
    const tci_json *f = tci_json_get(v, tci_str(name));
    if (f == NULL && need == REQUIRED)
        wrong(r, path, "missing");
    return f;
}

/* path is name, or parent.name for messages. */
static uint64_t id_field(reader *r, const tci_json *v, const char *name, const char *path,
                         presence need)
{
    const tci_json *f = field(r, v, name, path, need);
    uint64_t id = 0;
    if (f != NULL && !tci_json_as_id(f, &id))
        wrong(r, path, "not an integer from 1 to 9007199254740991");
    return id;
}

static tc_str str_field(reader *r, const tci_json *v, const char *name, presence need,
                        bool *ret_has)
{
    const tci_json *f = field(r, v, name, name, need);
    tc_str s = {NULL, 0};
    if (f != NULL && !tci_json_as_str(f, &s))
        wrong(r, name, "not a string");
    if (ret_has != NULL)
        *ret_has = f != NULL;
    return s;
}

static bool bool_field(reader *r, const tci_json *v, const char *name, presence need)
{
    const tci_json *f = field(r, v, name, name, need);
    bool b = false;
    if (f != NULL && !tci_json_as_bool(f, &b))
        wrong(r, name, "not true or false");
    return b;
}

static int64_t time_field(reader *r, const tci_json *v, const char *name)
{
    const tci_json *f = field(r, v, name, name, OPTIONAL);
    double ms = 0;
    int64_t t = 0;
    if (f == NULL || tci_json_as_i64(f, &t))
        return t;
    if (!tci_json_as_double(f, &ms) || ms < -9e15 || ms > 9e15)
        wrong(r, name, "not a time in milliseconds");
    else
        t = (int64_t)ms;
    return t;
}

static size_t name_field(reader *r, const tci_json *v, const char *name, const char *path,
                         const char *const *names, size_t n, presence need)
{
    const tci_json *f = field(r, v, name, path, need);
    tc_str s;
    if (f == NULL)
        return 0;
    if (!tci_json_as_str(f, &s)) {
        wrong(r, path, "not a string");
        return 0;
    }
    size_t i = name_index(s, names, n);
    if (i == n || s.len == 0) {
        wrong(r, path, "none of the known words");
        return 0;
    }
    return i;
}

static bool is_object(reader *r, const tci_json *v, const char *path)
{
    if (v->kind == TCI_JSON_OBJECT)
        return true;
    wrong(r, path, "not an object");
    return false;
}

static int reader_end(const reader *r)
{
    return r->failed ? r->err->code : 0;
}

/* ---- records ---- */

int tci_conversation_of(const tci_json *v, tc_str text, tci_conversation *ret, tc_err *err)
{
    reader r = {"conversation", err, false};
    tci_conversation c = {.json = text};
    if (!is_object(&r, v, "record"))
        return reader_end(&r);
    c.id = id_field(&r, v, "id", "id", REQUIRED);
    const tci_json *parent = tci_json_get(v, TC_STR("parent"));
    if (parent != NULL && is_object(&r, parent, "parent")) {
        c.parent_id = id_field(&r, parent, "conversationId", "parent.conversationId", REQUIRED);
        c.parent_at = id_field(&r, parent, "at", "parent.at", REQUIRED);
    }
    const tci_json *owner = tci_json_get(v, TC_STR("owner"));
    if (owner != NULL && is_object(&r, owner, "owner")) {
        c.owner_conversation_id =
            id_field(&r, owner, "conversationId", "owner.conversationId", REQUIRED);
        c.owner_task_id = id_field(&r, owner, "taskId", "owner.taskId", REQUIRED);
    }
    if (!r.failed)
        *ret = c;
    return reader_end(&r);
}

static bool array_field(reader *r, const tci_json *v, const char *name)
{
    const tci_json *f = field(r, v, name, name, OPTIONAL);
    if (f != NULL && f->kind != TCI_JSON_ARRAY)
        wrong(r, name, "not an array");
    return f != NULL;
}

int tci_entry_of(const tci_json *v, tc_str text, tci_entry *ret, tc_err *err)
{
    reader r = {"entry", err, false};
    tci_entry e = {.json = text};
    if (!is_object(&r, v, "record"))
        return reader_end(&r);
    e.id = id_field(&r, v, "id", "id", REQUIRED);
    e.conversation_id = id_field(&r, v, "conversationId", "conversationId", REQUIRED);
    e.kind = str_field(&r, v, "kind", REQUIRED, NULL);
    if (e.kind.len == 0)
        wrong(&r, "kind", "empty");
    e.head = id_field(&r, v, "head", "head", OPTIONAL);
    e.by_task_id = id_field(&r, v, "byTaskId", "byTaskId", OPTIONAL);
    e.has_model = array_field(&r, v, "model");
    e.has_edits = array_field(&r, v, "edits");
    if (!r.failed)
        *ret = e;
    return reader_end(&r);
}

/* The fields that the state of each status must have. */
static void task_state(reader *r, const tci_json *v, tci_task *t)
{
    const tci_json *state = field(r, v, "state", "state", REQUIRED);
    if (state == NULL || !is_object(r, state, "state"))
        return;
    t->status = (tci_task_status)name_field(r, state, "status", "state.status", task_names,
                                            TCI_TASK_STATUSES, REQUIRED);
    bool is_ending = t->status == TCI_TASK_COMPLETING || t->status == TCI_TASK_TERMINAL;
    const char *name = is_ending ? "outcome" : "checkpoint";
    (void)field(r, state, name, is_ending ? "state.outcome" : "state.checkpoint", REQUIRED);
    if (t->status == TCI_TASK_WAITING)
        (void)field(r, state, "on", "state.on", REQUIRED);
    if (t->status == TCI_TASK_SLEEPING)
        (void)field(r, state, "until", "state.until", REQUIRED);
}

int tci_task_of(const tci_json *v, tc_str text, tci_task *ret, tc_err *err)
{
    reader r = {"task", err, false};
    tci_task t = {.json = text};
    if (!is_object(&r, v, "record"))
        return reader_end(&r);
    t.id = id_field(&r, v, "id", "id", REQUIRED);
    t.conversation_id = id_field(&r, v, "conversationId", "conversationId", REQUIRED);
    t.kind = str_field(&r, v, "kind", REQUIRED, NULL);
    t.version = id_field(&r, v, "version", "version", REQUIRED);
    (void)field(&r, v, "input", "input", REQUIRED);
    t.owner = id_field(&r, v, "owner", "owner", OPTIONAL);
    t.is_background = bool_field(&r, v, "background", REQUIRED);
    t.is_abort_requested = bool_field(&r, v, "abortRequested", REQUIRED);
    t.is_abort_by_restart =
        tci_str_eq(str_field(&r, v, "abortReason", OPTIONAL, NULL), TC_STR("restart"));
    t.is_abandoned_on_restart = bool_field(&r, v, "abandonOnRestart", OPTIONAL);
    t.started_at = time_field(&r, v, "startedAt");
    t.ended_at = time_field(&r, v, "endedAt");
    t.restarts = id_field(&r, v, "restarts", "restarts", OPTIONAL);
    task_state(&r, v, &t);
    if (!r.failed)
        *ret = t;
    return reader_end(&r);
}

/* Which of entry, answer and reason go with a status. */
static void submission_fields(reader *r, const tci_submission *s)
{
    bool is_input = s->type == TCI_SUBMISSION_INPUT;
    bool is_done = s->status == TCI_SUBMISSION_DONE;
    bool is_unanswered = s->status == TCI_SUBMISSION_UNANSWERED;
    if (!is_input && s->status == TCI_SUBMISSION_PLACED)
        wrong(r, "status", "a write is never placed");
    if ((s->status == TCI_SUBMISSION_PLACED || is_done) && s->entry == 0)
        wrong(r, "entry", "missing");
    if (is_input && is_done && s->answer == 0)
        wrong(r, "answer", "missing");
    if (is_unanswered && s->reason.len == 0)
        wrong(r, "reason", "missing");
}

int tci_submission_of(const tci_json *v, tc_str text, tci_submission *ret, tc_err *err)
{
    reader r = {"submission", err, false};
    tci_submission s = {.json = text};
    if (!is_object(&r, v, "record"))
        return reader_end(&r);
    s.id = id_field(&r, v, "id", "id", REQUIRED);
    s.conversation_id = id_field(&r, v, "conversationId", "conversationId", REQUIRED);
    s.request_id = str_field(&r, v, "requestId", OPTIONAL, &s.has_request_id);
    s.type = (tci_submission_type)name_field(&r, v, "type", "type", type_names,
                                             COUNT_OF(type_names), REQUIRED);
    s.status = (tci_submission_status)name_field(&r, v, "status", "status", submission_names,
                                                 TCI_SUBMISSION_STATUSES, REQUIRED);
    s.entry = id_field(&r, v, "entry", "entry", OPTIONAL);
    s.answer = id_field(&r, v, "answer", "answer", OPTIONAL);
    s.reason = str_field(&r, v, "reason", OPTIONAL, NULL);
    if (!r.failed)
        submission_fields(&r, &s);
    if (!r.failed)
        *ret = s;
    return reader_end(&r);
}

static void document_scope(reader *r, const tci_json *v, tci_document *d)
{
    const tci_json *scope = field(r, v, "scope", "scope", REQUIRED);
    if (scope == NULL || !is_object(r, scope, "scope"))
        return;
    d->scope = (tci_scope)name_field(r, scope, "kind", "scope.kind", scope_names,
                                     COUNT_OF(scope_names), REQUIRED);
    if (d->scope == TCI_SCOPE_CONVERSATION)
        d->owner_id = id_field(r, scope, "conversationId", "scope.conversationId", REQUIRED);
    if (d->scope == TCI_SCOPE_TASK)
        d->owner_id = id_field(r, scope, "taskId", "scope.taskId", REQUIRED);
}

int tci_document_of(const tci_json *v, tc_str text, tci_document *ret, tc_err *err)
{
    reader r = {"document", err, false};
    tci_document d = {.json = text};
    if (!is_object(&r, v, "record"))
        return reader_end(&r);
    d.id = id_field(&r, v, "id", "id", REQUIRED);
    d.kind = str_field(&r, v, "kind", REQUIRED, NULL);
    document_scope(&r, v, &d);
    d.key = str_field(&r, v, "key", OPTIONAL, &d.has_key);
    presence need = d.scope == TCI_SCOPE_CONVERSATION ? REQUIRED : OPTIONAL;
    d.history = (tci_history)name_field(&r, v, "history", "history", history_names,
                                        COUNT_OF(history_names), need);
    d.fork = (tci_fork)name_field(&r, v, "fork", "fork", fork_names, COUNT_OF(fork_names), need);
    d.created_at = id_field(&r, v, "createdAt", "createdAt", OPTIONAL);
    d.retired_at = id_field(&r, v, "retiredAt", "retiredAt", OPTIONAL);
    if (!r.failed)
        *ret = d;
    return reader_end(&r);
}

/* ---- from text ---- */

static int parse(tc_str text, tci_arena *a, const tci_json **ret, tc_err *err)
{
    tci_json *v = tci_arena_new(a, tci_json);
    if (v == NULL)
        return tci_arena_error(a, err);
    if (tci_json_parse(text, TCI_JSON_DURABLE, a, v, err) < 0)
        return err->code;
    *ret = v;
    return 0;
}

int tci_conversation_parse(tc_str text, tci_arena *a, tci_conversation *ret, tc_err *err)
{
    const tci_json *v;
    int rc = parse(text, a, &v, err);
    return rc < 0 ? rc : tci_conversation_of(v, text, ret, err);
}

int tci_submission_parse(tc_str text, tci_arena *a, tci_submission *ret, tc_err *err)
{
    const tci_json *v;
    int rc = parse(text, a, &v, err);
    return rc < 0 ? rc : tci_submission_of(v, text, ret, err);
}

int tci_document_parse(tc_str text, tci_arena *a, tci_document *ret, tc_err *err)
{
    const tci_json *v;
    int rc = parse(text, a, &v, err);
    return rc < 0 ? rc : tci_document_of(v, text, ret, err);
}

int tci_entry_parse(tc_str text, tci_arena *a, const tci_json **ret_tree, tci_entry *ret,
                    tc_err *err)
{
    const tci_json *v;
    if (parse(text, a, &v, err) < 0 || tci_entry_of(v, text, ret, err) < 0)
        return err->code;
    if (ret_tree != NULL)
        *ret_tree = v;
    return 0;
}

int tci_task_parse(tc_str text, tci_arena *a, const tci_json **ret_tree, tci_task *ret, tc_err *err)
{
    const tci_json *v;
    if (parse(text, a, &v, err) < 0 || tci_task_of(v, text, ret, err) < 0)
        return err->code;
    if (ret_tree != NULL)
        *ret_tree = v;
    return 0;
}

/* ---- writing ---- */

static void put_id(tci_buf *b, bool *first, const char *key, uint64_t id)
{
    tci_json_put_key(b, first, tci_str(key));
    tci_buf_append_u64(b, id);
}

void tci_conversation_put(tci_buf *b, const tci_conversation *c)
{
    tci_buf_printf(b, "{\"id\":%llu", (unsigned long long)c->id);
    if (c->parent_id != 0)
        tci_buf_printf(b, ",\"parent\":{\"conversationId\":%llu,\"at\":%llu}",
                       (unsigned long long)c->parent_id, (unsigned long long)c->parent_at);
    if (c->owner_task_id != 0)
        tci_buf_printf(b, ",\"owner\":{\"conversationId\":%llu,\"taskId\":%llu}",
                       (unsigned long long)c->owner_conversation_id,
                       (unsigned long long)c->owner_task_id);
    tci_buf_append_byte(b, '}');
}

void tci_document_put(tci_buf *b, const tci_document *d)
{
    bool first = true, first_of_scope = true;
    tci_buf_append_byte(b, '{');
    put_id(b, &first, "id", d->id);
    tci_json_put_member(b, &first, "kind", d->kind);
    tci_json_put_key(b, &first, TC_STR("scope"));
    tci_buf_append_byte(b, '{');
    tci_json_put_member(b, &first_of_scope, "kind", tci_str(scope_names[d->scope]));
    if (d->scope == TCI_SCOPE_CONVERSATION)
        put_id(b, &first_of_scope, "conversationId", d->owner_id);
    if (d->scope == TCI_SCOPE_TASK)
        put_id(b, &first_of_scope, "taskId", d->owner_id);
    tci_buf_append_byte(b, '}');
    if (d->has_key)
        tci_json_put_member(b, &first, "key", d->key);
    if (d->history != TCI_HISTORY_NONE)
        tci_json_put_member(b, &first, "history", tci_str(history_names[d->history]));
    if (d->fork != TCI_FORK_NONE)
        tci_json_put_member(b, &first, "fork", tci_str(fork_names[d->fork]));
    if (d->created_at != 0)
        put_id(b, &first, "createdAt", d->created_at);
    if (d->retired_at != 0)
        put_id(b, &first, "retiredAt", d->retired_at);
    tci_buf_append_byte(b, '}');
}
