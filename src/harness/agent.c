/* SPDX-License-Identifier: Apache-2.0
 *
 * Resolves agents. Leaves changing "pi.agent" to agent_change.c. Any thread; wrappers run on the
 * caller's. Invariant: an item keeps the place where its name first appeared; the last extension's
 * wins; a wrapper that fails takes the item away. */
#include "harness/agent.h"
#include "base/json.h"

/* Items of an agent with a name, in order. */
typedef struct named {
    tc_str name;
    const void *item; /* tc_tool or tc_section; NULL: taken away */
} named;
typedef struct named_list {
    named *items;
    size_t count, cap;
} named_list;

typedef struct agent {
    tci_agent pub; /* first */
    tci_arena arena;
    tc_result *r; /* what wrappers made */
    const tc_json *state;
} agent;

/* ---- names ---- */

typedef struct names {
    const tc_str *items;
    size_t count;
} names;

static bool has_name(const names *n, tc_str name)
{
    for (size_t i = 0; i < n->count; i++) {
        if (tci_str_eq(n->items[i], name))
            return true;
    }
    return false;
}

/* The strings of an array, each once. */
static int names_of(agent *ag, const tci_json *list, names *ret, tc_err *err)
{
    *ret = (names){NULL, 0};
    if (list == NULL || list->kind != TCI_JSON_ARRAY || list->count == 0)
        return 0;
    tc_str *items = tci_arena_items(&ag->arena, tc_str, list->count);
    if (items == NULL)
        return tci_arena_error(&ag->arena, err);
    ret->items = items;
    for (uint32_t i = 0; i < list->count; i++) {
        tc_str name;
        if (tci_json_as_str(&list->u.items[i], &name) && !has_name(ret, name))
            items[ret->count++] = name;
    }
    return 0;
}

/* A choice: names, or what to add to and remove from what there is anyway. */
typedef struct choice {
    bool is_list;
    names list, add, remove;
} choice;

static int choice_of(agent *ag, const char *field, choice *ret, tc_err *err)
{
    const tci_json *v = tci_json_get(ag->state, tci_str(field));
    *ret = (choice){false, {NULL, 0}, {NULL, 0}, {NULL, 0}};
    if (v != NULL && v->kind == TCI_JSON_ARRAY) {
        ret->is_list = true;
        return names_of(ag, v, &ret->list, err);
    }
    if (names_of(ag, tci_json_get(v, TC_STR("add")), &ret->add, err) < 0)
        return err->code;
    return names_of(ag, tci_json_get(v, TC_STR("remove")), &ret->remove, err);
}

/* ---- extensions ---- */

typedef struct extensions {
    const tc_extension **items;
    size_t count, cap;
} extensions;

static void choose_extension(extensions *x, tci_snapshot *snapshot, tc_str name)
{
    const tc_extension *e = tci_snapshot_find(snapshot, name);
    for (size_t i = 0; e != NULL && i < x->count; i++) {
        if (x->items[i] == e)
            e = NULL;
    }
    if (e != NULL && x->count < x->cap)
        x->items[x->count++] = e;
}

static int choose_extensions(agent *ag, tc_harness *h, tci_snapshot *snapshot, tc_err *err)
{
    choice c;
    tc_settings settings;
    if (choice_of(ag, "extensions", &c, err) < 0)
        return err->code;
    tci_harness_settings(h, ag->r, &settings);
    size_t installed = tci_snapshot_count(snapshot);
    extensions x = {NULL, 0, installed};
    x.items = (const tc_extension **)tci_arena_array(&ag->arena, installed + 1, sizeof *x.items);
    if (x.items == NULL)
        return tci_arena_error(&ag->arena, err);
    for (size_t i = 0; c.is_list && i < c.list.count; i++)
        choose_extension(&x, snapshot, c.list.items[i]);
    if (!c.is_list) {
        size_t n = settings.has_extensions ? settings.nextensions : installed;
        for (size_t i = 0; i < n; i++) {
            tc_str name = settings.has_extensions ? settings.extensions[i]
                                                  : tci_snapshot_extension(snapshot, i)->name;
            if (!has_name(&c.remove, name))
                choose_extension(&x, snapshot, name);
        }
        for (size_t i = 0; i < c.add.count; i++) {
            if (!has_name(&c.remove, c.add.items[i]))
                choose_extension(&x, snapshot, c.add.items[i]);
        }
    }
    ag->pub.extensions = x.items;
    ag->pub.nextensions = x.count;
    return 0;
}

