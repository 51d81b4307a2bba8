/* SPDX-License-Identifier: Apache-2.0
 *
 * What `connect` keeps on the disk: made once, never replaced, never through a link, and whole after any
 * failure. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "daemon/connect/connect_int.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define ALIAS "instances/me/hosts/team/"

typedef struct fixture {
    char root[TCI_PATH_MAX];
    tci_connect_plan plan;
    tci_arena arena;
    tci_connect_state state;
    tci_runtime_dir *runtime;
    tc_err err;
    char text[4096]; /* of slurp */
} fixture;

static const char *path_of(fixture *f, const char *name)
{
    static char path[2 * TCI_PATH_MAX];
    (void)snprintf(path, sizeof path, "%s/%s", f->root, name);
    return path;
}

static const char *slurp(fixture *f, const char *name)
{
    char *text;
    size_t len;
    if (tci_file_read_whole(TCI_FILE_CWD, tci_str(path_of(f, name)), sizeof f->text - 1, &text,
                            &len, &f->err) < 0)
        return NULL;
    memcpy(f->text, text, len + 1);
    tci_free(text);
    return f->text;
}

static void spill(fixture *f, const char *name, const char *text)
{
    TCI_FILE_AUTO file = TCI_FILE_NONE;
    const unsigned flags = TCI_OPEN_WRITE | TCI_OPEN_CREATE | TCI_OPEN_TRUNCATE;
    assert_int_equal(tci_file_open(tci_str(path_of(f, name)), flags, 0600, &file, &f->err), 0);
    assert_int_equal(tci_file_write_all(file, text, strlen(text), &f->err), 0);
}

static unsigned mode_of(fixture *f, const char *name)
{
    tci_file_stat st;
    assert_int_equal(tci_file_stat_at(TCI_FILE_CWD, tci_str(path_of(f, name)), false, &st, &f->err),
                     0);
    return st.mode;
}

static bool exists(fixture *f, const char *name)
{
    tci_file_stat st;
    return tci_file_stat_at(TCI_FILE_CWD, tci_str(path_of(f, name)), false, &st, &f->err) == 0;
}

static void move(fixture *f, const char *from, const char *to)
{
    char old[2 * TCI_PATH_MAX];
    (void)snprintf(old, sizeof old, "%s", path_of(f, from));
    assert_int_equal(tci_file_rename(TCI_FILE_CWD, tci_str(old), TCI_FILE_CWD,
                                     tci_str(path_of(f, to)), TCI_RENAME_REPLACE, &f->err),
                     0);
}

/* name becomes a link to what it was. */
static void make_link(fixture *f, const char *name)
{
    char away[TCI_PATH_MAX], target[2 * TCI_PATH_MAX];
    (void)snprintf(away, sizeof away, "%s.away", name);
    move(f, name, away);
    (void)snprintf(target, sizeof target, "%s", path_of(f, away));
    assert_int_equal(
        tci_file_symlink(tci_str(target), TCI_FILE_CWD, tci_str(path_of(f, name)), &f->err), 0);
}

static int open_state(fixture *f)
{
    return tci_connect_state_open(&f->plan, &f->arena, &f->state, &f->runtime, &f->err);
}

static void leave(fixture *f)
{
    tci_connect_state_close(&f->state);
    f->state = (tci_connect_state){.folder = TCI_FILE_NONE};
    tci_runtime_dir_close(f->runtime);
    f->runtime = NULL;
}

static int open_and_leave(fixture *f)
{
    int rc = open_state(f);
    leave(f);
    return rc;
}

static void save(fixture *f, bool is_registered)
{
    assert_int_equal(open_state(f), 0);
    f->state.record.name = TC_STR("me");
    f->state.record.is_registered = is_registered;
    f->state.record.resource_id = TC_STR("dev-1");
    f->state.record.websocket_url = TC_STR("/ws");
    assert_int_equal(tci_connect_state_save(&f->state, &f->err), 0);
    leave(f);
}

static int set_up(void **state)
{
    static unsigned n;
    fixture *f = tci_new(fixture);
    assert_non_null(f);
    const char *dir = getenv("TC_TEST_DIR"); /* set by CTest */
    (void)snprintf(f->root, sizeof f->root, "%s/%u/deep/state", dir != NULL ? dir : ".", n++);
    f->plan = (tci_connect_plan){.url = TC_STR("https://h.example/"),
                                 .alias = TC_STR("team"),
                                 .instance = TC_STR("me"),
                                 .state_dir = tci_str(f->root)};
    f->state.folder = TCI_FILE_NONE;
    tci_arena_init(&f->arena, 0);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;
    leave(f);
    tci_arena_done(&f->arena);
    tci_free(f);
    return 0;
}

