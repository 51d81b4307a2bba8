/* SPDX-License-Identifier: Apache-2.0
 *
 * The staged writer of ops/stage.h. Leaves what the bytes are, quotas over several files and
 * digests to compare with to its callers. Any thread, one at a time per stage.
 *
 * Invariant: outside of a call, a candidate exists exactly in the states OPEN and SEALED, and dir
 * and file are open exactly then. Whatever fails before the rename goes through tci_stage_abort. */
#include "ops/stage.h"

#include "ops/file_int.h"
#include "ops/file_text_int.h"
#include <errno.h>

enum {
    COPY_PIECE = 8 * 1024 * 1024, /* between two looks at cancel */
    NAME_TRIES = 8,
    PUBLISH_TRIES = 8,
    LOCK_WAIT_MS = 10000,
};

static tc_str target_name(const tci_stage *s)
{
    return tci_str_of(s->name, s->name_len);
}

/* Look at the destination: *target and had_target. */
static int look(tci_stage *s, tci_file_stat *ret, bool *ret_exists, tc_err *err)
{
    int rc = tci_file_stat_at(s->dir, target_name(s), false, ret, err);
    if (rc < 0 && rc != TC_E_NOT_FOUND)
        return rc;
    *ret_exists = rc == 0;
    return 0;
}

static tci_file_version version_of(const tci_file_stat *st)
{
    return (tci_file_version){.dev = st->dev,
                              .ino = st->ino,
                              .size = st->size,
                              .modified = st->modified,
                              .changed = st->changed};
}

static int check_version(const tci_stage *s, const tci_file_stat *st, tc_err *err)
{
    tci_file_version now = version_of(st);
    if (s->has_version && !tci_file_version_same(&s->version, &now))
        return tc_err_set(err, TC_E_CONFLICT, "'%s' changed since it was read", s->name);
    return 0;
}

static int not_regular(const tci_stage *s, tc_err *err)
{
    return tc_err_set(err, TC_E_DENIED, "'%s' is not a regular file", s->name);
}

/* May what exists be replaced by us, keeping what it is? */
static int check_replaceable(const tci_stage *s, const tci_file_stat *st, tc_err *err)
{
    if (st->kind != TCI_FILE_KIND_REGULAR)
        return not_regular(s, err);
    uint32_t me = tci_file_euid();
    if (me == 0)
        return 0;
    if (st->uid != me)
        return tc_err_set(err, TC_E_DENIED, "'%s' belongs to another user, who would lose it",
                          s->name);
    if (!tci_file_may_write(s->dir, target_name(s)))
        return tc_err_set(err, TC_E_DENIED, "'%s' may not be written", s->name);
    return 0;
}

/* The rules of the mode at open; st counts only when exists. */
static int check_open(const tci_stage *s, const tci_file_stat *st, bool exists, tc_err *err)
{
    if (!exists) {
        if (s->mode == TCI_WRITE_REPLACE || s->mode == TCI_WRITE_APPEND)
            return tc_err_set(err, TC_E_NOT_FOUND, "'%s' does not exist", s->name);
        if (s->has_version)
            return tc_err_set(err, TC_E_CONFLICT, "'%s' was removed since it was read", s->name);
        return 0;
    }
    if (st->kind != TCI_FILE_KIND_REGULAR)
        return not_regular(s, err);
    if (s->mode == TCI_WRITE_CREATE)
        return tc_err_set(err, TC_E_CONFLICT, "'%s' exists", s->name);
    int rc = check_replaceable(s, st, err);
    if (rc == 0)
        rc = check_version(s, st, err);
    if (rc == 0 && s->mode == TCI_WRITE_APPEND && st->size > s->max_bytes)
        rc = tc_err_set(err, TC_E_QUOTA, "'%s' is larger than allowed already", s->name);
    return rc;
}

/* A folder may be searched and written without being readable; then its entries are synced through
 * the file system. */
static int open_folder(tci_stage *s, tc_str folder, tc_err *err)
{
    int rc = tci_file_open(folder, TCI_OPEN_READ | TCI_OPEN_DIRECTORY, 0, &s->dir, err);
    s->dir_can_sync = rc == 0;
    if (rc < 0 && err->os == EACCES)
        rc = tci_file_open(folder, TCI_OPEN_PATH | TCI_OPEN_DIRECTORY, 0, &s->dir, err);
    return rc;
}

