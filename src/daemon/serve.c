/* SPDX-License-Identifier: Apache-2.0
 *
 * Puts loop, device and carrier together, and takes them apart. Leaves what a carrier does to its own file.
 *
 * Invariant: the loop stops only after the carrier said that it has ended. */
#include "daemon/serve.h"

#include "daemon/carrier/carrier_http.h"
#include "daemon/carrier/carrier_stdio.h"
#include "daemon/carrier/carrier_ws.h"
#include "net/fd.h"
#include "plat/clock.h"
#include "plat/proc.h"

#include <stdio.h>

enum { SERVE_JOBS_QUICK = 4, SERVE_JOBS_BULK = 4 };
#define CLOSE_NS INT64_C(1000000000)

typedef struct serving {
    tci_loop *loop;
    tci_device *device;
    tci_stdio *stdio;
    tci_http_carrier *http;
    tci_ws_carrier *ws;
    tci_signal term, intr;
    int status;
    char message[TC_ERR_MSG_MAX];
} serving;

static void on_end(void *user, int status, tc_str message)
{
    serving *s = user;
    s->stdio = NULL;
    s->http = NULL;
    s->ws = NULL;
    s->status = status;
    (void)snprintf(s->message, sizeof s->message, "%.*s", TC_STR_ARG(message));
    tci_loop_stop(s->loop);
}

static void drain(serving *s)
{
    if (s->stdio != NULL)
        tci_stdio_drain(s->stdio);
    if (s->http != NULL)
        tci_http_carrier_drain(s->http);
    if (s->ws != NULL)
        tci_ws_carrier_drain(s->ws);
}

static void on_term(tci_signal *sig, int signum)
{
    TCI_UNUSED(signum);
    drain(TCI_CONTAINER(sig, serving, term));
}

static void on_intr(tci_signal *sig, int signum)
{
    TCI_UNUSED(signum);
    drain(TCI_CONTAINER(sig, serving, intr));
}

static int open_stdio(serving *s, tc_err *err)
{
    tci_stream *stream;
    if (tci_fd_stream_new(s->loop, 0, 1, false, &stream, err) < 0)
        return tc_err_wrap(err, "cannot use standard input and output");
    int rc = tci_stdio_serve(s->device, stream, on_end, s, &s->stdio, err);
    if (rc < 0)
        tci_stream_close(stream);
    return rc;
}

static int open_transport(serving *s, const tci_config *config, tc_err *err)
{
    switch (config->transport) {
    case TCI_TRANSPORT_STDIO:
        return open_stdio(s, err);
    case TCI_TRANSPORT_HTTP:
        return tci_http_carrier_open(s->device, on_end, s, &s->http, err);
    case TCI_TRANSPORT_REVERSE_WEBSOCKET:
        return tci_ws_carrier_open(s->device, NULL, on_end, s, &s->ws, err);
    }
    return tc_err_set(err, TC_E_UNSUPPORTED, "no such transport");
}

/* Give everything back. What still hangs (a call on a file system that does not answer) is left to the end
 * of the process, after a second: nothing that it could touch is freed then. */
static void close_all(serving *s)
{
    int64_t until_ns = tci_clock_mono_ns() + CLOSE_NS;
    tci_signal_close(&s->term);
    tci_signal_close(&s->intr);
    while (tci_loop_pending_jobs(s->loop) > 0 && tci_clock_mono_ns() < until_ns)
        tci_loop_turn(s->loop, 100);
    bool is_clean = tci_loop_pending_jobs(s->loop) == 0 &&
                    (s->device == NULL || (s->device->nsessions == 0 && s->device->ninflight == 0));
    if (!is_clean) {
        tci_runtime_dir_close(s->device->runtime);
        return;
    }
    tci_device_free(s->device);
    tci_loop_free(s->loop);
}

int tci_serve(const tci_config *config, tc_err *err)
{
    serving s = {0};
    if (tci_loop_new(&s.loop, err) < 0)
        return err->code;
    tci_loop_pool_size(s.loop, SERVE_JOBS_QUICK, SERVE_JOBS_BULK);
    int rc = tci_device_new(s.loop, config, &s.device, err);
    if (rc == 0)
        rc = tci_signal_open(&s.term, s.loop, TCI_SIG_TERM, on_term, err);
    if (rc == 0)
        rc = tci_signal_open(&s.intr, s.loop, TCI_SIG_INT, on_intr, err);
    if (rc == 0)
        rc = open_transport(&s, config, err);
    if (rc == 0) {
        tci_loop_run(s.loop);
        if (s.status != 0)
            rc = tc_err_set(err, TC_E_INTERNAL, "%s", s.message);
    }
    close_all(&s);
    return rc;
}
