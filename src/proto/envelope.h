/* SPDX-License-Identifier: Apache-2.0
 *
 * The JSON-RPC 2.0 envelope of EIP: requests, replies, and the error object. */
#ifndef TCI_PROTO_ENVELOPE_H
#define TCI_PROTO_ENVELOPE_H

#include "proto/gen/eip.h"

typedef struct tci_eip_request {
    tci_json id; /* STRING of 1..128 bytes, NUMBER in int64 range, or NULL when not usable */
    tc_str method;
    const tci_json *params; /* an object */
    bool has_session;
    tc_str session;
    bool wants_extensions; /* tc_ext: 1 */
} tci_eip_request;

/* PARSE: not JSON. INVALID: not a valid envelope (also equal keys anywhere). On failure ret->id
 * alone is set, to a usable id or NULL. text and arena outlive the request. */
int tci_eip_request_decode(tc_str text, tci_arena *a, tci_eip_request *ret, tc_err *err) TC_CHECKED;

/* {"eip_session":S,"id":I,"jsonrpc":"2.0","result":R}; session NULL: no such member. result is
 * encoded by type; or already encoded text when type is NULL. */
void tci_eip_put_result(tci_buf *out, const tci_json *id, const tc_str *session,
                        const tci_type *type, const void *result);
void tci_eip_put_error(tci_buf *out, const tci_json *id, const tc_str *session, int32_t code,
                       tc_str message, tc_str data_json);

/* The same in pieces, for a result that is encoded once into its envelope: begin, the result's text,
 * end. And an error whose object is text already: {"eip_session":S,"error":E,"id":I,"jsonrpc":"2.0"}. */
void tci_eip_begin_result(tci_buf *out, const tci_json *id, const tc_str *session);
void tci_eip_end_result(tci_buf *out);
void tci_eip_put_error_text(tci_buf *out, const tci_json *id, const tc_str *session,
                            tc_str error_object);
/* {"code":C,"data":D,"message":M}. */
void tci_eip_put_error_object(tci_buf *out, int32_t code, tc_str message,
                              const tci_eip_error_data *data);

/* The client's side. */
void tci_eip_put_request(tci_buf *out, uint64_t id, const tc_str *session, tc_str method,
                         const tci_type *params_type, const void *params, bool wants_extensions);
typedef struct tci_eip_reply {
    bool has_id;
    uint64_t id;
    tc_str id_text; /* the same as it stands in the text */
    bool has_session;
    tc_str session;
    const tci_json *result; /* NULL: an error */
    int32_t code;
    tc_str message;
    const tci_json *data; /* of an error */
} tci_eip_reply;
/* PROTOCOL when it is not a valid reply. */
int tci_eip_reply_decode(tc_str text, tci_arena *a, tci_eip_reply *ret, tc_err *err) TC_CHECKED;

#endif
