/* SPDX-License-Identifier: Apache-2.0
 *
 * An SQLite session on a disk that breaks at every write and sync there is: after opening again each
 * commit is there wholly or not at all, with all before it, and what was acknowledged as synced is there.
 * TC_FULL=1: commits synced, lazy and deferred in every order that chance finds, the log cut at every byte. */
#include "sqlite_fault.h"
#include "store_script.h"

#include "plat/file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>
#include <sqlite3.h>

#define CONV "\"conversationId\":1"
#define DOC(id, kind)                                                          \
    "{\"type\":\"document.create\",\"record\":{\"id\":" id ",\"kind\":\"" kind \
    "\",\"scope\":{\"kind\":\"conversation\"," CONV                            \
    "},\"history\":\"latest\",\"fork\":\"initial\"},"                          \
    "\"content\":{\"version\":1,\"kind\":\"base\",\"value\":{\"text\":\"\"}}}"
#define TASK(state)                                                                             \
    "{\"type\":\"task\",\"value\":{\"id\":6," CONV                                              \
    ",\"kind\":\"pi.tool\",\"version\":2,\"input\":{},\"background\":false,\"abortRequested\":" \
    "false,\"state\":{\"status\":" state "}}}"
#define DELTA(text)                                                                         \
    "{\"type\":\"document.change\",\"id\":2,\"content\":{\"version\":1,\"kind\":\"delta\"," \
    "\"ops\":[[\"a\",[\"text\"],\"" text "\"]]}}"
#define BASE(text)                                                                         \
    "{\"type\":\"document.change\",\"id\":2,\"content\":{\"version\":1,\"kind\":\"base\"," \
    "\"value\":{\"text\":\"" text "\"}}}"
#define ENTRY(id)                                                                 \
    "{\"type\":\"entry\",\"value\":{\"id\":" id "," CONV ",\"kind\":\"pi.user\"," \
    "\"model\":[{\"role\":\"user\",\"content\":\"a text that takes its place\"}]}}"

/* What happens, in the shapes of a turn with a tool. */
static const char *const commits[] = {
    "[{\"type\":\"conversation\",\"value\":{\"id\":1}}," DOC("2", "pi.live") "," DOC(
        "3", "pi.usage") "]",
    "[" ENTRY("4") ",{\"type\":\"submission\",\"value\":{" CONV
                   ",\"requestId\":\"r\",\"type\":\"input\",\"status\":\"placed\",\"entry\":4,"
                   "\"id\":5}}," TASK("\"pending\",\"checkpoint\":{}") "]",
    "[" TASK("\"running\",\"checkpoint\":{\"phase\":\"call\"}") "," DELTA("one ") "]",
    "[" DELTA("two ") "]",
    "[" TASK("\"running\",\"checkpoint\":{\"phase\":\"execute\"}") "," DELTA("three") "]",
    "[" ENTRY("7") "," TASK("\"terminal\",\"outcome\":{\"status\":\"completed\",\"result\":{}"
                            "}") "," BASE("done") ",{\"type\":\"document.retire\",\"id\":3}]",
    "[" BASE("again") "]",
};
enum { NCOMMITS = sizeof commits / sizeof commits[0], DUMP_MAX = 64 * 1024 };

/* How each of them is committed: synced, lazy, or deferred. With NORMAL durability the words are the
 * same, and none of them is promised to outlive the power. */
typedef struct mix {
    char hows[NCOMMITS + 1];
    tci_durability durability;
} mix;
static const mix fixed_mixes[] = {
    {"SSSLSSL", TCI_DURABILITY_FULL},
    {"LDSDDSD", TCI_DURABILITY_FULL},
    {"LLLDLLL", TCI_DURABILITY_NORMAL},
    {"SDDLSDD", TCI_DURABILITY_FULL}, /* from here on with TC_FULL */
};
enum { NFIXED = sizeof fixed_mixes / sizeof fixed_mixes[0], NMIXES = 3, NMIXES_FULL = 24 };
static const mix *mixed = fixed_mixes; /* the present one */

