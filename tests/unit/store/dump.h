/* SPDX-License-Identifier: Apache-2.0
 *
 * Everything a storage answers, as text: to compare what a session was with what it is. */
#ifndef TEST_STORE_DUMP_H
#define TEST_STORE_DUMP_H

#include "store/store.h"

/* Appends a line for each record, in order of ids, and the values of the documents that are alive. 0 or the
 * code of the read that failed. */
int dump_store(tci_store *store, tci_buf *out, tc_err *err) TC_CHECKED;

#endif
