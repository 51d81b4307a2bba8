/* SPDX-License-Identifier: Apache-2.0
 *
 * Starting a daemon on another machine: one ssh that finds it there and becomes it; only when it is
 * not there (or not whole), a second one that brings it and becomes it. Leaves the script and its
 * words to ssh_boot.c, what flows afterwards to the connection. The thread of a launch, one at a
 * time. Invariant: a child is handed over only after the script said it starts a daemon whose hash
 * it found right. */
#include "env/ssh/ssh_int.h"

#include "plat/clock.h"

#include <stdio.h>

enum { OUT_MAX = 256 * 1024, TRIES_MAX = 24, FOLDERS_MAX = 8 };

/* ---- a launcher ---- */

typedef struct launcher {
    tci_arena arena;
    tci_ssh_to to;
    tc_str daemon, folder, name;
    bool login_shell;
    int64_t start_ms;
    tc_ssh_log log;
    void *log_user;
} launcher;

static void launcher_free(void *user)
{
    launcher *l = user;
    tci_runtime_release(l->to.rt);
    tci_arena_done(&l->arena);
    tci_free(l);
}

/* One start, all its connections. */
typedef struct start {
    launcher *l;
    tc_ctx *ctx;
    tc_str token;
    tci_arena arena;
    tci_ssh_daemons daemons;
    unsigned skip;
    tc_str tried; /* of connections before the current one */
    tci_ssh_child child;
    tci_ssh_answer answer;
    tci_buf script;
} start;

static void say(const launcher *l, const char *fmt, ...) TC_PRINTF(2, 3);
static void say(const launcher *l, const char *fmt, ...)
{
    if (l->log == NULL)
        return;
    va_list args;
    tc_str text = {0};
    char buf[TC_ERR_MSG_MAX];
    va_start(args, fmt);
    int n = vsnprintf(buf, sizeof buf, fmt, args);
    va_end(args);
    text = tci_str_of(buf, n < 0 ? 0 : tci_min_size((size_t)n, sizeof buf - 1));
    l->log(l->log_user, text);
}

/* ---- what went wrong ---- */

static int fail_silent(start *s, tc_code code, const char *what, tc_err *err)
{
    char shown[160];
    tc_str sample =
        tci_ssh_printable(tci_str_of(s->answer.sample, s->answer.sample_len), shown, sizeof shown);
    if (sample.len > 0)
        tc_err_set(err, code, "%.*s: %s; it printed: %.*s", TC_STR_ARG(s->l->name), what,
                   TC_STR_ARG(sample));
    else
        tc_err_set(err, code, "%.*s: %s and printed nothing", TC_STR_ARG(s->l->name), what);
    return tc_err_hint(err, "a forced command, or a login file there (~/.bashrc, ~/.zshenv, "
                            "~/.cshrc, ~/.config/fish/config.fish) that waits for input, starts "
                            "tmux or ends the shell");
}

static bool says_windows(tc_str text)
{
    return tci_str_find(text, TC_STR("is not recognized as")) < text.len ||
           tci_str_find(text, TC_STR("CommandNotFoundException")) < text.len;
}

static int fail_timeout(start *s, int64_t limit_ms, tc_err *err)
{
    char what[64] = "no answer in time";
    tc_err ignored;
    if (tci_ctx_check(s->ctx, &ignored) == 0) {
        int n = snprintf(what, sizeof what, "no answer within %lld s",
                         (long long)(limit_ms + 999) / 1000);
        TCI_UNUSED(n); /* fits */
    }
    return fail_silent(s, TC_E_TIMEOUT, what, err);
}

