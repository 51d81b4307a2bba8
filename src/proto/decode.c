/* SPDX-License-Identifier: Apache-2.0
 *
 * The decoder, strict or lenient: from a JSON tree to a struct, as its descriptor says. Leaves
 * syntax, equal keys and depth to the parser. Any thread; touches the arena for lists, maps and base64 only.
 * Invariant: storage a record is decoded into is zeroed before. */
#include "base/base64.h"
#include "proto/proto_int.h"
#include <stdlib.h>

typedef struct decoder {
    tci_arena *a;
    tc_err *err;
    bool is_lenient;
} decoder;

static int decode_record(const decoder *d, const tci_type *t, const tci_json *v,
                         const tci_step *step, char *base);

static void set_u32(char *at, uint64_t v)
{
    uint32_t narrow = (uint32_t)v;
    memcpy(at, &narrow, sizeof narrow);
}

/* Whole numbers of every width, and bool. */
static const char *decode_integer(const tci_field *f, const tci_json *v, char *at)
{
    uint64_t n;
    if (f->kind == TCI_KIND_I32 || f->kind == TCI_KIND_I64) {
        int64_t i;
        if (!tci_json_as_i64(v, &i))
            return v->kind == TCI_JSON_NUMBER ? "not an integer in range" : "not an integer";
        if (f->kind == TCI_KIND_I64) {
            memcpy(at, &i, sizeof i);
            return NULL;
        }
        if (i < INT32_MIN || i > INT32_MAX)
            return "out of range";
        set_u32(at, (uint64_t)i);
        return NULL;
    }
    if (f->kind == TCI_KIND_BOOL) {
        bool b;
        if (!tci_json_as_bool(v, &b))
            return "not true or false";
        n = b;
    } else if (!tci_json_as_u64(v, &n)) {
        return v->kind == TCI_JSON_NUMBER ? "not an integer in range" : "not an integer";
    }
    if (n < f->rule->min || n > f->rule->max)
        return "out of range";
    if (f->kind == TCI_KIND_U64)
        memcpy(at, &n, sizeof n);
    else if (f->kind == TCI_KIND_U32)
        set_u32(at, n);
    else
        *(bool *)at = n != 0;
    return NULL;
}

static const char *decode_f64(const tci_field *f, const tci_json *v, char *at)
{
    double x;
    if (!tci_json_as_double(v, &x))
        return "not a number";
    if (x < f->rule->min_f64 || x > f->rule->max_f64)
        return "out of range";
    memcpy(at, &x, sizeof x);
    return NULL;
}

static const char *decode_enum(const tci_field *f, tc_str s, char *at)
{
    for (unsigned i = 0; i < f->nnames; i++) {
        if (tci_str_eq(f->of.names[i], s)) {
            set_u32(at, i);
            return NULL;
        }
    }
    return "not one of the words allowed";
}

static const char *text_fault(const tci_field *f, tc_str s)
{
    switch ((tci_kind)f->kind) {
    case TCI_KIND_STRING:
    case TCI_KIND_ID:
        return tci_proto_length_fault(s, f->rule->min, f->rule->max);
    case TCI_KIND_PATH:
        return tci_proto_path_fault(s);
    case TCI_KIND_SHA256:
        return tci_proto_sha256_fault(s);
    case TCI_KIND_VERSION:
        return tci_proto_version_fault(s);
    case TCI_KIND_CONST:
        return tci_str_eq(s, f->rule->text) ? NULL : "not the word required";
    case TCI_KIND_BOOL:
    case TCI_KIND_U64:
    case TCI_KIND_U32:
    case TCI_KIND_I32:
    case TCI_KIND_I64:
    case TCI_KIND_F64:
    case TCI_KIND_BASE64:
    case TCI_KIND_TIME:
    case TCI_KIND_ENUM:
    case TCI_KIND_RECORD:
        break;
    }
    return "not text";
}

static int decode_base64(const decoder *d, tc_str s, const tci_step *step, char *at)
{
    tc_str *ret = (tc_str *)(void *)at;
    if (s.len == 0) {
        *ret = TC_STR("");
        return 0;
    }
    char *bytes = tci_arena_bytes(d->a, tci_base64_decoded_max(s.len));
    if (bytes == NULL)
        return tci_arena_error(d->a, d->err);
    size_t len;
    if (tci_base64_decode(s, bytes, &len, d->err) < 0)
        return tci_proto_fail(d->err, step, "not base64 without padding");
    *ret = tci_str_of(bytes, len);
    return 0;
}

