/* SPDX-License-Identifier: Apache-2.0
 *
 * What a file is by its first bytes: an image and its size, or something else that is no text. Nothing
 * is decoded. Any thread. */
#include "base/num.h"
#include "base/utf8.h"
#include "harness/tools/tool_common.h"

enum { HEADER_BYTES = 32, BLOCK_BYTES = 64 * 1024, PNG_SIGNATURE_BYTES = 8 };
static const char png_signature[] = "\x89PNG\r\n\x1a\n";

static uint32_t byte_at(tc_str s, size_t at)
{
    return at < s.len ? (unsigned char)s.ptr[at] : 0;
}

static uint32_t u16_le(tc_str s, size_t at)
{
    return byte_at(s, at) | byte_at(s, at + 1) << 8;
}

static uint32_t u16_be(tc_str s, size_t at)
{
    return byte_at(s, at) << 8 | byte_at(s, at + 1);
}

static uint32_t u32_le(tc_str s, size_t at)
{
    return u16_le(s, at) | u16_le(s, at + 2) << 16;
}

static uint32_t u32_be(tc_str s, size_t at)
{
    return u16_be(s, at) << 16 | u16_be(s, at + 2);
}

static bool has(tc_str s, size_t at, const char *text)
{
    return tci_str_eq(tci_str_sub(s, at, strlen(text)), tci_str(text));
}

static bool is_bmp(tc_str s)
{
    if (s.len < 26 || !has(s, 0, "BM"))
        return false;
    uint32_t size = u32_le(s, 2), pixels = u32_le(s, 10), header = u32_le(s, 14), planes, bits;
    if ((size != 0 && size < 26) || pixels < 14 + (uint64_t)header || (size != 0 && pixels >= size))
        return false;
    if (header == 12) {
        planes = u16_le(s, 22);
        bits = u16_le(s, 24);
    } else if (header >= 40 && header <= 124 && s.len >= 30) {
        planes = u16_le(s, 26);
        bits = u16_le(s, 28);
    } else {
        return false;
    }
    return planes == 1 &&
           (bits == 1 || bits == 4 || bits == 8 || bits == 16 || bits == 24 || bits == 32);
}

static tc_str type_of_header(tc_str s)
{
    if (has(s, 0, "\xFF\xD8\xFF"))
        return byte_at(s, 3) == 0xF7 ? (tc_str){0} : TC_STR("image/jpeg");
    if (has(s, 0, "GIF87a") || has(s, 0, "GIF89a"))
        return TC_STR("image/gif");
    if (has(s, 0, "RIFF") && has(s, 8, "WEBP"))
        return TC_STR("image/webp");
    return is_bmp(s) ? TC_STR("image/bmp") : (tc_str){0};
}

/* Does a chunk of animation come before the first of pixels? */
static int find_animation(tc_binary_reader *reader, const tc_call *call, uint64_t size,
                          bool *ret_is_animated, tc_err *err)
{
    tc_str block = {0};
    uint64_t at = PNG_SIGNATURE_BYTES, block_at = 0;
    *ret_is_animated = false;
    while (at + 8 <= size) {
        if (at < block_at || at + 8 > block_at + block.len) {
            block_at = at;
            if (tc_binary_reader_read(reader, call, (int64_t)at, BLOCK_BYTES, &block, err) < 0)
                return err->code;
        }
        tc_str chunk = tci_str_sub(block, (size_t)(at - block_at), 8);
        if (chunk.len < 8 || has(chunk, 4, "IDAT"))
            return 0;
        if (has(chunk, 4, "acTL")) {
            *ret_is_animated = true;
            return 0;
        }
        at += 8 + (uint64_t)u32_be(chunk, 0) + 4;
    }
    return 0;
}

int tci_image_type(tc_binary_reader *reader, const tc_call *call, tc_str head, uint64_t size,
                   tc_str *ret_type, tc_err *err)
{
    tc_str s = tci_str_sub(head, 0, HEADER_BYTES);
    bool is_animated;
    *ret_type = (tc_str){0};
    if (!tci_str_starts(s, tci_str_of(png_signature, PNG_SIGNATURE_BYTES))) {
        *ret_type = type_of_header(s);
        return 0;
    }
    if (s.len < 16 || u32_be(s, 8) != 13 || !has(s, 12, "IHDR"))
        return 0;
    if (find_animation(reader, call, size, &is_animated, err) < 0)
        return err->code;
    if (!is_animated)
        *ret_type = TC_STR("image/png");
    return 0;
}

static bool jpeg_size(tc_str s, uint32_t *ret_width, uint32_t *ret_height)
{
    size_t at = 2;
    while (at + 9 <= s.len) {
        uint32_t marker = byte_at(s, at + 1);
        if (byte_at(s, at) != 0xFF)
            return false;
        if (marker == 0xFF) {
            at++;
            continue;
        }
        if (marker >= 0xC0 && marker <= 0xCF && marker != 0xC4 && marker != 0xC8 &&
            marker != 0xCC) {
            *ret_height = u16_be(s, at + 5);
            *ret_width = u16_be(s, at + 7);
            return true;
        }
        at += 2 + u16_be(s, at + 2);
    }
    return false;
}

