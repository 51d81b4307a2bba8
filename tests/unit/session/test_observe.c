/* SPDX-License-Identifier: Apache-2.0 */
#include "fixture.h"

#include <stdio.h>

static const tc_doc_def notes = {.size = sizeof(tc_doc_def),
                                 .kind = "test.notes",
                                 .version = 1,
                                 .scope = TC_SCOPE_CONVERSATION,
                                 .initial_json = "{\"text\":\"\"}",
                                 .checkpoint_when = tc_checkpoint_never};

/* What listeners were told, a line each. */
typedef struct told {
    fixture *f;
    tci_buf text;
    tc_state *free_in_call;
    tc_listener *remove_in_call;
    tc_watch *stop_in_call;
} told;

static void told_init(told *t, fixture *f)
{
    memset(t, 0, sizeof *t);
    t->f = f;
    tci_buf_init(&t->text, TCI_BUF_MAX);
}

static void put_value(tci_buf *b, const tc_json *v)
{
    if (v != NULL)
        tci_json_put(b, v, TCI_JSON_AS_IS);
    else
        tci_buf_append_str(b, TC_STR("none"));
}

static void add_note(fixture *f, const char *text)
{
    tc_doc *doc = NULL;
    tc_tx *tx = begin(f);
    ok(tc_tx_doc(tx, &notes, 1, S(""), S(""), &doc, &f->err));
    ok(tc_doc_append(doc, S("/text"), tci_str(text), &f->err));
    commit(f, tx);
}

static void retire_note(fixture *f)
{
    tc_tx *tx = begin(f);
    ok(tc_tx_retire_doc(tx, &notes, 1, S(""), &f->err));
    commit(f, tx);
}

static const tc_doc_addr addr = {&notes, 1, {NULL, 0}};

/* ---- states ---- */

static void on_state(void *user, uint64_t sequence, const tc_json *value)
{
    told *t = user;
    tci_buf_printf(&t->text, "%llu ", (unsigned long long)sequence);
    put_value(&t->text, value);
    tci_buf_append_byte(&t->text, '\n');
    tc_state_free(t->free_in_call);
    t->free_in_call = NULL;
}

static void a_state_follows_its_commits(void **state)
{
    fixture *f = *state;
    told t;
    told_init(&t, f);
    make_root(f);
    tc_state *st = NULL;
    ok(tc_durable_state(f->s, &addr, &st, &f->err));
    assert_null(st);
    add_note(f, "a");
    ok(tc_durable_state(f->s, &addr, &st, &f->err));
    tc_listener *l = NULL;
    ok(tc_state_subscribe(st, on_state, &t, &l, &f->err));
    add_note(f, "b");
    say(f, 1, "nothing to do with it");
    tc_tx *tx = begin(f); /* acquired, not changed */
    tc_doc *doc = NULL;
    ok(tc_tx_doc(tx, &notes, 1, S(""), S(""), &doc, &f->err));
    commit(f, tx);
    add_note(f, "c");
    tc_str json = {0};
    ok(tc_state_value(st, f->r, &json, &f->err));
    assert_text(json, "{\"text\":\"abc\"}");
    retire_note(f);
    add_note(f, "another incarnation");
    ok(tc_state_value(st, f->r, &json, &f->err));
    assert_int_equal(json.len, 0);
    assert_text(tci_buf_str(&t.text),
                "0 {\"text\":\"a\"}\n1 {\"text\":\"ab\"}\n2 {\"text\":\"abc\"}\n"
                "3 none\n");
    tc_listener_remove(l);
    tc_state_free(st);
    tci_buf_done(&t.text);
}

static void a_state_keeps_its_value_when_the_session_closes(void **state)
{
    fixture *f = *state;
    told t;
    told_init(&t, f);
    make_root(f);
    add_note(f, "last");
    tc_state *st = NULL;
    tc_listener *l = NULL, *late = NULL;
    ok(tc_durable_state(f->s, &addr, &st, &f->err));
    ok(tc_state_subscribe(st, on_state, &t, &l, &f->err));
    tc_durable_free(f->s);
    f->s = NULL;
    tc_str json = {0};
    ok(tc_state_value(st, f->r, &json, &f->err));
    assert_text(json, "{\"text\":\"last\"}");
    ok(tc_state_subscribe(st, on_state, &t, &late, &f->err));
    assert_text(tci_buf_str(&t.text), "0 {\"text\":\"last\"}\n0 {\"text\":\"last\"}\n");
    tc_state_free(st);
    tc_listener_remove(l);
    tc_listener_remove(late);
    tci_buf_done(&t.text);
}

