/* SPDX-License-Identifier: Apache-2.0
 *
 * A line that is a pattern and the rest a text. A match lies in the text, is there whether or not it is
 * asked where, and is found again in what it found. Of patterns that mean the same to PCRE2 (plain
 * letters and the common signs), both say yes or no alike, with the same beginning. */
#include "harness/schema/validate_pattern.h"

#include "base/str.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Backslashes, braces and what follows "(?" are told apart by dialects. */
static bool is_common(tc_str pattern, tc_str text)
{
    static const char signs[] = "abcxyz019 .*+?|()[]^$-,";
    for (size_t i = 0; i < pattern.len; i++)
        if (memchr(signs, pattern.ptr[i], sizeof signs - 1) == NULL ||
            (pattern.ptr[i] == '?' && i > 0 && pattern.ptr[i - 1] == '('))
            return false;
    for (size_t i = 0; i < text.len; i++)
        if (text.ptr[i] < ' ' || text.ptr[i] > '~') /* which characters end lines differs */
            return false;
    return true;
}

/* 1: found, from *ret_start on; 0: not; -1: it does not know, or takes too long. */
static int ask_pcre(tc_str pattern, tc_str text, bool ignore_case, size_t *ret_start)
{
    enum { STEPS = 20000 };
    int number, answer = -1;
    PCRE2_SIZE at;
    uint32_t flags = PCRE2_DOLLAR_ENDONLY | PCRE2_ALLOW_EMPTY_CLASS |
                     (ignore_case ? (uint32_t)PCRE2_CASELESS : 0);
    pcre2_code *code =
        pcre2_compile((PCRE2_SPTR)pattern.ptr, pattern.len, flags, &number, &at, NULL);
    pcre2_match_data *found = code != NULL ? pcre2_match_data_create(1, NULL) : NULL;
    pcre2_match_context *limits = pcre2_match_context_create(NULL);
    if (found != NULL && limits != NULL) {
        (void)pcre2_set_match_limit(limits, STEPS); /* always 0 */
        int rc = pcre2_match(code, (PCRE2_SPTR)(text.len > 0 ? text.ptr : ""), text.len, 0, 0,
                             found, limits);
        answer = rc >= 0 ? 1 : rc == PCRE2_ERROR_NOMATCH ? 0 : -1;
        if (rc >= 0)
            *ret_start = pcre2_get_ovector_pointer(found)[0];
    }
    pcre2_match_context_free(limits);
    pcre2_match_data_free(found);
    pcre2_code_free(code);
    return answer;
}

static void check(const tci_pattern *p, tc_str pattern, tc_str text, bool ignore_case)
{
    size_t start = 0, end = 0, inner_start, inner_end, other = 0;
    bool is_found, is_there, is_inside;
    tc_err err;
    TC_ASSERT(tci_pattern_find(p, text, &is_found, &start, &end, &err) == 0);
    TC_ASSERT(tci_pattern_find(p, text, &is_there, NULL, NULL, &err) == 0);
    TC_ASSERT(is_found == is_there);
    TC_ASSERT(!is_found || (start <= end && end <= text.len));
    if (!is_common(pattern, text))
        return;
    int theirs = ask_pcre(pattern, text, ignore_case, &other);
    TC_ASSERT(theirs < 0 || (theirs == 1) == is_found);
    TC_ASSERT(theirs <= 0 || other == start);
    if (!is_found || memchr(pattern.ptr, '^', pattern.len) != NULL ||
        memchr(pattern.ptr, '$', pattern.len) != NULL)
        return;
    /* Without anchors, what was found alone is all of a match. */
    tc_str part = tci_str_sub(text, start, end - start);
    TC_ASSERT(tci_pattern_find(p, part, &is_inside, &inner_start, &inner_end, &err) == 0);
    TC_ASSERT(is_inside && inner_start == 0 && inner_end == part.len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tc_str rest = tci_str_of(data, size), pattern;
    const tci_pattern *p;
    tci_arena a;
    tc_err err;
    if (!tci_str_split(&rest, '\n', &pattern))
        return 0;
    tci_arena_init(&a, 0);
    for (unsigned ignore_case = 0; ignore_case < 2; ignore_case++) {
        int rc = tci_pattern_compile(pattern, ignore_case, &a, &p, &err);
        TC_ASSERT(rc == 0 || rc == TC_E_UNSUPPORTED || rc == TC_E_INVALID);
        if (rc == 0)
            check(p, pattern, rest, ignore_case);
    }
    tci_arena_done(&a);
    return 0;
}
