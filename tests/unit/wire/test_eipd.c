/* SPDX-License-Identifier: Apache-2.0
 *
 * EIPD data frames: the recorded ones both ways, each rule, every cut. */
#include "base/hash.h"
#include "wire/eipd.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

typedef struct recorded {
    tci_eipd_kind kind;
    int status;
    const char *session, *handle;
    uint64_t offset;
    size_t payload_len;
    const char *hex;
} recorded;

static const recorded recorded_frames[] = {
#include "eipd_recorded.inc"
};

enum { FRAME_MAX = 4096 };

static size_t unhex(const char *hex, char *out)
{
    tc_err err;
    size_t n = strlen(hex) / 2;
    assert_int_equal(tci_unhex(tci_str(hex), out, n, &err), 0);
    return n;
}

static void test_recorded_frames_decode_and_encode_to_the_same_bytes(void **state)
{
    TCI_UNUSED(state);
    for (size_t i = 0; i < TCI_ARRAY_LEN(recorded_frames); i++) {
        const recorded *r = &recorded_frames[i];
        char bytes[FRAME_MAX] = {0}, back[FRAME_MAX];
        tc_err err;
        tci_eipd d;
        size_t n = unhex(r->hex, bytes);
        size_t len = TCI_EIPD_FIXED_BYTES + strlen(r->session) + strlen(r->handle) + r->payload_len;
        assert_true(len <= sizeof bytes && n <= len);
        assert_int_equal(tci_eipd_decode(tci_str_of(bytes, len), &d, &err), 0);
        assert_int_equal(d.kind, r->kind);
        assert_int_equal(d.status, r->status);
        assert_true(tci_str_eq(d.session, tci_str(r->session)));
        assert_true(tci_str_eq(d.handle, tci_str(r->handle)));
        assert_int_equal(d.offset, r->offset);
        assert_int_equal(d.payload.len, r->payload_len);
        assert_int_equal(tci_eipd_check(&d, &err), 0);
        assert_int_equal(tci_eipd_frame_len(&d), len);
        size_t head = tci_eipd_put_head(&d, back);
        assert_memory_equal(back, bytes, head);
        assert_ptr_equal(d.payload.ptr, bytes + head);
    }
}

/* A frame with every field at hand, to be broken. */
static size_t build(char *out, int kind, int status, uint64_t offset, const char *session,
                    const char *handle, const char *payload)
{
    tci_eipd d = {.kind = (tci_eipd_kind)kind,
                  .status = (tci_eipd_status)status,
                  .offset = offset,
                  .session = tci_str(session),
                  .handle = tci_str(handle),
                  .payload = tci_str(payload)};
    size_t n = tci_eipd_put_head(&d, out);
    memcpy(out + n, payload, d.payload.len);
    return n + d.payload.len;
}

static int decode(const char *bytes, size_t len)
{
    tc_err err;
    tci_eipd d;
    /* A copy of the exact size, so that a sanitizer sees every read beyond it. */
    char *copy = malloc(len > 0 ? len : 1);
    assert_non_null(copy);
    memcpy(copy, bytes, len);
    int rc = tci_eipd_decode(tci_str_of(copy, len), &d, &err);
    if (rc < 0) {
        assert_int_equal(rc, TC_E_PROTOCOL);
        assert_string_equal(err.msg, "invalid EIP data frame");
    }
    free(copy);
    return rc;
}

