/* SPDX-License-Identifier: Apache-2.0
 *
 * Results on standard output, talk on standard error, and errors in the one form they have. Leaves
 * what is said to the commands. Invariant: with --json nothing but JSON goes to standard output. */
#include "cli.h"

#include "base/base64.h"
#include "base/num.h"
#include "base/plain.h"
#include "base/rfc3339.h"
#include "base/utf8.h"
#include "plat/fd.h"

#include <stdarg.h>
#include <stdio.h>

enum { FD_OUT = 1, FD_ERR = 2, LINE_MAX = 2048 };

/* ---- talk ---- */

static void TC_PRINTF(1, 0) say_line(const char *fmt, va_list ap)
{
    char line[LINE_MAX];
    (void)vsnprintf(line, sizeof line, fmt, ap); /* too long a line is cut */
    tc_str text = tci_str(line);
    text.len -= tci_utf8_cut_tail(text);
    for (size_t i = 0; i < text.len; i++)
        if (line[i] == '\n' || line[i] == '\t')
            line[i] = ' ';
    /* Names and messages come from other machines: they may not steer a terminal, nor forge a line. */
    tci_buf plain;
    tci_buf_init(&plain, (size_t)LINE_MAX * 4);
    tci_plain_put(&plain, text, TCI_PLAIN_LINE);
    (void)fprintf(stderr, "telechir: %.*s\n", (int)plain.len, plain.ptr);
    tci_buf_done(&plain);
}

void cli_say(const cli *c, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    if (!c->is_quiet)
        say_line(fmt, ap);
    va_end(ap);
}

void cli_detail(const cli *c, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    if (c->is_verbose)
        say_line(fmt, ap);
    va_end(ap);
}

void cli_warn(const cli *c, const char *fmt, ...)
{
    TCI_UNUSED(c);
    va_list ap;
    va_start(ap, fmt);
    say_line(fmt, ap);
    va_end(ap);
}

/* ---- results ---- */

/* Until it takes bytes. After a signal only for a moment: nobody may be reading. */
static int wait_for_room(int fd, bool *ret_is_ready, tc_err *err)
{
    enum { LOOK_MS = 100, LAST_MS = 250 };
    bool was_caught = cli_caught() != 0;
    tci_fd_event e = {.fd = fd, .want_write = true};
    int rc = tci_fd_wait(&e, 1, was_caught ? LAST_MS : LOOK_MS, err);
    *ret_is_ready = rc == 0 && e.can_write;
    if (rc == 0 && !e.can_write && was_caught)
        rc = tc_err_set(err, TC_E_CANCELLED, "interrupted while nobody took the output");
    return rc;
}

/* A write that waits would hide a signal: so none waits. What cannot be opened for that takes at
 * least PIECE bytes when it says that it takes any. */
static int write_out(int fd, tc_str bytes, tc_err *err)
{
    enum { PIECE = 4096 };
    int unwaiting = cli_unwaiting(fd), rc = 0;
    tci_fd_kind kind = tci_fd_kind_of(fd);
    bool may_wait = kind == TCI_FD_PIPE || kind == TCI_FD_SOCKET || tci_fd_is_terminal(fd);
    if (!may_wait)
        return tci_fd_write_all(fd, bytes.ptr, bytes.len, err);
    bool is_ready = unwaiting >= 0;
    while (rc == 0 && bytes.len > 0) {
        size_t n = 0;
        if (is_ready && unwaiting >= 0)
            rc = tci_fd_write(unwaiting, bytes.ptr, bytes.len, &n, err);
        else if (is_ready)
            rc = tci_fd_write(fd, bytes.ptr, tci_min_size(bytes.len, PIECE), &n, err);
        bytes = tci_str_sub(bytes, n, SIZE_MAX);
        is_ready = n > 0 && unwaiting >= 0;
        if (rc == 0 && bytes.len > 0 && !is_ready)
            rc = wait_for_room(fd, &is_ready, err);
    }
    return rc;
}

int cli_write_stdout(tc_str bytes, tc_err *err)
{
    int rc = write_out(FD_OUT, bytes, err);
    if (rc == 0)
        return 0;
    /* Whoever read it has gone: not the target's fault, so not its code. */
    if (rc == TC_E_CLOSED)
        (void)tc_err_recode(err, TC_E_IO);
    return tc_err_wrap(err, "cannot write to standard output");
}

int cli_write_stderr(tc_str bytes, tc_err *err)
{
    int rc = write_out(FD_ERR, bytes, err);
    return rc < 0 ? tc_err_recode(err, rc == TC_E_CANCELLED ? rc : TC_E_IO) : 0;
}

bool cli_out(cli *c, tc_str bytes)
{
    return cli_write_stdout(bytes, &c->err) == 0;
}

bool cli_outf(cli *c, const char *fmt, ...)
{
    char line[LINE_MAX * 2];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    size_t len = n < 0 ? 0 : (size_t)n;
    return cli_out(c, tci_str_of(line, len < sizeof line ? len : sizeof line - 1));
}

