/* SPDX-License-Identifier: Apache-2.0
 *
 * What a device may run: trusted folders, shell profiles, or everything. Leaves running to command.c.
 *
 * Invariant: profiles are sorted by id, executables and roots are canonical; with full control the
 * roots are the absolute folders of PATH as written. */
#include "daemon/config/config_int.h"

#include "daemon/envname.h"
#include "plat/file.h"

#include <stdlib.h>

enum {
    PROFILE_ID_MAX = 128,
    DISPLAY_NAME_MAX = 256,
    ARGUMENTS_MAX = 1024,
    ARGUMENT_BYTES_MAX = 1024 * 1024,
    ENVIRONMENT_MAX = 1024,
    ENVIRONMENT_BYTES_MAX = 2 * 1024 * 1024,
    DEFAULT_SCRIPT_BYTES = 1048576
};

static int keep(tci_cfg *c, tc_str text, tc_str *ret, tc_err *err)
{
    return tci_arena_printf(c->arena, ret, err, "%.*s", TC_STR_ARG(text));
}

static const tci_json *list_of(const tci_json *v, const char *name)
{
    const tci_json *list = tci_json_get(v, tci_str(name));
    return list != NULL && list->count > 0 ? list : NULL;
}

/* ---- roots ---- */

static bool has_root(const tc_str *roots, size_t n, tc_str path)
{
    for (size_t i = 0; i < n; i++) {
        if (tci_str_eq(roots[i], path))
            return true;
    }
    return false;
}

static int add_root(tci_cfg *c, tc_str place, tc_str path, tc_str *roots, size_t *n, tc_err *err)
{
    char buf[TCI_PATH_MAX];
    tci_file_stat st;
    tc_str real;
    if (!tci_cfg_is_absolute(path))
        return tc_err_set(err, TC_E_INVALID, "%.*s must be absolute folders", TC_STR_ARG(place));
    if (tci_file_realpath(path, buf, &real, err) < 0 ||
        tci_file_stat_at(TCI_FILE_CWD, real, true, &st, err) < 0)
        return tc_err_wrap(err, "%.*s", TC_STR_ARG(place));
    if (st.kind != TCI_FILE_KIND_DIRECTORY)
        return tc_err_set(err, TC_E_INVALID, "%.*s: '%.*s' is not a folder", TC_STR_ARG(place),
                          TC_STR_ARG(path));
    if (tci_str_find_byte(real, ':') < real.len) /* it becomes a part of PATH */
        return tc_err_set(err, TC_E_INVALID, "%.*s: '%.*s' has a colon", TC_STR_ARG(place),
                          TC_STR_ARG(real));
    if (has_root(roots, *n, real))
        return 0;
    return keep(c, real, &roots[(*n)++], err);
}

static int decode_roots(tci_cfg *c, tc_str place, const tci_json *list, tc_str **ret, size_t *ret_n,
                        tc_err *err)
{
    size_t n = 0;
    tc_str *roots;
    if (list == NULL)
        return 0;
    if ((roots = tci_arena_items(c->arena, tc_str, list->count)) == NULL)
        return tci_arena_error(c->arena, err);
    for (uint32_t i = 0; i < list->count; i++) {
        tc_str path;
        (void)tci_json_as_str(&list->u.items[i], &path); /* checked before */
        if (add_root(c, place, path, roots, &n, err) < 0)
            return err->code;
    }
    *ret = roots;
    *ret_n = n;
    return 0;
}

static int path_roots(tci_cfg *c, tc_err *err)
{
    tci_config *config = c->config;
    tc_str path, part;
    size_t max = 1;
    (void)tci_cfg_getenv(c, "PATH", &path); /* unset: no roots */
    for (size_t i = 0; i < path.len; i++)
        max += path.ptr[i] == ':';
    config->roots = tci_arena_items(c->arena, tc_str, max);
    if (config->roots == NULL)
        return tci_arena_error(c->arena, err);
    while (tci_str_split(&path, ':', &part)) {
        if (!tci_cfg_is_absolute(part) || has_root(config->roots, config->nroots, part))
            continue;
        if (keep(c, part, &config->roots[config->nroots++], err) < 0)
            return err->code;
    }
    return 0;
}

/* ---- shell profiles ---- */

