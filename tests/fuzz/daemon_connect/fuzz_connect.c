/* SPDX-License-Identifier: Apache-2.0
 *
 * What a Host may answer, and what a saved record may hold. The first byte picks the reader: 'a' an answer of
 * success, 'r' a refusal, 's' a record, 'u' an address below a Host. Whatever comes out has to be fit for a
 * terminal, to stay on the Host, and to read back as itself. */
#include "daemon/config/config_int.h"
#include "daemon/connect/connect_int.h"
#include "net/url.h"

#include <stdlib.h>

#define SECRET "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define BASE TC_STR("https://host.example/base/")

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void need(bool is_so)
{
    if (!is_so)
        abort();
}

static void one_url(tc_str text, tci_arena *a)
{
    tc_err err;
    tc_str out, again;
    tci_url base, url;
    need(tci_url_parse(BASE, TCI_URL_PATH, &base, &err) == 0);
    if (tci_connect_socket_url(BASE, text, a, &out, &err) == 0) {
        need(tci_url_parse(out, TCI_URL_PATH, &url, &err) == 0);
        need(url.scheme == TCI_URL_WSS && strcmp(url.host, base.host) == 0 &&
             url.port == base.port);
        need(tci_connect_socket_url(BASE, out, a, &again, &err) == 0 && tci_str_eq(out, again));
    }
    if (tci_connect_approval_url(BASE, text, a, &out, &err) == 0 && out.len > 0) {
        need(tci_url_parse(out, TCI_URL_PATH | TCI_URL_QUERY | TCI_URL_FRAGMENT, &url, &err) == 0);
        need(tci_url_same_origin(&base, &url));
    }
    if (tci_connect_base(text, a, &out, &err) == 0)
        need(tci_connect_base(out, a, &again, &err) == 0 && tci_str_eq(out, again));
}

static void one_answer(tc_str text, tci_arena *a)
{
    tc_err err;
    tci_pair_answer answer;
    if (tci_pair_answer_read(text, a, &answer, &err) < 0) {
        need(tci_cfg_is_printable(tci_str(err.msg)));
        return;
    }
    need(tci_cfg_is_printable(answer.verification_code) &&
         tci_cfg_is_printable(answer.resource_id));
    if (answer.is_approved)
        need(answer.resource_id.len > 0);
    else
        need(answer.poll_after_s >= 1 && answer.poll_after_s <= 10 &&
             answer.verification_code.len <= TCI_PAIR_CODE_MAX);
    one_url(answer.is_approved ? answer.websocket_url : answer.approval_url, a);
}

static void one_refusal(tc_str text)
{
    tc_err err;
    need(tci_pair_refused(409, text, TC_STR(SECRET), &err) == TC_E_AUTH);
    tc_str msg = tci_str(err.msg);
    need(tci_cfg_is_printable(msg) && tci_str_find(msg, TC_STR(SECRET)) == msg.len);
    need(tci_str_ends(msg, TC_STR("; no credential was replaced")));
}

static void one_record(tc_str text, tci_arena *a)
{
    tc_err err;
    tci_buf b;
    tci_connect_record r, again;
    if (tci_connect_record_read(text, a, &r, &err) < 0)
        return;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_connect_record_put(&b, &r);
    need(tci_buf_ok(&b));
    need(tci_connect_record_read(tci_buf_str(&b), a, &again, &err) == 0);
    need(tci_str_eq(r.url, again.url) && tci_str_eq(r.name, again.name) &&
         tci_str_eq(r.ca_file, again.ca_file) && r.is_registered == again.is_registered &&
         tci_str_eq(r.resource_id, again.resource_id) &&
         tci_str_eq(r.websocket_url, again.websocket_url));
    tci_buf_done(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tci_arena a;
    if (size == 0)
        return 0;
    tc_str text = tci_str_of(data + 1, size - 1);
    tci_arena_init(&a, 0);
    switch (data[0]) {
    case 'a':
        one_answer(text, &a);
        break;
    case 'r':
        one_refusal(text);
        break;
    case 's':
        one_record(text, &a);
        break;
    case 'u':
        one_url(text, &a);
        break;
    default:
        break;
    }
    tci_arena_done(&a);
    return 0;
}
