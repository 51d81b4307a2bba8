/* SPDX-License-Identifier: Apache-2.0
 *
 * Live standard input: a bounded queue of bytes between a thread that has them and the one that
 * passes them on to a command. Any two threads. Invariant: what was taken was written, in order, and
 * nobody waits for somebody who has gone. */
#include "env/methods_int.h"

enum { CAPACITY = 256 * 1024 };

struct tc_input {
    tci_mutex lock; /* guards all */
    char *ring;
    size_t start, len;
    bool is_closed; /* by the writer */
    bool is_over;   /* by the reader */
    tci_wake own_wake, taker_wake;
    tci_wake *writer; /* of who waits for room; NULL: nobody */
};

int tc_input_new(tc_input **ret_input, tc_err *err)
{
    tc_input *in = tci_new(tc_input);
    if (in == NULL)
        return tci_err_no_memory(err);
    in->ring = tci_mem_resize(NULL, CAPACITY);
    if (in->ring == NULL) {
        tci_free(in);
        return tci_err_no_memory(err);
    }
    tci_mutex_init(&in->lock);
    *ret_input = in;
    return 0;
}

void tc_input_free(tc_input *input)
{
    if (input == NULL)
        return;
    tci_mutex_done(&input->lock);
    tci_free(input->ring);
    tci_free(input);
}

static void wake_writer(tc_input *in)
{
    if (in->writer != NULL)
        tci_wake_all(in->writer);
}

/* ---- writing ---- */

/* What fits now; under the lock. */
static size_t put_some(tc_input *in, const char *bytes, size_t len)
{
    size_t n = tci_min_size(len, CAPACITY - in->len);
    size_t at = (in->start + in->len) % CAPACITY;
    size_t first = tci_min_size(n, CAPACITY - at);
    memcpy(in->ring + at, bytes, first);
    memcpy(in->ring, bytes + first, n - first);
    in->len += n;
    if (n > 0)
        tci_wake_all(&in->taker_wake);
    return n;
}

int tc_input_write(tc_input *input, tc_ctx *ctx, const void *bytes, size_t len, tc_err *err)
{
    const char *at = bytes;
    int rc = 0;
    tci_wake *wake = ctx != NULL ? tci_ctx_wake(ctx) : &input->own_wake;
    while (rc == 0 && len > 0) {
        unsigned seen = tci_wake_count(wake);
        tci_mutex_lock(&input->lock);
        bool is_shut = input->is_over || input->is_closed;
        size_t n = is_shut ? 0 : put_some(input, at, len);
        input->writer = !is_shut && n < len ? wake : NULL;
        tci_mutex_unlock(&input->lock);
        at += n;
        len -= n;
        if (is_shut)
            return tc_err_set(err, TC_E_CLOSED, "the command takes no more input");
        if (len == 0)
            break;
        rc = tci_ctx_check(ctx, err);
        if (rc == 0)
            tci_wake_wait(wake, seen, tci_ctx_deadline_ns(ctx));
    }
    tci_mutex_lock(&input->lock);
    input->writer = NULL;
    tci_mutex_unlock(&input->lock);
    return rc;
}

void tc_input_close(tc_input *input)
{
    tci_mutex_lock(&input->lock);
    input->is_closed = true;
    tci_wake_all(&input->taker_wake);
    wake_writer(input);
    tci_mutex_unlock(&input->lock);
}

/* ---- taking ---- */

int tci_input_take(tc_input *in, char *buf, size_t cap, size_t *ret_len, tc_err *err)
{
    for (;;) {
        unsigned seen = tci_wake_count(&in->taker_wake);
        tci_mutex_lock(&in->lock);
        size_t n = tci_min_size(cap, in->len), first = tci_min_size(n, CAPACITY - in->start);
        bool is_over = in->is_over, is_end = in->is_closed && n == 0;
        memcpy(buf, in->ring + in->start, first);
        memcpy(buf + first, in->ring, n - first);
        in->start = (in->start + n) % CAPACITY;
        in->len -= n;
        if (n > 0)
            wake_writer(in);
        tci_mutex_unlock(&in->lock);
        if (is_over)
            return tc_err_set(err, TC_E_CLOSED, "the command takes no more input");
        if (n > 0 || is_end) {
            *ret_len = n;
            return 0;
        }
        tci_wake_wait(&in->taker_wake, seen, 0);
    }
}

void tci_input_over(tc_input *in)
{
    tci_mutex_lock(&in->lock);
    in->is_over = true;
    tci_wake_all(&in->taker_wake);
    wake_writer(in);
    tci_mutex_unlock(&in->lock);
}
