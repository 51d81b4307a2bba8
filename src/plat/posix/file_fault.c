/* SPDX-License-Identifier: Apache-2.0
 *
 * The disk that breaks when a test says so. Empty in builds without TCI_TESTING. State belongs to
 * the calling thread, so that tests of one program cannot break each other. */
#include "plat/posix/file_int.h"

#ifdef TCI_TESTING

typedef struct fault {
    unsigned left; /* calls until it strikes; 0: off */
    int os_error;
    bool struck;
} fault;

static _Thread_local fault on_write, on_sync, on_rename;

static void arm(fault *f, unsigned n, int os_error)
{
    *f = (fault){.left = n, .os_error = os_error};
}

void tci_file_fail_write_at(unsigned n, int os_error)
{
    arm(&on_write, n, os_error);
}
void tci_file_fail_sync_at(unsigned n, int os_error)
{
    arm(&on_sync, n, os_error);
}
void tci_file_fail_rename_at(unsigned n, int os_error)
{
    arm(&on_rename, n, os_error);
}

/* true once, at the n-th call. */
static bool strikes(fault *f)
{
    if (f->left == 0)
        return false;
    f->left--;
    f->struck = f->left == 0;
    return f->struck;
}

size_t tci_file_fault_write(size_t len)
{
    fault *f = &on_write;
    if (f->struck && f->os_error != 0) {
        errno = f->os_error;
        return 0;
    }
    return strikes(f) && len > 1 ? len / 2 : len;
}

static bool fails(fault *f)
{
    if (!strikes(f))
        return false;
    errno = f->os_error;
    return true;
}

bool tci_file_fault_sync(void)
{
    return fails(&on_sync);
}
bool tci_file_fault_rename(void)
{
    return fails(&on_rename);
}

#else

typedef int tci_file_fault_unused; /* a translation unit may not be empty */

#endif
