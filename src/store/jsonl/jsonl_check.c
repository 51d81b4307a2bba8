/* SPDX-License-Identifier: Apache-2.0
 *
 * Checking a session of JSON lines: every record is read as if it were wanted, and what is not
 * sound is told of. Leaves the looking to jsonl_salvage.c. Thread: the caller's. Invariant: nothing is
 * changed, and the owner may go on writing (what it adds meanwhile may look unfinished). */
#include "store/jsonl/jsonl_salvage.h"

int tci_jsonl_check(tc_str path, tci_damage_fn on_damage, void *user, tci_check_report *ret,
                    tc_err *err)
{
    tci_jsonl_salvage s = {.on_damage = on_damage, .user = user};
    int rc = tci_jsonl_salvage_run(path, &s, err);
    if (rc == 0)
        *ret = s.report;
    return rc;
}
