/* SPDX-License-Identifier: Apache-2.0
 *
 * Checking and repairing sessions of JSON lines: what is sound is kept, what is not is told of and put
 * aside, and nothing is lost that could be read. */
#include "folder.h"
#include "store/jsonl/jsonl_journal.h"
#include "store/store_int.h"
#include <stdio.h>
#include <stdlib.h>

typedef struct told {
    tci_buf text;
    unsigned n, nlost;
} told;

static void on_damage(void *user, const tci_damage *d)
{
    told *t = user;
    tci_buf_printf(&t->text, "%.*s: %.*s\n", TC_STR_ARG(d->where), TC_STR_ARG(d->what));
    t->n++;
    t->nlost += d->is_lost;
}

static told told_new(void)
{
    told t = {.n = 0};
    tci_buf_init(&t.text, TCI_BUF_MAX);
    return t;
}

static bool says(told *t, const char *what)
{
    tc_str text = tci_buf_str(&t->text);
    return tci_str_find(text, tci_str(what)) < text.len;
}

static tci_check_report check(const char *path, told *t)
{
    tci_check_report report;
    tc_err err;
    if (tci_jsonl_check(tci_str(path), on_damage, t, &report, &err) < 0)
        fail_msg("check: %s", err.msg);
    assert_int_equal(report.ndamaged, t->n);
    return report;
}

/* The folder behind the first ncommits commits of the story, not closed. */
static folder story(const char *path, int ncommits, tci_commit_how how)
{
    tc_err err;
    folder_remove(path);
    tci_store *s = open_session(path, TCI_DURABILITY_FULL);
    for (int k = 0; k < ncommits; k++) {
        if (tell(s, k, how, &err) < 0)
            fail_msg("%s", err.msg);
    }
    folder f = folder_read(path);
    close_session(s);
    folder_drop(&f, TCI_JSONL_JOURNAL); /* which would put back what is damaged here */
    return f;
}

static void test_a_sound_session(void **state)
{
    TCI_UNUSED(state);
    char path[FOLDER_PATH_MAX];
    test_path("sound", path);
    for (int n = 0; n <= STORY_COMMITS; n++) {
        told t = told_new();
        folder f = story(path, n, TCI_COMMIT_SYNCED);
        folder_write(path, &f);
        tci_check_report report = check(path, &t);
        if (t.n > 0)
            fail_msg("behind %d: %.*s", n, TC_STR_ARG(tci_buf_str(&t.text)));
        assert_int_equal(report.ncommits, n);
        folder now = folder_read(path);
        assert_int_equal(now.nfiles, f.nfiles);
        folder_done(&now);
        folder_done(&f);
        tci_buf_done(&t.text);
    }
}

typedef struct damage {
    int ncommits;
    const char *file, *from, *to, *says, *kept, *lost;
} damage;

/* Names of what is in a folder that begin with "damaged-". */
static bool has_aside(tc_str aside)
{
    char path[FOLDER_PATH_MAX];
    assert_true(aside.len > 0 && aside.len < sizeof path);
    snprintf(path, sizeof path, "%.*s/damage.jsonl", TC_STR_ARG(aside));
    FILE *f = fopen(path, "rb");
    if (f == NULL)
        return false;
    char line[8];
    bool is_list = fread(line, 1, 8, f) == 8 && memcmp(line, "{\"file\":", 8) == 0;
    fclose(f);
    return is_list;
}

static void remove_aside(tc_str aside)
{
    char path[FOLDER_PATH_MAX];
    snprintf(path, sizeof path, "%.*s", TC_STR_ARG(aside));
    folder_remove(path);
}

