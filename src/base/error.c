/* SPDX-License-Identifier: Apache-2.0
 *
 * The error value and the facts of its codes. Leaves deciding what is an error to whoever finds it.
 * Any thread. Invariant: msg and hint are always NUL-terminated and never end in half a character,
 * and nothing here allocates or can fail. */
#include <telechir/error.h>
#include "base/gen/error_table.h"
#include "base/utf8.h"
#include <stdarg.h>
#include <stdio.h>

/* Formats into dst, cutting what does not fit after the last whole character. */
static void TC_PRINTF(3, 0) format(char *dst, size_t size, const char *fmt, va_list args)
{
    int len = vsnprintf(dst, size, fmt, args);
    if (len < 0)
        dst[0] = '\0';
    else if ((size_t)len >= size)
        dst[size - 1 - tci_utf8_cut_tail(tci_str_of(dst, size - 1))] = '\0';
}

static void append(char *dst, size_t size, const char *more)
{
    size_t len = strlen(dst), n = strlen(more);
    if (n > size - 1 - len) {
        n = size - 1 - len;
        n -= tci_utf8_cut_tail(tci_str_of(more, n));
    }
    memcpy(dst + len, more, n);
    dst[len + n] = '\0';
}

/* strerror_r has two shapes: one returns the text, the other a number and fills the buffer. */
static inline const char *text_of_number(int failed, const char *buffer)
{
    return failed == 0 ? buffer : "unknown error";
}

static inline const char *text_of_pointer(const char *text, const char *buffer)
{
    TCI_UNUSED(buffer);
    return text;
}

static void append_os(tc_err *err, int os)
{
    char buffer[128] = "";
    const char *text = _Generic(strerror_r(os, buffer, sizeof buffer), int
                                : text_of_number, default
                                : text_of_pointer)(strerror_r(os, buffer, sizeof buffer), buffer);
    append(err->msg, sizeof err->msg, ": ");
    size_t at = strlen(err->msg);
    append(err->msg, sizeof err->msg, text);
    /* "No such file" becomes "no such file"; "RFS error" stays. */
    char *first = &err->msg[at];
    if (first[0] >= 'A' && first[0] <= 'Z' && first[1] >= 'a')
        *first = (char)(*first | 0x20);
    else if (first[0] >= 'A' && first[0] <= 'Z' && first[1] == ' ')
        *first = (char)(*first | 0x20);
}

int tc_err_set_at(tc_err *err, const char *file, int line, tc_code code, int os, const char *fmt,
                  ...)
{
    /* The old message may be an argument of the new one. */
    char msg[TC_ERR_MSG_MAX];
    va_list args;
    va_start(args, fmt);
    format(msg, sizeof msg, fmt, args);
    va_end(args);
    err->code = code;
    err->cause = code;
    err->os = os;
    err->line = line;
    err->file = file;
    memcpy(err->msg, msg, strlen(msg) + 1);
    err->hint[0] = '\0';
    if (os != 0)
        append_os(err, os);
    return code;
}

int tc_err_wrap(tc_err *err, const char *fmt, ...)
{
    char msg[TC_ERR_MSG_MAX];
    va_list args;
    va_start(args, fmt);
    format(msg, sizeof msg, fmt, args);
    va_end(args);
    append(msg, sizeof msg, ": ");
    append(msg, sizeof msg, err->msg);
    memcpy(err->msg, msg, strlen(msg) + 1);
    return err->code;
}

int tc_err_recode(tc_err *err, tc_code code)
{
    err->code = code;
    return code;
}

int tc_err_hint(tc_err *err, const char *fmt, ...)
{
    char hint[TC_ERR_HINT_MAX];
    va_list args;
    va_start(args, fmt);
    format(hint, sizeof hint, fmt, args);
    va_end(args);
    memcpy(err->hint, hint, strlen(hint) + 1);
    return err->code;
}

typedef struct code_facts {
    int number, exit_status;
    bool can_retry;
    const char *name, *text;
} code_facts;

#define ROW(name, number, exit, retry, text) {number, exit, retry, #name, text},
static const code_facts codes[] = {TCI_ERROR_TABLE(ROW)};
#undef ROW

static const code_facts *facts(int code)
{
    static const code_facts ok = {TC_OK, 0, false, "OK", "ok"};
    if (code == TC_OK)
        return &ok;
    for (size_t i = 1; i < TCI_ARRAY_LEN(codes); i++) {
        if (codes[i].number == code)
            return &codes[i];
    }
    return &codes[0]; /* INTERNAL is first in the table */
}

const char *tc_code_name(int code)
{
    return facts(code)->name;
}
const char *tc_code_text(int code)
{
    return facts(code)->text;
}
int tc_code_exit_status(int code)
{
    return facts(code)->exit_status;
}
bool tc_code_can_retry(int code)
{
    return facts(code)->can_retry;
}
