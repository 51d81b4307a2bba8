/* SPDX-License-Identifier: Apache-2.0
 *
 * Delta operations: read, applied, written. */
#include "store/delta.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

typedef struct rig {
    tci_arena a;
    tci_tree tree;
    tc_err err;
} rig;

static rig rig_of(const char *value)
{
    rig r = {.tree = TCI_TREE_NONE};
    tci_arena_init(&r.a, 0);
    assert_int_equal(tci_tree_parse(tci_str(value), TCI_JSON_KEEP_SURROGATES, &r.tree, &r.err), 0);
    return r;
}

static void rig_done(rig *r)
{
    tci_tree_done(&r->tree);
    tci_arena_done(&r->a);
}

static void is(rig *r, const char *expected)
{
    tci_buf b;
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_json_put(&b, &r->tree.root, TCI_JSON_AS_IS);
    if (!tci_str_eq(tci_buf_str(&b), tci_str(expected)))
        fail_msg("got %.*s, expected %s", TC_STR_ARG(tci_buf_str(&b)), expected);
    tci_buf_done(&b);
}

static void leads(const char *value, const char *ops, const char *expected)
{
    rig r = rig_of(value);
    if (tci_delta_apply(&r.tree, tci_str(ops), &r.a, &r.err) < 0)
        fail_msg("%s: %s", ops, r.err.msg);
    is(&r, expected);
    rig_done(&r);
}

static void test_each_operation(void **state)
{
    TCI_UNUSED(state);
    leads("{\"a\":1}", "[]", "{\"a\":1}");
    leads("{\"a\":1}", "[[\"r\",{\"b\":[1.50,-0,1e400,9007199254740993]}]]",
          "{\"b\":[1.50,-0,1e400,9007199254740993]}");
    leads("{\"run\":1}", "[[\"s\",[\"generation\"],{\"attempt\":1}]]",
          "{\"run\":1,\"generation\":{\"attempt\":1}}");
    leads("{\"tools\":[{\"status\":\"pending\"}]}",
          "[[\"s\",[\"tools\",0,\"status\"],\"running\"]]",
          "{\"tools\":[{\"status\":\"running\"}]}");
    leads("{\"a\":1,\"b\":2}", "[[\"d\",[\"a\"]],[\"d\",[\"none\"]]]", "{\"b\":2}");
    leads("{\"l\":[1,2,3]}", "[[\"d\",[\"l\",1]]]", "{\"l\":[1,3]}");
    leads("{\"t\":\"hi\"}", "[[\"a\",[\"t\"],\" there\"]]", "{\"t\":\"hi there\"}");
    leads("{\"t\":\"\xc3\xa9xyz\"}", "[[\"t\",[\"t\"],2]]", "{\"t\":\"yz\"}");
    leads("{\"items\":[]}", "[[\"p\",[\"items\"],0,0,[{\"id\":10}]]]", "{\"items\":[{\"id\":10}]}");
    leads("{\"items\":[{\"id\":10}]}", "[[\"p\",[\"items\"],0,1,[]]]", "{\"items\":[]}");
    leads("{\"l\":[\"a\",\"b\",\"c\"]}", "[[\"m\",[\"l\"],[2,0,1]]]",
          "{\"l\":[\"c\",\"a\",\"b\"]}");
    leads("[1]", "[[\"p\",[],1,0,[2,3]],[\"m\",[],[2,1,0]]]", "[3,2,1]");
    /* each sees what the one before has done */
    leads("{}", "[[\"s\",[\"a\"],[]],[\"p\",[\"a\"],0,0,[\"x\"]],[\"a\",[\"a\",0],\"y\"]]",
          "{\"a\":[\"xy\"]}");
}

static void test_bad_operations(void **state)
{
    TCI_UNUSED(state);
    static const char *const bad[] = {
        "{}",
        "[1]",
        "[[]]",
        "[[1]]",
        "[[\"x\",[\"a\"]]]",
        "[[\"ss\",[\"a\"],1]]",
        "[[\"r\"]]",
        "[[\"r\",1,2]]",
        "[[\"s\",[\"a\"]]]",
        "[[\"s\",[],1]]",
        "[[\"d\",[]]]",
        "[[\"a\",[],\"x\"]]",
        "[[\"t\",[],1]]",
        "[[\"s\",\"a\",1]]",
        "[[\"s\",[null],1]]",
        "[[\"s\",[-1],1]]",
        "[[\"s\",[1.0],1]]",
        "[[\"s\",[true],1]]",
        "[[\"s\",[\"__proto__\"],1]]",
        "[[\"d\",[\"a\",\"constructor\"]]]",
        "[[\"p\",[\"prototype\"],0,0,[]]]",
        "[[\"a\",[\"a\"],1]]",
        "[[\"t\",[\"a\"],\"1\"]]",
        "[[\"t\",[\"a\"],-1]]",
        "[[\"t\",[\"a\"],1.5]]",
        "[[\"p\",[\"a\"],0,0]]",
        "[[\"p\",[\"a\"],0,-1,[]]]",
        "[[\"p\",[\"a\"],\"0\",0,[]]]",
        "[[\"p\",[\"a\"],0,0,{}]]",
        "[[\"m\",[\"a\"],[0,0]]]",
        "[[\"m\",[\"a\"],[1]]]",
        "[[\"m\",[\"a\"],[-1]]]",
        "[[\"m\",[\"a\"],{}]]",
    };
    for (size_t i = 0; i < TCI_ARRAY_LEN(bad); i++) {
        rig r = rig_of("{\"a\":\"x\"}");
        if (tci_delta_check(tci_str(bad[i]), &r.a, &r.err) != TC_E_INVALID)
            fail_msg("%s passes", bad[i]);
        assert_int_equal(tci_delta_apply(&r.tree, tci_str(bad[i]), &r.a, &r.err), TC_E_INVALID);
        is(&r, "{\"a\":\"x\"}");
        rig_done(&r);
    }
}

