/* SPDX-License-Identifier: Apache-2.0
 *
 * Sessions in JSON lines: the very bytes, which files there are and when they go, what opens and how. */
#include "folder.h"
#include "plat/clock.h"
#include "plat/file.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#define LIVE(id, kind)                                                            \
    "{\"id\":" #id ",\"kind\":\"" kind "\",\"scope\":{\"kind\":\"conversation\"," \
    "\"conversationId\":1},\"history\":\"latest\",\"fork\":\"initial\"}"

static const char marker_1[] =
    "{\"format\":1,\"type\":\"commit\",\"seq\":1,\"writes\":[{\"type\":\"conversation\",\"value\":"
    "{\"id\":1}},{\"type\":\"document.create\",\"record\":" LIVE(
        2, "pi.live") ",\"ordinal\":0},"
                      "{\"type\":\"document.create\",\"record\":" LIVE(
                          3, "pi.inbox") ",\"ordinal\":1}]}\n";
static const char marker_2[] = "{\"format\":1,\"type\":\"commit\",\"seq\":2,\"writes\":[{\"type\":"
                               "\"entry\",\"value\":{\"id\":7,"
                               "\"conversationId\":1,\"kind\":\"pi.user\"}},{\"type\":"
                               "\"submission\",\"value\":{\"conversationId\":"
                               "1,\"requestId\":\"r1\",\"type\":\"input\",\"status\":\"placed\","
                               "\"entry\":7,\"id\":8}},{\"type\":"
                               "\"task.sidecar\",\"id\":9,\"ordinal\":0},{\"type\":\"document."
                               "change\",\"id\":2,\"ordinal\":1}]}\n";
#define TASK_9                                                                              \
    "{\"id\":9,\"conversationId\":1,\"kind\":\"pi.generation\",\"version\":1,\"input\":{}," \
    "\"background\":false,\"abortRequested\":false,\"state\":{\"status\":\"pending\","      \
    "\"checkpoint\":{\"phase\":\"prepare\",\"attempt\":1}}}"
#define TASK_9_DONE                                                                         \
    "{\"id\":9,\"conversationId\":1,\"kind\":\"pi.generation\",\"version\":1,\"input\":{}," \
    "\"background\":false,\"abortRequested\":false,\"state\":{\"status\":\"terminal\","     \
    "\"outcome\":{\"status\":\"completed\",\"result\":{\"entryId\":7}}}}"
static const char marker_3[] =
    "{\"format\":1,\"type\":\"commit\",\"seq\":3,\"writes\":[{\"type\":\"task\","
    "\"value\":" TASK_9_DONE "},{\"type\":\"document.retire\",\"id\":3}]}\n";
static const char doc_2[] = "{\"format\":1,\"type\":\"record\",\"seq\":1,\"ordinal\":0,\"payload\":"
                            "{\"type\":\"document\",\"id\":"
                            "2,\"content\":{\"version\":1,\"kind\":\"base\",\"value\":{}}}}\n"
                            "{\"format\":1,\"type\":\"record\",\"seq\":2,\"ordinal\":1,\"payload\":"
                            "{\"type\":\"document\",\"id\":"
                            "2,\"content\":{\"version\":1,\"kind\":\"delta\",\"ops\":[[\"s\",["
                            "\"run\"],{\"taskId\":9}]]}}}\n";
static const char task_9[] = "{\"format\":1,\"type\":\"record\",\"seq\":2,\"ordinal\":0,"
                             "\"payload\":{\"type\":\"task\",\"value\":" TASK_9 "}}\n";

static tci_write doc_create(tci_arena *a, const char *record, const char *value)
{
    tc_err err;
    tci_write w = {.type = TCI_WRITE_DOC_CREATE, .content = {false, 1, tci_str(value)}};
    assert_int_equal(tci_document_parse(tci_str(record), a, &w.u.document, &err), 0);
    return w;
}

static tci_write doc_change(uint64_t id, bool is_delta, const char *json)
{
    tci_write w = {.type = TCI_WRITE_DOC_CHANGE, .content = {is_delta, 1, tci_str(json)}};
    w.u.document.id = id;
    return w;
}

static uint64_t commit(tci_store *s, const tci_write *writes, size_t n)
{
    uint64_t seq;
    tc_err err;
    if (tci_store_commit(s, writes, n, TCI_COMMIT_SYNCED, &seq, &err) < 0)
        fail_msg("commit: %s", err.msg);
    return seq;
}

