/* SPDX-License-Identifier: Apache-2.0
 *
 * A commit in JSON lines: everything is encoded first, then (durability full) it is made safe in the journal,
 * then the sidecars are appended to, each once and in the order they are first used, then the marker,
 * which is the commit. Leaves the rules of a batch to the index. Runs on the store's
 * thread. Invariant: before the first write a failure has no effect; from then on it poisons the
 * storage, and opening again finds out what has happened. */
#include "store/jsonl/jsonl_int.h"

/* A line for a sidecar, of the write with the same number. Numbers of lines are one up. */
typedef struct line {
    tci_jsonl_file *file; /* NULL: this write has none */
    uint64_t ordinal;
    size_t next;     /* line of the same file */
    size_t from, to; /* in the buffer of lines */
    size_t value_at; /* likewise */
} line;

typedef struct commit {
    tci_jsonl *j;
    tci_batch batch;
    tci_placed *placed;
    line *lines;            /* by write */
    tci_jsonl_file **files; /* in order of first use */
    size_t nfiles;
    uint64_t seq;
    bool is_synced, is_lazy;
} commit;

static bool is_live_task(const tci_write *w)
{
    return w->type == TCI_WRITE_TASK && w->u.task.status != TCI_TASK_TERMINAL;
}

static bool has_sidecar(const tci_write *w)
{
    return is_live_task(w) || w->type == TCI_WRITE_DOC_CREATE || w->type == TCI_WRITE_DOC_COPY ||
           w->type == TCI_WRITE_DOC_CHANGE;
}

/* ---- encoding ---- */

/* Which sidecars get which lines. */
static int plan(commit *c, tc_err *err)
{
    uint64_t ordinal = 0;
    for (size_t i = 0; i < c->batch.nwrites; i++) {
        const tci_write *w = &c->batch.writes[i];
        if (!has_sidecar(w))
            continue;
        bool is_task = w->type == TCI_WRITE_TASK;
        tci_jsonl_file *f =
            tci_jsonl_file_put(c->j, is_task, is_task ? w->u.task.id : w->u.document.id, err);
        if (f == NULL)
            return err->code;
        c->lines[i].file = f;
        c->lines[i].ordinal = ordinal++;
        if (f->first_line == 0) {
            c->files[c->nfiles++] = f;
            f->first_line = i + 1;
        } else {
            c->lines[f->last_line - 1].next = i + 1;
        }
        f->last_line = i + 1;
    }
    return 0;
}

static void encode_line(commit *c, size_t i)
{
    const tci_write *w = &c->batch.writes[i];
    const tci_content *content = &c->batch.contents[i];
    line *l = &c->lines[i];
    tci_buf *b = &c->j->lines;
    l->from = b->len;
    tci_buf_append_str(b, TC_STR("{\"format\":1,\"type\":\"record\",\"seq\":"));
    tci_buf_append_u64(b, c->seq);
    tci_buf_append_str(b, TC_STR(",\"ordinal\":"));
    tci_buf_append_u64(b, l->ordinal);
    tci_buf_append_str(b, TC_STR(",\"payload\":{\"type\":\""));
    if (w->type == TCI_WRITE_TASK) {
        tci_buf_append_str(b, TC_STR("task\",\"value\":"));
        l->value_at = b->len;
        tci_buf_append_str(b, c->batch.records[i]);
        tci_buf_append_str(b, TC_STR("}}\n"));
    } else {
        tci_buf_append_str(b, TC_STR("document\",\"id\":"));
        tci_buf_append_u64(b, w->u.document.id);
        tci_buf_append_str(b, TC_STR(",\"content\":{\"version\":"));
        tci_buf_append_u64(b, content->version);
        tci_buf_append_str(b, content->is_delta ? TC_STR(",\"kind\":\"delta\",\"ops\":")
                                                : TC_STR(",\"kind\":\"base\",\"value\":"));
        l->value_at = b->len;
        tci_buf_append_str(b, content->json);
        tci_buf_append_str(b, TC_STR("}}}\n"));
    }
    l->to = b->len;
}

