/* SPDX-License-Identifier: Apache-2.0
 *
 * Devices behind HTTP(S): checking options, reading credentials, TLS, and dialling through the
 * runtime's proxies. The caller's thread, but for dialling. Invariant: a credential never shows in
 * an error, and never leaves the machine in plain text unless that was allowed. */
#include "client/http/http.h"

#include "plat/file.h"

enum { CREDENTIAL_MAX = 8192, PATH_MAX_BYTES = 1024 };

/* ---- options ---- */

static int check_endpoint(const tc_http_options *http, tci_url *ret_url, tc_err *err)
{
    int rc = tci_url_parse(http->endpoint, 0, ret_url, err);
    if (rc < 0) {
        tc_err_wrap(err, "the endpoint is not an origin");
        tc_err_hint(err, "give https://host[:port], without path, query or user");
        return rc;
    }
    if (ret_url->scheme != TCI_URL_HTTP && ret_url->scheme != TCI_URL_HTTPS)
        return tc_err_set(err, TC_E_INVALID, "the endpoint must be http or https");
    if (ret_url->is_tls || http->allow_plaintext_private_link ||
        tci_host_is_loopback(tci_str(ret_url->host)))
        return 0;
    tc_err_set(err, TC_E_INVALID, "http is only for this machine: '%s' needs https", ret_url->host);
    return tc_err_hint(err, "use https, or allow plain text on a trusted private link");
}

static int check_credential(tc_str credential, tc_err *err)
{
    if (credential.len == 0 || credential.len > CREDENTIAL_MAX)
        return tc_err_set(err, TC_E_INVALID, "a credential has 1 to %d bytes", CREDENTIAL_MAX);
    for (size_t i = 0; i < credential.len; i++) {
        unsigned char c = (unsigned char)credential.ptr[i];
        if (c <= ' ' || c >= 0x7f)
            return tc_err_set(err, TC_E_INVALID, "the credential has blanks or control characters");
    }
    return 0;
}

/* As it goes into the request: visible ASCII, without a query, and no parts that some server may resolve. */
static int check_path(tc_str path, tc_err *err)
{
    tc_str rest = path, part;
    bool is_fine = path.len <= PATH_MAX_BYTES && (path.len == 0 || path.ptr[0] == '/');
    for (size_t i = 0; is_fine && i < path.len; i++) {
        unsigned char c = (unsigned char)path.ptr[i];
        is_fine = c > ' ' && c < 0x7f && strchr("?#\\\"<>", c) == NULL;
        is_fine = is_fine && (c != '/' || i == 0 || path.ptr[i - 1] != '/');
    }
    while (is_fine && tci_str_split(&rest, '/', &part))
        is_fine = !tci_str_eq(part, TC_STR(".")) && !tci_str_eq(part, TC_STR(".."));
    if (is_fine)
        return 0;
    (void)tc_err_set(err, TC_E_INVALID, "the path is not one");
    return tc_err_hint(err, "give a path like /api/devices/NAME/, other characters as %%XX");
}

int tc_http_options_check(const tc_http_options *http, tc_err *err)
{
    tci_url url;
    if (http == NULL || http->size < sizeof *http)
        return tc_err_set(err, TC_E_INVALID, "options without their size");
    int rc = check_endpoint(http, &url, err);
    if (rc == 0)
        rc = check_path(http->path, err);
    if (rc < 0)
        return rc;
    if ((http->credential.len > 0) == (http->credential_file.len > 0))
        return tc_err_set(err, TC_E_INVALID, "give a credential or a credential file, one of them");
    if (http->credential.len > 0)
        rc = check_credential(http->credential, err);
    if (rc == 0 && !url.is_tls && (http->ca_file.len > 0 || http->tls_setup != NULL))
        rc = tc_err_set(err, TC_E_INVALID, "certificate options need an https endpoint");
    return rc;
}

static int authorize(tci_eip_http *h, tc_str credential, tc_err *err)
{
    int rc = check_credential(credential, err);
    if (rc < 0)
        return rc;
    char value[CREDENTIAL_MAX + 8];
    memcpy(value, "Bearer ", 7);
    memcpy(value + 7, credential.ptr, credential.len);
    rc = tci_secret_init(&h->authorization, tci_str_of(value, 7 + credential.len), err);
    tci_mem_wipe(value, sizeof value);
    return rc;
}

static int load_credential(tci_eip_http *h, const tc_http_options *http, tc_err *err)
{
    if (http->credential.len > 0)
        return authorize(h, http->credential, err);
    char *bytes = NULL;
    size_t len = 0;
    int rc = tci_file_read_whole(TCI_FILE_CWD, http->credential_file, CREDENTIAL_MAX + 2, &bytes,
                                 &len, err);
    if (rc < 0) {
        tc_err_wrap(err, "cannot read the credential file");
        return rc;
    }
    tc_str credential = tci_str_of(bytes, len);
    if (credential.len > 0 && credential.ptr[credential.len - 1] == '\n')
        credential.len--;
    if (credential.len < len && credential.len > 0 && credential.ptr[credential.len - 1] == '\r')
        credential.len--;
    rc = authorize(h, credential, err);
    tci_mem_wipe(bytes, len);
    tci_free(bytes);
    return rc;
}

/* ---- TLS ---- */

static bool is_verify_off(const tc_runtime *rt)
{
    tc_str value = tci_str(tci_runtime_getenv(rt, "A13N_OUTBOUND_TLS_VERIFY"));
    return tci_str_eq_nocase(value, TC_STR("false")) || tci_str_eq(value, TC_STR("0"));
}

