/* SPDX-License-Identifier: Apache-2.0
 *
 * Values that change in place: what each change does, that it can be taken back, that a change which
 * fails changed nothing; equality, editing objects, and text in ASCII. */
#include "base/json_tree.h"
#include "check.h"

static tci_tree tree(const char *text)
{
    tci_tree t;
    tc_err err;
    assert_int_equal(tci_tree_parse(tci_str(text), TCI_JSON_KEEP_SURROGATES, &t, &err), 0);
    return t;
}

static void assert_tree(const tci_tree *t, const char *expected)
{
    tci_buf b;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_json_put(&b, &t->root, TCI_JSON_AS_IS);
    assert_text(tci_buf_str(&b), expected);
    tci_buf_done(&b);
}

/* One change named by a letter, at a JSON pointer. Returns its code. */
typedef struct change {
    char op;
    const char *pointer, *value;
    size_t index, count;
} change;

static int apply(tci_tree *t, const change *c, tci_undo *undo)
{
    tci_arena a;
    tc_err err;
    tci_step *path;
    size_t n, order[8];
    tci_json v = {.kind = TCI_JSON_ARRAY};
    tci_arena_init(&a, 0);
    if (c->value != NULL && c->op != 'a')
        assert_int_equal(tci_json_parse(tci_str(c->value), TCI_JSON_KEEP_SURROGATES, &a, &v, &err),
                         0);
    int rc = tci_json_pointer(tci_str(c->pointer), &t->root, &a, &path, &n, &err);
    assert_int_equal(rc, 0);
    switch (c->op) {
    case 's':
        rc = tci_tree_set(t, path, n, &v, undo, &err);
        break;
    case 'd':
        rc = tci_tree_delete(t, path, n, undo, &err);
        break;
    case 'a':
        rc = tci_tree_append(t, path, n, tci_str(c->value), undo, &err);
        break;
    case 't':
        rc = tci_tree_trim(t, path, n, c->count, undo, &err);
        break;
    case 'p':
        rc = tci_tree_splice(t, path, n, c->index, c->count, &v, undo, &err);
        break;
    default:
        for (uint32_t i = 0; i < v.count; i++) {
            uint64_t at;
            assert_true(tci_json_as_u64(&v.u.items[i], &at));
            order[i] = at;
        }
        rc = tci_tree_reorder(t, path, n, order, v.count, undo, &err);
    }
    tci_arena_done(&a);
    return rc;
}

static const char start[] = "{\"a\":[1,2,3],\"s\":\"\xc3\xa9xy\",\"o\":{\"k\":null,\"l\":true}}";

static const struct {
    change c;
    const char *after; /* NULL: refused */
} changes[] = {
    {{'s', "/new", "{\"x\":[]}", 0, 0},
     "{\"a\":[1,2,3],\"s\":\"\xc3\xa9xy\",\"o\":{\"k\":null,\"l\":true},\"new\":{\"x\":[]}}"},
    {{'s', "/a/1", "\"two\"", 0, 0},
     "{\"a\":[1,\"two\",3],\"s\":\"\xc3\xa9xy\",\"o\":{\"k\":null,\"l\":true}}"},
    {{'s', "", "{}", 0, 0}, "{}"},
    {{'s', "/a/3", "4", 0, 0}, NULL},
    {{'s', "/none/x", "4", 0, 0}, NULL},
    {{'d', "/o/k", NULL, 0, 0}, "{\"a\":[1,2,3],\"s\":\"\xc3\xa9xy\",\"o\":{\"l\":true}}"},
    {{'d', "/o/none", NULL, 0, 0}, start},
    {{'d', "/a/0", NULL, 0, 0}, "{\"a\":[2,3],\"s\":\"\xc3\xa9xy\",\"o\":{\"k\":null,\"l\":true}}"},
    {{'d', "/a/3", NULL, 0, 0}, NULL},
    {{'d', "", NULL, 0, 0}, NULL},
    {{'a', "/s", "z\xe2\x82\xac", 0, 0},
     "{\"a\":[1,2,3],\"s\":\"\xc3\xa9xyz\xe2\x82\xac\",\"o\":{\"k\":null,\"l\":true}}"},
    {{'a', "/a", "z", 0, 0}, NULL},
    {{'t', "/s", NULL, 0, 2}, "{\"a\":[1,2,3],\"s\":\"y\",\"o\":{\"k\":null,\"l\":true}}"},
    {{'t', "/s", NULL, 0, 3}, "{\"a\":[1,2,3],\"s\":\"\",\"o\":{\"k\":null,\"l\":true}}"},
    {{'t', "/s", NULL, 0, 4}, NULL},
    {{'p', "/a", "[7,8,9,10]", 1, 1},
     "{\"a\":[1,7,8,9,10,3],\"s\":\"\xc3\xa9xy\",\"o\":{\"k\":null,\"l\":true}}"},
    {{'p', "/a", "[]", 0, 3}, "{\"a\":[],\"s\":\"\xc3\xa9xy\",\"o\":{\"k\":null,\"l\":true}}"},
    {{'p', "/a", "[4]", 3, 0},
     "{\"a\":[1,2,3,4],\"s\":\"\xc3\xa9xy\",\"o\":{\"k\":null,\"l\":true}}"},
    {{'p', "/a", "[4]", 4, 0}, NULL},
    {{'p', "/a", "[4]", 2, 2}, NULL},
    {{'p', "/o", "[4]", 0, 0}, NULL},
    {{'m', "/a", "[2,0,1]", 0, 0},
     "{\"a\":[3,1,2],\"s\":\"\xc3\xa9xy\",\"o\":{\"k\":null,\"l\":true}}"},
    {{'m', "/a", "[0,0,1]", 0, 0}, NULL},
    {{'m', "/a", "[0,1]", 0, 0}, NULL},
};
enum { NCHANGES = sizeof changes / sizeof changes[0] };

