/* SPDX-License-Identifier: Apache-2.0
 *
 * Where ssh is to go: what may be in a target, what stands in for what was left out, and targets
 * written in one word. Contacts nothing. Any thread. Invariant: no field that gets through can be
 * taken by ssh, or by a command of the user's ssh configuration, for anything but itself. */
#include "env/ssh/ssh_int.h"

#include "base/json.h"
#include "base/num.h"
#include "base/utf8.h"

enum { PORT_MAX = 65535, PORT_SSH = 22 };

/* Unicode's White_Space, above ASCII. */
static bool is_blank(int32_t c)
{
    return c == 0x20 || (c >= 0x09 && c <= 0x0d) || c == 0x85 || c == 0xa0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f ||
           c == 0x205f || c == 0x3000 || c == 0xfeff;
}

static int refuse(const char *what, tc_str value, tc_err *err)
{
    tci_buf quoted;
    tci_buf_init(&quoted, TCI_BUF_MAX);
    tci_json_put_str(&quoted, value);
    int rc =
        tc_err_set(err, TC_E_INVALID, "invalid %s: %.*s", what, TC_STR_ARG(tci_buf_str(&quoted)));
    tci_buf_done(&quoted);
    return rc;
}

/* A name that is a word of its own. banned: further bytes it may not have. */
static bool is_word(tc_str name, const char *banned)
{
    if (name.len == 0 || name.ptr[0] == '-')
        return false;
    for (size_t i = 0; i < name.len;) {
        size_t len = 0;
        int32_t c = tci_utf8_decode(tci_str_sub(name, i, SIZE_MAX), &len);
        if (c <= 0x1f || c == 0x7f || is_blank(c) || (c < 0x80 && strchr(banned, (int)c) != NULL))
            return false;
        i += len;
    }
    return true;
}

int tci_ssh_path_check(tc_str path, const char *what, tc_err *err)
{
    bool is_fine = path.len > 0;
    for (size_t i = 0; i < path.len && is_fine; i++) {
        unsigned char c = (unsigned char)path.ptr[i];
        is_fine = c > 0x1f && c != 0x7f && c != '"' && c != '\\';
    }
    if (!is_fine || tci_str_find(path, TC_STR("${")) < path.len)
        return refuse(what, path, err);
    return 0;
}

/* What a shell would act on: a ProxyCommand may be given host and user unquoted. */
#define SHELL_WORDS "'`\"$\\;&<>|(){}"

int tc_ssh_target_check(const tc_ssh_target *t, tc_err *err)
{
    if (t == NULL || t->size < sizeof *t)
        return tc_err_set(err, TC_E_INVALID, "a target without its size");
    if (!is_word(t->host, SHELL_WORDS ",@/[]"))
        return refuse("host", t->host, err);
    if (t->host_key_alias.len > 0 && !is_word(t->host_key_alias, "*?!,|@#\"\\"))
        return refuse("host key alias", t->host_key_alias, err);
    if (t->user.len > 0 && !is_word(t->user, SHELL_WORDS))
        return refuse("user", t->user, err);
    if (t->port > PORT_MAX)
        return tc_err_set(err, TC_E_INVALID, "invalid port: %lu", (unsigned long)t->port);
    int rc = 0;
    if (t->identity_file.len > 0)
        rc = tci_ssh_path_check(t->identity_file, "identity file", err);
    if (rc == 0 && t->known_hosts_file.len > 0) {
        rc = tci_ssh_path_check(t->known_hosts_file, "known hosts file", err);
        if (rc == 0 && t->known_hosts_file.ptr[0] != '/')
            rc = refuse("known hosts file", t->known_hosts_file, err);
        if (rc < 0)
            tc_err_hint(err, "an absolute path");
    }
    if (rc == 0 && t->config_file.len > 0)
        rc = tci_ssh_path_check(t->config_file, "configuration file", err);
    return rc;
}

/* ---- in one word ---- */

static int parse_port(tc_str text, tc_str digits, uint32_t *ret, tc_err *err)
{
    uint64_t port = 0;
    if (tci_num_u64(digits, &port, err) < 0 || port == 0 || port > PORT_MAX)
        return refuse("port", text, err);
    *ret = (uint32_t)port;
    return 0;
}

