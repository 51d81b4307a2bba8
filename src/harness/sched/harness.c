/* SPDX-License-Identifier: Apache-2.0
 *
 * A harness as a whole: opening and closing, what its options say, reports. Leaves scheduling to the
 * scheduler and conversations to their own files. Any thread. Invariant: options are asked at each use
 * and never stored; callbacks are called without the harness's lock. */
#include "harness/sched/sched_int.h"

enum { MAX_RUNNING = 256 };

/* ---- opening ---- */

static int set_up(tc_harness *h, tc_err *err)
{
    if (h->parts != NULL && h->parts->attach != NULL && h->parts->attach(h, &h->run_state, err) < 0)
        return err->code;
    if (tci_durable_listen(h->session, tci_sched_observe, h, &h->commit_listener, err) < 0 ||
        tc_durable_on_close(h->session, tci_sched_closed, h, &h->close_listener, err) < 0)
        return err->code;
    return tci_registry_subscribe(h->options.registry, tci_sched_registry_changed, h,
                                  &h->subscription, err);
}

static int conversation_created(void *user, tc_tx *tx, const tci_conversation *c, tc_err *err)
{
    tc_harness *h = user;
    return h->parts != NULL && h->parts->conversation_created != NULL
               ? h->parts->conversation_created(h, tx, c, err)
               : 0;
}

static tc_harness *harness_new(tc_durable *session, const tc_harness_options *options,
                               const tci_run_parts *parts)
{
    tc_harness *h = tci_new(tc_harness);
    if (h == NULL)
        return NULL;
    size_t size = options->size < sizeof(h->options) ? options->size : sizeof(h->options);
    memcpy(&h->options, options, size); /* an older program knows fewer options */
    h->parts = parts;
    h->session = session;
    h->max_running = h->options.max_running != 0 ? h->options.max_running : MAX_RUNNING;
    tci_mutex_init(&h->lock);
    tci_list_init(&h->lives);
    tci_list_init(&h->roots);
    tci_list_init(&h->intents);
    tci_list_init(&h->finalize_checks);
    tci_list_init(&h->fail_checks);
    tci_list_init(&h->runnable);
    tci_list_init(&h->invocations);
    tci_list_init(&h->idle_waiters);
    tci_list_init(&h->graph_watches);
    tci_workers_init(&h->workers);
    return h;
}

static int open_checked(tc_durable *session, const tc_harness_options *options,
                        const tci_run_parts *parts, tc_ctx *ctx, tc_harness **ret_harness,
                        tc_err *err)
{
    if (options->size == 0 || options->registry == NULL)
        return tc_err_set(err, TC_E_INVALID, "a harness needs a registry");
    if (tci_ctx_check(ctx, err) < 0)
        return err->code;
    tc_harness *h = harness_new(session, options, parts);
    if (h == NULL)
        return tci_err_no_memory(err);
    const tci_durable_hooks hooks = {
        .user = h, .conversation_created = conversation_created, .join = tci_sched_join};
    tci_durable_set_hooks(session, &hooks);
    if (set_up(h, err) < 0 || tci_recover(h, ctx, err) < 0) {
        tc_harness_free(h);
        return 1; /* failed, and the session is gone with it */
    }
    *ret_harness = h;
    return 0;
}

int tci_harness_open_with(tc_durable *session_own, const tc_harness_options *options,
                          const tci_run_parts *parts, tc_ctx *ctx, tc_harness **ret_harness,
                          tc_err *err)
{
    int rc = open_checked(session_own, options, parts, ctx, ret_harness, err);
    if (rc < 0)
        tc_durable_free(session_own);
    return rc == 0 ? 0 : err->code;
}

int tc_harness_close(tc_harness *h, tc_err *err)
{
    int rc = tc_durable_close(h->session, err);
    tci_sched_join(h); /* a session that failed was closed without it */
    tci_sched_give_reports(h);
    return rc;
}

