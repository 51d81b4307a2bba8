/* SPDX-License-Identifier: Apache-2.0
 *
 * A line that is a document's value, and a change a line: "set POINTER JSON", "delete POINTER", "append POINTER
 * TEXT", "trim POINTER N", "splice POINTER INDEX REMOVE JSON", "reorder POINTER N,N,...", "replace JSON", parts
 * apart by tabs. What is refused changes nothing; a rollback gives the same bytes; and what is stored
 * as the change leads from the old value to the new one, to the byte. */
#include "base/num.h"
#include "session/session.h"
#include "store/delta.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { CHANGES_MAX = 40, ORDER_MAX = 16 };

static bool never(void *user, const tc_doc_change *change)
{
    TCI_UNUSED(user);
    TCI_UNUSED(change);
    return false;
}

static const tc_doc_def def = {.size = sizeof(tc_doc_def),
                               .kind = "fuzz",
                               .version = 1,
                               .scope = TC_SCOPE_SESSION,
                               .checkpoint_when = never};

static size_t number(tc_str text)
{
    uint64_t n = 0;
    tc_err err;
    return tci_num_u64(text, &n, &err) == 0 ? (size_t)n : SIZE_MAX;
}

static tc_str next(tc_str *line)
{
    tc_str part = {NULL, 0};
    (void)tci_str_split(line, '\t', &part); /* none: empty */
    return part;
}

static size_t order_of(tc_str text, size_t order[ORDER_MAX])
{
    tc_str one;
    size_t n = 0;
    while (n < ORDER_MAX && tci_str_split(&text, ',', &one))
        order[n++] = number(one);
    return n;
}

static int change(tc_doc *d, tc_str line, tc_err *err)
{
    size_t order[ORDER_MAX];
    tc_str word = next(&line), pointer = next(&line);
    if (tci_str_eq(word, TC_STR("set")))
        return tc_doc_set(d, pointer, line, err);
    if (tci_str_eq(word, TC_STR("delete")))
        return tc_doc_delete(d, pointer, err);
    if (tci_str_eq(word, TC_STR("append")))
        return tc_doc_append(d, pointer, line, err);
    if (tci_str_eq(word, TC_STR("trim")))
        return tc_doc_trim(d, pointer, number(line), err);
    if (tci_str_eq(word, TC_STR("reorder")))
        return tc_doc_reorder(d, pointer, order, order_of(line, order), err);
    if (tci_str_eq(word, TC_STR("replace")))
        return tc_doc_replace(d, pointer, err);
    size_t index = number(next(&line)), nremove = number(next(&line));
    return tc_doc_splice(d, pointer, index, nremove, line, err);
}

static void put(tci_buf *b, const tci_json *v)
{
    tci_buf_init(b, TCI_BUF_MAX);
    tci_json_put(b, v, TCI_JSON_AS_IS);
    TC_ASSERT(tci_buf_ok(b));
}

static tc_tx *begin(tc_durable *s, tc_doc **ret_doc)
{
    tc_tx *tx;
    tc_err err;
    const tc_str none = {NULL, 0};
    TC_ASSERT(tc_durable_begin(s, NULL, &tx, &err) == 0);
    TC_ASSERT(tc_tx_doc(tx, &def, 0, none, none, ret_doc, &err) == 0);
    return tx;
}

static void change_all(tc_doc *d, tc_str changes)
{
    tc_str line;
    tc_err err;
    for (unsigned n = 0; n < CHANGES_MAX && tci_str_split(&changes, '\n', &line); n++) {
        tci_buf before, after;
        put(&before, tc_doc_value(d));
        int rc = change(d, line, &err);
        put(&after, tc_doc_value(d));
        TC_ASSERT(rc == 0 || rc == TC_E_INVALID || rc == TC_E_TOO_BIG);
        TC_ASSERT(rc == 0 || tci_str_eq(tci_buf_str(&before), tci_buf_str(&after)));
        tci_buf_done(&before);
        tci_buf_done(&after);
    }
}

/* The committed value. */
static void snapshot(tc_durable *s, tci_buf *b)
{
    tc_result *r;
    tc_str text;
    tc_err err;
    tc_doc_addr address = {.def = &def};
    TC_ASSERT(tc_result_new(&r, &err) == 0);
    TC_ASSERT(tc_durable_snapshot(s, &address, r, &text, &err) == 0);
    tci_buf_init(b, TCI_BUF_MAX);
    tci_buf_append_str(b, text);
    TC_ASSERT(tci_buf_ok(b));
    tc_result_free(r);
}

static void keep_ops(void *user, const tc_commit *commit)
{
    tci_buf *ops = user;
    for (size_t i = 0; i < commit->ndocs; i++)
        tci_buf_append_str(ops, commit->docs[i].ops);
}

/* old with the operations, as another program that reads the storage would make it. */
static void check_ops(tc_str old, tc_str ops, tc_str value)
{
    tci_tree tree;
    tci_arena a;
    tci_buf made;
    tc_err err;
    tci_arena_init(&a, 0);
    TC_ASSERT(tci_tree_parse(old, TCI_JSON_DURABLE, &tree, &err) == 0);
    TC_ASSERT(ops.len == 0 || tci_delta_apply(&tree, ops, &a, &err) == 0);
    put(&made, &tree.root);
    TC_ASSERT(tci_str_eq(tci_buf_str(&made), value));
    tci_buf_done(&made);
    tci_tree_done(&tree);
    tci_arena_done(&a);
}

static void try_changes(tc_durable *s, tc_str changes)
{
    tci_buf before, after, ops;
    tc_listener *listener;
    tc_doc *d;
    tc_err err;
    snapshot(s, &before);
    tc_tx *tx = begin(s, &d);
    change_all(d, changes);
    tc_tx_rollback(tx);
    snapshot(s, &after);
    TC_ASSERT(tci_str_eq(tci_buf_str(&before), tci_buf_str(&after)));
    tci_buf_done(&after);

    tci_buf_init(&ops, TCI_BUF_MAX);
    TC_ASSERT(tc_durable_on_commit(s, keep_ops, &ops, &listener, &err) == 0);
    tx = begin(s, &d);
    change_all(d, changes);
    put(&after, tc_doc_value(d));
    TC_ASSERT(tc_tx_commit(tx, &err) == 0);
    tc_listener_remove(listener);
    check_ops(tci_buf_str(&before), tci_buf_str(&ops), tci_buf_str(&after));
    tci_buf_done(&before);
    snapshot(s, &before);
    TC_ASSERT(tci_str_eq(tci_buf_str(&before), tci_buf_str(&after)));
    tci_buf_done(&before);
    tci_buf_done(&after);
    tci_buf_done(&ops);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tc_str rest = tci_str_of(data, size), value;
    tc_durable_options options = {.size = sizeof options, .durability = TC_DURABILITY_NORMAL};
    tc_durable *s;
    tc_doc *d;
    tc_err err;
    if (!tci_str_split(&rest, '\n', &value))
        return 0;
    TC_ASSERT(tc_durable_open(TC_STR(":memory:"), &options, &s, &err) == 0);
    tc_tx *tx = begin(s, &d);
    int rc = tc_doc_replace(d, value, &err);
    TC_ASSERT(rc == 0 || rc == TC_E_INVALID || rc == TC_E_TOO_BIG);
    TC_ASSERT(tc_tx_commit(tx, &err) == 0);
    try_changes(s, rest);
    tc_durable_free(s);
    return 0;
}
