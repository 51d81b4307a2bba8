/* SPDX-License-Identifier: Apache-2.0
 *
 * Input and output of commands. */
#include "fixture.h"

#include "base/buf.h"
#include "plat/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MIB = 1024 * 1024 };

typedef struct stdin_write {
    tci_exec_write w; /* first */
    bool is_answered;
    int rc;
} stdin_write;

static void on_written(tci_exec_write *w, int rc, const tc_err *err)
{
    stdin_write *mine = (stdin_write *)w;
    TCI_UNUSED(err);
    assert_false(mine->is_answered);
    mine->is_answered = true;
    mine->rc = rc;
}

static stdin_write write_of(const char *text, bool close_after)
{
    return (stdin_write){
        .w = {.data = tci_str(text), .close_after = close_after, .cb = on_written}};
}

static char *filler(size_t len)
{
    char *bytes = tci_mem_alloc(len);
    assert_non_null(bytes);
    for (size_t i = 0; i < len; i++)
        bytes[i] = (char)('a' + i % 23);
    return bytes;
}

static void initial_stdin_is_delivered(void **state)
{
    fix *f = fix_of(state);
    static const size_t sizes[] = {1, 4096, 65536, 65537, 5 * MIB};
    for (size_t i = 0; i < TCI_ARRAY_LEN(sizes); i++) {
        run r = {0};
        char *bytes = filler(sizes[i]);
        tci_exec_opts opts = fix_opts();
        opts.initial_stdin = tci_str_of(bytes, sizes[i]);
        opts.must_take_stdin = true;
        run_start(&r, f, "cat", opts);
        run_wait(&r, 30000);
        assert_int_equal(r.started_rc, 0);
        assert_int_equal(r.status.exit_code, 0);
        assert_int_equal(tci_spool_info_of(r.out).retained_bytes, sizes[i]);
        char *text = spool_text(r.out);
        assert_memory_equal(text, bytes, sizes[i]);
        tci_free(text);
        tci_free(bytes);
        run_done(&r);
    }
}

static void case_11_exits_without_reading(void **state)
{
    fix *f = fix_of(state);
    char *bytes = filler(4 * MIB);
    run r = {0};
    tci_exec_opts opts = fix_opts();
    opts.initial_stdin = tci_str_of(bytes, 4 * MIB);
    run_start(&r, f, "exit 3", opts);
    tci_exec *exec = r.exec;
    fix_wait_for(f, &r.has_started, 30000);
    uint64_t accepted = tci_exec_stdin_accepted(exec);
    assert_in_range(accepted, 0, 4 * MIB - 1);
    run_wait(&r, 30000);
    assert_int_equal(r.started_rc, 0);
    assert_int_equal(r.status.phase, TCI_EXEC_EXITED);
    assert_int_equal(r.status.exit_code, 3);
    run_done(&r);

    run strict = {0}; /* where a start promises delivery, the promise is taken back */
    opts.must_take_stdin = true;
    run_start(&strict, f, "exit 3", opts);
    run_wait(&strict, 30000);
    assert_int_equal(strict.started_rc, TC_E_UNKNOWN_OUTCOME);
    assert_int_equal(strict.status.cleanup, TCI_EXEC_CLEANUP_COMPLETE);
    run_done(&strict);

    run fits = {0}; /* what the pipe holds counts as delivered */
    opts.initial_stdin = tci_str_of(bytes, 100);
    run_start(&fits, f, "exit 3", opts);
    run_wait(&fits, 30000);
    assert_int_equal(fits.started_rc, 0);
    assert_int_equal(fits.status.exit_code, 3);
    run_done(&fits);
    tci_free(bytes);
}

static void initial_stdin_not_taken_in_time(void **state)
{
    fix *f = fix_of(state);
    char *bytes = filler(4 * MIB);
    run r = {0};
    tci_exec_opts opts = fix_opts();
    opts.initial_stdin = tci_str_of(bytes, 4 * MIB);
    opts.must_take_stdin = true;
    run_start(&r, f, "sleep 100", opts);
    assert_int_equal(tci_exec_status_of(r.exec).phase, TCI_EXEC_STARTING);
    run_wait(&r, 60000);
    assert_true(r.ended_ns - r.started_ns >= (int64_t)TCI_EXEC_STDIN_MS * 1000000);
    assert_int_equal(r.started_rc, TC_E_UNKNOWN_OUTCOME);
    assert_int_equal(r.status.phase, TCI_EXEC_SIGNALED);
    assert_int_equal(r.status.signal, TCI_EXEC_SIGNAL_KILL);
    run_done(&r);
    tci_free(bytes);
}