/* What the session looks like after each number of commits. */
static char *states[NCOMMITS + 1];

static tci_commit_how how_of(size_t i)
{
    char c = mixed->hows[i];
    return c == 'S' ? TCI_COMMIT_SYNCED : c == 'L' ? TCI_COMMIT_LAZY : TCI_COMMIT_DEFERRED;
}

/* Few pages: written back in mid-run, too. */
static int open_few_pages(const char *path, tci_store **ret, tc_err *err)
{
    const tci_store_options few_pages = {.wal_pages = 6, .durability = mixed->durability};
    return tci_store_open(tci_str(path), &few_pages, ret, err);
}

static tci_store *must_open(const char *path)
{
    tc_err err;
    tci_store *store = NULL;
    if (open_few_pages(path, &store, &err) < 0)
        fail_msg("open, %s: %s", mixed->hows, err.msg);
    return store;
}

static void must_commit(tci_store *store, size_t i, const char *when)
{
    tc_err err;
    uint64_t seq;
    if (script_commit(store, tci_str(commits[i]), how_of(i), &seq, &err) < 0)
        fail_msg("%s, commit %zu of %s: %s", when, i, mixed->hows, err.msg);
}

/* Each of the mixes in turn; false: there are no more. */
static bool next_mix(size_t *n, uint64_t *chance, mix *own)
{
    size_t count = getenv("TC_FULL") != NULL ? NMIXES_FULL : NMIXES;
    if (*n == count) {
        mixed = fixed_mixes;
        return false;
    }
    if (*n < NFIXED) {
        mixed = &fixed_mixes[*n];
    } else {
        for (size_t i = 0; i < NCOMMITS; i++) {
            *chance = *chance * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
            own->hows[i] = "SLDD"[*chance >> 62];
        }
        own->durability = *n % 4 == 0 ? TCI_DURABILITY_NORMAL : TCI_DURABILITY_FULL;
        mixed = own;
    }
    ++*n;
    return true;
}
#define EACH_MIX             \
    uint64_t chance_ = 1;    \
    mix own_ = {.hows = ""}; \
    for (size_t mix_ = 0; next_mix(&mix_, &chance_, &own_);)

static char *dump_of(tci_store *store)
{
    tc_err err;
    tci_buf b;
    tci_buf_init(&b, DUMP_MAX);
    if (script_dump(store, true, &b, &err) < 0)
        fail_msg("dump: %s", err.msg);
    char *text = tci_mem_cstr(tci_buf_str(&b));
    tci_buf_done(&b);
    assert_non_null(text);
    return text;
}

static void remove_session(const char *path)
{
    static const char *const suffixes[] = {"", "-wal", "-shm", "-owner.lock"};
    for (size_t i = 0; i < TCI_ARRAY_LEN(suffixes); i++) {
        char name[64];
        (void)snprintf(name, sizeof name, "%s%s", path, suffixes[i]);
        tci_file_discard(TCI_FILE_CWD, tci_str(name));
    }
}

/* An empty session where there was none, or another. */
static void copy_session(const char *from, const char *to)
{
    tc_err err;
    char *bytes;
    size_t len;
    tci_file f;
    remove_session(to);
    if (tci_file_read_whole(TCI_FILE_CWD, tci_str(from), 1 << 20, &bytes, &len, &err) < 0 ||
        tci_file_openat(TCI_FILE_CWD, tci_str(to), TCI_OPEN_WRITE | TCI_OPEN_CREATE, 0600, &f,
                        &err) < 0 ||
        tci_file_write_all(f, bytes, len, &err) < 0)
        fail_msg("%s", err.msg);
    tci_file_close(&f);
    tci_free(bytes);
}

static int set_up(void **state)
{
    TCI_UNUSED(state);
    fault_install();
    remove_session("empty.sqlite");
    tci_store *store = must_open("empty.sqlite");
    tc_err err;
    assert_int_equal(tci_store_close(store, &err), 0);
    fault_restart(AFTER_KILL, 0);
    copy_session("empty.sqlite", "reference.sqlite");
    store = must_open("reference.sqlite");
    states[0] = dump_of(store);
    for (size_t i = 0; i < NCOMMITS; i++) {
        must_commit(store, i, "first");
        states[i + 1] = dump_of(store);
    }
    assert_int_equal(tci_store_close(store, &err), 0);
    fault_restart(AFTER_KILL, 0);
    return 0;
}

