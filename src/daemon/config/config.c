/* SPDX-License-Identifier: Apache-2.0
 *
 * The order in which a configuration is read and checked. Leaves every rule to the other config_*.c.
 *
 * Invariant: layers go over each other from the file up to the flags; the boundary is judged last, so
 * that what is wrong with a configuration is said before what this build cannot do. */
#include "daemon/config/config_int.h"

#include "daemon/runtime_dir.h"

enum { FILE_BYTES_MAX = 4 * 1024 * 1024 };

/* ---- who we are ---- */

static void identify(int argc, char *const *argv, tci_config *config)
{
    tc_str path = argc > 0 ? tci_str(argv[0]) : TC_STR("");
    size_t slash = tci_str_rfind_byte(path, '/');
    tc_str name = slash < path.len ? tci_str_sub(path, slash + 1, path.len) : path;
    config->is_drop_in = tci_str_eq(name, TC_STR("a13n-envd"));
    config->program = config->is_drop_in ? TC_STR("a13n-envd") : TC_STR("telechird");
}

/* ---- layers ---- */

static int apply_file(tci_cfg *c, const char *path, tc_err *err)
{
    char *text;
    size_t len;
    tc_str kept;
    if (path == NULL)
        return 0;
    if (tci_cfg_read_file(TC_STR("--config"), tci_str(path), FILE_BYTES_MAX, &text, &len, err) < 0)
        return err->code;
    int rc =
        tci_arena_dup(c->arena, tci_str_of(text, len), &kept, err); /* the tree points into it */
    tci_free(text);
    return rc < 0 ? rc : tci_cfg_apply_json(c, "configuration file", kept, err);
}

int tci_cfg_apply_layers(tci_cfg *c, const char *base, tci_cfg_args args, const char *config_path,
                         tc_err *err)
{
    const tci_cfg_setting *json = &c->vars[TCI_CFG_VAR_CONFIG_JSON];
    char source[64] = "";
    c->tree = (tci_json){.kind = TCI_JSON_OBJECT};
    if (tci_cfg_apply_json(c, "defaults", tci_str(base), err) < 0 ||
        apply_file(c, config_path, err) < 0 || tci_cstr(json->name, source, sizeof source, err) < 0)
        return err->code;
    if (json->is_set && tci_cfg_apply_json(c, source, json->value, err) < 0)
        return err->code;
    if (tci_cfg_apply_vars(c, err) < 0 || tci_cfg_apply_flags(c, args, err) < 0)
        return err->code;
    return tci_cfg_check_tree("merged configuration", &c->tree, err);
}

static int decode(tci_cfg *c, tc_err *err)
{
    if (tci_cfg_decode_monitoring(c, err) < 0 || tci_cfg_decode_transport(c, err) < 0 ||
        tci_cfg_decode_device(c, err) < 0 || tci_cfg_decode_limits(c, err) < 0 ||
        tci_cfg_decode_commands(c, err) < 0)
        return err->code;
    return tci_cfg_check_boundary(c, err);
}

int tci_config_load(int argc, char *const *argv, char *const *envp, tci_config *ret,
                    tci_config_action *ret_action, tc_str *ret_text, tc_err *err)
{
    tci_cfg c = {
        .config = ret, .arena = &ret->arena, .envp = envp, .argv0 = argc > 0 ? argv[0] : NULL};
    tci_cfg_args args = {argv + (argc > 0 ? 1 : 0), argc > 0 ? (size_t)argc - 1 : 0};
    const char *config_path = NULL;
    tci_config_action action;
    *ret = (tci_config){0};
    tci_arena_init(&ret->arena, 0);
    identify(argc, argv, ret);
    if (tci_cfg_read_action(&c, args, &action, ret_text, err) < 0)
        return err->code;
    if (action == TCI_CONFIG_SERVE &&
        (tci_cfg_read_vars(&c, err) < 0 || tci_cfg_check_flags(&c, args, &config_path, err) < 0 ||
         tci_cfg_apply_layers(&c, "{}", args, config_path, err) < 0 || decode(&c, err) < 0))
        return err->code;
    if (action == TCI_CONFIG_CONNECT && tci_cfg_load_connect(&c, args, err) < 0)
        return err->code;
    *ret_action = action;
    return 0;
}

void tci_config_done(tci_config *config)
{
    tci_runtime_dir_close(config->runtime);
    tci_secret_done(&config->http_credential);
    tci_arena_done(&config->arena);
}
