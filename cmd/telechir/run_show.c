/* SPDX-License-Identifier: Apache-2.0
 *
 * What an agent does, shown as it happens: the answer's text on standard output, a line for each tool call
 * on standard error, or every event as JSON. Leaves when to stop to run.c. The main thread. Invariants:
 * every byte of an answer is printed once, whether it came in pieces or whole; what goes into a file or a
 * pipe is text of answers that were not given up, and so comes an answer at a time; a person at a terminal sees it
 * as it comes, and is told when it is asked for again. */
#include "agent.h"

#include "base/num.h"
#include "plat/clock.h"
#include "plat/fd.h"
#include <stdio.h>

enum { FD_OUT = 1, SURROGATE_BYTES = 3 };

/* What is said of a call: kept from its start to its end. */
typedef struct call {
    tc_str name, arguments;
} call;

int show_init(show *s, const agent *a)
{
    uint64_t seed = 0;
    *s = (show){.c = a->c, .a = a};
    s->is_streaming = tci_fd_is_terminal(FD_OUT) && !a->c->is_quiet;
    tci_buf_init(&s->failure, TCI_BUF_MAX);
    tci_arena_init(&s->arena, 0);
    tci_map_init(&s->calls, seed);
    return 0;
}

void show_done(show *s)
{
    tci_map_done(&s->calls);
    tci_buf_done(&s->failure);
    tci_arena_done(&s->arena);
}

static int print_plain(show *s, tc_str text)
{
    tci_buf b;
    if (text.len == 0)
        return 0;
    s->is_line_open = text.ptr[text.len - 1] != '\n';
    tci_buf_init(&b, TCI_BUF_MAX);
    cli_put_text(&b, text);
    int rc = tci_buf_error(&b, &s->c->err);
    if (rc == 0 && !cli_out(s->c, tci_buf_str(&b)))
        rc = s->c->err.code;
    tci_buf_done(&b);
    return rc;
}

/* The first half of a pair of surrogates, at the end of what came so far. */
static bool ends_in_half(tc_str text)
{
    tc_str end = tci_str_sub(text, text.len - tci_min_size(text.len, SURROGATE_BYTES), SIZE_MAX);
    return end.len == SURROGATE_BYTES && (unsigned char)end.ptr[0] == 0xed &&
           (unsigned char)end.ptr[1] >= 0xa0 && (unsigned char)end.ptr[1] < 0xb0;
}

/* Pieces may end between the halves of a character: the first one waits for the other. */
static int print(show *s, tc_str text)
{
    tci_buf whole;
    if (text.len == 0)
        return 0;
    tci_buf_init(&whole, TCI_BUF_MAX);
    tci_buf_append(&whole, s->half, s->nhalf);
    tci_buf_append_str(&whole, text);
    int rc = tci_buf_error(&whole, &s->c->err);
    s->nhalf = rc == 0 && ends_in_half(tci_buf_str(&whole)) ? SURROGATE_BYTES : 0;
    if (s->nhalf > 0)
        memcpy(s->half, whole.ptr + whole.len - s->nhalf, s->nhalf);
    if (rc == 0)
        rc = print_plain(s, tci_str_of(whole.ptr, whole.len - s->nhalf));
    tci_buf_done(&whole);
    return rc;
}

int show_end(show *s)
{
    size_t nhalf = s->nhalf; /* it stays alone */
    s->nhalf = 0;
    if (nhalf > 0 && print_plain(s, tci_str_of(s->half, nhalf)) < 0)
        return s->c->err.code;
    return s->is_line_open ? print_plain(s, TC_STR("\n")) : 0;
}

/* ---- the answer ---- */

/* Text of a message beyond what was printed of it. */
static int print_rest(show *s, const tc_json *message)
{
    const tc_json *content = tc_json_get(message, TC_STR("content"));
    size_t before = 0;
    for (size_t i = 0; i < tc_json_count(content); i++) {
        const tc_json *block = tc_json_item(content, i);
        if (!tci_str_eq(tci_json_str_member(block, "type"), TC_STR("text")))
            continue;
        tc_str text = tci_json_str_member(block, "text");
        size_t skip = s->nshown > before ? s->nshown - before : 0;
        before += text.len;
        if (skip >= text.len)
            continue;
        if (print(s, tci_str_sub(text, skip, text.len)) < 0)
            return s->c->err.code;
        s->nshown = before;
    }
    return 0;
}

