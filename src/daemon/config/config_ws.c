/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a daemon that dials out goes, and with what. Leaves reading the files to the carrier: they may
 * change between two attempts. */
#include "daemon/config/config_int.h"

#include "net/url.h"

static int check_url(const tci_cfg_setting *s, tc_err *err)
{
    tci_url url;
    const unsigned all = TCI_URL_PATH | TCI_URL_QUERY | TCI_URL_FRAGMENT | TCI_URL_USERINFO;
    if (tci_url_parse(s->value, all, &url, err) < 0)
        return tc_err_set(err, TC_E_INVALID, "%.*s must be a valid ws or wss URL",
                          TC_STR_ARG(s->name));
    bool is_ws = url.scheme == TCI_URL_WS || url.scheme == TCI_URL_WSS;
    if (!is_ws || tci_url_parse(s->value, TCI_URL_PATH, &url, err) < 0)
        return tc_err_set(err, TC_E_INVALID,
                          "%.*s must be ws or wss with a host and without user info, query, or "
                          "fragment",
                          TC_STR_ARG(s->name));
    return 0;
}

static int take_path(tci_cfg *c, const tci_cfg_setting *s, tc_str *ret, tc_err *err)
{
    if (tci_cfg_check_file(s->name, s->value, err) < 0)
        return err->code;
    return tci_arena_printf(c->arena, ret, err, "%.*s", TC_STR_ARG(s->value));
}

int tci_cfg_decode_reverse(tci_cfg *c, tc_err *err)
{
    const tci_cfg_setting *url = &c->vars[TCI_CFG_VAR_REVERSE_WS_URL];
    const tci_cfg_setting *credential = &c->vars[TCI_CFG_VAR_REVERSE_WS_CREDENTIAL_FILE];
    const tci_cfg_setting *ca = &c->vars[TCI_CFG_VAR_REVERSE_WS_CA_FILE];
    tci_config *config = c->config;
    if (tci_cfg_need(url, err) < 0 || tci_cfg_need(credential, err) < 0 || check_url(url, err) < 0)
        return err->code;
    if (tci_arena_printf(c->arena, &config->ws_url, err, "%.*s", TC_STR_ARG(url->value)) < 0 ||
        tci_arena_printf(c->arena, &config->ws_credential_name, err, "%.*s",
                         TC_STR_ARG(credential->name)) < 0 ||
        take_path(c, credential, &config->ws_credential_file, err) < 0)
        return err->code;
    return ca->is_set ? take_path(c, ca, &config->ws_ca_file, err) : 0;
}
