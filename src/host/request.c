/* SPDX-License-Identifier: Apache-2.0
 *
 * One request: its head and body, who asks, how often, the work it needs, its answer. What can be asked is for
 * the table, what it means for the files that the table names. The runtime's loop, but for route->work.
 * Invariant: a request lives until HTTP is done with it and nobody of ours looks at it: from the one moment on
 * `request` is NULL, the other is counted in `holds`. */
#include "host/host_int.h"

#include "base/num.h"
#include "base/plain.h"
#include "base/utf8.h"
#include "net/url.h"

/* ---- life ---- */

static void drop(tci_host_req *r)
{
    if (r->request != NULL || r->holds > 0)
        return;
    if (r->token.len > 0) /* ours: a copy in the arena */
        tci_mem_wipe((void *)(uintptr_t)r->token.ptr, r->token.len);
    tci_buf_done(&r->body);
    tci_arena_done(&r->arena);
    tci_free(r);
}

void tci_host_hold(tci_host_req *r)
{
    r->holds++;
}

void tci_host_release(tci_host_req *r)
{
    r->holds--;
    drop(r);
}

static void on_done(tci_httpd_req *request, bool is_whole)
{
    tci_host_req *r = tci_httpd_data(request);
    TCI_UNUSED(is_whole); /* what was decided stands */
    if (r == NULL)
        return;
    r->request = NULL;
    if (r->ctx != NULL)
        tc_ctx_cancel(r->ctx);
    if (r->exchange != NULL)
        tci_host_eip_gone(r);
    drop(r);
}

/* ---- answering ---- */

static const struct {
    const char *name, *value;
} common[] = {
    {"Cache-Control", "no-store"},
    {"X-Content-Type-Options", "nosniff"},
    {"Referrer-Policy", "same-origin"},
    {"Cross-Origin-Resource-Policy", "same-origin"},
    {"Content-Security-Policy",
     "default-src 'none'; style-src 'self'; form-action 'self'; script-src 'self'; "
     "connect-src 'self'; img-src 'self'; frame-ancestors 'none'; base-uri 'none'; "
     "require-trusted-types-for 'script'; trusted-types 'none'"},
};

enum { CACHE_CONTROL_AT = 0, HEADERS_MAX = TCI_ARRAY_LEN(common) + 4 };

typedef struct headers {
    tci_http_header items[HEADERS_MAX];
    size_t count;
} headers;

static headers headers_of(const char *type)
{
    headers h = {.count = 0};
    for (size_t i = 0; i < TCI_ARRAY_LEN(common); i++)
        h.items[h.count++] = (tci_http_header){tci_str(common[i].name), tci_str(common[i].value)};
    h.items[h.count++] = (tci_http_header){TC_STR("Content-Type"), tci_str(type)};
    return h;
}

static void respond(tci_host_req *r, unsigned status, const headers *h, tci_buf *body)
{
    tc_err err;
    if (r->request == NULL) {
        tci_buf_done(body);
        return;
    }
    if (!tci_buf_ok(body)) {
        tci_buf_clear(body);
        status = 500;
    }
    int rc = tci_httpd_respond_own(r->request, status, h->items, h->count, body, &err);
    TC_ASSERT(rc != TC_E_CONFLICT); /* one answer; for other failures the connection was closed */
}

void tci_host_answer_json(tci_host_req *r, unsigned status, tci_buf *body)
{
    headers h = headers_of("application/json");
    respond(r, status, &h, body);
}

/* Does the client have it already? A weak tag will do: bytes are what a tag here is made of. */
static bool has_tag(const tci_host_req *r, tc_str tag)
{
    tc_str value, item;
    if (r->request == NULL ||
        !tci_http_head_get(tci_httpd_head(r->request), TC_STR("if-none-match"), &value, NULL))
        return false;
    while (tci_str_split(&value, ',', &item)) {
        item = tci_str_trim(item);
        if (tci_str_starts(item, TC_STR("W/")))
            item = tci_str_sub(item, 2, SIZE_MAX);
        if (tci_str_eq(item, tag) || tci_str_eq(item, TC_STR("*")))
            return true;
    }
    return false;
}

/* With its tag; 304 without a body when that is what the client has. */
static void respond_tagged(tci_host_req *r, headers *h, tc_str tag, tci_buf *body)
{
    unsigned status = 200;
    h->items[h->count++] = (tci_http_header){TC_STR("ETag"), tag};
    if (has_tag(r, tag)) {
        tci_buf_clear(body);
        status = 304;
    }
    respond(r, status, h, body);
}