static int tear_down(void **state)
{
    TCI_UNUSED(state);
    for (size_t i = 0; i <= NCOMMITS; i++)
        tci_free(states[i]);
    fault_uninstall();
    return 0;
}

/* How far a run came before the disk broke. */
typedef struct progress {
    size_t nacknowledged;
    size_t ngiven;  /* to the system: acknowledged and not deferred, or before such a one */
    size_t nsynced; /* acknowledged as such, or before one that was */
    tc_code failure;
} progress;

/* Everything from the first opening to closing. */
static progress run_all(const char *path)
{
    progress p = {.failure = TC_OK};
    tc_err err;
    tci_store *store = NULL;
    if (open_few_pages(path, &store, &err) < 0) {
        p.failure = err.code;
        return p;
    }
    for (size_t i = 0; i < NCOMMITS; i++) {
        uint64_t seq;
        if (script_commit(store, tci_str(commits[i]), how_of(i), &seq, &err) < 0) {
            p.failure = err.code;
            /* Nothing more is done or told by a storage that failed. */
            uint64_t id;
            if (tci_store_mint(store, &id, &err) != TC_E_NOT_READY ||
                script_commit(store, TC_STR("[]"), TCI_COMMIT_SYNCED, &seq, &err) != TC_E_NOT_READY)
                fail_msg("goes on after a failure");
            break;
        }
        p.nacknowledged = i + 1;
        if (how_of(i) != TCI_COMMIT_DEFERRED)
            p.ngiven = i + 1;
        if (how_of(i) == TCI_COMMIT_SYNCED && mixed->durability == TCI_DURABILITY_FULL)
            p.nsynced = i + 1;
    }
    /* It may fail as well: the disk is broken. */
    if (tci_store_close(store, &err) == 0 && p.failure == TC_OK)
        p.ngiven = p.nsynced = NCOMMITS;
    return p;
}

/* Deferred commits come with the one they were waiting for, or not at all. */
static bool is_between_joined(size_t at)
{
    return at > 0 && at < NCOMMITS && how_of(at - 1) == TCI_COMMIT_DEFERRED;
}

/* The state found is one of those from `least` to `most` commits; the session goes on from there. */
static void check_found(const char *path, size_t least, size_t most, const char *what, unsigned n)
{
    tc_err err;
    tci_store *store = must_open(path);
    char *found = dump_of(store);
    size_t at = NCOMMITS + 1;
    for (size_t i = 0; i <= NCOMMITS; i++)
        if (strcmp(found, states[i]) == 0)
            at = i;
    if (at < least || at > most || is_between_joined(at))
        fail_msg("%s at operation %u of %s: found the state after commit %zu, expected %zu to "
                 "%zu:\n%s",
                 what, n, mixed->hows, at, least, most, found);
    for (size_t i = at; i < NCOMMITS; i++)
        must_commit(store, i, "going on");
    tci_free(found);
    found = dump_of(store);
    assert_string_equal(found, states[NCOMMITS]);
    tci_free(found);
    assert_int_equal(tci_store_close(store, &err), 0);
    fault_restart(AFTER_KILL, 0);
}

/* is_new: from making the file on, else from opening an empty session. */
static void each_operation_of_a_mix(fault_how how, fault_after after, bool is_new, const char *what)
{
    unsigned n = 1;
    for (bool is_over = false; !is_over; n++) {
        if (is_new)
            remove_session("broken.sqlite");
        else
            copy_session("empty.sqlite", "broken.sqlite");
        fault_set(how, n);
        progress p = run_all("broken.sqlite");
        is_over = !fault_has_struck();
        bool is_lossy = after != AFTER_KILL;
        fault_restart(after, n);
        check_found("broken.sqlite", is_lossy ? p.nsynced : p.ngiven,
                    p.nacknowledged + 1 < NCOMMITS ? p.nacknowledged + 1 : NCOMMITS, what, n);
    }
    assert_true(n > 25); /* it did go through the commits */
}

