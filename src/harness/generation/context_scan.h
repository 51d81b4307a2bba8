/* SPDX-License-Identifier: Apache-2.0
 *
 * Parts of JSON text found without reading all of it: a part is the text itself, so that what is
 * passed on keeps its bytes. For text that was checked before (records, parsed answers); in other text
 * parts may be missing or odd, but always lie inside it. Any thread. */
#ifndef TCI_HARNESS_CONTEXT_SCAN_H
#define TCI_HARNESS_CONTEXT_SCAN_H

#include "base/arena.h"
#include "base/str.h"

typedef struct tci_parts {
    const char *at, *end;
} tci_parts;

/* Inside of an object or array; false when text is not one. */
bool tci_part_object(tc_str text, tci_parts *ret);
bool tci_part_array(tc_str text, tci_parts *ret);
/* The next member: its key as written, without quotes, and its value; false at the end. */
bool tci_part_member(tci_parts *s, tc_str *ret_key, tc_str *ret_value);
bool tci_part_item(tci_parts *s, tc_str *ret_value);

/* The same in pieces, so that a value need not be stepped over before it is looked into. s is before a
 * value: tci_part_enter goes into it, if it begins with opener, and tci_part_skip over it and a comma.
 * tci_part_next: another item begins at s. tci_part_leave goes behind the closer of what was entered, and
 * behind a comma; it returns the end of the value, or NULL, when s is not there. */
bool tci_part_enter(tci_parts *s, char opener);
tc_str tci_part_skip(tci_parts *s);
bool tci_part_next(tci_parts *s);
const char *tci_part_leave(tci_parts *s, char closer);

/* The value of a member; empty when there is none. */
tc_str tci_part_get(tc_str object, tc_str key);
/* Before the value of a member instead; false when there is none. */
bool tci_part_find(tc_str object, tc_str key, tci_parts *ret);
/* Whether text is the string s (compared decoded when it has escapes). */
bool tci_part_is_str(tc_str text, tc_str s);
/* The decoded string: within text when it has no escapes, else in a. False: no string, or no memory. */
bool tci_part_str(tc_str text, tci_arena *a, tc_str *ret);
/* A plain non-negative integer; false for anything else. */
bool tci_part_u64(tc_str text, uint64_t *ret);

#endif
