/* SPDX-License-Identifier: Apache-2.0
 *
 * Watching files and directories for changes. Notices of the system, or a timer, only say when to
 * look; what is reported is the difference between two looks plus the paths the notices named. So a
 * file replaced by another one, an ancestor renamed or made anew, and a tree that appears at once
 * are all seen.
 *
 * Promise: after READY every change at or below a target, as far as it is not excluded, is reported
 * by its path, by the path of a directory above it, or by an overflow. More may be reported.
 *
 * Scans are jobs of the loop's pool, one at a time per watcher; an idle native watcher has no timer.
 * After a notice only what it touched is looked at again. Loop thread. */
#ifndef TCI_OPS_WATCH_H
#define TCI_OPS_WATCH_H

#include "base/str.h"
#include "loop/loop.h"

/* What is left out below a target, at any depth: neither watched nor reported. Holds for entry names,
 * not for the target itself nor for what is above it. */
typedef struct tci_ops_watch_target {
    tc_str path;       /* file or directory, may be missing; a link is followed; paths are reported
                          with this in front */
    bool is_recursive; /* directories below too (links are not followed); else its entries only */
    bool exclude_hidden; /* names that begin with a dot */
    const tc_str *names; /* these names */
    size_t nnames;
} tci_ops_watch_target;

typedef enum tci_ops_watch_mode {
    TCI_OPS_WATCH_NATIVE,
    TCI_OPS_WATCH_POLLING,
    TCI_OPS_WATCH_AUTO /* polling when a target lies where notices cannot be relied on */
} tci_ops_watch_mode;

enum { TCI_OPS_WATCH_POLL_MS = 2000, TCI_OPS_WATCH_DIRECTORIES = 10000 };

typedef struct tci_ops_watch_options {
    const tci_ops_watch_target *targets;
    size_t ntargets; /* at least one */
    tci_ops_watch_mode mode;
    int64_t poll_interval_ms; /* from the end of one scan to the next; at least 1 */
    uint64_t max_directories; /* distinct ones, targets included */
} tci_ops_watch_options;

typedef enum tci_ops_watch_kind {
    TCI_OPS_WATCH_READY,  /* once: from here on changes are reported */
    TCI_OPS_WATCH_CHANGE, /* also before READY, when notices failed while opening */
    TCI_OPS_WATCH_FAILED  /* the last one; without READY before it: could not be opened */
} tci_ops_watch_kind;

/* Borrowed for the call.
 *   mode         how it is watched now; polling is for good
 *   has_switched of CHANGE: notices failed, why says how (QUOTA: the user's limit of watches, with the
 *                setting in the hint); polling from now on; is_overflow is set too
 *   is_overflow  of CHANGE: anything may have changed, paths is empty
 *   paths        of CHANGE: something at or below each may have changed; bytes as the system has
 *                them, without duplicates, ordered as UTF-16
 *   error        of FAILED: DENIED (a target may not be read or looked at; os is EACCES or EPERM),
 *                INVALID (more directories than allowed), or what else made it impossible */
typedef struct tci_ops_watch_event {
    tci_ops_watch_kind kind;
    tci_ops_watch_mode mode;
    bool has_switched, is_overflow;
    const tc_str *paths;
    size_t npaths;
    const tc_err *why, *error;
} tci_ops_watch_event;

typedef struct tci_ops_watch tci_ops_watch;

/* Start. Everything in options is copied. on_event is called later, from the loop; it may close.
 * Errors: INVALID (a path with a NUL byte or empty, no target), NO_MEMORY. */
int tci_ops_watch_open(tci_loop *loop, const tci_ops_watch_options *options,
                       void (*on_event)(void *user, const tci_ops_watch_event *event), void *user,
                       tci_ops_watch **ret, tc_err *err) TC_CHECKED;
/* Hold back: while held no scan starts and so nothing is told but what a running scan finds; nothing is
 * lost and little is kept meanwhile. For a listener that cannot take more now. */
void tci_ops_watch_hold(tci_ops_watch *w, bool is_held);
/* Stop at once: on_event is not called any more. A scan that runs ends by itself, soon. NULL is
 * fine. */
void tci_ops_watch_close(tci_ops_watch *w);

#endif
