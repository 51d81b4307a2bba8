/* SPDX-License-Identifier: Apache-2.0
 *
 * Delta operations between their JSON form, their decoded form and a tree. Leaves changing values
 * to base/json_tree.h, and which operations to write to whoever edits a document. Any thread.
 * Invariant: an operation that was decoded is well formed; whether its path exists is seen when it
 * is applied. */
#include "store/delta.h"
#include "base/num.h"

/* What each kind is made of, behind its letter and (but for "r") its path. */
typedef enum operand {
    OPERAND_NONE,
    OPERAND_VALUE,
    OPERAND_TEXT,
    OPERAND_COUNT,
    OPERAND_SPLICE, /* index, remove, items */
    OPERAND_ORDER
} operand;

static const struct {
    char letter;
    bool has_path, may_be_root;
    operand operand;
    uint32_t nparts;
} shapes[] = {
    [TCI_OP_REPLACE] = {'r', false, true, OPERAND_VALUE, 2},
    [TCI_OP_SET] = {'s', true, false, OPERAND_VALUE, 3},
    [TCI_OP_DELETE] = {'d', true, false, OPERAND_NONE, 2},
    [TCI_OP_APPEND] = {'a', true, false, OPERAND_TEXT, 3},
    [TCI_OP_TRIM] = {'t', true, false, OPERAND_COUNT, 3},
    [TCI_OP_SPLICE] = {'p', true, true, OPERAND_SPLICE, 5},
    [TCI_OP_REORDER] = {'m', true, true, OPERAND_ORDER, 3},
};

bool tci_op_key_is_reserved(tc_str key)
{
    return tci_str_eq(key, TC_STR("__proto__")) || tci_str_eq(key, TC_STR("constructor")) ||
           tci_str_eq(key, TC_STR("prototype"));
}

static int bad(tc_err *err, const char *what)
{
    return tc_err_set(err, TC_E_INVALID, "bad delta operation: %s", what);
}

static bool as_size(const tci_json *v, size_t *ret)
{
    uint64_t n;
    if (!tci_json_as_u64(v, &n) || n > SIZE_MAX)
        return false;
    *ret = (size_t)n;
    return true;
}

/* ---- from JSON ---- */

static int read_path(const tci_json *v, bool may_be_empty, tci_arena *a, tci_op *op, tc_err *err)
{
    if (v->kind != TCI_JSON_ARRAY)
        return bad(err, "the path is no array");
    if (v->count == 0)
        return may_be_empty ? 0 : bad(err, "the path is empty");
    tci_step *path = tci_arena_items(a, tci_step, v->count);
    if (path == NULL)
        return tci_arena_error(a, err);
    for (uint32_t i = 0; i < v->count; i++) {
        const tci_json *step = &v->u.items[i];
        if (tci_json_as_str(step, &path[i].key)) {
            if (tci_op_key_is_reserved(path[i].key))
                return bad(err, "an unsafe step in the path");
        } else if (as_size(step, &path[i].index)) {
            path[i].is_index = true;
        } else {
            return bad(err, "a step of the path is neither a key nor an index");
        }
    }
    op->path = path;
    op->nsteps = v->count;
    return 0;
}

static int read_order(const tci_json *v, tci_arena *a, tci_op *op, tc_err *err)
{
    if (v->kind != TCI_JSON_ARRAY)
        return bad(err, "the order is no array");
    op->norder = v->count;
    if (v->count == 0)
        return 0;
    size_t *order = tci_arena_items(a, size_t, v->count);
    bool *is_used = tci_arena_items(a, bool, v->count);
    if (order == NULL || is_used == NULL)
        return tci_arena_error(a, err);
    for (uint32_t i = 0; i < v->count; i++) {
        if (!as_size(&v->u.items[i], &order[i]) || order[i] >= v->count || is_used[order[i]])
            return bad(err, "the order does not name each item once");
        is_used[order[i]] = true;
    }
    op->order = order;
    return 0;
}

static int read_operand(operand what, const tci_json *v, tci_arena *a, tci_op *op, tc_err *err)
{
    switch (what) {
    case OPERAND_NONE:
        return 0;
    case OPERAND_VALUE:
        op->value = v;
        return 0;
    case OPERAND_TEXT:
        return tci_json_as_str(v, &op->text) ? 0 : bad(err, "what to append is no string");
    case OPERAND_COUNT:
        return tci_json_as_u64(v, &op->count) ? 0 : bad(err, "a count is no whole number");
    case OPERAND_SPLICE:
        if (!as_size(v, &op->index) || !as_size(v + 1, &op->nremove))
            return bad(err, "the index or the number to remove is no whole number");
        op->value = v + 2;
        return v[2].kind == TCI_JSON_ARRAY ? 0 : bad(err, "the items are no array");
    case OPERAND_ORDER:
        return read_order(v, a, op, err);
    }
    return bad(err, "unknown");
}

int tci_op_of(const tci_json *v, tci_arena *a, tci_op *ret, tc_err *err)
{
    tc_str letter;
    if (v->kind != TCI_JSON_ARRAY || v->count == 0 || !tci_json_as_str(&v->u.items[0], &letter))
        return bad(err, "it is no array that begins with a letter");
    for (size_t kind = 0; kind < TCI_ARRAY_LEN(shapes); kind++) {
        if (letter.len != 1 || letter.ptr[0] != shapes[kind].letter)
            continue;
        if (v->count != shapes[kind].nparts)
            return bad(err, "a wrong number of parts");
        tci_op op = {.kind = (tci_op_kind)kind};
        const tci_json *rest = &v->u.items[1];
        int rc = 0;
        if (shapes[kind].has_path)
            rc = read_path(rest++, shapes[kind].may_be_root, a, &op, err);
        if (rc == 0)
            rc = read_operand(shapes[kind].operand, rest, a, &op, err);
        if (rc == 0)
            *ret = op;
        return rc;
    }
    return bad(err, "an unknown letter");
}

