/* SPDX-License-Identifier: Apache-2.0
 *
 * Output of a login from anybody: read whole and in pieces chosen by the first byte, it says the same;
 * what is shown of it has no control characters and is bounded. */
#include "base/utf8.h"
#include "env/ssh/ssh_int.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct reading {
    tci_arena arena;
    tci_ssh_answer ans;
    tci_buf out;
    size_t nheard;
    int rc;
} reading;

static void hear(void *user, tc_str text)
{
    *(size_t *)user += text.len;
}

static void read_by(reading *r, tc_str in, size_t step)
{
    tc_err err;
    tci_arena_init(&r->arena, 0);
    tci_buf_init(&r->out, TCI_BUF_MAX);
    r->nheard = 0;
    r->rc =
        tci_ssh_answer_init(&r->ans, TC_STR("0123456789abcdef0123456789abcdef"), &r->arena, &err);
    TC_ASSERT(r->rc == 0);
    for (size_t at = 0; at < in.len && r->rc == 0; at += step) {
        tc_str piece = tci_str_sub(in, at, step);
        tci_buf_append_str(&r->out, piece);
        if (r->ans.kind == TCI_SSH_ANSWER_NONE)
            r->rc = tci_ssh_answer_feed(&r->ans, &r->out, hear, &r->nheard, &err);
    }
    TC_ASSERT(r->nheard == r->ans.noise && r->ans.sample_len <= TCI_SSH_SAMPLE_MAX);
}

static void done(reading *r)
{
    tci_buf_done(&r->out);
    tci_arena_done(&r->arena);
}

static void check_shown(tc_str text)
{
    char buf[100];
    tc_str shown = tci_ssh_printable(text, buf, sizeof buf);
    TC_ASSERT(shown.len <= sizeof buf && tci_utf8_is_valid(shown));
    for (size_t i = 0; i < shown.len; i++)
        TC_ASSERT((unsigned char)shown.ptr[i] >= 0x20 && shown.ptr[i] != 0x7f);
    shown = tci_ssh_last_words(text, buf, sizeof buf);
    TC_ASSERT(shown.len <= sizeof buf);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    tc_str in = tci_str_of(data + 1, size - 1);
    reading whole, pieces;
    read_by(&whole, in, in.len + 1);
    read_by(&pieces, in, 1 + data[0]);
    /* Lines of many kilobytes may be cut at different places. */
    if (size < 8192) {
        TC_ASSERT(whole.rc == pieces.rc && whole.ans.kind == pieces.ans.kind);
        TC_ASSERT(whole.ans.is_booted == pieces.ans.is_booted);
        TC_ASSERT(tci_str_eq(whole.ans.system, pieces.ans.system));
        TC_ASSERT(tci_str_eq(whole.ans.folder, pieces.ans.folder));
        TC_ASSERT(tci_str_eq(whole.ans.tried, pieces.ans.tried));
        TC_ASSERT(tci_str_eq(whole.ans.text, pieces.ans.text));
        TC_ASSERT(tci_str_eq(tci_buf_str(&whole.out), tci_buf_str(&pieces.out)));
    }
    check_shown(in);
    done(&whole);
    done(&pieces);
    return 0;
}
