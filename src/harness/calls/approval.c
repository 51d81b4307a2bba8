/* SPDX-License-Identifier: Apache-2.0
 *
 * Asking before a tool runs. A request is a document of the call's task, so it is there before anybody
 * sees it, survives restarts, and goes with the call. Waiting is done inside the phase "call", which runs
 * again after a restart and finds the same request. The gate: the task's thread, off the line. Listing and
 * answering: any thread.
 *
 * To keep: an answer counts only for the digest it was given for, and only the first one counts. */
#include "harness/calls/approval.h"

#include "base/hash.h"
#include "base/num.h"
#include "plat/clock.h"

enum { NONCE_BYTES = 4, PAGE = 100 };

const tc_doc_def tci_approval_doc = {
    .size = sizeof(tc_doc_def), .kind = "tc.approval", .version = 1, .scope = TC_SCOPE_TASK};

typedef struct gate {
    tc_extension extension; /* first: tc_tools_free knows it by its user */
    tc_hooks hooks;
    tc_strs free_tools;
} gate;

static const tc_str state_names[] = {{"pending", 7}, {"granted", 7}, {"refused", 7}};

static tc_approval_state state_of(const tc_json *request)
{
    tc_str name = {0};
    (void)tc_json_as_str(tc_json_get(request, TC_STR("state")), &name); /* else pending */
    for (size_t i = 0; i < TCI_ARRAY_LEN(state_names); i++)
        if (tci_str_eq(name, state_names[i]))
            return (tc_approval_state)i;
    return TC_APPROVAL_PENDING;
}

/* Of the tool and its arguments, members in order, numbers as written. */
static int digest_of(tc_result *r, tc_str tool, tc_str arguments, tc_str *ret, tc_err *err)
{
    const tci_json *v;
    uint8_t hash[TCI_SHA256_BYTES];
    char hex[TCI_SHA256_HEX];
    tci_buf b;
    if (tci_parse(r, arguments, &v, err) < 0)
        return err->code;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_json_put_str(&b, tool);
    tci_json_put(&b, v, TCI_JSON_SORTED);
    int rc = tci_buf_error(&b, err);
    if (rc == 0) {
        tci_sha256_of(tci_buf_str(&b), hash);
        tci_hex(hash, sizeof hash, hex);
        rc = tc_result_dup(r, tci_str_of(hex, sizeof hex), ret, err);
    }
    tci_buf_done(&b);
    return rc;
}

/* ---- the gate ---- */

typedef struct request {
    tc_task *t;
    tc_result *r;
    tc_str call_id, tool, arguments, digest;
    tc_err *err;
} request;

static int put_request(request *q, tc_doc *doc)
{
    const tc_task_info *info = tc_task_current(q->t);
    uint8_t nonce[NONCE_BYTES];
    char hex[2 * NONCE_BYTES];
    tc_str id;
    tci_buf b;
    bool first = true;
    tci_random_bytes(nonce, sizeof nonce);
    tci_hex(nonce, sizeof nonce, hex);
    if (tci_result_printf(q->r, &id, q->err, "%llu-%.*s", (unsigned long long)info->id,
                          (int)sizeof hex, hex) < 0)
        return q->err->code;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_buf_append_byte(&b, '{');
    tci_put_str_member(&b, &first, TC_STR("requestId"), id);
    tci_put_str_member(&b, &first, TC_STR("callId"), q->call_id);
    tci_put_str_member(&b, &first, TC_STR("tool"), q->tool);
    tci_put_raw_member(&b, &first, TC_STR("arguments"), q->arguments);
    tci_put_str_member(&b, &first, TC_STR("digest"), q->digest);
    tci_put_i64_member(&b, &first, TC_STR("askedAt"), tc_task_now(q->t));
    tci_put_str_member(&b, &first, TC_STR("state"), state_names[TC_APPROVAL_PENDING]);
    tci_buf_append_byte(&b, '}');
    int rc = tci_buf_error(&b, q->err);
    if (rc == 0)
        rc = tc_doc_replace(doc, tci_buf_str(&b), q->err);
    tci_buf_done(&b);
    return rc;
}

/* The request, made unless an earlier start of this call did. */
static int commit_request(request *q)
{
    tc_tx *tx;
    tc_doc *doc;
    tc_next stay = {.kind = TC_NEXT_STAY};
    if (tc_task_begin(q->t, &tx, NULL, q->err) < 0)
        return q->err->code;
    int rc = tc_tx_doc(tx, &tci_approval_doc, tc_task_current(q->t)->id, (tc_str){0}, (tc_str){0},
                       &doc, q->err);
    if (rc == 0 && tc_doc_is_new(doc))
        rc = put_request(q, doc);
    if (rc < 0) {
        tc_tx_rollback(tx);
        return rc;
    }
    return tc_task_commit(q->t, tx, &stay, q->err);
}

