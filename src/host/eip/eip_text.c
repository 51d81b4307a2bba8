/* SPDX-License-Identifier: Apache-2.0
 *
 * Control requests as text: read, checked, and where their id is. Leaves meaning to the device. Any thread.
 * Invariant: what passes here is a request that every daemon can read, so that its answer has the id it was given. */
#include "host/eip/eip.h"

#include <math.h>

/* ---- numbers ---- */

static bool numbers_fit(const tci_json *v)
{
    double number;
    bool fits = v->kind != TCI_JSON_NUMBER || (tci_json_as_double(v, &number) && isfinite(number));
    for (uint32_t i = 0; fits && i < v->count; i++) {
        if (v->kind == TCI_JSON_ARRAY)
            fits = numbers_fit(&v->u.items[i]);
        else if (v->kind == TCI_JSON_OBJECT)
            fits = numbers_fit(&v->u.members[i].value);
    }
    return fits;
}

/* ---- where a member is: the text is valid JSON, an object ---- */

static size_t skip_blanks(tc_str s, size_t at)
{
    while (at < s.len &&
           (s.ptr[at] == ' ' || s.ptr[at] == '\t' || s.ptr[at] == '\n' || s.ptr[at] == '\r'))
        at++;
    return at;
}

/* at: the opening quote. Past the closing one. */
static size_t skip_string(tc_str s, size_t at)
{
    for (at++; at < s.len && s.ptr[at] != '"'; at++)
        if (s.ptr[at] == '\\')
            at++;
    return at + 1;
}

static size_t skip_value(tc_str s, size_t at)
{
    size_t depth = 0;
    if (s.ptr[at] == '"')
        return skip_string(s, at);
    if (s.ptr[at] != '{' && s.ptr[at] != '[') {
        while (at < s.len && memchr(",}] \t\n\r", s.ptr[at], 7) == NULL)
            at++;
        return at;
    }
    do {
        char c = s.ptr[at];
        if (c == '"') {
            at = skip_string(s, at);
            continue;
        }
        if (c == '{' || c == '[')
            depth++;
        else if (c == '}' || c == ']')
            depth--;
        at++;
    } while (at < s.len && depth > 0);
    return at;
}

typedef struct member {
    tc_str key;     /* as written, quotes and all */
    size_t at, len; /* its value */
} member;

/* The next one from *at on; false: there is none. */
static bool next_member(tc_str s, size_t *at, member *ret)
{
    size_t name = skip_blanks(s, *at);
    if (name >= s.len || s.ptr[name] != '"')
        return false;
    size_t end = skip_string(s, name);
    ret->key = tci_str_sub(s, name, end - name);
    ret->at = skip_blanks(s, skip_blanks(s, end) + 1); /* past the colon */
    end = ret->at < s.len ? skip_value(s, ret->at) : ret->at;
    if (end > s.len || end <= ret->at)
        return false;
    ret->len = end - ret->at;
    end = skip_blanks(s, end);
    *at = end < s.len && s.ptr[end] == ',' ? end + 1 : s.len;
    return true;
}

/* Escapes in keys count, too. */
static tc_str key_of(const member *m, tci_arena *a)
{
    tc_err err;
    tc_str text = {0};
    tci_json decoded;
    if (tci_str_find_byte(m->key, '\\') == m->key.len)
        return tci_str_sub(m->key, 1, m->key.len - 2);
    if (tci_json_parse(m->key, 0, a, &decoded, &err) == 0)
        (void)tci_json_as_str(&decoded, &text); /* it is one: the whole was valid */
    return text;
}

/* One that a daemon only reads past has to be readable, too. */
static int check_other(tc_str value, tci_arena *a, tc_err *err)
{
    tci_json v;
    int rc = tci_json_parse(value, 0, a, &v, err);
    return rc == 0 && !numbers_fit(&v) ? tc_err_set(err, TC_E_PARSE, "a number is out of range")
                                       : rc;
}