/* Everything that is written as a string. */
static int decode_text(const decoder *d, const tci_field *f, const tci_json *v,
                       const tci_step *step, char *at)
{
    tc_str s;
    if (!tci_json_as_str(v, &s))
        return tci_proto_fail(d->err, step, "not a string");
    if (f->kind == TCI_KIND_BASE64)
        return decode_base64(d, s, step, at);
    const char *fault;
    if (f->kind == TCI_KIND_ENUM) {
        fault = decode_enum(f, s, at);
    } else if (f->kind == TCI_KIND_TIME) {
        fault = tci_rfc3339_parse(s, (tci_instant *)(void *)at, d->err) < 0 ? "not a time in UTC"
                                                                            : NULL;
    } else {
        fault = text_fault(f, s);
        if (fault == NULL && f->kind != TCI_KIND_CONST)
            *(tc_str *)(void *)at = s;
    }
    return fault == NULL ? 0 : tci_proto_fail(d->err, step, fault);
}

static int decode_one(const decoder *d, const tci_field *f, const tci_json *v, const tci_step *step,
                      char *at)
{
    const char *fault = NULL;
    switch ((tci_kind)f->kind) {
    case TCI_KIND_RECORD:
        return decode_record(d, f->of.type, v, step, at);
    case TCI_KIND_BOOL:
    case TCI_KIND_U64:
    case TCI_KIND_U32:
    case TCI_KIND_I32:
    case TCI_KIND_I64:
        fault = decode_integer(f, v, at);
        break;
    case TCI_KIND_F64:
        fault = decode_f64(f, v, at);
        break;
    case TCI_KIND_STRING:
    case TCI_KIND_ID:
    case TCI_KIND_PATH:
    case TCI_KIND_BASE64:
    case TCI_KIND_SHA256:
    case TCI_KIND_VERSION:
    case TCI_KIND_TIME:
    case TCI_KIND_ENUM:
    case TCI_KIND_CONST:
        return decode_text(d, f, v, step, at);
    }
    return fault == NULL ? 0 : tci_proto_fail(d->err, step, fault);
}

/* Is a value that does not fit left out instead of refused? */
static bool is_dropped(const decoder *d, int rc)
{
    return d->is_lenient && rc == TC_E_INVALID;
}

/* A list or map member is {items, count} whatever the item is. */
typedef struct items {
    char *ptr;
    size_t count;
} items;

static int items_begin(const decoder *d, const tci_field *f, const tci_json *v,
                       const tci_step *step, items *ret)
{
    if (v->count < f->rule->min_items)
        return tci_proto_fail(d->err, step, "too few items");
    if (v->count > f->rule->max_items)
        return tci_proto_fail(d->err, step, "too many items");
    ret->ptr = NULL;
    ret->count = v->count;
    if (v->count == 0 && !d->is_lenient)
        return 0;
    ret->ptr = tci_arena_array(d->a, v->count, f->item_size);
    return ret->ptr != NULL ? 0 : tci_arena_error(d->a, d->err);
}

static int decode_list(const decoder *d, const tci_field *f, const tci_json *v,
                       const tci_step *step, char *at)
{
    items list;
    if (v->kind != TCI_JSON_ARRAY)
        return tci_proto_fail(d->err, step, "not a list");
    int rc = items_begin(d, f, v, step, &list);
    tci_step item = {.up = step};
    for (; rc == 0 && item.index < list.count; item.index++)
        rc = decode_one(d, f, &v->u.items[item.index], &item, list.ptr + item.index * f->item_size);
    if (rc == 0)
        memcpy(at, &list, sizeof list);
    return rc;
}

static int by_key(const void *a, const void *b)
{
    return tci_str_cmp(*(const tc_str *)a, *(const tc_str *)b);
}

