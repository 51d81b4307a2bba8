/* SPDX-License-Identifier: Apache-2.0
 *
 * The command's program: signals, finding the command, closing what it opened. What a command does
 * is in the file of its name. Invariant: the first Ctrl-C ends calls under way and lets the command
 * say what became of them; a second one ends the program. */
#include "cli.h"

#include "plat/fd.h"
#include "plat/system.h"

#include <signal.h>

static tc_ctx *interrupted_ctx, *interrupted_watch;
static volatile sig_atomic_t caught_signal;
static int unwaiting[3] = {-1, -1,
                           -1}; /* by standard descriptor; closed by the end of the program */
static cli_input *volatile input_left; /* its thread may still read when main has returned */

static void on_signal(int signum)
{
    caught_signal = signum;
    (void)signal(signum, SIG_DFL); /* the next one is not caught */
    tc_ctx_cancel(interrupted_ctx);
    tc_ctx_cancel(interrupted_watch);
}

int cli_caught(void)
{
    return caught_signal;
}

int cli_unwaiting(int fd)
{
    return unwaiting[fd];
}

static void open_unwaiting(void)
{
    tc_err
        ignored; /* files never wait; for what else cannot be opened again there is a slower way */
    for (int fd = 1; fd < (int)TCI_ARRAY_LEN(unwaiting); fd++)
        if (tci_fd_open_again(fd, &unwaiting[fd], &ignored) < 0)
            unwaiting[fd] = -1;
}

static void catch_signals(const cli *c)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    interrupted_ctx = c->ctx;
    interrupted_watch = c->watch_ctx;
    for (size_t i = 0; i < TCI_ARRAY_LEN(signals); i++)
        if (signal(signals[i], on_signal) == SIG_IGN)
            (void)signal(signals[i], SIG_IGN); /* whoever started us does not want it */
}

void cli_rearm(cli *c)
{
    tc_ctx_reset(c->ctx, -1);
    tc_ctx_reset(c->watch_ctx, -1);
    caught_signal = 0;
    (void)signal(SIGINT, on_signal);
}

static int run(cli *c, int argc, char **argv)
{
    if (argc < 2)
        return cli_usage(c, "which command?");
    const char *name = argv[1];
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        return cli_overview(c);
    if (strcmp(name, "--version") == 0)
        name = "version";
    c->command = cli_command_find(name);
    if (c->command == NULL)
        return cli_usage(c, "there is no command '%s'", name);
    if (!cli_parse(c, argc - 2, argv + 2))
        return cli_fail(c);
    if (cli_has(c, "help"))
        return cli_help(c, c->command);
    return c->command->run(c);
}

int main(int argc, char **argv)
{
    cli c = {0};
    tci_system_fill_stdio();
    tci_system_ignore_sigpipe();
    open_unwaiting();
    tci_arena_init(&c.arena, 0);
    if (tc_ctx_new(-1, &c.ctx, &c.err) < 0 || tc_ctx_new(-1, &c.watch_ctx, &c.err) < 0 ||
        tc_result_new(&c.result, &c.err) < 0)
        return cli_fail(&c);
    catch_signals(&c);
    int status = run(&c, argc, argv);
    cli_close(&c);
    cli_input_close(&c);
    input_left = c.input;
    tci_arena_done(&c.arena);
    tc_result_free(c.result);
    /* The contexts are not freed: a signal may still come. */
    return status;
}