static void each_operation(fault_how how, fault_after after, bool is_new, const char *what)
{
    EACH_MIX each_operation_of_a_mix(how, after, is_new, what);
}

static void killed_before_every_operation(void **state)
{
    TCI_UNUSED(state);
    each_operation(FAULT_DIES, AFTER_KILL, false, "kill");
}

static void killed_in_mid_write(void **state)
{
    TCI_UNUSED(state);
    each_operation(FAULT_CUTS, AFTER_KILL, false, "cut");
}

static void power_cut_at_every_operation_keeps_what_was_synced(void **state)
{
    TCI_UNUSED(state);
    each_operation(FAULT_DIES, AFTER_POWER_CUT, false, "power cut");
}

static void power_cut_that_keeps_parts(void **state)
{
    TCI_UNUSED(state);
    each_operation(FAULT_CUTS, AFTER_POWER_PARTS, true, "power cut with parts");
}

/* case 77: a full disk ends the commit it meets; what was acknowledged is there, and once there is
 * space again an opening goes on. */
static void full_at_every_operation(void)
{
    unsigned n = 1;
    for (bool is_over = false; !is_over; n++) {
        copy_session("empty.sqlite", "broken.sqlite");
        fault_set(FAULT_FULL, n);
        progress p = run_all("broken.sqlite");
        is_over = !fault_has_struck();
        if (p.failure != TC_OK)
            assert_int_equal(p.failure, TC_E_NO_SPACE);
        fault_restart(AFTER_KILL, 0);
        size_t most = p.nacknowledged + 1 < NCOMMITS ? p.nacknowledged + 1 : NCOMMITS;
        check_found("broken.sqlite", p.ngiven, most, "full", n);
    }
}

static void case_77_disk_full_at_every_operation(void **state)
{
    TCI_UNUSED(state);
    EACH_MIX full_at_every_operation();
}

static void each_sync_fails(void)
{
    size_t nfailed = 0, nwanted = 0;
    unsigned n = 1;
    for (bool is_over = false; !is_over; n++) {
        copy_session("empty.sqlite", "broken.sqlite");
        fault_set(FAULT_SYNC_FAILS, n);
        progress p = run_all("broken.sqlite");
        is_over = !fault_has_struck();
        nfailed += p.failure != TC_OK;
        fault_restart(AFTER_POWER_CUT, 0);
        check_found("broken.sqlite", p.nsynced,
                    p.nacknowledged + 1 < NCOMMITS ? p.nacknowledged + 1 : NCOMMITS, "sync", n);
    }
    for (size_t i = 0; i < NCOMMITS && mixed->durability == TCI_DURABILITY_FULL; i++)
        nwanted += how_of(i) == TCI_COMMIT_SYNCED;
    assert_true(nfailed >= nwanted); /* one for each synced commit at least */
}

static void a_failing_sync_is_an_error_of_the_commit(void **state)
{
    TCI_UNUSED(state);
    EACH_MIX each_sync_fails();
}

static size_t size_of(const char *path)
{
    tc_err err;
    tci_file_stat st;
    return tci_file_stat_at(TCI_FILE_CWD, tci_str(path), true, &st, &err) == 0 ? (size_t)st.size
                                                                               : 0;
}

/* The file and its log up to a byte, under another name. */
static void copy_cut(const char *from, const char *to, size_t log_bytes)
{
    tc_err err;
    char log[64], log_copy[64];
    tci_file f;
    copy_session(from, to);
    (void)snprintf(log, sizeof log, "%s-wal", from);
    (void)snprintf(log_copy, sizeof log_copy, "%s-wal", to);
    copy_session(log, log_copy);
    if (tci_file_openat(TCI_FILE_CWD, tci_str(log_copy), TCI_OPEN_WRITE, 0, &f, &err) < 0 ||
        tci_file_truncate(f, log_bytes, &err) < 0)
        fail_msg("%s", err.msg);
    tci_file_close(&f);
}

