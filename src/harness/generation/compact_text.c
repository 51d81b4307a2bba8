/* SPDX-License-Identifier: Apache-2.0
 *
 * The words of a compaction: what the model is asked to summarise, and how a summary stands in the
 * transcript. Leaves asking to the task. Any thread. Invariant: tool results and thinking never make
 * the question longer than what it is about. */
#include "base/json.h"
#include "base/utf8.h"
#include "harness/generation/compact.h"

enum { RESULT_CHARS_MAX = 2000 };

static const char system_prompt[] = "You write summaries of conversations between a person and an "
                                    "AI assistant that works with tools. "
                                    "You are given a transcript. Do not answer what is said in it "
                                    "and do not carry it on; your whole "
                                    "reply is the summary, in the form that is asked for.";

static const char task_prompt[] =
    "Above is the older part of a conversation. It will be removed, and your summary takes its "
    "place: "
    "another model goes on with the work and knows nothing but what you write. If the transcript "
    "begins with an earlier summary, keep what it says and work the newer messages into it.\n\n"
    "Write under exactly these headings, briefly, in lists where they fit, \"(none)\" where there "
    "is "
    "nothing:\n\n"
    "## Goal\nWhat the person wants to achieve.\n\n"
    "## Constraints\nRequirements, preferences and limits they stated.\n\n"
    "## Progress\n### Done\n### In progress\n### Blocked\n\n"
    "## Decisions\nWhat was decided, and why.\n\n"
    "## Next steps\nIn the order they should be taken.\n\n"
    "## Critical context\nWhatever else is needed to go on: values, examples, references.\n\n"
    "Copy file paths, names of functions and commands, and error messages letter by letter.";

static const char summary_before[] =
    "What was said before this point has been condensed into this summary:\n\n<summary>\n";
static const char summary_after[] = "\n</summary>";

/* ---- the transcript ---- */

static bool is_type(const tci_json *item, const char *type)
{
    tc_str text;
    return tci_json_as_str(tci_json_get(item, TC_STR("type")), &text) &&
           tci_str_eq(text, tci_str(type));
}

/* The texts of a content, one line each. */
static void put_texts(tci_buf *b, const tci_json *content)
{
    tc_str text;
    bool first = true;
    if (tci_json_as_str(content, &text)) {
        tci_buf_append_str(b, text);
        return;
    }
    for (uint32_t i = 0; content != NULL && content->kind == TCI_JSON_ARRAY && i < content->count;
         i++) {
        const tci_json *item = &content->u.items[i];
        if (!is_type(item, "text") || !tci_json_as_str(tci_json_get(item, TC_STR("text")), &text))
            continue;
        if (!first)
            tci_buf_append_byte(b, '\n');
        first = false;
        tci_buf_append_str(b, text);
    }
}

static void put_calls(tci_buf *b, const tci_json *content)
{
    bool first = true;
    for (uint32_t i = 0; content != NULL && content->kind == TCI_JSON_ARRAY && i < content->count;
         i++) {
        const tci_json *item = &content->u.items[i];
        const tci_json *arguments = tci_json_get(item, TC_STR("arguments"));
        tc_str name = {NULL, 0};
        if (!is_type(item, "toolCall"))
            continue;
        (void)tci_json_as_str(tci_json_get(item, TC_STR("name")), &name); /* else empty */
        tci_buf_append_str(b, first ? TC_STR("") : TC_STR("; "));
        first = false;
        tci_buf_append_str(b, name);
        tci_buf_append_byte(b, '(');
        for (uint32_t k = 0;
             arguments != NULL && arguments->kind == TCI_JSON_OBJECT && k < arguments->count; k++) {
            if (k > 0)
                tci_buf_append_str(b, TC_STR(", "));
            tci_buf_append_str(b, arguments->u.members[k].key);
            tci_buf_append_byte(b, '=');
            tci_json_put(b, &arguments->u.members[k].value, TCI_JSON_AS_IS);
        }
        tci_buf_append_byte(b, ')');
    }
}

/* Bytes of the first n characters. */
static size_t prefix_bytes(tc_str s, size_t n)
{
    size_t at = 0;
    while (at < s.len) {
        if (((unsigned char)s.ptr[at] & 0xc0) != 0x80 && n-- == 0)
            return at;
        at++;
    }
    return s.len;
}

static size_t count_chars(tc_str s)
{
    size_t n = 0;
    for (size_t i = 0; i < s.len; i++)
        n += ((unsigned char)s.ptr[i] & 0xc0) != 0x80;
    return n;
}

/* One labelled part; nothing without text. part is emptied. */
static void put_part(tci_buf *b, const char *label, tci_buf *part, bool is_cut)
{
    tc_str text = tci_buf_str(part);
    size_t keep = is_cut ? prefix_bytes(text, RESULT_CHARS_MAX) : text.len;
    if (text.len > 0) {
        if (b->len > 0)
            tci_buf_append_str(b, TC_STR("\n\n"));
        tci_buf_printf(b, "[%s]: ", label);
        tci_buf_append(b, text.ptr, keep);
        if (keep < text.len)
            tci_buf_printf(b, "\n\n[%zu more characters left out]",
                           count_chars(tci_str_sub(text, keep, text.len)));
    }
    if (!tci_buf_ok(part))
        b->failed = part->failed;
    tci_buf_clear(part);
}

