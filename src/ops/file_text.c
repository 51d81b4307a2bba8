/* SPDX-License-Identifier: Apache-2.0
 *
 * Files as text: blocks, what counts as text, and pages of lines. Leaves where a page's limits come
 * from to the callers. Thread: worker.
 *
 * Invariant: every byte before the place a page ends was seen and is text, or was vouched for by a
 * cursor of the same version of the file. */
#include "ops/file_text_int.h"

#include "base/mem.h"
#include "base/num.h"
#include "base/utf8.h"
#include "ops/file.h"

/* ---- blocks ---- */

size_t tci_text_block_size(uint64_t size)
{
    /* Room for four bytes more, so that a carried character never leaves a block without any. */
    if (size == 0)
        return 4096 + 4;
    return (size < TCI_TEXT_BLOCK ? (size_t)size : TCI_TEXT_BLOCK) + 4;
}

int tci_text_blocks_next(tci_text_blocks *b, tc_err *err)
{
    if (b->carry > 0)
        memmove(b->buf, b->buf + b->len, b->carry);
    size_t kept = b->carry, got = 0;
    b->carry = 0;
    b->len = kept;
    if (!b->is_end) {
        int rc = tci_cancel_check(b->cancel, err);
        if (rc < 0)
            return rc;
        size_t want = b->cap - kept;
        if (b->size > 0)
            want = (size_t)tci_min_u64(want, b->size > b->next ? b->size - b->next : 0);
        rc = tci_file_pread(b->file, b->buf + kept, want, b->next, &got, err);
        if (rc < 0)
            return rc;
        b->next += got;
        b->len = kept + got;
        b->is_end = b->size > 0 ? b->next >= b->size || got < want : got < want;
    }
    if (!b->is_end) {
        b->carry = tci_utf8_cut_tail(tci_str_of(b->buf, b->len));
        b->len -= b->carry;
    }
    return 0;
}

/* ---- what is text ---- */

bool tci_text_is_ok(tc_str s, bool allow_nul)
{
    return (allow_nul || s.len == 0 || memchr(s.ptr, 0, s.len) == NULL) && tci_utf8_is_valid(s);
}

typedef struct magic_row {
    tc_str magic;
    const char *what;
} magic_row;

static const char *looks_like(tc_str head)
{
    static const magic_row rows[] = {
        {{"\x89PNG\r\n\x1a\n", 8}, "a PNG image"},
        {{"\xff\xd8\xff", 3}, "a JPEG image"},
        {{"GIF8", 4}, "a GIF image"},
        {{"%PDF-", 5}, "a PDF document"},
        {{"PK\x03\x04", 4}, "a ZIP archive"},
        {{"\x1f\x8b", 2}, "gzip data"},
        {{"\x28\xb5\x2f\xfd", 4}, "zstd data"},
        {{"\xfd\x37zXZ", 5}, "xz data"},
        {{"\x7f\x45LF", 4}, "an ELF program"},
        {{"SQLite format 3", 15}, "an SQLite database"},
        {{"\xff\xfe\0\0", 4}, "UTF-32 text, little-endian"},
        {{"\xff\xfe", 2}, "UTF-16 text, little-endian"},
        {{"\xfe\xff", 2}, "UTF-16 text, big-endian"},
    };
    for (size_t i = 0; i < TCI_ARRAY_LEN(rows); i++)
        if (tci_str_starts(head, rows[i].magic))
            return rows[i].what;
    /* Without a mark: mostly ASCII with every second byte zero. */
    size_t zeros[2] = {0, 0}, n = head.len & ~(size_t)1;
    for (size_t i = 0; i < n; i++)
        zeros[i & 1] += head.ptr[i] == 0;
    if (n >= 4 && zeros[1] * 4 >= n / 2 * 3 && zeros[0] == 0)
        return "UTF-16 text, little-endian, without a mark";
    if (n >= 4 && zeros[0] * 4 >= n / 2 * 3 && zeros[1] == 0)
        return "UTF-16 text, big-endian, without a mark";
    return NULL;
}

int tci_text_refuse(tc_str name, tc_str head, uint64_t size, tc_err *err)
{
    const char *what = looks_like(tci_str_sub(head, 0, 512));
    if (what == NULL)
        what = head.len > 0 && memchr(head.ptr, 0, head.len) != NULL ? "binary data (it has a NUL)"
                                                                     : "text in another encoding";
    (void)tc_err_set(err, TC_E_UNSUPPORTED, "'%.*s' is not UTF-8 text: %s, %llu bytes",
                     TC_STR_ARG(name), what, (unsigned long long)size);
    return tc_err_hint(err, "read it as bytes");
}

