/* SPDX-License-Identifier: Apache-2.0
 *
 * Control bodies, one a line, to a ready session: whatever they say, each is answered once, with an answer of
 * the wire, and the session can be closed afterwards. */
#include "daemon/req.h"
#include "fuzz_device.h"

#include "base/json.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t nasked, nanswered;

static void reply(tci_carrier *c, void *reply_to, bool is_refused, tci_buf *body)
{
    tc_err err;
    tci_arena arena;
    tci_json doc;
    TCI_UNUSED(c);
    TCI_UNUSED(reply_to);
    TCI_UNUSED(is_refused);
    nanswered++;
    tci_arena_init(&arena, 0);
    if (body == NULL || tci_json_parse(tci_buf_str(body), 0, &arena, &doc, &err) < 0 ||
        (tci_json_get(&doc, TC_STR("result")) == NULL) ==
            (tci_json_get(&doc, TC_STR("error")) == NULL))
        abort();
    tci_arena_done(&arena);
}

static void send_frame(tci_carrier *c, tci_out_frame *frame)
{
    TCI_UNUSED(c);
    frame->on_sent(frame, true);
}

static void carrier_free(tci_carrier *c)
{
    tci_link_remove(&c->link);
}

static const tci_carrier_vtable vtable = {reply, send_frame, carrier_free};

static void ask(tci_carrier *c, const char *text, size_t len)
{
    nasked++;
    tci_dispatch(c, NULL, tci_str_of(text, len), NULL);
}

static void ask_text(tci_carrier *c, const char *text)
{
    ask(c, text, strlen(text));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t len;
    fuzz_device *f = fuzz_device_get();
    tci_carrier *c = calloc(1, sizeof *c);
    if (c == NULL)
        abort();
    *c = (tci_carrier){.v = &vtable, .device = f->device, .refs = 1};
    tci_list_push_back(&f->device->carriers, &c->link);
    char *text = fuzz_device_localize(f, data, size, &len);
    nasked = nanswered = 0;
    ask_text(c, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"supported_"
                "protocol_versions\":[\"0.3\"],"
                "\"client\":{\"name\":\"f\",\"version\":\"1\"}}}");
    ask_text(c, "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"session.open\",\"params\":{\"expected_"
                "device_id\":\"device-1\","
                "\"expected_generation\":100000000000000001,\"protocol_version\":\"0.3\"}}");
    ask_text(c, "{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"environment.readiness\",\"params\":{"
                "\"context\":{\"operation_id\":"
                "\"ready\"}},\"eip_session\":\"session-0000000000001-1\"}");
    tc_str rest = tci_str_of(text, len), line;
    while (nasked < 64 && tci_str_split(&rest, '\n', &line)) {
        ask(c, line.ptr, line.len);
        if (nasked % 4 == 0)
            tci_loop_turn(f->loop, 0);
    }
    TCI_LIST_EACH (&f->device->session_list, k)
        tci_session_close(TCI_CONTAINER(k, tci_session, link), NULL);
    fuzz_device_settle(f);
    if (nanswered != nasked)
        abort();
    c->is_closed = true;
    tci_carrier_unref(c);
    free(c);
    free(text);
    return 0;
}
