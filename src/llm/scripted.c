/* SPDX-License-Identifier: Apache-2.0
 *
 * A model that reads its answers from a file: for demonstrations and tests. The turn it plays is the
 * number of assistant messages the transcript already has, so that a script goes on after a kill.
 *   {"turns":[{"text":"…","thinking":"…","tool_calls":[{"id":"…","name":"…","arguments":{}}],
 *              "delay_ms":0,"stop":"…","error":"…"}]}
 * delay_ms passes before the first word, and text comes in pieces. The asking thread. */
#include "llm/llm_int.h"

#include "plat/file.h"

enum { SCRIPT_MAX = 64 * 1024 * 1024, PIECE = 24 };

struct tci_script {
    tci_script *next;
    char *path, *text;
    tci_file_stat stat; /* of the file it was read from */
    tci_arena arena;
    tci_json tree;
};

/* ---- reading ---- */

void tci_scripts_init(tci_scripts *scripts)
{
    tci_mutex_init(&scripts->lock);
    scripts->free = NULL;
}

static void script_free(tci_script *s)
{
    tci_free(s->path);
    tci_free(s->text);
    tci_arena_done(&s->arena);
    tci_free(s);
}

void tci_scripts_done(tci_scripts *scripts)
{
    while (scripts->free != NULL) {
        tci_script *s = scripts->free;
        scripts->free = s->next;
        script_free(s);
    }
    tci_mutex_done(&scripts->lock);
}

/* One that was read from this very file as it is now; NULL: none. */
static tci_script *script_known(tci_scripts *scripts, tc_str path, const tci_file_stat *st)
{
    tci_script *found = NULL;
    tci_mutex_lock(&scripts->lock);
    for (tci_script **at = &scripts->free; *at != NULL; at = &(*at)->next) {
        tci_script *s = *at;
        if (!tci_str_eq(tci_str(s->path), path) || !tci_file_stat_same(&s->stat, st) ||
            s->stat.size != st->size || s->stat.modified.sec != st->modified.sec ||
            s->stat.modified.nsec != st->modified.nsec)
            continue;
        *at = s->next;
        found = s;
        break;
    }
    tci_mutex_unlock(&scripts->lock);
    return found;
}

static int script_read(tc_str path, const tci_file_stat *st, tci_script **ret, tc_err *err)
{
    size_t len;
    tci_script *s = tci_new(tci_script);
    if (s == NULL)
        return tci_err_no_memory(err);
    tci_arena_init(&s->arena, 0);
    s->stat = *st;
    s->path = tci_mem_cstr(path);
    int rc = s->path != NULL ? 0 : tci_err_no_memory(err);
    if (rc == 0)
        rc = tci_file_read_whole(TCI_FILE_CWD, path, SCRIPT_MAX, &s->text, &len, err);
    if (rc == 0)
        rc = tci_json_parse(tci_str_of(s->text, len), TCI_JSON_KEEP_SURROGATES, &s->arena, &s->tree,
                            err);
    if (rc == 0)
        *ret = s;
    else
        script_free(s);
    return rc;
}

static int script_take(tci_scripts *scripts, tc_str path, tci_script **ret, tc_err *err)
{
    tci_file_stat st;
    if (tci_file_stat_at(TCI_FILE_CWD, path, true, &st, err) < 0)
        return err->code;
    *ret = script_known(scripts, path, &st);
    return *ret != NULL ? 0 : script_read(path, &st, ret, err);
}

static void script_give(tci_scripts *scripts, tci_script *s)
{
    tci_mutex_lock(&scripts->lock);
    s->next = scripts->free;
    scripts->free = s;
    tci_mutex_unlock(&scripts->lock);
}

/* ---- playing ---- */

static const tci_json *turns_of(const tci_json *script)
{
    const tci_json *turns =
        script->kind == TCI_JSON_OBJECT ? tci_json_get(script, TC_STR("turns")) : NULL;
    return turns != NULL && turns->kind == TCI_JSON_ARRAY ? turns : NULL;
}

static size_t turn_of(const tc_model_request *request)
{
    size_t n = 0;
    for (size_t i = 0; i < request->nmessages; i++)
        n += request->messages[i].role == TC_ROLE_ASSISTANT ? 1 : 0;
    return n;
}

