/* SPDX-License-Identifier: Apache-2.0
 *
 * The configuration as a tree: what each field may be, the strict check with the path of the field in
 * the message, merging of layers. Leaves ranges and what depends on other fields to config_decode.c.
 *
 * Invariant: a tree that passed the check has only known fields, each of its type; decoding need not
 * look again. */
#include "daemon/config/config_int.h"

#include "base/num.h"
#include "base/utf8.h"

#include <stdio.h>

/* ---- what fields there are ---- */

typedef enum kind {
    KIND_TEXT,
    KIND_PATH, /* text without NUL */
    KIND_BOOL,
    KIND_U64,
    KIND_U32,
    KIND_OBJECT,
    KIND_LIST,  /* items are `of` */
    KIND_MAP,   /* values are `of` */
    KIND_CHOICE /* one of the words */
} kind;

typedef enum presence { OPTIONAL, NULLABLE, REQUIRED } presence;

struct field;

typedef struct type {
    kind kind;
    const char *what;           /* for "must be ..." */
    const struct field *fields; /* OBJECT */
    size_t nfields;
    const struct type *of;    /* LIST, MAP */
    const char *const *words; /* CHOICE: NULL-terminated; OBJECT with variants: values of `tag` */
    const struct type *const *variants; /* OBJECT: by the word in `tag` */
    const char *tag;
} type;

typedef struct field {
    const char *name;
    const type *type;
    presence presence;
} field;

#define FIELDS(table) .fields = (table), .nfields = TCI_ARRAY_LEN(table)

static const type text_type = {KIND_TEXT, .what = "a string"};
static const type path_type = {KIND_PATH, .what = "a path"};
static const type bool_type = {KIND_BOOL, .what = "true or false"};
static const type u64_type = {KIND_U64, .what = "an unsigned integer"};
static const type u32_type = {KIND_U32, .what = "an unsigned 32-bit integer"};
static const type paths_type = {KIND_LIST, .what = "a list of paths", .of = &path_type};
static const type texts_type = {KIND_LIST, .what = "a list of strings", .of = &text_type};
static const type text_map_type = {KIND_MAP, .what = "an object of strings", .of = &text_type};
static const type path_map_type = {KIND_MAP, .what = "an object of paths", .of = &path_type};

static const field limit_fields[] = {
#define X(name, value) {#name, &u64_type, OPTIONAL},
    TCI_LIMITS(X)
#undef X
};
static const type limits_type = {KIND_OBJECT, .what = "an object", FIELDS(limit_fields)};

static const field monitoring_fields[] = {
    {"sample_interval_ms", &u64_type, OPTIONAL},
    {"filesystems", &path_map_type, OPTIONAL},
    {"cgroup_v2_directory", &path_type, NULLABLE},
};
static const type monitoring_type = {KIND_OBJECT, .what = "an object", FIELDS(monitoring_fields)};

static const field execution_fields[] = {
    {"uid", &u32_type, NULLABLE},
    {"gid", &u32_type, NULLABLE},
    {"allow_sudo", &bool_type, NULLABLE},
};
static const type execution_type = {KIND_OBJECT, .what = "an object", FIELDS(execution_fields)};

static const char *const egress_words[] = {"inherit", "deny", "controlled", NULL};
static const type egress_mode_type = {KIND_CHOICE, .what = "inherit, deny or controlled",
                                      .words = egress_words};
static const field egress_fields[] = {{"mode", &egress_mode_type, REQUIRED}};
static const type egress_type = {KIND_OBJECT, .what = "an object with a mode",
                                 FIELDS(egress_fields)};

static const char *const access_words[] = {"read_only", "read_write", NULL};
static const type access_type = {KIND_CHOICE, .what = "read_only or read_write",
                                 .words = access_words};
static const field grant_fields[] = {{"path", &path_type, REQUIRED},
                                     {"access", &access_type, REQUIRED}};
static const type grant_type = {KIND_OBJECT, .what = "an object", FIELDS(grant_fields)};
static const type grants_type = {KIND_LIST, .what = "a list of grants", .of = &grant_type};

static const char *const sandbox_words[] = {"disabled", "restricted", NULL};
static const type sandbox_mode_type = {KIND_CHOICE, .what = "disabled or restricted",
                                       .words = sandbox_words};
static const field disabled_fields[] = {{"mode", &sandbox_mode_type, REQUIRED}};
static const type disabled_type = {KIND_OBJECT, .what = "an object with a mode",
                                   FIELDS(disabled_fields)};
