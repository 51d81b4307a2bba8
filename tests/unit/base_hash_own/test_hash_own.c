/* SPDX-License-Identifier: Apache-2.0 */
#include "base/hash_own.c" /* both ways of computing a block are its own */

#include <openssl/evp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

enum { LEN_MAX = 400, NBLOCKS = 9 };

static void fill(uint8_t *p, size_t n)
{
    uint32_t x = 12345;
    for (size_t i = 0; i < n; i++) {
        x = x * 1664525 + 1013904223;
        p[i] = (uint8_t)(x >> 24);
    }
}

static void every_length_agrees_with_the_library(void **unused)
{
    TCI_UNUSED(unused);
    uint8_t bytes[LEN_MAX], ours[TCI_SHA256_BYTES], theirs[EVP_MAX_MD_SIZE];
    fill(bytes, sizeof bytes);
    for (size_t n = 0; n <= LEN_MAX; n++) {
        tci_sha256_of(tci_str_of((const char *)bytes, n), ours);
        assert_int_equal(EVP_Digest(bytes, n, theirs, NULL, EVP_sha256(), NULL), 1);
        assert_memory_equal(ours, theirs, sizeof ours);
    }
}

static void every_cut_into_three_is_the_same(void **unused)
{
    TCI_UNUSED(unused);
    uint8_t bytes[2 * BLOCK + 9], whole[TCI_SHA256_BYTES], pieces[TCI_SHA256_BYTES];
    fill(bytes, sizeof bytes);
    tci_sha256_of(tci_str_of((const char *)bytes, sizeof bytes), whole);
    for (size_t a = 0; a <= sizeof bytes; a += 3)
        for (size_t b = a; b <= sizeof bytes; b += 5) {
            tci_sha256 h;
            tci_sha256_init(&h);
            tci_sha256_update(&h, bytes, a);
            tci_sha256_update(&h, bytes + a, b - a);
            tci_sha256_update(&h, bytes + b, sizeof bytes - b);
            tci_sha256_final(&h, pieces);
            assert_memory_equal(pieces, whole, sizeof whole);
        }
}

static void the_processor_and_plain_c_agree(void **unused)
{
    TCI_UNUSED(unused);
#if defined(HAS_X86) || defined(HAS_ARM)
    if (!has_instructions()) {
        print_message("skipped: this processor has no instructions for SHA-256\n");
        skip();
    }
    uint8_t bytes[NBLOCKS * BLOCK + 1];
    fill(bytes, sizeof bytes);
    for (size_t n = 0; n <= NBLOCKS; n++)
        for (size_t off = 0; off < 2; off++) { /* aligned and not */
            tci_sha256 start;
            tci_sha256_init(&start);
            state a = *state_of(&start), b = a;
            blocks_plain(a.h, bytes + off, n);
            blocks_by_instructions(b.h, bytes + off, n);
            assert_memory_equal(a.h, b.h, sizeof a.h);
        }
#else
    print_message("skipped: only plain C is known for this processor\n");
    skip();
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_length_agrees_with_the_library),
        cmocka_unit_test(every_cut_into_three_is_the_same),
        cmocka_unit_test(the_processor_and_plain_c_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
