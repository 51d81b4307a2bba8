/* SPDX-License-Identifier: Apache-2.0
 *
 * `telechir target`: saved targets, and a look at one. */
#include "target.h"

#include "plat/clock.h"
#include "plat/system.h"

enum { NAME_MAX_BYTES = 64, PINGS = 7 };

static int answer(cli *c, tci_buf *b)
{
    bool is_fine = cli_out_json(c, b);
    tci_buf_done(b);
    return is_fine ? CLI_OK : cli_fail(c);
}

static void put_target(tci_buf *b, tc_str name, const cli_target *t)
{
    bool first = true;
    tci_buf_append_byte(b, '{');
    cli_json_str(b, &first, "name", name);
    cli_target_put(b, &first, t);
}

static void put_name_only(tci_buf *b, tc_str name)
{
    bool first = true;
    tci_buf_append_byte(b, '{');
    cli_json_str(b, &first, "name", name);
}

/* ---- add, remove ---- */

static int check_name(cli *c, tc_str name)
{
    static const char *const taken[] = {"local", "ssh", "host", "http", "https"};
    bool is_fine =
        name.len > 0 && name.len <= NAME_MAX_BYTES && name.ptr[0] != '.' && name.ptr[0] != '-';
    for (size_t i = 0; i < name.len; i++) {
        char ch = name.ptr[i];
        is_fine = is_fine && ((ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') ||
                              (ch >= '0' && ch <= '9') || ch == '.' || ch == '_' || ch == '-');
    }
    for (size_t i = 0; i < TCI_ARRAY_LEN(taken); i++)
        is_fine = is_fine && !tci_str_eq(name, tci_str(taken[i]));
    if (is_fine)
        return 0;
    tc_err_set(&c->err, TC_E_INVALID, "'%.*s' cannot name a target", TC_STR_ARG(name));
    return tc_err_hint(&c->err, "1 to 64 letters, digits, '.', '_' and '-'; not a form's word");
}

static int say_target(cli *c, const char *what, tc_str name, const cli_target *t)
{
    if (!c->is_json) {
        cli_say(c, "%s '%.*s'", what, TC_STR_ARG(name));
        return CLI_OK;
    }
    tci_buf b;
    tci_buf_init(&b, TCI_BUF_MAX);
    if (t != NULL)
        put_target(&b, name, t);
    else
        put_name_only(&b, name);
    tci_buf_append_byte(&b, '}');
    return answer(c, &b);
}

static int target_add(cli *c)
{
    cli_target t;
    if (c->nargs != 3)
        return cli_usage(c, "target add takes a name and a form");
    tc_str name = tci_str(c->args[1]);
    int rc = check_name(c, name);
    if (rc == 0)
        rc = cli_target_of_form(c, tci_str(c->args[2]), &t, &c->err);
    if (rc == 0)
        rc = cli_targets_change(c, name, &t, cli_has(c, "replace"), &c->err);
    return rc == 0 ? say_target(c, "saved", name, &t) : cli_fail(c);
}

static int target_remove(cli *c)
{
    if (c->nargs != 2)
        return cli_usage(c, "target remove takes a name");
    tc_str name = tci_str(c->args[1]);
    return cli_targets_change(c, name, NULL, false, &c->err) == 0
               ? say_target(c, "removed", name, NULL)
               : cli_fail(c);
}

/* ---- list, show ---- */

static int list_one(cli *c, const tci_json_member *m)
{
    cli_target t;
    if (cli_target_of_json(&m->value, &t, &c->err) < 0)
        return tc_err_wrap(&c->err, "target '%.*s'", TC_STR_ARG(m->key));
    if (!c->is_json)
        return cli_outf(c, "%-16.*s %.*s%s%.*s\n", TC_STR_ARG(m->key), TC_STR_ARG(t.form),
                        t.device_id.len > 0 ? "  device " : "", TC_STR_ARG(t.device_id))
                   ? 0
                   : c->err.code;
    tci_buf b;
    tci_buf_init(&b, TCI_BUF_MAX);
    put_target(&b, m->key, &t);
    tci_buf_append_byte(&b, '}');
    bool is_fine = cli_out_json(c, &b);
    tci_buf_done(&b);
    return is_fine ? 0 : c->err.code;
}

static int target_list(cli *c)
{
    cli_targets saved;
    if (c->nargs != 1)
        return cli_usage(c, "target list takes nothing more");
    int rc = cli_targets_load(c, &saved, &c->err);
    for (size_t i = 0; rc == 0 && i < saved.count; i++)
        rc = list_one(c, &saved.members[i]);
    if (rc == 0 && saved.count == 0)
        cli_say(c, "no saved targets; add one with: telechir target add NAME FORM");
    return rc == 0 ? CLI_OK : cli_fail(c);
}

static int target_show(cli *c)
{
    cli_targets saved;
    cli_target t;
    if (c->nargs != 2)
        return cli_usage(c, "target show takes a name");
    tc_str name = tci_str(c->args[1]);
    if (cli_targets_load(c, &saved, &c->err) < 0)
        return cli_fail(c);
    const tci_json *v = cli_targets_get(&saved, name);
    if (v == NULL) {
        (void)tc_err_set(&c->err, TC_E_NOT_FOUND, "there is no target '%.*s'", TC_STR_ARG(name));
        (void)tc_err_hint(&c->err, "telechir target list shows those there are");
        return cli_fail(c);
    }
    if (cli_target_of_json(v, &t, &c->err) < 0)
        return cli_fail(c);
    if (c->is_json)
        return say_target(c, "", name, &t);
    const struct {
        const char *what;
        tc_str text;
    } lines[] = {
        {"form", t.form},
        {"device id", t.device_id},
        {"credential file", t.credential_file},
        {"CA file", t.ca_file},
        {"executable", t.executable},
        {"certificate check", t.is_insecure ? TC_STR("off") : TC_STR("")},
        {"plaintext private link", t.is_plaintext_allowed ? TC_STR("allowed") : TC_STR("")}};
    for (size_t i = 0; i < TCI_ARRAY_LEN(lines); i++)
        if (lines[i].text.len > 0 &&
            !cli_outf(c, "%s: %.*s\n", lines[i].what, TC_STR_ARG(lines[i].text)))
            return cli_fail(c);
    return CLI_OK;
}

/* ---- check ---- */

static int connect_device(cli *c, const cli_target *t, tc_device **ret)
{
    tc_http_options http = cli_target_http(t);
    tc_device_options options = {.size = sizeof options, .expected_device_id = t->device_id};
    return tc_device_connect_http(cli_runtime(c), c->ctx, &http, &options, ret, &c->err);
}

/* Median time of a question and its answer, in microseconds. */
static int round_trip(cli *c, tc_env *env, int64_t *ret_us)
{
    int64_t took[PINGS];
    for (size_t i = 0; i < PINGS; i++) {
        tc_file_info info;
        tc_call call = cli_call(c);
        int64_t begin = tci_clock_mono_ns();
        int rc = tc_env_stat(env, &call, TC_STR("."), true, &info, &c->err);
        if (rc < 0)
            return rc;
        int64_t us = (tci_clock_mono_ns() - begin) / 1000;
        size_t at = i;
        for (; at > 0 && took[at - 1] > us; at--)
            took[at] = took[at - 1];
        took[at] = us;
    }
    *ret_us = took[PINGS / 2];
    return 0;
}

/* What is known of a device whichever way it was reached. */
typedef struct facts {
    tci_system_names here;
    const tc_boundary *boundary;
    const tc_device_info *device; /* NULL for local: the system is this one */
    int64_t trip_us;
    bool can_exec;
} facts;

static tc_system_info system_of(const facts *f)
{
    if (f->device != NULL)
        return f->device->system;
    return (tc_system_info){.os = tci_str(f->here.os),
                            .kernel_version = tci_str(f->here.kernel),
                            .architecture = tci_str(f->here.machine)};
}

static const char *egress_name(tc_egress_mode m)
{
    static const char *const names[] = {"inherit", "deny", "controlled"};
    return names[m];
}

static bool show_facts(cli *c, const tc_env *env, const facts *f)
{
    const tc_boundary *b = f->boundary;
    bool is_fine = cli_outf(c, "device: %.*s, generation %llu\n", TC_STR_ARG(tc_env_device_id(env)),
                            (unsigned long long)tc_env_generation(env)) &&
                   cli_outf(c, "folder: %.*s\n", TC_STR_ARG(tc_env_cwd(env)));
    tc_system_info s = system_of(f);
    is_fine = is_fine &&
              cli_outf(c, "system: %.*s %.*s, kernel %.*s, %.*s\n", TC_STR_ARG(s.os),
                       TC_STR_ARG(s.os_version), TC_STR_ARG(s.kernel_version),
                       TC_STR_ARG(s.architecture)) &&
              cli_outf(c, "commands: %s\n", f->can_exec ? "yes" : "disabled");
    if (is_fine && f->device != NULL)
        is_fine = cli_outf(c, "methods: %zu\n", f->device->available_methods.count);
    is_fine = is_fine && cli_outf(c, "boundary: sandbox %s, egress %s, backend %.*s",
                                  b->is_restricted ? "restricted" : "disabled",
                                  egress_name(b->egress), TC_STR_ARG(b->backend));
    if (is_fine && b->has_identity)
        is_fine = cli_outf(c, ", user %u, group %u", (unsigned)b->uid, (unsigned)b->gid);
    is_fine = is_fine && cli_outf(c, "\n");
    for (size_t i = 0; is_fine && i < b->ngrants; i++)
        is_fine = cli_outf(c, "grant: %.*s (%s)\n", TC_STR_ARG(b->grants[i].path),
                           b->grants[i].is_writable ? "read and write" : "read");
    return is_fine && cli_outf(c, "round trip: %.2f ms\n", (double)f->trip_us / 1000);
}

static void put_boundary(tci_buf *j, const tc_boundary *b)
{
    bool first = true;
    tci_buf_append_byte(j, '{');
    cli_json_str(j, &first, "sandbox",
                 b->is_restricted ? TC_STR("restricted") : TC_STR("disabled"));
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

static void put_system(tci_buf *j, bool *first, tc_system_info s)
{
    bool inner = true;
    tci_json_put_key(j, first, TC_STR("system"));
    tci_buf_append_byte(j, '{');
    cli_json_str(j, &inner, "os", s.os);
    if (s.os_version.len > 0)
        cli_json_str(j, &inner, "os_version", s.os_version);
    cli_json_str(j, &inner, "kernel_version", s.kernel_version);
    cli_json_str(j, &inner, "architecture", s.architecture);
    tci_buf_append_byte(j, '}');
}

static void put_methods(tci_buf *j, bool *first, const tc_device_info *d)
{
    tci_json_put_key(j, first, TC_STR("methods"));
    tci_buf_append_byte(j, '[');
    for (size_t i = 0; i < d->available_methods.count; i++) {
        if (i > 0)
            tci_buf_append_byte(j, ',');
        tci_json_put_str(j, d->available_methods.items[i]);
    }
    tci_buf_append_byte(j, ']');
}

static bool json_facts(cli *c, const tc_env *env, const facts *f)
{
    tci_buf j;
    bool first = true;
    tci_buf_init(&j, TCI_BUF_MAX);
    tci_buf_append_byte(&j, '{');
    cli_json_str(&j, &first, "target", tci_str(c->args[1]));
    cli_json_str(&j, &first, "provider", tc_env_provider(env));
    cli_json_str(&j, &first, "device_id", tc_env_device_id(env));
    cli_json_u64(&j, &first, "generation", tc_env_generation(env));
    cli_json_str(&j, &first, "working_directory", tc_env_cwd(env));
    cli_json_bool(&j, &first, "commands", f->can_exec);
    put_system(&j, &first, system_of(f));
    if (f->device != NULL)
        put_methods(&j, &first, f->device);
    tci_json_put_key(&j, &first, TC_STR("boundary"));
    put_boundary(&j, f->boundary);
    cli_json_i64(&j, &first, "round_trip_us", f->trip_us);
    tci_buf_append_byte(&j, '}');
    bool is_fine = cli_out_json(c, &j);
    tci_buf_done(&j);
    return is_fine;
}

static int target_check(cli *c)
{
    cli_target t;
    tc_device *device = NULL;
    facts f = {0};
    if (c->nargs != 2)
        return cli_usage(c, "target check takes a name or a form");
    int rc = cli_target_resolve(c, tci_str(c->args[1]), &t, &c->err);
    tc_env *env = rc == 0 ? cli_env(c, c->args[1]) : NULL;
    if (env == NULL)
        return cli_fail(c);
    rc = round_trip(c, env, &f.trip_us);
    if (rc == 0 && t.kind == CLI_TARGET_HTTP)
        rc = connect_device(c, &t, &device);
    tci_system_names_of(&f.here);
    f.boundary = tc_env_boundary(env);
    f.can_exec = tc_env_can_exec(env);
    f.device = device != NULL ? tc_device_get_info(device) : NULL;
    bool is_fine = rc == 0 && (c->is_json ? json_facts(c, env, &f) : show_facts(c, env, &f));
    tc_device_close(device);
    return is_fine ? CLI_OK : cli_fail(c);
}

int cmd_target(cli *c)
{
    static const struct {
        const char *name;
        int (*run)(cli *c);
    } words[] = {{"add", target_add},
                 {"list", target_list},
                 {"show", target_show},
                 {"remove", target_remove},
                 {"check", target_check}};
    if (c->nargs == 0)
        return cli_usage(c, "target: add, list, show, remove or check?");
    for (size_t i = 0; i < TCI_ARRAY_LEN(words); i++)
        if (strcmp(words[i].name, c->args[0]) == 0)
            return words[i].run(c);
    return cli_usage(c, "target has no '%s'", c->args[0]);
}
