/* SPDX-License-Identifier: Apache-2.0
 *
 * `telechird serve`: the pi-env server as a program, on standard input and output. Leaves the protocol to
 * pienv.c. Makes and runs the loop; the calling thread is the loop's.
 *
 * Nothing is made before it is needed, since a host waits for the first answer of every connection.
 *
 * Invariant: the program ends only after the server has told how it ended. */
#include "daemon/pienv/pienv.h"

#include "net/fd.h"
#include "plat/proc.h"

#include <stdio.h>

enum { JOBS_QUICK = 8, JOBS_BULK = 4 };

typedef struct program {
    tci_loop *loop;
    tci_pi_server *server; /* NULL after its end */
    tci_signal signals[3];
    int signum; /* that ended it; 0: none */
    tci_pi_end how;
    bool is_clean;
    char message[TC_ERR_MSG_MAX];
} program;

static const int signums[] = {TCI_SIG_TERM, TCI_SIG_HUP, TCI_SIG_INT};

static void on_end(void *user, tci_pi_end how, bool is_clean, tc_str message)
{
    program *p = user;
    p->server = NULL;
    p->how = how;
    p->is_clean = is_clean;
    (void)snprintf(p->message, sizeof p->message, "%.*s", TC_STR_ARG(message));
    tci_loop_stop(p->loop);
}

static void on_signal(program *p, int signum)
{
    if (p->signum == 0)
        p->signum = signum;
    if (p->server != NULL)
        tci_pi_stop(p->server);
}

static void on_term(tci_signal *sig, int signum)
{
    on_signal(TCI_CONTAINER(sig, program, signals[0]), signum);
}

static void on_hup(tci_signal *sig, int signum)
{
    on_signal(TCI_CONTAINER(sig, program, signals[1]), signum);
}

static void on_int(tci_signal *sig, int signum)
{
    on_signal(TCI_CONTAINER(sig, program, signals[2]), signum);
}

static int open_signals(program *p, tc_err *err)
{
    static void (*const on[])(tci_signal *, int) = {on_term, on_hup, on_int};
    for (size_t i = 0; i < TCI_ARRAY_LEN(signums); i++)
        if (tci_signal_open(&p->signals[i], p->loop, signums[i], on[i], err) < 0)
            return err->code;
    return 0;
}

static int open_server(program *p, tc_str token, tc_err *err)
{
    tci_stream *stream;
    tci_pi_options options = {.token = token, .on_end = on_end, .user = p};
    if (tci_fd_stream_new(p->loop, 0, 1, false, &stream, err) < 0)
        return tc_err_wrap(err, "cannot use standard input and output");
    int rc = tci_pi_serve(p->loop, stream, &options, &p->server, err);
    if (rc < 0)
        tci_stream_close(stream);
    return rc;
}

/* End by the signal that asked for it, as a program without a handler would. */
static void end_by(int signum)
{
    tci_proc_stat self;
    if (tci_proc_stat_read(tci_proc_self(), &self))
        (void)tci_proc_signal(self.pid, self.start_ticks, signum); /* else the status says it */
}

static int status_of(const program *p, tc_err *err)
{
    if (p->how == TCI_PI_END_BROKEN) {
        (void)tc_err_set(err, TC_E_PROTOCOL, "%s", p->message); /* the status says it */
        return 1;
    }
    return p->signum != 0 ? 128 + p->signum : 0;
}

int tci_pi_main(tc_str token, tc_err *err)
{
    program p = {.how = TCI_PI_END_BROKEN, .is_clean = true};
    int rc = tci_loop_new(&p.loop, err);
    if (rc == 0)
        tci_loop_pool_size(p.loop, JOBS_QUICK, JOBS_BULK);
    if (rc == 0)
        rc = open_signals(&p, err);
    if (rc == 0)
        rc = open_server(&p, token, err);
    if (rc == 0)
        tci_loop_run(p.loop);
    for (size_t i = 0; p.loop != NULL && i < TCI_ARRAY_LEN(signums); i++)
        tci_signal_close(&p.signals[i]);
    int status = rc < 0 ? 1 : status_of(&p, err);
    if (p.is_clean)
        tci_loop_free(p.loop); /* otherwise what hangs may still touch it */
    if (p.signum != 0)
        end_by(p.signum);
    return status;
}
