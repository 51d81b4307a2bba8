/* SPDX-License-Identifier: Apache-2.0
 *
 * Every record of a session of JSON lines, looked at by itself and in its place. Leaves what becomes of
 * sound ones to its callers. Thread: the caller's. Invariant: nothing of the session is changed; what is
 * handed on would have been accepted as a commit. */
#include "store/jsonl/jsonl_salvage.h"
#include "store/delta.h"
#include "store/index/index_int.h"
#include <stdio.h>

/* A document on the way: its value, or that it has lost a change and waits for a base. */
typedef struct live {
    tci_tree value;
    bool is_broken;
} live;

typedef struct walk {
    tci_jsonl_salvage *s;
    tci_jsonl *j; /* read-only: files and the index */
    tci_jsonl_opening o;
    tci_id_map lives; /* of documents, by id */
    tci_id_map ends;  /* of tasks and documents: the last marker, one up, that made them obsolete */
    tci_arena a;      /* of the commit at hand */
    tci_write *writes;
    size_t nwrites;
    uint64_t seq; /* of the last sound marker */
    uint64_t at;  /* of the line at hand */
    uint64_t len;
    bool has_gap; /* a marker was lost before the line at hand */
    tc_err *err;
    int rc; /* of a callback */
} walk;

/* ---- telling ---- */

static void tell(walk *w, tc_str file, uint64_t offset, uint64_t len, bool is_lost,
                 const char *what)
{
    char where[TCI_JSONL_NAME_MAX + 40];
    int n = snprintf(where, sizeof where, "%.*s, byte %llu", TC_STR_ARG(file),
                     (unsigned long long)offset);
    tci_damage d = {tci_str_of(where, (size_t)n), tci_str(what), is_lost};
    tci_jsonl_damage_part part = {file, offset, len, tci_str(what), is_lost};
    w->s->report.ndamaged++;
    w->s->report.nlost += is_lost;
    if (w->s->on_damage != NULL)
        w->s->on_damage(w->s->user, &d);
    if (w->s->on_part != NULL && w->rc == 0)
        w->rc = w->s->on_part(w->s->keeper, &part, w->err);
}

static void tell_main(walk *w, bool is_lost, const char *what)
{
    tell(w, TC_STR(TCI_JSONL_MAIN), w->at, w->len, is_lost, what);
}

static void tell_file(walk *w, const tci_jsonl_file *f, uint64_t offset, uint64_t len, bool is_lost,
                      const char *what)
{
    char name[TCI_JSONL_NAME_MAX];
    tell(w, tci_jsonl_file_name(f->is_task, f->id, name), offset, len, is_lost, what);
}

/* An error that is damage and not a failure of reading. */
static bool is_damage(int rc)
{
    return rc == TC_E_PARSE || rc == TC_E_INVALID || rc == TC_E_CONFLICT || rc == TC_E_TOO_BIG;
}

/* ---- sidecars ---- */

static int keep_rec(tci_jsonl_sidecar *s, const tci_jsonl_record *r, uint64_t line_at,
                    uint64_t value_at, tc_err *err)
{
    const tci_jsonl_rec *last = s->nrecs > 0 ? &s->recs[s->nrecs - 1] : NULL;
    if (last != NULL &&
        (last->seq > r->seq || (last->seq == r->seq && last->ordinal >= r->ordinal)))
        return tc_err_set(err, TC_E_PARSE, "a record out of order");
    if (r->id != s->file->id || r->is_task != s->file->is_task)
        return tc_err_set(err, TC_E_PARSE, "a record of something else");
    if (s->nrecs == s->cap) {
        size_t cap = s->cap == 0 ? 4 : s->cap * 2;
        tci_jsonl_rec *grown = tci_mem_resize(s->recs, cap * sizeof *grown);
        if (grown == NULL)
            return tci_err_no_memory(err);
        s->recs = grown;
        s->cap = cap;
    }
    s->recs[s->nrecs++] = (tci_jsonl_rec){.seq = r->seq,
                                          .ordinal = r->ordinal,
                                          .id = r->id,
                                          .version = r->content.version,
                                          .line_at = line_at,
                                          .value_at = value_at,
                                          .value_len = (uint32_t)r->value.len,
                                          .is_task = r->is_task,
                                          .is_delta = r->content.is_delta};
    return 0;
}