void tci_host_answer_page(tci_host_req *r, unsigned status, tci_buf *body)
{
    char tag[TCI_HOST_TAG_LEN];
    headers h = headers_of("text/html; charset=utf-8");
    bool is_read = r->route != NULL && strcmp(r->route->method, "GET") == 0;
    if (status != 200 || !is_read || !tci_buf_ok(body)) {
        respond(r, status, &h, body);
        return;
    }
    tci_host_tag_of(tci_buf_str(body), tag);
    respond_tagged(r, &h, tci_str_of(tag, sizeof tag), body);
}

void tci_host_answer_file(tci_host_req *r, const tci_host_file *file)
{
    tci_buf b;
    headers h = headers_of(file->type);
    tc_str tag = tci_str(file->tag), digest = tci_str_sub(tag, 1, tag.len - 2);
    /* Asked for by its digest it is the same for ever. */
    h.items[CACHE_CONTROL_AT].value = tci_str_eq(r->query, digest)
                                          ? TC_STR("public, max-age=31536000, immutable")
                                          : TC_STR("no-cache");
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_buf_append(&b, file->bytes, file->len);
    respond_tagged(r, &h, tag, &b);
}

void tci_host_redirect(tci_host_req *r, const char *path, tc_str cookie)
{
    tc_err err;
    tci_buf b;
    tc_str place;
    headers h = headers_of("text/plain");
    tci_buf_init(&b, TCI_BUF_MAX);
    if (tci_arena_printf(&r->arena, &place, &err, "%.*s%s", TC_STR_ARG(r->host->base), path) < 0) {
        tci_host_answer_error(r, 500, "internal", tci_str(err.msg));
        return;
    }
    h.items[h.count++] = (tci_http_header){TC_STR("Location"), place};
    if (cookie.len > 0)
        h.items[h.count++] = (tci_http_header){TC_STR("Set-Cookie"), cookie};
    respond(r, 303, &h, &b);
}

static void answer_error_after(tci_host_req *r, unsigned status, const char *code, tc_str message,
                               int64_t wait_ms)
{
    tci_buf b;
    char seconds[TCI_NUM_TEXT_MAX];
    bool is_page = r->route != NULL && (r->route->flags & TCI_ROUTE_PAGE) != 0;
    headers h = headers_of(is_page ? "text/html; charset=utf-8" : "application/json");
    tci_buf_init(&b, TCI_BUF_MAX);
    if (is_page)
        tci_host_put_error_page(&b, r->host, status, message);
    else
        tci_host_put_error(&b, code, message);
    if (status == 401 && !is_page)
        h.items[h.count++] = (tci_http_header){TC_STR("WWW-Authenticate"), TC_STR("Bearer")};
    if (wait_ms > 0) {
        tci_buf text;
        tci_buf_init(&text, sizeof seconds);
        tci_buf_append_i64(&text, (wait_ms + 999) / 1000);
        size_t len = tci_buf_ok(&text) ? text.len : 0;
        if (len > 0)
            memcpy(seconds, text.ptr, len);
        tci_buf_done(&text);
        h.items[h.count++] = (tci_http_header){TC_STR("Retry-After"), tci_str_of(seconds, len)};
    }
    respond(r, status, &h, &b);
}

void tci_host_answer_error(tci_host_req *r, unsigned status, const char *code, tc_str message)
{
    answer_error_after(r, status, code, message, 0);
}

void tci_host_answer_failure(tci_host_req *r)
{
    static const struct {
        tc_code code;
        unsigned status;
        const char *name;
    } kinds[] = {{TC_E_AUTH, 401, "unauthenticated"},    {TC_E_DENIED, 403, "refused"},
                 {TC_E_NOT_FOUND, 404, "not_found"},     {TC_E_TIMEOUT, 410, "expired"},
                 {TC_E_CONFLICT, 409, "conflict"},       {TC_E_QUOTA, 409, "too_many"},
                 {TC_E_INVALID, 400, "invalid_request"}, {TC_E_PARSE, 400, "invalid_request"}};
    for (size_t i = 0; i < TCI_ARRAY_LEN(kinds); i++)
        if (kinds[i].code == r->err.code) {
            tci_host_answer_error(r, kinds[i].status, kinds[i].name, tci_str(r->err.msg));
            return;
        }
    tci_host_trouble(r->host, &r->err);
    tci_host_answer_error(r, 500, "internal",
                          TC_STR("this Host could not do that; its log says why"));
}