static void writes_in_order(void **state)
{
    fix *f = fix_of(state);
    tc_err err;
    run r = {0};
    tci_exec_opts opts = fix_opts();
    opts.keep_stdin_open = true;
    opts.initial_stdin = TC_STR("one ");
    opts.stdin_max_bytes = 20;
    run_start(&r, f, "cat", opts);
    stdin_write two = write_of("two ", false), none = write_of("", false),
                too_much = write_of("more than fits", false), three = write_of("three", true),
                four = write_of("four", false);
    assert_int_equal(tci_exec_write_stdin(r.exec, &two.w, &err), 0);
    assert_int_equal(tci_exec_write_stdin(r.exec, &none.w, &err), 0);
    assert_int_equal(tci_exec_write_stdin(r.exec, &too_much.w, &err), TC_E_OUTPUT_LIMIT);
    assert_int_equal(tci_exec_write_stdin(r.exec, &three.w, &err), 0);
    assert_int_equal(tci_exec_write_stdin(r.exec, &four.w, &err), TC_E_CONFLICT);
    assert_false(two.is_answered); /* never from inside */
    run_wait(&r, 30000);
    assert_true(two.is_answered && none.is_answered && three.is_answered);
    assert_int_equal(two.rc, 0);
    assert_int_equal(two.w.accepted, 4);
    assert_int_equal(three.w.accepted, 5);
    assert_false(too_much.is_answered || four.is_answered);
    assert_output(r.out, "one two three");
    run_done(&r);
}

static void write_not_taken_in_time(void **state)
{
    fix *f = fix_of(state);
    tc_err err;
    run r = {0};
    char *bytes = filler(MIB);
    tci_exec_opts opts = fix_opts();
    opts.keep_stdin_open = true;
    run_start(&r, f, "sleep 100", opts);
    stdin_write big = {.w = {.data = tci_str_of(bytes, MIB), .cb = on_written}};
    int64_t from_ns = tci_clock_mono_ns();
    assert_int_equal(tci_exec_write_stdin(r.exec, &big.w, &err), 0);
    fix_wait_for(f, &big.is_answered, 60000);
    assert_true(tci_clock_mono_ns() - from_ns >= (int64_t)TCI_EXEC_STDIN_MS * 1000000);
    assert_int_equal(big.rc, TC_E_UNKNOWN_OUTCOME);
    assert_in_range(big.w.accepted, 1, MIB - 1);
    assert_false(r.has_exit); /* it may read later */

    stdin_write after = {.w = {.data = tci_str_of(bytes, MIB), .cb = on_written}};
    assert_int_equal(tci_exec_write_stdin(r.exec, &after.w, &err), 0);
    tci_exec_kill(r.exec); /* the reader goes: partly accepted, no error */
    run_wait(&r, 30000);
    assert_true(after.is_answered);
    assert_int_equal(after.rc, 0);
    assert_true(after.w.accepted < MIB);
    run_done(&r);
    tci_free(bytes);
}

static void reader_closes_its_stdin(void **state)
{
    fix *f = fix_of(state);
    tc_err err;
    run r = {0};
    tci_exec_opts opts = fix_opts();
    opts.keep_stdin_open = true;
    run_start(&r, f, "exec <&-; echo closed; sleep 100", opts);
    while (tci_spool_info_of(r.out).retained_bytes == 0)
        tci_loop_turn(f->loop, 100);
    stdin_write w = write_of("text", false);
    assert_int_equal(tci_exec_write_stdin(r.exec, &w.w, &err), 0);
    fix_wait_for(f, &w.is_answered, 30000);
    assert_int_equal(w.rc, 0);
    assert_int_equal(w.w.accepted, 0);
    assert_false(tci_exec_is_stdin_open(r.exec));
    assert_int_equal(tci_exec_write_stdin(r.exec, &w.w, &err), TC_E_CONFLICT);
    assert_false(r.has_exit);
    run_done(&r); /* abandoned while it runs */

    run a = {0}; /* abandoned with a write under way */
    char *bytes = filler(MIB);
    run_start(&a, f, "sleep 100", opts);
    stdin_write big = {.w = {.data = tci_str_of(bytes, MIB), .cb = on_written}};
    assert_int_equal(tci_exec_write_stdin(a.exec, &big.w, &err), 0);
    run_done(&a);
    assert_true(big.is_answered);
    assert_int_equal(big.rc, TC_E_CANCELLED);
    tci_free(bytes);
}