/* case 72: cut anywhere in its last commit, the log ends with the commit before. */
static void case_72_log_cut_at_every_place_of_the_last_commit(void **state)
{
    TCI_UNUSED(state);
    enum { LAST = 5 };
    size_t step = getenv("TC_FULL") != NULL ? 1 : 11;
    tc_err err;
    size_t before = 0, after = 0;
    copy_session("empty.sqlite", "whole.sqlite");
    const tci_store_options all_in_log = {.wal_pages = 100000};
    tci_store *store = NULL;
    assert_int_equal(tci_store_open(TC_STR("whole.sqlite"), &all_in_log, &store, &err), 0);
    for (size_t i = 0; i < LAST; i++) {
        before = size_of("whole.sqlite-wal");
        must_commit(store, i, "before the cut");
        after = size_of("whole.sqlite-wal");
    }
    assert_true(after > before);
    copy_cut("whole.sqlite", "image.sqlite", after);
    assert_int_equal(tci_store_close(store, &err), 0);
    fault_restart(AFTER_KILL, 0);
    for (size_t cut = before; cut <= after;
         cut = cut == after || cut + step < after ? cut + step : after) {
        copy_cut("image.sqlite", "cut.sqlite", cut);
        size_t expected = cut == after ? LAST : LAST - 1;
        check_found("cut.sqlite", expected, expected, "log cut", (unsigned)cut);
    }
}

/* Deferred commits and the one that takes them along: cut at any byte, the log has none of them. */
static void a_log_cut_inside_joined_commits_has_none_of_them(void **state)
{
    TCI_UNUSED(state);
    enum { BEFORE = 1, JOINED = 4 };
    size_t step = getenv("TC_FULL") != NULL ? 1 : 7;
    static const mix joined = {"SDDSSSS", TCI_DURABILITY_FULL};
    tc_err err;
    size_t before = 0, after;
    mixed = &joined;
    copy_session("empty.sqlite", "whole.sqlite");
    const tci_store_options all_in_log = {.wal_pages = 100000};
    tci_store *store = NULL;
    assert_int_equal(tci_store_open(TC_STR("whole.sqlite"), &all_in_log, &store, &err), 0);
    for (size_t i = 0; i < JOINED; i++) {
        must_commit(store, i, "before the cut");
        if (i + 1 == BEFORE)
            before = size_of("whole.sqlite-wal");
        else if (i + 1 < JOINED)
            assert_int_equal(size_of("whole.sqlite-wal"), before);
    }
    after = size_of("whole.sqlite-wal");
    assert_true(after > before);
    copy_cut("whole.sqlite", "image.sqlite", after);
    assert_int_equal(tci_store_close(store, &err), 0);
    fault_restart(AFTER_KILL, 0);
    for (size_t cut = before; cut <= after;
         cut = cut == after || cut + step < after ? cut + step : after) {
        copy_cut("image.sqlite", "cut.sqlite", cut);
        size_t expected = cut == after ? JOINED : BEFORE;
        check_found("cut.sqlite", expected, expected, "log cut", (unsigned)cut);
    }
    mixed = fixed_mixes;
}

/* A refusal takes nothing from what waits before it, whichever way the batch was to be committed, and what
 * cannot wait itself does not keep the rest waiting. */
