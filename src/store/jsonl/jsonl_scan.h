/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON read in passing: values are checked and stepped over, not built. For lines of which only a
 * few fields are wanted, and for texts that only have to be sound. Blanks between tokens are fine. The text
 * must be UTF-8 (tci_utf8_is_valid) before it is scanned. Any thread. */
#ifndef TCI_STORE_JSONL_SCAN_H
#define TCI_STORE_JSONL_SCAN_H

#include "base/json.h"

/* Where reading goes on. After a failure at is NULL, and everything else fails too. */
typedef struct tci_scan {
    const char *at, *end;
} tci_scan;

static inline tci_scan tci_scan_of(tc_str text)
{
    tci_scan s = {text.ptr != NULL ? text.ptr : "", text.ptr != NULL ? text.ptr + text.len : ""};
    return s;
}

enum { TCI_SCAN_DEPTH_MAX = 512 };

/* One value of any kind. *ret_raw: its text (NULL: not wanted). */
bool tci_scan_value(tci_scan *s, tc_str *ret_raw);
/* Into an object or an array; false when something else is there. */
bool tci_scan_object(tci_scan *s);
bool tci_scan_array(tci_scan *s);
/* The next member, up to its value, or the next item; false at the end of the object or array, which is
 * then left, or after a failure. *first is true before the first and kept by the caller. A key
 * with escapes is decoded into a, others are borrowed. */
bool tci_scan_member(tci_scan *s, bool *first, tci_arena *a, tc_str *ret_key);
bool tci_scan_item(tci_scan *s, bool *first);
/* The whole text is one value, with blanks around it or not. */
bool tci_jsonl_scan_end(tci_scan *s);
static inline bool tci_scan_ok(const tci_scan *s)
{
    return s->at != NULL;
}

/* What a raw value is. string: decoded (WTF-8), borrowed or in a. id: a plain integer, 1 to 2^53-1.
 * count: the same from 0 on. */
bool tci_raw_string(tc_str raw, tci_arena *a, tc_str *ret);
bool tci_raw_id(tc_str raw, uint64_t *ret);
bool tci_raw_count(tc_str raw, uint64_t *ret);
bool tci_raw_bool(tc_str raw, bool *ret);
static inline bool tci_raw_is_object(tc_str raw)
{
    return raw.len > 0 && raw.ptr[0] == '{';
}
static inline bool tci_raw_is_array(tc_str raw)
{
    return raw.len > 0 && raw.ptr[0] == '[';
}

/* Sound JSON, valid UTF-8, without a line break anywhere, not deeper than a parser takes it. */
bool tci_json_is_line(tc_str text);

#endif
