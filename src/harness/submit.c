/* SPDX-License-Identifier: Apache-2.0
 *
 * Admits submissions, waits for them and takes them back. Leaves placing what is queued to inbox.c and
 * answering to the generation. Any thread; admission on the line. Invariant: whatever is queued could
 * be placed: drafts are checked when they are admitted. */
#include "harness/submit.h"
#include "base/json.h"
#include "harness/conversation.h"
#include "harness/inbox.h"
#include "harness/generation/live.h"
#include "harness/view.h"

/* ---- checks ---- */

static bool is_message(const tci_json *v)
{
    tc_str role;
    return v->kind == TCI_JSON_OBJECT && tci_json_as_str(tci_json_get(v, TC_STR("role")), &role) &&
           role.len > 0;
}

static bool are_messages(const tci_json *v)
{
    if (v == NULL || v->kind != TCI_JSON_ARRAY)
        return false;
    for (uint32_t i = 0; i < v->count; i++) {
        if (!is_message(&v->u.items[i]))
            return false;
    }
    return true;
}

static bool are_edits(const tci_json *v)
{
    if (v->kind != TCI_JSON_ARRAY)
        return false;
    for (uint32_t i = 0; i < v->count; i++) {
        const tci_json *e = &v->u.items[i];
        uint64_t target;
        tc_str action;
        if (!tci_json_as_id(tci_json_get(e, TC_STR("target")), &target) ||
            !tci_json_as_str(tci_json_get(e, TC_STR("action")), &action))
            return false;
        bool is_omit = tci_str_eq(action, TC_STR("omit")) && e->count == 2;
        bool is_replace = tci_str_eq(action, TC_STR("replace")) && e->count == 3 &&
                          are_messages(tci_json_get(e, TC_STR("messages")));
        if (!is_omit && !is_replace)
            return false;
    }
    return true;
}

static bool is_head(const tci_json *v)
{
    uint64_t id;
    tc_str text;
    return tci_json_as_id(v, &id) ||
           (tci_json_as_str(v, &text) && tci_str_eq(text, TC_STR("self")));
}

static int check_draft(const tci_json *draft, tc_err *err)
{
    tc_str kind;
    if (draft->kind != TCI_JSON_OBJECT ||
        !tci_json_as_str(tci_json_get(draft, TC_STR("kind")), &kind) || kind.len == 0)
        return tc_err_set(err, TC_E_INVALID, "an entry is an object with a kind");
    for (uint32_t i = 0; i < draft->count; i++) {
        tc_str key = draft->u.members[i].key;
        const tci_json *v = &draft->u.members[i].value;
        bool is_fine = tci_str_eq(key, TC_STR("kind")) || tci_str_eq(key, TC_STR("data"));
        if (tci_str_eq(key, TC_STR("model")))
            is_fine = are_messages(v);
        else if (tci_str_eq(key, TC_STR("head")))
            is_fine = is_head(v);
        else if (tci_str_eq(key, TC_STR("edits")))
            is_fine = are_edits(v);
        if (!is_fine)
            return tc_err_set(err, TC_E_INVALID,
                              "entry field '%.*s' is unknown or has a wrong value",
                              TC_STR_ARG(key));
    }
    return 0;
}

static int check_input_entry(const tci_json *entry, tc_err *err)
{
    tc_str kind;
    if (entry->kind != TCI_JSON_OBJECT ||
        !tci_json_as_str(tci_json_get(entry, TC_STR("kind")), &kind) || kind.len == 0 ||
        tci_str_starts(kind, TC_STR("pi.")))
        return tc_err_set(err, TC_E_INVALID,
                          "an input's entry needs a kind that does not start with 'pi.'");
    return 0;
}

