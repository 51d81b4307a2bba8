/* SPDX-License-Identifier: Apache-2.0
 *
 * See fixture.h. */
#include "fixture.h"

#include "plat/proc.h"
#include "plat/system.h"
#include <stdio.h>
#include <stdlib.h>

static void reply(tci_carrier *c, void *reply_to, bool is_refused, tci_buf *body)
{
    tc_err err;
    tc_str copy;
    fixture *f = TCI_CONTAINER(c, fixture, carrier);
    TCI_UNUSED(reply_to);
    assert_non_null(body);
    assert_true(f->nreplies < REPLIES_MAX);
    f->nrefused += is_refused;
    assert_int_equal(tci_arena_dup(&f->arena, tci_buf_str(body), &copy, &err), 0);
    assert_int_equal(tci_json_parse(copy, 0, &f->arena, &f->replies[f->nreplies], &err), 0);
    f->nreplies++;
}

static void send_frame(tci_carrier *c, tci_out_frame *out)
{
    tc_err err;
    tc_str copy;
    fixture *f = TCI_CONTAINER(c, fixture, carrier);
    assert_true(f->nframes < FRAMES_MAX);
    assert_int_equal(tci_arena_dup(&f->arena, tci_str_of(out->bytes, out->len), &copy, &err), 0);
    assert_int_equal(tci_eipd_decode(copy, &f->frames[f->nframes], &err), 0);
    f->nframes++;
    out->on_sent(out, true);
}

static void carrier_free(tci_carrier *c)
{
    tci_link_remove(&c->link);
}

static const tci_carrier_vtable vtable = {reply, send_frame, carrier_free};

static tc_str in_folder(fixture *f, const char *name)
{
    tc_err err;
    tc_str path;
    assert_int_equal(tci_arena_printf(&f->config.arena, &path, &err, "%s/%s", f->folder, name), 0);
    return path;
}

static void full_control(fixture *f)
{
    tci_config *c = &f->config;
    c->full_control = c->has_commands = true;
    c->roots = tci_arena_items(&c->arena, tc_str, 2);
    c->roots[0] = TC_STR("/usr/bin");
    c->roots[1] = TC_STR("/bin");
    c->nroots = 2;
    c->profiles = tci_arena_items(&c->arena, tci_shell_profile, 1);
    c->nprofiles = 1;
    tc_str *arg = tci_arena_items(&c->arena, tc_str, 1);
    *arg = TC_STR("-c");
    c->profiles[0] = (tci_shell_profile){.id = TC_STR("default"),
                                         .display_name = TC_STR("POSIX shell"),
                                         .executable = TC_STR("/bin/sh"),
                                         .fixed_arguments = arg,
                                         .nfixed_arguments = 1,
                                         .max_script_bytes = 1 << 20};
}

void fixture_prepare(fixture *f)
{
    static unsigned runs;
    memset(f, 0, sizeof *f);
    tci_system_ignore_sigpipe(); /* as the daemon's main does */
    const char *base = getenv("TC_TEST_DIR");
    assert_non_null(base);
    (void)snprintf(f->folder, sizeof f->folder, "%s/run%u", base, ++runs);
    tc_err err;
    assert_int_equal(tci_file_mkdir(TCI_FILE_CWD, tci_str(f->folder), 0700, &err), 0);
    tci_arena_init(&f->arena, 0);
    tci_arena_init(&f->config.arena, 0);
#define X(name, value) f->config.limits.name = value;
    TCI_LIMITS(X)
#undef X
    f->config.idle_timeout_ms = 1800000;
    f->config.disconnect_grace_ms = 30000;
    f->config.directory_discovery = true;
    f->config.device_id = TC_STR("device-1");
    f->config.default_working_directory = in_folder(f, "");
    f->config.default_working_directory.len--; /* without the slash */
    f->config.state_dir = in_folder(f, "state");
    f->config.runtime_dir = in_folder(f, "runtime");
    full_control(f);
}

void fixture_start(fixture *f)
{
    tc_err err;
    assert_int_equal(tci_loop_new(&f->loop, &err), 0);
    assert_int_equal(tci_device_new(f->loop, &f->config, &f->device, &err), 0);
    f->carrier = (tci_carrier){.v = &vtable, .device = f->device, .refs = 1};
    tci_list_push_back(&f->device->carriers, &f->carrier.link);
    assert_ok(
        answer(f, ask_in(f, NULL, "initialize",
                         "{\"supported_protocol_versions\":[\"0.3\"],\"client\":{\"name\":\"t\","
                         "\"version\":\"1\"}}")));
}

void fixture_open_session(fixture *f)
{
    const tci_json *r =
        answer(f, ask_in(f, NULL, "session.open",
                         "{\"expected_device_id\":\"device-1\",\"expected_generation\":%llu,"
                         "\"protocol_version\":\"0.3\"}",
                         (unsigned long long)f->device->generation));
    assert_ok(r);
    tc_str id = text_at(r, "result", "descriptor", "session_id");
    (void)snprintf(f->session, sizeof f->session, "%.*s", TC_STR_ARG(id));
    assert_ok(
        answer(f, ask(f, "environment.readiness", "{\"context\":{\"operation_id\":\"ready\"}}")));
}

