/* SPDX-License-Identifier: Apache-2.0 */
#include "faulty_store.h"
#include "fixture.h"

#include <stdio.h>

static bool never(void *user, const tc_doc_change *change)
{
    TCI_UNUSED(user);
    TCI_UNUSED(change);
    return false;
}

static const tc_doc_def notes = {.size = sizeof(tc_doc_def),
                                 .kind = "test.notes",
                                 .version = 1,
                                 .scope = TC_SCOPE_CONVERSATION,
                                 .initial_json = "{\"text\":\"\",\"items\":[]}",
                                 .checkpoint_when = never};
static const tc_doc_def whole = {
    .size = sizeof(tc_doc_def), .kind = "test.whole", .version = 1, .scope = TC_SCOPE_SESSION};

static tc_doc *open_doc(fixture *f, tc_tx *tx, const tc_doc_def *def, uint64_t owner)
{
    tc_doc *doc = NULL;
    ok(tc_tx_doc(tx, def, owner, S(""), S(""), &doc, &f->err));
    return doc;
}

static void every_change_is_kept(void **state)
{
    fixture *f = *state;
    make_root(f);
    tc_tx *tx = begin(f);
    tc_doc *d = open_doc(f, tx, &notes, 1);
    assert_true(tc_doc_is_new(d));
    ok(tc_doc_append(d, S("/text"), S("one"), &f->err));
    commit(f, tx);
    tx = begin(f);
    d = open_doc(f, tx, &notes, 1);
    assert_false(tc_doc_is_new(d));
    assert_ptr_equal(d, open_doc(f, tx, &notes, 1));
    ok(tc_doc_append(d, S("/text"), S(" two"), &f->err));
    ok(tc_doc_set(d, S("/items/-"), S("{\"a\":1}"), &f->err));
    ok(tc_doc_set(d, S("/items/-"), S("2"), &f->err));
    ok(tc_doc_splice(d, S("/items"), 1, 0, S("[\"x\",\"y\"]"), &f->err));
    ok(tc_doc_set(d, S("/items/0/b~1c"), S("[9007199254740993,-0,1e400]"), &f->err));
    ok(tc_doc_delete(d, S("/items/1"), &f->err));
    ok(tc_doc_delete(d, S("/not-there"), &f->err));
    ok(tc_doc_trim(d, S("/text"), 4, &f->err));
    ok(tc_doc_reorder(d, S("/items"), (const size_t[]){2, 0, 1}, 3, &f->err));
    static const char *const want =
        "{\"text\":\"two\",\"items\":[2,{\"a\":1,\"b/c\":[9007199254740993,-0,1e400]},\"y\"]}";
    commit(f, tx);
    assert_text(snapshot(f, &notes, 1, ""), want);
    fixture_reopen(f);
    assert_text(snapshot(f, &notes, 1, ""), want);
    set_doc(f, &notes, 1, "", "{\"new\":true}");
    fixture_reopen(f);
    assert_text(snapshot(f, &notes, 1, ""), "{\"new\":true}");
}

static void a_rollback_takes_every_change_back(void **state)
{
    fixture *f = *state;
    make_root(f);
    set_doc(f, &notes, 1, "", "{\"text\":\"abcdef\",\"items\":[1,[2],{\"k\":\"v\"}],\"z\":0}");
    tc_tx *tx = begin(f);
    tc_doc *d = open_doc(f, tx, &notes, 1);
    ok(tc_doc_append(d, S("/text"), S("ghi"), &f->err));
    ok(tc_doc_trim(d, S("/text"), 2, &f->err));
    ok(tc_doc_set(d, S("/items/2/k"), S("\"other\""), &f->err));
    ok(tc_doc_splice(d, S("/items"), 0, 2, S("[7,8,9]"), &f->err));
    ok(tc_doc_delete(d, S("/z"), &f->err));
    ok(tc_doc_set(d, S("/y"), S("{}"), &f->err));
    ok(tc_doc_replace(d, S("{\"text\":\"\"}"), &f->err));
    ok(tc_doc_append(d, S("/text"), S("more"), &f->err));
    tc_tx_rollback(tx);
    assert_text(snapshot(f, &notes, 1, ""),
                "{\"text\":\"abcdef\",\"items\":[1,[2],{\"k\":\"v\"}],\"z\":0}");
    tx = begin(f); /* a new one leaves nothing either */
    (void)open_doc(f, tx, &whole, 0);
    tc_tx_rollback(tx);
    assert_int_equal(snapshot(f, &whole, 0, "").len, 0);
}

