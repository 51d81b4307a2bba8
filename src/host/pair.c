/* SPDX-License-Identifier: Apache-2.0
 *
 * What a daemon sends to be let in, and what it is answered. Leaves deciding to devices.c. Any thread. Invariant:
 * what is let through is fit to be shown to a person: text, in one line, of bounded length. */
#include "host/pair.h"

#include "base/plain.h"
#include "base/utf8.h"

int tci_pair_read_bearer(tc_str value, tc_str *ret_credential, tc_err *err)
{
    static const size_t prefix_len = sizeof "Bearer " - 1;
    tc_str scheme = tci_str_sub(value, 0, prefix_len);
    tc_str credential = tci_str_sub(value, prefix_len, SIZE_MAX);
    if (!tci_str_eq_nocase(scheme, TC_STR("Bearer ")) ||
        !tci_is_hex(credential, TCI_PAIR_CREDENTIAL_LEN))
        return tc_err_set(err, TC_E_AUTH, "a credential of %d hex digits is needed",
                          (int)TCI_PAIR_CREDENTIAL_LEN);
    *ret_credential = credential;
    return 0;
}

static bool is_identity(tc_str s)
{
    static const char others[] = "._-";
    bool is_fine = s.len > 0 && s.len <= TCI_PAIR_DEVICE_ID_MAX;
    for (size_t i = 0; is_fine && i < s.len; i++) {
        char c = s.ptr[i];
        is_fine = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  (c != '\0' && strchr(others, c) != NULL);
    }
    return is_fine;
}

static bool is_name(tc_str s)
{
    bool is_fine = s.len > 0 && s.len <= TCI_PAIR_NAME_MAX && tci_utf8_is_valid(s);
    for (size_t at = 0, len = 0; is_fine && at < s.len; at += len)
        is_fine = !tci_plain_is_control(tci_utf8_decode(tci_str_sub(s, at, SIZE_MAX), &len));
    return is_fine;
}

int tci_pair_read(tc_str body, tci_arena *a, tci_pair_ask *ret, tc_err *err)
{
    tci_json v;
    tc_str device_id, name;
    if (body.len > TCI_PAIR_BODY_MAX)
        return tc_err_set(err, TC_E_TOO_BIG, "the request is too long");
    int rc = tci_json_parse(body, 0, a, &v, err);
    if (rc == TC_E_CONFLICT)
        return tc_err_set(err, TC_E_INVALID, "a member is there twice");
    if (rc < 0)
        return rc;
    if (v.kind != TCI_JSON_OBJECT || v.count != 2 ||
        !tci_json_as_str(tci_json_get(&v, TC_STR("device_id")), &device_id) ||
        !tci_json_as_str(tci_json_get(&v, TC_STR("name")), &name))
        return tc_err_set(err, TC_E_INVALID, "device_id and name are needed, and nothing else");
    if (!is_identity(device_id))
        return tc_err_set(err, TC_E_INVALID, "device_id must be 1 to %d of A-Z a-z 0-9 . _ -",
                          (int)TCI_PAIR_DEVICE_ID_MAX);
    if (!is_name(name))
        return tc_err_set(err, TC_E_INVALID, "name must be 1 to %d bytes of plain text in one line",
                          (int)TCI_PAIR_NAME_MAX);
    ret->device_id = device_id;
    ret->name = name;
    return 0;
}

void tci_host_put_error(tci_buf *b, const char *code, tc_str message)
{
    bool first = true;
    tci_buf_append_str(b, TC_STR("{\"error\":{"));
    tci_json_put_member(b, &first, "code", tci_str(code));
    tci_json_put_member(b, &first, "message", message);
    tci_buf_append_str(b, TC_STR("}}"));
}

static void put_pending(tci_buf *b, const tci_pair_answer *answer, tc_str base)
{
    tci_buf_append_str(b, TC_STR("{\"status\":\"pending\",\"challenge\":{\"verification_code\":"));
    tci_json_put_str(b, answer->code);
    tci_buf_printf(b, "},\"approval_url\":\"%.*sapprove/%.*s\",\"poll_after_seconds\":%d}",
                   TC_STR_ARG(base), TC_STR_ARG(answer->challenge_id), (int)TCI_PAIR_POLL_SECONDS);
}

static void put_approved(tci_buf *b, const tci_pair_answer *answer, tc_str base)
{
    tci_buf_append_str(b, TC_STR("{\"status\":\"approved\",\"resource_id\":"));
    tci_json_put_str(b, answer->id);
    tci_buf_printf(b, ",\"websocket_url\":\"%.*sapi/devices/%.*s/connect\"}", TC_STR_ARG(base),
                   TC_STR_ARG(answer->id));
}

unsigned tci_pair_put(tci_buf *b, const tci_pair_answer *answer, tc_str base)
{
    static const struct {
        unsigned status;
        const char *code, *message;
    } refusals[] = {
        [TCI_PAIR_REVOKED] =
            {403, "device_revoked",
             "this device's connection was revoked; to enroll it anew, use another "
             "instance"},
        [TCI_PAIR_REJECTED] = {403, "pairing_rejected", "the owner of this Host said no"},
        [TCI_PAIR_CLASH] = {409, "identity_in_use",
                            "this device is known here with another credential; use another "
                            "instance"},
        [TCI_PAIR_FULL] = {429, "too_many_requests",
                           "too many devices wait for approval; try again later"},
    };
    switch (answer->status) {
    case TCI_PAIR_PENDING:
        put_pending(b, answer, base);
        return 200;
    case TCI_PAIR_APPROVED:
        put_approved(b, answer, base);
        return 200;
    case TCI_PAIR_REVOKED:
    case TCI_PAIR_REJECTED:
    case TCI_PAIR_CLASH:
    case TCI_PAIR_FULL:
        break;
    }
    tci_host_put_error(b, refusals[answer->status].code, tci_str(refusals[answer->status].message));
    return refusals[answer->status].status;
}
