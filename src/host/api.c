/* SPDX-License-Identifier: Apache-2.0
 *
 * Answers for devices and programs: pairing, signing in, devices as JSON. Leaves rows to devices.c and owners.c,
 * links to links.c. Checks and answers on the runtime's loop, work on a worker. Invariant: nothing here ever
 * says more of a secret than once, to whom it was made for. */
#include "host/host_int.h"

#include "base/rfc3339.h"
#include "base/utf8.h"

static void begin(tci_buf *b)
{
    tci_buf_init(b, TCI_BUF_MAX);
}

/* ---- pairing ---- */

static bool refuse_pairing(tci_host_req *r, unsigned status, const char *code, const char *message)
{
    tci_host_answer_error(r, status, code, tci_str(message));
    return false;
}

bool tci_host_pair_check(tci_host_req *r)
{
    tci_host *h = r->host;
    int64_t now_ms = tci_loop_now_ms(h->loop), wait_ms = 0;
    tc_str value, credential;
    if (h->takes_no_devices)
        return refuse_pairing(r, 403, "pairing_disabled", "this Host takes no devices in");
    if (!tci_limit_take(&h->asking, &r->from, now_ms, &wait_ms))
        return refuse_pairing(r, 429, "too_many_requests", "too often; try again later");
    if (!tci_host_authorization(r, &value))
        value = TC_STR("");
    if (tci_pair_read_bearer(value, &credential, &r->err) < 0)
        return refuse_pairing(r, 401, "unauthenticated", r->err.msg);
    if (tci_pair_read(tci_buf_str(&r->body), &r->arena, &r->ask, &r->err) < 0)
        return refuse_pairing(r, r->err.code == TC_E_TOO_BIG ? 413 : 400, "invalid_request",
                              r->err.msg);
    r->ask.digest = tci_digest_of(credential);
    r->ask.address = r->address;
    r->ask.may_begin = tci_limit_has(&h->beginning, &r->from, now_ms, &wait_ms);
    return true;
}

int tci_host_pair_work(tci_host_req *r, tc_err *err)
{
    return tci_host_pair(r->host->db, tci_host_now_ms(), &r->ask, &r->arena, &r->paired, err);
}

void tci_host_pair_answer(tci_host_req *r)
{
    tci_buf b;
    int64_t wait_ms;
    begin(&b);
    if (r->paired.has_begun) /* whether one was left was asked before */
        (void)tci_limit_take(&r->host->beginning, &r->from, tci_loop_now_ms(r->host->loop),
                             &wait_ms);
    unsigned status = tci_pair_put(&b, &r->paired, r->host->base);
    tci_host_answer_json(r, status, &b);
}

/* ---- signing in ---- */

/* What a person pastes may be the whole link. */
static tc_str code_of_link(tc_str text)
{
    text = tci_str_trim(text);
    size_t slash = tci_str_rfind_byte(text, '/');
    return slash < text.len ? tci_str_sub(text, slash + 1, SIZE_MAX) : text;
}

bool tci_host_sign_in_check(tci_host_req *r)
{
    enum { LABEL_MAX = 128 };
    r->code = code_of_link(tci_json_str_member(&r->json, "code"));
    r->label = tci_str_sub(tci_json_str_member(&r->json, "label"), 0, LABEL_MAX);
    r->label.len = tci_utf8_valid_prefix(r->label);
    r->kind = TCI_SIGN_IN_TERMINAL;
    return true;
}

int tci_host_sign_in_work(tci_host_req *r, tc_err *err)
{
    char token[TCI_TOKEN_LEN];
    int rc = tci_host_sign_in(r->host->db, tci_host_now_ms(), r->code, r->kind, r->label, token,
                              &r->expires_ms, err);
    return rc == 0 ? tci_arena_dup(&r->arena, tci_str_of(token, sizeof token), &r->new_token, err)
                   : rc;
}

static void put_time(tci_buf *b, bool *first, const char *key, int64_t ms)
{
    char text[TCI_RFC3339_MAX];
    tci_instant t = {.sec = ms / 1000, .nsec = (int32_t)(ms % 1000) * 1000000};
    tci_json_put_key(b, first, tci_str(key));
    if (ms == 0)
        tci_buf_append_str(b, TC_STR("null"));
    else
        tci_json_put_str(b, tci_str_of(text, tci_rfc3339_text(t, text)));
}

