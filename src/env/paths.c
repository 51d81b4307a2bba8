/* SPDX-License-Identifier: Apache-2.0
 *
 * Paths of another machine with '/' between parts, by name only: nothing is looked at. Windows as
 * pi-env spells it is in paths_win.c; EIP's "/C:/x" is here. Any thread. Invariant: a resolved path
 * has no ".", no "..", and ends in no slash but a root's. */
#include "env/env.h"

#include "base/utf8.h"

/* "/", "/C:/" and "/UNC/server/share/" are roots: how many bytes cannot be left by "..". */
static size_t root_len(tc_str path)
{
    bool has_drive = path.len >= 3 && path.ptr[2] == ':' &&
                     ((path.ptr[1] >= 'A' && path.ptr[1] <= 'Z') ||
                      (path.ptr[1] >= 'a' && path.ptr[1] <= 'z')) &&
                     (path.len == 3 || path.ptr[3] == '/');
    return has_drive ? tci_min_size(path.len, 4) : 1;
}

static bool has_nul(tc_str s)
{
    return s.len > 0 && memchr(s.ptr, 0, s.len) != NULL;
}

bool tci_env_is_absolute(tc_str path)
{
    return path.len > 0 && path.ptr[0] == '/' && !has_nul(path);
}

/* Add the parts of path to out, which holds an absolute path of at least root bytes. */
static size_t add_parts(char *out, size_t len, size_t root, tc_str path)
{
    tc_str part;
    while (tci_str_split(&path, '/', &part)) {
        if (part.len == 0 || tci_str_eq(part, TC_STR(".")))
            continue;
        if (tci_str_eq(part, TC_STR(".."))) {
            while (len > root && out[len - 1] != '/')
                len--;
            if (len > root)
                len--;
            continue;
        }
        if (out[len - 1] != '/')
            out[len++] = '/';
        memcpy(out + len, part.ptr, part.len);
        len += part.len;
    }
    return len;
}

int tci_env_resolve(tc_str cwd, tc_str path, tci_arena *a, tc_str *ret_path, tc_err *err)
{
    if (has_nul(path))
        return tc_err_set(err, TC_E_INVALID, "a path with a NUL byte");
    tc_str base = tci_env_is_absolute(path) ? path : cwd;
    if (!tci_env_is_absolute(base))
        return tc_err_set(err, TC_E_NOT_READY, "the working directory is not known yet");
    char *out = tci_arena_bytes(a, cwd.len + path.len + 3);
    if (out == NULL)
        return tci_arena_error(a, err);
    size_t root = root_len(base);
    memcpy(out, base.ptr, root);
    size_t len = root;
    len = add_parts(out, len, root, tci_str_sub(base, root, SIZE_MAX));
    if (base.ptr != path.ptr)
        len = add_parts(out, len, root, path);
    *ret_path = tci_str_of(out, len);
    return 0;
}

/* ---- "~" and URLs ---- */

