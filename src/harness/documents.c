/* SPDX-License-Identifier: Apache-2.0
 *
 * Definitions of the built-in documents, and small helpers for JSON text. Leaves what the values
 * mean to the files named after them. Any thread. Invariant: kinds, versions and initial values are
 * those of the durable formats. */
#include "harness/documents.h"
#include "base/json.h"
#include "plat/clock.h"
#include <stdio.h>

static bool has_running_slot(const tci_json *slots)
{
    if (slots == NULL || slots->kind != TCI_JSON_ARRAY)
        return false;
    for (uint32_t i = 0; i < slots->count; i++) {
        tc_str status;
        if (tci_json_as_str(tci_json_get(&slots->u.items[i], TC_STR("status")), &status) &&
            tci_str_eq(status, TC_STR("running")))
            return true;
    }
    return false;
}

/* The whole value whenever nothing streams into it. */
static bool live_is_base(void *user, const tc_doc_change *change)
{
    TCI_UNUSED(user);
    return tci_json_get(change->value, TC_STR("generation")) == NULL &&
           !has_running_slot(tci_json_get(change->value, TC_STR("tools"))) &&
           !has_running_slot(tci_json_get(change->value, TC_STR("nestedTools")));
}

static bool inbox_is_base(void *user, const tc_doc_change *change)
{
    TCI_UNUSED(user);
    const tci_json *items = tci_json_get(change->value, TC_STR("items"));
    return items == NULL || items->count == 0;
}

/* {"sessionId": UUID version 7 (RFC 9562)} */
static int provider_initial(void *user, tc_str seed, tc_result *r, tc_str *ret_json, tc_err *err)
{
    TCI_UNUSED(user);
    TCI_UNUSED(seed);
    tci_instant now = tci_clock_now();
    uint64_t ms = (uint64_t)now.sec * 1000 + (uint64_t)(now.nsec / 1000000);
    unsigned char id[16];
    tci_random_bytes(id, sizeof id);
    for (unsigned i = 0; i < 6; i++)
        id[i] = (unsigned char)(ms >> (40 - 8 * i));
    id[6] = (unsigned char)((id[6] & 0x0f) | 0x70);
    id[8] = (unsigned char)((id[8] & 0x3f) | 0x80);
    char text[37];
    size_t at = 0;
    for (unsigned i = 0; i < 16; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10)
            text[at++] = '-';
        (void)snprintf(text + at, 3, "%02x", id[i]); /* two digits always fit */
        at += 2;
    }
    return tci_result_printf(r, ret_json, err, "{\"sessionId\":\"%.36s\"}", text);
}

const tc_doc_def tci_live_doc = {.size = sizeof(tc_doc_def),
                                 .kind = "pi.live",
                                 .version = 1,
                                 .scope = TC_SCOPE_CONVERSATION,
                                 .history = TC_HISTORY_LATEST,
                                 .fork = TC_FORK_INITIAL,
                                 .initial_json = "{}",
                                 .checkpoint_when = live_is_base};

const tc_doc_def tci_inbox_doc = {.size = sizeof(tc_doc_def),
                                  .kind = "pi.inbox",
                                  .version = 1,
                                  .scope = TC_SCOPE_CONVERSATION,
                                  .history = TC_HISTORY_LATEST,
                                  .fork = TC_FORK_INITIAL,
                                  .initial_json = "{\"items\":[]}",
                                  .checkpoint_when = inbox_is_base};

const tc_doc_def tci_usage_doc = {.size = sizeof(tc_doc_def),
                                  .kind = "pi.usage",
                                  .version = 1,
                                  .scope = TC_SCOPE_CONVERSATION,
                                  .history = TC_HISTORY_LATEST,
                                  .fork = TC_FORK_INITIAL,
                                  .initial_json = "{\"models\":{},\"tools\":{}}"};

const tc_doc_def tci_provider_doc = {.size = sizeof(tc_doc_def),
                                     .kind = "pi.provider",
                                     .version = 1,
                                     .scope = TC_SCOPE_CONVERSATION,
                                     .history = TC_HISTORY_LATEST,
                                     .fork = TC_FORK_INITIAL,
                                     .initial = provider_initial};

const tc_doc_def tci_agent_doc = {.size = sizeof(tc_doc_def),
                                  .kind = "pi.agent",
                                  .version = 1,
                                  .scope = TC_SCOPE_CONVERSATION,
                                  .history = TC_HISTORY_REWINDABLE,
                                  .fork = TC_FORK_AS_OF,
                                  .initial_json = "{}"};

const tc_doc_def *const tci_built_in_docs[TCI_BUILT_IN_DOCS] = {
    &tci_live_doc, &tci_inbox_doc, &tci_usage_doc, &tci_provider_doc, &tci_agent_doc};

int tci_result_printf(tc_result *r, tc_str *ret, tc_err *err, const char *fmt, ...)
{
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    int len = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    char *text = len < 0 ? NULL : tci_result_bytes(r, (size_t)len + 1);
    if (text == NULL) {
        va_end(again);
        return tci_err_no_memory(err);
    }
    (void)vsnprintf(text, (size_t)len + 1, fmt, again); /* measured above */
    va_end(again);
    *ret = tci_str_of(text, (size_t)len);
    return 0;
}

int tci_result_take(tc_result *r, tci_buf *b, tc_str *ret, tc_err *err)
{
    int rc = tci_buf_error(b, err);
    if (rc == 0) {
        char *text = tci_result_bytes(r, b->len + 1);
        if (text == NULL) {
            rc = tci_err_no_memory(err);
        } else {
            if (b->len > 0)
                memcpy(text, b->ptr, b->len);
            text[b->len] = '\0';
            *ret = tci_str_of(text, b->len);
        }
    }
    tci_buf_done(b);
    return rc;
}

int tci_parse(tc_result *r, tc_str text, const tci_json **ret, tc_err *err)
{
    tci_arena *a = tci_result_arena(r);
    tci_json *v = tci_arena_new(a, tci_json);
    if (v == NULL)
        return tci_arena_error(a, err);
    if (tci_json_parse(text, TCI_JSON_DURABLE, a, v, err) < 0)
        return err->code;
    *ret = v;
    return 0;
}

void tci_put_str_member(tci_buf *b, bool *first, tc_str key, tc_str text)
{
    tci_json_put_key(b, first, key);
    tci_json_put_str(b, text);
}

void tci_put_u64_member(tci_buf *b, bool *first, tc_str key, uint64_t n)
{
    tci_json_put_key(b, first, key);
    tci_buf_append_u64(b, n);
}

void tci_put_i64_member(tci_buf *b, bool *first, tc_str key, int64_t n)
{
    tci_json_put_key(b, first, key);
    tci_buf_append_i64(b, n);
}

void tci_put_bool_member(tci_buf *b, bool *first, tc_str key, bool v)
{
    tci_json_put_key(b, first, key);
    tci_json_put_bool(b, v);
}

void tci_put_raw_member(tci_buf *b, bool *first, tc_str key, tc_str json)
{
    tci_json_put_key(b, first, key);
    tci_buf_append_str(b, json);
}