static int decide(request *q, const tc_json *v, tc_approval_state state, tc_str *ret_block)
{
    tc_str digest = {0}, reason = {0};
    (void)tc_json_as_str(tc_json_get(v, TC_STR("digest")), &digest); /* else it is another */
    (void)tc_json_as_str(tc_json_get(v, TC_STR("reason")), &reason); /* none was given */
    if (!tci_str_eq(digest, q->digest))
        return tc_result_dup(q->r,
                             TC_STR("the arguments are not those that approval was asked for"),
                             ret_block, q->err);
    if (state == TC_APPROVAL_GRANTED)
        return 0;
    return tci_result_printf(q->r, ret_block, q->err, "approval was refused%s%.*s",
                             reason.len > 0 ? ": " : "", TC_STR_ARG(reason));
}

/* Until it is answered, however long that takes. */
static int await_answer(request *q, tc_str *ret_block)
{
    tc_doc_addr addr = {&tci_approval_doc, tc_task_current(q->t)->id, {NULL, 0}};
    tc_watch *watch;
    tc_frame frame;
    if (tc_durable_watch(tci_harness_session(tc_task_harness(q->t)), &addr, &watch, q->err) < 0)
        return q->err->code;
    if (watch == NULL)
        return tc_err_set(q->err, TC_E_INTERNAL, "the request for approval is gone");
    const tc_json *v = tc_watch_value(watch);
    int rc = 0;
    tci_task_park(q->t);
    while (rc == 0 && v != NULL && state_of(v) == TC_APPROVAL_PENDING) {
        rc = tc_watch_next(watch, tc_task_ctx(q->t), &frame, q->err);
        v = rc == 0 ? frame.value : NULL;
    }
    tci_task_unpark(q->t);
    if (rc == 0 && v == NULL)
        rc = tc_err_set(q->err, TC_E_CANCELLED, "the request for approval has ended");
    if (rc == 0)
        rc = decide(q, v, state_of(v), ret_block);
    tc_watch_free(watch);
    return rc;
}

static bool is_free(const gate *g, tc_str tool)
{
    for (size_t i = 0; i < g->free_tools.count; i++)
        if (tci_str_eq(g->free_tools.items[i], tool))
            return true;
    return false;
}

static int before_tool(void *user, tc_hook *hook, tc_str call, tc_result *r,
                       tc_tool_decision *ret_decision, tc_err *err)
{
    request q = {.t = hook->task, .r = r, .err = err};
    const tci_json *v;
    tci_buf b;
    if (tci_parse(r, call, &v, err) < 0)
        return err->code;
    (void)(tci_json_as_str(tci_json_get(v, TC_STR("name")), &q.tool) &&
           tci_json_as_str(tci_json_get(v, TC_STR("id")), &q.call_id)); /* a call has both */
    if (is_free(user, q.tool))
        return 0;
    const tci_json *arguments = tci_json_get(v, TC_STR("arguments"));
    if (arguments == NULL)
        return tc_err_set(err, TC_E_INVALID, "a call without arguments");
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_json_put(&b, arguments, TCI_JSON_AS_IS);
    if (tci_result_take(r, &b, &q.arguments, err) < 0 ||
        digest_of(r, q.tool, q.arguments, &q.digest, err) < 0 || commit_request(&q) < 0)
        return err->code;
    return await_answer(&q, &ret_decision->block);
}

bool tci_approval_is_gate(const tc_extension *extension)
{
    return extension->hooks != NULL && extension->hooks->before_tool == before_tool;
}

int tci_approval_check(tc_task *t, tc_str tool, tc_str arguments, tc_str *ret_refusal, tc_err *err)
{
    tc_doc_addr addr = {&tci_approval_doc, tc_task_current(t)->id, {NULL, 0}};
    tc_result *r = tc_task_result(t);
    tc_str text, digest, granted = {0};
    const tci_json *v;
    *ret_refusal = (tc_str){0};
    if (tc_durable_snapshot(tci_harness_session(tc_task_harness(t)), &addr, r, &text, err) < 0)
        return err->code;
    if (text.len == 0)
        return 0;
    if (tci_parse(r, text, &v, err) < 0 || digest_of(r, tool, arguments, &digest, err) < 0)
        return err->code;
    (void)tci_json_as_str(tci_json_get(v, TC_STR("digest")), &granted); /* else it is another */
    if (!tci_str_eq(granted, digest) || state_of(v) != TC_APPROVAL_GRANTED)
        *ret_refusal = TC_STR("the arguments are not those that were approved");
    return 0;
}

