/* SPDX-License-Identifier: Apache-2.0 */
#include "base/map.h"
#include "check.h"
#include <stdio.h>

enum { NITEMS = 5000 };

typedef struct item {
    char name[16];
    bool is_in;
} item;

static tc_str name_of(const item *it)
{
    return tci_str(it->name);
}

static item *items_new(void)
{
    item *items = tci_mem_array(NITEMS, sizeof *items);
    assert_non_null(items);
    for (int i = 0; i < NITEMS; i++)
        assert_true(snprintf(items[i].name, sizeof items[i].name, "item-%d", i) > 0);
    return items;
}

static void an_empty_map_answers(void **state)
{
    TCI_UNUSED(state);
    tci_map m;
    size_t at = 0;
    tci_map_init(&m, 1);
    assert_null(tci_map_get(&m, TC_STR("x")));
    assert_null(tci_map_remove(&m, TC_STR("x")));
    assert_null(tci_map_next(&m, &at));
    assert_null(m.slots);
    tci_map_done(&m);
}

static void what_was_put_is_found_until_removed(void **state)
{
    TCI_UNUSED(state);
    tci_map m;
    tc_err err;
    item *items = items_new();
    tci_map_init(&m, 42);
    for (int i = 0; i < NITEMS; i++)
        assert_int_equal(tci_map_put(&m, name_of(&items[i]), &items[i], &err), 0);
    assert_int_equal(m.nitems, NITEMS);
    assert_int_equal(tci_map_put(&m, name_of(&items[7]), &items[8], &err), TC_E_CONFLICT);
    for (int i = 0; i < NITEMS; i += 2)
        assert_ptr_equal(tci_map_remove(&m, name_of(&items[i])), &items[i]);
    for (int i = 0; i < NITEMS; i++)
        assert_ptr_equal(tci_map_get(&m, name_of(&items[i])), i % 2 == 0 ? NULL : &items[i]);
    assert_null(tci_map_remove(&m, name_of(&items[0])));
    assert_int_equal(m.nitems, NITEMS / 2);
    tci_map_done(&m);
    tci_mem_free(items);
}

static void the_empty_key_is_a_key(void **state)
{
    TCI_UNUSED(state);
    tci_map m;
    tc_err err;
    int value = 0;
    tci_map_init(&m, 0);
    assert_int_equal(tci_map_put(&m, tci_str_of(NULL, 0), &value, &err), 0);
    assert_ptr_equal(tci_map_get(&m, TC_STR("")), &value);
    tci_map_done(&m);
}

/* A window of live entries moves through many names: the table must neither grow nor lose one. */
static void coming_and_going_needs_no_more_room(void **state)
{
    TCI_UNUSED(state);
    enum { WINDOW = 100 };
    tci_map m;
    tc_err err;
    item *items = items_new();
    tci_map_init(&m, 7);
    size_t cap = 0;
    for (int i = 0; i < NITEMS * 4; i++) {
        item *in = &items[i % NITEMS];
        if (i >= WINDOW) {
            item *out = &items[(i - WINDOW) % NITEMS];
            assert_ptr_equal(tci_map_remove(&m, name_of(out)), out);
        }
        if (i == 10 * WINDOW) {
            cap = m.cap;
            tci_mem_fail_at(1); /* from here on cleaning must do without memory */
        }
        assert_int_equal(tci_map_put(&m, name_of(in), in, &err), 0);
        for (int k = 0; k < WINDOW && k <= i; k += 9) {
            item *live = &items[(i - k) % NITEMS];
            assert_ptr_equal(tci_map_get(&m, name_of(live)), live);
        }
    }
    tci_mem_fail_at(0);
    assert_int_equal(m.cap, cap);
    assert_true(m.nused <= m.cap / 4 * 3);
    tci_map_done(&m);
    tci_mem_free(items);
}

static void a_walk_sees_all_and_allows_removal(void **state)
{
    TCI_UNUSED(state);
    tci_map m;
    tc_err err;
    item *items = items_new();
    tci_map_init(&m, 3);
    for (int i = 0; i < NITEMS; i++) {
        assert_int_equal(tci_map_put(&m, name_of(&items[i]), &items[i], &err), 0);
        items[i].is_in = true;
    }
    size_t at = 0, nseen = 0;
    for (item *it; (it = tci_map_next(&m, &at)) != NULL; nseen++) {
        assert_true(it->is_in); /* once each */
        it->is_in = false;
        if (nseen % 3 != 0)
            assert_ptr_equal(tci_map_remove(&m, name_of(it)), it);
    }
    assert_int_equal(nseen, NITEMS);
    assert_int_equal(m.nitems, (NITEMS + 2) / 3);
    tci_map_done(&m);
    tci_mem_free(items);
}

static int fill_map(void *arg)
{
    item *items = arg;
    tci_map m;
    tc_err err;
    int rc = 0, n = 0;
    tci_map_init(&m, 9);
    while (n < 500 && (rc = tci_map_put(&m, name_of(&items[n]), &items[n], &err)) == 0)
        n++;
    for (int i = 0; i < n; i++) /* a failed put leaves the map whole */
        assert_ptr_equal(tci_map_get(&m, name_of(&items[i])), &items[i]);
    tci_map_done(&m);
    return rc;
}

static void every_failing_allocation_is_reported(void **state)
{
    TCI_UNUSED(state);
    item *items = items_new();
    assert_true(each_allocation_fails(fill_map, items) >= 5);
    tci_mem_free(items);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_map_answers),
        cmocka_unit_test(what_was_put_is_found_until_removed),
        cmocka_unit_test(the_empty_key_is_a_key),
        cmocka_unit_test(coming_and_going_needs_no_more_room),
        cmocka_unit_test(a_walk_sees_all_and_allows_removal),
        cmocka_unit_test(every_failing_allocation_is_reported),
    };
    return cmocka_run_group_tests_name("map", tests, NULL, NULL);
}