/* ---- ordinary ---- */

static void made_once(void **state)
{
    fixture *f = *state;
    char id[64], credential[80];
    assert_int_equal(open_state(f), 0);
    assert_true(f->state.is_new);
    (void)snprintf(id, sizeof id, "%s", slurp(f, "instances/me/device-id"));
    (void)snprintf(credential, sizeof credential, "%s", slurp(f, ALIAS "credential"));
    assert_int_equal(strlen(id), 39);
    assert_int_equal(strlen(credential), 64);
    assert_int_equal(strspn(credential, "0123456789abcdef"), 64);
    assert_true(tci_str_eq(f->state.device_id, tci_str(id)));
    assert_true(tci_secret_eq(&f->state.credential, tci_str(credential)));
    assert_int_equal(mode_of(f, "instances/me"), 0700);
    assert_int_equal(mode_of(f, "instances/me/hosts/team"), 0700);
    assert_int_equal(mode_of(f, ALIAS "runtime"), 0700);
    assert_int_equal(mode_of(f, ALIAS "credential"), 0600);
    assert_null(slurp(f, ALIAS "host.json"));
    leave(f);
    save(f, true);
    assert_string_equal(slurp(f, ALIAS "host.json"),
                        "{\n  \"url\": \"https://h.example/\",\n  \"name\": \"me\",\n"
                        "  \"ca_file\": null,\n  \"registration\": {\n"
                        "    \"resource_id\": \"dev-1\",\n    \"websocket_url\": \"/ws\"\n  }\n}");
    f->plan.url = TC_STR(""); /* by its name */
    assert_int_equal(open_state(f), 0);
    assert_false(f->state.is_new);
    assert_true(f->state.record.is_registered);
    assert_string_equal(slurp(f, "instances/me/device-id"), id);
    assert_string_equal(slurp(f, ALIAS "credential"), credential);
}

static void modes_are_mended(void **state)
{
    fixture *f = *state;
    TCI_FILE_AUTO file = TCI_FILE_NONE;
    save(f, true);
    assert_int_equal(
        tci_file_open(tci_str(path_of(f, ALIAS "credential")), TCI_OPEN_READ, 0, &file, &f->err),
        0);
    assert_int_equal(tci_file_chmod(file, 0644, &f->err), 0);
    assert_int_equal(open_and_leave(f), 0);
    assert_int_equal(mode_of(f, ALIAS "credential"), 0600);
}

static void two_hosts_and_two_installations(void **state)
{
    fixture *f = *state;
    char id[64], credential[80];
    save(f, false);
    (void)snprintf(id, sizeof id, "%s", slurp(f, "instances/me/device-id"));
    (void)snprintf(credential, sizeof credential, "%s", slurp(f, ALIAS "credential"));
    f->plan.alias = TC_STR("other");
    save(f, false);
    assert_string_equal(slurp(f, "instances/me/device-id"), id);
    assert_string_not_equal(slurp(f, "instances/me/hosts/other/credential"), credential);
    f->plan.instance = TC_STR("you");
    save(f, false);
    assert_string_not_equal(slurp(f, "instances/you/device-id"), id);
}

static void one_owner(void **state)
{
    fixture *f = *state;
    tci_connect_state second;
    tci_runtime_dir *runtime = NULL;
    assert_int_equal(open_state(f), 0);
    assert_int_equal(tci_connect_state_open(&f->plan, &f->arena, &second, &runtime, &f->err),
                     TC_E_CONFLICT);
    assert_true(tci_str_starts(tci_str(f->err.msg), TC_STR("runtime parent is already owned")));
    assert_null(runtime);
}

static void names_nobody_saved(void **state)
{
    fixture *f = *state;
    f->plan.url = TC_STR("");
    assert_int_equal(open_and_leave(f), TC_E_NOT_FOUND);
    assert_string_equal(f->err.msg, "saved Host not found; connect using its URL first");
    assert_false(exists(f, "")); /* nothing was made */
    f->plan.url = TC_STR("https://h.example/");
    assert_int_equal(open_and_leave(f), 0); /* begun, the record was never written */
    f->plan.url = TC_STR("");
    assert_int_equal(open_and_leave(f), TC_E_NOT_FOUND);
    f->plan.alias = TC_STR("other");
    assert_int_equal(open_and_leave(f), TC_E_NOT_FOUND);
    assert_false(exists(f, "instances/me/hosts/other"));
}