static bool is_content_item(const tci_json *v)
{
    tc_str type, text;
    if (!tci_json_as_str(tci_json_get(v, TC_STR("type")), &type))
        return false;
    if (tci_str_eq(type, TC_STR("text")))
        return tci_json_as_str(tci_json_get(v, TC_STR("text")), &text);
    return tci_str_eq(type, TC_STR("image")) &&
           tci_json_as_str(tci_json_get(v, TC_STR("data")), &text) &&
           tci_json_as_str(tci_json_get(v, TC_STR("mimeType")), &text);
}

static int check_content(const tci_json *v, tc_err *err)
{
    bool is_fine = v->kind == TCI_JSON_STRING || v->kind == TCI_JSON_ARRAY;
    for (uint32_t i = 0; v->kind == TCI_JSON_ARRAY && i < v->count; i++)
        is_fine = is_fine && is_content_item(&v->u.items[i]);
    if (!is_fine)
        return tc_err_set(err, TC_E_INVALID,
                          "an input's content is a string or an array of text and image items");
    return 0;
}

/* ---- admission ---- */

typedef struct admission {
    tc_harness *h;
    tc_tx *tx;
    uint64_t conversation;
    const tci_submit *submit;
    int64_t now_ms;
    tc_result *r;
    const tci_json *entry; /* parsed; NULL: none */
    bool is_display_only;
} admission;

static int check(admission *ad, tc_err *err)
{
    const tci_json *v;
    tc_str record;
    if (ad->submit->entry.len > 0 && tci_parse(ad->r, ad->submit->entry, &ad->entry, err) < 0)
        return tc_err_recode(err, TC_E_INVALID);
    if (ad->submit->is_write) {
        if (ad->entry == NULL)
            return tc_err_set(err, TC_E_INVALID, "a write needs an entry");
        if (check_draft(ad->entry, err) < 0)
            return err->code;
        ad->is_display_only = tci_json_get(ad->entry, TC_STR("model")) == NULL &&
                              tci_json_get(ad->entry, TC_STR("head")) == NULL &&
                              tci_json_get(ad->entry, TC_STR("edits")) == NULL;
    } else {
        if (tci_parse(ad->r, ad->submit->content, &v, err) < 0)
            return tc_err_recode(err, TC_E_INVALID);
        if (check_content(v, err) < 0 ||
            (ad->entry != NULL && check_input_entry(ad->entry, err) < 0))
            return err->code;
    }
    if (tc_tx_conversation(ad->tx, ad->conversation, ad->r, &record, err) < 0)
        return err->code;
    if (record.len == 0)
        return tc_err_set(err, TC_E_NOT_FOUND, "no conversation %llu",
                          (unsigned long long)ad->conversation);
    return 0;
}

/* The submission that came with this request id before; 0: none. */
static int find_earlier(admission *ad, uint64_t *ret_id, tc_err *err)
{
    tc_str record, type;
    const tci_json *v;
    *ret_id = 0;
    if (ad->submit->request_id.len == 0)
        return 0;
    if (tc_tx_submission_by_request(ad->tx, ad->conversation, ad->submit->request_id, ad->r,
                                    &record, err) < 0)
        return err->code;
    if (record.len == 0)
        return 0;
    if (tci_parse(ad->r, record, &v, err) < 0)
        return err->code;
    if (!tci_json_as_str(tci_json_get(v, TC_STR("type")), &type) ||
        tci_str_eq(type, TC_STR("write")) != ad->submit->is_write)
        return tc_err_set(err, TC_E_CONFLICT, "request '%.*s' is a submission of another type",
                          TC_STR_ARG(ad->submit->request_id));
    if (!tci_json_as_id(tci_json_get(v, TC_STR("id")), ret_id))
        return tc_err_set(err, TC_E_INTERNAL, "submission without an id");
    return 0;
}

