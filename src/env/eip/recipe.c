/* SPDX-License-Identifier: Apache-2.0
 *
 * A recipe as a program's configuration holds it: JSON to options. Leaves what it may say to
 * egress_recipe.c and to create. Pure; any thread. Invariant: a member that is not known is refused,
 * a secret's value among them. */
#include "env/env_int.h"

#include "base/json.h"

enum { RECIPE_MAX = 256 * 1024 };

/* What is read, and where a mistake is. */
typedef struct reader {
    tci_arena *a;
    tc_err *err;
} reader;

static int wrong(const reader *r, const char *where, const char *what)
{
    return tc_err_set(r->err, TC_E_INVALID, "the recipe's %s %s", where, what);
}

/* An object with no members but these, NULL at the end. */
static int check_object(const reader *r, const tci_json *v, const char *where,
                        const char *const names[])
{
    if (v == NULL || v->kind != TCI_JSON_OBJECT)
        return wrong(r, where, "is not an object");
    for (uint32_t i = 0; i < v->count; i++) {
        const char *const *name = names;
        while (*name != NULL && !tci_str_eq(v->u.members[i].key, tci_str(*name)))
            name++;
        if (*name == NULL)
            return tc_err_set(r->err, TC_E_INVALID, "the recipe's %s has an unknown member '%.*s'",
                              where, TC_STR_ARG(v->u.members[i].key));
    }
    return 0;
}

static int read_text(const reader *r, const tci_json *object, const char *where, const char *name,
                     tc_str *ret)
{
    tc_str text;
    if (!tci_json_as_str(tci_json_get(object, tci_str(name)), &text) || text.len == 0)
        return tc_err_set(r->err, TC_E_INVALID, "the recipe's %s needs a text '%s'", where, name);
    return tci_arena_dup(r->a, text, ret, r->err);
}

static int read_texts(const reader *r, const tci_json *v, const char *where, tc_strs *ret)
{
    if (v == NULL || v->kind != TCI_JSON_ARRAY)
        return wrong(r, where, "is not a list");
    tc_str *items = tci_arena_items(r->a, tc_str, v->count);
    if (items == NULL)
        return tci_arena_error(r->a, r->err);
    for (uint32_t i = 0; i < v->count; i++) {
        tc_str text;
        if (!tci_json_as_str(&v->u.items[i], &text))
            return wrong(r, where, "has an item that is no text");
        int rc = tci_arena_dup(r->a, text, &items[i], r->err);
        if (rc < 0)
            return rc;
    }
    *ret = (tc_strs){items, v->count};
    return 0;
}

/* ---- egress ---- */

static int read_destinations(const reader *r, const tci_json *v, tc_destinations *d)
{
    static const char *const names[] = {"mode", "hosts", NULL};
    tc_str mode = {0};
    int rc = check_object(r, v, "destinations", names);
    if (rc == 0)
        rc = read_text(r, v, "destinations", "mode", &mode);
    if (rc < 0)
        return rc;
    const tci_json *hosts = tci_json_get(v, TC_STR("hosts"));
    d->is_allowlist = tci_str_eq(mode, TC_STR("allowlist"));
    if (!d->is_allowlist && !tci_str_eq(mode, TC_STR("public")))
        return wrong(r, "destinations", "are neither public nor an allowlist");
    if (!d->is_allowlist)
        return hosts == NULL ? 0 : wrong(r, "destinations", "have hosts without an allowlist");
    return read_texts(r, hosts, "destinations", &d->hosts);
}

static int read_secret(const reader *r, const tci_json *v, tc_secret_ref *ref)
{
    static const char *const names[] = {"env", "source", "inject_hosts", NULL};
    static const char *const source_names[] = {"kind", "name", NULL};
    int rc = check_object(r, v, "secret", names);
    const tci_json *source = tci_json_get(v, TC_STR("source"));
    if (rc == 0)
        rc = read_text(r, v, "secret", "env", &ref->env);
    if (rc == 0)
        rc = check_object(r, source, "secret source", source_names);
    if (rc == 0)
        rc = read_text(r, source, "secret source", "kind", &ref->kind);
    if (rc == 0)
        rc = read_text(r, source, "secret source", "name", &ref->name);
    if (rc == 0)
        rc = read_texts(r, tci_json_get(v, TC_STR("inject_hosts")), "secret's hosts",
                        &ref->inject_hosts);
    return rc;
}