void tc_harness_free(tc_harness *h)
{
    tc_err err;
    if (h == NULL)
        return;
    (void)tc_harness_close(h,
                           &err); /* what was acknowledged is safe, and there is nobody to tell */
    tc_listener_remove(h->commit_listener);
    tc_listener_remove(h->close_listener);
    if (h->parts != NULL && h->parts->detach != NULL)
        h->parts->detach(h, h->run_state);
    tci_graph_done(h);
    tc_durable_free(h->session);
    tci_sched_give_reports(h);
    tci_free(h->sleeps);
    tci_free(h->abandoned);
    tci_mutex_done(&h->lock);
    tci_free(h);
}

tc_durable *tc_harness_session(tc_harness *h)
{
    return h->session;
}

tc_durable *tci_harness_session(const tc_harness *h)
{
    return h->session;
}

int64_t tc_harness_now(tc_harness *h)
{
    return tci_durable_now_ms(h->session);
}

int tc_harness_resume(tc_harness *h, tc_err *err)
{
    /* A host that keeps the time itself comes back when a sleep is due: always look. */
    int rc = tci_harness_enable(h, err);
    tci_mutex_lock(&h->lock);
    tci_sched_kick_locked(h);
    tci_sched_call_locked(h);
    tci_mutex_unlock(&h->lock);
    return rc;
}

tc_wake tc_harness_wake(tc_harness *h)
{
    return tci_sched_wake_now(h);
}

void *tci_harness_run(const tc_harness *h)
{
    return h->run_state;
}

bool tci_harness_is_closing(tc_harness *h)
{
    tci_mutex_lock(&h->lock);
    bool is_closing = h->is_closing || h->is_failed;
    tci_mutex_unlock(&h->lock);
    return is_closing;
}

/* ---- options ---- */

const tc_harness_options *tci_harness_options(const tc_harness *h)
{
    return &h->options;
}

tci_snapshot *tci_harness_snapshot(tc_harness *h)
{
    return tci_registry_snapshot(h->options.registry);
}

struct tc_models *tci_harness_models(tc_harness *h)
{
    return h->options.get_models != NULL ? h->options.get_models(h->options.user)
                                         : h->options.models;
}

void tc_settings_init(tc_settings *settings)
{
    *settings = (tc_settings){
        .size = sizeof(*settings),
        .stream = TC_STR("{}"),
        .retry = {.is_enabled = true,
                  .max_retries = 3,
                  .base_delay_ms = 2000,
                  .max_delay_ms = 60000},
        .compaction = {.is_enabled = true,
                       .reserve_tokens = 16384,
                       .keep_recent_tokens = 20000,
                       .background_tokens = 32768},
        .partial_interval_ms = 100,
        .output_interval_ms = 100,
        .context_retention_ms = 600000,
        .restart_limit = 5,
    };
}

void tci_harness_settings(tc_harness *h, tc_result *r, tc_settings *ret)
{
    tc_err err = {0};
    tc_settings_init(ret);
    if (h->options.get_settings != NULL) {
        if (h->options.get_settings(h->options.user, r, ret, &err) < 0) {
            tc_settings_init(ret);
            tci_harness_report(h, &(tc_report){.type = TC_REPORT_HOST_ERROR,
                                               .message = tci_str(err.msg),
                                               .callback = TC_STR("settings")});
        }
    } else if (h->options.settings != NULL) {
        const tc_settings *given = h->options.settings;
        memcpy(ret, given, given->size < sizeof(*ret) ? given->size : sizeof(*ret));
        ret->size = sizeof(*ret);
    }
    if (ret->restart_limit == 0)
        ret->restart_limit = 5;
    if (ret->stream.len == 0)
        ret->stream = TC_STR("{}");
}

/* ---- environments ---- */

