/* SPDX-License-Identifier: Apache-2.0
 *
 * The door of EIP: a path, and behind a line's end the text of a request. What passes must be a request that means
 * the same with another id in it; what does not pass must still get a well-formed answer. */
#include "host/eip/eip.h"

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void put(tci_buf *b, const tci_json *v)
{
    tci_buf_init(b, TCI_BUF_MAX);
    tci_json_put(b, v, TCI_JSON_AS_IS);
}

static void check_same(const tci_json *x, const tci_json *y)
{
    tci_buf a, b;
    put(&a, x);
    put(&b, y);
    TC_ASSERT(tci_buf_ok(&a) && tci_buf_ok(&b) && tci_str_eq(tci_buf_str(&a), tci_buf_str(&b)));
    tci_buf_done(&a);
    tci_buf_done(&b);
}

/* With an id of ours in it: the same request. */
static void check_passed(tc_str text, const tci_eip_text *t, tci_arena *a)
{
    static const char *const ids[] = {"0", "18446744073709551"};
    tc_err err;
    for (size_t i = 0; i < TCI_ARRAY_LEN(ids); i++) {
        tci_eip_text again;
        tci_buf b;
        tci_buf_init(&b, TCI_BUF_MAX);
        tci_buf_append_str(&b, text);
        TC_ASSERT(tci_relay_put_id(&b, t->id_at, t->id_len, tci_str(ids[i])));
        TC_ASSERT(tci_eip_text_read(tci_buf_str(&b), a, &again, &err) == 0);
        TC_ASSERT(again.request.id.kind == TCI_JSON_NUMBER &&
                  tci_str_eq(again.request.id.u.text, tci_str(ids[i])));
        TC_ASSERT(again.id_at == t->id_at && again.id_len == strlen(ids[i]));
        TC_ASSERT(again.method == t->method && tci_str_eq(again.request.method, t->request.method));
        TC_ASSERT(again.request.has_session == t->request.has_session &&
                  tci_str_eq(again.request.session, t->request.session));
        check_same(again.request.params, t->request.params);
        tci_buf_done(&b);
    }
}

static void check_refusal(const tci_eip_text *t, int rc, tci_arena *a)
{
    tc_err err;
    tci_json answer;
    tci_buf b;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_eip_text_put_refusal(&b, t, rc);
    TC_ASSERT(tci_buf_ok(&b) && tci_json_parse(tci_buf_str(&b), 0, a, &answer, &err) == 0);
    TC_ASSERT(tci_json_get(&answer, TC_STR("id")) != NULL &&
              tci_json_get(&answer, TC_STR("error")) != NULL &&
              tci_json_get(&answer, TC_STR("eip_session")) == NULL);
    tci_buf_done(&b);
}

static void try_text(tc_str text)
{
    tci_arena a;
    tci_eip_text t;
    tci_eip_cause cause;
    tc_err err;
    tci_arena_init(&a, 0);
    int rc = tci_eip_text_read(text, &a, &t, &err);
    if (rc < 0) {
        TC_ASSERT(rc == TC_E_PARSE || rc == TC_E_INVALID);
        check_refusal(&t, rc, &a);
    } else {
        tci_json id;
        TC_ASSERT(t.id_at + t.id_len <= text.len);
        TC_ASSERT(tci_json_parse(tci_str_sub(text, t.id_at, t.id_len), 0, &a, &id, &err) == 0);
        check_same(&id, &t.request.id);
        check_passed(text, &t, &a);
        if (tci_eip_text_check_initialize(&t, TC_STR("dev-1"), &a, &cause, &err) < 0)
            TC_ASSERT((unsigned)cause < TCI_EIP_CAUSE_COUNT);
    }
    tci_arena_done(&a);
}

static void try_path(tc_str path)
{
    static const char *const methods[] = {"GET", "POST", "DELETE", "PUT"};
    for (size_t i = 0; i < TCI_ARRAY_LEN(methods); i++) {
        tc_str id = {0};
        bool is_known = false;
        const tci_route *route = tci_host_route_find(tci_str(methods[i]), path, &id, &is_known);
        TC_ASSERT(route == NULL || is_known);
        /* EIP has its own way in, and nobody else has. */
        if (route != NULL && (route->flags & TCI_ROUTE_STREAM) != 0)
            TC_ASSERT(id.len > 0 && route->work == NULL &&
                      tci_str_starts(path, TC_STR("api/devices/")));
        else if (route != NULL)
            TC_ASSERT(route->answer != NULL);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tc_str all = tci_str_of((const char *)data, size);
    size_t at = tci_str_find_byte(all, '\n');
    try_path(tci_str_sub(all, 0, at));
    if (at < all.len)
        try_text(tci_str_sub(all, at + 1, SIZE_MAX));
    return 0;
}
