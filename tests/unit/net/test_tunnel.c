/* SPDX-License-Identifier: Apache-2.0
 *
 * Tunnels through a proxy that the test plays, and the whole way out. */
#include "test_net.h"

#include "net/dial.h"
#include "net/tcp.h"
#include <string.h>

typedef struct tunnel {
    tci_loop *loop;
    tci_proxy proxy;
    end client, peer; /* peer: the proxy, and what is behind it */
} tunnel;

static void tunnel_open(tunnel *t, const char *host, int64_t timeout_ms)
{
    tc_err err;
    tci_stream *raw[2], *s = NULL;
    *t = (tunnel){.loop = new_loop(), .proxy = {.is_used = true, .port = 3128, .host = "proxy"}};
    assert_int_equal(tci_secret_init(&t->proxy.authorization, TC_STR("Basic hidden"), &err), 0);
    stream_pair(t->loop, raw);
    assert_int_equal(
        tci_proxy_stream_new(t->loop, raw[0], &t->proxy, tci_str(host), 443, timeout_ms, &s, &err),
        0);
    end_init(&t->client, s);
    end_init(&t->peer, raw[1]);
}

static void tunnel_close(tunnel *t)
{
    end_done(&t->client);
    end_done(&t->peer);
    tci_proxy_done(&t->proxy);
    tci_loop_free(t->loop);
}

static const char request[] = "CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n"
                              "Proxy-Authorization: Basic hidden\r\n\r\n";

static void tunnel_carries_both_ways(void **state)
{
    TCI_UNUSED(state);
    static const char answer[] =
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nVia: x\r\n\r\nfirst";
    for (size_t cut = 0; cut < sizeof answer; cut++) {
        tunnel t;
        tunnel_open(&t, "example.com", 0);
        t.client.read_cap = 3;
        end_send(&t.client, "hello", 5);
        TURN_UNTIL(t.loop, t.peer.in.len == sizeof request - 1);
        assert_memory_equal(t.peer.in.ptr, request, sizeof request - 1);
        assert_false(t.client.is_open);
        end_send(&t.peer, answer, cut);
        while (t.peer.out_at < cut)
            tci_loop_turn(t.loop, -1);
        tci_loop_turn(t.loop, 0);
        end_send(&t.peer, answer + cut, sizeof answer - 1 - cut);
        TURN_UNTIL(t.loop, t.client.in.len == 5 && t.peer.in.len == sizeof request - 1 + 5);
        assert_memory_equal(t.client.in.ptr, "first", 5);
        assert_memory_equal(t.peer.in.ptr + sizeof request - 1, "hello", 5);
        tunnel_close(&t);
    }
}

static void refusals_name_the_step_and_hide_the_password(void **state)
{
    TCI_UNUSED(state);
    static const struct {
        const char *answer;
        int code;
        const char *word;
    } rows[] = {
        {"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", TC_E_AUTH, "407"},
        {"HTTP/1.0 502 Bad Gateway\r\nContent-Length: 3\r\n\r\nbad", TC_E_CONNECT, "502"},
        {"HTTP/1.1 302\r\nLocation: /\r\n\r\n", TC_E_CONNECT, "302"},
        {"SSH-2.0-OpenSSH\r\n\r\n", TC_E_PROTOCOL, "not HTTP"},
        {"HTTP/1.1 2000 OK\r\n\r\n", TC_E_PROTOCOL, "not HTTP"},
        {"HTTP/1.1 200 OK\r\n", TC_E_CLOSED, "ended"},
        {"", TC_E_CLOSED, "ended"},
    };
    for (size_t i = 0; i < TCI_ARRAY_LEN(rows); i++) {
        tunnel t;
        tunnel_open(&t, "2001:db8::1", 0);
        t.peer.ends_after_out = true;
        end_send(&t.peer, rows[i].answer, strlen(rows[i].answer));
        TURN_UNTIL(t.loop, t.client.is_over);
        assert_int_equal(t.client.result, rows[i].code);
        assert_non_null(strstr(t.client.err.msg, rows[i].word));
        assert_non_null(strstr(t.client.err.msg, "'[2001:db8::1]:443' through proxy 'proxy:3128'"));
        assert_null(strstr(t.client.err.msg, "hidden"));
        tunnel_close(&t);
    }
}

