/* SPDX-License-Identifier: Apache-2.0
 *
 * Carrying extended attributes, access lists among them, from a file to the one that replaces it.
 * Any thread. Invariant: an attribute that belongs to the file is on the copy, or the call failed.
 */
#include "plat/posix/file_int.h"

#include "base/mem.h"
#include <stdio.h>
#include <sys/xattr.h>

static const char acl_name[] = "system.posix_acl_access";

/* They vouch for the bytes of a file: a capability given to, or a hash made of, what was there. */
static const char *const of_content[] = {"security.capability", "security.ima", "security.evm"};

enum { LIST_MAX = 65536, VALUE_MAX = 65536, SMALL = 1024 };

typedef struct attrs {
    tci_file from, to;
    unsigned flags;
    bool has_acl;
    char *value; /* VALUE_MAX bytes, made when the first is needed */
} attrs;

/* A descriptor that is only a handle on a name (O_PATH) must be asked through /proc. */
static ssize_t list_names(tci_file f, char *list, size_t size)
{
    ssize_t n = flistxattr(f.fd, list, size);
    if (n >= 0 || errno != EBADF)
        return n;
    char path[32];
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", f.fd);
    return listxattr(path, list, size);
}

static ssize_t get_value(tci_file f, const char *name, char *value, size_t size)
{
    ssize_t n = fgetxattr(f.fd, name, value, size);
    if (n >= 0 || errno != EBADF)
        return n;
    char path[32];
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", f.fd);
    return getxattr(path, name, value, size);
}

static bool is_carried(const attrs *a, const char *name)
{
    for (size_t i = 0; i < TCI_ARRAY_LEN(of_content); i++)
        if (strcmp(name, of_content[i]) == 0)
            return false;
    if (strcmp(name, acl_name) == 0)
        return (a->flags & TCI_XATTR_ACL) != 0;
    /* Other names of system.* are views of the file system, not stored attributes. */
    return strncmp(name, "system.", 7) != 0;
}

static int refuse(tc_err *err, const char *what, const char *name)
{
    int os = errno;
    tc_code code = tci_errno_code(os);
    return tc_err_set_os(err, code == TC_E_NO_SPACE ? code : TC_E_DENIED, os,
                         "cannot %s the attribute '%s'", what, name);
}

static int carry_one(attrs *a, const char *name, tc_err *err)
{
    if (a->value == NULL && (a->value = tci_mem_alloc(2 * (size_t)VALUE_MAX)) == NULL)
        return tci_err_no_memory(err);
    ssize_t n = get_value(a->from, name, a->value, VALUE_MAX);
    if (n < 0 && errno == ENODATA)
        return 0; /* taken away since it was listed */
    if (n < 0)
        return refuse(err, "read", name);
    if (strncmp(name, "security.", 9) == 0) {
        /* Usually the kernel labels the new file alike; setting a label may be forbidden. */
        char *have = a->value + VALUE_MAX;
        ssize_t m = get_value(a->to, name, have, VALUE_MAX);
        if (m == n && memcmp(have, a->value, (size_t)n) == 0)
            return 0;
    }
    if (fsetxattr(a->to.fd, name, a->value, (size_t)n, 0) < 0)
        return refuse(err, "keep", name);
    return 0;
}

static int carry_all(attrs *a, const char *list, size_t len, tc_err *err)
{
    for (const char *name = list; name < list + len; name += strlen(name) + 1) {
        if (strcmp(name, acl_name) == 0)
            a->has_acl = true;
        int rc = is_carried(a, name) ? carry_one(a, name, err) : 0;
        if (rc < 0)
            return rc;
    }
    return 0;
}

int tci_file_copy_xattrs(tci_file from, tci_file to, unsigned flags, tc_err *err)
{
    attrs a = {.from = from, .to = to, .flags = flags};
    char small[SMALL];
    char *large = NULL;
    ssize_t n = list_names(from, small, sizeof small);
    if (n < 0 && errno == ERANGE) {
        large = tci_mem_alloc(LIST_MAX);
        if (large == NULL)
            return tci_err_no_memory(err);
        n = list_names(from, large, LIST_MAX);
    }
    int rc = 0;
    if (n < 0 && errno != EOPNOTSUPP && errno != ENOSYS)
        rc = tci_file_fail_fd(err, "list the attributes of");
    if (n > 0)
        rc = carry_all(&a, large != NULL ? large : small, (size_t)n, err);
    /* The folder may have given the new file a list that the old one did not have. */
    if (rc == 0 && (flags & TCI_XATTR_ACL) != 0 && !a.has_acl &&
        fremovexattr(to.fd, acl_name) < 0 && errno != ENODATA && errno != EOPNOTSUPP &&
        errno != ENOSYS)
        rc = refuse(err, "remove", acl_name);
    tci_mem_free(a.value);
    tci_mem_free(large);
    return rc;
}