int tc_approval_gate_new(tc_strs free_tools, struct tc_extension **ret_extension, tc_err *err)
{
    size_t nbytes = 0;
    for (size_t i = 0; i < free_tools.count; i++)
        nbytes += free_tools.items[i].len;
    gate *g = tci_mem_alloc(sizeof *g + free_tools.count * sizeof(tc_str) + nbytes);
    if (g == NULL)
        return tci_err_no_memory(err);
    tc_str *names = (tc_str *)(void *)(g + 1);
    char *text = (char *)(names + free_tools.count);
    for (size_t i = 0; i < free_tools.count; i++) {
        names[i] = tci_str_of(text, free_tools.items[i].len);
        if (names[i].len > 0)
            memcpy(text, free_tools.items[i].ptr, names[i].len);
        text += names[i].len;
    }
    g->free_tools = (tc_strs){names, free_tools.count};
    g->hooks = (tc_hooks){.size = sizeof g->hooks, .before_tool = before_tool};
    g->extension = (tc_extension){
        .size = sizeof g->extension, .name = TC_STR("ask"), .hooks = &g->hooks, .user = g};
    *ret_extension = &g->extension;
    return 0;
}

/* ---- listing and answering ---- */

typedef struct lister {
    tc_harness *h;
    tc_result *r;
    tc_approval *items;
    size_t n, cap;
    tc_err *err;
} lister;

static int add(lister *l, const tci_json *v, const tci_task *task)
{
    tc_approval a = {.conversation_id = task->conversation_id, .task_id = task->id};
    const tci_json *arguments = tci_json_get(v, TC_STR("arguments"));
    tci_buf b;
    for (size_t i = 0; i < l->n; i++)
        if (l->items[i].task_id == task->id)
            return 0;
    if (state_of(v) != TC_APPROVAL_PENDING ||
        !tci_json_as_str(tci_json_get(v, TC_STR("requestId")), &a.request_id) ||
        !tci_json_as_str(tci_json_get(v, TC_STR("callId")), &a.call_id) ||
        !tci_json_as_str(tci_json_get(v, TC_STR("tool")), &a.tool) ||
        !tci_json_as_str(tci_json_get(v, TC_STR("digest")), &a.digest) || arguments == NULL)
        return 0;
    (void)tci_json_as_i64(tci_json_get(v, TC_STR("askedAt")), &a.asked_at_ms); /* 0: not known */
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_json_put(&b, arguments, TCI_JSON_AS_IS);
    if (tci_result_take(l->r, &b, &a.arguments, l->err) < 0)
        return l->err->code;
    if (l->n == l->cap) {
        size_t cap = l->cap == 0 ? 8 : l->cap * 2;
        tc_approval *grown = tci_arena_grow(tci_result_arena(l->r), l->items,
                                            l->cap * sizeof *grown, cap * sizeof *grown);
        if (grown == NULL)
            return tci_arena_error(tci_result_arena(l->r), l->err);
        l->items = grown;
        l->cap = cap;
    }
    size_t at = l->n++;
    for (; at > 0 && l->items[at - 1].task_id > a.task_id; at--)
        l->items[at] = l->items[at - 1];
    l->items[at] = a;
    return 0;
}

static int list_page(lister *l, const tci_task *tasks, size_t ntasks)
{
    for (size_t i = 0; i < ntasks; i++) {
        tc_doc_addr addr = {&tci_approval_doc, tasks[i].id, {NULL, 0}};
        tc_str text;
        const tci_json *v;
        if (tc_durable_snapshot(tci_harness_session(l->h), &addr, l->r, &text, l->err) < 0)
            return l->err->code;
        if (text.len > 0 && (tci_parse(l->r, text, &v, l->err) < 0 || add(l, v, &tasks[i]) < 0))
            return l->err->code;
    }
    return 0;
}

