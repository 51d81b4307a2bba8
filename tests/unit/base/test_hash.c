/* SPDX-License-Identifier: Apache-2.0 */
#include "base/hash.h"
#include "check.h"

static void check_digest(tc_str s, const char *expected)
{
    uint8_t digest[TCI_SHA256_BYTES];
    char hex[TCI_SHA256_HEX];
    tci_sha256_of(s, digest);
    tci_hex(digest, sizeof digest, hex);
    assert_text(tci_str_of(hex, sizeof hex), expected);
}

static void the_published_vectors(void **state)
{
    TCI_UNUSED(state);
    check_digest(tci_str_of(NULL, 0),
                 "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    check_digest(TC_STR("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    check_digest(TC_STR("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
                 "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

static void a_million_letters_in_uneven_pieces(void **state)
{
    TCI_UNUSED(state);
    char letters[1000];
    memset(letters, 'a', sizeof letters);
    tci_sha256 h, copy;
    tci_sha256_init(&h);
    for (size_t done = 0, n = 1; done < 1000000; done += n, n = n * 7 % 997 + 1) {
        if (n > 1000000 - done)
            n = 1000000 - done;
        tci_sha256_update(&h, letters, n);
        tci_sha256_update(&h, NULL, 0);
        copy = h; /* the state is a plain value */
    }
    uint8_t digest[TCI_SHA256_BYTES];
    char hex[TCI_SHA256_HEX];
    tci_sha256_final(&h, digest);
    tci_hex(digest, sizeof digest, hex);
    assert_text(tci_str_of(hex, sizeof hex),
                "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    uint8_t again[TCI_SHA256_BYTES];
    tci_sha256_final(&copy, again);
    assert_memory_equal(again, digest, sizeof digest);
}

static void hex_is_lower_case_and_exact(void **state)
{
    TCI_UNUSED(state);
    static const uint8_t bytes[] = {0x00, 0x9a, 0xff};
    char text[6];
    uint8_t back[3] = {1, 2, 3};
    tc_err err;
    tci_hex(bytes, 3, text);
    assert_text(tci_str_of(text, 6), "009aff");
    assert_int_equal(tci_unhex(TC_STR("009aff"), back, 3, &err), 0);
    assert_memory_equal(back, bytes, 3);
    assert_int_equal(tci_unhex(TC_STR("009aF0"), back, 3, &err), TC_E_INVALID);
    assert_int_equal(tci_unhex(TC_STR("009af"), back, 3, &err), TC_E_INVALID);
    assert_int_equal(tci_unhex(TC_STR("009aff00"), back, 3, &err), TC_E_INVALID);
    assert_int_equal(tci_unhex(TC_STR("00 aff"), back, 3, &err), TC_E_INVALID);
}

static void table_hashes_depend_on_every_byte_the_length_and_the_seed(void **state)
{
    TCI_UNUSED(state);
    char text[40] = {0};
    for (size_t n = 0; n < sizeof text; n++) {
        uint64_t h = tci_hash64(text, n, 1);
        assert_true(h == tci_hash64(text, n, 1));
        assert_true(h != tci_hash64(text, n, 2));
        assert_true(n == 0 || h != tci_hash64(text, n - 1, 1));
        for (size_t i = 0; i < n; i++) {
            text[i] = 1;
            assert_true(h != tci_hash64(text, n, 1));
            text[i] = 0;
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_published_vectors),
        cmocka_unit_test(a_million_letters_in_uneven_pieces),
        cmocka_unit_test(hex_is_lower_case_and_exact),
        cmocka_unit_test(table_hashes_depend_on_every_byte_the_length_and_the_seed),
    };
    return cmocka_run_group_tests_name("hash", tests, NULL, NULL);
}
