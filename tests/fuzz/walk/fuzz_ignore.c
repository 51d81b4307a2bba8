/* SPDX-License-Identifier: Apache-2.0
 *
 * A path up to the first LF, an ignore file behind it. */
#include "base/ignore.h"
#include "base/str.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tc_str rest = tci_str_of(data, size), path = {NULL, 0};
    tci_arena a;
    tc_err err;
    const tci_ignore *ign;
    if (!tci_str_split(&rest, '\n', &path))
        return 0;
    tci_arena_init(&a, 0);
    if (tci_ignore_parse(rest, &a, NULL, NULL, &ign, &err) == 0) {
        tci_ignore_verdict as_file = tci_ignore_match(ign, path, false);
        TC_ASSERT(as_file == TCI_IGNORE_NONE || !tci_ignore_is_empty(ign));
        (void)tci_ignore_match(ign, path, true); /* must come back */
    }
    tci_arena_done(&a);
    return 0;
}
