/* SPDX-License-Identifier: Apache-2.0
 *
 * A process that writes a session is killed at any moment, again and again: what it had acknowledged is
 * there (but for deferred commits with nothing after them), the rest wholly or not at all, and the next
 * process takes over at once. TC_FULL=1: many times. */
#include "store_script.h"

#include "base/num.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { ROUNDS = 8, ROUNDS_FULL = 200, PAUSE_US_MAX = 3000, FIRST_ID = 10 };

/* How commit number n is made, in words of one letter. */
static tci_commit_how how_of(const char *hows, uint64_t n)
{
    char c = hows[n % strlen(hows)];
    return c == 'S' ? TCI_COMMIT_SYNCED : c == 'L' ? TCI_COMMIT_LAZY : TCI_COMMIT_DEFERRED;
}

/* Commit number n: an entry, the task, the document; from n alone. */
static int commit_number(tci_store *store, uint64_t n, tci_commit_how how, tc_err *err)
{
    char writes[1024];
    uint64_t seq = 0;
    unsigned long long id = FIRST_ID + n;
    (void)snprintf(
        writes, sizeof writes,
        "[{\"type\":\"entry\",\"value\":{\"id\":%llu,\"conversationId\":1,\"kind\":\"k\",\"data\":%"
        "llu}},"
        "{\"type\":\"task\",\"value\":{\"id\":3,\"conversationId\":1,\"kind\":\"k\",\"version\":1,"
        "\"input\":%llu,\"background\":false,\"abortRequested\":false,\"state\":{\"status\":\"%s\","
        "\"checkpoint\":{}}}},{\"type\":\"document.change\",\"id\":2,\"content\":{\"version\":1,"
        "\"kind\":\"%s\",\"%s\":%s%llu%s}}]",
        id, id, id, n % 3 == 0 ? "pending" : "running", n % 5 == 0 ? "base" : "delta",
        n % 5 == 0 ? "value" : "ops", n % 5 == 0 ? "{\"n\":" : "[[\"s\",[\"n\"],", id,
        n % 5 == 0 ? "}" : "]]");
    int rc = script_commit(store, tci_str(writes), how, &seq, err);
    return rc < 0 ? rc : 0;
}

static void make_session(const char *path)
{
    tc_err err;
    uint64_t seq;
    tci_store *store;
    if (tci_store_open(tci_str(path), NULL, &store, &err) < 0 ||
        script_commit(store,
                      TC_STR("[{\"type\":\"conversation\",\"value\":{\"id\":1}},{\"type\":"
                             "\"document.create\",\"record\":{\"id\":2,\"kind\":\"k\",\"scope\":{"
                             "\"kind\":\"session\"}},\"content\":{\"version\":1,\"kind\":\"base\","
                             "\"value\":{\"n\":0}}}]"),
                      TCI_COMMIT_SYNCED, &seq, &err) < 0 ||
        tci_store_close(store, &err) < 0)
        fail_msg("%s", err.msg);
}

/* The last commit that is there; every earlier one and all of this one must be, too. */
static uint64_t check_session(const char *path)
{
    tc_err err;
    tci_arena a;
    tci_store *store;
    tci_entry *entries = NULL;
    tci_cursor next;
    size_t count = 0;
    const tci_page newest = {.limit = 1};
    tci_arena_init(&a, 0);
    /* No lock of the dead is in the way: there is no time to wait for one. */
    const tci_store_options at_once = {.busy_timeout_ms = 1};
    if (tci_store_open(tci_str(path), &at_once, &store, &err) < 0)
        fail_msg("open: %s", err.msg);
    assert_int_equal(
        tci_store_scan_entries(store, 1, 0, 0, &newest, &a, &entries, &count, &next, &err), 0);
    uint64_t last = count != 0 ? entries[0].id : 0, n = 0, input = 0;
    for (uint64_t id = FIRST_ID + 1; id < last; id++) {
        tci_entry e;
        assert_int_equal(tci_store_entry(store, 0, id, &a, &e, NULL, &err), 0);
        assert_int_equal(e.id, id);
    }
    tci_document_state state;
    tci_tree value;
    tci_task task;
    tci_json v;
    assert_int_equal(tci_store_document(store, 2, 0, &a, &state, &value, &err), 0);
    assert_true(tci_json_as_u64(tci_json_get(&value.root, TC_STR("n")), &n));
    assert_int_equal(n, last);
    assert_int_equal(tci_store_task(store, 3, &a, &task, &err), 0);
    if (last != 0) {
        assert_int_equal(tci_json_parse(task.json, 0, &a, &v, &err), 0);
        assert_true(tci_json_as_u64(tci_json_get(&v, TC_STR("input")), &input));
        assert_int_equal(input, last);
    }
    tci_tree_done(&value);
    tci_arena_done(&a);
    assert_int_equal(tci_store_close(store, &err), 0);
    return last;
}

