/* SPDX-License-Identifier: Apache-2.0
 *
 * Much work, and work that is stopped: many short commands of which half are cancelled, and sessions that are
 * closed while everything a session can hold is in flight. */
#include "rig.h"

#include "plat/clock.h"
#include "plat/fd.h"

#include <dirent.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_MAX = 64 * 1024, AT_ONCE = 8 };

#define OP "{\"context\":{\"operation_id\":\"%o\"}"
#define SCRIPT(text)                                                                              \
    ",\"request\":{\"command\":{\"kind\":\"shell\",\"profile_id\":\"default\",\"script\":\"" text \
    "\"}"

static char answer[TEXT_MAX];

static uint32_t next_random(uint32_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 17;
    *seed ^= *seed << 5;
    return *seed;
}

static size_t names_in(const char *path)
{
    size_t n = 0;
    DIR *d = opendir(path);
    assert_non_null(d);
    while (readdir(d) != NULL)
        n++;
    assert_int_equal(closedir(d), 0);
    return n;
}

/* ---- closing ---- */

typedef struct in_flight {
    unsigned ids[64];
    const char *names[64];
    bool is_answered[64];
    size_t n;
    bool is_clean; /* session.close said so */
} in_flight;

static void take_answer(rig *r, tc_str body)
{
    in_flight *f = r->user;
    for (size_t i = 0; i < f->n; i++) {
        char key[32];
        (void)snprintf(key, sizeof key, "\"id\":%u,", f->ids[i]);
        if (memmem(body.ptr, body.len, key, strlen(key)) == NULL)
            continue;
        assert_false(f->is_answered[i]);
        f->is_answered[i] = true;
        f->is_clean = f->is_clean || memmem(body.ptr, body.len, "\"closed\":true", 13) != NULL;
    }
}

static bool is_all_answered(const in_flight *f)
{
    for (size_t i = 0; i < f->n; i++)
        if (!f->is_answered[i])
            return false;
    return true;
}

static void begin(rig *r, in_flight *f, const char *method, const char *params)
{
    assert_true(f->n + 1 < sizeof f->ids / sizeof *f->ids);
    f->names[f->n] = method;
    f->ids[f->n] = rig_ask(r, true, method, params);
    assert_int_not_equal(f->ids[f->n++], 0);
}

static void start_commands(rig *r, in_flight *f)
{
    for (int i = 0; i < 2; i++) {
        rig_do(r, true, "process.start", OP SCRIPT("trap '' TERM; echo a; sleep 60") "}}", answer,
               sizeof answer);
        assert_true(rig_text(answer, "handle", r->handle, sizeof r->handle));
        assert_true(rig_text(answer, "reference", r->out, sizeof r->out));
        begin(r, f, "process.wait", OP ",\"handle\":\"%h\",\"condition\":\"tree_cleaned\"}");
        begin(r, f, "process.wait", OP ",\"handle\":\"%h\",\"condition\":\"initial_terminal\"}");
        begin(r, f, "output.read",
              OP ",\"reference\":\"%r\",\"start_offset\":2,\"wait_ms\":20000}");
        begin(r, f, "shell.exec", OP SCRIPT("sleep 60 & sleep 60") "}}");
    }
    begin(r, f, "process.start", OP SCRIPT("exec sleep 60") "}}");
    begin(r, f, "port.wait",
          OP ",\"target\":{\"protocol\":\"tcp\",\"address\":\"loopback\",\"port\":9},\"desired_"
             "status\":\"listening\"}");
    begin(r, f, "file.search",
          OP ",\"root\":{\"path\":\"/usr/"
             "include\"},\"query\":\"zz[a-z]+zz\",\"mode\":\"regex\",\"max_results\":9,"
             "\"max_line_length\":99}");
    begin(r, f, "file.find",
          OP ",\"root\":{\"path\":\"/usr/include\"},\"pattern\":\"**/q*zz\",\"max_results\":9}");
}