static void answer_too_often(tci_host_req *r, int64_t wait_ms)
{
    answer_error_after(r, 429, "too_many_requests", TC_STR("too often; try again later"), wait_ms);
}

/* ---- who asks ---- */

/* Browsers know cookies by the machine, not by the port: two Hosts on one machine must not take each other's. */
static const char *cookie_name(const tci_host *h)
{
    return h->is_secure ? "__Host-telechir" : h->cookie_name;
}

tc_str tci_host_cookie(tci_host_req *r, tc_str token)
{
    tc_err err;
    tc_str cookie = {0};
    long long age_s = token.len > 0 ? TCI_BROWSER_MS / 1000 : 0;
    int rc = tci_arena_printf(
        &r->arena, &cookie, &err, "%s=%.*s; Path=/; HttpOnly; SameSite=Strict; Max-Age=%lld%s",
        cookie_name(r->host), TC_STR_ARG(token), age_s, r->host->is_secure ? "; Secure" : "");
    return rc == 0 ? cookie : (tc_str){0};
}

/* The value of our cookie; false: it was not sent. */
static bool find_cookie(const tci_host *h, tc_str value, tc_str *ret)
{
    tc_str pair, name = tci_str(cookie_name(h));
    while (tci_str_split(&value, ';', &pair)) {
        pair = tci_str_trim(pair);
        size_t at = tci_str_find_byte(pair, '=');
        if (at == pair.len || !tci_str_eq(tci_str_sub(pair, 0, at), name))
            continue;
        *ret = tci_str_sub(pair, at + 1, SIZE_MAX);
        return true;
    }
    return false;
}

bool tci_host_authorization(const tci_host_req *r, tc_str *ret)
{
    size_t count = 0;
    return tci_http_head_get(tci_httpd_head(r->request), TC_STR("authorization"), ret, &count) &&
           count == 1;
}

/* What says that the owner asks, into r->token; false: nothing does. */
static bool find_token(tci_host_req *r)
{
    tc_err err;
    tc_str value, token = {0};
    const tci_http_head *head = tci_httpd_head(r->request);
    bool is_page = (r->route->flags & TCI_ROUTE_PAGE) != 0;
    r->kind = TCI_SIGN_IN_BROWSER;
    if (!is_page && tci_host_authorization(r, &value)) {
        static const size_t prefix_len = sizeof "Bearer " - 1;
        if (tci_str_eq_nocase(tci_str_sub(value, 0, prefix_len), TC_STR("Bearer ")))
            token = tci_str_sub(value, prefix_len, SIZE_MAX);
        r->kind = TCI_SIGN_IN_TERMINAL;
    } else if (tci_http_head_get(head, TC_STR("cookie"), &value, NULL)) {
        (void)find_cookie(r->host, value, &token); /* not there: the empty one */
    }
    return tci_is_hex(token, TCI_TOKEN_LEN) &&
           tci_arena_dup(&r->arena, token, &r->token, &err) == 0;
}

/* Did a page of another site make the browser ask? As far as the browser says. */
static bool is_from_elsewhere(const tci_host_req *r)
{
    tc_str site, origin, host = {0};
    const tci_http_head *head = tci_httpd_head(r->request);
    if (tci_http_head_get(head, TC_STR("sec-fetch-site"), &site, NULL) &&
        !tci_str_eq(site, TC_STR("same-origin")))
        return true;
    if (!tci_http_head_get(head, TC_STR("origin"), &origin, NULL))
        return false;
    (void)tci_http_head_get(head, TC_STR("host"), &host, NULL); /* absent: equals nothing */
    size_t at = tci_str_find(origin, TC_STR("://"));
    tc_str ours = tci_str_sub(r->host->url, 0, r->host->url.len - r->host->base.len);
    bool is_asked =
        at < origin.len && tci_str_eq_nocase(tci_str_sub(origin, at + 3, SIZE_MAX), host);
    return !tci_str_eq(origin, ours) && !is_asked;
}

/* A browser sends its cookie whoever made it ask; only our own pages know the word that goes with it. */
static bool has_word(tci_host_req *r)
{
    tc_str given = {0};
    if ((r->route->flags & TCI_ROUTE_FORM) != 0)
        given = tci_host_form_value(r, "csrf");
    else
        (void)tci_http_head_get(tci_httpd_head(r->request), TC_STR("x-csrf-token"), &given,
                                NULL); /* absent: the empty one */
    return tci_csrf_is(r->token, given);
}

