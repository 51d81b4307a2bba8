/* SPDX-License-Identifier: Apache-2.0
 *
 * Paths of a Windows machine as pi-env has them: "C:\x", "\\server\share\x", either slash accepted.
 * By name only; any thread. Invariant: a resolved path begins with a drive or a share, has '\'
 * between its parts, and ends in one only after a root. */
#include "env/env.h"

static bool is_slash(char c)
{
    return c == '\\' || c == '/';
}

static bool is_letter(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

/* What a path begins with.
 *   device    "C:" or "\\server\share" (any slashes): its bytes, 0 without one
 *   len       all that ".." cannot leave, in bytes of the path
 *   is_full   it does not depend on a working directory of that device */
typedef struct win_root {
    size_t device, len;
    bool is_full;
} win_root;

/* Bytes of "\\server\share" at the start, or 0. */
static size_t share_len(tc_str p)
{
    if (p.len < 5 || !is_slash(p.ptr[0]) || !is_slash(p.ptr[1]) || is_slash(p.ptr[2]))
        return 0;
    size_t at = 2;
    while (at < p.len && !is_slash(p.ptr[at]))
        at++;
    while (at < p.len && is_slash(p.ptr[at]))
        at++;
    size_t share = at;
    while (at < p.len && !is_slash(p.ptr[at]))
        at++;
    return at > share ? at : 0;
}

static win_root root_of(tc_str p)
{
    size_t share = share_len(p);
    if (share > 0)
        return (win_root){share, share, true};
    if (p.len >= 2 && is_letter(p.ptr[0]) && p.ptr[1] == ':')
        return (win_root){2, 2, p.len > 2 && is_slash(p.ptr[2])};
    return (win_root){0, 0, p.len > 0 && is_slash(p.ptr[0])};
}

bool tci_win_is_absolute(tc_str path)
{
    win_root r = root_of(path);
    return r.device > 0 && r.is_full;
}

static bool next_part(tc_str *rest, tc_str *ret_part)
{
    while (rest->len > 0 && is_slash(rest->ptr[0]))
        *rest = tci_str_sub(*rest, 1, SIZE_MAX);
    size_t n = 0;
    while (n < rest->len && !is_slash(rest->ptr[n]))
        n++;
    *ret_part = tci_str_sub(*rest, 0, n);
    *rest = tci_str_sub(*rest, n, SIZE_MAX);
    return n > 0;
}

/* Add the parts of path to out; floor is what ".." cannot leave. is_relative: ".." without a part to
 * take back stays. */
static size_t add_parts(char *out, size_t len, size_t *floor, tc_str path, bool is_relative)
{
    tc_str part;
    while (next_part(&path, &part)) {
        if (tci_str_eq(part, TC_STR(".")))
            continue;
        bool is_up = tci_str_eq(part, TC_STR(".."));
        if (is_up && len > *floor) {
            while (len > *floor && out[len - 1] != '\\')
                len--;
            len -= len > *floor ? 1 : 0;
            continue;
        }
        if (is_up && !is_relative)
            continue;
        if (len > 0 && out[len - 1] != '\\' && !(is_relative && out[len - 1] == ':'))
            out[len++] = '\\';
        memcpy(out + len, part.ptr, part.len);
        len += part.len;
        if (is_up)
            *floor = len;
    }
    return len;
}

/* A device at the start of out: "C:\" or "\\server\share\". */
static size_t put_device(char *out, tc_str device)
{
    size_t len = 0;
    tc_str part, rest = device;
    if (device.len == 2) {
        memcpy(out, device.ptr, 2);
        out[2] = '\\';
        return 3;
    }
    out[len++] = '\\';
    while (next_part(&rest, &part)) {
        out[len++] = '\\';
        memcpy(out + len, part.ptr, part.len);
        len += part.len;
    }
    out[len++] = '\\';
    return len;
}

static bool is_same_device(tc_str a, tc_str b)
{
    return tci_str_eq_nocase(a, b);
}

/* The path that a drive-relative one starts from: the daemon's folder when it is on that drive. */
static tc_str base_of_drive(const tci_env_place *place, tc_str cwd, tc_str device)
{
    tc_str candidates[] = {cwd, place->first_cwd};
    for (size_t i = 0; i < TCI_ARRAY_LEN(candidates); i++) {
        win_root r = root_of(candidates[i]);
        if (r.is_full && is_same_device(tci_str_sub(candidates[i], 0, r.device), device))
            return candidates[i];
    }
    return (tc_str){0};
}

int tci_win_resolve(const tci_env_place *place, tc_str cwd, tc_str path, tci_arena *a,
                    tc_str *ret_path, tc_err *err)
{
    if (path.len > 3 && is_slash(path.ptr[0]) && is_letter(path.ptr[1]) && path.ptr[2] == ':' &&
        is_slash(path.ptr[3]))
        path = tci_str_sub(path, 1, SIZE_MAX); /* of a URL: "/C:/x" */
    win_root r = root_of(path), base = root_of(cwd);
    if (r.device == 0 && (base.device == 0 || !base.is_full))
        return tc_err_set(err, TC_E_NOT_READY, "the working directory is not known yet");
    tc_str device =
        r.device > 0 ? tci_str_sub(path, 0, r.device) : tci_str_sub(cwd, 0, base.device);
    tc_str from = r.is_full ? (tc_str){0} : base_of_drive(place, cwd, device);
    char *out = tci_arena_bytes(a, cwd.len + path.len + place->first_cwd.len + 8);
    if (out == NULL)
        return tci_arena_error(a, err);
    size_t len = put_device(out, device), floor = len;
    if (from.len > 0)
        len = add_parts(out, len, &floor, tci_str_sub(from, root_of(from).len, SIZE_MAX), false);
    len = add_parts(out, len, &floor, tci_str_sub(path, r.len, SIZE_MAX), false);
    *ret_path = tci_str_of(out, len);
    return 0;
}

int tci_win_join(const tc_str *parts, size_t nparts, tci_arena *a, tc_str *ret_path, tc_err *err)
{
    size_t size = 8, len = 0;
    for (size_t i = 0; i < nparts; i++)
        size += parts[i].len + 1;
    char *joined = tci_arena_bytes(a, size), *out = tci_arena_bytes(a, size);
    if (joined == NULL || out == NULL)
        return tci_arena_error(a, err);
    for (size_t i = 0; i < nparts; i++) {
        if (parts[i].len == 0)
            continue;
        if (len > 0)
            joined[len++] = '\\';
        memcpy(joined + len, parts[i].ptr, parts[i].len);
        len += parts[i].len;
    }
    tc_str all = tci_str_of(joined, len);
    win_root r = root_of(all);
    bool is_folder = len > r.len && is_slash(joined[len - 1]);
    size_t n = 0, floor;
    if (r.device > 0)
        n = put_device(out, tci_str_sub(all, 0, r.device)) - (r.is_full ? 0 : 1);
    else if (r.is_full)
        out[n++] = '\\';
    floor = n;
    n = add_parts(out, n, &floor, tci_str_sub(all, r.len, SIZE_MAX), !r.is_full);
    if (n == 0 || (r.device > 0 && !r.is_full && n == r.device))
        out[n++] = '.';
    if (is_folder && out[n - 1] != '\\')
        out[n++] = '\\';
    *ret_path = tci_str_of(out, n);
    return 0;
}