static void observers_may_be_freed_in_their_own_call(void **state)
{
    fixture *f = *state;
    told t;
    told_init(&t, f);
    make_root(f);
    add_note(f, "a");
    tc_state *first = NULL, *second = NULL;
    tc_listener *l = NULL, *m = NULL;
    ok(tc_durable_state(f->s, &addr, &first, &f->err));
    ok(tc_durable_state(f->s, &addr, &second, &f->err));
    ok(tc_state_subscribe(first, on_state, &t, &l, &f->err));
    ok(tc_state_subscribe(second, on_state, &t, &m, &f->err));
    tci_buf_clear(&t.text);
    t.free_in_call = second; /* the next in turn */
    add_note(f, "b");
    t.free_in_call = first; /* itself */
    add_note(f, "c");
    add_note(f, "d");
    assert_text(tci_buf_str(&t.text), "1 {\"text\":\"ab\"}\n2 {\"text\":\"abc\"}\n");
    tc_listener_remove(l);
    tc_listener_remove(m);
    tci_buf_done(&t.text);
}

/* ---- watches ---- */

static void next_is(fixture *f, tc_watch *w, const char *ops, const char *value)
{
    tc_frame frame;
    ok(tc_watch_next(w, NULL, &frame, &f->err));
    assert_text(frame.ops, ops);
    tci_buf b;
    tci_buf_init(&b, TCI_BUF_MAX);
    put_value(&b, frame.value);
    assert_text(tci_buf_str(&b), value);
    tci_buf_done(&b);
}

static void a_watch_gives_every_change(void **state)
{
    fixture *f = *state;
    make_root(f);
    tc_watch *w = NULL;
    ok(tc_durable_watch(f->s, &addr, &w, &f->err));
    assert_null(w);
    add_note(f, "a");
    ok(tc_durable_watch(f->s, &addr, &w, &f->err));
    assert_non_null(tc_json_get(tc_watch_value(w), S("text")));
    add_note(f, "b");
    set_doc(f, &notes, 1, "/n", "1");
    next_is(f, w, "[[\"a\",[\"text\"],\"b\"]]", "{\"text\":\"ab\"}");
    next_is(f, w, "[[\"s\",[\"n\"],1]]", "{\"text\":\"ab\",\"n\":1}");
    tc_ctx *ctx = NULL;
    tc_frame frame;
    ok(tc_ctx_new(0, &ctx, &f->err));
    fails(TC_E_TIMEOUT, tc_watch_next(w, ctx, &frame, &f->err));
    tc_ctx_free(ctx);
    retire_note(f);
    add_note(f, "another incarnation");
    next_is(f, w, "[[\"r\",null]]", "none");
    fails(TC_E_END, tc_watch_next(w, NULL, &frame, &f->err));
    assert_int_equal(tc_watch_reason(w, NULL), TC_WATCH_RETIRED);
    tc_watch_free(w);
}

static void a_slow_watcher_gets_one_replacement(void **state)
{
    fixture *f = *state;
    make_root(f);
    add_note(f, "x");
    tc_watch *w = NULL;
    ok(tc_durable_watch(f->s, &addr, &w, &f->err));
    for (unsigned i = 0; i < 100; i++)
        add_note(f, ".");
    next_is(f, w, "[[\"a\",[\"text\"],\".\"]]", "{\"text\":\"x.\"}");
    add_note(f, "o");
    for (unsigned i = 0; i < 100; i++) { /* nothing was lost so far */
        tc_frame frame;
        ok(tc_watch_next(w, NULL, &frame, &f->err));
        assert_text(frame.ops,
                    i < 99 ? "[[\"a\",[\"text\"],\".\"]]" : "[[\"a\",[\"text\"],\"o\"]]");
    }
    set_doc(f, &notes, 1, "/text", "\"y\"");
    for (unsigned i = 0; i < 100; i++)
        add_note(f, "z");
    add_note(f, "!");
    char want[256];
    char zs[101];
    memset(zs, 'z', 100);
    zs[100] = 0;
    snprintf(want, sizeof want, "[[\"r\",{\"text\":\"y%s\"}]]", zs);
    tc_frame frame;
    ok(tc_watch_next(w, NULL, &frame, &f->err));
    assert_text(frame.ops, want);
    snprintf(want, sizeof want, "{\"text\":\"y%s!\"}", zs);
    next_is(f, w, "[[\"a\",[\"text\"],\"!\"]]", want);
    tc_watch_free(w);
}

