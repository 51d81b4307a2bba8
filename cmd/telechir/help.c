/* SPDX-License-Identifier: Apache-2.0
 *
 * Help, overview and manual page, all from the tables. Pure but for the output. */
#include "cli.h"

#include <stdio.h>

enum { COLUMN = 30, WORD_MAX = 64 };

static void put_left(tci_buf *b, const cli_option *o)
{
    size_t from = b->len;
    if (o->letter != 0)
        tci_buf_printf(b, "  -%c, --%s", o->letter, o->name);
    else
        tci_buf_printf(b, "      --%s", o->name);
    if (o->value != NULL)
        tci_buf_printf(b, " %s", o->value);
    if (b->len - from >= COLUMN) {
        tci_buf_append_byte(b, '\n');
        from = b->len;
    }
    while (tci_buf_ok(b) && b->len - from < COLUMN)
        tci_buf_append_byte(b, ' ');
}

void cli_put_usage(tci_buf *b, const cli_command *command)
{
    tci_buf_printf(b, "telechir %s%s%s%s%s", command->name,
                   command->takes_target ? " [--on TARGET]" : "",
                   command->noptions > 0 ? " [option...]" : "",
                   command->arguments[0] != '\0' ? " " : "", command->arguments);
}

static void put_options(tci_buf *b, const char *title, const cli_option *options, size_t n)
{
    if (n == 0)
        return;
    tci_buf_printf(b, "\n%s:\n", title);
    for (size_t i = 0; i < n; i++) {
        put_left(b, &options[i]);
        tci_buf_printf(b, "%s\n", options[i].help);
    }
}

static int print(cli *c, tci_buf *b)
{
    int rc = tci_buf_error(b, &c->err);
    bool is_fine = rc == 0 && cli_out(c, tci_buf_str(b));
    tci_buf_done(b);
    return is_fine ? CLI_OK : cli_fail(c);
}

int cli_help(cli *c, const cli_command *command)
{
    tci_buf b;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_buf_append_str(&b, TC_STR("usage: "));
    cli_put_usage(&b, command);
    tci_buf_printf(&b, "\n\n%s.\n", command->summary);
    if (command->details != NULL)
        tci_buf_printf(&b, "\n%s\n", command->details);
    if (command->examples != NULL) {
        tc_str rest = tci_str(command->examples), line;
        tci_buf_append_str(&b, TC_STR("\nExamples:\n"));
        while (tci_str_split(&rest, '\n', &line))
            tci_buf_printf(&b, "  %.*s\n", TC_STR_ARG(line));
    }
    put_options(&b, "Options", command->options, command->noptions);
    if (command->takes_target)
        put_options(&b, "Where", &cli_on_option, 1);
    if (command->takes_target || command->takes_link)
        put_options(&b, "How to reach it", cli_target_options, cli_ntarget_options);
    if (command->takes_target || command->takes_link || command->takes_ssh)
        put_options(&b, "Over ssh", cli_ssh_options, cli_nssh_options);
    put_options(&b, "Everywhere", cli_common_options, cli_ncommon_options);
    return print(c, &b);
}

int cli_overview(cli *c)
{
    tci_buf b;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_buf_append_str(&b,
                       TC_STR("telechir: work on another machine through its daemon, telechird\n"
                              "\nusage: telechir COMMAND [option...] [argument...]\n\n"));
    for (size_t i = 0; i < cli_ncommands; i++)
        if (!cli_commands[i].is_hidden)
            tci_buf_printf(&b, "  %-12s %s\n", cli_commands[i].name, cli_commands[i].summary);
    tci_buf_append_str(
        &b, TC_STR("\nA target is `local`, `ssh:[USER@]HOST[:PORT]` (`telechir trust` it first),\n"
                   "`http://HOST:PORT`, `https://HOST[:PORT]`, or a name saved with `telechir "
                   "target add`.\n"
                   "`telechir COMMAND --help` says more. Try `telechir demo`.\n"));
    return print(c, &b);
}

int cmd_help(cli *c)
{
    if (!cli_want_args(c, 0, 1))
        return cli_fail(c);
    if (c->nargs == 0)
        return cli_overview(c);
    const cli_command *command = cli_command_find(c->args[0]);
    return command != NULL ? cli_help(c, command)
                           : cli_usage(c, "there is no command '%s'", c->args[0]);
}

int cmd_version(cli *c)
{
    tci_buf b;
    bool first = true, is_fine;
    if (!cli_want_args(c, 0, 0))
        return cli_fail(c);
    if (!c->is_json)
        return cli_outf(c, "telechir %s\n", tc_version()) ? CLI_OK : cli_fail(c);
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_buf_append_byte(&b, '{');
    cli_json_str(&b, &first, "version", tci_str(tc_version()));
    tci_buf_append_byte(&b, '}');
    is_fine = cli_out_json(c, &b);
    tci_buf_done(&b);
    return is_fine ? CLI_OK : cli_fail(c);
}

/* ---- the manual page ---- */

/* Text for troff: a backslash, and a dot or quote that begins a line, mean something to it. */
static void put_roff(tci_buf *b, const char *text)
{
    bool is_line_start = true;
    for (const char *p = text; *p != '\0'; p++) {
        if (is_line_start && (*p == '.' || *p == '\''))
            tci_buf_append_str(b, TC_STR("\\&"));
        if (*p == '\\')
            tci_buf_append_str(b, TC_STR("\\e"));
        else if (*p == '-')
            tci_buf_append_str(b, TC_STR("\\-"));
        else
            tci_buf_append_byte(b, *p);
        is_line_start = *p == '\n';
    }
}

