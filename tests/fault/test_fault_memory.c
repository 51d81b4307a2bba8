/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory runs out at the n-th allocation, for every n, in the middle of each request and each transfer:
 * the client gets whole frames only, and for every request an answer or the end of the link. Nothing
 * crashes, nothing is left in the device. */
#include "rig.h"

#include "plat/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_MAX = 64 * 1024, SLACK = 3 };

#define OP "{\"context\":{\"operation_id\":\"%o\"}"
#define FILE_OF(name) ",\"path\":{\"path\":\"%d/" name "\"}"
#define SCRIPT(text)                                                                              \
    ",\"request\":{\"command\":{\"kind\":\"shell\",\"profile_id\":\"default\",\"script\":\"" text \
    "\"}"

static char answer[TEXT_MAX];

/* ---- what has to be there before a request ---- */

static void some_files(rig *r)
{
    static const char *const names[] = {"new", "copied", "moved", "made"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[700];
        (void)snprintf(path, sizeof path, "%s/%s", r->folder, names[i]);
        (void)remove(path); /* mostly not there */
    }
    rig_write_file(r, "there", 300);
}

static void lines(rig *r)
{
    char path[700];
    (void)snprintf(path, sizeof path, "%s/lines", r->folder);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_true(fputs("one\ntwo\nthree\n", f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static void start_process(rig *r, const char *params)
{
    rig_do(r, true, "process.start", params, answer, sizeof answer);
    assert_true(rig_text(answer, "handle", r->handle, sizeof r->handle));
    assert_true(rig_text(answer, "reference", r->out, sizeof r->out));
}

static void running(rig *r)
{
    start_process(r, OP SCRIPT("exec sleep 60") "}}");
}
static void open_stdin(rig *r)
{
    start_process(r, OP SCRIPT("cat") ",\"keep_stdin_open\":true}}");
}

static void ended(rig *r)
{
    start_process(r, OP SCRIPT("echo hello; echo sorry >&2") "}}");
    rig_do(r, true, "process.wait", OP ",\"handle\":\"%h\",\"condition\":\"tree_cleaned\"}", NULL,
           0);
}

static void lone_output(rig *r)
{
    ended(r);
    rig_do(r, true, "process.release", OP ",\"handle\":\"%h\"}", NULL, 0);
}

static void open_writer(rig *r)
{
    some_files(r);
    rig_do(r, true, "file.open_writer", OP FILE_OF("new") ",\"mode\":\"create\"}", answer,
           sizeof answer);
    assert_true(rig_text(answer, "writer", r->handle, sizeof r->handle));
}

static bool sees(rig *r, tci_eipd_kind kind)
{
    seen s;
    while (rig_take(r, &s))
        if (s.is_data && s.data.kind == kind)
            return true;
    return false;
}

static void sealed_writer(rig *r)
{
    open_writer(r);
    assert_true(rig_data(r, TCI_EIPD_ATTACH, 0, r->handle, 0, NULL, 0));
    assert_true(rig_data(r, TCI_EIPD_CHUNK, 0, r->handle, 0, "hello", 5));
    assert_true(rig_data(r, TCI_EIPD_END, 0, r->handle, 5, NULL, 0));
    rig_wait(r, sees(r, TCI_EIPD_END_ACK));
}

static void open_reader(rig *r)
{
    some_files(r);
    rig_do(r, true, "file.open_reader", OP FILE_OF("there") "}", answer, sizeof answer);
    assert_true(rig_text(answer, "reader", r->handle, sizeof r->handle));
}

static void finished_reader(rig *r)
{
    open_reader(r);
    assert_true(rig_data(r, TCI_EIPD_ATTACH, 0, r->handle, 0, NULL, 0));
    rig_wait(r, sees(r, TCI_EIPD_CHUNK));
    assert_true(rig_data(r, TCI_EIPD_CREDIT, 0, r->handle, 300, NULL, 0));
    rig_wait(r, sees(r, TCI_EIPD_END));
}

/* ---- every method with parameters that work ---- */

typedef struct request {
    const char *method, *params;
    void (*prepare)(rig *r);
    bool is_device;
} request;

static const request requests[] = {
    {"device.describe", "{}", NULL, true},
    {"directory.list",
     "{\"expected_device_id\":\"device-1\",\"expected_generation\":%g,\"path\":\"%d\",\"offset\":0,"
     "\"limit\":9}",
     NULL, true},
    {"session.open",
     "{\"expected_device_id\":\"device-1\",\"expected_generation\":%g,\"protocol_version\":\"0."
     "3\"}",
     NULL, true},
    {"session.attach", "{}", NULL, false},
    {"session.keepalive", "{}", NULL, false},
    {"session.close", "{}", NULL, false},
    {"environment.readiness", OP "}", NULL, false},
    {"environment.describe", OP "}", NULL, false},
    {"operation.cancel", OP ",\"target_operation_id\":\"none\"}", NULL, false},
    {"receipt.get", OP ",\"operation_id\":\"none\"}", NULL, false},
    {"file.stat", OP FILE_OF("there") "}", some_files, false},
    {"file.list", OP ",\"path\":{\"path\":\"%d\"},\"max_results\":9}", some_files, false},
    {"file.find", OP ",\"root\":{\"path\":\"%d\"},\"pattern\":\"**/t*\",\"max_results\":9}",
     some_files, false},
    {"file.search",
     OP ",\"root\":{\"path\":\"%d\"},\"query\":\"t[a-z]+\",\"mode\":\"regex\",\"max_results\":9,"
        "\"max_line_length\":99}",
     lines, false},
    {"file.read_text", OP FILE_OF("lines") ",\"line_limit\":9,\"max_line_length\":99}", lines,
     false},
    {"file.write_text", OP FILE_OF("new") ",\"mode\":\"create\",\"text\":\"hello\"}", some_files,
     false},
    {"file.patch_text",
     OP FILE_OF("lines") ",\"patch_format\":\"unified_diff\",\"patch\":\"--- a\\n+++ b\\n@@ -1,2 "
                         "+1,2 @@\\n "
                         "one\\n-two\\n+TWO\\n\"}",
     lines, false},
    {"file.mkdir", OP FILE_OF("made") "}", some_files, false},
    {"file.copy",
     OP ",\"source\":{\"path\":\"%d/there\"},\"destination\":{\"path\":\"%d/copied\"}}", some_files,
     false},
    {"file.move", OP ",\"source\":{\"path\":\"%d/there\"},\"destination\":{\"path\":\"%d/moved\"}}",
     some_files, false},
    {"file.remove", OP FILE_OF("there") ",\"expected_kind\":\"file\"}", some_files, false},
    {"file.open_writer", OP FILE_OF("new") ",\"mode\":\"create\"}", some_files, false},
    {"file.commit_writer",
     OP ",\"writer\":\"%h\",\"transferred_bytes\":5,\"transfer_digest\":{\"algorithm\":\"sha256\","
        "\"value\":"
        "\"2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824\"}}",
     sealed_writer, false},
    {"file.abort_writer", OP ",\"writer\":\"%h\"}", open_writer, false},
    {"file.open_reader", OP FILE_OF("there") "}", some_files, false},
    {"file.close_reader", OP ",\"reader\":\"%h\"}", finished_reader, false},
    {"shell.exec", OP SCRIPT("echo hello; echo sorry >&2; exit 3") "}}", NULL, false},
    {"process.start", OP SCRIPT("exec true") "}}", NULL, false},
    {"process.inspect", OP ",\"handle\":\"%h\"}", ended, false},
    {"process.wait", OP ",\"handle\":\"%h\",\"condition\":\"tree_cleaned\"}", ended, false},
    {"process.write_stdin",
     OP ",\"handle\":\"%h\",\"data\":{\"encoding\":\"base64\",\"data\":\"b25lCg\"}}", open_stdin,
     false},
    {"process.close_stdin", OP ",\"handle\":\"%h\"}", open_stdin, false},
    {"process.signal", OP ",\"handle\":\"%h\",\"signal\":\"terminate\"}", running, false},
    {"process.kill", OP ",\"handle\":\"%h\"}", running, false},
    {"process.release", OP ",\"handle\":\"%h\"}", ended, false},
    {"output.read", OP ",\"reference\":\"%r\",\"start_offset\":0}", ended, false},
    {"output.release", OP ",\"reference\":\"%r\"}", lone_output, false},
    {"port.inspect", OP ",\"target\":{\"protocol\":\"tcp\",\"address\":\"loopback\",\"port\":9}}",
     NULL, false},
    {"port.wait",
     "{\"context\":{\"operation_id\":\"%o\",\"timeout_ms\":5}"
     ",\"target\":{\"protocol\":\"tcp\",\"address\":\"loopback\",\"port\":9},\"desired_status\":"
     "\"listening\"}",
     NULL, false},
};

static void start(rig *r)
{
    rig_prepare(r);
    rig_start(r);
}

static void ready(rig *r, void (*prepare)(rig *r))
{
    rig_open_session(r);
    if (prepare != NULL)
        prepare(r);
}

/* Close the session, if there is still something that can. */
static void settle(rig *r)
{
    if (!r->has_ended && r->fd >= 0) {
        unsigned id = rig_ask(r, true, "session.close", "{}");
        if (id != 0)
            (void)rig_answer(r, id, answer, sizeof answer); /* may be closed already */
    }
    if (r->has_ended)
        rig_nothing_is_torn(r);
}

/* With the n-th allocation of the request failing; returns how many it made. */
static size_t attempt(const request *q, rig *r, size_t n)
{
    if (r->has_ended) {
        rig_stop(r);
        start(r);
    }
    ready(r, q->prepare);
    char text[8 * 1024];
    size_t len = rig_request(r, !q->is_device, q->method, q->params, text, sizeof text);
    unsigned id = r->next_id;
    tci_mem_fail_at(n);
    bool is_answered = rig_send(r, text, len) && rig_answer(r, id, answer, sizeof answer);
    size_t count = tci_mem_count();
    tci_mem_fail_at(0);
    if (!is_answered) {
        assert_int_not_equal(n, 0);
        rig_wait(r, r->has_ended);
        assert_int_equal(r->status, 1);
        assert_string_equal(r->message, "out of memory");
    } else if (n == 0 && strcmp(q->method, "receipt.get") != 0 &&
               strcmp(q->method, "port.wait") != 0 && strcmp(q->method, "session.attach") != 0 &&
               strstr(answer, "\"result\"") == NULL)
        fail_msg("%s does not work at all: %s", q->method, answer);
    settle(r);
    return count;
}

static void test_every_request_is_answered_or_the_link_ends_when_memory_runs_out(void **state)
{
    TCI_UNUSED(state);
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
        rig r;
        start(&r);
        (void)attempt(&requests[i], &r, 0); /* what is made once is made */
        size_t count = attempt(&requests[i], &r, 0);
        for (size_t n = 1; n <= count + SLACK; n++)
            (void)attempt(&requests[i], &r, n);
        rig_stop(&r);
    }
}

/* No method of the table was forgotten above. */
static void test_every_method_that_is_offered_was_tried(void **state)
{
    rig r;
    TCI_UNUSED(state);
    start(&r);
    for (size_t i = 0; i < TCI_EIP_METHOD_COUNT; i++) {
        const tci_method *m = &tci_eip_methods[i];
        bool is_there =
            tci_str_eq(m->name, TC_STR("initialize")) || !tci_device_offers(r.device, m);
        for (size_t j = 0; j < sizeof requests / sizeof *requests && !is_there; j++)
            is_there = tci_str_eq(m->name, tci_str(requests[j].method));
        if (!is_there)
            fail_msg("%.*s is not tried", TC_STR_ARG(m->name));
    }
    rig_stop(&r);
}

/* ---- transfers: frames cannot be answered, but must end ---- */

static void start_impatient(rig *r)
{
    rig_prepare(r);
    r->config.limits.file_transfer_idle_ttl_ms = 100;
    rig_start(r);
}

static size_t transfer(rig *r, bool is_up, size_t n)
{
    seen s;
    uint64_t got = 0;
    bool is_over = false;
    if (r->has_ended) {
        rig_stop(r);
        start_impatient(r);
    }
    ready(r, is_up ? open_writer : open_reader);
    tci_mem_fail_at(n);
    (void)rig_data(r, TCI_EIPD_ATTACH, 0, r->handle, 0, NULL, 0); /* the link may go at any time */
    if (is_up) {
        (void)rig_data(r, TCI_EIPD_CHUNK, 0, r->handle, 0, "hello ", 6);
        (void)rig_data(r, TCI_EIPD_CHUNK, 0, r->handle, 6, "world", 5);
        (void)rig_data(r, TCI_EIPD_END, 0, r->handle, 11, NULL, 0);
    }
    int64_t until = tci_clock_mono_ns() + RIG_PATIENCE_NS;
    while (!is_over && !r->has_ended) {
        assert_true(tci_clock_mono_ns() < until);
        rig_turn(r, 20);
        while (rig_take(r, &s)) {
            assert_true(s.is_data);
            if (s.data.kind == TCI_EIPD_CHUNK) {
                got += s.data.payload.len;
                (void)rig_data(r, TCI_EIPD_CREDIT, 0, r->handle, got, NULL, 0);
                break; /* the frame was borrowed */
            }
            is_over = is_over || s.data.kind == TCI_EIPD_END || s.data.kind == TCI_EIPD_END_ACK ||
                      s.data.kind == TCI_EIPD_RESET;
        }
        is_over = is_over || r->device->ntransfers == 0;
    }
    size_t count = tci_mem_count();
    tci_mem_fail_at(0);
    settle(r);
    return count;
}

static void transfers(bool is_up)
{
    rig r;
    start_impatient(&r);
    (void)transfer(&r, is_up, 0);
    size_t count = transfer(&r, is_up, 0);
    for (size_t n = 1; n <= count + SLACK; n++)
        (void)transfer(&r, is_up, n);
    rig_stop(&r);
}

static void test_an_upload_ends_when_memory_runs_out(void **state)
{
    TCI_UNUSED(state);
    transfers(true);
}

static void test_a_download_ends_when_memory_runs_out(void **state)
{
    TCI_UNUSED(state);
    transfers(false);
}

/* ---- the first frames of a link ---- */

static void test_a_link_begins_or_ends_when_memory_runs_out(void **state)
{
    size_t count = 1;
    TCI_UNUSED(state);
    for (size_t n = 0; n <= count + SLACK; n++) {
        rig r;
        char text[8 * 1024];
        start(&r);
        size_t len = rig_request(&r, false, "initialize",
                                 "{\"supported_protocol_versions\":[\"0.3\"],\"client\":{\"name\":"
                                 "\"t\",\"version\":\"1\"}}",
                                 text, sizeof text);
        tci_mem_fail_at(n);
        bool is_answered =
            rig_send(&r, text, len) && rig_answer(&r, r.next_id, answer, sizeof answer);
        if (n == 0) {
            count = tci_mem_count();
            assert_true(is_answered);
        }
        tci_mem_fail_at(0);
        if (!is_answered)
            rig_wait(&r, r.has_ended);
        if (r.has_ended)
            rig_nothing_is_torn(&r);
        rig_stop(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_method_that_is_offered_was_tried),
        cmocka_unit_test(test_a_link_begins_or_ends_when_memory_runs_out),
        cmocka_unit_test(test_every_request_is_answered_or_the_link_ends_when_memory_runs_out),
        cmocka_unit_test(test_an_upload_ends_when_memory_runs_out),
        cmocka_unit_test(test_a_download_ends_when_memory_runs_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
