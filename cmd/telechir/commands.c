/* SPDX-License-Identifier: Apache-2.0
 *
 * The tables: every command, its options and its words. Adding a command is a row here and a
 * function in a file of its own. */
#include "cli.h"

const cli_option cli_common_options[] = {
    {"json", NULL, "answer in JSON on standard output", 0, false},
    {"quiet", NULL, "no talk on standard error but errors", 'q', false},
    {"verbose", NULL, "say more", 'v', false},
    {"help", NULL, "this text", 'h', false},
};
const size_t cli_ncommon_options = TCI_ARRAY_LEN(cli_common_options);

const cli_option cli_on_option = {"on", "TARGET", "where: local (the default), a URL, a saved name",
                                  0, false};

const cli_option cli_target_options[] = {
    {"device-id", "ID", "the device that must answer", 0, false},
    {"credential-file", "FILE", "file with the credential (never in a URL or an argument)", 0,
     false},
    {"ca-file", "FILE", "PEM file of the authorities to trust", 0, false},
    {"insecure", NULL, "do not check the server's certificate", 0, false},
    {"allow-plaintext-private-link", NULL, "http:// to another machine over a private link", 0,
     false},
    {"executable", "FILE", "local: this daemon program", 0, false},
};
const size_t cli_ntarget_options = TCI_ARRAY_LEN(cli_target_options);

static const cli_option demo_options[] = {
    {"transport", "stdio|http", "how to reach the temporary daemon (stdio)", 0, false},
    {"executable", "FILE", "another daemon program than telechird beside this one", 0, false},
};

static const cli_option exec_options[] = {
    {"cwd", "DIR", "run in this folder there", 0, false},
    {"env", "K=V|K", "a variable; K alone takes its value from here, out of argv", 0, true},
    {"env-file", "FILE", "variables from a file here, K=V or K a line, # comments", 0, true},
    {"timeout", "SECONDS", "kill it after that (status 124)", 0, false},
    {"stdin", NULL, "pass standard input on (otherwise it is empty)", 0, false},
    {"tty", NULL, "a terminal (not available in this version)", 0, false},
};

static const cli_option target_options[] = {
    {"replace", NULL, "add: also when the name is taken", 0, false},
};

static const char exec_details[] =
    "Output is passed on as it comes, byte for byte, standard output and standard error apart.\n"
    "Status: the command's own; 128+n for signal n (128 when the target does not name it); 124 when\n"
    "its time ran out; 125 for a failure of telechir. Ctrl-C kills the command, says what became of\n"
    "it, and exits 130. A target takes 16 MiB of input at most unless its operator raised that.\n"
    "When the command ends, what it left in the background is ended too.\n"
    "\n"
    "With --json, one object a line on standard output:\n"
    "  {\"event\":\"started\",\"device_id\",\"generation\",\"session_id\",\"operation_id\"}\n"
    "  {\"event\":\"output\",\"stream\":\"stdout\"|\"stderr\",\"data\"}  or \"data_base64\" (no padding)\n"
    "      where the bytes are not UTF-8\n"
    "  {\"event\":\"end\",\"outcome\":\"done\"|\"killed\"|\"not_started\"|\"unknown\",\"status\",\n"
    "      \"exit_code\" or \"signal\",\"timed_out\",\"interrupted\",\"cleaned_up\",\"stdout_bytes\",\n"
    "      \"stderr_bytes\",\"error\":{\"code\",\"message\",\"hint\"}}";

#define OPTIONS(list) .options = (list), .noptions = TCI_ARRAY_LEN(list)

const cli_command cli_commands[] = {
    {.name = "demo",
     .arguments = "",
     .summary = "Show the main promise: a temporary daemon, two adapters, one file",
     .details = "Starts a daemon in a temporary folder with commands disabled, writes a file through\n"
                "one adapter, closes it, and reads the file back through a new adapter. Needs no key\n"
                "and no network. Everything is stopped and removed at the end.",
     OPTIONS(demo_options),
     .run = cmd_demo},
    {.name = "target",
     .arguments = "add NAME FORM | list | show NAME | remove NAME | check NAME|FORM",
     .summary = "Save, list and check targets",
     .details = "FORM is local, http://HOST:PORT or https://HOST[:PORT]. The two latter need --device-id\n"
                "and --credential-file; only the path of that file is saved. `check` reaches the target\n"
                "and prints its system, daemon, boundary and round trip.",
     OPTIONS(target_options),
     .takes_link = true,
     .words = "add list show remove check",
     .run = cmd_target},
    {.name = "exec",
     .arguments = "[--] CMD ARG...",
     .summary = "Run a program there",
     .details = exec_details,
     OPTIONS(exec_options),
     .takes_target = true,
     .stops_at_first = true,
     .is_exec_like = true,
     .run = cmd_exec},
    {.name = "sh",
     .arguments = "'SCRIPT'",
     .summary = "Run a script through the shell there",
     .details = exec_details,
     OPTIONS(exec_options),
     .takes_target = true,
     .is_exec_like = true,
     .run = cmd_sh},
    {.name = "version", .arguments = "", .summary = "Print the version", .run = cmd_version},
    {.name = "help",
     .arguments = "[COMMAND]",
     .summary = "Print the help of a command",
     .is_hidden = true,
     .run = cmd_help},
    {.name = "manual",
     .arguments = "",
     .summary = "Print the manual page",
     .is_hidden = true,
     .run = cmd_manual},
};
const size_t cli_ncommands = TCI_ARRAY_LEN(cli_commands);

const cli_command *cli_command_find(const char *name)
{
    for (size_t i = 0; i < cli_ncommands; i++)
        if (strcmp(cli_commands[i].name, name) == 0)
            return &cli_commands[i];
    return NULL;
}

const cli_option *cli_command_option(const cli_command *command, size_t n)
{
    bool has_link = command->takes_target || command->takes_link;
    if (n < command->noptions)
        return &command->options[n];
    n -= command->noptions;
    if (n < cli_ncommon_options)
        return &cli_common_options[n];
    n -= cli_ncommon_options;
    if (command->takes_target && n-- == 0)
        return &cli_on_option;
    return has_link && n < cli_ntarget_options ? &cli_target_options[n] : NULL;
}
