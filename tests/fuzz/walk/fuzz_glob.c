/* SPDX-License-Identifier: Apache-2.0
 *
 * A pattern up to the first LF, a path behind it. */
#include "base/glob.h"
#include "base/str.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tc_str rest = tci_str_of(data, size), pattern = {NULL, 0};
    tci_arena a;
    tc_err err;
    const tci_glob *g;
    if (!tci_str_split(&rest, '\n', &pattern))
        return 0;
    tci_arena_init(&a, 0);
    if (tci_glob_compile(pattern, &a, &g, &err) == 0) {
        bool is_match = tci_glob_matches(g, rest);
        TC_ASSERT(is_match || !tci_glob_is_any(g));
    }
    tci_arena_done(&a);
    return 0;
}
