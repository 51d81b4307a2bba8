/* SPDX-License-Identifier: Apache-2.0
 *
 * Contexts: a deadline and a cancel flag with a word to wait on. Leaves waiting to the calls. Any
 * thread; cancelling also from signal handlers, so it only stores and wakes. Invariant: the flag is
 * set before anybody is woken. */
#include "plat/call.h"

#include "plat/clock.h"
#include "plat/fd.h"

static int64_t deadline_after(int64_t timeout_ms)
{
    if (timeout_ms < 0)
        return 0;
    int64_t now = tci_clock_mono_ns();
    if (timeout_ms > (INT64_MAX - now) / 1000000)
        return 0;
    return now + timeout_ms * 1000000;
}

int tc_ctx_new(int64_t timeout_ms, tc_ctx **ret_ctx, tc_err *err)
{
    tc_ctx *ctx = tci_new(tc_ctx);
    if (ctx == NULL)
        return tci_err_no_memory(err);
    ctx->deadline_ns = deadline_after(timeout_ms);
    *ret_ctx = ctx;
    return 0;
}

void tc_ctx_free(tc_ctx *ctx)
{
    tci_free(ctx);
}

static void ring(int fd)
{
    size_t n;
    tc_err err;
    if (tci_fd_write(fd, "", 1, &n, &err) < 0)
        return; /* full or closed: its reader is awake */
}

void tc_ctx_cancel(tc_ctx *ctx)
{
    atomic_store(&ctx->is_cancelled, true);
    tci_wake_all(&ctx->wake);
    atomic_fetch_add(&ctx->nnotifying, 1);
    int fd = atomic_load(&ctx->notify) - 1;
    if (fd >= 0)
        ring(fd);
    atomic_fetch_sub(&ctx->nnotifying, 1);
}

bool tci_ctx_notify(tc_ctx *ctx, int fd)
{
    int none = 0;
    if (!atomic_compare_exchange_strong(&ctx->notify, &none, fd + 1))
        return false;
    if (tc_ctx_is_cancelled(ctx))
        ring(fd);
    return true;
}

void tci_ctx_unnotify(tc_ctx *ctx)
{
    atomic_store(&ctx->notify, 0);
    while (atomic_load(&ctx->nnotifying) != 0) /* a few instructions of another thread */
        ;
}

bool tc_ctx_is_cancelled(const tc_ctx *ctx)
{
    return atomic_load(&ctx->is_cancelled);
}

int64_t tc_ctx_remaining_ms(const tc_ctx *ctx)
{
    if (ctx->deadline_ns == 0)
        return -1;
    int64_t left = ctx->deadline_ns - tci_clock_mono_ns();
    return left > 0 ? (left + 999999) / 1000000 : 0;
}

void tc_ctx_reset(tc_ctx *ctx, int64_t timeout_ms)
{
    atomic_store(&ctx->is_cancelled, false);
    ctx->deadline_ns = deadline_after(timeout_ms);
}

tci_wake *tci_ctx_wake(tc_ctx *ctx)
{
    return ctx != NULL ? &ctx->wake : NULL;
}

int64_t tci_ctx_deadline_ns(const tc_ctx *ctx)
{
    return ctx != NULL ? ctx->deadline_ns : 0;
}

int tci_ctx_check(const tc_ctx *ctx, tc_err *err)
{
    if (ctx == NULL)
        return 0;
    if (atomic_load(&ctx->is_cancelled))
        return tc_err_set(err, TC_E_CANCELLED, "cancelled");
    if (ctx->deadline_ns != 0 && tci_clock_mono_ns() >= ctx->deadline_ns)
        return tc_err_set(err, TC_E_TIMEOUT, "time ran out");
    return 0;
}
