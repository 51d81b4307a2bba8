/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON values that own their memory and change in place. Leaves parsing, writing and looking up to
 * json.c; knows nothing of documents. One thread at a time.
 *
 * Invariant: every text, item and member list of a tree is a block of its own with its capacity in
 * front (block_head), or NULL when it is empty and never held anything; and an undo step finds the
 * tree exactly as it was after the change it takes back. */
#include "base/json_tree.h"

#include "base/num.h"

/* ---- blocks ---- */

typedef struct block_head {
    size_t cap; /* bytes of text, or number of items or members */
} block_head;
enum { HEAD = 16 }; /* keeps what follows aligned for any object */
_Static_assert(sizeof(block_head) <= HEAD, "the head fits");

static block_head *head_of(const void *block)
{
    return (block_head *)((uintptr_t)block - HEAD);
}

static void block_free(const void *block)
{
    if (block != NULL)
        tci_free(head_of(block));
}

/* A block with room for at least need elements; grows by half. NULL: no memory, and the old one stays. */
static void *block_room(const void *block, size_t need, size_t size)
{
    size_t cap = block != NULL ? head_of(block)->cap : 0;
    if (block != NULL && need <= cap)
        return (void *)(uintptr_t)block;
    size_t want = tci_max_u64(need, cap + cap / 2), nbytes;
    if (!tci_mul_size(want, size, &nbytes) || !tci_add_size(nbytes, HEAD, &nbytes))
        return NULL;
    block_head *h = tci_mem_resize(block != NULL ? head_of(block) : NULL, nbytes);
    if (h == NULL)
        return NULL;
    h->cap = want;
    return (char *)h + HEAD;
}

static int text_of(tc_str from, tc_str *ret)
{
    *ret = (tc_str){NULL, 0};
    if (from.len == 0)
        return 0;
    char *block = block_room(NULL, from.len, 1);
    if (block == NULL)
        return -1;
    memcpy(block, from.ptr, from.len);
    *ret = tci_str_of(block, from.len);
    return 0;
}

/* ---- whole values ---- */

static tci_json *items_of(const tci_json *v)
{
    return (tci_json *)(uintptr_t)v->u.items;
}

static tci_json_member *members_of(const tci_json *v)
{
    return (tci_json_member *)(uintptr_t)v->u.members;
}

static void value_done(tci_json *v)
{
    switch (v->kind) {
    case TCI_JSON_NUMBER:
    case TCI_JSON_STRING:
        block_free(v->u.text.ptr);
        break;
    case TCI_JSON_ARRAY:
        for (uint32_t i = 0; i < v->count; i++)
            value_done(&items_of(v)[i]);
        block_free(v->u.items);
        break;
    case TCI_JSON_OBJECT:
        for (uint32_t i = 0; i < v->count; i++) {
            block_free(v->u.members[i].key.ptr);
            value_done(&members_of(v)[i].value);
        }
        block_free(v->u.members);
        break;
    case TCI_JSON_NULL:
    case TCI_JSON_FALSE:
    case TCI_JSON_TRUE:
        break;
    }
    *v = TCI_TREE_NONE.root;
}

static int value_of(const tci_json *from, tci_json *ret);

static int items_copy(const tci_json *from, tci_json *to)
{
    tci_json *items = block_room(NULL, from->count, sizeof *items);
    if (items == NULL)
        return -1;
    to->u.items = items;
    for (; to->count < from->count; to->count++) {
        if (value_of(&from->u.items[to->count], &items[to->count]) < 0)
            return -1;
    }
    return 0;
}

static int members_copy(const tci_json *from, tci_json *to)
{
    tci_json_member *members = block_room(NULL, from->count, sizeof *members);
    if (members == NULL)
        return -1;
    to->u.members = members;
    for (; to->count < from->count; to->count++) {
        const tci_json_member *m = &from->u.members[to->count];
        tc_str key;
        if (text_of(m->key, &key) < 0)
            return -1;
        if (value_of(&m->value, &members[to->count].value) < 0) {
            block_free(key.ptr);
            return -1;
        }
        members[to->count].key = key;
    }
    return 0;
}

