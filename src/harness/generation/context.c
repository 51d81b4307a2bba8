/* SPDX-License-Identifier: Apache-2.0
 *
 * Works out a context and grows it. Leaves reading records to context_read.c, estimates and cuts to
 * compaction. One thread at a time. Invariant: what stands before the last assistant message is
 * settled and never looked at again; each call has exactly one result directly after its message. */
#include "harness/generation/context.h"
#include "base/json.h"
#include "harness/generation/context_scan.h"
#include <stdlib.h>

enum { NONE = -1, UNDECIDED = -2 };
#define CONTEXT_BYTES_MAX ((size_t)4 << 30)

/* Room for one more item. */
static int room(void **items, size_t count, size_t *cap, size_t item_size, tc_err *err)
{
    if (count < *cap)
        return 0;
    size_t more = *cap == 0 ? 64 : *cap * 2;
    if (more > TCI_CONTEXT_ENTRIES_MAX || more > SIZE_MAX / item_size)
        return tc_err_set(err, TC_E_TOO_BIG, "context has too many entries");
    void *grown = tci_mem_resize(*items, more * item_size);
    if (grown == NULL)
        return tci_err_no_memory(err);
    *items = grown;
    *cap = more;
    return 0;
}
#define ROOM(c, name, err) \
    room((void **)&(c)->name, (c)->n##name, &(c)->name##_cap, sizeof *(c)->name, (err))

static tci_context *new_context(uint64_t conversation, uint64_t head_id)
{
    tci_context *c = tci_new(tci_context);
    if (c == NULL)
        return NULL;
    c->texts = tci_new(tci_texts);
    if (c->texts == NULL) {
        tci_free(c);
        return NULL;
    }
    tci_arena_init(&c->texts->arena, CONTEXT_BYTES_MAX);
    atomic_init(&c->texts->refs, 1);
    c->conversation = conversation;
    c->head_id = head_id;
    c->lead = TCI_NO_LEAD;
    c->baseline = UNDECIDED;
    return c;
}

void tci_texts_unref(tci_texts *t)
{
    if (t == NULL || atomic_fetch_sub(&t->refs, 1) > 1)
        return;
    tci_arena_done(&t->arena);
    tci_free(t);
}

void tci_context_free(tci_context *c)
{
    if (c == NULL)
        return;
    tci_texts_unref(c->texts);
    tci_mem_free(c->entries);
    tci_mem_free(c->active);
    tci_mem_free(c->messages);
    tci_mem_free(c->synthesized);
    tci_mem_free(c->ordered);
    tci_mem_free(c->calls);
    tci_mem_free(c->edited);
    if (c->extra != NULL)
        c->free_extra(c->extra);
    tci_free(c);
}

/* ---- messages ---- */

static tc_role role_of(tc_str role)
{
    if (tci_part_is_str(role, TC_STR("user")))
        return TC_ROLE_USER;
    if (tci_part_is_str(role, TC_STR("assistant")))
        return TC_ROLE_ASSISTANT;
    if (tci_part_is_str(role, TC_STR("toolResult")))
        return TC_ROLE_TOOL_RESULT;
    if (tci_part_is_str(role, TC_STR("system")))
        return TC_ROLE_SYSTEM;
    return TC_ROLE_OTHER;
}

static bool is_excluded(tc_str stop_reason)
{
    return tci_part_is_str(stop_reason, TC_STR("aborted")) ||
           tci_part_is_str(stop_reason, TC_STR("error")) ||
           tci_part_is_str(stop_reason, TC_STR("deferred"));
}

static int add_calls(tci_context *c, tci_message *m, tc_str content, tc_err *err)
{
    tci_parts items;
    tc_str item;
    m->first_call = (uint32_t)c->ncalls;
    if (!tci_part_array(content, &items))
        return 0;
    while (tci_part_item(&items, &item)) {
        if (!tci_part_is_str(tci_part_get(item, TC_STR("type")), TC_STR("toolCall")))
            continue;
        tci_call call = {{NULL, 0}, {NULL, 0}};
        (void)tci_part_str(tci_part_get(item, TC_STR("id")), &c->texts->arena,
                           &call.id); /* else empty */
        (void)tci_part_str(tci_part_get(item, TC_STR("name")), &c->texts->arena, &call.name);
        if (ROOM(c, calls, err) < 0)
            return err->code;
        c->calls[c->ncalls++] = call;
        m->ncalls++;
    }
    return 0;
}

/* One message an entry contributes, at s; those that never reach a model are left out. */
static int add_message(tci_context *c, tci_context_entry *e, tci_parts *s, tc_err *err)
{
    tc_str key, value, role = {NULL, 0}, stop = {NULL, 0}, content = {NULL, 0}, id = {NULL, 0};
    const char *from = s->at;
    tci_parts members = *s;
    if (!tci_part_enter(&members, '{')) {
        (void)tci_part_skip(s); /* no message */
        return 0;
    }
    while (tci_part_member(&members, &key, &value)) {
        if (tci_str_eq(key, TC_STR("role")))
            role = value;
        else if (tci_str_eq(key, TC_STR("stopReason")))
            stop = value;
        else if (tci_str_eq(key, TC_STR("content")))
            content = value;
        else if (tci_str_eq(key, TC_STR("toolCallId")))
            id = value;
    }
    const char *to = tci_part_leave(&members, '}');
    tc_str json = to != NULL ? tci_str_of(from, (size_t)(to - from)) : tci_part_skip(s);
    if (to != NULL)
        *s = members;
    tci_message m = {.json = json, .tokens = TCI_TOKENS_UNKNOWN, .role = (uint8_t)role_of(role)};
    if (m.role == TC_ROLE_ASSISTANT) {
        if (is_excluded(stop))
            return 0;
        if (add_calls(c, &m, content, err) < 0)
            return err->code;
    } else if (m.role == TC_ROLE_TOOL_RESULT) {
        (void)tci_part_str(id, &c->texts->arena,
                           &m.call_id); /* else empty, which matches nothing */
    }
    if (ROOM(c, messages, err) < 0)
        return err->code;
    c->messages[c->nmessages++] = m;
    e->nmessages++;
    return 0;
}

/* The messages of an array, the value of a member of object. */
static int contribute(tci_context *c, tci_context_entry *e, tc_str object, tc_str key, tc_err *err)
{
    tci_parts s;
    size_t len = 1; /* a bracket, and each message with a comma or a bracket behind it */
    if (!tci_part_find(object, key, &s) || !tci_part_enter(&s, '['))
        return 0;
    const char *from = s.at - 1, *before = from;
    while (tci_part_next(&s) && s.at != before) {
        before = s.at;
        if (add_message(c, e, &s, err) < 0)
            return err->code;
    }
    for (uint32_t i = 0; i < e->nmessages; i++)
        len += c->messages[e->first_message + i].json.len + 1;
    const char *to = tci_part_leave(&s, ']');
    e->is_whole = e->nmessages > 0 && to == from + len;
    return 0;
}

/* ---- edits ---- */

typedef struct edit {
    uint64_t target;
    size_t order;
    tc_str json;
} edit;

static int compare_edits(const void *a, const void *b)
{
    const edit *x = a, *y = b;
    if (x->target != y->target)
        return x->target < y->target ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

static int compare_ids(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

/* Every edit of the range, newest last for each target. */
static int collect_edits(tci_context *c, edit **ret, size_t *ret_n, tc_err *err)
{
    edit *edits = NULL;
    size_t n = 0, cap = 0;
    for (size_t i = 0; i < c->nentries; i++) {
        tci_parts items;
        tc_str item;
        if (!c->entries[i].has_edits ||
            !tci_part_array(tci_part_get(c->entries[i].json, TC_STR("edits")), &items))
            continue;
        while (tci_part_item(&items, &item)) {
            uint64_t target;
            if (!tci_part_u64(tci_part_get(item, TC_STR("target")), &target))
                continue;
            if (room((void **)&edits, n, &cap, sizeof *edits, err) < 0) {
                tci_mem_free(edits);
                return err->code;
            }
            edits[n] = (edit){target, n, item};
            n++;
        }
    }
    if (n > 0)
        qsort(edits, n, sizeof *edits, compare_edits);
    *ret = edits;
    *ret_n = n;
    return 0;
}

/* The newest edit of an entry; NULL: none. */
static const edit *find_edit(const edit *edits, size_t n, uint64_t target)
{
    size_t low = 0, high = n;
    while (low < high) { /* the first after target */
        size_t middle = low + (high - low) / 2;
        if (edits[middle].target <= target)
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 && edits[low - 1].target == target ? &edits[low - 1] : NULL;
}

static int remember_edited(tci_context *c, const edit *edits, size_t n, tc_err *err)
{
    tci_mem_free(c->edited);
    c->edited = NULL;
    c->nedited = 0;
    if (n == 0)
        return 0;
    c->edited = tci_mem_array(n, sizeof *c->edited);
    if (c->edited == NULL)
        return tci_err_no_memory(err);
    for (size_t i = 0; i < n; i++)
        c->edited[c->nedited++] = edits[i].target;
    return 0;
}

/* ---- the baseline ---- */

static bool edits_carry_system(tc_str json)
{
    tci_parts edits, messages;
    tc_str e, m;
    if (!tci_part_array(tci_part_get(json, TC_STR("edits")), &edits))
        return false;
    while (tci_part_item(&edits, &e)) {
        if (!tci_part_is_str(tci_part_get(e, TC_STR("action")), TC_STR("replace")) ||
            !tci_part_array(tci_part_get(e, TC_STR("messages")), &messages))
            continue;
        while (tci_part_item(&messages, &m)) {
            if (role_of(tci_part_get(m, TC_STR("role"))) == TC_ROLE_SYSTEM)
                return true;
        }
    }
    return false;
}

/* The first system message an entry carries itself, as an index into messages; NONE: it has none, or
 * an edit took its place. */
static int64_t own_system(const tci_context *c, const tci_context_entry *e, bool is_edited)
{
    for (uint32_t i = 0; !is_edited && i < e->nmessages; i++) {
        if (c->messages[e->first_message + i].role == TC_ROLE_SYSTEM)
            return (int64_t)e->first_message + i;
    }
    return NONE;
}

/* Look at one active entry, in order, for what decides the baseline. */
static void decide_baseline(tci_context *c, const tci_context_entry *e, bool is_edited)
{
    if (c->baseline != UNDECIDED || (c->head_id != 0 && e->id <= c->head_id))
        return;
    if (tci_str_eq(e->kind, TC_STR("pi.system")))
        c->baseline = own_system(c, e, is_edited);
    else if (c->head_id == 0 &&
             (own_system(c, e, false) != NONE || (e->has_edits && edits_carry_system(e->json))))
        c->baseline = NONE;
}

/* ---- order ---- */

static int push_ordered(tci_context *c, uint32_t index, tc_err *err)
{
    if (ROOM(c, ordered, err) < 0)
        return err->code;
    c->ordered[c->nordered++] = index;
    return 0;
}

/* A result for a call that the history has none for. */
static int synthesize(tci_context *c, const tci_message *assistant, const tci_call *call,
                      tc_err *err)
{
    tci_buf b;
    tci_buf_init(&b, TCI_BUF_MAX);
    bool first = true;
    tci_buf_append_byte(&b, '{');
    tci_json_put_key(&b, &first, TC_STR("role"));
    tci_json_put_str(&b, TC_STR("toolResult"));
    tci_json_put_key(&b, &first, TC_STR("toolCallId"));
    tci_json_put_str(&b, call->id);
    tci_json_put_key(&b, &first, TC_STR("toolName"));
    tci_json_put_str(&b, call->name);
    tci_buf_append_str(&b, TC_STR(",\"content\":[{\"type\":\"text\",\"text\":\"Tool result "
                                  "unavailable: history ends before this call completed.\"}],"
                                  "\"isError\":true,\"details\":{\"reason\":\"missing_result\"}"));
    tc_str timestamp = tci_part_get(assistant->json, TC_STR("timestamp"));
    if (timestamp.len > 0) {
        tci_json_put_key(&b, &first, TC_STR("timestamp"));
        tci_buf_append_str(&b, timestamp);
    }
    tci_buf_append_byte(&b, '}');
    tci_message m = {
        .tokens = TCI_TOKENS_UNKNOWN, .role = TC_ROLE_TOOL_RESULT, .call_id = call->id};
    int rc = tci_buf_error(&b, err);
    if (rc == 0)
        rc = tci_arena_dup(&c->texts->arena, tci_buf_str(&b), &m.json, err);
    tci_buf_done(&b);
    if (rc < 0 || ROOM(c, synthesized, err) < 0)
        return err->code;
    c->synthesized[c->nsynthesized] = m;
    return push_ordered(c, (uint32_t)c->nsynthesized++ | TCI_SYNTHESIZED, err);
}

/* The result of the call: of several of one id, the first belongs to the first call of that id, and so
 * on. SIZE_MAX: there is none before the next assistant message. */
static size_t find_result(const tci_context *c, size_t assistant, size_t end, size_t call)
{
    const tci_message *m = &c->messages[assistant];
    const tci_call *calls = &c->calls[m->first_call];
    size_t before = 0;
    for (size_t k = 0; k < call; k++)
        before += tci_str_eq(calls[k].id, calls[call].id);
    for (size_t i = assistant + 1; i < end && c->messages[i].role != TC_ROLE_ASSISTANT; i++) {
        if (c->messages[i].role == TC_ROLE_TOOL_RESULT && c->messages[i].call_id.len > 0 &&
            tci_str_eq(c->messages[i].call_id, calls[call].id) && before-- == 0)
            return i;
    }
    return SIZE_MAX;
}

static int order_results(tci_context *c, size_t assistant, size_t end, tc_err *err)
{
    const tci_message *m = &c->messages[assistant];
    for (size_t k = 0; k < m->ncalls; k++) {
        size_t result = find_result(c, assistant, end, k);
        int rc = result != SIZE_MAX ? push_ordered(c, (uint32_t)result, err)
                                    : synthesize(c, m, &c->calls[m->first_call + k], err);
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* Put what is not settled in order, and settle what stands before the last assistant message. */
static int order_open(tci_context *c, tc_err *err)
{
    size_t from = c->open_from;
    c->nordered = c->settled_ordered;
    c->nsynthesized = c->settled_synthesized;
    for (size_t i = from; i < c->nmessages; i++) {
        uint8_t role = c->messages[i].role;
        if (role == TC_ROLE_TOOL_RESULT)
            continue;
        if (role == TC_ROLE_ASSISTANT) {
            c->open_from = i;
            c->settled_ordered = c->nordered;
            c->settled_synthesized = c->nsynthesized;
        }
        if (push_ordered(c, (uint32_t)i, err) < 0)
            return err->code;
        if (role == TC_ROLE_ASSISTANT && order_results(c, i, c->nmessages, err) < 0)
            return err->code;
    }
    return 0;
}

static const tci_message *ordered_at(const tci_context *c, size_t i)
{
    uint32_t index = c->ordered[i];
    return index >= TCI_SYNTHESIZED ? &c->synthesized[index - TCI_SYNTHESIZED]
                                    : &c->messages[index];
}

/* Which system message stands first: the first one, if only users are before it or it is the baseline. */
static void find_lead(tci_context *c)
{
    bool only_users = true;
    c->lead = TCI_NO_LEAD;
    for (size_t i = 0; i < c->nordered; i++) {
        const tci_message *m = ordered_at(c, i);
        if (m->role == TC_ROLE_SYSTEM) {
            if (i > 0 && (only_users || (int64_t)c->ordered[i] == c->baseline))
                c->lead = i;
            return;
        }
        only_users = only_users && m->role == TC_ROLE_USER;
    }
}

/* ---- deriving ---- */

static int add_active(tci_context *c, size_t index, const edit *edits, size_t nedits, tc_err *err)
{
    tci_context_entry *e = &c->entries[index];
    const edit *changed = find_edit(edits, nedits, e->id);
    int rc = 0;
    e->first_message = (uint32_t)c->nmessages;
    e->nmessages = 0;
    e->is_whole = false;
    if (changed == NULL && e->has_model)
        rc = contribute(c, e, e->json, TC_STR("model"), err);
    else if (changed != NULL &&
             tci_part_is_str(tci_part_get(changed->json, TC_STR("action")), TC_STR("replace")))
        rc = contribute(c, e, changed->json, TC_STR("messages"), err);
    if (rc < 0 || ROOM(c, active, err) < 0)
        return err->code;
    c->active[c->nactive++] = (uint32_t)index;
    decide_baseline(c, e, changed != NULL);
    return 0;
}

/* From all entries of the range. */
static int derive(tci_context *c, tc_err *err)
{
    edit *edits = NULL;
    size_t nedits = 0;
    c->nactive = c->nmessages = c->nsynthesized = c->nordered = c->ncalls = 0;
    c->open_from = c->settled_ordered = c->settled_synthesized = 0;
    c->baseline = UNDECIDED;
    int rc = collect_edits(c, &edits, &nedits, err);
    for (size_t i = 0; rc == 0 && c->head_id != 0 && i < c->nentries; i++) {
        if (c->entries[i].id == c->head_id)
            rc = add_active(c, i, edits, nedits, err);
    }
    for (size_t i = 0; rc == 0 && i < c->nentries; i++) {
        if (c->head_id == 0 || c->entries[i].head == 0)
            rc = add_active(c, i, edits, nedits, err);
    }
    if (rc == 0)
        rc = remember_edited(c, edits, nedits, err);
    tci_mem_free(edits);
    if (rc == 0)
        rc = order_open(c, err);
    if (rc == 0)
        find_lead(c);
    return rc;
}

static bool is_edited(const tci_context *c, uint64_t id)
{
    return c->nedited > 0 &&
           bsearch(&id, c->edited, c->nedited, sizeof *c->edited, compare_ids) != NULL;
}

int tci_context_add(tci_context *c, const tci_entry *entries, size_t nentries, tc_err *err)
{
    for (size_t i = 0; i < nentries; i++) {
        const tci_entry *e = &entries[i];
        tci_context_entry kept = {.json = e->json,
                                  .kind = e->kind,
                                  .id = e->id,
                                  .head = e->head,
                                  .has_model = e->has_model,
                                  .has_edits = e->has_edits};
        if (e->has_edits || e->head != 0 || is_edited(c, e->id))
            c->is_changed = true;
        if (ROOM(c, entries, err) < 0)
            return err->code;
        c->entries[c->nentries++] = kept;
        c->tail = e->id > c->tail ? e->id : c->tail;
    }
    return 0;
}

int tci_context_settle(tci_context *c, tc_err *err)
{
    size_t from = c->nderived;
    if (from == 0 || c->is_changed) {
        if (derive(c, err) < 0)
            return err->code;
    } else {
        for (size_t i = from; i < c->nentries; i++) {
            if (add_active(c, i, NULL, 0, err) < 0)
                return err->code;
        }
        if (order_open(c, err) < 0)
            return err->code;
        find_lead(c);
    }
    c->nderived = c->nentries;
    c->is_changed = false;
    return 0;
}

int tci_context_of(uint64_t conversation, uint64_t head_id, const tci_entry *entries,
                   size_t nentries, tci_context **ret_context, tc_err *err)
{
    tci_context *c = new_context(conversation, head_id);
    if (c == NULL)
        return tci_err_no_memory(err);
    if (tci_context_extend(c, entries, nentries, err) < 0) {
        tci_context_free(c);
        return err->code;
    }
    *ret_context = c;
    return 0;
}

int tci_context_extend(tci_context *c, const tci_entry *entries, size_t nentries, tc_err *err)
{
    int rc = tci_context_add(c, entries, nentries, err);
    return rc < 0 ? rc : tci_context_settle(c, err);
}

/* ---- reading ---- */

const tci_message *tci_context_message(const tci_context *c, size_t i)
{
    if (c->lead == TCI_NO_LEAD || i > c->lead)
        return ordered_at(c, i);
    return i == 0 ? ordered_at(c, c->lead) : ordered_at(c, i - 1);
}

int tci_context_messages(const tci_context *c, tc_result *r, const tc_message **ret_messages,
                         size_t *ret_nmessages, tci_texts **ret_texts, tc_err *err)
{
    tci_arena *a = tci_result_arena(r);
    tc_message *messages = tci_arena_items(a, tc_message, c->nordered + 1);
    if (messages == NULL)
        return tci_arena_error(a, err);
    for (size_t i = 0; i < c->nordered; i++) {
        const tci_message *m = tci_context_message(c, i);
        messages[i] = (tc_message){m->json, (tc_role)m->role};
    }
    atomic_fetch_add(&c->texts->refs, 1);
    *ret_messages = messages;
    *ret_nmessages = c->nordered;
    *ret_texts = c->texts;
    return 0;
}

bool tci_context_has_call(const tci_context *c, tc_str id)
{
    for (size_t i = 0; i < c->ncalls; i++) {
        if (tci_str_eq(c->calls[i].id, id))
            return true;
    }
    return false;
}

int tci_context_each_ordered(const tci_context *c, size_t from, size_t to,
                             int (*fn)(void *user, tc_str message, tc_err *err), void *user,
                             tc_err *err)
{
    for (size_t i = from; i < to; i++) {
        const tci_message *m = &c->messages[i];
        if (m->role == TC_ROLE_TOOL_RESULT)
            continue;
        if (fn(user, m->json, err) < 0)
            return err->code;
        for (size_t k = 0; m->role == TC_ROLE_ASSISTANT && k < m->ncalls; k++) {
            size_t result = find_result(c, i, to, k);
            if (result != SIZE_MAX && fn(user, c->messages[result].json, err) < 0)
                return err->code;
        }
    }
    return 0;
}
