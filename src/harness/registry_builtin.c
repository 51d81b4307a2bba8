/* SPDX-License-Identifier: Apache-2.0
 *
 * The registry that programs start from: with the tasks that a harness cannot do without. Any thread. */
#include "harness/sched/harness_int.h"

static const tc_task_def *const builtin_tasks[] = {&tci_generation_task, &tci_tool_task,
                                                   &tci_compaction_task};

int tc_registry_new(tc_registry **ret_registry, tc_err *err)
{
    tc_registry *reg;
    int rc = tci_registry_new_empty(&reg, err);
    if (rc < 0)
        return rc;
    rc = tci_registry_install_builtin(reg, builtin_tasks,
                                      sizeof(builtin_tasks) / sizeof(builtin_tasks[0]), err);
    if (rc < 0) {
        tc_registry_free(reg);
        return rc;
    }
    *ret_registry = reg;
    return 0;
}
