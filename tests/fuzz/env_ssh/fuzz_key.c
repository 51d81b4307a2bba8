/* SPDX-License-Identifier: Apache-2.0
 *
 * Host key lines and targets from anybody: a line that is taken is taken again in the form it was
 * given, and means the same; a target that is taken passes its own check. */
#include "env/ssh/ssh_int.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tci_arena a;
    tc_err err;
    tc_ssh_key key, again;
    tc_str in = tci_str_of(data, size);
    tci_arena_init(&a, 0);
    if (tci_ssh_key_read(in, &a, &key, &err) == 0) {
        TC_ASSERT(tci_ssh_key_read(key.line, &a, &again, &err) == 0);
        TC_ASSERT(tci_str_eq(key.line, again.line) && tci_str_eq(key.alias, again.alias));
        TC_ASSERT(tci_str_eq(key.fingerprint, again.fingerprint));
        TC_ASSERT(tci_str_find_byte(key.line, '\n') == key.line.len);
        TC_ASSERT(tci_str_starts(key.fingerprint, TC_STR("SHA256:")) && key.fingerprint.len == 50);
    }
    tc_ssh_target t = {.size = sizeof t};
    if (tc_ssh_target_parse(in, &t, &err) == 0) {
        TC_ASSERT(tc_ssh_target_check(&t, &err) == 0);
        TC_ASSERT(t.host.len > 0 && t.host.ptr[0] != '-' && t.port <= 65535);
    }
    tci_arena_done(&a);
    return 0;
}