static void endless_and_absent_answers_end(void **state)
{
    TCI_UNUSED(state);
    static char endless[20000];
    memset(endless, 'x', sizeof endless);
    tunnel t;
    tunnel_open(&t, "example.com", 0);
    end_send(&t.peer, "HTTP/1.1 200 OK\r\nX: ", 20);
    end_send(&t.peer, endless, sizeof endless);
    TURN_UNTIL(t.loop, t.client.is_over);
    assert_int_equal(t.client.result, TC_E_PROTOCOL);
    tunnel_close(&t);
    tunnel_open(&t, "example.com", 20);
    TURN_UNTIL(t.loop, t.client.is_over);
    assert_int_equal(t.client.result, TC_E_TIMEOUT);
    tunnel_close(&t);
    tci_stream *raw[2], *s = NULL;
    tc_err err;
    tci_loop *loop = new_loop();
    tci_proxy proxy = {.is_used = true, .port = 1, .host = "p"};
    stream_pair(loop, raw);
    assert_int_equal(
        tci_proxy_stream_new(loop, raw[0], &proxy, TC_STR("a\r\nX: y"), 443, 0, &s, &err),
        TC_E_INVALID);
    tci_stream_close(raw[1]);
    tci_loop_free(loop);
}

/* ---- the whole way out: a proxy on TCP that is also the TLS server behind it ---- */

typedef struct far_side {
    tci_loop *loop;
    tci_tcp_listener *listener;
    tci_tls_ctx *ctx;
    bool has_proxy, has_tls, is_secure;
    end plain, secure;
} far_side;

static void far_accept(void *user, tci_stream *stream, const tci_addr *peer)
{
    far_side *f = user;
    TCI_UNUSED(peer);
    end_init(&f->plain, stream);
}

static void far_open(far_side *f, bool has_proxy, bool has_tls)
{
    tc_err err;
    tci_addr addr;
    const cert_files *files = make_certs();
    *f = (far_side){.loop = new_loop(), .has_proxy = has_proxy, .has_tls = has_tls};
    assert_int_equal(tci_addr_parse(TC_STR("127.0.0.1:0"), &addr, &err), 0);
    assert_int_equal(tci_tcp_listener_open(f->loop, &addr, 0, far_accept, f, &f->listener, &err),
                     0);
    assert_int_equal(tci_tls_ctx_new_server(files->cert, files->key, &f->ctx, &err), 0);
}

static void start_tls(far_side *f)
{
    tc_err err;
    tci_stream *s = NULL;
    assert_int_equal(tci_tls_server_new(f->ctx, f->loop, f->plain.stream, 0, &s, &err), 0);
    f->plain.stream = NULL;
    end_init(&f->secure, s);
    f->is_secure = true;
}

static void far_done(far_side *f)
{
    if (f->is_secure)
        end_done(&f->secure);
    end_done(&f->plain);
    tci_tls_ctx_free(f->ctx);
    tci_tcp_listener_close(f->listener);
    tci_loop_free(f->loop);
}

typedef struct dialled {
    bool is_done;
    tci_stream *stream;
    tc_err err;
} dialled;

static void on_dialled(void *user, tci_stream *stream, const tc_err *err)
{
    dialled *d = user;
    d->is_done = true;
    d->stream = stream;
    if (stream == NULL)
        d->err = *err;
}

static tci_dial *dial(far_side *f, bool with_tls, const char *ca, dialled *d)
{
    tc_err err;
    tci_dial *at = NULL;
    tci_tls_ctx *ctx = NULL;
    tci_tls_client_options o = {.ca_pem_path = ca, .without_system_roots = true};
    uint16_t port = tci_tcp_listener_addr(f->listener).port;
    tci_url url = {.scheme = with_tls ? TCI_URL_HTTPS : TCI_URL_HTTP, .is_tls = with_tls};
    url.port = f->has_proxy ? 443 : port;
    memcpy(url.host, "localhost", 10);
    tci_proxy proxy = {.is_used = f->has_proxy, .port = port, .host = "127.0.0.1"};
    *d = (dialled){0};
    assert_int_equal(tci_tls_ctx_new_client(&o, &ctx, &err), 0);
    assert_int_equal(tci_dial_open(f->loop, &url, ctx, &proxy, 0, on_dialled, d, &at, &err), 0);
    tci_tls_ctx_free(ctx);
    return at;
}

static void dials_through_the_proxy_to_tls(void **state)
{
    TCI_UNUSED(state);
    far_side f;
    dialled d;
    far_open(&f, true, true);
    (void)dial(&f, true, "ca.pem", &d);
    TURN_UNTIL(f.loop, f.plain.in.len > 0);
    assert_memory_equal(f.plain.in.ptr, "CONNECT localhost:443 HTTP/1.1\r\n", 32);
    end_send(&f.plain, "HTTP/1.1 200 OK\r\n\r\n", 19);
    TURN_UNTIL(f.loop, f.plain.out_at == 19);
    start_tls(&f);
    TURN_UNTIL(f.loop, d.is_done);
    assert_non_null(d.stream);
    end client;
    end_init(&client, d.stream);
    client.ends_after_out = true;
    end_send(&client, "hello", 5);
    TURN_UNTIL(f.loop, f.secure.is_over);
    assert_int_equal(f.secure.result, TC_E_END);
    assert_memory_equal(f.secure.in.ptr, "hello", 5);
    end_done(&client);
    far_done(&f);
}

