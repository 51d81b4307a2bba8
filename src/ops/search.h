/* SPDX-License-Identifier: Apache-2.0
 *
 * file.search: lines that contain a text or match a regular expression, in the files below a root
 * (or in one file), in order of relative path, then line, by pages. Blocking; any pool thread.
 *
 * A line is what lies before an LF; CR stays; the terminator is not matched. One match per line. A
 * file with a NUL or bytes that are not UTF-8 in the part that is scanned gives nothing at all. The
 * dialect of regular expressions is described in ops/regex.h. */
#ifndef TCI_OPS_SEARCH_H
#define TCI_OPS_SEARCH_H

#include "ops/walk.h"

enum { TCI_SEARCH_QUERY_MAX = 16384, TCI_SEARCH_CONTEXT_MAX = 20 };
#define TCI_SEARCH_FILE_BYTES_MAX ((uint64_t)64 * 1024 * 1024)

typedef struct tci_ops_search_request {
    tc_str root; /* absolute; a directory or a regular file, links followed */
    tc_str query;
    bool is_regex;
    bool case_sensitive;
    tc_str include_pattern; /* empty: every file. On the name when root is a file */
    uint64_t offset;
    uint64_t max_results; /* >= 1 */
    bool include_hidden;
    bool respect_git_ignore;
    uint64_t max_line_length;      /* >= 1, Unicode scalars kept of preview and context lines */
    uint64_t context_lines;        /* 0..TCI_SEARCH_CONTEXT_MAX */
    uint64_t max_matches_per_file; /* 0: no limit */
    uint64_t max_files;            /* 0: no limit */
    uint64_t
        max_file_bytes; /* larger files are passed over; 0 or too much: TCI_SEARCH_FILE_BYTES_MAX */
    uint64_t budget_bytes; /* JSON bytes of all matches of a page; 0: no limit */
} tci_ops_search_request;

typedef struct tci_ops_match {
    tc_str path;
    uint64_t line_number; /* 1-based */
    tc_str preview;       /* the first max_line_length scalars of the line */
    bool preview_truncated;
    tc_str context; /* the lines around and the line itself, each with its LF */
    uint64_t context_start_line;
} tci_ops_match;

typedef struct tci_ops_matches {
    tci_ops_match *items;
    size_t count;
    bool has_more;
    uint64_t omitted_unrepresentable; /* as in ops/find.h */
} tci_ops_matches;

/* Errors: NOT_FOUND; DENIED; OUTPUT_LIMIT (the first match alone is over budget_bytes); QUOTA (one
 * file more than max_files would be scanned); TIMEOUT; CANCELLED; memory; INVALID with *ret_detail
 * (may be NULL) one of "not_searchable"      field root "empty_pattern", "pattern_too_large",
 * "invalid_regex"   field query "invalid_glob"        field include_pattern */
int tci_ops_search(const tci_ops_search_request *req, tci_walk_warn warn, const tci_cancel *cancel,
                   tci_walk_cache *cache, tci_arena *a, tci_ops_matches *ret_matches,
                   const char **ret_detail, tc_err *err) TC_CHECKED;

/* Bytes of the match as JSON on the wire. */
size_t tci_search_json_match_size(const tci_ops_match *m);

#endif
