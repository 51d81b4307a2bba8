/* SPDX-License-Identifier: Apache-2.0
 *
 * `telechir target check`: reach a target and say what it is. Leaves asking to probe.c. The main
 * thread. */
#include "probe.h"

/* What is known of a target whichever way it was reached.
 *   device  of http(s) only
 *   keys    of ssh only */
typedef struct view {
    const char *name;
    cli_target target;
    tc_env *env;
    cli_facts facts;
    const tc_boundary *boundary; /* NULL: none that is known */
    const tc_device_info *device;
    tc_ssh_keys keys;
    int64_t trip_us;
} view;

static int connect_device(cli *c, const cli_target *t, tc_device **ret)
{
    cli_link link;
    int rc = cli_target_link(c, t, &link, &c->err);
    if (rc < 0)
        return rc;
    tc_device_options options = {.size = sizeof options, .expected_device_id = link.device_id};
    return tc_device_connect_http(cli_runtime(c), c->ctx, &link.http, &options, ret, &c->err);
}

static const char *egress_name(tc_egress_mode m)
{
    static const char *const names[] = {"inherit", "deny", "controlled"};
    return names[m];
}

/* ---- as text ---- */

static bool line(cli *c, const char *what, tc_str text)
{
    return text.len == 0 || cli_outf(c, "%s: %.*s\n", what, TC_STR_ARG(text));
}

static bool show_boundary(cli *c, const tc_boundary *b)
{
    bool is_fine = cli_outf(c, "boundary: sandbox %s, egress %s, backend %.*s",
                            b->is_restricted ? "restricted" : "disabled", egress_name(b->egress),
                            TC_STR_ARG(b->backend));
    if (is_fine && b->has_identity)
        is_fine = cli_outf(c, ", user %u, group %u", (unsigned)b->uid, (unsigned)b->gid);
    is_fine = is_fine && cli_outf(c, "\n");
    for (size_t i = 0; is_fine && i < b->ngrants; i++)
        is_fine = cli_outf(c, "grant: %.*s (%s)\n", TC_STR_ARG(b->grants[i].path),
                           b->grants[i].is_writable ? "read and write" : "read");
    return is_fine;
}

static bool show_daemon(cli *c, const view *v)
{
    const cli_facts *f = &v->facts;
    if (v->device != NULL)
        return cli_outf(c, "device: %.*s, generation %llu\n", TC_STR_ARG(tc_env_device_id(v->env)),
                        (unsigned long long)tc_env_generation(v->env)) &&
               cli_outf(c, "methods: %zu\n", v->device->available_methods.count);
    return f->daemon_path.len == 0 ||
           cli_outf(c, "daemon: %.*s at %.*s\n", TC_STR_ARG(f->daemon_version),
                    TC_STR_ARG(f->daemon_path));
}

static bool show(cli *c, const view *v)
{
    const cli_facts *f = &v->facts;
    bool is_fine = true;
    for (size_t i = 0; is_fine && i < v->keys.count; i++)
        is_fine = cli_outf(c, "host key: %.*s (%.*s), trusted as '%.*s'\n",
                           TC_STR_ARG(v->keys.items[i].fingerprint),
                           TC_STR_ARG(v->keys.items[i].type), TC_STR_ARG(v->keys.items[i].alias));
    is_fine = is_fine && line(c, "Host", v->target.host) && show_daemon(c, v);
    is_fine = is_fine && line(c, "user", f->user) && line(c, "folder", tc_env_cwd(v->env)) &&
              cli_outf(c, "system: %.*s %.*s, kernel %.*s, %.*s\n", TC_STR_ARG(f->os),
                       TC_STR_ARG(f->os_version), TC_STR_ARG(f->kernel), TC_STR_ARG(f->machine)) &&
              cli_outf(c, "commands: %s\n", tc_env_can_exec(v->env) ? "yes" : "disabled");
    if (is_fine && v->boundary != NULL)
        is_fine = show_boundary(c, v->boundary);
    else if (is_fine)
        is_fine = cli_outf(c, "boundary: sandbox disabled (all that the account may do)\n");
    return is_fine && cli_outf(c, "round trip: %.2f ms\n", (double)v->trip_us / 1000);
}

/* ---- as JSON ---- */

static void put_boundary(tci_buf *j, bool *outer, const tc_boundary *b)
{
    bool first = true;
    tci_json_put_key(j, outer, TC_STR("boundary"));
    tci_buf_append_byte(j, '{');
    cli_json_str(j, &first, "sandbox",
                 b != NULL && b->is_restricted ? TC_STR("restricted") : TC_STR("disabled"));
    if (b == NULL) {
        tci_buf_append_byte(j, '}');
        return;
    }
    cli_json_str(j, &first, "egress", tci_str(egress_name(b->egress)));
    cli_json_str(j, &first, "backend", b->backend);
    cli_json_bool(j, &first, "privilege_gain_blocked", b->privilege_gain_blocked);
    if (b->has_identity) {
        cli_json_u64(j, &first, "uid", b->uid);
        cli_json_u64(j, &first, "gid", b->gid);
    }
    tci_json_put_key(j, &first, TC_STR("grants"));
    tci_buf_append_byte(j, '[');
    for (size_t i = 0; i < b->ngrants; i++) {
        bool inner = true;
        tci_buf_append_str(j, i > 0 ? TC_STR(",{") : TC_STR("{"));
        cli_json_str(j, &inner, "path", b->grants[i].path);
        cli_json_bool(j, &inner, "writable", b->grants[i].is_writable);
        tci_buf_append_byte(j, '}');
    }
    tci_buf_append_str(j, TC_STR("]}"));
}