static int migrate(void *user, const tc_json *value, uint64_t from_version, tc_result *r,
                   tc_str *ret_json, tc_err *err)
{
    TCI_UNUSED(user);
    TCI_UNUSED(value);
    TCI_UNUSED(from_version);
    return tc_result_dup(r, S("{\"text\":\"new\"}"), ret_json, err);
}

static void observers_of_another_version_get_the_whole_value(void **state)
{
    fixture *f = *state;
    tc_doc_def newer = notes;
    newer.version = 2;
    newer.migrate = migrate;
    make_root(f);
    add_note(f, "old");
    tc_watch *w = NULL, *of_newer = NULL;
    tc_doc_addr newer_addr = {&newer, 1, S("")};
    ok(tc_durable_watch(f->s, &addr, &w, &f->err));
    ok(tc_durable_watch(f->s, &newer_addr, &of_newer, &f->err));
    tc_tx *tx = begin(f);
    tc_doc *doc = NULL;
    ok(tc_tx_doc(tx, &newer, 1, S(""), S(""), &doc, &f->err));
    commit(f, tx); /* the migrated value, and no change */
    set_doc(f, &newer, 1, "/n", "1");
    next_is(f, w, "[[\"r\",{\"text\":\"new\"}]]", "{\"text\":\"new\"}");
    next_is(f, w, "[[\"s\",[\"n\"],1]]", "{\"text\":\"new\",\"n\":1}");
    next_is(f, of_newer, "[[\"s\",[\"n\"],1]]", "{\"text\":\"new\",\"n\":1}");
    tc_watch_free(w);
    tc_watch_free(of_newer);
}

typedef struct follower {
    tci_mutex m;
    tci_wake wake;
    unsigned nframes, fail_at;
    size_t len;
    tc_watch *w;
    bool is_over;
} follower;

static int follow(void *user, const tc_frame *frame, tc_err *err)
{
    follower *fo = user;
    tc_str text = {0};
    tci_mutex_lock(&fo->m);
    fo->nframes++;
    if (tc_json_as_str(tc_json_get(frame->value, S("text")), &text))
        fo->len = text.len;
    bool fail = fo->nframes == fo->fail_at;
    tci_mutex_unlock(&fo->m);
    tci_wake_all(&fo->wake);
    return fail ? tc_err_set(err, TC_E_INVALID, "enough") : 0;
}

static void wait_for_len(follower *fo, size_t len)
{
    for (;;) {
        unsigned seen = tci_wake_count(&fo->wake);
        tci_mutex_lock(&fo->m);
        bool is_there = fo->len >= len;
        tci_mutex_unlock(&fo->m);
        if (is_there)
            return;
        tci_wake_wait(&fo->wake, seen, 0);
    }
}

static void a_started_watch_runs_on_a_thread_of_its_own(void **state)
{
    fixture *f = *state;
    make_root(f);
    add_note(f, "a");
    follower fo = {0};
    tci_mutex_init(&fo.m);
    tc_watch *w = NULL;
    ok(tc_durable_watch(f->s, &addr, &w, &f->err));
    ok(tc_watch_start(w, NULL, follow, &fo, &f->err));
    fails(TC_E_CONFLICT, tc_watch_start(w, NULL, follow, &fo, &f->err));
    for (unsigned i = 0; i < 300; i++)
        add_note(f, "b");
    wait_for_len(&fo, 301);
    tc_watch_stop(w);
    add_note(f, "c");
    assert_int_equal(tc_watch_reason(w, NULL), TC_WATCH_STOPPED);
    tc_watch_free(w);
    assert_int_equal(fo.len, 301);
    tci_mutex_done(&fo.m);
}

static void ends_with(fixture *f, tc_watch *w, tc_watch_end why)
{
    tc_watch_end reason;
    ok(tc_watch_wait(w, NULL, &reason, &f->err));
    assert_int_equal(reason, why);
}

