/* SPDX-License-Identifier: Apache-2.0
 *
 * A line that is a value and a line that is a delta: what decodes comes out the same when it is written and
 * read again, all of it is applied or nothing, and the same twice over gives the same. Any line also
 * passes the quick scan exactly when the parser takes it. */
#include "store/delta.h"
#include "store/jsonl/jsonl_scan.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { FLAGS = TCI_JSON_KEEP_SURROGATES | TCI_JSON_LAST_KEY_WINS };

static void put(tci_buf *b, const tci_json *v)
{
    tci_buf_init(b, TCI_BUF_MAX);
    tci_json_put(b, v, TCI_JSON_AS_IS);
    TC_ASSERT(tci_buf_ok(b));
}

static void scan_agrees(tc_str text)
{
    tci_arena a;
    tci_json v;
    tc_err err;
    tci_arena_init(&a, 0);
    int rc = tci_json_parse(text, FLAGS, &a, &v, &err);
    TC_ASSERT(rc == 0 || rc == TC_E_PARSE);
    TC_ASSERT((rc == 0) == tci_json_is_line(text));
    tci_arena_done(&a);
}

static void round_trip(const tci_op *ops, size_t nops)
{
    tci_buf once, twice;
    tci_arena a;
    tci_json v;
    tci_op *again;
    size_t nagain;
    tc_err err;
    tci_arena_init(&a, 0);
    tci_buf_init(&once, TCI_BUF_MAX);
    tci_buf_init(&twice, TCI_BUF_MAX);
    tci_ops_put(&once, ops, nops);
    TC_ASSERT(tci_json_parse(tci_buf_str(&once), FLAGS, &a, &v, &err) == 0);
    TC_ASSERT(tci_ops_of(&v, &a, &again, &nagain, &err) == 0 && nagain == nops);
    tci_ops_put(&twice, again, nagain);
    TC_ASSERT(tci_str_eq(tci_buf_str(&once), tci_buf_str(&twice)));
    tci_buf_done(&once);
    tci_buf_done(&twice);
    tci_arena_done(&a);
}

static void apply(tc_str value, const tci_op *ops, size_t nops)
{
    tci_tree one, two;
    tci_buf before, first, second;
    tc_err err;
    if (tci_tree_parse(value, FLAGS, &one, &err) < 0)
        return;
    TC_ASSERT(tci_tree_parse(value, FLAGS, &two, &err) == 0);
    put(&before, &one.root);
    int rc = tci_ops_apply(&one, ops, nops, &err);
    TC_ASSERT(rc == 0 || rc == TC_E_INVALID);
    put(&first, &one.root);
    TC_ASSERT(tci_ops_apply(&two, ops, nops, &err) == rc);
    put(&second, &two.root);
    TC_ASSERT(tci_str_eq(tci_buf_str(&first), tci_buf_str(&second)));
    TC_ASSERT(rc == 0 || tci_str_eq(tci_buf_str(&first), tci_buf_str(&before)));
    tci_buf_done(&before);
    tci_buf_done(&first);
    tci_buf_done(&second);
    tci_tree_done(&one);
    tci_tree_done(&two);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tc_str rest = tci_str_of(data, size), value, delta;
    tci_arena a;
    tci_json v;
    tci_op *ops;
    size_t nops;
    tc_err err;
    if (!tci_str_split(&rest, '\n', &value) || !tci_str_split(&rest, '\n', &delta))
        return 0;
    scan_agrees(value);
    scan_agrees(delta);
    tci_arena_init(&a, 0);
    if (tci_json_parse(delta, FLAGS, &a, &v, &err) == 0 &&
        tci_ops_of(&v, &a, &ops, &nops, &err) == 0) {
        round_trip(ops, nops);
        apply(value, ops, nops);
    }
    tci_arena_done(&a);
    return 0;
}
