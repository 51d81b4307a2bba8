/* SPDX-License-Identifier: Apache-2.0
 *
 * Replays, renders and plans the system prompt. Leaves appending what is planned to the generation.
 * On the task's thread. Invariant: after the planned entries, a replay gives exactly the desired
 * sections and tools, in their order. */
#include "harness/generation/prompt.h"
#include "base/json.h"

/* ---- replay ---- */

static int grow(tc_result *r, void **items, size_t count, size_t *cap, size_t item_size,
                tc_err *err)
{
    if (count < *cap)
        return 0;
    size_t more = *cap == 0 ? 16 : *cap * 2;
    void *grown = tci_arena_grow(tci_result_arena(r), *items, count * item_size, more * item_size);
    if (grown == NULL)
        return tci_arena_error(tci_result_arena(r), err);
    *items = grown;
    *cap = more;
    return 0;
}

static void remove_section(tci_shown *s, tc_str key)
{
    size_t kept = 0;
    for (size_t i = 0; i < s->nsections; i++) {
        if (!tci_str_eq(s->sections[i].key, key))
            s->sections[kept++] = s->sections[i];
    }
    s->nsections = kept;
}

static int show_section(tci_shown *s, tc_result *r, tc_str key, tc_str text, tc_err *err)
{
    for (size_t i = 0; i < s->nsections; i++) {
        if (tci_str_eq(s->sections[i].key, key)) {
            s->sections[i].text = text;
            return 0;
        }
    }
    if (grow(r, (void **)&s->sections, s->nsections, &s->sections_cap, sizeof *s->sections, err) <
        0)
        return err->code;
    s->sections[s->nsections++] = (tci_section_text){key, text};
    return 0;
}

static void remove_tool(tci_shown *s, tc_str name)
{
    size_t kept = 0;
    for (size_t i = 0; i < s->ntools; i++) {
        if (!tci_str_eq(s->tools[i].name, name))
            s->tools[kept++] = s->tools[i];
    }
    s->ntools = kept;
}

static int show_tool(tci_shown *s, tc_result *r, const tci_json *json, tc_err *err)
{
    tci_declaration d = {.json = json};
    if (!tci_json_as_str(tci_json_get(json, TC_STR("name")), &d.name))
        return 0;
    if (tc_json_text(json, r, &d.text, err) < 0)
        return err->code;
    for (size_t i = 0; i < s->ntools; i++) {
        if (tci_str_eq(s->tools[i].name, d.name)) {
            s->tools[i] = d;
            return 0;
        }
    }
    if (grow(r, (void **)&s->tools, s->ntools, &s->tools_cap, sizeof *s->tools, err) < 0)
        return err->code;
    s->tools[s->ntools++] = d;
    return 0;
}

static int replay_message(tci_shown *s, tc_result *r, tc_str message, tc_err *err)
{
    const tci_json *v;
    tc_str text;
    if (tci_parse(r, message, &v, err) < 0)
        return err->code;
    const tci_json *sections = tci_json_get(v, TC_STR("sections"));
    for (uint32_t i = 0;
         sections != NULL && sections->kind == TCI_JSON_OBJECT && i < sections->count; i++) {
        const tci_json_member *m = &sections->u.members[i];
        if (!tci_json_as_str(&m->value, &text))
            remove_section(s, m->key);
        else if (show_section(s, r, m->key, text, err) < 0)
            return err->code;
    }
    const tci_json *list = tci_json_get(v, TC_STR("toolsRemoved"));
    for (uint32_t i = 0; list != NULL && list->kind == TCI_JSON_ARRAY && i < list->count; i++) {
        if (tci_json_as_str(tci_json_get(&list->u.items[i], TC_STR("name")), &text))
            remove_tool(s, text);
    }
    list = tci_json_get(v, TC_STR("toolsAdded"));
    for (uint32_t i = 0; list != NULL && list->kind == TCI_JSON_ARRAY && i < list->count; i++) {
        if (show_tool(s, r, &list->u.items[i], err) < 0)
            return err->code;
    }
    return 0;
}

