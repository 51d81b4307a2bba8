/* SPDX-License-Identifier: Apache-2.0
 *
 * The Host's records: who gets in, who stays out, what survives, and that no secret is among them. */
#include "host/records/devices.h"
#include "host/records/owners.h"
#include "plat/file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define FOLDER TC_STR("records")
#define START INT64_C(1790000000000)
enum { SECOND = 1000 };

typedef struct rig {
    tci_host_db *db;
    tci_arena arena;
    int64_t now_ms;
    tc_err err;
} rig;

static void remove_records(void)
{
    static const char *const names[] = {"records/host.sqlite", "records/host.sqlite-wal",
                                        "records/host.sqlite-shm"};
    for (size_t i = 0; i < TCI_ARRAY_LEN(names); i++)
        (void)unlink(names[i]);
    (void)rmdir("records");
}

static int setup(void **state)
{
    rig *r = tci_new(rig);
    remove_records();
    r->now_ms = START;
    tci_arena_init(&r->arena, 0);
    if (tci_host_db_open(FOLDER, &r->db, &r->err) < 0)
        fail_msg("%s", r->err.msg);
    *state = r;
    return 0;
}

static int teardown(void **state)
{
    rig *r = *state;
    tci_host_db_close(r->db);
    tci_arena_done(&r->arena);
    tci_free(r);
    return 0;
}

static void reopen(rig *r)
{
    tci_host_db_close(r->db);
    if (tci_host_db_open(FOLDER, &r->db, &r->err) < 0)
        fail_msg("%s", r->err.msg);
}

static tci_pair_ask ask_of(const char *device_id, const char *credential)
{
    return (tci_pair_ask){.device_id = tci_str(device_id),
                          .name = TC_STR("work"),
                          .digest = tci_digest_of(tci_str(credential)),
                          .address = TC_STR("192.0.2.7"),
                          .may_begin = true};
}

static tci_pair_answer pair(rig *r, const char *device_id, const char *credential)
{
    tci_pair_answer answer;
    tci_pair_ask ask = ask_of(device_id, credential);
    if (tci_host_pair(r->db, r->now_ms, &ask, &r->arena, &answer, &r->err) < 0)
        fail_msg("%s", r->err.msg);
    return answer;
}

static tci_host_device approve(rig *r, tc_str code)
{
    tci_host_device d;
    tci_challenge_ref which = {.code = code};
    if (tci_host_approve(r->db, r->now_ms, &which, &r->arena, &d, &r->err) < 0)
        fail_msg("%s", r->err.msg);
    return d;
}

static tci_host_device revoke_device(rig *r, tc_str id)
{
    tci_host_device d;
    if (tci_host_revoke(r->db, r->now_ms, id, &r->arena, &d, &r->err) < 0)
        fail_msg("%s", r->err.msg);
    return d;
}

static int admit(rig *r, tc_str id, const char *credential)
{
    tci_host_device d;
    tci_digest digest = tci_digest_of(tci_str(credential));
    return tci_host_admit(r->db, id, &digest, &r->arena, &d, &r->err);
}

static size_t list(rig *r, tci_host_device **ret)
{
    size_t n = 0;
    if (tci_host_devices(r->db, r->now_ms, &r->arena, ret, &n, &r->err) < 0)
        fail_msg("%s", r->err.msg);
    return n;
}

static void check_same(tc_str a, tc_str b)
{
    if (!tci_str_eq(a, b))
        fail_msg("'%.*s' is not '%.*s'", TC_STR_ARG(a), TC_STR_ARG(b));
}

/* ---- pairing ---- */

