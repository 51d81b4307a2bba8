/* SPDX-License-Identifier: Apache-2.0
 *
 * `telechir chat`: run after run in one session, line by line. Leaves running to run.c, typing to
 * line_edit.c, what was typed before to chat_history.c. The main thread. Invariant: between two prompts
 * nothing of the conversation is under way, but what waits for a yes. */
#include "chat.h"

#include "agent.h"
#include "base/num.h"
#include <signal.h>

typedef struct chat {
    cli *c;
    agent a;
    line_edit edit;
    tc_str history; /* its file; empty: none */
    uint64_t max_turns;
    int last; /* what became of the last prompt */
    bool is_over;
} chat;

/* ---- commands ---- */

static int do_abort(chat *ch, tc_str arg)
{
    TCI_UNUSED(arg);
    cli *c = ch->c;
    if (tc_conversation_abort(ch->a.harness, c->ctx, ch->a.conversation, true, &c->err) < 0)
        return c->err.code;
    cli_say(c, "nothing is under way any more; what tools did stays done");
    return 0;
}

static int newest_entry(chat *ch, uint64_t *ret)
{
    cli *c = ch->c;
    tc_page page = {.limit = 1};
    tc_records found;
    const tc_json *record;
    int64_t id = 0;
    if (tc_durable_entries(agent_session(&ch->a), ch->a.conversation, 0, 0, &page, c->result,
                           &found, &c->err) < 0)
        return c->err.code;
    if (found.count == 0)
        return tc_err_set(&c->err, TC_E_NOT_FOUND, "nothing was said yet");
    if (tc_json_parse(c->result, found.items[0], &record, &c->err) < 0)
        return c->err.code;
    (void)tc_json_as_i64(tc_json_get(record, TC_STR("id")), &id); /* every record has one */
    *ret = (uint64_t)id;
    return 0;
}

static int do_fork(chat *ch, tc_str arg)
{
    cli *c = ch->c;
    uint64_t at, id;
    tc_conversation_options options = {.size = sizeof options};
    int rc = arg.len > 0 ? tci_num_u64(arg, &at, &c->err) : newest_entry(ch, &at);
    if (rc == 0)
        rc = tc_conversation_fork(ch->a.harness, c->ctx, ch->a.conversation, at, &options, &id,
                                  &c->err);
    if (rc < 0)
        return rc;
    cli_say(c,
            "now in conversation %llu, which shares %llu up to entry %llu; --conversation %llu "
            "comes back",
            (unsigned long long)id, (unsigned long long)ch->a.conversation, (unsigned long long)at,
            (unsigned long long)id);
    ch->a.conversation = id;
    return 0;
}

static int do_model(chat *ch, tc_str arg)
{
    if (arg.len == 0)
        return tc_err_set(&ch->c->err, TC_E_INVALID, "/model takes PROVIDER/MODEL");
    return agent_use_model(&ch->a, arg);
}

static int do_on(chat *ch, tc_str arg)
{
    cli *c = ch->c;
    char *on;
    if (arg.len == 0) {
        cli_say(c, "on %.*s", TC_STR_ARG(ch->a.on));
        return 0;
    }
    if (tci_arena_cstr(&c->arena, arg, &on, &c->err) < 0 || agent_move(&ch->a, on) < 0)
        return c->err.code;
    cli_say(c, "on %s, in %.*s", on, TC_STR_ARG(tc_env_cwd(ch->a.env)));
    return 0;
}

static int do_quit(chat *ch, tc_str arg)
{
    TCI_UNUSED(arg);
    ch->is_over = true;
    return 0;
}

static int do_help(chat *ch, tc_str arg);

static const struct {
    const char *word, *arguments, *help;
    int (*run)(chat *ch, tc_str arg);
} words[] = {
    {"abort", "", "end what is unfinished", do_abort},
    {"fork", "[ENTRY]", "go on in a new conversation that shares what was said", do_fork},
    {"model", "PROVIDER/MODEL", "another model", do_model},
    {"on", "[TARGET]", "another target, or where we are", do_on},
    {"help", "", "this", do_help},
    {"quit", "", "leave; Ctrl-D does too", do_quit},
};

static int do_help(chat *ch, tc_str arg)
{
    TCI_UNUSED(arg);
    for (size_t i = 0; i < TCI_ARRAY_LEN(words); i++)
        cli_say(ch->c, "/%s %s: %s", words[i].word, words[i].arguments, words[i].help);
    cli_say(ch->c, "Ctrl-C ends a run; a line that begins with // is sent with one slash");
    return 0;
}

