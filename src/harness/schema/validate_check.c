/* SPDX-License-Identifier: Apache-2.0
 *
 * What of a value does not fit a schema. The keywords of arguments are those the originals know; a
 * checker with a root, for structured output, follows "#..." references and knows the rest of the
 * 2020-12 vocabulary except unevaluated* and dynamic references, too. A keyword whose own value is no
 * good is not there; so is a pattern that is not regular. Any thread.
 *
 * To keep: a schema may refer to itself, so depth is bounded by DEPTH_MAX and all work by STEPS_MAX. */
#include "harness/schema/validate.h"

#include "base/json_tree.h"
#include "base/num.h"
#include "base/utf8.h"
#include "harness/schema/validate_pattern.h"
#include <math.h>
#include <stdio.h>

enum { DEPTH_MAX = 200, STEPS_MAX = 400000 };

void tci_checker_init(tci_checker *c, tci_arena *a, const tci_json *root)
{
    *c = (tci_checker){.a = a, .root = root};
    c->last = &c->first;
    c->nsteps = &c->own_nsteps;
}

static void add_flaw(tci_checker *c, tc_str path, tc_str message)
{
    tci_flaw *f = tci_arena_new(c->a, tci_flaw);
    if (f == NULL) {
        c->has_failed = true;
        return;
    }
    *f = (tci_flaw){path.len > 0 ? path : TC_STR("root"), message, NULL};
    *c->last = f;
    c->last = &f->next;
}

static void add_text(tci_checker *c, tc_str path, const char *before, tc_str value,
                     const char *after)
{
    tc_str message;
    tc_err err;
    if (tci_arena_printf(c->a, &message, &err, "%s%.*s%s", before, TC_STR_ARG(value), after) < 0)
        c->has_failed = true;
    else
        add_flaw(c, path, message);
}

static tc_str path_of(tci_checker *c, tc_str path, tc_str step)
{
    tc_str joined = step;
    tc_err err;
    if (path.len > 0 &&
        tci_arena_printf(c->a, &joined, &err, "%.*s.%.*s", TC_STR_ARG(path), TC_STR_ARG(step)) < 0)
        c->has_failed = true;
    return joined;
}

static tc_str path_at(tci_checker *c, tc_str path, size_t index)
{
    char text[24];
    int n = snprintf(text, sizeof text, "%zu", index);
    tc_str step = tci_str_of(text, (size_t)n), kept = {0};
    tc_err err;
    if (tci_arena_dup(c->a, step, &kept, &err) < 0)
        c->has_failed = true;
    return path_of(c, path, kept);
}

/* ---- types and numbers ---- */

static const struct {
    tc_str name, message;
    tci_schema_type type;
} type_names[] = {
    {{"number", 6}, {"Expected number", 15}, TCI_TYPE_NUMBER},
    {{"integer", 7}, {"Expected integer", 16}, TCI_TYPE_INTEGER},
    {{"boolean", 7}, {"Expected boolean", 16}, TCI_TYPE_BOOLEAN},
    {{"string", 6}, {"Expected string", 15}, TCI_TYPE_STRING},
    {{"null", 4}, {"Expected null", 13}, TCI_TYPE_NULL},
    {{"array", 5}, {"Expected array", 14}, TCI_TYPE_ARRAY},
    {{"object", 6}, {"Expected object", 15}, TCI_TYPE_OBJECT},
};

static bool type_of(const tci_json *name, tci_schema_type *ret)
{
    for (size_t i = 0; i < TCI_ARRAY_LEN(type_names); i++)
        if (name->kind == TCI_JSON_STRING && tci_str_eq(name->u.text, type_names[i].name)) {
            *ret = type_names[i].type;
            return true;
        }
    return false;
}

size_t tci_schema_types(const tci_json *schema, tci_schema_type types[7])
{
    const tci_json *declared = tci_json_get(schema, TC_STR("type"));
    size_t n = 0;
    if (declared == NULL)
        return 0;
    if (declared->kind == TCI_JSON_STRING)
        return type_of(declared, &types[0]) ? 1 : 0;
    if (declared->kind == TCI_JSON_ARRAY)
        for (size_t i = 0; i < declared->count && n < 7; i++)
            n += type_of(&declared->u.items[i], &types[n]) ? 1 : 0;
    return n;
}