/* The child: one line for each commit, when it is done. */
static void write_until_killed(const char *path, const char *hows, uint64_t next, int out)
{
    tc_err err;
    tci_store *store;
    const tci_store_options few_pages = {.wal_pages = 60}; /* written back in between, too */
    if (tci_store_open(tci_str(path), &few_pages, &store, &err) < 0)
        _exit(1);
    for (uint64_t n = next;; n++) {
        if (commit_number(store, n, how_of(hows, n), &err) < 0 ||
            write(out, &n, sizeof n) != sizeof n)
            _exit(2);
    }
}

static void kill_again_and_again(const char *path, const char *hows)
{
    unsigned long long random = 12345;
    int nrounds = getenv("TC_FULL") != NULL ? ROUNDS_FULL : ROUNDS;
    make_session(path);
    uint64_t next = 1;
    for (int round = 0; round < nrounds; round++) {
        int ends[2], status;
        assert_int_equal(pipe(ends), 0);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0)
            write_until_killed(path, hows, next, ends[1]);
        (void)close(ends[1]);
        random = random * 6364136223846793005ULL + 1442695040888963407ULL;
        uint64_t acknowledged = next - 1, n;
        for (uint64_t left = (random >> 40) % 4; left > 0; left--) {
            assert_int_equal(read(ends[0], &n, sizeof n), sizeof n);
            acknowledged = n;
        }
        /* The moment is what is being tested. */
        struct timespec pause = {.tv_nsec = (long)((random >> 33) % PAUSE_US_MAX) * 1000};
        (void)nanosleep(&pause, NULL);
        assert_int_equal(kill(child, SIGKILL), 0);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status));
        while (read(ends[0], &n, sizeof n) == sizeof n)
            acknowledged = n;
        (void)close(ends[0]);
        uint64_t last = check_session(path);
        uint64_t found = last != 0 ? last - FIRST_ID : 0;
        uint64_t kept = acknowledged;
        while (kept >= next && how_of(hows, kept) == TCI_COMMIT_DEFERRED)
            kept--;
        if (found < kept || found > acknowledged + 1)
            fail_msg("round %d: %llu acknowledged, %llu to be kept, %llu found", round,
                     (unsigned long long)acknowledged, (unsigned long long)kept,
                     (unsigned long long)found);
        next = found + 1;
    }
    assert_true(next > 1);
}

static void sqlite_session(void **state)
{
    TCI_UNUSED(state);
    kill_again_and_again("killed.sqlite", "S");
}

static void sqlite_session_with_deferred_commits(void **state)
{
    TCI_UNUSED(state);
    kill_again_and_again("mixed.sqlite", "SDDLDSDDDL");
}

static void jsonl_session(void **state)
{
    TCI_UNUSED(state);
    kill_again_and_again("killed", "S");
}

static void jsonl_session_with_deferred_commits(void **state)
{
    TCI_UNUSED(state);
    kill_again_and_again("mixed", "SDDLDSDDDL");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sqlite_session),
        cmocka_unit_test(sqlite_session_with_deferred_commits),
        cmocka_unit_test(jsonl_session),
        cmocka_unit_test(jsonl_session_with_deferred_commits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
