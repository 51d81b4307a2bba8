/* SPDX-License-Identifier: Apache-2.0
 *
 * What the compiler can do for us, under one set of names. */
#ifndef TCI_COMPILER_H
#define TCI_COMPILER_H

#include <telechir/base.h>

#define TCI_ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
#define TCI_CONTAINER(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))
#define TCI_UNUSED(x) ((void)(x))
#define TCI_LIKELY(x) __builtin_expect(!!(x), 1)
#define TCI_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define TCI_CLEANUP(fn) __attribute__((cleanup(fn)))
#define TCI_NORETURN __attribute__((noreturn))
#define TCI_FALLTHROUGH __attribute__((fallthrough))

/* For our own mistakes, never for input: prints file and line, aborts. */
TCI_NORETURN void tci_assert_failed(const char *file, int line, const char *what);
#define TC_ASSERT(cond) (TCI_LIKELY(cond) ? (void)0 : tci_assert_failed(__FILE__, __LINE__, #cond))

#endif
