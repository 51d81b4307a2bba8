/* SPDX-License-Identifier: Apache-2.0
 *
 * Standard input, read ahead by a thread, so that whoever waits for it also hears Ctrl-C. The
 * thread may be left behind at the end of the program: nothing can end its read. Invariant: the reader
 * thread alone writes to the buffer's free part, the taker alone to its filled part. */
#include "cli.h"

#include "plat/clock.h"
#include "plat/fd.h"
#include "plat/thread.h"

enum { FD_IN = 0, BUFFER_BYTES = 256 * 1024, LOOK_NS = 100000000 };

struct cli_input {
    tci_thread *thread;
    char buf[BUFFER_BYTES];
    atomic_size_t put, taken; /* running counts of bytes */
    atomic_bool is_over;
    tc_err why; /* set before is_over; code TC_OK at the end of input */
    tci_wake filled, emptied;
};

/* Wait for room; then where and how much. */
static size_t room(cli_input *in, char **ret_at)
{
    size_t put = atomic_load(&in->put);
    for (;;) {
        unsigned seen = tci_wake_count(&in->emptied);
        size_t used = put - atomic_load(&in->taken);
        if (used < BUFFER_BYTES) {
            size_t at = put % BUFFER_BYTES;
            size_t free_bytes = BUFFER_BYTES - used;
            *ret_at = in->buf + at;
            return free_bytes < BUFFER_BYTES - at ? free_bytes : BUFFER_BYTES - at;
        }
        tci_wake_wait(&in->emptied, seen, 0);
    }
}

static void read_on(void *arg)
{
    cli_input *in = arg;
    for (;;) {
        char *at;
        size_t cap = room(in, &at), n = 0;
        int rc = tci_fd_read(FD_IN, at, cap, &n, &in->why);
        if (rc < 0)
            break;
        (void)atomic_fetch_add(&in->put, n);
        tci_wake_all(&in->filled);
    }
    if (in->why.code == TC_E_END)
        in->why.code = TC_OK;
    atomic_store(&in->is_over, true);
    tci_wake_all(&in->filled);
}

int cli_input_open(cli *c, cli_input **ret_input, tc_err *err)
{
    cli_input *in = tci_new(cli_input);
    if (in == NULL)
        return tci_err_no_memory(err);
    int rc = tci_thread_new(read_on, in, 0, &in->thread, err);
    if (rc < 0) {
        tci_free(in);
        return rc;
    }
    c->input = in;
    *ret_input = in;
    return 0;
}

void cli_input_close(cli *c)
{
    cli_input *in = c->input;
    if (in == NULL || !atomic_load(&in->is_over))
        return; /* its thread reads on, to the end of the program */
    tci_thread_join(in->thread);
    tci_free(in);
    c->input = NULL;
}

int cli_input_read(cli_input *in, const tc_ctx *ctx, void *buf, size_t cap, size_t *ret_len,
                   tc_err *err)
{
    for (;;) {
        unsigned seen = tci_wake_count(&in->filled);
        bool is_over = atomic_load(&in->is_over); /* before the count: nothing comes after it */
        size_t taken = atomic_load(&in->taken);
        size_t filled = atomic_load(&in->put) - taken;
        if (ctx != NULL && tc_ctx_is_cancelled(ctx))
            return tc_err_set(err, TC_E_CANCELLED, "cancelled");
        if (filled > 0) {
            size_t at = taken % BUFFER_BYTES, n = filled < cap ? filled : cap;
            n = n < BUFFER_BYTES - at ? n : BUFFER_BYTES - at;
            memcpy(buf, in->buf + at, n);
            (void)atomic_fetch_add(&in->taken, n);
            tci_wake_all(&in->emptied);
            *ret_len = n;
            return 0;
        }
        if (is_over && in->why.code != TC_OK) {
            *err = in->why;
            return tc_err_wrap(err, "cannot read standard input");
        }
        if (is_over) {
            *ret_len = 0;
            return 0;
        }
        tci_wake_wait(&in->filled, seen, tci_clock_mono_ns() + LOOK_NS);
    }
}

int cli_input_source(void *user, void *buf, size_t cap, size_t *ret_len, tc_err *err)
{
    cli_feed *feed = user;
    return cli_input_read(feed->in, feed->ctx, buf, cap, ret_len, err);
}

int cli_input_all(cli *c, tci_buf *out)
{
    enum { PIECE = 64 * 1024 };
    cli_input *in = NULL;
    int rc = cli_input_open(c, &in, &c->err);
    while (rc == 0) {
        size_t n = 0;
        char *at = tci_buf_reserve(out, PIECE);
        if (at == NULL)
            return tci_buf_error(out, &c->err);
        rc = cli_input_read(in, c->ctx, at, PIECE, &n, &c->err);
        if (rc == 0 && n == 0)
            break;
        if (rc == 0)
            tci_buf_commit(out, n);
    }
    return rc;
}
