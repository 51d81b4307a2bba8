/* SPDX-License-Identifier: Apache-2.0
 *
 * The scheduler's own state. Two locks: the session's line, and the harness's lock, always taken in
 * that order. What the graph of live tasks says is changed with both held, and may be read with either.
 * Everything else here is guarded by the lock alone, where no line says otherwise. No callback of a
 * program is called with the lock held. */
#ifndef TCI_SCHED_INT_H
#define TCI_SCHED_INT_H

#include "base/list.h"
#include "harness/sched/harness_int.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { TCI_TASK_STACK_BYTES = 1024 * 1024 }; /* sanitizers need room around every variable */
#else
enum { TCI_TASK_STACK_BYTES = 256 * 1024 };
#endif

/* ---- ids to objects ---- */

typedef struct tci_by_id_slot {
    uint64_t id; /* 0: free */
    void *value;
} tci_by_id_slot;
typedef struct tci_by_id {
    tci_by_id_slot *slots;
    size_t cap, count;
} tci_by_id;
void tci_by_id_done(tci_by_id *m);
void *tci_by_id_get(const tci_by_id *m, uint64_t id);
int tci_by_id_put(tci_by_id *m, uint64_t id, void *value, tc_err *err) TC_CHECKED; /* not in it */
void tci_by_id_remove(tci_by_id *m, uint64_t id);

/* ---- the graph ---- */

typedef struct tci_live tci_live;

/* A conversation, a live task, or an ended one with something alive below it. It is there as long as
 * it is a live task or has children. */
typedef struct tci_node {
    uint64_t id;
    bool is_conversation, is_background;
    struct tci_node *parent; /* NULL: a conversation that nobody owns */
    tci_link sibling;        /* in the parent's children, or in the roots */
    tci_list children;
    tci_live *live;
} tci_node;

/* How one waiting task stands to one it waits for. */
typedef struct tci_await {
    tci_live *waiter;
    tci_link link; /* in the awaited one's awaited_by; unlinked: it has ended */
} tci_await;

/* A task that has not ended: its committed record, and where the scheduler has it. */
struct tci_live {
    tci_node *node;
    tci_link all; /* in harness.lives, ascending by id where they came in that order */
    tci_arena arena;
    tci_task task; /* in arena, with its text */
    const tci_json *tree;
    const tci_json *state;
    tc_str phase; /* empty when completing */
    bool is_fail_fast, is_outcome_failed;
    int64_t until_ms;
    tci_await *awaits;
    size_t nawaits, nopen;
    tci_list awaited_by; /* tci_await.link */
    tci_list waiters;    /* tci_waiter.link */
    tci_link runnable;   /* in harness.runnable */
    tci_link intent;     /* in harness.intents: what is below is to be cancelled */
    tci_link check;      /* in harness.finalize_checks */
    tci_link fail_check; /* in harness.fail_checks */
    bool is_parked;
    bool was_here, was_cut_off;          /* when the session was opened; cut off: found running */
    const tc_task_def *failed_migration; /* of this definition, and the words */
    char *migration_error;
    tc_task *invocation;
    uint64_t *conversations; /* owned ones, ascending; only kept while a graph is watched */
    size_t nconversations;
};

/* ---- the pool ---- */

typedef struct tci_work {
    tci_link link;
    void (*run)(struct tci_work *w);
} tci_work;

typedef struct tci_worker tci_worker;
typedef struct tci_workers {
    tci_mutex lock;
    tci_list queue;   /* tci_work */
    tci_worker *idle; /* newest first */
    tci_worker *gone; /* ended, to be joined */
    size_t nthreads;
    bool is_stopping;
    tci_wake left;
} tci_workers;

void tci_workers_init(tci_workers *p);
/* Run w on a thread, at once if there can be one. NO_MEMORY, BUSY: there is none and none starts; w
 * is not queued then. */
int tci_workers_run(tci_workers *p, tci_work *w, tc_err *err) TC_CHECKED;
/* Wait until everything was run and every thread has left. */
void tci_workers_done(tci_workers *p);

/* ---- invocations ---- */

typedef enum tci_mode { TCI_MODE_RUN, TCI_MODE_ABORT, TCI_MODE_LIMIT } tci_mode;

