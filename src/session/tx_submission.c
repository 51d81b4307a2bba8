/* SPDX-License-Identifier: Apache-2.0
 *
 * Submissions in a transaction. Leaves what they mean to the harness. The thread that has the line.
 * Invariant: changes are applied in the order they were asked for, once, when the batch is put
 * together; until then they are looked at, not staged. */
#include "session/session_int.h"

static int parse_submission(tc_tx *tx, tc_str text, tci_submission *ret, tc_err *err)
{
    int rc = tci_submission_parse(text, &tx->arena, ret, err);
    if (rc == 0)
        return 0;
    tc_err_wrap(err, "submission");
    return tc_err_recode(err, rc == TC_E_PARSE ? TC_E_INVALID : (tc_code)rc);
}

tci_submission *tci_tx_staged_submission(const tc_tx *tx, uint64_t id)
{
    for (size_t i = tx->submissions.count; i-- > 0;)
        if (tx->submissions.items[i].id == id)
            return &tx->submissions.items[i];
    return NULL;
}

static int stage(tc_tx *tx, const tci_submission *record, tc_err *err)
{
    tci_submission *staged = tci_tx_staged_submission(tx, record->id);
    if (staged == NULL) {
        int rc = TCI_VEC_ROOM(&tx->arena, &tx->submissions, err);
        if (rc < 0)
            return rc;
        staged = &tx->submissions.items[tx->submissions.count++];
    }
    *staged = *record;
    return 0;
}

static int put_fields(tc_tx *tx, const tci_json *v, uint64_t conversation, uint64_t id, tc_err *err)
{
    if (v->kind != TCI_JSON_OBJECT || tci_json_get(v, TC_STR("id")) != NULL ||
        tci_json_get(v, TC_STR("conversationId")) != NULL)
        return tc_err_set(err, TC_E_INVALID,
                          "the fields of a new submission are an object without ids");
    tci_buf *b = &tx->buf;
    tci_buf_append_str(b, TC_STR("{\"conversationId\":"));
    tci_buf_append_u64(b, conversation);
    for (uint32_t i = 0; i < v->count; i++) {
        bool is_first = false;
        tci_json_put_key(b, &is_first, v->u.members[i].key);
        tci_json_put(b, &v->u.members[i].value, TCI_JSON_AS_IS);
    }
    tci_buf_append_str(b, TC_STR(",\"id\":"));
    tci_buf_append_u64(b, id);
    tci_buf_append_byte(b, '}');
    return 0;
}

int tc_tx_create_submission(tc_tx *tx, uint64_t conversation, tc_str fields, uint64_t *ret_id,
                            tc_err *err)
{
    int rc = tci_tx_write(tx, err);
    if (rc == 0)
        rc = tci_tx_require_conversation(tx, conversation, err);
    if (rc < 0)
        return rc;
    tci_json v;
    rc = tci_json_parse(fields, TCI_JSON_DURABLE, &tx->arena, &v, err);
    if (rc < 0) {
        tc_err_wrap(err, "the fields of a new submission");
        return tc_err_recode(err, rc == TC_E_PARSE ? TC_E_INVALID : (tc_code)rc);
    }
    uint64_t id = 0;
    tc_str text = {0};
    tci_submission record;
    rc = tci_session_mint(tx->s, &id, err);
    if (rc == 0)
        rc = put_fields(tx, &v, conversation, id, err);
    if (rc == 0)
        rc = tci_tx_text(tx, &text, err);
    if (rc == 0)
        rc = parse_submission(tx, text, &record, err);
    if (rc == 0)
        rc = stage(tx, &record, err);
    if (rc == 0)
        *ret_id = id;
    return rc;
}

/* ---- changes ---- */

static int add_change(tc_tx *tx, const tci_submission_change *change, tc_err *err)
{
    int rc = tci_tx_write(tx, err);
    if (rc < 0)
        return rc;
    tci_submission_change *c = tci_arena_copy(&tx->arena, change, sizeof *change);
    if (c == NULL)
        return tci_arena_error(&tx->arena, err);
    if (tx->last_change == NULL)
        tx->changes = c;
    else
        tx->last_change->next = c;
    tx->last_change = c;
    return 0;
}

int tc_tx_place_submission(tc_tx *tx, uint64_t id, uint64_t entry, tc_err *err)
{
    if (entry == 0)
        return tc_err_set(err, TC_E_INVALID, "a submission is placed as an entry");
    tci_submission_change change = {.id = id, .is_placement = true, .entry = entry};
    return add_change(tx, &change, err);
}

int tc_tx_settle_submission(tc_tx *tx, uint64_t id, const tc_settlement *settlement, tc_err *err)
{
    tci_submission_change change = {.id = id, .settlement = {.answer = settlement->answer}};
    if (settlement->answer == 0 && settlement->reason.len == 0)
        return tc_err_set(err, TC_E_INVALID, "a submission is settled with an answer or a reason");
    int rc = tci_tx_check(tx, err);
    if (rc == 0 && settlement->detail.len > 0) {
        tci_json v;
        rc = tci_json_parse(settlement->detail, TCI_JSON_DURABLE, &tx->arena, &v, err);
        if (rc < 0)
            return tc_err_recode(err, TC_E_INVALID);
        tci_json_put(&tx->buf, &v, TCI_JSON_AS_IS);
        rc = tci_tx_text(tx, &change.settlement.detail, err);
    }
    if (rc == 0)
        rc = tci_arena_dup(&tx->arena, settlement->reason, &change.settlement.reason, err);
    return rc < 0 ? rc : add_change(tx, &change, err);
}