/* false: answered. */
static bool check_owner(tci_host_req *r)
{
    bool changes = strcmp(r->route->method, "POST") == 0;
    bool is_page = (r->route->flags & TCI_ROUTE_PAGE) != 0;
    bool needs_owner = (r->route->flags & TCI_ROUTE_OWNER) != 0;
    if (needs_owner && !find_token(r)) {
        tci_host_answer_error(r, 401, "unauthenticated", TC_STR("not signed in"));
        return false;
    }
    bool is_browser = is_page || (needs_owner && r->kind == TCI_SIGN_IN_BROWSER);
    if (changes && is_browser && (is_from_elsewhere(r) || (needs_owner && !has_word(r)))) {
        tci_host_answer_error(r, 403, "refused",
                              TC_STR("this did not come from the Host's own page"));
        return false;
    }
    return true;
}

/* The last entry of the last such field: what our own proxy put down, whatever the client sent. */
static bool forwarded_for(const tci_http_head *head, tci_addr *ret)
{
    tc_str value = {0};
    for (size_t i = 0; i < head->nheaders; i++)
        if (tci_str_eq_nocase(head->headers[i].name, TC_STR("x-forwarded-for")))
            value = head->headers[i].value;
    size_t comma = tci_str_rfind_byte(value, ',');
    value = tci_str_trim(comma < value.len ? tci_str_sub(value, comma + 1, SIZE_MAX) : value);
    return tci_addr_parse_ip(value, ret);
}

static void find_address(tci_host_req *r)
{
    tc_err err;
    char text[TCI_ADDR_TEXT_MAX];
    if (!r->host->is_behind_proxy || !forwarded_for(tci_httpd_head(r->request), &r->from))
        r->from = *tci_httpd_peer(r->request);
    r->from.port = 0;
    if (tci_arena_dup(&r->arena, tci_str(tci_addr_ip_text(&r->from, text)), &r->address, &err) < 0)
        r->address = TC_STR("unknown");
}

/* ---- forms ---- */

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Into out, which has room for all of s; false: malformed. plus: what a '+' stands for. */
static bool decode(tc_str s, char plus, char *out, size_t *ret_len)
{
    size_t n = 0;
    for (size_t i = 0; i < s.len; i++) {
        char c = s.ptr[i] == '+' ? plus : s.ptr[i];
        if (c == '%') {
            int high = i + 2 < s.len ? hex_digit(s.ptr[i + 1]) : -1;
            int low = i + 2 < s.len ? hex_digit(s.ptr[i + 2]) : -1;
            if (high < 0 || low < 0)
                return false;
            c = (char)(high << 4 | low);
            i += 2;
        }
        out[n++] = c;
    }
    *ret_len = n;
    return true;
}

static tc_str value_in(tci_host_req *r, tc_str rest, const char *name)
{
    tc_str pair;
    while (tci_str_split(&rest, '&', &pair)) {
        size_t at = tci_str_find_byte(pair, '=');
        if (at == pair.len || !tci_str_eq(tci_str_sub(pair, 0, at), tci_str(name)))
            continue;
        tc_str raw = tci_str_sub(pair, at + 1, SIZE_MAX);
        size_t len = 0;
        char *out = tci_arena_bytes(&r->arena, raw.len);
        return out != NULL && decode(raw, ' ', out, &len) ? tci_str_of(out, len) : (tc_str){0};
    }
    return (tc_str){0};
}

tc_str tci_host_form_value(tci_host_req *r, const char *name)
{
    return value_in(r, tci_buf_str(&r->body), name);
}

tc_str tci_host_query_value(tci_host_req *r, const char *name)
{
    return value_in(r, r->query, name);
}

bool tci_host_query_is_fine(tc_str query)
{
    for (size_t i = 0; i < query.len; i++)
        if (query.ptr[i] == '%' && (i + 2 >= query.len || hex_digit(query.ptr[i + 1]) < 0 ||
                                    hex_digit(query.ptr[i + 2]) < 0))
            return false;
    return true;
}

/* ---- working ---- */

static void on_work(tci_host_op *op)
{
    tci_host_req *r = TCI_CONTAINER(op, tci_host_req, op);
    int rc = 0;
    if ((r->route->flags & TCI_ROUTE_OWNER) != 0)
        rc = tci_host_signed_in(r->host->db, tci_host_now_ms(), r->token, r->kind, &r->err);
    if (rc == 0)
        rc = r->route->work(r, &r->err);
    r->rc = rc;
}