/* entry 0: none; reason empty: none. */
static int create(admission *ad, const char *status, uint64_t entry, const char *reason,
                  uint64_t *ret_id, tc_err *err)
{
    tci_buf b;
    bool first = true;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_buf_append_byte(&b, '{');
    if (ad->submit->request_id.len > 0)
        tci_put_str_member(&b, &first, TC_STR("requestId"), ad->submit->request_id);
    tci_put_str_member(&b, &first, TC_STR("type"),
                       ad->submit->is_write ? TC_STR("write") : TC_STR("input"));
    tci_put_str_member(&b, &first, TC_STR("status"), tci_str(status));
    if (entry != 0)
        tci_put_u64_member(&b, &first, TC_STR("entry"), entry);
    if (reason[0] != '\0')
        tci_put_str_member(&b, &first, TC_STR("reason"), tci_str(reason));
    tci_buf_append_byte(&b, '}');
    int rc = tci_buf_error(&b, err);
    if (rc == 0)
        rc = tc_tx_create_submission(ad->tx, ad->conversation, tci_buf_str(&b), ret_id, err);
    tci_buf_done(&b);
    return rc;
}

static int place_write(admission *ad, uint64_t *ret_id, tc_err *err)
{
    uint64_t entry;
    if (tc_tx_append_entry(ad->tx, ad->conversation, ad->submit->entry, &entry, err) < 0)
        return err->code;
    return create(ad, "done", entry, "", ret_id, err);
}

static int place_input(admission *ad, tc_doc *live, uint64_t *ret_id, tc_err *err)
{
    uint64_t entry;
    if (tci_append_input(ad->tx, ad->conversation, ad->submit->content, ad->submit->entry,
                         ad->now_ms, &entry, err) < 0 ||
        create(ad, "placed", entry, "", ret_id, err) < 0)
        return err->code;
    return tci_live_start_run(ad->h, ad->tx, live, ad->conversation, ret_id, 1, err);
}

static void put_item(admission *ad, tci_buf *b, uint64_t id)
{
    bool first = true;
    const char *mode = ad->submit->is_write                          ? "write"
                       : ad->submit->when_busy == TC_WHEN_BUSY_STEER ? "steer"
                                                                     : "followUp";
    tci_buf_append_byte(b, '{');
    tci_put_u64_member(b, &first, TC_STR("id"), id);
    tci_put_str_member(b, &first, TC_STR("mode"), tci_str(mode));
    if (!ad->submit->is_write)
        tci_put_raw_member(b, &first, TC_STR("content"), ad->submit->content);
    if (ad->submit->is_write) {
        tci_put_raw_member(b, &first, TC_STR("entry"), ad->submit->entry);
    } else if (ad->entry != NULL) {
        const tci_json *data = tci_json_get(ad->entry, TC_STR("data"));
        tci_buf_append_str(b, TC_STR(",\"entry\":{\"kind\":"));
        tci_json_put(b, tci_json_get(ad->entry, TC_STR("kind")), TCI_JSON_AS_IS);
        if (data != NULL) {
            tci_buf_append_str(b, TC_STR(",\"data\":"));
            tci_json_put(b, data, TCI_JSON_AS_IS);
        }
        tci_buf_append_byte(b, '}');
    }
    tci_buf_append_byte(b, '}');
}

static int queue(admission *ad, tc_doc *inbox, uint64_t *ret_id, tc_err *err)
{
    tci_buf b;
    if (create(ad, "queued", 0, "", ret_id, err) < 0)
        return err->code;
    tci_buf_init(&b, TCI_BUF_MAX);
    put_item(ad, &b, *ret_id);
    int rc = tci_buf_error(&b, err);
    if (rc == 0)
        rc = tci_inbox_add(inbox, tci_buf_str(&b), err);
    tci_buf_done(&b);
    return rc;
}

/* Nobody runs, but something waits: it is placed with the others. */
static int queue_and_place(admission *ad, tc_doc *live, tci_boundary *boundary, uint64_t *ret_id,
                           tc_err *err)
{
    tci_placed placed;
    if (queue(ad, boundary->inbox, ret_id, err) < 0)
        return err->code;
    if (ad->is_display_only)
        return 0;
    if (tci_boundary_apply(ad->tx, boundary, true, ad->now_ms, &placed, err) < 0)
        return err->code;
    return placed.nusers == 0 ? 0
                              : tci_live_start_run(ad->h, ad->tx, live, ad->conversation,
                                                   placed.users, placed.nusers, err);
}