static void repaired(const char *path, const damage *d)
{
    told t = told_new(), again = told_new();
    tci_arena a;
    tci_check_report report;
    tc_str aside;
    tc_err err;
    tci_arena_init(&a, 0);
    refuse_session(path, TC_E_PARSE, &err);
    if (tci_jsonl_repair(tci_str(path), on_damage, &t, &a, &aside, &report, &err) < 0)
        fail_msg("repair: %s", err.msg);
    if (!says(&t, d->says) || !says(&t, "byte"))
        fail_msg("'%.*s' does not say '%s'", TC_STR_ARG(tci_buf_str(&t.text)), d->says);
    assert_true(t.nlost > 0 && report.ndamaged > 0);
    assert_true(has_aside(aside));
    remove_aside(aside);
    check(path, &again);
    if (again.n > 0)
        fail_msg("repaired, but: %.*s", TC_STR_ARG(tci_buf_str(&again.text)));
    char *found = dump_at(path);
    if (d->kept != NULL && strstr(found, d->kept) == NULL)
        fail_msg("'%s' is not in\n%s", d->kept, found);
    if (d->lost != NULL && strstr(found, d->lost) != NULL)
        fail_msg("'%s' is in\n%s", d->lost, found);
    tci_store *s = open_session(path, TCI_DURABILITY_FULL);
    assert_int_equal(tell_entry(s, 1000, &err), 0);
    close_session(s);
    tci_free(found);
    tci_arena_done(&a);
    tci_buf_done(&again.text);
    tci_buf_done(&t.text);
}

static void test_repair_keeps_what_is_sound(void **state)
{
    TCI_UNUSED(state);
    static const damage damages[] = {
        /* a marker is lost: what the sidecars know of its commit stays */
        {5, "main.jsonl", "{\"format\":1,\"type\":\"commit\",\"seq\":3",
         "{\"format\":1,\"type\":\"comm", "main.jsonl", "\"status\":\"waiting\"", NULL},
        /* with an entry in it that is gone */
        {9, "main.jsonl", "Say ", "Say \xff", "UTF-8", "\"id\":7", "Say "},
        /* an entry that is none */
        {6, "main.jsonl", "\"kind\":\"pi.user\",\"data\":\"done\"",
         "\"kind\":\"\",\"data\":\"done\"", "lacks a field", "  1 {\"a\":[1,2]}",
         "\"data\":\"done\""},
        /* the same number twice */
        {9, "main.jsonl", "\"id\":7,\"conversationId\"", "\"id\":1,\"conversationId\"",
         "already belongs", "and so on", NULL},
        /* a change of a document is lost: it stays as it was before */
        {5, "doc-2.jsonl", "\"kind\":\"delta\"", "\"kind\":\"gamma\"", "doc-2.jsonl",
         "  1 {\"run\":{\"taskId\":5,\"inputs\":[6]}}", "there"},
        /* until its next base */
        {6, "doc-2.jsonl", "\"kind\":\"delta\"", "\"kind\":\"gamma\"", "doc-2.jsonl",
         "  1 {\"run\":{}}", NULL},
        /* a record of a task */
        {5, "task-5.jsonl", "\"status\":\"running\"", "\"status\":\"runs\"", "task-5.jsonl",
         "\"status\":\"waiting\"", NULL},
        /* operations that do not fit */
        {5, "doc-3.jsonl", "[\"s\",[\"cwd\"],\"/\"]", "[\"a\",[\"cwd\"],\"/\"]", "doc-3.jsonl",
         "doc", "cwd"},
    };
    char path[FOLDER_PATH_MAX];
    for (size_t i = 0; i < TCI_ARRAY_LEN(damages); i++) {
        folder f = story(test_path("damaged", path), damages[i].ncommits, TCI_COMMIT_SYNCED);
        folder_edit(&f, damages[i].file, damages[i].from, damages[i].to);
        folder_write(path, &f);
        told t = told_new();
        check(path, &t);
        if (!says(&t, damages[i].says))
            fail_msg("%zu: %.*s", i, TC_STR_ARG(tci_buf_str(&t.text)));
        folder now = folder_read(path); /* looking changes nothing */
        for (size_t k = 0; k < f.nfiles; k++)
            assert_int_equal(folder_file_of(&now, f.files[k].name)->len, f.files[k].len);
        assert_int_equal(now.nfiles, f.nfiles);
        folder_done(&now);
        folder_done(&f);
        tci_buf_done(&t.text);
        if (strcmp(damages[i].file, "doc-3.jsonl") != 0) /* that one opens, but cannot be read */
            repaired(path, &damages[i]);
    }
}

