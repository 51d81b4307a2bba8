/* SPDX-License-Identifier: Apache-2.0
 *
 * Remembers staged files beyond the life of the process, and removes what dead processes left.
 * Leaves making and publishing them to stage.c. Any thread.
 *
 * Invariant: a slot names a candidate from before it is made until after it is gone. A journal's
 * lock is held from its first use to the end of the process, so that nobody else may replay it. */
#include "ops/stage_journal.h"

#include "base/hash.h"
#include "base/mem.h"
#include "plat/dir.h"
#include <stdatomic.h>
#include <stdio.h>

enum {
    SLOTS = 256,
    SLOT_BYTES = 4096,
    SLOT_PATH_MAX = SLOT_BYTES - 8,
    SLOT_FREE = 0,
    SLOT_CLAIMED = 1, /* being filled: nothing to remove yet */
    SLOT_USED = 2,
    JOURNAL_BYTES = SLOTS * SLOT_BYTES,
    JOURNAL_NAME = 6 + 16, /* stage- and 16 hex digits */
    OPEN_TRIES = 16,
    LOCK_STEP_MS = 20,
};

/* As in the file: only ever read again on the same machine. */
typedef struct slot {
    _Atomic uint32_t state;
    uint32_t path_len;
    char path[SLOT_PATH_MAX]; /* folder, '/', name */
} slot;

_Static_assert(sizeof(slot) == SLOT_BYTES, "a slot is a page");

struct tci_stage_journal {
    tci_file folder;
    tci_file file;
    slot *slots;
    _Atomic uint64_t nnames;
    char name[JOURNAL_NAME + 1];
};

static bool is_hex(tc_str s)
{
    for (size_t i = 0; i < s.len; i++)
        if (!((s.ptr[i] >= '0' && s.ptr[i] <= '9') || (s.ptr[i] >= 'a' && s.ptr[i] <= 'f')))
            return false;
    return true;
}

bool tci_stage_is_stage_name(tc_str name)
{
    tc_str prefix = TC_STR(TCI_STAGE_PREFIX);
    return name.len == prefix.len + 32 && tci_str_starts(name, prefix) &&
           is_hex(tci_str_sub(name, prefix.len, 32));
}

static bool is_journal_name(tc_str name)
{
    return name.len == JOURNAL_NAME && tci_str_starts(name, TC_STR("stage-")) &&
           is_hex(tci_str_sub(name, 6, 16));
}

/* true when the candidate is gone, or what is there is none. */
static bool remove_candidate(tc_str path)
{
    tc_err err;
    tc_str folder, name;
    tci_path_split(path, &folder, &name);
    if (path.len == 0 || path.ptr[0] != '/' || !tci_stage_is_stage_name(name))
        return true; /* not something we wrote */
    TCI_FILE_AUTO dir = TCI_FILE_NONE;
    if (tci_file_open(folder, TCI_OPEN_PATH | TCI_OPEN_DIRECTORY, 0, &dir, &err) < 0)
        return err.code == TC_E_NOT_FOUND;
    tci_file_stat st;
    if (tci_file_stat_at(dir, name, false, &st, &err) < 0)
        return err.code == TC_E_NOT_FOUND;
    if (st.kind != TCI_FILE_KIND_REGULAR)
        return true;
    return tci_file_unlink(dir, name, &err) == 0 || err.code == TC_E_NOT_FOUND;
}

/* Clear up after one journal whose lock is ours; true when nothing of it is left to do. */
static bool replay_slots(slot *slots, tci_stage_replay *counts)
{
    bool is_clean = true;
    for (size_t i = 0; i < SLOTS; i++) {
        slot *s = &slots[i];
        if (atomic_load(&s->state) != SLOT_USED || s->path_len > SLOT_PATH_MAX)
            continue;
        if (remove_candidate(tci_str_of(s->path, s->path_len))) {
            counts->removed++;
            atomic_store(&s->state, SLOT_FREE);
        } else {
            counts->left++;
            is_clean = false;
        }
    }
    return is_clean;
}

