/* SPDX-License-Identifier: Apache-2.0
 *
 * Facts about types that callers may ask for. Where a method is found by name is generated with
 * the table itself. Any thread. */
#include "proto/proto_int.h"

size_t tci_type_size(const tci_type *type)
{
    return type->size;
}

const void *tci_type_member(const tci_type *type, const void *value, tc_str field)
{
    for (uint16_t i = 0; i < type->nfields; i++) {
        const tci_field *f = &type->fields[i];
        if (f->kind != TCI_KIND_CONST && tci_str_eq(tci_str_of(f->key + 2, f->key_len), field))
            return (const char *)value + f->at;
    }
    return NULL;
}
