/* SPDX-License-Identifier: Apache-2.0
 *
 * The command line: what is asked for, and the flags of serving. Leaves update to config_update.c.
 *
 * Invariant: every flag takes one value and comes once. */
#include "daemon/config/config_int.h"

#include "base/utf8.h"

typedef struct flag {
    const char *name, *place;
    tci_cfg_scalar scalar;
    const char *value, *doc;
} flag;

static const flag flags[] = {
    {"--config", "", TCI_CFG_NONE, "PATH", "JSON configuration, the lowest layer"},
    {"--default-working-directory", "default_working_directory", TCI_CFG_PATH, "PATH",
     "where sessions start"},
    {"--device-id", "device_id", TCI_CFG_TEXT, "ID", "identity instead of the saved one"},
    {"--name", "name", TCI_CFG_TEXT, "NAME", "name of the device for people"},
    {"--description", "description", TCI_CFG_TEXT, "TEXT", "what the device is"},
    {"--allow-sudo", "execution.allow_sudo", TCI_CFG_BOOL, "BOOL",
     "may commands gain privileges (default: true)"},
    {"--execution-uid", "execution.uid", TCI_CFG_U32, "UID", "account that sessions run as"},
    {"--execution-gid", "execution.gid", TCI_CFG_U32, "GID", "its group; both or neither"},
    {"--egress-mode", "egress.mode", TCI_CFG_EGRESS, "MODE",
     "network of sessions: inherit, deny, controlled"},
    {"--computer-use", "computer_use", TCI_CFG_BOOL, "BOOL",
     "offer the screen of this machine (default: false)"},
};

static size_t flag_index(tc_str name)
{
    size_t i = 0;
    while (i < TCI_ARRAY_LEN(flags) && !tci_str_eq(tci_str(flags[i].name), name))
        i++;
    return i;
}

/* ---- what is asked for ---- */

static int unknown(const tci_cfg *c, const char *arg, tc_err *err)
{
    (void)tc_err_set(err, TC_E_INVALID, "unknown argument: %s", arg);
    return tc_err_hint(err, "see %.*s --help", TC_STR_ARG(c->config->program));
}

static int version(tci_cfg *c, tc_str *ret_text, tc_err *err)
{
    const char *number = c->config->is_drop_in ? TCI_CFG_WIRE_VERSION : TC_VERSION;
    return tci_arena_printf(c->arena, ret_text, err, "%.*s %s\n", TC_STR_ARG(c->config->program),
                            number);
}

int tci_cfg_read_action(tci_cfg *c, tci_cfg_args args, tci_config_action *ret_action,
                        tc_str *ret_text, tc_err *err)
{
    tc_str first = args.count > 0 ? tci_str(args.items[0]) : TC_STR("");
    *ret_action = TCI_CONFIG_SERVE;
    if (args.count == 0)
        return 0;
    if (tci_str_eq(first, TC_STR("--version"))) {
        if (args.count > 1)
            return tc_err_set(err, TC_E_INVALID,
                              "--version cannot be combined with other arguments");
        *ret_action = TCI_CONFIG_VERSION;
        return version(c, ret_text, err);
    }
    if (tci_str_eq(first, TC_STR("--help")) && args.count == 1) {
        *ret_action = TCI_CONFIG_HELP;
        return tci_cfg_help(c, ret_text, err);
    }
    if (tci_str_eq(first, TC_STR("connect"))) {
        bool is_help = args.count == 2 && strcmp(args.items[1], "--help") == 0;
        *ret_action = is_help ? TCI_CONFIG_HELP : TCI_CONFIG_CONNECT;
        return is_help ? tci_cfg_connect_help(c, ret_text, err) : 0;
    }
    if (tci_str_eq(first, TC_STR("update"))) {
        tci_cfg_args rest = {args.items + 1, args.count - 1};
        *ret_action = TCI_CONFIG_UPDATE;
        return tci_cfg_update(c, rest, ret_text, err);
    }
    return 0;
}

/* ---- flags ---- */

static int check_flag(const flag *f, tc_str value, tc_err *err)
{
    if (!tci_utf8_is_valid(value))
        return tc_err_set(err, TC_E_PARSE, "%s must be valid UTF-8", f->name);
    bool is_path = f->scalar == TCI_CFG_PATH || f->scalar == TCI_CFG_NONE;
    if (is_path && !tci_cfg_is_absolute(value))
        return tc_err_set(err, TC_E_INVALID, "%s must be an absolute path", f->name);
    return 0;
}

