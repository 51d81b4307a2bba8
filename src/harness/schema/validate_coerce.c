/* SPDX-License-Identifier: Apache-2.0
 *
 * Repairing arguments before they are checked: a number in quotes, a null for something optional.
 * Only what cannot be meant otherwise; whether the result fits is validate_check.c's. Any thread.
 *
 * To keep: values are never changed in place, since the call they came from stays as it is; a number
 * that is one already keeps its characters. */
#include "harness/schema/validate.h"

#include "base/num.h"
#include "base/str.h"
#include <math.h>

static const tci_json *make_text(tci_arena *a, tci_json_kind kind, tc_str text)
{
    tci_json *v = tci_arena_new(a, tci_json);
    tc_err err;
    if (v == NULL || tci_arena_dup(a, text, &v->u.text, &err) < 0)
        return NULL;
    v->kind = kind;
    return v;
}

static const tci_json *make_word(tci_arena *a, tci_json_kind kind)
{
    tci_json *v = tci_arena_new(a, tci_json);
    if (v != NULL)
        v->kind = kind;
    return v;
}

static tc_str trim_blanks(tc_str s)
{
    while (s.len > 0 && strchr(" \t\n\r\f\v", s.ptr[0]) != NULL && s.ptr[0] != 0)
        s = tci_str_sub(s, 1, s.len);
    while (s.len > 0 && strchr(" \t\n\r\f\v", s.ptr[s.len - 1]) != NULL && s.ptr[s.len - 1] != 0)
        s.len--;
    return s;
}

/* A text that reads as a number, as the token it would be: what JSON allows, and a plus or a dot in
 * places where JavaScript takes them. Empty: none. */
static tc_str number_in(tci_arena *a, tc_str text)
{
    tc_str s = trim_blanks(text), token = {0};
    double v;
    tc_err err;
    bool is_negative = s.len > 0 && s.ptr[0] == '-';
    if (s.len > 0 && (s.ptr[0] == '+' || s.ptr[0] == '-'))
        s = tci_str_sub(s, 1, s.len);
    while (s.len > 1 && s.ptr[0] == '0' && s.ptr[1] >= '0' && s.ptr[1] <= '9')
        s = tci_str_sub(s, 1, s.len);
    const char *zero = s.len > 1 && s.ptr[0] == '.' ? "0" : "";
    if (s.len > 1 && s.ptr[s.len - 1] == '.')
        s.len--;
    if (s.len == 0 || s.ptr[0] == '-' ||
        tci_arena_printf(a, &token, &err, "%s%s%.*s", is_negative ? "-" : "", zero, TC_STR_ARG(s)) <
            0 ||
        tci_num_double(token, &v, &err) < 0)
        return (tc_str){0};
    return token;
}

static const tci_json *to_number(tci_arena *a, const tci_json *v, bool whole)
{
    tc_str token = {0};
    if (v->kind == TCI_JSON_NULL || v->kind == TCI_JSON_FALSE)
        token = TC_STR("0");
    else if (v->kind == TCI_JSON_TRUE)
        token = TC_STR("1");
    else if (v->kind == TCI_JSON_STRING)
        token = number_in(a, v->u.text);
    if (token.len == 0 || (whole && !tci_is_whole_number(token)))
        return v;
    return make_text(a, TCI_JSON_NUMBER, token);
}

static const tci_json *to_bool(tci_arena *a, const tci_json *v)
{
    if (v->kind == TCI_JSON_NULL)
        return make_word(a, TCI_JSON_FALSE);
    if (v->kind == TCI_JSON_STRING && tci_str_eq(v->u.text, TC_STR("true")))
        return make_word(a, TCI_JSON_TRUE);
    if (v->kind == TCI_JSON_STRING && tci_str_eq(v->u.text, TC_STR("false")))
        return make_word(a, TCI_JSON_FALSE);
    if (v->kind == TCI_JSON_NUMBER) {
        double n = tci_number_of(v->u.text);
        if (fabs(n) < 1e-300)
            return make_word(a, TCI_JSON_FALSE);
        if (fabs(n - 1) < 1e-300)
            return make_word(a, TCI_JSON_TRUE);
    }
    return v;
}

/* "1.0" is written "1"; everything else as it was. */
static tc_str number_text(tc_str token)
{
    size_t dot = tci_str_find_byte(token, '.');
    tc_str fraction = tci_str_sub(token, dot, token.len);
    for (size_t i = 1; i < fraction.len; i++)
        if (fraction.ptr[i] != '0')
            return token;
    return fraction.len > 1 ? tci_str_sub(token, 0, dot) : token;
}

