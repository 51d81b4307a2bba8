/* SPDX-License-Identifier: Apache-2.0
 *
 * The transport: which one, where it listens, what it demands. Leaves certificates to net/tls.
 *
 * Invariant: the credential is nowhere but in the configuration's secret; what was read is wiped. */
#include "daemon/config/config_int.h"

#include "plat/file.h"
#include "plat/socket.h"

enum { CREDENTIAL_MAX = 8192 };

/* ---- files ---- */

static int open_regular(tc_str where, tc_str path, tci_file *ret, tci_file_stat *ret_st,
                        tc_err *err)
{
    tci_file_stat st;
    TCI_FILE_AUTO f = TCI_FILE_NONE;
    if (!tci_cfg_is_absolute(path))
        return tc_err_set(err, TC_E_INVALID, "%.*s must be an absolute path", TC_STR_ARG(where));
    if (tci_file_stat_at(TCI_FILE_CWD, path, false, &st, err) < 0)
        return tc_err_wrap(err, "cannot read %.*s", TC_STR_ARG(where));
    if (st.kind == TCI_FILE_KIND_REGULAR &&
        (tci_file_open(path, TCI_OPEN_READ | TCI_OPEN_NOFOLLOW | TCI_OPEN_NONBLOCK, 0, &f, err) <
             0 ||
         tci_file_stat_of(f, &st, err) < 0))
        return tc_err_wrap(err, "cannot read %.*s", TC_STR_ARG(where));
    if (st.kind != TCI_FILE_KIND_REGULAR)
        return tc_err_set(err, TC_E_INVALID, "%.*s must be a regular file, not a symlink",
                          TC_STR_ARG(where));
    *ret = tci_file_take(&f);
    *ret_st = st;
    return 0;
}

int tci_cfg_check_file(tc_str where, tc_str path, tc_err *err)
{
    tci_file_stat st;
    TCI_FILE_AUTO f = TCI_FILE_NONE;
    return open_regular(where, path, &f, &st, err);
}

int tci_cfg_read_file(tc_str where, tc_str path, size_t max_bytes, char **ret, size_t *ret_len,
                      tc_err *err)
{
    tci_file_stat st;
    size_t len = 0;
    TCI_FILE_AUTO f = TCI_FILE_NONE;
    if (open_regular(where, path, &f, &st, err) < 0)
        return err->code;
    char *text = tci_mem_alloc(max_bytes + 1); /* small, and files may grow meanwhile */
    if (text == NULL)
        return tci_err_no_memory(err);
    int rc = tci_file_pread(f, text, max_bytes + 1, 0, &len, err);
    if (rc == 0 && len > max_bytes)
        rc = tc_err_set(err, TC_E_TOO_BIG, "more than %zu bytes", max_bytes);
    if (rc < 0) {
        tci_mem_wipe(text, len);
        tci_free(text);
        return tc_err_wrap(err, "cannot read %.*s", TC_STR_ARG(where));
    }
    *ret = text;
    *ret_len = len;
    return 0;
}

/* ---- settings ---- */

int tci_cfg_need(const tci_cfg_setting *s, tc_err *err)
{
    if (!s->is_set)
        return tc_err_set(err, TC_E_INVALID, "%.*s is required", TC_STR_ARG(s->name));
    return 0;
}

static int decode_bind(tci_cfg *c, tci_addr *ret, tc_err *err)
{
    const tci_cfg_setting *s = &c->vars[TCI_CFG_VAR_HTTP_BIND];
    if (tci_cfg_need(s, err) < 0)
        return err->code;
    if (tci_addr_parse(s->value, ret, err) < 0)
        return tc_err_set(err, TC_E_INVALID, "%.*s must be a numeric IP address and port",
                          TC_STR_ARG(s->name));
    return tci_arena_printf(c->arena, &c->config->http_bind, err, "%.*s", TC_STR_ARG(s->value));
}

/* One line end after it does not belong to it; what is left has no white space and no controls. */
static bool is_credential(tc_str *text)
{
    if (text->len > 0 && text->ptr[text->len - 1] == '\n') {
        text->len--;
        if (text->len > 0 && text->ptr[text->len - 1] == '\r')
            text->len--;
    }
    for (size_t i = 0; i < text->len; i++) {
        unsigned char c = (unsigned char)text->ptr[i];
        if (c <= 0x20 || c == 0x7f)
            return false;
    }
    return text->len >= 1 && text->len <= CREDENTIAL_MAX;
}

int tci_config_read_credential(tc_str where, tc_str path, tci_secret *ret, tc_err *err)
{
    char *text;
    size_t len;
    int rc = tci_cfg_read_file(where, path, CREDENTIAL_MAX + 2, &text, &len, err);
    if (rc < 0 && rc != TC_E_TOO_BIG)
        return rc;
    tc_str credential = rc == 0 ? tci_str_of(text, len) : TC_STR("");
    int result = is_credential(&credential)
                     ? tci_secret_init(ret, credential, err)
                     : tc_err_set(err, TC_E_INVALID,
                                  "%.*s must hold 1 to %d bytes without white space or "
                                  "control characters",
                                  TC_STR_ARG(where), CREDENTIAL_MAX);
    if (rc == 0) {
        tci_mem_wipe(text, len);
        tci_free(text);
    }
    return result;
}

