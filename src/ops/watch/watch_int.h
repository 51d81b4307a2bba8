/* SPDX-License-Identifier: Apache-2.0
 *
 * The inside of watching: what is known about the watched trees. For the files watch*.c only.
 *
 *   watch.c         when to scan, and telling about it (loop)
 *   watch_set.c     the whole of it: opening, rounds of scanning, the switch to polling
 *   watch_place.c   inodes and the notices about them
 *   watch_target.c  the way to a target, link by link
 *   watch_dir.c     listings and their differences
 *   watch_report.c  the paths to be told
 *
 * A set has no lock: it belongs to the job while one runs and to the loop otherwise. Calls that take
 * a cancel may block; the others only allocate. */
#ifndef TCI_OPS_WATCH_INT_H
#define TCI_OPS_WATCH_INT_H

#include "base/buf.h"
#include "base/list.h"
#include "base/map.h"
#include "ops/watch/watch.h"
#include "plat/clock.h"
#include "plat/watch.h"

enum {
    TCI_WATCH_ROUNDS = 10,
    TCI_WATCH_HASH_BYTES = 256 * 1024,        /* larger files are told by size and time alone */
    TCI_WATCH_HASH_SECONDS = 5,               /* so are those that were left alone this long */
    TCI_WATCH_NAME_BYTES = 1024 * 1024,       /* of names in notices that wait for a scan */
    TCI_WATCH_REPORT_BYTES = 32 * 1024 * 1024 /* of paths, duplicates included; then an overflow */
};

typedef struct tci_wset tci_wset;
typedef struct tci_wtarget tci_wtarget;
typedef struct tci_wdir tci_wdir;

/* An inode somebody here cares about. */
typedef struct tci_wplace {
    uint64_t id[2]; /* dev, ino: the key */
    int32_t number; /* of its watch, a key too; -1: none */
    size_t ndirs;   /* users that are listed directories */
    tci_list users;
} tci_wplace;

/* One reason to care. Zeroed: none. */
typedef enum tci_wuse { TCI_WUSE_DIR, TCI_WUSE_STEP, TCI_WUSE_FILE } tci_wuse;
typedef struct tci_wuser {
    tci_link link; /* of the place */
    tci_wplace *place;
    tci_wuse use;
} tci_wuser;

/* What is compared. Of a directory neither size nor time. */
typedef struct tci_wfacts {
    bool exists, has_hash;
    bool is_fresh; /* written so short a time ago that the same size and time prove nothing yet */
    tci_dir_kind kind;
    uint64_t dev, ino, size;
    tci_instant modified;
    uint64_t hash;
} tci_wfacts;

typedef struct tci_wentry {
    tci_wfacts facts;
    size_t name_at; /* in the directory's names */
    size_t name_len;
    tci_wdir *dir; /* its listing, when it is a directory that is watched */
} tci_wentry;

/* A listed directory. Entries are sorted by name. */
struct tci_wdir {
    tci_wuser user;
    tci_link all;   /* the set's, parents before what is below */
    tci_link dirty; /* the set's, when it has to be looked at */
    tci_wtarget *target;
    tci_wdir *parent; /* NULL: the target's own */
    uint64_t dev, ino;
    tci_wentry *entries;
    size_t nentries, cap;
    tci_buf names;
    tci_buf touched;               /* names out of notices: a byte (1: report it), the name, NUL */
    size_t ntouched, touched_last; /* the last one's offset */
    bool is_whole;                 /* list it all again */
    bool is_told;                  /* report its own path */
    bool is_unreadable;            /* below a target: may not be read, stays empty */
    bool is_stale; /* was not where it should be; whoever finds it there again says so */
    size_t name_len;
    char name[]; /* NUL-terminated */
};

/* One directory on the way to a target and the name that is looked for in it. */
typedef struct tci_wstep {
    tci_wuser user;
    tci_link link;
    tci_wtarget *target;
    uint64_t dir_dev, dir_ino;
    tci_wfacts found; /* identity only is compared */
    size_t name_len;
    char name[];
} tci_wstep;

struct tci_wtarget {
    tci_wset *set;
    tci_wuser file; /* the inode of a file, when its directory does not tell all */
    tci_link dirty; /* the set's, when the way has to be walked again */
    tci_list steps;
    tci_wfacts own;
    bool is_told;   /* report its path */
    bool is_blind;  /* a directory on the way cannot be watched: look now and then */
    tci_wdir *root; /* when it is a directory */
    tci_buf real;   /* where it is, without links, NUL-terminated; when root is set */
    char *path;
    size_t path_len;
    bool is_recursive, exclude_hidden;
    tc_str *names;
    size_t nnames;
    char *names_text;
};

struct tci_wset {
    tci_wtarget *targets;
    size_t ntargets;
    tci_ops_watch_mode mode;
    uint64_t max_directories, ndirectories;
    uint64_t seed;
    tci_notifier notifier; /* open in native mode */
    tci_map places, numbers;
    tci_list dirs, dirty_dirs, dirty_targets;
    tci_list gone; /* directories that are being dropped; empty otherwise */
    size_t touched_bytes;
    size_t nadded;     /* watches, since asked last */
    bool is_quiet;     /* the first scan: nothing to compare with */
    bool is_all;       /* look at everything again */
    bool is_failed;    /* notices cannot be had any more; why tells */
    bool has_switched; /* since told last */
    bool is_overflow;  /* since told last */
    tc_err why;
    tci_instant now;       /* of the scan */
    tci_buf path, content; /* scratch */
    char *read_buf;        /* of a directory; only during a scan */
    tci_buf report;        /* paths, NUL-terminated */
    size_t report_count;
    tc_str *sorted; /* of the report, between take and clear */
};

