/* SPDX-License-Identifier: Apache-2.0
 *
 * A model that answers from a list, for tests of runs: it keeps what it was asked, streams what it
 * answers piece by piece, and can be made to wait. */
#ifndef RUN_MODEL_H
#define RUN_MODEL_H

#include "base/buf.h"
#include "plat/thread.h"
#include <telechir/model.h>

enum { RUN_STEPS_MAX = 128 };

/* What happens to one question.
 *   message   the answer: a whole assistant message, JSON
 *   is_held   it waits until run_model_release, after npieces pieces were streamed (-1: at the end) */
typedef struct run_step {
    const char *message;
    bool is_held;
    int npieces;
} run_step;

typedef struct run_model {
    tc_models models; /* first */
    tci_mutex lock;
    tci_wake wake;
    run_step steps[RUN_STEPS_MAX];
    size_t nsteps, nasked, nreleased, nheld, npolled, ncancelled;
    char *requests[RUN_STEPS_MAX]; /* messages of each question */
    char *options[RUN_STEPS_MAX];  /* "reasoning max_tokens session" */
    /* Instead of the list: what to answer to these messages. */
    const char *(*decide)(void *user, tc_str messages);
    void *decide_user;
    uint64_t context_window, max_tokens;
    bool is_missing; /* get_model finds nothing */
} run_model;

void run_model_init(run_model *m);
void run_model_done(run_model *m);
/* One more answer. */
void run_model_say(run_model *m, const char *message);
void run_model_hold(run_model *m, const char *message, int npieces);
/* Until n questions are being held; then let one go. */
void run_model_wait_held(run_model *m, size_t n);
void run_model_release(run_model *m);
size_t run_model_asked(run_model *m);

/* A message of stop reason "stop" with this text, and one of "toolUse" with one call; in static storage
 * that is reused after 64 calls. */
const char *run_text(const char *text);
const char *run_call(const char *id, const char *name, const char *arguments);
const char *run_error(const char *text);

#endif
