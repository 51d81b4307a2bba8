/* SPDX-License-Identifier: Apache-2.0
 *
 * TLS over a stream. Leaves certificates and trust to tls_ctx.c. Loop thread. OpenSSL reads the
 * stream below directly; what it writes goes to `out` and from there below, so a write is never
 * half done inside OpenSSL and need not be repeated with the same bytes. Invariants: while `out`
 * holds something no more plaintext is taken; nothing of a stream is touched after its on_ready was
 * called. */
#include "net/tls_int.h"

#include "base/buf.h"
#include "base/mem.h"
#include "plat/socket.h"
#include <openssl/err.h>
#include <openssl/x509v3.h>

enum {
    RECORD_BYTES = 16384,  /* RFC 8446 section 5.1 */
    BATCH_BYTES = 65536,   /* plaintext encrypted before it is handed below */
    BATCH_OVERHEAD = 1024, /* headers and tags of the records of one batch */
    DIRECT_BYTES = 8192,   /* parts shorter than this are gathered into one record */
    OUT_MAX = 4 * 1024 * 1024,
    OUT_KEEP = 4096,
    LINGER_MS = 5000
};

typedef struct tls_stream {
    tci_stream base;
    tci_loop *loop;
    tci_stream *under;
    tci_tls_ctx *ctx;
    SSL *ssl;
    tci_buf out;
    size_t out_at; /* written below so far */
    unsigned wanted;
    tci_later later; /* something to report though the stream below is quiet */
    tci_timer timer; /* of the handshake, or of lingering */
    bool is_established;
    bool is_drained;    /* all that came is decrypted and read */
    bool is_ended;      /* close_notify came */
    bool is_below_over; /* the stream below ended or failed */
    bool wants_shutdown, sent_shutdown, shut_below;
    bool is_lingering;
    bool has_failed;
    tc_err failure;
    char host[256]; /* of a client: whom it means to talk to */
} tls_stream;

static tls_stream *of(tci_stream *s)
{
    return TCI_CONTAINER(s, tls_stream, base);
}

/* ---- OpenSSL's view of the stream below ---- */

static int fail(tls_stream *s, const tc_err *err)
{
    if (!s->has_failed)
        s->failure = *err;
    s->has_failed = true;
    tci_timer_stop(&s->timer);
    return s->failure.code;
}

static int give_failure(const tls_stream *s, tc_err *err)
{
    *err = s->failure;
    return err->code;
}

static int carrier_read(BIO *bio, char *buf, size_t cap, size_t *ret_n)
{
    tls_stream *s = BIO_get_data(bio);
    tc_err err;
    size_t n = 0;
    BIO_clear_retry_flags(bio);
    int rc = tci_stream_read(s->under, buf, cap, &n, &err);
    if (rc == 0 && n > 0) {
        *ret_n = n;
        return 1;
    }
    if (rc == 0)
        BIO_set_retry_read(bio);
    else
        s->is_below_over = true;
    if (rc < 0 && rc != TC_E_END)
        (void)fail(s, &err);
    return 0;
}

static int carrier_write(BIO *bio, const char *buf, size_t len, size_t *ret_n)
{
    tls_stream *s = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    tci_buf_append(&s->out, buf, len);
    if (!tci_buf_ok(&s->out))
        return 0;
    *ret_n = len;
    return 1;
}

static long carrier_ctrl(BIO *bio, int cmd, long num, void *ptr)
{
    TCI_UNUSED(num);
    TCI_UNUSED(ptr);
    const tls_stream *s = BIO_get_data(bio);
    if (cmd == BIO_CTRL_EOF)
        return s->is_below_over;
    return cmd == BIO_CTRL_FLUSH;
}

BIO_METHOD *tci_tls_carrier_new(void)
{
    BIO_METHOD *m = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "stream");
    if (m == NULL)
        return NULL;
    if (BIO_meth_set_read_ex(m, carrier_read) && BIO_meth_set_write_ex(m, carrier_write) &&
        BIO_meth_set_ctrl(m, carrier_ctrl))
        return m;
    BIO_meth_free(m);
    return NULL;
}

/* ---- what went wrong ---- */

