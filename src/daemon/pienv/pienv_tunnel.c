/* SPDX-License-Identifier: Apache-2.0
 *
 * An EIP device behind the pi-env connection: the stdio carrier runs over a stream that is made of tunnel
 * frames. Leaves everything about EIP to the device. Loop thread.
 *
 * The device is made when the tunnel is opened and goes with it: its sessions, the commands they
 * started, and its runtime folder.
 *
 * Invariant: what each side has sent and the other has not yet credited is at most
 * TCI_PIENV_TUNNEL_WINDOW bytes. */
#include "daemon/pienv/pienv_core_int.h"

#include "base/log.h"
#include "daemon/carrier/carrier_stdio.h"
#include "daemon/totals.h"
#include "ops/removal.h"
#include "plat/env.h"

#include <stdio.h>

enum {
    CREDIT_STEP = TCI_PIENV_TUNNEL_WINDOW / 4,
    FRAME_BYTES = 256 * 1024,
    KEEP_BYTES = 64 * 1024
};
enum { AGAIN_MS = 10, TRIES_MAX = 100 };

typedef struct tci_pi_tunnel {
    tci_stream base; /* the device's end */
    tci_pi_server *server;
    tci_config config;
    tci_device *device;
    tci_stdio *stdio; /* NULL after its end */
    char folder[TCI_PATH_MAX];
    tci_buf in; /* received, not yet read by the device */
    size_t in_at;
    uint64_t may_send, to_credit;
    unsigned wanted;
    bool is_eof;    /* the client sends no more */
    bool is_closed; /* the device has closed its end */
    tci_later poke;
    tci_timer last; /* frees it, once nothing works for it any more */
    unsigned tries;
} tci_pi_tunnel;

/* ---- the stream ---- */

static tci_pi_tunnel *of(tci_stream *base)
{
    return TCI_CONTAINER(base, tci_pi_tunnel, base);
}

static size_t waiting(const tci_pi_tunnel *t)
{
    return t->in.len - t->in_at;
}

static unsigned ready(const tci_pi_tunnel *t)
{
    unsigned events = 0;
    if (waiting(t) > 0 || t->is_eof)
        events |= TCI_WATCH_READ;
    if (t->may_send > 0)
        events |= TCI_WATCH_WRITE;
    return events & t->wanted;
}

static void look(tci_pi_tunnel *t)
{
    if (!t->is_closed && ready(t) != 0)
        tci_loop_later(t->server->loop, &t->poke);
}

static void on_poke(tci_later *later)
{
    tci_pi_tunnel *t = TCI_CONTAINER(later, tci_pi_tunnel, poke);
    unsigned events = t->is_closed ? 0 : ready(t);
    if (events != 0)
        t->base.on_ready(&t->base, events);
    look(t);
}

static void give_credit(tci_pi_tunnel *t, size_t n)
{
    char json[64];
    t->to_credit += n;
    if (t->to_credit < CREDIT_STEP)
        return;
    (void)snprintf(json, sizeof json, "{\"credit\":%llu}", (unsigned long long)t->to_credit);
    t->to_credit = 0;
    tci_pi_send_frame(t->server, TCI_PI_CONTROL, TCI_PIENV_TUNNEL, tci_str(json), NULL);
}

static int tunnel_read(tci_stream *base, void *buf, size_t cap, size_t *ret_n, tc_err *err)
{
    tci_pi_tunnel *t = of(base);
    size_t n = waiting(t) < cap ? waiting(t) : cap;
    if (n == 0 && t->is_eof)
        return tc_err_set(err, TC_E_END, "the tunnel was closed");
    *ret_n = n;
    if (n == 0)
        return 0;
    memcpy(buf, t->in.ptr + t->in_at, n);
    t->in_at += n;
    if (t->in_at == t->in.len) {
        tci_buf_clear(&t->in);
        tci_buf_trim(&t->in, KEEP_BYTES);
        t->in_at = 0;
    }
    give_credit(t, n);
    return 0;
}

static int tunnel_writev(tci_stream *base, const tci_iovec *v, size_t nv, size_t *ret_n,
                         tc_err *err)
{
    tci_buf payload;
    tci_pi_tunnel *t = of(base);
    size_t room = t->may_send < FRAME_BYTES ? (size_t)t->may_send : (size_t)FRAME_BYTES;
    *ret_n = 0;
    if (t->server->is_ending)
        return tc_err_set(err, TC_E_CLOSED, "the connection is over");
    tci_buf_init(&payload, FRAME_BYTES);
    for (size_t i = 0; i < nv && payload.len < room; i++) {
        size_t left = room - payload.len;
        tci_buf_append(&payload, v[i].ptr, v[i].len < left ? v[i].len : left);
    }
    if (tci_buf_error(&payload, err) < 0) {
        tci_buf_done(&payload);
        return err->code;
    }
    size_t n = payload.len;
    if (n > 0)
        tci_pi_send_frame(t->server, TCI_PI_BULK, TCI_PIENV_TUNNEL, TC_STR("{}"), &payload);
    t->may_send -= n;
    *ret_n = n;
    return 0;
}

