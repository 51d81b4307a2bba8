/* SPDX-License-Identifier: Apache-2.0
 *
 * The talk with a Host until somebody has approved: one POST after the other, each on a connection of its
 * own. Leaves what the answers mean to connect_answer.c and what is kept to connect_state.c. The calling
 * thread is the loop's.
 *
 * Invariant: a request under way, an armed timer or a step that is due: one of them is there until the end,
 * and finish is called once. */
#include "daemon/connect/connect_int.h"

#include "base/json.h"
#include "base/num.h"
#include "loop/loop.h"
#include "net/http_dial.h"
#include "net/url.h"
#include "plat/clock.h"
#include "plat/proc.h"

#include <stdio.h>

#define CLOSE_NS INT64_C(1000000000)

typedef struct pairing {
    tci_loop *loop;
    tci_connect_state *state;
    const tci_connect_options *options;
    tci_arena *arena; /* of what is kept */
    tci_url base;
    tci_tls_ctx *tls;
    tci_http_net_dialler dialler;
    tci_http_client *client;
    tci_http_call *call;
    tci_buf target, body, bearer, answer;
    unsigned status; /* of the answer; 0: none */
    bool has_enough; /* of the answer's body: the rest will not change a thing */
    int result;      /* of the call */
    tc_err call_err;
    tci_later step;
    tci_timer poll, limit;
    tci_signal intr, term;
    char code[TCI_PAIR_CODE_MAX + 1]; /* what was shown last */
    bool is_over;
    int rc;
    tc_err *err;
} pairing;

static void finish(pairing *p, int rc)
{
    if (p->is_over)
        return;
    p->is_over = true;
    p->rc = rc;
    tci_later_cancel(&p->step);
    tci_timer_stop(&p->poll);
    tci_timer_stop(&p->limit);
    tci_loop_stop(p->loop);
}

/* ---- one request ---- */

static void on_head(tci_http_call *call, const tci_http_head *head)
{
    pairing *p = tci_http_call_user(call);
    p->status = head->status;
}

static size_t room(const pairing *p)
{
    return p->status / 100 == 2 ? TCI_PAIR_ANSWER_MAX : TCI_PAIR_REFUSAL_MAX;
}

static void on_body(tci_http_call *call, tc_str bytes)
{
    pairing *p = tci_http_call_user(call);
    if (p->has_enough)
        return;
    tci_buf_append_str(&p->answer, tci_str_sub(bytes, 0, room(p) + 1 - p->answer.len));
    p->has_enough = p->answer.len > room(p) || !tci_buf_ok(&p->answer);
    if (p->has_enough)
        tci_loop_later(p->loop, &p->step);
}

static void on_done(tci_http_call *call, int result, bool not_sent, const tc_err *err)
{
    pairing *p = tci_http_call_user(call);
    TCI_UNUSED(not_sent);
    p->call = NULL;
    p->result = result;
    if (result < 0)
        p->call_err = *err;
    if (!p->is_over)
        tci_loop_later(p->loop, &p->step);
}

static const tci_http_call_handler handler = {
    .on_head = on_head, .on_body = on_body, .on_done = on_done};

static void ask(pairing *p)
{
    const tci_http_header headers[] = {
        {TC_STR("authorization"), tci_buf_str(&p->bearer)},
        {TC_STR("content-type"), TC_STR("application/json")},
    };
    tci_http_request r = {.scheme = tci_str(tci_url_scheme_name(p->base.scheme)),
                          .host = tci_str(p->base.host),
                          .port = p->base.port,
                          .method = TC_STR("POST"),
                          .target = tci_buf_str(&p->target),
                          .headers = headers,
                          .nheaders = TCI_ARRAY_LEN(headers),
                          .body = tci_buf_str(&p->body),
                          .deadline_ns =
                              tci_clock_mono_ns() + tci_ms_to_ns((uint64_t)p->options->request_ms),
                          .handler = &handler,
                          .user = p};
    tci_buf_clear(&p->answer);
    p->status = 0;
    p->has_enough = false;
    p->result = 0;
    if (tci_http_call_start(p->client, &r, &p->call, p->err) < 0)
        finish(p, p->err->code);
}

static void on_poll(tci_timer *t)
{
    ask(TCI_CONTAINER(t, pairing, poll));
}

/* ---- what came of it ---- */

