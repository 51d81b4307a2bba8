/* SPDX-License-Identifier: Apache-2.0
 *
 * One question to a Host and its answer. What is asked is for others. The main thread, with a loop of its own for
 * as long as it takes. Invariant: the token goes nowhere but into the Authorization field of that one request. */
#include "host.h"

#include "base/num.h"
#include "net/http_dial.h"
#include "net/url.h"
#include "plat/call.h"
#include "plat/clock.h"

enum { ANSWER_MAX = 16 * 1024 * 1024, LOOK_MS = 100 };

typedef struct asking {
    unsigned status;
    tci_buf body;
    bool is_done;
    int rc;
    tc_err *err;
} asking;

static void on_head(tci_http_call *call, const tci_http_head *head)
{
    asking *q = tci_http_call_user(call);
    q->status = head->status;
}

static void on_body(tci_http_call *call, tc_str bytes)
{
    asking *q = tci_http_call_user(call);
    tci_buf_append_str(&q->body, bytes);
}

static void on_done(tci_http_call *call, int result, bool not_sent, const tc_err *err)
{
    asking *q = tci_http_call_user(call);
    TCI_UNUSED(not_sent);
    q->is_done = true;
    q->rc = result;
    if (result < 0)
        *q->err = *err;
}

static const tci_http_call_handler handler = {
    .on_head = on_head, .on_body = on_body, .on_done = on_done};

/* Until it is done; Ctrl-C ends it. */
static int wait(cli *c, tci_loop *loop, tci_http_call *call, asking *q, tc_err *err)
{
    while (!q->is_done) {
        tci_loop_turn(loop, LOOK_MS);
        if (!q->is_done && tci_ctx_check(c->ctx, err) < 0) {
            tc_err why = *err;
            tci_http_call_cancel(call);
            *err = why;
            return why.code;
        }
    }
    return q->rc;
}

static int ask(cli *c, const host_at *at, const char *method, tc_str path, tc_str body,
               tci_loop *loop, tci_tls_ctx *tls, asking *q, tc_err *err)
{
    tci_url url;
    tc_str target, bearer;
    tci_http_net_dialler dialler;
    tci_http_client *client;
    tci_http_call *call;
    tci_http_header headers[3];
    size_t n = 0;
    if (tci_url_parse(at->url, TCI_URL_PATH, &url, err) < 0 ||
        tci_arena_printf(&c->arena, &target, err, "%.*s%.*s", TC_STR_ARG(url.path),
                         TC_STR_ARG(path)) < 0 ||
        tci_arena_printf(&c->arena, &bearer, err, "Bearer %.*s", TC_STR_ARG(at->token)) < 0)
        return err->code;
    headers[n++] = (tci_http_header){TC_STR("Accept"), TC_STR("application/json")};
    if (at->token.len > 0)
        headers[n++] = (tci_http_header){TC_STR("Authorization"), bearer};
    if (body.len > 0)
        headers[n++] = (tci_http_header){TC_STR("Content-Type"), TC_STR("application/json")};
    tci_http_net_dialler_init(&dialler, loop, tls, true, 0);
    tci_http_client_options options = {.dialler = &dialler.base};
    tci_http_request request = {
        .scheme = url.is_tls ? TC_STR("https") : TC_STR("http"),
        .host = tci_str(url.host),
        .port = url.port,
        .method = tci_str(method),
        .target = target,
        .headers = headers,
        .nheaders = n,
        .body = body,
        .deadline_ns = tci_add_ns(tci_clock_mono_ns(), tci_ms_to_ns(HOST_CALL_TIMEOUT_MS)),
        .handler = &handler,
        .user = q};
    int rc = tci_http_client_new(loop, &options, &client, err);
    if (rc < 0)
        return rc;
    rc = tci_http_call_start(client, &request, &call, err);
    if (rc == 0)
        rc = wait(c, loop, call, q, err);
    tci_http_client_free(client);
    tci_mem_wipe((void *)(uintptr_t)bearer.ptr, bearer.len); /* ours: in the arena */
    return rc;
}