bool tci_is_whole_number(tc_str token)
{
    size_t e = 0;
    while (e < token.len && token.ptr[e] != 'e' && token.ptr[e] != 'E')
        e++;
    tc_str digits = tci_str_sub(token, 0, e);
    size_t dot = tci_str_find_byte(digits, '.');
    tc_str fraction = tci_str_sub(digits, dot + 1, digits.len), whole = tci_str_sub(digits, 0, dot);
    while (fraction.len > 0 && fraction.ptr[fraction.len - 1] == '0')
        fraction.len--;
    size_t zeros = 0;
    while (zeros < whole.len && whole.ptr[whole.len - 1 - zeros] == '0')
        zeros++;
    bool is_zero = fraction.len == 0 &&
                   (whole.len == zeros || (whole.len == zeros + 1 && whole.ptr[0] == '-'));
    if (e == token.len || is_zero)
        return fraction.len == 0;
    tc_str power = tci_str_sub(token, e + 1, token.len);
    if (power.len > 0 && power.ptr[0] == '+')
        power = tci_str_sub(power, 1, power.len);
    bool is_negative = power.len > 0 && power.ptr[0] == '-';
    if (is_negative)
        power = tci_str_sub(power, 1, power.len);
    while (power.len > 1 && power.ptr[0] == '0')
        power = tci_str_sub(power, 1, power.len);
    uint64_t n;
    tc_err ignored;
    if (tci_num_u64(power, &n, &ignored) < 0)
        return !is_negative;
    return is_negative ? fraction.len == 0 && n <= zeros : fraction.len <= n;
}

double tci_number_of(tc_str token)
{
    double v;
    tc_err ignored;
    if (tci_num_double(token, &v, &ignored) == 0)
        return v;
    return token.len > 0 && token.ptr[0] == '-' ? -HUGE_VAL : HUGE_VAL;
}

bool tci_is_of_type(const tci_json *v, tci_schema_type type)
{
    switch (v->kind) {
    case TCI_JSON_NULL:
        return type == TCI_TYPE_NULL;
    case TCI_JSON_FALSE:
    case TCI_JSON_TRUE:
        return type == TCI_TYPE_BOOLEAN;
    case TCI_JSON_NUMBER:
        return type == TCI_TYPE_NUMBER ||
               (type == TCI_TYPE_INTEGER && tci_is_whole_number(v->u.text));
    case TCI_JSON_STRING:
        return type == TCI_TYPE_STRING;
    case TCI_JSON_ARRAY:
        return type == TCI_TYPE_ARRAY;
    case TCI_JSON_OBJECT:
        return type == TCI_TYPE_OBJECT;
    }
    return false;
}

static bool has_number(const tci_json *schema, tc_str key, double *ret, tc_str *ret_token)
{
    const tci_json *v = tci_json_get(schema, key);
    if (v == NULL || v->kind != TCI_JSON_NUMBER)
        return false;
    *ret = tci_number_of(v->u.text);
    *ret_token = v->u.text;
    return true;
}

static void check_number(tci_checker *c, const tci_json *v, const tci_json *schema, tc_str path)
{
    double n = tci_number_of(v->u.text), limit;
    tc_str token;
    if (has_number(schema, TC_STR("minimum"), &limit, &token) && n < limit)
        add_text(c, path, "Expected number to be greater or equal to ", token, "");
    if (has_number(schema, TC_STR("maximum"), &limit, &token) && n > limit)
        add_text(c, path, "Expected number to be less or equal to ", token, "");
    if (has_number(schema, TC_STR("exclusiveMinimum"), &limit, &token) && n <= limit)
        add_text(c, path, "Expected number to be greater than ", token, "");
    if (has_number(schema, TC_STR("exclusiveMaximum"), &limit, &token) && n >= limit)
        add_text(c, path, "Expected number to be less than ", token, "");
    if (has_number(schema, TC_STR("multipleOf"), &limit, &token) && limit > 0) {
        double times = n / limit, whole = nearbyint(times);
        double room = 1e-9 * fmax(fmax(fabs(times), fabs(whole)), 1);
        if (!isfinite(times) || fabs(times - whole) > room)
            add_text(c, path, "Expected number to be a multiple of ", token, "");
    }
}

/* ---- texts, arrays, objects ---- */

static bool has_count(const tci_json *schema, tc_str key, uint64_t *ret, tc_str *ret_token)
{
    const tci_json *v = tci_json_get(schema, key);
    if (!tci_json_as_u64(v, ret))
        return false;
    *ret_token = v->u.text;
    return true;
}

static void check_counts(tci_checker *c, const tci_json *schema, uint64_t n, tc_str path,
                         tc_str min_key, tc_str max_key, const char *min_text, const char *max_text,
                         const char *after)
{
    uint64_t limit;
    tc_str token;
    if (has_count(schema, min_key, &limit, &token) && n < limit)
        add_text(c, path, min_text, token, after);
    if (has_count(schema, max_key, &limit, &token) && n > limit)
        add_text(c, path, max_text, token, after);
}