static int untrusted(const tls_stream *s, long verdict, tc_err *err)
{
    if (verdict == X509_V_ERR_HOSTNAME_MISMATCH || verdict == X509_V_ERR_IP_ADDRESS_MISMATCH)
        return tc_err_set(err, TC_E_UNTRUSTED, "the certificate is not for '%s'", s->host);
    (void)tc_err_set(err, TC_E_UNTRUSTED, "the certificate of '%s' is not trusted: %s", s->host,
                     X509_verify_cert_error_string(verdict));
    return tc_err_hint(err, "if its authority is a private one, name its certificate as CA file");
}

/* Turn OpenSSL's answer into the stream's failure. */
static int fail_ssl(tls_stream *s, int ssl_error)
{
    tc_err err;
    char reason[160];
    if (s->has_failed) /* the stream below said why */
        return s->failure.code;
    long verdict = SSL_get_verify_result(s->ssl);
    unsigned long code = ERR_peek_error();
    int why = ERR_GET_REASON(code);
    bool is_cut = why == SSL_R_UNEXPECTED_EOF_WHILE_READING || ssl_error == SSL_ERROR_SYSCALL;
    tci_tls_reason(reason, sizeof reason);
    if (tci_buf_error(&s->out, &err) < 0)
        return fail(s, &err);
    if (why == SSL_R_CERTIFICATE_VERIFY_FAILED && s->ctx->verifies && verdict != X509_V_OK) {
        (void)untrusted(s, verdict, &err);
    } else if (is_cut) {
        (void)tc_err_set(&err, TC_E_CLOSED, "connection ended %s",
                         s->is_established ? "without the end of TLS" : "in the TLS handshake");
    } else {
        (void)tc_err_set(&err, TC_E_PROTOCOL, "TLS failed: %s", reason);
        if (why == SSL_R_WRONG_VERSION_NUMBER || why == SSL_R_HTTP_REQUEST)
            (void)tc_err_hint(&err, "one side may not speak TLS at all");
    }
    return fail(s, &err);
}

/* ---- towards the stream below ---- */

static bool has_output(const tls_stream *s)
{
    return s->out_at < s->out.len;
}

/* Hand below what is there. 0, or the failure. */
static int flush(tls_stream *s)
{
    tc_err err;
    while (has_output(s)) {
        tci_iovec part = {s->out.ptr + s->out_at, s->out.len - s->out_at};
        size_t n = 0;
        if (tci_stream_writev(s->under, &part, 1, &n, &err) < 0) {
            s->out_at = s->out.len;
            return fail(s, &err);
        }
        if (n == 0)
            return 0;
        s->out_at += n;
    }
    tci_buf_clear(&s->out);
    tci_buf_trim(&s->out, OUT_KEEP);
    s->out_at = 0;
    if (s->sent_shutdown && !s->shut_below) {
        s->shut_below = true;
        if (tci_stream_shutdown_write(s->under, &err) < 0)
            return fail(s, &err);
    }
    return 0;
}

static void want_below(tls_stream *s)
{
    unsigned events = 0;
    tc_err err;
    if (!s->has_failed) {
        bool reads = (s->wanted & TCI_WATCH_READ) && !s->is_ended;
        bool writes = (s->wanted & TCI_WATCH_WRITE) && s->is_established;
        events |= reads || !s->is_established ? TCI_WATCH_READ : 0u;
        events |= writes || has_output(s) ? TCI_WATCH_WRITE : 0u;
    }
    if (tci_stream_want(s->under, events, &err) < 0)
        (void)fail(s, &err);
}

static void send_shutdown(tls_stream *s)
{
    if (!s->wants_shutdown || s->sent_shutdown || !s->is_established || s->has_failed)
        return;
    ERR_clear_error();
    (void)SSL_shutdown(s->ssl); /* 0: sent, the peer's is not here yet */
    ERR_clear_error();
    s->sent_shutdown = true;
}

static void handshake(tls_stream *s)
{
    ERR_clear_error();
    int rc = SSL_do_handshake(s->ssl);
    if (rc == 1) {
        s->is_established = true;
        tci_timer_stop(&s->timer);
        send_shutdown(s);
    } else {
        int e = SSL_get_error(s->ssl, rc);
        if (e != SSL_ERROR_WANT_READ && e != SSL_ERROR_WANT_WRITE)
            (void)fail_ssl(s, e);
    }
    (void)flush(s); /* an alert goes out too; the first failure is the one that counts */
}