/* All lines, those of a file together. */
static void encode_lines(commit *c)
{
    tci_buf_clear(&c->j->lines);
    for (size_t k = 0; k < c->nfiles; k++) {
        for (size_t i = c->files[k]->first_line; i > 0; i = c->lines[i - 1].next)
            encode_line(c, i - 1);
    }
}

static void encode_reference(tci_buf *b, const char *type, uint64_t id, uint64_t ordinal)
{
    tci_buf_append_str(b, TC_STR("{\"type\":\""));
    tci_buf_append_str(b, tci_str(type));
    tci_buf_append_str(b, TC_STR("\",\"id\":"));
    tci_buf_append_u64(b, id);
    tci_buf_append_str(b, TC_STR(",\"ordinal\":"));
    tci_buf_append_u64(b, ordinal);
    tci_buf_append_byte(b, '}');
}

static void encode_value(commit *c, size_t i, const char *type, const char *member)
{
    tci_buf *b = &c->j->marker;
    tci_buf_append_str(b, TC_STR("{\"type\":\""));
    tci_buf_append_str(b, tci_str(type));
    tci_buf_append_str(b, TC_STR("\",\""));
    tci_buf_append_str(b, tci_str(member));
    tci_buf_append_str(b, TC_STR("\":"));
    c->placed[i].record =
        (tci_place){.u.offset = c->j->main_size + b->len, .len = (uint32_t)c->batch.records[i].len};
    tci_buf_append_str(b, c->batch.records[i]);
}

static void encode_write(commit *c, size_t i)
{
    const tci_write *w = &c->batch.writes[i];
    tci_buf *b = &c->j->marker;
    switch (w->type) {
    case TCI_WRITE_CONVERSATION:
        encode_value(c, i, "conversation", "value");
        break;
    case TCI_WRITE_ENTRY:
        encode_value(c, i, "entry", "value");
        break;
    case TCI_WRITE_TASK:
        if (is_live_task(w)) {
            encode_reference(b, "task.sidecar", w->u.task.id, c->lines[i].ordinal);
            return;
        }
        encode_value(c, i, "task", "value");
        break;
    case TCI_WRITE_SUBMISSION:
        encode_value(c, i, "submission", "value");
        break;
    case TCI_WRITE_DOC_CREATE:
    case TCI_WRITE_DOC_COPY:
        encode_value(c, i, "document.create", "record");
        c->placed[i].record = (tci_place){0}; /* the index keeps the text */
        tci_buf_append_str(b, TC_STR(",\"ordinal\":"));
        tci_buf_append_u64(b, c->lines[i].ordinal);
        break;
    case TCI_WRITE_DOC_CHANGE:
        encode_reference(b, "document.change", w->u.document.id, c->lines[i].ordinal);
        return;
    case TCI_WRITE_DOC_RETIRE:
        tci_buf_append_str(b, TC_STR("{\"type\":\"document.retire\",\"id\":"));
        tci_buf_append_u64(b, w->u.document.id);
        break;
    }
    tci_buf_append_byte(b, '}');
}

static void encode_marker(commit *c)
{
    tci_buf *b = &c->j->marker;
    tci_buf_clear(b);
    tci_buf_append_str(b, TC_STR("{\"format\":1,\"type\":\"commit\",\"seq\":"));
    tci_buf_append_u64(b, c->seq);
    tci_buf_append_str(b, TC_STR(",\"writes\":["));
    for (size_t i = 0; i < c->batch.nwrites; i++) {
        if (i > 0)
            tci_buf_append_byte(b, ',');
        encode_write(c, i);
    }
    tci_buf_append_str(b, c->is_lazy ? TC_STR("]} \n") : TC_STR("]}\n"));
}

/* The texts of live tasks stay on the heap: their files come and go. */
static int keep_tasks(commit *c, tc_err *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < c->batch.nwrites; i++) {
        if (is_live_task(&c->batch.writes[i]))
            rc = tci_place_dup(c->batch.records[i], &c->placed[i].record, err);
    }
    return rc;
}

