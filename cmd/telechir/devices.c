/* SPDX-License-Identifier: Apache-2.0
 *
 * `telechir devices`: those of the Host signed in to, and what their owner decides about them. Leaves asking to
 * host_call.c. The main thread. */
#include "devices.h"

#include "base/utf8.h"

enum { NAME_COLUMN = 20, STATE_COLUMN = 9, KIND_COLUMN = 8 };

static bool member_is(const tci_json *v, const char *key, const char *text)
{
    return tci_str_eq(tci_json_str_member(v, key), tci_str(text));
}

static bool flag(const tci_json *v, const char *key)
{
    bool is_set = false;
    const tci_json *m = tci_json_get(v, tci_str(key));
    return m != NULL && tci_json_as_bool(m, &is_set) && is_set;
}

/* ---- showing ---- */

static bool out_json(cli *c, const tci_json *device)
{
    tci_buf b;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_json_put(&b, device, TCI_JSON_AS_IS);
    tci_buf_append_byte(&b, '\n');
    bool is_fine = tci_buf_error(&b, &c->err) == 0 && cli_out_lines(c, tci_buf_str(&b));
    tci_buf_done(&b);
    return is_fine;
}

static void put_column(tci_buf *b, tc_str text, size_t width)
{
    size_t before = b->len, shown = 0;
    cli_put_name(b, text);
    for (size_t i = before; i < b->len; i++)
        shown += (b->ptr[i] & 0xc0) != 0x80; /* of a character its first byte */
    do
        tci_buf_append_byte(b, ' ');
    while (shown++ < width);
}

static const char *state_of(const tci_json *device)
{
    bool is_external = member_is(device, "kind", "external");
    if (is_external && tci_json_str_member(device, "asked_at").len == 0)
        return "asking";
    if (member_is(device, "state", "approved"))
        return flag(device, "online") ? "online" : "offline";
    if (member_is(device, "state", "revoked"))
        return "revoked";
    return flag(device, "rejected") ? "rejected" : "waiting";
}

/* Where it is, and why it does not answer. */
static void put_external(tci_buf *b, const tci_json *device)
{
    const tci_json *trouble = tci_json_get(device, TC_STR("trouble"));
    tci_buf_append_str(b, TC_STR("  at "));
    cli_put_name(b, tci_json_str_member(device, "url"));
    if (trouble == NULL)
        return;
    tci_buf_append_str(b, TC_STR(": "));
    cli_put_name(b, tci_json_str_member(trouble, "message"));
}

static bool out_line(cli *c, const tci_json *device)
{
    tci_buf b;
    const char *state = state_of(device);
    const tci_json *other = tci_json_get(device, TC_STR("other_credential"));
    const tci_json *second = tci_json_get(device, TC_STR("second_link"));
    tci_buf_init(&b, TCI_BUF_MAX);
    put_column(&b, tci_json_str_member(device, "name"), NAME_COLUMN);
    put_column(&b, tci_str(state), STATE_COLUMN);
    put_column(&b, member_is(device, "kind", "external") ? TC_STR("external") : TC_STR("dials in"),
               KIND_COLUMN);
    put_column(&b, tci_json_str_member(device, "id"), 0);
    cli_put_name(&b, tci_json_str_member(device, "device_id"));
    if (strcmp(state, "waiting") == 0) {
        tci_buf_append_str(&b, TC_STR("  code "));
        cli_put_name(&b, tci_json_str_member(device, "verification_code"));
        tci_buf_append_str(&b, TC_STR(", from "));
        cli_put_name(&b, tci_json_str_member(device, "address"));
    } else if (tci_json_str_member(device, "last_seen_at").len > 0) {
        tci_buf_append_str(&b, TC_STR("  seen "));
        cli_put_name(&b, tci_json_str_member(device, "last_seen_at"));
    }
    if (member_is(device, "kind", "external"))
        put_external(&b, device);
    if (other != NULL) {
        tci_buf_append_str(&b, TC_STR("  refused another credential, last from "));
        cli_put_name(&b, tci_json_str_member(other, "address"));
    }
    if (second != NULL) {
        tci_buf_append_str(&b, TC_STR("  also asked to link from elsewhere, last from "));
        cli_put_name(&b, tci_json_str_member(second, "address"));
    }
    tci_buf_append_byte(&b, '\n');
    bool is_fine = tci_buf_error(&b, &c->err) == 0 && cli_out(c, tci_buf_str(&b));
    tci_buf_done(&b);
    return is_fine;
}

int devices_say(cli *c, const char *what, const tci_json *device)
{
    if (c->is_json)
        return out_json(c, device) ? 0 : c->err.code;
    tc_str name = cli_plain(&c->arena, tci_json_str_member(device, "name"));
    tc_str identity = cli_plain(&c->arena, tci_json_str_member(device, "device_id"));
    return cli_outf(c, "%s: %.*s (%.*s)\n", what, TC_STR_ARG(name), TC_STR_ARG(identity))
               ? 0
               : c->err.code;
}

