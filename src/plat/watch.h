/* SPDX-License-Identifier: Apache-2.0
 *
 * The system's notices of changes in directories, and whether a file system can be relied on to give
 * them. A notice says which watched inode it is about and which entry of it; what that means for a
 * path is the caller's business. Any thread, one thread per object at a time; nothing here blocks
 * but the look-up of a path. */
#ifndef TCI_PLAT_WATCH_H
#define TCI_PLAT_WATCH_H

#include "plat/dir.h"

typedef enum tci_notice_flags {
    TCI_NOTICE_ENTRY = 1 << 0, /* an entry was made, removed, or moved in or out: name says which */
    TCI_NOTICE_CONTENT = 1 << 1, /* written to, or its facts changed */
    TCI_NOTICE_CLOSED =
        1 << 2, /* a file that was open for writing was closed: look, it may differ */
    TCI_NOTICE_MOVED = 1 << 3, /* the watched inode itself has another name, or none, now */
    TCI_NOTICE_GONE = 1 << 4,  /* the watch has ended with what it watched; its number is free */
    TCI_NOTICE_LOST = 1 << 5   /* notices were lost: anything may have changed; number is -1 */
} tci_notice_flags;

typedef struct tci_notice {
    int32_t number; /* of the watch */
    unsigned flags;
    tc_str name; /* of the entry; empty: the watched inode itself. Valid until the next read */
} tci_notice;

/* A set of watches. Zeroed is closed (the descriptor is kept plus one). */
typedef struct tci_notifier {
    int fd_plus_1;
    char *buf; /* one read of notices */
    size_t at, len;
} tci_notifier;

/* Errors: QUOTA when the user has too many notifiers (the hint names the setting), BUSY when the
 * process has no descriptors left, NO_MEMORY, UNSUPPORTED where the system has nothing like it. */
int tci_notifier_open(tci_notifier *n, tc_err *err) TC_CHECKED;
void tci_notifier_close(tci_notifier *n); /* ends all its watches; fine when closed */
/* Ready to read when there are notices. The notifier's; for the event loop. */
int tci_notifier_fd(const tci_notifier *n);

/* Watch the inode that is held open by at (a handle without rights is enough, and it need not be a
 * directory), whatever becomes of its name. An inode has one watch per notifier: asking again gives the same number. path: where it
 * is, for messages and for systems that cannot watch by descriptor.
 *
 * Errors: QUOTA when the user's limit of watches is reached (never NO_SPACE; the hint names the
 * setting), DENIED when it may not be read, NOT_FOUND when it has just gone, NO_MEMORY, IO. */
int tci_notifier_add(tci_notifier *n, const tci_dir *at, const char *path, int32_t *ret_number,
                     tc_err *err) TC_CHECKED;
void tci_notifier_remove(tci_notifier *n, int32_t number); /* fine when it has ended already */

/* The next notice. 1: *ret is set; 0: there is none now; negative: error (IO). */
int tci_notifier_next(tci_notifier *n, tci_notice *ret, tc_err *err) TC_CHECKED;

/* true when changes made elsewhere may pass unnoticed there: NFS, SMB, FUSE, 9P, Lustre, GPFS, Ceph,
 * AFS, sdcardfs. false when that cannot be told. */
bool tci_notifier_misses(const tci_dir *at);
/* The same by the number statfs(2) gives. */
bool tci_notifier_misses_type(uint32_t fs_type);

#ifdef TCI_TESTING
/* From now on notifiers of this process behave as if the user's limits allowed so many watches in
 * one notifier (UINT32_MAX: no such limit), or no notifier at all. */
void tci_notifier_test_limit(uint32_t max_watches);
void tci_notifier_test_refuse(bool is_refused);
#endif

#endif
