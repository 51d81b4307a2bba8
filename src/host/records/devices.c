/* SPDX-License-Identifier: Apache-2.0
 *
 * Devices and their requests to be let in, as rows. Who may decide is for others. Any thread, one at a time.
 * Invariant: no approved or revoked device ever gets another credential, and a revoked one never another state;
 * a credential belongs to one identity. */
#include "host/records/external.h"

enum {
    FORGET_MS = 24 * 60 * 60 * 1000, /* a request that nobody decided, after its end */
    SLACK_MS = 60 * 1000             /* by how much a clock may be set back unnoticed */
};

const char *tci_host_state_name(tci_host_state state)
{
    static const char *const names[] = {[TCI_HOST_PENDING] = "pending",
                                        [TCI_HOST_APPROVED] = "approved",
                                        [TCI_HOST_REVOKED] = "revoked"};
    return names[state];
}

/* ---- rows ---- */

#define COLUMNS                                                                             \
    "SELECT d.id,d.device_id,d.name,d.address,d.state,d.created_ms,d.approved_ms,"          \
    "d.revoked_ms,d.seen_ms,d.clashes,d.clash_ms,d.clash_address,c.id,c.code,c.expires_ms," \
    "c.rejected_ms,d.digest FROM devices d LEFT JOIN challenges c ON c.device=d.id "

enum {
    AT_ID,
    AT_DEVICE_ID,
    AT_NAME,
    AT_ADDRESS,
    AT_STATE,
    AT_CREATED,
    AT_APPROVED,
    AT_REVOKED,
    AT_SEEN,
    AT_CLASHES,
    AT_CLASH,
    AT_CLASH_ADDRESS,
    AT_CHALLENGE,
    AT_CODE,
    AT_EXPIRES,
    AT_REJECTED,
    AT_DIGEST
};

static tci_host_state state_of(tc_str name)
{
    if (tci_str_eq(name, TC_STR("approved")))
        return TCI_HOST_APPROVED;
    return tci_str_eq(name, TC_STR("pending")) ? TCI_HOST_PENDING : TCI_HOST_REVOKED;
}

/* The row that q stands on. */
static int read_row(const tci_query *q, tci_arena *a, tci_host_device *ret, tci_digest *ret_digest,
                    tc_err *err)
{
    tci_host_device d = {
        .state = state_of(tci_query_str(q, AT_STATE)),
        .created_ms = tci_query_int(q, AT_CREATED),
        .approved_ms = tci_query_int(q, AT_APPROVED),
        .revoked_ms = tci_query_int(q, AT_REVOKED),
        .seen_ms = tci_query_int(q, AT_SEEN),
        .clashes = tci_query_int(q, AT_CLASHES),
        .clash_ms = tci_query_int(q, AT_CLASH),
        .expires_ms = tci_query_int(q, AT_EXPIRES),
        .is_rejected = tci_query_int(q, AT_REJECTED) != 0,
    };
    const tci_query_text texts[] = {{AT_ID, &d.id},
                                    {AT_DEVICE_ID, &d.device_id},
                                    {AT_NAME, &d.name},
                                    {AT_ADDRESS, &d.address},
                                    {AT_CLASH_ADDRESS, &d.clash_address},
                                    {AT_CHALLENGE, &d.challenge_id},
                                    {AT_CODE, &d.code}};
    if (tci_query_dup(q, texts, TCI_ARRAY_LEN(texts), a, err) < 0)
        return err->code;
    tc_str digest = tci_query_str(q, AT_DIGEST);
    if (digest.len != sizeof ret_digest->bytes)
        return tc_err_set(err, TC_E_PARSE, "the Host's records hold a malformed digest");
    memcpy(ret_digest->bytes, digest.ptr, digest.len);
    *ret = d;
    return 0;
}

/* Who is asked for, by one text. 1: found; 0: not. */
static int find(tci_host_db *db, const char *sql, const tci_challenge_ref *by, tci_arena *a,
                tci_host_device *ret, tci_digest *ret_digest, tc_err *err)
{
    tci_query q;
    int rc = tci_query_open(&q, db, sql, err);
    if (rc < 0)
        return rc;
    tci_query_bind_str(&q, 1, by->id);
    tci_query_bind_str(&q, 2, by->code);
    rc = tci_query_step(&q, err);
    if (rc > 0 && read_row(&q, a, ret, ret_digest, err) < 0)
        rc = err->code;
    tci_query_close(&q);
    return rc;
}

