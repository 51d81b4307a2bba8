/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as JSON: what parses comes out of the emitter, parses again, and comes out the same.
 * The first byte chooses the flags. */
#include "base/json.h"
#include "base/num.h"
#include "base/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Typed reads must survive any token; strings are UTF-8 when surrogates were not kept. */
static void look_at(const tci_json *v, unsigned flags)
{
    uint64_t u;
    int64_t i;
    double d;
    tc_str s;
    if (tci_json_as_u64(v, &u) && u <= INT64_MAX)
        TC_ASSERT(tci_json_as_i64(v, &i) && (uint64_t)i == u);
    if (tci_json_as_double(v, &d)) {
        char text[TCI_NUM_TEXT_MAX];
        double again;
        tc_err err;
        tc_str t = tci_str_of(text, tci_num_double_text(d, text));
        TC_ASSERT(tci_num_double(t, &again, &err) == 0 && memcmp(&d, &again, sizeof d) == 0);
    }
    if (tci_json_as_str(v, &s) && !(flags & TCI_JSON_KEEP_SURROGATES))
        TC_ASSERT(tci_utf8_is_valid(s));
    if (v->kind == TCI_JSON_ARRAY) {
        for (uint32_t k = 0; k < v->count; k++)
            look_at(&v->u.items[k], flags);
    }
    if (v->kind == TCI_JSON_OBJECT) {
        for (uint32_t k = 0; k < v->count; k++) {
            TC_ASSERT(tci_json_get(v, v->u.members[k].key) == &v->u.members[k].value);
            look_at(&v->u.members[k].value, flags);
        }
    }
}

/* text, which came out of the emitter, goes in and comes out again. */
static void round_trip(tc_str text, unsigned flags, tci_json_order order)
{
    tci_arena a;
    tci_json v;
    tci_buf out;
    tc_err err;
    tci_arena_init(&a, 0);
    tci_buf_init(&out, text.len); /* the very same length must do */
    TC_ASSERT(tci_json_parse(text, flags, &a, &v, &err) == 0);
    tci_json_put(&out, &v, order);
    TC_ASSERT(tci_buf_ok(&out) && tci_str_eq(tci_buf_str(&out), text));
    tci_buf_done(&out);
    tci_arena_done(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    unsigned flags = data[0] & (TCI_JSON_KEEP_SURROGATES | TCI_JSON_LAST_KEY_WINS);
    tci_arena a;
    tci_json v;
    tc_err err;
    tci_arena_init(&a, 16 * 1024 * 1024);
    int rc = tci_json_parse(tci_str_of(data + 1, size - 1), flags, &a, &v, &err);
    if (rc == 0 || rc == TC_E_CONFLICT) {
        TC_ASSERT(rc == 0 || !(flags & TCI_JSON_LAST_KEY_WINS));
        look_at(&v, flags);
        for (int order = TCI_JSON_AS_IS; order <= TCI_JSON_SORTED; order++) {
            tci_buf out;
            tci_buf_init(&out, TCI_BUF_MAX);
            tci_json_put(&out, &v, (tci_json_order)order);
            TC_ASSERT(tci_buf_ok(&out));
            round_trip(tci_buf_str(&out), flags, (tci_json_order)order);
            tci_buf_done(&out);
        }
    } else {
        TC_ASSERT(rc == TC_E_PARSE || rc == TC_E_TOO_BIG);
    }
    tci_arena_done(&a);
    return 0;
}
