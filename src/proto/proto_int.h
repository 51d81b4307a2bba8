/* SPDX-License-Identifier: Apache-2.0
 *
 * What the generated tables are made of. Only this module and its generated files see it. */
#ifndef TCI_PROTO_INT_H
#define TCI_PROTO_INT_H

#include "base/rfc3339.h"
#include "proto/proto.h"

typedef enum tci_kind {
    TCI_KIND_BOOL,
    TCI_KIND_U64,
    TCI_KIND_U32,
    TCI_KIND_I32,
    TCI_KIND_I64,
    TCI_KIND_F64,
    TCI_KIND_STRING,
    TCI_KIND_ID, /* a string of one or more characters */
    TCI_KIND_PATH,
    TCI_KIND_BASE64,
    TCI_KIND_SHA256,
    TCI_KIND_VERSION,
    TCI_KIND_TIME,
    TCI_KIND_ENUM,
    TCI_KIND_RECORD, /* a union too */
    TCI_KIND_CONST   /* fixed text; has no member */
} tci_kind;

typedef enum tci_shape { TCI_SHAPE_ONE, TCI_SHAPE_LIST, TCI_SHAPE_MAP } tci_shape;

/* REQUIRED: must be written. OPTIONAL: has_x says whether it is there; null means absent.
 * DEFAULTED: has a value in any case; lists and maps without a least length are among them. */
typedef enum tci_presence { TCI_REQUIRED, TCI_OPTIONAL, TCI_DEFAULTED } tci_presence;

/* Rules that tie fields of one record together. */
typedef enum tci_check {
    TCI_CHECK_NONE,
    TCI_CHECK_LIMITS, /* a preview is no longer than its stream */
    TCI_CHECK_OUTPUT  /* nothing is retained that was not produced */
} tci_check;

/* Bounds and default of a field. min, max: of an integer, or of the characters of a text. */
typedef struct tci_rule {
    uint64_t min, max;
    uint64_t dflt;
    double min_f64, max_f64;
    tc_str text; /* default of a string, text of a constant */
    uint32_t min_items, max_items;
} tci_rule;

typedef struct tci_field {
    const char *key; /* `,"name":`; what is encoded, and from the third byte on what is compared */
    union {
        const tci_type *type;
        const tc_str *names; /* of an enum */
    } of;
    const tci_rule *rule;
    uint16_t at, has_at;          /* offsets in the record */
    uint16_t item_size, value_at; /* of a list or map: one item; where its value is */
    uint8_t key_len;              /* of the bare name */
    uint8_t kind, shape, presence;
    uint8_t nnames;
    bool is_context; /* stays empty in a request digest */
    bool is_kept;    /* a list or map that is written also when empty */
} tci_field;

/* A record has fields, at most 64, sorted by name. A union has variants: records whose fields lie
 * in the same storage and hold the deciding field as a constant. */
struct tci_type {
    const char *name;
    const tci_field *fields;
    uint64_t required, fill; /* bits of fields: must be there; default is not all zeroes */
    uint32_t size;
    uint16_t nfields;
    uint8_t check;
    uint8_t nvariants;
    tc_str by;
    uint16_t by_at;
    const tc_str *variant_names;
    const tci_type *const *variants;
};

/* One step of the way to a value, for messages. */
typedef struct tci_step {
    const struct tci_step *up; /* NULL: the first */
    tc_str key;                /* ptr NULL: an item of a list */
    size_t index;
} tci_step;

/* Texts that must have a form (types.c). NULL when s has it, else what is wrong with it. */
const char *tci_proto_path_fault(tc_str s);
const char *tci_proto_sha256_fault(tc_str s);
const char *tci_proto_version_fault(tc_str s);
/* Characters within min..max. */
const char *tci_proto_length_fault(tc_str s, uint64_t min, uint64_t max);

/* INVALID with "a.b[3]: what"; returns the code (types.c). */
int tci_proto_fail(tc_err *err, const tci_step *step, const char *what);
int tci_proto_fail_name(tc_err *err, const tci_step *step, const char *what, tc_str name);

#endif