void tci_host_sign_in_answer(tci_host_req *r)
{
    tci_buf b;
    bool first = true;
    begin(&b);
    tci_buf_append_byte(&b, '{');
    tci_json_put_member(&b, &first, "token", r->new_token);
    put_time(&b, &first, "expires_at", r->expires_ms);
    tci_buf_append_byte(&b, '}');
    tci_host_answer_json(r, 200, &b);
}

int tci_host_sign_out_work(tci_host_req *r, tc_err *err)
{
    return tci_host_sign_out(r->host->db, r->token, err);
}

void tci_host_sign_out_answer(tci_host_req *r)
{
    tci_buf b;
    begin(&b);
    tci_buf_append_str(&b, TC_STR("{}"));
    tci_host_answer_json(r, 200, &b);
}

int tci_host_link_work(tci_host_req *r, tc_err *err)
{
    char code[TCI_LINK_CODE_LEN];
    int rc = tci_host_link_new(r->host->db, tci_host_now_ms(), code, &r->expires_ms, err);
    return rc == 0 ? tci_arena_printf(&r->arena, &r->code, err, "%.*ssign-in/%.*s",
                                      TC_STR_ARG(r->host->url), (int)sizeof code, code)
                   : rc;
}

void tci_host_link_answer(tci_host_req *r)
{
    tci_buf b;
    bool first = true;
    begin(&b);
    tci_buf_append_byte(&b, '{');
    tci_json_put_member(&b, &first, "url", r->code);
    put_time(&b, &first, "expires_at", r->expires_ms);
    tci_buf_append_byte(&b, '}');
    tci_host_answer_json(r, 200, &b);
}

/* ---- devices ---- */

static void put_external(tci_buf *b, bool *first, const tci_host_device *d)
{
    bool inner = true;
    tci_json_put_member(b, first, "url", d->url);
    tci_json_put_member(b, first, "credential_file", d->credential_file);
    if (d->ca_file.len > 0)
        tci_json_put_member(b, first, "ca_file", d->ca_file);
    if (d->is_plaintext_allowed) {
        tci_json_put_key(b, first, TC_STR("allow_plaintext_private_link"));
        tci_json_put_bool(b, true);
    }
    put_time(b, first, "asked_at", d->asked_ms);
    if (d->trouble.len == 0)
        return;
    tci_json_put_key(b, first, TC_STR("trouble"));
    tci_buf_append_byte(b, '{');
    tci_json_put_member(b, &inner, "code", tci_str(tc_code_name(d->trouble_code)));
    tci_json_put_member(b, &inner, "message", d->trouble);
    tci_buf_append_byte(b, '}');
}