static void a_watch_ends_for_a_reason(void **state)
{
    fixture *f = *state;
    make_root(f);
    add_note(f, "a");
    follower fo = {.fail_at = 1}, fine = {0};
    tci_mutex_init(&fo.m);
    tci_mutex_init(&fine.m);
    tc_watch *failing = NULL, *cancelled = NULL, *left = NULL;
    tc_ctx *ctx = NULL;
    ok(tc_ctx_new(-1, &ctx, &f->err));
    ok(tc_durable_watch(f->s, &addr, &failing, &f->err));
    ok(tc_durable_watch(f->s, &addr, &cancelled, &f->err));
    ok(tc_durable_watch(f->s, &addr, &left, &f->err));
    ok(tc_watch_start(failing, NULL, follow, &fo, &f->err));
    ok(tc_watch_start(cancelled, ctx, follow, &fine, &f->err));
    add_note(f, "b");
    ends_with(f, failing, TC_WATCH_LISTENER_ERROR);
    tc_err why;
    assert_int_equal(tc_watch_reason(failing, &why), TC_WATCH_LISTENER_ERROR);
    assert_string_equal(why.msg, "enough");
    tc_ctx_cancel(ctx);
    ends_with(f, cancelled, TC_WATCH_CANCELLED);
    ok(tc_durable_close(f->s, &f->err));
    assert_int_equal(tc_watch_reason(left, NULL), TC_WATCH_SESSION_CLOSED);
    tc_frame frame;
    fails(TC_E_END, tc_watch_next(left, NULL, &frame, &f->err));
    fails(TC_E_CLOSED, tc_watch_start(left, NULL, follow, &fo, &f->err));
    tc_watch_free(failing);
    tc_watch_free(cancelled);
    tc_watch_free(left);
    tc_ctx_free(ctx);
    assert_int_equal(fo.nframes, 1);
    tci_mutex_done(&fo.m);
    tci_mutex_done(&fine.m);
}

/* ---- commits ---- */

static void on_commit(void *user, const tc_commit *commit)
{
    told *t = user;
    tci_buf_printf(&t->text, "seq %llu\n", (unsigned long long)commit->seq);
    for (size_t i = 0; i < commit->nrecords; i++) {
        const tc_commit_record *r = &commit->records[i];
        tci_buf_printf(&t->text, "%d %llu in %llu\n", (int)r->type, (unsigned long long)r->id,
                       (unsigned long long)r->conversation);
    }
    for (size_t i = 0; i < commit->ndocs; i++) {
        const tc_commit_doc *d = &commit->docs[i];
        tci_buf_printf(&t->text, "%.*s in %llu %d%d %.*s ", TC_STR_ARG(d->kind),
                       (unsigned long long)d->conversation, d->is_new, d->is_retired,
                       TC_STR_ARG(d->ops));
        put_value(&t->text, d->value);
        tci_buf_append_byte(&t->text, '\n');
    }
    tc_listener_remove(t->remove_in_call);
    t->remove_in_call = NULL;
}

static int on_internal(void *user, const tci_commit *commit, tc_err *err)
{
    told *t = user;
    fixture *f = t->f;
    /* readers on the line see what is committed */
    const tc_json *value = NULL;
    ok(tci_durable_doc(f->s, &addr, &value, NULL, &f->err));
    tci_buf_printf(&t->text, "internal %llu: %zu %zu %zu %zu %zu ", (unsigned long long)commit->seq,
                   commit->nconversations, commit->nentries, commit->nsubmissions, commit->ntasks,
                   commit->ndocs);
    put_value(&t->text, value);
    tci_buf_append_byte(&t->text, '\n');
    tc_tx *tx = NULL;
    tc_err refused;
    assert_int_equal(tc_durable_begin(f->s, NULL, &tx, &refused), TC_E_CONFLICT);
    TCI_UNUSED(err);
    return 0;
}