/* Something can be read without the stream below getting ready. */
static bool has_more(const tls_stream *s)
{
    return s->has_failed || s->is_ended ||
           (s->is_established && !s->is_drained && SSL_has_pending(s->ssl));
}

static void report_later(tls_stream *s)
{
    bool to_read = (s->wanted & TCI_WATCH_READ) && has_more(s);
    if (to_read || (s->has_failed && s->wanted != 0))
        tci_loop_later(s->loop, &s->later);
}

static void on_later(tci_later *later)
{
    tls_stream *s = TCI_CONTAINER(later, tls_stream, later);
    unsigned events = s->has_failed ? s->wanted : s->wanted & TCI_WATCH_READ;
    if (events != 0)
        s->base.on_ready(&s->base, events);
}

static void destroy(tls_stream *s)
{
    tci_later_cancel(&s->later);
    tci_timer_stop(&s->timer);
    SSL_free(s->ssl);
    tci_stream_close(s->under);
    tci_buf_done(&s->out);
    tci_tls_ctx_free(s->ctx);
    tci_free(s);
}

static void on_timer(tci_timer *t)
{
    tls_stream *s = TCI_CONTAINER(t, tls_stream, timer);
    if (s->is_lingering) {
        destroy(s);
        return;
    }
    tc_err err;
    (void)tc_err_set(&err, TC_E_TIMEOUT, "no answer in time in the TLS handshake");
    (void)fail(s, &err);
    want_below(s);
    if (s->wanted != 0)
        s->base.on_ready(&s->base, s->wanted);
}

static void on_below(tci_stream *under, unsigned events)
{
    tls_stream *s = under->user;
    if (events & TCI_WATCH_WRITE)
        (void)flush(s); /* a failure shows in has_failed */
    if (s->is_lingering) {
        if (s->has_failed || !has_output(s))
            destroy(s);
        return;
    }
    unsigned ready = 0;
    if (events & TCI_WATCH_READ) {
        s->is_drained = false;
        ready |= TCI_WATCH_READ;
    }
    if (!s->is_established && !s->has_failed) {
        handshake(s);
        ready = s->is_established ? TCI_WATCH_READ : 0u; /* data may have come along */
    }
    if (s->is_established && !has_output(s))
        ready |= TCI_WATCH_WRITE;
    if (s->has_failed)
        ready = TCI_WATCH_READ | TCI_WATCH_WRITE;
    want_below(s);
    ready &= s->wanted;
    if (ready != 0)
        s->base.on_ready(&s->base, ready);
}

/* ---- towards the owner ---- */

/* One record, or what is there of it. 1: bytes; 0: none now, or the end; negative: failed. */
static int read_some(tls_stream *s, char *buf, size_t cap, size_t *ret_n)
{
    ERR_clear_error();
    if (SSL_read_ex(s->ssl, buf, cap, ret_n) == 1)
        return 1;
    int e = SSL_get_error(s->ssl, 0);
    if (e == SSL_ERROR_ZERO_RETURN)
        s->is_ended = true;
    else if (e == SSL_ERROR_WANT_READ || e == SSL_ERROR_WANT_WRITE)
        s->is_drained = true;
    else
        return fail_ssl(s, e);
    return 0;
}

static int tls_read(tci_stream *base, void *buf, size_t cap, size_t *ret_n, tc_err *err)
{
    tls_stream *s = of(base);
    size_t done = 0;
    if (!s->has_failed && s->is_established && !s->is_ended) {
        while (done < cap) {
            size_t n = 0;
            int rc = read_some(s, (char *)buf + done, cap - done, &n);
            if (rc != 1)
                break;
            done += n;
            if (!SSL_has_pending(s->ssl))
                break;
        }
        (void)flush(s); /* an answer to a key update; a failure shows in has_failed */
        want_below(s);
    }
    if (done == 0 && s->has_failed)
        return give_failure(s, err);
    if (done == 0 && s->is_ended)
        return tc_err_set(err, TC_E_END, "end of input");
    report_later(s);
    *ret_n = done;
    return 0;
}

