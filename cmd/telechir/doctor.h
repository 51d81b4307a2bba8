/* SPDX-License-Identifier: Apache-2.0
 *
 * `telechir doctor`: findings, one after another, from this side (doctor.c) and from a target
 * (doctor_there.c). The main thread. */
#ifndef TCI_CLI_DOCTOR_H
#define TCI_CLI_DOCTOR_H

#include "cli.h"

typedef enum finding_kind { FOUND_OK, FOUND_NOTE, FOUND_FAILED, FOUND_SKIPPED } finding_kind;

typedef struct doctor {
    cli *c;
    const char *side; /* "here", "there" */
    int status;       /* of the first failure; CLI_OK */
    bool is_out_broken;
} doctor;

/* One finding. hint: what to do about it, may be NULL. */
void doctor_found(doctor *d, finding_kind kind, const char *check, const char *hint,
                  const char *fmt, ...) TC_PRINTF(5, 6);
/* c->err as a failed finding. */
void doctor_failed(doctor *d, const char *check);
/* The same as a note: it limits what can be done, no more. */
void doctor_note(doctor *d, const char *check);

/* Everything about the target that --on names. */
void doctor_there(doctor *d);

#endif
