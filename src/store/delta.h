/* SPDX-License-Identifier: Apache-2.0
 *
 * Delta operations: the ordered changes that lead from one revision of a document to the next,
 * as JSON arrays (["s",["tools",0,"status"],"running"]) and as values.
 *
 *     replace ["r",value]               trim    ["t",path,count]
 *     set     ["s",path,value]          splice  ["p",path,index,remove,items]
 *     delete  ["d",path]                reorder ["m",path,order]
 *     append  ["a",path,text]
 *
 * A path is an array of keys (strings) and indexes (integers). Numbers in values stay the tokens
 * they were. Any thread; a tree by one at a time. */
#ifndef TCI_STORE_DELTA_H
#define TCI_STORE_DELTA_H

#include "base/json_tree.h"

typedef enum tci_op_kind {
    TCI_OP_REPLACE,
    TCI_OP_SET,
    TCI_OP_DELETE,
    TCI_OP_APPEND,
    TCI_OP_TRIM,
    TCI_OP_SPLICE,
    TCI_OP_REORDER
} tci_op_kind;

/* One operation. What a kind does not use is zero. Everything it points at is borrowed.
 *   path, nsteps  where; not of REPLACE
 *   value         of REPLACE and SET; of SPLICE the items, an array
 *   text          of APPEND
 *   count         of TRIM, in characters (code points)
 *   index, nremove  of SPLICE
 *   order, norder   of REORDER: new[i] = old[order[i]] */
typedef struct tci_op {
    tci_op_kind kind;
    const tci_step *path;
    size_t nsteps;
    const tci_json *value;
    tc_str text;
    uint64_t count;
    size_t index, nremove;
    const size_t *order;
    size_t norder;
} tci_op;

/* Writers replace a longer batch by one "r". Readers take any length. */
enum { TCI_DELTA_OPS_MAX = 4096 };

/* Is this key refused as a step of a path (it may well be a key of a value)? */
bool tci_op_key_is_reserved(tc_str key);

/* The operation a JSON array says. What it points at lies in v (parse with
 * TCI_JSON_KEEP_SURROGATES) and in a. INVALID: arity, types, an unsafe or empty path, an order that
 * is none. NO_MEMORY, TOO_BIG: the arena. */
int tci_op_of(const tci_json *v, tci_arena *a, tci_op *ret, tc_err *err) TC_CHECKED;
/* All of an array of operations. */
int tci_ops_of(const tci_json *v, tci_arena *a, tci_op **ret, size_t *ret_count,
               tc_err *err) TC_CHECKED;

/* Change the tree. undo as in base/json_tree.h: NULL when there is no way back. INVALID: what the path
 * names is missing or of another kind; then nothing has changed. */
int tci_op_apply(tci_tree *t, const tci_op *op, tci_undo *undo, tc_err *err) TC_CHECKED;
/* All of them, in order, or none: a failure leaves the tree as it was (the number of the operation is in
 * the message). */
int tci_ops_apply(tci_tree *t, const tci_op *ops, size_t nops, tc_err *err) TC_CHECKED;
/* The same from text: what a stored delta holds. scratch is cleared. */
int tci_delta_apply(tci_tree *t, tc_str json, tci_arena *scratch, tc_err *err) TC_CHECKED;
/* Is the text an array of well-formed operations? INVALID or PARSE when not. scratch is cleared. */
int tci_delta_check(tc_str json, tci_arena *scratch, tc_err *err) TC_CHECKED;

/* One operation as JSON, compact. A batch is written as "[", operations with commas, "]". */
void tci_op_put(tci_buf *b, const tci_op *op);
void tci_ops_put(tci_buf *b, const tci_op *ops, size_t nops);

#endif
