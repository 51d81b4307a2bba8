/* SPDX-License-Identifier: Apache-2.0
 *
 * From the messages of a session to what a server is asked: system messages folded into one prompt and
 * the tools in effect, answers that went wrong left out. Leaves the shape of a request to the
 * servers' files. Any thread. Invariant: a message that stays is not changed here. */
#include "llm/llm_int.h"

tc_str tci_role_of(const tci_json *message)
{
    return tci_json_str_member(message, "role");
}

bool tci_is_type(const tci_json *block, const char *type)
{
    return tci_str_eq(tci_json_str_member(block, "type"), tci_str(type));
}

bool tci_is_own(const tci_json *message, const tc_model *model, const char *api)
{
    return tci_str_eq(tci_json_str_member(message, "provider"), model->provider) &&
           tci_str_eq(tci_json_str_member(message, "api"), tci_str(api)) &&
           tci_str_eq(tci_json_str_member(message, "model"), model->id);
}

/* ---- the system side ---- */

typedef struct section {
    tc_str name, text;
} section;

typedef struct system_state {
    tci_arena *arena;
    section *sections;
    size_t nsections, sections_cap;
    tci_buf contents; /* of all system messages, joined */
} system_state;

/* Make room for one more item of an arena array. */
static int room(tci_arena *a, void *items, size_t n, size_t *cap, size_t size, void *ret,
                tc_err *err)
{
    if (n < *cap)
        return 0;
    size_t more = *cap > 0 ? *cap * 2 : 8;
    void *grown = tci_arena_grow(a, items, *cap * size, more * size);
    if (grown == NULL)
        return tci_arena_error(a, err);
    *cap = more;
    memcpy(ret, &grown, sizeof grown);
    return 0;
}

static void drop_section(system_state *s, tc_str name)
{
    for (size_t i = 0; i < s->nsections; i++) {
        if (!tci_str_eq(s->sections[i].name, name))
            continue;
        s->nsections--;
        memmove(&s->sections[i], &s->sections[i + 1], (s->nsections - i) * sizeof(section));
        return;
    }
}

static int set_section(system_state *s, tc_str name, tc_str text, tc_err *err)
{
    for (size_t i = 0; i < s->nsections; i++) {
        if (tci_str_eq(s->sections[i].name, name)) {
            s->sections[i].text = text;
            return 0;
        }
    }
    if (room(s->arena, s->sections, s->nsections, &s->sections_cap, sizeof(section), &s->sections,
             err) < 0)
        return err->code;
    s->sections[s->nsections++] = (section){name, text};
    return 0;
}

static int replay_sections(system_state *s, const tci_json *message, tc_err *err)
{
    const tci_json *sections = tci_json_get(message, TC_STR("sections"));
    if (sections == NULL || sections->kind != TCI_JSON_OBJECT)
        return 0;
    for (uint32_t i = 0; i < sections->count; i++) {
        const tci_json_member *m = &sections->u.members[i];
        tc_str text;
        if (!tci_json_as_str(&m->value, &text))
            drop_section(s, m->key);
        else if (set_section(s, m->key, text, err) < 0)
            return err->code;
    }
    return 0;
}

static void drop_tool(tci_transcript *t, tc_str name)
{
    size_t n = 0;
    for (size_t i = 0; i < t->ntools; i++) {
        if (!tci_str_eq(tci_json_str_member(t->tools[i], "name"), name))
            t->tools[n++] = t->tools[i];
    }
    t->ntools = n;
}

static int replay_tools(tci_transcript *t, size_t *cap, tci_arena *arena, const tci_json *message,
                        tc_err *err)
{
    const tci_json *removed = tci_json_get(message, TC_STR("toolsRemoved"));
    for (uint32_t i = 0; removed != NULL && removed->kind == TCI_JSON_ARRAY && i < removed->count;
         i++)
        drop_tool(t, tci_json_str_member(&removed->u.items[i], "name"));
    const tci_json *added = tci_json_get(message, TC_STR("toolsAdded"));
    for (uint32_t i = 0; added != NULL && added->kind == TCI_JSON_ARRAY && i < added->count; i++) {
        drop_tool(t, tci_json_str_member(&added->u.items[i], "name"));
        if (room(arena, t->tools, t->ntools, cap, sizeof *t->tools, &t->tools, err) < 0)
            return err->code;
        t->tools[t->ntools++] = &added->u.items[i];
    }
    return 0;
}

static void join(tci_buf *b, tc_str text)
{
    if (text.len == 0)
        return;
    if (b->len > 0)
        tci_buf_append_str(b, TC_STR("\n\n"));
    tci_buf_append_str(b, text);
}

static int system_text(system_state *s, tci_transcript *t, tc_err *err)
{
    for (size_t i = 0; i < s->nsections; i++)
        join(&s->contents, s->sections[i].text);
    if (tci_buf_error(&s->contents, err) < 0)
        return err->code;
    return tci_arena_dup(s->arena, tci_buf_str(&s->contents), &t->system, err);
}

/* ---- the rest ---- */

static bool is_left_out(const tci_json *message)
{
    tc_str stop = tci_json_str_member(message, "stopReason");
    return tci_str_eq(tci_role_of(message), TC_STR("assistant")) &&
           (tci_str_eq(stop, TC_STR("error")) || tci_str_eq(stop, TC_STR("aborted")));
}

static bool has_call(const tci_json *message)
{
    const tci_json *content = tci_json_get(message, TC_STR("content"));
    for (uint32_t i = 0; content != NULL && content->kind == TCI_JSON_ARRAY && i < content->count;
         i++) {
        if (tci_is_type(&content->u.items[i], "toolCall"))
            return true;
    }
    return false;
}

static int replay(const tc_message *messages, size_t nmessages, system_state *s, tci_transcript *t,
                  tc_err *err)
{
    size_t tools_cap = 0;
    tci_json *values = tci_arena_items(s->arena, tci_json, nmessages + 1);
    if (values == NULL)
        return tci_arena_error(s->arena, err);
    for (size_t i = 0; i < nmessages; i++) {
        tci_json *m = &values[i];
        if (tci_json_parse(messages[i].json, TCI_JSON_DURABLE, s->arena, m, err) < 0)
            return tc_err_wrap(err, "message %zu", i);
        if (messages[i].role == TC_ROLE_SYSTEM) {
            join(&s->contents, tci_json_str_member(m, "content"));
            if (replay_sections(s, m, err) < 0 || replay_tools(t, &tools_cap, s->arena, m, err) < 0)
                return err->code;
        } else if (!is_left_out(m)) {
            t->messages[t->nmessages++] = m;
            t->has_calls = t->has_calls || has_call(m);
        }
    }
    return system_text(s, t, err);
}

int tci_transcript_of(const tc_message *messages, size_t nmessages, tci_arena *arena,
                      tci_transcript *ret, tc_err *err)
{
    tci_transcript t = {.messages = tci_arena_items(arena, const tci_json *, nmessages + 1)};
    if (t.messages == NULL)
        return tci_arena_error(arena, err);
    system_state s = {.arena = arena};
    tci_buf_init(&s.contents, TCI_BUF_MAX);
    int rc = replay(messages, nmessages, &s, &t, err);
    tci_buf_done(&s.contents);
    if (rc == 0)
        *ret = t;
    return rc;
}
