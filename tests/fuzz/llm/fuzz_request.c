/* SPDX-License-Identifier: Apache-2.0
 *
 * Byte 0 says whose server and which model it is, the rest is a transcript, as any program may have left it
 * in a session. What is sent is JSON in UTF-8 or nothing. */
#include "base/utf8.h"
#include "llm/llm_int.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const tci_server *server, const tc_model_request *request, bool is_vendor)
{
    tci_arena a;
    tci_transcript t;
    tci_buf body;
    tci_json v;
    tc_err err;
    tci_arena_init(&a, 0);
    tci_buf_init(&body, TCI_BUF_MAX);
    int rc = tci_transcript_of(request->messages, request->nmessages, &a, &t, &err);
    TC_ASSERT(rc == 0 || rc == TC_E_INVALID || rc == TC_E_PARSE);
    if (rc == 0)
        rc = server->put_request(&body, request, &t, is_vendor, &err);
    TC_ASSERT(rc == 0 || rc == TC_E_INVALID || rc == TC_E_PARSE);
    if (rc == 0) {
        TC_ASSERT(tci_buf_ok(&body) && tci_utf8_is_valid(tci_buf_str(&body)));
        TC_ASSERT(tci_json_parse(tci_buf_str(&body), TCI_JSON_DURABLE, &a, &v, &err) == 0);
        TC_ASSERT(v.kind == TCI_JSON_OBJECT);
    }
    tci_buf_done(&body);
    tci_arena_done(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    bool is_openai = data[0] & 1;
    tc_str text = tci_str_of(data + 1, size - 1);
    tc_model_request request = {
        .size = sizeof request,
        .model = {.provider = is_openai ? TC_STR("openai") : TC_STR("anthropic"),
                  .id = TC_STR("m"),
                  .max_tokens = 100,
                  .takes_images = data[0] & 2,
                  .reasons = data[0] & 4},
        .reasoning = data[0] & 8 ? TC_STR("high") : TC_STR("")};
    tc_result *r;
    tc_err err;
    TC_ASSERT(tc_result_new(&r, &err) == 0);
    int rc = tc_messages_parse(text, r, &request.messages, &request.nmessages, &err);
    TC_ASSERT(rc == 0 || rc == TC_E_INVALID || rc == TC_E_PARSE || rc == TC_E_TOO_BIG);
    if (rc == 0)
        check(is_openai ? &tci_openai : &tci_anthropic, &request, data[0] & 16);
    tc_result_free(r);
    return 0;
}