static int tunnel_want(tci_stream *base, unsigned events, tc_err *err)
{
    TCI_UNUSED(err);
    of(base)->wanted = events;
    look(of(base));
    return 0;
}

static int tunnel_shutdown(tci_stream *base, tc_err *err)
{
    TCI_UNUSED(base);
    TCI_UNUSED(err);
    return 0;
}

static void tunnel_close(tci_stream *base)
{
    tci_pi_tunnel *t = of(base);
    t->is_closed = true;
    tci_later_cancel(&t->poke);
}

static const tci_stream_vtable tunnel_vtable = {tunnel_read, tunnel_writev, tunnel_want,
                                                tunnel_shutdown, tunnel_close};

/* ---- the end ---- */

static void remove_folder(tci_pi_tunnel *t)
{
    tc_err ignored; /* what cannot be removed stays where temporary files are */
    if (t->folder[0] == '\0')
        return;
    int rc = tci_ops_remove_tree(tci_str(t->folder), NULL, &ignored);
    TCI_UNUSED(rc);
}

static void tunnel_free(tci_pi_tunnel *t)
{
    tci_timer_stop(&t->last);
    tci_later_cancel(&t->poke);
    tci_buf_done(&t->in);
    tci_config_done(&t->config);
    remove_folder(t);
    tci_free(t);
}

static void say_closed(tci_pi_server *s)
{
    if (!s->is_ending)
        tci_pi_send_frame(s, TCI_PI_BULK, TCI_PIENV_TUNNEL, TC_STR("{\"close\":true}"), NULL);
}

/* Whatever still works for the device, on the pool or as a session that does not end, may touch it. */
static bool is_quiet(const tci_pi_tunnel *t)
{
    const tci_device *d = t->device;
    return d->nsessions == 0 && d->ninflight == 0 &&
           tci_loop_pending_jobs(t->server->loop) <= t->server->njobs;
}

static void on_last(tci_timer *timer)
{
    tc_err err;
    tci_pi_tunnel *t = TCI_CONTAINER(timer, tci_pi_tunnel, last);
    tci_pi_server *s = t->server;
    bool is_hanging = !is_quiet(t);
    if (is_hanging && ++t->tries < TRIES_MAX && tci_timer_start(timer, AGAIN_MS, &err) == 0)
        return;
    s->tunnel = NULL;
    if (is_hanging) { /* left to the end of the process */
        tci_runtime_dir_close(t->device->runtime);
        remove_folder(t);
        s->is_spoiled = true;
    } else {
        tci_device_free(t->device);
        tunnel_free(t);
    }
    say_closed(s);
    tci_pi_check_end(s);
}

static void on_end(void *user, int status, tc_str message)
{
    tc_err err;
    tci_pi_tunnel *t = user;
    TCI_UNUSED(status);
    TCI_UNUSED(message);
    t->stdio = NULL;
    if (tci_timer_start(&t->last, 0, &err) < 0)
        tci_pi_end_with(t->server, TCI_PI_END_BROKEN, "%s", err.msg);
}

void tci_pi_tunnel_stop(tci_pi_server *s)
{
    if (s->tunnel != NULL && s->tunnel->stdio != NULL)
        tci_stdio_drain(s->tunnel->stdio);
}

/* ---- the beginning ---- */

static int make_folder(tci_pi_tunnel *t, tc_err *err)
{
    char letters[TCI_PI_TEMP_LETTERS];
    tc_str dir = tci_pi_tmpdir(t->server);
    tci_pi_random_letters(letters);
    int n = snprintf(t->folder, sizeof t->folder, "%.*s/" TCI_PI_TUNNEL_PREFIX "%.*s",
                     TC_STR_ARG(dir), TCI_PI_TEMP_LETTERS, letters);
    int rc =
        n > 0 && (size_t)n < sizeof t->folder
            ? tci_file_mkdir(TCI_FILE_CWD, tci_str(t->folder), 0700, err)
            : tc_err_set(err, TC_E_TOO_BIG, "the folder for temporary files has too long a name");
    if (rc < 0)
        t->folder[0] = '\0';
    return rc;
}

typedef struct variables {
    tci_arena *arena;
    char *items[8];
    size_t n;
    int rc;
} variables;

static void set(variables *v, const char *name, const char *value, tc_err *err)
{
    tc_str text;
    if (value == NULL || v->rc < 0)
        return;
    v->rc = tci_arena_printf(v->arena, &text, err, "%s=%s", name, value);
    if (v->rc == 0)
        v->items[v->n++] = (char *)(uintptr_t)text.ptr;
}

