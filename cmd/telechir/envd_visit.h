/* SPDX-License-Identifier: Apache-2.0
 *
 * A file written through one adapter and read back through another: what `http-envd` and
 * `websocket-envd` show. The main thread. */
#ifndef TCI_CLI_ENVD_VISIT_H
#define TCI_CLI_ENVD_VISIT_H

#include "cli.h"

/* How to get an adapter that is not ready yet. at: where it is, under the JSON name at_name. */
typedef struct envd_visit {
    int (*make)(cli *c, void *arg, const tc_env_options *options, tc_env **ret_env);
    void *arg;
    tc_str provider, device_id;
    const char *at_name;
    tc_str at;
} envd_visit;

/* Do it and show it; c->err. */
int envd_visit_twice(cli *c, const envd_visit *v) TC_CHECKED;

#endif