static void file_is(folder *f, const char *name, const char *parts[], size_t nparts)
{
    const folder_file *file = folder_file_of(f, name);
    tci_buf b;
    tci_buf_init(&b, TCI_BUF_MAX);
    for (size_t i = 0; i < nparts; i++)
        tci_buf_append_str(&b, tci_str(parts[i]));
    assert_non_null(file);
    if (!tci_str_eq(tci_buf_str(&b), tci_str_of(file->bytes, file->len)))
        fail_msg("%s is\n%s", name, file->bytes);
    tci_buf_done(&b);
}

static void test_literal_lines(void **state)
{
    TCI_UNUSED(state);
    char path[FOLDER_PATH_MAX];
    tci_arena a;
    tc_err err;
    tci_arena_init(&a, 0);
    tci_store *s = open_session(test_path("literal/in/folders", path), TCI_DURABILITY_FULL);
    folder f = folder_read(path);
    assert_int_equal(f.nfiles, 0); /* opening writes nothing */

    tci_write w[4] = {{.type = TCI_WRITE_CONVERSATION}};
    assert_int_equal(tci_conversation_parse(TC_STR("{\"id\":1}"), &a, &w[0].u.conversation, &err),
                     0);
    w[1] = doc_create(&a, LIVE(2, "pi.live"), "{}");
    w[2] = doc_create(&a, LIVE(3, "pi.inbox"), "{\"items\":[]}");
    assert_int_equal(commit(s, w, 3), 1);
    w[0] = (tci_write){.type = TCI_WRITE_ENTRY};
    w[1] = (tci_write){.type = TCI_WRITE_SUBMISSION};
    w[2] = (tci_write){.type = TCI_WRITE_TASK};
    w[3] = doc_change(2, true, "[[\"s\",[\"run\"],{\"taskId\":9}]]");
    assert_int_equal(tci_entry_parse(TC_STR("{\"id\":7,\"conversationId\":1,\"kind\":\"pi.user\"}"),
                                     &a, NULL, &w[0].u.entry, &err),
                     0);
    assert_int_equal(
        tci_submission_parse(TC_STR("{\"conversationId\":1,\"requestId\":\"r1\",\"type\":\"input\","
                                    "\"status\":\"placed\",\"entry\":7,\"id\":8}"),
                             &a, &w[1].u.submission, &err),
        0);
    assert_int_equal(tci_task_parse(TC_STR(TASK_9), &a, NULL, &w[2].u.task, &err), 0);
    assert_int_equal(commit(s, w, 4), 2);
    f = folder_read(path);
    file_is(&f, "main.jsonl", (const char *[]){marker_1, marker_2}, 2);
    file_is(&f, "doc-2.jsonl", (const char *[]){doc_2}, 1);
    file_is(&f, "task-9.jsonl", (const char *[]){task_9}, 1);
    assert_int_equal(f.nfiles, 5); /* with doc-3 and the journal */
    folder_done(&f);

    /* what has ended leaves its file */
    w[0] = (tci_write){.type = TCI_WRITE_TASK};
    assert_int_equal(tci_task_parse(TC_STR(TASK_9_DONE), &a, NULL, &w[0].u.task, &err), 0);
    w[1] = (tci_write){.type = TCI_WRITE_DOC_RETIRE};
    w[1].u.document.id = 3;
    assert_int_equal(commit(s, w, 2), 3);
    f = folder_read(path);
    file_is(&f, "main.jsonl", (const char *[]){marker_1, marker_2, marker_3}, 3);
    assert_int_equal(f.nfiles, 3);
    folder_done(&f);
    close_session(s);
    tci_arena_done(&a);
}

/* A lazy marker looks like any other to who reads JSON. */
static void test_lazy_markers_end_in_a_blank(void **state)
{
    TCI_UNUSED(state);
    char path[FOLDER_PATH_MAX];
    tc_err err;
    folder_remove(test_path("lazy", path));
    tci_store *s = open_session(path, TCI_DURABILITY_FULL);
    assert_int_equal(tell(s, 0, TCI_COMMIT_LAZY, &err), 0);
    close_session(s);
    folder f = folder_read(path);
    const folder_file *file = folder_file_of(&f, "main.jsonl");
    assert_true(tci_str_ends(tci_str_of(file->bytes, file->len), TC_STR("]} \n")));
    folder_done(&f);
    folder_remove(path);
    s = open_session(path, TCI_DURABILITY_NORMAL);
    assert_int_equal(tell(s, 0, TCI_COMMIT_LAZY, &err), 0);
    close_session(s);
    f = folder_read(path);
    file = folder_file_of(&f, "main.jsonl");
    assert_true(tci_str_ends(tci_str_of(file->bytes, file->len), TC_STR("]}\n")));
    folder_done(&f);
}