static int take_lock(tci_stage *s, const tci_cancel *cancel, tc_err *err)
{
    if (s->journal == NULL || s->is_locked)
        return 0;
    /* By the folder itself, so that two ways to write its path are one. */
    tci_file_stat st;
    int rc = tci_file_stat_of(s->dir, &st, err);
    if (rc < 0)
        return rc;
    uint64_t key = tci_hash64(s->name, s->name_len, st.dev * 31 + st.ino);
    rc = tci_stage_journal_lock(s->journal, key, cancel, LOCK_WAIT_MS, &s->lock, err);
    s->is_locked = rc == 0;
    return rc;
}

/* Only where it can be given a name afterwards, which goes by way of /proc. */
static bool make_unnamed(tci_stage *s, unsigned mode)
{
    tc_err ignored; /* a name does as well */
    tc_str path;
    char buf[TCI_PATH_MAX];
    if (tci_file_openat(s->dir, TC_STR("."), TCI_OPEN_WRITE | TCI_OPEN_UNNAMED, mode, &s->file,
                        &ignored) < 0)
        return false;
    tci_stage_journal_name(NULL, s->stage_name);
    s->is_unnamed = tci_file_path_of(s->file, buf, &path, &ignored) == 0;
    if (!s->is_unnamed)
        tci_file_close(&s->file);
    return s->is_unnamed;
}

static int make_candidate(tci_stage *s, tc_str folder, bool unnamed, tc_err *err)
{
    bool is_plain = s->plain_mode && !s->had_target && !s->has_mode;
    int rc = unnamed && make_unnamed(s, is_plain ? 0666 : 0600) ? 0 : TC_E_CONFLICT;
    for (int i = 0; rc == TC_E_CONFLICT && i < NAME_TRIES; i++) {
        tci_stage_journal_name(i == 0 ? s->journal : NULL, s->stage_name);
        if (s->journal != NULL)
            s->journal_slot = tci_stage_journal_note(s->journal, folder, tci_str(s->stage_name));
        rc = tci_file_openat(s->dir, tci_str(s->stage_name),
                             TCI_OPEN_WRITE | TCI_OPEN_CREATE | TCI_OPEN_EXCL | TCI_OPEN_NOFOLLOW,
                             is_plain ? 0666 : 0600, &s->file, err);
        if (rc < 0 && s->journal != NULL) {
            tci_stage_journal_forget(s->journal, s->journal_slot);
            s->journal_slot = -1;
        }
    }
    tci_file_stat made;
    if (rc == 0 && is_plain) {
        rc = tci_file_stat_of(s->file, &made, err);
        s->made_mode = rc == 0 ? made.mode & 0777 : 0600;
        if (rc < 0)
            s->state = TCI_STAGE_OPEN; /* there is something to be removed */
    }
    return rc;
}

int tci_stage_open_old(tci_stage *s, tci_file *ret_old, tc_err *err)
{
    if (!s->had_target)
        return tc_err_set(err, TC_E_NOT_FOUND, "'%s' does not exist", s->name);
    TCI_FILE_AUTO f = TCI_FILE_NONE;
    int rc = tci_file_openat(s->dir, target_name(s),
                             TCI_OPEN_READ | TCI_OPEN_NOFOLLOW | TCI_OPEN_NONBLOCK, 0, &f, err);
    if (rc < 0)
        return rc;
    tci_file_stat st;
    rc = tci_file_stat_of(f, &st, err);
    if (rc < 0)
        return rc;
    tci_file_version seen = version_of(&s->target), now = version_of(&st);
    if (!tci_file_version_same(&seen, &now))
        return tc_err_set(err, TC_E_CONFLICT, "'%s' changed while it was opened", s->name);
    s->has_version = true;
    s->version = now;
    *ret_old = tci_file_take(&f);
    return 0;
}

