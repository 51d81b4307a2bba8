/* SPDX-License-Identifier: Apache-2.0
 *
 * The JSON-RPC envelope, read and written. Leaves params and results to their types, and what an
 * error means to its callers. Any thread. Invariant: a request that cannot be used still yields
 * its id when that can be found, so that the answer reaches who asked. */
#include "proto/envelope.h"
#include "proto/gen/eip.h"

static const tci_json no_id = {.kind = TCI_JSON_NULL};

static bool is_usable_id(const tci_json *id)
{
    int64_t n;
    tc_str s;
    if (tci_json_as_str(id, &s))
        return s.len >= 1 && s.len <= TCI_EIP_REQUEST_ID_MAX;
    return tci_json_as_i64(id, &n);
}

static bool is_version_2(const tci_json *v)
{
    tc_str s;
    return tci_json_as_str(v, &s) && tci_str_eq(s, TC_STR("2.0"));
}

static int refuse(tc_err *err, const char *what)
{
    return tc_err_set(err, TC_E_INVALID, "not a valid request: %s", what);
}

/* Which members have been met. */
enum { HAS_VERSION = 1 << 0, HAS_ID = 1 << 1, HAS_METHOD = 1 << 2, HAS_PARAMS = 1 << 3 };

/* One member of a request: NULL, or what is wrong with it. */
static const char *take_member(const tci_json_member *m, tci_eip_request *ret, unsigned *has)
{
    const tci_json *v = &m->value;
    if (tci_str_eq(m->key, TC_STR("jsonrpc"))) {
        *has |= HAS_VERSION;
        return is_version_2(v) ? NULL : "jsonrpc is not \"2.0\"";
    }
    if (tci_str_eq(m->key, TC_STR("id"))) {
        *has |= HAS_ID;
        return is_usable_id(v) ? NULL : "unusable id";
    }
    if (tci_str_eq(m->key, TC_STR("method"))) {
        *has |= HAS_METHOD;
        return tci_json_as_str(v, &ret->method) ? NULL : "method is not a string";
    }
    if (tci_str_eq(m->key, TC_STR("params"))) {
        *has |= HAS_PARAMS;
        ret->params = v;
        return v->kind == TCI_JSON_OBJECT ? NULL : "params is not an object";
    }
    if (tci_str_eq(m->key, TC_STR("eip_session"))) {
        ret->has_session = v->kind != TCI_JSON_NULL; /* null is as good as absent */
        return !ret->has_session || tci_json_as_str(v, &ret->session)
                   ? NULL
                   : "eip_session is not a string";
    }
    if (tci_str_starts(m->key, TC_STR("eip_")))
        return "unknown eip_ member";
    if (tci_str_eq(m->key, TC_STR("tc_ext"))) {
        uint64_t n;
        ret->wants_extensions = tci_json_as_u64(v, &n) && n == 1;
    }
    return NULL;
}

static int take_members(const tci_json *doc, tci_eip_request *ret, tc_err *err)
{
    unsigned has = 0;
    for (uint32_t i = 0; i < doc->count; i++) {
        const char *fault = take_member(&doc->u.members[i], ret, &has);
        if (fault != NULL)
            return refuse(err, fault);
    }
    if ((has & HAS_VERSION) == 0)
        return refuse(err, "no jsonrpc");
    if ((has & HAS_ID) == 0)
        return refuse(err, "no id");
    if ((has & HAS_METHOD) == 0)
        return refuse(err, "no method");
    return (has & HAS_PARAMS) != 0 ? 0 : refuse(err, "no params");
}

int tci_eip_request_decode(tc_str text, tci_arena *a, tci_eip_request *ret, tc_err *err)
{
    *ret = (tci_eip_request){.id = no_id};
    tci_json *doc = tci_arena_new(a, tci_json);
    if (doc == NULL)
        return tci_arena_error(a, err);
    int rc = tci_json_parse(text, 0, a, doc, err);
    if (rc < 0 && rc != TC_E_CONFLICT)
        return rc;
    const tci_json *id = tci_json_get(doc, TC_STR("id"));
    if (id != NULL && is_usable_id(id))
        ret->id = *id;
    if (rc == TC_E_CONFLICT)
        return tc_err_recode(err, TC_E_INVALID);
    if (doc->kind != TCI_JSON_OBJECT)
        return refuse(err, "not an object");
    tci_eip_request full = {.id = ret->id};
    rc = take_members(doc, &full, err);
    if (rc == 0)
        *ret = full;
    return rc;
}

