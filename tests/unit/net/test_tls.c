/* SPDX-License-Identifier: Apache-2.0
 *
 * TLS between two of our streams. */
#include "test_net.h"

#include "net/tls.h"
#include <stdlib.h>
#include <string.h>

enum { MANY = 3000000 };

/* A stream that lets a single byte through at a time, and can be cut. */
typedef struct narrow {
    tci_stream base;
    tci_stream *under;
    bool is_cut;
} narrow;

static int narrow_read(tci_stream *s, void *buf, size_t cap, size_t *ret_n, tc_err *err)
{
    narrow *n = TCI_CONTAINER(s, narrow, base);
    if (n->is_cut)
        return tc_err_set(err, TC_E_END, "end of input");
    return tci_stream_read(n->under, buf, cap > 0 ? 1 : 0, ret_n, err);
}

static int narrow_writev(tci_stream *s, const tci_iovec *v, size_t nv, size_t *ret_n, tc_err *err)
{
    narrow *n = TCI_CONTAINER(s, narrow, base);
    tci_iovec one = {nv > 0 ? v[0].ptr : NULL, nv > 0 && v[0].len > 0 ? 1 : 0};
    return tci_stream_writev(n->under, &one, 1, ret_n, err);
}

static int narrow_want(tci_stream *s, unsigned events, tc_err *err)
{
    return tci_stream_want(TCI_CONTAINER(s, narrow, base)->under, events, err);
}

static int narrow_shutdown_write(tci_stream *s, tc_err *err)
{
    return tci_stream_shutdown_write(TCI_CONTAINER(s, narrow, base)->under, err);
}

static void narrow_close(tci_stream *s)
{
    narrow *n = TCI_CONTAINER(s, narrow, base);
    tci_stream_close(n->under);
    free(n);
}

static void narrow_ready(tci_stream *under, unsigned events)
{
    narrow *n = under->user;
    n->base.on_ready(&n->base, events);
}

static narrow *narrow_new(tci_stream *under)
{
    static const tci_stream_vtable vtable = {narrow_read, narrow_writev, narrow_want,
                                             narrow_shutdown_write, narrow_close};
    narrow *n = calloc(1, sizeof *n);
    assert_non_null(n);
    n->base.v = &vtable;
    n->under = under;
    under->on_ready = narrow_ready;
    under->user = n;
    return n;
}

typedef struct pair {
    tci_loop *loop;
    end server, client;
    narrow *server_side, *client_side; /* with is_narrow */
} pair;

static tci_tls_ctx *server_ctx(void)
{
    tc_err err;
    tci_tls_ctx *ctx = NULL;
    const cert_files *f = make_certs();
    assert_int_equal(tci_tls_ctx_new_server(f->cert, f->key, &ctx, &err), 0);
    return ctx;
}

static void pair_open(pair *p, const tci_tls_client_options *options, const char *host,
                      bool is_narrow)
{
    tc_err err;
    tci_stream *raw[2], *s = NULL, *c = NULL;
    tci_tls_ctx *sctx = server_ctx(), *cctx = NULL;
    *p = (pair){.loop = new_loop()};
    assert_int_equal(tci_tls_ctx_new_client(options, &cctx, &err), 0);
    stream_pair(p->loop, raw);
    if (is_narrow) {
        p->server_side = narrow_new(raw[0]);
        p->client_side = narrow_new(raw[1]);
        raw[0] = &p->server_side->base;
        raw[1] = &p->client_side->base;
    }
    assert_int_equal(tci_tls_server_new(sctx, p->loop, raw[0], 0, &s, &err), 0);
    assert_int_equal(tci_tls_client_new(cctx, p->loop, raw[1], tci_str(host), 0, &c, &err), 0);
    tci_tls_ctx_free(sctx); /* the streams hold what they need */
    tci_tls_ctx_free(cctx);
    end_init(&p->server, s);
    end_init(&p->client, c);
}

static void pair_close(pair *p)
{
    end_done(&p->server);
    end_done(&p->client);
    tci_loop_turn(p->loop, 0);
    tci_loop_free(p->loop);
}

static const tci_tls_client_options trusting = {.ca_pem_path = "ca.pem",
                                                .without_system_roots = true};

static char *many_bytes(void)
{
    char *bytes = malloc(MANY);
    assert_non_null(bytes);
    for (size_t i = 0; i < MANY; i++)
        bytes[i] = (char)(i * 13 + i / 4093);
    return bytes;
}

