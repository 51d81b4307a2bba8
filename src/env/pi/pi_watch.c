/* SPDX-License-Identifier: Apache-2.0
 *
 * Watching over pi-env: one request that lasts, whose events are passed on. Leaves opening it again to
 * watcher.c. The watcher's thread. */
#include "env/pi/pi_int.h"

typedef struct watching {
    const tci_watch_view *view;
    const tc_call *call;
    tc_env_error word; /* of an error event */
    tc_err err;
} watching;

static tc_watch_mode mode_of(const tci_pi_watch_event *event)
{
    return event->mode == TCI_PI_WATCH_MODE_NATIVE ? TC_WATCH_NATIVE : TC_WATCH_POLLING;
}

static void failed(watching *w, const tci_pi_watch_event *event)
{
    bool is_denied = tci_str_eq(event->code, TC_STR("permission_denied"));
    w->word = is_denied                                    ? TC_ENV_PERMISSION_DENIED
              : tci_str_eq(event->code, TC_STR("invalid")) ? TC_ENV_INVALID
                                                           : TC_ENV_UNKNOWN;
    tc_code code = is_denied ? TC_E_DENIED : w->word == TC_ENV_INVALID ? TC_E_INVALID : TC_E_IO;
    (void)tc_err_set(&w->err, code, "%.*s", TC_STR_ARG(event->message));
}

static int on_note(void *user, const tci_pi_note *note, tc_err *err)
{
    watching *w = user;
    tci_pi_watch_event event = {.kind = {0}};
    tci_arena a;
    if (note->json == NULL)
        return 0;
    tci_arena_init(&a, 0);
    int rc = tci_proto_decode_lenient(&tci_pi_watch_event_type, note->json, &a, &event, err);
    tc_watcher *watcher = w->view->watcher;
    if (rc < 0) {
        rc = tc_err_recode(err, TC_E_PROTOCOL);
    } else if (tci_str_eq(event.kind, TC_STR("ready"))) {
        tci_watcher_is_ready(watcher, mode_of(&event));
    } else if (tci_str_eq(event.kind, TC_STR("error"))) {
        failed(w, &event);
    } else if (tci_str_eq(event.kind, TC_STR("change"))) {
        if (event.has_mode)
            tci_watcher_set_mode(watcher, mode_of(&event));
        if (event.overflow)
            tci_watcher_overflow(watcher);
        else
            tci_watcher_changed(watcher, (tc_strs){event.paths.items, event.paths.count});
    }
    tci_arena_done(&a);
    return rc;
}

static int fill_targets(const tci_watch_view *view, tci_arena *a, tci_pi_watch_params *params,
                        tc_err *err)
{
    tci_pi_watch_target *items = tci_arena_items(a, tci_pi_watch_target, view->ntargets);
    if (items == NULL && view->ntargets > 0)
        return tci_arena_error(a, err);
    for (size_t i = 0; i < view->ntargets; i++) {
        const tc_watch_target *t = &view->targets[i];
        items[i].path = t->path;
        items[i].recursive = t->is_recursive;
        items[i].exclude.hidden = t->exclude_hidden;
        items[i].exclude.names.count = t->exclude_names.count;
        items[i].exclude.names.items =
            tci_arena_copy(a, t->exclude_names.items, t->exclude_names.count * sizeof(tc_str));
        if (items[i].exclude.names.items == NULL && t->exclude_names.count > 0)
            return tci_arena_error(a, err);
    }
    params->targets.items = items;
    params->targets.count = view->ntargets;
    return 0;
}

int tci_penv_watch(tc_env *env, const tci_watch_view *view, tc_call *call, bool *ret_is_lost,
                   tc_err *err)
{
    watching w = {.view = view, .call = call};
    tci_pi_watch_params params = {
        .has_mode = view->options.mode != TC_WATCH_AUTO,
        .mode = view->options.mode == TC_WATCH_POLLING ? TCI_PI_WATCH_MODE_POLLING
                                                       : TCI_PI_WATCH_MODE_NATIVE,
        .has_poll_interval_ms = true,
        .poll_interval_ms = (double)view->options.poll_interval_ms,
        .max_directories = view->options.max_directories,
    };
    int rc = fill_targets(view, tci_result_arena(call->result), &params, err);
    if (rc < 0)
        return rc;
    tci_pi_call request = {.op = TCI_PI_WATCH,
                           .params = &params,
                           .result = call->result,
                           .on_note = on_note,
                           .user = &w};
    rc = tci_pi_do(tci_penv_of(env)->pi, view->ctx, &request, err);
    *ret_is_lost = rc < 0 && request.fault.is_lost;
    if (tc_ctx_is_cancelled(view->ctx))
        return 0;
    if (rc == 0 && w.word != TC_ENV_OK) {
        *err = w.err;
        rc = err->code;
        tci_env_blame(call, w.word, (tc_str){0});
    } else if (rc < 0) {
        (void)tci_penv_blame(call, &request, rc, (tc_str){0});
    }
    return rc;
}
