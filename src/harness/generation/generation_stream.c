/* SPDX-License-Identifier: Apache-2.0
 *
 * Asks a model and shows its answer while it comes: what arrived is committed into "pi.live" at most
 * once an interval, as the text that is new. Leaves what the answer means to generation_classify.c.
 * On the task's thread; a program with timers of its own has it shown by one of the pool's. Invariant: a commit costs what came since the last one, at any length of the
 * answer; what is shown is always a prefix of what came. */
#include "base/json.h"
#include "harness/generation/generation.h"
#include "plat/clock.h"
#include <stdio.h>

/* Of a content block: how much of its text is shown. */
typedef struct block {
    size_t shown;
    bool is_thinking, is_changed; /* is_changed: otherwise than by more text */
} block;

enum { MEMBERS_MAX = 8, MEMBER_NAME_MAX = 31 };

typedef struct stream {
    tci_generation *g;
    tci_tree message; /* so far */
    block *blocks;
    size_t nblocks, blocks_cap, nshown; /* nshown: blocks in the document */
    tci_arena arena;                    /* texts of events that are put into the tree */
    /* Members that changed since; more than fit: all of the message is written. */
    char members[MEMBERS_MAX][MEMBER_NAME_MAX + 1];
    size_t nmembers;
    bool has_message, is_shown, is_waiting, has_failed;
    int64_t due_ns;
    tc_err failure;
    bool is_timed; /* shown by later; then lock guards the rest */
    tci_later later;
    tci_mutex lock;
} stream;

/* ---- the message so far ---- */

static const tci_step *content_path(tci_step path[3], size_t index, const char *member)
{
    path[0] = (tci_step){.key = TC_STR("content")};
    path[1] = (tci_step){.is_index = true, .index = index};
    path[2] = (tci_step){.key = tci_str(member)};
    return path;
}

static const char *text_member(const block *b)
{
    return b->is_thinking ? "thinking" : "text";
}

static int parse(stream *s, tc_str json, tci_json *ret, tc_err *err)
{
    tci_arena_clear(&s->arena); /* the tree has its own copies */
    return tci_json_parse(json, TCI_JSON_DURABLE, &s->arena, ret, err);
}

static int take_block(stream *s, const tc_model_event *e, tc_err *err)
{
    tci_json v, list = {.kind = TCI_JSON_ARRAY, .count = 1};
    tci_step path[3];
    tc_str type;
    if (e->index != s->nblocks)
        return tc_err_set(err, TC_E_PROTOCOL, "model: block %zu does not follow", e->index);
    if (parse(s, e->json, &v, err) < 0)
        return err->code;
    list.u.items = &v;
    if (tci_tree_splice(&s->message, content_path(path, 0, ""), 1, s->nblocks, 0, &list, NULL,
                        err) < 0)
        return err->code;
    if (s->nblocks == s->blocks_cap) {
        size_t cap = s->blocks_cap == 0 ? 8 : s->blocks_cap * 2;
        block *grown = tci_mem_resize(s->blocks, cap * sizeof *grown);
        if (grown == NULL)
            return tci_err_no_memory(err);
        s->blocks = grown;
        s->blocks_cap = cap;
    }
    s->blocks[s->nblocks++] =
        (block){.is_thinking = tci_json_as_str(tci_json_get(&v, TC_STR("type")), &type) &&
                               tci_str_eq(type, TC_STR("thinking"))};
    return 0;
}

static int take_text(stream *s, const tc_model_event *e, tc_err *err)
{
    tci_step path[3];
    if (e->index >= s->nblocks)
        return tc_err_set(err, TC_E_PROTOCOL, "model: text of block %zu, which has not begun",
                          e->index);
    return tci_tree_append(&s->message,
                           content_path(path, e->index, text_member(&s->blocks[e->index])), 3,
                           e->text, NULL, err);
}

static int take_block_end(stream *s, const tc_model_event *e, tc_err *err)
{
    tci_json v;
    tci_step path[3];
    if (e->index >= s->nblocks)
        return tc_err_set(err, TC_E_PROTOCOL, "model: end of block %zu, which has not begun",
                          e->index);
    if (parse(s, e->json, &v, err) < 0)
        return err->code;
    content_path(path, e->index, "");
    const tci_json *had = tci_json_at(&s->message.root, path, 2);
    if (had != NULL && tci_json_equal(had, &v))
        return 0;
    s->blocks[e->index].is_changed = true;
    return tci_tree_set(&s->message, path, 2, &v, NULL, err);
}

static void remember_member(stream *s, tc_str key)
{
    for (size_t i = 0; i < s->nmembers && i < MEMBERS_MAX; i++) {
        if (tci_str_eq(tci_str(s->members[i]), key))
            return;
    }
    if (s->nmembers >= MEMBERS_MAX || key.len > MEMBER_NAME_MAX) {
        s->nmembers = MEMBERS_MAX + 1;
        return;
    }
    memcpy(s->members[s->nmembers], key.ptr, key.len);
    s->members[s->nmembers++][key.len] = '\0';
}