static void drop_places(commit *c)
{
    for (size_t i = 0; i < c->batch.nwrites; i++)
        tci_place_done(&c->placed[i].record);
}

static int encode(commit *c, tc_err *err)
{
    size_t n = c->batch.nwrites;
    c->placed = tci_arena_items(&c->j->arena, tci_placed, n);
    c->lines = tci_arena_items(&c->j->arena, line, n);
    c->files = tci_arena_items(&c->j->arena, tci_jsonl_file *, n);
    if (c->placed == NULL || c->lines == NULL || c->files == NULL)
        return tci_arena_error(&c->j->arena, err);
    int rc = plan(c, err);
    if (rc < 0)
        return rc;
    encode_lines(c);
    encode_marker(c);
    rc = tci_buf_error(&c->j->lines, err);
    if (rc == 0)
        rc = tci_buf_error(&c->j->marker, err);
    if (rc == 0)
        rc = keep_tasks(c, err);
    if (rc < 0)
        drop_places(c);
    return rc;
}

/* ---- writing ---- */

static int append_sidecars(commit *c, tc_err *err)
{
    tc_str all = tci_buf_str(&c->j->lines);
    int rc = 0;
    for (size_t k = 0; rc == 0 && k < c->nfiles; k++) {
        tci_jsonl_file *f = c->files[k];
        uint64_t before = f->size;
        size_t from = c->lines[f->first_line - 1].from, to = c->lines[f->last_line - 1].to;
        rc = tci_jsonl_file_append(c->j, f, tci_str_of(all.ptr + from, to - from), err);
        for (size_t i = f->first_line; rc == 0 && i > 0; i = c->lines[i - 1].next) {
            const line *l = &c->lines[i - 1];
            if (f->is_task)
                continue;
            c->placed[i - 1].content =
                (tci_place){.u.offset = before + (l->value_at - from),
                            .len = (uint32_t)c->batch.contents[i - 1].json.len};
        }
    }
    return rc;
}

static int append_marker(commit *c, tc_err *err)
{
    tci_jsonl *j = c->j;
    tc_str text = tci_buf_str(&j->marker);
    j->is_main_dirty = true;
    int rc = tci_file_write_all(j->main, text.ptr, text.len, err);
    if (rc == 0)
        j->main_size += text.len;
    return rc;
}

/* What the commit appends, into the journal's next record. */
static void note_all(commit *c)
{
    tc_str all = tci_buf_str(&c->j->lines);
    for (size_t k = 0; k < c->nfiles; k++) {
        const tci_jsonl_file *f = c->files[k];
        size_t from = c->lines[f->first_line - 1].from, to = c->lines[f->last_line - 1].to;
        tci_jsonl_journal_note(c->j, f, f->size, tci_str_of(all.ptr + from, to - from));
    }
    tci_jsonl_journal_note(c->j, NULL, c->j->main_size, tci_buf_str(&c->j->marker));
}

/* Too large for the journal: all that the marker speaks of and all before it is synced, then the marker. */
static int write_large(commit *c, tc_err *err)
{
    tci_jsonl *j = c->j;
    int rc = append_sidecars(c, err);
    if (rc == 0)
        rc = tci_jsonl_open_main(j, err);
    if (rc == 0)
        rc = tci_jsonl_sync_all(j, err);
    if (rc == 0)
        rc = append_marker(c, err);
    if (rc == 0)
        rc = tci_jsonl_sync_all(j, err);
    if (rc == 0)
        tci_jsonl_journal_restart(j);
    return rc;
}

static int write_all(commit *c, tc_err *err)
{
    int rc = 0;
    if (c->j->is_full)
        note_all(c);
    if (c->is_synced && !tci_jsonl_journal_fits(c->j))
        return write_large(c, err);
    if (c->is_synced)
        rc = tci_jsonl_journal_flush(c->j, err);
    if (rc < 0)
        return rc;
    rc = append_sidecars(c, err);
    if (rc == 0)
        rc = tci_jsonl_open_main(c->j, err);
    if (rc == 0)
        rc = append_marker(c, err);
    if (rc < 0 && c->is_synced)
        tci_jsonl_journal_take_back(c->j);
    return rc;
}

