/* SPDX-License-Identifier: Apache-2.0
 *
 * Places queued submissions. Leaves admitting them to submit.c and runs to live.c. On the line, in one
 * transaction. Invariant: items are in the order of their submission ids; one is in the inbox exactly
 * while its submission is queued. */
#include "harness/inbox.h"
#include "base/json.h"

static const tci_json *items_of(const tc_json *inbox)
{
    const tci_json *items = tci_json_get(inbox, TC_STR("items"));
    return items != NULL && items->kind == TCI_JSON_ARRAY ? items : NULL;
}

static bool is_mode(const tci_json *item, const char *mode)
{
    tc_str text;
    return tci_json_as_str(tci_json_get(item, TC_STR("mode")), &text) &&
           tci_str_eq(text, tci_str(mode));
}

static uint64_t id_of(const tci_json *item)
{
    uint64_t id = 0;
    return tci_json_as_u64(tci_json_get(item, TC_STR("id")), &id) ? id : 0;
}

static bool is_reset(const tci_json *draft)
{
    tc_str head;
    return tci_json_as_str(tci_json_get(draft, TC_STR("head")), &head) &&
           tci_str_eq(head, TC_STR("self"));
}

bool tci_inbox_has_reset(const tc_json *inbox)
{
    const tci_json *items = items_of(inbox);
    for (uint32_t i = 0; items != NULL && i < items->count; i++) {
        const tci_json *item = &items->u.items[i];
        if (is_mode(item, "write") && is_reset(tci_json_get(item, TC_STR("entry"))))
            return true;
    }
    return false;
}

size_t tci_inbox_count(const tc_json *inbox)
{
    const tci_json *items = items_of(inbox);
    return items != NULL ? items->count : 0;
}

int tci_inbox_add(tc_doc *inbox, tc_str item, tc_err *err)
{
    tci_buf b;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_buf_append_byte(&b, '[');
    tci_buf_append_str(&b, item);
    tci_buf_append_byte(&b, ']');
    int rc = tci_buf_error(&b, err);
    if (rc == 0)
        rc = tc_doc_splice(inbox, TC_STR("/items"), tci_inbox_count(tc_doc_value(inbox)), 0,
                           tci_buf_str(&b), err);
    tci_buf_done(&b);
    return rc;
}

static int remove_item(tc_doc *inbox, size_t index, tc_err *err)
{
    return tc_doc_splice(inbox, TC_STR("/items"), index, 1, TC_STR("[]"), err);
}

int tci_inbox_remove(tc_tx *tx, uint64_t conversation, uint64_t submission, tc_err *err)
{
    tc_doc *inbox;
    if (tci_doc_of(tx, &tci_inbox_doc, conversation, &inbox, err) < 0)
        return err->code;
    const tci_json *items = items_of(tc_doc_value(inbox));
    for (uint32_t i = 0; items != NULL && i < items->count; i++) {
        if (id_of(&items->u.items[i]) == submission)
            return remove_item(inbox, i, err);
    }
    return 0;
}

int tci_inbox_withdraw(tc_tx *tx, uint64_t conversation, tc_str reason, tc_err *err)
{
    tc_doc *inbox;
    const tc_settlement settlement = {.reason = reason};
    if (tci_doc_of(tx, &tci_inbox_doc, conversation, &inbox, err) < 0)
        return err->code;
    for (size_t i = tci_inbox_count(tc_doc_value(inbox)); i-- > 0;) {
        const tci_json *item = &items_of(tc_doc_value(inbox))->u.items[i];
        if (is_mode(item, "write"))
            continue;
        if (tc_tx_settle_submission(tx, id_of(item), &settlement, err) < 0 ||
            remove_item(inbox, i, err) < 0)
            return err->code;
    }
    return 0;
}

/* ---- entries ---- */

int tci_append_input(tc_tx *tx, uint64_t conversation, tc_str content, tc_str entry, int64_t now_ms,
                     uint64_t *ret_entry, tc_err *err)
{
    tci_arena a;
    tci_buf b;
    tci_json v;
    bool first = false;
    int rc = 0;
    tci_arena_init(&a, 0);
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_buf_append_str(&b, TC_STR("{\"kind\":"));
    if (entry.len == 0) {
        tci_buf_append_str(&b, TC_STR("\"pi.user\""));
    } else {
        rc = tci_json_parse(entry, TCI_JSON_DURABLE, &a, &v, err);
        const tci_json *kind = rc == 0 ? tci_json_get(&v, TC_STR("kind")) : NULL;
        const tci_json *data = rc == 0 ? tci_json_get(&v, TC_STR("data")) : NULL;
        if (kind != NULL)
            tci_json_put(&b, kind, TCI_JSON_AS_IS);
        if (data != NULL) {
            tci_json_put_key(&b, &first, TC_STR("data"));
            tci_json_put(&b, data, TCI_JSON_AS_IS);
        }
    }
    tci_buf_append_str(&b, TC_STR(",\"model\":[{\"role\":\"user\",\"content\":"));
    tci_buf_append_str(&b, content);
    tci_buf_append_str(&b, TC_STR(",\"timestamp\":"));
    tci_buf_append_i64(&b, now_ms);
    tci_buf_append_str(&b, TC_STR("}]}"));
    if (rc == 0)
        rc = tci_buf_error(&b, err);
    if (rc == 0)
        rc = tc_tx_append_entry(tx, conversation, tci_buf_str(&b), ret_entry, err);
    tci_buf_done(&b);
    tci_arena_done(&a);
    return rc;
}

bool tci_is_stale(const tci_boundary *b, const tc_json *draft)
{
    uint64_t head;
    return b->head != 0 && tci_json_as_u64(tci_json_get(draft, TC_STR("head")), &head) &&
           head < b->head;
}