/* ---- asking ---- */

static int fetch(cli *c, const host_at *at, const tci_json **ret)
{
    tci_json *answer = tci_arena_new(&c->arena, tci_json);
    if (answer == NULL)
        return tci_arena_error(&c->arena, &c->err);
    int rc = host_call(c, at, "GET", TC_STR("api/devices"), TC_STR(""), answer, &c->err);
    if (rc < 0)
        return rc;
    *ret = tci_json_get(answer, TC_STR("devices"));
    return *ret != NULL && (*ret)->kind == TCI_JSON_ARRAY
               ? 0
               : tc_err_set(&c->err, TC_E_PROTOCOL, "the Host gave no list of devices");
}

static int list(cli *c, const host_at *at)
{
    const tci_json *devices;
    int rc = fetch(c, at, &devices);
    if (rc < 0)
        return rc;
    for (uint32_t i = 0; i < devices->count; i++)
        if (!(c->is_json ? out_json : out_line)(c, &devices->u.items[i]))
            return c->err.code;
    if (devices->count == 0)
        cli_say(c,
                "there is no device; on its machine: telechird connect %.*s --host work "
                "--instance work",
                TC_STR_ARG(at->url));
    return 0;
}

static int decide(cli *c, const host_at *at, const char *path, const char *what)
{
    tci_buf body;
    tci_json answer;
    bool first = true;
    tci_buf_init(&body, TCI_BUF_MAX);
    tci_buf_append_byte(&body, '{');
    cli_json_str(&body, &first, "code", tci_str(c->args[1]));
    tci_buf_append_byte(&body, '}');
    int rc = tci_buf_error(&body, &c->err);
    if (rc == 0)
        rc = host_call(c, at, "POST", tci_str(path), tci_buf_str(&body), &answer, &c->err);
    tci_buf_done(&body);
    if (rc == TC_E_NOT_FOUND || rc == TC_E_TIMEOUT)
        (void)tc_err_hint(&c->err, "`telechir devices` shows what waits; the device asks anew when "
                                   "its command is run again");
    return rc == 0 ? devices_say(c, what, &answer) : rc;
}

static int approve(cli *c, const host_at *at)
{
    return decide(c, at, "api/devices/approve", "approved");
}

static int reject(cli *c, const host_at *at)
{
    return decide(c, at, "api/devices/reject", "rejected");
}

/* Those that a text may mean; ids is their list for people. */
typedef struct meant {
    size_t count;
    tc_str id, ids;
} meant;

/* By name or identity; revoked ones, or the others. */
static int find_meant(cli *c, const tci_json *devices, const char *named, bool is_revoked,
                      meant *ret)
{
    *ret = (meant){0};
    for (uint32_t i = 0; i < devices->count; i++) {
        const tci_json *d = &devices->u.items[i];
        if (member_is(d, "state", "revoked") != is_revoked ||
            (!member_is(d, "name", named) && !member_is(d, "device_id", named)))
            continue;
        ret->id = tci_json_str_member(d, "id");
        if (tci_arena_printf(&c->arena, &ret->ids, &c->err, "%.*s%s%.*s", TC_STR_ARG(ret->ids),
                             ret->count > 0 ? ", " : "", TC_STR_ARG(ret->id)) < 0)
            return c->err.code;
        ret->count++;
    }
    return 0;
}

int devices_find(cli *c, const host_at *at, const char *named, tc_str *ret_id)
{
    const tci_json *devices;
    meant m;
    int rc = fetch(c, at, &devices);
    for (uint32_t i = 0; rc == 0 && i < devices->count; i++)
        if (member_is(&devices->u.items[i], "id", named)) {
            *ret_id = tci_json_str_member(&devices->u.items[i], "id");
            return 0;
        }
    if (rc == 0)
        rc = find_meant(c, devices, named, false, &m);
    if (rc == 0 && m.count == 0) /* what was revoked can still be looked at */
        rc = find_meant(c, devices, named, true, &m);
    if (rc < 0)
        return rc;
    if (m.count == 0)
        return tc_err_set(&c->err, TC_E_NOT_FOUND, "there is no device '%s'", named);
    *ret_id = m.id;
    if (m.count == 1)
        return 0;
    (void)tc_err_set(&c->err, TC_E_CONFLICT, "%zu devices are called '%s'", m.count, named);
    return tc_err_hint(&c->err, "name one by its id: %.*s", TC_STR_ARG(m.ids));
}

