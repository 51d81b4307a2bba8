/* SPDX-License-Identifier: Apache-2.0
 *
 * What `run`, `chat` and `sessions fork` share: a session that is open, with models, tools and the target
 * they act on. The main thread, but for the environment, which tasks ask for on theirs. */
#ifndef TCI_CLI_AGENT_H
#define TCI_CLI_AGENT_H

#include "cli.h"
#include "base/map.h"
#include "plat/thread.h"
#include <telechir/agent.h>
#include <telechir/harness.h>
#include <telechir/model.h>
#include <telechir/tool.h>

/* The document that keeps how a session was run (agent_memory.c). */
#define AGENT_RUN_DOC "tc.run"

enum { AGENT_ENVS_MAX = 64, AGENT_TOOLS = 7 };

/* An environment for one working folder, kept for as long as the command runs, so that what one call
 * started is there in the next. */
typedef struct agent_env {
    char *cwd;
    tc_env *env;
} agent_env;

typedef struct agent {
    cli *c;
    tc_str path;                               /* of the session */
    tc_str on;                                 /* its target, as it was typed */
    const char *on_text, *base_url, *key_file; /* given or remembered; NULL: neither */
    const tci_json *memory; /* what the session keeps of how it is run; NULL: nothing yet */
    bool is_moved;          /* another target than last time */
    bool is_asking;         /* before tools that change something */
    tc_env *env;            /* NULL: not needed so far */
    tc_durable *session;    /* NULL once the harness has it */
    tc_models *models;
    tc_tool tools[AGENT_TOOLS];
    const tc_tool *tool_list[AGENT_TOOLS];
    tc_extension extension;
    tc_settings settings;
    tc_registry *registry;
    tc_extension *gate; /* NULL: nobody is asked */
    tc_harness *harness;
    uint64_t conversation;
    bool has_ended; /* with --json: the last line was written, the error in it */
    bool is_new;    /* the conversation began with this command */
    tci_mutex lock; /* of envs and maker */
    cli maker; /* a copy of c with memory of its own: tasks make environments on their threads */
    agent_env envs[AGENT_ENVS_MAX];
    size_t nenvs;
} agent;

/* Where sessions are when nobody says: $XDG_DATA_HOME/telechir/sessions. */
int agent_folder(cli *c, tc_str *ret, tc_err *err) TC_CHECKED;

/* Open the session that --session names (a new one without), reach its target, and make its
 * conversation if there is none: model, tools, instructions and working folder are committed with it, and
 * changed where options say otherwise. 0, or c->err. agent_close in any case. */
int agent_open(agent *a, cli *c) TC_CHECKED;
/* Only the session, to change records of it: no target, no model, nothing runs. */
int agent_open_session(agent *a, cli *c, tc_str path) TC_CHECKED;
void agent_close(agent *a);
/* Another model for the conversation, PROVIDER/ID. */
int agent_use_model(agent *a, tc_str model) TC_CHECKED;
/* Another target, when nothing runs: a saved name or a form that needs no options. The conversation goes to
 * its working folder. on: lives as long as the command. On failure to reach it all stays as it was. */
int agent_move(agent *a, const char *on) TC_CHECKED;

/* Submit the prompt (empty: only go on), show what happens until it is idle, and say what came of it. 0, or
 * c->err: CANCELLED when Ctrl-C ended the run, DENIED when calls wait for a yes (run.c). */
int agent_run(agent *a, tc_str prompt, uint64_t max_turns) TC_CHECKED;

static inline tc_durable *agent_session(const agent *a)
{
    return a->session != NULL ? a->session : tc_harness_session(a->harness);
}

/* ---- how it was run (agent_memory.c) ---- */

/* Options that were given, and the rest as the session was run last. Before the target is reached. */
int agent_recall(agent *a) TC_CHECKED;
/* How the target was reached last time: the value of an option of targets; empty: it was not given. */
tc_str agent_way(const agent *a, const char *option);
/* Keep it, in one commit; nothing is written when nothing changed. */
int agent_remember(agent *a) TC_CHECKED;
/* The target that was the one when record id was made; empty: not known. memory: of the document
 * AGENT_RUN_DOC, may be NULL. */
tc_str agent_place(const tci_json *memory, uint64_t id);

/* ---- asking before tools run (agent_ask.c) ---- */

typedef struct agent_asker {
    agent *a;
    tc_ctx *ctx; /* NULL: nobody is asked */
    tc_result *result;
    tc_listener *listener;
    tci_thread *thread;
    tci_wake wake;
    bool is_interactive;
    bool is_unanswered; /* valid after agent_ask_end */
} agent_asker;
/* Nothing when a->is_asking is false; cancels watch_ctx when nobody can be asked. 0, or c->err; agent_ask_end in any case. */
int agent_ask_start(agent_asker *k, agent *a) TC_CHECKED;
void agent_ask_end(agent_asker *k);
/* Say what waits and how it is answered: gives DENIED in c->err. */
int agent_ask_refer(agent *a);
/* Yes to everything that waits. */
int agent_ask_grant(agent *a) TC_CHECKED;

/* ---- showing what it does (run_show.c) ---- */

typedef struct show {
    cli *c;
    const agent *a;
    tci_map calls; /* by call id: what is said of it */
    tci_arena arena;
    size_t nshown;     /* bytes of the message under way that were printed */
    bool is_line_open; /* the last byte printed was no newline */
    bool is_begun;     /* the first snapshot was seen */
    bool is_streaming; /* text goes out as it comes */
    char half[3];      /* the first half of a character, which waits for the other */
    size_t nhalf;
    int64_t retry_at_ms; /* when it is asked again what just failed; 0: not */
    tci_buf failure;     /* why the newest answer failed, if it did and is not asked for again */
    uint64_t last;       /* the newest entry that was shown, or was there before */
    uint64_t nturns;
    uint64_t settled; /* the prompt that was settled last; 0: none */
} show;
int show_init(show *s, const agent *a) TC_CHECKED;
void show_done(show *s);
/* One frame of tc_conversation_watch_events. Returns 0 or c->err's code. */
int show_frame(show *s, tc_str events) TC_CHECKED;
/* Of an entry with a result: the call was cut off, and what it did is not known. */
bool agent_was_cut(const tc_json *entry);
/* End an open line. */
int show_end(show *s) TC_CHECKED;

#endif