/* Copy the old content behind what is there, looking at it when it must be text. */
static int copy_old(tci_stage *s, bool must_be_text, const tci_cancel *cancel, tc_err *err)
{
    TCI_FILE_AUTO old = TCI_FILE_NONE;
    int rc = tci_stage_open_old(s, &old, err);
    if (rc < 0)
        return rc;
    if (must_be_text)
        rc = tci_text_copy(old, s->file, s->target.size, s->name, cancel, &s->old_bytes, err);
    for (bool is_end = must_be_text; rc == 0 && !is_end;) {
        uint64_t n = 0;
        rc = tci_cancel_check(cancel, err);
        if (rc == 0)
            rc = tci_file_copy_range(old, s->old_bytes, s->file, COPY_PIECE, &n, err);
        s->old_bytes += rc == 0 ? n : 0;
        is_end = n < COPY_PIECE;
        if (rc == 0 && s->old_bytes > s->max_bytes)
            rc = tc_err_set(err, TC_E_QUOTA, "'%s' is larger than allowed", s->name);
    }
    return rc;
}

static int open_stage(tci_stage *s, const tci_stage_options *o, const tci_cancel *cancel,
                      tc_err *err)
{
    tc_str folder, name;
    tci_path_split(o->path, &folder, &name);
    if (name.len == 0 || tci_str_eq(name, TC_STR(".")) || tci_str_eq(name, TC_STR("..")))
        return tc_err_set(err, TC_E_DENIED, "'%.*s' is a folder", TC_STR_ARG(o->path));
    if (name.len > TCI_NAME_MAX)
        return tc_err_set_os(err, TC_E_INVALID, ENAMETOOLONG, "a name of %zu bytes", name.len);
    int rc = tci_cstr(name, s->name, sizeof s->name, err);
    if (rc < 0)
        return rc;
    s->name_len = name.len;
    rc = open_folder(s, folder, err);
    if (rc == 0 && o->lock)
        rc = take_lock(s, cancel, err);
    if (rc == 0 && !(o->expects_none && o->mode == TCI_WRITE_UPSERT))
        rc = look(s, &s->target, &s->had_target, err);
    if (rc == 0)
        rc = check_open(s, &s->target, s->had_target, err);
    if (rc == 0)
        rc = make_candidate(s, folder, o->unnamed, err);
    if (rc == 0)
        s->state = TCI_STAGE_OPEN;
    if (rc == 0 && o->mode == TCI_WRITE_APPEND)
        rc = copy_old(s, o->must_be_text, cancel, err);
    return rc;
}

int tci_stage_open(tci_stage *s, const tci_stage_options *o, const tci_cancel *cancel, tc_err *err)
{
    *s = (tci_stage){.is_init = true,
                     .mode = o->mode,
                     .has_executable = o->has_executable,
                     .executable = o->executable,
                     .has_mode = o->has_mode,
                     .file_mode = o->file_mode & 0777,
                     .plain_mode = o->plain_mode,
                     .leave_unsynced = o->leave_unsynced,
                     .made_mode = 0600,
                     .hash = o->hash,
                     .has_version = o->has_version,
                     .version = o->version,
                     .max_bytes = o->max_bytes,
                     .journal = o->journal,
                     .journal_slot = -1,
                     .dir = TCI_FILE_NONE,
                     .file = TCI_FILE_NONE,
                     .lock = TCI_FILE_NONE};
    if (s->hash)
        tci_sha256_init(&s->sha);
    int rc = open_stage(s, o, cancel, err);
    if (rc < 0) {
        rc = tci_ops_code(err);
        tci_stage_abort(s);
    }
    return rc;
}

uint64_t tci_stage_room(const tci_stage *s)
{
    return s->max_bytes - s->old_bytes - s->new_bytes;
}

static int not_open(tc_err *err)
{
    return tc_err_set(err, TC_E_NOT_READY, "the staged file does not take this now");
}

static int write_stage(tci_stage *s, const void *bytes, size_t len, tc_err *err)
{
    if (len > tci_stage_room(s))
        return tc_err_set(err, TC_E_QUOTA, "'%s' would be larger than allowed", s->name);
    int rc = tci_file_write_all(s->file, bytes, len, err);
    if (rc < 0) {
        (void)tc_err_wrap(err, "'%s'", s->name); /* the code is next */
        return tci_ops_code(err);
    }
    if (s->hash)
        tci_sha256_update(&s->sha, bytes, len);
    s->new_bytes += len;
    return 0;
}

