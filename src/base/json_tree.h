/* SPDX-License-Identifier: Apache-2.0
 *
 * A JSON value that owns its memory and changes in place: the committed value of a document, from
 * its first byte to its last revision. Everything that reads a tci_json reads its root. Changes are
 * made at a path; each can be undone, so that a change that could not be stored leaves no trace.
 * Appending to a string or an array costs what is appended. Numbers stay the tokens they were.
 * One thread at a time; pointers into the tree are valid until the next change. */
#ifndef TCI_JSON_TREE_H
#define TCI_JSON_TREE_H

#include "base/json.h"

typedef struct tci_tree {
    tci_json root;
} tci_tree;

/* null; nothing allocated */
#define TCI_TREE_NONE ((tci_tree){{TCI_JSON_NULL, 0, {{NULL, 0}}}})

/* A deep copy of v. NO_MEMORY. ret is overwritten, not released. */
int tci_tree_of(const tci_json *v, tci_tree *ret, tc_err *err) TC_CHECKED;
/* From text; flags as tci_json_parse. */
int tci_tree_parse(tc_str text, unsigned flags, tci_tree *ret, tc_err *err) TC_CHECKED;
void tci_tree_done(tci_tree *t);

/* One step: into an object by key, or into an array by index. */
typedef struct tci_step {
    bool is_index;
    tc_str key;
    size_t index;
} tci_step;

/* The value at a path; NULL when there is none. */
const tci_json *tci_json_at(const tci_json *v, const tci_step *path, size_t nsteps);
/* RFC 6901: "" is the root, "/a/0" steps into a member and an item: a step of digits without a leading
 * zero is an index where the value before it, in v, is an array, a key elsewhere. Steps that do not
 * exist yet are keys. INVALID: no leading slash, a bad escape, too many steps. */
enum { TCI_PATH_STEPS_MAX = 64 };
int tci_json_pointer(tc_str pointer, const tci_json *v, tci_arena *a, tci_step **ret_path,
                     size_t *ret_nsteps, tc_err *err) TC_CHECKED;

/* What was done, newest last: undo takes it back in reverse. Zeroed storage is empty. */
typedef struct tci_undo {
    struct tci_undo_step *steps;
    size_t count, cap;
} tci_undo;
/* Take all of it back; the log is empty afterwards. Never fails. */
void tci_tree_undo(tci_tree *t, tci_undo *undo);
/* The changes stay: forget how to undo them (frees what they replaced). */
void tci_undo_done(tci_undo *undo);

/* The changes. undo may be NULL: then there is no way back. INVALID (with what is missing or of the wrong
 * kind), NO_MEMORY: nothing changed. Values are copied in.
 *   set      a member (new ones at the end), or an existing item; an empty path replaces the root
 *   delete   a member (absent: nothing happens) or an item (absent: INVALID)
 *   append   text to the end of a string; text is WTF-8 and well formed on its own
 *   trim     the first nunits characters (code points) of a string; more than there are: INVALID
 *   splice   nremove items of an array from index on become those of items (an array); past the end:
 *            INVALID
 *   reorder  new[i] = old[order[i]]; order must name each of the array's items once */
int tci_tree_set(tci_tree *t, const tci_step *path, size_t nsteps, const tci_json *value,
                 tci_undo *undo, tc_err *err) TC_CHECKED;
int tci_tree_delete(tci_tree *t, const tci_step *path, size_t nsteps, tci_undo *undo,
                    tc_err *err) TC_CHECKED;
int tci_tree_append(tci_tree *t, const tci_step *path, size_t nsteps, tc_str text, tci_undo *undo,
                    tc_err *err) TC_CHECKED;
int tci_tree_trim(tci_tree *t, const tci_step *path, size_t nsteps, uint64_t nunits, tci_undo *undo,
                  tc_err *err) TC_CHECKED;
int tci_tree_splice(tci_tree *t, const tci_step *path, size_t nsteps, size_t index, size_t nremove,
                    const tci_json *items, tci_undo *undo, tc_err *err) TC_CHECKED;
int tci_tree_reorder(tci_tree *t, const tci_step *path, size_t nsteps, const size_t *order,
                     size_t norder, tci_undo *undo, tc_err *err) TC_CHECKED;

/* ---- values in general ---- */

/* Equal as the durable formats mean it: numbers by value ("0" and "0.0" are), members in any order. */
bool tci_json_equal(const tci_json *a, const tci_json *b);

/* A member of an object that is to be written otherwise: text is the JSON text of its value;
 * ptr NULL: left out. */
typedef struct tci_json_change {
    tc_str key, text;
} tci_json_change;
/* The object v with some members changed: those it has in their place, new ones at the end, all
 * others as they are. */
void tci_json_edit(tci_buf *b, const tci_json *v, const tci_json_change *changes, size_t nchanges);

/* A string in ASCII only: what is not 0x20..0x7e is escaped, above U+FFFF as a surrogate pair, in lower
 * case hex (how the Python port writes the text columns it looks up bytewise). */
void tci_json_put_ascii(tci_buf *b, tc_str s);

#endif
