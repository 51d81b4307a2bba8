/* SPDX-License-Identifier: Apache-2.0
 *
 * What a Host answers when its device has not: which error that is here, whether the device provably never got the
 * request, and what to do. Pure but for the connection's address. Invariant: "not started" is only said where the
 * Host itself says so by a code that means it. */
#include "client/http/http.h"

#include "base/plain.h"
#include "base/utf8.h"

#include <stdio.h>

typedef struct host_error {
    const char *name;
    tc_code code;
    bool is_unsent;
    const char *hint; /* NULL: the message says all; may have one %s, where the Host is */
} host_error;

static const host_error host_errors[] = {
    {"unauthenticated", TC_E_AUTH, true, "sign in again: telechir host login %s"},
    {"not_found", TC_E_NOT_FOUND, true, "'telechir devices' lists them"},
    {"conflict", TC_E_CONFLICT, true, "name it by its id: 'telechir devices' lists them"},
    {"revoked", TC_E_DENIED, true, "have it enrolled again: telechird connect %s"},
    {"not_approved", TC_E_DENIED, true, "approve it: telechir devices approve CODE"},
    {"offline", TC_E_CONNECT, true, "see that its daemon runs, and that it reaches the Host"},
    {"not_delivered", TC_E_CONNECT, true, "nothing was started: try again"},
    {"busy", TC_E_BUSY, true, "try again later"},
    {"too_many_requests", TC_E_BUSY, true, "try again later"},
    {"too_large", TC_E_QUOTA, true, NULL},
    {"invalid_request", TC_E_INVALID, true, NULL},
    {"unsupported_media_type", TC_E_INVALID, true, NULL},
    {"method_not_allowed", TC_E_INCOMPATIBLE, true, NULL},
    {"misdirected", TC_E_INCOMPATIBLE, true,
     "use the address that the Host prints, or --public-url"},
    {"bad_handle", TC_E_BAD_HANDLE, false, NULL},
    {"answer_lost", TC_E_CLOSED, false, NULL},
    {"link_lost", TC_E_CLOSED, false, NULL},
    {"device_failed", TC_E_IO, false, NULL},
    {"internal", TC_E_IO, false, NULL},
};

/* A message of somebody else's: one line, without what a terminal would act on. */
static void take_message(tc_str message, char out[TC_ERR_MSG_MAX])
{
    tci_buf b;
    tci_buf_init(&b, TCI_HOST_ERROR_MAX * 4);
    tci_plain_put(&b, message, TCI_PLAIN_LINE);
    tc_str line = tci_str_sub(tci_buf_str(&b), 0, TC_ERR_MSG_MAX / 2);
    line.len = tci_utf8_valid_prefix(line);
    if (line.len > 0)
        memcpy(out, line.ptr, line.len);
    out[line.len] = 0;
    tci_buf_done(&b);
}

static void put_hint(const tci_eip_http *h, const host_error *e, tc_err *err)
{
    char authority[TCI_URL_AUTHORITY_MAX], where[TCI_URL_AUTHORITY_MAX + 16];
    if (e->hint == NULL)
        return;
    (void)snprintf(where, sizeof where, "%s://%s", tci_url_scheme_name(h->url.scheme),
                   tci_url_authority(&h->url, authority)); /* fits */
    const char *at = strstr(e->hint, "%s");
    size_t before = at != NULL ? (size_t)(at - e->hint) : strlen(e->hint);
    tc_err_hint(err, "%.*s%s%s", (int)before, e->hint, at != NULL ? where : "",
                at != NULL ? at + 2 : "");
}

bool tci_eip_http_host_error(const tci_eip_http *h, tc_str body, tc_err *err, bool *ret_is_unsent)
{
    tci_arena a;
    tci_json doc;
    tc_err ignored;
    char message[TC_ERR_MSG_MAX];
    const host_error *found = NULL;
    tci_arena_init(&a, 0);
    if (h->is_behind_host && body.len > 0 && tci_json_parse(body, 0, &a, &doc, &ignored) == 0) {
        const tci_json *error = tci_json_get(&doc, TC_STR("error"));
        tc_str code = tci_json_str_member(error, "code");
        for (size_t i = 0; i < TCI_ARRAY_LEN(host_errors); i++)
            if (tci_str_eq(code, tci_str(host_errors[i].name)))
                found = &host_errors[i];
        take_message(tci_json_str_member(error, "message"), message);
    }
    tci_arena_done(&a);
    if (found == NULL)
        return false;
    tc_err_set(err, found->code, "the Host answers: %s", message);
    put_hint(h, found, err);
    *ret_is_unsent = found->is_unsent;
    return true;
}
