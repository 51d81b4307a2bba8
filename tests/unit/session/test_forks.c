/* SPDX-License-Identifier: Apache-2.0 */
#include "fixture.h"

static const tc_doc_def as_of = {.size = sizeof(tc_doc_def),
                                 .kind = "test.as-of",
                                 .version = 1,
                                 .scope = TC_SCOPE_CONVERSATION,
                                 .history = TC_HISTORY_REWINDABLE,
                                 .fork = TC_FORK_AS_OF,
                                 .checkpoint_when = tc_checkpoint_never};
static const tc_doc_def current = {.size = sizeof(tc_doc_def),
                                   .kind = "test.current",
                                   .version = 1,
                                   .scope = TC_SCOPE_CONVERSATION,
                                   .fork = TC_FORK_CURRENT};
static const tc_doc_def initial = {.size = sizeof(tc_doc_def),
                                   .kind = "test.initial",
                                   .version = 1,
                                   .scope = TC_SCOPE_CONVERSATION};

static void set_all(fixture *f, uint64_t conversation, const char *n)
{
    set_doc(f, &as_of, conversation, "/n", n);
    set_doc(f, &current, conversation, "/n", n);
    set_doc(f, &initial, conversation, "/n", n);
}

static uint64_t fork_at(fixture *f, uint64_t parent, uint64_t at)
{
    uint64_t child = 0;
    tc_tx *tx = begin(f);
    ok(tc_tx_fork_conversation(tx, parent, at, 0, &child, &f->err));
    commit(f, tx);
    return child;
}

static void a_fork_sees_entries_up_to_its_point(void **state)
{
    fixture *f = *state;
    make_root(f);
    uint64_t first = say(f, 1, "first"), second = say(f, 1, "second");
    uint64_t child = fork_at(f, 1, first);
    uint64_t own = say(f, child, "own");
    fixture_reopen(f);
    tc_str json = {0};
    tc_records records;
    tc_page page = {.order = TC_ORDER_ASCENDING};
    ok(tc_durable_entries(f->s, child, 0, 0, &page, f->r, &records, &f->err));
    assert_int_equal(records.count, 2);
    ok(tc_durable_entry(f->s, child, first, f->r, &json, &f->err));
    assert_true(json.len > 0);
    ok(tc_durable_entry(f->s, child, second, f->r, &json, &f->err));
    assert_int_equal(json.len, 0);
    ok(tc_durable_entry(f->s, 1, own, f->r, &json, &f->err));
    assert_int_equal(json.len, 0);
    tc_tx *tx = begin(f);
    uint64_t id = 0;
    fails(TC_E_NOT_FOUND, tc_tx_fork_conversation(tx, child, second, 0, &id, &f->err));
    assert_says(f, "is not visible from conversation");
    tc_tx_rollback(tx);
    tx = begin(f);
    fails(TC_E_NOT_FOUND, tc_tx_fork_conversation(tx, 777, second, 0, &id, &f->err));
    fails(TC_E_CONFLICT, tc_tx_commit(tx, &f->err)); /* broken: it may not half happen */
    assert_false(tc_durable_failure(f->s, NULL));
}

static void documents_are_copied_as_their_policies_say(void **state)
{
    fixture *f = *state;
    make_root(f);
    set_all(f, 1, "1");
    uint64_t point = say(f, 1, "point");
    set_all(f, 1, "2");
    uint64_t child = fork_at(f, 1, point);
    set_all(f, 1, "3");
    for (unsigned i = 0; i < 2; i++) {
        assert_text(snapshot(f, &as_of, child, ""), "{\"n\":1}");
        assert_text(snapshot(f, &current, child, ""), "{\"n\":2}");
        assert_int_equal(snapshot(f, &initial, child, "").len, 0);
        fixture_reopen(f);
    }
    set_doc(f, &as_of, child, "/n", "9");
    assert_text(snapshot(f, &as_of, 1, ""), "{\"n\":3}");
    /* of a grandchild that forks in what its parent inherited: as of the one that holds the entry */
    uint64_t grandchild = fork_at(f, child, point);
    assert_text(snapshot(f, &as_of, grandchild, ""), "{\"n\":1}");
    assert_text(snapshot(f, &current, grandchild, ""), "{\"n\":2}");
}

static void a_copy_can_be_changed_where_it_is_made(void **state)
{
    fixture *f = *state;
    make_root(f);
    set_all(f, 1, "1");
    uint64_t point = say(f, 1, "point"), child = 0;
    tc_doc *doc = NULL;
    const tc_json *value = NULL;
    tc_tx *tx = begin(f);
    ok(tc_tx_fork_conversation(tx, 1, point, 0, &child, &f->err));
    ok(tc_tx_doc_value(tx, &current, child, S(""), &value, &f->err));
    assert_non_null(tc_json_get(value, S("n")));
    ok(tc_tx_doc(tx, &as_of, child, S(""), S(""), &doc, &f->err));
    assert_true(tc_doc_is_new(doc));
    ok(tc_doc_set(doc, S("/m"), S("2"), &f->err));
    ok(tc_tx_retire_doc(tx, &current, child, S(""), &f->err));
    commit(f, tx);
    fixture_reopen(f);
    assert_text(snapshot(f, &as_of, child, ""), "{\"n\":1,\"m\":2}");
    assert_int_equal(snapshot(f, &current, child, "").len, 0);
    assert_text(snapshot(f, &current, 1, ""), "{\"n\":1}");
}

