/* SPDX-License-Identifier: Apache-2.0
 *
 * Writing the journal of a session of JSON lines: noting what commits append, making it durable, beginning
 * anew. Leaves reading it to jsonl_journal_replay.c. Runs on the store's thread. Invariant: until a checkpoint
 * is through, every byte appended since the last one is in the journal or belongs to a commit that nobody
 * was told is safe. */
#include "store/jsonl/jsonl_journal.h"
#include "store/jsonl/jsonl_journal_int.h"
#include "store/jsonl/jsonl_int.h"

/* Stable: another version, on another machine, may have to tell whether a record is whole. */
static uint64_t hash(uint64_t h, const char *bytes, size_t len)
{
    while (len > 0) {
        uint64_t word = 0;
        size_t n = len < sizeof word ? len : sizeof word;
        memcpy(&word, bytes, n);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
        word = __builtin_bswap64(word);
#endif
        h = (h ^ word) * UINT64_C(0x9e3779b97f4a7c15);
        h ^= h >> 32;
        bytes += n;
        len -= n;
    }
    return h;
}

uint64_t tci_journal_hash(const char *record, size_t len)
{
    uint64_t h = hash(len, record, TCI_JOURNAL_HASH_AT);
    return hash(h, record + TCI_JOURNAL_HEAD, len - TCI_JOURNAL_HEAD);
}

static void put_u32(char *to, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        to[i] = (char)(value >> (8 * i));
}

static void put_u64(char *to, uint64_t value)
{
    for (int i = 0; i < 8; i++)
        to[i] = (char)(value >> (8 * i));
}

void tci_jsonl_journal_init(tci_jsonl_journal *l)
{
    *l = (tci_jsonl_journal){.f = TCI_FILE_NONE, .generation = 1};
    tci_buf_init(&l->pending, TCI_JOURNAL_RECORD_MAX);
}

void tci_jsonl_journal_done(tci_jsonl_journal *l)
{
    tci_file_close(&l->f);
    tci_buf_done(&l->pending);
}

/* ---- noting ---- */

static void note(tci_jsonl_journal *l, tci_piece_kind kind, uint64_t id, uint64_t offset,
                 tc_str text)
{
    static const char room[TCI_JOURNAL_HEAD] = {0};
    char head[TCI_JOURNAL_PIECE];
    tci_buf *b = &l->pending;
    if (text.len > TCI_JOURNAL_RECORD_MAX) { /* the head below must not lie about it */
        (void)tci_buf_reserve(b, (size_t)TCI_JOURNAL_RECORD_MAX + 1);
        return;
    }
    if (b->len == 0)
        tci_buf_append(b, room, sizeof room);
    put_u32(head, (uint32_t)kind);
    put_u32(head + 4, (uint32_t)text.len);
    put_u64(head + 8, id);
    put_u64(head + 16, offset);
    tci_buf_append(b, head, sizeof head);
    tci_buf_append_str(b, text);
}

void tci_jsonl_journal_note(tci_jsonl *j, const tci_jsonl_file *f, uint64_t offset, tc_str text)
{
    if (f == NULL)
        note(&j->journal, TCI_PIECE_MAIN, 0, offset, text);
    else
        note(&j->journal, f->is_task ? TCI_PIECE_TASK : TCI_PIECE_DOC, f->id, offset, text);
    j->journal.has_commits = true;
}

void tci_jsonl_journal_note_removal(tci_jsonl *j, const tci_jsonl_file *f)
{
    /* One that is not open holds nothing that could come back. */
    if (tci_file_is_open(j->journal.f))
        note(&j->journal, f->is_task ? TCI_PIECE_NO_TASK : TCI_PIECE_NO_DOC, f->id, 0, TC_STR(""));
}

bool tci_jsonl_journal_fits(const tci_jsonl *j)
{
    return tci_buf_ok(&j->journal.pending);
}

static void forget_pending(tci_jsonl_journal *l)
{
    tci_buf_clear(&l->pending);
    tci_buf_trim(&l->pending, TCI_JOURNAL_FIRST);
    l->has_commits = false;
}

