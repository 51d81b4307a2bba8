/* SPDX-License-Identifier: Apache-2.0
 *
 * Any session method by name, as JSON. The caller's thread. Invariant: what goes out and what comes
 * in passes the same tables as the typed calls. */
#include "client/session_int.h"

/* The object given, with a context for the decoder to accept. */
static int with_context(const tci_json *params, tci_arena *a, tci_json *ret, tc_err *err)
{
    tci_json_member *members = tci_arena_items(a, tci_json_member, (size_t)params->count + 1);
    tci_json_member *context = tci_arena_items(a, tci_json_member, 1);
    if (members == NULL || context == NULL)
        return tci_arena_error(a, err);
    context->key = TC_STR("operation_id");
    context->value = (tci_json){.kind = TCI_JSON_STRING, .u.text = TC_STR("op")};
    for (uint32_t i = 0; i < params->count; i++)
        members[i] = params->u.members[i];
    members[params->count].key = TC_STR("context");
    members[params->count].value =
        (tci_json){.kind = TCI_JSON_OBJECT, .count = 1, .u.members = context};
    *ret = (tci_json){.kind = TCI_JSON_OBJECT, .count = params->count + 1, .u.members = members};
    return 0;
}

static int decode_params(const tci_method *m, tc_str params_json, tci_arena *a, void *params,
                         tc_err *err)
{
    tci_json tree;
    int rc = tci_json_parse(params_json, 0, a, &tree, err);
    if (rc < 0)
        return rc;
    if (tree.kind != TCI_JSON_OBJECT)
        return tc_err_set(err, TC_E_INVALID, "params must be an object");
    if (tci_type_member(m->params, params, TC_STR("context")) != NULL) {
        tci_json wrapped;
        rc = with_context(&tree, a, &wrapped, err);
        tree = wrapped;
    }
    return rc < 0 ? rc : tci_proto_decode(m->params, &tree, a, params, err);
}

int tc_session_call_json(tc_session *s, const tc_call *call, tc_str method, tc_str params_json,
                         tc_str *ret_result_json, tc_err *err)
{
    int rc = tci_call_check(call, err);
    if (rc < 0)
        return rc;
    const tci_method *m = tci_method_find(method);
    if (m == NULL || m->scope != TCI_SCOPE_SESSION)
        return tc_err_set(err, TC_E_NO_METHOD, "no session method '%.*s'", TC_STR_ARG(method));
    if (m->replay != TCI_REPLAY_EXTERNAL && !tc_session_has_method(s, method))
        return tc_err_set(err, TC_E_UNSUPPORTED, "the session does not offer '%.*s'",
                          TC_STR_ARG(method));
    tci_arena *a = &call->result->arena;
    void *params = tci_arena_alloc(a, tci_type_size(m->params));
    void *result = tci_arena_alloc(a, tci_type_size(m->result));
    if (params == NULL || result == NULL)
        return tci_arena_error(a, err);
    rc = decode_params(m, params_json, a, params, err);
    if (rc == 0)
        rc = tci_session_ask(s, call, (int)(m - tci_eip_methods), params, result, err);
    if (rc < 0)
        return rc;
    tci_buf text;
    tci_buf_init(&text, TCI_BUF_MAX);
    tci_proto_encode(m->result, result, &text, 0);
    rc = tci_buf_error(&text, err);
    if (rc == 0)
        rc = tc_result_dup(call->result, tci_buf_str(&text), ret_result_json, err);
    tci_buf_done(&text);
    return rc;
}
