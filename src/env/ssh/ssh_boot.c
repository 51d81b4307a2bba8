/* SPDX-License-Identifier: Apache-2.0
 *
 * What runs on the other side before the daemon does: a script for its sh, and reading what it
 * answers. Leaves sending and judging to ssh_launch.c. Any thread.
 *
 * The script is one argument that the account's login shell has to hand to sh untouched, be it a
 * POSIX shell, csh or fish. All of them read '...' alike as long as there is no newline, no '!' (csh)
 * and no backslash before a quote or another backslash (fish) in it; a single quote is '"'"' to all.
 *
 * Invariant: it starts nothing but a file whose SHA-256 was just found right, in a folder that is
 * ours alone; every line it says begins with a word only this connection knows. */
#include "env/ssh/ssh_int.h"

#include "base/num.h"

/* ---- kinds of machines ---- */

#define SH_PROBE "uname -sm; uname -o"
#define WINDOWS_PROBE "powershell -NoProfile -NonInteractive -EncodedCommand <base64 of UTF-16LE>"

static const tci_ssh_system systems[] = {
    {TCI_SSH_ANDROID, "Linux", "Android", "android", SH_PROBE, "$HOME/.cache/telechir",
     "there is no daemon for Android (Termux) yet; a Linux machine will do"},
    {TCI_SSH_LINUX, "Linux", "", "linux", SH_PROBE, "$HOME/.cache/telechir", NULL},
    {TCI_SSH_MACOS, "Darwin", "", "macos", SH_PROBE, "$HOME/Library/Caches/telechir",
     "there is no daemon for macOS yet; a Linux machine will do"},
    {TCI_SSH_WINDOWS, "MINGW", "", "windows", WINDOWS_PROBE, "%LOCALAPPDATA%\\telechir",
     "there is no daemon for Windows yet; log in to WSL or a Linux machine instead"},
    {TCI_SSH_WINDOWS, "MSYS", "", "windows", WINDOWS_PROBE, "%LOCALAPPDATA%\\telechir",
     "there is no daemon for Windows yet; log in to WSL or a Linux machine instead"},
    {TCI_SSH_WINDOWS, "CYGWIN", "", "windows", WINDOWS_PROBE, "%LOCALAPPDATA%\\telechir",
     "there is no daemon for Windows yet; log in to WSL or a Linux machine instead"},
    {TCI_SSH_WINDOWS, "Windows", "", "windows", WINDOWS_PROBE, "%LOCALAPPDATA%\\telechir",
     "there is no daemon for Windows yet; log in to WSL or a Linux machine instead"},
    {TCI_SSH_OTHER, "", "", "", SH_PROBE, "$HOME/.cache/telechir",
     "there is a daemon for Linux only"},
};

const tci_ssh_system *tci_ssh_system_of(tc_str system, tc_str flavour)
{
    size_t i = 0;
    while (i + 1 < TCI_ARRAY_LEN(systems) &&
           !(tci_str_starts(system, tci_str(systems[i].system)) &&
             tci_str_starts(flavour, tci_str(systems[i].flavour))))
        i++;
    return &systems[i];
}

static const struct {
    const char *machine, *arch;
} machines[] = {{"x86_64", "x86_64"},
                {"amd64", "x86_64"},
                {"x64", "x86_64"},
                {"aarch64", "arm64"},
                {"arm64", "arm64"}};

tc_str tci_ssh_arch_of(tc_str machine)
{
    for (size_t i = 0; i < TCI_ARRAY_LEN(machines); i++)
        if (tci_str_eq_nocase(machine, tci_str(machines[i].machine)))
            return tci_str(machines[i].arch);
    return (tc_str){0};
}