/* A deep copy; on failure nothing is left over. */
static int value_of(const tci_json *from, tci_json *ret)
{
    tci_json to = {.kind = from->kind};
    int failed = 0;
    if (from->kind == TCI_JSON_NUMBER || from->kind == TCI_JSON_STRING)
        failed = text_of(from->u.text, &to.u.text);
    else if (from->count == 0)
        to.u.items = NULL;
    else if (from->kind == TCI_JSON_ARRAY)
        failed = items_copy(from, &to);
    else if (from->kind == TCI_JSON_OBJECT)
        failed = members_copy(from, &to);
    if (failed < 0) {
        value_done(&to);
        return -1;
    }
    *ret = to;
    return 0;
}

int tci_tree_of(const tci_json *v, tci_tree *ret, tc_err *err)
{
    tci_json copy;
    if (value_of(v, &copy) < 0)
        return tci_err_no_memory(err);
    ret->root = copy;
    return 0;
}

int tci_tree_parse(tc_str text, unsigned flags, tci_tree *ret, tc_err *err)
{
    tci_arena a;
    tci_arena_init(&a, 0);
    tci_json v;
    int rc = tci_json_parse(text, flags, &a, &v, err);
    if (rc == 0)
        rc = tci_tree_of(&v, ret, err);
    tci_arena_done(&a);
    return rc;
}

void tci_tree_done(tci_tree *t)
{
    value_done(&t->root);
}

/* ---- paths ---- */

static tci_json *member_of(const tci_json *v, tc_str key)
{
    return (tci_json *)(uintptr_t)tci_json_get(v, key);
}

const tci_json *tci_json_at(const tci_json *v, const tci_step *path, size_t nsteps)
{
    for (size_t i = 0; i < nsteps && v != NULL; i++) {
        if (path[i].is_index)
            v = v->kind == TCI_JSON_ARRAY && path[i].index < v->count ? &v->u.items[path[i].index]
                                                                      : NULL;
        else
            v = tci_json_get(v, path[i].key);
    }
    return v;
}

static tci_json *at(tci_tree *t, const tci_step *path, size_t nsteps)
{
    return (tci_json *)(uintptr_t)tci_json_at(&t->root, path, nsteps);
}

/* "~1" is "/", "~0" is "~". */
static int unescape(tc_str part, tci_arena *a, tc_str *ret, tc_err *err)
{
    if (tci_str_find_byte(part, '~') == part.len)
        return tci_arena_dup(a, part, ret, err);
    char *out = tci_arena_bytes(a, part.len);
    if (out == NULL)
        return tci_arena_error(a, err);
    size_t n = 0;
    for (size_t i = 0; i < part.len; i++) {
        char c = part.ptr[i];
        if (c == '~') {
            char next = i + 1 < part.len ? part.ptr[++i] : 0;
            if (next != '0' && next != '1')
                return tc_err_set(err, TC_E_INVALID, "JSON pointer: '~' is neither '~0' nor '~1'");
            c = next == '0' ? '~' : '/';
        }
        out[n++] = c;
    }
    *ret = tci_str_of(out, n);
    return 0;
}

int tci_json_pointer(tc_str pointer, const tci_json *v, tci_arena *a, tci_step **ret_path,
                     size_t *ret_nsteps, tc_err *err)
{
    if (pointer.len > 0 && pointer.ptr[0] != '/')
        return tc_err_set(err, TC_E_INVALID, "JSON pointer '%.*s' does not begin with '/'",
                          TC_STR_ARG(pointer));
    size_t max = tci_str_count_byte(pointer, '/');
    if (max > TCI_PATH_STEPS_MAX)
        return tc_err_set(err, TC_E_INVALID, "JSON pointer has more than %d steps",
                          TCI_PATH_STEPS_MAX);
    tci_step *path = tci_arena_items(a, tci_step, max + 1);
    if (path == NULL)
        return tci_arena_error(a, err);
    size_t n = 0;
    tc_str rest = tci_str_sub(pointer, 1, pointer.len), part;
    while (n < max && tci_str_split(&rest, '/', &part)) {
        uint64_t index;
        tc_err ignored;
        tci_step *s = &path[n++];
        if (v != NULL && v->kind == TCI_JSON_ARRAY && tci_num_u64(part, &index, &ignored) == 0) {
            *s = (tci_step){.is_index = true, .index = index};
        } else if (unescape(part, a, &s->key, err) < 0) {
            return err->code;
        }
        v = v != NULL ? tci_json_at(v, s, 1) : NULL;
    }
    *ret_path = path;
    *ret_nsteps = n;
    return 0;
}

/* ---- undo ---- */

