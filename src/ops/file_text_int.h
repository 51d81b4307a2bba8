/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading a file as text, block by block; shared by paging, appending and patching. */
#ifndef TCI_OPS_FILE_TEXT_INT_H
#define TCI_OPS_FILE_TEXT_INT_H

#include "plat/clock.h"
#include "plat/file.h"

enum { TCI_TEXT_BLOCK = 256 * 1024 };

/* Blocks of a file that never end inside a character, unless the file does. */
typedef struct tci_text_blocks {
    tci_file file;
    uint64_t size;   /* as the file says; 0: read until the end shows */
    uint64_t next;   /* offset of the first byte not read yet */
    char *buf;       /* cap bytes, the caller's */
    size_t cap, len; /* len: bytes of the present block */
    size_t carry;    /* bytes behind len that belong to the next block */
    bool is_end;     /* nothing follows the present block */
    const tci_cancel *cancel;
} tci_text_blocks;

/* Bytes to give as buf for a file of that size. */
size_t tci_text_block_size(uint64_t size);
/* The next block; len 0 at the end. Errors: IO, CANCELLED, TIMEOUT. */
int tci_text_blocks_next(tci_text_blocks *b, tc_err *err) TC_CHECKED;

/* UTF-8, and no NUL unless allowed. */
bool tci_text_is_ok(tc_str s, bool allow_nul);
/* Set err to UNSUPPORTED: what the file called name, whose first bytes are head, looks like. */
int tci_text_refuse(tc_str name, tc_str head, uint64_t size, tc_err *err);

/* Append all of from to to, refusing what is not text. */
int tci_text_copy(tci_file from, tci_file to, uint64_t size, const char *name,
                  const tci_cancel *cancel, uint64_t *ret_copied, tc_err *err) TC_CHECKED;

#endif
