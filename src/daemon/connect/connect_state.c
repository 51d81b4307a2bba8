/* SPDX-License-Identifier: Apache-2.0
 *
 * What `connect` keeps: <state>/instances/<name>/device-id and hosts/<alias>/{host.json,credential,runtime}.
 * Leaves the lock and the identity's own file to runtime_dir.h. Blocking, before a loop runs.
 *
 * Invariant: a name is opened below the folder that was opened before it, and never through a link. What is
 * there is read, never replaced, but for the record, which changes as a whole. A daemon that is killed
 * between any two steps leaves either nothing of a file or all of it. */
#include "daemon/connect/connect_int.h"

#include "base/hash.h"
#include "base/json.h"
#include "plat/clock.h"

#include <stdio.h>

#define RECORD_NAME TC_STR("host.json")
#define CREDENTIAL_NAME TC_STR("credential")
#define IDENTITY_NAME TC_STR("device-id")

enum { RECORD_BYTES_MAX = 64 * 1024, CREDENTIAL_BYTES = 32, CREDENTIAL_HEX = 64 };

/* ---- folders ---- */

/* An absolute path with all its parents; links are fine here, they are the person's own. */
static int open_root(tc_str path, bool makes, tci_file *ret, tc_err *err)
{
    tc_str parent, name;
    TCI_FILE_AUTO above = TCI_FILE_NONE;
    int rc = tci_file_open(path, TCI_OPEN_READ | TCI_OPEN_DIRECTORY, 0, ret, err);
    tci_path_split(path, &parent, &name);
    if (rc != TC_E_NOT_FOUND || !makes || name.len == 0)
        return rc;
    if (open_root(parent, true, &above, err) < 0)
        return err->code;
    rc = tci_file_mkdir(TCI_FILE_CWD, path, 0700, err);
    if (rc == 0)
        rc = tci_file_sync(above, err);
    if (rc < 0 && rc != TC_E_CONFLICT)
        return rc;
    return tci_file_open(path, TCI_OPEN_READ | TCI_OPEN_DIRECTORY, 0, ret, err);
}

/* One folder below another. is_private: 0700, also when somebody has opened it up. */
static int open_below(tci_file parent, tc_str name, bool makes, bool is_private, tci_file *ret,
                      tc_err *err)
{
    tci_file_stat st;
    TCI_FILE_AUTO f = TCI_FILE_NONE;
    const unsigned flags = TCI_OPEN_READ | TCI_OPEN_DIRECTORY | TCI_OPEN_NOFOLLOW;
    int rc = tci_file_openat(parent, name, flags, 0, &f, err);
    if (rc == TC_E_NOT_FOUND && makes) {
        rc = tci_file_mkdir(parent, name, 0700, err);
        if (rc == 0)
            rc = tci_file_sync(parent, err);
        if (rc == 0 || rc == TC_E_CONFLICT)
            rc = tci_file_openat(parent, name, flags, 0, &f, err);
    }
    if (rc == 0)
        rc = tci_file_stat_of(f, &st, err);
    if (rc == 0 && is_private && st.mode != 0700)
        rc = tci_file_chmod(f, 0700, err);
    if (rc == 0)
        *ret = tci_file_take(&f);
    else if (rc == TC_E_DENIED)
        (void)tc_err_hint(err, "it must be a folder of this account's own, not a link");
    return rc;
}

typedef struct folders {
    tci_file root, instances, instance, hosts, alias;
} folders;

static void close_folders(folders *f)
{
    tci_file_close(&f->root);
    tci_file_close(&f->instances);
    tci_file_close(&f->instance);
    tci_file_close(&f->hosts);
    tci_file_close(&f->alias);
}

static int open_folders(const tci_connect_plan *plan, bool makes, folders *f, tc_err *err)
{
    if (open_root(plan->state_dir, makes, &f->root, err) < 0 ||
        open_below(f->root, TC_STR("instances"), makes, false, &f->instances, err) < 0 ||
        open_below(f->instances, plan->instance, makes, true, &f->instance, err) < 0 ||
        open_below(f->instance, TC_STR("hosts"), makes, false, &f->hosts, err) < 0)
        return err->code;
    return open_below(f->hosts, plan->alias, makes, true, &f->alias, err);
}