/* The plaintext still to be sent, across parts. */
typedef struct source {
    const tci_iovec *v;
    size_t nv, at; /* at: offset in v[0] */
} source;

static void skip_empty(source *src)
{
    while (src->nv > 0 && src->at == src->v->len) {
        src->v++;
        src->nv--;
        src->at = 0;
    }
}

/* Up to one record: in place when long enough, otherwise gathered in room. */
static tc_str next_record(source *src, char room[RECORD_BYTES])
{
    size_t left = src->v->len - src->at;
    if (left >= DIRECT_BYTES || src->nv == 1) {
        size_t n = left < RECORD_BYTES ? left : RECORD_BYTES;
        tc_str record = tci_str_of((const char *)src->v->ptr + src->at, n);
        src->at += n;
        return record;
    }
    size_t len = 0;
    while (src->nv > 0 && len < RECORD_BYTES) {
        size_t n = src->v->len - src->at;
        if (n > RECORD_BYTES - len)
            n = RECORD_BYTES - len;
        if (n > 0)
            memcpy(room + len, (const char *)src->v->ptr + src->at, n);
        len += n;
        src->at += n;
        skip_empty(src);
    }
    return tci_str_of(room, len);
}

/* Encrypt up to a batch into out. The bytes taken, or the failure. */
static int encrypt_batch(tls_stream *s, source *src, size_t *ret_n)
{
    char room[RECORD_BYTES];
    size_t done = 0;
    skip_empty(src);
    while (src->nv > 0 && done < BATCH_BYTES) {
        tc_str record = next_record(src, room);
        size_t n = 0;
        ERR_clear_error();
        if (SSL_write_ex(s->ssl, record.ptr, record.len, &n) != 1)
            return fail_ssl(s, SSL_get_error(s->ssl, 0));
        TC_ASSERT(n == record.len); /* out takes everything */
        done += n;
        skip_empty(src);
    }
    *ret_n = done;
    return 0;
}

static int tls_writev(tci_stream *base, const tci_iovec *v, size_t nv, size_t *ret_n, tc_err *err)
{
    tls_stream *s = of(base);
    TC_ASSERT(nv <= TCI_IOVEC_MAX);
    if (!s->has_failed && s->wants_shutdown)
        return tc_err_set(err, TC_E_CLOSED, "cannot write after the end");
    source src = {.v = v, .nv = nv};
    size_t done = 0, total = 0;
    for (size_t i = 0; i < nv; i++)
        total += v[i].len;
    int rc = s->is_established && !s->has_failed ? flush(s) : 0;
    while (rc == 0 && s->is_established && !s->has_failed && !has_output(s) && done < total) {
        size_t n = 0, room = total - done < BATCH_BYTES ? total - done : BATCH_BYTES;
        (void)tci_buf_reserve(&s->out, room + BATCH_OVERHEAD); /* a failure is remembered there */
        rc = encrypt_batch(s, &src, &n);
        if (rc == 0)
            rc = flush(s);
        done += n;
    }
    if (s->has_failed)
        return give_failure(s, err);
    want_below(s);
    *ret_n = done;
    return 0;
}

static int tls_want(tci_stream *base, unsigned events, tc_err *err)
{
    TCI_UNUSED(err);
    tls_stream *s = of(base);
    if (events == s->wanted)
        return 0;
    s->wanted = events;
    want_below(s);
    report_later(s);
    return 0;
}

static int tls_shutdown_write(tci_stream *base, tc_err *err)
{
    tls_stream *s = of(base);
    s->wants_shutdown = true;
    send_shutdown(s);
    if (!s->has_failed && s->sent_shutdown)
        (void)flush(s); /* a failure shows in has_failed */
    if (s->has_failed)
        return give_failure(s, err);
    want_below(s);
    return 0;
}

static void tls_close(tci_stream *base)
{
    tls_stream *s = of(base);
    tc_err err;
    tci_later_cancel(&s->later);
    tci_timer_stop(&s->timer);
    if (!s->is_established || s->has_failed) {
        destroy(s);
        return;
    }
    s->wants_shutdown = true;
    send_shutdown(s);
    s->shut_below = true; /* closing ends it anyway */
    (void)flush(s);       /* a failure shows in has_failed */
    s->is_lingering = true;
    s->wanted = 0;
    s->is_ended = true; /* no more reading */
    want_below(s);
    if (s->has_failed || !has_output(s) || tci_timer_start(&s->timer, LINGER_MS, &err) < 0)
        destroy(s);
}

