/* SPDX-License-Identifier: Apache-2.0
 *
 * `telechir devices`: those of the Host signed in to, and what their owner decides about them. Leaves asking to
 * host_call.c. The main thread. */
#include "host.h"

enum { NAME_COLUMN = 20, STATE_COLUMN = 9 };

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
    size_t before = b->len;
    cli_put_name(b, text);
    do
        tci_buf_append_byte(b, ' ');
    while (b->len - before < width + 1);
}

static const char *state_of(const tci_json *device)
{
    if (member_is(device, "state", "approved"))
        return flag(device, "online") ? "online" : "offline";
    if (member_is(device, "state", "revoked"))
        return "revoked";
    return flag(device, "rejected") ? "rejected" : "waiting";
}

static bool out_line(cli *c, const tci_json *device)
{
    tci_buf b;
    const char *state = state_of(device);
    const tci_json *other = tci_json_get(device, TC_STR("other_credential"));
    tci_buf_init(&b, TCI_BUF_MAX);
    put_column(&b, tci_json_str_member(device, "name"), NAME_COLUMN);
    put_column(&b, tci_str(state), STATE_COLUMN);
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
    if (other != NULL) {
        tci_buf_append_str(&b, TC_STR("  refused another credential, last from "));
        cli_put_name(&b, tci_json_str_member(other, "address"));
    }
    tci_buf_append_byte(&b, '\n');
    bool is_fine = tci_buf_error(&b, &c->err) == 0 && cli_out(c, tci_buf_str(&b));
    tci_buf_done(&b);
    return is_fine;
}

/* What became of one. */
static int say(cli *c, const char *what, const tci_json *device)
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
    return rc == 0 ? say(c, what, &answer) : rc;
}

static int approve(cli *c, const host_at *at)
{
    return decide(c, at, "api/devices/approve", "approved");
}

static int reject(cli *c, const host_at *at)
{
    return decide(c, at, "api/devices/reject", "rejected");
}

/* The one that is meant: by id, by identity, or by a name that only one of those not revoked has. */
static int find(cli *c, const tci_json *devices, const char *named, tc_str *ret_id)
{
    size_t nnamed = 0;
    tc_str ids = {0};
    for (uint32_t i = 0; i < devices->count; i++) {
        const tci_json *d = &devices->u.items[i];
        tc_str id = tci_json_str_member(d, "id");
        if (member_is(d, "id", named) || member_is(d, "device_id", named)) {
            *ret_id = id;
            return 0;
        }
        if (!member_is(d, "name", named) || member_is(d, "state", "revoked"))
            continue;
        *ret_id = id;
        if (tci_arena_printf(&c->arena, &ids, &c->err, "%.*s%s%.*s", TC_STR_ARG(ids),
                             nnamed > 0 ? ", " : "", TC_STR_ARG(id)) < 0)
            return c->err.code;
        nnamed++;
    }
    if (nnamed == 1)
        return 0;
    if (nnamed == 0)
        return tc_err_set(&c->err, TC_E_NOT_FOUND, "there is no device '%s'", named);
    (void)tc_err_set(&c->err, TC_E_CONFLICT, "%zu devices are called '%s'", nnamed, named);
    return tc_err_hint(&c->err, "name one by its id: %.*s", TC_STR_ARG(ids));
}

static int revoke(cli *c, const host_at *at)
{
    const tci_json *devices;
    tci_json answer;
    tc_str id, path;
    int rc = fetch(c, at, &devices);
    if (rc == 0)
        rc = find(c, devices, c->args[1], &id);
    if (rc == 0)
        rc = tci_arena_printf(&c->arena, &path, &c->err, "api/devices/%.*s/revoke", TC_STR_ARG(id));
    if (rc == 0)
        rc = host_call(c, at, "POST", path, TC_STR("{}"), &answer, &c->err);
    return rc == 0 ? say(c, "revoked", &answer) : rc;
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
                 {"asked from", "address"},
                 {"verification code", "verification_code"},
                 {"approved", "approved_at"},
                 {"last seen", "last_seen_at"},
                 {"revoked", "revoked_at"}};
    const tci_json *devices;
    tci_json device;
    tc_str id, path;
    int rc = fetch(c, at, &devices);
    if (rc == 0)
        rc = find(c, devices, c->args[1], &id);
    if (rc == 0)
        rc = tci_arena_printf(&c->arena, &path, &c->err, "api/devices/%.*s", TC_STR_ARG(id));
    if (rc == 0)
        rc = host_call(c, at, "GET", path, TC_STR(""), &device, &c->err);
    if (rc < 0)
        return rc;
    if (c->is_json)
        return out_json(c, &device) ? 0 : c->err.code;
    bool is_fine = cli_outf(c, "%-18s %s\n", "state", state_of(&device));
    for (size_t i = 0; is_fine && i < TCI_ARRAY_LEN(facts); i++)
        is_fine = show_member(c, facts[i].label, &device, facts[i].key);
    return is_fine && show_info(c, tci_json_get(&device, TC_STR("info"))) ? 0 : c->err.code;
}

int cmd_devices(cli *c)
{
    static const struct {
        const char *word, *takes;
        int (*run)(cli *c, const host_at *at);
    } words[] = {{"list", NULL, list},
                 {"show", "a device's name, id or identity", show},
                 {"approve", "the code that the device shows", approve},
                 {"reject", "the code that the device shows", reject},
                 {"revoke", "a device's name, id or identity", revoke}};
    host_at at;
    const char *word = c->nargs > 0 ? c->args[0] : "list";
    for (size_t i = 0; i < TCI_ARRAY_LEN(words); i++) {
        if (strcmp(word, words[i].word) != 0)
            continue;
        if (words[i].takes == NULL ? c->nargs > 1 : c->nargs != 2)
            return cli_usage(
                c, words[i].takes != NULL ? "devices %s takes %s" : "devices %s takes nothing",
                word, words[i].takes);
        return host_saved_find(c, &at, &c->err) < 0 || words[i].run(c, &at) < 0 ? cli_fail(c)
                                                                                : CLI_OK;
    }
    return cli_usage(c, "there is no 'devices %s': list, show, approve, reject, revoke", word);
}
