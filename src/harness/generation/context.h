/* SPDX-License-Identifier: Apache-2.0
 *
 * What a model is told in a conversation, worked out from the entries (durable formats, "Context
 * derivation"), and grown by what was added since. Message texts are those of the records, byte for
 * byte. A context is used by one thread at a time. */
#ifndef TCI_HARNESS_CONTEXT_H
#define TCI_HARNESS_CONTEXT_H

#include "harness/sched/harness_int.h"
#include <stdatomic.h>
#include <telechir/agent.h>
#include <telechir/model.h>

#define TCI_TOKENS_UNKNOWN UINT32_MAX

/* A call of an assistant message; decoded. */
typedef struct tci_call {
    tc_str id, name;
} tci_call;

/*   call_id   of a result, decoded
 *   tokens    estimated, or TCI_TOKENS_UNKNOWN (compact.h)
 *   calls     of an assistant message: first_call.. in the context's calls */
typedef struct tci_message {
    tc_str json;
    tc_str call_id;
    uint32_t first_call, ncalls;
    uint32_t tokens;
    uint8_t role; /* tc_role */
} tci_message;

/* An entry of the range; messages: what it contributes, when it is active. */
typedef struct tci_context_entry {
    tc_str json, kind;
    uint64_t id, head;
    uint32_t first_message, nmessages;
    bool has_model, has_edits;
    bool is_whole; /* the messages are a whole array, nothing but commas between them */
} tci_context_entry;

/* The texts of a context. Counted: a question that is under way reads them while the context grows. */
typedef struct tci_texts {
    tci_arena arena; /* used by whoever has the context */
    atomic_uint refs;
} tci_texts;
void tci_texts_unref(tci_texts *t); /* NULL is fine */

/* Counts are 32 bit: a range has at most TCI_CONTEXT_ENTRIES_MAX entries.
 *   head_id    the newest head marker, 0: none; tail: the newest entry taken in, 0: no entries at all
 *   entries    the whole range, oldest first
 *   active     indexes into entries: the head marker first, then those without a head
 *   messages   contributions one after another, in the order of active
 *   ordered    the messages of a request: indexes into messages, or, from TCI_SYNTHESIZED on, into
 *              synthesized; without the move of the leading system message, which is ordered[lead] */
enum { TCI_CONTEXT_ENTRIES_MAX = 1 << 28 };
#define TCI_SYNTHESIZED (UINT32_C(1) << 31)
#define TCI_NO_LEAD SIZE_MAX
typedef struct tci_context {
    struct tci_context *next; /* in the cache */
    int64_t kept_ns;          /* when it was put there */
    uint64_t conversation, head_id, tail;
    tci_texts *texts;
    tci_context_entry *entries;
    uint32_t *active;
    tci_message *messages, *synthesized;
    uint32_t *ordered;
    tci_call *calls;
    size_t nentries, nactive, nmessages, nsynthesized, nordered, ncalls;
    size_t entries_cap, active_cap, messages_cap, synthesized_cap, ordered_cap, calls_cap;
    size_t lead;
    /* private */
    uint64_t *edited; /* ids, ascending */
    size_t nedited;
    size_t open_from, settled_ordered, settled_synthesized;
    size_t nderived; /* entries that are in the messages; 0: none yet */
    bool is_changed; /* by an edit or a marker among those that are not */
    void *extra;     /* what others worked out of it (prompt.c); freed with it */
    void (*free_extra)(void *extra);
    int64_t baseline; /* index into messages; -1: none; -2: not decided yet */
} tci_context;

/* The context of a conversation, as of entry at (0: the newest). NOT_FOUND: no such conversation, or at
 * is not visible from it. Off the line. Give it back with tci_context_release. */
int tci_context_read(tc_harness *h, uint64_t conversation, uint64_t at, tci_context **ret_context,
                     tc_err *err) TC_CHECKED;
/* Keeps it for the next reader as long as the settings say. NULL is fine. */
void tci_context_release(tc_harness *h, tci_context *c);

/* From records instead, oldest first, whose texts live as long. For tests and views. */
int tci_context_of(uint64_t conversation, uint64_t head_id, const tci_entry *entries,
                   size_t nentries, tci_context **ret_context, tc_err *err) TC_CHECKED;
/* Add what came after the tail, under the same head marker. After a failure: free it. */
int tci_context_extend(tci_context *c, const tci_entry *entries, size_t nentries,
                       tc_err *err) TC_CHECKED;
/* The same in two steps, the first as often as there are pieces; until the second the context is not one.
 * A new one is an empty one (nentries 0 above). The entries' texts may lie in its own arena. */
int tci_context_add(tci_context *c, const tci_entry *entries, size_t nentries,
                    tc_err *err) TC_CHECKED;
int tci_context_settle(tci_context *c, tc_err *err) TC_CHECKED;
void tci_context_free(tci_context *c);

/* Message i of a request, the leading system message first. */
const tci_message *tci_context_message(const tci_context *c, size_t i);
/* The messages of a request, a list in r. Their texts live until *ret_texts is given back. */
int tci_context_messages(const tci_context *c, tc_result *r, const tc_message **ret_messages,
                         size_t *ret_nmessages, tci_texts **ret_texts, tc_err *err) TC_CHECKED;
/* The context as hosts see it. The lists are in r; the texts are not copied, r keeps them alive. */
int tci_context_view(const tci_context *c, tc_result *r, tc_context_view *ret,
                     tc_err *err) TC_CHECKED;
/* Whether a call of this id was made in the messages of the context. */
bool tci_context_has_call(const tci_context *c, tc_str id);

/* Messages [from, to) put in order as a request has them, results after their calls: each to fn. */
int tci_context_each_ordered(const tci_context *c, size_t from, size_t to,
                             int (*fn)(void *user, tc_str message, tc_err *err), void *user,
                             tc_err *err) TC_CHECKED;

#endif