bool cli_out_lines(cli *c, tc_str json)
{
    if (!tci_fd_is_terminal(FD_OUT))
        return cli_out(c, json);
    tci_buf plain;
    tci_buf_init(&plain, TCI_BUF_MAX);
    tci_plain_put(&plain, json, TCI_PLAIN_JSON);
    bool ok = tci_buf_error(&plain, &c->err) == 0 && cli_out(c, tci_buf_str(&plain));
    tci_buf_done(&plain);
    return ok;
}

bool cli_out_json(cli *c, tci_buf *json)
{
    tci_buf_append_byte(json, '\n');
    if (tci_buf_error(json, &c->err) < 0)
        return false;
    return cli_out_lines(c, tci_buf_str(json));
}

/* ---- JSON ---- */

/* What is no UTF-8 becomes the replacement character. */
static void put_text(tci_buf *b, tc_str s)
{
    if (tci_utf8_is_valid(s)) {
        tci_json_put_str(b, s);
        return;
    }
    tci_buf clean;
    tci_buf_init(&clean, TCI_BUF_MAX);
    tci_plain_put(&clean, s, TCI_PLAIN_UTF8);
    tci_json_put_str(b, tci_buf_str(&clean));
    tci_buf_done(&clean);
}

void cli_json_str(tci_buf *b, bool *first, const char *key, tc_str value)
{
    tci_json_put_key(b, first, tci_str(key));
    put_text(b, value);
}

void cli_json_bytes(tci_buf *b, bool *first, const char *key, tc_str value)
{
    if (tci_utf8_is_valid(value)) {
        cli_json_str(b, first, key, value);
        return;
    }
    char name[64];
    (void)snprintf(name, sizeof name, "%s_base64", key);
    tci_json_put_key(b, first, tci_str(name));
    tci_json_put_base64(b, value);
}

void cli_json_u64(tci_buf *b, bool *first, const char *key, uint64_t value)
{
    tci_json_put_key(b, first, tci_str(key));
    tci_buf_append_u64(b, value);
}

void cli_json_i64(tci_buf *b, bool *first, const char *key, int64_t value)
{
    tci_json_put_key(b, first, tci_str(key));
    tci_buf_append_i64(b, value);
}

void cli_json_bool(tci_buf *b, bool *first, const char *key, bool value)
{
    tci_json_put_key(b, first, tci_str(key));
    tci_json_put_bool(b, value);
}

void cli_json_time(tci_buf *b, bool *first, const char *key, const tc_time *t)
{
    if (!t->is_known)
        return;
    char text[TCI_RFC3339_MAX];
    tci_instant at = {.sec = t->sec, .nsec = t->nsec};
    size_t len = tci_rfc3339_text(at, text);
    cli_json_str(b, first, key, tci_str_of(text, len));
}

const char *cli_kind_name(tc_file_kind kind)
{
    switch (kind) {
    case TC_FILE_REGULAR:
        return "file";
    case TC_FILE_DIRECTORY:
        return "directory";
    case TC_FILE_SYMLINK:
        return "symlink";
    case TC_FILE_OTHER:
        break;
    }
    return "other";
}

void cli_json_info(tci_buf *b, bool *first, const tc_file_info *info)
{
    cli_json_str(b, first, "path", info->path);
    cli_json_str(b, first, "kind", tci_str(cli_kind_name(info->kind)));
    if (info->has_size)
        cli_json_u64(b, first, "size", info->size_bytes);
    if (info->has_executable)
        cli_json_bool(b, first, "executable", info->is_executable);
    cli_json_time(b, first, "modified_at", &info->modified_at);
}

void cli_json_error(tci_buf *b, bool *first, const cli *c, const tc_err *err)
{
    bool inner = true;
    const tc_evidence *e = c->result != NULL ? tc_result_evidence(c->result) : NULL;
    tci_json_put_key(b, first, TC_STR("error"));
    tci_buf_append_byte(b, '{');
    cli_json_str(b, &inner, "code", tci_str(tc_code_name(err->code)));
    cli_json_str(b, &inner, "message", tci_str(err->msg));
    if (err->hint[0] != '\0')
        cli_json_str(b, &inner, "hint", tci_str(err->hint));
    if (e != NULL && e->outcome != TC_OUTCOME_NONE) {
        cli_json_str(b, &inner, "outcome", tci_str(tc_outcome_name(e->outcome)));
        if (e->operation_id.len > 0)
            cli_json_str(b, &inner, "operation_id", e->operation_id);
    }
    tci_buf_append_byte(b, '}');
}

/* ---- errors ---- */

static int status_of(const cli *c, int code)
{
    if (cli_caught() != 0)
        return CLI_SIGNAL_BASE + cli_caught();
    int status = tc_code_exit_status(code);
    if (c->command != NULL && c->command->is_exec_like && status != CLI_USAGE)
        return CLI_OURS;
    return status;
}

