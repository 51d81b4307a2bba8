/* SPDX-License-Identifier: Apache-2.0
 *
 * The owner lock of a session. What the lock protects is the backends' business; who may have it,
 * the kernel's. Any thread; may block on the file system. Invariant: whoever holds the lock of the file
 * that the name stands for now is the owner; a holder of a file that has lost its name is nobody,
 * which is why taking the lock looks at the name once more. The lock file says who the owner is; a byte
 * of the session's own file, far behind its end, is locked as well, because the file may have other names,
 * each with a lock file of its own. */
#include "store/lock.h"

#include "base/json.h"
#include "base/plain.h"
#include "plat/clock.h"
#include "plat/file.h"
#include "plat/proc.h"
#include "plat/self.h"
#include "plat/system.h"

enum {
    LOCK_TRIES = 100,           /* files that may be removed under us in a row */
    LOCK_CONTENT_MAX = 4 * 1024 /* bytes of a lock file that we look at */
};

/* Bytes of the session's file: no session is that long, and SQLite locks others. */
static const uint64_t owned_byte = UINT64_C(1) << 61, named_byte = (UINT64_C(1) << 61) + 1;

struct tci_lock {
    tci_file file;
    tci_file session; /* its own file; none while there is none yet */
    char path[TCI_PATH_MAX], session_path[TCI_PATH_MAX];
};

bool tci_store_path_is_sqlite(tc_str path)
{
    return tci_str_ends(path, TC_STR(".sqlite"));
}

/* A new folder outlives a power cut once the one above it is synced. Where that cannot be done, what
 * is synced below has to do. */
static void sync_above(tc_str folder)
{
    tc_err ignored;
    tc_str parent, name;
    TCI_FILE_AUTO f = TCI_FILE_NONE;
    tci_path_split(folder, &parent, &name);
    if (tci_file_openat(TCI_FILE_CWD, parent, TCI_OPEN_READ | TCI_OPEN_DIRECTORY, 0, &f,
                        &ignored) == 0)
        (void)!tci_file_sync(f, &ignored);
}

int tci_store_make_folders(tc_str path, bool itself, tc_err *err)
{
    tc_err ignored;
    for (size_t at = 1; at <= path.len; at++) {
        if (at < path.len ? path.ptr[at] != '/' : !itself)
            continue;
        tc_str folder = tci_str_sub(path, 0, at);
        tci_file_stat st;
        if (tci_file_stat_at(TCI_FILE_CWD, folder, true, &st, &ignored) == 0 &&
            st.kind == TCI_FILE_KIND_DIRECTORY)
            continue;
        int rc = tci_file_mkdir(TCI_FILE_CWD, folder, 0777, err);
        if (rc < 0 && rc != TC_E_CONFLICT) /* CONFLICT: somebody was quicker, or what comes fails */
            return rc;
        sync_above(folder);
    }
    return 0;
}

/* ---- who we are, who the owner is ---- */

/* Bytes of a file that anybody may have written, as part of a message. */
static void put_plain(tci_buf *b, tc_str s)
{
    enum { PLAIN_MAX = 64 };
    tci_plain_put(b, tci_str_sub(s, 0, PLAIN_MAX), TCI_PLAIN_LINE);
}

static void put_own_content(tci_buf *b)
{
    tc_err ignored;
    char program[TCI_PATH_MAX], host[TCI_SYSTEM_HOST_MAX], since[TCI_RFC3339_MAX];
    tc_str name = TC_STR("?"), parent;
    tci_proc_stat st = {.start_ticks = 0};
    int pid = tci_proc_self();
    if (tci_proc_stat_read(pid, &st))
        name = tci_str(st.name);
    if (tci_self_program(program, &name, &ignored) == 0)
        tci_path_split(name, &parent, &name);
    tci_system_host_name(host);
    tci_instant now = tci_clock_now();
    now.nsec = 0;
    bool first = true;
    tci_buf_append_byte(b, '{');
    tci_json_put_key(b, &first, TC_STR("pid"));
    tci_buf_append_i64(b, pid);
    tci_json_put_key(b, &first, TC_STR("startTicks"));
    tci_buf_append_u64(b, st.start_ticks);
    tci_json_put_key(b, &first, TC_STR("program"));
    tci_json_put_str(b, name);
    tci_json_put_key(b, &first, TC_STR("host"));
    tci_json_put_str(b, tci_str(host));
    tci_json_put_key(b, &first, TC_STR("since"));
    tci_json_put_str(b, tci_str_of(since, tci_rfc3339_text(now, since)));
    tci_buf_append_str(b, TC_STR("}\n"));
}