/* What is kept with a context. messages: the system messages it was made from, which lie in the texts of the
 * context and are known by that. */
typedef struct replay {
    tc_result *r;
    tci_shown shown;
    tc_str *messages;
    size_t nmessages, messages_cap;
} replay;

static void free_replay(void *value)
{
    replay *p = value;
    tc_result_free(p->r);
    tci_free(p);
}

static int replay_of(tci_context *c, replay **ret, tc_err *err)
{
    replay *p = c->extra;
    if (p == NULL) {
        p = tci_new(replay);
        if (p == NULL)
            return tci_err_no_memory(err);
        if (tc_result_new(&p->r, err) < 0) {
            tci_free(p);
            return err->code;
        }
        c->extra = p;
        c->free_extra = free_replay;
    }
    *ret = p;
    return 0;
}

static void begin_anew(replay *p)
{
    tc_result_clear(p->r);
    *p = (replay){.r = p->r};
}

static int take_message(replay *p, tc_str message, tc_err *err)
{
    if (grow(p->r, (void **)&p->messages, p->nmessages, &p->messages_cap, sizeof *p->messages,
             err) < 0 ||
        replay_message(&p->shown, p->r, message, err) < 0)
        return err->code;
    p->messages[p->nmessages++] = message;
    return 0;
}

/* How many system messages the request has, and whether those the replay was made from are the first. */
static size_t count_systems(const tci_context *c, const replay *p, bool *ret_goes_on)
{
    size_t n = 0;
    *ret_goes_on = true;
    for (size_t i = 0; i < c->nordered; i++) {
        const tci_message *m = tci_context_message(c, i);
        if (m->role != TC_ROLE_SYSTEM)
            continue;
        if (n < p->nmessages &&
            (m->json.ptr != p->messages[n].ptr || m->json.len != p->messages[n].len))
            *ret_goes_on = false;
        n++;
    }
    *ret_goes_on = *ret_goes_on && n >= p->nmessages;
    return n;
}

int tci_prompt_replay(tci_context *c, const tci_shown **ret, tc_err *err)
{
    replay *p;
    bool goes_on;
    if (replay_of(c, &p, err) < 0)
        return err->code;
    size_t n = count_systems(c, p, &goes_on);
    if (!goes_on)
        begin_anew(p);
    for (size_t i = 0, at = 0; p->nmessages < n && i < c->nordered; i++) {
        const tci_message *m = tci_context_message(c, i);
        if (m->role != TC_ROLE_SYSTEM || at++ < p->nmessages)
            continue;
        if (take_message(p, m->json, err) < 0) {
            begin_anew(p);
            return err->code;
        }
    }
    *ret = &p->shown;
    return 0;
}

bool tci_prompt_offers(const tci_shown *shown, tc_str tool)
{
    for (size_t i = 0; i < shown->ntools; i++) {
        if (tci_str_eq(shown->tools[i].name, tool))
            return true;
    }
    return false;
}

/* ---- rendering ---- */

static const tc_str *text_of(const tci_section_text *sections, size_t n, tc_str key)
{
    for (size_t i = 0; i < n; i++) {
        if (tci_str_eq(sections[i].key, key))
            return &sections[i].text;
    }
    return NULL;
}

static int tagged(tc_result *r, tc_str key, tc_str text, tc_str *ret, tc_err *err)
{
    tci_buf b;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_buf_printf(&b, "<%.*s>\n", TC_STR_ARG(key));
    tci_buf_append_str(&b, text);
    tci_buf_printf(&b, "\n</%.*s>", TC_STR_ARG(key));
    return tci_result_take(r, &b, ret, err);
}

