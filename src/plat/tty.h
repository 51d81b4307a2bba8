/* SPDX-License-Identifier: Apache-2.0
 *
 * The terminal that a person types at. One thread at a time. */
#ifndef TCI_PLAT_TTY_H
#define TCI_PLAT_TTY_H

#include "base/compiler.h"
#include <telechir/error.h>

/* How a terminal was before: opaque. */
typedef struct tci_tty_mode {
    _Alignas(8) unsigned char bytes[128];
} tci_tty_mode;

/* Every key comes as it is typed, Ctrl-C too, and nothing is echoed. Output is as before, and signals that do
 * not come from the keyboard are, too. UNSUPPORTED: no terminal. */
int tci_tty_raw(int fd, tci_tty_mode *ret_was, tc_err *err) TC_CHECKED;
/* Keys typed and not read yet are kept. A terminal that has gone is fine. */
void tci_tty_restore(int fd, const tci_tty_mode *mode);
/* Columns; 80 when it does not say. */
unsigned tci_tty_columns(int fd);

#endif
