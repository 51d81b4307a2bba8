/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading a session of JSON lines into the index: the records of the sidecars, then the markers, each
 * of which confirms the records it refers to. Nothing in a file is changed here (jsonl_open.c does
 * that once all is known). Runs on the store's thread. Invariant: a record counts when a marker
 * confirms it and only then; one that is missing is fine when something later has made it obsolete. */
#include "store/jsonl/jsonl_int.h"

int tci_jsonl_damage(tc_err *err, tc_str file, uint64_t offset)
{
    (void)tc_err_wrap(err, "%.*s, byte %llu", TC_STR_ARG(file), (unsigned long long)offset);
    (void)tc_err_hint(err,
                      "`telechir sessions check` lists all damage, `repair` keeps what is sound");
    return err->code;
}

static int damaged(tc_err *err, tc_str file, uint64_t offset, const char *what)
{
    (void)tc_err_set(err, TC_E_PARSE, "damaged session: %s", what);
    return tci_jsonl_damage(err, file, offset);
}

static int damaged_sidecar(tc_err *err, const tci_jsonl_sidecar *s, uint64_t offset,
                           const char *what)
{
    char name[TCI_JSONL_NAME_MAX];
    return damaged(err, tci_jsonl_file_name(s->file->is_task, s->file->id, name), offset, what);
}

static int damaged_main(tc_err *err, uint64_t offset, const char *what)
{
    return damaged(err, TC_STR(TCI_JSONL_MAIN), offset, what);
}

/* ---- sidecars ---- */

static tci_jsonl_sidecar *add_sidecar(tci_jsonl_opening *o, tci_jsonl_file *f, tc_err *err)
{
    if (o->nsidecars == o->cap) {
        size_t cap = o->cap == 0 ? 16 : o->cap * 2;
        tci_jsonl_sidecar *grown = tci_mem_resize(o->sidecars, cap * sizeof *grown);
        if (grown == NULL) {
            (void)tci_err_no_memory(err);
            return NULL;
        }
        o->sidecars = grown;
        o->cap = cap;
    }
    uintptr_t *number = tci_id_map_put(&o->by_key, tci_jsonl_key(f->is_task, f->id));
    if (number == NULL) {
        (void)tci_err_no_memory(err);
        return NULL;
    }
    tci_jsonl_sidecar *s = &o->sidecars[o->nsidecars++];
    *s = (tci_jsonl_sidecar){.file = f};
    *number = o->nsidecars;
    return s;
}

static int add_rec(tci_jsonl_opening *o, tci_jsonl_sidecar *s, const tci_jsonl_record *r,
                   uint64_t line_at, uint64_t value_at, tc_err *err)
{
    const tci_jsonl_rec *last = s->nrecs > 0 ? &s->recs[s->nrecs - 1] : NULL;
    if (last != NULL &&
        (last->seq > r->seq || (last->seq == r->seq && last->ordinal >= r->ordinal)))
        return tc_err_set(err, TC_E_PARSE, "a record out of order");
    if (s->nrecs == s->cap) {
        size_t cap = s->cap == 0 ? 4 : s->cap * 2;
        tci_jsonl_rec *grown = tci_mem_resize(s->recs, cap * sizeof *grown);
        if (grown == NULL)
            return tci_err_no_memory(err);
        s->recs = grown;
        s->cap = cap;
    }
    tci_jsonl_rec rec = {.seq = r->seq,
                         .ordinal = r->ordinal,
                         .id = r->id,
                         .version = r->content.version,
                         .line_at = line_at,
                         .value_at = value_at,
                         .value_len = (uint32_t)r->value.len,
                         .is_task = r->is_task,
                         .is_delta = r->content.is_delta};
    int rc = o->j->is_read_only ? tci_place_dup(r->value, &rec.text, err) : 0;
    if (rc == 0)
        s->recs[s->nrecs++] = rec;
    return rc;
}

