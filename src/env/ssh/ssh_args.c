/* SPDX-License-Identifier: Apache-2.0
 *
 * The arguments and the environment of every ssh we run: our rules first, since ssh takes the
 * first value it meets, so that no configuration can change them. Contacts nothing. Any thread.
 * Invariant: scan, query and real connections differ only in how a key they do not know is met. */
#include "env/ssh/ssh_int.h"

/* A rule, and why. May be left out where ssh does not know it: its configuration cannot then hold the
 * thing either. */
typedef struct rule {
    const char *text;
    bool may_lack;
} rule;

static const rule rules[] = {
    /* Never ask: fail. */
    {"BatchMode=yes", false},
    /* Nothing but our stream. */
    {"ClearAllForwardings=yes", false},
    {"ForwardAgent=no", false},
    {"ForwardX11=no", false},
    {"Tunnel=no", false},
    {"GSSAPIDelegateCredentials=no", true},
    {"AddKeysToAgent=no", true},
    /* A shared connection has a life and options that are not ours, and checks no key. */
    {"ControlMaster=no", false},
    {"ControlPath=none", false},
    /* The configuration may not replace our command, nor run ones here. */
    {"RemoteCommand=none", true},
    {"PermitLocalCommand=no", false},
    /* What would break the stream. */
    {"SessionType=default", true},
    {"StdinNull=no", true},
    {"ForkAfterAuthentication=no", true},
    /* Nothing of this machine's environment goes over; see also tci_ssh_environ. */
    {"SendEnv=-*", true},
    /* A dead link, or one that never comes about, is noticed. */
    {"ConnectTimeout=30", false},
    {"ServerAliveInterval=15", false},
    {"ServerAliveCountMax=3", false},
    /* What ssh complains about can be read. */
    {"LogLevel=INFO", false},
    /* Keys of hosts: from the application's file and nowhere else. */
    {"UpdateHostKeys=no", true},
    {"VerifyHostKeyDNS=no", false},
    {"KnownHostsCommand=none", true},
    {"NoHostAuthenticationForLocalhost=no", false},
    {"CheckHostIP=no", false},
    {"GlobalKnownHostsFile=none", false},
    {"HashKnownHosts=no", false},
};

enum { ARGS_MAX = 2 * (int)TCI_ARRAY_LEN(rules) + 40 };

typedef struct list {
    tci_arena *arena;
    const char **items;
    size_t n;
    int rc;
    tc_err *err;
} list;

static void add(list *l, tc_str text)
{
    char *copy = NULL;
    if (l->rc == 0 && l->n < ARGS_MAX)
        l->rc = tci_arena_cstr(l->arena, text, &copy, l->err);
    if (l->rc == 0)
        l->items[l->n++] = copy;
}

static void add_option(list *l, const char *name, tc_str value)
{
    tc_str text = {0};
    add(l, TC_STR("-o"));
    if (l->rc == 0)
        l->rc = tci_arena_printf(l->arena, &text, l->err, "%s=%.*s", name, TC_STR_ARG(value));
    add(l, text);
}

/* Quoted, since ssh splits at blanks, and with '%' doubled, since it expands tokens. */
static void add_path_option(list *l, const char *name, tc_str path)
{
    tci_buf quoted;
    tci_buf_init(&quoted, TCI_BUF_MAX);
    tci_buf_append_byte(&quoted, '"');
    for (size_t i = 0; i < path.len; i++) {
        if (path.ptr[i] == '%')
            tci_buf_append_byte(&quoted, '%');
        tci_buf_append_byte(&quoted, path.ptr[i]);
    }
    tci_buf_append_byte(&quoted, '"');
    if (l->rc == 0)
        l->rc = tci_buf_error(&quoted, l->err);
    add_option(l, name, tci_buf_str(&quoted));
    tci_buf_done(&quoted);
}

static void add_rules(list *l, const tci_ssh_to *to, const tci_ssh_want *want)
{
    for (size_t i = 0; i < TCI_ARRAY_LEN(rules); i++) {
        if ((to->unknown >> i & 1) != 0)
            continue;
        add(l, TC_STR("-o"));
        add(l, tci_str(rules[i].text));
    }
    add_option(l, "StrictHostKeyChecking", want->is_scan ? TC_STR("accept-new") : TC_STR("yes"));
    add_path_option(l, "UserKnownHostsFile",
                    want->known_hosts.len > 0 ? want->known_hosts : to->target.known_hosts_file);
    add_option(l, "HostKeyAlias", to->target.host_key_alias);
    /* The key comes before the login; a scan needs nothing of the latter. */
    if (want->is_scan)
        add_option(l, "PreferredAuthentications", TC_STR("none"));
    else if (to->ciphers.len > 0 && !want->is_query)
        add_option(l, "Ciphers", to->ciphers);
}