/* ---- files ---- */

/* A whole regular file that is no link. Heap memory: the caller wipes and frees it. */
static int read_regular(tci_file folder, tc_str name, size_t max_bytes, char **ret, size_t *ret_len,
                        tc_err *err)
{
    tci_file_stat st;
    TCI_FILE_AUTO f = TCI_FILE_NONE;
    if (tci_file_stat_at(folder, name, false, &st, err) < 0)
        return err->code;
    if (st.kind != TCI_FILE_KIND_REGULAR)
        return tc_err_set(err, TC_E_INVALID, "'%.*s' must be a regular file, not a symlink",
                          TC_STR_ARG(name));
    if (tci_file_openat(folder, name, TCI_OPEN_READ | TCI_OPEN_NOFOLLOW | TCI_OPEN_NONBLOCK, 0, &f,
                        err) < 0)
        return err->code;
    char *text = tci_mem_alloc(max_bytes + 1);
    if (text == NULL)
        return tci_err_no_memory(err);
    int rc = tci_file_pread(f, text, max_bytes + 1, 0, ret_len, err);
    if (rc == 0 && *ret_len > max_bytes)
        rc = tc_err_set(err, TC_E_INVALID, "'%.*s' is too large", TC_STR_ARG(name));
    if (rc < 0) {
        tci_mem_wipe(text, max_bytes + 1);
        tci_free(text);
        return rc;
    }
    *ret = text;
    return 0;
}

/* Under the lock: whole under another name first, then under its own, each time on stable storage. */
static int write_file(tci_file folder, tc_str name, tc_str temp, unsigned mode, tc_str text,
                      tci_rename_how how, tc_err *err)
{
    TCI_FILE_AUTO f = TCI_FILE_NONE;
    tci_file_discard(folder, temp); /* of a daemon that was killed */
    int rc = tci_file_openat(folder, temp, TCI_OPEN_WRITE | TCI_OPEN_CREATE | TCI_OPEN_EXCL, mode,
                             &f, err);
    if (rc < 0)
        return rc;
    rc = tci_file_write_all(f, text.ptr, text.len, err);
    if (rc == 0)
        rc = tci_file_sync(f, err);
    if (rc == 0) {
        rc = tci_file_rename(folder, temp, folder, name, how, err);
        if (rc == TC_E_UNSUPPORTED && how == TCI_RENAME_NOREPLACE)
            rc = tci_file_link(folder, temp, folder, name, err);
    }
    if (rc == 0)
        rc = tci_file_sync(folder, err);
    tci_file_discard(folder, temp);
    return rc;
}

/* ---- the record ---- */

static void put_text(tci_buf *b, const char *lead, tc_str text)
{
    tci_buf_append_str(b, tci_str(lead));
    if (text.ptr != NULL)
        tci_json_put_str(b, text);
    else
        tci_buf_append_str(b, TC_STR("null"));
}

void tci_connect_record_put(tci_buf *b, const tci_connect_record *r)
{
    put_text(b, "{\n  \"url\": ", r->url);
    put_text(b, ",\n  \"name\": ", r->name);
    put_text(b, ",\n  \"ca_file\": ", r->ca_file.len > 0 ? r->ca_file : (tc_str){0});
    if (r->is_registered) {
        put_text(b, ",\n  \"registration\": {\n    \"resource_id\": ", r->resource_id);
        put_text(b, ",\n    \"websocket_url\": ", r->websocket_url);
        tci_buf_append_str(b, TC_STR("\n  }\n}"));
    } else {
        tci_buf_append_str(b, TC_STR(",\n  \"registration\": null\n}"));
    }
}

static int malformed(tc_err *err)
{
    return tc_err_set(err, TC_E_INVALID, "saved Host configuration is invalid");
}