/* A journal that cannot be opened, is alive or is not whole is left alone: never an error. */
static void replay_one(tci_file folder, tc_str name, tci_stage_replay *counts)
{
    tc_err err;
    TCI_FILE_AUTO f = TCI_FILE_NONE;
    tci_file_stat st;
    void *map = NULL;
    if (tci_file_openat(folder, name, TCI_OPEN_READ | TCI_OPEN_WRITE | TCI_OPEN_NOFOLLOW, 0, &f,
                        &err) < 0 ||
        tci_file_try_lock(f, &err) < 0 || tci_file_stat_of(f, &st, &err) < 0 ||
        st.kind != TCI_FILE_KIND_REGULAR)
        return;
    counts->journals++;
    /* Shorter: its process died while making it, before any use. */
    bool is_clean = true;
    if (st.size == JOURNAL_BYTES) {
        if (tci_file_map(f, JOURNAL_BYTES, &map, &err) < 0)
            return;
        is_clean = replay_slots(map, counts);
        tci_file_unmap(map, JOURNAL_BYTES);
    }
    if (is_clean)
        tci_file_discard(folder, name); /* else it is replayed again, with no effect */
}

static int replay_folder(tci_file folder, tci_stage_replay *counts, tc_err *err)
{
    char *buf = tci_mem_alloc(TCI_DIR_READ_BYTES);
    if (buf == NULL)
        return tci_err_no_memory(err);
    tci_dir dir = {.fd_plus_1 = folder.fd + 1};
    tci_dir_reader reader;
    tci_dir_entry entry;
    int rc = tci_dir_read_start(&reader, &dir, buf, err);
    if (rc == 0)
        while ((rc = tci_dir_read_next(&reader, &entry, err)) > 0)
            if (is_journal_name(entry.name))
                replay_one(folder, entry.name, counts);
    tci_mem_free(buf);
    return rc;
}

static void random_hex(char *out, size_t nbytes)
{
    uint8_t bytes[16];
    tci_random_bytes(bytes, nbytes);
    tci_hex(bytes, nbytes, out);
}

/* Make and lock a journal; CONFLICT when another process took it for dead before it was locked. */
static int make_journal(tci_stage_journal *j, tc_err *err)
{
    (void)snprintf(j->name, sizeof j->name, "stage-");
    random_hex(j->name + 6, 8);
    tc_str name = tci_str_of(j->name, JOURNAL_NAME);
    int rc = tci_file_openat(j->folder, name,
                             TCI_OPEN_READ | TCI_OPEN_WRITE | TCI_OPEN_CREATE | TCI_OPEN_EXCL, 0600,
                             &j->file, err);
    if (rc < 0)
        return rc;
    tci_file_stat st;
    if (tci_file_try_lock(j->file, err) < 0 || tci_file_stat_of(j->file, &st, err) < 0 ||
        st.nlink == 0) {
        tci_file_close(&j->file);
        return tc_err_set(err, TC_E_CONFLICT, "the journal was taken for an old one");
    }
    /* The blocks are taken now: a full disk is an error here and not a fault at a later store. */
    rc = tci_file_allocate(j->file, JOURNAL_BYTES, err);
    if (rc == TC_E_UNSUPPORTED) {
        static const char zeros[SLOT_BYTES];
        rc = 0;
        for (uint64_t i = 0; i < SLOTS && rc == 0; i++)
            rc = tci_file_pwrite_all(j->file, zeros, sizeof zeros, i * SLOT_BYTES, err);
    }
    void *map = NULL;
    if (rc == 0)
        rc = tci_file_map(j->file, JOURNAL_BYTES, &map, err);
    if (rc < 0) {
        tci_file_discard(j->folder, name);
        tci_file_close(&j->file);
        return rc;
    }
    j->slots = map;
    return 0;
}

