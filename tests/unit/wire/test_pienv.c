/* SPDX-License-Identifier: Apache-2.0
 *
 * pi-env's frame heads, byte by byte as the reference has them, and the search for the sync line. */
#include "wire/pienv.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

typedef struct sample {
    const char *bytes;
    tci_pienv_head head;
} sample;

static const sample samples[] = {
    {"\x00\x00\x00\x24\x01\x00\x00\x00\x01\x00\x00\x00\x1b", {TCI_PIENV_REQUEST, 1, 27, 0}},
    {"\x00\x00\x00\x44\x01\x00\x00\x00\x07\x00\x00\x00\x38", {TCI_PIENV_REQUEST, 7, 56, 3}},
    {"\x00\x00\x00\x0b\x02\x00\x00\x00\x07\x00\x00\x00\x02", {TCI_PIENV_RESULT, 7, 2, 0}},
    {"\x00\x00\x00\x72\x03\x00\x00\x00\x08\x00\x00\x00\x69", {TCI_PIENV_ERROR, 8, 105, 0}},
    {"\x00\x00\x00\x2f\x04\x00\x00\x00\x09\x00\x00\x00\x23", {TCI_PIENV_EVENT, 9, 35, 3}},
    {"\x00\x00\x00\x18\x05\x00\x00\x00\x09\x00\x00\x00\x0f", {TCI_PIENV_CANCEL, 9, 15, 0}},
    {"\x00\x00\x00\x0b\x06\x00\x00\x00\x00\x00\x00\x00\x02", {TCI_PIENV_PING, 0, 2, 0}},
    {"\x01\x00\x00\x00\xff\xff\xff\xff\xff\x00\xff\xff\xf7", {255, UINT32_MAX, 0xfffff7, 0}},
    {"\x00\x00\x00\x09\x00\x00\x00\x00\x00\x00\x00\x00\x00", {0, 0, 0, 0}},
};

static void heads_are_read_and_written_as_the_reference_has_them(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) {
        tci_pienv_head head;
        char out[TCI_PIENV_HEAD_BYTES];
        tc_err err;
        assert_int_equal(tci_pienv_head_read(samples[i].bytes, &head, &err), 0);
        assert_int_equal(head.type, samples[i].head.type);
        assert_int_equal(head.id, samples[i].head.id);
        assert_int_equal(head.json_len, samples[i].head.json_len);
        assert_int_equal(head.payload_len, samples[i].head.payload_len);
        assert_int_equal(tci_pienv_head_put(&head, out, &err), 0);
        assert_memory_equal(out, samples[i].bytes, sizeof out);
    }
}

static void lengths_that_cannot_be_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "\x00\x00\x00\x08\x01\x00\x00\x00\x01\x00\x00\x00\x00", /* shorter than its own head */
        "\x00\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x00",
        "\x01\x00\x00\x01\x01\x00\x00\x00\x01\x00\x00\x00\x00", /* one over 16 MiB */
        "\xff\xff\xff\xff\x01\x00\x00\x00\x01\xff\xff\xff\xff",
        "\x00\x00\x00\x0b\x01\x00\x00\x00\x01\x00\x00\x00\x03", /* more JSON than frame */
        "\x00\x00\x00\x09\x01\x00\x00\x00\x01\xff\xff\xff\xff",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        tci_pienv_head head;
        tc_err err;
        assert_int_equal(tci_pienv_head_read(bad[i], &head, &err), TC_E_PROTOCOL);
    }
    tc_err err;
    char out[TCI_PIENV_HEAD_BYTES];
    tci_pienv_head most = {TCI_PIENV_RESULT, 1, 2, TCI_PIENV_LENGTH_MAX - TCI_PIENV_LENGTH_MIN - 2};
    assert_int_equal(tci_pienv_head_put(&most, out, &err), 0);
    most.payload_len++;
    assert_int_equal(tci_pienv_head_put(&most, out, &err), TC_E_TOO_BIG);
    most.payload_len = UINT32_MAX;
    most.json_len = UINT32_MAX;
    assert_int_equal(tci_pienv_head_put(&most, out, &err), TC_E_TOO_BIG);
}

/* The noise in front is counted right however the bytes are cut. */
static void check_found(const char *text, const char *token, size_t want)
{
    size_t len = strlen(text);
    for (size_t piece = 1; piece <= len; piece++) {
        tci_pienv_sync s;
        tc_err err;
        size_t taken = 0;
        assert_int_equal(tci_pienv_sync_init(&s, (tc_str){token, strlen(token)}, &err), 0);
        for (size_t at = 0; at < len && !s.is_found; at += piece) {
            size_t n = len - at < piece ? len - at : piece;
            taken += tci_pienv_sync_feed(&s, (tc_str){text + at, n});
        }
        assert_int_equal(s.is_found, want != 0);
        assert_int_equal(taken, want != 0 ? want : len);
    }
}

static void the_sync_line_is_found_in_any_noise(void **state)
{
    (void)state;
    check_found("PI-ENV ab\nrest", "ab", 10);
    check_found("Welcome!\r\nPI-ENV ab\n", "ab", 20);
    check_found("no line end before PI-ENV ab\nx", "ab", 29);
    check_found("PI-PI-ENV PI-ENV ab\n", "ab", 20);
    check_found("PI-ENV aPI-ENV ab\n", "ab", 18);
    check_found("PI-ENV PI-ENV PI\n", "PI-ENV PI", 17);
    check_found("PI-ENV PI-ENV PI-ENV PI\n", "PI-ENV PI", 24);
    check_found("PI-ENV \n", "", 8);
    check_found("PI-ENV ac\nPI-ENV a", "ab", 0);
    check_found("PI-ENV ab\r\n", "ab", 0);
}

static void a_token_that_cannot_be_kept_is_refused(void **state)
{
    (void)state;
    char token[TCI_PIENV_MARKER_MAX];
    tci_pienv_sync s;
    tc_err err;
    memset(token, 'x', sizeof token);
    assert_int_equal(tci_pienv_sync_init(&s, (tc_str){token, TCI_PIENV_MARKER_MAX - 8}, &err), 0);
    assert_int_equal(tci_pienv_sync_init(&s, (tc_str){token, TCI_PIENV_MARKER_MAX - 7}, &err),
                     TC_E_TOO_BIG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heads_are_read_and_written_as_the_reference_has_them),
        cmocka_unit_test(lengths_that_cannot_be_are_refused),
        cmocka_unit_test(the_sync_line_is_found_in_any_noise),
        cmocka_unit_test(a_token_that_cannot_be_kept_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
