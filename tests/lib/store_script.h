/* SPDX-License-Identifier: Apache-2.0
 *
 * Commits as JSON, and a whole session as text: for tests that drive a storage the way another program
 * would, and compare what is in two of them. */
#ifndef TC_TEST_STORE_SCRIPT_H
#define TC_TEST_STORE_SCRIPT_H

#include "store/store.h"

/* Commit the writes of an array, each as it stands in a session:
 *     {"type":"entry","value":{...}}                       also conversation, task, submission
 *     {"type":"document.create","record":{...},"content":{"version":1,"kind":"base","value":{}}}
 *     {"type":"document.copy","record":{...},"source":{"id":5,"at":7}}    at may be "current"
 *     {"type":"document.change","id":5,"content":{"version":1,"kind":"delta","ops":[...]}}
 *     {"type":"document.retire","id":5} */
int script_commit(tci_store *store, tc_str writes, tci_commit_how how, uint64_t *ret_seq,
                  tc_err *err) TC_CHECKED;

/* Everything, one JSON value a line, in the order of ids within each table: records, entries with
 * their sequence number, every document with its record and its present value, if it has one.
 * is_sorted: keys in order, so that texts of different writers are equal. */
int script_dump(tci_store *store, bool is_sorted, tci_buf *out, tc_err *err) TC_CHECKED;

#endif
