/* SPDX-License-Identifier: Apache-2.0
 *
 * Any JSON as a request, a result and an event of pi-env: reading it leniently leaves a value whose
 * text reads back to the same text. Dictionary: pi_env.dict. */
#include "proto/gen/pi_env.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_stable(const tci_type *type, const tci_json *v, tci_arena *a)
{
    tc_err err;
    void *value = tci_arena_alloc(a, tci_type_size(type));
    if (value == NULL || tci_proto_decode_lenient(type, v, a, value, &err) < 0)
        return;
    tci_buf first, second;
    tci_buf_init(&first, TCI_BUF_MAX);
    tci_buf_init(&second, TCI_BUF_MAX);
    tci_proto_encode(type, value, &first, 0);
    tci_json again;
    TC_ASSERT(tci_json_parse(tci_buf_str(&first), 0, a, &again, &err) == 0);
    TC_ASSERT(tci_proto_decode_lenient(type, &again, a, value, &err) == 0);
    tci_proto_encode(type, value, &second, 0);
    TC_ASSERT(tci_str_eq(tci_buf_str(&first), tci_buf_str(&second)));
    tci_buf_done(&first);
    tci_buf_done(&second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tc_err err;
    tci_arena a;
    tci_json v;
    tci_arena_init(&a, 0);
    if (tci_json_parse(tci_str_of(data, size), TCI_JSON_LAST_KEY_WINS, &a, &v, &err) == 0) {
        for (int i = 0; i < TCI_PI_OP_COUNT; i++) {
            check_stable(tci_pi_ops[i].params, &v, &a);
            check_stable(tci_pi_ops[i].result, &v, &a);
        }
        check_stable(&tci_pi_error_type, &v, &a);
        check_stable(&tci_pi_output_event_type, &v, &a);
        check_stable(&tci_pi_watch_event_type, &v, &a);
        check_stable(&tci_pi_listing_type, &v, &a);
        check_stable(&tci_pi_tunnel_note_type, &v, &a);
    }
    tci_arena_done(&a);
    return 0;
}
