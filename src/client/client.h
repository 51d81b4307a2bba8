/* SPDX-License-Identifier: Apache-2.0
 *
 * What the environment providers need of a runtime beyond the public calls. Any thread. */
#ifndef TCI_CLIENT_H
#define TCI_CLIENT_H

#include "base/arena.h"
#include "plat/call.h"
#include <telechir/client.h>

/* Another reference to the runtime's memory (not to its being open). */
tc_runtime *tci_runtime_retain(tc_runtime *rt);
void tci_runtime_release(tc_runtime *rt);
/* A variable of the runtime's environment; NULL when unset. Lives as long as the runtime. */
const char *tci_runtime_getenv(const tc_runtime *rt, const char *name);
/* The value behind a secret reference, in r. NOT_FOUND when missing or empty; the message names the
 * reference, never the value. */
int tci_runtime_secret(tc_runtime *rt, tc_str kind, tc_str name, tc_result *r, tc_str *ret_value,
                       tc_err *err) TC_CHECKED;

/* The loop that everything of the runtime is on, for what else is to run there: work on it by
 * tci_runtime_run, and let go of all of it before the runtime closes. */
struct tci_loop *tci_runtime_loop(const tc_runtime *rt);
/* Run fn on the loop thread and wait for it; false, and nothing done, when the runtime is closed. */
bool tci_runtime_run(tc_runtime *rt, void (*fn)(void *arg), void *arg);

/* The runtime's one connection for key, made by make when there is none or the one there is
 * lost; a second caller waits for the first one's connect. ret_device is a reference of the
 * caller's; the runtime holds its own until it closes. */
typedef int (*tci_connect_fn)(void *arg, tc_ctx *ctx, tc_device **ret_device, tc_err *err);
int tci_runtime_shared_device(tc_runtime *rt, tc_str key, tc_ctx *ctx, tci_connect_fn make,
                              void *arg, tc_device **ret_device, tc_err *err) TC_CHECKED;

/* The runtime a device belongs to; borrowed. */
tc_runtime *tci_device_runtime(const tc_device *d);
/* An executable regular file: name itself when it is an absolute path, else the first on the
 * runtime's PATH. NOT_FOUND. */
int tci_find_program(const tc_runtime *rt, tc_str name, tci_arena *a, tc_str *ret_path,
                     tc_err *err) TC_CHECKED;
bool tci_is_program(tc_str path);
/* The runtime's environment, NULL at the end; lives as long as the runtime. */
const char *const *tci_runtime_environ(const tc_runtime *rt);
/* Called once, after the device's connection (and its child) is gone. */
void tci_device_on_end(tc_device *d, void (*fn)(void *arg), void *arg);
/* End a session as tc_session_close does, but keep the handle: calls under way end with CLOSED. */
int tci_session_end(tc_session *s, tc_ctx *ctx, tc_err *err);
/* Both streams of a command to their ends, whichever has something first. Ends with the stream's
 * last word in ret_out and ret_err, whose texts live in r. */
int tci_session_follow_both(
    tc_session *s, tc_ctx *ctx, tc_result *r, tc_str out_reference, tc_str err_reference,
    int (*sink)(void *user, bool is_err, const void *bytes, size_t len, tc_err *err), void *user,
    tc_output *ret_out, tc_output *ret_err, tc_err *err) TC_CHECKED;
/* As POSIX numbers it; 0 for none. */
int tci_signal_number(tc_signal s);
/* Are two boundaries the same? */
bool tci_boundary_eq(const tc_boundary *a, const tc_boundary *b);

#endif