int tci_stage_write(tci_stage *s, const void *bytes, size_t len, tc_err *err)
{
    if (s->state != TCI_STAGE_OPEN)
        return not_open(err);
    int rc = len == 0 ? 0 : write_stage(s, bytes, len, err);
    if (rc < 0)
        tci_stage_abort(s);
    return rc;
}

static int write_stage_from(tci_stage *s, tci_file from, uint64_t from_offset,
                            const tci_cancel *cancel, uint64_t *copied, tc_err *err)
{
    for (;;) {
        int rc = tci_cancel_check(cancel, err);
        if (rc < 0)
            return rc;
        /* One byte more than there is room for tells a file that just fits from one that does not.
         */
        uint64_t n = 0, room = tci_stage_room(s);
        uint64_t want = room < COPY_PIECE ? room + 1 : COPY_PIECE;
        rc = tci_file_copy_range(from, from_offset + *copied, s->file, want, &n, err);
        if (rc < 0)
            return tc_err_wrap(err, "'%s'", s->name);
        if (n > room)
            return tc_err_set(err, TC_E_QUOTA, "'%s' would be larger than allowed", s->name);
        s->new_bytes += n;
        *copied += n;
        if (n < want)
            return 0;
    }
}

int tci_stage_write_from(tci_stage *s, tci_file from, uint64_t from_offset,
                         const tci_cancel *cancel, uint64_t *ret_copied, tc_err *err)
{
    if (s->state != TCI_STAGE_OPEN || s->hash)
        return not_open(err);
    uint64_t copied = 0;
    int rc = write_stage_from(s, from, from_offset, cancel, &copied, err);
    if (rc < 0)
        tci_stage_abort(s);
    else if (ret_copied != NULL)
        *ret_copied = copied;
    return rc;
}

static uint32_t wanted_mode(const tci_stage *s)
{
    uint32_t mode = s->had_target ? s->target.mode & 0777 : s->made_mode;
    if (s->has_mode)
        return s->file_mode;
    if (!s->has_executable)
        return mode;
    if (s->plain_mode) /* whoever may read it may execute it */
        return s->executable ? mode | (mode & 0444) >> 2 : mode & ~(uint32_t)0111;
    return s->executable ? 0700 : 0600;
}

static int sync_file(const tci_stage *s, tc_err *err)
{
    return s->leave_unsynced ? 0 : tci_file_sync(s->file, err);
}

static int sync_folder(const tci_stage *s, tc_err *err)
{
    if (s->leave_unsynced)
        return 0;
    return s->dir_can_sync ? tci_file_sync(s->dir, err) : tci_file_sync_fs(s->file, err);
}

void tci_stage_set_sync(tci_stage *s, bool must_sync)
{
    s->leave_unsynced = !must_sync;
}

/* Owner, then mode, then attributes: a change of owner may clear bits, and an access list has the
 * last word on the group's. */
static int take_over_from(tci_stage *s, tci_file old, tc_err *err)
{
    tci_file_stat mine;
    int rc = tci_file_stat_of(s->file, &mine, err);
    if (rc == 0 && (mine.uid != s->target.uid || mine.gid != s->target.gid)) {
        rc = tci_file_chown(s->file, mine.uid != s->target.uid ? s->target.uid : UINT32_MAX,
                            mine.gid != s->target.gid ? s->target.gid : UINT32_MAX, err);
        if (rc < 0)
            return tc_err_wrap(err, "the owner of '%s' cannot be kept", s->name);
    }
    if (rc == 0 && (mine.mode & 0777) != wanted_mode(s))
        rc = tci_file_chmod(s->file, wanted_mode(s), err);
    if (rc == 0)
        rc = tci_file_copy_xattrs(old, s->file,
                                  s->has_executable || s->has_mode ? 0 : TCI_XATTR_ACL, err);
    return rc;
}

