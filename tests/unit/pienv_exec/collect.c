/* SPDX-License-Identifier: Apache-2.0
 *
 * See collect.h. */
#include "collect.h"

#include "base/num.h"
#include "plat/clock.h"

#include <stdio.h>
#include <unistd.h>

enum { WAIT_MS = 60000 };

int open_ours(void **state)
{
    pi_peer *p = tci_new(pi_peer);
    assert_non_null(p);
    pi_peer_open(p, true, NULL);
    *state = p;
    return 0;
}

int open_foreign(void **state)
{
    pi_peer *p = tci_new(pi_peer);
    assert_non_null(p);
    pi_peer_open(p, false, NULL);
    *state = p;
    return 0;
}

int close_peer(void **state)
{
    pi_peer *p = *state;
    pi_peer_close(p);
    tci_free(p);
    return 0;
}

static void check_skip(output *o, const pi_frame *f, const tci_json *skipped)
{
    uint64_t bytes, newlines;
    bool ends;
    assert_true(tci_json_as_u64(tci_json_get(skipped, TC_STR("bytes")), &bytes));
    assert_true(tci_json_as_u64(tci_json_get(skipped, TC_STR("newlines")), &newlines));
    assert_true(tci_json_as_bool(tci_json_get(skipped, TC_STR("endsWithNewline")), &ends));
    assert_true(bytes > 0);
    assert_true(o->most_bytes > 0);
    assert_true(f->payload.len > o->most_bytes ||
                tci_str_count_byte(f->payload, '\n') > o->most_lines);
    o->skipped_bytes += bytes;
    o->skipped_newlines += newlines;
    o->nskips++;
    tci_buf_clear(&o->tail);
}

static void take_event(output *o, const pi_frame *f)
{
    const tci_json *skipped = pi_frame_get(f, "skipped");
    tc_str stream = pi_frame_str(f, "stream");
    bool is_out = tci_str_eq(stream, TC_STR("stdout"));
    assert_true(is_out || tci_str_eq(stream, TC_STR("stderr")));
    assert_true(tci_str_eq(pi_frame_str(f, "kind"), TC_STR("output")));
    assert_true(f->payload.len > 0);
    if (skipped != NULL)
        check_skip(o, f, skipped);
    tci_buf_append_str(is_out ? &o->out : &o->err, f->payload);
    tci_buf_append_str(&o->all, f->payload);
    tci_buf_append_str(&o->tail, f->payload);
    o->nevents++;
}

void collect(pi_peer *p, uint32_t id, output *o)
{
    tci_buf_init(&o->out, TCI_BUF_MAX);
    tci_buf_init(&o->err, TCI_BUF_MAX);
    tci_buf_init(&o->all, TCI_BUF_MAX);
    tci_buf_init(&o->tail, TCI_BUF_MAX);
    for (;;) {
        pi_frame *f = pi_peer_next(p, id);
        if (f->type != TCI_PIENV_EVENT) {
            o->answer = f;
            return;
        }
        take_event(o, f);
        pi_frame_free(f);
    }
}

static uint32_t start_args(pi_peer *p, const char *fmt, va_list args)
{
    char fields[4096];
    int len = vsnprintf(fields, sizeof fields, fmt, args);
    assert_true(len >= 0 && (size_t)len < sizeof fields);
    return pi_peer_send(p, "{\"op\":\"exec\",\"cwd\":\".\",%s}", fields);
}

uint32_t start(pi_peer *p, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    uint32_t id = start_args(p, fmt, args);
    va_end(args);
    return id;
}

void run(pi_peer *p, output *ret, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    uint32_t id = start_args(p, fmt, args);
    va_end(args);
    *ret = (output){0};
    collect(p, id, ret);
}

void output_done(output *o)
{
    tci_buf_done(&o->out);
    tci_buf_done(&o->err);
    tci_buf_done(&o->all);
    tci_buf_done(&o->tail);
    pi_frame_free(o->answer);
    o->answer = NULL;
}

void assert_exit(const output *o, uint64_t exit_code)
{
    if (o->answer->type != TCI_PIENV_RESULT)
        print_error("%s\n", o->answer->json);
    assert_int_equal(o->answer->type, TCI_PIENV_RESULT);
    assert_int_equal(pi_frame_u64(o->answer, "exitCode"), exit_code);
}

void assert_code(const output *o, const char *code)
{
    pi_frame_is_error(o->answer, code);
}

void assert_text(const tci_buf *b, tc_str expected)
{
    if (!tci_str_eq(tci_buf_str(b), expected))
        print_error("got '%.*s', expected '%.*s'\n", TC_STR_ARG(tci_buf_str(b)),
                    TC_STR_ARG(expected));
    assert_true(tci_str_eq(tci_buf_str(b), expected));
}

static bool read_number(const char *name, int *ret)
{
    char line[32] = "";
    FILE *in = fopen(name, "r");
    bool is_whole = in != NULL && fgets(line, sizeof line, in) != NULL;
    if (in != NULL)
        (void)fclose(in);
    tc_str text = tci_str(line);
    tc_err err;
    int64_t number;
    if (!is_whole || !tci_str_ends(text, TC_STR("\n")) ||
        tci_num_i64(tci_str_sub(text, 0, text.len - 1), &number, &err) < 0)
        return false;
    *ret = (int)number;
    return true;
}

int pid_from(pi_peer *p, const char *name)
{
    int pid = 0;
    int64_t end_ns = tci_clock_mono_ns() + (int64_t)WAIT_MS * 1000000;
    while (!read_number(name, &pid)) {
        if (tci_clock_mono_ns() > end_ns)
            fail_msg("no number in '%s'", name);
        pi_peer_turn(p, 10);
    }
    (void)remove(name);
    return pid;
}

bool is_running(int pid)
{
    tci_proc_stat st;
    return tci_proc_stat_read(pid, &st) && st.state != 'Z' && st.state != 'X';
}

void wait_gone(pi_peer *p, int pid)
{
    int64_t end_ns = tci_clock_mono_ns() + (int64_t)WAIT_MS * 1000000;
    while (is_running(pid)) {
        if (tci_clock_mono_ns() > end_ns)
            fail_msg("process %d is still there", pid);
        if (p != NULL)
            pi_peer_turn(p, 5);
        else
            (void)usleep(1000);
    }
}

bool is_file(const char *name)
{
    return access(name, F_OK) == 0;
}
