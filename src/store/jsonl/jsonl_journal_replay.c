/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading the journal of a session of JSON lines, and putting back what a power cut has taken from the
 * files it is about. Leaves judging the session to jsonl_replay.c. Runs on the store's thread.
 *
 * Invariant: what is put back is what was there. A file may have lost the end of what was appended, or
 * hold zeros in place of it (lines have none); any other difference means that somebody who does not know the
 * journal has written since, and then what it says is over: of main.jsonl for all of it, of a sidecar
 * for that piece. After a mere end of the process nothing is missing and nothing is written. */
#include "store/jsonl/jsonl_int.h"
#include "store/jsonl/jsonl_journal_int.h"

#include <stdio.h>

typedef struct piece {
    tci_piece_kind kind;
    uint64_t id, offset;
    tc_str text;
    bool is_dropped; /* its file was removed later */
} piece;

typedef struct journal {
    tci_jsonl *j;
    char *bytes;
    piece *pieces;
    size_t npieces, cap;
    bool is_needed;
} journal;

static uint64_t get(const char *from, int nbytes)
{
    uint64_t value = 0;
    for (int i = 0; i < nbytes; i++)
        value |= (uint64_t)(unsigned char)from[i] << (8 * i);
    return value;
}

/* ---- the file ---- */

/* The piece at the front of text: how many bytes the first one takes, 0 when it makes no sense. */
static size_t read_piece(tc_str text, piece *ret)
{
    if (text.len < TCI_JOURNAL_PIECE)
        return 0;
    uint64_t kind = get(text.ptr, 4), len = get(text.ptr + 4, 4);
    if (kind > TCI_PIECE_NO_TASK || len > text.len - TCI_JOURNAL_PIECE)
        return 0;
    *ret = (piece){.kind = (tci_piece_kind)kind,
                   .id = get(text.ptr + 8, 8),
                   .offset = get(text.ptr + 16, 8),
                   .text = tci_str_of(text.ptr + TCI_JOURNAL_PIECE, (size_t)len)};
    return TCI_JOURNAL_PIECE + (size_t)len;
}

/* What was written to a file before it was removed need not come back. */
static void drop_removed(journal *l, const piece *removal)
{
    tci_piece_kind kind = removal->kind == TCI_PIECE_NO_DOC ? TCI_PIECE_DOC : TCI_PIECE_TASK;
    for (size_t i = 0; i < l->npieces; i++) {
        if (l->pieces[i].kind == kind && l->pieces[i].id == removal->id)
            l->pieces[i].is_dropped = true;
    }
}

static int add_piece(journal *l, const piece *p, tc_err *err)
{
    if (p->kind == TCI_PIECE_NO_DOC || p->kind == TCI_PIECE_NO_TASK) {
        drop_removed(l, p);
        return 0;
    }
    if (l->npieces == l->cap) {
        size_t cap = l->cap == 0 ? 64 : l->cap * 2;
        piece *grown = tci_mem_resize(l->pieces, cap * sizeof *grown);
        if (grown == NULL)
            return tci_err_no_memory(err);
        l->pieces = grown;
        l->cap = cap;
    }
    l->pieces[l->npieces++] = *p;
    return 0;
}

static int take_record(journal *l, tc_str body, tc_err *err)
{
    piece p;
    int rc = 0;
    while (rc == 0 && body.len > 0) {
        size_t n = read_piece(body, &p);
        if (n == 0)
            return tc_err_set(err, TC_E_PARSE, "the journal of the session is of another version");
        rc = add_piece(l, &p, err);
        body = tci_str_sub(body, n, body.len - n);
    }
    return rc;
}

/* The records in a row that are whole and of one generation. */
static int take_records(journal *l, tc_str all, tc_err *err)
{
    uint64_t generation = 0;
    for (uint64_t number = 1; all.len >= TCI_JOURNAL_HEAD; number++) {
        uint64_t len = TCI_JOURNAL_HEAD + get(all.ptr + 4, 4);
        if (get(all.ptr, 4) != TCI_JOURNAL_MAGIC || len > all.len ||
            get(all.ptr + 16, 8) != number || (number > 1 && get(all.ptr + 8, 8) != generation) ||
            get(all.ptr + TCI_JOURNAL_HASH_AT, 8) != tci_journal_hash(all.ptr, (size_t)len))
            return 0;
        generation = get(all.ptr + 8, 8);
        int rc =
            take_record(l, tci_str_sub(all, TCI_JOURNAL_HEAD, (size_t)len - TCI_JOURNAL_HEAD), err);
        if (rc < 0)
            return rc;
        all = tci_str_sub(all, (size_t)len, all.len - (size_t)len);
    }
    return 0;
}

static int read_journal(journal *l, tc_err *err)
{
    size_t len;
    int rc = tci_file_read_whole(l->j->folder, TC_STR(TCI_JSONL_JOURNAL),
                                 TCI_JOURNAL_MAX + TCI_JOURNAL_RECORD_MAX, &l->bytes, &len, err);
    return rc < 0 ? rc : take_records(l, tci_str_of(l->bytes, len), err);
}