static const tci_json *to_text(tci_arena *a, const tci_json *v)
{
    switch (v->kind) {
    case TCI_JSON_NULL:
        return make_text(a, TCI_JSON_STRING, TC_STR(""));
    case TCI_JSON_FALSE:
        return make_text(a, TCI_JSON_STRING, TC_STR("false"));
    case TCI_JSON_TRUE:
        return make_text(a, TCI_JSON_STRING, TC_STR("true"));
    case TCI_JSON_NUMBER:
        return make_text(a, TCI_JSON_STRING, number_text(v->u.text));
    case TCI_JSON_STRING:
    case TCI_JSON_ARRAY:
    case TCI_JSON_OBJECT:
        break;
    }
    return v;
}

static const tci_json *to_null(tci_arena *a, const tci_json *v)
{
    bool is_nothing = v->kind == TCI_JSON_FALSE ||
                      (v->kind == TCI_JSON_STRING && v->u.text.len == 0) ||
                      (v->kind == TCI_JSON_NUMBER && fabs(tci_number_of(v->u.text)) < 1e-300);
    return is_nothing ? make_word(a, TCI_JSON_NULL) : v;
}

static const tci_json *to_type(tci_arena *a, const tci_json *v, tci_schema_type type)
{
    switch (type) {
    case TCI_TYPE_NUMBER:
    case TCI_TYPE_INTEGER:
        return to_number(a, v, type == TCI_TYPE_INTEGER);
    case TCI_TYPE_BOOLEAN:
        return to_bool(a, v);
    case TCI_TYPE_STRING:
        return to_text(a, v);
    case TCI_TYPE_NULL:
        return to_null(a, v);
    case TCI_TYPE_ARRAY:
    case TCI_TYPE_OBJECT:
        break;
    }
    return v;
}

/* ---- what is inside ---- */

typedef const tci_json *each(tci_arena *a, const tci_json *v, const tci_json *schema);

/* The schema of an array's item; NULL: none. */
static const tci_json *item_schema(const tci_json *schema, size_t index)
{
    const tci_json *items = tci_json_get(schema, TC_STR("items"));
    if (items != NULL && items->kind == TCI_JSON_ARRAY)
        return index < items->count ? &items->u.items[index] : NULL;
    return items;
}

/* The items of an array after `fn`; v itself when nothing changed. */
static const tci_json *map_items(tci_arena *a, const tci_json *v, const tci_json *schema, each *fn)
{
    tci_json *changed = NULL;
    for (size_t i = 0; i < v->count; i++) {
        const tci_json *at = item_schema(schema, i);
        const tci_json *made = at != NULL ? fn(a, &v->u.items[i], at) : &v->u.items[i];
        if (made == NULL)
            return NULL;
        if (made == &v->u.items[i])
            continue;
        if (changed == NULL)
            changed = tci_arena_copy(a, v->u.items, v->count * sizeof *changed);
        if (changed == NULL)
            return NULL;
        changed[i] = *made;
    }
    if (changed == NULL)
        return v;
    tci_json *array = tci_arena_new(a, tci_json);
    if (array != NULL)
        *array = (tci_json){.kind = TCI_JSON_ARRAY, .count = v->count, .u.items = changed};
    return array;
}

static const tci_json *with_members(tci_arena *a, const tci_json_member *members, size_t n)
{
    tci_json *object = tci_arena_new(a, tci_json);
    if (object != NULL)
        *object = (tci_json){.kind = TCI_JSON_OBJECT, .count = (uint32_t)n, .u.members = members};
    return object;
}

static const tci_json *coerce_members(tci_arena *a, const tci_json *v, const tci_json *schema)
{
    const tci_json *known = tci_json_get(schema, TC_STR("properties"));
    const tci_json *more = tci_json_get(schema, TC_STR("additionalProperties"));
    tci_json_member *changed = NULL;
    for (size_t i = 0; i < v->count; i++) {
        const tci_json *at = tci_json_get(known, v->u.members[i].key);
        const tci_json *value = &v->u.members[i].value, *made = value;
        if (at == NULL)
            at = more;
        if (at != NULL)
            made = tci_coerce(a, value, at);
        if (made == NULL)
            return NULL;
        if (made == value)
            continue;
        if (changed == NULL)
            changed = tci_arena_copy(a, v->u.members, v->count * sizeof *changed);
        if (changed == NULL)
            return NULL;
        changed[i].value = *made;
    }
    return changed == NULL ? v : with_members(a, changed, v->count);
}