static void test_each_rule_of_a_field(void **state)
{
    static const struct {
        int kind, status;
        uint64_t offset;
        const char *session, *handle, *payload;
        bool is_valid;
    } cases[] = {
        {1, 0, 0, "s-1", "h-1", "", true},
        {0, 0, 0, "s-1", "h-1", "", false},
        {8, 0, 0, "s-1", "h-1", "", false},
        {1, 1, 0, "s-1", "h-1", "", false},
        {6, 0, 0, "s-1", "h-1", "", false},
        {6, 1, 0, "s-1", "h-1", "", true},
        {6, 7, UINT64_MAX, "s-1", "h-1", "", true},
        {6, 8, 0, "s-1", "h-1", "", false},
        {1, 0, 1, "s-1", "h-1", "", false},
        {2, 0, 1, "s-1", "h-1", "", false},
        {2, 0, 0, "s-1", "h-1", "", true},
        {3, 0, 0, "s-1", "h-1", "", false},
        {3, 0, 0, "s-1", "h-1", "x", true},
        {3, 0, UINT64_MAX - 1, "s-1", "h-1", "x", true},
        {3, 0, UINT64_MAX, "s-1", "h-1", "x", false},
        {3, 0, UINT64_MAX - 1, "s-1", "h-1", "xy", false},
        {4, 0, UINT64_MAX, "s-1", "h-1", "", true},
        {4, 0, 0, "s-1", "h-1", "x", false},
        {5, 0, 7, "s-1", "h-1", "", true},
        {6, 1, 0, "s-1", "h-1", "x", false},
        {7, 0, 7, "s-1", "h-1", "", true},
        {7, 0, 0, "s-1", "h-1", "x", false},
        {1, 0, 0, "", "h-1", "", false},
        {1, 0, 0, "s-1", "", "", false},
        {1, 0, 0, "\xff", "h-1", "", false},
        {1, 0, 0, "s-1", "\xc3", "", false},
        {1, 0, 0, "s-\xc3\xa9", "h\xe2\x82\xac", "", true},
    };
    TCI_UNUSED(state);
    for (size_t i = 0; i < TCI_ARRAY_LEN(cases); i++) {
        char bytes[256];
        size_t n = build(bytes, cases[i].kind, cases[i].status, cases[i].offset, cases[i].session,
                         cases[i].handle, cases[i].payload);
        assert_int_equal(decode(bytes, n) == 0, cases[i].is_valid);
        tc_err err;
        tci_eipd d = {.kind = (tci_eipd_kind)cases[i].kind,
                      .status = (tci_eipd_status)cases[i].status,
                      .offset = cases[i].offset,
                      .session = tci_str(cases[i].session),
                      .handle = tci_str(cases[i].handle),
                      .payload = tci_str(cases[i].payload)};
        assert_int_equal(tci_eipd_check(&d, &err) == 0, cases[i].is_valid);
    }
}

static void test_magic_version_and_lengths(void **state)
{
    char bytes[256];
    TCI_UNUSED(state);
    size_t n = build(bytes, 3, 0, 3, "s-1", "r-1", "\x01\x02");
    assert_int_equal(decode(bytes, n), 0);
    static const struct {
        size_t at;
        char value;
    } breaks[] = {{0, 'e'}, {3, 'X'}, {4, 0},  {4, 2},  {9, 4}, {9, 2},
                  {8, 1},   {11, 4},  {23, 1}, {23, 3}, {20, 1}};
    for (size_t i = 0; i < TCI_ARRAY_LEN(breaks); i++) {
        char broken[256];
        memcpy(broken, bytes, n);
        broken[breaks[i].at] = breaks[i].value;
        assert_true(decode(broken, n) < 0);
    }
    assert_true(decode(bytes, n + 1) < 0);
    for (size_t cut = 0; cut < n; cut++)
        assert_true(decode(bytes, cut) < 0);
}

static void test_head_alone_decodes_at_every_cut(void **state)
{
    char bytes[256];
    TCI_UNUSED(state);
    size_t n = build(bytes, 3, 0, 3, "s-1", "r-1", "payload");
    for (size_t cut = 0; cut <= n; cut++) {
        tc_err err;
        tci_eipd d;
        size_t need = 999;
        char *copy = malloc(cut > 0 ? cut : 1);
        assert_non_null(copy);
        memcpy(copy, bytes, cut);
        assert_int_equal(tci_eipd_decode_head(tci_str_of(copy, cut), n, &d, &need, &err), 0);
        assert_int_equal(need, cut < 24 ? 24 : cut < 30 ? 30 : 0);
        if (need == 0) {
            assert_int_equal(d.payload.len, 7);
            assert_null(d.payload.ptr);
            assert_int_equal(tci_eipd_head_len(&d), 30);
            assert_true(tci_str_eq(d.handle, TC_STR("r-1")));
        }
        free(copy);
    }
}

static void test_names(void **state)
{
    TCI_UNUSED(state);
    assert_string_equal(tci_eipd_kind_name(TCI_EIPD_END_ACK), "END_ACK");
    assert_string_equal(tci_eipd_kind_name((tci_eipd_kind)99), "?");
    assert_string_equal(tci_eipd_status_name(TCI_EIPD_STATUS_LIMIT), "limit");
    assert_string_equal(tci_eipd_status_name((tci_eipd_status)99), "?");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_recorded_frames_decode_and_encode_to_the_same_bytes),
        cmocka_unit_test(test_each_rule_of_a_field),
        cmocka_unit_test(test_magic_version_and_lengths),
        cmocka_unit_test(test_head_alone_decodes_at_every_cut),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
