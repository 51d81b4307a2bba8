/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists of ids and maps from them, against plain arrays. */
#include "store/ids.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

enum { IDS = 500 };

static uint32_t next(uint32_t *state)
{
    *state = *state * 1664525 + 1013904223;
    return *state >> 8;
}

static void test_lists_and_maps(void **state)
{
    TCI_UNUSED(state);
    bool is_there[IDS + 1] = {false};
    tci_ids ids = {0};
    tci_id_map map = {0};
    tci_postings lists = {0};
    uint32_t seed = 7;
    tc_err err;
    for (int round = 0; round < 20000; round++) {
        uint64_t id = next(&seed) % IDS + 1;
        if (next(&seed) % 3 > 0) {
            assert_int_equal(tci_ids_add(&ids, id, &err), 0);
            assert_int_equal(tci_postings_add(&lists, (unsigned)id % 3, id % 7, id, &err), 0);
            *tci_id_map_put(&map, id) = (uintptr_t)id * 2;
            is_there[id] = true;
        } else {
            tci_ids_remove(&ids, id);
            tci_postings_remove(&lists, (unsigned)id % 3, id % 7, id);
            tci_id_map_remove(&map, id);
            is_there[id] = false;
        }
    }
    size_t n = 0;
    for (uint64_t id = 1; id <= IDS; id++) {
        const uintptr_t *value = tci_id_map_get(&map, id);
        const tci_ids *list = tci_postings_get(&lists, (unsigned)id % 3, id % 7);
        tci_id_view view = tci_ids_view(&ids), in = tci_ids_view(list);
        size_t at = tci_id_find(&in, id);
        assert_int_equal(value != NULL, is_there[id]);
        assert_int_equal(at < in.count && tci_id_at(&in, at) == id, is_there[id]);
        assert_int_equal(tci_id_find(&view, id), n);
        if (!is_there[id])
            continue;
        assert_int_equal(*value, id * 2);
        assert_int_equal(ids.at[n++], id);
    }
    assert_int_equal(ids.count, n);
    assert_int_equal(map.count, n);
    tci_ids_done(&ids);
    tci_id_map_done(&map);
    tci_postings_done(&lists);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_lists_and_maps)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