static void put_roff_options(tci_buf *b, const cli_option *options, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        tci_buf_append_str(b, TC_STR(".TP\n"));
        if (options[i].letter != 0)
            tci_buf_printf(b, "\\fB\\-%c\\fR, ", options[i].letter);
        tci_buf_append_str(b, TC_STR("\\fB\\-\\-"));
        put_roff(b, options[i].name);
        tci_buf_append_str(b, TC_STR("\\fR"));
        if (options[i].value != NULL) {
            tci_buf_append_str(b, TC_STR(" \\fI"));
            put_roff(b, options[i].value);
            tci_buf_append_str(b, TC_STR("\\fR"));
        }
        tci_buf_append_byte(b, '\n');
        put_roff(b, options[i].help);
        tci_buf_append_byte(b, '\n');
    }
}

static void put_roff_command(tci_buf *b, const cli_command *command)
{
    tci_buf usage;
    tci_buf_init(&usage, TCI_BUF_MAX);
    cli_put_usage(&usage, command);
    tci_buf_append_byte(&usage, '\0');
    tci_buf_append_str(b, TC_STR(".SS \""));
    put_roff(b, usage.ptr != NULL ? usage.ptr : "");
    tci_buf_append_str(b, TC_STR("\"\n"));
    tci_buf_done(&usage);
    put_roff(b, command->summary);
    tci_buf_append_str(b, TC_STR(".\n"));
    if (command->details != NULL) {
        tci_buf_append_str(b, TC_STR(".PP\n.nf\n"));
        put_roff(b, command->details);
        tci_buf_append_str(b, TC_STR("\n.fi\n"));
    }
    if (command->examples != NULL) {
        tci_buf_append_str(b, TC_STR(".PP\nExamples:\n.PP\n.nf\n"));
        put_roff(b, command->examples);
        tci_buf_append_str(b, TC_STR("\n.fi\n"));
    }
    put_roff_options(b, command->options, command->noptions);
}

static const char manual_head[] =
    ".\\\" Printed by `telechir manual`. Do not edit.\n"
    ".TH TELECHIR 1\n"
    ".SH NAME\n"
    "telechir \\- work on another machine through its daemon\n"
    ".SH SYNOPSIS\n"
    ".B telechir\n"
    ".I COMMAND\n"
    "[option...] [argument...]\n"
    ".SH DESCRIPTION\n"
    "Runs commands and reads, writes and copies files where a telechird daemon runs. A target is\n"
    "`local` (this machine, through a daemon child, with all that you may do),\n"
    "`ssh:[USER@]HOST[:PORT]` (any Linux machine that ssh reaches; the daemon is put there and "
    "checked\n"
    "at every start; `telechir trust` its key first), `http://HOST:PORT` or `https://HOST[:PORT]` "
    "(a\n"
    "daemon that is running already; with \\-\\-device\\-id and \\-\\-credential\\-file), or a "
    "name "
    "saved\n"
    "with `telechir target add`.\n"
    ".SH COMMANDS\n";

static const char manual_status[] =
    ".SH EXIT STATUS\n"
    "0 done; 1 the thing failed; 2 wrong usage; 3 the target cannot be reached or trusted; 4 "
    "refused;\n"
    "5 the outcome is unknown (it may have happened); 130 interrupted. `exec` and `sh` pass on "
    "the\n"
    "command's own status, 128+n for a signal, 124 when its time ran out, and 125 for a failure "
    "of\n"
    "telechir itself.\n"
    ".SH FILES\n"
    "$XDG_CONFIG_HOME/telechir/targets.json (or ~/.config/telechir/targets.json): saved targets, "
    "mode\n"
    "0600. A credential is saved only as the path of its file.\n"
    ".PP\n"
    "known_hosts in the same folder: host keys trusted for ssh targets, mode 0600. A key is kept "
    "under\n"
    "the host's name in lower case, or [host]:port when a port other than 22 is given, whatever "
    "the\n"
    "user, unless \\-\\-host\\-key\\-alias names another.\n"
    ".SH ENVIRONMENT\n"
    "TELECHIR_DAEMONS: folder with the daemon programs that are put on machines behind ssh; else\n"
    "daemons beside telechir, ../lib/telechir/daemons from there, or the daemon of `local` for "
    "machines\n"
    "of this kind.\n"
    ".PP\n"
    "TELECHIRD_EXECUTABLE, A13N_ENVD_EXECUTABLE: the daemon of `local` when there is no telechird\n"
    "beside telechir. HTTPS_PROXY, NO_PROXY: for https targets. A13N_OUTBOUND_TLS_VERIFY=false: "
    "as\n"
    "\\-\\-insecure.\n";

int cmd_manual(cli *c)
{
    tci_buf b;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_buf_append_str(&b, tci_str(manual_head));
    for (size_t i = 0; i < cli_ncommands; i++)
        if (!cli_commands[i].is_hidden)
            put_roff_command(&b, &cli_commands[i]);
    tci_buf_append_str(&b, TC_STR(".SH TARGET OPTIONS\n"));
    put_roff_options(&b, &cli_on_option, 1);
    put_roff_options(&b, cli_target_options, cli_ntarget_options);
    tci_buf_append_str(&b, TC_STR(".SH OPTIONS OF SSH TARGETS\n"));
    put_roff_options(&b, cli_ssh_options, cli_nssh_options);
    tci_buf_append_str(&b, TC_STR(".SH COMMON OPTIONS\n"));
    put_roff_options(&b, cli_common_options, cli_ncommon_options);
    tci_buf_append_str(&b, tci_str(manual_status));
    return print(c, &b);
}
