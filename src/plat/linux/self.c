/* SPDX-License-Identifier: Apache-2.0
 *
 * See self.h. Any thread; holds nothing. */
#include "plat/self.h"

int tci_self_program(char buf[TCI_PATH_MAX], tc_str *ret, tc_err *err)
{
    tc_str path;
    if (tci_file_readlink(TCI_FILE_CWD, TC_STR("/proc/self/exe"), buf, TCI_PATH_MAX - 1, &path,
                          err) < 0)
        return err->code;
    buf[path.len] = '\0';
    *ret = tci_str_of(buf, path.len);
    return 0;
}