/* What is known of a change that failed, where that is not plain from the error. */
static void say_outcome(const cli *c)
{
    const tc_evidence *e = tc_result_evidence(c->result);
    if (e->outcome != TC_OUTCOME_UNKNOWN)
        return;
    cli_warn(c, "it may or may not have happened, or only in part: look before you repeat it");
    if (e->operation_id.len > 0)
        cli_warn(c, "its operation id is %.*s", TC_STR_ARG(e->operation_id));
}

static int fail(cli *c, bool is_json)
{
    tc_err *err = &c->err;
    int status = status_of(c, err->code);
    if (c->result != NULL && tc_result_evidence(c->result)->outcome == TC_OUTCOME_UNKNOWN &&
        status != CLI_OURS && cli_caught() == 0)
        status = CLI_UNKNOWN;
    if (is_json) {
        tci_buf b;
        bool first = true;
        tci_buf_init(&b, TCI_BUF_MAX);
        tci_buf_append_byte(&b, '{');
        cli_json_error(&b, &first, c, err);
        tci_buf_append_str(&b, TC_STR("}\n"));
        tc_err ignored; /* the first error is the one to tell, and standard error has it */
        int rc = cli_write_stdout(tci_buf_str(&b), &ignored);
        TCI_UNUSED(rc);
        tci_buf_done(&b);
    }
    if (cli_caught() != 0)
        cli_warn(c, "interrupted%s%s", err->code == TC_E_CANCELLED ? "" : ": ",
                 err->code == TC_E_CANCELLED ? "" : err->msg);
    else if (status == CLI_OURS) /* the status says no kind, so the message does */
        cli_warn(c, "%s (%s)", err->msg, tc_code_name(err->code));
    else
        cli_warn(c, "%s", err->msg);
    if (err->hint[0] != '\0')
        cli_warn(c, "%s", err->hint);
    if (c->result != NULL)
        say_outcome(c);
    return status;
}

int cli_fail(cli *c)
{
    return fail(c, c->is_json);
}

int cli_fail_said(cli *c)
{
    return fail(c, false);
}

int cli_blame(cli *c, const char *doing, const char *typed, const char *exists)
{
    const struct {
        tc_code code;
        const char *words;
    } plain[] = {{TC_E_NOT_FOUND, "it, or the folder it belongs in, is not there"},
                 {TC_E_CONFLICT, exists != NULL ? exists : "it exists already"},
                 {TC_E_DENIED, "access is denied, or what is there is of another kind"}};
    tc_err *err = &c->err;
    const char *words = NULL;
    if (err->code == TC_E_NOT_FOUND && !cli_has(c, "on") && cli_is_scp_form(tci_str(typed)))
        (void)tc_err_hint(err, "on a machine behind ssh: ssh:%s", typed);
    for (size_t i = 0; i < TCI_ARRAY_LEN(plain); i++)
        if (err->code == plain[i].code && tci_str_starts(tci_str(err->msg), TC_STR("file.")))
            words = plain[i].words;
    if (words == NULL)
        return tc_err_wrap(err, "cannot %s '%s'", doing, typed);
    char hint[TC_ERR_HINT_MAX];
    (void)snprintf(hint, sizeof hint, "%s", err->hint);
    tc_err_set(err, err->code, "cannot %s '%s': %s", doing, typed, words);
    return tc_err_hint(err, "%s", hint);
}

int cli_usage(cli *c, const char *fmt, ...)
{
    char text[TC_ERR_MSG_MAX];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    (void)tc_err_set(&c->err, TC_E_INVALID, "%s", text);
    if (c->command != NULL) {
        tci_buf usage;
        tci_buf_init(&usage, TCI_BUF_MAX);
        cli_put_usage(&usage, c->command);
        (void)tc_err_hint(&c->err, "usage: %.*s", (int)usage.len, usage.ptr);
        tci_buf_done(&usage);
    } else {
        (void)tc_err_hint(&c->err, "see 'telechir --help'");
    }
    (void)cli_fail(c);
    return CLI_USAGE;
}

void cli_put_name(tci_buf *b, tc_str name)
{
    tci_plain_put(b, name, TCI_PLAIN_LINE);
}

void cli_put_text(tci_buf *b, tc_str text)
{
    tci_plain_put(b, text, tci_fd_is_terminal(FD_OUT) ? TCI_PLAIN_TEXT : TCI_PLAIN_UTF8);
}

tc_str cli_plain(tci_arena *a, tc_str text)
{
    tci_buf b;
    tc_str line;
    tc_err ignored;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_plain_put(&b, text, TCI_PLAIN_LINE);
    int rc = tci_buf_error(&b, &ignored);
    if (rc == 0)
        rc = tci_arena_dup(a, tci_buf_str(&b), &line, &ignored);
    tci_buf_done(&b);
    return rc < 0 ? TC_STR("?") : line;
}
