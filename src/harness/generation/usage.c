/* SPDX-License-Identifier: Apache-2.0
 *
 * Adds up what models and tools used. Leaves when to count to whoever appends the entry. On the line.
 * Invariant: a sum of integers is an integer; optional counters appear once either side has them. */
#include "harness/generation/usage.h"
#include "base/json.h"

static const tc_str counters[] = {
    {"input", 5}, {"output", 6}, {"cacheRead", 9}, {"cacheWrite", 10}, {"totalTokens", 11}};
static const tc_str optional_counters[] = {{"cacheWrite1h", 12}, {"reasoning", 9}};
static const tc_str costs[] = {
    {"input", 5}, {"output", 6}, {"cacheRead", 9}, {"cacheWrite", 10}, {"total", 5}};
enum {
    NCOUNTERS = sizeof counters / sizeof counters[0],
    NOPTIONAL = sizeof optional_counters / sizeof optional_counters[0],
    NCOSTS = sizeof costs / sizeof costs[0]
};

/* The sum of two numbers, either of which may be missing. */
static void put_number_sum(tci_buf *b, const tci_json *a, const tci_json *c)
{
    int64_t x = 0, y = 0, sum;
    bool is_int = (a == NULL || tci_json_as_i64(a, &x)) && (c == NULL || tci_json_as_i64(c, &y)) &&
                  !__builtin_add_overflow(x, y, &sum);
    if (is_int) {
        tci_buf_append_i64(b, x + y);
        return;
    }
    double p = 0, q = 0;
    if (!tci_json_as_double(a, &p))
        p = 0;
    if (!tci_json_as_double(c, &q))
        q = 0;
    tci_json_put_double(b, p + q);
}

static void put_costs(tci_buf *b, const tci_json *a, const tci_json *c)
{
    bool first = true;
    tci_buf_append_byte(b, '{');
    for (size_t i = 0; i < NCOSTS; i++) {
        tci_json_put_key(b, &first, costs[i]);
        put_number_sum(b, tci_json_get(a, costs[i]), tci_json_get(c, costs[i]));
    }
    tci_buf_append_byte(b, '}');
}

static bool is_counter(tc_str key)
{
    for (size_t i = 0; i < NCOUNTERS; i++) {
        if (tci_str_eq(key, counters[i]))
            return true;
    }
    for (size_t i = 0; i < NOPTIONAL; i++) {
        if (tci_str_eq(key, optional_counters[i]))
            return true;
    }
    return tci_str_eq(key, TC_STR("cost"));
}

void tci_usage_put_sum(tci_buf *b, const tci_json *a, const tci_json *c)
{
    bool first = true;
    tci_buf_append_byte(b, '{');
    for (size_t i = 0; i < NCOUNTERS; i++) {
        tci_json_put_key(b, &first, counters[i]);
        put_number_sum(b, tci_json_get(a, counters[i]), tci_json_get(c, counters[i]));
    }
    for (size_t i = 0; i < NOPTIONAL; i++) {
        const tci_json *x = tci_json_get(a, optional_counters[i]);
        const tci_json *y = tci_json_get(c, optional_counters[i]);
        if (x == NULL && y == NULL)
            continue;
        tci_json_put_key(b, &first, optional_counters[i]);
        put_number_sum(b, x, y);
    }
    tci_json_put_key(b, &first, TC_STR("cost"));
    put_costs(b, tci_json_get(a, TC_STR("cost")), tci_json_get(c, TC_STR("cost")));
    for (uint32_t i = 0; a != NULL && a->kind == TCI_JSON_OBJECT && i < a->count; i++) {
        const tci_json_member *m = &a->u.members[i];
        if (is_counter(m->key))
            continue;
        tci_json_put_key(b, &first, m->key);
        tci_json_put(b, &m->value, TCI_JSON_AS_IS);
    }
    tci_buf_append_byte(b, '}');
}

uint64_t tci_usage_context_tokens(const tci_json *usage)
{
    uint64_t total = 0;
    if (tci_json_as_u64(tci_json_get(usage, TC_STR("totalTokens")), &total) && total > 0)
        return total;
    total = 0;
    for (size_t i = 0; i + 1 < NCOUNTERS; i++) {
        uint64_t n = 0;
        if (tci_json_as_u64(tci_json_get(usage, counters[i]), &n))
            total += n;
    }
    return total;
}

/* A key as one step of a JSON Pointer: ~ and / escaped. */
static void put_pointer_step(tci_buf *b, tc_str key)
{
    for (size_t i = 0; i < key.len; i++) {
        if (key.ptr[i] == '~')
            tci_buf_append_str(b, TC_STR("~0"));
        else if (key.ptr[i] == '/')
            tci_buf_append_str(b, TC_STR("~1"));
        else
            tci_buf_append_byte(b, key.ptr[i]);
    }
}

int tci_usage_record(tc_tx *tx, uint64_t conversation, tc_str bucket, tc_str key, tc_str usage,
                     tc_err *err)
{
    tc_doc *doc;
    if (tci_doc_of(tx, &tci_usage_doc, conversation, &doc, err) < 0)
        return err->code;
    if (usage.len == 0)
        return 0;
    tci_arena a;
    tci_arena_init(&a, 0);
    tci_buf pointer, sum;
    tci_buf_init(&pointer, TCI_BUF_MAX);
    tci_buf_init(&sum, TCI_BUF_MAX);
    tci_json v;
    int rc = tci_json_parse(usage, TCI_JSON_DURABLE, &a, &v, err);
    if (rc == 0 && v.kind == TCI_JSON_OBJECT) {
        tci_buf_append_byte(&pointer, '/');
        tci_buf_append_str(&pointer, bucket);
        tci_buf_append_byte(&pointer, '/');
        put_pointer_step(&pointer, key);
        const tci_json *had = tci_json_get(tci_json_get(tc_doc_value(doc), bucket), key);
        if (had == NULL)
            tci_json_put(&sum, &v, TCI_JSON_AS_IS);
        else
            tci_usage_put_sum(&sum, had, &v);
        rc = tci_buf_error(&pointer, err);
        if (rc == 0)
            rc = tci_buf_error(&sum, err);
        if (rc == 0)
            rc = tc_doc_set(doc, tci_buf_str(&pointer), tci_buf_str(&sum), err);
    }
    tci_buf_done(&pointer);
    tci_buf_done(&sum);
    tci_arena_done(&a);
    return rc;
}
