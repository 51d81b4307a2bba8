/* SPDX-License-Identifier: Apache-2.0
 *
 * The heap, and the only file that calls it. Leaves limits to whoever allocates. Any thread.
 * Invariant: with TCI_TESTING every allocation passes through may_allocate exactly once. */
#include "base/mem.h"
#include "base/num.h"
#include <stdlib.h>
#include <string.h>

#ifdef TCI_TESTING
#include <stdatomic.h>

static atomic_size_t fail_at, count;

void tci_mem_fail_at(size_t n)
{
    atomic_store(&fail_at, 0);
    atomic_store(&count, 0);
    atomic_store(&fail_at, n);
}

size_t tci_mem_count(void)
{
    return atomic_load(&count);
}

static bool may_allocate(void)
{
    size_t n = atomic_fetch_add_explicit(&count, 1, memory_order_relaxed) + 1;
    size_t limit = atomic_load_explicit(&fail_at, memory_order_relaxed);
    return limit == 0 || n < limit;
}
#else
static inline bool may_allocate(void)
{
    return true;
}
#endif

void *tci_mem_alloc(size_t size)
{
    return may_allocate() ? calloc(1, size != 0 ? size : 1) : NULL;
}

void *tci_mem_array(size_t nitems, size_t item_size)
{
    size_t size;
    return tci_mul_size(nitems, item_size, &size) ? tci_mem_alloc(size) : NULL;
}

/* What is read into and written from in bulk. The heap puts large blocks 16 bytes behind the start of a page, and
 * the kernel's copies between such an address and its own pages take twice the time: within a page, source and
 * destination then lie less than a vector register apart ("4K aliasing": Intel 64 and IA-32 Optimization
 * Reference Manual, Memory Disambiguation; AMD's processors have it, too). */
static void *bulk(size_t size)
{
    enum { BULK_ALIGN = 64 };
    return size <= SIZE_MAX - BULK_ALIGN
               ? aligned_alloc(BULK_ALIGN, (size + BULK_ALIGN - 1) & ~(size_t)(BULK_ALIGN - 1))
               : NULL;
}

void *tci_mem_resize(void *ptr, size_t size)
{
    enum { BULK_BYTES = 64 * 1024 };
    if (!may_allocate())
        return NULL;
    if (ptr == NULL && size >= BULK_BYTES)
        return bulk(size);
    return realloc(ptr, size != 0 ? size : 1);
}

void tci_mem_free(void *ptr)
{
    free(ptr);
}

char *tci_mem_cstr(tc_str s)
{
    size_t size;
    if (!tci_add_size(s.len, 1, &size))
        return NULL;
    char *copy = tci_mem_resize(NULL, size);
    if (copy == NULL)
        return NULL;
    if (s.len > 0)
        memcpy(copy, s.ptr, s.len);
    copy[s.len] = '\0';
    return copy;
}

void tci_mem_wipe(void *ptr, size_t size)
{
    if (size == 0)
        return;
    memset(ptr, 0, size);
    /* The compiler must believe that somebody looks at the zeros. */
    __asm__ volatile("" : : "r"(ptr) : "memory");
}
