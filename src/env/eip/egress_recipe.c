/* SPDX-License-Identifier: Apache-2.0
 *
 * What an egress recipe may be: destinations, and references to secrets, never the secrets. The same
 * rules as the daemon's, so that a mistake is found before anything is contacted. Pure; any thread. */
#include "env/env_int.h"

#include "plat/socket.h"

enum {
    HOST_MAX = 253,
    LABEL_MAX = 63,
    HOSTS_MAX = 256,
    SECRETS_MAX = 64,
    VARIABLE_MAX = 128,
    SOURCE_MAX = 1024
};

static bool is_alnum(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/* A name, without wildcards; one dot at the end is fine. */
static bool is_hostname(tc_str host)
{
    tci_addr addr;
    tc_str label;
    if (host.len > 0 && host.ptr[host.len - 1] == '.')
        host.len--;
    if (host.len == 0 || host.len > HOST_MAX || tci_addr_parse_ip(host, &addr))
        return false;
    while (tci_str_split(&host, '.', &label)) {
        if (label.len == 0 || label.len > LABEL_MAX || label.ptr[0] == '-' ||
            label.ptr[label.len - 1] == '-')
            return false;
        for (size_t i = 0; i < label.len; i++)
            if (!is_alnum(label.ptr[i]) && label.ptr[i] != '-')
                return false;
    }
    return true;
}

/* Are two hosts the same? */
static bool same_host(tc_str a, tc_str b)
{
    if (a.len > 0 && a.ptr[a.len - 1] == '.')
        a.len--;
    if (b.len > 0 && b.ptr[b.len - 1] == '.')
        b.len--;
    return tci_str_eq_nocase(a, b);
}

static bool has_host(const tc_strs *hosts, tc_str host)
{
    for (size_t i = 0; i < hosts->count; i++)
        if (same_host(hosts->items[i], host))
            return true;
    return false;
}

static int check_destinations(const tc_destinations *d, tc_err *err)
{
    tci_addr addr;
    if (!d->is_allowlist && d->hosts.count > 0)
        return tc_err_set(err, TC_E_INVALID, "hosts are for an allowlist of destinations");
    if (d->hosts.count > HOSTS_MAX)
        return tc_err_set(err, TC_E_INVALID, "more than %d destinations", HOSTS_MAX);
    for (size_t i = 0; i < d->hosts.count; i++)
        if (!is_hostname(d->hosts.items[i]) && !tci_addr_parse_ip(d->hosts.items[i], &addr))
            return tc_err_set(err, TC_E_INVALID,
                              "the destination '%.*s' is neither a host name nor an address",
                              TC_STR_ARG(d->hosts.items[i]));
    return 0;
}

/* Names that the daemon sets, or that decide what runs. */
static bool is_reserved(tc_str name)
{
    static const char *const names[] = {
        "PATH",           "SSL_CERT_FILE",      "SSL_CERT_DIR",
        "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"};
    for (size_t i = 0; i < TCI_ARRAY_LEN(names); i++)
        if (tci_str_eq(name, tci_str(names[i])))
            return true;
    return tci_str_starts(name, TC_STR("A13N_ENVD_")) || tci_str_starts(name, TC_STR("EIP_"));
}

static bool is_variable(tc_str name)
{
    if (name.len == 0 || name.len > VARIABLE_MAX || (name.ptr[0] >= '0' && name.ptr[0] <= '9'))
        return false;
    for (size_t i = 0; i < name.len; i++)
        if (!is_alnum(name.ptr[i]) && name.ptr[i] != '_')
            return false;
    return true;
}

static int check_source(const tc_secret_ref *ref, tc_err *err)
{
    bool is_good = ref->kind.len > 0 && ref->name.len > 0 && ref->name.len <= SOURCE_MAX &&
                   tci_str_find_byte(ref->name, '\0') == ref->name.len;
    if (is_good && tci_str_eq(ref->kind, TC_STR("environment")))
        is_good = tci_str_find_byte(ref->name, '=') == ref->name.len;
    if (is_good)
        return 0;
    return tc_err_set(err, TC_E_INVALID, "the secret '%.*s' has no source that can be named",
                      TC_STR_ARG(ref->env));
}

static int check_secret(const tc_egress_recipe *e, const tc_secret_ref *ref, tc_err *err)
{
    if (!is_variable(ref->env))
        return tc_err_set(err, TC_E_INVALID, "a secret's variable '%.*s' is not a name",
                          TC_STR_ARG(ref->env));
    if (is_reserved(ref->env))
        return tc_err_set(err, TC_E_INVALID, "the variable '%.*s' cannot carry a secret",
                          TC_STR_ARG(ref->env));
    if (ref->inject_hosts.count == 0 || ref->inject_hosts.count > HOSTS_MAX)
        return tc_err_set(err, TC_E_INVALID, "the secret '%.*s' needs 1 to %d hosts",
                          TC_STR_ARG(ref->env), HOSTS_MAX);
    for (size_t i = 0; i < ref->inject_hosts.count; i++) {
        tc_str host = ref->inject_hosts.items[i];
        if (!is_hostname(host))
            return tc_err_set(err, TC_E_INVALID, "the secret '%.*s' cannot go to '%.*s'",
                              TC_STR_ARG(ref->env), TC_STR_ARG(host));
        if (e->destinations.is_allowlist && !has_host(&e->destinations.hosts, host))
            return tc_err_set(err, TC_E_INVALID,
                              "the secret '%.*s' is for '%.*s', which is not a destination",
                              TC_STR_ARG(ref->env), TC_STR_ARG(host));
    }
    return check_source(ref, err);
}

int tci_egress_check(const tc_egress_recipe *e, tc_err *err)
{
    int rc = check_destinations(&e->destinations, err);
    if (rc == 0 && e->nsecrets > SECRETS_MAX)
        rc = tc_err_set(err, TC_E_INVALID, "more than %d secrets", SECRETS_MAX);
    for (size_t i = 0; rc == 0 && i < e->nsecrets; i++) {
        rc = check_secret(e, &e->secrets[i], err);
        for (size_t k = 0; rc == 0 && k < i; k++)
            if (tci_str_eq(e->secrets[i].env, e->secrets[k].env))
                rc = tc_err_set(err, TC_E_INVALID, "two secrets for the variable '%.*s'",
                                TC_STR_ARG(e->secrets[i].env));
    }
    return rc;
}