static int list_status(lister *l, tc_task_query *query)
{
    tc_page page = {.limit = PAGE};
    tci_task *tasks;
    size_t n;
    int rc;
    do {
        tci_arena a;
        tci_arena_init(&a, 0);
        rc = tci_durable_scan_tasks(tci_harness_session(l->h), query, &page, &a, &tasks, &n,
                                    &page.cursor, l->err);
        if (rc == 0)
            rc = list_page(l, tasks, n);
        tci_arena_done(&a);
    } while (rc == 0 && page.cursor.after != 0);
    return rc;
}

int tc_approval_list(struct tc_harness *h, tc_ctx *ctx, uint64_t conversation_id, tc_result *r,
                     tc_approvals *ret_approvals, tc_err *err)
{
    /* In the order tasks go: one that starts meanwhile is seen twice rather than not at all. */
    static const tc_str statuses[] = {{"pending", 7}, {"running", 7}};
    lister l = {.h = h, .r = r, .err = err};
    if (tci_ctx_check(ctx, err) < 0)
        return err->code;
    for (size_t i = 0; i < TCI_ARRAY_LEN(statuses); i++) {
        tc_task_query query = TC_TASK_QUERY_ALL;
        query.conversation = conversation_id;
        query.kind = TC_STR("pi.tool");
        query.status = statuses[i];
        if (list_status(&l, &query) < 0)
            return err->code;
    }
    *ret_approvals = (tc_approvals){l.items, l.n};
    return 0;
}

static int set_answer(tc_tx *tx, uint64_t task, tc_approval_state answer, tc_str reason,
                      tc_err *err)
{
    tc_doc *doc;
    tci_buf b;
    if (tc_tx_doc(tx, &tci_approval_doc, task, (tc_str){0}, (tc_str){0}, &doc, err) < 0)
        return err->code;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_json_put_str(&b, state_names[answer]);
    int rc = tci_buf_error(&b, err);
    if (rc == 0)
        rc = tc_doc_set(doc, TC_STR("/state"), tci_buf_str(&b), err);
    tci_buf_clear(&b);
    tci_json_put_str(&b, reason);
    if (rc == 0 && reason.len > 0)
        rc = tci_buf_error(&b, err);
    if (rc == 0 && reason.len > 0)
        rc = tc_doc_set(doc, TC_STR("/reason"), tci_buf_str(&b), err);
    tci_buf_done(&b);
    return rc;
}

static int answer_in(tc_tx *tx, tc_str request_id, uint64_t task, tc_str digest,
                     tc_approval_state answer, tc_str reason, tc_err *err)
{
    const tc_json *v;
    tc_str id = {0}, asked = {0};
    if (tc_tx_doc_value(tx, &tci_approval_doc, task, (tc_str){0}, &v, err) < 0)
        return err->code;
    (void)tc_json_as_str(tc_json_get(v, TC_STR("requestId")), &id); /* else it is another */
    (void)tc_json_as_str(tc_json_get(v, TC_STR("digest")), &asked);
    if (v == NULL || !tci_str_eq(id, request_id))
        return tc_err_set(err, TC_E_NOT_FOUND, "no request '%.*s' waits for approval",
                          TC_STR_ARG(request_id));
    if (!tci_str_eq(asked, digest))
        return tc_err_set(err, TC_E_CONFLICT,
                          "request '%.*s' has other arguments than those that were answered",
                          TC_STR_ARG(request_id));
    tc_approval_state now = state_of(v);
    if (now == answer)
        return 0;
    if (now != TC_APPROVAL_PENDING)
        return tc_err_set(err, TC_E_CONFLICT, "request '%.*s' was %.*s already",
                          TC_STR_ARG(request_id), TC_STR_ARG(state_names[now]));
    return set_answer(tx, task, answer, reason, err);
}

int tc_approval_answer(struct tc_harness *h, tc_ctx *ctx, tc_str request_id, tc_str digest,
                       bool is_granted, tc_str reason, tc_err *err)
{
    tc_tx *tx;
    uint64_t task;
    tc_err ignored;
    if (tci_num_u64(tci_str_sub(request_id, 0, tci_str_find_byte(request_id, '-')), &task,
                    &ignored) < 0)
        return tc_err_set(err, TC_E_NOT_FOUND, "no request '%.*s' waits for approval",
                          TC_STR_ARG(request_id));
    if (tc_durable_begin(tci_harness_session(h), ctx, &tx, err) < 0)
        return err->code;
    int rc = answer_in(tx, request_id, task, digest,
                       is_granted ? TC_APPROVAL_GRANTED : TC_APPROVAL_REFUSED, reason, err);
    if (rc < 0) {
        tc_tx_rollback(tx);
        return rc;
    }
    return tc_tx_commit(tx, err);
}