static void put_session(tci_buf *out, const tc_str *session, bool *first)
{
    if (session == NULL)
        return;
    tci_json_put_key(out, first, TC_STR("eip_session"));
    tci_json_put_str(out, *session);
}

static void put_id(tci_buf *out, const tci_json *id, bool *first)
{
    tci_json_put_key(out, first, TC_STR("id"));
    tci_json_put(out, id != NULL ? id : &no_id, TCI_JSON_AS_IS);
}

static void put_version(tci_buf *out, bool *first)
{
    tci_json_put_key(out, first, TC_STR("jsonrpc"));
    tci_buf_append_str(out, TC_STR("\"2.0\""));
}

void tci_eip_begin_result(tci_buf *out, const tci_json *id, const tc_str *session)
{
    bool first = true;
    tci_buf_append_byte(out, '{');
    put_session(out, session, &first);
    put_id(out, id, &first);
    put_version(out, &first);
    tci_json_put_key(out, &first, TC_STR("result"));
}

void tci_eip_end_result(tci_buf *out)
{
    tci_buf_append_byte(out, '}');
}

void tci_eip_put_result(tci_buf *out, const tci_json *id, const tc_str *session,
                        const tci_type *type, const void *result)
{
    tci_eip_begin_result(out, id, session);
    if (type != NULL)
        tci_proto_encode(type, result, out, 0);
    else
        tci_buf_append_str(out, *(const tc_str *)result);
    tci_eip_end_result(out);
}

/* What stands before and after the error object. */
static void open_error(tci_buf *out, const tc_str *session, bool *first)
{
    tci_buf_append_byte(out, '{');
    put_session(out, session, first);
    tci_json_put_key(out, first, TC_STR("error"));
}

static void close_error(tci_buf *out, const tci_json *id, bool *first)
{
    put_id(out, id, first);
    put_version(out, first);
    tci_buf_append_byte(out, '}');
}

void tci_eip_put_error_text(tci_buf *out, const tci_json *id, const tc_str *session,
                            tc_str error_object)
{
    bool first = true;
    open_error(out, session, &first);
    tci_buf_append_str(out, error_object);
    close_error(out, id, &first);
}

static void open_error_object(tci_buf *out, int32_t code, bool *first)
{
    tci_buf_append_byte(out, '{');
    tci_json_put_key(out, first, TC_STR("code"));
    tci_buf_append_i64(out, code);
}

static void close_error_object(tci_buf *out, tc_str message, bool *first)
{
    tci_json_put_key(out, first, TC_STR("message"));
    tci_json_put_str(out, message);
    tci_buf_append_byte(out, '}');
}

void tci_eip_put_error_object(tci_buf *out, int32_t code, tc_str message,
                              const tci_eip_error_data *data)
{
    bool first = true;
    open_error_object(out, code, &first);
    tci_json_put_key(out, &first, TC_STR("data"));
    tci_proto_encode(&tci_eip_error_data_type, data, out, 0);
    close_error_object(out, message, &first);
}

void tci_eip_put_error(tci_buf *out, const tci_json *id, const tc_str *session, int32_t code,
                       tc_str message, tc_str data_json)
{
    bool first = true, inner = true;
    open_error(out, session, &first);
    open_error_object(out, code, &inner);
    if (data_json.len > 0) {
        tci_json_put_key(out, &inner, TC_STR("data"));
        tci_buf_append_str(out, data_json);
    }
    close_error_object(out, message, &inner);
    close_error(out, id, &first);
}