static int bad_profile(const tci_shell_profile *p, const char *why, tc_err *err)
{
    return tc_err_set(err, TC_E_INVALID, "shell_profiles: profile '%.*s': %s", TC_STR_ARG(p->id),
                      why);
}

static bool is_profile_id(tc_str id)
{
    if (id.len == 0 || id.len > PROFILE_ID_MAX)
        return false;
    for (size_t i = 0; i < id.len; i++) {
        char c = id.ptr[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              c == '.' || c == '_' || c == '-'))
            return false;
    }
    return true;
}

static int decode_executable(tci_cfg *c, tci_shell_profile *p, tc_str path, tc_err *err)
{
    char buf[TCI_PATH_MAX];
    tci_file_stat st;
    tc_str real;
    if (!tci_cfg_is_absolute(path))
        return bad_profile(p, "native_executable must be absolute", err);
    if (tci_file_realpath(path, buf, &real, err) < 0 ||
        tci_file_stat_at(TCI_FILE_CWD, real, true, &st, err) < 0)
        return tc_err_wrap(err, "shell_profiles: profile '%.*s': native_executable",
                           TC_STR_ARG(p->id));
    if (st.kind != TCI_FILE_KIND_REGULAR)
        return bad_profile(p, "native_executable must be a regular file", err);
    return keep(c, real, &p->executable, err);
}

static int decode_arguments(tci_cfg *c, tci_shell_profile *p, const tci_json *list, tc_err *err)
{
    size_t bytes = 0;
    if (list == NULL)
        return 0;
    if (list->count > ARGUMENTS_MAX)
        return bad_profile(p, "too many fixed_arguments", err);
    p->fixed_arguments = tci_arena_items(c->arena, tc_str, list->count);
    if (p->fixed_arguments == NULL)
        return tci_arena_error(c->arena, err);
    for (uint32_t i = 0; i < list->count; i++) {
        tc_str text;
        (void)tci_json_as_str(&list->u.items[i], &text); /* checked before */
        bytes += text.len;
        if (tci_str_find_byte(text, '\0') < text.len || bytes > ARGUMENT_BYTES_MAX)
            return bad_profile(p, "fixed_arguments are too long or have a NUL", err);
        if (keep(c, text, &p->fixed_arguments[p->nfixed_arguments++], err) < 0)
            return err->code;
    }
    return 0;
}

static int decode_environment(tci_cfg *c, tci_shell_profile *p, const tci_json *map, tc_err *err)
{
    size_t bytes = 0;
    if (map == NULL)
        return 0;
    if (map->count > ENVIRONMENT_MAX)
        return bad_profile(p, "safe_base_environment has too many variables", err);
    p->environment = tci_arena_items(c->arena, tci_env_pair, map->count);
    if (p->environment == NULL)
        return tci_arena_error(c->arena, err);
    for (uint32_t i = 0; i < map->count; i++) {
        tci_env_pair *pair = &p->environment[p->nenvironment++];
        tc_str name = map->u.members[i].key, value;
        (void)tci_json_as_str(&map->u.members[i].value, &value); /* checked before */
        bytes += name.len + value.len + 2;
        if (!tci_envname_is_valid(name) || tci_envname_is_reserved(name) ||
            tci_str_find_byte(value, '\0') < value.len)
            return bad_profile(
                p, "safe_base_environment has a reserved or malformed name, or a NUL", err);
        if (bytes > ENVIRONMENT_BYTES_MAX)
            return bad_profile(p, "safe_base_environment is too large", err);
        if (keep(c, name, &pair->name, err) < 0 || keep(c, value, &pair->value, err) < 0)
            return err->code;
    }
    return 0;
}

