/* SPDX-License-Identifier: Apache-2.0
 *
 * A file and edits of it, cut apart at bytes 0: file, old, new, old, new... Replacements lie in the file, in
 * order and apart; only their bytes change; one plain edit of a plain text is what anybody would make of it;
 * and the patch that is shown leads from the old file to the new one. */
#include "base/utf8.h"
#include "harness/tools/edit_match.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { EDITS_MAX = 6 };

/* No other form of it is looked for: printable ASCII, no blank at the end of a line. */
static bool is_plain(tc_str text)
{
    for (size_t i = 0; i < text.len; i++)
        if ((text.ptr[i] < ' ' || text.ptr[i] > '~') && text.ptr[i] != '\n')
            return false;
    for (size_t i = 0; i + 1 < text.len; i++)
        if (text.ptr[i] == ' ' && text.ptr[i + 1] == '\n')
            return false;
    return text.len == 0 || text.ptr[text.len - 1] != ' ';
}

static bool occurs_once(tc_str text, tc_str part, size_t *ret_at)
{
    size_t at = tci_str_find(text, part);
    if (part.len == 0 || at == text.len)
        return false;
    *ret_at = at;
    return tci_str_find(tci_str_sub(text, at + 1, text.len), part) == text.len - at - 1;
}

/* What one edit means, when everything about it is plain. */
static void check_plain(tc_str file, const tci_edit *edit, tc_str result, bool is_refused)
{
    size_t at;
    tci_buf want;
    if (!is_plain(file) || !is_plain(edit->old_text) || !is_plain(edit->new_text) ||
        !occurs_once(file, edit->old_text, &at))
        return;
    TC_ASSERT(is_refused == tci_str_eq(edit->old_text, edit->new_text));
    if (is_refused)
        return;
    tci_buf_init(&want, TCI_BUF_MAX);
    tci_buf_append_str(&want, tci_str_sub(file, 0, at));
    tci_buf_append_str(&want, edit->new_text);
    tci_buf_append_str(&want, tci_str_sub(file, at + edit->old_text.len, file.len));
    TC_ASSERT(tci_str_eq(tci_buf_str(&want), result));
    tci_buf_done(&want);
}

/* The lines of the patch with this sign or none, one after the other, are in the text in this order. */
static void check_side(tc_str patch, char sign, tc_str text)
{
    tc_str line, rest = patch;
    bool is_in_hunk = false;
    while (tci_str_split(&rest, '\n', &line)) {
        if (tci_str_starts(line, TC_STR("@@"))) {
            is_in_hunk = true;
            continue;
        }
        if (!is_in_hunk || line.len == 0 || (line.ptr[0] != sign && line.ptr[0] != ' '))
            continue;
        tc_str wanted = tci_str_sub(line, 1, line.len);
        size_t at = tci_str_find(text, wanted);
        TC_ASSERT(wanted.len == 0 || at < text.len);
        text = tci_str_sub(text, at + wanted.len, text.len);
    }
}

static void check_diff(tc_str file, tc_str result, const tci_splice *splices, size_t n)
{
    tci_buf diff, patch;
    uint64_t first = 0;
    tc_err err;
    tci_buf_init(&diff, TCI_BUF_MAX);
    tci_buf_init(&patch, TCI_BUF_MAX);
    int rc = tci_edit_diff(file, result, splices, n, TC_STR("f"), &diff, &patch, &first, &err);
    TC_ASSERT(rc == 0);
    if (is_plain(file) && is_plain(result)) {
        check_side(tci_buf_str(&patch), '-', file);
        check_side(tci_buf_str(&patch), '+', result);
        size_t same = 0, lines = 1;
        while (same < file.len && same < result.len && file.ptr[same] == result.ptr[same])
            lines += file.ptr[same++] == '\n';
        TC_ASSERT(first == 0 || first <= lines + 1);
    }
    tci_buf_done(&diff);
    tci_buf_done(&patch);
}

static void check_splices(tc_str file, const tci_splice *splices, size_t n, tc_str result)
{
    size_t from = 0, to = 0;
    for (size_t i = 0; i < n; i++) {
        const tci_splice *s = &splices[i];
        TC_ASSERT(from <= s->start && s->start <= s->end && s->end <= file.len);
        tc_str kept = tci_str_sub(file, from, s->start - from);
        TC_ASSERT(tci_str_eq(tci_str_sub(result, to, kept.len), kept));
        to += kept.len;
        TC_ASSERT(tci_str_eq(tci_str_sub(result, to, s->text.len), s->text));
        to += s->text.len;
        from = s->end;
    }
    TC_ASSERT(tci_str_eq(tci_str_sub(file, from, file.len), tci_str_sub(result, to, result.len)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tc_str rest = tci_str_of(data, size), file, refusal = {0};
    tci_edit edits[EDITS_MAX];
    tci_splice *splices = NULL;
    size_t nedits = 0, nsplices = 0;
    tci_arena a;
    tci_buf result;
    tc_err err;
    if (!tci_str_split(&rest, '\0', &file))
        return 0;
    while (nedits < EDITS_MAX && tci_str_split(&rest, '\0', &edits[nedits].old_text) &&
           tci_str_split(&rest, '\0', &edits[nedits].new_text))
        nedits++;
    if (nedits == 0)
        return 0;
    tci_arena_init(&a, 0);
    tci_buf_init(&result, TCI_BUF_MAX);
    TC_ASSERT(tci_edit_match(file, edits, nedits, TC_STR("f"), &a, &splices, &nsplices, &refusal,
                             &err) == 0);
    TC_ASSERT((refusal.len > 0) == (nsplices == 0));
    if (nsplices > 0) {
        tci_edit_apply(&result, file, splices, nsplices);
        TC_ASSERT(tci_buf_ok(&result));
        check_splices(file, splices, nsplices, tci_buf_str(&result));
        TC_ASSERT(!tci_str_eq(file, tci_buf_str(&result)));
        check_diff(file, tci_buf_str(&result), splices, nsplices);
    }
    if (nedits == 1)
        check_plain(file, &edits[0], tci_buf_str(&result), refusal.len > 0);
    tci_buf_done(&result);
    tci_arena_done(&a);
    return 0;
}