/* ---- tools and sections ---- */

static named *find_named(const named_list *list, tc_str name)
{
    for (size_t i = 0; i < list->count; i++) {
        if (tci_str_eq(list->items[i].name, name))
            return &list->items[i];
    }
    return NULL;
}

static int put_named(agent *ag, named_list *list, tc_str name, const void *item, tc_err *err)
{
    named *had = find_named(list, name);
    if (had != NULL) {
        had->item = item;
        return 0;
    }
    if (list->count == list->cap) {
        size_t cap = list->cap == 0 ? 16 : list->cap * 2;
        named *grown = tci_arena_grow(&ag->arena, list->items, list->count * sizeof *grown,
                                      cap * sizeof *grown);
        if (grown == NULL)
            return tci_arena_error(&ag->arena, err);
        list->items = grown;
        list->cap = cap;
    }
    list->items[list->count++] = (named){name, item};
    return 0;
}

static void report_wrap(tc_harness *h, uint64_t conversation, tc_str extension, const tc_err *error)
{
    tc_report report = {.type = TC_REPORT_EXTENSION_ERROR,
                        .message = tci_str(error->msg),
                        .conversation_id = conversation,
                        .extension = extension};
    tci_harness_report(h, &report);
}

static int renamed(tc_str from, tc_str to, tc_err *err)
{
    return tc_err_set(err, TC_E_INVALID, "wrapper renamed '%.*s' to '%.*s'", TC_STR_ARG(from),
                      TC_STR_ARG(to));
}

static int wrap_tool(agent *ag, const tc_wrap *wrap, named *at, tc_err *err)
{
    const tc_tool *inner = at->item, *outer = NULL;
    if (wrap->wrap_tool == NULL)
        return 0;
    if (wrap->wrap_tool(wrap->user, inner, ag->r, &outer, err) < 0)
        return err->code;
    if (outer == NULL || !tci_str_eq(outer->name, at->name))
        return renamed(at->name, outer != NULL ? outer->name : TC_STR(""), err);
    at->item = outer;
    return 0;
}

static int wrap_section(agent *ag, const tc_wrap *wrap, named *at, tc_err *err)
{
    const tc_section *inner = at->item, *outer = NULL;
    if (wrap->wrap_section == NULL)
        return 0;
    if (wrap->wrap_section(wrap->user, inner, ag->r, &outer, err) < 0)
        return err->code;
    if (outer == NULL || !tci_str_eq(outer->key, at->name))
        return renamed(at->name, outer != NULL ? outer->key : TC_STR(""), err);
    at->item = outer;
    return 0;
}

static void apply_wraps(agent *ag, tc_harness *h, uint64_t conversation, named_list *tools,
                        named_list *sections)
{
    for (size_t i = 0; i < ag->pub.nextensions; i++) {
        const tc_extension *e = ag->pub.extensions[i];
        for (size_t k = 0; k < e->nwraps; k++) {
            const tc_wrap *w = &e->wraps[k];
            tc_err err;
            named *tool = w->tool.len > 0 ? find_named(tools, w->tool) : NULL;
            named *section = w->section.len > 0 ? find_named(sections, w->section) : NULL;
            named *at = tool != NULL ? tool : section;
            if (at == NULL || at->item == NULL)
                continue;
            if ((tool != NULL ? wrap_tool(ag, w, at, &err) : wrap_section(ag, w, at, &err)) < 0) {
                at->item = NULL;
                report_wrap(h, conversation, e->name, &err);
            }
        }
    }
}

static int compose(agent *ag, tc_harness *h, uint64_t conversation, named_list *tools,
                   named_list *sections, tc_err *err)
{
    for (size_t i = 0; i < ag->pub.nextensions; i++) {
        const tc_extension *e = ag->pub.extensions[i];
        for (size_t k = 0; k < e->ntools; k++) {
            if (put_named(ag, tools, e->tools[k]->name, e->tools[k], err) < 0)
                return err->code;
        }
        for (size_t k = 0; k < e->nsections; k++) {
            if (put_named(ag, sections, e->sections[k].key, &e->sections[k], err) < 0)
                return err->code;
        }
    }
    apply_wraps(ag, h, conversation, tools, sections);
    return 0;
}

