/* SPDX-License-Identifier: Apache-2.0
 *
 * Transfers over data frames: the state tables of both directions, the window, evidence, deadlines. */
#include "fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OP "{\"context\":{\"operation_id\":\"%s\"},"

static tc_str keep(fixture *f, tc_str s)
{
    tc_err err;
    tc_str copy;
    assert_int_equal(tci_arena_dup(&f->arena, s, &copy, &err), 0);
    return copy;
}

static tc_str open_writer(fixture *f, const char *op, const char *name)
{
    const tci_json *r = answer(f, ask(f, "file.open_writer",
                                      OP "\"path\":{\"path\":\"%s/%s\"},\"mode\":\"create\"}", op,
                                      f->folder, name));
    assert_ok(r);
    return keep(f, text_at(r, "result", "writer", NULL));
}

static tc_str open_reader(fixture *f, const char *op, const char *name)
{
    const tci_json *r = answer(
        f, ask(f, "file.open_reader", OP "\"path\":{\"path\":\"%s/%s\"}}", op, f->folder, name));
    assert_ok(r);
    return keep(f, text_at(r, "result", "reader", NULL));
}

static void hex_of(tc_str bytes, char hex[65])
{
    uint8_t digest[TCI_SHA256_BYTES];
    tci_sha256_of(bytes, digest);
    tci_hex(digest, sizeof digest, hex);
    hex[64] = '\0';
}

static const tci_json *commit(fixture *f, const char *op, tc_str writer, tc_str bytes)
{
    char hex[65];
    hex_of(bytes, hex);
    return answer(
        f,
        ask(f, "file.commit_writer",
            OP "\"writer\":\"%.*s\",\"transferred_bytes\":%zu,\"transfer_digest\":{\"algorithm\":"
               "\"sha256\",\"value\":\"%s\"}}",
            op, TC_STR_ARG(writer), bytes.len, hex));
}

static tc_str abort_status(fixture *f, const char *op, tc_str writer)
{
    return text_at(
        answer(f, ask(f, "file.abort_writer", OP "\"writer\":\"%.*s\"}", op, TC_STR_ARG(writer))),
        "result", "status", NULL);
}

static void expect_frame(fixture *f, tci_eipd_kind kind, tci_eipd_status status, uint64_t offset)
{
    static size_t seen;
    static fixture *of;
    if (of != f || f->nframes < seen)
        seen = 0;
    of = f;
    wait_until(f, f->nframes > seen);
    assert_string_equal(tci_eipd_kind_name(f->frames[seen].kind), tci_eipd_kind_name(kind));
    assert_int_equal(f->frames[seen].status, status);
    assert_int_equal(f->frames[seen].offset, offset);
    seen++;
}

static void start(fixture *f)
{
    fixture_prepare(f);
    fixture_start(f);
    fixture_open_session(f);
}

static size_t names_in_folder(fixture *f)
{
    const tci_json *r =
        answer(f, ask(f, "file.list",
                      OP "\"path\":{\"path\":\"%s\"},\"include_hidden\":true,\"max_results\":100}",
                      "ls", f->folder));
    return at(r, "result", "entries", NULL)->count;
}