static const field restricted_fields[] = {{"mode", &sandbox_mode_type, REQUIRED},
                                          {"grants", &grants_type, REQUIRED},
                                          {"full_disk_read", &bool_type, OPTIONAL}};
static const type restricted_type = {KIND_OBJECT, .what = "an object with a mode",
                                     FIELDS(restricted_fields)};
static const type *const sandbox_variants[] = {&disabled_type, &restricted_type};
static const type sandbox_type = {
    KIND_OBJECT,   .what = "an object with a mode", FIELDS(disabled_fields),
    .tag = "mode", .words = sandbox_words,          .variants = sandbox_variants};

static const field profile_fields[] = {
    {"profile_id", &text_type, REQUIRED},
    {"display_name", &text_type, REQUIRED},
    {"native_executable", &path_type, REQUIRED},
    {"fixed_arguments", &texts_type, OPTIONAL},
    {"safe_base_environment", &text_map_type, OPTIONAL},
    {"executable_search_roots", &paths_type, REQUIRED},
    {"max_script_bytes", &u64_type, REQUIRED},
    {"allow_login_mode", &bool_type, OPTIONAL},
};
static const type profile_type = {KIND_OBJECT, .what = "an object", FIELDS(profile_fields)};
static const type profiles_type = {KIND_LIST, .what = "a list of shell profiles",
                                   .of = &profile_type};

static const field root_fields[] = {
    {"device_id", &text_type, NULLABLE},
    {"name", &text_type, NULLABLE},
    {"description", &text_type, NULLABLE},
    {"default_working_directory", &path_type, NULLABLE},
    {"installation_state_directory", &path_type, NULLABLE},
    {"directory_discovery", &bool_type, NULLABLE},
    {"full_control", &bool_type, NULLABLE},
    {"trusted_executable_roots", &paths_type, OPTIONAL},
    {"shell_profiles", &profiles_type, OPTIONAL},
    {"execution", &execution_type, OPTIONAL},
    {"egress", &egress_type, OPTIONAL},
    {"sandbox", &sandbox_type, OPTIONAL},
    {"computer_use", &bool_type, NULLABLE},
    {"computer_use_permission_timeout_ms", &u64_type, NULLABLE},
    {"idle_timeout_ms", &u64_type, NULLABLE},
    {"disconnect_grace_ms", &u64_type, NULLABLE},
    {"limits", &limits_type, OPTIONAL},
    {"monitoring", &monitoring_type, NULLABLE},
};
static const type root_type = {KIND_OBJECT, .what = "an object", FIELDS(root_fields)};

/* ---- check ---- */

/* Where we are: a chain on the stack, written out only for a message. */
typedef struct place {
    const struct place *up;
    tc_str name; /* of a member; empty: an item */
    size_t index;
} place;

typedef struct checking {
    const char *source;
    tc_err *err;
} checking;

enum { PATH_TEXT_MAX = 160 };

static size_t put_place(const place *at, char *out, size_t used)
{
    int n;
    if (at == NULL || at->up == NULL) /* the root has no name */
        return used;
    used = put_place(at->up, out, used);
    if (at->name.ptr != NULL)
        n = snprintf(out + used, PATH_TEXT_MAX - used, "%s%.*s", at->up->up != NULL ? "." : "",
                     (int)tci_min_size(at->name.len, 64), at->name.ptr);
    else
        n = snprintf(out + used, PATH_TEXT_MAX - used, "[%zu]", at->index);
    return n > 0 ? tci_min_size(used + (size_t)n, PATH_TEXT_MAX - 1) : used;
}

static int refuse(const checking *c, const place *at, const char *why, const char *more)
{
    char text[PATH_TEXT_MAX] = "";
    size_t len = put_place(at, text, 0);
    for (size_t i = 0; i < len; i++) {
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
            text[i] = '?';
    }
    return tc_err_set(c->err, TC_E_INVALID, "invalid %s: %s%s%s%s", c->source, text,
                      len > 0 ? ": " : "", why, more);
}

static int check(const checking *c, const place *at, const type *t, const tci_json *v);

static const field *find_field(const type *t, tc_str name)
{
    for (size_t i = 0; i < t->nfields; i++) {
        if (tci_str_eq(tci_str(t->fields[i].name), name))
            return &t->fields[i];
    }
    return NULL;
}