static void put_shown(tci_buf *b, const tci_shown *shown)
{
    bool first = true;
    tci_buf_append_byte(b, '{');
    for (size_t i = 0; i < shown->nsections; i++)
        tci_put_str_member(b, &first, shown->sections[i].key, shown->sections[i].text);
    tci_buf_append_byte(b, '}');
}

/* What renderers are told, texts in r. */
static int make_input(tc_task *t, const tci_agent *agent, struct tc_env *env,
                      const tci_shown *shown, tc_hook *hook, tc_result *r, tc_prompt *ret,
                      tc_err *err)
{
    tci_buf b;
    hook->task = t;
    *ret =
        (tc_prompt){.hook = hook, .conversation = tc_task_current(t)->conversation_id, .env = env};
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_agent_put(&b, agent);
    if (tci_result_take(r, &b, &ret->agent, err) < 0)
        return err->code;
    tci_buf_init(&b, TCI_BUF_MAX);
    put_shown(&b, shown);
    return tci_result_take(r, &b, &ret->shown, err);
}

/* The text of one section; empty: it is not there. */
static int render_one(tc_task *t, const tci_agent *agent, const tc_section *section,
                      const tc_prompt *input, const tci_shown *shown, tc_result *r, tc_str *ret,
                      tc_err *err)
{
    tc_err failure;
    tc_str text = {NULL, 0};
    *ret = text;
    if (section->render(section->user, input, r, &text, &failure) < 0) {
        if (tci_ctx_check(tc_task_ctx(t), err) < 0)
            return err->code;
        tci_task_extension_failed(t, tci_agent_section_extension(agent, section->key), &failure);
        const tc_str *kept = text_of(shown->sections, shown->nsections, section->key);
        if (kept != NULL)
            *ret = *kept;
        return 0;
    }
    if (text.len == 0)
        return 0;
    if (section->is_untagged)
        return tc_result_dup(r, text, ret, err);
    return tagged(r, section->key, text, ret, err);
}

int tci_prompt_render(tc_task *t, const tci_agent *agent, struct tc_env *env,
                      const tci_shown *shown, tc_result *r, tci_section_text **ret, size_t *ret_n,
                      tc_err *err)
{
    tc_hook hook;
    tc_prompt input;
    tc_str text;
    size_t n = 0;
    tci_section_text *out =
        tci_arena_items(tci_result_arena(r), tci_section_text, agent->nsections + 1);
    if (out == NULL)
        return tci_arena_error(tci_result_arena(r), err);
    if (make_input(t, agent, env, shown, &hook, r, &input, err) < 0)
        return err->code;
    for (size_t i = 0; i < agent->nsections; i++) {
        const tc_section *section = agent->sections[i];
        if (render_one(t, agent, section, &input, shown, r, &text, err) < 0)
            return err->code;
        if (text.len > 0)
            out[n++] = (tci_section_text){section->key, text};
    }
    if (agent->has_instructions && agent->instructions.len > 0) {
        if (tagged(r, TC_STR("instructions"), agent->instructions, &text, err) < 0)
            return err->code;
        out[n++] = (tci_section_text){TC_STR("instructions"), text};
    }
    *ret = out;
    *ret_n = n;
    return 0;
}

/* ---- planning ---- */

static const tci_declaration *declaration_of(const tci_declaration *list, size_t n, tc_str name)
{
    for (size_t i = 0; i < n; i++) {
        if (tci_str_eq(list[i].name, name))
            return &list[i];
    }
    return NULL;
}

