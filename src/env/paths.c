/* SPDX-License-Identifier: Apache-2.0
 *
 * Paths of a device: absolute, '/' between parts. By name only, nothing is looked at. Any thread.
 * Invariant: a resolved path has no ".", no "..", and ends in no slash but a root's. */
#include "env/env.h"

/* "/", "/C:/" and "/UNC/server/share/" are roots: how many bytes cannot be left by "..". */
static size_t root_len(tc_str path)
{
    bool has_drive = path.len >= 3 && path.ptr[2] == ':' &&
                     ((path.ptr[1] >= 'A' && path.ptr[1] <= 'Z') ||
                      (path.ptr[1] >= 'a' && path.ptr[1] <= 'z')) &&
                     (path.len == 3 || path.ptr[3] == '/');
    return has_drive ? tci_min_size(path.len, 4) : 1;
}

bool tci_env_is_absolute(tc_str path)
{
    return path.len > 0 && path.ptr[0] == '/' && memchr(path.ptr, 0, path.len) == NULL;
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
    if (path.len > 0 && memchr(path.ptr, 0, path.len) != NULL)
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