static int admit(admission *ad, uint64_t *ret_id, tc_err *err)
{
    tc_doc *live, *inbox;
    tci_boundary boundary;
    uint64_t running;
    if (ad->is_display_only) {
        if (tci_doc_of(ad->tx, &tci_inbox_doc, ad->conversation, &inbox, err) < 0)
            return err->code;
        if (!tci_inbox_has_reset(tc_doc_value(inbox)))
            return place_write(ad, ret_id, err);
    }
    if (tci_doc_of(ad->tx, &tci_live_doc, ad->conversation, &live, err) < 0)
        return err->code;
    bool is_busy = tci_live_run(tc_doc_value(live), &running);
    if (is_busy && !ad->submit->is_write && ad->submit->when_busy == TC_WHEN_BUSY_REJECT)
        return tc_err_set(err, TC_E_BUSY, "conversation %llu is busy",
                          (unsigned long long)ad->conversation);
    if (is_busy) {
        if (tci_doc_of(ad->tx, &tci_inbox_doc, ad->conversation, &inbox, err) < 0)
            return err->code;
        return queue(ad, inbox, ret_id, err);
    }
    if (tci_boundary_prepare(ad->h, ad->tx, ad->conversation, &boundary, err) < 0)
        return err->code;
    if (tci_inbox_count(tc_doc_value(boundary.inbox)) > 0)
        return queue_and_place(ad, live, &boundary, ret_id, err);
    if (!ad->submit->is_write)
        return place_input(ad, live, ret_id, err);
    if (tci_is_stale(&boundary, ad->entry))
        return create(ad, "unanswered", 0, "stale", ret_id, err);
    return place_write(ad, ret_id, err);
}

int tci_submit_admit(tc_harness *h, tc_tx *tx, uint64_t conversation, const tci_submit *submit,
                     int64_t now_ms, uint64_t *ret_id, tc_err *err)
{
    admission ad = {
        .h = h, .tx = tx, .conversation = conversation, .submit = submit, .now_ms = now_ms};
    uint64_t id;
    if (tc_result_new(&ad.r, err) < 0)
        return err->code;
    int rc = check(&ad, err);
    if (rc == 0)
        rc = find_earlier(&ad, &id, err);
    if (rc == 0 && id == 0)
        rc = admit(&ad, &id, err);
    tc_result_free(ad.r);
    if (rc == 0)
        *ret_id = id;
    return rc;
}

/* by: on whose behalf; NULL: nobody's. */
static int begin(tc_harness *h, const tc_bound *by, tc_ctx *ctx, tc_tx **ret_tx, tc_err *err)
{
    return by != NULL ? tci_bound_begin(by, ctx, ret_tx, err)
                      : tc_durable_begin(tci_harness_session(h), ctx, ret_tx, err);
}

static int submit_now(tc_harness *h, const tc_bound *by, tc_ctx *ctx, uint64_t conversation,
                      const tci_submit *submit, uint64_t *ret_id, tc_err *err)
{
    tc_tx *tx;
    uint64_t id;
    if (tci_harness_enable(h, err) < 0 || begin(h, by, ctx, &tx, err) < 0)
        return err->code;
    if (tci_submit_admit(h, tx, conversation, submit, tc_harness_now(h), &id, err) < 0) {
        tc_tx_rollback(tx);
        return err->code;
    }
    if (tc_tx_commit(tx, err) < 0)
        return err->code;
    *ret_id = id;
    return 0;
}

int tci_submit_now(tc_harness *h, tc_ctx *ctx, uint64_t conversation, const tci_submit *submit,
                   uint64_t *ret_id, tc_err *err)
{
    return submit_now(h, NULL, ctx, conversation, submit, ret_id, err);
}

/* ---- the public calls ---- */

