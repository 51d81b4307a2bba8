/* SPDX-License-Identifier: Apache-2.0
 *
 * The words every other public header uses: visibility, "must check", borrowed text. */
#ifndef TELECHIR_BASE_H
#define TELECHIR_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(_WIN32)
#define TC_API
#elif defined(__GNUC__)
#define TC_API __attribute__((visibility("default")))
#else
#define TC_API
#endif

#if defined(__GNUC__)
#define TC_CHECKED __attribute__((warn_unused_result))
#define TC_PRINTF(fmt, first) __attribute__((format(printf, fmt, first)))
#else
#define TC_CHECKED
#define TC_PRINTF(fmt, first)
#endif

/* Borrowed bytes: a pointer and a length, not NUL-terminated. Who lends them says how long they
 * live; "borrowed" without more means for the call only. ptr may be NULL when len is 0. */
typedef struct tc_str {
    const char *ptr;
    size_t len;
} tc_str;

/* TC_STR("text") is a constant tc_str; "%.*s" takes TC_STR_ARG(s). */
#ifdef __cplusplus
#define TC_STR(literal) (tc_str{"" literal, sizeof(literal) - 1})
#else
#define TC_STR(literal) ((tc_str){"" literal, sizeof(literal) - 1})
#endif
#define TC_STR_ARG(s) (int)(s).len, (s).ptr != NULL ? (s).ptr : ""

#ifdef __cplusplus
}
#endif
#endif
