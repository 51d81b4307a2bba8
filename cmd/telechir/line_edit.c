/* SPDX-License-Identifier: Apache-2.0
 *
 * The editor of one line. Keys come from the reader of standard input, the line is drawn anew on one row
 * after every key, scrolled sideways when it is longer. Leaves the terminal's mode to plat/tty.h. The main
 * thread. Invariant: text is valid UTF-8 and pos stands between characters, never before one that
 * combines with the one in front. */
#include "line_edit.h"

#include "base/plain.h"
#include "base/utf8.h"
#include "plat/fd.h"
#include "plat/tty.h"

enum { FD_IN = 0, FD_OUT = 1, LINE_MAX = 16 * 1024 * 1024, ESC = 27, DEL = 127 };

#define CTRL(letter) ((letter) - 'A' + 1)

/* ---- widths ---- */

typedef struct range {
    int32_t from, to;
} range;

static bool is_in(const range *ranges, size_t n, int32_t scalar)
{
    for (size_t i = 0; i < n; i++) {
        if (scalar >= ranges[i].from && scalar <= ranges[i].to)
            return true;
    }
    return false;
}

/* Columns of one character, about: fonts differ. */
static size_t width_of(int32_t scalar)
{
    static const range none[] = {{0x300, 0x36f},   {0x483, 0x489},   {0x591, 0x5bd},
                                 {0x610, 0x61a},   {0x64b, 0x65f},   {0x1ab0, 0x1aff},
                                 {0x1dc0, 0x1dff}, {0x200b, 0x200d}, {0x20d0, 0x20ff},
                                 {0xfe00, 0xfe0f}, {0xfe20, 0xfe2f}, {0x1f3fb, 0x1f3ff}};
    static const range two[] = {{0x1100, 0x115f},   {0x2e80, 0x303e},   {0x3041, 0x33ff},
                                {0x3400, 0x4dbf},   {0x4e00, 0x9fff},   {0xa000, 0xa4cf},
                                {0xac00, 0xd7a3},   {0xf900, 0xfaff},   {0xfe30, 0xfe6f},
                                {0xff00, 0xff60},   {0xffe0, 0xffe6},   {0x1f300, 0x1f64f},
                                {0x1f680, 0x1f6ff}, {0x1f900, 0x1f9ff}, {0x20000, 0x3fffd}};
    if (is_in(none, TCI_ARRAY_LEN(none), scalar))
        return 0;
    return is_in(two, TCI_ARRAY_LEN(two), scalar) ? 2 : 1;
}

/* ---- characters of the line ---- */

static tc_str text(const line_edit *e)
{
    return tci_buf_str(&e->text);
}

static int32_t scalar_at(const line_edit *e, size_t at, size_t *ret_len)
{
    return tci_utf8_decode(tci_str_sub(text(e), at, SIZE_MAX), ret_len);
}

/* The place after the character at a place, with all that combines with it. */
static size_t after(const line_edit *e, size_t at)
{
    size_t len;
    if (at >= e->text.len)
        return e->text.len;
    (void)scalar_at(e, at, &len);
    at += len;
    while (at < e->text.len && width_of(scalar_at(e, at, &len)) == 0)
        at += len;
    return at;
}

static size_t before(const line_edit *e, size_t at)
{
    size_t len;
    while (at > 0) {
        at--;
        while (at > 0 && ((unsigned char)e->text.ptr[at] & 0xc0) == 0x80)
            at--;
        if (width_of(scalar_at(e, at, &len)) > 0)
            break;
    }
    return at;
}

static size_t word_before(const line_edit *e)
{
    size_t at = e->pos;
    while (at > 0 && (e->text.ptr[at - 1] == ' ' || e->text.ptr[at - 1] == '\n'))
        at--;
    while (at > 0 && e->text.ptr[at - 1] != ' ' && e->text.ptr[at - 1] != '\n')
        at--;
    return at;
}

/* ---- changes ---- */