static void many_bytes_and_the_end_both_ways(void **state)
{
    TCI_UNUSED(state);
    char *bytes = many_bytes();
    for (int round = 0; round < 2; round++) {
        pair p;
        pair_open(&p, &trusting, round == 0 ? "localhost" : "127.0.0.1", false);
        p.client.read_cap = 5000; /* less than a record: the rest is reported by itself */
        p.client.ends_after_out = p.server.ends_after_out = true;
        end_send(&p.client, bytes, MANY / 2);
        end_send(&p.server, bytes, MANY);
        TURN_UNTIL(p.loop, p.client.is_over && p.server.is_over);
        assert_int_equal(p.client.result, TC_E_END);
        assert_int_equal(p.server.result, TC_E_END);
        assert_int_equal(p.client.in.len, MANY);
        assert_memory_equal(p.client.in.ptr, bytes, MANY);
        assert_int_equal(p.server.in.len, MANY / 2);
        assert_memory_equal(p.server.in.ptr, bytes, MANY / 2);
        assert_true(tci_tls_is_established(p.client.stream));
        pair_close(&p);
    }
    free(bytes);
}

static void one_byte_at_a_time_is_enough(void **state)
{
    TCI_UNUSED(state);
    pair p;
    pair_open(&p, &trusting, "localhost", true);
    p.client.ends_after_out = p.server.ends_after_out = true;
    end_send(&p.client, "question", 8);
    end_send(&p.server, "the answer", 10);
    TURN_UNTIL(p.loop, p.client.is_over && p.server.is_over);
    assert_int_equal(p.client.result, TC_E_END);
    assert_int_equal(p.server.result, TC_E_END);
    assert_memory_equal(p.client.in.ptr, "the answer", 10);
    assert_memory_equal(p.server.in.ptr, "question", 8);
    pair_close(&p);
}

static void untrusted(const tci_tls_client_options *options, const char *host, const char *word)
{
    pair p;
    pair_open(&p, options, host, false);
    end_send(&p.client, "secret", 6);
    TURN_UNTIL(p.loop, p.client.is_over && p.server.is_over);
    assert_int_equal(p.client.result, TC_E_UNTRUSTED);
    assert_non_null(strstr(p.client.err.msg, host));
    assert_non_null(strstr(p.client.err.msg, word));
    assert_int_equal(p.server.in.len, 0);
    assert_true(p.server.result == TC_E_PROTOCOL || p.server.result == TC_E_CLOSED);
    pair_close(&p);
}

static void certificate_must_be_trusted_and_for_the_host(void **state)
{
    TCI_UNUSED(state);
    tci_tls_client_options other = {.ca_pem_path = "other-ca.pem", .without_system_roots = true};
    tci_tls_client_options system = {.ca_pem_path = NULL};
    (void)make_certs();
    untrusted(&other, "localhost", "not trusted");
    untrusted(&system, "localhost", "not trusted");
    untrusted(&trusting, "example.com", "not for");
    untrusted(&trusting, "127.0.0.2", "not for");
}

static void verification_is_off_only_when_asked(void **state)
{
    TCI_UNUSED(state);
    tci_tls_client_options insecure = {.insecure_no_verify = true};
    pair p;
    pair_open(&p, &insecure, "example.com", false);
    p.server.ends_after_out = true;
    end_send(&p.server, "hello", 5);
    TURN_UNTIL(p.loop, p.client.is_over);
    assert_int_equal(p.client.result, TC_E_END);
    assert_int_equal(p.client.in.len, 5);
    pair_close(&p);
}

static void cut_connection_is_not_an_end(void **state)
{
    TCI_UNUSED(state);
    pair p;
    pair_open(&p, &trusting, "localhost", true);
    end_send(&p.server, "partial", 7);
    TURN_UNTIL(p.loop, p.client.in.len == 7);
    p.client_side->is_cut = true;
    end_send(&p.server, "x", 1); /* so that the cut is noticed */
    TURN_UNTIL(p.loop, p.client.is_over);
    assert_int_equal(p.client.result, TC_E_CLOSED);
    assert_int_equal(p.client.in.len, 7);
    pair_close(&p);

    pair_open(&p, &trusting, "localhost", true); /* in the handshake */
    p.client_side->is_cut = true;
    TURN_UNTIL(p.loop, p.client.is_over);
    assert_int_equal(p.client.result, TC_E_CLOSED);
    pair_close(&p);
}

static void close_delivers_what_was_accepted(void **state)
{
    TCI_UNUSED(state);
    char *bytes = many_bytes();
    pair p;
    pair_open(&p, &trusting, "localhost", false);
    p.client.is_paused = true;
    p.server.closes_after_out = true;
    end_send(&p.server, bytes, MANY);
    TURN_UNTIL(p.loop, p.client.is_open && p.server.out_at > 100000); /* what fits is on the way */
    end_resume(&p.client);
    TURN_UNTIL(p.loop, p.client.is_over);
    assert_int_equal(p.client.result, TC_E_END);
    assert_int_equal(p.client.in.len, MANY);
    assert_memory_equal(p.client.in.ptr, bytes, MANY);
    pair_close(&p);
    free(bytes);
}