static int read_egress(const reader *r, const tci_json *v, const tc_egress_recipe **ret)
{
    static const char *const names[] = {"destinations", "secrets", NULL};
    tc_egress_recipe *e = tci_arena_new(r->a, tc_egress_recipe);
    if (e == NULL)
        return tci_arena_error(r->a, r->err);
    int rc = check_object(r, v, "egress", names);
    if (rc == 0)
        rc = read_destinations(r, tci_json_get(v, TC_STR("destinations")), &e->destinations);
    const tci_json *secrets = tci_json_get(v, TC_STR("secrets"));
    if (rc == 0 && secrets != NULL && secrets->kind != TCI_JSON_ARRAY)
        rc = wrong(r, "secrets", "are not a list");
    if (rc == 0 && secrets != NULL) {
        tc_secret_ref *refs = tci_arena_items(r->a, tc_secret_ref, secrets->count);
        if (refs == NULL)
            return tci_arena_error(r->a, r->err);
        e->secrets = refs;
        e->nsecrets = secrets->count;
        for (uint32_t i = 0; rc == 0 && i < secrets->count; i++)
            rc = read_secret(r, &secrets->u.items[i], &refs[i]);
    }
    if (rc == 0)
        rc = tci_egress_check(e, r->err);
    *ret = e;
    return rc;
}

/* ---- the expected boundary ---- */

static int read_grant(const reader *r, const tci_json *v, tc_grant *g)
{
    static const char *const names[] = {"path", "access", NULL};
    tc_str access = {0};
    int rc = check_object(r, v, "grant", names);
    if (rc == 0)
        rc = read_text(r, v, "grant", "path", &g->path);
    if (rc == 0)
        rc = read_text(r, v, "grant", "access", &access);
    g->is_writable = tci_str_eq(access, TC_STR("read_write"));
    if (rc == 0 && !g->is_writable && !tci_str_eq(access, TC_STR("read_only")))
        rc = wrong(r, "grant", "has an access that is neither read_only nor read_write");
    return rc;
}

static int read_grants(const reader *r, const tci_json *v, tc_expected_boundary *b)
{
    if (v == NULL || v->kind != TCI_JSON_ARRAY)
        return wrong(r, "grants", "are not a list");
    tc_grant *grants = tci_arena_items(r->a, tc_grant, v->count);
    int rc = grants != NULL ? 0 : tci_arena_error(r->a, r->err);
    for (uint32_t i = 0; rc == 0 && i < v->count; i++)
        rc = read_grant(r, &v->u.items[i], &grants[i]);
    b->grants = grants;
    b->ngrants = v->count;
    return rc;
}

static int read_flag(const reader *r, const tci_json *object, const char *name, bool *has,
                     bool *ret)
{
    const tci_json *v = tci_json_get(object, tci_str(name));
    *has = v != NULL;
    if (v != NULL && !tci_json_as_bool(v, ret))
        return wrong(r, name, "is neither true nor false");
    return 0;
}

static int read_sandbox(const reader *r, const tci_json *v, tc_expected_boundary *b)
{
    static const char *const names[] = {"mode", "grants", "full_disk_read", NULL};
    tc_str mode = {0};
    bool has;
    int rc = check_object(r, v, "sandbox", names);
    if (rc == 0)
        rc = read_text(r, v, "sandbox", "mode", &mode);
    if (rc < 0)
        return rc;
    b->is_restricted = tci_str_eq(mode, TC_STR("restricted"));
    if (!b->is_restricted)
        return tci_str_eq(mode, TC_STR("disabled")) && v->count == 1
                   ? 0
                   : wrong(r, "sandbox", "is neither disabled nor restricted");
    rc = read_flag(r, v, "full_disk_read", &has, &b->full_disk_read);
    return rc == 0 ? read_grants(r, tci_json_get(v, TC_STR("grants")), b) : rc;
}

