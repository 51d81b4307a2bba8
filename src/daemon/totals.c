/* SPDX-License-Identifier: Apache-2.0
 *
 * See totals.h. Loop thread.
 *
 * Invariant: the timer is armed exactly when something may have changed since the last line. */
#include "daemon/totals.h"

#include "base/log.h"
#include "daemon/device.h"
#include "plat/self.h"

/* Names are in the order of the wire's JSON, bytewise. */
#define TOTALS(X)                                            \
    X(operation_records, d->nrecords)                        \
    X(output_cleanup_failures, d->output_cleanup_failures)   \
    X(outputs_reclaimed, d->outputs_reclaimed)               \
    X(process_records, d->nprocess_records)                  \
    X(processes, d->nprocesses)                              \
    X(sessions, d->nsessions - nclosing)                     \
    X(spool_bytes, d->spool.used_bytes)                      \
    X(spool_objects, d->spool.used_objects)                  \
    X(staged_bytes, d->staged_bytes)                         \
    X(staged_objects, d->staged_objects)                     \
    X(staging_cleanup_failures, d->staging_cleanup_failures) \
    X(transfer_records, d->ntransfer_records)                \
    X(transfers, d->ntransfers)

struct tci_totals {
    tci_device *device;
    tci_timer timer;
    bool has_said;
    int64_t said_ms;
    tci_buf last; /* the line said last */
};

static uint64_t closing(const tci_device *d)
{
    uint64_t n = 0;
    TCI_LIST_EACH (&d->session_list, k)
        n += TCI_CONTAINER(k, tci_session, link)->state == TCI_SESSION_CLOSING;
    return n;
}

void tci_totals_put(const struct tci_device *d, tci_buf *out)
{
    uint64_t nclosing = closing(d);
    tci_buf_printf(
        out, "{\"closing_sessions\":%llu,\"event\":\"%.*s.resource_totals\",\"level\":\"info\"",
        (unsigned long long)nclosing, TC_STR_ARG(d->config->program));
#define X(name, value)                                  \
    tci_buf_append_str(out, TC_STR(",\"" #name "\":")); \
    tci_buf_append_u64(out, value);
    TOTALS(X)
#undef X
    tci_buf_append_str(out, TC_STR("}\n"));
}

static void on_timer(tci_timer *timer)
{
    tci_totals *t = TCI_CONTAINER(timer, tci_totals, timer);
    tci_buf line;
    tci_buf_init(&line, TCI_SELF_SAY_MAX);
    tci_totals_put(t->device, &line);
    if (tci_buf_ok(&line) && !tci_str_eq(tci_buf_str(&line), tci_buf_str(&t->last))) {
        t->has_said = true;
        t->said_ms = tci_loop_now_ms(t->device->loop);
        (void)tci_self_say(tci_buf_str(&line)); /* nobody has to listen */
        tci_buf_done(&t->last);
        t->last = line;
        return;
    }
    tci_buf_done(&line);
}

void tci_totals_touch(tci_totals *t)
{
    tc_err err;
    if (t == NULL || tci_timer_is_armed(&t->timer))
        return;
    int64_t due = t->said_ms + TCI_TOTALS_INTERVAL_MS, now = tci_loop_now_ms(t->device->loop);
    if (tci_timer_start(&t->timer, t->has_said && due > now ? due - now : 0, &err) < 0)
        tci_log(TCI_LOG_DEBUG, "no totals: %s", err.msg);
}

int tci_totals_new(struct tci_device *d, tci_totals **ret, tc_err *err)
{
    tci_totals *t = tci_new(tci_totals);
    if (t == NULL)
        return tci_err_no_memory(err);
    t->device = d;
    tci_buf_init(&t->last, TCI_SELF_SAY_MAX);
    tci_timer_init(&t->timer, d->loop, on_timer);
    tci_totals_touch(t);
    *ret = t;
    return 0;
}

void tci_totals_free(tci_totals *t)
{
    if (t == NULL)
        return;
    tci_timer_stop(&t->timer);
    tci_buf_done(&t->last);
    tci_free(t);
}
