/* SPDX-License-Identifier: Apache-2.0
 *
 * Going through a session of JSON lines record by record, however damaged it is: what is sound
 * is handed on commit by commit, what is not is told of. Checking looks on; repairing writes
 * it all anew. */
#ifndef TCI_STORE_JSONL_SALVAGE_H
#define TCI_STORE_JSONL_SALVAGE_H

#include "store/jsonl/jsonl_int.h"

/* A piece of a file that is not sound. */
typedef struct tci_jsonl_damage_part {
    tc_str file;
    uint64_t offset, len;
    tc_str what;
    bool is_lost;
} tci_jsonl_damage_part;

typedef struct tci_jsonl_salvage {
    /* set by the caller */
    tci_damage_fn on_damage; /* may be NULL */
    void *user;
    /* The sound writes of commit seq, at least one, or all that the marker had; they pass every rule of a
     * batch. NULL: only looking. */
    int (*on_commit)(void *keeper, const tci_write *writes, size_t nwrites, uint64_t seq,
                     bool is_lazy, tc_err *err);
    /* A damaged part. NULL: not wanted. */
    int (*on_part)(void *keeper, const tci_jsonl_damage_part *part, tc_err *err);
    void *keeper;
    /* filled */
    tci_check_report report;
} tci_jsonl_salvage;

/* Errors are those of the callbacks and of reading (IO, NO_MEMORY, NOT_FOUND); damage is none. */
int tci_jsonl_salvage_run(tc_str path, tci_jsonl_salvage *s, tc_err *err) TC_CHECKED;

/* For opening and for this: an empty backend struct for path, read-only or not; nothing is read. */
tci_jsonl *tci_jsonl_new(const tci_store_options *options);
void tci_jsonl_release(tci_jsonl *j);
/* Open the folder and main.jsonl (if there is one) and put its sidecars into the map. */
int tci_jsonl_open_folder(tci_jsonl *j, tc_str path, const tci_store_options *options,
                          tc_err *err) TC_CHECKED;

#endif
