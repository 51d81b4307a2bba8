/* SPDX-License-Identifier: Apache-2.0
 *
 * A line that is a schema and the rest a value. What is taken for arguments fits when it is checked again and
 * is not changed by that; structured output gets the same verdict twice; no schema makes it work
 * without end. */
#include "base/json_tree.h"
#include "harness/schema/validate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_arguments(tc_str schema, const tci_json *value, tci_arena *a)
{
    tc_str text, again;
    tci_json taken;
    tc_err err;
    bool is_valid = false, is_still = false;
    int rc = tci_validate_arguments(TC_STR("tool"), schema, value, a, &is_valid, &text, &err);
    TC_ASSERT(rc == 0 || rc == TC_E_PARSE || rc == TC_E_TOO_BIG);
    if (rc < 0 || !is_valid) {
        TC_ASSERT(rc < 0 || text.len > 0); /* why not */
        return;
    }
    TC_ASSERT(tci_json_parse(text, TCI_JSON_DURABLE, a, &taken, &err) == 0);
    TC_ASSERT(taken.kind == TCI_JSON_OBJECT);
    rc = tci_validate_arguments(TC_STR("tool"), schema, &taken, a, &is_still, &again, &err);
    TC_ASSERT(rc == TC_E_TOO_BIG || (rc == 0 && is_still));
}

static void check_output(tc_str schema, const tci_json *value, tci_arena *a)
{
    tc_str problem = {0}, same = {0};
    tc_err err;
    int rc = tci_validate_output(TC_STR("tool"), schema, value, false, a, &problem, &err);
    TC_ASSERT(rc == 0 || rc == TC_E_PARSE || rc == TC_E_TOO_BIG);
    int again = tci_validate_output(TC_STR("tool"), schema, value, true, a, &same, &err);
    TC_ASSERT(rc < 0 || (again == 0 && tci_str_eq(problem, same)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tc_str rest = tci_str_of(data, size), schema;
    tci_arena a;
    tci_json value;
    tc_err err;
    if (!tci_str_split(&rest, '\n', &schema) || rest.ptr == NULL)
        return 0;
    tci_arena_init(&a, 0);
    if (tci_json_parse(rest, TCI_JSON_DURABLE, &a, &value, &err) == 0) {
        check_arguments(schema, &value, &a);
        check_output(schema, &value, &a);
    }
    tci_arena_done(&a);
    return 0;
}
