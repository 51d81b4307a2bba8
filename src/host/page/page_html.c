/* SPDX-License-Identifier: Apache-2.0
 *
 * Pieces of pages. Leaves what a page says to page.c and page_devices.c. Any thread. Invariant: text of others gets
 * out only through put_escaped. */
#include "host/page/page_html.h"

#include "base/plain.h"
#include "base/rfc3339.h"
#include "base/utf8.h"

typedef enum html_kind { TEXT, VALUE } html_kind;

void tci_html(tci_buf *b, const char *markup)
{
    tci_buf_append_str(b, tci_str(markup));
}

/* ---- text of others ---- */

/* Seen by nobody, so that two names that differ look the same. What joins letters is part of words in many
 * scripts, and of pictures, but not after ASCII. */
static bool is_hidden(int32_t scalar, bool is_after_ascii)
{
    static const struct {
        int32_t first, last;
    } ranges[] = {{0xad, 0xad},     {0x34f, 0x34f},     {0x115f, 0x1160},   {0x17b4, 0x17b5},
                  {0x180b, 0x180f}, {0x200b, 0x200b},   {0x2060, 0x206f},   {0x2800, 0x2800},
                  {0x3164, 0x3164}, {0xfeff, 0xfeff},   {0xffa0, 0xffa0},   {0xfff0, 0xfffb},
                  {0xe000, 0xf8ff}, {0x1d173, 0x1d17a}, {0xe0000, 0x10ffff}};
    if (scalar == 0x200c || scalar == 0x200d || (scalar >= 0xfe00 && scalar <= 0xfe0f))
        return is_after_ascii;
    for (size_t i = 0; i < TCI_ARRAY_LEN(ranges); i++)
        if (scalar >= ranges[i].first && scalar <= ranges[i].last)
            return true;
    return tci_plain_is_control(scalar);
}

static const char *entity_of(char c)
{
    switch (c) {
    case '<':
        return "&lt;";
    case '>':
        return "&gt;";
    case '&':
        return "&amp;";
    case '"':
        return "&quot;";
    case '\'':
        return "&#39;";
    default:
        return NULL;
    }
}

static void put_scalar(tci_buf *b, tc_str bytes, int32_t scalar, bool is_after_ascii,
                       html_kind kind)
{
    const char *entity = bytes.len == 1 ? entity_of(bytes.ptr[0]) : NULL;
    if (entity != NULL)
        tci_html(b, entity);
    else if (kind == VALUE || !is_hidden(scalar, is_after_ascii))
        tci_buf_append_str(b, bytes);
    else
        tci_buf_printf(b, "<span class=\"esc\">\\u{%x}</span>", (unsigned)scalar);
}

static void put_escaped(tci_buf *b, tc_str text, html_kind kind)
{
    bool is_after_ascii = true;
    size_t len = 1;
    for (size_t at = 0; at < text.len; at += len) {
        int32_t scalar = tci_utf8_decode(tci_str_sub(text, at, SIZE_MAX), &len);
        if (scalar < 0) {
            tci_html(b, "\xEF\xBF\xBD");
            len = 1;
            continue;
        }
        put_scalar(b, tci_str_sub(text, at, len), scalar, is_after_ascii, kind);
        is_after_ascii = scalar < 0x80;
    }
}

void tci_html_text(tci_buf *b, tc_str text)
{
    put_escaped(b, text, TEXT);
}

void tci_html_value(tci_buf *b, tc_str text)
{
    put_escaped(b, text, VALUE);
}

void tci_html_name(tci_buf *b, tc_str name)
{
    tci_html(b, "<bdi>");
    tci_html_text(b, name);
    tci_html(b, "</bdi>");
}

bool tci_html_is_odd(tc_str text)
{
    bool is_after_ascii = true;
    size_t len = 1;
    for (size_t at = 0; at < text.len; at += len) {
        int32_t scalar = tci_utf8_decode(tci_str_sub(text, at, SIZE_MAX), &len);
        if (scalar < 0 || is_hidden(scalar, is_after_ascii))
            return true;
        is_after_ascii = scalar < 0x80;
    }
    return false;
}

/* ---- words of a command ---- */

static bool is_plain_word(tc_str word)
{
    static const char others[] = "._-/:@%+=,~";
    bool is_fine = word.len > 0 && word.ptr[0] != '~';
    for (size_t i = 0; is_fine && i < word.len; i++) {
        char c = word.ptr[i];
        is_fine = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  (c != '\0' && strchr(others, c) != NULL);
    }
    return is_fine;
}

/* $'...' with escapes, which every shell that people type into knows. */
static void put_ansi_word(tci_buf *b, tc_str word)
{
    size_t len = 1;
    tci_html(b, "$'");
    for (size_t at = 0; at < word.len; at += len) {
        tc_str rest = tci_str_sub(word, at, SIZE_MAX);
        int32_t scalar = tci_utf8_decode(rest, &len);
        if (scalar < 0)
            len = 1;
        if (scalar == '\'' || scalar == '\\')
            tci_buf_printf(b, "\\%c", (char)scalar);
        else if (scalar >= 0 && !is_hidden(scalar, true))
            tci_buf_append_str(b, tci_str_sub(rest, 0, len));
        else
            for (size_t i = 0; i < len; i++)
                tci_buf_printf(b, "\\%03o", (unsigned)(unsigned char)rest.ptr[i]);
    }
    tci_html(b, "'");
}