typedef enum undo_kind {
    UNDO_REPLACED, /* value: what was at path */
    UNDO_ADDED,    /* path: the object whose last member is new */
    UNDO_REMOVED,  /* path: the object; member index was key, value */
    UNDO_SPLICED,  /* path: the array; at index, count new items, before them value's items */
    UNDO_APPENDED, /* path: the string, which had count bytes */
    UNDO_TRIMMED,  /* path: the string, which had value's text in front */
    UNDO_ORDERED   /* path: the array; order as it was given */
} undo_kind;

typedef struct tci_undo_step {
    undo_kind kind;
    tci_step *path;
    size_t nsteps;
    size_t index, count;
    tc_str key;
    tci_json value;
    size_t *order;
} tci_undo_step;

static void path_free(tci_step *path, size_t nsteps)
{
    for (size_t i = 0; path != NULL && i < nsteps; i++)
        block_free(path[i].key.ptr);
    tci_free(path);
}

static void step_done(tci_undo_step *s)
{
    path_free(s->path, s->nsteps);
    block_free(s->key.ptr);
    value_done(&s->value);
    tci_free(s->order);
}

void tci_undo_done(tci_undo *undo)
{
    for (size_t i = 0; i < undo->count; i++)
        step_done(&undo->steps[i]);
    tci_free(undo->steps);
    *undo = (tci_undo){0};
}

static tci_step *path_of(const tci_step *path, size_t nsteps)
{
    tci_step *copy = tci_mem_array(nsteps > 0 ? nsteps : 1, sizeof *copy);
    for (size_t i = 0; copy != NULL && i < nsteps; i++) {
        copy[i] = path[i];
        copy[i].key = (tc_str){NULL, 0};
        if (!path[i].is_index && text_of(path[i].key, &copy[i].key) < 0) {
            path_free(copy, nsteps);
            return NULL;
        }
    }
    return copy;
}

/* Room for one more step, with its path filled in; the change follows, and cannot fail any more before
 * *ret is filled and undo->count counts it. undo NULL: a step that is thrown away (scratch). */
static int step_new(tci_undo *undo, undo_kind kind, const tci_step *path, size_t nsteps,
                    tci_undo_step *scratch, tci_undo_step **ret, tc_err *err)
{
    *scratch = (tci_undo_step){.kind = kind};
    *ret = scratch;
    if (undo == NULL)
        return 0;
    if (undo->count == undo->cap) {
        size_t cap = undo->cap > 0 ? undo->cap * 2 : 4;
        tci_undo_step *steps = tci_mem_resize(undo->steps, cap * sizeof *steps);
        if (steps == NULL)
            return tci_err_no_memory(err);
        undo->steps = steps;
        undo->cap = cap;
    }
    scratch->path = path_of(path, nsteps);
    if (scratch->path == NULL)
        return tci_err_no_memory(err);
    scratch->nsteps = nsteps;
    undo->steps[undo->count] = *scratch;
    *ret = &undo->steps[undo->count];
    return 0;
}

/* The change is made: keep its step, or free what it replaced. */
static void step_keep(tci_undo *undo, tci_undo_step *s)
{
    if (undo != NULL)
        undo->count++;
    else
        step_done(s);
}

/* The change was not made. */
static int step_drop(tci_undo_step *s, int rc)
{
    step_done(s);
    return rc;
}

static void items_shift(tci_json *v, size_t index, size_t nold, size_t nnew)
{
    tci_json *items = items_of(v);
    memmove(&items[index + nnew], &items[index + nold], (v->count - index - nold) * sizeof *items);
    v->count = (uint32_t)(v->count - nold + nnew);
}

