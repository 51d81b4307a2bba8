/* SPDX-License-Identifier: Apache-2.0
 *
 * What every call needs: a runtime (one loop thread and every connection of an embedding
 * program), a context (deadline and cancel), and a result (where answers live).
 *
 * Calls block the calling thread, and any thread may call. A handle may be used by several threads
 * at once, but is closed by one, after the others have returned. Strings are UTF-8. */
#ifndef TELECHIR_RUNTIME_H
#define TELECHIR_RUNTIME_H

#include <telechir/error.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A context: when to stop waiting. The clock starts with new or reset. May serve any number of
 * calls, one after another or at the same time. A call that ends early reports TIMEOUT or
 * CANCELLED; what became of a change that was under way is in the evidence of its result. */
typedef struct tc_ctx tc_ctx;

/* timeout_ms: from now on; negative: no deadline. */
TC_API int tc_ctx_new(int64_t timeout_ms, tc_ctx **ret_ctx, tc_err *err) TC_CHECKED;
/* No call may be using it. NULL is fine. */
TC_API void tc_ctx_free(tc_ctx *ctx);
/* End all calls that use it, now and later. Any thread; safe in a signal handler. */
TC_API void tc_ctx_cancel(tc_ctx *ctx);
TC_API bool tc_ctx_is_cancelled(const tc_ctx *ctx);
/* Milliseconds left, at least 0; -1 without a deadline. */
TC_API int64_t tc_ctx_remaining_ms(const tc_ctx *ctx);
/* Not cancelled any more, and a new deadline. No call may be using it. */
TC_API void tc_ctx_reset(tc_ctx *ctx, int64_t timeout_ms);

/* Where what a call returns lives: every tc_str, array and nested struct handed out through ret_
 * parameters stays valid until the tc_result is cleared or freed. One result may serve many calls
 * one after another, and then keeps what all of them returned; it serves one call at a time. */
typedef struct tc_result tc_result;

TC_API int tc_result_new(tc_result **ret_result, tc_err *err) TC_CHECKED;
/* Forget contents and evidence, keep some memory for reuse. */
TC_API void tc_result_clear(tc_result *r);
TC_API void tc_result_free(tc_result *r); /* NULL is fine */
/* Copy into the result, so that it lives as long as the rest; NUL after the end. */
TC_API int tc_result_dup(tc_result *r, tc_str s, tc_str *ret, tc_err *err) TC_CHECKED;
/* Zeroed room for an object of size bytes, aligned for any, that lives as long as the rest. */
TC_API int tc_result_alloc(tc_result *r, size_t size, void **ret_room, tc_err *err) TC_CHECKED;

/* An instant, UTC. */
typedef struct tc_time {
    bool is_known;
    int32_t nsec; /* 0..999999999 */
    int64_t sec;  /* since 1970-01-01T00:00:00Z */
} tc_time;

/* What is known of a change. Never a guess:
 *   NONE         the call changes nothing, or did not get as far as being a change
 *   DONE         the other side answered: it ran to its end (with success or failure, see the
 *                return value and the receipt)
 *   NOT_STARTED  it provably had no effect
 *   UNKNOWN      it may or may not have happened, or only in part: look before repeating */
typedef enum tc_outcome {
    TC_OUTCOME_NONE = 0,
    TC_OUTCOME_DONE,
    TC_OUTCOME_NOT_STARTED,
    TC_OUTCOME_UNKNOWN
} tc_outcome;
TC_API const char *tc_outcome_name(tc_outcome outcome); /* "done"; static storage */

typedef enum tc_receipt_stage {
    TC_RECEIPT_NONE = 0,
    TC_RECEIPT_ACCEPTED,
    TC_RECEIPT_DISPATCHED,
    TC_RECEIPT_EXEC_CONFIRMED,
    TC_RECEIPT_COMPLETED,
    TC_RECEIPT_UNKNOWN
} tc_receipt_stage;

typedef enum tc_receipt_outcome {
    TC_RECEIPT_OUTCOME_NONE = 0, /* none stated */
    TC_RECEIPT_SUCCEEDED,
    TC_RECEIPT_FAILED,
    TC_RECEIPT_CANCELLED,
    TC_RECEIPT_TIMED_OUT,
    TC_RECEIPT_OUTCOME_UNKNOWN
} tc_receipt_outcome;

/* What the other side keeps about one change. */
typedef struct tc_receipt {
    tc_str operation_id, method, device_id, session_id;
    uint64_t generation;
    tc_str request_digest; /* 64 hex digits */
    tc_receipt_stage stage;
    tc_receipt_outcome outcome;
    tc_time observed_at;
} tc_receipt;

