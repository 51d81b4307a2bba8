/* SPDX-License-Identifier: Apache-2.0
 *
 * The public way to open a harness: with conversations, and only when the tasks they need are there. */
#include "harness/sched/harness_int.h"

static int check_builtin(const tc_harness_options *options, tc_err *err)
{
    static const tc_str kinds[] = {{"pi.generation", 13}, {"pi.tool", 7}, {"pi.compaction", 13}};
    if (options->size == 0 || options->registry == NULL)
        return tc_err_set(err, TC_E_INVALID, "a harness needs a registry");
    tci_snapshot *s = tci_registry_snapshot(options->registry);
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (tci_snapshot_task(s, kinds[i], NULL) == NULL)
            rc = tc_err_set(err, TC_E_INVALID, "the registry has no task '%.*s'",
                            TC_STR_ARG(kinds[i]));
    tci_snapshot_unref(s);
    return rc;
}

int tc_harness_open(tc_durable *session_own, const tc_harness_options *options, tc_ctx *ctx,
                    tc_harness **ret_harness, tc_err *err)
{
    if (check_builtin(options, err) < 0) {
        tc_durable_free(session_own);
        return err->code;
    }
    return tci_harness_open_with(session_own, options, &tci_conversation_parts, ctx, ret_harness,
                                 err);
}
