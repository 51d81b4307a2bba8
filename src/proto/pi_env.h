/* SPDX-License-Identifier: Apache-2.0
 *
 * pi-env's operations as a table. Names of what is generated (src/proto/gen/pi_env.h) follow those
 * of proto.h: operation scanLines is tci_pi_ops[TCI_PI_SCAN_LINES], with tci_pi_scan_lines_params and
 * _result; a field mtimeSec is the member mtime_sec. Requests and results are read with
 * tci_proto_decode_lenient. */
#ifndef TCI_PROTO_PI_ENV_H
#define TCI_PROTO_PI_ENV_H

#include "proto/proto.h"

typedef struct tci_pi_op {
    tc_str name;
    tci_where where;
    bool is_ext; /* only between our own two ends */
    const tci_type *params, *result;
} tci_pi_op;

/* NULL when there is no such operation. */
const tci_pi_op *tci_pi_op_find(tc_str name);

#endif