int tci_cfg_check_flags(tci_cfg *c, tci_cfg_args args, const char **ret_config_path, tc_err *err)
{
    bool seen[TCI_ARRAY_LEN(flags)] = {false};
    for (size_t i = 0; i < args.count; i += 2) {
        size_t at = flag_index(tci_str(args.items[i]));
        if (at == TCI_ARRAY_LEN(flags))
            return unknown(c, args.items[i], err);
        if (seen[at])
            return tc_err_set(err, TC_E_INVALID, "duplicate argument: %s", flags[at].name);
        if (i + 1 == args.count)
            return tc_err_set(err, TC_E_INVALID, "%s requires a value", flags[at].name);
        if (check_flag(&flags[at], tci_str(args.items[i + 1]), err) < 0)
            return err->code;
        seen[at] = true;
        if (flags[at].scalar == TCI_CFG_NONE)
            *ret_config_path = args.items[i + 1];
    }
    return 0;
}

int tci_cfg_apply_flags(tci_cfg *c, tci_cfg_args args, tc_err *err)
{
    for (size_t i = 0; i + 1 < args.count; i += 2) {
        const flag *f = &flags[flag_index(tci_str(args.items[i]))];
        if (f->scalar != TCI_CFG_NONE &&
            tci_cfg_apply_scalar(c, tci_str(f->name), tci_str(f->place), f->scalar,
                                 tci_str(args.items[i + 1]), err) < 0)
            return err->code;
    }
    return 0;
}

/* ---- help ---- */

static const char usage[] =
    "usage: %.*s [options]                 serve EIP, by default on standard input and output\n"
    "       %.*s connect <URL|name> ...    pair with a Host and serve it; see connect --help\n"
    "       %.*s update [options]          replace this program; see update --help\n"
    "       %.*s --version | --help\n";

static const char serve_usage[] = "       telechird serve --token TEXT   serve pi-env on standard "
                                  "input and output, with all rights\n"
                                  "                                      of the user; none of the "
                                  "options and variables below count\n";

static const char intro[] =
    "\n"
    "One daemon gives the files, commands, processes and ports of this machine to one host.\n"
    "Each option has one value and comes once:\n";

static const char settings[] =
    "\n"
    "Settings come from the file of --config, %sCONFIG_JSON, single variables and options;\n"
    "the later ones win. BOOL is true, false, 1 or 0. Variables begin with %s:\n"
    "  RUNTIME_DIR STATE_DIR CONFIG_JSON DEVICE_ID NAME DESCRIPTION DEFAULT_WORKING_DIRECTORY\n"
    "  ALLOW_SUDO EXECUTION_UID EXECUTION_GID EGRESS_MODE DIRECTORY_DISCOVERY FULL_CONTROL\n"
    "  COMPUTER_USE COMPUTER_USE_PERMISSION_TIMEOUT_MS IDLE_TIMEOUT_MS DISCONNECT_GRACE_MS\n"
    "  TRANSPORT (stdio, http or reverse_websocket)\n"
    "  HTTP_BIND HTTP_CREDENTIAL_FILE HTTP_TLS_CERT_FILE HTTP_TLS_KEY_FILE HTTP_PLAINTEXT_SCOPE\n"
    "  REVERSE_WS_URL REVERSE_WS_CREDENTIAL_FILE REVERSE_WS_CA_FILE\n"
    "\n"
    "%s"
    "Without FULL_CONTROL=true, trusted_executable_roots or shell_profiles there are files only, "
    "no\n"
    "commands. connect and reverse_websocket need a build with TLS. Not available in any build:\n"
    "restricted sandboxes, egress other than inherit, another account, --allow-sudo false,\n"
    "--computer-use true.\n";

int tci_cfg_help(tci_cfg *c, tc_str *ret_text, tc_err *err)
{
    tci_buf text;
    tc_str p = c->config->program;
    bool is_drop_in = c->config->is_drop_in;
    const char *prefix = is_drop_in ? "A13N_ENVD_" : "TELECHIRD_";
    tci_buf_init(&text, TCI_BUF_MAX);
    tci_buf_printf(&text, usage, TC_STR_ARG(p), TC_STR_ARG(p), TC_STR_ARG(p), TC_STR_ARG(p));
    if (!is_drop_in)
        tci_buf_append_str(&text, tci_str(serve_usage));
    tci_buf_append_str(&text, tci_str(intro));
    for (size_t i = 0; i < TCI_ARRAY_LEN(flags); i++)
        tci_buf_printf(&text, "  %-27s %-5s %s\n", flags[i].name, flags[i].value, flags[i].doc);
    tci_buf_printf(
        &text, settings, prefix, prefix,
        is_drop_in
            ? "RUNTIME_DIR is required.\n"
            : "A13N_ENVD_ is understood too. RUNTIME_DIR is $XDG_STATE_HOME/telechir/runtime "
              "unless\nit is set.\n");
    int rc = tci_buf_error(&text, err);
    if (rc == 0)
        rc = tci_arena_dup(c->arena, tci_buf_str(&text), ret_text, err);
    tci_buf_done(&text);
    return rc;
}
