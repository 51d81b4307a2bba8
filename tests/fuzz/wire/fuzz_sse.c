/* SPDX-License-Identifier: Apache-2.0
 *
 * Event streams in two cuts: the first byte says where. The events must be those of the whole. */
#include "wire/sse.h"
#include <stdlib.h>

static int add(void *user, tc_str name, tc_str data, tc_err *err)
{
    (void)err;
    tci_buf_append_str(user, name);
    tci_buf_append_byte(user, 1);
    tci_buf_append_str(user, data);
    tci_buf_append_byte(user, 2);
    return 0;
}

static void run(tci_buf *out, tc_str first, tc_str second)
{
    tci_sse s;
    tc_err err;
    tci_buf_init(out, TCI_BUF_MAX);
    tci_sse_init(&s, add, out);
    if (tci_sse_feed(&s, first, &err) == 0 && tci_sse_feed(&s, second, &err) < 0)
        tci_buf_clear(out);
    tci_sse_done(&s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    tc_str all = tci_str_of(data + 1, size - 1);
    size_t cut = all.len > 0 ? data[0] % (all.len + 1) : 0;
    tci_buf whole, parts;
    run(&whole, all, tci_str_of(NULL, 0));
    run(&parts, tci_str_sub(all, 0, cut), tci_str_sub(all, cut, all.len));
    if (!tci_str_eq(tci_buf_str(&whole), tci_buf_str(&parts)))
        abort();
    tci_buf_done(&whole);
    tci_buf_done(&parts);
    return 0;
}
