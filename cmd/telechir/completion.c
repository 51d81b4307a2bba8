/* SPDX-License-Identifier: Apache-2.0
 *
 * `telechir completion`: scripts for shells, printed from the tables. */
#include "cli.h"

static bool is_offered(const cli_command *command)
{
    return !command->is_hidden;
}

static void put_names(tci_buf *b)
{
    bool is_first = true;
    for (size_t i = 0; i < cli_ncommands; i++) {
        if (!is_offered(&cli_commands[i]))
            continue;
        tci_buf_printf(b, "%s%s", is_first ? "" : " ", cli_commands[i].name);
        is_first = false;
    }
}

static void put_option_names(tci_buf *b, const cli_command *command)
{
    const cli_option *o;
    for (size_t i = 0; (o = cli_command_option(command, i)) != NULL; i++)
        tci_buf_printf(b, "%s--%s", i > 0 ? " " : "", o->name);
}

/* Options whose value is a file here. */
static bool takes_file(const cli_option *o)
{
    return o->value != NULL && strcmp(o->value, "FILE") == 0;
}

/* Was it met already, in a command before the n-th, or earlier in that one? */
static bool is_seen(const cli_option *o, size_t ncommand, size_t noption)
{
    const cli_option *other;
    for (size_t i = 0; i <= ncommand; i++)
        for (size_t n = 0; (other = cli_command_option(&cli_commands[i], n)) != NULL; n++) {
            if (i == ncommand && n == noption)
                return false;
            if (takes_file(other) && strcmp(other->name, o->name) == 0)
                return true;
        }
    return false;
}

/* "--file|--patch": every option whose value is a file here. */
static void put_file_options(tci_buf *b)
{
    const cli_option *o;
    bool is_first = true;
    for (size_t i = 0; i < cli_ncommands; i++)
        for (size_t n = 0; (o = cli_command_option(&cli_commands[i], n)) != NULL; n++) {
            if (!takes_file(o) || is_seen(o, i, n))
                continue;
            tci_buf_printf(b, "%s--%s", is_first ? "" : "|", o->name);
            is_first = false;
        }
}

static void put_bash(tci_buf *b)
{
    tci_buf_append_str(
        b, TC_STR("# bash completion for telechir\n"
                  "_telechir() {\n"
                  "  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
                  "  COMPREPLY=()\n"
                  "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
                  "    COMPREPLY=($(compgen -W '"));
    put_names(b);
    tci_buf_append_str(
        b, TC_STR("' -- \"$cur\"))\n"
                  "    return\n"
                  "  fi\n"
                  "  case $prev in\n"
                  "    --on)\n"
                  "      COMPREPLY=($(compgen -W \"local $(telechir target list 2>/dev/null | "
                  "cut -d' ' -f1)\" -- \"$cur\"))\n"
                  "      return ;;\n"
                  "    "));
    put_file_options(b);
    tci_buf_append_str(b, TC_STR(")\n"
                                 "      COMPREPLY=($(compgen -f -- \"$cur\"))\n"
                                 "      return ;;\n"
                                 "  esac\n"
                                 "  local words=\n"
                                 "  case ${COMP_WORDS[1]} in\n"));
    for (size_t i = 0; i < cli_ncommands; i++) {
        const cli_command *command = &cli_commands[i];
        if (!is_offered(command))
            continue;
        tci_buf_printf(b, "    %s) words='%s%s", command->name,
                       command->words != NULL ? command->words : "",
                       command->words != NULL ? " " : "");
        put_option_names(b, command);
        tci_buf_append_str(b, TC_STR("' ;;\n"));
    }
    tci_buf_append_str(
        b, TC_STR("  esac\n"
                  "  COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
                  "  [ ${#COMPREPLY[@]} -gt 0 ] || COMPREPLY=($(compgen -f -- \"$cur\"))\n"
                  "}\n"
                  "complete -F _telechir telechir\n"));
}

/* Help in single quotes: none of our texts may end them, nor start a zsh group. */
static void put_plain(tci_buf *b, const char *text)
{
    for (const char *p = text; *p != '\0'; p++) {
        if (*p == '\'')
            tci_buf_append_str(b, TC_STR("'\\''"));
        else if (*p == '[' || *p == ']' || *p == ':')
            tci_buf_printf(b, "\\%c", *p);
        else
            tci_buf_append_byte(b, *p);
    }
}

