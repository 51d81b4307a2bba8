/* SPDX-License-Identifier: Apache-2.0
 *
 * What ssh's complaints mean: a code, a sentence and what to do. Any thread. Invariant: a host that
 * is not trusted is never reported as anything else, and what ssh said is always shown. */
#include "env/ssh/ssh_int.h"

#include "base/utf8.h"

enum { WORDS_MAX = 200 };

/* ---- text fit to be shown ---- */

static size_t put(char *buf, size_t max, size_t at, tc_str s)
{
    if (at + s.len > max)
        return at;
    memcpy(buf + at, s.ptr, s.len);
    return at + s.len;
}

/* Length of an escape sequence (ECMA-48) at the front of s, 0 for none. */
static size_t escape_len(tc_str s)
{
    if (s.len < 2 || s.ptr[0] != 0x1b)
        return 0;
    size_t i = 2;
    if (s.ptr[1] == '[')
        while (i < s.len && !(s.ptr[i] >= 0x40 && s.ptr[i] <= 0x7e))
            i++;
    else if (s.ptr[1] == ']')
        while (i < s.len && s.ptr[i] != 0x07 && s.ptr[i] != 0x1b)
            i++;
    else
        return 2;
    return i < s.len ? i + 1 : s.len;
}

tc_str tci_ssh_printable(tc_str text, char *buf, size_t max)
{
    size_t at = 0;
    bool is_line_start = true;
    for (size_t i = 0; i < text.len;) {
        tc_str rest = tci_str_sub(text, i, SIZE_MAX);
        size_t len = escape_len(rest);
        if (len > 0 || rest.ptr[0] == '\r') {
            i += len > 0 ? len : 1;
            continue;
        }
        if (rest.ptr[0] == '\n') {
            i++;
            is_line_start = true;
            continue;
        }
        int32_t c = tci_utf8_decode(rest, &len);
        bool is_bad = c < 0x20 || c == 0x7f || (c >= 0x80 && c < 0xa0);
        tc_str piece = is_bad ? TC_STR(".") : tci_str_sub(rest, 0, len);
        if (is_line_start && at > 0)
            at = put(buf, max, at, TC_STR(" | "));
        is_line_start = false;
        size_t was = at;
        at = put(buf, max, at, piece);
        if (at == was)
            break; /* full */
        i += is_bad && c < 0 ? 1 : len;
    }
    return tci_str_of(buf, at);
}

static tc_str last_line(tc_str *text)
{
    size_t at = tci_str_rfind_byte(*text, '\n');
    tc_str line = at < text->len ? tci_str_sub(*text, at + 1, SIZE_MAX) : *text;
    *text = at < text->len ? tci_str_sub(*text, 0, at) : (tc_str){0};
    return line;
}

static bool is_blank(tc_str line)
{
    for (size_t i = 0; i < line.len; i++)
        if (line.ptr[i] != ' ' && line.ptr[i] != '\t' && line.ptr[i] != '\r')
            return false;
    return true;
}

tc_str tci_ssh_last_words(tc_str complaints, char *buf, size_t max)
{
    tc_str rest = complaints, from = {0};
    int nlines = 0;
    while (rest.len > 0 && nlines < 2) {
        tc_str line = last_line(&rest);
        if (is_blank(line))
            continue;
        if (nlines > 0 && (size_t)(complaints.ptr + complaints.len - line.ptr) > max)
            break;
        from = line;
        nlines++;
    }
    if (nlines == 0)
        return (tc_str){0};
    return tci_ssh_printable(
        tci_str_of(from.ptr, (size_t)(complaints.ptr + complaints.len - from.ptr)), buf, max);
}

/* ---- what it means ---- */

typedef struct meaning {
    const char *words;
    tc_code code;
    const char *what, *hint; /* what: after the target's name */
} meaning;

static const meaning meanings[] = {
    {"Too many authentication failures", TC_E_AUTH, "too many keys were offered",
     "name the one key to offer (--identity FILE)"},
    {"Permission denied (", TC_E_AUTH, "the login was refused",
     "check the user, and that a key of the agent or --identity FILE is accepted there; a key with "
     "a passphrase has to be in the agent"},
    {"Could not resolve hostname", TC_E_CONNECT, "there is no host of that name",
     "check the name, or the Host entries of the ssh configuration"},
    {"Connection refused", TC_E_CONNECT, "nothing listens there",
     "check the port, and that an ssh server runs on that machine"},
    {"Connection timed out", TC_E_CONNECT, "nobody answered in time",
     "check the address, and firewalls on the way"},
    {"Operation timed out", TC_E_CONNECT, "nobody answered in time",
     "check the address, and firewalls on the way"},
    {"banner exchange", TC_E_CONNECT, "what answered is no ssh server, or a busy one",
     "check the port"},
    {"No route to host", TC_E_CONNECT, "there is no way to that machine",
     "check the address and the network"},
    {"Network is unreachable", TC_E_CONNECT, "there is no way to that machine",
     "check the address and the network"},
    {"Unable to negotiate", TC_E_CONNECT, "no method that both sides know",
     "one of the two ssh programs is too old for the other"},
    {"Bad configuration option", TC_E_INVALID, "ssh does not take its configuration",
     "correct the file and line it names"},
    {"terminating, ", TC_E_INVALID, "ssh does not take its configuration",
     "correct the file and line it names"},
    {"Can't open user config file", TC_E_INVALID, "ssh cannot read its configuration file",
     "check the file it names"},
    {"Bad owner or permissions on", TC_E_INVALID, "ssh does not take its configuration",
     "correct the owner or mode of the file it names"},
    {"Timeout, server", TC_E_CONNECT, "the server stopped answering", "try again"},
};