/* Wrong secrets cost their address something. Right ones are always taken: they are too long to be guessed, and
 * an address may be shared with somebody who tries. */
static bool was_too_often(tci_host_req *r, int64_t *ret_wait_ms)
{
    tci_limit *l = &r->host->failing;
    return r->rc == TC_E_AUTH &&
           !tci_limit_take(l, &r->from, tci_loop_now_ms(r->host->loop), ret_wait_ms);
}

void tci_host_answer_refusal(tci_host_req *r)
{
    int64_t wait_ms;
    if (was_too_often(r, &wait_ms))
        answer_too_often(r, wait_ms);
    else
        tci_host_answer_failure(r);
}

static void on_worked(tci_host_op *op)
{
    tci_host_req *r = TCI_CONTAINER(op, tci_host_req, op);
    if (strcmp(r->route->method, "GET") != 0)
        tci_host_eip_records_changed(r->host);
    if (r->rc == 0)
        r->route->answer(r);
    else
        tci_host_answer_refusal(r);
    tci_host_release(r);
}

/* false: answered. */
static bool read_json(tci_host_req *r)
{
    if ((r->route->flags & TCI_ROUTE_JSON) == 0 || r->route->work == tci_host_pair_work)
        return true; /* what a device sends has a reader of its own */
    if (tci_json_parse(tci_buf_str(&r->body), 0, &r->arena, &r->json, &r->err) == 0 &&
        r->json.kind == TCI_JSON_OBJECT)
        return true;
    tci_host_answer_error(r, 400, "invalid_request", TC_STR("the body must be a JSON object"));
    return false;
}

static void go(tci_host_req *r)
{
    tci_host *h = r->host;
    if (!check_owner(r) || !read_json(r) || (r->route->check != NULL && !r->route->check(r)))
        return;
    if (r->route->work == NULL) {
        r->route->answer(r);
        return;
    }
    if (h->nwaiting >= TCI_HOST_WAITING_MAX) {
        answer_error_after(r, 503, "busy", TC_STR("too much to do; try again later"), 1000);
        return;
    }
    r->holds++;
    r->op = (tci_host_op){.work = on_work, .done = on_worked};
    tci_host_do(h, &r->op);
}

static void on_end(tci_httpd_req *request)
{
    tci_host_req *r = tci_httpd_data(request);
    r->holds++;
    if (r->exchange != NULL)
        tci_host_eip_end_of_body(r);
    else if (r->route != NULL)
        go(r);
    tci_host_release(r);
}

/* ---- reading ---- */

enum { BODY_WITHIN_MS = 15000 }; /* however slowly it drips */

/* A name that leads here for the time being (a page elsewhere can have its own name led to this machine, and ask
 * us as if it were ours) is not one of ours: an address, this machine, or the public URL's. Behind TLS the
 * certificate sees to it; a proxy knows its own names. */
static bool is_our_name(const tci_host *h, const tci_http_head *head)
{
    tc_str host;
    tci_addr numeric;
    tci_url ours;
    tc_err err;
    if (h->tls != NULL || h->is_behind_proxy ||
        !tci_http_head_get(head, TC_STR("host"), &host, NULL))
        return true;
    size_t end = tci_str_find_byte(host, ']');
    bool is_bracketed = tci_str_starts(host, TC_STR("[")) && end < host.len;
    tc_str name = is_bracketed ? tci_str_sub(host, 1, end - 1)
                               : tci_str_sub(host, 0, tci_str_find_byte(host, ':'));
    return tci_addr_parse_ip(name, &numeric) || tci_host_is_loopback(name) ||
           (tci_url_parse(h->url, TCI_URL_PATH, &ours, &err) == 0 &&
            tci_str_eq_nocase(name, tci_str(ours.host)));
}

/* The path below base, without the query; false: it is elsewhere. */
static bool find_path(const tci_host *h, tc_str target, tc_str *ret)
{
    tc_str path = tci_str_sub(target, 0, tci_str_find_byte(target, '?'));
    if (tci_str_starts(path, h->base))
        *ret = tci_str_sub(path, h->base.len, SIZE_MAX);
    else if (tci_str_starts(path, TC_STR("/"))) /* the proxy took the rest off */
        *ret = tci_str_sub(path, 1, SIZE_MAX);
    else
        return false;
    return true;
}