static void listeners_are_told_of_every_commit(void **state)
{
    fixture *f = *state;
    told t;
    told_init(&t, f);
    make_root(f);
    uint64_t task = make_task(f, 1);
    tc_listener *host = NULL, *internal = NULL;
    ok(tc_durable_on_commit(f->s, on_commit, &t, &host, &f->err));
    ok(tci_durable_listen(f->s, on_internal, &t, &internal, &f->err));
    add_note(f, "a");
    static const tc_doc_def of_task = {
        .size = sizeof(tc_doc_def), .kind = "test.of-task", .version = 1, .scope = TC_SCOPE_TASK};
    tc_doc *doc = NULL;
    uint64_t id = 0;
    tc_tx *tx = begin(f);
    ok(tc_tx_doc(tx, &of_task, task, S(""), S(""), &doc, &f->err));
    ok(tc_tx_append_entry(tx, 1, S("{\"kind\":\"a\"}"), &id, &f->err));
    ok(tc_tx_create_submission(tx, 1, S("{\"type\":\"write\",\"status\":\"queued\"}"), &id,
                               &f->err));
    ok(tc_tx_doc(tx, &notes, 1, S(""), S(""), &doc, &f->err));
    ok(tc_doc_append(doc, S("/text"), S("b"), &f->err));
    commit(f, tx);
    tx = begin(f);
    put_task_state(f, tx, task,
                   "{\"status\":\"terminal\",\"outcome\":{\"status\":\"completed\",\"result\":1}}");
    commit(f, tx);
    tc_tx_rollback(begin(f));
    assert_text(tci_buf_str(&t.text),
                "internal 3: 0 0 0 0 1 {\"text\":\"a\"}\n"
                "seq 3\ntest.notes in 1 10 [[\"r\",{\"text\":\"a\"}]] {\"text\":\"a\"}\n"
                "internal 4: 0 1 1 0 2 {\"text\":\"ab\"}\n"
                "seq 4\n1 5 in 1\n3 6 in 1\n"
                "test.of-task in 1 10 [[\"r\",{}]] {}\n"
                "test.notes in 1 00 [[\"a\",[\"text\"],\"b\"]] {\"text\":\"ab\"}\n"
                "internal 5: 0 0 0 1 1 {\"text\":\"ab\"}\n"
                "seq 5\n2 2 in 1\ntest.of-task in 1 01 [[\"r\",null]] none\n");
    tc_listener_remove(internal);
    tci_buf_clear(&t.text);
    t.remove_in_call = host;
    add_note(f, "c");
    add_note(f, "d");
    assert_true(tci_str_starts(tci_buf_str(&t.text), S("seq 6\n")));
    assert_int_equal(tci_str_find(tci_buf_str(&t.text), S("seq 7")), t.text.len);
    tci_buf_done(&t.text);
}

/* ---- closing ---- */

static void on_close(void *user, const tc_err *failure)
{
    told *t = user;
    tci_buf_printf(&t->text, "closed%s ", failure != NULL ? failure->msg : "");
    if (t->stop_in_call != NULL)
        tci_buf_printf(&t->text, "%s ", tc_watch_end_name(tc_watch_reason(t->stop_in_call, NULL)));
}

static void join(void *user)
{
    told *t = user;
    fixture *f = t->f;
    tc_tx *tx = NULL;
    uint64_t id = 0;
    fails(TC_E_CLOSED, tc_durable_begin(f->s, NULL, &tx, &f->err));
    ok(tci_durable_begin_at_close(f->s, &tx, &f->err));
    ok(tc_tx_append_entry(tx, 1, S("{\"kind\":\"last\"}"), &id, &f->err));
    commit(f, tx);
    tci_buf_append_str(&t->text, S("joined "));
}

static void closing_goes_in_its_order(void **state)
{
    fixture *f = *state;
    told t;
    told_init(&t, f);
    tci_durable_hooks hooks = {.user = &t, .join = join};
    tci_durable_set_hooks(f->s, &hooks);
    make_root(f);
    add_note(f, "a");
    tc_listener *closed = NULL, *removed = NULL, *commits = NULL, *late = NULL;
    ok(tc_durable_on_close(f->s, on_close, &t, &closed, &f->err));
    ok(tc_durable_on_close(f->s, on_close, &t, &removed, &f->err));
    tc_listener_remove(removed);
    ok(tc_durable_on_commit(f->s, on_commit, &t, &commits, &f->err));
    ok(tc_durable_watch(f->s, &addr, &t.stop_in_call, &f->err));
    tc_tx *tx = NULL;
    fails(TC_E_CONFLICT, tci_durable_begin_at_close(f->s, &tx, &f->err));
    ok(tc_durable_close(f->s, &f->err));
    ok(tc_durable_close(f->s, &f->err));
    assert_text(tci_buf_str(&t.text), "closed session_closed joined ");
    assert_true(tc_durable_is_closed(f->s));
    assert_false(tc_durable_failure(f->s, NULL));
    tc_str json = {0};
    tc_state *st = NULL;
    fails(TC_E_CLOSED, tc_durable_begin(f->s, NULL, &tx, &f->err));
    fails(TC_E_CLOSED, tc_durable_conversation(f->s, 1, f->r, &json, &f->err));
    fails(TC_E_CLOSED, tc_durable_snapshot(f->s, &addr, f->r, &json, &f->err));
    fails(TC_E_CLOSED, tc_durable_state(f->s, &addr, &st, &f->err));
    fails(TC_E_CLOSED, tc_durable_on_close(f->s, on_close, &t, &late, &f->err));
    fails(TC_E_CLOSED, tc_durable_on_commit(f->s, on_commit, &t, &late, &f->err));
    fails(TC_E_CLOSED, tci_durable_enter(f->s, &f->err));
    assert_false(tci_durable_has_line(f->s));
    tc_listener_remove(closed);
    tc_listener_remove(commits);
    tc_watch_free(t.stop_in_call);
    tci_buf_done(&t.text);
    if (!fixture_lasts(f))
        return;
    tc_durable_free(f->s);
    tc_durable_options options = {.size = sizeof options, .is_read_only = true};
    ok(tc_durable_open(tci_str(f->path), &options, &f->s, &f->err));
    tc_records records;
    ok(tc_durable_entries(f->s, 1, 0, 0, NULL, f->r, &records, &f->err));
    assert_int_equal(records.count, 1);
    fails(TC_E_DENIED, tc_durable_begin(f->s, NULL, &tx, &f->err));
    assert_text(snapshot(f, &notes, 1, ""), "{\"text\":\"a\"}");
}

