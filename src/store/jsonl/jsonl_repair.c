/* SPDX-License-Identifier: Apache-2.0
 *
 * Repairing a session of JSON lines: what is sound is written anew, commit by commit with its number, and
 * takes the place of what was there. All old files stay in a folder damaged-<time> inside the session's,
 * with a list of what is wrong with them. Leaves judging to jsonl_salvage.c; the caller holds the lock.
 * Thread: the caller's. Invariant: until the new files are safe the old ones are where they were, and
 * after that they are in the folder. */
#include "plat/clock.h"
#include "plat/dir.h"
#include "store/jsonl/jsonl_salvage.h"

#define NEW_FOLDER "repair.tmp"
#define LIST "damage.jsonl"

typedef struct repair {
    tc_str path;
    tci_file folder, aside, fresh; /* fresh: the new session's */
    tci_store *store;              /* likewise */
    tci_buf list;
    char aside_name[64];
} repair;

/* ---- what the salvage finds ---- */

static int on_commit(void *keeper, const tci_write *writes, size_t nwrites, uint64_t seq,
                     bool is_lazy, tc_err *err)
{
    repair *r = keeper;
    tci_jsonl *j = (tci_jsonl *)(void *)r->store;
    uint64_t stored;
    TCI_UNUSED(is_lazy); /* all of it is synced at the end */
    j->base.ix.next_seq = seq;
    return tci_store_commit(r->store, writes, nwrites, TCI_COMMIT_SYNCED, &stored, err);
}

static int on_part(void *keeper, const tci_jsonl_damage_part *part, tc_err *err)
{
    repair *r = keeper;
    bool first = true;
    tci_buf_append_byte(&r->list, '{');
    tci_json_put_key(&r->list, &first, TC_STR("file"));
    tci_json_put_str(&r->list, part->file);
    tci_json_put_key(&r->list, &first, TC_STR("byte"));
    tci_buf_append_u64(&r->list, part->offset);
    tci_json_put_key(&r->list, &first, TC_STR("what"));
    tci_json_put_str(&r->list, part->what);
    tci_json_put_key(&r->list, &first, TC_STR("lost"));
    tci_json_put_bool(&r->list, part->is_lost);
    tci_buf_append_str(&r->list, TC_STR("}\n"));
    return tci_buf_error(&r->list, err);
}

/* ---- files ---- */

typedef int (*file_fn)(repair *r, tc_str name, tc_err *err);

static bool is_session_file(tc_str name)
{
    bool is_task;
    uint64_t id;
    return tci_str_eq(name, TC_STR(TCI_JSONL_MAIN)) || tci_jsonl_parse_name(name, &is_task, &id);
}

/* Every session file in a folder. */
static int each_file(repair *r, tci_file in, file_fn fn, tc_err *err)
{
    tci_dir dir = {in.fd + 1};
    tci_dir_reader reader;
    tci_dir_entry entry;
    char *buf = tci_mem_alloc(TCI_DIR_READ_BYTES);
    if (buf == NULL)
        return tci_err_no_memory(err);
    int rc = tci_dir_read_start(&reader, &dir, buf, err);
    while (rc == 0 && (rc = tci_dir_read_next(&reader, &entry, err)) > 0)
        rc = is_session_file(entry.name) ? fn(r, entry.name, err) : 0;
    tci_free(buf);
    return rc;
}

static int copy_aside(repair *r, tc_str name, tc_err *err)
{
    TCI_FILE_AUTO from = TCI_FILE_NONE, to = TCI_FILE_NONE;
    tci_file_stat st;
    uint64_t copied;
    int rc = tci_file_openat(r->folder, name, TCI_OPEN_READ, 0, &from, err);
    if (rc == 0)
        rc = tci_file_openat(r->aside, name, TCI_OPEN_WRITE | TCI_OPEN_CREATE | TCI_OPEN_EXCL, 0666,
                             &to, err);
    if (rc == 0)
        rc = tci_file_stat_of(from, &st, err);
    if (rc == 0)
        rc = tci_file_copy_range(from, 0, to, st.size, &copied, err);
    return rc < 0 ? rc : tci_file_sync(to, err);
}