int tci_jsonl_read_sidecar(tci_jsonl_opening *o, tci_jsonl_file *f, tc_err *err)
{
    tci_jsonl *j = o->j;
    tci_file_stat st;
    tci_jsonl_sidecar *s = add_sidecar(o, f, err);
    if (s == NULL)
        return err->code;
    int rc = tci_jsonl_file_open(j, f, err);
    if (rc == 0)
        rc = tci_file_stat_of(f->f, &st, err);
    if (rc < 0)
        return rc;
    s->size = st.size;
    s->is_recent = tci_jsonl_is_recent(&st);
    tci_jsonl_reader r;
    tci_jsonl_reader_init(&r, f->f, st.size);
    tc_str line;
    uint64_t at;
    while ((rc = tci_jsonl_reader_next(&r, &line, &at, err)) > 0) {
        tci_jsonl_record record;
        tci_arena_clear(&j->arena);
        rc = tci_jsonl_parse_record(line, &j->arena, &record, err);
        if (rc == 0)
            rc = add_rec(o, s, &record, at, at + (uint64_t)(record.value.ptr - line.ptr), err);
        if (rc < 0) {
            char name[TCI_JSONL_NAME_MAX];
            (void)tci_jsonl_damage(err, tci_jsonl_file_name(f->is_task, f->id, name), at);
            break;
        }
    }
    s->end = at;
    tci_jsonl_reader_done(&r);
    return rc;
}

void tci_jsonl_opening_done(tci_jsonl_opening *o)
{
    for (size_t i = 0; i < o->nsidecars; i++) {
        for (size_t k = 0; k < o->sidecars[i].nrecs; k++)
            tci_place_done(&o->sidecars[i].recs[k].text);
        tci_free(o->sidecars[i].recs);
    }
    tci_free(o->sidecars);
    tci_free(o->missing);
    tci_id_map_done(&o->by_key);
}

/* ---- references ---- */

typedef struct replay {
    tci_jsonl_opening *o;
    uint64_t seq, marker_at;
    tci_write *writes; /* of the marker at hand, without those that are missing */
    tci_placed *placed;
    size_t nwrites;
    bool is_broken; /* something does not fit behind a missing record: it must be a cut */
    tc_err why;
} replay;

/* The record with this seq and ordinal, or NULL. References come in the order of the records. */
static tci_jsonl_rec *find_rec(tci_jsonl_sidecar *s, uint64_t seq, uint64_t ordinal)
{
    size_t low = 0, high = s->nrecs;
    if (s->cursor < s->nrecs && s->recs[s->cursor].seq == seq &&
        s->recs[s->cursor].ordinal == ordinal)
        return &s->recs[s->cursor++];
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        const tci_jsonl_rec *r = &s->recs[mid];
        if (r->seq < seq || (r->seq == seq && r->ordinal < ordinal))
            low = mid + 1;
        else
            high = mid;
    }
    if (low == s->nrecs || s->recs[low].seq != seq || s->recs[low].ordinal != ordinal)
        return NULL;
    s->cursor = low + 1;
    return &s->recs[low];
}

/* *ret NULL: it is missing. */
static int confirm(replay *r, bool is_task, uint64_t id, uint64_t ordinal, tci_jsonl_rec **ret,
                   tc_err *err)
{
    uintptr_t *number = tci_id_map_get(&r->o->by_key, tci_jsonl_key(is_task, id));
    tci_jsonl_sidecar *s = number != NULL ? &r->o->sidecars[*number - 1] : NULL;
    tci_jsonl_rec *rec = s != NULL ? find_rec(s, r->seq, ordinal) : NULL;
    *ret = rec;
    if (rec == NULL)
        return 0;
    if (rec->is_confirmed)
        return damaged_sidecar(err, s, rec->line_at, "a record is referred to twice");
    if (rec->is_task != is_task || rec->id != id)
        return damaged_sidecar(err, s, rec->line_at, "a record of something else");
    rec->is_confirmed = true;
    return 0;
}

static int note_missing(replay *r, bool is_task, uint64_t id, tc_err *err)
{
    tci_jsonl_opening *o = r->o;
    if (o->nmissing == o->missing_cap) {
        size_t cap = o->missing_cap == 0 ? 8 : o->missing_cap * 2;
        tci_jsonl_missing *grown = tci_mem_resize(o->missing, cap * sizeof *grown);
        if (grown == NULL)
            return tci_err_no_memory(err);
        o->missing = grown;
        o->missing_cap = cap;
    }
    o->missing[o->nmissing++] = (tci_jsonl_missing){r->seq, id, is_task, r->marker_at};
    return 0;
}