static tc_str id_text(tc_tx *tx, uint64_t id)
{
    tc_err ignored;
    tc_str text = {0};
    if (tci_arena_printf(&tx->arena, &text, &ignored, "%llu", (unsigned long long)id) < 0)
        return TC_STR("0"); /* no memory: the record is refused when it is read */
    return text;
}

enum { FIELDS_MAX = 3 };

static int fields_of(tc_tx *tx, const tci_submission *now, const tci_submission_change *c,
                     tci_json_change changes[FIELDS_MAX], size_t *ret_n, tc_err *err)
{
    bool is_input = now->type == TCI_SUBMISSION_INPUT;
    if (c->is_placement) {
        if (now->status != TCI_SUBMISSION_QUEUED)
            return tc_err_set(err, TC_E_CONFLICT, "submission %llu is not queued",
                              (unsigned long long)c->id);
        changes[0] = (tci_json_change){TC_STR("status"),
                                       is_input ? TC_STR("\"placed\"") : TC_STR("\"done\"")};
        changes[1] = (tci_json_change){TC_STR("entry"), id_text(tx, c->entry)};
        *ret_n = 2;
        return 0;
    }
    if (c->settlement.answer != 0) {
        if (now->status != TCI_SUBMISSION_PLACED)
            return tc_err_set(err, TC_E_CONFLICT, "submission %llu is not a placed input",
                              (unsigned long long)c->id);
        changes[0] = (tci_json_change){TC_STR("status"), TC_STR("\"done\"")};
        changes[1] = (tci_json_change){TC_STR("answer"), id_text(tx, c->settlement.answer)};
        *ret_n = 2;
        return 0;
    }
    tc_str reason = {0};
    tci_json_put_str(&tx->buf, c->settlement.reason);
    int rc = tci_tx_text(tx, &reason, err);
    if (rc < 0)
        return rc;
    changes[0] = (tci_json_change){TC_STR("status"), TC_STR("\"unanswered\"")};
    changes[1] = (tci_json_change){TC_STR("reason"), reason};
    changes[2] = (tci_json_change){TC_STR("detail"), c->settlement.detail};
    *ret_n = c->settlement.detail.len > 0 ? 3 : 2;
    return 0;
}

/* Nothing happens to a settled one. */
static int apply(tc_tx *tx, tci_submission *record, const tci_submission_change *c, tc_err *err)
{
    if (record->status == TCI_SUBMISSION_DONE || record->status == TCI_SUBMISSION_UNANSWERED)
        return 0;
    tci_json_change changes[FIELDS_MAX];
    size_t n = 0;
    tci_json v;
    tc_str text = {0};
    int rc = fields_of(tx, record, c, changes, &n, err);
    if (rc == 0)
        rc = tci_json_parse(record->json, TCI_JSON_DURABLE, &tx->arena, &v, err);
    if (rc < 0)
        return rc;
    tci_json_edit(&tx->buf, &v, changes, n);
    rc = tci_tx_text(tx, &text, err);
    return rc < 0 ? rc : parse_submission(tx, text, record, err);
}

static int base_record(tc_tx *tx, uint64_t id, tci_arena *a, tci_submission *ret, tc_err *err)
{
    const tci_submission *staged = tci_tx_staged_submission(tx, id);
    if (staged == NULL)
        return tci_durable_submission(tx->s, id, a, ret, err);
    *ret = *staged;
    return 0;
}

int tci_tx_current_submission(tc_tx *tx, uint64_t id, tci_arena *a, tci_submission *ret,
                              tc_err *err)
{
    int rc = base_record(tx, id, a, ret, err);
    for (const tci_submission_change *c = tx->changes; rc == 0 && ret->id != 0 && c != NULL;
         c = c->next)
        if (c->id == id)
            rc = apply(tx, ret, c, err);
    return rc;
}

int tci_tx_settle_changes(tc_tx *tx, tc_err *err)
{
    for (const tci_submission_change *c = tx->changes; c != NULL; c = c->next) {
        tci_submission record = {0};
        int rc = base_record(tx, c->id, &tx->arena, &record, err);
        if (rc < 0)
            return rc;
        if (record.id == 0)
            return tc_err_set(err, TC_E_NOT_FOUND, "submission %llu does not exist",
                              (unsigned long long)c->id);
        tc_str before = record.json;
        rc = apply(tx, &record, c, err);
        if (rc == 0 && record.json.ptr != before.ptr)
            rc = stage(tx, &record, err);
        if (rc < 0)
            return rc;
    }
    tx->changes = tx->last_change = NULL;
    return 0;
}

int tci_tx_staged_submissions(tc_tx *tx, const tci_submission **ret, size_t *ret_count, tc_err *err)
{
    size_t nchanges = 0, n = 0;
    for (const tci_submission_change *c = tx->changes; c != NULL; c = c->next)
        nchanges++;
    tci_submission *all =
        tci_arena_items(&tx->arena, tci_submission, tx->submissions.count + nchanges);
    if (all == NULL)
        return tci_arena_error(&tx->arena, err);
    for (size_t i = 0; i < tx->submissions.count; i++)
        all[n++].id = tx->submissions.items[i].id;
    for (const tci_submission_change *c = tx->changes; c != NULL; c = c->next) {
        bool is_listed = false;
        for (size_t i = 0; i < n; i++)
            is_listed = is_listed || all[i].id == c->id;
        if (!is_listed)
            all[n++].id = c->id;
    }
    for (size_t i = 0; i < n; i++) {
        int rc = tci_tx_current_submission(tx, all[i].id, &tx->arena, &all[i], err);
        if (rc < 0)
            return rc;
    }
    *ret = all;
    *ret_count = n;
    return 0;
}