/* ssh is gone and the script never ended as it should. */
static int fail_ended(start *s, tc_err *err)
{
    const tci_ssh_child *c = &s->child;
    bool is_ssh = c->exit.is_signal || c->exit.code == 255;
    if (says_windows(tci_buf_str(&c->complaints)) ||
        says_windows(tci_str_of(s->answer.sample, s->answer.sample_len))) {
        tc_err_set(err, TC_E_UNSUPPORTED, "%.*s seems to run Windows", TC_STR_ARG(s->l->name));
        return tc_err_hint(err, "%s", tci_ssh_system_of(TC_STR("Windows"), (tc_str){0})->hint);
    }
    if (is_ssh && !s->answer.is_booted) {
        int rc = tci_ssh_explain(&s->l->to, c, err);
        if (rc == TC_E_UNTRUSTED)
            tci_ssh_add_keys(&s->l->to, s->ctx, err);
        return rc;
    }
    if (is_ssh) {
        int rc = tci_ssh_explain(&s->l->to, c, err);
        return rc == TC_E_UNTRUSTED ? tc_err_recode(err, TC_E_CONNECT) : rc;
    }
    char what[192], words[120];
    tc_str last = tci_ssh_last_words(tci_buf_str(&c->complaints), words, sizeof words);
    int n = snprintf(what, sizeof what, "the login ended with status %d%s%.*s%s", c->exit.code,
                     last.len > 0 ? " (" : "", TC_STR_ARG(last), last.len > 0 ? ")" : "");
    TCI_UNUSED(n); /* cut when too long */
    return fail_silent(s, TC_E_PROTOCOL, what, err);
}

static int fail_system(start *s, tc_err *err)
{
    const tci_ssh_answer *a = &s->answer;
    const tci_ssh_system *system = tci_ssh_system_of(a->system, a->flavour);
    if (system->hint != NULL) {
        tc_err_set(err, TC_E_UNSUPPORTED, "%.*s runs %.*s (%.*s)", TC_STR_ARG(s->l->name),
                   TC_STR_ARG(a->system), TC_STR_ARG(a->machine));
        return tc_err_hint(err, "%s", system->hint);
    }
    tc_str arch = tci_ssh_arch_of(a->machine);
    if (arch.len == 0) {
        tc_err_set(err, TC_E_UNSUPPORTED, "%.*s is of an architecture without a daemon: %.*s",
                   TC_STR_ARG(s->l->name), TC_STR_ARG(a->machine));
        return tc_err_hint(err, "x86_64 and arm64 have one");
    }
    tc_err_set(err, TC_E_NOT_FOUND, "no daemon for %s-%.*s, which %.*s is", system->platform,
               TC_STR_ARG(arch), TC_STR_ARG(s->l->name));
    return tc_err_hint(err, "name one for that machine, or the folder of all of them "
                            "(--executable, TELECHIR_DAEMONS)");
}

/* The script ended with a word. 1: try again elsewhere. */
static int fail_word(start *s, tc_err *err)
{
    const tci_ssh_answer *a = &s->answer;
    char shown[200];
    tc_str text = tci_ssh_printable(a->text, shown, sizeof shown);
    const launcher *l = s->l;
    if (tci_str_eq(a->word, TC_STR("nodaemon")))
        return fail_system(s, err);
    if (tci_str_eq(a->word, TC_STR("nohash"))) {
        tc_err_set(err, TC_E_UNSUPPORTED,
                   "%.*s has no sha256sum, shasum or openssl to verify the daemon with",
                   TC_STR_ARG(l->name));
        return tc_err_hint(err, "install one of them there");
    }
    if (tci_str_eq(a->word, TC_STR("corrupt")))
        return tc_err_set(err, TC_E_INTEGRITY,
                          "the daemon that arrived at %.*s is not the one that was sent",
                          TC_STR_ARG(l->name));
    if (tci_str_eq(a->word, TC_STR("norun"))) {
        tc_err_set(err, TC_E_START_FAILED, "the daemon does not run at %.*s: %.*s",
                   TC_STR_ARG(l->name), TC_STR_ARG(text));
        return tc_err_hint(err, "it has to be for that system, and linked statically unless its "
                                "libraries are there");
    }
    if (tci_str_eq(a->word, TC_STR("write")))
        return 1;
    tc_err_set(err, TC_E_DENIED, "no folder at %.*s takes the daemon: %.*s", TC_STR_ARG(l->name),
               TC_STR_ARG(a->tried));
    return tc_err_hint(err,
                       "make room, or name a folder there that is writable, not mounted noexec "
                       "and nobody else's");
}

