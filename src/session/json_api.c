/* SPDX-License-Identifier: Apache-2.0
 *
 * telechir/json.h: the public face of the JSON reader and emitter, with answers in results. Leaves
 * all reading and writing to base. Invariant of a writer: `at` counts the values begun at each level,
 * and after the first failure nothing more is written. */
#include <telechir/json.h>

#include "base/json_tree.h"
#include "base/utf8.h"
#include "base/utf8_stream.h"
#include "plat/call.h"

int tc_json_parse(tc_result *r, tc_str text, const tc_json **ret_value, tc_err *err)
{
    tci_json *v = tci_arena_new(tci_result_arena(r), tci_json);
    if (v == NULL)
        return tci_arena_error(tci_result_arena(r), err);
    unsigned flags = TCI_JSON_DURABLE;
    if (tci_json_parse(text, flags, tci_result_arena(r), v, err) < 0)
        return err->code;
    *ret_value = v;
    return 0;
}

tc_json_type tc_json_type_of(const tc_json *v)
{
    return v != NULL ? (tc_json_type)v->kind : TC_JSON_NULL;
}

const tc_json *tc_json_get(const tc_json *v, tc_str key)
{
    return v != NULL ? tci_json_get(v, key) : NULL;
}

size_t tc_json_count(const tc_json *v)
{
    return v != NULL && (v->kind == TCI_JSON_ARRAY || v->kind == TCI_JSON_OBJECT) ? v->count : 0;
}

const tc_json *tc_json_item(const tc_json *v, size_t index)
{
    if (v == NULL || v->kind != TCI_JSON_ARRAY || index >= v->count)
        return NULL;
    return &v->u.items[index];
}

const tc_json *tc_json_member(const tc_json *v, size_t index, tc_str *ret_key)
{
    if (v == NULL || v->kind != TCI_JSON_OBJECT || index >= v->count)
        return NULL;
    *ret_key = v->u.members[index].key;
    return &v->u.members[index].value;
}

const tc_json *tc_json_find(const tc_json *v, const char *pointer)
{
    if (v == NULL)
        return NULL;
    tci_arena a;
    tc_err ignored;
    tci_step *path;
    size_t nsteps;
    tci_arena_init(&a, 0);
    bool ok = tci_json_pointer(tci_str(pointer), v, &a, &path, &nsteps, &ignored) == 0;
    const tc_json *found = ok ? tci_json_at(v, path, nsteps) : NULL;
    tci_arena_done(&a);
    return found;
}

bool tc_json_as_str(const tc_json *v, tc_str *ret)
{
    return v != NULL && tci_json_as_str(v, ret);
}

bool tc_json_as_i64(const tc_json *v, int64_t *ret)
{
    return v != NULL && tci_json_as_i64(v, ret);
}

bool tc_json_as_u64(const tc_json *v, uint64_t *ret)
{
    return v != NULL && tci_json_as_u64(v, ret);
}

bool tc_json_as_double(const tc_json *v, double *ret)
{
    return v != NULL && tci_json_as_double(v, ret);
}

bool tc_json_as_bool(const tc_json *v, bool *ret)
{
    return v != NULL && tci_json_as_bool(v, ret);
}

int tc_json_text(const tc_json *v, tc_result *r, tc_str *ret_text, tc_err *err)
{
    tci_buf b;
    tci_buf_init(&b, TCI_BUF_MAX);
    if (v != NULL)
        tci_json_put(&b, v, TCI_JSON_AS_IS);
    else
        tci_buf_append_str(&b, TC_STR("null"));
    int rc = tci_buf_error(&b, err);
    if (rc == 0)
        rc = tc_result_dup(r, tci_buf_str(&b), ret_text, err);
    tci_buf_done(&b);
    return rc;
}

/* ---- writing ---- */

struct tc_json_out {
    tci_buf text;
    int depth;
    bool is_broken;                         /* not one whole value any more */
    bool is_object[TCI_JSON_DEPTH_MAX + 1]; /* of each level */
    bool has_any[TCI_JSON_DEPTH_MAX + 1];
    bool has_key; /* a key was written, its value is next */
};

int tc_json_out_new(tc_json_out **ret_out, tc_err *err)
{
    tc_json_out *o = tci_new(tc_json_out);
    if (o == NULL)
        return tci_err_no_memory(err);
    tci_buf_init(&o->text, TCI_BUF_MAX);
    *ret_out = o;
    return 0;
}

void tc_json_out_free(tc_json_out *o)
{
    if (o == NULL)
        return;
    tci_buf_done(&o->text);
    tci_free(o);
}