static bool matches(tci_checker *c, tc_str pattern, tc_str text)
{
    const tci_pattern *p;
    tc_err err;
    bool is_found = true;
    if (tci_pattern_compile(pattern, false, c->a, &p, &err) < 0)
        return true;
    if (tci_pattern_find(p, text, &is_found, NULL, NULL, &err) < 0)
        c->has_failed = true;
    return is_found;
}

/* Characters of WTF-8. */
static uint64_t count_chars(tc_str s)
{
    uint64_t n = 0;
    for (size_t i = 0; i < s.len; i++)
        n += ((unsigned char)s.ptr[i] & 0xC0) != 0x80;
    return n;
}

static void check_text(tci_checker *c, const tci_json *v, const tci_json *schema, tc_str path)
{
    tc_str pattern;
    check_counts(c, schema, count_chars(v->u.text), path, TC_STR("minLength"), TC_STR("maxLength"),
                 "Expected string to have a minimum length of ",
                 "Expected string to have a maximum length of ", "");
    if (tci_json_as_str(tci_json_get(schema, TC_STR("pattern")), &pattern) &&
        !matches(c, pattern, v->u.text))
        add_text(c, path, "Expected string to match '", pattern, "'");
}

static void check_level(tci_checker *c, const tci_json *v, const tci_json *schema, tc_str path,
                        unsigned depth);

static bool fits_at(tci_checker *c, const tci_json *v, const tci_json *schema, unsigned depth)
{
    tci_checker inner;
    tci_checker_init(&inner, c->a, c->root);
    inner.nsteps = c->nsteps;
    check_level(&inner, v, schema, (tc_str){0}, depth + 1);
    c->has_failed |= inner.has_failed;
    return inner.first == NULL;
}

static bool is_unique(const tci_json *v)
{
    for (size_t i = 0; i < v->count; i++)
        for (size_t j = 0; j < i; j++)
            if (tci_json_equal(&v->u.items[i], &v->u.items[j]))
                return false;
    return true;
}

static void check_contains(tci_checker *c, const tci_json *v, const tci_json *schema, tc_str path,
                           unsigned depth)
{
    const tci_json *wanted = tci_json_get(schema, TC_STR("contains"));
    uint64_t n = 0, min = 1, max;
    tc_str token = TC_STR("1");
    if (wanted == NULL || c->root == NULL)
        return;
    for (size_t i = 0; i < v->count; i++)
        n += fits_at(c, &v->u.items[i], wanted, depth);
    (void)has_count(schema, TC_STR("minContains"), &min, &token); /* 1 without it */
    if (n < min)
        add_text(c, path, "Expected array to contain at least ", token, " matching items");
    if (has_count(schema, TC_STR("maxContains"), &max, &token) && n > max)
        add_text(c, path, "Expected array to contain at most ", token, " matching items");
}

static void check_array(tci_checker *c, const tci_json *v, const tci_json *schema, tc_str path,
                        unsigned depth)
{
    bool unique;
    check_counts(c, schema, v->count, path, TC_STR("minItems"), TC_STR("maxItems"),
                 "Expected array to have at least ", "Expected array to have at most ", " items");
    if (tci_json_as_bool(tci_json_get(schema, TC_STR("uniqueItems")), &unique) && unique &&
        !is_unique(v))
        add_flaw(c, path, TC_STR("Expected array items to be unique"));
    const tci_json *items = tci_json_get(schema, TC_STR("items"));
    const tci_json *prefix = tci_json_get(schema, TC_STR("prefixItems"));
    if (prefix == NULL && items != NULL && items->kind == TCI_JSON_ARRAY) {
        prefix = items;
        items = tci_json_get(schema, TC_STR("additionalItems"));
    }
    size_t nprefix = prefix != NULL && prefix->kind == TCI_JSON_ARRAY ? prefix->count : 0;
    for (size_t i = 0; i < v->count; i++) {
        const tci_json *at = i < nprefix ? &prefix->u.items[i] : items;
        if (at != NULL)
            check_level(c, &v->u.items[i], at, path_at(c, path, i), depth + 1);
    }
    check_contains(c, v, schema, path, depth);
}

