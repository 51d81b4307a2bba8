/* SPDX-License-Identifier: Apache-2.0
 *
 * Borrowed text: comparing, cutting, and the one way to a C string. */
#ifndef TCI_STR_H
#define TCI_STR_H

#include "base/compiler.h"
#include <string.h>
#include <telechir/error.h>

static inline tc_str tci_str(const char *cstr) /* NULL gives the empty string */
{
    tc_str s = {cstr, cstr != NULL ? strlen(cstr) : 0};
    return s;
}

static inline tc_str tci_str_of(const void *ptr, size_t len)
{
    tc_str s = {(const char *)ptr, len};
    return s;
}

static inline bool tci_str_eq(tc_str a, tc_str b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

/* Bytewise order; a prefix comes first. <0, 0, >0. */
int tci_str_cmp(tc_str a, tc_str b);
bool tci_str_eq_nocase(tc_str a, tc_str b); /* ASCII letters only */
bool tci_str_starts(tc_str s, tc_str prefix);
bool tci_str_ends(tc_str s, tc_str suffix);
/* Offset of the first/last byte c, or s.len when there is none. */
size_t tci_str_find_byte(tc_str s, char c);
size_t tci_str_rfind_byte(tc_str s, char c);
size_t tci_str_count_byte(tc_str s, char c); /* how many there are; eight at a time */
/* Offset of needle, or s.len when there is none. */
size_t tci_str_find(tc_str s, tc_str needle);
/* The part from `from` on, of at most len bytes; clamped to s. */
tc_str tci_str_sub(tc_str s, size_t from, size_t len);
/* Without spaces and tabs at both ends. */
tc_str tci_str_trim(tc_str s);
/* Take everything up to sep off *rest into *ret_part; false when *rest was exhausted before. A
 * string without sep yields itself once. *rest.ptr becomes NULL after the last part. */
bool tci_str_split(tc_str *rest, char sep, tc_str *ret_part);

/* Copy into dst as a C string. INVALID for an embedded NUL, TOO_BIG when it does not fit. */
int tci_cstr(tc_str s, char *dst, size_t dst_size, tc_err *err) TC_CHECKED;

#endif
