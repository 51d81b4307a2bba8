/* SPDX-License-Identifier: Apache-2.0
 *
 * Heads of pi-env frames and the search for the sync line. Leaves JSON and payloads to their
 * readers. Any thread. Invariant: no length is believed before it is inside the protocol's limits. */
#include "wire/pienv.h"

#include <string.h>

static uint32_t get_u32(const char *p)
{
    const unsigned char *b = (const unsigned char *)p;
    return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

static void put_u32(char *p, uint32_t v)
{
    p[0] = (char)(v >> 24);
    p[1] = (char)(v >> 16);
    p[2] = (char)(v >> 8);
    p[3] = (char)v;
}

int tci_pienv_head_read(const char bytes[TCI_PIENV_HEAD_BYTES], tci_pienv_head *ret_head,
                        tc_err *err)
{
    uint32_t length = get_u32(bytes);
    uint32_t json_len = get_u32(bytes + 9);
    if (length < TCI_PIENV_LENGTH_MIN || length > TCI_PIENV_LENGTH_MAX)
        return tc_err_set(err, TC_E_PROTOCOL, "a frame of %lu bytes", (unsigned long)length);
    if (json_len > length - TCI_PIENV_LENGTH_MIN)
        return tc_err_set(err, TC_E_PROTOCOL, "JSON of %lu bytes in a frame of %lu",
                          (unsigned long)json_len, (unsigned long)length);
    ret_head->type = (uint8_t)bytes[4];
    ret_head->id = get_u32(bytes + 5);
    ret_head->json_len = json_len;
    ret_head->payload_len = length - TCI_PIENV_LENGTH_MIN - json_len;
    return 0;
}

int tci_pienv_head_put(const tci_pienv_head *head, char out[TCI_PIENV_HEAD_BYTES], tc_err *err)
{
    uint64_t length = (uint64_t)TCI_PIENV_LENGTH_MIN + head->json_len + head->payload_len;
    if (length > TCI_PIENV_LENGTH_MAX)
        return tc_err_set(err, TC_E_TOO_BIG, "a frame of %llu bytes", (unsigned long long)length);
    put_u32(out, (uint32_t)length);
    out[4] = (char)head->type;
    put_u32(out + 5, head->id);
    put_u32(out + 9, head->json_len);
    return 0;
}

/* ---- the sync line ---- */

int tci_pienv_sync_init(tci_pienv_sync *s, tc_str token, tc_err *err)
{
    static const char word[] = "PI-ENV ";
    size_t nword = sizeof word - 1;
    memset(s, 0, sizeof *s);
    if (token.len > sizeof s->marker - nword - 1)
        return tc_err_set(err, TC_E_TOO_BIG, "a token of %zu bytes", token.len);
    memcpy(s->marker, word, nword);
    if (token.len > 0)
        memcpy(s->marker + nword, token.ptr, token.len);
    s->marker[nword + token.len] = '\n';
    s->len = nword + token.len + 1;
    return 0;
}

/* How much of the marker ends with the matched part of it and then c. */
static size_t fall_back(const tci_pienv_sync *s, char c)
{
    for (size_t keep = s->matched; keep > 0; keep--)
        if (s->marker[keep - 1] == c &&
            memcmp(s->marker, s->marker + s->matched - (keep - 1), keep - 1) == 0)
            return keep;
    return 0;
}

size_t tci_pienv_sync_feed(tci_pienv_sync *s, tc_str bytes)
{
    for (size_t i = 0; i < bytes.len; i++) {
        if (s->is_found)
            return i;
        if (bytes.ptr[i] == s->marker[s->matched])
            s->matched++;
        else
            s->matched = fall_back(s, bytes.ptr[i]);
        s->is_found = s->matched == s->len;
    }
    return bytes.len;
}