static int check_object(const checking *c, const place *at, const type *t, const tci_json *v)
{
    for (uint32_t i = 0; i < v->count; i++) {
        const tci_json_member *m = &v->u.members[i];
        place here = {.up = at, .name = m->key};
        const field *f = find_field(t, m->key);
        if (f == NULL)
            return refuse(c, &here, "there is no such field", "");
        if (m->value.kind == TCI_JSON_NULL && f->presence == NULLABLE)
            continue;
        if (check(c, &here, f->type, &m->value) < 0)
            return c->err->code;
    }
    for (size_t i = 0; i < t->nfields; i++) {
        tc_str name = tci_str(t->fields[i].name);
        place here = {.up = at, .name = name};
        if (t->fields[i].presence == REQUIRED && tci_json_get(v, name) == NULL)
            return refuse(c, &here, "the field is required", "");
    }
    return 0;
}

static int check_items(const checking *c, const place *at, const type *t, const tci_json *v)
{
    for (uint32_t i = 0; i < v->count; i++) {
        place here = {.up = at, .index = i};
        if (t->kind == KIND_MAP)
            here.name = v->u.members[i].key;
        if (check(c, &here, t->of, t->kind == KIND_MAP ? &v->u.members[i].value : &v->u.items[i]) <
            0)
            return c->err->code;
    }
    return 0;
}

/* Index of the word, or -1. */
static int word_index(const char *const *words, tc_str word)
{
    for (int i = 0; words[i] != NULL; i++) {
        if (tci_str_eq(tci_str(words[i]), word))
            return i;
    }
    return -1;
}

/* An object whose tag picks its fields. Without a good tag no other field can be judged, so that is what
 * is complained about. */
static int check_variant(const checking *c, const place *at, const type *t, const tci_json *v)
{
    tc_str word;
    place here = {.up = at, .name = tci_str(t->tag)};
    const tci_json *tag = tci_json_get(v, here.name);
    int i = tag != NULL && tci_json_as_str(tag, &word) ? word_index(t->words, word) : -1;
    if (tag == NULL)
        return refuse(c, &here, "the field is required", "");
    if (i < 0)
        return refuse(c, &here, "must be ", find_field(t, here.name)->type->what);
    return check_object(c, at, t->variants[i], v);
}

static bool fits(const type *t, const tci_json *v)
{
    tc_str text;
    uint64_t number;
    switch (t->kind) {
    case KIND_TEXT:
        return v->kind == TCI_JSON_STRING;
    case KIND_PATH:
        return tci_json_as_str(v, &text) && tci_str_find_byte(text, '\0') == text.len;
    case KIND_BOOL:
        return v->kind == TCI_JSON_TRUE || v->kind == TCI_JSON_FALSE;
    case KIND_U64:
        return tci_json_as_u64(v, &number);
    case KIND_U32:
        return tci_json_as_u64(v, &number) && number <= UINT32_MAX;
    case KIND_OBJECT:
    case KIND_MAP:
        return v->kind == TCI_JSON_OBJECT;
    case KIND_LIST:
        return v->kind == TCI_JSON_ARRAY;
    case KIND_CHOICE:
        return tci_json_as_str(v, &text) && word_index(t->words, text) >= 0;
    }
    return false;
}

static int check(const checking *c, const place *at, const type *t, const tci_json *v)
{
    if (!fits(t, v))
        return refuse(c, at, "must be ", t->what);
    if (t->tag != NULL)
        return check_variant(c, at, t, v);
    if (t->kind == KIND_OBJECT)
        return check_object(c, at, t, v);
    if (t->kind == KIND_LIST || t->kind == KIND_MAP)
        return check_items(c, at, t, v);
    return 0;
}

int tci_cfg_check_tree(const char *source, const tci_json *tree, tc_err *err)
{
    checking c = {.source = source, .err = err};
    place root = {0};
    return check(&c, &root, &root_type, tree);
}

/* ---- merge ---- */