static int decode_map(const decoder *d, const tci_field *f, const tci_json *v, const tci_step *step,
                      char *at)
{
    items map;
    bool is_sorted = true;
    if (v->kind != TCI_JSON_OBJECT)
        return tci_proto_fail(d->err, step, "not an object");
    int rc = items_begin(d, f, v, step, &map);
    if (rc != 0)
        return rc;
    map.count = 0;
    for (size_t i = 0; i < v->count; i++) {
        const tci_json_member *m = &v->u.members[i];
        char *entry = map.ptr + map.count * f->item_size;
        *(tc_str *)(void *)entry = m->key;
        if (map.count > 0)
            is_sorted = is_sorted &&
                        tci_str_cmp(*(const tc_str *)(void *)(entry - f->item_size), m->key) < 0;
        const tci_step item = {.up = step, .key = m->key};
        rc = decode_one(d, f, &m->value, &item, entry + f->value_at);
        if (is_dropped(d, rc))
            continue;
        if (rc != 0)
            return rc;
        map.count++;
    }
    if (!is_sorted)
        qsort(map.ptr, map.count, f->item_size, by_key);
    memcpy(at, &map, sizeof map);
    return 0;
}

static int decode_field(const decoder *d, const tci_field *f, const tci_json *v, const tci_step *up,
                        char *base)
{
    if (f->presence == TCI_OPTIONAL) {
        if (v->kind == TCI_JSON_NULL)
            return 0;
        *(bool *)(base + f->has_at) = true;
    }
    const tci_step step = {.up = up, .key = {f->key + 2, f->key_len}};
    char *at = base + f->at;
    if (f->shape == TCI_SHAPE_ONE)
        return decode_one(d, f, v, &step, at);
    return f->shape == TCI_SHAPE_LIST ? decode_list(d, f, v, &step, at)
                                      : decode_map(d, f, v, &step, at);
}

/* Give absent fields their defaults. */
static void fill_defaults(const tci_type *t, uint64_t absent, char *base)
{
    for (uint64_t bits = t->fill & absent; bits != 0; bits &= bits - 1) {
        const tci_field *f = &t->fields[__builtin_ctzll(bits)];
        char *at = base + f->at;
        if (f->kind == TCI_KIND_RECORD)
            fill_defaults(f->of.type, UINT64_MAX, at);
        else if (f->kind == TCI_KIND_STRING)
            *(tc_str *)(void *)at = f->rule->text;
        else if (f->kind == TCI_KIND_U64)
            memcpy(at, &f->rule->dflt, sizeof f->rule->dflt);
        else if (f->kind == TCI_KIND_BOOL)
            *(bool *)at = f->rule->dflt != 0;
        else
            set_u32(at, f->rule->dflt);
    }
}

/* The member's field, or -1. Most senders keep to one order, so begin after the last one found. */
static int find_field(const tci_type *t, tc_str key, unsigned from)
{
    unsigned i = from;
    for (unsigned n = 0; n < t->nfields; n++, i++) {
        if (i >= t->nfields)
            i = 0;
        const tci_field *f = &t->fields[i];
        if (f->key_len == key.len && memcmp(f->key + 2, key.ptr, key.len) == 0)
            return (int)i;
    }
    return -1;
}

static size_t field_size(const tci_field *f)
{
    if (f->shape != TCI_SHAPE_ONE)
        return sizeof(items);
    switch ((tci_kind)f->kind) {
    case TCI_KIND_BOOL:
        return sizeof(bool);
    case TCI_KIND_U32:
    case TCI_KIND_I32:
    case TCI_KIND_ENUM:
        return sizeof(uint32_t);
    case TCI_KIND_U64:
    case TCI_KIND_I64:
    case TCI_KIND_F64:
        return sizeof(uint64_t);
    case TCI_KIND_RECORD:
        return f->of.type->size;
    case TCI_KIND_CONST:
        return 0;
    case TCI_KIND_STRING:
    case TCI_KIND_ID:
    case TCI_KIND_PATH:
    case TCI_KIND_BASE64:
    case TCI_KIND_SHA256:
    case TCI_KIND_VERSION:
    case TCI_KIND_TIME:
        break;
    }
    return sizeof(tc_str);
}

/* Undo what a value that did not fit has left behind. */
static void clear_field(const tci_field *f, char *base)
{
    memset(base + f->at, 0, field_size(f));
    if (f->presence == TCI_OPTIONAL)
        *(bool *)(base + f->has_at) = false;
}

static uint64_t get_u64(const char *base, const tci_type *t, tc_str name)
{
    uint64_t v = 0;
    int i = find_field(t, name, 0);
    if (i >= 0)
        memcpy(&v, base + t->fields[i].at, sizeof v);
    return v;
}