static void check_member(tci_checker *c, const tci_json_member *m, const tci_json *schema,
                         tc_str path, unsigned depth)
{
    const tci_json *known = tci_json_get(tci_json_get(schema, TC_STR("properties")), m->key);
    const tci_json *by_pattern = tci_json_get(schema, TC_STR("patternProperties"));
    bool is_known = known != NULL;
    if (known != NULL)
        check_level(c, &m->value, known, path, depth + 1);
    if (c->root != NULL && by_pattern != NULL && by_pattern->kind == TCI_JSON_OBJECT)
        for (size_t i = 0; i < by_pattern->count; i++)
            if (matches(c, by_pattern->u.members[i].key, m->key)) {
                is_known = true;
                check_level(c, &m->value, &by_pattern->u.members[i].value, path, depth + 1);
            }
    const tci_json *more = tci_json_get(schema, TC_STR("additionalProperties"));
    if (is_known || more == NULL)
        return;
    if (more->kind == TCI_JSON_FALSE)
        add_flaw(c, path, TC_STR("Expected not to have additional properties"));
    else if (more->kind == TCI_JSON_OBJECT)
        check_level(c, &m->value, more, path, depth + 1);
}

static void check_required(tci_checker *c, const tci_json *v, const tci_json *names, tc_str path)
{
    if (names == NULL || names->kind != TCI_JSON_ARRAY)
        return;
    for (size_t i = 0; i < names->count; i++) {
        tc_str name;
        if (tci_json_as_str(&names->u.items[i], &name) && tci_json_get(v, name) == NULL)
            add_flaw(c, path_of(c, path, name), TC_STR("Expected required property"));
    }
}

/* The keywords about names that only a checker with a root knows. */
static void check_names(tci_checker *c, const tci_json *v, const tci_json *schema, tc_str path,
                        unsigned depth)
{
    const tci_json *names = tci_json_get(schema, TC_STR("propertyNames"));
    const tci_json *needs = tci_json_get(schema, TC_STR("dependentRequired"));
    const tci_json *schemas = tci_json_get(schema, TC_STR("dependentSchemas"));
    for (size_t i = 0; names != NULL && i < v->count; i++) {
        tci_json key = {.kind = TCI_JSON_STRING, .u.text = v->u.members[i].key};
        check_level(c, &key, names, path_of(c, path, key.u.text), depth + 1);
    }
    for (size_t i = 0; needs != NULL && needs->kind == TCI_JSON_OBJECT && i < needs->count; i++)
        if (tci_json_get(v, needs->u.members[i].key) != NULL)
            check_required(c, v, &needs->u.members[i].value, path);
    for (size_t i = 0; schemas != NULL && schemas->kind == TCI_JSON_OBJECT && i < schemas->count;
         i++)
        if (tci_json_get(v, schemas->u.members[i].key) != NULL)
            check_level(c, v, &schemas->u.members[i].value, path, depth + 1);
}

static void check_object(tci_checker *c, const tci_json *v, const tci_json *schema, tc_str path,
                         unsigned depth)
{
    check_required(c, v, tci_json_get(schema, TC_STR("required")), path);
    for (size_t i = 0; i < v->count; i++)
        check_member(c, &v->u.members[i], schema, path_of(c, path, v->u.members[i].key), depth);
    check_counts(c, schema, v->count, path, TC_STR("minProperties"), TC_STR("maxProperties"),
                 "Expected object to have at least ", "Expected object to have at most ",
                 " properties");
    if (c->root != NULL)
        check_names(c, v, schema, path, depth);
}

/* ---- everything together ---- */

static void check_choices(tci_checker *c, const tci_json *v, const tci_json *schema, tc_str path,
                          unsigned depth, bool only_one)
{
    const tci_json *all = tci_json_get(schema, only_one ? TC_STR("oneOf") : TC_STR("anyOf"));
    size_t n = 0;
    if (all == NULL || all->kind != TCI_JSON_ARRAY)
        return;
    for (size_t i = 0; i < all->count; i++)
        n += fits_at(c, v, &all->u.items[i], depth);
    /* Of arguments, more than one fit is fine, as it is for the originals. */
    if (n == 0 || (only_one && n > 1 && c->root != NULL))
        add_flaw(c, path, TC_STR("Expected union value"));
}

