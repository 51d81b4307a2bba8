/* SPDX-License-Identifier: Apache-2.0
 *
 * `telechir doctor`: what works on this side, and how findings are shown. Leaves the target to
 * doctor_there.c. The main thread. Invariant: it goes on after a failure, and the status is that of
 * the first. */
#include "doctor.h"

#include "child.h"
#include "env/pi/pi_env.h"
#include "host.h"
#include "plat/env.h"
#include "plat/file.h"
#include "plat/self.h"
#include "target.h"

#include <stdarg.h>
#include <stdio.h>

/* ---- findings ---- */

static const char *kind_name(finding_kind kind)
{
    static const char *const names[] = {"ok", "note", "failed", "skipped"};
    return names[kind];
}

static void show(doctor *d, finding_kind kind, const char *check, const char *hint,
                 const char *detail)
{
    cli *c = d->c;
    tci_buf b;
    bool first = true;
    tci_buf_init(&b, TCI_BUF_MAX);
    if (c->is_json) {
        tci_buf_append_byte(&b, '{');
        cli_json_str(&b, &first, "side", tci_str(d->side));
        cli_json_str(&b, &first, "check", tci_str(check));
        cli_json_str(&b, &first, "status", tci_str(kind_name(kind)));
        cli_json_str(&b, &first, "detail", tci_str(detail));
        if (hint != NULL && hint[0] != '\0')
            cli_json_str(&b, &first, "hint", tci_str(hint));
        tci_buf_append_byte(&b, '}');
    } else {
        tci_buf_printf(&b, "%-8s%-6s%-16s%s", kind_name(kind), d->side, check, detail);
        if (hint != NULL && hint[0] != '\0')
            tci_buf_printf(&b, "\n%30s%s", "", hint);
    }
    tci_buf_append_byte(&b, '\n');
    if (tci_buf_error(&b, &c->err) < 0 || !cli_out(c, tci_buf_str(&b)))
        d->is_out_broken = true;
    tci_buf_done(&b);
}

void doctor_found(doctor *d, finding_kind kind, const char *check, const char *hint,
                  const char *fmt, ...)
{
    enum { DETAIL_MAX = 1024 };
    char detail[DETAIL_MAX];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(detail, sizeof detail, fmt, ap); /* too long a text is cut */
    va_end(ap);
    show(d, kind, check, hint, detail);
}

void doctor_failed(doctor *d, const char *check)
{
    tc_err why = d->c->err;
    if (d->status == CLI_OK)
        d->status = cli_caught() != 0 ? CLI_INTERRUPTED : tc_code_exit_status(why.code);
    doctor_found(d, FOUND_FAILED, check, why.hint, "%s", why.msg);
}

void doctor_note(doctor *d, const char *check)
{
    tc_err why = d->c->err;
    doctor_found(d, FOUND_NOTE, check, why.hint, "%s", why.msg);
}

/* ---- this side ---- */

static void look_at_program(doctor *d)
{
    char buf[TCI_PATH_MAX];
    tc_str path;
    if (tci_self_program(buf, &path, &d->c->err) < 0)
        doctor_note(d, "telechir");
    else
        doctor_found(d, FOUND_OK, "telechir", NULL, "%s at %.*s", tc_version(), TC_STR_ARG(path));
}

/* The first line of what a program says of itself. */
static bool first_words(cli *c, tc_str program, const char *flag, tc_str *ret)
{
    tci_buf out;
    tci_exit ended;
    char *path;
    tc_str line, rest;
    tci_buf_init(&out, 64 * 1024);
    bool is_fine = tci_arena_cstr(&c->arena, program, &path, &c->err) == 0;
    if (is_fine) {
        const char *argv[] = {path, flag, NULL};
        is_fine = cli_child_run(c, argv, &out, &ended, &c->err) == 0;
    }
    rest = tci_buf_str(&out);
    is_fine = is_fine && tci_str_split(&rest, '\n', &line) &&
              tci_arena_dup(&c->arena, tci_str_trim(line), ret, &c->err) == 0;
    tci_buf_done(&out);
    return is_fine;
}

static void look_at_daemon(doctor *d)
{
    cli *c = d->c;
    const char *given = cli_value(c, "on") == NULL ? cli_value(c, "executable") : NULL;
    tc_str path, version;
    if (tci_env_daemon_program(c->rt, tci_str(given), &c->arena, &path, &c->err) < 0)
        doctor_note(d, "daemon");
    else if (!first_words(c, path, "--version", &version))
        doctor_failed(d, "daemon");
    else
        doctor_found(d, FOUND_OK, "daemon", NULL, "%.*s at %.*s", TC_STR_ARG(version),
                     TC_STR_ARG(path));
}