static void test_approved_once_for_good(void **state)
{
    rig *r = *state;
    tci_pair_answer first = pair(r, "device-1", "one");
    assert_int_equal(first.status, TCI_PAIR_PENDING);
    assert_true(first.has_begun);
    assert_int_equal(first.code.len, TCI_CODE_LEN);
    assert_int_equal(admit(r, first.id, "one"), TC_E_AUTH); /* waiting is not enough */
    r->now_ms += 2 * SECOND;
    tci_pair_answer again = pair(r, "device-1", "one");
    assert_int_equal(again.status, TCI_PAIR_PENDING);
    assert_false(again.has_begun);
    check_same(again.code, first.code);
    check_same(again.id, first.id);
    tci_host_device d = approve(r, first.code);
    assert_int_equal(d.state, TCI_HOST_APPROVED);
    assert_int_equal(d.approved_ms, r->now_ms);
    assert_int_equal(d.code.len, 0);
    reopen(r);
    again = pair(r, "device-1", "one");
    assert_int_equal(again.status, TCI_PAIR_APPROVED);
    check_same(again.id, first.id);
    assert_int_equal(admit(r, first.id, "one"), 0);
    assert_int_equal(admit(r, first.id, "two"), TC_E_AUTH);
    assert_int_equal(admit(r, TC_STR("dev-0"), "one"), TC_E_AUTH);
}

static void test_late_code_is_replaced(void **state)
{
    rig *r = *state;
    tci_host_device d, *all;
    tci_pair_answer first = pair(r, "device-1", "one");
    r->now_ms += TCI_CHALLENGE_MS - 1;
    check_same(pair(r, "device-1", "one").code, first.code);
    r->now_ms++;
    assert_int_equal(list(r, &all), 0);
    tci_challenge_ref which = {.code = first.code};
    assert_int_equal(tci_host_approve(r->db, r->now_ms, &which, &r->arena, &d, &r->err),
                     TC_E_TIMEOUT);
    tci_pair_answer second = pair(r, "device-1", "one");
    assert_int_equal(second.status, TCI_PAIR_PENDING);
    check_same(second.id, first.id);
    assert_false(tci_str_eq(second.code, first.code));
    assert_int_equal(tci_host_approve(r->db, r->now_ms, &which, &r->arena, &d, &r->err),
                     TC_E_NOT_FOUND);
    (void)approve(r, second.code);
    assert_int_equal(list(r, &all), 1);
}

/* A clock that is set back makes nothing last longer than it may. */
static void test_clock_that_is_set_back(void **state)
{
    rig *r = *state;
    tci_host_device d, *all;
    char code[TCI_LINK_CODE_LEN], token[TCI_TOKEN_LEN];
    int64_t expires_ms;
    tci_pair_answer first = pair(r, "device-1", "one"), kept = pair(r, "device-2", "two");
    (void)approve(r, kept.code);
    assert_int_equal(tci_host_link_new(r->db, r->now_ms, code, &expires_ms, &r->err), 0);
    r->now_ms -= 30 * SECOND; /* as clocks are put right: nobody notices */
    check_same(pair(r, "device-1", "one").code, first.code);
    r->now_ms -= 24 * 3600 * SECOND;
    tci_challenge_ref which = {.code = first.code};
    assert_int_equal(tci_host_approve(r->db, r->now_ms, &which, &r->arena, &d, &r->err),
                     TC_E_TIMEOUT);
    assert_int_equal(list(r, &all), 1); /* the approved one */
    assert_int_equal(tci_host_sign_in(r->db, r->now_ms, tci_str_of(code, sizeof code),
                                      TCI_SIGN_IN_TERMINAL, TC_STR(""), token, &expires_ms,
                                      &r->err),
                     TC_E_AUTH);
    tci_pair_answer second = pair(r, "device-1", "one");
    assert_int_equal(second.status, TCI_PAIR_PENDING);
    check_same(second.id, first.id);
    assert_false(tci_str_eq(second.code, first.code));
    (void)approve(r, second.code);
    assert_int_equal(admit(r, kept.id, "two"), 0); /* what was decided stands */
    assert_int_equal(list(r, &all), 2);
}

static void test_rejected_until_its_time_is_over(void **state)
{
    rig *r = *state;
    tci_host_device d;
    tci_pair_answer first = pair(r, "device-1", "one");
    tci_challenge_ref which = {.code = first.code};
    assert_int_equal(tci_host_reject(r->db, r->now_ms, &which, &r->arena, &d, &r->err), 0);
    assert_true(d.is_rejected);
    assert_int_equal(pair(r, "device-1", "one").status, TCI_PAIR_REJECTED);
    assert_int_equal(tci_host_approve(r->db, r->now_ms, &which, &r->arena, &d, &r->err),
                     TC_E_CONFLICT);
    r->now_ms += TCI_CHALLENGE_MS;
    tci_pair_answer again = pair(r, "device-1", "one");
    assert_int_equal(again.status, TCI_PAIR_PENDING);
    assert_false(tci_str_eq(again.code, first.code));
}