/* Take one step back. Room is there: blocks never shrink. */
static void step_back(tci_tree *t, tci_undo_step *s)
{
    tci_json *v = at(t, s->path, s->nsteps);
    switch (s->kind) {
    case UNDO_REPLACED:
        value_done(v);
        *v = s->value;
        s->value = TCI_TREE_NONE.root;
        break;
    case UNDO_ADDED:
        v->count--;
        block_free(v->u.members[v->count].key.ptr);
        value_done(&members_of(v)[v->count].value);
        break;
    case UNDO_REMOVED: {
        tci_json_member *m = members_of(v);
        memmove(&m[s->index + 1], &m[s->index], (v->count - s->index) * sizeof *m);
        m[s->index] = (tci_json_member){s->key, s->value};
        v->count++;
        s->key = (tc_str){NULL, 0};
        s->value = TCI_TREE_NONE.root;
        break;
    }
    case UNDO_SPLICED:
        for (size_t i = 0; i < s->count; i++)
            value_done(&items_of(v)[s->index + i]);
        items_shift(v, s->index, s->count, s->value.count);
        if (s->value.count > 0)
            memcpy(&items_of(v)[s->index], s->value.u.items, s->value.count * sizeof(tci_json));
        s->value.count = 0; /* the items moved; the block goes */
        break;
    case UNDO_APPENDED:
        v->u.text.len = s->count;
        break;
    case UNDO_TRIMMED: {
        char *text = (char *)(uintptr_t)v->u.text.ptr;
        memmove(text + s->value.u.text.len, text, v->u.text.len);
        memcpy(text, s->value.u.text.ptr, s->value.u.text.len);
        v->u.text.len += s->value.u.text.len;
        break;
    }
    case UNDO_ORDERED: {
        tci_json *old = (tci_json *)(uintptr_t)s->value.u.items; /* storage of the same size */
        for (size_t i = 0; i < v->count; i++)
            old[s->order[i]] = v->u.items[i];
        if (v->count > 0)
            memcpy(items_of(v), old, v->count * sizeof *old);
        s->value.count = 0;
        break;
    }
    }
    step_done(s);
}

void tci_tree_undo(tci_tree *t, tci_undo *undo)
{
    while (undo->count > 0)
        step_back(t, &undo->steps[--undo->count]);
    tci_undo_done(undo);
}

/* ---- changes ---- */

static int no_such(const char *what, const tci_step *path, size_t nsteps, tc_err *err)
{
    if (nsteps == 0)
        return tc_err_set(err, TC_E_INVALID, "the value is not %s", what);
    const tci_step *s = &path[nsteps - 1];
    if (s->is_index)
        return tc_err_set(err, TC_E_INVALID, "path of %zu steps ending in %zu: not %s", nsteps,
                          s->index, what);
    return tc_err_set(err, TC_E_INVALID, "path of %zu steps ending in '%.*s': not %s", nsteps,
                      TC_STR_ARG(s->key), what);
}

static int add_member(tci_json *object, tc_str key, tci_json value)
{
    tci_json_member *m = block_room(object->u.members, (size_t)object->count + 1, sizeof *m);
    if (m == NULL)
        return -1;
    object->u.members = m;
    tc_str own;
    if (text_of(key, &own) < 0)
        return -1;
    m[object->count++] = (tci_json_member){own, value};
    return 0;
}

static int set_new_member(tci_tree *t, const tci_step *path, size_t nsteps, tci_json *value,
                          tci_undo *undo, tc_err *err)
{
    tci_json *object = at(t, path, nsteps - 1);
    if (path[nsteps - 1].is_index || object == NULL || object->kind != TCI_JSON_OBJECT)
        return no_such("there", path, nsteps, err);
    if (object->count == UINT32_MAX)
        return tc_err_set(err, TC_E_TOO_BIG, "object has too many members");
    tci_undo_step scratch, *s;
    if (step_new(undo, UNDO_ADDED, path, nsteps - 1, &scratch, &s, err) < 0)
        return step_drop(&scratch, err->code);
    if (add_member(object, path[nsteps - 1].key, *value) < 0)
        return step_drop(s, tci_err_no_memory(err));
    *value = TCI_TREE_NONE.root;
    step_keep(undo, s);
    return 0;
}

int tci_tree_set(tci_tree *t, const tci_step *path, size_t nsteps, const tci_json *value,
                 tci_undo *undo, tc_err *err)
{
    tci_json copy;
    if (value_of(value, &copy) < 0)
        return tci_err_no_memory(err);
    tci_json *old = at(t, path, nsteps);
    if (old == NULL) {
        int rc = set_new_member(t, path, nsteps, &copy, undo, err);
        value_done(&copy);
        return rc;
    }
    tci_undo_step scratch, *s;
    if (step_new(undo, UNDO_REPLACED, path, nsteps, &scratch, &s, err) < 0) {
        value_done(&copy);
        return step_drop(&scratch, err->code);
    }
    s->value = *old;
    *old = copy;
    step_keep(undo, s);
    return 0;
}