static int find_device(tci_host_db *db, const char *where, tc_str text, tci_arena *a,
                       tci_host_device *ret, tci_digest *ret_digest, tc_err *err)
{
    tci_challenge_ref by = {.id = text};
    return find(db, where, &by, a, ret, ret_digest, err);
}

static int change(tci_host_db *db, const char *sql, tc_str text, int64_t at_ms, tc_err *err)
{
    tci_query q;
    int rc = tci_query_open(&q, db, sql, err);
    if (rc < 0)
        return rc;
    tci_query_bind_str(&q, 1, text);
    tci_query_bind_time(&q, 2, at_ms);
    return tci_query_run(&q, NULL, err);
}

/* The last end that a request may have now. A later one was made by a clock that has been set back since: it would
 * last longer than it may, and counts as over. */
static int64_t last_end(int64_t now_ms)
{
    return now_ms + TCI_CHALLENGE_MS + SLACK_MS;
}

static bool is_in_time(const tci_host_device *d, int64_t now_ms)
{
    return d->code.len > 0 && d->expires_ms > now_ms && d->expires_ms <= last_end(now_ms);
}

/* ---- asking ---- */

static int note_clash(tci_host_db *db, tc_str id, int64_t now_ms, tc_str address, tc_err *err)
{
    tci_query q;
    int rc = tci_query_open(
        &q, db, "UPDATE devices SET clashes=clashes+1,clash_ms=?2,clash_address=?3 WHERE id=?1",
        err);
    if (rc < 0)
        return rc;
    tci_query_bind_str(&q, 1, id);
    tci_query_bind_int(&q, 2, now_ms);
    tci_query_bind_str(&q, 3, address);
    return tci_query_run(&q, NULL, err);
}

static int add_device(tci_host_db *db, int64_t now_ms, const tci_pair_ask *ask, tci_arena *a,
                      tc_str *ret_id, tc_err *err)
{
    char id[TCI_RESOURCE_ID_LEN];
    tci_query q;
    memcpy(id, "dev-", 4);
    tci_random_hex(id + 4, sizeof id - 4);
    int rc = tci_query_open(&q, db,
                            "INSERT INTO devices(id,device_id,name,state,digest,address,created_ms)"
                            " VALUES(?1,?2,?3,'pending',?4,?5,?6)",
                            err);
    if (rc < 0)
        return rc;
    tci_query_bind_str(&q, 1, tci_str_of(id, sizeof id));
    tci_query_bind_str(&q, 2, ask->device_id);
    tci_query_bind_str(&q, 3, ask->name);
    tci_query_bind_bytes(&q, 4, ask->digest.bytes, sizeof ask->digest.bytes);
    tci_query_bind_str(&q, 5, ask->address);
    tci_query_bind_int(&q, 6, now_ms);
    rc = tci_query_run(&q, NULL, err);
    return rc == 0 ? tci_arena_dup(a, tci_str_of(id, sizeof id), ret_id, err) : rc;
}

static int add_challenge(tci_host_db *db, int64_t now_ms, tc_str device, tci_arena *a,
                         tci_pair_answer *ret, tc_err *err)
{
    enum { TRIES = 8 }; /* codes that are taken, in a row */
    char id[TCI_CHALLENGE_ID_LEN], code[TCI_CODE_LEN];
    int rc = TC_E_CONFLICT;
    tci_random_hex(id, sizeof id);
    for (int i = 0; i < TRIES && rc == TC_E_CONFLICT; i++) {
        tci_query q;
        tci_random_code(code);
        rc = tci_query_open(&q, db,
                            "INSERT INTO challenges(id,device,code,created_ms,expires_ms)"
                            " VALUES(?1,?2,?3,?4,?5)",
                            err);
        if (rc < 0)
            return rc;
        tci_query_bind_str(&q, 1, tci_str_of(id, sizeof id));
        tci_query_bind_str(&q, 2, device);
        tci_query_bind_str(&q, 3, tci_str_of(code, sizeof code));
        tci_query_bind_int(&q, 4, now_ms);
        tci_query_bind_int(&q, 5, now_ms + TCI_CHALLENGE_MS);
        rc = tci_query_run(&q, NULL, err);
    }
    if (rc == 0)
        rc = tci_arena_dup(a, tci_str_of(id, sizeof id), &ret->challenge_id, err);
    if (rc == 0)
        rc = tci_arena_dup(a, tci_str_of(code, sizeof code), &ret->code, err);
    ret->expires_ms = now_ms + TCI_CHALLENGE_MS;
    return rc;
}

