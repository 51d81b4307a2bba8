/* SPDX-License-Identifier: Apache-2.0
 *
 * How large messages are, and where a context may be cut. Leaves what is done about it to the
 * tasks. One thread at a time. Invariant: a cut never parts a call from its result. */
#include "base/json.h"
#include "harness/generation/compact.h"
#include "harness/generation/context_scan.h"
#include "harness/generation/usage.h"

enum { IMAGE_CHARS = 4800 };

/* Characters of WTF-8 text: bytes that do not continue one. */
static uint64_t count_chars(tc_str s)
{
    uint64_t n = 0;
    for (size_t i = 0; i < s.len; i++)
        n += ((unsigned char)s.ptr[i] & 0xc0) != 0x80;
    return n;
}

/* ceil(chars / 3.5) */
static uint64_t tokens_of(uint64_t chars)
{
    return (chars * 2 + 6) / 7;
}

static uint64_t json_chars(const tci_json *v)
{
    tci_buf b;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_json_put(&b, v, TCI_JSON_AS_IS);
    uint64_t n = count_chars(tci_buf_str(&b));
    tci_buf_done(&b);
    return n;
}

static uint64_t str_chars(const tci_json *v)
{
    tc_str text;
    return tci_json_as_str(v, &text) ? count_chars(text) : 0;
}

static bool is_type(const tci_json *item, const char *type)
{
    tc_str text;
    return tci_json_as_str(tci_json_get(item, TC_STR("type")), &text) &&
           tci_str_eq(text, tci_str(type));
}

/* Of a user message or a tool result. */
static uint64_t content_chars(const tci_json *content)
{
    uint64_t n = 0;
    if (content == NULL || content->kind != TCI_JSON_ARRAY)
        return str_chars(content);
    for (uint32_t i = 0; i < content->count; i++) {
        const tci_json *item = &content->u.items[i];
        n += is_type(item, "text") ? str_chars(tci_json_get(item, TC_STR("text"))) : IMAGE_CHARS;
    }
    return n;
}

static uint64_t assistant_chars(const tci_json *content)
{
    uint64_t n = 0;
    for (uint32_t i = 0; content != NULL && content->kind == TCI_JSON_ARRAY && i < content->count;
         i++) {
        const tci_json *item = &content->u.items[i];
        const tci_json *arguments = tci_json_get(item, TC_STR("arguments"));
        if (is_type(item, "text"))
            n += str_chars(tci_json_get(item, TC_STR("text")));
        else if (is_type(item, "thinking"))
            n += str_chars(tci_json_get(item, TC_STR("thinking")));
        else
            n += str_chars(tci_json_get(item, TC_STR("name"))) +
                 (arguments != NULL ? json_chars(arguments) : 4);
    }
    return n;
}

static uint64_t system_tokens(const tci_json *v)
{
    static const char *const lists[] = {"toolsAdded", "toolsRemoved"};
    uint64_t chars = content_chars(tci_json_get(v, TC_STR("content"))), tokens = 0;
    const tci_json *sections = tci_json_get(v, TC_STR("sections"));
    for (uint32_t i = 0;
         sections != NULL && sections->kind == TCI_JSON_OBJECT && i < sections->count; i++) {
        uint64_t n = str_chars(&sections->u.members[i].value);
        chars += n > 0 && chars > 0 ? n + 2 : n;
    }
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        const tci_json *list = tci_json_get(v, tci_str(lists[i]));
        if (list != NULL && list->kind == TCI_JSON_ARRAY && list->count > 0)
            tokens += tokens_of(json_chars(list));
    }
    return tokens + tokens_of(chars);
}

uint32_t tci_estimate_message(tc_str message)
{
    tci_arena a;
    tci_json v;
    tc_err err;
    uint64_t tokens = 0;
    tc_str role = {NULL, 0};
    tci_arena_init(&a, 0);
    if (tci_json_parse(message, TCI_JSON_DURABLE, &a, &v, &err) == 0 &&
        tci_json_as_str(tci_json_get(&v, TC_STR("role")), &role)) {
        const tci_json *content = tci_json_get(&v, TC_STR("content"));
        if (tci_str_eq(role, TC_STR("system")))
            tokens = system_tokens(&v);
        else if (tci_str_eq(role, TC_STR("assistant")))
            tokens = tokens_of(assistant_chars(content));
        else
            tokens = tokens_of(content_chars(content));
    }
    tci_arena_done(&a);
    return tokens < TCI_TOKENS_UNKNOWN ? (uint32_t)tokens : TCI_TOKENS_UNKNOWN - 1;
}

static uint64_t message_tokens(tci_message *m)
{
    if (m->tokens == TCI_TOKENS_UNKNOWN)
        m->tokens = tci_estimate_message(m->json);
    return m->tokens;
}

/* What the provider counted for the request that this message answers; 0: nothing. */
static uint64_t measured_tokens(const tci_message *m)
{
    tci_arena a;
    tci_json v;
    tc_err err;
    uint64_t n = 0;
    tc_str usage = tci_part_get(m->json, TC_STR("usage"));
    if (usage.len == 0)
        return 0;
    tci_arena_init(&a, 0);
    if (tci_json_parse(usage, TCI_JSON_DURABLE, &a, &v, &err) == 0)
        n = tci_usage_context_tokens(&v);
    tci_arena_done(&a);
    return n;
}

