/* SPDX-License-Identifier: Apache-2.0
 *
 * The update word as far as it needs no network: what is installed, what was chosen, and whether
 * somebody has pinned it. Leaves downloading to whoever builds it in. Writes nothing. */
#include "daemon/config/config_int.h"

#include "base/num.h"
#include "plat/file.h"
#include "plat/self.h"

#define PIN_NAME ".a13n-envd-version"
#define PROGRAM_NAME "a13n-envd"
enum { PIN_BYTES_MAX = 256 };

typedef struct update {
    tc_str version, install_dir, staging_dir; /* empty: not given */
    bool has_version, has_install_dir, has_staging_dir, check, force;
} update;

/* ---- versions: X.Y.Z or X.Y.Z-rc.N ---- */

static bool is_number(tc_str text)
{
    tc_err err;
    uint64_t value;
    return tci_num_u64(text, &value, &err) == 0;
}

static bool is_version(tc_str text)
{
    size_t dash = tci_str_find_byte(text, '-');
    tc_str rest = tci_str_sub(text, 0, dash), part;
    int nparts = 0;
    while (tci_str_split(&rest, '.', &part)) {
        if (!is_number(part))
            return false;
        nparts++;
    }
    if (nparts != 3 || dash == text.len)
        return nparts == 3;
    tc_str candidate = tci_str_sub(text, dash, text.len), number;
    if (!tci_str_starts(candidate, TC_STR("-rc.")))
        return false;
    number = tci_str_sub(candidate, 4, candidate.len);
    return is_number(number) && !tci_str_eq(number, TC_STR("0"));
}

/* ---- arguments ---- */

static int take_value(tci_cfg_args args, size_t *at, bool *ret_has, tc_str *ret, tc_err *err)
{
    const char *name = args.items[*at];
    if (*at + 1 >= args.count)
        return tc_err_set(err, TC_E_INVALID, "%s requires a value", name);
    *ret = tci_str(args.items[++*at]);
    *ret_has = true;
    return 0;
}

static int read_args(tci_cfg_args args, update *u, tc_err *err)
{
    for (size_t i = 0; i < args.count; i++) {
        tc_str arg = tci_str(args.items[i]);
        int rc = 0;
        if (tci_str_eq(arg, TC_STR("--check")) && !u->check)
            u->check = true;
        else if (tci_str_eq(arg, TC_STR("--force")) && !u->force)
            u->force = true;
        else if (tci_str_eq(arg, TC_STR("--version")) && !u->has_version)
            rc = take_value(args, &i, &u->has_version, &u->version, err);
        else if (tci_str_eq(arg, TC_STR("--install-dir")) && !u->has_install_dir)
            rc = take_value(args, &i, &u->has_install_dir, &u->install_dir, err);
        else if (tci_str_eq(arg, TC_STR("--staging-dir")) && !u->has_staging_dir)
            rc = take_value(args, &i, &u->has_staging_dir, &u->staging_dir, err);
        else
            rc = tc_err_set(err, TC_E_INVALID, "invalid update argument: %.*s; see update --help",
                            TC_STR_ARG(arg));
        if (rc < 0)
            return rc;
    }
    return 0;
}

static int check_args(const update *u, tc_err *err)
{
    tci_file_stat st;
    if (u->check && u->force)
        return tc_err_set(err, TC_E_INVALID, "--check and --force cannot be combined");
    if (u->has_version && !is_version(u->version))
        return tc_err_set(err, TC_E_INVALID, "version must be X.Y.Z or X.Y.Z-rc.N with N from 1");
    if (u->has_install_dir && !u->has_version)
        return tc_err_set(err, TC_E_INVALID, "--install-dir requires --version");
    if (u->has_install_dir && !tci_cfg_is_absolute(u->install_dir))
        return tc_err_set(err, TC_E_INVALID, "--install-dir must be absolute");
    if (u->has_staging_dir && (!tci_cfg_is_absolute(u->staging_dir) ||
                               tci_file_stat_at(TCI_FILE_CWD, u->staging_dir, true, &st, err) < 0 ||
                               st.kind != TCI_FILE_KIND_DIRECTORY))
        return tc_err_set(err, TC_E_INVALID,
                          "--staging-dir must be an existing absolute directory");
    return 0;
}

/* ---- what is there ---- */

static int find_destination(tci_cfg *c, const update *u, tc_str *ret, bool *ret_is_self,
                            tc_err *err)
{
    char buf[TCI_PATH_MAX];
    tc_str self;
    if (tci_self_program(buf, &self, err) < 0)
        return tc_err_wrap(err, "cannot tell where this program is");
    *ret_is_self = !u->has_install_dir;
    if (*ret_is_self)
        return tci_arena_dup(c->arena, self, ret, err);
    tc_str dir = u->install_dir;
    while (dir.len > 1 && dir.ptr[dir.len - 1] == '/')
        dir.len--;
    if (tci_arena_printf(c->arena, ret, err, "%.*s/" PROGRAM_NAME, TC_STR_ARG(dir)) < 0)
        return err->code;
    *ret_is_self = tci_str_eq(*ret, self);
    return 0;
}

