/* SPDX-License-Identifier: Apache-2.0
 *
 * Transcripts as lists of messages, from JSON text and back. Leaves what a message says to those who
 * ask a model. Any thread. Invariant: a message keeps every member and number it was written with. */
#include "llm/llm_int.h"

tc_role tci_role_named(tc_str name)
{
    static const struct {
        const char *name;
        tc_role role;
    } roles[] = {{"user", TC_ROLE_USER},
                 {"assistant", TC_ROLE_ASSISTANT},
                 {"toolResult", TC_ROLE_TOOL_RESULT},
                 {"system", TC_ROLE_SYSTEM}};
    for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++) {
        if (tci_str_eq(name, tci_str(roles[i].name)))
            return roles[i].role;
    }
    return TC_ROLE_OTHER;
}

int tc_messages_parse(tc_str json, tc_result *r, const tc_message **ret_messages,
                      size_t *ret_nmessages, tc_err *err)
{
    tci_arena *a = tci_result_arena(r);
    tci_json v;
    if (tci_json_parse(json, TCI_JSON_DURABLE, a, &v, err) < 0)
        return tc_err_wrap(err, "messages");
    if (v.kind != TCI_JSON_ARRAY)
        return tc_err_set(err, TC_E_INVALID, "messages: not an array");
    tc_message *messages = tci_arena_items(a, tc_message, (size_t)v.count + 1);
    if (messages == NULL)
        return tci_arena_error(a, err);
    tci_buf text;
    tci_buf_init(&text, TCI_BUF_MAX);
    int rc = 0;
    for (uint32_t i = 0; rc == 0 && i < v.count; i++) {
        const tci_json *m = &v.u.items[i];
        if (m->kind != TCI_JSON_OBJECT) {
            rc = tc_err_set(err, TC_E_INVALID, "messages: item %u is not an object", i);
            break;
        }
        tci_buf_clear(&text);
        tci_json_put(&text, m, TCI_JSON_AS_IS);
        messages[i].role = tci_role_named(tci_json_str_member(m, "role"));
        rc = tci_buf_error(&text, err);
        if (rc == 0)
            rc = tc_result_dup(r, tci_buf_str(&text), &messages[i].json, err);
    }
    tci_buf_done(&text);
    if (rc < 0)
        return rc;
    *ret_messages = messages;
    *ret_nmessages = v.count;
    return 0;
}

int tc_messages_text(const tc_message *messages, size_t nmessages, tc_result *r, tc_str *ret_json,
                     tc_err *err)
{
    tci_buf b;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_buf_append_byte(&b, '[');
    for (size_t i = 0; i < nmessages; i++) {
        if (i > 0)
            tci_buf_append_byte(&b, ',');
        tci_buf_append_str(&b, messages[i].json);
    }
    tci_buf_append_byte(&b, ']');
    int rc = tci_buf_error(&b, err);
    if (rc == 0)
        rc = tc_result_dup(r, tci_buf_str(&b), ret_json, err);
    tci_buf_done(&b);
    return rc;
}