/* How an ExecutionEnv method failed, in the interface's own words; OK for every other call. */
typedef enum tc_env_error {
    TC_ENV_OK = 0,
    TC_ENV_ABORTED,
    TC_ENV_NOT_FOUND,
    TC_ENV_PERMISSION_DENIED,
    TC_ENV_NOT_DIRECTORY,
    TC_ENV_IS_DIRECTORY,
    TC_ENV_INVALID,
    TC_ENV_NOT_SUPPORTED,
    TC_ENV_UNKNOWN,
    TC_ENV_TIMEOUT, /* these four of commands only */
    TC_ENV_SHELL_UNAVAILABLE,
    TC_ENV_SPAWN_ERROR,
    TC_ENV_CALLBACK_ERROR
} tc_env_error;
TC_API const char *
tc_env_error_name(tc_env_error error); /* "not_found"; "" for OK; static storage */

/* What the last call with this result left behind, whether it succeeded or failed.
 *   operation_id   what the change can be asked about by; empty for calls without one
 *   receipt        stage is NONE when there is none
 *   error_type     the other side's own word, "not_found_or_denied"; empty without an error of its
 *   retry_hint     "never", "same_request", "after_refresh", "after_capacity", "reconcile_first"
 *   dispatch_stage "pre_dispatch", "completed", "unknown", ...
 *   field, detail  which parameter was refused, and why in one word; may be empty
 *   emitted_items  of an interrupted removal: entries removed so far
 *   env_error      of a failed ExecutionEnv method; path: the file it is about, absolute, may be
 *                  empty; spill_path: where a failed command's output was kept, may be empty
 *   is_lost        the link was lost, or never made: of a change it is not known whether it was done
 *                  unless outcome says so */
typedef struct tc_evidence {
    tc_outcome outcome;
    tc_str operation_id;
    tc_receipt receipt;
    tc_str error_type, retry_hint, dispatch_stage, field, detail;
    bool has_emitted_items;
    uint64_t emitted_items;
    tc_env_error env_error;
    tc_str path, spill_path;
    bool is_lost;
} tc_evidence;

/* Never NULL; valid until the next call with this result. */
TC_API const tc_evidence *tc_result_evidence(const tc_result *r);

/* How one call is to be made. TC_CALL(ctx, result) is enough for most.
 *   ctx           NULL: wait as long as it takes
 *   result        not NULL
 *   operation_id  of a change, 1..128 bytes, never used before in this session; empty: one is made
 *                 up (see the evidence). Give your own when you record it before the call
 *   timeout_ms    how long the other side may work on it; 0: what ctx has left, or its maximum */
typedef struct tc_call {
    size_t size;
    tc_ctx *ctx;
    tc_result *result;
    tc_str operation_id;
    uint64_t timeout_ms;
} tc_call;
#ifdef __cplusplus
#define TC_CALL(ctx, result) (tc_call{sizeof(tc_call), (ctx), (result), {0, 0}, 0})
#else
#define TC_CALL(ctx, result) ((tc_call){sizeof(tc_call), (ctx), (result), {0, 0}, 0})
#endif

/* Takes bytes as they arrive, on the calling thread, in order. 0 to go on; any other return ends
 * the call with that code (fill *err). */
typedef int (*tc_sink)(void *user, const void *bytes, size_t len, tc_err *err);
/* Gives the next 1..cap bytes, on the calling thread; *ret_len 0: no more. Fails as tc_sink. */
typedef int (*tc_source)(void *user, void *buf, size_t cap, size_t *ret_len, tc_err *err);

/* The runtime. Everything that was opened with it is closed with it: handles still held then answer
 * CLOSED and may only be freed. */
typedef struct tc_runtime tc_runtime;

/* Gives the value of a reference such as {"environment", "HOST_GITHUB_TOKEN"}: append it to the
 * result and point *ret_value at it. NOT_FOUND when there is none. Called on the calling thread. */
typedef int (*tc_secret_resolver)(void *user, tc_str kind, tc_str name, tc_result *r,
                                  tc_str *ret_value, tc_err *err);

/*   environment   "NAME=value" strings, NULL at the end, borrowed for the life of the runtime; NULL
 *                 takes the environment of the process as it is when the runtime is opened. Looked
 *                 at for A13N_OUTBOUND_TLS_VERIFY, HTTPS_PROXY, NO_PROXY, TELECHIRD_EXECUTABLE,
 *                 A13N_ENVD_EXECUTABLE, PATH, for secrets without a resolver; given to children
 *   client_name, client_version    how we present ourselves; empty: "telechir" and our version
 *   resolve_secret, resolve_user   instead of environment variables; NULL: those */
typedef struct tc_runtime_options {
    size_t size;
    const char *const *environment;
    tc_str client_name, client_version;
    tc_secret_resolver resolve_secret;
    void *resolve_user;
} tc_runtime_options;

/* options may be NULL. Starts one thread. */
TC_API int tc_runtime_open(const tc_runtime_options *options, tc_runtime **ret_runtime,
                           tc_err *err) TC_CHECKED;
/* Closes what is still open (sessions get a moment to end on the other side, daemon children end),
 * joins the thread. Not from a callback of ours. NULL is fine. */
TC_API void tc_runtime_close(tc_runtime *rt);

/* "0.1.0"; static storage. */
TC_API const char *tc_version(void);

#ifdef __cplusplus
}
#endif
#endif
