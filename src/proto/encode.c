/* SPDX-License-Identifier: Apache-2.0
 *
 * The encoder: from a struct to canonical JSON, as its descriptor says. The canonical form is what
 * request digests are made of, so nothing about it is a matter of taste: keys sorted bytewise,
 * compact, defaults, empty lists and absent optionals left out. Any thread; failures are the
 * buffer's. Invariant: fields are sorted in the tables, so they are written in table order. */
#include "proto/proto_int.h"
#include <stdlib.h>

typedef struct encoder {
    tci_buf *out;
    unsigned flags;
} encoder;

static void encode_record(const encoder *e, const tci_type *t, const char *base);

static uint32_t get_u32(const char *at)
{
    uint32_t v;
    memcpy(&v, at, sizeof v);
    return v;
}

static uint64_t get_u64(const char *at)
{
    uint64_t v;
    memcpy(&v, at, sizeof v);
    return v;
}

static tc_str get_str(const char *at)
{
    return *(const tc_str *)(const void *)at;
}

/* tci_buf_append, in line while there is room: most pieces are a few bytes. */
static inline void put(tci_buf *out, const char *bytes, size_t len)
{
    if (TCI_LIKELY(tci_buf_ok(out) && len <= out->cap - out->len)) {
        memcpy(out->ptr + out->len, bytes, len);
        out->len += len;
    } else {
        tci_buf_append(out, bytes, len);
    }
}

/* A word of ours: plain ASCII, nothing to escape. */
static void put_word(tci_buf *out, tc_str word)
{
    char *p = tci_buf_reserve(out, word.len + 2);
    if (p == NULL)
        return;
    p[0] = '"';
    memcpy(p + 1, word.ptr, word.len);
    p[word.len + 1] = '"';
    out->len += word.len + 2;
}

static void put_time(tci_buf *out, const char *at)
{
    char text[TCI_RFC3339_MAX];
    tci_instant t;
    memcpy(&t, at, sizeof t);
    put_word(out, tci_str_of(text, tci_rfc3339_text(t, text)));
}

static void encode_one(const encoder *e, const tci_field *f, const char *at)
{
    switch ((tci_kind)f->kind) {
    case TCI_KIND_BOOL:
        if (*(const bool *)at)
            put(e->out, "true", 4);
        else
            put(e->out, "false", 5);
        return;
    case TCI_KIND_U64:
        tci_buf_append_u64(e->out, get_u64(at));
        return;
    case TCI_KIND_U32:
        tci_buf_append_u64(e->out, get_u32(at));
        return;
    case TCI_KIND_I32:
        tci_buf_append_i64(e->out, (int32_t)get_u32(at));
        return;
    case TCI_KIND_I64:
        tci_buf_append_i64(e->out, (int64_t)get_u64(at));
        return;
    case TCI_KIND_F64: {
        double v;
        memcpy(&v, at, sizeof v);
        tci_json_put_double(e->out, v);
        return;
    }
    case TCI_KIND_STRING:
    case TCI_KIND_ID:
    case TCI_KIND_PATH:
    case TCI_KIND_SHA256:
    case TCI_KIND_VERSION:
        tci_json_put_str(e->out, get_str(at));
        return;
    case TCI_KIND_BASE64:
        tci_json_put_base64(e->out, get_str(at));
        return;
    case TCI_KIND_TIME:
        put_time(e->out, at);
        return;
    case TCI_KIND_ENUM:
        TC_ASSERT(get_u32(at) < f->nnames);
        put_word(e->out, f->of.names[get_u32(at)]);
        return;
    case TCI_KIND_CONST:
        put_word(e->out, f->rule->text);
        return;
    case TCI_KIND_RECORD:
        encode_record(e, f->of.type, at);
        return;
    }
}

typedef struct items {
    const char *ptr;
    size_t count;
} items;

static items get_items(const char *at)
{
    items list;
    memcpy(&list, at, sizeof list);
    return list;
}

static void encode_list(const encoder *e, const tci_field *f, items list)
{
    put(e->out, "[", 1);
    for (size_t i = 0; i < list.count; i++) {
        if (i > 0)
            put(e->out, ",", 1);
        encode_one(e, f, list.ptr + i * f->item_size);
    }
    put(e->out, "]", 1);
}

static void put_entry(const encoder *e, const tci_field *f, const char *entry, bool is_first)
{
    if (!is_first)
        put(e->out, ",", 1);
    tci_json_put_str(e->out, get_str(entry));
    put(e->out, ":", 1);
    encode_one(e, f, entry + f->value_at);
}