static void put_zsh(tci_buf *b)
{
    tci_buf_append_str(b, TC_STR("#compdef telechir\n"
                                 "_telechir() {\n"
                                 "  local -a commands\n"
                                 "  commands=(\n"));
    for (size_t i = 0; i < cli_ncommands; i++)
        if (is_offered(&cli_commands[i])) {
            tci_buf_printf(b, "    '%s:", cli_commands[i].name);
            put_plain(b, cli_commands[i].summary);
            tci_buf_append_str(b, TC_STR("'\n"));
        }
    tci_buf_append_str(b, TC_STR("  )\n"
                                 "  if (( CURRENT == 2 )); then\n"
                                 "    _describe command commands\n"
                                 "    return\n"
                                 "  fi\n"
                                 "  local command=$words[2]\n"
                                 "  shift words\n"
                                 "  (( CURRENT-- ))\n"
                                 "  case $command in\n"));
    for (size_t i = 0; i < cli_ncommands; i++) {
        const cli_command *command = &cli_commands[i];
        const cli_option *o;
        if (!is_offered(command))
            continue;
        tci_buf_printf(b, "    %s) _arguments", command->name);
        for (size_t n = 0; (o = cli_command_option(command, n)) != NULL; n++) {
            tci_buf_printf(b, " '%s--%s[", o->is_repeatable ? "*" : "", o->name);
            put_plain(b, o->help);
            tci_buf_append_byte(b, ']');
            if (o->value != NULL) {
                tci_buf_append_byte(b, ':');
                put_plain(b, o->value);
                tci_buf_printf(b, ":%s", takes_file(o) ? "_files" : " ");
            }
            tci_buf_append_byte(b, '\'');
        }
        if (command->words != NULL)
            tci_buf_printf(b, " '1:word:(%s)'", command->words);
        tci_buf_append_str(b, TC_STR(" '*:argument:_files' ;;\n"));
    }
    tci_buf_append_str(b, TC_STR("  esac\n}\n_telechir \"$@\"\n"));
}

static void put_fish_option(tci_buf *b, const char *command, const cli_option *o)
{
    tci_buf_printf(b, "complete -c telechir -n '__fish_seen_subcommand_from %s' -l %s", command,
                   o->name);
    if (o->letter != 0)
        tci_buf_printf(b, " -s %c", o->letter);
    if (o->value != NULL)
        tci_buf_append_str(b, takes_file(o) ? TC_STR(" -r -F") : TC_STR(" -x"));
    tci_buf_append_str(b, TC_STR(" -d '"));
    for (const char *p = o->help; *p != '\0'; p++)
        tci_buf_append_byte(b, *p == '\'' ? '"' : *p);
    tci_buf_append_str(b, TC_STR("'\n"));
}

static void put_fish(tci_buf *b)
{
    tci_buf_append_str(b, TC_STR("# fish completion for telechir\n"));
    for (size_t i = 0; i < cli_ncommands; i++) {
        const cli_command *command = &cli_commands[i];
        const cli_option *o;
        if (!is_offered(command))
            continue;
        tci_buf_printf(b, "complete -c telechir -f -n '__fish_use_subcommand' -a %s -d '%s'\n",
                       command->name, command->summary);
        if (command->words != NULL)
            tci_buf_printf(b,
                           "complete -c telechir -f -n '__fish_seen_subcommand_from %s' -a '%s'\n",
                           command->name, command->words);
        for (size_t n = 0; (o = cli_command_option(command, n)) != NULL; n++)
            put_fish_option(b, command->name, o);
    }
}

int cmd_completion(cli *c)
{
    static const struct {
        const char *name;
        void (*put)(tci_buf *b);
    } shells[] = {{"bash", put_bash}, {"zsh", put_zsh}, {"fish", put_fish}};
    if (!cli_want_args(c, 1, 1))
        return cli_fail(c);
    for (size_t i = 0; i < TCI_ARRAY_LEN(shells); i++) {
        if (strcmp(shells[i].name, c->args[0]) != 0)
            continue;
        tci_buf b;
        tci_buf_init(&b, TCI_BUF_MAX);
        shells[i].put(&b);
        bool is_fine = tci_buf_error(&b, &c->err) == 0 && cli_out(c, tci_buf_str(&b));
        tci_buf_done(&b);
        return is_fine ? CLI_OK : cli_fail(c);
    }
    return cli_usage(c, "completion is for bash, zsh or fish, not '%s'", c->args[0]);
}
