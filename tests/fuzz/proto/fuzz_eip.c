/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as a request and as a reply; what decodes must encode to a text that decodes to the
 * same text again. Dictionary: eip.dict. */
#include "proto/envelope.h"
#include "proto/gen/eip.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Encode, read back, encode: both texts are equal. */
static void check_stable(const tci_type *type, const tci_json *v, tci_arena *a)
{
    tc_err err;
    void *value = tci_arena_alloc(a, tci_type_size(type));
    if (value == NULL || tci_proto_decode(type, v, a, value, &err) < 0)
        return;
    tci_buf first, second;
    tci_buf_init(&first, TCI_BUF_MAX);
    tci_buf_init(&second, TCI_BUF_MAX);
    tci_proto_encode(type, value, &first, 0);
    tci_proto_encode(type, value, &second, TCI_PROTO_FOR_DIGEST);
    TC_ASSERT(second.len <= first.len);
    tci_buf_clear(&second);
    tci_json again;
    TC_ASSERT(tci_json_parse(tci_buf_str(&first), 0, a, &again, &err) == 0);
    TC_ASSERT(tci_proto_decode(type, &again, a, value, &err) == 0);
    tci_proto_encode(type, value, &second, 0);
    TC_ASSERT(tci_str_eq(tci_buf_str(&first), tci_buf_str(&second)));
    tci_buf_done(&first);
    tci_buf_done(&second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tc_err err;
    tci_arena a;
    tci_eip_request request;
    tci_eip_reply reply;
    tci_arena_init(&a, 0);
    if (tci_eip_request_decode(tci_str_of(data, size), &a, &request, &err) == 0) {
        const tci_method *m = tci_method_find(request.method);
        if (m != NULL) {
            check_stable(m->params, request.params, &a);
        } else {
            for (int i = 0; i < TCI_EIP_METHOD_COUNT; i++)
                check_stable(tci_eip_methods[i].params, request.params, &a);
        }
    }
    if (tci_eip_reply_decode(tci_str_of(data, size), &a, &reply, &err) == 0) {
        if (reply.data != NULL)
            check_stable(&tci_eip_error_data_type, reply.data, &a);
        for (int i = 0; reply.result != NULL && i < TCI_EIP_METHOD_COUNT; i++)
            check_stable(tci_eip_methods[i].result, reply.result, &a);
    }
    tci_arena_done(&a);
    return 0;
}