int tci_stage_journal_open(tc_str folder, tci_stage_journal **ret, tci_stage_replay *ret_replay,
                           tc_err *err)
{
    tci_stage_replay counts = {0};
    tci_stage_journal *j = tci_new(tci_stage_journal);
    if (j == NULL)
        return tci_err_no_memory(err);
    j->folder = j->file = TCI_FILE_NONE;
    int rc = tci_file_open(folder, TCI_OPEN_READ | TCI_OPEN_DIRECTORY, 0, &j->folder, err);
    if (rc == 0)
        rc = replay_folder(j->folder, &counts, err);
    if (rc == 0)
        rc = make_journal(j, err);
    for (unsigned i = 0; rc == TC_E_CONFLICT && i < OPEN_TRIES; i++)
        rc = make_journal(j, err);
    if (rc < 0) {
        tci_file_close(&j->folder);
        tci_free(j);
        return tc_err_wrap(err, "cannot start a journal of staged files in '%.*s'",
                           TC_STR_ARG(folder));
    }
    *ret = j;
    if (ret_replay != NULL)
        *ret_replay = counts;
    return 0;
}

void tci_stage_journal_close(tci_stage_journal *j)
{
    if (j == NULL)
        return;
    bool is_empty = true;
    for (size_t i = 0; i < SLOTS; i++)
        is_empty = is_empty && atomic_load(&j->slots[i].state) != SLOT_USED;
    if (is_empty) /* else a candidate could not be removed: the next process tries */
        tci_file_discard(j->folder, tci_str_of(j->name, JOURNAL_NAME));
    tci_file_unmap(j->slots, JOURNAL_BYTES);
    tci_file_close(&j->file);
    tci_file_close(&j->folder);
    tci_free(j);
}

void tci_stage_journal_name(tci_stage_journal *j, char out[TCI_STAGE_NAME_LEN + 1])
{
    const size_t prefix = sizeof TCI_STAGE_PREFIX - 1;
    memcpy(out, TCI_STAGE_PREFIX, prefix);
    if (j == NULL)
        random_hex(out + prefix, 16);
    else /* no system call: the journal's own name is the random part */
        (void)snprintf(out + prefix, 33, "%.16s%016llx", j->name + 6,
                       (unsigned long long)atomic_fetch_add(&j->nnames, 1));
    out[TCI_STAGE_NAME_LEN] = '\0';
}

int tci_stage_journal_note(tci_stage_journal *j, tc_str folder, tc_str name)
{
    if (folder.len + 1 + name.len > SLOT_PATH_MAX)
        return -1;
    for (int i = 0; i < SLOTS; i++) {
        slot *s = &j->slots[i];
        uint32_t expected = SLOT_FREE;
        if (atomic_load_explicit(&s->state, memory_order_relaxed) != SLOT_FREE ||
            !atomic_compare_exchange_strong(&s->state, &expected, SLOT_CLAIMED))
            continue;
        memcpy(s->path, folder.ptr, folder.len);
        s->path[folder.len] = '/';
        memcpy(s->path + folder.len + 1, name.ptr, name.len);
        s->path_len = (uint32_t)(folder.len + 1 + name.len);
        /* Released last: a process killed before this line has made no file yet. */
        atomic_store_explicit(&s->state, SLOT_USED, memory_order_release);
        return i;
    }
    return -1;
}

void tci_stage_journal_forget(tci_stage_journal *j, int slot_number)
{
    if (slot_number >= 0)
        atomic_store_explicit(&j->slots[slot_number].state, SLOT_FREE, memory_order_release);
}

int tci_stage_journal_lock(tci_stage_journal *j, uint64_t key, const tci_cancel *cancel,
                           unsigned wait_ms, tci_file *ret, tc_err *err)
{
    TCI_FILE_AUTO f = TCI_FILE_NONE;
    int rc = tci_file_openat(j->folder, TC_STR("stage.lock"),
                             TCI_OPEN_READ | TCI_OPEN_WRITE | TCI_OPEN_CREATE | TCI_OPEN_NOFOLLOW,
                             0600, &f, err);
    if (rc < 0)
        return rc;
    for (unsigned waited = 0;; waited += LOCK_STEP_MS) {
        rc = tci_file_lock_byte(f, key >> 2, LOCK_STEP_MS, err);
        if (rc != TC_E_BUSY || waited >= wait_ms)
            break;
        rc = tci_cancel_check(cancel, err);
        if (rc < 0)
            break;
    }
    if (rc == 0)
        *ret = tci_file_take(&f);
    return rc;
}
