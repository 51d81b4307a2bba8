/* SPDX-License-Identifier: Apache-2.0
 *
 * Recipes from a configuration, the secrets they refer to, and adapters for daemons that dial in, with a
 * scripted daemon. */
#include "../client/peer.h"

#include "plat/file.h"
#include <string.h>
#include <telechir/env.h>

#define HOSTS "\"hosts\":[\"api.github.com\",\"192.0.2.7\"]"
#define ALLOWLIST "\"destinations\":{\"mode\":\"allowlist\"," HOSTS "}"
#define SOURCE "\"source\":{\"kind\":\"environment\",\"name\":\"HOST_TOKEN\"}"
#define SECRET "{\"env\":\"GH_TOKEN\"," SOURCE ",\"inject_hosts\":[\"api.github.com\"]}"
#define EGRESS "\"egress\":{" ALLOWLIST ",\"secrets\":[" SECRET "]}"
#define EXPECTED \
    "\"expected_boundary\":{\"sandbox\":{\"mode\":\"disabled\"},\"egress\":\"controlled\"}"

/* ---- parsing ---- */

static void a_recipe_is_read_as_references(void **state)
{
    TCI_UNUSED(state);
    tc_result *r = NULL;
    tc_err err;
    tc_env_options o = {.size = sizeof o, .environment_id = TC_STR("env-1")};
    assert_int_equal(tc_result_new(&r, &err), 0);
    int rc = tc_env_recipe_parse(
        TC_STR("{\"working_directory\":\"/work/project\"," EGRESS "," EXPECTED "}"), r, &o, &err);
    if (rc != 0)
        fail_msg("%s", err.msg);
    assert_true(tci_str_eq(o.environment_id, TC_STR("env-1")));
    assert_true(tci_str_eq(o.working_directory, TC_STR("/work/project")));
    assert_true(o.egress->destinations.is_allowlist);
    assert_int_equal(o.egress->destinations.hosts.count, 2);
    assert_int_equal(o.egress->nsecrets, 1);
    const tc_secret_ref *ref = &o.egress->secrets[0];
    assert_true(tci_str_eq(ref->env, TC_STR("GH_TOKEN")));
    assert_true(tci_str_eq(ref->kind, TC_STR("environment")));
    assert_true(tci_str_eq(ref->name, TC_STR("HOST_TOKEN")));
    assert_true(tci_str_eq(ref->inject_hosts.items[0], TC_STR("api.github.com")));
    assert_int_equal(o.expected_boundary->egress, TC_EGRESS_CONTROLLED);
    assert_false(o.expected_boundary->is_restricted);
    assert_false(o.expected_boundary->check_identity);

    assert_int_equal(
        tc_env_recipe_parse(
            TC_STR("{\"expected_boundary\":{\"sandbox\":{\"mode\":\"restricted\",\"grants\":["
                   "{\"path\":\"/w\",\"access\":\"read_write\"},"
                   "{\"path\":\"/r\",\"access\":\"read_only\"}]},\"egress\":\"deny\","
                   "\"identity\":{\"uid\":7,\"gid\":8},\"privilege_gain_blocked\":true}}"),
            r, &o, &err),
        0);
    assert_null(o.egress);
    assert_int_equal(o.working_directory.len, 0);
    const tc_expected_boundary *b = o.expected_boundary;
    assert_true(b->is_restricted && b->ngrants == 2 && b->grants[0].is_writable &&
                !b->grants[1].is_writable);
    assert_true(b->check_identity && b->uid == 7 && b->gid == 8);
    assert_true(b->check_privilege_gain && b->privilege_gain_blocked);
    tc_result_free(r);
}

#define ONE_SECRET(secret) "{\"egress\":{" ALLOWLIST ",\"secrets\":[" secret "]}}"

