/* SPDX-License-Identifier: Apache-2.0
 *
 * One directory's names: read in one go, sorted by merging with an eight-byte key in front of the
 * text. Leaves to others: which directory, which rules. Any thread; shared objects (more than one
 * reference) are only read. Invariant: items point into bytes. */
#include "ops/names_int.h"
#include "base/mem.h"
#include "base/utf8.h"

tci_names *tci_names_new(void)
{
    tci_names *n = tci_new(tci_names);
    if (n != NULL)
        atomic_init(&n->refs, 1);
    return n;
}

void tci_names_unref(tci_names *n)
{
    if (n == NULL || atomic_fetch_sub(&n->refs, 1) != 1)
        return;
    tci_free(n->bytes);
    tci_free(n->items);
    tci_free(n);
}

size_t tci_names_bytes(const tci_names *n)
{
    return sizeof *n + n->bytes_cap + n->cap * sizeof n->items[0];
}

static int grow_items(tci_names *n, size_t count, tc_err *err)
{
    if (count <= n->cap)
        return 0;
    size_t cap = n->cap < 64 ? 64 : n->cap + n->cap / 2;
    cap = cap < count ? count : cap;
    tci_name *items = tci_mem_resize(n->items, cap * sizeof *items);
    if (items == NULL)
        return tci_err_no_memory(err);
    n->items = items;
    n->cap = cap;
    return 0;
}

static int add(tci_names *n, tc_str name, tci_dir_kind kind, tc_err *err)
{
    if (n->nbytes + name.len + 1 > n->bytes_cap) {
        size_t cap = n->bytes_cap < 1024 ? 2048 : n->bytes_cap * 2;
        if (cap > UINT32_MAX || name.len >= UINT16_MAX)
            return tc_err_set(err, TC_E_TOO_BIG, "too many names in one directory");
        char *bytes = tci_mem_resize(n->bytes, cap);
        if (bytes == NULL)
            return tci_err_no_memory(err);
        n->bytes = bytes;
        n->bytes_cap = cap;
    }
    int rc = grow_items(n, n->count + 1, err);
    if (rc < 0)
        return rc;
    n->items[n->count++] =
        (tci_name){.off = (uint32_t)n->nbytes, .len = (uint16_t)name.len, .kind = (uint8_t)kind};
    memcpy(n->bytes + n->nbytes, name.ptr, name.len);
    n->bytes[n->nbytes + name.len] = '/';
    n->nbytes += name.len + 1;
    return 0;
}

int tci_names_read(tci_names *n, const tci_dir *d, unsigned flags, char *buf, tc_err *err)
{
    n->nbytes = n->count = 0;
    n->omitted = n->visited = 0;
    n->has_ignore_file = false;
    n->flags = flags;
    tci_dir_reader r;
    tci_dir_entry e;
    int rc = tci_dir_read_start(&r, d, buf, err);
    if (rc < 0)
        return rc;
    while ((rc = tci_dir_read_next(&r, &e, err)) > 0) {
        n->visited++;
        if (!(flags & TCI_NAMES_RAW) && !tci_utf8_is_valid(e.name)) {
            n->omitted++;
            continue;
        }
        if (e.name.ptr[0] == '.') {
            if (tci_str_eq(e.name, TC_STR(".gitignore")))
                n->has_ignore_file = true;
            if (!(flags & TCI_NAMES_HIDDEN) ||
                ((flags & TCI_NAMES_NO_GIT) && tci_str_eq(e.name, TC_STR(".git"))))
                continue;
        }
        if (e.kind == TCI_DIR_KIND_UNKNOWN && !(flags & TCI_NAMES_NO_KIND)) {
            tci_dir_stat st;
            if (tci_dir_stat_at(d, e.name.ptr, false, &st, err) < 0)
                continue; /* gone, or not for us */
            e.kind = st.kind;
        }
        rc = add(n, e.name, e.kind, err);
        if (rc < 0)
            return rc;
    }
    return rc;
}

void tci_names_drop(tci_names *n, bool (*drop)(void *ctx, tc_str name, tci_dir_kind kind),
                    void *ctx)
{
    size_t kept = 0;
    for (size_t i = 0; i < n->count; i++)
        if (!drop(ctx, tci_names_text(n, &n->items[i]), (tci_dir_kind)n->items[i].kind))
            n->items[kept++] = n->items[i];
    n->count = kept;
}

