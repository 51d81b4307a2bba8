/* SPDX-License-Identifier: Apache-2.0
 *
 * What a hand does with single files: facts, text by lines, atomic writes, patches, folders, copy,
 * move, remove. Paths are absolute, borrowed bytes; the caller has checked their form.
 *
 * Codes, for all calls: NOT_FOUND (missing), DENIED (permission, wrong kind of file, read-only),
 * CONFLICT (exists, or its state does not fit), UNSUPPORTED (not text; no atomic way on this file
 * system), QUOTA (a limit given), NO_SPACE, INVALID (a bad patch or path), IO (any other failure of
 * the system), BUSY (another change of the same file did not end in time), UNKNOWN_OUTCOME (renamed, then a failure), CANCELLED and TIMEOUT from cancel,
 * NO_MEMORY, TOO_BIG (arena).
 *
 * cancel may be NULL. It is looked at between blocks and entries and before a publish. */
#ifndef TCI_OPS_FILE_H
#define TCI_OPS_FILE_H

#include "base/arena.h"
#include "plat/clock.h"
#include "plat/file.h"

struct tci_stage_journal;

/* ---- facts ---- */

typedef struct tci_file_info {
    tci_file_kind kind;
    bool has_size; /* regular files */
    uint64_t size;
    tci_instant modified;
    bool has_executable; /* regular files */
    bool executable;     /* any x bit */
    uint32_t mode, uid, gid;
    uint64_t dev, ino, nlink;
    tci_instant changed;
} tci_file_info;

tci_file_info tci_file_info_of(const tci_file_stat *st);

/* One state of one file: what a reader saw and a writer may insist on. */
typedef struct tci_file_version {
    uint64_t dev, ino, size;
    tci_instant modified, changed;
} tci_file_version;

tci_file_version tci_file_version_of(const tci_file_info *info);
bool tci_file_version_same(const tci_file_version *a, const tci_file_version *b);

/* follow false: a link is answered as itself. Thread: loop on local file systems, else worker. */
int tci_ops_stat(tc_str path, bool follow, tci_file_info *ret_info, tc_err *err) TC_CHECKED;

/* Open for reading: links followed, DENIED unless it is a regular file; a FIFO or device is never
 * opened. The caller closes *ret_file. For transfers and searches. Thread: worker. */
int tci_ops_open_regular(tc_str path, tci_file *ret_file, tci_file_info *ret_info,
                         tc_err *err) TC_CHECKED;

/* ---- text by lines ---- */

/* Where a page ended, so that the next one need not count lines from the start. Zero: nowhere. It
 * is a hint: used only when the file is unchanged and the page asked for starts at or after it. */
typedef struct tci_text_cursor {
    tci_file_version version;
    uint64_t line;   /* lines before offset */
    uint64_t offset; /* bytes; all before it are known to be text */
} tci_text_cursor;

typedef struct tci_read_text {
    tc_str path; /* links followed; a regular file */
    uint64_t line_offset;
    uint64_t line_limit;      /* at least 1 */
    uint64_t max_line_length; /* scalars kept of a line, at least 1 */
    uint64_t page_bytes;      /* bytes of text in the answer */
    bool show_nul;            /* a NUL is kept instead of refused */
    tci_text_cursor cursor;   /* zero, or from an earlier answer */
} tci_read_text;

typedef struct tci_text_page {
    tci_file_info info;
    tc_str text; /* in the arena */
    uint64_t lines_read;
    bool has_more;             /* bytes after the last line returned */
    const uint64_t *truncated; /* 1-based numbers of shortened lines, ascending, in the arena */
    size_t ntruncated;
    tci_text_cursor cursor; /* where the next page starts */
} tci_text_page;

/* Lines end at LF, CR is kept, a shortened line keeps its LF. Memory: the page and one block.
 * Errors: OUTPUT_LIMIT (the first line alone is over page_bytes), UNSUPPORTED (a NUL or a byte that
 * is not UTF-8 in a line scanned, skipped ones included; the message says what the file looks
 * like), DENIED, NOT_FOUND, IO. Thread: worker. */
int tci_ops_read_text(const tci_read_text *in, const tci_cancel *cancel, tci_arena *arena,
                      tci_text_page *ret, tc_err *err) TC_CHECKED;

/* ---- changing ---- */