int tci_ssh_folder_check(tc_str folder, tc_err *err)
{
    bool is_fine = folder.len > 0 && folder.ptr[0] == '/';
    for (size_t i = 0; i < folder.len && is_fine; i++)
        is_fine = (unsigned char)folder.ptr[i] > 0x1f && folder.ptr[i] != 0x7f &&
                  strchr("'\"!\\$`", folder.ptr[i]) == NULL;
    if (is_fine)
        return 0;
    tc_err_set(err, TC_E_INVALID, "the folder for the daemon cannot be '%.*s'", TC_STR_ARG(folder));
    return tc_err_hint(err, "an absolute path without quotes, '!', '$', '`' and '\\'");
}

/* ---- the script ---- */

/* p: say a line. h: the SHA-256 of standard input, by whatever there is. o: is it a folder of ours
 * (and no link)? k: and of nobody else? y: can nobody but us and root replace what is in it? */
static const char head[] =
    "p() { printf \"%s\\n\" \"$q$*\"; }; "
    "h() { sha256sum 2>/dev/null || shasum -a 256 2>/dev/null || "
    "openssl dgst -sha256 2>/dev/null; }; "
    "o() { set -- $(ls -ldn \"$1\" 2>/dev/null); case $1/$3 in d*/$u) return 0;; esac; return 1; "
    "}; "
    "k() { set -- $(ls -ldn \"$1\" 2>/dev/null); "
    "case $1/$3 in drwx------*/$u) return 0;; esac; return 1; }; "
    "y() { set -- $(ls -ldn \"$1/.\" 2>/dev/null); case $3 in 0|$u) ;; *) return 1;; esac; "
    "case $1 in d???????"
    "?[tT]*|d????"
    "-?"
    "?-?*) return 0;; esac; return 1; }; "
    "p boot 1; u=$(id -u); o=$(uname -o 2>/dev/null); set -- $(uname -sm); "
    "s=$1; m=$2; p system $s; p machine $m; p flavour $o; p home \"$HOME\"; "
    "case $o in Android) s=Android; "
    "[ \"$TMPDIR\" ] || p warning TMPDIR is not set;; esac; ";

/* The folders, best first: "h:" those in a place of the user's, "t:" those in a place of all. A home
 * that is not there is not made. TELECHIR_TMPDIR stands for the places of all. */
static const char folders[] =
    "h=$HOME; [ -d \"$h\" ] || h=; "
    "set -- \"${XDG_CACHE_HOME:+h:$XDG_CACHE_HOME/telechir}\" \"${h:+h:$h/.cache/telechir}\" "
    "\"${XDG_RUNTIME_DIR:+h:$XDG_RUNTIME_DIR/telechir}\" \"${TMPDIR:+t:$TMPDIR/telechir-$u}\" "
    "\"t:${TELECHIR_TMPDIR:-/var/tmp}/telechir-$u\" \"t:${TELECHIR_TMPDIR:-/tmp}/telechir-$u\"; ";

/* z: start what is at $f for good. */
static const char start_plain[] = "z() { p run \"$f\"; cd \"${HOME:-/}\" 2>/dev/null || cd /; "
                                  "exec \"$f\" serve --token $t; }; ";

/* Login files of shells that can give it back get no standard input: it is the daemon's. */
static const char start_login[] =
    "z() { p run \"$f\"; cd \"${HOME:-/}\" 2>/dev/null || cd /; l=${SHELL:-/bin/sh}; case ${l##*/} "
    "in "
    "fish) exec \"$l\" -lc 'exec $argv' \"$f\" serve --token $t;; "
    "csh|tcsh) exec \"$l\" -c 'if (-r /etc/csh.login) source /etc/csh.login; "
    "if (-r ~/.login) source ~/.login; exec $argv:q' \"$f\" serve --token $t;; "
    "*) exec 3<&0 </dev/null; "
    "exec \"$l\" -lc 'exec \"$0\" \"$@\" <&3 3<&-' \"$f\" serve --token $t;; esac; }; ";

/* One that is there already, private, whole and executable. */
static const char find_it[] =
    "for d do case $d in [ht]:/*) ;; *) continue;; esac; e=$d; d=${d#?:}; f=$d/telechird-$n; "
    "[ -x \"$f\" ] || continue; "
    "case $e in h:*) k \"$d/.\" || continue;; *) k \"$d\" && y \"${d%/*}\" || continue;; esac; "
    "case $(h <\"$f\") in *$w*) z;; esac; done; "
    "case $(h </dev/null) in *e3b0c44298fc1c14*) p need 1;; *) p failed nohash;; esac";

