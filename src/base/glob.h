/* SPDX-License-Identifier: Apache-2.0
 *
 * Path patterns as file.find and file.search know them. Compiled once, matched without
 * exponential backtracking: the cost of a match is bounded by pattern length times path length.
 *
 *   *  ?            any run of / one character but '/'
 *   [abc] [a-z] [!x] [^x]   a leading ']' is literal; '/' inside and reversed ranges are invalid
 *   **              as a whole segment: any number of segments, at the end at least one
 *   {a,b}           two or more alternatives, none empty, not nested, at most 256 expansions
 *   leading '/'     anchors at the root of the walk
 *
 * An expanded alternative without any '/' is matched against the last segment of the path, all
 * others against the whole. A character is a Unicode scalar; a byte that is not UTF-8 counts as
 * one character. Case matters; a leading dot is nothing special here. */
#ifndef TCI_GLOB_H
#define TCI_GLOB_H

#include "base/arena.h"

typedef struct tci_glob tci_glob;

enum { TCI_GLOB_MAX_BYTES = 16384, TCI_GLOB_MAX_EXPANSIONS = 256 };

/* INVALID for every form the grammar refuses (the message says which). The result and all it
 * needs live in arena a; pattern may go. Immutable afterwards: any thread may match. */
int tci_glob_compile(tc_str pattern, tci_arena *a, const tci_glob **ret_glob,
                     tc_err *err) TC_CHECKED;

/* path: relative to the root of the walk, no leading or trailing '/'. */
bool tci_glob_matches(const tci_glob *g, tc_str path);
/* True when the pattern matches every path, so that nobody needs to ask. */
bool tci_glob_is_any(const tci_glob *g);

#endif