/* One execution of a task, from its reservation until its handler has returned. */
struct tc_task {
    tci_work work;
    tci_link link; /* in harness.invocations */
    tc_harness *h;
    tci_live *live; /* NULL: the task has ended */
    uint64_t id, conversation_id;
    tci_mode mode;
    const tc_task_def *def;
    tci_snapshot *snapshot;
    const tc_task_def *reported; /* the replacement that was told of as unfit */
    bool is_reported_missing;
    tc_str extension; /* of the definition; in snapshot */
    tc_ctx ctx;
    tc_result *result; /* cleared at each phase */
    tc_task_info info;
    void *slot;
    void (*free_slot)(void *value);
    bool is_ended;    /* its right to commit is over */
    uint64_t serial;  /* no other invocation of this harness has it */
    uintptr_t thread; /* that runs it, see runtime.c; 0: not begun */
    unsigned nparked;
    tci_list waiters; /* tci_waiter.of_task: its own waits */
    tci_list joiners; /* tci_waiter.link: who waits for its end */
};

/* ---- the harness ---- */

typedef struct tci_sleep {
    int64_t until_ms;
    uint64_t id;
} tci_sleep;

typedef struct tci_report_item {
    struct tci_report_item *next;
    tc_report report;
    char text[];
} tci_report_item;

typedef struct tci_graph_watch tci_graph_watch;

/* A thread that makes calls that are due. */
typedef struct tci_late_work {
    tci_work work;
    tc_harness *h;
    bool is_busy;
} tci_late_work;

/* What the scheduler's thread waits for: calls that are due, the end of the next sleep, memory that was
 * kept long enough. One of each is armed at a time. */
typedef enum tci_timer_kind {
    TCI_TIMER_CALLS,
    TCI_TIMER_SLEEP,
    TCI_TIMER_MEMORY,
    TCI_NTIMERS
} tci_timer_kind;
typedef struct tci_host_timer {
    tc_timer timer;   /* id 0: the program has none */
    tc_disarm disarm; /* NULL: it is being armed */
    int64_t due; /* 0: none is wanted; of sleeps ms by the session's clock, else monotonic ns */
    bool is_own; /* the thread waits for it itself */
} tci_host_timer;

struct tc_harness {
    tc_harness_options options;
    const tci_run_parts *parts;
    void *run_state;
    tc_durable *session;
    tc_listener *commit_listener, *close_listener;
    tci_mutex lock;

    /* the graph: line and lock */
    tci_by_id nodes;
    tci_list lives, roots;
    size_t nlives;
    tci_list intents, finalize_checks, fail_checks;
    bool is_cascade_pending;
    tci_sleep *sleeps; /* a heap; entries that are out of date stay until they come up */
    size_t nsleeps, sleeps_cap;
    uint64_t *abandoned;
    size_t nabandoned;

    tci_list runnable; /* tci_live.runnable */
    bool is_enabled, is_closing, is_failed, is_registry_changed, is_graph_stale;
    tc_err failure; /* is_failed: of what the session failed */
    bool has_parked;
    tci_list invocations;
    size_t ninvocations, nrunning; /* running: not parked */
    size_t max_running;
    unsigned nreconciling;
    tci_list idle_waiters;
    bool is_idle_check_due;

    /* the scheduler's thread */
    tci_thread *thread;
    tci_wake wake;
    bool is_open, is_stopping; /* open: the thread may be started */
    bool is_dirty;             /* passes may have work */
    bool is_called;            /* its thread has something else to do */
    bool is_passing;           /* a thread makes passes; it sees is_dirty before it stops */
    const tc_task *committer;  /* line: commits just now, and makes the passes that follow itself */

    tci_workers workers;
    tci_wake ended; /* counted when an invocation ends */

    tci_later *laters;     /* by due time */
    tci_later *late_ready; /* due, not called yet */
    tci_late_work late_work[4];
    tci_wake late_done;

    tci_host_timer timers[TCI_NTIMERS];
    uint64_t timer_serial;
    bool is_timer_reported, is_memory_declined;
    int64_t calls_until_ns; /* the program says that it is as late as that */
    int64_t memory_due_ns;  /* when to look at what is kept; 0: nothing is */
    bool is_memory_due;

    tci_report_item *reports, *reports_last;
    tc_wake last_wake;
    bool is_settings_reported;

    struct tci_subscription *subscription;
    tci_list graph_watches; /* line */
    bool is_joined;
    uint64_t run_serial; /* line: of the invocation reserved last */
};

/* ---- owner.c: the graph and its walks ---- */

tci_node *tci_node_of(const tc_harness *h, uint64_t id);
tci_live *tci_live_of(const tc_harness *h, uint64_t id); /* NULL: not alive */
/* The record of a live task as committed: adds it, or replaces what was there. On the line with the
 * lock. *ret_was_new. */
int tci_live_put(tc_harness *h, const tci_task *record, tci_live **ret, bool *ret_was_new,
                 tc_err *err) TC_CHECKED;