static void what_is_copied_does_not_change_meanwhile(void **state)
{
    fixture *f = *state;
    make_root(f);
    set_all(f, 1, "1");
    uint64_t point = say(f, 1, "point"), child = 0;
    const tc_doc_def *copied[] = {&as_of, &current};
    for (size_t i = 0; i < TCI_ARRAY_LEN(copied); i++)
        for (unsigned retire = 0; retire < 2; retire++) {
            tc_doc *doc = NULL;
            tc_tx *tx = begin(f);
            ok(tc_tx_fork_conversation(tx, 1, point, 0, &child, &f->err));
            if (retire)
                ok(tc_tx_retire_doc(tx, copied[i], 1, S(""), &f->err));
            else {
                ok(tc_tx_doc(tx, copied[i], 1, S(""), S(""), &doc, &f->err));
                ok(tc_doc_set(doc, S("/n"), S("2"), &f->err));
            }
            fails(TC_E_CONFLICT, tc_tx_commit(tx, &f->err));
        }
    tc_doc *doc = NULL;
    tc_tx *tx = begin(f); /* looked at, not changed; and one that is not copied */
    ok(tc_tx_fork_conversation(tx, 1, point, 0, &child, &f->err));
    ok(tc_tx_doc(tx, &current, 1, S(""), S(""), &doc, &f->err));
    ok(tc_tx_doc(tx, &initial, 1, S(""), S(""), &doc, &f->err));
    ok(tc_doc_set(doc, S("/n"), S("2"), &f->err));
    commit(f, tx);
    assert_text(snapshot(f, &initial, 1, ""), "{\"n\":2}");
}

static void values_are_read_as_of_an_entry(void **state)
{
    fixture *f = *state;
    make_root(f);
    uint64_t before = say(f, 1, "before");
    set_doc(f, &as_of, 1, "/n", "1");
    uint64_t one = say(f, 1, "one");
    uint64_t both = 0;
    tc_doc *doc = NULL;
    tc_tx *tx = begin(f);
    ok(tc_tx_append_entry(tx, 1, S("{\"kind\":\"a\"}"), &both, &f->err));
    ok(tc_tx_doc(tx, &as_of, 1, S(""), S(""), &doc, &f->err));
    ok(tc_doc_set(doc, S("/n"), S("2"), &f->err));
    commit(f, tx);
    set_doc(f, &as_of, 1, "/n", "3");
    uint64_t child = fork_at(f, 1, both);
    set_doc(f, &as_of, child, "/n", "4");
    fixture_reopen(f);
    tc_doc_addr addr = {&as_of, 1, S("")}, in_child = {&as_of, child, S("")};
    tc_str json = {0};
    ok(tc_durable_snapshot_as_of(f->s, &addr, before, f->r, &json, &f->err));
    assert_int_equal(json.len, 0);
    ok(tc_durable_snapshot_as_of(f->s, &addr, one, f->r, &json, &f->err));
    assert_text(json, "{\"n\":1}");
    ok(tc_durable_snapshot_as_of(f->s, &addr, both, f->r, &json, &f->err));
    assert_text(json, "{\"n\":2}");
    ok(tc_durable_snapshot_as_of(f->s, &in_child, one, f->r, &json, &f->err));
    assert_text(json, "{\"n\":1}");
    fails(TC_E_NOT_FOUND, tc_durable_snapshot_as_of(f->s, &addr, 999, f->r, &json, &f->err));
    addr.def = &current;
    fails(TC_E_UNSUPPORTED, tc_durable_snapshot_as_of(f->s, &addr, one, f->r, &json, &f->err));
    assert_false(tc_durable_failure(f->s, NULL));
}

static int make_live(void *user, tc_tx *tx, const tci_conversation *c, tc_err *err)
{
    fixture *f = user;
    tc_doc *doc = NULL;
    if (f->now_ms == 0)
        return tc_err_set(err, TC_E_INVALID, "not today");
    return tc_tx_doc(tx, &initial, c->id, S(""), S(""), &doc, err);
}

static void a_hook_completes_every_conversation(void **state)
{
    fixture *f = *state;
    tci_durable_hooks hooks = {.user = f, .conversation_created = make_live};
    tci_durable_set_hooks(f->s, &hooks);
    make_root(f);
    uint64_t point = say(f, 1, "x"), child = 0;
    assert_text(snapshot(f, &initial, 1, ""), "{}");
    assert_text(snapshot(f, &initial, fork_at(f, 1, point), ""), "{}");
    int64_t now = f->now_ms;
    f->now_ms = 0;
    tc_tx *tx = begin(f);
    fails(TC_E_INVALID, tc_tx_create_conversation(tx, 0, &child, &f->err));
    fails(TC_E_CONFLICT, tc_tx_commit(tx, &f->err));
    f->now_ms = now;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        EACH_BACKEND(a_fork_sees_entries_up_to_its_point),
        EACH_BACKEND(documents_are_copied_as_their_policies_say),
        EACH_BACKEND(a_copy_can_be_changed_where_it_is_made),
        EACH_BACKEND(what_is_copied_does_not_change_meanwhile),
        EACH_BACKEND(values_are_read_as_of_an_entry),
        EACH_BACKEND(a_hook_completes_every_conversation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