static void begin_anew(tci_jsonl_journal *l)
{
    l->generation++;
    l->number = l->at = 0;
}

void tci_jsonl_journal_restart(tci_jsonl *j)
{
    begin_anew(&j->journal);
    forget_pending(&j->journal);
}

/* ---- making it durable ---- */

static int make_file(tci_jsonl *j, tc_err *err)
{
    tci_jsonl_journal *l = &j->journal;
    l->at = l->size = l->number = 0;
    int rc = tci_file_openat(j->folder, TC_STR(TCI_JSONL_JOURNAL),
                             TCI_OPEN_READ | TCI_OPEN_WRITE | TCI_OPEN_CREATE | TCI_OPEN_TRUNCATE,
                             0666, &l->f, err);
    j->must_sync_folder = true;
    return rc;
}

static void finish_record(tci_jsonl_journal *l)
{
    char *head = l->pending.ptr;
    size_t len = l->pending.len;
    put_u32(head, TCI_JOURNAL_MAGIC);
    put_u32(head + 4, (uint32_t)(len - TCI_JOURNAL_HEAD));
    put_u64(head + 8, l->generation);
    put_u64(head + 16, l->number + 1);
    put_u64(head + TCI_JOURNAL_HASH_AT, tci_journal_hash(head, len));
}

/* Have the file as long as the record needs. A page at a time: what is written at once is kept, and synced,
 * at once. */
static int lengthen(tci_jsonl_journal *l, tc_err *err)
{
    enum { PAGE = 4096 };
    static const char zeros[PAGE] = {0};
    uint64_t need = l->at + l->pending.len, size = l->size > 0 ? l->size : TCI_JOURNAL_FIRST;
    int rc = 0;
    if (need <= l->size)
        return 0;
    while (size < need)
        size *= 2;
    while (rc == 0 && l->size < size) {
        rc = tci_file_pwrite_all(l->f, zeros, PAGE, l->size, err);
        l->size += rc == 0 ? PAGE : 0;
    }
    return rc;
}

static int write_record(tci_jsonl_journal *l, tc_err *err)
{
    finish_record(l);
    l->last_at = l->at;
    int rc = lengthen(l, err);
    if (rc == 0)
        rc = tci_file_pwrite_all(l->f, l->pending.ptr, l->pending.len, l->at, err);
    return rc < 0 ? rc : tci_file_sync_data(l->f, err);
}

static int check_point(tci_jsonl *j, tc_err *err)
{
    int rc = tci_jsonl_sync_all(j, err);
    if (rc == 0)
        begin_anew(&j->journal);
    return rc;
}

int tci_jsonl_journal_flush(tci_jsonl *j, tc_err *err)
{
    tci_jsonl_journal *l = &j->journal;
    int rc = 0;
    if (!tci_file_is_open(l->f))
        rc = make_file(j, err);
    else if (l->at + l->pending.len > TCI_JOURNAL_MAX)
        rc = check_point(j, err);
    if (rc == 0 && j->must_sync_folder)
        rc = tci_file_sync(j->folder, err);
    if (rc < 0)
        return rc;
    if (j->must_sync_folder)
        j->must_sync_folder = j->is_folder_dirty = false;
    rc = write_record(l, err);
    if (rc < 0) {
        tci_jsonl_journal_take_back(j);
        return rc;
    }
    l->at += l->pending.len;
    l->number++;
    forget_pending(l);
    return 0;
}

void tci_jsonl_journal_take_back(tci_jsonl *j)
{
    tc_err ignored;
    if (tci_file_is_open(j->journal.f))
        (void)!tci_file_truncate(j->journal.f, j->journal.last_at, &ignored); /* best effort */
}

void tci_jsonl_journal_drop(tci_jsonl *j)
{
    if (!tci_file_is_open(j->journal.f))
        return;
    tci_file_close(&j->journal.f);
    tci_file_discard(j->folder, TC_STR(TCI_JSONL_JOURNAL)); /* one that stays says nothing new */
}