static void what_a_recipe_may_not_say(void **state)
{
    TCI_UNUSED(state);
    static const char *const bad[] = {
        "{",
        "[]",
        "{\"token\":\"t\"}",
        "{\"egress\":{}}",
        "{\"working_directory\":\"\"}",
        "{\"egress\":{\"destinations\":{\"mode\":\"everything\"}}}",
        "{\"egress\":{\"destinations\":{\"mode\":\"public\"," HOSTS "}}}",
        "{\"egress\":{\"destinations\":{\"mode\":\"allowlist\"}}}",
        "{\"egress\":{\"destinations\":{\"mode\":\"allowlist\",\"hosts\":[\"*.example.com\"]}}}",
        "{\"egress\":{\"destinations\":{\"mode\":\"allowlist\",\"hosts\":[\"a b\"]}}}",
        "{\"egress\":{\"destinations\":{\"mode\":\"allowlist\",\"hosts\":[1]}}}",
        /* a value where a reference belongs */
        ONE_SECRET("{\"env\":\"A\",\"value\":\"t\",\"inject_hosts\":[\"api.github.com\"]}"),
        ONE_SECRET("{\"env\":\"A\"," SOURCE ",\"value\":\"t\",\"inject_hosts\":["
                   "\"api.github.com\"]}"),
        ONE_SECRET("{\"env\":\"A\"," SOURCE ",\"inject_hosts\":[]}"),
        ONE_SECRET("{\"env\":\"A\"," SOURCE ",\"inject_hosts\":[\"other.example\"]}"),
        ONE_SECRET("{\"env\":\"A\"," SOURCE ",\"inject_hosts\":[\"192.0.2.7\"]}"),
        ONE_SECRET("{\"env\":\"1A\"," SOURCE ",\"inject_hosts\":[\"api.github.com\"]}"),
        ONE_SECRET("{\"env\":\"PATH\"," SOURCE ",\"inject_hosts\":[\"api.github.com\"]}"),
        ONE_SECRET("{\"env\":\"EIP_X\"," SOURCE ",\"inject_hosts\":[\"api.github.com\"]}"),
        ONE_SECRET("{\"env\":\"A\",\"source\":{\"kind\":\"environment\",\"name\":\"A=B\"},"
                   "\"inject_hosts\":[\"api.github.com\"]}"),
        ONE_SECRET(SECRET "," SECRET),
        "{\"expected_boundary\":{}}",
        "{\"expected_boundary\":{\"sandbox\":{\"mode\":\"disabled\"},\"egress\":\"some\"}}",
        "{\"expected_boundary\":{\"sandbox\":{\"mode\":\"disabled\",\"grants\":[]},"
        "\"egress\":\"deny\"}}",
        "{\"expected_boundary\":{\"sandbox\":{\"mode\":\"restricted\"},\"egress\":\"deny\"}}",
    };
    tc_result *r = NULL;
    tc_err err;
    assert_int_equal(tc_result_new(&r, &err), 0);
    for (size_t i = 0; i < TCI_ARRAY_LEN(bad); i++) {
        tc_env_options o = {.size = sizeof o};
        int rc = tc_env_recipe_parse(tci_str(bad[i]), r, &o, &err);
        if (rc != (i == 0 ? TC_E_PARSE : TC_E_INVALID))
            fail_msg("%s: %s", bad[i], tc_code_name(rc));
        assert_null(o.egress);
    }
    /* A host is the same in capitals and with a dot at its end. */
    tc_env_options o = {.size = sizeof o};
    assert_int_equal(
        tc_env_recipe_parse(
            TC_STR(ONE_SECRET("{\"env\":\"A\"," SOURCE ",\"inject_hosts\":[\"API.github.com.\"]}")),
            r, &o, &err),
        0);
    tc_result_free(r);
}

/* ---- secrets ---- */

/* A controlled device; what the session was opened with is kept. */
typedef struct seen {
    char value[64];
} seen;

#define STATUS                                                                                     \
    "\"egress\":{\"destinations\":{\"mode\":\"public\"},\"revision\":1,\"secrets\":[{\"env\":"     \
    "\"GH_TOKEN\",\"inject_hosts\":[\"api.github.com\"],\"sentinel\":\"a13n_00000000_GH_TOKEN\"}]" \
    "},"

static void play_controlled(peer *p)
{
    bool is_data;
    if (!peer_initialize(p))
        return;
    while (peer_next(p, &is_data)) {
        if (strcmp(p->method, "session.open") == 0) {
            seen *s = p->arg;
            const tci_json *secrets =
                tci_json_get(tci_json_get(&p->params, TC_STR("egress")), TC_STR("secrets"));
            tc_str value = {0};
            if (secrets == NULL || secrets->count != 1 ||
                !tci_json_as_str(tci_json_get(&secrets->u.items[0], TC_STR("value")), &value)) {
                peer_fail(p, "a session without its secret");
                return;
            }
            snprintf(s->value, sizeof s->value, "%.*s", TC_STR_ARG(value));
            peer_give_session(p);
        } else if (strcmp(p->method, "environment.readiness") == 0) {
            peer_result(p, "{\"device_id\":\"dev-1\",\"generation\":18446744073709551615,"
                           "\"ready\":true,\"session_id\":\"session-t-1\"}");
        } else {
            peer_result(p, "{\"closed\":true}");
        }
    }
}