static int read_identity(const reader *r, const tci_json *v, tc_expected_boundary *b)
{
    static const char *const names[] = {"uid", "gid", NULL};
    uint64_t uid = 0, gid = 0;
    if (v == NULL)
        return 0;
    int rc = check_object(r, v, "identity", names);
    if (rc == 0 && (!tci_json_as_u64(tci_json_get(v, TC_STR("uid")), &uid) ||
                    !tci_json_as_u64(tci_json_get(v, TC_STR("gid")), &gid) || uid > UINT32_MAX ||
                    gid > UINT32_MAX))
        rc = wrong(r, "identity", "needs the numbers of a user and a group");
    b->check_identity = true;
    b->uid = (uint32_t)uid;
    b->gid = (uint32_t)gid;
    return rc;
}

static int read_boundary(const reader *r, const tci_json *v, const tc_expected_boundary **ret)
{
    static const char *const names[] = {"sandbox", "egress", "identity", "privilege_gain_blocked",
                                        NULL};
    static const char *const modes[] = {[TC_EGRESS_INHERIT] = "inherit",
                                        [TC_EGRESS_DENY] = "deny",
                                        [TC_EGRESS_CONTROLLED] = "controlled"};
    tc_expected_boundary *b = tci_arena_new(r->a, tc_expected_boundary);
    tc_str mode = {0};
    bool is_known = false;
    if (b == NULL)
        return tci_arena_error(r->a, r->err);
    int rc = check_object(r, v, "expected_boundary", names);
    if (rc == 0)
        rc = read_sandbox(r, tci_json_get(v, TC_STR("sandbox")), b);
    if (rc == 0)
        rc = read_text(r, v, "expected_boundary", "egress", &mode);
    for (size_t i = 0; rc == 0 && i < TCI_ARRAY_LEN(modes); i++)
        if (modes[i] != NULL && tci_str_eq(mode, tci_str(modes[i]))) {
            b->egress = (tc_egress_mode)i;
            is_known = true;
        }
    if (rc == 0 && !is_known)
        rc = wrong(r, "expected_boundary", "has an unknown egress mode");
    if (rc == 0)
        rc = read_flag(r, v, "privilege_gain_blocked", &b->check_privilege_gain,
                       &b->privilege_gain_blocked);
    if (rc == 0)
        rc = read_identity(r, tci_json_get(v, TC_STR("identity")), b);
    *ret = b;
    return rc;
}

/* ---- the whole ---- */

static int read_recipe(const reader *r, const tci_json *tree, tc_env_options *o)
{
    static const char *const names[] = {"working_directory", "egress", "expected_boundary", NULL};
    int rc = check_object(r, tree, "top", names);
    if (rc == 0 && tci_json_get(tree, TC_STR("working_directory")) != NULL)
        rc = read_text(r, tree, "top", "working_directory", &o->working_directory);
    const tci_json *egress = tci_json_get(tree, TC_STR("egress"));
    if (rc == 0 && egress != NULL)
        rc = read_egress(r, egress, &o->egress);
    const tci_json *boundary = tci_json_get(tree, TC_STR("expected_boundary"));
    if (rc == 0 && boundary != NULL)
        rc = read_boundary(r, boundary, &o->expected_boundary);
    return rc;
}

int tc_env_recipe_parse(tc_str json, tc_result *result, tc_env_options *options, tc_err *err)
{
    reader r = {tci_result_arena(result), err};
    tc_env_options o = *options;
    tc_str copy;
    tci_json tree;
    if (json.len > RECIPE_MAX)
        return tc_err_set(err, TC_E_TOO_BIG, "a recipe over %d bytes", RECIPE_MAX);
    o.working_directory = (tc_str){0};
    o.egress = NULL;
    o.expected_boundary = NULL;
    int rc = tc_result_dup(result, json, &copy, err);
    if (rc == 0 && tci_json_parse(copy, 0, r.a, &tree, err) < 0) {
        tc_err_wrap(err, "the recipe");
        rc = tc_err_recode(err, err->code == TC_E_CONFLICT ? TC_E_INVALID : err->code);
    }
    if (rc == 0)
        rc = read_recipe(&r, &tree, &o);
    if (rc == 0)
        *options = o;
    return rc;
}
