/* SPDX-License-Identifier: Apache-2.0
 *
 * Forms of text on the wire (paths, digests, versions, lengths), and messages that name the place
 * of a fault. Pure functions of their arguments; any thread. Text is valid UTF-8 already. */
#include "proto/proto_int.h"
#include "base/utf8.h"
#include <stdio.h>

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* "/C:/" or "/UNC/server/share/": the only paths but "/" that end in a slash. */
static bool is_windows_root(tc_str s)
{
    if (s.len == 4)
        return is_letter(s.ptr[1]) && s.ptr[2] == ':';
    if (!tci_str_starts(s, TC_STR("/UNC/")))
        return false;
    tc_str rest = tci_str_sub(s, 5, s.len - 6);
    size_t at = tci_str_find_byte(rest, '/');
    return at > 0 && at + 1 < rest.len &&
           tci_str_find_byte(tci_str_sub(rest, at + 1, rest.len), '/') == rest.len - at - 1;
}

const char *tci_proto_path_fault(tc_str s)
{
    if (s.len == 0 || s.ptr[0] != '/')
        return "not absolute";
    if (s.len == 1)
        return NULL;
    if (memchr(s.ptr, 0, s.len) != NULL)
        return "holds a NUL";
    const char *end = s.ptr + s.len;
    if (end[-1] == '/') {
        if (!is_windows_root(s))
            return "ends in a slash";
        end--;
    }
    for (const char *p = s.ptr; p < end;) {
        const char *part = p + 1;
        p = memchr(part, '/', (size_t)(end - part));
        if (p == NULL)
            p = end;
        size_t len = (size_t)(p - part);
        if (len == 0)
            return "has an empty part";
        if (part[0] == '.' && (len == 1 || (len == 2 && part[1] == '.')))
            return "has a '.' or '..' part";
    }
    return NULL;
}

const char *tci_proto_sha256_fault(tc_str s)
{
    if (s.len != 64)
        return "not 64 hex digits";
    for (size_t i = 0; i < s.len; i++)
        if (!is_digit(s.ptr[i]) && !(s.ptr[i] >= 'a' && s.ptr[i] <= 'f'))
            return "not lower-case hex digits";
    return NULL;
}

/* M.N without a leading zero in M, and not version zero. */
const char *tci_proto_version_fault(tc_str s)
{
    static const char fault[] = "not a version";
    bool is_zero = true;
    size_t dot = tci_str_find_byte(s, '.');
    if (dot == 0 || dot + 1 >= s.len || (s.ptr[0] == '0' && dot > 1))
        return fault;
    for (size_t i = 0; i < s.len; i++) {
        if (i != dot && !is_digit(s.ptr[i]))
            return fault;
        is_zero = is_zero && (i == dot || s.ptr[i] == '0');
    }
    return is_zero ? fault : NULL;
}

const char *tci_proto_length_fault(tc_str s, uint64_t min, uint64_t max)
{
    if (s.len < min)
        return s.len == 0 ? "empty" : "too short";
    if (s.len <= max && min <= 1)
        return NULL; /* as many characters as bytes at most, one at least */
    uint64_t n = tci_utf8_count(s);
    return n < min ? "too short" : n > max ? "too long" : NULL;
}

/* "a.b[3]" into out, cut on the left when it does not fit. */
static const char *path_text(const tci_step *step, char *out, size_t size)
{
    size_t at = size - 1;
    out[at] = '\0';
    for (; step != NULL; step = step->up) {
        char part[96];
        int n = step->key.ptr == NULL
                    ? snprintf(part, sizeof part, "[%zu]", step->index)
                    : snprintf(part, sizeof part, "%s%.*s", step->up != NULL ? "." : "",
                               step->key.len > 80 ? 80 : (int)step->key.len, step->key.ptr);
        if (n < 0 || (size_t)n > at)
            break;
        at -= (size_t)n;
        memcpy(out + at, part, (size_t)n);
    }
    return out + at;
}

int tci_proto_fail(tc_err *err, const tci_step *step, const char *what)
{
    char path[200];
    if (step == NULL)
        return tc_err_set(err, TC_E_INVALID, "%s", what);
    return tc_err_set(err, TC_E_INVALID, "%s: %s", path_text(step, path, sizeof path), what);
}

int tci_proto_fail_name(tc_err *err, const tci_step *step, const char *what, tc_str name)
{
    const tci_step last = {.up = step, .key = {name.ptr != NULL ? name.ptr : "", name.len}};
    return tci_proto_fail(err, &last, what);
}