typedef struct controlled {
    tc_runtime *rt;
    tc_device *device;
    tc_result *r;
    peer peer;
    seen seen;
    tc_err err;
} controlled;

static void controlled_open(controlled *c, const tc_runtime_options *options)
{
    memset(c, 0, sizeof *c);
    assert_ok(c, tc_runtime_open(options, &c->rt, &c->err));
    assert_ok(c, tc_result_new(&c->r, &c->err));
    c->peer.egress = "controlled";
    c->peer.descriptor_extra = STATUS;
    peer_open(&c->peer, play_controlled, &c->seen);
    int fd = c->peer.client_fd;
    assert_ok(c, tc_device_adopt_own(c->rt, NULL, fd, fd, NULL, &c->device, &c->err));
}

static void controlled_close(controlled *c)
{
    tc_device_close(c->device);
    tc_result_free(c->r);
    tc_runtime_close(c->rt);
    peer_close(&c->peer);
}

/* Make one and ready it; env may be NULL. */
static int ready_one(controlled *c, tc_env **ret_env)
{
    tc_env_options o = {.size = sizeof o, .environment_id = TC_STR("env-1")};
    tc_env *env = NULL;
    assert_ok(c, tc_env_recipe_parse(TC_STR("{" EGRESS "," EXPECTED "}"), c->r, &o, &c->err));
    assert_ok(c, tc_env_create_on_device(c->device, &o, &env, &c->err));
    int rc = tc_env_ready(env, NULL, &c->err);
    if (rc == 0 && ret_env != NULL)
        *ret_env = env;
    else
        tc_env_release(env);
    return rc;
}

static void a_secret_comes_from_the_environment_when_a_session_is_opened(void **state)
{
    TCI_UNUSED(state);
    static const char *const environment[] = {"HOST_TOKEN=t0ps3cret", NULL};
    tc_runtime_options o = {.size = sizeof o, .environment = environment};
    controlled c;
    controlled_open(&c, &o);
    tc_env *env = NULL;
    tc_str saved;
    assert_ok(&c, ready_one(&c, &env));
    assert_string_equal(c.seen.value, "t0ps3cret");
    assert_ok(&c, tc_env_state(env, c.r, &saved, &c.err));
    assert_int_equal(tci_str_find(saved, TC_STR("t0ps3cret")), saved.len);
    assert_int_equal(tci_str_find(saved, TC_STR("HOST_TOKEN")), saved.len);
    tc_env_release(env);
    controlled_close(&c);
}

static void a_missing_or_empty_source_fails_ready(void **state)
{
    TCI_UNUSED(state);
    static const char *const missing[] = {"OTHER=x", NULL};
    static const char *const empty[] = {"HOST_TOKEN=", NULL};
    const char *const *const environments[] = {missing, empty};
    for (size_t i = 0; i < TCI_ARRAY_LEN(environments); i++) {
        tc_runtime_options o = {.size = sizeof o, .environment = environments[i]};
        controlled c;
        controlled_open(&c, &o);
        assert_code(&c, TC_E_NOT_FOUND, ready_one(&c, NULL));
        assert_non_null(strstr(c.err.msg, "HOST_TOKEN"));
        assert_string_equal(c.seen.value, ""); /* no session was asked for */
        controlled_close(&c);
    }
}

/* A vault of the program's: another value each time. */
static int resolve(void *user, tc_str kind, tc_str name, tc_result *r, tc_str *ret_value,
                   tc_err *err)
{
    int *n = user;
    char value[32];
    if (!tci_str_eq(kind, TC_STR("environment")) || !tci_str_eq(name, TC_STR("HOST_TOKEN")))
        return tc_err_set(err, TC_E_NOT_FOUND, "no such secret");
    snprintf(value, sizeof value, "value-%d", ++*n);
    return tc_result_dup(r, tci_str(value), ret_value, err);
}