static int submit_input(tc_harness *h, const tc_bound *by, tc_ctx *ctx, uint64_t id,
                        const tc_user_input *input, uint64_t *ret_submission, tc_err *err)
{
    tci_submit submit = {
        .content = input->content, .request_id = input->request_id, .when_busy = input->when_busy};
    tci_buf content, entry;
    bool first = true;
    tci_buf_init(&content, TCI_BUF_MAX);
    tci_buf_init(&entry, TCI_BUF_MAX);
    int rc = 0;
    if (input->content.len == 0) {
        tci_json_put_str(&content, input->text);
        rc = tci_buf_error(&content, err);
        submit.content = tci_buf_str(&content);
    } else if (input->text.len > 0) {
        rc = tc_err_set(err, TC_E_INVALID, "an input has a text or a content, not both");
    }
    if (rc == 0 && input->entry_kind.len > 0) {
        tci_buf_append_byte(&entry, '{');
        tci_put_str_member(&entry, &first, TC_STR("kind"), input->entry_kind);
        if (input->entry_data.len > 0)
            tci_put_raw_member(&entry, &first, TC_STR("data"), input->entry_data);
        tci_buf_append_byte(&entry, '}');
        rc = tci_buf_error(&entry, err);
        submit.entry = tci_buf_str(&entry);
    }
    if (rc == 0)
        rc = submit_now(h, by, ctx, id, &submit, ret_submission, err);
    tci_buf_done(&content);
    tci_buf_done(&entry);
    return rc;
}

int tc_conversation_submit(struct tc_harness *h, tc_ctx *ctx, uint64_t id,
                           const tc_user_input *input, uint64_t *ret_submission, tc_err *err)
{
    return submit_input(h, NULL, ctx, id, input, ret_submission, err);
}

int tc_bound_submit(const tc_bound *c, tc_ctx *ctx, const tc_user_input *input,
                    uint64_t *ret_submission, tc_err *err)
{
    return submit_input(c->harness, c, ctx, c->conversation, input, ret_submission, err);
}

int tc_conversation_write(struct tc_harness *h, tc_ctx *ctx, uint64_t id, tc_str entry,
                          tc_str request_id, uint64_t *ret_submission, tc_err *err)
{
    const tci_submit submit = {.is_write = true, .entry = entry, .request_id = request_id};
    return tci_submit_now(h, ctx, id, &submit, ret_submission, err);
}

int tc_conversation_reset(struct tc_harness *h, tc_ctx *ctx, uint64_t id, tc_str handoff,
                          uint64_t *ret_submission, tc_err *err)
{
    tci_buf b;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_buf_append_str(&b, TC_STR("{\"kind\":\"pi.reset\",\"head\":\"self\""));
    if (handoff.len > 0) {
        tci_buf_append_str(&b, TC_STR(",\"model\":[{\"role\":\"user\",\"content\":"));
        tci_json_put_str(&b, handoff);
        tci_buf_append_str(&b, TC_STR(",\"timestamp\":"));
        tci_buf_append_i64(&b, tc_harness_now(h));
        tci_buf_append_str(&b, TC_STR("}]"));
    }
    tci_buf_append_byte(&b, '}');
    int rc = tci_buf_error(&b, err);
    if (rc == 0)
        rc = tc_conversation_write(h, ctx, id, tci_buf_str(&b), (tc_str){NULL, 0}, ret_submission,
                                   err);
    tci_buf_done(&b);
    return rc;
}

static int read_submission(tc_harness *h, tc_result *r, uint64_t id, tc_submission *ret,
                           tc_err *err)
{
    tc_str record;
    tci_submission s;
    const tci_json *v;
    if (tc_durable_submission(tci_harness_session(h), id, r, &record, err) < 0)
        return err->code;
    if (record.len == 0)
        return tc_err_set(err, TC_E_NOT_FOUND, "no submission %llu", (unsigned long long)id);
    if (tci_parse(r, record, &v, err) < 0 || tci_submission_of(v, record, &s, err) < 0)
        return err->code;
    *ret = (tc_submission){.id = s.id,
                           .conversation = s.conversation_id,
                           .is_write = s.type == TCI_SUBMISSION_WRITE,
                           .status = (tc_submission_status)s.status,
                           .entry = s.entry,
                           .answer = s.answer,
                           .request_id = s.request_id,
                           .reason = s.reason,
                           .record = record};
    const tci_json *detail = tci_json_get(v, TC_STR("detail"));
    return detail == NULL ? 0 : tc_json_text(detail, r, &ret->detail, err);
}