/* What the Host says went wrong. */
static int refused(const host_at *at, unsigned status, const tci_json *v, tc_err *err)
{
    static const struct {
        unsigned status;
        tc_code code;
    } codes[] = {{400, TC_E_INVALID},   {401, TC_E_AUTH},     {403, TC_E_DENIED},
                 {404, TC_E_NOT_FOUND}, {409, TC_E_CONFLICT}, {410, TC_E_TIMEOUT},
                 {429, TC_E_BUSY},      {500, TC_E_IO},       {503, TC_E_BUSY}};
    tc_code code = TC_E_PROTOCOL;
    const tci_json *error = tci_json_get(v, TC_STR("error"));
    tc_str message = tci_json_str_member(error, "message");
    for (size_t i = 0; i < TCI_ARRAY_LEN(codes); i++)
        code = codes[i].status == status ? codes[i].code : code;
    if (message.len == 0)
        return tc_err_set(err, TC_E_PROTOCOL, "'%.*s' answered with status %u, not as a Host does",
                          TC_STR_ARG(at->url), status);
    (void)tc_err_set(err, code, "%.*s", TC_STR_ARG(message));
    if (code == TC_E_AUTH && at->token.len > 0)
        (void)tc_err_hint(err, "telechir host login %.*s", TC_STR_ARG(at->url));
    return code;
}

static int read_answer(cli *c, const host_at *at, const asking *q, tci_json *ret, tc_err *err)
{
    tc_str text;
    tc_err bad;
    tci_json v = {.kind = TCI_JSON_NULL};
    if (tci_buf_error(&q->body, err) < 0 ||
        tci_arena_dup(&c->arena, tci_buf_str(&q->body), &text, err) < 0)
        return err->code;
    bool is_json = tci_json_parse(text, 0, &c->arena, &v, &bad) == 0 && v.kind == TCI_JSON_OBJECT;
    if (q->status < 200 || q->status > 299)
        return refused(at, q->status, is_json ? &v : NULL, err);
    if (!is_json)
        return tc_err_set(err, TC_E_PROTOCOL, "'%.*s' does not answer as a Host does",
                          TC_STR_ARG(at->url));
    *ret = v;
    return 0;
}

static int tls_of(cli *c, const host_at *at, tci_tls_ctx **ret, tc_err *err)
{
    char *ca_file = NULL;
    if (!tci_str_starts(at->url, TC_STR("https:")))
        return 0;
    if (at->ca_file.len > 0 && tci_arena_cstr(&c->arena, at->ca_file, &ca_file, err) < 0)
        return err->code;
    tci_tls_client_options options = {.ca_pem_path = ca_file,
                                      .insecure_no_verify = at->is_insecure};
    return tci_tls_ctx_new_client(&options, ret, err);
}

int host_call(cli *c, const host_at *at, const char *method, tc_str path, tc_str body,
              tci_json *ret, tc_err *err)
{
    tci_loop *loop = NULL;
    tci_tls_ctx *tls = NULL;
    asking q = {.err = err};
    tci_buf_init(&q.body, ANSWER_MAX);
    int rc = tls_of(c, at, &tls, err);
    if (rc == 0)
        rc = tci_loop_new(&loop, err);
    if (rc == 0)
        rc = ask(c, at, method, path, body, loop, tls, &q, err);
    if (rc < 0 && rc != TC_E_CANCELLED) {
        (void)tc_err_wrap(err, "cannot ask the Host '%.*s'", TC_STR_ARG(at->url));
        if (rc ==
            TC_E_TIMEOUT) /* nobody is there who answers; what the Host says is too late is another thing */
            rc = tc_err_recode(err, TC_E_CONNECT);
    }
    if (rc == 0)
        rc = read_answer(c, at, &q, ret, err);
    tci_loop_free(loop);
    tci_tls_ctx_free(tls);
    tci_buf_done(&q.body);
    return rc;
}