/* ---- watch_set.c ---- */

int tci_wset_new(const tci_ops_watch_options *options, tci_wset **ret, tc_err *err) TC_CHECKED;
void tci_wset_free(tci_wset *s); /* NULL is fine */
/* The first look. Errors as of a FAILED event; CANCELLED. */
int tci_wset_open(tci_wset *s, const tci_cancel *cancel, tc_err *err) TC_CHECKED;
/* Look at what is dirty (native), or at everything (polling, or when is_all is set). After an error
 * that may pass (BUSY, NO_MEMORY) call again with is_all set. */
int tci_wset_scan(tci_wset *s, const tci_cancel *cancel, tc_err *err) TC_CHECKED;
/* Is there something a scan should look at? */
bool tci_wset_is_dirty(const tci_wset *s);
/* Mark the targets whose way cannot be watched; are there any? */
void tci_wset_touch_blind(tci_wset *s);
bool tci_wset_has_blind(const tci_wset *s);
/* Notices cannot be had: polling after this scan. */
void tci_wset_native_failed(tci_wset *s, const tc_err *why);

/* ---- watch_place.c ---- */

/* Make u a user of the inode (and not of another one any more). Watches it in native mode, by `at`.
 * Errors: DENIED and NOT_FOUND of the watch (u is a user nevertheless), INVALID (too many
 * directories), NO_MEMORY. A watch that cannot be had for any other reason fails the native mode,
 * not the call. */
int tci_wplace_use(tci_wset *s, tci_wuser *u, uint64_t dev, uint64_t ino, const tci_dir *at,
                   const char *path, tc_err *err) TC_CHECKED;
void tci_wplace_leave(tci_wset *s, tci_wuser *u); /* fine when no user */
/* Read at most max notices and mark what they touch. */
void tci_wset_drain(tci_wset *s, size_t max);
/* Forget all watches; the places stay, and the notifier, which the loop may be waiting for. */
void tci_wset_unwatch(tci_wset *s);

/* ---- watch_target.c ---- */

void tci_wtarget_touch(tci_wtarget *t, bool is_told);
/* Walk the way to it again and take in what changed on it and of the target's own entry; its
 * directory, if it is one, is marked when it has to be listed. Errors: DENIED (something on the way
 * may not be looked at), BUSY, NO_MEMORY, INVALID (too many directories). */
int tci_wtarget_scan(tci_wtarget *t, tc_err *err) TC_CHECKED;
/* Does it, or what there is of the way to it, lie where notices cannot be relied on? */
int tci_wtarget_misses(tci_wtarget *t, bool *ret_misses, tc_err *err) TC_CHECKED;
void tci_wtarget_done(tci_wtarget *t);

/* ---- watch_dir.c ---- */

/* parent NULL: t's own directory. It is marked dirty. */
int tci_wdir_new(tci_wtarget *t, tci_wdir *parent, tc_str name, uint64_t dev, uint64_t ino,
                 tci_wdir **ret, tc_err *err) TC_CHECKED;
/* With everything below it; all of it counts as changed unless is_silent. */
void tci_wdir_drop(tci_wdir *d, bool is_silent);
void tci_wdir_touch(tci_wdir *d); /* list it again */
void tci_wdir_visit(tci_wdir *d); /* see that it is there and may be read */
void tci_wdir_touch_name(tci_wdir *d, tc_str name, bool is_told);
int tci_wdir_scan(tci_wdir *d, const tci_cancel *cancel, tc_err *err) TC_CHECKED;
bool tci_wtarget_excludes(const tci_wtarget *t, tc_str name);
/* What stat says, with a hash where one is due. was: the facts before, or NULL. Errors as
 * tci_dir_stat_at. */
int tci_wfacts_look(tci_wset *s, const tci_dir *at, const char *name, const tci_wfacts *was,
                    tci_wfacts *ret, tc_err *err) TC_CHECKED;
bool tci_wfacts_same_thing(const tci_wfacts *a, const tci_wfacts *b); /* kind and inode */
bool tci_wfacts_same(const tci_wfacts *a, const tci_wfacts *b);

/* ---- watch_report.c ---- */

/* Remember a path to be told; d NULL: the target itself; name empty: d itself. Never fails: what
 * cannot be kept becomes an overflow. */
void tci_wreport(tci_wtarget *t, const tci_wdir *d, tc_str name);
/* The path of d below its target, "" for the target's own, appended to out. */
void tci_wreport_rel(const tci_wdir *d, tci_buf *out);
/* What has to be told. *ret_paths is valid until clear. false: nothing. */
bool tci_wreport_take(tci_wset *s, tci_ops_watch_event *ret);
void tci_wreport_clear(tci_wset *s);

#endif