typedef enum tci_write_mode {
    TCI_WRITE_CREATE,  /* CONFLICT when it exists */
    TCI_WRITE_REPLACE, /* NOT_FOUND when missing */
    TCI_WRITE_UPSERT,
    TCI_WRITE_APPEND, /* NOT_FOUND when missing; as atomic as the others */
} tci_write_mode;

typedef struct tci_write_text {
    tc_str path;
    tci_write_mode mode;
    tc_str text;
    bool has_executable, executable;
    uint64_t max_bytes; /* of the final file */
    bool has_version;   /* CONFLICT unless the file is this version */
    tci_file_version version;
    struct tci_stage_journal *journal; /* may be NULL */
} tci_write_text;

/* Write text through a stage (ops/stage.h has the rules for what exists).
 * UNSUPPORTED: a NUL or invalid UTF-8 in text, or in the old content of an append.
 *   ret_written   bytes of text; may be NULL
 * Thread: worker. */
int tci_ops_write_text(const tci_write_text *in, const tci_cancel *cancel, tci_file_info *ret_info,
                       uint64_t *ret_written, tc_err *err) TC_CHECKED;

typedef struct tci_patch_text {
    tc_str path; /* a final link is followed and stays; its target is replaced */
    tc_str patch;
    uint64_t max_bytes; /* of source and result, each */
    bool has_version;
    tci_file_version version;
    struct tci_stage_journal *journal; /* may be NULL */
} tci_patch_text;

/* Apply a unified diff (ops/patch.h). INVALID: not in the grammar; CONFLICT: does not fit, or the
 * file changed meanwhile; UNSUPPORTED: the source is not text. Thread: worker. */
int tci_ops_patch_text(const tci_patch_text *in, const tci_cancel *cancel, tci_file_info *ret_info,
                       uint64_t *ret_hunks, tc_err *err) TC_CHECKED;

/* Make a folder with the process's default mode.
 *   parents       make missing ancestors too (not atomic: those made stay on failure)
 *   exist_ok      an existing folder, or a link to one, is fine
 *   ret_created   folders made; set on failure too
 * Errors: CONFLICT (exists), NOT_FOUND (parent missing), DENIED (an ancestor is a file). Thread:
 * worker. */
int tci_ops_mkdir(tc_str path, bool parents, bool exist_ok, const tci_cancel *cancel,
                  tci_file_info *ret_info, uint64_t *ret_created, tc_err *err) TC_CHECKED;

typedef struct tci_copy_file {
    tc_str source; /* a regular file; links followed */
    tc_str destination;
    bool replace; /* false: CONFLICT when the destination exists */
    uint64_t max_bytes;
    struct tci_stage_journal *journal; /* may be NULL */
} tci_copy_file;

/* The destination gets the source's permission bits. Thread: worker. */
int tci_ops_copy(const tci_copy_file *in, const tci_cancel *cancel, tci_file_info *ret_info,
                 uint64_t *ret_copied, tc_err *err) TC_CHECKED;

/* Rename any entry, a link itself.
 *   replace false   CONFLICT when the destination exists; UNSUPPORTED when the file system has no
 *                   atomic way, or across devices
 *   replace true    as rename(2); a folder onto a folder that is not empty: both are exchanged and
 *                   the old one removed (UNKNOWN_OUTCOME when that fails); across devices IO
 * Thread: worker. */
int tci_ops_move(tc_str source, tc_str destination, bool replace, const tci_cancel *cancel,
                 tci_file_info *ret_info, tc_err *err) TC_CHECKED;

enum { TCI_REMOVE_ENTRIES_MAX = 10000, TCI_REMOVE_DEPTH_MAX = 128 };

typedef struct tci_remove {
    tc_str path; /* the entry itself; links are never followed below it */
    tci_file_kind expected_kind;
    bool recursive;
    uint64_t
        max_entries; /* QUOTA over this or TCI_REMOVE_ENTRIES_MAX, before anything is removed */
} tci_remove;

/* Remove an entry, or a tree after counting it. DENIED: the root folder, or max_entries 0.
 * CONFLICT: another kind than expected. IO: a folder that is not empty, without recursive.
 *   ret_removed   entries removed; set on failure too
 * Thread: worker. */
int tci_ops_remove(const tci_remove *in, const tci_cancel *cancel, uint64_t *ret_removed,
                   tc_err *err) TC_CHECKED;

#endif