/* ---- a piece against its file ---- */

/* How much of text is in the file at offset; the rest is not there, or zeros. *ret_differs: something else
 * is there. */
static int compare(tci_file f, uint64_t offset, tc_str text, size_t *ret_same, bool *ret_differs,
                   tc_err *err)
{
    enum { STEP = 4096 };
    char bytes[STEP];
    size_t at = 0, got = STEP;
    bool has_all = true;
    *ret_differs = false;
    *ret_same = 0;
    while (at < text.len && got == STEP) {
        int rc = tci_file_pread(f, bytes, STEP, offset + at, &got, err);
        if (rc < 0)
            return rc;
        size_t n = got < text.len - at ? got : text.len - at;
        for (size_t i = 0; i < n; i++) {
            bool is_same = bytes[i] == text.ptr[at + i];
            *ret_differs = *ret_differs || (!is_same && bytes[i] != 0);
            has_all = has_all && is_same;
            *ret_same += has_all;
        }
        at += n;
    }
    return 0;
}

/* ---- main.jsonl ---- */

/* Whole lines behind offset that are no lazy commits: of somebody else. */
static int has_strangers(tci_jsonl *j, uint64_t offset, uint64_t size, bool *ret, tc_err *err)
{
    tci_jsonl_reader r;
    tc_str line;
    uint64_t at;
    int rc;
    *ret = false;
    tci_jsonl_reader_init(&r, j->main, size);
    r.at = offset;
    while ((rc = tci_jsonl_reader_next(&r, &line, &at, err)) > 0) {
        bool is_hole = line.len > 0 && line.ptr[0] == '\0';
        *ret = *ret || (!is_hole && !tci_str_ends(line, TC_STR(" ")));
    }
    tci_jsonl_reader_done(&r);
    return rc;
}

typedef struct main_state {
    uint64_t size, from, to; /* of the file; of what the journal has of it */
    uint64_t sound;          /* up to where the file is as it was */
    bool is_over;            /* the journal says nothing about this file any more */
} main_state;

static int look_at_main(journal *l, main_state *m, tc_err *err)
{
    tci_jsonl *j = l->j;
    tci_file_stat st = {.size = 0};
    int rc = tci_file_is_open(j->main) ? tci_file_stat_of(j->main, &st, err) : 0;
    *m = (main_state){.size = st.size, .from = UINT64_MAX};
    bool is_sound = true;
    for (size_t i = 0; rc == 0 && i < l->npieces && !m->is_over; i++) {
        const piece *p = &l->pieces[i];
        size_t same = 0;
        if (p->kind != TCI_PIECE_MAIN)
            continue;
        if (m->from == UINT64_MAX)
            m->from = m->to = m->sound = p->offset;
        m->is_over = p->offset != m->to || m->size < m->from;
        if (!m->is_over && tci_file_is_open(j->main))
            rc = compare(j->main, p->offset, p->text, &same, &m->is_over, err);
        m->sound += is_sound ? same : 0;
        is_sound = is_sound && same == p->text.len;
        m->to += p->text.len;
    }
    if (rc == 0 && m->from == UINT64_MAX)
        m->is_over = true;
    if (rc == 0 && !m->is_over && m->size > m->to)
        rc = has_strangers(j, m->to, m->size, &m->is_over, err);
    l->is_needed = l->is_needed || (!m->is_over && m->sound < m->to);
    return rc;
}

static int put_back_main(journal *l, const main_state *m, tc_err *err)
{
    tci_jsonl *j = l->j;
    if (m->sound == m->to)
        return 0;
    int rc = tci_jsonl_open_main(j, err);
    if (rc == 0 && m->size > m->sound)
        rc = tci_file_truncate(j->main, m->sound, err);
    for (size_t i = 0; rc == 0 && i < l->npieces; i++) {
        const piece *p = &l->pieces[i];
        if (p->kind != TCI_PIECE_MAIN || p->offset + p->text.len <= m->sound)
            continue;
        size_t skip = p->offset < m->sound ? (size_t)(m->sound - p->offset) : 0;
        rc = tci_file_write_all(j->main, p->text.ptr + skip, p->text.len - skip, err);
    }
    return rc;
}

/* ---- sidecars ---- */

static uint64_t seq_of(tci_jsonl *j, tc_str line)
{
    tci_jsonl_record record;
    tc_err ignored;
    tci_arena_clear(&j->arena);
    return tci_jsonl_parse_record(line, &j->arena, &record, &ignored) == 0 ? record.seq : 0;
}

/* Does the piece continue what is in front of it in the file: whole lines, the last of an earlier commit?
 * A file that was written anew meanwhile may be as long by chance. */
