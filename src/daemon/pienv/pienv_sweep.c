/* SPDX-License-Identifier: Apache-2.0
 *
 * Clearing up after daemons of this user that were killed: the runtime folders of their tunnels, and
 * the staged files that these remember. Leaves both to runtime_dir.h. The loop thread, while a tunnel
 * is opened; looks at a bounded number of names.
 *
 * Invariant: a folder is removed only when it is this user's, its lock could be had, and nobody has
 * touched the lock for a while (a daemon makes the folder first and locks it then). */
#include "daemon/pienv/pienv_core_int.h"

#include "daemon/runtime_dir.h"
#include "ops/removal.h"
#include "plat/clock.h"
#include "plat/dir.h"

#include <stdio.h>

#define LOCK_NAME ".a13n-envd.lock"
enum { NAMES_MAX = 4096, FOLDERS_MAX = 16, AGE_S = 60 };

static bool is_ours(tc_str name)
{
    tc_str prefix = TC_STR(TCI_PI_TUNNEL_PREFIX);
    return name.len == prefix.len + TCI_PI_TEMP_LETTERS && tci_str_starts(name, prefix);
}

static bool is_old_folder(tc_str path)
{
    tc_err ignored; /* then it is none */
    tci_file_stat folder, lock;
    char name[TCI_PATH_MAX];
    int n = snprintf(name, sizeof name, "%.*s/" LOCK_NAME, TC_STR_ARG(path));
    if (n < 0 || (size_t)n >= sizeof name ||
        tci_file_stat_at(TCI_FILE_CWD, path, false, &folder, &ignored) < 0 ||
        tci_file_stat_at(TCI_FILE_CWD, tci_str(name), false, &lock, &ignored) < 0)
        return false;
    return folder.kind == TCI_FILE_KIND_DIRECTORY && folder.uid == tci_file_euid() &&
           lock.kind == TCI_FILE_KIND_REGULAR && lock.modified.sec + AGE_S < tci_clock_now().sec;
}

/* Opening it takes the lock, and clears up after whoever had it. */
static void sweep_one(tc_str path)
{
    tc_err ignored; /* somebody lives in it, or it stays */
    tci_runtime_dir *dir = NULL;
    if (!is_old_folder(path) || tci_runtime_dir_open(path, &dir, &ignored) < 0)
        return;
    bool is_clean = tci_runtime_dir_is_alone(dir);
    tci_runtime_dir_close(dir);
    int rc = is_clean ? tci_ops_remove_tree(path, NULL, &ignored) : 0;
    TCI_UNUSED(rc);
}

static void sweep_names(tc_str tmpdir, tci_dir_reader *reader)
{
    tc_err ignored; /* what cannot be read is not swept */
    tci_dir_entry e;
    unsigned nfolders = 0;
    for (unsigned i = 0; i < NAMES_MAX && nfolders < FOLDERS_MAX; i++) {
        char path[TCI_PATH_MAX];
        if (tci_dir_read_next(reader, &e, &ignored) <= 0)
            return;
        if (!is_ours(e.name))
            continue;
        int n = snprintf(path, sizeof path, "%.*s/%.*s", TC_STR_ARG(tmpdir), TC_STR_ARG(e.name));
        if (n > 0 && (size_t)n < sizeof path)
            sweep_one(tci_str(path));
        nfolders++;
    }
}

void tci_pi_sweep(tc_str tmpdir)
{
    tc_err ignored;
    tci_dir dir = {0};
    tci_dir_reader reader;
    char path[TCI_PATH_MAX];
    if (tci_cstr(tmpdir, path, sizeof path, &ignored) < 0 ||
        tci_dir_open(NULL, path, 0, &dir, &ignored) < 0)
        return;
    char *buf = tci_mem_alloc(TCI_DIR_READ_BYTES);
    if (buf != NULL && tci_dir_read_start(&reader, &dir, buf, &ignored) == 0)
        sweep_names(tmpdir, &reader);
    tci_free(buf);
    tci_dir_close(&dir);
}
