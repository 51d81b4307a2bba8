/* SPDX-License-Identifier: Apache-2.0
 *
 * Where files of ours are on this machine: below the folders that the XDG Base Directory Specification names.
 * What is in them is for others. Invariants: a variable that holds no absolute path counts as not set, as that
 * specification wants it; a file that is replaced is always whole. */
#include "cli.h"

#include "base/hash.h"
#include "plat/clock.h"
#include "plat/env.h"
#include "plat/file.h"

enum { FOLDER_MODE = 0700, FILE_MODE = 0600, RANDOM_BYTES = 8 };

static const struct {
    const char *variable, *below_home, *what;
} bases[] = {
    [CLI_FOLDER_CONFIG] = {"XDG_CONFIG_HOME", ".config", "saved targets"},
    [CLI_FOLDER_DATA] = {"XDG_DATA_HOME", ".local/share", "sessions"},
    [CLI_FOLDER_STATE] = {"XDG_STATE_HOME", ".local/state", "what is typed"},
};

int cli_our_folder(cli *c, cli_folder which, tc_str *ret, tc_str *ret_home, tc_err *err)
{
    tc_str base = tci_str(tci_env_get(bases[which].variable)), home = {NULL, 0};
    if (!tci_str_starts(base, TC_STR("/"))) {
        home = tci_str(tci_env_get("HOME"));
        if (!tci_str_starts(home, TC_STR("/"))) {
            (void)tc_err_set(err, TC_E_NOT_FOUND, "no folder for %s", bases[which].what);
            return tc_err_hint(err, "set HOME or %s", bases[which].variable);
        }
        if (tci_arena_printf(&c->arena, &base, err, "%.*s/%s", TC_STR_ARG(home),
                             bases[which].below_home) < 0)
            return err->code;
    }
    if (tci_arena_printf(&c->arena, ret, err, "%.*s/telechir", TC_STR_ARG(base)) < 0)
        return err->code;
    if (ret_home != NULL)
        *ret_home = home;
    return 0;
}

int cli_make_folder(tc_str path, tc_err *err)
{
    tci_file_stat st;
    if (tci_file_stat_at(TCI_FILE_CWD, path, true, &st, err) == 0)
        return 0;
    tc_str parent, name;
    tci_path_split(path, &parent, &name);
    int rc = parent.len > 1 ? cli_make_folder(parent, err) : 0;
    if (rc == 0)
        rc = tci_file_mkdir(TCI_FILE_CWD, path, FOLDER_MODE, err);
    return rc == TC_E_CONFLICT ? 0 : rc; /* somebody else was faster */
}

int cli_replace_file(cli *c, tc_str file, tc_str content, tc_err *err)
{
    uint8_t random[RANDOM_BYTES];
    char hex[2 * RANDOM_BYTES];
    tc_str temp;
    TCI_FILE_AUTO f = TCI_FILE_NONE;
    tci_random_bytes(random, sizeof random);
    tci_hex(random, sizeof random, hex);
    int rc = tci_arena_printf(&c->arena, &temp, err, "%.*s.%.*s.tmp", TC_STR_ARG(file),
                              (int)sizeof hex, hex);
    if (rc == 0)
        rc = tci_file_open(temp, TCI_OPEN_WRITE | TCI_OPEN_CREATE | TCI_OPEN_EXCL, FILE_MODE, &f,
                           err);
    if (rc < 0)
        return rc;
    rc = tci_file_chmod(f, FILE_MODE, err); /* whatever the umask */
    if (rc == 0)
        rc = tci_file_write_all(f, content.ptr, content.len, err);
    if (rc == 0)
        rc = tci_file_sync(f, err);
    if (rc == 0)
        rc = tci_file_rename(TCI_FILE_CWD, temp, TCI_FILE_CWD, file, TCI_RENAME_REPLACE, err);
    if (rc < 0)
        tci_file_discard(TCI_FILE_CWD, temp);
    return rc;
}