static int delete_member(tci_tree *t, const tci_step *path, size_t nsteps, tci_json *object,
                         tci_undo *undo, tc_err *err)
{
    const tci_json *old = member_of(object, path[nsteps - 1].key);
    if (old == NULL)
        return 0;
    (void)t; /* the object is in it */
    tci_undo_step scratch, *s;
    if (step_new(undo, UNDO_REMOVED, path, nsteps - 1, &scratch, &s, err) < 0)
        return step_drop(&scratch, err->code);
    tci_json_member *m = members_of(object);
    while (&m[s->index].value != old)
        s->index++;
    s->key = m[s->index].key;
    s->value = m[s->index].value;
    memmove(&m[s->index], &m[s->index + 1], (object->count - s->index - 1) * sizeof *m);
    object->count--;
    step_keep(undo, s);
    return 0;
}

int tci_tree_delete(tci_tree *t, const tci_step *path, size_t nsteps, tci_undo *undo, tc_err *err)
{
    if (nsteps == 0)
        return tc_err_set(err, TC_E_INVALID, "the whole value cannot be deleted");
    tci_json *parent = at(t, path, nsteps - 1);
    const tci_step *last = &path[nsteps - 1];
    if (parent != NULL && parent->kind == TCI_JSON_OBJECT && !last->is_index)
        return delete_member(t, path, nsteps, parent, undo, err);
    if (parent == NULL || parent->kind != TCI_JSON_ARRAY || !last->is_index ||
        last->index >= parent->count)
        return no_such("there", path, nsteps, err);
    tci_json none = {.kind = TCI_JSON_ARRAY};
    return tci_tree_splice(t, path, nsteps - 1, last->index, 1, &none, undo, err);
}

static tci_json *string_at(tci_tree *t, const tci_step *path, size_t nsteps)
{
    tci_json *v = at(t, path, nsteps);
    return v != NULL && v->kind == TCI_JSON_STRING ? v : NULL;
}

int tci_tree_append(tci_tree *t, const tci_step *path, size_t nsteps, tc_str text, tci_undo *undo,
                    tc_err *err)
{
    tci_json *v = string_at(t, path, nsteps);
    if (v == NULL)
        return no_such("a string", path, nsteps, err);
    size_t len;
    if (!tci_add_size(v->u.text.len, text.len, &len))
        return tc_err_set(err, TC_E_TOO_BIG, "text is too long");
    if (text.len == 0)
        return 0;
    tci_undo_step scratch, *s;
    if (step_new(undo, UNDO_APPENDED, path, nsteps, &scratch, &s, err) < 0)
        return step_drop(&scratch, err->code);
    char *block = block_room(v->u.text.ptr, len, 1);
    if (block == NULL)
        return step_drop(s, tci_err_no_memory(err));
    memcpy(block + v->u.text.len, text.ptr, text.len);
    s->count = v->u.text.len;
    v->u.text = tci_str_of(block, len);
    step_keep(undo, s);
    return 0;
}

/* Bytes of the first n characters; text.len + 1 when there are fewer. */
static size_t characters_len(tc_str text, uint64_t n)
{
    size_t i = 0;
    for (; n > 0; n--) {
        if (i == text.len)
            return text.len + 1;
        for (i++; i < text.len && ((unsigned char)text.ptr[i] & 0xc0) == 0x80;)
            i++;
    }
    return i;
}

int tci_tree_trim(tci_tree *t, const tci_step *path, size_t nsteps, uint64_t nunits, tci_undo *undo,
                  tc_err *err)
{
    tci_json *v = string_at(t, path, nsteps);
    if (v == NULL)
        return no_such("a string", path, nsteps, err);
    size_t len = characters_len(v->u.text, nunits);
    if (len > v->u.text.len)
        return no_such("that long", path, nsteps, err);
    if (len == 0)
        return 0;
    tci_undo_step scratch, *s;
    if (step_new(undo, UNDO_TRIMMED, path, nsteps, &scratch, &s, err) < 0)
        return step_drop(&scratch, err->code);
    tc_str front = tci_str_sub(v->u.text, 0, len), kept = {NULL, 0};
    if (undo != NULL && text_of(front, &kept) < 0)
        return step_drop(s, tci_err_no_memory(err));
    s->value = (tci_json){.kind = TCI_JSON_STRING, .u.text = kept};
    char *text = (char *)(uintptr_t)v->u.text.ptr;
    memmove(text, text + len, v->u.text.len - len);
    v->u.text.len -= len;
    step_keep(undo, s);
    return 0;
}

