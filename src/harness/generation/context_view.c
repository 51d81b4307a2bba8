/* SPDX-License-Identifier: Apache-2.0
 *
 * A context as hosts see it. Leaves working it out to context.c. One thread at a time. Invariant: texts
 * are lent, not copied: the result holds a reference to all texts of the context. */
#include "harness/generation/context.h"
#include "harness/documents.h"

static void unref_texts(void *texts)
{
    tci_texts_unref(texts);
}

/* The messages of an entry as one array. */
static int contribution_of(const tci_context *c, const tci_context_entry *e, tc_result *r,
                           tc_str *ret, tc_err *err)
{
    const tci_message *messages = &c->messages[e->first_message];
    if (e->nmessages == 0) {
        *ret = TC_STR("[]");
        return 0;
    }
    if (e->is_whole) { /* as it stands in its record, brackets and all */
        const tc_str *last = &messages[e->nmessages - 1].json;
        const char *from = messages[0].json.ptr - 1;
        *ret = tci_str_of(from, (size_t)(last->ptr + last->len + 1 - from));
        return 0;
    }
    tci_buf b;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_buf_append_byte(&b, '[');
    for (uint32_t i = 0; i < e->nmessages; i++) {
        if (i > 0)
            tci_buf_append_byte(&b, ',');
        tci_buf_append_str(&b, messages[i].json);
    }
    tci_buf_append_byte(&b, ']');
    return tci_result_take(r, &b, ret, err);
}

int tci_context_view(const tci_context *c, tc_result *r, tc_context_view *ret, tc_err *err)
{
    tci_arena *a = tci_result_arena(r);
    tc_str *entries = tci_arena_items(a, tc_str, c->nactive + 1);
    tc_str *contributions = tci_arena_items(a, tc_str, c->nactive + 1);
    tc_str *messages = tci_arena_items(a, tc_str, c->nordered + 1);
    if (entries == NULL || contributions == NULL || messages == NULL)
        return tci_arena_error(a, err);
    for (size_t i = 0; i < c->nactive; i++) {
        const tci_context_entry *e = &c->entries[c->active[i]];
        entries[i] = e->json;
        if (contribution_of(c, e, r, &contributions[i], err) < 0)
            return err->code;
    }
    for (size_t i = 0; i < c->nordered; i++)
        messages[i] = tci_context_message(c, i)->json;
    if (tci_result_refer(r, c->texts, unref_texts, err) < 0)
        return err->code;
    atomic_fetch_add(&c->texts->refs, 1);
    *ret = (tc_context_view){.head = c->head_id,
                             .entries = entries,
                             .contributions = contributions,
                             .nentries = c->nactive,
                             .messages = messages,
                             .nmessages = c->nordered};
    return 0;
}
