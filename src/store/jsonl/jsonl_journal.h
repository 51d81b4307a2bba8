/* SPDX-License-Identifier: Apache-2.0
 *
 * The journal of a session of JSON lines: one file, recent.journal, that makes commits safe with one sync each.
 *
 * A synced commit first goes into the journal, with all bytes it appends to any file and with those of
 * the unsynced commits before it, and that file alone is synced; then the files themselves are appended
 * to, and synced only once in a while (a checkpoint, after which the journal begins anew) and at
 * closing (after which it is gone). So the files hold all there is as long as the system runs, as the
 * originals read and write them. After a power cut the next opening puts back what they have lost.
 *
 * The file is a row of records, each a head of 32 bytes and pieces of 24 bytes and their text, little-endian:
 *     head    magic (4), bytes of the pieces (4), generation (8), number (8), hash of all but itself (8)
 *     piece   kind (4), bytes of text (4), id (8), offset (8), text
 * Numbers go up from 1, generations by one with each checkpoint; what does not fit ends the row. */
#ifndef TCI_STORE_JSONL_JOURNAL_H
#define TCI_STORE_JSONL_JOURNAL_H

#include "base/buf.h"
#include "plat/file.h"

#define TCI_JSONL_JOURNAL "recent.journal"
enum {
    TCI_JOURNAL_MAX = 256 * 1024,      /* bytes of the file */
    TCI_JOURNAL_FIRST = 32 * 1024,     /* bytes that a new one is given; doubled as needed */
    TCI_JOURNAL_RECORD_MAX = 96 * 1024 /* a commit that needs more is synced file by file */
};

typedef struct tci_jsonl tci_jsonl;
typedef struct tci_jsonl_file tci_jsonl_file;

typedef struct tci_jsonl_journal {
    tci_file f;       /* NONE: not made yet */
    tci_buf pending;  /* the record to come: room for its head, then its pieces */
    bool has_commits; /* some of them are of commits */
    uint64_t generation, number;
    uint64_t at, last_at; /* where the record to come goes, and where the last one lies */
    uint64_t
        size; /* bytes of the file: it is written over, which is cheaper to sync than to lengthen */
} tci_jsonl_journal;

void tci_jsonl_journal_init(tci_jsonl_journal *l);
void tci_jsonl_journal_done(tci_jsonl_journal *l);

/* text is about to be appended to the file (NULL: main.jsonl), at offset. Failure is remembered. */
void tci_jsonl_journal_note(tci_jsonl *j, const tci_jsonl_file *f, uint64_t offset, tc_str text);
/* The file is being removed, which its task's end or its retirement, in the journal, allows. */
void tci_jsonl_journal_note_removal(tci_jsonl *j, const tci_jsonl_file *f);
/* Can what is noted go into the journal? If not, the caller syncs file by file. */
bool tci_jsonl_journal_fits(const tci_jsonl *j);
/* Have it in the journal, synced. */
int tci_jsonl_journal_flush(tci_jsonl *j, tc_err *err) TC_CHECKED;
/* The commit it was for has failed: whoever opens the session again had better not find it. Best effort. */
void tci_jsonl_journal_take_back(tci_jsonl *j);
/* All files are synced: the journal begins anew, and what is noted is forgotten. */
void tci_jsonl_journal_restart(tci_jsonl *j);
/* Remove the file: everything is synced. */
void tci_jsonl_journal_drop(tci_jsonl *j);

/* At opening, before anything is read: put back what files have lost of the commits in the journal, sync them
 * and remove it. Nothing where another program has written since. Read-only, it only looks.
 *   ret_is_needed   something has to be put back, or had to be */
int tci_jsonl_journal_replay(tci_jsonl *j, bool *ret_is_needed, tc_err *err) TC_CHECKED;

#endif