/* Bind it to what it waits for; once all records of a commit were put. */
int tci_live_link(tc_harness *h, tci_live *live, tc_err *err) TC_CHECKED;
/* It has ended: everything of it goes, but a node with children stays. */
void tci_live_remove(tc_harness *h, tci_live *live);
void tci_graph_done(tc_harness *h);
/* Marked, or completing with a failed outcome. */
bool tci_live_is_cancelling(const tci_live *live);
/* The nearest live task above. */
tci_live *tci_live_above(const tci_node *node);
/* Is it below a task that is being cancelled, without background work in between? node may be NULL. */
bool tci_node_is_below_cancelled(const tci_node *node);
/* A live task that is not background work, below node and not across background work; NULL: none. */
tci_live *tci_node_first_below(const tci_node *node);
/* All of them, in arena a. with_background: across and including background work. */
int tci_node_all_below(const tci_node *node, bool with_background, tci_arena *a, tci_live ***ret,
                       size_t *ret_n, tc_err *err) TC_CHECKED;
bool tci_harness_is_idle(const tc_harness *h, uint64_t conversation_id); /* 0: the session */
/* As after the commit of tx: is there live work that the task owns (not in the background)? On the
 * line. */
int tci_tx_has_owned_live(tc_harness *h, tc_tx *tx, uint64_t id, bool *ret, tc_err *err) TC_CHECKED;
/* The way up from a conversation, committed state, from the graph or else the storage: is it below a
 * live task that is being cancelled? And, for scope not 0, below that conversation. On the line. */
typedef struct tci_place {
    bool is_below_cancelled, is_in_scope;
} tci_place;
int tci_conversation_place(tc_harness *h, uint64_t conversation_id, uint64_t scope,
                           bool cross_background, tci_place *ret, tc_err *err) TC_CHECKED;

/* ---- sched_observe.c ---- */

int tci_sched_observe(void *user, const tci_commit *commit, tc_err *err);
/* With the lock. */
void tci_sched_push_runnable(tc_harness *h, tci_live *live);
void tci_sched_check_idle(tc_harness *h);
int tci_sched_track_sleep(tc_harness *h, tci_live *live, tc_err *err) TC_CHECKED;
/* The earliest sleep that counts and is not due at now; 0: none. Drops stale entries. */
int64_t tci_sched_earliest_sleep(tc_harness *h, int64_t now_ms);
/* Due ones become runnable; true: there were some. */
bool tci_sched_wake_due(tc_harness *h, int64_t now_ms);

/* ---- sched_reconcile.c ---- */

bool tci_reconcile_has_work(const tc_harness *h); /* with the lock */
int tci_reconcile(tc_harness *h, tc_err *err) TC_CHECKED;
/* On the line: stage an abort mark. is_restart: with that reason. */
int tci_tx_stage_mark(tc_tx *tx, const tci_task *record, bool is_restart, tc_err *err) TC_CHECKED;

/* ---- sched_reserve.c ---- */

typedef enum tci_fit_kind { TCI_FIT_READY, TCI_FIT_MIGRATES, TCI_FIT_BLOCKED } tci_fit_kind;
typedef struct tci_fit {
    tci_fit_kind kind;
    const tc_task_def *def;
    const char *reason; /* static */
    const char *error;  /* lives as long as the task's failed migration; may be NULL */
    tc_str extension;
} tci_fit;
/* Without trying a migration. */
/* Why nothing runs it; NULL: something can. */
const char *tci_sched_blocked_reason(const tci_live *live, const tci_snapshot *s, uint64_t limit);
tci_fit tci_sched_fit(const tci_live *live, const tci_snapshot *snapshot);
/* Parked: cut off too often, and its definition has no end for that. */
bool tci_sched_is_parked(const tci_live *live, const tc_task_def *def, uint64_t limit);
uint64_t tci_sched_restart_limit(tc_harness *h);
/* One pass; *ret_again: there is more to do at once. ret_mine: as tci_sched_passes. */
int tci_reserve(tc_harness *h, tc_task **ret_mine, bool *ret_again, tc_err *err) TC_CHECKED;

/* ---- sched_state.c: states of records ---- */

/* Stage record in another state: a JSON text. drop_restarts: it got on. */
int tci_tx_stage_state(tc_tx *tx, const tci_task *record, tc_str state, bool drop_restarts,
                       tc_err *err) TC_CHECKED;
/* The scheduler ends a task: terminal, or completing while it owns live work. outcome: JSON. */
int tci_tx_terminate(tc_harness *h, tc_tx *tx, const tci_task *record, tc_str outcome,
                     tc_err *err) TC_CHECKED;
