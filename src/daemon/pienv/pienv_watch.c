/* SPDX-License-Identifier: Apache-2.0
 *
 * The operation watch: a watcher per request, its findings as events. Leaves watching itself to
 * ops/watch.h. Loop thread.
 *
 * Invariant: at most one change is on its way to the peer; until it has left the watcher is held, so
 * a peer that does not read costs no memory, and what happens meanwhile is told afterwards. */
#include "daemon/pienv/pienv_int.h"

#include "ops/watch/watch.h"

#include <stdio.h>

typedef struct watch_state {
    tci_pi_req *req;
    tci_ops_watch *watch;
    tci_pi_delivery delivery;
    bool is_ready;
} watch_state;

static void let_go(watch_state *w)
{
    tci_pi_delivery_forget(&w->delivery);
    tci_ops_watch_close(w->watch);
    w->watch = NULL;
}

static void on_cancel(tci_pi_req *r, bool is_kill)
{
    (void)is_kill; /* there is nothing to kill, and it is to end all the same */
    let_go(r->state);
    tci_pi_reply(r, NULL, NULL, NULL);
}

static void on_close(tci_pi_req *r)
{
    let_go(r->state);
}

static void on_written(tci_pi_delivery *d, bool was_sent)
{
    watch_state *w = TCI_CONTAINER(d, watch_state, delivery);
    if (was_sent && w->watch != NULL)
        tci_ops_watch_hold(w->watch, false);
}

/* ---- events ---- */

static const char *mode_name(tci_ops_watch_mode mode)
{
    return mode == TCI_OPS_WATCH_POLLING ? "polling" : "native";
}

static int send_change(watch_state *w, tc_str json, tc_err *err)
{
    w->delivery.on_written = on_written;
    int rc = tci_pi_event(w->req, TCI_PI_CONTROL, json, NULL, &w->delivery, err);
    if (rc == 0 && tci_pi_delivery_is_unsent(&w->delivery))
        tci_ops_watch_hold(w->watch, true);
    return rc;
}

static int send_paths(watch_state *w, const tci_ops_watch_event *event, tc_err *err)
{
    tci_buf json;
    tci_buf_init(&json, TCI_PIENV_LENGTH_MAX);
    tci_buf_append_str(&json, TC_STR("{\"kind\":\"change\",\"paths\":["));
    for (size_t i = 0; i < event->npaths && tci_buf_ok(&json); i++) {
        if (i != 0)
            tci_buf_append_byte(&json, ',');
        tci_pi_put_text(&json, event->paths[i]);
    }
    tci_buf_append_str(&json, TC_STR("]}"));
    int rc = tci_buf_error(&json, err);
    if (rc == 0)
        rc = send_change(w, tci_buf_str(&json), err);
    tci_buf_done(&json);
    return rc;
}

/* It cannot go on: the peer is told, and everything is over. */
static void give_up(watch_state *w, const tc_err *err)
{
    tci_pi_req *r = w->req;
    const char *code = err->code == TC_E_DENIED    ? "permission_denied"
                       : err->code == TC_E_INVALID ? "invalid"
                                                   : "unknown";
    tc_err send_err;
    tci_buf json;
    let_go(w);
    if (!w->is_ready) {
        tci_pi_failure f = {.os = err->os, .code = err->os == 0 ? "UNKNOWN" : NULL};
        f.message = tci_str(err->msg);
        if (err->os == 0 && err->code == TC_E_INVALID)
            f.code = "EINVAL";
        else if (err->os == 0 && err->code == TC_E_NO_MEMORY)
            f.code = "ENOMEM";
        tci_pi_fail(r, &f);
        return;
    }
    tci_buf_init(&json, TCI_PIENV_LENGTH_MAX);
    tci_buf_printf(&json, "{\"kind\":\"error\",\"code\":\"%s\",\"message\":", code);
    tci_pi_put_text(&json, tci_str(err->msg));
    tci_buf_append_byte(&json, '}');
    int rc = tci_buf_error(&json, &send_err);
    if (rc == 0)
        rc = tci_pi_event(r, TCI_PI_CONTROL, tci_buf_str(&json), NULL, NULL, &send_err);
    tci_buf_done(&json);
    if (rc < 0) /* then the answer itself has to say it */
        tci_pi_fail_code(r, "ENOMEM", "%s", send_err.msg);
    else
        tci_pi_reply(r, NULL, NULL, NULL);
}