/* A second name is enough: the new files are other ones. */
static int keep_aside(repair *r, tc_str name, tc_err *err)
{
    int rc = tci_file_link(r->folder, name, r->aside, name, err);
    return rc < 0 ? copy_aside(r, name, err) : rc;
}

static int sync_fresh(repair *r, tc_str name, tc_err *err)
{
    TCI_FILE_AUTO f = TCI_FILE_NONE;
    int rc = tci_file_openat(r->fresh, name, TCI_OPEN_READ | TCI_OPEN_WRITE, 0, &f, err);
    return rc < 0 ? rc : tci_file_sync(f, err);
}

static int put_in_place(repair *r, tc_str name, tc_err *err)
{
    return tci_file_rename(r->fresh, name, r->folder, name, TCI_RENAME_REPLACE, err);
}

/* Old files that have no successor. */
static int remove_old(repair *r, tc_str name, tc_err *err)
{
    tci_file_stat st;
    int rc = tci_file_stat_at(r->fresh, name, false, &st, err);
    return rc == TC_E_NOT_FOUND ? tci_file_unlink(r->folder, name, err) : rc;
}

static int discard_fresh(repair *r, tc_str name, tc_err *err)
{
    TCI_UNUSED(err);
    tci_file_discard(r->fresh, name);
    return 0;
}

/* ---- steps ---- */

/* damaged-20261130T012245Z, with a number behind it when there is one already. */
static int make_aside(repair *r, tc_err *err)
{
    char stamp[TCI_RFC3339_MAX];
    tci_instant seconds = {tci_clock_now().sec, 0};
    tc_str now = tci_str_of(stamp, tci_rfc3339_text(seconds, stamp));
    tci_buf name;
    int rc = TC_E_CONFLICT;
    for (unsigned n = 1; rc == TC_E_CONFLICT && n < 100; n++) {
        tci_buf_init(&name, sizeof r->aside_name);
        tci_buf_append_str(&name, TC_STR("damaged-"));
        for (size_t i = 0; i < now.len; i++) {
            if (now.ptr[i] != '-' && now.ptr[i] != ':')
                tci_buf_append_byte(&name, now.ptr[i]);
        }
        if (n > 1)
            tci_buf_printf(&name, "-%u", n);
        rc = tci_buf_error(&name, err);
        if (rc == 0)
            rc = tci_file_mkdir(r->folder, tci_buf_str(&name), 0777, err);
        if (rc == 0)
            rc = tci_cstr(tci_buf_str(&name), r->aside_name, sizeof r->aside_name, err);
        tci_buf_done(&name);
    }
    return rc < 0 ? rc
                  : tci_file_openat(r->folder, tci_str(r->aside_name),
                                    TCI_OPEN_READ | TCI_OPEN_DIRECTORY, 0, &r->aside, err);
}

static int write_list(repair *r, tc_err *err)
{
    TCI_FILE_AUTO f = TCI_FILE_NONE;
    tc_str text = tci_buf_str(&r->list);
    int rc =
        tci_file_openat(r->aside, TC_STR(LIST), TCI_OPEN_WRITE | TCI_OPEN_CREATE, 0666, &f, err);
    if (rc == 0)
        rc = tci_file_write_all(f, text.ptr, text.len, err);
    if (rc == 0)
        rc = tci_file_sync(f, err);
    return rc < 0 ? rc : tci_file_sync(r->aside, err);
}

/* An empty folder for the new session, whatever an earlier try has left there. */
static int open_fresh(repair *r, tc_err *err)
{
    int rc = tci_file_mkdir(r->folder, TC_STR(NEW_FOLDER), 0777, err);
    if (rc < 0 && rc != TC_E_CONFLICT)
        return rc;
    rc = tci_file_openat(r->folder, TC_STR(NEW_FOLDER), TCI_OPEN_READ | TCI_OPEN_DIRECTORY, 0,
                         &r->fresh, err);
    return rc < 0 ? rc : each_file(r, r->fresh, discard_fresh, err);
}