/* Take the texts of an object that has no other members; those of nneeded must be there. */
typedef struct text_member {
    const char *name;
    tc_str *to;
    bool may_be_null;
} text_member;

static bool take_member(const tci_json_member *m, const text_member *members, size_t nmembers,
                        tci_arena *a, tc_err *err)
{
    for (size_t i = 0; i < nmembers; i++) {
        tc_str text;
        if (!tci_str_eq(m->key, tci_str(members[i].name)))
            continue;
        if (m->value.kind == TCI_JSON_NULL)
            return members[i].may_be_null;
        return tci_json_as_str(&m->value, &text) &&
               memchr(text.ptr, '\0', text.len) == NULL && /* none of these can hold one */
               tci_arena_printf(a, members[i].to, err, "%.*s", TC_STR_ARG(text)) == 0;
    }
    return false;
}

static bool take_members(const tci_json *v, const text_member *members, size_t nmembers,
                         const char *object, const tci_json **ret_object, tci_arena *a, tc_err *err)
{
    if (v->kind != TCI_JSON_OBJECT)
        return false;
    for (uint32_t i = 0; i < v->count; i++) {
        const tci_json_member *m = &v->u.members[i];
        if (object != NULL && tci_str_eq(m->key, tci_str(object)))
            *ret_object = &m->value;
        else if (!take_member(m, members, nmembers, a, err))
            return false;
    }
    for (size_t i = 0; i < nmembers; i++) {
        if (members[i].to->ptr == NULL && !members[i].may_be_null)
            return false;
    }
    return true;
}

int tci_connect_record_read(tc_str text, tci_arena *a, tci_connect_record *ret, tc_err *err)
{
    tci_json v;
    tc_str base;
    const tci_json *registration = NULL;
    tci_connect_record r = {0};
    const text_member members[] = {
        {"url", &r.url, false}, {"name", &r.name, false}, {"ca_file", &r.ca_file, true}};
    const text_member registered[] = {{"resource_id", &r.resource_id, false},
                                      {"websocket_url", &r.websocket_url, false}};
    if (tci_json_parse(text, 0, a, &v, err) < 0 ||
        !take_members(&v, members, TCI_ARRAY_LEN(members), "registration", &registration, a, err))
        return malformed(err);
    r.is_registered = registration != NULL && registration->kind != TCI_JSON_NULL;
    if (r.is_registered &&
        !take_members(registration, registered, TCI_ARRAY_LEN(registered), NULL, NULL, a, err))
        return malformed(err);
    if (r.ca_file.len > 0 && r.ca_file.ptr[0] != '/')
        return malformed(err);
    if (tci_connect_base(r.url, a, &base, err) < 0)
        return err->code;
    *ret = r;
    return 0;
}

static int read_record(tci_connect_state *s, tci_arena *a, tc_err *err)
{
    char *text;
    size_t len;
    tc_str kept;
    int rc = read_regular(s->folder, RECORD_NAME, RECORD_BYTES_MAX, &text, &len, err);
    if (rc < 0)
        return rc;
    rc = tci_arena_dup(a, tci_str_of(text, len), &kept, err);
    tci_free(text);
    return rc < 0 ? rc : tci_connect_record_read(kept, a, &s->record, err);
}

int tci_connect_state_save(tci_connect_state *s, tc_err *err)
{
    tci_buf b;
    tci_buf_init(&b, RECORD_BYTES_MAX);
    tci_connect_record_put(&b, &s->record);
    int rc = tci_buf_error(&b, err);
    if (rc == 0)
        rc = write_file(s->folder, RECORD_NAME, TC_STR(".host.json.new"), 0644, tci_buf_str(&b),
                        TCI_RENAME_REPLACE, err);
    tci_buf_done(&b);
    return rc < 0 ? tc_err_wrap(err, "cannot save the Host") : 0;
}