bool tci_env_is_home_path(bool is_windows, tc_str path)
{
    if (path.len == 0 || path.ptr[0] != '~')
        return false;
    return path.len == 1 || path.ptr[1] == '/' || (is_windows && path.ptr[1] == '\\');
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* The path part of a URL, decoded into out, which has room for all of it. False for an encoded slash,
 * and for what is not text afterwards. */
static bool decode_url(tc_str s, char *out, size_t *ret_len)
{
    size_t n = 0;
    for (size_t i = 0; i < s.len; i++) {
        char c = s.ptr[i];
        if (c == '\\')
            c = '/'; /* as URLs of files have it */
        if (c == '%') {
            int high = i + 1 < s.len ? hex_value(s.ptr[i + 1]) : -1;
            int low = i + 2 < s.len ? hex_value(s.ptr[i + 2]) : -1;
            if (high < 0 || low < 0)
                return false;
            c = (char)(high * 16 + low);
            if (c == '/')
                return false;
            i += 2;
        }
        out[n++] = c;
    }
    *ret_len = n;
    return tci_utf8_is_valid(tci_str_of(out, n));
}

static bool is_local_host(tc_str host)
{
    return host.len == 0 || tci_str_eq_nocase(host, TC_STR("localhost"));
}

/* "file:///x" and "file://localhost/x": *path becomes the decoded path. Anything else stays. */
static int take_file_url(tc_str *path, tci_arena *a, tc_err *err)
{
    static const char scheme[] = "file://";
    size_t n = sizeof scheme - 1;
    if (path->len < n || !tci_str_eq_nocase(tci_str_sub(*path, 0, n), TC_STR("file://")))
        return 0;
    tc_str rest = tci_str_sub(*path, n, SIZE_MAX);
    rest = tci_str_sub(rest, 0, tci_str_find_byte(rest, '#'));
    rest = tci_str_sub(rest, 0, tci_str_find_byte(rest, '?'));
    size_t slash = tci_min_size(tci_str_find_byte(rest, '/'), tci_str_find_byte(rest, '\\'));
    if (!is_local_host(tci_str_sub(rest, 0, slash)))
        return 0;
    rest = tci_str_sub(rest, slash, SIZE_MAX);
    if (rest.len == 0)
        rest = TC_STR("/");
    char *out = tci_arena_bytes(a, rest.len);
    size_t len;
    if (out == NULL)
        return tci_arena_error(a, err);
    if (decode_url(rest, out, &len))
        *path = tci_str_of(out, len);
    return 0;
}

/* "~/a" is home and "/a". */
static int take_home(const tci_env_place *place, tc_str *path, tci_arena *a, tc_err *err)
{
    if (!tci_env_is_home_path(place->is_windows, *path))
        return 0;
    if (place->home.len == 0)
        return tc_err_set(err, TC_E_NOT_FOUND, "there is no home folder for '%.*s'",
                          TC_STR_ARG(*path));
    return tci_arena_printf(a, path, err, "%.*s%.*s", TC_STR_ARG(place->home),
                            TC_STR_ARG(tci_str_sub(*path, 1, SIZE_MAX)));
}

int tci_env_resolve_at(const tci_env_place *place, tc_str cwd, tc_str path, tci_arena *a,
                       tc_str *ret_path, tc_err *err)
{
    if (has_nul(path))
        return tc_err_set(err, TC_E_INVALID, "a path with a NUL byte");
    int rc = take_home(place, &path, a, err);
    if (rc == 0)
        rc = take_file_url(&path, a, err);
    if (rc < 0)
        return rc;
    return place->is_windows ? tci_win_resolve(place, cwd, path, a, ret_path, err)
                             : tci_env_resolve(cwd, path, a, ret_path, err);
}

/* ---- joining ---- */

/* Normalise what is in out, which may be relative: ".." that lead out of it stay. */
static size_t normalise(const char *joined, size_t joined_len, char *out)
{
    tc_str rest = tci_str_of(joined, joined_len), part;
    bool is_absolute = joined_len > 0 && joined[0] == '/';
    bool is_folder = joined_len > 0 && joined[joined_len - 1] == '/';
    size_t root = 0, len = 0;
    if (is_absolute)
        out[len++] = '/';
    root = len;
    while (tci_str_split(&rest, '/', &part)) {
        if (part.len == 0 || tci_str_eq(part, TC_STR(".")))
            continue;
        if (tci_str_eq(part, TC_STR(".."))) {
            if (len > root) {
                while (len > root && out[len - 1] != '/')
                    len--;
                len -= len > root ? 1 : 0;
                continue;
            }
            if (is_absolute)
                continue;
        }
        if (len > 0 && out[len - 1] != '/')
            out[len++] = '/';
        memcpy(out + len, part.ptr, part.len);
        len += part.len;
        if (tci_str_eq(part, TC_STR("..")))
            root = len; /* nothing above it can be taken back */
    }
    if (len == 0)
        out[len++] = '.';
    if (is_folder && out[len - 1] != '/')
        out[len++] = '/';
    return len;
}

int tci_env_join(bool is_windows, const tc_str *parts, size_t nparts, tci_arena *a,
                 tc_str *ret_path, tc_err *err)
{
    if (is_windows)
        return tci_win_join(parts, nparts, a, ret_path, err);
    size_t size = 3;
    for (size_t i = 0; i < nparts; i++)
        size += parts[i].len + 1;
    char *joined = tci_arena_bytes(a, size), *out = tci_arena_bytes(a, size);
    if (joined == NULL || out == NULL)
        return tci_arena_error(a, err);
    size_t len = 0;
    for (size_t i = 0; i < nparts; i++) {
        if (parts[i].len == 0)
            continue;
        if (len > 0)
            joined[len++] = '/';
        memcpy(joined + len, parts[i].ptr, parts[i].len);
        len += parts[i].len;
    }
    *ret_path = tci_str_of(out, normalise(joined, len, out));
    return 0;
}

tc_str tci_env_base_name(bool is_windows, tc_str path)
{
    size_t at = path.len;
    while (at > 0 && path.ptr[at - 1] != '/' && !(is_windows && path.ptr[at - 1] == '\\'))
        at--;
    return tci_str_sub(path, at, SIZE_MAX);
}