static void put_text(tci_buf *j, bool *first, const char *key, tc_str text)
{
    if (text.len > 0)
        cli_json_str(j, first, key, text);
}

static void put_system(tci_buf *j, bool *first, const cli_facts *f)
{
    bool inner = true;
    tci_json_put_key(j, first, TC_STR("system"));
    tci_buf_append_byte(j, '{');
    cli_json_str(j, &inner, "os", f->os);
    put_text(j, &inner, "os_version", f->os_version);
    cli_json_str(j, &inner, "kernel_version", f->kernel);
    cli_json_str(j, &inner, "architecture", f->machine);
    tci_buf_append_byte(j, '}');
}

static void put_device(tci_buf *j, bool *first, const view *v)
{
    cli_json_str(j, first, "device_id", tc_env_device_id(v->env));
    cli_json_u64(j, first, "generation", tc_env_generation(v->env));
    tci_json_put_key(j, first, TC_STR("methods"));
    tci_buf_append_byte(j, '[');
    for (size_t i = 0; i < v->device->available_methods.count; i++) {
        if (i > 0)
            tci_buf_append_byte(j, ',');
        tci_json_put_str(j, v->device->available_methods.items[i]);
    }
    tci_buf_append_byte(j, ']');
}

static void put_daemon(tci_buf *j, bool *first, const cli_facts *f)
{
    bool inner = true;
    tci_json_put_key(j, first, TC_STR("daemon"));
    tci_buf_append_byte(j, '{');
    put_text(j, &inner, "version", f->daemon_version);
    put_text(j, &inner, "path", f->daemon_path);
    tci_buf_append_byte(j, '}');
}

static void put_keys(tci_buf *j, bool *first, const tc_ssh_keys *keys)
{
    tci_json_put_key(j, first, TC_STR("host_keys"));
    tci_buf_append_byte(j, '[');
    for (size_t i = 0; i < keys->count; i++) {
        bool inner = true;
        tci_buf_append_str(j, i > 0 ? TC_STR(",{") : TC_STR("{"));
        cli_json_str(j, &inner, "alias", keys->items[i].alias);
        cli_json_str(j, &inner, "type", keys->items[i].type);
        cli_json_str(j, &inner, "fingerprint", keys->items[i].fingerprint);
        tci_buf_append_byte(j, '}');
    }
    tci_buf_append_byte(j, ']');
}

static bool show_json(cli *c, const view *v)
{
    tci_buf j;
    bool first = true;
    tci_buf_init(&j, TCI_BUF_MAX);
    tci_buf_append_byte(&j, '{');
    cli_json_str(&j, &first, "target", tci_str(v->name));
    cli_json_str(&j, &first, "provider", tc_env_provider(v->env));
    put_text(&j, &first, "host", v->target.host);
    cli_json_str(&j, &first, "working_directory", tc_env_cwd(v->env));
    cli_json_bool(&j, &first, "commands", tc_env_can_exec(v->env));
    put_text(&j, &first, "user", v->facts.user);
    put_system(&j, &first, &v->facts);
    if (v->device != NULL)
        put_device(&j, &first, v);
    else
        put_daemon(&j, &first, &v->facts);
    if (v->target.kind == CLI_TARGET_SSH)
        put_keys(&j, &first, &v->keys);
    put_boundary(&j, &first, v->boundary);
    cli_json_i64(&j, &first, "round_trip_us", v->trip_us);
    tci_buf_append_byte(&j, '}');
    bool is_fine = cli_out_json(c, &j);
    tci_buf_done(&j);
    return is_fine;
}

/* ---- the whole ---- */

static int look_eip(cli *c, view *v, tc_device **ret_device)
{
    int rc = connect_device(c, &v->target, ret_device);
    if (rc < 0)
        return rc;
    v->boundary = tc_env_boundary(v->env);
    v->device = tc_device_get_info(*ret_device);
    v->facts.os = v->device->system.os;
    v->facts.os_version = v->device->system.os_version;
    v->facts.kernel = v->device->system.kernel_version;
    v->facts.machine = v->device->system.architecture;
    return 0;
}

int cli_target_look(cli *c)
{
    view v = {0};
    tc_device *device = NULL;
    if (c->nargs != 2)
        return cli_usage(c, "target check takes a name or a form");
    v.name = c->args[1];
    int rc = cli_target_resolve(c, tci_str(v.name), &v.target, &c->err);
    v.env = rc == 0 ? cli_env(c, v.name) : NULL;
    if (v.env == NULL)
        return cli_fail(c);
    rc = cli_probe_round_trip(c, v.env, &v.trip_us, &c->err);
    if (rc == 0)
        rc = cli_is_eip(v.env) ? look_eip(c, &v, &device)
                               : cli_probe_facts(c, v.env, &v.facts, &c->err);
    if (rc == 0 && v.target.kind == CLI_TARGET_SSH)
        rc = cli_probe_keys(c, &v.target, &v.keys, &c->err);
    bool is_fine = rc == 0 && (c->is_json ? show_json(c, &v) : show(c, &v));
    tc_device_close(device);
    return is_fine ? CLI_OK : cli_fail(c);
}