static void test_decision_names_the_request_that_was_seen(void **state)
{
    rig *r = *state;
    tci_host_device d;
    tci_pair_answer one = pair(r, "device-1", "one"), two = pair(r, "device-2", "two");
    tci_challenge_ref mixed = {.id = one.challenge_id, .code = two.code}, none = {.id = {0}};
    assert_int_equal(tci_host_approve(r->db, r->now_ms, &mixed, &r->arena, &d, &r->err),
                     TC_E_NOT_FOUND);
    assert_int_equal(tci_host_approve(r->db, r->now_ms, &none, &r->arena, &d, &r->err),
                     TC_E_NOT_FOUND);
    tci_challenge_ref right = {.id = one.challenge_id, .code = one.code};
    assert_int_equal(tci_host_approve(r->db, r->now_ms, &right, &r->arena, &d, &r->err), 0);
    check_same(d.device_id, TC_STR("device-1"));
    assert_int_equal(pair(r, "device-2", "two").status, TCI_PAIR_PENDING);
}

/* Deleting the local credential takes nothing over; the owner sees that somebody tried. */
static void test_other_credential_is_refused_and_shown(void **state)
{
    rig *r = *state;
    tci_host_device *all;
    tci_pair_answer first = pair(r, "device-1", "one");
    assert_int_equal(pair(r, "device-1", "two").status, TCI_PAIR_CLASH);
    (void)approve(r, first.code);
    r->now_ms += 5 * TCI_CHALLENGE_MS;
    assert_int_equal(pair(r, "device-1", "two").status, TCI_PAIR_CLASH);
    assert_int_equal(pair(r, "device-1", "one").status, TCI_PAIR_APPROVED);
    assert_int_equal(list(r, &all), 1);
    assert_int_equal(all[0].clashes, 2);
    assert_int_equal(all[0].clash_ms, r->now_ms);
    check_same(all[0].clash_address, TC_STR("192.0.2.7"));
    assert_int_equal(pair(r, "device-2", "one").status,
                     TCI_PAIR_CLASH); /* a credential is one's own */
    assert_int_equal(list(r, &all), 1);
}

static void test_revoked_stays_out_case_68(void **state)
{
    rig *r = *state;
    tci_host_device *all;
    tci_pair_answer first = pair(r, "device-1", "one");
    (void)approve(r, first.code);
    tci_host_device d = revoke_device(r, first.id);
    assert_int_equal(d.state, TCI_HOST_REVOKED);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(pair(r, "device-1", "one").status, TCI_PAIR_REVOKED);
        assert_int_equal(pair(r, "device-1", "two").status, TCI_PAIR_CLASH);
        assert_int_equal(admit(r, first.id, "one"), TC_E_DENIED);
        assert_int_equal(admit(r, first.id, "two"), TC_E_AUTH);
        r->now_ms += 2 * TCI_DAY_MS;
        reopen(r);
    }
    int64_t at_ms = d.revoked_ms;
    assert_int_equal(revoke_device(r, first.id).revoked_ms, at_ms); /* again: as it was */
    assert_int_equal(list(r, &all), 1);                             /* it stays visible */
    assert_int_equal(all[0].state, TCI_HOST_REVOKED);
    assert_int_equal(tci_host_revoke(r->db, r->now_ms, TC_STR("dev-0"), &r->arena, &d, &r->err),
                     TC_E_NOT_FOUND);
}

static void test_waiting_device_can_be_revoked(void **state)
{
    rig *r = *state;
    tci_host_device d;
    tci_pair_answer first = pair(r, "device-1", "one");
    (void)revoke_device(r, first.id);
    tci_challenge_ref which = {.code = first.code};
    assert_int_equal(tci_host_approve(r->db, r->now_ms, &which, &r->arena, &d, &r->err),
                     TC_E_NOT_FOUND);
    assert_int_equal(pair(r, "device-1", "one").status, TCI_PAIR_REVOKED);
}