/* The conversation's cwd, from its agent; empty: unset. */
static int read_cwd(tc_harness *h, uint64_t conversation_id, tci_arena *a, tc_str *ret, tc_err *err)
{
    static const tc_doc_def agent = {.size = sizeof(tc_doc_def),
                                     .kind = "pi.agent",
                                     .version = 1,
                                     .scope = TC_SCOPE_CONVERSATION,
                                     .history = TC_HISTORY_REWINDABLE,
                                     .fork = TC_FORK_AS_OF};
    const tc_doc_addr addr = {&agent, conversation_id, {NULL, 0}};
    const tc_json *value = NULL;
    uint64_t id;
    tc_str cwd = {NULL, 0};
    if (tci_durable_enter(h->session, err) < 0)
        return err->code;
    int rc = tci_durable_doc(h->session, &addr, &value, &id, err);
    if (rc == 0 && value != NULL && tci_json_as_str(tci_json_get(value, TC_STR("cwd")), &cwd))
        rc = tci_arena_dup(a, cwd, &cwd, err);
    tci_durable_leave(h->session);
    if (rc == 0)
        *ret = cwd;
    return rc;
}

int tci_harness_env(tc_harness *h, uint64_t conversation_id, tc_ctx *ctx, tc_env **ret_env,
                    tc_err *err)
{
    if (h->options.env == NULL) {
        *ret_env = NULL;
        return 0;
    }
    if (tci_durable_has_line(h->session))
        return tc_err_set(err, TC_E_CONFLICT, "no environment is made inside a transaction");
    tci_arena a;
    tc_env *env = NULL;
    tc_env_target target = {.conversation_id = conversation_id, .harness = h};
    tci_arena_init(&a, 0);
    int rc = read_cwd(h, conversation_id, &a, &target.cwd, err);
    if (rc == 0)
        rc = h->options.env(h->options.user, &target, ctx, &env, err);
    tci_arena_done(&a);
    if (rc == 0)
        *ret_env = env;
    return rc;
}

void tci_harness_env_release(tc_harness *h, tc_env *env)
{
    if (env != NULL && h->options.env_release != NULL)
        h->options.env_release(h->options.user, env);
}

/* ---- reports ---- */

const char *tc_report_type_name(tc_report_type type)
{
    switch (type) {
    case TC_REPORT_SESSION_FAILED:
        return "session_failed";
    case TC_REPORT_TASK_FAULTED:
        return "task_faulted";
    case TC_REPORT_TASK_PARKED:
        return "task_parked";
    case TC_REPORT_MIGRATION_FAILED:
        return "migration_failed";
    case TC_REPORT_TASK_OUTDATED:
        return "task_outdated";
    case TC_REPORT_TASK_ERROR:
        return "task_error";
    case TC_REPORT_EXTENSION_ERROR:
        return "extension_error";
    case TC_REPORT_HOST_ERROR:
        return "host_error";
    case TC_REPORT_LISTENER_ERROR:
        return "listener_error";
    }
    return "";
}

static tc_str keep(char **at, tc_str s)
{
    tc_str kept = {*at, s.len};
    if (s.len > 0)
        memcpy(*at, s.ptr, s.len);
    *at += s.len;
    return kept;
}

void tci_harness_report(tc_harness *h, const tc_report *report)
{
    if (h->options.on_report == NULL)
        return;
    size_t room = report->message.len + report->kind.len + report->extension.len +
                  report->reason.len + report->callback.len;
    tci_report_item *item = tci_mem_alloc(sizeof(*item) + room);
    if (item == NULL)
        return; /* nothing depends on it */
    item->report = *report;
    char *at = item->text;
    item->report.message = keep(&at, report->message);
    item->report.kind = keep(&at, report->kind);
    item->report.extension = keep(&at, report->extension);
    item->report.reason = keep(&at, report->reason);
    item->report.callback = keep(&at, report->callback);
    tci_mutex_lock(&h->lock);
    if (h->reports_last != NULL)
        h->reports_last->next = item;
    else
        h->reports = item;
    h->reports_last = item;
    tci_sched_call_locked(h);
    tci_mutex_unlock(&h->lock);
}

void tci_harness_report_task(tc_harness *h, tc_report_type type, const tc_task_info *task,
                             tc_str extension, tc_str reason, const tc_err *error)
{
    tci_harness_report(h, &(tc_report){.type = type,
                                       .message = tci_str(error->msg),
                                       .task_id = task->id,
                                       .kind = task->kind,
                                       .conversation_id = task->conversation_id,
                                       .extension = extension,
                                       .reason = reason});
}
