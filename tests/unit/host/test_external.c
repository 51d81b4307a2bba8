/* SPDX-License-Identifier: Apache-2.0
 *
 * Whom a name means, and targets that the Host connects to itself, as rows and as connections that do not come
 * about. What a connection is good for is tested with the command. */
#include "host/records/external.h"
#include "plat/file.h"
#include "plat/thread.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define FOLDER TC_STR("external-records")
#define START INT64_C(1790000000000)
enum { SECOND = 1000 };

typedef struct rig {
    tci_host_db *db;
    tci_arena arena;
    int64_t now_ms;
    tc_err err;
} rig;

static int setup(void **state)
{
    static const char *const names[] = {"host.sqlite", "host.sqlite-wal", "host.sqlite-shm"};
    rig *r = tci_new(rig);
    for (size_t i = 0; i < TCI_ARRAY_LEN(names); i++) {
        char path[64];
        (void)snprintf(path, sizeof path, "external-records/%s", names[i]);
        (void)unlink(path);
    }
    r->now_ms = START;
    tci_arena_init(&r->arena, 0);
    if (tci_host_db_open(FOLDER, &r->db, &r->err) < 0)
        fail_msg("%s", r->err.msg);
    *state = r;
    return 0;
}

static int teardown(void **state)
{
    rig *r = *state;
    tci_host_db_close(r->db);
    tci_arena_done(&r->arena);
    tci_free(r);
    return 0;
}

/* A device that asks to be let in; its id, and its code. */
static tci_pair_answer pair(rig *r, const char *device_id, const char *name)
{
    tci_pair_answer answer;
    tci_pair_ask ask = {.device_id = tci_str(device_id),
                        .name = tci_str(name),
                        .digest = tci_digest_of(tci_str(device_id)),
                        .address = TC_STR("192.0.2.7"),
                        .may_begin = true};
    r->now_ms += SECOND;
    if (tci_host_pair(r->db, r->now_ms, &ask, &r->arena, &answer, &r->err) < 0)
        fail_msg("%s", r->err.msg);
    assert_int_equal(answer.status, TCI_PAIR_PENDING);
    return answer;
}

static tc_str approved(rig *r, const char *device_id, const char *name)
{
    tci_host_device d;
    tci_pair_answer asked = pair(r, device_id, name);
    tci_challenge_ref which = {.code = asked.code};
    if (tci_host_approve(r->db, r->now_ms, &which, &r->arena, &d, &r->err) < 0)
        fail_msg("%s", r->err.msg);
    return asked.id;
}

static void revoke_one(rig *r, tc_str named)
{
    tci_host_device d;
    r->now_ms += SECOND;
    if (tci_host_revoke(r->db, r->now_ms, named, &r->arena, &d, &r->err) < 0)
        fail_msg("%s", r->err.msg);
}

static int add(rig *r, tc_str name, tci_host_device *ret)
{
    tci_external_ask ask = {.name = name,
                            .url = TC_STR("http://127.0.0.1:1"),
                            .device_id = TC_STR("env-1"),
                            .credential_file = TC_STR("/nowhere/credential")};
    return tci_external_add(r->db, r->now_ms, &ask, &r->arena, ret, &r->err);
}

static void check_means(rig *r, tc_str named, tc_str id)
{
    tci_host_device d;
    if (tci_host_device_get(r->db, r->now_ms, named, &r->arena, &d, &r->err) < 0)
        fail_msg("'%.*s': %s", TC_STR_ARG(named), r->err.msg);
    if (!tci_str_eq(d.id, id))
        fail_msg("'%.*s' is %.*s, not %.*s", TC_STR_ARG(named), TC_STR_ARG(d.id), TC_STR_ARG(id));
}

static void check_means_none(rig *r, tc_str named, int code)
{
    tci_host_device d;
    assert_int_equal(tci_host_device_get(r->db, r->now_ms, named, &r->arena, &d, &r->err), code);
}

static void test_name_means_who_can_be_asked(void **state)
{
    rig *r = *state;
    check_means_none(r, TC_STR("work"), TC_E_NOT_FOUND);
    check_means_none(r, TC_STR(""), TC_E_NOT_FOUND);
    tc_str waiting = pair(r, "one", "work").id;
    check_means(r, TC_STR("work"), waiting);
    tc_str first = approved(r, "two", "work");
    check_means(r, TC_STR("work"), first);
    tc_str second = approved(r, "three", "work");
    check_means_none(r, TC_STR("work"), TC_E_CONFLICT);
    check_means(r, first, first); /* an id is never two */
    revoke_one(r, first);
    check_means(r, TC_STR("work"), second);
    revoke_one(r, TC_STR("work"));
    check_means(r, TC_STR("work"), waiting); /* of those that are left */
    revoke_one(r, waiting);
    check_means(r, TC_STR("work"), waiting); /* the last one that was revoked */
    check_means_none(r, TC_STR("Work"), TC_E_NOT_FOUND);
    check_means_none(r, TC_STR("one"), TC_E_NOT_FOUND); /* an identity is no name */
}