static void silent_peer_times_out(void **state)
{
    TCI_UNUSED(state);
    tc_err err;
    tci_loop *loop = new_loop();
    tci_tls_ctx *ctx = server_ctx();
    tci_stream *raw[2], *s = NULL;
    stream_pair(loop, raw);
    assert_int_equal(tci_tls_server_new(ctx, loop, raw[0], 20, &s, &err), 0);
    end e;
    end_init(&e, s);
    TURN_UNTIL(loop, e.is_over);
    assert_int_equal(e.result, TC_E_TIMEOUT);
    end_done(&e);
    tci_stream_close(raw[1]);
    tci_tls_ctx_free(ctx);
    tci_loop_free(loop);
}

static void peer_without_tls_is_a_protocol_error(void **state)
{
    TCI_UNUSED(state);
    tc_err err;
    tci_loop *loop = new_loop();
    tci_tls_ctx *ctx = server_ctx();
    tci_stream *raw[2], *s = NULL;
    stream_pair(loop, raw);
    assert_int_equal(tci_tls_server_new(ctx, loop, raw[0], 0, &s, &err), 0);
    end plain, e;
    end_init(&plain, raw[1]);
    end_init(&e, s);
    end_send(&plain, "GET / HTTP/1.1\r\nHost: x\r\n\r\n", 27);
    TURN_UNTIL(loop, e.is_over);
    assert_int_equal(e.result, TC_E_PROTOCOL);
    assert_true(e.err.hint[0] != '\0');
    end_done(&e);
    end_done(&plain);
    tci_tls_ctx_free(ctx);
    tci_loop_free(loop);
}

static int refuse_ctx(void *ssl_ctx, void *user, tc_err *err)
{
    assert_non_null(ssl_ctx);
    *(bool *)user = true;
    return tc_err_set(err, TC_E_DENIED, "not this one");
}

static void unusable_files_are_named(void **state)
{
    TCI_UNUSED(state);
    const cert_files *f = make_certs();
    const struct {
        const char *cert, *key;
        int code;
        const char *named;
    } rows[] = {
        {"absent.pem", f->key, TC_E_NOT_FOUND, "absent.pem"},
        {f->cert, "absent.pem", TC_E_NOT_FOUND, "absent.pem"},
        {f->not_pem, f->key, TC_E_INVALID, f->not_pem},
        {f->cert, f->not_pem, TC_E_INVALID, f->not_pem},
        {f->cert, f->locked_key, TC_E_INVALID, f->locked_key},
        {f->ca, f->key, TC_E_INVALID, f->key},
    };
    tc_err err;
    tci_tls_ctx *ctx = NULL;
    for (size_t i = 0; i < TCI_ARRAY_LEN(rows); i++) {
        int rc = tci_tls_ctx_new_server(rows[i].cert, rows[i].key, &ctx, &err);
        assert_int_equal(rc, rows[i].code);
        assert_non_null(strstr(err.msg, rows[i].named));
    }
    tci_tls_client_options o = {.ca_pem_path = "absent.pem"};
    assert_int_equal(tci_tls_ctx_new_client(&o, &ctx, &err), TC_E_NOT_FOUND);
    o.ca_pem_path = f->not_pem;
    assert_int_equal(tci_tls_ctx_new_client(&o, &ctx, &err), TC_E_INVALID);
    bool was_asked = false;
    o = (tci_tls_client_options){.configure = refuse_ctx, .configure_user = &was_asked};
    assert_int_equal(tci_tls_ctx_new_client(&o, &ctx, &err), TC_E_DENIED);
    assert_true(was_asked);
}

const struct CMUnitTest tls_tests[] = {
    cmocka_unit_test(many_bytes_and_the_end_both_ways),
    cmocka_unit_test(one_byte_at_a_time_is_enough),
    cmocka_unit_test(certificate_must_be_trusted_and_for_the_host),
    cmocka_unit_test(verification_is_off_only_when_asked),
    cmocka_unit_test(cut_connection_is_not_an_end),
    cmocka_unit_test(close_delivers_what_was_accepted),
    cmocka_unit_test(silent_peer_times_out),
    cmocka_unit_test(peer_without_tls_is_a_protocol_error),
    cmocka_unit_test(unusable_files_are_named),
};
const size_t ntls_tests = TCI_ARRAY_LEN(tls_tests);