/* The record with all that is in it. */
static int look_at_record(walk *w, tc_str line, tci_jsonl_record *ret, tc_err *err)
{
    tci_json value;
    tci_arena_clear(&w->a);
    int rc = tci_jsonl_parse_record(line, &w->a, ret, err);
    if (rc < 0)
        return rc;
    if (ret->is_task)
        return tci_task_parse(ret->value, &w->a, NULL, &ret->task, err);
    if (ret->content.is_delta)
        return tci_delta_check(ret->value, &w->a, err);
    return tci_json_parse(ret->value, TCI_JSON_DURABLE, &w->a, &value, err);
}

static tci_jsonl_sidecar *add_sidecar(walk *w, tci_jsonl_file *f)
{
    tci_jsonl_opening *o = &w->o;
    if (o->nsidecars == o->cap) {
        size_t cap = o->cap == 0 ? 16 : o->cap * 2;
        tci_jsonl_sidecar *grown = tci_mem_resize(o->sidecars, cap * sizeof *grown);
        if (grown == NULL)
            return NULL;
        o->sidecars = grown;
        o->cap = cap;
    }
    uintptr_t *number = tci_id_map_put(&o->by_key, tci_jsonl_key(f->is_task, f->id));
    if (number == NULL)
        return NULL;
    o->sidecars[o->nsidecars] = (tci_jsonl_sidecar){.file = f};
    *number = ++o->nsidecars;
    return &o->sidecars[o->nsidecars - 1];
}

static int walk_sidecar(walk *w, tci_jsonl_file *f, tc_err *err)
{
    tci_file_stat st;
    tci_jsonl_sidecar *s = add_sidecar(w, f);
    if (s == NULL)
        return tci_err_no_memory(err);
    int rc = tci_jsonl_file_open(w->j, f, err);
    if (rc == 0)
        rc = tci_file_stat_of(f->f, &st, err);
    if (rc < 0)
        return rc;
    tci_jsonl_reader r;
    tci_jsonl_reader_init(&r, f->f, st.size);
    tc_str line;
    uint64_t at;
    while ((rc = tci_jsonl_reader_next(&r, &line, &at, err)) > 0) {
        tci_jsonl_record record;
        rc = look_at_record(w, line, &record, err);
        if (rc == 0)
            rc = keep_rec(s, &record, at, at + (uint64_t)(record.value.ptr - line.ptr), err);
        if (rc < 0 && !is_damage(rc))
            break;
        if (rc < 0)
            tell_file(w, f, at, line.len + 1, true, err->msg);
        if (w->rc < 0) {
            rc = w->rc;
            break;
        }
    }
    tci_jsonl_reader_done(&r);
    if (rc == 0 && at < st.size) {
        w->s->report.ntails++;
        tell_file(w, f, at, st.size - at, false, "an unfinished line, which opening removes");
    }
    return rc < 0 ? rc : w->rc;
}

/* ---- documents ---- */

static live *live_of(walk *w, uint64_t id)
{
    uintptr_t *slot = tci_id_map_put(&w->lives, id);
    if (slot == NULL)
        return NULL;
    if (*slot == 0) {
        live *l = tci_new(live);
        if (l == NULL)
            return NULL;
        l->value = TCI_TREE_NONE;
        *slot = (uintptr_t)l;
    }
    return (live *)*slot;
}

static void lives_done(walk *w)
{
    for (size_t i = 0; i < w->lives.cap; i++) {
        live *l = (live *)w->lives.slots[i].value;
        if (w->lives.slots[i].id == 0 || l == NULL)
            continue;
        tci_tree_done(&l->value);
        tci_free(l);
    }
    tci_id_map_done(&w->lives);
}

/* Does the content lead on from the value there is? */
static int follow(live *l, const tci_content *content, tc_err *err)
{
    tci_tree whole = TCI_TREE_NONE;
    if (content->is_delta && l->is_broken)
        return tc_err_set(err, TC_E_PARSE, "a change of a document that has lost one before");
    if (content->is_delta) {
        tci_arena scratch;
        tci_arena_init(&scratch, 0);
        int rc = tci_delta_apply(&l->value, content->json, &scratch, err);
        tci_arena_done(&scratch);
        return rc;
    }
    int rc = tci_tree_parse(content->json, TCI_JSON_DURABLE, &whole, err);
    if (rc < 0)
        return rc;
    tci_tree_done(&l->value);
    l->value = whole;
    l->is_broken = false;
    return 0;
}

/* ---- references ---- */