static void nothing_written_before_the_end_is_lost(void **state)
{
    fix *f = fix_of(state);
    for (int i = 0; i < 20; i++) {
        run r = {0}; /* as much as a pipe takes without a reader, then gone */
        run_script(&r, f, "head -c 65536 /dev/zero; kill -9 $$");
        assert_int_equal(r.status.phase, TCI_EXEC_SIGNALED);
        assert_int_equal(tci_spool_info_of(r.out).retained_bytes, 65536);
        assert_true(tci_spool_info_of(r.out).content_complete);
        run_done(&r);
    }
}

static void case_23_output_before_anybody_asks(void **state)
{
    fix *f = fix_of(state);
    run r = {0};
    run_script(&r, f, "printf 'at once'; exit 9");
    assert_int_equal(r.status.exit_code, 9);
    tci_spool_info info = tci_spool_info_of(r.out);
    assert_true(info.producer_complete && info.content_complete);
    assert_output(r.out, "at once");
    run_done(&r);
}

static void large_output(void **state)
{
    fix *f = fix_of(state);
    run r = {0};
    run_script(&r, f, "head -c 33554432 /dev/zero | tr '\\0' 'z'; echo end");
    assert_int_equal(r.status.exit_code, 0);
    assert_int_equal(tci_spool_info_of(r.out).retained_bytes, 32 * MIB + 4);
    char tail[8];
    size_t n = 0;
    tc_err err;
    assert_int_equal(tci_spool_read(r.out, 32 * MIB - 2, tail, sizeof tail, &n, &err), 0);
    assert_int_equal(n, 6);
    assert_memory_equal(tail, "zzend\n", 6);
    assert_true(f->session.used_bytes >= 32 * MIB);
    run_done(&r);
}

static void output_limit(void **state)
{
    fix *f = fix_of(state);
    run r = {.ceiling = 100000};
    run_start(&r, f, "head -c 100000 /dev/zero; sleep 0.1; echo more; sleep 100", fix_opts());
    run_wait(&r, 30000);
    assert_int_equal(r.status.phase, TCI_EXEC_FAILED);
    assert_int_equal(r.status.reason, TCI_EXEC_REASON_OUTPUT_LIMIT);
    tci_spool_info info = tci_spool_info_of(r.out);
    assert_int_equal(info.retained_bytes, 100000);
    assert_int_equal(info.produced_bytes, 100005);
    assert_true(info.producer_complete);
    assert_false(info.content_complete);
    run_done(&r);

    run quick = {.ceiling = 10}; /* noticed only after its end */
    run_script(&quick, f, "echo more than ten bytes");
    assert_int_equal(quick.status.phase, TCI_EXEC_FAILED);
    assert_int_equal(quick.status.reason, TCI_EXEC_REASON_OUTPUT_LIMIT);
    assert_output(quick.out, "more than ");
    run_done(&quick);

    run exact = {.ceiling = 10};
    run_script(&exact, f, "printf 0123456789");
    assert_int_equal(exact.status.phase, TCI_EXEC_EXITED);
    assert_true(tci_spool_info_of(exact.out).content_complete);
    run_done(&exact);
}

static void quota_is_what_is_kept(void **state)
{
    fix *f = fix_of(state);
    f->session.max_bytes = 200000;
    run first = {0}, second = {0};
    run_script(&first, f, "head -c 150000 /dev/zero");
    assert_int_equal(first.status.phase, TCI_EXEC_EXITED);
    run_script(&second, f, "head -c 100000 /dev/zero; sleep 100");
    assert_int_equal(second.status.phase, TCI_EXEC_FAILED);
    assert_int_equal(second.status.reason, TCI_EXEC_REASON_BACKEND_LOST);
    assert_non_null(strstr(second.failure, "room"));
    assert_true(f->session.used_bytes <= 200000);
    run_done(&first);
    run_done(&second);
    run again = {0};
    run_script(&again, f, "head -c 100000 /dev/zero");
    assert_int_equal(again.status.phase, TCI_EXEC_EXITED);
    run_done(&again);
}

static void spool_that_cannot_be_written(void **state)
{
    fix *f = fix_of(state);
    run r = {0};
    tci_file_fail_write_at(1, 28 /* ENOSPC */);
    run_start(&r, f, "head -c 100000 /dev/zero; sleep 100", fix_opts());
    run_wait(&r, 30000);
    tci_file_fail_write_at(0, 0);
    assert_int_equal(r.status.phase, TCI_EXEC_FAILED);
    assert_int_equal(r.status.reason, TCI_EXEC_REASON_BACKEND_LOST);
    assert_true(r.failure[0] != '\0');
    assert_false(tci_spool_info_of(r.out).content_complete);
    run_done(&r);
}