/* ---- watches and states of other things ---- */

typedef struct thing {
    unsigned n, ngone;
    tci_json root;
} thing;

static int collapse(void *user, tci_buf *out, tc_err *err)
{
    const thing *g = user;
    tci_buf_printf(out, "[[\"r\",{\"n\":%u}]]", g->n);
    return tci_buf_error(out, err);
}

static void gone(void *user)
{
    ((thing *)user)->ngone++;
}

static const tc_json *thing_value(void *user)
{
    return &((thing *)user)->root;
}

static void other_things_are_watched_alike(void **state)
{
    fixture *f = *state;
    thing g = {.root = {.kind = TCI_JSON_TRUE}};
    tci_watch_source source = {&g, collapse, gone};
    tci_state_source value = {&g, thing_value, gone};
    tc_watch *w = NULL, *events = NULL;
    tc_state *st = NULL;
    ok(tci_durable_enter(f->s, &f->err));
    ok(tci_watch_new(f->s, S("{\"n\":0}"), &source, &w, &f->err));
    ok(tci_watch_new(f->s, S(""), &source, &events, &f->err));
    ok(tci_state_new(f->s, &value, &st, &f->err));
    for (g.n = 1; g.n <= 150; g.n++) {
        char ops[64];
        snprintf(ops, sizeof ops, "[[\"s\",[\"n\"],%u]]", g.n);
        ok(tci_watch_push(w, tci_str(ops), &f->err));
    }
    ok(tci_watch_push(events, S("[{\"type\":\"start\"}]"), &f->err));
    tci_watch_end(w, TC_WATCH_RETIRED, NULL);
    tci_durable_leave(f->s);
    next_is(f, w, "[[\"r\",{\"n\":101}]]", "{\"n\":101}");
    for (unsigned i = 0; i < 49; i++) {
        tc_frame frame;
        ok(tc_watch_next(w, NULL, &frame, &f->err));
    }
    next_is(f, w, "[[\"r\",null]]", "none");
    next_is(f, events, "[{\"type\":\"start\"}]", "none");
    assert_int_equal(g.ngone, 0);
    tc_watch_free(w);
    assert_int_equal(g.ngone, 1);
    ok(tc_durable_close(f->s, &f->err));
    assert_int_equal(g.ngone, 3);
    tc_str json = {0};
    ok(tc_state_value(st, f->r, &json, &f->err));
    assert_text(json, "true");
    tc_watch_free(events);
    tc_state_free(st);
    assert_int_equal(g.ngone, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        EACH_BACKEND(a_state_follows_its_commits),
        EACH_BACKEND(a_state_keeps_its_value_when_the_session_closes),
        IN_MEMORY(observers_may_be_freed_in_their_own_call),
        EACH_BACKEND(a_watch_gives_every_change),
        IN_MEMORY(a_slow_watcher_gets_one_replacement),
        EACH_BACKEND(observers_of_another_version_get_the_whole_value),
        EACH_BACKEND(a_started_watch_runs_on_a_thread_of_its_own),
        IN_MEMORY(a_watch_ends_for_a_reason),
        EACH_BACKEND(listeners_are_told_of_every_commit),
        EACH_BACKEND(closing_goes_in_its_order),
        IN_MEMORY(other_things_are_watched_alike),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