static void a_refused_commit_takes_changes_back_too(void **state)
{
    fixture *f = *state;
    make_root(f);
    set_doc(f, &notes, 1, "/text", "\"kept\"");
    tc_tx *tx = begin(f);
    ok(tc_doc_append(open_doc(f, tx, &notes, 1), S("/text"), S(" lost"), &f->err));
    ok(tc_tx_place_submission(tx, 99, 1, &f->err));
    fails(TC_E_NOT_FOUND, tc_tx_commit(tx, &f->err));
    assert_text(snapshot(f, &notes, 1, ""), "{\"text\":\"kept\",\"items\":[]}");
}

static void bad_changes_change_nothing(void **state)
{
    fixture *f = *state;
    make_root(f);
    tc_tx *tx = begin(f);
    tc_doc *d = open_doc(f, tx, &notes, 1);
    fails(TC_E_INVALID, tc_doc_set(d, S("text"), S("1"), &f->err));
    fails(TC_E_INVALID, tc_doc_set(d, S("/none/deep"), S("1"), &f->err));
    fails(TC_E_INVALID, tc_doc_set(d, S("/items/0"), S("1"), &f->err));
    fails(TC_E_INVALID, tc_doc_set(d, S("/text"), S("{"), &f->err));
    fails(TC_E_INVALID, tc_doc_set(d, S("/__proto__"), S("1"), &f->err));
    fails(TC_E_INVALID, tc_doc_set(d, S("/\xff"), S("1"), &f->err)); /* nor could it be stored */
    fails(TC_E_INVALID, tc_doc_set(d, S(""), S("[]"), &f->err));
    fails(TC_E_INVALID, tc_doc_append(d, S("/items"), S("x"), &f->err));
    fails(TC_E_INVALID, tc_doc_append(d, S("/text"), S("\xff"), &f->err));
    fails(TC_E_INVALID, tc_doc_trim(d, S("/text"), 1, &f->err));
    fails(TC_E_INVALID, tc_doc_splice(d, S("/items"), 1, 0, S("[]"), &f->err));
    fails(TC_E_INVALID, tc_doc_splice(d, S("/items"), 0, 0, S("1"), &f->err));
    fails(TC_E_INVALID, tc_doc_splice(d, S("/text"), 0, 0, S("[]"), &f->err));
    fails(TC_E_INVALID, tc_doc_delete(d, S("/items/0"), &f->err));
    fails(TC_E_INVALID, tc_doc_delete(d, S(""), &f->err));
    fails(TC_E_INVALID, tc_doc_reorder(d, S("/items"), (const size_t[]){0}, 1, &f->err));
    fails(TC_E_INVALID, tc_doc_replace(d, S("null"), &f->err));
    commit(f, tx);
    assert_text(snapshot(f, &notes, 1, ""), "{\"text\":\"\",\"items\":[]}");
}

static void the_same_address_is_the_same_document(void **state)
{
    fixture *f = *state;
    static const tc_doc_def family = {.size = sizeof(tc_doc_def),
                                      .kind = "test.family",
                                      .version = 1,
                                      .scope = TC_SCOPE_CONVERSATION,
                                      .is_family = true};
    make_root(f);
    static const char *const keys[] = {"", "a", "__proto__", "constructor", "a/b"};
    tc_tx *tx = begin(f);
    for (size_t i = 0; i < TCI_ARRAY_LEN(keys); i++) {
        tc_doc *doc = NULL;
        char value[32];
        snprintf(value, sizeof value, "%zu", i);
        ok(tc_tx_doc(tx, &family, 1, S(keys[i]), S(""), &doc, &f->err));
        ok(tc_doc_set(doc, S("/n"), tci_str(value), &f->err));
    }
    commit(f, tx);
    fixture_reopen(f);
    for (size_t i = 0; i < TCI_ARRAY_LEN(keys); i++) {
        char want[32];
        snprintf(want, sizeof want, "{\"n\":%zu}", i);
        assert_text(snapshot(f, &family, 1, keys[i]), want);
    }
    assert_int_equal(snapshot(f, &family, 1, "b").len, 0);
    tc_records records;
    ok(tc_durable_documents(f->s, TC_SCOPE_CONVERSATION, 1, S("test.family"), NULL, f->r, &records,
                            &f->err));
    assert_int_equal(records.count, TCI_ARRAY_LEN(keys));
}