static tci_jsonl_rec *find_rec(walk *w, bool is_task, uint64_t id, uint64_t seq, uint64_t ordinal,
                               tci_jsonl_sidecar **ret_sidecar)
{
    uintptr_t *number = tci_id_map_get(&w->o.by_key, tci_jsonl_key(is_task, id));
    tci_jsonl_sidecar *s = number != NULL ? &w->o.sidecars[*number - 1] : NULL;
    *ret_sidecar = s;
    while (s != NULL && s->cursor < s->nrecs && s->recs[s->cursor].seq < seq)
        s->cursor++;
    for (size_t k = s != NULL ? s->cursor : 0; s != NULL && k < s->nrecs; k++) {
        if (s->recs[k].seq != seq)
            break;
        if (s->recs[k].ordinal == ordinal && !s->recs[k].is_confirmed)
            return &s->recs[k];
    }
    return NULL;
}

static int value_of(walk *w, const tci_jsonl_rec *rec, tc_str *ret, tc_err *err)
{
    tci_jsonl_file *f = tci_jsonl_file_get(w->j, rec->is_task, rec->id);
    char *text = tci_arena_bytes(&w->a, rec->value_len);
    size_t got = 0;
    if (text == NULL)
        return tci_arena_error(&w->a, err);
    int rc = tci_jsonl_file_open(w->j, f, err);
    if (rc == 0)
        rc = tci_file_pread(f->f, text, rec->value_len, rec->value_at, &got, err);
    if (rc == 0)
        *ret = tci_str_of(text, got);
    return rc;
}

/* Has something later made the missing record obsolete? doc: of the document, NULL for a task. */
static bool is_obsolete(const walk *w, bool is_task, uint64_t id, const tci_document *doc,
                        const tci_jsonl_sidecar *s)
{
    if (!is_task && (doc == NULL || !tci_document_is_current_only(doc)))
        return false;
    const uintptr_t *end = tci_id_map_get(&w->ends, tci_jsonl_key(is_task, id));
    if (end != NULL && *end > w->seq)
        return true;
    for (size_t k = 0; !is_task && s != NULL && k < s->nrecs; k++) {
        if (s->recs[k].seq > w->seq && !s->recs[k].is_delta)
            return true;
    }
    return false;
}

static void tell_missing(walk *w, const char *what)
{
    if (w->at >= w->o.lazy_from) {
        w->s->report.ntails++;
        tell_main(w, false, "a commit that was not synced has lost a record: opening removes it");
    } else {
        tell_main(w, true, what);
    }
}

static int take_task(walk *w, const tci_jsonl_write *m, tc_err *err)
{
    tci_jsonl_sidecar *s;
    uint64_t id = m->w.u.task.id;
    tci_jsonl_rec *rec = find_rec(w, true, id, w->seq, m->ordinal, &s);
    tci_write *next = &w->writes[w->nwrites];
    tc_str text;
    if (rec == NULL) {
        if (!is_obsolete(w, true, id, NULL, s))
            tell_missing(w, "the record of a task is missing");
        return 0;
    }
    rec->is_confirmed = true;
    int rc = value_of(w, rec, &text, err);
    *next = (tci_write){.type = TCI_WRITE_TASK};
    if (rc == 0)
        rc = tci_task_parse(text, &w->a, NULL, &next->u.task, err);
    if (rc == 0)
        w->nwrites++;
    return rc;
}

static int take_content(walk *w, const tci_jsonl_write *m, tc_err *err)
{
    tci_jsonl_sidecar *s;
    bool is_create = m->w.type == TCI_WRITE_DOC_CREATE;
    uint64_t id = m->w.u.document.id;
    tci_jsonl_rec *rec = find_rec(w, false, id, w->seq, m->ordinal, &s);
    live *l = live_of(w, id);
    tci_write *next = &w->writes[w->nwrites];
    if (l == NULL)
        return tci_err_no_memory(err);
    *next = m->w;
    if (rec != NULL) {
        rec->is_confirmed = true;
        next->content = (tci_content){rec->is_delta, rec->version, {NULL, 0}};
        int rc = value_of(w, rec, &next->content.json, err);
        if (rc == 0 && is_create && rec->is_delta)
            rc = tc_err_set(err, TC_E_PARSE, "a document begins with a delta");
        if (rc == 0)
            rc = follow(l, &next->content, err);
        if (rc == 0) {
            w->nwrites++;
            return 0;
        }
        if (!is_damage(rc))
            return rc;
        tell_file(w, s->file, rec->line_at, 0, true, err->msg);
    } else {
        const tci_doc *doc = tci_index_doc(&w->j->base.ix, id);
        const tci_document *record = is_create     ? &m->w.u.document
                                     : doc != NULL ? &doc->record
                                                   : NULL;
        if (!is_obsolete(w, false, id, record, s))
            tell_missing(w, is_create ? "the first content of a document is missing"
                                      : "a content of a document is missing");
    }
    l->is_broken = true;
    if (!is_create)
        return 0;
    next->content = (tci_content){false, 1, TC_STR("{}")};
    w->nwrites++;
    return 0;
}

