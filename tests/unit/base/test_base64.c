/* SPDX-License-Identifier: Apache-2.0 */
#include "base/base64.h"
#include "check.h"

typedef struct vector {
    const char *bytes, *text;
} vector;

/* RFC 4648 section 10, without the padding. */
static const vector vectors[] = {
    {"", ""},           {"f", "Zg"},          {"fo", "Zm8"},         {"foo", "Zm9v"},
    {"foob", "Zm9vYg"}, {"fooba", "Zm9vYmE"}, {"foobar", "Zm9vYmFy"}};

static void the_published_vectors(void **state)
{
    TCI_UNUSED(state);
    for (size_t i = 0; i < TCI_ARRAY_LEN(vectors); i++) {
        tc_str bytes = tci_str(vectors[i].bytes), text = tci_str(vectors[i].text);
        char out[32];
        size_t len = 99;
        tc_err err;
        assert_int_equal(tci_base64_encoded_len(bytes.len), text.len);
        tci_base64_encode(bytes, out);
        assert_bytes(tci_str_of(out, text.len), text);
        assert_int_equal(tci_base64_decode(text, out, &len, &err), 0);
        assert_bytes(tci_str_of(out, len), bytes);
    }
}

/* All lengths up to some, with buffers of exactly the promised sizes. */
static void all_lengths_survive(void **state)
{
    TCI_UNUSED(state);
    unsigned char bytes[300];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(i * 167 + (i >> 3));
    for (size_t n = 0; n <= sizeof bytes; n++) {
        char *from = exact_copy(tci_str_of(bytes, n));
        size_t text_len = tci_base64_encoded_len(n), len = 0;
        char *text = tci_mem_resize(NULL, text_len);
        char *out = tci_mem_resize(NULL, tci_base64_decoded_max(text_len));
        assert_non_null(text);
        assert_non_null(out);
        tci_base64_encode(tci_str_of(from, n), text);
        tc_err err;
        assert_int_equal(tci_base64_decode(tci_str_of(text, text_len), out, &len, &err), 0);
        assert_bytes(tci_str_of(out, len), tci_str_of(bytes, n));
        tci_mem_free(from);
        tci_mem_free(text);
        tci_mem_free(out);
    }
}

static void every_12_bits_have_their_two_characters(void **state)
{
    TCI_UNUSED(state);
    static const char alphabet[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (unsigned w = 0; w < 4096; w++) {
        unsigned char bytes[3] = {(unsigned char)(w >> 4), (unsigned char)(w << 4 | w >> 8),
                                  (unsigned char)w};
        char out[4];
        tci_base64_encode(tci_str_of(bytes, 3), out);
        char expected[4] = {alphabet[w >> 6], alphabet[w & 63], alphabet[w >> 6], alphabet[w & 63]};
        assert_memory_equal(out, expected, 4);
    }
}

static int decode(tc_str s, size_t *len)
{
    char out[64];
    tc_err err;
    char *text = exact_copy(s);
    int rc = tci_base64_decode(tci_str_of(text, s.len), out, len, &err);
    tci_mem_free(text);
    return rc;
}

static void anything_but_the_one_canonical_text_is_refused(void **state)
{
    TCI_UNUSED(state);
    static const char *const bad[] = {"Zg==",  "Zm8=",  "=",     "Z",      "Zm9vY",
                                      "Zh",    "Zm9",   "Zm-v",  "Zm_v",   "Zm9v\n",
                                      " Zm9v", "Zm 9v", "Zm9v=", "ZmF\x80"};
    size_t len = 77;
    for (size_t i = 0; i < TCI_ARRAY_LEN(bad); i++)
        assert_int_equal(decode(tci_str(bad[i]), &len), TC_E_INVALID);
    assert_int_equal(decode(TC_STR("Zm9v\0AAA"), &len), TC_E_INVALID);
    assert_int_equal(len, 77);
}

/* Of the two and three characters that can end a text, those with unused bits set are refused. */
static void a_cut_text_is_valid_only_where_bytes_end(void **state)
{
    TCI_UNUSED(state);
    tc_str text = TC_STR("AAAAAAAAAAAAA"); /* zero bytes: any cut but 4n+1 is canonical */
    for (size_t n = 0; n <= text.len; n++) {
        size_t len = 0;
        int rc = decode(tci_str_sub(text, 0, n), &len);
        assert_int_equal(rc, n % 4 == 1 ? TC_E_INVALID : 0);
        if (rc == 0)
            assert_int_equal(len, n * 6 / 8);
    }
    text = TC_STR("/////////////");
    for (size_t n = 0; n <= text.len; n++) {
        size_t len = 0;
        assert_int_equal(decode(tci_str_sub(text, 0, n), &len), n % 4 == 0 ? 0 : TC_E_INVALID);
    }
}

static void appending_respects_the_maximum(void **state)
{
    TCI_UNUSED(state);
    tci_buf b;
    tci_buf_init(&b, 9);
    tci_buf_append_byte(&b, '>');
    tci_base64_append(&b, TC_STR("foobar"));
    assert_text(tci_buf_str(&b), ">Zm9vYmFy");
    tci_base64_append(&b, TC_STR("x"));
    assert_false(tci_buf_ok(&b));
    tci_buf_done(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_published_vectors),
        cmocka_unit_test(all_lengths_survive),
        cmocka_unit_test(every_12_bits_have_their_two_characters),
        cmocka_unit_test(anything_but_the_one_canonical_text_is_refused),
        cmocka_unit_test(a_cut_text_is_valid_only_where_bytes_end),
        cmocka_unit_test(appending_respects_the_maximum),
    };
    return cmocka_run_group_tests_name("base64", tests, NULL, NULL);
}