static void definitions_and_owners_are_checked(void **state)
{
    fixture *f = *state;
    make_root(f);
    tc_doc *doc = NULL;
    tc_tx *tx = begin(f);
    fails(TC_E_NOT_FOUND, tc_tx_doc(tx, &notes, 9, S(""), S(""), &doc, &f->err));
    fails(TC_E_INVALID, tc_tx_doc(tx, &notes, 0, S(""), S(""), &doc, &f->err));
    fails(TC_E_INVALID, tc_tx_doc(tx, &whole, 1, S(""), S(""), &doc, &f->err));
    tc_doc_def bad = notes;
    bad.fork = TC_FORK_AS_OF;
    fails(TC_E_INVALID, tc_tx_doc(tx, &bad, 1, S(""), S(""), &doc, &f->err));
    bad = whole;
    bad.history = TC_HISTORY_REWINDABLE;
    fails(TC_E_INVALID, tc_tx_doc(tx, &bad, 0, S(""), S(""), &doc, &f->err));
    bad = whole;
    bad.initial_json = "[]";
    fails(TC_E_INVALID, tc_tx_doc(tx, &bad, 0, S(""), S(""), &doc, &f->err));
    (void)open_doc(f, tx, &notes, 1);
    commit(f, tx);
    tc_doc_def other = notes; /* stored as latest */
    other.history = TC_HISTORY_REWINDABLE;
    tx = begin(f);
    fails(TC_E_INVALID, tc_tx_doc(tx, &other, 1, S(""), S(""), &doc, &f->err));
    tc_tx_rollback(tx);
    fixture_reopen(f);
    tx = begin(f);
    fails(TC_E_INVALID, tc_tx_doc(tx, &other, 1, S(""), S(""), &doc, &f->err));
    fails(TC_E_INVALID, tc_tx_retire_doc(tx, &other, 1, S(""), &f->err));
    tc_tx_rollback(tx);
}

/* ---- a seed ---- */

static int initial_of(void *user, tc_str seed, tc_result *r, tc_str *ret_json, tc_err *err)
{
    TCI_UNUSED(user);
    if (seed.len == 0)
        return tc_err_set(err, TC_E_INVALID, "no seed was given");
    tci_buf b;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_buf_printf(&b, "{\"seed\":%.*s}", TC_STR_ARG(seed));
    int rc = tc_result_dup(r, tci_buf_str(&b), ret_json, err);
    tci_buf_done(&b);
    return rc;
}

static void a_seed_makes_the_first_value(void **state)
{
    fixture *f = *state;
    static const tc_doc_def seeded = {.size = sizeof(tc_doc_def),
                                      .kind = "test.seeded",
                                      .version = 1,
                                      .scope = TC_SCOPE_SESSION,
                                      .is_family = true,
                                      .initial = initial_of};
    tc_doc *doc = NULL;
    tc_tx *tx = begin(f);
    fails(TC_E_INVALID, tc_tx_doc(tx, &seeded, 0, S("k"), S(""), &doc, &f->err));
    ok(tc_tx_doc(tx, &seeded, 0, S("k"), S("[1]"), &doc, &f->err));
    ok(tc_tx_doc(tx, &seeded, 0, S("k"), S("[2]"), &doc, &f->err));
    commit(f, tx);
    assert_text(snapshot(f, &seeded, 0, "k"), "{\"seed\":[1]}");
}

/* ---- retiring ---- */

static void a_retired_document_makes_room_for_another(void **state)
{
    fixture *f = *state;
    make_root(f);
    set_doc(f, &notes, 1, "/text", "\"old\"");
    tc_doc *d = NULL;
    const tc_json *value = NULL;
    tc_tx *tx = begin(f);
    ok(tc_tx_retire_doc(tx, &notes, 1, S(""), &f->err));
    ok(tc_tx_doc_value(tx, &notes, 1, S(""), &value, &f->err));
    assert_null(value);
    d = open_doc(f, tx, &notes, 1);
    assert_true(tc_doc_is_new(d));
    ok(tc_doc_set(d, S("/text"), S("\"new\""), &f->err));
    commit(f, tx);
    assert_text(snapshot(f, &notes, 1, ""), "{\"text\":\"new\",\"items\":[]}");
    fixture_reopen(f);
    assert_text(snapshot(f, &notes, 1, ""), "{\"text\":\"new\",\"items\":[]}");

    tx = begin(f); /* drafted, then retired */
    d = open_doc(f, tx, &notes, 1);
    ok(tc_doc_append(d, S("/text"), S("er"), &f->err));
    ok(tc_tx_retire_doc(tx, &notes, 1, S(""), &f->err));
    fails(TC_E_CONFLICT, tc_doc_append(d, S("/text"), S("x"), &f->err));
    ok(tc_tx_retire_doc(tx, &notes, 1, S(""), &f->err));
    commit(f, tx);
    assert_int_equal(snapshot(f, &notes, 1, "").len, 0);
    tx = begin(f); /* made and retired at once; one that is not there */
    (void)open_doc(f, tx, &notes, 1);
    ok(tc_tx_retire_doc(tx, &notes, 1, S(""), &f->err));
    ok(tc_tx_retire_doc(tx, &whole, 0, S(""), &f->err));
    commit(f, tx);
    assert_int_equal(snapshot(f, &notes, 1, "").len, 0);
    fixture_reopen(f);
    assert_int_equal(snapshot(f, &notes, 1, "").len, 0);
}