int tci_text_copy(tci_file from, tci_file to, uint64_t size, const char *name,
                  const tci_cancel *cancel, uint64_t *ret_copied, tc_err *err)
{
    tci_text_blocks b = {.file = from, .size = size, .cancel = cancel};
    b.cap = tci_text_block_size(size);
    b.buf = tci_mem_resize(NULL, b.cap);
    if (b.buf == NULL)
        return tci_err_no_memory(err);
    uint64_t copied = 0;
    int rc = 0;
    while (rc == 0 && !b.is_end) {
        rc = tci_text_blocks_next(&b, err);
        tc_str block = tci_str_of(b.buf, b.len);
        if (rc == 0 && !tci_text_is_ok(block, false))
            rc = tci_text_refuse(tci_str(name), block, size, err);
        if (rc == 0)
            rc = tci_file_write_all(to, b.buf, b.len, err);
        copied += b.len;
    }
    tci_mem_free(b.buf);
    if (rc == 0)
        *ret_copied = copied;
    return rc;
}

/* ---- pages of lines ---- */

enum { PAGE_BLOCK = 64 * 1024 };

typedef struct pager {
    const tci_read_text *in;
    tci_arena *arena;
    tci_text_blocks blocks;
    size_t at;        /* in the present block */
    uint64_t line;    /* lines wholly passed */
    uint64_t pos;     /* offset in the file of `at` */
    bool is_mid_line; /* what was skipped last had no LF */
    char *out;
    size_t out_len, out_cap;
    uint64_t *truncated;
    size_t ntruncated, truncated_cap;
    uint64_t lines_read;
} pager;

static tc_str rest_of(const pager *p)
{
    return tci_str_of(p->blocks.buf + p->at, p->blocks.len - p->at);
}

static int refuse(pager *p, tc_err *err)
{
    char head[512];
    size_t n = 0;
    tc_err ignored; /* without its start it is called binary */
    if (tci_file_pread(p->blocks.file, head, sizeof head, 0, &n, &ignored) < 0)
        n = 0;
    tc_str seen = tci_str_of(head, n);
    /* A start that is fine says nothing about the place that is not. */
    return tci_text_refuse(p->in->path, tci_text_is_ok(seen, false) ? rest_of(p) : seen,
                           p->blocks.size, err);
}

/* Pass n bytes of the present block, which must be text. */
static int pass(pager *p, size_t n, tc_err *err)
{
    if (!tci_text_is_ok(tci_str_sub(rest_of(p), 0, n), p->in->show_nul))
        return refuse(p, err);
    p->at += n;
    p->pos += n;
    return 0;
}

/* Have bytes at `at`, or *ret_end. */
static int fill(pager *p, bool *ret_end, tc_err *err)
{
    *ret_end = false;
    while (p->at == p->blocks.len) {
        if (p->blocks.is_end && p->blocks.carry == 0) {
            *ret_end = true;
            return 0;
        }
        int rc = tci_text_blocks_next(&p->blocks, err);
        if (rc < 0)
            return rc;
        p->at = 0;
    }
    return 0;
}

/* Lines before line_offset: a block at a time. */
static int skip_lines(pager *p, bool *ret_end, tc_err *err)
{
    for (;;) {
        int rc = fill(p, ret_end, err);
        if (rc == 0 && *ret_end && p->is_mid_line)
            p->line++; /* the last line, passed by, has no LF */
        if (rc < 0 || *ret_end || p->line >= p->in->line_offset)
            return rc;
        tc_str rest = rest_of(p);
        size_t n = 0;
        while (n < rest.len && p->line < p->in->line_offset) {
            const char *lf = memchr(rest.ptr + n, '\n', rest.len - n);
            n = lf != NULL ? (size_t)(lf - rest.ptr) + 1 : rest.len;
            p->line += lf != NULL;
        }
        p->is_mid_line = rest.ptr[n - 1] != '\n';
        rc = pass(p, n, err);
        if (rc < 0)
            return rc;
    }
}

/* Room for more bytes of the page. It grows twofold, up to what is left of the file or the page. */
static int reserve(pager *p, size_t more, tc_err *err)
{
    if (more <= p->out_cap - p->out_len)
        return 0;
    size_t cap = p->out_cap * 2 > p->out_len + more ? p->out_cap * 2 : p->out_len + more;
    if (p->out_cap == 0 && p->blocks.size > p->pos) {
        /* Most pages are whole files: one block of the arena, of the right size. */
        uint64_t left = tci_min_u64(p->blocks.size - p->pos + 1, p->in->page_bytes);
        if (left < 65536 && left > cap)
            cap = (size_t)left;
    }
    char *grown = tci_arena_grow(p->arena, p->out, p->out_cap, cap);
    if (grown == NULL)
        return tci_arena_error(p->arena, err);
    p->out = grown;
    p->out_cap = cap;
    return 0;
}

static int append(pager *p, tc_str s, tc_err *err)
{
    int rc = reserve(p, s.len, err);
    if (rc < 0)
        return rc;
    if (s.len > 0)
        memcpy(p->out + p->out_len, s.ptr, s.len);
    p->out_len += s.len;
    return 0;
}

static int note_truncated(pager *p, tc_err *err)
{
    if (p->ntruncated == p->truncated_cap) {
        size_t cap = p->truncated_cap == 0 ? 16 : p->truncated_cap * 2;
        uint64_t *grown = tci_arena_grow(p->arena, p->truncated, p->truncated_cap * sizeof *grown,
                                         cap * sizeof *grown);
        if (grown == NULL)
            return tci_arena_error(p->arena, err);
        p->truncated = grown;
        p->truncated_cap = cap;
    }
    p->truncated[p->ntruncated++] = p->line + 1;
    return 0;
}

