/* SPDX-License-Identifier: Apache-2.0
 *
 * Private folders for daemon children, and removing them. May block; any thread. Invariant: removal
 * never follows a link. */
#include "env/env.h"

#include "base/hash.h"
#include "plat/clock.h"
#include "plat/dir.h"
#include "plat/file.h"

enum { PRIVATE = 0700, DEPTH_MAX = 32, NAME_BYTES = 12 };

int tci_env_temp_folder(tc_runtime *rt, tci_arena *a, tc_str *ret_path, tc_err *err)
{
    tc_str base = tci_str(tci_runtime_getenv(rt, "TMPDIR"));
    if (base.len == 0 || base.ptr[0] != '/')
        base = TC_STR("/tmp");
    uint8_t random[NAME_BYTES];
    char name[2 * NAME_BYTES];
    tci_random_bytes(random, sizeof random);
    tci_hex(random, sizeof random, name);
    tc_str path;
    int rc = tci_arena_printf(a, &path, err, "%.*s/telechir-%.*s", TC_STR_ARG(base),
                              (int)sizeof name, name);
    if (rc == 0)
        rc = tci_file_mkdir(TCI_FILE_CWD, path, PRIVATE, err);
    if (rc == 0)
        *ret_path = path;
    return rc;
}

static void remove_entries(const tci_dir *dir, tci_file root, unsigned depth);

static void remove_below(const tci_dir *dir, tci_file root, const char *name, unsigned depth)
{
    tci_dir sub = {0};
    tci_file sub_root = TCI_FILE_NONE;
    tc_err err;
    if (tci_dir_open(dir, name, TCI_DIR_NO_FOLLOW, &sub, &err) < 0)
        return;
    if (tci_file_openat(root, tci_str(name), TCI_OPEN_PATH | TCI_OPEN_DIRECTORY | TCI_OPEN_NOFOLLOW,
                        0, &sub_root, &err) == 0)
        remove_entries(&sub, sub_root, depth + 1);
    tci_file_close(&sub_root);
    tci_dir_close(&sub);
}

/* As far as possible: what cannot be removed stays. */
static void remove_entries(const tci_dir *dir, tci_file root, unsigned depth)
{
    char *buf = tci_mem_alloc(TCI_DIR_READ_BYTES);
    tci_dir_reader reader;
    tci_dir_entry entry;
    tc_err err;
    if (buf != NULL && depth < DEPTH_MAX && tci_dir_read_start(&reader, dir, buf, &err) == 0)
        while (tci_dir_read_next(&reader, &entry, &err) == 1) {
            if (tci_file_unlink(root, entry.name, &err) == 0)
                continue;
            remove_below(dir, root, entry.name.ptr, depth);
            int rc = tci_file_rmdir(root, entry.name, &err);
            TCI_UNUSED(rc); /* see above */
        }
    tci_free(buf);
}

void tci_env_remove_folder(tc_str path)
{
    char cpath[TCI_PATH_MAX];
    tci_dir dir = {0};
    tci_file root = TCI_FILE_NONE;
    tc_err err;
    if (tci_cstr(path, cpath, sizeof cpath, &err) < 0 ||
        tci_dir_open(NULL, cpath, TCI_DIR_NO_FOLLOW, &dir, &err) < 0)
        return;
    if (tci_file_open(path, TCI_OPEN_PATH | TCI_OPEN_DIRECTORY, 0, &root, &err) == 0)
        remove_entries(&dir, root, 0);
    tci_file_close(&root);
    tci_dir_close(&dir);
    int rc = tci_file_rmdir(TCI_FILE_CWD, path, &err);
    TCI_UNUSED(rc); /* what is left is in a private folder of the system's temporary one */
}