static const tc_doc_def of_task = {.size = sizeof(tc_doc_def),
                                   .kind = "test.of-task",
                                   .version = 1,
                                   .scope = TC_SCOPE_TASK,
                                   .is_family = true};

static void documents_end_with_their_task(void **state)
{
    fixture *f = *state;
    make_root(f);
    uint64_t task = make_task(f, 1);
    tc_doc *doc = NULL;
    tc_tx *tx = begin(f);
    ok(tc_tx_doc(tx, &of_task, task, S("a"), S(""), &doc, &f->err));
    ok(tc_tx_doc(tx, &of_task, task, S("b"), S(""), &doc, &f->err));
    commit(f, tx);
    fixture_reopen(f);
    assert_text(snapshot(f, &of_task, task, "a"), "{}");
    tx = begin(f);
    ok(tc_tx_doc(tx, &of_task, task, S("b"), S(""), &doc, &f->err));
    ok(tc_doc_set(doc, S("/last"), S("1"), &f->err));
    ok(tc_tx_doc(tx, &of_task, task, S("c"), S(""), &doc, &f->err));
    put_task_state(f, tx, task,
                   "{\"status\":\"terminal\",\"outcome\":{\"status\":\"completed\",\"result\":1}}");
    fails(TC_E_CONFLICT, tc_tx_doc(tx, &of_task, task, S("d"), S(""), &doc, &f->err));
    commit(f, tx);
    for (const char *key = "abc"; *key != 0; key++)
        assert_int_equal(snapshot(f, &of_task, task, (char[]){*key, 0}).len, 0);
    tx = begin(f);
    fails(TC_E_CONFLICT, tc_tx_doc(tx, &of_task, task, S("d"), S(""), &doc, &f->err));
    fails(TC_E_NOT_FOUND, tc_tx_doc(tx, &of_task, 999, S("d"), S(""), &doc, &f->err));
    tc_tx_rollback(tx);
    tc_records records;
    ok(tc_durable_documents(f->s, TC_SCOPE_TASK, task, S(""), NULL, f->r, &records, &f->err));
    assert_int_equal(records.count, 0);
}

/* ---- versions ---- */

static int migrate(void *user, const tc_json *value, uint64_t from_version, tc_result *r,
                   tc_str *ret_json, tc_err *err)
{
    unsigned *ncalls = user;
    ++*ncalls;
    tc_str text;
    if (tc_json_text(value, r, &text, err) < 0)
        return err->code;
    tci_buf b;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_buf_printf(&b, "{\"from\":%u,\"old\":%.*s,\"text\":\"\"}", (unsigned)from_version,
                   TC_STR_ARG(text));
    int rc = tc_result_dup(r, tci_buf_str(&b), ret_json, err);
    tci_buf_done(&b);
    return rc;
}

static void older_values_migrate_when_they_are_looked_at(void **state)
{
    fixture *f = *state;
    make_root(f);
    unsigned ncalls = 0;
    tc_doc_def newer = notes;
    newer.version = 3;
    set_doc(f, &notes, 1, "/text", "\"first\"");
    fixture_reopen(f);
    tc_doc_addr addr = {&newer, 1, S("")};
    tc_str json = {0};
    fails(TC_E_INCOMPATIBLE, tc_durable_snapshot(f->s, &addr, f->r, &json, &f->err));
    newer.migrate = migrate;
    newer.user = &ncalls;
    static const char *const migrated =
        "{\"from\":1,\"old\":{\"text\":\"first\",\"items\":[]},\"text\":\"\"}";
    assert_text(snapshot(f, &newer, 1, ""), migrated);
    assert_text(snapshot(f, &newer, 1, ""), migrated);
    assert_int_equal(ncalls, 1);
    /* reading stored nothing */
    assert_text(snapshot(f, &notes, 1, ""), "{\"text\":\"first\",\"items\":[]}");
    tc_tx *tx = begin(f); /* no change of ours, and yet stored: acquired for changes */
    tc_doc *d = open_doc(f, tx, &newer, 1);
    ok(tc_doc_append(d, S("/text"), S("x"), &f->err));
    commit(f, tx);
    fixture_reopen(f);
    assert_text(snapshot(f, &newer, 1, ""),
                "{\"from\":1,\"old\":{\"text\":\"first\",\"items\":[]},\"text\":\"x\"}");
    addr.def = &notes;
    fails(TC_E_INCOMPATIBLE, tc_durable_snapshot(f->s, &addr, f->r, &json, &f->err));
    tx = begin(f);
    fails(TC_E_INCOMPATIBLE, tc_tx_doc(tx, &notes, 1, S(""), S(""), &d, &f->err));
    tc_tx_rollback(tx);
}