static void dial_fails_with_the_step_that_failed(void **state)
{
    TCI_UNUSED(state);
    far_side f;
    dialled d;
    far_open(&f, true, true); /* the proxy refuses */
    (void)dial(&f, true, "ca.pem", &d);
    TURN_UNTIL(f.loop, f.plain.in.len > 0);
    end_send(&f.plain, "HTTP/1.1 403 Forbidden\r\n\r\n", 26);
    TURN_UNTIL(f.loop, d.is_done);
    assert_null(d.stream);
    assert_int_equal(d.err.code, TC_E_CONNECT);
    assert_non_null(strstr(d.err.msg, "403"));
    far_done(&f);

    far_open(&f, false, true); /* the certificate is not trusted */
    (void)dial(&f, true, "other-ca.pem", &d);
    TURN_UNTIL(f.loop, f.plain.stream != NULL);
    start_tls(&f);
    TURN_UNTIL(f.loop, d.is_done);
    assert_int_equal(d.err.code, TC_E_UNTRUSTED);
    far_done(&f);

    far_open(&f, true, true); /* given up half way */
    tci_dial *at = dial(&f, true, "ca.pem", &d);
    TURN_UNTIL(f.loop, f.plain.in.len > 0);
    tci_dial_cancel(at);
    TURN_UNTIL(f.loop, f.plain.is_over);
    assert_false(d.is_done);
    far_done(&f);
}

static void dials_plainly(void **state)
{
    TCI_UNUSED(state);
    far_side f;
    dialled d;
    far_open(&f, false, false);
    (void)dial(&f, false, "ca.pem", &d);
    TURN_UNTIL(f.loop, d.is_done && f.plain.stream != NULL);
    assert_non_null(d.stream);
    tci_stream_close(d.stream);
    far_done(&f);
}

static void running_out_of_memory_leaves_nothing_behind(void **state)
{
    TCI_UNUSED(state);
    bool is_complete = false;
    for (size_t n = 1; !is_complete; n++) { /* the n-th allocation fails, and all after it */
        tc_err err;
        tci_stream *raw[2], *through = NULL, *secure = NULL;
        tci_tls_ctx *ctx = NULL;
        tci_tls_client_options o = {.without_system_roots = true, .ca_pem_path = "ca.pem"};
        tci_proxy proxy = {.is_used = true, .port = 1, .host = "p"};
        tci_loop *loop = new_loop();
        stream_pair(loop, raw);
        (void)make_certs();
        tci_mem_fail_at(n);
        int rc = tci_tls_ctx_new_client(&o, &ctx, &err);
        if (rc == 0) {
            rc = tci_proxy_stream_new(loop, raw[0], &proxy, TC_STR("h"), 443, 100, &through, &err);
            raw[0] = NULL; /* taken over, also by a failure */
        }
        if (rc == 0)
            rc = tci_tls_client_new(ctx, loop, through, TC_STR("h"), 100, &secure, &err);
        tci_mem_fail_at(0);
        is_complete = rc == 0;
        if (is_complete) {
            end e; /* out of memory within the handshake shows as a failure */
            end_init(&e, secure);
            tci_mem_fail_at(1);
            tci_loop_turn(loop, 0);
            tci_mem_fail_at(0);
            end_done(&e);
        } else {
            assert_int_equal(rc, TC_E_NO_MEMORY);
        }
        tci_tls_ctx_free(ctx);
        tci_stream_close(raw[0]);
        tci_stream_close(raw[1]);
        tci_loop_free(loop);
    }
}

const struct CMUnitTest tunnel_tests[] = {
    cmocka_unit_test(tunnel_carries_both_ways),
    cmocka_unit_test(refusals_name_the_step_and_hide_the_password),
    cmocka_unit_test(endless_and_absent_answers_end),
    cmocka_unit_test(dials_through_the_proxy_to_tls),
    cmocka_unit_test(dial_fails_with_the_step_that_failed),
    cmocka_unit_test(dials_plainly),
    cmocka_unit_test(running_out_of_memory_leaves_nothing_behind),
};
const size_t ntunnel_tests = TCI_ARRAY_LEN(tunnel_tests);
