/* SPDX-License-Identifier: Apache-2.0
 *
 * A Host with a scripted device, and HTTP by hand. */
#include "hosted.h"

#include "base/str.h"
#include "plat/fd.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

enum { READ_BYTES = 65536, WAIT_MS = 20000 };

/* ---- records ---- */

static void enroll(hosted *h)
{
    tci_arena a;
    tci_pair_answer paired;
    tci_host_device device;
    tc_err err;
    int64_t now_ms = tci_host_now_ms();
    tci_pair_ask ask = {.device_id = TC_STR("dev-1"),
                        .name = TC_STR("work"),
                        .digest = tci_digest_of(TC_STR("credential")),
                        .address = TC_STR("127.0.0.1"),
                        .may_begin = true};
    tci_arena_init(&a, 0);
    assert_int_equal(tci_host_pair(h->host->db, now_ms, &ask, &a, &paired, &err), 0);
    tci_challenge_ref which = {.code = paired.code};
    assert_int_equal(tci_host_approve(h->host->db, now_ms, &which, &a, &device, &err), 0);
    snprintf(h->id, sizeof h->id, "%.*s", TC_STR_ARG(device.id));
    tci_arena_done(&a);
}

static void sign_in(hosted *h)
{
    char code[TCI_LINK_CODE_LEN];
    int64_t now_ms = tci_host_now_ms(), expires_ms;
    tc_err err;
    assert_int_equal(tci_host_link_new(h->host->db, now_ms, code, &expires_ms, &err), 0);
    assert_int_equal(tci_host_sign_in(h->host->db, now_ms, tci_str_of(code, sizeof code),
                                      TCI_SIGN_IN_TERMINAL, TC_STR("test"), h->token, &expires_ms,
                                      &err),
                     0);
    h->token[TCI_TOKEN_LEN] = 0;
}

void hosted_open(hosted *h)
{
    static unsigned count;
    tc_err err;
    memset(h, 0, sizeof *h);
    snprintf(h->folder, sizeof h->folder, "host-%d-%u", (int)getpid(), count++);
    assert_int_equal(tc_runtime_open(NULL, &h->rt, &err), 0);
    tci_host_options o = {.bind = TC_STR("127.0.0.1:0"), .data = tci_str(h->folder)};
    if (tci_host_open(h->rt, &o, &h->host, &err) < 0)
        fail_msg("%s", err.msg);
    enroll(h);
    sign_in(h);
    tc_str url = tci_host_url(h->host);
    snprintf(h->endpoint, sizeof h->endpoint, "%.*s", (int)url.len - 1, url.ptr);
    snprintf(h->path, sizeof h->path, "/api/devices/work/");
}

void hosted_close(hosted *h)
{
    tci_host_close(h->host);
    tc_runtime_close(h->rt);
}

void hosted_link(hosted *h, attached *a, peer *p, void (*play)(peer *p), void *arg)
{
    tc_err err;
    tc_device *device = NULL;
    memset(a, 0, sizeof *a);
    peer_open(p, play, arg);
    attach_start(a, h->host->connections, "dev-1", p);
    if (tc_connections_wait(h->host->connections, NULL, TC_STR("dev-1"), WAIT_MS, &device, &err) <
        0)
        fail_msg("%s", err.msg);
    tc_device_close(device);
}

int hosted_connect(hosted *h, tc_runtime *rt, tc_device **ret, tc_err *err)
{
    tc_http_options o = {.size = sizeof o,
                         .endpoint = tci_str(h->endpoint),
                         .path = tci_str(h->path),
                         .credential = tci_str(h->token)};
    return tc_device_connect_http(rt, NULL, &o, NULL, ret, err);
}

/* ---- for rigs ---- */

typedef struct rig_host {
    hosted hosted;
    attached attached;
} rig_host;

static int host_connect(rig *g)
{
    rig_host *r = calloc(1, sizeof *r);
    assert_non_null(r);
    g->plug = r;
    hosted_open(&r->hosted);
    attach_start(&r->attached, r->hosted.host->connections, "dev-1", &g->peer);
    tc_device *there;
    for (;;) {
        int rc = tc_connections_wait(r->hosted.host->connections, NULL, TC_STR("dev-1"), 20, &there,
                                     &g->err);
        if (rc == 0)
            break;
        if (rc != TC_E_TIMEOUT)
            return rc;
        if (attach_is_over(&r->attached) && r->attached.code < 0) {
            g->err = r->attached.err;
            return r->attached.code;
        }
    }
    tc_device_close(there);
    return hosted_connect(&r->hosted, g->rt, &g->device, &g->err);
}

static void host_close(rig *g)
{
    rig_host *r = g->plug;
    if (r == NULL)
        return;
    hosted_close(&r->hosted);
    (void)attach_end(&r->attached);
    free(r);
}

void rig_use_host(void)
{
    rig_connect_otherwise = host_connect;
    rig_close_otherwise = host_close;
}

/* ---- HTTP by hand ---- */