/* ---- which tools ---- */

typedef struct tool_list {
    const tc_tool **items;
    size_t count;
} tool_list;

static int new_tools(agent *ag, size_t cap, tool_list *ret, tc_err *err)
{
    ret->count = 0;
    ret->items = (const tc_tool **)tci_arena_array(&ag->arena, cap + 1, sizeof *ret->items);
    return ret->items == NULL ? tci_arena_error(&ag->arena, err) : 0;
}

static const tc_tool *tool_named(const tool_list *tools, tc_str name)
{
    for (size_t i = 0; i < tools->count; i++) {
        if (tci_str_eq(tools->items[i]->name, name))
            return tools->items[i];
    }
    return NULL;
}

static bool can_call(const tc_tool *tool, unsigned caller)
{
    return tool->callers == TC_CALLERS_BOTH || (tool->callers & caller) != 0;
}

/* Those the agent has at all. */
static int enabled_tools(agent *ag, const named_list *all, tool_list *ret, tc_err *err)
{
    choice c;
    tool_list everything;
    if (choice_of(ag, "tools", &c, err) < 0 || new_tools(ag, all->count, &everything, err) < 0 ||
        new_tools(ag, all->count, ret, err) < 0)
        return err->code;
    for (size_t i = 0; i < all->count; i++) {
        if (all->items[i].item != NULL)
            everything.items[everything.count++] = all->items[i].item;
    }
    for (size_t i = 0; c.is_list && i < c.list.count; i++) {
        const tc_tool *tool = tool_named(&everything, c.list.items[i]);
        if (tool != NULL)
            ret->items[ret->count++] = tool;
    }
    for (size_t i = 0; !c.is_list && i < everything.count; i++) {
        if (!has_name(&c.remove, everything.items[i]->name))
            ret->items[ret->count++] = everything.items[i];
    }
    return 0;
}

/* Those the model is offered. */
static int offered_tools(agent *ag, const tool_list *for_model, tool_list *ret, tc_err *err)
{
    choice c;
    if (choice_of(ag, "modelTools", &c, err) < 0 || new_tools(ag, for_model->count, ret, err) < 0)
        return err->code;
    const names *wanted = c.is_list ? &c.list : &c.add;
    for (size_t i = 0; !c.is_list && i < for_model->count; i++) {
        const tc_tool *tool = for_model->items[i];
        if (!tool->is_deferred && !has_name(&c.remove, tool->name))
            ret->items[ret->count++] = tool;
    }
    for (size_t i = 0; i < wanted->count; i++) {
        const tc_tool *tool = tool_named(for_model, wanted->items[i]);
        if (tool != NULL && (c.is_list || (tool->is_deferred && !has_name(&c.remove, tool->name))))
            ret->items[ret->count++] = tool;
    }
    return 0;
}

static tci_tools public_tools(const tool_list *list)
{
    return (tci_tools){list->items, list->count};
}

static int choose_tools(agent *ag, const named_list *all, tc_err *err)
{
    tool_list enabled, for_model, offered, callable, deferred;
    if (enabled_tools(ag, all, &enabled, err) < 0 ||
        new_tools(ag, enabled.count, &for_model, err) < 0 ||
        new_tools(ag, enabled.count, &callable, err) < 0 ||
        new_tools(ag, enabled.count, &deferred, err) < 0)
        return err->code;
    for (size_t i = 0; i < enabled.count; i++) {
        if (can_call(enabled.items[i], TC_CALLERS_MODEL))
            for_model.items[for_model.count++] = enabled.items[i];
        if (can_call(enabled.items[i], TC_CALLERS_TOOLS))
            callable.items[callable.count++] = enabled.items[i];
    }
    if (offered_tools(ag, &for_model, &offered, err) < 0)
        return err->code;
    for (size_t i = 0; i < for_model.count; i++) {
        const tc_tool *tool = for_model.items[i];
        if (tool->is_deferred && tool_named(&offered, tool->name) == NULL)
            deferred.items[deferred.count++] = tool;
    }
    ag->pub.tools = public_tools(&offered);
    ag->pub.callable = public_tools(&callable);
    ag->pub.deferred = public_tools(&deferred);
    return 0;
}