typedef struct owner {
    int64_t pid;
    uint64_t start_ticks;
    tc_str program, host, since; /* in the arena */
} owner;

/* false: nobody, or nothing that can be read. */
static bool read_owner(tc_str lock_path, tci_arena *a, owner *ret)
{
    tc_err ignored;
    char *bytes;
    size_t len;
    if (tci_file_read_whole(TCI_FILE_CWD, lock_path, LOCK_CONTENT_MAX, &bytes, &len, &ignored) < 0)
        return false;
    tc_str text;
    tci_json v;
    int rc = tci_arena_dup(a, tci_str_of(bytes, len), &text, &ignored);
    tci_free(bytes);
    *ret = (owner){.program = TC_STR("?"), .host = TC_STR("?"), .since = TC_STR("?")};
    if (rc < 0 || tci_json_parse(text, 0, a, &v, &ignored) < 0 ||
        !tci_json_as_i64(tci_json_get(&v, TC_STR("pid")), &ret->pid))
        return false;
    (void)tci_json_as_u64(tci_json_get(&v, TC_STR("startTicks")), &ret->start_ticks);
    (void)tci_json_as_str(tci_json_get(&v, TC_STR("program")), &ret->program);
    (void)tci_json_as_str(tci_json_get(&v, TC_STR("host")), &ret->host);
    (void)tci_json_as_str(tci_json_get(&v, TC_STR("since")), &ret->since);
    return true;
}

/* Has it ended without letting go? Of another machine's process we cannot know. */
static bool is_gone(const owner *o)
{
    char host[TCI_SYSTEM_HOST_MAX];
    tci_proc_stat st;
    tci_system_host_name(host);
    return tci_str_eq(o->host, tci_str(host)) &&
           (o->pid <= 0 || o->pid > INT32_MAX || !tci_proc_stat_read((int)o->pid, &st) ||
            st.start_ticks != o->start_ticks);
}

static void put_owner(tci_buf *b, const owner *o)
{
    tci_buf_append_str(b, TC_STR("process "));
    tci_buf_append_i64(b, o->pid);
    tci_buf_append_str(b, TC_STR(" ("));
    put_plain(b, o->program);
    tci_buf_append_str(b, TC_STR(") on host '"));
    put_plain(b, o->host);
    tci_buf_append_str(b, TC_STR("', since "));
    put_plain(b, o->since);
}

/* ---- the file ---- */

/* The name of the lock file of a session, as a C string. The file of a link is its target's. */
static int lock_path_of(tc_str path, char ret[TCI_PATH_MAX], tc_err *err)
{
    tc_err ignored;
    char real[TCI_PATH_MAX];
    tc_str name = TC_STR("owner.lock"), base = path;
    const char *between = "/";
    if (tci_store_path_is_sqlite(path)) {
        between = "-";
        (void)!tci_file_realpath(path, real, &base, &ignored); /* else: not there yet */
    }
    while (between[0] == '/' && base.len > 1 && base.ptr[base.len - 1] == '/')
        base.len--;
    if (base.len + 1 + name.len >= TCI_PATH_MAX)
        return tc_err_set(err, TC_E_TOO_BIG, "the path of the session is too long");
    memmove(ret, base.ptr, base.len);
    ret[base.len] = between[0];
    memcpy(ret + base.len + 1, name.ptr, name.len + 1);
    return 0;
}