int tc_submission_get(struct tc_harness *h, const tc_call *call, uint64_t id,
                      tc_submission *ret_submission, tc_err *err)
{
    return read_submission(h, call->result, id, ret_submission, err);
}

static void add_waiter(tci_run *run, tci_answer_waiter *w)
{
    tci_mutex_lock(&run->lock);
    w->next = run->waiters;
    run->waiters = w;
    tci_mutex_unlock(&run->lock);
}

static void remove_waiter(tci_run *run, const tci_answer_waiter *w)
{
    tci_mutex_lock(&run->lock);
    for (tci_answer_waiter **at = &run->waiters; *at != NULL; at = &(*at)->next) {
        if (*at == w) {
            *at = w->next;
            break;
        }
    }
    tci_mutex_unlock(&run->lock);
}

static bool is_settled(const tc_submission *s)
{
    return s->status == TC_SUBMISSION_DONE || s->status == TC_SUBMISSION_UNANSWERED;
}

/* mark: of the task on whose behalf, which goes on after a close; NULL: nobody's. */
static int wait_settled(tc_harness *h, tc_ctx *ctx, tci_answer_waiter *w, const tci_waiter *mark,
                        tc_result *r, tc_submission *ret, tc_err *err)
{
    tci_run *run = tci_run_of(h);
    for (;;) {
        tc_submission s;
        unsigned seen = tci_wake_count(w->wake);
        bool was_over = atomic_load(&run->is_over);
        int rc = read_submission(h, r, w->submission, &s, err);
        /* First: what is below a task that is to end is settled by that. */
        if (rc == 0 && mark != NULL && tci_waiter_check(h, mark, err) < 0)
            return err->code;
        if (rc == 0 && is_settled(&s)) {
            *ret = s;
            return 0;
        }
        if (was_over || rc == TC_E_CLOSED) {
            rc = tci_harness_closed_error(h, err);
            return mark != NULL && rc == TC_E_CLOSED ? tc_err_recode(err, TC_E_CANCELLED) : rc;
        }
        if (rc < 0 || tci_ctx_check(ctx, err) < 0)
            return err->code;
        tci_wake_wait(w->wake, seen, tci_ctx_deadline_ns(ctx));
    }
}

int tc_submission_wait(struct tc_harness *h, const tc_call *call, uint64_t id,
                       tc_submission *ret_submission, tc_err *err)
{
    tci_wake own = {0};
    tci_wake *of_ctx = tci_ctx_wake(call->ctx);
    tci_answer_waiter w = {.submission = id, .wake = of_ctx != NULL ? of_ctx : &own};
    if (tci_harness_enable(h, err) < 0)
        return err->code;
    tc_task *parked = tci_harness_park_here(h);
    add_waiter(tci_run_of(h), &w);
    int rc = wait_settled(h, call->ctx, &w, NULL, call->result, ret_submission, err);
    remove_waiter(tci_run_of(h), &w);
    tci_harness_unpark_here(parked);
    return rc;
}