static void test_upload(void **state)
{
    fixture f;
    TCI_UNUSED(state);
    start(&f);
    tc_str w = open_writer(&f, "o", "up");
    send_data(&f, TCI_EIPD_ATTACH, 0, w, 0, TC_STR(""));
    expect_frame(&f, TCI_EIPD_ATTACHED, 0, 0);
    send_data(&f, TCI_EIPD_CHUNK, 0, w, 0, TC_STR("hello "));
    send_data(&f, TCI_EIPD_CHUNK, 0, w, 6, TC_STR("world"));
    expect_frame(&f, TCI_EIPD_CREDIT, 0, 6);
    expect_frame(&f, TCI_EIPD_CREDIT, 0, 11);
    send_data(&f, TCI_EIPD_END, 0, w, 11, TC_STR(""));
    expect_frame(&f, TCI_EIPD_END_ACK, 0, 11);
    assert_ok(commit(&f, "c", w, TC_STR("hello world")));
    assert_str(abort_status(&f, "a", w), "already_committed");
    assert_error(commit(&f, "c2", w, TC_STR("hello world")), "invalid_handle");
    assert_ok(commit(&f, "c", w, TC_STR("hello world"))); /* the same operation: its record */
    const tci_json *r =
        answer(&f, ask(&f, "file.read_text",
                       OP "\"path\":{\"path\":\"%s/up\"},\"line_limit\":9,\"max_line_length\":99}",
                       "r", f.folder));
    assert_str(text_at(r, "result", "text", NULL), "hello world");
    assert_int_equal(f.device->ntransfers, 0);
    assert_int_equal(f.device->staged_bytes, 0);
    fixture_stop(&f);
}

static void test_uploads_that_end_early_leave_nothing(void **state)
{
    fixture f;
    TCI_UNUSED(state);
    start(&f);
    size_t before = names_in_folder(&f);
    /* a gap */
    tc_str gap = open_writer(&f, "o1", "x");
    send_data(&f, TCI_EIPD_ATTACH, 0, gap, 0, TC_STR(""));
    expect_frame(&f, TCI_EIPD_ATTACHED, 0, 0);
    send_data(&f, TCI_EIPD_CHUNK, 0, gap, 7, TC_STR("abc"));
    expect_frame(&f, TCI_EIPD_RESET, TCI_EIPD_STATUS_PROTOCOL, 7);
    assert_str(abort_status(&f, "a1", gap), "already_aborted");
    /* the client's own reset is echoed with what was written */
    tc_str reset = open_writer(&f, "o2", "x");
    send_data(&f, TCI_EIPD_ATTACH, 0, reset, 0, TC_STR(""));
    expect_frame(&f, TCI_EIPD_ATTACHED, 0, 0);
    send_data(&f, TCI_EIPD_CHUNK, 0, reset, 0, TC_STR("half"));
    expect_frame(&f, TCI_EIPD_CREDIT, 0, 4);
    send_data(&f, TCI_EIPD_RESET, TCI_EIPD_STATUS_CANCELLED, reset, 4, TC_STR(""));
    expect_frame(&f, TCI_EIPD_RESET, TCI_EIPD_STATUS_CANCELLED, 4);
    send_data(&f, TCI_EIPD_CHUNK, 0, reset, 4, TC_STR("late")); /* ignored */
    /* abort before attach; another digest; a count that lies */
    assert_str(abort_status(&f, "a3", open_writer(&f, "o3", "x")), "aborted");
    tc_str bad = open_writer(&f, "o4", "x");
    send_data(&f, TCI_EIPD_ATTACH, 0, bad, 0, TC_STR(""));
    expect_frame(&f, TCI_EIPD_ATTACHED, 0, 0);
    send_data(&f, TCI_EIPD_END, 0, bad, 0, TC_STR(""));
    expect_frame(&f, TCI_EIPD_END_ACK, 0, 0);
    assert_error(commit(&f, "c4", bad, TC_STR("other")), "integrity_mismatch");
    assert_str(abort_status(&f, "a4", bad), "already_aborted");
    wait_until(&f, f.device->ntransfers == 0);
    assert_int_equal(names_in_folder(&f), before);
    assert_int_equal(f.device->staged_objects, 0);
    fixture_stop(&f);
}