static void test_interrupted_pairing_ends_in_one_device_case_69(void **state)
{
    rig *r = *state;
    tci_host_device *all;
    (void)pair(r, "device-1", "one"); /* stopped while it waited */
    reopen(r);
    tci_pair_answer again = pair(r, "device-1", "one");
    (void)approve(r, again.code); /* stopped before it heard of that */
    assert_int_equal(pair(r, "device-1", "one").status, TCI_PAIR_APPROVED);
    assert_int_equal(list(r, &all), 1);
    (void)pair(r, "device-2",
               "two"); /* stopped, then its credential was lost before any approval */
    r->now_ms += TCI_CHALLENGE_MS;
    tci_pair_answer other = pair(r, "device-2", "three");
    assert_int_equal(other.status, TCI_PAIR_PENDING);
    (void)approve(r, other.code);
    assert_int_equal(admit(r, other.id, "three"), 0);
    assert_int_equal(list(r, &all), 2);
    check_same(all[0].name, all[1].name); /* names need not be unique */
}

static void test_too_many_requests_wait(void **state)
{
    rig *r = *state;
    char name[32], credential[32];
    tci_pair_answer first = pair(r, "device-0", "credential 0");
    for (int i = 1; i < TCI_PENDING_MAX; i++) {
        (void)snprintf(name, sizeof name, "device-%d", i);
        (void)snprintf(credential, sizeof credential, "credential %d", i);
        assert_int_equal(pair(r, name, credential).status, TCI_PAIR_PENDING);
    }
    assert_int_equal(pair(r, "device-x", "x").status, TCI_PAIR_FULL);
    check_same(pair(r, "device-0", "credential 0").code, first.code);
    (void)approve(r, first.code);
    assert_int_equal(pair(r, "device-x", "x").status, TCI_PAIR_PENDING);
    r->now_ms += 2 * TCI_DAY_MS; /* what nobody decided is forgotten with the next request */
    tci_pair_answer late = pair(r, "device-y", "y");
    tci_host_device *all;
    assert_int_equal(late.status, TCI_PAIR_PENDING);
    assert_int_equal(list(r, &all), 2);
    assert_int_equal(pair(r, "device-1", "somebody else").status, TCI_PAIR_PENDING);
}

static void test_no_new_request_over_the_limit(void **state)
{
    rig *r = *state;
    tci_pair_answer answer, first = pair(r, "device-1", "one");
    tci_pair_ask ask = ask_of("device-1", "one");
    ask.may_begin = false;
    assert_int_equal(tci_host_pair(r->db, r->now_ms, &ask, &r->arena, &answer, &r->err), 0);
    check_same(answer.code, first.code);
    ask = ask_of("device-2", "two");
    ask.may_begin = false;
    assert_int_equal(tci_host_pair(r->db, r->now_ms, &ask, &r->arena, &answer, &r->err), 0);
    assert_int_equal(answer.status, TCI_PAIR_FULL);
}

/* ---- owners ---- */

static void test_link_works_once(void **state)
{
    rig *r = *state;
    char code[TCI_LINK_CODE_LEN], token[TCI_TOKEN_LEN], other[TCI_TOKEN_LEN];
    int64_t expires_ms;
    bool has_owner = true;
    tc_str c = {code, sizeof code}, t = {token, sizeof token};
    assert_int_equal(tci_host_has_owner(r->db, r->now_ms, &has_owner, &r->err), 0);
    assert_false(has_owner);
    assert_int_equal(tci_host_link_new(r->db, r->now_ms, code, &expires_ms, &r->err), 0);
    assert_int_equal(expires_ms, r->now_ms + TCI_LINK_MS);
    assert_int_equal(tci_host_signed_in(r->db, r->now_ms, c, TCI_SIGN_IN_BROWSER, &r->err),
                     TC_E_AUTH);
    assert_int_equal(tci_host_sign_in(r->db, r->now_ms, TC_STR("nonsense"), TCI_SIGN_IN_BROWSER,
                                      TC_STR(""), token, &expires_ms, &r->err),
                     TC_E_AUTH);
    assert_int_equal(tci_host_sign_in(r->db, r->now_ms, c, TCI_SIGN_IN_BROWSER, TC_STR("here"),
                                      token, &expires_ms, &r->err),
                     0);
    assert_int_equal(tci_host_sign_in(r->db, r->now_ms, c, TCI_SIGN_IN_BROWSER, TC_STR("here"),
                                      other, &expires_ms, &r->err),
                     TC_E_AUTH);
    reopen(r);
    assert_int_equal(tci_host_has_owner(r->db, r->now_ms, &has_owner, &r->err), 0);
    assert_true(has_owner);
    assert_int_equal(tci_host_signed_in(r->db, r->now_ms, t, TCI_SIGN_IN_BROWSER, &r->err), 0);
    assert_int_equal(tci_host_signed_in(r->db, r->now_ms, t, TCI_SIGN_IN_TERMINAL, &r->err),
                     TC_E_AUTH);
    r->now_ms += TCI_BROWSER_MS;
    assert_int_equal(tci_host_signed_in(r->db, r->now_ms, t, TCI_SIGN_IN_BROWSER, &r->err),
                     TC_E_AUTH);
    assert_int_equal(tci_host_has_owner(r->db, r->now_ms, &has_owner, &r->err), 0);
    assert_false(has_owner);
}