static void what_is_refused_leaves_deferred_commits_alone(void **state)
{
    TCI_UNUSED(state);
    static const mix all_deferred = {"DDDDDDD", TCI_DURABILITY_FULL};
    static const tci_commit_how hows[] = {TCI_COMMIT_SYNCED, TCI_COMMIT_LAZY, TCI_COMMIT_DEFERRED};
    static const char *const refused[] = {
        "[" ENTRY("40") "," ENTRY("2") "]",
        "[" DELTA("more") "," DELTA("more") "]",
        "[" ENTRY("40") ",{\"type\":\"document.retire\",\"id\":99}]",
        "[" ENTRY("40") "," DOC("41", "pi.live") "]",
    };
    mixed = &all_deferred;
    tc_err err;
    uint64_t seq, last = 0;
    copy_session("empty.sqlite", "refused.sqlite");
    tci_store *store = must_open("refused.sqlite");
    for (size_t i = 0; i < NCOMMITS; i++) {
        for (size_t k = 0; i > 0 && k < TCI_ARRAY_LEN(refused) * TCI_ARRAY_LEN(hows); k++) {
            tci_commit_how how = hows[k % TCI_ARRAY_LEN(hows)];
            int rc =
                script_commit(store, tci_str(refused[k / TCI_ARRAY_LEN(hows)]), how, &seq, &err);
            if (rc != TC_E_CONFLICT && rc != TC_E_INVALID && rc != TC_E_NOT_FOUND)
                fail_msg("batch %zu after commit %zu: %d", k, i, rc);
        }
        if (script_commit(store, tci_str(commits[i]), how_of(i), &seq, &err) < 0)
            fail_msg("commit %zu: %s", i, err.msg);
        assert_int_equal(seq, last + 1);
        last = seq;
        char *text = dump_of(store);
        assert_string_equal(text, states[i + 1]);
        tci_free(text);
    }
    assert_int_equal(tci_store_close(store, &err), 0);
    fault_restart(AFTER_POWER_CUT, 0);
    check_found("refused.sqlite", NCOMMITS, NCOMMITS, "refusals", 0);
    mixed = fixed_mixes;
}

/* Number n of some that are large: an entry, and a document that is written anew each time. */
static int commit_large(tci_store *store, unsigned n, tci_commit_how how, tc_err *err)
{
    enum { TEXT = 240 * 1024 };
    uint64_t seq;
    tci_buf b;
    tci_buf_init(&b, TCI_BUF_MAX);
    char *text = tci_mem_alloc(TEXT);
    assert_non_null(text);
    memset(text, 'a' + (int)n, TEXT);
    tc_str long_text = tci_str_of(text, TEXT);
    tci_buf_printf(&b,
                   "[{\"type\":\"entry\",\"value\":{\"id\":%u,\"conversationId\":1,\"kind\":\"k\","
                   "\"data\":\"%.*s\"}},",
                   n + 10, TC_STR_ARG(long_text));
    tci_buf_printf(&b,
                   "{\"type\":\"document.change\",\"id\":2,\"content\":{\"version\":1,\"kind\":"
                   "\"base\",\"value\":{\"text\":\"%.*s\"}}}]",
                   TC_STR_ARG(long_text));
    int rc = script_commit(store, tci_buf_str(&b), how, &seq, err);
    tci_mem_free(text);
    tci_buf_done(&b);
    return rc < 0 ? rc : 0;
}

/* How many of them are there; the document is that of the last. */
static unsigned count_large(tci_store *store)
{
    enum { LARGE_MAX = 20 };
    tc_err err;
    tci_arena a;
    tci_document_state state;
    tci_tree value;
    tci_entry e;
    unsigned n = 0;
    tci_arena_init(&a, 0);
    for (; n < LARGE_MAX; n++) {
        assert_int_equal(tci_store_entry(store, 0, n + 11, &a, &e, NULL, &err), 0);
        if (e.id == 0)
            break;
    }
    assert_int_equal(tci_store_document(store, 2, 0, &a, &state, &value, &err), 0);
    tc_str text;
    assert_true(tci_json_as_str(tci_json_get(&value.root, TC_STR("text")), &text));
    if (n == 0)
        assert_int_equal(text.len, 0);
    else
        assert_int_equal(text.ptr[text.len - 1], 'a' + (int)n);
    tci_tree_done(&value);
    tci_arena_done(&a);
    return n;
}

/* Deferred commits that outgrow SQLite's cache: their pages go to the log before the transaction ends, and
 * some of them twice. Broken anywhere, there are all of them or none. */
