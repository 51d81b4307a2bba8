/* SPDX-License-Identifier: Apache-2.0
 *
 * The Host's life: opening, listening, the queue of work on its records, closing. Leaves requests to request.c.
 * Opening and closing on a thread of the program's, the rest on the runtime's loop. Invariant: the records are
 * worked on by one piece of work at a time, and by nobody else between open and close. */
#include "host/host_int.h"

#include "net/url.h"
#include "plat/clock.h"
#include "plat/system.h"

#include <stdio.h>

enum {
    TLS_HANDSHAKE_MS = 10000,
    CONNECTIONS_MAX = 1024, /* that ask something; at least: */
    CONNECTIONS_MIN = 64,
    /* At once, and one more in so many milliseconds, for each address: */
    ASKING = 200,
    ASKING_MS = 100,
    BEGINNING = 12,
    BEGINNING_MS = 30000,
    FAILING = 20,
    FAILING_MS = 6000
};

int64_t tci_host_now_ms(void)
{
    tci_instant now = tci_clock_now();
    return now.sec * 1000 + now.nsec / 1000000;
}

void tci_host_trouble(tci_host *h, const tc_err *err)
{
    if (h->on_trouble != NULL)
        h->on_trouble(h->user, err);
}

/* ---- work on the records ---- */

static void maybe_ended(tci_host *h)
{
    if (!h->is_drained || h->is_working || h->nwaiting > 0 || !tci_list_is_empty(&h->linked) ||
        !tci_list_is_empty(&h->browsing) || !tci_host_eip_is_idle(h))
        return;
    atomic_store(&h->is_ended, true);
    tci_wake_all(&h->ended);
}

static void start_first(tci_host *h);

static void on_work(tci_job *job)
{
    tci_host_op *op = TCI_CONTAINER(job, tci_host_op, job);
    op->work(op);
}

static void on_worked(tci_job *job)
{
    tci_host_op *op = TCI_CONTAINER(job, tci_host_op, job);
    tci_host *h = op->host;
    op->done(op); /* nothing else begins meanwhile; op may be gone */
    h->is_working = false;
    start_first(h);
    maybe_ended(h);
}

static void start_first(tci_host *h)
{
    tci_link *k = h->is_working ? NULL : tci_list_pop_front(&h->waiting);
    if (k == NULL)
        return;
    tci_host_op *op = TCI_CONTAINER(k, tci_host_op, link);
    h->is_working = true;
    h->nwaiting--;
    op->job = (tci_job){.work = on_work, .done = on_worked};
    tci_job_submit(h->loop, TCI_JOB_QUICK, &op->job);
}

void tci_host_do(tci_host *h, tci_host_op *op)
{
    tci_loop_assert(h->loop);
    op->host = h;
    tci_list_push_back(&h->waiting, &op->link);
    h->nwaiting++;
    start_first(h);
}

void tci_host_links_ended(tci_host *h)
{
    maybe_ended(h);
}

/* ---- opening ---- */

static int check_bind(const tci_host_options *o, tci_addr *ret, tc_err *err)
{
    bool has_tls = o->cert_file.len > 0 && o->key_file.len > 0;
    if (tci_addr_parse(o->bind, ret, err) < 0)
        return tc_err_hint(err, "an address and a port: 127.0.0.1:8787, [::1]:8787");
    if ((o->cert_file.len > 0) != (o->key_file.len > 0))
        return tc_err_set(err, TC_E_INVALID, "a certificate and its key are needed, both");
    if (has_tls || o->is_behind_proxy || tci_addr_is_loopback(ret))
        return 0;
    (void)tc_err_set(err, TC_E_INVALID, "'%.*s' is reached by others, and nothing is encrypted",
                     TC_STR_ARG(o->bind));
    return tc_err_hint(err, "give a certificate (--tls-cert, --tls-key), or --behind-proxy when a "
                            "proxy in front of it ends TLS");
}

/* url and base from what the operator says: a slash at the end of both. */
static int take_public_url(tci_host *h, tc_str text, tc_err *err)
{
    tci_url url;
    char authority[TCI_URL_AUTHORITY_MAX];
    int rc = tci_url_parse(text, TCI_URL_PATH, &url, err);
    if (rc == 0 && url.scheme != TCI_URL_HTTP && url.scheme != TCI_URL_HTTPS)
        rc = tc_err_set(err, TC_E_INVALID, "the public URL must be http or https");
    if (rc < 0)
        return rc;
    bool has_slash = tci_str_ends(url.path, TC_STR("/"));
    h->is_secure = h->is_secure || url.is_tls;
    rc = tci_arena_printf(&h->strings, &h->base, err, "%.*s%s", TC_STR_ARG(url.path),
                          has_slash ? "" : "/");
    if (rc == 0)
        rc = tci_arena_printf(&h->strings, &h->url, err, "%s://%s%.*s",
                              tci_url_scheme_name(url.scheme), tci_url_authority(&url, authority),
                              TC_STR_ARG(h->base));
    return rc;
}

