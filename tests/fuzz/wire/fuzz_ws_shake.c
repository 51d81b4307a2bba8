/* SPDX-License-Identifier: Apache-2.0
 *
 * Both halves of the WebSocket handshake: heads as a peer may send them. */
#include "wire/ws.h"

#include <stdlib.h>

static void check(tci_http1_type type, tc_str in)
{
    tc_err err;
    tci_http1 *reader;
    tci_http1_event event = TCI_HTTP1_MORE;
    size_t used = 0;
    tc_str body;
    if (tci_http1_new(type, &reader, &err) < 0)
        return;
    tci_http1_set_flags(reader, TCI_HTTP1_UPGRADE);
    if (tci_http1_next(reader, in, &used, &event, &body, &err) == 0 && event == TCI_HTTP1_HEAD) {
        char key[TCI_WS_KEY_LEN] = {0};
        unsigned status = 0;
        const tci_http_head *head = tci_http1_head(reader);
        if (type == TCI_HTTP1_RESPONSE)
            status =
                tci_ws_check_answer(head, "dGhlIHNhbXBsZSBub25jZQ==", TC_STR("eip.v1"), &err) == 0;
        else if (tci_ws_check_request(head, TC_STR("eip.v1"), key, &status, &err) == 0 &&
                 (key[23] != '=' || !tci_str_eq(head->method, TC_STR("GET"))))
            abort();
    }
    tci_http1_free(reader);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    check(TCI_HTTP1_REQUEST, tci_str_of(data, size));
    check(TCI_HTTP1_RESPONSE, tci_str_of(data, size));
    return 0;
}