/* ---- what is written ---- */

typedef struct seen {
    fixture f;
    faulty what;
} seen;

static void open_seen(seen *t)
{
    fixture *f = &t->f;
    memset(t, 0, sizeof *t);
    f->backend = "memory";
    tci_store *inner = NULL;
    ok(tci_store_open_memory(&inner, &f->err));
    ok(tc_result_new(&f->r, &f->err));
    ok(tci_durable_open_store(faulty_store(inner, &t->what), NULL, &f->s, &f->err));
}

static void close_seen(seen *t)
{
    tc_durable_free(t->f.s);
    tc_result_free(t->f.r);
}

static void changes_are_stored_as_they_were_made(void **state)
{
    TCI_UNUSED(state);
    seen t;
    open_seen(&t);
    fixture *f = &t.f;
    make_root(f);
    set_doc(f, &notes, 1, "/text", "\"a\"");
    assert_string_equal(t.what.last, "create test.notes {\"text\":\"a\",\"items\":[]}\n");
    tc_tx *tx = begin(f);
    tc_doc *d = open_doc(f, tx, &notes, 1);
    ok(tc_doc_append(d, S("/text"), S("bc"), &f->err));
    ok(tc_doc_set(d, S("/items/-"), S("{\"k\":[ 1 ]}"), &f->err));
    ok(tc_doc_set(d, S("/items/0/k/0"), S("2"), &f->err));
    ok(tc_doc_trim(d, S("/text"), 1, &f->err));
    ok(tc_doc_delete(d, S("/items"), &f->err));
    commit(f, tx);
    assert_string_equal(
        t.what.last, "delta v1 [[\"a\",[\"text\"],\"bc\"],[\"p\",[\"items\"],0,0,[{\"k\":[1]}]],"
                     "[\"s\",[\"items\",0,\"k\",0],2],[\"t\",[\"text\"],1],[\"d\",[\"items\"]]]\n");
    /* a longer text than before is an append; an equal value is nothing */
    unsigned ncommits = t.what.ncommits;
    set_doc(f, &notes, 1, "/text", "\"bc\"");
    assert_int_equal(t.what.ncommits, ncommits);
    set_doc(f, &notes, 1, "/text", "\"bcd\"");
    assert_string_equal(t.what.last, "delta v1 [[\"a\",[\"text\"],\"d\"]]\n");
    /* outside the BMP readers count differently: the whole text */
    set_doc(f, &notes, 1, "/text", "\"\\ud83d\\ude00xyz\"");
    tx = begin(f);
    ok(tc_doc_trim(open_doc(f, tx, &notes, 1), S("/text"), 4, &f->err));
    commit(f, tx);
    assert_string_equal(t.what.last, "delta v1 [[\"s\",[\"text\"],\"xyz\"]]\n");
    tx = begin(f);
    d = open_doc(f, tx, &notes, 1);
    ok(tc_doc_set(d, S("/gone"), S("1"), &f->err));
    ok(tc_doc_replace(d, S("{\"n\":1}"), &f->err));
    ok(tc_doc_set(d, S("/n"), S("2"), &f->err));
    commit(f, tx);
    assert_string_equal(t.what.last, "delta v1 [[\"r\",{\"n\":2}]]\n");
    close_seen(&t);
}

static void more_operations_than_the_budget_are_one(void **state)
{
    TCI_UNUSED(state);
    seen t;
    open_seen(&t);
    fixture *f = &t.f;
    make_root(f);
    set_doc(f, &notes, 1, "", "{\"n\":0}");
    for (unsigned nops = 4096; nops <= 4097; nops++) {
        tc_tx *tx = begin(f);
        tc_doc *d = open_doc(f, tx, &notes, 1);
        for (unsigned i = 0; i < nops; i++) {
            char value[16];
            snprintf(value, sizeof value, "%u", i + nops);
            ok(tc_doc_set(d, S("/n"), tci_str(value), &f->err));
        }
        commit(f, tx);
        assert_true(tci_str_starts(tci_str(t.what.last), nops == 4096
                                                             ? S("delta v1 [[\"s\",[\"n\"],4096],[")
                                                             : S("delta")));
    }
    assert_string_equal(t.what.last, "delta v1 [[\"r\",{\"n\":8193}]]\n");
    close_seen(&t);
}

