/* SPDX-License-Identifier: Apache-2.0
 *
 * The command line of `connect`, and the configuration of the daemon that it starts as far as it can be known
 * before the Host has answered. Leaves the daemon's own options to config_cli.c. Before the loop.
 *
 * Invariant: nothing is written; a command line that is accepted names one Host and one folder. */
#include "daemon/config/config_int.h"
#include "daemon/connect/connect_int.h"

#include "base/utf8.h"

enum { ITEMS_MAX = 32 };

typedef enum option_kind {
    OPTION_OWN,   /* of connect */
    OPTION_DAEMON /* passed on */
} option_kind;

typedef struct option {
    const char *name;
    option_kind kind;
    bool is_path; /* a relative one counts from the working directory */
    const char *value, *doc;
} option;

static const option options[] = {
    {"--host", OPTION_OWN, false, "NAME", "save the Host under this name"},
    {"--instance", OPTION_OWN, false, "NAME", "which installation this is (default: default)"},
    {"--name", OPTION_DAEMON, false, "NAME", "name of the device for people"},
    {"--state-dir", OPTION_OWN, true, "PATH", "where installations are kept"},
    {"--ca-file", OPTION_OWN, true, "PATH", "certificates to trust besides the system's; saved"},
    {"--config", OPTION_DAEMON, true, "PATH", "configuration of the daemon"},
    {"--default-working-directory", OPTION_DAEMON, true, "PATH", "where sessions start"},
    {"--allow-sudo", OPTION_DAEMON, false, "BOOL", "may commands gain privileges (default: true)"},
    {"--execution-uid", OPTION_DAEMON, false, "UID", "account that sessions run as"},
    {"--execution-gid", OPTION_DAEMON, false, "GID", "its group; both or neither"},
    {"--egress-mode", OPTION_DAEMON, false, "MODE",
     "network of sessions: inherit, deny, controlled"},
    {"--computer-use", OPTION_DAEMON, false, "BOOL",
     "offer the screen of this machine (default: false)"},
};
enum { OPTIONS = TCI_ARRAY_LEN(options) };

/* ---- words ---- */

typedef struct line {
    const char *host;            /* the one word that is no option */
    const char *values[OPTIONS]; /* NULL: not given */
} line;

static int take_option(line *l, const char *name, const char *value, tc_err *err)
{
    size_t i = 0;
    if (value == NULL) {
        (void)tc_err_set(err, TC_E_INVALID, "connect option requires a value");
        return tc_err_hint(err, "'%s' has none", name);
    }
    while (i < OPTIONS && strcmp(options[i].name, name) != 0)
        i++;
    if (i == OPTIONS) {
        (void)tc_err_set(err, TC_E_INVALID, "unknown connect option; use connect --help");
        return tc_err_hint(err, "there is no '%s'", name);
    }
    if (l->values[i] != NULL) {
        (void)tc_err_set(err, TC_E_INVALID, "duplicate connect option");
        return tc_err_hint(err, "'%s' is there twice", name);
    }
    if (!tci_utf8_is_valid(tci_str(value)))
        return tc_err_set(err, TC_E_PARSE, "%s must be valid UTF-8", name);
    l->values[i] = value;
    return 0;
}

static int read_line(tci_cfg_args args, line *l, tc_err *err)
{
    for (size_t i = 1; i < args.count; i++) {
        const char *word = args.items[i];
        if (word[0] == '-') {
            const char *value = i + 1 < args.count ? args.items[i + 1] : NULL;
            if (take_option(l, word, value, err) < 0)
                return err->code;
            i++;
        } else if (l->host != NULL) {
            return tc_err_set(err, TC_E_INVALID, "connect accepts exactly one Host");
        } else {
            l->host = word;
        }
    }
    if (l->host == NULL || l->host[0] == '\0')
        return tc_err_set(err, TC_E_INVALID, "connect requires a Host URL or saved Host name");
    return 0;
}

static tc_str value_of(const line *l, const char *name)
{
    size_t i = 0;
    while (strcmp(options[i].name, name) != 0)
        i++;
    return tci_str(l->values[i]);
}

/* ---- paths ---- */

/* path, or path below the working directory. */
static int make_absolute(tci_cfg *c, tc_str path, tc_str *ret, tc_err *err)
{
    char buf[TCI_PATH_MAX];
    tc_str here;
    while (path.len > 1 && path.ptr[path.len - 1] == '/')
        path.len--;
    if (tci_cfg_is_absolute(path))
        return tci_arena_printf(c->arena, ret, err, "%.*s", TC_STR_ARG(path));
    if (tci_file_realpath(TC_STR("."), buf, &here, err) < 0)
        return tc_err_wrap(err, "cannot tell the working directory of this process");
    if (here.len == 1) /* the root */
        here.len = 0;
    return tci_arena_printf(c->arena, ret, err, "%.*s/%.*s", TC_STR_ARG(here), TC_STR_ARG(path));
}