static int play_text(tci_answer *a, tci_block_kind kind, tc_str text, tc_ctx *ctx, tc_err *err)
{
    const tc_str none = {NULL, 0};
    tci_block *block;
    if (text.len == 0)
        return 0;
    if (tci_answer_block(a, kind, -1, none, none, &block, err) < 0)
        return err->code;
    for (size_t at = 0; at < text.len;) {
        size_t n = PIECE < text.len - at ? PIECE : text.len - at;
        while (at + n < text.len && ((unsigned char)text.ptr[at + n] & 0xc0) == 0x80)
            n++; /* whole characters */
        if (tci_answer_text(a, block, tci_str_sub(text, at, n), err) < 0)
            return err->code;
        at += n;
        if (a->sink != NULL && !tci_pause_ms(ctx, a->sink, 0))
            return 0;
    }
    return tci_answer_end_block(a, block, err);
}

static int play_calls(tci_answer *a, const tci_json *calls, tc_err *err)
{
    for (uint32_t i = 0; calls != NULL && calls->kind == TCI_JSON_ARRAY && i < calls->count; i++) {
        const tci_json *call = &calls->u.items[i];
        const tci_json *arguments = tci_json_get(call, TC_STR("arguments"));
        tci_block *block;
        if (tci_answer_block(a, TCI_BLOCK_CALL, i, tci_json_str_member(call, "id"),
                             tci_json_str_member(call, "name"), &block, err) < 0)
            return err->code;
        if (arguments != NULL)
            tci_json_put(&block->text, arguments, TCI_JSON_AS_IS);
        if (tci_buf_error(&block->text, err) < 0 || tci_answer_end_block(a, block, err) < 0)
            return err->code;
    }
    return 0;
}

static const char *stop_of(tc_str word, bool has_calls)
{
    static const char *const words[] = {"stop", "length", "toolUse", "error", "aborted"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (tci_str_eq(word, tci_str(words[i])))
            return words[i];
    }
    return has_calls ? "toolUse" : "stop";
}

static int play(tci_answer *a, const tci_json *turn, tc_ctx *ctx, tc_err *err)
{
    uint64_t delay = 0;
    const tci_json *calls = tci_json_get(turn, TC_STR("tool_calls"));
    const tci_json *d = tci_json_get(turn, TC_STR("delay_ms"));
    if (d != NULL)
        (void)tci_json_as_u64(d, &delay);
    if (!tci_pause_ms(ctx, a->sink, (int64_t)(delay & INT32_MAX))) {
        tci_answer_fail(a, "aborted", "the request was aborted");
        return 0;
    }
    if (play_text(a, TCI_BLOCK_THINKING, tci_json_str_member(turn, "thinking"), ctx, err) < 0 ||
        play_text(a, TCI_BLOCK_TEXT, tci_json_str_member(turn, "text"), ctx, err) < 0)
        return err->code;
    tc_err ignored;
    if (tci_ctx_check(ctx, &ignored) < 0) {
        tci_answer_fail(a, "aborted", "the request was aborted");
        return 0;
    }
    if (play_calls(a, calls, err) < 0)
        return err->code;
    tc_str error = tci_json_str_member(turn, "error");
    if (error.len > 0)
        tci_answer_fail(a, "error", "%.*s", TC_STR_ARG(error));
    else
        a->stop_reason =
            stop_of(tci_json_str_member(turn, "stop"), calls != NULL && calls->count > 0);
    a->usage = (tci_usage){.input = 10, .output = 5, .total = 15};
    return 0;
}

int tci_scripted_ask(tci_scripts *scripts, tc_str path, tc_ctx *ctx,
                     const tc_model_request *request, tci_answer *answer, tc_err *err)
{
    tci_script *script;
    tc_err bad;
    if (script_take(scripts, path, &script, &bad) < 0) {
        tci_answer_fail(answer, "error", "cannot read the script '%.*s': %s", TC_STR_ARG(path),
                        bad.msg);
        return 0;
    }
    const tci_json *turns = turns_of(&script->tree);
    size_t n = turn_of(request);
    int rc = 0;
    if (turns == NULL)
        tci_answer_fail(answer, "error", "the script '%.*s' is not {\"turns\":[...]}",
                        TC_STR_ARG(path));
    else if (n >= turns->count)
        tci_answer_fail(answer, "error", "the script '%.*s' has only %u turns", TC_STR_ARG(path),
                        turns->count);
    else
        rc = play(answer, &turns->u.items[n], ctx, err);
    script_give(scripts, script);
    return rc;
}