static void TC_PRINTF(2, 3) say(const pairing *p, const char *fmt, ...)
{
    char line[TCI_CONNECT_URL_MAX * 4];
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    if (n > 0 && p->options->say != NULL)
        p->options->say(p->options->user, tci_str(line));
}

static int failed(pairing *p)
{
    tc_err *err = p->err;
    *err = p->call_err;
    if (p->result == TC_E_TIMEOUT) {
        (void)tc_err_set(err, TC_E_TIMEOUT, "Host pairing request timed out");
        return tc_err_hint(err, "is the address right, and can this computer reach it?");
    }
    (void)tc_err_wrap(err, "cannot ask the Host to pair");
    if (p->result == TC_E_UNTRUSTED)
        return tc_err_hint(err, "for a Host with a private certificate authority name its "
                                "certificate with --ca-file");
    if (tci_host_is_loopback(tci_str(p->base.host)))
        return tc_err_hint(err,
                           "'%s' is this computer: to reach a Host on another one, use a name "
                           "that leads there",
                           p->base.host);
    if (p->result == TC_E_PROTOCOL && p->base.is_tls)
        return tc_err_hint(err, "does the Host speak HTTPS on this port?");
    return (int)err->code;
}

static int wait_for_approval(pairing *p, const tci_pair_answer *answer, tci_arena *a)
{
    tc_str url;
    tc_str code = answer->verification_code;
    if (!tci_str_eq(tci_str(p->code), code)) {
        (void)snprintf(p->code, sizeof p->code, "%.*s", TC_STR_ARG(code));
        say(p, "Approve this envd in the Host's device settings. Verification code: %s", p->code);
        if (answer->approval_url.len > 0) {
            if (tci_connect_approval_url(p->state->record.url, answer->approval_url, a, &url,
                                         p->err) < 0)
                return p->err->code;
            if (url.len > 0)
                say(p, "Open: %.*s", TC_STR_ARG(url));
        }
    }
    return tci_timer_start(&p->poll, (int64_t)answer->poll_after_s * p->options->second_ms, p->err);
}

static int keep_registration(pairing *p, const tci_pair_answer *answer)
{
    tc_str url;
    tci_connect_record *r = &p->state->record;
    if (tci_connect_socket_url(r->url, answer->websocket_url, p->arena, &url, p->err) < 0 ||
        tci_arena_printf(p->arena, &r->resource_id, p->err, "%.*s",
                         TC_STR_ARG(answer->resource_id)) < 0 ||
        tci_arena_printf(p->arena, &r->websocket_url, p->err, "%.*s",
                         TC_STR_ARG(answer->websocket_url)) < 0)
        return p->err->code;
    r->is_registered = true;
    return 0;
}

static int judge(pairing *p, tci_arena *a)
{
    tci_pair_answer answer;
    tc_str body = tci_buf_str(&p->answer);
    bool is_good = p->status / 100 == 2;
    if (p->result < 0 && !p->has_enough)
        return failed(p);
    if (!is_good)
        return tci_pair_refused(p->status, body, tci_secret_str(&p->state->credential), p->err);
    if (p->has_enough)
        return tc_err_set(p->err, TC_E_TOO_BIG, "Host's pairing response is larger than %d bytes",
                          TCI_PAIR_ANSWER_MAX);
    if (tci_pair_answer_read(body, a, &answer, p->err) < 0)
        return p->err->code;
    if (!answer.is_approved)
        return wait_for_approval(p, &answer, a);
    int rc = keep_registration(p, &answer);
    if (rc == 0)
        finish(p, 0);
    return rc;
}

/* Outside of every callback of the HTTP client. */
static void on_step(tci_later *later)
{
    pairing *p = TCI_CONTAINER(later, pairing, step);
    tci_arena a;
    if (p->is_over)
        return;
    if (p->call != NULL) { /* more than enough came */
        tci_http_call_cancel(p->call);
        tci_later_cancel(&p->step);
    }
    tci_http_client_drop_idle(p->client); /* the next request has a connection of its own */
    tci_arena_init(&a, 0);
    int rc = judge(p, &a);
    tci_arena_done(&a);
    if (rc < 0)
        finish(p, rc);
}

/* ---- how it may end otherwise ---- */

static void on_limit(tci_timer *t)
{
    pairing *p = TCI_CONTAINER(t, pairing, limit);
    int rc = tc_err_set(p->err, TC_E_TIMEOUT, "pairing expired; run connect again");
    finish(p, rc);
}