void tci_eip_put_request(tci_buf *out, uint64_t id, const tc_str *session, tc_str method,
                         const tci_type *params_type, const void *params, bool wants_extensions)
{
    bool first = true;
    tci_buf_append_byte(out, '{');
    put_session(out, session, &first);
    tci_json_put_key(out, &first, TC_STR("id"));
    tci_buf_append_u64(out, id);
    put_version(out, &first);
    tci_json_put_key(out, &first, TC_STR("method"));
    tci_json_put_str(out, method);
    tci_json_put_key(out, &first, TC_STR("params"));
    tci_proto_encode(params_type, params, out, 0);
    if (wants_extensions) {
        tci_json_put_key(out, &first, TC_STR("tc_ext"));
        tci_buf_append_byte(out, '1');
    }
    tci_buf_append_byte(out, '}');
}

static const char *take_error(const tci_json *v, tci_eip_reply *ret)
{
    if (v->kind != TCI_JSON_OBJECT)
        return "error is not an object";
    bool has_code = false, has_message = false;
    for (uint32_t i = 0; i < v->count; i++) {
        const tci_json_member *m = &v->u.members[i];
        int64_t code;
        if (tci_str_eq(m->key, TC_STR("code"))) {
            has_code = tci_json_as_i64(&m->value, &code) && code >= INT32_MIN && code <= INT32_MAX;
            if (has_code)
                ret->code = (int32_t)code;
        } else if (tci_str_eq(m->key, TC_STR("message"))) {
            has_message = tci_json_as_str(&m->value, &ret->message);
        } else if (tci_str_eq(m->key, TC_STR("data"))) {
            ret->data = &m->value;
        } else {
            return "unknown member of error";
        }
    }
    return has_code && has_message ? NULL : "error without code or message";
}

enum { HAS_RESULT = 1 << 4, HAS_ERROR = 1 << 5 };

static const char *take_reply_member(const tci_json_member *m, tci_eip_reply *ret, unsigned *has)
{
    const tci_json *v = &m->value;
    if (tci_str_eq(m->key, TC_STR("jsonrpc"))) {
        *has |= HAS_VERSION;
        return is_version_2(v) ? NULL : "jsonrpc is not \"2.0\"";
    }
    if (tci_str_eq(m->key, TC_STR("id"))) {
        *has |= HAS_ID;
        ret->has_id = tci_json_as_u64(v, &ret->id);
        if (ret->has_id)
            ret->id_text = v->u.text;
        return ret->has_id || v->kind == TCI_JSON_NULL ? NULL : "not an id of ours";
    }
    if (tci_str_eq(m->key, TC_STR("eip_session"))) {
        ret->has_session = true;
        return tci_json_as_str(v, &ret->session) ? NULL : "eip_session is not a string";
    }
    if (tci_str_eq(m->key, TC_STR("result"))) {
        *has |= HAS_RESULT;
        ret->result = v;
        return v->kind == TCI_JSON_OBJECT ? NULL : "result is not an object";
    }
    if (tci_str_eq(m->key, TC_STR("error"))) {
        *has |= HAS_ERROR;
        return take_error(v, ret);
    }
    return "unknown member";
}

int tci_eip_reply_decode(tc_str text, tci_arena *a, tci_eip_reply *ret, tc_err *err)
{
    tci_eip_reply full = {.has_id = false};
    unsigned has = 0;
    tci_json *doc = tci_arena_new(a, tci_json);
    if (doc == NULL)
        return tci_arena_error(a, err);
    int rc = tci_json_parse(text, 0, a, doc, err);
    if (rc == TC_E_PARSE || rc == TC_E_CONFLICT)
        return tc_err_recode(err, TC_E_PROTOCOL);
    if (rc < 0)
        return rc;
    const char *fault = doc->kind == TCI_JSON_OBJECT ? NULL : "not an object";
    for (uint32_t i = 0; fault == NULL && i < doc->count; i++)
        fault = take_reply_member(&doc->u.members[i], &full, &has);
    if (fault == NULL && (has & (HAS_VERSION | HAS_ID)) != (HAS_VERSION | HAS_ID))
        fault = "no jsonrpc or no id";
    bool has_both = (has & HAS_RESULT) != 0 && (has & HAS_ERROR) != 0;
    if (fault == NULL && (has_both || (has & (HAS_RESULT | HAS_ERROR)) == 0))
        fault = "not exactly one of result and error";
    if (fault != NULL)
        return tc_err_set(err, TC_E_PROTOCOL, "not a valid reply: %s", fault);
    *ret = full;
    return 0;
}