/* Bring it: the first folder where a file can be made and run takes it. r: why not; l: what to say
 * when who failed could not say it, like one that a limit of file sizes ended. */
static const char take_it[] =
    "l() { [ \"$r\" ] || r=\"nothing can be written there (status $1; ulimit -f is $(ulimit "
    "-f))\"; }; "
    "j() { case $e in "
    "t:*) y \"${d%/*}\" || { echo \"others can replace what is in ${d%/*}\"; return 1; }; "
    "if [ -d \"$d\" ]; then :; else mkdir \"$d\" || return 1; fi; g=$d;; "
    "*) mkdir -p \"$d\" || return 1; g=$d/.;; esac; "
    "if o \"$g\"; then chmod 700 \"$g\"; fi; k \"$g\" || { echo \"not a folder of this account "
    "alone\"; return 1; }; "
    "echo : >\"$x\" && chmod 700 \"$x\" && \"$x\"; }; "
    "a=$(umask); umask 077; i=-1; for d do i=$((i+1)); case $d in [ht]:/*) ;; *) continue;; esac; "
    "case $v in *,$i,*) continue;; esac; e=$d; d=${d#?:}; f=$d/telechird-$n; x=$d/.new-$c; "
    "trap 'rm -f \"$x\"' 0; trap 'exit 1' 1 2 13 15; "
    "r=$(j 2>&1) && break; l $?; rm -f \"$x\" 2>/dev/null; p tried \"$d:\" $r; x=; done; "
    "[ \"$x\" ] || { p failed nofolder; exit 1; }; "
    "p send $i \"$d\"; "
    "r=$(head -c $b 2>&1 >\"$x\") || { l $?; p failed write $i $r; exit 1; }; "
    "case $(h <\"$x\") in *$w*) ;; *) p failed corrupt $i; exit 1;; esac; "
    "r=$(\"$x\" --version 2>&1 </dev/null) || { p failed norun $i $r; exit 1; }; "
    "r=$(mv -f \"$x\" \"$f\" 2>&1) || { p failed write $i $r; exit 1; }; "
    "trap - 0 1 2 13 15; "
    "for g in \"$d\"/telechird-*; do if [ \"$g\" = \"$f\" ]; then :; elif [ -f \"$g\" ]; then "
    "( : >>\"$g\" ) 2>/dev/null && rm -f \"$g\"; fi; done; "
    "find \"$d\" -name \".new-*\" -mtime +1 -exec rm -f {} + 2>/dev/null; umask $a; z";

/* '...' for every login shell; see the top. */
static void put_quoted(tci_buf *out, tc_str script)
{
    tci_buf_append_byte(out, '\'');
    for (size_t i = 0; i < script.len; i++) {
        char c = script.ptr[i], next = i + 1 < script.len ? script.ptr[i + 1] : '\0';
        TC_ASSERT(c != '!' && c != '\n' && !(c == '\\' && (next == '\\' || next == '\'')));
        if (c == '\'')
            tci_buf_append_str(out, TC_STR("'\"'\"'"));
        else
            tci_buf_append_byte(out, c);
    }
    tci_buf_append_byte(out, '\'');
}

/* w: the SHA-256 of the daemon for this machine; n: its beginning, the end of the name. */
static void put_case(tci_buf *b, const char *machine, const tci_ssh_daemon *d)
{
    tci_buf_printf(b, "Linux/%s) w=%s n=%.*s;; ", machine, d->sha256, TCI_SSH_NAME_HEX, d->sha256);
}