static void test_external_name_is_nobody_elses(void **state)
{
    rig *r = *state;
    tci_host_device gpu, other;
    tc_str work = approved(r, "one", "work");
    assert_int_equal(add(r, TC_STR("gpu"), &gpu), 0);
    assert_int_equal(gpu.kind, TCI_HOST_EXTERNAL);
    assert_int_equal(gpu.state, TCI_HOST_APPROVED);
    check_means(r, TC_STR("gpu"), gpu.id);
    check_means(r, gpu.id, gpu.id);
    assert_int_equal(add(r, TC_STR("gpu"), &other), TC_E_CONFLICT);
    assert_int_equal(add(r, TC_STR("work"), &other), TC_E_CONFLICT);
    assert_int_equal(add(r, work, &other), TC_E_CONFLICT);
    assert_int_equal(add(r, gpu.id, &other), TC_E_CONFLICT);
    revoke_one(r, work);
    assert_int_equal(add(r, TC_STR("work"), &other), 0); /* who was revoked cannot be asked */
    check_means(r, TC_STR("work"), other.id);
    (void)approved(r, "two", "gpu"); /* a device calls itself what it likes */
    check_means_none(r, TC_STR("gpu"), TC_E_CONFLICT);
    assert_int_equal(tci_host_revoke(r->db, r->now_ms, gpu.id, &r->arena, &other, &r->err),
                     TC_E_CONFLICT);
    assert_int_equal(tci_external_remove(r->db, gpu.id, &r->err), 0);
    check_means_none(r, gpu.id, TC_E_NOT_FOUND);
}

static void test_external_ones_are_listed_and_limited(void **state)
{
    rig *r = *state;
    tci_host_device d, *list;
    size_t count = 0;
    (void)approved(r, "one", "work");
    for (int i = 0; i < TCI_EXTERNALS_MAX; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "x%03d", i);
        assert_int_equal(add(r, tci_str(name), &d), 0);
    }
    assert_int_equal(add(r, TC_STR("more"), &d), TC_E_QUOTA);
    assert_int_equal(tci_host_devices(r->db, r->now_ms, &r->arena, &list, &count, &r->err), 0);
    assert_int_equal(count, 1 + TCI_EXTERNALS_MAX);
    assert_int_equal(list[0].kind, TCI_HOST_LINKED);
    assert_true(tci_str_eq(list[1].name, TC_STR("x000")));
    assert_true(tci_str_eq(list[count - 1].name, TC_STR("x255")));
    assert_int_equal(tci_external_seen(r->db, d.id, START + 5, &r->err), 0);
    assert_int_equal(tci_external_find(r->db, d.id, &r->arena, &d, &r->err), 1);
    assert_int_equal(d.seen_ms, START + 5);
}

/* ---- connections ---- */

#define CREDENTIAL "external-credential"

static void write_credential(void)
{
    FILE *f = fopen(CREDENTIAL, "w");
    assert_non_null(f);
    (void)fputs("0123456789\n", f);
    (void)fclose(f);
    assert_int_equal(chmod(CREDENTIAL, 0600), 0);
}

static void test_why_it_is_not_reached(void **state)
{
    rig *r = *state;
    tci_host_device d;
    tc_device *device;
    tc_runtime *rt;
    tci_outside *o;
    assert_int_equal(tc_runtime_open(NULL, &rt, &r->err), 0);
    assert_int_equal(tci_outside_new(rt, &o, &r->err), 0);
    assert_int_equal(add(r, TC_STR("gpu"), &d), 0);
    assert_int_equal(tci_outside_reach(o, d.id, NULL, &device, &r->err), TC_E_NOT_FOUND);
    assert_int_equal(tci_outside_add(o, &d, &r->err), 0);
    assert_int_equal(tci_outside_reach(o, d.id, NULL, &device, &r->err), TC_E_NOT_READY);
    assert_int_equal(r->err.cause, TC_E_NOT_FOUND); /* the file */
    assert_null(tci_outside_peek(o, d.id));
    assert_int_equal(tci_outside_mark(o, &d, &r->arena, &r->err), 0);
    assert_false(d.is_online);
    assert_true(d.asked_ms > 0);
    assert_int_equal(d.trouble_code, TC_E_NOT_FOUND);
    tci_outside_hasten(o);
    tci_outside_remove(o, d.id);
    assert_int_equal(tci_outside_reach(o, d.id, NULL, &device, &r->err), TC_E_NOT_FOUND);
    tci_outside_free(o);
    tc_runtime_close(rt);
}