static void start_transfers(rig *r, in_flight *f, uint32_t *seed)
{
    char params[256];
    static char chunk[200 * 1024];
    for (unsigned i = 0; i < 3; i++) {
        (void)snprintf(params, sizeof params,
                       "{\"context\":{\"operation_id\":\"%%o\"},\"path\":{\"path\":\"%%d/"
                       "up%u\"},\"mode\":\"create\"}",
                       i);
        rig_do(r, true, "file.open_writer", params, answer, sizeof answer);
        assert_true(rig_text(answer, "writer", r->handle, sizeof r->handle));
        assert_true(rig_data(r, TCI_EIPD_ATTACH, 0, r->handle, 0, NULL, 0));
        uint64_t at = 0;
        for (uint32_t n = next_random(seed) % 4; n > 0; n--, at += sizeof chunk)
            assert_true(rig_data(r, TCI_EIPD_CHUNK, 0, r->handle, at, chunk, sizeof chunk));
        if (next_random(seed) % 2 == 0)
            assert_true(rig_data(r, TCI_EIPD_END, 0, r->handle, at, NULL, 0));
        rig_do(r, true, "file.open_reader", OP ",\"path\":{\"path\":\"%d/big\"}}", answer,
               sizeof answer);
        assert_true(rig_text(answer, "reader", r->handle, sizeof r->handle));
        assert_true(rig_data(r, TCI_EIPD_ATTACH, 0, r->handle, 0, NULL, 0));
    }
    begin(r, f, "file.open_writer", OP ",\"path\":{\"path\":\"%d/late\"},\"mode\":\"create\"}");
}

static void fail_with(const in_flight *f)
{
    for (size_t i = 0; i < f->n; i++)
        if (!f->is_answered[i])
            print_error("no answer to the %zu. request (%s)\n", i, f->names[i]);
    fail_msg("requests are not answered");
}

static void test_a_session_closes_clean_with_everything_in_flight(void **state)
{
    rig r;
    uint32_t seed = 7;
    char runtime[700];
    TCI_UNUSED(state);
    rig_prepare(&r);
    rig_start(&r);
    rig_write_file(&r, "big", 3 << 20);
    rig_open_session(&r);
    rig_do(&r, true, "session.close", "{}", NULL, 0);
    size_t files = names_in(r.folder);
    for (int round = 0; round < 50; round++) {
        in_flight f = {.n = 0};
        rig_open_session(&r);
        r.user = &f;
        r.on_other = take_answer;
        start_commands(&r, &f);
        start_transfers(&r, &f, &seed);
        for (uint32_t n = next_random(&seed) % 12; n > 0; n--)
            rig_turn(&r, 1);
        begin(&r, &f, "session.close", "{}");
        int64_t until = tci_clock_mono_ns() + RIG_PATIENCE_NS;
        while (!is_all_answered(&f)) {
            seen s;
            if (tci_clock_mono_ns() >= until || r.has_ended)
                fail_with(&f);
            if (!rig_take(&r, &s))
                rig_turn(&r, 10);
            else if (!s.is_data)
                take_answer(&r, s.body);
        }
        r.on_other = NULL;
        assert_true(f.is_clean);
        rig_counters_are_zero(&r);
        assert_int_equal(names_in(r.folder), files); /* nothing staged is left */
    }
    (void)snprintf(runtime, sizeof runtime, "%.*s",
                   TC_STR_ARG(tci_runtime_dir_spool(r.device->runtime)));
    assert_int_equal(names_in(runtime), 2); /* . and .. */
    rig_stop(&r);
}

static void test_the_link_ends_with_everything_in_flight(void **state)
{
    uint32_t seed = 11;
    TCI_UNUSED(state);
    for (int round = 0; round < 5; round++) {
        rig r;
        in_flight f = {.n = 0};
        rig_prepare(&r);
        rig_start(&r);
        rig_write_file(&r, "big", 3 << 20);
        rig_open_session(&r);
        start_commands(&r, &f);
        start_transfers(&r, &f, &seed);
        for (uint32_t n = next_random(&seed) % 12; n > 0; n--)
            rig_turn(&r, 1);
        rig_stop(&r);
    }
}

/* ---- many commands ---- */