typedef struct tls_user {
    const tc_http_options *http;
} tls_user;

static int configure_tls(void *ssl_ctx, void *user, tc_err *err)
{
    const tls_user *u = user;
    return u->http->tls_setup(u->http->tls_user, ssl_ctx, err);
}

static int load_tls(tci_eip_http *h, const tc_http_options *http, tc_err *err)
{
    if (!h->url.is_tls)
        return 0;
    char ca_path[TCI_PATH_MAX];
    tls_user user = {http};
    tci_tls_client_options o = {
        .insecure_no_verify = http->insecure_no_verify || is_verify_off(h->base.rt),
        .configure = http->tls_setup != NULL ? configure_tls : NULL,
        .configure_user = &user,
    };
    if (http->ca_file.len > 0) {
        int rc = tci_cstr(http->ca_file, ca_path, sizeof ca_path, err);
        if (rc < 0)
            return rc;
        o.ca_pem_path = ca_path;
        o.without_system_roots = true;
    }
    return tci_tls_ctx_new_client(&o, &h->tls, err);
}

/* ---- dialling: loop thread ---- */

/* One attempt: the client's callback around ours. */
struct tci_http_dial {
    tci_dial *dial;
    void (*done)(void *arg, tci_stream *stream, const tc_err *err);
    void *arg;
};

static const char *env_of_runtime(void *user, const char *name)
{
    return tci_runtime_getenv(user, name);
}

static void on_dialled(void *user, tci_stream *stream, const tc_err *err)
{
    struct tci_http_dial *d = user;
    void (*done)(void *arg, tci_stream *s, const tc_err *e) = d->done;
    void *arg = d->arg;
    tc_err why;
    tci_free(d);
    if (err != NULL &&
        err->code == TC_E_NOT_FOUND) { /* of the name: not what an answer means by it */
        why = *err;
        tc_err_recode(&why, TC_E_CONNECT);
        err = &why;
    }
    done(arg, stream, err);
}

static int dial(tci_http_dialler *dialler, tc_str scheme, tc_str host, unsigned port,
                void (*done)(void *arg, tci_stream *stream, const tc_err *err), void *arg,
                tci_http_dial **ret_dial, tc_err *err)
{
    TCI_UNUSED(scheme); /* the connection has one origin, and it is in the url */
    TCI_UNUSED(host);
    TCI_UNUSED(port);
    tci_eip_http *h = TCI_CONTAINER(dialler, tci_eip_http, dialler);
    tc_runtime *rt = h->base.rt;
    tci_proxy proxy = {.is_used = false};
    int rc = tci_proxy_for(h->url.scheme, tci_str(h->url.host), h->url.port, env_of_runtime, rt,
                           &proxy, err);
    if (rc < 0)
        return rc;
    struct tci_http_dial *d = tci_new(struct tci_http_dial);
    if (d == NULL) {
        tci_proxy_done(&proxy);
        return tci_err_no_memory(err);
    }
    d->done = done;
    d->arg = arg;
    rc = tci_dial_open(rt->loop, &h->url, h->tls, &proxy, 0, on_dialled, d, &d->dial, err);
    tci_proxy_done(&proxy);
    if (rc < 0) {
        tci_free(d);
        return rc;
    }
    *ret_dial = d;
    return 0;
}

static void cancel_dial(tci_http_dialler *dialler, tci_http_dial *d)
{
    TCI_UNUSED(dialler);
    tci_dial_cancel(d->dial);
    tci_free(d);
}

/* ---- opening ---- */

typedef struct open_job {
    tci_eip_http *conn;
    int code;
    tc_err *err;
} open_job;

static void open_on_loop(void *arg)
{
    open_job *job = arg;
    tci_eip_http *h = job->conn;
    tci_http_client_options o = {.dialler = &h->dialler};
    job->code = tci_http_client_new(h->base.rt->loop, &o, &h->client, job->err);
    if (job->code == 0)
        tci_conn_add(&h->base);
}

int tc_device_connect_http(tc_runtime *rt, tc_ctx *ctx, const tc_http_options *http,
                           const tc_device_options *options, tc_device **ret_device, tc_err *err)
{
    tc_device_options none = {.size = sizeof none};
    const tc_device_options *o = options != NULL ? options : &none;
    tci_eip_http *h = NULL;
    int rc = tci_device_options_check(o, err);
    if (rc == 0)
        rc = tc_http_options_check(http, err);
    if (rc == 0)
        rc = tci_eip_http_new(rt, http, o, &h, err);
    if (rc < 0)
        return rc;
    h->dialler = (tci_http_dialler){.dial = dial, .cancel = cancel_dial};
    rc = load_credential(h, http, err);
    if (rc == 0)
        rc = load_tls(h, http, err);
    open_job job = {.conn = h, .err = err};
    if (rc == 0) {
        if (!tci_runtime_run(rt, open_on_loop, &job))
            job.code = tc_err_set(err, TC_E_CLOSED, "the runtime is closed");
        rc = job.code;
    }
    if (rc < 0) {
        tci_conn_close(&h->base);
        return rc;
    }
    rc = tci_device_start_own(rt, &h->base, ctx, o, ret_device, err);
    if (rc == TC_E_CLOSED || rc == TC_E_IO)
        return tc_err_recode(err, TC_E_CONNECT);
    return rc;
}