static bool get_bool(const char *base, const tci_type *t, tc_str name)
{
    int i = find_field(t, name, 0);
    return i >= 0 && *(const bool *)(base + t->fields[i].at);
}

static const char *check_fault(const tci_type *t, const char *base)
{
    if (t->check == TCI_CHECK_LIMITS) {
        if (get_u64(base, t, TC_STR("max_output_preview_bytes")) >
            get_u64(base, t, TC_STR("max_output_bytes_per_stream")))
            return "max_output_preview_bytes is over max_output_bytes_per_stream";
    } else if (t->check == TCI_CHECK_OUTPUT) {
        uint64_t produced = get_u64(base, t, TC_STR("produced_bytes"));
        uint64_t retained = get_u64(base, t, TC_STR("retained_bytes"));
        if (retained > produced)
            return "retained_bytes is over produced_bytes";
        if (get_bool(base, t, TC_STR("content_complete")) && retained != produced)
            return "complete, but not all is retained";
    }
    return NULL;
}

/* Which variant v is; NULL with err set. */
static const tci_type *choose_variant(const decoder *d, const tci_type *t, const tci_json *v,
                                      const tci_step *step, char *base)
{
    tc_str word;
    const tci_json *tag = tci_json_get(v, t->by);
    if (tag == NULL || !tci_json_as_str(tag, &word)) {
        (void)tci_proto_fail_name(d->err, step, tag == NULL ? "missing" : "not a string", t->by);
        return NULL;
    }
    for (unsigned i = 0; i < t->nvariants; i++) {
        if (tci_str_eq(t->variant_names[i], word)) {
            set_u32(base + t->by_at, i);
            return t->variants[i];
        }
    }
    (void)tci_proto_fail_name(d->err, step, "not one of the words allowed", t->by);
    return NULL;
}

static int decode_record(const decoder *d, const tci_type *t, const tci_json *v,
                         const tci_step *step, char *base)
{
    if (v->kind != TCI_JSON_OBJECT)
        return tci_proto_fail(d->err, step, "not an object");
    if (t->nvariants > 0) {
        t = choose_variant(d, t, v, step, base);
        if (t == NULL)
            return TC_E_INVALID;
    }
    uint64_t seen = 0;
    unsigned next = 0;
    for (uint32_t n = 0; n < v->count; n++) {
        const tci_json_member *m = &v->u.members[n];
        int i = find_field(t, m->key, next);
        if (i < 0 && d->is_lenient)
            continue;
        if (i < 0)
            return tci_proto_fail_name(d->err, step, "unknown field", m->key);
        uint64_t bit = UINT64_C(1) << i;
        if ((seen & bit) != 0)
            return tci_proto_fail_name(d->err, step, "repeated", m->key);
        seen |= bit;
        next = (unsigned)i + 1;
        int rc = decode_field(d, &t->fields[i], &m->value, step, base);
        if (is_dropped(d, rc)) {
            clear_field(&t->fields[i], base);
            seen &= ~bit;
            rc = 0;
        }
        if (rc != 0)
            return rc;
    }
    uint64_t missing = t->required & ~seen;
    if (missing != 0) {
        const tci_field *f = &t->fields[__builtin_ctzll(missing)];
        return tci_proto_fail_name(d->err, step, d->is_lenient ? "missing or invalid" : "missing",
                                   tci_str_of(f->key + 2, f->key_len));
    }
    fill_defaults(t, ~seen, base);
    const char *fault = t->check == TCI_CHECK_NONE ? NULL : check_fault(t, base);
    return fault == NULL ? 0 : tci_proto_fail(d->err, step, fault);
}

int tci_proto_decode(const tci_type *type, const tci_json *v, tci_arena *a, void *ret, tc_err *err)
{
    const decoder d = {.a = a, .err = err};
    memset(ret, 0, type->size);
    return decode_record(&d, type, v, NULL, ret);
}

int tci_proto_decode_lenient(const tci_type *type, const tci_json *v, tci_arena *a, void *ret,
                             tc_err *err)
{
    const decoder d = {.a = a, .err = err, .is_lenient = true};
    memset(ret, 0, type->size);
    return decode_record(&d, type, v, NULL, ret);
}