/* ---- markers ---- */

static int parse_strictly(walk *w, const tci_jsonl_write *m, tci_write *ret, tc_err *err)
{
    *ret = m->w;
    switch (m->w.type) {
    case TCI_WRITE_CONVERSATION:
        return tci_conversation_parse(m->record, &w->a, &ret->u.conversation, err);
    case TCI_WRITE_ENTRY:
        return tci_entry_parse(m->record, &w->a, NULL, &ret->u.entry, err);
    case TCI_WRITE_TASK:
        return tci_task_parse(m->record, &w->a, NULL, &ret->u.task, err);
    case TCI_WRITE_SUBMISSION:
        return tci_submission_parse(m->record, &w->a, &ret->u.submission, err);
    case TCI_WRITE_DOC_CREATE:
    case TCI_WRITE_DOC_COPY:
        return tci_document_parse(m->record, &w->a, &ret->u.document, err);
    case TCI_WRITE_DOC_CHANGE:
    case TCI_WRITE_DOC_RETIRE:
        break;
    }
    return 0;
}

static int take_write(walk *w, const tci_jsonl_write *m, tc_err *err)
{
    if (m->is_bad) {
        tell_main(w, true, "a write that lacks a field or has a wrong one");
        return 0;
    }
    if (m->has_sidecar && m->w.type == TCI_WRITE_TASK)
        return take_task(w, m, err);
    tci_jsonl_write strict = *m;
    int rc = parse_strictly(w, m, &strict.w, err);
    if (is_damage(rc)) {
        tell_main(w, true, err->msg);
        return 0;
    }
    if (rc < 0)
        return rc;
    if (m->has_sidecar)
        return take_content(w, &strict, err);
    w->writes[w->nwrites++] = strict.w;
    return 0;
}

/* Those that no rule of a batch forbids, one after the other. */
static int drop_forbidden(walk *w, tc_err *err)
{
    tci_index *ix = &w->j->base.ix;
    tci_batch batch;
    size_t n = 0;
    int rc = tci_index_check(ix, w->writes, w->nwrites, TCI_CHECK_TEXTS, &w->a, &batch, err);
    if (!is_damage(rc))
        return rc;
    for (size_t i = 0; i < w->nwrites; i++) {
        w->writes[n] = w->writes[i];
        rc = tci_index_check(ix, w->writes, n + 1, TCI_CHECK_TEXTS, &w->a, &batch, err);
        if (rc == 0)
            n++;
        else if (!is_damage(rc))
            return rc;
        else
            tell_main(w, true, err->msg);
    }
    w->nwrites = n;
    return 0;
}

/* The writes of the marker at hand are complete. */
static int hand_on(walk *w, bool is_lazy, tc_err *err)
{
    tci_index *ix = &w->j->base.ix;
    tci_batch batch;
    int rc = drop_forbidden(w, err);
    if (rc == 0)
        rc = tci_index_check(ix, w->writes, w->nwrites, TCI_CHECK_KNOWN, &w->a, &batch, err);
    tci_placed *placed = rc == 0 ? tci_arena_items(&w->a, tci_placed, w->nwrites) : NULL;
    if (rc == 0 && placed == NULL)
        rc = tci_arena_error(&w->a, err);
    if (rc == 0)
        rc = tci_index_apply(ix, &batch, w->seq, placed, err);
    w->s->report.nrecords += w->nwrites;
    if (rc == 0 && w->s->on_commit != NULL)
        rc = w->s->on_commit(w->s->keeper, w->writes, w->nwrites, w->seq, is_lazy, err);
    return rc < 0 ? rc : w->rc;
}