static void put_choice(const tci_ssh_script *s, tci_buf *b)
{
    const tci_ssh_daemon *any = NULL;
    tci_buf_append_str(b, TC_STR("w=; case $s/$m in "));
    for (size_t i = 0; i < s->daemons->count; i++) {
        const tci_ssh_daemon *d = &s->daemons->items[i];
        if (d->platform.len == 0) {
            any = d;
            continue;
        }
        for (size_t j = 0; j < TCI_ARRAY_LEN(machines); j++)
            if (tci_str_eq(d->arch, tci_str(machines[j].arch)) &&
                tci_str_eq(d->platform, TC_STR("linux")))
                put_case(b, machines[j].machine, d);
    }
    if (any != NULL)
        put_case(b, "*", any);
    tci_buf_append_str(b, TC_STR("esac; [ $w ] || { p failed nodaemon; exit 1; }; "));
}

static void put_body(const tci_ssh_script *s, tci_buf *b)
{
    tci_buf_printf(b, "t=%.*s; c=%.16s; q=\"telechir-$c \"; ", TC_STR_ARG(s->token), s->token.ptr);
    tci_buf_append_str(b, tci_str(head));
    if (s->is_deploy)
        tci_buf_printf(b, "w=%s; n=%.*s; b=%llu; ", s->daemon->sha256, TCI_SSH_NAME_HEX,
                       s->daemon->sha256, (unsigned long long)s->daemon->size);
    else
        put_choice(s, b);
    if (s->folder.len > 0)
        tci_buf_printf(b, "set -- \"h:%.*s\"; ", TC_STR_ARG(s->folder));
    else
        tci_buf_append_str(b, tci_str(folders));
    tci_buf_append_str(b, tci_str(s->login_shell ? start_login : start_plain));
    if (!s->is_deploy) {
        tci_buf_append_str(b, tci_str(find_it));
        return;
    }
    tci_buf_append_str(b, TC_STR("v=,"));
    for (unsigned i = 0; i < 8; i++)
        if ((s->skip >> i & 1) != 0)
            tci_buf_printf(b, "%u,", i);
    tci_buf_append_str(b, TC_STR("; "));
    tci_buf_append_str(b, tci_str(take_it));
}

int tci_ssh_script_put(const tci_ssh_script *s, tci_buf *out, tc_err *err)
{
    tci_buf body;
    tci_buf_init(&body, 64 * 1024);
    TC_ASSERT(s->token.len >= 16);
    put_body(s, &body);
    int rc = tci_buf_error(&body, err);
    if (rc == 0) {
        tci_buf_append_str(out, TC_STR("exec sh -c "));
        put_quoted(out, tci_buf_str(&body));
        rc = tci_buf_error(out, err);
    }
    tci_buf_done(&body);
    return rc;
}

/* ---- what it answers ---- */

int tci_ssh_answer_init(tci_ssh_answer *ans, tc_str token, tci_arena *a, tc_err *err)
{
    *ans = (tci_ssh_answer){.arena = a};
    tc_str prefix;
    int rc = tci_arena_printf(a, &prefix, err, "telechir-%.16s ", token.ptr);
    return rc < 0 ? rc : tci_cstr(prefix, ans->prefix, sizeof ans->prefix, err);
}

static void note_noise(tci_ssh_answer *ans, tc_str bytes, tc_ssh_log log, void *log_user)
{
    size_t n = tci_min_size(bytes.len, TCI_SSH_SAMPLE_MAX - ans->sample_len);
    if (n > 0)
        memcpy(ans->sample + ans->sample_len, bytes.ptr, n);
    ans->sample_len += n;
    ans->noise += bytes.len;
    if (log != NULL && bytes.len > 0)
        log(log_user, bytes);
}

static tc_str next_word(tc_str *rest)
{
    tc_str word = tci_str_sub(*rest, 0, tci_str_find_byte(*rest, ' '));
    *rest = tci_str_sub(*rest, word.len + 1, SIZE_MAX);
    return word;
}

static unsigned index_of(tc_str word)
{
    uint64_t n = 0;
    tc_err err;
    return tci_num_u64(word, &n, &err) == 0 && n < 8 ? (unsigned)n : 0;
}

