/* SPDX-License-Identifier: Apache-2.0
 *
 * Changes of a document's value in a transaction. Each is made in the tree itself, with a way back,
 * and is written down as one operation: those are what is stored, so a change costs what it says and not
 * what the document holds. Leaves what becomes of the operations to commit.c. The thread that has the
 * line. Invariant: the operations written down lead from the committed value to the tree. */
#include "session/session_int.h"

#include "base/utf8.h"

static int check_open(const tc_doc *d, tc_err *err)
{
    int rc = tci_tx_check(d->tx, err);
    if (rc < 0)
        return rc;
    if (!d->is_retired)
        return 0;
    return tc_err_set(err, TC_E_CONFLICT, "document '%.*s' is retired in this transaction",
                      TC_STR_ARG(d->address.kind));
}

/* One replacement stands for everything from here on. */
static void note_whole(tc_doc *d)
{
    d->is_whole = true;
    d->nops = 0;
    tci_buf_clear(&d->ops);
}

static void note(tc_doc *d, const tci_op *op)
{
    if (d->is_whole)
        return;
    if (op->kind == TCI_OP_REPLACE || d->nops >= TCI_DELTA_OPS_MAX) {
        note_whole(d);
        return;
    }
    tci_buf_append_byte(&d->ops, d->nops == 0 ? '[' : ',');
    tci_op_put(&d->ops, op);
    d->nops++;
    if (!tci_buf_ok(&d->ops))
        note_whole(d);
}

static int apply(tc_doc *d, const tci_op *op, tc_err *err)
{
    bool is_new = d->target == TCI_TARGET_CREATED;
    int rc = tci_op_apply(&d->loaded->value, op, is_new ? NULL : &d->undo, err);
    if (rc < 0)
        return tc_err_wrap(err, "document '%.*s'", TC_STR_ARG(d->address.kind));
    if (!is_new)
        note(d, op);
    return 0;
}

uint64_t tc_doc_id(const tc_doc *doc)
{
    return doc->loaded->record.id;
}

bool tc_doc_is_new(const tc_doc *doc)
{
    return doc->target == TCI_TARGET_CREATED;
}

const tci_json *tc_doc_value(const tc_doc *doc)
{
    return &doc->loaded->value.root;
}

/* ---- with values ---- */

/* UTF-8, or a lone surrogate as three bytes. */
static bool is_wtf8(tc_str text)
{
    for (;;) {
        size_t n = tci_utf8_valid_prefix(text);
        if (n == text.len)
            return true;
        const unsigned char *p = (const unsigned char *)text.ptr + n;
        if (text.len - n < 3 || p[0] != 0xed || p[1] < 0xa0 || p[1] > 0xbf || (p[2] & 0xc0) != 0x80)
            return false;
        text = tci_str_sub(text, n + 3, text.len);
    }
}

static int check_path(const tci_step *path, size_t nsteps, tc_err *err)
{
    for (size_t i = 0; i < nsteps; i++) {
        if (path[i].is_index)
            continue;
        if (tci_op_key_is_reserved(path[i].key))
            return tc_err_set(err, TC_E_INVALID, "'%.*s' cannot be a step of a path",
                              TC_STR_ARG(path[i].key));
        if (!is_wtf8(path[i].key))
            return tc_err_set(err, TC_E_INVALID, "a step of a path is not UTF-8");
    }
    return 0;
}

static int replace(tc_doc *d, const tci_json *value, tc_err *err)
{
    if (value->kind != TCI_JSON_OBJECT)
        return tc_err_set(err, TC_E_INVALID, "the value of a document is an object");
    if (tci_json_equal(&d->loaded->value.root, value))
        return 0;
    tci_op op = {.kind = TCI_OP_REPLACE, .value = value};
    return apply(d, &op, err);
}

/* The longer text where the old one is its beginning: only the rest is a change. */
static bool continues(const tci_json *old, const tci_json *value)
{
    return old->kind == TCI_JSON_STRING && value->kind == TCI_JSON_STRING && old->u.text.len > 0 &&
           tci_str_starts(value->u.text, old->u.text) &&
           ((unsigned char)value->u.text.ptr[old->u.text.len] & 0xc0) != 0x80;
}