/* The newest answer after the head marker that was measured, as an index into messages. */
static bool find_measured(const tci_context *c, uint32_t *ret_index, uint64_t *ret_tokens)
{
    for (size_t i = c->nactive; i-- > 0;) {
        const tci_context_entry *e = &c->entries[c->active[i]];
        if (e->id <= c->head_id)
            continue;
        for (uint32_t k = e->nmessages; k-- > 0;) {
            const tci_message *m = &c->messages[e->first_message + k];
            uint64_t tokens = m->role == TC_ROLE_ASSISTANT ? measured_tokens(m) : 0;
            if (tokens > 0) {
                *ret_index = e->first_message + k;
                *ret_tokens = tokens;
                return true;
            }
        }
    }
    return false;
}

uint64_t tci_estimate_context(tci_context *c)
{
    uint32_t measured = 0;
    uint64_t tokens = 0;
    size_t from = 0;
    if (find_measured(c, &measured, &tokens)) {
        from = c->nordered;
        while (from > 0 && c->ordered[from - 1] != measured)
            from--;
    }
    for (size_t i = from; i < c->nordered; i++) {
        uint32_t index = c->ordered[i];
        tokens += message_tokens(index >= TCI_SYNTHESIZED ? &c->synthesized[index - TCI_SYNTHESIZED]
                                                          : &c->messages[index]);
    }
    return tokens;
}

/* ---- the cut ---- */

static bool answers_call(const tci_context *c, const tci_message *assistant, tc_str id)
{
    for (uint32_t k = 0; k < assistant->ncalls; k++) {
        if (tci_str_eq(c->calls[assistant->first_call + k].id, id))
            return true;
    }
    return false;
}

/* For each active entry, whether the kept part may begin with it. Walks forward; results that still
 * come for the calls of the answer before keep an entry from being one. */
static void find_candidates(const tci_context *c, size_t start, bool *is_candidate)
{
    const tci_message *assistant = NULL;
    size_t first_open = start; /* entries from here on stand after the assistant message */
    for (size_t i = start; i < c->nactive; i++) {
        const tci_context_entry *e = &c->entries[c->active[i]];
        for (uint32_t k = 0; k < e->nmessages; k++) {
            const tci_message *m = &c->messages[e->first_message + k];
            if (k == 0)
                is_candidate[i] = m->role == TC_ROLE_USER || m->role == TC_ROLE_ASSISTANT;
            if (m->role == TC_ROLE_ASSISTANT) {
                assistant = m;
                first_open = i + 1;
            } else if (m->role == TC_ROLE_TOOL_RESULT && assistant != NULL &&
                       answers_call(c, assistant, m->call_id)) {
                for (; first_open <= i; first_open++)
                    is_candidate[first_open] = false;
            }
        }
    }
}

static bool has_messages(const tci_context *c, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++) {
        if (c->entries[c->active[i]].nmessages > 0)
            return true;
    }
    return false;
}

size_t tci_select_cut(tci_context *c, uint64_t keep_recent_tokens)
{
    size_t start = c->head_id != 0 ? 1 : 0, cut = TCI_NO_CUT, i = c->nactive;
    uint64_t kept = 0;
    bool is_reached = false;
    while (i > start && !is_reached) {
        const tci_context_entry *e = &c->entries[c->active[--i]];
        for (uint32_t k = 0; k < e->nmessages; k++)
            kept += message_tokens(&c->messages[e->first_message + k]);
        is_reached = kept >= keep_recent_tokens;
    }
    bool *is_candidate = is_reached ? tci_mem_array(c->nactive, sizeof(bool)) : NULL;
    if (is_candidate == NULL)
        return TCI_NO_CUT;
    find_candidates(c, start, is_candidate);
    for (size_t k = i; k < c->nactive && cut == TCI_NO_CUT; k++)
        cut = is_candidate[k] ? k : TCI_NO_CUT;
    for (size_t k = i; k > start && cut == TCI_NO_CUT; k--)
        cut = is_candidate[k - 1] ? k - 1 : TCI_NO_CUT;
    tci_mem_free(is_candidate);
    return cut != TCI_NO_CUT && has_messages(c, start, cut) ? cut : TCI_NO_CUT;
}

bool tci_is_just_compacted(const tci_context *c)
{
    if (c->head_id == 0 || c->nactive == 0 ||
        !tci_str_eq(c->entries[c->active[0]].kind, TC_STR("pi.compaction")))
        return false;
    tc_str data = tci_part_get(c->entries[c->active[0]].json, TC_STR("data"));
    if (tci_part_is_str(tci_part_get(data, TC_STR("reason")), TC_STR("manual")))
        return false;
    for (size_t i = c->nactive; i-- > 1;) {
        const tci_context_entry *e = &c->entries[c->active[i]];
        for (uint32_t k = 0; e->id > c->head_id && k < e->nmessages; k++) {
            if (c->messages[e->first_message + k].role == TC_ROLE_ASSISTANT)
                return false;
        }
    }
    return true;
}

tc_compaction_policy tci_compaction_policy(const tc_settings *settings, tc_str provider,
                                           tc_str model_id)
{
    tc_compaction_policy policy = settings->compaction;
    for (size_t i = 0; i < settings->ncompaction_overrides; i++) {
        const tc_compaction_override *o = &settings->compaction_overrides[i];
        if (o->model.len != provider.len + 1 + model_id.len ||
            !tci_str_starts(o->model, provider) || o->model.ptr[provider.len] != '/' ||
            !tci_str_ends(o->model, model_id))
            continue;
        if (o->fields & TC_COMPACTION_ENABLED)
            policy.is_enabled = o->policy.is_enabled;
        if (o->fields & TC_COMPACTION_RESERVE)
            policy.reserve_tokens = o->policy.reserve_tokens;
        if (o->fields & TC_COMPACTION_KEEP_RECENT)
            policy.keep_recent_tokens = o->policy.keep_recent_tokens;
        if (o->fields & TC_COMPACTION_BACKGROUND)
            policy.background_tokens = o->policy.background_tokens;
    }
    return policy;
}