static bool has(tc_str text, tc_str words)
{
    return tci_str_find(text, words) < text.len;
}

/* "<before><alias><after>": the target's own key, not that of a host on the way. */
static bool is_about_alias(const tci_ssh_to *to, tc_str text, const char *before, const char *after)
{
    char line[512];
    tc_err err;
    tci_buf words;
    tci_buf_init(&words, sizeof line);
    tci_buf_printf(&words, "%s%.*s%s", before, TC_STR_ARG(to->target.host_key_alias), after);
    bool found = tci_buf_error(&words, &err) == 0 && has(text, tci_buf_str(&words));
    tci_buf_done(&words);
    return found;
}

/* 0: keys are not the trouble. */
static int explain_keys(const tci_ssh_to *to, tc_str text, const char *name, tc_err *err)
{
    if (is_about_alias(to, text, "Host key for ", " has changed")) {
        tc_err_set(err, TC_E_INTEGRITY, "the host key of %s has changed", name);
        tc_err_hint(err, "find out why, then forget the old key and accept the new one");
        return tc_err_recode(err, TC_E_UNTRUSTED);
    }
    if (is_about_alias(to, text, "host key is known for ", " and")) {
        tc_err_set(err, TC_E_UNTRUSTED, "the host key of %s is not trusted yet", name);
        return tc_err_hint(err, "compare its fingerprint, then accept it");
    }
    if (has(text, TC_STR("Host key verification failed")) ||
        has(text, TC_STR("REMOTE HOST IDENTIFICATION HAS CHANGED"))) {
        tc_err_set(err, TC_E_UNTRUSTED, "the key of a host on the way to %s is not trusted", name);
        return tc_err_hint(err, "jump hosts are checked against your own known_hosts: log in to it "
                                "once with ssh");
    }
    return 0;
}

int tci_ssh_explain(const tci_ssh_to *to, const tci_ssh_child *c, tc_err *err)
{
    char words_buf[WORDS_MAX], name[WORDS_MAX];
    tc_str text = tci_buf_str(&c->complaints), full = {0};
    tci_arena a;
    tci_arena_init(&a, 0);
    tc_err name_err;
    if (tci_ssh_to_name(to, &a, &full, &name_err) < 0)
        full = to->target.host;
    if (tci_cstr(tci_str_sub(full, 0, sizeof name - 1), name, sizeof name, &name_err) < 0)
        name[0] = '\0';
    tci_arena_done(&a);
    tc_str words = tci_ssh_last_words(text, words_buf, sizeof words_buf);
    if (tci_str_starts(words, TC_STR("ssh: ")))
        words = tci_str_sub(words, sizeof "ssh: " - 1, SIZE_MAX);
    int rc = explain_keys(to, text, name, err);
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < TCI_ARRAY_LEN(meanings); i++) {
        const meaning *m = &meanings[i];
        if (!has(text, tci_str(m->words)))
            continue;
        tc_err_set(err, m->code, "cannot connect to %s: %s (ssh: %.*s)", name, m->what,
                   TC_STR_ARG(words));
        return tc_err_hint(err, "%s", m->hint);
    }
    if (c->exit.is_signal)
        return tc_err_set(err, TC_E_CONNECT, "ssh to %s was ended by signal %d: %.*s", name,
                          c->exit.signum, TC_STR_ARG(words));
    return tc_err_set(err, TC_E_CONNECT, "ssh to %s ended with status %d: %.*s", name, c->exit.code,
                      TC_STR_ARG(words.len > 0 ? words : TC_STR("it said nothing")));
}

/* ---- fingerprints ---- */

static void put_fingerprints(const tc_ssh_keys *keys, const char *type, char *buf, size_t max)
{
    size_t at = 0;
    for (size_t i = 0; i < keys->count; i++) {
        if (type != NULL && !tci_str_eq(keys->items[i].type, tci_str(type)))
            continue;
        if (at > 0)
            at = put(buf, max - 1, at, TC_STR(" "));
        at = put(buf, max - 1, at, keys->items[i].fingerprint);
    }
    buf[at] = '\0';
}

void tci_ssh_add_keys(tci_ssh_to *to, tc_ctx *ctx, tc_err *err)
{
    tci_arena a;
    tci_arena_init(&a, 0);
    tc_ssh_keys offered = {0}, trusted = {0};
    tc_err ignored;
    char now[TC_ERR_HINT_MAX], before[TC_ERR_HINT_MAX] = "";
    bool is_changed = err->cause == TC_E_INTEGRITY;
    if (tci_ssh_scan_keys(to, ctx, &a, &offered, &ignored) == 0 && offered.count > 0) {
        put_fingerprints(&offered, NULL, now, sizeof now);
        if (!is_changed) {
            tc_err_hint(err, "it shows %s; compare, then accept it", now);
        } else if (tci_ssh_keys_load(to->target.known_hosts_file, to->target.host_key_alias, &a,
                                     &trusted, &ignored) == 0) {
            /* The one of the same type, if there is one. */
            char type[64] = "";
            if (tci_cstr(offered.items[0].type, type, sizeof type, &ignored) == 0)
                put_fingerprints(&trusted, type, before, sizeof before);
            if (before[0] == '\0')
                put_fingerprints(&trusted, NULL, before, sizeof before);
            tc_err_hint(err, "trusted %s, shown %s; find out why, then forget the old one", before,
                        now);
        }
    }
    tci_arena_done(&a);
}
