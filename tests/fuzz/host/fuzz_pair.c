/* SPDX-License-Identifier: Apache-2.0
 *
 * The first line is an Authorization field, the rest the body of a pairing request. Whatever came: what is taken
 * fits its limits and one line on a terminal, and what is said about it is JSON. */
#include "base/plain.h"
#include "base/utf8.h"
#include "host/pair.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_line(tc_str s, size_t max)
{
    TC_ASSERT(s.len > 0 && s.len <= max && tci_utf8_is_valid(s));
    for (size_t at = 0, len = 0; at < s.len; at += len)
        TC_ASSERT(!tci_plain_is_control(tci_utf8_decode(tci_str_sub(s, at, SIZE_MAX), &len)));
}

static void check_answer(const tci_pair_ask *ask, tci_arena *a)
{
    tci_buf b;
    tci_json v;
    tc_err err;
    for (int status = TCI_PAIR_PENDING; status <= TCI_PAIR_FULL; status++) {
        tci_pair_answer answer = {.status = (tci_pair_status)status,
                                  .id = ask->device_id,
                                  .challenge_id = ask->device_id,
                                  .code = ask->name};
        tci_buf_init(&b, TCI_BUF_MAX);
        unsigned http = tci_pair_put(&b, &answer, TC_STR("/"));
        TC_ASSERT(http == (status <= TCI_PAIR_APPROVED ? 200 : http) && http >= 200 && http < 500);
        TC_ASSERT(tci_buf_ok(&b) && tci_json_parse(tci_buf_str(&b), 0, a, &v, &err) == 0);
        tci_buf_done(&b);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tci_arena a;
    tc_err err;
    char code[TCI_CODE_LEN], again[TCI_CODE_LEN];
    tc_str all = tci_str_of(data, size), credential;
    tc_str field = tci_str_sub(all, 0, tci_str_find_byte(all, '\n'));
    tci_pair_ask ask;
    tci_arena_init(&a, 0);
    if (tci_pair_read_bearer(field, &credential, &err) == 0)
        TC_ASSERT(tci_is_hex(credential, TCI_PAIR_CREDENTIAL_LEN));
    if (tci_code_read(field, code))
        TC_ASSERT(tci_code_read(tci_str_of(code, sizeof code), again) &&
                  memcmp(code, again, sizeof code) == 0);
    if (tci_pair_read(tci_str_sub(all, field.len + 1, SIZE_MAX), &a, &ask, &err) == 0) {
        check_line(ask.device_id, TCI_PAIR_DEVICE_ID_MAX);
        check_line(ask.name, TCI_PAIR_NAME_MAX);
        check_answer(&ask, &a);
    }
    tci_arena_done(&a);
    return 0;
}