static int room_for(walk *w, size_t n, tc_err *err)
{
    w->nwrites = 0;
    w->writes = tci_arena_items(&w->a, tci_write, n);
    return w->writes != NULL ? 0 : tci_arena_error(&w->a, err);
}

/* Records of sidecars between two sequence numbers, whose marker is lost: the lowest number. */
static uint64_t next_orphan(const walk *w, uint64_t above, uint64_t below, size_t *ret_count)
{
    uint64_t lowest = below;
    *ret_count = 0;
    for (size_t i = 0; i < w->o.nsidecars; i++) {
        for (size_t k = 0; k < w->o.sidecars[i].nrecs; k++) {
            const tci_jsonl_rec *r = &w->o.sidecars[i].recs[k];
            if (r->seq <= above || r->seq >= below || r->is_confirmed)
                continue;
            *ret_count = r->seq < lowest ? 1 : *ret_count + (r->seq == lowest);
            lowest = r->seq < lowest ? r->seq : lowest;
        }
    }
    return lowest;
}

/* The records of a commit that no marker refers to. */
static int take_unreferred(walk *w, tc_err *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < w->o.nsidecars; i++) {
        const tci_jsonl_sidecar *s = &w->o.sidecars[i];
        for (size_t k = 0; rc == 0 && k < s->nrecs; k++) {
            if (s->recs[k].seq != w->seq || s->recs[k].is_confirmed)
                continue;
            tci_jsonl_write m = {.has_sidecar = true, .ordinal = s->recs[k].ordinal};
            if (s->file->is_task) {
                m.w.type = TCI_WRITE_TASK;
                m.w.u.task.id = s->file->id;
                rc = take_task(w, &m, err);
            } else {
                m.w.type = TCI_WRITE_DOC_CHANGE;
                m.w.u.document.id = s->file->id;
                rc = take_content(w, &m, err);
            }
        }
    }
    return rc;
}

/* What the sidecars know of the commits whose markers are lost, up to this number. */
static int take_orphans(walk *w, uint64_t below, tc_err *err)
{
    size_t count;
    uint64_t seq;
    int rc = 0;
    while (rc == 0 && (seq = next_orphan(w, w->seq, below, &count)) < below) {
        tci_arena_clear(&w->a);
        w->seq = seq;
        rc = room_for(w, count, err);
        if (rc == 0)
            rc = take_unreferred(w, err);
        if (rc == 0)
            rc = hand_on(w, false, err);
    }
    w->has_gap = false;
    return rc;
}

static int take_marker(walk *w, const tci_jsonl_marker *m, tc_err *err)
{
    size_t more = 0;
    if (m->is_cut) /* what the sidecars have of the part that cannot be read */
        (void)next_orphan(w, m->seq - 1, m->seq + 1, &more);
    int rc = room_for(w, m->nwrites + more, err);
    w->seq = m->seq;
    w->s->report.ncommits++;
    for (size_t i = 0; rc == 0 && i < m->nwrites; i++)
        rc = take_write(w, &m->writes[i], err);
    if (rc == 0 && m->is_cut)
        rc = take_unreferred(w, err);
    return rc < 0 ? rc : hand_on(w, m->is_lazy, err);
}

static int walk_marker(walk *w, tc_str line, tc_err *err)
{
    tci_jsonl_marker m;
    tci_arena_clear(&w->a);
    int rc = tci_jsonl_parse_loosely(line, &w->a, &m, err);
    bool is_cut = rc == 0 && m.is_cut;
    if (rc == 0 && m.seq <= w->seq) {
        rc = tc_err_set(err, TC_E_PARSE, "a sequence number that does not increase");
        is_cut = false;
    }
    if (is_damage(rc) || is_cut)
        tell_main(w, true, err->msg);
    if (is_damage(rc)) {
        w->has_gap = true;
        return w->rc;
    }
    if (rc == 0 && w->has_gap) {
        rc = take_orphans(w, m.seq, err);
        tci_arena_clear(&w->a);
        if (rc == 0)
            rc = tci_jsonl_parse_loosely(line, &w->a, &m, err);
    }
    return rc < 0 ? rc : take_marker(w, &m, err);
}