static void another_host_under_the_name(void **state)
{
    fixture *f = *state;
    save(f, true);
    f->plan.url = TC_STR("https://other.example/");
    assert_int_equal(open_and_leave(f), TC_E_CONFLICT);
    assert_string_equal(f->err.msg,
                        "Host name already selects another URL; use a different Host name");
}

/* ---- what may not be ---- */

/* Deleting the credential takes nothing over: a registration needs the one it was made with. */
static void case_68_a_missing_credential_is_not_replaced(void **state)
{
    fixture *f = *state;
    save(f, true);
    move(f, ALIAS "credential", "kept");
    assert_int_equal(open_and_leave(f), TC_E_INVALID);
    assert_string_equal(f->err.msg, "saved pairing credential is missing; it was not replaced");
    assert_false(exists(f, ALIAS "credential"));
    move(f, "kept", ALIAS "credential");
    assert_int_equal(open_and_leave(f), 0);
    move(f, "instances/me/device-id", "kept");
    assert_int_equal(open_and_leave(f), TC_E_INVALID);
    assert_non_null(strstr(f->err.msg, "identity is missing"));
    assert_false(exists(f, "instances/me/device-id"));
}

static void malformed_files(void **state)
{
    static const struct {
        const char *file, *text, *says;
    } rows[] = {
        {ALIAS "credential", "", "credential is invalid"},
        {ALIAS "credential", "abc", "credential is invalid"},
        {ALIAS "credential", "0123456789ABCDEF0123456789abcdef0123456789abcdef0123456789abcdef",
         "credential is invalid"},
        {ALIAS "credential", "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\n",
         "credential is invalid"},
        {"instances/me/device-id", "", "identity is malformed"},
        {"instances/me/device-id", "device-x", "identity is malformed"},
        {"instances/me/device-id", "device-0123456789abcdef0123456789abcdef\n",
         "identity is malformed"},
        {ALIAS "host.json", "", "configuration is invalid"},
        {ALIAS "host.json", "{", "configuration is invalid"},
        {ALIAS "host.json", "{\"url\":\"https://h.example/\"}", "configuration is invalid"},
        {ALIAS "host.json", "{\"url\":\"https://h.example/\",\"name\":\"a\",\"more\":1}",
         "configuration is invalid"},
        {ALIAS "host.json", "{\"url\":\"https://h.example/\",\"name\":\"a\",\"name\":\"b\"}",
         "configuration is invalid"},
        {ALIAS "host.json", "{\"url\":\"https://h.example/\",\"name\":5}",
         "configuration is invalid"},
        {ALIAS "host.json", "{\"url\":\"https://h.example/\",\"name\":\"a\",\"ca_file\":\"rel\"}",
         "configuration is invalid"},
        {ALIAS "host.json",
         "{\"url\":\"https://h.example/\",\"name\":\"a\",\"registration\":{\"resource_id\":\"x\"}}",
         "configuration is invalid"},
        {ALIAS "host.json",
         "{\"url\":\"https://h.example/\",\"name\":\"a\",\"registration\":{\"resource_id\":\"x\","
         "\"websocket_url\":\"/x\",\"y\":1}}",
         "configuration is invalid"},
        {ALIAS "host.json", "{\"url\":\"http://h.example/\",\"name\":\"a\"}", "require HTTPS"},
    };
    fixture *f = *state;
    save(f, true);
    for (size_t i = 0; i < TCI_ARRAY_LEN(rows); i++) {
        char before[4096];
        (void)snprintf(before, sizeof before, "%s", slurp(f, rows[i].file));
        spill(f, rows[i].file, rows[i].text);
        if (open_and_leave(f) != TC_E_INVALID || strstr(f->err.msg, rows[i].says) == NULL)
            fail_msg("%s with %s: %s", rows[i].file, rows[i].text, f->err.msg);
        assert_string_equal(slurp(f, rows[i].file), rows[i].text); /* not replaced */
        spill(f, rows[i].file, before);
    }
    assert_int_equal(open_and_leave(f), 0);
}