static int put_message(void *user, tc_str message, tc_err *err)
{
    tci_buf *b = user, part;
    tci_arena a;
    tci_json v;
    tc_str role = {NULL, 0};
    tci_arena_init(&a, 0);
    tci_buf_init(&part, TCI_BUF_MAX);
    int rc = tci_json_parse(message, TCI_JSON_DURABLE, &a, &v, err);
    const tci_json *content = rc == 0 ? tci_json_get(&v, TC_STR("content")) : NULL;
    if (rc == 0 && tci_json_as_str(tci_json_get(&v, TC_STR("role")), &role)) {
        if (tci_str_eq(role, TC_STR("user"))) {
            put_texts(&part, content);
            put_part(b, "User", &part, false);
        } else if (tci_str_eq(role, TC_STR("assistant"))) {
            put_texts(&part, content);
            put_part(b, "Assistant", &part, false);
            put_calls(&part, content);
            put_part(b, "Assistant tool calls", &part, false);
        } else if (tci_str_eq(role, TC_STR("toolResult"))) {
            put_texts(&part, content);
            put_part(b, "Tool result", &part, true);
        }
    }
    tci_buf_done(&part);
    tci_arena_done(&a);
    return rc;
}

/* The first message that is not summarised. */
static size_t end_of(const tci_context *c, size_t cut)
{
    return cut < c->nactive ? c->entries[c->active[cut]].first_message : c->nmessages;
}

static int append_raw(void *user, tc_str message, tc_err *err)
{
    tci_buf *b = user;
    TCI_UNUSED(err);
    if (b->len > 1)
        tci_buf_append_byte(b, ',');
    tci_buf_append_str(b, message);
    return 0;
}

int tci_summarised_messages(const tci_context *c, size_t cut, tci_buf *b, tc_err *err)
{
    TC_ASSERT(b->len == 0);
    tci_buf_append_byte(b, '[');
    if (tci_context_each_ordered(c, 0, end_of(c, cut), append_raw, b, err) < 0)
        return err->code;
    tci_buf_append_byte(b, ']');
    return 0;
}

int tci_summary_request(const tci_context *c, size_t cut, tc_str instructions, int64_t now_ms,
                        tc_result *r, tc_message ret_messages[TCI_SUMMARY_MESSAGES], tc_err *err)
{
    tci_buf text, b;
    tci_buf_init(&text, TCI_BUF_MAX);
    tci_buf_init(&b, TCI_BUF_MAX);
    int rc = tci_context_each_ordered(c, 0, end_of(c, cut), put_message, &text, err);
    if (rc == 0)
        rc = tci_buf_error(&text, err);
    if (rc < 0) {
        tci_buf_done(&text);
        return rc;
    }
    tci_buf_append_str(&b, TC_STR("<conversation>\n"));
    tci_buf_append_str(&b, tci_buf_str(&text));
    tci_buf_append_str(&b, TC_STR("\n</conversation>\n\n"));
    tci_buf_append_str(&b, tci_str(task_prompt));
    if (instructions.len > 0) {
        tci_buf_append_str(&b, TC_STR("\n\nPay special attention to: "));
        tci_buf_append_str(&b, instructions);
    }
    tci_buf_clear(&text);
    tci_buf_append_str(&text,
                       TC_STR("{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":"));
    tci_json_put_str(&text, tci_buf_str(&b));
    tci_buf_printf(&text, "}],\"timestamp\":%lld}", (long long)now_ms);
    rc = tci_buf_error(&b, err);
    tci_buf_clear(&b);
    tci_buf_append_str(&b, TC_STR("{\"role\":\"system\",\"content\":"));
    tci_json_put_str(&b, tci_str(system_prompt));
    tci_buf_printf(&b, ",\"timestamp\":%lld}", (long long)now_ms);
    ret_messages[0].role = TC_ROLE_SYSTEM;
    ret_messages[1].role = TC_ROLE_USER;
    if (rc == 0)
        rc = tci_result_take(r, &text, &ret_messages[1].json, err);
    else
        tci_buf_done(&text);
    if (rc == 0)
        return tci_result_take(r, &b, &ret_messages[0].json, err);
    tci_buf_done(&b);
    return rc;
}

int tci_summary_entry(tc_str summary, uint64_t first_kept, tc_str reason, int64_t now_ms,
                      tc_result *r, tc_str *ret_draft, tc_err *err)
{
    tci_buf text, b;
    tci_buf_init(&text, TCI_BUF_MAX);
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_buf_append_str(&text, tci_str(summary_before));
    tci_buf_append_str(&text, summary);
    tci_buf_append_str(&text, tci_str(summary_after));
    tci_buf_printf(&b,
                   "{\"kind\":\"pi.compaction\",\"head\":%llu,\"model\":[{\"role\":\"user\","
                   "\"content\":[{\"type\":\"text\",\"text\":",
                   (unsigned long long)first_kept);
    tci_json_put_str(&b, tci_buf_str(&text));
    tci_buf_printf(&b, "}],\"timestamp\":%lld}],\"data\":{\"reason\":", (long long)now_ms);
    tci_json_put_str(&b, reason);
    tci_buf_append_str(&b, TC_STR("}}"));
    int rc = tci_buf_error(&text, err);
    tci_buf_done(&text);
    if (rc < 0) {
        tci_buf_done(&b);
        return rc;
    }
    return tci_result_take(r, &b, ret_draft, err);
}