/* Read only when it is not what is shown already. */
static int declare(const tc_tool *tool, const tci_shown *shown, tc_result *r, tci_declaration *ret,
                   tc_err *err)
{
    const tci_declaration *had = declaration_of(shown->tools, shown->ntools, tool->name);
    tci_buf b;
    bool first = true;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_buf_append_byte(&b, '{');
    tci_put_str_member(&b, &first, TC_STR("name"), tool->name);
    tci_put_str_member(&b, &first, TC_STR("description"), tool->description);
    tci_put_raw_member(&b, &first, TC_STR("parameters"),
                       tool->parameters.len > 0
                           ? tool->parameters
                           : TC_STR("{\"type\":\"object\",\"properties\":{}}"));
    if (tool->constrained_sampling.len > 0)
        tci_put_raw_member(&b, &first, TC_STR("constrainedSampling"), tool->constrained_sampling);
    tci_buf_append_byte(&b, '}');
    ret->name = tool->name;
    if (tci_result_take(r, &b, &ret->text, err) < 0)
        return err->code;
    if (had != NULL && tci_str_eq(had->text, ret->text))
        ret->json = had->json;
    else if (tci_parse(r, ret->text, &ret->json, err) < 0)
        return tc_err_wrap(err, "declaration of tool '%.*s'", TC_STR_ARG(tool->name));
    return 0;
}

/* What one planned message does to the tools. */
typedef struct tool_change {
    const tci_declaration *removed, *added;
    size_t nremoved, nadded;
} tool_change;

/* What one planned message says of sections: texts to set, and keys to take away (text.ptr NULL). */
typedef struct patch {
    bool is_there;
    const tci_section_text *items;
    size_t count;
} patch;

typedef struct planning {
    const tci_context *c;
    const tci_shown *shown;
    const tci_section_text *desired;
    size_t ndesired;
    const tci_declaration *tools;
    size_t ntools;
    int64_t now_ms;
    tc_result *r;
    tc_str drafts[2], messages[2];
    size_t count;
} planning;

static void put_message(tci_buf *b, const patch *p, const tool_change *change, int64_t now_ms)
{
    bool first = false;
    tci_buf_append_str(b, TC_STR("{\"role\":\"system\",\"content\":\"\""));
    if (p->is_there) {
        bool first_section = true;
        tci_buf_append_str(b, TC_STR(",\"sections\":{"));
        for (size_t i = 0; i < p->count; i++) {
            tci_json_put_key(b, &first_section, p->items[i].key);
            if (p->items[i].text.ptr == NULL)
                tci_buf_append_str(b, TC_STR("null"));
            else
                tci_json_put_str(b, p->items[i].text);
        }
        tci_buf_append_byte(b, '}');
    }
    for (size_t i = 0; i < change->nremoved; i++) {
        bool first_member = true;
        tci_buf_append_str(b, i == 0 ? TC_STR(",\"toolsRemoved\":[{") : TC_STR(",{"));
        tci_put_str_member(b, &first_member, TC_STR("name"), change->removed[i].name);
        tci_buf_append_str(b, i + 1 == change->nremoved ? TC_STR("}]") : TC_STR("}"));
    }
    for (size_t i = 0; i < change->nadded; i++) {
        tci_buf_append_str(b, i == 0 ? TC_STR(",\"toolsAdded\":[") : TC_STR(","));
        tci_json_put(b, change->added[i].json, TCI_JSON_AS_IS);
        if (i + 1 == change->nadded)
            tci_buf_append_byte(b, ']');
    }
    tci_put_i64_member(b, &first, TC_STR("timestamp"), now_ms);
    tci_buf_append_byte(b, '}');
}

/* One more entry; edits: JSON array or empty. */
static int plan_entry(planning *p, const patch *sections, const tool_change *change, tc_str edits,
                      tc_err *err)
{
    tci_buf b;
    tci_buf_init(&b, TCI_BUF_MAX);
    put_message(&b, sections, change, p->now_ms);
    if (tci_result_take(p->r, &b, &p->messages[p->count], err) < 0)
        return err->code;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_buf_append_str(&b, TC_STR("{\"kind\":\"pi.system\",\"model\":["));
    tci_buf_append_str(&b, p->messages[p->count]);
    tci_buf_append_byte(&b, ']');
    if (edits.len > 0) {
        tci_buf_append_str(&b, TC_STR(",\"edits\":"));
        tci_buf_append_str(&b, edits);
    }
    tci_buf_append_byte(&b, '}');
    return tci_result_take(p->r, &b, &p->drafts[p->count++], err);
}

