/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as a session folder of JSON lines: "== name" lines and what each file holds. What opens can be
 * read, takes a commit and opens again to the same; what does not is repaired, and then it does. */
#include "../../unit/store/dump.h"
#include "plat/file.h"
#include "store/store_int.h"
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { FILES_MAX = 12 };

static bool is_plain(tc_str name)
{
    for (size_t i = 0; i < name.len; i++) {
        char c = name.ptr[i];
        if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.'))
            return false;
    }
    return name.len > 0 && name.len < 60 && name.ptr[0] != '.';
}

static void put_file(tci_file folder, tc_str name, tc_str content)
{
    tc_err err;
    TCI_FILE_AUTO f = TCI_FILE_NONE;
    int rc = tci_file_openat(folder, name, TCI_OPEN_WRITE | TCI_OPEN_CREATE | TCI_OPEN_TRUNCATE,
                             0666, &f, &err);
    if (rc == 0)
        rc = tci_file_write_all(f, content.ptr, content.len, &err);
    TC_ASSERT(rc == 0);
}

static void put_files(tci_file folder, tc_str input)
{
    tc_str rest = input, line, name = {NULL, 0};
    const char *from = input.ptr;
    for (unsigned n = 0; n < FILES_MAX && tci_str_split(&rest, '\n', &line);) {
        if (!tci_str_starts(line, TC_STR("== ")) && rest.ptr != NULL)
            continue;
        const char *end = rest.ptr != NULL ? line.ptr : input.ptr + input.len;
        if (is_plain(name) && end >= from) {
            put_file(folder, name, tci_str_of(from, (size_t)(end - from)));
            n++;
        }
        name = tci_str_sub(line, 3, line.len);
        from = rest.ptr;
    }
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    TCI_UNUSED(st);
    TCI_UNUSED(type);
    TCI_UNUSED(at);
    return remove(path);
}

static void remove_tree(const char *path)
{
    enum { OPEN_FOLDERS = 8 };
    if (access(path, F_OK) == 0)
        TC_ASSERT(nftw(path, remove_one, OPEN_FOLDERS, FTW_DEPTH | FTW_PHYS) == 0);
}

/* All there is; false when a read fails, which it may where a value is damaged inside. */
static bool dump(tci_store *s, tci_buf *out)
{
    tc_err err;
    tci_buf_init(out, TCI_BUF_MAX);
    int rc = dump_store(s, out, &err);
    TC_ASSERT(rc == 0 || rc == TC_E_PARSE || rc == TC_E_INVALID || rc == TC_E_CONFLICT);
    return rc == 0;
}

static int reopen(tc_str path, tci_store **ret, tc_err *err)
{
    tci_store_options options = {.durability = TCI_DURABILITY_NORMAL};
    return tci_store_open_jsonl(path, &options, ret, err);
}

/* An open session takes a commit and is the same when it is opened again. */
static void go_on(tc_str path, tci_store *s)
{
    static const char json[] = "{\"id\":%llu,\"conversationId\":1,\"kind\":\"k\"}";
    tc_err err;
    tci_buf before, after;
    uint64_t id, seq;
    char text[80];
    if (tci_store_mint(s, &id, &err) == 0) {
        int n = snprintf(text, sizeof text, json, (unsigned long long)id);
        tci_write w = {.type = TCI_WRITE_ENTRY};
        w.u.entry = (tci_entry){.json = tci_str_of(text, (size_t)n),
                                .id = id,
                                .conversation_id = 1,
                                .kind = TC_STR("k")};
        TC_ASSERT(tci_store_commit(s, &w, 1, TCI_COMMIT_SYNCED, &seq, &err) == 0);
    }
    bool is_whole = dump(s, &before);
    TC_ASSERT(tci_store_close(s, &err) == 0);
    TC_ASSERT(reopen(path, &s, &err) == 0);
    TC_ASSERT(dump(s, &after) == is_whole);
    TC_ASSERT(!is_whole || tci_str_eq(tci_buf_str(&before), tci_buf_str(&after)));
    TC_ASSERT(tci_store_close(s, &err) == 0);
    tci_buf_done(&before);
    tci_buf_done(&after);
}

static void repair(tc_str path)
{
    tci_arena a;
    tc_str aside;
    tci_check_report report;
    tc_err err;
    tci_arena_init(&a, 0);
    TC_ASSERT(tci_jsonl_repair(path, NULL, NULL, &a, &aside, &report, &err) == 0);
    tci_arena_done(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[300];
    const char *at = getenv("TMPDIR");
    tci_store *s;
    tc_err err;
    int n =
        snprintf(path, sizeof path, "%s/fuzz-jsonl-%d", at != NULL ? at : "/tmp", (int)getpid());
    tc_str folder = tci_str_of(path, (size_t)n);
    remove_tree(path);
    TC_ASSERT(tci_file_mkdir(TCI_FILE_CWD, folder, 0777, &err) == 0);
    TCI_FILE_AUTO f = TCI_FILE_NONE;
    TC_ASSERT(tci_file_openat(TCI_FILE_CWD, folder, TCI_OPEN_READ | TCI_OPEN_DIRECTORY, 0, &f,
                              &err) == 0);
    put_files(f, tci_str_of(data, size));
    int rc = reopen(folder, &s, &err);
    TC_ASSERT(rc == 0 || rc == TC_E_PARSE);
    if (rc == 0) {
        go_on(folder, s);
    } else {
        repair(folder);
        TC_ASSERT(reopen(folder, &s, &err) == 0);
        go_on(folder, s);
    }
    repair(folder);
    remove_tree(path);
    return 0;
}