static int replace(line_edit *e, size_t from, size_t to, tc_str with)
{
    tci_buf whole;
    tci_buf_init(&whole, LINE_MAX);
    tci_buf_append_str(&whole, tci_str_sub(text(e), 0, from));
    tci_buf_append_str(&whole, with);
    tci_buf_append_str(&whole, tci_str_sub(text(e), to, SIZE_MAX));
    if (tci_buf_error(&whole, &e->c->err) < 0) {
        tci_buf_done(&whole);
        return e->c->err.code == TC_E_TOO_BIG ? 0
                                              : e->c->err.code; /* what does not fit is not taken */
    }
    tci_buf_done(&e->text);
    e->text = whole;
    e->pos = from + with.len;
    return 0;
}

static int set_line(line_edit *e, tc_str line)
{
    return replace(e, 0, e->text.len, line);
}

/* Up and down: step -1 is older. The new line is kept while an old one is shown. */
static int move_in_history(line_edit *e, int step)
{
    if ((step < 0 && e->at == 0) || (step > 0 && e->at == e->nhistory))
        return 0;
    if (e->at == e->nhistory && tci_arena_dup(&e->c->arena, text(e), &e->draft, &e->c->err) < 0)
        return e->c->err.code;
    e->at = step < 0 ? e->at - 1 : e->at + 1;
    return set_line(e, e->at == e->nhistory ? e->draft : e->history[e->at]);
}

int line_edit_remember(line_edit *e, tc_str line)
{
    if (line.len == 0 || (e->nhistory > 0 && tci_str_eq(e->history[e->nhistory - 1], line)))
        return 0;
    if (e->nhistory == LINE_HISTORY_MAX) {
        memmove(e->history, e->history + 1, (LINE_HISTORY_MAX - 1) * sizeof *e->history);
        e->nhistory--;
    }
    if (tci_arena_dup(&e->c->arena, line, &e->history[e->nhistory], &e->c->err) < 0)
        return e->c->err.code;
    e->nhistory++;
    return 0;
}

/* ---- drawing ---- */

static void put_shown(tci_buf *b, int32_t scalar)
{
    char bytes[4];
    if (scalar == '\n')
        tci_buf_append_str(b, TC_STR("\xe2\x86\xb5")); /* an arrow that turns back */
    else if (tci_plain_is_control(scalar))
        tci_buf_append_byte(b, scalar == '\t' ? ' ' : '?');
    else
        tci_buf_append(b, bytes, tci_utf8_encode((uint32_t)scalar, bytes));
}

static size_t cells(const line_edit *e, size_t from, size_t to)
{
    size_t n = 0, len;
    for (size_t at = from; at < to; at += len)
        n += width_of(scalar_at(e, at, &len));
    return n;
}

static int draw(const line_edit *e)
{
    enum { LEAST = 8 };
    tci_buf b;
    size_t prompt = strlen(e->prompt), columns = tci_tty_columns(FD_OUT), len;
    size_t room = columns > prompt + LEAST ? columns - prompt - 1 : LEAST, from = e->pos;
    size_t used = 0;
    /* From the cursor to the left as far as there is room, so a long line costs a row, not itself. */
    while (from > 0) {
        size_t earlier = before(e, from), more = cells(e, earlier, from);
        if (used + more > room)
            break;
        used += more;
        from = earlier;
    }
    tci_buf_init(&b, TCI_BUF_MAX);
    tci_buf_printf(&b, "\r%s", e->prompt);
    size_t shown = 0;
    for (size_t at = from; at < e->text.len; at += len) {
        int32_t scalar = scalar_at(e, at, &len);
        shown += width_of(scalar);
        if (shown > room)
            break;
        put_shown(&b, scalar);
    }
    tci_buf_printf(&b, "\x1b[K\r\x1b[%zuC", prompt + used);
    int rc = tci_buf_error(&b, &e->c->err);
    if (rc == 0)
        rc = cli_write_stdout(tci_buf_str(&b), &e->c->err);
    tci_buf_done(&b);
    return rc;
}

