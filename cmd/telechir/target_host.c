/* SPDX-License-Identifier: Apache-2.0
 *
 * From a device's name at a Host to a connection through that Host. Leaves asking to host_call.c. Any thread, with a
 * cli of its own. Invariant: the token goes into the options of the connection and nowhere else; and whoever is
 * meant by a name is said by the Host at that moment, so a name that went to another device is noticed where the
 * first one's identity is known. */
#include "host.h"
#include "target.h"

#include "net/url.h"

/* ---- a name in a path ---- */

static bool is_plain(char ch)
{
    return (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') || (ch >= '0' && ch <= '9') ||
           ch == '-' || ch == '_';
}

int host_device_path(cli *c, tc_str name, const char *follows, tc_str *ret, tc_err *err)
{
    tci_buf b;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_buf_append_str(&b, TC_STR("api/devices/"));
    for (size_t i = 0; i < name.len; i++)
        if (is_plain(name.ptr[i]))
            tci_buf_append_byte(&b, name.ptr[i]);
        else
            tci_buf_printf(&b, "%%%02X", (unsigned)(unsigned char)name.ptr[i]);
    tci_buf_append_str(&b, tci_str(follows));
    int rc = tci_buf_error(&b, err);
    if (rc == 0)
        rc = tci_arena_dup(&c->arena, tci_buf_str(&b), ret, err);
    tci_buf_done(&b);
    return rc;
}

/* ---- what is wrong ---- */

/* The Host does not give it: what to do, and a code that says that the target cannot be used. */
static int explain(cli *c, const cli_target *t, tc_err *err)
{
    tc_str name = cli_plain(&c->arena, cli_target_device(t));
    int rc = err->code;
    if (rc == TC_E_NOT_FOUND) {
        (void)tc_err_set(err, TC_E_NOT_READY, "the Host '%.*s' has no device '%.*s'",
                         TC_STR_ARG(t->host), TC_STR_ARG(name));
        return tc_err_hint(err, "`telechir devices --host %.*s` shows those there are",
                           TC_STR_ARG(t->host));
    }
    if (rc == TC_E_CONFLICT)
        (void)tc_err_hint(err,
                          "write host:ID with the id of the one that is meant; `telechir "
                          "devices --host %.*s` shows the ids",
                          TC_STR_ARG(t->host));
    if (rc == TC_E_CONFLICT || rc == TC_E_DENIED || rc == TC_E_INVALID)
        return tc_err_recode(err, TC_E_NOT_READY);
    if (rc == TC_E_TIMEOUT || rc == TC_E_BUSY || rc == TC_E_IO)
        return tc_err_recode(err, TC_E_CONNECT);
    return rc;
}

static int check_state(cli *c, const cli_target *t, const tci_json *device, tc_err *err)
{
    tc_str name = cli_plain(&c->arena, cli_target_device(t));
    tc_str state = tci_json_str_member(device, "state");
    tc_str seen = cli_plain(&c->arena, tci_json_str_member(device, "last_seen_at"));
    bool is_external = tci_str_eq(tci_json_str_member(device, "kind"), TC_STR("external"));
    bool is_online = false;
    const tci_json *online = tci_json_get(device, TC_STR("online"));
    if (tci_str_eq(state, TC_STR("pending"))) {
        (void)tc_err_set(err, TC_E_NOT_READY, "'%.*s' waits for approval", TC_STR_ARG(name));
        return tc_err_hint(err, "compare the code in its terminal with the one that `telechir "
                                "devices` shows, then: telechir devices approve CODE");
    }
    if (tci_str_eq(state, TC_STR("revoked"))) {
        (void)tc_err_set(err, TC_E_NOT_READY, "the connection of '%.*s' was revoked",
                         TC_STR_ARG(name));
        return tc_err_hint(err,
                           "to enroll it anew, on its machine: telechird connect %.*s --host "
                           "work --instance ANOTHER",
                           TC_STR_ARG(t->host));
    }
    if (online != NULL && !tci_json_as_bool(online, &is_online))
        is_online = false;
    if (is_online || is_external) /* whether that one answers is known when it is asked */
        return 0;
    (void)tc_err_set(err, TC_E_NOT_READY, "'%.*s' is offline%s%.*s", TC_STR_ARG(name),
                     seen.len > 0 ? ", last seen " : "", TC_STR_ARG(seen));
    return tc_err_hint(err, "start it on its machine again: telechird connect, with its Host and "
                            "--instance; it needs no new approval");
}

static int check_identity(cli *c, const cli_target *t, const tci_json *device, tc_err *err)
{
    tc_str device_id = tci_json_str_member(device, "device_id");
    if (device_id.len == 0 || tci_json_str_member(device, "id").len == 0)
        return tc_err_set(err, TC_E_PROTOCOL, "the Host does not say which device that is");
    if (t->device_id.len == 0 || tci_str_eq(t->device_id, device_id))
        return 0;
    tc_str name = cli_plain(&c->arena, cli_target_device(t));
    tc_str now = cli_plain(&c->arena, device_id);
    (void)tc_err_set(err, TC_E_INCOMPATIBLE, "'%.*s' is device '%.*s' now, and not '%.*s'",
                     TC_STR_ARG(name), TC_STR_ARG(now), TC_STR_ARG(t->device_id));
    return tc_err_hint(err,
                       "if that is meant, name it: --on %.*s, and --device-id %.*s where "
                       "another one was asked for",
                       TC_STR_ARG(t->form), TC_STR_ARG(now));
}

/* ---- the way through the Host ---- */

static int way_of(cli *c, const host_at *at, tc_str id, cli_link *ret, tc_err *err)
{
    tci_url url;
    tc_str path, endpoint, below;
    char authority[TCI_URL_AUTHORITY_MAX];
    int rc = tci_url_parse(at->url, TCI_URL_PATH, &url, err);
    if (rc == 0)
        rc = tci_arena_printf(&c->arena, &endpoint, err, "%s://%s", tci_url_scheme_name(url.scheme),
                              tci_url_authority(&url, authority));
    if (rc == 0)
        rc = host_device_path(c, id, "/", &below, err);
    if (rc == 0)
        rc = tci_arena_printf(&c->arena, &path, err, "%.*s%.*s", TC_STR_ARG(url.path),
                              TC_STR_ARG(below));
    if (rc == 0)
        ret->http = (tc_http_options){.size = sizeof ret->http,
                                      .endpoint = endpoint,
                                      .path = path,
                                      .credential = at->token,
                                      .ca_file = at->ca_file,
                                      .insecure_no_verify = at->is_insecure};
    return rc;
}

static int link_host(cli *c, const cli_target *t, cli_link *ret, tc_err *err)
{
    host_at at;
    char *named;
    tc_str path;
    tci_json device;
    int rc = tci_arena_cstr(&c->arena, t->host, &named, err);
    if (rc == 0)
        rc = host_saved_find(c, named, &at, err);
    if (rc == 0)
        rc = host_device_path(c, cli_target_device(t), "", &path, err);
    if (rc == 0 && host_call(c, &at, "GET", path, TC_STR(""), &device, err) < 0)
        return explain(c, t, err);
    if (rc == 0)
        rc = check_state(c, t, &device, err);
    if (rc < 0)
        return rc;
    ret->device_id = tci_json_str_member(&device, "device_id");
    rc = check_identity(c, t, &device, err);
    return rc == 0 ? way_of(c, &at, tci_json_str_member(&device, "id"), ret, err) : rc;
}

int cli_target_link(cli *c, const cli_target *t, cli_link *ret, tc_err *err)
{
    if (t->kind == CLI_TARGET_HOST)
        return link_host(c, t, ret, err);
    *ret = (cli_link){.http = cli_target_http(t), .device_id = t->device_id};
    return 0;
}
