/* SPDX-License-Identifier: Apache-2.0
 *
 * What the journal consists of, for those who write it and read it. */
#ifndef TCI_STORE_JSONL_JOURNAL_INT_H
#define TCI_STORE_JSONL_JOURNAL_INT_H

#include "base/str.h"

enum {
    TCI_JOURNAL_HEAD = 32,
    TCI_JOURNAL_HASH_AT = 24,
    TCI_JOURNAL_PIECE = 24,
    TCI_JOURNAL_MAGIC = 0x314a4354 /* "TCJ1" */
};

typedef enum tci_piece_kind {
    TCI_PIECE_MAIN,
    TCI_PIECE_DOC,
    TCI_PIECE_TASK,
    TCI_PIECE_NO_DOC, /* removed */
    TCI_PIECE_NO_TASK
} tci_piece_kind;

/* Of a record of len bytes. */
uint64_t tci_journal_hash(const char *record, size_t len);

#endif