static int add_tried(tci_ssh_answer *ans, tc_str text, tc_err *err)
{
    if (ans->tried.len == 0)
        return tci_arena_dup(ans->arena, text, &ans->tried, err);
    return tci_arena_printf(ans->arena, &ans->tried, err, "%.*s; %.*s", TC_STR_ARG(ans->tried),
                            TC_STR_ARG(text));
}

static int take_line(tci_ssh_answer *ans, tc_str line, tc_err *err)
{
    tc_str rest = line, key = next_word(&rest);
    const struct {
        const char *key;
        tc_str *value;
    } plain[] = {{"system", &ans->system},
                 {"machine", &ans->machine},
                 {"flavour", &ans->flavour},
                 {"home", &ans->home},
                 {"warning", &ans->warning}};
    for (size_t i = 0; i < TCI_ARRAY_LEN(plain); i++)
        if (tci_str_eq(key, tci_str(plain[i].key)))
            return tci_arena_dup(ans->arena, rest, plain[i].value, err);
    if (tci_str_eq(key, TC_STR("boot"))) {
        ans->is_booted = true;
    } else if (tci_str_eq(key, TC_STR("tried"))) {
        return add_tried(ans, rest, err);
    } else if (tci_str_eq(key, TC_STR("need"))) {
        ans->kind = TCI_SSH_ANSWER_NEED;
    } else if (tci_str_eq(key, TC_STR("run"))) {
        ans->kind = TCI_SSH_ANSWER_RUN;
        return tci_arena_dup(ans->arena, rest, &ans->folder, err);
    } else if (tci_str_eq(key, TC_STR("send"))) {
        ans->kind = TCI_SSH_ANSWER_SEND;
        ans->index = index_of(next_word(&rest));
        return tci_arena_dup(ans->arena, rest, &ans->folder, err);
    } else if (tci_str_eq(key, TC_STR("failed"))) {
        ans->kind = TCI_SSH_ANSWER_FAILED;
        int rc = tci_arena_dup(ans->arena, next_word(&rest), &ans->word, err);
        ans->index = index_of(next_word(&rest));
        return rc < 0 ? rc : tci_arena_dup(ans->arena, rest, &ans->text, err);
    }
    return 0;
}

/* Something else may have been printed right before it, without a newline. */
static size_t find_prefix(const tci_ssh_answer *ans, tc_str line)
{
    tc_str prefix = tci_str(ans->prefix);
    return tci_str_find(line, prefix);
}

int tci_ssh_answer_feed(tci_ssh_answer *ans, tci_buf *out, tc_ssh_log log, void *log_user,
                        tc_err *err)
{
    int rc = 0;
    size_t done = 0;
    while (rc == 0 && ans->kind == TCI_SSH_ANSWER_NONE) {
        tc_str rest = tci_str_sub(tci_buf_str(out), done, SIZE_MAX);
        size_t end = tci_str_find_byte(rest, '\n');
        if (end == rest.len)
            break;
        tc_str line = tci_str_sub(rest, 0, end);
        done += end + 1;
        if (line.len > 0 && line.ptr[line.len - 1] == '\r')
            line.len--;
        size_t at = find_prefix(ans, line);
        note_noise(ans, tci_str_sub(rest, 0, at < line.len ? at : end + 1), log, log_user);
        if (at < line.len)
            rc = take_line(ans, tci_str_sub(line, at + strlen(ans->prefix), SIZE_MAX), err);
    }
    tci_buf_consume(out, done);
    /* A line without end is noise but for what may be the beginning of one of ours. */
    enum { LINE_MAX = 16 * 1024 };
    if (rc == 0 && ans->kind == TCI_SSH_ANSWER_NONE && out->len > LINE_MAX) {
        size_t n = out->len - LINE_MAX / 2;
        note_noise(ans, tci_str_of(out->ptr, n), log, log_user);
        tci_buf_consume(out, n);
    }
    if (rc == 0 && ans->noise > TCI_SSH_NOISE_MAX)
        return tc_err_set(err, TC_E_PROTOCOL, "the login prints without end");
    return rc;
}
