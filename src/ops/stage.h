/* SPDX-License-Identifier: Apache-2.0
 *
 * The staged writer: new content is gathered in a file beside the destination and takes its name
 * in one step, so that everybody always sees the old content or the new, whole.
 *
 *   open -> write ... -> seal -> publish      abort at any time; a failed call aborts by itself
 *
 * The candidate is `.eip-stage-` and 32 hex digits, mode 0600, in the destination's folder, which
 * is held open from the first check to the rename: a parent that is renamed, or swapped for a link,
 * meanwhile does not redirect anything. Before the rename the candidate's name must still be the
 * file we hold, with one name and the size we wrote. No second pass over the content is needed: our
 * bytes went in through our descriptor, 0600 keeps other users out, and whoever may write as this
 * user (or as root) could as well write to the destination one instant later.
 *
 * What is replaced keeps permission bits, owner, group, extended attributes and access list. If
 * that cannot be had (another owner, not root) it is DENIED before anything changes, and so is a
 * file that this user may not write. Replacement is by rename: a file with several names gets its
 * new content under this name only, the other names keep the old content. Set-id bits and file
 * capabilities end, as they do when a file is written in place.
 *
 * A stage may be used on any thread, by one at a time. */
#ifndef TCI_OPS_STAGE_H
#define TCI_OPS_STAGE_H

#include "base/hash.h"
#include "ops/file.h"
#include "ops/stage_journal.h"
#include "plat/file.h"

typedef enum tci_stage_state {
    TCI_STAGE_NONE,      /* not opened, or taken */
    TCI_STAGE_OPEN,      /* takes bytes */
    TCI_STAGE_SEALED,    /* all bytes on disk */
    TCI_STAGE_PUBLISHED, /* under its final name */
    TCI_STAGE_ABORTED,   /* removed again, by abort or by a failure */
    TCI_STAGE_UNKNOWN,   /* renamed, but then something failed: UNKNOWN_OUTCOME was returned */
} tci_stage_state;

typedef struct tci_stage_options {
    tc_str path; /* absolute; the parent must exist */
    tci_write_mode mode;
    bool has_executable,
        executable; /* given: mode becomes 0700 or 0600, also of an existing file */
    bool has_mode;  /* given: exactly these permission bits, instead of the above */
    uint32_t file_mode;
    bool
        plain_mode; /* a new file gets what any new file gets (0666 less the umask) instead of 0600,
                        and executable only sets or clears the execute bits of what there is */
    bool leave_unsynced; /* seal and publish wait for no disk; see tci_stage_set_sync */
    bool hash;           /* SHA-256 over the bytes given to tci_stage_write */
    bool must_be_text;   /* APPEND: UNSUPPORTED when the old content has a NUL or is not UTF-8 */
    uint64_t max_bytes;  /* of the final file, with the old content of an append; QUOTA over it */
    bool lock; /* hold off others who read, change and write this file, until the end: for short
                  work; without a journal nothing is held off */
    bool has_version; /* CONFLICT unless the destination is this version, at open and at publish */
    tci_file_version version;
    bool
        expects_none; /* UPSERT: nothing was there a moment ago; publish finds out if that changed */
    tci_stage_journal *journal; /* NULL: leftovers of a killed process are not remembered */
    bool
        unnamed; /* the candidate gets its name only for publish, where the file system can do that: a
                     process that is killed before leaves nothing. For work that takes long */
} tci_stage_options;

/* Fields are private to stage.c; here so that it can be a member. Zero is "not opened". */
typedef struct tci_stage {
    tci_stage_state state;
    tci_write_mode mode;
    bool has_executable, executable, has_mode, hash, has_version;
    bool dir_can_sync; /* the folder could be opened for reading */
    bool is_locked, is_init;
    bool plain_mode, leave_unsynced;
    bool is_unnamed; /* the candidate has no name yet */
    uint32_t file_mode;
    uint32_t made_mode; /* of the candidate, when plain_mode and there was no destination */
    bool had_target;    /* the destination existed when last looked at */
    tci_file_stat target;
    tci_file_version version;
    tci_file dir, file, lock;
    uint64_t max_bytes;
    uint64_t old_bytes; /* copied from the old content by an append */
    uint64_t new_bytes; /* given to tci_stage_write */
    tci_sha256 sha;
    tci_stage_journal *journal;
    int journal_slot; /* -1: none */
    char stage_name[48];
    char name[TCI_NAME_MAX + 1];
    size_t name_len;
} tci_stage;

/* Check the destination by the mode's rules and make the candidate (for APPEND with the old content
 * already in it; cancel is looked at meanwhile).
 *   stage   storage of the caller, contents ignored; on failure it is as after abort
 * Errors: NOT_FOUND (parent, or target of REPLACE and APPEND), CONFLICT (target of CREATE exists;
 * version differs), DENIED (link, not a regular file, permission, owner cannot be kept), QUOTA,
 * NO_SPACE, UNSUPPORTED, IO, CANCELLED, TIMEOUT. Thread: worker. */
int tci_stage_open(tci_stage *stage, const tci_stage_options *options, const tci_cancel *cancel,
                   tc_err *err) TC_CHECKED;

/* The old content, opened for reading: it is the file that open saw, and publish then refuses with
 * CONFLICT when the destination is no longer exactly that. The caller closes *ret_old.
 * Errors: NOT_FOUND (there was none), CONFLICT (changed already), DENIED. Thread: worker. */
int tci_stage_open_old(tci_stage *stage, tci_file *ret_old, tc_err *err) TC_CHECKED;

/* Bytes that may still be written before QUOTA. */
uint64_t tci_stage_room(const tci_stage *stage);

/* Append to the candidate. On failure the stage is aborted and its file gone.
 * Errors: QUOTA, NO_SPACE, IO, NOT_READY (state is not OPEN). Thread: worker. */
int tci_stage_write(tci_stage *stage, const void *bytes, size_t len, tc_err *err) TC_CHECKED;
/* The same from another file, as long as it has bytes, inside the kernel where possible (not
 * hashed). */
int tci_stage_write_from(tci_stage *stage, tci_file from, uint64_t from_offset,
                         const tci_cancel *cancel, uint64_t *ret_copied, tc_err *err) TC_CHECKED;

/* No more bytes: owner, attributes and mode are set and everything is synced, once.
 *   ret_sha256   may be NULL; of the bytes given to tci_stage_write, when hashing was asked for
 * Errors: DENIED (owner or attributes cannot be kept), NO_SPACE, IO. Thread: worker. */
int tci_stage_seal(tci_stage *stage, uint8_t ret_sha256[TCI_SHA256_BYTES], tc_err *err) TC_CHECKED;

/* Take the destination's name and sync the folder. The destination is checked again by the rules of
 * open; for CREATE the rename itself refuses an existing target.
 *   ret_info   facts of the published file; may be NULL
 * Errors: CONFLICT (appeared, vanished, or an append's or a versioned target changed), DENIED,
 * INTEGRITY (somebody touched the candidate), UNSUPPORTED, IO, NO_SPACE: nothing was changed and
 * the candidate is gone. UNKNOWN_OUTCOME: renamed, but not known to be on disk. Thread: worker. */
int tci_stage_publish(tci_stage *stage, tci_file_info *ret_info, tc_err *err) TC_CHECKED;

/* Change what leave_unsynced said, before seal. */
void tci_stage_set_sync(tci_stage *stage, bool must_sync);

/* Remove the candidate, if it was not published, and close what is held. Fine in every state. Never
 * fails: a candidate that cannot be removed stays named in the journal. Thread: worker. */
void tci_stage_abort(tci_stage *stage);

#endif