static void add_config(list *l, const tci_ssh_to *to, const tci_ssh_want *want)
{
    tc_str config = want->without_config ? TC_STR("none") : to->target.config_file;
    if (config.len == 0)
        return;
    add(l, TC_STR("-F"));
    add(l, config);
}

static void add_where(list *l, const tci_ssh_to *to)
{
    const tc_ssh_target *t = &to->target;
    tc_str port = {0};
    if (t->user.len > 0) {
        add(l, TC_STR("-l"));
        add(l, t->user);
    }
    if (t->port != 0 && l->rc == 0) {
        l->rc = tci_arena_printf(l->arena, &port, l->err, "%lu", (unsigned long)t->port);
        add(l, TC_STR("-p"));
        add(l, port);
    }
    if (t->identity_file.len > 0) {
        add_path_option(l, "IdentityFile", t->identity_file);
        add_option(l, "IdentitiesOnly", TC_STR("yes"));
    }
}

int tci_ssh_args(const tci_ssh_to *to, const tci_ssh_want *want, tci_arena *a,
                 const char *const **ret_argv, tc_err *err)
{
    list l = {.arena = a, .err = err};
    l.items = tci_arena_items(a, const char *, ARGS_MAX + 1);
    if (l.items == NULL)
        return tci_arena_error(a, err);
    add(&l, to->target.program);
    add_config(&l, to, want);
    if (want->is_query)
        add(&l, TC_STR("-G"));
    if (!want->without_rules) {
        add(&l, TC_STR("-T"));
        add(&l, TC_STR("-a"));
        add(&l, TC_STR("-x"));
        add_rules(&l, to, want);
    }
    add_where(&l, to);
    add(&l, TC_STR("--"));
    add(&l, to->target.host);
    if (want->command.len > 0)
        add(&l, want->command);
    TC_ASSERT(l.n < ARGS_MAX);
    if (l.rc == 0)
        *ret_argv = l.items;
    return l.rc;
}

/* ---- what the installed ssh does not know ---- */

static bool names_rule(tc_str line, const char *rule_text)
{
    tc_str name = tci_str_sub(tci_str(rule_text), 0, tci_str_find_byte(tci_str(rule_text), '='));
    for (size_t i = 0; i + name.len <= line.len; i++)
        if (tci_str_eq_nocase(tci_str_sub(line, i, name.len), name))
            return true;
    return false;
}

bool tci_ssh_learn(tci_ssh_to *to, tc_str complaints)
{
    bool is_news = false;
    tc_str line;
    while (tci_str_split(&complaints, '\n', &line)) {
        /* "command-line: line 0: Bad configuration option: sessiontype", or "Bad SendEnv ..." */
        if (!tci_str_starts(line, TC_STR("command-line")))
            continue;
        for (size_t i = 0; i < TCI_ARRAY_LEN(rules); i++)
            if (rules[i].may_lack && (to->unknown >> i & 1) == 0 &&
                names_rule(line, rules[i].text)) {
                to->unknown |= UINT64_C(1) << i;
                is_news = true;
            }
    }
    return is_news;
}

/* ---- environment ---- */

int tci_ssh_environ(const tci_ssh_to *to, tci_arena *a, const char *const **ret_envp, tc_err *err)
{
    static const char *const kept[] = {"HOME", "USER", "LOGNAME", "PATH", "SSH_AUTH_SOCK"};
    const char **list_of = tci_arena_items(a, const char *, TCI_ARRAY_LEN(kept) + 1);
    if (list_of == NULL)
        return tci_arena_error(a, err);
    bool wants_agent = to->target.identity_file.len == 0 && !to->target.no_agent;
    size_t n = 0;
    for (size_t i = 0; i < TCI_ARRAY_LEN(kept); i++) {
        const char *value = tci_runtime_getenv(to->rt, kept[i]);
        if (value == NULL || (i == TCI_ARRAY_LEN(kept) - 1 && !wants_agent))
            continue;
        tc_str entry = {0};
        int rc = tci_arena_printf(a, &entry, err, "%s=%s", kept[i], value);
        if (rc < 0)
            return rc;
        list_of[n++] = entry.ptr; /* NUL after its end */
    }
    *ret_envp = list_of;
    return 0;
}
