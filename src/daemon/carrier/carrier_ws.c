/* SPDX-License-Identifier: Apache-2.0
 *
 * Dials the Host, again and again: credential, connection, upgrade, and what a failure means. Leaves one
 * connection to carrier_ws_link.c, HTTP and TLS to net. Loop thread; files are read by a job.
 *
 * Invariant: at most one of these is there: a job, a dial, a link, an armed back-off; none only while
 * stopping. The drain begins in a turn's end or from outside, never inside a call of the HTTP client. */
#include "daemon/carrier/carrier_ws.h"

#include "base/log.h"
#include "base/num.h"
#include "daemon/carrier/carrier_ws_int.h"
#include "daemon/transfer.h"
#include "plat/clock.h"

#include <stdarg.h>
#include <stdio.h>

#define SUBPROTOCOL TC_STR("eip.v1")

enum { BACKOFF_FIRST_MS = 250, BACKOFF_MAX_MS = 30000, KEPT_BYTES_MAX = 32 * 1024 * 1024 };

static void begin_attempt(tci_ws_carrier *s);

/* ---- the end ---- */

static void service_unref(tci_ws_carrier *s)
{
    if (--s->refs > 0)
        return;
    tci_secret_done(&s->credential);
    tci_tls_ctx_free(s->tls);
    tci_free(s);
}

static void end(tci_ws_carrier *s)
{
    if (s->is_ended)
        return;
    s->is_ended = true;
    tci_later_cancel(&s->step);
    for (tci_link *k; (k = tci_list_first(&s->lost)) != NULL;)
        tci_ws_link_forget(TCI_CONTAINER(k, tci_ws_link, link));
    tci_http_client_free(s->http);
    s->http = NULL;
    void (*on_end)(void *, int, tc_str) = s->on_end;
    void *user = s->user;
    int status = s->status;
    char message[TC_ERR_MSG_MAX];
    memcpy(message, s->message, sizeof message);
    service_unref(s);
    on_end(user, status, tci_str(message));
}

void tci_ws_carrier_fail(tci_ws_carrier *s, const char *fmt, ...)
{
    va_list args;
    if (s->status == 0) {
        s->status = 1;
        va_start(args, fmt);
        (void)vsnprintf(s->message, sizeof s->message, fmt, args);
        va_end(args);
    }
    s->is_stopping = true;
    if (!s->is_draining && !s->is_ended)
        tci_loop_later(s->device->loop, &s->step);
}

static void on_drained(tci_drain *drain, bool is_clean)
{
    tci_ws_carrier *s = TCI_CONTAINER(drain, tci_ws_carrier, drain);
    s->is_drained = true;
    if (!is_clean)
        tci_ws_carrier_fail(s, "Device cleanup incomplete");
    if (s->link == NULL)
        end(s);
    else
        tci_ws_close(s->link->ws, TCI_WS_CODE_AWAY, TC_STR("")); /* what is queued goes first */
}

void tci_ws_carrier_drain(tci_ws_carrier *s)
{
    if (s->is_draining)
        return;
    s->is_draining = true;
    tci_timer_stop(&s->backoff);
    tci_ws_dial_cancel(s->dial);
    s->dial = NULL;
    s->drain.done = on_drained;
    s->refs++;
    tci_device_drain(s->device, &s->drain);
    if (!s->is_ended && s->link != NULL)
        tci_ws_link_let_go(s->link);
    service_unref(s);
}

static void on_step(tci_later *later)
{
    tci_ws_carrier_drain(TCI_CONTAINER(later, tci_ws_carrier, step));
}

/* ---- between two attempts ---- */

static uint64_t random_upto(void *arg, uint64_t max)
{
    uint64_t v;
    TCI_UNUSED(arg);
    tci_random_bytes(&v, sizeof v);
    return v % (max + 1); /* 64 bits for a few thousand values: no one can tell the difference */
}

static void on_backoff(tci_timer *t)
{
    begin_attempt(TCI_CONTAINER(t, tci_ws_carrier, backoff));
}

static void complain(tci_ws_carrier *s, const char *why)
{
    if (!s->has_complained)
        tci_log(TCI_LOG_WARN, "no connection to the Host, trying again: %s", why);
    s->has_complained = true;
}