/* info: JSON, or empty. */
static void put_device(tci_buf *b, const tci_host_device *d, tc_str info)
{
    bool first = true;
    tci_buf_append_byte(b, '{');
    tci_json_put_member(b, &first, "id", d->id);
    tci_json_put_member(b, &first, "device_id", d->device_id);
    tci_json_put_member(b, &first, "name", d->name);
    tci_json_put_member(b, &first, "kind",
                        d->kind == TCI_HOST_EXTERNAL ? TC_STR("external") : TC_STR("linked"));
    tci_json_put_member(b, &first, "state", tci_str(tci_host_state_name(d->state)));
    tci_json_put_key(b, &first, TC_STR("online"));
    tci_json_put_bool(b, d->is_online);
    tci_json_put_member(b, &first, "address", d->address);
    put_time(b, &first, "created_at", d->created_ms);
    put_time(b, &first, "approved_at", d->approved_ms);
    put_time(b, &first, "revoked_at", d->revoked_ms);
    put_time(b, &first, "last_seen_at", d->seen_ms);
    if (d->code.len > 0) {
        tci_json_put_member(b, &first, "verification_code", d->code);
        put_time(b, &first, "expires_at", d->expires_ms);
        tci_json_put_key(b, &first, TC_STR("rejected"));
        tci_json_put_bool(b, d->is_rejected);
    }
    if (d->clashes > 0) {
        bool inner = true;
        tci_json_put_key(b, &first, TC_STR("other_credential"));
        tci_buf_append_byte(b, '{');
        tci_json_put_key(b, &inner, TC_STR("count"));
        tci_buf_append_i64(b, d->clashes);
        put_time(b, &inner, "last_at", d->clash_ms);
        tci_json_put_member(b, &inner, "address", d->clash_address);
        tci_buf_append_byte(b, '}');
    }
    if (d->second_links > 0) {
        bool inner = true;
        tci_json_put_key(b, &first, TC_STR("second_link"));
        tci_buf_append_byte(b, '{');
        tci_json_put_key(b, &inner, TC_STR("count"));
        tci_buf_append_i64(b, d->second_links);
        put_time(b, &inner, "last_at", d->second_ms);
        tci_json_put_member(b, &inner, "address", d->second_address);
        tci_buf_append_byte(b, '}');
    }
    if (d->kind == TCI_HOST_EXTERNAL)
        put_external(b, &first, d);
    if (info.len > 0) {
        tci_json_put_key(b, &first, TC_STR("info"));
        tci_buf_append_str(b, info);
    }
    tci_buf_append_byte(b, '}');
}

int tci_host_list_work(tci_host_req *r, tc_err *err)
{
    int rc =
        tci_host_devices(r->host->db, tci_host_now_ms(), &r->arena, &r->devices, &r->ndevices, err);
    return rc == 0 ? tci_host_mark_online(r->host, r->devices, r->ndevices, &r->arena, err) : rc;
}

void tci_host_list_answer(tci_host_req *r)
{
    tci_buf b;
    begin(&b);
    tci_host_second_links(r->host, r->devices, r->ndevices);
    tci_buf_append_str(&b, TC_STR("{\"devices\":["));
    for (size_t i = 0; i < r->ndevices; i++) {
        if (i > 0)
            tci_buf_append_byte(&b, ',');
        put_device(&b, &r->devices[i], TC_STR(""));
    }
    tci_buf_append_str(&b, TC_STR("]}"));
    tci_host_answer_json(r, 200, &b);
}

int tci_host_get_work(tci_host_req *r, tc_err *err)
{
    int rc = tci_host_device_get(r->host->db, tci_host_now_ms(), r->id, &r->arena, &r->device, err);
    if (rc == 0)
        rc = tci_host_mark_online(r->host, &r->device, 1, &r->arena, err);
    return rc == 0 ? tci_host_info(r->host, &r->device, &r->arena, &r->info, err) : rc;
}

void tci_host_device_answer(tci_host_req *r)
{
    tci_buf b;
    begin(&b);
    tci_host_second_links(r->host, &r->device, 1);
    put_device(&b, &r->device, r->info);
    tci_host_answer_json(r, 200, &b);
}

bool tci_host_code_check(tci_host_req *r)
{
    char *code = tci_arena_bytes(&r->arena, TCI_CODE_LEN);
    if (code == NULL || !tci_code_read(tci_json_str_member(&r->json, "code"), code)) {
        tci_host_answer_error(r, 400, "invalid_request",
                              TC_STR("a code has eight letters: BCDF-GHJK"));
        return false;
    }
    r->which.code = tci_str_of(code, TCI_CODE_LEN);
    return true;
}

int tci_host_approve_work(tci_host_req *r, tc_err *err)
{
    return tci_host_approve(r->host->db, tci_host_now_ms(), &r->which, &r->arena, &r->device, err);
}

int tci_host_reject_work(tci_host_req *r, tc_err *err)
{
    return tci_host_reject(r->host->db, tci_host_now_ms(), &r->which, &r->arena, &r->device, err);
}

int tci_host_revoke_work(tci_host_req *r, tc_err *err)
{
    return tci_host_revoke(r->host->db, tci_host_now_ms(), r->id, &r->arena, &r->device, err);
}

void tci_host_revoke_answer(tci_host_req *r)
{
    tci_host_unlink(r->host, r->device.id);
    tci_host_device_answer(r);
}