static int task_text(replay *r, tci_jsonl_rec *rec, tci_place *ret, tc_err *err)
{
    tci_jsonl *j = r->o->j;
    if (rec->text.is_heap) {
        *ret = rec->text;
        rec->text = (tci_place){0};
        return 0;
    }
    tci_jsonl_file *f = tci_jsonl_file_get(j, true, rec->id);
    char *text = tci_mem_resize(NULL, rec->value_len + (size_t)1);
    size_t got = 0;
    if (text == NULL)
        return tci_err_no_memory(err);
    int rc = tci_jsonl_file_open(j, f, err);
    if (rc == 0)
        rc = tci_file_pread(f->f, text, rec->value_len, rec->value_at, &got, err);
    if (rc == 0 && got < rec->value_len)
        rc = tc_err_set(err, TC_E_IO, "a file of the session has become shorter");
    if (rc < 0) {
        tci_free(text);
        return rc;
    }
    *ret = (tci_place){.u.text = text, .len = rec->value_len, .is_heap = true};
    return 0;
}

static int task_reference(replay *r, const tci_jsonl_write *w, tc_err *err)
{
    tci_jsonl_rec *rec;
    uint64_t id = w->w.u.task.id;
    int rc = confirm(r, true, id, w->ordinal, &rec, err);
    if (rc < 0)
        return rc;
    if (rec == NULL)
        return note_missing(r, true, id, err);
    tci_write *next = &r->writes[r->nwrites];
    tci_place *place = &r->placed[r->nwrites].record;
    *next = (tci_write){.type = TCI_WRITE_TASK};
    rc = task_text(r, rec, place, err);
    if (rc < 0)
        return rc;
    r->nwrites++; /* the place is let go with the others */
    return tci_jsonl_parse_task(tci_str_of(place->u.text, place->len), &r->o->j->arena,
                                &next->u.task, err);
}

static int document_reference(replay *r, const tci_jsonl_write *w, tc_err *err)
{
    tci_jsonl_rec *rec;
    uint64_t id = w->w.u.document.id;
    bool is_create = w->w.type == TCI_WRITE_DOC_CREATE;
    int rc = confirm(r, false, id, w->ordinal, &rec, err);
    if (rc < 0)
        return rc;
    tci_write *next = &r->writes[r->nwrites];
    tci_placed *placed = &r->placed[r->nwrites];
    if (rec == NULL) {
        rc = note_missing(r, false, id, err);
        if (rc < 0 || !is_create)
            return rc;
        *next = w->w;
        next->content = (tci_content){false, 1, TC_STR("{}")};
        r->nwrites++;
        return tci_place_dup(TC_STR("{}"), &placed->content, err);
    }
    if (is_create && rec->is_delta)
        return damaged_main(err, r->marker_at, "a document begins with a delta");
    *next = w->w;
    next->content = (tci_content){rec->is_delta, rec->version, {NULL, rec->value_len}};
    placed->content = (tci_place){.u.offset = rec->value_at, .len = rec->value_len};
    if (rec->text.is_heap) {
        placed->content = rec->text;
        rec->text = (tci_place){0};
    }
    r->nwrites++;
    return 0;
}

/* ---- markers ---- */

static int take_write(replay *r, const tci_jsonl_write *w, const char *line, tc_err *err)
{
    if (w->has_sidecar)
        return w->w.type == TCI_WRITE_TASK ? task_reference(r, w, err)
                                           : document_reference(r, w, err);
    r->writes[r->nwrites] = w->w;
    if (w->record.len > 0)
        r->placed[r->nwrites].record =
            (tci_place){.u.offset = r->marker_at + (uint64_t)(w->record.ptr - line),
                        .len = (uint32_t)w->record.len};
    r->nwrites++;
    return 0;
}

static int collect(replay *r, const tci_jsonl_marker *m, const char *line, tc_err *err)
{
    tci_arena *a = &r->o->j->arena;
    r->nwrites = 0;
    r->writes = tci_arena_items(a, tci_write, m->nwrites);
    r->placed = tci_arena_items(a, tci_placed, m->nwrites);
    if (r->writes == NULL || r->placed == NULL)
        return tci_arena_error(a, err);
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < m->nwrites; i++)
        rc = take_write(r, &m->writes[i], line, err);
    return rc;
}

static int take_marker(replay *r, const tci_jsonl_marker *m, const char *line, tc_err *err)
{
    tci_index *ix = &r->o->j->base.ix;
    tci_batch batch;
    int rc = collect(r, m, line, err);
    if (rc == 0)
        rc = tci_index_check(ix, r->writes, r->nwrites, TCI_CHECK_KNOWN, &r->o->j->arena, &batch,
                             err);
    if (rc == TC_E_CONFLICT || rc == TC_E_INVALID) {
        (void)tc_err_recode(err, TC_E_PARSE);
        rc = tci_jsonl_damage(err, TC_STR(TCI_JSONL_MAIN), r->marker_at);
    }
    if (rc == 0)
        return tci_index_apply(ix, &batch, m->seq, r->placed, err);
    for (size_t i = 0; i < r->nwrites; i++) {
        tci_place_done(&r->placed[i].record);
        tci_place_done(&r->placed[i].content);
    }
    return rc;
}

