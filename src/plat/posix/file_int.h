/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the files that make up plat/file.h on POSIX systems: C strings from paths, the one way
 * an errno becomes an error, and the disk that breaks in tests. */
#ifndef TCI_PLAT_POSIX_FILE_INT_H
#define TCI_PLAT_POSIX_FILE_INT_H

#include "plat/file.h"
#include <errno.h>

/* Set err from errno: "cannot <what> '<path>': <text>". Returns the code. */
int tci_file_fail(tc_err *err, const char *what, tc_str path);
/* The same for a call on an open descriptor. */
int tci_file_fail_fd(tc_err *err, const char *what);

/* The descriptor to hand to an *at call. */
int tci_file_root_fd(tci_file root);

/* Declare `name`, a C string on the stack with the bytes of path; gone with the block. */
typedef struct tci_file_cpath {
    char text[TCI_PATH_MAX];
} tci_file_cpath;
int tci_file_cpath_init(tci_file_cpath *c, tc_str path, tc_err *err) TC_CHECKED;

/* Asked before each system call of the kind. _write: how many of len bytes to try, 0 with errno set
 * to fail. _sync, _rename: true with errno set to fail. */
#ifdef TCI_TESTING
size_t tci_file_fault_write(size_t len);
bool tci_file_fault_sync(void);
bool tci_file_fault_rename(void);
#else
static inline size_t tci_file_fault_write(size_t len)
{
    return len;
}
static inline bool tci_file_fault_sync(void)
{
    return false;
}
static inline bool tci_file_fault_rename(void)
{
    return false;
}
#endif

#endif