/* What is saved under the alias against what was asked for. */
static int match_record(const tci_connect_plan *plan, tci_connect_state *s, tci_arena *a,
                        tc_err *err)
{
    tc_str base;
    int rc = read_record(s, a, err);
    s->is_new = rc == TC_E_NOT_FOUND;
    if (s->is_new && plan->url.len == 0) {
        (void)tc_err_set(err, TC_E_NOT_FOUND, "saved Host not found; connect using its URL first");
        return tc_err_hint(err, "a name belongs to an --instance and a --state-dir");
    }
    if (s->is_new) {
        s->record = (tci_connect_record){.url = plan->url};
        return 0;
    }
    if (rc < 0)
        return rc;
    if (tci_connect_base(s->record.url, a, &base, err) < 0)
        return err->code;
    if (plan->url.len > 0 && !tci_str_eq(base, plan->url))
        return tc_err_set(err, TC_E_CONFLICT,
                          "Host name already selects another URL; use a different Host name");
    s->record.url = base; /* others may have written it in another form */
    return 0;
}

/* ---- identity and credential ---- */

static int check_identity(const tci_connect_state *s, tci_file instance, tc_err *err)
{
    tci_file_stat st;
    int rc = tci_file_stat_at(instance, IDENTITY_NAME, false, &st, err);
    if (rc == 0 && st.kind != TCI_FILE_KIND_REGULAR)
        return tc_err_set(err, TC_E_INVALID, "'device-id' must be a regular file, not a symlink");
    if (rc == TC_E_NOT_FOUND && s->record.is_registered) {
        (void)tc_err_set(err, TC_E_INVALID,
                         "the saved device identity is missing; the saved Host knows this "
                         "installation by it");
        return tc_err_hint(err, "restore '%.*s/device-id', or enroll anew with a new --instance",
                           TC_STR_ARG(s->instance_path));
    }
    return rc == TC_E_NOT_FOUND ? 0 : rc;
}

static int bad_credential(tc_err *err)
{
    (void)tc_err_set(err, TC_E_INVALID, "saved pairing credential is invalid; it was not replaced");
    return tc_err_hint(err, "restore the file, or enroll anew with a new --instance");
}

static int read_credential(tci_connect_state *s, tc_err *err)
{
    uint8_t bytes[CREDENTIAL_BYTES];
    char *text;
    size_t len;
    tci_file_stat st;
    TCI_FILE_AUTO f = TCI_FILE_NONE;
    int rc = read_regular(s->folder, CREDENTIAL_NAME, 4096, &text, &len, err);
    if (rc == TC_E_INVALID)
        return bad_credential(err);
    if (rc < 0)
        return rc;
    if (tci_unhex(tci_str_of(text, len), bytes, sizeof bytes, err) == 0)
        rc = tci_secret_init(&s->credential, tci_str_of(text, len), err);
    else
        rc = bad_credential(err);
    tci_mem_wipe(bytes, sizeof bytes);
    tci_mem_wipe(text, len);
    tci_free(text);
    if (rc == 0)
        rc = tci_file_openat(s->folder, CREDENTIAL_NAME, TCI_OPEN_READ | TCI_OPEN_NOFOLLOW, 0, &f,
                             err);
    if (rc == 0)
        rc = tci_file_stat_of(f, &st, err);
    if (rc == 0 && (st.mode & 0077) != 0) /* restored from somewhere, with the mode of there */
        rc = tci_file_chmod(f, 0600, err);
    return rc;
}

static int make_credential(tci_connect_state *s, tc_err *err)
{
    uint8_t bytes[CREDENTIAL_BYTES];
    char hex[CREDENTIAL_HEX];
    tci_random_bytes(bytes, sizeof bytes);
    tci_hex(bytes, sizeof bytes, hex);
    int rc = write_file(s->folder, CREDENTIAL_NAME, TC_STR(".credential.new"), 0600,
                        tci_str_of(hex, sizeof hex), TCI_RENAME_NOREPLACE, err);
    tci_mem_wipe(bytes, sizeof bytes);
    tci_mem_wipe(hex, sizeof hex);
    return rc < 0 ? tc_err_wrap(err, "cannot save the credential") : 0;
}