static int make_url(tci_host *h, tc_err *err)
{
    char text[TCI_ADDR_TEXT_MAX], name[TCI_SYSTEM_HOST_MAX];
    const char *scheme = h->tls != NULL ? "https" : "http";
    tci_addr at = tci_tcp_listener_addr(h->listener);
    if (h->url.len > 0)
        return 0;
    h->base = TC_STR("/");
    if (!tci_addr_is_any(&at))
        return tci_arena_printf(&h->strings, &h->url, err, "%s://%s/", scheme,
                                tci_addr_text(&at, text));
    tci_system_host_name(name);
    return tci_arena_printf(&h->strings, &h->url, err, "%s://%s:%u/", scheme, name,
                            (unsigned)at.port);
}

static void on_accept(void *user, tci_stream *stream, const tci_addr *peer)
{
    tc_err err;
    tci_host *h = user;
    if (h->tls != NULL &&
        tci_tls_server_new(h->tls, h->loop, stream, TLS_HANDSHAKE_MS, &stream, &err) < 0)
        return;
    tci_httpd_accept_from_own(h->httpd, stream, peer);
}

typedef struct starting {
    tci_host *host;
    tci_addr at;
    int rc;
    tc_err *err;
} starting;

static void start_on_loop(void *arg)
{
    starting *s = arg;
    tci_host *h = s->host;
    const tci_httpd_options options = {.handler = &tci_host_handler,
                                       .user = h,
                                       .server = "telechir/" TC_VERSION,
                                       .max_connections = h->max_connections};
    s->rc = tci_httpd_new(h->loop, &options, &h->httpd, s->err);
    if (s->rc == 0)
        s->rc = tci_host_links_start(h, s->err);
    if (s->rc == 0)
        s->rc = tci_host_eip_new(h, s->err);
    if (s->rc == 0)
        tci_connections_on_live(h->connections, tci_host_eip_linked, h);
    if (s->rc == 0 &&
        tci_tcp_listener_open(h->loop, &s->at, 0, on_accept, h, &h->listener, s->err) < 0)
        s->rc = tc_err_wrap(s->err, "cannot listen");
    if (s->rc == 0)
        s->rc = make_url(h, s->err);
    if (s->rc == 0)
        (void)snprintf(h->cookie_name, sizeof h->cookie_name, "telechir-%u",
                       (unsigned)tci_tcp_listener_addr(h->listener).port); /* fits */
}

/* The first one, or somebody who lost theirs, has to get in. */
static int make_link(tci_host *h, tc_str *ret_code, tc_err *err)
{
    char code[TCI_LINK_CODE_LEN];
    bool has_owner = false;
    int64_t expires_ms;
    int rc = tci_host_has_owner(h->db, tci_host_now_ms(), &has_owner, err);
    if (rc < 0 || (has_owner && !h->wants_link))
        return rc;
    rc = tci_host_link_new(h->db, tci_host_now_ms(), code, &expires_ms, err);
    return rc == 0 ? tci_arena_dup(&h->strings, tci_str_of(code, sizeof code), ret_code, err) : rc;
}

static int open_parts(tci_host *h, const tci_host_options *o, tc_str *ret_code, tc_err *err)
{
    char *cert, *key;
    tc_connections_options devices = {.size = sizeof devices, .max_devices = TCI_HOST_DEVICES_MAX};
    int rc = 0;
    if (o->public_url.len > 0)
        rc = take_public_url(h, o->public_url, err);
    if (rc == 0 && o->cert_file.len > 0) {
        rc = tci_arena_cstr(&h->strings, o->cert_file, &cert, err);
        if (rc == 0)
            rc = tci_arena_cstr(&h->strings, o->key_file, &key, err);
        if (rc == 0)
            rc = tci_tls_ctx_new_server(cert, key, &h->tls, err);
    }
    if (rc == 0)
        rc = tci_host_db_open(o->data, &h->db, err);
    if (rc == 0)
        rc = make_link(h, ret_code, err);
    if (rc == 0)
        rc = tc_connections_open(h->rt, &devices, &h->connections, err);
    return rc == 0 ? tci_host_externals_start(h, err) : rc;
}

