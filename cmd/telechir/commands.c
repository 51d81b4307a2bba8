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