/* Before a value: a comma where one belongs. false: no value may stand here. */
static bool begin_value(tc_json_out *o)
{
    bool misses_key = o->is_object[o->depth] && !o->has_key;
    bool is_second = o->depth == 0 && o->has_any[0];
    if (misses_key || is_second)
        o->is_broken = true;
    if (o->is_broken)
        return false;
    if (!o->has_key && o->has_any[o->depth])
        tci_buf_append_byte(&o->text, ',');
    o->has_any[o->depth] = true;
    o->has_key = false;
    return true;
}

static void open_level(tc_json_out *o, bool is_object)
{
    if (!begin_value(o))
        return;
    if (o->depth == TCI_JSON_DEPTH_MAX) {
        o->is_broken = true;
        return;
    }
    o->depth++;
    o->is_object[o->depth] = is_object;
    o->has_any[o->depth] = false;
    tci_buf_append_byte(&o->text, is_object ? '{' : '[');
}

void tc_json_out_object(tc_json_out *o)
{
    open_level(o, true);
}

void tc_json_out_array(tc_json_out *o)
{
    open_level(o, false);
}

void tc_json_out_end(tc_json_out *o)
{
    if (o->depth == 0 || o->has_key)
        o->is_broken = true;
    if (o->is_broken)
        return;
    tci_buf_append_byte(&o->text, o->is_object[o->depth] ? '}' : ']');
    o->depth--;
}

/* Text with what is not UTF-8 replaced. */
static void put_text(tc_json_out *o, tc_str text)
{
    if (tci_utf8_is_valid(text)) {
        tci_json_put_str(&o->text, text);
        return;
    }
    tci_buf scratch;
    tci_buf_init(&scratch, TCI_BUF_MAX);
    tci_utf8_stream stream = {.has_begun = true}; /* a mark is text here */
    tc_str fixed = tci_utf8_stream_feed(&stream, text, &scratch),
           last = tci_utf8_stream_end(&stream);
    tci_buf whole;
    tci_buf_init(&whole, TCI_BUF_MAX);
    tci_buf_append_str(&whole, fixed);
    tci_buf_append_str(&whole, last);
    if (!tci_buf_ok(&scratch) || !tci_buf_ok(&whole))
        o->is_broken = true;
    tci_json_put_str(&o->text, tci_buf_str(&whole));
    tci_buf_done(&whole);
    tci_buf_done(&scratch);
}

void tc_json_out_key(tc_json_out *o, tc_str key)
{
    if (!o->is_object[o->depth] || o->has_key)
        o->is_broken = true;
    if (o->is_broken)
        return;
    if (o->has_any[o->depth])
        tci_buf_append_byte(&o->text, ',');
    put_text(o, key);
    tci_buf_append_byte(&o->text, ':');
    o->has_key = true;
}

void tc_json_out_str(tc_json_out *o, tc_str text)
{
    if (begin_value(o))
        put_text(o, text);
}

void tc_json_out_i64(tc_json_out *o, int64_t v)
{
    if (begin_value(o))
        tci_buf_append_i64(&o->text, v);
}

void tc_json_out_double(tc_json_out *o, double v)
{
    if (!begin_value(o))
        return;
    if (__builtin_isfinite(v))
        tci_json_put_double(&o->text, v);
    else
        tci_buf_append_str(&o->text, TC_STR("null"));
}

void tc_json_out_bool(tc_json_out *o, bool v)
{
    if (begin_value(o))
        tci_json_put_bool(&o->text, v);
}

void tc_json_out_null(tc_json_out *o)
{
    if (begin_value(o))
        tci_buf_append_str(&o->text, TC_STR("null"));
}

void tc_json_out_raw(tc_json_out *o, tc_str json)
{
    if (begin_value(o))
        tci_buf_append_str(&o->text, json);
}

int tc_json_out_take(tc_json_out *o, tc_result *r, tc_str *ret_text, tc_err *err)
{
    int rc = tci_buf_error(&o->text, err);
    if (rc == 0 && (o->is_broken || o->depth != 0 || !o->has_any[0]))
        rc = tc_err_set(err, TC_E_INVALID, "not one whole JSON value was written");
    if (rc == 0)
        rc = tc_result_dup(r, tci_buf_str(&o->text), ret_text, err);
    tci_buf_clear(&o->text);
    o->depth = 0;
    o->is_broken = o->has_key = o->has_any[0] = o->is_object[0] = false;
    return rc;
}