/* The first alternative that fits v as it is, or after it was made to. */
static const tci_json *coerce_union(tci_arena *a, const tci_json *v, const tci_json *all)
{
    for (size_t i = 0; i < all->count; i++)
        if (tci_fits(a, NULL, v, &all->u.items[i]))
            return v;
    for (size_t i = 0; i < all->count; i++) {
        const tci_json *made = tci_coerce(a, v, &all->u.items[i]);
        if (made == NULL || tci_fits(a, NULL, made, &all->u.items[i]))
            return made;
    }
    return v;
}

static const tci_json *coerce_type(tci_arena *a, const tci_json *v, const tci_json *schema)
{
    tci_schema_type types[7];
    size_t n = tci_schema_types(schema, types);
    bool is_among = false;
    for (size_t i = 0; n > 1 && i < n; i++)
        is_among |= tci_is_of_type(v, types[i]);
    for (size_t i = 0; !is_among && i < n; i++) {
        const tci_json *made = to_type(a, v, types[i]);
        if (made != v) {
            v = made;
            break;
        }
    }
    for (size_t i = 0; v != NULL && i < n; i++) {
        if (types[i] == TCI_TYPE_OBJECT && v->kind == TCI_JSON_OBJECT)
            v = coerce_members(a, v, schema);
        else if (types[i] == TCI_TYPE_ARRAY && v->kind == TCI_JSON_ARRAY)
            v = map_items(a, v, schema, tci_coerce);
    }
    return v;
}

const tci_json *tci_coerce(tci_arena *a, const tci_json *v, const tci_json *schema)
{
    static const tc_str unions[] = {{"anyOf", 5}, {"oneOf", 5}};
    if (schema->kind != TCI_JSON_OBJECT)
        return v;
    const tci_json *all = tci_json_get(schema, TC_STR("allOf"));
    for (size_t i = 0; all != NULL && all->kind == TCI_JSON_ARRAY && v != NULL && i < all->count;
         i++)
        v = tci_coerce(a, v, &all->u.items[i]);
    for (size_t i = 0; v != NULL && i < TCI_ARRAY_LEN(unions); i++) {
        const tci_json *any = tci_json_get(schema, unions[i]);
        if (any != NULL && any->kind == TCI_JSON_ARRAY)
            v = coerce_union(a, v, any);
    }
    return v == NULL ? NULL : coerce_type(a, v, schema);
}

/* ---- nulls ---- */

static bool is_required(const tci_json *schema, tc_str name)
{
    const tci_json *names = tci_json_get(schema, TC_STR("required"));
    tc_str at;
    for (size_t i = 0; names != NULL && names->kind == TCI_JSON_ARRAY && i < names->count; i++)
        if (tci_json_as_str(&names->u.items[i], &at) && tci_str_eq(at, name))
            return true;
    return false;
}

static bool is_to_go(tci_arena *a, const tci_json_member *m, const tci_json *schema,
                     const tci_json *at)
{
    return m->value.kind == TCI_JSON_NULL && at->kind == TCI_JSON_OBJECT &&
           !is_required(schema, m->key) && tci_json_get(at, TC_STR("$ref")) == NULL &&
           !tci_fits(a, NULL, &m->value, at);
}

const tci_json *tci_drop_nulls(tci_arena *a, const tci_json *v, const tci_json *schema)
{
    if (schema->kind != TCI_JSON_OBJECT)
        return v;
    if (v->kind == TCI_JSON_ARRAY)
        return map_items(a, v, schema, tci_drop_nulls);
    const tci_json *known = tci_json_get(schema, TC_STR("properties"));
    if (v->kind != TCI_JSON_OBJECT || known == NULL)
        return v;
    tci_json_member *kept = tci_arena_items(a, tci_json_member, v->count);
    bool is_changed = false;
    size_t n = 0;
    if (kept == NULL)
        return NULL;
    for (size_t i = 0; i < v->count; i++) {
        const tci_json_member *m = &v->u.members[i];
        const tci_json *at = tci_json_get(known, m->key), *value = &m->value;
        if (at != NULL && is_to_go(a, m, schema, at)) {
            is_changed = true;
            continue;
        }
        if (at != NULL)
            value = tci_drop_nulls(a, value, at);
        if (value == NULL)
            return NULL;
        is_changed |= value != &m->value;
        kept[n++] = (tci_json_member){m->key, *value};
    }
    return is_changed ? with_members(a, kept, n) : v;
}