/* Bases of a current-only document do not pile up for ever, and at the close only the newest is left. */
static void test_bases_are_cleared_away(void **state)
{
    TCI_UNUSED(state);
    char path[FOLDER_PATH_MAX], value[1100], expected[1120];
    tci_arena a;
    size_t largest = 0;
    tci_arena_init(&a, 0);
    folder_remove(test_path("bases", path));
    tci_store *s = open_session(path, TCI_DURABILITY_NORMAL);
    tci_write w = doc_create(&a, LIVE(2, "pi.live"), "{}");
    commit(s, &w, 1);
    for (int i = 0; i < 1500; i++) {
        snprintf(value, sizeof value, "{\"n\":%d,\"t\":\"%01000d\"}", i, i);
        w = doc_change(2, false, value);
        commit(s, &w, 1);
        char at[FOLDER_PATH_MAX + 20];
        struct stat st;
        snprintf(at, sizeof at, "%s/doc-2.jsonl", path);
        assert_int_equal(stat(at, &st), 0);
        if ((size_t)st.st_size > largest)
            largest = (size_t)st.st_size;
    }
    assert_true(largest < 600 * 1024);
    w = doc_change(2, true, "[[\"s\",[\"t\"],\"end\"]]");
    commit(s, &w, 1);
    char *before = dump_of(s);
    snprintf(expected, sizeof expected, "{\"n\":1499,\"t\":\"end\"}");
    assert_non_null(strstr(before, expected));
    close_session(s);
    folder f = folder_read(path);
    const folder_file *file = folder_file_of(&f, "doc-2.jsonl");
    assert_int_equal(tci_str_count_byte(tci_str_of(file->bytes, file->len), '\n'), 2);
    assert_int_equal(f.nfiles, 2);
    folder_done(&f);
    char *after = dump_at(path);
    assert_string_equal(before, after);
    tci_free(before);
    tci_free(after);
    tci_arena_done(&a);
}

/* More sidecars than are held open. */
static void test_many_sidecars(void **state)
{
    TCI_UNUSED(state);
    enum { DOCS = 150 };
    char path[FOLDER_PATH_MAX], record[200];
    tci_arena a;
    tci_arena_init(&a, 0);
    tci_store *s = open_session(test_path("many", path), TCI_DURABILITY_FULL);
    tci_write *w = tci_arena_items(&a, tci_write, DOCS);
    for (int i = 0; i < DOCS; i++) {
        tc_str text;
        tc_err err;
        snprintf(record, sizeof record,
                 "{\"id\":%d,\"kind\":\"k%d\",\"scope\":{\"kind\":\"session\"}}", i + 2, i);
        assert_int_equal(tci_arena_dup(&a, tci_str(record), &text, &err), 0);
        w[i] =
            (tci_write){.type = TCI_WRITE_DOC_CREATE, .content = {false, 1, TC_STR("{\"l\":[]}")}};
        assert_int_equal(tci_document_parse(text, &a, &w[i].u.document, &err), 0);
    }
    commit(s, w, DOCS);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < DOCS; i++)
            w[i] = doc_change((uint64_t)i + 2, true, "[[\"p\",[\"l\"],0,0,[1]]]");
        commit(s, w, DOCS);
    }
    char *before = dump_of(s);
    assert_non_null(strstr(before, "{\"l\":[1,1,1]}"));
    close_session(s);
    char *after = dump_at(path);
    assert_string_equal(before, after);
    tci_free(before);
    tci_free(after);
    tci_arena_done(&a);
}

/* ---- case 74 ---- */

static tci_write entry_of(tc_str json, uint64_t id)
{
    tci_write w = {.type = TCI_WRITE_ENTRY};
    w.u.entry = (tci_entry){.json = json, .id = id, .conversation_id = 1, .kind = TC_STR("k")};
    return w;
}

static void same_entry(tci_store *s, uint64_t id, tc_str json)
{
    tci_arena a;
    tci_entry e;
    tc_err err;
    tci_arena_init(&a, 0);
    if (tci_store_entry(s, 0, id, &a, &e, NULL, &err) < 0)
        fail_msg("entry %llu: %s", (unsigned long long)id, err.msg);
    assert_true(tci_str_eq(e.json, json));
    tci_arena_done(&a);
}