/* ---- boundaries ---- */

int tci_boundary_prepare(tc_harness *h, tc_tx *tx, uint64_t conversation, tci_boundary *ret,
                         tc_err *err)
{
    tc_result *r;
    if (tc_result_new(&r, err) < 0)
        return err->code;
    tci_boundary b = {.conversation = conversation};
    tc_settings settings;
    tc_str marker;
    const tci_json *v;
    tci_harness_settings(h, r, &settings);
    b.steering_mode = settings.steering_mode;
    b.follow_up_mode = settings.follow_up_mode;
    int rc = tc_tx_head_marker(tx, conversation, r, &marker, err);
    if (rc == 0 && marker.len > 0) {
        rc = tci_parse(r, marker, &v, err);
        if (rc == 0 && !tci_json_as_u64(tci_json_get(v, TC_STR("head")), &b.head))
            b.head = 0;
    }
    if (rc == 0)
        rc = tci_doc_of(tx, &tci_inbox_doc, conversation, &b.inbox, err);
    tc_result_free(r);
    if (rc == 0)
        *ret = b;
    return rc;
}

/* What an item is, copied: the document changes while items are placed. */
typedef struct picked {
    uint32_t index;
    uint64_t id;
    tc_str content, entry; /* JSON */
    bool is_write;
} picked;

static int text_of(tc_tx *tx, const tci_json *v, tc_str *ret, tc_err *err)
{
    tci_buf b;
    if (v == NULL) {
        *ret = (tc_str){NULL, 0};
        return 0;
    }
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_json_put(&b, v, TCI_JSON_AS_IS);
    int rc = tci_buf_error(&b, err);
    if (rc == 0)
        rc = tci_arena_dup(tci_tx_arena(tx), tci_buf_str(&b), ret, err);
    tci_buf_done(&b);
    return rc;
}

/* The items whose turn it is, in their order. */
static int pick(tc_tx *tx, const tci_boundary *b, bool is_final, picked **ret, size_t *ret_n,
                tc_err *err)
{
    const tci_json *items = items_of(tc_doc_value(b->inbox));
    size_t count = items != NULL ? items->count : 0, n = 0;
    bool has_steer = false, has_follow_up = false;
    picked *all = tci_arena_items(tci_tx_arena(tx), picked, count + 1);
    if (all == NULL)
        return tci_arena_error(tci_tx_arena(tx), err);
    for (uint32_t i = 0; i < count; i++) {
        const tci_json *item = &items->u.items[i];
        bool is_write = is_mode(item, "write"), is_chosen = is_write;
        if (is_mode(item, "steer")) {
            is_chosen = b->steering_mode == TC_QUEUE_ALL || !has_steer;
            has_steer = true;
        } else if (is_mode(item, "followUp")) {
            is_chosen = is_final && (b->follow_up_mode == TC_QUEUE_ALL || !has_follow_up);
            has_follow_up = true;
        }
        if (!is_chosen)
            continue;
        all[n] = (picked){.index = i, .id = id_of(item), .is_write = is_write};
        if (text_of(tx, tci_json_get(item, TC_STR("content")), &all[n].content, err) < 0 ||
            text_of(tx, tci_json_get(item, TC_STR("entry")), &all[n].entry, err) < 0)
            return err->code;
        n++;
    }
    *ret = all;
    *ret_n = n;
    return 0;
}

static int place_write(tc_tx *tx, tci_boundary *b, const picked *p, tc_err *err)
{
    static const tc_settlement stale = {.reason = {"stale", 5}};
    tci_json draft;
    uint64_t entry, head;
    if (tci_json_parse(p->entry, TCI_JSON_DURABLE, tci_tx_arena(tx), &draft, err) < 0)
        return err->code;
    if (tci_is_stale(b, &draft))
        return tc_tx_settle_submission(tx, p->id, &stale, err);
    if (tc_tx_append_entry(tx, b->conversation, p->entry, &entry, err) < 0)
        return err->code;
    if (is_reset(&draft))
        b->head = entry;
    else if (tci_json_as_u64(tci_json_get(&draft, TC_STR("head")), &head))
        b->head = head;
    return tc_tx_place_submission(tx, p->id, entry, err);
}

int tci_boundary_apply(tc_tx *tx, tci_boundary *b, bool is_final, int64_t now_ms, tci_placed *ret,
                       tc_err *err)
{
    picked *items;
    size_t n, nusers = 0;
    bool has_reset = tci_inbox_has_reset(tc_doc_value(b->inbox));
    if (pick(tx, b, is_final || has_reset, &items, &n, err) < 0)
        return err->code;
    uint64_t *users = tci_arena_items(tci_tx_arena(tx), uint64_t, n + 1);
    if (users == NULL)
        return tci_arena_error(tci_tx_arena(tx), err);
    for (size_t i = 0; i < n; i++) {
        if (items[i].is_write && place_write(tx, b, &items[i], err) < 0)
            return err->code;
    }
    for (size_t i = 0; i < n; i++) {
        uint64_t entry;
        if (items[i].is_write)
            continue;
        if (tci_append_input(tx, b->conversation, items[i].content, items[i].entry, now_ms, &entry,
                             err) < 0 ||
            tc_tx_place_submission(tx, items[i].id, entry, err) < 0)
            return err->code;
        users[nusers++] = items[i].id;
    }
    for (size_t i = n; i-- > 0;) {
        if (remove_item(b->inbox, items[i].index, err) < 0)
            return err->code;
    }
    *ret = (tci_placed){users, nusers, has_reset};
    return 0;
}
