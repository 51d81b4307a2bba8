/* SPDX-License-Identifier: Apache-2.0
 *
 * Any source and any patch: the input up to its first NUL is the source, the rest the patch. A
 * success has put nothing out that was in neither. */
#include "base/compiler.h"
#include "ops/patch.h"
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tc_str all = tci_str_of(data, size);
    size_t nul = tci_str_find_byte(all, '\0');
    tc_str source = tci_str_sub(all, 0, nul);
    tc_str patch = tci_str_sub(all, nul + 1, size);
    tci_buf out;
    tc_err err;
    uint64_t hunks = 0;
    tci_buf_init(&out, (size_t)1 << 20);
    int rc = tci_patch_apply(source, patch, &out, &hunks, &err);
    if (rc == 0) {
        TC_ASSERT(hunks >= 1 && hunks <= TCI_PATCH_HUNKS_MAX);
        TC_ASSERT(out.len <= source.len + patch.len);
    } else {
        TC_ASSERT(rc == TC_E_INVALID || rc == TC_E_CONFLICT || rc == TC_E_QUOTA ||
                  rc == TC_E_NO_MEMORY);
    }
    tci_buf_done(&out);
    return 0;
}