int tci_doc_set(tc_doc *d, const tci_step *path, size_t nsteps, const tci_json *value, tc_err *err)
{
    int rc = check_open(d, err);
    if (rc == 0)
        rc = check_path(path, nsteps, err);
    if (rc < 0)
        return rc;
    if (nsteps == 0)
        return replace(d, value, err);
    const tci_json *old = tci_json_at(&d->loaded->value.root, path, nsteps);
    if (old != NULL && tci_json_equal(old, value))
        return 0;
    tci_op op = {.kind = TCI_OP_SET, .path = path, .nsteps = nsteps, .value = value};
    if (old != NULL && continues(old, value)) {
        op.kind = TCI_OP_APPEND;
        op.text = tci_str_sub(value->u.text, old->u.text.len, value->u.text.len);
        op.value = NULL;
    }
    return apply(d, &op, err);
}

int tci_doc_delete(tc_doc *d, const tci_step *path, size_t nsteps, tc_err *err)
{
    int rc = check_open(d, err);
    if (rc == 0)
        rc = check_path(path, nsteps, err);
    if (rc < 0)
        return rc;
    if (nsteps == 0)
        return tc_err_set(err, TC_E_INVALID,
                          "the value of a document cannot be deleted: retire it");
    tci_op op = {.kind = TCI_OP_DELETE, .path = path, .nsteps = nsteps};
    /* an absent member of an object that is there: nothing to do and nothing to store */
    const tci_json *parent = tci_json_at(&d->loaded->value.root, path, nsteps - 1);
    if (parent != NULL && parent->kind == TCI_JSON_OBJECT &&
        tci_json_at(parent, path + nsteps - 1, 1) == NULL)
        return 0;
    return apply(d, &op, err);
}

int tci_doc_append(tc_doc *d, const tci_step *path, size_t nsteps, tc_str text, tc_err *err)
{
    int rc = check_open(d, err);
    if (rc == 0)
        rc = check_path(path, nsteps, err);
    if (rc < 0)
        return rc;
    const tci_json *old = tci_json_at(&d->loaded->value.root, path, nsteps);
    if (old == NULL || old->kind != TCI_JSON_STRING || nsteps == 0)
        return tc_err_set(err, TC_E_INVALID, "there is no text to append to");
    if (text.len == 0)
        return 0;
    if (!is_wtf8(text))
        return tc_err_set(err, TC_E_INVALID, "the text to append is not UTF-8");
    tci_op op = {.kind = TCI_OP_APPEND, .path = path, .nsteps = nsteps, .text = text};
    return apply(d, &op, err);
}

/* How many characters the first nbytes are; false: cut inside one, or one is outside the BMP, where
 * readers differ in how they count it. */
static bool count_units(tc_str text, size_t nbytes, uint64_t *ret_n)
{
    uint64_t n = 0;
    for (size_t i = 0; i < nbytes; i++) {
        unsigned char c = (unsigned char)text.ptr[i];
        if (c >= 0xf0)
            return false;
        n += (c & 0xc0) != 0x80;
    }
    *ret_n = n;
    return true;
}

int tci_doc_trim(tc_doc *d, const tci_step *path, size_t nsteps, size_t nbytes, tc_err *err)
{
    int rc = check_open(d, err);
    if (rc == 0)
        rc = check_path(path, nsteps, err);
    if (rc < 0)
        return rc;
    const tci_json *old = tci_json_at(&d->loaded->value.root, path, nsteps);
    if (old == NULL || old->kind != TCI_JSON_STRING || nsteps == 0 || nbytes > old->u.text.len)
        return tc_err_set(err, TC_E_INVALID, "there is no text of that length to trim");
    tc_str text = old->u.text;
    if (nbytes < text.len && ((unsigned char)text.ptr[nbytes] & 0xc0) == 0x80)
        return tc_err_set(err, TC_E_INVALID, "a text is trimmed between characters");
    if (nbytes == 0)
        return 0;
    tci_op op = {.kind = TCI_OP_TRIM, .path = path, .nsteps = nsteps};
    if (count_units(text, nbytes, &op.count))
        return apply(d, &op, err);
    tci_json rest = {.kind = TCI_JSON_STRING};
    rc = tci_arena_dup(&d->tx->arena, tci_str_sub(text, nbytes, text.len), &rest.u.text, err);
    if (rc < 0)
        return rc;
    op = (tci_op){.kind = TCI_OP_SET, .path = path, .nsteps = nsteps, .value = &rest};
    return apply(d, &op, err);
}

int tci_doc_splice(tc_doc *d, const tci_step *path, size_t nsteps, size_t index, size_t nremove,
                   const tci_json *items, tc_err *err)
{
    int rc = check_open(d, err);
    if (rc == 0)
        rc = check_path(path, nsteps, err);
    if (rc < 0)
        return rc;
    if (items->kind != TCI_JSON_ARRAY)
        return tc_err_set(err, TC_E_INVALID, "the items of a splice are an array");
    tci_op op = {.kind = TCI_OP_SPLICE,
                 .path = path,
                 .nsteps = nsteps,
                 .value = items,
                 .index = index,
                 .nremove = nremove};
    return apply(d, &op, err);
}

