/* SPDX-License-Identifier: Apache-2.0
 *
 * Session folders as values, and the story that fills them. */
#include "folder.h"
#include "dump.h"
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- folders ---- */

const char *test_path(const char *name, char out[FOLDER_PATH_MAX])
{
    const char *at = getenv("TC_TEST_DIR");
    snprintf(out, FOLDER_PATH_MAX, "%s/%s", at != NULL ? at : ".", name);
    return out;
}

static void in_folder(char out[FOLDER_PATH_MAX + 80], const char *path, const char *name)
{
    snprintf(out, FOLDER_PATH_MAX + 80, "%s/%s", path, name);
}

folder_file *folder_put(folder *f, const char *name, const void *bytes, size_t len)
{
    folder_file *file = folder_file_of(f, name);
    if (file == NULL) {
        assert_true(f->nfiles < FOLDER_FILES_MAX);
        file = &f->files[f->nfiles++];
        snprintf(file->name, sizeof file->name, "%s", name);
    }
    char *copied = tci_mem_alloc(len + 1);
    if (len > 0)
        memcpy(copied, bytes, len);
    tci_free(file->bytes);
    file->bytes = copied;
    file->len = len;
    return file;
}

void folder_drop(folder *f, const char *name)
{
    folder_file *file = folder_file_of(f, name);
    if (file == NULL)
        return;
    tci_free(file->bytes);
    for (f->nfiles--; file < f->files + f->nfiles; file++)
        *file = file[1];
    *file = (folder_file){.len = 0};
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const folder_file *)a)->name, ((const folder_file *)b)->name);
}

folder folder_read(const char *path)
{
    folder f = {.nfiles = 0};
    char at[FOLDER_PATH_MAX + 80];
    DIR *dir = opendir(path);
    assert_non_null(dir);
    for (struct dirent *e; (e = readdir(dir)) != NULL;) {
        char *bytes;
        size_t len;
        if (e->d_name[0] == '.')
            continue;
        in_folder(at, path, e->d_name);
        FILE *in = fopen(at, "rb");
        assert_non_null(in);
        fseek(in, 0, SEEK_END);
        len = (size_t)ftell(in);
        rewind(in);
        bytes = tci_mem_alloc(len + 1);
        assert_int_equal(fread(bytes, 1, len, in), len);
        fclose(in);
        folder_put(&f, e->d_name, bytes, len);
        tci_free(bytes);
    }
    closedir(dir);
    qsort(f.files, f.nfiles, sizeof f.files[0], by_name);
    return f;
}

void folder_remove(const char *path)
{
    char at[FOLDER_PATH_MAX + 80];
    DIR *dir = opendir(path);
    if (dir == NULL)
        return;
    for (struct dirent *e; (e = readdir(dir)) != NULL;) {
        in_folder(at, path, e->d_name);
        if (e->d_name[0] != '.')
            (void)unlink(at); /* the next use would tell */
    }
    closedir(dir);
    (void)rmdir(path); /* likewise */
}

/* Files that f does not have. */
static void remove_others(const char *path, const folder *f)
{
    char at[FOLDER_PATH_MAX + 80];
    DIR *dir = opendir(path);
    assert_non_null(dir);
    for (struct dirent *e; (e = readdir(dir)) != NULL;) {
        in_folder(at, path, e->d_name);
        if (e->d_name[0] != '.' && folder_file_of((folder *)(uintptr_t)f, e->d_name) == NULL)
            (void)unlink(at); /* opening would tell */
    }
    closedir(dir);
}

void folder_write(const char *path, const folder *f)
{
    char at[FOLDER_PATH_MAX + 80];
    if (mkdir(path, 0777) != 0)
        remove_others(path, f); /* files are used again: making and removing them takes longest */
    for (size_t i = 0; i < f->nfiles; i++) {
        in_folder(at, path, f->files[i].name);
        FILE *out = fopen(at, "wb");
        assert_non_null(out);
        assert_int_equal(fwrite(f->files[i].bytes, 1, f->files[i].len, out), f->files[i].len);
        fclose(out);
    }
}

folder folder_copy(const folder *f)
{
    folder copied = {.nfiles = 0};
    for (size_t i = 0; i < f->nfiles; i++)
        folder_put(&copied, f->files[i].name, f->files[i].bytes, f->files[i].len);
    return copied;
}