static void a_resolver_is_asked_again_for_every_session(void **state)
{
    TCI_UNUSED(state);
    static const char *const environment[] = {"HOST_TOKEN=not-this", NULL};
    int n = 0;
    tc_runtime_options o = {.size = sizeof o,
                            .environment = environment,
                            .resolve_secret = resolve,
                            .resolve_user = &n};
    controlled c;
    controlled_open(&c, &o);
    tc_env *env = NULL;
    assert_ok(&c, ready_one(&c, &env));
    assert_string_equal(c.seen.value, "value-1");
    tc_env_release(env);
    assert_ok(&c, ready_one(&c, &env));
    assert_string_equal(c.seen.value, "value-2");
    tc_env_release(env);
    controlled_close(&c);
}

/* ---- a local daemon does not get them ---- */

static void a_local_child_does_not_see_where_secrets_come_from(void **state)
{
    TCI_UNUSED(state);
    static const char script[] = "#!/bin/sh\nenv > \"${0%/*}/child-environment\"\n";
    static const char *const environment[] = {
        "HOST_TOKEN=t0ps3cret", "KEPT=yes", "PATH=/usr/bin:/bin", "A13N_ENVD_FULL_CONTROL=1", NULL};
    char program[4096], listing[4096];
    tc_runtime_options ro = {.size = sizeof ro, .environment = environment};
    tc_runtime *rt = NULL;
    tc_result *r = NULL;
    tc_err err;
    char *text = NULL;
    size_t len = 0;
    tci_file file = TCI_FILE_NONE;
    snprintf(program, sizeof program, "%s/daemon", getenv("TC_TEST_DIR"));
    snprintf(listing, sizeof listing, "%s/child-environment", getenv("TC_TEST_DIR"));
    assert_int_equal(
        tci_file_open(tci_str(program), TCI_OPEN_WRITE | TCI_OPEN_CREATE, 0700, &file, &err), 0);
    assert_int_equal(tci_file_write_all(file, script, sizeof script - 1, &err), 0);
    tci_file_close(&file);
    assert_int_equal(tc_runtime_open(&ro, &rt, &err), 0);
    assert_int_equal(tc_result_new(&r, &err), 0);
    tc_env_options o = {.size = sizeof o, .environment_id = TC_STR("env-1")};
    tc_local_envd_options local = {.size = sizeof local, .executable = tci_str(program)};
    tc_env *env = NULL;
    assert_int_equal(tc_env_recipe_parse(TC_STR("{" EGRESS "}"), r, &o, &err), 0);
    assert_int_equal(tc_env_create_local(rt, &o, &local, &env, &err), 0);
    assert_true(tc_env_ready(env, NULL, &err) < 0); /* it is no daemon */
    assert_int_equal(
        tci_file_read_whole(TCI_FILE_CWD, tci_str(listing), 1 << 20, &text, &len, &err), 0);
    tc_str seen_by_child = tci_str_of(text, len);
    assert_true(tci_str_find(seen_by_child, TC_STR("KEPT=yes")) < len);
    assert_int_equal(tci_str_find(seen_by_child, TC_STR("HOST_TOKEN")), len);
    assert_int_equal(tci_str_find(seen_by_child, TC_STR("t0ps3cret")), len);
    assert_int_equal(tci_str_find(seen_by_child, TC_STR("A13N_ENVD_FULL_CONTROL")), len);
    tci_free(text);
    tc_env_release(env);
    tc_result_free(r);
    tc_runtime_close(rt);
}

/* ---- websocket_envd ---- */

typedef struct dialled {
    tc_runtime *rt;
    tc_result *r;
    tc_connections *connections;
    tc_env_options options;
    tc_err err;
} dialled;

static void dialled_open(dialled *d)
{
    memset(d, 0, sizeof *d);
    assert_ok(d, tc_runtime_open(NULL, &d->rt, &d->err));
    assert_ok(d, tc_result_new(&d->r, &d->err));
    assert_ok(d, tc_connections_open(d->rt, NULL, &d->connections, &d->err));
    d->options =
        (tc_env_options){.size = sizeof d->options, .environment_id = TC_STR("env-my-project")};
    assert_ok(d, tc_env_state_make(TC_STR("websocket_envd"), TC_STR("dev-1"), d->r,
                                   &d->options.state, &d->err));
}

static void dialled_close(dialled *d)
{
    tc_connections_close(d->connections);
    tc_result_free(d->r);
    tc_runtime_close(d->rt);
}