static void test_late_link_and_signing_out(void **state)
{
    rig *r = *state;
    char code[TCI_LINK_CODE_LEN], token[TCI_TOKEN_LEN];
    int64_t expires_ms;
    tc_str c = {code, sizeof code}, t = {token, sizeof token};
    assert_int_equal(tci_host_link_new(r->db, r->now_ms, code, &expires_ms, &r->err), 0);
    assert_int_equal(tci_host_sign_in(r->db, r->now_ms + TCI_LINK_MS, c, TCI_SIGN_IN_TERMINAL,
                                      TC_STR(""), token, &expires_ms, &r->err),
                     TC_E_AUTH);
    assert_int_equal(tci_host_link_new(r->db, r->now_ms, code, &expires_ms, &r->err), 0);
    assert_int_equal(tci_host_sign_in(r->db, r->now_ms, c, TCI_SIGN_IN_TERMINAL, TC_STR(""), token,
                                      &expires_ms, &r->err),
                     0);
    assert_int_equal(tci_host_signed_in(r->db, r->now_ms, t, TCI_SIGN_IN_TERMINAL, &r->err), 0);
    assert_int_equal(tci_host_sign_out(r->db, t, &r->err), 0);
    assert_int_equal(tci_host_signed_in(r->db, r->now_ms, t, TCI_SIGN_IN_TERMINAL, &r->err),
                     TC_E_AUTH);
}

/* ---- the file ---- */

static unsigned mode_of(const char *path)
{
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    return st.st_mode & 07777;
}

static bool file_holds(const char *path, tc_str what)
{
    char *bytes;
    size_t len;
    tc_err err;
    if (tci_file_read_whole(TCI_FILE_CWD, tci_str(path), SIZE_MAX / 2, &bytes, &len, &err) < 0)
        return false;
    bool holds = tci_str_find(tci_str_of(bytes, len), what) < len;
    tci_free(bytes);
    return holds;
}

static bool records_hold(tc_str what)
{
    return file_holds("records/host.sqlite", what) || file_holds("records/host.sqlite-wal", what);
}

static void test_files_are_the_owners_alone_and_hold_no_secret(void **state)
{
    rig *r = *state;
    static const char credential[] =
        "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    char code[TCI_LINK_CODE_LEN], token[TCI_TOKEN_LEN];
    int64_t expires_ms;
    (void)approve(r, pair(r, "device-1", credential).code);
    assert_int_equal(tci_host_link_new(r->db, r->now_ms, code, &expires_ms, &r->err), 0);
    assert_int_equal(tci_host_sign_in(r->db, r->now_ms, tci_str_of(code, sizeof code),
                                      TCI_SIGN_IN_TERMINAL, TC_STR(""), token, &expires_ms,
                                      &r->err),
                     0);
    assert_int_equal(mode_of("records"), 0700);
    assert_int_equal(mode_of("records/host.sqlite"), 0600);
    assert_int_equal(mode_of("records/host.sqlite-wal"), 0600);
    tci_digest digest = tci_digest_of(tci_str(credential));
    assert_true(records_hold(TC_STR("device-1")));
    assert_true(records_hold(tci_str_of(digest.bytes, sizeof digest.bytes)));
    assert_false(records_hold(tci_str(credential)));
    assert_false(records_hold(tci_str_of(code, sizeof code)));
    assert_false(records_hold(tci_str_of(token, sizeof token)));
    reopen(r);
    assert_false(records_hold(tci_str(credential)));
    assert_false(records_hold(tci_str_of(token, sizeof token)));
}