static int take_members(stream *s, const tc_model_event *e, tc_err *err)
{
    tci_json v;
    if (parse(s, e->json, &v, err) < 0)
        return err->code;
    for (uint32_t i = 0; v.kind == TCI_JSON_OBJECT && i < v.count; i++) {
        const tci_step path = {.key = v.u.members[i].key};
        if (tci_tree_set(&s->message, &path, 1, &v.u.members[i].value, NULL, err) < 0)
            return err->code;
        remember_member(s, v.u.members[i].key);
    }
    return 0;
}

static int take_start(stream *s, const tc_model_event *e, tc_err *err)
{
    static const tci_json empty = {.kind = TCI_JSON_ARRAY};
    tci_tree begun;
    tci_step path[3];
    if (tci_tree_parse(e->json, TCI_JSON_DURABLE, &begun, err) < 0)
        return err->code;
    tci_tree_done(&s->message);
    s->message = begun;
    s->has_message = true;
    s->nblocks = s->nshown = s->nmembers = 0;
    s->is_shown = false; /* an attempt that begins anew inside one question */
    return tci_tree_set(&s->message, content_path(path, 0, ""), 1, &empty, NULL, err);
}

static void show_later(void *arg);

static int take_event(stream *s, const tc_model_event *e, tc_err *err)
{
    int rc = 0;
    if (s->has_failed) {
        *err = s->failure;
        return err->code;
    }
    if (e->type != TC_MODEL_START && !s->has_message)
        return tc_err_set(err, TC_E_PROTOCOL, "model: an event before the start");
    switch (e->type) {
    case TC_MODEL_START:
        rc = take_start(s, e, err);
        break;
    case TC_MODEL_BLOCK:
        rc = take_block(s, e, err);
        break;
    case TC_MODEL_TEXT:
        rc = take_text(s, e, err);
        break;
    case TC_MODEL_BLOCK_END:
        rc = take_block_end(s, e, err);
        break;
    case TC_MODEL_MESSAGE:
        rc = take_members(s, e, err);
        break;
    }
    if (rc == 0 && s->nblocks > 0 && !s->is_waiting) { /* a message without content is not shown */
        s->is_waiting = true;
        s->due_ns = tci_clock_mono_ns() + s->g->settings.partial_interval_ms * 1000000;
        if (s->is_timed)
            tci_later_set(s->g->h, &s->later, s->due_ns, show_later, s);
    }
    return rc;
}

static int on_event(void *user, const tc_model_event *e, tc_err *err)
{
    stream *s = user;
    if (!s->is_timed)
        return take_event(s, e, err);
    tci_mutex_lock(&s->lock);
    int rc = take_event(s, e, err);
    tci_mutex_unlock(&s->lock);
    return rc;
}

/* ---- showing it ---- */

static const tci_step message_steps[2] = {{.key = {"generation", 10}}, {.key = {"message", 7}}};

/* generation.message.content[index].member; index SIZE_MAX: the content. */
static size_t doc_path(tci_step path[5], size_t index, const char *member)
{
    size_t n = 0;
    path[n++] = message_steps[0];
    path[n++] = message_steps[1];
    path[n++] = (tci_step){.key = TC_STR("content")};
    if (index != SIZE_MAX)
        path[n++] = (tci_step){.is_index = true, .index = index};
    if (member != NULL)
        path[n++] = (tci_step){.key = tci_str(member)};
    return n;
}

static const tci_json *content_of(const stream *s)
{
    return tci_json_get(&s->message.root, TC_STR("content"));
}

static size_t text_len(const stream *s, size_t index)
{
    tc_str text;
    const tci_json *item = &content_of(s)->u.items[index];
    return tci_json_as_str(tci_json_get(item, tci_str(text_member(&s->blocks[index]))), &text)
               ? text.len
               : 0;
}

static int show_block(const stream *s, tc_doc *live, size_t index, tc_err *err)
{
    const block *b = &s->blocks[index];
    const tci_json *item = &content_of(s)->u.items[index];
    tci_step path[5];
    tc_str text;
    if (b->is_changed)
        return tci_doc_set(live, path, doc_path(path, index, NULL), item, err);
    if (!tci_json_as_str(tci_json_get(item, tci_str(text_member(b))), &text) ||
        text.len <= b->shown)
        return 0;
    return tci_doc_append(live, path, doc_path(path, index, text_member(b)),
                          tci_str_sub(text, b->shown, text.len), err);
}