static void cancelled(pairing *p)
{
    int rc = tc_err_set(p->err, TC_E_CANCELLED, "pairing cancelled; saved Host is retained");
    finish(p, rc);
}

static void on_intr(tci_signal *sig, int signum)
{
    TCI_UNUSED(signum);
    cancelled(TCI_CONTAINER(sig, pairing, intr));
}

static void on_term(tci_signal *sig, int signum)
{
    TCI_UNUSED(signum);
    cancelled(TCI_CONTAINER(sig, pairing, term));
}

/* ---- all of it ---- */

static int prepare(pairing *p)
{
    const tci_connect_record *r = &p->state->record;
    bool first = true;
    if (tci_url_parse(r->url, TCI_URL_PATH, &p->base, p->err) < 0)
        return p->err->code;
    tci_buf_printf(&p->target, "%.*sapi/envd/pair", TC_STR_ARG(p->base.path));
    tci_buf_append_byte(&p->body, '{');
    tci_json_put_member(&p->body, &first, "device_id", p->state->device_id);
    tci_json_put_member(&p->body, &first, "name", r->name);
    tci_buf_append_byte(&p->body, '}');
    tci_buf_printf(&p->bearer, "Bearer %.*s", TC_STR_ARG(tci_secret_str(&p->state->credential)));
    if (tci_buf_error(&p->target, p->err) < 0 || tci_buf_error(&p->body, p->err) < 0 ||
        tci_buf_error(&p->bearer, p->err) < 0)
        return p->err->code;
    if (!p->base.is_tls)
        return 0;
    tci_tls_client_options o = {.ca_pem_path = r->ca_file.len > 0 ? r->ca_file.ptr : NULL};
    if (tci_tls_ctx_new_client(&o, &p->tls, p->err) < 0)
        return tc_err_wrap(p->err, "cannot use the certificates");
    return 0;
}

static int begin(pairing *p)
{
    const tci_connect_options *o = p->options;
    tci_http_net_dialler_init(&p->dialler, p->loop, p->tls, true, o->request_ms);
    tci_http_client_options client = {.dialler = &p->dialler.base};
    p->step.cb = on_step;
    tci_timer_init(&p->poll, p->loop, on_poll);
    tci_timer_init(&p->limit, p->loop, on_limit);
    if (tci_http_client_new(p->loop, &client, &p->client, p->err) < 0 ||
        tci_signal_open(&p->intr, p->loop, TCI_SIG_INT, on_intr, p->err) < 0 ||
        tci_signal_open(&p->term, p->loop, TCI_SIG_TERM, on_term, p->err) < 0)
        return p->err->code;
    return tci_timer_start(&p->limit, o->limit_ms, p->err);
}

/* What still hangs (the lookup of a name) is left to the end of the process, after a second. */
static void close_loop(pairing *p)
{
    int64_t until_ns = tci_clock_mono_ns() + CLOSE_NS;
    tci_signal_close(&p->intr);
    tci_signal_close(&p->term);
    tci_http_client_free(p->client);
    while (tci_loop_pending_jobs(p->loop) > 0 && tci_clock_mono_ns() < until_ns)
        tci_loop_turn(p->loop, 100);
    if (tci_loop_pending_jobs(p->loop) == 0)
        tci_loop_free(p->loop);
}

int tci_connect_pair(tci_connect_state *s, const tci_connect_options *options, tci_arena *a,
                     tc_err *err)
{
    pairing p = {.state = s, .options = options, .arena = a, .err = err};
    tci_buf *bufs[] = {&p.target, &p.body, &p.bearer, &p.answer};
    for (size_t i = 0; i < TCI_ARRAY_LEN(bufs); i++)
        tci_buf_init(bufs[i], TCI_BUF_MAX);
    p.rc = prepare(&p);
    if (p.rc == 0)
        p.rc = tci_loop_new(&p.loop, err);
    if (p.rc == 0) {
        p.rc = begin(&p);
        if (p.rc == 0) {
            ask(&p);
            tci_loop_run(p.loop);
        }
        p.is_over = true;
        close_loop(&p);
    }
    tci_tls_ctx_free(p.tls);
    for (size_t i = 0; i < TCI_ARRAY_LEN(bufs); i++) {
        if (bufs[i]->ptr != NULL)
            tci_mem_wipe(bufs[i]->ptr, bufs[i]->cap);
        tci_buf_done(bufs[i]);
    }
    return p.rc;
}