/* ---- one connection ---- */

static int open_ssh(start *s, const tci_ssh_script *script, tc_err *err)
{
    tci_buf_clear(&s->script);
    int rc = tci_ssh_script_put(script, &s->script, err);
    if (rc == 0)
        rc = tci_ssh_answer_init(&s->answer, s->token, &s->arena, err);
    s->answer.tried = s->tried;
    s->child = (tci_ssh_child){.log = s->l->log, .log_user = s->l->log_user};
    tci_ssh_want want = {.command = tci_buf_str(&s->script)};
    return rc < 0 ? rc : tci_ssh_start(&s->l->to, &want, OUT_MAX, &s->child, err);
}

/* Until the script says something to act on, or ssh ends without. */
static int await(start *s, int64_t limit_ms, tc_err *err)
{
    int64_t deadline_ns = tci_clock_mono_ns() + tci_ms_to_ns((uint64_t)limit_ms);
    for (;;) {
        int rc = tci_ssh_answer_feed(&s->answer, &s->child.out, s->l->log, s->l->log_user, err);
        if (rc == TC_E_PROTOCOL)
            return fail_silent(s, rc, "the login prints without end", err);
        if (rc < 0 || s->answer.kind != TCI_SSH_ANSWER_NONE)
            return rc;
        if (s->child.is_over) {
            /* What has no newline at its end belongs to the sample, too. */
            tci_buf_append_byte(&s->child.out, '\n');
            rc = tci_ssh_answer_feed(&s->answer, &s->child.out, s->l->log, s->l->log_user, err);
            return rc < 0 ? rc : fail_ended(s, err);
        }
        rc = tci_ssh_pump(&s->child, s->ctx, deadline_ns, err);
        if (rc == TC_E_TIMEOUT && !s->answer.is_booted)
            return fail_timeout(s, limit_ms, err);
        if (rc == TC_E_TIMEOUT)
            tc_err_wrap(err, "connecting to %.*s", TC_STR_ARG(s->l->name));
        if (rc < 0)
            return rc;
    }
}

/* An ssh that does not know one of our rules is run again without it. */
static int connect(start *s, const tci_ssh_script *script, tc_err *err)
{
    for (int i = 0;; i++) {
        int rc = open_ssh(s, script, err);
        if (rc < 0)
            return rc;
        rc = await(s, s->l->start_ms, err);
        bool is_news = tci_ssh_learn(&s->l->to, tci_buf_str(&s->child.complaints));
        if (rc == 0 || !is_news || s->answer.is_booted || i == TRIES_MAX)
            return rc;
        tci_ssh_end(&s->child);
    }
}

static void warn(const start *s)
{
    const tci_ssh_answer *a = &s->answer;
    if (a->warning.len > 0)
        say(s->l, "%.*s: %.*s\n", TC_STR_ARG(s->l->name), TC_STR_ARG(a->warning));
}

/* ---- bringing it ---- */

static const tci_ssh_daemon *choose(const start *s)
{
    tc_str arch = tci_ssh_arch_of(s->answer.machine);
    const tci_ssh_daemon *any = NULL;
    for (size_t i = 0; i < s->daemons.count; i++) {
        const tci_ssh_daemon *d = &s->daemons.items[i];
        if (d->platform.len == 0)
            any = d;
        else if (tci_str_eq(d->platform, TC_STR("linux")) && tci_str_eq(d->arch, arch))
            return d;
    }
    return any;
}