static void test_one_owner_of_the_records(void **state)
{
    rig *r = *state;
    tci_host_db *other;
    assert_int_equal(tci_host_db_open(FOLDER, &other, &r->err), TC_E_BUSY);
}

/* A process that dies leaves what it has answered, and nobody locked out. */
static void test_what_was_answered_survives_a_death(void **state)
{
    rig *r = *state;
    int status;
    tci_host_device *all;
    tci_host_db_close(r->db);
    r->db = NULL;
    pid_t pid = fork();
    if (pid == 0) {
        tci_host_db *db;
        tci_pair_answer answer;
        tci_pair_ask ask = ask_of("device-1", "one");
        int rc = tci_host_db_open(FOLDER, &db, &r->err);
        if (rc == 0)
            rc = tci_host_pair(db, START, &ask, &r->arena, &answer, &r->err);
        _exit(rc == 0 ? 0 : 1); /* closes nothing */
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(tci_host_db_open(FOLDER, &r->db, &r->err), 0);
    assert_int_equal(list(r, &all), 1);
    check_same(all[0].device_id, TC_STR("device-1"));
}

static void execute(const char *sql)
{
    sqlite3 *db;
    assert_int_equal(sqlite3_open("records/host.sqlite", &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static void test_foreign_records_are_left_alone(void **state)
{
    rig *r = *state;
    tci_host_db *db;
    TCI_FILE_AUTO f = TCI_FILE_NONE;
    tci_host_db_close(r->db);
    r->db = NULL;
    execute("PRAGMA user_version=99");
    assert_int_equal(tci_host_db_open(FOLDER, &db, &r->err), TC_E_INCOMPATIBLE);
    assert_string_not_equal(r->err.hint, "");
    assert_int_equal(tci_file_openat(TCI_FILE_CWD, TC_STR("records/host.sqlite"),
                                     TCI_OPEN_WRITE | TCI_OPEN_TRUNCATE, 0, &f, &r->err),
                     0);
    char noise[8192];
    memset(noise, 'x', sizeof noise);
    assert_int_equal(tci_file_write_all(f, noise, sizeof noise, &r->err), 0);
    assert_int_equal(tci_host_db_open(FOLDER, &db, &r->err), TC_E_PARSE);
    assert_true(file_holds("records/host.sqlite", tci_str_of(noise, sizeof noise)));
}

static void test_folder_that_others_see_is_refused(void **state)
{
    rig *r = *state;
    tci_host_db *db;
    tci_host_db_close(r->db);
    r->db = NULL;
    assert_int_equal(chmod("records", 0755), 0);
    assert_int_equal(tci_host_db_open(FOLDER, &db, &r->err), TC_E_DENIED);
    assert_int_equal(mode_of("records"), 0755); /* not ours to change */
    assert_int_equal(chmod("records", 0700), 0);
    assert_int_equal(tci_host_db_open(FOLDER, &r->db, &r->err), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_approved_once_for_good),
        TEST(test_late_code_is_replaced),
        TEST(test_clock_that_is_set_back),
        TEST(test_rejected_until_its_time_is_over),
        TEST(test_decision_names_the_request_that_was_seen),
        TEST(test_other_credential_is_refused_and_shown),
        TEST(test_revoked_stays_out_case_68),
        TEST(test_waiting_device_can_be_revoked),
        TEST(test_interrupted_pairing_ends_in_one_device_case_69),
        TEST(test_too_many_requests_wait),
        TEST(test_no_new_request_over_the_limit),
        TEST(test_link_works_once),
        TEST(test_late_link_and_signing_out),
        TEST(test_files_are_the_owners_alone_and_hold_no_secret),
        TEST(test_one_owner_of_the_records),
        TEST(test_what_was_answered_survives_a_death),
        TEST(test_foreign_records_are_left_alone),
        TEST(test_folder_that_others_see_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