static int on_update(show *s, const tc_json *event)
{
    if (!s->is_streaming)
        return 0;
    const tc_json *changes = tc_json_get(event, TC_STR("changes"));
    for (size_t i = 0; i < tc_json_count(changes); i++) {
        const tc_json *change = tc_json_item(changes, i);
        tc_str type = tci_json_str_member(change, "type"), text = {NULL, 0};
        if (tci_str_eq(type, TC_STR("text_delta")))
            text = tci_json_str_member(change, "delta");
        else if (tci_str_eq(type, TC_STR("text_start")))
            text = tci_json_str_member(tc_json_get(change, TC_STR("block")), "text");
        s->nshown += text.len;
        if (print(s, text) < 0)
            return s->c->err.code;
    }
    return 0;
}

static const tc_json *message_of(const tc_json *event)
{
    const tc_json *message = tc_json_get(event, TC_STR("message"));
    return message != NULL ? message : tc_json_find(event, "/entry/model/0");
}

static bool is_answer(const tc_json *message)
{
    return tci_str_eq(tci_json_str_member(message, "role"), TC_STR("assistant"));
}

static int on_message_start(show *s, const tc_json *event)
{
    const tc_json *message = message_of(event);
    if (!is_answer(message))
        return 0;
    s->nshown = 0;
    tci_buf_clear(&s->failure);
    return s->is_streaming ? print_rest(s, message) : 0;
}

static uint64_t id_of(const tc_json *record, const char *key)
{
    int64_t id = 0;
    (void)tc_json_as_i64(tc_json_get(record, tci_str(key)), &id);
    return id > 0 ? (uint64_t)id : 0;
}

static void note_entry(show *s, const tc_json *entry)
{
    uint64_t id = id_of(entry, "id");
    s->last = id > s->last ? id : s->last;
}

static size_t ncalls_of(const tc_json *message)
{
    const tc_json *content = tc_json_get(message, TC_STR("content"));
    size_t n = 0;
    for (size_t i = 0; i < tc_json_count(content); i++)
        n += tci_str_eq(tci_json_str_member(tc_json_item(content, i), "type"), TC_STR("toolCall"))
                 ? 1
                 : 0;
    return n;
}

/* It failed, or was ended: what there is of it is no answer. */
static bool is_given_up(const tc_json *message)
{
    tc_str stop = tci_json_str_member(message, "stopReason");
    return tci_str_eq(stop, TC_STR("error")) || tci_str_eq(stop, TC_STR("aborted"));
}

/* The whole answer, or what is not yet shown of it. Its text on a terminal is followed by what became of it. */
static int print_answer(show *s, const tc_json *message)
{
    size_t nshown = 0;
    if (s->is_streaming || !is_given_up(message)) {
        if (print_rest(s, message) < 0 || show_end(s) < 0)
            return s->c->err.code;
        nshown = s->nshown;
    }
    s->nshown = 0;
    if (!tci_str_eq(tci_json_str_member(message, "stopReason"), TC_STR("error")))
        return 0;
    tc_str why = cli_plain(&s->arena, tci_json_str_member(message, "errorMessage"));
    const char *what = nshown > 0 ? "the answer above broke off" : "the model failed";
    if (s->retry_at_ms != 0) {
        tci_instant now = tci_clock_now();
        int64_t left = s->retry_at_ms - now.sec * 1000 - now.nsec / 1000000;
        cli_say(s->c, "%s: %.*s; asking again in %lld s, from the start", what, TC_STR_ARG(why),
                left > 0 ? (long long)(left + 999) / 1000 : 0);
        s->retry_at_ms = 0;
        return 0;
    }
    tci_buf_clear(&s->failure); /* told at the end, once */
    tci_buf_append_str(&s->failure, why);
    return 0;
}