int hosted_dial(const hosted *h)
{
    struct sockaddr_in at = {.sin_family = AF_INET};
    const char *colon = strrchr(h->endpoint, ':');
    uint64_t port = 0;
    tc_err err;
    assert_int_equal(tci_num_u64(tci_str(colon + 1), &port, &err), 0);
    at.sin_port = htons((uint16_t)port);
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof at), 0);
    int on = 1; /* a head and a body are sent apart */
    assert_int_equal(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on), 0);
    return fd;
}

void hosted_send(int fd, const void *bytes, size_t len)
{
    const char *at = bytes;
    while (len > 0) {
        ssize_t n = send(fd, at, len, MSG_NOSIGNAL);
        if (n < 0)
            return; /* answered and closed: what it says is read */
        at += n;
        len -= (size_t)n;
    }
}

void hosted_head(const hosted *h, int fd, const char *method, const char *what, const char *more,
                 long long length)
{
    char head[2048], body[64] = "Transfer-Encoding: chunked\r\n";
    if (length >= 0)
        snprintf(body, sizeof body, "Content-Length: %lld\r\n", length);
    int n = snprintf(head, sizeof head,
                     "%s %seip/%s HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer %s\r\n"
                     "%s%s\r\n",
                     method, h->path, what, h->token, more, body);
    assert_true(n > 0 && (size_t)n < sizeof head);
    hosted_send(fd, head, (size_t)n);
}

/* More of what comes; false: the end. */
static bool read_more(int fd, tci_buf *b)
{
    char *room = tci_buf_reserve(b, READ_BYTES);
    assert_non_null(room);
    ssize_t n = recv(fd, room, READ_BYTES, 0);
    if (n <= 0)
        return false;
    tci_buf_commit(b, (size_t)n);
    return true;
}

uint64_t number_at(tc_str text)
{
    uint64_t n = 0;
    for (size_t i = 0; i < text.len && text.ptr[i] >= '0' && text.ptr[i] <= '9'; i++)
        n = n * 10 + (uint64_t)(text.ptr[i] - '0');
    return n;
}

static tc_str field(const answer *a, const char *name)
{
    size_t at = tci_str_find(tci_buf_str(&a->head), tci_str(name));
    tc_str rest = tci_str_sub(tci_buf_str(&a->head), at, SIZE_MAX);
    rest = tci_str_sub(rest, 0, tci_str_find(rest, TC_STR("\r\n")));
    return tci_str_trim(tci_str_sub(rest, strlen(name), SIZE_MAX));
}

/* Take the chunks out of raw; true: their end is there. */
static bool take_chunks(tci_buf *raw, tci_buf *body)
{
    static const char digits[] = "0123456789abcdef";
    for (;;) {
        size_t eol = tci_str_find(tci_buf_str(raw), TC_STR("\r\n"));
        if (eol >= raw->len)
            return false;
        size_t len = 0;
        for (size_t i = 0; i < eol; i++) {
            const char *at = strchr(digits, raw->ptr[i] | 0x20);
            assert_non_null(at);
            len = len * 16 + (size_t)(at - digits);
        }
        if (raw->len < eol + 2 + len + 2)
            return false;
        tci_buf_append(body, raw->ptr + eol + 2, len);
        tci_buf_consume(raw, eol + 2 + len + 2);
        if (len == 0)
            return true;
    }
}

void hosted_read(int fd, answer *ret)
{
    tci_buf raw;
    memset(ret, 0, sizeof *ret);
    tci_buf_init(&raw, TCI_BUF_MAX);
    tci_buf_init(&ret->head, TCI_BUF_MAX);
    tci_buf_init(&ret->body, TCI_BUF_MAX);
    size_t end;
    while ((end = tci_str_find(tci_buf_str(&raw), TC_STR("\r\n\r\n"))) >= raw.len)
        if (!read_more(fd, &raw))
            break;
    if (end < raw.len) {
        tci_buf_append(&ret->head, raw.ptr, end + 2);
        tci_buf_consume(&raw, end + 4);
        ret->status = (int)number_at(tci_str_sub(tci_buf_str(&ret->head), sizeof "HTTP/1.1", 3));
        bool is_chunked = field(ret, "Transfer-Encoding:").len > 0;
        size_t length = (size_t)number_at(field(ret, "Content-Length:"));
        if (ret->status == 204)
            length = 0;
        for (;;) {
            ret->is_whole = is_chunked ? take_chunks(&raw, &ret->body) : raw.len >= length;
            if (ret->is_whole || !read_more(fd, &raw))
                break;
        }
        if (!is_chunked)
            tci_buf_append(&ret->body, raw.ptr, raw.len < length ? raw.len : length);
    }
    tci_buf_append_byte(&ret->body, 0); /* so that it is a C string, too */
    ret->body.len--;
    tci_buf_done(&raw);
}

void answer_done(answer *a)
{
    tci_buf_done(&a->head);
    tci_buf_done(&a->body);
}

void hosted_ask(const hosted *h, const char *body, answer *ret)
{
    int fd = hosted_dial(h);
    hosted_head(h, fd, "POST", "control", "Content-Type: application/json\r\n",
                (long long)strlen(body));
    hosted_send(fd, body, strlen(body));
    hosted_read(fd, ret);
    tci_fd_close(&fd);
}