static void test_all_or_nothing(void **state)
{
    TCI_UNUSED(state);
    static const char *const unfit[] = {
        "[\"a\",[\"n\"],\"x\"]",    "[\"t\",[\"s\"],9]", "[\"s\",[\"l\",9],1]",
        "[\"s\",[\"no\",\"a\"],1]", "[\"d\",[\"l\",3]]", "[\"p\",[\"s\"],0,0,[]]",
        "[\"m\",[\"l\"],[0]]",      "[\"s\",[0],1]",     "[\"p\",[\"l\"],9,0,[1]]",
    };
    const char *value = "{\"n\":1,\"s\":\"text\",\"l\":[1,2,3]}";
    for (size_t i = 0; i < TCI_ARRAY_LEN(unfit); i++) {
        tci_buf b;
        rig r = rig_of(value);
        tci_buf_init(&b, TCI_BUF_MAX);
        tci_buf_printf(
            &b,
            "[[\"s\",[\"new\"],1],[\"a\",[\"s\"],\"more\"],[\"d\",[\"l\",0]],[\"d\",[\"n\"]],"
            "[\"s\",[\"n\"],2],%s,[\"r\",{}]]",
            unfit[i]);
        if (tci_delta_apply(&r.tree, tci_buf_str(&b), &r.a, &r.err) != TC_E_INVALID)
            fail_msg("%s fits", unfit[i]);
        assert_non_null(strstr(r.err.msg, "operation 5"));
        is(&r, value);
        tci_buf_done(&b);
        rig_done(&r);
    }
}

static void test_written_as_read(void **state)
{
    TCI_UNUSED(state);
    static const char text[] =
        "[[\"r\",{\"a\":[1.50,null]}],[\"s\",[\"a\",0,\"b\"],\"\\ud800\"],[\"d\",[\"x\"]],"
        "[\"a\",[\"t\"],\"\\n\"],[\"t\",[\"t\"],18446744073709551615],[\"p\",[],0,2,[{}]],"
        "[\"m\",[\"l\"],[1,0]],[\"m\",[],[]]]";
    rig r = rig_of("null");
    tci_json v;
    tci_op *ops;
    size_t nops;
    tci_buf b;
    assert_int_equal(tci_json_parse(tci_str(text), TCI_JSON_KEEP_SURROGATES, &r.a, &v, &r.err), 0);
    assert_int_equal(tci_ops_of(&v, &r.a, &ops, &nops, &r.err), 0);
    assert_int_equal(nops, 8);
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_ops_put(&b, ops, nops);
    assert_true(tci_str_eq(tci_buf_str(&b), tci_str(text)));
    tci_buf_done(&b);
    rig_done(&r);
}

static void test_memory_runs_out(void **state)
{
    TCI_UNUSED(state);
    const char *ops =
        "[[\"s\",[\"a\",0],{\"b\":\"c\"}],[\"a\",[\"t\"],\"xyz\"],[\"p\",[\"a\"],0,1,[1,2]],"
        "[\"m\",[\"a\"],[1,0]],[\"d\",[\"t\"]]]";
    for (size_t n = 1;; n++) {
        rig r = rig_of("{\"a\":[1],\"t\":\"\"}");
        tci_mem_fail_at(n);
        int rc = tci_delta_apply(&r.tree, tci_str(ops), &r.a, &r.err);
        bool was_reached = tci_mem_count() >= n;
        tci_mem_fail_at(0);
        is(&r, was_reached ? "{\"a\":[1],\"t\":\"\"}" : "{\"a\":[2,1]}");
        rig_done(&r);
        assert_int_equal(rc, was_reached ? TC_E_NO_MEMORY : 0);
        if (!was_reached)
            break;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_operation),  cmocka_unit_test(test_bad_operations),
        cmocka_unit_test(test_all_or_nothing),  cmocka_unit_test(test_written_as_read),
        cmocka_unit_test(test_memory_runs_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