static int on_message_end(show *s, const tc_json *event)
{
    const tc_json *message = message_of(event);
    note_entry(s, tc_json_get(event, TC_STR("entry")));
    if (!is_answer(message))
        return 0;
    if (print_answer(s, message) < 0)
        return s->c->err.code;
    tc_str stop = tci_json_str_member(message, "stopReason");
    if (tci_str_eq(stop, TC_STR("length")))
        cli_say(s->c, "the answer was cut at its maximum length");
    size_t ncalls = ncalls_of(message);
    if (ncalls > 0 && !tci_str_eq(stop, TC_STR("toolUse")))
        cli_say(s->c, "%zu tool call%s of this answer %s not run: it was not whole", ncalls,
                ncalls == 1 ? "" : "s", ncalls == 1 ? "was" : "were");
    return 0;
}

/* ---- tools ---- */

/* The arguments of a call in one line: the value of the first member that is text, else JSON. */
static int short_arguments(show *s, const tc_json *args, tc_str *ret)
{
    enum { SHOWN = 100 };
    tc_str text = {NULL, 0}, key;
    tc_err *err = &s->c->err;
    bool is_text = false;
    for (size_t i = 0; !is_text && i < tc_json_count(args); i++)
        is_text = tc_json_as_str(tc_json_member(args, i, &key), &text);
    if (!is_text && tc_json_text(args, s->c->result, &text, err) < 0)
        return err->code;
    bool is_long = text.len > SHOWN || tci_str_find_byte(text, '\n') < text.len;
    text = tci_str_sub(text, 0, tci_str_find_byte(text, '\n'));
    while (text.len > SHOWN || (text.len > 0 && is_long && text.len == SHOWN &&
                                ((unsigned char)text.ptr[text.len - 1] & 0x80) != 0))
        text.len--;
    text = cli_plain(&s->arena, text);
    return tci_arena_printf(&s->arena, ret, err, "%.*s%s", TC_STR_ARG(text), is_long ? "..." : "");
}

static int note_call(show *s, tc_str call_id, tc_str name, const tc_json *args, call **ret)
{
    call *k = tci_arena_new(&s->arena, call);
    tc_str id;
    tc_err *err = &s->c->err;
    if (k == NULL)
        return tci_arena_error(&s->arena, err);
    if (tci_arena_dup(&s->arena, call_id, &id, err) < 0 ||
        short_arguments(s, args, &k->arguments) < 0)
        return err->code;
    k->name = cli_plain(&s->arena, name);
    (void)tci_map_remove(&s->calls, id); /* ids may come again */
    if (ret != NULL)
        *ret = k;
    return tci_map_put(&s->calls, id, k, err);
}

static int on_tool_start(show *s, const tc_json *event)
{
    call *k;
    if (note_call(s, tci_json_str_member(event, "toolCallId"),
                  tci_json_str_member(event, "toolName"), tc_json_get(event, TC_STR("args")),
                  &k) < 0)
        return s->c->err.code;
    cli_detail(s->c, "%.*s %.*s ...", TC_STR_ARG(k->name), TC_STR_ARG(k->arguments));
    return 0;
}

/* The first line of what went wrong, or its beginning. */
static tc_str reason_of(const tc_json *result)
{
    enum { SHOWN = 300 };
    const tc_json *content = tc_json_get(result, TC_STR("content"));
    for (size_t i = tc_json_count(content); i > 0; i--) {
        tc_str text = tci_json_str_member(tc_json_item(content, i - 1), "text"), line;
        while (tci_str_split(&text, '\n', &line)) {
            if (tci_str_starts(line, TC_STR("[error] ")))
                return tci_str_sub(line, 8, SHOWN);
        }
    }
    return TC_STR("failed");
}

bool agent_was_cut(const tc_json *entry)
{
    static const char *const codes[] = {"interrupted", "restart_limit"};
    const tc_json *list = tc_json_find(entry, "/data/diagnostics");
    for (size_t i = 0; i < tc_json_count(list); i++) {
        for (size_t k = 0; k < TCI_ARRAY_LEN(codes); k++) {
            if (tci_str_eq(tci_json_str_member(tc_json_item(list, i), "code"), tci_str(codes[k])))
                return true;
        }
    }
    return false;
}

/* What the device knows of the changes that a call made before it was cut off, and where output is that was
 * too long to be kept whole: nobody but the target's owner removes it (docs/sessions.md). */