static bool every_third(void *user, const tc_doc_change *change)
{
    fixture *f = user;
    tc_str text;
    const tc_json *ops = NULL;
    ok(tc_json_parse(f->r, change->ops, &ops, &f->err));
    assert_int_equal(tc_json_count(ops), change->nops);
    assert_true(tc_json_as_str(tc_json_get(change->value, S("text")), &text));
    return change->deltas_since_base >= 2;
}

static void the_definition_decides_about_bases(void **state)
{
    TCI_UNUSED(state);
    seen t;
    open_seen(&t);
    fixture *f = &t.f;
    make_root(f);
    tc_doc_def third = notes;
    third.checkpoint_when = every_third;
    third.user = f;
    set_doc(f, &third, 1, "/items/-", "0");
    static const char *const want[] = {"delta", "delta", "base v1 {",
                                       "delta", "delta", "base v1 {"};
    for (size_t i = 0; i < TCI_ARRAY_LEN(want); i++) {
        set_doc(f, &third, 1, "/items/-", "1");
        assert_true(tci_str_starts(tci_str(t.what.last), tci_str(want[i])));
    }
    set_doc(f, &whole, 0, "/a", "1");
    set_doc(f, &whole, 0, "/b", "2");
    assert_string_equal(t.what.last, "base v1 {\"a\":1,\"b\":2}\n"); /* without a rule: always */
    unsigned ncalls = 0;
    tc_doc_def newer = third; /* a new version is a base, whatever the rule says */
    newer.version = 2;
    newer.migrate = migrate;
    newer.user = &ncalls;
    newer.checkpoint_when = never;
    tc_tx *tx = begin(f);
    (void)open_doc(f, tx, &newer, 1);
    commit(f, tx);
    assert_true(tci_str_starts(tci_str(t.what.last), S("base v2 {\"from\":1")));
    close_seen(&t);
}

static void a_batch_is_written_in_its_order(void **state)
{
    TCI_UNUSED(state);
    seen t;
    open_seen(&t);
    fixture *f = &t.f;
    make_root(f);
    uint64_t ended = make_task(f, 1), id = 0, entry = 0;
    tc_doc *doc = NULL;
    tc_tx *tx = begin(f);
    ok(tc_tx_doc(tx, &of_task, ended, S("x"), S(""), &doc, &f->err));
    commit(f, tx);

    tx = begin(f);
    doc = open_doc(f, tx, &notes, 1);
    put_task_state(f, tx, ended,
                   "{\"status\":\"terminal\",\"outcome\":{\"status\":\"completed\",\"result\":1}}");
    ok(tc_tx_create_submission(tx, 1, S("{\"type\":\"write\",\"status\":\"queued\"}"), &id,
                               &f->err));
    ok(tc_tx_append_entry(tx, 1, S("{\"kind\":\"a\"}"), &entry, &f->err));
    ok(tc_tx_create_conversation(tx, 0, &id, &f->err));
    ok(tc_tx_append_entry(tx, id, S("{\"kind\":\"b\"}"), &entry, &f->err));
    (void)open_doc(f, tx, &whole, 0);
    commit(f, tx);
    static const char *const want[] = {
        "entry {", "conversation {",    "entry {",           "submission {",
        "task {",  "create test.notes", "create test.whole", "retire test.of-task"};
    tc_str rest = tci_str(t.what.last), line;
    for (size_t i = 0; i < TCI_ARRAY_LEN(want); i++) {
        assert_true(tci_str_split(&rest, '\n', &line));
        assert_true(tci_str_starts(line, tci_str(want[i])));
    }
    assert_int_equal(rest.len, 0);
    close_seen(&t);
}

static void lazy_commits_say_so(void **state)
{
    TCI_UNUSED(state);
    seen t;
    open_seen(&t);
    fixture *f = &t.f;
    make_root(f);
    assert_int_equal(t.what.how, TCI_COMMIT_SYNCED);
    tc_tx *tx = begin(f);
    uint64_t seq = 0;
    (void)open_doc(f, tx, &notes, 1);
    ok(tci_tx_commit(tx, TCI_TX_LAZY, &seq, &f->err));
    assert_int_equal(t.what.how, TCI_COMMIT_LAZY);
    assert_int_equal(seq, 2);
    assert_int_equal(tc_durable_seq(f->s), 2);
    close_seen(&t);
}