int tc_ssh_target_parse(tc_str text, tc_ssh_target *target, tc_err *err)
{
    tc_str rest = tci_str_starts(text, TC_STR("ssh:")) ? tci_str_sub(text, 4, SIZE_MAX) : text;
    tc_str user = {0}, host = rest, port_text = {0};
    size_t at = tci_str_rfind_byte(rest, '@');
    if (at < rest.len) {
        user = tci_str_sub(rest, 0, at);
        host = tci_str_sub(rest, at + 1, SIZE_MAX);
        if (user.len == 0)
            return refuse("user", text, err);
    }
    size_t bracket = tci_str_find_byte(host, ']');
    size_t colon = tci_str_find_byte(host, ':');
    if (host.len > 0 && host.ptr[0] == '[' && bracket < host.len) {
        port_text = tci_str_sub(host, bracket + 1, SIZE_MAX);
        host = tci_str_sub(host, 1, bracket - 1);
        if (port_text.len > 0 && port_text.ptr[0] != ':')
            return refuse("host", text, err);
    } else if (colon < host.len && colon == tci_str_rfind_byte(host, ':')) {
        port_text = tci_str_sub(host, colon, SIZE_MAX); /* more colons: an IPv6 address */
        host = tci_str_sub(host, 0, colon);
    }
    uint32_t port = 0;
    if (port_text.len > 0 && parse_port(text, tci_str_sub(port_text, 1, SIZE_MAX), &port, err) < 0)
        return err->code;
    tc_ssh_target check = {.size = sizeof check, .host = host, .user = user, .port = port};
    int rc = tc_ssh_target_check(&check, err);
    if (rc < 0)
        return rc;
    target->host = host;
    target->user = user;
    target->port = port;
    return 0;
}

/* ---- complete ---- */

static int default_known_hosts(tc_runtime *rt, tci_arena *a, tc_str *ret, tc_err *err)
{
    tc_str config = tci_str(tci_runtime_getenv(rt, "XDG_CONFIG_HOME"));
    tc_str home = tci_str(tci_runtime_getenv(rt, "HOME"));
    int rc;
    if (config.len > 0 && config.ptr[0] == '/') {
        rc = tci_arena_printf(a, ret, err, "%.*s/telechir/known_hosts", TC_STR_ARG(config));
    } else if (home.len > 0 && home.ptr[0] == '/') {
        rc = tci_arena_printf(a, ret, err, "%.*s/.config/telechir/known_hosts", TC_STR_ARG(home));
    } else {
        tc_err_set(err, TC_E_INVALID, "no place for accepted host keys: HOME is not set");
        tc_err_hint(err, "name a known hosts file");
        return err->code;
    }
    return rc < 0 ? rc : tci_ssh_path_check(*ret, "known hosts file", err);
}

static tc_str lower(char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (text[i] >= 'A' && text[i] <= 'Z')
            text[i] = (char)(text[i] - 'A' + 'a');
    return tci_str_of(text, len);
}

/* ssh compares aliases, and writes them, in lower case. */
static int complete_alias(tc_ssh_target *t, tci_arena *a, tc_err *err)
{
    tc_str alias = t->host_key_alias;
    int rc = 0;
    if (alias.len == 0 && t->port != 0 && t->port != PORT_SSH)
        rc = tci_arena_printf(a, &alias, err, "[%.*s]:%lu", TC_STR_ARG(t->host),
                              (unsigned long)t->port);
    else if (alias.len == 0)
        alias = t->host;
    if (rc < 0)
        return rc;
    char *copy = tci_arena_copy(a, alias.ptr, alias.len);
    if (copy == NULL)
        return tci_arena_error(a, err);
    t->host_key_alias = lower(copy, alias.len);
    return is_word(t->host_key_alias, "*?!,|@#\"\\")
               ? 0
               : refuse("host key alias", t->host_key_alias, err);
}

int tci_ssh_to_make(tc_runtime *rt, const tc_ssh_target *target, tci_arena *a, tci_ssh_to *ret_to,
                    tc_err *err)
{
    int rc = tc_ssh_target_check(target, err);
    if (rc < 0)
        return rc;
    tci_ssh_to to = {.rt = rt, .target = *target};
    tc_ssh_target *t = &to.target;
    tc_str *texts[] = {&t->host,           &t->user,        &t->identity_file, &t->known_hosts_file,
                       &t->host_key_alias, &t->config_file, &t->program};
    for (size_t i = 0; i < TCI_ARRAY_LEN(texts) && rc == 0; i++)
        if (texts[i]->len > 0)
            rc = tci_arena_dup(a, *texts[i], texts[i], err);
    if (rc == 0 && t->known_hosts_file.len == 0)
        rc = default_known_hosts(rt, a, &t->known_hosts_file, err);
    if (rc == 0)
        rc = complete_alias(t, a, err);
    if (t->program.len == 0)
        t->program = TC_STR("ssh");
    if (rc == 0)
        *ret_to = to;
    return rc;
}

int tci_ssh_to_name(const tci_ssh_to *to, tci_arena *a, tc_str *ret_name, tc_err *err)
{
    const tc_ssh_target *t = &to->target;
    tc_str name = t->host;
    int rc = 0;
    if (t->user.len > 0)
        rc = tci_arena_printf(a, &name, err, "%.*s@%.*s", TC_STR_ARG(t->user), TC_STR_ARG(t->host));
    if (rc == 0 && t->port != 0)
        rc = tci_arena_printf(a, &name, err, "%.*s:%lu", TC_STR_ARG(name), (unsigned long)t->port);
    if (rc == 0)
        *ret_name = name;
    return rc;
}