static void links_are_refused(void **state)
{
    static const char *const names[] = {
        ALIAS "credential",        ALIAS "host.json",    "instances/me/device-id", ALIAS "runtime",
        "instances/me/hosts/team", "instances/me/hosts", "instances/me",           "instances"};
    fixture *f = *state;
    save(f, true);
    for (size_t i = 0; i < TCI_ARRAY_LEN(names); i++) {
        char away[TCI_PATH_MAX];
        make_link(f, names[i]);
        assert_true(open_and_leave(f) < 0);
        (void)snprintf(away, sizeof away, "%s.away", names[i]);
        assert_int_equal(tci_file_unlink(TCI_FILE_CWD, tci_str(path_of(f, names[i])), &f->err), 0);
        move(f, away, names[i]);
        assert_int_equal(open_and_leave(f), 0);
    }
}

/* Members that may be missing or null in what others wrote. */
static void records_with_less(void **state)
{
    static const char *const texts[] = {
        "{\"url\":\"https://h.example/\",\"name\":\"\"}",
        "{\"registration\":null,\"ca_file\":null,\"name\":\"a\",\"url\":\"https://h.example\"}"};
    fixture *f = *state;
    save(f, false);
    for (size_t i = 0; i < TCI_ARRAY_LEN(texts); i++) {
        spill(f, ALIAS "host.json", texts[i]);
        assert_int_equal(open_state(f), 0);
        assert_false(f->state.record.is_registered);
        leave(f);
    }
}

/* ---- a disk that breaks ---- */

static void check_whole(fixture *f)
{
    const char *text = slurp(f, ALIAS "credential");
    assert_true(text == NULL || strlen(text) == 64);
    text = slurp(f, "instances/me/device-id");
    assert_true(text == NULL || strlen(text) == 39);
    text = slurp(f, ALIAS "host.json");
    assert_true(text == NULL || text[strlen(text) - 1] == '}');
}

typedef void (*breaker)(unsigned n, int os_error);

/* The n-th operation fails, for every n; the next try without failure goes on with what is there. */
static void case_69_a_broken_disk_leaves_nothing_half(void **state)
{
    static const breaker breakers[] = {tci_file_fail_write_at, tci_file_fail_sync_at,
                                       tci_file_fail_rename_at};
    fixture *f = *state;
    for (size_t k = 0; k < TCI_ARRAY_LEN(breakers); k++) {
        bool has_failed = true;
        for (unsigned n = 1; has_failed; n++) {
            char name[32], id[64];
            (void)snprintf(name, sizeof name, "i%zu-%u", k, n);
            f->plan.instance = TC_STR("me");
            breakers[k](n, EIO);
            has_failed = open_state(f) < 0;
            if (!has_failed) {
                f->state.record.name = TC_STR("me");
                has_failed = tci_connect_state_save(&f->state, &f->err) < 0;
            }
            breakers[k](0, 0);
            leave(f);
            check_whole(f);
            const char *text = slurp(f, "instances/me/device-id");
            (void)snprintf(id, sizeof id, "%s", text != NULL ? text : "");
            save(f, false);
            if (id[0] != '\0')
                assert_string_equal(slurp(f, "instances/me/device-id"), id);
            assert_false(exists(f, ALIAS ".credential.new"));
            assert_false(exists(f, ALIAS ".host.json.new"));
            (void)snprintf(f->text, sizeof f->text, "instances/%s", name);
            move(f, "instances/me", f->text); /* a new one for the next */
            assert_true(n < 100);
        }
    }
}

static void case_69_no_memory_leaves_nothing_half(void **state)
{
    fixture *f = *state;
    int rc = -1;
    for (size_t n = 1; rc < 0; n++) {
        tci_mem_fail_at(n);
        rc = open_state(f);
        tci_mem_fail_at(0);
        leave(f);
        if (rc < 0)
            assert_int_equal(f->err.cause != TC_OK ? f->err.cause : f->err.code, TC_E_NO_MEMORY);
        check_whole(f);
        tci_arena_clear(&f->arena);
        assert_true(n < 1000);
    }
    assert_false(exists(f, ALIAS ".credential.new"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        T(made_once),
        T(modes_are_mended),
        T(two_hosts_and_two_installations),
        T(one_owner),
        T(names_nobody_saved),
        T(another_host_under_the_name),
        T(case_68_a_missing_credential_is_not_replaced),
        T(malformed_files),
        T(links_are_refused),
        T(records_with_less),
        T(case_69_a_broken_disk_leaves_nothing_half),
        T(case_69_no_memory_leaves_nothing_half),
#undef T
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
