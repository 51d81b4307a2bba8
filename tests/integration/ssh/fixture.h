/* SPDX-License-Identifier: Apache-2.0
 *
 * What the groups share: a server, a target for it, a stand-in for the daemon, and starting that over
 * ssh. */
#ifndef TC_TEST_SSH_FIXTURE_H
#define TC_TEST_SSH_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "env/ssh/ssh_int.h"
#include "plat/fd.h"
#include "plat/file.h"
#include "sshd.h"

extern const struct CMUnitTest trust_tests[], deploy_tests[], login_tests[], places_tests[],
    links_tests[];
extern const size_t ntrust_tests, ndeploy_tests, nlogin_tests, nplaces_tests, nlinks_tests;

/* The script that makes the mounts of the group "places". */
const char *places_prepare(void);

#define TOKEN "00112233445566778899aabbccddeeff"

/* One for a group: the server is started by the first test and lives until the end. */
typedef struct fixture {
    tc_sshd sshd;
    tc_runtime *rt;
    tc_result *r;
    char dir[2048];
    char known_hosts[2100];
    char daemon[2100]; /* the stand-in */
    char log[262144];  /* what was logged since setup */
    size_t log_len;
    tc_ssh_options options;
    int64_t start_ms;
    tc_err err;
} fixture;

extern fixture fix;

/* Start the group's server, with a prepare script (NULL: none). NULL, or why it cannot be. */
const char *fixture_start(const char *prepare);
void fixture_stop(void);

/* Before and after each test: a fresh home, an accepted host key, a stand-in daemon. */
int setup(void **state);
int teardown(void **state);
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

/* A daemon that was started, and what the stand-in said about itself. */
typedef struct started {
    tci_pi_child child;
    char said[8192]; /* everything before the end of its second line */
    char facts[4096];
} started;

/* Start once; on success *s is the caller's to end. */
int start(started *s);
void end(started *s);
/* start and end; asserts success. facts of the stand-in. */
const char *start_and_end(void);
/* The value of a fact: "home", "pwd", "umask", "X", "argv", "pid", "env". Static storage. */
const char *fact(const char *facts, const char *name);

/* Write the stand-in; extra: more sh code that runs before it says anything. */
void write_daemon(const char *extra);
/* A file in the test's folder, made of pieces; static storage, a few at a time. */
const char *path_of(const char *name);
void run_cleanup(const char *path);
/* A command of sh's: its exit status. */
int run_command(const char *command);
/* Names in a folder that begin with prefix: how many; the last one's name in ret (may be NULL). */
unsigned count_names(const char *folder, const char *prefix, char ret[256]);
const char *deployed_folder(void); /* of the fixture's home */
unsigned nlogins(void);            /* the server has let in so far */
void mark_logins(void);            /* 0 from here */

#endif