static int by_key(const void *a, const void *b)
{
    return tci_str_cmp(**(const tc_str *const *)a, **(const tc_str *const *)b);
}

/* Entries that came in another order are written by a sorted list of pointers to them. */
static void encode_unsorted(const encoder *e, const tci_field *f, items map)
{
    const char **order = tci_mem_array(map.count, sizeof *order);
    if (order == NULL) {
        if (e->out->failed == TC_OK)
            e->out->failed = TC_E_NO_MEMORY;
        return;
    }
    for (size_t i = 0; i < map.count; i++)
        order[i] = map.ptr + i * f->item_size;
    qsort(order, map.count, sizeof *order, by_key);
    for (size_t i = 0; i < map.count; i++)
        put_entry(e, f, order[i], i == 0);
    tci_mem_free(order);
}

static void encode_map(const encoder *e, const tci_field *f, items map)
{
    bool is_sorted = true;
    for (size_t i = 1; i < map.count && is_sorted; i++) {
        const char *entry = map.ptr + i * f->item_size;
        is_sorted = tci_str_cmp(get_str(entry - f->item_size), get_str(entry)) < 0;
    }
    put(e->out, "{", 1);
    if (is_sorted)
        for (size_t i = 0; i < map.count; i++)
            put_entry(e, f, map.ptr + i * f->item_size, i == 0);
    else
        encode_unsorted(e, f, map);
    put(e->out, "}", 1);
}

/* Whether a defaulted field that is no record, list or map has its default. */
static bool is_default(const tci_field *f, const char *at)
{
    switch ((tci_kind)f->kind) {
    case TCI_KIND_BOOL:
        return *(const bool *)at == (f->rule->dflt != 0);
    case TCI_KIND_U64:
        return get_u64(at) == f->rule->dflt;
    case TCI_KIND_U32:
    case TCI_KIND_ENUM:
        return get_u32(at) == f->rule->dflt;
    case TCI_KIND_STRING:
        return tci_str_eq(get_str(at), f->rule->text);
    case TCI_KIND_I32:
    case TCI_KIND_I64:
    case TCI_KIND_F64:
    case TCI_KIND_ID:
    case TCI_KIND_PATH:
    case TCI_KIND_BASE64:
    case TCI_KIND_SHA256:
    case TCI_KIND_VERSION:
    case TCI_KIND_TIME:
    case TCI_KIND_RECORD:
    case TCI_KIND_CONST:
        break;
    }
    return false;
}

static bool is_left_out(const tci_field *f, const char *base)
{
    if (f->shape != TCI_SHAPE_ONE)
        return !f->is_kept && get_items(base + f->at).count == 0;
    if (f->presence == TCI_OPTIONAL)
        return !*(const bool *)(base + f->has_at);
    return f->presence == TCI_DEFAULTED && is_default(f, base + f->at);
}

static void encode_record(const encoder *e, const tci_type *t, const char *base)
{
    if (t->nvariants > 0) {
        uint32_t tag = get_u32(base + t->by_at);
        TC_ASSERT(tag < t->nvariants);
        t = t->variants[tag];
    }
    unsigned comma = 0; /* the key's text begins with one */
    put(e->out, "{", 1);
    for (unsigned i = 0; i < t->nfields; i++) {
        const tci_field *f = &t->fields[i];
        if (is_left_out(f, base))
            continue;
        size_t start = e->out->len;
        put(e->out, f->key + (1 - comma), f->key_len + 3u + comma);
        if (f->is_context && (e->flags & TCI_PROTO_FOR_DIGEST) != 0)
            put(e->out, "{}", 2);
        else if (f->shape == TCI_SHAPE_ONE)
            encode_one(e, f, base + f->at);
        else if (f->shape == TCI_SHAPE_LIST)
            encode_list(e, f, get_items(base + f->at));
        else
            encode_map(e, f, get_items(base + f->at));
        if (f->presence == TCI_DEFAULTED && f->kind == TCI_KIND_RECORD && tci_buf_ok(e->out) &&
            f->shape == TCI_SHAPE_ONE && e->out->len == start + f->key_len + 5u + comma) {
            tci_buf_truncate(e->out, start); /* "{}": all of it is default */
            continue;
        }
        comma = 1;
    }
    put(e->out, "}", 1);
}

void tci_proto_encode(const tci_type *type, const void *value, tci_buf *out, unsigned flags)
{
    const encoder e = {out, flags};
    encode_record(&e, type, value);
}