static void streams_closed_early(void **state)
{
    fix *f = fix_of(state);
    run r = {0};
    tci_exec_opts opts = fix_opts();
    opts.keep_stdin_open = true;
    run_start(&r, f, "exec >&- 2>&-; read x; exit 6", opts);
    while (!tci_spool_info_of(r.out).producer_complete)
        tci_loop_turn(f->loop, 100);
    assert_false(r.has_exit);
    tci_exec_close_stdin(r.exec);
    run_wait(&r, 30000);
    assert_int_equal(r.status.exit_code, 6);
    run_done(&r);
}

/* Output straight to its owner, who may stop it. */
typedef struct chunks {
    run r; /* first: the callbacks know it */
    tci_buf text[2];
    size_t refuse_at;
} chunks;

static int on_chunk(tci_exec *exec, tci_exec_stream stream, tc_str bytes, tc_err *err)
{
    chunks *c = (chunks *)tci_exec_user(exec);
    tci_buf_append_str(&c->text[stream], bytes);
    if (c->refuse_at != 0 && c->text[stream].len >= c->refuse_at)
        return tc_err_set(err, TC_E_IO, "enough");
    return 0;
}

static chunks new_chunks(void)
{
    chunks c = {.r = {0}};
    tci_buf_init(&c.text[0], TCI_BUF_MAX);
    tci_buf_init(&c.text[1], TCI_BUF_MAX);
    return c;
}

static void chunks_done(chunks *c)
{
    run_done(&c->r);
    tci_buf_done(&c->text[0]);
    tci_buf_done(&c->text[1]);
}

static void chunks_and_pause(void **state)
{
    fix *f = fix_of(state);
    tci_exec_opts opts = fix_opts();
    opts.on_output = on_chunk;
    chunks a = new_chunks();
    run_start(&a.r, f, "echo out; echo err >&2", opts);
    run_wait(&a.r, 30000);
    assert_true(tci_str_eq(tci_buf_str(&a.text[0]), TC_STR("out\n")));
    assert_true(tci_str_eq(tci_buf_str(&a.text[1]), TC_STR("err\n")));
    chunks_done(&a);

    chunks b = new_chunks(); /* paused from the start: a writer that fills its pipe has to wait */
    run_start(&b.r, f, "head -c 1000000 /dev/zero; echo end >&2", opts);
    tci_exec_pause_output(b.r.exec, true);
    for (int i = 0; i < 20; i++)
        tci_loop_turn(f->loop, 10);
    assert_int_equal(b.text[0].len, 0);
    assert_false(b.r.has_exit);
    tci_exec_pause_output(b.r.exec, false);
    run_wait(&b.r, 30000);
    assert_int_equal(b.r.status.exit_code, 0);
    assert_int_equal(b.text[0].len, 1000000);
    assert_int_equal(b.text[1].len, 4);
    chunks_done(&b);

    chunks c = new_chunks();
    c.refuse_at = 2;
    run_start(&c.r, f, "echo yes; sleep 100", opts);
    run_wait(&c.r, 30000);
    assert_int_equal(c.r.status.reason, TCI_EXEC_REASON_BACKEND_LOST);
    assert_string_equal(c.r.failure, "enough");
    chunks_done(&c);
}

int run_exec_io_tests(void)
{
    const struct CMUnitTest tests[] = {
        IN_ONE_MODE(initial_stdin_is_delivered),
        IN_ONE_MODE(case_11_exits_without_reading),
        IN_ONE_MODE(initial_stdin_not_taken_in_time),
        IN_ONE_MODE(writes_in_order),
        IN_ONE_MODE(write_not_taken_in_time),
        IN_ONE_MODE(reader_closes_its_stdin),
        IN_ALL_MODES(nothing_written_before_the_end_is_lost),
        IN_ONE_MODE(case_23_output_before_anybody_asks),
        IN_ONE_MODE(large_output),
        IN_ONE_MODE(output_limit),
        IN_ONE_MODE(quota_is_what_is_kept),
        IN_ONE_MODE(spool_that_cannot_be_written),
        IN_ONE_MODE(streams_closed_early),
        IN_ONE_MODE(chunks_and_pause),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
