/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening, expiring and closing of sessions. Leaves what a session holds to ledger.c, process.c and
 * transfer.c.
 *
 * Invariant: a session is in the device's map from open until it is CLOSED; CLOSED means that it holds
 * no request (but those closing it), no live process, no live transfer and no file. */
#include "daemon/session.h"

#include "daemon/device.h"
#include "daemon/process.h"
#include "daemon/totals.h"
#include "daemon/transfer.h"
#include "ops/text_cursors.h"
#include "ops/walk.h"

enum { CLOSE_BUDGET_MS = 10000 };

static void on_idle(tci_timer *t);
static void on_grace(tci_timer *t);
static void on_retention(tci_timer *t);
static void on_close_limit(tci_timer *t);

/* ---- open ---- */

static void session_init(tci_session *s, tci_device *d, tci_carrier *owner)
{
    s->device = d;
    s->owner = owner;
    s->refs = 1;
    s->id = tci_str_of(s->id_text, tci_device_handle(d, TCI_HANDLE_SESSION, s->id_text));
    tci_ledger_init(&s->ledger, d);
    tci_map_init(&s->processes, d->map_seed);
    tci_map_init(&s->outputs, d->map_seed);
    tci_map_init(&s->transfers, d->map_seed);
    tci_list_init(&s->process_lru);
    tci_list_init(&s->output_lru);
    tci_list_init(&s->transfer_lru);
    tci_list_init(&s->requests);
    tci_list_init(&s->closers);
    tci_timer_init(&s->idle, d->loop, on_idle);
    tci_timer_init(&s->grace, d->loop, on_grace);
    tci_timer_init(&s->retention, d->loop, on_retention);
    tci_timer_init(&s->close_limit, d->loop, on_close_limit);
    s->used_ms = tci_loop_now_ms(d->loop);
    s->spool = (tci_spool_quota){.parent = &d->spool,
                                 .max_bytes = d->config->limits.max_spool_bytes,
                                 .max_objects = d->config->limits.max_spool_objects};
}

static void session_free(tci_session *s)
{
    tci_timer_stop(&s->idle);
    tci_timer_stop(&s->grace);
    tci_timer_stop(&s->retention);
    tci_timer_stop(&s->close_limit);
    tci_ledger_done(&s->ledger);
    tci_map_done(&s->processes);
    tci_map_done(&s->outputs);
    tci_map_done(&s->transfers);
    tci_walk_cache_free(s->walk_cache);
    tci_text_cursors_free(s->text_cursors);
    tci_free((char *)s->cwd.ptr);
    tci_free(s);
}

int tci_session_open(tci_device *d, tci_carrier *owner, tc_str working_directory, tci_session **ret,
                     tc_err *err)
{
    if (d->nsessions >= d->config->limits.max_sessions)
        return tc_err_set(err, TC_E_BUSY, "session capacity is exhausted");
    /* Workers use the journal; it is there before the first of them runs. */
    if (tci_runtime_dir_journal(d->runtime, &d->journal, err) < 0)
        return err->code;
    tci_session *s = tci_new(tci_session);
    if (s == NULL)
        return tci_err_no_memory(err);
    session_init(s, d, owner);
    char *cwd = tci_mem_cstr(working_directory);
    s->cwd = tci_str_of(cwd, working_directory.len);
    int rc = cwd == NULL ? tci_err_no_memory(err) : tci_walk_cache_new(&s->walk_cache, err);
    if (rc == 0)
        rc = tci_text_cursors_new(&s->text_cursors, err);
    if (rc == 0)
        rc = tci_timer_start(&s->idle, (int64_t)d->config->idle_timeout_ms, err);
    if (rc == 0)
        rc =
            tci_timer_start(&s->retention, (int64_t)d->config->limits.operation_record_ttl_ms, err);
    if (rc == 0)
        rc = tci_map_put(&d->sessions, s->id, s, err);
    if (rc < 0) {
        session_free(s);
        return rc;
    }
    tci_list_push_back(&d->session_list, &s->link);
    d->nsessions++;
    tci_totals_touch(d->totals);
    *ret = s;
    return 0;
}

tci_session *tci_session_find(tci_device *d, tc_str id)
{
    return tci_map_get(&d->sessions, id);
}

void tci_session_unref(tci_session *s)
{
    TC_ASSERT(s->refs > 0);
    if (--s->refs == 0)
        session_free(s);
}

/* ---- time ---- */

void tci_session_touch(tci_session *s)
{
    s->used_ms = tci_loop_now_ms(s->device->loop);
}

static void on_idle(tci_timer *t)
{
    tc_err err;
    tci_session *s = TCI_CONTAINER(t, tci_session, idle);
    int64_t due = s->used_ms + (int64_t)s->device->config->idle_timeout_ms;
    int64_t left = due - tci_loop_now_ms(s->device->loop);
    if (left <= 0 || tci_timer_start(t, left, &err) < 0)
        tci_session_close(s, NULL);
}

static int64_t earlier(int64_t a, int64_t b)
{
    if (a < 0 || b < 0)
        return a < 0 ? b : a;
    return a < b ? a : b;
}