/* ---- with text ---- */

static int parse_value(tc_doc *d, tc_str json, tci_json *ret, tc_err *err)
{
    int rc = tci_json_parse(json, TCI_JSON_DURABLE, &d->tx->arena, ret, err);
    if (rc == 0)
        return 0;
    tc_err_wrap(err, "a value for document '%.*s'", TC_STR_ARG(d->address.kind));
    return tc_err_recode(err, rc == TC_E_PARSE ? TC_E_INVALID : (tc_code)rc);
}

static int steps_of(tc_doc *d, tc_str pointer, tci_step **ret_path, size_t *ret_n, tc_err *err)
{
    int rc = check_open(d, err);
    if (rc < 0)
        return rc;
    return tci_json_pointer(pointer, &d->loaded->value.root, &d->tx->arena, ret_path, ret_n, err);
}

/* "/items/-": the end of an array. */
static const tci_json *end_of_array(const tc_doc *d, const tci_step *path, size_t nsteps)
{
    if (nsteps == 0 || path[nsteps - 1].is_index || !tci_str_eq(path[nsteps - 1].key, TC_STR("-")))
        return NULL;
    const tci_json *parent = tci_json_at(&d->loaded->value.root, path, nsteps - 1);
    return parent != NULL && parent->kind == TCI_JSON_ARRAY ? parent : NULL;
}

int tc_doc_set(tc_doc *doc, tc_str pointer, tc_str json, tc_err *err)
{
    tci_step *path = NULL;
    size_t nsteps = 0;
    tci_json value;
    int rc = steps_of(doc, pointer, &path, &nsteps, err);
    if (rc == 0)
        rc = parse_value(doc, json, &value, err);
    if (rc < 0)
        return rc;
    const tci_json *array = end_of_array(doc, path, nsteps);
    if (array == NULL)
        return tci_doc_set(doc, path, nsteps, &value, err);
    tci_json items = {.kind = TCI_JSON_ARRAY, .count = 1, .u.items = &value};
    return tci_doc_splice(doc, path, nsteps - 1, array->count, 0, &items, err);
}

int tc_doc_delete(tc_doc *doc, tc_str pointer, tc_err *err)
{
    tci_step *path = NULL;
    size_t nsteps = 0;
    int rc = steps_of(doc, pointer, &path, &nsteps, err);
    return rc < 0 ? rc : tci_doc_delete(doc, path, nsteps, err);
}

int tc_doc_append(tc_doc *doc, tc_str pointer, tc_str text, tc_err *err)
{
    tci_step *path = NULL;
    size_t nsteps = 0;
    int rc = steps_of(doc, pointer, &path, &nsteps, err);
    return rc < 0 ? rc : tci_doc_append(doc, path, nsteps, text, err);
}

int tc_doc_trim(tc_doc *doc, tc_str pointer, size_t nbytes, tc_err *err)
{
    tci_step *path = NULL;
    size_t nsteps = 0;
    int rc = steps_of(doc, pointer, &path, &nsteps, err);
    return rc < 0 ? rc : tci_doc_trim(doc, path, nsteps, nbytes, err);
}

int tc_doc_splice(tc_doc *doc, tc_str pointer, size_t index, size_t nremove, tc_str items,
                  tc_err *err)
{
    tci_step *path = NULL;
    size_t nsteps = 0;
    tci_json value;
    int rc = steps_of(doc, pointer, &path, &nsteps, err);
    if (rc == 0)
        rc = parse_value(doc, items, &value, err);
    return rc < 0 ? rc : tci_doc_splice(doc, path, nsteps, index, nremove, &value, err);
}

int tc_doc_reorder(tc_doc *doc, tc_str pointer, const size_t *order, size_t norder, tc_err *err)
{
    tci_step *path = NULL;
    size_t nsteps = 0;
    int rc = steps_of(doc, pointer, &path, &nsteps, err);
    if (rc == 0)
        rc = check_path(path, nsteps, err);
    if (rc < 0)
        return rc;
    tci_op op = {
        .kind = TCI_OP_REORDER, .path = path, .nsteps = nsteps, .order = order, .norder = norder};
    return apply(doc, &op, err);
}

int tc_doc_replace(tc_doc *doc, tc_str json, tc_err *err)
{
    tci_json value;
    int rc = check_open(doc, err);
    if (rc == 0)
        rc = parse_value(doc, json, &value, err);
    return rc < 0 ? rc : replace(doc, &value, err);
}