/* The script said that it failed, and ends; let it clear up, which is a matter of milliseconds. */
static void let_end(start *s)
{
    enum { CLEAR_UP_MS = 2000 };
    tc_err ignored;
    int rc = tci_ssh_finish(&s->child, s->ctx, tci_clock_mono_ns() + tci_ms_to_ns(CLEAR_UP_MS),
                            &ignored);
    TCI_UNUSED(rc); /* then it clears up without us */
}

/* 1: the folder did not take it, others may. */
static int upload(start *s, const tci_ssh_daemon *daemon, tc_str bytes, tc_err *err)
{
    tci_ssh_script script = {.token = s->token,
                             .daemons = &s->daemons,
                             .daemon = daemon,
                             .folder = s->l->folder,
                             .skip = s->skip,
                             .is_deploy = true,
                             .login_shell = s->l->login_shell};
    int rc = connect(s, &script, err);
    if (rc < 0)
        return rc;
    if (s->answer.kind == TCI_SSH_ANSWER_SEND) {
        say(s->l, "%.*s: sending the daemon (%llu bytes) to %.*s\n", TC_STR_ARG(s->l->name),
            (unsigned long long)bytes.len, TC_STR_ARG(s->answer.folder));
        int64_t deadline_ns = tci_clock_mono_ns() + tci_ms_to_ns(TCI_SSH_UPLOAD_MS);
        rc = tci_ssh_write(&s->child, s->ctx, deadline_ns, bytes, err);
        s->answer.kind = TCI_SSH_ANSWER_NONE;
        if (rc == 0 || rc == TC_E_CLOSED || rc == TC_E_IO) /* then it says why */
            rc = await(s, TCI_SSH_UPLOAD_MS, err);
        if (rc < 0)
            return rc;
    }
    if (s->answer.kind == TCI_SSH_ANSWER_FAILED) {
        let_end(s);
        return fail_word(s, err);
    }
    return s->answer.kind == TCI_SSH_ANSWER_RUN
               ? 0
               : tc_err_set(err, TC_E_PROTOCOL, "%.*s answers out of turn", TC_STR_ARG(s->l->name));
}

static int note_failed_write(start *s, tc_str folder, tc_err *err)
{
    char shown[120];
    tc_str text = tci_ssh_printable(s->answer.text, shown, sizeof shown);
    s->skip |= 1u << s->answer.index;
    return tci_arena_printf(&s->arena, &s->tried, err, "%.*s%s%.*s: %.*s",
                            TC_STR_ARG(s->answer.tried), s->answer.tried.len > 0 ? "; " : "",
                            TC_STR_ARG(folder), TC_STR_ARG(text));
}

static int deploy(start *s, tc_err *err)
{
    const tci_ssh_daemon *daemon = choose(s);
    if (daemon == NULL)
        return fail_system(s, err);
    char *bytes = NULL;
    size_t len = 0;
    int rc = tci_ssh_daemon_read(daemon, &bytes, &len, err);
    if (rc < 0)
        return rc;
    rc = 1;
    for (int i = 0; i < FOLDERS_MAX && rc == 1; i++) {
        tci_ssh_end(&s->child);
        rc = upload(s, daemon, tci_str_of(bytes, len), err);
        if (rc == 1 && note_failed_write(s, s->answer.folder, err) < 0)
            rc = err->code;
    }
    tci_free(bytes);
    if (rc == 1)
        rc = tc_err_set(err, TC_E_DENIED, "no folder at %.*s takes the daemon: %.*s",
                        TC_STR_ARG(s->l->name), TC_STR_ARG(s->tried));
    return rc;
}

/* ---- a start ---- */