static int refuse(tc_str path, tc_str lock_path, tc_err *err)
{
    tci_arena a;
    tci_buf b;
    owner o;
    tci_arena_init(&a, 1024 * 1024);
    tci_buf_init(&b, LOCK_CONTENT_MAX);
    if (read_owner(lock_path, &a, &o) && !is_gone(&o))
        put_owner(&b, &o);
    else /* it has the lock and is about to sign, or it could not */
        tci_buf_append_str(&b, TC_STR("another process"));
    int rc = tc_err_set(err, TC_E_BUSY, "session '%.*s' is owned by %.*s", TC_STR_ARG(path),
                        TC_STR_ARG(tci_buf_str(&b)));
    (void)tc_err_hint(err, "end that process first, or use another session");
    tci_buf_done(&b);
    tci_arena_done(&a);
    return rc;
}

/* 1: *f is the locked file that the name stands for; 0: it was removed meanwhile; negative: error. */
static int try_once(tc_str path, tc_str lock_path, tci_file *f, tc_err *err)
{
    int rc = tci_file_open(lock_path,
                           TCI_OPEN_READ | TCI_OPEN_WRITE | TCI_OPEN_CREATE | TCI_OPEN_NOFOLLOW,
                           0644, f, err);
    if (rc < 0)
        return tc_err_wrap(err, "cannot lock session '%.*s'", TC_STR_ARG(path));
    rc = tci_file_try_lock(*f, err);
    if (rc == TC_E_BUSY)
        return refuse(path, lock_path, err);
    if (rc < 0)
        return tc_err_wrap(err, "cannot lock session '%.*s'", TC_STR_ARG(path));
    tci_file_stat by_handle, by_name;
    tc_err ignored;
    rc = tci_file_stat_of(*f, &by_handle, err);
    if (rc < 0)
        return rc;
    return tci_file_stat_at(TCI_FILE_CWD, lock_path, false, &by_name, &ignored) == 0 &&
                   tci_file_stat_same(&by_handle, &by_name)
               ? 1
               : 0;
}

/* Say who we are. A full disk must not keep us from a session: the lock counts, not the name. */
static void sign(tci_file f)
{
    tc_err ignored;
    tci_buf b;
    tci_buf_init(&b, LOCK_CONTENT_MAX);
    put_own_content(&b);
    if (tci_file_truncate(f, 0, &ignored) == 0 && tci_buf_ok(&b))
        (void)!tci_file_pwrite_all(f, b.ptr, b.len, 0, &ignored);
    tci_buf_done(&b);
}

/* ---- the session's own file ---- */

/* Its path: the file of SQLite, or the first of a folder's. */
static int session_file_of(tc_str path, char ret[TCI_PATH_MAX], tc_err *err)
{
    tc_str main = TC_STR("/main.jsonl"), more = tci_store_path_is_sqlite(path) ? TC_STR("") : main;
    if (path.len + more.len >= TCI_PATH_MAX)
        return tc_err_set(err, TC_E_TOO_BIG, "the path of the session is too long");
    memcpy(ret, path.ptr, path.len);
    memcpy(ret + path.len, more.ptr, more.len);
    ret[path.len + more.len] = '\0';
    return 0;
}

/* Owned by another name. *f stays open where this very process is the owner: closing any handle of a file
 * takes SQLite's locks on it from the process. */