/* Edits that leave out every system entry the range still has, and whether a newer one than the head
 * marker is among them. */
static void put_omissions(tci_buf *b, const tci_context *c, bool *ret_has_newer)
{
    *ret_has_newer = false;
    for (size_t i = 0; i < c->nactive; i++) {
        const tci_context_entry *e = &c->entries[c->active[i]];
        if (!tci_str_eq(e->kind, TC_STR("pi.system")))
            continue;
        *ret_has_newer = *ret_has_newer || e->id > c->head_id;
        tci_buf_printf(b, "%c{\"target\":%llu,\"action\":\"omit\"}", b->len == 0 ? '[' : ',',
                       (unsigned long long)e->id);
    }
    if (b->len > 0)
        tci_buf_append_byte(b, ']');
}

/* After a head marker the prompt is written anew, once. */
static int plan_baseline(planning *p, bool *ret_is_done, tc_err *err)
{
    tci_buf b;
    bool has_newer;
    tc_str edits = {NULL, 0};
    tci_buf_init(&b, TCI_BUF_MAX);
    put_omissions(&b, p->c, &has_newer);
    *ret_is_done = !has_newer;
    if (has_newer) {
        tci_buf_done(&b);
        return 0;
    }
    if (tci_result_take(p->r, &b, &edits, err) < 0)
        return err->code;
    if (edits.len == 0 && p->ndesired == 0 && p->ntools == 0)
        return 0;
    const patch all = {true, p->desired, p->ndesired};
    const tool_change add = {NULL, p->tools, 0, p->ntools};
    return plan_entry(p, &all, &add, edits, err);
}

/* Whether setting what changed would leave the sections in another order. */
static bool is_reordered(const planning *p)
{
    size_t at = 0;
    for (size_t i = 0; i < p->shown->nsections; i++) {
        tc_str key = p->shown->sections[i].key;
        if (text_of(p->desired, p->ndesired, key) == NULL)
            continue;
        if (!tci_str_eq(p->desired[at++].key, key))
            return true;
    }
    for (size_t i = 0; i < p->ndesired; i++) {
        if (text_of(p->shown->sections, p->shown->nsections, p->desired[i].key) == NULL &&
            !tci_str_eq(p->desired[at++].key, p->desired[i].key))
            return true;
    }
    return false;
}

static int plan_patches(const planning *p, patch patches[2], size_t *ret_n, tc_err *err)
{
    const tci_shown *shown = p->shown;
    size_t n = 0, max = shown->nsections + p->ndesired;
    tci_section_text *items = tci_arena_items(tci_result_arena(p->r), tci_section_text, max + 1);
    if (items == NULL)
        return tci_arena_error(tci_result_arena(p->r), err);
    *ret_n = 0;
    if (is_reordered(p)) {
        for (size_t i = 0; i < shown->nsections; i++)
            items[n++] = (tci_section_text){shown->sections[i].key, {NULL, 0}};
        patches[0] = (patch){true, items, n};
        patches[1] = (patch){true, p->desired, p->ndesired};
        *ret_n = 2;
        return 0;
    }
    for (size_t i = 0; i < shown->nsections; i++) {
        const tc_str *text = text_of(p->desired, p->ndesired, shown->sections[i].key);
        if (text == NULL)
            items[n++] = (tci_section_text){shown->sections[i].key, {NULL, 0}};
        else if (!tci_str_eq(*text, shown->sections[i].text))
            items[n++] = (tci_section_text){shown->sections[i].key, *text};
    }
    for (size_t i = 0; i < p->ndesired; i++) {
        if (text_of(shown->sections, shown->nsections, p->desired[i].key) == NULL)
            items[n++] = p->desired[i];
    }
    patches[0] = (patch){true, items, n};
    *ret_n = n > 0 ? 1 : 0;
    return 0;
}

