/* SPDX-License-Identifier: Apache-2.0
 *
 * What a WebSocket client reads, from a peer that it does not trust. */
#include "fuzz_ws.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_ws(TCI_WS_CLIENT, data, size);
    return 0;
}
