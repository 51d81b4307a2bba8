/* SPDX-License-Identifier: Apache-2.0
 *
 * `telechir devices add-http` and `remove`: targets that the Host connects to itself. Leaves asking to host_call.c. The
 * main thread. Invariant: what is told of a credential is where its file is, on the Host's machine. */
#include "devices.h"
#include "target.h"

#include "base/num.h"
#include "net/url.h"
#include "plat/call.h"
#include "plat/clock.h"

/* A path on the Host's machine: from here only when that is this one. */
static int path_there(cli *c, const host_at *at, const char *option, tc_str *ret)
{
    tci_url url;
    tc_str here, path = tci_str(cli_value(c, option));
    *ret = path;
    if (path.len == 0 || path.ptr[0] == '/')
        return 0;
    int rc = tci_url_parse(at->url, TCI_URL_PATH, &url, &c->err);
    if (rc < 0)
        return rc;
    if (!tci_host_is_loopback(tci_str(url.host))) {
        (void)tc_err_set(&c->err, TC_E_INVALID, "--%s is read by the Host, on its own machine",
                         option);
        return tc_err_hint(&c->err, "give the absolute path it has there");
    }
    rc = cli_here(c, &here, &c->err);
    return rc == 0 ? tci_arena_printf(&c->arena, ret, &c->err, "%.*s/%.*s", TC_STR_ARG(here),
                                      TC_STR_ARG(path))
                   : rc;
}

static int put_body(cli *c, const host_at *at, tci_buf *b)
{
    bool first = true;
    tc_str credential_file, ca_file;
    int rc = path_there(c, at, "credential-file", &credential_file);
    if (rc == 0)
        rc = path_there(c, at, "ca-file", &ca_file);
    if (rc < 0)
        return rc;
    tci_buf_append_byte(b, '{');
    cli_json_str(b, &first, "name", tci_str(c->args[1]));
    cli_json_str(b, &first, "url", tci_str(c->args[2]));
    cli_json_str(b, &first, "device_id", tci_str(cli_value(c, "device-id")));
    cli_json_str(b, &first, "credential_file", credential_file);
    if (ca_file.len > 0)
        cli_json_str(b, &first, "ca_file", ca_file);
    if (cli_has(c, "allow-plaintext-private-link"))
        cli_json_bool(b, &first, "allow_plaintext_private_link", true);
    tci_buf_append_byte(b, '}');
    return tci_buf_error(b, &c->err);
}

static bool was_asked(const tci_json *device)
{
    return tci_json_str_member(device, "asked_at").len > 0;
}

/* Until the Host knows whether it answers; device is what is known by then. Not knowing is no failure. */
static int await_answer(cli *c, const host_at *at, tci_json *device)
{
    enum { LOOK_MS = 100, WAIT_MS = 8000 };
    tc_str path;
    int64_t end_ns = tci_add_ns(tci_clock_mono_ns(), tci_ms_to_ns(WAIT_MS));
    int rc = host_device_path(c, tci_json_str_member(device, "id"), "", &path, &c->err);
    while (rc == 0 && !was_asked(device) && tci_clock_mono_ns() < end_ns) {
        tci_wake *wake = tci_ctx_wake(c->ctx);
        unsigned seen = tci_wake_count(wake);
        rc = tci_ctx_check(c->ctx, &c->err);
        if (rc == 0)
            tci_wake_wait(wake, seen, tci_add_ns(tci_clock_mono_ns(), tci_ms_to_ns(LOOK_MS)));
        if (rc == 0)
            rc = host_call(c, at, "GET", path, TC_STR(""), device, &c->err);
    }
    return rc;
}

static void warn_of_trouble(cli *c, const tci_json *device)
{
    const tci_json *trouble = tci_json_get(device, TC_STR("trouble"));
    tc_str why = cli_plain(&c->arena, tci_json_str_member(trouble, "message"));
    if (trouble != NULL)
        cli_warn(c, "it is saved, and cannot be reached now: %.*s", TC_STR_ARG(why));
    else if (!was_asked(device))
        cli_say(c, "it does not answer yet; `telechir devices show` says more");
}

int devices_add_http(cli *c, const host_at *at)
{
    static const char *const needed[] = {"device-id", "credential-file"};
    tci_buf body;
    tci_json device;
    for (size_t i = 0; i < TCI_ARRAY_LEN(needed); i++)
        if (tci_str(cli_value(c, needed[i])).len == 0) {
            (void)tc_err_set(&c->err, TC_E_INVALID, "devices add-http needs --%s", needed[i]);
            return tc_err_hint(&c->err, "see 'telechir devices --help'");
        }
    if (cli_check_text(c, c->args[1]) < 0 || cli_check_text(c, c->args[2]) < 0)
        return c->err.code;
    tci_buf_init(&body, TCI_BUF_MAX);
    int rc = put_body(c, at, &body);
    if (rc == 0)
        rc = host_call(c, at, "POST", TC_STR("api/devices/external"), tci_buf_str(&body), &device,
                       &c->err);
    tci_buf_done(&body);
    if (rc == 0)
        rc = await_answer(c, at, &device);
    if (rc < 0)
        return rc;
    warn_of_trouble(c, &device);
    return devices_say(c, "added", &device);
}

int devices_remove(cli *c, const host_at *at)
{
    return devices_end(c, at, "/remove", "revoke", "removed");
}
