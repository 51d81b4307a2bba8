/* SPDX-License-Identifier: Apache-2.0 */
#include "base/list.h"
#include "check.h"

typedef struct node {
    int value;
    tci_link link;
} node;

static void an_assertion_that_holds_costs_nothing_but_its_evaluation(void **state)
{
    TCI_UNUSED(state);
    int n = 0;
    TC_ASSERT(++n == 1);
    assert_int_equal(n, 1);
}

static void a_list_keeps_order_and_allows_removal_while_walking(void **state)
{
    TCI_UNUSED(state);
    tci_list l;
    node nodes[5] = {{0}};
    tci_list_init(&l);
    assert_true(tci_list_is_empty(&l));
    assert_null(tci_list_first(&l));
    assert_null(tci_list_pop_front(&l));
    for (int i = 0; i < 4; i++) {
        nodes[i].value = i;
        tci_list_push_back(&l, &nodes[i].link);
    }
    nodes[4].value = -1;
    tci_list_push_front(&l, &nodes[4].link);
    int expected = -1;
    TCI_LIST_EACH (&l, k) {
        assert_int_equal(TCI_CONTAINER(k, node, link)->value, expected);
        expected++;
        if (expected % 2 == 0)
            tci_link_remove(k);
    }
    assert_int_equal(expected, 4);
    assert_false(tci_link_is_in(&nodes[4].link) && tci_link_is_in(&nodes[1].link));
    tci_link_remove(&nodes[1].link); /* not linked: nothing happens */
    int left = 0;
    while (tci_list_pop_front(&l) != NULL)
        left++;
    assert_int_equal(left, 2);
    assert_true(tci_list_is_empty(&l));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_assertion_that_holds_costs_nothing_but_its_evaluation),
        cmocka_unit_test(a_list_keeps_order_and_allows_removal_while_walking),
    };
    return cmocka_run_group_tests_name("compiler", tests, NULL, NULL);
}