/* ---- keys ---- */

static int next_byte(line_edit *e, unsigned char *ret)
{
    size_t n;
    cli *c = e->c;
    if (cli_input_read(c->input, c->ctx, ret, 1, &n, &c->err) < 0)
        return c->err.code;
    return n == 1 ? 0 : tc_err_set(&c->err, TC_E_END, "end of input");
}

/* The rest of a character that begins with first. Bad bytes are not taken. */
static int insert_character(line_edit *e, unsigned char first)
{
    char bytes[4] = {(char)first};
    size_t len = first < 0x80 ? 1 : first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
    for (size_t i = 1; i < len; i++) {
        unsigned char more;
        if (next_byte(e, &more) < 0)
            return e->c->err.code;
        bytes[i] = (char)more;
    }
    tc_str typed = tci_str_of(bytes, len);
    return tci_utf8_is_valid(typed) ? replace(e, e->pos, e->pos, typed) : 0;
}

/* Up to the mark of its end, as it is: a newline in it does not send anything. */
static int paste(line_edit *e)
{
    static const char end[] = "\x1b[201~";
    tci_buf b;
    unsigned char ch;
    int rc;
    tci_buf_init(&b, LINE_MAX);
    while ((rc = next_byte(e, &ch)) == 0) {
        tci_buf_append_byte(&b, (char)ch);
        if (ch == '~' && tci_str_ends(tci_buf_str(&b), tci_str(end)))
            break;
    }
    if (rc == 0 && tci_buf_ok(&b)) {
        size_t kept = 0;
        tci_buf_truncate(&b, b.len - (sizeof end - 1));
        for (size_t i = 0; i < b.len; i++) {
            char at = b.ptr[i];
            if (at == '\r' && i + 1 < b.len && b.ptr[i + 1] == '\n')
                continue;
            if ((unsigned char)at >= ' ' || at == '\t' || at == '\n' || at == '\r')
                b.ptr[kept++] = at == '\r' ? '\n' : at;
        }
        tc_str pasted = tci_str_of(b.ptr, kept);
        if (tci_utf8_is_valid(pasted))
            rc = replace(e, e->pos, e->pos, pasted);
    }
    tci_buf_done(&b);
    return rc;
}

static int delete_next(line_edit *e)
{
    size_t at = e->pos;
    return replace(e, at, after(e, at), (tc_str){NULL, 0});
}

/* What follows ESC: arrows and the like, with or without modifiers (ESC [ 1 ; 5 C). */
static int escape(line_edit *e)
{
    unsigned char ch, final = 0;
    unsigned number = 0;
    bool is_first = true;
    if (next_byte(e, &ch) < 0)
        return e->c->err.code;
    if (ch != '[' && ch != 'O')
        return 0;
    while (final == 0) {
        if (next_byte(e, &ch) < 0)
            return e->c->err.code;
        if (ch >= '0' && ch <= '9')
            number = is_first && number < 1000 ? number * 10 + (unsigned)(ch - '0') : number;
        else if (ch == ';')
            is_first = false;
        else
            final = ch;
    }
    if (final == '~' && number == 200)
        return paste(e);
    if (final == 'A' || final == 'B')
        return move_in_history(e, final == 'A' ? -1 : 1);
    if (final == '~' && number == 3)
        return delete_next(e);
    if (final == 'C')
        e->pos = after(e, e->pos);
    else if (final == 'D')
        e->pos = before(e, e->pos);
    else if (final == 'H' || (final == '~' && (number == 1 || number == 7)))
        e->pos = 0;
    else if (final == 'F' || (final == '~' && (number == 4 || number == 8)))
        e->pos = e->text.len;
    return 0;
}