/* What of a line's next piece goes into the page, given how many scalars are still kept. */
static tc_str keep_of(tc_str piece, uint64_t *left, bool *is_cut)
{
    if (piece.len <= *left) {
        *left -= tci_utf8_count(piece);
        return piece;
    }
    size_t n = tci_utf8_prefix_bytes(piece, (size_t)tci_min_u64(*left, SIZE_MAX));
    *left -= n == piece.len ? tci_utf8_count(piece) : *left;
    *is_cut = n < piece.len;
    return tci_str_sub(piece, 0, n);
}

/* One line into the page. *ret_fits false: it is over the page's budget, and the page ends before.
 */
static int take_line(pager *p, bool *ret_fits, tc_err *err)
{
    uint64_t left = p->in->max_line_length;
    size_t budget = (size_t)tci_min_u64(p->in->page_bytes, SIZE_MAX);
    bool is_cut = false, is_end = false, has_lf = false;
    *ret_fits = false;
    while (!has_lf) {
        int rc = fill(p, &is_end, err);
        if (rc < 0)
            return rc;
        if (is_end)
            break;
        tc_str rest = rest_of(p);
        const char *lf = memchr(rest.ptr, '\n', rest.len);
        has_lf = lf != NULL;
        tc_str piece = tci_str_sub(rest, 0, has_lf ? (size_t)(lf - rest.ptr) : rest.len);
        rc = pass(p, piece.len + has_lf, err);
        if (rc < 0)
            return rc;
        if (!is_cut)
            piece = keep_of(piece, &left, &is_cut);
        else
            piece.len = 0;
        if (piece.len + has_lf > budget - p->out_len)
            return 0;
        rc = append(p, piece, err);
        if (rc == 0 && has_lf)
            rc = append(p, TC_STR("\n"), err);
        if (rc < 0)
            return rc;
    }
    *ret_fits = true;
    return is_cut ? note_truncated(p, err) : 0;
}

static void finish(pager *p, const tci_file_info *info, bool has_more, uint64_t pos,
                   tci_text_page *ret)
{
    *ret = (tci_text_page){
        .info = *info,
        .text = tci_str_of(p->out, p->out_len),
        .lines_read = p->lines_read,
        .has_more = has_more,
        .truncated = p->truncated,
        .ntruncated = p->ntruncated,
        .cursor = {.version = tci_file_version_of(info), .line = p->line, .offset = pos}};
}

static int read_page(pager *p, const tci_file_info *info, tci_text_page *ret, tc_err *err)
{
    bool is_end = false, fits = true;
    int rc = skip_lines(p, &is_end, err);
    if (rc < 0)
        return rc;
    while (!is_end && p->lines_read < p->in->line_limit) {
        size_t out_len = p->out_len;
        uint64_t pos = p->pos;
        rc = take_line(p, &fits, err);
        if (rc < 0)
            return rc;
        if (!fits && p->lines_read == 0)
            return tc_err_set(err, TC_E_OUTPUT_LIMIT, "line %llu of '%.*s' is over the page",
                              (unsigned long long)p->line + 1, TC_STR_ARG(p->in->path));
        if (!fits) {
            p->out_len = out_len;
            finish(p, info, true, pos, ret);
            return 0;
        }
        p->lines_read++;
        p->line++;
        rc = fill(p, &is_end, err);
        if (rc < 0)
            return rc;
    }
    finish(p, info, !is_end, p->pos, ret);
    return 0;
}

int tci_ops_read_text(const tci_read_text *in, const tci_cancel *cancel, tci_arena *arena,
                      tci_text_page *ret, tc_err *err)
{
    TCI_FILE_AUTO f = TCI_FILE_NONE;
    tci_file_info info;
    int rc = tci_ops_open_regular(in->path, &f, &info, err);
    if (rc < 0)
        return rc;
    pager p = {.in = in, .arena = arena};
    p.blocks = (tci_text_blocks){.file = f, .size = info.size, .cancel = cancel};
    tci_file_version version = tci_file_version_of(&info);
    if (in->cursor.line <= in->line_offset && in->cursor.offset <= info.size &&
        tci_file_version_same(&in->cursor.version, &version)) {
        p.line = in->cursor.line;
        p.pos = p.blocks.next = in->cursor.offset;
        p.blocks.is_end = info.size > 0 && p.pos >= info.size;
    }
    /* Large blocks pass lines quickly; a page that starts at once seldom needs that much. */
    uint64_t left = info.size - tci_min_u64(p.pos, info.size);
    p.blocks.cap =
        tci_text_block_size(p.line < in->line_offset ? left : tci_min_u64(left, PAGE_BLOCK));
    p.blocks.buf = tci_mem_resize(NULL, p.blocks.cap);
    if (p.blocks.buf == NULL)
        return tci_err_no_memory(err);
    rc = read_page(&p, &info, ret, err);
    tci_mem_free(p.blocks.buf);
    return rc;
}
