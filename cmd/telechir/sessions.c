/* SPDX-License-Identifier: Apache-2.0
 *
 * `telechir sessions`: what sessions there are, what is in one, whether it is sound, and how to make it
 * so. Leaves dumping to sessions_dump.c and drawing to sessions_show.c. The main thread. Invariant: only
 * repair and fork write, and neither while somebody else owns the session. */
#include "sessions.h"

#include "agent.h"
#include "plat/dir.h"
#include "plat/file.h"
#include "store/store.h"
#include <stdio.h>
#include <stdlib.h>

static const char usage[] = "sessions list | show | check | repair | fork | export | dump PATH";

/* ---- list ---- */

/* A file of SQLite, or a folder of JSON lines. */
static bool is_session(const tci_dir *folder, tc_str name)
{
    char path[TCI_NAME_MAX + 16];
    tci_file_stat st;
    tc_err no;
    if (name.len == 0 || name.ptr[0] == '.' || name.len > TCI_NAME_MAX)
        return false;
    if (tci_str_ends(name, TC_STR(".sqlite")))
        return true;
    (void)snprintf(path, sizeof path, "%.*s/main.jsonl", TC_STR_ARG(name));
    return tci_file_stat_at((tci_file){folder->fd_plus_1 - 1}, tci_str(path), true, &st, &no) == 0;
}

static int by_name(const void *a, const void *b)
{
    return tci_str_cmp(*(const tc_str *)a, *(const tc_str *)b);
}

/* Names of the sessions in a folder, sorted; in the command's arena. */
static int read_names(cli *c, const tci_dir *dir, tc_str **ret, size_t *ret_n)
{
    tci_dir_reader reader;
    tci_dir_entry entry;
    size_t n = 0, cap = 0;
    tc_str *names = NULL;
    char *buf = tci_arena_alloc(&c->arena, TCI_DIR_READ_BYTES);
    int rc = buf != NULL ? tci_dir_read_start(&reader, dir, buf, &c->err)
                         : tci_arena_error(&c->arena, &c->err);
    while (rc >= 0 && (rc = tci_dir_read_next(&reader, &entry, &c->err)) == 1) {
        if (!is_session(dir, entry.name))
            continue;
        if (n == cap) {
            size_t more = cap > 0 ? cap * 2 : 64;
            names = tci_arena_grow(&c->arena, names, cap * sizeof *names, more * sizeof *names);
            if (names == NULL)
                return tci_arena_error(&c->arena, &c->err);
            cap = more;
        }
        rc = tci_arena_dup(&c->arena, entry.name, &names[n++], &c->err);
    }
    if (n > 1)
        qsort(names, n, sizeof *names, by_name);
    *ret = names;
    *ret_n = n;
    return rc;
}

static int put_listed(cli *c, tc_str folder, tc_str name, const tci_file_stat *st)
{
    tci_buf b;
    bool first = true;
    tc_time at = {.is_known = true, .sec = st->modified.sec, .nsec = st->modified.nsec};
    char when[TCI_RFC3339_MAX];
    tci_buf_init(&b, TCI_BUF_MAX);
    if (c->is_json) {
        tci_buf path;
        tci_buf_init(&path, TCI_BUF_MAX);
        tci_buf_printf(&path, "%.*s/%.*s", TC_STR_ARG(folder), TC_STR_ARG(name));
        tci_buf_append_byte(&b, '{');
        cli_json_bytes(&b, &first, "path", tci_buf_str(&path));
        cli_json_u64(&b, &first, "size_bytes", st->size);
        cli_json_time(&b, &first, "modified_at", &at);
        tci_buf_append_byte(&b, '}');
        tci_buf_done(&path);
    } else {
        size_t len = tci_rfc3339_text((tci_instant){.sec = st->modified.sec}, when);
        tci_buf_printf(&b, "%.*s  %10llu  ", (int)len, when, (unsigned long long)st->size);
        cli_put_name(&b, folder);
        tci_buf_append_byte(&b, '/');
        cli_put_name(&b, name);
    }
    tci_buf_append_byte(&b, '\n');
    int rc = tci_buf_error(&b, &c->err);
    if (rc == 0 && !cli_out(c, tci_buf_str(&b)))
        rc = c->err.code;
    tci_buf_done(&b);
    return rc;
}