static void on_retention(tci_timer *t)
{
    tc_err err;
    tci_session *s = TCI_CONTAINER(t, tci_session, retention);
    const tci_limits *l = &s->device->config->limits;
    int64_t now = tci_loop_now_ms(s->device->loop);
    int64_t ttl = (int64_t)l->operation_record_ttl_ms;
    int64_t oldest = tci_ledger_expire(&s->ledger, now - ttl);
    oldest = earlier(oldest, tci_process_expire(s, now - ttl));
    oldest = earlier(oldest, tci_output_expire(s, now - ttl));
    tci_transfer_expire(s, now - (int64_t)l->file_transfer_record_ttl_ms);
    int64_t wait = oldest < 0 ? ttl : oldest + ttl - now + 1;
    if (s->transfers.nitems > 0 && wait > (int64_t)l->file_transfer_record_ttl_ms)
        wait = (int64_t)l->file_transfer_record_ttl_ms;
    if (tci_timer_start(t, wait, &err) < 0)
        tci_session_close(s, NULL); /* a session that cannot forget must end */
}

/* ---- without an owner ---- */

static void on_grace(tci_timer *t)
{
    tci_session_close(TCI_CONTAINER(t, tci_session, grace), NULL);
}

void tci_session_detach(tci_session *s)
{
    tc_err err;
    (void)tci_session_ref(s);
    s->owner = NULL;
    tci_transfer_end_all(s);
    if (s->state < TCI_SESSION_CLOSING &&
        tci_timer_start(&s->grace, (int64_t)s->device->config->disconnect_grace_ms, &err) < 0)
        tci_session_close(s, NULL); /* nobody would end it */
    tci_session_unref(s);
}

void tci_session_adopt(tci_session *s, tci_carrier *owner)
{
    tci_timer_stop(&s->grace);
    s->owner = owner;
}

/* ---- close ---- */

static tci_req *next_to_cancel(tci_session *s)
{
    TCI_LIST_EACH (&s->requests, k) {
        tci_req *r = TCI_CONTAINER(k, tci_req, link);
        if (!r->is_closing && !atomic_load(&r->cancel.is_cancelled))
            return r;
    }
    return NULL;
}

static bool has_other_requests(const tci_session *s)
{
    TCI_LIST_EACH (&s->requests, k) {
        if (!TCI_CONTAINER(k, tci_req, link)->is_closing)
            return true;
    }
    return false;
}

static void tell_closers(tci_session *s, bool is_clean)
{
    for (tci_link *k; (k = tci_list_pop_front(&s->closers)) != NULL;) {
        tci_session_closer *c = TCI_CONTAINER(k, tci_session_closer, link);
        c->done(c, is_clean);
    }
}

void tci_session_check_closed(tci_session *s)
{
    if (s->state != TCI_SESSION_CLOSING || s->nprocesses > 0 || s->ntransfers > 0 ||
        has_other_requests(s))
        return;
    s->state = TCI_SESSION_CLOSED;
    tci_timer_stop(&s->close_limit);
    tci_process_forget_all(s);
    tci_output_forget_all(s);
    tci_transfer_forget_all(s);
    (void)tci_map_remove(&s->device->sessions, s->id);
    tci_link_remove(&s->link);
    s->device->nsessions--;
    tci_totals_touch(s->device->totals);
    tell_closers(s, true);
    tci_session_unref(s);
}

static void on_close_limit(tci_timer *t)
{
    tell_closers(TCI_CONTAINER(t, tci_session, close_limit), false);
}

static void limit_close(tci_session *s)
{
    tc_err err;
    if (!tci_timer_is_armed(&s->close_limit) &&
        tci_timer_start(&s->close_limit, CLOSE_BUDGET_MS, &err) < 0)
        tell_closers(s, false);
}

void tci_session_close(tci_session *s, tci_session_closer *closer)
{
    if (closer != NULL)
        tci_list_push_back(&s->closers, &closer->link);
    if (s->state >= TCI_SESSION_CLOSING) {
        limit_close(s); /* the budget of the first close may be over, the session still there */
        return;
    }
    s->state = TCI_SESSION_CLOSING;
    tci_timer_stop(&s->idle);
    tci_timer_stop(&s->grace);
    tci_timer_stop(&s->retention);
    tci_session_ref(s);
    limit_close(s);
    for (tci_req *r; (r = next_to_cancel(s)) != NULL;)
        tci_req_cancel(r);
    tci_process_end_all(s);
    tci_transfer_end_all(s);
    tci_session_check_closed(s);
    tci_session_unref(s);
}

/* ---- pressure ---- */

/* Make room in one session for one more command and one more transfer. */
static void relieve(tci_session *s)
{
    const tci_limits *l = &s->device->config->limits;
    const tci_device *d = s->device;
    uint64_t command_bytes = 2 * l->max_output_bytes_per_stream;
    while (s->processes.nitems >= l->max_process_records ||
           d->nprocess_records >= l->max_device_process_records) {
        if (!tci_process_evict(s))
            break;
    }
    while (tci_spool_quota_free_bytes(&s->spool) < command_bytes ||
           s->spool.used_objects + 2 > l->max_spool_objects ||
           d->spool.used_objects + 2 > l->max_device_spool_objects) {
        if (!tci_process_evict(s) && !tci_output_evict(s))
            break;
    }
    while (s->transfers.nitems >= l->max_file_transfer_records ||
           d->ntransfer_records >= l->max_device_file_transfer_records) {
        if (!tci_transfer_evict(s))
            break;
    }
}

void tci_session_relieve(tci_device *d)
{
    TCI_LIST_EACH (&d->session_list, k)
        relieve(TCI_CONTAINER(k, tci_session, link));
}