/* Make the candidate what the destination is now. */
static int take_over(tci_stage *s, tc_err *err)
{
    if (!s->had_target) {
        if (wanted_mode(s) == s->made_mode)
            return 0; /* made so */
        return tci_file_chmod(s->file, wanted_mode(s), err);
    }
    TCI_FILE_AUTO old = TCI_FILE_NONE;
    int rc = tci_file_openat(s->dir, target_name(s),
                             TCI_OPEN_READ | TCI_OPEN_NOFOLLOW | TCI_OPEN_NONBLOCK, 0, &old, err);
    if (rc < 0 && err->os == EACCES) /* may be written, not read: its attributes may do */
        rc = tci_file_openat(s->dir, target_name(s), TCI_OPEN_PATH | TCI_OPEN_NOFOLLOW, 0, &old,
                             err);
    if (rc == TC_E_NOT_FOUND)
        return 0; /* gone meanwhile: publish decides by the mode */
    if (rc == 0)
        rc = tci_file_stat_of(old, &s->target, err);
    if (rc == 0)
        rc = check_replaceable(s, &s->target, err);
    return rc < 0 ? rc : take_over_from(s, old, err);
}

int tci_stage_seal(tci_stage *s, uint8_t ret_sha256[TCI_SHA256_BYTES], tc_err *err)
{
    if (s->state != TCI_STAGE_OPEN)
        return not_open(err);
    int rc = take_over(s, err);
    if (rc == 0)
        rc = sync_file(s, err);
    if (rc < 0) {
        (void)tc_err_wrap(err, "'%s'", s->name); /* the code is next */
        tci_stage_abort(s);
        return tci_ops_code(err);
    }
    s->state = TCI_STAGE_SEALED;
    if (s->hash && ret_sha256 != NULL) {
        tci_sha256 sha = s->sha;
        tci_sha256_final(&sha, ret_sha256);
    }
    return 0;
}

/* The name we made is still the file we hold, and nobody linked, resized or removed it. */
static int check_candidate(const tci_stage *s, tci_file_stat *ret, tc_err *err)
{
    tci_file_stat named;
    int rc = tci_file_stat_of(s->file, ret, err);
    if (rc < 0)
        return rc;
    rc = tci_file_stat_at(s->dir, tci_str(s->stage_name), false, &named, err);
    if (rc < 0 && rc != TC_E_NOT_FOUND)
        return rc;
    if (rc < 0 || !tci_file_stat_same(ret, &named) || ret->nlink != 1 ||
        ret->size != s->old_bytes + s->new_bytes)
        return tc_err_set(err, TC_E_INTEGRITY, "the staged file for '%s' was changed by others",
                          s->name);
    return 0;
}

/* For file systems that cannot rename without replacing: a second name cannot replace either. */
static int link_into_place(tci_stage *s, tc_err *err)
{
    int rc = tci_file_link(s->dir, tci_str(s->stage_name), s->dir, target_name(s), err);
    if (rc == 0)
        tci_file_discard(s->dir, tci_str(s->stage_name)); /* published; a second name may stay */
    return rc;
}

static int rename_new(tci_stage *s, tc_err *err)
{
    int rc = tci_file_rename(s->dir, tci_str(s->stage_name), s->dir, target_name(s),
                             TCI_RENAME_NOREPLACE, err);
    if (rc != TC_E_UNSUPPORTED)
        return rc;
    rc = link_into_place(s, err);
    return rc == TC_E_DENIED ? tc_err_recode(err, TC_E_UNSUPPORTED) : rc;
}

static bool differs(const tci_file_stat *a, const tci_file_stat *b)
{
    return !tci_file_stat_same(a, b) || a->mode != b->mode || a->uid != b->uid ||
           a->gid != b->gid || a->changed.sec != b->changed.sec ||
           a->changed.nsec != b->changed.nsec;
}

/* Replace what is there now, if it still may be. Sets had_target to false when it is gone. */
static int rename_over(tci_stage *s, tc_err *err)
{
    tci_file_stat now;
    int rc = look(s, &now, &s->had_target, err);
    if (rc < 0)
        return rc;
    if (!s->had_target) {
        if (s->mode != TCI_WRITE_UPSERT || s->has_version)
            return tc_err_set(err, TC_E_CONFLICT, "'%s' was removed meanwhile", s->name);
        return 0;
    }
    rc = check_version(s, &now, err);
    if (rc == 0)
        rc = check_replaceable(s, &now, err);
    if (rc == 0 && differs(&now, &s->target)) {
        rc = take_over(s, err);
        if (rc == 0)
            rc = sync_file(s, err);
    }
    if (rc < 0)
        return rc;
    return tci_file_rename(s->dir, tci_str(s->stage_name), s->dir, target_name(s),
                           TCI_RENAME_REPLACE, err);
}

