/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads /proc/self/mountinfo (proc(5)). Any thread; one at a time per list.
 *
 * Invariant: points are slices of text, unescaped in place. */
#include "plat/mounts.h"

#include "plat/file.h"

enum { MOUNTINFO_MAX = 4 * 1024 * 1024, POINT_FIELD = 4 };
#define FRESH_NS INT64_C(5000000000)

static tci_mount_kind kind_of_type(tc_str type)
{
    static const char *const types[] = {"nfs",  "nfs4",  "cifs",     "smb3",      "9p",
                                        "ceph", "afs",   "coda",     "glusterfs", "lustre",
                                        "gfs2", "ocfs2", "virtiofs", "autofs"};
    if (tci_str_eq(type, TC_STR("tmpfs")) || tci_str_eq(type, TC_STR("ramfs")))
        return TCI_MOUNT_MEMORY;
    if (tci_str_starts(type, TC_STR("fuse")))
        return TCI_MOUNT_SLOW;
    for (size_t i = 0; i < TCI_ARRAY_LEN(types); i++) {
        if (tci_str_eq(type, tci_str(types[i])))
            return TCI_MOUNT_SLOW;
    }
    return TCI_MOUNT_DISK;
}

/* \ooo for blank, tab, newline and backslash. */
static size_t unescape(char *s, size_t len)
{
    size_t n = 0;
    for (size_t i = 0; i < len; i++) {
        if (s[i] == '\\' && i + 3 < len) {
            s[n++] = (char)(((s[i + 1] - '0') << 6) | ((s[i + 2] - '0') << 3) | (s[i + 3] - '0'));
            i += 3;
        } else {
            s[n++] = s[i];
        }
    }
    return n;
}

static void take_line(tci_mounts *m, tc_str line)
{
    tc_str point = TC_STR(""), field, rest = line;
    size_t dash = tci_str_find(line, TC_STR(" - "));
    tc_str tail = tci_str_sub(line, dash + 3, line.len);
    for (int i = 0; i <= POINT_FIELD && tci_str_split(&rest, ' ', &field); i++)
        point = field;
    if (dash == line.len || point.len == 0)
        return;
    tci_mount *grown = tci_mem_resize(m->items, (m->count + 1) * sizeof *grown);
    if (grown == NULL)
        return; /* a mount that is not known counts as what it lies on */
    m->items = grown;
    tci_mount *it = &m->items[m->count++];
    it->kind = kind_of_type(tci_str_sub(tail, 0, tci_str_find_byte(tail, ' ')));
    point.len = unescape(m->text + (point.ptr - m->text), point.len);
    it->point = point;
    m->nslow += it->kind == TCI_MOUNT_SLOW;
}

void tci_mounts_refresh(tci_mounts *m, int64_t now_ns)
{
    tc_err err;
    size_t len;
    tc_str rest, line;
    if (m->loaded_ns != 0 && now_ns - m->loaded_ns < FRESH_NS)
        return;
    tci_mounts_done(m);
    m->loaded_ns = now_ns;
    if (tci_file_read_whole(TCI_FILE_CWD, TC_STR("/proc/self/mountinfo"), MOUNTINFO_MAX, &m->text,
                            &len, &err) < 0) {
        m->text = NULL;
        return;
    }
    rest = tci_str_of(m->text, len);
    while (tci_str_split(&rest, '\n', &line))
        take_line(m, line);
}

void tci_mounts_done(tci_mounts *m)
{
    tci_free(m->text);
    tci_free(m->items);
    memset(m, 0, sizeof *m);
}

static bool is_below(tc_str path, tc_str point)
{
    return tci_str_starts(path, point) &&
           (path.len == point.len || path.ptr[point.len] == '/' || point.len == 1);
}

tci_mount_kind tci_mounts_kind_of(const tci_mounts *m, tc_str path)
{
    const tci_mount *best = NULL;
    for (size_t i = 0; i < m->count; i++) { /* of equal points the last one is on top */
        if (is_below(path, m->items[i].point) &&
            (best == NULL || m->items[i].point.len >= best->point.len))
            best = &m->items[i];
    }
    return best != NULL ? best->kind : TCI_MOUNT_SLOW;
}