static int read_marker(replay *r, tc_str line, tc_err *err)
{
    tci_jsonl_opening *o = r->o;
    tci_jsonl_marker m;
    tci_arena_clear(&o->j->arena);
    int rc = tci_jsonl_parse_marker(line, &o->j->arena, &m, err);
    if (rc == 0 && m.seq <= r->seq)
        rc = tc_err_set(err, TC_E_PARSE, "a sequence number that does not increase");
    if (rc < 0)
        return rc == TC_E_PARSE ? tci_jsonl_damage(err, TC_STR(TCI_JSONL_MAIN), r->marker_at) : rc;
    r->seq = m.seq;
    if (!m.is_lazy)
        o->lazy_from = UINT64_MAX;
    else if (o->lazy_from == UINT64_MAX)
        o->lazy_from = r->marker_at;
    if (r->is_broken)
        return 0;
    rc = take_marker(r, &m, line.ptr, err);
    if (rc == TC_E_PARSE && o->nmissing > 0) {
        r->is_broken = true;
        r->why = *err;
        rc = 0;
    }
    return rc;
}

/* ---- the end ---- */

static bool is_obsolete(const tci_index *ix, const tci_jsonl_missing *m)
{
    if (m->is_task) {
        const tci_ix_task *t = tci_index_task(ix, m->id);
        return t != NULL && t->status == TCI_TASK_TERMINAL;
    }
    const tci_doc *doc = tci_index_doc(ix, m->id);
    if (doc == NULL || !tci_document_is_current_only(&doc->record))
        return false;
    return doc->record.retired_at != 0 || (doc->nrevisions > 0 && doc->revisions[0].seq > m->seq);
}

/* What is missing must be obsolete, or belong to lazy commits at the end. */
static int judge_missing(replay *r, tc_err *err)
{
    tci_jsonl_opening *o = r->o;
    for (size_t i = 0; i < o->nmissing; i++) {
        const tci_jsonl_missing *m = &o->missing[i];
        if (!r->is_broken && is_obsolete(&o->j->base.ix, m))
            continue;
        if (m->marker_at >= o->lazy_from) {
            o->is_cut = true;
            o->main_limit = m->marker_at;
            return 0;
        }
        if (r->is_broken && i + 1 < o->nmissing)
            continue; /* it cannot be told which of them it is about */
        if (r->is_broken) {
            *err = r->why;
            return err->code;
        }
        (void)tc_err_set(err, TC_E_PARSE, "damaged session: the record of %s %llu is missing",
                         m->is_task ? "task" : "document", (unsigned long long)m->id);
        return tci_jsonl_damage(err, TC_STR(TCI_JSONL_MAIN), m->marker_at);
    }
    return 0;
}

/* What is not confirmed is the end of a sidecar. */
static int judge_tails(tci_jsonl_opening *o, tc_err *err)
{
    for (size_t i = 0; i < o->nsidecars; i++) {
        tci_jsonl_sidecar *s = &o->sidecars[i];
        const tci_jsonl_rec *tail = NULL;
        for (size_t k = 0; k < s->nrecs; k++) {
            if (tail == NULL && !s->recs[k].is_confirmed)
                tail = &s->recs[k];
            if (tail != NULL && s->recs[k].is_confirmed)
                return damaged_sidecar(err, s, tail->line_at,
                                       "a record that no commit refers to, before one that counts");
        }
        if (tail != NULL)
            s->end = tail->line_at;
    }
    return 0;
}

int tci_jsonl_replay(tci_jsonl_opening *o, tc_err *err)
{
    replay r = {.o = o};
    o->lazy_from = UINT64_MAX;
    if (!tci_file_is_open(o->j->main))
        return judge_tails(o, err);
    tci_jsonl_reader reader;
    tci_jsonl_reader_init(&reader, o->j->main, o->main_limit);
    tc_str line;
    int rc;
    while ((rc = tci_jsonl_reader_next(&reader, &line, &r.marker_at, err)) > 0) {
        rc = read_marker(&r, line, err);
        if (rc < 0)
            break;
    }
    o->main_end = r.marker_at;
    tci_jsonl_reader_done(&reader);
    if (rc == 0)
        rc = judge_missing(&r, err);
    return rc < 0 || o->is_cut ? rc : judge_tails(o, err);
}