/* A file beside the destination may hold the one version that its Host wants there. */
static int check_pin(const update *u, tc_str destination, tc_err *err)
{
    tc_str parent, name, path;
    tci_arena a;
    char *text = NULL;
    size_t len = 0;
    tci_path_split(destination, &parent, &name);
    tci_arena_init(&a, 0);
    int rc = tci_arena_printf(&a, &path, err, "%.*s/" PIN_NAME, TC_STR_ARG(parent));
    if (rc == 0)
        rc = tci_file_read_whole(TCI_FILE_CWD, path, PIN_BYTES_MAX, &text, &len, err);
    tci_arena_done(&a);
    if (rc == TC_E_NOT_FOUND)
        return 0;
    if (rc < 0)
        return tc_err_wrap(err, "cannot read " PIN_NAME " of the pinned installation");
    tc_str pin = tci_str_of(text, len);
    while (pin.len > 0 && (pin.ptr[pin.len - 1] == '\n' || pin.ptr[pin.len - 1] == '\r'))
        pin.len--;
    if (!is_version(pin))
        rc = tc_err_set(err, TC_E_INVALID,
                        "the installation is pinned, but " PIN_NAME " holds no version");
    else if (!u->has_version || !tci_str_eq(pin, u->version))
        rc = tc_err_set(err, TC_E_DENIED,
                        "the installation is pinned to %.*s by its Host: update it there",
                        TC_STR_ARG(pin));
    tci_free(text);
    return rc;
}

/* Started through a link, the pin may lie beside the link. */
static int check_own_pin(const tci_cfg *c, const update *u, tc_err *err)
{
    tc_str started = tci_str(c->argv0);
    if (u->has_install_dir || tci_str_find_byte(started, '/') == started.len)
        return 0;
    return check_pin(u, started, err);
}

/* "not installed", our own version, or that it cannot be told without running it. */
static int find_current(const tci_cfg *c, tc_str destination, bool is_self, tc_str *ret,
                        tc_err *err)
{
    tci_file_stat st;
    int rc = tci_file_stat_at(TCI_FILE_CWD, destination, false, &st, err);
    if (rc == TC_E_NOT_FOUND) {
        *ret = TC_STR("not installed");
        return 0;
    }
    if (rc < 0)
        return rc;
    if (st.kind != TCI_FILE_KIND_REGULAR)
        return tc_err_set(err, TC_E_INVALID, "'%.*s' is not a regular file",
                          TC_STR_ARG(destination));
    *ret = !is_self                ? TC_STR("unknown")
           : c->config->is_drop_in ? TC_STR(TCI_CFG_WIRE_VERSION)
                                   : TC_STR(TC_VERSION);
    return 0;
}

static int no_network(tc_err *err)
{
    (void)tc_err_set(err, TC_E_UNSUPPORTED, "updating from the network is not built in");
    return tc_err_hint(err, "install the version you want the way this one was installed");
}

static int run(tci_cfg *c, const update *u, tc_str *ret_text, tc_err *err)
{
    tc_str destination, current;
    bool is_self;
    if (check_args(u, err) < 0 || find_destination(c, u, &destination, &is_self, err) < 0 ||
        check_pin(u, destination, err) < 0 || check_own_pin(c, u, err) < 0 ||
        find_current(c, destination, is_self, &current, err) < 0)
        return err->code;
    if (!u->has_version)
        return no_network(err);
    bool is_there = tci_str_eq(current, u->version);
    if (!u->check && (!is_there || u->force))
        return no_network(err);
    return tci_arena_printf(c->arena, ret_text, err,
                            "Destination: %.*s\nCurrent: %.*s; selected: %.*s\n%s",
                            TC_STR_ARG(destination), TC_STR_ARG(current), TC_STR_ARG(u->version),
                            u->check ? "" : "Already up to date.\n");
}

int tci_cfg_update_help(tci_cfg *c, tc_str *ret_text, tc_err *err)
{
    tc_str p = c->config->program;
    return tci_arena_printf(
        c->arena, ret_text, err,
        "usage: %.*s update --version X.Y.Z[-rc.N] [--check] [--force]\n"
        "       [--install-dir PATH] [--staging-dir PATH]\n"
        "\n"
        "  --version      the version to install\n"
        "  --check        only say what is installed and what was chosen\n"
        "  --force        install even when that version is there\n"
        "  --install-dir  install into another folder; absolute, needs --version\n"
        "  --staging-dir  existing folder for what is downloaded; absolute\n"
        "\n"
        "An installation with a file " PIN_NAME " beside it is pinned to the version in it.\n"
        "This build does not download: it answers only what needs no network.\n",
        TC_STR_ARG(p));
}

int tci_cfg_update(tci_cfg *c, tci_cfg_args args, tc_str *ret_text, tc_err *err)
{
    update u = {0};
    c->config->program =
        c->config->is_drop_in ? TC_STR("a13n-envd update") : TC_STR("telechird update");
    if (args.count == 1 && strcmp(args.items[0], "--help") == 0) {
        c->config->program = c->config->is_drop_in ? TC_STR("a13n-envd") : TC_STR("telechird");
        return tci_cfg_update_help(c, ret_text, err);
    }
    if (read_args(args, &u, err) < 0)
        return err->code;
    return run(c, &u, ret_text, err);
}
