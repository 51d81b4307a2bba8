/* SPDX-License-Identifier: Apache-2.0
 *
 * The arguments of a call as models write them: usually a JSON object, sometimes with raw control
 * characters or stray backslashes inside a string, which is repaired, and sometimes cut off, which is
 * not: what is missing is never guessed. Any thread. */
#include "llm/llm_int.h"

static bool is_object(tc_str text)
{
    tci_arena a;
    tci_json v;
    tc_err ignored;
    tci_arena_init(&a, 0);
    unsigned flags = TCI_JSON_DURABLE;
    bool ok = tci_json_parse(text, flags, &a, &v, &ignored) == 0 && v.kind == TCI_JSON_OBJECT;
    tci_arena_done(&a);
    return ok;
}

static bool is_escape(tc_str text, size_t i)
{
    if (i + 1 >= text.len)
        return false;
    char c = text.ptr[i + 1];
    if (c != 'u')
        return c != 0 && strchr("\"\\/bfnrt", c) != NULL;
    if (text.len - i < 6)
        return false;
    for (size_t k = 2; k < 6; k++) {
        char h = text.ptr[i + k];
        if (!((h >= '0' && h <= '9') || (h >= 'a' && h <= 'f') || (h >= 'A' && h <= 'F')))
            return false;
    }
    return true;
}

/* Inside strings: a control character becomes its escape, a backslash that begins none is doubled. */
static void repair(tci_buf *b, tc_str text)
{
    bool in_string = false;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        if (in_string && c == '\\') {
            if (!is_escape(text, i)) {
                tci_buf_append_str(b, TC_STR("\\\\"));
                continue;
            }
            tci_buf_append(b, &text.ptr[i++], 1);
            tci_buf_append_byte(b, text.ptr[i]);
            continue;
        }
        if (c == '"')
            in_string = !in_string;
        if (in_string && (unsigned char)c < 0x20)
            tci_buf_printf(b, "\\u%04x", (unsigned)c);
        else
            tci_buf_append_byte(b, c);
    }
}

void tci_arguments_put(tci_buf *b, tc_str text, bool *ret_is_bad)
{
    *ret_is_bad = false;
    text = tci_str_trim(text);
    if (text.len == 0) {
        tci_buf_append_str(b, TC_STR("{}"));
        return;
    }
    if (is_object(text)) {
        tci_buf_append_str(b, text);
        return;
    }
    tci_buf fixed;
    tci_buf_init(&fixed, TCI_BUF_MAX);
    repair(&fixed, text);
    *ret_is_bad = !tci_buf_ok(&fixed) || !is_object(tci_buf_str(&fixed));
    tci_buf_append_str(b, *ret_is_bad ? TC_STR("{}") : tci_buf_str(&fixed));
    tci_buf_done(&fixed);
}