static void test_case_74_odd_characters(void **state)
{
    TCI_UNUSED(state);
    static const char *const texts[] = {
        "\xe2\x80\xa8 \xe2\x80\xa9 \xc2\x85 \x7f", "\\u2028 \\u0085 \\u0000", "\\ud800",
        "\\udc00\\ud800 \xf0\x9f\x98\x80",         "\\ud83d\\ude00",          "\\r\\n \\u000a"};
    char path[FOLDER_PATH_MAX];
    tci_arena a;
    tc_err err;
    tc_str json[TCI_ARRAY_LEN(texts)];
    tci_arena_init(&a, 0);
    tci_store *s = open_session(test_path("odd", path), TCI_DURABILITY_FULL);
    for (size_t i = 0; i < TCI_ARRAY_LEN(texts); i++) {
        uint64_t id = i + 2;
        assert_int_equal(
            tci_arena_printf(&a, &json[i], &err,
                             "{\"id\":%llu,\"conversationId\":1,\"kind\":\"k\",\"data\":"
                             "{\"%s\":\"%s\",\"n\":[9007199254740993,-0,1e400]}}",
                             (unsigned long long)id, texts[i], texts[i]),
            0);
        tci_write w = entry_of(json[i], id);
        commit(s, &w, 1);
        same_entry(s, id, json[i]);
    }
    close_session(s);
    s = open_session(path, TCI_DURABILITY_FULL);
    for (size_t i = 0; i < TCI_ARRAY_LEN(texts); i++)
        same_entry(s, i + 2, json[i]);
    close_session(s);
    tci_arena_done(&a);
}

static void test_case_74_giant_and_many(void **state)
{
    TCI_UNUSED(state);
    enum { MANY = 10000, GIANT = 2 * 1024 * 1024 };
    char path[FOLDER_PATH_MAX], small[200];
    tci_buf b;
    tci_store *s = open_session(test_path("giant", path), TCI_DURABILITY_NORMAL);
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_buf_append_str(&b, TC_STR("{\"id\":2,\"conversationId\":1,\"kind\":\"k\",\"data\":\""));
    memset(tci_buf_reserve(&b, GIANT), 'g', GIANT);
    tci_buf_commit(&b, GIANT);
    tci_buf_append_str(&b, TC_STR("\"}"));
    tci_write w[2] = {entry_of(tci_buf_str(&b), 2), {.type = TCI_WRITE_CONVERSATION}};
    w[1].u.conversation.id = 1;
    commit(s, w, 2);
    for (uint64_t id = 3; id < MANY; id++) {
        int n = snprintf(small, sizeof small,
                         "{\"id\":%llu,\"conversationId\":1,\"kind\":\"k\",\"data\":%llu}",
                         (unsigned long long)id, (unsigned long long)id);
        w[0] = entry_of(tci_str_of(small, (size_t)n), id);
        commit(s, w, 1);
    }
    close_session(s);
    int64_t before = tci_clock_mono_ns();
    s = open_session(path, TCI_DURABILITY_NORMAL);
    print_message("opened in %lld ms\n", (long long)(tci_clock_mono_ns() - before) / 1000000);
    same_entry(s, 2, tci_buf_str(&b));
    /* pages in both directions, across the giant one */
    tci_arena a;
    tc_err err;
    tci_arena_init(&a, 0);
    for (int down = 0; down < 2; down++) {
        tci_cursor cursor = {0};
        uint64_t expected = down ? MANY - 1 : 2;
        do {
            tci_page page = {down ? TCI_ORDER_DESCENDING : TCI_ORDER_ASCENDING, cursor, 1000};
            tci_entry *e;
            size_t n;
            tci_arena_clear(&a);
            assert_int_equal(tci_store_scan_entries(s, 1, 0, 0, &page, &a, &e, &n, &cursor, &err),
                             0);
            for (size_t i = 0; i < n; i++) {
                assert_int_equal(e[i].id, expected);
                expected += down ? UINT64_MAX : 1;
            }
        } while (cursor.after != 0);
        assert_int_equal(expected, down ? 1 : MANY);
    }
    tci_arena_done(&a);
    tci_buf_done(&b);
    close_session(s);
}

/* ---- opening ---- */

static int try_open(const char *path, const tci_store_options *options, tci_store **ret,
                    tc_err *err)
{
    return tci_store_open_jsonl(tci_str(path), options, ret, err);
}