static void changes_do_what_they_say_and_can_be_taken_back(void **state)
{
    (void)state;
    for (size_t i = 0; i < NCHANGES; i++) {
        tci_tree t = tree(start);
        tci_undo undo = {0};
        int rc = apply(&t, &changes[i].c, &undo);
        assert_int_equal(rc, changes[i].after != NULL ? 0 : TC_E_INVALID);
        assert_tree(&t, changes[i].after != NULL ? changes[i].after : start);
        tci_tree_undo(&t, &undo);
        assert_tree(&t, start);
        rc = apply(&t, &changes[i].c, NULL);
        assert_int_equal(rc, changes[i].after != NULL ? 0 : TC_E_INVALID);
        tci_tree_done(&t);
    }
}

/* A small generator, so that runs are alike. */
static uint32_t next(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

static void any_series_of_changes_can_be_taken_back(void **state)
{
    (void)state;
    uint32_t seed = 7;
    for (int round = 0; round < 300; round++) {
        tci_tree t = tree(start);
        tci_undo undo = {0};
        for (int i = 0; i < 12; i++)
            (void)apply(&t, &changes[next(&seed) % NCHANGES].c, &undo); /* some are refused */
        tci_tree_undo(&t, &undo);
        assert_tree(&t, start);
        tci_tree_done(&t);
    }
}

static int change_all(void *arg)
{
    const tci_tree *unchanged = arg;
    tci_tree t;
    tc_err err;
    tci_undo undo = {0};
    if (tci_tree_parse(tci_str(start), 0, &t, &err) < 0)
        return err.code;
    int rc = 0;
    static const tci_step a = {.key = {"a", 1}}, s = {.key = {"s", 1}}, n = {.key = {"n", 1}};
    tci_json two[2] = {{.kind = TCI_JSON_NULL}, {.kind = TCI_JSON_STRING, .u.text = {"x", 1}}};
    tci_json list = {.kind = TCI_JSON_ARRAY, .count = 2, .u.items = two};
    size_t order[5] = {4, 3, 2, 1, 0};
    rc = tci_tree_splice(&t, &a, 1, 1, 0, &list, &undo, &err);
    if (rc == 0)
        rc = tci_tree_reorder(&t, &a, 1, order, 5, &undo, &err);
    if (rc == 0)
        rc = tci_tree_append(&t, &s, 1, TC_STR("a longer text than before"), &undo, &err);
    if (rc == 0)
        rc = tci_tree_trim(&t, &s, 1, 2, &undo, &err);
    if (rc == 0)
        rc = tci_tree_set(&t, &n, 1, &list, &undo, &err);
    if (rc == 0)
        rc = tci_tree_delete(&t, &s, 1, &undo, &err);
    tci_tree_undo(&t, &undo);
    assert_true(tci_json_equal(&t.root, &unchanged->root));
    tci_tree_done(&t);
    return rc;
}

static void no_memory_changes_nothing(void **state)
{
    (void)state;
    tci_tree unchanged = tree(start);
    assert_true(each_allocation_fails(change_all, &unchanged) > 10);
    tci_tree_done(&unchanged);
}

static void pointers_are_those_of_rfc_6901(void **state)
{
    (void)state;
    tci_tree t = tree("{\"a/b\":{\"~\":[{\"\":5}]},\"0\":1,\"01\":2}");
    static const struct {
        const char *pointer;
        bool is_there;
    } cases[] = {{"", true},      {"/a~1b/~0/0/", true},  {"/0", true},         {"/01", true},
                 {"/a/b", false}, {"/a~1b/~0/00", false}, {"/a~1b/~0/1", false}};
    tci_arena a;
    tc_err err;
    tci_step *path;
    size_t n;
    tci_arena_init(&a, 0);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(tci_json_pointer(tci_str(cases[i].pointer), &t.root, &a, &path, &n, &err),
                         0);
        assert_int_equal(tci_json_at(&t.root, path, n) != NULL, cases[i].is_there);
    }
    assert_int_equal(tci_json_pointer(TC_STR("a"), &t.root, &a, &path, &n, &err), TC_E_INVALID);
    assert_int_equal(tci_json_pointer(TC_STR("/~2"), &t.root, &a, &path, &n, &err), TC_E_INVALID);
    tci_arena_done(&a);
    tci_tree_done(&t);
}