static int refuse_other_name(const char *path, tci_file *f, tc_err *err)
{
    char host[TCI_SYSTEM_HOST_MAX];
    tci_proc_stat st;
    int pid = tci_file_marked_by(*f, named_byte);
    if (pid != tci_proc_self())
        tci_file_close(f);
    tci_system_host_name(host);
    if (pid == 0 || !tci_proc_stat_read(pid, &st)) {
        (void)tc_err_set(err, TC_E_BUSY,
                         "session '%s' is owned by another process, by another name of its file",
                         path);
    } else {
        tci_buf b;
        tci_buf_init(&b, LOCK_CONTENT_MAX);
        put_plain(&b, tci_str(st.name));
        (void)tc_err_set(err, TC_E_BUSY,
                         "session '%s' is owned by process %d (%.*s) on host '%s', by another name "
                         "of its file",
                         path, pid, TC_STR_ARG(tci_buf_str(&b)), host);
        tci_buf_done(&b);
    }
    return tc_err_hint(err, "end that process first, or use another session");
}

int tci_lock_bind(tci_lock *lock, tc_err *err)
{
    const char *path = lock->session_path;
    tci_file f = TCI_FILE_NONE;
    tc_err why;
    if (tci_file_is_open(lock->session) ||
        tci_file_open(tci_str(path), TCI_OPEN_READ | TCI_OPEN_WRITE, 0, &f, &why) < 0)
        return 0; /* not there yet; what cannot be written, the backend tells, and nobody else writes it */
    int rc = tci_file_lock_byte(f, owned_byte, 0, err);
    if (rc == TC_E_BUSY)
        return refuse_other_name(path, &f, err);
    if (rc < 0) {
        tci_file_close(&f);
        return tc_err_wrap(err, "cannot lock session '%s'", path);
    }
    tci_file_mark_byte(f, named_byte);
    lock->session = f;
    return 0;
}

/* ---- taking and letting go ---- */

int tci_lock_take(tc_str path, tci_lock **ret_lock, tc_err *err)
{
    tci_lock *lock = tci_new(tci_lock);
    if (lock == NULL)
        return tci_err_no_memory(err);
    lock->file = lock->session = TCI_FILE_NONE;
    int rc = lock_path_of(path, lock->path, err);
    if (rc == 0)
        rc = session_file_of(path, lock->session_path, err);
    for (int i = 0; rc == 0 && i < LOCK_TRIES; i++) {
        tci_file_close(&lock->file);
        rc = try_once(path, tci_str(lock->path), &lock->file, err);
    }
    if (rc == 0)
        rc = tc_err_set(err, TC_E_BUSY, "session '%.*s' changes its owner all the time",
                        TC_STR_ARG(path));
    if (rc < 0) {
        tci_file_close(&lock->file);
        tci_free(lock);
        return rc;
    }
    sign(lock->file);
    rc = tci_lock_bind(lock, err);
    if (rc < 0) {
        tci_lock_release(lock);
        return rc;
    }
    *ret_lock = lock;
    return 0;
}

void tci_lock_release(tci_lock *lock)
{
    if (lock == NULL)
        return;
    tci_file_stat by_handle, by_name;
    tc_err ignored;
    /* The name first, while it is still ours: whoever waits for the file finds that it lost its name. */
    if (tci_file_stat_of(lock->file, &by_handle, &ignored) == 0 &&
        tci_file_stat_at(TCI_FILE_CWD, tci_str(lock->path), false, &by_name, &ignored) == 0 &&
        tci_file_stat_same(&by_handle, &by_name))
        tci_file_discard(TCI_FILE_CWD, tci_str(lock->path));
    tci_file_close(&lock->session);
    tci_file_close(&lock->file);
    tci_free(lock);
}

int tci_lock_owner(tc_str path, tci_arena *a, tc_str *ret_owner, tc_err *err)
{
    char lock_path[TCI_PATH_MAX];
    int rc = lock_path_of(path, lock_path, err);
    if (rc < 0)
        return rc;
    owner o;
    *ret_owner = (tc_str){NULL, 0};
    if (!read_owner(tci_str(lock_path), a, &o) || is_gone(&o))
        return 0;
    tci_buf b;
    tci_buf_init(&b, LOCK_CONTENT_MAX);
    put_owner(&b, &o);
    rc = tci_arena_dup(a, tci_buf_str(&b), ret_owner, err);
    tci_buf_done(&b);
    return rc;
}
