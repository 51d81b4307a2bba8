/* SPDX-License-Identifier: Apache-2.0
 *
 * Events of an answer while it comes: what its changes in "pi.live" say. Leaves its end to events.c. On
 * the line. Invariant: the cost is that of what changed, unless the message was replaced. */
#include "base/json.h"
#include "harness/events.h"

bool tci_event_path_is(const tci_json *path, const char *const *keys, const size_t *index,
                       size_t nsteps)
{
    for (size_t i = 0; i < nsteps && i < tci_event_count(path); i++) {
        tc_str key;
        uint64_t at;
        const tci_json *step = &path->u.items[i];
        if (keys[i] != NULL ? !tci_json_as_str(step, &key) || !tci_str_eq(key, tci_str(keys[i]))
                            : !tci_json_as_u64(step, &at) || at != *index)
            return false;
    }
    return true;
}

/* What one operation does to the message. */
typedef enum effect {
    EFFECT_NONE,
    EFFECT_WHOLE, /* it was replaced, or changed in a way that has no event of its own */
    EFFECT_BEGUN, /* new blocks */
    EFFECT_TEXT,
    EFFECT_ARGUMENTS,
    EFFECT_BLOCK
} effect;

typedef struct change {
    effect effect;
    const tci_json *op, *path;
    uint64_t index;   /* of the block */
    const char *kind; /* "text_delta", "thinking_delta" */
} change;

static bool step_is(const tci_json *path, size_t i, const char *key)
{
    tc_str text;
    return i < path->count && tci_json_as_str(&path->u.items[i], &text) &&
           tci_str_eq(text, tci_str(key));
}

static bool verb_is(const tci_json *op, const char *verb)
{
    tc_str text;
    return tci_json_as_str(&op->u.items[0], &text) && tci_str_eq(text, tci_str(verb));
}

/* Below generation.message.content[index]. */
static effect effect_on_block(change *c)
{
    bool is_append = verb_is(c->op, "a");
    if (!tci_json_as_u64(&c->path->u.items[3], &c->index))
        return EFFECT_WHOLE;
    if (is_append && c->path->count == 5 && step_is(c->path, 4, "text")) {
        c->kind = "text_delta";
        return EFFECT_TEXT;
    }
    if (is_append && c->path->count == 5 && step_is(c->path, 4, "thinking")) {
        c->kind = "thinking_delta";
        return EFFECT_TEXT;
    }
    return is_append && step_is(c->path, 4, "arguments") ? EFFECT_ARGUMENTS : EFFECT_BLOCK;
}

static change change_of(const tci_json *op)
{
    static const char *const message[] = {"generation", "message"};
    change c = {.effect = EFFECT_NONE, .op = op};
    if (tci_event_count(op) < 2)
        return c;
    c.path = &op->u.items[1];
    if (verb_is(op, "r")) {
        c.effect = EFFECT_WHOLE;
        return c;
    }
    if (!tci_event_path_is(c.path, message, NULL, 2))
        return c;
    if (c.path->count <= 2 || (!step_is(c.path, 2, "usage") && !step_is(c.path, 2, "content")))
        c.effect = EFFECT_WHOLE;
    else if (step_is(c.path, 2, "content") && c.path->count == 3)
        c.effect = verb_is(op, "p") && op->count == 5 && op->u.items[3].kind == TCI_JSON_NUMBER &&
                           tci_str_eq(op->u.items[3].u.text, TC_STR("0"))
                       ? EFFECT_BEGUN
                       : EFFECT_WHOLE;
    else if (step_is(c.path, 2, "content"))
        c.effect = effect_on_block(&c);
    else
        c.effect = EFFECT_NONE; /* usage: told in any case */
    return c;
}

static void begin_change(tci_buf *b, const char *type)
{
    tci_buf_printf(b, "%s{\"type\":\"%s\"", b->len > 1 ? "," : "", type);
}

static void put_begun(tci_buf *b, const change *c)
{
    uint64_t at = 0;
    const tci_json *items = &c->op->u.items[4];
    (void)tci_json_as_u64(&c->op->u.items[2], &at); /* an index */
    for (size_t i = 0; i < tci_event_count(items); i++) {
        const tci_json *block = &items->u.items[i];
        begin_change(b, tci_event_is(block, "type", "text")       ? "text_start"
                        : tci_event_is(block, "type", "thinking") ? "thinking_start"
                                                                  : "toolcall_start");
        tci_buf_printf(b, ",\"contentIndex\":%llu,\"block\":", (unsigned long long)(at + i));
        tci_json_put(b, block, TCI_JSON_AS_IS);
        tci_buf_append_byte(b, '}');
    }
}