static bool webp_size(tc_str s, uint32_t *ret_width, uint32_t *ret_height)
{
    if (s.len < 30)
        return false;
    if (has(s, 12, "VP8 ")) {
        *ret_width = u16_le(s, 26) & 0x3FFF;
        *ret_height = u16_le(s, 28) & 0x3FFF;
    } else if (has(s, 12, "VP8L")) {
        uint32_t bits = u32_le(s, 21);
        *ret_width = (bits & 0x3FFF) + 1;
        *ret_height = (bits >> 14 & 0x3FFF) + 1;
    } else if (has(s, 12, "VP8X")) {
        *ret_width = (u16_le(s, 24) | byte_at(s, 26) << 16) + 1;
        *ret_height = (u16_le(s, 27) | byte_at(s, 29) << 16) + 1;
    } else {
        return false;
    }
    return true;
}

bool tci_image_size(tc_str bytes, tc_str type, uint32_t *ret_width, uint32_t *ret_height)
{
    if (tci_str_eq(type, TC_STR("image/png")) && bytes.len >= 24) {
        *ret_width = u32_be(bytes, 16);
        *ret_height = u32_be(bytes, 20);
        return true;
    }
    if (tci_str_eq(type, TC_STR("image/gif")) && bytes.len >= 10) {
        *ret_width = u16_le(bytes, 6);
        *ret_height = u16_le(bytes, 8);
        return true;
    }
    if (tci_str_eq(type, TC_STR("image/webp")))
        return webp_size(bytes, ret_width, ret_height);
    return tci_str_eq(type, TC_STR("image/jpeg")) && jpeg_size(bytes, ret_width, ret_height);
}

/* ---- no text ---- */

static const struct {
    tc_str magic, kind;
} magics[] = {
    {{"\x7F"
      "ELF",
      4},
     {"an ELF program or library", 25}},
    {{"\x1F\x8B", 2}, {"gzip data", 9}},
    {{"PK\x03\x04", 4}, {"a zip archive", 13}},
    {{"%PDF-", 5}, {"a PDF document", 14}},
    {{"BZh", 3}, {"bzip2 data", 10}},
    {{"\xFD"
      "7zXZ",
      5},
     {"xz data", 7}},
    {{"\x28\xB5\x2F\xFD", 4}, {"zstd data", 9}},
    {{"SQLite format 3\0", 16}, {"an SQLite database", 18}},
    {{"\x89PNG\r\n\x1a\n", 8}, {"a PNG image", 11}},
    {{"MZ", 2}, {"a Windows program or library", 28}},
    {{"\0asm", 4}, {"a WebAssembly module", 20}},
    {{"\xCA\xFE\xBA\xBE", 4}, {"a Java class or Mach-O file", 27}},
    {{"\xCF\xFA\xED\xFE", 4}, {"a Mach-O file", 13}},
};

/* Every other byte is NUL, the rest mostly letters: a text of two bytes a character. */
static bool is_wide(tc_str s, size_t nul_at)
{
    size_t n = s.len / 2, nuls = 0, plain = 0;
    for (size_t i = 0; i < n; i++) {
        unsigned char other = (unsigned char)s.ptr[2 * i + 1 - nul_at];
        nuls += s.ptr[2 * i + nul_at] == '\0';
        plain += other >= 0x20 || other == '\n' || other == '\r' || other == '\t';
    }
    return n >= 4 && nuls * 10 >= n * 9 && plain * 10 >= n * 9;
}

/* Bytes that are in no text: other controls, and what is no UTF-8. */
static size_t count_odd(tc_str s)
{
    size_t n = 0, at = 0;
    while (at < s.len) {
        tc_str rest = tci_str_sub(s, at, s.len);
        size_t valid = tci_utf8_valid_prefix(rest);
        for (size_t i = 0; i < valid; i++) {
            unsigned char c = (unsigned char)rest.ptr[i];
            n += c < 9 || (c > 13 && c < 32 && c != 27);
        }
        at += valid;
        n += at < s.len;
        at++;
    }
    return n;
}

tc_str tci_binary_kind(tc_str head, bool is_cut)
{
    if (head.len >= 2 && has(head, 0, "\xFF\xFE"))
        return TC_STR("UTF-16LE text");
    if (head.len >= 2 && has(head, 0, "\xFE\xFF"))
        return TC_STR("UTF-16BE text");
    if (is_wide(head, 1))
        return TC_STR("UTF-16LE text");
    if (is_wide(head, 0))
        return TC_STR("UTF-16BE text");
    if (is_cut)
        head.len -= tci_utf8_cut_tail(head);
    bool is_utf8 = tci_utf8_is_valid(head);
    for (size_t i = 0; i < TCI_ARRAY_LEN(magics); i++)
        if (!is_utf8 && tci_str_starts(head, magics[i].magic))
            return magics[i].kind;
    bool has_nul = tci_str_find_byte(head, '\0') < head.len;
    if ((has_nul && !is_utf8 && count_odd(head) * 20 > head.len) || count_odd(head) * 3 > head.len)
        return TC_STR("binary data");
    return (tc_str){0};
}