static void look_at_ssh(doctor *d)
{
    cli *c = d->c;
    tc_str path, version;
    if (cli_find_program(c, "ssh", &path, &c->err) < 0)
        doctor_found(d, FOUND_NOTE, "ssh", "install the OpenSSH client for ssh: targets",
                     "no ssh program on PATH");
    else if (!first_words(c, path, "-V", &version))
        doctor_failed(d, "ssh");
    else
        doctor_found(d, FOUND_OK, "ssh", NULL, "%.*s at %.*s", TC_STR_ARG(version),
                     TC_STR_ARG(path));
}

static void look_at_keys(doctor *d)
{
    cli *c = d->c;
    tc_ssh_target ssh = {.size = sizeof ssh, .host = TC_STR("localhost")};
    tc_ssh_keys keys;
    const char *given = cli_value(c, "known-hosts");
    tc_str here, file;
    bool is_relative = given != NULL && given[0] != '/';
    if (given != NULL)
        ssh.known_hosts_file = tci_str(given);
    if (is_relative &&
        (cli_here(c, &here, &c->err) < 0 ||
         tci_arena_printf(&c->arena, &file, &c->err, "%.*s/%s", TC_STR_ARG(here), given) < 0)) {
        doctor_failed(d, "trusted keys");
        return;
    }
    if (is_relative)
        ssh.known_hosts_file = file;
    if (tc_ssh_list(c->rt, c->result, &ssh, false, &keys, &c->err) < 0)
        doctor_failed(d, "trusted keys");
    else if (keys.count == 0)
        doctor_found(d, FOUND_NOTE, "trusted keys", "telechir trust HOST",
                     "no host is trusted for ssh: targets yet");
    else
        doctor_found(d, FOUND_OK, "trusted keys", NULL, "%zu in %s", keys.count,
                     given != NULL ? given : "the known_hosts of telechir");
}

static void look_at_targets(doctor *d)
{
    cli_targets saved;
    if (cli_targets_load(d->c, &saved, &d->c->err) < 0)
        doctor_failed(d, "saved targets");
    else
        doctor_found(d, FOUND_OK, "saved targets", NULL, "%zu", saved.count);
}

/* Nobody is asked: whether the token is still good shows when it is used. */
static void look_at_host(doctor *d)
{
    cli *c = d->c;
    host_at at;
    int rc = host_saved_find(c, cli_value(c, "host"), &at, &c->err);
    if (rc == 0)
        doctor_found(d, FOUND_OK, "Host", NULL, "signed in to %.*s", TC_STR_ARG(at.url));
    else if (rc == TC_E_AUTH)
        doctor_note(d, "Host");
    else
        doctor_failed(d, "Host");
}

/* ---- daemon programs for other machines ---- */

static void look_at_daemons(doctor *d)
{
    cli *c = d->c;
    tc_ssh_daemons found;
    tci_buf list;
    tc_str parent, name;
    if (tc_ssh_daemons_list(c->rt, c->result, (tc_str){0}, &found, &c->err) < 0) {
        doctor_failed(d, "daemons to put");
        return;
    }
    tci_buf_init(&list, TCI_BUF_MAX);
    for (size_t i = 0; i < found.count; i++)
        tci_buf_printf(&list, "%s%.*s %.*s", i > 0 ? ", " : "", TC_STR_ARG(found.items[i].platform),
                       TC_STR_ARG(found.items[i].arch));
    tci_path_split(found.items[0].file, &parent, &name);
    if (found.items[0].platform.len == 0)
        doctor_found(d, FOUND_NOTE, "daemons to put",
                     "a release has them beside telechir; or set TELECHIR_DAEMONS",
                     "only %.*s, for machines of its kind", TC_STR_ARG(found.items[0].file));
    else
        doctor_found(d, FOUND_OK, "daemons to put", NULL, "%.*s in %.*s", (int)list.len,
                     list.ptr != NULL ? list.ptr : "", TC_STR_ARG(parent));
    tci_buf_done(&list);
}

int cmd_doctor(cli *c)
{
    doctor d = {.c = c, .side = "here"};
    if (!cli_want_args(c, 0, 0) || cli_runtime(c) == NULL)
        return cli_fail(c);
    look_at_program(&d);
    look_at_daemon(&d);
    look_at_ssh(&d);
    look_at_keys(&d);
    look_at_daemons(&d);
    look_at_targets(&d);
    look_at_host(&d);
    d.side = "there";
    doctor_there(&d);
    if (d.is_out_broken)
        return cli_fail(c);
    if (d.status != CLI_OK)
        cli_say(c, "not all is well: see the lines that say failed");
    return d.status;
}