static const tci_stream_vtable tls_vtable = {
    .read = tls_read,
    .writev = tls_writev,
    .want = tls_want,
    .shutdown_write = tls_shutdown_write,
    .close = tls_close,
};

static int64_t tls_unsent(const tci_stream *base)
{
    return tci_stream_unsent(TCI_CONTAINER(base, const tls_stream, base)->under);
}

/* ---- making ---- */

static int attach_ssl(tls_stream *s, tc_err *err)
{
    ERR_clear_error();
    s->ssl = SSL_new(s->ctx->ssl_ctx);
    BIO *bio = s->ssl != NULL ? BIO_new(s->ctx->carrier) : NULL;
    if (bio == NULL)
        return tci_err_no_memory(err);
    BIO_set_data(bio, s);
    BIO_set_init(bio, 1);
    SSL_set_bio(s->ssl, bio, bio);
    return 0;
}

/* Whom the certificate must be for. */
static int set_peer(tls_stream *s, tc_str host, tc_err *err)
{
    tci_addr ip;
    bool is_ip = tci_addr_parse_ip(host, &ip);
    if (tci_str_ends(host, TC_STR(".")))
        host.len--; /* certificates hold names without the root's dot */
    int rc = tci_cstr(host, s->host, sizeof s->host, err);
    if (rc < 0 || host.len == 0)
        return tc_err_set(err, TC_E_INVALID, "no host to check the certificate for");
    bool is_ok;
    if (is_ip) {
        is_ok = X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(s->ssl), s->host) == 1;
    } else {
        SSL_set_hostflags(s->ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
        is_ok =
            SSL_set1_host(s->ssl, s->host) == 1 && SSL_set_tlsext_host_name(s->ssl, s->host) == 1;
    }
    return is_ok ? 0 : tci_err_no_memory(err);
}

/* With host.ptr NULL: a server. */
static int open_stream(tci_tls_ctx *ctx, tci_loop *loop, tci_stream *under, const tc_str *host,
                       int64_t timeout_ms, tci_stream **ret_stream, tc_err *err)
{
    TC_ASSERT(ctx->is_server == (host == NULL));
    tls_stream *s = tci_new(tls_stream);
    if (s == NULL) {
        tci_stream_close(under);
        return tci_err_no_memory(err);
    }
    s->base.v = &tls_vtable;
    s->base.unsent = tls_unsent;
    s->loop = loop;
    s->under = under;
    s->ctx = tci_tls_ctx_hold(ctx);
    s->later.cb = on_later;
    tci_buf_init(&s->out, OUT_MAX);
    tci_timer_init(&s->timer, loop, on_timer);
    under->on_ready = on_below;
    under->user = s;
    int rc = attach_ssl(s, err);
    if (rc == 0 && host != NULL)
        rc = set_peer(s, *host, err);
    if (rc == 0 && timeout_ms > 0)
        rc = tci_timer_start(&s->timer, timeout_ms, err);
    if (rc < 0) {
        destroy(s);
        return rc;
    }
    if (host != NULL)
        SSL_set_connect_state(s->ssl);
    else
        SSL_set_accept_state(s->ssl);
    handshake(s); /* its failure is reported once the owner asks */
    want_below(s);
    *ret_stream = &s->base;
    return 0;
}

int tci_tls_server_new(tci_tls_ctx *ctx, tci_loop *loop, tci_stream *under_own,
                       int64_t handshake_timeout_ms, tci_stream **ret_stream, tc_err *err)
{
    return open_stream(ctx, loop, under_own, NULL, handshake_timeout_ms, ret_stream, err);
}

int tci_tls_client_new(tci_tls_ctx *ctx, tci_loop *loop, tci_stream *under_own, tc_str host,
                       int64_t handshake_timeout_ms, tci_stream **ret_stream, tc_err *err)
{
    return open_stream(ctx, loop, under_own, &host, handshake_timeout_ms, ret_stream, err);
}

bool tci_tls_is_established(const tci_stream *s)
{
    return TCI_CONTAINER(s, const tls_stream, base)->is_established;
}