static void test_options_of_opening(void **state)
{
    TCI_UNUSED(state);
    char path[FOLDER_PATH_MAX];
    tc_err err;
    tci_store *s;
    tci_store_options must_exist = {.must_exist = true}, fresh = {.is_fresh = true};
    tci_store_options read_only = {.is_read_only = true};
    test_path("options", path);
    assert_int_equal(try_open(path, &must_exist, &s, &err), TC_E_NOT_FOUND);
    assert_int_equal(try_open(path, &read_only, &s, &err), TC_E_NOT_FOUND);
    assert_int_equal(try_open(path, &fresh, &s, &err), 0);
    assert_int_equal(tell(s, 0, TCI_COMMIT_SYNCED, &err), 0);
    close_session(s);
    assert_int_equal(try_open(path, &fresh, &s, &err), TC_E_CONFLICT);
    assert_int_equal(try_open(path, &must_exist, &s, &err), 0);
    close_session(s);
}

/* Somebody looks while the owner goes on: nothing is changed, and what is read is a state that was. */
static void test_reading_only(void **state)
{
    TCI_UNUSED(state);
    char path[FOLDER_PATH_MAX];
    tc_err err;
    tci_store *reader, *s = open_session(test_path("looking", path), TCI_DURABILITY_FULL);
    tci_store_options read_only = {.is_read_only = true};
    for (int k = 0; k < STORY_COMMITS; k++) {
        assert_int_equal(tell(s, k, TCI_COMMIT_LAZY, &err), 0);
        folder f = folder_read(path);
        folder_put(&f, "task-5.jsonl", "{\"for", 5); /* what is half written is not there yet */
        char *now = dump_of(s);
        assert_int_equal(try_open(path, &read_only, &reader, &err), 0);
        if (k + 1 < STORY_COMMITS)
            assert_int_equal(tell(s, k + 1, TCI_COMMIT_LAZY, &err), 0);
        char *seen = dump_of(reader);
        assert_string_equal(now, seen);
        assert_int_equal(tell_entry(reader, 500, &err), TC_E_DENIED);
        close_session(reader);
        tci_free(now);
        tci_free(seen);
        folder_done(&f);
        k++;
    }
    close_session(s);
    folder f = folder_read(path);
    folder_put(&f, "main.jsonl", folder_file_of(&f, "main.jsonl")->bytes,
               folder_file_of(&f, "main.jsonl")->len - 3);
    folder_write(path, &f);
    assert_int_equal(try_open(path, &read_only, &reader, &err), 0);
    close_session(reader);
    folder again = folder_read(path);
    assert_int_equal(folder_file_of(&again, "main.jsonl")->len,
                     folder_file_of(&f, "main.jsonl")->len);
    folder_done(&again);
    folder_done(&f);
}

/* Spaces, escapes in names, members in another order and unknown ones: still the format. */
static void test_lines_of_others(void **state)
{
    TCI_UNUSED(state);
    char path[FOLDER_PATH_MAX];
    folder f = {.nfiles = 0};
    static const char main_file[] = "{ \"type\" : \"commit\", \"writes\" : [ { \"value\" : { "
                                    "\"id\" : 1 , \"x\" : [ ] } , \"type\" : "
                                    "\"conversation\" } , {\"ordinal\":0,\"record\": "
                                    "{\"\\u0069d\":2,\"kind\":\"\\u0070i.live\","
                                    "\"scope\":{\"conversationId\":1,\"kind\":\"conversation\"},"
                                    "\"history\":\"latest\",\"fork\":"
                                    "\"initial\"},\"type\":\"document.create\"} ], "
                                    "\"seq\":5,\"format\":1,\"more\":{\"a\":[1]} }\n";
    static const char doc_file[] =
        " {\"payload\":{\"content\":{\"value\": {\"a\":1} "
        ",\"kind\":\"base\",\"version\":1},\"id\":2,"
        "\"type\":\"document\"},\"ordinal\":0,\"seq\":5,\"type\":\"record\",\"format\":1}\t\n";
    folder_put(&f, "main.jsonl", main_file, sizeof main_file - 1);
    folder_put(&f, "doc-2.jsonl", doc_file, sizeof doc_file - 1);
    folder_put(&f, "doc-02.jsonl", "no name of ours", 15);
    folder_write(test_path("others", path), &f);
    char *found = dump_at(path);
    assert_non_null(strstr(found, "conversation { \"id\" : 1 , \"x\" : [ ] }"));
    assert_non_null(strstr(found, "  1 {\"a\":1}"));
    tci_free(found);
    folder_done(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_literal_lines),
        cmocka_unit_test(test_lazy_markers_end_in_a_blank),
        cmocka_unit_test(test_bases_are_cleared_away),
        cmocka_unit_test(test_many_sidecars),
        cmocka_unit_test(test_case_74_odd_characters),
        cmocka_unit_test(test_case_74_giant_and_many),
        cmocka_unit_test(test_options_of_opening),
        cmocka_unit_test(test_reading_only),
        cmocka_unit_test(test_lines_of_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