static void drained(tci_drain *d, bool is_clean)
{
    TCI_UNUSED(d);
    assert_true(is_clean);
}

void fixture_stop(fixture *f)
{
    tci_drain drain = {.done = drained, .nwaiting = 1};
    tci_device_drain(f->device, &drain);
    wait_until(f, drain.nwaiting == 0 && f->device->ninflight == 0 && f->device->nsessions == 0 &&
                      tci_loop_pending_jobs(f->loop) == 0);
    f->carrier.is_closed = true;
    tci_carrier_unref(&f->carrier);
    tci_device_free(f->device);
    tci_loop_free(f->loop);
    tci_arena_done(&f->config.arena);
    tci_arena_done(&f->arena);
}

static uint64_t TC_PRINTF(4, 0)
    vask(fixture *f, const char *session, const char *method, const char *params, va_list ap)
{
    char *p = NULL;
    tci_buf b;
    assert_true(vasprintf(&p, params, ap) >= 0);
    tci_buf_init(&b, TCI_BUF_MAX);
    uint64_t id = ++f->next_id;
    tci_buf_printf(&b, "{\"jsonrpc\":\"2.0\",\"id\":%llu,\"method\":\"%s\",\"params\":",
                   (unsigned long long)id, method);
    tci_buf_append_str(&b, tci_str(p));
    if (session != NULL)
        tci_buf_printf(&b, ",\"eip_session\":\"%s\"", session);
    tci_buf_append_byte(&b, '}');
    tci_dispatch(&f->carrier, NULL, tci_buf_str(&b), NULL);
    tci_buf_done(&b);
    free(p);
    return id;
}

uint64_t ask(fixture *f, const char *method, const char *params, ...)
{
    va_list ap;
    va_start(ap, params);
    uint64_t id = vask(f, f->session, method, params, ap);
    va_end(ap);
    return id;
}

uint64_t ask_in(fixture *f, const char *session, const char *method, const char *params, ...)
{
    va_list ap;
    va_start(ap, params);
    uint64_t id = vask(f, session, method, params, ap);
    va_end(ap);
    return id;
}

static const tci_json *find_reply(const fixture *f, uint64_t id)
{
    for (size_t i = 0; i < f->nreplies; i++) {
        uint64_t got;
        const tci_json *v = tci_json_get(&f->replies[i], TC_STR("id"));
        if (v != NULL && tci_json_as_u64(v, &got) && got == id)
            return &f->replies[i];
    }
    return NULL;
}

bool is_answered(const fixture *f, uint64_t id)
{
    return find_reply(f, id) != NULL;
}

const tci_json *answer(fixture *f, uint64_t id)
{
    wait_until(f, is_answered(f, id));
    return find_reply(f, id);
}

const tci_json *at(const tci_json *v, ...)
{
    va_list ap;
    va_start(ap, v);
    for (const char *key; v != NULL && (key = va_arg(ap, const char *)) != NULL;)
        v = tci_json_get(v, tci_str(key));
    va_end(ap);
    return v;
}

tc_str text_at(const tci_json *v, const char *a, const char *b, const char *c)
{
    tc_str s = TC_STR("");
    const tci_json *found = at(v, a, b, c, NULL);
    if (found != NULL)
        (void)tci_json_as_str(found, &s); /* another type compares as empty */
    return s;
}

uint64_t number_at(const tci_json *v, const char *a, const char *b, const char *c)
{
    uint64_t n = UINT64_MAX;
    const tci_json *found = at(v, a, b, c, NULL);
    if (found != NULL)
        (void)tci_json_as_u64(found, &n); /* another type compares as the largest number */
    return n;
}

tc_str error_type(const tci_json *r)
{
    return text_at(r, "error", "data", "error_type");
}

void assert_str_at(tc_str got, const char *want, const char *file, int line)
{
    if (tci_str_eq(got, tci_str(want)))
        return;
    print_error("'%.*s' is not '%s'\n", TC_STR_ARG(got), want);
    _fail(file, line);
}

void send_data(fixture *f, tci_eipd_kind kind, tci_eipd_status status, tc_str handle,
               uint64_t offset, tc_str payload)
{
    char *own = NULL;
    tci_eipd e = {.kind = kind,
                  .status = status,
                  .offset = offset,
                  .session = tci_str(f->session),
                  .handle = handle};
    if (payload.len > 0) {
        own = tci_mem_alloc(payload.len);
        assert_non_null(own);
        memcpy(own, payload.ptr, payload.len);
        e.payload = tci_str_of(own, payload.len);
    }
    tci_frames_receive(&f->carrier, &e, own, payload.len);
}
