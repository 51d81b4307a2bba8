/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of files on POSIX systems: making, linking, removing and resolving them. Leaves renaming
 * without replacing, which each system does in its own way, to that system's folder. Any thread. */
#include "plat/posix/file_int.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

int tci_file_link(tci_file from_root, tc_str from, tci_file to_root, tc_str to, tc_err *err)
{
    tci_file_cpath a, b;
    int rc = tci_file_cpath_init(&a, from, err);
    if (rc == 0)
        rc = tci_file_cpath_init(&b, to, err);
    if (rc < 0)
        return rc;
    if (tci_file_fault_rename() ||
        linkat(tci_file_root_fd(from_root), a.text, tci_file_root_fd(to_root), b.text, 0) < 0)
        return tci_file_fail(err, "link", to);
    return 0;
}

int tci_file_symlink(tc_str target, tci_file root, tc_str path, tc_err *err)
{
    tci_file_cpath a, b;
    int rc = tci_file_cpath_init(&a, target, err);
    if (rc == 0)
        rc = tci_file_cpath_init(&b, path, err);
    if (rc < 0)
        return rc;
    if (symlinkat(a.text, tci_file_root_fd(root), b.text) < 0)
        return tci_file_fail(err, "make the link", path);
    return 0;
}

static int remove_name(tci_file root, tc_str path, int flags, tc_err *err)
{
    tci_file_cpath c;
    int rc = tci_file_cpath_init(&c, path, err);
    if (rc < 0)
        return rc;
    if (unlinkat(tci_file_root_fd(root), c.text, flags) < 0)
        return tci_file_fail(err, "remove", path);
    return 0;
}

int tci_file_unlink(tci_file root, tc_str path, tc_err *err)
{
    return remove_name(root, path, 0, err);
}

void tci_file_discard(tci_file root, tc_str path)
{
    tci_file_cpath c;
    tc_err ignored;
    if (tci_file_cpath_init(&c, path, &ignored) == 0)
        (void)unlinkat(tci_file_root_fd(root), c.text, 0);
}

int tci_file_rmdir(tci_file root, tc_str path, tc_err *err)
{
    return remove_name(root, path, AT_REMOVEDIR, err);
}

int tci_file_mkdir(tci_file root, tc_str path, unsigned mode, tc_err *err)
{
    tci_file_cpath c;
    int rc = tci_file_cpath_init(&c, path, err);
    if (rc < 0)
        return rc;
    if (mkdirat(tci_file_root_fd(root), c.text, (mode_t)mode) < 0)
        return tci_file_fail(err, "make the folder", path);
    return 0;
}

int tci_file_readlink(tci_file root, tc_str path, char *buf, size_t buf_size, tc_str *ret,
                      tc_err *err)
{
    tci_file_cpath c;
    int rc = tci_file_cpath_init(&c, path, err);
    if (rc < 0)
        return rc;
    ssize_t n = readlinkat(tci_file_root_fd(root), c.text, buf, buf_size);
    if (n < 0)
        return tci_file_fail(err, "read the link", path);
    if ((size_t)n >= buf_size)
        return tc_err_set(err, TC_E_TOO_BIG, "the text of link '%.*s' is too long",
                          TC_STR_ARG(path));
    *ret = tci_str_of(buf, (size_t)n);
    return 0;
}

int tci_file_realpath(tc_str path, char buf[TCI_PATH_MAX], tc_str *ret, tc_err *err)
{
    tci_file_cpath c;
    int rc = tci_file_cpath_init(&c, path, err);
    if (rc < 0)
        return rc;
    if (realpath(c.text, buf) == NULL)
        return tci_file_fail(err, "resolve", path);
    *ret = tci_str(buf);
    return 0;
}

void tci_path_split(tc_str path, tc_str *ret_parent, tc_str *ret_name)
{
    size_t slash = tci_str_rfind_byte(path, '/');
    if (slash == path.len) {
        *ret_parent = TC_STR(".");
        *ret_name = path;
        return;
    }
    *ret_parent = tci_str_sub(path, 0, slash == 0 ? 1 : slash);
    *ret_name = tci_str_sub(path, slash + 1, path.len);
}
