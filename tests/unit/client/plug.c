/* SPDX-License-Identifier: Apache-2.0
 *
 * The socket of tests: blocking, over the descriptor that the scripted daemon gives. */
#include "plug.h"

#include "plat/fd.h"

#include <sys/socket.h>

enum { READ_BYTES = 65536 };

static tc_str plug_subprotocol(void *user)
{
    const plug *p = user;
    return tci_str(p->subprotocol != NULL ? p->subprotocol : TC_WEBSOCKET_SUBPROTOCOL);
}

static int plug_receive(void *user, tc_message_kind *ret_kind, tc_str *ret_bytes, tc_err *err)
{
    plug *p = user;
    tci_buf_consume(&p->in, p->used);
    p->used = 0;
    for (;;) {
        tci_frames_event event = TCI_FRAMES_MORE;
        tci_frame got;
        size_t used = 0;
        if (p->in.len > 0) {
            int rc = tci_frames_next(&p->frames, tci_buf_str(&p->in), &used, &event, &got, err);
            if (rc < 0)
                return rc;
        }
        if (event == TCI_FRAMES_FRAME) {
            *ret_kind = got.kind == TCI_FRAME_DATA ? TC_MESSAGE_BINARY : TC_MESSAGE_TEXT;
            *ret_bytes = got.body;
            p->used = used;
            return 0;
        }
        tci_buf_consume(&p->in, used);
        char *room = tci_buf_reserve(&p->in, READ_BYTES);
        size_t n = 0;
        tc_err ignored;
        if (tci_fd_read(p->fd, room, READ_BYTES, &n, &ignored) < 0 || n == 0)
            return tc_err_set(err, TC_E_CLOSED, "the socket was closed");
        tci_buf_commit(&p->in, n);
    }
}

static int put(const plug *p, const void *bytes, size_t len, tc_err *err)
{
    const char *at = bytes;
    while (len > 0) {
        ssize_t n = send(p->fd, at, len, MSG_NOSIGNAL);
        if (n < 0)
            return tc_err_set(err, TC_E_CLOSED, "the socket was closed");
        at += n;
        len -= (size_t)n;
    }
    return 0;
}

static int plug_send(void *user, tc_message_kind kind, const tc_str *parts, size_t nparts,
                     tc_err *err)
{
    plug *p = user;
    char head[TCI_FRAMES_PUT_MAX];
    uint64_t total = 0;
    atomic_fetch_add(&p->nsending, 1);
    tci_wake_all(&p->changed);
    while (atomic_load(&p->is_send_held)) {
        unsigned seen = tci_wake_count(&p->changed);
        if (atomic_load(&p->nclose) > 0)
            return tc_err_set(err, TC_E_CLOSED, "the socket was closed");
        tci_wake_wait(&p->changed, seen, 0);
    }
    for (size_t i = 0; i < nparts; i++)
        total += parts[i].len;
    size_t n = tci_frames_put_head(
        head, kind == TC_MESSAGE_BINARY ? TCI_FRAME_DATA : TCI_FRAME_CONTROL, total);
    int rc = put(p, head, n, err);
    for (size_t i = 0; rc == 0 && i < nparts; i++)
        rc = put(p, parts[i].ptr, parts[i].len, err);
    return rc;
}

static void plug_close(void *user, unsigned code, tc_str reason)
{
    plug *p = user;
    TCI_UNUSED(reason);
    atomic_store(&p->close_code, code);
    atomic_fetch_add(&p->nclose, 1);
    (void)shutdown(p->fd, SHUT_RDWR); /* whoever blocks returns */
    tci_wake_all(&p->changed);
}

static void plug_wait(void *user)
{
    plug *p = user;
    atomic_fetch_add(&p->nwait, 1);
}

void plug_open(plug *p, int fd)
{
    tc_err err;
    p->fd = fd;
    p->socket = (tc_socket){.size = sizeof p->socket,
                            .user = p,
                            .subprotocol = plug_subprotocol,
                            .receive = plug_receive,
                            .send = plug_send,
                            .close = plug_close,
                            .wait = plug_wait};
    tci_frames_init(&p->frames, 1 << 30, 1 << 30);
    tci_buf_init(&p->in, TCI_BUF_MAX);
    assert_int_equal(tci_fd_set_nonblocking(fd, false, NULL, &err), 0);
}

void plug_done(plug *p)
{
    tci_fd_close(&p->fd);
    tci_buf_done(&p->in);
}

/* ---- attaching ---- */

static void attach_main(void *arg)
{
    attached *a = arg;
    a->code = tc_connections_attach(a->connections, a->ctx, tci_str(a->device_id), &a->plug.socket,
                                    &a->err);
    atomic_store(&a->is_over, true);
    tci_wake_all(&a->over);
}

void attach_start(attached *a, tc_connections *c, const char *device_id, peer *p)
{
    tc_err err;
    a->connections = c;
    a->device_id = device_id;
    plug_open(&a->plug, p->client_fd);
    p->client_fd = -1;
    assert_int_equal(tci_thread_new(attach_main, a, 0, &a->thread, &err), 0);
}

int attach_end(attached *a)
{
    tci_thread_join(a->thread);
    /* It is closed, once, and its end was waited for, whatever happened. */
    assert_int_equal(atomic_load(&a->plug.nclose), 1);
    assert_int_equal(atomic_load(&a->plug.nwait), 1);
    plug_done(&a->plug);
    return a->code;
}

bool attach_is_over(attached *a)
{
    return atomic_load(&a->is_over);
}

/* ---- for rigs ---- */

typedef struct rig_plug {
    tc_connections *connections;
    attached attached;
} rig_plug;

/* Either the device, or why there is none. */
static int plugged_connect(rig *g)
{
    rig_plug *r = calloc(1, sizeof *r);
    assert_non_null(r);
    g->plug = r;
    assert_ok(g, tc_connections_open(g->rt, NULL, &r->connections, &g->err));
    attach_start(&r->attached, r->connections, "dev-1", &g->peer);
    for (;;) {
        int rc =
            tc_connections_wait(r->connections, NULL, TC_STR("dev-1"), 20, &g->device, &g->err);
        if (rc != TC_E_TIMEOUT)
            return rc;
        if (attach_is_over(&r->attached) && r->attached.code < 0) {
            g->err = r->attached.err;
            return r->attached.code;
        }
    }
}

static void plugged_close(rig *g)
{
    rig_plug *r = g->plug;
    if (r == NULL)
        return; /* never connected */
    tc_connections_close(r->connections);
    (void)attach_end(&r->attached);
    free(r);
}

void rig_use_plugs(void)
{
    rig_connect_otherwise = plugged_connect;
    rig_close_otherwise = plugged_close;
}