static int count_waiting(tci_host_db *db, int64_t now_ms, int64_t *ret, tc_err *err)
{
    tci_query q;
    int rc = tci_query_open(&q, db,
                            "SELECT count(*) FROM challenges WHERE expires_ms>?1 AND expires_ms<=?2"
                            " AND rejected_ms IS NULL",
                            err);
    if (rc < 0)
        return rc;
    tci_query_bind_int(&q, 1, now_ms);
    tci_query_bind_int(&q, 2, last_end(now_ms));
    rc = tci_query_step(&q, err);
    if (rc > 0)
        *ret = tci_query_int(&q, 0);
    tci_query_close(&q);
    return rc < 0 ? rc : 0;
}

/* Requests that nobody decided, long after their end; not that of keep. */
static int forget_old(tci_host_db *db, tc_str keep, int64_t now_ms, tc_err *err)
{
    tci_query q;
    int rc =
        tci_query_open(&q, db,
                       "DELETE FROM devices WHERE state='pending' AND id<>?1 AND id IN"
                       " (SELECT device FROM challenges WHERE expires_ms<=?2 OR expires_ms>?3)",
                       err);
    if (rc < 0)
        return rc;
    tci_query_bind_str(&q, 1, keep);
    tci_query_bind_int(&q, 2, now_ms - FORGET_MS);
    tci_query_bind_int(&q, 3, last_end(now_ms) + FORGET_MS);
    return tci_query_run(&q, NULL, err);
}

static int rename_device(tci_host_db *db, tc_str id, tc_str name, tc_err *err)
{
    tci_query q;
    int rc = tci_query_open(&q, db, "UPDATE devices SET name=?2 WHERE id=?1", err);
    if (rc < 0)
        return rc;
    tci_query_bind_str(&q, 1, id);
    tci_query_bind_str(&q, 2, name);
    return tci_query_run(&q, NULL, err);
}

static int begin_in(tci_host_db *db, int64_t now_ms, const tci_pair_ask *ask,
                    const tci_host_device *known, bool is_same, tci_arena *a, tci_pair_answer *ret,
                    tc_err *err)
{
    int rc = forget_old(db, known != NULL ? known->id : TC_STR(""), now_ms, err);
    if (rc == 0 && known != NULL && is_same) {
        ret->id = known->id;
        rc = change(db, "DELETE FROM challenges WHERE device=?1", known->id, 0, err);
        if (rc == 0)
            rc = rename_device(db, known->id, ask->name, err);
    } else if (rc == 0) {
        if (known != NULL) /* its credential was lost before it was ever approved */
            rc = change(db, "DELETE FROM devices WHERE id=?1", known->id, 0, err);
        if (rc == 0)
            rc = add_device(db, now_ms, ask, a, &ret->id, err);
    }
    return rc == 0 ? add_challenge(db, now_ms, ret->id, a, ret, err) : rc;
}

/* A new request. known: of this identity, never approved and too late; NULL: none. */
static int begin(tci_host_db *db, int64_t now_ms, const tci_pair_ask *ask,
                 const tci_host_device *known, bool is_same, tci_arena *a, tci_pair_answer *ret,
                 tc_err *err)
{
    int64_t nwaiting = 0;
    int rc = count_waiting(db, now_ms, &nwaiting, err);
    if (rc < 0)
        return rc;
    ret->status = TCI_PAIR_FULL;
    if (nwaiting >= TCI_PENDING_MAX || !ask->may_begin)
        return 0;
    rc = tci_host_db_begin(db, err);
    if (rc == 0)
        rc = begin_in(db, now_ms, ask, known, is_same, a, ret, err);
    if (rc == 0)
        rc = tci_host_db_commit(db, err);
    if (rc < 0) {
        tci_host_db_rollback(db);
        return rc;
    }
    ret->status = TCI_PAIR_PENDING;
    ret->has_begun = true;
    return 0;
}