static void deferred_commits_larger_than_the_cache(void **state)
{
    TCI_UNUSED(state);
    enum { LARGE = 5 };
    static const struct {
        fault_how how;
        fault_after after;
    } ways[] = {{FAULT_CUTS, AFTER_KILL},
                {FAULT_DIES, AFTER_POWER_CUT},
                {FAULT_CUTS, AFTER_POWER_PARTS},
                {FAULT_FULL, AFTER_KILL},
                {FAULT_SYNC_FAILS, AFTER_POWER_CUT}};
    tc_err err;
    for (size_t way = 0; way < TCI_ARRAY_LEN(ways); way++) {
        bool is_over = false, is_sync = ways[way].how == FAULT_SYNC_FAILS;
        for (unsigned n = 1; !is_over; n += is_sync ? 1 : 1 + n) {
            copy_session("empty.sqlite", "large.sqlite");
            tci_store *store = must_open("large.sqlite");
            must_commit(store, 0, "before the large ones");
            fault_set(ways[way].how, n);
            unsigned nacknowledged = 0;
            int rc = 0;
            for (unsigned i = 1; rc == 0 && i <= LARGE; i++) {
                rc = commit_large(store, i, i < LARGE ? TCI_COMMIT_DEFERRED : TCI_COMMIT_SYNCED,
                                  &err);
                nacknowledged += rc == 0;
            }
            is_over = !fault_has_struck() || nacknowledged == LARGE;
            (void)!tci_store_close(store, &err);
            fault_restart(ways[way].after, n);
            store = must_open("large.sqlite");
            unsigned found = count_large(store);
            if ((found != 0 && found != LARGE) || (nacknowledged == LARGE && found != LARGE))
                fail_msg("way %zu, operation %u: %u acknowledged, %u found", way, n, nacknowledged,
                         found);
            for (unsigned i = found + 1; i <= LARGE; i++)
                assert_int_equal(commit_large(store, i, TCI_COMMIT_DEFERRED, &err), 0);
            assert_int_equal(count_large(store), LARGE);
            assert_int_equal(tci_store_close(store, &err), 0);
            fault_restart(AFTER_KILL, 0);
        }
    }
}

/* A reader keeps the log from being written back; what was not synced yet is synced by closing. */
static void closing_beside_a_reader_syncs_what_was_lazy(void **state)
{
    TCI_UNUSED(state);
    static const mix lazy = {"SLLLDLL", TCI_DURABILITY_FULL};
    mixed = &lazy;
    tc_err err;
    tci_store *store = NULL;
    copy_session("empty.sqlite", "held.sqlite");
    const tci_store_options impatient = {.busy_timeout_ms = 1};
    assert_int_equal(tci_store_open(TC_STR("held.sqlite"), &impatient, &store, &err), 0);
    sqlite3 *reader;
    assert_int_equal(sqlite3_open("held.sqlite", &reader), SQLITE_OK);
    assert_int_equal(sqlite3_exec(reader, "BEGIN; SELECT * FROM entries", 0, 0, 0), SQLITE_OK);
    for (size_t i = 0; i < NCOMMITS; i++)
        must_commit(store, i, "beside a reader");
    assert_int_equal(tci_store_close(store, &err), 0);
    /* What closing the reader writes is not what is looked at. */
    fault_set(FAULT_DIES, 1);
    (void)sqlite3_close(reader);
    fault_restart(AFTER_POWER_CUT, 0);
    check_found("held.sqlite", NCOMMITS, NCOMMITS, "closed beside a reader", 0);
    mixed = fixed_mixes;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(killed_before_every_operation),
        cmocka_unit_test(killed_in_mid_write),
        cmocka_unit_test(power_cut_at_every_operation_keeps_what_was_synced),
        cmocka_unit_test(power_cut_that_keeps_parts),
        cmocka_unit_test(case_77_disk_full_at_every_operation),
        cmocka_unit_test(a_failing_sync_is_an_error_of_the_commit),
        cmocka_unit_test(case_72_log_cut_at_every_place_of_the_last_commit),
        cmocka_unit_test(a_log_cut_inside_joined_commits_has_none_of_them),
        cmocka_unit_test(what_is_refused_leaves_deferred_commits_alone),
        cmocka_unit_test(deferred_commits_larger_than_the_cache),
        cmocka_unit_test(closing_beside_a_reader_syncs_what_was_lazy),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