static tci_host *new_host(tc_runtime *rt, const tci_host_options *o)
{
    tci_host *h = tci_new(tci_host);
    if (h == NULL)
        return NULL;
    h->rt = rt;
    h->loop = tci_runtime_loop(rt);
    h->is_behind_proxy = o->is_behind_proxy;
    h->takes_no_devices = o->takes_no_devices;
    h->wants_link = o->wants_link;
    h->max_connections = CONNECTIONS_MAX;
    if (o->max_files > 0 && o->max_files / 2 < CONNECTIONS_MAX)
        h->max_connections =
            o->max_files / 2 > CONNECTIONS_MIN ? (size_t)o->max_files / 2 : CONNECTIONS_MIN;
    h->is_secure = o->cert_file.len > 0 || o->is_behind_proxy;
    h->on_trouble = o->on_trouble;
    h->user = o->user;
    tci_arena_init(&h->strings, 0);
    tci_list_init(&h->waiting);
    tci_list_init(&h->linked);
    tci_list_init(&h->browsing);
    tci_limit_init(&h->asking, ASKING, ASKING_MS);
    tci_limit_init(&h->beginning, BEGINNING, BEGINNING_MS);
    tci_limit_init(&h->failing, FAILING, FAILING_MS);
    return h;
}

int tci_host_open(tc_runtime *rt, const tci_host_options *options, tci_host **ret_host, tc_err *err)
{
    tc_str code = {0};
    starting s = {.err = err};
    if (check_bind(options, &s.at, err) < 0)
        return err->code;
    tci_host *h = new_host(rt, options);
    if (h == NULL)
        return tci_err_no_memory(err);
    s.host = h;
    int rc = open_parts(h, options, &code, err);
    if (rc == 0)
        rc = tci_runtime_run(rt, start_on_loop, &s)
                 ? s.rc
                 : tc_err_set(err, TC_E_CLOSED, "the runtime is closed");
    if (rc == 0 && code.len > 0)
        rc = tci_arena_printf(&h->strings, &h->sign_in_url, err, "%.*ssign-in/%.*s",
                              TC_STR_ARG(h->url), TC_STR_ARG(code));
    if (rc < 0) {
        tci_host_close(h);
        return rc;
    }
    *ret_host = h;
    return 0;
}

tc_str tci_host_url(const tci_host *host)
{
    return host->url;
}

tc_str tci_host_sign_in_url(const tci_host *host)
{
    return host->sign_in_url;
}

/* ---- closing ---- */

/* Nobody asks anything any more. */
static void quiet(tci_host *h)
{
    h->is_drained = true;
    tci_host_eip_end(h);
    atomic_store(&h->is_quiet, true);
    tci_wake_all(&h->ended);
    maybe_ended(h);
}

static void on_drained(tci_httpd *httpd, bool is_clean)
{
    tci_host *h = tci_httpd_user(httpd);
    TCI_UNUSED(is_clean); /* who did not take an answer in time is cut off */
    quiet(h);
}

static void drain_on_loop(void *arg)
{
    tci_host *h = arg;
    h->is_closing = true;
    tci_tcp_listener_close(h->listener);
    h->listener = NULL;
    if (h->httpd != NULL)
        tci_httpd_drain(h->httpd, TCI_HOST_DRAIN_MS, on_drained);
    else
        quiet(h);
}

static void free_on_loop(void *arg)
{
    tci_host *h = arg;
    tci_host_links_stop(h);
    tci_httpd_free(h->httpd);
    h->httpd = NULL;
    tci_host_eip_free(h);
}

static void wait_for(tci_host *host, const atomic_bool *flag)
{
    while (!atomic_load(flag)) {
        unsigned seen = tci_wake_count(&host->ended);
        if (!atomic_load(flag))
            tci_wake_wait(&host->ended, seen, 0);
    }
}

void tci_host_close(tci_host *host)
{
    if (host == NULL)
        return;
    bool is_running = tci_runtime_run(host->rt, drain_on_loop, host);
    if (is_running)
        wait_for(host, &host->is_quiet); /* what devices still answer, too */
    tc_connections_close(host->connections);
    if (is_running)
        wait_for(host, &host->is_ended);
    if (is_running)
        is_running = tci_runtime_run(host->rt, free_on_loop, host);
    tci_host_externals_stop(host);
    tci_host_db_close(host->db);
    tci_tls_ctx_free(host->tls);
    tci_arena_done(&host->strings);
    tci_free(host);
}
