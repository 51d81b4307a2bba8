/* SPDX-License-Identifier: Apache-2.0
 *
 * A storage in front of another that fails when it is told to, and keeps what was written. */
#ifndef TEST_FAULTY_STORE_H
#define TEST_FAULTY_STORE_H

#include "store/store.h"

typedef struct faulty {
    bool fail_commit, fail_mint, fail_read; /* with IO */
    unsigned ncommits, ncloses;
    tci_commit_how how; /* of the last commit */
    char last[65536];   /* the last batch, one write a line */
} faulty;

/* what: stays the test's; inner goes with the storage. */
tci_store *faulty_store(tci_store *inner, faulty *what);

#endif
