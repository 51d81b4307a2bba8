/* SPDX-License-Identifier: Apache-2.0
 *
 * Both halves of the WebSocket handshake (RFC 6455 section 4), and the SHA-1 that it is sealed with: a
 * proof that the other side read the request, no secret, which is why a weak hash does. Leaves HTTP to
 * http1.c. Any thread. */
#include "base/base64.h"
#include "wire/ws.h"

enum { SHA1_BYTES = 20, SHA1_BLOCK = 64, KEY_BYTES = 16 };

/* ---- SHA-1 (FIPS 180-4, 6.1), of at most one block and a bit ---- */

static uint32_t rotate(uint32_t v, unsigned by)
{
    return v << by | v >> (32 - by);
}

static uint32_t mix(unsigned round, uint32_t b, uint32_t c, uint32_t d)
{
    switch (round / 20) {
    case 0:
        return ((b & c) | (~b & d)) + 0x5a827999U;
    case 1:
        return (b ^ c ^ d) + 0x6ed9eba1U;
    case 2:
        return ((b & c) | (b & d) | (c & d)) + 0x8f1bbcdcU;
    default:
        return (b ^ c ^ d) + 0xca62c1d6U;
    }
}

static void sha1_block(uint32_t h[5], const uint8_t block[SHA1_BLOCK])
{
    uint32_t w[80];
    uint32_t v[5];
    memcpy(v, h, sizeof v);
    for (size_t i = 0; i < 16; i++)
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 |
               (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
    for (size_t i = 16; i < 80; i++)
        w[i] = rotate(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
    for (unsigned i = 0; i < 80; i++) {
        uint32_t next = rotate(v[0], 5) + mix(i, v[1], v[2], v[3]) + v[4] + w[i];
        v[4] = v[3];
        v[3] = v[2];
        v[2] = rotate(v[1], 30);
        v[1] = v[0];
        v[0] = next;
    }
    for (size_t i = 0; i < 5; i++)
        h[i] += v[i];
}

/* Of at most two blocks less the padding: a key and the GUID are 60 bytes. */
static void sha1_of(const char *bytes, size_t len, uint8_t out[SHA1_BYTES])
{
    uint32_t h[5] = {0x67452301U, 0xefcdab89U, 0x98badcfeU, 0x10325476U, 0xc3d2e1f0U};
    uint8_t padded[2 * SHA1_BLOCK] = {0};
    size_t total = len + 9 > SHA1_BLOCK ? 2 * SHA1_BLOCK : SHA1_BLOCK;
    uint64_t nbits = (uint64_t)len * 8;
    TC_ASSERT(len + 9 <= sizeof padded);
    memcpy(padded, bytes, len);
    padded[len] = 0x80;
    for (size_t i = 0; i < 8; i++)
        padded[total - 1 - i] = (uint8_t)(nbits >> 8 * i);
    for (size_t at = 0; at < total; at += SHA1_BLOCK)
        sha1_block(h, padded + at);
    for (size_t i = 0; i < SHA1_BYTES; i++)
        out[i] = (uint8_t)(h[i / 4] >> 8 * (3 - i % 4));
}

/* ---- keys ---- */

void tci_ws_key(const uint8_t random[16], char out[TCI_WS_KEY_LEN])
{
    tci_base64_encode(tci_str_of(random, KEY_BYTES), out);
    out[22] = out[23] = '=';
}

void tci_ws_accept_of(const char key[TCI_WS_KEY_LEN], char out[TCI_WS_ACCEPT_LEN])
{
    static const char guid[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
    char text[TCI_WS_KEY_LEN + sizeof guid - 1];
    uint8_t digest[SHA1_BYTES];
    memcpy(text, key, TCI_WS_KEY_LEN);
    memcpy(text + TCI_WS_KEY_LEN, guid, sizeof guid - 1);
    sha1_of(text, sizeof text, digest);
    tci_base64_encode(tci_str_of(digest, sizeof digest), out);
    out[27] = '=';
}

/* 16 bytes in base64 with its padding (section 4.2.1, 5). */
static bool is_key(tc_str key)
{
    tc_err err;
    size_t len;
    char bytes[24];
    return key.len == TCI_WS_KEY_LEN && tci_str_ends(key, TC_STR("==")) &&
           tci_base64_decode(tci_str_sub(key, 0, 22), bytes, &len, &err) == 0 && len == KEY_BYTES;
}

/* ---- fields ---- */

/* Is word a member of the list that all fields of this name make together? */
static bool lists(const tci_http_head *head, tc_str name, tc_str word, bool any_case)
{
    for (size_t i = 0; i < head->nheaders; i++) {
        tc_str rest = head->headers[i].value, part;
        if (!tci_str_eq_nocase(head->headers[i].name, name))
            continue;
        while (tci_str_split(&rest, ',', &part)) {
            part = tci_str_trim(part);
            if (any_case ? tci_str_eq_nocase(part, word) : tci_str_eq(part, word))
                return true;
        }
    }
    return false;
}

/* There once and no more. */
static bool get_one(const tci_http_head *head, tc_str name, tc_str *ret)
{
    size_t count;
    return tci_http_head_get(head, name, ret, &count) && count == 1;
}

/* ---- the client's side ---- */

int tci_ws_check_answer(const tci_http_head *head, const char key[TCI_WS_KEY_LEN],
                        tc_str subprotocol, tc_err *err)
{
    char accept[TCI_WS_ACCEPT_LEN];
    tc_str value;
    tci_ws_accept_of(key, accept);
    if (!get_one(head, TC_STR("upgrade"), &value) || !tci_str_eq_nocase(value, TC_STR("websocket")))
        return tc_err_set(err, TC_E_PROTOCOL, "the answer does not upgrade to websocket");
    if (!lists(head, TC_STR("connection"), TC_STR("upgrade"), true))
        return tc_err_set(err, TC_E_PROTOCOL, "the answer has no Connection: Upgrade");
    if (!get_one(head, TC_STR("sec-websocket-accept"), &value) ||
        !tci_str_eq(value, tci_str_of(accept, sizeof accept)))
        return tc_err_set(err, TC_E_PROTOCOL,
                          "the answer's Sec-WebSocket-Accept is not for our key");
    if (!get_one(head, TC_STR("sec-websocket-protocol"), &value) || !tci_str_eq(value, subprotocol))
        return tc_err_set(err, TC_E_PROTOCOL, "the answer does not select subprotocol '%.*s'",
                          TC_STR_ARG(subprotocol));
    if (tci_http_head_get(head, TC_STR("sec-websocket-extensions"), &value, NULL))
        return tc_err_set(err, TC_E_PROTOCOL, "the answer selects an extension");
    return 0;
}

/* ---- the server's side ---- */

static int refused(unsigned *ret_status, unsigned status, tc_err *err, const char *what)
{
    *ret_status = status;
    return tc_err_set(err, TC_E_PROTOCOL, "the upgrade request %s", what);
}

int tci_ws_check_request(const tci_http_head *head, tc_str subprotocol,
                         char ret_key[TCI_WS_KEY_LEN], unsigned *ret_status, tc_err *err)
{
    tc_str value;
    if (!tci_str_eq(head->method, TC_STR("GET")))
        return refused(ret_status, 405, err, "is not a GET");
    if (head->minor < 1 || head->has_body)
        return refused(ret_status, 400, err, "is not HTTP/1.1, or has a body");
    if (!lists(head, TC_STR("upgrade"), TC_STR("websocket"), true) ||
        !lists(head, TC_STR("connection"), TC_STR("upgrade"), true))
        return refused(ret_status, 400, err, "does not ask for websocket");
    if (!get_one(head, TC_STR("sec-websocket-version"), &value) || !tci_str_eq(value, TC_STR("13")))
        return refused(ret_status, 426, err, "is not for version 13");
    if (!lists(head, TC_STR("sec-websocket-protocol"), subprotocol, false))
        return refused(ret_status, 400, err, "does not offer the subprotocol");
    if (!get_one(head, TC_STR("sec-websocket-key"), &value) || !is_key(value))
        return refused(ret_status, 400, err, "has no valid Sec-WebSocket-Key");
    memcpy(ret_key, value.ptr, TCI_WS_KEY_LEN);
    return 0;
}

void tci_ws_put_answer(tci_buf *b, const char key[TCI_WS_KEY_LEN], tc_str subprotocol)
{
    char accept[TCI_WS_ACCEPT_LEN];
    tci_ws_accept_of(key, accept);
    tci_buf_printf(b,
                   "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
                   "Connection: Upgrade\r\nSec-WebSocket-Accept: %.*s\r\n"
                   "Sec-WebSocket-Protocol: %.*s\r\n\r\n",
                   TCI_WS_ACCEPT_LEN, accept, TC_STR_ARG(subprotocol));
}