static int keep_sections(agent *ag, const named_list *all, tc_err *err)
{
    const tc_section **kept =
        (const tc_section **)tci_arena_array(&ag->arena, all->count + 1, sizeof *kept);
    if (kept == NULL)
        return tci_arena_error(&ag->arena, err);
    ag->pub.sections = kept;
    for (size_t i = 0; i < all->count; i++) {
        if (all->items[i].item != NULL)
            kept[ag->pub.nsections++] = all->items[i].item;
    }
    return 0;
}

/* ---- the whole ---- */

static int read_state(agent *ag, tc_str state, tc_err *err)
{
    tci_agent *pub = &ag->pub;
    pub->thinking_level = TC_STR("off");
    if (state.len == 0)
        return 0;
    tc_str text;
    if (tc_result_dup(ag->r, state, &text, err) < 0 || tci_parse(ag->r, text, &ag->state, err) < 0)
        return err->code;
    const tci_json *model = tci_json_get(ag->state, TC_STR("model"));
    if (tci_json_as_str(tci_json_get(model, TC_STR("provider")), &pub->provider) &&
        tci_json_as_str(tci_json_get(model, TC_STR("modelId")), &pub->model_id) &&
        tc_json_text(model, ag->r, &pub->model, err) < 0)
        return err->code;
    tc_str level;
    if (tci_json_as_str(tci_json_get(ag->state, TC_STR("thinkingLevel")), &level))
        pub->thinking_level = level;
    pub->has_instructions =
        tci_json_as_str(tci_json_get(ag->state, TC_STR("instructions")), &pub->instructions);
    pub->has_cwd = tci_json_as_str(tci_json_get(ag->state, TC_STR("cwd")), &pub->cwd);
    return 0;
}

int tci_agent_resolve(tc_harness *h, tci_snapshot *snapshot, uint64_t conversation, tc_str state,
                      tci_agent **ret_agent, tc_err *err)
{
    agent *ag = tci_new(agent);
    if (ag == NULL)
        return tci_err_no_memory(err);
    tci_arena_init(&ag->arena, 0);
    named_list tools = {NULL, 0, 0}, sections = {NULL, 0, 0};
    if (tc_result_new(&ag->r, err) < 0 || read_state(ag, state, err) < 0 ||
        choose_extensions(ag, h, snapshot, err) < 0 ||
        compose(ag, h, conversation, &tools, &sections, err) < 0 ||
        choose_tools(ag, &tools, err) < 0 || keep_sections(ag, &sections, err) < 0) {
        tci_agent_free(&ag->pub);
        return err->code;
    }
    *ret_agent = &ag->pub;
    return 0;
}

void tci_agent_free(tci_agent *pub)
{
    agent *ag = (agent *)pub;
    if (ag == NULL)
        return;
    tc_result_free(ag->r);
    tci_arena_done(&ag->arena);
    tci_free(ag);
}

static void free_slot(void *value)
{
    tci_agent_free(value);
}

int tci_task_agent(tc_task *t, const tci_agent **ret_agent, tc_err *err)
{
    void **slot = tci_task_slot(t, free_slot);
    if (*slot == NULL) {
        tc_harness *h = tc_task_harness(t);
        const tc_doc_addr addr = {&tci_agent_doc, tc_task_current(t)->conversation_id, {NULL, 0}};
        tc_str state;
        tci_agent *made;
        if (tc_durable_snapshot(tci_harness_session(h), &addr, tc_task_result(t), &state, err) <
                0 ||
            tci_agent_resolve(h, tci_task_snapshot(t), addr.owner, state, &made, err) < 0)
            return err->code;
        *slot = made;
    }
    *ret_agent = *slot;
    return 0;
}

const tc_tool *tci_tools_find(const tci_tools *tools, tc_str name)
{
    for (size_t i = 0; i < tools->count; i++) {
        if (tci_str_eq(tools->items[i]->name, name))
            return tools->items[i];
    }
    return NULL;
}

