/* SPDX-License-Identifier: Apache-2.0
 *
 * State envelopes: what is saved of an environment so that it can be found again. Pure; any thread.
 * Invariant: an envelope holds nothing but provider, version and device id, and one that holds more
 * is refused. */
#include "env/env.h"

#include "base/json.h"
#include "base/utf8.h"

#define STATE_VERSION TC_STR("1")
enum { DEVICE_ID_MAX = 256, ENVELOPE_MAX = 4096 };

static int check_device_id(tc_str id, tc_err *err)
{
    bool is_good = id.len > 0 && id.len <= DEVICE_ID_MAX && tci_utf8_is_valid(id);
    for (size_t i = 0; is_good && i < id.len; i++)
        is_good = (unsigned char)id.ptr[i] >= ' ' && id.ptr[i] != 0x7f;
    if (is_good && id.ptr[0] != ' ' && id.ptr[id.len - 1] != ' ')
        return 0;
    return tc_err_set(err, TC_E_INVALID, "a device id has 1 to %d bytes, none of them control",
                      DEVICE_ID_MAX);
}

int tc_env_state_make(tc_str provider_key, tc_str device_id, tc_result *r, tc_str *ret_json,
                      tc_err *err)
{
    int rc = check_device_id(device_id, err);
    if (rc < 0)
        return rc;
    tci_buf b;
    tci_buf_init(&b, ENVELOPE_MAX);
    tci_buf_append_str(&b, TC_STR("{\"provider_key\":"));
    tci_json_put_str(&b, provider_key);
    tci_buf_append_str(&b, TC_STR(",\"state\":{\"device_id\":"));
    tci_json_put_str(&b, device_id);
    tci_buf_append_str(&b, TC_STR("},\"state_version\":"));
    tci_json_put_str(&b, STATE_VERSION);
    tci_buf_append_byte(&b, '}');
    rc = tci_buf_error(&b, err);
    if (rc == 0)
        rc = tc_result_dup(r, tci_buf_str(&b), ret_json, err);
    tci_buf_done(&b);
    return rc;
}

static int text_member(const tci_json *object, tc_str name, tc_str *ret, tc_err *err)
{
    if (tci_json_as_str(tci_json_get(object, name), ret))
        return 0;
    return tc_err_set(err, TC_E_INVALID, "the state envelope has no text '%.*s'", TC_STR_ARG(name));
}

int tc_env_state_check(tc_str json, tc_str provider_key, tc_result *r, tc_str *ret_device_id,
                       tc_err *err)
{
    tci_json tree;
    tc_str key, version, id;
    if (json.len > ENVELOPE_MAX)
        return tc_err_set(err, TC_E_INVALID, "the state envelope is too long");
    tc_str copy;
    int rc = tc_result_dup(r, json, &copy, err);
    if (rc == 0)
        rc = tci_json_parse(copy, 0, tci_result_arena(r), &tree, err);
    if (rc < 0) {
        tc_err_wrap(err, "the state envelope");
        return rc;
    }
    const tci_json *state = tci_json_get(&tree, TC_STR("state"));
    if (tree.kind != TCI_JSON_OBJECT || tree.count != 3 || state == NULL ||
        state->kind != TCI_JSON_OBJECT || state->count != 1)
        return tc_err_set(err, TC_E_INVALID, "the state envelope has other members than it should");
    rc = text_member(&tree, TC_STR("provider_key"), &key, err);
    if (rc == 0)
        rc = text_member(&tree, TC_STR("state_version"), &version, err);
    if (rc == 0)
        rc = text_member(state, TC_STR("device_id"), &id, err);
    if (rc == 0)
        rc = check_device_id(id, err);
    if (rc < 0)
        return rc;
    if (!tci_str_eq(key, provider_key))
        return tc_err_set(err, TC_E_INCOMPATIBLE, "the state is of provider '%.*s', not '%.*s'",
                          TC_STR_ARG(key), TC_STR_ARG(provider_key));
    if (!tci_str_eq(version, STATE_VERSION))
        return tc_err_set(err, TC_E_INCOMPATIBLE, "state version '%.*s' is not known",
                          TC_STR_ARG(version));
    *ret_device_id = id;
    return 0;
}