/* Put copies of items where nremove old ones were; the old ones move into *ret_old. */
static int splice(tci_json *v, size_t index, size_t nremove, const tci_json *items,
                  tci_json *ret_old)
{
    tci_json fresh;
    if (value_of(items, &fresh) < 0)
        return -1;
    tci_json old = {.kind = TCI_JSON_ARRAY};
    tci_json *room = block_room(v->u.items, (size_t)v->count + fresh.count, sizeof *room);
    if (room != NULL)
        v->u.items = room;
    if (room != NULL && nremove > 0)
        old.u.items = block_room(NULL, nremove, sizeof *room);
    if (room == NULL || (nremove > 0 && old.u.items == NULL)) {
        value_done(&fresh);
        return -1;
    }
    if (nremove > 0)
        memcpy(items_of(&old), &room[index], nremove * sizeof *room);
    old.count = (uint32_t)nremove;
    items_shift(v, index, nremove, fresh.count);
    if (fresh.count > 0)
        memcpy(&room[index], fresh.u.items, fresh.count * sizeof *room);
    block_free(fresh.u.items);
    *ret_old = old;
    return 0;
}

int tci_tree_splice(tci_tree *t, const tci_step *path, size_t nsteps, size_t index, size_t nremove,
                    const tci_json *items, tci_undo *undo, tc_err *err)
{
    tci_json *v = at(t, path, nsteps);
    if (v == NULL || v->kind != TCI_JSON_ARRAY || items->kind != TCI_JSON_ARRAY)
        return no_such("an array", path, nsteps, err);
    if (index > v->count || nremove > v->count - index)
        return no_such("that long an array", path, nsteps, err);
    if (items->count > UINT32_MAX - v->count)
        return tc_err_set(err, TC_E_TOO_BIG, "array has too many items");
    tci_undo_step scratch, *s;
    if (step_new(undo, UNDO_SPLICED, path, nsteps, &scratch, &s, err) < 0)
        return step_drop(&scratch, err->code);
    if (splice(v, index, nremove, items, &s->value) < 0)
        return step_drop(s, tci_err_no_memory(err));
    s->index = index;
    s->count = items->count;
    step_keep(undo, s);
    return 0;
}

static bool is_permutation(const size_t *order, size_t n, bool *seen)
{
    for (size_t i = 0; i < n; i++) {
        if (order[i] >= n || seen[order[i]])
            return false;
        seen[order[i]] = true;
    }
    return true;
}

int tci_tree_reorder(tci_tree *t, const tci_step *path, size_t nsteps, const size_t *order,
                     size_t norder, tci_undo *undo, tc_err *err)
{
    tci_json *v = at(t, path, nsteps);
    if (v == NULL || v->kind != TCI_JSON_ARRAY || v->count != norder)
        return no_such("an array of that many items", path, nsteps, err);
    bool *seen = tci_mem_array(norder + 1, sizeof *seen);
    if (seen == NULL)
        return tci_err_no_memory(err);
    bool is_one = is_permutation(order, norder, seen);
    tci_free(seen);
    if (!is_one)
        return tc_err_set(err, TC_E_INVALID, "not a permutation of %zu items", norder);
    tci_undo_step scratch, *s;
    if (step_new(undo, UNDO_ORDERED, path, nsteps, &scratch, &s, err) < 0)
        return step_drop(&scratch, err->code);
    tci_json *spare = block_room(NULL, norder + 1, sizeof *spare);
    s->order = tci_mem_array(norder + 1, sizeof *s->order);
    s->value = (tci_json){.kind = TCI_JSON_ARRAY, .u.items = spare};
    if (spare == NULL || s->order == NULL)
        return step_drop(s, tci_err_no_memory(err));
    for (size_t i = 0; i < norder; i++) {
        s->order[i] = order[i];
        spare[i] = v->u.items[order[i]];
    }
    if (norder > 0)
        memcpy(items_of(v), spare, norder * sizeof *spare);
    step_keep(undo, s);
    return 0;
}

/* ---- values in general ---- */

static bool is_integer(tc_str token)
{
    for (size_t i = 0; i < token.len; i++) {
        if (token.ptr[i] == '.' || token.ptr[i] == 'e' || token.ptr[i] == 'E')
            return false;
    }
    return true;
}

