/* SPDX-License-Identifier: Apache-2.0
 *
 * What the contract tests of environments run on: a runtime, and a provider over a daemon. The
 * daemon is the one TC_DAEMON names, by default the one built here. */
#ifndef TC_TEST_ENV_FIXTURE_H
#define TC_TEST_ENV_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/num.h"
#include "plat/proc.h"
#include "plat/thread.h"
#include <stdio.h>
#include <stdlib.h>
#include <telechir/env.h>

typedef struct fixture fixture;

/* One way to a daemon. start returns NULL, or why this machine cannot have it: the program is then
 * skipped with that reason. kill ends the daemon without a farewell.
 *   is_pi     speaks pi-env: the ExecutionEnv interface is native
 *   has_ext   the daemon is ours: there is the rest, too
 *   is_lazy   needs no ready */
typedef struct provider {
    const char *name;
    bool is_pi, has_ext, is_lazy, is_http, is_tls;
    const char *(*start)(fixture *f);
    void (*stop)(fixture *f);
    void (*stop_first)(fixture *f); /* while the runtime is still open */
    int (*make)(fixture *f, tc_env_options *options, tc_env **ret_env);
    void (*kill)(fixture *f, tc_env *env);
} provider;

extern const provider local_provider, reference_provider, local_envd_provider, http_envd_provider,
    https_envd_provider, websocket_envd_provider, host_provider, ssh_provider;

struct fixture {
    const provider *p;
    bool is_http, is_tls;
    tc_runtime *rt;
    tc_result *r;
    tc_err err;
    char root[2048];   /* folder of this provider's tests */
    char daemon[2048]; /* program */
    /* http */
    char endpoint[64];
    char credential_file[2200];
    char ca_file[2200], key_file[2200]; /* with is_tls; made by with_daemon */
    tci_child child;
    void *own; /* the provider's */
};

/* The first argument of the program says which provider. False, and a reason on standard output: it
 * cannot be had here (return TEST_SKIPPED). */
enum { TEST_SKIPPED = 77 };
bool fixture_choose(int argc, char **argv);
/* For cmocka's group set-up. */
int fixture_open(void **state);
int fixture_close(void **state);
/* Skip the test, saying so, unless the provider fits. */
#define only_if(f, member)                                             \
    do {                                                               \
        if (!(f)->p->member) {                                         \
            print_message("not over %s: " #member "\n", (f)->p->name); \
            skip();                                                    \
        }                                                              \
    } while (0)
#define not_if(f, member)                                               \
    do {                                                                \
        if ((f)->p->member) {                                           \
            print_message("not over %s: !" #member "\n", (f)->p->name); \
            skip();                                                     \
        }                                                               \
    } while (0)

tc_str text(const char *cstr);
/* A folder below root, made anew: "root/name". Lives as long as the fixture's result. */
tc_str folder(fixture *f, const char *name);
tc_env_options env_options(tc_str cwd);
/* How to reach the daemon behind HTTP. */
tc_http_options http_options(fixture *f);
/* Create only. */
int make_env_with(fixture *f, tc_env_options *options, tc_env **ret_env);
/* A ready adapter in cwd; fails the test otherwise. */
tc_env *make_env(fixture *f, tc_str cwd);
tc_call plain_call(fixture *f);
/* End the daemon behind everything, without a farewell. */
void kill_daemon(fixture *f, tc_env *env);
/* The same for one that a command can be run in: it ends its own ancestor. */
void kill_daemon_from_inside(fixture *f, tc_env *env);
bool file_exists(const char *path);

#define assert_ok(f, expr)                                                         \
    do {                                                                           \
        int assert_rc = (expr);                                                    \
        if (assert_rc != 0)                                                        \
            fail_msg("%s: %s (%s)", #expr, (f)->err.msg, tc_code_name(assert_rc)); \
    } while (0)
#define assert_code(f, code, expr)                                               \
    do {                                                                         \
        int assert_rc = (expr);                                                  \
        if (assert_rc != (code))                                                 \
            fail_msg("%s: %s instead of %s: %s", #expr, tc_code_name(assert_rc), \
                     tc_code_name(code), assert_rc != 0 ? (f)->err.msg : "");    \
    } while (0)
#define assert_text(s, cstr)                                                \
    do {                                                                    \
        tc_str assert_s = (s);                                              \
        if (!tci_str_eq(assert_s, tci_str(cstr)))                           \
            fail_msg("'%.*s' instead of '%s'", TC_STR_ARG(assert_s), cstr); \
    } while (0)

#endif