static bool is_kept(const planning *p, const tci_declaration *offered)
{
    const tci_declaration *wanted = declaration_of(p->tools, p->ntools, offered->name);
    return wanted != NULL &&
           (wanted->json == offered->json || tci_json_equal(wanted->json, offered->json));
}

static int plan_tools(const planning *p, tool_change *ret, tc_err *err)
{
    const tci_shown *shown = p->shown;
    tci_arena *a = tci_result_arena(p->r);
    tci_declaration *removed = tci_arena_items(a, tci_declaration, shown->ntools + 1);
    tci_declaration *added = tci_arena_items(a, tci_declaration, p->ntools + 1);
    if (removed == NULL || added == NULL)
        return tci_arena_error(a, err);
    size_t nremoved = 0, nadded = 0, nkept = 0;
    bool is_ordered = true;
    for (size_t i = 0; i < shown->ntools; i++) {
        if (!is_kept(p, &shown->tools[i]))
            removed[nremoved++] = shown->tools[i];
        else if (nkept >= p->ntools || !tci_str_eq(p->tools[nkept++].name, shown->tools[i].name))
            is_ordered = false;
    }
    for (size_t i = 0; i < p->ntools; i++) {
        const tci_declaration *had = declaration_of(shown->tools, shown->ntools, p->tools[i].name);
        if (had == NULL || !is_kept(p, had)) {
            is_ordered = is_ordered && i == nkept + nadded;
            added[nadded++] = p->tools[i];
        }
    }
    if (is_ordered)
        *ret = (tool_change){removed, added, nremoved, nadded};
    else
        *ret = (tool_change){shown->tools, p->tools, shown->ntools, p->ntools};
    return 0;
}

static int plan_changes(planning *p, tc_err *err)
{
    static const tool_change none = {NULL, NULL, 0, 0};
    patch patches[2] = {{false, NULL, 0}, {false, NULL, 0}};
    size_t n;
    tool_change change;
    if (plan_patches(p, patches, &n, err) < 0 || plan_tools(p, &change, err) < 0)
        return err->code;
    if (n == 0 && (change.nremoved > 0 || change.nadded > 0)) {
        patches[0].is_there = false;
        return plan_entry(p, &patches[0], &change, (tc_str){NULL, 0}, err);
    }
    for (size_t i = 0; i < n; i++) {
        if (plan_entry(p, &patches[i], i + 1 == n ? &change : &none, (tc_str){NULL, 0}, err) < 0)
            return err->code;
    }
    return 0;
}

int tci_prompt_plan_entries(const tci_context *c, const tci_shown *shown,
                            const tci_section_text *desired, size_t ndesired,
                            const tci_tools *tools, int64_t now_ms, tc_result *r,
                            tci_prompt_plan *ret, tc_err *err)
{
    tci_arena *a = tci_result_arena(r);
    tci_declaration *declared = tci_arena_items(a, tci_declaration, tools->count + 1);
    planning *p = tci_arena_new(a, planning);
    if (declared == NULL || p == NULL)
        return tci_arena_error(a, err);
    for (size_t i = 0; i < tools->count; i++) {
        if (declare(tools->items[i], shown, r, &declared[i], err) < 0)
            return err->code;
    }
    *p = (planning){.c = c,
                    .shown = shown,
                    .desired = desired,
                    .ndesired = ndesired,
                    .tools = declared,
                    .ntools = tools->count,
                    .now_ms = now_ms,
                    .r = r};
    bool is_done = false;
    if (c->head_id != 0 && plan_baseline(p, &is_done, err) < 0)
        return err->code;
    if (!is_done && plan_changes(p, err) < 0)
        return err->code;
    *ret = (tci_prompt_plan){p->drafts, p->messages, p->count};
    return 0;
}