static void an_adapter_without_connections_touches_nothing_and_says_so(void **state)
{
    TCI_UNUSED(state);
    dialled d;
    tc_env *env = NULL;
    dialled_open(&d);
    tc_websocket_options none = {.size = sizeof none};
    const tc_websocket_options *const given[] = {NULL, &none};
    for (size_t i = 0; i < TCI_ARRAY_LEN(given); i++) {
        assert_ok(&d, tc_env_create_websocket(d.rt, &d.options, given[i], &env, &d.err));
        assert_code(&d, TC_E_NOT_READY, tc_env_ready(env, NULL, &d.err));
        assert_non_null(strstr(d.err.msg, "no connections"));
        assert_code(&d, TC_E_NOT_READY, tc_env_ready(env, NULL, &d.err)); /* a new one is needed */
        tc_env_release(env);
    }
    dialled_close(&d);
}

static void create_only_checks(void **state)
{
    TCI_UNUSED(state);
    dialled d;
    tc_env *env = NULL;
    tc_runtime *other = NULL;
    dialled_open(&d);
    tc_websocket_options o = {.size = sizeof o, .connections = d.connections};
    tc_env_options recipe = d.options;
    recipe.allow_create = true;
    assert_code(&d, TC_E_UNSUPPORTED, tc_env_create_websocket(d.rt, &recipe, &o, &env, &d.err));
    recipe = d.options;
    recipe.state = (tc_str){0};
    assert_code(&d, TC_E_INVALID, tc_env_create_websocket(d.rt, &recipe, &o, &env, &d.err));
    assert_ok(&d,
              tc_env_state_make(TC_STR("http_envd"), TC_STR("dev-1"), d.r, &recipe.state, &d.err));
    assert_code(&d, TC_E_INCOMPATIBLE, tc_env_create_websocket(d.rt, &recipe, &o, &env, &d.err));
    assert_ok(&d, tc_runtime_open(NULL, &other, &d.err));
    assert_code(&d, TC_E_INVALID, tc_env_create_websocket(other, &d.options, &o, &env, &d.err));
    tc_runtime_close(other);

    /* What it would save says who, and nothing about how. */
    tc_str saved;
    assert_ok(&d, tc_env_create_websocket(d.rt, &d.options, &o, &env, &d.err));
    assert_ok(&d, tc_env_state(env, d.r, &saved, &d.err));
    assert_true(tci_str_eq(saved, d.options.state));
    assert_true(tci_str_eq(tc_env_provider(env), TC_STR("websocket_envd")));
    tc_env_release(env);
    dialled_close(&d);
}

static void ready_waits_as_long_as_it_may(void **state)
{
    TCI_UNUSED(state);
    dialled d;
    tc_env *env = NULL;
    dialled_open(&d);
    tc_websocket_options o = {
        .size = sizeof o, .connections = d.connections, .connection_timeout_ms = 20};
    assert_ok(&d, tc_env_create_websocket(d.rt, &d.options, &o, &env, &d.err));
    assert_code(&d, TC_E_TIMEOUT, tc_env_ready(env, NULL, &d.err));
    tc_env_release(env);
    o.connection_timeout_ms = 600000;
    tc_ctx *ctx = NULL;
    assert_ok(&d, tc_ctx_new(-1, &ctx, &d.err));
    tc_ctx_cancel(ctx);
    assert_ok(&d, tc_env_create_websocket(d.rt, &d.options, &o, &env, &d.err));
    assert_code(&d, TC_E_CANCELLED, tc_env_ready(env, ctx, &d.err));
    tc_env_release(env);
    tc_ctx_free(ctx);
    /* Connections that are closed before the adapter. */
    assert_ok(&d, tc_env_create_websocket(d.rt, &d.options, &o, &env, &d.err));
    tc_connections_close(d.connections);
    d.connections = NULL;
    assert_code(&d, TC_E_CLOSED, tc_env_ready(env, NULL, &d.err));
    tc_env_release(env);
    dialled_close(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_recipe_is_read_as_references),
        cmocka_unit_test(what_a_recipe_may_not_say),
        cmocka_unit_test(a_secret_comes_from_the_environment_when_a_session_is_opened),
        cmocka_unit_test(a_missing_or_empty_source_fails_ready),
        cmocka_unit_test(a_resolver_is_asked_again_for_every_session),
        cmocka_unit_test(a_local_child_does_not_see_where_secrets_come_from),
        cmocka_unit_test(an_adapter_without_connections_touches_nothing_and_says_so),
        cmocka_unit_test(create_only_checks),
        cmocka_unit_test(ready_waits_as_long_as_it_may),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