static int decode_profile(tci_cfg *c, const tci_json *v, tci_shell_profile *p, tc_err *err)
{
    tc_str display = tci_json_str_member(v, "display_name"),
           id = tci_json_str_member(v, "profile_id"), place;
    const tci_json *login = tci_json_get(v, TC_STR("allow_login_mode"));
    if (!is_profile_id(id))
        return tc_err_set(
            err, TC_E_INVALID,
            "shell_profiles: profile_id must be 1 to %d ASCII letters, digits, '.', '_' or '-'",
            PROFILE_ID_MAX);
    if (keep(c, id, &p->id, err) < 0)
        return err->code;
    if (display.len == 0 || display.len > DISPLAY_NAME_MAX || !tci_cfg_is_printable(display) ||
        !tci_cfg_is_trimmed(display))
        return bad_profile(
            p, "display_name must be 1 to 256 bytes without control characters or blanks around it",
            err);
    (void)tci_json_as_u64(tci_json_get(v, TC_STR("max_script_bytes")),
                          &p->max_script_bytes); /* checked */
    if (p->max_script_bytes == 0)
        return bad_profile(p, "max_script_bytes must be positive", err);
    if (login != NULL)
        (void)tci_json_as_bool(login, &p->allows_login); /* checked before */
    const tci_json *roots = list_of(v, "executable_search_roots");
    if (roots == NULL)
        return bad_profile(p, "executable_search_roots must name at least one folder", err);
    if (keep(c, display, &p->display_name, err) < 0 ||
        decode_executable(c, p, tci_json_str_member(v, "native_executable"), err) < 0 ||
        decode_arguments(c, p, list_of(v, "fixed_arguments"), err) < 0 ||
        decode_environment(c, p, list_of(v, "safe_base_environment"), err) < 0 ||
        tci_arena_printf(c->arena, &place, err,
                         "shell_profiles: profile '%.*s': executable_search_roots",
                         TC_STR_ARG(p->id)) < 0)
        return err->code;
    return decode_roots(c, place, roots, &p->roots, &p->nroots, err);
}

static int compare_profiles(const void *a, const void *b)
{
    return tci_str_cmp(((const tci_shell_profile *)a)->id, ((const tci_shell_profile *)b)->id);
}

static int decode_profiles(tci_cfg *c, const tci_json *list, tc_err *err)
{
    tci_config *config = c->config;
    if (list == NULL)
        return 0;
    config->profiles = tci_arena_items(c->arena, tci_shell_profile, list->count);
    if (config->profiles == NULL)
        return tci_arena_error(c->arena, err);
    for (uint32_t i = 0; i < list->count; i++) {
        if (decode_profile(c, &list->u.items[i], &config->profiles[i], err) < 0)
            return err->code;
    }
    config->nprofiles = list->count;
    qsort(config->profiles, config->nprofiles, sizeof config->profiles[0], compare_profiles);
    for (size_t i = 1; i < config->nprofiles; i++) {
        if (tci_str_eq(config->profiles[i - 1].id, config->profiles[i].id))
            return bad_profile(&config->profiles[i], "profile_id must be unique", err);
    }
    return 0;
}

/* ---- full control ---- */

static int default_profile(tci_cfg *c, tc_err *err)
{
    tci_config *config = c->config;
    tci_shell_profile *p = tci_arena_new(c->arena, tci_shell_profile);
    tc_str *arguments = tci_arena_items(c->arena, tc_str, 1);
    if (p == NULL || arguments == NULL)
        return tci_arena_error(c->arena, err);
    arguments[0] = TC_STR("-c");
    *p = (tci_shell_profile){.id = TC_STR("default"),
                             .display_name = TC_STR("POSIX shell"),
                             .fixed_arguments = arguments,
                             .nfixed_arguments = 1,
                             .max_script_bytes = DEFAULT_SCRIPT_BYTES};
    config->profiles = p;
    config->nprofiles = 1;
    return decode_executable(c, p, TC_STR("/bin/sh"), err);
}

int tci_cfg_decode_commands(tci_cfg *c, tc_err *err)
{
    tci_config *config = c->config;
    const tci_json *full = tci_json_get(&c->tree, TC_STR("full_control"));
    const tci_json *roots = list_of(&c->tree, "trusted_executable_roots");
    const tci_json *profiles = list_of(&c->tree, "shell_profiles");
    config->full_control = full != NULL && full->kind == TCI_JSON_TRUE;
    config->has_commands = config->full_control || roots != NULL || profiles != NULL;
    if (config->full_control) {
        if (roots != NULL || profiles != NULL)
            return tc_err_set(err, TC_E_INVALID,
                              "full_control excludes trusted_executable_roots and shell_profiles");
        return path_roots(c, err) < 0 ? (int)err->code : default_profile(c, err);
    }
    if (decode_roots(c, TC_STR("trusted_executable_roots"), roots, &config->roots, &config->nroots,
                     err) < 0)
        return err->code;
    return decode_profiles(c, profiles, err);
}