/* ---- sorting ---- */

static size_t common_prefix(const tci_names *n)
{
    size_t len = n->items[0].len;
    const char *first = n->bytes + n->items[0].off;
    for (size_t i = 1; i < n->count && len > 0; i++) {
        const char *s = n->bytes + n->items[i].off;
        size_t limit = n->items[i].len < len ? n->items[i].len : len, k = 0;
        while (k < limit && s[k] == first[k])
            k++;
        len = k;
    }
    return len;
}

static uint64_t key_of(tc_str s, size_t from)
{
    uint64_t key = 0;
    for (size_t i = 0; i < 8; i++)
        key = key << 8 | (from + i < s.len ? (unsigned char)s.ptr[from + i] : 0);
    return key;
}

/* A name holds no NUL, so equal keys mean equal bytes as far as both reach. */
static inline bool is_less(const tci_names *n, const tci_name *a, const tci_name *b)
{
    if (a->key != b->key)
        return a->key < b->key;
    return tci_str_cmp(tci_names_text(n, a), tci_names_text(n, b)) < 0;
}

static void insertion_sort(const tci_names *n, tci_name *v, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        tci_name x = v[i];
        size_t j = i;
        for (; j > 0 && is_less(n, &x, &v[j - 1]); j--)
            v[j] = v[j - 1];
        v[j] = x;
    }
}

static void merge(const tci_names *n, const tci_name *from, size_t mid, size_t count, tci_name *to)
{
    size_t a = 0, b = mid;
    for (size_t k = 0; k < count; k++) {
        bool take_b = a == mid || (b < count && is_less(n, &from[b], &from[a]));
        to[k] = take_b ? from[b++] : from[a++];
    }
}

enum { SORT_RUN = 16 };

/* Bottom up: runs, then merges to and fro. */
static void merge_sort(tci_names *n, tci_name *scratch)
{
    tci_name *from = n->items, *to = scratch;
    for (size_t i = 0; i < n->count; i += SORT_RUN)
        insertion_sort(n, from + i, n->count - i < SORT_RUN ? n->count - i : SORT_RUN);
    for (size_t width = SORT_RUN; width < n->count; width *= 2) {
        for (size_t i = 0; i < n->count; i += 2 * width) {
            size_t count = n->count - i < 2 * width ? n->count - i : 2 * width;
            merge(n, from + i, count < width ? count : width, count, to + i);
        }
        tci_name *t = from;
        from = to;
        to = t;
    }
    if (from != n->items)
        memcpy(n->items, from, n->count * sizeof *from);
}

int tci_names_sort(tci_names *n, bool with_descents, tc_err *err)
{
    if (with_descents) {
        size_t ndirs = 0, count = n->count;
        for (size_t i = 0; i < count; i++)
            ndirs += n->items[i].kind == TCI_DIR_KIND_DIRECTORY;
        int rc = grow_items(n, count + ndirs, err);
        if (rc < 0)
            return rc;
        for (size_t i = 0; i < count; i++) {
            if (n->items[i].kind != TCI_DIR_KIND_DIRECTORY)
                continue;
            tci_name below = n->items[i];
            below.is_descent = true;
            below.len++;
            n->items[n->count++] = below;
        }
    }
    if (n->count < 2)
        return 0;
    size_t prefix = common_prefix(n);
    for (size_t i = 0; i < n->count; i++)
        n->items[i].key = key_of(tci_names_text(n, &n->items[i]), prefix);
    if (n->count <= SORT_RUN) {
        insertion_sort(n, n->items, n->count);
        return 0;
    }
    tci_name *scratch = tci_mem_resize(NULL, n->count * sizeof *scratch);
    if (scratch == NULL)
        return tci_err_no_memory(err);
    merge_sort(n, scratch);
    tci_free(scratch);
    return 0;
}

size_t tci_names_seek(const tci_names *n, tc_str after, bool is_inclusive, bool *ret_enter)
{
    size_t low = 0, high = n->count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        int order = tci_str_cmp(tci_names_text(n, &n->items[mid]), after);
        if (order < 0 || (order == 0 && !is_inclusive))
            low = mid + 1;
        else
            high = mid;
    }
    *ret_enter = low > 0 && n->items[low - 1].is_descent &&
                 tci_str_starts(after, tci_names_text(n, &n->items[low - 1]));
    return *ret_enter ? low - 1 : low;
}