static void test_unknown_transfers(void **state)
{
    fixture f;
    TCI_UNUSED(state);
    start(&f);
    send_data(&f, TCI_EIPD_ATTACH, 0, TC_STR("writer-x-9"), 0, TC_STR(""));
    expect_frame(&f, TCI_EIPD_RESET, TCI_EIPD_STATUS_DENIED, 0);
    tc_str w = open_writer(&f, "o", "x");
    send_data(&f, TCI_EIPD_CHUNK, 0, w, 0, TC_STR("early")); /* not attached */
    expect_frame(&f, TCI_EIPD_RESET, TCI_EIPD_STATUS_PROTOCOL, 0);
    char session[64];
    memcpy(session, f.session, sizeof session);
    (void)snprintf(f.session, sizeof f.session, "session-none-1");
    send_data(&f, TCI_EIPD_ATTACH, 0, w, 0, TC_STR(""));
    expect_frame(&f, TCI_EIPD_RESET, TCI_EIPD_STATUS_PROTOCOL, 0);
    memcpy(f.session, session, sizeof session);
    fixture_stop(&f);
}

static void write_file(fixture *f, const char *name, size_t size)
{
    char path[600];
    (void)snprintf(path, sizeof path, "%s/%s", f->folder, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    for (size_t i = 0; i < size; i++)
        assert_true(fputc((int)(i * 31 & 0xFF), file) != EOF);
    assert_int_equal(fclose(file), 0);
}

/* Never more than eight blocks on their way; the end only after all credit; digest and count agree. */
static void test_download_window(void **state)
{
    fixture f;
    enum { SIZE = 12 * 256 * 1024 };
    TCI_UNUSED(state);
    start(&f);
    write_file(&f, "big", SIZE);
    tc_str r = open_reader(&f, "o", "big");
    tci_sha256 sha;
    uint8_t digest[TCI_SHA256_BYTES];
    char hex[65];
    tci_sha256_init(&sha);
    send_data(&f, TCI_EIPD_ATTACH, 0, r, 0, TC_STR(""));
    wait_until(&f, f.nframes >= 1 + TCI_TRANSFER_WINDOW);
    for (int i = 0; i < 5; i++)
        tci_loop_turn(f.loop, 10);
    assert_int_equal(f.nframes, 1 + TCI_TRANSFER_WINDOW);
    uint64_t got = 0;
    for (size_t at_frame = 1; got < SIZE; at_frame++) {
        wait_until(&f, f.nframes > at_frame);
        const tci_eipd *e = &f.frames[at_frame];
        assert_int_equal(e->kind, TCI_EIPD_CHUNK);
        assert_int_equal(e->offset, got);
        tci_sha256_update(&sha, e->payload.ptr, e->payload.len);
        got += e->payload.len;
        assert_error(answer(&f, ask(&f, "file.close_reader", OP "\"reader\":\"%.*s\"}", "early",
                                    TC_STR_ARG(r))),
                     "invalid_handle");
        send_data(&f, TCI_EIPD_CREDIT, 0, r, got, TC_STR(""));
    }
    wait_until(&f, f.frames[f.nframes - 1].kind == TCI_EIPD_END);
    assert_int_equal(f.frames[f.nframes - 1].offset, SIZE);
    tci_sha256_final(&sha, digest);
    tci_hex(digest, sizeof digest, hex);
    hex[64] = '\0';
    const tci_json *c =
        answer(&f, ask(&f, "file.close_reader", OP "\"reader\":\"%.*s\"}", "close", TC_STR_ARG(r)));
    assert_str(text_at(at(c, "result", "completion", NULL), "digest", "value", NULL), hex);
    assert_int_equal(number_at(c, "result", "completion", "produced_bytes"), SIZE);
    fixture_stop(&f);
}

static void test_wrong_credit_and_reset_of_a_reader(void **state)
{
    fixture f;
    TCI_UNUSED(state);
    start(&f);
    write_file(&f, "small", 1000);
    tc_str r = open_reader(&f, "o1", "small");
    send_data(&f, TCI_EIPD_ATTACH, 0, r, 0, TC_STR(""));
    expect_frame(&f, TCI_EIPD_ATTACHED, 0, 0);
    expect_frame(&f, TCI_EIPD_CHUNK, 0, 0);
    send_data(&f, TCI_EIPD_CREDIT, 0, r, 999, TC_STR(""));
    expect_frame(&f, TCI_EIPD_RESET, TCI_EIPD_STATUS_PROTOCOL, 999);
    r = open_reader(&f, "o2", "small");
    send_data(&f, TCI_EIPD_ATTACH, 0, r, 0, TC_STR(""));
    expect_frame(&f, TCI_EIPD_ATTACHED, 0, 0);
    expect_frame(&f, TCI_EIPD_CHUNK, 0, 0);
    send_data(&f, TCI_EIPD_RESET, TCI_EIPD_STATUS_CANCELLED, r, 0, TC_STR(""));
    expect_frame(&f, TCI_EIPD_RESET, TCI_EIPD_STATUS_CANCELLED, 1000); /* our own progress */
    send_data(&f, TCI_EIPD_RESET, TCI_EIPD_STATUS_CANCELLED, r, 0, TC_STR(""));
    send_data(&f, TCI_EIPD_CREDIT, 0, r, 1000, TC_STR(""));
    r = open_reader(&f, "o3", "small");
    send_data(&f, TCI_EIPD_END_ACK, 0, r, 0, TC_STR(""));
    expect_frame(&f, TCI_EIPD_RESET, TCI_EIPD_STATUS_PROTOCOL, 0);
    assert_int_equal(f.device->ntransfers, 0);
    fixture_stop(&f);
}

static void test_transfers_expire(void **state)
{
    fixture f;
    TCI_UNUSED(state);
    fixture_prepare(&f);
    f.config.limits.file_transfer_idle_ttl_ms = 1000;
    fixture_start(&f);
    fixture_open_session(&f);
    size_t before = names_in_folder(&f);
    tc_str w = open_writer(&f, "o", "x");
    send_data(&f, TCI_EIPD_ATTACH, 0, w, 0, TC_STR(""));
    expect_frame(&f, TCI_EIPD_ATTACHED, 0, 0);
    expect_frame(&f, TCI_EIPD_RESET, TCI_EIPD_STATUS_EXPIRED, 0);
    wait_until(&f, f.device->ntransfers == 0);
    assert_int_equal(names_in_folder(&f), before);
    fixture_stop(&f);
}

static void test_limits_of_transfers(void **state)
{
    fixture f;
    TCI_UNUSED(state);
    fixture_prepare(&f);
    f.config.limits.max_concurrent_file_transfers = 2;
    f.config.limits.max_file_transfer_records = 3;
    f.config.limits.max_staged_file_bytes = 8;
    fixture_start(&f);
    fixture_open_session(&f);
    tc_str a = open_writer(&f, "o1", "a");
    (void)open_writer(&f, "o2", "b");
    assert_error(
        answer(&f, ask(&f, "file.open_writer",
                       OP "\"path\":{\"path\":\"%s/c\"},\"mode\":\"create\"}", "o3", f.folder)),
        "busy");
    send_data(&f, TCI_EIPD_ATTACH, 0, a, 0, TC_STR(""));
    expect_frame(&f, TCI_EIPD_ATTACHED, 0, 0);
    send_data(&f, TCI_EIPD_CHUNK, 0, a, 0, TC_STR("123456789"));
    expect_frame(&f, TCI_EIPD_RESET, TCI_EIPD_STATUS_LIMIT, 0);
    wait_until(&f, f.device->ntransfers == 1);
    for (int i = 0; i < 5; i++) { /* ended records make room */
        char op[32];
        (void)snprintf(op, sizeof op, "again%d", i);
        tc_str w = open_writer(&f, op, "d");
        (void)snprintf(op, sizeof op, "abort%d", i);
        assert_str(abort_status(&f, op, w), "aborted");
        wait_until(&f, f.device->ntransfers == 1);
    }
    fixture_stop(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_upload),
        cmocka_unit_test(test_uploads_that_end_early_leave_nothing),
        cmocka_unit_test(test_unknown_transfers),
        cmocka_unit_test(test_download_window),
        cmocka_unit_test(test_wrong_credit_and_reset_of_a_reader),
        cmocka_unit_test(test_transfers_expire),
        cmocka_unit_test(test_limits_of_transfers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
