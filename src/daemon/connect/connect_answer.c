/* SPDX-License-Identifier: Apache-2.0
 *
 * What a Host answers to a pairing request: approved, pending, or a refusal. Pure, any thread; the input is
 * not to be trusted, and parts of it are shown on a terminal.
 *
 * Invariant: nothing with a control character gets out, and no credential. */
#include "daemon/connect/connect_int.h"

#include "base/json.h"
#include "base/num.h"
#include "base/utf8.h"
#include "daemon/config/config_int.h"

enum { REFUSAL_CODE_MAX = 128, REFUSAL_TEXT_MAX = 512, POLL_MIN_S = 1, POLL_MAX_S = 10 };

static int invalid(tc_err *err)
{
    return tc_err_set(err, TC_E_INVALID, "Host returned an invalid pairing response");
}

/* A member that is there and no null. */
static const tci_json *member(const tci_json *v, const char *name)
{
    const tci_json *m = tci_json_get(v, tci_str(name));
    return m != NULL && m->kind != TCI_JSON_NULL ? m : NULL;
}

static bool text_of(const tci_json *v, const char *name, tc_str *ret)
{
    const tci_json *m = member(v, name);
    return m != NULL && tci_json_as_str(m, ret);
}

/* ---- success ---- */

static int read_pending(const tci_json *v, tci_pair_answer *ret, tc_err *err)
{
    const tci_json *challenge = member(v, "challenge"), *url = member(v, "approval_url");
    const tci_json *poll = member(v, "poll_after_seconds");
    uint64_t seconds;
    if (challenge == NULL || challenge->kind != TCI_JSON_OBJECT ||
        !text_of(challenge, "verification_code", &ret->verification_code) || poll == NULL ||
        !tci_json_as_u64(poll, &seconds) ||
        (url != NULL && !tci_json_as_str(url, &ret->approval_url)))
        return invalid(err);
    if (ret->verification_code.len == 0 || ret->verification_code.len > TCI_PAIR_CODE_MAX ||
        !tci_cfg_is_printable(ret->verification_code))
        return tc_err_set(err, TC_E_INVALID, "Host returned an invalid verification code");
    ret->poll_after_s = tci_max_u64(POLL_MIN_S, tci_min_u64(seconds, POLL_MAX_S));
    return 0;
}

static int read_approved(const tci_json *v, tci_pair_answer *ret, tc_err *err)
{
    ret->is_approved = true;
    if (!text_of(v, "resource_id", &ret->resource_id) ||
        !text_of(v, "websocket_url", &ret->websocket_url) || ret->resource_id.len == 0 ||
        ret->resource_id.len > TCI_PAIR_RESOURCE_MAX || !tci_cfg_is_printable(ret->resource_id) ||
        ret->websocket_url.len > TCI_CONNECT_URL_MAX)
        return invalid(err);
    return 0;
}

int tci_pair_answer_read(tc_str body, tci_arena *a, tci_pair_answer *ret, tc_err *err)
{
    tci_json v;
    tc_str status = {0};
    tci_pair_answer answer = {0};
    int rc = tci_json_parse(body, 0, a, &v, err);
    if (rc == TC_E_NO_MEMORY)
        return rc;
    if (rc < 0 || !text_of(&v, "status", &status))
        return invalid(err);
    if (tci_str_eq(status, TC_STR("pending")))
        rc = read_pending(&v, &answer, err);
    else if (tci_str_eq(status, TC_STR("approved")))
        rc = read_approved(&v, &answer, err);
    else
        rc = invalid(err);
    if (rc == 0)
        *ret = answer;
    return rc;
}

/* ---- refusals ---- */

static bool is_refusal_code(tc_str code)
{
    for (size_t i = 0; i < code.len; i++) {
        char c = code.ptr[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              c == '_'))
            return false;
    }
    return code.len > 0 && code.len <= REFUSAL_CODE_MAX;
}

/* text without the secret, in either case of its letters. */
static void put_redacted(tci_buf *b, tc_str text, tc_str secret)
{
    size_t from = 0;
    for (size_t i = 0; secret.len > 0 && i + secret.len <= text.len; i++) {
        if (!tci_str_eq_nocase(tci_str_sub(text, i, secret.len), secret))
            continue;
        tci_buf_append(b, text.ptr + from, i - from);
        tci_buf_append_str(b, TC_STR("[redacted]"));
        i += secret.len - 1;
        from = i + 1;
    }
    if (from < text.len)
        tci_buf_append(b, text.ptr + from, text.len - from);
}

/* "code: message" of the body, or nothing. */
static void put_reason(tci_buf *b, tc_str body, tc_str credential)
{
    tci_arena a;
    tci_json v;
    tc_err ignored;
    tc_str code, message;
    tci_buf whole;
    tci_arena_init(&a, 0);
    tci_buf_init(&whole, REFUSAL_CODE_MAX + REFUSAL_TEXT_MAX + 2);
    if (body.len <= TCI_PAIR_REFUSAL_MAX && tci_json_parse(body, 0, &a, &v, &ignored) == 0) {
        const tci_json *e = member(&v, "error");
        if (e != NULL && text_of(e, "code", &code) && text_of(e, "message", &message) &&
            is_refusal_code(code) && message.len <= REFUSAL_TEXT_MAX &&
            tci_cfg_is_printable(message)) {
            tci_buf_printf(&whole, "%.*s: %.*s", TC_STR_ARG(code), TC_STR_ARG(message));
            if (tci_buf_ok(&whole))
                put_redacted(b, tci_buf_str(&whole), credential);
        }
    }
    if (whole.ptr != NULL)
        tci_mem_wipe(whole.ptr, whole.len);
    tci_buf_done(&whole);
    tci_arena_done(&a);
}

int tci_pair_refused(unsigned status, tc_str body, tc_str credential, tc_err *err)
{
    static const char rest[] = "Host rejected pairing (HTTP 999): ; no credential was replaced";
    tci_buf reason;
    tci_buf_init(&reason, TCI_PAIR_REFUSAL_MAX);
    put_reason(&reason, body, credential);
    tc_str text = tci_buf_ok(&reason) ? tci_buf_str(&reason) : TC_STR("");
    bool is_cut = text.len > TC_ERR_MSG_MAX - sizeof rest;
    if (is_cut) { /* at the end of a character */
        text = tci_str_sub(text, 0, TC_ERR_MSG_MAX - sizeof rest - 3);
        text.len = tci_utf8_valid_prefix(text);
    }
    (void)tc_err_set(err, TC_E_AUTH,
                     "Host rejected pairing (HTTP %u)%s%.*s%s; no credential was replaced", status,
                     text.len > 0 ? ": " : "", TC_STR_ARG(text), is_cut ? "..." : "");
    tci_buf_done(&reason);
    if (status / 100 == 3)
        return tc_err_hint(err, "the Host sends elsewhere: use the address that it is reached by");
    if (status == 401 || status == 403)
        return tc_err_hint(err, "the Host does not take this device, it may have been revoked; to "
                                "enroll it anew on purpose, use a new --instance");
    return (int)err->code;
}