/* ---- in memory ---- */

static void documents_not_retained_are_read_again(void **state)
{
    fixture *f = *state;
    tc_durable_options options = {.size = sizeof options,
                                  .document_retention_ms = TC_RETAIN_NOTHING};
    make_root(f);
    set_doc(f, &notes, 1, "/text", "\"kept\"");
    if (fixture_lasts(f)) {
        tc_durable_free(f->s);
        f->s = NULL;
        ok(tc_durable_open(tci_str(f->path), &options, &f->s, &f->err));
    }
    for (unsigned i = 0; i < 3; i++)
        assert_text(snapshot(f, &notes, 1, ""), "{\"text\":\"kept\",\"items\":[]}");
    set_doc(f, &notes, 1, "/text", "\"kept too\"");
    assert_text(snapshot(f, &notes, 1, ""), "{\"text\":\"kept too\",\"items\":[]}");
}

static void a_lone_surrogate_is_kept(void **state)
{
    fixture *f = *state;
    make_root(f);
    set_doc(f, &notes, 1, "/text", "\"\\ud800\"");
    tc_tx *tx = begin(f);
    ok(tc_doc_append(open_doc(f, tx, &notes, 1), S("/text"), S("x\xed\xb0\x80"), &f->err));
    commit(f, tx);
    fixture_reopen(f);
    assert_text(snapshot(f, &notes, 1, ""), "{\"text\":\"\\ud800x\\udc00\",\"items\":[]}");
}

/* Numbers above 2^53 that a double would not tell apart are different values. */
static void case_84_numbers_keep_their_digits(void **state)
{
    fixture *f = *state;
    make_root(f);
    set_doc(f, &notes, 1, "/n", "9007199254740992");
    set_doc(f, &notes, 1, "/n", "9007199254740993");
    set_doc(f, &notes, 1, "/m", "[-0,1e400,0.10000000000000000001]");
    fixture_reopen(f);
    assert_text(snapshot(f, &notes, 1, ""),
                "{\"text\":\"\",\"items\":[],\"n\":9007199254740993,\"m\":[-0,1e400,"
                "0.10000000000000000001]}");
}

static void readers_on_the_line_see_the_draft(void **state)
{
    fixture *f = *state;
    make_root(f);
    set_doc(f, &notes, 1, "/text", "\"a\"");
    tc_tx *tx = begin(f);
    tc_doc *d = open_doc(f, tx, &notes, 1);
    ok(tc_doc_append(d, S("/text"), S("b"), &f->err));
    assert_text(snapshot(f, &notes, 1, ""), "{\"text\":\"ab\",\"items\":[]}");
    ok(tc_doc_set(open_doc(f, tx, &whole, 0), S("/x"), S("1"), &f->err));
    assert_text(snapshot(f, &whole, 0, ""), "{\"x\":1}");
    ok(tc_tx_retire_doc(tx, &notes, 1, S(""), &f->err));
    assert_int_equal(snapshot(f, &notes, 1, "").len, 0);
    tc_tx_rollback(tx);
    assert_text(snapshot(f, &notes, 1, ""), "{\"text\":\"a\",\"items\":[]}");
    assert_int_equal(snapshot(f, &whole, 0, "").len, 0);
}

/* ---- any changes at all ---- */

static uint32_t random_next(uint32_t *seed, uint32_t n)
{
    *seed = *seed * 1664525 + 1013904223;
    return (*seed >> 8) % n;
}

static const char *random_value(uint32_t *seed)
{
    static const char *const values[] = {"1",
                                         "-0",
                                         "\"text\"",
                                         "\"\\u00e9\\ud83d\\ude00\\n\"",
                                         "[]",
                                         "[1,[2,3],{\"k\":\"v\"}]",
                                         "{\"b\":{\"c\":[\"x\",\"yy\"]},\"d\":\"deep\"}",
                                         "null",
                                         "true",
                                         "9007199254740993"};
    return values[random_next(seed, TCI_ARRAY_LEN(values))];
}

