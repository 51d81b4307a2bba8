/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the system keeps the certificates it trusts, for TLS libraries that were built to look elsewhere. */
#ifndef TCI_PLAT_ROOTS_H
#define TCI_PLAT_ROOTS_H

#include "base/compiler.h"

/* The file with all of them (PEM): the first of the usual places that can be read now, or NULL. Static. */
const char *tci_roots_file(void);

#endif