static int clash(tci_host_db *db, int64_t now_ms, const tci_pair_ask *ask, tc_str id,
                 tci_pair_answer *ret, tc_err *err)
{
    ret->status = TCI_PAIR_CLASH;
    return note_clash(db, id, now_ms, ask->address, err);
}

/* The identity is known. */
static int pair_known(tci_host_db *db, int64_t now_ms, const tci_pair_ask *ask,
                      const tci_host_device *d, bool is_same, tci_arena *a, tci_pair_answer *ret,
                      tc_err *err)
{
    bool is_waiting = d->state == TCI_HOST_PENDING && is_in_time(d, now_ms);
    if (!is_same && (is_waiting || d->state != TCI_HOST_PENDING))
        return clash(db, now_ms, ask, d->id, ret, err);
    ret->id = d->id;
    if (d->state != TCI_HOST_PENDING) {
        ret->status = d->state == TCI_HOST_APPROVED ? TCI_PAIR_APPROVED : TCI_PAIR_REVOKED;
        return 0;
    }
    if (!is_waiting)
        return begin(db, now_ms, ask, d, is_same, a, ret, err);
    ret->status = d->is_rejected ? TCI_PAIR_REJECTED : TCI_PAIR_PENDING;
    ret->challenge_id = d->challenge_id;
    ret->code = d->code;
    ret->expires_ms = d->expires_ms;
    return tci_str_eq(d->name, ask->name) ? 0 : rename_device(db, d->id, ask->name, err);
}

static int find_by_digest(tci_host_db *db, const tci_digest *digest, tci_arena *a, tc_str *ret_id,
                          tc_err *err)
{
    tci_query q;
    int rc = tci_query_open(&q, db, "SELECT id FROM devices WHERE digest=?1", err);
    if (rc < 0)
        return rc;
    tci_query_bind_bytes(&q, 1, digest->bytes, sizeof digest->bytes);
    rc = tci_query_step(&q, err);
    if (rc > 0 && tci_arena_dup(a, tci_query_str(&q, 0), ret_id, err) < 0)
        rc = err->code;
    tci_query_close(&q);
    return rc;
}

int tci_host_pair(tci_host_db *db, int64_t now_ms, const tci_pair_ask *ask, tci_arena *a,
                  tci_pair_answer *ret, tc_err *err)
{
    tci_host_device d;
    tci_digest digest;
    tc_str other;
    tci_pair_answer answer = {.status = TCI_PAIR_FULL};
    int rc = find_device(db, COLUMNS "WHERE d.device_id=?1", ask->device_id, a, &d, &digest, err);
    if (rc > 0) {
        bool is_same = tci_digest_eq(&digest, &ask->digest);
        rc = pair_known(db, now_ms, ask, &d, is_same, a, &answer, err);
    } else if (rc == 0) {
        rc = find_by_digest(db, &ask->digest, a, &other, err);
        if (rc > 0)
            rc = clash(db, now_ms, ask, other, &answer, err);
        else if (rc == 0)
            rc = begin(db, now_ms, ask, NULL, false, a, &answer, err);
    }
    if (rc == 0)
        *ret = answer;
    return rc;
}

int tci_host_admit(tci_host_db *db, tc_str id, const tci_digest *digest, tci_arena *a,
                   tci_host_device *ret, tc_err *err)
{
    tci_host_device d = {.state = TCI_HOST_PENDING};
    tci_digest right = {{0}};
    int rc = find_device(db, COLUMNS "WHERE d.id=?1", id, a, &d, &right, err);
    if (rc < 0)
        return rc;
    bool is_right = tci_digest_eq(&right, digest) && rc > 0;
    if (!is_right || d.state == TCI_HOST_PENDING)
        return tc_err_set(err, TC_E_AUTH, "no such device with this credential is approved here");
    if (d.state == TCI_HOST_REVOKED)
        return tc_err_set(err, TC_E_DENIED, "this device's connection was revoked");
    *ret = d;
    return 0;
}

int tci_host_seen(tci_host_db *db, tc_str id, int64_t at_ms, tc_err *err)
{
    return change(db, "UPDATE devices SET seen_ms=?2 WHERE id=?1", id, at_ms, err);
}

/* ---- deciding ---- */