static int write_fresh(repair *r, tci_check_report *ret, tc_err *err)
{
    tci_store_options options = {.durability = TCI_DURABILITY_NORMAL};
    tci_jsonl_salvage s = {.on_commit = on_commit, .on_part = on_part, .keeper = r};
    tci_buf path;
    tci_buf_init(&path, TCI_PATH_MAX);
    tci_buf_append_str(&path, r->path);
    tci_buf_append_str(&path, TC_STR("/" NEW_FOLDER));
    int rc = tci_buf_error(&path, err);
    if (rc == 0)
        rc = tci_store_open_jsonl(tci_buf_str(&path), &options, &r->store, err);
    tci_buf_done(&path);
    if (rc < 0)
        return rc;
    rc = tci_jsonl_salvage_run(r->path, &s, err);
    tc_err closing;
    int closed = tci_store_close(r->store, rc < 0 ? &closing : err);
    if (rc == 0)
        rc = closed;
    if (rc == 0)
        rc = each_file(r, r->fresh, sync_fresh, err);
    if (rc == 0)
        *ret = s.report;
    return rc;
}

/* The old files aside, then the new ones in their place. */
static int swap(repair *r, tc_err *err)
{
    int rc = make_aside(r, err);
    if (rc == 0)
        rc = each_file(r, r->folder, keep_aside, err);
    if (rc == 0)
        rc = write_list(r, err);
    if (rc == 0)
        rc = tci_file_sync(r->folder, err);
    if (rc == 0)
        rc = each_file(r, r->folder, remove_old, err);
    if (rc == 0)
        rc = each_file(r, r->fresh, put_in_place, err);
    if (rc == 0)
        rc = tci_file_sync(r->folder, err);
    return rc;
}

static int rebuild(repair *r, tci_check_report *ret, tc_err *err)
{
    int rc = open_fresh(r, err);
    if (rc == 0)
        rc = write_fresh(r, ret, err);
    if (rc == 0)
        rc = swap(r, err);
    if (tci_file_is_open(r->fresh)) {
        tc_err ignored; /* a left over folder is emptied by the next repair */
        int cleared = each_file(r, r->fresh, discard_fresh, &ignored);
        if (cleared == 0)
            cleared = tci_file_rmdir(r->folder, TC_STR(NEW_FOLDER), &ignored);
        TCI_UNUSED(cleared);
    }
    return rc;
}

int tci_jsonl_repair(tc_str path, tci_damage_fn on_damage, void *user, tci_arena *a,
                     tc_str *ret_aside, tci_check_report *ret, tc_err *err)
{
    tci_jsonl_salvage look = {.on_damage = on_damage, .user = user};
    int rc = tci_jsonl_salvage_run(path, &look, err);
    if (rc < 0)
        return rc;
    if (look.report.is_unreadable) {
        (void)tc_err_set(err, TC_E_PARSE, "nothing of session '%.*s' can be read",
                         TC_STR_ARG(path));
        return tc_err_hint(err, "put its '" TCI_JSONL_MAIN "' back, from a copy");
    }
    if (look.report.ndamaged == look.report.ntails) { /* opening does it */
        *ret_aside = TC_STR("");
        *ret = look.report;
        return 0;
    }
    repair r = {
        .path = path, .folder = TCI_FILE_NONE, .aside = TCI_FILE_NONE, .fresh = TCI_FILE_NONE};
    tci_buf_init(&r.list, TCI_RECORD_MAX);
    rc = tci_file_openat(TCI_FILE_CWD, path, TCI_OPEN_READ | TCI_OPEN_DIRECTORY, 0, &r.folder, err);
    if (rc == 0)
        rc = rebuild(&r, ret, err);
    if (rc == 0)
        rc = tci_arena_printf(a, ret_aside, err, "%.*s/%s", TC_STR_ARG(path), r.aside_name);
    tci_file_close(&r.fresh);
    tci_file_close(&r.aside);
    tci_file_close(&r.folder);
    tci_buf_done(&r.list);
    return rc < 0 ? tc_err_wrap(err, "repairing session '%.*s'", TC_STR_ARG(path)) : 0;
}