static bool has_type(const tci_http_head *head, tc_str want)
{
    tc_str type = {0};
    (void)tci_http_head_get(head, TC_STR("content-type"), &type, NULL); /* absent: the empty one */
    type = tci_str_trim(tci_str_sub(type, 0, tci_str_find_byte(type, ';')));
    return tci_str_eq_nocase(type, want);
}

/* Text in one line; false: it is not. */
static bool take_id(tci_host_req *r, tc_str part)
{
    size_t len = 0;
    char *out = tci_arena_bytes(&r->arena, part.len + 1);
    if (out == NULL || !decode(part, '+', out, &len))
        return false;
    r->id = tci_str_of(out, len);
    bool is_fine = tci_utf8_is_valid(r->id);
    for (size_t at = 0, n = 0; is_fine && at < len; at += n)
        is_fine = !tci_plain_is_control(tci_utf8_decode(tci_str_sub(r->id, at, SIZE_MAX), &n));
    return is_fine;
}

/* 0, or the status to refuse it with. */
static unsigned check_head(tci_host_req *r, const tci_http_head *head)
{
    tc_err err;
    tc_str path, id;
    bool is_known = false;
    if (!is_our_name(r->host, head))
        return 421;
    if (!find_path(r->host, head->target, &path))
        return 404;
    r->route = tci_host_route_find(head->method, path, &id, &is_known);
    if (r->route == NULL)
        return is_known ? 405 : 404;
    size_t mark = tci_str_find_byte(head->target, '?');
    if (!take_id(r, id))
        return 404;
    if (tci_arena_dup(&r->arena, tci_str_sub(head->target, mark + 1, SIZE_MAX), &r->query, &err) <
        0)
        return 500;
    if ((r->route->flags & TCI_ROUTE_JSON) != 0 && !has_type(head, TC_STR("application/json")))
        return 415;
    if ((r->route->flags & TCI_ROUTE_FORM) != 0 &&
        !has_type(head, TC_STR("application/x-www-form-urlencoded")))
        return 415;
    if ((r->route->flags & TCI_ROUTE_STREAM) != 0)
        return 0; /* it has limits of its own */
    return head->has_length && head->content_length > TCI_HOST_BODY_MAX ? 413 : 0;
}

static void refuse(tci_host_req *r, unsigned status)
{
    static const struct {
        unsigned status;
        const char *code, *message;
    } texts[] = {{404, "not_found", "there is nothing here"},
                 {405, "method_not_allowed", "not with this method"},
                 {413, "too_large", "the request is too long"},
                 {415, "unsupported_media_type", "not with this content type"},
                 {421, "misdirected", "this Host is not known by that name"},
                 {500, "internal", "out of memory"}};
    for (size_t i = 0; i < TCI_ARRAY_LEN(texts); i++)
        if (texts[i].status == status)
            tci_host_answer_error(r, status, texts[i].code, tci_str(texts[i].message));
}

static void on_head(tci_httpd_req *request)
{
    tci_host *h = tci_httpd_user(tci_httpd_of(request));
    tci_host_req *r = tci_new(tci_host_req);
    if (r == NULL) {
        tci_httpd_abort(request);
        return;
    }
    r->host = h;
    r->request = request;
    tci_arena_init(&r->arena, 0);
    tci_buf_init(&r->body, TCI_HOST_BODY_MAX);
    tci_httpd_set_data(request, r);
    r->holds++;
    find_address(r);
    unsigned status = check_head(r, tci_httpd_head(request));
    if (status != 0)
        refuse(r, status);
    else if ((r->route->flags & TCI_ROUTE_STREAM) != 0)
        tci_host_eip_head(r);
    else
        tci_httpd_body_within(request, BODY_WITHIN_MS);
    tci_host_release(r);
}

static void on_body(tci_httpd_req *request, tc_str bytes)
{
    tci_host_req *r = tci_httpd_data(request);
    r->holds++;
    if (r->exchange != NULL) {
        tci_host_eip_body(r, bytes);
    } else {
        tci_buf_append_str(&r->body, bytes);
        if (!tci_buf_ok(&r->body))
            refuse(r, r->body.failed == TC_E_TOO_BIG ? 413 : 500);
    }
    tci_host_release(r);
}

static void on_writable(tci_httpd_req *request)
{
    tci_host_req *r = tci_httpd_data(request);
    r->holds++;
    tci_host_eip_writable(r);
    tci_host_release(r);
}

const tci_httpd_handler tci_host_handler = {.on_head = on_head,
                                            .on_body = on_body,
                                            .on_end = on_end,
                                            .on_writable = on_writable,
                                            .on_done = on_done};