static void test_operations_that_do_not_fit(void **state)
{
    TCI_UNUSED(state);
    char path[FOLDER_PATH_MAX];
    tci_arena a;
    tci_check_report report;
    tc_str aside;
    tc_err err;
    told t = told_new();
    tci_arena_init(&a, 0);
    folder f = story(test_path("unfit", path), 5, TCI_COMMIT_SYNCED);
    folder_edit(&f, "doc-3.jsonl", "[\"s\",[\"cwd\"],\"/\"]", "[\"a\",[\"cwd\"],\"/\"]");
    folder_write(path, &f);
    folder_done(&f);
    assert_int_equal(tci_jsonl_repair(tci_str(path), on_damage, &t, &a, &aside, &report, &err), 0);
    assert_int_equal(t.nlost, 1);
    assert_true(has_aside(aside));
    remove_aside(aside);
    char *found = dump_at(path);
    assert_non_null(strstr(found, "{\"model\":\"\xc3\xa9\xe2\x80\xa8\"}"));
    tci_free(found);
    tci_arena_done(&a);
    tci_buf_done(&t.text);
}

/* What opening settles by itself is told of, and left to it. */
static void test_rests_are_left_to_opening(void **state)
{
    TCI_UNUSED(state);
    char path[FOLDER_PATH_MAX];
    tci_arena a;
    tci_check_report report;
    tc_str aside;
    tc_err err;
    told t = told_new(), lazy = told_new();
    tci_arena_init(&a, 0);
    folder f = story(test_path("rests", path), 5, TCI_COMMIT_SYNCED);
    folder_file_of(&f, "main.jsonl")->len -= 5;
    folder_write(path, &f);
    folder_done(&f);
    assert_int_equal(tci_jsonl_repair(tci_str(path), on_damage, &t, &a, &aside, &report, &err), 0);
    assert_int_equal(aside.len, 0);
    assert_int_equal(t.nlost, 0);
    assert_true(says(&t, "unfinished line") && says(&t, "did not happen"));
    char *found = dump_at(path);
    assert_non_null(strstr(found, "\"status\":\"running\""));
    tci_free(found);

    f = story(path, 5, TCI_COMMIT_LAZY);
    folder_file_of(&f, "doc-2.jsonl")->len = 0;
    folder_write(path, &f);
    folder_done(&f);
    check(path, &lazy);
    assert_int_equal(lazy.nlost, 0);
    assert_true(says(&lazy, "not synced"));
    tci_free(dump_at(path));
    tci_arena_done(&a);
    tci_buf_done(&t.text);
    tci_buf_done(&lazy.text);
}

/* Bytes all over every file changed in turn: never a crash, always a session that opens. */
static void test_changed_bytes(void **state)
{
    TCI_UNUSED(state);
    char path[FOLDER_PATH_MAX];
    tci_arena a;
    tci_arena_init(&a, 0);
    folder f = story(test_path("any", path), 6, TCI_COMMIT_SYNCED);
    for (size_t i = 0; i < f.nfiles; i++) {
        for (size_t at = 0; at < f.files[i].len; at += 23) {
            char was = f.files[i].bytes[at];
            tci_check_report report;
            tc_str aside;
            tc_err err;
            f.files[i].bytes[at] = (char)(was ^ 5);
            folder_write(path, &f);
            if (tci_jsonl_repair(tci_str(path), NULL, NULL, &a, &aside, &report, &err) < 0)
                fail_msg("%s, byte %zu: %s", f.files[i].name, at, err.msg);
            if (aside.len > 0)
                remove_aside(aside);
            char *found = dump_at(path);
            tci_free(found);
            f.files[i].bytes[at] = was;
            tci_arena_clear(&a);
        }
    }
    folder_done(&f);
    tci_arena_done(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_sound_session),
        cmocka_unit_test(test_repair_keeps_what_is_sound),
        cmocka_unit_test(test_operations_that_do_not_fit),
        cmocka_unit_test(test_rests_are_left_to_opening),
        cmocka_unit_test(test_changed_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
