/* SPDX-License-Identifier: Apache-2.0
 *
 * What a daemon sends to be let in, and what it is answered. Pure; any thread. */
#ifndef TCI_HOST_PAIR_H
#define TCI_HOST_PAIR_H

#include "base/json.h"
#include "host/records/devices.h"

enum {
    TCI_PAIR_BODY_MAX = 8 * 1024,
    TCI_PAIR_DEVICE_ID_MAX = 128,
    TCI_PAIR_NAME_MAX = 256,      /* bytes */
    TCI_PAIR_CREDENTIAL_LEN = 64, /* lower-case hex digits */
    TCI_PAIR_POLL_SECONDS = 2
};

/* The credential in an Authorization field: "Bearer " and TCI_PAIR_CREDENTIAL_LEN digits. Borrowed from value.
 * AUTH otherwise. */
int tci_pair_read_bearer(tc_str value, tc_str *ret_credential, tc_err *err) TC_CHECKED;

/* {"device_id":...,"name":...}: both, nothing else, nothing twice. device_id: 1..128 of [A-Za-z0-9._-]; name:
 * 1..256 bytes of text without control characters. Into device_id and name of ret, borrowed from body and a.
 * Errors: PARSE (not JSON), INVALID, TOO_BIG. */
int tci_pair_read(tc_str body, tci_arena *a, tci_pair_ask *ret, tc_err *err) TC_CHECKED;

/* Append the answer to b; gives the HTTP status. base: the path all of the Host is under, "/" or "/.../". */
unsigned tci_pair_put(tci_buf *b, const tci_pair_answer *answer, tc_str base);

/* {"error":{"code":...,"message":...}}. message: without control characters, as our own texts are. */
void tci_host_put_error(tci_buf *b, const char *code, tc_str message);

#endif