static int show_new_blocks(const stream *s, tc_doc *live, tc_err *err)
{
    const tci_json *content = content_of(s);
    tci_json added = {.kind = TCI_JSON_ARRAY, .count = (uint32_t)(s->nblocks - s->nshown)};
    tci_step path[5];
    if (s->nshown == s->nblocks)
        return 0;
    added.u.items = content->u.items + s->nshown;
    return tci_doc_splice(live, path, doc_path(path, SIZE_MAX, NULL), s->nshown, 0, &added, err);
}

static int show_members(const stream *s, tc_doc *live, tc_err *err)
{
    for (size_t i = 0; i < s->nmembers; i++) {
        tc_str name = tci_str(s->members[i]);
        const tci_step path[3] = {message_steps[0], message_steps[1], {.key = name}};
        const tci_json *value = tci_json_get(&s->message.root, name);
        if (value != NULL && tci_doc_set(live, path, 3, value, err) < 0)
            return err->code;
    }
    return 0;
}

static int show_changes(const stream *s, tc_doc *live, tc_err *err)
{
    for (size_t i = 0; i < s->nshown; i++) {
        if (show_block(s, live, i, err) < 0)
            return err->code;
    }
    if (show_new_blocks(s, live, err) < 0)
        return err->code;
    return show_members(s, live, err);
}

static int show(stream *s, tc_tx *tx, tc_err *err)
{
    tci_generation *g = s->g;
    tc_doc *live;
    if (tci_doc_of(tx, &tci_live_doc, g->conversation, &live, err) < 0)
        return err->code;
    const tci_json *shown = tci_json_get(tc_doc_value(live), TC_STR("generation"));
    if (shown == NULL) {
        char json[48]; /* 20 digits; the task's result is the model's just now */
        (void)snprintf(json, sizeof json, "{\"attempt\":%llu}", (unsigned long long)g->attempt);
        if (tc_doc_set(live, TC_STR("/generation"), tci_str(json), err) < 0)
            return err->code;
    }
    if (s->is_shown && s->nmembers <= MEMBERS_MAX && shown != NULL &&
        tci_json_get(shown, TC_STR("message")) != NULL)
        return show_changes(s, live, err);
    return tci_doc_set(live, message_steps, 2, &s->message.root, err);
}

static void mark_shown(stream *s)
{
    for (size_t i = 0; i < s->nblocks; i++) {
        s->blocks[i].shown = text_len(s, i);
        s->blocks[i].is_changed = false;
    }
    s->nshown = s->nblocks;
    s->nmembers = 0;
    s->is_shown = true;
}

static int commit(stream *s, tc_err *err)
{
    tc_tx *tx;
    if (tc_task_begin(s->g->t, &tx, NULL, err) < 0)
        return err->code;
    if (show(s, tx, err) < 0) {
        tc_tx_rollback(tx);
        return err->code;
    }
    return tci_task_commit_lazy(s->g->t, tx, err);
}

static void show_now(stream *s)
{
    s->is_waiting = false;
    if (commit(s, &s->failure) == 0) {
        mark_shown(s);
    } else if (s->failure.code == TC_E_CANCELLED || s->failure.code == TC_E_CLOSED) {
        s->has_failed = true;
    } else {
        tc_task_report(s->g->t, &s->failure); /* shown whole the next time */
        s->is_shown = false;
    }
}

static int64_t on_tick(void *user)
{
    stream *s = user;
    if (s->is_timed || !s->is_waiting || s->has_failed)
        return -1;
    int64_t left = s->due_ns - tci_clock_mono_ns();
    if (left > 0)
        return left / 1000000 + 1;
    show_now(s);
    return -1;
}

static void show_later(void *arg)
{
    stream *s = arg;
    tci_mutex_lock(&s->lock);
    if (s->is_waiting && !s->has_failed)
        show_now(s);
    tci_mutex_unlock(&s->lock);
}

int tci_generation_ask(tci_generation *g, const tc_model_request *request, tc_str *ret_message,
                       tc_err *err)
{
    stream s = {.g = g, .message = TCI_TREE_NONE};
    const tc_model_sink sink = {on_event, on_tick, &s};
    struct tc_models *models = tci_harness_models(g->h);
    if (models == NULL)
        return tc_err_set(err, TC_E_NOT_FOUND, "no models");
    tci_arena_init(&s.arena, 0);
    tci_mutex_init(&s.lock);
    s.is_timed = tci_harness_options(g->h)->set_timer != NULL;
    int rc = models->ask(models->user, tc_task_ctx(g->t), request, &sink, g->r, ret_message, err);
    tci_later_drop(&s.later);
    tci_mutex_done(&s.lock);
    if (rc == 0 && s.has_failed) {
        *err = s.failure;
        rc = err->code;
    }
    tci_tree_done(&s.message);
    tci_arena_done(&s.arena);
    tci_mem_free(s.blocks);
    return rc;
}