static int own_path(tci_cfg *c, const line *l, const char *name, tc_str *ret, tc_err *err)
{
    tc_str path = value_of(l, name);
    if (path.ptr == NULL)
        return 0;
    if (path.len == 0)
        return tc_err_set(err, TC_E_INVALID, "%s must name a path", name);
    return make_absolute(c, path, ret, err);
}

static int default_state_dir(tci_cfg *c, tc_str *ret, tc_err *err)
{
    tc_str home;
    const tci_cfg_setting *s = &c->vars[TCI_CFG_VAR_STATE_DIR];
    if (s->is_set && s->value.len > 0)
        return make_absolute(c, s->value, ret, err);
    *ret = TC_STR("");
    if (!c->config->is_drop_in) {
        if (tci_cfg_state_home(c, ret, err) < 0)
            return err->code;
    } else if (tci_cfg_getenv(c, "HOME", &home) && tci_cfg_is_absolute(home)) {
        if (tci_arena_printf(c->arena, ret, err, "%.*s/.a13n-envd", TC_STR_ARG(home)) < 0)
            return err->code;
    }
    if (ret->len == 0)
        return tc_err_set(err, TC_E_INVALID, "set HOME, or use --state-dir");
    return 0;
}

/* ---- the plan ---- */

static int check_name(tc_str name, tc_err *err)
{
    if (!tci_connect_is_name(name))
        return tc_err_set(
            err, TC_E_INVALID,
            "instance and Host names use 1..%d letters, digits, dot, dash or underscore",
            TCI_CONNECT_NAME_MAX);
    return 0;
}

static int name_host(tci_cfg *c, const line *l, tci_connect_plan *plan, tc_err *err)
{
    tc_str host = tci_str(l->host), alias = value_of(l, "--host");
    if (tci_str_find(host, TC_STR("://")) < host.len) {
        if (tci_connect_base(host, c->arena, &plan->url, err) < 0)
            return err->code;
        if (alias.ptr == NULL)
            return tci_connect_default_alias(plan->url, c->arena, &plan->alias, err);
    } else if (alias.ptr == NULL) {
        alias = host;
    } else if (check_name(host, err) < 0) {
        return err->code;
    }
    if (check_name(alias, err) < 0)
        return err->code;
    return tci_arena_printf(c->arena, &plan->alias, err, "%.*s", TC_STR_ARG(alias));
}

static int make_plan(tci_cfg *c, const line *l, tci_connect_plan *plan, tc_err *err)
{
    tc_str instance = value_of(l, "--instance");
    if (instance.ptr == NULL)
        instance = TC_STR("default");
    if (check_name(instance, err) < 0 || name_host(c, l, plan, err) < 0 ||
        tci_arena_printf(c->arena, &plan->instance, err, "%.*s", TC_STR_ARG(instance)) < 0 ||
        own_path(c, l, "--ca-file", &plan->ca_file, err) < 0 ||
        own_path(c, l, "--state-dir", &plan->state_dir, err) < 0)
        return err->code;
    plan->has_state_dir = plan->state_dir.len > 0;
    return plan->has_state_dir ? 0 : default_state_dir(c, &plan->state_dir, err);
}

/* ---- the daemon ---- */

/* Its options as it would be given them. */
static int pass_on(tci_cfg *c, const line *l, char **items, tci_cfg_args *ret, tc_err *err)
{
    size_t n = 0;
    for (size_t i = 0; i < OPTIONS; i++) {
        tc_str value = tci_str(l->values[i]);
        if (value.ptr == NULL || options[i].kind != OPTION_DAEMON)
            continue;
        if (options[i].is_path && value.len > 0 && make_absolute(c, value, &value, err) < 0)
            return err->code;
        if (tci_arena_cstr(c->arena, tci_str(options[i].name), &items[n], err) < 0 ||
            tci_arena_cstr(c->arena, value, &items[n + 1], err) < 0)
            return err->code;
        n += 2;
    }
    *ret = (tci_cfg_args){.items = items, .count = n};
    return 0;
}