static int list(cli *c)
{
    tc_str folder = {NULL, 0}, *names = NULL;
    size_t n = 0;
    tci_dir dir = {0};
    if (c->nargs > 2)
        return tc_err_set(&c->err, TC_E_INVALID, "sessions list takes one folder at most");
    if (c->nargs == 2)
        folder = tci_str(c->args[1]);
    else if (agent_folder(c, &folder, &c->err) < 0)
        return c->err.code;
    int rc = tci_dir_open(NULL, folder.ptr, 0, &dir, &c->err);
    if (rc == TC_E_NOT_FOUND && c->nargs < 2) {
        cli_say(c, "no sessions yet: `telechir run` begins one");
        return 0;
    }
    if (rc == 0)
        rc = read_names(c, &dir, &names, &n);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        tci_file_stat st;
        tc_err gone;
        if (tci_file_stat_at((tci_file){dir.fd_plus_1 - 1}, names[i], true, &st, &gone) == 0)
            rc = put_listed(c, folder, names[i], &st);
    }
    tci_dir_close(&dir);
    return rc;
}

/* ---- check and repair ---- */

static void on_damage(void *user, const tci_damage *damage)
{
    cli *c = user;
    tci_buf b;
    bool first = true;
    tci_buf_init(&b, TCI_BUF_MAX);
    if (c->is_json) {
        tci_buf_append_byte(&b, '{');
        cli_json_str(&b, &first, "where", damage->where);
        cli_json_str(&b, &first, "what", damage->what);
        cli_json_bool(&b, &first, "lost", damage->is_lost);
        tci_buf_append_byte(&b, '}');
    } else {
        cli_put_name(&b, damage->where);
        tci_buf_append_str(&b, TC_STR(": "));
        cli_put_name(&b, damage->what);
        tci_buf_append_str(&b, damage->is_lost ? TC_STR(" (lost)") : TC_STR(""));
    }
    tci_buf_append_byte(&b, '\n');
    (void)cli_out(c, tci_buf_str(&b)); /* what follows says whether it could be written */
    tci_buf_done(&b);
}

static int put_report(cli *c, const tci_check_report *report, tc_str aside)
{
    tci_buf b;
    bool first = true;
    tci_buf_init(&b, TCI_BUF_MAX);
    if (c->is_json) {
        tci_buf_append_byte(&b, '{');
        cli_json_u64(&b, &first, "records", report->nrecords);
        cli_json_u64(&b, &first, "commits", report->ncommits);
        cli_json_u64(&b, &first, "damaged", report->ndamaged);
        cli_json_u64(&b, &first, "lost", report->nlost);
        cli_json_u64(&b, &first, "unfinished", report->ntails);
        cli_json_bool(&b, &first, "readable", !report->is_unreadable);
        if (aside.len > 0)
            cli_json_bytes(&b, &first, "aside", aside);
        tci_buf_append_byte(&b, '}');
    } else {
        tci_buf_printf(&b, "%llu sound records in %llu commits, %llu damaged",
                       (unsigned long long)report->nrecords, (unsigned long long)report->ncommits,
                       (unsigned long long)report->ndamaged);
        if (aside.len > 0)
            tci_buf_printf(&b, "; what was damaged is in %.*s", TC_STR_ARG(aside));
    }
    tci_buf_append_byte(&b, '\n');
    int rc = tci_buf_error(&b, &c->err);
    if (rc == 0 && !cli_out(c, tci_buf_str(&b)))
        rc = c->err.code;
    tci_buf_done(&b);
    return rc;
}

/* What repair can do about it, which depends on what is damaged. */
static int advise(cli *c, const tci_check_report *report)
{
    const char *path = c->args[1];
    unsigned long long nlost = report->nlost, nsound = report->nrecords;
    if (report->ntails == report->ndamaged) {
        cli_say(c, "what did not become a commit is no damage: the next run takes it away");
        return 0;
    }
    if (report->is_unreadable) {
        (void)tc_err_set(&c->err, TC_E_INTEGRITY, "nothing of '%s' can be read as a session", path);
        return tc_err_hint(&c->err, "repair cannot help here: put a copy in its place");
    }
    if (nlost == 0) {
        (void)tc_err_set(&c->err, TC_E_INTEGRITY, "'%s' is damaged; no record is lost", path);
        return tc_err_hint(&c->err, "telechir sessions repair %s mends it", path);
    }
    (void)tc_err_set(&c->err, TC_E_INTEGRITY, "'%s' is damaged: %llu record%s lost", path, nlost,
                     nlost == 1 ? " is" : "s are");
    if (nsound == 0)
        return tc_err_hint(&c->err,
                           "nothing sound is left, so repair would make an empty session: put a "
                           "copy in its place if there is one");
    return tc_err_hint(&c->err,
                       "telechir sessions repair %s keeps the %llu sound record%s and sets the "
                       "rest aside; only a copy has what is lost",
                       path, nsound, cli_s(nsound));
}