static void check_values(tci_checker *c, const tci_json *v, const tci_json *schema, tc_str path)
{
    const tci_json *only = tci_json_get(schema, TC_STR("const"));
    const tci_json *among = tci_json_get(schema, TC_STR("enum"));
    tci_buf b;
    bool is_in = false;
    tci_buf_init(&b, TCI_BUF_MAX);
    if (only != NULL && !tci_json_equal(v, only)) {
        tci_json_put(&b, only, TCI_JSON_AS_IS);
        add_text(c, path, "Expected ", tci_buf_str(&b), "");
        tci_buf_clear(&b);
    }
    if (among != NULL && among->kind == TCI_JSON_ARRAY) {
        for (size_t i = 0; i < among->count; i++) {
            is_in |= tci_json_equal(v, &among->u.items[i]);
            tci_buf_append_str(&b, i == 0 ? TC_STR("") : TC_STR(", "));
            tci_json_put(&b, &among->u.items[i], TCI_JSON_AS_IS);
        }
        if (!is_in)
            add_text(c, path, "Expected one of ", tci_buf_str(&b), "");
    }
    c->has_failed |= !tci_buf_ok(&b);
    tci_buf_done(&b);
}

/* if, not and $ref: a checker with a root only. */
static void check_conditions(tci_checker *c, const tci_json *v, const tci_json *schema, tc_str path,
                             unsigned depth)
{
    const tci_json *test = tci_json_get(schema, TC_STR("if"));
    const tci_json *no = tci_json_get(schema, TC_STR("not"));
    tc_str ref;
    if (test != NULL) {
        const tci_json *then =
            tci_json_get(schema, fits_at(c, v, test, depth) ? TC_STR("then") : TC_STR("else"));
        if (then != NULL)
            check_level(c, v, then, path, depth + 1);
    }
    if (no != NULL && fits_at(c, v, no, depth))
        add_flaw(c, path, TC_STR("Expected value not to match"));
    if (!tci_json_as_str(tci_json_get(schema, TC_STR("$ref")), &ref))
        return;
    tci_step *steps;
    size_t nsteps;
    tc_err err;
    const tci_json *target = NULL;
    if (ref.len > 0 && ref.ptr[0] == '#' &&
        tci_json_pointer(tci_str_sub(ref, 1, ref.len), c->root, c->a, &steps, &nsteps, &err) == 0)
        target = tci_json_at(c->root, steps, nsteps);
    if (target == NULL)
        add_text(c, path, "Expected a schema at ", ref, "");
    else
        check_level(c, v, target, path, depth + 1);
}

static bool check_types(tci_checker *c, const tci_json *v, const tci_json *schema, tc_str path)
{
    tci_schema_type types[7];
    size_t n = tci_schema_types(schema, types);
    for (size_t i = 0; i < n; i++)
        if (tci_is_of_type(v, types[i]))
            return true;
    for (size_t i = 0; n > 0 && i < TCI_ARRAY_LEN(type_names); i++)
        if (type_names[i].type == types[0])
            add_flaw(c, path, type_names[i].message);
    return n == 0;
}

static const tc_str too_much = {"Expected less to check: the schema asks for too much", 52};

static void check_level(tci_checker *c, const tci_json *v, const tci_json *schema, tc_str path,
                        unsigned depth)
{
    if (schema->kind == TCI_JSON_FALSE)
        add_flaw(c, path, TC_STR("Expected nothing here"));
    if (schema->kind != TCI_JSON_OBJECT || depth > DEPTH_MAX)
        return;
    if (*c->nsteps == STEPS_MAX) {
        add_flaw(c, path, too_much);
        return;
    }
    ++*c->nsteps;
    const tci_json *all = tci_json_get(schema, TC_STR("allOf"));
    for (size_t i = 0; all != NULL && all->kind == TCI_JSON_ARRAY && i < all->count; i++)
        check_level(c, v, &all->u.items[i], path, depth + 1);
    check_choices(c, v, schema, path, depth, false);
    check_choices(c, v, schema, path, depth, true);
    if (c->root != NULL)
        check_conditions(c, v, schema, path, depth);
    check_values(c, v, schema, path);
    if (!check_types(c, v, schema, path))
        return;
    if (v->kind == TCI_JSON_NUMBER)
        check_number(c, v, schema, path);
    else if (v->kind == TCI_JSON_STRING)
        check_text(c, v, schema, path);
    else if (v->kind == TCI_JSON_ARRAY)
        check_array(c, v, schema, path, depth);
    else if (v->kind == TCI_JSON_OBJECT)
        check_object(c, v, schema, path, depth);
}

void tci_check(tci_checker *c, const tci_json *v, const tci_json *schema, tc_str path)
{
    check_level(c, v, schema, path, 0);
    if (*c->nsteps == STEPS_MAX && c->first == NULL)
        add_flaw(c, path, too_much); /* it was said inside of a choice or a "not" */
}

bool tci_fits(tci_arena *a, const tci_json *root, const tci_json *v, const tci_json *schema)
{
    tci_checker c;
    tci_checker_init(&c, a, root);
    tci_check(&c, v, schema, (tc_str){0});
    return c.first == NULL;
}
