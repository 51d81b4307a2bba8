/* SPDX-License-Identifier: Apache-2.0
 *
 * Records and methods as tables: one strict decoder, one encoder, one method table, all driven by
 * descriptors generated from protocol/. Knows nothing of transports.
 *
 * Naming of what is generated (src/proto/gen/eip.h), predictable from the wire names:
 *   record FileInfo                  struct tci_eip_file_info, type tci_eip_file_info_type
 *   params/result of file.stat       tci_eip_file_stat_params / _result, types ..._params_type
 *   field max_results                member max_results; optional without default: has_max_results too
 *   list of T named entries          struct { T *items; size_t count; } entries
 *   map string -> string named set   struct { tci_proto_pair *items; size_t count; } set, by key
 *   enum EntryKind "file"            TCI_EIP_ENTRY_KIND_FILE, from 0 in the order of the table
 *   union by kind                    member kind (an enum) and u.<variant>
 *   strings, paths, handles, base64  tc_str (base64 decoded); u64 -> uint64_t; i32 -> int32_t
 *   method file.stat                 enum TCI_EIP_FILE_STAT, an index of tci_eip_methods[] */
#ifndef TCI_PROTO_H
#define TCI_PROTO_H

#include "base/json.h"

typedef struct tci_type tci_type; /* descriptor of a record; its size is tci_type_size */

typedef struct tci_proto_pair {
    tc_str key, value;
} tci_proto_pair;

/* Strict: unknown or repeated fields, wrong types, null for a defaulted field, ranges, lengths are
 * INVALID with the path of the field ("path.path: not absolute"). ret is filled with defaults
 * for what is absent. Strings are borrowed from v or the arena. */
int tci_proto_decode(const tci_type *type, const tci_json *v, tci_arena *a, void *ret,
                     tc_err *err) TC_CHECKED;

/* For protocols that grow by adding fields: an unknown field is passed over, an optional or
 * defaulted one that does not fit counts as absent, and so does an entry of a map. A required field
 * that is missing or does not fit is INVALID. items of an empty list or map is not NULL, of an absent
 * one it is. */
int tci_proto_decode_lenient(const tci_type *type, const tci_json *v, tci_arena *a, void *ret,
                             tc_err *err) TC_CHECKED;

typedef enum tci_proto_encode_flags {
    /* For request digests: leave operation_id and timeout_ms out of "context". */
    TCI_PROTO_FOR_DIGEST = 1 << 0
} tci_proto_encode_flags;

/* Compact JSON, keys sorted bytewise, defaults and empty lists and absent optionals left out. */
void tci_proto_encode(const tci_type *type, const void *value, tci_buf *out, unsigned flags);
size_t tci_type_size(const tci_type *type);
/* Where a member of a record lies in value; NULL when the type has no such field. */
const void *tci_type_member(const tci_type *type, const void *value, tc_str field);

/* One method. All columns come from protocol/eip/. */
typedef enum tci_scope { TCI_SCOPE_DEVICE, TCI_SCOPE_SESSION } tci_scope;
typedef enum tci_replay { TCI_REPLAY_EXTERNAL, TCI_REPLAY_ACTIVE, TCI_REPLAY_TERMINAL } tci_replay;
/* LOOP: the handler runs at once on the loop thread. WORKER: on a pool thread. ASYNC: starts on
 * the loop and answers later. */
typedef enum tci_where { TCI_WHERE_LOOP, TCI_WHERE_WORKER, TCI_WHERE_ASYNC } tci_where;
typedef enum tci_lane { TCI_LANE_ORDINARY, TCI_LANE_CLEANUP, TCI_LANE_KEEPALIVE } tci_lane;
/* When a method is offered: see "availability" in the table. */
typedef enum tci_feature {
    TCI_FEATURE_ALWAYS,
    TCI_FEATURE_DIRECTORIES, /* directory_discovery */
    TCI_FEATURE_MONITORING,
    TCI_FEATURE_COMMANDS,
    TCI_FEATURE_SIGNALS, /* commands on a system with signals */
    TCI_FEATURE_COMPUTER,
    TCI_FEATURE_EGRESS
} tci_feature;
/* Chooses the fixed texts and hints of errors. */
typedef enum tci_family {
    TCI_FAMILY_DEVICE,
    TCI_FAMILY_SESSION,
    TCI_FAMILY_OPERATION,
    TCI_FAMILY_FILE,
    TCI_FAMILY_TRANSFER,
    TCI_FAMILY_COMMAND,
    TCI_FAMILY_PROCESS,
    TCI_FAMILY_OUTPUT,
    TCI_FAMILY_PORT,
    TCI_FAMILY_COMPUTER
} tci_family;

typedef struct tci_method {
    tc_str name;
    tci_scope scope;
    tci_replay replay;
    tci_where where;
    tci_lane lane;
    tci_feature feature;
    tci_family family;
    bool is_reconciling; /* may use the reserved ledger slot */
    bool is_bulk;        /* WORKER: the bulk lane of the pool */
    const tci_type *params, *result;
} tci_method;

/* NULL when there is no such method. */
const tci_method *tci_method_find(tc_str name);

#endif
