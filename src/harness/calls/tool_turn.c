/* SPDX-License-Identifier: Apache-2.0
 *
 * Who may change a file now. The queues live in memory only: they keep the tools of one program from
 * overwriting each other, not commands or other programs. Any thread.
 *
 * To keep: a queue exists exactly as long as somebody is in it, and its first member has the turn. */
#include "harness/calls/tool_turn.h"

#include "base/list.h"
#include "base/map.h"
#include "plat/clock.h"

struct tci_turns {
    tci_mutex lock;
    tci_map queues; /* of queue, by key */
};

typedef struct queue {
    tci_list members;
    tc_str key;
    char text[];
} queue;

struct tc_file_turn {
    tci_turns *turns;
    queue *queue;
    tci_link link;
    tci_wake own;
    tci_wake *word; /* what the waiter waits on */
};

tci_turns *tci_turns_new(void)
{
    tci_turns *t = tci_new(tci_turns);
    uint64_t seed;
    if (t == NULL)
        return NULL;
    tci_random_bytes(&seed, sizeof seed);
    tci_mutex_init(&t->lock);
    tci_map_init(&t->queues, seed);
    return t;
}

void tci_turns_free(tci_turns *t)
{
    if (t == NULL)
        return;
    tci_map_done(&t->queues);
    tci_mutex_done(&t->lock);
    tci_free(t);
}

/* With the lock. */
static queue *queue_of(tci_turns *t, tc_str key, tc_err *err)
{
    queue *q = tci_map_get(&t->queues, key);
    if (q != NULL)
        return q;
    q = tci_mem_alloc(sizeof *q + key.len);
    if (q == NULL) {
        (void)tci_err_no_memory(err); /* told by NULL */
        return NULL;
    }
    memcpy(q->text, key.ptr, key.len);
    q->key = tci_str_of(q->text, key.len);
    tci_list_init(&q->members);
    if (tci_map_put(&t->queues, q->key, q, err) < 0) {
        tci_mem_free(q);
        return NULL;
    }
    return q;
}

int tci_turns_join(tci_turns *t, tc_str key, tc_file_turn **ret_turn, tc_err *err)
{
    tc_file_turn *turn = tci_new(tc_file_turn);
    if (turn == NULL)
        return tci_err_no_memory(err);
    turn->turns = t;
    turn->word = &turn->own;
    tci_mutex_lock(&t->lock);
    turn->queue = queue_of(t, key, err);
    if (turn->queue != NULL)
        tci_list_push_back(&turn->queue->members, &turn->link);
    tci_mutex_unlock(&t->lock);
    if (turn->queue == NULL) {
        tci_free(turn);
        return err->code;
    }
    *ret_turn = turn;
    return 0;
}

/* With the lock. */
static bool has_turn(const tc_file_turn *turn)
{
    return tci_list_first(&turn->queue->members) == &turn->link;
}

void tc_file_turn_end(tc_file_turn *turn)
{
    if (turn == NULL)
        return;
    tci_turns *t = turn->turns;
    queue *q = turn->queue;
    tci_mutex_lock(&t->lock);
    bool was_first = has_turn(turn);
    tci_link_remove(&turn->link);
    tci_link *next = tci_list_first(&q->members);
    if (next == NULL) {
        tci_map_remove(&t->queues, q->key);
        tci_mem_free(q);
    } else if (was_first) {
        tci_wake_all(TCI_CONTAINER(next, tc_file_turn, link)->word);
    }
    tci_mutex_unlock(&t->lock);
    tci_free(turn);
}

int tci_turn_wait(tc_file_turn *turn, tc_ctx *ctx, tc_err *err)
{
    tci_turns *t = turn->turns;
    int rc = 0;
    tci_mutex_lock(&t->lock);
    if (ctx != NULL)
        turn->word = tci_ctx_wake(ctx); /* one word for both: whose turn it is, and cancelling */
    while (rc == 0 && !has_turn(turn)) {
        unsigned seen = tci_wake_count(turn->word);
        tci_mutex_unlock(&t->lock);
        rc = tci_ctx_check(ctx, err);
        if (rc == 0)
            tci_wake_wait(turn->word, seen, tci_ctx_deadline_ns(ctx));
        tci_mutex_lock(&t->lock);
    }
    turn->word = &turn->own; /* the context may go before the turn does */
    tci_mutex_unlock(&t->lock);
    if (rc < 0)
        tc_file_turn_end(turn);
    return rc;
}

/* Without the last component; empty at a root. */
static tc_str parent_of(tc_str path)
{
    size_t at = path.len;
    while (at > 0 && path.ptr[at - 1] != '/' && path.ptr[at - 1] != '\\')
        at--;
    while (at > 1 && (path.ptr[at - 1] == '/' || path.ptr[at - 1] == '\\'))
        at--;
    return at < path.len ? tci_str_sub(path, 0, at) : (tc_str){0};
}

int tci_turn_key(tc_env *env, const tc_call *call, tc_str path, tc_str *ret_key, tc_err *err)
{
    tc_str at = path, found = path;
    size_t rest = path.len;
    tc_call c = *call;
    c.operation_id = (tc_str){0};
    while (tc_env_canonical_path(env, &c, at, &found, err) < 0) {
        tc_env_error why = tc_result_evidence(call->result)->env_error;
        tc_str parent = parent_of(at);
        if (why != TC_ENV_NOT_SUPPORTED && why != TC_ENV_NOT_FOUND)
            return err->code;
        if (why == TC_ENV_NOT_SUPPORTED || parent.len == 0) {
            found = path;
            rest = path.len;
            break;
        }
        at = parent;
        rest = parent.len;
    }
    tc_str id = tc_env_files_id(env), tail = tci_str_sub(path, rest, path.len);
    char *text = tci_result_bytes(call->result, id.len + 1 + found.len + tail.len);
    if (text == NULL)
        return tci_err_no_memory(err);
    memcpy(text, id.ptr, id.len);
    text[id.len] = '\0';
    memcpy(text + id.len + 1, found.ptr, found.len);
    if (tail.len > 0)
        memcpy(text + id.len + 1 + found.len, tail.ptr, tail.len);
    *ret_key = tci_str_of(text, id.len + 1 + found.len + tail.len);
    return 0;
}