/* As if started by the user with full control, and with no other setting of the environment: those
 * belong to daemons that are started by themselves. */
static int configure(tci_pi_tunnel *t, tci_arena *a, tc_err *err)
{
    static char program[] = "telechird";
    char *argv[] = {program, NULL};
    char id[48];
    tc_str text;
    tci_config_action action;
    variables v = {.arena = a};
    uint64_t random[2];
    tci_random_bytes(random, sizeof random);
    (void)snprintf(id, sizeof id, "device-%016llx%016llx", (unsigned long long)random[0],
                   (unsigned long long)random[1]);
    set(&v, "PATH", tci_env_get("PATH"), err);
    set(&v, "HOME", tci_env_get("HOME"), err);
    set(&v, "TELECHIRD_RUNTIME_DIR", t->folder, err);
    set(&v, "TELECHIRD_STATE_DIR", t->folder, err);
    set(&v, "TELECHIRD_DEVICE_ID", id, err);
    set(&v, "TELECHIRD_FULL_CONTROL", "true", err);
    set(&v, "TELECHIRD_DIRECTORY_DISCOVERY", "true", err);
    if (v.rc < 0)
        return v.rc;
    return tci_config_load(1, argv, v.items, &t->config, &action, &text, err);
}

static int make_device(tci_pi_tunnel *t, tc_err *err)
{
    tci_arena a;
    tci_pi_server *s = t->server;
    tci_pi_sweep(tci_pi_tmpdir(s));
    if (make_folder(t, err) < 0)
        return err->code;
    tci_arena_init(&a, 0);
    int rc = configure(t, &a, err);
    tci_arena_done(&a);
    if (rc == 0)
        rc = tci_device_new(s->loop, &t->config, &t->device, err);
    if (rc < 0)
        return rc;
    tci_totals_free(t->device->totals); /* standard error belongs to whoever logs in */
    t->device->totals = NULL;
    return tci_pi_exec_trees(s, &t->device->trees, err);
}

static int tunnel_new(tci_pi_server *s, tc_err *err)
{
    tci_pi_tunnel *t = tci_new(tci_pi_tunnel);
    if (t == NULL)
        return tci_err_no_memory(err);
    t->server = s;
    t->base.v = &tunnel_vtable;
    t->may_send = TCI_PIENV_TUNNEL_WINDOW;
    t->poke.cb = on_poke;
    tci_buf_init(&t->in, TCI_BUF_MAX);
    tci_arena_init(&t->config.arena, 0);
    tci_timer_init(&t->last, s->loop, on_last);
    int rc = make_device(t, err);
    if (rc == 0)
        rc = tci_stdio_serve(t->device, &t->base, on_end, t, &t->stdio, err);
    if (rc < 0) {
        tci_device_free(t->device);
        tunnel_free(t);
        return rc;
    }
    s->tunnel = t;
    return 0;
}

static void open_tunnel(tci_pi_server *s)
{
    tc_err err;
    if (tunnel_new(s, &err) == 0)
        return;
    tci_log(TCI_LOG_WARN, "cannot open the tunnel: %s", err.msg);
    say_closed(s);
}

/* ---- frames ---- */

static void take_bytes(tci_pi_tunnel *t, tc_str bytes)
{
    if (bytes.len == 0 || t->stdio == NULL)
        return;
    bool is_over = waiting(t) + bytes.len > TCI_PIENV_TUNNEL_WINDOW;
    if (!is_over)
        tci_buf_append_str(&t->in, bytes);
    if (is_over || !tci_buf_ok(&t->in)) {
        t->is_eof = true; /* a gap cannot be read over */
        tci_stdio_drain(t->stdio);
    }
}

static bool read_note(tc_str json, tci_pi_tunnel_note *ret)
{
    tc_err err;
    tci_arena a;
    tci_json v;
    *ret = (tci_pi_tunnel_note){0};
    if (json.len <= 2)
        return true;
    tci_arena_init(&a, 0);
    bool is_fine = tci_json_parse(json, TCI_JSON_LAST_KEY_WINS, &a, &v, &err) == 0 &&
                   tci_proto_decode_lenient(&tci_pi_tunnel_note_type, &v, &a, ret, &err) == 0;
    tci_arena_done(&a); /* the note holds no text */
    return is_fine;
}

void tci_pi_tunnel_frame(tci_pi_server *s, tc_str json, tc_str payload)
{
    tci_pi_tunnel_note note;
    if (!read_note(json, &note))
        return;
    if (note.open && s->tunnel == NULL)
        open_tunnel(s);
    tci_pi_tunnel *t = s->tunnel;
    if (t == NULL)
        return;
    take_bytes(t, payload);
    if (note.credit <= UINT64_MAX - t->may_send)
        t->may_send += note.credit;
    t->is_eof = t->is_eof || note.close;
    look(t);
}