static void put_arguments(tci_buf *b, const change *c)
{
    begin_change(b, "toolcall_delta");
    tci_buf_printf(b, ",\"contentIndex\":%llu,\"path\":[", (unsigned long long)c->index);
    for (uint32_t i = 5; i < c->path->count; i++) {
        if (i > 5)
            tci_buf_append_byte(b, ',');
        tci_json_put(b, &c->path->u.items[i], TCI_JSON_AS_IS);
    }
    tci_buf_append_str(b, TC_STR("],\"delta\":"));
    tci_json_put(b, &c->op->u.items[2], TCI_JSON_AS_IS);
    tci_buf_append_byte(b, '}');
}

/* A block given whole holds what comes later in the same commit too. */
static bool is_given(const tci_json *ops, size_t before, uint64_t index)
{
    for (size_t i = 0; i < before; i++) {
        change c = change_of(&ops->u.items[i]);
        if (c.effect == EFFECT_BLOCK && c.index == index)
            return true;
    }
    return false;
}

static void put_change(tci_buf *b, const change *c, const tci_json *message)
{
    const tci_json *content = tci_json_get(message, TC_STR("content"));
    switch (c->effect) {
    case EFFECT_NONE:
    case EFFECT_WHOLE:
        break;
    case EFFECT_BEGUN:
        put_begun(b, c);
        break;
    case EFFECT_TEXT:
        begin_change(b, c->kind);
        tci_buf_printf(b, ",\"contentIndex\":%llu,\"delta\":", (unsigned long long)c->index);
        tci_json_put(b, &c->op->u.items[2], TCI_JSON_AS_IS);
        tci_buf_append_byte(b, '}');
        break;
    case EFFECT_ARGUMENTS:
        put_arguments(b, c);
        break;
    case EFFECT_BLOCK:
        if (c->index >= tci_event_count(content))
            break;
        begin_change(b, "block");
        tci_buf_printf(b, ",\"contentIndex\":%llu,\"block\":", (unsigned long long)c->index);
        tci_json_put(b, &content->u.items[c->index], TCI_JSON_AS_IS);
        tci_buf_append_byte(b, '}');
        break;
    }
}

static void put_changes(tci_buf *b, const tci_json *ops, const tci_json *message)
{
    bool is_whole = false;
    for (size_t i = 0; i < tci_event_count(ops); i++)
        is_whole = is_whole || change_of(&ops->u.items[i]).effect == EFFECT_WHOLE;
    tci_buf_append_byte(b, '[');
    if (is_whole) {
        tci_buf_append_str(b, TC_STR("{\"type\":\"message\",\"message\":"));
        tci_json_put(b, message, TCI_JSON_AS_IS);
        tci_buf_append_byte(b, '}');
    }
    for (size_t i = 0; !is_whole && i < tci_event_count(ops); i++) {
        change c = change_of(&ops->u.items[i]);
        bool is_block =
            c.effect == EFFECT_TEXT || c.effect == EFFECT_ARGUMENTS || c.effect == EFFECT_BLOCK;
        if (!is_block || !is_given(ops, i, c.index))
            put_change(b, &c, message);
    }
    tci_buf_append_byte(b, ']');
}

static bool touches_message(const tci_json *ops)
{
    static const char *const message[] = {"generation", "message"};
    for (size_t i = 0; i < tci_event_count(ops); i++) {
        const tci_json *op = &ops->u.items[i];
        if (tci_event_count(op) >= 2 &&
            (verb_is(op, "r") || tci_event_path_is(&op->u.items[1], message, NULL, 2)))
            return true;
    }
    return false;
}

int tci_events_put_partial(tci_events *e, tc_err *err)
{
    const tci_json *message =
        tci_json_get(tci_json_get(e->live, TC_STR("generation")), TC_STR("message"));
    const tci_json *usage = tci_json_get(message, TC_STR("usage"));
    if (message == NULL || (e->was->has_message && !touches_message(e->ops)))
        return 0;
    if (!e->was->has_message) {
        tci_event_begin(e, "message_start");
        tci_event_value(e, "message", message);
        tci_event_end(e);
        return 0;
    }
    tci_buf changes;
    tci_buf_init(&changes, TCI_BUF_MAX);
    put_changes(&changes, e->ops, message);
    int rc = tci_buf_error(&changes, err);
    bool first = tci_event_begin(e, "message_update");
    if (usage != NULL)
        tci_event_value(e, "usage", usage);
    else
        tci_put_raw_member(e->out, &first, TC_STR("usage"), TC_STR("{}"));
    tci_put_raw_member(e->out, &first, TC_STR("changes"), tci_buf_str(&changes));
    tci_event_end(e);
    tci_buf_done(&changes);
    return rc;
}