/* Which transport, which folders and which identity is what connect itself decides. */
static void drop_settings(tci_cfg *c)
{
    static const tci_cfg_var ours[] = {
        TCI_CFG_VAR_STATE_DIR,
        TCI_CFG_VAR_DEVICE_ID,
        TCI_CFG_VAR_TRANSPORT,
        TCI_CFG_VAR_HTTP_BIND,
        TCI_CFG_VAR_HTTP_CREDENTIAL_FILE,
        TCI_CFG_VAR_HTTP_TLS_CERT_FILE,
        TCI_CFG_VAR_HTTP_TLS_KEY_FILE,
        TCI_CFG_VAR_HTTP_PLAINTEXT_SCOPE,
        TCI_CFG_VAR_REVERSE_WS_URL,
        TCI_CFG_VAR_REVERSE_WS_CREDENTIAL_FILE,
        TCI_CFG_VAR_REVERSE_WS_CA_FILE,
    };
    for (size_t i = 0; i < TCI_ARRAY_LEN(ours); i++)
        c->vars[ours[i]].is_set = false;
}

static int decode(tci_cfg *c, tc_err *err)
{
    if (tci_cfg_decode_monitoring(c, err) < 0 || tci_cfg_decode_device(c, err) < 0 ||
        tci_cfg_decode_limits(c, err) < 0 || tci_cfg_decode_commands(c, err) < 0)
        return err->code;
    return tci_cfg_check_boundary(c, err);
}

int tci_cfg_load_connect(tci_cfg *c, tci_cfg_args args, tc_err *err)
{
    line l = {0};
    char *items[ITEMS_MAX];
    tci_cfg_args rest;
    const char *config_path = NULL;
    tci_connect_plan *plan = tci_arena_new(c->arena, tci_connect_plan);
    _Static_assert(2 * OPTIONS <= ITEMS_MAX, "every option and its value");
    if (plan == NULL)
        return tci_arena_error(c->arena, err);
    if (read_line(args, &l, err) < 0 || tci_cfg_read_vars(c, err) < 0 ||
        make_plan(c, &l, plan, err) < 0)
        return err->code;
    drop_settings(c);
    tci_cfg_setting *runtime = &c->vars[TCI_CFG_VAR_RUNTIME_DIR];
    runtime->is_set = true;
    runtime->name = TC_STR("--state-dir");
    if (tci_arena_printf(c->arena, &runtime->value, err, "%.*s/instances/%.*s/hosts/%.*s/runtime",
                         TC_STR_ARG(plan->state_dir), TC_STR_ARG(plan->instance),
                         TC_STR_ARG(plan->alias)) < 0 ||
        pass_on(c, &l, items, &rest, err) < 0 ||
        tci_cfg_check_flags(c, rest, &config_path, err) < 0 ||
        tci_cfg_apply_layers(c, "{\"monitoring\":{}}", rest, config_path, err) < 0)
        return err->code;
    c->config->connect = plan;
    return decode(c, err);
}

/* ---- help ---- */

static const char intro[] =
    "usage: %.*s connect <URL or saved Host> [options]\n"
    "\n"
    "Pairs this machine with one Host and serves it. The first time the Host shows a code that\n"
    "somebody compares and approves; later connections reuse what was saved then.\n"
    "Each option has one value and comes once:\n";

static const char outro[] =
    "\n"
    "Names have 1 to %d letters, digits, '.', '_' and '-'. Without --host a URL is saved under a\n"
    "name made of it. PATH of --state-dir is %s unless\n"
    "%sSTATE_DIR or the option says otherwise.\n"
    "URLs are https, or http to this machine itself. localhost is this machine.\n"
    "The variables of the daemon count, but for its transport, its runtime folder and its\n"
    "identity. With %sFULL_CONTROL=1 the Host may run commands.\n"
    "Monitoring is on (every 10 seconds) unless the configuration says null.\n"
    "One process serves one Host; for a second one use another --instance.\n";

int tci_cfg_connect_help(tci_cfg *c, tc_str *ret_text, tc_err *err)
{
    tci_buf text;
    bool is_drop_in = c->config->is_drop_in;
    const char *prefix = is_drop_in ? "A13N_ENVD_" : "TELECHIRD_";
    tci_buf_init(&text, TCI_BUF_MAX);
    tci_buf_printf(&text, intro, TC_STR_ARG(c->config->program));
    for (size_t i = 0; i < OPTIONS; i++)
        tci_buf_printf(&text, "  %-27s %-5s %s\n", options[i].name, options[i].value,
                       options[i].doc);
    tci_buf_printf(&text, outro, TCI_CONNECT_NAME_MAX,
                   is_drop_in ? "$HOME/.a13n-envd" : "$XDG_STATE_HOME/telechir", prefix, prefix);
    int rc = tci_buf_error(&text, err);
    if (rc == 0)
        rc = tci_arena_dup(c->arena, tci_buf_str(&text), ret_text, err);
    tci_buf_done(&text);
    return rc;
}
