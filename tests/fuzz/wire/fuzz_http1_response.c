/* SPDX-License-Identifier: Apache-2.0
 *
 * HTTP/1.1 responses, see fuzz_http1.h. */
#include "fuzz_http1.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_http1(TCI_HTTP1_RESPONSE, data, size);
    return 0;
}