static int take_credential(tci_connect_state *s, tc_err *err)
{
    int rc = read_credential(s, err);
    if (rc != TC_E_NOT_FOUND)
        return rc;
    if (s->record.is_registered) {
        (void)tc_err_set(err, TC_E_INVALID,
                         "saved pairing credential is missing; it was not replaced");
        return tc_err_hint(err, "a new one cannot take over the registration: restore the file, or "
                                "enroll anew with a new --instance");
    }
    rc = make_credential(s, err);
    return rc < 0 ? rc : read_credential(s, err);
}

/* ---- all of it ---- */

static int name_paths(const tci_connect_plan *plan, tci_connect_state *s, tci_arena *a, tc_err *err)
{
    if (tci_arena_printf(a, &s->instance_path, err, "%.*s/instances/%.*s",
                         TC_STR_ARG(plan->state_dir), TC_STR_ARG(plan->instance)) < 0 ||
        tci_arena_printf(a, &s->runtime_path, err, "%.*s/hosts/%.*s/runtime",
                         TC_STR_ARG(s->instance_path), TC_STR_ARG(plan->alias)) < 0)
        return err->code;
    return tci_arena_printf(a, &s->credential_path, err, "%.*s/hosts/%.*s/credential",
                            TC_STR_ARG(s->instance_path), TC_STR_ARG(plan->alias));
}

static int open_all(const tci_connect_plan *plan, folders *f, tci_connect_state *s, tci_arena *a,
                    tci_runtime_dir **ret_runtime, tc_err *err)
{
    tci_file_stat st;
    int rc = open_folders(plan, plan->url.len > 0, f, err);
    if (rc == TC_E_NOT_FOUND && plan->url.len == 0)
        return tc_err_set(err, TC_E_NOT_FOUND, "saved Host not found; connect using its URL first");
    if (rc < 0)
        return tc_err_wrap(err, "cannot use the state folder '%.*s'", TC_STR_ARG(plan->state_dir));
    s->folder = tci_file_take(&f->alias);
    rc = tci_file_stat_at(s->folder, TC_STR("runtime"), false, &st, err);
    if (rc == 0 && st.kind != TCI_FILE_KIND_DIRECTORY)
        return tc_err_set(err, TC_E_INVALID, "'%.*s' must be a folder, not a symlink",
                          TC_STR_ARG(s->runtime_path));
    /* An alias that nobody saved is left without anything of ours. */
    if (plan->url.len == 0 && tci_file_stat_at(s->folder, RECORD_NAME, false, &st, err) < 0)
        return match_record(plan, s, a, err);
    rc = tci_runtime_dir_open(s->runtime_path, ret_runtime, err);
    if (rc == TC_E_CONFLICT)
        return tc_err_hint(err, "stop the other daemon, or use another --instance");
    if (rc < 0 || match_record(plan, s, a, err) < 0 || check_identity(s, f->instance, err) < 0 ||
        tci_device_identity(s->instance_path, a, &s->device_id, err) < 0)
        return err->code;
    return take_credential(s, err);
}

int tci_connect_state_open(const tci_connect_plan *plan, tci_arena *a, tci_connect_state *ret,
                           tci_runtime_dir **ret_runtime, tc_err *err)
{
    folders f = {TCI_FILE_NONE, TCI_FILE_NONE, TCI_FILE_NONE, TCI_FILE_NONE, TCI_FILE_NONE};
    tci_connect_state s = {.folder = TCI_FILE_NONE};
    int rc = name_paths(plan, &s, a, err);
    if (rc == 0)
        rc = open_all(plan, &f, &s, a, ret_runtime, err);
    close_folders(&f);
    if (rc < 0) {
        tci_connect_state_close(&s);
        return rc;
    }
    *ret = s;
    return 0;
}

void tci_connect_state_close(tci_connect_state *s)
{
    tci_file_close(&s->folder);
    tci_secret_done(&s->credential);
}
