/* SPDX-License-Identifier: Apache-2.0
 *
 * Links, sessions and tokens, as rows. What somebody may do who has one is for others. Any thread, one at a
 * time. Invariant: a link is gone in the same commit that makes what it gives. */
#include "host/records/owners.h"

enum { SLACK_MS = 60 * 1000 }; /* by how much a clock may be set back unnoticed */

static const char *const kinds[] = {
    [TCI_SIGN_IN_BROWSER] = "browser", [TCI_SIGN_IN_TERMINAL] = "terminal"};
static const int64_t lives_ms[] = {
    [TCI_SIGN_IN_BROWSER] = TCI_BROWSER_MS, [TCI_SIGN_IN_TERMINAL] = TCI_TERMINAL_MS};

static int add(tci_host_db *db, int64_t now_ms, tc_str secret, const char *kind, tc_str label,
               int64_t expires_ms, tc_err *err)
{
    tci_query q;
    tci_digest d = tci_digest_of(secret);
    int rc = tci_query_open(&q, db,
                            "INSERT INTO sign_ins(digest,kind,label,created_ms,expires_ms)"
                            " VALUES(?1,?2,?3,?4,?5)",
                            err);
    if (rc < 0)
        return rc;
    tci_query_bind_bytes(&q, 1, d.bytes, sizeof d.bytes);
    tci_query_bind_str(&q, 2, tci_str(kind));
    tci_query_bind_str(&q, 3, label);
    tci_query_bind_int(&q, 4, now_ms);
    tci_query_bind_int(&q, 5, expires_ms);
    return tci_query_run(&q, NULL, err);
}

/* *ret_count: how many there were (0 or 1). */
static int take(tci_host_db *db, int64_t now_ms, tc_str secret, const char *kind, size_t *ret_count,
                tc_err *err)
{
    tci_query q;
    tci_digest d = tci_digest_of(secret);
    int rc = tci_query_open(&q, db,
                            "DELETE FROM sign_ins WHERE digest=?1 AND kind=?2 AND expires_ms>?3"
                            " AND created_ms<=?4",
                            err);
    if (rc < 0)
        return rc;
    tci_query_bind_bytes(&q, 1, d.bytes, sizeof d.bytes);
    tci_query_bind_str(&q, 2, tci_str(kind));
    tci_query_bind_int(&q, 3, now_ms);
    tci_query_bind_int(&q, 4, now_ms + SLACK_MS); /* not one that a clock set back makes last */
    return tci_query_run(&q, ret_count, err);
}

static int forget_old(tci_host_db *db, int64_t now_ms, tc_err *err)
{
    tci_query q;
    int rc = tci_query_open(&q, db, "DELETE FROM sign_ins WHERE expires_ms<=?1", err);
    if (rc < 0)
        return rc;
    tci_query_bind_int(&q, 1, now_ms);
    return tci_query_run(&q, NULL, err);
}

int tci_host_link_new(tci_host_db *db, int64_t now_ms, char ret_code[TCI_LINK_CODE_LEN],
                      int64_t *ret_expires_ms, tc_err *err)
{
    char code[TCI_LINK_CODE_LEN];
    tci_random_hex(code, sizeof code);
    int rc = add(db, now_ms, tci_str_of(code, sizeof code), "link", TC_STR(""),
                 now_ms + TCI_LINK_MS, err);
    if (rc == 0) {
        memcpy(ret_code, code, sizeof code);
        *ret_expires_ms = now_ms + TCI_LINK_MS;
    }
    return rc;
}

static int sign_in(tci_host_db *db, int64_t now_ms, tc_str code, tci_sign_in_kind kind,
                   tc_str label, tc_str token, tc_err *err)
{
    size_t ntaken = 0;
    int rc = forget_old(db, now_ms, err);
    if (rc == 0)
        rc = take(db, now_ms, code, "link", &ntaken, err);
    if (rc == 0 && ntaken == 0)
        rc = tc_err_set(err, TC_E_AUTH, "this sign-in link was used before, or its time is over");
    return rc == 0 ? add(db, now_ms, token, kinds[kind], label, now_ms + lives_ms[kind], err) : rc;
}

int tci_host_sign_in(tci_host_db *db, int64_t now_ms, tc_str code, tci_sign_in_kind kind,
                     tc_str label, char ret_token[TCI_TOKEN_LEN], int64_t *ret_expires_ms,
                     tc_err *err)
{
    char token[TCI_TOKEN_LEN];
    tci_random_hex(token, sizeof token);
    int rc = tci_host_db_begin(db, err);
    if (rc == 0)
        rc = sign_in(db, now_ms, code, kind, label, tci_str_of(token, sizeof token), err);
    if (rc == 0)
        rc = tci_host_db_commit(db, err);
    if (rc < 0) {
        tci_host_db_rollback(db);
        return rc;
    }
    memcpy(ret_token, token, sizeof token);
    *ret_expires_ms = now_ms + lives_ms[kind];
    return 0;
}

int tci_host_signed_in(tci_host_db *db, int64_t now_ms, tc_str token, tci_sign_in_kind kind,
                       tc_err *err)
{
    tci_query q;
    tci_digest d = tci_digest_of(token);
    int rc = tci_query_open(
        &q, db, "SELECT 1 FROM sign_ins WHERE digest=?1 AND kind=?2 AND expires_ms>?3", err);
    if (rc < 0)
        return rc;
    tci_query_bind_bytes(&q, 1, d.bytes, sizeof d.bytes);
    tci_query_bind_str(&q, 2, tci_str(kinds[kind]));
    tci_query_bind_int(&q, 3, now_ms);
    rc = tci_query_step(&q, err);
    tci_query_close(&q);
    if (rc == 0)
        rc = tc_err_set(err, TC_E_AUTH, "not signed in");
    return rc < 0 ? rc : 0;
}

int tci_host_sign_out(tci_host_db *db, tc_str token, tc_err *err)
{
    tci_query q;
    tci_digest d = tci_digest_of(token);
    int rc = tci_query_open(&q, db, "DELETE FROM sign_ins WHERE digest=?1", err);
    if (rc < 0)
        return rc;
    tci_query_bind_bytes(&q, 1, d.bytes, sizeof d.bytes);
    return tci_query_run(&q, NULL, err);
}

int tci_host_has_owner(tci_host_db *db, int64_t now_ms, bool *ret, tc_err *err)
{
    tci_query q;
    int rc = tci_query_open(
        &q, db, "SELECT 1 FROM sign_ins WHERE kind<>'link' AND expires_ms>?1 LIMIT 1", err);
    if (rc < 0)
        return rc;
    tci_query_bind_int(&q, 1, now_ms);
    rc = tci_query_step(&q, err);
    if (rc >= 0)
        *ret = rc > 0;
    tci_query_close(&q);
    return rc < 0 ? rc : 0;
}
