/* SPDX-License-Identifier: Apache-2.0
 *
 * EIPD data frames. Leaves the transfers' state to whoever sends and receives them. No thread of
 * its own. Invariant: what decodes also passes tci_eipd_check and encodes to the same bytes. */
#include "wire/eipd.h"
#include "base/utf8.h"

static uint64_t load_be(const char *p, unsigned nbytes)
{
    uint64_t v = 0;
    for (unsigned i = 0; i < nbytes; i++)
        v = v << 8 | (unsigned char)p[i];
    return v;
}

static char *store_be(char *p, uint64_t v, unsigned nbytes)
{
    for (unsigned i = nbytes; i-- > 0; v >>= 8)
        p[i] = (char)(v & 0xff);
    return p + nbytes;
}

/* The rules between the fields; NULL when all hold. Texts are not looked at. */
static const char *broken_rule(uint64_t kind, uint64_t status, uint64_t offset,
                               uint64_t payload_len)
{
    if (kind < TCI_EIPD_ATTACH || kind > TCI_EIPD_CREDIT)
        return "kind is unknown";
    if (kind == TCI_EIPD_RESET
            ? status < TCI_EIPD_STATUS_PROTOCOL || status > TCI_EIPD_STATUS_INTERNAL
            : status != TCI_EIPD_STATUS_NONE)
        return "status does not fit the kind";
    if ((kind == TCI_EIPD_ATTACH || kind == TCI_EIPD_ATTACHED) && offset != 0)
        return "offset must be 0";
    if (kind == TCI_EIPD_CHUNK ? payload_len == 0 : payload_len != 0)
        return "payload does not fit the kind";
    if (payload_len > UINT64_MAX - offset)
        return "offset overflows";
    return NULL;
}

static bool is_id(tc_str id)
{
    return id.len > 0 && id.len <= TCI_EIPD_ID_MAX && tci_utf8_is_valid(id);
}

static int invalid(tc_err *err)
{
    return tc_err_set(err, TC_E_PROTOCOL, "invalid EIP data frame");
}

int tci_eipd_decode_head(tc_str start, uint64_t frame_len, tci_eipd *ret_data, size_t *ret_need,
                         tc_err *err)
{
    const char *p = start.ptr;
    if (frame_len < TCI_EIPD_FIXED_BYTES)
        return invalid(err);
    if (start.len < TCI_EIPD_FIXED_BYTES) {
        *ret_need = TCI_EIPD_FIXED_BYTES;
        return 0;
    }
    uint64_t kind = (unsigned char)p[5], status = load_be(p + 6, 2), offset = load_be(p + 12, 8);
    size_t session_len = (size_t)load_be(p + 8, 2), handle_len = (size_t)load_be(p + 10, 2);
    size_t head_len = TCI_EIPD_FIXED_BYTES + session_len + handle_len;
    uint64_t payload_len = load_be(p + 20, 4);
    if (memcmp(p, "EIPD\x01", 5) != 0 || session_len == 0 || handle_len == 0 ||
        frame_len != head_len + payload_len ||
        broken_rule(kind, status, offset, payload_len) != NULL)
        return invalid(err);
    if (start.len < head_len) {
        *ret_need = head_len;
        return 0;
    }
    tc_str session = tci_str_of(p + TCI_EIPD_FIXED_BYTES, session_len);
    tc_str handle = tci_str_of(p + TCI_EIPD_FIXED_BYTES + session_len, handle_len);
    if (!is_id(session) || !is_id(handle))
        return invalid(err);
    *ret_data = (tci_eipd){.kind = (tci_eipd_kind)kind,
                           .status = (tci_eipd_status)status,
                           .offset = offset,
                           .session = session,
                           .handle = handle,
                           .payload = {NULL, (size_t)payload_len}};
    *ret_need = 0;
    return 0;
}

int tci_eipd_decode(tc_str frame, tci_eipd *ret_data, tc_err *err)
{
    tci_eipd data;
    size_t need = 0;
    int rc = tci_eipd_decode_head(frame, frame.len, &data, &need, err);
    if (rc < 0)
        return rc;
    TC_ASSERT(need == 0);
    data.payload.ptr = frame.ptr + tci_eipd_head_len(&data);
    *ret_data = data;
    return 0;
}

int tci_eipd_check(const tci_eipd *data, tc_err *err)
{
    if (!is_id(data->session))
        return tc_err_set(err, TC_E_INVALID,
                          "data frame: session id is empty, too long or not UTF-8");
    if (!is_id(data->handle))
        return tc_err_set(err, TC_E_INVALID, "data frame: handle is empty, too long or not UTF-8");
    if (data->payload.len > UINT32_MAX)
        return tc_err_set(err, TC_E_INVALID, "data frame: payload is too long");
    const char *broken =
        broken_rule((uint64_t)data->kind, (uint64_t)data->status, data->offset, data->payload.len);
    if (broken != NULL)
        return tc_err_set(err, TC_E_INVALID, "data frame: %s", broken);
    return 0;
}

size_t tci_eipd_put_head(const tci_eipd *data, char *out)
{
    char *p = out;
    memcpy(p, "EIPD\x01", 5);
    p = store_be(p + 5, (uint64_t)data->kind, 1);
    p = store_be(p, (uint64_t)data->status, 2);
    p = store_be(p, data->session.len, 2);
    p = store_be(p, data->handle.len, 2);
    p = store_be(p, data->offset, 8);
    p = store_be(p, data->payload.len, 4);
    memcpy(p, data->session.ptr, data->session.len);
    memcpy(p + data->session.len, data->handle.ptr, data->handle.len);
    return tci_eipd_head_len(data);
}

const char *tci_eipd_kind_name(tci_eipd_kind kind)
{
    static const char *const names[] = {"?",   "ATTACH",  "ATTACHED", "CHUNK",
                                        "END", "END_ACK", "RESET",    "CREDIT"};
    return (size_t)kind < TCI_ARRAY_LEN(names) ? names[kind] : "?";
}

const char *tci_eipd_status_name(tci_eipd_status status)
{
    static const char *const names[] = {"none",   "protocol", "denied",    "expired",
                                        "source", "limit",    "cancelled", "internal"};
    return (size_t)status < TCI_ARRAY_LEN(names) ? names[status] : "?";
}