/* Until the destination holds still: it may appear and vanish while we look. */
static int rename_by_mode(tci_stage *s, tc_err *err)
{
    int rc = TC_E_CONFLICT;
    for (int i = 0; i < PUBLISH_TRIES; i++) {
        if (s->had_target) {
            rc = rename_over(s, err);
            if (rc < 0 || s->had_target)
                return rc;
        }
        rc = rename_new(s, err);
        if (rc != TC_E_CONFLICT || s->mode != TCI_WRITE_UPSERT)
            return rc;
        s->had_target = true;
        s->target = (tci_file_stat){0}; /* not taken over from yet */
    }
    return rc;
}

/* A failed rename of a remote file system may have happened after all. */
static int judge_failure(tci_stage *s, tc_err *err)
{
    tci_file_stat st, named;
    tc_err other;
    if (err->code != TC_E_IO ||
        (tci_file_stat_of(s->file, &st, &other) == 0 &&
         tci_file_stat_at(s->dir, tci_str(s->stage_name), false, &named, &other) == 0 &&
         tci_file_stat_same(&st, &named)))
        return err->code;
    s->state = TCI_STAGE_UNKNOWN;
    return tc_err_recode(err, TC_E_UNKNOWN_OUTCOME);
}

static void release(tci_stage *s)
{
    if (s->journal != NULL)
        tci_stage_journal_forget(s->journal, s->journal_slot);
    s->journal_slot = -1;
    tci_file_close(&s->file);
    tci_file_close(&s->dir);
    tci_file_close(&s->lock);
    s->is_locked = false;
}

static int publish(tci_stage *s, tci_file_stat *ret, tc_err *err)
{
    if (s->is_unnamed && tci_file_link_unnamed(s->file, s->dir, tci_str(s->stage_name), err) < 0)
        return err->code;
    s->is_unnamed = false;
    int rc = check_candidate(s, ret, err);
    if (rc == 0 && s->has_version)
        rc = take_lock(s, NULL, err);
    if (rc == 0)
        rc = rename_by_mode(s, err);
    if (rc < 0)
        return judge_failure(s, err);
    /* From here on it has happened. */
    s->state = TCI_STAGE_UNKNOWN;
    rc = tci_file_stat_of(s->file, ret, err); /* the rename changed one of its times */
    if (rc == 0)
        rc = sync_folder(s, err);
    if (rc < 0)
        return tc_err_recode(err, TC_E_UNKNOWN_OUTCOME);
    s->state = TCI_STAGE_PUBLISHED;
    return 0;
}

int tci_stage_publish(tci_stage *s, tci_file_info *ret_info, tc_err *err)
{
    if (s->state != TCI_STAGE_SEALED)
        return not_open(err);
    tci_file_stat st;
    int rc = publish(s, &st, err);
    if (rc < 0 && s->state == TCI_STAGE_SEALED)
        tci_stage_abort(s);
    release(s);
    if (rc == 0 && ret_info != NULL)
        *ret_info = tci_file_info_of(&st);
    if (rc == 0)
        return 0;
    (void)tc_err_wrap(err, "cannot publish '%s'", s->name); /* the code is next */
    return tci_ops_code(err);
}

void tci_stage_abort(tci_stage *s)
{
    if (!s->is_init)
        return; /* zeroed, never opened: its descriptors are not NONE */
    tc_err err;
    if (s->state == TCI_STAGE_OPEN || s->state == TCI_STAGE_SEALED) {
        s->state = TCI_STAGE_ABORTED;
        int rc = tci_file_unlink(s->dir, tci_str(s->stage_name), &err);
        if (rc < 0 && rc != TC_E_NOT_FOUND)
            s->journal_slot = -1; /* not forgotten: the next process tries again */
    } else if (s->state == TCI_STAGE_NONE) {
        s->state = TCI_STAGE_ABORTED;
    }
    release(s);
}
