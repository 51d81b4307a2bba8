/* SPDX-License-Identifier: Apache-2.0
 *
 * What a peer may send to a pi-env server, in memory: frames, requests on files, cancels. The first byte
 * says in which pieces it arrives and how fast the answers go. However it ends, what was sent is the sync
 * line and whole frames of valid JSON, and nothing hangs.
 *
 * Commands, watching, the tunnel and whole listings are left out (their doors are closed below): they
 * have targets and tests of their own, and input made by chance must start no program. */
#include "daemon/pienv/pienv_core_int.h"
#include "fuzz_device.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* <sys/mount.h> cannot be had in all files of this program. */
int mount(const char *source, const char *target, const char *type, unsigned long flags,
          const void *data);

static void refuse(tci_pi_req *r)
{
    tci_pi_fail_code(r, "ENOSYS", "not here");
}

void tci_pi_on_exec(tci_pi_req *r)
{
    refuse(r);
}

void tci_pi_on_input(tci_pi_req *r)
{
    refuse(r);
}

void tci_pi_on_watch(tci_pi_req *r)
{
    refuse(r);
}

void tci_pi_on_list_files(tci_pi_req *r)
{
    refuse(r);
}

void tci_pi_kill_all(tci_pi_server *s)
{
    TCI_UNUSED(s);
}

bool tci_pi_exec_is_idle(const tci_pi_server *s)
{
    TCI_UNUSED(s);
    return true;
}

void tci_pi_exec_free(tci_pi_server *s)
{
    TCI_UNUSED(s);
}

void tci_pi_tunnel_frame(tci_pi_server *s, tc_str json, tc_str payload)
{
    TCI_UNUSED(s);
    TCI_UNUSED(json);
    TCI_UNUSED(payload);
}

void tci_pi_tunnel_stop(tci_pi_server *s)
{
    TCI_UNUSED(s);
}

/* ---- the peer ---- */

typedef struct memory_stream {
    tci_stream base;
    const char *in;
    size_t in_len, piece, out_piece;
    unsigned wanted;
    tci_pienv_sync sync;
    char *out;
    size_t out_len, out_cap;
    bool has_ended, was_clean, is_closed;
} memory_stream;

static int read_some(tci_stream *base, void *buf, size_t cap, size_t *ret_n, tc_err *err)
{
    memory_stream *m = TCI_CONTAINER(base, memory_stream, base);
    if (m->in_len == 0)
        return tc_err_set(err, TC_E_END, "end of input");
    size_t n = m->in_len < m->piece ? m->in_len : m->piece;
    n = n < cap ? n : cap;
    memcpy(buf, m->in, n);
    m->in += n;
    m->in_len -= n;
    *ret_n = n;
    return 0;
}

static int write_some(tci_stream *base, const tci_iovec *v, size_t nv, size_t *ret_n, tc_err *err)
{
    memory_stream *m = TCI_CONTAINER(base, memory_stream, base);
    TCI_UNUSED(err);
    *ret_n = 0;
    for (size_t i = 0; i < nv && *ret_n < m->out_piece; i++) {
        size_t n = v[i].len < m->out_piece - *ret_n ? v[i].len : m->out_piece - *ret_n;
        if (m->out_len + n > m->out_cap) {
            m->out_cap = 2 * (m->out_len + n);
            m->out = realloc(m->out, m->out_cap);
            if (m->out == NULL)
                abort();
        }
        memcpy(m->out + m->out_len, v[i].ptr, n);
        m->out_len += n;
        *ret_n += n;
    }
    return 0;
}

static int want(tci_stream *base, unsigned events, tc_err *err)
{
    TCI_UNUSED(err);
    TCI_CONTAINER(base, memory_stream, base)->wanted = events;
    return 0;
}

static int shutdown_write(tci_stream *base, tc_err *err)
{
    TCI_UNUSED(base);
    TCI_UNUSED(err);
    return 0;
}

static void close_stream(tci_stream *base)
{
    TCI_CONTAINER(base, memory_stream, base)->is_closed = true;
}

static const tci_stream_vtable vtable = {read_some, write_some, want, shutdown_write, close_stream};

static void on_end(void *user, tci_pi_end how, bool is_clean, tc_str message)
{
    memory_stream *m = user;
    TCI_UNUSED(how);
    TCI_UNUSED(message);
    m->has_ended = true;
    m->was_clean = is_clean;
}

static void check_json(tc_str json)
{
    tc_err err;
    tci_arena a;
    tci_json v;
    tci_arena_init(&a, 0);
    if (tci_json_parse(json, 0, &a, &v, &err) < 0 || v.kind != TCI_JSON_OBJECT)
        abort();
    tci_arena_done(&a);
}

static void take(memory_stream *m, size_t n)
{
    if (n > 0)
        memmove(m->out, m->out + n, m->out_len - n);
    m->out_len -= n;
}

static void check_output(memory_stream *m)
{
    tc_err err;
    tci_pienv_head h;
    size_t at = 0;
    if (!m->sync.is_found)
        take(m, tci_pienv_sync_feed(&m->sync, tci_str_of(m->out, m->out_len)));
    while (m->sync.is_found && m->out_len - at >= TCI_PIENV_HEAD_BYTES) {
        if (tci_pienv_head_read(m->out + at, &h, &err) < 0)
            abort();
        size_t len = TCI_PIENV_HEAD_BYTES + (size_t)h.json_len + h.payload_len;
        if (m->out_len - at < len)
            break;
        check_json(tci_str_of(m->out + at + TCI_PIENV_HEAD_BYTES, h.json_len));
        at += len;
    }
    take(m, at);
}

/* Paths are relative to the folder of the device, the only one that can be written to; devices, which
 * could be written to all the same, are not there. */
static fuzz_device *place(void)
{
    static bool is_there;
    fuzz_device *f = fuzz_device_get();
    if (!is_there && (chdir(f->folder) != 0 || mount("none", "/dev", "tmpfs", 1, "size=4k") != 0))
        abort();
    is_there = true;
    return f;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const size_t pieces[] = {1, 7, 64, 1000, SIZE_MAX, SIZE_MAX, SIZE_MAX, SIZE_MAX};
    tc_err err;
    tci_pi_server *server;
    if (size == 0)
        return 0;
    fuzz_device *f = place();
    memory_stream m = {.base = {.v = &vtable},
                       .in = (const char *)data + 1,
                       .in_len = size - 1,
                       .piece = pieces[data[0] & 7],
                       .out_piece = pieces[3 + (data[0] >> 3 & 3)]};
    tci_pi_options o = {.token = TC_STR("fuzz"), .on_end = on_end, .user = &m};
    if (tci_pienv_sync_init(&m.sync, o.token, &err) < 0 ||
        tci_pi_serve(f->loop, &m.base, &o, &server, &err) < 0)
        abort();
    while (!m.has_ended) {
        if (m.wanted != 0 && !m.is_closed)
            m.base.on_ready(&m.base, m.wanted);
        tci_loop_turn(f->loop, m.wanted == 0 ? 2 : 0);
        check_output(&m);
    }
    check_output(&m);
    if (m.out_len > 0 && m.was_clean)
        abort();
    free(m.out);
    return 0;
}