void folder_done(folder *f)
{
    for (size_t i = 0; i < f->nfiles; i++)
        tci_free(f->files[i].bytes);
    *f = (folder){.nfiles = 0};
}

folder_file *folder_file_of(folder *f, const char *name)
{
    for (size_t i = 0; i < f->nfiles; i++) {
        if (strcmp(f->files[i].name, name) == 0)
            return &f->files[i];
    }
    return NULL;
}

void folder_edit(folder *f, const char *name, const char *from, const char *to)
{
    folder_file *file = folder_file_of(f, name);
    assert_non_null(file);
    size_t at = tci_str_find(tci_str_of(file->bytes, file->len), tci_str(from));
    assert_true(at < file->len);
    tci_buf b;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_buf_append(&b, file->bytes, at);
    tci_buf_append_str(&b, tci_str(to));
    tci_buf_append(&b, file->bytes + at + strlen(from), file->len - at - strlen(from));
    folder_put(f, name, b.ptr, b.len);
    tci_buf_done(&b);
}

/* ---- sessions ---- */

tci_store *open_session(const char *path, tci_durability durability)
{
    tci_store_options options = {.durability = durability};
    tci_store *s = NULL;
    tc_err err;
    if (tci_store_open_jsonl(tci_str(path), &options, &s, &err) < 0)
        fail_msg("opening: %s", err.msg);
    return s;
}

void refuse_session(const char *path, int code, tc_err *err)
{
    tci_store_options options = {.durability = TCI_DURABILITY_NORMAL};
    tci_store *s = NULL;
    int rc = tci_store_open_jsonl(tci_str(path), &options, &s, err);
    if (rc == 0)
        close_session(s);
    assert_int_equal(rc, code);
}

void close_session(tci_store *s)
{
    tc_err err;
    if (tci_store_close(s, &err) < 0)
        fail_msg("closing: %s", err.msg);
}

char *dump_of(tci_store *s)
{
    tci_buf b;
    tc_err err;
    tci_buf_init(&b, TCI_BUF_MAX);
    if (dump_store(s, &b, &err) < 0)
        fail_msg("reading: %s", err.msg);
    tci_buf_append_byte(&b, 0);
    return b.ptr;
}

char *dump_at(const char *path)
{
    tci_store *s = open_session(path, TCI_DURABILITY_NORMAL);
    char *text = dump_of(s);
    close_session(s);
    return text;
}

/* ---- the story ---- */

typedef struct teller {
    tci_write writes[8];
    size_t n;
    tci_arena a;
    tc_err *err;
    int rc;
} teller;

static tci_write *add(teller *t, tci_write_type type)
{
    tci_write *w = &t->writes[t->n++];
    *w = (tci_write){.type = type};
    return w;
}

static void entry(teller *t, uint64_t id, const char *text)
{
    tc_str json;
    tci_write *w = add(t, TCI_WRITE_ENTRY);
    t->rc |=
        tci_arena_printf(&t->a, &json, t->err,
                         "{\"id\":%llu,\"conversationId\":1,\"kind\":\"pi.user\",\"data\":\"%s\"}",
                         (unsigned long long)id, text);
    if (t->rc == 0)
        t->rc = tci_entry_parse(json, &t->a, NULL, &w->u.entry, t->err);
}

static void task(teller *t, const char *state)
{
    tc_str json;
    tci_write *w = add(t, TCI_WRITE_TASK);
    t->rc |=
        tci_arena_printf(&t->a, &json, t->err,
                         "{\"id\":5,\"conversationId\":1,\"kind\":\"pi.tool\",\"version\":2,"
                         "\"input\":{},\"background\":false,\"abortRequested\":false,\"state\":%s}",
                         state);
    if (t->rc == 0)
        t->rc = tci_task_parse(json, &t->a, NULL, &w->u.task, t->err);
}

static void submission(teller *t, const char *rest)
{
    tc_str json;
    tci_write *w = add(t, TCI_WRITE_SUBMISSION);
    t->rc |= tci_arena_printf(
        &t->a, &json, t->err,
        "{\"id\":6,\"conversationId\":1,\"requestId\":\"r\",\"type\":\"input\",%s}", rest);
    if (t->rc == 0)
        t->rc = tci_submission_parse(json, &t->a, &w->u.submission, t->err);
}