static int random_change(tc_doc *d, uint32_t *seed, tc_err *err)
{
    static const char *const places[] = {
        "/a",       "/b",   "/text",  "/items",         "/items/0", "/items/1",
        "/items/-", "/b/c", "/b/c/1", "/items/0/b/c/0", "/b/d",     "/z~0"};
    tc_str at = S(places[random_next(seed, TCI_ARRAY_LEN(places))]);
    static const char *const more[] = {"x", " and more", "\xc3\xa9", "\xf0\x9f\x98\x80"};
    switch (random_next(seed, 8)) {
    case 0:
    case 1:
        return tc_doc_set(d, at, S(random_value(seed)), err);
    case 2:
        return tc_doc_delete(d, at, err);
    case 3:
        return tc_doc_append(d, at, S(more[random_next(seed, TCI_ARRAY_LEN(more))]), err);
    case 4:
        return tc_doc_trim(d, at, random_next(seed, 4), err);
    case 5:
        return tc_doc_splice(d, at, random_next(seed, 3), random_next(seed, 2),
                             S("[\"s\",{\"t\":\"u\"}]"), err);
    case 6:
        return tc_doc_reorder(d, at, (const size_t[]){1, 0}, 2, err);
    default:
        if (random_next(seed, 10) > 0)
            return tc_doc_set(d, S("/text"), S("\"again\""), err);
        return tc_doc_replace(d, S("{\"text\":\"\",\"items\":[\"p\",\"q\"],\"b\":{}}"), err);
    }
}

static void check_value(fixture *f, const tc_json *v, const char *want)
{
    tc_str text = {0};
    ok(tc_json_text(v, f->r, &text, &f->err));
    assert_text(text, want);
}

static void any_changes_are_kept_and_taken_back(void **state)
{
    fixture *f = *state;
    uint32_t seed = 7;
    make_root(f);
    set_doc(f, &notes, 1, "/text", "\"a\"");
    tci_buf want;
    tci_buf_init(&want, TCI_BUF_MAX);
    tci_buf_append_str(&want, snapshot(f, &notes, 1, ""));
    tci_buf_append_byte(&want, 0);
    tc_doc_addr addr = {&notes, 1, S("")};
    tc_watch *w = NULL;
    for (unsigned round = 0; round < 400; round++) {
        if (round % 50 == 0) {
            tc_watch_free(w);
            fixture_reopen(f);
            ok(tc_durable_watch(f->s, &addr, &w, &f->err));
        }
        tc_tx *tx = begin(f);
        tc_doc *d = open_doc(f, tx, &notes, 1);
        tc_err refused;
        for (unsigned i = random_next(&seed, 8); i > 0; i--)
            (void)random_change(d, &seed, &refused); /* many are of the wrong kind */
        if (random_next(&seed, 3) == 0)
            tc_tx_rollback(tx);
        else {
            tci_buf_clear(&want);
            tci_json_put(&want, tc_doc_value(d), TCI_JSON_AS_IS);
            tci_buf_append_byte(&want, 0);
            uint64_t seq = 0;
            ok(tci_tx_commit(tx, TCI_TX_SYNCED, &seq, &f->err));
            tc_frame frame;
            if (seq != 0)
                ok(tc_watch_next(w, NULL, &frame, &f->err));
            check_value(f, tc_watch_value(w), want.ptr);
        }
        assert_text(snapshot(f, &notes, 1, ""), want.ptr);
        tc_result_clear(f->r);
    }
    tc_watch_free(w);
    fixture_reopen(f);
    assert_text(snapshot(f, &notes, 1, ""), want.ptr);
    tci_buf_done(&want);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        EACH_BACKEND(every_change_is_kept),
        EACH_BACKEND(a_rollback_takes_every_change_back),
        EACH_BACKEND(a_refused_commit_takes_changes_back_too),
        EACH_BACKEND(bad_changes_change_nothing),
        EACH_BACKEND(the_same_address_is_the_same_document),
        EACH_BACKEND(definitions_and_owners_are_checked),
        EACH_BACKEND(a_seed_makes_the_first_value),
        EACH_BACKEND(a_retired_document_makes_room_for_another),
        EACH_BACKEND(documents_end_with_their_task),
        EACH_BACKEND(older_values_migrate_when_they_are_looked_at),
        cmocka_unit_test(changes_are_stored_as_they_were_made),
        cmocka_unit_test(more_operations_than_the_budget_are_one),
        cmocka_unit_test(the_definition_decides_about_bases),
        cmocka_unit_test(a_batch_is_written_in_its_order),
        cmocka_unit_test(lazy_commits_say_so),
        EACH_BACKEND(documents_not_retained_are_read_again),
        EACH_BACKEND(a_lone_surrogate_is_kept),
        EACH_BACKEND(case_84_numbers_keep_their_digits),
        EACH_BACKEND(readers_on_the_line_see_the_draft),
        EACH_BACKEND(any_changes_are_kept_and_taken_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
