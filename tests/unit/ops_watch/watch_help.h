/* SPDX-License-Identifier: Apache-2.0
 *
 * Watchers in tests: one loop, a folder of its own per test, and what watchers have told. */
#ifndef WATCH_HELP_H
#define WATCH_HELP_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/buf.h"
#include "ops/watch/watch.h"
#include "plat/clock.h"
#include "plat/watch.h"

enum { HELP_LIMIT_MS = 60 * 1000, HELP_POLL_MS = 100 };

/* All of one test. */
typedef struct fix {
    tci_ops_watch_mode mode; /* the one the test runs in */
    tci_loop *loop;
    char root[512];
} fix;

/* One watcher, and what it has told since seen_forget. */
typedef struct seen {
    fix *f;
    tci_ops_watch *watch;
    tci_buf paths; /* each with its NUL */
    size_t npaths, nchanges, nready, noverflows, nswitches;
    bool was_sorted; /* every list so far was, without duplicates */
    bool has_failed;
    tc_err error; /* of the failure */
    tc_err why;   /* of the switch */
    tci_ops_watch_mode mode;
    bool closes_in_event;
} seen;

int fix_setup(void **state); /* *state: points to the mode */
int fix_teardown(void **state);

extern tci_ops_watch_mode help_native, help_polling;
/* The same test in both ways of watching. */
#define BOTH_MODES(test)                                                 \
    {#test " (native)", test, fix_setup, fix_teardown, &help_native},    \
    {                                                                    \
#test " (polling)", test, fix_setup, fix_teardown, &help_polling \
    }
#define ONE_MODE(test, mode)                          \
    {                                                 \
#test, test, fix_setup, fix_teardown, &(mode) \
    }

/* ---- files below the folder of the test ---- */

void put(const fix *f, const char *path, const char *text); /* folders on the way are made */
void make_dir(const fix *f, const char *path);              /* those on the way too */
void make_link(const fix *f, const char *text, const char *path);
void move(const fix *f, const char *from, const char *to);
void discard(const fix *f, const char *path); /* a file, or a whole tree */
void set_mode(const fix *f, const char *path, unsigned mode);
void set_modified(const fix *f, const char *path, tci_instant t);
/* Absolute, in one of a few static buffers. */
const char *at(const fix *f, const char *path);
/* Give up the rights of root until called with false. */
void be_nobody(bool is_nobody);

/* ---- watchers ---- */

tci_ops_watch_target target(const fix *f, const char *path, bool is_recursive);
tci_ops_watch_options options(const fix *f, const tci_ops_watch_target *targets, size_t n);
/* Open, and wait until it is ready. */
void seen_open(seen *s, fix *f, const tci_ops_watch_options *o);
void seen_target(seen *s, fix *f, const char *path, bool is_recursive);
/* The parts of it. */
void seen_prepare(seen *s, fix *f);
void seen_event(void *user, const tci_ops_watch_event *e);
/* Without waiting. */
void seen_start(seen *s, fix *f, const tci_ops_watch_options *o);
void seen_close(seen *s);
void seen_forget(seen *s);
/* Has path, something above it, or an overflow been told? */
bool seen_covers(const seen *s, const char *path);
/* Has exactly that path been told? */
bool seen_has(const seen *s, const char *path);
/* Has something been told whose path contains text? */
bool seen_mentions(const seen *s, const char *text);
/* Wait until it is covered, then forget all. */
void seen_expect(seen *s, const char *path);

/* Turn the loop until the condition holds; too long fails the test. */
#define WAIT_FOR(f, cond)                                                            \
    do {                                                                             \
        int64_t limit_ = tci_clock_mono_ns() + (int64_t)HELP_LIMIT_MS * 1000 * 1000; \
        while (!(cond)) {                                                            \
            if (tci_clock_mono_ns() > limit_)                                        \
                fail_msg("waited in vain for: %s", #cond);                           \
            tci_loop_turn((f)->loop, 50);                                            \
        }                                                                            \
    } while (0)

#endif
