/* SPDX-License-Identifier: Apache-2.0
 *
 * Processes and outputs that a session holds: from the start of a command until it is released,
 * collected or the session ends. A process keeps its outputs attached; they live on without it. Loop
 * thread. */
#ifndef TCI_DAEMON_PROCESS_H
#define TCI_DAEMON_PROCESS_H

#include "daemon/command.h"
#include "daemon/session.h"
#include "ops/exec.h"

struct tci_process;

typedef struct tci_output {
    tci_link lru; /* detached ones, oldest use first */
    tci_session *session;
    tci_spool *spool;
    tc_str reference;
    char reference_text[TCI_HANDLE_TEXT_MAX]; /* key of the session's table: outlives the spool */
    bool is_attached;                         /* its process is still held */
    tci_record *pinned;                       /* the record whose answer named it */
    int64_t touched_ms;
} tci_output;

/* Waits for a process: a request that wants its end. */
typedef struct tci_process_wait {
    tci_link link;
    bool for_cleanup; /* else for the first process's end */
    void (*cb)(struct tci_process_wait *w);
    struct tci_process *process;
} tci_process_wait;

typedef struct tci_process {
    tci_link lru; /* finished ones, oldest use first */
    tci_session *session;
    tc_str handle; /* empty: a command of shell.exec, in no table */
    char handle_text[TCI_HANDLE_TEXT_MAX];
    tci_exec *exec;
    tci_output *out, *err;
    tci_record *pinned;
    bool is_live;   /* runs, or is being cleaned up */
    bool is_doomed; /* forget it as soon as it has ended */
    tci_list waits;
    int64_t touched_ms;
    void *starter; /* the tci_req that started it, until it is answered */
    void (*on_started)(struct tci_process *p, int rc, const tc_err *err);
    void (*on_done)(struct tci_process *p);
} tci_process;

/* Start a prepared command. on_started and on_done are called once each, later. with_handle: enter it in
 * the session's table. BUSY: no capacity; others as tci_exec_start. */
int tci_process_start(tci_session *s, const tci_command *cmd, bool with_handle, tci_record *record,
                      void *starter, void (*on_started)(tci_process *p, int rc, const tc_err *err),
                      void (*on_done)(tci_process *p), tci_process **ret, tc_err *err) TC_CHECKED;
tci_process *tci_process_find(tci_session *s, tc_str handle); /* NULL: none. Counts as use. */
void tci_process_add_wait(tci_process *p, tci_process_wait *w, void (*cb)(tci_process_wait *w));
/* The process goes; its outputs stay, detached. It must not be live. */
void tci_process_forget(tci_process *p);

tci_output *tci_output_find(tci_session *s, tc_str reference); /* NULL: none. Counts as use. */
/* Delete. CLEANUP_FAILED when the file could not be removed; then it stays. */
int tci_output_forget(tci_output *o, tc_err *err) TC_CHECKED;

/* Records for the wire. Previews are read now, into the arena. IO when they cannot be. */
int tci_process_put_info(const tci_process *p, tci_arena *a, tci_eip_process_info *ret,
                         tc_err *err) TC_CHECKED;
int tci_process_put_output(const tci_process *p, tci_arena *a, tci_eip_process_output *ret,
                           tc_err *err) TC_CHECKED;
int tci_output_put_info(const tci_output *o, tci_arena *a, tci_eip_output_info *ret,
                        tc_err *err) TC_CHECKED;
tci_eip_process_status tci_process_status(const tci_process *p);
bool tci_process_is_terminal(const tci_process *p);

/* For the session. */
void tci_process_end_all(tci_session *s);
void tci_process_forget_all(tci_session *s);
void tci_output_forget_all(tci_session *s);
int64_t tci_process_expire(tci_session *s, int64_t before_ms); /* next oldest use, or -1 */
int64_t tci_output_expire(tci_session *s, int64_t before_ms);
bool tci_process_evict(tci_session *s);
bool tci_output_evict(tci_session *s);

#endif
