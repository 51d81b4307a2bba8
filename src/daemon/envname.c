/* SPDX-License-Identifier: Apache-2.0
 *
 * See envname.h. Pure; any thread. */
#include "daemon/envname.h"

bool tci_envname_is_valid(tc_str name)
{
    if (name.len == 0 || (name.ptr[0] >= '0' && name.ptr[0] <= '9'))
        return false;
    for (size_t i = 0; i < name.len; i++) {
        char c = name.ptr[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              c == '_'))
            return false;
    }
    return true;
}

bool tci_envname_is_reserved(tc_str name)
{
    static const tc_str prefixes[] = {{"A13N_ENVD_", 10}, {"EIP_", 4}, {"TELECHIRD_", 10}};
    for (size_t i = 0; i < TCI_ARRAY_LEN(prefixes); i++) {
        if (tci_str_eq_nocase(tci_str_sub(name, 0, prefixes[i].len), prefixes[i]))
            return true;
    }
    return false;
}