static void try_later(tci_ws_carrier *s)
{
    tc_err err;
    uint64_t delay_ms = s->options.random_upto(s->options.arg, s->backoff_ms);
    if (s->is_stopping || s->is_draining)
        return;
    s->backoff_ms = tci_min_u64(2 * s->backoff_ms, BACKOFF_MAX_MS);
    if (tci_timer_start(&s->backoff, (int64_t)delay_ms, &err) < 0)
        tci_ws_carrier_fail(s, "%s", err.msg);
}

void tci_ws_carrier_lost(tci_ws_carrier *s, int64_t lived_ms)
{
    if (s->is_drained) {
        end(s);
        return;
    }
    if (lived_ms >= s->options.settled_ms)
        s->backoff_ms = BACKOFF_FIRST_MS;
    try_later(s);
}

/* ---- what a failed attempt means ---- */

static bool is_transient_status(unsigned status)
{
    static const unsigned transient[] = {408, 425, 429, 500, 502, 503, 504};
    for (size_t i = 0; i < TCI_ARRAY_LEN(transient); i++)
        if (transient[i] == status)
            return true;
    return false;
}

static void refused(tci_ws_carrier *s, unsigned status)
{
    if (status == 401 || status == 403)
        tci_ws_carrier_fail(s, "reverse WebSocket attachment authorization failed");
    else if (status / 100 == 3)
        tci_ws_carrier_fail(s, "reverse WebSocket redirect is forbidden");
    else
        tci_ws_carrier_fail(s, "reverse WebSocket upgrade was rejected (status %u)", status);
}

static void failed(tci_ws_carrier *s, const tci_ws_dialled *r)
{
    int code = (int)r->err.code;
    if (r->status != 0 && !is_transient_status(r->status))
        refused(s, r->status);
    else if (code == TC_E_UNTRUSTED || (code == TC_E_PROTOCOL && s->url.is_tls && !r->was_asked))
        tci_ws_carrier_fail(s, "reverse WebSocket TLS validation failed: %s", r->err.msg);
    else if (code == TC_E_AUTH)
        tci_ws_carrier_fail(s, "reverse WebSocket proxy authorization failed");
    else if (code == TC_E_PROTOCOL || code == TC_E_PARSE || code == TC_E_UNSUPPORTED ||
             code == TC_E_TOO_BIG)
        tci_ws_carrier_fail(s, "reverse WebSocket upgrade is incompatible: %s", r->err.msg);
    else if (code == TC_E_INVALID)
        tci_ws_carrier_fail(s, "%s", r->err.msg);
    else {
        complain(s, r->err.msg);
        try_later(s);
    }
}

/* ---- an attempt ---- */

static void on_dialled(void *user, const tci_ws_dialled *r)
{
    tci_ws_carrier *s = user;
    s->dial = NULL;
    if (r->ws == NULL) {
        failed(s, r);
        return;
    }
    s->link = tci_ws_link_new(s, r->ws);
    if (s->link == NULL) {
        tci_ws_free(r->ws);
        try_later(s);
    }
}

/* What is under way of one upload comes back at once, when a job has written it. */
static size_t kept_bytes(const tci_limits *l)
{
    uint64_t most = tci_min_u64(l->max_transfer_frame_bytes, KEPT_BYTES_MAX / TCI_TRANSFER_WINDOW);
    return (size_t)(TCI_TRANSFER_WINDOW * most);
}

static int dial(tci_ws_carrier *s, tc_err *err)
{
    const tci_limits *l = &s->device->config->limits;
    const tci_ws_carrier_options *o = &s->options;
    tci_buf bearer;
    tci_buf_init(&bearer, TCI_BUF_MAX);
    tci_buf_append_str(&bearer, TC_STR("Bearer "));
    tci_buf_append_str(&bearer, tci_secret_str(&s->credential));
    tci_http_header authorization = {TC_STR("Authorization"), tci_buf_str(&bearer)};
    tci_ws_dial_options d = {.url = &s->url,
                             .subprotocol = SUBPROTOCOL,
                             .headers = &authorization,
                             .nheaders = 1,
                             .timeout_ms = o->connect_ms,
                             .ws = {.handler = &tci_ws_link_handler,
                                    .user = s,
                                    .max_text_bytes = l->max_request_bytes,
                                    .max_binary_bytes = l->max_transfer_frame_bytes,
                                    .max_kept_bytes = kept_bytes(l),
                                    .ping_interval_ms = o->ping_interval_ms,
                                    .pong_timeout_ms = o->pong_timeout_ms,
                                    .send_timeout_ms = o->send_timeout_ms,
                                    .closes_without_code = true}};
    s->dialler.tls = s->tls;
    int rc = tci_buf_error(&bearer, err);
    if (rc == 0)
        rc = tci_ws_dial_open(s->device->loop, s->http, &d, on_dialled, s, &s->dial, err);
    tci_mem_wipe(bearer.ptr, bearer.len);
    tci_buf_done(&bearer);
    return rc;
}

