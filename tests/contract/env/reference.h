/* SPDX-License-Identifier: Apache-2.0
 *
 * What the ExecutionEnv interface means, done directly on this machine's file system: every result
 * as text, to be compared with an environment's. */
#ifndef TC_TEST_ENV_REFERENCE_H
#define TC_TEST_ENV_REFERENCE_H

#include "tool.h"

typedef enum same_op {
    SAME_WRITE,
    SAME_APPEND,
    SAME_READ_TEXT,
    SAME_READ_BYTES,
    SAME_READ_LINES,
    SAME_INFO,
    SAME_EXISTS,
    SAME_LIST,
    SAME_CREATE_DIR,
    SAME_REMOVE,
    SAME_RENAME,
    SAME_TRUNCATE,
    SAME_FLUSH,
    SAME_CANONICAL,
    SAME_READER,
    SAME_PAGES,
    SAME_COUNT
} same_op;

/* One operation with its arguments, of which each takes what it needs. */
typedef struct same_step {
    same_op op;
    const char *path, *to; /* below the root */
    int64_t a, b;
    bool flag, force;
    tc_str bytes;
} same_step;

/* Do it below root, and add what came out to out. */
void reference_step(const same_step *s, tc_str root, tci_buf *out);

/* How both sides put things. Failures: "fails: word". */
void same_fail(tci_buf *out, tc_env_error word);
void same_file(tci_buf *out, tc_str name, tc_file_kind kind, uint64_t size);
void same_text(tci_buf *out, tc_str text_of_it);

#endif