static int read_credential(tci_cfg *c, tc_err *err)
{
    const tci_cfg_setting *s = &c->vars[TCI_CFG_VAR_HTTP_CREDENTIAL_FILE];
    if (tci_cfg_need(s, err) < 0)
        return err->code;
    return tci_config_read_credential(s->name, s->value, &c->config->http_credential, err);
}

static int decode_tls(tci_cfg *c, tc_err *err)
{
    const tci_cfg_setting *cert = &c->vars[TCI_CFG_VAR_HTTP_TLS_CERT_FILE];
    const tci_cfg_setting *key = &c->vars[TCI_CFG_VAR_HTTP_TLS_KEY_FILE];
    if (cert->is_set != key->is_set)
        return tc_err_set(err, TC_E_INVALID, "%.*s and %.*s belong together",
                          TC_STR_ARG(cert->name), TC_STR_ARG(key->name));
    if (!cert->is_set)
        return 0;
    if (tci_cfg_check_file(cert->name, cert->value, err) < 0 ||
        tci_cfg_check_file(key->name, key->value, err) < 0 ||
        tci_arena_printf(c->arena, &c->config->http_tls_cert_file, err, "%.*s",
                         TC_STR_ARG(cert->value)) < 0)
        return err->code;
    return tci_arena_printf(c->arena, &c->config->http_tls_key_file, err, "%.*s",
                            TC_STR_ARG(key->value));
}

/* The address itself must be a loopback one: a mapped IPv4 address is not. */
static bool is_plain_loopback(const tci_addr *a)
{
    static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    if (a->family == TCI_ADDR_IPV6 && memcmp(a->ip, mapped, sizeof mapped) == 0)
        return false;
    return tci_addr_is_loopback(a);
}

static int check_scope(const tci_cfg *c, const tci_addr *bind, tc_err *err)
{
    const tci_cfg_setting *s = &c->vars[TCI_CFG_VAR_HTTP_PLAINTEXT_SCOPE];
    if (c->config->http_tls_cert_file.len > 0) {
        if (s->is_set)
            return tc_err_set(err, TC_E_INVALID, "%.*s is not valid with TLS", TC_STR_ARG(s->name));
        return 0;
    }
    if (tci_cfg_need(s, err) < 0)
        return err->code;
    if (tci_str_eq(s->value, TC_STR("provider_private_link")))
        return 0;
    if (!tci_str_eq(s->value, TC_STR("loopback")))
        return tc_err_set(err, TC_E_INVALID, "%.*s must be loopback or provider_private_link",
                          TC_STR_ARG(s->name));
    if (!is_plain_loopback(bind))
        return tc_err_set(err, TC_E_INVALID, "%.*s=loopback requires a loopback address in %.*s",
                          TC_STR_ARG(s->name), TC_STR_ARG(c->vars[TCI_CFG_VAR_HTTP_BIND].name));
    return 0;
}

static int decode_http(tci_cfg *c, tc_err *err)
{
    tci_addr bind;
    if (decode_bind(c, &bind, err) < 0 || read_credential(c, err) < 0 || decode_tls(c, err) < 0)
        return err->code;
    return check_scope(c, &bind, err);
}

int tci_cfg_decode_transport(tci_cfg *c, tc_err *err)
{
    static const char *const names[] = {
        [TCI_TRANSPORT_STDIO] = "stdio",
        [TCI_TRANSPORT_HTTP] = "http",
        [TCI_TRANSPORT_REVERSE_WEBSOCKET] = "reverse_websocket",
    };
    const tci_cfg_setting *s = &c->vars[TCI_CFG_VAR_TRANSPORT];
    size_t i = 0;
    while (s->is_set && i < TCI_ARRAY_LEN(names) && !tci_str_eq(s->value, tci_str(names[i])))
        i++;
    if (i == TCI_ARRAY_LEN(names))
        return tc_err_set(err, TC_E_INVALID, "%.*s must be stdio, http or reverse_websocket",
                          TC_STR_ARG(s->name));
    c->config->transport = (tci_transport)i;
    if (tci_cfg_check_transport_vars(c, c->config->transport, err) < 0)
        return err->code;
    switch (c->config->transport) {
    case TCI_TRANSPORT_STDIO:
        return 0;
    case TCI_TRANSPORT_HTTP:
        return decode_http(c, err);
    case TCI_TRANSPORT_REVERSE_WEBSOCKET:
        return tci_cfg_decode_reverse(c, err);
    }
    return 0;
}