static int command(chat *ch, tc_str line)
{
    size_t blank = tci_str_find_byte(line, ' ');
    tc_str word = tci_str_sub(line, 1, blank - 1);
    tc_str arg = tci_str_trim(tci_str_sub(line, blank, SIZE_MAX));
    for (size_t i = 0; i < TCI_ARRAY_LEN(words); i++) {
        if (tci_str_eq(word, tci_str(words[i].word)))
            return words[i].run(ch, arg);
    }
    (void)tc_err_set(&ch->c->err, TC_E_INVALID, "there is no /%.*s", TC_STR_ARG(word));
    return tc_err_hint(&ch->c->err, "/help lists what there is; // begins a text with a slash");
}

/* ---- prompts ---- */

/* After Ctrl-C the chat goes on where a person can type; other signals end it. */
static bool may_go_on(chat *ch)
{
    bool is_open = !tc_durable_is_closed(agent_session(&ch->a));
    if (cli_caught() == 0)
        return is_open;
    if (cli_caught() != SIGINT || !ch->edit.is_terminal)
        return false;
    cli_rearm(ch->c);
    return is_open;
}

static void tell(chat *ch, int rc)
{
    cli *c = ch->c;
    ch->last = rc;
    if (rc == 0 || rc == TC_E_CANCELLED)
        return;
    cli_warn(c, "%s", c->err.msg);
    if (c->err.hint[0] != '\0')
        cli_warn(c, "%s", c->err.hint);
}

static int one_line(chat *ch)
{
    cli *c = ch->c;
    tc_str line;
    tc_result_clear(c->result);
    int rc = line_edit_read(&ch->edit, "> ", &line);
    if (rc < 0)
        return rc;
    line = tci_str_trim(line);
    if (line.len == 0)
        return 0;
    if (tci_arena_dup(&c->arena, line, &line, &c->err) < 0 ||
        chat_history_add(&ch->edit, ch->history, line) < 0)
        return c->err.code;
    bool is_command = line.ptr[0] == '/' && !tci_str_starts(line, TC_STR("//"));
    if (is_command)
        tell(ch, command(ch, line));
    else
        tell(ch, agent_run(&ch->a, line.ptr[0] == '/' ? tci_str_sub(line, 1, SIZE_MAX) : line,
                           ch->max_turns));
    return 0;
}

static int talk(chat *ch)
{
    cli *c = ch->c;
    chat_history_load(&ch->edit, &ch->history);
    if (ch->edit.is_terminal)
        cli_say(c, "on %.*s, in %.*s; /help lists what else can be typed", TC_STR_ARG(ch->a.on),
                TC_STR_ARG(tc_env_cwd(ch->a.env)));
    tell(ch, agent_run(&ch->a, (tc_str){NULL, 0}, ch->max_turns)); /* what is unfinished */
    while (!ch->is_over && may_go_on(ch)) {
        int rc = one_line(ch);
        if (rc == TC_E_END)
            return 0;
        if (rc < 0 && rc != TC_E_CANCELLED && rc != TC_E_INVALID)
            return rc;
        if (rc == TC_E_INVALID)
            tell(ch, rc);
    }
    if (cli_caught() != 0)
        return tc_err_set(&c->err, TC_E_CANCELLED, "interrupted");
    return tc_durable_failure(agent_session(&ch->a), &c->err) ? c->err.code : 0;
}

int cmd_chat(cli *c)
{
    chat *ch = tci_arena_new(&c->arena, chat); /* too big for a stack */
    if (ch == NULL) {
        (void)tci_arena_error(&c->arena, &c->err);
        return cli_fail(c);
    }
    *ch = (chat){.c = c};
    if (!cli_want_args(c, 0, 0))
        return cli_fail(c);
    if (c->is_json)
        return cli_usage(c, "chat is for people: `telechir run --json` tells events");
    if (cli_has(c, "ask") && cli_has(c, "yes"))
        return cli_usage(c, "--ask and --yes exclude each other");
    if (!cli_number(c, "max-turns", 1, 0, &ch->max_turns))
        return cli_fail(c);
    int rc = agent_open(&ch->a, c);
    if (rc == 0)
        rc = line_edit_init(&ch->edit, c);
    if (rc == 0) {
        rc = talk(ch);
        line_edit_done(&ch->edit);
    }
    tc_err why = c->err;
    agent_close(&ch->a);
    c->err = why;
    if (rc < 0)
        return cli_fail(c);
    return ch->last < 0 && !ch->edit.is_terminal ? tc_code_exit_status(ch->last) : CLI_OK;
}
