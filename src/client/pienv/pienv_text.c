/* SPDX-License-Identifier: Apache-2.0
 *
 * What people are told when a daemon could not be started: its own last words without what a terminal
 * would obey, and what a start-up file said where the daemon should have. Any thread but for what
 * looks at a session. Invariant: what is shown is bounded, and is text. */
#include "client/pienv/pienv_int.h"

#include "base/utf8.h"

enum { SHOWN_CHARS = 2000, SHOWN_LINES = 20, ESC = 0x1b, BEL = 0x07, DEL = 0x7f, C1_END = 0xa0 };

/* ---- cleaning ---- */

static bool is_final(unsigned char c)
{
    return c >= 0x40 && c <= 0x7e;
}

/* Bytes of the control string at the front of s (after its introducer): up to BEL or ESC \. */
static size_t string_len(tc_str s)
{
    for (size_t i = 0; i < s.len; i++) {
        if (s.ptr[i] == BEL)
            return i + 1;
        if (s.ptr[i] == ESC && i + 1 < s.len && s.ptr[i + 1] == '\\')
            return i + 2;
        if (s.ptr[i] == '\n')
            return i; /* it was never ended: do not take the rest of the text with it */
    }
    return s.len;
}

static size_t csi_len(tc_str s)
{
    for (size_t i = 0; i < s.len; i++) {
        if (is_final((unsigned char)s.ptr[i]))
            return i + 1;
        if ((unsigned char)s.ptr[i] < ' ')
            return i;
    }
    return s.len;
}

/* Bytes of the escape sequence that s, which begins with ESC, starts with (ECMA-48). */
static size_t escape_len(tc_str s)
{
    if (s.len < 2)
        return s.len;
    tc_str rest = tci_str_sub(s, 2, SIZE_MAX);
    switch (s.ptr[1]) {
    case '[':
        return 2 + csi_len(rest);
    case ']':
    case 'P':
    case 'X':
    case '^':
    case '_':
        return 2 + string_len(rest);
    }
    size_t at = 1;
    while (at < s.len && s.ptr[at] >= ' ' && s.ptr[at] <= '/')
        at++; /* intermediate bytes */
    return at < s.len && (unsigned char)s.ptr[at] > ' ' ? at + 1 : at;
}

/* The text without sequences and control characters. */
static void strip(tc_str s, tci_buf *out)
{
    while (s.len > 0) {
        size_t n = 1;
        int32_t c = tci_utf8_decode(s, &n);
        if (c == ESC) {
            n = escape_len(s);
        } else if (c < 0) {
            n = 1;
            tci_buf_append_str(out, TC_STR("\xef\xbf\xbd"));
        } else if (c == 0x9b) {
            n += csi_len(tci_str_sub(s, n, SIZE_MAX));
        } else if (c == '\n' || c == '\t' || (c >= ' ' && c < DEL) || c >= C1_END) {
            tci_buf_append(out, s.ptr, n);
        }
        s = tci_str_sub(s, n, SIZE_MAX);
    }
}

static tc_str without_trailing_blanks(tc_str line)
{
    while (line.len > 0 && (line.ptr[line.len - 1] == ' ' || line.ptr[line.len - 1] == '\t'))
        line.len--;
    return line;
}

static void drop_blanks(tc_str s, tci_buf *out)
{
    tc_str line;
    while (tci_str_split(&s, '\n', &line)) {
        line = without_trailing_blanks(line);
        if (line.len == 0)
            continue;
        if (out->len > 0)
            tci_buf_append_byte(out, '\n');
        tci_buf_append_str(out, line);
    }
}

/* The last of s, at a character and at a line. */
static tc_str last_part(tc_str s)
{
    size_t nchars = tci_utf8_count(s);
    if (nchars > SHOWN_CHARS)
        s = tci_str_sub(s, tci_utf8_prefix_bytes(s, nchars - SHOWN_CHARS), SIZE_MAX);
    size_t at = s.len;
    for (unsigned lines = 0; lines < SHOWN_LINES; lines++) {
        tc_str before = tci_str_sub(s, 0, at);
        at = tci_str_rfind_byte(before, '\n');
        if (at == before.len)
            return s;
    }
    return tci_str_sub(s, at + 1, SIZE_MAX);
}

static tc_str first_part(tc_str s)
{
    s = tci_str_sub(s, 0, tci_utf8_prefix_bytes(s, SHOWN_CHARS));
    tc_str rest = s, line;
    for (unsigned lines = 0; lines < SHOWN_LINES; lines++)
        if (!tci_str_split(&rest, '\n', &line))
            return s;
    return line.ptr != NULL ? tci_str_sub(s, 0, (size_t)(line.ptr + line.len - s.ptr)) : s;
}

void tci_pi_clean(tc_str raw, bool is_head, tci_buf *out)
{
    tci_buf plain, dense;
    tci_buf_init(&plain, TCI_BUF_MAX);
    tci_buf_init(&dense, TCI_BUF_MAX);
    strip(raw, &plain);
    drop_blanks(tci_buf_str(&plain), &dense);
    tc_str shown = tci_buf_str(&dense);
    tci_buf_append_str(out, is_head ? first_part(shown) : last_part(shown));
    tci_buf_done(&plain);
    tci_buf_done(&dense);
}

/* ---- failures ---- */