typedef struct counts {
    size_t descriptors, threads, bytes;
} counts;

static counts now(void)
{
    counts c = {.descriptors = names_in("/proc/self/fd"), .threads = names_in("/proc/self/task")};
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    c.bytes = mallinfo2().uordblks;
#endif
    return c;
}

/* A few at a time; every second one is cancelled, some turns later. */
static void run_commands(rig *r, unsigned n, uint32_t *seed)
{
    static unsigned number;
    unsigned ids[AT_ONCE], cancels[AT_ONCE];
    for (unsigned done = 0; done < n; done += AT_ONCE) {
        char params[300];
        for (unsigned i = 0; i < AT_ONCE; i++) {
            (void)snprintf(params, sizeof params,
                           "{\"context\":{\"operation_id\":\"run-%u\"}" SCRIPT("%s") "}}",
                           number + i,
                           next_random(seed) % 3 == 0 ? "echo out; sleep 0.01" : "exit 3");
            ids[i] = rig_ask(r, true, "shell.exec", params);
        }
        for (unsigned i = 0; i < AT_ONCE; i++) {
            cancels[i] = 0;
            for (uint32_t turns = next_random(seed) % 4; turns > 0; turns--)
                rig_turn(r, 1);
            if (i % 2 == 0)
                continue;
            (void)snprintf(
                params, sizeof params,
                "{\"context\":{\"operation_id\":\"%%o\"},\"target_operation_id\":\"run-%u\"}",
                number + i);
            cancels[i] = rig_ask(r, true, "operation.cancel", params);
        }
        number += AT_ONCE;
        for (unsigned left = AT_ONCE + AT_ONCE / 2; left > 0;) {
            seen s;
            assert_false(r->has_ended);
            if (!rig_take(r, &s)) {
                rig_turn(r, 10);
                continue;
            }
            for (unsigned i = 0; i < AT_ONCE; i++) {
                char key[2][32];
                (void)snprintf(key[0], sizeof key[0], "\"id\":%u,", ids[i]);
                (void)snprintf(key[1], sizeof key[1], "\"id\":%u,", cancels[i]);
                if (memmem(s.body.ptr, s.body.len, key[0], strlen(key[0])) != NULL ||
                    memmem(s.body.ptr, s.body.len, key[1], strlen(key[1])) != NULL)
                    left--;
            }
        }
    }
}

static void until_quiet(rig *r)
{
    for (int quiet = 0; quiet < 20; quiet++) {
        if (r->device->nprocesses > 0 || tci_loop_pending_jobs(r->loop) > 0)
            quiet = 0;
        rig_turn(r, 1);
    }
}

static void test_case_18_many_short_commands_with_half_of_them_cancelled_leave_nothing(void **state)
{
    rig r;
    uint32_t seed = 18;
    unsigned n = getenv("TC_FULL") != NULL ? 20000 : 400;
    TCI_UNUSED(state);
    rig_prepare(&r);
    /* What is kept on purpose has its ceiling before the first count. */
    r.config.limits.max_operation_records = 64;
    r.config.limits.max_spool_objects = 64;
    rig_start(&r);
    rig_open_session(&r);
    run_commands(&r, 160, &seed);
    until_quiet(&r);
    counts before = now();
    run_commands(&r, n, &seed);
    until_quiet(&r);
    counts after = now();
    /* An empty cgroup is kept for each command that ran at once: two descriptors. */
    assert_in_range(after.descriptors, 0, before.descriptors + 2 * AT_ONCE);
    assert_in_range(after.threads, 0, before.threads);
    assert_in_range(after.bytes, 0, before.bytes + 256 * 1024);
    assert_int_equal(r.device->nrequests, 0);
    assert_in_range(r.device->nrecords, 0, 64);
    assert_in_range(r.device->spool.used_objects, 0, 64);
    rig_stop(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_session_closes_clean_with_everything_in_flight),
        cmocka_unit_test(test_the_link_ends_with_everything_in_flight),
        cmocka_unit_test(
            test_case_18_many_short_commands_with_half_of_them_cancelled_leave_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