/* Worker: what may have changed since the last attempt, and, once, the certificates to trust. */
static void read_files(tci_job *job)
{
    tci_ws_carrier *s = TCI_CONTAINER(job, tci_ws_carrier, job);
    const tci_config *c = s->device->config;
    tc_err *err = &s->job_err;
    tci_secret_done(&s->credential);
    s->credential = (tci_secret){0};
    s->job_rc = tci_config_read_credential(c->ws_credential_name, c->ws_credential_file,
                                           &s->credential, err);
    if (s->job_rc < 0 || !s->url.is_tls || s->tls != NULL)
        return;
    tci_tls_client_options o = {.ca_pem_path = c->ws_ca_file.len > 0 ? c->ws_ca_file.ptr : NULL};
    s->job_rc = tci_tls_ctx_new_client(&o, &s->tls, err);
}

static void files_read(tci_job *job)
{
    tci_ws_carrier *s = TCI_CONTAINER(job, tci_ws_carrier, job);
    tc_err err = s->job_err;
    int rc = s->job_rc;
    if (!s->is_stopping && !s->is_draining) {
        bool is_fatal = rc < 0 && rc != TC_E_NO_MEMORY;
        if (rc == 0)
            rc = dial(s, &err);
        if (is_fatal || rc == TC_E_INVALID)
            tci_ws_carrier_fail(s, "%s", err.msg);
        else if (rc < 0)
            try_later(s);
    }
    service_unref(s);
}

static void begin_attempt(tci_ws_carrier *s)
{
    s->refs++;
    s->job.work = read_files;
    s->job.done = files_read;
    tci_job_submit(s->device->loop, TCI_JOB_QUICK, &s->job);
}

/* ---- begin ---- */

static void set_options(tci_ws_carrier_options *to, const tci_ws_carrier_options *from)
{
    static const tci_ws_carrier_options documented = {.connect_ms = 10000,
                                                      .first_message_ms = 30000,
                                                      .ping_interval_ms = 20000,
                                                      .pong_timeout_ms = 10000,
                                                      .send_timeout_ms = 10000,
                                                      .in_flight_ms = 1000,
                                                      .settled_ms = 60000,
                                                      .random_upto = random_upto};
    *to = documented;
    if (from == NULL)
        return;
#define TAKE(field)       \
    if (from->field != 0) \
    to->field = from->field
    TAKE(connect_ms);
    TAKE(first_message_ms);
    TAKE(ping_interval_ms);
    TAKE(pong_timeout_ms);
    TAKE(send_timeout_ms);
    TAKE(in_flight_ms);
    TAKE(settled_ms);
#undef TAKE
    if (from->random_upto != NULL)
        to->random_upto = from->random_upto;
    to->arg = from->arg;
}

int tci_ws_carrier_open(tci_device *device, const tci_ws_carrier_options *options,
                        void (*on_end)(void *user, int status, tc_str message), void *user,
                        tci_ws_carrier **ret, tc_err *err)
{
    tci_loop *loop = device->loop;
    tci_ws_carrier *s = tci_new(tci_ws_carrier);
    if (s == NULL)
        return tci_err_no_memory(err);
    s->device = device;
    s->refs = 1;
    s->on_end = on_end;
    s->user = user;
    s->backoff_ms = BACKOFF_FIRST_MS;
    s->step.cb = on_step;
    tci_list_init(&s->lost);
    tci_timer_init(&s->backoff, loop, on_backoff);
    set_options(&s->options, options);
    tci_http_net_dialler_init(&s->dialler, loop, NULL, true, s->options.connect_ms);
    tci_http_client_options o = {.dialler = &s->dialler.base};
    int rc = tci_url_parse(device->config->ws_url, TCI_URL_PATH, &s->url, err);
    if (rc == 0)
        rc = tci_http_client_new(loop, &o, &s->http, err);
    if (rc < 0) {
        service_unref(s);
        return rc;
    }
    begin_attempt(s);
    *ret = s;
    return 0;
}