void tci_pi_failure_release(tci_pi_failure *f)
{
    if (f == NULL || atomic_fetch_sub(&f->refs, 1) != 1)
        return;
    tci_arena_done(&f->arena);
    tci_free(f);
}

static bool keep(tci_pi_failure *f, tc_str from, tc_str *ret)
{
    tc_err ignored;
    return tci_arena_dup(&f->arena, from, ret, &ignored) == 0;
}

tci_pi_failure *tci_pi_failure_new(const tc_err *err, tc_str word, bool is_lost)
{
    tci_pi_failure *f = tci_new(tci_pi_failure);
    if (f == NULL)
        return NULL;
    atomic_init(&f->refs, 1);
    tci_arena_init(&f->arena, 0);
    f->err = *err;
    f->fault.is_lost = is_lost;
    if (!keep(f, word, &f->fault.error.code) ||
        !keep(f, tci_str(err->msg), &f->fault.error.message)) {
        tci_pi_failure_release(f);
        return NULL;
    }
    return f;
}

static void add_part(tci_buf *text, const char *title, tc_str raw, bool is_head)
{
    size_t before = text->len;
    tci_buf_printf(text, "\n%s\n", title);
    size_t at = text->len;
    tci_pi_clean(raw, is_head, text);
    if (text->len == at)
        tci_buf_truncate(text, before);
}

/* The daemon's own words about why it refuses hello. */
static void take_refusal(tci_pi_failure *f, const tci_pi_in *refusal)
{
    tci_pi_error w;
    tc_err ignored;
    if (tci_proto_decode_lenient(&tci_pi_error_type, &refusal->json, &refusal->held->arena, &w,
                                 &ignored) < 0)
        w = (tci_pi_error){.code = TC_STR("unknown"), .message = TC_STR("hello was refused")};
    tc_str *to[] = {&f->fault.error.code, &f->fault.error.message, &f->fault.error.path,
                    &f->fault.error.syscall, &f->fault.error.spill_path};
    const tc_str from[] = {w.code, w.message, w.path, w.syscall, w.spill_path};
    for (size_t i = 0; i < TCI_ARRAY_LEN(to); i++)
        if (!keep(f, from[i], to[i]))
            *to[i] = TC_STR(""); /* out of memory: say less */
    f->fault.error.has_path = w.has_path;
    f->fault.error.has_syscall = w.has_syscall;
    f->fault.error.has_spill_path = w.has_spill_path;
    f->fault.is_lost = false;
    tc_err_set(&f->err, tci_pi_code_of(w.code), "%.*s", TC_STR_ARG(w.message));
}

static void last_line_into(tc_err *err, tc_str text)
{
    size_t at = tci_str_rfind_byte(text, '\n');
    tc_str line = at < text.len ? tci_str_sub(text, at + 1, SIZE_MAX) : text;
    char before[TC_ERR_MSG_MAX];
    memcpy(before, err->msg, sizeof before);
    if (line.len > 0)
        tc_err_set_at(err, err->file, err->line, err->code, err->os, "%s: %.*s", before,
                      TC_STR_ARG(line));
}

static void hint_start_file(tci_pi_failure *f)
{
    tc_err_hint(&f->err, "something prints where the daemon should speak; make the account's "
                         "start-up file quiet when there is no terminal: ~/.bashrc, ~/.zshenv, "
                         "~/.config/fish/config.fish or ~/.cshrc");
}

tci_pi_failure *tci_pi_failure_of_start(tci_pi_sess *s, const tc_err *err)
{
    tci_pi_failure *f = tci_pi_failure_new(err, TC_STR("unknown"), true);
    if (f == NULL)
        return NULL;
    if (s->refusal != NULL)
        take_refusal(f, s->refusal);
    tci_buf text;
    tci_buf_init(&text, TCI_BUF_MAX);
    tci_buf_append_str(&text, f->fault.error.message);
    size_t at = text.len;
    tc_str sample = tci_str_of(s->sample, s->sample_len);
    if (s->is_sample_corrupt)
        add_part(&text, "instead of a frame came:", sample, true);
    else if (s->has_noise && s->phase == TCI_PI_SYNC)
        add_part(&text, "before the daemon's first word came:", sample, true);
    bool has_sample = text.len > at;
    at = text.len;
    add_part(&text, "remote stderr:", tci_str_of(s->tail, s->tail_len), false);
    if (text.len > at)
        last_line_into(&f->err, tci_buf_str(&text));
    if (has_sample)
        hint_start_file(f);
    if (tci_buf_ok(&text))
        (void)keep(f, tci_buf_str(&text), &f->fault.error.message); /* else the shorter one stays */
    tci_buf_done(&text);
    return f;
}

int tci_pi_tell_failure(tci_pi_failure *f, tc_result *r, tci_pi_fault *fault, tc_err *err)
{
    *err = f->err;
    if (r == NULL || fault == NULL)
        return err->code;
    tc_err ignored;
    tci_pi_fault copy = f->fault;
    tci_pi_error *w = &copy.error;
    tc_str *strings[] = {&w->code, &w->message, &w->path, &w->syscall, &w->spill_path};
    for (size_t i = 0; i < TCI_ARRAY_LEN(strings); i++)
        if (tc_result_dup(r, *strings[i], strings[i], &ignored) < 0)
            *strings[i] = TC_STR("");
    *fault = copy;
    return err->code;
}