static int continues(journal *l, tci_file f, const piece *p, bool *ret, tc_err *err)
{
    tci_jsonl_reader r;
    tc_str line;
    uint64_t at = 0, last = 0;
    int rc;
    bool is_whole = true;
    tci_jsonl_reader_init(&r, f, p->offset);
    while ((rc = tci_jsonl_reader_next(&r, &line, &at, err)) > 0) {
        last = seq_of(l->j, line);
        is_whole = is_whole && last != 0;
    }
    tci_jsonl_reader_done(&r);
    tc_str first = tci_str_sub(p->text, 0, tci_str_find_byte(p->text, '\n'));
    *ret = is_whole && at == p->offset && last < seq_of(l->j, first);
    return rc;
}

static int write_piece(journal *l, tci_jsonl_file *f, const piece *p, size_t same, uint64_t size,
                       tc_err *err)
{
    uint64_t keep = p->offset + same;
    int rc = size > keep ? tci_file_truncate(f->f, keep, err) : 0;
    return rc < 0 ? rc
                  : tci_jsonl_file_append(l->j, f,
                                          tci_str_of(p->text.ptr + same, p->text.len - same), err);
}

/* Does a later commit in the journal end the task, or retire the document? Its file has gone then, or may. */
static bool has_ended(const journal *l, const piece *p)
{
    char text[80];
    bool is_task = p->kind == TCI_PIECE_TASK;
    int len = snprintf(text, sizeof text, "{\"type\":\"%s\"id\":%llu%c",
                       is_task ? "task\",\"value\":{" : "document.retire\",",
                       (unsigned long long)p->id, is_task ? ',' : '}');
    for (const piece *q = p; q < l->pieces + l->npieces; q++) {
        if (q->kind == TCI_PIECE_MAIN &&
            tci_str_find(q->text, tci_str_of(text, (size_t)len)) < q->text.len)
            return true;
    }
    return false;
}

/* A piece of a sidecar: nothing when it is there, or when it has no place any more. */
static int settle_piece(journal *l, const piece *p, tc_err *err)
{
    tci_jsonl *j = l->j;
    bool is_task = p->kind == TCI_PIECE_TASK, differs, fits = p->offset == 0;
    size_t same;
    tci_file_stat st;
    tci_jsonl_file *f = tci_jsonl_file_get(j, is_task, p->id);
    if (f == NULL && (p->offset > 0 || has_ended(l, p)))
        return 0;
    if (f == NULL && j->is_read_only) {
        l->is_needed = true;
        return 0;
    }
    int rc = f == NULL && (f = tci_jsonl_file_put(j, is_task, p->id, err)) == NULL ? err->code : 0;
    if (rc == 0)
        rc = tci_jsonl_file_open(j, f, err);
    if (rc == 0)
        rc = tci_file_stat_of(f->f, &st, err);
    if (rc == 0)
        rc = compare(f->f, p->offset, p->text, &same, &differs, err);
    if (rc < 0)
        return rc;
    if (!j->is_read_only && !tci_link_is_in(&f->dirty))
        tci_list_push_back(&j->dirty, &f->dirty);
    if (differs || same == p->text.len || st.size < p->offset)
        return 0;
    if (p->offset > 0)
        rc = continues(l, f->f, p, &fits, err);
    if (rc < 0 || !fits)
        return rc;
    l->is_needed = true;
    return j->is_read_only ? 0 : write_piece(l, f, p, same, st.size, err);
}

static int settle_sidecars(journal *l, tc_err *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < l->npieces; i++) {
        if (l->pieces[i].kind != TCI_PIECE_MAIN && !l->pieces[i].is_dropped)
            rc = settle_piece(l, &l->pieces[i], err);
    }
    return rc;
}

/* ---- the whole ---- */

/* Everything that the journal is about is synced; then it is not needed. */
static int retire(journal *l, tc_err *err)
{
    tci_jsonl *j = l->j;
    j->is_main_dirty = tci_file_is_open(j->main);
    j->is_folder_dirty = true;
    int rc = tci_jsonl_sync_all(j, err);
    if (rc == 0)
        rc = tci_file_unlink(j->folder, TC_STR(TCI_JSONL_JOURNAL), err);
    return rc;
}

int tci_jsonl_journal_replay(tci_jsonl *j, bool *ret_is_needed, tc_err *err)
{
    journal l = {.j = j};
    main_state m;
    int rc = read_journal(&l, err);
    bool is_there = rc != TC_E_NOT_FOUND;
    if (!is_there)
        rc = 0;
    if (rc == 0 && is_there)
        rc = look_at_main(&l, &m, err);
    if (rc == 0 && is_there && !m.is_over)
        rc = settle_sidecars(&l, err);
    if (rc == 0 && is_there && !m.is_over && !j->is_read_only)
        rc = put_back_main(&l, &m, err);
    if (rc == 0 && is_there && !j->is_read_only)
        rc = retire(&l, err);
    tci_free(l.pieces);
    tci_free(l.bytes);
    tci_arena_clear(&j->arena);
    if (rc == 0)
        *ret_is_needed = l.is_needed;
    return rc;
}