/* 1: found, 0: not. */
static int find_challenge(tci_host_db *db, const tci_challenge_ref *which, tci_arena *a,
                          tci_host_device *ret, tc_err *err)
{
    tci_digest unused;
    return find(db,
                COLUMNS
                "WHERE d.state='pending' AND c.id IS NOT NULL"
                " AND (?1='' OR c.id=?1) AND (?2='' OR c.code=?2) AND NOT (?1='' AND ?2='')",
                which, a, ret, &unused, err);
}

static int find_waiting(tci_host_db *db, int64_t now_ms, const tci_challenge_ref *which,
                        tci_arena *a, tci_host_device *ret, tc_err *err)
{
    int rc = find_challenge(db, which, a, ret, err);
    if (rc < 0)
        return rc;
    if (rc == 0)
        return tc_err_set(err, TC_E_NOT_FOUND, "no device waits with this code");
    if (!is_in_time(ret, now_ms))
        return tc_err_set(err, TC_E_TIMEOUT, "the time to decide on this code is over");
    if (ret->is_rejected)
        return tc_err_set(err, TC_E_CONFLICT, "the device with this code was rejected");
    return 0;
}

static int in_transaction(tci_host_db *db, const char *first, const char *second, tc_str id,
                          int64_t now_ms, tc_err *err)
{
    int rc = tci_host_db_begin(db, err);
    if (rc == 0)
        rc = change(db, first, id, now_ms, err);
    if (rc == 0)
        rc = change(db, second, id, 0, err);
    if (rc == 0)
        rc = tci_host_db_commit(db, err);
    if (rc < 0)
        tci_host_db_rollback(db);
    return rc;
}

int tci_host_approve(tci_host_db *db, int64_t now_ms, const tci_challenge_ref *which, tci_arena *a,
                     tci_host_device *ret, tc_err *err)
{
    tci_host_device d;
    int rc = find_waiting(db, now_ms, which, a, &d, err);
    if (rc == 0)
        rc = in_transaction(db, "UPDATE devices SET state='approved',approved_ms=?2 WHERE id=?1",
                            "DELETE FROM challenges WHERE device=?1", d.id, now_ms, err);
    return rc == 0 ? tci_host_device_get(db, now_ms, d.id, a, ret, err) : rc;
}

int tci_host_reject(tci_host_db *db, int64_t now_ms, const tci_challenge_ref *which, tci_arena *a,
                    tci_host_device *ret, tc_err *err)
{
    tci_host_device d;
    int rc = find_waiting(db, now_ms, which, a, &d, err);
    if (rc == 0)
        rc = change(db, "UPDATE challenges SET rejected_ms=?2 WHERE device=?1", d.id, now_ms, err);
    return rc == 0 ? tci_host_device_get(db, now_ms, d.id, a, ret, err) : rc;
}

int tci_host_revoke(tci_host_db *db, int64_t now_ms, tc_str named, tci_arena *a,
                    tci_host_device *ret, tc_err *err)
{
    tci_host_device d;
    int rc = tci_host_device_get(db, now_ms, named, a, &d, err);
    if (rc == 0 && d.kind == TCI_HOST_EXTERNAL)
        rc = tc_err_set(err, TC_E_CONFLICT,
                        "'%.*s' has no credential of this Host to revoke; it "
                        "can be removed",
                        TC_STR_ARG(d.name));
    if (rc == 0 && d.state != TCI_HOST_REVOKED)
        rc = in_transaction(db, "UPDATE devices SET state='revoked',revoked_ms=?2 WHERE id=?1",
                            "DELETE FROM challenges WHERE device=?1", d.id, now_ms, err);
    return rc == 0 ? tci_host_device_get(db, now_ms, d.id, a, ret, err) : rc;
}

/* ---- looking ---- */

/* Of a device that does not wait (any more) there is nothing to tell about its request. */
static void forget_late(tci_host_device *d, int64_t now_ms)
{
    if (is_in_time(d, now_ms))
        return;
    d->code = d->challenge_id = (tc_str){0};
    d->expires_ms = 0;
}

int tci_host_device_of(tci_host_db *db, int64_t now_ms, const tci_challenge_ref *which,
                       tci_arena *a, tci_host_device *ret, tc_err *err)
{
    int rc = find_challenge(db, which, a, ret, err);
    if (rc == 0)
        return tc_err_set(err, TC_E_NOT_FOUND, "no device waits with this code");
    if (rc > 0)
        forget_late(ret, now_ms);
    return rc < 0 ? rc : 0;
}