/* Objects member by member; anything else of `over` replaces what is there. */
static int merge(tci_arena *a, const tci_json *under, const tci_json *over, tci_json *ret,
                 tc_err *err)
{
    if (under->kind != TCI_JSON_OBJECT || over->kind != TCI_JSON_OBJECT) {
        *ret = *over;
        return 0;
    }
    uint32_t n = 0;
    tci_json_member *members =
        tci_arena_items(a, tci_json_member, (size_t)under->count + over->count + 1);
    if (members == NULL)
        return tci_arena_error(a, err);
    for (uint32_t i = 0; i < under->count; i++) {
        const tci_json_member *m = &under->u.members[i];
        const tci_json *value = tci_json_get(over, m->key);
        members[n] = *m;
        if (value != NULL && merge(a, &m->value, value, &members[n].value, err) < 0)
            return err->code;
        n++;
    }
    for (uint32_t i = 0; i < over->count; i++) {
        if (tci_json_get(under, over->u.members[i].key) == NULL)
            members[n++] = over->u.members[i];
    }
    *ret = (tci_json){.kind = TCI_JSON_OBJECT, .count = n, .u.members = members};
    return 0;
}

static int lay_over(tci_cfg *c, const tci_json *over, tc_err *err)
{
    tci_json merged;
    if (merge(c->arena, &c->tree, over, &merged, err) < 0)
        return err->code;
    c->tree = merged;
    return 0;
}

int tci_cfg_apply_json(tci_cfg *c, const char *source, tc_str text, tc_err *err)
{
    tci_json layer;
    if (tci_json_parse(text, 0, c->arena, &layer, err) < 0)
        return tc_err_wrap(err, "invalid %s", source);
    if (tci_cfg_check_tree(source, &layer, err) < 0)
        return err->code;
    return lay_over(c, &layer, err);
}

/* ---- scalars from variables and flags ---- */

/* The digits without a sign and leading zeros, or empty. */
static tc_str canonical_digits(tc_str text)
{
    if (text.len > 1 && text.ptr[0] == '+')
        text = tci_str_sub(text, 1, text.len);
    while (text.len > 1 && text.ptr[0] == '0')
        text = tci_str_sub(text, 1, text.len);
    return text;
}

static int read_scalar(tc_str where, tci_cfg_scalar scalar, tc_str value, tci_json *ret,
                       tc_err *err)
{
    static const char *const bool_words[] = {"false", "0", "true", "1", NULL};
    uint64_t number;
    int word;
    switch (scalar) {
    case TCI_CFG_NONE:
    case TCI_CFG_TEXT:
    case TCI_CFG_PATH:
        break;
    case TCI_CFG_BOOL:
        word = word_index(bool_words, value);
        if (word < 0)
            return tc_err_set(err, TC_E_INVALID, "%.*s must be true, false, 1 or 0",
                              TC_STR_ARG(where));
        *ret = (tci_json){.kind = word < 2 ? TCI_JSON_FALSE : TCI_JSON_TRUE};
        return 0;
    case TCI_CFG_U64:
    case TCI_CFG_U32:
        value = canonical_digits(value);
        if (tci_num_u64(value, &number, err) < 0 || (scalar == TCI_CFG_U32 && number > UINT32_MAX))
            return tc_err_set(err, TC_E_INVALID, "%.*s must be an unsigned %sinteger",
                              TC_STR_ARG(where), scalar == TCI_CFG_U32 ? "32-bit " : "");
        *ret = (tci_json){.kind = TCI_JSON_NUMBER, .u.text = value};
        return 0;
    case TCI_CFG_EGRESS:
        if (word_index(egress_words, value) < 0)
            return tc_err_set(err, TC_E_INVALID,
                              "%.*s: egress mode must be inherit, deny or controlled",
                              TC_STR_ARG(where));
        break;
    }
    *ret = (tci_json){.kind = TCI_JSON_STRING, .u.text = value};
    return 0;
}

int tci_cfg_apply_scalar(tci_cfg *c, tc_str where, tc_str at, tci_cfg_scalar scalar, tc_str value,
                         tc_err *err)
{
    size_t dot = tci_str_find_byte(at, '.');
    tci_json_member *inner = tci_arena_new(c->arena, tci_json_member);
    tci_json_member *outer = tci_arena_new(c->arena, tci_json_member);
    if (inner == NULL || outer == NULL)
        return tci_arena_error(c->arena, err);
    inner->key = dot < at.len ? tci_str_sub(at, dot + 1, at.len) : at;
    if (read_scalar(where, scalar, value, &inner->value, err) < 0)
        return err->code;
    tci_json over = {.kind = TCI_JSON_OBJECT, .count = 1, .u.members = inner};
    if (dot < at.len) {
        outer->key = tci_str_sub(at, 0, dot);
        outer->value = over;
        over.u.members = outer;
    }
    return lay_over(c, &over, err);
}