static bool numbers_equal(tc_str a, tc_str b)
{
    if (tci_str_eq(a, b))
        return true;
    const tc_str zero = TC_STR("0"), minus = TC_STR("-0");
    if (is_integer(a) && is_integer(b))
        return (tci_str_eq(a, zero) && tci_str_eq(b, minus)) ||
               (tci_str_eq(a, minus) && tci_str_eq(b, zero));
    double x, y;
    tc_err ignored;
    return tci_num_double(a, &x, &ignored) == 0 && tci_num_double(b, &y, &ignored) == 0 && x == y;
}

bool tci_json_equal(const tci_json *a, const tci_json *b)
{
    if (a->kind != b->kind)
        return false;
    if (a->kind == TCI_JSON_STRING)
        return tci_str_eq(a->u.text, b->u.text);
    if (a->kind == TCI_JSON_NUMBER)
        return numbers_equal(a->u.text, b->u.text);
    if (a->kind != TCI_JSON_ARRAY && a->kind != TCI_JSON_OBJECT)
        return true;
    if (a->count != b->count)
        return false;
    for (uint32_t i = 0; i < a->count; i++) {
        if (a->kind == TCI_JSON_ARRAY) {
            if (!tci_json_equal(&a->u.items[i], &b->u.items[i]))
                return false;
            continue;
        }
        const tci_json_member *m = &a->u.members[i], *n = &b->u.members[i];
        const tci_json *other = tci_str_eq(m->key, n->key) ? &n->value : tci_json_get(b, m->key);
        if (other == NULL || !tci_json_equal(&m->value, other))
            return false;
    }
    return true;
}

static const tci_json_change *change_of(tc_str key, const tci_json_change *changes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (tci_str_eq(changes[i].key, key))
            return &changes[i];
    }
    return NULL;
}

void tci_json_edit(tci_buf *b, const tci_json *v, const tci_json_change *changes, size_t nchanges)
{
    bool first = true;
    tci_buf_append_byte(b, '{');
    for (uint32_t i = 0; v->kind == TCI_JSON_OBJECT && i < v->count; i++) {
        const tci_json_member *m = &v->u.members[i];
        const tci_json_change *c = change_of(m->key, changes, nchanges);
        if (c != NULL && c->text.ptr == NULL)
            continue;
        tci_json_put_key(b, &first, m->key);
        if (c != NULL)
            tci_buf_append_str(b, c->text);
        else
            tci_json_put(b, &m->value, TCI_JSON_AS_IS);
    }
    for (size_t i = 0; i < nchanges; i++) {
        if (changes[i].text.ptr == NULL || tci_json_get(v, changes[i].key) != NULL)
            continue;
        tci_json_put_key(b, &first, changes[i].key);
        tci_buf_append_str(b, changes[i].text);
    }
    tci_buf_append_byte(b, '}');
}

/* One character of WTF-8, whose bytes are known to be well formed. Returns its length. */
static size_t character(tc_str s, size_t i, uint32_t *ret)
{
    unsigned char c = (unsigned char)s.ptr[i];
    size_t n = c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
    if (n > s.len - i)
        n = 1;
    uint32_t v = n == 1 ? c : c & (0x7fu >> n);
    for (size_t k = 1; k < n; k++)
        v = v << 6 | ((unsigned char)s.ptr[i + k] & 0x3f);
    *ret = v;
    return n;
}

static void put_unit(tci_buf *b, uint32_t unit)
{
    tci_buf_printf(b, "\\u%04x", unit);
}

void tci_json_put_ascii(tci_buf *b, tc_str s)
{
    tci_buf_append_byte(b, '"');
    for (size_t i = 0; i < s.len;) {
        uint32_t c;
        size_t n = character(s, i, &c);
        if (c >= 0x20 && c <= 0x7e && c != '"' && c != '\\') {
            tci_buf_append_byte(b, (char)c);
        } else if (c < 0x20 || c == '"' || c == '\\') {
            tci_buf one;
            tci_buf_init(&one, 16);
            tci_json_put_str(&one, tci_str_sub(s, i, 1));
            tci_buf_append(b, one.ptr != NULL ? one.ptr + 1 : "", one.len > 2 ? one.len - 2 : 0);
            tci_buf_done(&one);
        } else if (c > 0xffff) {
            put_unit(b, 0xd800 + ((c - 0x10000) >> 10));
            put_unit(b, 0xdc00 + ((c - 0x10000) & 0x3ff));
        } else {
            put_unit(b, c);
        }
        i += n;
    }
    tci_buf_append_byte(b, '"');
}
