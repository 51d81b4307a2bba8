/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON (RFC 8259): one strict pass into a tree, and an emitter. Numbers stay as written until
 * somebody asks for a type; strings without escapes point into the input. The tree and its
 * strings live as long as both the input and the arena. */
#ifndef TCI_JSON_H
#define TCI_JSON_H

#include "base/arena.h"
#include "base/buf.h"

typedef enum tci_json_kind {
    TCI_JSON_NULL,
    TCI_JSON_FALSE,
    TCI_JSON_TRUE,
    TCI_JSON_NUMBER,
    TCI_JSON_STRING,
    TCI_JSON_ARRAY,
    TCI_JSON_OBJECT
} tci_json_kind;

struct tci_json_member;

typedef struct tci_json {
    tci_json_kind kind;
    uint32_t count; /* items of an array, members of an object */
    union {
        tc_str text; /* NUMBER: the token as written; STRING: decoded */
        const struct tci_json *items;
        const struct tci_json_member *members; /* in the order written */
    } u;
} tci_json;

typedef struct tci_json_member {
    tc_str key;
    tci_json value;
} tci_json_member;

typedef enum tci_json_flags {
    /* A lone surrogate escape is kept (as three bytes, WTF-8) instead of refused. */
    TCI_JSON_KEEP_SURROGATES = 1 << 0,
    /* The last of equal keys wins instead of CONFLICT. */
    TCI_JSON_LAST_KEY_WINS = 1 << 1,
    /* How what a session or a model holds is read: others wrote it, and nothing of it may be lost. */
    TCI_JSON_DURABLE = TCI_JSON_KEEP_SURROGATES | TCI_JSON_LAST_KEY_WINS
} tci_json_flags;

enum { TCI_JSON_DEPTH_MAX = 127 };

/* One value and nothing after it but blanks. Depth over TCI_JSON_DEPTH_MAX, bad UTF-8, a byte
 * order mark: PARSE, with the byte offset in the message. Equal keys in one object anywhere:
 * CONFLICT, *ret_value is then still complete (first key kept), so that a caller can look for an id.
 * NO_MEMORY, TOO_BIG: the arena. */
int tci_json_parse(tc_str text, unsigned flags, tci_arena *a, tci_json *ret_value,
                   tc_err *err) TC_CHECKED;

/* NULL when v is no object or has no such member. */
const tci_json *tci_json_get(const tci_json *v, tc_str key);
/* Typed reads; false when the value is not of that type or out of range. "1.0" is no integer. */
bool tci_json_as_u64(const tci_json *v, uint64_t *ret);
bool tci_json_as_i64(const tci_json *v, int64_t *ret);
bool tci_json_as_double(const tci_json *v, double *ret); /* any finite number */
bool tci_json_as_str(const tci_json *v, tc_str *ret);
bool tci_json_as_bool(const tci_json *v, bool *ret);
/* A member that is a string; empty when v is NULL or no object, or the member absent or of another type. */
tc_str tci_json_str_member(const tci_json *v, const char *key);

/* Emitter. Strings are quoted with the short escapes \b \t \n \f \r \" \\ and \u00xx in lower case for
 * other control characters, nothing else; kept surrogates come out as \udxxx. The caller writes
 * punctuation: tci_json_put_key writes `"key":` with a leading comma unless *first. */
void tci_json_put_str(tci_buf *b, tc_str s);
void tci_json_put_bool(tci_buf *b, bool v);
void tci_json_put_double(tci_buf *b,
                         double v); /* finite; integers print without a fraction: 12.0 */
void tci_json_put_base64(tci_buf *b, tc_str bytes); /* quoted, unpadded */
void tci_json_put_key(tci_buf *b, bool *first, tc_str key);
/* The key and a string. */
void tci_json_put_member(tci_buf *b, bool *first, const char *key, tc_str text);

typedef enum tci_json_order { TCI_JSON_AS_IS, TCI_JSON_SORTED } tci_json_order;
/* The whole tree, compact. SORTED: keys bytewise ascending at every level. */
void tci_json_put(tci_buf *b, const tci_json *v, tci_json_order order);

#endif