int tci_ops_of(const tci_json *v, tci_arena *a, tci_op **ret, size_t *ret_count, tc_err *err)
{
    if (v->kind != TCI_JSON_ARRAY)
        return bad(err, "a delta is an array");
    tci_op *ops = tci_arena_items(a, tci_op, v->count);
    if (ops == NULL)
        return tci_arena_error(a, err);
    for (uint32_t i = 0; i < v->count; i++) {
        int rc = tci_op_of(&v->u.items[i], a, &ops[i], err);
        if (rc < 0)
            return tc_err_wrap(err, "operation %u", i);
    }
    *ret = ops;
    *ret_count = v->count;
    return 0;
}

/* ---- to a tree ---- */

int tci_op_apply(tci_tree *t, const tci_op *op, tci_undo *undo, tc_err *err)
{
    switch (op->kind) {
    case TCI_OP_REPLACE:
        return tci_tree_set(t, NULL, 0, op->value, undo, err);
    case TCI_OP_SET:
        return tci_tree_set(t, op->path, op->nsteps, op->value, undo, err);
    case TCI_OP_DELETE:
        return tci_tree_delete(t, op->path, op->nsteps, undo, err);
    case TCI_OP_APPEND:
        return tci_tree_append(t, op->path, op->nsteps, op->text, undo, err);
    case TCI_OP_TRIM:
        return tci_tree_trim(t, op->path, op->nsteps, op->count, undo, err);
    case TCI_OP_SPLICE:
        return tci_tree_splice(t, op->path, op->nsteps, op->index, op->nremove, op->value, undo,
                               err);
    case TCI_OP_REORDER:
        return tci_tree_reorder(t, op->path, op->nsteps, op->order, op->norder, undo, err);
    }
    return bad(err, "unknown");
}

int tci_ops_apply(tci_tree *t, const tci_op *ops, size_t nops, tc_err *err)
{
    tci_undo undo = {0};
    for (size_t i = 0; i < nops; i++) {
        int rc = tci_op_apply(t, &ops[i], &undo, err);
        if (rc < 0) {
            tci_tree_undo(t, &undo);
            return tc_err_wrap(err, "operation %zu", i);
        }
    }
    tci_undo_done(&undo);
    return 0;
}

static int read_delta(tc_str json, tci_arena *a, tci_op **ret, size_t *ret_count, tc_err *err)
{
    tci_json v;
    tci_arena_clear(a);
    int rc = tci_json_parse(json, TCI_JSON_DURABLE, a, &v, err);
    return rc < 0 ? rc : tci_ops_of(&v, a, ret, ret_count, err);
}

int tci_delta_apply(tci_tree *t, tc_str json, tci_arena *scratch, tc_err *err)
{
    tci_op *ops;
    size_t nops;
    int rc = read_delta(json, scratch, &ops, &nops, err);
    return rc < 0 ? rc : tci_ops_apply(t, ops, nops, err);
}

int tci_delta_check(tc_str json, tci_arena *scratch, tc_err *err)
{
    tci_op *ops;
    size_t nops;
    return read_delta(json, scratch, &ops, &nops, err);
}

/* ---- to JSON ---- */

static void put_path(tci_buf *b, const tci_op *op)
{
    tci_buf_append_str(b, TC_STR(",["));
    for (size_t i = 0; i < op->nsteps; i++) {
        if (i > 0)
            tci_buf_append_byte(b, ',');
        if (op->path[i].is_index)
            tci_buf_append_u64(b, op->path[i].index);
        else
            tci_json_put_str(b, op->path[i].key);
    }
    tci_buf_append_byte(b, ']');
}

static void put_order(tci_buf *b, const tci_op *op)
{
    tci_buf_append_str(b, TC_STR(",["));
    for (size_t i = 0; i < op->norder; i++) {
        if (i > 0)
            tci_buf_append_byte(b, ',');
        tci_buf_append_u64(b, op->order[i]);
    }
    tci_buf_append_byte(b, ']');
}

static void put_number(tci_buf *b, uint64_t n)
{
    tci_buf_append_byte(b, ',');
    tci_buf_append_u64(b, n);
}

void tci_op_put(tci_buf *b, const tci_op *op)
{
    const char head[] = {'[', '"', shapes[op->kind].letter, '"'};
    tci_buf_append(b, head, sizeof head);
    if (shapes[op->kind].has_path)
        put_path(b, op);
    switch (shapes[op->kind].operand) {
    case OPERAND_NONE:
        break;
    case OPERAND_VALUE:
        tci_buf_append_byte(b, ',');
        tci_json_put(b, op->value, TCI_JSON_AS_IS);
        break;
    case OPERAND_TEXT:
        tci_buf_append_byte(b, ',');
        tci_json_put_str(b, op->text);
        break;
    case OPERAND_COUNT:
        put_number(b, op->count);
        break;
    case OPERAND_SPLICE:
        put_number(b, op->index);
        put_number(b, op->nremove);
        tci_buf_append_byte(b, ',');
        tci_json_put(b, op->value, TCI_JSON_AS_IS);
        break;
    case OPERAND_ORDER:
        put_order(b, op);
        break;
    }
    tci_buf_append_byte(b, ']');
}

void tci_ops_put(tci_buf *b, const tci_op *ops, size_t nops)
{
    tci_buf_append_byte(b, '[');
    for (size_t i = 0; i < nops; i++) {
        if (i > 0)
            tci_buf_append_byte(b, ',');
        tci_op_put(b, &ops[i]);
    }
    tci_buf_append_byte(b, ']');
}