int devices_end(cli *c, const host_at *at, const char *action, const char *other, const char *said)
{
    tci_json answer;
    tc_str id, path;
    int rc = devices_find(c, at, c->args[1], &id);
    if (rc == 0)
        rc = host_device_path(c, id, action, &path, &c->err);
    if (rc < 0)
        return rc;
    rc = host_call(c, at, "POST", path, TC_STR("{}"), &answer, &c->err);
    if (rc == TC_E_CONFLICT) /* not of this kind */
        (void)tc_err_hint(&c->err, "telechir devices %s %.*s", other, TC_STR_ARG(id));
    return rc == 0 ? devices_say(c, said, &answer) : rc;
}

static int revoke(cli *c, const host_at *at)
{
    return devices_end(c, at, "/revoke", "remove", "revoked");
}

static bool show_member(cli *c, const char *label, const tci_json *v, const char *key)
{
    tc_str text = cli_plain(&c->arena, tci_json_str_member(v, key));
    return tci_json_str_member(v, key).len == 0 ||
           cli_outf(c, "%-18s %.*s\n", label, TC_STR_ARG(text));
}

static bool show_info(cli *c, const tci_json *info)
{
    const tci_json *system = tci_json_get(info, TC_STR("system"));
    const tci_json *boundary = tci_json_get(info, TC_STR("boundary"));
    if (info == NULL)
        return true;
    return show_member(c, "system", system, "os") &&
           show_member(c, "architecture", system, "architecture") &&
           show_member(c, "working directory", info, "working_directory") &&
           cli_outf(c, "%-18s %s\n", "commands", flag(info, "runs_commands") ? "yes" : "no") &&
           show_member(c, "sandbox", boundary, "sandbox") &&
           show_member(c, "egress", boundary, "egress");
}

static int show(cli *c, const host_at *at)
{
    static const struct {
        const char *label, *key;
    } facts[] = {{"name", "name"},
                 {"id", "id"},
                 {"identity", "device_id"},
                 {"kind", "kind"},
                 {"URL", "url"},
                 {"credential file", "credential_file"},
                 {"CA file", "ca_file"},
                 {"last asked", "asked_at"},
                 {"asked from", "address"},
                 {"verification code", "verification_code"},
                 {"approved", "approved_at"},
                 {"last seen", "last_seen_at"},
                 {"revoked", "revoked_at"}};
    tci_json device;
    tc_str id, path;
    int rc = devices_find(c, at, c->args[1], &id);
    if (rc == 0)
        rc = host_device_path(c, id, "", &path, &c->err);
    if (rc == 0)
        rc = host_call(c, at, "GET", path, TC_STR(""), &device, &c->err);
    if (rc < 0)
        return rc;
    if (c->is_json)
        return out_json(c, &device) ? 0 : c->err.code;
    bool is_fine = cli_outf(c, "%-18s %s\n", "state", state_of(&device));
    for (size_t i = 0; is_fine && i < TCI_ARRAY_LEN(facts); i++)
        is_fine = show_member(c, facts[i].label, &device, facts[i].key);
    is_fine = is_fine &&
              show_member(c, "refused another", tci_json_get(&device, TC_STR("other_credential")),
                          "address") &&
              show_member(c, "second link from", tci_json_get(&device, TC_STR("second_link")),
                          "address") &&
              show_member(c, "trouble", tci_json_get(&device, TC_STR("trouble")), "message") &&
              show_info(c, tci_json_get(&device, TC_STR("info")));
    return is_fine ? 0 : c->err.code;
}

int cmd_devices(cli *c)
{
    static const struct {
        const char *word, *takes;
        size_t nargs;
        int (*run)(cli *c, const host_at *at);
    } words[] = {{"list", "nothing", 1, list},
                 {"show", "a device's name, id or identity", 2, show},
                 {"approve", "the code that the device shows", 2, approve},
                 {"reject", "the code that the device shows", 2, reject},
                 {"revoke", "a device's name, id or identity", 2, revoke},
                 {"add-http", "a name and a URL", 3, devices_add_http},
                 {"remove", "a device's name, id or identity", 2, devices_remove}};
    host_at at;
    const char *word = c->nargs > 0 ? c->args[0] : "list";
    for (size_t i = 0; i < TCI_ARRAY_LEN(words); i++) {
        if (strcmp(word, words[i].word) != 0)
            continue;
        if (c->nargs != words[i].nargs && c->nargs > 0)
            return cli_usage(c, "devices %s takes %s", word, words[i].takes);
        return host_saved_find(c, cli_value(c, "host"), &at, &c->err) < 0 ||
                       words[i].run(c, &at) < 0
                   ? cli_fail(c)
                   : CLI_OK;
    }
    return cli_usage(
        c, "there is no 'devices %s': list, show, approve, reject, revoke, add-http, remove", word);
}