static void say_remarks(show *s, const tc_json *entry, tc_str on)
{
    const tc_json *list = tc_json_find(entry, "/data/diagnostics");
    for (size_t i = 0; i < tc_json_count(list); i++) {
        const tc_json *item = tc_json_item(list, i);
        tc_str code = tci_json_str_member(item, "code"),
               message = cli_plain(&s->arena, tci_json_str_member(item, "message"));
        if (tci_str_eq(code, TC_STR("operation")))
            cli_say(s->c, "  %.*s", TC_STR_ARG(message));
        else if (tci_str_eq(code, TC_STR("full_output")))
            cli_say(s->c, "  %.*s (on %.*s, where it stays until it is removed)",
                    TC_STR_ARG(message), TC_STR_ARG(on));
    }
}

/* One line when a call has ended: what it was, where, how long, and what came of it. */
static int show_result(show *s, const tc_json *entry)
{
    const tc_json *result = tc_json_find(entry, "/model/0");
    const call *k = tci_map_get(&s->calls, tci_json_str_member(result, "toolCallId"));
    bool is_error = false, was_cut = agent_was_cut(entry);
    int64_t ms = -1;
    char took[32] = "";
    tc_str name =
               k != NULL ? k->name : cli_plain(&s->arena, tci_json_str_member(result, "toolName")),
           on = s->a->on;
    (void)tc_json_as_bool(tc_json_get(result, TC_STR("isError")), &is_error);
    if (tc_json_as_i64(tc_json_get(result, TC_STR("durationMs")), &ms))
        (void)snprintf(took, sizeof took, ", %lld.%lld s", (long long)ms / 1000,
                       (long long)ms % 1000 / 100);
    if (was_cut && agent_place(s->a->memory, id_of(entry, "byTaskId")).len > 0)
        on = agent_place(s->a->memory, id_of(entry, "byTaskId"));
    if (show_end(s) < 0)
        return s->c->err.code;
    tc_str word = was_cut    ? TC_STR("interrupted, may have partly run")
                  : is_error ? cli_plain(&s->arena, reason_of(result))
                             : TC_STR("ok");
    cli_say(s->c, "%.*s%s%.*s  [%.*s%s: %.*s]", TC_STR_ARG(name), k != NULL ? " " : "",
            k != NULL ? (int)k->arguments.len : 0, k != NULL ? k->arguments.ptr : "",
            TC_STR_ARG(on), took, TC_STR_ARG(word));
    say_remarks(s, entry, on);
    return 0;
}

static int on_tool_end(show *s, const tc_json *event)
{
    const tc_json *entry = tc_json_get(event, TC_STR("entry"));
    return entry != NULL ? show_result(s, entry) : 0;
}

/* ---- a snapshot: at first, and instead of events that came too fast ---- */

static int note_calls(show *s, const tc_json *message)
{
    const tc_json *content = tc_json_get(message, TC_STR("content"));
    for (size_t i = 0; i < tc_json_count(content); i++) {
        const tc_json *block = tc_json_item(content, i);
        if (tci_str_eq(tci_json_str_member(block, "type"), TC_STR("toolCall")) &&
            note_call(s, tci_json_str_member(block, "id"), tci_json_str_member(block, "name"),
                      tc_json_get(block, TC_STR("arguments")), NULL) < 0)
            return s->c->err.code;
    }
    return 0;
}

/* An entry that no event told of. */
static int show_missed(show *s, const tc_json *entry)
{
    const tc_json *message = tc_json_find(entry, "/model/0");
    if (tci_str_eq(tci_json_str_member(message, "role"), TC_STR("toolResult")))
        return show_result(s, entry);
    if (!is_answer(message))
        return 0;
    s->nturns++;
    return note_calls(s, message) < 0 ? s->c->err.code : print_answer(s, message);
}

