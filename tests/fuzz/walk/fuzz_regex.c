/* SPDX-License-Identifier: Apache-2.0
 *
 * A pattern up to the first LF, a text behind it. What is taken must compile or be refused with a
 * reason, and a line found must lie in the text. */
#include "base/utf8.h"
#include "ops/regex/regex.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tc_str rest = tci_str_of(data, size), pattern = {NULL, 0};
    tc_err err;
    tci_regex *re;
    if (size > 4096 || !tci_str_split(&rest, '\n', &pattern))
        return 0;
    for (int caseless = 0; caseless < 2; caseless++) {
        if (tci_regex_new(pattern, false, caseless, &re, &err) < 0)
            continue;
        size_t at = 0, from = 0;
        tc_str text = tci_str_sub(rest, 0, tci_utf8_valid_prefix(rest));
        tci_regex_start(re, text);
        while (tci_regex_find(re, from, true, NULL, &at, &err) == 1) {
            TC_ASSERT(at >= from && at <= text.len);
            from = at + tci_str_find_byte(tci_str_sub(text, at, text.len), '\n') + 1;
        }
        tci_regex_free(re);
    }
    return 0;
}