static void equality_is_by_value(void **state)
{
    (void)state;
    static const struct {
        const char *a, *b;
        bool are_equal;
    } cases[] = {
        {"0", "0.0", true},
        {"0", "-0", true},
        {"1e2", "100", true},
        {"9007199254740993", "9007199254740992", false},
        {"true", "1", false},
        {"null", "null", true},
        {"{\"a\":1,\"b\":[2]}", "{\"b\":[2.0],\"a\":1}", true},
        {"{\"a\":1}", "{\"b\":1}", false},
        {"[1,2]", "[2,1]", false},
        {"\"\\ud800\"", "\"\\udc00\"", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tci_tree a = tree(cases[i].a), b = tree(cases[i].b);
        assert_int_equal(tci_json_equal(&a.root, &b.root), cases[i].are_equal);
        tci_tree_done(&a);
        tci_tree_done(&b);
    }
}

static void editing_keeps_what_it_does_not_know(void **state)
{
    (void)state;
    tci_tree t = tree("{\"id\":1,\"future\":{\"n\":1e400},\"gone\":2,\"state\":\"old\"}");
    tci_json_change edits[] = {{TC_STR("state"), TC_STR("\"new\"")},
                               {TC_STR("gone"), {NULL, 0}},
                               {TC_STR("added"), TC_STR("[]")},
                               {TC_STR("absent"), {NULL, 0}}};
    tci_buf b;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_json_edit(&b, &t.root, edits, 4);
    assert_text(tci_buf_str(&b),
                "{\"id\":1,\"future\":{\"n\":1e400},\"state\":\"new\",\"added\":[]}");
    tci_buf_done(&b);
    tci_tree_done(&t);
}

static void ascii_text_is_the_ports(void **state)
{
    (void)state;
    tci_tree t = tree("\"\xf0\x9f\x98\x80\\ud800 \xc3\xa9\x7f/\\n\\u0001\\\"\"");
    tci_buf b;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_json_put_ascii(&b, t.root.u.text);
    assert_text(tci_buf_str(&b), "\"\\ud83d\\ude00\\ud800 \\u00e9\\u007f/\\n\\u0001\\\"\"");
    tci_buf_done(&b);
    tci_tree_done(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(changes_do_what_they_say_and_can_be_taken_back),
        cmocka_unit_test(any_series_of_changes_can_be_taken_back),
        cmocka_unit_test(no_memory_changes_nothing),
        cmocka_unit_test(pointers_are_those_of_rfc_6901),
        cmocka_unit_test(equality_is_by_value),
        cmocka_unit_test(editing_keeps_what_it_does_not_know),
        cmocka_unit_test(ascii_text_is_the_ports),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
