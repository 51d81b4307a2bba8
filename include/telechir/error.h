/* SPDX-License-Identifier: Apache-2.0
 *
 * The error value. A function that can fail returns 0 or a negative tc_code and fills the tc_err
 * it was given last; the return value is the answer, *err is read only after a failure. */
#ifndef TELECHIR_ERROR_H
#define TELECHIR_ERROR_H

#include <telechir/base.h>
#include <telechir/error_codes.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { TC_ERR_MSG_MAX = 384, TC_ERR_HINT_MAX = 384 };

/* A plain value on the caller's stack: no heap, may be copied and sent to another thread.
 *   code   what to act on
 *   cause  the first code, when a caller changed it on the way up
 *   os     errno, or the Windows error value; 0 when the system was not involved
 *   file, line   where it was found (static storage)
 *   msg    what failed, lower case, no full stop; cut when too long, never a secret
 *   hint   what to do about it; empty when there is nothing to say */
typedef struct tc_err {
    tc_code code;
    tc_code cause;
    int os;
    int line;
    const char *file;
    char msg[TC_ERR_MSG_MAX];
    char hint[TC_ERR_HINT_MAX];
} tc_err;

/* Set *err and return code, so that a caller writes `return tc_err_set(err, TC_E_INVALID, ...)`. */
#define tc_err_set(err, code, ...) tc_err_set_at((err), __FILE__, __LINE__, (code), 0, __VA_ARGS__)
/* The same with the system's error number, whose text is appended as ": text". */
#define tc_err_set_os(err, code, os, ...) \
    tc_err_set_at((err), __FILE__, __LINE__, (code), (os), __VA_ARGS__)

TC_API int tc_err_set_at(tc_err *err, const char *file, int line, tc_code code, int os,
                         const char *fmt, ...) TC_PRINTF(6, 7);

/* Put "what I was doing" before the message: "fmt: old message". Returns err->code. */
TC_API int tc_err_wrap(tc_err *err, const char *fmt, ...) TC_PRINTF(2, 3);

/* Change what the caller should act on, keeping the first code in cause. Returns code. */
TC_API int tc_err_recode(tc_err *err, tc_code code);

/* Say what to do. Replaces an earlier hint. Returns err->code. */
TC_API int tc_err_hint(tc_err *err, const char *fmt, ...) TC_PRINTF(2, 3);

/* Facts of a code, from protocol/errors.json. Unknown codes answer as INTERNAL does.
 * name: "NOT_FOUND"; text: "not found"; exit status: what the command exits with; can_retry: the
 * same call may succeed later unchanged. Static storage. Any thread. */
TC_API const char *tc_code_name(int code);
TC_API const char *tc_code_text(int code);
TC_API int tc_code_exit_status(int code);
TC_API bool tc_code_can_retry(int code);

#ifdef __cplusplus
}
#endif
#endif