static void test_cancelled_is_not_offline(void **state)
{
    rig *r = *state;
    tci_host_device d;
    tc_device *device;
    tc_runtime *rt;
    tci_outside *o;
    tc_ctx *ctx;
    assert_int_equal(tc_runtime_open(NULL, &rt, &r->err), 0);
    assert_int_equal(tci_outside_new(rt, &o, &r->err), 0);
    assert_int_equal(tc_ctx_new(-1, &ctx, &r->err), 0);
    write_credential();
    assert_int_equal(add(r, TC_STR("gpu"), &d), 0);
    char path[TCI_PATH_MAX];
    assert_int_equal(tci_file_realpath(TC_STR(CREDENTIAL), path, &d.credential_file, &r->err), 0);
    tc_ctx_cancel(ctx);
    assert_int_equal(tci_outside_add(o, &d, &r->err), 0);
    assert_int_equal(tci_outside_reach(o, d.id, ctx, &device, &r->err), TC_E_CANCELLED);
    tci_outside_free(o);
    tc_ctx_free(ctx);
    tc_runtime_close(rt);
    (void)unlink(CREDENTIAL);
}

typedef struct worker {
    tci_outside *o;
    tci_host_device d;
    tci_thread *thread;
    int nwrong;
} worker;

static void use_it(void *arg)
{
    enum { TIMES = 40 };
    worker *w = arg;
    tc_err err;
    tci_arena a;
    tc_device *device;
    tci_arena_init(&a, 0);
    for (int i = 0; i < TIMES; i++) {
        tci_host_device d = w->d;
        tci_outside_hasten(w->o);
        w->nwrong += tci_outside_reach(w->o, d.id, NULL, &device, &err) == 0;
        w->nwrong += tci_outside_mark(w->o, &d, &a, &err) < 0;
        tc_device_close(tci_outside_peek(w->o, d.id));
    }
    tci_arena_done(&a);
}

/* Nobody answers there; some of them are removed while they are being asked. */
static void test_many_work_at_once(void **state)
{
    enum { TARGETS = 3, WORKERS = 6 };
    rig *r = *state;
    tci_host_device d[TARGETS];
    tc_runtime *rt;
    tci_outside *o;
    worker workers[WORKERS];
    assert_int_equal(tc_runtime_open(NULL, &rt, &r->err), 0);
    assert_int_equal(tci_outside_new(rt, &o, &r->err), 0);
    write_credential();
    for (int i = 0; i < TARGETS; i++) {
        char name[16], path[TCI_PATH_MAX];
        (void)snprintf(name, sizeof name, "x%d", i);
        assert_int_equal(add(r, tci_str(name), &d[i]), 0);
        assert_int_equal(
            tci_file_realpath(TC_STR(CREDENTIAL), path, &d[i].credential_file, &r->err), 0);
        assert_int_equal(tci_outside_add(o, &d[i], &r->err), 0);
    }
    for (int i = 0; i < WORKERS; i++) {
        workers[i] = (worker){.o = o, .d = d[i % TARGETS]};
        assert_int_equal(tci_thread_new(use_it, &workers[i], 0, &workers[i].thread, &r->err), 0);
    }
    tci_outside_remove(o, d[0].id);
    tci_outside_remove(o, d[1].id);
    for (int i = 0; i < WORKERS; i++) {
        tci_thread_join(workers[i].thread);
        assert_int_equal(workers[i].nwrong, 0);
    }
    tci_outside_free(o); /* while the last one may be asked */
    tc_runtime_close(rt);
    (void)unlink(CREDENTIAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_name_means_who_can_be_asked, setup, teardown),
        cmocka_unit_test_setup_teardown(test_external_name_is_nobody_elses, setup, teardown),
        cmocka_unit_test_setup_teardown(test_external_ones_are_listed_and_limited, setup, teardown),
        cmocka_unit_test_setup_teardown(test_why_it_is_not_reached, setup, teardown),
        cmocka_unit_test_setup_teardown(test_cancelled_is_not_offline, setup, teardown),
        cmocka_unit_test_setup_teardown(test_many_work_at_once, setup, teardown),
    };
    return cmocka_run_group_tests_name("host_external", tests, NULL, NULL);
}