/* Of this conversation, and not of a run that waits for who asks. */
static int check_wait(const tc_bound *c, tc_result *r, uint64_t id, tc_err *err)
{
    tc_harness *h = c->harness;
    tc_submission s;
    uint64_t run = 0, doc;
    if (tci_durable_enter(tci_harness_session(h), err) < 0)
        return err->code;
    int rc = read_submission(h, r, id, &s, err);
    if (rc == 0 && s.conversation != c->conversation)
        rc = tc_err_set(err, TC_E_NOT_FOUND, "conversation %llu has no submission %llu",
                        (unsigned long long)c->conversation, (unsigned long long)id);
    if (rc == 0 && !is_settled(&s) &&
        tci_live_run(tci_view_doc(tci_run_of(h), &tci_live_doc, c->conversation, &doc), &run) &&
        tci_bound_is_awaited_by(c, run))
        rc = tc_err_set(
            err, TC_E_CONFLICT,
            "conversation %llu answers submission %llu after task %llu, which would wait "
            "for ever",
            (unsigned long long)c->conversation, (unsigned long long)id,
            (unsigned long long)c->task);
    tci_durable_leave(tci_harness_session(h));
    return rc;
}

int tc_bound_wait(const tc_bound *c, const tc_call *call, uint64_t submission,
                  tc_submission *ret_submission, tc_err *err)
{
    tc_harness *h = c->harness;
    tci_waiter mark;
    tci_waiter_init(&mark, call->ctx);
    tci_answer_waiter w = {.submission = submission, .wake = mark.word};
    if (tci_durable_has_line(tci_harness_session(h)))
        return tc_err_set(err, TC_E_CONFLICT, "nothing can be waited for inside a transaction");
    if (tci_bound_join(c, &mark, err) < 0)
        return err->code;
    int rc = check_wait(c, call->result, submission, err);
    if (rc == 0) {
        tc_task *parked = tci_bound_park(c);
        add_waiter(tci_run_of(h), &w);
        rc = wait_settled(h, call->ctx, &w, &mark, call->result, ret_submission, err);
        remove_waiter(tci_run_of(h), &w);
        tci_harness_unpark_here(parked);
    }
    tci_waiter_leave(h, &mark);
    return rc;
}

/* conversation 0: any. */
static int withdraw(tc_harness *h, const tc_bound *by, tc_ctx *ctx, uint64_t conversation,
                    uint64_t id, tc_abort_answer *ret_answer, tc_err *err)
{
    static const tc_settlement aborted = {.reason = {"aborted", 7}};
    tc_tx *tx;
    tc_result *r;
    tc_str record;
    tc_abort_answer answer = TC_ABORT_NOT_FOUND;
    if (tc_result_new(&r, err) < 0)
        return err->code;
    if (begin(h, by, ctx, &tx, err) < 0) {
        tc_result_free(r);
        return err->code;
    }
    tci_submission s = {.id = 0};
    int rc = tc_tx_submission(tx, id, r, &record, err);
    if (rc == 0 && record.len > 0)
        rc = tci_submission_parse(record, tci_result_arena(r), &s, err);
    if (rc == 0 && s.id != 0 && (conversation == 0 || s.conversation_id == conversation)) {
        answer = s.status == TCI_SUBMISSION_PLACED ? TC_ABORT_ALREADY_PLACED : TC_ABORT_SETTLED;
        if (s.status == TCI_SUBMISSION_QUEUED) {
            answer = TC_ABORT_ABORTED;
            rc = tc_tx_settle_submission(tx, id, &aborted, err);
            if (rc == 0)
                rc = tci_inbox_remove(tx, s.conversation_id, id, err);
        }
    }
    if (rc == 0)
        rc = tc_tx_commit(tx, err);
    else
        tc_tx_rollback(tx);
    tc_result_free(r);
    if (rc == 0)
        *ret_answer = answer;
    return rc;
}

int tc_submission_abort(struct tc_harness *h, tc_ctx *ctx, uint64_t id, tc_abort_answer *ret_answer,
                        tc_err *err)
{
    return withdraw(h, NULL, ctx, 0, id, ret_answer, err);
}

int tc_bound_withdraw(const tc_bound *c, tc_ctx *ctx, uint64_t submission,
                      tc_abort_answer *ret_answer, tc_err *err)
{
    return withdraw(c->harness, c, ctx, c->conversation, submission, ret_answer, err);
}