tc_str tci_agent_tool_extension(const tci_agent *pub, tc_str name)
{
    tc_str found = {NULL, 0};
    for (size_t i = 0; i < pub->nextensions; i++) {
        const tc_extension *e = pub->extensions[i];
        for (size_t k = 0; k < e->ntools; k++)
            found = tci_str_eq(e->tools[k]->name, name) ? e->name : found;
        for (size_t k = 0; k < e->nwraps; k++)
            found =
                e->wraps[k].tool.len > 0 && tci_str_eq(e->wraps[k].tool, name) ? e->name : found;
    }
    return found;
}

tc_str tci_agent_section_extension(const tci_agent *pub, tc_str key)
{
    tc_str found = {NULL, 0};
    for (size_t i = 0; i < pub->nextensions; i++) {
        const tc_extension *e = pub->extensions[i];
        for (size_t k = 0; k < e->nsections; k++)
            found = tci_str_eq(e->sections[k].key, key) ? e->name : found;
        for (size_t k = 0; k < e->nwraps; k++)
            found = e->wraps[k].section.len > 0 && tci_str_eq(e->wraps[k].section, key) ? e->name
                                                                                        : found;
    }
    return found;
}

static void put_tools(tci_buf *b, bool *first, tc_str key, const tci_tools *tools)
{
    tci_json_put_key(b, first, key);
    tci_buf_append_byte(b, '[');
    for (size_t i = 0; i < tools->count; i++) {
        if (i > 0)
            tci_buf_append_byte(b, ',');
        tci_json_put_str(b, tools->items[i]->name);
    }
    tci_buf_append_byte(b, ']');
}

void tci_agent_put(tci_buf *b, const tci_agent *pub)
{
    bool first = true;
    tci_buf_append_byte(b, '{');
    if (pub->model.len > 0)
        tci_put_raw_member(b, &first, TC_STR("model"), pub->model);
    tci_put_str_member(b, &first, TC_STR("thinkingLevel"), pub->thinking_level);
    tci_json_put_key(b, &first, TC_STR("extensions"));
    tci_buf_append_byte(b, '[');
    for (size_t i = 0; i < pub->nextensions; i++) {
        if (i > 0)
            tci_buf_append_byte(b, ',');
        tci_json_put_str(b, pub->extensions[i]->name);
    }
    tci_buf_append_byte(b, ']');
    put_tools(b, &first, TC_STR("tools"), &pub->tools);
    put_tools(b, &first, TC_STR("callable"), &pub->callable);
    put_tools(b, &first, TC_STR("deferred"), &pub->deferred);
    tci_json_put_key(b, &first, TC_STR("sections"));
    tci_buf_append_byte(b, '[');
    for (size_t i = 0; i < pub->nsections; i++) {
        if (i > 0)
            tci_buf_append_byte(b, ',');
        tci_json_put_str(b, pub->sections[i]->key);
    }
    tci_buf_append_byte(b, ']');
    if (pub->has_instructions)
        tci_put_str_member(b, &first, TC_STR("instructions"), pub->instructions);
    if (pub->has_cwd)
        tci_put_str_member(b, &first, TC_STR("cwd"), pub->cwd);
    tci_buf_append_byte(b, '}');
}

/* ---- hooks ---- */

uint64_t tc_hook_task(const tc_hook *hook)
{
    return tc_task_current(hook->task)->id;
}

uint64_t tc_hook_conversation(const tc_hook *hook)
{
    return tc_task_current(hook->task)->conversation_id;
}

struct tc_harness *tc_hook_harness(const tc_hook *hook)
{
    return tc_task_harness(hook->task);
}

tc_ctx *tc_hook_ctx(const tc_hook *hook)
{
    return tc_task_ctx(hook->task);
}

int tc_hook_memo(tc_hook *hook, tc_str name, tc_str value, tc_result *r, tc_str *ret_value,
                 tc_err *err)
{
    return value.len == 0 ? tci_task_get_memo(hook->task, name, r, ret_value, err)
                          : tci_task_memo(hook->task, name, value, r, ret_value, err);
}

void tci_task_extension_failed(tc_task *t, tc_str extension, const tc_err *error)
{
    tci_harness_report_task(tc_task_harness(t), TC_REPORT_EXTENSION_ERROR, tc_task_current(t),
                            extension, (tc_str){NULL, 0}, error);
}

void tci_hook_failed(tc_task *t, const tc_extension *extension, const tc_err *error)
{
    tci_task_extension_failed(t, extension->name, error);
}
