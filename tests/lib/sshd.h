/* SPDX-License-Identifier: Apache-2.0
 *
 * An ssh server of a test's own, by tests/lib/sshd: loopback, own keys, no set-up, no root. A test
 * says which home and which login shell whoever logs in gets. */
#ifndef TC_TEST_SSHD_H
#define TC_TEST_SSHD_H

#include <stdbool.h>

typedef struct tc_sshd {
    char dir[2048];     /* the server's files; id is the key to log in with */
    char home[2048];    /* of those who log in */
    char id[2100];      /* path of the private key */
    char host_key[512]; /* "ssh-ed25519 base64" */
    char user[128];
    unsigned port;
    bool is_running;
} tc_sshd;

/* Start one with its files in dir. prepare: a script that runs in a mount namespace of its own
 * before; NULL: none. Returns NULL, or why this machine cannot run one (static storage): the test
 * is then skipped with that reason. Anything else that goes wrong ends the program. */
const char *tc_sshd_start(tc_sshd *s, const char *dir, const char *prepare);
void tc_sshd_stop(tc_sshd *s);
/* From the next login on: the home folder (made when missing) and the login shell. */
void tc_sshd_login(tc_sshd *s, const char *home, const char *shell);
/* Sourced by the account's sh before its shell runs; NULL: nothing. */
void tc_sshd_before(tc_sshd *s, const char *script);
/* Accept the server's key in a known hosts file, under alias. */
void tc_sshd_trust(const tc_sshd *s, const char *known_hosts, const char *alias);
/* How often text is in the server's log. */
unsigned tc_sshd_log_count(const tc_sshd *s, const char *text);

/* Small helpers of the same kind: write a file (folders are made), with a mode; read one (NULL when
 * missing; static storage, one at a time). */
void tc_test_write(const char *path, const char *text, unsigned mode);
const char *tc_test_read(const char *path);

#endif