static int check(cli *c)
{
    tci_check_report report;
    tc_str path = tci_str(c->args[1]), none = {NULL, 0};
    if (tci_store_check(path, on_damage, c, &report, &c->err) < 0 ||
        put_report(c, &report, none) < 0)
        return c->err.code;
    return report.ndamaged > 0 ? advise(c, &report) : 0;
}

static int repair(cli *c)
{
    tci_check_report report;
    tc_str aside;
    if (tci_store_repair(tci_str(c->args[1]), on_damage, c, &c->arena, &aside, &report, &c->err) <
        0)
        return c->err.code;
    return put_report(c, &report, aside);
}

/* ---- fork ---- */

/* Without an entry: at the newest. */
static int fork_at(cli *c, const agent *a, uint64_t conversation, uint64_t *ret_at)
{
    if (!cli_number(c, "at", 1, 0, ret_at))
        return c->err.code;
    if (*ret_at != 0)
        return 0;
    tc_records newest;
    tc_page page = {.limit = 1};
    tci_entry entry;
    if (tc_durable_entries(tc_harness_session(a->harness), conversation, 0, 0, &page, c->result,
                           &newest, &c->err) < 0)
        return c->err.code;
    if (newest.count == 0)
        return tc_err_set(&c->err, TC_E_NOT_FOUND, "the conversation has no entries to fork at");
    if (tci_entry_parse(newest.items[0], &c->arena, NULL, &entry, &c->err) < 0)
        return c->err.code;
    *ret_at = entry.id;
    return 0;
}

static int fork_conversation(cli *c)
{
    agent a;
    uint64_t conversation, at, id = 0;
    tc_conversation_options options = {.size = sizeof options};
    if (!cli_number(c, "conversation", 1, TCI_ROOT_ID, &conversation))
        return c->err.code;
    int rc = agent_open_session(&a, c, tci_str(c->args[1]));
    if (rc == 0)
        rc = fork_at(c, &a, conversation, &at);
    if (rc == 0)
        rc = tc_conversation_fork(a.harness, c->ctx, conversation, at, &options, &id, &c->err);
    if (rc == TC_E_NOT_FOUND || rc == TC_E_INVALID)
        (void)tc_err_hint(&c->err,
                          "`telechir sessions dump %s` begins with its conversations; `show` has "
                          "the number of each entry",
                          c->args[1]);
    tc_err why = c->err;
    agent_close(&a);
    c->err = why;
    if (rc < 0)
        return rc;
    bool ok = c->is_json ? cli_outf(c, "{\"conversation\":%llu,\"parent\":%llu,\"at\":%llu}\n",
                                    (unsigned long long)id, (unsigned long long)conversation,
                                    (unsigned long long)at)
                         : cli_outf(c, "%llu\n", (unsigned long long)id);
    return ok ? 0 : c->err.code;
}

/* ---- which ---- */

static const struct {
    const char *word;
    int (*run)(cli *c);
    bool takes_path;
} subcommands[] = {
    {"list", list, false},         {"ls", list, false},
    {"show", sessions_show, true}, {"export", sessions_export, true},
    {"dump", sessions_dump, true}, {"check", check, true},
    {"repair", repair, true},      {"fork", fork_conversation, true},
};

int cmd_sessions(cli *c)
{
    if (c->nargs == 0)
        return cli_usage(c, "%s", usage);
    for (size_t i = 0; i < TCI_ARRAY_LEN(subcommands); i++) {
        if (strcmp(c->args[0], subcommands[i].word) != 0)
            continue;
        if (subcommands[i].takes_path && c->nargs != 2)
            return cli_usage(c, "sessions %s takes the path of one session", c->args[0]);
        return subcommands[i].run(c) < 0 ? cli_fail(c) : CLI_OK;
    }
    return cli_usage(c, "there is no 'sessions %s': %s", c->args[0], usage);
}