/* on_fault of the definition, for faulted and orphaned outcomes. */
int tci_tx_settle_fault(tc_harness *h, tc_tx *tx, const tci_task *record, const tci_json *outcome,
                        tc_str outcome_text, tc_err *err) TC_CHECKED;
/* The next state of a running task, checked and staged. */
int tci_tx_stage_next(tc_task *t, tc_tx *tx, const tci_task *current, const tc_next *next,
                      tc_err *err) TC_CHECKED;
bool tci_outcome_is_failed(const tci_json *state);

uintptr_t tci_task_thread_mark(void); /* of the calling thread */

/* ---- sched_run.c ---- */

/* On a thread of the pool, from reservation to end. */
void tci_task_run(tci_work *w);
void tci_task_cancel(tc_task *t); /* with the lock */

/* ---- sched.c ---- */

void tci_sched_kick(tc_harness *h);        /* something may run now */
void tci_sched_kick_locked(tc_harness *h); /* the same with the lock */
/* The thread has to look at reports, times, or what hosts are told. With the lock. */
void tci_sched_call_locked(tc_harness *h);
/* Make the passes there is work for on this thread, off the line, unless another thread does.
 * ret_mine not NULL: the first invocation that begins is the caller's to run; NULL in it: none. */
void tci_sched_passes(tc_harness *h, tc_task **ret_mine);
void tci_sched_registry_changed(void *user);
void tci_sched_closed(void *user, const tc_err *failure); /* close listener */
void tci_sched_join(void *user);
void tci_sched_give_reports(tc_harness *h);
tc_wake tci_sched_wake_now(tc_harness *h);

/* ---- timer.c ---- */

/* With the lock: give what is due to threads; the next due time, 0: none. */
int64_t tci_laters_run(tc_harness *h, int64_t now_ns);
void tci_laters_stop(tc_harness *h);

/* ---- host_timer.c ---- */

/* With the lock, which is given back when the program is asked: have a timer of each kind for the time given
 * (0: none). Until when the thread has to wait itself, monotonic; 0: until woken. */
int64_t tci_host_timers_arm(tc_harness *h, const int64_t due[TCI_NTIMERS]);
/* Free what was kept long enough, if it is time. */
void tci_host_timers_sweep(tc_harness *h);
void tci_host_timers_stop(tc_harness *h); /* the scheduler's thread has ended */

/* ---- bound.c ---- */

/* With the lock: the invocation it is bound to. NULL: it has ended (CLOSED), or is to end (CANCELLED). */
tc_task *tci_bound_task(const tc_bound *c, tc_err *err);
/* With the lock: is t, which has not ended, one that the conversation is not idle without? */
bool tci_task_keeps_busy(const tc_task *t, uint64_t conversation_id);

/* ---- waits.c ---- */

/* Until it is answered or ctx ends; it is on no list then. */
int tci_waiter_wait(tc_harness *h, tci_waiter *w, tc_ctx *ctx, tc_err *err) TC_CHECKED;
/* As tc_harness_wait_task; by as tci_harness_wait_idle. */
int tci_harness_wait_task(tc_harness *h, const tc_bound *by, tc_ctx *ctx, uint64_t id, tc_result *r,
                          tc_str *ret_record, tc_err *err) TC_CHECKED;
void tci_waiter_answer(tci_waiter *w, int rc, tc_code code); /* with the lock */
void tci_waits_end_all(tc_harness *h);                       /* with the lock: CLOSED */

/* ---- recover.c ---- */

int tci_recover(tc_harness *h, tc_ctx *ctx, tc_err *err) TC_CHECKED;

/* ---- tasks.c ---- */

/* What an abort of a task comes to, staged. *ret_running: a phase of it runs, to be waited for. */
typedef struct tci_abort {
    bool is_terminal, is_running;
} tci_abort;
int tci_tx_stage_abort(tc_harness *h, tc_tx *tx, uint64_t id, bool keep_restart, tci_abort *ret,
                       tc_err *err) TC_CHECKED;

/* ---- graph.c ---- */

void tci_graph_observe(tc_harness *h,
                       const tci_commit *commit); /* on the line, after the scheduler */
void tci_graph_registry_changed(tc_harness *h);

/* ---- registry.c ---- */

typedef struct tci_subscription tci_subscription;
int tci_registry_subscribe(tc_registry *reg, void (*changed)(void *user), void *user,
                           tci_subscription **ret, tc_err *err) TC_CHECKED;
/* After it returned, changed is not called any more and no call is under way. */
void tci_registry_unsubscribe(tci_subscription *s); /* NULL is fine */

#endif