static void create(teller *t, uint64_t id, const char *kind, bool is_rewindable, const char *value)
{
    tci_write *w = add(t, TCI_WRITE_DOC_CREATE);
    w->u.document = (tci_document){.id = id,
                                   .kind = tci_str(kind),
                                   .scope = TCI_SCOPE_CONVERSATION,
                                   .owner_id = 1,
                                   .history = TCI_HISTORY_LATEST,
                                   .fork = TCI_FORK_INITIAL};
    if (is_rewindable) {
        w->u.document.history = TCI_HISTORY_REWINDABLE;
        w->u.document.fork = TCI_FORK_AS_OF;
    }
    w->content = (tci_content){false, 1, tci_str(value)};
}

static void change(teller *t, uint64_t id, bool is_delta, const char *json)
{
    tci_write *w = add(t, TCI_WRITE_DOC_CHANGE);
    w->u.document.id = id;
    w->content = (tci_content){is_delta, 1, tci_str(json)};
}

static void retell(teller *t, int k)
{
    switch (k) {
    case 0:
        add(t, TCI_WRITE_CONVERSATION)->u.conversation.id = 1;
        create(t, 2, "pi.live", false, "{}");
        create(t, 3, "pi.agent", true, "{\"model\":\"\xc3\xa9\xe2\x80\xa8\"}");
        break;
    case 1:
        entry(t, 4, "Say \\ud800 hello \xf0\x9f\x98\x80");
        submission(t, "\"status\":\"placed\",\"entry\":4");
        task(t, "{\"status\":\"pending\",\"checkpoint\":{\"phase\":\"call\"}}");
        change(t, 2, false, "{\"run\":{\"taskId\":5,\"inputs\":[6]}}");
        break;
    case 2:
        task(t, "{\"status\":\"running\",\"checkpoint\":{\"phase\":\"call\"}}");
        break;
    case 3:
        change(t, 2, true, "[[\"s\",[\"generation\"],{\"attempt\":1,\"text\":\"\"}]]");
        break;
    case 4:
        task(t, "{\"status\":\"running\",\"checkpoint\":{\"phase\":\"execute\"}}");
        task(t, "{\"status\":\"waiting\",\"checkpoint\":{},\"on\":[9],\"policy\":\"failFast\"}");
        change(t, 2, true, "[[\"a\",[\"generation\",\"text\"],\" there \xe2\x98\x83\"]]");
        change(t, 3, true, "[[\"s\",[\"cwd\"],\"/\"]]");
        break;
    case 5:
        entry(t, 7, "done");
        change(t, 2, false, "{\"run\":{}}");
        create(t, 8, "brief", false, "{\"a\":[1,2]}");
        break;
    case 6:
        task(t, "{\"status\":\"terminal\",\"outcome\":{\"status\":\"completed\",\"result\":{}}}");
        submission(t, "\"status\":\"done\",\"entry\":4,\"answer\":7");
        add(t, TCI_WRITE_DOC_RETIRE)->u.document.id = 8;
        break;
    case 7:
        add(t, TCI_WRITE_CONVERSATION)->u.conversation.id = 9;
        create(t, 10, "pi.agent", true, "{}");
        t->writes[1].type = TCI_WRITE_DOC_COPY;
        t->writes[1].u.document.owner_id = 9;
        t->writes[1].source_id = 3;
        break;
    default:
        entry(t, 20 + (uint64_t)k, "and so on");
        change(t, 2, true, "[[\"s\",[\"k\"],1]]");
        break;
    }
}

static int end(teller *t, tci_store *s, tci_commit_how how)
{
    uint64_t seq;
    if (t->rc == 0)
        t->rc = tci_store_commit(s, t->writes, t->n, how, &seq, t->err);
    tci_arena_done(&t->a);
    return t->rc;
}

int tell(tci_store *s, int k, tci_commit_how how, tc_err *err)
{
    teller t = {.err = err};
    tci_arena_init(&t.a, 0);
    retell(&t, k);
    return end(&t, s, how);
}

int tell_entry(tci_store *s, uint64_t id, tc_err *err)
{
    teller t = {.err = err};
    tci_arena_init(&t.a, 0);
    entry(&t, id, "one more");
    return end(&t, s, TCI_COMMIT_SYNCED);
}
