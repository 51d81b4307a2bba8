/* SPDX-License-Identifier: Apache-2.0
 *
 * `telechir exec` and `telechir sh`: from words to a command. Leaves running it to exec_run.c. The
 * main thread. */
#include "exec.h"

#include "base/utf8.h"
#include "plat/env.h"
#include "plat/file.h"

enum { ENV_FILE_MAX = 1024 * 1024 };

typedef struct env_list {
    tc_pair *items;
    size_t count, cap;
} env_list;

static int add(cli *c, env_list *list, tc_str key, tc_str value)
{
    if (!tci_utf8_is_valid(key) || !tci_utf8_is_valid(value)) {
        tc_err_set(&c->err, TC_E_INVALID, "the variable '%.*s' is not UTF-8", TC_STR_ARG(key));
        return tc_err_hint(&c->err, "put other bytes into a file, or pass them on standard input");
    }
    if (list->count == list->cap) {
        size_t cap = list->cap * 2 + 16;
        tc_pair *items =
            tci_arena_grow(&c->arena, list->items, list->cap * sizeof *items, cap * sizeof *items);
        if (items == NULL)
            return tci_arena_error(&c->arena, &c->err);
        list->items = items;
        list->cap = cap;
    }
    for (size_t i = 0; i < list->count; i++)
        if (tci_str_eq(list->items[i].key, key)) { /* the last one counts */
            list->items[i].value = value;
            return 0;
        }
    list->items[list->count++] = (tc_pair){key, value};
    return 0;
}

/* "K=V", or "K" for the value it has here. */
static int add_word(cli *c, env_list *list, tc_str word)
{
    size_t equals = tci_str_find_byte(word, '=');
    char *name = NULL;
    if (equals == 0)
        return tc_err_set(&c->err, TC_E_INVALID, "a variable without a name");
    if (equals < word.len)
        return add(c, list, tci_str_sub(word, 0, equals), tci_str_sub(word, equals + 1, SIZE_MAX));
    int rc = tci_arena_cstr(&c->arena, word, &name, &c->err);
    if (rc < 0)
        return rc;
    const char *value = tci_env_get(name);
    if (value == NULL)
        return tc_err_set(&c->err, TC_E_INVALID, "the variable '%s' is not set here", name);
    return add(c, list, word, tci_str(value));
}

static int add_file(cli *c, env_list *list, const char *path)
{
    char *text = NULL;
    size_t len = 0;
    tc_str rest, line;
    int rc = tci_file_read_whole(TCI_FILE_CWD, tci_str(path), ENV_FILE_MAX, &text, &len, &c->err);
    if (rc < 0)
        return rc;
    rc = tci_arena_dup(&c->arena, tci_str_of(text, len), &rest, &c->err);
    tci_mem_wipe(text, len);
    tci_free(text);
    while (rc == 0 && tci_str_split(&rest, '\n', &line)) {
        line = tci_str_trim(line);
        if (line.len > 0 && line.ptr[line.len - 1] == '\r')
            line.len--;
        if (line.len > 0 && line.ptr[0] != '#')
            rc = add_word(c, list, line);
    }
    return rc;
}

int cli_command_options(cli *c, tc_command *ret)
{
    env_list list = {0};
    const char *word;
    int rc = 0;
    for (size_t i = 0; rc == 0 && (word = cli_nth(c, "env-file", i)) != NULL; i++)
        rc = add_file(c, &list, word);
    for (size_t i = 0; rc == 0 && (word = cli_nth(c, "env", i)) != NULL; i++)
        rc = add_word(c, &list, tci_str(word));
    if (rc < 0)
        return rc;
    ret->size = sizeof *ret;
    ret->set_env = list.items;
    ret->nset_env = list.count;
    ret->cwd = tci_str(cli_value(c, "cwd"));
    return cli_seconds(c, "timeout", &ret->wall_time_ms) ? 0 : c->err.code;
}

static int refuse_terminal(cli *c)
{
    if (!cli_has(c, "tty"))
        return 0;
    tc_err_set(&c->err, TC_E_INVALID, "--tty is not available in this version");
    return tc_err_hint(&c->err, "use --stdin to pass standard input on without a terminal");
}

static int run_on_target(cli *c, const tc_command *command)
{
    tc_env *env = cli_env(c, NULL);
    if (env == NULL)
        return exec_no_target(c);
    if (!tc_env_can_exec(env)) {
        (void)tc_err_set(&c->err, TC_E_UNSUPPORTED, "commands are disabled on this target");
        (void)tc_err_hint(&c->err, "its operator can start the daemon with Full Control or a shell "
                                   "profile");
        return exec_no_target(c);
    }
    return cli_run_command(c, env, command, cli_has(c, "stdin"));
}

int cmd_exec(cli *c)
{
    tc_command command = {0};
    if (!cli_want_args(c, 1, SIZE_MAX) || refuse_terminal(c) < 0 ||
        cli_command_options(c, &command) < 0)
        return cli_fail(c);
    tc_str *args = tci_arena_items(&c->arena, tc_str, c->nargs);
    if (args == NULL) {
        (void)tci_arena_error(&c->arena, &c->err);
        return cli_fail(c);
    }
    for (size_t i = 1; i < c->nargs; i++)
        args[i - 1] = tci_str(c->args[i]);
    command.program = tci_str(c->args[0]);
    command.args = args;
    command.nargs = c->nargs - 1;
    return run_on_target(c, &command);
}

int cmd_sh(cli *c)
{
    tc_command command = {0};
    if (!cli_want_args(c, 1, 1) || refuse_terminal(c) < 0 || cli_command_options(c, &command) < 0)
        return cli_fail(c);
    command.script = tci_str(c->args[0]);
    return run_on_target(c, &command);
}