/* ---- afterwards ---- */

/* What this commit has made obsolete. */
static void note_obsolete(commit *c)
{
    for (size_t i = 0; i < c->batch.nwrites; i++) {
        const tci_write *w = &c->batch.writes[i];
        bool is_task = w->type == TCI_WRITE_TASK;
        uint64_t id = is_task ? w->u.task.id : w->u.document.id;
        if (w->type < TCI_WRITE_DOC_CREATE && !is_task)
            continue;
        tci_jsonl_file *f = tci_jsonl_file_get(c->j, is_task, id);
        const tci_doc *doc = is_task ? NULL : tci_index_doc(&c->j->base.ix, id);
        if (f == NULL)
            continue;
        if (is_task) {
            f->is_obsolete = tci_index_task(&c->j->base.ix, id)->status == TCI_TASK_TERMINAL;
        } else if (!tci_document_is_current_only(&doc->record)) {
            continue;
        } else if (doc->record.retired_at != 0) {
            f->is_obsolete = true;
        } else if (c->lines[i].file != NULL && !c->batch.contents[i].is_delta) {
            const tci_jsonl_file *file = c->lines[i].file;
            size_t all = c->lines[file->last_line - 1].to - c->lines[i].from;
            f->live_from = f->size - all;
        }
        if (f->is_obsolete || f->live_from > TCI_JSONL_OBSOLETE_MIN)
            tci_jsonl_obsolete(c->j, f);
    }
}

static void forget_lines(commit *c)
{
    for (size_t k = 0; k < c->nfiles; k++)
        c->files[k]->first_line = c->files[k]->last_line = 0;
    tci_buf_clear(&c->j->lines);
    tci_buf_clear(&c->j->marker);
    tci_buf_trim(&c->j->lines, TCI_JSONL_BUF_KEEP);
    tci_buf_trim(&c->j->marker, TCI_JSONL_BUF_KEEP);
}

static int run(commit *c, tc_err *err)
{
    tci_jsonl *j = c->j;
    int rc = encode(c, err);
    if (rc == 0) {
        rc = write_all(c, err);
        if (rc < 0) {
            drop_places(c);
            rc = tci_indexed_poison(&j->base, err);
        }
    }
    if (rc == 0) {
        rc = tci_index_apply(&j->base.ix, &c->batch, c->seq, c->placed, err);
        if (rc < 0)
            rc = tci_indexed_poison(&j->base, err);
    }
    if (rc == 0)
        note_obsolete(c);
    forget_lines(c);
    if (rc == 0)
        tci_jsonl_reclaim(j, TCI_RECLAIM_WORTH); /* which frees what files are for */
    return rc;
}

int tci_jsonl_commit(tci_store *store, const tci_write *writes, size_t nwrites, tci_commit_how how,
                     uint64_t *ret_seq, tc_err *err)
{
    tci_jsonl *j = (tci_jsonl *)(void *)store;
    int rc = tci_indexed_usable(&j->base, err);
    if (rc == 0 && j->is_read_only)
        rc = tc_err_set(err, TC_E_DENIED, "the session was opened for reading only");
    if (rc < 0)
        return rc;
    commit c = {.j = j,
                .seq = j->base.ix.next_seq,
                .is_synced = j->is_full && how == TCI_COMMIT_SYNCED,
                .is_lazy = j->is_full && how != TCI_COMMIT_SYNCED};
    tci_arena_clear(&j->arena);
    rc = tci_index_check(&j->base.ix, writes, nwrites, TCI_CHECK_TEXTS, &j->arena, &c.batch, err);
    if (rc == 0)
        rc = run(&c, err);
    if (rc == 0)
        *ret_seq = c.seq;
    return rc;
}