static int hand_over(start *s, tci_pi_child *ret_child, tc_err *err)
{
    tci_ssh_child *c = &s->child;
    tci_pi_child out = TCI_PI_CHILD_NONE;
    if (c->is_over)
        return fail_ended(s, err);
    if (c->out.len > 0) {
        out.early = tci_mem_alloc(c->out.len);
        if (out.early == NULL)
            return tci_err_no_memory(err);
        memcpy(out.early, c->out.ptr, c->out.len);
        out.early_len = c->out.len;
    }
    out.child = c->child;
    out.in_fd = c->in_fd;
    out.out_fd = c->out_fd;
    out.err_fd = c->err_fd;
    c->child = TCI_CHILD_NONE;
    c->in_fd = c->out_fd = c->err_fd = -1;
    *ret_child = out;
    return 0;
}

static int start_it(start *s, tci_pi_child *ret_child, tc_err *err)
{
    tci_ssh_script script = {.token = s->token,
                             .daemons = &s->daemons,
                             .folder = s->l->folder,
                             .login_shell = s->l->login_shell};
    int rc = tci_ssh_daemons_find(s->l->to.rt, s->l->daemon, &s->arena, &s->daemons, err);
    if (rc < 0)
        return rc;
    tci_ssh_choose_ciphers(&s->l->to, s->ctx, &s->arena);
    rc = connect(s, &script, err);
    if (rc < 0)
        return rc;
    warn(s);
    if (s->answer.kind == TCI_SSH_ANSWER_FAILED)
        return fail_word(s, err);
    if (s->answer.kind == TCI_SSH_ANSWER_NEED)
        rc = deploy(s, err);
    return rc < 0 ? rc : hand_over(s, ret_child, err);
}

static int launch(void *user, tc_ctx *ctx, tc_str token, tci_pi_child *ret_child, tc_err *err)
{
    start s = {.l = user, .ctx = ctx, .token = token};
    tci_arena_init(&s.arena, 0);
    tci_buf_init(&s.script, TCI_BUF_MAX);
    int rc = start_it(&s, ret_child, err);
    s.l->to.ciphers = (tc_str){0}; /* it is in the arena */
    tci_ssh_end(&s.child);
    tci_buf_done(&s.script);
    tci_arena_done(&s.arena);
    return rc;
}

void tci_ssh_on_log(void *user, tci_pi_log_kind kind, const void *bytes, size_t len)
{
    const launcher *l = user;
    TCI_UNUSED(kind);
    if (l->log != NULL)
        l->log(l->log_user, tci_str_of(bytes, len));
}

/* ---- making one ---- */

static int fill(launcher *l, tc_runtime *rt, const tc_ssh_options *o, tc_err *err)
{
    int rc = tci_ssh_to_make(rt, &o->target, &l->arena, &l->to, err);
    if (rc < 0)
        return rc;
    l->to.rt = tci_runtime_retain(rt);
    l->login_shell = o->login_shell;
    l->log = o->log;
    l->log_user = o->log_user;
    rc = tci_ssh_to_name(&l->to, &l->arena, &l->name, err);
    if (rc == 0 && o->daemon.len > 0)
        rc = tci_arena_dup(&l->arena, o->daemon, &l->daemon, err);
    if (rc == 0 && o->folder.len > 0)
        rc = tci_ssh_folder_check(o->folder, err);
    if (rc == 0 && o->folder.len > 0)
        rc = tci_arena_dup(&l->arena, o->folder, &l->folder, err);
    return rc;
}

int tci_ssh_launcher_new(tc_runtime *rt, const tc_ssh_options *options, int64_t start_ms,
                         tci_pi_launcher *ret_launcher, tc_err *err)
{
    launcher *l = tci_new(launcher);
    if (l == NULL)
        return tci_err_no_memory(err);
    tci_arena_init(&l->arena, 0);
    l->start_ms = start_ms > 0 ? start_ms : TCI_SSH_START_MS;
    int rc = fill(l, rt, options, err);
    if (rc < 0) {
        launcher_free(l);
        return rc;
    }
    *ret_launcher = (tci_pi_launcher){.launch = launch, .free = launcher_free, .user = l};
    return 0;
}