static int check_members(tc_str text, tci_arena *a, tci_eip_text *ret, tc_err *err)
{
    static const char *const read[] = {"jsonrpc", "method", "params", "eip_session"};
    member m;
    size_t at = skip_blanks(text, 0) + 1; /* past the brace */
    while (next_member(text, &at, &m)) {
        tc_str key = key_of(&m, a);
        bool is_read = false;
        for (size_t i = 0; i < TCI_ARRAY_LEN(read); i++)
            is_read = is_read || tci_str_eq(key, tci_str(read[i]));
        if (tci_str_eq(key, TC_STR("id"))) {
            ret->id_at = m.at;
            ret->id_len = m.len;
        } else if (!is_read && check_other(tci_str_sub(text, m.at, m.len), a, err) < 0) {
            return err->code;
        }
    }
    return ret->id_len > 0 ? 0 : tc_err_set(err, TC_E_INVALID, "the request has no id");
}

/* ---- requests ---- */

int tci_eip_text_read(tc_str text, tci_arena *a, tci_eip_text *ret, tc_err *err)
{
    *ret = (tci_eip_text){.method = NULL};
    int rc = tci_eip_request_decode(text, a, &ret->request, err);
    if (rc < 0)
        return rc;
    if (!numbers_fit(ret->request.params))
        return tc_err_set(err, TC_E_PARSE, "a number is out of range");
    ret->method = tci_method_find(ret->request.method);
    return check_members(text, a, ret, err);
}

void tci_eip_text_put_error(tci_buf *b, const tci_eip_text *t, tci_eip_cause cause)
{
    const tci_eip_error_row *row = &tci_eip_error_causes[cause];
    tci_eip_error_data data = {.error_type = row->type,
                               .retry_hint = row->hint,
                               .dispatch_stage = TCI_EIP_DISPATCH_STAGE_PRE_DISPATCH};
    tci_buf object;
    tci_buf_init(&object, TCI_BUF_MAX);
    tci_eip_put_error_object(&object, row->code, row->message, &data);
    if (tci_buf_ok(&object))
        tci_eip_put_error_text(b, &t->request.id,
                               t->request.has_session ? &t->request.session : NULL,
                               tci_buf_str(&object));
    else
        b->failed = TC_E_NO_MEMORY;
    tci_buf_done(&object);
}

void tci_eip_text_put_refusal(tci_buf *b, const tci_eip_text *t, int code)
{
    tci_eip_text bare = {.request = {.id = t->request.id}}; /* the selector is never echoed here */
    tci_eip_text_put_error(
        b, &bare, code == TC_E_PARSE ? TCI_EIP_CAUSE_BAD_JSON : TCI_EIP_CAUSE_BAD_ENVELOPE);
}

int tci_eip_text_check_initialize(const tci_eip_text *t, tc_str device_id, tci_arena *a,
                                  tci_eip_cause *ret_cause, tc_err *err)
{
    tci_eip_initialize_params p = {.has_expected_device_id = false};
    bool has_version = false;
    *ret_cause = TCI_EIP_CAUSE_SESSION_FORBIDDEN;
    if (t->request.has_session)
        return tc_err_set(err, TC_E_INVALID, "a session is named");
    *ret_cause = TCI_EIP_CAUSE_BAD_PARAMS;
    if (tci_proto_decode(&tci_eip_initialize_params_type, t->request.params, a, &p, err) < 0)
        return err->code;
    for (size_t i = 0; i < p.supported_protocol_versions.count; i++)
        has_version = has_version || tci_str_eq(p.supported_protocol_versions.items[i],
                                                TC_STR(TCI_EIP_PROTOCOL_VERSION));
    if (has_version && (!p.has_expected_device_id || tci_str_eq(p.expected_device_id, device_id)))
        return 0;
    *ret_cause = TCI_EIP_CAUSE_INITIALIZE_MISMATCH;
    return tc_err_set(err, TC_E_INVALID, "another version, or another device");
}
