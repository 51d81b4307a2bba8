/* SPDX-License-Identifier: Apache-2.0
 *
 * What a WebSocket server reads, from a peer that it does not trust. */
#include "fuzz_ws.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_ws(TCI_WS_SERVER, data, size);
    return 0;
}