static int control(line_edit *e, unsigned char ch)
{
    tc_str none = {NULL, 0};
    size_t at = e->pos;
    switch (ch) {
    case CTRL('A'):
        e->pos = 0;
        return 0;
    case CTRL('B'):
        e->pos = before(e, at);
        return 0;
    case CTRL('D'):
        return delete_next(e);
    case CTRL('E'):
        e->pos = e->text.len;
        return 0;
    case CTRL('F'):
        e->pos = after(e, at);
        return 0;
    case CTRL('H'):
    case DEL:
        return replace(e, before(e, at), at, none);
    case CTRL('K'):
        return replace(e, at, e->text.len, none);
    case CTRL('L'):
        return cli_write_stdout(TC_STR("\x1b[H\x1b[2J"), &e->c->err);
    case CTRL('N'):
        return move_in_history(e, 1);
    case CTRL('P'):
        return move_in_history(e, -1);
    case CTRL('U'):
        return replace(e, 0, at, none);
    case CTRL('W'):
        return replace(e, word_before(e), at, none);
    case ESC:
        return escape(e);
    default:
        return 0;
    }
}

/* Keys until the line is sent. Ctrl-C drops it. */
static int edit(line_edit *e)
{
    cli *c = e->c;
    while (true) {
        unsigned char ch;
        if (draw(e) < 0 || next_byte(e, &ch) < 0)
            return c->err.code;
        if (ch == '\r' || ch == '\n') {
            e->pos = e->text.len;
            return draw(e);
        }
        if (ch == CTRL('D') && e->text.len == 0)
            return tc_err_set(&c->err, TC_E_END, "end of input");
        int rc;
        if (ch == CTRL('C')) {
            rc = cli_write_stdout(TC_STR("^C\r\n"), &c->err);
            if (rc == 0)
                rc = set_line(e, (tc_str){NULL, 0});
            e->at = e->nhistory;
        } else {
            rc = ch >= ' ' && ch != DEL ? insert_character(e, ch) : control(e, ch);
        }
        if (rc < 0)
            return rc;
    }
}

/* ---- a line ---- */

int line_edit_init(line_edit *e, cli *c)
{
    *e = (line_edit){.c = c};
    tci_buf_init(&e->text, LINE_MAX);
    e->is_terminal = tci_fd_is_terminal(FD_IN) && tci_fd_is_terminal(FD_OUT);
    cli_input *in;
    return c->input != NULL ? 0 : cli_input_open(c, &in, &c->err);
}

void line_edit_done(line_edit *e)
{
    tci_buf_done(&e->text);
}

static int read_plain(line_edit *e)
{
    while (true) {
        unsigned char ch;
        int rc = next_byte(e, &ch);
        if (rc == TC_E_END && e->text.len > 0)
            return 0;
        if (rc < 0 || ch == '\n')
            return rc;
        tci_buf_append_byte(&e->text, (char)ch);
        if (tci_buf_error(&e->text, &e->c->err) < 0)
            return e->c->err.code;
    }
}

int line_edit_read(line_edit *e, const char *prompt, tc_str *ret)
{
    cli *c = e->c;
    tci_tty_mode was;
    tci_buf_clear(&e->text);
    e->pos = 0;
    e->at = e->nhistory;
    e->prompt = prompt;
    bool is_raw = e->is_terminal && tci_tty_raw(FD_IN, &was, &c->err) == 0;
    int rc;
    if (is_raw) {
        rc = cli_write_stdout(TC_STR("\x1b[?2004h"), &c->err); /* tell pasted text from typed */
        if (rc == 0)
            rc = edit(e);
        tc_err why = c->err, ignored;
        if (cli_write_stdout(TC_STR("\x1b[?2004l\r\n"), &ignored) < 0)
            cli_detail(c, "the terminal: %s", ignored.msg);
        tci_tty_restore(FD_IN, &was);
        c->err = why;
    } else {
        rc = read_plain(e);
    }
    if (rc == 0 && !tci_utf8_is_valid(text(e)))
        rc = tc_err_set(&c->err, TC_E_INVALID, "what was read is not UTF-8");
    if (rc == 0)
        *ret = text(e);
    return rc;
}