static int send_event(watch_state *w, const tci_ops_watch_event *event, tc_err *err)
{
    char json[80];
    if (event->kind == TCI_OPS_WATCH_READY) {
        w->is_ready = true;
        (void)snprintf(json, sizeof json, "{\"kind\":\"ready\",\"mode\":\"%s\"}",
                       mode_name(event->mode)); /* fits */
        return tci_pi_event(w->req, TCI_PI_CONTROL, tci_str(json), NULL, NULL, err);
    }
    /* What does not fit a frame, or cannot be put together now, may be anything. */
    if (!event->is_overflow && send_paths(w, event, err) == 0)
        return 0;
    (void)snprintf(json, sizeof json, "{\"kind\":\"change\",\"overflow\":true%s}",
                   event->has_switched ? ",\"mode\":\"polling\"" : "");
    return send_change(w, tci_str(json), err);
}

static void on_event(void *user, const tci_ops_watch_event *event)
{
    watch_state *w = user;
    tc_err err;
    if (event->kind == TCI_OPS_WATCH_FAILED)
        give_up(w, event->error);
    else if (send_event(w, event, &err) < 0)
        give_up(w, &err);
}

/* ---- opening ---- */

static int take_targets(tci_pi_req *r, const tci_pi_watch_params *p,
                        tci_ops_watch_target **ret_targets, tc_err *err)
{
    tci_ops_watch_target *to = tci_arena_items(&r->arena, tci_ops_watch_target, p->targets.count);
    if (to == NULL)
        return tci_arena_error(&r->arena, err);
    for (size_t i = 0; i < p->targets.count; i++) {
        const tci_pi_watch_target *from = &p->targets.items[i];
        to[i] = (tci_ops_watch_target){.path = from->path,
                                       .is_recursive = from->recursive,
                                       .exclude_hidden = from->exclude.hidden,
                                       .names = from->exclude.names.items,
                                       .nnames = from->exclude.names.count};
    }
    *ret_targets = to;
    return 0;
}

static tci_ops_watch_mode wanted_mode(const tci_pi_watch_params *p)
{
    if (!p->has_mode)
        return TCI_OPS_WATCH_AUTO;
    switch (p->mode) {
    case TCI_PI_WATCH_MODE_POLLING:
        return TCI_OPS_WATCH_POLLING;
    case TCI_PI_WATCH_MODE_NATIVE:
        return TCI_OPS_WATCH_NATIVE;
    }
    return TCI_OPS_WATCH_AUTO;
}

static int64_t wanted_interval(const tci_pi_watch_params *p)
{
    const double day_ms = 24 * 3600 * 1000.0;
    if (!p->has_poll_interval_ms)
        return TCI_OPS_WATCH_POLL_MS;
    if (!(p->poll_interval_ms >= 1))
        return 1;
    return (int64_t)(p->poll_interval_ms < day_ms ? p->poll_interval_ms : day_ms);
}

void tci_pi_on_watch(tci_pi_req *r)
{
    const tci_pi_watch_params *p = r->params;
    tc_err err;
    tci_ops_watch_target *targets;
    watch_state *w = tci_arena_new(&r->arena, watch_state);
    int rc = w != NULL ? take_targets(r, p, &targets, &err) : tci_arena_error(&r->arena, &err);
    if (rc == 0) {
        const tci_ops_watch_options options = {.targets = targets,
                                               .ntargets = p->targets.count,
                                               .mode = wanted_mode(p),
                                               .poll_interval_ms = wanted_interval(p),
                                               .max_directories = p->max_directories};
        w->req = r;
        rc = tci_ops_watch_open(tci_pi_loop(r->server), &options, on_event, w, &w->watch, &err);
    }
    if (rc < 0) {
        tci_pi_fail_code(r, rc == TC_E_INVALID ? "EINVAL" : "ENOMEM", "%s", err.msg);
        return;
    }
    r->state = w;
    r->on_cancel = on_cancel;
    r->on_close = on_close;
}