static int on_snapshot(show *s, const tc_json *event)
{
    const tc_json *entries = tc_json_get(event, TC_STR("entries")), *answer = NULL;
    for (size_t i = 0; i < tc_json_count(entries); i++) {
        const tc_json *entry = tc_json_item(entries, i);
        if (is_answer(tc_json_find(entry, "/model/0")))
            answer = tc_json_find(entry, "/model/0");
        if (s->is_begun && id_of(entry, "id") > s->last && show_missed(s, entry) < 0)
            return s->c->err.code;
        note_entry(s, entry);
    }
    /* Calls under way belong to the last answer. */
    if (!s->is_begun && answer != NULL && note_calls(s, answer) < 0)
        return s->c->err.code;
    const tc_json *tools = tc_json_get(event, TC_STR("tools"));
    for (size_t i = 0; !s->is_begun && i < tc_json_count(tools); i++) {
        const tc_json *tool = tc_json_item(tools, i);
        const call *k = tci_map_get(&s->calls, tci_json_str_member(tool, "callId"));
        if (k != NULL && tci_str_eq(tci_json_str_member(tool, "status"), TC_STR("running")))
            cli_say(s->c, "%.*s %.*s was under way when the session was left", TC_STR_ARG(k->name),
                    TC_STR_ARG(k->arguments));
    }
    s->is_begun = true;
    return 0;
}

/* ---- the rest ---- */

static int on_turn_start(show *s, const tc_json *event)
{
    TCI_UNUSED(event);
    s->nturns++;
    return 0;
}

static int on_retry(show *s, const tc_json *event)
{
    /* The message that failed comes next, and is told with it. */
    (void)tc_json_as_i64(tc_json_get(event, TC_STR("at")), &s->retry_at_ms);
    return 0;
}

static int on_compaction(show *s, const tc_json *event)
{
    cli_say(s->c, "summarising what is old (%.*s)",
            TC_STR_ARG(tci_json_str_member(event, "reason")));
    return 0;
}

/* A prompt that was settled: what the command is about when none was given. */
static int on_submission(show *s, const tc_json *event)
{
    const tc_json *record = tc_json_get(event, TC_STR("record"));
    tc_str status = tci_json_str_member(record, "status");
    if (tci_str_eq(tci_json_str_member(record, "type"), TC_STR("input")) &&
        (tci_str_eq(status, TC_STR("done")) || tci_str_eq(status, TC_STR("unanswered"))))
        s->settled = id_of(record, "id");
    return 0;
}

static int on_task_failed(show *s, const tc_json *event)
{
    cli_say(s->c, "task %.*s failed: %.*s",
            TC_STR_ARG(cli_plain(&s->arena, tci_json_str_member(event, "kind"))),
            TC_STR_ARG(cli_plain(&s->arena, tci_json_str_member(event, "message"))));
    return 0;
}

static const struct {
    const char *type;
    int (*show)(show *s, const tc_json *event);
} shown[] = {
    {"snapshot", on_snapshot},
    {"message_start", on_message_start},
    {"message_update", on_update},
    {"message_end", on_message_end},
    {"tool_execution_start", on_tool_start},
    {"tool_execution_end", on_tool_end},
    {"turn_start", on_turn_start},
    {"auto_retry_start", on_retry},
    {"compaction_start", on_compaction},
    {"task_failed", on_task_failed},
    {"submission", on_submission},
};

static int show_event(show *s, const tc_json *event)
{
    tc_str type = tci_json_str_member(event, "type");
    if (s->c->is_json) {
        tci_buf line;
        tci_buf_init(&line, TCI_BUF_MAX);
        tci_json_put(&line, event, TCI_JSON_AS_IS);
        bool ok = cli_out_json(s->c, &line);
        tci_buf_done(&line);
        if (tci_str_eq(type, TC_STR("turn_start")))
            s->nturns++;
        else if (tci_str_eq(type, TC_STR("submission")))
            (void)on_submission(s, event); /* never fails */
        return ok ? 0 : s->c->err.code;
    }
    for (size_t i = 0; i < TCI_ARRAY_LEN(shown); i++) {
        if (tci_str_eq(type, tci_str(shown[i].type)))
            return shown[i].show(s, event);
    }
    return 0;
}

int show_frame(show *s, tc_str events)
{
    const tc_json *list;
    tc_result_clear(s->c->result);
    if (tc_json_parse(s->c->result, events, &list, &s->c->err) < 0)
        return s->c->err.code;
    for (size_t i = 0; i < tc_json_count(list); i++) {
        if (show_event(s, tc_json_item(list, i)) < 0)
            return s->c->err.code;
    }
    return 0;
}