/* Which commits make sidecars obsolete: a look ahead. */
static int note_ends(walk *w, const tci_jsonl_marker *m, tc_err *err)
{
    for (size_t i = 0; i < m->nwrites; i++) {
        const tci_write *write = &m->writes[i].w;
        bool is_task = write->type == TCI_WRITE_TASK;
        if (m->writes[i].has_sidecar || (!is_task && write->type != TCI_WRITE_DOC_RETIRE))
            continue;
        uint64_t id = is_task ? write->u.task.id : write->u.document.id;
        uintptr_t *end = tci_id_map_put(&w->ends, tci_jsonl_key(is_task, id));
        if (end == NULL)
            return tci_err_no_memory(err);
        *end = (uintptr_t)m->seq;
    }
    return 0;
}

static int walk_main(walk *w, bool looks_ahead, tc_err *err)
{
    tci_file_stat st;
    tc_str line;
    int rc = tci_file_stat_of(w->j->main, &st, err);
    if (rc < 0)
        return rc;
    tci_jsonl_reader r;
    tci_jsonl_reader_init(&r, w->j->main, st.size);
    while ((rc = tci_jsonl_reader_next(&r, &line, &w->at, err)) > 0) {
        tci_jsonl_marker m;
        w->len = line.len + 1;
        if (looks_ahead) {
            tci_arena_clear(&w->a);
            rc = tci_jsonl_parse_marker(line, &w->a, &m, err);
            if (rc == 0 && (!m.is_lazy || w->o.lazy_from == UINT64_MAX))
                w->o.lazy_from = m.is_lazy ? w->at : UINT64_MAX;
            rc = rc == 0 ? note_ends(w, &m, err) : is_damage(rc) ? 0 : rc;
        } else {
            rc = walk_marker(w, line, err);
        }
        if (rc < 0)
            break;
    }
    tci_jsonl_reader_done(&r);
    if (rc == 0 && !looks_ahead && w->has_gap)
        rc = take_orphans(w, UINT64_MAX, err);
    if (rc == 0 && !looks_ahead && w->at < st.size) {
        w->s->report.ntails++;
        w->len = st.size - w->at;
        tell_main(w, false, "an unfinished line, which opening removes");
    }
    return rc < 0 ? rc : w->rc;
}

/* Records that no marker refers to. At the end of a file they are the rest of a commit that did not
 * happen, which opening removes. */
static void judge_tails(walk *w)
{
    for (size_t i = 0; i < w->o.nsidecars; i++) {
        const tci_jsonl_sidecar *s = &w->o.sidecars[i];
        bool is_tail = true;
        for (size_t k = s->nrecs; k > 0; k--) {
            is_tail = is_tail && !s->recs[k - 1].is_confirmed;
            if (s->recs[k - 1].is_confirmed)
                continue;
            w->s->report.ntails += is_tail;
            tell_file(w, s->file, s->recs[k - 1].line_at, 0, !is_tail,
                      is_tail ? "a record of a commit that did not happen, which opening removes"
                              : "a record that no commit refers to");
        }
    }
}

static int walk_all(walk *w, tc_err *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < w->j->files.cap; i++) {
        if (w->j->files.slots[i].id != 0)
            rc = walk_sidecar(w, (tci_jsonl_file *)w->j->files.slots[i].value, err);
    }
    if (rc == 0 && tci_file_is_open(w->j->main)) {
        rc = walk_main(w, true, err);
        if (rc == 0)
            rc = walk_main(w, false, err);
    }
    if (rc == 0 && tci_jsonl_has_lost_main(w->j, &w->o)) {
        w->s->report.is_unreadable = true;
        tell(w, TC_STR(TCI_JSONL_MAIN), 0, 0, true,
             "it is missing, and nothing else says what happened");
    } else if (rc == 0) {
        judge_tails(w);
    }
    return rc < 0 ? rc : w->rc;
}

int tci_jsonl_salvage_run(tc_str path, tci_jsonl_salvage *s, tc_err *err)
{
    tci_store_options options = {.is_read_only = true};
    tci_jsonl *j = tci_jsonl_new(&options);
    if (j == NULL)
        return tci_err_no_memory(err);
    walk w = {.s = s, .j = j, .err = err, .o = {.lazy_from = UINT64_MAX}};
    tci_arena_init(&w.a, 0);
    s->report = (tci_check_report){0};
    int rc = tci_jsonl_open_folder(j, path, &options, err);
    if (rc == 0)
        rc = walk_all(&w, err);
    lives_done(&w);
    tci_id_map_done(&w.ends);
    tci_jsonl_opening_done(&w.o);
    tci_arena_done(&w.a);
    tci_jsonl_release(j);
    return rc;
}
