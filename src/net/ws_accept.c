/* SPDX-License-Identifier: Apache-2.0
 *
 * The server's side of a WebSocket's beginning: takes the connection of an upgrade request from the HTTP
 * server. Loop thread. */
#include "net/httpd.h"
#include "net/ws_int.h"

static void answer_refusal(tci_httpd_req *req, unsigned status)
{
    tc_err err;
    const tci_http_header version = {TC_STR("Sec-WebSocket-Version"), TC_STR("13")};
    if (tci_httpd_respond(req, status, &version, status == 426 ? 1 : 0, TC_STR(""), &err) < 0)
        return; /* the request is done all the same */
}

int tci_ws_upgrade(tci_httpd_req *req, tci_loop *loop, tc_str subprotocol,
                   const tci_ws_options *options, tci_ws **ret_ws, tc_err *err)
{
    char key[TCI_WS_KEY_LEN];
    unsigned status = 400;
    tci_stream *stream;
    tci_buf answer, rest;
    tci_ws_options server = *options;
    server.role = TCI_WS_SERVER;
    int rc = tci_ws_check_request(tci_httpd_head(req), subprotocol, key, &status, err);
    if (rc == 0 && !tci_httpd_head(req)->is_upgrade)
        rc = tc_err_set(err, TC_E_PROTOCOL, "the upgrade request is not one");
    if (rc < 0) {
        answer_refusal(req, status);
        return rc;
    }
    tci_buf_init(&answer, TCI_WS_URGENT_MAX);
    tci_buf_init(&rest, TCI_BUF_MAX);
    tci_ws_put_answer(&answer, key, subprotocol);
    rc = tci_buf_error(&answer, err);
    if (rc == 0)
        rc = tci_httpd_take_stream(req, &stream, &rest, err);
    if (rc < 0)
        answer_refusal(req, 500);
    else
        rc = tci_ws_new_with(loop, stream, tci_buf_str(&rest), tci_buf_str(&answer), &server,
                             ret_ws, err);
    tci_buf_done(&answer);
    tci_buf_done(&rest);
    return rc;
}