static int read_all(tci_query *q, int64_t now_ms, tci_arena *a, tci_host_device **ret,
                    size_t *ret_count, tc_err *err)
{
    tci_host_device *list = NULL;
    tci_digest unused;
    size_t n = 0, cap = 0;
    int rc;
    while ((rc = tci_query_step(q, err)) > 0) {
        if (n == cap) {
            size_t more = cap > 0 ? 2 * cap : 16;
            list = tci_arena_grow(a, list, cap * sizeof *list, more * sizeof *list);
            if (list == NULL)
                return tci_arena_error(a, err);
            cap = more;
        }
        if (read_row(q, a, &list[n], &unused, err) < 0)
            return err->code;
        forget_late(&list[n], now_ms);
        n++;
    }
    *ret = list;
    *ret_count = n;
    return rc;
}

/* Of those of one name. Who can be asked comes before who waits, and that before who was revoked. */
static int choose(tci_host_device *list, size_t count, tci_host_device **ret, tc_err *err)
{
    static const tci_host_state order[] = {TCI_HOST_APPROVED, TCI_HOST_PENDING, TCI_HOST_REVOKED};
    for (size_t i = 0; i < TCI_ARRAY_LEN(order); i++) {
        size_t n = 0;
        for (size_t k = 0; k < count; k++) {
            if (list[k].state != order[i])
                continue;
            n++;
            if (n == 1 || list[k].revoked_ms > (*ret)->revoked_ms)
                *ret = &list[k];
        }
        if (n > 1 && order[i] != TCI_HOST_REVOKED)
            return tc_err_set(err, TC_E_CONFLICT, "%zu devices are called '%.*s'", n,
                              TC_STR_ARG((*ret)->name));
        if (n > 0)
            return 0;
    }
    return tc_err_set(err, TC_E_NOT_FOUND, "there is no such device");
}

static int find_named(tci_host_db *db, int64_t now_ms, tc_str name, tci_arena *a,
                      tci_host_device *ret, tc_err *err)
{
    tci_query q;
    tci_host_device *list = NULL, *chosen = NULL, external;
    size_t count = 0;
    int rc = tci_query_open(&q, db, COLUMNS "WHERE d.name=?1", err);
    if (rc < 0)
        return rc;
    tci_query_bind_str(&q, 1, name);
    rc = read_all(&q, now_ms, a, &list, &count, err);
    tci_query_close(&q);
    if (rc == 0)
        rc = tci_external_find(db, name, a, &external, err);
    if (rc > 0) {
        tci_host_device *more = tci_arena_items(a, tci_host_device, count + 1);
        if (more == NULL)
            return tci_arena_error(a, err);
        if (count > 0)
            memcpy(more, list, count * sizeof *more);
        more[count++] = external;
        list = more;
    }
    if (rc >= 0)
        rc = choose(list, count, &chosen, err);
    if (rc == 0)
        *ret = *chosen;
    return rc;
}

int tci_host_device_get(tci_host_db *db, int64_t now_ms, tc_str named, tci_arena *a,
                        tci_host_device *ret, tc_err *err)
{
    tci_digest unused;
    int rc = find_device(db, COLUMNS "WHERE d.id=?1", named, a, ret, &unused, err);
    if (rc == 0)
        return find_named(db, now_ms, named, a, ret, err);
    if (rc > 0)
        forget_late(ret, now_ms);
    return rc < 0 ? rc : 0;
}

int tci_host_devices(tci_host_db *db, int64_t now_ms, tci_arena *a, tci_host_device **ret,
                     size_t *ret_count, tc_err *err)
{
    tci_query q;
    int rc = tci_query_open(&q, db,
                            COLUMNS "WHERE d.state<>'pending' OR"
                                    " (c.expires_ms>?1 AND c.expires_ms<=?2) "
                                    "ORDER BY d.state<>'pending',d.created_ms,d.id",
                            err);
    if (rc < 0)
        return rc;
    tci_query_bind_int(&q, 1, now_ms);
    tci_query_bind_int(&q, 2, last_end(now_ms));
    rc = read_all(&q, now_ms, a, ret, ret_count, err);
    tci_query_close(&q);
    return rc == 0 ? tci_external_list(db, a, ret, ret_count, err) : rc;
}