void tci_shell_word(tci_buf *b, tc_str word)
{
    tc_str part;
    if (is_plain_word(word)) {
        tci_buf_append_str(b, word);
        return;
    }
    if (tci_html_is_odd(word)) {
        put_ansi_word(b, word);
        return;
    }
    tci_html(b, "'");
    for (bool is_first = true; tci_str_split(&word, '\'', &part); is_first = false) {
        tci_html(b, is_first ? "" : "'\\''");
        tci_buf_append_str(b, part);
    }
    tci_html(b, "'");
}

/* ---- the frame ---- */

static void put_file(tci_buf *b, const tci_host *h, const char *name, const tci_host_file *file)
{
    tc_str tag = tci_str(file->tag);
    tci_html_value(b, h->base);
    tci_html(b, name);
    tci_html(b, "?");
    tci_buf_append_str(b, tci_str_sub(tag, 1, tag.len - 2));
    tci_html(b, "\"");
}

void tci_html_begin(tci_buf *b, const tci_host *h, const char *page, const char *title)
{
    tci_html(b, "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>");
    tci_html(b, title);
    tci_html(b, " · telechir</title>"
                "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">"
                "<meta name=\"color-scheme\" content=\"light dark\">"
                "<link rel=\"icon\" type=\"image/svg+xml\" href=\"");
    put_file(b, h, "icon.svg", &tci_host_icon);
    tci_html(b, "><link rel=\"stylesheet\" href=\"");
    put_file(b, h, "page.css", &tci_host_css);
    tci_html(b, "><script defer src=\"");
    put_file(b, h, "page.js", &tci_host_js);
    tci_html(b, "></script></head>\n<body spellcheck=\"false\" data-page=\"");
    tci_html(b, page);
    tci_html(b, "\" data-base=\"");
    tci_html_value(b, h->base);
    tci_html(
        b, "\"><a class=\"skip\" href=\"#main\">Skip to the content</a><header><a class=\"brand\" "
           "href=\"");
    tci_html_value(b, h->base);
    tci_html(b, "\">telechir <span>Host</span></a>");
}

void tci_html_signed_in(tci_buf *b, const tci_host_req *r)
{
    tci_html(b, "<nav aria-label=\"Session\">");
    tci_html_form(b, r, "sign-in-links", TC_STR(""), "");
    tci_html(b, "<button>Make a sign-in link</button></form>");
    tci_html_form(b, r, "sign-out", TC_STR(""), "");
    tci_html(b, "<button>Sign out</button></form></nav>");
}

void tci_html_end(tci_buf *b)
{
    tci_html(b, "</main></body></html>\n");
}

/* ---- forms and facts ---- */

void tci_html_form(tci_buf *b, const tci_host_req *r, const char *path, tc_str id, const char *end)
{
    char word[TCI_SHA256_HEX];
    tci_html(b, "<form method=\"post\" action=\"");
    tci_html_value(b, r->host->base);
    tci_html(b, path);
    tci_html_value(b, id);
    tci_html(b, end);
    tci_html(b, "\">");
    if (r->token.len == 0)
        return;
    tci_csrf_of(r->token, word);
    tci_html_hidden(b, "csrf", tci_str_of(word, sizeof word));
}

void tci_html_hidden(tci_buf *b, const char *name, tc_str value)
{
    tci_html(b, "<input type=\"hidden\" name=\"");
    tci_html(b, name);
    tci_html(b, "\" value=\"");
    tci_html_value(b, value);
    tci_html(b, "\">");
}

void tci_html_fact(tci_buf *b, const char *name)
{
    tci_html(b, "<div><dt>");
    tci_html(b, name);
    tci_html(b, "</dt><dd>");
}

void tci_html_fact_end(tci_buf *b)
{
    tci_html(b, "</dd></div>");
}

void tci_html_fact_text(tci_buf *b, const char *name, tc_str value)
{
    tci_html_fact(b, name);
    tci_html_name(b, value);
    tci_html_fact_end(b);
}

void tci_html_fact_code(tci_buf *b, const char *name, tc_str value)
{
    tci_html(b, "<div class=\"wide\"><dt>");
    tci_html(b, name);
    tci_html(b, "</dt><dd><code>");
    tci_html_name(b, value);
    tci_html(b, "</code></dd></div>");
}

void tci_html_time(tci_buf *b, int64_t ms, const char *class)
{
    char text[TCI_RFC3339_MAX];
    tci_instant t = {.sec = ms / 1000};
    tc_str s = tci_str_of(text, tci_rfc3339_text(t, text));
    tci_html(b, "<time class=\"");
    tci_html(b, class);
    tci_html(b, "\" datetime=\"");
    tci_buf_append_str(b, s);
    tci_html(b, "\">");
    tci_buf_append_str(b, tci_str_sub(s, 0, 10)); /* 2026-11-29T16:11:02Z */
    tci_html(b, " ");
    tci_buf_append_str(b, tci_str_sub(s, 11, 5));
    tci_html(b, " UTC</time>");
}

void tci_html_fact_time(tci_buf *b, const char *name, int64_t ms)
{
    if (ms == 0)
        return;
    tci_html_fact(b, name);
    tci_html_time(b, ms, "ago");
    tci_html_fact_end(b);
}

void tci_html_copy_begin(tci_buf *b, const char *label)
{
    tci_html(b, "<div class=\"copy\" role=\"group\" aria-label=\"");
    tci_html(b, label);
    tci_html(b, "\"><code>");
}

void tci_html_copy_end(tci_buf *b)
{
    tci_html(b, "</code><button type=\"button\" class=\"js\" data-copy>Copy</button></div>");
}
